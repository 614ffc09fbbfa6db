//! `ftl observer`: blocks are run again, and only what still fails is learned.

use serde_json::{Value as Json, json};

use crate::campaign::run_json;
use crate::support::Dir;

/// A repository with workspaces that have ended: their seqs, verify commands and how they ended.
fn ended(tasks: &[(&str, &str, &str)]) -> Dir {
    let dir = Dir::new();
    let rows: Vec<Json> = tasks
        .iter()
        .map(|(seq, verify, _)| json!({"seq": seq, "slug": format!("t{seq}"), "delta": ["a.py", "b.py"], "verify": verify}))
        .collect();
    dir.write("plan.json", json!({"objective": "teach the parser new words", "tasks": rows}).to_string());
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    for (seq, _, end) in tasks {
        let path = format!(".ftl/workspace/{seq}_t{seq}_active.xml");
        match end.strip_prefix("BLOCK ") {
            Some(reason) => dir.ftl(&["workspace", "block", &path, "--reason", reason]).code(0),
            None if *end == "active" => continue,
            None => dir.ftl(&["workspace", "complete", &path, "--delivered", end]).code(0),
        };
    }
    dir
}

fn standings(dir: &Dir, more: &[&str]) -> Vec<(String, String)> {
    let words: Vec<&str> = ["observer", "verify-blocks"].iter().chain(more).copied().collect();
    let text = |row: &Json, key: &str| row[key].as_str().unwrap().to_owned();
    run_json(dir, &words)
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (text(row, "status"), text(row, "reason")))
        .collect()
}

#[test]
fn a_block_stands_by_its_exit_code_and_not_by_words_in_its_output() {
    let dir = ended(&[
        ("001", "echo 0 failed, 3 passed; echo /tmp/error/x", "BLOCK was red"),
        ("002", "echo all well; exit 3", "BLOCK is red"),
        ("003", "no-such-command-here", "BLOCK cannot be run"),
    ]);
    let found = standings(&dir, &[]);
    assert_eq!(found[0], ("FALSE_POSITIVE".to_owned(), "Tests pass now".to_owned()));
    assert_eq!(found[1], ("CONFIRMED".to_owned(), "exit 3".to_owned()));
    assert_ne!(found[2].0, "FALSE_POSITIVE");
    let rows = run_json(&dir, &["observer", "verify-blocks"]);
    assert!(rows[1]["output"].as_str().unwrap().contains("all well"), "{rows}");
    assert_eq!(rows[1]["workspace"], "002_t002_blocked", "as the FTL plugin names it: by its stem");
}

#[test]
fn a_verify_that_never_ends_is_cut_off_with_its_children_and_teaches_nothing() {
    let dir = ended(&[("001", "(sleep 300 & echo $! > child; wait)", "BLOCK hangs")]);
    let found = standings(&dir, &["--timeout", "1"]);
    assert!(!["CONFIRMED", "FALSE_POSITIVE"].contains(&found[0].0.as_str()), "{found:?}");
    let child: i32 = dir.read("child").trim().parse().unwrap();
    crate::support::until("the child is gone", || !crate::support::is_alive(child));
    let analysis = run_json(&dir, &["observer", "analyze", "--timeout", "1"]);
    assert_eq!(analysis["failures_extracted"], json!([]));
}

#[test]
fn analysis_counts_verifies_learns_and_says_so_in_order() {
    let dir = ended(&[
        ("001", "true", "routes and tests"),
        (
            "002",
            "false",
            "BLOCK ImportError: no module named 'jose' at line 12\nTried: pip install\nUnknown: version",
        ),
        ("003", "true", "BLOCK it was flaky"),
        ("004", "true", "active"),
    ]);
    let said = dir.ftl(&["observer", "analyze"]).code(0);
    let places: Vec<usize> =
        ["workspaces", "verified", "failures_extracted", "patterns_extracted", "relationships_added"]
            .iter()
            .map(|key| said.out.find(&format!("\n  \"{key}\"")).unwrap())
            .collect();
    assert!(places.is_sorted());
    let json = said.json();
    assert_eq!(json["workspaces"], json!({"complete": 1, "blocked": 2, "active": 1}));
    let failures = json["failures_extracted"].as_array().unwrap();
    assert_eq!(
        (failures.len(), &failures[0]["result"]),
        (1, &json!("added")),
        "what passes now teaches nothing: {json}"
    );
    let kept = &run_json(&dir, &["query", "ImportError jose"])[0];
    assert_eq!(
        (&kept["fix"], &kept["cost"], &kept["source"]),
        (&json!("Attempted: pip install"), &json!(5000), &json!(["002-t002"]))
    );
    let pattern = kept["match"].as_str().unwrap();
    assert!(pattern.contains(r"\d+") && pattern.contains(".*") && !pattern.contains("jose"), "{pattern}");
    let again = run_json(&dir, &["observe"]);
    assert_eq!(
        again["failures_extracted"][0]["result"].as_str().unwrap().split(':').next(),
        Some("merged"),
        "{again}"
    );
}

