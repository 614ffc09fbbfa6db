//! Attempts: whatever an agent does, a step starts it a bounded number of times; and trouble of the machine
//! is nobody's attempt and nobody's verdict.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use ftl_core::machine::MachineCause;
use ftl_core::run::{
    Action, ActionId, Decision, End, Entry, Event, Fact, Failure, FailureKind, Outcome, Payment, ROOT, Run,
    Standing, Terms, Usage,
};
use ftl_core::value::{Name, Value};
use proptest::prelude::*;
use support::{Stage, library_with, name_of, plain};

/// How many attempts a step has; the table of built-in meters in the documents says so.
const ATTEMPTS: usize = 3;

/// One agent whose failure ends it.
const ONE: &str = r#"PROTOCOL: x
LIMIT: tools = 9 ELSE HOLD
STATE: A
  DO: Task(observer) PAYING tools
    ELSE RETURN blocked reason={failure.message}
  RETURN: complete
"#;

/// Agents side by side, each a step of its own.
const SIDES: &str = r#"PROTOCOL: x
STATE: A
  DO: found = PARALLEL quorum=1 timeout=1m
    - Task(explorer) mode=structure
    - Task(explorer) mode=memory objective=o
    - file.read path=a
  RETURN: complete status={found.status}
"#;

/// An agent and a look for each item.
const EACH: &str = r#"PROTOCOL: x
INPUT: items
STATE: A
  DO: all = FOR EACH one IN items BY one
    CHECK: text = file.read path={one}
    DO: Task(observer)
  RETURN: complete settled={len(all.settled)} failed={len(all.failed)}
"#;

/// A look whose every failure is answered.
const LOOK: &str = r#"PROTOCOL: x
LIMIT: looks = 1 ELSE B
STATE: A
  PAY: looks
  CHECK: text = file.read path=a ELSE B
  RETURN: complete
STATE: B with reason
  RETURN: blocked reason={reason}
"#;

