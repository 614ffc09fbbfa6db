//! What a task costs in things that a machine is slow at, counted: syncs, starts of git, checkouts, verifies. More of one
//! of them is a decision, and no accident.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use ftl_testkit::faults::{Call, Faults, counted};
use serde_json::Value as Json;

use crate::campaigns::{GO, builds, repository, task};
use crate::support::{Dir, ended};

/// What was counted in a run.
#[derive(Debug)]
struct Counts {
    /// `fsync` and `fdatasync` of `ftl` itself, as far as they go through libc.
    syncs: u64,
    /// Starts of git.
    gits: usize,
    /// Trees that were laid or switched to.
    checkouts: usize,
    /// Of these, the ones that were laid from nothing.
    laid: usize,
    verifies: usize,
}

/// The git of this machine.
fn git() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap()
}

/// Runs a campaign whose git notes its words, and whose verifies note that they were run.
fn count(dir: &Dir, outside: &Dir) -> Counts {
    let _ = std::fs::remove_file(outside.path("gits"));
    let _ = std::fs::remove_file(outside.path("verifies"));
    let log = outside.path("gits").display().to_string();
    // Settings come first, and are the same in all.
    let says = format!(
        "#!/bin/sh\nprintf '%s ' \"$@\" >> '{log}'\necho >> '{log}'\nexec '{}' \"$@\"\n",
        git().display()
    );
    outside.write("bin/git", says);
    std::fs::set_permissions(outside.path("bin/git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = dir.command(&[&GO[..], &["--land", "branch-only", "--json"]].concat());
    let path = format!("{}:{}", outside.path("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path);
    Faults::of("/").only(&[Call::Sync]).counting(&outside.path("syncs")).on(&mut command).unwrap();
    let json: Json = ended(command).code(0).json();
    assert_eq!(json["standing"], "complete", "{json:#}");
    let gits = outside.read("gits");
    let verifies = std::fs::read_to_string(outside.path("verifies")).unwrap_or_default();
    let checkouts = gits.lines().filter(|line| line.contains(" read-tree --reset -u ")).count();
    let switched = gits.lines().filter(|line| line.contains(" ls-files -z -s ")).count();
    Counts {
        syncs: counted(&outside.path("syncs")).unwrap(),
        gits: gits.lines().count(),
        checkouts,
        laid: checkouts - switched,
        verifies: verifies.lines().count(),
    }
}

/// A repository whose tasks are verified by a command that notes its runs.
fn noting(count: usize) -> (Dir, Dir) {
    let outside = Dir::new();
    let log = outside.path("verifies").display().to_string();
    let (mut tasks, mut scenes) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let (seq, file) = (format!("{number:03}"), format!("f{number}.txt"));
        let mut one = task(&seq, "one", &file, &[]);
        one["verify"] = format!("echo x >> '{log}'; grep -q done {file}").into();
        tasks.push(one);
        scenes.push(builds(&format!("{seq}-one"), &file, "done", "true"));
    }
    (repository(&tasks, &scenes), outside)
}

#[test]
fn a_task_of_one_file_costs_no_more_than_it_did() {
    let (dir, outside) = noting(1);
    let first = count(&dir, &outside);
    assert!(first.syncs <= 100 && first.gits <= 20, "{first:?}");
    assert_eq!((first.verifies, first.checkouts), (2, 3), "the base and the work: {first:?}");
    // The next run finds the base verified and the checkouts laid.
    dir.write("plan.json", dir.read("plan.json").replace("f1.txt", "g1.txt"));
    dir.write("play.toml", dir.read("play.toml").replace("f1.txt", "g1.txt"));
    let second = count(&dir, &outside);
    assert!(second.syncs <= 100 && second.gits <= 20, "{second:?}");
    assert_eq!(second.laid, 0, "nothing is laid from nothing: {second:?}");
}

#[test]
fn a_task_of_a_campaign_costs_what_a_task_alone_costs() {
    const TASKS: usize = 6;
    let (dir, outside) = noting(TASKS);
    let all = count(&dir, &outside);
    assert!(all.syncs <= 100 * TASKS as u64 && all.gits <= 20 * TASKS, "{all:?}");
    // Each command is another one on the base; where another task has landed before, the merged tree is verified too.
    assert!(all.verifies <= 3 * TASKS && all.checkouts <= 4 * TASKS, "{all:?}");
    assert!(all.laid <= TASKS + 8, "one worktree each, and as many checkouts as work side by side: {all:?}");
}
