//! First walks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod support;
use ftl_core::run::*;
use support::*;

#[test]
fn builder_completes() {
    let mut s = Stage::open("builder", r#"{"workspace":"w.xml"}"#);
    s.done("workspace.parse", "{}");
    s.done("workspace.validate", "{}");
    s.done("Task(builder)", "{}");
    s.done("Task(builder)", "{}");
    s.done("preflight.check", "{}");
    s.done("verify.run", r#"{"tree":"t1"}"#);
    s.done("quality.check", "{}");
    s.done("work.land", r#"{"status":"landed"}"#);
    s.done("workspace.complete", "{}");
    assert_eq!(s.end(), Some(End::Complete), "{}", s.describe());
    let seen = Run::verify(library(), &s.journal).unwrap();
    assert_eq!(seen.taken, 0, "{seen:?}");
}

#[test]
fn lifecycle_waiver_to_done() {
    let mut s = Stage::open("lifecycle", r#"{"brief":"b"}"#);
    s.say("next", "{}");
    s.done("artifact.plan", "{}");
    assert_eq!(&*s.state(), "plan_review");
    s.say("next", "{}");
    s.done("artifact.plan_review", "{}");
    s.say("next", "{}");
    s.done("artifact.code", "{}");
    s.say("next", "{}");
    s.done("artifact.code_review", "{}");
    s.say("next", "{}");
    s.done("artifact.report", "{}");
    assert_eq!(&*s.state(), "accept", "{}", s.describe());
    s.waive("done");
    assert_eq!(s.asks(), ["decision.record"], "{}", s.describe());
    s.done("decision.record", "{}");
    s.done("artifact.decision", r#"{"passed":false,"patch":"p"}"#);
    s.done("patch.apply", "{}");
    assert_eq!(s.end(), Some(End::Complete), "{}", s.describe());
    println!("{}", serde_json::to_string_pretty(&s.journal.last()).unwrap());
    Run::verify(library(), &s.journal).unwrap();
}

#[test]
fn task_flow() {
    let mut s = Stage::open("task", r#"{"objective":"o"}"#);
    s.done("exploration.clear", "{}");
    for _ in 0..4 {
        s.done("Task(explorer)", "{}");
    }
    s.done("exploration.aggregate", "{}");
    s.done("exploration.write", "{}");
    s.done("Task(planner)", "{}");
    s.done("decision.parse", r#"{"kind":"PROCEED","plan":{"objective":"o","tasks":[]}}"#);
    s.done("workspace.create", r#"{"mode":"direct"}"#);
    assert_eq!(s.run.instances().len(), 2, "{}", s.describe());
    s.fail("workspace.parse", FailureKind::Failed);
    assert_eq!(s.run.instances().len(), 3, "{}", s.describe());
}
