//! Tests of the toolset: every tool, every limit, every way to be denied.

use std::sync::Mutex;

use ftl_core::run::Usage;
use ftl_core::tool_policy::{Ruling, ToolAllowance, Write, rule};

use std::path::Path;

use super::*;
use crate::contract::{ChargeRefusal, CommandFailure, Ran, SessionLimits};

/// A session host that rules by the pure rule and counts.
struct RecordingHost {
    allowance: ToolAllowance,
    used: Mutex<u64>,
    cancelled: bool,
}

impl SessionHost for RecordingHost {
    fn rule(&self, call: &ToolCall) -> Verdict {
        let mut used = self.used.lock().unwrap();
        match rule(&self.allowance, *used, call) {
            Ruling::Allow => {
                *used += u64::from(call.deed.is_counted());
                Verdict::Allow
            }
            Ruling::Deny(why) => Verdict::Deny(why),
            Ruling::Ask(question) => Verdict::Ask(question),
        }
    }

    fn charge(&self, _: &Usage) -> Result<(), ChargeRefusal> {
        Ok(())
    }

    fn say(&self, _: Said<'_>) {}

    fn is_cancelled(&self) -> bool {
        self.cancelled
    }
}

#[derive(Debug)]
struct Echo;

impl CommandRunner for Echo {
    fn run(
        &self,
        command: &str,
        _: &Path,
        limit: Duration,
        _: &dyn SessionHost,
    ) -> Result<Ran, CommandFailure> {
        let code = if command == "false" { Some(1) } else { Some(0) };
        Ok(Ran { code, output: format!("{command} for {}s", limit.as_secs()) })
    }
}

fn bench_with(folder: &Path, calls: u64, cancelled: bool) -> Toolset {
    bench_for(folder, calls, cancelled, Schema::anything())
}

fn bench_for(folder: &Path, calls: u64, cancelled: bool, answer: Schema) -> Toolset {
    let write = Write::Only(["src".to_owned(), "a.txt".to_owned()].into());
    let tools: BTreeSet<Name> = NAMES.into_iter().map(Name::from).collect();
    let allowance = ToolAllowance { tools, write, calls: Some(calls), ask: BTreeSet::new() };
    let order = SessionOrder {
        folder: folder.to_owned(),
        role: "coder".into(),
        form: None,
        model: None,
        system: String::new(),
        allowance: allowance.clone(),
        answer,
        limits: SessionLimits::default(),
        shell: Some(Arc::new(Echo)),
        launcher: None,
        mcp_endpoint: None,
        earlier: None,
    };
    let mut secrets = Secrets::new();
    secrets.hide("hush-hush");
    let host = Arc::new(RecordingHost { allowance, used: Mutex::new(0), cancelled });
    Toolset::new(&order, host, Arc::new(secrets)).unwrap()
}

#[test]
fn tools_are_a_table() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\none hush-hush\n").unwrap();
    std::fs::write(folder.path().join("binary"), [0xff, 0xfe]).unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    std::fs::write(folder.path().join(".git/config"), "one").unwrap();
    let toolset = bench_with(folder.path(), 100, false);
    let table = [
        (r#"read {"path":"a.txt"}"#, "one\ntwo\none [hidden]\n"),
        (r#"read {"path":"a.txt","from":2,"lines":1}"#, "lines 2 to 2 of 3:\ntwo"),
        (r#"read {"path":"."}"#, ".git/\na.txt\nbinary"),
        (r#"read {"path":"b.txt"}"#, "! b.txt: No such file or directory (os error 2)"),
        (r#"read {"path":"binary"}"#, "! binary is no UTF-8 text"),
        (r#"read {"path":"../x"}"#, "! denied: ../x is outside the worktree"),
        (
            r#"read {"from":0}"#,
            "! this is no call of `read`:\n- answer.path: is missing\n- answer.from: is 0, less than 1",
        ),
        (r#"search {"pattern":"^one"}"#, "a.txt:1: one\na.txt:3: one [hidden]"),
        (r#"search {"pattern":"three"}"#, "nothing found in 2 files"),
        (
            r#"search {"pattern":"("}"#,
            "! this is no regular expression: found open group without closing ')'",
        ),
        (r#"search {"pattern":"x","path":"nowhere"}"#, "! nowhere is not there"),
        (r#"edit {"path":"a.txt","old":"two","new":"2"}"#, "a.txt: 1 replaced"),
        (r#"edit {"path":"a.txt","old":"two","new":"2"}"#, "! a.txt: `old` does not stand there"),
        (
            r#"edit {"path":"a.txt","old":"one","new":"1"}"#,
            "! a.txt: `old` stands there 2 times; give more of it, or set `all`",
        ),
        (r#"edit {"path":"a.txt","old":"one","new":"1","all":true}"#, "a.txt: 2 replaced"),
        (r#"write {"path":"src/x/y.rs","content":"fn"}"#, "src/x/y.rs: 2 bytes written"),
        (
            r#"write {"path":"other","content":"fn"}"#,
            "! denied: other may not be written here; what may is a.txt, src",
        ),
        (
            r#"write {"path":"src/.git/hooks/x","content":""}"#,
            "! denied: src/.git/hooks/x is in .git, which no agent changes",
        ),
        (r#"bash {"command":"ls"}"#, "ls for 120s"),
        (r#"bash {"command":"ls","seconds":9999}"#, "ls for 600s"),
        (r#"bash {"command":"false"}"#, "! exit code 1\nfalse for 120s"),
        (
            r#"dance {}"#,
            "! denied: there is no tool `dance` here; there is ask, bash, edit, read, recall, search, signal, submit, write",
        ),
    ];
    for (call, wanted) in table {
        let (name, args) = call.split_once(' ').unwrap();
        let found = match toolset.call(name, &serde_json::from_str(args).unwrap()) {
            Done::Back(text) => text,
            Done::Wrong(text) => format!("! {text}"),
            other => panic!("{call}: {other:?}"),
        };
        assert_eq!(found, wanted, "{call}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "1\n2\n1 hush-hush\n");
}

#[test]
fn terminal_tools_end_the_turn_also_when_calls_are_spent() {
    let folder = tempfile::tempdir().unwrap();
    let toolset = bench_with(folder.path(), 0, false);
    assert!(
        matches!(toolset.call("read", &json!({ "path": "." })), Done::Wrong(why) if why.contains("used up"))
    );
    let answer = json!({ "text": "hush-hush" });
    assert_eq!(toolset.call(SUBMIT, &answer), Done::Submitted(json!({ "text": "[hidden]" })));
    assert_eq!(toolset.call(ASK, &json!({ "question": "why?" })), Done::Asked("why?".into()));
}

#[test]
fn every_size_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let toolset = bench_with(folder.path(), 100, false);
    let large = "x".repeat(usize::try_from(MAX_FILE_BYTES).unwrap() + 1);
    let call = json!({ "path": "a.txt", "content": large });
    assert!(matches!(toolset.call("write", &call), Done::Wrong(why) if why.contains("is the most")));
    std::fs::write(folder.path().join("a.txt"), &large).unwrap();
    assert!(
        matches!(toolset.call("read", &json!({ "path": "a.txt" })), Done::Wrong(why) if why.contains("is the most"))
    );
    std::fs::write(folder.path().join("a.txt"), &large[..MAX_RESULT_BYTES + 10]).unwrap();
    let Done::Back(text) = toolset.call("read", &json!({ "path": "a.txt" })) else { panic!() };
    assert!(text.contains("[10 bytes left out]") && text.len() < MAX_RESULT_BYTES + 100);
    std::fs::write(folder.path().join("a.txt"), "line\n".repeat(search::MAX_FOUND + 1)).unwrap();
    let Done::Back(text) = toolset.call("search", &json!({ "pattern": "line" })) else { panic!() };
    assert_eq!(text.lines().count(), search::MAX_FOUND + 1);
    assert!(text.ends_with("[stopped after 200 lines in 1 files: search for less]"), "{text}");
    let heavy = json!({ "pattern": "(((a{100}){100}){100}){100}" });
    assert!(
        matches!(toolset.call("search", &heavy), Done::Wrong(why) if why.contains("no regular expression"))
    );
}

#[test]
fn nothing_is_done_for_a_session_that_was_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let toolset = bench_with(folder.path(), 100, true);
    let call = json!({ "path": "a.txt", "content": "x" });
    assert_eq!(toolset.call("write", &call), Done::Over(AgentError::Cancelled));
    assert!(!folder.path().join("a.txt").exists());
}

#[test]
fn signals_go_with_the_answer_where_it_has_a_place_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let plain = bench_with(folder.path(), 9, false);
    let signal = json!({ "signal": "blocked" });
    assert!(matches!(plain.call(SIGNAL, &signal), Done::Wrong(why) if why.contains("no tool `signal`")));
    let words = json!({ "type": "string", "enum": ["blocked", "regression"] });
    let answer =
        json!({ "type": "object", "properties": { "signals": { "type": "array", "items": words } } });
    let toolset = bench_for(folder.path(), 9, false, Schema::new(answer).unwrap());
    assert!(matches!(toolset.call(SIGNAL, &json!({ "signal": "sunshine" })), Done::Wrong(_)));
    for _ in 0..2 {
        assert_eq!(toolset.call(SIGNAL, &signal), Done::Back("it goes with your answer".into()));
    }
    let submitted = toolset.call(SUBMIT, &json!({ "signals": ["regression"] }));
    assert_eq!(submitted, Done::Submitted(json!({ "signals": ["regression", "blocked"] })));
}

#[test]
fn an_answer_holds_so_many_signals() {
    let folder = tempfile::tempdir().unwrap();
    let answer = json!({ "type": "object", "properties": { "signals": { "items": { "type": "string" } } } });
    let toolset = bench_for(folder.path(), 9, false, Schema::new(answer).unwrap());
    for number in 0..MAX_SIGNALS {
        assert!(matches!(toolset.call(SIGNAL, &json!({ "signal": number.to_string() })), Done::Back(_)));
    }
    let more = toolset.call(SIGNAL, &json!({ "signal": "more" }));
    assert!(matches!(more, Done::Wrong(why) if why.contains("16 signals is the most")));
}

#[test]
fn recall_asks_the_desk() {
    let folder = tempfile::tempdir().unwrap();
    let toolset = bench_with(folder.path(), 0, false);
    let done = toolset.call(RECALL, &json!({ "about": "ECONNREFUSED" }));
    assert!(matches!(done, Done::Wrong(why) if why.contains("ECONNREFUSED")), "it is free, and asks");
}

/// The catalogue declares the tools of roles by name; a name without a tool would be a tool that no agent ever sees.
#[test]
fn every_tool_that_a_role_declares_is_there() {
    for role in ftl_core::catalogue::Catalogue::standard().roles() {
        for form in &role.forms {
            for tools in [form.tools.nothing, form.tools.files, form.tools.worktree] {
                let unknown: Vec<&&str> = tools.iter().filter(|tool| !NAMES.contains(tool)).collect();
                assert!(unknown.is_empty(), "{} {:?}: {unknown:?}", role.name, form.word);
                assert!(tools.contains(&SUBMIT), "{} {:?} ends by submitting", role.name, form.word);
            }
        }
    }
}
