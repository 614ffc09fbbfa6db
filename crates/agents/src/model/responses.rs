//! OpenAI responses: items in, items out, nothing kept by the service.

use serde_json::{Value as Json, json};

use super::dialect::{
    Ask, Bit, Miss, Reader, Reply, Stop, add, error_of, json_of, miss_of, plain, room_for_calls,
};
use super::history::{ChatEntry, ModelCall};
use super::price::Tokens;
use super::sse::ServerEvent;

pub(super) fn body(ask: &Ask<'_>) -> Json {
    let mut items = Vec::new();
    for entry in &ask.talk.entries {
        match entry {
            ChatEntry::Ours(parts) => {
                let content: Vec<Json> =
                    parts.iter().map(|part| json!({ "type": "input_text", "text": part.text })).collect();
                items.push(json!({ "type": "message", "role": "user", "content": content }));
            }
            ChatEntry::Theirs { text, calls } => {
                if !text.is_empty() {
                    let content = json!([{ "type": "output_text", "text": text }]);
                    items.push(json!({ "type": "message", "role": "assistant", "content": content }));
                }
                items.extend(calls.iter().map(|call| {
                    let args = if call.args.is_empty() { "{}" } else { &call.args };
                    json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": args })
                }));
            }
            ChatEntry::Results(results) => items.extend(results.iter().map(|result| {
                json!({ "type": "function_call_output", "call_id": result.id, "output": result.text })
            })),
        }
    }
    let mut body = json!({
        "model": ask.model,
        "instructions": ask.system,
        "input": items,
        "stream": true,
        "store": false,
    });
    if let Some(answer) = ask.answer_only {
        let format =
            json!({ "type": "json_schema", "name": "answer", "schema": plain(answer), "strict": false });
        body["text"] = json!({ "format": format });
    } else if !ask.tools.is_empty() {
        let tools = ask.tools.iter().map(|tool| {
            json!({ "type": "function", "name": tool.name, "description": tool.about,
                "parameters": plain(&tool.takes), "strict": false })
        });
        body["tools"] = tools.collect();
    }
    if let Some(most) = ask.max_output {
        body["max_output_tokens"] = most.into();
    }
    body
}

#[derive(Debug, Default)]
pub(super) struct Responses {
    text: String,
    calls: Vec<ModelCall>,
    refused: bool,
    stop: Option<Stop>,
    tokens: Option<Tokens>,
}

impl Reader for Responses {
    fn event(&mut self, event: &ServerEvent, bits: &mut dyn FnMut(Bit<'_>)) -> Result<bool, Miss> {
        if event.data.trim() == "[DONE]" {
            return Ok(true);
        }
        let data = json_of(event)?;
        let text = |key: &str| data.get(key).and_then(Json::as_str).unwrap_or_default();
        match text("type") {
            "response.output_text.delta" => bits(Bit::Text(text("delta"))),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                bits(Bit::Thought(text("delta")));
            }
            "response.refusal.done" => self.refused = true,
            "response.output_item.done" => self.item(data.get("item").unwrap_or(&Json::Null))?,
            "response.completed" => {
                self.end(&data, Stop::Done);
                return Ok(true);
            }
            "response.incomplete" => {
                let filtered =
                    data.pointer("/response/incomplete_details/reason") == Some(&json!("content_filter"));
                self.end(&data, if filtered { Stop::Refused } else { Stop::Length });
                return Ok(true);
            }
            "response.failed" => return Err(failed(data.get("response").unwrap_or(&Json::Null))),
            "error" => return Err(failed(&data)),
            _ => {}
        }
        Ok(false)
    }

    fn reply(&mut self) -> Result<Reply, Miss> {
        let stop =
            self.stop.ok_or_else(|| Miss::Broken(String::from("the stream ended before the answer did")))?;
        let stop = if self.refused { Stop::Refused } else { stop };
        let calls = std::mem::take(&mut self.calls);
        Ok(Reply { text: std::mem::take(&mut self.text), calls, stop, tokens: self.tokens })
    }
}

impl Responses {
    /// An item that is complete.
    fn item(&mut self, item: &Json) -> Result<(), Miss> {
        let text = |key: &str| item.get(key).and_then(Json::as_str).unwrap_or_default();
        match text("type") {
            "message" => {
                for part in item.get("content").and_then(Json::as_array).into_iter().flatten() {
                    add(&mut self.text, part.get("text").and_then(Json::as_str).unwrap_or_default())?;
                }
            }
            "function_call" => {
                room_for_calls(self.calls.len() + 1)?;
                let mut args = String::new();
                add(&mut args, text("arguments"))?;
                self.calls.push(ModelCall {
                    id: text("call_id").to_owned(),
                    name: text("name").to_owned(),
                    args,
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, data: &Json, stop: Stop) {
        self.stop = Some(stop);
        self.tokens = data.pointer("/response/usage").and_then(tokens);
    }
}

/// An error, in the event itself or below `error`.
fn failed(data: &Json) -> Miss {
    let (kind, message) = error_of(data).unwrap_or_else(|| {
        let text = |key: &str| data.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        (text("code"), text("message"))
    });
    miss_of(None, &kind, &message, None)
}

fn tokens(usage: &Json) -> Option<Tokens> {
    let sent = usage.get("input_tokens")?.as_u64()?;
    let cached =
        usage.pointer("/input_tokens_details/cached_tokens").and_then(Json::as_u64).unwrap_or(0).min(sent);
    let output = usage.get("output_tokens")?.as_u64()?;
    Some(Tokens { input: sent - cached, cached, stored: 0, output })
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::super::tests::replay;

    #[test]
    fn what_is_no_answer_is_told_apart() {
        let table = [
            (
                r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"oops"}}}"#,
                "Busy { why: \"server_error: oops\", after: None }",
            ),
            (
                r#"{"type":"error","code":"rate_limit_exceeded","message":"slow"}"#,
                "Busy { why: \"rate_limit_exceeded: slow\", after: None }",
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#,
                "Refused(\"invalid_request_error: no\")",
            ),
            (
                r#"{"type":"response.output_text.delta","delta":"x"}"#,
                "Broken(\"the stream ended before the answer did\")",
            ),
        ];
        for (event, wanted) in table {
            let found = replay(Dialect::Responses, &format!("data: {event}\n\n")).unwrap_err();
            assert_eq!(format!("{found:?}"), wanted);
        }
    }
}
