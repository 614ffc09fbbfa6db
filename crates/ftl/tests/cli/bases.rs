//! How a command goes on what work starts from: looked at before a model is asked, run beside the first conversation,
//! kept for whoever asks next, and told where the surroundings are broken.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::known::{PLAN, bound, conversations, script};
use crate::support::{CommandOutcome, Dir, ended, until};

const RUN: [&str; 5] = ["Mend the word", "--plan", "plan.json", "--land", "ff"];

/// A repository that is verified by a script of its own, which notes each of its runs outside of the repository: on the
/// base, where the word is not mended, or on the work.
fn repository(check: &str) -> (Dir, Dir) {
    let (dir, outside) = (Dir::repository(), Dir::new());
    let log = outside.path("runs").display().to_string();
    let note = format!("if grep -q hello greet.txt; then echo work; else echo base; fi >> '{log}'\n");
    dir.write("greet.txt", "helo\n").write("check.sh", format!("{note}{check}"));
    dir.write(".gitignore", "*.log\nplan.json\nbin/\nready.py\n.out-*\n.err-*\nsettings/\n")
        .write("plan.json", PLAN);
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    bound(&dir, "default = \"play\"\n", PLAN);
    (dir, outside)
}

/// How often the script was run on the base.
fn base_runs(outside: &Dir) -> usize {
    runs_on(outside, "base")
}

/// How often it was run on the base, or on the work.
fn runs_on(outside: &Dir, what: &str) -> usize {
    let runs = std::fs::read_to_string(outside.path("runs")).unwrap_or_default();
    runs.lines().filter(|line| *line == what).count()
}

/// The builder hangs while it plans, until somebody ends it.
fn with_hanging_builder(dir: &Dir) {
    let hangs = "[[scene]]\nrole = \"builder\"\n[[scene.step]]\nusage = { tokens = 100, money = 500 }\n[[scene.step]]\nhang = true\n";
    dir.write(".ftl/play.toml", hangs);
}

/// A command with another program before all others in the PATH.
fn with_program(dir: &Dir, (name, text): (&str, &str), args: &[&str]) -> std::process::Command {
    let file = format!("bin/{name}");
    dir.write(&file, format!("#!/bin/sh\n{text}"));
    std::fs::set_permissions(dir.path(&file), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = dir.command(args);
    command.env("PATH", format!("{}:{}", dir.path("bin").display(), std::env::var("PATH").unwrap()));
    command
}

fn run_of(json: &Json) -> String {
    json["run"].as_str().unwrap().to_owned()
}

/// How many conversations there were in all runs.
fn paid(dir: &Dir) -> usize {
    let runs = dir.ftl(&["status", "--all", "--json"]).code(0).json();
    runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| conversations(dir, row["run"].as_str().unwrap()).len())
        .sum()
}

