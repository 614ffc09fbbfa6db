//! What an agent asks of us in its turn: permissions, files and terminals. The session host rules on each first.
//!
//! A file is opened on the very path that was ruled on, and what leads out of the folder is never covered
//! by an earlier permission. What an agent did without asking is ruled on when it becomes known.

use ftl_core::tool_policy::{Deed, ResolvedPath, Ruling, ToolCall, rule};
use ftl_core::value::Name;
use serde_json::{Value as Json, json};
use std::time::Duration;

use super::calls::{Act, Owner, Seen};
use super::session::{End, Talk, not_arrived};
use super::terminals::Wanted;
use super::wire::Reply;
use crate::contract::{Said, Verdict};
use crate::error::AgentError;
use crate::schema::text_in;
use crate::toolset::MAX_FILE_BYTES;
use crate::toolset::folder::{Resolved, WorkFolder};

/// The name in messages for a path that an agent does not name.
const UNNAMED: &str = "a file that the agent does not name";

/// How many letters of a call are shown.
const SHOWN: usize = 200;

impl Talk {
    /// Answers a request of the agent.
    pub(super) fn on_request(&mut self, method: &str, params: &Json, reply: Reply) -> Result<(), AgentError> {
        let known = matches!(
            method,
            "session/request_permission"
                | "fs/read_text_file"
                | "fs/write_text_file"
                | "terminal/create"
                | "terminal/output"
                | "terminal/wait_for_exit"
                | "terminal/kill"
                | "terminal/release"
        );
        if !known {
            reply.unknown();
        } else if params.get("sessionId").and_then(Json::as_str) != Some(self.id.as_str()) {
            reply.missing("there is no such session");
        } else {
            match method {
                "session/request_permission" => return self.permission(params, reply),
                "fs/read_text_file" => self.read(params, reply),
                "fs/write_text_file" => self.write(params, reply),
                "terminal/create" => self.terminal(params, reply),
                _ => {
                    let name = params.get("terminalId").and_then(Json::as_str).unwrap_or_default();
                    if let Some(output) = self.terminals.output(name).filter(|_| method == "terminal/release")
                    {
                        self.host.on_result("bash", &output);
                    }
                    self.terminals.answer(method, name, reply);
                }
            }
        }
        Ok(())
    }

    fn permission(&mut self, params: &Json, reply: Reply) -> Result<(), AgentError> {
        let call = params.get("toolCall").unwrap_or(&Json::Null);
        let Some(id) = call.get("toolCallId").and_then(Json::as_str) else {
            reply.refuse("the call has no id");
            return Ok(());
        };
        self.calls.renew(id);
        self.calls.record_update(id, call).map_err(|why| bad(&why))?;
        let is_allowed = !self.is_leaving() && self.is_permitted(id);
        reply.with(json!({ "outcome": outcome(params, is_allowed) }));
        Ok(())
    }

    /// Rules on a call that the agent asks about. One of our own tools may be called where it is offered, and is ruled
    /// on when it arrives.
    fn is_permitted(&mut self, id: &str) -> bool {
        let Some(tool) = self.calls.get(id).and_then(Seen::our_tool) else { return self.judged(id) };
        let is_offered = self.offers(tool);
        if is_offered {
            self.calls.await_arrival(id, tool);
        } else {
            self.denied.push((Name::from(tool), String::from("it is not offered here")));
        }
        is_offered
    }

    /// Ends the session of an agent that was allowed to call a tool of ours and called something else.
    fn require_arrival(&mut self) {
        if let Some(tool) = self.calls.missing(false) {
            self.leave(End::Over(not_arrived(tool)), Duration::ZERO);
        }
    }

    /// Rules on a call that has not been made yet. Whether it may be.
    fn judged(&mut self, id: &str) -> bool {
        let Some((_, call)) = self.call_of(id) else { return true };
        let about = self.about(id);
        let is_allowed = self.ruled(&call, &about).is_ok();
        self.calls.ruled(id, is_allowed);
        is_allowed
    }

