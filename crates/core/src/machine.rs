//! Trouble of the machine, and what tells it from trouble of the work.
//!
//! A failing or full disk, no memory, no descriptors, a damaged repository: none of it says anything about
//! the task at hand. The code that meets such an error asks here, so that the same error is the same thing from
//! the system call to the protocol. Nothing here looks at the machine; numbers and words are arguments.

use crate::run::{Failure, FailureKind};

/// What is wrong with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineCause {
    /// A read, a write or a sync fails, or the file system is damaged.
    Disk,
    /// No room, no inodes or no quota is left.
    Space,
    /// Nothing may be written.
    ReadOnly,
    /// No descriptors are left.
    Descriptors,
    /// No memory is left, or no further process can be had.
    Memory,
    /// The repository, or what is kept beside it, is damaged.
    Repository,
    /// A process of ours could not be started or spoken to.
    Process,
    /// What the repository's own commands need is not there: a program, a package, a service.
    Environment,
}

/// The error numbers of Linux, by what they say about the machine.
const NUMBERS: [(i32, MachineCause); 8] = [
    (5, MachineCause::Disk),         // EIO
    (12, MachineCause::Memory),      // ENOMEM
    (23, MachineCause::Descriptors), // ENFILE
    (24, MachineCause::Descriptors), // EMFILE
    (28, MachineCause::Space),       // ENOSPC
    (30, MachineCause::ReadOnly),    // EROFS
    (117, MachineCause::Disk),       // EUCLEAN
    (122, MachineCause::Space),      // EDQUOT
];

/// The number that a process or thread is refused with: EAGAIN. Elsewhere it only says to try again.
const AGAIN: i32 = 11;

/// Words of system errors, in small letters.
const SYSTEM: [(&str, MachineCause); 11] = [
    ("input/output error", MachineCause::Disk),
    ("structure needs cleaning", MachineCause::Disk),
    ("no space left on device", MachineCause::Space),
    ("disk quota exceeded", MachineCause::Space),
    ("read-only file system", MachineCause::ReadOnly),
    ("too many open files", MachineCause::Descriptors),
    ("cannot allocate memory", MachineCause::Memory),
    ("resource temporarily unavailable", MachineCause::Memory),
    ("out of memory", MachineCause::Memory),
    ("unable to create thread", MachineCause::Memory),
    ("unable to create async", MachineCause::Memory),
];

/// Words by which git tells of a damaged repository, in small letters.
const DAMAGE: [&str; 22] = [
    "invalid object",
    "bad object",
    "bad tree object",
    "bad revision",
    "not a valid object",
    "not a git repository",
    "unable to read",
    "failed to read",
    "could not read",
    "cannot read object",
    "unable to find",
    "is corrupt",
    "file corrupt",
    "is empty",
    "missing blob",
    "missing tree",
    "missing commit",
    "bad sha1",
    "bad index file",
    "bad config",
    "could not parse",
    "cannot be accessed",
];

/// How reports of our own begin that are about the machine: as they stand in what earlier versions wrote.
const OWN_REPORTS: [&str; 4] = [
    "what was done could not be put on the disk",
    "the guard process cannot be started",
    "the guard process ended or was silent",
    "no thread could be started",
];

/// What may stand before such a report.
const WRAPPERS: [&str; 3] =
    ["died 3 times: ", "what would land could not be verified: ", "the command could not be run: "];

impl MachineCause {
    /// What an error number of a system call says about the machine; nothing where it says nothing.
    pub fn of_errno(errno: i32) -> Option<MachineCause> {
        NUMBERS.iter().find(|(number, _)| *number == errno).map(|(_, cause)| *cause)
    }

    /// The same for a process or a thread that could not be started.
    pub fn of_start(errno: i32) -> Option<MachineCause> {
        if errno == AGAIN { Some(MachineCause::Memory) } else { MachineCause::of_errno(errno) }
    }

    /// What the words of a system error say about the machine, where the number is lost.
    pub fn of_words(said: &str) -> Option<MachineCause> {
        let said = without_names(said).to_lowercase();
        SYSTEM.iter().find(|(words, _)| said.contains(words)).map(|(_, cause)| *cause)
    }

    /// What an error of a system call says about the machine: by its number, or by its words where it was wrapped on
    /// its way and has no number.
    pub fn of_error(errno: Option<i32>, words: &str) -> Option<MachineCause> {
        errno.map_or_else(|| MachineCause::of_words(words), MachineCause::of_errno)
    }

