//! The verify gate: runs a command on a tree and says how it went, by what the processes did and printed.
//!
//! It never asks an agent, never takes a command that could not run for a red one, and never takes a success
//! without a test for a green one where a runner says so. A command whose output no runner wrote is taken at
//! its exit code, and the report says that.
//!
//! A failure is run again only where it looks like one that comes and goes (time, network, races): a
//! deterministic failure does not change by being run again, and red is the usual answer while work goes on,
//! so running every failure twice would double the cost of honest work. A caller that needs more certainty asks for
//! [`When::Always`].

mod census;
pub mod old_failures;
mod runners;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use ftl_core::catalogue::build::{VerifyOutcome, VerifyReport};
use ftl_core::catalogue::scalars::{Digest, Seconds};
use ftl_core::signature;
use serde::{Deserialize, Serialize};

pub use census::{Census, FailedTest, MAX_FAILURES, MAX_LINES_EACH, MAX_READ_BYTES, MAX_WORDS, plain, read};

use self::old_failures::{OldFailures, Promise, judge_old_failures};
use super::command_env::CommandPlace;
use super::report::{self, Channel, TestReport, find_lost};
use ftl_code::finding::{Finding, FindingKind, Severity, blocks, render_findings};
use ftl_git::change::Change;
use ftl_process::{Cancel, Captured, Cut, How, ProcessExit, RunError};
use ftl_store::machine;

/// How many failing tests a summary tells.
pub const MAX_TOLD: usize = 5;

/// How long a summary may be.
pub const MAX_SUMMARY: usize = 4_000;

/// How often a command is run at most, whatever the settings say.
pub const MAX_RUNS: u32 = 10;

/// How many lines of an output are told where no runner says which test failed.
const TOLD_LINES: usize = 12;

/// How often a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatPolicy {
    /// How often a failure is run again.
    pub reruns: u32,
    /// Which failures are run again.
    pub when: When,
    /// How often a success is run again; for suites that are known to come and go.
    pub confirm: u32,
}

/// Which failures are run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Those that look like time, network or races.
    LooksFlaky,
    /// Every failure, whatever it looks like.
    Always,
}

impl Default for RepeatPolicy {
    fn default() -> RepeatPolicy {
        RepeatPolicy { reruns: 1, when: When::LooksFlaky, confirm: 0 }
    }
}

/// What running a command showed. It can be kept and compared with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyMeasure {
    /// Passed, failed, both on one tree, or passed without a test.
    pub outcome: VerifyOutcome,
    /// What it said, as far as it matters.
    pub summary: String,
    /// The command, as a line for `sh`.
    pub command: String,
    /// The exit code of the last run.
    pub exit: i32,
    /// How long all runs took.
    pub took: Duration,
    /// How often it was run.
    pub runs: u32,
    /// What the runners said; nothing where no runner was recognised and the exit code decided.
    pub census: Option<Census>,
    /// Where the whole output of the last run is kept.
    pub output: Option<String>,
    /// The tree, the command and the environment, as one digest.
    pub bound_to: String,
    /// Which tests ran, by name, where the runners report that; nothing in notes of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<TestReport>,
}

/// Why a command gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CouldNotRun {
    /// The program was not found, or may not be run.
    NotFound(String),
    /// It took too long, or was silent for too long.
    Timeout(String),
    /// No memory was left for it.
    OutOfMemory(String),
    /// A signal ended it.
    Signal(String),
    /// The caller has called it off.
    Cancelled,
    /// It could not be started or not be ended.
    NotStarted(String),
    /// The machine could not run it; that says nothing about the work.
    Machine(String),
}

impl fmt::Display for CouldNotRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CouldNotRun::NotFound(what) => write!(
                out,
                "the command could not be run: {what}; hint: look whether it is installed and may be run"
            ),
            CouldNotRun::Timeout(what) => {
                write!(out, "the command gave no answer: {what}; hint: give it more time, or run less")
            }
            CouldNotRun::OutOfMemory(what) => {
                write!(out, "the command ran out of memory: {what}; hint: run fewer at once")
            }
            CouldNotRun::Signal(what) => write!(out, "the command was ended from outside: {what}"),
            CouldNotRun::Cancelled => write!(out, "the command was cancelled"),
            CouldNotRun::NotStarted(what) => write!(out, "the command could not be run: {what}"),
            CouldNotRun::Machine(what) => out.write_str(what),
        }
    }
}

