//! The documents of `--json`: each is printed for real, and has exactly the fields that `src/json.txt` declares.
//!
//! `docs/json.md` is made from that table; `UPDATE_SNAPSHOTS=1` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use serde_json::Value as Json;

use crate::campaigns::{GO, builds, repository, task};
use crate::lifecycle::phases;
use crate::runs::ASK;
use crate::support::{CommandOutcome, Dir};
use crate::{coding, known, trusting};

/// The table. `# NAME: what prints it` begins a document, `= NAME: what it is` a part of several; behind `#~` and `=~` is
/// what the tests do not print. Then a line a field: `NAME | TYPE | UNIT | MEANING`. `NAME?` may be missing, and `NAME??` the
/// tests do not print; `*` stands for fields of any name, and `+ PART` for those of a part.
const TABLE: &str = include_str!("../../src/json.txt");

/// Where the page is.
const PAGE: &str = "../../docs/json.md";

/// How the page begins.
const HEAD: &str = "# The documents of --json

With `--json` a command prints one JSON document on standard output and nothing else; what is said beside it goes to standard error.
A failure and a command line that is not understood print one too: [error](#error), with the exit code that they have without `--json`.
`ftl log`, `ftl watch` and `ftl transcript` print lines instead, an object each, and a flow tells its news as such lines on standard error.

- `version` is 1 in every document. It grows when a field goes or means something else; a field that comes leaves it. Lines of a stream, and
  JSON schemas of artifacts (`ftl schema plan-review.json`), have none.
- The FTL protocol's own commands ([ftl-commands.md](ftl-commands.md)) print the documents of their map, without `version`. Where they fail they
  print an error like all others.
- A type with `or null` is there and may be null; a field with `?` may be missing. `list X` is an array, `map X` an object whose keys are names.
- A `count` is a whole number from 0. Units stand beside; an amount of a meter is in millionths for `money`, in milliseconds for `time`, and is
  counted for all else. A `stamp` is a time of RFC 3339 in UTC, such as `2025-11-16T10:00:00Z`.

This page is made from the table that the tests check every document by (`crates/ftl/src/json.txt`).
";

#[derive(Clone)]
struct Field {
    name: String,
    is_optional: bool,
    is_rare: bool,
    kind: String,
    unit: String,
    about: String,
}

struct Shape {
    name: String,
    about: String,
    /// Whether commands print it as it is; else it is a part of others.
    is_document: bool,
    is_rare: bool,
    /// The parts whose fields it has too.
    of: Vec<String>,
    fields: Vec<Field>,
}

fn shapes() -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix(['#', '=']) {
            let (name, about) = head.split_once(": ").unwrap_or((head, ""));
            shapes.push(Shape {
                name: name.trim_start_matches('~').trim().to_owned(),
                about: about.to_owned(),
                is_document: line.starts_with('#'),
                is_rare: name.starts_with('~'),
                of: Vec::new(),
                fields: Vec::new(),
            });
        } else if let Some(part) = line.strip_prefix("+ ") {
            shapes.last_mut().unwrap().of.push(part.to_owned());
        } else {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, kind, unit, about] = cells[..] else { panic!("{line}") };
            shapes.last_mut().unwrap().fields.push(Field {
                name: name.trim_end_matches('?').to_owned(),
                is_optional: name.ends_with('?') || name == "*",
                is_rare: name.ends_with("??"),
                kind: kind.to_owned(),
                unit: unit.to_owned(),
                about: about.to_owned(),
            });
        }
    }
    shapes
}

/// Compares documents with their shapes, and remembers which fields were there.
struct Judge {
    shapes: BTreeMap<String, Shape>,
    seen: BTreeSet<(String, String)>,
    faults: Vec<String>,
}

impl Judge {
    /// The fields of a shape, each with the shape that declares it.
    fn declared(&self, shape: &str) -> Vec<(String, Field)> {
        let found = self.shapes.get(shape).unwrap_or_else(|| panic!("there is no shape {shape}"));
        let own = found.fields.iter().map(|field| (shape.to_owned(), field.clone()));
        found.of.iter().flat_map(|part| self.declared(part)).chain(own).collect()
    }

