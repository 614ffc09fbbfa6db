//! Tests of workspaces: the exact file, the round trip, ends, refusals, older forms, and the time of fifty.

use std::fs;
use std::time::Instant;

use super::*;
use crate::plan_file::{self, CampaignPlan};
use ftl_code::context;
use ftl_core::json::{Json, JsonExt as _};

const NOW: &str = "2026-01-02T03:04:05.000006";

fn plan() -> CampaignPlan {
    plan_file::read(
        r#"{"objective": "add <login> & more", "framework": "FastAPI", "framework_confidence": 0.847,
            "idioms": {"required": ["Log requests"], "forbidden": []}, "tasks": [
            {"seq": "001", "slug": "spec-login", "type": "SPEC", "delta": ["tests/test_login.py"], "verify": "pytest tests/test_login.py"},
            {"seq": "002", "slug": "login", "delta": ["src/login.py", "src/b.py"], "verify": "pytest \"tests/test_login.py\"",
             "depends": ["1"], "budget": 7, "preflight": ["python -m py_compile src/login.py"]},
            {"seq": "003", "slug": "check", "type": "VERIFY", "verify": "true"}]}"#,
    )
    .unwrap()
}

fn known_failure() -> KnownFailure {
    KnownFailure {
        name: "import-loop".to_owned(),
        cost: 3000,
        trigger: "ImportError: \"x\"".to_owned(),
        fix: "move it".to_owned(),
        pattern: "ImportError: .*".to_owned(),
        injected: true,
    }
}

fn around() -> WorkspaceContext<'static> {
    WorkspaceContext {
        now: NOW,
        campaign: Some("c1"),
        explored_confidence: Some(0.3),
        contexts: vec![CodeContext {
            path: "src/login.py".to_owned(),
            lines: "1-2".to_owned(),
            content: b"def f():\n\x0c".to_vec(),
            exports: "f()".to_owned(),
            ..CodeContext::default()
        }],
        failures: vec![known_failure()],
        patterns: vec![KnownPattern {
            name: "p".to_owned(),
            saved: 2500,
            trigger: "t".to_owned(),
            insight: "i".to_owned(),
            injected: true,
        }],
        siblings: vec![KnownFailure {
            name: "sibling-004_x_blocked".to_owned(),
            injected: false,
            ..known_failure()
        }],
        parents: vec![Parent {
            seq: Some("001".to_owned()),
            workspace: "001_spec-login_complete".to_owned(),
            prior_delivery: "tests\r\nwritten".to_owned(),
        }],
        budget: None,
    }
}

fn created() -> Created {
    let plan = plan();
    create(&plan, &plan.tasks[1], &around()).unwrap()
}

#[test]
fn the_file_is_exactly_this() {
    let made = created();
    assert_eq!(made.file_name.to_string(), "002_login_active.xml");
    assert_eq!(made.id, "002-login");
    let expected = concat!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
        "<workspace id=\"002-login\" status=\"active\" _schema_version=\"1.0\" created_at=\"2026-01-02T03:04:05.000006\" type=\"BUILD\" campaign=\"c1\">",
        "<objective>add &lt;login&gt; &amp; more</objective>",
        "<implementation><delta>src/login.py</delta><delta>src/b.py</delta><verify>pytest \"tests/test_login.py\"</verify>",
        "<verify_source>tests/test_login.py</verify_source><budget>7</budget><preflight>python -m py_compile src/login.py</preflight></implementation>",
        "<code_context path=\"src/login.py\" lines=\"1-2\"><content encoding=\"escaped\">def f():\n\\x0c</content><exports>f()</exports><imports/></code_context>",
        "<idioms framework=\"FastAPI\" confidence=\"0.85\"><required>Declare routes with @app.get, @app.post and the like</required>",
        "<required>Return Pydantic models</required><required>Log requests</required><forbidden>Blocking calls in async functions</forbidden>",
        "<forbidden>Bare dicts as responses</forbidden></idioms>",
        "<framework_confidence>0.85</framework_confidence>",
        "<prior_knowledge><failure name=\"import-loop\" cost=\"3000\" injected=\"true\"><trigger>ImportError: \"x\"</trigger><fix>move it</fix><match>ImportError: .*</match></failure>",
        "<failure name=\"sibling-004_x_blocked\" cost=\"3000\" injected=\"false\"><trigger>ImportError: \"x\"</trigger><fix>move it</fix><match>ImportError: .*</match></failure>",
        "<pattern name=\"p\" saved=\"2500\" injected=\"true\"><trigger>t</trigger><insight>i</insight></pattern></prior_knowledge>",
        "<lineage><parent seq=\"001\" workspace=\"001_spec-login_complete\"><prior_delivery>tests&#13;\nwritten</prior_delivery></parent></lineage>",
        "<delivered/></workspace>\n",
    );
    assert_eq!(made.text, expected);
}

