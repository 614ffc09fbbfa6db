//! `ftl workspace`: briefs are made, ended and read, and none is ever lost.

use serde_json::json;

use crate::campaign::{PLAN, campaign, run_json};
use crate::support::Dir;

fn made() -> Dir {
    let dir = campaign();
    dir.write("plan.json", PLAN).write("src/a.py", "import os\n\ndef login():\n    pass\n");
    let said = dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    assert_eq!(said.out.lines().next(), Some("Created: .ftl/workspace/001_spec_active.xml"));
    assert_eq!((said.out.lines().count(), said.err.as_str()), (4, ""));
    dir
}

fn files(dir: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path(".ftl/workspace")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_brief_has_its_code_and_parses_in_order() {
    let dir = made();
    let said = dir.ftl(&["workspace", "parse", ".ftl/workspace/002_build_active.xml"]).code(0);
    let json = said.json();
    let wanted = [
        "id",
        "status",
        "created_at",
        "completed_at",
        "blocked_at",
        "objective",
        "delta",
        "verify",
        "verify_source",
        "budget",
        "preflight",
        "delivered",
        "code_context",
    ];
    let places: Vec<usize> =
        wanted.iter().map(|key| said.out.find(&format!("\n  \"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{}", said.out);
    assert_eq!(
        (&json["id"], &json["status"], &json["completed_at"]),
        (&json!("002-build"), &json!("active"), &json!(null))
    );
    assert_eq!(
        (&json["code_context"]["exports"], &json["code_context"]["imports"]),
        (&json!("login()"), &json!("import os"))
    );
    assert_eq!((&json["framework"], &json["framework_confidence"]), (&json!("FastAPI"), &json!(0.5)));
    assert!(!json["idioms"]["required"].as_array().unwrap().is_empty(), "the name is known in any case");
}

#[test]
fn one_task_is_made_by_its_seq_in_any_spelling() {
    let dir = campaign();
    let said = dir.fed(&["workspace", "create", "--plan", "-", "--task", "2"], PLAN).code(0);
    assert_eq!(said.out, "Created: .ftl/workspace/002_build_active.xml\n");
    dir.fed(&["workspace", "create", "--plan", "-", "--task", "9"], PLAN).code(1).says(&["Unknown task: 9"]);
    dir.fed(&["workspace", "create", "--plan", "-"], "{").code(1).says(&["Plan is"]);
    dir.ftl(&["workspace", "create", "--plan", "nowhere.json"]).code(1).says(&["nowhere.json"]);
    dir.ftl(&["workspace", "create"]).code(2).says(&["--plan"]);
    assert_eq!(files(&dir), ["002_build_active.xml"]);
}

#[test]
fn only_an_active_workspace_can_end_and_nothing_else_is_touched() {
    let dir = made();
    let said = dir
        .ftl(&["workspace", "complete", ".ftl/workspace/001_spec_active.xml", "--delivered", "done"])
        .code(0);
    assert_eq!(
        (said.out.as_str(), said.err.as_str()),
        ("Completed: .ftl/workspace/001_spec_complete.xml\n", "")
    );
    let text = dir.read(".ftl/workspace/001_spec_complete.xml");
    for words in [
        &["complete", ".ftl/workspace/001_spec_complete.xml", "--delivered", "again"][..],
        &["block", ".ftl/workspace/001_spec_complete.xml", "--reason", "again"],
        &["complete", ".ftl/workspace/001_spec_active.xml", "--delivered", "again"],
    ] {
        let words: Vec<&str> = ["workspace"].iter().chain(words).copied().collect();
        assert_eq!(dir.ftl(&words).code(1).out, "");
    }
    assert_eq!(dir.read(".ftl/workspace/001_spec_complete.xml"), text);
    dir.ftl(&["workspace", "complete", ".ftl/workspace/002_build_active.xml"]).code(2).says(&["--delivered"]);
    dir.ftl(&["workspace", "block", ".ftl/workspace/002_build_active.xml"]).code(2).says(&["--reason"]);
    dir.ftl(&["workspace", "block", ".ftl/workspace/002_build_active.xml", "--reason", ""])
        .code(1)
        .says(&["reason"]);
    assert_eq!(files(&dir).len(), 4);
}

#[test]
fn the_campaign_hears_of_every_end_in_the_same_change() {
    let dir = made();
    dir.ftl(&["workspace", "complete", ".ftl/workspace/001_spec_active.xml", "--delivered", "done"]).code(0);
    dir.ftl(&["workspace", "block", ".ftl/workspace/004_apart_active.xml", "--reason", "no"]).code(0);
    let tasks = run_json(&dir, &["campaign", "status"])["tasks"].clone();
    assert_eq!((&tasks[0]["status"], &tasks[3]["status"]), (&json!("complete"), &json!("blocked")));
    dir.write(".ftl/campaign.json", "broken");
    let active = ".ftl/workspace/002_build_active.xml";
    dir.ftl(&["workspace", "complete", active, "--delivered", "x"]).code(1).says(&[".ftl/campaign.json"]);
    assert!(dir.path(active).exists(), "refused whole");
}

#[test]
fn a_reason_keeps_what_was_tried_and_what_is_unknown() {
    let dir = made();
    let path = ".ftl/workspace/002_build_active.xml";
    let said = dir
        .ftl(&["workspace", "block", path, "--reason", r"BLOCKED: no module\nTried: pip\nUnknown: why"])
        .code(0);
    assert_eq!(said.out, "Blocked: .ftl/workspace/002_build_blocked.xml\n");
    let json = run_json(&dir, &["workspace", "parse", ".ftl/workspace/002_build_blocked.xml"]);
    assert_eq!(json["delivered"], "BLOCKED: no module\nTried: pip\nUnknown: why");
    let failure = run_json(&dir, &["observer", "extract-failure", ".ftl/workspace/002_build_blocked.xml"]);
    assert_eq!((&failure["trigger"], &failure["fix"]), (&json!("no module"), &json!("Attempted: pip")));
    let said = dir.fed(
        &[
            "workspace",
            "block",
            ".ftl/workspace/004_apart_active.xml",
            "--reason-file",
            "-",
            "--tried",
            "all",
        ],
        "no way\n",
    );
    assert_eq!(said.code(0).out, "Blocked: .ftl/workspace/004_apart_blocked.xml\n");
}

#[test]
fn any_byte_of_a_source_file_survives() {
    let dir = campaign();
    dir.write("plan.json", PLAN.replace(r#""src/a.py""#, r#""src/a.py", "raw.bin", "src""#));
    dir.write("src/a.py", "x = 1\n\u{c}\n]]> <&> \u{0}\u{1b}[31m\u{fffe}\n")
        .write("raw.bin", [0xff, 0x00, 0xfe]);
    dir.ftl(&["workspace", "create", "--plan", "plan.json", "--task", "002"]).code(0);
    let json = run_json(&dir, &["workspace", "parse", ".ftl/workspace/002_build_active.xml"]);
    let contexts = json["code_contexts"].as_array().unwrap();
    assert_eq!(contexts[0]["content"], "x = 1\n\u{c}\n]]> <&> \u{0}\u{1b}[31m\u{fffe}\n");
    assert_eq!(contexts[1]["content_hex"], "ff00fe");
}

#[test]
fn a_workspace_that_attacks_is_refused() {
    let dir = campaign();
    let bomb = r#"<?xml version="1.0"?><!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]><workspace id="1-a" status="active">&a;</workspace>"#;
    dir.write("001_a_active.xml", bomb);
    let said = dir.ftl(&["workspace", "parse", "001_a_active.xml"]).code(1);
    assert!(said.out.is_empty() && !said.err.contains("root:"), "{said:?}");
    dir.ftl(&["workspace", "parse", "nowhere.xml"]).code(1).says(&["nowhere.xml"]);
    dir.ftl(&["workspace", "complete", "001_a_active.xml", "--delivered", "x"]).code(1);
    assert_eq!(dir.read("001_a_active.xml"), bomb);
    let slug = PLAN.replace("\"slug\": \"spec\"", "\"slug\": \"../../up\"");
    dir.fed(&["workspace", "create", "--plan", "-"], &slug).code(1).says(&["slug"]);
}

#[test]
fn lineage_and_failures_of_siblings_reach_the_next_brief() {
    let dir = made();
    dir.ftl(&[
        "workspace",
        "complete",
        ".ftl/workspace/001_spec_active.xml",
        "--delivered",
        "tests \u{2192} written",
    ])
    .code(0);
    dir.ftl(&["workspace", "block", ".ftl/workspace/004_apart_active.xml", "--reason", "port 80 is taken"])
        .code(0);
    dir.ftl(&["workspace", "create", "--plan", "plan.json", "--task", "002"]).code(0);
    let json = run_json(&dir, &["workspace", "parse", ".ftl/workspace/002_build_active.xml"]);
    assert_eq!(
        (&json["lineage"]["prior_delivery"], &json["lineage"]["parents"][0]["seq"]),
        (&json!("tests \u{2192} written"), &json!("001"))
    );
    let sibling = &json["prior_knowledge"]["failures"][0];
    assert_eq!(
        (&sibling["name"], &sibling["injected"]),
        (&json!("sibling-004_apart_blocked"), &json!(false)),
        "{json}"
    );
    dir.ftl(&["campaign", "create", "another"]).code(0);
    dir.ftl(&["workspace", "create", "--plan", "plan.json", "--task", "003"]).code(0);
    let other = run_json(&dir, &["workspace", "parse", ".ftl/workspace/003_check_active.xml"]);
    assert!(other.get("prior_knowledge").is_none(), "blocks of another campaign stay there: {other}");
}

#[test]
fn with_a_framework_memory_is_still_injected_and_its_use_counted() {
    let dir = campaign();
    let lesson = |name: &str, trigger: &str| {
        json!({"name": name, "trigger": trigger, "fix": "do so", "cost": 4000}).to_string()
    };
    dir.ftl(&[
        "memory",
        "add-failure",
        "--json",
        &lesson("used", "login build breaks when the session is missing"),
    ])
    .code(0);
    dir.ftl(&[
        "memory",
        "add-failure",
        "--json",
        &lesson("unused", "login build fails without a secret key"),
    ])
    .code(0);
    dir.fed(&["workspace", "create", "--plan", "-", "--task", "2"], PLAN).code(0);
    let path = ".ftl/workspace/002_build_active.xml";
    let json = run_json(&dir, &["workspace", "parse", path]);
    let mut names: Vec<&str> = json["prior_knowledge"]["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["unused", "used"]);
    dir.ftl(&["workspace", "complete", path, "--delivered", "done", "--utilized", r#"[{"name": "used"}]"#])
        .code(0);
    let memory = run_json(&dir, &["memory", "export"]);
    let counts = |name: &str| {
        let found = memory["failures"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
        (found["times_helped"].as_u64().unwrap(), found["times_failed"].as_u64().unwrap())
    };
    assert_eq!((counts("used"), counts("unused")), ((1, 0), (0, 1)));
    dir.fed(&["workspace", "create", "--plan", "-", "--task", "1"], PLAN).code(0);
    let bad = dir.ftl(&[
        "workspace",
        "complete",
        ".ftl/workspace/001_spec_active.xml",
        "--delivered",
        "x",
        "--utilized",
        "{",
    ]);
    bad.code(1);
    assert!(dir.path(".ftl/workspace/001_spec_active.xml").exists());
}

#[test]
fn paths_hold_from_a_folder_below_and_elsewhere() {
    let dir = made();
    dir.write("deep/er/x", "");
    let mut command = dir.command(&[
        "workspace",
        "complete",
        "../../.ftl/workspace/001_spec_active.xml",
        "--delivered",
        "x",
    ]);
    command.current_dir(dir.path("deep/er"));
    crate::support::ended(command).code(0).says(&["Completed: ../../.ftl/workspace/001_spec_complete.xml"]);
    assert!(!dir.path("deep/er/.ftl").exists());
    let text = dir.read(".ftl/workspace/002_build_active.xml");
    dir.write("away/002_build_active.xml", text);
    dir.ftl(&["workspace", "block", "away/002_build_active.xml", "--reason", "no"]).code(0);
    assert!(
        dir.path("away/002_build_blocked.xml").exists() && !dir.path("away/002_build_active.xml").exists()
    );
    assert!(
        dir.path(".ftl/workspace/002_build_active.xml").exists(),
        "another file of that name is not ours"
    );
}

/// Scripts of the FTL plugin take plans that its own validator refuses (decision 21 in docs/origins.md); the flows and the validator stay strict.
#[test]
fn a_plan_without_an_objective_or_without_tasks_is_taken_as_the_original_takes_it() {
    let task = r#"{"seq": "001", "slug": "one", "delta": ["a.py"], "verify": "true"}"#;
    let dir = Dir::new();
    let create = |plan: &str| dir.fed(&["workspace", "create", "--plan", "-"], plan).code(0);
    let said = create(&format!(r#"{{"campaign": "tidy-up", "tasks": [{task}]}}"#))
        .says(&["note: the plan names no objective: `tidy-up` stands in for it"]);
    assert_eq!(said.out, "Created: .ftl/workspace/001_one_active.xml\n");
    let parse = || run_json(&dir, &["workspace", "parse", ".ftl/workspace/001_one_active.xml"]);
    assert_eq!(parse()["objective"], "tidy-up");
    create(&format!(r#"{{"tasks": [{task}]}}"#)).says(&["note: the plan names no objective"]);
    assert_eq!(parse()["objective"], "");
    dir.ftl(&["campaign", "create", "clean the parser"]).code(0);
    create(&format!(r#"{{"objective": " ", "tasks": [{task}]}}"#)).says(&["`clean the parser` stands in"]);
    assert_eq!(parse()["objective"], "clean the parser");
    for plan in [r#"{"objective": "x", "tasks": []}"#, r#"{"objective": "x"}"#] {
        let said = create(plan).says(&["note: the plan has no tasks: no workspace is made"]);
        assert_eq!(said.out, "");
    }
    let broken = r#"{"tasks": [{"seq": "001", "delta": [], "verify": "true"}]}"#;
    dir.fed(&["workspace", "create", "--plan", "-"], broken).code(1).says(&["slug", "delta"]);
    let strict = dir.fed(&["decision", "-", "--validate"], r#"{"tasks": []}"#);
    strict.says(&["Missing required field: objective", "tasks list is empty"]);
}

#[test]
fn a_lesson_without_a_fix_is_not_told() {
    let dir = campaign();
    let lessons = [
        ("open", "login breaks when the session is missing", "UNKNOWN"),
        ("solved", "login build fails without a secret key", "set the secret key"),
    ];
    for (name, trigger, fix) in lessons {
        let lesson = json!({ "name": name, "trigger": trigger, "fix": fix, "cost": 3 });
        dir.ftl(&["memory", "add-failure", "--json", &lesson.to_string()]).code(0);
    }
    dir.fed(&["workspace", "create", "--plan", "-", "--task", "2"], PLAN).code(0);
    let json = run_json(&dir, &["workspace", "parse", ".ftl/workspace/002_build_active.xml"]);
    let failures = json["prior_knowledge"]["failures"].as_array().unwrap();
    let names: Vec<&str> = failures.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["solved"]);
}
