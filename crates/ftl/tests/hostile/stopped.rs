//! Finding 10: a stopped driver stops nobody.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ftl_needs::needs;
use ftl_testkit::dice::Dice;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::json;

use crate::inside::like;
use crate::support::{Dir, Started, until};
use crate::tally::{Tally, seed, tries};

const FTL: &str = env!("CARGO_BIN_EXE_ftl");

/// A run that writes its journal without a pause.
const BUSY: &str = "LIMIT: rounds = 900000 ELSE HOLD\nSTATE: START\n  PAY: rounds\n  EMIT: \"on it goes\"\n  \
    DO: out = sh \"true\"\n  IF: out.stdout == \"over\" → RETURN complete\n  GOTO: START\n";

/// A run that waits for a person.
const ASK: &str = "INPUT: objective\nSTATE: START\n  ASK: reply = \"Good?\" choices=yes|no\n  RETURN: complete said={reply}\n";

const LESSON: &str =
    r#"{"name":"jam","trigger":"the frobnicator is jammed again","fix":"unjam it","cost":500}"#;

/// Whether somebody holds the lock of a file.
fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// Stops a process in a moment in which it holds a lock.
fn stop_with(driver: &Started, lock: &Path) {
    let mut dice = Dice::new(seed());
    until("the driver is stopped with the lock in its hand", || {
        std::thread::sleep(Duration::from_micros(dice.below(3000)));
        driver.signal(Signal::STOP);
        until("it is stopped", || state_of(driver.pid()) == Some('T'));
        let held = is_held(lock);
        if !held {
            driver.signal(Signal::CONT);
        }
        held
    });
}

fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

fn run_of(dir: &Dir, protocol: &str) -> String {
    let looked = dir.start(&["status", "--json", "--all"]).ended().code(0);
    assert_eq!(looked.err, "", "whoever looks waits for nobody");
    let status = looked.json();
    let runs = status["runs"].as_array().unwrap();
    runs.iter().find(|run| run["protocol"] == protocol).unwrap()["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_driver_that_is_stopped_with_the_stores_lock_keeps_nobody_from_writing() {
    let mut tally = Tally::of("a driver stopped with the store's write lock stops nobody");
    for _ in 0..tries(1) {
        let dir = Dir::new();
        dir.protocol("busy", BUSY).protocol("ask", ASK);
        let (ask, _) = dir.run(&["ask", "objective=x"]);
        let driver = dir.start(&["run", "busy"]);
        until("the run is at work", || dir.count("SELECT count(*) FROM entries") > 20);
        stop_with(&driver, &dir.path(".ftl/store/write.lock"));
        let busy = run_of(&dir, "busy");
        let began = Instant::now();
        let commands = [
            dir.start(&["memory", "add-failure", "--json", LESSON]),
            dir.start(&["answer", &ask, "yes", "--by", "M"]),
        ];
        let taker = dir.start(&["resume", &busy, "--by", "M"]);
        // Whoever looks does not wait.
        dir.start(&["status", "--json"]).ended().code(0);
        dir.start(&["log", &busy, "--json"]).ended().code(0);
        let looked = began.elapsed();
        tally.count((looked > Duration::from_secs(5)).then(|| format!("looking took {looked:?}")));
        let said = format!("held by process {} (ftl run busy), which is stopped", driver.pid());
        for command in &commands {
            until("it says for whom it waits", || command.err().contains(&said));
            let after = began.elapsed();
            tally.count((after > Duration::from_secs(10)).then(|| format!("it said so after {after:?}")));
        }
        let mut told = String::new();
        for command in commands {
            let ended = command.ended();
            tally.count((ended.code != 0).then(|| format!("{ended:?}")));
            told.push_str(&ended.err);
        }
        until("somebody else drives the run", || {
            let owner = dir.status(&busy)["owner"]["pid"].as_i64();
            owner == Some(i64::from(taker.pid()))
        });
        told.push_str(&taker.err());
        let named = told.contains(&format!("process {} ", driver.pid())) && told.contains("it was ended");
        tally.count((!named).then(|| format!("nobody said that the driver was ended: {told}")));
        let took = began.elapsed();
        tally.count((took < Duration::from_secs(14)).then(|| format!("it was ended after {took:?}")));
        let ended = driver.ended();
        tally.count((ended.code != -9).then(|| format!("the driver was not ended: {ended:?}")));
        dir.ftl(&["audit", "verify"]).code(0);
    }
    tally.close();
}

#[needs(namespaces)]
#[test]
fn a_holder_of_another_namespace_is_named_and_lives() {
    let dir = Dir::new();
    dir.protocol("busy", BUSY).protocol("ask", ASK);
    dir.run(&["ask", "objective=x"]);
    let mut command = Command::new("unshare");
    command.args(["-Urpf", "--kill-child", "--mount-proc", FTL]);
    let outer = dir.start_command(like(&dir, command, &["run", "busy"]));
    until("the run is at work", || dir.count("SELECT count(*) FROM entries") > 20);
    let inner = fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.pid())).unwrap();
    let driver = Other(inner.trim().parse().unwrap());
    let mut dice = Dice::new(seed());
    until("the driver is stopped with the lock in its hand", || {
        std::thread::sleep(Duration::from_micros(dice.below(3000)));
        driver.signal(Signal::STOP);
        until("it is stopped", || state_of(driver.0) == Some('T'));
        let held = is_held(&dir.path(".ftl/store/write.lock"));
        if !held {
            driver.signal(Signal::CONT);
        }
        held
    });
    let waiting = dir.start(&["memory", "add-failure", "--json", LESSON]);
    until("it says for whom it waits", || waiting.err().contains("of another pid namespace"));
    assert_eq!(state_of(driver.0), Some('T'), "{}", waiting.err());
    driver.signal(Signal::CONT);
    waiting.ended().code(0);
}

