//! Tests of explorations: answers in all forms, what is mended, which of two stands, and quorums.

use std::fs;

use super::*;

const META: Meta<'static> =
    Meta { created_at: "2026-01-02T03:04:05.000006", git_sha: "abc1234", objective: "x" };

#[test]
fn streams_of_lines_and_of_pretty_objects() {
    let text = "noise\n{\"mode\": \"structure\", \"status\": \"ok\", \"directories\": {\"src\": true}}\n{\n  \"mode\": \"delta\",\n  \"status\": \"partial\",\n  \"candidates\": [{\"path\": \"a{.py\", \"relevance\": \"high\"}]\n}\n```json\n{\"mode\": \"pattern\", \"status\": \"ok\", \"framework\": \"none\", \"confidence\": 0.2}\n```\n{\"mode\": \"odd\", \"status\": \"ok\"}\n{\"mode\": \"memory\"}\n{\"x\": 1}\n{broken\n";
    let (answers, ignored) = read_stream(text);
    let modes: Vec<ExplorerMode> = answers.iter().map(|answer| answer.mode).collect();
    assert_eq!(modes, [ExplorerMode::Structure, ExplorerMode::Delta, ExplorerMode::Pattern]);
    assert_eq!(ignored, ["unknown mode \"odd\"", "memory: no status", "an answer without a mode"]);
    let whole = aggregate(&answers, META);
    let keys: Vec<&str> = whole.fields().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["_meta", "structure", "pattern", "delta"]);
    assert_eq!(
        whole.get("_meta").unwrap().line(),
        r#"{"version": "1.0", "created_at": "2026-01-02T03:04:05.000006", "git_sha": "abc1234", "objective": "x"}"#
    );
    assert_eq!(candidate_paths(&whole), ["a{.py"]);
}

#[test]
fn an_answer_that_is_cut_off_takes_no_other_with_it() {
    for cut in ["{\"mode\": \"pattern\", \"status\":", "{\"mode\": \"patt", "{", "{\"a\": [{\"b\": 1},"] {
        let text = format!("{cut}\n{{\"mode\": \"delta\", \"status\": \"ok\"}}\n");
        let (answers, _) = read_stream(&text);
        assert_eq!(
            answers.iter().map(|answer| answer.mode).collect::<Vec<_>>(),
            [ExplorerMode::Delta],
            "{cut}"
        );
    }
}

#[test]
fn the_better_of_two_answers_stands() {
    let cases = [
        (["error", "ok"], "2"),
        (["ok", "error"], "1"),
        (["ok", "ok"], "1"),
        (["partial", "ok"], "2"),
        (["odd", "error"], "2"),
        (["error", "odd"], "1"),
        (["OK", "partial"], "1"),
    ];
    for (statuses, expected) in cases {
        let text: String = statuses
            .iter()
            .enumerate()
            .map(|(at, status)| {
                format!("{{\"mode\": \"memory\", \"status\": \"{status}\", \"n\": \"{}\"}}\n", at + 1)
            })
            .collect();
        let whole = aggregate(&read_stream(&text).0, META);
        assert_eq!(whole.get("memory").unwrap().get("n").unwrap().as_str(), Some(expected), "{statuses:?}");
    }
}

