//! The code a task is about to change, as its workspace shows it: some lines, what the file takes in and offers.
//!
//! Nothing in a repository may stop a brief from being written: folders, pipes, links that lead outside, binary and
//! huge files are left out or cut, with limits that have names. Source text is never changed on the way.

mod language;
mod surface;
mod symbols;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

pub use language::{
    Language, MAX_PARSED_BYTES, MAX_SYNTAX_ERRORS, SyntaxError, SyntaxReport, syntax_check, syntax_of_change,
};
pub use surface::{MAX_EXPORTS, MAX_IMPORTS};
pub use symbols::{MAX_SYMBOLS, Symbol, symbols};

use crate::names::check_path;

/// How many lines are shown of a file of which the plan names no lines.
pub const DEFAULT_LINES: usize = 60;

/// How many lines from the top are shown of a file of which the plan names lines.
pub const HEAD_LINES: usize = 15;

/// How much of a file is read.
pub const MAX_SOURCE_BYTES: u64 = 4 * 1024 * 1024;

/// How much of a file is shown.
pub const MAX_SHOWN_BYTES: usize = 256 * 1024;

/// Lines of a file, both ends included, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// The number of the first line.
    pub first: usize,
    /// The number of the last line.
    pub last: usize,
}

impl LineRange {
    /// Reads `start-end`, or one number for one line.
    pub fn parse(text: &str) -> Option<LineRange> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u32>().ok()).flatten().map(|number| number as usize)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        (1 <= first && first <= last).then_some(LineRange { first, last })
    }
}

/// Part of a file as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeContext {
    /// The file, as the plan names it.
    pub path: String,
    /// Which lines are shown, such as `1-15,41-90`.
    pub lines: String,
    /// Those lines, byte by byte.
    pub content: Vec<u8>,
    /// What the file offers, with signatures, separated by commas.
    pub exports: String,
    /// What the file takes from elsewhere, one a line.
    pub imports: String,
    /// Whether lines were cut because they are too long.
    pub is_cut: bool,
}

/// Reads a file that a plan names; nothing where there is no such file.
pub type Sources<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// Reads a file below a folder: `None` where there is no ordinary file, or where a link leads outside.
pub fn read_source(root: &Path, path: &str) -> Option<Vec<u8>> {
    check_path(path).ok()?;
    let root = root.canonicalize().ok()?;
    let file = root.join(path).canonicalize().ok()?;
    if !file.starts_with(&root) || !fs::metadata(&file).ok()?.is_file() {
        return None;
    }
    let mut source = Vec::new();
    File::open(&file).ok()?.take(MAX_SOURCE_BYTES).read_to_end(&mut source).ok()?;
    Some(source)
}

/// The code context of one file: its first lines, or its head and the lines that the plan names.
///
/// The lines of a plan are padded already, so they are shown as they are named.
pub fn extract(path: &str, source: &[u8], wanted: Option<LineRange>) -> CodeContext {
    let lines: Vec<&[u8]> = source.split(|byte| *byte == b'\n').collect();
    let (label, mut content) = match wanted {
        None => first_lines(&lines),
        Some(wanted) => head_and_wanted(path, &lines, wanted),
    };
    let is_cut = content.len() > MAX_SHOWN_BYTES;
    content.truncate(boundary(&content, MAX_SHOWN_BYTES));
    let surface = surface::of(path, source);
    CodeContext {
        path: path.to_owned(),
        lines: label,
        content,
        exports: surface.exports.join(", "),
        imports: surface.imports.join("\n"),
        is_cut,
    }
}

fn first_lines(lines: &[&[u8]]) -> (String, Vec<u8>) {
    let shown = lines.len().min(DEFAULT_LINES);
    (format!("1-{shown}"), lines[..shown].join(&b'\n'))
}

fn head_and_wanted(path: &str, lines: &[&[u8]], wanted: LineRange) -> (String, Vec<u8>) {
    let head = lines.len().min(HEAD_LINES);
    let last = wanted.last.min(lines.len());
    let first = wanted.first.max(head + 1);
    if last < first {
        return (format!("1-{head}"), lines[..head].join(&b'\n'));
    }
    if first == head + 1 {
        return (format!("1-{last}"), lines[..last].join(&b'\n'));
    }
    let gap = Language::of(path).map_or("#", Language::comment);
    let gap = format!("{gap} ... lines {}-{} omitted ...", head + 1, first - 1);
    let mut shown = lines[..head].to_vec();
    shown.push(gap.as_bytes());
    shown.extend(&lines[first - 1..last]);
    (format!("1-{head},{first}-{last}"), shown.join(&b'\n'))
}

/// The largest place up to `limit` that is not inside a letter.
fn boundary(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let is_start = |at: &usize| bytes[*at] & 0xc0 != 0x80;
    (limit.saturating_sub(3)..=limit).rev().find(is_start).unwrap_or(limit)
}

/// The test file behind a verify command: quoted paths first, then plain words. Nothing where the command has a
/// pattern, or where no word looks like a test file of a language we know.
pub fn verify_source(command: &str) -> Option<String> {
    if command.trim().is_empty() || command.contains('*') {
        return None;
    }
    let quoted = quoted_words(command);
    let plain = command.split_whitespace().map(|word| word.trim_matches(['"', '\'', ';', ')', '(']));
    let named = quoted.into_iter().chain(plain).find_map(test_file);
    named.map(str::to_owned).or_else(|| cargo_test(command))
}

/// The words between two equal quotes.
fn quoted_words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = command;
    while let Some(open) = rest.find(['"', '\'']) {
        let quote = if rest[open..].starts_with('"') { '"' } else { '\'' };
        let inner = &rest[open + 1..];
        let Some(close) = inner.find(quote) else { break };
        words.push(&inner[..close]);
        rest = &inner[close + 1..];
    }
    words
}

/// The path in a word such as `tests/test_x.py::TestX::test_y` or `src/x.test.ts:40`.
fn test_file(word: &str) -> Option<&str> {
    let path = word.split(':').next().unwrap_or(word);
    let path = path.strip_prefix("./").unwrap_or(path);
    let lower = path.to_lowercase();
    let names_test = lower.contains("test") || lower.contains("spec.") || lower.contains("_spec");
    let known = Language::of(path).is_some() && !path.contains(char::is_whitespace);
    (known && (names_test || path.starts_with("tests/")) && check_path(path).is_ok()).then_some(path)
}

/// `cargo test --test NAME` of the package at the root names its file by the name alone.
fn cargo_test(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_cargo = words.windows(2).any(|pair| pair == ["cargo", "test"] || pair == ["nextest", "run"]);
    let elsewhere = words.iter().any(|word| matches!(*word, "-p" | "--package" | "--manifest-path" | "cd"));
    let named = words.windows(2).find(|pair| pair[0] == "--test").map(|pair| pair[1]);
    let name = named.or_else(|| words.iter().find_map(|word| word.strip_prefix("--test=")))?;
    let path = format!("tests/{name}.rs");
    (is_cargo && !elsewhere && check_path(&path).is_ok()).then_some(path)
}

/// What a file offers to others, with signatures, in the order of the file.
pub fn exports(path: &str, source: &[u8]) -> Vec<String> {
    surface::of(path, source).exports
}
