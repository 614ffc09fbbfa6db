//! A request as all dialects have it: tools, turns so far, what was said last.

use std::collections::BTreeSet;

use serde_json::Value as Json;

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

impl Speech {
    pub(super) fn word(self) -> &'static str {
        match self {
            Speech::Anthropic => "anthropic",
            Speech::Chat => "chat",
            Speech::Responses => "responses",
            Speech::Gemini => "gemini",
        }
    }
}

/// A tool on offer.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) schema: Json,
    pub(super) kind: String,
}

/// What a request is, whatever its dialect.
pub(super) struct Seen {
    pub(super) speech: Speech,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) tools: Vec<Offer>,
    pub(super) turns: i64,
    pub(super) call_steps: Vec<usize>,
    pub(super) turns_after_call: i64,
    pub(super) searched: BTreeSet<usize>,
    pub(super) user: String,
    pub(super) last_tool: String,
    pub(super) system: String,
    pub(super) marker: Option<String>,
    pub(super) schema: Json,
    /// How many tokens an answer may have.
    pub(super) most: Option<u64>,
    /// Whether a stream of chat completions is to end with its usage.
    pub(super) wants_usage: bool,
}

/// The text in whatever stands for one.
pub(super) fn text_of(of: &Json) -> String {
    match of {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Json::Object(fields) => {
            let inner = ["text", "output", "content"].iter().find_map(|key| fields.get(*key));
            inner.map_or_else(|| of.to_string(), text_of)
        }
        Json::Bool(_) | Json::Number(_) => of.to_string(),
    }
}

fn items<'a>(of: &'a Json, key: &str) -> &'a [Json] {
    of.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn word<'a>(of: &'a Json, key: &str) -> &'a str {
    of.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// The step in an id that we have given: `_s3_`, or `_d3_` for a search that we put before step 3.
fn step_in(id: &str, letter: char) -> Option<usize> {
    id.split('_').find_map(|part| part.strip_prefix(letter)?.parse().ok())
}

impl Seen {
    pub(super) fn of(speech: Speech, body: &Json) -> Seen {
        let mut seen = Seen {
            speech,
            model: word(body, "model").to_owned(),
            stream: body.get("stream") == Some(&Json::Bool(true)),
            tools: Vec::new(),
            turns: 0,
            call_steps: Vec::new(),
            turns_after_call: 0,
            searched: BTreeSet::new(),
            user: String::new(),
            last_tool: String::new(),
            system: String::new(),
            marker: None,
            schema: Json::Null,
            most: body.get("max_tokens").and_then(Json::as_u64),
            wants_usage: body.pointer("/stream_options/include_usage") == Some(&Json::Bool(true)),
        };
        match speech {
            Speech::Anthropic => seen.anthropic(body),
            Speech::Chat => seen.chat(body),
            Speech::Responses => seen.responses(body),
            Speech::Gemini => seen.gemini(body),
        }
        seen
    }

    fn turn(&mut self) {
        self.turns += 1;
        self.turns_after_call += 1;
    }

    fn call(&mut self, id: &str) {
        if let Some(step) = step_in(id, 'd') {
            self.searched.insert(step);
            self.turns -= 1;
            self.turns_after_call -= 1;
        }
        if let Some(step) = step_in(id, 's') {
            self.call_steps.push(step);
            self.turns_after_call = 0;
        }
    }

    /// The newest marker wins, and steps are counted from the message that carries it.
    fn add_text(&mut self, text: &str) {
        self.user = text.to_owned();
        self.system.push('\n');
        self.system.push_str(text);
        let name = text.rsplit_once("[[scenario:").and_then(|(_, rest)| rest.split_once("]]"));
        if let Some((name, _)) = name {
            self.marker = Some(name.to_owned());
            (self.turns, self.turns_after_call) = (0, 0);
            self.call_steps.clear();
            self.searched.clear();
        }
    }

    fn offer(&mut self, tool: &Json, schema: &str, kind: &str) {
        let name = word(tool, "name").to_owned();
        if !name.is_empty() {
            let schema = tool.get(schema).cloned().unwrap_or_default();
            self.tools.push(Offer { name, schema, kind: kind.to_owned() });
        }
    }

    fn anthropic(&mut self, body: &Json) {
        self.system = text_of(body.get("system").unwrap_or(&Json::Null));
        for tool in items(body, "tools").iter().filter(|tool| tool.get("input_schema").is_some()) {
            self.offer(tool, "input_schema", "function");
        }
        let format = body.get("output_format").or_else(|| body.pointer("/output_config/format"));
        self.schema = format.cloned().unwrap_or_default();
        for message in items(body, "messages") {
            let content = message.get("content").cloned().unwrap_or_default();
            let parts = match content {
                Json::Array(parts) => parts,
                text => vec![serde_json::json!({ "type": "text", "text": text })],
            };
            if word(message, "role") == "assistant" {
                self.turn();
                parts
                    .iter()
                    .filter(|part| word(part, "type") == "tool_use")
                    .for_each(|part| self.call(word(part, "id")));
                continue;
            }
            for part in &parts {
                match word(part, "type") {
                    "tool_result" => self.last_tool = text_of(part.get("content").unwrap_or(&Json::Null)),
                    "text" => self.add_text(word(part, "text")),
                    _ => {}
                }
            }
        }
    }

