//! The page in a real browser: the demo campaign live, a question answered, a held run raised and resumed, the slider, the diff,
//! every page looked at by axe-core. What is done is written in `tools/web/look.mjs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ftl_core::run::{Entry, Run};
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_store::{Append, NewRun, SqliteStore, Store as _, journal};
use ftl_view::summary::{Questions, Summary};
use serde_json::{Value as Json, json};

use super::Page;
use crate::campaigns::{GO, repository, task};
use crate::runs::ASK;
use crate::support::{Dir, until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Does a scene of `tools/web/look.mjs`; what it found.
#[track_caller]
fn look(dir: &Dir, scene: &str, what: &Json) -> Json {
    let pictures = root().join("target/web/pictures");
    let mut node = Command::new("node");
    node.arg(root().join("tools/web/look.mjs")).args([scene, &what.to_string()]).stdin(Stdio::null());
    node.env("FTL_PICTURES", pictures).env("FTL", env!("CARGO_BIN_EXE_ftl")).current_dir(dir.path(""));
    let ended = node.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{scene}: {out}\n{err}");
    serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{out}\n{err}"))
}

#[ftl_needs::needs(chromium)]
#[test]
fn every_page_is_shown_in_both_schemes_without_a_fault_of_access() {
    let dir = Dir::new();
    let done = dir.ftl(&["demo", "--dir", "till", "--json"]).code(0).json();
    let till = Dir::at(&dir.path("till"));
    till.protocol("ask", ASK);
    till.protocol(
        "frail",
        "STATE: START\n  DO: sh \"exit 3\"\n  GOTO: DONE\n\nSTATE: DONE\n  RETURN: complete\n",
    );
    till.run(&["ask", "objective=Which colour has the till?"]);
    till.run(&["frail"]);
    let page = Page::open(&till, &["--by", "Ada"]);
    let found = look(&till, "pages", &json!({ "address": page.address, "run": done["run"] }));
    assert_eq!(found["faults"], json!([]), "{found}");
    assert!(found["pages"].as_u64().is_some_and(|pages| pages >= 14), "{found}");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        // The picture of the README: no two browsers draw the same bytes, so it is made here and not compared.
        let (made, kept) = ("target/web/pictures/graph-light-1280.png", "docs/pictures/page.png");
        std::fs::copy(root().join(made), root().join(kept)).unwrap();
    }
}

#[ftl_needs::needs(chromium)]
#[test]
fn a_question_is_answered_and_a_held_run_is_raised_on_the_page() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (asked, _) = dir.run(&["ask", "objective=</script><b>Which?</b>\u{202e}"]);
    let (spent, _) = dir.run(&["ask", "objective=again"]);
    for _ in 0..3 {
        dir.ftl(&["answer", &spent, "no"]);
    }
    assert_eq!(dir.status(&spent)["standing"], "held");
    let page = Page::open(&dir, &["--by", "Ada"]);
    let found = look(
        &dir,
        "answers",
        &json!({ "address": page.address, "asked": asked, "spent": spent, "name": "Ada" }),
    );
    assert_eq!(found["faults"], json!([]), "{found}");
    assert_eq!(dir.status(&asked)["standing"], "complete");
    let raised = dir.entries(&spent).into_iter().find(|entry| entry["fact"] == "raised").unwrap();
    assert_eq!((&raised["by"], &raised["reason"]), (&json!("Ada via web"), &json!("one more round")));
}

#[ftl_needs::needs(chromium)]
#[test]
fn a_campaign_is_watched_killed_and_resumed_under_the_page() {
    let waits = "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"001-good\"\n[[scene.step]]\n\
        until = \"../../../meet\"\ncalls = [{ tool = \"write\", path = \"a.txt\", content = \"done\\n\" }]\n\
        [[scene.step]]\nsubmit = { summary = \"written\", utilized = [] }\n";
    let dir = repository(&[task("001", "good", "a.txt", &[])], &[waits.to_owned()]);
    let started = dir.start(&GO);
    let mut run = String::new();
    until("there is a run", || {
        let runs = dir.ftl(&["status", "--json"]).json()["runs"].clone();
        run = runs[0]["run"].as_str().unwrap_or_default().to_owned();
        !run.is_empty()
    });
    let page = Page::open(&dir, &["--by", "Ada"]);
    let meet = dir.path("meet").display().to_string();
    let what = json!({ "address": page.address, "run": run, "pid": started.pid(), "meet": meet });
    let found = look(&dir, "live", &what);
    assert_eq!(found["faults"], json!([]), "{found}");
    assert_eq!(dir.status(&run)["standing"], "complete");
}

