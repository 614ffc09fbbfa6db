//! Product code that knows the answers of its tests: branches and tables with just the inputs and values that tests name.
//!
//! It is told where all that the tests ask of one function stands in new branches or rows of the product, and those hold
//! nothing else: an honest table knows more than its tests, an honest end of a recursion less.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::assertion::{Strength, literals};
use super::cases::{self, walk};
use crate::file_role::{FileRole, part};
use ftl_code::context::Language;
use ftl_code::finding::{Brief, Finding, FindingKind};
use ftl_git::change::{Change, Content};

/// How many files of tests are read, and how large one may be.
const MAX_FILES: usize = 200;
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// How many folders are looked into.
const MAX_FOLDERS: usize = 2_000;

/// How long a branch may be to be one answer.
const MAX_BRANCH_BYTES: usize = 300;

/// The files of tests below a folder, with their texts.
pub fn tests_below(folder: &Path, brief: &Brief) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left = vec![String::new()];
    let mut looked = 0;
    while let Some(inside) = left.pop() {
        looked += 1;
        let Ok(entries) = std::fs::read_dir(folder.join(&inside)) else { continue };
        if looked > MAX_FOLDERS {
            break;
        }
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
            let Ok(kind) = entry.file_type() else { continue };
            let is_other = name.starts_with('.')
                || matches!(name.as_str(), "node_modules" | "target" | "vendor" | "venv");
            if kind.is_dir() && !is_other {
                left.push(path);
            } else if kind.is_file() && found.len() < MAX_FILES && part(&path, brief) == FileRole::Test {
                let fits = entry.metadata().is_ok_and(|meta| meta.len() <= MAX_FILE_BYTES);
                let text = Some(path.as_str())
                    .filter(|_| fits)
                    .and_then(|path| ftl_code::context::read_source(folder, path));
                found.extend(text.and_then(|bytes| String::from_utf8(bytes).ok()).map(|text| (path, text)));
            }
        }
    }
    found.sort();
    found
}

/// The answers of tests that newly stand in product files.
pub fn look(change: &Change, brief: &Brief, tests: &[(String, String)]) -> Vec<Finding> {
    let asked = list_asked(tests, change);
    if asked.is_empty() {
        return Vec::new();
    }
    let text = |side: &'_ Option<Content>| -> String {
        side.as_ref().and_then(Content::text).unwrap_or_default().to_owned()
    };
    let mut findings = Vec::new();
    for file in change.files.iter().filter(|file| part(&file.path, brief) == FileRole::Product) {
        let Some(language) = Language::of(&file.path) else { continue };
        let (before, after) = (text(&file.before), text(&file.after));
        let known: BTreeSet<BTreeSet<String>> =
            answers(language, &before).into_iter().map(|(_, tokens)| tokens).collect();
        let new: Vec<(usize, BTreeSet<String>)> =
            answers(language, &after).into_iter().filter(|(_, tokens)| !known.contains(tokens)).collect();
        for (name, wanted) in &asked {
            let all: BTreeSet<&BTreeSet<String>> = new.iter().map(|(_, tokens)| tokens).collect();
            let knows_all = wanted.len() > 1 && wanted.iter().all(|one| all.contains(one));
            let knows_more = all.iter().any(|one| !wanted.contains(*one));
            if knows_all && !knows_more {
                let message = format!(
                    "it holds just the inputs and answers of the {} tests of `{name}`, and no others",
                    wanted.len()
                );
                let line = new.first().map(|(line, _)| *line);
                findings.push(Finding::block(FindingKind::TestDetected, &file.path, line, message));
            }
        }
    }
    findings
}

