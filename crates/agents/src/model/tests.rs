//! Tests of the model backend without a network: what it sends and how it reads streams.

use super::dialect::Reader;
use super::*;
use crate::schema::Schema;
use serde_json::json;

/// Reads a stream of a dialect from a text.
pub(super) fn replay(dialect: Dialect, stream: &str) -> Result<Reply, Miss> {
    let mut reader: Box<dyn Reader> = dialect.reader();
    let (mut sse, mut events) = (Sse::default(), Vec::new());
    sse.push(stream.as_bytes(), &mut events).map_err(|error| Miss::Bad(error.to_string()))?;
    for event in &events {
        if reader.event(event, &mut |_| {})? {
            break;
        }
    }
    reader.reply()
}

fn talk() -> ChatHistory {
    let call = |id: &str, args: &str| ModelCall { id: id.into(), name: "read".into(), args: args.into() };
    let result =
        |id: &str| CallOutcome { id: id.into(), text: format!("result {id}"), wrong: id == "2", kept: false };
    ChatHistory {
        entries: vec![
            ChatEntry::Ours(vec![
                PromptPart::new(PartKind::Task, "do it"),
                PromptPart::new(PartKind::Feedback, "better"),
            ]),
            ChatEntry::Theirs {
                text: "well".into(),
                calls: vec![call("1", "{\"path\":\"a\"}"), call("2", "{broken")],
            },
            ChatEntry::Results(vec![result("1"), result("2")]),
            ChatEntry::Ours(vec![PromptPart::new(PartKind::Feedback, "go on")]),
        ],
    }
}

fn sent(dialect: Dialect, answer_only: bool) -> Json {
    let answer = Schema::new(json!({ "$schema": "x", "type": "object", "required": ["a"] })).unwrap();
    let names = ["read", "submit"].into_iter().filter(|name| !answer_only || *name == "submit");
    let tools = crate::toolset::tools(&names.map(Name::from).collect(), &answer);
    let ask = Ask {
        model: "m",
        system: "rules",
        talk: &talk(),
        tools: &tools,
        answer_only: answer_only.then_some(&answer),
        max_output: Some(100),
    };
    dialect.body(&ask)
}

#[test]
fn chat_sends_messages() {
    let body = sent(Dialect::Chat, false);
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    assert_eq!(body["messages"][1]["content"], "do it\n\nbetter");
    assert_eq!(body["messages"][2]["tool_calls"][1]["function"]["arguments"], "{broken");
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["tools"][1]["function"]["parameters"]["required"], json!(["a"]));
    assert_eq!(body["tools"][1]["function"]["parameters"].get("$schema"), None);
    let only = sent(Dialect::Chat, true);
    assert_eq!(only.get("tools"), None);
    assert_eq!(only["response_format"]["json_schema"]["schema"]["required"], json!(["a"]));
}

#[test]
fn responses_sends_items() {
    let body = sent(Dialect::Responses, false);
    let kinds: Vec<&str> =
        body["input"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    let wanted = ["message", "message", "function_call", "function_call"];
    assert_eq!(kinds[..4], wanted);
    assert_eq!(kinds[4..], ["function_call_output", "function_call_output", "message"]);
    assert_eq!((&body["store"], &body["instructions"]), (&json!(false), &json!("rules")));
    assert_eq!(sent(Dialect::Responses, true)["text"]["format"]["type"], "json_schema");
}

#[test]
fn anthropic_sends_blocks_with_marks() {
    let body = sent(Dialect::Anthropic, false);
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "results and words of one side are one message");
    assert_eq!(messages[1]["content"][2]["input"], json!({}), "what is no JSON cannot be sent back");
    assert_eq!(messages[2]["content"][1]["is_error"], true);
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(messages[2]["content"][2]["cache_control"], mark);
    assert_eq!((&body["system"][0]["cache_control"], &body["tools"][1]["cache_control"]), (&mark, &mark));
    assert_eq!(body.to_string().matches("cache_control").count(), 3, "four is the most");
    assert_eq!(body.get("tool_choice"), None);
    assert_eq!(sent(Dialect::Anthropic, true)["tool_choice"], json!({ "type": "tool", "name": "submit" }));
}