/// A process that is not a child of the test.
struct Other(i32);

impl Other {
    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(self.0).unwrap(), signal).unwrap();
    }
}

/// A campaign of four tasks that nobody waits for.
fn campaign() -> Dir {
    let dir = Dir::repository();
    let task = |number: usize| {
        let file = format!("{number}.txt");
        json!({ "seq": format!("{number:03}"), "slug": format!("t{number}"), "delta": [file],
            "verify": format!("grep -q done {file}"), "budget": 5, "depends": [] })
    };
    // The agents take their time: nobody must be through before the driver is stopped.
    let scene = |number: usize| {
        format!(
            "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"{number:03}-t{number}\"\n[[scene.step]]\ndelay = 1500\ncalls = [\
             {{ tool = \"write\", path = \"{number}.txt\", content = \"done\\n\" }}]\n\
             [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
        )
    };
    let plans = "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = { approach = \"write it\" }\n";
    let bound = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nbuilder = \"play\"\nplanner = \"play\"\n";
    for number in 1..=4 {
        dir.write(&format!("{number}.txt"), "to do\n");
    }
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let plan = json!({ "objective": "all is done", "tasks": (1..=4).map(task).collect::<Vec<_>>() });
    let scenes: String = (1..=4).map(scene).collect();
    dir.write("plan.json", plan.to_string())
        .write("ftl.toml", bound)
        .write("play.toml", format!("{plans}{scenes}"));
    fs::write(dir.path(".git/info/exclude"), "plan.json\nftl.toml\nplay.toml\n.out-*\n.err-*\n/.ftl/\n")
        .unwrap();
    dir
}

/// Everything that a run makes in git: worktrees, what is known of them, and refs.
fn made_in_git(dir: &Dir) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for folder in [".ftl/worktrees", ".ftl/store/git/worktrees", ".git/worktrees"] {
        let entries = fs::read_dir(dir.path(folder)).into_iter().flatten();
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found.extend(dir.git(&["for-each-ref", "--format=%(refname) %(objectname)"]).lines().map(PathBuf::from));
    found
}

