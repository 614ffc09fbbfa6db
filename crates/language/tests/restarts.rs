//! Stops, crashes and outages: what is asked again, how often, and what it is charged.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use ftl_core::run::{
    Action, BudgetMeter, Decision, End, Event, Fact, OpenKind, Outcome, Payment, ROOT, Run, STOPPED,
    Standing, Terms, Usage,
};
use ftl_core::value::Name;
use support::{Stage, library_with, plain};

/// One agent.
const ONE: &str = r#"PROTOCOL: x
STATE: A
  DO: Task(observer)
  RETURN: complete
"#;

/// Three agents, one for each item.
const EACH: &str = r#"PROTOCOL: x
INPUT: items
STATE: A
  DO: all = FOR EACH one IN items BY one
    DO: Task(observer)
  RETURN: complete settled={len(all.settled)}
"#;

/// Two agents and a look, side by side, for a minute.
const SIDES: &str = r#"PROTOCOL: x
STATE: A
  DO: found = PARALLEL quorum=1 timeout=1m
    - Task(explorer) mode=structure
    - Task(explorer) mode=memory objective=o
    - file.read path=a
  DO: observer.analyze
  RETURN: complete status={found.status}
"#;

fn usage(amounts: &[(&str, u64)]) -> Usage {
    amounts.iter().map(|(name, amount)| (Name::from(*name), *amount)).collect()
}

fn tokens(amount: u64) -> Usage {
    usage(&[("tokens", amount)])
}

