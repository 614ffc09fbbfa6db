//! Going on: plans of dry runs taken on, and blocked tasks tried again.

use serde_json::{Value as Json, json};

use crate::campaigns::{builds, go, replans, repository, seqs, task};
use crate::support::Dir;

fn done(id: &str, file: &str) -> String {
    builds(id, file, "done", "true")
}

/// The plan of a dry run, and a repository in which nobody could plan again.
fn planned() -> (Dir, String) {
    let tasks = [task("001", "one", "a.txt", &[]), task("002", "two", "b.txt", &["001"])];
    let scenes = [done("001-one", "a.txt"), done("002-two", "b.txt")];
    let dir = repository(&tasks, &scenes);
    let before = dir.read("play.toml");
    dir.write("play.toml", format!("{before}{}", replans("", &tasks)));
    let json = dir.ftl(&["campaign", "run", "all is done", "--dry-run", "--json"]).code(0).json();
    let run = json["run"].as_str().unwrap().to_owned();
    dir.write("play.toml", before);
    (dir, run)
}

#[test]
fn the_plan_of_a_dry_run_is_taken_on_and_no_planner_is_paid_again() {
    let (dir, run) = planned();
    let json = dir.ftl(&["resume", &run, "--json"]).code(0).json();
    assert_ne!(json["run"], json!(run), "a dry run stays what it was");
    assert_eq!(
        (json["standing"].as_str(), seqs(&json["report"]["landed"])),
        (Some("complete"), vec!["001", "002"])
    );
    assert_eq!(json["title"], "all is done");
    let (dir, run) = planned();
    let flow = ["campaign", "run", "--from-dry-run", &run[..5], "--land", "ff", "--json"];
    let json = dir.ftl(&flow).code(0).json();
    assert_eq!((json["landed"].as_bool(), dir.read("b.txt").as_str()), (Some(true), "done\n"));
    let wrong = dir.ftl(&["task", "run", "--from-dry-run", &run]).code(2);
    assert!(wrong.err.contains("planned a campaign"), "{wrong:#?}");
    let other = json["run"].as_str().unwrap();
    dir.ftl(&["campaign", "run", "--from-dry-run", other]).code(5);
}

/// A campaign of which one task is blocked, one waits for that, and one has landed on the run's branch.
fn half_done() -> (Dir, String) {
    let tasks = [
        task("001", "fails", "a.txt", &[]),
        task("002", "child", "b.txt", &["001"]),
        task("003", "alone", "c.txt", &[]),
    ];
    let scenes = [builds("001-fails", "a.txt", "not yet", "true"), done("003-alone", "c.txt")];
    let dir = repository(&tasks, &scenes);
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    let run = json["run"].as_str().unwrap().to_owned();
    assert_eq!(dir.read("c.txt"), "c\n", "what did not complete leaves the branch alone");
    // From now on the builder is told what went wrong, and shows what it finds.
    let seen = format!("cp a.txt {}", dir.path("meet-seen").display());
    let plan = dir.read("play.toml").split("[[scene]]").nth(1).unwrap().to_owned();
    let scenes = [builds("earlier-try", "a.txt", "done", &seen), done("002-child", "b.txt")];
    dir.write("play.toml", format!("[[scene]]{plan}{}", scenes.concat()));
    (dir, run)
}

fn landed_again(dir: &Dir, json: &Json) {
    assert_eq!((json["verdict"].as_str(), &json["landed"]), (Some("complete"), &json!(true)), "{json:#}");
    assert_eq!(seqs(&json["report"]["landed"]), ["001", "002"]);
    let files = ["a.txt", "b.txt", "c.txt"].map(|file| dir.read(file));
    assert_eq!(files, ["done\n", "done\n", "done\n"], "also what had landed in the earlier run");
}

#[test]
fn blocked_tasks_are_tried_again_from_what_is_kept_and_what_waited_for_them_follows() {
    let (dir, run) = half_done();
    let json = dir.ftl(&["retry", &run, "--land", "ff", "--json"]).code(0).json();
    landed_again(&dir, &json);
    assert_eq!(dir.read("meet-seen"), "not yet\n");
    let nothing = dir.ftl(&["retry", json["run"].as_str().unwrap()]).code(5);
    assert!(nothing.err.contains("no task of run"), "{nothing:#?}");
}

#[test]
fn a_task_that_is_named_begins_anew_where_it_is_to() {
    let (dir, run) = half_done();
    let unknown = dir.ftl(&["retry", &run, "003"]).code(1);
    assert!(unknown.err.contains("its blocked tasks are 001"), "{unknown:#?}");
    let json = dir.ftl(&["retry", &run, "1", "--fresh", "--land", "squash", "--json"]).code(0).json();
    landed_again(&dir, &json);
    assert_eq!(dir.read("meet-seen"), "a\n");
}