#[ftl_needs::needs(chromium)]
#[test]
fn a_file_checks_its_own_chain_and_finds_a_change() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    dir.ftl(&["answer", &run, "yes"]);
    dir.ftl(&["export", &run, "--html", "-o", "run.html"]).code(0);
    let text = dir.read("run.html");
    dir.write("changed.html", text.replacen("Working on x", "Working on y", 1));
    let file = |name: &str| dir.path(name).display().to_string();
    let found = look(&dir, "file", &json!({ "whole": file("run.html"), "changed": file("changed.html") }));
    assert_eq!(found["faults"], json!([]), "{found}");
}

/// A run that is only a journal: a plan of many tasks, and many entries.
fn written(dir: &Dir, tasks: u64, entries: u64) -> String {
    let seq = |at: u64| format!("{at:05}");
    let task = |at: u64| {
        let before = [at.saturating_sub(100), at.saturating_sub(37)];
        let depends: Vec<String> =
            before.iter().filter(|on| at > 100 && **on > 0).map(|on| seq(*on)).collect();
        json!({ "seq": seq(at), "slug": format!("task-{at}"), "delta": ["a"], "verify": "true", "budget": 5, "depends": depends })
    };
    let plan = json!({ "objective": "many", "tasks": (1..=tasks).map(task).collect::<Vec<_>>() });
    let opened = json!({
        "seq": 1, "at": 1_800_000_000_000_u64, "instance": 0, "first": true, "fact": "opened", "protocol": "campaign",
        "digest": "d", "state": "BUILD", "code": "c", "params": {}, "inputs": { "objective": format!("{tasks} tasks, {entries} entries") },
        "tracked": { "plan": plan }, "meters": {},
    });
    let more = (2..=entries).map(|at| {
        json!({ "seq": at, "at": 1_800_000_000_000_u64 + at * 50, "instance": 0, "first": true, "fact": "emitted",
            "fields": { "text": format!("this is entry {at}") } })
    });
    let all: Vec<Entry> =
        std::iter::once(opened).chain(more).map(|entry| serde_json::from_value(entry).unwrap()).collect();
    let mut run = Run::new(Arc::new(Library::built_in()));
    all.iter().for_each(|entry| run.apply(entry));
    let summary = serde_json::to_string(&Summary::of(&run, &Questions::new())).unwrap();
    let store = SqliteStore::open(&dir.path(".ftl/store")).unwrap();
    let id = RunId::random().unwrap();
    let new = NewRun { run: id.clone(), owner: String::from("nobody"), at: 1, summary: summary.clone() };
    let lease = store.create(&new).unwrap();
    for part in all.chunks(500) {
        let encoded = journal::encode(part).unwrap();
        let summary = Some(summary.clone());
        let append =
            Append { lines: encoded.lines, content: encoded.content, at: 1, summary, ..Append::default() };
        store.append(&lease, append).unwrap();
    }
    store.release(&lease).unwrap();
    id.to_string()
}

#[ftl_needs::needs(chromium)]
#[test]
#[ignore = "long form of the other tests of the page: its figures (`just bench-web`)"]
fn figures() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    dir.run(&["ask", "objective=x"]);
    let wide = written(&dir, 10_000, 10);
    let long = written(&dir, 10, 100_000);
    for _ in 0..97 {
        written(&dir, 3, 5);
    }
    let page = Page::open(&dir, &[]);
    let mut found = look(&dir, "bench", &json!({ "address": page.address, "wide": wide, "long": long }));
    let status = std::fs::read_to_string(format!("/proc/{}/status", page.pid())).unwrap();
    let memory =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default().trim().to_owned();
    found["server_memory"] = json!(memory);
    println!("{found:#}");
    assert_eq!(found["faults"], json!([]), "{found}");
}