    fn object(&mut self, shape: &str, value: &Json, at: &str) {
        let Some(fields) = value.as_object() else {
            self.faults.push(format!("{at} is no object but {value}"));
            return;
        };
        let declared = self.declared(shape);
        for (whose, field) in &declared {
            let Some(value) = fields.get(&field.name) else {
                if !field.is_optional {
                    self.faults.push(format!("{at}.{} is missing", field.name));
                }
                continue;
            };
            self.seen.insert((whose.clone(), field.name.clone()));
            self.value(&field.kind, value, &format!("{at}.{}", field.name));
        }
        let is_known =
            |name: &String| declared.iter().any(|(_, field)| field.name == *name || field.name == "*");
        let unknown = fields.keys().filter(|name| !is_known(name));
        self.faults.extend(unknown.map(|name| format!("{at}.{name} is not declared")));
    }

    fn value(&mut self, kind: &str, value: &Json, at: &str) {
        if let Some(kind) = kind.strip_suffix(" or null") {
            if !value.is_null() {
                self.value(kind, value, at);
            }
            return;
        }
        let fits = match kind {
            "any" => true,
            "text" => value.is_string(),
            "stamp" => value.as_str().is_some_and(|text| text.len() >= 20 && text.ends_with('Z')),
            "bool" => value.is_boolean(),
            "count" => value.is_u64(),
            "number" => value.is_number(),
            "object" => value.is_object(),
            _ => match (kind.split_once(' '), value) {
                (Some(("list", of)), Json::Array(items)) => {
                    items
                        .iter()
                        .enumerate()
                        .for_each(|(number, one)| self.value(of, one, &format!("{at}[{number}]")));
                    true
                }
                (Some(("map", of)), Json::Object(fields)) => {
                    fields.iter().for_each(|(name, one)| self.value(of, one, &format!("{at}.{name}")));
                    true
                }
                (Some(("list" | "map", _)), _) => false,
                (Some(_) | None, _) => {
                    self.object(kind, value, at);
                    true
                }
            },
        };
        if !fits {
            self.faults.push(format!("{at} is no {kind}: {value}"));
        }
    }
}