#[test]
fn without_verification_every_block_teaches_once() {
    let dir = ended(&[
        ("001", "true", "BLOCK the disk is full of logs"),
        ("002", "true", "BLOCK a key for signing is missing"),
    ]);
    let json = run_json(&dir, &["observer", "analyze", "--no-verify"]);
    assert_eq!((&json["verified"], json["failures_extracted"].as_array().unwrap().len()), (&json!([]), 2));
    assert_eq!(json["relationships_added"], 1, "both were seen together: {json}");
    let again = run_json(&dir, &["observe", "--no-verify"]);
    assert_eq!(again["relationships_added"], 0);
    assert_eq!(run_json(&dir, &["stats"])["failures"]["count"], 2);
}

#[test]
fn a_recovered_task_is_linked_to_its_failure_and_tasks_of_one_objective_teach_apart() {
    let dir = ended(&[
        ("001", "false", "BLOCK the schema has no such column"),
        ("002", "true", "added the other half"),
    ]);
    dir.ftl(&["workspace", "create", "--plan", "plan.json", "--task", "001"]).code(0);
    dir.ftl(&[
        "workspace",
        "complete",
        ".ftl/workspace/001_t001_active.xml",
        "--delivered",
        "migrated the schema",
    ])
    .code(0);
    let json = run_json(&dir, &["observer", "analyze", "--no-verify"]);
    let patterns = json["patterns_extracted"].as_array().unwrap();
    assert_eq!(patterns.iter().filter(|row| row["result"] == "added").count(), 2, "{json}");
    assert_eq!(patterns[0]["breakdown"]["blocked_then_fixed"], 3);
    let failure = json["failures_extracted"][0]["name"].as_str().unwrap();
    let solutions = run_json(&dir, &["memory", "get-solutions", failure]);
    assert_eq!(solutions.as_array().unwrap().len(), 1, "{solutions}");
}

#[test]
fn scores_lists_and_folders_of_others() {
    let dir = ended(&[("001", "true", "done at once"), ("002", "true", "BLOCK no")]);
    let list =
        json!({"complete": ["001_t001_complete.xml"], "blocked": ["002_t002_blocked.xml"], "active": []});
    assert_eq!(run_json(&dir, &["observer", "list"]), list);
    let other = Dir::new();
    std::fs::create_dir_all(other.path("w")).unwrap();
    for name in ["001_t001_complete.xml", "002_t002_blocked.xml"] {
        other.write(&format!("w/{name}"), dir.read(&format!(".ftl/workspace/{name}")));
    }
    other.write("w/003_x_active.xml", "<broken").write("w/notes.txt", "");
    let said = other
        .ftl(&["observer", "list", "--workspace-dir", "w"])
        .code(0)
        .says(&["left out", "003_x_active.xml"]);
    assert_eq!(said.json(), list);
    assert_eq!(
        run_json(&other, &["observer", "list", "--workspace-dir", "nowhere"]),
        json!({"complete": [], "blocked": [], "active": []})
    );
    other
        .write("w/004_y_blocked.xml", "<?xml version=\"1.0\"?>\n<workspace/>\n")
        .write("w/005_z_active.xml", "<workspace></workspace>");
    let listed = other.ftl(&["observer", "list", "--workspace-dir", "w"]).code(0);
    assert!(!listed.err.contains("004_y"), "{listed:#?}");
    assert_eq!(listed.json()["blocked"], json!(["002_t002_blocked.xml", "004_y_blocked.xml"]));
    assert_eq!(listed.json()["active"], json!(["005_z_active.xml"]));
    dir.write(".ftl/workspace/006_z_complete.xml", "<workspace/>");
    let own = run_json(&dir, &["observer", "list"]);
    assert_eq!(own["complete"], json!(["001_t001_complete.xml", "006_z_complete.xml"]));
    let score = dir.ftl(&["observer", "score", ".ftl/workspace/001_t001_complete.xml"]).code(0);
    let json = score.json();
    let sum: u64 = json["breakdown"].as_object().unwrap().values().map(|one| one.as_u64().unwrap()).sum();
    assert_eq!(
        (&json["score"], &json["breakdown"]["multi_file"], &json["workspace"]),
        (&json!(sum), &json!(1), &json!("001-t001"))
    );
    dir.ftl(&["observer", "score", "nowhere.xml"]).code(1).says(&["nowhere.xml"]);
    dir.ftl(&["observer", "extract-failure", "nowhere.xml"]).code(1);
    dir.ftl(&["observer", "verify-blocks", "--timeout", "soon"]).code(2).says(&["--timeout"]);
    let empty = Dir::new();
    run_json(&empty, &["observer", "list"]);
    assert!(!empty.path(".ftl").exists());
}