    /// The call as the tool policy sees it; nothing where there is nothing to judge.
    fn call_of(&self, id: &str) -> Option<(Act, ToolCall)> {
        let seen = self.calls.get(id)?;
        let act = seen.act();
        let deed = act.deed()?;
        let spots: Vec<Option<ResolvedPath>> = match deed {
            Deed::Look | Deed::Change => {
                seen.paths().iter().map(|path| Some(spot(&self.folder, path))).collect()
            }
            Deed::Run | Deed::Speak => Vec::new(),
        };
        let unnamed = (deed == Deed::Change).then(|| ResolvedPath::Outside(UNNAMED.to_owned()));
        let call = |spot: Option<ResolvedPath>| ToolCall { tool: self.tool(&act, spot.as_ref()), deed, spot };
        let mut calls = spots.into_iter().map(call);
        let first =
            calls.next().unwrap_or_else(|| ToolCall { tool: self.tool(&act, None), deed, spot: unnamed });
        // Of several paths the one that may not be is put to the session host; a call counts once.
        let may_not = |call: &ToolCall| matches!(rule(&self.order.allowance, 0, call), Ruling::Deny(_));
        let call = if may_not(&first) { first } else { calls.find(may_not).unwrap_or(first) };
        Some((act, call))
    }

    /// The name of the tool among ours. A file that exists is edited, a new one is written.
    fn tool(&self, act: &Act, spot: Option<&ResolvedPath>) -> Name {
        match act {
            Act::Ours | Act::Nothing => Name::from("speak"),
            Act::Look(name) => Name::from(*name),
            Act::Run => Name::from("bash"),
            Act::Other(name) => Name::from(name.chars().take(SHOWN).collect::<String>().as_str()),
            Act::Change => {
                let path = match spot {
                    Some(ResolvedPath::Inside(path)) => self.folder.resolve(path).ok(),
                    Some(ResolvedPath::Outside(_)) | None => None,
                };
                let is_there = path.is_some_and(|path| self.folder.kind(&path).is_some());
                Name::from(if is_there { "edit" } else { "write" })
            }
        }
    }

    fn about(&self, id: &str) -> String {
        self.calls.get(id).map(|seen| seen.about().to_owned()).unwrap_or_default()
    }

    /// Puts a call to the session host, and shows it. Why it may not be made, if it may not.
    fn ruled(&mut self, call: &ToolCall, about: &str) -> Result<(), String> {
        self.words.call(&self.secrets, &*self.host);
        let about: String = about.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        self.host.say(Said::Call(&call.tool, &self.secrets.redact(&about)));
        let why = match self.host.rule(call) {
            Verdict::Allow => return Ok(()),
            Verdict::Deny(why) => {
                self.denied.push((call.tool.clone(), why.clone()));
                why
            }
            Verdict::Ask(question) => {
                self.leave(End::Asked(question), Duration::ZERO);
                String::from("a person is asked first")
            }
            Verdict::Stop(why) => {
                self.leave(End::Over(AgentError::Stopped(why.clone())), Duration::ZERO);
                why
            }
        };
        self.host.say(Said::Back(&call.tool, Some(&self.secrets.redact(&why))));
        Err(why)
    }

    /// Takes in what is told about a call, and rules on what has been made without asking.
    pub(super) fn told_of_a_call(&mut self, update: &Json) -> Result<(), AgentError> {
        let Some(id) = update.get("toolCallId").and_then(Json::as_str) else { return Ok(()) };
        if update.get("sessionUpdate").and_then(Json::as_str) == Some("tool_call") {
            self.calls.renew(id);
        }
        if self.calls.get(id).is_none() {
            self.words.call(&self.secrets, &*self.host);
        }
        self.calls.record_update(id, update).map_err(|why| bad(&why))?;
        self.record_call(id, update);
        let unruled = self.unruled(false);
        unruled.iter().for_each(|id| self.rule_afterwards(id));
        self.require_arrival();
        Ok(())
    }

    /// Has the session host record what the agent tells of a call: its arguments, and what it brought.
    fn record_call(&self, id: &str, update: &Json) {
        let name = ["/_meta/toolName", "/title", "/kind"]
            .iter()
            .find_map(|at| update.pointer(at).and_then(Json::as_str).filter(|name| !name.is_empty()));
        let name: String =
            name.unwrap_or("tool").lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        if let Some(args) =
            update.get("rawInput").filter(|args| args.as_object().is_some_and(|one| !one.is_empty()))
        {
            self.host.on_own_call(&name, args);
        }
        let is_over = matches!(update.get("status").and_then(Json::as_str), Some("completed" | "failed"));
        let result = ["content", "rawOutput"].iter().filter_map(|key| update.get(*key)).map(text_in);
        if let Some(result) = result.into_iter().find(|text| is_over && !text.is_empty()) {
            let tool = self.call_of(id).map_or(name, |(_, call)| call.tool.to_string());
            self.host.on_result(&tool, &result);
        }
    }

    /// The turn is over: what is still open has been made.
    pub(super) fn rule_on_the_rest(&mut self) {
        let unruled = self.unruled(true);
        unruled.iter().for_each(|id| self.rule_afterwards(id));
    }