fn open(program: &str, limit: u64) -> Stage {
    let terms = Terms { limits: tokens(limit), reserve: tokens(100), ..Terms::default() };
    let inputs = if program == EACH { r#"{"items":["a","b","c"]}"# } else { "{}" };
    Stage::open_with(library_with(&[("x", program)]), "x", inputs, terms)
}

fn ends(stage: &mut Stage, action: &Action, outcome: Outcome, usage: Option<Usage>) -> Decision {
    let (instance, action) = (action.instance, action.id);
    stage.send(Event::Outcome { instance, action, outcome, usage })
}

fn done(stage: &mut Stage, action: &Action, amount: u64) -> Decision {
    let answer = plain(&stage.answer_type(action));
    ends(stage, action, Outcome::Done(answer), Some(tokens(amount)))
}

fn spends(stage: &mut Stage, action: &Action, amount: u64) -> Decision {
    stage.send(Event::Spent { instance: action.instance, action: action.id, usage: tokens(amount) })
}

fn outage(until: u64) -> Outcome {
    Outcome::Outage { service: "model".to_owned(), until }
}

fn purse(stage: &Stage) -> BudgetMeter {
    stage.run.purses(ROOT).unwrap().get("tokens").cloned().unwrap_or_default()
}

fn counts(stage: &Stage) -> (u64, u64, u64) {
    let purse = purse(stage);
    (purse.used, purse.reserved, purse.guessed)
}

fn agents(stage: &Stage) -> Vec<Action> {
    let agents = stage.waiting.iter().filter(|action| support::name_of(action).starts_with("Task("));
    agents.cloned().collect()
}

fn confirmed(stage: &Stage) {
    let seen = Run::verify(stage.run.programs().clone(), &stage.journal).unwrap();
    assert_eq!(seen.entries, stage.journal.len());
}

// Crashes

#[test]
fn tool_calls_of_an_interrupted_agent_are_given_back() {
    let paying = "PROTOCOL: x
LIMIT: tools = 3 ELSE HOLD
STATE: A
  DO: Task(observer) PAYING tools
  RETURN: complete";
    let mut stage = open(paying, 1000);
    let agent = stage.find("Task(observer)");
    let call = |stage: &mut Stage| {
        let tool = Name::from("edit");
        stage.send(Event::Tool { instance: ROOT, action: agent.id, tool, file: None }).refusal
    };
    let used = |stage: &Stage| stage.run.instance(ROOT).unwrap().meters["tools"].highest_use();
    assert!(call(&mut stage).is_none() && call(&mut stage).is_none());
    assert_eq!(used(&stage), 2);
    stage.send(Event::Recover);
    assert_eq!(used(&stage), 0, "a crash is not the agent's fault");
    confirmed(&stage);
    for _ in 0..2 {
        assert!(call(&mut stage).is_none());
    }
    stage.outcome(&agent, Outcome::Interrupted);
    assert_eq!(used(&stage), 2, "it is not asked again yet");
    stage.send(Event::Tick);
    assert_eq!(used(&stage), 0, "neither is a stop");
    assert!(call(&mut stage).is_none());
    stage.outcome(&agent, Outcome::Died("its own fault".to_owned()));
    assert_eq!(used(&stage), 1, "what it did before it died counts");
    confirmed(&stage);
    assert!(call(&mut stage).is_none() && call(&mut stage).is_none());
    assert_eq!(call(&mut stage).unwrap().kind, ftl_core::run::RefusalKind::Guard);
}

#[test]
fn a_crash_charges_the_worst_case() {
    let mut stage = open(ONE, 1000);
    let agent = stage.find("Task(observer)");
    spends(&mut stage, &agent, 30);
    assert_eq!(counts(&stage), (30, 100, 0));
    let decision = stage.send(Event::Recover);
    assert_eq!(decision.start, std::slice::from_ref(&agent));
    assert_eq!(counts(&stage), (130, 100, 1), "all that was set aside is used, and as much is set aside");
    let paid = Fact::Paid(Payment::Budget {
        action: agent.id,
        usage: tokens(100),
        guessed: vec![Name::from("tokens")],
    });
    let reserved = Fact::Reserved { action: agent.id, usage: tokens(100) };
    let facts: Vec<Fact> = decision.entries.into_iter().map(|entry| entry.fact).collect();
    assert_eq!(facts, [paid, reserved]);
    done(&mut stage, &agent, 5);
    assert_eq!((counts(&stage), stage.end()), ((135, 0, 1), Some(End::Complete)));
    confirmed(&stage);
}

#[test]
fn every_crash_is_charged() {
    let mut stage = open(ONE, 350);
    for crash in 1..=2 {
        stage.send(Event::Recover);
        assert_eq!(counts(&stage), (100 * crash, 100, crash));
    }
    stage.send(Event::Recover);
    assert_eq!(counts(&stage), (300, 0, 3), "50 are left, and that is not enough for another");
    assert_eq!((stage.standing(), stage.asks()), (Standing::Held, vec![]));
    assert_eq!(stage.send(Event::Recover).entries, [], "nobody is at work");
    stage.raise("tokens", 400);
    assert_eq!(stage.asks(), ["Task(observer)"]);
    confirmed(&stage);
}

#[test]
fn a_crash_charges_every_agent_and_nothing_else() {
    let mut stage = open(SIDES, 1000);
    assert_eq!(counts(&stage), (0, 200, 0));
    let waiting = stage.waiting.clone();
    assert_eq!(stage.send(Event::Recover).start, waiting);
    assert_eq!(counts(&stage), (200, 200, 2));
    let mut stage = open(EACH, 1000);
    let waiting = stage.waiting.clone();
    done(&mut stage, &waiting[0], 10);
    assert_eq!(stage.send(Event::Recover).start, waiting[1..]);
    assert_eq!(counts(&stage), (210, 200, 2));
    confirmed(&stage);
}

#[test]
fn a_branch_that_cannot_be_afforded_after_a_crash_fails() {
    let mut stage = open(SIDES, 300);
    let waiting = stage.waiting.clone();
    let decision = stage.send(Event::Recover);
    assert_eq!(decision.start.len(), 2, "one agent and the look: {}", stage.describe());
    assert_eq!(counts(&stage), (200, 100, 2));
    done(&mut stage, &waiting[0], 1);
    stage.done("file.read", "{}");
    assert_eq!(stage.asks(), ["observer.analyze"]);
    confirmed(&stage);
}

#[test]
fn an_agent_of_a_state_that_changed_is_charged_once() {
    let stage = open(ONE, 1000);
    let changed = ONE.replace("  DO: Task", "  EMIT: \"new\"\n  DO: Task");
    let mut stage = moved_to(&stage, &changed);
    stage.send(Event::Recover);
    assert_eq!((counts(&stage), stage.standing()), ((100, 0, 1), Standing::Held));
    stage.send(Event::Recover);
    assert_eq!(counts(&stage), (100, 0, 1), "nobody was at work any more");
    let mut stage = moved_to(&stage, ONE);
    assert_eq!(stage.send(Event::Recover).start.len(), 1);
    assert_eq!(counts(&stage), (100, 100, 1));
}

#[test]
fn a_parallel_whose_time_was_over_in_a_crash_leaves_nothing_aside() {
    let mut stage = open(SIDES, 1000);
    stage.done("file.read", "{}");
    stage.clock += 60_000;
    let decision = stage.send(Event::Recover);
    assert_eq!((stage.asks(), decision.cancel), (vec!["observer.analyze".to_owned()], vec![]));
    assert_eq!(counts(&stage), (200, 0, 2), "nobody was begun again, and nobody will report");
    assert!(stage.run.instance(ROOT).unwrap().owed.is_empty());
    confirmed(&stage);
}

/// Another text, and the run made again from its journal.
fn moved_to(stage: &Stage, program: &str) -> Stage {
    let library = library_with(&[("x", program)]);
    Stage { run: Run::replay(library, &stage.journal), ..stage.clone() }
}

// Stops

#[test]
fn a_stop_suspends_and_starts_nothing() {
    let mut stage = open(EACH, 1000);
    for agent in agents(&stage) {
        let decision = ends(&mut stage, &agent, Outcome::Interrupted, Some(tokens(20)));
        assert_eq!((decision.start, decision.cancel), (vec![], vec![]));
        let fact = decision.entries.into_iter().map(|entry| entry.fact).next_back().unwrap();
        let (action, service, until) = (agent.id, STOPPED.to_owned(), stage.clock);
        assert_eq!(fact, Fact::Suspended { action, service, until });
    }
    assert_eq!((counts(&stage), stage.standing()), ((60, 240, 0), Standing::Suspended));
    confirmed(&stage);
}

#[test]
fn what_a_stop_suspended_is_asked_once_and_charged_once() {
    for back in [Event::Tick, Event::Recover] {
        let mut stage = open(EACH, 1000);
        let all = agents(&stage);
        ends(&mut stage, &all[0], Outcome::Interrupted, Some(tokens(20)));
        ends(&mut stage, &all[1], Outcome::Interrupted, None);
        ends(&mut stage, &all[2], Outcome::Interrupted, Some(Usage::new()));
        assert_eq!(counts(&stage), (220, 80, 2), "20 known, the others unknown");
        assert_eq!(stage.send(back.clone()).start, all);
        assert_eq!(counts(&stage), (220, 300, 2), "as much set aside as before");
        assert_eq!(stage.send(Event::Tick).start, []);
        for agent in &all {
            done(&mut stage, agent, 1);
        }
        assert_eq!((counts(&stage), stage.end()), ((223, 0, 2), Some(End::Complete)));
        confirmed(&stage);
    }
}

#[test]
fn a_stopped_agent_that_cannot_be_afforded_again_is_held() {
    let mut stage = open(ONE, 150);
    let agent = stage.find("Task(observer)");
    ends(&mut stage, &agent, Outcome::Interrupted, None);
    assert_eq!(stage.send(Event::Recover).start, []);
    assert_eq!((counts(&stage), stage.standing()), ((100, 0, 1), Standing::Held));
    stage.raise("tokens", 200);
    assert_eq!(stage.asks(), ["Task(observer)"]);
    confirmed(&stage);
}

#[test]
fn a_stopped_step_of_a_state_that_changed_is_not_asked() {
    let mut stage = open(ONE, 1000);
    let agent = stage.find("Task(observer)");
    ends(&mut stage, &agent, Outcome::Interrupted, Some(tokens(40)));
    let mut stage = moved_to(&stage, &ONE.replace("  DO: Task", "  EMIT: \"new\"\n  DO: Task"));
    let decision = stage.send(Event::Recover);
    assert_eq!((decision.start, stage.standing()), (vec![], Standing::Held));
    assert_eq!(stage.send(Event::Tick).entries, [], "it is said once");
    let mut stage = moved_to(&stage, ONE);
    assert_eq!(stage.send(Event::Recover).start, [agent]);
    assert_eq!(counts(&stage), (40, 100, 0), "it was not at work: nothing is unknown");
}

// Outages

#[test]
fn a_probe_that_fails_again_waits_longer() {
    for program in [ONE, EACH, SIDES] {
        let mut stage = open(program, 1000);
        let agent = agents(&stage)[0].clone();
        let others = stage.waiting.len() - 1;
        let first = stage.clock + 1000;
        ends(&mut stage, &agent, outage(first), Some(tokens(0)));
        ends(&mut stage, &agent, outage(first + 1000), Some(tokens(3)));
        let open = stage.run.instance(ROOT).unwrap().open[&agent.id].clone();
        assert_eq!(open.suspended, Some(("model".to_owned(), first + 1000)));
        assert_eq!((open.kind.clone(), open.died), (OpenKind::Call, 0));
        stage.clock = first;
        assert_eq!(stage.send(Event::Tick).entries, []);
        assert_eq!(stage.send(Event::Recover).start.len(), others, "only those that were at work");
        stage.clock = first + 999;
        assert_eq!(stage.send(Event::Tick).start, std::slice::from_ref(&agent));
        assert_eq!(purse(&stage).used, 3 + 100 * (agents(&stage).len() as u64 - 1));
        confirmed(&stage);
    }
}

/// What the last words of something that was cut off leave out is unknown, whatever it said before.
#[test]
fn silence_of_what_was_cut_off_costs_the_worst_case() {
    let cut = |stage: &Stage| {
        let until = stage.clock + 1000;
        [Outcome::Cancelled, Outcome::Interrupted, Outcome::Died("killed".to_owned()), outage(until)]
    };
    for index in 0..4 {
        for (last, charged) in
            [(None, 100), (Some(Usage::new()), 100), (Some(tokens(0)), 0), (Some(tokens(9)), 9)]
        {
            let mut stage = open(ONE, 1000);
            let agent = agents(&stage)[0].clone();
            spends(&mut stage, &agent, 4);
            let outcome = cut(&stage)[index].clone();
            ends(&mut stage, &agent, outcome.clone(), last.clone());
            assert_eq!(purse(&stage).used, 4 + charged, "{outcome:?} with {last:?}");
            confirmed(&stage);
        }
    }
    let mut stage = open(ONE, 1000);
    let agent = agents(&stage)[0].clone();
    spends(&mut stage, &agent, 4);
    done(&mut stage, &agent, 0);
    assert_eq!(purse(&stage).used, 4, "its own end is a last report");
}

#[test]
fn a_stop_while_a_service_is_out_asks_at_once_when_the_engine_is_back() {
    let mut stage = open(ONE, 1000);
    let agent = stage.find("Task(observer)");
    let until = stage.clock + 60_000;
    ends(&mut stage, &agent, outage(until), Some(Usage::new()));
    ends(&mut stage, &agent, Outcome::Interrupted, Some(tokens(1)));
    assert_eq!(stage.send(Event::Recover).start, [agent]);
    confirmed(&stage);
}

#[test]
fn an_answer_of_a_stopped_agent_is_taken() {
    let mut stage = open(ONE, 1000);
    let agent = stage.find("Task(observer)");
    ends(&mut stage, &agent, Outcome::Interrupted, Some(tokens(1)));
    done(&mut stage, &agent, 2);
    assert_eq!((counts(&stage), stage.end()), ((3, 0, 0), Some(End::Complete)));
    assert_eq!(stage.send(Event::Recover).entries, []);
    confirmed(&stage);
}
