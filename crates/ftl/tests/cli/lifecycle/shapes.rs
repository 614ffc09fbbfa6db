//! The schemas of artifacts, and that what `ftl` writes keeps to them.

use ftl_agents::schema::Schema;

use super::{Json, decision, get, has, json, next, phases, repository, say};
use crate::support::Dir;

fn schema(dir: &Dir, name: &str) -> Schema {
    let mut json = dir.ftl(&["schema", name]).code(0).json();
    // The name of the schema itself asks nothing of a value.
    json.as_object_mut().unwrap().remove("$id");
    Schema::new(json).unwrap()
}

#[test]
fn what_is_written_keeps_to_its_schema() {
    let dir = phases::project(&phases::good());
    let id = dir.ftl(&["new", "Add a note", "--json"]).code(0).json()["task"].as_str().unwrap().to_owned();
    next(&dir, &id, &["--auto"], 0, Some("accept"));
    say(&dir, &id, &["accept", "--reason", "good"]).code(0);
    next(&dir, &id, &[], 0, Some("done"));
    let commit = get(&dir, &id, "accept/commit.json");
    say(&dir, &id, &["redo", "accept", "--reason", "no"]).code(0);
    say(&dir, &id, &["revert", "--reason", "no"]).code(0);
    say(&dir, &id, &["revert"]).code(0);
    let listed = dir.ftl(&["schema", "--json"]).code(0).json();
    let artifacts = listed["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 10);
    for artifact in artifacts {
        let (name, path) = (artifact["name"].as_str().unwrap(), artifact["path"].as_str().unwrap());
        let text = match path {
            "accept/commit.json" => commit.clone(),
            "accept/decision.json" => decision("accepted", None, &[]),
            path => {
                assert!(has(&dir, &id, path), "{path}");
                get(&dir, &id, path)
            }
        };
        let value: Json = serde_json::from_str(&text).unwrap();
        let faults = schema(&dir, name).faults(&value);
        assert!(faults.is_empty(), "{path}: {faults:?}");
    }
    dir.ftl(&["schema", "nothing.json"]).code(1);
}

#[test]
fn what_is_malformed_fits_no_schema() {
    let dir = repository();
    let cases = [
        ("state", json!({ "phase": "plannin" })),
        ("planning.ai.json", json!({ "id": "t", "title": 3, "brief": "b" })),
        ("plan.files", json!({ "files": "a" })),
        ("plan-review", json!({ "ok": "true" })),
        ("code-review", json!({})),
        ("eval-report", json!({ "status": "completed", "overall_pass": true })),
        ("decision", json!({ "verdict": "accepted", "route": "test" })),
        ("record", json!({})),
    ];
    for (name, value) in cases {
        assert!(!schema(&dir, name).faults(&value).is_empty(), "{name}");
    }
}
