//! A program for tests of the `cli` backend: it plays acts out of a file, over a control stream as Claude
//! Code has one, or as plain lines that tell what was done when it was done.
//!
//! `PLAYER_ACTS` names the file, `PLAYER_SPEECH` is `control` or `lines`. Its deeds are real: what it may do,
//! or does without asking, it does to the folder in which it was started.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it is a program that speaks, for tests alone")]

use std::io::{BufRead as _, StdinLock, Write as _};
use std::path::{Path, PathBuf};

use ftl_agents::mcp_endpoint::{VARIABLE, Visit};
use serde_json::{Value as Json, json};

/// How much a flood says at once.
const FLOOD_BYTES: usize = 64 * 1024;

fn main() {
    let acts = std::fs::read_to_string(std::env::var("PLAYER_ACTS").unwrap()).unwrap();
    let Json::Array(acts) = serde_json::from_str(&acts).unwrap() else { return };
    let mut lines = std::io::stdin().lock();
    match std::env::var("PLAYER_SPEECH").as_deref() {
        Ok("control") => control(&acts, &mut lines),
        _ => plain(&acts, &mut lines),
    }
}

/// Prints one event as a line.
fn tell(event: &Json) {
    let mut out = std::io::stdout().lock();
    // The reader of the stream may be gone; then there is nothing left to do.
    if writeln!(out, "{event}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn hear(lines: &mut StdinLock<'_>) -> Json {
    let mut line = String::new();
    if lines.read_line(&mut line).unwrap_or(0) == 0 {
        std::process::exit(0);
    }
    serde_json::from_str(&line).unwrap_or_default()
}

/// Where the window is, as the file says that an MCP client is given.
fn window(file: &str) -> Option<PathBuf> {
    let config: Json = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    config.pointer(&format!("/mcpServers/ftl/env/{VARIABLE}"))?.as_str().map(PathBuf::from)
}

/// Calls a tool of the window.
fn call_window(tool: &str, args: &Json) {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == "--mcp-config").and_then(|at| words.get(at + 1));
    let Some(path) = at.and_then(|file| window(file)) else { return };
    if let Ok(mut visit) = Visit::at(&path) {
        let _ = visit.call(tool, args.clone());
    }
}

/// Does what a call says; an error if it goes wrong.
fn make(tool: &str, args: &Json) -> Result<(), String> {
    let text = |key: &str| args[key].as_str().unwrap_or_default();
    let path = Path::new(text("path"));
    let shown = |error: std::io::Error| error.to_string();
    match tool {
        "write" => {
            if let Some(parent) = path.parent() {
                let _ = std::fs::create_dir_all(parent);
            }
            std::fs::write(path, text("content")).map_err(shown)
        }
        "edit" => {
            let old = std::fs::read_to_string(path).map_err(shown)?;
            std::fs::write(path, old.replace(text("old"), text("new"))).map_err(shown)
        }
        _ => std::fs::read(path).map(drop).map_err(shown),
    }
}

/// What a turn may end with.
enum ActEnd {
    GoesOn,
    Said(String),
}

/// Plays how an act ends.
fn finish(act: &Json, say: &dyn Fn(&str)) -> ActEnd {
    let end = &act["end"];
    if end.get("submit").is_some() {
        call_window("submit", &end["submit"]);
        return ActEnd::Said(String::from("It is done."));
    }
    if let Some(question) = end["ask"].as_str() {
        call_window("ask", &json!({ "question": question }));
        return ActEnd::Said(String::from("I have asked."));
    }
    if let Some(text) = end["say"].as_str() {
        say(text);
        return ActEnd::Said(text.to_owned());
    }
    match end.as_str() {
        Some("dies") => {
            say("I will not come to an");
            // An exit code that lies.
            std::process::exit(0);
        }
        Some("hangs") => loop {
            std::thread::park();
        },
        Some("floods") => loop {
            say(&"flood ".repeat(FLOOD_BYTES / 6));
        },
        _ => ActEnd::GoesOn,
    }
}