fn open(program: &str) -> Stage {
    let tokens = |amount: u64| Usage::from([(Name::from("tokens"), amount)]);
    let terms = Terms { limits: tokens(100_000), reserve: tokens(100), ..Terms::default() };
    let inputs = if program == EACH { r#"{"items":["a","b"]}"# } else { "{}" };
    Stage::open_with(library_with(&[("x", program)]), "x", inputs, terms)
}

fn confirmed(stage: &Stage) {
    let seen = Run::verify(stage.run.programs().clone(), &stage.journal).unwrap();
    assert_eq!(seen.entries, stage.journal.len());
}

fn resume(stage: &mut Stage) -> Decision {
    stage.send(Event::Resume { instance: ROOT, by: "ann".to_owned() })
}

fn broken() -> Outcome {
    Outcome::Failed(MachineCause::Disk.failure("`x`: Input/output error (os error 5)"))
}

fn claims() -> Outcome {
    Outcome::ClaimedOutage { service: "model: overloaded".to_owned(), until: 0 }
}

/// What becomes of an attempt, or of the engine around it.
#[derive(Clone, Debug)]
enum Move {
    Dies,
    Forbidden,
    Cancelled,
    Calls,
    Silent,
    BadAnswer,
    Fails,
    Right,
    Interrupted,
    Machine,
    Recover,
    Claims,
}

/// Whether the agent did it, and not the engine or the machine.
fn is_agents(one: &Move) -> bool {
    match one {
        Move::Dies | Move::Forbidden | Move::Cancelled | Move::Calls | Move::Silent | Move::Claims => true,
        Move::BadAnswer | Move::Fails | Move::Right => true,
        Move::Interrupted | Move::Machine | Move::Recover => false,
    }
}

fn moves() -> impl Strategy<Value = Vec<(u8, Move)>> {
    let one = prop_oneof![
        4 => Just(Move::Dies),
        6 => Just(Move::Forbidden),
        4 => Just(Move::Cancelled),
        2 => Just(Move::Calls),
        1 => Just(Move::Silent),
        1 => Just(Move::BadAnswer),
        1 => Just(Move::Fails),
        1 => Just(Move::Right),
        2 => Just(Move::Interrupted),
        2 => Just(Move::Machine),
        1 => Just(Move::Recover),
        4 => Just(Move::Claims),
    ];
    proptest::collection::vec((any::<u8>(), one), 1..60)
}

fn play(stage: &mut Stage, agent: &Action, one: &Move) -> Decision {
    let fails = |kind| Outcome::Failed(Failure::new(kind, "boom"));
    let outcome = match one {
        Move::Dies => Outcome::Died("gone".to_owned()),
        Move::Forbidden => Outcome::Forbidden("write is not allowed".to_owned()),
        Move::Cancelled => Outcome::Cancelled,
        Move::Calls => {
            let (instance, action, tool) = (agent.instance, agent.id, Name::from("edit"));
            return stage.send(Event::Tool { instance, action, tool, file: None });
        }
        Move::Silent => fails(FailureKind::Timeout),
        Move::BadAnswer => Outcome::Done(Value::text("nonsense")),
        Move::Fails => fails(FailureKind::Failed),
        Move::Right => Outcome::Done(plain(&stage.answer_type(agent))),
        Move::Interrupted => Outcome::Interrupted,
        Move::Machine => broken(),
        Move::Claims => claims(),
        Move::Recover => return stage.send(Event::Recover),
    };
    stage.outcome(agent, outcome)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// No sequence of what agents do starts one more often than a step has attempts. What the engine or the
    /// machine does to it is asked again, and is no attempt.
    #[test]
    fn no_agent_is_started_more_often_than_a_step_has_attempts(
        program in prop_oneof![Just(ONE), Just(SIDES), Just(EACH)],
        moves in moves(),
    ) {
        let mut stage = open(program);
        stage.careful = false;
        // Starts of each action that followed what its own agent did; the first one counts too.
        let mut starts: BTreeMap<ActionId, usize> = BTreeMap::new();
        for action in &stage.waiting {
            starts.insert(action.id, 1);
        }
        for (pick, one) in &moves {
            let waiting = stage.waiting.clone();
            let at_work: Vec<&Action> = waiting
                .iter()
                .filter(|action| {
                    let open = &stage.run.instance(action.instance).unwrap().open[&action.id];
                    open.suspended.is_none() && open.held.is_none()
                })
                .collect();
            let decision = match at_work.get(usize::from(*pick) % at_work.len().max(1)) {
                Some(action) if !name_of(action).starts_with("Task(") => stage.done("file.read", "{}"),
                Some(agent) => play(&mut stage, agent, one),
                None if stage.standing() == Standing::Suspended => stage.send(Event::Tick),
                None if !stage.run.instance(ROOT).unwrap().held.is_empty() => resume(&mut stage),
                None => break,
            };
            for action in &decision.start {
                let first = !starts.contains_key(&action.id);
                let by_agent = is_agents(one) && at_work.iter().any(|one| one.id == action.id);
                if first || by_agent {
                    *starts.entry(action.id).or_default() += 1;
                }
            }
            for (action, count) in &starts {
                prop_assert!(*count <= ATTEMPTS, "{action} was started {count} times");
            }
        }
        let replayed = Run::replay(stage.run.programs().clone(), &stage.journal);
        prop_assert!(replayed.same_state(&stage.run));
    }
}

#[test]
fn a_forbidden_call_is_an_attempt_and_the_next_one_is_told() {
    let mut stage = open(ONE);
    let agent = stage.find("Task(observer)");
    assert_eq!(agent.forbidden, None);
    let why = "`write` is not among its tools";
    let again = stage.outcome(&agent, Outcome::Forbidden(why.to_owned())).start;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].id, again[0].forbidden.as_deref()), (agent.id, Some(why)));
    // Neither a new start of the engine nor its stop makes it forget.
    assert_eq!(stage.send(Event::Recover).start, again);
    stage.outcome(&agent, Outcome::Interrupted);
    assert_eq!(stage.send(Event::Tick).start, again);
    // Whoever died before said nothing about calls.
    let died = stage.outcome(&agent, Outcome::Died("gone".to_owned())).start;
    assert_eq!((died.len(), died[0].forbidden.clone()), (1, None));
    stage.outcome(&agent, Outcome::Forbidden(why.to_owned()));
    assert_eq!(stage.end(), Some(End::Blocked));
    let told = stage.run.instance(ROOT).unwrap().end.clone().unwrap().1["reason"].to_string();
    assert!(told.contains("3 attempts") && told.contains(why), "{told}");
    let paid = stage.journal.iter().filter(|entry| {
        matches!(&entry.fact, Fact::Paid(Payment::Attempts { forbidden: true, message, .. }) if message == why)
    });
    assert_eq!(paid.count(), 2);
    confirmed(&stage);
}