    fn unruled(&mut self, all: bool) -> Vec<String> {
        let folder = &self.folder;
        self.calls.unruled(all, &|path| compared(folder, path))
    }

    /// Rules on a call that was made without asking. An effect that is denied ends the turn; the agent is
    /// told why and may go on.
    fn rule_afterwards(&mut self, id: &str) {
        let Some((act, call)) = self.call_of(id) else { return };
        let is_failed = self.calls.get(id).is_some_and(Seen::is_failed);
        let about = self.about(id);
        let ruled = self.ruled(&call, &about);
        self.calls.ruled(id, ruled.is_ok());
        let is_effect = match act {
            Act::Change | Act::Run => !is_failed,
            Act::Ours | Act::Nothing | Act::Look(_) | Act::Other(_) => false,
        };
        match ruled {
            Err(why) if is_effect => self.leave(End::Denied(why), Duration::ZERO),
            // It was made all the same, and changed nothing in the world: the denial kept the agent from nothing.
            Err(_) => drop(self.denied.pop()),
            Ok(()) => {}
        }
    }

    /// Whether an effect may be made that the agent leaves to us.
    fn may(&mut self, deed: Deed, act: &Act, spot: Option<ResolvedPath>, about: &str) -> Result<(), String> {
        if self.is_leaving() {
            return Err(String::from("your turn is over"));
        }
        let call = ToolCall { tool: self.tool(act, spot.as_ref()), deed, spot };
        let path = match &call.spot {
            // Nothing covers what leads out.
            Some(ResolvedPath::Outside(path)) => {
                self.calls.note_effect(deed, Some(path));
                return self.ruled(&call, about);
            }
            Some(ResolvedPath::Inside(path)) => Some(path.as_str()),
            None => None,
        };
        let folder = &self.folder;
        match self.calls.owner(deed, path, &|path| compared(folder, path)) {
            Owner::Allowed => Ok(()),
            Owner::Of(id) => {
                let is_allowed = self.judged(&id);
                self.calls.covered(&id, deed, path);
                let last = || self.denied.last().map(|(_, why)| why.clone());
                let why = || last().unwrap_or_else(|| String::from("it may not be"));
                if is_allowed { Ok(()) } else { Err(why()) }
            }
            Owner::Nobody => {
                self.calls.note_effect(deed, path);
                self.ruled(&call, about)
            }
        }
    }

    fn read(&mut self, params: &Json, reply: Reply) {
        let Some(path) = params.get("path").and_then(Json::as_str) else { return reply.refuse("no path") };
        self.host.tried("read", &json!({ "path": path }));
        let found = self.folder.resolve(path);
        if let Err(why) = self.may(Deed::Look, &Act::Look("read"), Some(spot(&self.folder, path)), path) {
            return reply.refuse(&format!("denied: {why}"));
        }
        let Ok(path) = found else { return reply.refuse("denied: it is outside the worktree") };
        let number =
            |key: &str| params.get(key).and_then(Json::as_u64).and_then(|one| usize::try_from(one).ok());
        match text(&self.folder, &path) {
            // Nothing is hidden in it: what the agent writes back would be written back without it.
            Ok(text) => {
                let text = lines(&text, number("line"), number("limit"));
                self.host.on_result("read", &text);
                reply.with(json!({ "content": text }));
            }
            Err(why) => {
                self.host.say(Said::Back("read", Some(&self.secrets.redact(&why))));
                reply.missing(&why);
            }
        }
    }

    fn write(&mut self, params: &Json, reply: Reply) {
        let given = |key: &str| params.get(key).and_then(Json::as_str);
        let (Some(path), Some(content)) = (given("path"), given("content")) else {
            return reply.refuse("a path and a content are needed");
        };
        self.host.tried("write", &json!({ "path": path, "content": content }));
        let found = self.folder.resolve(path);
        if let Err(why) = self.may(Deed::Change, &Act::Change, Some(spot(&self.folder, path)), path) {
            return reply.refuse(&format!("denied: {why}"));
        }
        let Ok(path) = found else { return reply.refuse("denied: it is outside the worktree") };
        let written = if content.len() as u64 > MAX_FILE_BYTES {
            Err(format!("it has {} bytes; {MAX_FILE_BYTES} is the most", content.len()))
        } else {
            self.folder.write(&path, content.as_bytes()).map_err(|error| format!("{}: {error}", path.text()))
        };
        let wrong = written.as_ref().err().map(|why| self.secrets.redact(why));
        self.host.say(Said::Back("write", wrong.as_deref()));
        match written {
            Ok(()) => reply.with(json!({})),
            Err(why) => reply.refuse(&why),
        }
    }

