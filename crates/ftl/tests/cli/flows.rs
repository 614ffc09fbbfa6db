//! The two flows before anything is built: exploring, planning, asking, and everything that is refused.

use ftl_needs::needs;
use serde_json::{Value as Json, json};

use crate::live::Terminal;
use crate::support::{CommandOutcome, Dir, until};

const PYTHON: &[(&str, &str)] = &[
    ("README.md", "# Shop\n## Use\n"),
    (".gitignore", "*.log\n"),
    ("shop/cart.py", "from flask import Flask\n\n\ndef total_price(items):\n    return sum(items)\n"),
    ("shop/app.py", "from flask import Flask\n"),
    ("tests/test_cart.py", "def test_total_price():\n    assert True\n"),
    ("price.log", "total price\n"),
];

const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"shop\"\n"),
    ("src/lib.rs", "/// The total.\npub fn total_price() -> u32 {\n    0\n}\n"),
    ("tests/cart.rs", "#[test]\nfn total_price() {}\n"),
];

const PLAN: &str = r#"{"objective":"Fix the total price","tasks":[{"seq":"001","slug":"fix-total","type":"BUILD",
    "delta":["shop/cart.py"],"verify":"python3 -m pytest tests/test_cart.py","budget":4,"depends":"none"}]}"#;

const PLAN_OF_FOUR: &str = r#"{"objective":"Sell","tasks":[
    {"seq":"001","slug":"cart","delta":["shop/cart.py"],"verify":"true","budget":3},
    {"seq":"002","slug":"till","delta":["shop/cart.py","shop/app.py"],"verify":"true","budget":5},
    {"seq":"003","slug":"both","delta":["shop/cart.py"],"verify":"true","budget":5,"depends":["001","002"]},
    {"seq":"004","slug":"more","delta":["shop/app.py"],"verify":"true","budget":7,"depends":["003"]}]}"#;

/// A repository with one commit.
fn repository(files: &[(&str, &str)]) -> Dir {
    let dir = Dir::repository();
    for (path, text) in files {
        dir.write(path, text);
    }
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    dir
}

/// A scene of a role that submits; `told` is what its prompt must hold.
fn scene(role: &str, told: &str, submit: &str) -> String {
    let told = if told.is_empty() { String::new() } else { format!("told = '''{told}'''\n") };
    format!("[[scene]]\nrole = \"{role}\"\n{told}[[scene.step]]\nsubmit = {submit}\n")
}

/// A planner's answer.
fn says(text: &str) -> String {
    format!("{{ text = '''{text}''' }}")
}

fn proceed(plan: &str) -> String {
    says(&format!("Decision: PROCEED\n\n```json\n{plan}\n```\n"))
}

/// The same repository with agents out of a script.
fn with_agents(dir: Dir, roles: &[&str], scenes: &[String]) -> Dir {
    let roles: String = roles.iter().map(|role| format!("{role} = \"play\"\n")).collect();
    let settings = format!("[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\n{roles}");
    dir.write("ftl.toml", settings).write("play.toml", scenes.concat());
    dir
}

fn exploration(dir: &Dir) -> Json {
    serde_json::from_str(&dir.read(".ftl/exploration.json")).unwrap()
}

fn run_of(ended: &CommandOutcome) -> String {
    let word = ended.out.split_whitespace().skip_while(|word| *word != "run").nth(1);
    word.unwrap_or_else(|| panic!("{ended:#?}")).to_owned()
}

fn count_asked(dir: &Dir, run: &str, whom: &str) -> usize {
    let asked = |entry: &&Json| entry["fact"] == "asked" && entry.to_string().contains(whom);
    dir.entries(run).iter().filter(asked).count()
}