/// What was printed, by the name of its shape.
#[derive(Default)]
struct Printed(Vec<(&'static str, Json)>);

impl Printed {
    /// Runs a command with `--json`; the document that it prints.
    #[track_caller]
    fn get(&mut self, shape: &'static str, dir: &Dir, args: &[&str], code: i32) -> Json {
        self.take(shape, &dir.ftl(&[args, &["--json"]].concat()).code(code))
    }

    #[track_caller]
    fn take(&mut self, shape: &'static str, ended: &CommandOutcome) -> Json {
        let json = ended.json();
        self.0.push((shape, json.clone()));
        json
    }

    fn lines(&mut self, shape: &'static str, text: &str) {
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let before = self.0.len();
        self.0.extend(lines.map(|line| (shape, serde_json::from_str(line).unwrap())));
        assert!(self.0.len() > before, "no line of {shape}: {text}");
    }
}

/// Runs that wait, are steered and end.
fn runs(printed: &mut Printed) {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    dir.protocol("ask", ASK);
    printed.get("status", &dir, &["status"], 0);
    printed.get("resume", &dir, &["resume"], 0);
    let json = printed.get("run", &dir, &["run", "ask", "objective=x"], 3);
    let run = json["run"].as_str().unwrap();
    printed.get("status", &dir, &["status"], 0);
    printed.get("why", &dir, &["why", run], 0);
    printed.get("run", &dir, &["raise", run, "rounds", "5", "--reason", "more"], 0);
    printed.get("kept order", &dir, &["answer", run, "no", "--no-wait"], 0);
    printed.get("run", &dir, &["resume", run], 3);
    printed.get("run", &dir, &["answer", run, "yes"], 0);
    printed.get("why", &dir, &["why", run], 0);
    printed.lines("log line", &dir.ftl(&["log", run, "--json"]).code(0).out);
    printed.get("audit", &dir, &["audit", "verify"], 0);
    printed.get("doctor", &dir, &["doctor"], 0);
    printed.get("config", &dir, &["config"], 0);
    printed.get("clean", &dir, &["clean"], 0);
    printed.get("error", &dir, &["nonsense"], 2);
    printed.get("error", &dir, &["check", "--nope"], 2);
    printed.get("error", &dir, &["why", "nobody"], 1);
    printed.get("error", &dir, &["campaign", "update-task", "001", "complete"], 1);
    dir.protocol("frail", "STATE: START\n  DO: sh \"exit 3\"\n  RETURN: complete\n");
    let held = printed.get("run", &dir, &["run", "frail"], 3);
    printed.get("why", &dir, &["why", held["run"].as_str().unwrap()], 0);
    printed.get("resume", &dir, &["resume"], 0);
    printed.get("run", &dir, &["stop", held["run"].as_str().unwrap()], 0);
    dir.database().execute("UPDATE entries SET body = body || ' ' WHERE seq = 2", []).unwrap();
    printed.get("audit", &dir, &["audit", "verify"], 6);
}

/// A campaign with a task that lands, one that is blocked and one that never runs, and what is done about it.
fn flows(printed: &mut Printed) {
    let tasks = [
        task("001", "good", "a.txt", &[]),
        task("002", "wrong", "b.txt", &[]),
        task("003", "never", "c.txt", &["002"]),
    ];
    let dir = repository(
        &tasks,
        &[builds("001-good", "a.txt", "done", "true"), builds("002-wrong", "b.txt", "wrong", "true")],
    );
    printed.get("plan of a flow", &dir, &[&GO[..], &["--dry-run"]].concat(), 0);
    let ended = dir.ftl(&[&GO[..], &["--land-partial", "--land", "ff", "--json"]].concat()).code(3);
    printed.lines("news line", &ended.err);
    let run = printed.take("flow", &ended)["run"].as_str().unwrap().to_owned();
    printed.get("status", &dir, &["status", &format!("{run}/1")], 0);
    printed.get("why", &dir, &["why", &run], 0);
    printed.get("why", &dir, &["why", &format!("{run}/002")], 0);
    printed.get("diff", &dir, &["diff", &run], 0);
    printed.get("export", &dir, &["export", &run, "--html", "-o", "run.html"], 0);
    printed.get("diff", &dir, &["diff", &run, "--stat"], 0);
    printed.lines("transcript line", &dir.ftl(&["transcript", &run, "--json"]).code(0).out);
    printed.get("agents", &dir, &["agents"], 0);
    printed.get("agents probe", &dir, &["agents", "probe", "play"], 1);
    printed.get("agents record", &dir, &["agents", "record", &run], 0);
    printed.get("agents record", &dir, &["agents", "record", &run, "--out", "record.toml"], 0);
    let kept = printed.get("salvage", &dir, &["salvage"], 0);
    let kept = kept["kept"][0]["id"].as_str().unwrap();
    printed.get("salvage ID", &dir, &["salvage", kept], 0);
    printed.get("salvage ID", &dir, &["salvage", kept, "--into", "brought-back"], 0);
    printed.get("undo", &dir, &["undo"], 0);
    printed.get("clean", &dir, &["clean", "--yes"], 0);
    printed.get("clean --undo", &dir, &["clean", "--undo"], 0);
    let one = known::repository();
    known::bound(&one, "default = \"play\"\n", known::PLAN);
    printed.get("plan of a flow", &one, &["Mend the word", "--dry-run"], 0);
    let done = printed.get("flow", &one, &["Mend the word", "--land", "ff"], 0);
    printed.get("diff", &one, &["diff", done["run"].as_str().unwrap()], 0);
    let story = coding::repository(&coding::content());
    printed.take("story", &coding::code(&story, &["--land", "ff"]).code(0));
}

/// Protocols, and what is known without a run.
fn documents(printed: &mut Printed) {
    let dir = Dir::new();
    printed.get("init --print", &dir, &["init", "--print"], 0);
    printed.get("init", &dir, &["init"], 0);
    printed.get("check", &dir, &["check"], 0);
    printed.get("protocols", &dir, &["protocols"], 0);
    printed.get("schema", &dir, &["schema"], 0);
    printed.get("schema of an action", &dir, &["schema", "verify.run"], 0);
    printed.get("schema of a role", &dir, &["schema", "architect"], 0);
    printed.get("schema of a role", &dir, &["schema", "planner"], 0);
    printed.get("schema of a role", &dir, &["schema", "reviewers"], 0);
    printed.get("draw", &dir, &["draw", "coder"], 0);
    printed.get("draw --output", &dir, &["draw", "coder", "--output", "coder.mmd"], 0);
    dir.protocol("mine", "STATE: START\n  RETURN: complete\n")
        .write("broken.md", "```protocol\nSTATE\n```\n");
    printed.get("draw --write", &dir, &["draw", "mine", "--write"], 0);
    printed.get("check", &dir, &["check", "broken.md"], 1);
    printed.get("draw of a broken document", &dir, &["draw", "broken.md"], 1);
    printed.get("completions", &dir, &["completions", "bash"], 0);
    printed.get("man", &dir, &["man"], 0);
    dir.protocol("odd", "STATE: START\n  GOTO: NOWHERE\n");
    printed.get("protocols", &dir, &["protocols"], 0);
    let clone = trusting::clone_of(&[("ftl.toml", trusting::WIDE)]);
    printed.get("trust", &clone, &["trust", "--yes"], 0);
}

/// One task of the lifecycle.
fn lifecycle(printed: &mut Printed) {
    let dir = phases::project(&phases::good());
    let id = printed.get("new", &dir, &["new", "Add a note"], 0)["task"].as_str().unwrap().to_owned();
    printed.get("show", &dir, &["show"], 0);
    printed.get("next", &dir, &["next"], 4);
    printed.get("work of a phase", &dir, &["plan"], 0);
    printed.get("next", &dir, &["next", "--auto"], 0);
    printed.get("accept", &dir, &["accept", "--reason", "good"], 0);
    printed.get("next", &dir, &["next"], 0);
    printed.get("show", &dir, &["show"], 0);
    printed.get("redo", &dir, &["redo", "accept", "--reason", "again"], 0);
    printed.get("adopt", &dir, &["adopt", "--task", &id], 0);
}

#[test]
fn every_document_has_exactly_the_fields_that_are_declared() {
    let mut printed = Printed::default();
    runs(&mut printed);
    flows(&mut printed);
    documents(&mut printed);
    lifecycle(&mut printed);
    let shapes = shapes().into_iter().map(|shape| (shape.name.clone(), shape)).collect();
    let mut judge = Judge { shapes, seen: BTreeSet::new(), faults: Vec::new() };
    for (shape, document) in &printed.0 {
        let is_line = shape.ends_with(" line");
        if !is_line && document["version"] != 1 {
            judge.faults.push(format!("{shape} has no version"));
        }
        let mut fields = document.clone();
        fields.as_object_mut().unwrap().remove("version");
        judge.object(shape, &fields, shape);
    }
    let never = judge.shapes.values().filter(|shape| !shape.is_rare).flat_map(|shape| {
        let unseen = |field: &&Field| {
            let is_seen = judge.seen.contains(&(shape.name.clone(), field.name.clone()));
            !is_seen && !field.is_rare && field.name != "*"
        };
        shape
            .fields
            .iter()
            .filter(unseen)
            .map(|field| format!("{}.{} was never printed", shape.name, field.name))
    });
    let never: Vec<String> = never.collect();
    judge.faults.extend(never);
    judge.faults.dedup();
    assert!(judge.faults.is_empty(), "\n{}\nhint: declare it in src/json.txt\n", judge.faults.join("\n"));
}

#[test]
fn the_page_of_documents_is_up_to_date() {
    let mut page = HEAD.to_owned();
    let (documents, parts): (Vec<Shape>, Vec<Shape>) =
        shapes().into_iter().partition(|shape| shape.is_document);
    let names: BTreeSet<&str> = parts.iter().map(|shape| shape.name.as_str()).collect();
    for shape in &documents {
        page.push_str(&section(shape, &names));
    }
    page.push_str("\n## Parts of documents\n");
    for shape in &parts {
        page.push_str(&section(shape, &names));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert!(recorded == page, "docs/json.md is not what json.txt says; UPDATE_SNAPSHOTS=1 writes it anew");
}

/// A shape as a section of the page.
fn section(shape: &Shape, parts: &BTreeSet<&str>) -> String {
    let linked = |name: &str| format!("[{name}](#{})", name.replace(' ', "-"));
    let level = if shape.is_document { "##" } else { "###" };
    let mut text = format!("\n{level} {}\n\n", shape.name);
    if !shape.about.is_empty() {
        text.push_str(&format!("{}\n\n", shape.about));
    }
    for part in &shape.of {
        text.push_str(&format!("The fields of {}, and:\n\n", linked(part)));
    }
    text.push_str("| field | type | unit | meaning |\n|---|---|---|---|\n");
    for field in &shape.fields {
        let mark = if field.is_optional && field.name != "*" { "?" } else { "" };
        let (before, of) =
            field.kind.rsplit_once(" or null").map_or(("", field.kind.as_str()), |(of, _)| (" or null", of));
        let of = match of.split_once(' ').filter(|(word, _)| ["list", "map"].contains(word)) {
            Some((word, inner)) if parts.contains(inner) => format!("{word} {}", linked(inner)),
            None if parts.contains(of) => linked(of),
            Some(_) | None => of.to_owned(),
        };
        text.push_str(&format!(
            "| `{}`{mark} | {of}{before} | {} | {} |\n",
            field.name, field.unit, field.about
        ));
    }
    text
}
