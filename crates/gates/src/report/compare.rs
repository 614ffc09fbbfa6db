//! Two reports compared by the names of their tests: what broke, what was mended, what failed before too, and what no
//! longer runs.

use std::collections::BTreeMap;

use super::{ReportedTest, TestOutcome, TestReport};
use ftl_code::finding::{Finding, FindingKind};
use ftl_git::change::{Change, Content, FileChange};

/// How many tests one finding names.
const MAX_NAMED: usize = 5;

/// What differs between the tests of two runs, in the order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameChange {
    /// Those that fail now and did not before, or were not there.
    pub broken: Vec<String>,
    /// Those that failed before and pass now.
    pub mended: Vec<String>,
    /// Those that fail in both.
    pub old: Vec<String>,
    /// Those that end in both ways on one of the trees.
    pub flaky: Vec<String>,
}

/// Compares two runs. A test that ended in both ways on one tree is flaky, and neither broken nor old.
pub fn compare(before: &TestReport, now: &TestReport) -> NameChange {
    let mut change = NameChange::default();
    for (name, test) in &now.tests {
        let known = before.tests.get(name);
        let has_failed = known.is_some_and(|known| known.outcome == TestOutcome::Failed);
        let is_flaky = test.is_flaky || known.is_some_and(|known| known.is_flaky);
        let list = match test.outcome {
            _ if is_flaky => &mut change.flaky,
            TestOutcome::Failed if has_failed => &mut change.old,
            TestOutcome::Failed => &mut change.broken,
            TestOutcome::Passed if has_failed => &mut change.mended,
            TestOutcome::Passed | TestOutcome::Skipped => continue,
        };
        list.push(name.clone());
    }
    change
}

/// What a green run lost of the tests that ran on the base, by name.
///
/// A test that is gone from a changed file is judged by the sides of that file, not here. What is left is a test that
/// still stands in its file and no longer runs, or that runs and is skipped.
pub(crate) fn find_lost(before: &TestReport, now: &TestReport, change: &Change) -> Vec<Finding> {
    let mut findings = Vec::new();
    for runner in before.runners.iter().filter(|runner| !now.runners.contains(runner)) {
        let count = before.tests.len();
        let message = format!("{runner} told of {count} tests on the base and is silent now");
        findings.push(without_path(FindingKind::FewerTests, message));
    }
    if !findings.is_empty() || !before.is_whole() || !now.is_whole() {
        return findings;
    }
    let (was, is) = (by_file(before), by_file(now));
    let none = Vec::new();
    for (file, tests) in &was {
        let ran = is.get(file).unwrap_or(&none);
        let changed = change.files.iter().find(|one| is_file_of(file, &one.path));
        let missing: Vec<&str> =
            tests.iter().copied().filter(|name| !now.tests.contains_key(*name)).collect();
        let lost: Vec<&str> = match changed {
            Some(changed) => missing.into_iter().filter(|name| stands_in(changed, name, ran)).collect(),
            None if ran.len() < tests.len() && !is_moved(&missing, ran) => missing,
            None => Vec::new(),
        };
        let path = changed.map_or(file.as_str(), |one| one.path.as_str());
        if !lost.is_empty() {
            let message = format!("{} ran on the base and does not run now", name_some(&lost));
            findings.push(Finding::block(FindingKind::FewerTests, path, None, message));
        }
        let is_skipped = |name: &&str| {
            let before = before.tests.get(*name).map(|test| test.outcome);
            let after = now.tests.get(*name).map(|test| test.outcome);
            before == Some(TestOutcome::Passed) && after == Some(TestOutcome::Skipped)
        };
        let skipped: Vec<&str> = tests.iter().copied().filter(is_skipped).collect();
        if !skipped.is_empty() {
            let message = format!("{} passed on the base and is skipped now", name_some(&skipped));
            findings.push(Finding::block(FindingKind::TestSkipped, path, None, message));
        }
    }
    findings
}

/// The tests that ran, by the file that they are in.
fn by_file(report: &TestReport) -> BTreeMap<String, Vec<&str>> {
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, ReportedTest { file, outcome, .. }) in &report.tests {
        let list = files.entry(file.clone()).or_default();
        if *outcome != TestOutcome::Skipped {
            list.push(name);
        }
    }
    files
}

/// Whether a test that does not run still stands in its changed file, and nothing else of its name runs there.
fn stands_in(changed: &FileChange, name: &str, ran: &[&str]) -> bool {
    let bare = bare(name);
    let text = changed.after.as_ref().and_then(Content::text).unwrap_or_default();
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_there = text
        .match_indices(bare)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + bare.len()..].starts_with(is_letter));
    is_there && !bare.is_empty() && !ran.iter().any(|other| self::bare(other) == bare)
}

/// Whether each test that is missing runs under the same bare name with other parameters.
fn is_moved(missing: &[&str], ran: &[&str]) -> bool {
    missing.iter().all(|name| ran.iter().any(|other| bare(other) == bare(name)))
}

/// The name of a test without its file, its class and its parameters.
pub(crate) fn bare(name: &str) -> &str {
    let name = name.rsplit(" > ").next().unwrap_or(name);
    let name = name.split('[').next().unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    let name = if name.contains(' ') { name } else { name.rsplit('.').next().unwrap_or(name) };
    name.split('/').next().unwrap_or(name).trim()
}

/// Whether what a runner calls a file is the file at this path: it may have been started further down.
pub fn is_file_of(file: &str, path: &str) -> bool {
    let file = file.strip_prefix("./").unwrap_or(file);
    !file.is_empty() && (path == file || path.strip_suffix(file).is_some_and(|above| above.ends_with('/')))
}

/// The first names of a list, and how many more there are.
pub(crate) fn name_some<T: AsRef<str>>(names: &[T]) -> String {
    let first: Vec<&str> = names.iter().take(MAX_NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(MAX_NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn without_path(kind: FindingKind, message: String) -> Finding {
    Finding { path: None, ..Finding::block(kind, "", None, message) }
}
