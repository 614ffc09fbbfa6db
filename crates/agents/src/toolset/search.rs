//! Search: lines of files by a regular expression, within limits.
//!
//! The engine of the expressions takes time that grows with the text alone, whatever a model writes. No
//! link is followed, and what git and `ftl` keep for themselves is not searched.

use ftl_core::tool_policy::KEPT;
use regex_lite::RegexBuilder;

use super::folder::{PathKind, Resolved, WorkFolder};
use crate::contract::SessionHost;

/// How many lines are found.
pub(super) const MAX_FOUND: usize = 200;

/// How many files are looked at.
pub(super) const MAX_FILES: usize = 50_000;

/// A larger file is passed over.
pub(super) const MAX_SEARCHED_BYTES: u64 = 1024 * 1024;

/// How much of a line is shown.
pub(super) const MAX_LINE_CHARS: usize = 300;

/// How deep folders are looked into.
const MAX_DEPTH: usize = 64;

/// How large a compiled expression may be.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// Finds lines below a path.
pub(super) fn search(
    folder: &WorkFolder,
    at: &Resolved,
    pattern: &str,
    host: &dyn SessionHost,
) -> Result<String, String> {
    let pattern = RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| format!("this is no regular expression: {error}"))?;
    let mut waiting = vec![(at.clone(), 0)];
    let (mut found, mut files) = (Vec::new(), 0);
    while let Some((path, depth)) = waiting.pop() {
        match folder.kind(&path) {
            Some(PathKind::Folder) if depth < MAX_DEPTH => {
                let entries = folder.list(&path).unwrap_or_default();
                let wanted = entries.iter().rev().filter(|(name, _)| !KEPT.iter().any(|kept| name == kept));
                waiting.extend(wanted.map(|(name, _)| (path.join(name), depth + 1)));
            }
            Some(PathKind::File) => {
                files += 1;
                let (bytes, size) = folder.read(&path, MAX_SEARCHED_BYTES).unwrap_or_default();
                if size <= MAX_SEARCHED_BYTES && !bytes.contains(&0) {
                    lines(&pattern, &path.text(), &String::from_utf8_lossy(&bytes), &mut found);
                }
            }
            Some(PathKind::Folder | PathKind::Other) => {}
            None if depth == 0 => return Err(format!("{} is not there", path.text())),
            None => {}
        }
        if found.len() >= MAX_FOUND || files >= MAX_FILES || host.is_cancelled() {
            found.truncate(MAX_FOUND);
            found.push(format!("[stopped after {} lines in {files} files: search for less]", found.len()));
            return Ok(found.join("\n"));
        }
    }
    Ok(if found.is_empty() { format!("nothing found in {files} files") } else { found.join("\n") })
}

fn lines(pattern: &regex_lite::Regex, path: &str, text: &str, found: &mut Vec<String>) {
    for (at, line) in text.lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
        let shown: String = line.chars().take(MAX_LINE_CHARS).collect();
        found.push(format!("{path}:{}: {shown}", at + 1));
        if found.len() >= MAX_FOUND {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Said, Verdict};

    struct Nobody;

    impl SessionHost for Nobody {
        fn rule(&self, _: &ftl_core::tool_policy::ToolCall) -> Verdict {
            Verdict::Allow
        }

        fn charge(&self, _: &ftl_core::run::Usage) -> Result<(), crate::contract::ChargeRefusal> {
            Ok(())
        }

        fn say(&self, _: Said<'_>) {}

        fn is_cancelled(&self) -> bool {
            false
        }
    }

    fn search_all(folder: &std::path::Path, pattern: &str) -> Result<String, String> {
        let folder = WorkFolder::open(folder).unwrap();
        search(&folder, &folder.resolve(".").unwrap(), pattern, &Nobody)
    }

    #[test]
    fn a_large_file_is_passed_over_and_a_long_line_is_cut() {
        let room = tempfile::tempdir().unwrap();
        let most = usize::try_from(MAX_SEARCHED_BYTES).unwrap();
        std::fs::write(room.path().join("fits"), format!("needle{}", "x".repeat(most - 6))).unwrap();
        std::fs::write(room.path().join("large"), format!("needle{}", "x".repeat(most - 5))).unwrap();
        let told = search_all(room.path(), "needle").unwrap();
        assert_eq!(told, format!("fits:1: needle{}", "x".repeat(MAX_LINE_CHARS - 6)));
    }

    #[test]
    fn folders_are_looked_into_so_deep_and_no_deeper() {
        let room = tempfile::tempdir().unwrap();
        let mut path = room.path().to_owned();
        for depth in 0..=MAX_DEPTH {
            std::fs::write(path.join("file"), format!("needle at {depth}")).unwrap();
            path.push("d");
            std::fs::create_dir(&path).unwrap();
        }
        let told = search_all(room.path(), "needle").unwrap();
        let deepest = MAX_DEPTH - 1;
        assert!(
            told.contains(&format!("needle at {deepest}"))
                && !told.contains(&format!("needle at {MAX_DEPTH}"))
        );
    }

    #[test]
    fn an_expression_has_a_size() {
        let room = tempfile::tempdir().unwrap();
        let error = search_all(room.path(), "(((a{100}){100}){100}){100}").unwrap_err();
        assert!(error.contains("this is no regular expression"), "{error}");
    }

    #[test]
    fn so_many_files_are_looked_at() {
        let room = tempfile::tempdir().unwrap();
        let first = room.path().join("0");
        std::fs::write(&first, "hay").unwrap();
        // Links to one file: each is a file of its own to a search.
        for number in 1..=MAX_FILES {
            let name = room.path().join(number.to_string());
            if std::fs::hard_link(&first, &name).is_err() {
                std::fs::write(&name, "hay").unwrap();
            }
        }
        let told = search_all(room.path(), "needle").unwrap();
        assert_eq!(told, format!("[stopped after 0 lines in {MAX_FILES} files: search for less]"));
    }
}