    fn chat(&mut self, body: &Json) {
        for tool in items(body, "tools") {
            let inner = tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool);
            let kind = if word(tool, "type").is_empty() { "function" } else { word(tool, "type") };
            self.offer(inner, "parameters", kind);
        }
        self.schema = body.get("response_format").cloned().unwrap_or_default();
        for message in items(body, "messages") {
            let text = text_of(message.get("content").unwrap_or(&Json::Null));
            match word(message, "role") {
                "assistant" => {
                    self.turn();
                    items(message, "tool_calls").iter().for_each(|call| self.call(word(call, "id")));
                }
                "tool" => self.last_tool = text,
                "system" | "developer" => {
                    self.system.push('\n');
                    self.system.push_str(&text);
                }
                _ => self.add_text(&text),
            }
        }
    }

    fn gemini(&mut self, body: &Json) {
        self.system = text_of(body.pointer("/systemInstruction/parts").unwrap_or(&Json::Null));
        for tool in items(body, "tools").iter().flat_map(|tools| items(tools, "functionDeclarations")) {
            let schema =
                ["parametersJsonSchema", "parameters"].into_iter().find(|key| tool.get(key).is_some());
            self.offer(tool, schema.unwrap_or("parameters"), "function");
        }
        let shape = ["responseJsonSchema", "responseSchema"];
        let config = body.get("generationConfig");
        self.schema = shape.iter().find_map(|key| config?.get(*key)).cloned().unwrap_or_default();
        for message in items(body, "contents") {
            let parts = items(message, "parts");
            if word(message, "role") == "model" {
                if parts.iter().any(|part| part.get("functionCall").is_some() || part.get("text").is_some()) {
                    self.turn();
                }
                let calls = parts.iter().filter_map(|part| part.get("functionCall"));
                calls.for_each(|call| self.call(word(call, "id")));
                continue;
            }
            for part in parts {
                if let Some(response) = part.get("functionResponse") {
                    self.last_tool = text_of(response.get("response").unwrap_or(&Json::Null));
                } else if part.get("text").is_some() {
                    self.add_text(word(part, "text"));
                }
            }
        }
    }

    fn responses(&mut self, body: &Json) {
        self.system = word(body, "instructions").to_owned();
        self.offers(items(body, "tools"), "");
        self.schema = body.pointer("/text/format").cloned().unwrap_or_default();
        let input = match body.get("input") {
            Some(Json::Array(items)) => items.clone(),
            Some(text @ Json::String(_)) => {
                vec![serde_json::json!({ "type": "message", "role": "user", "content": text })]
            }
            _ => Vec::new(),
        };
        let mut theirs = false;
        for item in &input {
            let kind = if word(item, "type").is_empty() { "message" } else { word(item, "type") };
            if ["additional_tools", "tool_search_output"].contains(&kind) {
                self.offers(items(item, "tools"), "");
            }
            let calls =
                ["function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "reasoning"];
            if calls.contains(&kind) || (kind == "message" && word(item, "role") == "assistant") {
                if !std::mem::replace(&mut theirs, true) {
                    self.turn();
                }
                self.call(word(item, "call_id"));
            } else if kind.ends_with("_output") {
                theirs = false;
                self.last_tool =
                    text_of(item.get("output").or_else(|| item.get("tools")).unwrap_or(&Json::Null));
            } else if kind == "message" {
                theirs = false;
                let text = text_of(item.get("content").unwrap_or(&Json::Null));
                match word(item, "role") {
                    "user" => self.add_text(&text),
                    _ => {
                        self.system.push('\n');
                        self.system.push_str(&text);
                    }
                }
            }
        }
    }

    fn offers(&mut self, tools: &[Json], space: &str) {
        for tool in tools {
            match word(tool, "type") {
                "namespace" => self.offers(items(tool, "tools"), word(tool, "name")),
                kind @ ("function" | "custom") => {
                    let kind = if space.is_empty() { kind.to_owned() } else { format!("{kind}@{space}") };
                    self.offer(tool, "parameters", &kind);
                }
                kind @ ("local_shell" | "shell" | "apply_patch" | "tool_search") => {
                    let (name, kind) = (kind.to_owned(), kind.to_owned());
                    self.tools.push(Offer { name, schema: Json::Null, kind });
                }
                _ => {}
            }
        }
    }

    /// The step that answers.
    pub(super) fn step(&self) -> usize {
        let number = match self.call_steps.iter().max() {
            Some(last) => *last as i64 + 1 + self.turns_after_call,
            None => self.turns,
        };
        usize::try_from(number).unwrap_or(0)
    }
}
