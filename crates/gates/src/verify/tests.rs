//! Tests of the verify gate on outputs of every runner: green, red, skipped and without a test.

use proptest::prelude::*;

use super::*;
use crate::{FindingAllowance, allow};

/// Outputs in the form of each runner, shortened and written down by hand; `tests/gates.rs` has real ones.
/// `## runner | exit | outcome | run failed skipped | first failing test | part of its message`.
const OUTPUTS: &str = include_str!("outputs.txt");

#[test]
fn every_runner_is_read_at_its_own_word() {
    let mut seen = std::collections::BTreeMap::<String, Vec<VerifyOutcome>>::new();
    for case in
        OUTPUTS.split("\n## ").map(|case| case.trim_start_matches("## ")).filter(|case| !case.is_empty())
    {
        let (head, output) = case.split_once('\n').unwrap_or((case, ""));
        let cells: Vec<&str> = head.split('|').map(str::trim).collect();
        let [runner, exit, outcome, numbers, name, message] = cells[..] else { panic!("{head}") };
        let output = output.replace("\\t", "\t").replace("\\e", "\x1b");
        let judged = judge("make check", exit.parse().unwrap(), &output, read(&output));
        let wanted: VerifyOutcome = serde_json::from_value(outcome.into()).unwrap();
        assert_eq!(judged.outcome, wanted, "{head}\n{:?}\n{}", judged.census, judged.summary);
        seen.entry(runner.to_owned()).or_default().push(wanted);
        let Some(census) = judged.census else {
            assert_eq!(numbers, "-", "{head}");
            continue;
        };
        let run = census.run.map_or("?".to_owned(), |run| run.to_string());
        assert_eq!(census.runners, [runner], "{head}");
        assert_eq!(format!("{run} {} {}", census.failed, census.skipped), numbers, "{head}");
        let first = census.failures.first().cloned().unwrap_or_default();
        assert_eq!(first.name, name, "{head}: {:?}", census.failures);
        assert!(first.message.contains(message), "{head}: {:?}", first.message);
        assert!(message.is_empty() || judged.summary.contains(message), "{head}: {}", judged.summary);
    }
    for (runner, outcomes) in &seen {
        let has = |outcome| outcomes.contains(&outcome);
        assert!(has(VerifyOutcome::Passed) && has(VerifyOutcome::Failed), "{runner}: {outcomes:?}");
        assert!(runner == "nobody" || has(VerifyOutcome::NoTests), "{runner}: {outcomes:?}");
    }
    assert_eq!(seen.len(), 17, "{:?}", seen.keys());
}

/// One line a case: the exit code, what was printed, why that is no answer (`-` where it is one).
const NO_ANSWER: &str = "
    126 | sh: 1: ./run.sh: Permission denied              | NotFound
    127 | sh: 1: pytest: not found                        | NotFound
    127 | 1 failed, 2 passed in 0.01s                     | -
    137 | Killed                                          | OutOfMemory
    134 | FATAL ERROR: JavaScript heap out of memory      | OutOfMemory
    139 | Segmentation fault                              | Signal
    143 | Terminated                                      | Signal
    137 | 1 failed, 2 passed in 0.01s                     | -
    1   | whatever                                        | -
    2   | make: *** [test] Error 1                        | -
    0   |                                                 | -";

#[test]
fn an_exit_code_that_is_no_answer_is_not_taken_for_one() {
    for line in NO_ANSWER.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let found = no_answer(cells[0].parse().unwrap(), cells[1], read(cells[1]).as_ref());
        let word = found.as_ref().map_or("-".to_owned(), |found| format!("{found:?}"));
        assert!(word.starts_with(cells[2]), "{line}: {word}");
    }
}

/// One line a case: a command that exits with 0 and prints nothing that we know, and how that is judged.
const SILENT: &str = "
    pytest tests                        | no_tests
    python3 -m pytest tests/test_a.py   | no_tests
    ./venv/bin/pytest                   | no_tests
    cd x && cargo test                  | no_tests
    go test ./...                       | no_tests
    python3 -m unittest                 | no_tests
    node --test                         | no_tests
    cargo nextest run -p a              | no_tests
    pytest tests 2>&1                   | no_tests
    pytest tests || exit 1              | no_tests
    pytest --cov=src                    | no_tests
    pytest --co                         | passed
    pytest -q                           | passed
    pytest > log                        | passed
    pytest | tail -1                    | passed
    pytest --collect-only               | passed
    cargo test --no-run                 | passed
    go test -json ./...                 | passed
    make test                           | passed
    ./check.sh                          | passed
    grep -q pytest setup.cfg            | passed
    true                                | passed";

