//! People: policies that stand in for them, answers, stops, and work that they take over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use ftl_core::run::{
    Action, Adoption, End, Entry, Event, Fact, FailureKind, InstanceId, Outcome, POLICY, Policy, ROOT,
    RefusalKind, Run, Standing, Terms,
};
use ftl_core::value::{Name, Value};
use support::plays::{OPTIONAL, build, builder, finished, held, kind, lifecycle, with_policies};
use support::{Stage, fields, library, library_with, value};

/// Asks a person about each of a list, all at once.
const QUESTIONS: &str = r#"PROTOCOL: questions
INPUT: items
STATE: ASKING
  DO: all = FOR EACH one IN items BY one
    ASK: reply = "What about {one}?" choices=yes|no
    DO: lesson.experience trigger="{one}" attempted={reply}
  RETURN: complete settled={all.settled}
"#;

/// A child for each of a list.
const PARENT: &str = r#"PROTOCOL: parent
INPUT: items
STATE: OPENING
  DO: all = FOR EACH one IN items BY one
    DO: build = Run(builder) workspace={one}
  RETURN: complete settled={all.settled} failed={all.failed}
"#;

fn answer(json: &str) -> Policy {
    Policy::Answer(value(json))
}

// Policies

#[test]
fn a_question_waits_unless_a_policy_says_otherwise() {
    for terms in [Terms::default(), with_policies(&[("task", Policy::Hold)])] {
        let stage = finished(terms);
        assert_eq!(stage.asks(), ["question"]);
        assert_eq!(stage.standing(), Standing::Waiting);
    }
}

#[test]
fn a_policy_answers_a_question() {
    let mut stage = finished(with_policies(&[("*", answer("\"squash\""))]));
    assert_eq!(stage.find("branch.deliver").params["how"], Value::text("squash"));
    stage.done("branch.deliver", "{}");
    assert_eq!(stage.end(), Some(End::Complete));
}

#[test]
fn a_policy_refuses_a_question() {
    let stage = finished(with_policies(&[("*", Policy::Deny)]));
    assert_eq!(stage.standing(), Standing::Held);
    assert!(held(&stage)[0].contains("policy"), "{:?}", held(&stage));
}

#[test]
fn a_refused_question_goes_by_its_else() {
    let library = library_with(&[("optional", OPTIONAL)]);
    let stage = Stage::open_with(library, "optional", "{}", with_policies(&[("optional", Policy::Deny)]));
    assert_eq!(stage.end(), Some(End::Blocked));
    let values = &stage.run.instance(ROOT).unwrap().end.as_ref().unwrap().1;
    assert_eq!(values["reason"], Value::text("denied"));
}

#[test]
fn a_policy_that_answers_no_choice_is_refused() {
    let stage = finished(with_policies(&[("*", answer("\"anywhere\""))]));
    assert_eq!(stage.standing(), Standing::Held);
    assert!(held(&stage)[0].contains("expected one of"), "{:?}", held(&stage));
}

#[test]
fn the_nearest_policy_speaks() {
    let all = [("*", Policy::Deny), ("task", answer("\"ff\"")), ("task.COMPLETE", answer("\"branch-only\""))];
    let delivered = |policies: &[(&str, Policy)]| finished(with_policies(policies)).asks();
    assert_eq!(delivered(&all[..1]), [""; 0]);
    assert_eq!(delivered(&all[..2]), ["branch.deliver"]);
    let stage = finished(with_policies(&all));
    assert_eq!(stage.find("branch.deliver").params["how"], Value::text("branch-only"));
}

