//! Walls that are wrong or jump: times in a journal never go back, and nobody waits longer or
//! shorter than was said.

use std::time::{Duration, Instant};

use ftl_testkit::faults::{Fault, Faults};

use crate::oracle::{Haul, facts, in_order, only_run};
use crate::stage::{HAUL, Running, STORE, Stage, printed};

const DAY: i64 = 86_400_000;
const TEN_YEARS: i64 = 3_652 * DAY;

#[test]
fn a_wall_that_is_wrong_or_jumps_changes_nothing() {
    let haul = Haul::unharmed();
    for (millis, percent) in [(-DAY, 0), (TEN_YEARS, 0), (-DAY, 50), (TEN_YEARS, 50)] {
        let stage = Stage::new();
        stage.faulty(&Faults::of(STORE).clock(millis, haul.call_at(percent)), &HAUL).code(0);
        haul.judge(&stage, &only_run(&stage));
    }
}

#[test]
fn a_wall_that_jumps_between_two_owners_changes_nothing() {
    let haul = Haul::unharmed();
    for (first, second) in [(0, -DAY), (TEN_YEARS, -DAY), (-DAY, 0), (0, TEN_YEARS)] {
        let stage = Stage::new();
        // Late enough that no time-out is still running.
        let killed = Faults::of(STORE).clock(first, 0).at(haul.call_at(60), Fault::KilledAfter);
        assert!(stage.faulty(&killed, &HAUL).is_killed());
        let run = only_run(&stage);
        assert_eq!(stage.status(&run)["state"], "CARRY");
        stage.faulty(&Faults::of(STORE).clock(second, 0), &["resume", &run]).code(0);
        haul.judge(&stage, &run);
    }
}

/// An agent whose service is out the first time it is asked.
const OUTAGE: &str = "[[scene]]
role = \"coder\"
[[scene.step]]
silent = [\"tokens\", \"money\", \"turns\"]
command = \"test -e tried || { touch tried; echo model >&2; exit 75; }; echo '{\\\"text\\\": \\\"x\\\"}'\"
";

/// The first wait for a service is a second, give or take a fifth.
const FIRST_WAIT: Duration = Duration::from_millis(800);

#[test]
fn what_is_suspended_is_asked_again_after_its_real_time() {
    let work = "clerks=[{\"name\":\"cy\",\"job\":\"work\"}]";
    // The wall jumps while the run waits, by the first process or by the one that takes it over.
    for (first, second) in [((TEN_YEARS, 120), None), ((-DAY, 120), None), ((0, 0), Some(-DAY))] {
        let stage = Stage::new();
        stage.write("outage.toml", OUTAGE);
        let mut command = stage.command(&["run", "desk", work, "--script", "outage.toml"]);
        Faults::of(STORE).clock(first.0, first.1).on(&mut command).unwrap();
        let mut running = Running::start(command);
        let mut suspended = Instant::now();
        if let Some(millis) = second {
            stage.until("it is suspended", |_| running.read_output().contains("suspended"));
            let run = printed(&running.read_output()).unwrap();
            assert!(running.kill().is_killed());
            suspended = Instant::now();
            stage.faulty(&Faults::of(STORE).clock(millis, 0), &["resume", &run]).code(0);
        } else {
            running.end().code(0);
        }
        let waited = suspended.elapsed();
        assert!(waited < Duration::from_secs(60), "{waited:?}");
        let journal = stage.journal(&only_run(&stage));
        in_order(&journal);
        let one = facts(&journal, "suspended").next().expect("it was suspended");
        let again = facts(&journal, "resumed").next().expect("it was asked again");
        let passed = again["at"].as_u64().unwrap() - one["at"].as_u64().unwrap();
        assert!(passed >= FIRST_WAIT.as_millis() as u64, "asked again after {passed} ms");
        assert!(again["at"].as_u64() >= one["until"].as_u64(), "{one} {again}");
        if second.is_none() {
            assert!(waited >= FIRST_WAIT, "{waited:?}");
        }
    }
}
