//! A coder that dies is replaced, and goes on from its last recorded state with its data.

use rustix::process::Signal;

use super::{code, codes, plans, repository, run_of, says, states, walked, worktrees};
use crate::support::{Dir, until};

/// A story that goes back once from every review and from its tests.
fn scenes() -> Vec<String> {
    vec![
        plans("PLAN AGAIN", "the second plan"),
        plans("", "the first plan"),
        says("plan_review", "the second plan", "APPROVE", "BEGIN"),
        says("plan_review", "", "CHANGES", "PLAN AGAIN"),
        codes("grep -q done", "echo one done > a.txt"),
        codes("ONCE MORE", "echo two done > a.txt"),
        codes("BEGIN", "echo begun > a.txt"),
        says("code_review", "two done", "APPROVE", "good"),
        says("code_review", "", "CHANGES", "ONCE MORE"),
    ]
}

const WAY: &str = "SETUP PLANNING PLAN_REVIEW PLANNING PLAN_REVIEW CODING TESTING CODING TESTING CODE_REVIEW CODING \
    TESTING CODE_REVIEW AWAIT_MERGE DONE";

/// How many times the journal has moved.
fn moves(dir: &Dir) -> usize {
    dir.count("SELECT count(*) FROM entries WHERE CAST(body AS TEXT) LIKE '%\"moved\"%'")
}

#[test]
fn killed_in_any_state_a_story_comes_to_the_same_tree_and_does_nothing_twice() {
    let dir = repository(&scenes());
    let run = run_of(&code(&dir, &["--land", "ff"]).code(0));
    assert_eq!(states(&walked(&dir, &run)).join(" "), WAY);
    let tree = dir.git(&["rev-parse", "HEAD^{tree}"]);
    let all = WAY.split(' ').count();
    for kill in 0..=all {
        let dir = repository(&scenes());
        let started = dir.start(&["code", super::STORY, "--land", "ff", "--json"]);
        until("it has come so far, or to its end", || {
            moves(&dir) >= kill || started.out().contains("\"report\"")
        });
        started.signal(Signal::KILL);
        let ended = started.ended();
        let resumed = if ended.code == 0 { ended } else { dir.ftl(&["resume", "--json"]) };
        // Killed before there was a run, or after its end and before it was told, there is nothing to resume.
        let run = match resumed.json()["runs"].as_array() {
            Some(none) if none.is_empty() => {
                let all = dir.ftl(&["status", "--all", "--json"]).code(0).json()["runs"].clone();
                let Some(run) = all[0]["run"].as_str() else {
                    assert_eq!(kill, 0);
                    continue;
                };
                run.to_owned()
            }
            Some(_) | None => run_of(&resumed.code(0)),
        };
        assert_eq!(states(&walked(&dir, &run)).join(" "), WAY, "killed after {kill} moves");
        assert_eq!(dir.git(&["rev-parse", "HEAD^{tree}"]), tree, "killed after {kill} moves");
        assert_eq!(dir.git(&["rev-list", "--count", "HEAD"]).trim(), "2");
        assert_eq!((worktrees(&dir), dir.git(&["status", "--porcelain"]).as_str()), (0, ""));
    }
}
