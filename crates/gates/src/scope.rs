//! The scope gate: what differs is what the delta names.
//!
//! A file is inside when the delta names it or a folder above it; that goes for new files, changed ones,
//! deleted ones, modes and links alike. The gate knows no exceptions of its own but one: the lock file of a
//! manifest that the delta names changes with it, and is only noted.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use ftl_code::finding::{Brief, Finding, FindingKind, settled};
use ftl_code::names::bare;
use ftl_git::change::{Change, Content, EntryKind, FileChange};

/// Manifests and the lock files that tools write when a manifest changes.
const LOCKS: [(&str, &[&str]); 8] = [
    ("Cargo.toml", &["Cargo.lock"]),
    (
        "package.json",
        &["package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "npm-shrinkwrap.json"],
    ),
    ("pyproject.toml", &["poetry.lock", "uv.lock", "pdm.lock"]),
    ("Pipfile", &["Pipfile.lock"]),
    ("go.mod", &["go.sum"]),
    ("Gemfile", &["Gemfile.lock"]),
    ("composer.json", &["composer.lock"]),
    ("mix.exs", &["mix.lock"]),
];

/// What differs outside the delta, and links that lead out of the repository.
pub fn look(change: &Change, brief: &Brief) -> Vec<Finding> {
    let delta: BTreeSet<&str> = brief.delta.iter().map(|entry| bare(entry)).collect();
    let mut findings = Vec::new();
    for file in &change.files {
        if !is_inside(&file.path, &delta) {
            findings.push(outside(change, file, &delta));
        }
        findings.extend(link_outside(file));
    }
    settled(findings)
}

/// Whether a path or a folder above it is named. A name that was no UTF-8 is inside nothing, and so is what
/// belongs to git.
fn is_inside(path: &str, delta: &BTreeSet<&str>) -> bool {
    let is_git = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    let above = path.match_indices('/').map(|(end, _)| &path[..end]).chain([path]);
    !is_git && !path.contains('\u{fffd}') && above.into_iter().any(|part| delta.contains(part))
}

fn outside(change: &Change, file: &FileChange, delta: &BTreeSet<&str>) -> Finding {
    let what = what_happened(change, file);
    match manifest_of(&file.path, delta) {
        Some(manifest) => {
            let message = format!("it {what}, as the lock file of {manifest}, which the delta names");
            Finding::note(FindingKind::OutsideDelta, &file.path, None, message)
        }
        None => {
            let message = format!("it {what}, and the delta does not name it");
            Finding::block(FindingKind::OutsideDelta, &file.path, None, message)
        }
    }
}

/// The manifest in the delta whose lock file this is: beside it, or somewhere below its folder.
fn manifest_of<'a>(path: &str, delta: &BTreeSet<&'a str>) -> Option<&'a str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (manifest, _) = LOCKS.iter().find(|(_, locks)| locks.contains(&name))?;
    let fits = |entry: &&&str| {
        let (at, entry_name) = entry.rsplit_once('/').unwrap_or(("", entry));
        entry_name == *manifest
            && (folder.is_empty() || at == folder || at.starts_with(&format!("{folder}/")))
    };
    delta.iter().find(fits).copied()
}

fn what_happened(change: &Change, file: &FileChange) -> String {
    match (&file.before, &file.after) {
        (None, Some(after)) => format!("is new{}", kind_of(after)),
        (Some(before), None) => match renamed_to(change, before) {
            Some(to) => format!("is gone, renamed to {to}"),
            None => "is gone".to_owned(),
        },
        (Some(before), Some(after)) if before.kind != after.kind => {
            format!("was {} and is now {}", kind_name(before.kind), kind_name(after.kind))
        }
        (Some(_), Some(_)) | (None, None) => "differs".to_owned(),
    }
}

fn kind_of(content: &Content) -> String {
    match content.kind {
        EntryKind::File => String::new(),
        EntryKind::Executable | EntryKind::Link | EntryKind::Submodule => {
            format!(" ({})", kind_name(content.kind))
        }
    }
}

fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "a file",
        EntryKind::Executable => "a file that can be run",
        EntryKind::Link => "a link",
        EntryKind::Submodule => "a submodule",
    }
}

/// Where the same bytes stand now. Looked for only while there are few new files: it is a kindness, not a
/// finding.
fn renamed_to<'a>(change: &'a Change, before: &Content) -> Option<&'a str> {
    const MAX_LOOKED_AT: usize = 200;
    let bytes = before.bytes.as_deref().filter(|bytes| !bytes.is_empty())?;
    let new = change.files.iter().filter(|file| file.is_new()).take(MAX_LOOKED_AT);
    let same = |file: &&FileChange| file.after.as_ref().and_then(|it| it.bytes.as_deref()) == Some(bytes);
    new.into_iter().find(same).map(|file| file.path.as_str())
}

