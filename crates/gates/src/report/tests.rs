//! Tests of reports: how lines are read, when a count is not believed, and what is lost by name.

use super::*;
use crate::integrity::tests::change_of;
use ftl_code::finding::render_findings;

/// One case a line: what was written, with `;` for the end of a line and `,` for a tab; runners, tests by outcome, the
/// problem, and why an exit code of 0 is not believed.
const READ: &str = "
    start,a,pytest;collected,a,2;test,a,passed,t.py,t.py::x;test,a,failed,t.py,t.py::y;end,a,1 | pytest | 1 0 1 | - | the command ended with 0, and pytest with 1
    start,a,pytest;collected,a,1;test,a,passed,t.py,t.py::x;end,a,0   | pytest | 1 0 0 | - | -
    start,a,pytest;collected,a,2;test,a,passed,t.py,t.py::x           | pytest | 1 0 0 | pytest began and never said that it ended | pytest began
    start,a,pytest                                                    | pytest | 0 0 0 | pytest began and never said that it ended | pytest began
    start,a,pytest;collected,a,2;test,a,passed,t.py,t.py::x;end,a,0   | pytest | 1 0 0 | pytest collected 2 tests, and 1 of them ended | pytest collected
    start,a,pytest;collected,a,2;test,a,passed,t.py,t.py::x;end,a,2   | pytest | 1 0 0 | - | the command ended
    start,a,jest;test,a,failed,t.js,x;end,a,0                         | jest   | 0 0 1 | jest ended with 0, and 1 of its tests failed | jest ended
    start,a,pytest;end,a,5                                            | pytest | 0 0 0 | - | -
    start,a,unittest;collected,a,3;loose,a;test,a,skipped,t.py,t.T;end,a,0 | unittest | 0 1 0 | - | -
    start,a,go test;collected,a,1;test,a,passed,p,TestA;test,a,passed,p,TestA/sub;end,a,0 | go test | 2 0 0 | - | -
    start,a,go test;collected,a,2;test,a,passed,p,TestA;test,a,passed,p,TestA/sub;end,a,0 | go test | 2 0 0 | go test collected 2 tests, and 1 of them ended | go test
    start,a,cargo test;test,a,failed,x,x::t;end,a,1;start,b,cargo test;test,b,passed,x,x::t;end,b,0 | cargo test | 0 0 1 | - | the command ended
    start,a,cargo nextest;test,a,failed,x,x::t;end,a,101;start,b,cargo nextest;test,b,passed,x,x::t;end,b,0 | cargo nextest | 1 0 0 | - | -
    start,a,cargo nextest;test,a,failed,x,x::t;end,a,101 | cargo nextest | 0 0 1 | - | the command ended
    test,a,passed,t.py,t.py::x;end,a,0                                | -      | -     | - | -
    start,a,pytest;test,b,passed,t.py,forged;end,b,0;end,a,0          | pytest | 0 0 0 | - | -";

#[test]
fn a_report_is_believed_where_nothing_speaks_against_it() {
    for line in READ.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let text = cells[0].replace(',', "\t").replace(';', "\n");
        let Some(report) = read(&text, Path::new("/checkout")) else {
            assert_eq!(cells[1], "-", "{line}");
            continue;
        };
        let count = |outcome| report.count(outcome);
        let numbers = [TestOutcome::Passed, TestOutcome::Skipped, TestOutcome::Failed].map(count);
        assert_eq!(report.runners.join(" "), cells[1], "{line}");
        assert_eq!(numbers.map(|one| one.to_string()).join(" "), cells[2], "{line}");
        assert_eq!(report.problems.first().map_or("-", String::as_str), cells[3], "{line}");
        let why = report.contradiction(0).unwrap_or_else(|| "-".to_owned());
        assert!(why.starts_with(cells[4]), "{line}: {why}");
        assert_eq!(report.contradiction(1), None, "{line}");
    }
}

/// What a program that speaks TAP prints, with `;` for the end of a line; tests by outcome; the problem.
const TAP: &str = "
    1..2;ok 1 - adds;ok 2 subtracts            | 2 0 0 | -
    1..2;ok 1 - adds                           | 1 0 0 | 2 tests were planned, and 1 of them ended
    1..3;ok 1 - a;not ok 2 - b;ok 3 c # SKIP x | 1 1 1 | -
    ok 1 - a;not ok 2 - b # TODO later;1..2    | 1 1 0 | -
    1..2;ok 1 - same;ok 2 - same               | 1 0 0 | -
    hello                                      | -     | -";

#[test]
fn names_are_read_from_tap() {
    for line in TAP.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let Some(report) = read_tap(&cells[0].replace(';', "\n")) else {
            assert_eq!(cells[1], "-", "{line}");
            continue;
        };
        let count = |outcome| report.count(outcome).to_string();
        let numbers = [TestOutcome::Passed, TestOutcome::Skipped, TestOutcome::Failed].map(count);
        assert_eq!(numbers.join(" "), cells[1], "{line}");
        assert_eq!(report.problems.first().map_or("-", String::as_str), cells[2], "{line}");
    }
}

