//! The app server of Codex: JSON-RPC by lines, without the field that says so.
//!
//! It asks before every command and every change of a file. What a change is about stands in the item that
//! was told before; an approval names only that item. Whatever else it asks is refused.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::rules::ReportedCall;

/// How many items are remembered until they are completed.
pub(super) const MAX_ITEMS: usize = 256;

/// The number of a request of ours.
const INITIALIZE: u64 = 1;
const OPEN: u64 = 2;
const TURN: u64 = 3;
const INTERRUPT: u64 = 4;

/// A question of the program, by its own number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    id: Json,
    form: Form,
    /// The call that it is about.
    pub(super) called: ReportedCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Approval,
    Elicitation,
}

/// The meaning of one line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// This is to be sent.
    Send(Json),
    /// The conversation is called so.
    Session(String),
    /// It asks about a call.
    Asks(Asked),
    /// It could not do what we asked for.
    Failed(String),
}

/// A conversation with an app server.
#[derive(Debug, Default)]
pub(super) struct Codex {
    thread: Option<String>,
    turn: Option<String>,
    waiting: Option<String>,
    items: BTreeMap<String, Json>,
}

impl Codex {
    /// The first message of a connection.
    pub(super) fn opening() -> Json {
        let client = json!({ "name": "ftl", "title": "ftl", "version": env!("CARGO_PKG_VERSION") });
        json!({ "id": INITIALIZE, "method": "initialize", "params": { "clientInfo": client } })
    }

    /// A turn, now or as soon as there is a thread.
    pub(super) fn say(&mut self, prompt: &str) -> Option<Json> {
        match &self.thread {
            Some(thread) => Some(turn(thread, prompt)),
            None => {
                self.waiting = Some(prompt.to_owned());
                None
            }
        }
    }

    /// What makes it end its turn.
    pub(super) fn interrupt(&self) -> Option<Json> {
        let params = json!({ "threadId": self.thread.as_ref()?, "turnId": self.turn.as_ref()? });
        Some(json!({ "id": INTERRUPT, "method": "turn/interrupt", "params": params }))
    }

    /// What comes of a line. `open` is what a thread is opened with, or taken up again.
    pub(super) fn on_line(&mut self, event: &Json, open: &Json, session: Option<&str>) -> Vec<Step> {
        let method = event.get("method").and_then(Json::as_str);
        match (method, event.get("id")) {
            (Some(method), Some(id)) => {
                vec![self.on_request(method, id, event.get("params").unwrap_or(&Json::Null))]
            }
            (Some(method), None) => {
                self.noted(method, event);
                Vec::new()
            }
            (None, Some(id)) => self.answered(id.as_u64(), event, open, session),
            (None, None) => Vec::new(),
        }
    }

    fn noted(&mut self, method: &str, event: &Json) {
        let item = event.pointer("/params/item");
        let id = item.and_then(|item| item.get("id")).and_then(Json::as_str);
        match (method, item, id) {
            ("item/started", Some(item), Some(id)) if self.items.len() < MAX_ITEMS => {
                self.items.insert(id.to_owned(), item.clone());
            }
            ("item/completed", _, Some(id)) => drop(self.items.remove(id)),
            ("turn/started", ..) => {
                self.turn = event.pointer("/params/turn/id").and_then(Json::as_str).map(str::to_owned);
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: Option<u64>, event: &Json, open: &Json, session: Option<&str>) -> Vec<Step> {
        if let Some(error) = event.get("error").filter(|_| id != Some(INTERRUPT)) {
            let why = error.get("message").and_then(Json::as_str).unwrap_or("it does not say why");
            return vec![Step::Failed(why.to_owned())];
        }
        match id {
            Some(INITIALIZE) => {
                let (method, mut params) = match session {
                    Some(_) => ("thread/resume", open.clone()),
                    None => ("thread/start", open.clone()),
                };
                if let (Some(session), Some(fields)) = (session, params.as_object_mut()) {
                    fields.insert(String::from("threadId"), json!(session));
                }
                vec![
                    Step::Send(json!({ "method": "initialized", "params": {} })),
                    Step::Send(json!({ "id": OPEN, "method": method, "params": params })),
                ]
            }
            Some(OPEN) => {
                let Some(thread) = event.pointer("/result/thread/id").and_then(Json::as_str) else {
                    return vec![Step::Failed(String::from("it opened a thread without a name"))];
                };
                self.thread = Some(thread.to_owned());
                let waiting = self.waiting.take().map(|prompt| Step::Send(turn(thread, &prompt)));
                std::iter::once(Step::Session(thread.to_owned())).chain(waiting).collect()
            }
            _ => Vec::new(),
        }
    }

    fn on_request(&self, method: &str, id: &Json, params: &Json) -> Step {
        let text = |key: &str| params.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let item = text("itemId");
        let (form, called) = match method {
            "item/commandExecution/requestApproval" => {
                let tool = String::from("commandExecution");
                (Form::Approval, ReportedCall { id: item, tool, args: params.clone() })
            }
            "item/fileChange/requestApproval" => {
                let args = self.items.get(&item).cloned().unwrap_or_default();
                (Form::Approval, ReportedCall { id: item, tool: String::from("fileChange"), args })
            }
            "mcpServer/elicitation/request" => {
                (Form::Elicitation, self.elicited(&text("serverName"), params))
            }
            _ => {
                let error = json!({ "code": -32601, "message": "ftl does not do this" });
                return Step::Send(json!({ "id": id, "error": error }));
            }
        };
        Step::Asks(Asked { id: id.clone(), form, called })
    }

    /// The call of a server's tool that is asked about: the question tells its arguments and not its name.
    fn elicited(&self, server: &str, params: &Json) -> ReportedCall {
        let args = params.pointer("/_meta/tool_params").cloned().unwrap_or_default();
        let fits = |item: &&Json| {
            item.get("type").is_some_and(|kind| kind == "mcpToolCall")
                && item.get("server").is_some_and(|one| one == server)
                && item.get("arguments") == Some(&args)
        };
        let found = self.items.values().find(fits);
        let text = |key: &str| found.and_then(|item| item.get(key)?.as_str()).unwrap_or_default();
        ReportedCall { id: text("id").to_owned(), tool: format!("{server}.{}", text("tool")), args }
    }
}

fn turn(thread: &str, prompt: &str) -> Json {
    let input = json!([{ "type": "text", "text": prompt }]);
    json!({ "id": TURN, "method": "turn/start", "params": { "threadId": thread, "input": input } })
}

/// The answer to a question: whether the call may be made.
pub(super) fn reply(asked: &Asked, ruling: &Result<(), String>) -> Json {
    let result = match (asked.form, ruling) {
        (Form::Approval, Ok(())) => json!({ "decision": "accept" }),
        (Form::Approval, Err(_)) => json!({ "decision": "decline" }),
        (Form::Elicitation, Ok(())) => json!({ "action": "accept", "content": {} }),
        (Form::Elicitation, Err(_)) => json!({ "action": "decline", "content": null }),
    };
    json!({ "id": asked.id, "result": result })
}
