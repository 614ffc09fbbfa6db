//! What a turn did beside the work: a person who works meanwhile loses nothing and is never put back; what the attempt
//! itself moved is.

use std::fs;

use super::support::{Stage, command, commit};

/// The committer of the commands of an attempt.
const ATTEMPT: &str = "run.7@attempt.invalid";

/// Everything of the person's but what is kept of it.
fn refs(stage: &Stage) -> String {
    let refs = stage.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    refs.lines().filter(|line| !line.contains("/ftl/")).collect::<Vec<_>>().join("\n")
}

fn count_kept(stage: &Stage) -> usize {
    stage.git(&["for-each-ref", "refs/ftl/seen/"]).lines().count()
}

/// What a person does in one turn of an agent, one after the other.
fn work_as_person(stage: &Stage, turn: usize) {
    let root = stage.root();
    // Another branch is taken with nothing of its own in the checkout, as git wants it.
    if turn % 5 != 4 {
        fs::write(root.join("src/three.txt"), format!("{turn}\n")).unwrap();
    }
    match turn % 5 {
        0 => commit(&root, &format!("turn {turn}")),
        1 => {
            stage.git(&["switch", "-q", "-c", &format!("topic-{turn}")]);
            commit(&root, "on a topic");
        }
        2 => {
            commit(&root, "before a rebase");
            stage.git(&["rebase", "-q", "main"]);
        }
        3 => {
            let hooks = root.join(".git/hooks");
            fs::create_dir_all(&hooks).unwrap();
            fs::write(hooks.join("post-commit"), format!("#!/bin/sh\n# {turn}\n")).unwrap();
            stage.git(&["config", "user.nickname", &turn.to_string()]);
            stage.git(&["stash", "-q", "--include-untracked"]);
        }
        _ => {
            stage.git(&["switch", "-q", "main"]);
            stage.git(&["tag", &format!("v{turn}")]);
            stage.git(&["branch", "-q", "-D", &format!("topic-{}", turn - 3)]);
        }
    }
}

#[test]
fn a_person_at_work_during_a_hundred_turns_loses_nothing_and_is_never_put_back() {
    let stage = Stage::new();
    for turn in 0..100 {
        let before = stage.repo.state().unwrap();
        work_as_person(&stage, turn);
        let after = stage.repo.state().unwrap();
        let (standing, head) = (refs(&stage), fs::read(stage.root().join(".git/HEAD")).unwrap());
        let changes = stage.repo.note_seen(&format!("run/{turn}"), (&before, &after), ATTEMPT).unwrap();
        assert!(
            !changes.is_empty() && changes.iter().all(|change| !change.is_put_back),
            "{turn}: {changes:?}"
        );
        assert_eq!(
            (refs(&stage), fs::read(stage.root().join(".git/HEAD")).unwrap()),
            (standing, head),
            "{turn}"
        );
        assert_eq!(stage.repo.state().unwrap(), after, "{turn}");
    }
    assert!(count_kept(&stage) > 100);
}

#[test]
fn what_the_attempt_itself_moved_is_kept_and_put_back() {
    let stage = Stage::new();
    let before = stage.repo.state().unwrap();
    let standing = refs(&stage);
    let attempt = |words: &[&str]| {
        let mut git = command(&stage.root(), words);
        assert!(git.env("GIT_COMMITTER_EMAIL", ATTEMPT).status().unwrap().success(), "{words:?}");
    };
    attempt(&["commit", "-q", "--allow-empty", "-m", "not asked for"]);
    attempt(&["branch", "-q", "another"]);
    let after = stage.repo.state().unwrap();
    let moved = stage.git(&["rev-parse", "main"]);
    let changes = stage.repo.note_seen("run/1", (&before, &after), ATTEMPT).unwrap();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes.iter().all(|change| change.is_put_back), "{changes:?}");
    assert_eq!(refs(&stage), standing);
    assert!(stage.git(&["for-each-ref", "--format=%(objectname)", "refs/ftl/seen/"]).contains(&moved));
}

#[test]
fn what_the_attempt_and_the_person_moved_is_told_and_stays() {
    let stage = Stage::new();
    let before = stage.repo.state().unwrap();
    let mut git = command(&stage.root(), &["commit", "-q", "--allow-empty", "-m", "not asked for"]);
    assert!(git.env("GIT_COMMITTER_EMAIL", ATTEMPT).status().unwrap().success());
    fs::write(stage.root().join("src/three.txt"), "mine\n").unwrap();
    commit(&stage.root(), "on top of it");
    let after = stage.repo.state().unwrap();
    let changes = stage.repo.note_seen("run/1", (&before, &after), ATTEMPT).unwrap();
    assert!(changes.len() == 1 && !changes[0].is_put_back, "{changes:?}");
    assert_eq!(stage.repo.state().unwrap(), after);
}
