//! The small groups: exploration, orchestration, phase, decision, framework, benchmark, logfile.

use serde_json::{Value as Json, json};

use crate::campaign::{PLAN, add, campaign, run_json, update};
use crate::support::Dir;

#[test]
fn a_group_without_a_verb_prints_its_help_and_ends_as_the_original_did() {
    let dir = Dir::new();
    for group in ["campaign", "memory", "workspace", "observer", "exploration", "orchestration", "benchmark"]
    {
        let said = dir.ftl(&[group]).code(1);
        assert!(said.out.contains("Usage:") && said.err.is_empty(), "{said:?}");
    }
    for group in ["phase", "logfile"] {
        assert!(dir.ftl(&[group]).code(0).out.contains("Usage:"));
    }
    let said = dir.ftl(&["decision"]).code(2);
    assert!(said.out.is_empty() && said.err.contains("FILE"), "{said:?}");
    let said = dir.ftl(&["framework"]).code(1);
    assert!(said.out.is_empty() && said.err.contains("Usage:"), "{said:?}");
    for group in [
        "campaign",
        "memory",
        "workspace",
        "observer",
        "exploration",
        "orchestration",
        "phase",
        "framework",
        "benchmark",
        "logfile",
    ] {
        let said = dir.ftl(&[group, "no-such-verb"]).code(2);
        assert!(said.out.is_empty() && said.err.contains("no-such-verb"), "{said:?}");
        dir.ftl(&[group, "--no-such-flag"]).code(2).says(&["--no-such-flag"]);
    }
    assert!(!dir.path(".ftl").exists());
}

#[test]
fn an_exploration_is_made_of_whatever_explorers_printed() {
    let dir = Dir::new();
    let input = concat!(
        "{\"mode\": \"structure\", \"status\": \"ok\", \"directories\": {\"src\": true}}\n",
        "{\n  \"mode\": \"delta\",\n  \"status\": \"partial\",\n  \"candidates\": [{\"path\": \"a.py\", \"relevance\": \"high\"}]\n}\n",
        "some words\n```json\n{\"mode\": \"memory\", \"status\": \"error\", \"failures\": [1], \"error\": \"slow\"}\n```\n",
        "{\"mode\": \"odd\", \"status\": \"ok\"}\n",
    );
    let said = dir.fed(&["exploration", "aggregate", "--objective", "o"], input).code(0).says(&["odd"]);
    let json = said.json();
    assert_eq!(
        (&json["_meta"]["objective"], &json["_meta"]["version"], &json["_meta"]["git_sha"]),
        (&json!("o"), &json!("1.0"), &json!(""))
    );
    assert_eq!(
        (&json["delta"]["candidates"][0]["path"], &json["structure"]["directories"]["src"]),
        (&json!("a.py"), &json!(true))
    );
    assert_eq!(json["memory"]["failures"], json!([1]), "an error keeps its data: {json}");
    assert!(said.out.find("\"_meta\"").unwrap() < said.out.find("\"structure\"").unwrap());
    assert!(!dir.path(".ftl").exists());
    assert_eq!(dir.fed(&["exploration", "write"], &said.out).code(0).out, "Written: .ftl/exploration.json\n");
    assert_eq!(dir.ftl(&["exploration", "read"]).code(0).out, said.out);
    assert_eq!(run_json(&dir, &["exploration", "get-delta"]), json["delta"]);
    dir.fed(&["exploration", "write"], "[]").code(1).says(&["object"]);
    dir.fed(&["exploration", "write"], "").code(1);
    assert_eq!(dir.ftl(&["exploration", "read"]).code(0).out, said.out);
}

#[test]
fn sections_that_are_missing_say_so() {
    let dir = Dir::new();
    assert_eq!(run_json(&dir, &["exploration", "read"]), json!(null));
    assert_eq!(run_json(&dir, &["exploration", "get-structure"]), json!({"status": "missing"}));
    let idioms = json!({"required": [], "forbidden": []});
    assert_eq!(
        run_json(&dir, &["exploration", "get-pattern"]),
        json!({"status": "missing", "framework": "none", "idioms": idioms})
    );
    assert_eq!(run_json(&dir, &["exploration", "get-delta"]), json!({"status": "missing", "candidates": []}));
    assert_eq!(run_json(&dir, &["exploration", "get-memory"])["similar_campaigns"], json!([]));
    assert_eq!(dir.ftl(&["exploration", "clear"]).code(0).out, "No exploration.json to clear\n");
    assert!(!dir.path(".ftl").exists());
}

