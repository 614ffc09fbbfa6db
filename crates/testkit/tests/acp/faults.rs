//! Agents that hang, die, flood, lie and storm: nothing panics, nothing waits for ever, all is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_agents::acp::{
    Acp, AcpAgent, Habits, MAX_CALLS_SEEN, MAX_FAREWELL, MAX_GARBAGE, MAX_REBUKES, MAX_REQUESTS, MAX_START,
    MAX_TOLD_BYTES,
};
use ftl_agents::contract::{
    AgentAnswer, Backend as _, ConversationEnd, SessionHost, SessionLimits, SessionOrder, TURNS,
};
use ftl_agents::error::AgentError;
use ftl_agents::launch::MAX_LINE_BYTES;
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::Timing;
use ftl_testkit::speakers::allowance;
use serde_json::{Value as Json, json};

use crate::cast::{Scene, acp, calls, is_done, player, submit};

fn scene() -> Scene {
    Scene::new(allowance(9))
}

/// What comes of acts.
fn played(acts: Json) -> ConversationEnd {
    scene().play(&json!({ "acts": acts }))
}

fn is_bad(ended: &ConversationEnd, part: &str) {
    assert!(matches!(&ended.outcome, Err(AgentError::Bad(why)) if why.contains(part)), "{ended:?}");
}

/// A clock that runs so many times as fast as ours.
struct Hasty(Instant, u32);

/// The backend of an agent whose clock runs so many times as fast as ours.
pub(crate) fn hurried(agent: AcpAgent, times: u32) -> Acp {
    Acp::new(agent, Arc::new(Secrets::new()), Arc::new(Hasty(Instant::now(), times)))
}

impl Timing for Hasty {
    fn now(&self) -> Duration {
        self.0.elapsed() * self.1
    }

    fn pause(&self, _: Duration, host: &dyn SessionHost) -> bool {
        !host.is_cancelled()
    }

    fn throw(&self) -> u64 {
        1
    }
}

fn agent(program: &str, args: &[&str]) -> AcpAgent {
    AcpAgent {
        name: "agent".into(),
        program: program.into(),
        args: args.iter().map(|arg| (*arg).into()).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        home: None,
        habits: Habits::unknown(),
    }
}

#[test]
fn half_a_line_is_silence() {
    let ended = played(json!([{ "calls": [["trick half", "{\"jsonrpc\":\"2.0\","]], "end": "is deaf" }]));
    assert!(matches!(&ended.outcome, Err(AgentError::TimedOut(why)) if why.contains("600ms")), "{ended:?}");
}

#[test]
fn it_dies_in_the_middle_of_a_line() {
    let ended = played(json!([{ "calls": [["trick half", "{\"jsonrpc\":"]], "end": "dies" }]));
    assert!(
        matches!(&ended.outcome, Err(AgentError::Died(why)) if why.contains("exit status: 3")),
        "{ended:?}"
    );
    assert_eq!(ended.unknown.len(), 0, "what it used is told by who charges the failure");
}

#[test]
fn garbage_wrong_ids_and_what_nobody_knows_are_passed_over() {
    let update = |update: Json| json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1", "update": update } });
    let lines = json!([
        "", "   ", "not json", "[1, 2]", "17", "null", "{\"jsonrpc\":\"2.0\"", "{}", "\u{1b}[31mred\u{1b}[0m",
        { "jsonrpc": "2.0", "id": 7777, "result": {} },
        { "jsonrpc": "2.0", "id": "nobody", "error": { "code": 1, "message": "x" } },
        { "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "x" } },
        { "jsonrpc": "1.0", "id": 3, "method": "session/update" },
        { "jsonrpc": "2.0", "method": "_auth/status_update", "params": { "x": 1 } },
        { "jsonrpc": "2.0", "method": "session/update", "params": "nothing" },
        { "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "other", "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "not ours" } } } },
        update(json!({ "sessionUpdate": "from the future", "x": [1] })),
        update(json!({ "sessionUpdate": 7 })),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "data": "x" } })),
        update(json!({ "sessionUpdate": "tool_call", "title": "without an id" })),
        update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "kind": 7, "locations": "x", "rawInput": [] })),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "ours" },
            "more": { "deep": true } })),
    ]);
    let scene = scene();
    is_done(&scene.play(&json!({ "acts": [calls(json!([["trick lines", lines]])), submit()] })));
    assert_eq!(scene.clerk.snapshot().text, "ours");
}

#[test]
fn garbage_has_a_limit() {
    let many = json!({ "line": "garbage", "count": MAX_GARBAGE + 1 });
    is_bad(&played(json!([{ "calls": [["trick many", many]], "end": "is deaf" }])), "no JSON");
}