#[test]
fn a_runner_without_its_closing_line_ran_nothing_that_we_know_of() {
    for line in SILENT.lines().filter(|line| !line.trim().is_empty()) {
        let (command, outcome) = line.rsplit_once(" | ").unwrap();
        let judged = judge(command.trim(), 0, "hello\n", None);
        assert_eq!(judged.outcome, serde_json::from_value(outcome.into()).unwrap(), "{line}");
        let says =
            judged.summary.contains("the exit code decided") || judged.summary.contains("closing line");
        assert!(says, "{line}: {}", judged.summary);
    }
}

#[test]
fn only_failures_that_look_so_are_run_again() {
    let one = |outcome, looks_flaky| Once {
        outcome,
        summary: String::new(),
        exit: 1,
        took: Duration::ZERO,
        census: None,
        output: None,
        looks_flaky,
        report: None,
    };
    let failed = |flaky| one(VerifyOutcome::Failed, flaky);
    let usual = RepeatPolicy::default();
    assert!(!wants_more(&[failed(false)], usual));
    assert!(wants_more(&[failed(true)], usual));
    assert!(!wants_more(&[failed(true), failed(true)], usual));
    let always = RepeatPolicy { when: When::Always, reruns: 2, ..usual };
    assert!(wants_more(&[failed(false), failed(false)], always));
    assert!(!wants_more(&[failed(false), one(VerifyOutcome::Passed, false)], always));
    assert!(!wants_more(&[one(VerifyOutcome::Passed, false)], usual));
    assert!(wants_more(&[one(VerifyOutcome::Passed, false)], RepeatPolicy { confirm: 1, ..usual }));
    assert!(!wants_more(&[one(VerifyOutcome::NoTests, false)], always));
    assert!(looks_flaky("requests.exceptions.ReadTimeout: timed out"));
    assert!(looks_flaky("OSError: [Errno 98] Address already in use"));
    assert!(!looks_flaky("AssertionError: 1 != 2\nModuleNotFoundError: No module named 'x'"));
}

fn verified(outcome: VerifyOutcome, run: u64, skipped: u64, failures: &[&str]) -> VerifyMeasure {
    let failures: Vec<FailedTest> = failures.iter().map(|name| FailedTest::new(name, [])).collect();
    let runners = vec!["pytest".to_owned()];
    let failed = failures.len() as u64;
    VerifyMeasure {
        outcome,
        summary: "said".to_owned(),
        command: "pytest".to_owned(),
        exit: 0,
        took: Duration::from_secs(2),
        runs: 1,
        census: Some(Census { runners, run: Some(run), failed, skipped, failures, none: false }),
        output: None,
        bound_to: String::new(),
        report: None,
    }
}

fn compare(base: &VerifyMeasure, now: &VerifyMeasure) -> Against {
    against(base, now, &Change { files: Vec::new() })
}

#[test]
fn what_was_red_before_is_known_and_what_is_new_is_named() {
    let base = verified(VerifyOutcome::Failed, 3, 0, &["a", "b"]);
    let now = verified(VerifyOutcome::Failed, 3, 0, &["b", "c"]);
    let compared = compare(&base, &now);
    assert!(compared.red_before);
    assert_eq!((compared.new_failures, compared.mended), (vec!["c".to_owned()], vec!["a".to_owned()]));
    let report = now.report("t1", Some((&base, &Promise::default())), &[]);
    assert_eq!((report.passed, report.failed, report.red_before), (false, true, Some(true)));
    assert!(report.summary.contains("\nit failed before the work too; 1 of the failures are new"));
    let green = verified(VerifyOutcome::Passed, 3, 0, &[]);
    assert!(!compare(&green, &now).red_before);
    let report = green.report("t1", None, &[]);
    assert_eq!((report.passed, report.failed, report.red_before), (true, false, None));
}

#[test]
fn a_green_run_of_fewer_tests_than_on_the_base_is_found() {
    let base = verified(VerifyOutcome::Passed, 3, 0, &[]);
    let found = |now: &VerifyMeasure| render_findings(&compare(&base, now).findings);
    assert_eq!(found(&verified(VerifyOutcome::Passed, 2, 0, &[])), "fewer_tests: 2 tests ran, 3 on the base");
    assert_eq!(
        found(&verified(VerifyOutcome::Passed, 3, 1, &[])),
        "test_skipped: 1 tests were skipped, 0 on the base"
    );
    assert_eq!(found(&verified(VerifyOutcome::Passed, 4, 0, &[])), "");
    assert_eq!(found(&verified(VerifyOutcome::Failed, 1, 0, &["a"])), "", "red is red already");
}

