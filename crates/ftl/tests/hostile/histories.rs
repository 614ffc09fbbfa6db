//! Finding 12: odd states of git are answers: the work stays on its branch, and the answer says why.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::delivery::{GO, prepare, repository};
use crate::support::{Dir, until};

/// Has a person do something in their checkout: no command of the agent, whose commits are known by their committer.
const AS_PERSON: &str =
    "cd ../../.. && unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL";

/// Has a task done during which a person does this in their checkout; the work stays on its branch because of that.
fn stays(dir: &Dir, person: &str, why: &[&str]) {
    prepare(dir, &format!("{AS_PERSON} && {person}"));
    let ended = dir.ftl(&GO).code(3);
    assert_stays(dir, &ended.json(), why);
    // There is nothing left to do, and nothing to hold on to.
    dir.ftl(&["resume"]).code(0).says(&["nothing to resume"]);
    let status = dir.status(ended.json()["run"].as_str().unwrap());
    assert_eq!(status["standing"], "complete", "{status:#}");
}

/// The run is complete, its work is on its branch, and the answer says why.
#[track_caller]
fn assert_stays(dir: &Dir, json: &Json, why: &[&str]) {
    assert_eq!(json["standing"], "complete", "{json:#}");
    let (delivered, run) = (&json["report"]["delivered"], json["run"].as_str().unwrap());
    assert_eq!(delivered["status"], "kept", "{json:#}");
    let summary = delivered["summary"].as_str().unwrap();
    for word in why.iter().chain(&[format!("the work stays on `ftl/{run}`").as_str()]) {
        assert!(summary.contains(word), "no {word:?} in {summary:?}");
    }
    assert_eq!(dir.git(&["show", &format!("ftl/{run}:a.txt")]), "done\n");
    assert!(!dir.path(".git/index.lock").exists());
}

/// A repository whose branch has two commits.
fn two_commits() -> Dir {
    let dir = repository("true");
    dir.write("a.txt", "second\n");
    dir.git(&["commit", "-qam", "second"]);
    dir
}

#[test]
fn an_amended_first_commit() {
    let dir = repository("true");
    stays(
        &dir,
        "git commit -q --amend -m again",
        &["`main` shares no history with", "git rebase --onto main"],
    );
    assert_eq!(dir.git(&["log", "--format=%s"]), "again\n");
    assert_eq!((dir.read("a.txt").as_str(), dir.git(&["status", "--porcelain"]).as_str()), ("begun\n", ""));
    // What the answer says works.
    let branch = dir.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/ftl"]);
    let base = dir.git(&["merge-base", branch.trim(), "main@{1}"]);
    dir.git(&["rebase", "-q", "--onto", "main", base.trim(), branch.trim()]);
    assert_eq!(dir.read("a.txt"), "done\n");
}

#[test]
fn a_branch_that_was_made_anew_from_nothing() {
    let anew = "git checkout -q --orphan fresh && git commit -qm fresh && git branch -qM fresh main";
    stays(&repository("true"), anew, &["`main` shares no history with"]);
}

#[test]
fn unrelated_histories() {
    let dir = repository("true");
    let other = repository("true");
    other.write("z.txt", "other\n");
    other.git(&["add", "-A"]);
    other.git(&["commit", "-q", "--amend", "-m", "of another repository"]);
    let from = other.path("");
    let fetched = format!("git fetch -q '{}' main && git reset -q --hard FETCH_HEAD", from.display());
    stays(&dir, &fetched, &["`main` shares no history with"]);
    assert_eq!(dir.read("z.txt"), "other\n");
}

#[test]
fn a_base_that_was_rewritten() {
    let dir = two_commits();
    let person = "git reset -q --hard HEAD~1 && echo z > z.txt && git add z.txt && git commit -qm otherwise";
    stays(&dir, person, &["`main` was rewritten", "is not in it any more"]);
    assert_eq!(dir.git(&["log", "--format=%s"]), "otherwise\nbegin\n");
}

#[test]
fn a_base_that_was_taken_back() {
    let dir = two_commits();
    stays(&dir, "git reset -q --hard HEAD~1", &["`main` was rewritten"]);
    assert_eq!(
        (dir.git(&["log", "--format=%s"]).as_str(), dir.read("a.txt").as_str()),
        ("begin\n", "begun\n")
    );
}

#[test]
fn a_shallow_clone() {
    let origin = two_commits();
    let dir = Dir::repository();
    fs::remove_dir_all(dir.path(".git")).unwrap();
    let url = format!("file://{}", origin.path("").display());
    dir.git(&["clone", "-q", "--depth", "1", &url, "."]);
    dir.git(&["config", "user.name", "Ada"]);
    dir.git(&["config", "user.email", "ada@example.org"]);
    // As it is, work is delivered; also when the person has committed meanwhile.
    prepare(&dir, &format!("{AS_PERSON} && echo z > z.txt && git add z.txt && git commit -qm mine"));
    let json = dir.ftl(&GO).code(0).json();
    assert_eq!(json["report"]["delivered"]["status"], "landed", "{json:#}");
    dir.git(&["reset", "-q", "--hard", "origin/main"]);
    // What came before is cut off from what the person has now.
    origin.write("a.txt", "third\n");
    origin.git(&["commit", "-qam", "third"]);
    let person = "git fetch -q --depth 1 origin main && git reset -q --hard FETCH_HEAD";
    stays(&dir, person, &["shares no history with", "as far as this shallow clone knows"]);
    assert_eq!(dir.read("a.txt"), "third\n");
}

#[test]
fn a_branch_that_was_deleted() {
    let person = "git checkout -q --detach && git branch -qD main";
    stays(&repository("true"), person, &["`main` is not there any more"]);
}

#[test]
fn a_head_without_a_commit() {
    let person = "git checkout -q --orphan fresh && git branch -qD main";
    stays(&repository("true"), person, &["`main` is not there any more"]);
    // Before it begins, there is nothing to build on, and that is said.
    let dir = repository("true");
    dir.git(&["checkout", "-q", "--orphan", "fresh"]);
    dir.ftl(&GO).code(1).says(&["has no commit", "hint"]);
}

#[test]
fn a_detached_head() {
    let dir = repository("true");
    dir.git(&["checkout", "-q", "--detach"]);
    stays(&dir, "true", &["no branch was checked out when the run began"]);
    // Detached meanwhile, the branch moves alone.
    let dir = repository("cd ../../.. && git checkout -q --detach");
    let json = dir.ftl(&GO).code(0).json();
    assert_eq!(json["report"]["delivered"]["status"], "landed", "{json:#}");
    assert_eq!(
        (dir.read("a.txt").as_str(), dir.git(&["show", "main:a.txt"]).as_str()),
        ("begun\n", "done\n")
    );
}

#[test]
fn a_driver_that_was_killed_meanwhile_and_resumed() {
    let dir = repository("cat ../../../meet");
    assert!(Command::new("mkfifo").arg(dir.path("meet")).status().unwrap().success());
    let started = dir.start(&GO);
    let worktrees = dir.path(".ftl/worktrees");
    until("the builder works", || fs::read_dir(&worktrees).is_ok_and(|mut all| all.next().is_some()));
    started.signal(Signal::KILL);
    drop(started);
    dir.git(&["commit", "-q", "--amend", "-m", "again"]);
    fs::remove_file(dir.path("meet")).unwrap();
    dir.write("meet", "");
    let ended = dir.ftl(&["resume", "--json"]).code(3);
    assert_stays(&dir, &ended.json(), &["`main` shares no history with"]);
    dir.ftl(&["resume"]).code(0).says(&["nothing to resume"]);
}
