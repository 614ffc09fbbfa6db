//! Tests and hooks that end the process with success, and hooks that steer a runner.

use super::super::commands::added;
use super::super::settings::Sides;
use super::super::units::{Unit, Units, read};
use super::assignment;
use crate::file_role::FileRole;
use ftl_code::context::Language;
use ftl_code::finding::{Finding, FindingKind};

/// Hooks of pytest that decide what is run.
const COLLECTS: [&str; 6] = [
    "collect_ignore",
    "pytest_ignore_collect",
    "pytest_collection_modifyitems",
    "pytest_itemcollected",
    "pytest_deselected",
    "pytest_collect_file",
];

/// Hooks of pytest that decide what counts as passed.
const DECIDES: [&str; 10] = [
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_sessionfinish",
    "pytest_runtest_call",
    "pytest_runtest_protocol",
    "pytest_pyfunc_call",
    "pytest_report_teststatus",
    "pytest_assertrepr_compare",
    "pytest_runtestloop",
    "pytest_cmdline_main",
];

/// Ways to end a process with success from inside.
const EXITS: [&str; 12] = [
    "os._exit(0)",
    "os._exit()",
    "sys.exit(0)",
    "sys.exit()",
    "SystemExit(0)",
    "SystemExit()",
    "process.exit(0)",
    "process.exit()",
    "process.exitCode=0",
    "os.Exit(0)",
    "process::exit(0)",
    "quit()",
];

/// Where a test says that it expects the end of a program.
const EXPECTS: [&str; 7] =
    ["SystemExit", "assertRaises", "raises(", "spyOn(process", "patch(", "monkeypatch", "toThrow"];

/// What newly ends the process of tests with success.
pub(in crate::integrity) fn ends(sides: &Sides<'_>, part: FileRole) -> Vec<Finding> {
    let Some(after) = sides.after.filter(|_| matches!(part, FileRole::Test | FileRole::Hook)) else {
        return Vec::new();
    };
    let told = |line: usize, word: &str| {
        let message = format!("the test process ends itself with success (`{word}`)");
        Finding::block(FindingKind::ExitsEarly, sides.path, Some(line), message)
    };
    let Some(language) = Language::of(sides.path) else { return Vec::new() };
    let count = |text: &str, word: &str| text.split_whitespace().collect::<String>().matches(word).count();
    let before = sides.before.unwrap_or_default();
    let Some(units) = read(language, after) else { return Vec::new() };
    let mut found = Vec::new();
    for unit in &units.units {
        let Some(word) = EXITS.iter().find(|word| unit.code.contains(**word)) else { continue };
        let is_new = count(after, word) > count(before, word);
        if is_new && !is_expected(&units, unit) {
            found.push(told(unit.line, word));
        }
    }
    found.extend(no_tests_run(sides, &units));
    found
}

fn is_expected(units: &Units, unit: &Unit) -> bool {
    let own = EXPECTS.iter().any(|word| unit.code.contains(word)) && !unit.code.contains("raise SystemExit");
    own || units.parents(unit).any(|one| EXPECTS.iter().any(|word| one.code.contains(word)))
}

/// Go: a main of tests that never runs them.
fn no_tests_run(sides: &Sides<'_>, units: &Units) -> Option<Finding> {
    let is_go = sides.path.ends_with(".go") && sides.before != sides.after;
    let main = units.functions.iter().find(|one| one.name == "TestMain").filter(|_| is_go)?;
    let message = "`TestMain` runs no tests";
    (!main.code.contains(".Run()"))
        .then(|| Finding::block(FindingKind::RunnerNarrowed, sides.path, Some(main.line), message))
}

/// What a file that a runner loads newly does to it.
pub(in crate::integrity) fn hook(sides: &Sides<'_>) -> Vec<Finding> {
    let path = sides.path;
    let mut found = Vec::new();
    for (line, text) in added(sides.before.unwrap_or_default(), sides.after.unwrap_or_default()) {
        let has = |words: &[&'static str]| words.iter().copied().find(|word| text.contains(word));
        let at = Some(line);
        if let Some(word) = has(&COLLECTS) {
            let message = format!("`{word}` decides which tests are run");
            found.push(Finding::block(FindingKind::RunnerNarrowed, path, at, message));
        } else if let Some(word) = has(&DECIDES) {
            let message = format!("`{word}` can change what counts as passed");
            found.push(Finding::block(FindingKind::RunnerPatched, path, at, message));
        } else if text.contains("pytest_plugins") {
            let message = "`pytest_plugins` loads more for all tests";
            found.push(Finding::note(FindingKind::RunnerPatched, path, at, message));
        } else if let Some(word) =
            has(&["monkeypatch.setattr", "setattr(", "builtins.", "sys.modules[", "mock.patch"])
        {
            let message = format!("`{word}` replaces something for all tests");
            found.push(Finding::note(FindingKind::RunnerPatched, path, at, message));
        } else if is_foreign(text) {
            let message = format!("`{}` replaces something for all tests", super::super::short(text.trim()));
            found.push(Finding::block(FindingKind::RunnerPatched, path, at, message));
        }
    }
    found
}

/// An assignment to an attribute of what is not the file's own, at the top of a hook.
fn is_foreign(line: &str) -> bool {
    let squeezed: String = line.split_whitespace().collect();
    let place = assignment(&squeezed).map(|(left, _)| left).filter(|_| !line.starts_with([' ', '\t']));
    const OWN: [&str; 4] = ["sys.", "os.environ", "self.", "settings."];
    place.is_some_and(|place| place.contains('.') && !OWN.iter().any(|own| place.starts_with(own)))
}