#[test]
fn explorers_are_waited_for_counted_and_cleared() {
    let dir = Dir::new();
    let wait = |more: &[&str]| {
        dir.ftl(&["orchestration", "wait-explorers"].iter().chain(more).copied().collect::<Vec<_>>())
    };
    let nothing = wait(&["--timeout", "0"]).code(1).json();
    assert_eq!(
        (&nothing["status"], nothing["missing"].as_array().unwrap().len()),
        (&json!("quorum_failure"), 4)
    );
    // A fenced file counts as aggregation would read it.
    dir.write(".ftl/cache/explorer_pattern.json", "```json\n{\"mode\": \"pattern\", \"status\": \"ok\", \"framework\": \"flask\", \"confidence\": 0.8}\n```\n");
    let partial = wait(&["--timeout", "0"]).code(0).json();
    assert_eq!((&partial["status"], &partial["completed"]), (&json!("timeout"), &json!(["pattern"])));
    assert_eq!(wait(&["--required", "1"]).code(0).json()["status"], "quorum_met");
    for mode in ["structure", "delta"] {
        let result = json!({"mode": mode, "status": "ok"}).to_string();
        let said = dir.fed(&["exploration", "write-result", "--mode", mode], &result).code(0);
        assert_eq!(said.out, format!("Written: .ftl/cache/explorer_{mode}.json\n"));
    }
    let pair = wait(&["--required", "4"]).code(0).json();
    assert_eq!((&pair["status"], &pair["rule"]), (&json!("quorum_met"), &json!("structure+delta")), "{pair}");
    dir.write(".ftl/cache/explorer_memory.json", "{\"mode\": \"memory\"");
    let check = run_json(&dir, &["orchestration", "check-explorers"]);
    assert_eq!(
        (&check["total"], &check["completed"], &check["modes"]["memory"]),
        (&json!(4), &json!(3), &json!("error"))
    );
    dir.fed(
        &["exploration", "write-result", "--mode", "memory"],
        "{\"mode\": \"memory\", \"status\": \"error\"}",
    )
    .code(0);
    assert_eq!(wait(&[]).code(0).json()["status"], "all_complete");
    assert_eq!(run_json(&dir, &["exploration", "aggregate-files"])["pattern"]["framework"], "flask");
    dir.ftl(&["exploration", "clear"]).code(0);
    assert_eq!(
        run_json(&dir, &["orchestration", "check-explorers"])["completed"],
        0,
        "old results never count again"
    );
    dir.fed(&["exploration", "write-result", "--mode", "odd"], "{}").code(2).says(&["odd"]);
    dir.fed(
        &["exploration", "write-result", "--mode", "delta"],
        "{\"mode\": \"memory\", \"status\": \"ok\"}",
    )
    .code(1);
    wait(&["--timeout", "soon"]).code(2);
}

