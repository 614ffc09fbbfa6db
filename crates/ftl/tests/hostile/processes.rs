//! Finding 6: everything that ftl starts ends with it, git too; and git is never given what it cannot chew.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::pruning::{GO, campaign, run_of};
use crate::support::{Dir, Started, is_alive, until, within_two_seconds};
use crate::tally::{Tally, tries};

/// A git that does not end when it is to do this, with a child that does not either: `busy` names both.
fn slow_git(dir: &Dir, word: &str) {
    let found = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" {word} \"*)\n\
         sleep 600 &\necho \"$$ $!\" > \"{busy}.new\"\nmv \"{busy}.new\" \"{busy}\"\nwait;;\nesac\n\
         exec {real} \"$@\"\n",
        busy = dir.path(".git/busy").display()
    );
    let file = dir.path("settings/bin/git");
    dir.write("settings/bin/git", script);
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts a campaign with that git in front of the others. It stands outside of where agents write.
fn start(dir: &Dir, outside: &Dir) -> Started {
    let path = format!("{}:{}", outside.path("settings/bin").display(), std::env::var("PATH").unwrap());
    let mut command = dir.command(&GO);
    command.env("PATH", path);
    dir.start_command(command)
}

/// The processes that the slow git has named, once it is at work.
fn busy(outside: &Dir) -> Vec<i32> {
    let file = outside.path(".git/busy");
    until("git is busy", || file.exists());
    fs::read_to_string(&file).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn git_ends_with_ftl_however_ftl_ends() {
    let mut tally = Tally::of("no git outlives ftl: killed, terminated, interrupted");
    let words = ["update-index", "write-tree", "read-tree", "cat-file"];
    for number in 0..tries(1) * 3 {
        let (dir, outside) = (campaign("true"), Dir::new());
        slow_git(&outside, words[number % words.len()]);
        let started = start(&dir, &outside);
        let pids = busy(&outside);
        let signal = [Signal::KILL, Signal::TERM, Signal::INT][number % 3];
        within_two_seconds(|| {
            started.signal(signal);
            let deadline = Instant::now() + Duration::from_secs(10);
            while pids.iter().any(|pid| is_alive(*pid)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let alive: Vec<&i32> = pids.iter().filter(|pid| is_alive(**pid)).collect();
        tally.count((!alive.is_empty()).then(|| format!("{signal:?}: {alive:?} of {pids:?} live on")));
        for pid in alive {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        started.ended();
        // It goes on with a git that works.
        dir.ftl(&["resume"]).code(0);
    }
    tally.close();
}

#[test]
fn a_git_that_outlived_even_its_guard_is_ended_by_the_next_command() {
    let (dir, outside) = (campaign("true"), Dir::new());
    slow_git(&outside, "update-index");
    let started = start(&dir, &outside);
    let pids = busy(&outside);
    let guards: Vec<i32> = guards_of(started.pid());
    assert_eq!(guards.len(), 1, "one guard for all gits");
    for pid in [guards[0], started.pid()] {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    started.ended();
    // The guard of any other `ftl` on the machine may end them first.
    dir.ftl(&["resume"]).code(0);
    until("they have ended", || pids.iter().all(|pid| !is_alive(*pid)));
}

/// The guards of gits that a process has started.
fn guards_of(parent: i32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let above: i32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        (above == parent && words.contains("__guard\0gits")).then_some(pid)
    });
    processes.collect()
}

#[test]
fn a_file_that_is_too_large_for_git_is_named_at_once_and_stays() {
    let dir = campaign("truncate -s 5G huge.bin");
    let began = Instant::now();
    let ended = dir.ftl(&GO).code(3);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let said = ended.says(&["`huge.bin` has 5120 MiB", "512 MiB at most", ".gitignore"]);
    let run = run_of(&dir);
    let left = dir.path(&format!(".ftl/worktrees/{run}-1/huge.bin"));
    assert!(left.exists(), "work that is too large is not deleted: {said:#?}");
    // One that git ignores is nobody's concern.
    let dir = campaign("echo huge.bin >> .gitignore && truncate -s 5G huge.bin && git add .gitignore");
    let json = dir.ftl(&GO);
    assert!(!json.out.contains("huge.bin` has"), "{json:#?}");
}
