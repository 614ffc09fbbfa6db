//! Names of files that `ftl` makes beside its store. Upkeep removes nothing whose name is none of these, whatever
//! folder it lies in: `thesis.odt` is no attempt.

use std::ffi::OsStr;

use ftl_folder::id::{RUN_ID_LETTERS, RunId};

/// How a key begins that belongs to no run: a service is asked whether it answers.
const ONCE: &str = "once";

/// What a run leaves below `scripts`.
const SCRIPT_ENDINGS: [&str; 5] = ["toml", "plan.json", "only-plans", "wishes.json", "ledger"];

/// The name of an attempt's file: its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AttemptKey {
    /// An attempt of a run, such as `k3v9x2qa.12.0` or `k3v9x2qa.12.0.p1`.
    OfRun(RunId),
    /// One of no run, such as `once.00c0ffee00c0ffee`.
    Once,
}

impl AttemptKey {
    /// Reads a name; nothing if it is no key.
    pub(super) fn of(name: &OsStr) -> Option<AttemptKey> {
        let mut parts = name.to_str()?.split('.');
        let first = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        if first == ONCE {
            return (rest.len() == 1 && is_hex(rest[0])).then_some(AttemptKey::Once);
        }
        let [entry, index, more @ ..] = rest.as_slice() else { return None };
        let is_word = |part: &&str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let fits = is_number(entry) && is_number(index) && more.iter().all(is_word);
        first.parse().ok().filter(|_| fits).map(AttemptKey::OfRun)
    }
}

/// The run that a file below `scripts` belongs to; nothing if it is none of ours.
pub(super) fn run_of_script(name: &OsStr) -> Option<RunId> {
    let name = name.to_str()?;
    let name = name.strip_prefix('.').map_or(Some(name), unfinished)?;
    let (run, ending) = name.split_at_checked(RUN_ID_LETTERS)?;
    let is_ours = ending.strip_prefix('.').is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending));
    run.parse().ok().filter(|_| is_ours)
}

/// Whether a file below `spool` is one of those that have a name for a moment only.
pub(super) fn is_spool(name: &OsStr) -> bool {
    let is_of_tempfile =
        |rest: &str| rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    name.to_str().is_some_and(|name| {
        name.strip_prefix(".tmp").is_some_and(is_of_tempfile)
            || name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp")).is_some_and(is_hex)
    })
}

/// Whether a file was to replace another one, and the process that wrote it was killed: `.name.0123456789abcdef.tmp`.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix('.'))
        .and_then(unfinished)
        .is_some_and(|name| !name.is_empty())
}

/// The name of the file that a file beside it was to replace: `name.0123456789abcdef.tmp`.
fn unfinished(name: &str) -> Option<&str> {
    let (name, own) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
    is_hex(own).then_some(name)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_are_told_from_all_others() {
        for name in ["k3v9x2qa.12.0", "k3v9x2qa.12.0.p1", "k3v9x2qa.12.0.verify.3", "once.00c0ffee00c0ffee"] {
            assert!(AttemptKey::of(OsStr::new(name)).is_some(), "{name}");
        }
        for name in [
            "thesis.odt",
            "k3v9x2qa",
            "k3v9x2qa.",
            "k3v9x2qa.x.0",
            "k3v9x2qa.12",
            "k3v9x2qa.12.0.",
            "k3v9x2qa.12.0. x",
            "once.1",
            "once",
            ".k3v9x2qa.12.0",
            "K3V9X2QA.1.0",
            "k3v9x2qa.12.0.a/b",
            "once.00c0ffee00c0ffee.x",
        ] {
            assert_eq!(AttemptKey::of(OsStr::new(name)), None, "{name}");
        }
        for name in ["k3v9x2qa.toml", "k3v9x2qa.plan.json", ".k3v9x2qa.toml.0123456789abcdef.tmp"] {
            assert!(run_of_script(OsStr::new(name)).is_some(), "{name}");
        }
        for name in
            ["thesis.odt", "k3v9x2qa.odt", "k3v9x2qatoml", ".k3v9x2qa.toml", "k3v9x2qa", "é3v9x2qa.toml"]
        {
            assert_eq!(run_of_script(OsStr::new(name)), None, "{name}");
        }
        for (name, ours) in
            [(".tmpAb12Zz", true), (".0123456789abcdef.tmp", true), (".tmp", false), ("tmpAb12Zz", false)]
        {
            assert_eq!(is_spool(OsStr::new(name)), ours, "{name}");
        }
        for (name, ours) in [
            (".campaign.json.0123456789abcdef.tmp", true),
            ("campaign.json.0123456789abcdef.tmp", false),
            (".campaign.json.tmp", false),
            ("..0123456789abcdef.tmp", false),
            (".thesis.0123456789ABCDEF.tmp", false),
        ] {
            assert_eq!(is_unfinished(OsStr::new(name)), ours, "{name}");
        }
    }
}
