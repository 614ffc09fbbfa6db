//! Causes that people are told: in plain words, with counts that agree and commands that work.

use std::process::Command;

use serde_json::Value as Json;

use crate::campaigns::{builds, repository, task};
use crate::support::{CommandOutcome, Dir};

/// One task that lands, two that are not verified, one behind the first of them.
fn blocked() -> (Dir, CommandOutcome, String) {
    let tasks = [
        task("001", "fails", "a.txt", &[]),
        task("002", "child", "b.txt", &["001"]),
        task("003", "alone", "c.txt", &[]),
        task("004", "fails-too", "d.txt", &[]),
    ];
    let scenes = [
        builds("001-fails", "a.txt", "not yet", "true"),
        builds("003-alone", "c.txt", "done", "true"),
        builds("004-fails-too", "d.txt", "not yet", "true"),
    ];
    let dir = repository(&tasks, &scenes);
    let ended = dir.ftl(&["campaign", "run", "all is done", "--plan", "plan.json"]).code(3);
    let run = ended.out.split_whitespace().skip_while(|word| *word != "run").nth(1).unwrap().to_owned();
    (dir, ended, run)
}

/// Words that only a protocol's author knows.
const PRIVATE: [&str; 7] =
    ["discovery", "exhausted", "Nothing learned", "escalated", "RETURN", "PAY", "cascade"];

/// The commands that a text names between back quotes.
fn find_commands(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|words| words.starts_with("ftl ") || words.starts_with("git ")).map(str::to_owned).collect()
}

/// Types a command as it stands.
#[track_caller]
fn typed(dir: &Dir, words: &str) {
    let parts: Vec<&str> = words.split_whitespace().collect();
    if words.starts_with("ftl retry ") {
        // Whoever was in the way of the builders is gone by then.
        let scenes = dir.read("play.toml").replace("not yet", "done");
        dir.write("play.toml", format!("{scenes}{}", builds("002-child", "b.txt", "done", "true")));
    }
    if parts[0] == "ftl" {
        dir.ftl(&parts[1..]).code(0);
    } else {
        let mut git = Command::new(parts[0]);
        git.args(&parts[1..]).current_dir(dir.path("."));
        git.env("GIT_AUTHOR_NAME", "A").env("GIT_AUTHOR_EMAIL", "a@b").env("GIT_PAGER", "cat");
        let ended = crate::support::ended(git);
        assert_eq!(ended.code, 0, "{words}: {ended:#?}");
    }
}

#[test]
fn the_report_tells_causes_counts_that_agree_and_commands_that_work() {
    let (dir, ended, run) = blocked();
    let out = &ended.out;
    assert_eq!(out.lines().filter(|line| line.starts_with("blocked ")).count(), 2, "{out}");
    assert!(out.contains("never ran  002 child\n"), "{out}");
    let last = out.lines().rfind(|line| line.starts_with("run ")).unwrap();
    assert!(last.ends_with("2 blocked, 1 never ran"), "the last line has the same counts: {last}");
    assert!(out.contains("001 fails: exit code 1"), "{out}");
    for word in PRIVATE {
        assert!(!out.contains(word), "{word}: {out}");
    }
    let commands = find_commands(out);
    assert!(commands.len() >= 5, "{commands:?}");
    for words in ["why {}/001", "diff {}/001", "transcript {}/001", "retry {}"] {
        let words = format!("ftl {}", words.replace("{}", &run));
        assert!(commands.contains(&words), "{words}: {commands:?}");
    }
    for words in &commands {
        typed(&dir, words);
    }
}

#[test]
fn why_of_a_flow_answers_in_sentences_and_shows_its_program_below() {
    let (dir, _, run) = blocked();
    let out = dir.ftl(&["why", &run]).code(0).out;
    let (first, program) = out.split_once("In its program:\n").unwrap();
    for sentence in [
        "It ended blocked.\n",
        "1 of 4 tasks landed, 2 blocked, 1 never ran.\n",
        "001 fails is blocked: exit code 1",
    ] {
        assert!(first.contains(sentence), "{sentence}: {first}");
    }
    for word in PRIVATE {
        assert!(!first.contains(word), "{word}: {first}");
    }
    assert!(program.contains("campaign in COMPLETE: blocked"), "{program}");

    let json = dir.ftl(&["why", &run, "--json"]).code(0).json();
    assert_eq!(json["what"][0], "It ended blocked.", "{json:#}");
    let can: Vec<&Json> = json["you_can"].as_array().unwrap().iter().collect();
    assert!(can.len() >= 4, "{can:?}");
    for one in can {
        let words = one["command"].as_str().unwrap();
        assert!(first.contains(words), "{words}: {first}");
        typed(&dir, words);
    }

    let why = |seq: &str| dir.ftl(&["why", &format!("{run}/{seq}")]).code(0);
    why("002").says(&["002 child never ran: it needs 001, which did not land."]);
    why("003").says(&["003 alone landed as ", &format!("ftl diff {run}/003")]);
    why("001").says(&["001 fails is blocked: exit code 1", "builder in BLOCK"]);
    dir.ftl(&["why", &format!("{run}/009")])
        .code(1)
        .says(&["no task and no instance `009`", "its tasks are 001, 002"]);
}

#[test]
fn a_run_learns_what_is_new_and_does_not_repeat_what_was_known() {
    let (dir, first, _) = blocked();
    let learned = |ended: &CommandOutcome| {
        let line = ended.out.lines().find(|line| line.starts_with("learned")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{ended:#?}"))
    };
    assert!(!learned(&first).contains("nothing new"), "{}", learned(&first));
    let tasks = [task("005", "again", "c.txt", &[])];
    let plan = serde_json::json!({ "objective": "all is done", "tasks": tasks });
    dir.write("next.json", plan.to_string());
    let script = format!("{}{}", dir.read("play.toml"), builds("005-again", "c.txt", "done again", "true"));
    dir.write("play.toml", script);
    let second = dir.ftl(&["all is done", "--plan", "next.json"]).code(0);
    let (before, now) = (learned(&first), learned(&second));
    for name in before.trim_start_matches("learned").split(", ").map(str::trim) {
        assert!(!now.contains(name), "{name} was known: {now}");
    }
}
