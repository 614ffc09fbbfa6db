//! What failed before the work began, and is not held against it: where the base is red, work is judged by the tests that
//! it broke and by those that it promised to mend, by name.
//!
//! Nothing is let pass on a guess. Without whole reports of both sides, or where no test passed on the base, the exit code
//! decides as ever. A test is promised where the command or the delta names its file, where the brief names it, or where
//! what it is called speaks of what the brief is about: words of the task, and of no file of the delta.

use std::collections::BTreeSet;
use std::fmt;

use super::VerifyMeasure;
use crate::report::{
    NameChange, ReportedTest, TestOutcome, TestReport, bare, compare, is_file_of, name_some,
};
use ftl_core::catalogue::build::VerifyOutcome;
use ftl_core::catalogue::spec::Spec;
use ftl_git::change::Change;

/// Words by which a brief says that something is wrong now.
const WRONG: [&str; 16] = [
    "fix",
    "fixes",
    "bug",
    "bugs",
    "mend",
    "repair",
    "broken",
    "fails",
    "failing",
    "failure",
    "wrong",
    "wrongly",
    "incorrect",
    "regression",
    "crash",
    "crashes",
];

/// The shortest word that says what something is about.
const MIN_WORD: usize = 3;

/// Words that say nothing about a subject.
const IDLE: [&str; 18] = [
    "test", "tests", "the", "and", "for", "with", "that", "this", "add", "adds", "make", "makes", "should",
    "when", "not", "works", "from", "into",
];

/// What a piece of work promised, as far as tests are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    command: String,
    delta: Vec<String>,
    text: String,
    words: BTreeSet<String>,
    /// The words of the names of files that may change: half of the tests are called after them.
    places: BTreeSet<String>,
    /// Whether a test is promised that is called after a file which may change, too.
    is_wide: bool,
    /// Whether the brief says that something is wrong.
    pub is_fix: bool,
}

impl Promise {
    /// What a brief promises.
    pub fn of(spec: &Spec) -> Promise {
        let text = format!("{} {}", spec.id, spec.objective.as_deref().unwrap_or_default());
        let source = spec.verify_source.iter().filter(|path| !path.is_empty()).cloned();
        let delta: Vec<String> = spec.delta.iter().cloned().chain(source).collect();
        // The objective of a whole campaign says nothing about one task of it.
        let is_fix = Promise::new("", &[], &spec.id).is_fix;
        Promise { is_fix, ..Promise::new(&spec.verify, &delta, &text) }
    }

    /// What a command, a delta and a text promise.
    pub fn new(command: &str, delta: &[String], text: &str) -> Promise {
        let words = split_words(text);
        let is_fix = WRONG.iter().any(|word| words.contains(*word));
        let stem = |path: &String| {
            path.rsplit('/').next().and_then(|name| name.split('.').next().map(str::to_owned))
        };
        let places = delta.iter().filter_map(stem).flat_map(|stem| split_words(&stem)).collect();
        let (command, delta, text) = (command.to_owned(), delta.to_vec(), text.to_lowercase());
        Promise { command, delta, text, words, places, is_wide: false, is_fix }
    }

    /// What a story promises: its words seldom name what is to be mended, so every test counts that is called after a file
    /// that was changed.
    pub fn of_story(text: &str, change: &Change) -> Promise {
        let paths: Vec<String> = change.files.iter().map(|file| file.path.clone()).collect();
        Promise { is_wide: true, ..Promise::new("", &paths, text) }
    }

    /// Whether the work was to mend this test.
    pub fn includes(&self, name: &str, test: &ReportedTest) -> bool {
        let bare = bare(name);
        let is_named = |path: &String| is_file_of(&test.file, path);
        let in_command = self.command.split_whitespace().any(|word| {
            let (file, rest) = word.split_once("::").unwrap_or((word, ""));
            is_file_of(&test.file, file) || is_file_of(file, &test.file) || (!bare.is_empty() && rest == bare)
        });
        if in_command || self.delta.iter().any(is_named) || self.text.contains(&bare.to_lowercase()) {
            return true;
        }
        let is_after = self.is_wide && !split_words(&test.file).is_disjoint(&self.places);
        if is_after {
            return true;
        }
        let about: BTreeSet<String> = split_words(bare).difference(&self.places).cloned().collect();
        about.is_empty() || about.intersection(&self.words).next().is_some()
    }
}

