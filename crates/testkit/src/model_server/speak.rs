//! Answers on the wire, in the words of each dialect.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};

use super::plan::{Answer, Made, answer};
use super::request::{Seen, Speech};
use super::{Request, Shared, http};

/// Usage: sent, answered, cached.
pub(super) type Used = (u64, u64, u64);

/// An answer with the ids and arguments that go out.
pub(super) struct Out<'a> {
    pub(super) seen: &'a Seen,
    pub(super) answer: &'a Answer,
    pub(super) number: u64,
    ids: Vec<String>,
    args: Vec<String>,
    pub(super) used: Used,
}

/// Answers a request to a model; whether the connection stays open.
pub(super) fn post(
    stream: &TcpStream,
    request: &Request,
    scenario: &str,
    path: &str,
    shared: &Shared,
) -> io::Result<bool> {
    let body: Json = match serde_json::from_slice(if request.body.is_empty() { b"{}" } else { &request.body })
    {
        Ok(body) => body,
        Err(error) => {
            let error = json!({ "error": { "message": error.to_string(), "type": "invalid_request_error" } });
            return http::send_json(stream, 400, &[], &error).map(|()| true);
        }
    };
    let number = {
        let mut state = shared.lock();
        state.count += 1;
        state.count
    };
    if path.ends_with("/messages/count_tokens") {
        let count = tokens(&body["messages"].to_string());
        return http::send_json(stream, 200, &[], &json!({ "input_tokens": count })).map(|()| true);
    }
    if path.ends_with(":countTokens") {
        let count = tokens(&body["contents"].to_string());
        return http::send_json(stream, 200, &[], &json!({ "totalTokens": count })).map(|()| true);
    }
    let speech = match path {
        path if path.ends_with("/messages") => Speech::Anthropic,
        path if path.ends_with("/chat/completions") => Speech::Chat,
        path if path.ends_with("/responses") => Speech::Responses,
        path if path.ends_with("enerateContent") => Speech::Gemini,
        path => {
            shared.note(json!({ "n": number, "dialect": "other", "path": request.path, "answer": 404 }));
            let error =
                json!({ "error": { "message": format!("not found {path}"), "type": "not_found_error" } });
            return http::send_json(stream, 404, &[], &error).map(|()| true);
        }
    };
    let mut seen = Seen::of(speech, &body);
    if speech == Speech::Gemini {
        // The model and whether it is a stream stand in the path.
        let (model, verb) = path.rsplit('/').next().and_then(|last| last.split_once(':')).unwrap_or_default();
        (seen.model, seen.stream) = (model.to_owned(), verb.starts_with("stream"));
    }
    let scenario = seen.marker.clone().unwrap_or_else(|| scenario.to_owned());
    let script = {
        let state = shared.lock();
        state.scenarios.get(&scenario).or_else(|| state.scenarios.get("default")).cloned().unwrap_or_default()
    };
    let (scenario, script) = picked(shared, &seen, scenario, script);
    let planned = answer(&seen, &script, &shared.cwd);
    log(shared, number, request, &scenario, &seen, &planned, &body);
    let failed = {
        let mut state = shared.lock();
        let failed = state.fails.entry((scenario, planned.number)).or_default();
        *failed += 1;
        *failed
    };
    if let Some(fail) = planned.step.get("fail").filter(|fail| failed <= fail["times"].as_u64().unwrap_or(1))
    {
        return refuse(stream, speech, fail).map(|()| true);
    }
    let cuts = match &planned.step["cut"] {
        Json::Number(times) => failed <= times.as_u64().unwrap_or(0),
        cut => *cut == true,
    };
    if !shared.wait(planned.step["delay"].as_f64().unwrap_or(0.0)) {
        return Ok(false);
    }
    let out = Out::new(&seen, &planned, number, &body);
    if !seen.stream {
        return http::send_json(stream, 200, &[], &out.whole()).map(|()| true);
    }
    streamed(stream, &out, cuts, shared)
}