/// The digest of what makes a failure the same as another one.
pub fn signature_of(summary: &str) -> Digest {
    Digest::new(ftl_store::ContentDigest::of(signature::of(summary).as_bytes()).to_string())
}

/// The digest that binds an answer to what it was given for: tree, command, environment.
pub fn bound_to(tree: &str, command: &str, env: &[(OsString, OsString)]) -> String {
    let mut env: Vec<&(OsString, OsString)> = env.iter().collect();
    env.sort();
    let mut bytes = b"ftl verify 1\n".to_vec();
    let platform = [std::env::consts::OS, std::env::consts::ARCH];
    let fixed = [tree, command].into_iter().chain(platform).map(str::as_bytes);
    let pairs = env.iter().flat_map(|(name, value)| [name.as_encoded_bytes(), value.as_encoded_bytes()]);
    for part in fixed.chain(pairs) {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part);
    }
    ftl_store::ContentDigest::of(&bytes).to_string()
}

/// Runs a command in a yard, on the tree that stands in its folder.
pub fn run(
    command_place: &CommandPlace<'_>,
    command: &str,
    tree: &str,
    policy: RepeatPolicy,
    cancel: &Cancel,
) -> Result<VerifyMeasure, CouldNotRun> {
    let mut runs = vec![once(command_place, command, cancel)?];
    while runs.len() < MAX_RUNS as usize && wants_more(&runs, policy) {
        runs.push(once(command_place, command, cancel)?);
    }
    let took = runs.iter().map(|run| run.took).sum();
    let count = u32::try_from(runs.len()).unwrap_or(MAX_RUNS);
    let outcome = outcome(&runs);
    // A flaky command is told by its failure: that it can also succeed does not help to mend it.
    let telling = runs.iter().rev().find(|run| run.outcome == VerifyOutcome::Failed);
    let Some(telling) = telling.or(runs.last()) else {
        return Err(CouldNotRun::NotStarted("it was never run".to_owned()));
    };
    let failed = runs.iter().filter(|run| run.outcome == VerifyOutcome::Failed).count();
    let head = match outcome {
        VerifyOutcome::Flaky => format!("flaky: it failed {failed} of {count} times on the same tree\n"),
        VerifyOutcome::Passed | VerifyOutcome::Failed | VerifyOutcome::NoTests => String::new(),
    };
    Ok(VerifyMeasure {
        outcome,
        summary: census::shorten(&format!("{head}{}", telling.summary), MAX_SUMMARY),
        command: command.to_owned(),
        exit: telling.exit,
        took,
        runs: count,
        census: telling.census.clone(),
        output: telling.output.clone(),
        bound_to: bound_to(tree, command, &command_place.env),
        report: merge_reports(&runs, telling),
    })
}

/// The names that the telling run gave, with what the other runs of the same tree showed of them.
fn merge_reports(runs: &[Once], telling: &Once) -> Option<TestReport> {
    let mut merged = telling.report.clone()?;
    runs.iter().filter_map(|run| run.report.as_ref()).for_each(|report| merged.merge(report));
    Some(merged)
}

fn wants_more(runs: &[Once], policy: RepeatPolicy) -> bool {
    let Some(first) = runs.first() else { return true };
    let more = runs.len() as u32;
    match first.outcome {
        VerifyOutcome::Failed => {
            let again = policy.when == When::Always || first.looks_flaky;
            let settled = runs.iter().any(|run| run.outcome == VerifyOutcome::Passed);
            again && !settled && more <= policy.reruns
        }
        VerifyOutcome::Passed => {
            runs.iter().all(|run| run.outcome == VerifyOutcome::Passed) && more <= policy.confirm
        }
        VerifyOutcome::Flaky | VerifyOutcome::NoTests => false,
    }
}

fn outcome(runs: &[Once]) -> VerifyOutcome {
    let any = |outcome: VerifyOutcome| runs.iter().any(|run| run.outcome == outcome);
    match (any(VerifyOutcome::Failed), any(VerifyOutcome::Passed), any(VerifyOutcome::NoTests)) {
        (true, true, _) | (true, _, true) => VerifyOutcome::Flaky,
        (true, false, false) => VerifyOutcome::Failed,
        (false, _, true) => VerifyOutcome::NoTests,
        (false, _, false) => VerifyOutcome::Passed,
    }
}

