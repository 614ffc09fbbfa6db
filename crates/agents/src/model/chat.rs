//! OpenAI chat completions, as OpenAI, llama.cpp, Ollama and vLLM speak it.
//!
//! Servers differ in what they leave out: an id, an index, the last word. What they leave out is made
//! good here, and what they contradict is refused.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::dialect::{
    Ask, Bit, Miss, Reader, Reply, Stop, add, error_of, json_of, miss_of, plain, room_for_calls,
};
use super::history::{ChatEntry, ModelCall};
use super::price::Tokens;
use super::sse::ServerEvent;

pub(super) fn body(ask: &Ask<'_>) -> Json {
    let mut messages = vec![json!({ "role": "system", "content": ask.system })];
    for entry in &ask.talk.entries {
        match entry {
            ChatEntry::Ours(parts) => {
                let text: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                messages.push(json!({ "role": "user", "content": text.join("\n\n") }));
            }
            ChatEntry::Theirs { text, calls } => messages.push(theirs(text, calls)),
            ChatEntry::Results(results) => {
                messages.extend(results.iter().map(
                    |result| json!({ "role": "tool", "tool_call_id": result.id, "content": result.text }),
                ));
            }
        }
    }
    let mut body = json!({
        "model": ask.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if let Some(answer) = ask.answer_only {
        let shape = json!({ "name": "answer", "schema": plain(answer), "strict": false });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": shape });
    } else if !ask.tools.is_empty() {
        let tools = ask.tools.iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.about, "parameters": plain(&tool.takes) } })
        });
        body["tools"] = tools.collect();
    }
    if let Some(most) = ask.max_output {
        body["max_completion_tokens"] = most.into();
    }
    body
}

fn theirs(text: &str, calls: &[ModelCall]) -> Json {
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        let calls = calls.iter().map(|call| {
            json!({ "id": call.id, "type": "function", "function": {
                "name": call.name, "arguments": if call.args.is_empty() { "{}" } else { &call.args } } })
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

#[derive(Debug, Default)]
pub(super) struct Chat {
    text: String,
    calls: BTreeMap<u64, ModelCall>,
    stop: Option<Stop>,
    tokens: Option<Tokens>,
}

impl Reader for Chat {
    fn event(&mut self, event: &ServerEvent, bits: &mut dyn FnMut(Bit<'_>)) -> Result<bool, Miss> {
        if event.data.trim() == "[DONE]" {
            return Ok(true);
        }
        let chunk = json_of(event)?;
        if let Some((kind, message)) = error_of(&chunk) {
            return Err(miss_of(None, &kind, &message, None));
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.tokens = tokens(usage);
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(false) };
        let text =
            |key: &str| choice.pointer(&format!("/delta/{key}")).and_then(Json::as_str).unwrap_or_default();
        for thought in
            [text("reasoning_content"), text("reasoning")].into_iter().filter(|text| !text.is_empty())
        {
            bits(Bit::Thought(thought));
        }
        if !text("content").is_empty() {
            bits(Bit::Text(text("content")));
            add(&mut self.text, text("content"))?;
        }
        for call in choice.pointer("/delta/tool_calls").and_then(Json::as_array).into_iter().flatten() {
            self.call(call)?;
        }
        self.stop = match choice.get("finish_reason").and_then(Json::as_str) {
            None => self.stop,
            Some("length") => Some(Stop::Length),
            Some("content_filter") => Some(Stop::Refused),
            Some(_) => Some(Stop::Done),
        };
        Ok(false)
    }

    fn reply(&mut self) -> Result<Reply, Miss> {
        let stop =
            self.stop.ok_or_else(|| Miss::Broken(String::from("the stream ended before the answer did")))?;
        let calls = std::mem::take(&mut self.calls).into_values().collect();
        Ok(Reply { text: std::mem::take(&mut self.text), calls, stop, tokens: self.tokens })
    }
}

impl Chat {
    fn call(&mut self, piece: &Json) -> Result<(), Miss> {
        let text = |path: &str| piece.pointer(path).and_then(Json::as_str).unwrap_or_default();
        // Some servers send whole calls without an index.
        let next = self.calls.len() as u64;
        let index = piece.get("index").and_then(Json::as_u64).unwrap_or(next);
        room_for_calls(self.calls.len() + usize::from(!self.calls.contains_key(&index)))?;
        let made_up = || format!("call_{index}");
        let call = self.calls.entry(index).or_insert_with(|| ModelCall {
            id: made_up(),
            name: String::new(),
            args: String::new(),
        });
        if !text("/id").is_empty() {
            call.id = text("/id").to_owned();
        }
        add(&mut call.name, text("/function/name"))?;
        match piece.pointer("/function/arguments") {
            // And some send the arguments as they are.
            Some(whole @ Json::Object(_)) => add(&mut call.args, &whole.to_string()),
            _ => add(&mut call.args, text("/function/arguments")),
        }
    }
}

fn tokens(usage: &Json) -> Option<Tokens> {
    let sent = usage.get("prompt_tokens")?.as_u64()?;
    let cached =
        usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Json::as_u64).unwrap_or(0).min(sent);
    let output = usage.get("completion_tokens")?.as_u64()?;
    Some(Tokens { input: sent - cached, cached, stored: 0, output })
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::super::tests::replay;
    use super::*;

    #[test]
    fn servers_that_leave_things_out_are_understood() {
        let whole = r#"data: {"choices":[{"delta":{"content":"hi","tool_calls":[{"function":{"name":"read","arguments":{"path":"a"}}}]},"finish_reason":"tool_calls"}]}

"#;
        let reply = replay(Dialect::Chat, whole).unwrap();
        assert_eq!((reply.text.as_str(), reply.tokens), ("hi", None));
        assert_eq!(
            reply.calls[0],
            ModelCall { id: "call_0".into(), name: "read".into(), args: "{\"path\":\"a\"}".into() }
        );
    }

    #[test]
    fn what_is_no_answer_is_told_apart() {
        let table = [
            (
                "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n",
                "Broken(\"the stream ended before the answer did\")",
            ),
            (
                "data: {\"error\":{\"message\":\"later\",\"type\":\"overloaded_error\"}}\n\n",
                "Busy { why: \"overloaded_error: later\", after: None }",
            ),
            (
                "data: nonsense\n\n",
                "Bad(\"an event of the stream is no JSON: expected ident at line 1 column 2\")",
            ),
            ("", "Broken(\"the stream ended before the answer did\")"),
        ];
        for (stream, wanted) in table {
            assert_eq!(format!("{:?}", replay(Dialect::Chat, stream).unwrap_err()), wanted);
        }
        let many = r#"data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"read"}}]}}]}

"#;
        assert!(
            matches!(replay(Dialect::Chat, &many.repeat(33)), Err(Miss::Bad(why)) if why.contains("32 calls"))
        );
    }
}
