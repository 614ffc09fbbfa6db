//! Campaigns and tasks at the same time in one repository: none of them sees another's papers.

use std::fs;

use serde_json::{Value as Json, json};

use crate::campaigns::{builds, repository, task};
use crate::support::{Dir, Started, until};

/// A builder that says where it is, and waits until it is let go on.
fn waits(id: &str, file: &str, gate: &str) -> String {
    builds(
        id,
        file,
        "done",
        &format!(
            "touch $HOME_OF_TEST/meet-{gate}; until [ -e $HOME_OF_TEST/meet-go-{gate} ]; do sleep 0.02; done"
        ),
    )
}

/// Two plans whose tasks have equal numbers and names, and change different files.
fn twins() -> Dir {
    let scenes = [waits("all is done one", "a.txt", "one"), waits("all is done two", "b.txt", "two")];
    let dir = repository(&[task("001", "same", "a.txt", &[])], &[]);
    let here = dir.path("").display().to_string();
    let scenes: String = scenes.concat().replace("$HOME_OF_TEST/", &here);
    dir.write("play.toml", format!("{}{scenes}", dir.read("play.toml")));
    for (name, file) in [("one", "a.txt"), ("two", "b.txt")] {
        let plan =
            json!({ "objective": format!("all is done {name}"), "tasks": [task("001", "same", file, &[])] });
        dir.write(&format!("plan-{name}.json"), plan.to_string());
    }
    let exclude = dir.read(".git/info/exclude");
    fs::write(dir.path(".git/info/exclude"), format!("{exclude}plan-*\n")).unwrap();
    dir
}

fn begin(dir: &Dir, what: &[&str], name: &str) -> Started {
    let (objective, plan) = (format!("all is done {name}"), format!("plan-{name}.json"));
    let more = [objective.as_str(), "--plan", &plan, "--land", "ff", "--json"];
    let started = dir.start(&[what, &more[..]].concat());
    until("its builder works", || dir.path(&format!("meet-{name}")).exists());
    started
}

fn go_on(dir: &Dir, name: &str) {
    dir.write(&format!("meet-go-{name}"), "");
}

fn objective(text: &str) -> String {
    let json: Json = serde_json::from_str(text).unwrap();
    json["objective"].as_str().unwrap().to_owned()
}

/// The run of an objective.
fn run_of(dir: &Dir, name: &str) -> String {
    let all = dir.ftl(&["status", "--all", "--json"]).code(0).json();
    let runs = all["runs"].as_array().unwrap();
    let found = runs.iter().find(|one| one["title"].as_str().unwrap().contains(name)).unwrap();
    found["run"].as_str().unwrap().to_owned()
}

#[test]
fn two_campaigns_with_equal_tasks_run_at_once_and_each_has_its_own_papers() {
    let dir = twins();
    let one = begin(&dir, &["campaign", "run"], "one");
    let first = run_of(&dir, "one");
    assert_eq!(objective(&dir.read(".ftl/campaign.json")), "all is done one");
    let two = begin(&dir, &["campaign", "run"], "two");
    let second = run_of(&dir, "two");
    // The one opened last stands directly in `.ftl/`, the other in a folder of its own.
    let aside = format!(".ftl/campaigns/{first}");
    assert_eq!(objective(&dir.read(".ftl/campaign.json")), "all is done two");
    assert_eq!(objective(&dir.read(&format!("{aside}/campaign.json"))), "all is done one");
    assert!(dir.path(&format!("{aside}/workspace/001_same_active.xml")).exists());
    assert!(dir.path(".ftl/workspace/001_same_active.xml").exists());
    let current = dir.ftl(&["campaign", "status"]).code(0).json();
    let named = dir.ftl(&["campaign", "status", "--campaign", &first[..4]]).code(0).json();
    assert_eq!(current["objective"], "all is done two", "{current:#}");
    assert_eq!(named["objective"], "all is done one", "{named:#}");
    dir.ftl(&["campaign", "status", "--campaign", "nobody"]).code(1);
    // When the current one is complete, the other comes back to the front.
    go_on(&dir, "two");
    let json = two.ended().code(0).json();
    assert_eq!(json["landed"], true, "{json:#}");
    assert_eq!(objective(&dir.read(".ftl/campaign.json")), "all is done one");
    let aside = format!(".ftl/campaigns/{second}");
    assert!(dir.path(&format!("{aside}/workspace/001_same_complete.xml")).exists());
    go_on(&dir, "one");
    let json = one.ended().code(0).json();
    assert_eq!(json["landed"], true, "{json:#}");
    assert_eq!((dir.read("a.txt"), dir.read("b.txt")), ("done\n".to_owned(), "done\n".to_owned()));
    let status = |run: &str| {
        let json = dir.ftl(&["campaign", "status", "--campaign", run]).code(0).json();
        (json["status"].as_str().unwrap().to_owned(), json["tasks"][0]["status"].as_str().unwrap().to_owned())
    };
    let done = ("complete".to_owned(), "complete".to_owned());
    assert_eq!((status(&first), status(&second)), (done.clone(), done));
    dir.ftl(&["doctor", "--deep"]).code(0);
}

#[test]
fn tasks_beside_a_campaign_and_files_that_both_change_are_told() {
    let dir = twins();
    let plan = dir.read("plan-two.json").replace("b.txt", "a.txt");
    dir.write("plan-two.json", plan);
    dir.write("play.toml", dir.read("play.toml").replace("\"b.txt\"", "\"a.txt\""));
    let one = begin(&dir, &["campaign", "run"], "one");
    let first = run_of(&dir, "one");
    let two = begin(&dir, &["task", "run"], "two");
    go_on(&dir, "two");
    let ended = two.ended().code(0);
    let told = format!("001-same is also being changed by a.txt (run {first})");
    assert!(ended.err.contains(&told), "{ended:#?}");
    assert_eq!(dir.read("a.txt"), "done\n");
    // The campaign lands second. Its work is the same by now, so nothing is left to land.
    go_on(&dir, "one");
    let json = one.ended().json();
    assert!(matches!(json["standing"].as_str(), Some("complete" | "blocked")), "{json:#}");
    dir.ftl(&["doctor"]).code(0);
}