/// The control stream: it stays, asks before each call, and tells its money at the end of a turn.
fn control(acts: &[Json], lines: &mut StdinLock<'_>) {
    let (mut at, mut number, mut money) = (0, 0, 0_u64);
    tell(&json!({ "type": "system", "subtype": "init", "session_id": "player" }));
    loop {
        let heard = hear(lines);
        if heard["type"] == "control_request" {
            let response = json!({ "subtype": "success", "request_id": heard["request_id"], "response": {} });
            tell(&json!({ "type": "control_response", "response": response }));
        }
        if heard["type"] != "user" {
            continue;
        }
        let (mut used, mut silent) = (0, false);
        let said = loop {
            let Some(act) = acts.get(at) else { std::process::exit(0) };
            at += 1;
            let tokens = act["tokens"].as_u64();
            used += tokens.unwrap_or(0);
            silent |= tokens.is_none();
            speak(act, tokens);
            for call in act["calls"].as_array().into_iter().flatten() {
                number += 1;
                ask_and_make(&format!("call-{number}"), call, lines);
            }
            let delta = |text: &str| {
                let delta = json!({ "type": "text_delta", "text": text });
                stream(&json!({ "type": "content_block_delta", "delta": delta }));
            };
            if let ActEnd::Said(text) = finish(act, &delta) {
                break text;
            }
        };
        money += used;
        let mut result = json!({ "type": "result", "subtype": "success", "is_error": false,
            "terminal_reason": "completed", "result": said });
        if !silent {
            result["usage"] = json!({ "input_tokens": used, "output_tokens": 0 });
            result["total_cost_usd"] = json!(money as f64 / 1e6);
        }
        tell(&result);
    }
}

fn stream(event: &Json) {
    tell(&json!({ "type": "stream_event", "event": event }));
}

/// One answer of a model, as it streams in.
fn speak(act: &Json, tokens: Option<u64>) {
    let mut start = json!({ "type": "message_start", "message": {} });
    let mut delta = json!({ "type": "message_delta" });
    if let Some(tokens) = tokens {
        start["message"]["usage"] = json!({ "input_tokens": tokens });
        delta["usage"] = json!({ "output_tokens": 0 });
    }
    stream(&start);
    let text = act["say"].as_str().unwrap_or_default();
    for piece in text.split_inclusive(' ') {
        let piece = json!({ "type": "text_delta", "text": piece });
        stream(&json!({ "type": "content_block_delta", "delta": piece }));
    }
    stream(&delta);
}

fn ask_and_make(id: &str, call: &Json, lines: &mut StdinLock<'_>) {
    let (tool, args) = (call[0].as_str().unwrap_or_default(), &call[1]);
    let mut input = args.clone();
    input["file_path"] = args["path"].clone();
    let name = match tool {
        "write" => "Write",
        "edit" => "Edit",
        _ => "Read",
    };
    let used = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    tell(&json!({ "type": "assistant", "message": { "content": [used] } }));
    let input =
        json!({ "hook_event_name": "PreToolUse", "tool_name": name, "tool_input": input, "tool_use_id": id });
    let request =
        json!({ "subtype": "hook_callback", "callback_id": "desk", "input": input, "tool_use_id": id });
    tell(&json!({ "type": "control_request", "request_id": id, "request": request }));
    let reply = loop {
        let heard = hear(lines);
        if heard["type"] == "control_response" && heard["response"]["request_id"] == id {
            break heard;
        }
    };
    let decision = reply.pointer("/response/response/hookSpecificOutput/permissionDecision");
    let made = match decision == Some(&json!("allow")) {
        true => make(tool, args),
        false => Err(String::from("denied")),
    };
    let result = json!({ "type": "tool_result", "tool_use_id": id, "is_error": made.is_err() });
    tell(&json!({ "type": "user", "message": { "content": [result] } }));
}

/// Plain lines: it is started for each turn, and tells of a call when it was made.
fn plain(acts: &[Json], lines: &mut StdinLock<'_>) {
    let mut prompt = String::new();
    let _ = std::io::Read::read_to_string(lines, &mut prompt);
    let note = PathBuf::from(std::env::var("HOME").unwrap()).join("at");
    let mut at: usize = std::fs::read_to_string(&note).ok().and_then(|at| at.parse().ok()).unwrap_or(0);
    tell(&json!({ "kind": "hello", "conversation": "player" }));
    while let Some(act) = acts.get(at) {
        at += 1;
        std::fs::write(&note, at.to_string()).unwrap();
        let say = |text: &str| tell(&json!({ "kind": "says", "words": text }));
        for piece in act["say"].as_str().unwrap_or_default().split_inclusive(' ') {
            say(piece);
        }
        let mut cost = json!({ "kind": "cost" });
        if let Some(tokens) = act["tokens"].as_u64() {
            (cost["tokens"], cost["dollars"]) = (json!(tokens), json!(tokens as f64 / 1e6));
        }
        tell(&cost);
        for (nr, call) in act["calls"].as_array().into_iter().flatten().enumerate() {
            let made = make(call[0].as_str().unwrap_or_default(), &call[1]);
            tell(&json!({ "kind": "did", "what": call[0], "nr": format!("{at}.{nr}"), "with": call[1],
                "fine": made.is_ok() }));
        }
        if let ActEnd::Said(text) = finish(act, &say) {
            tell(&json!({ "kind": "over", "fine": true, "last": text }));
            return;
        }
    }
}
