//! All 64 pairs of phases through the binary: 19 are edges, 45 are not, also not for an override.

use super::{
    ALL, Dir, PATCH, PLAN_BLOCKED, RECORD, RED, decision, get, has, next, phase, put, repository, say, task,
};

const PHASES: [&str; 8] =
    ["planning", "plan_review", "codegen", "review", "test", "accept", "revert", "done"];

/// From, to, and the artifacts that open the edge.
pub(super) type Edge = (&'static str, &'static str, Vec<(&'static str, String)>);

/// Every edge, with what has to be written beside a whole task to open it.
pub(super) fn edges() -> Vec<Edge> {
    let review = |category: &str| {
        format!(
            r#"{{"issues":[{{"id":"F1","severity":"blocking","category":"{category}","message":"no"}}]}}"#
        )
    };
    let decided =
        |verdict: &str, route: Option<&str>| vec![("accept/decision.json", decision(verdict, route, &[]))];
    vec![
        ("planning", "plan_review", vec![]),
        ("plan_review", "codegen", vec![]),
        ("plan_review", "planning", vec![("review/plan-review.json", PLAN_BLOCKED.to_owned())]),
        ("codegen", "review", vec![]),
        ("codegen", "planning", vec![("code/files/stray.txt", "stray\n".to_owned())]),
        ("codegen", "plan_review", vec![("code/codegen.json", r#"{"signals":["plan_unclear"]}"#.to_owned())]),
        ("review", "test", vec![]),
        ("review", "codegen", vec![("review/code-review.json", review("code"))]),
        ("review", "planning", vec![("review/code-review.json", review("plan"))]),
        ("test", "accept", vec![]),
        ("test", "codegen", vec![("eval/eval-report.json", RED.to_owned())]),
        ("accept", "done", decided("accepted", None)),
        ("accept", "codegen", decided("needs_work", None)),
        ("accept", "review", decided("rejected", Some("review"))),
        ("accept", "planning", decided("needs_work", Some("planning"))),
        ("accept", "revert", decided("rejected", Some("revert"))),
        ("revert", "done", vec![("revert/record.json", RECORD.to_owned())]),
    ]
}

/// A task that can take an edge.
fn prepared(dir: &Dir, id: &str, from: &str, extra: &[(&str, String)]) {
    task(dir, id, from, ALL);
    for (name, text) in extra {
        put(dir, id, name, text);
    }
}

#[test]
fn every_edge_is_taken_when_its_guard_holds() {
    let dir = repository();
    for (number, (from, to, extra)) in edges().into_iter().enumerate() {
        let id = format!("e{number}");
        prepared(&dir, &id, from, &extra);
        let answer = say(&dir, &id, &["next", "--eval"]).code(0).json();
        assert_eq!(super::guard(&answer, &format!("{from} {to}"))["holds"], true, "{from} {to}: {answer:#}");
        let open = answer["guards"].as_array().unwrap().iter().filter(|one| one["holds"] == true).count();
        assert_eq!(open, 1, "one edge at a time: {answer:#}");
        // Asked for by name and not.
        if number % 2 == 0 {
            next(&dir, &id, &["--to", to], 0, Some(to));
        } else {
            next(&dir, &id, &[], 0, Some(to));
        }
    }
    for (number, from) in ["planning", "codegen"].into_iter().enumerate() {
        let id = format!("s{number}");
        task(&dir, &id, from, ALL);
        let answer = next(&dir, &id, &["--to", from], 4, None);
        assert!(answer["reason"].as_str().unwrap().contains("redo"), "{answer:#}");
        next(&dir, &id, &["--to", from, "--override", "once more"], 0, Some(from));
        say(&dir, &id, &["redo", from, "--reason", "and again"]).code(0);
        assert_eq!(phase(&dir, &id), from);
    }
}

#[test]
fn no_other_pair_is_taken_by_anybody() {
    let dir = repository();
    let mut edges: Vec<(&str, &str)> = edges().into_iter().map(|(from, to, _)| (from, to)).collect();
    edges.extend([("planning", "planning"), ("codegen", "codegen")]);
    let mut forbidden = 0;
    for from in PHASES {
        task(&dir, from, from, ALL);
        put(&dir, from, "accept/decision.json", &decision("accepted", None, &[]));
        put(&dir, from, "revert/record.json", RECORD);
        for to in PHASES {
            if edges.contains(&(from, to)) {
                continue;
            }
            forbidden += 1;
            let answer = next(&dir, from, &["--to", to], 5, None);
            assert!(answer["reason"].as_str().unwrap().contains("no edge"), "{answer:#}");
            next(&dir, from, &["--to", to, "--override", "I want it"], 5, None);
            assert!(!has(&dir, from, "transcript.jsonl"), "{from} {to}");
        }
    }
    assert_eq!(forbidden, 45);
}

#[test]
fn an_edge_whose_guard_does_not_hold_is_refused_and_can_be_forced() {
    let dir = repository();
    let mut forced = 0;
    for (number, (from, to, _)) in edges().into_iter().enumerate() {
        let id = format!("f{number}");
        // A folder in which nothing but the patch says anything.
        task(&dir, &id, from, &[("code/diff.patch", PATCH)]);
        if from != "planning" {
            put(&dir, &id, "planning/planning.ai.json", super::PLAN);
        }
        let answer = next(&dir, &id, &["--to", to], 4, None);
        let guard = super::guard(&answer, &format!("{from} {to}"));
        assert_eq!(guard["holds"], false, "{answer:#}");
        let missing = guard["missing"].clone();
        assert!(!missing.as_array().unwrap().is_empty(), "{answer:#}");
        next(&dir, &id, &["--to", to, "--override", "the risk is mine"], 0, Some(to));
        let line: super::Json = serde_json::from_str(get(&dir, &id, "transcript.jsonl").trim()).unwrap();
        let wanted = super::json!({ "ts": line["ts"], "kind": "override", "by": "Ada", "reason": "the risk is mine",
            "from": from, "to": to, "guards": missing });
        assert_eq!(line, wanted);
        forced += 1;
        // A second task would apply the same patch to a file that is there by then.
        if to == "done" && from == "accept" {
            dir.git(&["rm", "-q", "note.txt"]);
            dir.git(&["commit", "-qm", "make room"]);
        }
    }
    assert_eq!(forced, 17);
}
