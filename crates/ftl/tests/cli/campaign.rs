//! `ftl campaign`: every verb, what it refuses, and what the FTL plugin (docs/origins.md) lost.

use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir};

pub(crate) const PLAN: &str = r#"{"objective": "add login", "framework": "FastAPI", "tasks": [
    {"seq": "001", "slug": "spec", "type": "SPEC", "delta": ["tests/test_a.py"], "verify": "true", "depends": "none"},
    {"seq": "002", "slug": "build", "delta": ["src/a.py"], "verify": "true", "depends": "001", "own": {"z": 1, "a": 2}},
    {"seq": "003", "slug": "check", "type": "VERIFY", "delta": [], "verify": "true", "depends": ["002"]},
    {"seq": "004", "slug": "apart", "delta": ["b.py"], "verify": "true", "depends": []}]}"#;

/// A repository with a campaign of four tasks.
pub(crate) fn campaign() -> Dir {
    let dir = Dir::new();
    dir.ftl(&["campaign", "create", "add login"]).code(0);
    add(&dir, PLAN).code(0);
    dir
}

pub(crate) fn add(dir: &Dir, plan: &str) -> CommandOutcome {
    dir.fed(&["campaign", "add-tasks"], plan)
}

#[track_caller]
pub(crate) fn update(dir: &Dir, seq: &str, status: &str) {
    let said = dir.ftl(&["campaign", "update-task", seq, status]).code(0);
    assert_eq!(
        (said.out.as_str(), said.err.as_str()),
        (format!("Task {seq} \u{2192} {status}\n").as_str(), "")
    );
}

/// What a verb prints; nothing else may stand on standard output or standard error.
#[track_caller]
pub(crate) fn run_json(dir: &Dir, words: &[&str]) -> Json {
    let said = dir.ftl(words).code(0);
    assert_eq!(said.err, "");
    said.json()
}

fn keys(json: &str) -> Vec<String> {
    let top = json.lines().filter(|line| line.starts_with("  \""));
    top.map(|line| line.trim().split('"').nth(1).unwrap().to_owned()).collect()
}

fn status_of(dir: &Dir, seq: &str) -> Json {
    let campaign = run_json(dir, &["campaign", "status"]);
    let task = campaign["tasks"].as_array().unwrap().iter().find(|task| task["seq"] == seq).cloned();
    task.unwrap()["status"].clone()
}

#[test]
fn without_a_campaign_the_verbs_that_look_say_so_and_make_nothing() {
    let dir = Dir::new();
    let cases = [
        ("next-task", "null\n"),
        ("ready-tasks", "[]\n"),
        ("cascade-status", "{\n  \"state\": \"none\"\n}\n"),
        ("cascade-analysis", "{\n  \"state\": \"none\"\n}\n"),
        ("propagate-blocks", "No blocks to propagate\n"),
        ("status", "{\n  \"status\": \"none\"\n}\n"),
        ("summary", "{\n  \"status\": \"none\"\n}\n"),
        ("active", "null\n"),
        ("history", "{\n  \"archives\": []\n}\n"),
        ("fingerprint", "{}\n"),
        ("find-similar", "[]\n"),
        ("get-replan-input", "{}\n"),
    ];
    for (verb, wanted) in cases {
        let said = dir.ftl(&["campaign", verb]).code(0);
        assert_eq!((said.out.as_str(), said.err.as_str()), (wanted, ""), "{verb}");
    }
    for words in
        [&["complete"][..], &["update-task", "001", "complete"], &["merge-revised-plan", "plan.json"]]
    {
        let words: Vec<&str> = ["campaign"].iter().chain(words).copied().collect();
        let said = dir.ftl(&words).code(1).says(&["error: No active campaign", "hint: open one"]);
        assert_eq!(said.out, "");
    }
    add(&dir, PLAN).code(1).says(&["No active campaign"]);
    assert!(!dir.path(".ftl").exists());
}

