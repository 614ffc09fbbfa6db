//! The examples as their pages say: each document is sound, and its script plays it to the verdict that the page promises.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::support::{CommandOutcome, Dir};

fn folder(example: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example)
}

/// A repository with the documents of an example, checked, and its script.
fn repository(example: &str, protocols: &[&str]) -> Dir {
    let text = |file: &str| fs::read_to_string(folder(example).join(file)).unwrap();
    let dir = Dir::repository();
    for protocol in protocols {
        dir.write(&format!(".ftl/protocols/{protocol}.md"), text(&format!("{protocol}.md")));
    }
    dir.write("script.toml", text("script.toml"));
    dir.git(&["commit", "-q", "--allow-empty", "-m", "begin"]);
    dir.ftl(&[&["check"], protocols].concat()).code(0);
    dir
}

fn play(dir: &Dir, protocol: &str, input: &str) -> CommandOutcome {
    dir.ftl(&["run", protocol, input, "--script", "script.toml", "--json"])
}

fn entered(dir: &Dir, run: &str, state: &str) -> usize {
    let entries = dir.entries(run);
    entries.iter().filter(|entry| entry["fact"] == "moved" && entry["to"] == state).count()
}

fn name(ended: &Json) -> String {
    ended["run"].as_str().unwrap().to_owned()
}

#[test]
fn every_example_has_a_page_and_a_case() {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder("")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            assert!(entry.join("README.md").is_file() && entry.join("script.toml").is_file(), "{entry:?}");
            found.push(entry.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found.sort();
    assert_eq!(found, ["panel", "release", "tidy"]);
}

#[test]
fn tidy_goes_back_once_and_is_merged() {
    let dir = repository("tidy", &["tidy"]);
    let ended = play(&dir, "tidy", "story=mend the mean").code(0).json();
    assert_eq!(ended["standing"], "complete", "{ended:#}");
    assert_eq!(entered(&dir, &name(&ended), "WRITE"), 2, "the first test run is red");
}

#[test]
fn a_release_waits_for_a_person_and_takes_no_for_an_answer() {
    for (answer, code, standing) in [("yes", 0, "complete"), ("no", 3, "blocked")] {
        let dir = repository("release", &["release"]);
        let waits = play(&dir, "release", "tag=v1.2.0").code(3).json();
        assert_eq!(waits["standing"], "waiting", "{waits:#}");
        let run = name(&waits);
        dir.ftl(&["answer", &run, "perhaps"]).says(&["yes", "no"]);
        dir.ftl(&["answer", &run, answer]).code(code);
        assert_eq!(dir.status(&run)["standing"], standing);
    }
}

#[test]
fn a_release_is_tagged_for_real_and_never_over_changes() {
    let dir = repository("release", &["release"]);
    dir.write("a.txt", "one\n");
    dir.git(&["add", "a.txt"]);
    let stopped = dir.ftl(&["run", "release", "tag=v1.2.0", "--json"]).code(3).json();
    assert_eq!(stopped["standing"], "blocked", "{stopped:#}");
    dir.git(&["commit", "-qm", "Add a file"]);
    let red = dir.ftl(&["run", "release", "tag=v1.2.0", "tests=exit 1", "--json"]).code(3).json();
    assert_eq!(red["standing"], "blocked", "{red:#}");
    let waits = dir.ftl(&["run", "release", "tag=v1.2.0", "tests=test -f a.txt", "--json"]).code(3).json();
    assert_eq!(dir.git(&["tag"]), "", "nothing is tagged before somebody signs");
    dir.ftl(&["answer", &name(&waits), "yes"]).code(0);
    assert_eq!(dir.git(&["tag"]), "v1.2.0\n");
    let again = dir.ftl(&["run", "release", "tag=v1.2.0", "--json"]).code(3).json();
    assert_eq!(again["standing"], "blocked", "the tag is taken: {again:#}");
}

#[test]
fn a_panel_needs_two_of_three() {
    let dir = repository("panel", &["panel", "opinion"]);
    let ended = play(&dir, "panel", "story=mend the mean").code(0).json();
    assert_eq!(ended["standing"], "complete", "{ended:#}");
    let run = name(&ended);
    assert_eq!(entered(&dir, &run, "VOTE"), 2, "one approval is no quorum");
    let opened = dir.entries(&run).iter().filter(|entry| entry["fact"] == "opened").count();
    assert_eq!(opened, 1 + 6, "three reviewers in each round");
}
