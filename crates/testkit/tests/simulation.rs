//! The simulation over many seeds: nothing may be found, and the same seed writes the same bytes.
//!
//! `FTL_SEEDS=N` says how many seeds, `FTL_FIRST=N` which is the first, `FTL_SEED=N` replays one and
//! prints what happened. Seeds that failed once stand in `seeds.txt` and always run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ftl_testkit::sim::{Counts, Options, Sabotage, simulate};

/// How many seeds run unless somebody says otherwise.
const SEEDS: u64 = 300;

/// After so many seeds that found something no more are tried.
const MAX_TOLD: usize = 20;

/// Seeds that failed once, one per line; what stands behind `#` tells why.
const FAILED_ONCE: &str = include_str!("../seeds.txt");

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn failed_once() -> Vec<u64> {
    let lines = FAILED_ONCE.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(|line| line.parse().expect("seeds.txt has numbers")).collect()
}

/// Runs a seed twice and compares every byte.
fn run(seed: u64) -> Result<(u64, Counts), String> {
    let once = || simulate(seed, Options::default()).map_err(|found| found.to_string());
    let (first, second) = (once()?, once()?);
    if first == second {
        Ok((first.steps, first.counts))
    } else {
        Err(format!("seed {seed}: two runs of it differ"))
    }
}

/// What many seeds came to.
#[derive(Default)]
struct Tally {
    steps: u64,
    counts: Counts,
    found: Vec<String>,
}

/// Runs seeds on all processors; each simulation has one thread of its own.
fn run_all(seeds: &[u64]) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst)) {
            let ran = run(*seed);
            let mut tally = tally.lock().unwrap();
            match ran {
                Ok((steps, counts)) => {
                    tally.steps += steps;
                    tally.counts.add(&counts);
                }
                Err(message) => tally.found.push(message),
            }
            if tally.found.len() >= MAX_TOLD {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    tally.into_inner().unwrap()
}

fn replay(seed: u64) {
    let told = simulate(seed, Options { trace: true, ..Options::default() });
    let (trace, message) = match &told {
        Ok(ended) => (&ended.trace, format!("seed {seed}: nothing found; {:?}", ended.counts)),
        Err(found) => (&found.trace, found.to_string()),
    };
    trace.iter().for_each(|line| println!("{line}"));
    println!("{message}");
    assert!(told.is_ok(), "{message}");
}

#[test]
fn no_seed_finds_anything() {
    if let Some(seed) = number("FTL_SEED") {
        return replay(seed);
    }
    let began = Instant::now();
    let first = number("FTL_FIRST").unwrap_or(0);
    let seeds = number("FTL_SEEDS").unwrap_or(SEEDS);
    let all: Vec<u64> = failed_once().into_iter().chain(first..first + seeds).collect();
    let Tally { steps, counts, mut found } = run_all(&all);
    found.sort();
    let hint = "replay one: FTL_SEED=… just simulate; keep it: add it to crates/testkit/seeds.txt";
    assert!(found.is_empty(), "{}\n{hint}", found.join("\n"));
    println!("{seeds} seeds, {steps} steps in {:.1} s: {counts:?}", began.elapsed().as_secs_f64());
    // A simulation in which nothing happens finds nothing.
    if seeds >= SEEDS {
        let Counts { kills, stops, takeovers, fenced, faults, orders, late, outages, .. } = counts;
        for count in [kills, stops, takeovers, fenced, faults, orders, late, outages] {
            assert!(count > seeds / 20, "too little happens: {counts:?}");
        }
        assert!(counts.given_up * 4 < seeds, "too many runs have to be stopped: {counts:?}");
    }
}

/// Each deliberate fault is found by its oracle in some seed.
#[test]
fn the_oracles_can_fail() {
    for sabotage in Sabotage::ALL {
        let options = Options { sabotage: Some(sabotage), trace: false };
        let wanted = match sabotage {
            Sabotage::ActBeforeAppend => "durable: ",
            Sabotage::ChangeEntry => "replay: ",
            Sabotage::LoseOrder => "orders: ",
            Sabotage::IgnoreFence => "durable: ",
            Sabotage::DoTwice => "effects: ",
            Sabotage::DropCharge => "charges: ",
            Sabotage::SwallowReport => "settles: ",
        };
        let mut messages = Vec::new();
        let found = (0..400).any(|seed| match simulate(seed, options) {
            Ok(_) => false,
            Err(found) => {
                messages.push(found.to_string());
                found.message.starts_with(wanted)
            }
        });
        assert!(found, "{sabotage:?} was not found as `{wanted}`: {messages:#?}");
    }
}
