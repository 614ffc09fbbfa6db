//! Tests of what is learned: judgements, scores, triggers, names, links, and the time of two hundred.

use std::time::Instant;

use regex::Regex;

use super::*;
use crate::workspace::{self, Workspace};
use ftl_code::framework::Rules;

fn workspace(id: &str, delivered: &str) -> Workspace {
    let mut found = workspace::parse("<workspace status=\"blocked\"/>").unwrap();
    found.id = id.to_owned();
    found.objective = "add a login page to the shop".to_owned();
    found.delivered = delivered.to_owned();
    found.delta = vec!["src/login.py".to_owned()];
    found
}

fn name(text: &str) -> FileName {
    FileName::parse(text).unwrap()
}

#[test]
fn judged_by_how_it_ended() {
    let cases = [
        (Rerun::NoCommand, "CONFIRMED", "No verify command", true),
        (Rerun::Exited(0), "FALSE_POSITIVE", "Tests pass now", false),
        (Rerun::Exited(1), "CONFIRMED", "exit 1", true),
        (Rerun::Exited(5), "CONFIRMED", "exit 5", true),
        (Rerun::Exited(126), "ERROR", "could not run: exit 126", false),
        (Rerun::Exited(127), "ERROR", "could not run: exit 127", false),
        (Rerun::Killed(11), "CONFIRMED", "signal 11", true),
        (Rerun::Killed(9), "INDETERMINATE", "signal 9", false),
        (Rerun::TimedOut, "INDETERMINATE", "Timeout", false),
        (Rerun::CouldNotRun("no shell".to_owned()), "ERROR", "no shell", false),
    ];
    for (rerun, word, reason, learned) in cases {
        let found = judge(&rerun);
        assert_eq!((found.standing.word(), found.reason.as_str()), (word, reason));
        assert_eq!(is_learned(found.standing), learned, "{rerun:?}");
    }
}

