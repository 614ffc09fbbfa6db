//! Figures of the core: decisions, loading, replay, the plan graph. All in memory, one thread.
//!
//! `cargo bench -p ftl-language` prints times and items per second. The aims stand in CONTRIBUTING.md;
//! compare runs on one machine only.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use divan::{Bencher, counter::ItemsCount};
use ftl_core::catalogue::Catalogue;
use ftl_core::plan::{Graph, PlanProgress};
use ftl_core::run::{Entry, Event, Input, Outcome, Run, Terms, Usage};
use ftl_core::value::Value;
use ftl_language::library::{Library, built_in_sources};

fn main() {
    divan::main();
}

/// A coder that is sent back by its tests again and again: the busiest small loop there is.
const LOOP: &str = "PROTOCOL: busy
INPUT: story
TRACK: site
LIMIT: goes = 1000000 ELSE HOLD
STATE: SETUP
  DO: site = worktree.open story={story}
  GOTO: WORK with feedback=none
STATE: WORK with feedback
  PAY: goes
  DO: Task(coder) step=code story={story} plan={story} feedback={feedback} write={story}
  GOTO: LOOK
STATE: LOOK
  CHECK: tests = tests.run site={site}
  IF: tests.passed → RETURN complete
  GOTO: WORK with feedback={tests.summary}";

const BATCH: usize = 10_000;

struct Busy {
    run: Run,
    journal: Vec<Entry>,
    next: Vec<(ftl_core::run::InstanceId, ftl_core::run::ActionId, bool)>,
    coded: Value,
    red: Value,
    at: u64,
}

impl Busy {
    fn open() -> Busy {
        let library = support::library_with(&[("busy", LOOP)]);
        let mut stage = support::Stage::open_with(library, "busy", r#"{"story":"s"}"#, Terms::default());
        stage.careful = false;
        stage.done("worktree.open", "{}");
        let coded = support::plain(&stage.answer_type(&stage.find("Task(coder)")));
        stage.done("Task(coder)", "{}");
        let red = support::with(
            &support::plain(&stage.answer_type(&stage.find("tests.run"))),
            &support::fields(r#"{"passed":false,"failed":true,"summary":"2 failed"}"#),
        );
        stage.outcome(&stage.find("tests.run"), Outcome::Done(red.clone()));
        let next = stage.waiting.iter().map(|action| (action.instance, action.id, false)).collect();
        Busy { run: stage.run, journal: stage.journal, next, coded, red, at: 1 }
    }

    /// One decision: the open action is answered, and its facts are applied.
    fn step(&mut self, keep: bool) {
        let (instance, action, looking) = self.next.pop().unwrap();
        let value = if looking { self.red.clone() } else { self.coded.clone() };
        self.at += 1;
        let event =
            Event::Outcome { instance, action, outcome: Outcome::Done(value), usage: Some(Usage::new()) };
        let decision = self.run.decide(&Input { at: self.at, event });
        for entry in &decision.entries {
            self.run.apply(entry);
        }
        if keep {
            self.journal.extend(decision.entries);
        }
        self.next.extend(decision.start.iter().map(|action| (action.instance, action.id, !looking)));
    }
}

/// Aim: 500,000 a second on one core. Each one hears an answer, moves, pays or looks, and asks anew.
#[divan::bench]
fn decisions(bencher: Bencher<'_, '_>) {
    let mut busy = Busy::open();
    busy.step(false);
    let (instance, action, _) = *busy.next.last().unwrap();
    let outcome = Outcome::Done(busy.red.clone());
    let input =
        Input { at: 2, event: Event::Outcome { instance, action, outcome, usage: Some(Usage::new()) } };
    assert_eq!(busy.run.decide(&input).entries.len(), 4, "heard, moved, paid, asked");
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            divan::black_box(busy.run.decide(divan::black_box(&input)));
        }
    });
}

/// The same with its facts applied to the run, as a driver does without a journal.
#[divan::bench]
fn decisions_applied(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(Busy::open).bench_local_refs(|busy| {
        for _ in 0..BATCH {
            busy.step(false);
        }
    });
}

/// An action for each of a list.
const FAN: &str = "PROTOCOL: fan
INPUT: items
STATE: WORK
  DO: all = FOR EACH one IN items BY one
    DO: Task(observer)
  RETURN: complete settled={len(all.settled)}";

/// A child for each of a list.
const TREE: &str = "PROTOCOL: tree
INPUT: items
STATE: WORK
  DO: all = FOR EACH one IN items BY one
    DO: done = Run(leaf) name={one}
  RETURN: complete settled={len(all.settled)}";

const LEAF: &str = "PROTOCOL: leaf
INPUT: name
STATE: WORK
  DO: Task(observer)
  RETURN: complete name={name}";

/// A run with as many lines of work or children as there are items.
struct Large {
    run: Run,
    open: Vec<(ftl_core::run::InstanceId, ftl_core::run::ActionId)>,
    answer: Value,
}

impl Large {
    fn new(library: &Arc<Library>) -> Large {
        let program = library.program("leaf").unwrap();
        let answer = support::plain(&program.state("WORK").unwrap().node(0).unwrap().calls[0].answer);
        Large { run: Run::new(library.clone()), open: Vec::new(), answer }
    }

