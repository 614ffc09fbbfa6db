//! One call that is seen several times counts once, and nothing is covered by what it does not belong to.

use ftl_agents::contract::{AgentAnswer, TURNS};
use ftl_agents::error::AgentError;
use ftl_core::tool_policy::{ToolAllowance, Write};
use ftl_core::value::Name;
use ftl_testkit::speakers::allowance;
use serde_json::{Value as Json, json};

use crate::cast::{Scene, acp, calls, is_done, player, submit};

fn update(id: &str, more: Json) -> Json {
    let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id });
    update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!([{ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1", "update": update } }])
}

fn permit(id: &str, more: Json) -> Json {
    let mut call = json!({ "toolCallId": id });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!(["trick permit", call])
}

fn write(path: &str) -> Json {
    json!(["trick ask", { "method": "fs/write_text_file", "params": { "path": path, "content": "x" } }])
}

fn read(path: &str) -> Json {
    json!(["trick ask", { "method": "fs/read_text_file", "params": { "path": path } }])
}

fn at(paths: &[&str]) -> Json {
    json!({ "kind": "edit", "locations": paths.iter().map(|path| json!({ "path": path })).collect::<Vec<_>>() })
}

/// What was made, in order, and how many calls were denied.
fn made(acts: Json) -> (Vec<String>, Vec<String>, Scene) {
    let scene = Scene::new(allowance(9));
    is_done(&scene.play(&json!({ "acts": [calls(acts), submit()] })));
    let made = scene.made().into_iter().filter(|tool| tool != "submit").collect();
    let denied = scene.clerk.snapshot().denied.into_iter().map(|(_, why)| why).collect();
    (made, denied, scene)
}

#[test]
fn what_was_permitted_covers_its_effects_once() {
    let (made, denied, _scene) = made(json!([
        permit("1", at(&["src/a"])),
        write("src/a"),
        write("src/./a"),
        read("src/old.rs"),
        write("other"),
    ]));
    assert_eq!(made, ["write", "edit", "read"], "the second write and the read count by themselves");
    assert_eq!(denied.len(), 1);
}

#[test]
fn an_effect_before_its_call_is_told_counts_once() {
    let told = |more: Json| json!(["trick lines", update("1", more)]);
    let (made, denied, _scene) = made(json!([
        told(json!({ "kind": "other", "title": "writes" })),
        write("src/a"),
        told(json!({ "kind": "edit", "locations": [{ "path": "src/a" }], "status": "completed" })),
    ]));
    assert_eq!((made, denied.len()), (vec!["write".to_owned()], 0));
}

#[test]
fn what_is_only_told_is_counted_when_it_is_over() {
    let told = |id: &str, more: Json| json!(["trick lines", update(id, more)]);
    let (made, denied, _scene) = made(json!([
        told(
            "1",
            json!({ "kind": "read", "locations": [{ "path": "src/old.rs" }], "status": "in_progress" })
        ),
        told("1", json!({ "status": "completed" })),
        told("1", json!({ "sessionUpdate": "tool_call", "kind": "search", "status": "completed" })),
        told("2", json!({ "kind": "execute", "title": "ls" })),
        told("3", json!({ "kind": "think", "status": "completed" })),
        told("4", json!({ "kind": "other", "name": "ToolSearch", "status": "completed" })),
        told("5", json!({ "title": "mcp__ftl__recall", "status": "completed" })),
    ]));
    assert_eq!(made, ["read", "search", "bash"], "what is open at the end has been made");
    assert_eq!(denied.len(), 1, "a tool that nobody knows: {denied:?}");
}

#[test]
fn what_was_done_without_asking_and_is_denied_ends_the_turn_and_it_goes_on() {
    let scene = Scene::new(allowance(9));
    let path = scene.folder.path().join("other");
    let told = update("1", json!({ "kind": "edit", "locations": [{ "path": path }], "status": "completed" }));
    let acts = json!([
        { "calls": [["trick disk", { "path": path }], ["trick lines", told]], "tokens": 1, "end": "hangs" },
        submit(),
    ]);
    is_done(&scene.play(&json!({ "acts": acts })));
    let prompts: Vec<Json> =
        scene.read_heard().into_iter().filter(|line| line["method"] == "session/prompt").collect();
    let told = prompts[1]["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(told.starts_with("Denied: other may not be written here"), "{told}");
    assert_eq!((prompts.len(), scene.clerk.snapshot().denied.len()), (2, 1));
}

#[test]
fn a_failed_call_that_was_not_asked_is_no_effect() {
    let told = update("1", json!({ "kind": "edit", "locations": [{ "path": "other" }], "status": "failed" }));
    let (made, denied, _scene) = made(json!([["trick lines", told]]));
    assert_eq!((made.len(), denied.len()), (0, 1));
}

#[test]
fn who_ends_its_turn_over_a_denial_is_told_why_and_goes_on() {
    let scene = Scene::new(allowance(9));
    let outside = calls(json!([["write", { "path": "other", "content": "x" }]]));
    is_done(&scene.play(&json!({ "sulks": true, "acts": [outside, submit()] })));
    assert_eq!((scene.clerk.snapshot().total(TURNS), scene.text("other")), (2, None));
}

#[test]
fn permissions_are_ruled_by_what_they_are_about() {
    let (made, denied, scene) = made(json!([
        permit("1", json!({ "title": "ftl: submit", "kind": "other" })),
        permit("2", json!({ "title": "Skynet", "kind": "other" })),
        permit("3", at(&["src/a", "other"])),
        permit("4", json!({ "kind": "edit", "title": "no path" })),
        permit("5", json!({ "kind": "delete", "locations": [{ "path": "src/old.rs" }] })),
        permit("6", json!({ "kind": "fetch" })),
        permit(
            "7",
            json!({ "kind": "other", "title": "write · src/b", "rawInput": { "path": "src/b", "content": "" } })
        ),
    ]));
    assert_eq!(made, ["edit", "write"]);
    assert!(
        denied[0].contains("no tool `Skynet`") && denied[1].starts_with("other may not be written"),
        "{denied:?}"
    );
    assert!(
        denied[2].starts_with("a file that the agent does not name") && denied[3].contains("`fetch`"),
        "{denied:?}"
    );
    let answers: Vec<Json> = scene
        .read_heard()
        .into_iter()
        .filter_map(|line| line["result"]["outcome"].get("optionId").cloned())
        .collect();
    let yes = answers.iter().filter(|answer| *answer == "my allow_once").count();
    assert_eq!((yes, answers.len()), (3, 7));
}

/// The permission that Qwen Code asks for: its title is what the tool is given, its name stands beside it.
fn asks_for_submit() -> Json {
    let title = json!({ "summary": "done" }).to_string();
    permit("1", json!({ "title": title, "kind": "other", "_meta": { "toolName": "mcp__ftl__submit" } }))
}

#[test]
fn a_tool_of_ours_that_is_named_beside_the_call_may_be_called() {
    let scene = Scene::new(allowance(9));
    is_done(&scene.play(&json!({ "acts": [calls(json!([asks_for_submit()])), submit()] })));
    assert!(scene.clerk.snapshot().denied.is_empty());
    assert_eq!(scene.made(), ["submit"], "it is ruled on when it arrives, once");
}

#[test]
fn what_was_allowed_as_ours_and_does_not_arrive_is_forbidden() {
    let over = |status: &str| json!(["trick lines", update("1", json!({ "status": status }))]);
    let said = json!({ "tokens": 1, "end": { "says": "{\"summary\": \"done\"}" } });
    for more in [
        json!([asks_for_submit(), over("completed")]),
        json!([asks_for_submit(), over("failed")]),
        json!([asks_for_submit()]),
    ] {
        let scene = Scene::new(allowance(9));
        let ended = scene.play(&json!({ "acts": [calls(more.clone()), said] }));
        let is_named =
            |why: &str| why.contains("allowed to call `submit` of `ftl`") && why.contains("never arrived");
        assert!(
            matches!(&ended.outcome, Err(AgentError::Forbidden(why)) if is_named(why)),
            "{more} {ended:?}"
        );
    }
}

#[test]
fn a_tool_of_ours_that_is_not_offered_is_denied() {
    let tools = [Name::from("submit")].into();
    let scene = Scene::new(ToolAllowance { tools, ..allowance(9) });
    let recall = permit("1", json!({ "title": "x", "_meta": { "toolName": "mcp__ftl__recall" } }));
    is_done(&scene.play(&json!({ "acts": [calls(json!([recall])), submit()] })));
    let answers = scene.read_heard();
    assert!(
        answers.iter().any(|line| line["result"]["outcome"]["optionId"] == "my reject_once"),
        "{answers:?}"
    );
}

#[test]
fn a_call_that_was_denied_is_named_when_there_is_no_answer() {
    let scene = Scene::new(allowance(9));
    let mut act = calls(json!([permit("1", json!({ "title": "Skynet", "kind": "other" }))]));
    act["end"] = json!({ "says": "I may not." });
    let ended = scene.play(&json!({ "acts": [act, act, act] }));
    let Err(AgentError::Bad(why)) = &ended.outcome else { panic!("{ended:?}") };
    assert!(
        why.contains("there is no JSON in it") && why.contains("the call of `Skynet` was denied: "),
        "{why}"
    );
    let told = scene
        .read_heard()
        .iter()
        .filter(|line| line.to_string().contains("the call of `Skynet` was denied"))
        .count();
    assert_eq!(told, 2, "the agent is told too");
}

#[test]
fn an_answer_is_checked_inside_the_call() {
    let scene = Scene::new(allowance(9));
    let wrong = json!(["submit", { "summary": 7 }]);
    is_done(&scene.play(&json!({ "acts": [calls(json!([wrong, wrong])), submit()] })));
    let heard = scene.clerk.snapshot();
    assert_eq!((heard.total(TURNS), scene.made().len()), (1, 3), "no turn is spent on it");

    let scene = Scene::new(allowance(9));
    let ended = scene.play(&json!({ "acts": [calls(json!([wrong, wrong, wrong])), submit()] }));
    let is_last = |why: &str| why.starts_with("3 answers in a row do not fit:") && why.contains("summary");
    assert!(matches!(&ended.outcome, Err(AgentError::Bad(why)) if is_last(why)), "{ended:?}");

    // Answers that are refused in a call and those that are sent back after a turn have one bound.
    let scene = Scene::new(allowance(9));
    let mut act = calls(json!([wrong]));
    act["end"] = json!({ "says": "So be it." });
    let ended = scene.play(&json!({ "acts": [act, act, submit()] }));
    assert!(matches!(&ended.outcome, Err(AgentError::Bad(why)) if why.starts_with("3 answers")), "{ended:?}");
}

#[test]
fn a_private_home_is_there_before_the_agent() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new(allowance(9));
    let mut agent = player(scene.props.path(), &json!({ "acts": [submit()] }));
    let home = scene.props.path().join("homes/home-player");
    agent.home = Some(home.clone());
    agent.env.push(("HOME".into(), home.clone().into()));
    // It dies where it cannot enter its home, as programs of Node do.
    let starts = format!("cd \"$HOME\" && exec {:?} {:?}", agent.program, agent.args[0]);
    (agent.program, agent.args) = ("sh".into(), vec!["-c".into(), starts.into()]);
    is_done(&scene.play_with(&acp(agent), scene.order()));
    assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_look_without_a_path_covers_nothing_outside() {
    let (made, denied, scene) = made(json!([
        permit("1", json!({ "kind": "read" })),
        read("/etc/passwd"),
        read("../x"),
        read("src/old.rs"),
        read("src/none"),
    ]));
    assert_eq!(made, ["read", "read"], "the permission covers one file of the worktree");
    assert_eq!(denied.len(), 2);
    let codes: Vec<Json> =
        scene.read_heard().iter().filter_map(|line| line["error"].get("code").cloned()).collect();
    assert_eq!(codes, [json!(-32602), json!(-32602), json!(-32002)]);
}

#[test]
fn lines_of_a_file_are_served_and_what_is_no_text_is_told() {
    let scene = Scene::new(allowance(9));
    std::fs::write(scene.folder.path().join("src/many"), "1\n2\n3\n").unwrap();
    std::fs::write(scene.folder.path().join("src/raw"), [0xff, 0xfe]).unwrap();
    let ask = |params: Json| json!(["trick ask", { "method": "fs/read_text_file", "params": params }]);
    let acts = json!([
        ask(json!({ "path": "src/many", "line": 2, "limit": 1 })), ask(json!({ "path": "src/raw" })),
        ask(json!({ "path": 7 })), write("src"),
        ["trick ask", { "method": "fs/write_text_file", "params": { "path": "src/big", "content": "x".repeat(2 * 1024 * 1024 + 1) } }],
    ]);
    is_done(&scene.play(&json!({ "acts": [calls(acts), submit()] })));
    let heard = scene.read_heard();
    assert!(heard.iter().any(|line| line["result"]["content"] == "2\n"));
    assert_eq!(heard.iter().filter(|line| line.get("error").is_some()).count(), 4);
    assert_eq!(scene.text("src/big"), None);
}

#[test]
fn a_question_of_the_desk_about_a_command_ends_the_turn() {
    let asking = ToolAllowance { ask: [Name::from("bash")].into(), write: Write::Anything, ..allowance(9) };
    let scene = Scene::new(asking);
    let acts = [calls(json!([permit("1", json!({ "kind": "execute", "title": "make" }))])), submit()];
    let ended = scene.play(&json!({ "acts": acts }));
    assert_eq!(ended.outcome, Ok(AgentAnswer::Asked("May it call bash?".into())));
    assert!(scene.read_heard().iter().any(|line| line["method"] == "session/cancel"));
}