#[test]
fn a_finding_that_blocks_turns_a_green_report_red_until_it_is_allowed() {
    let green = verified(VerifyOutcome::Passed, 3, 0, &[]);
    let mut findings = [Finding::block(FindingKind::TestRemoved, "t.py", Some(4), "test_x is gone")];
    let report = green.report("t1", None, &findings);
    assert_eq!((report.passed, report.failed, report.outcome), (false, true, VerifyOutcome::Failed));
    assert!(report.summary.starts_with("t.py:4: test_removed: test_x is gone\n"), "{}", report.summary);
    allow(&mut findings, &[FindingAllowance::parse("test_removed t.py", "Ada").unwrap()]);
    let report = green.report("t1", None, &findings);
    assert!(report.passed && !report.failed && report.summary.contains("(allowed by Ada)"));
    let none = VerifyMeasure { outcome: VerifyOutcome::NoTests, ..green };
    let report = none.report("t1", None, &[]);
    assert_eq!((report.passed, report.failed, report.outcome), (false, false, VerifyOutcome::NoTests));
}

#[test]
fn an_answer_is_bound_to_tree_command_and_environment() {
    let env = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    };
    let one = bound_to("t", "pytest", &env(&[("A", "1"), ("B", "2")]));
    assert_eq!(one, bound_to("t", "pytest", &env(&[("B", "2"), ("A", "1")])));
    for other in [
        bound_to("u", "pytest", &env(&[("A", "1"), ("B", "2")])),
        bound_to("t", "pytest -x", &env(&[("A", "1"), ("B", "2")])),
        bound_to("t", "pytest", &env(&[("A", "1"), ("B", "3")])),
        bound_to("t", "pytest", &env(&[("A", "1B"), ("", "2")])),
    ] {
        assert_ne!(one, other);
    }
}

#[test]
fn lists_and_texts_have_limits() {
    let mut output = String::new();
    for number in 0..MAX_FAILURES + 10 {
        output.push_str(&format!("FAILED tests/test_a.py::test_{number} - {}\n", "x".repeat(2_000)));
    }
    output.push_str(&format!("{} failed in 0.1s\n", MAX_FAILURES + 10));
    let judged = judge("pytest", 1, &output, read(&output));
    let census = judged.census.unwrap();
    assert_eq!(census.failures.len(), MAX_FAILURES);
    assert_eq!(census.failures[0].message.chars().count(), MAX_WORDS + 1);
    assert!(judged.summary.chars().count() < MAX_SUMMARY);
    assert!(judged.summary.contains(&format!("and {} more", MAX_FAILURES - MAX_TOLD)));
    let long = format!("{}\n3 passed in 0.1s", "x".repeat(20_000_000));
    assert_eq!(read(&long).unwrap().run, Some(3));
}

#[test]
fn what_a_terminal_understands_is_taken_out() {
    assert_eq!(plain("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1bcy\0z\r\n50%\r100%"), "red xyz\n50%\n100%");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_break_a_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let text = String::from_utf8_lossy(&bytes);
        judge("pytest", 1, &text, read(&text));
    }

    #[test]
    fn no_lines_break_a_reader(
        words in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..80),
    ) {
        let text = words.concat();
        judge("cargo test", 0, &text, read(&text));
    }
}

/// Pieces that readers look for, in any order.
const WORDS: [&str; 44] = [
    "\n",
    " ",
    "test result: ",
    "ok. ",
    "passed",
    "failed",
    "; ",
    ", ",
    "Ran ",
    " tests",
    " in ",
    "0.1s",
    "OK",
    "(",
    ")",
    "FAILED",
    "FAIL: ",
    "Tests:",
    "Tests  ",
    "|",
    "total",
    "3",
    "18446744073709551615",
    "# tests ",
    "# pass ",
    "# fail ",
    "ok  \t",
    "?   \t",
    "FAIL\t",
    "--- FAIL: ",
    "Summary [",
    "]",
    " run",
    ":",
    "% tests passed, ",
    " out of ",
    "● ",
    " › ",
    "not ok ",
    " - ",
    "Tests run: ",
    "Failures: ",
    "é",
    "examples",
];