/// What one run of the command showed.
struct Once {
    outcome: VerifyOutcome,
    summary: String,
    exit: i32,
    took: Duration,
    census: Option<Census>,
    output: Option<String>,
    looks_flaky: bool,
    report: Option<TestReport>,
}

fn once(command_place: &CommandPlace<'_>, command: &str, cancel: &Cancel) -> Result<Once, CouldNotRun> {
    let channel = Channel::open().map_err(|error| {
        CouldNotRun::Machine(machine::failure("no folder for the report of a test runner", &error).message)
    })?;
    let ended = command_place.shell_reporting(command, &channel, cancel).map_err(not_started)?;
    let text = format!("{}\n{}", whole(&ended.out), whole(&ended.err));
    let census = read(&text);
    let exit = exit_of(&ended, &text, census.as_ref())?;
    let speaks_tap = |census: &Census| census.runners == ["TAP"];
    let report = channel.read(&command_place.folder);
    let report =
        report.or_else(|| census.as_ref().filter(|one| speaks_tap(one)).and(report::read_tap(&text)));
    let verdict = judge_with_report(judge(command, exit, &text, census), exit, report.as_ref());
    let took = ended.took;
    let Judged { outcome, summary, census, looks_flaky } = verdict;
    Ok(Once {
        outcome,
        summary,
        exit,
        took,
        census,
        output: keep(command_place, &ended),
        looks_flaky,
        report,
    })
}

/// What a run was judged to be, once its runners have told of their tests on their own channel.
fn judge_with_report(judged: Judged, exit: i32, report: Option<&TestReport>) -> Judged {
    let Some(report) = report else { return judged };
    if let Some(why) = report.contradiction(exit) {
        let summary = format!("exit code {exit}, and it is not believed: {why}\n{}", judged.summary);
        return Judged { outcome: VerifyOutcome::Failed, summary, ..judged };
    }
    let ran = report.tests.values().any(|test| test.outcome != report::TestOutcome::Skipped);
    if judged.outcome == VerifyOutcome::NoTests && exit == 0 && ran {
        let passed = report.count(report::TestOutcome::Passed);
        let summary = format!("{passed} tests passed ({})", report.runners.join(", "));
        return Judged { outcome: VerifyOutcome::Passed, summary, ..judged };
    }
    judged
}

/// Why a command was not started.
pub fn not_started(error: RunError) -> CouldNotRun {
    if let Some(cause) = machine::cause_of_run(&error) {
        return CouldNotRun::Machine(cause.failure(error.to_string()).message);
    }
    match error {
        RunError::Cancelled => CouldNotRun::Cancelled,
        RunError::CouldNotStart(what) => CouldNotRun::NotFound(what),
        RunError::Bad(_) | RunError::Guard(_) | RunError::NoAnswer | RunError::Busy(_) => {
            let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            CouldNotRun::NotStarted(format!("{error}{hint}"))
        }
    }
}