#[test]
fn create_prints_the_campaign_and_keeps_its_order_of_keys() {
    let dir = Dir::new();
    let said = dir.ftl(&["campaign", "create", "caf\u{e9} \u{1f600}", "--framework", "FastAPI"]).code(0);
    assert_eq!(
        keys(&said.out)[..6],
        ["_schema_version", "objective", "framework", "created_at", "status", "tasks"]
    );
    assert!(said.out.contains(r#""objective": "caf\u00e9 \ud83d\ude00""#), "{}", said.out);
    let json = said.json();
    assert_eq!(
        (&json["status"], &json["framework"], &json["tasks"]),
        (&json!("active"), &json!("FastAPI"), &json!([]))
    );
    assert_eq!(json["created_at"].as_str().unwrap().len(), "2026-11-16T03:34:55.027809".len());
    assert_eq!(said.out, dir.read(".ftl/campaign.json"));
    assert_eq!(dir.ftl(&["campaign", "create", " "]).code(1).out, "");
    dir.ftl(&["campaign", "create"]).code(2).says(&["OBJECTIVE"]);
}

#[test]
fn tasks_are_shown_as_their_plan_spells_them() {
    let dir = campaign();
    let campaign = run_json(&dir, &["campaign", "status"]);
    let depends: Vec<&Json> =
        campaign["tasks"].as_array().unwrap().iter().map(|task| &task["depends"]).collect();
    assert_eq!(depends, [&json!("none"), &json!("001"), &json!(["002"]), &json!([])]);
    let said = dir.ftl(&["campaign", "next-task"]).code(0);
    assert_eq!(keys(&said.out)[..5], ["seq", "slug", "type", "depends", "status"]);
    let text = dir.read(".ftl/campaign.json");
    assert!(
        text.find("\"z\"").unwrap() < text.find("\"a\": 2").unwrap(),
        "own fields keep their order: {text}"
    );
}

#[test]
fn ready_tasks_follow_what_is_complete() {
    let dir = campaign();
    let ready = |dir: &Dir| -> Vec<String> {
        let rows = run_json(dir, &["campaign", "ready-tasks"]);
        rows.as_array().unwrap().iter().map(|row| row["seq"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ready(&dir), ["001", "004"]);
    update(&dir, "1", "complete");
    assert_eq!(ready(&dir), ["002", "004"]);
    update(&dir, "002", "in_progress");
    assert_eq!(ready(&dir), ["004"]);
    assert_eq!(run_json(&dir, &["campaign", "next-task"])["seq"], "004");
}

#[test]
fn an_unknown_task_or_status_is_an_error_and_changes_nothing() {
    let dir = campaign();
    let before = dir.read(".ftl/campaign.json");
    dir.ftl(&["campaign", "update-task", "009", "complete"]).code(1).says(&["Unknown task: 009", "001, 002"]);
    dir.ftl(&["campaign", "update-task", "001", "done"]).code(1).says(&["done", "pending, in_progress"]);
    dir.ftl(&["campaign", "update-task", "001"]).code(2).says(&["STATUS"]);
    assert_eq!(dir.read(".ftl/campaign.json"), before);
}

#[test]
fn work_in_progress_with_waiting_children_is_neither_stuck_nor_all_blocked() {
    let dir = campaign();
    update(&dir, "004", "blocked");
    update(&dir, "001", "in_progress");
    let cascade = run_json(&dir, &["campaign", "cascade-status"]);
    assert_eq!((&cascade["state"], &cascade["in_progress"]), (&json!("in_progress"), &json!(1)), "{cascade}");
}

#[test]
fn what_can_never_run_is_listed_and_blocked_whole_at_any_time() {
    let dir = campaign();
    update(&dir, "001", "blocked");
    let cascade = run_json(&dir, &["campaign", "cascade-status"]);
    assert_eq!(cascade["state"], "in_progress", "004 is ready");
    let unreachable: Vec<&Json> =
        cascade["unreachable"].as_array().unwrap().iter().map(|row| &row["seq"]).collect();
    assert_eq!(unreachable, ["002", "003"]);
    let analysis = run_json(&dir, &["campaign", "cascade-analysis"]);
    assert_eq!(analysis["root_blocks"][0]["unreachable"], json!(["002", "003"]));
    assert_eq!(
        (&analysis["reachable"], &analysis["suggested_cuts"]),
        (&json!(["004"]), &json!([{"task": "002", "drop": "001"}]))
    );
    assert_eq!(dir.ftl(&["campaign", "propagate-blocks"]).code(0).out, "Propagated blocks to: 002, 003\n");
    assert_eq!(dir.ftl(&["campaign", "propagate-blocks"]).code(0).out, "No blocks to propagate\n");
    let tasks = run_json(&dir, &["campaign", "status"])["tasks"].clone();
    assert_eq!(
        (&tasks[2]["blocked_by"], &tasks[2]["cascade"], &tasks[2]["root_causes"]),
        (&json!(["002"]), &json!(true), &json!(["001"]))
    );
    update(&dir, "003", "pending");
    let task = run_json(&dir, &["campaign", "status"])["tasks"][2].clone();
    assert!(["blocked_by", "cascade", "root_causes"].iter().all(|key| task.get(key).is_none()), "{task}");
}

#[test]
fn a_plan_with_faults_is_refused_whole_with_every_fault_and_its_path() {
    let dir = campaign();
    let before = dir.read(".ftl/campaign.json");
    let bad = r#"{"objective": "o", "tasks": [
        {"seq": "001", "slug": "a", "delta": ["/etc/passwd"], "verify": "x", "depends": ["002"]},
        {"seq": "002", "slug": "b", "delta": ["../up"], "verify": "x", "depends": ["001"]},
        {"seq": "002", "slug": "../c", "delta": ["*.py"], "verify": "", "depends": ["077"]}]}"#;
    let said =
        add(&dir, bad).code(1).says(&["tasks[0].delta", "tasks[1].delta", "tasks[2].slug", "077", "hint:"]);
    assert_eq!((said.out.as_str(), dir.read(".ftl/campaign.json")), ("", before.clone()));
    let cycle = r#"{"objective": "o", "tasks": [
        {"seq": "001", "slug": "a", "delta": ["a"], "verify": "x", "depends": "003"},
        {"seq": "002", "slug": "b", "delta": ["b"], "verify": "x", "depends": "001"},
        {"seq": "003", "slug": "c", "delta": ["c"], "verify": "x", "depends": "002"}]}"#;
    add(&dir, cycle).code(1).says(&["001 \u{2192} 003 \u{2192} 002 \u{2192} 001"]).says(&["ycle"]);
    add(&dir, "{").code(1).says(&["not valid JSON"]);
    add(&dir, "").code(1);
    assert_eq!(dir.read(".ftl/campaign.json"), before);
}

