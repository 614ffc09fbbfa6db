//! The replay: the base's own tests, data, settings and scripts on the product of the work, whether or not the delta
//! covers them. What passes only because of what the work made of its tests shows here.
//!
//! This is data for whoever makes the checkout, and a judgement over three runs: on the base, on the work, and of the
//! replay. By name, a test that failed before, passes in the work and fails again in the replay says that the proof lies
//! in the tests. Where there are no names, the whole commands are compared.

use ftl_core::catalogue::build::VerifyOutcome;
use serde_json::Value as Json;

use super::file_role::{FileRole, part};
use super::report::{ReportedTest, TestOutcome, TestReport, is_file_of, name_some};
use super::restore::Restore;
use super::verify::{CouldNotRun, VerifyMeasure};
use ftl_code::finding::{Brief, Finding, FindingKind, Severity};
use ftl_git::change::{Change, Content, FileChange};

/// The keys of a `package.json` that say how it is tested.
const PACKAGE_KEYS: [&str; 6] = ["scripts", "jest", "vitest", "mocha", "ava", "tap"];

/// The tables below `tool` in a `pyproject.toml` that say how it is tested.
const PYTHON_TOOLS: [&str; 6] = ["pytest", "coverage", "tox", "nox", "hatch", "pdm"];

/// What is to be done to a checkout of the work before the replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Files put back, and files taken away.
    pub files: Restore,
    /// Manifests that keep what the product needs and get the base's settings of runners.
    pub rewrite: Vec<(String, Vec<u8>)>,
}

impl Replay {
    /// What a change demands: everything that judges and differs.
    pub fn of(change: &Change, brief: &Brief) -> Replay {
        let mut replay = Replay::default();
        for file in &change.files {
            let (path, is_old) = (file.path.clone(), file.before.is_some());
            // What the command only looks at is product, whoever else calls it a test.
            if part(&path, &Brief::default()) == FileRole::Product && !runs(&brief.verify, &path) {
                continue;
            }
            match part(&path, brief) {
                FileRole::Test | FileRole::Snapshot | FileRole::Hook if is_old => {
                    replay.files.put_back.push(path);
                }
                FileRole::Fixture | FileRole::Targets | FileRole::VerifyScript if is_old => {
                    replay.files.put_back.push(path);
                }
                FileRole::Settings if is_old => replay.add_settings(file),
                // A module of tests that the product itself names cannot be taken from it.
                FileRole::Test if path.ends_with(".rs") && !path.split('/').any(|part| part == "tests") => {}
                // Whatever the command itself names is what it is to run.
                FileRole::Test if brief.verify.contains(path.as_str()) => {}
                FileRole::Test | FileRole::Snapshot | FileRole::Hook => replay.files.take_away.push(path),
                FileRole::Settings if !is_manifest(&path) => replay.files.take_away.push(path),
                FileRole::Settings
                | FileRole::Fixture
                | FileRole::Targets
                | FileRole::VerifyScript
                | FileRole::Ci
                | FileRole::Product => {}
            }
        }
        // New tests alone take nothing from the base's.
        let is_idle = replay.files.put_back.is_empty() && replay.rewrite.is_empty();
        let steers = |path: &String| !matches!(part(path, brief), FileRole::Test | FileRole::Snapshot);
        match is_idle && !replay.files.take_away.iter().any(steers) {
            true => Replay::default(),
            false => replay,
        }
    }

    /// Whether nothing differs that judges.
    pub fn is_empty(&self) -> bool {
        *self == Replay::default()
    }

    /// The paths that differ in it from the work.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let Restore { put_back, take_away } = &self.files;
        let rewritten = self.rewrite.iter().map(|(path, _)| path);
        put_back.iter().chain(take_away).chain(rewritten).map(String::as_str)
    }

    /// The settings of a runner, alone in a file or among others that the product needs as the work has them.
    fn add_settings(&mut self, file: &FileChange) {
        let sides = (text(&file.before), text(&file.after));
        let (path, mixed) = (file.path.clone(), is_manifest(&file.path));
        match (sides, mixed) {
            ((Some(before), Some(after)), true) => {
                if let Some(bytes) = mix(&path, before, after) {
                    self.rewrite.push((path, bytes));
                }
            }
            (_, true) => {}
            (_, false) => self.files.put_back.push(path),
        }
    }
}

