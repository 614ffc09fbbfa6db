//! Tools for models that cannot call any: the answer is held to a schema that is a choice of the tools.
//!
//! Small local models write a call as text instead of making it. A server that holds an answer to a schema
//! can make them choose: one tool with its arguments, as one JSON object. What they choose comes back as a
//! call like any other, so that nothing else knows the difference. Chat completions only.

use serde_json::{Value as Json, json};

use super::dialect::{Ask, Miss, Reply, Stop, plain};
use super::history::{ChatEntry, ModelCall};
use crate::toolset::{SUBMIT, Tool};

/// How many items a list of an answer may have: a small model fills a list without an end until it is cut off.
const MAX_ITEMS: u64 = 8;

/// How many letters a text of an answer may have.
const MAX_LETTERS: u64 = 600;

/// A request that makes the model choose a tool.
pub(super) fn body(ask: &Ask<'_>) -> Json {
    let system = format!("{}\n\n{}", ask.system, tools(ask.tools));
    let mut messages = vec![json!({ "role": "system", "content": system })];
    let mut names: Vec<(&str, &str)> = Vec::new();
    for entry in &ask.talk.entries {
        match entry {
            ChatEntry::Ours(parts) => {
                let text: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                messages.push(json!({ "role": "user", "content": text.join("\n\n") }));
            }
            ChatEntry::Theirs { text, calls } => {
                names.extend(calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
                let content = match calls.first() {
                    Some(call) => json!({ "tool": call.name, "arguments": call.record() }).to_string(),
                    None => text.clone(),
                };
                messages.push(json!({ "role": "assistant", "content": content }));
            }
            ChatEntry::Results(results) => {
                let told: Vec<String> = results
                    .iter()
                    .map(|result| {
                        let tool = names
                            .iter()
                            .rev()
                            .find(|(id, _)| *id == result.id)
                            .map_or("tool", |(_, name)| name);
                        let how = if result.wrong { "failed" } else { "answered" };
                        format!("{tool} {how}:\n{}", result.text)
                    })
                    .collect();
                messages.push(json!({ "role": "user", "content": told.join("\n\n") }));
            }
        }
    }
    let choices: Vec<Json> = ask.tools.iter().map(choice).collect();
    let shape = json!({ "name": "call", "schema": { "anyOf": choices }, "strict": false });
    let mut body = json!({
        "model": ask.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
        "response_format": { "type": "json_schema", "json_schema": shape },
    });
    if let Some(most) = ask.max_output {
        // The servers that this is for know the older name.
        body["max_tokens"] = most.into();
    }
    body
}

fn choice(tool: &Tool) -> Json {
    json!({
        "type": "object",
        "properties": { "tool": { "const": tool.name }, "arguments": takes(tool) },
        "required": ["tool", "arguments"],
        "additionalProperties": false,
    })
}

/// What a tool takes. An answer is bounded: what the service holds the model to always has an end.
fn takes(tool: &Tool) -> Json {
    let mut takes = plain(&tool.takes);
    if tool.name == SUBMIT {
        limit_lengths(&mut takes);
    }
    takes
}

/// Leaves out lists that need not be there, and gives every other list and text an end.
fn limit_lengths(schema: &mut Json) {
    let is = |of: &Json, name: &str| {
        of["type"] == name || of["type"].as_array().is_some_and(|types| types.iter().any(|one| one == name))
    };
    let required: Vec<Json> = schema["required"].as_array().cloned().unwrap_or_default();
    let (is_list, is_text) = (is(schema, "array"), is(schema, "string") && schema.get("enum").is_none());
    let Some(words) = schema.as_object_mut() else { return };
    if let Some(Json::Object(properties)) = words.get_mut("properties") {
        properties.retain(|name, of| required.iter().any(|one| one == name) || !is(of, "array"));
        properties.values_mut().for_each(limit_lengths);
        words.insert(String::from("additionalProperties"), json!(false));
    }
    if is_list {
        words.entry("maxItems").or_insert_with(|| json!(MAX_ITEMS));
        words.get_mut("items").into_iter().for_each(limit_lengths);
    }
    if is_text {
        words.entry("maxLength").or_insert_with(|| json!(MAX_LETTERS));
    }
}

fn tools(tools: &[Tool]) -> String {
    let lines = tools.iter().map(|tool| {
        let takes = takes(tool).get("properties").cloned().unwrap_or_else(|| json!({}));
        format!("- {}: {} Arguments: {takes}", tool.name, tool.about)
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "Answer with ONE JSON object and nothing else: {{\"tool\": NAME, \"arguments\": {{…}}}}. The tools:\n{}",
        lines.join("\n")
    )
}

/// The call that an answer is. One that was cut off is none, and is told so.
pub(super) fn reply(mut reply: Reply) -> Result<Reply, Miss> {
    if reply.stop != Stop::Done || !reply.calls.is_empty() {
        return Ok(reply);
    }
    // A server that does not enforce a schema lets the model say anything; that is an answer in words.
    let Some(json) = crate::schema::find_json(&reply.text) else { return Ok(reply) };
    let Some(name) = json.get("tool").and_then(Json::as_str) else { return Ok(reply) };
    let args = json.get("arguments").cloned().unwrap_or_else(|| json!({}));
    reply.calls =
        vec![ModelCall { id: String::from("call_0"), name: name.to_owned(), args: args.to_string() }];
    reply.text = String::new();
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ftl_core::value::Name;

    use super::super::history::{CallOutcome, ChatHistory};
    use super::*;
    use crate::contract::{PartKind, PromptPart};
    use crate::schema::Schema;
    use crate::toolset::tools as tools_of;

    fn plain_reply(text: &str, stop: Stop) -> Reply {
        Reply { text: text.to_owned(), calls: Vec::new(), stop, tokens: None }
    }

    #[test]
    fn an_answer_is_a_call_if_it_names_a_tool() {
        for (text, stop, expected) in [
            (r#"{"tool":"read","arguments":{"path":"a"}}"#, Stop::Done, Some(("read", r#"{"path":"a"}"#))),
            ("```json\n{\"tool\":\"read\",\"arguments\":{}}\n```", Stop::Done, Some(("read", "{}"))),
            (r#"{"tool":"read"}"#, Stop::Done, Some(("read", "{}"))),
            (r#"{"tool":3,"arguments":{}}"#, Stop::Done, None),
            ("I would read it.", Stop::Done, None),
            (r#"{"tool":"read","argum"#, Stop::Length, None),
        ] {
            let reply = reply(plain_reply(text, stop)).unwrap();
            let call = reply.calls.first().map(|call| (call.name.as_str(), call.args.as_str()));
            assert_eq!(call, expected, "{text}");
            assert_eq!(reply.text.is_empty(), expected.is_some(), "{text}");
        }
    }

    #[test]
    fn an_answer_always_has_an_end() {
        let answer = json!({ "type": "object", "required": ["approach", "used"], "additionalProperties": true, "properties": {
            "approach": { "type": "string" },
            "kind": { "type": ["string", "null"], "enum": ["a", null] },
            "steps": { "type": ["array", "null"], "items": { "type": "string" } },
            "used": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
        } });
        let names: BTreeSet<Name> = ["submit", "write"].map(Name::from).into();
        let tools = tools_of(&names, &Schema::new(answer).unwrap());
        let of = |name: &str| takes(tools.iter().find(|tool| tool.name == name).unwrap());
        let submit = of("submit");
        assert_eq!(submit["properties"]["approach"]["maxLength"], MAX_LETTERS);
        assert!(
            submit["properties"].get("steps").is_none()
                && submit["properties"]["kind"].get("maxLength").is_none()
        );
        let used = &submit["properties"]["used"];
        assert_eq!(
            (&used["maxItems"], &used["items"]["properties"]["name"]["maxLength"]),
            (&json!(MAX_ITEMS), &json!(MAX_LETTERS))
        );
        assert_eq!(
            (&submit["additionalProperties"], &used["items"]["additionalProperties"]),
            (&json!(false), &json!(false))
        );
        assert!(of("write")["properties"]["content"].get("maxLength").is_none(), "a file may be long");
    }

    #[test]
    fn a_conversation_is_told_in_words() {
        let names: BTreeSet<Name> = ["read", "submit"].map(Name::from).into();
        let tools = tools_of(&names, &Schema::anything());
        let call = ModelCall { id: "call_0".into(), name: "read".into(), args: r#"{"path":"a"}"#.into() };
        let outcome = CallOutcome { id: "call_0".into(), text: "not there".into(), wrong: true, kept: false };
        let talk = ChatHistory {
            entries: vec![
                ChatEntry::Ours(vec![PromptPart::new(PartKind::Task, "Do it.")]),
                ChatEntry::Theirs { text: String::new(), calls: vec![call] },
                ChatEntry::Results(vec![outcome]),
            ],
        };
        let ask = Ask {
            model: "m",
            system: "You work.",
            talk: &talk,
            tools: &tools,
            answer_only: None,
            max_output: Some(9),
        };
        let body = body(&ask);
        let told: Vec<&str> =
            body["messages"].as_array().unwrap().iter().filter_map(|one| one["content"].as_str()).collect();
        assert!(told[0].contains("You work.") && told[0].contains("- read: Reads"), "{told:?}");
        assert_eq!(told[2], r#"{"tool":"read","arguments":{"path":"a"}}"#);
        assert_eq!((told[1], told[3]), ("Do it.", "read failed:\nnot there"));
        let choices = body["response_format"]["json_schema"]["schema"]["anyOf"].as_array().unwrap();
        assert_eq!((choices.len(), &choices[0]["properties"]["tool"]["const"]), (2, &json!("read")));
        assert!(body.get("tools").is_none());
    }
}
