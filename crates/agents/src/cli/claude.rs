//! The control stream of Claude Code: it asks before every call, through a hook that we register.
//!
//! Permission prompts come only for calls that its own rules do not let through; a hook comes for every
//! one, so what looks harmless to the program is ruled on too. A prompt for a call that the hook has ruled
//! on gets the same answer.

use serde_json::{Value as Json, json};

use super::rules::ReportedCall;

/// The name of our hook.
const HOOK: &str = "desk";

/// A question of the program, and how it is answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    request: String,
    hook: bool,
    /// The call that it is about.
    pub(super) called: ReportedCall,
}

/// What we say first: that we want to be asked before each call.
pub(super) fn opening() -> Json {
    let hooks = json!({ "PreToolUse": [{ "matcher": null, "hookCallbackIds": [HOOK] }] });
    control("ftl-1", &json!({ "subtype": "initialize", "hooks": hooks }))
}

/// What makes it end its turn.
pub(super) fn interrupt() -> Json {
    control("ftl-2", &json!({ "subtype": "interrupt" }))
}

fn control(id: &str, request: &Json) -> Json {
    json!({ "type": "control_request", "request_id": id, "request": request })
}

/// The line that begins a turn with this prompt.
pub(super) fn say(prompt: &str) -> Json {
    let message = json!({ "role": "user", "content": prompt });
    json!({ "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "default" })
}

/// What a line asks of us: a question about a call, or what is to be answered at once.
pub(super) fn parse_line(event: &Json) -> Option<Result<Asked, Json>> {
    if event.get("type")? != "control_request" {
        return None;
    }
    let request = event.get("request_id").and_then(Json::as_str).unwrap_or_default().to_owned();
    let asked = event.get("request").unwrap_or(&Json::Null);
    let (hook, tool, args, id) = match asked.get("subtype").and_then(Json::as_str) {
        Some("hook_callback") => (true, "/input/tool_name", "/input/tool_input", "/input/tool_use_id"),
        Some("can_use_tool") => (false, "/tool_name", "/input", "/tool_use_id"),
        _ => return Some(Err(refusal(&request))),
    };
    let text = |at: &str| asked.pointer(at).and_then(Json::as_str).unwrap_or_default().to_owned();
    let called = ReportedCall {
        id: text(id),
        tool: text(tool),
        args: asked.pointer(args).cloned().unwrap_or_default(),
    };
    Some(Ok(Asked { request, hook, called }))
}

/// The answer to a question: whether the call may be made, and if not, why.
pub(super) fn reply(asked: &Asked, ruling: &Result<(), String>) -> Json {
    let response = match (asked.hook, ruling) {
        (true, Ok(())) => decision("allow", "allowed by ftl"),
        (true, Err(why)) => decision("deny", why),
        (false, Ok(())) => json!({ "behavior": "allow", "updatedInput": asked.called.args }),
        (false, Err(why)) => json!({ "behavior": "deny", "message": why }),
    };
    let response = json!({ "subtype": "success", "request_id": asked.request, "response": response });
    json!({ "type": "control_response", "response": response })
}

fn decision(word: &str, why: &str) -> Json {
    json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": word,
        "permissionDecisionReason": why } })
}

fn refusal(request: &str) -> Json {
    let response = json!({ "subtype": "error", "request_id": request, "error": "ftl does not do this" });
    json!({ "type": "control_response", "response": response })
}