/// The last failure that holds somebody in a run.
fn held_for(dir: &Dir, run: &str) -> String {
    let all = dir.entries(run);
    let held = all.iter().rev().find(|entry| {
        entry["kind"] == "held" || entry["fact"] == "held" || entry.to_string().contains("\"held\"")
    });
    held.map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_red_base_that_ran_stops_nobody_and_is_run_once_for_each_tree() {
    let (dir, outside) = repository("grep -q hello greet.txt\n");
    let first = dir.ftl(&[&RUN[..3], &["--json"]].concat()).code(0).json();
    assert_eq!(first["standing"], "complete", "{first:#}");
    assert_eq!(base_runs(&outside), 1);
    // The work stayed on its branch: the next run starts from the same tree.
    dir.ftl(&[&RUN[..3], &["--json"]].concat()).code(0);
    assert_eq!(base_runs(&outside), 1, "what is known is not run again");
    let mut other = dir.command(&[&RUN[..3], &["--json"]].concat());
    other.env("JAVA_HOME", "/elsewhere");
    ended(other).code(0);
    assert_eq!(base_runs(&outside), 2, "another environment is another question");
}

#[test]
fn the_base_is_run_beside_the_conversation_and_not_after_it() {
    let (dir, outside) = repository("grep -q hello greet.txt\n");
    // The builder waits for what only the run on the base writes.
    let waits = script(PLAN).replace(
        "form = \"plan\"\n",
        &format!("form = \"plan\"\n[[scene.step]]\nuntil = '{}'\n", outside.path("runs").display()),
    );
    dir.write(".ftl/play.toml", waits);
    let json = dir.ftl(&[&RUN[..], &["--json"]].concat()).code(0).json();
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!((base_runs(&outside), dir.read("greet.txt").as_str()), (1, "hello\n"));
    assert_eq!(runs_on(&outside, "work"), 1, "what was verified in a checkout lands without being run again");
}

#[test]
fn work_that_others_have_landed_before_is_verified_again_where_it_lands() {
    let (dir, outside) = repository("grep -q hello greet.txt\n");
    // Somebody else's commit is on the branch by the time it is delivered: another tree than the one that was verified.
    let slow = script(PLAN).replace(
        "form = \"plan\"\n",
        &format!("form = \"plan\"\n[[scene.step]]\nuntil = '{}'\n", outside.path("go").display()),
    );
    dir.write(".ftl/play.toml", slow);
    let running = dir.start(&[&RUN[..], &["--json"]].concat());
    until("the base was run", || base_runs(&outside) == 1);
    dir.write("other.txt", "theirs\n");
    dir.git(&["add", "other.txt"]);
    dir.git(&["commit", "-qm", "theirs"]);
    outside.write("go", "");
    let json = running.ended().code(0).json();
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!(runs_on(&outside, "work"), 2, "the work, and the work beside theirs");
    assert_eq!((dir.read("greet.txt").as_str(), dir.read("other.txt").as_str()), ("hello\n", "theirs\n"));
}

#[test]
fn what_git_ignores_in_the_worktree_has_no_part_in_a_verdict() {
    let (dir, outside) = repository("test ! -e beside.log && grep -q hello greet.txt\n");
    // Somebody has left something beside the work that git ignores.
    let leaves = format!("form = \"plan\"\n[[scene.step]]\nuntil = '{}'\n", outside.path("go").display());
    dir.write(".ftl/play.toml", script(PLAN).replace("form = \"plan\"\n", &leaves));
    let running = dir.start(&[&RUN[..], &["--json"]].concat());
    let worktree = || std::fs::read_dir(dir.path(".ftl/worktrees")).ok()?.flatten().next();
    until("there is a worktree", || base_runs(&outside) == 1 && worktree().is_some());
    std::fs::write(worktree().unwrap().path().join("beside.log"), "").unwrap();
    outside.write("go", "");
    let json = running.ended().code(0).json();
    assert_eq!(json["standing"], "complete", "{json:#}");
}

#[test]
fn a_command_that_cannot_run_on_the_base_ends_the_conversation_and_pays_no_other() {
    let (dir, _outside) = repository("no-such-tool --all\n");
    with_hanging_builder(&dir);
    let began = Instant::now();
    let json = dir.ftl(&[&RUN[..], &["--json"]].concat()).code(3).json();
    assert!(began.elapsed() < Duration::from_secs(60), "the agent hangs for longer");
    let run = run_of(&json);
    assert_eq!(json["standing"], "held", "{json:#}");
    let why = held_for(&dir, &run);
    assert!(why.contains("there is no program `no-such-tool`") && why.contains("ftl resume"), "{why}");
    assert_eq!(conversations(&dir, &run).len(), 1, "one was under way, and no other began");
    let entries = dir.entries(&run);
    assert!(!entries.iter().any(|entry| entry.to_string().contains("\"attempts\"")), "that is no attempt");
    // Mended, it goes on from the same step.
    dir.write(".ftl/play.toml", script(PLAN));
    let mended =
        with_program(&dir, ("no-such-tool", "grep -q hello greet.txt\n"), &["resume", &run, "--json"]);
    let json = ended(mended).code(0).json();
    assert_eq!(dir.read("greet.txt"), "hello\n", "{json:#}");
}

#[test]
fn an_error_at_collection_is_told_before_the_builder_is_asked() {
    let (dir, _outside) = repository("true\n");
    let plan = PLAN.replace("sh check.sh", "python3 -m pytest -q");
    bound(&dir, "default = \"play\"\n", &plan);
    let broken = ("python3", "echo \"E   ModuleNotFoundError: No module named 'freezegun'\"\nexit 2\n");
    // The planner names the command: it is paid, and nobody after it.
    let json = ended(with_program(&dir, broken, &["Mend the word", "--json"])).code(3).json();
    let run = run_of(&json);
    assert_eq!(json["standing"], "held", "{json:#}");
    let who: Vec<String> = conversations(&dir, &run).into_iter().map(|(role, _, _)| role).collect();
    assert_eq!(who, ["planner"]);
    let why = held_for(&dir, &run);
    assert!(why.contains("cannot collect its tests: there is no module `freezegun`"), "{why}");
    // A module that the task is to make is no fault of the surroundings.
    let (dir, _outside) = repository("true\n");
    dir.write("plan.json", plan.replace("\"greet.txt\"", "\"greet.txt\", \"freezegun.py\""));
    let red = with_program(&dir, broken, &[&RUN[..], &["--json"]].concat());
    let json = ended(red).json();
    assert!(conversations(&dir, &run_of(&json)).iter().any(|(role, _, _)| role == "builder"), "{json:#}");
}

/// A Python that collects only where a file lies that setup makes.
const NEEDS_SETUP: (&str, &str) = (
    "python3",
    "if test -f ready.py; then echo 'tests/test_a.py::a'; exit 0; fi\necho \"E  ModuleNotFoundError: No module named 'ready'\"\nexit 2\n",
);

fn needing_setup(setup: &str) -> Dir {
    let (dir, _) = repository("true\n");
    let settings = format!("[worktree]\nsetup = \"{setup}\"\ntests = [\"python3 -m pytest\"]\n");
    dir.write("ftl.toml", settings);
    dir
}

#[test]
fn tests_that_only_collect_after_setup_stop_nobody() {
    let dir = needing_setup("touch ready.py");
    let json =
        ended(with_program(&dir, NEEDS_SETUP, &["Mend the word", "--land", "ff", "--json"])).code(0).json();
    assert_eq!(
        (json["standing"].as_str(), dir.read("greet.txt").as_str()),
        (Some("complete"), "hello\n"),
        "{json:#}"
    );
    assert!(!dir.path("ready.py").exists(), "nothing is set up in the person's checkout");
    let dir = needing_setup("true");
    let told: CommandOutcome = ended(with_program(&dir, NEEDS_SETUP, &["Mend the word"])).code(1);
    told.says(&["cannot collect its tests: there is no module `ready`"]);
    assert_eq!(paid(&dir), 0);
}

#[test]
fn a_broken_setup_is_told_before_a_model_is_asked() {
    let dir = needing_setup("echo no network >&2; exit 7");
    let told = ended(with_program(&dir, NEEDS_SETUP, &["Mend the word"])).code(1);
    told.says(&["a new worktree could not be set up", "exit code 7"]);
    for args in [&["campaign", "run", "Mend the word"][..], &["code", "Mend the word"]] {
        let told = ended(with_program(&dir, NEEDS_SETUP, args));
        assert_ne!(told.code, 0, "{told:#?}");
        assert!(told.err.contains("set up") || told.out.contains("set up"), "{told:#?}");
    }
    assert_eq!(paid(&dir), 0);
    assert!(
        std::fs::read_dir(dir.path(".ftl/worktrees")).map_or(0, Iterator::count) == 0,
        "no worktree is left"
    );
}

#[test]
fn no_test_at_all_is_told_and_stops_nobody() {
    let (dir, _outside) = repository("true\n");
    dir.write("ftl.toml", "[worktree]\ntests = [\"python3 -m pytest\"]\n");
    let none = ("python3", "echo 'no tests collected'\nexit 5\n");
    let told = ended(with_program(&dir, none, &["Mend the word", "--dry-run"])).code(0);
    told.says(&["`python3 -m pytest` finds no test"]);
}

#[test]
fn a_killed_run_asks_for_its_base_again_and_leaves_nothing() {
    let (dir, outside) = repository("");
    let gate = outside.path("gate").display().to_string();
    let check =
        format!("{}until test -f '{gate}'; do :; done\ngrep -q hello greet.txt\n", dir.read("check.sh"));
    dir.write("check.sh", check);
    dir.git(&["commit", "-qam", "wait"]);
    with_hanging_builder(&dir);
    let started = dir.start(&[&RUN[..], &["--json"]].concat());
    until("the base is being run", || base_runs(&outside) == 1);
    started.signal(Signal::KILL);
    started.ended();
    dir.write(".ftl/play.toml", script(PLAN));
    outside.write("gate", "");
    let run =
        dir.ftl(&["status", "--all", "--json"]).code(0).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    dir.ftl(&["resume", &run, "--json"]).code(0);
    assert_eq!((base_runs(&outside), dir.read("greet.txt").as_str()), (2, "hello\n"));
    assert_eq!(std::fs::read_dir(dir.path(".ftl/worktrees")).map_or(0, Iterator::count), 0);
}

#[test]
fn a_story_is_ended_with_its_base_too() {
    let (dir, _outside) = repository("no-such-tool --all\n");
    dir.write("ftl.toml", "[worktree]\ntests = [\"sh check.sh\"]\n");
    dir.write(
        ".ftl/play.toml",
        "[[scene]]\nrole = \"coder\"\n[[scene.step]]\nusage = { tokens = 100, money = 500 }\n[[scene.step]]\nhang = true\n",
    );
    let json = dir.ftl(&["code", "Mend the word", "--json"]).code(3).json();
    let run = run_of(&json);
    let why = held_for(&dir, &run);
    assert!(why.contains("there is no program `no-such-tool`"), "{why}");
    assert_eq!(conversations(&dir, &run).len(), 1);
}

#[test]
fn the_coder_of_a_lifecycle_is_not_asked_where_its_tests_cannot_run() {
    let dir = crate::lifecycle::phases::project(&crate::lifecycle::phases::good());
    let settings = dir.read("ftl.toml");
    dir.write("ftl.toml", format!("{settings}[worktree]\ntests = [\"no-such-tool --all\"]\n"));
    dir.git(&["commit", "-qam", "tests"]);
    let id = dir.ftl(&["new", "Add a note", "--json"]).code(0).json()["task"].as_str().unwrap().to_owned();
    let told = dir.ftl(&["next", "--auto", "--task", &id, "--json"]);
    assert_ne!(told.code, 0, "{told:#?}");
    let shown = dir.ftl(&["show", "--task", &id, "--json"]).json();
    let run = shown["run"].as_str().unwrap();
    let who: Vec<String> = conversations(&dir, run).into_iter().map(|(role, _, _)| role).collect();
    assert!(!who.is_empty() && !who.contains(&"coder".to_owned()), "{who:?}");
    let why = held_for(&dir, run);
    assert!(why.contains("there is no program `no-such-tool`"), "{why}");
}
