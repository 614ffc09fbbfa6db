//! A task's lifecycle, killed at any call that changes its folder or the store: said again, every word comes
//! to the same, the patch is committed once and undone once.

use std::process::Command;

use ftl_testkit::faults::{Fault, Faults, counted};
use serde_json::Value as Json;

use crate::stage::{Ended, Stage, each, scale};

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
    stage
}

fn phase(stage: &Stage) -> Option<String> {
    let shown = stage.ftl(&["show", "--task", "n", "--json"]);
    (shown.code == Some(0)).then(|| shown.json()["phase"].as_str().unwrap().to_owned())
}

/// Says a word until it has come to what it comes to. One that moves is not said again once it has moved.
fn say(stage: &Stage, step: usize, first: Option<&Faults>) {
    let (words, wanted) = STEPS[step];
    let args: Vec<&str> =
        if step == 0 { words.to_vec() } else { words.iter().chain(&["--task", "n"]).copied().collect() };
    let moves = step == 0 || STEPS[step - 1].1 != wanted;
    let mut faults = first;
    for _ in 0..MAX_TRIES {
        let killed = faults.is_some();
        let ended: Ended = match faults.take() {
            Some(faults) => stage.faulty(faults, &args),
            None => stage.ftl(&args),
        };
        if !killed {
            assert_eq!(ended.code, Some(0), "{words:?}: {ended:#?}");
        }
        if ended.code == Some(0) || (moves && phase(stage).as_deref() == Some(wanted)) {
            assert_eq!(phase(stage).as_deref(), Some(wanted), "{words:?}");
            return;
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
    let state: Json =
        serde_json::from_str(&std::fs::read_to_string(stage.path(".ftl/tasks/n/state.json")).unwrap())
            .unwrap();
    assert_eq!(state["phase"], "done");
    let run =
        stage.ftl(&["show", "--task", "n", "--json"]).code(0).json()["run"].as_str().unwrap().to_owned();
    assert_eq!(stage.status(&run)["standing"], "complete");
}

#[test]
fn a_task_that_is_killed_at_any_call_comes_to_the_same() {
    let unharmed = project();
    let calls: Vec<u64> = (0..STEPS.len())
        .map(|step| {
            let file = unharmed.beside(&format!("calls-{step}"));
            say(&unharmed, step, Some(&Faults::of(OURS).counting(&file)));
            counted(&file).unwrap().max(1)
        })
        .collect();
    judge(&unharmed);
    let points = scale("FTL_KILLS", 40) / 3;
    let cases: Vec<(usize, u64)> = (0..points)
        .map(|point| {
            let step = usize::try_from(point).unwrap() % STEPS.len();
            let (round, rounds) = (point / STEPS.len() as u64, points / STEPS.len() as u64 + 1);
            (step, 1 + calls[step] * (2 * round + 1) / (2 * rounds))
        })
        .collect();
    each(&cases, |(step, number)| {
        let stage = project();
        let fault = [Fault::KilledBefore, Fault::KilledAfter][usize::try_from(number % 2).unwrap()];
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for at in 0..STEPS.len() {
                let faults = Faults::of(OURS).at(*number, fault);
                say(&stage, at, (at == *step).then_some(&faults));
            }
            judge(&stage);
        }));
        if let Err(panic) = told {
            eprintln!("killed in {:?} at call {number}, {fault:?}", STEPS[*step].0);
            std::panic::resume_unwind(panic);
        }
    });
}
