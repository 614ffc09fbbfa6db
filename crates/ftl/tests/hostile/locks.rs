//! Finding 7: lock files that a killed git left hold nobody.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::pruning::{GO, amiss, campaign, run_of};
use crate::support::{Dir, is_alive, until};
use crate::tally::{Tally, seed, tries};

/// A git that moves refs and is caught in the middle of it: it has taken the lock of the first ref that it is told,
/// says so in `caught`, and does nothing more.
fn caught_git(outside: &Dir, dir: &Dir) {
    let found = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" update-ref \"*\" --stdin \"*)\n\
         name=$(head -c 60 | tr '\\0' '\\n' | sed -n 's/^update //p' | head -n 1)\n\
         mkdir -p \"{git}/refs/heads/ftl\"\n: > \"{git}/$name.lock\"\n\
         echo \"$name\" > \"{caught}.new\"\nmv \"{caught}.new\" \"{caught}\"\nsleep 600;;\nesac\nexec {real} \"$@\"\n",
        git = dir.path(".git").display(),
        caught = outside.path("caught").display(),
    );
    outside.write("bin/git", script);
    fs::set_permissions(outside.path("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Everything below a process and the process itself, as they are now.
fn tree_of(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let Some(pid) = entry.unwrap().file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut all = vec![root];
    let mut at = 0;
    while let Some(pid) = all.get(at).copied() {
        all.extend(children.remove(&pid).unwrap_or_default());
        at += 1;
    }
    all
}

/// Kills a process and everything below it, nobody being able to start anything meanwhile.
fn kill_tree(root: i32) {
    let mut stopped = Vec::new();
    loop {
        let fresh: Vec<i32> = tree_of(root).into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::STOP));
            stopped.push(pid);
        }
    }
    for pid in stopped {
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// The lock files below our refs.
fn locks(dir: &Dir) -> Vec<PathBuf> {
    let mut folders = vec![dir.path(".git/refs/heads/ftl"), dir.path(".git/refs/ftl")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "lock") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn the_lock_of_a_git_of_ours_that_was_killed_is_removed_by_the_next_resume() {
    let mut tally = Tally::of("a lock of a killed git of ours holds nobody");
    for number in 0..tries(1) * 2 {
        let (dir, outside) = (campaign("true"), Dir::new());
        caught_git(&outside, &dir);
        let path = format!("{}:{}", outside.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = dir.command(&GO);
        command.env("PATH", path);
        let started = dir.start_command(command);
        until("git is caught", || outside.path("caught").exists());
        assert_eq!(locks(&dir).len(), 1);
        if number % 2 == 0 {
            kill_tree(started.pid());
        } else {
            started.signal(Signal::KILL);
        }
        started.ended();
        let resumed = dir.ftl(&["resume"]);
        let left = locks(&dir);
        let is_bad = resumed.code != 0 || !left.is_empty();
        tally.count(is_bad.then(|| format!("{left:?} {resumed:#?}")).or_else(|| amiss(&dir)));
    }
    tally.close();
}

#[test]
fn killed_with_everything_below_at_any_instant_a_campaign_goes_on() {
    let mut tally = Tally::of("killed with its gits and guards at any instant, a campaign goes on");
    let mut drawn = seed();
    for _ in 0..tries(2) {
        let dir = campaign("true");
        let started = dir.start(&GO);
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis((drawn >> 33) % 1_200));
        if is_alive(started.pid()) {
            kill_tree(started.pid());
        }
        let ended = started.ended();
        let resumed = if ended.code == 0 { ended } else { dir.ftl(&["resume", "--json"]) };
        let is_none =
            dir.ftl(&["status", "--all", "--json"]).json()["runs"].as_array().is_none_or(Vec::is_empty);
        // Killed before there was a run, it is run now.
        let resumed = if is_none { dir.ftl(&GO) } else { resumed };
        tally.count((resumed.code != 0).then(|| format!("{resumed:#?}")).or_else(|| amiss(&dir)));
    }
    tally.close();
}

/// Has the agents lock the branch of their run, as a git of theirs that hangs would.
const LOCKS: &str = "run=$(basename $PWD); run=${run%-*}; git=$(git rev-parse --git-common-dir); \
    touch -d \"2 minutes ago\" $git/refs/heads/ftl/$run.lock";

/// Whether a lock was last written a minute ago or longer, as [`LOCKS`] has it.
fn looks_old(lock: &Path) -> bool {
    let age =
        fs::metadata(lock).and_then(|found| found.modified()).map(|at| at.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > Duration::from_secs(60))
}

#[test]
fn somebody_else_s_lock_is_waited_for() {
    let dir = campaign(LOCKS);
    let started = dir.start(&GO);
    until("it is locked", || !locks(&dir).is_empty());
    // It stays longer than a git of its own would wait.
    std::thread::sleep(Duration::from_secs(2));
    let deadline = Instant::now() + crate::support::PATIENCE;
    // The second and third task lock once more.
    while is_alive(started.pid()) && Instant::now() < deadline {
        // Those of the agents alone, which look old: one of ours is held for an instant, and git needs it.
        for lock in locks(&dir).into_iter().filter(|lock| looks_old(lock)) {
            let _ = fs::remove_file(lock);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    started.ended().code(0);
    assert_eq!(amiss(&dir), None);
}

#[test]
fn somebody_else_s_lock_that_stays_is_named_and_never_removed() {
    let dir = campaign(LOCKS);
    let mut plan: serde_json::Value = serde_json::from_str(&dir.read("plan.json")).unwrap();
    plan["tasks"].as_array_mut().unwrap().truncate(1);
    dir.write("plan.json", plan.to_string());
    let ended = dir.ftl(&GO).code(3);
    let run = run_of(&dir);
    let lock = dir.path(&format!(".git/refs/heads/ftl/{run}.lock"));
    assert!(lock.exists(), "it is somebody else's: {ended:#?}");
    let named = format!("refs/heads/ftl/{run}.lock");
    assert!(ended.out.contains(&named) && ended.out.contains("remove the file"), "{ended:#?}");
    // Plain `resume` says why it does not take it, and what does.
    let told =
        dir.ftl(&["resume"]).code(0).says(&["nothing to resume", &format!("ftl resume {run}"), &named]);
    assert!(told.out.contains("held"), "{told:#?}");
    let json = dir.ftl(&["resume", "--json"]).code(0).json();
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["held"][0]["run"], run, "{json:#}");
    assert_eq!(json["held"][0]["command"], format!("ftl resume {run}"));
    assert!(json["held"][0]["why"].as_str().unwrap().contains(&named), "{json:#}");
    dir.ftl(&["doctor"]).says(&[&named, "if no git is at work here"]);
    fs::remove_file(&lock).unwrap();
    let play = dir.read("play.toml").replace("touch -d", "true");
    dir.write("play.toml", play);
    dir.ftl(&["resume", &run]).code(0);
    assert_eq!(dir.git(&["show", "HEAD:a.txt"]), "done\n");
}

#[test]
fn the_doctor_removes_what_a_dead_mover_has_left_and_tells_of_what_it_has_not() {
    let dir = campaign("true");
    dir.ftl(&GO).code(0);
    let run = run_of(&dir);
    let old = |name: &str| {
        dir.write(&format!(".git/{name}"), "");
        let file = dir.path(&format!(".git/{name}"));
        assert!(Command::new("touch").args(["-d", "2 minutes ago"]).arg(&file).status().unwrap().success());
        file
    };
    // A mover leaves its mark before it takes a lock.
    let mark = dir.path(".ftl/store/git/moving/1.1.of-a-start-that-is-over");
    fs::write(&mark, format!("refs/heads/ftl/{run}")).unwrap();
    let (dead, other) =
        (old(&format!("refs/heads/ftl/{run}.lock")), old(&format!("refs/ftl/runs/{run}.lock")));
    let told = dir.ftl(&["doctor"]).says(&["1 lock file of a killed git removed"]);
    assert!(told.out.contains(&format!("refs/ftl/runs/{run}.lock")), "{told:#?}");
    assert!(!dead.exists() && !mark.exists() && other.exists());
    fs::remove_file(other).unwrap();
    dir.ftl(&["doctor"]).code(0).says(&["all is well"]);
}

#[test]
fn a_lock_of_a_person_s_git_stays_whatever_a_dead_mover_was_about_to_move() {
    let mut tally = Tally::of("a person's lock on a ref that a dead mover named is never removed");
    let dir = campaign("true");
    dir.ftl(&GO).code(0);
    let branch = dir.git(&["symbolic-ref", "HEAD"]).trim().to_owned();
    let [ours, theirs] = ["HEAD", "HEAD~1"].map(|name| dir.git(&["rev-parse", name]));
    let mark = dir.path(".ftl/store/git/moving/1.1.of-a-start-that-is-over");
    let lock = dir.path(&format!(".git/{branch}.lock"));
    let packed = dir.path(".git/packed-refs.lock");
    let old = |file: &PathBuf, when: &str| {
        assert!(Command::new("touch").args(["-d", when]).arg(file).status().unwrap().success());
    };
    // Its mover died long before, and never took a lock.
    for (text, when) in [(branch.clone(), "1 hour ago"), (format!("{branch} {}", ours.trim()), "1 hour ago")]
    {
        fs::write(&mark, text).unwrap();
        old(&mark, when);
        for file in [&lock, &packed] {
            fs::write(file, if *file == lock { theirs.as_str() } else { "" }).unwrap();
            old(file, "2 minutes ago");
        }
        dir.ftl(&["doctor"]);
        tally.count((!lock.exists() || !packed.exists()).then(|| format!("removed: {when}")));
        tally.count(mark.exists().then(|| String::from("the mark of no lock stays")));
    }
    fs::remove_file(packed).unwrap();
    // It died a moment ago, and the lock says what it was not to say.
    fs::write(&mark, format!("{branch} {}", ours.trim())).unwrap();
    fs::write(&lock, &theirs).unwrap();
    old(&lock, "2 minutes ago");
    dir.ftl(&["doctor"]);
    tally.count((!lock.exists()).then(|| String::from("removed although it says something else")));
    // It is its own.
    fs::remove_file(&lock).unwrap();
    fs::write(&mark, format!("{branch} {}", ours.trim())).unwrap();
    fs::write(&lock, &ours).unwrap();
    old(&lock, "2 minutes ago");
    dir.ftl(&["doctor"]).says(&["1 lock file of a killed git removed"]);
    assert!(!lock.exists() && !mark.exists());
    tally.close();
}
