//! What test runners report on a channel of their own: which tests ran, by name, and how each of them ended.
//!
//! A report is a file of lines, written by hooks that are loaded into the runners before anything of the project is: a
//! line when a runner begins, one for each test as it ends, and a last one by the runner, or by its parent where it has
//! one of ours. A report says nothing about a runner that has no hook: there what was printed decides, as ever.

mod channel;
mod compare;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub(crate) use channel::Channel;
pub use compare::{NameChange, compare, is_file_of};
pub(crate) use compare::{bare, find_lost, name_some};

/// How much of a report is read.
pub const MAX_REPORT_BYTES: u64 = 32 * 1024 * 1024;

/// How many tests of one report are known by name; a report of more is compared by numbers.
pub const MAX_TESTS: usize = 50_000;

/// How long the name of a test may be.
pub const MAX_NAME: usize = 500;

/// The runner that starts a process for each test, and tries some of them again.
const NEXTEST: &str = "cargo nextest";

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// It passed.
    Passed,
    /// It was skipped, ignored, or expected to fail.
    Skipped,
    /// It failed, or could not be set up or collected.
    Failed,
}

impl TestOutcome {
    fn parse(word: &str) -> Option<TestOutcome> {
        match word {
            "passed" => Some(TestOutcome::Passed),
            "skipped" => Some(TestOutcome::Skipped),
            "failed" => Some(TestOutcome::Failed),
            _ => None,
        }
    }
}

/// One test that a runner told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedTest {
    /// The file, folder or program that it is in, as the runner sees it.
    pub file: String,
    /// How it ended.
    pub outcome: TestOutcome,
    /// Whether it ended in different ways on one tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_flaky: bool,
}

/// What the runners of one command reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestReport {
    /// The runners that spoke, as people call them.
    pub runners: Vec<String>,
    /// The tests by their names.
    pub tests: BTreeMap<String, ReportedTest>,
    /// Why the count cannot be believed, a sentence each.
    pub problems: Vec<String>,
    /// The code with which each runner ended that did.
    pub ends: Vec<i32>,
    /// Whether there were more tests than are known by name.
    pub is_cut: bool,
}

impl TestReport {
    /// The tests that ended so.
    pub fn ended(&self, outcome: TestOutcome) -> impl Iterator<Item = (&str, &ReportedTest)> {
        let tests = self.tests.iter().filter(move |(_, test)| test.outcome == outcome);
        tests.map(|(name, test)| (name.as_str(), test))
    }

    /// How many tests ended so.
    pub fn count(&self, outcome: TestOutcome) -> u64 {
        self.ended(outcome).count() as u64
    }

    /// Whether the names can be relied on: some test ran, all are known, and nothing speaks against the count.
    pub fn is_whole(&self) -> bool {
        !self.tests.is_empty() && !self.is_cut && self.problems.is_empty()
    }

    /// Why a command that ended with this code did not do what its runners say, if so.
    pub fn contradiction(&self, exit: i32) -> Option<String> {
        if exit != 0 {
            return None;
        }
        if let Some(problem) = self.problems.first() {
            return Some(problem.clone());
        }
        // The code 5 of pytest says that it found no test: a script may well take that for success.
        let ended = self.ends.iter().find(|end| **end != 0 && **end != 5)?;
        Some(format!("the command ended with 0, and {} with {ended}", self.runners.join(", ")))
    }

    /// The same report with what another run on the same tree showed: what ended in two ways is flaky.
    pub fn merge(&mut self, other: &TestReport) {
        for (name, test) in &mut self.tests {
            if let Some(again) = other.tests.get(name) {
                test.is_flaky |= again.is_flaky || again.outcome != test.outcome;
            }
        }
    }
}

/// One process of a runner.
#[derive(Default)]
struct Session {
    runner: String,
    collected: Option<u64>,
    told: u64,
    failed: u64,
    is_loose: bool,
    end: Option<i32>,
}

impl Session {
    /// Why its count cannot be believed.
    fn problem(&self) -> Option<String> {
        let Session { runner, told, failed, .. } = self;
        match (self.end, self.collected) {
            (None, _) => Some(format!("{runner} began and never said that it ended")),
            (Some(0), _) if *failed > 0 => {
                Some(format!("{runner} ended with 0, and {failed} of its tests failed"))
            }
            (Some(0), Some(collected)) if *told < collected && !self.is_loose => {
                Some(format!("{runner} collected {collected} tests, and {told} of them ended"))
            }
            (Some(_), _) => None,
        }
    }
}