    fn terminal(&mut self, params: &Json, reply: Reply) {
        let Some(wanted) = Wanted::of(params) else { return reply.refuse("no command") };
        self.host.tried("bash", &json!({ "command": wanted.command }));
        let folder = wanted.folder.clone().unwrap_or_else(|| String::from("."));
        let (found, place) = (self.folder.resolve(&folder), spot(&self.folder, &folder));
        let outside = matches!(place, ResolvedPath::Outside(_)).then_some(place);
        if let Err(why) = self.may(Deed::Run, &Act::Run, outside, &wanted.command) {
            return reply.refuse(&format!("denied: {why}"));
        }
        let Ok(inside) = found else { return reply.refuse("denied: it is outside the worktree") };
        if self.order.shell.is_none() {
            return reply.refuse("there is no shell here");
        }
        let place = self.folder.path().join(inside.text());
        match self.terminals.open(&wanted, place, self.timing.now()) {
            Ok(name) => reply.with(json!({ "terminalId": name })),
            Err(trouble) => reply.refuse(&self.secrets.redact(&trouble.to_string())),
        }
    }
}

fn bad(why: &str) -> AgentError {
    AgentError::Bad(format!("the agent is not to be trusted any more: {why}"))
}

fn spot(folder: &WorkFolder, path: &str) -> ResolvedPath {
    folder.resolve(path).map_or_else(|spot| spot, |path| ResolvedPath::Inside(path.text()))
}

/// A path as the book of calls compares it. What leads out is never equal to what does not.
fn compared(folder: &WorkFolder, path: &str) -> String {
    match spot(folder, path) {
        ResolvedPath::Inside(path) | ResolvedPath::Outside(path) => path,
    }
}

fn text(folder: &WorkFolder, path: &Resolved) -> Result<String, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.text());
    let (bytes, size) = folder.read(path, MAX_FILE_BYTES).map_err(named)?;
    if size > MAX_FILE_BYTES {
        return Err(format!("{} has {size} bytes; {MAX_FILE_BYTES} is the most", path.text()));
    }
    String::from_utf8(bytes).map_err(|_| format!("{} is no UTF-8 text", path.text()))
}

/// So many lines from the first one on, which is line 1.
fn lines(text: &str, from: Option<usize>, most: Option<usize>) -> String {
    let lines = text.split_inclusive('\n').skip(from.unwrap_or(1).saturating_sub(1));
    lines.take(most.unwrap_or(usize::MAX)).collect()
}

/// The option that says yes or no this once. Its kind counts, not its name; nothing is allowed for ever.
fn outcome(params: &Json, is_allowed: bool) -> Json {
    let options = params.get("options").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_kind = |kind: &str| {
        let one = options.iter().find(|one| one.get("kind").and_then(Json::as_str) == Some(kind))?;
        one.get("optionId").cloned()
    };
    let kinds: &[&str] = if is_allowed { &["allow_once", "reject_once"] } else { &["reject_once"] };
    match kinds.iter().find_map(|kind| of_kind(kind)) {
        Some(id) => json!({ "outcome": "selected", "optionId": id }),
        None => json!({ "outcome": "cancelled" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_chosen_by_kind() {
        let options = |kinds: &[&str]| {
            let options =
                kinds.iter().map(|kind| json!({ "kind": kind, "optionId": format!("id of {kind}") }));
            json!({ "options": options.collect::<Vec<_>>() })
        };
        let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
        let table = [
            (options(&all), true, Some("id of allow_once")),
            (options(&all), false, Some("id of reject_once")),
            (options(&["allow_always", "reject_once"]), true, Some("id of reject_once")),
            (options(&["allow_always"]), true, None),
            (options(&["allow_once"]), false, None),
            (json!({ "options": "none" }), true, None),
            (json!({ "options": [7, null, { "kind": "allow_once" }] }), true, None),
        ];
        for (params, is_allowed, wanted) in table {
            let found = outcome(&params, is_allowed);
            assert_eq!(found.get("optionId").and_then(Json::as_str), wanted, "{params}");
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let text = "a\nb\nc";
        assert_eq!(
            (lines(text, None, None), lines(text, Some(2), Some(1))),
            (text.to_owned(), "b\n".to_owned())
        );
        assert_eq!(
            (lines(text, Some(0), Some(1)), lines(text, Some(9), None)),
            ("a\n".to_owned(), String::new())
        );
    }
}
