//! What a test runner says at its end: how many tests ran, failed and were skipped, and which failed.
//!
//! Outputs are read, not commands, so a runner is known also behind `make` or a script. An output that no
//! runner wrote gives nothing, never a guess. Time is linear in the output; every list has a limit.

use serde::{Deserialize, Serialize};

use super::runners;

/// How many failing tests are named.
pub const MAX_FAILURES: usize = 50;

/// How long the name of a test and each line about it may be.
pub const MAX_WORDS: usize = 300;

/// How many lines are kept about one failing test.
pub const MAX_LINES_EACH: usize = 4;

/// How much of an output is read: so much of its beginning, and as much of its end.
pub const MAX_READ_BYTES: usize = 2 * 1024 * 1024;

/// How long a line may be to be read at all.
const MAX_LINE_BYTES: usize = 16 * 1024;

/// The counts that test runners printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    /// The runners, as people call them.
    pub runners: Vec<String>,
    /// How many tests ran; nothing where a runner does not count.
    pub run: Option<u64>,
    /// How many of them failed.
    pub failed: u64,
    /// How many were skipped.
    pub skipped: u64,
    /// The tests that failed, the first ones.
    pub failures: Vec<FailedTest>,
    /// Whether the runners themselves say that no test ran.
    pub none: bool,
}

/// One test that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTest {
    /// Its name, as the runner writes it.
    pub name: String,
    /// What the runner says about it, a few lines.
    pub message: String,
}

/// Reads what runners said in an output.
pub fn read(output: &str) -> Option<Census> {
    let clean = plain(output);
    let lines: Vec<&str> = clean.lines().filter(|line| line.len() <= MAX_LINE_BYTES).collect();
    let found: Vec<Count> = runners::ALL.iter().filter_map(|reader| reader(&lines)).collect();
    if found.is_empty() {
        return None;
    }
    let mut census = Census { none: found.iter().all(|one| one.none), ..Census::default() };
    census.run = found.iter().map(|one| one.run).try_fold(0u64, |sum, run| Some(sum.saturating_add(run?)));
    for one in found {
        census.runners.push(one.runner.to_owned());
        census.failed = census.failed.saturating_add(one.failed);
        census.skipped = census.skipped.saturating_add(one.skipped);
        census.failures.extend(one.failures);
    }
    census.failures.truncate(MAX_FAILURES);
    Some(census)
}

/// The counts that one runner printed.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) runner: &'static str,
    pub(super) run: Option<u64>,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    pub(super) failures: Vec<FailedTest>,
    pub(super) none: bool,
}

impl Count {
    /// A count in which tests ran, or none did.
    pub(super) fn of(runner: &'static str, run: u64, failed: u64, skipped: u64) -> Count {
        Count { runner, run: Some(run), failed, skipped, failures: Vec::new(), none: run == 0 && failed == 0 }
    }

    pub(super) fn with(self, failures: impl IntoIterator<Item = FailedTest>) -> Count {
        let mut kept: Vec<FailedTest> = Vec::new();
        for failure in failures {
            let has_room = kept.len() < MAX_FAILURES;
            match kept.iter_mut().find(|known| known.name == failure.name) {
                Some(known) if known.message.is_empty() => known.message = failure.message,
                Some(_) => {}
                None if has_room => kept.push(failure),
                None => {}
            }
        }
        Count { failures: kept, ..self }
    }
}

impl FailedTest {
    /// A failing test, cut to size.
    pub(super) fn new<'a>(name: &str, lines: impl IntoIterator<Item = &'a str>) -> FailedTest {
        let lines = lines.into_iter().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.take(MAX_LINES_EACH).map(|line| shorten(line, MAX_WORDS)).collect();
        FailedTest { name: shorten(name.trim(), MAX_WORDS), message: lines.join("\n") }
    }
}

/// A text cut to so many letters.
pub(super) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An output without what only a terminal understands.
pub fn plain(output: &str) -> String {
    let mut clean = String::with_capacity(output.len());
    let mut letters = output.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => skip_sequence(&mut letters),
            // What a progress line was overwritten with comes after the last return.
            '\r' if letters.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            '\n' | '\t' => clean.push(letter),
            letter if letter.is_control() => {}
            letter => clean.push(letter),
        }
    }
    clean
}

/// Skips what follows an escape: `[…m` and the like, `]…` up to its end, or one letter.
fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => {
            letters.by_ref().find(|letter| ('@'..='~').contains(letter) || *letter == '\n');
        }
        Some(']') => {
            letters.by_ref().find(|letter| matches!(letter, '\x07' | '\\' | '\n'));
        }
        Some(_) | None => {}
    }
}