#[test]
fn a_campaign_that_another_replaces_goes_to_the_archive() {
    let dir = campaign();
    update(&dir, "001", "complete");
    let said =
        dir.ftl(&["campaign", "create", "the next one"]).code(0).says(&["still active", ".ftl/archive/"]);
    assert_eq!(said.json()["objective"], "the next one");
    let archives = run_json(&dir, &["campaign", "history"])["archives"].clone();
    assert_eq!(archives.as_array().unwrap().len(), 1);
    assert_eq!(
        (&archives[0]["objective"], &archives[0]["summary"]["complete"]),
        (&json!("add login"), &json!(1))
    );
    let kept = run_json(&dir, &["campaign", "export", "all.json"])["campaigns"][0].clone();
    assert_eq!((&kept["tasks"][0]["status"], &kept["replaced"]), (&json!("complete"), &json!(true)));
}

#[test]
fn tasks_added_twice_keep_their_progress_and_the_archive_has_the_rest() {
    let dir = campaign();
    update(&dir, "001", "complete");
    update(&dir, "004", "blocked");
    let less = PLAN.replace("\"004\", \"slug\": \"apart\"", "\"005\", \"slug\": \"new\"");
    add(&dir, &less).code(0).says(&["had begun", ".ftl/archive/"]);
    assert_eq!((status_of(&dir, "001"), status_of(&dir, "005")), (json!("complete"), json!("pending")));
    let kept = run_json(&dir, &["campaign", "export", "all.json"])["campaigns"][0].clone();
    assert_eq!((&kept["tasks"][3]["seq"], &kept["tasks"][3]["status"]), (&json!("004"), &json!("blocked")));
    let said = add(&dir, &less).code(0);
    assert_eq!(said.out, "Tasks added\n");
    assert_eq!(status_of(&dir, "001"), "complete");
}