/// Takes a run away from whoever drives it, as `ftl resume` does after fifteen seconds of silence: the epoch
/// first, then the fence.
fn take_away(dir: &Dir, run: &str) {
    let store = dir.database();
    let words = "UPDATE runs SET epoch = epoch + 1, owner = '00000000deadbeef' WHERE name = ?1";
    assert_eq!(store.execute(words, [run]).unwrap(), 1);
    let epoch: i64 =
        store.query_row("SELECT epoch FROM runs WHERE name = ?1", [run], |row| row.get(0)).unwrap();
    dir.write(&format!(".ftl/store/fences/{run}"), format!("{epoch:020}"));
}

#[test]
fn a_driver_that_lost_its_run_while_it_slept_makes_nothing_in_git() {
    let mut tally = Tally::of("a driver that slept through its replacement makes nothing in git");
    let mut dice = Dice::new(seed());
    for _ in 0..tries(3) {
        let dir = campaign();
        let driver = dir.start(&["campaign", "run", "all is done", "--plan", "plan.json"]);
        until("the run has its branch", || !runs_in_git(&dir).is_empty());
        let run = runs_in_git(&dir).remove(0);
        // One that is stopped with a lock in its hand is ended by whoever takes over, and never wakes.
        let locks = [".ftl/store/write.lock", ".ftl/store/paper.lock", ".ftl/store/git/locks/repository"];
        let locks: Vec<PathBuf> = locks.iter().map(|name| dir.path(name)).collect();
        let own = dir.path(&format!(".ftl/store/git/locks/{run}"));
        until("it is stopped without a lock", || {
            std::thread::sleep(Duration::from_millis(dice.below(10)));
            driver.signal(Signal::STOP);
            until("it is stopped", || state_of(driver.pid()).is_none_or(|state| "TZ".contains(state)));
            let is_free = !locks.iter().chain([&own]).any(|lock| is_held(lock));
            if !is_free {
                driver.signal(Signal::CONT);
            }
            is_free
        });
        take_away(&dir, &run);
        let before = made_in_git(&dir);
        driver.signal(Signal::CONT);
        let ended = driver.ended();
        let after = made_in_git(&dir);
        let new: Vec<_> = after.difference(&before).collect();
        tally.count((!new.is_empty()).then(|| format!("it made {new:?}: {ended:?}")));
        tally.count((ended.code != 4).then(|| format!("it went on: {ended:?}")));
    }
    tally.close();
}

/// The runs that git knows of.
fn runs_in_git(dir: &Dir) -> Vec<String> {
    let files = fs::read_dir(dir.path(".ftl/store/git/runs")).into_iter().flatten();
    files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_run_taken_from_a_stopped_driver_ends_and_the_sleeper_makes_nothing() {
    let mut tally = Tally::of("a run whose driver is stopped is taken over and ends");
    for _ in 0..tries(1) {
        let dir = campaign();
        let driver = dir.start(&["campaign", "run", "all is done", "--plan", "plan.json"]);
        until("a task is at work", || {
            fs::read_dir(dir.path(".ftl/worktrees")).is_ok_and(|all| all.count() > 0)
        });
        driver.signal(Signal::STOP);
        let run = run_of(&dir, "campaign");
        let taker = dir.start(&["resume", &run, "--by", "M"]).ended();
        tally.count((taker.code != 0).then(|| format!("{taker:?}")));
        let before = made_in_git(&dir);
        let was_ended = taker.err.contains("it was ended");
        // It may have been ended; it was not waited for yet, so the number is still its own.
        Other(driver.pid()).signal(Signal::CONT);
        let slept = driver.ended();
        let right = if was_ended { slept.code == -9 } else { slept.code == 4 };
        tally.count((!right).then(|| format!("{} after {}", slept.code, taker.err)));
        let new: Vec<_> = made_in_git(&dir).difference(&before).cloned().collect();
        tally.count((!new.is_empty()).then(|| format!("the sleeper made {new:?}")));
        dir.ftl(&["audit", "verify"]).code(0);
    }
    tally.close();
}