#[test]
fn an_outage_that_only_the_agent_has_seen_is_an_attempt_and_the_last_one_is_held() {
    let mut stage = open(ONE);
    let agent = stage.waiting[0].clone();
    for attempt in 1..ATTEMPTS {
        stage.outcome(&agent, claims());
        assert_eq!(stage.standing(), Standing::Suspended, "attempt {attempt}");
        let again = stage.send(Event::Tick);
        assert_eq!(again.start.len(), 1, "attempt {attempt}");
    }
    let last = stage.outcome(&agent, claims());
    assert!(last.start.is_empty());
    let held = stage.run.instance(ROOT).unwrap().held.values().next().cloned().unwrap();
    assert_eq!(held.failure.kind, FailureKind::Machine);
    assert!(held.failure.message.contains("model: overloaded"), "{held:?}");
    // Each word of a person is worth one more start, and no more.
    assert_eq!(resume(&mut stage).start.len(), 1);
    assert!(stage.outcome(&agent, claims()).start.is_empty());
    assert!(stage.send(Event::Tick).start.is_empty());
    confirmed(&stage);
}

/// A service that the engine itself has seen silent is asked as often as it takes, as in every older journal.
#[test]
fn an_outage_that_the_engine_has_seen_is_no_attempt() {
    let mut stage = open(ONE);
    let agent = stage.waiting[0].clone();
    for _ in 0..ATTEMPTS * 3 {
        stage.outcome(&agent, Outcome::Outage { service: "model".to_owned(), until: 0 });
        assert_eq!(stage.send(Event::Tick).start.len(), 1);
    }
    confirmed(&stage);
}

#[test]
fn an_attempt_of_an_older_journal_is_a_death() {
    let text = r#"{"seq":4,"at":7,"instance":0,"first":true,"fact":"paid","from":"attempts","action":"3.0","message":"gone"}"#;
    let entry: Entry = serde_json::from_str(text).unwrap();
    let expected =
        Payment::Attempts { action: support::id("3.0"), message: "gone".to_owned(), forbidden: false };
    assert_eq!(entry.fact, Fact::Paid(expected));
    assert_eq!(serde_json::to_string(&entry).unwrap(), text, "it is written as it was");
    let text = r#"{"seq":4,"at":7,"instance":0,"first":true,"fact":"held","thread":"main","place":0,"failure":{"kind":"stale","message":"x"},"stuck":true}"#;
    let entry: Entry = serde_json::from_str(text).unwrap();
    assert!(matches!(&entry.fact, Fact::Held { action: None, .. }));
    assert_eq!(serde_json::to_string(&entry).unwrap(), text);
}

/// Each line: a protocol, the action that meets the trouble, and how the run ends once it is mended.
const MACHINE: [(&str, &str, &str); 5] = [
    (LOOK, "file.read", "complete"),
    (ONE, "Task(observer)", "complete"),
    (SIDES, "Task(explorer)", "complete"),
    (SIDES, "file.read", "complete"),
    (EACH, "file.read", "complete"),
];