#[test]
fn completed_twice_it_is_archived_once() {
    let dir = campaign();
    for seq in ["001", "002", "003", "004"] {
        update(&dir, seq, "complete");
    }
    let done = run_json(&dir, &["campaign", "complete", "--summary", "all well"]);
    assert_eq!(
        (&done["status"], &done["summary"], &done["fingerprint"]["task_count"]),
        (&json!("complete"), &json!("all well"), &json!(4))
    );
    let again = dir.ftl(&["campaign", "complete", "--summary", "other"]).code(0).says(&["complete already"]);
    assert_eq!(again.json(), done);
    assert_eq!(run_json(&dir, &["campaign", "active"]), json!(null));
    assert_eq!(run_json(&dir, &["campaign", "history"])["archives"].as_array().unwrap().len(), 1);
    let name = done["completed_at"].as_str().unwrap().replace([':', '.'], "-");
    assert_eq!(dir.read(&format!(".ftl/archive/{name}.json")), dir.read(".ftl/campaign.json"));
    add(&dir, PLAN).code(1).says(&["complete", "campaign create"]);
}

#[test]
fn the_archive_is_exported_by_day_and_compared() {
    let dir = campaign();
    dir.ftl(&["campaign", "complete"]).code(0);
    let history = dir.ftl(&["campaign", "history"]).code(0);
    assert_eq!(history.json()["archives"][0]["summary"], json!({"total": 4, "complete": 0, "blocked": 0}));
    dir.ftl(&["campaign", "create", "add the login page"]).code(0);
    add(&dir, PLAN).code(0);
    let similar = dir.ftl(&["campaign", "find-similar", "--threshold", "0.3", "--max", "1"]).code(0);
    let row = similar.json()[0].clone();
    assert_eq!(
        (&row["outcome"], &row["objective"], &row["patterns_from"]),
        (&json!("partial"), &json!("add login"), &json!([]))
    );
    assert!(row["similarity"].as_f64().unwrap() > 0.5, "equal files count: {row}");
    assert_eq!(dir.ftl(&["similar", "--threshold", "0.3", "--max", "1"]).code(0).out, similar.out);
    let out = dir
        .ftl(&["campaign", "export", "deep/er/all.json", "--start", "2000-01-01", "--end", "2999-12-31"])
        .code(0);
    assert_eq!(
        (out.json()["campaigns"].as_array().unwrap().len(), out.out),
        (1, dir.read("deep/er/all.json"))
    );
    assert_eq!(
        run_json(&dir, &["campaign", "export", "none.json", "--end", "2000-01-01"]),
        json!({"campaigns": []})
    );
    dir.ftl(&["campaign", "export", "x.json", "--start", "soon"]).code(1).says(&["`soon` is no day"]);
    dir.ftl(&["campaign", "find-similar", "--threshold", "much"]).code(2).says(&["--threshold"]);
}

#[test]
fn a_revision_is_merged_whole_or_not_at_all() {
    let dir = campaign();
    update(&dir, "001", "complete");
    update(&dir, "002", "blocked");
    update(&dir, "004", "in_progress");
    dir.ftl(&["campaign", "propagate-blocks"]).code(0);
    let before = dir.read(".ftl/campaign.json");
    let dangling =
        r#"{"tasks": [{"seq": "002", "slug": "build", "delta": ["a"], "verify": "x", "depends": "099"}]}"#;
    let cyclic =
        r#"{"tasks": [{"seq": "002", "slug": "build", "delta": ["a"], "verify": "x", "depends": "003"}]}"#;
    for bad in [dangling, cyclic, "{"] {
        dir.write("revised.json", bad);
        let said = dir.ftl(&["campaign", "merge-revised-plan", "revised.json"]).code(0);
        let json = said.json();
        assert_eq!((&json["merged"], &json["unchanged"]), (&json!(0), &json!(0)), "{json}");
        assert!(!json["error"].as_str().unwrap().is_empty() && said.err.contains("error:"), "{said:?}");
        assert_eq!(dir.read(".ftl/campaign.json"), before);
    }
    let missing = dir.ftl(&["campaign", "merge-revised-plan", "nowhere.json"]).code(0).json();
    assert_eq!((&missing["merged"], missing["error"].is_string()), (&json!(0), true));
    dir.write(
        "revised.json",
        r#"{"tasks": [
        {"seq": "002", "slug": "build", "delta": ["src/a.py"], "verify": "true", "depends": ["001", "005"]},
        {"seq": "005", "slug": "between", "delta": ["c.py"], "verify": "true", "depends": "001"}]}"#,
    );
    let said = dir.ftl(&["campaign", "merge-revised-plan", "revised.json"]).code(0);
    assert_eq!(said.json(), json!({"merged": 3, "unchanged": 2}));
    let campaign = run_json(&dir, &["campaign", "status"]);
    let row = |task: &Json| format!("{} {}", task["seq"].as_str().unwrap(), task["status"].as_str().unwrap());
    let rows: Vec<String> = campaign["tasks"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(rows, ["001 complete", "002 pending", "003 pending", "004 in_progress", "005 pending"]);
    assert!(campaign["tasks"][2].get("blocked_by").is_none(), "{campaign}");
}

