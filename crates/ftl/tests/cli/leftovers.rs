//! What a killed `ftl` leaves behind: `ftl doctor` finds it and ends it.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::doctor::about;
use crate::support::{Dir, Started, is_alive, until};

/// A command with a child that has run away from it.
const RUNAWAY: &str = "STATE: START\n  DO: sh \"[ -e again ] && exit 0; \
    setsid sh -c 'echo $$ > away; while :; do sleep 1; done' & \
    until [ -s away ]; do sleep 0.05; done; touch began; sleep 300\"\n  RETURN: complete\n";

struct Left {
    dir: Dir,
    driving: Started,
    guard: i32,
    away: i32,
    run: String,
}

/// Ends a process that this test has caused.
struct Victim(i32);

impl Drop for Victim {
    fn drop(&mut self) {
        if is_alive(self.0) {
            send(self.0, Signal::KILL);
        }
    }
}

fn send(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

fn started() -> Left {
    let dir = Dir::new();
    dir.protocol("runaway", RUNAWAY);
    let driving = dir.start(&["run", "runaway"]);
    until("the command runs", || dir.path("began").exists());
    let attempts: Vec<_> = fs::read_dir(dir.path(".ftl/store/attempts")).unwrap().collect();
    let record = fs::read_to_string(attempts[0].as_ref().unwrap().path()).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let guard = i32::try_from(record["pid"].as_i64().unwrap()).unwrap();
    let away = dir.read("away").trim().parse().unwrap();
    let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    Left { dir, driving, guard, away, run }
}

/// Nobody drives the run, the doctor says so, and it goes on to its end.
fn goes_on(dir: &Dir, run: &str) {
    let leases = about(dir, "leases", &[]);
    assert!(leases.contains(&("look".into(), format!("run {run} was interrupted in START"))), "{leases:?}");
    dir.ftl(&["doctor"]).code(0).says(&[&format!("hint: `ftl resume {run}` goes on")]);
    dir.write("again", "");
    dir.ftl(&["resume"]).code(0).says(&["complete"]);
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
}

#[test]
fn a_run_at_work_is_left_alone() {
    let Left { dir, driving, guard, away, run } = started();
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well", "1 run at work", "1 at work"]);
    assert!(is_alive(guard) && is_alive(away));
    assert_eq!(dir.status(&run)["standing"], "running");
    driving.signal(Signal::INT);
    driving.ended().code(130);
}

#[test]
fn an_attempt_whose_owner_was_killed_is_ended() {
    let Left { dir, driving, guard, away, run } = started();
    let _victims = [Victim(guard), Victim(away)];
    // A guard that is stopped cannot notice that its owner is gone.
    send(guard, Signal::STOP);
    driving.signal(Signal::KILL);
    driving.ended().code(-9);
    assert!(is_alive(guard) && is_alive(away));
    let attempts = about(&dir, "attempts", &[]);
    assert!(
        attempts.len() == 1 && attempts[0].0 == "mended" && attempts[0].1.contains("was alive"),
        "{attempts:?}"
    );
    assert!(!is_alive(guard) && !is_alive(away));
    assert_eq!(about(&dir, "attempts", &[])[0].0, "fine");
    goes_on(&dir, &run);
}

#[test]
fn what_a_killed_guard_left_is_ended_by_its_file() {
    let Left { dir, driving, guard, away, run } = started();
    let _victims = [Victim(guard), Victim(away)];
    send(guard, Signal::STOP);
    driving.signal(Signal::KILL);
    driving.ended().code(-9);
    send(guard, Signal::KILL);
    until("the guard is gone", || !is_alive(guard));
    assert!(is_alive(away));
    assert_eq!(about(&dir, "attempts", &[])[0].0, "mended");
    assert!(!is_alive(away));
    goes_on(&dir, &run);
}

#[test]
fn what_a_killed_guard_left_is_ended_by_its_mark() {
    let Left { dir, driving, guard, away, run } = started();
    let _victims = [Victim(guard), Victim(away)];
    send(guard, Signal::STOP);
    driving.signal(Signal::KILL);
    driving.ended().code(-9);
    send(guard, Signal::KILL);
    until("the guard is gone", || !is_alive(guard));
    // Not even a file tells of it any more.
    fs::remove_dir_all(dir.path(".ftl/store/attempts")).unwrap();
    fs::create_dir(dir.path(".ftl/store/attempts")).unwrap();
    let processes = about(&dir, "processes", &[]);
    assert!(processes.len() == 1 && processes[0].0 == "mended", "{processes:?}");
    assert!(processes[0].1.contains(&away.to_string()), "{processes:?}");
    assert!(!is_alive(away));
    assert_eq!(about(&dir, "processes", &[])[0].0, "fine");
    goes_on(&dir, &run);
}

#[test]
fn the_file_of_a_dead_attempt_is_removed() {
    let dir = Dir::new();
    dir.protocol("quick", "STATE: START\n  RETURN: complete\n");
    let (run, _) = dir.run(&["quick"]);
    // Issue 16, item 1: only names that ftl gives itself are removed.
    dir.write(&format!(".ftl/store/attempts/{run}.2.0"), "{ torn");
    dir.write(".ftl/store/attempts/once.00c0ffee00c0ffee", "");
    assert_eq!(about(&dir, "attempts", &[]), [("mended".into(), "2 files of dead attempts removed".into())]);
    assert_eq!(about(&dir, "attempts", &[])[0].0, "fine");
}
