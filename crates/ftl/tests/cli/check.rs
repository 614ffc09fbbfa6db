//! `ftl check`.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::json;

use crate::support::{Dir, MINE, built_in, snapshot};

const BROKEN: &str = include_str!("documents/broken.md");
const UNREADABLE: &str = include_str!("documents/unreadable.md");
const PEOPLE: &str = include_str!("documents/people.md");

#[test]
fn the_built_in_protocols_are_sound() {
    let dir = Dir::new();
    let ended = dir.ftl(&["check"]).code(0);
    assert_eq!(ended.err, "");
    assert_eq!(ended.out.lines().last(), Some("5 protocols checked, 5 sound; 0 errors, 0 warnings"));
    snapshot("check", &ended.out);
    assert!(ended.out.lines().all(|line| line.chars().count() <= 100));
    for report in ended.out.split("\n\n").filter(|report| report.starts_with('✓')) {
        assert!((9..=16).contains(&report.lines().count()), "{report}");
    }
}

#[test]
fn the_documents_of_this_project_are_what_is_built_in() {
    let dir = Dir::new();
    for name in ["task", "campaign", "builder", "coder", "lifecycle"] {
        dir.write(&format!("protocols/{name}.md"), built_in(name));
        let file = dir.ftl(&["check", "--json", &format!("protocols/{name}.md")]).code(0).json();
        let own = dir.ftl(&["check", "--json", name]).code(0).json();
        assert_eq!(file["protocols"][0]["digest"], own["protocols"][0]["digest"]);
        assert_eq!(file["protocols"][0]["edges"], own["protocols"][0]["edges"]);
        assert_eq!(
            (&file["protocols"][0]["origin"], &own["protocols"][0]["origin"]),
            (&json!("file"), &json!("built-in"))
        );
    }
}

#[test]
fn quiet_says_only_what_is_wrong() {
    let dir = Dir::new();
    let ended = dir.ftl(&["check", "--quiet"]).code(0);
    assert_eq!(ended.out, "5 protocols checked, 5 sound; 0 errors, 0 warnings\n");
}

#[test]
fn names_and_files_go_together_and_each_is_told_once() {
    let dir = Dir::new();
    dir.write("mine.md", MINE);
    let found = dir.ftl(&["check", "coder", "mine.md", "coder", "./mine.md", "--json"]).code(0).json();
    let names: Vec<_> =
        found["protocols"].as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("coder"), Some("mine")]);
}

#[test]
fn json_carries_every_fact() {
    let dir = Dir::new();
    dir.write("mine.md", MINE);
    let found = dir.ftl(&["check", "--json", "mine.md"]).code(0).json();
    assert_eq!(found["protocols"][0]["digest"].as_str().unwrap().len(), 64);
    let mut found = found;
    found["protocols"][0].as_object_mut().unwrap().remove("digest");
    let wanted = json!({
        "version": 1,
        "ok": true,
        "protocols": [{
            "name": "mine", "origin": "file", "path": "mine.md", "ok": true, "readable": true,
            "start": "LOOK", "all_reachable": true, "all_can_end": true,
            "states": [
                { "name": "LOOK", "final": false, "holds": true },
                { "name": "DONE", "final": true, "holds": false },
                { "name": "STOP", "final": true, "holds": false },
            ],
            "edges": [
                { "from": "LOOK", "to": "STOP", "when": "looks spent", "pays": [], "refills": [], "gates": [] },
                { "from": "LOOK", "to": "DONE", "when": "report.passed", "pays": ["looks"], "refills": [], "gates": ["verify.run"] },
                { "from": "LOOK", "to": "LOOK", "when": "otherwise", "pays": ["looks"], "refills": [], "gates": [] },
            ],
            "loops": [{ "states": ["LOOK"], "bounded_by": ["looks"] }],
            "gates": [{ "any_of": ["verify.run"], "before": "DONE" }],
            "ungated": [],
            "verdicts": { "blocked": ["STOP"], "complete": ["DONE"] },
            "holds": [{ "state": "LOOK", "path": "mine.md", "line": 26, "why": "the step fails" }],
            "people": [],
            "drawings": 2, "diagrams": 1, "tables": 1, "wrong_drawings": 0,
            "problems": [],
        }],
        "problems": [],
    });
    assert_eq!(found, wanted);
}

#[test]
fn json_of_the_built_in_ones_has_people_holds_and_drawings() {
    let found = Dir::new().ftl(&["check", "--json"]).code(0).json();
    let all = found["protocols"].as_array().unwrap();
    let names: Vec<_> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["builder", "campaign", "coder", "lifecycle", "task"]);
    let lifecycle = &all[3];
    assert_eq!(lifecycle["people"].as_array().unwrap().len(), 7);
    assert_eq!(lifecycle["gates"][0]["any_of"], json!(["artifact.decision", "artifact.revert"]));
    assert_eq!(all[4]["ungated"], json!(["COMPLETE"]));
    assert!(all.iter().all(|one| one["drawings"].as_u64().unwrap() >= 2));
    // A pattern of another document is shown where it stands.
    assert_eq!(all[1]["holds"][0]["path"], "protocols/task.md");
}

#[test]
fn a_file_may_run_built_in_protocols_and_ask_people() {
    let dir = Dir::new();
    dir.write("people.md", PEOPLE);
    let ended = dir.ftl(&["check", "people.md"]);
    snapshot("check-people", &ended.out);
    ended.code(0);
}