    /// The same for a process or thread that could not be started.
    pub fn of_start_error(errno: Option<i32>, words: &str) -> Option<MachineCause> {
        errno.map_or_else(|| MachineCause::of_words(words), MachineCause::of_start)
    }

    /// What the words of git say about the machine.
    pub fn of_git(said: &str) -> Option<MachineCause> {
        let found = MachineCause::of_words(said);
        let lower = without_names(said).to_lowercase();
        found.or_else(|| DAMAGE.iter().any(|words| lower.contains(words)).then_some(MachineCause::Repository))
    }

    /// What a report of ours says about the machine, such as why something was blocked: only what git and we
    /// ourselves say counts, never what a command printed.
    pub fn of_report(report: &str) -> Option<MachineCause> {
        let report =
            WRAPPERS.iter().fold(report.trim(), |report, begin| report.strip_prefix(begin).unwrap_or(report));
        if OWN_REPORTS.iter().any(|begin| report.starts_with(begin)) {
            return Some(MachineCause::of_words(report).unwrap_or(MachineCause::Process));
        }
        let (_, said) = report.strip_prefix("`git ")?.split_once("` failed: ")?;
        MachineCause::of_git(said)
    }

    /// What a person does about it.
    pub const fn hint(self) -> &'static str {
        match self {
            MachineCause::Disk => "see to the disk, then run `ftl resume` with the run's name",
            MachineCause::Space => {
                "make room on the disk (bytes and inodes), then run `ftl resume` with the run's name"
            }
            MachineCause::ReadOnly => {
                "make the file system writable, then run `ftl resume` with the run's name"
            }
            MachineCause::Descriptors => "raise `ulimit -n`, then run `ftl resume` with the run's name",
            MachineCause::Memory => {
                "free memory or raise `ulimit -v` and `ulimit -u`, then run `ftl resume` with the run's name"
            }
            MachineCause::Repository => {
                "run `ftl resume` with the run's name, which reads the worktrees again; if that fails, `git fsck` and `ftl doctor` tell what to bring back"
            }
            MachineCause::Environment => {
                "install what is missing where PATH finds it, pass a variable on under [environment] or set worktree.setup in ftl.toml, then run `ftl resume` with the run's name"
            }
            MachineCause::Process => {
                "look whether the machine is out of processes, memory or descriptors, then run `ftl resume` with the run's name"
            }
        }
    }

    /// What went wrong, as a failure that holds its action.
    pub fn failure(self, message: impl Into<String>) -> Failure {
        let message = message.into();
        let told = message.contains("ftl resume");
        let message = if told { message } else { format!("{message} (hint: {})", self.hint()) };
        Failure::new(FailureKind::Machine, message)
    }
}

/// What a report says without the names of files in it, which any commit can choose: text in quotes, words
/// that are paths, and lines that tell of a merge, whose names git does not quote.
fn without_names(said: &str) -> String {
    let tells = |part: &&str| {
        let part = part.trim_start();
        !part.starts_with("CONFLICT (") && !part.starts_with("Auto-merging ")
    };
    let parts: Vec<&str> = said.split('\n').flat_map(|line| line.split("; ")).filter(tells).collect();
    let text = without_quotes(&parts.join("; "));
    let is_path = |word: &&str| {
        word.contains('/') && !word.to_lowercase().trim_start_matches('(').starts_with("input/")
    };
    text.split(' ').filter(|word| !is_path(word)).collect::<Vec<_>>().join(" ")
}

/// A text without its parts in quotes. A quote that does not begin a word, such as an apostrophe, or that
/// nothing ends, is none.
fn without_quotes(text: &str) -> String {
    let (mut out, mut rest, mut before) = (String::new(), text, ' ');
    while let Some(one) = rest.chars().next() {
        let behind = &rest[one.len_utf8()..];
        let opens = matches!(one, '\'' | '"' | '`') && !before.is_alphanumeric();
        let end = if opens { end_of_quote(behind, one) } else { None };
        rest = match end {
            Some(end) => &behind[end..],
            None => {
                out.push(one);
                behind
            }
        };
        before = one;
    }
    out
}