/// Whether a command runs a file: as a program, or by an interpreter.
fn runs(command: &str, path: &str) -> bool {
    const INTERPRETERS: [&str; 9] =
        ["sh", "bash", "dash", "python", "python3", "node", "ruby", "perl", "php"];
    command.split(['\n', ';', '&', '|', '(', ')']).any(|part| {
        let mut words = part.split_whitespace().skip_while(|word| word.contains('=') || *word == "!");
        let program = words.next().unwrap_or_default();
        let is_interpreter = INTERPRETERS.contains(&program.rsplit('/').next().unwrap_or(program));
        let file = if is_interpreter { words.find(|word| !word.starts_with('-')) } else { Some(program) };
        file.is_some_and(|file| file.strip_prefix("./").unwrap_or(file) == path)
    })
}

fn text(side: &Option<Content>) -> Option<&str> {
    side.as_ref().and_then(Content::text)
}

/// Whether a file says what the product is made of, too.
fn is_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "package.json" | "pyproject.toml" | "Cargo.toml" | "setup.cfg" | "config.toml")
}

/// The work's manifest with the base's settings of runners; nothing where these are the same, or not known apart.
fn mix(path: &str, before: &str, after: &str) -> Option<Vec<u8>> {
    match path.rsplit('/').next()? {
        "package.json" => {
            let (was, mut is): (Json, Json) =
                (serde_json::from_str(before).ok()?, serde_json::from_str(after).ok()?);
            let mixed = is.as_object_mut()?;
            let old = mixed.clone();
            for key in PACKAGE_KEYS {
                match was.get(key) {
                    Some(value) => drop(mixed.insert(key.to_owned(), value.clone())),
                    None => drop(mixed.remove(key)),
                }
            }
            (*mixed != old).then(|| is.to_string().into_bytes())
        }
        "pyproject.toml" => {
            let (was, mut is): (toml::Table, toml::Table) = (before.parse().ok()?, after.parse().ok()?);
            let tools = |table: &toml::Table| table.get("tool").and_then(|tool| tool.as_table()).cloned();
            let (was, mut mixed) = (tools(&was).unwrap_or_default(), tools(&is).unwrap_or_default());
            for key in PYTHON_TOOLS {
                match was.get(key) {
                    Some(value) => drop(mixed.insert(key.to_owned(), value.clone())),
                    None => drop(mixed.remove(key)),
                }
            }
            if mixed == tools(&is).unwrap_or_default() {
                return None;
            }
            is.insert("tool".to_owned(), toml::Value::Table(mixed));
            Some(is.to_string().into_bytes())
        }
        _ => None,
    }
}

/// The three runs of one command.
pub struct ReplayRuns<'a> {
    /// On the base, where it could be run there.
    pub base: Option<&'a VerifyMeasure>,
    /// On the work.
    pub work: &'a VerifyMeasure,
    /// The replay.
    pub replay: Result<&'a VerifyMeasure, &'a CouldNotRun>,
}

/// What a replay came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayedTests {
    /// What it found.
    pub findings: Vec<Finding>,
    /// What it came to, in one sentence.
    pub told: String,
}

/// Judges a replay.
pub fn judge(replay: &Replay, runs: &ReplayRuns<'_>, brief: &Brief) -> ReplayedTests {
    let Some(base) = runs.base else {
        return tell("the base's tests could not be run on the base, so nothing is known of their replay");
    };
    let again = match runs.replay {
        Ok(again) => again,
        Err(why) => return tell(format!("the base's tests could not be run on the new product: {why}")),
    };
    match (&base.report, &runs.work.report, &again.report) {
        (Some(base), Some(work), Some(again)) if base.is_whole() && !again.tests.is_empty() => {
            judge_names(replay, brief, (base, work, again))
        }
        (Some(report), Some(_), None) if report.is_whole() => judge_whole(replay, brief, base, again),
        (Some(_), _, _) => tell("the base's tests could not be collected on the new product"),
        (None, _, _) => judge_whole(replay, brief, base, again),
    }
}

fn tell(told: impl Into<String>) -> ReplayedTests {
    ReplayedTests { findings: Vec::new(), told: told.into() }
}

