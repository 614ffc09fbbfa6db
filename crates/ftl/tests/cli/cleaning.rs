//! What runs leave behind in git, and how it is taken away and brought back.

use crate::campaigns::{builds, go, repository, task};
use crate::support::Dir;

fn refs(dir: &Dir, below: &str) -> Vec<String> {
    let out = dir.git(&["for-each-ref", "--format=%(refname)", below]);
    out.lines().map(str::to_owned).collect()
}

#[test]
fn what_nobody_needs_is_listed_then_taken_away_and_comes_back() {
    let scenes = [builds("001-one", "a.txt", "done", "true"), builds("001-two", "b.txt", "not yet", "true")];
    let dir = repository(&[task("001", "one", "a.txt", &[])], &scenes);
    let first = go(&dir, &["--land", "ff"]).code(0).json();
    dir.write("plan.json", dir.read("plan.json").replace("one", "two").replace("a.txt", "b.txt"));
    let second = go(&dir, &[]).code(3).json();
    let branch = |json: &serde_json::Value| format!("ftl/{}", json["run"].as_str().unwrap());
    let (landed, blocked) = (branch(&first), branch(&second));
    let names = |json: &serde_json::Value, what: &str| -> Vec<String> {
        json[what].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    // Without a word nothing goes.
    let json = dir.ftl(&["clean", "--json"]).code(0).json();
    let mut both = vec![landed, blocked];
    both.sort();
    assert_eq!((names(&json, "branches"), names(&json, "kept").len()), (both, 0), "{json:#}");
    assert_eq!(refs(&dir, "refs/heads/ftl/").len(), 2);
    // The work of a blocked task goes only when it is old.
    let json = dir.ftl(&["clean", "--yes", "--older-than", "0", "--json"]).code(0).json();
    assert_eq!((names(&json, "kept").len(), json["done"].as_bool()), (1, Some(true)), "{json:#}");
    assert!(json["bytes"].as_u64().unwrap() > 0, "{json:#}");
    assert_eq!((refs(&dir, "refs/heads/ftl/").len(), refs(&dir, "refs/ftl/kept/").len()), (0, 0));
    dir.ftl(&["clean"]).code(0).says(&["nothing to clean"]);
    dir.ftl(&["doctor", "--deep"]).code(0);
    let back = dir.ftl(&["clean", "--undo", "--json"]).code(0).json();
    assert_eq!(back["back"].as_array().unwrap().len(), 3, "{back:#}");
    assert_eq!((refs(&dir, "refs/heads/ftl/").len(), refs(&dir, "refs/ftl/kept/").len()), (2, 1));
    assert_eq!(refs(&dir, "refs/ftl/cleaned/"), [""; 0]);
    dir.ftl(&["clean", "--undo"]).code(0).says(&["nothing to bring back"]);
}

#[test]
fn what_was_cleaned_long_ago_goes_for_good_and_a_run_at_work_is_left_alone() {
    let scenes = [builds("001-one", "a.txt", "done", "true")];
    let dir = repository(&[task("001", "one", "a.txt", &[])], &scenes);
    go(&dir, &["--land", "ff"]).code(0);
    let head = dir.git(&["rev-parse", "HEAD"]);
    dir.git(&["update-ref", "refs/ftl/cleaned/1000/heads/ftl/old", head.trim()]);
    dir.git(&["branch", "ftl/mine"]);
    let json = dir.ftl(&["clean", "--yes", "--json"]).code(0).json();
    assert_eq!(json["expired"], 1, "{json:#}");
    assert_eq!(refs(&dir, "refs/ftl/cleaned/1000/"), [""; 0]);
    assert_eq!(refs(&dir, "refs/heads/ftl/"), ["refs/heads/ftl/mine"], "no branch of a run");
}

#[test]
fn caches_and_environments_are_not_kept_of_a_task_that_has_landed() {
    let makes = "mkdir -p .venv/lib odd; echo '*' > .venv/.gitignore; echo x > .venv/lib/big";
    let scenes = [builds("001-one", "a.txt", "done", makes), builds("002-two", "b.txt", "done", "true")];
    let tasks = [task("001", "one", "a.txt", &[]), task("002", "two", "b.txt", &["001"])];
    let dir = repository(&tasks, &scenes);
    go(&dir, &["--land", "ff"]).code(0);
    let kept = refs(&dir, "refs/ftl/kept/");
    let shown: Vec<String> = kept.iter().map(|name| dir.git(&["show", "--stat", name])).collect();
    assert_eq!(kept, [""; 0], "{shown:#?}");
    // Where the settings say so, it is.
    let dir = repository(&tasks, &scenes);
    dir.write(".ftl/config.toml", "[keep]\nignore = []\n");
    go(&dir, &["--land", "ff"]).code(0);
    assert_eq!(refs(&dir, "refs/ftl/kept/").len(), 1);
    let json = dir.ftl(&["clean", "--json"]).code(0).json();
    assert_eq!(json["kept"][0]["why"], "its work has landed, and this is what stood beside it", "{json:#}");
    let shown = dir.ftl(&["config"]).code(0).out;
    assert!(shown.contains("keep.ignore"), "{shown}");
}
