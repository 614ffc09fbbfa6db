//! The recorder: a fixed list of lifecycle commands on fixture tasks, with what each of them printed, how it ended and
//! what it left in `state.json` and `transcript.jsonl`. Whoever changes how the lifecycle is decided compares the
//! snapshots before and after; only what the change is about may differ.
//!
//! Names of runs, digests, commits and times differ from run to run and are replaced before anything is compared.

use std::fmt::Write as _;

use super::pairs::edges;
use super::{ALL, Dir, PATCH, PLAN, PLAN_REVIEW, RED, decision, get, has, put, remove, repository, task};
use crate::support::snapshot;

const PHASES: [&str; 8] =
    ["planning", "plan_review", "codegen", "review", "test", "accept", "revert", "done"];

/// What was recorded so far.
struct Recorder {
    dir: Dir,
    text: String,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder { dir: repository(), text: String::new() }
    }

    fn title(&mut self, title: &str) {
        writeln!(self.text, "\n== {title}").unwrap();
    }

    /// Runs a command and records how it ended.
    fn ftl(&mut self, args: &[&str]) {
        let ended = self.dir.ftl(args);
        writeln!(self.text, "$ ftl {}\nexit {}", args.join(" "), ended.code).unwrap();
        for (name, said) in [("out", &ended.out), ("err", &ended.err)] {
            if !said.is_empty() {
                writeln!(self.text, "{name}:\n{}", said.trim_end()).unwrap();
            }
        }
    }

    /// Says something for a task, as a document and then what it left.
    fn task(&mut self, id: &str, words: &[&str]) {
        let args: Vec<&str> = words.iter().copied().chain(["--task", id, "--json"]).collect();
        self.ftl(&args);
    }

    /// What a task has come to on the disk.
    fn files(&mut self, id: &str) {
        for name in ["state.json", "transcript.jsonl", "accept/decision.json", "revert/record.json"] {
            if has(&self.dir, id, name) {
                let text = get(&self.dir, id, name);
                writeln!(self.text, "{name}:\n{}", text.trim_end()).unwrap();
            }
        }
    }

    /// Compares with what was recorded before.
    fn compare(self, name: &str) {
        let database = self.dir.database();
        let mut statement = database.prepare("SELECT name FROM runs").unwrap();
        let runs: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        let mut text = self.text;
        for run in runs {
            text = text.replace(&run, "RUN");
        }
        snapshot(&format!("lifecycle-{name}"), &plain(text.trim_start()));
    }
}

/// The text without digests, commits and times.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hex = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let stamp = is_time(rest);
        match hex {
            _ if stamp => {
                out.push_str("TIME");
                rest = &rest["2026-11-16T10:00:00.000Z".len()..];
            }
            64 => {
                out.push_str("DIGEST");
                rest = &rest[64..];
            }
            40 => {
                out.push_str("COMMIT");
                rest = &rest[40..];
            }
            0 => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
            some => {
                out.push_str(&rest[..some]);
                rest = &rest[some..];
            }
        }
    }
    out
}

/// Whether a time begins here, as artifacts say it.
fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00.000Z";
    text.len() >= shape.len()
        && text.bytes().zip(shape.bytes()).all(|(one, shape)| match shape {
            b'0' => one.is_ascii_digit(),
            _ => one == shape,
        })
}

#[test]
fn every_edge_as_it_is_looked_at_and_taken() {
    let mut on = Recorder::new();
    for (number, (from, to, extra)) in edges().into_iter().enumerate() {
        let id = format!("e{number}");
        on.title(&format!("{from} {to}"));
        task(&on.dir, &id, from, ALL);
        for (name, text) in &extra {
            put(&on.dir, &id, name, text);
        }
        on.task(&id, &["next", "--eval"]);
        on.ftl(&["next", "--eval", "--task", &id]);
        on.task(&id, &["show"]);
        on.ftl(&["show", "--task", &id]);
        on.task(&id, &["next", "--to", "planning"]);
        on.task(&id, &["next"]);
        on.files(&id);
        on.task(&id, &["show"]);
    }
    on.compare("edges");
}

#[test]
fn every_phase_with_nothing_in_its_folder() {
    let mut on = Recorder::new();
    for phase in PHASES {
        on.title(phase);
        task(&on.dir, phase, phase, &[("code/diff.patch", PATCH)]);
        if phase != "planning" {
            put(&on.dir, phase, "planning/planning.ai.json", PLAN);
        }
        on.task(phase, &["next", "--eval"]);
        on.ftl(&["show", "--task", phase]);
        on.ftl(&["next", "--task", phase]);
        for to in PHASES {
            on.task(phase, &["next", "--to", to]);
        }
        on.task(phase, &["next", "--to", "nowhere"]);
        for word in [&["plan"][..], &["review", "plan"], &["codegen"], &["review", "code"], &["test"]] {
            on.task(phase, word);
        }
        on.files(phase);
        on.task(phase, &["show"]);
    }
    on.compare("bare");
}

