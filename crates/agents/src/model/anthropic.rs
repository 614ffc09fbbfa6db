//! Anthropic messages, with marks where a prompt may be cached.
//!
//! Three of the four marks that a request may have are used: the tools, the system text, and the end of
//! the conversation, so that the next request finds all of this one in the cache.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::dialect::{
    Ask, Bit, Miss, Reader, Reply, Stop, add, error_of, json_of, miss_of, plain, room_for_calls,
};
use super::history::{ChatEntry, ModelCall};
use super::price::Tokens;
use super::sse::ServerEvent;
use crate::toolset::SUBMIT;

/// How long an answer may be where the settings do not say; the service insists on a number.
const MAX_OUTPUT_TOKENS: u64 = 8192;

pub(super) fn body(ask: &Ask<'_>) -> Json {
    let mut messages: Vec<Json> = Vec::new();
    for entry in &ask.talk.entries {
        let (role, content) = match entry {
            ChatEntry::Ours(parts) => {
                ("user", parts.iter().map(|part| json!({ "type": "text", "text": part.text })).collect())
            }
            ChatEntry::Theirs { text, calls } => ("assistant", theirs(text, calls)),
            ChatEntry::Results(results) => {
                let block = |result: &super::history::CallOutcome| {
                    json!({ "type": "tool_result", "tool_use_id": result.id, "content": result.text,
                        "is_error": result.wrong })
                };
                ("user", results.iter().map(block).collect::<Vec<Json>>())
            }
        };
        push(&mut messages, role, content);
    }
    mark(
        messages
            .last_mut()
            .and_then(|last| last["content"].as_array_mut())
            .and_then(|blocks| blocks.last_mut()),
    );
    let mut system = json!({ "type": "text", "text": ask.system });
    mark(Some(&mut system));
    let mut body = json!({
        "model": ask.model,
        "max_tokens": ask.max_output.unwrap_or(MAX_OUTPUT_TOKENS),
        "system": [system],
        "messages": messages,
        "stream": true,
    });
    let mut tools: Vec<Json> = ask
        .tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.about, "input_schema": plain(&tool.takes) }))
        .collect();
    mark(tools.last_mut());
    if ask.answer_only.is_some() && ask.tools.iter().any(|tool| tool.name == SUBMIT) {
        body["tool_choice"] = json!({ "type": "tool", "name": SUBMIT });
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    body
}

/// Adds a message; two of one side in a row become one, as the service wants it.
fn push(messages: &mut Vec<Json>, role: &str, content: Vec<Json>) {
    let last = messages.last_mut().filter(|last| last["role"] == role);
    match last.and_then(|last| last["content"].as_array_mut()) {
        Some(blocks) => blocks.extend(content),
        None => messages.push(json!({ "role": role, "content": content })),
    }
}

fn mark(block: Option<&mut Json>) {
    if let Some(block) = block {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
}

fn theirs(text: &str, calls: &[ModelCall]) -> Vec<Json> {
    let mut blocks = Vec::new();
    // A text without a letter in it is refused by the service.
    if !text.trim().is_empty() || calls.is_empty() {
        blocks.push(json!({ "type": "text", "text": if text.trim().is_empty() { "…" } else { text } }));
    }
    blocks.extend(
        calls.iter().map(
            |call| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.record() }),
        ),
    );
    blocks
}

#[derive(Debug, Default)]
pub(super) struct Anthropic {
    text: String,
    calls: BTreeMap<u64, ModelCall>,
    stop: Option<Stop>,
    is_over: bool,
    sent: Option<Tokens>,
    output: Option<u64>,
}

