//! `ftl mcp`, spoken to in raw lines of JSON, as any client would.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ftl_agents::contract::McpEndpoint;
use ftl_agents::mcp_endpoint::{McpBridge, Offer, ToolAnswer, VARIABLE};
use ftl_agents::schema::Schema;
use ftl_agents::toolset::{SPEAKING, tools};
use ftl_core::value::Name;
use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir, PATIENCE};

/// What a client says first.
fn opening() -> String {
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    format!("{hello}\n{ready}\n")
}

fn call(id: u64, tool: &str, args: &Json) -> String {
    let params = json!({ "name": tool, "arguments": args });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
}

fn answer(ended: &CommandOutcome, id: u64) -> Json {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    lines.into_iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{ended:#?}"))["result"].clone()
}

#[test]
fn anybody_may_look_at_the_lessons_and_at_nothing_else() {
    let dir = Dir::new();
    let lesson = json!({ "name": "proxy", "trigger": "ECONNREFUSED at the registry", "fix": "set the proxy", "cost": 900 });
    dir.fed(&["memory", "add-failure", "--json", "-"], &lesson.to_string()).code(0);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let said = format!(
        "{}{list}\n{}{}{}",
        opening(),
        call(2, "recall", &json!({ "about": "ECONNREFUSED" })),
        call(3, "submit", &json!({})),
        call(4, "recall", &json!({}))
    );
    let ended = dir.fed(&["mcp"], &said).code(0);
    assert_eq!(answer(&ended, 0)["serverInfo"]["name"], "ftl");
    let listed = answer(&ended, 1)["tools"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &"recall".into()));
    assert_eq!(listed[0]["inputSchema"]["required"], json!(["about"]));
    let told = answer(&ended, 2)["content"][0]["text"].clone();
    assert!(told.as_str().unwrap().contains("ECONNREFUSED at the registry → set the proxy"), "{told}");
    for id in [3, 4] {
        assert_eq!(answer(&ended, id)["isError"], true, "{ended:#?}");
    }
}

#[test]
fn where_nothing_is_remembered_nothing_is_made() {
    let dir = Dir::new();
    let said = format!("{}{}", opening(), call(2, "recall", &json!({ "about": "x" })));
    let ended = dir.fed(&["mcp"], &said).code(0);
    assert_eq!(answer(&ended, 2)["content"][0]["text"], "nothing is remembered here yet");
    assert!(!dir.path(".ftl/store").exists());
}

#[test]
fn an_agent_reaches_its_session_and_only_what_the_window_offers() {
    let dir = Dir::new();
    let folder = tempfile::tempdir().unwrap();
    let mcp_endpoint =
        McpEndpoint { folder: folder.path().to_owned(), program: PathBuf::new(), args: Vec::new() };
    let names = SPEAKING.map(Name::from).into_iter().collect();
    let shape = Schema::new(json!({ "type": "object", "required": ["summary"] })).unwrap();
    let offers = tools(&names, &shape).iter().map(Offer::from).collect();
    let window = McpBridge::open(&mcp_endpoint, "w", offers).unwrap();
    let (variable, path) = window.server().env[0].clone();
    assert_eq!(variable, VARIABLE);
    let mut command = dir.command(&["mcp"]);
    command.env(variable, path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let said = format!("{}{list}\n{}", opening(), call(2, "submit", &json!({ "summary": "done" })));
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, said.as_bytes()).unwrap();
    let knock = window.next(PATIENCE).unwrap();
    assert_eq!((knock.tool.as_str(), &knock.args), ("submit", &json!({ "summary": "done" })));
    knock.answer(ToolAnswer::Done("taken".into()));
    // The answer must be out before its reader's end tells the server that nobody asks any more.
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut all = Vec::new();
    while !all.iter().any(|one: &Json| one["id"] == 2) {
        let mut line = String::new();
        assert_ne!(std::io::BufRead::read_line(&mut lines, &mut line).unwrap(), 0, "{all:?}");
        all.push(serde_json::from_str(&line).unwrap());
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let of = |id: u64| all.iter().find(|one| one["id"] == id).unwrap()["result"].clone();
    assert_eq!(of(2)["content"][0]["text"], "taken");
    let names: Vec<String> = of(1)["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["recall", "ask", "submit"], "no answer of this shape has signals");
    assert!(window.next(Duration::ZERO).is_none());
}

#[test]
fn a_session_that_is_over_is_an_error() {
    let dir = Dir::new();
    let mut command = dir.command(&["mcp"]);
    command.env(VARIABLE, dir.path("nowhere"));
    let ended = crate::support::ended(command).code(1);
    ended.says(&["does not answer", "hint: "]);
}
