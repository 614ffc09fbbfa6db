//! Code that knows it is being tested, and tests that end well by themselves.
//!
//! These are lines with telling words that were not there before. Most have honest uses, so most are only
//! noted.

use super::commands::added;
use super::settings::Sides;
use crate::file_role::FileRole;
use ftl_code::finding::{Finding, FindingKind};

/// Words by which product code asks whether it is being tested.
const DETECTS: [&str; 19] = [
    "PYTEST_CURRENT_TEST",
    "\"pytest\" in sys.modules",
    "'pytest' in sys.modules",
    "sys.modules[\"pytest\"]",
    "sys.modules.get(\"pytest\")",
    "\"unittest\" in sys.modules",
    "'unittest' in sys.modules",
    "JEST_WORKER_ID",
    "process.env.VITEST",
    "NODE_ENV === 'test'",
    "NODE_ENV === \"test\"",
    "NODE_ENV == 'test'",
    "cfg!(test)",
    "#[cfg(not(test))]",
    "testing.Testing()",
    "flag.Lookup(\"test.",
    "inspect.stack()",
    "process.env.CI",
    "environ.get(\"CI\")",
];

/// Hooks of pytest that decide what is run.
const COLLECTS: [&str; 4] =
    ["collect_ignore", "pytest_ignore_collect", "pytest_collection_modifyitems", "pytest_itemcollected"];

/// Hooks of pytest that decide what counts as passed.
const DECIDES: [&str; 6] = [
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_sessionfinish",
    "pytest_runtest_call",
    "pytest_runtest_protocol",
    "pytest_pyfunc_call",
];

/// Ways to end a test process with success from inside.
const EXITS: [&str; 8] = [
    "os._exit(0)",
    "sys.exit(0)",
    "sys.exit()",
    "process.exit(0)",
    "process.exit()",
    "os.Exit(0)",
    "std::process::exit(0)",
    "process::exit(0)",
];

/// What added lines of one file say.
pub(super) fn look(sides: &Sides<'_>, part: FileRole) -> Vec<Finding> {
    let (path, before, after) =
        (sides.path, sides.before.unwrap_or_default(), sides.after.unwrap_or_default());
    let lines = added(before, after);
    let mut findings = Vec::new();
    for (line, text) in &lines {
        let has = |words: &[&'static str]| words.iter().copied().find(|word| text.contains(word));
        let at = Some(*line);
        match part {
            FileRole::Product => {
                if let Some(word) = has(&DETECTS) {
                    let message = format!("product code asks whether it is being tested (`{word}`)");
                    findings.push(Finding::note(FindingKind::TestDetected, path, at, message));
                }
            }
            FileRole::Hook => findings.extend(hook(path, at, text)),
            FileRole::Test
            | FileRole::Snapshot
            | FileRole::Fixture
            | FileRole::Settings
            | FileRole::Targets
            | FileRole::Ci
            | FileRole::VerifyScript => {}
        }
        if let Some(word) = has(&EXITS).filter(|_| matches!(part, FileRole::Test | FileRole::Hook)) {
            let message = format!("the test process ends itself with success (`{word}`)");
            findings.push(Finding::block(FindingKind::ExitsEarly, path, at, message));
        }
    }
    findings.extend(always_equal(path, after, &lines));
    let is_site =
        path.ends_with("sitecustomize.py") || path.ends_with("usercustomize.py") || path.ends_with(".pth");
    if is_site && sides.after.is_some() && sides.before != sides.after {
        let message = "Python loads this file before every program, the test runner too";
        findings.push(Finding::note(FindingKind::RunnerPatched, path, None, message));
    }
    findings
}

fn hook(path: &str, line: Option<usize>, text: &str) -> Option<Finding> {
    let has = |words: &[&'static str]| words.iter().copied().find(|word| text.contains(word));
    if let Some(word) = has(&COLLECTS) {
        let message = format!("`{word}` decides which tests are run");
        return Some(Finding::block(FindingKind::RunnerNarrowed, path, line, message));
    }
    if let Some(word) = has(&DECIDES) {
        let message = format!("`{word}` can change what counts as passed");
        return Some(Finding::block(FindingKind::RunnerPatched, path, line, message));
    }
    let word = has(&["monkeypatch.setattr", "setattr(", "builtins.", "sys.modules[", "mock.patch"])?;
    let message = format!("`{word}` replaces something for all tests");
    Some(Finding::note(FindingKind::RunnerPatched, path, line, message))
}

/// A new comparison whose body says yes: `def __eq__(self, other): return True`.
fn always_equal(path: &str, after: &str, lines: &[(usize, &str)]) -> Vec<Finding> {
    let all: Vec<&str> = after.lines().collect();
    let starts =
        lines.iter().filter(|(_, text)| text.contains("def __eq__(") || text.contains("fn eq(&self"));
    let says_yes = |line: usize| {
        let body = all.iter().skip(line - 1).take(3).flat_map(|text| text.split([':', '{', '}', ';']));
        let mut statements = body.map(str::trim).filter(|text| !text.is_empty()).skip(1);
        statements.any(|text| matches!(text, "return True" | "true" | "return true"))
    };
    let found = starts.filter(|(line, _)| says_yes(*line));
    let message = "a comparison says that everything is equal";
    found.map(|(line, _)| Finding::note(FindingKind::AlwaysEqual, path, Some(*line), message)).collect()
}