#[test]
fn a_policy_says_each_word_once_per_visit() {
    let words = answer(r#"["plan","next","next"]"#);
    let mut stage = lifecycle(with_policies(&[("lifecycle.planning", words)]));
    assert_eq!(stage.asks(), ["Task(planner)"]);
    stage.done("Task(planner)", "{}");
    assert_eq!(stage.asks(), ["artifact.plan"]);
    stage.done("artifact.plan", r#"{"passed":false,"missing":["no plan"]}"#);
    assert_eq!(stage.asks(), ["word"], "after a refusal no policy speaks in this visit");
    assert_eq!(stage.standing(), Standing::Waiting);
    stage.say("plan", "{}");
    stage.done("Task(planner)", "{}");
    assert_eq!(stage.asks(), ["word"], "a person's word must not wake the policy");
    stage.say("redo", "{}");
    assert_eq!(stage.asks(), ["Task(planner)"], "a new visit, a new round of words");
}

#[test]
fn a_policy_walks_the_lifecycle_alone() {
    let phases = [
        ("planning", "plan"),
        ("plan_review", "review_plan"),
        ("codegen", "codegen"),
        ("review", "review_code"),
        ("test", "test"),
    ];
    let policies: BTreeMap<String, Policy> = phases
        .iter()
        .map(|(state, word)| (format!("lifecycle.{state}"), answer(&format!(r#"["{word}","next"]"#))))
        .chain([("lifecycle.accept".to_owned(), answer("\"next\""))])
        .collect();
    let mut stage = lifecycle(Terms { policies, ..Terms::default() });
    for whom in ["Task(planner)", "artifact.plan", "Task(reviewers)", "artifact.plan_review", "Task(coder)"] {
        stage.done(whom, "{}");
    }
    for whom in ["artifact.code", "Task(reviewers)", "artifact.code_review", "eval.run", "artifact.report"] {
        stage.done(whom, "{}");
    }
    stage.done("artifact.decision", r#"{"patch":"p1"}"#);
    stage.done("patch.apply", "{}");
    assert_eq!(stage.end(), Some(End::Complete));
    let by_policy = |entry: &&Entry| {
        matches!(&entry.fact, Fact::Heard { answer: ftl_core::run::Answer::Done(said), .. }
            if said.field("by").as_text() == Some(POLICY))
    };
    assert_eq!(stage.journal.iter().filter(by_policy).count(), 11);
    Run::verify(library(), &stage.journal).unwrap();
}

#[test]
fn a_policy_that_turns_in_a_circle_is_held() {
    let stage = lifecycle(with_policies(&[("lifecycle", answer("\"redo\""))]));
    assert_eq!(stage.standing(), Standing::Held);
    assert_eq!(held(&stage), ["rounds spent: the limit is 5"]);
    assert_eq!(stage.path(ROOT).len(), 6);
}

#[test]
fn a_policy_for_words_that_are_not_waited_for_waits() {
    let stage = lifecycle(with_policies(&[("lifecycle", answer("\"dance\""))]));
    assert_eq!(stage.asks(), ["word"]);
}

#[test]
fn a_policy_that_denies_words_holds() {
    let mut stage = lifecycle(with_policies(&[("lifecycle", Policy::Deny)]));
    assert_eq!(stage.standing(), Standing::Held);
    stage.send(Event::Resume { instance: ROOT, by: "ann".to_owned() });
    assert_eq!(stage.standing(), Standing::Held);
}

// Answers

#[test]
fn several_questions_are_answered_by_name() {
    let library = library_with(&[("questions", QUESTIONS)]);
    let mut stage = Stage::open_with(library, "questions", r#"{"items":["a","b"]}"#, Terms::default());
    assert_eq!(stage.asks(), ["question", "question"]);
    let (first, second) = (stage.waiting[0].clone(), stage.waiting[1].clone());
    let by = || "ann".to_owned();
    let reply = |action: Option<&Action>, text: &str| Event::Reply {
        instance: ROOT,
        action: action.map(|action| action.id),
        value: Value::text(text),
        by: by(),
    };
    let vague = stage.send(reply(None, "yes"));
    assert_eq!(kind(&vague), Some(RefusalKind::Malformed));
    assert!(vague.refusal.unwrap().hint.unwrap().contains(&first.id.to_string()));
    assert_eq!(kind(&stage.send(reply(Some(&second), "perhaps"))), Some(RefusalKind::Malformed));
    assert_eq!(kind(&stage.send(reply(Some(&second), "no"))), None);
    assert_eq!(stage.find("lesson.experience").params["trigger"], Value::text("b"));
    assert_eq!(stage.find("lesson.experience").params["attempted"], Value::text("no"));
    let late = stage.send(reply(Some(&second), "yes")).refusal.unwrap();
    assert_eq!(
        (late.kind, late.message),
        (RefusalKind::NotHere, format!("no question {} is open in ASKING", second.id))
    );
    assert_eq!(late.hint.unwrap(), format!("open here: {}", first.id));
    assert_eq!(kind(&stage.send(reply(None, "yes"))), None);
    let none = stage.send(reply(None, "yes")).refusal.unwrap();
    assert_eq!((none.kind, none.hint), (RefusalKind::NotHere, None));
    stage.recovers();
    stage.done("lesson.experience", "{}");
    stage.done("lesson.experience", "{}");
    assert_eq!(stage.end(), Some(End::Complete));
}

#[test]
fn a_question_is_not_answered_by_an_outcome() {
    let mut stage = finished(Terms::default());
    let question = stage.find("question");
    let decision = stage.outcome(&question, Outcome::Done(Value::text("ff")));
    assert_eq!(kind(&decision), Some(RefusalKind::Malformed));
    assert_eq!(stage.asks(), ["question"]);
}

/// BUG in src: `say`, `reply` and `resume` take anybody, though people.rs says "every such input
/// carries a name".
#[test]
fn whoever_speaks_is_named() {
    let nobody = || " ".to_owned();
    let mut stage = lifecycle(Terms::default());
    let (word, reason, options) = (Name::from("plan"), String::new(), fields("{}"));
    let decision = stage.send(Event::Say { instance: ROOT, word, by: nobody(), reason, options });
    assert_eq!(kind(&decision), Some(RefusalKind::Malformed), "a word");
    let mut stage = finished(Terms::default());
    let reply = Event::Reply { instance: ROOT, action: None, value: Value::text("ff"), by: nobody() };
    assert_eq!(kind(&stage.send(reply)), Some(RefusalKind::Malformed), "an answer");
    let mut stage = builder();
    stage.done("workspace.parse", "{}");
    stage.fail("workspace.validate", FailureKind::Failed);
    let decision = stage.send(Event::Resume { instance: ROOT, by: nobody() });
    assert_eq!(kind(&decision), Some(RefusalKind::Malformed), "a resumption");
}

/// BUG in src: only people may say a policy's name; a word of that name is lost to `verify` and
/// counts as the policy's own.
#[test]
fn nobody_speaks_as_the_policy() {
    let mut stage = lifecycle(Terms::default());
    let (word, by, reason) = (Name::from("plan"), POLICY.to_owned(), String::new());
    let decision = stage.send(Event::Say { instance: ROOT, word, by, reason, options: fields("{}") });
    assert_eq!(kind(&decision), Some(RefusalKind::Malformed));
}

// Stops

#[test]
fn a_stop_ends_the_whole_tree() {
    let library = library_with(&[("parent", PARENT)]);
    let mut stage = Stage::open_with(library, "parent", r#"{"items":["a","b"]}"#, Terms::default());
    let open: Vec<_> = stage.waiting.iter().map(|action| (action.instance, action.id)).collect();
    assert_eq!(open.len(), 2);
    let stop = Event::Stop { instance: ROOT, by: "ann".to_owned(), reason: "enough".to_owned() };
    let decision = stage.send(stop.clone());
    assert_eq!(decision.cancel, open);
    assert_eq!(stage.asks(), [""; 0]);
    let ends: Vec<End> = stage.run.instances().iter().map(|one| one.end.as_ref().unwrap().0).collect();
    assert_eq!(ends, [End::Stopped, End::Cancelled, End::Cancelled]);
    assert_eq!(kind(&stage.send(stop)), Some(RefusalKind::Settled(End::Stopped)));
}

#[test]
fn a_stopped_child_is_a_denied_step_of_its_parent() {
    let library = library_with(&[("parent", PARENT)]);
    let mut stage = Stage::open_with(library, "parent", r#"{"items":["a","b"]}"#, Terms::default());
    stage.send(Event::Stop { instance: InstanceId(1), by: "ann".to_owned(), reason: "enough".to_owned() });
    assert_eq!(stage.asks(), ["workspace.parse"], "the sibling goes on");
    build(&mut stage);
    assert_eq!(stage.end(), Some(End::Complete));
    let values = &stage.run.instance(ROOT).unwrap().end.as_ref().unwrap().1;
    assert_eq!(values["settled"], value(r#"["b"]"#));
    assert_eq!(values["failed"].items()[0].field("key"), &Value::text("a"));
    let denied = |entry: &Entry| {
        matches!(&entry.fact, Fact::Heard { answer: ftl_core::run::Answer::Failed(failure), .. }
        if failure.kind == FailureKind::Denied)
    };
    assert!(stage.journal.iter().any(denied));
}

#[test]
fn a_stop_needs_a_name() {
    let mut stage = builder();
    let decision = stage.send(Event::Stop { instance: ROOT, by: " ".to_owned(), reason: String::new() });
    assert_eq!(kind(&decision), Some(RefusalKind::Malformed));
    assert_eq!(stage.asks(), ["workspace.parse"]);
}

#[test]
fn nothing_moves_an_ended_run() {
    let mut stage = builder();
    stage.send(Event::Stop { instance: ROOT, by: "ann".to_owned(), reason: "enough".to_owned() });
    let journal = stage.journal.len();
    for event in [Event::Tick, Event::Recover] {
        assert_eq!(stage.send(event).entries, []);
    }
    assert_eq!(kind(&stage.waive("PLAN")), Some(RefusalKind::Settled(End::Stopped)));
    assert_eq!(kind(&stage.say("next", "{}")), Some(RefusalKind::Settled(End::Stopped)));
    assert!(stage.journal[journal..].iter().all(|entry| matches!(entry.fact, Fact::Refused { .. })));
}

#[test]
fn a_run_is_opened_once_and_with_what_it_takes() {
    let open = |protocol: &str, inputs: &str| Event::Open {
        protocol: Name::from(protocol),
        inputs: fields(inputs),
        terms: Terms::default(),
        adopt: None,
    };
    let mut stage = builder();
    assert_eq!(kind(&stage.send(open("builder", "{}"))), Some(RefusalKind::Malformed));
    for (protocol, inputs) in [
        ("builder", "{}"),
        ("builder", r#"{"workspace":"w","mode":"half"}"#),
        ("builder", r#"{"workspace":"w","colour":"red"}"#),
        ("nothing", "{}"),
    ] {
        let decision = Stage::new(library()).send(open(protocol, inputs));
        assert_eq!(kind(&decision), Some(RefusalKind::Malformed), "{protocol} {inputs}");
        assert_eq!(decision.entries, []);
    }
}

#[test]
fn work_that_began_elsewhere_is_taken_over() {
    let mut stage = Stage::new(library());
    let adopt = |state: &str| {
        Some(Adoption {
            state: Name::from(state),
            visited: vec![Name::from("planning")],
            params: fields(r#"{"reason":"it broke","feedback":"tighten it"}"#),
            by: "ann".to_owned(),
        })
    };
    let open = |state: &str| Event::Open {
        protocol: Name::from("lifecycle"),
        inputs: fields(r#"{"brief":"b"}"#),
        terms: Terms::default(),
        adopt: adopt(state),
    };
    assert_eq!(kind(&stage.send(open("heaven"))), Some(RefusalKind::Malformed));
    assert_eq!(kind(&stage.send(open("review"))), None);
    assert_eq!(stage.state(), Name::from("review"));
    let told = &stage.run.instance(ROOT).unwrap().params;
    assert_eq!(**told, fields(r#"{"feedback":"tighten it"}"#), "only what the state takes");
    stage.recovers();
    stage.say("next", "{}");
    stage.done("artifact.code_review", "{}");
    assert_eq!(stage.state(), Name::from("test"));
    assert_eq!(kind(&stage.redo("codegen")), Some(RefusalKind::NotHere));
    assert_eq!(kind(&stage.redo("planning")), None);
    Run::verify(library(), &stage.journal).unwrap();
}
