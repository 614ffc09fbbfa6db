//! The page in a real browser: the demo campaign live, a question answered, a held run raised and resumed, the slider, the diff,
//! every page looked at by axe-core. What is done is written in `tools/web/look.mjs`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use ftl_core::run::{Entry, Run};
use ftl_folder::clock::wall;
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_store::{Append, NewRun, SqliteStore, Store as _, journal};
use ftl_view::summary::{Questions, Summary};
use serde_json::{Value as Json, json};

use super::Page;
use crate::campaigns::{GO, builds, repository, task};
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
fn a_plan_is_shown_and_built_from_the_page() {
    let dir = Dir::new();
    dir.ftl(&["demo", "--dir", "till"]).code(0);
    let till = Dir::at(&dir.path("till"));
    let page = Page::open(&till, &["--by", "Ada"]);
    let found = look(&till, "plan", &json!({ "address": page.address }));
    assert_eq!(found["faults"], json!([]), "{found}");
    let run = found["run"].as_str().unwrap().to_owned();
    until("the plan is built", || {
        !["running", ""].contains(&till.status(&run)["standing"].as_str().unwrap_or(""))
    });
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
fn a_held_run_is_overridden_and_work_that_was_kept_is_brought_back_on_the_page() {
    let tasks = [task("001", "good", "a.txt", &[]), task("002", "bad", "b.txt", &["001"])];
    let hostile = "<img src=x onerror=alert(1)>\u{202e}</script>";
    let dir = repository(
        &tasks,
        &[
            builds("001-good", "a.txt", &format!("done {hostile}"), "true"),
            builds("002-bad", "b.txt", "wrong", "true"),
        ],
    );
    let ended = crate::campaigns::go(&dir, &[]);
    let run = ended.json()["run"].as_str().unwrap().to_owned();
    dir.protocol(
        "frail",
        "STATE: START\n  DO: sh \"exit 3\"\n  GOTO: DONE\n\nSTATE: DONE\n  RETURN: complete\n",
    );
    let (held, _) = dir.run(&["frail"]);
    let page = Page::open(&dir, &["--by", "Ada"]);
    let found =
        look(&dir, "work", &json!({ "address": page.address, "run": run, "held": held, "name": "Ada" }));
    assert_eq!(found["faults"], json!([]), "{found}");
    assert!(dir.git(&["branch", "--list", "salvage/*"]).contains("salvage/"), "{found}");
    let waived = dir.entries(&held).into_iter().find(|entry| entry["fact"] == "waived").unwrap();
    assert_eq!((&waived["by"], &waived["reason"]), (&json!("Ada via web"), &json!("it is known")));
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
    dir.write("changed.html", text.replace("Working on x", "Working on y"));
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

/// Somebody who follows the stream of events.
fn follower(page: &Page) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", page.port)).unwrap();
    let request = format!("GET /api/v1/events HTTP/1.1\r\n{}\r\n", page.headers());
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// What a follower has heard.
struct Heard {
    stream: TcpStream,
    text: String,
}

impl Heard {
    fn until(&mut self, word: &str) {
        let mut piece = [0; 8192];
        while !self.text.contains(word) {
            let read = self.stream.read(&mut piece).unwrap();
            assert!(read > 0, "the stream has ended");
            self.text.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    }
}

/// How long a durable fact takes to reach a follower, while twenty follow.
fn visible(dir: &Dir, page: &Page) -> Json {
    let mut times = Vec::new();
    for _ in 0..12 {
        let (run, _) = dir.run(&["ask", "objective=y"]);
        let stream = follower(page);
        let (tell, told) = channel();
        let seen = std::thread::spawn(move || {
            let mut heard = Heard { stream, text: String::new() };
            heard.until("event: summary");
            tell.send(()).unwrap();
            heard.until("\"stopped\"");
            wall()
        });
        told.recv().unwrap();
        dir.ftl(&["stop", &run, "--reason", "enough"]);
        let written = dir.entries(&run).last().unwrap()["at"].as_u64().unwrap();
        times.push(seen.join().unwrap().saturating_sub(written));
    }
    times.sort_unstable();
    json!({ "p50_ms": times[times.len() / 2], "p95_ms": times[times.len() - 1] })
}

/// How many ticks of a hundredth of a second a process has had.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
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
    // Twenty follow beside the page that is measured.
    let beside = Page::session(&dir, &[]);
    let followers: Vec<TcpStream> = (0..20).map(|_| follower(&beside)).collect();
    let mut found = look(&dir, "bench", &json!({ "address": page.address, "wide": wide, "long": long }));
    found["visible"] = visible(&dir, &beside);
    drop(followers);
    let before = ticks(page.pid());
    std::thread::sleep(Duration::from_secs(10));
    found["idle_percent_of_a_core"] = json!(ticks(page.pid()) - before);
    let status = std::fs::read_to_string(format!("/proc/{}/status", page.pid())).unwrap();
    let memory =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default().trim().to_owned();
    found["server_memory"] = json!(memory);
    println!("{found:#}");
    assert_eq!(found["faults"], json!([]), "{found}");
}
