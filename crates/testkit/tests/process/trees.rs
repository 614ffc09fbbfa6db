//! Children that detach in every way, hold the pipes, ignore signals, or attack their guard.

use std::time::Instant;

use ftl_process::{Cancel, Cut, How, ProcessLimits, StdinWriter};

use crate::support::{PATIENCE, Stage, patient};

/// The rogue ends at once and leaves these behind.
const LEFT_BEHIND: [&[&str]; 8] = [
    &["leave", "say-then-sleep", "x"],
    &["leave", "silent", "say-then-sleep", "x"],
    &["leave", "own-session", "say-then-sleep", "x"],
    &["leave", "twice", "say-then-sleep", "x"],
    &["leave", "own-session", "twice", "own-session", "say-then-sleep", "x"],
    &["leave", "own-session", "ignore-term"],
    &["leave", "silent", "own-session", "twice", "ignore-term"],
    &["leave", "without-mark", "own-session", "twice", "ignore-term"],
];

#[test]
fn what_is_left_behind_is_ended_with_the_command() {
    let stage = Stage::new();
    for words in LEFT_BEHIND {
        let began = Instant::now();
        let ended = stage.run(words, patient());
        assert_eq!((ended.how, ended.cut, ended.left), (How::Exited(0), None, 0), "{words:?}");
        // The process between the two forks may still be ending.
        assert!((1..=2).contains(&ended.swept), "{words:?}: {}", ended.swept);
        assert!(ended.out.text().starts_with("left "), "{words:?}: {}", ended.out.text());
        assert!(began.elapsed() < PATIENCE, "an inherited pipe does not delay the end: {words:?}");
    }
}

#[test]
fn a_tree_that_is_cancelled_goes_as_a_whole() {
    for words in [
        &["own-session", "say-then-sleep", "x"][..],
        &["own-session", "ignore-term"],
        &["without-mark", "own-session", "ignore-term"],
    ] {
        let stage = Stage::new();
        let ended = stage.run_until_heard(words, patient(), Cancel::cancel_now);
        assert_eq!((ended.how, ended.cut), (How::Signalled(9), Some(Cut::Cancelled)), "{words:?}");
    }
}

#[test]
fn a_tree_that_keeps_forking_is_caught() {
    let stage = Stage::new();
    let ended = stage.run_until_heard(&["chain", "20000"], patient(), Cancel::cancel_now);
    assert_eq!((ended.how, ended.cut, ended.left), (How::Signalled(9), Some(Cut::Cancelled), 0));
    let stage = Stage::new();
    let short = ProcessLimits { grace: std::time::Duration::from_millis(100), ..patient() };
    let ended = stage.run_until_heard(&["chain", "20000"], short, Cancel::cancel);
    assert_eq!((ended.cut, ended.left), (Some(Cut::Cancelled), 0));
}

#[test]
fn a_guard_that_is_killed_takes_its_tree_with_it() {
    let stage = Stage::new();
    for words in [
        &["kill-guard", "9"][..],
        &["own-session", "kill-guard", "9"],
        &["without-mark", "own-session", "kill-guard", "9"],
    ] {
        let ended = stage.run(words, patient());
        assert_eq!((ended.how, ended.cut), (How::Unknown, Some(Cut::GuardLost)), "{words:?}");
        assert!(ended.swept >= 1 && ended.left == 0, "{words:?}: {ended:?}");
        assert!(ended.sentence().contains("guard"), "{}", ended.sentence());
    }
}

#[test]
fn a_guard_hears_no_signal_but_the_last() {
    for signal in ["1", "2", "3", "10", "12", "13", "14", "15", "20", "21", "22"] {
        let stage = Stage::new();
        let ended = stage.run_until_heard(&["kill-guard", signal], patient(), Cancel::cancel);
        assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Cancelled)), "signal {signal}");
    }
}

#[test]
fn a_guard_that_was_stopped_is_continued_when_it_is_needed() {
    let stage = Stage::new();
    let ended = stage.run_until_heard(&["kill-guard", "19"], patient(), Cancel::cancel);
    assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Cancelled)));
}

#[test]
fn a_guard_that_is_kept_from_its_work_is_replaced() {
    let stage = Stage::new();
    let ended = stage.run_until_heard(&["keep-stopping"], patient(), Cancel::cancel_now);
    assert_eq!((ended.cut, ended.left), (Some(Cut::Cancelled), 0));
}

#[test]
fn a_guard_lost_in_one_thread_leaves_the_others_alone() {
    let (lost, other) = (Stage::new(), Stage::new());
    let spec = ftl_process::Spec { stdin: ftl_process::Stdin::Open, ..other.spec(&["echo"]) };
    let running = other.supervisor.start(&spec).unwrap();
    let stdin: StdinWriter = running.stdin();
    stdin.write(b"one\n").unwrap();
    let waiting = std::thread::spawn(move || {
        let cancel = Cancel::new();
        running.wait(&cancel, &mut |_, _| {}).map(|ended| (ended.how, ended.out.text()))
    });
    assert_eq!(lost.run(&["kill-guard", "9"], patient()).cut, Some(Cut::GuardLost));
    stdin.write(b"bye\n").unwrap();
    let (how, text) = waiting.join().unwrap().unwrap();
    assert_eq!((how, text.as_str()), (How::Exited(0), "you said one\nyou said bye\n"));
    other.assert_nothing_left();
}

#[test]
fn dropping_what_runs_ends_it() {
    let stage = Stage::new();
    let running = stage.supervisor.start(&stage.spec(&["own-session", "ignore-term"])).unwrap();
    drop(running);
    stage.assert_nothing_left();
}

#[test]
fn whoever_runs_under_a_guard_is_inside_an_agent() {
    let stage = Stage::new();
    let attempts = stage.attempts();
    let attempts = attempts.to_str().unwrap();
    let ended = stage.run(&["lineage"], patient());
    assert_eq!(ended.out.text(), "Some(Mark)\n");
    // Without the mark the guard above is found by its lock, or by its word where it hides its program.
    let ended = stage.run(&["without-mark", "own-session", "lineage", attempts], patient());
    assert!(
        ["Some(Attempt)\n", "Some(Guard)\n"].contains(&ended.out.text().as_str()),
        "{}",
        ended.out.text()
    );
    let words = ["leave", "without-mark", "own-session", "twice", "lineage", attempts];
    let text = stage.run(&words, patient()).out.text();
    // The command itself, which has the mark, may be above it still.
    assert!(text.starts_with("left Some("), "{text}");
}