#[test]
fn edges_of_the_flow_are_told_by_exit_code_too() {
    let dir = Dir::new();
    let edges = [
        ("INIT", "EXPLORE"),
        ("PLAN", "BUILD"),
        ("PLAN", "EXPLORE"),
        ("BUILD", "BUILD"),
        ("COMPLETE", "INIT"),
    ];
    for (from, to) in edges {
        assert_eq!(run_json(&dir, &["orchestration", "validate-transition", from, to])["valid"], true);
    }
    let said = dir.ftl(&["orchestration", "validate-transition", "INIT", "BUILD"]).code(1);
    assert_eq!((&said.json()["valid"], said.json()["reason"].is_string()), (&json!(false), true));
    dir.ftl(&["orchestration", "validate-transition", "NOWHERE", "BUILD"]).code(1);
    let event = run_json(&dir, &["orchestration", "emit-state", "BUILD", "--meta", r#"{"task": "001"}"#]);
    assert_eq!(
        (&event["event"], &event["state"], &event["task"]),
        (&json!("STATE_ENTRY"), &json!("BUILD"), &json!("001"))
    );
    dir.ftl(&["orchestration", "emit-state", "BUILD", "--meta", "[]"]).code(1).says(&["--meta"]);
    let line: Json = serde_json::from_str(dir.read(".ftl/events.jsonl").trim_end()).unwrap();
    assert_eq!(line, event);
}

#[test]
fn the_phase_moves_by_its_machine_or_where_the_campaign_shows_it() {
    let dir = Dir::new();
    let fresh = json!({"phase": "none", "started_at": null, "transitions": []});
    assert_eq!(run_json(&dir, &["phase", "status"]), fresh);
    let said = dir.ftl(&["phase", "transition", "build"]).code(1);
    assert!(said.out.starts_with("Error: ") && said.out.contains("none \u{2192} build"), "{said:?}");
    assert_eq!(run_json(&dir, &["phase", "transition", "explore"])["transitions"][0]["from"], "none");
    dir.ftl(&["phase", "transition", "odd"]).code(1).says(&["Unknown phase: odd"]);
    assert_eq!(run_json(&dir, &["phase", "transition", "complete", "--force"])["phase"], "complete");
    for (from, to, word) in [
        ("plan", "build", "valid\n"),
        ("build", "build", "valid\n"),
        ("plan", "complete", "invalid\n"),
        ("odd", "x", "invalid\n"),
    ] {
        assert_eq!(dir.ftl(&["phase", "can-transition", from, to]).code(0).out, word);
    }
    assert_eq!(run_json(&dir, &["phase", "reset"]), fresh);
    assert!(!dir.path(".ftl/phase_state.json").exists());
    let dir = campaign();
    for seq in ["001", "002", "003", "004"] {
        update(&dir, seq, "complete");
    }
    dir.ftl(&["campaign", "complete"]).code(0);
    assert_eq!(
        run_json(&dir, &["phase", "transition", "complete"])["phase"],
        "complete",
        "the documents' own last step"
    );
}

#[test]
fn decisions_are_told_by_exit_code_with_questions_and_plan() {
    let dir = Dir::new();
    let decide = |text: &str, code: i32| dir.fed(&["decision", "-", "--validate"], text).code(code).json();
    let plan = decide(&format!("### Confidence: PROCEED\n\n```json\n{PLAN}\n```\n"), 0);
    assert_eq!(
        (&plan["decision"], &plan["plan_json"]["tasks"][1]["depends"], &plan["validation"]["valid"]),
        (&json!("PROCEED"), &json!("001"), &json!(true))
    );
    let nested = decide(
        "### Confidence: PROCEED\n{\"idioms\": {\"required\": []}, \"objective\": \"a } b\", \"tasks\": []}",
        0,
    );
    assert_eq!(
        (&nested["plan_json"]["objective"], &nested["validation"]["errors"]),
        (&json!("a } b"), &json!(["tasks list is empty"]))
    );
    let clarify = decide(
        "### Confidence: CLARIFY\n\n## Blocking Questions\n1. Which database?\n- And which version?\n",
        2,
    );
    assert_eq!(clarify["questions"], json!(["Which database?", "And which version?"]));
    assert_eq!(decide("Decision: CONFIRM\n", 3)["decision"], "CONFIRM");
    assert_eq!(decide("I do not know", 1)["decision"], "UNKNOWN");
    let said = dir.ftl(&["decision", "nowhere.md"]).code(1).says(&["nowhere.md"]);
    assert_eq!(said.out, "");
    assert!(!dir.path(".ftl").exists());
}

#[test]
fn frameworks_are_known_in_any_case_and_found_without_vendored_trees() {
    let dir = Dir::new();
    assert_eq!(
        run_json(&dir, &["framework", "list"]),
        json!(["fasthtml", "fastapi", "flask", "django", "litestar"])
    );
    assert_eq!(
        run_json(&dir, &["framework", "detect"]),
        json!({"framework": "none", "confidence": 0.0, "source": "none", "complexity_weight": 0})
    );
    assert_eq!(dir.ftl(&["framework", "weight", "FastAPI"]).code(0).out, "2\n");
    assert_eq!(
        run_json(&dir, &["framework", "idioms", "FastAPI"]),
        run_json(&dir, &["framework", "idioms", "fastapi"])
    );
    dir.write(".venv/lib/x.py", "from django import x\n").write("node_modules/y.py", "import django\n");
    assert_eq!(run_json(&dir, &["framework", "detect"])["framework"], "none");
    dir.write("app.py", "from flask import Flask\n");
    assert_eq!(run_json(&dir, &["framework", "detect", "."])["framework"], "flask");
    dir.ftl(&["framework", "detect", "nowhere"]).code(1).says(&["nowhere"]);
    dir.ftl(&["framework", "idioms"]).code(2);
}

#[test]
fn figures_are_of_a_memory_of_their_own() {
    let dir = Dir::new();
    let fields = ["name", "metric", "value", "unit", "baseline", "improvement", "timestamp"];
    for words in
        [&["benchmark", "matching"][..], &["benchmark", "learning", "--campaigns", "4", "--tasks", "3"]]
    {
        let said = dir.ftl(words).code(0);
        let row = said.json()[0].clone();
        assert!(fields.iter().all(|field| row.get(field).is_some()), "{row}");
        let places: Vec<usize> =
            fields.iter().map(|field| said.out.find(&format!("\"{field}\"")).unwrap()).collect();
        assert!(places.is_sorted());
    }
    let made = run_json(&dir, &["benchmark", "generate", "--failures", "7", "--patterns", "2"]);
    assert_eq!(
        (made["failures"].as_array().unwrap().len(), made["patterns"].as_array().unwrap().len()),
        (7, 2)
    );
    dir.ftl(&["benchmark", "report"]).code(1).says(&["benchmark run"]);
    let results = dir.ftl(&["benchmark", "learning"]).code(0).out;
    dir.fed(&["benchmark", "report", "--input", "-"], &results).code(0).says(&["learning"]);
    for name in ["baseline_cost", "memory_assisted_cost", "efficiency_improvement"] {
        assert!(results.contains(&format!("\"{name}\"")), "{results}");
    }
    let sections = json!({
        "retrieval": [{"name": "retrieval_plain_10", "metric": "time", "value": 2.0, "unit": "ms", "baseline": 4.0, "improvement": 50.0}],
        "semantic": [],
        "learning": [{"name": "efficiency_improvement", "value": 35.0, "unit": "%"}],
        "metadata": {"timestamp": "2026-01-16T10:00:00", "embeddings_available": true},
    });
    dir.fed(&["benchmark", "report", "--input", "-"], &sections.to_string()).code(0).says(&[
        "FTL MEMORY BENCHMARK REPORT",
        "2026-01-16T10:00:00",
        "retrieval_plain_10: 2 ms (time), baseline 4, improvement 50%",
        "efficiency improvement 35.0%",
    ]);
    dir.fed(&["benchmark", "report", "--input", "-"], r#"{"metadata": {}}"#)
        .code(1)
        .says(&["neither a list"]);
    dir.fed(&["benchmark", "report", "--input", "-"], "{").code(1);
    assert!(!dir.path(".ftl").exists());
}

#[test]
fn the_log_file_is_shown_turned_over_and_cleared() {
    let dir = Dir::new();
    assert_eq!(dir.ftl(&["logfile", "tail"]).code(0).out, "No log file\n");
    dir.ftl(&["logfile", "test"]).code(0);
    let tail = dir.ftl(&["logfile", "tail", "-n", "2"]).code(0).out;
    assert_eq!((tail.lines().count(), tail.contains("ERROR")), (2, true));
    dir.write(".ftl/ftl.log", "x".repeat(999_990) + "\n");
    dir.ftl(&["logfile", "test"]).code(0);
    assert!(dir.path(".ftl/ftl.log.1").exists() && dir.read(".ftl/ftl.log").lines().count() == 4);
    assert_eq!(dir.ftl(&["logfile", "clear"]).code(0).out, "Cleared: .ftl/ftl.log\n");
    assert!(!dir.path(".ftl/ftl.log").exists() && !dir.path(".ftl/ftl.log.1").exists());
}

#[test]
fn status_carries_the_campaign() {
    let dir = campaign();
    add(&dir, PLAN).code(0);
    assert_eq!(run_json(&dir, &["status", "--json"])["campaign"], run_json(&dir, &["campaign", "status"]));
    dir.ftl(&["status"]).code(0).says(&["add login: 0 of 4 tasks complete"]);
}

#[test]
fn a_whole_benchmark_is_kept_and_reported() {
    let dir = Dir::new();
    let results = run_json(&dir, &["benchmark", "run"]);
    let kept: Json = serde_json::from_str(&dir.read(".ftl/benchmark/results.json")).unwrap();
    assert_eq!(kept, results);
    assert!(results["metadata"]["note"].as_str().unwrap().contains("simulation"), "{results:#}");
    let records = results["results"].as_array().unwrap();
    let begins =
        |with: &str| records.iter().filter(|one| one["name"].as_str().unwrap().starts_with(with)).count();
    for part in ["retrieval", "matching", "learning", "pruning"] {
        assert!(begins(part) > 0, "{part} is missing in {results:#}");
    }
    for record in records {
        for field in ["name", "metric", "value", "unit", "baseline", "improvement", "timestamp"] {
            assert!(record.get(field).is_some(), "{field} of {record:#}");
        }
    }
    dir.ftl(&["benchmark", "report"]).code(0).says(&["FTL benchmark report", "retrieval", "pruning_entries"]);
    let pruned = run_json(&dir, &["benchmark", "pruning"]);
    let entries = pruned.as_array().unwrap().iter().find(|one| one["name"] == "pruning_entries").unwrap();
    assert!(entries["value"].as_f64() < entries["baseline"].as_f64(), "{entries:#}");
}
