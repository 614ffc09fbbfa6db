//! One live attempt per action: the next one waits until the last one is dead, or sees to it.

use std::time::Duration;

use ftl_process::fence::raise;
use ftl_process::{Cancel, Cut, Fence, How, RunError, Spec, attempts, end_leftover};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PATIENCE, Stage, patient, wait_until};

/// Starts something, and gives it when it has printed its first bytes.
fn started(stage: &Stage, spec: &Spec) -> (std::thread::JoinHandle<(How, Option<Cut>)>, Cancel) {
    let (said, heard) = std::sync::mpsc::channel();
    let (supervisor, spec, cancel) = (stage.supervisor.clone(), spec.clone(), Cancel::new());
    let token = cancel.clone();
    let thread = std::thread::spawn(move || {
        let mut hear = |_, _: &[u8]| said.send(()).unwrap_or_default();
        let ended = supervisor.run(&spec, &token, &mut hear).unwrap();
        (ended.how, ended.cut)
    });
    heard.recv_timeout(PATIENCE).unwrap();
    (thread, cancel)
}

#[test]
fn the_next_attempt_begins_when_the_last_one_is_dead() {
    let stage = Stage::new();
    let limits = ftl_process::ProcessLimits { grace: Duration::from_millis(400), ..patient() };
    let (first, cancel) = started(&stage, &Spec { limits, ..stage.spec(&["ignore-term"]) });
    let alive = stage.alive();
    assert!(!alive.is_empty());
    cancel.cancel();
    // The second one is asked for while the first one has its grace.
    let second = stage.run_spec(&stage.spec(&["exit", "0"])).unwrap();
    assert_eq!(second.how, How::Exited(0));
    let still: Vec<i32> = stage.alive().into_iter().filter(|pid| alive.contains(pid)).collect();
    assert_eq!(still, Vec::<i32>::new(), "the first one was dead before the second one began");
    assert_eq!(first.join().unwrap(), (How::Signalled(9), Some(Cut::Cancelled)));
    stage.assert_nothing_left();
}

#[test]
fn an_old_attempt_that_does_not_go_is_ended() {
    let stage = Stage::new();
    let (first, _cancel) = started(&stage, &stage.spec(&["own-session", "ignore-term"]));
    let second = stage.run_spec(&stage.spec(&["exit", "0"])).unwrap();
    assert_eq!((second.how, second.cut), (How::Exited(0), None));
    assert_eq!(first.join().unwrap(), (How::Unknown, Some(Cut::GuardLost)));
    stage.assert_nothing_left();
}

#[test]
fn a_lock_that_cannot_be_had_is_a_clear_error() {
    let stage = Stage::new();
    let path = stage.attempts().join("run.1");
    let file = std::fs::File::create(&path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = stage.run_spec(&stage.spec(&["exit", "0"])).unwrap_err();
    assert!(matches!(error, RunError::Busy(_)), "{error:?}");
    assert!(error.to_string().contains("still alive") && error.hint().is_some(), "{error}");
    // Waiting for it can be called off.
    let cancel = stage.cancel.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    assert!(matches!(stage.run_spec(&stage.spec(&["exit", "0"])), Err(RunError::Cancelled)));
    thread.join().unwrap();
    std::fs::remove_file(path).unwrap();
    stage.assert_nothing_left();
}

#[test]
fn attempts_are_listed_and_leftovers_ended() {
    let stage = Stage::new();
    assert_eq!(attempts(&stage.attempts()).unwrap(), []);
    let (running, _cancel) = started(&stage, &stage.spec(&["own-session", "ignore-term"]));
    let found = attempts(&stage.attempts()).unwrap();
    assert_eq!(found.len(), 1);
    let record = found[0].record.clone().unwrap();
    assert!(found[0].alive && record.is_alive());
    assert_eq!(record.mark, stage.mark);
    let environment = ftl_process::table::environment(record.guard.pid);
    assert!(environment.is_none_or(|block| block.is_empty()), "what we know is not to be read from a guard");
    let leftover = end_leftover(&found[0]).unwrap();
    assert_eq!((leftover.ended, leftover.left), (2, 0), "the command and its child in another session");
    assert_eq!(running.join().unwrap().1, Some(Cut::GuardLost));
    stage.assert_nothing_left();
}

#[test]
fn what_outlived_its_guard_and_its_engine_is_known_by_its_mark() {
    let stage = Stage::new();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ftl-rogue"))
        .args(["say-then-sleep", "x"])
        .env(stage.mark.name(), stage.mark.value())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(PATIENCE, || !stage.alive().is_empty()));
    // The file of a guard that is gone: nobody holds it, and its number is free.
    let boot = ftl_process::table::boot_id().unwrap();
    let mark = serde_json::to_string(&stage.mark).unwrap();
    let text = format!(r#"{{"pid":2147483647,"start":1,"boot":"{boot}","mark":{mark}}}"#);
    std::fs::write(stage.attempts().join("run.1"), text).unwrap();
    assert_eq!(stage.run_spec(&stage.spec(&["exit", "0"])).unwrap().how, How::Exited(0));
    assert!(!child.wait().unwrap().success());
    stage.assert_nothing_left();
}

#[test]
fn a_forged_file_ends_nobody() {
    let stage = Stage::new();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let who = ftl_process::table::Identity::of(pid).unwrap();
    let boot = ftl_process::table::boot_id().unwrap();
    let path = stage.attempts().join("run.1");
    for mark in [r#"["FTL_ATTEMPT","nobody"]"#, r#"["PATH","/usr/bin:/bin"]"#] {
        let text = format!(r#"{{"pid":{pid},"start":{},"boot":"{boot}","mark":{mark}}}"#, who.start);
        std::fs::write(&path, text).unwrap();
        let found = attempts(&stage.attempts()).unwrap();
        assert!(!found[0].alive);
        assert_eq!(end_leftover(&found[0]).unwrap().ended, 0);
        assert!(who.is_alive(), "a process that is no guard, named by a file");
    }
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn whoever_is_behind_the_fence_starts_nothing_and_ends_nobody() {
    let stage = Stage::new();
    let file = stage.folder.path().join("fence");
    let fence = |epoch| Some(Fence { file: file.clone(), epoch });
    let first = stage.run_spec(&Spec { fence: fence(1), ..stage.spec(&["exit", "0"]) }).unwrap();
    assert_eq!(first.how, How::Exited(0), "no fence stops nobody");
    raise(&file, 2).unwrap();
    let (running, cancel) = started(&stage, &Spec { fence: fence(2), ..stage.spec(&["ignore-term"]) });
    let error = stage.run_spec(&Spec { fence: fence(1), ..stage.spec(&["exit", "0"]) }).unwrap_err();
    assert!(error.to_string().contains("another ftl drives this run now"), "{error}");
    assert!(!stage.alive().is_empty(), "the attempt of the new owner lives");
    cancel.cancel_now();
    assert_eq!(running.join().unwrap().1, Some(Cut::Cancelled));
    std::fs::write(&file, "torn").unwrap();
    let error = stage.run_spec(&Spec { fence: fence(9), ..stage.spec(&["exit", "0"]) }).unwrap_err();
    assert!(error.to_string().contains("is no fence"), "{error}");
    stage.assert_nothing_left();
}