/// The scenario that answers: where one picks another by words that stand in the conversation, the first that fits.
fn picked(shared: &Shared, seen: &Seen, scenario: String, script: Json) -> (String, Json) {
    let picks = script["pick"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fits = |pick: &&Json| pick[0].as_str().is_some_and(|words| seen.system.contains(words));
    let name = picks.iter().find(fits).and_then(|pick| pick[1].as_str()).map(str::to_owned);
    let found =
        name.and_then(|name| shared.lock().scenarios.get(&name).cloned().map(|script| (name, script)));
    found.unwrap_or((scenario, script))
}

#[allow(clippy::too_many_arguments, reason = "one line of a log")]
fn log(
    shared: &Shared,
    number: u64,
    request: &Request,
    scenario: &str,
    seen: &Seen,
    planned: &Answer,
    body: &Json,
) {
    let auth = ["authorization", "x-api-key", "x-goog-api-key", "api-key"]
        .into_iter()
        .find(|name| request.header(name).is_some());
    let key = auth.and_then(|name| request.header(name)).and_then(|value| value.rsplit(' ').next());
    let calls: Vec<Json> = planned.calls.iter().map(|call| json!([call.name, call.args])).collect();
    let answered = match planned.step.get("fail") {
        Some(fail) => json!({ "fail": fail }),
        None => json!({ "text": planned.text, "calls": calls }),
    };
    let tools: Vec<&str> = seen.tools.iter().map(|tool| tool.name.as_str()).collect();
    shared.note(json!({
        "n": number, "dialect": seen.speech.word(), "path": request.path, "auth_header": auth, "key": key,
        "scenario": scenario, "step": planned.number, "stream": seen.stream,
        "side": planned.step["side"] == true, "model": seen.model, "tools": tools,
        "schema": !seen.schema.is_null(), "last_tool": seen.last_tool.chars().take(500).collect::<String>(),
        "answer": answered, "body": body,
    }));
}

fn refuse(stream: &TcpStream, speech: Speech, fail: &Json) -> io::Result<()> {
    let status = fail["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
    let message = fail["message"].as_str().unwrap_or("scripted failure");
    let kind = match status {
        429 => "rate_limit_error",
        529 => "overloaded_error",
        401 => "authentication_error",
        400 => "invalid_request_error",
        _ => "api_error",
    };
    let after =
        fail.get("retry_after").map(|after| ("retry-after", after.to_string().trim_matches('"').to_owned()));
    let headers: Vec<_> = after.into_iter().collect();
    let body = match speech {
        Speech::Anthropic => json!({ "type": "error", "error": { "type": kind, "message": message } }),
        Speech::Gemini => json!({ "error": { "code": status, "message": message, "status": "UNAVAILABLE" } }),
        Speech::Chat | Speech::Responses => {
            let code = fail.get("code").cloned().unwrap_or_else(|| json!(kind));
            json!({ "error": { "message": message, "type": kind, "code": code } })
        }
    };
    http::send_json(stream, status, &headers, &body)
}

/// Sends a stream with whatever goes wrong in it; whether the connection stays open.
fn streamed(stream: &TcpStream, out: &Out<'_>, cuts: bool, shared: &Shared) -> io::Result<bool> {
    let step = &out.answer.step;
    http::begin(stream, step["kind"].as_str().unwrap_or("text/event-stream"))?;
    if let Some(seconds) = step["hang"].as_f64() {
        shared.stall(true);
        shared.wait(seconds);
        shared.stall(false);
        return Ok(false);
    }
    if let Some(seconds) = step["dribble"].as_f64() {
        return dribble(stream, seconds, shared).map(|()| false);
    }
    let events = out.events();
    if let Some(bytes) = step["flood"].as_u64() {
        return flood(stream, bytes, &events, shared).map(|()| false);
    }
    let cut = cuts.then_some(events.len() / 2);
    for (at, event) in events.iter().enumerate() {
        if cut.is_some_and(|cut| at >= cut) || !shared.wait(step["chunk_delay"].as_f64().unwrap_or(0.0)) {
            return Ok(false);
        }
        http::piece(stream, event)?;
    }
    http::piece(stream, "").map(|()| true)
}

/// A byte every few milliseconds, and never a whole event.
fn dribble(stream: &TcpStream, seconds: f64, shared: &Shared) -> io::Result<()> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    shared.stall(true);
    let mut sent = Ok(());
    while sent.is_ok() && std::time::Instant::now() < end && shared.wait(0.005) {
        sent = http::piece(stream, ":");
    }
    shared.stall(false);
    sent
}

/// Repeats the event that carries text until so many bytes are sent.
fn flood(stream: &TcpStream, bytes: u64, events: &[String], shared: &Shared) -> io::Result<()> {
    let Some(longest) = events.iter().max_by_key(|event| event.len()) else { return Ok(()) };
    let block = longest.repeat(64);
    let mut sent = 0;
    while sent < bytes && !shared.stopped.load(Ordering::Relaxed) {
        http::piece(stream, &block)?;
        sent += block.len() as u64;
    }
    Ok(())
}

/// About how many tokens a text is.
fn tokens(text: &str) -> u64 {
    (text.chars().count() as u64 / 4).max(1)
}

/// A text in pieces of 24 letters, one empty piece at least.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    if letters.is_empty() {
        return vec![String::new()];
    }
    letters.chunks(24).map(|piece| piece.iter().collect()).collect()
}

