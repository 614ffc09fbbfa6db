//! What a run tells: its ways out, and whether its journal is what today's protocols decide.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use ftl_core::performer::Performer;
use ftl_core::run::{
    Adoption, Answers, End, Entry, Event, Fact, FailureKind, InstanceId, Outcome, Payment, Policy, ROOT, Run,
    Standing, Terms, WayOut,
};
use ftl_core::value::{Name, Value};
use support::plays::{builder, changed, finished, lifecycle, with_policies};
use support::{Stage, fields, library, value};

fn answer(json: &str) -> Policy {
    Policy::Answer(value(json))
}

// Options

fn ways(stage: &Stage) -> Vec<String> {
    let ways = stage.run.options(ROOT);
    ways.iter().map(render_way).collect()
}

/// `→ STATE if what holds (+), does not (-) or is not known (?)`, unless (~), with a star when it is open.
fn render_way(way: &WayOut) -> String {
    let to = way.to.as_deref().unwrap_or("end");
    let conditions = way.conditions.iter().map(|condition| {
        let holds = condition.holds.map_or("?", |holds| if holds { "+" } else { "-" });
        format!(" {holds}{}", condition.text)
    });
    let unless: String = way.unless.iter().map(|text| format!(" ~{text}")).collect();
    format!("{to}{}{}{unless}", if way.open { "*" } else { "" }, conditions.collect::<String>())
}