/// The words of a text, of names with underscores and of names with capitals.
fn split_words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for part in text.split(|letter: char| !letter.is_alphanumeric()) {
        let mut word = String::new();
        let mut was_lower = false;
        for letter in part.chars() {
            if letter.is_uppercase() && was_lower {
                words.insert(std::mem::take(&mut word));
            }
            was_lower = letter.is_lowercase();
            word.extend(letter.to_lowercase());
        }
        words.insert(word);
    }
    let speaks = |word: &String| word.chars().count() >= MIN_WORD && !IDLE.contains(&word.as_str());
    words.retain(speaks);
    words.retain(|word| !word.chars().all(|letter| letter.is_ascii_digit()));
    words
}

/// How work stands to tests that failed before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldFailures {
    /// Tests that fail now and did not before.
    pub broken: Vec<String>,
    /// Tests that fail as before, and that the work was to mend.
    pub unmended: Vec<String>,
    /// Tests that fail as before, and that nobody spoke of.
    pub old: Vec<String>,
    /// Tests that pass now.
    pub mended: Vec<String>,
    /// Tests that end in both ways on one tree.
    pub flaky: Vec<String>,
    /// Whether something was to be mended and nothing was.
    pub mends_nothing: bool,
}

impl OldFailures {
    /// Whether nothing of it stops the work.
    pub fn passes(&self) -> bool {
        self.broken.is_empty() && self.unmended.is_empty() && !self.mends_nothing
    }
}

impl fmt::Display for OldFailures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        let mut tell = |what: &str, names: &[String]| {
            if !names.is_empty() {
                lines.push(format!("{what}: {}", name_some(names)));
            }
        };
        tell("broken by the work", &self.broken);
        tell("failed before and was to be mended", &self.unmended);
        tell("failed before the work too, not held against it", &self.old);
        tell("flaky, decides nothing alone", &self.flaky);
        tell("mended", &self.mended);
        if self.mends_nothing {
            lines.push("something was to be mended, and every test that failed before still does".to_owned());
        }
        out.write_str(&lines.join("\n"))
    }
}

/// Judges work on a base where tests failed; nothing where the base was green, or where names are missing.
pub fn judge_old_failures(
    base: &VerifyMeasure,
    now: &VerifyMeasure,
    promise: &Promise,
) -> Option<OldFailures> {
    let is_red = |one: &VerifyMeasure| matches!(one.outcome, VerifyOutcome::Failed | VerifyOutcome::Flaky);
    let (before, after) = (base.report.as_ref()?, now.report.as_ref()?);
    let ran_on_both = before.is_whole() && after.is_whole() && before.count(TestOutcome::Passed) > 0;
    if !is_red(now) || base.command != now.command || !ran_on_both {
        return None;
    }
    let NameChange { broken, mended, old, flaky } = compare(before, after);
    // A base that is green and a test that comes and goes are told together; without either nothing is old.
    let is_new_only = old.is_empty() && flaky.is_empty();
    // What else ended the command with a failure is not known by name.
    let is_explained = after.count(TestOutcome::Failed) > 0 && (base.exit == now.exit || old.is_empty());
    if is_new_only || !is_explained || has_lost(before, after) {
        return None;
    }
    let is_promised = |name: &String| after.tests.get(name).is_some_and(|test| promise.includes(name, test));
    let (unmended, old): (Vec<String>, Vec<String>) = old.into_iter().partition(is_promised);
    let mends_nothing = promise.is_fix && is_red(base) && mended.is_empty() && !old.is_empty();
    Some(OldFailures { broken, unmended, old, mended, flaky, mends_nothing })
}