fn judge_names(
    replay: &Replay,
    brief: &Brief,
    (base, work, again): (&TestReport, &TestReport, &TestReport),
) -> ReplayedTests {
    let mut findings = Vec::new();
    let (mut passed, mut old) = (0, 0);
    let mut broken: Vec<(Option<&str>, &str)> = Vec::new();
    for (name, test) in base.tests.iter().filter(|(_, test)| !test.is_flaky) {
        let path = replay.paths().find(|path| holds(path, test));
        let outcome = |report: &TestReport| report.tests.get(name).map(|test| test.outcome);
        let failed_again = match outcome(again) {
            Some(TestOutcome::Failed) => !again.tests.get(name).is_some_and(|test| test.is_flaky),
            Some(TestOutcome::Passed | TestOutcome::Skipped) => false,
            // What is not told of could not be collected, if its file was put back.
            None => path.is_some(),
        };
        match (test.outcome, outcome(work)) {
            (TestOutcome::Skipped, _) => {}
            (_, _) if !failed_again => passed += 1,
            (TestOutcome::Failed, Some(TestOutcome::Failed)) => old += 1,
            (TestOutcome::Failed, _) => {
                let message = format!(
                    "{name} failed on the base, and fails on the new product as the base has it: the proof lies in the tests"
                );
                let finding =
                    Finding::block(FindingKind::ReplayFailed, path.unwrap_or(&test.file), None, message);
                findings.push(soften(finding, is_about_tests(brief)));
            }
            (TestOutcome::Passed, _) => broken.push((path, name)),
        }
    }
    let mut paths: Vec<Option<&str>> = broken.iter().map(|(path, _)| *path).collect();
    paths.dedup();
    for path in paths {
        let names: Vec<&str> = broken.iter().filter(|(of, _)| *of == path).map(|(_, name)| *name).collect();
        let message = format!("{} passed on the base, and fails on the new product", name_some(&names));
        let finding = Finding::block(FindingKind::ReplayFailed, path.unwrap_or_default(), None, message);
        let finding = if path.is_none() { Finding { path: None, ..finding } } else { finding };
        findings.push(soften(finding, path.is_some_and(|path| brief.names(path))));
    }
    let of = base.tests.values().filter(|test| test.outcome != TestOutcome::Skipped).count();
    let old = if old > 0 { format!(", {old} failed before too") } else { String::new() };
    ReplayedTests {
        findings,
        told: format!("replay: {passed} of the base's {of} tests pass on the new product{old}"),
    }
}

/// Without names: what the whole command said on the base, and what it says now.
fn judge_whole(replay: &Replay, brief: &Brief, base: &VerifyMeasure, again: &VerifyMeasure) -> ReplayedTests {
    let names_new = replay.files.take_away.iter().any(|path| base.command.contains(path.as_str()));
    let (was, is) = (base.outcome, again.outcome);
    if is == VerifyOutcome::Passed {
        return tell("replay: the command passes on the new product with the base's tests");
    }
    if is != VerifyOutcome::Failed || names_new {
        return tell("the base's tests could not be replayed: no test of theirs ran");
    }
    let (message, is_note) = match was {
        VerifyOutcome::Passed => {
            let all_named = replay.paths().all(|path| brief.names(path));
            ("the command passed on the base, and fails on the new product with the base's tests", all_named)
        }
        VerifyOutcome::Failed => (
            "the command failed on the base, and fails on the new product with the base's tests: the proof lies in the tests",
            is_about_tests(brief),
        ),
        VerifyOutcome::Flaky | VerifyOutcome::NoTests => {
            return tell("the base says nothing: no test ran, or it is flaky");
        }
    };
    let path = replay.paths().next().unwrap_or_default();
    let finding = Finding::block(FindingKind::ReplayFailed, path, None, message);
    ReplayedTests {
        findings: vec![soften(finding, is_note)],
        told: String::from("replay: the command fails"),
    }
}

fn soften(finding: Finding, is_note: bool) -> Finding {
    if is_note { Finding { severity: Severity::Note, ..finding } } else { finding }
}

/// Whether the work is to change nothing but tests: then that is where its proof lies.
fn is_about_tests(brief: &Brief) -> bool {
    let judges = |path: &String| !matches!(part(path, brief), FileRole::Product | FileRole::Settings);
    !brief.delta.is_empty() && brief.delta.iter().all(judges)
}