fn link_outside(file: &FileChange) -> Option<Finding> {
    let after = file.after.as_ref().filter(|after| after.kind == EntryKind::Link)?;
    if file.before.as_ref() == Some(after) {
        return None;
    }
    let Some(target) = after.text() else {
        return Some(Finding::block(FindingKind::LinkOutside, &file.path, None, "its target is no text"));
    };
    let message = format!("it is a link to {target:?}, which is outside the repository");
    leaves(&file.path, target).then(|| Finding::block(FindingKind::LinkOutside, &file.path, None, message))
}

/// Whether a link at a path leads out of the folder that paths start from, by its text alone.
fn leaves(path: &str, target: &str) -> bool {
    let mut depth = path.split('/').count() - 1;
    for part in Path::new(target).components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::Normal(name) if name.eq_ignore_ascii_case(".git") => return true,
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::tests::change_of;
    use ftl_code::finding::render_findings;

    /// One line a case: the delta, what differs (`+new ~changed -gone xmode lLINK>target`), the findings.
    const CASES: &str = "
        src/a.py              | ~src/a.py                  |
        ./src/a.py            | ~src/a.py                  |
        src                   | ~src/a.py +src/deep/b.py   |
        src/                  | -src/a.py                  |
        src                   | ~src2/a.py                 | src2/a.py: outside_delta: it differs, and the delta does not name it
        src/a.py              | ~src/a.py ~src/b.py        | src/b.py: outside_delta: it differs, and the delta does not name it
        src/a.py              | +src/b.py                  | src/b.py: outside_delta: it is new, and the delta does not name it
        src/a.py              | -src/b.py                  | src/b.py: outside_delta: it is gone, and the delta does not name it
        src/a.py              | xsrc/b.sh                  | src/b.sh: outside_delta: it was a file and is now a file that can be run, and the delta does not name it
        src/b.sh              | xsrc/b.sh                  |
        src/a.py              | lsrc/l>a.py                | src/l: outside_delta: it is new (a link), and the delta does not name it
        src                   | lsrc/l>a.py                |
        src                   | lsrc/l>../docs             |
        src                   | lsrc/l>../../docs          | src/l: link_outside: it is a link to \"../../docs\", which is outside the repository
        src                   | lsrc/l>/etc/passwd         | src/l: link_outside: it is a link to \"/etc/passwd\", which is outside the repository
        src                   | lsrc/l>../.git/config      | src/l: link_outside: it is a link to \"../.git/config\", which is outside the repository
        a.py                  | ~a.py.bak                  | a.py.bak: outside_delta: it differs, and the delta does not name it
        Cargo.toml            | ~Cargo.toml ~Cargo.lock    | Cargo.lock: outside_delta: it differs, as the lock file of Cargo.toml, which the delta names (noted)
        crates/a/Cargo.toml   | ~Cargo.lock                | Cargo.lock: outside_delta: it differs, as the lock file of crates/a/Cargo.toml, which the delta names (noted)
        src/a.rs              | ~Cargo.lock                | Cargo.lock: outside_delta: it differs, and the delta does not name it
        web/package.json      | ~api/yarn.lock             | api/yarn.lock: outside_delta: it differs, and the delta does not name it
        .                     | ~a.py                      | a.py: outside_delta: it differs, and the delta does not name it
        src                   | ~src/.git/config           | src/.git/config: outside_delta: it differs, and the delta does not name it
        src                   | +src/\u{fffd}.py           | src/\u{fffd}.py: outside_delta: it is new, and the delta does not name it";

    #[test]
    fn what_the_delta_does_not_name_is_named() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let delta = cells[0].split_whitespace().map(str::to_owned).collect();
            let brief = Brief { delta, ..Brief::default() };
            assert_eq!(render_findings(&look(&change_of(cells[1]), &brief)), cells[2], "{line}");
        }
    }

    #[test]
    fn a_rename_says_where_to() {
        let mut change = change_of("-old.py +new.py");
        for file in &mut change.files {
            for side in [&mut file.before, &mut file.after].into_iter().flatten() {
                side.bytes = Some(b"same".to_vec());
            }
        }
        let brief = Brief { delta: vec!["new.py".to_owned()], ..Brief::default() };
        let found = render_findings(&look(&change, &brief));
        assert_eq!(
            found,
            "old.py: outside_delta: it is gone, renamed to new.py, and the delta does not name it"
        );
    }

    #[test]
    fn ten_thousand_files_are_looked_at_quickly() {
        let words: Vec<String> = (0..10_000).map(|number| format!("~src/{number}/a.py")).collect();
        let change = change_of(&words.join(" "));
        let delta: Vec<String> = (0..5_000).map(|number| format!("src/{number}")).collect();
        let found = look(&change, &Brief { delta, ..Brief::default() });
        assert_eq!(found.len(), crate::MAX_FINDINGS);
        assert_eq!(found.last().unwrap().kind, FindingKind::MoreFindings);
    }
}
