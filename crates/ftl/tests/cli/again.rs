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

/// A run whose only task is blocked, and a line of the person's in the place of what it wrote.
fn overtaken() -> (Dir, String) {
    let plan = [task("001", "fails", "a.txt", &[])];
    let dir = repository(&plan, &[builds("001-fails", "a.txt", "not yet", "true")]);
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    dir.write("a.txt", "somebody else was here\n");
    dir.git(&["commit", "-aqm", "change the same line"]);
    let seen = format!("cp a.txt {}", dir.path("meet-seen").display());
    let plan = dir.read("play.toml").split("[[scene]]").nth(1).unwrap().to_owned();
    let scene = builds("earlier-try", "a.txt", "done", &seen);
    dir.write("play.toml", format!("[[scene]]{plan}{scene}"));
    (dir, json["run"].as_str().unwrap().to_owned())
}

#[test]
fn kept_work_that_conflicts_with_what_landed_is_named_and_the_task_begins_anew() {
    let (dir, run) = overtaken();
    let ended = dir.ftl(&["retry", &run, "--land", "ff", "--json"]).code(0);
    let json = ended.json();
    assert_eq!((json["landed"].as_bool(), dir.read("a.txt").as_str()), (Some(true), "done\n"), "{json:#}");
    assert_eq!(dir.read("meet-seen"), "somebody else was here\n", "the kept work is not laid over it");
    let show = format!("ftl diff {run}/001");
    let left_out = &json["report"]["left_out"];
    assert_eq!((&left_out[0]["task"], &left_out[0]["show"]), (&json!("001-fails"), &json!(show)), "{json:#}");
    let told = format!("001-fails begins anew: its kept work conflicts with what has landed since; `{show}`");
    assert!(ended.err.contains(&told), "{ended:#?}");
    let words: Vec<&str> = show.split(' ').skip(1).collect();
    assert!(dir.ftl(&words).code(0).out.contains("+not yet"), "the command shows the kept work");
    // People read the same in the report.
    let (dir, run) = overtaken();
    let out = dir.ftl(&["retry", &run]).code(0).out;
    let line = out.lines().find(|line| line.starts_with("left out")).unwrap_or_else(|| panic!("{out}"));
    assert!(line.contains("001-fails: its kept work conflicts") && line.contains("`ftl diff "), "{line}");
}

#[test]
fn a_retry_takes_the_options_that_every_flow_takes() {
    let (dir, run) = half_done();
    let unknown = dir.ftl(&["retry", &run, "--agent", "nobody"]).code(1);
    assert!(unknown.err.contains("nobody"), "{unknown:#?}");
    let options = ["--tools", "9", "--max-tokens", "500k", "--jobs", "1", "--land", "ff", "--json"];
    let json = dir.ftl(&[&["retry", run.as_str()][..], &options].concat()).code(0).json();
    landed_again(&dir, &json);
    assert_eq!(json["meters"]["tokens"]["limit"], json!(500_000), "{json:#}");
}