/// Whether a path is where a test stands: its file, the folder of its package, or the program that is made of it.
fn holds(path: &str, test: &ReportedTest) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    let stem = name.split('.').next().unwrap_or(name);
    is_file_of(&test.file, path) || (name.ends_with("_test.go") && folder == test.file) || {
        name.ends_with(".rs") && stem.replace('-', "_") == test.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::tests::change_of;
    use crate::report::tests::report_of;
    use ftl_code::finding::render_findings;
    use std::time::Duration;

    /// One line a case: the delta, what differs, what is put back, what is taken away.
    const PLANNED: &str = "
        src/a.py         | ~src/a.py                                  |                  |
        src tests        | ~src/a.py ~tests/test_a.py                 | tests/test_a.py  |
        src tests        | ~src/a.py +tests/test_b.py                 |                  |
        src tests        | ~tests/test_a.py +tests/test_b.py          | tests/test_a.py  | tests/test_b.py
        src tests        | -tests/test_a.py +tests/test_b.py          | tests/test_a.py  | tests/test_b.py
        src tests        | ~src/a.py +tests/conftest.py               |                  | tests/conftest.py
        src tests        | ~src/a.py ~tests/data/in.json              | tests/data/in.json |
        src tests        | ~src/a.py +tests/data/in.json              |                  |
        src Makefile     | ~src/a.py ~Makefile                        | Makefile         |
        src Makefile     | ~src/a.py +Makefile                        |                  |
        src pytest.ini   | ~src/a.py +pytest.ini                      |                  | pytest.ini
        src              | ~src/lib.rs +src/plan/tests.rs ~tests/a.rs | tests/a.rs       |
        src              | ~src/a.py ~.github/workflows/ci.yml        |                  |
        src check.sh     | ~src/a.py ~check.sh                        | check.sh         |
        src Cargo.toml   | ~src/lib.rs ~Cargo.toml                    |                  |";

    #[test]
    fn everything_that_judges_and_differs_comes_back() {
        for line in PLANNED.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let delta = cells[0].split_whitespace().map(str::to_owned).collect();
            let brief =
                Brief { delta, verify: "./check.sh".to_owned(), verify_source: None, text: String::new() };
            let found = Replay::of(&change_of(cells[1]), &brief);
            assert_eq!(found.files.put_back.join(" "), cells[2], "{line}");
            assert_eq!(found.files.take_away.join(" "), cells[3], "{line}");
            assert_eq!(found.is_empty(), cells[2].is_empty() && cells[3].is_empty(), "{line}");
        }
    }

    #[test]
    fn a_file_that_the_command_only_looks_at_is_product() {
        for (command, is_replayed) in [
            ("grep -q done a.txt", false),
            ("sh a.txt", true),
            ("cd . && X=1 bash -e ./a.txt --fast", true),
            ("./a.txt", true),
            ("python3 -m py_compile a.txt", false),
            ("test -f a.txt; true", false),
        ] {
            let brief = Brief {
                delta: vec!["a.txt".to_owned()],
                verify: command.to_owned(),
                verify_source: Some("a.txt".to_owned()),
                text: String::new(),
            };
            assert_eq!(!Replay::of(&change_of("~a.txt"), &brief).is_empty(), is_replayed, "{command}");
        }
    }

    #[test]
    fn manifests_keep_what_the_product_needs() {
        let was = r#"{"scripts":{"test":"jest"},"dependencies":{"a":"1"}}"#;
        let is = r#"{"scripts":{"test":"true"},"jest":{"retryTimes":3},"dependencies":{"a":"1","b":"2"}}"#;
        let mixed: Json = serde_json::from_slice(&mix("web/package.json", was, is).unwrap()).unwrap();
        assert_eq!(mixed["scripts"]["test"], "jest");
        assert_eq!((mixed["dependencies"]["b"].as_str(), mixed.get("jest")), (Some("2"), None));
        assert_eq!(mix("package.json", is, is), None);
        let was = "[project]\nname = \"a\"\n[tool.pytest.ini_options]\naddopts = \"-x\"\n";
        let is = "[project]\nname = \"a\"\ndependencies = [\"b\"]\n[tool.pytest.ini_options]\naddopts = \"--co\"\n[tool.ruff]\nline-length = 9\n";
        let mixed = String::from_utf8(mix("pyproject.toml", was, is).unwrap()).unwrap();
        assert!(
            mixed.contains("addopts = \"-x\"") && mixed.contains("\"b\"") && mixed.contains("ruff"),
            "{mixed}"
        );
        assert_eq!(mix("pyproject.toml", "[project]\nname = \"a\"\n", "[project]\nname = \"b\"\n"), None);
    }

    fn measure(tests: &str) -> VerifyMeasure {
        let (outcome, report) = match tests {
            "passed" => (VerifyOutcome::Passed, None),
            "failed" => (VerifyOutcome::Failed, None),
            "none" => (VerifyOutcome::NoTests, None),
            tests => {
                let report = report_of(tests);
                let is_red = report.count(TestOutcome::Failed) > 0;
                (if is_red { VerifyOutcome::Failed } else { VerifyOutcome::Passed }, Some(report))
            }
        };
        VerifyMeasure {
            outcome,
            summary: String::new(),
            command: "./check.sh".to_owned(),
            exit: 0,
            took: Duration::ZERO,
            runs: 1,
            census: None,
            output: None,
            bound_to: String::new(),
            report,
        }
    }

    /// One line a case: the delta; the base, the work and the replay; whether it blocks, is noted, or is fine.
    const JUDGED: &str = "
        src tests       | +t.py::a -t.py::b | +t.py::a +t.py::b | +t.py::a +t.py::b | fine
        src tests       | +t.py::a -t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | blocks
        src t.py        | +t.py::a -t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | blocks
        t.py            | +t.py::a -t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | blocks
        test_t.py       | +t.py::a -t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | note
        src tests       | +t.py::a -t.py::b | +t.py::a          | +t.py::a -t.py::b | blocks
        src tests       | +t.py::a -t.py::b | +t.py::a -t.py::b | +t.py::a -t.py::b | fine
        src tests       | +t.py::a +t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | blocks
        src t.py        | +t.py::a +t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | note
        src t.py        | +t.py::a +t.py::b | +t.py::a +t.py::c | +t.py::a          | note
        src             | +t.py::a +t.py::b | +t.py::a +t.py::c | +t.py::a          | blocks
        src             | +t.py::a +u.py::b | +t.py::a +u.py::c | +t.py::a          | fine
        src             | +t.py::a ?t.py::b | +t.py::a +t.py::b | +t.py::a -t.py::b | fine
        src             | passed            | passed            | passed            | fine
        src             | passed            | passed            | failed            | blocks
        src t.py        | passed            | passed            | failed            | note
        src t.py        | failed            | passed            | failed            | blocks
        src             | failed            | passed            | none              | fine
        src             | none              | passed            | failed            | fine";

    #[test]
    fn three_runs_are_judged_by_name_or_as_a_whole() {
        for line in JUDGED.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let delta = cells[0].split_whitespace().map(str::to_owned).collect();
            let brief =
                Brief { delta, verify: "./check.sh".to_owned(), verify_source: None, text: String::new() };
            let files = Restore { put_back: vec!["t.py".to_owned()], take_away: Vec::new() };
            let replay = Replay { files, rewrite: Vec::new() };
            let [base, work, again] = [1, 2, 3].map(|at| measure(cells[at]));
            let runs = ReplayRuns { base: Some(&base), work: &work, replay: Ok(&again) };
            let found = judge(&replay, &runs, &brief);
            let word = match found.findings.first() {
                None => "fine",
                Some(first) if first.stops() => "blocks",
                Some(_) => "note",
            };
            assert_eq!(word, cells[4], "{line}: {}", render_findings(&found.findings));
            assert!(!found.told.is_empty());
        }
    }

    #[test]
    fn a_replay_that_could_not_be_run_is_told() {
        let (replay, brief, work) = (Replay::default(), Brief::default(), measure("+t.py::a"));
        let why = CouldNotRun::Timeout("too long".to_owned());
        let told =
            |base, again| judge(&replay, &ReplayRuns { base, work: &work, replay: again }, &brief).told;
        assert!(told(Some(&work), Err(&why)).contains("too long"));
        assert!(told(None, Ok(&work)).contains("nothing is known"));
    }
}
