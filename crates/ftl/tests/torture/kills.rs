//! Killed anywhere: at calls that change the store, and at any instant.

use std::time::Duration;

use ftl_testkit::faults::{Fault, Faults};

use crate::oracle::{Haul, facts, is_whole};
use crate::stage::{Dice, HAUL, ProcessOutcome, Running, STORE, Stage, each, printed, scale};

/// How often a run is resumed before it is stuck.
const MAX_RESUMES: usize = 4;

/// Where a process is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// At a call that changes the store.
    Call(u64, Fault),
    /// So many milliseconds after its start.
    Instant(u64),
}

/// Where a run is killed, and where the process that takes it over, if it is killed as well.
#[derive(Debug)]
struct Case {
    first: Kill,
    second: Option<Kill>,
}

#[test]
fn killed_at_any_call_it_comes_to_the_same() {
    let haul = Haul::unharmed();
    let calls = haul.calls();
    let points = scale("FTL_KILLS", 40);
    let mut dice = Dice::new(1);
    let cases: Vec<Case> = (0..points)
        .map(|point| {
            let fault = [Fault::KilledBefore, Fault::KilledAfter, Fault::Torn][point as usize % 3];
            let first = Kill::Call(1 + point * calls / points, fault);
            let second = Kill::Call(1 + dice.below(calls / 2), Fault::KilledAfter);
            Case { first, second: (point % 4 == 3).then_some(second) }
        })
        .collect();
    each(&cases, |case| survive(&haul, case));
}

#[test]
fn killed_at_any_instant_it_comes_to_the_same() {
    let haul = Haul::unharmed();
    let mut dice = Dice::new(2);
    let cases: Vec<Case> = (0..scale("FTL_KILLS", 40) / 4)
        .map(|point| {
            let (first, second) = (Kill::Instant(dice.below(600)), Kill::Instant(dice.below(300)));
            Case { first, second: (point % 3 == 2).then_some(second) }
        })
        .collect();
    each(&cases, |case| survive(&haul, case));
}

fn start(stage: &Stage, args: &[&str], kill: Option<Kill>) -> ProcessOutcome {
    match kill {
        None => stage.ftl(args),
        Some(Kill::Call(number, fault)) => stage.faulty(&Faults::of(STORE).at(number, fault), args),
        Some(Kill::Instant(millis)) => {
            Running::start(stage.command(args)).kill_after(Duration::from_millis(millis))
        }
    }
}

/// Kills a run, brings it to its end, and judges it.
fn survive(haul: &Haul, case: &Case) {
    let stage = Stage::new();
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let ended = start(&stage, &HAUL, Some(case.first));
        let run = survivor(&stage, &ended);
        let Some(run) = run else {
            // Nobody was told of a run, and there is none: another one finds nothing in its way.
            let again = start(&stage, &HAUL, None).code(0);
            return haul.judge(&stage, &printed(&again.out).unwrap());
        };
        bring_home(&stage, &run, case.second);
        haul.judge(&stage, &run);
    }));
    if let Err(panic) = told {
        eprintln!("killed at {case:?}");
        std::panic::resume_unwind(panic);
    }
}

/// The run that a killed process has left, if it left one. What it printed is in the journal.
fn survivor(stage: &Stage, ended: &ProcessOutcome) -> Option<String> {
    assert!(ended.is_killed() || ended.code == Some(0), "{ended:#?}");
    let told = printed(&ended.out);
    let run = stage.runs().first().and_then(|run| run["run"].as_str().map(str::to_owned));
    if told.is_some() {
        assert_eq!(run, told, "a run that was printed is there");
    }
    if let Some(run) = &run {
        let moves = ended.out.lines().filter(|line| line.contains(" → ")).count();
        let written = facts(&stage.journal(run), "moved").count();
        assert!(written >= moves, "{moves} moves were told, {written} are in the journal");
        stage.ftl(&["audit", "verify"]).code(0);
    }
    run
}

/// Resumes a run until it has ended, and kills the first who does so if that is wanted.
fn bring_home(stage: &Stage, run: &str, mut kill: Option<Kill>) {
    for _ in 0..MAX_RESUMES {
        let before = stage.journal(run);
        let ended = start(stage, &["resume"], kill.take());
        let after = stage.journal(run);
        assert_eq!(after[..before.len()], before[..], "what was written stays as it was written");
        if !ended.is_killed() {
            ended.code(0);
            return;
        }
    }
    panic!("resumed {MAX_RESUMES} times, and it has not ended");
}

#[test]
fn a_store_that_was_killed_while_it_was_made_is_no_hindrance() {
    let stage = Stage::new();
    let mut number = 1;
    // Each process comes one call further than the one before it, on the same folder.
    loop {
        let ended = stage.faulty(&Faults::of(STORE).at(number, Fault::KilledAfter), &HAUL);
        if !stage.runs().is_empty() || ended.code == Some(0) {
            break;
        }
        number += 1;
    }
    assert!(number > 20, "making a store takes many calls, and {number} is few");
    stage.ftl(&["resume"]).code(0);
    is_whole(&stage);
}
