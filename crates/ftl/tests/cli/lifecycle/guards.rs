//! Each guard true, false, malformed and stale, and older shapes.

use sha2::{Digest as _, Sha256};

use super::{
    ALL, CODE_REVIEW, GREEN, Json, PATCH, PLAN, PLAN_BLOCKED, PLAN_REVIEW, RECORD, RED, decision, get, has,
    next, put, remove, repository, say, task,
};

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Somebody has read the plan.
const REVIEWED: &str = r#""reviewers":[{"id":"a","ok":true}]"#;

/// One artifact in one phase: the exit code, where the task goes, and a word of the reason.
type Case<'a> = (&'a str, &'a str, &'a str, i32, Option<&'a str>, &'a str);

/// Runs a table of artifacts, each in a whole task of its own.
fn table(cases: &[Case<'_>]) {
    let dir = repository();
    for (number, (phase, name, text, code, to, word)) in cases.iter().enumerate() {
        let id = format!("g{number}");
        task(&dir, &id, phase, ALL);
        if text.is_empty() {
            remove(&dir, &id, name);
        } else {
            put(&dir, &id, name, text);
        }
        let eval = say(&dir, &id, &["next", "--eval"]).json();
        let answer = next(&dir, &id, &[], *code, *to);
        let reason = answer["reason"].as_str().unwrap();
        assert!(reason.contains(word), "{name} {text}: {answer:#}");
        if *code == 6 {
            assert!(reason.contains(&format!(".ftl/tasks/{id}/{name}:")), "{answer:#}");
        } else {
            assert_eq!(eval["guards"], answer["guards"], "what --eval shows is what next does");
        }
    }
}

#[test]
fn the_plan() {
    let plan = |change: &dyn Fn(&mut Json)| {
        let mut json: Json = serde_json::from_str(PLAN).unwrap();
        change(&mut json);
        json.to_string()
    };
    let question = |state: &str, answer: Json| {
        plan(&|json| {
            json["open_questions"] = super::json!([{ "id": "Q1", "role": "product", "question": "Which colour?",
                "blocking": true, "state": state, "answer": answer }]);
        })
    };
    let name = "planning/planning.ai.json";
    let older =
        r#"{"schema_version":1,"meta":{"title":"Note"},"why":"w","what":"x","draft_files":["note.txt"]}"#;
    let (open, waived) = (question("open", Json::Null), question("waived", Json::Null));
    let (answered, skipped) =
        (question("answered", super::json!("red")), question("answered", super::json!(" ")));
    let cases: &[Case<'_>] = &[
        ("planning", name, PLAN, 0, Some("plan_review"), "touches 1 file"),
        ("planning", name, older, 0, Some("plan_review"), "Note"),
        ("planning", name, "", 4, None, "is missing"),
        ("planning", name, "{\"id\": ", 6, None, "planning.ai.json:1:7: is not valid JSON"),
        ("planning", name, "{\"id\":\"t\",\n \"title\":3}", 6, None, ":2:10: `title` must be a text"),
        ("planning", name, "{}", 6, None, "has no `id`"),
        ("planning", name, &open, 4, None, "Which colour?"),
        ("planning", name, &skipped, 4, None, "Which colour?"),
        ("planning", name, &answered, 0, Some("plan_review"), ""),
        ("planning", name, &waived, 0, Some("plan_review"), ""),
        ("planning", name, &question("later", Json::Null), 6, None, "open, answered, waived"),
        (
            "planning",
            name,
            &plan(&|json| json["file_plan"] = super::json!([{"path":"../x","intent":"create"}])),
            6,
            None,
            "leads out",
        ),
        (
            "planning",
            name,
            &plan(&|json| json["signals"] = super::json!(["nonsense"])),
            6,
            None,
            "signals[0]",
        ),
        ("planning", "planning/plan.files.json", "", 0, Some("plan_review"), ""),
        ("planning", "planning/plan.files.json", r#"{"files":[]}"#, 4, None, "lists no file"),
        ("planning", "planning/plan.files.json", r#"{"files":"note.txt"}"#, 6, None, "must be a list"),
        ("planning", "planning/plan.files.json", r#"{"files":["/etc/passwd"]}"#, 6, None, "files[0]"),
        // In plan_review a plan that is missing or cannot be read is a flaw of the plan.
        ("plan_review", name, "", 0, Some("planning"), "is missing"),
        ("plan_review", name, "{", 0, Some("planning"), "cannot be read"),
        // In codegen it is unclear or malformed.
        ("codegen", name, "", 0, Some("plan_review"), "is missing"),
        ("codegen", name, "[]", 6, None, "must be an object"),
    ];
    table(cases);
}

#[test]
fn questions_of_an_older_meeting() {
    let dir = repository();
    task(&dir, "m", "planning", ALL);
    let meeting = r#"{"rounds":[{"round":1,"per_role_verdicts":{"RiskPlanner":{"ok":false,"blocking_open_questions":["old?"]}}},
        {"round":2,"per_role_verdicts":{"RiskPlanner":{"ok":null,"blocking_open_questions":["Who pays?","Who looks?"]}}}]}"#;
    put(&dir, "m", "planning/planning.meeting.json", meeting);
    let answer = next(&dir, "m", &[], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("Who pays?"), "{answer:#}");
    let line = |kind: &str, text: &str, index: u32| {
        format!(
            "{{\"kind\":\"{kind}\",\"text\":\"{text}\",\"from_role\":\"RiskPlanner\",\"round\":2,\"index\":{index}}}\n"
        )
    };
    let pays = line("clarify_question", "Who pays?", 0) + &line("clarify_answer", "We do", 0);
    let skipped = pays + &line("clarify_question", "Who looks?", 1) + &line("clarify_answer", "", 1);
    put(&dir, "m", "planning/planning.transcript.jsonl", &skipped);
    let answer = next(&dir, "m", &[], 4, None);
    let reason = answer["reason"].as_str().unwrap();
    assert!(reason.contains("Who looks?") && !reason.contains("Who pays?"), "{answer:#}");
    put(&dir, "m", "planning/planning.transcript.jsonl", &(skipped.clone() + "nonsense\n"));
    next(&dir, "m", &[], 6, None);
    put(&dir, "m", "planning/planning.transcript.jsonl", &(skipped + &line("clarify_answer", "Ada", 1)));
    next(&dir, "m", &[], 0, Some("plan_review"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, one line a case")]
fn the_review_of_the_plan() {
    let name = "review/plan-review.json";
    let saw = |digest: &str| format!(r#"{{"ok":true,{REVIEWED},"meta":{{"plan_hash":"{digest}"}}}}"#);
    let cases: &[Case<'_>] = &[
        ("plan_review", name, PLAN_REVIEW, 0, Some("codegen"), "accept the plan"),
        // Nobody has read it, or nobody says whether it is ok.
        ("plan_review", name, r#"{"ok":true}"#, 6, None, "has no `reviewers`"),
        ("plan_review", name, r#"{"ok":true,"reviewers":[]}"#, 6, None, "has no `reviewers`"),
        (
            "plan_review",
            name,
            r#"{"aggregate":{"ok":true,"decision":"accepted"},"reviewers":[]}"#,
            6,
            None,
            "has no `reviewers`",
        ),
        (
            "plan_review",
            name,
            r#"{"reviewers":[{"id":"a","ok":true}]}"#,
            6,
            None,
            "has neither `ok` nor `aggregate.ok`",
        ),
        (
            "plan_review",
            name,
            r#"{"aggregate":{"decision":"accepted"},"reviewers":[{"id":"a","ok":true}]}"#,
            6,
            None,
            "has neither `ok` nor `aggregate.ok`",
        ),
        (
            "plan_review",
            name,
            r#"{"aggregate":{"ok":true,"decision":"accepted"},"reviewers":[{"id":"a","ok":true}]}"#,
            0,
            Some("codegen"),
            "",
        ),
        // What is minor does not send back what the reviewers accept together; what is not, does.
        (
            "plan_review",
            name,
            r#"{"ok":true,"aggregate":{"ok":true},"reviewers":[{"id":"a","ok":false,"severity":"minor","reasons":["a name"]}]}"#,
            0,
            Some("codegen"),
            "",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"aggregate":{"ok":true},"reviewers":[{"id":"a","ok":false,"severity":"major"}]}"#,
            0,
            Some("planning"),
            "wants changes",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"reviewers":[{"id":"a","ok":false,"severity":"minor"}]}"#,
            0,
            Some("planning"),
            "wants changes",
        ),
        ("plan_review", name, "", 4, None, "is missing"),
        ("plan_review", name, "{]", 6, None, "is not valid JSON"),
        ("plan_review", name, "{}", 6, None, "says nothing"),
        ("plan_review", name, r#"{"ok":"true"}"#, 6, None, "must be true or false"),
        ("plan_review", name, r#"{"ok":true,"reviewers":[{"id":"a"}]}"#, 6, None, "reviewers[0]"),
        (
            "plan_review",
            name,
            r#"{"ok":true,"reviewers":[{"ok":true,"decision":"maybe"}]}"#,
            6,
            None,
            "decision",
        ),
        ("plan_review", name, PLAN_BLOCKED, 0, Some("planning"), "blocks"),
        (
            "plan_review",
            name,
            r#"{"ok":false,"reviewers":[{"id":"a","ok":true}]}"#,
            0,
            Some("planning"),
            "wants changes",
        ),
        // No summary overrules a finding, and a flag may only make it stricter.
        (
            "plan_review",
            name,
            r#"{"ok":true,"blocked":false,"reviewers":[{"id":"a","ok":true,"blocking_issues":["no"]}]}"#,
            0,
            Some("planning"),
            "blocks",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"blocked":true,"reviewers":[{"id":"a","ok":true}]}"#,
            0,
            Some("planning"),
            "blocks",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"aggregate":{"ok":false},"reviewers":[{"id":"a","ok":true}]}"#,
            0,
            Some("planning"),
            "wants changes",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"reviewers":[{"id":"a","ok":false}]}"#,
            0,
            Some("planning"),
            "wants changes",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"signals":["needs_changes"],"reviewers":[{"id":"a","ok":true}]}"#,
            0,
            Some("planning"),
            "wants changes",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"reviewers":[{"id":"a","ok":null}]}"#,
            4,
            None,
            "a has not decided",
        ),
        (
            "plan_review",
            name,
            r#"{"ok":true,"reviewers":[{"id":"a","ok":true,"decision":"defer"}]}"#,
            4,
            None,
            "a has not decided",
        ),
        ("plan_review", name, &saw(&digest(PLAN)), 0, Some("codegen"), ""),
        ("plan_review", name, &saw(&digest("another")), 4, None, "stale"),
        (
            "plan_review",
            name,
            r#"{"ok":true,"meta":{"plan_hash":7},"reviewers":[{"id":"a","ok":true}]}"#,
            6,
            None,
            "plan_hash",
        ),
    ];
    table(cases);
}

#[test]
fn the_code() {
    let stray = PATCH.replace("note.txt", "stray.txt");
    let cases: &[Case<'_>] = &[
        ("codegen", "code/diff.patch", PATCH, 0, Some("review"), "complete"),
        ("codegen", "code/diff.patch", "", 4, None, "diff.patch is missing"),
        ("codegen", "code/diff.patch", " \n", 4, None, "diff.patch is missing or empty"),
        ("codegen", "code/diff.patch", "no patch at all\n", 6, None, "is no patch"),
        ("codegen", "code/diff.patch", &stray, 0, Some("planning"), "stray.txt"),
        ("codegen", "code/diff.patch", &PATCH.replace("note.txt", "../note.txt"), 6, None, "leads out"),
        ("codegen", "code/diff.patch", &PATCH.replace("b/note.txt", "/etc/passwd"), 6, None, "/etc/passwd"),
        ("codegen", "code/diff.patch", &PATCH.replace("/note.txt", "/./note.txt"), 0, Some("review"), ""),
        ("codegen", "planning/plan.files.json", r#"{"files":["./note.txt"]}"#, 0, Some("review"), ""),
        ("codegen", "code/files/note.txt", "", 4, None, "has no file"),
        ("codegen", "code/files/more.txt", "x", 0, Some("planning"), "more.txt"),
        (
            "codegen",
            "planning/plan.files.json",
            r#"{"files":["note.txt","other.txt"]}"#,
            4,
            None,
            "`other.txt` is planned",
        ),
        (
            "codegen",
            "code/codegen.json",
            r#"{"signals":["plan_unclear"]}"#,
            0,
            Some("plan_review"),
            "plan_unclear",
        ),
        (
            "codegen",
            "code/codegen.json",
            r#"{"signals":["plan_unclear","scope_mismatch"]}"#,
            0,
            Some("planning"),
            "",
        ),
        ("codegen", "code/codegen.json", r#"{"signals":["blocked"]}"#, 4, None, "blocked"),
        ("codegen", "code/codegen.json", r#"{"signals":"blocked"}"#, 6, None, "must be a list"),
        ("codegen", "code/codegen.json", r#"{"meta":{"plan_hash":"00"}}"#, 4, None, "stale"),
    ];
    table(cases);
}

#[test]
fn the_review_of_the_code() {
    let name = "review/code-review.json";
    let issues = |issues: &str| format!("{{\"issues\":[{issues}]}}");
    let one = |severity: &str, category: &str| {
        format!(r#"{{"id":"F","severity":"{severity}","category":"{category}","message":"so"}}"#)
    };
    let both = issues(&format!("{},{}", one("blocking", "code"), one("blocking", "plan")));
    let saw = |digest: &str| format!(r#"{{"issues":[],"meta":{{"diff_hash":"{digest}"}}}}"#);
    let cases: &[Case<'_>] = &[
        ("review", name, CODE_REVIEW, 0, Some("test"), "none blocks"),
        ("review", name, &issues(""), 0, Some("test"), ""),
        ("review", name, &issues(&one("major", "plan")), 0, Some("test"), ""),
        ("review", name, &issues(&one("blocking", "code")), 0, Some("codegen"), "so"),
        ("review", name, &issues(&one("blocking", "plan")), 0, Some("planning"), "so"),
        (
            "review",
            name,
            &issues(r#"{"id":"F","severity":"blocking","message":"so"}"#),
            0,
            Some("codegen"),
            "so",
        ),
        ("review", name, &both, 0, Some("planning"), ""),
        ("review", name, r#"{"issues":[],"signals":["plan_misalignment"]}"#, 0, Some("planning"), ""),
        ("review", name, r#"{"issues":[],"signals":["needs_changes"]}"#, 0, Some("codegen"), ""),
        ("review", name, "", 4, None, "is missing"),
        ("review", name, "{}", 6, None, "has no `issues`"),
        ("review", name, &issues(&one("terrible", "code")), 6, None, "terrible"),
        ("review", name, &issues(&one("minor", "style")), 6, None, "style"),
        ("review", name, &saw(&digest(PATCH)), 0, Some("test"), ""),
        ("review", name, &saw(&digest("x")), 4, None, "stale"),
    ];
    table(cases);
}

#[test]
fn the_report() {
    let name = "eval/eval-report.json";
    let report = |status: &str, pass: bool, passed: u32, suites: &str| {
        format!(
            r#"{{"status":"{status}","overall_pass":{pass},"summary":{{"passed":{passed},"failed":0}},"suites":[{suites}]}}"#
        )
    };
    let suite =
        |status: &str, pass: bool| format!(r#"{{"id":"lint","status":"{status}","overall_pass":{pass}}}"#);
    let may_fail = suite("failed", false).replace("}", r#","allow_failure":true}"#);
    let saw = GREEN.replacen('{', &format!(r#"{{"meta":{{"diff_hash":"{}"}},"#, digest("x")), 1);
    let cases: &[Case<'_>] = &[
        ("test", name, GREEN, 0, Some("accept"), "3 passed"),
        ("test", name, RED, 0, Some("codegen"), "red: unit"),
        (
            "test",
            name,
            &report("completed", true, 1, &suite("failed", true)),
            0,
            Some("codegen"),
            "red: lint",
        ),
        (
            "test",
            name,
            &report("completed", true, 1, &suite("completed", false)),
            0,
            Some("codegen"),
            "red: lint",
        ),
        ("test", name, &report("failed", true, 1, ""), 4, None, "the run itself failed"),
        (
            "test",
            name,
            &report("failed", false, 1, &suite("failed", false)),
            4,
            None,
            "the run itself failed",
        ),
        // A suite that may fail makes nothing red; another one does.
        ("test", name, &report("completed", false, 1, &may_fail), 0, Some("accept"), "1 passed"),
        (
            "test",
            name,
            &report("completed", false, 1, &format!("{may_fail},{}", suite("failed", false))),
            0,
            Some("codegen"),
            "red: lint",
        ),
        ("test", name, &report("running", false, 1, ""), 4, None, "has not ended"),
        ("test", name, &report("completed", true, 1, &suite("running", false)), 4, None, "has not ended"),
        ("test", name, &report("completed", true, 1, &suite("skipped", true)), 4, None, "was skipped"),
        ("test", name, &report("completed", true, 0, ""), 4, None, "no test ran"),
        ("test", name, "", 4, None, "is missing"),
        ("test", name, "nope", 6, None, "is not valid JSON"),
        ("test", name, &report("finished", true, 1, ""), 6, None, "finished"),
        ("test", name, r#"{"status":"completed","overall_pass":true}"#, 6, None, "has no `summary`"),
        ("test", name, &saw, 4, None, "stale"),
    ];
    table(cases);
}

#[test]
fn the_decision_and_the_record() {
    let name = "accept/decision.json";
    let decided = |verdict: &str, route: Option<&str>, signals: &[&str]| decision(verdict, route, signals);
    let nobody = decided("accepted", None, &[]).replace("\"Ada\"", "\" \"");
    let accepted = decided("accepted", None, &[]);
    let silent = accepted.replace("\"because\"", "");
    let by_role = accepted.replace("\"Ada\"", "\"Coder\"");
    let by_agent = accepted.replace("\"Ada\"", "{\"name\":\"Hal\",\"kind\":\"agent\"}");
    let saw = |digest: &str| RECORD.replacen('{', &format!("{{\"meta\":{{\"diff_hash\":\"{digest}\"}},"), 1);
    let cases: &[Case<'_>] = &[
        ("accept", name, &decided("needs_work", None, &[]), 0, Some("codegen"), "needs_work"),
        ("accept", name, &decided("needs_work", Some("review"), &[]), 0, Some("review"), ""),
        ("accept", name, &decided("rejected", Some("planning"), &[]), 0, Some("planning"), ""),
        ("accept", name, &decided("rejected", None, &[]), 4, None, "no route"),
        ("accept", name, &decided("deferred", None, &[]), 4, None, "deferred"),
        ("accept", name, &decided("deferred", None, &["regression"]), 0, Some("revert"), ""),
        ("accept", name, &decided("accepted", None, &["regression"]), 0, Some("revert"), ""),
        ("accept", name, &decided("accepted", Some("revert"), &[]), 0, Some("revert"), ""),
        ("accept", name, &decided("accepted", None, &[]), 0, Some("done"), "accepted"),
        ("accept", name, &nobody, 4, None, "who decided"),
        ("accept", name, &silent, 4, None, "gives no reason"),
        ("accept", name, &by_role, 4, None, "decided by an agent"),
        ("accept", name, &by_agent, 4, None, "decided by an agent"),
        (
            "accept",
            name,
            &decided("accepted", Some("test"), &[]),
            6,
            None,
            "codegen, review, planning, revert",
        ),
        ("accept", name, &decided("maybe", None, &[]), 6, None, "maybe"),
        ("accept", name, "{}", 6, None, "has no `verdict`"),
        ("accept", name, r#"{"verdict":"accepted","decider":"Ada"}"#, 6, None, "has no `reasons`"),
        ("revert", "revert/record.json", RECORD, 0, Some("done"), "undone"),
        ("revert", "revert/record.json", r#"{"reason":" "}"#, 6, None, "does not say why"),
        ("revert", "revert/record.json", r#"{"reason":"x","partial":true}"#, 4, None, "only a part"),
        (
            "revert",
            "revert/record.json",
            r#"{"reason":"x","partial":true,"explanation":"the rest is wanted"}"#,
            0,
            Some("done"),
            "undone",
        ),
        ("revert", "revert/record.json", "{}", 6, None, "has no `reason`"),
        ("revert", "revert/record.json", "{\"reason\":", 6, None, "is not valid JSON"),
        ("revert", "revert/record.json", &saw(&digest(PATCH)), 0, Some("done"), "undone"),
        ("revert", "revert/record.json", &saw(&digest("another")), 4, None, "stale"),
    ];
    table(cases);
}

#[test]
fn a_record_of_another_commit_is_stale() {
    let dir = repository();
    let record = |target: &str| RECORD.replace("\"none\"", &format!("\"{target}\""));
    let applied = "0123456789abcdef0123456789abcdef01234567";
    let other = applied.replace("0123", "9123");
    let cases = [
        (other.as_str(), 4, None, "stale"),
        ("none", 4, None, "stale"),
        ("012345", 4, None, "stale"),
        (applied, 0, Some("done"), "undone"),
        ("0123456", 0, Some("done"), "undone"),
    ];
    for (number, (target, code, to, word)) in cases.into_iter().enumerate() {
        let id = format!("s{number}");
        task(&dir, &id, "revert", ALL);
        put(&dir, &id, "accept/commit.json", &format!("{{\"commit\":\"{applied}\"}}"));
        put(&dir, &id, "revert/record.json", &record(target));
        let answer = next(&dir, &id, &[], code, to);
        assert!(answer["reason"].as_str().unwrap().contains(word), "{target}: {answer:#}");
    }
    // What says which commit stands applied is an artifact like others.
    task(&dir, "bad", "revert", ALL);
    put(&dir, "bad", "accept/commit.json", "{}");
    put(&dir, "bad", "revert/record.json", RECORD);
    let answer = next(&dir, "bad", &[], 6, None);
    assert!(answer["reason"].as_str().unwrap().contains("accept/commit.json:1:1"), "{answer:#}");
}

#[test]
fn a_record_of_an_earlier_revert_does_not_undo_what_was_applied_since() {
    let dir = repository();
    task(&dir, "t", "accept", ALL);
    let apply = || {
        say(&dir, "t", &["accept", "--reason", "good"]).code(0);
        next(&dir, "t", &[], 0, Some("done"));
        say(&dir, "t", &["redo", "accept", "--reason", "it broke the export"]).code(0);
        say(&dir, "t", &["revert", "--reason", "it broke the export"]).code(0);
    };
    apply();
    say(&dir, "t", &["revert"]).code(0);
    let earlier = get(&dir, "t", "revert/record.json");
    next(&dir, "t", &[], 0, Some("done"));
    say(&dir, "t", &["redo", "accept", "--reason", "it was good after all"]).code(0);
    apply();
    put(&dir, "t", "revert/record.json", &earlier);
    let answer = next(&dir, "t", &[], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("stale: it undid"), "{answer:#}");
    assert!(dir.path("note.txt").exists(), "nothing was undone");
    // Undone for good, it counts.
    say(&dir, "t", &["revert"]).code(0);
    next(&dir, "t", &[], 0, Some("done"));
    assert!(!dir.path("note.txt").exists());
}

#[test]
fn evidence_without_a_digest_is_bound_when_it_is_first_seen() {
    let dir = repository();
    let cases = [
        ("plan_review", "planning/planning.ai.json", PLAN, "review/plan-review.json", "codegen"),
        ("review", "code/diff.patch", PATCH, "review/code-review.json", "test"),
        ("test", "code/diff.patch", PATCH, "eval/eval-report.json", "accept"),
        ("revert", "code/diff.patch", PATCH, "revert/record.json", "done"),
    ];
    for (phase, seen, text, evidence, to) in cases {
        let id = format!("b-{phase}");
        task(&dir, &id, phase, &[ALL, &[("revert/record.json", RECORD)]].concat());
        say(&dir, &id, &["adopt"]).code(0);
        put(&dir, &id, seen, &format!("{text}\n"));
        let answer = next(&dir, &id, &[], 4, None);
        assert!(answer["reason"].as_str().unwrap().contains("stale"), "{answer:#}");
        // Back as it was it counts again; so does evidence that was written anew.
        put(&dir, &id, seen, text);
        assert_eq!(say(&dir, &id, &["next", "--eval"]).json()["to"], to);
        put(&dir, &id, seen, &format!("{text}\n"));
        let again = get(&dir, &id, evidence);
        put(&dir, &id, evidence, &format!("{again}\n"));
        next(&dir, &id, &[], 0, Some(to));
    }
}

#[test]
fn looking_writes_nothing() {
    let dir = repository();
    task(&dir, "l", "planning", ALL);
    let answer = say(&dir, "l", &["next", "--eval"]).code(0).json();
    assert_eq!((&answer["moved"], &answer["to"]), (&Json::Bool(false), &super::json!("plan_review")));
    say(&dir, "l", &["show"]).code(0);
    assert!(!dir.path(".ftl/store").exists());
    put(&dir, "l", "state.json", "{\"phase\":\n\"plannin\"}");
    for words in [&["next", "--eval"][..], &["next"], &["plan"], &["redo", "planning", "--reason", "x"]] {
        let answer = say(&dir, "l", words).code(6).json();
        assert!(
            answer["reason"].as_str().unwrap().contains("state.json:2:1: `phase` is `plannin`"),
            "{answer:#}"
        );
    }
    say(&dir, "l", &["adopt"]).code(6);
    say(&dir, "l", &["show"]).code(6);
}

#[test]
fn older_work_is_read_and_written_anew() {
    let dir = repository();
    let cases = [
        ("planning_done", "planning", "plan_review"),
        ("codegen_done", "codegen", "review"),
        ("code_review", "review", "test"),
        ("code_review_meeting", "review", "test"),
        ("test_run", "test", "accept"),
    ];
    for (word, from, to) in cases {
        task(&dir, word, word, ALL);
        let answer = next(&dir, word, &[], 0, Some(to));
        assert_eq!(answer["from"], from);
        assert!(get(&dir, word, "state.json").contains("\"mine\""));
    }
    // A report and a plan review in their older places and shapes.
    task(&dir, "report", "test", ALL);
    remove(&dir, "report", "eval/eval-report.json");
    put(
        &dir,
        "report",
        "eval-report.json",
        r#"{"taskId":"x","results":[{"step":"lint","status":"skipped"},{"step":"test","status":"failed","code":1}]}"#,
    );
    next(&dir, "report", &[], 0, Some("codegen"));
    task(&dir, "green", "test", ALL);
    remove(&dir, "green", "eval/eval-report.json");
    put(&dir, "green", "eval-report.json", r#"{"results":[{"step":"test","status":"ok"}]}"#);
    next(&dir, "green", &[], 0, Some("accept"));
    task(&dir, "old", "plan_review", ALL);
    remove(&dir, "old", "review/plan-review.json");
    put(
        &dir,
        "old",
        "planning/plan-review.json",
        r#"{"id":"old","ok":true,"reasons":[],"issues":[{"id":"E","type":"planning","severity":"error","message":"empty"}]}"#,
    );
    let answer = next(&dir, "old", &[], 0, Some("planning"));
    assert!(answer["reason"].as_str().unwrap().contains("blocks"), "{answer:#}");
    assert!(!has(&dir, "old", "review/plan-review.json"));
}

#[test]
fn an_acceptance_needs_a_green_report_or_says_that_there_is_none() {
    let dir = repository();
    for (id, report) in [("red", RED), ("gone", ""), ("bad", "{")] {
        task(&dir, id, "accept", ALL);
        if report.is_empty() {
            remove(&dir, id, "eval/eval-report.json");
        } else {
            put(&dir, id, "eval/eval-report.json", report);
        }
        // A decision that somebody wrote by hand does not see it.
        put(&dir, id, "accept/decision.json", &decision("accepted", None, &[]));
        let answer = next(&dir, id, &[], 4, None);
        assert!(answer["reason"].as_str().unwrap().contains("does not name it"), "{answer:#}");
        // A person says why, or nothing is recorded.
        let answer = say(&dir, id, &["accept"]).code(4).json();
        assert!(answer["reason"].as_str().unwrap().contains("--reason"), "{answer:#}");
        say(&dir, id, &["accept", "--reason", "the suite is wrong"]).code(0);
        let decided: Json = serde_json::from_str(&get(&dir, id, "accept/decision.json")).unwrap();
        assert_eq!(decided["missing_evidence"], super::json!(["eval/eval-report.json"]), "{decided:#}");
        let answer = say(&dir, id, &["next", "--eval"]).code(0).json();
        assert_eq!(super::guard(&answer, "accept done")["holds"], true, "{answer:#}");
    }
    next(&dir, "red", &[], 0, Some("done"));
}

#[test]
fn an_acceptance_on_a_green_report_speaks_for_itself() {
    let dir = repository();
    task(&dir, "t", "accept", ALL);
    say(&dir, "t", &["accept"]).code(0);
    let decided: Json = serde_json::from_str(&get(&dir, "t", "accept/decision.json")).unwrap();
    assert_eq!(decided["reasons"], super::json!(["accepted by Ada on a green report"]), "{decided:#}");
    next(&dir, "t", &[], 0, Some("done"));
}

#[test]
fn a_patch_without_a_change_is_complete_only_where_the_plan_says_so() {
    let dir = repository();
    let allowing = PLAN.replacen('{', "{\"allow_empty_diff\":true,", 1);
    for (id, plan, code, to) in [("no", PLAN, 4, None), ("yes", allowing.as_str(), 0, Some("review"))] {
        let files = [("planning/planning.ai.json", plan), ("code/diff.patch", "\n")];
        task(&dir, id, "codegen", &files);
        next(&dir, id, &[], code, to);
    }
    task(&dir, "none", "codegen", &[("planning/planning.ai.json", allowing.as_str())]);
    next(&dir, "none", &[], 4, None);
}