#[test]
fn a_campaign_of_commands_stays_what_it_is_beside_a_run() {
    let dir = twins();
    dir.ftl(&["campaign", "create", "by hand"]).code(0);
    dir.fed(&["campaign", "add-tasks"], &dir.read("plan-one.json")).code(0);
    let two = begin(&dir, &["campaign", "run"], "two");
    assert_eq!(objective(&dir.read(".ftl/campaigns/commands/campaign.json")), "by hand");
    let named = dir.ftl(&["campaign", "status", "--campaign", "commands"]).code(0).json();
    assert_eq!(named["objective"], "by hand", "{named:#}");
    dir.ftl(&["campaign", "update-task", "001", "in_progress", "--campaign", "commands"]).code(0);
    go_on(&dir, "two");
    two.ended().code(0);
    let json: Json = serde_json::from_str(&dir.read(".ftl/campaign.json")).unwrap();
    assert_eq!(
        (json["objective"].as_str(), json["tasks"][0]["status"].as_str()),
        (Some("by hand"), Some("in_progress"))
    );
}

/// What a command prints of the current campaign, and of a named one.
fn printed(dir: &Dir, words: &[&str], campaign: Option<&str>) -> Json {
    let named: Vec<&str> = campaign.into_iter().flat_map(|id| ["--campaign", id]).collect();
    dir.ftl(&[words, &named].concat()).code(0).json()
}

#[test]
fn each_run_has_its_own_exploration_and_its_own_phase() {
    let dir = twins();
    let one = begin(&dir, &["campaign", "run"], "one");
    let first = run_of(&dir, "one");
    let two = begin(&dir, &["task", "run"], "two");
    let second = run_of(&dir, "two");
    let objective = |campaign: Option<&str>| {
        printed(&dir, &["exploration", "read"], campaign)["_meta"]["objective"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (objective(None), objective(Some(&second))),
        ("all is done two".into(), "all is done two".into())
    );
    assert_eq!(objective(Some(&first)), "all is done one");
    // The journal of a run tells its phase, and a command that names it moves that one alone.
    let phase = |campaign: Option<&str>| printed(&dir, &["phase", "status"], campaign)["phase"].clone();
    assert_eq!((phase(Some(&first)), phase(None)), (json!("build"), json!("build")));
    let steps = printed(&dir, &["phase", "status"], None)["transitions"].clone();
    let steps: Vec<&str> = steps.as_array().unwrap().iter().map(|one| one["to"].as_str().unwrap()).collect();
    assert_eq!(steps, ["explore", "plan", "build"]);
    dir.ftl(&["phase", "transition", "observe", "--campaign", &first]).code(0);
    assert_eq!((phase(Some(&first)), phase(Some(&second))), (json!("observe"), json!("build")));
    assert!(dir.path(&format!(".ftl/campaigns/{first}/phase_state.json")).exists());
    assert!(!dir.path(".ftl/phase_state.json").exists());
    // So it is with what explorers stage.
    let result = json!({ "mode": "delta", "status": "ok", "candidates": [] }).to_string();
    let said =
        dir.fed(&["exploration", "write-result", "--mode", "delta", "--campaign", &first], &result).code(0);
    assert_eq!(said.out, format!("Written: .ftl/campaigns/{first}/cache/explorer_delta.json\n"));
    let staged = |campaign: &str| {
        printed(&dir, &["orchestration", "check-explorers"], Some(campaign))["modes"]["delta"].clone()
    };
    assert_eq!((staged(&first), staged(&second)), (json!("ok"), json!("pending")));
    let merged = printed(&dir, &["exploration", "aggregate-files"], Some(&first));
    assert_eq!(merged["delta"]["status"], "ok", "{merged:#}");
    dir.ftl(&["exploration", "clear", "--campaign", &first]).code(0);
    assert_eq!((staged(&first), objective(None)), (json!("pending"), "all is done two".into()));
    let listed = printed(&dir, &["observer", "list"], Some(&first));
    assert_eq!(listed["active"], json!(["001_same_active.xml"]));
    for name in ["two", "one"] {
        go_on(&dir, name);
    }
    two.ended().code(0);
    one.ended().code(0);
    assert_eq!(phase(Some(&second)), json!("complete"));
}

#[test]
fn what_commands_explore_after_a_run_has_ended_belongs_to_the_campaign_that_they_open() {
    let dir = twins();
    let two = begin(&dir, &["task", "run"], "two");
    go_on(&dir, "two");
    two.ended().code(0);
    let run = run_of(&dir, "two");
    dir.fed(&["exploration", "write"], "{\"_meta\": {\"objective\": \"by hand\"}}").code(0);
    dir.ftl(&["phase", "transition", "explore"]).code(0);
    dir.ftl(&["campaign", "create", "by hand"]).code(0);
    assert_eq!(printed(&dir, &["exploration", "read"], None)["_meta"]["objective"], "by hand");
    assert_eq!(printed(&dir, &["phase", "status"], None)["phase"], "explore");
    assert_eq!(printed(&dir, &["exploration", "read"], Some(&run))["_meta"]["objective"], "all is done two");
    assert_eq!(printed(&dir, &["phase", "status"], Some(&run))["phase"], "complete");
}