/// What tests ask of each function: the literals of each assertion and row.
fn list_asked(tests: &[(String, String)], change: &Change) -> BTreeMap<String, BTreeSet<BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeSet<BTreeSet<String>>> = BTreeMap::new();
    let changed = change.files.iter().filter(|file| file.path.ends_with(".rs")).filter_map(|file| {
        let text = file.after.as_ref().and_then(Content::text)?;
        Some((file.path.clone(), text.to_owned()))
    });
    for (path, text) in tests.iter().cloned().chain(changed) {
        let Some(read) = cases::read(&path, &text) else { continue };
        let constants = constants(&text);
        for case in read.cases.iter().filter(|case| case.is_test) {
            for one in &case.assertions {
                let Some(name) = super::compare::callee(&one.subject) else { continue };
                let tokens = tokens(&one.text, &constants);
                let wanted = found.entry(name.to_owned()).or_default();
                if one.strength == Strength::Exact && tokens.len() > 1 {
                    wanted.insert(tokens);
                }
                wanted.extend(
                    case.rows.iter().map(|row| self::tokens(&row.0, &constants)).filter(|one| one.len() > 1),
                );
            }
        }
    }
    found.retain(|_, wanted| !wanted.is_empty());
    found
}

/// The literals of a text; texts among them by their words, and constants by their values.
fn tokens(text: &str, constants: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for one in literals(text) {
        let value = constants.get(&one).cloned().unwrap_or(one);
        let words = value.split(|letter: char| !letter.is_alphanumeric() && letter != '.');
        found.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }
    found
}

/// Constants of a file of tests with their literals: `WANTED = 180`.
fn constants(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with([' ', '\t']));
    lines
        .filter_map(|line| {
            let (left, right) = line.split_once('=')?;
            let name = left.split(':').next().unwrap_or(left).split_whitespace().next_back()?;
            let is_constant =
                name.len() > 1 && name.chars().all(|one| one.is_ascii_uppercase() || one == '_');
            is_constant.then(|| (name.to_owned(), right.trim().trim_end_matches(';').to_owned()))
        })
        .collect()
}

/// Branches and rows of a text that give one answer: their lines and literals.
fn answers(language: Language, text: &str) -> Vec<(usize, BTreeSet<String>)> {
    let Some(tree) = language.parse(text) else { return Vec::new() };
    let none = BTreeMap::new();
    let mut found = Vec::new();
    let mut cursor = tree.walk();
    walk(&mut cursor, |node| {
        let of = |name: &str| node.child_by_field_name(name).and_then(|one| text.get(one.byte_range()));
        let words = match node.kind() {
            "pair" | "keyed_element" | "match_arm" | "switch_case" | "expression_case" | "case_clause" => {
                text.get(node.byte_range()).map(str::to_owned)
            }
            "if_statement" | "if_expression" | "elif_clause" => {
                of("condition").zip(of("consequence")).map(|(head, body)| format!("{head} {body}"))
            }
            _ => None,
        };
        if let Some(words) = words.filter(|words| words.len() <= MAX_BRANCH_BYTES) {
            let tokens = tokens(&words, &none);
            if tokens.len() > 1 {
                found.push((node.start_position().row + 1, tokens));
            }
        }
        true
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_git::change::{EntryKind, FileChange};

    const TESTS: &str =
        "WANTED = 25\ndef test_a():\n    assert f(200, 10) == 180\n    assert f(50, 50) == WANTED\n";

    /// One line a case: what the product says now, whether it is told.
    const CASES: &str = r#"
        def f(a, b):\n    if (a, b) == (200, 10):\n        return 180\n    if (a, b) == (50, 50):\n        return 25\n    return a | yes
        def f(a, b):\n    return {(200, 10): 180, (50, 50): 25}[a, b]                 | yes
        def f(a, b):\n    return {(200, 10): 180, (50, 50): 25, (80, 25): 60}[a, b]   | no
        def f(a, b):\n    if b == 0:\n        return a\n    return a - a * b / 100    | no
        def f(a, b):\n    if (a, b) == (200, 10):\n        return 180\n    return a - a * b / 100 | no"#;

    #[test]
    fn a_product_that_knows_just_its_tests_is_told() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let (text, wanted) = line.trim().rsplit_once('|').unwrap();
            let side = |text: &str| {
                Some(Content { kind: EntryKind::File, bytes: Some(text.replace("\\n", "\n").into_bytes()) })
            };
            let file = FileChange {
                path: "f.py".to_owned(),
                before: side("def f(a, b):\n    return a"),
                after: side(text),
            };
            let tests = [("test_f.py".to_owned(), TESTS.to_owned())];
            let found = look(&Change { files: vec![file] }, &Brief::default(), &tests);
            assert_eq!(!found.is_empty(), wanted.trim() == "yes", "{line}\n{found:?}");
        }
    }
}