#[test]
fn an_error_keeps_what_was_found() {
    let found = read_answer(
        r#"{"mode": "delta", "status": "failed", "candidates": ["a.py"], "error": "budget"}"#,
        None,
    );
    let json = found.unwrap().json.line();
    let expected = r#"{"mode": "delta", "status": "error", "candidates": [{"path": "a.py", "relevance": "medium"}], "error": "budget", "_error": "budget"}"#;
    assert_eq!(json, expected);
    let silent = read_answer(r#"{"mode": "delta", "status": "weird"}"#, None).unwrap();
    assert_eq!(silent.json.get("_error").unwrap().as_str(), Some("status weird"));
}

/// mode | what was said | what it became
const MENDED: &str = r#"
structure | {"directories": ["src", {"name": "tests"}], "file_count": "42"} | {"directories": {"src": true, "tests": true}, "file_count": 42}
structure | {"directories": {"src": false}, "entry_points": "main.py"} | {"directories": {"src": false}, "entry_points": ["main.py"]}
pattern | {"framework": "flask", "confidence": "0.8"} | {"framework": "flask", "confidence": 0.8}
pattern | {"framework": "flask", "confidence": "85%"} | {"framework": "flask", "confidence": 0.85}
pattern | {"framework": "flask", "confidence": 85} | {"framework": "flask", "confidence": 0.85}
pattern | {"framework": "flask"} | {"framework": "flask", "confidence": 0.5}
pattern | {"framework": "flask", "confidence": "high"} | {"framework": "flask", "confidence": 0.5}
pattern | {"framework": "flask", "confidence": null} | {"framework": "flask", "confidence": 0.5}
pattern | {"frameworks": [{"name": "FastAPI", "confidence": "0.9"}]} | {"frameworks": [{"name": "FastAPI", "confidence": "0.9"}], "framework": "FastAPI", "confidence": 0.9}
pattern | {"frameworks": ["django"]} | {"frameworks": ["django"], "framework": "django", "confidence": 0.5}
pattern | {} | {"framework": "none", "confidence": 0.0}
pattern | {"framework": "x", "confidence": 0.3, "idioms": ["a"]} | {"framework": "x", "confidence": 0.3, "idioms": {"required": ["a"], "forbidden": []}}
memory | {"failures": {"f1": {"cost": 3}}, "total_in_memory": "7"} | {"failures": [{"cost": 3, "name": "f1", "path": "f1"}], "total_in_memory": 7}
delta | {"candidates": ["a.py", {"file": "b.py", "lines": 3}, {"path": "c.py", "relevance": "HIGH"}, 5]} | {"candidates": [{"path": "a.py", "relevance": "medium"}, {"path": "b.py", "lines": 3, "relevance": "medium"}, {"path": "c.py", "relevance": "high"}]}
delta | {"candidates": {"a.py": {"relevance": "low"}}} | {"candidates": [{"path": "a.py", "relevance": "low", "name": "a.py"}]}
delta | {"candidates": "a.py", "search_terms": "login"} | {"candidates": [{"path": "a.py", "relevance": "medium"}], "search_terms": ["login"]}
"#;

#[test]
fn answers_are_brought_into_shape() {
    for line in MENDED.lines().filter(|line| !line.is_empty()) {
        let [mode, said, expected] = line.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let mut json = Json::parse(said).unwrap();
        json.put("status", "ok");
        let found = answer(json, ExplorerMode::parse(mode)).unwrap().json;
        let kept = found.into_fields().into_iter().filter(|(key, _)| key != "mode" && key != "status");
        assert_eq!(Json::Object(kept.collect()).line(), expected, "{said}");
    }
}

#[test]
fn files_count_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let put = |mode: ExplorerMode, text: &str| fs::write(folder.path().join(mode.file_name()), text).unwrap();
    put(ExplorerMode::Structure, "```json\n{\"status\": \"ok\", \"directories\": {}}\n```");
    put(ExplorerMode::Delta, "no json here");
    put(ExplorerMode::Memory, &format!("{}{{\"status\": \"ok\"}}", " ".repeat(MAX_ANSWER_BYTES)));
    fs::create_dir(folder.path().join(ExplorerMode::Pattern.file_name())).unwrap();
    let (answers, ignored) = read_files(folder.path());
    assert_eq!(answers.iter().map(|answer| answer.mode).collect::<Vec<_>>(), [ExplorerMode::Structure]);
    assert_eq!(ignored.len(), 3, "{ignored:?}");
    assert!(ignored[1].contains("the limit is") && ignored[2].contains("no JSON object"), "{ignored:?}");
    assert_eq!(read_files(&folder.path().join("nowhere")), (vec![], vec![]));
    let large = " ".repeat(MAX_STREAM_BYTES + 1);
    assert_eq!(read_stream(&large).1.len(), 1);
}