#[test]
fn unknown_requests_are_answered_by_ids_of_both_kinds() {
    let other = json!([{ "jsonrpc": "2.0", "id": "w", "method": "fs/read_text_file",
        "params": { "sessionId": "other", "path": "src/old.rs" } }]);
    let ask = json!(["trick ask", { "method": "craft/drain", "params": {} }]);
    let scene = scene();
    is_done(&scene.play(&json!({ "acts": [calls(json!([["trick lines", other], ask, ask])), submit()] })));
    let heard = scene.read_heard();
    let code =
        |id: Json| heard.iter().find(|line| line["id"] == id).map(|line| line["error"]["code"].clone());
    assert_eq!(code(json!(0)), Some(json!(-32601)));
    assert_eq!(code(json!("q2")), Some(json!(-32601)));
    assert_eq!(code(json!("w")), Some(json!(-32002)));
    assert!(scene.clerk.snapshot().made.iter().all(|call| &*call.tool == "submit"));
}

#[test]
fn a_storm_of_requests_is_ended() {
    let line = json!({ "jsonrpc": "2.0", "id": "NUMBER", "method": "fs/read_text_file",
        "params": { "sessionId": "s1", "path": "src/none" } });
    let many = json!({ "line": line, "count": MAX_REQUESTS + 1 });
    is_bad(&played(json!([{ "calls": [["trick many", many]], "end": "is deaf" }])), "asked more than");
}

#[test]
fn a_storm_of_permissions_is_ended_and_denied_all_the_way() {
    let line = json!({ "jsonrpc": "2.0", "id": "NUMBER", "method": "session/request_permission", "params": {
        "sessionId": "s1", "options": [], "toolCall": { "toolCallId": "NUMBER", "kind": "execute" } } });
    let many = json!({ "line": line, "count": MAX_CALLS_SEEN + 1 });
    let scene = scene();
    let ended = scene.play(&json!({ "acts": [{ "calls": [["trick many", many]], "end": "is deaf" }] }));
    is_bad(&ended, "calls in one turn");
    assert_eq!(scene.clerk.snapshot().made.len(), 9, "as many as it has");
}

#[test]
fn who_asks_for_more_than_anybody_reads_is_ended() {
    let scene = Scene::new(allowance(1000));
    let size = 1_900_000;
    std::fs::write(scene.folder.path().join("src/big"), "x".repeat(size)).unwrap();
    let line = json!({ "jsonrpc": "2.0", "id": "NUMBER", "method": "fs/read_text_file",
        "params": { "sessionId": "s1", "path": "src/big" } });
    let many = json!({ "line": line, "count": MAX_TOLD_BYTES / size + 2 });
    let ended = scene.play(&json!({ "acts": [{ "calls": [["trick many", many]], "end": "is deaf" }] }));
    is_bad(&ended, "asked for more than");
}

#[test]
fn a_line_has_a_limit() {
    let long = "x".repeat(MAX_LINE_BYTES + 1);
    is_bad(&played(json!([{ "calls": [["trick half", long]], "end": "is deaf" }])), "a line of more than");
}

#[test]
fn who_does_not_listen_any_more_is_ended() {
    let permit = json!([{ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
        "sessionId": "s1", "options": [], "toolCall": { "toolCallId": "x", "kind": "read" } } }]);
    let ended = played(json!([{ "calls": [["trick lines", permit], ["trick shut", null]] }]));
    assert!(matches!(&ended.outcome, Err(AgentError::Died(_) | AgentError::TimedOut(_))), "{ended:?}");
}

#[test]
fn who_ignores_a_cancel_is_ended() {
    let scene = scene();
    let write = json!(["write", { "path": "src/one", "content": "x" }]);
    let script = json!({ "acts": [{ "calls": [write], "end": "is deaf" }] });
    let backend = acp(player(scene.props.path(), &script));
    let mut order = scene.order();
    order.limits.silence = Duration::from_secs(60);
    let ended = std::thread::scope(|scope| {
        let talking = scope.spawn(|| (scene.play_with(&backend, order), Instant::now()));
        scene.clerk.wait_until(|heard| heard.made.len() == 1);
        scene.clerk.cancel();
        let cancelled = Instant::now();
        let (ended, at) = talking.join().unwrap();
        assert!(at.duration_since(cancelled) < Duration::from_secs(10));
        ended
    });
    assert_eq!(ended.outcome, Err(AgentError::Cancelled));
}

#[test]
fn a_turn_has_an_end_however_busy_it_is() {
    let scene = scene();
    let script = json!({ "acts": [{ "calls": [["trick babble", null]] }] });
    let backend = acp(player(scene.props.path(), &script));
    let limits = SessionLimits { whole: Duration::from_secs(1), ..scene.order().limits };
    let ended = scene.play_with(&backend, SessionOrder { limits, ..scene.order() });
    assert!(
        matches!(&ended.outcome, Err(AgentError::TimedOut(why)) if why.contains("more than 1s")),
        "{ended:?}"
    );
}