/// The beginning and the end of what was printed, as much as is read.
fn whole(captured: &Captured) -> String {
    let mut bytes = Vec::new();
    let limit = MAX_READ_BYTES as u64;
    let read = captured.whole().and_then(|from| from.take(limit).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clone_from(&captured.head);
    }
    if captured.total > bytes.len() as u64 {
        bytes.push(b'\n');
        bytes.extend(&captured.tail);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Keeps both streams, one after the other, where something was printed.
fn keep(command_place: &CommandPlace<'_>, ended: &ProcessExit) -> Option<String> {
    if ended.out.total + ended.err.total == 0 {
        return None;
    }
    let (out, err) = (ended.out.whole().ok()?, ended.err.whole().ok()?);
    let (digest, _) = command_place.store.put_stream(&mut out.chain(err)).ok()?;
    Some(digest.to_string())
}

/// The exit code of a command that answered.
fn exit_of(ended: &ProcessExit, text: &str, census: Option<&Census>) -> Result<i32, CouldNotRun> {
    if let Some(cut) = ended.cut {
        return Err(match cut {
            Cut::Cancelled => CouldNotRun::Cancelled,
            Cut::Startup | Cut::Silence | Cut::Soft | Cut::Hard => CouldNotRun::Timeout(ended.sentence()),
            Cut::GuardLost => CouldNotRun::Signal(ended.sentence()),
        });
    }
    if ended.left > 0 {
        let message = format!("{} of the processes that it started could not be ended", ended.left);
        return Err(CouldNotRun::NotStarted(message));
    }
    match ended.how {
        How::Exited(code) => no_answer(code, text, census).map_or(Ok(code), Err),
        How::Signalled(9) => Err(CouldNotRun::OutOfMemory(format!("{}, most likely", ended.sentence()))),
        How::Signalled(_) | How::Unknown => Err(CouldNotRun::Signal(ended.sentence())),
    }
}

/// Words by which runtimes say that memory ran out.
const OUT_OF_MEMORY: [&str; 4] = [
    "JavaScript heap out of memory",
    "java.lang.OutOfMemoryError",
    "Cannot allocate memory",
    "out of memory",
];

/// Why an exit code is no answer. One is where a runner counted a failing test: the tests ran and said so.
fn no_answer(code: i32, text: &str, census: Option<&Census>) -> Option<CouldNotRun> {
    if census.is_some_and(|census| census.failed > 0) {
        return None;
    }
    let said = || last_lines(text, 3);
    let no_memory = || OUT_OF_MEMORY.iter().any(|words| text.contains(words));
    match code {
        126 => Some(CouldNotRun::NotFound(format!("exit code 126, it may not be run: {}", said()))),
        127 => Some(CouldNotRun::NotFound(format!("exit code 127, not found: {}", said()))),
        137 => Some(CouldNotRun::OutOfMemory("it was killed by signal 9, most likely".to_owned())),
        129..=159 if no_memory() => Some(CouldNotRun::OutOfMemory(said())),
        129..=159 => Some(CouldNotRun::Signal(format!("signal {}: {}", code - 128, said()))),
        _ => None,
    }
}

/// What a run was judged to be.
pub(super) struct Judged {
    pub(super) outcome: VerifyOutcome,
    pub(super) summary: String,
    pub(super) census: Option<Census>,
    looks_flaky: bool,
}

/// Judges a run by its exit code and its output.
pub(super) fn judge(command: &str, exit: i32, text: &str, census: Option<Census>) -> Judged {
    // Some runners fail when they find no test; from the others a failure is something else.
    const FAIL_EMPTY: [&str; 6] = ["pytest", "unittest", "cargo nextest", "jest", "vitest", "phpunit"];
    let may_fail =
        |census: &Census| census.runners.iter().all(|runner| FAIL_EMPTY.contains(&runner.as_str()));
    let none = census.as_ref().is_some_and(|census| census.none && (exit == 0 || may_fail(census)));
    let counted = census.as_ref().is_some_and(|census| census.failed > 0);
    let silent = exit == 0 && census.is_none() && closing_line_of(command).is_some();
    let outcome = match exit {
        _ if none && !counted => VerifyOutcome::NoTests,
        0 if silent => VerifyOutcome::NoTests,
        0 if counted => VerifyOutcome::Failed,
        0 => VerifyOutcome::Passed,
        _ => VerifyOutcome::Failed,
    };
    let summary = match outcome {
        VerifyOutcome::Passed => passed_summary(census.as_ref()),
        VerifyOutcome::NoTests if silent => {
            let runner = closing_line_of(command).unwrap_or("the runner");
            format!("exit code 0, but the closing line of {runner} is missing: no test was seen to run")
        }
        VerifyOutcome::NoTests => format!("no test ran (exit code {exit}, {})", names(census.as_ref())),
        VerifyOutcome::Failed | VerifyOutcome::Flaky => failed_summary(exit, text, census.as_ref()),
    };
    let looks_flaky = outcome == VerifyOutcome::Failed && looks_flaky(text);
    Judged { outcome, summary, census, looks_flaky }
}

fn names(census: Option<&Census>) -> String {
    census.map(|census| census.runners.join(", ")).unwrap_or_default()
}

fn passed_summary(census: Option<&Census>) -> String {
    let Some(census) = census else {
        return "exit code 0; no test runner was recognised, so the exit code decided".to_owned();
    };
    let skipped = match census.skipped {
        0 => String::new(),
        skipped => format!(", {skipped} skipped"),
    };
    match census.run {
        Some(run) => format!("{run} tests passed{skipped} ({})", names(Some(census))),
        None => format!("tests passed{skipped} ({}, which does not count them)", names(Some(census))),
    }
}

fn failed_summary(exit: i32, text: &str, census: Option<&Census>) -> String {
    let Some(census) = census.filter(|census| census.failed > 0) else {
        return format!("exit code {exit}\n{}", telling_lines(text));
    };
    let of = census.run.map(|run| format!(" of {run}")).unwrap_or_default();
    let mut summary = format!("{}{of} tests failed ({})", census.failed, names(Some(census)));
    for failure in census.failures.iter().take(MAX_TOLD) {
        summary.push_str(&format!("\n{}", failure.name));
        for line in failure.message.lines() {
            summary.push_str(&format!("\n  {line}"));
        }
    }
    if census.failures.is_empty() {
        summary.push_str(&format!("\n{}", telling_lines(text)));
    } else if census.failures.len() > MAX_TOLD {
        summary.push_str(&format!("\nand {} more", census.failures.len() - MAX_TOLD));
    }
    summary
}

/// The first lines that speak of an error, and the last lines.
fn telling_lines(text: &str) -> String {
    let clean = plain(text);
    let lines: Vec<&str> = clean.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(TOLD_LINES);
    let speaks = |line: &&&str| {
        let lower = line.to_lowercase();
        ["error", "fail", "panic", "exception", "fatal"].iter().any(|word| lower.contains(word))
    };
    let first = lines[..last].iter().filter(speaks).take(MAX_TOLD);
    let told = first.chain(&lines[last..]).map(|line| census::shorten(line, MAX_WORDS));
    told.collect::<Vec<_>>().join("\n")
}

fn last_lines(text: &str, most: usize) -> String {
    let clean = plain(text);
    let lines: Vec<&str> = clean.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(most)..].join("; ");
    census::shorten(&last, MAX_WORDS)
}

/// Words of failures that come and go: time, network, races, things in use.
const FLAKY: [&str; 19] = [
    "timed out",
    "timeout",
    "time out",
    "etimedout",
    "deadline exceeded",
    "connection refused",
    "connection reset",
    "econnrefused",
    "econnreset",
    "broken pipe",
    "address already in use",
    "eaddrinuse",
    "temporarily unavailable",
    "temporary failure",
    "deadlock",
    "race condition",
    "data race",
    "flaky",
    "resource busy",
];

fn looks_flaky(text: &str) -> bool {
    let lower = text.to_lowercase();
    FLAKY.iter().any(|words| lower.contains(words))
}

/// The runner whose closing line a command surely prints, where nothing in the command could hide it.
fn closing_line_of(command: &str) -> Option<&'static str> {
    const HIDES: [&str; 11] = [
        "|",
        ">",
        "quiet",
        "silent",
        "report",
        "--collect",
        "--help",
        "--version",
        "--no-run",
        "-json",
        "echo",
    ];
    let words: Vec<&str> =
        command.split([' ', '\t', '\n', ';', '&', '(', ')']).filter(|word| !word.is_empty()).collect();
    // Neither both streams in one nor an alternative hides anything.
    let plain = command.replace("2>&1", "").replace("||", ";");
    let hides = HIDES.iter().any(|word| plain.contains(word));
    let is_quiet = |word: &&str| word.starts_with("-q") || ["-h", "--list", "--co"].contains(word);
    if hides || words.iter().any(is_quiet) {
        return None;
    }
    let pair = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
    let is_pytest = |word: &&str| matches!(word.rsplit('/').next(), Some("pytest" | "py.test"));
    match () {
        () if words.iter().any(is_pytest) => Some("pytest"),
        () if pair("-m", "unittest") => Some("unittest"),
        () if pair("cargo", "test") => Some("cargo test"),
        () if pair("nextest", "run") => Some("cargo nextest"),
        () if pair("go", "test") => Some("go test"),
        () if pair("node", "--test") => Some("node --test"),
        () => None,
    }
}

