//! Each limit fires on its own, with its own reason, and the ladder from asking to killing holds.

use std::time::{Duration, Instant};

use ftl_process::{Cancel, Cut, Guard, How, ProcessLimits, RunError, Spec, Supervisor};

use crate::support::{PATIENCE, Stage, patient};

const SHORT: Duration = Duration::from_millis(200);

/// In which a command is surely up and has said its first word.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

#[test]
fn a_start_that_takes_too_long_is_cut() {
    let stage = Stage::new();
    let limits = ProcessLimits { startup: Some(SHORT), ..patient() };
    let ended = stage.run(&["slow-start", "60000"], limits);
    assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Startup)));
    assert!(ended.sentence().contains("within 200 ms"), "{}", ended.sentence());
    let in_time = ProcessLimits { startup: Some(PATIENCE), ..patient() };
    assert_eq!(stage.run(&["slow-start", "50"], in_time).cut, None);
}

#[test]
fn silence_is_cut_and_printing_is_not_silence() {
    let stage = Stage::new();
    let limits = ProcessLimits { silence: Some(LONG_ENOUGH), startup: Some(PATIENCE), ..patient() };
    let ended = stage.run(&["say-then-sleep", "hello"], limits);
    assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Silence)));
    assert_eq!(ended.out.text(), "hello\n");
    let patient = ProcessLimits { silence: Some(Duration::from_secs(5)), ..limits };
    let ended = stage.run(&["dots", "12", "50"], patient);
    assert_eq!((ended.how, ended.cut, ended.out.total), (How::Exited(0), None, 12));
}

#[test]
fn printing_dots_for_ever_meets_the_soft_limit() {
    let stage = Stage::new();
    let limits = ProcessLimits { soft: Some(SHORT), silence: Some(PATIENCE), ..patient() };
    let ended = stage.run(&["dots", "6000", "10"], limits);
    assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Soft)));
}

#[test]
fn who_ignores_being_asked_is_killed_after_the_grace() {
    let stage = Stage::new();
    let grace = Duration::from_millis(300);
    let limits = ProcessLimits { soft: Some(LONG_ENOUGH), grace, ..patient() };
    let ended = stage.run(&["ignore-term"], limits);
    assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Soft)));
    assert!(ended.took >= LONG_ENOUGH + grace, "{:?}", ended.took);
    assert_eq!(ended.out.text(), "ignoring\ntold\n");
}

#[test]
fn the_hard_limit_does_not_ask() {
    let stage = Stage::new();
    let limits = ProcessLimits { hard: Some(SHORT), ..patient() };
    for words in [["ignore-term"], ["busy"]] {
        let ended = stage.run(&words, limits);
        assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Hard)), "{words:?}");
    }
    // Asked first, by the soft limit; the grace would be long, but the hard limit comes.
    let both = ProcessLimits { soft: Some(LONG_ENOUGH), hard: Some(LONG_ENOUGH + SHORT), ..patient() };
    let ended = stage.run(&["ignore-term"], both);
    assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Soft)), "the first reason stays");
    assert!(ended.took < PATIENCE);
}

#[test]
fn cancelling_asks_and_then_kills() {
    let stage = Stage::new();
    let ended = stage.run_until_heard(&["say-then-sleep", "x"], patient(), Cancel::cancel);
    assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Cancelled)));
    let stage = Stage::new();
    let short = ProcessLimits { grace: SHORT, ..patient() };
    let ended = stage.run_until_heard(&["ignore-term"], short, Cancel::cancel);
    assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Cancelled)));
}

#[test]
fn cancelling_at_once_does_not_ask() {
    let stage = Stage::new();
    let began = Instant::now();
    let ended = stage.run_until_heard(&["ignore-term"], patient(), Cancel::cancel_now);
    assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Cancelled)));
    assert!(began.elapsed() < PATIENCE, "no grace");

    // Asked first; and at once, when it says that it was told.
    let stage = Stage::new();
    let mut hear = |_, bytes: &[u8]| match bytes.ends_with(b"told\n") {
        true => stage.cancel.cancel_now(),
        false => stage.cancel.cancel(),
    };
    let ended = stage.supervisor.run(&stage.spec(&["ignore-term"]), &stage.cancel, &mut hear).unwrap();
    assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Cancelled)));
    assert!(ended.out.text().starts_with("ignoring\ntold\n"), "{}", ended.out.text());
    stage.assert_nothing_left();
}

#[test]
fn a_guard_that_never_answers_is_given_up() {
    let stage = Stage::new();
    let guard = Guard { program: "/bin/sleep".into(), args: vec!["60".into()] };
    let spool = stage.folder.path().join("spool");
    let supervisor = Supervisor::new(guard, &stage.attempts(), &spool).unwrap();
    let limits = ProcessLimits { launch: SHORT, ..patient() };
    let spec = Spec { limits, ..stage.spec(&["exit", "0"]) };
    let error = supervisor.run(&spec, &stage.cancel, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, RunError::NoAnswer), "{error:?}");
    stage.assert_nothing_left();
}

#[test]
fn waiting_costs_no_time_of_the_processor() {
    let stage = Stage::new();
    let before = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let limits = ProcessLimits { soft: Some(Duration::from_secs(1)), ..patient() };
    stage.run(&["sleep"], limits);
    let after = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let spent = Duration::try_from(after - before).unwrap();
    assert!(spent < Duration::from_millis(400), "the loop must not spin: {spent:?}");
}