impl Reader for Anthropic {
    fn event(&mut self, event: &ServerEvent, bits: &mut dyn FnMut(Bit<'_>)) -> Result<bool, Miss> {
        let data = json_of(event)?;
        let text = |path: &str| data.pointer(path).and_then(Json::as_str).unwrap_or_default();
        let index = data.get("index").and_then(Json::as_u64).unwrap_or(0);
        match text("/type") {
            "message_start" => self.sent = data.pointer("/message/usage").and_then(sent_tokens),
            "content_block_start" if text("/content_block/type") == "tool_use" => {
                room_for_calls(self.calls.len() + 1)?;
                let (id, name) =
                    (text("/content_block/id").to_owned(), text("/content_block/name").to_owned());
                self.calls.insert(index, ModelCall { id, name, args: String::new() });
            }
            "content_block_start" => self.say(text("/content_block/text"), bits)?,
            "content_block_delta" => match text("/delta/type") {
                "text_delta" => self.say(text("/delta/text"), bits)?,
                "thinking_delta" => bits(Bit::Thought(text("/delta/thinking"))),
                "input_json_delta" => {
                    if let Some(call) = self.calls.get_mut(&index) {
                        add(&mut call.args, text("/delta/partial_json"))?;
                    }
                }
                _ => {}
            },
            "message_delta" => {
                self.stop = Some(match text("/delta/stop_reason") {
                    "max_tokens" | "model_context_window_exceeded" => Stop::Length,
                    "refusal" => Stop::Refused,
                    _ => Stop::Done,
                });
                self.output = data.pointer("/usage/output_tokens").and_then(Json::as_u64);
            }
            "message_stop" => {
                self.is_over = true;
                return Ok(true);
            }
            "error" => {
                let (kind, message) = error_of(&data).unwrap_or_default();
                return Err(miss_of(None, &kind, &message, None));
            }
            _ => {}
        }
        Ok(false)
    }

    fn reply(&mut self) -> Result<Reply, Miss> {
        let stop = self.stop.filter(|_| self.is_over);
        let stop =
            stop.ok_or_else(|| Miss::Broken(String::from("the stream ended before the answer did")))?;
        let tokens = self.sent.zip(self.output).map(|(sent, output)| Tokens { output, ..sent });
        let calls = std::mem::take(&mut self.calls).into_values().collect();
        Ok(Reply { text: std::mem::take(&mut self.text), calls, stop, tokens })
    }
}

impl Anthropic {
    fn say(&mut self, text: &str, bits: &mut dyn FnMut(Bit<'_>)) -> Result<(), Miss> {
        if text.is_empty() {
            return Ok(());
        }
        bits(Bit::Text(text));
        add(&mut self.text, text)
    }
}

fn sent_tokens(usage: &Json) -> Option<Tokens> {
    // A part that is not there was not used; one that is there and no count makes all of it unknown.
    let count = |key: &str| match usage.get(key).filter(|one| !one.is_null()) {
        None => Some(0),
        Some(one) => one.as_u64(),
    };
    Some(Tokens {
        input: usage.get("input_tokens")?.as_u64()?,
        cached: count("cache_read_input_tokens")?,
        stored: count("cache_creation_input_tokens")?,
        output: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::dialect::{Dialect, Miss};
    use super::super::tests::replay;

    #[test]
    fn a_stream_without_its_last_event_is_broken() {
        let start =
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":5}}}"#;
        let delta =
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#;
        let stop = r#"{"type":"message_stop"}"#;
        let stream =
            |events: &[&str]| events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>();
        assert!(matches!(replay(Dialect::Anthropic, &stream(&[start, delta])), Err(Miss::Broken(_))));
        let tokens = replay(Dialect::Anthropic, &stream(&[start, delta, stop])).unwrap().tokens.unwrap();
        assert_eq!((tokens.input, tokens.cached, tokens.output), (3, 5, 7));
        assert_eq!(
            replay(Dialect::Anthropic, &stream(&[delta, stop])).unwrap().tokens,
            None,
            "unknown stays unknown"
        );
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#;
        assert!(matches!(replay(Dialect::Anthropic, &stream(&[start, error])), Err(Miss::Busy { .. })));
    }
}
