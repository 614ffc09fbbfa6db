//! Interrupting: everything is put away, nothing is left running, and `ftl resume` goes on.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::support::{Dir, Started, is_alive, until, within_two_seconds};

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
        driving.signal(signal);
        let ended = within_two_seconds(|| {
            let ended = driving.ended();
            until("nothing is left running", || pids.iter().all(|pid| !is_alive(*pid)));
            ended
        });
        ended.code(130).says(&["interrupted in START", &format!("hint: `ftl resume {run}` goes on")]);
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

/// More lines than a pipe and the queue before it hold, and then a command.
const TALKATIVE: &str = "LIMIT: rounds = 7000 ELSE WORK\nSTATE: TALK\n  PAY: rounds\n  \
    EMIT: \"so many words that nobody reads: {rounds.left} more\"\n  GOTO: TALK\n\
    STATE: WORK\n  DO: sh \"touch began; until [ -e go ]; do sleep 0.05; done\"\n  RETURN: complete\n";

/// A run whose standard output nobody reads.
fn unread(args: &[&str]) -> (Dir, Child) {
    let dir = Dir::new();
    dir.protocol("talkative", TALKATIVE);
    let mut command = dir.command(args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command runs", || dir.path("began").exists());
    (dir, child)
}

fn read(mut stream: impl std::io::Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_reader_that_does_not_read_keeps_no_run_from_being_stopped() {
    for args in [&["run", "talkative"][..], &["run", "talkative", "--json"]] {
        let (dir, mut child) = unread(args);
        let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        let ended = within_two_seconds(|| child.wait().unwrap());
        assert_eq!(ended.code(), Some(130));
        assert_eq!(dir.status(&run)["standing"], "interrupted");
        let (out, err) = (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
        if args.contains(&"--json") {
            // Nothing was printed before, so there was room for the answer.
            assert_eq!(
                (
                    serde_json::from_str::<serde_json::Value>(&out).unwrap()["interrupted"].clone(),
                    err.as_str()
                ),
                (true.into(), "")
            );
        } else {
            // The answer went where there was room for it.
            let hint = format!("interrupted in WORK\nhint: `ftl resume {run}` goes on\n");
            assert!(err.contains(&hint) && err.contains("error: nobody reads standard output"), "{err}");
            assert!(!out.contains("interrupted in"), "{out}");
        }
    }
}

#[test]
fn what_a_slow_reader_misses_is_counted_and_the_result_comes() {
    let (dir, mut child) = unread(&["run", "talkative"]);
    dir.write("go", "");
    // It goes on to its end although nobody reads.
    until("the run has ended", || dir.ftl(&["status", "--json"]).json()["runs"][0]["standing"] == "complete");
    let out = read(child.stdout.take().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let missing: usize = out
        .lines()
        .filter_map(|line| line.strip_prefix("… ")?.split(' ').next()?.parse::<usize>().ok())
        .sum();
    let shown = out.lines().filter(|line| !line.starts_with("… ")).count();
    // Into a file everything goes, so it tells how many lines there are.
    let whole = dir.start(&["run", "talkative"]).ended().code(0).out;
    assert!(!whole.contains("… ") && missing > 0, "{missing}");
    assert_eq!(shown + missing, whole.lines().count());
    assert!(out.ends_with(" complete in WORK\n"), "{}", &out[out.len() - 200..]);
}