/// Where a quote ends: behind the first such mark that no letter follows.
fn end_of_quote(text: &str, mark: char) -> Option<usize> {
    let ends = |(at, _): &(usize, &str)| {
        text[at + mark.len_utf8()..].chars().next().is_none_or(|next| !next.is_alphanumeric())
    };
    text.match_indices(mark).find(ends).map(|(at, _)| at + mark.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_nothing_about_the_machine() {
        for said in [
            "error: pathspec 'no space left on device' did not match any file(s) known to git",
            "error: open(\"is corrupt\"): Permission denied; fatal: adding files failed",
            "CONFLICT (content): Merge conflict in bad object.txt",
            "Auto-merging input/output error\nfatal: no merge",
            "fatal: 'notes/not a git repository' is outside repository",
            "`is empty`: Permission denied (os error 13)",
        ] {
            assert_eq!(MachineCause::of_git(said), None, "{said}");
        }
        for (said, cause) in [
            ("error: can't write 'a b': No space left on device", MachineCause::Space),
            ("error: unable to write file 'x.txt: Input/output error", MachineCause::Disk),
            ("fatal: write error on '.git/x' (Input/output error)", MachineCause::Disk),
            ("error: object file .git/objects/12/34 is empty", MachineCause::Repository),
        ] {
            assert_eq!(MachineCause::of_git(said), Some(cause), "{said}");
        }
    }

    #[test]
    fn numbers_and_words_of_one_error_say_the_same() {
        let cases = [
            (5, "Input/output error", MachineCause::Disk),
            (12, "Cannot allocate memory", MachineCause::Memory),
            (24, "Too many open files", MachineCause::Descriptors),
            (23, "Too many open files in system", MachineCause::Descriptors),
            (28, "No space left on device", MachineCause::Space),
            (30, "Read-only file system", MachineCause::ReadOnly),
            (122, "Disk quota exceeded", MachineCause::Space),
        ];
        for (errno, words, cause) in cases {
            assert_eq!(MachineCause::of_errno(errno), Some(cause), "{words}");
            assert_eq!(MachineCause::of_words(&format!("`x`: {words} (os error {errno})")), Some(cause));
        }
        // What says something about the work, or nothing at all.
        for errno in [1, 2, 13, 17, 20, 21, 36, 40, AGAIN] {
            assert_eq!(MachineCause::of_errno(errno), None, "{errno}");
        }
        assert_eq!(MachineCause::of_start(AGAIN), Some(MachineCause::Memory));
        assert_eq!(MachineCause::of_words("No such file or directory (os error 2)"), None);
    }

    #[test]
    fn git_tells_of_damage_and_of_work() {
        let damage = [
            "error: invalid object 100644 1234 for 'a.py'; fatal: git-write-tree: error building trees",
            "fatal: unable to read tree (4b825dc6)",
            "error: object file .git/objects/12/34 is empty; fatal: loose object 1234 is corrupt",
            "fatal: not a git repository: '/x/.git'",
            "fatal: bad object HEAD",
        ];
        for said in damage {
            assert_eq!(MachineCause::of_git(said), Some(MachineCause::Repository), "{said}");
        }
        assert_eq!(
            MachineCause::of_git("error: write failed: No space left on device"),
            Some(MachineCause::Space)
        );
        let work = [
            "CONFLICT (content): Merge conflict in a.py",
            "fatal: refusing to merge unrelated histories",
            "error: open(\"a\"): Permission denied; fatal: adding files failed",
        ];
        for said in work {
            assert_eq!(MachineCause::of_git(said), None, "{said}");
        }
    }

    #[test]
    fn only_reports_of_git_and_of_ours_are_about_the_machine() {
        let ours = [
            "`git write-tree` failed: error: invalid object 100644 12 for 'a'",
            "what was done could not be put on the disk: Input/output error (os error 5)",
            "the guard process cannot be started: Too many open files (os error 24)",
            "the command could not be run: the guard process cannot be started: Too many open files",
        ];
        for report in ours {
            assert!(MachineCause::of_report(report).is_some(), "{report}");
        }
        for report in ["2 tests failed: invalid object", "budget exhausted: No space left on device", ""] {
            assert_eq!(MachineCause::of_report(report), None, "{report}");
        }
    }

    #[test]
    fn a_failure_says_what_to_do_once() {
        let failure = MachineCause::Space.failure("`x`: No space left on device");
        assert_eq!(failure.kind, FailureKind::Machine);
        assert_eq!(failure.message.matches("ftl resume").count(), 1, "{failure:?}");
        assert_eq!(MachineCause::Disk.failure(failure.message.clone()).message, failure.message);
    }
}