/// Tests as `+` passed, `-` failed, `~` skipped, `?` flaky, each `file::name`.
pub(crate) fn report_of(tests: &str) -> TestReport {
    let mut report = TestReport { runners: vec!["pytest".to_owned()], ..TestReport::default() };
    for word in tests.split_whitespace() {
        let (sign, name) = word.split_at(1);
        let outcome = match sign {
            "+" | "?" => TestOutcome::Passed,
            "~" => TestOutcome::Skipped,
            _ => TestOutcome::Failed,
        };
        let file = name.split("::").next().unwrap_or_default();
        report.add("pytest", file, name, outcome);
        report.tests.get_mut(name).unwrap().is_flaky = sign == "?";
    }
    report
}

/// One case a line: tests on the base, tests now, what broke, what was mended, what is old, what is flaky.
const COMPARED: &str = "
    +t::a +t::b        | +t::a -t::b        | t::b |      |      |
    -t::a +t::b        | +t::a +t::b        |      | t::a |      |
    -t::a +t::b        | -t::a +t::b        |      |      | t::a |
    -t::a +t::b        | -t::a -t::c        | t::c |      | t::a |
    ?t::a +t::b        | -t::a +t::b        |      |      |      | t::a
    ~t::a              | -t::a              | t::a |      |      |
    -t::a              | ~t::a              |      |      |      |";

#[test]
fn two_runs_are_compared_by_name() {
    for line in COMPARED.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let found = compare(&report_of(cells[0]), &report_of(cells[1]));
        let lists = [found.broken, found.mended, found.old, found.flaky].map(|list| list.join(" "));
        assert_eq!(lists.as_slice(), &cells[2..6], "{line}");
    }
}

/// One case a line: tests on the base, tests now, what differs (`~` changed; the new text has what stands behind `=`),
/// what is found.
const LOST: &str = "
    +a.py::x +a.py::y   | +a.py::x            |              | a.py: fewer_tests: a.py::y ran on the base and does not run now
    +a.py::x +a.py::y   | +a.py::x            | a.py=x,y     | a.py: fewer_tests: a.py::y ran on the base and does not run now
    +a.py::x +a.py::y   | +a.py::x            | a.py=x       |
    +a.py::x +a.py::y   | +a.py::x +a.py::z   | a.py=x,z     |
    +a.py::x +a.py::y   | +a.py::x +a.py::z   | a.py=x,y,z   | a.py: fewer_tests: a.py::y ran on the base and does not run now
    +a.py::x[1] +a.py::x[2] | +a.py::x[1] +a.py::x[3] | a.py=x |
    +a.py::x[1] +a.py::x[2] | +a.py::x[3] +a.py::x[4] |     |
    +a.py::x            | ~a.py::x            |              | a.py: test_skipped: a.py::x passed on the base and is skipped now
    +a.py::x            | +a.py::x ~a.py::y   | a.py=x,y     |
    -a.py::x +a.py::y   | ~a.py::x +a.py::y   | a.py=x,y     |
    +t/a.py::x          | +t/b.py::x          | t/a.py=      |";

#[test]
fn a_test_that_stands_in_its_file_and_does_not_run_is_found() {
    for line in LOST.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (path, text) = cells[2].split_once('=').unwrap_or_default();
        let mut change = change_of(&if path.is_empty() { String::new() } else { format!("~{path}") });
        for file in &mut change.files {
            let text = text.replace(',', "\n").into_bytes();
            file.after.as_mut().unwrap().bytes = Some(text);
        }
        let found = compare::find_lost(&report_of(cells[0]), &report_of(cells[1]), &change);
        assert_eq!(render_findings(&found), cells[3], "{line}");
    }
}

#[test]
fn a_runner_that_spoke_on_the_base_and_is_silent_now_is_found() {
    let found = compare::find_lost(&report_of("+a.py::x"), &TestReport::default(), &change_of(""));
    assert_eq!(render_findings(&found), "fewer_tests: pytest told of 1 tests on the base and is silent now");
}

#[test]
fn a_report_has_limits() {
    let mut text = String::from("start\ta\tpytest\n");
    for number in 0..=MAX_TESTS {
        text.push_str(&format!("test\ta\tpassed\tt.py\tt.py::{number}\n"));
    }
    text.push_str(&format!("test\ta\tpassed\tt.py\t{}\nend\ta\t0\n", "x".repeat(2 * MAX_NAME)));
    let report = read(&text, Path::new("/c")).unwrap();
    assert!(report.is_cut && !report.is_whole() && report.tests.len() == MAX_TESTS);
    let long =
        read(&format!("start\ta\tpytest\ntest\ta\tpassed\tt\t{}", "é".repeat(MAX_NAME + 1)), Path::new("/c"));
    assert_eq!(long.unwrap().tests.keys().next().unwrap().chars().count(), MAX_NAME);
}

#[test]
fn files_are_matched_from_their_end() {
    for (file, path, wanted) in [
        ("tests/a.py", "tests/a.py", true),
        ("tests/a.py", "web/tests/a.py", true),
        ("a.py", "tests/aa.py", false),
        ("", "tests/a.py", false),
        ("./a.py", "a.py", true),
    ] {
        assert_eq!(is_file_of(file, path), wanted, "{file} {path}");
    }
}

#[test]
fn bare_names_are_what_stands_in_the_file() {
    for (name, wanted) in [
        ("tests/test_a.py::TestX::test_y[1-2]", "test_y"),
        ("a.test.js > outer > adds two numbers", "adds two numbers"),
        ("calc::tests::adds", "adds"),
        ("test_calc.CalcTest.test_add", "test_add"),
        ("./calc::TestAdd/sub", "TestAdd"),
    ] {
        assert_eq!(compare::bare(name), wanted, "{name}");
    }
}