#[test]
fn trouble_of_the_machine_holds_and_the_same_action_is_asked_again() {
    for (program, whom, end) in MACHINE {
        let mut stage = open(program);
        let action = stage.find(whom);
        for _ in 0..5 {
            let decision = stage.outcome(&action, broken());
            assert!(decision.start.is_empty(), "{program}: {:?}", decision.start);
            assert!(stage.run.end().is_none());
            // An engine that comes back does not ask again by itself, and time does not either.
            let again = stage.send(Event::Recover).start;
            assert!(again.iter().all(|one| one.id != action.id), "{program}");
            stage.clock += 10 * 60_000;
            let again = stage.send(Event::Tick).start;
            assert!(again.is_empty() && stage.run.end().is_none(), "{program}: {}", stage.describe());
            let again = resume(&mut stage).start;
            assert_eq!(again, std::slice::from_ref(&action), "{program}: under its own id");
        }
        let open = &stage.run.instance(ROOT).unwrap().open[&action.id];
        assert_eq!((open.died, open.held.clone()), (0, None), "{program}: no attempt");
        while let Some(next) = stage.waiting.first().map(name_of) {
            stage.done(&next, "{}");
        }
        assert_eq!(stage.end().map(End::word), Some(end), "{program}: {}", stage.describe());
        confirmed(&stage);
    }
}

#[test]
fn everything_else_goes_on_while_the_machine_holds_one() {
    // A branch that is held keeps the PARALLEL open; the others are heard.
    let mut stage = open(SIDES);
    let held = stage.find("file.read");
    stage.outcome(&held, broken());
    assert_eq!(stage.standing(), Standing::Running);
    stage.waiting.retain(|action| action.id != held.id);
    stage.done("Task(explorer)", "{}");
    stage.done("Task(explorer)", "{}");
    assert_eq!((stage.standing(), stage.end()), (Standing::Held, None), "two of three are a quorum, and yet");
    assert_eq!(resume(&mut stage).start, [held]);
    stage.done("file.read", "{}");
    assert_eq!(stage.end(), Some(End::Complete));
    // An item that is held does not end it either.
    let mut stage = open(EACH);
    let held = stage.find("file.read");
    stage.outcome(&held, broken());
    stage.waiting.retain(|action| action.id != held.id);
    stage.done("file.read", "{}");
    stage.done("Task(observer)", "{}");
    assert_eq!((stage.standing(), stage.end()), (Standing::Held, None));
    resume(&mut stage);
    stage.done("file.read", "{}");
    stage.done("Task(observer)", "{}");
    let (_, values) = stage.run.instance(ROOT).unwrap().end.clone().unwrap();
    assert_eq!((values["settled"].to_string(), values["failed"].to_string()), ("2".into(), "0".into()));
    confirmed(&stage);
}

#[test]
fn the_time_of_a_parallel_stands_still_while_the_machine_holds_a_branch() {
    let mut stage = open(SIDES);
    let held = stage.find("file.read");
    stage.clock += 30_000;
    stage.outcome(&held, broken());
    stage.clock += 3_600_000;
    assert_eq!(stage.run.next_due(), None);
    resume(&mut stage);
    let due = stage.run.next_due().unwrap();
    assert!(due > stage.clock + 29_000 && due < stage.clock + 31_000, "half of its minute is left");
    stage.clock = due;
    stage.send(Event::Tick);
    assert_eq!(stage.end(), Some(End::Complete), "then its time is over");
}

#[test]
fn what_was_set_aside_is_free_while_the_machine_holds_an_agent() {
    let mut stage = open(ONE);
    let agent = stage.find("Task(observer)");
    let purse = |stage: &Stage| stage.run.purses(ROOT).unwrap()["tokens"].clone();
    assert_eq!(purse(&stage).reserved, 100);
    let (instance, action) = (agent.instance, agent.id);
    stage.send(Event::Tool { instance, action, tool: Name::from("edit"), file: None });
    let usage = Some(Usage::from([(Name::from("tokens"), 0)]));
    stage.send(Event::Outcome { instance, action, outcome: broken(), usage });
    assert_eq!((purse(&stage).reserved, purse(&stage).used), (0, 0));
    // Nothing comes of what nobody is at work on.
    let late = stage.send(Event::Tool { instance, action, tool: Name::from("edit"), file: None });
    assert!(late.refusal.is_some());
    let late = stage.outcome(&agent, Outcome::Died("gone".to_owned()));
    assert!(late.refusal.is_some() && late.start.is_empty());
    resume(&mut stage);
    assert_eq!(purse(&stage).reserved, 100);
    let tools = stage.run.instance(ROOT).unwrap().meters["tools"].highest_use();
    assert_eq!(tools, 0, "its calls begin anew");
    confirmed(&stage);
}