#[test]
fn a_planner_gets_what_was_done_and_why_the_rest_was_not() {
    let dir = campaign();
    dir.write("plan.json", PLAN);
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    let at = |name: &str| format!(".ftl/workspace/{name}_active.xml");
    dir.ftl(&["workspace", "complete", &at("001_spec"), "--delivered", "tests written"]).code(0);
    dir.ftl(&["workspace", "block", &at("002_build"), "--reason", "no such module"]).code(0);
    dir.ftl(&["campaign", "propagate-blocks"]).code(0);
    let input = run_json(&dir, &["campaign", "get-replan-input"]);
    assert_eq!(
        input["completed_tasks"],
        json!([{"seq": "001", "slug": "spec", "delivered": "tests written"}])
    );
    let blocked = json!([{"seq": "002", "slug": "build", "reason": "no such module"}, {"seq": "003", "slug": "check", "reason": "waits for 002"}]);
    assert_eq!(input["blocked_tasks"], blocked);
    assert_eq!(
        input["remaining_tasks"],
        json!([{"seq": "004", "slug": "apart", "type": "BUILD", "depends": []}])
    );
    let summary = run_json(&dir, &["campaign", "summary"]);
    assert_eq!(
        (&summary["complete_count"], &summary["complete"], &summary["blocked_count"]),
        (&json!(1), &json!(1), &json!(2))
    );
}

#[test]
fn a_chain_of_ten_thousand_is_taken_blocked_and_shown() {
    let dir = Dir::new();
    dir.ftl(&["campaign", "create", "long"]).code(0);
    let task = |number: usize| {
        let depends = if number == 9_999 { "none".to_owned() } else { format!("{:05}", number + 1) };
        json!({"seq": format!("{number:05}"), "slug": "t", "delta": ["a"], "verify": "true", "depends": depends})
    };
    let plan = json!({"objective": "long", "tasks": (0..10_000).map(task).collect::<Vec<_>>()});
    add(&dir, &plan.to_string()).code(0);
    update(&dir, "09999", "blocked");
    let said = dir.ftl(&["campaign", "propagate-blocks"]).code(0);
    assert_eq!(said.out.split(", ").count(), 9_999);
    assert_eq!(run_json(&dir, &["campaign", "cascade-status"])["blocked"], 10_000);
}

#[test]
fn a_plan_without_tasks_leaves_the_list_as_it_is() {
    let dir = campaign();
    update(&dir, "001", "complete");
    let before = run_json(&dir, &["campaign", "status"]);
    for plan in [r#"{"objective": "x", "framework": "Flask", "tasks": []}"#, r#"{"objective": "x"}"#, "{}"] {
        let said = add(&dir, plan).code(0).says(&["note: the plan has no tasks"]);
        assert_eq!(said.out, "Tasks added\n");
        assert_eq!(run_json(&dir, &["campaign", "status"]), before);
    }
    let unnamed = r#"{"tasks": [{"seq": "001", "slug": "spec", "delta": ["a.py"], "verify": "true"}]}"#;
    add(&dir, unnamed).code(0).says(&["note: the plan names no objective: `add login` stands in for it"]);
    assert_eq!(run_json(&dir, &["campaign", "status"])["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(status_of(&dir, "001"), "complete");
    add(&dir, r#"{"tasks": "none"}"#).code(1).says(&["tasks must be a list"]);
    add(&Dir::new(), "{}").code(1).says(&["No active campaign"]);
}