#[test]
fn who_opens_no_session_could_not_run() {
    let scene = scene();
    let login = json!({ "code": -32000, "message": "Authentication required" });
    let ended = scene.play(&json!({ "refuses": login }));
    assert!(
        matches!(&ended.outcome, Err(AgentError::CouldNotRun(why)) if why.contains("log in")),
        "{ended:?}"
    );
    let table = [
        (agent("sh", &["-c", "echo no model is set >&2; exit 1"]), "no model is set"),
        (agent("/nowhere/agent", &[]), "cannot be started"),
        (agent("cat", &[]), ""),
    ];
    for (agent, part) in table {
        let ended = scene.play_with(&acp(agent.clone()), scene.order());
        let why = ended.outcome.unwrap_err();
        assert!(matches!(&why, AgentError::CouldNotRun(why) if why.contains(part)), "{agent:?}: {why:?}");
    }
    let none = SessionOrder { launcher: None, ..scene.order() };
    let ended = scene.play_with(&acp(agent("cat", &[])), none);
    assert!(matches!(&ended.outcome, Err(AgentError::CouldNotRun(_))), "{ended:?}");
}

#[test]
fn an_agent_that_does_not_start_is_not_waited_for() {
    let scene = scene();
    let backend = hurried(agent("sleep", &["60"]), 200);
    let began = Instant::now();
    let ended = scene.play_with(&backend, scene.order());
    let why = format!("no session within {MAX_START:?}");
    assert!(matches!(&ended.outcome, Err(AgentError::TimedOut(told)) if told.contains(&why)), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn who_goes_on_after_its_answer_is_cancelled() {
    let scene = scene();
    let acts = json!([{ "tokens": 5, "calls": [["submit", { "summary": "done" }]], "end": "hangs" }]);
    let script = json!({ "acts": acts });
    let quick = hurried(player(scene.props.path(), &script), 20);
    let order = scene.order();
    let limits = SessionLimits { silence: MAX_FAREWELL * 100, whole: MAX_FAREWELL * 100, ..order.limits };
    is_done(&scene.play_with(&quick, SessionOrder { limits, ..order }));
    assert!(scene.read_heard().iter().any(|line| line["method"] == "session/cancel"));
}

#[test]
fn who_is_denied_again_and_again_is_given_up() {
    let scene = scene();
    let outside = json!({ "calls": [["write", { "path": "other", "content": "x" }]], "tokens": 1 });
    let ended = scene.play(&json!({ "sulks": true, "acts": vec![outside; 20] }));
    is_bad(&ended, "denied more than");
    assert_eq!(scene.clerk.snapshot().total(TURNS), u64::from(MAX_REBUKES) + 1);
}

#[test]
fn a_session_has_so_many_prompts() {
    let scene = scene();
    let script = json!({ "acts": [{ "end": { "says": "trust me" } }, submit()] });
    let backend = acp(player(scene.props.path(), &script));
    let order = scene.order();
    let limits = SessionLimits { requests: 1, ..order.limits };
    is_bad(&scene.play_with(&backend, SessionOrder { limits, ..order }), "prompted 1 times");
}

#[test]
fn turns_that_end_badly_are_told_apart() {
    for (reason, part) in
        [("max_tokens", "tokens"), ("refusal", "refuses"), ("max_turn_requests", "as often"), ("odd", "odd")]
    {
        is_bad(&played(json!([{ "stop": reason, "tokens": 1 }])), part);
    }
    let ended = played(json!([{ "stop": "cancelled", "tokens": 1 }]));
    assert!(
        matches!(&ended.outcome, Err(AgentError::Died(why)) if why.contains("nobody wanted")),
        "{ended:?}"
    );
}

#[test]
fn a_mode_is_set_or_the_settings_are_wrong() {
    let scene = scene();
    let with_mode = |mode: &str| {
        let mut agent = player(scene.props.path(), &json!({ "acts": [submit()] }));
        agent.habits.mode = Some(mode.to_owned());
        scene.play_with(&acp(agent), scene.order())
    };
    is_done(&with_mode("careful"));
    let set = scene.read_heard().into_iter().find(|line| line["method"] == "session/set_mode").unwrap();
    assert_eq!(set["params"], json!({ "sessionId": "s1", "modeId": "careful" }));
    is_done(&with_mode("plain"));
    let ended = with_mode("yolo");
    let Err(AgentError::CouldNotRun(why)) = &ended.outcome else { panic!("{ended:?}") };
    assert_eq!(why, "the agent has no mode `yolo`; it has plain, careful");
}

#[test]
fn a_probe_finds_a_program_or_says_what_to_do() {
    assert_eq!(acp(agent("sh", &[])).probe().usable, Ok(()));
    let away = acp(agent("no-such-agent", &[])).probe();
    assert!(away.usable.unwrap_err().0.contains("install it"));
    assert!(acp(agent("/etc/passwd", &[])).probe().usable.is_err(), "no program");
    let answer = scene().play(&json!({ "acts": [submit()] }));
    assert_eq!(answer.outcome, Ok(AgentAnswer::Done(json!({ "summary": "done" }))));
}
