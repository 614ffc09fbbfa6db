//! The toolset: the tools that our own loop serves.
//!
//! read, search, edit, write, bash, recall, signal, ask and submit. A call is checked against the schema of its tool,
//! its path is resolved, the session host rules, and only then it is made. What comes back is limited in size
//! and holds no secret. Nothing here starts a process: bash goes through the `CommandRunner` of the engine.

pub mod folder;
mod search;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ftl_core::tool_policy::{Deed, ResolvedPath, ToolCall};
use ftl_core::value::Name;
use serde_json::{Value as Json, json};

use crate::contract::{CommandRunner, Misfits, Said, SessionHost, SessionOrder, Verdict, check_answer};
use crate::error::AgentError;
use crate::mcp_endpoint::Offer;
use crate::schema::Schema;
use crate::secrets::Secrets;
use folder::{Resolved, WorkFolder};

/// The largest file that is read or changed.
pub const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;

/// How much of a file, of a search or of a command goes back to an agent.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;

/// How long a command may take if it does not say.
pub const COMMAND_TIME: Duration = Duration::from_secs(120);

/// How long a command may take at most.
pub const MAX_COMMAND_TIME: Duration = Duration::from_secs(600);

/// How many calls one turn of a model may hold.
pub const MAX_CALLS_IN_A_TURN: usize = 32;

/// One tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// The name by which agents call it.
    pub name: &'static str,
    /// What it does, for the agent.
    pub about: &'static str,
    /// The schema of its arguments.
    pub takes: Schema,
}