impl<'a> Out<'a> {
    fn new(seen: &'a Seen, answer: &'a Answer, number: u64, body: &Json) -> Out<'a> {
        let prefix = if seen.speech == Speech::Anthropic { "toolu" } else { "call" };
        let id = |(at, call): (usize, &Made)| {
            let letter = if call.kind.starts_with("search:") { 'd' } else { 's' };
            format!("{prefix}_{letter}{}_{number}_{at}", answer.number)
        };
        let raw = answer.step["raw_args"].as_str();
        let args = |call: &Made| match (raw, &call.args) {
            (Some(raw), _) => raw.to_owned(),
            (None, Json::String(text)) => text.clone(),
            (None, args) => args.to_string(),
        };
        let args: Vec<String> = answer.calls.iter().map(args).collect();
        let said = &answer.step["usage"];
        let used = (
            said["in"].as_u64().unwrap_or_else(|| tokens(&body.to_string())),
            said["out"]
                .as_u64()
                .unwrap_or_else(|| tokens(&answer.text) + args.iter().map(|args| tokens(args)).sum::<u64>()),
            said["cached"].as_u64().unwrap_or(0),
        );
        Out { seen, answer, number, ids: answer.calls.iter().enumerate().map(id).collect(), args, used }
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = (&Made, &String, &String)> {
        self.answer.calls.iter().zip(&self.ids).zip(&self.args).map(|((call, id), args)| (call, id, args))
    }

    pub(super) fn think(&self) -> Option<&str> {
        self.answer.step["think"].as_str()
    }

    pub(super) fn stop(&self) -> Option<&str> {
        self.answer.step["stop"].as_str()
    }

    /// Whether the service says what it used.
    pub(super) fn says_usage(&self) -> bool {
        self.answer.step["no_usage"] != true
    }

    fn whole(&self) -> Json {
        match self.seen.speech {
            Speech::Anthropic => self.message(),
            Speech::Chat => self.completion(),
            Speech::Responses => self.response(),
            Speech::Gemini => self.gemini(),
        }
    }

    fn events(&self) -> Vec<String> {
        match self.seen.speech {
            Speech::Anthropic => self.anthropic_events(),
            Speech::Chat => self.chat_events(),
            Speech::Responses => self.responses_events(),
            Speech::Gemini => self.gemini_events(),
        }
    }

    fn blocks(&self) -> Vec<Json> {
        let mut blocks = Vec::new();
        blocks.extend(
            self.think().map(|text| json!({ "type": "thinking", "thinking": text, "signature": "sig" })),
        );
        if !self.answer.text.is_empty() {
            blocks.push(json!({ "type": "text", "text": self.answer.text }));
        }
        blocks.extend(self.calls().map(|(call, id, args)| {
            let input: Json = serde_json::from_str(args).unwrap_or_else(|_| json!({}));
            json!({ "type": "tool_use", "id": id, "name": call.name, "input": input })
        }));
        blocks
    }

