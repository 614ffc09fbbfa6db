//! Search: lines of files by a regular expression, within limits.
//!
//! The engine of the expressions takes time that grows with the text alone, whatever a model writes. No
//! link is followed, and what git and `ftl` keep for themselves is not searched.

use ftl_core::desk::KEPT;
use regex_lite::RegexBuilder;

use super::folder::{Folder, Kind, Resolved};
use crate::contract::Desk;

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
    folder: &Folder,
    at: &Resolved,
    pattern: &str,
    desk: &dyn Desk,
) -> Result<String, String> {
    let pattern = RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| format!("this is no regular expression: {error}"))?;
    let mut waiting = vec![(at.clone(), 0)];
    let (mut found, mut files) = (Vec::new(), 0);
    while let Some((path, depth)) = waiting.pop() {
        match folder.kind(&path) {
            Some(Kind::Folder) if depth < MAX_DEPTH => {
                let entries = folder.list(&path).unwrap_or_default();
                let wanted = entries.iter().rev().filter(|(name, _)| !KEPT.iter().any(|kept| name == kept));
                waiting.extend(wanted.map(|(name, _)| (path.join(name), depth + 1)));
            }
            Some(Kind::File) => {
                files += 1;
                let (bytes, size) = folder.read(&path, MAX_SEARCHED_BYTES).unwrap_or_default();
                if size <= MAX_SEARCHED_BYTES && !bytes.contains(&0) {
                    lines(&pattern, &path.text(), &String::from_utf8_lossy(&bytes), &mut found);
                }
            }
            Some(Kind::Folder | Kind::Other) => {}
            None if depth == 0 => return Err(format!("{} is not there", path.text())),
            None => {}
        }
        if found.len() >= MAX_FOUND || files >= MAX_FILES || desk.is_cancelled() {
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