#[test]
fn parsing_gives_the_fields_in_their_order() {
    let json = parse(&created().text).unwrap().to_json();
    let keys: Vec<&str> = json.fields().map(|(key, _)| key.as_str()).collect();
    let expected = [
        "id",
        "status",
        "created_at",
        "completed_at",
        "blocked_at",
        "objective",
        "delta",
        "verify",
        "verify_source",
        "budget",
        "preflight",
        "delivered",
        "code_context",
        "framework_confidence",
        "framework",
        "idioms",
        "prior_knowledge",
        "lineage",
        "type",
        "campaign",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json.get("code_context").unwrap().get("content").unwrap().as_str(), Some("def f():\n\u{c}"));
    assert_eq!(
        json.get("lineage").unwrap().get("prior_delivery").unwrap().as_str(),
        Some("tests\r\nwritten")
    );
    assert_eq!(json.get("budget"), Some(&Json::from(7)));
    assert_eq!(json.get("completed_at"), Some(&Json::Null));
    let spec = parse(&created().text).unwrap().to_spec().unwrap();
    assert_eq!((spec.budget, spec.framework_confidence), (7, 0.85));
    assert_eq!(spec.prior_knowledge.unwrap().failures[0].pattern.as_deref(), Some("ImportError: .*"));
}

#[test]
fn what_there_is_little_of_leaves_little() {
    let mut plan = plan();
    plan.framework = None;
    plan.framework_confidence = None;
    let made =
        create(&plan, &plan.tasks[2], &WorkspaceContext { now: NOW, ..WorkspaceContext::default() }).unwrap();
    let found = parse(&made.text).unwrap();
    assert_eq!(found.framework_confidence, Some(DEFAULT_CONFIDENCE));
    assert_eq!((found.prior_knowledge, found.idioms, found.parents.len()), (None, None, 0));
    let explored =
        WorkspaceContext { now: NOW, explored_confidence: Some(0.7), ..WorkspaceContext::default() };
    let made = create(&plan, &plan.tasks[0], &explored).unwrap();
    assert_eq!(parse(&made.text).unwrap().framework_confidence, Some(0.7));
    let bare = parse("<workspace status=\"active\"/>").unwrap();
    assert_eq!(bare.budget, 5);
    assert_eq!(bare.to_spec().unwrap().framework_confidence, DEFAULT_CONFIDENCE);
}