    fn message(&self) -> Json {
        let reason =
            self.stop().unwrap_or(if self.answer.calls.is_empty() { "end_turn" } else { "tool_use" });
        let (sent, answered, cached) = self.used;
        let mut message = json!({
            "id": format!("msg_{}", self.number), "type": "message", "role": "assistant", "model": self.seen.model,
            "content": self.blocks(), "stop_reason": reason, "stop_sequence": null,
        });
        if self.says_usage() {
            message["usage"] = json!({ "input_tokens": sent, "output_tokens": answered,
                "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0 });
        }
        message
    }

    fn anthropic_events(&self) -> Vec<String> {
        let mut events = Vec::new();
        let mut put = |kind: &str, mut data: Json| {
            data["type"] = json!(kind);
            events.push(format!("event: {kind}\ndata: {data}\n\n"));
        };
        let whole = self.message();
        let mut start = whole.clone();
        (start["content"], start["stop_reason"]) = (json!([]), Json::Null);
        if self.says_usage() {
            start["usage"]["output_tokens"] = json!(1);
        }
        put("message_start", json!({ "message": start }));
        put("ping", json!({}));
        let mut args = self.args.iter();
        for (at, block) in self.blocks().iter().enumerate() {
            let (empty, field, delta) = match block["type"].as_str() {
                Some("text") => (json!({ "type": "text", "text": "" }), "text", "text_delta"),
                Some("thinking") => (
                    json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    "thinking",
                    "thinking_delta",
                ),
                _ => (
                    json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} }),
                    "partial_json",
                    "input_json_delta",
                ),
            };
            put("content_block_start", json!({ "index": at, "content_block": empty }));
            let text = match field {
                "partial_json" => args.next().map(String::as_str).unwrap_or_default(),
                field => block[field].as_str().unwrap_or_default(),
            };
            for piece in pieces(text) {
                put("content_block_delta", json!({ "index": at, "delta": { "type": delta, field: piece } }));
            }
            if field == "thinking" {
                let sign = json!({ "type": "signature_delta", "signature": "sig" });
                put("content_block_delta", json!({ "index": at, "delta": sign }));
            }
            put("content_block_stop", json!({ "index": at }));
        }
        let mut last = json!({ "delta": { "stop_reason": whole["stop_reason"], "stop_sequence": null } });
        if self.says_usage() {
            last["usage"] = json!({ "output_tokens": self.used.1 });
        }
        put("message_delta", last);
        put("message_stop", json!({}));
        events
    }

    fn chat_usage(&self) -> Json {
        let (sent, answered, cached) = self.used;
        json!({ "prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered,
            "prompt_tokens_details": { "cached_tokens": cached } })
    }

    fn chat_reason(&self) -> &'static str {
        match self.stop() {
            Some("max_tokens") => "length",
            Some("refusal") => "content_filter",
            _ if self.answer.calls.is_empty() => "stop",
            _ => "tool_calls",
        }
    }

    fn completion(&self) -> Json {
        let text = &self.answer.text;
        let mut message =
            json!({ "role": "assistant", "content": if text.is_empty() { Json::Null } else { json!(text) } });
        if let Some(think) = self.think() {
            message["reasoning_content"] = json!(think);
        }
        let calls: Vec<Json> = self
            .calls()
            .map(|(call, id, args)| json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": args } }))
            .collect();
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let choice =
            json!({ "index": 0, "message": message, "finish_reason": self.chat_reason(), "logprobs": null });
        let mut whole = json!({ "id": format!("chatcmpl-{}", self.number), "created": 1, "model": self.seen.model,
            "object": "chat.completion", "choices": [choice] });
        if self.says_usage() {
            whole["usage"] = self.chat_usage();
        }
        whole
    }

    fn chat_events(&self) -> Vec<String> {
        let base = json!({ "id": format!("chatcmpl-{}", self.number), "created": 1, "model": self.seen.model,
            "object": "chat.completion.chunk" });
        let chunk = |choices: Json| {
            let mut chunk = base.clone();
            chunk["choices"] = choices;
            chunk
        };
        let delta = |delta: Json, reason: Json| {
            chunk(json!([{ "index": 0, "delta": delta, "finish_reason": reason }]))
        };
        let mut chunks = vec![delta(json!({ "role": "assistant", "content": "" }), Json::Null)];
        for piece in self.think().map(pieces).unwrap_or_default() {
            chunks.push(delta(json!({ "reasoning_content": piece }), Json::Null));
        }
        if !self.answer.text.is_empty() {
            let texts = pieces(&self.answer.text);
            chunks.extend(texts.iter().map(|piece| delta(json!({ "content": piece }), Json::Null)));
        }
        for (at, (call, id, args)) in self.calls().enumerate() {
            let first = json!({ "index": at, "id": id, "type": "function", "function": { "name": call.name, "arguments": "" } });
            chunks.push(delta(json!({ "tool_calls": [first] }), Json::Null));
            for piece in pieces(args) {
                let more = json!({ "index": at, "function": { "arguments": piece } });
                chunks.push(delta(json!({ "tool_calls": [more] }), Json::Null));
            }
        }
        chunks.push(delta(json!({}), json!(self.chat_reason())));
        if self.says_usage() && self.wants_usage() {
            let mut last = chunk(json!([]));
            last["usage"] = self.chat_usage();
            chunks.push(last);
        }
        let mut events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        events.push(String::from("data: [DONE]\n\n"));
        events
    }

    fn wants_usage(&self) -> bool {
        self.seen.wants_usage
    }

    fn items(&self) -> Vec<Json> {
        let number = self.number;
        let mut items = Vec::new();
        items.extend(self.think().map(|text| {
            json!({ "id": format!("rs_{number}"), "type": "reasoning", "encrypted_content": null,
                "summary": [{ "type": "summary_text", "text": text }] })
        }));
        if !self.answer.text.is_empty() {
            let content = json!([{ "type": "output_text", "text": self.answer.text, "annotations": [] }]);
            items.push(json!({ "id": format!("msg_{number}"), "type": "message", "role": "assistant",
                "status": "completed", "content": content }));
        }
        items.extend(self.calls().map(|(call, id, args)| {
            let kind = call.kind.trim_start_matches("search:");
            let (kind, space) = kind.split_once('@').unwrap_or((kind, ""));
            let mut item = match kind {
                "tool_search" => {
                    json!({ "id": format!("ts_{id}"), "type": "tool_search_call", "status": "completed",
                    "call_id": id, "execution": "client",
                    "arguments": serde_json::from_str::<Json>(args).unwrap_or_default() })
                }
                "custom" => {
                    json!({ "id": format!("ctc_{id}"), "type": "custom_tool_call", "status": "completed",
                    "call_id": id, "name": call.name, "input": args })
                }
                _ => json!({ "id": format!("fc_{id}"), "type": "function_call", "status": "completed",
                    "call_id": id, "name": call.name, "arguments": args }),
            };
            if !space.is_empty() {
                item["namespace"] = json!(space);
            }
            item
        }));
        items
    }

    fn response(&self) -> Json {
        let (sent, answered, cached) = self.used;
        let incomplete = self.stop() == Some("max_tokens");
        let usage = json!({ "input_tokens": sent, "input_tokens_details": { "cached_tokens": cached },
            "output_tokens": answered, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": sent + answered });
        json!({
            "id": format!("resp_{}", self.number), "object": "response", "created_at": 1,
            "status": if incomplete { "incomplete" } else { "completed" }, "model": self.seen.model,
            "output": self.items(), "usage": if self.says_usage() { usage } else { Json::Null },
            "incomplete_details": if incomplete { json!({ "reason": "max_output_tokens" }) } else { Json::Null },
            "error": null, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
        })
    }

    fn responses_events(&self) -> Vec<String> {
        let mut events = Vec::new();
        let mut put = |kind: &str, mut data: Json| {
            (data["type"], data["sequence_number"]) = (json!(kind), json!(events.len()));
            events.push(format!("event: {kind}\ndata: {data}\n\n"));
        };
        let whole = self.response();
        let mut start = whole.clone();
        (start["status"], start["output"], start["usage"]) = (json!("in_progress"), json!([]), Json::Null);
        put("response.created", json!({ "response": start }));
        for (at, item) in self.items().iter().enumerate() {
            self.item_events(at, item, &mut put);
        }
        let last = if whole["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        put(last, json!({ "response": whole }));
        events
    }

    fn item_events(&self, at: usize, item: &Json, put: &mut dyn FnMut(&str, Json)) {
        let id = &item["id"];
        let place = |mut more: Json| {
            (more["item_id"], more["output_index"]) = (id.clone(), json!(at));
            more
        };
        let mut added = item.clone();
        added["status"] = json!("in_progress");
        match item["type"].as_str() {
            Some("message") => {
                added["content"] = json!([]);
                put("response.output_item.added", json!({ "output_index": at, "item": added }));
                let part = json!({ "type": "output_text", "text": "", "annotations": [] });
                put("response.content_part.added", place(json!({ "content_index": 0, "part": part })));
                for piece in pieces(&self.answer.text) {
                    put("response.output_text.delta", place(json!({ "content_index": 0, "delta": piece })));
                }
                put(
                    "response.output_text.done",
                    place(json!({ "content_index": 0, "text": self.answer.text })),
                );
                put(
                    "response.content_part.done",
                    place(json!({ "content_index": 0, "part": item["content"][0] })),
                );
            }
            Some("reasoning") => {
                added = item.clone();
                added["summary"] = json!([]);
                put("response.output_item.added", json!({ "output_index": at, "item": added }));
                let text = self.think().unwrap_or_default();
                for piece in pieces(text) {
                    put(
                        "response.reasoning_summary_text.delta",
                        place(json!({ "summary_index": 0, "delta": piece })),
                    );
                }
                put(
                    "response.reasoning_summary_text.done",
                    place(json!({ "summary_index": 0, "text": text })),
                );
            }
            Some("tool_search_call") => {
                put("response.output_item.added", json!({ "output_index": at, "item": added }));
            }
            kind => {
                let custom = kind == Some("custom_tool_call");
                let (field, name) = if custom {
                    ("input", "custom_tool_call_input")
                } else {
                    ("arguments", "function_call_arguments")
                };
                added[field] = json!("");
                put("response.output_item.added", json!({ "output_index": at, "item": added }));
                let text = item[field].as_str().unwrap_or_default();
                for piece in pieces(text) {
                    put(&format!("response.{name}.delta"), place(json!({ "delta": piece })));
                }
                put(&format!("response.{name}.done"), place(json!({ field: text })));
            }
        }
        put("response.output_item.done", json!({ "output_index": at, "item": item }));
    }
}
