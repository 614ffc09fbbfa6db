//! `ftl protocols` and `ftl schema`.

use serde_json::json;

use crate::support::{Dir, MINE, built_in, snapshot};

#[test]
fn protocols_are_listed_with_origin_size_and_digest() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/mine.md", MINE);
    dir.write(".ftl/protocols/task.md", built_in("task").replace("GOTO: EXPLORE", "GOTO: EXPLOR"));
    let ended = dir.ftl(&["protocols"]).code(0);
    let row = |name: &str| ended.out.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let words: Vec<String> = row("builder").split_whitespace().map(str::to_owned).collect();
    assert_eq!((words[1..4].join(" "), words[5].as_str()), ("ok 10 18".to_owned(), "built-in"));
    assert!(row("mine").ends_with("user: .ftl/protocols/mine.md"), "{}", ended.out);
    assert!(row("task").ends_with("user, replaces built-in: .ftl/protocols/task.md"), "{}", ended.out);
    assert!(row("task").contains("error"), "{}", ended.out);

    let found = dir.ftl(&["protocols", "--json"]).code(0).json();
    let all = found["protocols"].as_array().unwrap();
    assert_eq!((all.len(), &found["problems"]), (6, &json!([])));
    let mine = all.iter().find(|one| one["name"] == "mine").unwrap();
    let digest = mine["digest"].as_str().unwrap();
    assert_eq!(digest.len(), 64);
    assert!(row("mine").contains(&digest[..12]));
    let wanted = json!({
        "name": "mine", "origin": "user", "replaces_built_in": false, "states": 3, "edges": 3,
        "digest": digest, "path": ".ftl/protocols/mine.md", "ok": true, "errors": 0,
    });
    assert_eq!(*mine, wanted);
    let task = all.iter().find(|one| one["name"] == "task").unwrap();
    assert_eq!((&task["replaces_built_in"], &task["ok"]), (&json!(true), &json!(false)));
}

#[test]
fn a_document_that_adds_nothing_is_named() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/prose.md", "# prose\n");
    dir.ftl(&["protocols"]).code(0).says(&["warning: `.ftl/protocols/prose.md` adds no protocol", "hint:"]);
    let found = dir.ftl(&["protocols", "--json"]).code(0).json();
    assert_eq!(found["problems"][0]["path"], ".ftl/protocols/prose.md");
}

#[test]
fn schema_lists_every_action_and_role() {
    let dir = Dir::new();
    let text = dir.ftl(&["schema"]).code(0).out;
    let found = dir.ftl(&["schema", "--json"]).code(0).json();
    for one in found["actions"].as_array().unwrap().iter().chain(found["roles"].as_array().unwrap()) {
        assert!(text.contains(one["name"].as_str().unwrap()), "{one}");
        dir.ftl(&["schema", one["name"].as_str().unwrap()]).code(0);
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn schema_of_an_action_and_of_a_role() {
    let dir = Dir::new();
    let action = dir.ftl(&["schema", "verify.run"]).code(0);
    snapshot("schema-verify-run", &action.out);
    let action = action.json();
    assert_eq!((&action["type"], &action["kind"]), (&json!("action"), &json!("gate")));
    assert_eq!(action["parameters"]["required"], json!(["command"]));
    assert_eq!(action["answer"]["properties"]["passed"]["type"], "boolean");
    let role = dir.ftl(&["schema", "architect", "--json"]).code(0).json();
    assert_eq!(role["type"], "role");
    assert!(role["forms"].as_array().unwrap().len() > 1);
    assert!(role["forms"][0]["answer"]["properties"].is_object());
}

#[test]
fn an_unknown_schema_gets_help() {
    let dir = Dir::new();
    dir.ftl(&["schema", "verfy.run"])
        .code(1)
        .says(&["error: there is no action, role or artifact `verfy.run`", "did you mean `verify.run`?"]);
    dir.ftl(&["schema", "xyzzy", "--json"]).code(1).says(&["`ftl schema` lists them all"]);
}