#[test]
fn without_explorers_code_explores_alone() {
    let dir = with_agents(repository(PYTHON), &["planner"], &[scene("planner", "", &proceed(PLAN))]);
    dir.ftl(&["Fix the total price", "--dry-run"]).code(0);
    let found = exploration(&dir);
    for mode in ["structure", "pattern", "memory", "delta"] {
        assert_eq!((&found[mode]["mode"], &found[mode]["status"]), (&json!(mode), &json!("partial")));
        assert!(found[mode]["error"].as_str().unwrap().contains("no agent is bound"), "{found:#}");
    }
    assert_eq!(found["_meta"]["objective"], "Fix the total price");
    assert_eq!(found["_meta"]["git_sha"], dir.git(&["rev-parse", "--short", "HEAD"]).trim());
    let structure = &found["structure"];
    assert_eq!(structure["language"], "python");
    assert_eq!(structure["test_pattern"], "tests/test_*.py");
    assert_eq!(structure["entry_points"], json!(["shop/app.py"]));
    assert_eq!(structure["directories"]["shop"], true);
    // Five files of the commit, settings and script beside them; what git ignores does not count.
    assert_eq!(structure["file_count"], 7, "{structure:#}");
    assert_eq!(
        (&found["pattern"]["framework"], &found["pattern"]["confidence"]),
        (&json!("flask"), &json!(0.85))
    );
    assert_eq!(found["pattern"]["readme_sections"], json!(["Use"]));
    assert_eq!(found["memory"]["total_in_memory"], json!({ "failures": 0, "patterns": 0 }));
    let best = &found["delta"]["candidates"][0];
    assert_eq!(best["path"], "shop/cart.py");
    assert_eq!((&best["relevance"], &best["lines"]), (&json!("high"), &json!(5)));
    assert_eq!(best["functions"], json!([{ "name": "total_price", "line": 4 }]));
    assert!(!found["delta"].to_string().contains("price.log"));
}

#[test]
fn a_rust_repository_is_explored_too() {
    let plan = PLAN.replace("python3 -m pytest tests/test_cart.py", "cargo test --test cart");
    let dir = with_agents(repository(RUST), &["planner"], &[scene("planner", "", &proceed(&plan))]);
    dir.ftl(&["Fix the total price", "--dry-run", "--jobs", "1"]).code(0);
    let found = exploration(&dir);
    assert_eq!(found["structure"]["language"], "rust");
    assert_eq!(found["structure"]["test_pattern"], "tests/*.rs");
    assert_eq!(
        (&found["pattern"]["framework"], &found["pattern"]["confidence"]),
        (&json!("none"), &json!(0))
    );
    assert_eq!(found["delta"]["candidates"][0]["path"], "src/lib.rs");
}