/// What differs between a run on the base and a run on the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Against {
    /// Whether the base was red.
    pub red_before: bool,
    /// Tests that fail now and did not before.
    pub new_failures: Vec<String>,
    /// Tests that failed before and do not now.
    pub mended: Vec<String>,
    /// Fewer tests ran, or more were skipped, than on the base.
    pub findings: Vec<Finding>,
}

/// Compares a run on the work with the one on the base. Nothing where it could not be run on the base.
pub fn against(base: &VerifyMeasure, now: &VerifyMeasure, change: &Change) -> Against {
    let names = |one: &VerifyMeasure| -> Vec<String> {
        let failures = one.census.iter().flat_map(|census| &census.failures);
        failures.map(|failure| failure.name.clone()).collect()
    };
    let (before, after) = (names(base), names(now));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|name| !those.contains(name)).cloned().collect()
    };
    Against {
        red_before: matches!(base.outcome, VerifyOutcome::Failed | VerifyOutcome::Flaky),
        new_failures: only(&after, &before),
        mended: only(&before, &after),
        findings: find_fewer(base, now, change),
    }
}

/// A green run that ran fewer tests than the base shows less than it seems to: by name where both have names.
fn find_fewer(base: &VerifyMeasure, now: &VerifyMeasure, change: &Change) -> Vec<Finding> {
    let is_green = now.outcome == VerifyOutcome::Passed && base.command == now.command;
    let (Some(before), true) = (&base.report, is_green) else { return fewer(base, now) };
    let silent = TestReport::default();
    let after = now.report.as_ref().unwrap_or(&silent);
    let found = find_lost(before, after, change);
    if found.is_empty() && !(before.is_whole() && after.is_whole()) { fewer(base, now) } else { found }
}

