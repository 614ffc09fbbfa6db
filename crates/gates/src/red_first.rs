//! Red first: whether some counted test failed before the work and passes with it.
//!
//! Without that a green verify says only that nothing is broken. Where the task says that something is wrong it blocks;
//! for all other work it is a note. A test that is new may fail on the base's product: that takes a run of its own, for
//! which this says what is to be laid on the base.

use super::file_role::{FileRole, is_code, part};
use super::report::{TestOutcome, TestReport, compare, name_some};
use super::verify::VerifyMeasure;
use ftl_code::finding::{Brief, Finding, FindingKind, Severity};
use ftl_git::change::{Change, FileChange};

/// What shows that the work was needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedFirstNeed {
    /// Tests that failed on the base pass now, or nothing is to be shown.
    Shown,
    /// Nothing yet: these tests are new, and may fail on the base's product.
    New(Vec<String>),
    /// Nothing.
    Nothing,
}

/// Looks at a green run beside the one on the base. Where names are missing on one side, or no code differs, nothing is
/// to be shown.
pub fn look(base: &VerifyMeasure, now: &VerifyMeasure, change: &Change, brief: &Brief) -> RedFirstNeed {
    let is_product = |file: &FileChange| is_code(&file.path) && part(&file.path, brief) == FileRole::Product;
    let (Some(before), Some(after), true) = (&base.report, &now.report, change.files.iter().any(is_product))
    else {
        return RedFirstNeed::Shown;
    };
    if !before.is_whole() || !after.is_whole() || !compare(before, after).mended.is_empty() {
        return RedFirstNeed::Shown;
    }
    let new = after.ended(TestOutcome::Passed).filter(|(name, _)| !before.tests.contains_key(*name));
    let new: Vec<String> = new.map(|(name, _)| name.to_owned()).collect();
    if new.is_empty() { RedFirstNeed::Nothing } else { RedFirstNeed::New(new) }
}

/// The files of the work that are laid on the base to see whether its new tests fail there.
pub fn tests_of<'a>(change: &'a Change, brief: &'a Brief) -> impl Iterator<Item = &'a FileChange> {
    change.files.iter().filter(|file| {
        let judges = matches!(
            part(&file.path, brief),
            FileRole::Test | FileRole::Snapshot | FileRole::Fixture | FileRole::Hook | FileRole::Settings
        );
        judges && file.after.is_some()
    })
}

/// Whether one of the new tests fails on the base's product, or cannot even be collected there.
pub fn is_red(new: &[String], on_base: Option<&TestReport>) -> bool {
    let Some(on_base) = on_base else { return true };
    new.iter().any(|name| on_base.tests.get(name).is_none_or(|test| test.outcome == TestOutcome::Failed))
}

/// What is said where nothing shows that the work was needed. New tests that pass on the base are a note, unless
/// something was to be mended.
pub fn tell(new: &[String], is_fix: bool) -> Finding {
    let message = match new {
        [] => "no test failed on the base and passes now".to_owned(),
        new => format!(
            "no test failed on the base and passes now; new and green on the base too: {}",
            name_some(new)
        ),
    };
    let severity = if is_fix { Severity::Blocks } else { Severity::Note };
    Finding { path: None, severity, ..Finding::note(FindingKind::NotRedFirst, "", None, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::tests::change_of;
    use crate::report::tests::report_of;
    use ftl_core::catalogue::build::VerifyOutcome;
    use std::time::Duration;

    fn measure(tests: &str) -> VerifyMeasure {
        VerifyMeasure {
            outcome: VerifyOutcome::Passed,
            summary: String::new(),
            command: "pytest".to_owned(),
            exit: 0,
            took: Duration::ZERO,
            runs: 1,
            census: None,
            output: None,
            bound_to: String::new(),
            report: (!tests.is_empty()).then(|| report_of(tests)),
        }
    }

    /// One case a line: what differs, tests on the base, tests now, what is to be shown.
    const CASES: &str = "
        ~a.py             | +t.py::a -t.py::b | +t.py::a +t.py::b | shown
        ~a.py             | +t.py::a          | +t.py::a          | nothing
        ~a.py ~test_t.py  | +t.py::a          | +t.py::a +t.py::b | new t.py::b
        ~README.md        | +t.py::a          | +t.py::a          | shown
        ~test_t.py        | +t.py::a          | +t.py::a +t.py::b | shown
        ~a.py             |                   | +t.py::a          | shown
        ~a.py             | +t.py::a -t.py::b | +t.py::a -t.py::b | nothing
        ~a.py             | +t.py::a          | +t.py::a ~t.py::b | nothing";

    #[test]
    fn a_test_must_have_failed_before() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let (base, now) = (measure(cells[1]), measure(cells[2]));
            let word = match look(&base, &now, &change_of(cells[0]), &Brief::default()) {
                RedFirstNeed::Shown => "shown".to_owned(),
                RedFirstNeed::Nothing => "nothing".to_owned(),
                RedFirstNeed::New(names) => format!("new {}", names.join(" ")),
            };
            assert_eq!(word, cells[3], "{line}");
        }
    }

    #[test]
    fn new_tests_are_red_where_they_fail_or_cannot_be_collected() {
        let new = ["t.py::b".to_owned()];
        assert!(is_red(&new, Some(&report_of("-t.py::b"))));
        assert!(is_red(&new, Some(&report_of("+t.py::a"))));
        assert!(is_red(&new, None));
        assert!(!is_red(&new, Some(&report_of("+t.py::b"))));
        assert!(tell(&new, true).stops() && !tell(&[], false).stops());
    }

    #[test]
    fn tests_and_what_they_need_are_laid_on_the_base() {
        let (change, brief) =
            (change_of("~a.py ~test_t.py +tests/data/x.json -tests/test_u.py ~README.md"), Brief::default());
        let paths: Vec<&str> = tests_of(&change, &brief).map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["test_t.py", "tests/data/x.json"]);
    }
}
