//! Large runs: what a decision costs does not grow with what is open beside it or has ended before.
//!
//! The time of one decision is measured, many times, and the median taken: that is the same on a
//! busy machine. A decision that looks at everything costs sixteen times as much among sixteen
//! times as much.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use ftl_core::run::{
    ActionId, Decision, End, Event, Input, InstanceId, Outcome, ROOT, Run, Standing, Terms, Usage,
};
use ftl_core::value::{Fields, Name, Value};
use ftl_language::library::Library;
use support::{indexed, library_with, plain};

const FEW: usize = 250;
const MANY: usize = 16 * FEW;
/// What a decision among many may cost more than one among few.
const MOST: u32 = 5;

/// An agent for each of a list.
const FAN: &str = r#"PROTOCOL: fan
INPUT: items
STATE: WORK
  DO: all = FOR EACH one IN items BY one
    DO: Task(observer)
  RETURN: complete settled={len(all.settled)} failed={len(all.failed)}
"#;

/// A child for each of a list, each with an agent.
const TREE: &str = r#"PROTOCOL: tree
INPUT: items
STATE: WORK
  DO: all = FOR EACH one IN items BY one
    DO: done = Run(leaf) name={one}
  RETURN: complete settled={len(all.settled)}
"#;

const LEAF: &str = r#"PROTOCOL: leaf
INPUT: name
STATE: WORK
  DO: Task(observer)
  RETURN: complete name={name}
"#;

struct Large {
    run: Run,
    open: Vec<(InstanceId, ActionId)>,
    answer: Value,
    clock: u64,
}

impl Large {
    fn open(protocol: &str, items: usize, limit: u64) -> Large {
        let library = library_with(&[("fan", FAN), ("tree", TREE), ("leaf", LEAF)]);
        let answer = observed(&library);
        let items = Value::list((0..items).map(|item| Value::text(format!("{item:06}"))));
        let inputs = Fields::from([(Name::from("items"), items)]);
        let tokens = |amount| Usage::from([(Name::from("tokens"), amount)]);
        let terms = Terms { limits: tokens(limit), reserve: tokens(10), ..Terms::default() };
        let mut large = Large { run: Run::new(library), open: Vec::new(), answer, clock: 1 };
        large.send(Event::Open { protocol: Name::from(protocol), inputs, terms, adopt: None });
        large
    }

    fn send(&mut self, event: Event) -> Decision {
        self.clock += 1;
        let decision = self.run.step(&Input { at: self.clock, event });
        assert_eq!(decision.refusal, None);
        self.open.extend(decision.start.iter().map(|action| (action.instance, action.id)));
        decision
    }

    fn done(&self, index: usize) -> Event {
        let (instance, action) = self.open[index];
        let usage = Some(Usage::from([(Name::from("tokens"), 1)]));
        Event::Outcome { instance, action, outcome: Outcome::Done(self.answer.clone()), usage }
    }

    /// Answers so many of what is open, and tells how long one of them takes.
    fn answer(&mut self, count: usize) -> Duration {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let event = self.done(0);
            self.open.swap_remove(0);
            let start = Instant::now();
            self.send(event);
            self.run.next_due();
            times.push(start.elapsed());
        }
        median(times)
    }

    /// How long something that changes nothing takes.
    fn look(&self, event: &Event) -> Duration {
        let input = Input { at: self.clock + 1, event: event.clone() };
        let times = (0..100).map(|_| {
            let start = Instant::now();
            let decision = self.run.decide(&input);
            let time = start.elapsed();
            drop(decision);
            time
        });
        median(times.collect())
    }
}

/// The plainest answer of the agent.
fn observed(library: &std::sync::Arc<Library>) -> Value {
    let program = library.program("leaf").unwrap();
    plain(&program.state("WORK").unwrap().node(0).unwrap().calls[0].answer)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn about_equal(what: &str, few: Duration, many: Duration) {
    assert!(many < few * MOST + Duration::from_micros(50), "{what}: {few:?} among few, {many:?} among many");
}

#[test]
fn an_item_costs_the_same_among_many() {
    let time = |items: usize, limit: u64| {
        let mut large = Large::open("fan", items, limit);
        let time = large.answer(items);
        assert_eq!(large.run.end(), Some(End::Complete));
        time
    };
    about_equal("all at work", time(FEW, u64::MAX), time(MANY, u64::MAX));
    about_equal("most held", time(FEW, FEW as u64 + 50), time(MANY, MANY as u64 + 50));
}

#[test]
fn a_child_costs_the_same_among_many() {
    let time = |items: usize| {
        let mut large = Large::open("tree", items, u64::MAX);
        let time = large.answer(items);
        assert_eq!(large.run.end(), Some(End::Complete));
        time
    };
    about_equal("a child", time(FEW), time(MANY));
}

#[test]
fn who_has_ended_costs_nothing() {
    let left = 3;
    let run = |items: usize| {
        let mut large = Large::open("tree", items, u64::MAX);
        large.answer(items - left);
        let (instance, action) = large.open[0];
        let until = large.clock + 1000;
        let outcome = Outcome::Outage { service: "model".to_owned(), until };
        large.send(Event::Outcome { instance, action, outcome, usage: Some(Usage::new()) });
        assert_eq!(large.run.live().count(), left + 1);
        assert!(large.run.suspended().eq([(instance, action, "model", until)]));
        assert_eq!(large.run.next_due(), Some(until));
        large
    };
    let (few, many) = (run(FEW), run(MANY));
    let (by, reason) = ("ann".to_owned(), "enough".to_owned());
    let raise = Event::Raise { instance: ROOT, meter: Name::from("tokens"), limit: 9, by, reason };
    for (what, one, two) in [
        ("a tick", Event::Tick, Event::Tick),
        ("a recovery", Event::Recover, Event::Recover),
        ("a raise", raise.clone(), raise),
        ("an outcome", few.done(1), many.done(1)),
    ] {
        about_equal(what, few.look(&one), many.look(&two));
    }
}

#[test]
fn a_large_run_keeps_its_index() {
    let mut large = Large::open("tree", FEW, 200);
    assert_eq!(large.run.live().count(), FEW + 1);
    while !large.open.is_empty() {
        if large.open.len().is_multiple_of(5) {
            indexed(&large.run, large.clock);
        }
        large.answer(1);
    }
    let held: Vec<_> = large.run.live().map(ftl_core::run::Instance::standing).collect();
    assert_eq!(held.len(), 1 + FEW - 191, "191 agents used one token each, and 10 are not left");
    assert!(held[1..].iter().all(|standing| *standing == Standing::Held));
    assert_eq!((large.run.end(), large.run.next_due()), (None, None));
}