#[test]
fn explorers_are_told_what_code_found_and_their_failure_leaves_it() {
    let delta =
        r#"{ mode = "delta", status = "ok", candidates = [{ path = "shop/app.py", relevance = "high" }] }"#;
    let broken =
        "[[scene]]\nrole = \"explorer\"\nform = \"pattern\"\n[[scene.step]]\ndie = \"it fell over\"\n"
            .to_owned();
    let dark = r#"{ mode = "structure", status = "error", error = "too dark" }"#;
    let failed =
        scene("explorer", "", dark).replace("[[scene.step]]", "form = \"structure\"\n[[scene.step]]");
    let memory = scene("explorer", "", r#"{ mode = "memory", status = "ok" }"#);
    let told = scene("explorer", "\"total_price\"", delta).replacen("told", "form = \"delta\"\ntold", 1);
    let planner = scene("planner", "shop/app.py", &proceed(PLAN));
    let dir =
        with_agents(repository(PYTHON), &["planner", "explorer"], &[broken, failed, told, memory, planner]);
    dir.ftl(&["Fix the total price", "--dry-run"]).code(0);
    let found = exploration(&dir);
    // The agent's candidates stand; what it left out is code's.
    assert_eq!(found["delta"]["candidates"], json!([{ "path": "shop/app.py", "relevance": "high" }]));
    assert_eq!((&found["delta"]["status"], &found["delta"]["confidence"]), (&json!("ok"), &json!(0.7)));
    assert_eq!(found["memory"]["status"], "ok");
    for (mode, why) in [("pattern", "it fell over"), ("structure", "too dark")] {
        assert_eq!(found[mode]["status"], "partial", "{found:#}");
        assert!(found[mode]["error"].as_str().unwrap().contains(why), "{found:#}");
    }
    assert_eq!(
        (&found["pattern"]["framework"], &found["structure"]["language"]),
        (&json!("flask"), &json!("python"))
    );
}

#[test]
fn an_explorer_that_comes_too_late_leaves_what_code_found() {
    let hangs =
        "[[scene]]\nrole = \"explorer\"\nform = \"pattern\"\n[[scene.step]]\nhang = true\n".to_owned();
    let others = scene("explorer", "", r#"{ mode = "structure", status = "ok" }"#);
    let asks = scene("planner", "", &says("Decision: CLARIFY\n\n1. Which total?\n"));
    let dir = with_agents(
        repository(PYTHON),
        &["planner", "explorer", "builder", "observer"],
        &[hangs, others, asks],
    );
    let (_, json) = dir.run(&["task", "objective=Fix the total price", "timeout=2"]);
    assert_eq!((&json["standing"], &json["state"]), (&json!("waiting"), &json!("PLAN")), "{json:#}");
    let found = exploration(&dir);
    assert_eq!(
        (&found["pattern"]["framework"], &found["pattern"]["status"]),
        (&json!("flask"), &json!("partial"))
    );
    assert!(found["pattern"]["error"].as_str().unwrap().contains("did not answer in time"), "{found:#}");
    assert_eq!(found["structure"]["status"], "ok");
}

#[test]
fn a_dry_run_of_a_plan_opens_nothing() {
    let dir = repository(PYTHON);
    dir.write("plan.json", PLAN_OF_FOUR);
    let args = ["campaign", "run", "Sell", "--plan", "plan.json", "--dry-run"];
    let shown = dir.ftl(&args).code(0).says(&[
        "plan Sell",
        "4 tasks, 3 deep, 20 calls of tools in all",
        "001 cart BUILD (depth 0, budget 3)",
        "003 both BUILD (depth 1, budget 5, after 001, 002)",
        "conflict: 001 and 002 both change shop/cart.py",
        "nothing was built",
    ]);
    assert_eq!(shown.out.matches("conflict:").count(), 1, "{shown:#?}");
    let json = dir.ftl(&[&args[..], &["--json"]].concat()).code(0).json();
    let order: Vec<(&str, u64)> = json["order"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["seq"].as_str().unwrap(), one["depth"].as_u64().unwrap()))
        .collect();
    assert_eq!(order, [("001", 0), ("002", 0), ("003", 1), ("004", 2)]);
    assert_eq!((&json["run"], &json["depth"], &json["budget"]), (&Json::Null, &json!(3), &json!(20)));
    assert_eq!(json["conflicts"], json!([{ "tasks": ["001", "002"], "files": ["shop/cart.py"] }]));
    assert_eq!(json["plan"]["tasks"].as_array().unwrap().len(), 4);
    assert!(!dir.path(".ftl").exists());
    // The same plan on standard input.
    dir.fed(&["campaign", "Sell all", "--dry-run", "--plan", "-"], PLAN_OF_FOUR).code(0).says(&["4 tasks"]);
}

#[test]
fn a_dry_run_plans_and_builds_nothing() {
    let dir =
        with_agents(repository(PYTHON), &["planner"], &[scene("planner", "\"candidates\"", &proceed(PLAN))]);
    let ended = dir.ftl(&["task", "run", "Fix", "--dry-run", "--json"]).code(0);
    let json = ended.json();
    let run = json["run"].as_str().unwrap();
    assert_eq!(json["plan"]["tasks"][0]["slug"], "fix-total");
    assert_eq!(dir.status(run)["standing"], "stopped");
    assert!(!dir.path(".ftl/workspace").exists());
    assert_eq!(dir.git(&["branch", "--list", "ftl/*"]), "");
    // A campaign's planner may answer with several tasks.
    dir.write("play.toml", scene("planner", "", &proceed(PLAN_OF_FOUR)));
    let json = dir.ftl(&["campaign", "Sell everything", "--dry-run", "--json"]).code(0).json();
    assert_eq!(json["order"].as_array().unwrap().len(), 4);
    assert_eq!(dir.ftl(&["campaign", "status"]).code(0).json()["status"], "none");
}

#[test]
fn an_invalid_plan_comes_back_with_everything_that_is_wrong() {
    let invalid = r#"{"objective":"x","tasks":[{"seq":"1","slug":"Fix It","delta":["../x"]}]}"#;
    let scenes = [
        scene("planner", "missing required field: verify", &proceed(PLAN)),
        scene("planner", "", &proceed(invalid)),
    ];
    let dir = with_agents(repository(PYTHON), &["planner"], &scenes);
    let json = dir.ftl(&["Fix the total price", "--dry-run", "--json"]).code(0).json();
    let run = json["run"].as_str().unwrap();
    assert_eq!(count_asked(&dir, run, "Task(planner)"), 2);
    let meters = dir.status(run)["meters"]["clarifications"].clone();
    assert_eq!((&meters["used"], &meters["limit"]), (&json!(1), &json!(5)));
    // One that makes another mistake each time is asked six times: five answers are paid for.
    let wrong =
        |number: u32| invalid.replace("\"1\"", "\"001\"").replace("Fix It", &format!("Slug {number}"));
    let others =
        (1..=5).rev().map(|number| scene("planner", &format!("Slug {number}"), &proceed(&wrong(number + 1))));
    let scenes: Vec<String> = others.chain([scene("planner", "", &proceed(&wrong(1)))]).collect();
    dir.write("play.toml", scenes.concat());
    let ended =
        dir.ftl(&["Fix the total price", "--dry-run"]).code(3).says(&["Max clarifications (5) reached"]);
    assert_eq!(count_asked(&dir, &run_of(&ended), "Task(planner)"), 6);
    // One that never learns is asked three times, whatever is left to pay.
    dir.write("play.toml", scene("planner", "", &proceed(invalid)));
    for flow in [&["Fix the total price", "--dry-run"][..], &["campaign", "Fix it all", "--dry-run"]] {
        let ended = dir.ftl(flow).code(3).says(&["slug must be in kebab case", "three times in a row"]);
        assert_eq!(count_asked(&dir, &run_of(&ended), "Task(planner)"), 3);
    }
}

#[test]
fn several_tasks_are_a_problem_of_the_task_flow() {
    let scenes = [
        scene("planner", "use `ftl campaign run`", &proceed(PLAN)),
        scene("planner", "", &proceed(PLAN_OF_FOUR)),
    ];
    let dir = with_agents(repository(PYTHON), &["planner"], &scenes);
    let json = dir.ftl(&["Fix the total price", "--dry-run", "--json"]).code(0).json();
    assert_eq!(json["order"].as_array().unwrap().len(), 1);
    dir.write("plan.json", PLAN_OF_FOUR);
    dir.ftl(&["Fix it all", "--plan", "plan.json"]).code(6).says(&["4 tasks", "ftl campaign run"]);
}

const CLARIFY: &str = "### CLARIFY\n\n## Blocking Questions\n1. Which currency?\n2. With tax?\n";

fn clarifying() -> Dir {
    let scenes = [scene("planner", "in euros", &proceed(PLAN)), scene("planner", "", &says(CLARIFY))];
    with_agents(repository(PYTHON), &["planner"], &scenes)
}

#[test]
fn a_question_of_the_planner_is_answered_from_elsewhere() {
    let dir = clarifying();
    let ended = dir.ftl(&["Fix the total price", "--dry-run"]).code(3);
    let run = run_of(&ended);
    let hint = format!("`ftl answer {run} VALUE` answers: Which currency? / With tax?");
    let ended = ended.says(&["waiting in PLAN", &hint]);
    assert!(!ended.out.contains("nothing was built"), "{ended:#?}");
    dir.ftl(&["answer", &run, "in euros, without"]).code(0);
    let status = dir.status(&run);
    assert_eq!((&status["standing"], &status["state"]), (&json!("held"), &json!("BUILD")), "{status:#}");
    dir.ftl(&["why", &run]).code(0).says(&["this run only plans"]);
    assert!(!dir.path(".ftl/workspace").exists());
}

#[test]
fn a_question_of_the_planner_is_put_at_the_terminal() {
    let dir = clarifying();
    let terminal = Terminal::typing(&dir, &["Fix the total price", "--dry-run"]);
    until("it asks", || terminal.text().contains("With tax?") && terminal.text().contains("> "));
    terminal.enter("");
    until("it asks again", || terminal.text().contains("Ctrl-D"));
    terminal.enter("in euros");
    let (code, text) = terminal.ended();
    assert!(code == 0 && text.contains("Which currency?") && text.contains("nothing was built"), "{text}");
}

#[test]
fn what_is_to_be_confirmed_reaches_the_person_without_a_question_mark() {
    let confirm = says("Decision: CONFIRM\n\nI would change only the cart.\n");
    let scenes = [scene("planner", "go ahead", &proceed(PLAN)), scene("planner", "", &confirm)];
    let dir = with_agents(repository(PYTHON), &["planner"], &scenes);
    let ended = dir.ftl(&["Fix the total price", "--dry-run"]).code(3);
    let run = run_of(&ended.says(&["I would change only the cart."]));
    dir.ftl(&["answer", &run, "go ahead"]).code(0);
    assert_eq!(dir.status(&run)["state"], "BUILD");
}

#[test]
fn the_end_of_input_leaves_the_question_open() {
    let dir = clarifying();
    let terminal = Terminal::typing(&dir, &["Fix the total price", "--dry-run"]);
    until("it asks", || terminal.text().contains("> "));
    terminal.send("\u{4}");
    let (code, text) = terminal.ended();
    assert!(code == 3 && text.contains("ftl answer"), "{code} {text}");
}

#[test]
fn a_signal_ends_the_waiting_for_an_answer() {
    let dir = clarifying();
    let terminal = Terminal::typing(&dir, &["Fix the total price", "--dry-run"]);
    until("it asks", || terminal.text().contains("> "));
    terminal.signal(rustix::process::Signal::INT);
    let (code, text) = terminal.ended();
    assert!(code == 130 && text.contains("interrupted"), "{code} {text}");
}

/// A flow that only asks how to land.
const LANDING: &str = "INPUT: objective\nSTATE: COMPLETE\n  \
    ASK: landing = \"Land it?\" choices=ff|squash|branch-only\n  RETURN: complete how={landing}\n";

#[test]
fn where_nobody_can_be_asked_the_work_stays_on_its_branch() {
    let dir = repository(PYTHON);
    dir.protocol("task", LANDING);
    let ended = dir.ftl(&["Fix the total price"]).code(0);
    let run = run_of(&ended);
    assert_eq!(
        ended.out.lines().last().unwrap(),
        format!("nobody was asked how to land it: the work is on the branch ftl/{run}")
    );
    assert_eq!(dir.entries(&run).pop().unwrap()["values"]["how"], "branch-only");
    let ended = dir.ftl(&["Fix the total price", "--json"]).code(0);
    assert!(ended.json()["standing"] == "complete" && ended.err.contains("the branch ftl/"), "{ended:#?}");
    // What the settings say counts.
    for (policy, code, how) in [("squash", 0, "\"squash\""), ("hold", 3, "null")] {
        dir.write(".ftl/config.toml", format!("[policies]\ntask.COMPLETE = \"{policy}\"\n"));
        let ended = dir.ftl(&["Fix the total price"]).code(code);
        assert!(!ended.out.contains("nobody was asked"), "{ended:#?}");
        let last = dir.entries(&run_of(&ended)).pop().unwrap();
        assert_eq!(last["values"]["how"].to_string(), how, "{last:#}");
    }
}

#[test]
fn at_a_terminal_the_person_chooses_how_to_land() {
    let dir = repository(PYTHON);
    dir.protocol("task", LANDING);
    let terminal = Terminal::typing(&dir, &["Fix the total price"]);
    until("it asks", || terminal.text().contains("branch-only") && terminal.text().contains("> "));
    terminal.enter("merge");
    until("it says what there is", || terminal.text().contains("it is one of ff, squash, branch-only"));
    terminal.enter("2");
    let (code, text) = terminal.ended();
    assert!(code == 0 && !text.contains("nobody was asked"), "{text}");
    let run = dir.ftl(&["status", "--all", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    let entries = dir.entries(&run);
    assert_eq!(entries.last().unwrap()["values"]["how"], "squash");
    assert!(entries.iter().any(|entry| entry["by"] == "Ada"), "{entries:#?}");
}

#[test]
fn a_plan_is_found_by_whoever_takes_the_run_over() {
    let dir = repository(PYTHON);
    let flow = "INPUT: objective\nSTATE: PLAN\n  ASK: go = \"Go?\"\n  \
        DO: draft = Task(planner) input={objective}\n  CHECK: found = plan.parse text={draft.text}\n  \
        RETURN: complete plan={found.plan}\n";
    // What cannot be run here, such as a pytest that is not installed, would be told before the run is opened.
    dir.protocol("task", flow).write("plan.json", PLAN.replace("python3 -m pytest", "cat"));
    let ended = dir.ftl(&["task", "run", "Fix", "--plan", "plan.json"]).code(3);
    let run = run_of(&ended);
    std::fs::remove_file(dir.path("plan.json")).unwrap();
    dir.ftl(&["answer", &run, "yes"]).code(0);
    let last = dir.entries(&run).pop().unwrap();
    assert_eq!(last["values"]["plan"]["tasks"][0]["slug"], "fix-total", "{last:#}");
}

#[test]
fn what_cannot_be_done_is_told_before_anything_is_opened() {
    let dir = repository(PYTHON);
    dir.write("plan.json", "{\"tasks\":[{\"seq\":\"1\"}]}").write("good.json", PLAN).write("bad.json", "{");
    let long = "x ".repeat(9000);
    let cases: [(&[&str], i32, &[&str]); 12] = [
        (&[""], 2, &["the objective is empty", "hint:"]),
        (&["  \n "], 2, &["the objective is empty"]),
        (&["task", "run", ""], 2, &["the objective is empty"]),
        (&[&long], 2, &["16384 is the most"]),
        (&["fix it", "--nope"], 2, &["--nope"]),
        (&["fix it", "--jobs", "0"], 2, &["0 is not in"]),
        (&["fix it", "--jobs", "4097"], 2, &["4097 is not in"]),
        (&["fix it", "now please"], 2, &["now please"]),
        (&["fix it", "--plan", "none.json"], 1, &["none.json", "cannot be read"]),
        (&["fix it", "--plan", "bad.json"], 6, &["bad.json", "not valid"]),
        (
            &["fix it", "--plan", "plan.json"],
            6,
            &["missing required field: verify", "missing required field: delta"],
        ),
        (&["fix it", "--plan", "good.json"], 1, &["no agent is bound to builder", "ftl init"]),
    ];
    for (args, code, says) in cases {
        dir.ftl(args).code(code).says(says);
        let runs = dir.ftl(&["status", "--all", "--json"]).code(0).json()["runs"].clone();
        assert_eq!(runs, json!([]), "{args:?}");
    }
    dir.ftl(&["task"]).code(2).says(&["ftl task", "run"]);
    dir.ftl(&["fix"])
        .code(2)
        .says(&["'fix'", "hint: an objective of one word needs its flow: ftl task run fix"]);
    dir.ftl(&["campaign", "fix"]).code(2).says(&["'fix'", "ftl campaign run fix"]);
    let typo = dir.ftl(&["memory", "qery"]).code(2);
    assert!(!typo.err.contains("one word"), "{typo:#?}");
}

#[test]
fn flows_need_git_and_a_commit() {
    let bare = Dir::new();
    for args in [&["fix it"][..], &["campaign", "fix it"], &["task", "run", "fix", "--dry-run"]] {
        bare.ftl(args).code(1).says(&["is in no git repository", "hint: flows need git"]);
    }
    assert!(!bare.path(".ftl").exists());
    Dir::repository().ftl(&["fix it"]).code(1).says(&["has no commit", "git commit"]);
    let json = bare.ftl(&["fix it", "--json"]).code(1).json();
    assert_eq!(json["ok"], false);
}

#[test]
fn a_bare_repository_is_refused_before_anybody_is_asked() {
    let dir = with_agents(Dir::repository(), &["default"], &[scene("planner", "", &proceed(PLAN))]);
    std::fs::remove_dir_all(dir.path(".git")).unwrap();
    dir.git(&["init", "-q", "--bare", "."]);
    for args in [&["fix it"][..], &["campaign", "fix it"], &["code", "fix it"]] {
        dir.ftl(args).code(1).says(&["is a bare repository", "clone"]);
    }
    assert!(!dir.path(".ftl").exists(), "nothing was opened");
}

#[needs(root)]
#[test]
fn a_repository_of_another_user_is_told_with_the_command_that_trusts_it() {
    let dir = repository(PYTHON);
    let other = Some(rustix::fs::Uid::from_raw(12345));
    for path in ["", ".git"] {
        rustix::fs::chown(dir.path(path), other, None).unwrap();
    }
    let safe = format!("git config --global --add safe.directory {}", dir.path("").display());
    let safe = safe.trim_end_matches('/');
    for args in [&["fix it"][..], &["code", "fix it"]] {
        dir.ftl(args).code(1).says(&["dubious ownership", safe]);
    }
}

#[test]
fn a_bad_plan_is_told_a_problem_a_line_and_as_one_message_in_a_document() {
    let dir = repository(PYTHON);
    dir.write("plan.json", r#"{"objective": "x", "tasks": [{"seq": "1"}]}"#);
    let said = dir.ftl(&["fix it", "--plan", "plan.json"]).code(6);
    let lines: Vec<&str> = said.err.lines().filter(|line| line.starts_with("  tasks[0]")).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| !line.contains("Task 0")), "{said:#?}");
    let json = dir.ftl(&["fix it", "--plan", "plan.json", "--json"]).code(6).json();
    let message = json["error"]["message"].as_str().unwrap();
    assert!(message.contains("; ") && !message.contains('\n'), "{message}");
}

#[test]
fn usage_errors_are_a_document_too() {
    let dir = Dir::new();
    for args in [&["--json", "nonsense"][..], &["status", "--nope", "--json"], &["run", "--json"]] {
        let said = dir.ftl(args).code(2);
        let json = said.json();
        assert_eq!(json["ok"], false);
        let message = json["error"]["message"].as_str().unwrap();
        assert!(
            !message.is_empty() && !message.starts_with("error") && said.err.contains("error:"),
            "{said:#?}"
        );
        assert!(!json["error"]["hint"].as_str().unwrap().is_empty());
    }
    assert_eq!(dir.ftl(&["nonsense"]).code(2).out, "");
}
