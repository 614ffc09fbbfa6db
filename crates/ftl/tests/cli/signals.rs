//! Interrupting: everything is put away, nothing is left running, and `ftl resume` goes on.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Dir, Started, is_alive, until};

/// Far below what the command would take, far above what a busy machine needs.
const SOON: Duration = Duration::from_secs(20);

/// A command that refuses to end, with a child that has run away from it.
const STUBBORN: &str = "STATE: START\n  DO: out = sh \"\
    [ -e again ] && exit 0; trap '' TERM INT HUP; echo $$ > one; \
    setsid sh -c 'trap : TERM INT HUP; echo $$ > two; while :; do sleep 1; done' & \
    until [ -s two ]; do sleep 0.05; done; touch began; while :; do sleep 1; done\"\n  RETURN: complete\n";

struct Stubborn {
    dir: Dir,
    driving: Started,
    pids: [i32; 2],
    run: String,
}

fn stubborn() -> Stubborn {
    let dir = Dir::new();
    dir.protocol("stubborn", STUBBORN);
    let driving = dir.start(&["run", "stubborn"]);
    until("the command runs", || dir.path("began").exists());
    let pid = |name: &str| fs::read_to_string(dir.path(name)).unwrap().trim().parse().unwrap();
    let pids = [pid("one"), pid("two")];
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    Stubborn { dir, driving, pids, run }
}

/// It was interrupted: nothing lives, nothing failed, and it goes on to its end.
fn goes_on(dir: &Dir, run: &str, pids: [i32; 2]) {
    until("nothing is left running", || pids.iter().all(|pid| !is_alive(*pid)));
    let shown = dir.status(run);
    assert_eq!((&shown["standing"], &shown["owner"]), (&"interrupted".into(), &serde_json::Value::Null));
    dir.ftl(&["status"]).code(0).says(&["interrupted", &format!("ftl resume {run}")]);
    dir.ftl(&["why", run]).code(0).says(&[&format!("ftl resume {run}")]);
    dir.write("again", "");
    dir.ftl(&["resume"]).code(0).says(&["complete in START"]);
    let burned = |entry: &serde_json::Value| entry["fact"] == "paid" || entry["fact"] == "held";
    assert!(!dir.entries(run).iter().any(burned), "{:#?}", dir.entries(run));
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
}

#[test]
fn an_interrupted_run_puts_everything_away_and_goes_on_later() {
    for signal in [Signal::INT, Signal::TERM] {
        let Stubborn { dir, driving, pids, run } = stubborn();
        let began = Instant::now();
        driving.signal(signal);
        driving
            .ended()
            .code(130)
            .says(&["interrupted in START", &format!("hint: `ftl resume {run}` goes on")]);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let last = dir.entries(&run).pop().unwrap();
        assert_eq!((&last["fact"], &last["service"]), (&"suspended".into(), &"ftl".into()));
        goes_on(&dir, &run, pids);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let Stubborn { dir, driving, pids, run } = stubborn();
    driving.signal(Signal::INT);
    driving.signal(Signal::INT);
    driving.ended().code(130);
    goes_on(&dir, &run, pids);
}

#[test]
fn a_killed_run_is_taken_over() {
    let Stubborn { dir, driving, pids, run } = stubborn();
    driving.signal(Signal::KILL);
    driving.ended().code(-9);
    goes_on(&dir, &run, pids);
}

#[test]
fn an_interrupted_answer_says_so() {
    let dir = Dir::new();
    let text = "STATE: START\n  ASK: go = \"Go?\" choices=yes\n  DO: sh \"touch began; sleep 300\"\n  RETURN: complete go={go}\n";
    dir.protocol("slow", text);
    let (run, _) = dir.run(&["slow"]);
    let answering = dir.start(&["answer", &run, "yes", "--json"]);
    until("the command runs", || dir.path("began").exists());
    answering.signal(Signal::INT);
    let json = answering.ended().code(130).json();
    assert_eq!(json["interrupted"], true);
    assert_eq!(dir.status(&run)["standing"], "interrupted");
}
