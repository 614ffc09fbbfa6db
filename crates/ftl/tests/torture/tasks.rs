//! A task's lifecycle, killed in every step at any call that changes its folder or the store: said again, every
//! word comes to the same, the patch is committed once and undone once.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use ftl_testkit::faults::{Fault, Faults, counted};
use serde_json::Value as Json;

use crate::stage::{Dice, ProcessOutcome, Stage, each, scale};

/// Every command of the way, and the phase that the task is in afterwards.
const STEPS: &[(&[&str], &str)] = &[
    (&["new", "Add a note", "--task", "n"], "planning"),
    (&["plan"], "planning"),
    (&["next"], "plan_review"),
    (&["review", "plan"], "plan_review"),
    (&["next"], "codegen"),
    (&["codegen"], "codegen"),
    (&["next"], "review"),
    (&["next", "--override", "no reviewer is awake"], "test"),
    (&["test"], "test"),
    (&["next"], "accept"),
    (&["accept", "--reason", "good"], "accept"),
    (&["next"], "done"),
    (&["redo", "accept", "--reason", "it broke the export"], "accept"),
    (&["revert", "--reason", "it broke the export"], "revert"),
    (&["revert"], "revert"),
    (&["next"], "done"),
];

/// How often a word is said again before it is stuck.
const MAX_TRIES: usize = 4;

/// What counts as a call: everything of ours on the disk.
const OURS: &str = ".ftl/";

const PLAY: &str = r#"
[[scene]]
role = "planner"
[[scene.step]]
submit = { title = "Add a note", summary = "One file", in_scope = ["a note"], acceptance_criteria = ["there is a note"], file_plan = [{ path = "note.txt", intent = "create" }] }

[[scene]]
role = "reviewers"
form = "plan"
[[scene.step]]
submit = { summary = "fine", reviewers = [{ id = "me", ok = true }] }

[[scene]]
role = "coder"
[[scene.step]]
calls = [{ tool = "write", path = "note.txt", content = "a note\n" }]
[[scene.step]]
submit = { summary = "written" }
"#;

fn git(stage: &Stage, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(args).current_dir(stage.root()).env("HOME", stage.beside("nobody"));
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let ended = git.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

/// A repository with a project in it, and agents out of a script.
fn project() -> Stage {
    let stage = Stage::new();
    std::fs::remove_dir(stage.path(".git")).unwrap();
    stage.write("Makefile", "test:\n\t@grep -q 'a note' note.txt\n");
    stage.write("play.toml", PLAY);
    stage.write(
        "ftl.toml",
        "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nplanner = \"play\"\nreviewers = \"play\"\ncoder = \"play\"\n",
    );
    git(&stage, &["init", "-q", "."]);
    git(&stage, &["config", "user.name", "Ada"]);
    git(&stage, &["config", "user.email", "ada@example.org"]);
    git(&stage, &["add", "Makefile", "play.toml", "ftl.toml"]);
    git(&stage, &["commit", "-qm", "first"]);
    stage.ftl(&["trust", "--yes"]).code(0);
    stage
}

fn phase(stage: &Stage) -> Option<String> {
    let shown = stage.ftl(&["show", "--task", "n", "--json"]);
    (shown.code == Some(0)).then(|| shown.json()["phase"].as_str().unwrap().to_owned())
}

/// Says a word until it has come to what it comes to; whether it was killed on the way. One that moves is not
/// said again once it has moved.
fn say(stage: &Stage, step: usize, first: Option<&Faults>) -> bool {
    let (words, wanted) = STEPS[step];
    let args: Vec<&str> =
        if step == 0 { words.to_vec() } else { words.iter().chain(&["--task", "n"]).copied().collect() };
    let moves = step == 0 || STEPS[step - 1].1 != wanted;
    let (mut faults, mut was_killed) = (first, false);
    for _ in 0..MAX_TRIES {
        let is_faulty = faults.is_some();
        let ended: ProcessOutcome = match faults.take() {
            Some(faults) => stage.faulty(faults, &args),
            None => stage.ftl(&args),
        };
        was_killed |= ended.signal.is_some();
        if !is_faulty {
            assert_eq!(ended.code, Some(0), "{words:?}: {ended:#?}");
        }
        if ended.code == Some(0) || (moves && phase(stage).as_deref() == Some(wanted)) {
            assert_eq!(phase(stage).as_deref(), Some(wanted), "{words:?}");
            return was_killed;
        }
    }
    panic!("said {MAX_TRIES} times, and it came to nothing: {words:?}");
}

fn judge(stage: &Stage) {
    stage.ftl(&["audit", "verify"]).code(0);
    let log = git(stage, &["log", "--format=%s"]);
    assert_eq!(log.lines().collect::<Vec<_>>(), ["Revert \"Add a note\"", "Add a note", "first"]);
    assert_eq!(git(stage, &["status", "--porcelain", "-uno"]), "", "the checkout is as the branch says");
    assert!(!stage.path("note.txt").exists(), "what was undone is gone");
    let transcript = stage.lines(".ftl/tasks/n/transcript.jsonl");
    let lines: Vec<Json> = transcript.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let overrides = lines.iter().filter(|line| line["kind"] == "override").count();
    assert_eq!(overrides, 1, "{transcript:#?}");
    // Killed between the journal and the file, the file lags behind until the next command.
    stage.ftl(&["next", "--task", "n"]).code(0);
    let state: Json =
        serde_json::from_str(&std::fs::read_to_string(stage.path(".ftl/tasks/n/state.json")).unwrap())
            .unwrap();
    assert_eq!(state["phase"], "done");
    let run =
        stage.ftl(&["show", "--task", "n", "--json"]).code(0).json()["run"].as_str().unwrap().to_owned();
    assert_eq!(stage.status(&run)["standing"], "complete");
}

#[test]
fn a_task_that_is_killed_in_every_step_comes_to_the_same() {
    let unharmed = project();
    let calls: Vec<u64> = (0..STEPS.len())
        .map(|step| {
            let file = unharmed.beside(&format!("calls-{step}"));
            say(&unharmed, step, Some(&Faults::of(OURS).counting(&file)));
            counted(&file).unwrap().max(1)
        })
        .collect();
    judge(&unharmed);
    // Each pass is one task that is killed in every step, at a call that is drawn from its own part of the step.
    let passes = (scale("FTL_KILLS", 40) / 13).max(1);
    let killed: Vec<AtomicU64> = STEPS.iter().map(|_| AtomicU64::new(0)).collect();
    each(&(0..passes).collect::<Vec<u64>>(), |pass| {
        let stage = project();
        let mut dice = Dice::new(0x7a5c + pass);
        for step in 0..STEPS.len() {
            let (first, last) = (calls[step] * pass / passes, calls[step] * (pass + 1) / passes);
            let number = 1 + first + dice.below(last - first);
            let fault = [Fault::KilledBefore, Fault::KilledAfter][usize::try_from(dice.below(2)).unwrap()];
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if say(&stage, step, Some(&Faults::of(OURS).at(number, fault))) {
                    killed[step].fetch_add(1, Ordering::Relaxed);
                }
            }));
            if let Err(panic) = told {
                eprintln!(
                    "pass {pass}: killed in {:?} at call {number} of {}, {fault:?}",
                    STEPS[step].0, calls[step]
                );
                std::panic::resume_unwind(panic);
            }
        }
        judge(&stage);
    });
    for (step, killed) in killed.iter().enumerate() {
        let killed = killed.load(Ordering::Relaxed);
        assert!(killed > 0, "nothing was killed in {:?}", STEPS[step].0);
    }
}