/// Whether a runner is silent now, or a test that passed is not told of: that is looked into where a run is green.
fn has_lost(before: &TestReport, after: &TestReport) -> bool {
    let is_silent = before.runners.iter().any(|runner| !after.runners.contains(runner));
    is_silent || before.ended(TestOutcome::Passed).any(|(name, _)| !after.tests.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report_of;
    use std::time::Duration;

    fn measure(tests: &str) -> VerifyMeasure {
        let report = report_of(tests);
        let is_red = report.count(TestOutcome::Failed) > 0;
        VerifyMeasure {
            outcome: if is_red { VerifyOutcome::Failed } else { VerifyOutcome::Passed },
            summary: String::new(),
            command: "pytest".to_owned(),
            exit: i32::from(is_red),
            took: Duration::ZERO,
            runs: 1,
            census: None,
            output: None,
            bound_to: String::new(),
            report: Some(report),
        }
    }

    /// One case a line: what the task says, tests on the base, tests on the work, and what is said of them.
    const JUDGED: &str = "
        001-mul multiply   | +t.py::test_a -t.py::test_old                  | +t.py::test_a -t.py::test_old                  | passes
        001-mul multiply   | +t.py::test_a -t.py::test_old                  | -t.py::test_a -t.py::test_old                  | broken t.py::test_a
        001-mul multiply   | +t.py::test_a -t.py::test_old                  | +t.py::test_a -t.py::test_old -t.py::test_mul  | broken t.py::test_mul
        001-mul multiply   | +t.py::test_a -t.py::test_mul                  | +t.py::test_a -t.py::test_mul                  | unmended t.py::test_mul
        001-mul multiply   | +t.py::test_a -t.py::test_mul -t.py::test_old  | +t.py::test_a +t.py::test_mul -t.py::test_old  | passes
        001-mul test_old   | +t.py::test_a -t.py::test_old                  | +t.py::test_a -t.py::test_old                  | unmended t.py::test_old
        001-fix-it         | +t.py::test_a -t.py::test_old                  | +t.py::test_a -t.py::test_old                  | nothing
        001-fix-it         | +t.py::test_a -t.py::test_b -t.py::test_old    | +t.py::test_a +t.py::test_b -t.py::test_old    | passes
        001-mul multiply   | +t.py::test_a -t.py::test_calc                 | +t.py::test_a -t.py::test_calc                 | unmended t.py::test_calc
        001-mul multiply   | +t.py::test_a -tests/test_calc.py::test_old    | +t.py::test_a -tests/test_calc.py::test_old    | passes
        001-mul multiply   | +t.py::test_a -named.py::test_old              | +t.py::test_a -named.py::test_old              | unmended named.py::test_old
        001-mul multiply   | -t.py::test_old                                | -t.py::test_old                                | -
        001-mul multiply   | +t.py::test_a                                  | -t.py::test_a                                  | -
        001-mul multiply   | +t.py::test_a -t.py::test_old                  | +t.py::test_a +t.py::test_old                  | -
        001-mul multiply   | +t.py::test_a +t.py::test_b -t.py::test_old    | +t.py::test_a -t.py::test_old                  | -
        001-mul multiply   | +t.py::test_a ?t.py::test_net                  | +t.py::test_a -t.py::test_net                  | passes";

    #[test]
    fn work_is_judged_by_what_it_broke_and_what_it_promised() {
        for line in JUDGED.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let delta = ["src/calc.py".to_owned(), "named.py".to_owned()];
            let promise = Promise::new("pytest", &delta, cells[0]);
            let found = judge_old_failures(&measure(cells[1]), &measure(cells[2]), &promise);
            let word = match &found {
                None => "-".to_owned(),
                Some(found) if found.passes() => "passes".to_owned(),
                Some(found) if found.mends_nothing => "nothing".to_owned(),
                Some(found) if !found.broken.is_empty() => format!("broken {}", found.broken.join(" ")),
                Some(found) => format!("unmended {}", found.unmended.join(" ")),
            };
            assert_eq!(word, cells[3], "{line}");
        }
    }

    #[test]
    fn a_story_promises_what_is_called_after_its_files() {
        let story = Promise::of_story("Do it", &crate::integrity::tests::change_of("~src/calc.py"));
        let test = |file: &str| ReportedTest {
            file: file.to_owned(),
            outcome: TestOutcome::Failed,
            is_flaky: false,
        };
        assert!(story.includes("test_calc.T.test_mul", &test("test_calc.py")));
        assert!(!story.includes("test_legacy.T.test_old", &test("test_legacy.py")));
    }

    #[test]
    fn names_are_taken_apart() {
        let words: Vec<String> =
            split_words("test_old_thing TestMulAdd 001-fix it HTTPServer").into_iter().collect();
        assert_eq!(words, ["fix", "httpserver", "mul", "old", "thing"]);
    }
}
