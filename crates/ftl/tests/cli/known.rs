//! What is known before anybody is paid: how a repository is tested, who answers which role, and what one run may use.

use serde_json::{Value as Json, json};

use crate::support::Dir;

pub(crate) const PLAN: &str = r#"{"objective":"Mend the word","tasks":[{"seq":"001","slug":"mend-word","type":"BUILD",
    "delta":["greet.txt"],"verify":"sh check.sh","budget":6,"depends":"none"}]}"#;

/// A repository whose test is a script of its own, named by a justfile.
pub(crate) fn repository() -> Dir {
    let dir = Dir::repository();
    dir.write("greet.txt", "helo\n").write("check.sh", "grep -q hello greet.txt\n");
    dir.write("justfile", "test:\n    sh check.sh\n").write(".gitignore", "*.log\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    dir
}

/// A script that plays every role: the planner says the plan, the builder writes the word.
pub(crate) fn script(plan: &str) -> String {
    let text = format!("Decision: PROCEED\n\n```json\n{plan}\n```\n");
    let scene = |role: &str, form: &str, steps: &str| {
        let form = if form.is_empty() { String::new() } else { format!("form = \"{form}\"\n") };
        format!("[[scene]]\nrole = \"{role}\"\n{form}{steps}")
    };
    let write = "[[scene.step]]\ncalls = [{ tool = \"write\", path = \"greet.txt\", content = \"hello\\n\" }]\n\
        usage = { tokens = 700, money = 2000 }\n";
    [
        scene(
            "planner",
            "",
            &format!("[[scene.step]]\nusage = {{ tokens = 700, money = 2000 }}\nsubmit = {{ text = '''{text}''' }}\n"),
        ),
        scene("builder", "plan", "[[scene.step]]\nsubmit = { approach = \"write it\" }\n"),
        scene(
            "builder",
            "implement",
            &format!("{write}[[scene.step]]\nsubmit = {{ summary = \"Mend the word\", utilized = [] }}\n"),
        ),
        scene("explorer", "", "[[scene.step]]\ndie = \"an explorer was asked\"\n"),
        scene("observer", "", "[[scene.step]]\nsubmit = { summary = \"nothing\" }\n"),
    ]
    .concat()
}

pub(crate) fn bound(dir: &Dir, roles: &str, plan: &str) {
    let agent = |name: &str| format!("[agents.{name}]\nkind = \"scripted\"\nscript = \"play.toml\"\n");
    let settings = format!("{}{}[roles]\n{roles}", agent("play"), agent("other"));
    dir.write(".ftl/config.toml", settings).write(".ftl/play.toml", script(plan));
}

/// The conversations of a run: who was asked, by agent and model.
pub(crate) fn conversations(dir: &Dir, run: &str) -> Vec<(String, String, String)> {
    // Where no agent was asked there is nothing to read.
    let out = dir.ftl(&["transcript", run, "--json"]).out;
    let lines = out.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let text = |line: &Json, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let prompts = lines.filter(|line| line["kind"] == "prompt");
    let mut all: Vec<(String, (String, String, String))> = prompts
        .map(|line| {
            let key = format!("{} {}", line["action"], line["conversation"]);
            (key, (text(&line, "role"), text(&line, "agent"), text(&line, "model")))
        })
        .collect();
    all.dedup_by(|one, other| one.0 == other.0);
    all.into_iter().map(|(_, who)| who).collect()
}

#[test]
fn a_small_change_costs_three_conversations_and_explorers_are_asked_where_they_are_named() {
    let dir = repository();
    bound(&dir, "default = \"play\"\n", PLAN);
    let json = dir.ftl(&["Mend the word", "--land", "ff", "--json"]).code(0).json();
    let run = json["run"].as_str().unwrap();
    let who: Vec<String> = conversations(&dir, run).into_iter().map(|(role, _, _)| role).collect();
    assert!(who.len() <= 3, "{who:?}");
    assert!(who.contains(&"planner".into()) && who.contains(&"builder".into()), "{who:?}");
    assert_eq!(dir.read("greet.txt"), "hello\n");
    let other = repository();
    bound(&other, "default = \"play\"\nobserver = \"play\"\n", PLAN);
    let json = other.ftl(&["Mend the word", "--land", "ff", "--json"]).code(0).json();
    let who = conversations(&other, json["run"].as_str().unwrap());
    assert_eq!(who.iter().filter(|(role, _, _)| role == "observer").count(), 1, "{who:?}");
    let other = repository();
    bound(&other, "default = \"play\"\nexplorer = \"play\"\n", PLAN);
    let json = other.ftl(&["Mend the word", "--dry-run", "--json"]).code(0).json();
    let who = conversations(&other, json["run"].as_str().unwrap());
    assert_eq!(who.iter().filter(|(role, _, _)| role == "explorer").count(), 4, "{who:?}");
}

#[test]
fn the_commands_of_a_repository_reach_exploration_planner_and_dry_run() {
    let dir = repository();
    bound(&dir, "planner = \"play\"\n", PLAN);
    let json = dir.ftl(&["Mend the word", "--dry-run", "--json"]).code(0).json();
    assert_eq!(json["commands"], json!({ "tests": ["just test"], "lints": [] }));
    let found: Json = serde_json::from_str(&dir.read(".ftl/exploration.json")).unwrap();
    assert_eq!(found["structure"]["commands"]["tests"], json!(["just test"]));
    let told = dir.ftl(&["transcript", json["run"].as_str().unwrap(), "--all"]).code(0).out;
    assert!(told.contains("just test"), "the planner is told: {told}");
    dir.write("ftl.toml", "[worktree]\ntests = [\"sh check.sh\"]\n").write("plan.json", PLAN);
    dir.ftl(&["Mend the word", "--plan", "plan.json", "--dry-run"])
        .code(0)
        .says(&["tests sh check.sh (worktree.tests)", "verify  sh check.sh"]);
}

#[test]
fn a_verify_that_names_a_file_that_nobody_has_or_makes_is_a_problem_of_the_plan() {
    let dir = repository();
    let plan = PLAN.replace("sh check.sh", "node --test tests/word.test.js");
    dir.write("plan.json", &plan);
    bound(&dir, "default = \"play\"\n", &plan);
    for more in [&["--dry-run"][..], &[]] {
        let args = [&["Mend the word", "--plan", "plan.json"], more].concat();
        dir.ftl(&args).code(6).says(&["task 001: verify names `tests/word.test.js`, which does not exist"]);
    }
    assert!(!dir.path(".ftl/store").exists(), "nothing was opened");
    let json = dir.ftl(&["Mend the word", "--dry-run", "--json"]).code(3).json();
    let run = json["run"].as_str().unwrap().to_owned();
    let who = conversations(&dir, &run);
    assert!(who.iter().all(|(role, _, _)| role == "planner"), "no builder is paid: {who:?}");
    let told = dir.ftl(&["transcript", &run, "--all"]).code(0).out;
    assert!(told.contains("verify names `tests/word.test.js`"), "the planner is told: {told}");
    // What another task of the plan makes is no problem.
    dir.write("plan.json", plan.replace("\"greet.txt\"", "\"greet.txt\", \"tests/word.test.js\""));
    dir.ftl(&["Mend the word", "--plan", "plan.json", "--dry-run"]).code(0);
}

#[test]
fn an_agent_and_a_model_are_chosen_for_one_run_and_stay_with_it() {
    let dir = repository();
    bound(&dir, "default = \"play\"\nplanner = { agent = \"play\", model = \"small\" }\n", PLAN);
    let chosen = ["Mend the word", "--agent", "other", "--model", "large", "--json"];
    let json = dir.ftl(&chosen).code(0).json();
    let who = conversations(&dir, json["run"].as_str().unwrap());
    assert!(!who.is_empty());
    for (role, agent, model) in &who {
        assert_eq!((agent.as_str(), model.as_str()), ("other", "large"), "{role}");
    }
    dir.ftl(&["Mend the word", "--agent", "othr"])
        .code(1)
        .says(&["there is no agent `othr`", "did you mean `other`?"]);
    dir.ftl(&["code", "Mend the word", "--agent", "nobody"]).code(1).says(&["there is no agent `nobody`"]);
    // Whoever resumes a run goes on with the same agents.
    dir.write(".ftl/play.toml", "[[scene]]\nrole = \"planner\"\n[[scene.step]]\nask = \"which word?\"\n");
    let json = dir.ftl(&chosen).code(3).json();
    let run = json["run"].as_str().unwrap().to_owned();
    dir.write(".ftl/play.toml", script(PLAN));
    dir.ftl(&["answer", &run, "hello"]).code(0);
    let who = conversations(&dir, &run);
    assert!(
        who.len() > 1 && who.iter().all(|(_, agent, model)| agent == "other" && model == "large"),
        "{who:?}"
    );
}

#[test]
fn one_run_may_use_less_than_the_settings_allow() {
    let dir = repository();
    bound(&dir, "default = \"play\"\n", PLAN);
    let json =
        dir.ftl(&["Mend the word", "--max-tokens", "1000", "--max-cost", "0.01", "--json"]).code(3).json();
    let run = json["run"].as_str().unwrap();
    let opened = dir.entries(run)[0].clone();
    assert_eq!(opened["terms"]["limits"]["tokens"], 1000, "{opened:#}");
    assert_eq!(opened["terms"]["limits"]["money"], 10_000, "{opened:#}");
    assert_eq!(opened["terms"]["reserve"]["tokens"], 250, "{opened:#}");
    assert_eq!(json["standing"], "held", "{json:#}");
    assert_eq!(dir.read("greet.txt"), "helo\n");
    let json = dir.ftl(&["Mend the word", "--max-tokens", "50k", "--json"]).code(0).json();
    assert_eq!(json["standing"], "complete");
    for args in [["--max-cost", "0"], ["--max-tokens", "none"], ["--max-cost", "-1"]] {
        dir.ftl(&[&["Mend the word"][..], &args].concat()).code(2);
    }
}

/// A `python3` that cannot collect tests, before all others in the PATH.
fn with_broken_python(dir: &Dir, args: &[&str]) -> std::process::Command {
    use std::os::unix::fs::PermissionsExt as _;
    dir.write(
        "bin/python3",
        "#!/bin/sh\necho \"E   ModuleNotFoundError: No module named 'freezegun'\"\nexit 2\n",
    );
    std::fs::set_permissions(dir.path("bin/python3"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = dir.command(args);
    command.env("PATH", format!("{}:{}", dir.path("bin").display(), std::env::var("PATH").unwrap()));
    command
}

#[test]
fn a_broken_environment_is_told_before_a_model_is_asked() {
    let dir = repository();
    bound(&dir, "default = \"play\"\n", PLAN);
    dir.write("plan.json", PLAN.replace("sh check.sh", "no-such-program --all"));
    let ended = dir.ftl(&["Mend the word", "--plan", "plan.json"]).code(1);
    ended.says(&["there is no program `no-such-program`", "hint: install"]);
    dir.write("ftl.toml", "[worktree]\ntests = [\"python3 -m pytest\"]\n");
    for args in [&["Mend the word"][..], &["code", "Mend the word", "--json"]] {
        let ended = crate::support::ended(with_broken_python(&dir, args));
        assert_ne!(ended.code, 0, "{ended:#?}");
        ended.says(&["`python3 -m pytest` cannot collect its tests: there is no module `freezegun`"]);
    }
    for row in dir.ftl(&["status", "--all", "--json"]).code(0).json()["runs"].as_array().unwrap() {
        let run = row["run"].as_str().unwrap();
        assert_eq!(conversations(&dir, run), [], "nobody was paid");
    }
    // What was only found is told, and a plan may do without it.
    dir.write("ftl.toml", "").write("pytest.ini", "[pytest]\n");
    std::fs::remove_file(dir.path("justfile")).unwrap();
    let ended = crate::support::ended(with_broken_python(&dir, &["Mend the word", "--dry-run"])).code(0);
    ended.says(&["note: the tests may not run here", "freezegun"]);
}
