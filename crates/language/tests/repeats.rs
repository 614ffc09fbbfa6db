//! Equal failures in a row: the third one ends a loop in any protocol, whatever its meters have, and honest loops go on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use ftl_core::run::{
    End, Event, Fact, Failure, FailureKind, MAX_EQUAL_FAILURES, Outcome, REPEATED, ROOT, Run, Standing, Terms,
};
use ftl_core::value::Name;
use support::{Stage, library, library_with};

/// A gate of a person's own protocol, and a command that mends.
const GATE: &str = r#"PROTOCOL: x
LIMIT: rounds = 9 ELSE HOLD
STATE: LOOK
  CHECK: report = verify.run command=t
  IF: report.passed → RETURN complete
  GOTO: MEND
STATE: MEND
  PAY: rounds
  DO: sh "mend"
  GOTO: LOOK
"#;

/// The same, with a way on where the gate cannot say anything.
const GATE_ELSE: &str = r#"PROTOCOL: x
LIMIT: rounds = 9 ELSE HOLD
STATE: LOOK
  CHECK: report = verify.run command=t ELSE RETURN blocked reason={failure.message}
  IF: report.passed → RETURN complete
  GOTO: MEND
STATE: MEND
  PAY: rounds
  DO: sh "mend"
  GOTO: LOOK
"#;

/// A command whose failure leads back to itself.
const SHELL: &str = r#"PROTOCOL: x
LIMIT: rounds = 9 ELSE HOLD
STATE: TRY
  DO: sh "make" ELSE AGAIN
  RETURN: complete
STATE: AGAIN
  PAY: rounds
  DO: sh "clean" ELSE PROCEED
  GOTO: TRY
"#;

/// A person is asked in each round.
const TOLD: &str = r#"PROTOCOL: x
LIMIT: rounds = 9 ELSE HOLD
STATE: LOOK
  CHECK: report = verify.run command=t
  IF: report.passed → RETURN complete
  PAY: rounds
  ASK: reply = "What now?"
  GOTO: LOOK
"#;

/// Something that is waited for.
const WAITS: &str = r#"PROTOCOL: x
INPUT: story
LIMIT: rounds = 9 ELSE HOLD
STATE: LOOK
  WAIT: story.assigned story={story} ELSE AGAIN
  RETURN: complete
STATE: AGAIN
  PAY: rounds
  GOTO: LOOK
"#;

const RED: &str = r#"{"passed": false, "failed": true, "summary": "no module frozen (0.12s)"}"#;
const RED_LATER: &str = r#"{"passed": false, "failed": true, "summary": "no module frozen (3.4s)"}"#;
const OTHER: &str = r#"{"passed": false, "failed": true, "summary": "2 of 3 tests failed"}"#;

fn counting() -> Terms {
    Terms { equal_failures: MAX_EQUAL_FAILURES, ..Terms::default() }
}

