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
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let (old, new) = (squeeze(sides.before.unwrap_or_default()), squeeze(after));
    let more = |word: &&str| new.matches(*word).count() > old.matches(*word).count();
    let more: Vec<&str> = EXITS.into_iter().filter(more).collect();
    if more.is_empty() && language != Language::Go {
        return Vec::new();
    }
    let Some(units) = read(language, after) else { return Vec::new() };
    let expected = find_expected(&units);
    let mut found = Vec::new();
    for (unit, is_expected) in units.units.iter().zip(expected) {
        let word = EXITS.iter().find(|word| unit.code.contains(**word));
        if let Some(word) = word.filter(|word| more.contains(word) && !is_expected) {
            found.push(told(unit.line, word));
        }
    }
    found.extend(no_tests_run(sides, &units));
    found
}

/// For each unit, whether it or one around it expects the end of a program.
fn find_expected(units: &Units) -> Vec<bool> {
    let speaks = |unit: &Unit| EXPECTS.iter().any(|word| unit.code.contains(word));
    let spoken: Vec<bool> = units.units.iter().map(speaks).collect();
    let mut around = vec![false; spoken.len()];
    for (at, unit) in units.units.iter().enumerate() {
        // A unit stands behind the one around it in the list.
        let parent = unit.parent.filter(|parent| *parent < at);
        around[at] = parent.is_some_and(|parent| spoken[parent] || around[parent]);
    }
    let own =
        |(at, unit): (usize, &Unit)| spoken[at] && !unit.code.contains("raise SystemExit") || around[at];
    units.units.iter().enumerate().map(own).collect()
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