/// Reads a report; nothing where no runner has begun. Names lose the folder that the command was run in.
pub fn read(text: &str, folder: &Path) -> Option<TestReport> {
    let (below, folder) = (format!("{}/", folder.display()), folder.display().to_string());
    let relative = |text: &str| text.replace(&below, "").replace(&folder, ".");
    let mut report = TestReport::default();
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [what, id, rest @ ..] = &cells[..] else { continue };
        let session = match *what {
            "start" => sessions.entry((*id).to_owned()).or_default(),
            _ => match sessions.get_mut(*id) {
                Some(session) => session,
                None => continue,
            },
        };
        match (*what, rest) {
            ("start", [runner, ..]) => session.runner = (*runner).to_owned(),
            ("collected", [count, ..]) => session.collected = count.parse().ok(),
            ("loose", _) => session.is_loose = true,
            ("end", [code, ..]) => session.end = Some(code.parse().unwrap_or(1)),
            ("test", [outcome, file, name]) => {
                let Some(outcome) = TestOutcome::parse(outcome) else { continue };
                session.failed += u64::from(outcome == TestOutcome::Failed);
                let is_part = session.runner == "go test" && name.contains('/');
                session.told += u64::from(!is_part);
                report.add(&session.runner, &relative(file), &relative(name), outcome);
            }
            _ => {}
        }
    }
    if sessions.is_empty() {
        return None;
    }
    for session in sessions.values() {
        if !report.runners.contains(&session.runner) {
            report.runners.push(session.runner.clone());
        }
        report.problems.extend(session.problem());
        // nextest may try a test again: what it came to last counts, not each process.
        let is_tried_again = session.runner == NEXTEST && report.count(TestOutcome::Failed) == 0;
        report.ends.extend(session.end.filter(|_| !is_tried_again));
    }
    report.problems.dedup();
    Some(report)
}

/// Reads the names of tests out of what was printed by a program that speaks TAP and has no channel of its own.
pub fn read_tap(output: &str) -> Option<TestReport> {
    let mut report = TestReport { runners: vec!["TAP".to_owned()], ..TestReport::default() };
    let (mut planned, mut told) = (None, 0);
    for line in output.lines() {
        if let Some(count) = line.strip_prefix("1..").and_then(|rest| rest.trim().parse::<u64>().ok()) {
            planned = Some(count);
        }
        let (rest, is_ok) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => continue,
        };
        let name = rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start();
        let name = name.strip_prefix("- ").unwrap_or(name);
        let (name, note) = name.split_once(" # ").unwrap_or((name, ""));
        let note = note.to_ascii_lowercase();
        let outcome = match is_ok {
            _ if note.starts_with("skip") || note.starts_with("todo") => TestOutcome::Skipped,
            true => TestOutcome::Passed,
            false => TestOutcome::Failed,
        };
        told += 1;
        if !name.trim().is_empty() {
            report.add("TAP", "", name.trim(), outcome);
        }
    }
    if let Some(planned) = planned.filter(|planned| *planned > told && report.count(TestOutcome::Failed) == 0)
    {
        report.problems.push(format!("{planned} tests were planned, and {told} of them ended"));
    }
    (!report.tests.is_empty()).then_some(report)
}

impl TestReport {
    /// Adds a test; of a name that comes twice the worst outcome stands.
    fn add(&mut self, runner: &str, file: &str, name: &str, outcome: TestOutcome) {
        // The name of a test of Go is one of its package only.
        let name = if runner == "go test" { format!("{file}::{name}") } else { name.to_owned() };
        let name = shorten(&name);
        if let Some(known) = self.tests.get_mut(&name) {
            if runner == NEXTEST {
                known.is_flaky |= known.outcome != outcome;
                known.outcome = outcome;
            } else {
                known.outcome = known.outcome.max(outcome);
            }
            return;
        }
        if self.tests.len() == MAX_TESTS {
            self.is_cut = true;
            return;
        }
        self.tests.insert(name, ReportedTest { file: shorten(file), outcome, is_flaky: false });
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

#[cfg(test)]
pub(crate) mod tests;