fn open(program: &str, terms: Terms) -> Stage {
    let inputs = if program == WAITS { r#"{"story": "s"}"# } else { "{}" };
    Stage::open_with(library_with(&[("x", program)]), "x", inputs, terms)
}

fn fail_saying(stage: &mut Stage, whom: &str, message: &str) {
    let action = stage.find(whom);
    stage.outcome(&action, Outcome::Failed(Failure::new(FailureKind::Failed, message)));
}

fn held_for(stage: &Stage) -> String {
    let held = stage.run.instance(ROOT).unwrap().held.values().next();
    held.map_or_else(String::new, |held| held.failure.message.clone())
}

fn confirmed(stage: &Stage) {
    let seen = Run::verify(stage.run.programs().clone(), &stage.journal).unwrap();
    assert_eq!(seen.entries, stage.journal.len());
}

#[test]
fn the_third_equal_failure_of_a_gate_holds_the_loop_and_resuming_asks_the_gate_alone() {
    let mut stage = open(GATE, counting());
    for red in [RED, RED_LATER] {
        stage.done("verify.run", red);
        stage.done("sh", "{}");
    }
    stage.done("verify.run", RED);
    assert_eq!(stage.run.instance(ROOT).unwrap().standing(), Standing::Held);
    assert_eq!(held_for(&stage), format!("{REPEATED}no module frozen (0.12s)"));
    for _ in 0..2 {
        stage.send(Event::Resume { instance: ROOT, by: "ann".to_owned() });
        stage.done("verify.run", RED);
        assert!(stage.asks().is_empty(), "nobody mends again while nothing has changed");
    }
    confirmed(&stage);
    stage.send(Event::Resume { instance: ROOT, by: "ann".to_owned() });
    stage.done("verify.run", OTHER);
    assert_eq!(stage.asks(), ["sh"], "another failure is worth another try");
    confirmed(&stage);
}

#[test]
fn an_else_is_taken_for_it() {
    let mut stage = open(GATE_ELSE, counting());
    for red in [RED, RED_LATER] {
        stage.done("verify.run", red);
        stage.done("sh", "{}");
    }
    stage.done("verify.run", RED);
    assert_eq!(stage.run.end(), Some(End::Blocked));
    let (_, values) = stage.run.instance(ROOT).unwrap().end.clone().unwrap();
    assert_eq!(values["reason"].to_string(), format!("{REPEATED}no module frozen (0.12s)"));
    confirmed(&stage);
}

#[test]
fn a_command_whose_else_leads_back_is_held_and_what_may_fail_is_not_counted() {
    let mut stage = open(SHELL, counting());
    for _ in 0..2 {
        fail_saying(&mut stage, "sh", "exit 2: no rule to make target");
        fail_saying(&mut stage, "sh", "exit 1: nothing to clean");
    }
    fail_saying(&mut stage, "sh", "exit 2: no rule to make target");
    assert_eq!(held_for(&stage), format!("{REPEATED}exit 2: no rule to make target"));
    confirmed(&stage);
}

#[test]
fn honest_loops_go_on_until_their_meter_is_spent() {
    // Other failures between.
    let mut stage = open(GATE, counting());
    for red in [RED, RED, OTHER, OTHER, RED, RED, OTHER, OTHER, RED] {
        stage.done("verify.run", red);
        stage.done("sh", "{}");
    }
    stage.done("verify.run", OTHER);
    assert_eq!(held_for(&stage), "rounds spent: the limit is 9");
    // A person tells something between.
    let mut stage = open(TOLD, counting());
    for _ in 0..9 {
        stage.done("verify.run", RED);
        stage.reply(r#""try again""#);
    }
    stage.done("verify.run", RED);
    assert_eq!(held_for(&stage), "rounds spent: the limit is 9");
    confirmed(&stage);
    // Something is waited for.
    let mut stage = open(WAITS, counting());
    for _ in 0..10 {
        fail_saying(&mut stage, "story.assigned", "not yet");
    }
    assert_eq!(held_for(&stage), "rounds spent: the limit is 9");
}

#[test]
fn a_run_that_was_opened_without_the_rule_goes_by_its_meters() {
    let mut stage = open(GATE, Terms::default());
    for _ in 0..9 {
        stage.done("verify.run", RED);
        stage.done("sh", "{}");
    }
    stage.done("verify.run", RED);
    assert_eq!(held_for(&stage), "rounds spent: the limit is 9");
    let is_counted = |fact: &Fact| matches!(fact, Fact::Heard { failing: Some(_), .. });
    assert!(!stage.journal.iter().any(|entry| is_counted(&entry.fact)));
    assert!(!serde_json::to_string(&stage.journal).unwrap().contains("equal_failures"));
    confirmed(&stage);
}

#[test]
fn a_planner_that_repeats_an_invalid_plan_ends_the_task_with_the_cause() {
    for protocol in ["task", "campaign"] {
        let terms = counting();
        let mut stage = Stage::open_with(library(), protocol, r#"{"objective": "o"}"#, terms);
        stage.done("exploration.clear", "{}");
        for _ in 0..4 {
            stage.done("Task(explorer)", "{}");
        }
        stage.done("exploration.aggregate", "{}");
        stage.done("exploration.write", "{}");
        for _ in 0..3 {
            stage.done("Task(planner)", r#"{"text": "PROCEED"}"#);
            stage.done("decision.parse", r#"{"kind": "PROCEED", "problems": ["task 002 depends on 009"]}"#);
        }
        assert_eq!(stage.run.end(), Some(End::Blocked), "{protocol}: {}", stage.describe());
        let (_, values) = stage.run.instance(ROOT).unwrap().end.clone().unwrap();
        let reason = values["reason"].to_string();
        assert!(reason.starts_with(REPEATED) && reason.ends_with("task 002 depends on 009"), "{reason}");
        confirmed(&stage);
    }
}

#[test]
fn a_red_report_of_the_lifecycle_is_not_sent_back_a_third_time() {
    let mut stage = Stage::open_with(library(), "lifecycle", r#"{"brief": "b"}"#, counting());
    let next = |stage: &mut Stage| {
        let (by, reason) = ("ann".to_owned(), String::new());
        let options = Default::default();
        stage.send(Event::Say { instance: ROOT, word: Name::from("next"), by, reason, options })
    };
    let green = r#"{"passed": true}"#;
    next(&mut stage);
    stage.done("artifact.plan", green);
    next(&mut stage);
    stage.done("artifact.plan_review", green);
    for round in 1..=3 {
        next(&mut stage);
        stage.done("artifact.code", green);
        next(&mut stage);
        stage.done("artifact.code_review", green);
        next(&mut stage);
        stage.done("artifact.report", RED);
        let state = stage.run.instance(ROOT).unwrap().state.to_string();
        assert_eq!(state, if round < 3 { "codegen" } else { "test" });
    }
    let said = stage.journal.iter().rev().find_map(|entry| match &entry.fact {
        Fact::Refused { failure, .. } => Some(failure.message.clone()),
        _ => None,
    });
    assert_eq!(said.unwrap(), format!("{REPEATED}no module frozen (0.12s)"));
    assert_eq!(stage.run.instance(ROOT).unwrap().standing(), Standing::Waiting);
    // A person who goes back and says why begins anew.
    let (to, by, reason) = (Name::from("codegen"), "ann".to_owned(), "it is installed now".to_owned());
    stage.send(Event::Redo { instance: ROOT, to, by, reason });
    next(&mut stage);
    stage.done("artifact.code", green);
    next(&mut stage);
    stage.done("artifact.code_review", green);
    next(&mut stage);
    stage.done("artifact.report", RED);
    assert_eq!(&*stage.run.instance(ROOT).unwrap().state, "codegen");
    confirmed(&stage);
}