#[test]
fn all_errors_of_a_file_are_shown() {
    let dir = Dir::new();
    dir.write("broken.md", BROKEN);
    let ended = dir.ftl(&["check", "broken.md"]).code(1);
    assert_eq!(ended.err, "");
    snapshot("check-broken", &ended.out);
    let found = dir.ftl(&["check", "broken.md", "--json"]).code(1).json();
    assert_eq!(found["ok"], false);
    let problems = found["protocols"][0]["problems"].as_array().unwrap();
    let errors = problems.iter().filter(|one| one["severity"] == "error").count();
    assert_eq!((errors, problems.len()), (12, 14));
    let wanted = json!({
        "severity": "error", "code": "unknown-field", "message": "a record VerifyReport has no field `pased`",
        "path": "broken.md", "line": 15, "column": 14, "end_column": 19, "hint": "did you mean `passed`?",
        "pasted_at": null,
    });
    assert!(problems.contains(&wanted), "{problems:#?}");
}

#[test]
fn a_program_that_cannot_be_read_proves_nothing() {
    let dir = Dir::new();
    dir.write("unreadable.md", UNREADABLE);
    let ended = dir.ftl(&["check", "unreadable.md"]).code(1);
    snapshot("check-unreadable", &ended.out);
    let found = dir.ftl(&["check", "unreadable.md", "--json"]).code(1).json();
    assert_eq!(found["protocols"][0]["readable"], false);
    assert_eq!(found["protocols"][0]["all_reachable"], false);
}

#[test]
fn a_document_without_a_protocol_is_an_error_of_its_own() {
    let dir = Dir::new();
    dir.write("prose.md", "# Only prose\n");
    dir.ftl(&["check", "prose.md"]).code(1).says(&["error[", "prose.md:1", "0 protocols checked"]);
    let found = dir.ftl(&["check", "prose.md", "--json"]).code(1).json();
    assert_eq!((&found["ok"], &found["protocols"]), (&json!(false), &json!([])));
    assert_eq!(found["problems"][0]["path"], "prose.md");
}

#[test]
fn an_unknown_name_gets_help() {
    let dir = Dir::new();
    let ended = dir.ftl(&["check", "bilder"]).code(1);
    assert_eq!(ended.out, "");
    snapshot("unknown-name", &ended.err);
    dir.ftl(&["check", "zzz"])
        .code(1)
        .says(&["there is no protocol `zzz`", "builder, campaign, coder, lifecycle, task"]);
    let found = dir.ftl(&["check", "bilder", "--json"]).code(1).json();
    assert_eq!(found["ok"], false);
    assert_eq!(found["error"]["message"], "there is no protocol `bilder`");
}

#[test]
fn a_user_document_adds_a_protocol() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/mine.md", MINE);
    dir.ftl(&["check"])
        .code(0)
        .says(&["✓ mine (.ftl/protocols/mine.md) is sound", "6 protocols checked, 6 sound"]);
    let found = dir.ftl(&["check", "mine", "--json"]).code(0).json();
    assert_eq!(found["protocols"][0]["origin"], "user");
}

#[test]
fn a_user_document_replaces_a_built_in_one() {
    let dir = Dir::new();
    let own = built_in("builder").replace("LIMIT: retries = 2", "LIMIT: retries = 1");
    assert_ne!(own, built_in("builder"));
    dir.write(".ftl/protocols/builder.md", own);
    let ended =
        dir.ftl(&["check"]).code(0).says(&["replaces the built-in one", "5 protocols checked, 5 sound"]);
    assert!(ended.out.contains("builder (.ftl/protocols/builder.md"));
}

#[test]
fn a_broken_replacement_is_not_passed_over() {
    let dir = Dir::new();
    let own = built_in("builder").replace("report.passed", "report.pased");
    dir.write(".ftl/protocols/builder.md", own);
    for args in [&["check"][..], &["check", "builder"]] {
        dir.ftl(args).code(1).says(&[
            "✗ builder (.ftl/protocols/builder.md, replaces the built-in one)",
            "did you mean `passed`?",
        ]);
    }
    dir.write(".ftl/protocols/builder.md", "# nothing here\n");
    dir.ftl(&["check"]).code(1).says(&[".ftl/protocols/builder.md:1"]);
    dir.ftl(&["check", "builder"]).code(1).says(&[".ftl/protocols/builder.md:1"]);
    dir.ftl(&["draw", "builder"]).code(1).says(&[".ftl/protocols/builder.md:1"]);
}

#[test]
fn a_user_document_carries_the_name_of_its_protocol() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/other.md", MINE);
    dir.ftl(&["check"]).code(1).says(&["error[name]", "`other`", "`mine`"]);
    // By its path it is the same document.
    dir.ftl(&["check", ".ftl/protocols/other.md"]).code(1).says(&["error[name]"]);
}

#[test]
fn a_drawing_that_lacks_an_edge_shows_the_difference() {
    let dir = Dir::new();
    dir.write("mine.md", MINE.replace("    LOOK --> DONE : green\n", ""));
    let ended = dir.ftl(&["check", "mine.md"]).code(1);
    snapshot("check-drawing", &ended.out);
    ended.says(&["the edge LOOK → DONE is not drawn", "`ftl draw mine.md --write`"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = Dir::new();
    for args in [
        &["check"][..],
        &["check", "--json"],
        &["draw", "coder", "--format", "svg"],
        &["schema"],
        &["--help"],
    ] {
        let mut child = dir.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let dir = Dir::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = dir.command(&["check"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: the answer cannot be written"));
}
