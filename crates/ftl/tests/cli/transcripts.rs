//! What agents said and called, read afterwards, while they work, and after a kill.

use ftl_testkit::model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::campaigns::{builds, go, repository, task};
use crate::support::{Dir, until};

/// A protocol that asks a coder once.
const CODE: &str = "INPUT: story\nSTATE: START\n  \
    DO: work = Task(coder) feedback=\"MIND THE GAP of {story}\" write=\"code\"\n  \
    RETURN: complete summary={work.summary}\n";

const BOUND: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\ncoder = \"play\"\n";

/// Something that looks like a key, in two pieces so that no scanner takes this file for a leak.
fn key() -> String {
    format!("sk-{}", "abcdefghij0123456789")
}

fn coding(steps: &str) -> Dir {
    let dir = Dir::new();
    let script = format!("[[scene]]\nrole = \"coder\"\n{steps}");
    dir.protocol("code", CODE).write("play.toml", script).write("ftl.toml", BOUND);
    dir.write("notes.txt", format!("the plan\n{}\n", key()));
    dir
}

/// The lines of a transcript.
#[track_caller]
fn lines(dir: &Dir, id: &str) -> Vec<Json> {
    let out = dir.ftl(&["transcript", id, "--json"]).code(0).out;
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(lines: &[Json]) -> Vec<&str> {
    lines.iter().map(|line| line["kind"].as_str().unwrap()).collect()
}

#[test]
fn what_an_agent_said_and_called_is_read_with_rulings_and_results() {
    let steps = format!(
        "[[scene.step]]\nsay = \"I look. {}\\n\"\n\
         calls = [{{ tool = \"read\", path = \"notes.txt\" }}, {{ tool = \"write\", path = \"notes.txt\", content = \"no\" }}]\n\
         usage = {{ tokens = 50 }}\n[[scene.step]]\nsubmit = {{ summary = \"looked\" }}\n",
        key()
    );
    let dir = coding(&steps);
    let (run, json) = dir.run(&["code", "story=sharpen the saw"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    let told = dir.ftl(&["transcript", &run]).code(0);
    let told = told.says(&[
        "coder",
        "play",
        "prompt",
        "--all shows it",
        "says",
        "I look.",
        "calls",
        "read notes.txt",
    ]);
    let told = told.says(&["the plan", "denied", "write notes.txt: ", "answers", "looked"]);
    assert!(!told.out.contains("MIND THE GAP"), "the prompt is long: {}", told.out);
    dir.ftl(&["transcript", &run, "--all"]).code(0).says(&["MIND THE GAP of sharpen the saw"]);
    let all = lines(&dir, &run);
    assert_eq!(
        kinds(&all),
        [
            "prompt",
            "text",
            "used",
            "arguments",
            "call",
            "ruling",
            "result",
            "back",
            "arguments",
            "call",
            "ruling",
            "back",
            "used",
            "arguments",
            "call",
            "ruling",
            "back",
            "answer"
        ],
        "{all:#?}"
    );
    let denied = all.iter().find(|line| line["ruling"] == "deny").unwrap();
    assert_eq!((&denied["tool"], &denied["path"]), (&json!("write"), &json!("notes.txt")));
    assert!(denied["why"].as_str().unwrap().contains("there is no tool `write` here"), "{denied:#}");
    assert!(
        all.iter()
            .all(|line| line["run"] == json!(run) && line["role"] == "coder" && line["agent"] == "play")
    );
    for text in [&told.out, &Json::from(all).to_string()] {
        assert!(text.contains("[hidden]") && !text.contains(&key()), "{text}");
    }
    dir.ftl(&["transcript", &format!("{run}/0")]).code(0).says(&["I look."]);
    dir.ftl(&["transcript", &format!("{run}/9")]).code(1).says(&["has no instance 9", "hint: "]);
    dir.ftl(&["transcript", "zzzz"]).code(1).says(&["there is no run `zzzz`"]);
}

#[test]
fn a_conversation_is_followed_and_survives_a_kill() {
    let dir = coding(
        "[[scene.step]]\nsay = \"I think\\nand think\\n\"\n\
         [[scene.step]]\nuntil = \"go\"\nsay = \"now\\n\"\n[[scene.step]]\nsubmit = { summary = \"done\" }\n",
    );
    let driving = dir.start(&["run", "code", "story=wait"]);
    let mut run = String::new();
    until("the agent has said something", || {
        let runs = dir.ftl(&["status", "--json"]).json();
        run = runs["runs"][0]["run"].as_str().unwrap_or_default().to_owned();
        !run.is_empty() && dir.ftl(&["transcript", &run]).out.contains("and think")
    });
    let following = dir.start(&["transcript", &run, "--follow", "--json"]);
    until("it is followed", || following.out().contains("and think"));
    driving.signal(Signal::KILL);
    driving.ended();
    dir.ftl(&["transcript", &run]).code(0).says(&["I think", "and think"]);
    dir.write("go", "");
    dir.ftl(&["resume", &run]).code(0);
    let out = following.ended().code(0).out;
    let all: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all, lines(&dir, &run), "what was followed is what is read afterwards");
    let said: Vec<(u64, &str)> = all
        .iter()
        .filter(|line| line["kind"] == "text")
        .map(|line| (line["conversation"].as_u64().unwrap(), line["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [(0, "I think\nand think\n"), (1, "I think\nand think\n"), (1, "now\n")]);
    assert_eq!(std::fs::read_dir(dir.path(".ftl/store/talks")).unwrap().count(), 0, "no file is left");
    let script = dir.ftl(&["agents", "record", &run]).code(0).out;
    assert!(script.contains("done"), "{script}");
}

#[test]
fn a_model_s_calls_and_results_are_read_too() {
    let dir = coding("");
    let read = json!([{ "name": "read", "args": { "path": "notes.txt" } }]);
    let submit = json!([{ "name": "submit", "args": { "summary": "read it" } }]);
    let server = ModelServer::start(json!({ "yes": { "steps": [
        { "say": "Let me see.", "calls": read, "usage": { "in": 9, "out": 1 } },
        { "calls": submit, "usage": { "in": 9, "out": 1 } },
    ] } }))
    .unwrap();
    let agent = format!(
        "[agents.m]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"{}\"\nmodel = \"scripted\"\nkey_file = \"key\"\n[roles]\ncoder = \"m\"\n",
        server.url("yes")
    );
    dir.write("ftl.toml", agent).write("key", "test-key-0123\n");
    let (run, json) = dir.run(&["code", "story=look"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    let all = lines(&dir, &run);
    let result = all.iter().find(|line| line["kind"] == "result").unwrap();
    assert!(result["tool"] == "read" && result["text"].as_str().unwrap().contains("the plan"), "{result:#}");
    assert!(!Json::from(all).to_string().contains(&key()));
}

#[test]
fn a_run_without_agents_says_so() {
    let dir = Dir::new();
    dir.protocol("alone", "STATE: START\n  RETURN: complete\n");
    let (run, _) = dir.run(&["alone"]);
    dir.ftl(&["transcript", &run]).code(0).says(&["no agent was asked in"]);
    assert_eq!(dir.ftl(&["transcript", &run, "--json"]).code(0).out, "");
}

#[test]
fn a_task_of_a_campaign_is_named_by_its_number() {
    let tasks = [task("001", "first", "a.txt", &[]), task("002", "second", "b.txt", &["001"])];
    let scenes = [
        builds("001-first", "a.txt", "done", "echo one was here"),
        builds("002-second", "b.txt", "done", "echo two was here"),
    ];
    let dir = repository(&tasks, &scenes);
    let run = go(&dir, &[]).code(0).json()["run"].as_str().unwrap().to_owned();
    let second = dir.ftl(&["transcript", &format!("{run}/002")]).code(0);
    let second = second.says(&["002 second", "builder implement", "bash echo two was here", "two was here"]);
    assert!(!second.out.contains("one was here"), "{}", second.out);
    let all = lines(&dir, &run);
    assert!(lines(&dir, &format!("{run}/001")).iter().all(|line| line["task"] == "001"));
    assert!(all.iter().any(|line| line["task"] == "001") && all.iter().any(|line| line["task"] == "002"));
    let one = lines(&dir, &format!("{run}/1"));
    assert!(
        !one.is_empty() && one.iter().all(|line| line["instance"] == 1),
        "an instance is named by its number"
    );
    let before = lines(&dir, &format!("{run}/002"));
    // What an earlier version kept does not say whose it is: the journal does.
    let older = "UPDATE notes SET body = json_remove(body, '$[0].instance', '$[0].at', '$[0].spool') WHERE kind = 'talk'";
    assert!(dir.database().execute(older, []).unwrap() > 0);
    assert_eq!(lines(&dir, &format!("{run}/002")), before);
    dir.ftl(&["transcript", &format!("{run}/003")]).code(1).says(&["its tasks are 001, 002"]);
}