/// A green run that ran fewer tests than the base shows less than it seems to.
fn fewer(base: &VerifyMeasure, now: &VerifyMeasure) -> Vec<Finding> {
    let (Some(before), Some(after)) = (&base.census, &now.census) else { return Vec::new() };
    if now.outcome != VerifyOutcome::Passed || before.runners != after.runners || base.command != now.command
    {
        return Vec::new();
    }
    let about = |kind, message| Finding {
        kind,
        severity: Severity::Blocks,
        path: None,
        line: None,
        message,
        allowed: None,
    };
    let mut found = Vec::new();
    if let (Some(was), Some(is)) = (before.run, after.run)
        && is < was
    {
        found.push(about(FindingKind::FewerTests, format!("{is} tests ran, {was} on the base")));
    }
    if after.skipped > before.skipped {
        let message = format!("{} tests were skipped, {} on the base", after.skipped, before.skipped);
        found.push(about(FindingKind::TestSkipped, message));
    }
    found
}

impl VerifyMeasure {
    /// The answer of `verify.run`: this run, and what the other gates found on the same tree. Where the base is red it
    /// is judged by the tests that it broke and those that it promised to mend.
    pub fn report(
        &self,
        tree: &str,
        base: Option<(&VerifyMeasure, &Promise)>,
        findings: &[Finding],
    ) -> VerifyReport {
        let stopped = blocks(findings);
        let old = base.and_then(|(base, promise)| judge_old_failures(base, self, promise));
        let green = self.outcome == VerifyOutcome::Passed || old.as_ref().is_some_and(OldFailures::passes);
        let compared = base.map(|(base, _)| against(base, self, &Change { files: Vec::new() }));
        let mut summary = self.summary.clone();
        if let Some(old) = &old {
            summary = format!("{old}\n{summary}");
        }
        let is_told_first = stopped && green;
        if is_told_first {
            summary = format!(
                "{}\nthe command passed, and the work is blocked\n{summary}",
                render_findings(findings)
            );
        }
        if let Some(compared) = compared.as_ref().filter(|one| one.red_before && !green) {
            summary = match compared.new_failures.len() {
                0 => format!("{summary}\nit failed before the work too"),
                new => format!("{summary}\nit failed before the work too; {new} of the failures are new"),
            };
        }
        if !is_told_first && !findings.is_empty() {
            summary = format!("{summary}\n{}", render_findings(findings));
        }
        let passed = green && !stopped;
        VerifyReport {
            passed,
            failed: stopped
                || (!green && matches!(self.outcome, VerifyOutcome::Failed | VerifyOutcome::Flaky)),
            signature: (!passed).then(|| signature_of(&summary)),
            summary: census::shorten(&summary, 2 * MAX_SUMMARY),
            tree: Some(Digest::new(tree)),
            outcome: match green {
                true if stopped => VerifyOutcome::Failed,
                true => VerifyOutcome::Passed,
                false => self.outcome,
            },
            command: Some(self.command.clone()),
            exit: Some(i64::from(self.exit)),
            took: Some(Seconds(self.took.as_secs_f64())),
            output: self.output.clone().map(Digest::new),
            red_before: compared.map(|one| one.red_before),
        }
    }
}
