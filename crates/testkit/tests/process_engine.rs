//! The engine's own death: a process that drives a run is killed, and nothing of the run stays.
//!
//! These tests have a process of their own: the guards of a killed engine come to it, and a test beside
//! them that loses a guard would end them as orphans before they have removed their files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

#[allow(dead_code, reason = "the stage is shared, and not all of it is needed here")]
#[path = "process/support.rs"]
mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use ftl_process::attempts;

use support::{NOTHING_LEFT_WITHIN, PATIENCE, Stage, wait_until};

/// An engine in a process of its own, once its command has printed its first line.
fn engine(stage: &Stage, words: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ftl-rogue"))
        .args(["engine", env!("CARGO_BIN_EXE_ftl-guard")])
        .arg(stage.folder.path())
        .arg(stage.mark.value())
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the command runs");
    assert!(wait_until(PATIENCE, || !attempts(&stage.attempts()).unwrap().is_empty()));
    (child, out)
}

#[test]
fn when_the_engine_is_killed_its_guards_end_everything() {
    for words in [
        &["say-then-sleep", "x"][..],
        &["ignore-term"],
        &["own-session", "ignore-term"],
        &["leave-and-sleep", "own-session", "twice", "ignore-term"],
        &["chain", "20000"],
    ] {
        let stage = Stage::new();
        let (mut child, _out) = engine(&stage, words);
        assert!(!stage.alive().is_empty(), "{words:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = wait_until(NOTHING_LEFT_WITHIN, || stage.alive().is_empty());
        assert!(gone, "{words:?}: {:?}", stage.alive());
        let removed = wait_until(PATIENCE, || attempts(&stage.attempts()).unwrap().is_empty());
        assert!(removed, "{words:?}: the guard removes its file");
    }
}

#[test]
fn an_engine_that_is_well_tells_how_it_went() {
    let stage = Stage::new();
    let (mut child, mut out) = engine(&stage, &["leave", "own-session", "ignore-term"]);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "Ok(Exited(0))\n");
    assert!(child.wait().unwrap().success());
    stage.assert_nothing_left();
}
