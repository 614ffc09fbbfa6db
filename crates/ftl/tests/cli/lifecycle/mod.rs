//! The lifecycle of a task through the binary: artifacts written by hand, and looked at from outside.

mod guards;
mod own;
mod pairs;
mod people;
pub(crate) mod phases;
mod recorded;
mod repl;
mod shapes;

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir};

/// A plan of one new file.
pub(super) const PLAN: &str = r#"{"id":"t","title":"Add a note","brief":"Add a note to the repository",
 "scope":{"in_scope":["a note"],"out_of_scope":[]},
 "acceptance_criteria":[{"id":"AC1","description":"there is a note"}],
 "file_plan":[{"path":"note.txt","intent":"create"}]}"#;

/// The files of that plan.
pub(super) const PLAN_FILES: &str = r#"{"files":["note.txt"]}"#;

/// The patch that makes the file.
pub(super) const PATCH: &str = "diff --git a/note.txt b/note.txt\nnew file mode 100644\n--- /dev/null\n+++ b/note.txt\n@@ -0,0 +1 @@\n+a note\n";

pub(super) const PLAN_REVIEW: &str = r#"{"ok":true,"blocked":false,"aggregate":{"ok":true,"decision":"accepted"},
 "reviewers":[{"id":"risk","role":"risk","ok":true,"decision":"accept"}]}"#;

pub(super) const PLAN_BLOCKED: &str = r#"{"ok":false,"blocked":true,"aggregate":{"ok":false,"decision":"blocked"},
 "reviewers":[{"id":"risk","role":"risk","ok":false,"decision":"blocked","blocking_issues":["no way back"]}]}"#;

pub(super) const CODE_REVIEW: &str =
    r#"{"issues":[{"id":"F1","severity":"minor","category":"code","message":"a name"}]}"#;

pub(super) const GREEN: &str = r#"{"status":"completed","overall_pass":true,
 "summary":{"passed":3,"failed":0,"skipped":0,"error":0},
 "suites":[{"id":"unit","status":"completed","overall_pass":true,"summary":{"passed":3,"failed":0,"skipped":0,"error":0}}]}"#;

pub(super) const RED: &str = r#"{"status":"completed","overall_pass":false,
 "summary":{"passed":2,"failed":1,"skipped":0,"error":0},
 "suites":[{"id":"unit","status":"completed","overall_pass":false,"summary":{"passed":2,"failed":1,"skipped":0,"error":0}}]}"#;

pub(super) const RECORD: &str =
    r#"{"reason":"it broke the export","timestamp":"2026-11-16T10:00:00Z","target":"none"}"#;

/// A decision as a person writes it.
pub(super) fn decision(verdict: &str, route: Option<&str>, signals: &[&str]) -> String {
    let mut json = json!({ "verdict": verdict, "reasons": ["because"], "artifacts": {},
        "timestamp": "2026-11-16T10:00:00Z", "decider": "Ada", "signals": signals });
    if let Some(route) = route {
        json["route"] = json!(route);
    }
    json.to_string()
}

/// The artifacts of a whole task, as far as they lie below every phase.
pub(super) const ALL: &[(&str, &str)] = &[
    ("planning/planning.ai.json", PLAN),
    ("planning/plan.files.json", PLAN_FILES),
    ("review/plan-review.json", PLAN_REVIEW),
    ("code/diff.patch", PATCH),
    ("code/files/note.txt", "a note\n"),
    ("review/code-review.json", CODE_REVIEW),
    ("eval/eval-report.json", GREEN),
];

/// A repository with one commit.
pub(super) fn repository() -> Dir {
    let dir = Dir::repository();
    dir.write("README.md", "# Notes\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    dir
}

/// Writes a task folder by hand.
pub(super) fn task(dir: &Dir, id: &str, phase: &str, files: &[(&str, &str)]) {
    for (name, text) in files {
        put(dir, id, name, text);
    }
    put(dir, id, "state.json", &format!("{{\"phase\":\"{phase}\",\"actors\":{{}},\"mine\":[1]}}"));
}

pub(super) fn put(dir: &Dir, id: &str, name: &str, text: &str) {
    dir.write(&format!(".ftl/tasks/{id}/{name}"), text);
}

pub(super) fn remove(dir: &Dir, id: &str, name: &str) {
    fs::remove_file(dir.path(&format!(".ftl/tasks/{id}/{name}"))).unwrap();
}

pub(super) fn get(dir: &Dir, id: &str, name: &str) -> String {
    dir.read(&format!(".ftl/tasks/{id}/{name}"))
}

pub(super) fn has(dir: &Dir, id: &str, name: &str) -> bool {
    dir.path(&format!(".ftl/tasks/{id}/{name}")).exists()
}

pub(super) fn phase(dir: &Dir, id: &str) -> String {
    let state: Json = serde_json::from_str(&get(dir, id, "state.json")).unwrap();
    state["phase"].as_str().unwrap().to_owned()
}

/// Says one of the commands for a task.
pub(super) fn say(dir: &Dir, id: &str, words: &[&str]) -> CommandOutcome {
    let args: Vec<&str> = words.iter().copied().chain(["--task", id, "--json"]).collect();
    dir.ftl(&args)
}

/// `ftl next` with more words: it ends so, and moves there or stays.
#[track_caller]
pub(super) fn next(dir: &Dir, id: &str, words: &[&str], code: i32, moved: Option<&str>) -> Json {
    let before = get(dir, id, "state.json");
    let words: Vec<&str> = ["next"].iter().chain(words).copied().collect();
    let answer = say(dir, id, &words).code(code).json();
    assert_eq!(answer["task"], id, "{answer:#}");
    assert_eq!(answer["moved"], moved.is_some(), "{answer:#}");
    match moved {
        Some(to) => {
            assert_eq!(answer["to"], to, "{answer:#}");
            assert_eq!(phase(dir, id), to);
        }
        None => assert_eq!(get(dir, id, "state.json"), before, "{answer:#}"),
    }
    answer
}

/// What a guard of an answer says.
#[track_caller]
pub(super) fn guard<'a>(answer: &'a Json, edge: &str) -> &'a Json {
    let all = answer["guards"].as_array().unwrap();
    all.iter().find(|guard| guard["edge"] == edge).unwrap_or_else(|| panic!("{edge}: {answer:#}"))
}