#[test]
fn options_at_the_start_of_each_protocol() {
    assert_eq!(ways(&Stage::open("task", r#"{"objective":"o"}"#)), ["EXPLORE*"]);
    assert_eq!(ways(&Stage::open("campaign", r#"{"objective":"o"}"#)), ["EXPLORE*"]);
    let read = [
        "BLOCK +mode == \"full\"",
        "BLOCK ?could not: CHECK: spec = workspace.parse path={workspace} ELSE GOTO: BLOCK",
        "PLAN*",
    ];
    assert_eq!(ways(&builder()), read);
    let waiting = ["ERROR ?could not: WAIT: story.assigned story={story} ELSE GOTO: ERROR", "SETUP*"];
    assert_eq!(ways(&Stage::open("coder", r#"{"story":"s"}"#)), waiting);
    let planning = ["planning ?said.redo", "plan_review ?plan.passed ~said.redo"];
    assert_eq!(ways(&lifecycle(Terms::default())), planning);
}

#[test]
fn options_say_what_was_seen() {
    let mut stage = lifecycle(Terms::default());
    stage.say("next", "{}");
    stage.done("artifact.plan", r#"{"passed":false,"missing":["no plan"]}"#);
    assert_eq!(ways(&stage), ["planning -said.redo", "plan_review -plan.passed"]);
}

#[test]
fn options_with_what_somebody_has_looked_at() {
    let stage = lifecycle(Terms::default());
    let told_with = |word: &str, plan: &str| -> Vec<String> {
        let actions = [(Name::from("artifact.plan"), Ok(value(plan)))].into();
        let answers = Answers { word: Some(Name::from(word)), actions };
        stage.run.options_with(ROOT, &answers).iter().map(render_way).collect()
    };
    let (good, bad) = (r#"{"passed":true}"#, r#"{"passed":false}"#);
    assert_eq!(told_with("next", good), ["planning -said.redo", "plan_review* +plan.passed"]);
    assert_eq!(told_with("next", bad), ["planning -said.redo", "plan_review -plan.passed"]);
    assert_eq!(told_with("redo", good)[0], "planning* +said.redo");
    // A word that does its work and stays opens nothing.
    assert_eq!(told_with("plan", good), ["planning -said.redo", "plan_review +plan.passed"]);
}

#[test]
fn a_rehearsal_tells_where_an_input_leads_and_changes_nothing() {
    let stage = lifecycle(Terms::default());
    let plan = r#"{"passed":true,"failed":false,"summary":"s","missing":[],"questions":[],"files":["a"]}"#;
    let actions = [(Name::from("artifact.plan"), Ok(value(plan)))].into();
    let known = Answers { word: None, actions };
    let say = || Event::Say {
        instance: ROOT,
        word: Name::from("next"),
        by: "ann".to_owned(),
        reason: String::new(),
        options: fields("{}"),
    };
    let rehearsal = stage.run.rehearse(1, say(), &known);
    assert_eq!(&*rehearsal.run.instance(ROOT).unwrap().state, "plan_review");
    assert_eq!(&*stage.run.instance(ROOT).unwrap().state, "planning");
    let unknown = stage.run.rehearse(1, say(), &Answers::default());
    assert_eq!(unknown.asks, Some(Performer::from("artifact.plan")));
    let nowhere = Event::Waive {
        instance: ROOT,
        to: Name::from("done"),
        by: "ann".to_owned(),
        reason: "because".to_owned(),
    };
    assert!(stage.run.rehearse(1, nowhere, &known).refusal.unwrap().message.contains("no edge"));
}

#[test]
fn options_of_a_held_instance() {
    let mut stage = lifecycle(Terms::default());
    (0..5).for_each(|_| drop(stage.say("redo", "{}")));
    stage.say("redo", "{}");
    assert_eq!(stage.standing(), Standing::Held);
    assert_eq!(ways(&stage), ["planning* +said.redo", "plan_review ?plan.passed"]);
    let mut stage = builder();
    stage.done("workspace.parse", "{}");
    stage.fail("workspace.validate", FailureKind::CouldNotRun);
    let plan = ways(&stage);
    assert_eq!(plan[0], "BLOCK ?NOT sound.passed");
    // Not open: it is taken only if what comes before it does not hold, and nobody knows that yet.
    assert_eq!(plan.last().unwrap(), "IMPLEMENT ~NOT sound.passed");
}

#[test]
fn an_ended_instance_has_no_options() {
    let mut stage = builder();
    stage.send(Event::Stop { instance: ROOT, by: "ann".to_owned(), reason: "enough".to_owned() });
    assert_eq!(stage.run.options(ROOT), []);
    assert_eq!(stage.run.options(InstanceId(9)), []);
}

#[test]
fn every_declared_edge_is_an_option_of_its_state() {
    let library = library();
    for protocol in ["task", "campaign", "builder", "coder", "lifecycle"] {
        let program = library.program(protocol).unwrap();
        for state in &program.states {
            let adopt = Adoption {
                state: state.name.clone(),
                visited: vec![],
                params: fields("{}"),
                by: "ann".to_owned(),
            };
            let inputs = program.inputs.iter().filter(|input| input.default.is_none());
            let inputs = inputs.map(|input| (input.name.clone(), Value::text("x"))).collect();
            let open = Event::Open {
                protocol: program.name.clone(),
                inputs,
                terms: Terms::default(),
                adopt: Some(adopt),
            };
            let mut stage = Stage::new(library.clone());
            stage.send(open);
            if *stage.state() != *state.name {
                continue;
            }
            let mut ways: Vec<Name> = stage.run.options(ROOT).into_iter().filter_map(|way| way.to).collect();
            ways.sort();
            ways.dedup();
            let mut edges: Vec<Name> = program.targets(&state.name).cloned().collect();
            edges.sort();
            assert!(
                stage.end().is_some() || ways == edges,
                "{protocol}.{}: {ways:?}, not {edges:?}",
                state.name
            );
        }
    }
}

// Verification

/// A journal with a bit of everything.
fn journal() -> Vec<Entry> {
    finished(with_policies(&[("*", answer("\"ff\""))])).journal
}

#[test]
fn a_true_journal_is_confirmed() {
    let journal = journal();
    let seen = Run::verify(library(), &journal).unwrap();
    assert_eq!((seen.entries, seen.taken), (journal.len(), 0));
}

#[test]
fn an_edited_entry_is_found() {
    let journal = journal();
    for index in 0..journal.len() {
        let mut edited = journal.clone();
        let entry = &mut edited[index];
        match &mut entry.fact {
            Fact::Emitted { fields, .. } => drop(fields.insert(Name::from("text"), Value::text("edited"))),
            Fact::Moved { params, .. } => drop(params.insert(Name::from("reason"), Value::text("edited"))),
            Fact::Asked { asks, .. } => asks[0].digest = Name::from("edited"),
            Fact::Set { value, .. } => *value = Value::text("edited"),
            Fact::Paid(Payment::Meter { meter, .. }) => *meter = Name::from("edited"),
            Fact::Settled { end, .. } => *end = End::Error,
            _ => continue,
        }
        let divergence = Run::verify(library(), &edited).unwrap_err();
        assert_eq!(divergence.seq, journal[index].seq, "{divergence:?}");
        assert_eq!(divergence.journal.unwrap().fact, edited[index].fact);
        assert_eq!(divergence.today.unwrap().fact, journal[index].fact);
    }
}

#[test]
fn an_edited_answer_is_found_by_what_follows() {
    let mut journal = journal();
    let edited = journal.iter_mut().find_map(|entry| match &mut entry.fact {
        Fact::Heard { answer: ftl_core::run::Answer::Done(value), .. }
            if value.field("kind").as_text() == Some("PROCEED") =>
        {
            Some(value)
        }
        _ => None,
    });
    let edited = edited.unwrap();
    *edited = support::with(edited, &fields(r#"{"kind":"UNKNOWN"}"#));
    let divergence = Run::verify(library(), &journal).unwrap_err();
    assert!(divergence.message.contains("otherwise"), "{}", divergence.message);
}

#[test]
fn a_dropped_entry_is_found_wherever_it_is() {
    let journal = journal();
    for index in 0..journal.len() - 1 {
        let mut dropped = journal.clone();
        dropped.remove(index);
        assert!(Run::verify(library(), &dropped).is_err(), "without {:?}", journal[index]);
    }
}

/// A builder whose idioms were violated, at a confidence that blocks today.
fn violated() -> Stage {
    let mut stage = builder();
    stage.done("workspace.parse", r#"{"framework_confidence":0.65}"#);
    stage.done("workspace.validate", "{}");
    stage.done("Task(builder)", "{}");
    stage.done("Task(builder)", "{}");
    stage.done("preflight.check", "{}");
    stage.done("verify.run", r#"{"tree":"t1"}"#);
    stage.done("quality.check", r#"{"passed":false}"#);
    assert_eq!(stage.state(), Name::from("BLOCK"));
    stage
}

#[test]
fn a_protocol_that_decides_otherwise_is_found() {
    let stricter = changed("builder", "framework_confidence >= 0.6", "framework_confidence >= 0.7");
    Run::verify(stricter, &violated().journal).unwrap_err();
    let poorer = changed("builder", "LIMIT: tools = budget", "LIMIT: tools = 4");
    Run::verify(poorer, &violated().journal).unwrap_err();
}

/// BUG in src: the digest of the document and of each state are compared as well, so that a change
/// of prose, or of a line that would have decided the same, is reported as another decision.
#[test]
fn a_protocol_that_decides_the_same_is_confirmed() {
    let prose = changed("builder", "PROTOCOL: builder", "PROTOCOL: builder");
    Run::verify(prose, &violated().journal).unwrap();
    let equal = changed("builder", "tools.left >= 2 AND", "tools.left >= 1 AND");
    Run::verify(equal, &violated().journal).unwrap();
}

/// The divergence is where the decision differs, not where the text does.
#[test]
fn the_divergence_is_the_decision() {
    let stricter = changed("builder", "framework_confidence >= 0.6", "framework_confidence >= 0.7");
    let divergence = Run::verify(stricter, &violated().journal).unwrap_err();
    assert!(matches!(&divergence.journal.unwrap().fact, Fact::Moved { to, .. } if &**to == "BLOCK"));
    assert!(matches!(&divergence.today.unwrap().fact, Fact::Emitted { .. }));
}

#[test]
fn what_people_and_accidents_did_is_confirmed_too() {
    let mut stage = lifecycle(Terms::default());
    stage.say("plan", "{}");
    let agent = stage.find("Task(planner)");
    stage.outcome(&agent, Outcome::Died("gone".to_owned()));
    let until = stage.clock + 5;
    stage.outcome(&agent, Outcome::Outage { service: "model".to_owned(), until });
    stage.clock += 5;
    stage.send(Event::Tick);
    stage.outcome(&agent, Outcome::Interrupted);
    stage.done("Task(planner)", "{}");
    (0..5).for_each(|_| drop(stage.say("redo", "{}")));
    stage.say("redo", "{}");
    stage.raise("rounds", 7);
    stage.waive("done");
    stage.waive("plan_review");
    stage.fail("artifact.plan", FailureKind::Failed);
    stage.redo("planning");
    stage.send(Event::Stop { instance: ROOT, by: "ann".to_owned(), reason: "enough".to_owned() });
    let seen = Run::verify(library(), &stage.journal).unwrap();
    assert_eq!(seen.entries, stage.journal.len());
}