    fn open(&mut self, protocol: &str, items: usize) {
        let items = Value::list((0..items).map(|item| Value::text(format!("{item:06}"))));
        let tokens = |amount| Usage::from([("tokens".into(), amount)]);
        let terms = Terms { limits: tokens(u64::MAX), reserve: tokens(10), ..Terms::default() };
        let (protocol, inputs) = (protocol.into(), [("items".into(), items)].into());
        self.send(Event::Open { protocol, inputs, terms, adopt: None });
    }

    fn send(&mut self, event: Event) {
        let decision = self.run.step(&Input { at: 1, event });
        self.open.extend(decision.start.iter().map(|action| (action.instance, action.id)));
    }

    fn done(&mut self) -> Option<Event> {
        let (instance, action) = self.open.pop()?;
        let outcome = Outcome::Done(self.answer.clone());
        Some(Event::Outcome { instance, action, outcome, usage: Some(Usage::new()) })
    }
}

/// Aim: under 50 ms for 1,000 and under 1 s for 8,000, all of it: asking, and hearing of each.
#[divan::bench(args = [1_000, 8_000], sample_count = 10)]
fn for_each(bencher: Bencher<'_, '_>, items: usize) {
    let library = support::library_with(&[("fan", FAN), ("leaf", LEAF)]);
    bencher.counter(ItemsCount::new(items)).with_inputs(|| Large::new(&library)).bench_local_refs(|large| {
        large.open("fan", items);
        while let Some(event) = large.done() {
            large.send(event);
        }
        assert!(large.run.end().is_some());
    });
}

/// The same with a child for each item.
#[divan::bench(args = [1_000, 8_000], sample_count = 10)]
fn for_each_child(bencher: Bencher<'_, '_>, items: usize) {
    let library = support::library_with(&[("tree", TREE), ("leaf", LEAF)]);
    bencher.counter(ItemsCount::new(items)).with_inputs(|| Large::new(&library)).bench_local_refs(|large| {
        large.open("tree", items);
        while let Some(event) = large.done() {
            large.send(event);
        }
        assert!(large.run.end().is_some());
    });
}

/// Aim: the same whatever has ended before.
#[divan::bench(args = [10, 10_000])]
fn decision_beside_settled(bencher: Bencher<'_, '_>, settled: usize) {
    let library = support::library_with(&[("tree", TREE), ("leaf", LEAF)]);
    let mut large = Large::new(&library);
    large.open("tree", settled + 2);
    for _ in 0..settled {
        let event = large.done().unwrap();
        large.send(event);
    }
    assert_eq!(large.run.live().count(), 3);
    let inputs = [large.done().unwrap(), Event::Tick].map(|event| Input { at: 2, event });
    bencher.counter(ItemsCount::new(2usize)).bench_local(|| {
        inputs.iter().for_each(|input| drop(divan::black_box(large.run.decide(input))));
    });
}

/// Aim: under 10 ms for all five together.
#[divan::bench]
fn load_and_check_five_documents(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(5usize))
        .bench(|| Library::load(built_in_sources(), Catalogue::standard()).is_sound());
}

/// What a task waits for before it starts. Aim: under 1 ms.
#[divan::bench]
fn load_what_a_task_needs(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(2usize)).bench(|| {
        let library = Library::load(built_in_sources(), Catalogue::standard());
        ["task", "builder"].map(|name| library.program(name).is_some())
    });
}

/// Aim: under 300 ms.
#[divan::bench(sample_count = 10)]
fn replay_100_000_facts(bencher: Bencher<'_, '_>) {
    let mut busy = Busy::open();
    while busy.journal.len() < 100_000 {
        busy.step(true);
    }
    busy.journal.truncate(100_000);
    let library = busy.run.programs().clone();
    bencher
        .counter(ItemsCount::new(100_000usize))
        .bench_local(|| Run::replay(Arc::clone(&library), &busy.journal));
}

fn tasks(cycle: bool) -> Vec<(String, Vec<String>)> {
    let mut tasks: Vec<(String, Vec<String>)> = (0u64..100_000)
        .map(|index| {
            let parents = (1..=3).filter_map(|step| index.checked_sub(step * (index % 97 + 1)));
            (index.to_string(), parents.map(|parent| parent.to_string()).collect())
        })
        .collect();
    if cycle {
        tasks[0].1.push("99999".to_owned());
    }
    tasks
}

/// Aim: under 25 ms.
#[divan::bench(sample_count = 10)]
fn ready_set_of_100_000_tasks(bencher: Bencher<'_, '_>) {
    let tasks = tasks(false);
    bencher.counter(ItemsCount::new(100_000usize)).bench_local(|| {
        let graph = Graph::build(&tasks).unwrap();
        PlanProgress::new(Arc::new(graph)).ready().len()
    });
}

/// The same plan with one edge that closes a cycle: refused with its path.
#[divan::bench(sample_count = 10)]
fn cycle_in_100_000_tasks(bencher: Bencher<'_, '_>) {
    let tasks = tasks(true);
    bencher.counter(ItemsCount::new(100_000usize)).bench_local(|| Graph::build(&tasks).is_err());
}

/// A yardstick for this machine: hashing 1 MiB.
#[divan::bench]
fn yardstick_digest_of_1_mib(bencher: Bencher<'_, '_>) {
    let text = "x".repeat(1 << 20);
    bencher.bench(|| ftl_language::source::digest(&text));
}