#[test]
fn scores_by_the_table() {
    let none = ScoreContext { was_blocked: false, likeness: 1.0, tools_used: None };
    let base = |change: fn(&mut Workspace)| {
        let mut found = workspace("001-login", "failed then passed");
        found.budget = 3;
        change(&mut found);
        found
    };
    let cases: [(Workspace, ScoreContext, &str); 11] = [
        (base(|_| {}), none, "{}"),
        (base(|_| {}), ScoreContext { was_blocked: true, ..none }, r#"{"blocked_then_fixed": 3}"#),
        (base(|found| found.delivered = "Done".to_owned()), none, r#"{"first_try_success": 2}"#),
        (base(|found| found.delivered = "Second Attempt worked".to_owned()), none, "{}"),
        (
            base(|found| found.idioms = Some(Rules { required: vec!["a".to_owned()], forbidden: vec![] })),
            none,
            r#"{"framework_idioms": 2}"#,
        ),
        (base(|found| found.idioms = Some(Rules::default())), none, "{}"),
        (base(|found| found.budget = 4), none, r#"{"budget_efficient": 1}"#),
        (base(|found| found.budget = 5), ScoreContext { tools_used: Some(3), ..none }, "{}"),
        (
            base(|found| found.budget = 5),
            ScoreContext { tools_used: Some(2), ..none },
            r#"{"budget_efficient": 1}"#,
        ),
        (base(|found| found.delta.push("b.py".to_owned())), none, r#"{"multi_file": 1}"#),
        (base(|_| {}), ScoreContext { likeness: NOVEL_BELOW, ..none }, r#"{"novel": 1}"#),
    ];
    for (found, seen, expected) in cases {
        let result = score(&found, seen);
        assert_eq!(result.breakdown_json().line(), expected);
        assert_eq!(result.total, result.breakdown.iter().map(|(_, points)| points).sum::<u64>());
    }
    let shown = score(&base(|_| {}), ScoreContext { was_blocked: true, ..none })
        .to_json(&base(|_| {}), "x.xml")
        .line();
    assert_eq!(
        shown,
        r#"{"score": 3, "breakdown": {"blocked_then_fixed": 3}, "workspace": "001-login", "path": "x.xml"}"#
    );
    let blocked = [(name("001_other_blocked.xml"), Some("c1".to_owned()))];
    assert!(was_blocked(&name("001_login_complete.xml"), Some("c1"), &blocked));
    assert!(!was_blocked(&name("001_login_complete.xml"), Some("c2"), &blocked));
    assert!(!was_blocked(&name("002_login_complete.xml"), Some("c1"), &blocked));
}

#[test]
fn failures_out_of_blocks() {
    // delivered, output, trigger, name, fix
    let cases = [
        (
            "BLOCKED: ImportError: cannot import name 'x'\nTried: moved it\nUnknown: why",
            None,
            "ImportError: cannot import name 'x'",
            "importerror-cannot-import-name-x",
            "Attempted: moved it",
        ),
        (
            "BLOCKED: ",
            Some("3 passed\nE   AssertionError: 1 != 2\n"),
            "E   AssertionError: 1 != 2",
            "e-assertionerror-1-2",
            "UNKNOWN",
        ),
        ("just stopped", Some("all fine"), "just stopped", "just-stopped", "UNKNOWN"),
        ("", None, "Unknown error", "unknown-error", "UNKNOWN"),
        ("BLOCKED: 错误", None, "错误", "failure-001-login", "UNKNOWN"),
        ("BLOCKED: a\nTried: \nUnknown: b", None, "a", "a", "UNKNOWN"),
    ];
    let counted = "BLOCKED: discovery needed: 1 of 2 tests failed (pytest)\ntests/discount_test.py::test_half\n  half cent is rounded down\nTried: flock\nUnknown: why";
    let named = failure(&workspace("001-login", counted), None);
    assert!(named.trigger.ends_with("test_half") && named.fix == "Attempted: flock", "{named:?}");
    for (delivered, output, trigger, name, fix) in cases {
        let found = failure(&workspace("001-login", delivered), output);
        assert_eq!((found.trigger.as_str(), found.name.as_str(), found.fix.as_str()), (trigger, name, fix));
        assert!(Regex::new(&found.pattern).unwrap().is_match(trigger), "{}", found.pattern);
        assert_eq!((found.cost, found.source.join(",")), (5000, "001-login".to_owned()));
    }
    let long = failure(&workspace("001-login", &format!("BLOCKED: {}", "word ".repeat(1000))), None);
    assert!(long.trigger.chars().count() <= MAX_TRIGGER_CHARS && long.name.len() <= 40);
    let mut tagged = workspace("001-login", "BLOCKED: x");
    tagged.framework = Some("FastAPI".to_owned());
    assert_eq!(failure(&tagged, None).to_json().get("tags").unwrap().line(), r#"["fastapi"]"#);
}

#[test]
fn errors_are_generalised() {
    let cases = [
        ("line 42: expected 3", r"line \d+: expected \d+"),
        ("cannot import name 'x' from \"y z\"", "cannot import name '.*' from \".*\""),
        ("don't use a.b(c)", r"don't use a\.b\(c\)"),
        ("can't find 'it' or won't", "can't find '.*' or won't"),
        ("at 0x7ffDe0 in `f`", "at 0x[0-9a-fA-F]+ in `.*`"),
        ("100% [a-z]+ ^$|\\", r"\d+% \[a\-z\]\+ \^\$\|\\"),
        ("'open", "'open"),
        ("", ""),
        ("0x", r"\d+x"),
    ];
    for (text, expected) in cases {
        assert_eq!(generalise(text), expected);
        assert!(Regex::new(&generalise(text)).unwrap().is_match(text), "{text}");
    }
    let other = Regex::new(&generalise("KeyError: 'user_17' at line 3")).unwrap();
    assert!(
        other.is_match("KeyError: 'account' at line 99") && !other.is_match("KeyError: 'account' at row 99")
    );
}

#[test]
fn generalised_text_always_matches_itself() {
    let letters: Vec<char> = "ab'\"` 019x0.()[]{}*+?|^$\\#&-~é错\n\t:".chars().collect();
    let mut state = 13_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    for _ in 0..2_000 {
        let text: String =
            (0..below(20)).map(|_| letters[below(letters.len())]).filter(|letter| *letter != '\n').collect();
        let pattern = Regex::new(&format!("^(?:{})$", generalise(&text))).unwrap();
        assert!(pattern.is_match(&text), "{text:?} {pattern}");
    }
}

#[test]
fn each_task_of_a_campaign_has_its_own_pattern() {
    let good = ScoreContext { was_blocked: true, likeness: 0.0, tools_used: None };
    let of = |id: &str| {
        let found = workspace(id, "Wrote it.");
        pattern(&found, &score(&found, good)).unwrap()
    };
    let (first, second) = (of("001-write-tests"), of("002-add-route"));
    assert_eq!((first.name.as_str(), second.name.as_str()), ("001-write-tests", "002-add-route"));
    assert_eq!(first.trigger, "write tests in login.py: add a login page to the shop");
    assert_ne!(first.trigger, second.trigger);
    assert_eq!(first.insight, "Recovered from a block. Wrote it.");
    assert_eq!(first.saved, 2500);
    assert_eq!(
        first.to_json().line(),
        r#"{"name": "001-write-tests", "trigger": "write tests in login.py: add a login page to the shop", "insight": "Recovered from a block. Wrote it.", "saved": 2500, "source": ["001-write-tests"]}"#
    );
    for noise in ["Write tests: 1 file changed, 6f9165d66ffc on ftl/x", "2 files changed, 6f9165d66ffc", ""] {
        let found = workspace("001-write-tests", noise);
        assert_eq!(pattern(&found, &score(&found, good)), None, "{noise:?} teaches nothing");
    }
    let said = workspace("001-write-tests", "Use a fixture: 1 file changed, 6f9165d66ffc on ftl/x");
    assert_eq!(pattern(&said, &score(&said, good)).unwrap().insight, "Recovered from a block. Use a fixture");
    let poor = workspace("003-x", "retried");
    assert_eq!(
        pattern(&poor, &score(&poor, ScoreContext { likeness: 1.0, ..ScoreContext::default() })),
        None
    );
    let mut long = workspace("004-x", &"é".repeat(10_000));
    long.idioms = Some(Rules { required: vec!["r".repeat(400)], forbidden: vec![] });
    assert!(pattern(&long, &score(&long, good)).unwrap().insight.chars().count() <= 500);
    long.objective = String::new();
    long.id = "005".to_owned();
    assert_eq!(pattern(&long, &score(&long, good)).unwrap().trigger, "005");
}

#[test]
fn lessons_are_linked_within_a_campaign() {
    let failure = |at: usize, campaign: &str| NewFailure {
        name: format!("f{at}"),
        file: name(&format!("{at:03}_x_blocked.xml")),
        campaign: Some(campaign.to_owned()),
    };
    let pattern = |at: usize, recovered: bool| NewPattern {
        name: format!("p{at}"),
        file: name(&format!("{at:03}_y_complete.xml")),
        campaign: Some("c1".to_owned()),
        recovered,
    };
    let failures = [failure(1, "c1"), failure(2, "c1"), failure(3, "c1"), failure(1, "c2")];
    let found = links(&failures, &[pattern(1, true), pattern(2, false), pattern(9, true)]);
    assert_eq!(found.solves, [("f1".to_owned(), "p1".to_owned())]);
    let pairs: Vec<String> = found.co_occurs.iter().map(|(left, right)| format!("{left}{right}")).collect();
    assert_eq!(pairs, ["f1f2", "f1f3", "f2f3"]);
    let many: Vec<NewFailure> = (0..500).map(|at| failure(at, "c")).collect();
    assert_eq!(links(&many, &[]).co_occurs.len(), MAX_PAIRS);
}

#[test]
fn files_are_listed_by_status() {
    let names = ["002_b_blocked.xml", "001_a_complete.xml", "notes.txt", "001_c_active.xml"];
    assert_eq!(
        list(names).line(),
        r#"{"complete": ["001_a_complete.xml"], "blocked": ["002_b_blocked.xml"], "active": ["001_c_active.xml"]}"#
    );
}

#[test]
fn experiences_of_older_builders_are_failures() {
    let json = Json::parse(
        r#"{"name": "Import Loop", "trigger": "ImportError: 7", "fix": "UNKNOWN", "attempted": ["a", "b"], "cost": 1200, "source": ["001-x"]}"#,
    );
    let found = experience(&json.unwrap()).unwrap();
    assert_eq!(
        found.to_json().line(),
        r#"{"name": "import-loop", "trigger": "ImportError: 7", "fix": "Attempted: a; b", "match": "ImportError: \\d+", "cost": 1200, "source": ["001-x"]}"#
    );
    assert_eq!(experience(&Json::parse("{}").unwrap()), None);
}

#[test]
fn two_hundred_workspaces_are_read_and_learned_from_in_no_time() {
    let text = |at: usize| {
        let status = if at.is_multiple_of(2) { "blocked" } else { "complete" };
        let code = "def f(x):\n    return x\n".repeat(30);
        let why = if at.is_multiple_of(2) {
            format!("BLOCKED: Error {at} in 'x'")
        } else {
            "Done at once".to_owned()
        };
        format!(
            "<workspace id=\"{at:03}-task\" status=\"{status}\"><objective>big</objective><implementation><delta>a.py</delta><verify>true</verify><budget>5</budget></implementation><code_context path=\"a.py\" lines=\"1-60\"><content>{code}</content></code_context><delivered>{why}</delivered></workspace>"
        )
    };
    let texts: Vec<String> = (0..200).map(text).collect();
    let began = Instant::now();
    let mut lessons = 0;
    for text in &texts {
        let found = workspace::parse(text).unwrap();
        lessons += match found.status {
            WorkspaceStatus::Blocked => usize::from(!failure(&found, None).pattern.is_empty()),
            WorkspaceStatus::Complete | WorkspaceStatus::Active => {
                usize::from(pattern(&found, &score(&found, ScoreContext::default())).is_some())
            }
        };
    }
    let took = began.elapsed();
    println!("200 workspaces: {took:?}");
    assert_eq!(lessons, 200);
    // The aim is far below a second of an optimised build.
    assert!(took.as_secs_f64() < 1.0, "{took:?}");
}

#[test]
fn a_task_of_another_run_did_not_recover_because_a_stranger_was_blocked() {
    let file = |name: &str| FileName::parse(name).unwrap();
    let blocked = [(file("001_mend-mean_blocked.xml"), None)];
    assert!(was_blocked(&file("001_mend-mean_complete.xml"), None, &blocked));
    assert!(!was_blocked(&file("001_fix-docstring_complete.xml"), None, &blocked));
    let of = [(file("001_first_blocked.xml"), Some("c".to_owned()))];
    assert!(was_blocked(&file("001_renamed_complete.xml"), Some("c"), &of), "a campaign's seq is one task");
}

/// Reasons with which a builder blocks: `+` is the work's and teaches, `-` is the harness's and does not.
const REASONS: &str = "
    - tools spent: the limit is 7
    - preflight_attempts spent for a.py: the limit is 3
    - died 3 times: it ended with exit code 1
    - the last of 3 attempts was ended: the call `bash` may not be made here
    - 3 answers in a row do not fit: - there is no JSON in it; call `submit`, or answer with JSON alone
    - the answer of Task(builder) does not fit: approach is missing
    - model (127.0.0.1:1) does not answer: connection refused
    - the command could not be run: exit code 127, not found: pytest
    - the command gave no answer: it took longer than 30m
    - no agent is bound to the role builder: `ftl init` finds agents
    - worktree x could not be set up: `npm ci`: exit code 1
    - `qwen` did not submit: the agent has ended
    - the agent asks: which one?
    - the same failure three times in a row: the command could not be run: exit code 127, not found: pytest
    + the same failure three times in a row: 1 of 2 tests failed
    + discovery needed: 1 of 2 tests failed (pytest)
    + budget exhausted: exit code 1: the command could not be run: no such file
    + same failure after a retry: NameError: mul
    + idiom violation: use of unwrap
    + not landed: the merged tree is red
    + 1 of 2 tests failed";

#[test]
fn failures_of_the_harness_teach_nothing() {
    let lines: Vec<&str> = REASONS.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 21);
    for line in lines {
        let (mark, reason) = line.split_once(' ').unwrap();
        assert_eq!(is_harness_reason(reason), mark == "-", "{line}");
    }
}