#[test]
fn overrides_and_redos() {
    let mut on = Recorder::new();
    for phase in PHASES {
        on.title(phase);
        task(&on.dir, phase, phase, &[("planning/planning.ai.json", PLAN), ("code/diff.patch", PATCH)]);
        on.task(phase, &["next", "--override", " "]);
        on.task(phase, &["next", "--override", "the risk is mine"]);
        on.files(phase);
        on.task(phase, &["redo", "nowhere", "--reason", "x"]);
        on.task(phase, &["redo", "revert", "--reason", "x"]);
        on.task(phase, &["redo", "planning", "--reason", "again"]);
        on.files(phase);
        on.task(phase, &["next", "--to", "planning", "--override", "once more"]);
        on.files(phase);
    }
    on.title("no patch to apply");
    task(&on.dir, "nothing", "accept", &[("planning/planning.ai.json", PLAN)]);
    on.task("nothing", &["next", "--override", "the risk is mine"]);
    on.files("nothing");
    on.title("rounds");
    task(&on.dir, "rounds", "codegen", ALL);
    for _ in 0..6 {
        on.task("rounds", &["redo", "codegen", "--reason", "again"]);
    }
    on.task("rounds", &["next", "--to", "codegen", "--override", "again"]);
    on.task("rounds", &["next"]);
    on.compare("overrides");
}

#[test]
fn decisions_and_reverts() {
    let mut on = Recorder::new();
    task(&on.dir, "t", "accept", ALL);
    for words in [
        &["next"][..],
        &["accept", "--verdict", "needs_work", "--route", "nowhere"],
        &["accept", "--route", "codegen"],
        &["accept", "--verdict", "deferred", "--reason", "later"],
        &["next"],
        &["accept", "--reason", "good"],
        &["next", "--eval"],
        &["next"],
        &["next"],
        &["next", "--override", "more"],
        &["redo", "accept", "--reason", "it broke the export"],
        &["revert", "--reason", " "],
        &["revert"],
        &["revert", "--reason", "it broke the export"],
        &["next"],
        &["revert"],
        &["next"],
        &["show"],
    ] {
        on.task("t", words);
        on.files("t");
    }
    for (number, (verdict, route)) in [
        ("needs_work", None),
        ("needs_work", Some("planning")),
        ("rejected", Some("review")),
        ("rejected", None),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("d{number}");
        on.title(&format!("{verdict} {route:?}"));
        task(&on.dir, &id, "accept", ALL);
        let mut words = vec!["accept", "--verdict", verdict, "--reason", "so"];
        words.extend(route.into_iter().flat_map(|route| ["--route", route]));
        on.task(&id, &words);
        on.task(&id, &["next"]);
        on.files(&id);
    }
    on.compare("decisions");
}

#[test]
fn guards_that_send_back_refuse_or_cannot_be_read() {
    let mut on = Recorder::new();
    let cases: &[(&str, &str, &str)] = &[
        ("planning", "planning/planning.ai.json", "{"),
        ("planning", "planning/planning.ai.json", ""),
        ("plan_review", "review/plan-review.json", ""),
        ("plan_review", "review/plan-review.json", r#"{"ok":false,"reviewers":[{"id":"a","ok":false}]}"#),
        ("plan_review", "review/plan-review.json", r#"{"ok":true,"reviewers":[{"id":"a","ok":null}]}"#),
        ("codegen", "code/files/stray.txt", "stray"),
        ("codegen", "planning/planning.ai.json", ""),
        ("review", "review/code-review.json", "{}"),
        ("review", "code/diff.patch", ""),
        ("test", "eval/eval-report.json", RED),
        ("test", "eval/eval-report.json", ""),
        ("accept", "accept/decision.json", "{}"),
        ("accept", "code/diff.patch", ""),
        ("revert", "revert/record.json", "{}"),
    ];
    for (number, (phase, name, text)) in cases.iter().enumerate() {
        let id = format!("g{number}");
        on.title(&format!("{phase} {name} {text}"));
        task(&on.dir, &id, phase, ALL);
        if text.is_empty() {
            remove(&on.dir, &id, name);
        } else {
            put(&on.dir, &id, name, text);
        }
        on.task(&id, &["next", "--eval"]);
        on.ftl(&["next", "--eval", "--task", &id]);
        on.ftl(&["next", "--task", &id]);
        on.files(&id);
        on.task(&id, &["show"]);
        on.ftl(&["show", "--task", &id]);
    }
    on.title("adopted, changed, unreadable");
    task(&on.dir, "a", "accept", ALL);
    put(&on.dir, "a", "accept/decision.json", &decision("accepted", None, &["regression"]));
    put(&on.dir, "a", "review/plan-review.json", PLAN_REVIEW);
    on.task("a", &["adopt"]);
    on.task("a", &["next"]);
    put(&on.dir, "a", "state.json", "{\"phase\":\"test\"}");
    on.task("a", &["next"]);
    on.task("a", &["show"]);
    on.task("a", &["adopt"]);
    put(&on.dir, "a", "state.json", "{\"phase\":\"tests\"}");
    on.task("a", &["next", "--eval"]);
    on.compare("guards");
}

#[test]
fn edges_and_moves_of_the_documents() {
    let mut on = Recorder::new();
    on.ftl(&["draw", "lifecycle", "--format", "edges"]);
    on.ftl(&["draw", "task", "--format", "edges"]);
    let states = ["INIT", "EXPLORE", "PLAN", "BUILD", "OBSERVE", "COMPLETE", "ERROR"];
    for from in states {
        for to in states {
            on.ftl(&["orchestration", "validate-transition", from, to]);
        }
    }
    let phases = ["none", "explore", "plan", "build", "observe", "complete", "error"];
    for from in phases {
        for to in phases {
            on.ftl(&["phase", "can-transition", from, to]);
        }
    }
    for to in ["plan", "explore", "plan", "build", "observe", "complete", "none"] {
        // The answer has times in it; what is compared is whether it moved, and why not.
        let ended = on.dir.ftl(&["phase", "transition", to]);
        writeln!(on.text, "$ ftl phase transition {to}\nexit {}\n{}", ended.code, ended.err.trim_end())
            .unwrap();
    }
    snapshot("lifecycle-documents", &plain(on.text.trim_start()));
}