#[test]
fn sections_that_are_missing_have_a_shape() {
    let cases = [
        (ExplorerMode::Structure, r#"{"status": "missing"}"#),
        (
            ExplorerMode::Pattern,
            r#"{"status": "missing", "framework": "none", "idioms": {"required": [], "forbidden": []}}"#,
        ),
        (
            ExplorerMode::Memory,
            r#"{"status": "missing", "failures": [], "patterns": [], "total_in_memory": {"failures": 0, "patterns": 0}, "similar_campaigns": []}"#,
        ),
        (ExplorerMode::Delta, r#"{"status": "missing", "candidates": []}"#),
    ];
    for (mode, expected) in cases {
        assert_eq!(section(None, mode).line(), expected);
    }
    let some = Json::parse(r#"{"pattern": {"confidence": 0.7}, "delta": 3}"#).unwrap();
    assert_eq!(section(Some(&some), ExplorerMode::Pattern).line(), r#"{"confidence": 0.7}"#);
    assert_eq!(section(Some(&some), ExplorerMode::Delta), ExplorerMode::Delta.missing());
    assert_eq!(framework_confidence(&some), Some(0.7));
    assert_eq!(framework_confidence(&Json::parse(r#"{"pattern": {"confidence": 3}}"#).unwrap()), None);
}

#[test]
fn quorums_by_their_rules() {
    use ExplorerMode::{Delta, Memory, Pattern, Structure};
    let (ok, error) = (ExplorerStatus::Ok, ExplorerStatus::Error);
    type Row<'a> =
        (&'a [(ExplorerMode, ExplorerStatus)], usize, Option<QuorumRule>, Option<&'a str>, &'a str);
    let cases: [Row<'_>; 9] = [
        (&[], 3, None, None, "quorum_failure"),
        (&[(Structure, ok)], 3, None, None, "quorum_failure"),
        (&[(Structure, ok), (Delta, ok)], 3, Some(QuorumRule::CriticalPair), Some("quorum_met"), "timeout"),
        (&[(Structure, ok), (Delta, error)], 3, None, None, "quorum_failure"),
        (
            &[(Structure, ok), (Pattern, ok), (Memory, ok)],
            3,
            Some(QuorumRule::Count),
            Some("quorum_met"),
            "timeout",
        ),
        (&[(Structure, error), (Pattern, error), (Memory, ok)], 3, None, None, "quorum_failure"),
        (
            &[(Structure, error), (Pattern, error), (Memory, ok), (Delta, error)],
            3,
            Some(QuorumRule::All),
            Some("all_complete"),
            "all_complete",
        ),
        (
            &[(Structure, error), (Pattern, error), (Memory, error), (Delta, error)],
            3,
            None,
            None,
            "quorum_failure",
        ),
        (&[(Memory, ok)], 1, Some(QuorumRule::Count), Some("quorum_met"), "timeout"),
    ];
    for (answers, required, rule, early, late) in cases {
        let found = judge(answers, required);
        assert_eq!(
            (found.rule, found.status(false), found.status(true)),
            (rule, early, Some(late)),
            "{answers:?}"
        );
        assert_eq!(found.completed.len() + found.missing.len(), 4);
    }
    assert_eq!(judge(&[(Delta, ok)], 0).rule, Some(QuorumRule::Count));
    assert_eq!(judge(&[], 0).rule, None);
}

#[test]
fn mutated_answers_never_panic() {
    let whole = r#"{"mode": "pattern", "status": "ok", "frameworks": [{"name": "x", "confidence": "1"}], "idioms": ["é"], "confidence": "9%"}
        {"mode": "delta", "status": "ok", "candidates": [{"file": "a"}, "b"]}"#;
    let mut state = 21_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut well = 0;
    for _ in 0..3_000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..1 + below(4) {
            let at = below(bytes.len());
            bytes[at] = b"{}[]\":,1e\\\n%"[below(12)];
        }
        let (answers, _) = read_stream(&String::from_utf8_lossy(&bytes));
        well += answers.len();
        drop(aggregate(&answers, META).pretty());
    }
    assert!(well > 1_000, "{well}");
}