#[test]
fn an_active_workspace_ends_once() {
    let made = created();
    let name = made.file_name.to_string();
    let used = read_utilized(r#"[{"name": "import-loop"}, {"name": "p", "type": "pattern"}]"#).unwrap();
    let done = complete(OnDisk { name: &name, text: &made.text }, "All\ndone \u{1}", &used, NOW).unwrap();
    assert_eq!(done.file_name.to_string(), "002_login_complete.xml");
    let read = parse(&done.text).unwrap();
    assert_eq!(read, done.workspace);
    assert_eq!((read.status, read.delivered.as_str()), (WorkspaceStatus::Complete, "All\ndone \u{1}"));
    assert_eq!(read.completed_at.as_deref(), Some(NOW));
    assert_eq!(read.utilized, Some(used));
    assert_eq!(read.contexts, parse(&made.text).unwrap().contexts);

    let reason = BlockReason::read("no such module").unwrap();
    let blocked = block(OnDisk { name: &name, text: &made.text }, &reason, NOW).unwrap();
    assert_eq!(blocked.file_name.to_string(), "002_login_blocked.xml");
    assert_eq!(blocked.workspace.delivered, "BLOCKED: no such module");
    assert!(!blocked.workspace.escalated);

    for ended in [&done, &blocked] {
        let name = ended.file_name.to_string();
        let again = complete(OnDisk { name: &name, text: &ended.text }, "x", &[], NOW).unwrap_err();
        assert!(again.message.contains("not active"), "{again}");
        assert!(block(OnDisk { name: &name, text: &ended.text }, &reason, NOW).is_err());
        // A file whose name and text disagree is not touched either.
        assert!(complete(OnDisk { name: "002_login_active.xml", text: &ended.text }, "x", &[], NOW).is_err());
        assert!(complete(OnDisk { name: &name, text: &made.text }, "x", &[], NOW).is_err());
    }
    let long = "x".repeat(MAX_DELIVERED_BYTES + 1);
    assert!(
        complete(OnDisk { name: &name, text: &made.text }, &long, &[], NOW)
            .unwrap_err()
            .message
            .contains("the limit is")
    );
    assert!(complete(OnDisk { name: "../../x.xml", text: &made.text }, "x", &[], NOW).is_err());
}

#[test]
fn reasons_as_builders_give_them() {
    let cases = [
        ("plain", "plain", false),
        ("BLOCKED: plain", "plain", false),
        ("BLOCKED:BLOCKED:  plain", "plain", false),
        ("blocked: plain", "plain", false),
        ("ESCALATED: too much", "too much", true),
        ("BLOCKED: ESCALATED: too much", "too much", true),
        (r"Error\nTried: a\nUnknown: b", "Error\nTried: a\nUnknown: b", false),
        (r"Error in C:\new\n  Tried: a", "Error in C:\\new\nTried: a", false),
        (r"a\nb", r"a\nb", false),
        ("Error\nTried: a", "Error\nTried: a", false),
        ("é\\n", "é\\n", false),
    ];
    for (text, reason, escalated) in cases {
        let expected = BlockReason { reason: reason.to_owned(), escalated };
        assert_eq!(BlockReason::read(text).unwrap(), expected);
    }
    for empty in ["", "  ", "BLOCKED:", "BLOCKED: ESCALATED: "] {
        assert!(BlockReason::read(empty).unwrap_err().message.contains("reason"));
    }
    let full = BlockReason::read("Error").unwrap().with(Some("a"), Some(" b "));
    assert_eq!(full.reason, "Error\nTried: a\nUnknown: b");
    let made = created();
    let escalated = BlockReason::read("ESCALATED: x").unwrap();
    let blocked = block(OnDisk { name: "002_login_active.xml", text: &made.text }, &escalated, NOW).unwrap();
    assert_eq!(blocked.workspace.to_json().get("escalated"), Some(&Json::Bool(true)));
    assert_eq!(block_reason("x BLOCKED: a\nb"), Some("a\nb"));
    assert_eq!(block_reason("fine"), None);
}

#[test]
fn lists_of_what_was_used() {
    assert_eq!(read_utilized("[]").unwrap(), []);
    assert_eq!(read_utilized(r#"["a"]"#).unwrap()[0].kind, LessonKind::Failure);
    for wrong in [
        "",
        "{}",
        "[1]",
        r#"[{"type": "failure"}]"#,
        r#"[{"name": "a", "type": "odd"}]"#,
        r#"[{"name": " "}]"#,
    ] {
        assert!(!read_utilized(wrong).unwrap_err().hint.is_empty(), "{wrong}");
    }
}

#[test]
fn names_of_files() {
    for name in ["001_a_active.xml", "1000_add-login_blocked.xml", "001_old_style_complete.xml"] {
        assert_eq!(FileName::parse(name).unwrap().to_string(), name);
    }
    for name in [
        "001_a_done.xml",
        "001_active.xml",
        "a_b_active.xml",
        "001_a_active.txt",
        "001__active.xml",
        "001_../x_active.xml",
        "001_.._active.xml",
        "001_a/b_active.xml",
        "_a_active.xml",
        "",
        "001_a\0_active.xml",
        "001_a\n_active.xml",
    ] {
        assert_eq!(FileName::parse(name), None, "{name:?}");
    }
    for (seq, slug) in
        [("1", "a"), ("001", "../x"), ("001", ""), ("001", "a_b"), ("../1", "a"), ("001", "a\0")]
    {
        assert!(FileName::new(seq, slug, WorkspaceStatus::Active).is_err(), "{seq} {slug}");
    }
    let name = FileName::parse("001_a_complete.xml").unwrap();
    assert!(name.is_of("1") && name.is_of("001") && !name.is_of("2") && !name.is_of("none"));
}

#[test]
fn older_forms_are_read() {
    let text = r#"<workspace id="001-a" status="active"><implementation><delta>a.py</delta><verify>true</verify>
        <preflight><check>one</check><check>two</check></preflight><budget>many</budget></implementation>
        <framework_idioms framework="FastHTML" confidence="0.9"><required><idiom>r1</idiom><idiom>r2</idiom></required>
        <forbidden><idiom>f1</idiom></forbidden></framework_idioms><framework_confidence>0.4</framework_confidence>
        <pattern>apply this</pattern>
        <lineage><parent>000_zero_complete</parent><prior_delivery>before</prior_delivery></lineage></workspace>"#;
    let found = parse(text).unwrap();
    assert_eq!(found.preflight, ["one", "two"]);
    assert_eq!(found.budget, 5);
    let idioms = found.idioms.as_ref().unwrap();
    assert_eq!(
        (idioms.required.join(","), idioms.forbidden.join(",")),
        ("r1,r2".to_owned(), "f1".to_owned())
    );
    assert_eq!(found.framework_confidence, Some(0.9));
    assert_eq!(found.pattern.as_deref(), Some("apply this"));
    let lineage = found.to_json().get("lineage").unwrap().line();
    assert_eq!(
        lineage,
        r#"{"parents": [{"seq": null, "workspace": "000_zero_complete", "prior_delivery": "before"}], "parent": "000_zero_complete", "prior_delivery": "before"}"#
    );
    assert!(parse(r#"<workspace status="active"><lineage/></workspace>"#).unwrap().parents.is_empty());
    assert!(
        parse(r#"<workspace status="active"><lineage><parent/></lineage></workspace>"#)
            .unwrap()
            .parents
            .is_empty()
    );
    assert!(parse(r#"<workspace status="odd"/>"#).unwrap_err().message.contains("status"));
    assert!(parse("<other/>").unwrap_err().message.contains("root"));
}

fn closed_file(
    seq: &str,
    campaign: Option<&str>,
    delivered: &str,
    status: WorkspaceStatus,
) -> (FileName, Workspace) {
    let mut workspace = parse("<workspace status=\"active\"/>").unwrap();
    workspace.campaign = campaign.map(str::to_owned);
    workspace.delivered = delivered.to_owned();
    workspace.status = status;
    (FileName::new(seq, "x", status).unwrap(), workspace)
}

#[test]
fn siblings_and_parents_of_this_campaign_only() {
    let blocked = [
        closed_file("004", Some("c1"), "BLOCKED: first line\nTried: x", WorkspaceStatus::Blocked),
        closed_file("005", Some("c2"), "BLOCKED: other", WorkspaceStatus::Blocked),
        closed_file("006", None, "BLOCKED: old", WorkspaceStatus::Blocked),
        closed_file("007", Some("c1"), "no mark", WorkspaceStatus::Blocked),
        closed_file("008", Some("c1"), "BLOCKED: ", WorkspaceStatus::Blocked),
    ];
    let ours = sibling_failures(&blocked, Some("c1"));
    assert_eq!(ours.len(), 1);
    assert_eq!((ours[0].name.as_str(), ours[0].trigger.as_str()), ("sibling-004_x_blocked", "first line"));
    assert_eq!((ours[0].cost, ours[0].injected), (1000, false));
    assert_eq!(sibling_failures(&blocked, None)[0].trigger, "old");
    let noted = "BLOCKED: x.md: verify_changed: it differs (noted)\ny.py: outside_delta: it differs";
    let noted = [closed_file("009", None, noted, WorkspaceStatus::Blocked)];
    assert_eq!(sibling_failures(&noted, None)[0].trigger, "y.py: outside_delta: it differs");

    let complete = [
        closed_file("001", Some("c2"), "theirs", WorkspaceStatus::Complete),
        closed_file("001", None, "old", WorkspaceStatus::Complete),
        closed_file("001", Some("c1"), "ours", WorkspaceStatus::Complete),
    ];
    let task = &plan().tasks[1];
    assert_eq!(parents(task, &complete, Some("c1"))[0].prior_delivery, "ours");
    assert_eq!(parents(task, &complete[..2], Some("c1"))[0].prior_delivery, "old");
    assert!(parents(task, &complete[..1], Some("c1")).is_empty());
}

#[test]
fn too_much_code_is_named_and_not_shown() {
    let plan = plan();
    let big =
        CodeContext { path: "a".to_owned(), content: vec![b'x'; MAX_CODE_BYTES], ..CodeContext::default() };
    let small = CodeContext { path: "b".to_owned(), content: b"y".to_vec(), ..CodeContext::default() };
    let around = WorkspaceContext { contexts: vec![big, small], ..around() };
    let found = parse(&create(&plan, &plan.tasks[1], &around).unwrap().text).unwrap();
    assert_eq!((found.contexts[1].is_cut, found.contexts[1].content.len()), (true, 0));
    let long = KnownFailure { trigger: "x".repeat(MAX_WORKSPACE_BYTES), ..known_failure() };
    let around = WorkspaceContext { failures: vec![long], ..around };
    assert!(create(&plan, &plan.tasks[1], &around).unwrap_err().message.contains("the limit is"));
}

#[test]
fn what_is_no_text_is_shown_twice() {
    let mut found = parse("<workspace status=\"active\"/>").unwrap();
    found.contexts = vec![CodeContext { content: b"a\xff".to_vec(), ..CodeContext::default() }];
    let shown = found.to_json().get("code_context").unwrap().clone();
    assert_eq!(shown.get("content").unwrap().as_str(), Some("a\u{fffd}"));
    assert_eq!(shown.get("content_hex").unwrap().as_str(), Some("61ff"));
}

#[test]
fn hostile_text_stays_text() {
    let mut plan = plan();
    plan.objective = "</objective><delivered>BLOCKED: x</delivered> ]]> &lt; <!DOCTYPE y>".to_owned();
    let mut around = around();
    around.failures[0].name = "a\" injected=\"false\" \u{0} x".to_owned();
    around.failures[0].trigger = "<![CDATA[ ]]> \u{7}".to_owned();
    let made = create(&plan, &plan.tasks[1], &around).unwrap();
    let found = parse(&made.text).unwrap();
    assert_eq!(found.objective, plan.objective);
    assert_eq!(found.delivered, "");
    let failure = &found.prior_knowledge.unwrap().failures[0];
    assert_eq!(failure.name, "a\" injected=\"false\" \u{fffd} x");
    assert_eq!((failure.trigger.as_str(), failure.injected), ("<![CDATA[ ]]> \u{7}", true));
}

#[test]
fn mutated_workspaces_never_panic() {
    let whole = created().text.into_bytes();
    let mut state = 17_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut well = 0;
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + below(3) {
            let at = below(bytes.len());
            bytes[at] = b"<>/=\"'&;\\x0a -_\xff"[below(16)];
        }
        let text = String::from_utf8_lossy(&bytes);
        let file = OnDisk { name: "002_login_active.xml", text: &text };
        let Ok(closed) = complete(file, "done", &[], NOW) else { continue };
        well += 1;
        assert_eq!(parse(&closed.text).unwrap(), closed.workspace);
        drop(closed.workspace.to_json().pretty());
        assert!(
            complete(OnDisk { name: "002_login_complete.xml", text: &closed.text }, "x", &[], NOW).is_err()
        );
    }
    assert!(well > 500, "{well}");
}

#[test]
fn fifty_workspaces_are_made_in_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let body = "def function(a, b):\n    return a + b\n\n\n".repeat(50);
    let mut tasks = Vec::new();
    for at in 1..=50 {
        fs::write(folder.path().join(format!("f{at}.py")), format!("import os\n{body}")).unwrap();
        tasks.push(format!(
            r#"{{"seq": "{at:03}", "slug": "task-{at}", "delta": ["f{at}.py"], "verify": "pytest tests/test_{at}.py"}}"#
        ));
    }
    let text = format!(r#"{{"objective": "many", "framework": "flask", "tasks": [{}]}}"#, tasks.join(","));
    let began = Instant::now();
    let plan = plan_file::read(&text).unwrap();
    for task in &plan.tasks {
        let contexts = gather_contexts(&|path| context::read_source(folder.path(), path), task);
        let made = create(&plan, task, &WorkspaceContext { contexts, ..around() }).unwrap();
        fs::write(folder.path().join(made.file_name.to_string()), made.text).unwrap();
    }
    let took = began.elapsed();
    println!("50 workspaces: {took:?}");
    // The aim is 300 ms of an optimised build on a quiet core.
    assert!(took.as_secs_f64() < 3.0, "{took:?}");
}

#[test]
fn a_spec_task_sees_the_top_whatever_it_points_to() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.py"), (1..=100).map(|line| format!("line {line}\n")).collect::<String>())
        .unwrap();
    let lines = |kind: &str| {
        let plan = format!(
            r#"{{"objective": "x", "tasks": [{{"seq": "001", "slug": "a", "type": "{kind}", "delta": ["a.py"], "verify": "true",
                "target_lines": {{"a.py": "50-60"}}}}]}}"#
        );
        gather_contexts(
            &|path| context::read_source(folder.path(), path),
            &plan_file::read(&plan).unwrap().tasks[0],
        )[0]
        .lines
        .clone()
    };
    assert_eq!(lines("SPEC"), "1-60");
    assert_eq!(lines("BUILD"), "1-15,50-60");
}