impl From<&Tool> for Offer {
    fn from(tool: &Tool) -> Offer {
        Offer { name: tool.name.to_owned(), about: tool.about.to_owned(), takes: tool.takes.json().clone() }
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// This goes back to the agent.
    Back(String),
    /// This too; it went wrong or was denied.
    Wrong(String),
    /// The agent submits its answer.
    Submitted(Json),
    /// The agent, or the session host about a call, asks a person.
    Asked(String),
    /// The session is over.
    Over(AgentError),
}

/// The name of the terminal tool.
pub const SUBMIT: &str = "submit";

/// The name of the tool that asks a person.
pub const ASK: &str = "ask";

/// The name of the tool that looks for lessons.
pub const RECALL: &str = "recall";

/// The name of the tool that reports a signal, which goes into the answer's `signals`.
pub const SIGNAL: &str = "signal";

/// Every tool of the toolset.
pub const NAMES: [&str; 9] = ["read", "search", "edit", "write", "bash", RECALL, SIGNAL, ASK, SUBMIT];

/// The tools that speak to `ftl` and do nothing to the world: what an agent with tools of its own gets.
pub const SPEAKING: [&str; 4] = [RECALL, SIGNAL, ASK, SUBMIT];

/// How many signals one answer may hold.
pub const MAX_SIGNALS: usize = 16;

/// The tools of these names as a model sees them; `submit` takes the answer.
pub fn tools(names: &BTreeSet<Name>, answer: &Schema) -> Vec<Tool> {
    let known = NAMES.into_iter().filter(|name| names.contains(*name));
    known.filter_map(|name| tool(name, answer)).collect()
}

fn tool(name: &'static str, answer: &Schema) -> Option<Tool> {
    let text = || json!({ "type": "string" });
    let (about, takes) = match name {
        "read" => (
            "Reads a text file of the worktree, or lists a folder. `from` is the first line, 1 by default.",
            object(
                &[("path", text())],
                &[
                    ("from", json!({ "type": "integer", "minimum": 1 })),
                    ("lines", json!({ "type": "integer", "minimum": 1 })),
                ],
            ),
        ),
        "search" => (
            "Finds lines by a regular expression, in all files or below `path`.",
            object(&[("pattern", json!({ "type": "string", "minLength": 1 }))], &[("path", text())]),
        ),
        "edit" => (
            "Replaces `old` by `new` in a file. `old` must stand there exactly once, unless `all` is true.",
            object(
                &[("path", text()), ("old", json!({ "type": "string", "minLength": 1 })), ("new", text())],
                &[("all", json!({ "type": "boolean" }))],
            ),
        ),
        "write" => (
            "Writes a whole file; folders are made where they are missing.",
            object(&[("path", text()), ("content", text())], &[]),
        ),
        "bash" => (
            "Runs a command with sh in the worktree. `seconds` is how long it may take.",
            object(
                &[("command", json!({ "type": "string", "minLength": 1 }))],
                &[("seconds", json!({ "type": "integer", "minimum": 1 }))],
            ),
        ),
        SUBMIT => {
            return Some(Tool {
                name,
                about: "Submits your answer. This ends your task.",
                takes: answer.clone(),
            });
        }
        ASK => (
            "Asks a person something that you cannot find out. This ends your turn.",
            object(&[("question", json!({ "type": "string", "minLength": 1 }))], &[]),
        ),
        RECALL => (
            "Looks for lessons of earlier work: an error message, or what you are about to do.",
            object(&[("about", json!({ "type": "string", "minLength": 1 }))], &[]),
        ),
        // Only an answer that has a place for signals can carry one.
        SIGNAL => (
            "Reports a signal with your answer, before you submit it.",
            object(&[("signal", signals(answer)?.clone())], &[]),
        ),
        _ => return None,
    };
    Some(Tool { name, about, takes: Schema::new(takes).ok()? })
}

/// What one signal of an answer may be.
fn signals(answer: &Schema) -> Option<&Json> {
    answer.json().get("properties")?.get("signals")?.get("items")
}

fn object(required: &[(&str, Json)], optional: &[(&str, Json)]) -> Json {
    let all = required.iter().chain(optional);
    let properties: serde_json::Map<_, _> = all.map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

/// The toolset of one session.
pub struct Toolset {
    folder: WorkFolder,
    tools: Vec<Tool>,
    host: Arc<dyn SessionHost>,
    shell: Option<Arc<dyn CommandRunner>>,
    secrets: Arc<Secrets>,
    signals: Mutex<Vec<Json>>,
    answer: Schema,
    misfits: Misfits,
}

impl Toolset {
    /// A toolset for an order.
    pub fn new(
        order: &SessionOrder,
        host: Arc<dyn SessionHost>,
        secrets: Arc<Secrets>,
    ) -> Result<Toolset, AgentError> {
        let shown = order.folder.display();
        let folder = WorkFolder::open(&order.folder).map_err(|error| {
            AgentError::of_io(format_args!("the folder {shown} cannot be opened"), &error)
        })?;
        let tools = tools(&order.allowance.tools, &order.answer);
        Ok(Toolset {
            folder,
            tools,
            host,
            shell: order.shell.clone(),
            secrets,
            signals: Mutex::default(),
            answer: order.answer.clone(),
            misfits: Misfits::default(),
        })
    }

    /// The tools that it has.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The answers of the session that did not fit.
    pub fn misfits(&self) -> &Misfits {
        &self.misfits
    }

    /// Makes a call, if it is well formed and the host lets it. What is submitted is not looked at: the loop that
    /// takes the turn sends it back.
    pub fn call(&self, name: &str, args: &Json) -> Done {
        self.reported(name, args, &|answer| Done::Submitted(answer))
    }

    /// The same for an agent that waits for the result of its call: a submitted answer that does not fit is refused
    /// there and then, a bounded number of times.
    pub fn call_checked(&self, name: &str, args: &Json) -> Done {
        self.reported(name, args, &|answer| match check_answer(&self.answer, &answer) {
            Ok(()) => Done::Submitted(answer),
            Err(faults) => self.misfits.refuse(&faults).map_or_else(Done::Over, Done::Wrong),
        })
    }

    fn reported(&self, name: &str, args: &Json, submit: &dyn Fn(Json) -> Done) -> Done {
        self.host.tried(name, args);
        let done = self.ruled(name, args, submit);
        let wrong = match &done {
            Done::Back(_) | Done::Submitted(_) | Done::Asked(_) => None,
            Done::Wrong(why) => Some(why.clone()),
            Done::Over(trouble) => Some(trouble.to_string()),
        };
        if let Done::Back(text) = &done {
            self.host.on_result(name, text);
        }
        self.host.say(Said::Back(name, wrong.as_deref()));
        done
    }

    fn ruled(&self, name: &str, args: &Json, submit: &dyn Fn(Json) -> Done) -> Done {
        if self.host.is_cancelled() {
            return Done::Over(AgentError::Cancelled);
        }
        let (call, path) = self.classify(name, args);
        self.host.say(Said::Call(name, &self.secrets.redact(&about(args))));
        // What a submitted answer lacks is told with all the answer's faults, and not here.
        if let Some(tool) = self.tools.iter().find(|tool| tool.name == name && name != SUBMIT) {
            let faults = tool.takes.faults(args);
            if !faults.is_empty() {
                return Done::Wrong(format!("this is no call of `{name}`:\n{}", faults.join("\n")));
            }
        }
        match self.host.rule(&call) {
            Verdict::Allow if name == SUBMIT => submit(self.secrets.redact_json(&self.with_signals(args))),
            Verdict::Allow => self.execute(name, args, path),
            Verdict::Deny(why) => Done::Wrong(format!("denied: {why}")),
            Verdict::Ask(question) => Done::Asked(question),
            Verdict::Stop(why) => Done::Over(AgentError::Stopped(why)),
        }
    }

    /// The call as the tool policy sees it, and the path that it is about.
    fn classify(&self, name: &str, args: &Json) -> (ToolCall, Option<Resolved>) {
        let deed = match name {
            "edit" | "write" => Deed::Change,
            SUBMIT | ASK | RECALL | SIGNAL => Deed::Speak,
            "read" | "search" => Deed::Look,
            _ => Deed::Run,
        };
        let path = args.get("path").and_then(Json::as_str).filter(|_| deed != Deed::Speak);
        let resolved = path.map(|path| self.folder.resolve(path));
        let spot = resolved
            .clone()
            .map(|found| found.map_or_else(|spot| spot, |path| ResolvedPath::Inside(path.text())));
        (ToolCall { tool: Name::from(name), deed, spot }, resolved.and_then(Result::ok))
    }

    /// Makes a call that was allowed, on the very path that was ruled on.
    fn execute(&self, name: &str, args: &Json, path: Option<Resolved>) -> Done {
        let text = |key: &str| args.get(key).and_then(Json::as_str).unwrap_or_default();
        let path = path.unwrap_or_default();
        let result = match name {
            ASK => return Done::Asked(self.secrets.redact(text("question"))),
            "read" => self.read(&path, args),
            "search" => search::search(&self.folder, &path, text("pattern"), &*self.host),
            "edit" => self.edit(&path, text("old"), text("new"), args.get("all") == Some(&Json::Bool(true))),
            "write" => self.write(&path, text("content").as_bytes()),
            RECALL => self.host.recall(text("about")).map_err(|error| error.to_string()),
            SIGNAL if self.tools.iter().any(|tool| tool.name == SIGNAL) => self.signal(args.get("signal")),
            "bash" => self.bash(text("command"), args.get("seconds").and_then(Json::as_u64)),
            other => Err(format!("the bench has no tool `{other}`")),
        };
        if self.host.is_cancelled() {
            return Done::Over(AgentError::Cancelled);
        }
        match result {
            Ok(back) => Done::Back(self.secrets.redact(&shorten(&back))),
            Err(why) => Done::Wrong(self.secrets.redact(&shorten(&why))),
        }
    }

    fn signal(&self, signal: Option<&Json>) -> Result<String, String> {
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        if signals.len() == MAX_SIGNALS {
            return Err(format!("{MAX_SIGNALS} signals is the most: submit your answer"));
        }
        if let Some(signal) = signal.filter(|one| !signals.contains(one)) {
            signals.push(signal.clone());
        }
        Ok(String::from("it goes with your answer"))
    }

    /// An answer with the signals that were reported before it.
    fn with_signals(&self, answer: &Json) -> Json {
        let mut answer = answer.clone();
        let signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fields) = answer.as_object_mut().filter(|_| !signals.is_empty()) {
            let named = fields.entry("signals").or_insert_with(|| json!([]));
            if let Some(named) = named.as_array_mut() {
                let more: Vec<Json> = signals.iter().filter(|one| !named.contains(one)).cloned().collect();
                named.extend(more);
            }
        }
        answer
    }

    fn read(&self, path: &Resolved, args: &Json) -> Result<String, String> {
        if self.folder.kind(path) == Some(folder::PathKind::Folder) {
            return self.list_folder(path);
        }
        let text = self.text(path)?;
        let number =
            |key: &str| args.get(key).and_then(Json::as_u64).and_then(|one| usize::try_from(one).ok());
        let (from, lines) = (number("from").unwrap_or(1), number("lines").unwrap_or(usize::MAX));
        let shown: Vec<&str> = text.lines().skip(from - 1).take(lines).collect();
        let all = text.lines().count();
        if from == 1 && shown.len() == all {
            return Ok(text);
        }
        Ok(format!(
            "lines {from} to {} of {all}:\n{}",
            from + shown.len().saturating_sub(1),
            shown.join("\n")
        ))
    }

    fn list_folder(&self, path: &Resolved) -> Result<String, String> {
        let entries = self.folder.list(path).map_err(|error| error.to_string())?;
        let lines = entries.iter().map(|(name, kind)| match kind {
            folder::PathKind::Folder => format!("{}/", name.to_string_lossy()),
            folder::PathKind::File | folder::PathKind::Other => name.to_string_lossy().into_owned(),
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    fn text(&self, path: &Resolved) -> Result<String, String> {
        let named = |error: std::io::Error| format!("{}: {error}", path.text());
        let (bytes, size) = self.folder.read(path, MAX_FILE_BYTES).map_err(named)?;
        if size > MAX_FILE_BYTES {
            return Err(format!("{} has {size} bytes; {MAX_FILE_BYTES} is the most", path.text()));
        }
        String::from_utf8(bytes).map_err(|_| format!("{} is no UTF-8 text", path.text()))
    }

    fn edit(&self, path: &Resolved, old: &str, new: &str, all: bool) -> Result<String, String> {
        let text = self.text(path)?;
        let found = text.matches(old).count();
        match found {
            0 => return Err(format!("{}: `old` does not stand there", path.text())),
            1 => {}
            _ if all => {}
            _ => {
                return Err(format!(
                    "{}: `old` stands there {found} times; give more of it, or set `all`",
                    path.text()
                ));
            }
        }
        self.write(path, text.replace(old, new).as_bytes())?;
        Ok(format!("{}: {found} replaced", path.text()))
    }

    fn write(&self, path: &Resolved, bytes: &[u8]) -> Result<String, String> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(format!("it has {} bytes; {MAX_FILE_BYTES} is the most", bytes.len()));
        }
        self.folder.write(path, bytes).map_err(|error| format!("{}: {error}", path.text()))?;
        Ok(format!("{}: {} bytes written", path.text(), bytes.len()))
    }

    fn bash(&self, command: &str, seconds: Option<u64>) -> Result<String, String> {
        let Some(shell) = &self.shell else { return Err(String::from("there is no shell here")) };
        let limit = seconds.map_or(COMMAND_TIME, Duration::from_secs).min(MAX_COMMAND_TIME);
        let ran = shell.run(command, self.folder.path(), limit, &*self.host);
        let ran = ran.map_err(|error| error.to_string())?;
        match ran.code {
            Some(0) => Ok(ran.output),
            Some(code) => Err(format!("exit code {code}\n{}", ran.output)),
            None => Err(format!("it was ended\n{}", ran.output)),
        }
    }
}

/// What a call is about, in one line.
fn about(args: &Json) -> String {
    let first = ["path", "command", "pattern", "question"].iter().find_map(|key| args.get(*key)?.as_str());
    first.unwrap_or_default().lines().next().unwrap_or_default().chars().take(200).collect()
}

/// The text, with its middle left out where it is too long.
fn shorten(text: &str) -> String {
    if text.len() <= MAX_RESULT_BYTES {
        return text.to_owned();
    }
    let half = MAX_RESULT_BYTES / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests;
