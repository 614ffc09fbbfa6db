//! The contract: what every backend is asked, what it may say, and who listens.
//!
//! A session never decides what comes next: it takes a turn and rests. An answer that must have a shape
//! is checked in one place, [`converse`], for all backends, and sent back a bounded number of times. No
//! answer has a default, and what a backend does not report is unknown, never zero.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ftl_core::run::Usage;
use ftl_core::tool_policy::{ToolAllowance, ToolCall};
use ftl_core::value::Name;
use ftl_process::Cancel;
use serde_json::Value as Json;

use crate::error::AgentError;
use crate::launch::Launcher;
use crate::schema::{Schema, find_json};

/// How often an answer that does not fit is sent back.
pub const MAX_CORRECTIONS: u32 = 2;

/// How large an answer may be.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// How much an agent may say in one turn.
pub const MAX_TURN_BYTES: usize = 8 * 1024 * 1024;

/// The meter of tokens.
pub const TOKENS: &str = "tokens";

/// The parts of the tokens, where an agent tells them apart: sent and not cached, read from a cache, written. They are
/// counted beside the sum, and nothing limits them.
pub const TOKEN_PARTS: [&str; 3] = ["input_tokens", "cached_tokens", "output_tokens"];

/// The meter of money, in millionths.
pub const MONEY: &str = "money";

/// The meter of turns.
pub const TURNS: &str = "turns";

/// An agent or a model that can be asked to do a `Task`.
pub trait Backend: Send + Sync {
    /// What it is called in the settings.
    fn name(&self) -> &str;
    /// The rules of a state that it surely keeps to.
    fn enforces(&self) -> Enforced;
    /// Whether it is there and can be reached, without spending anything.
    fn probe(&self) -> ProbeResult;
    /// Opens a session. Nothing is said to the agent yet.
    fn open(
        &self,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
    ) -> Result<Box<dyn AgentSession>, AgentError>;
}

/// A conversation with an agent.
pub trait AgentSession: Send {
    /// Says something to the agent and listens until it rests.
    fn turn(&mut self, words: &[PromptPart]) -> Result<TurnRest, AgentError>;
    /// The meters of which some use was not reported, so far.
    fn unknown(&self) -> BTreeSet<Name>;
    /// The call that was denied last in this turn, and why: where the agent need not have been told.
    fn denied(&self) -> Option<String> {
        None
    }
    /// Where answers that do not fit are counted, if the session refuses some of them by itself.
    fn misfits(&self) -> Option<&Misfits> {
        None
    }
    /// Ends it. Nothing of it is alive afterwards.
    fn close(self: Box<Self>);
}

/// Who rules, charges and listens: one for each task.
pub trait SessionHost: Send + Sync {
    /// Rules on a call before it is made, and counts it when it may be.
    fn rule(&self, call: &ToolCall) -> Verdict;
    /// Charges what was used since the last time; an error ends the session.
    fn charge(&self, usage: &Usage) -> Result<(), ChargeRefusal>;
    /// Lets those who watch see something. It must not wait for them.
    fn say(&self, said: Said<'_>);
    /// Whether the engine has cancelled the task.
    fn is_cancelled(&self) -> bool;
    /// The token that says so, for a thread that waits for it; nothing where it must be looked at again and again.
    fn cancel_token(&self) -> Option<&Cancel> {
        None
    }
    /// A tool is called with this, whatever will be ruled: for hosts that record a session.
    fn tried(&self, _tool: &str, _args: &Json) {}
    /// A program of the agent's own calls one of its tools with this: for hosts that record a session. The words
    /// are the program's, so the call cannot be made again from them.
    fn on_own_call(&self, _tool: &str, _args: &Json) {}
    /// What a call brought, as it came: for hosts that record a session. The host hides secrets and keeps a part of
    /// it.
    fn on_result(&self, _tool: &str, _result: &str) {}
    /// Something was said to the agent after its prompt: for hosts that record a session.
    fn on_message(&self, _text: &str) {}
    /// A session was opened under this name and can be taken up by it again, as [`SessionOrder::earlier`].
    fn on_session_opened(&self, _session: &str) {}
    /// Looks for lessons about something: what is known, as text.
    fn recall(&self, about: &str) -> Result<String, RecallError> {
        Err(RecallError::NothingAbout(about.to_owned()))
    }
}

/// How a session host rules on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be made.
    Allow,
    /// It may not; the agent is told and goes on.
    Deny(String),
    /// A person is asked first; the session rests with the question.
    Ask(String),
    /// It may not, and the session is over.
    Stop(String),
}

/// Why a session may use no more; it ends with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeRefusal(pub String);

impl fmt::Display for ChargeRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ChargeRefusal {}

/// Why no lesson was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecallError {
    /// There are no lessons here.
    NoMemory,
    /// There are no lessons here, about that or anything else.
    NothingAbout(String),
    /// The lessons could not be read.
    Failed(String),
}

impl fmt::Display for RecallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecallError::NoMemory => out.write_str("nothing is remembered here"),
            RecallError::NothingAbout(about) => {
                write!(out, "nothing is remembered here, about `{about}` or anything else")
            }
            RecallError::Failed(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for RecallError {}

/// What those who watch may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A piece of what the agent says.
    Text(&'a str),
    /// A piece of what it thinks aloud.
    Thought(&'a str),
    /// It calls a tool; what it is about, in one line.
    Call(&'a str, &'a str),
    /// A call came back: the tool, and what went wrong if something did.
    Back(&'a str, Option<&'a str>),
    /// What was said since the last turn began is void: the turn is taken again.
    Again,
}

/// What a session is opened for.
#[derive(Clone, Debug)]
pub struct SessionOrder {
    /// The folder in which the agent works.
    pub folder: PathBuf,
    /// The role that it answers.
    pub role: String,
    /// The form in which it is asked, such as `implement`.
    pub form: Option<String>,
    /// The model, where it is not the backend's own.
    pub model: Option<String>,
    /// Who the agent is and which rules hold.
    pub system: String,
    /// The tools and the files that it may use.
    pub allowance: ToolAllowance,
    /// The shape of its answer.
    pub answer: Schema,
    /// How long and how much.
    pub limits: SessionLimits,
    /// Who runs commands; nothing where none may be run.
    pub shell: Option<Arc<dyn CommandRunner>>,
    /// Who starts the agent's own program; nothing where no program may be started.
    pub launcher: Option<Arc<dyn Launcher>>,
    /// Where the agent's own program finds the tools of its state; nothing where it has no way to them.
    pub mcp_endpoint: Option<McpEndpoint>,
    /// An earlier session of the same author, to go on in. A backend that cannot, or whose agent does not know
    /// it any more, opens a new one: the prompt says all that is needed either way.
    pub earlier: Option<String>,
}

/// How long a session may take and how much it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// How many times the model is asked in a session.
    pub requests: u32,
    /// How long an agent may be silent.
    pub silence: Duration,
    /// How long one answer of a model may take.
    pub whole: Duration,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { requests: 100, silence: Duration::from_secs(120), whole: Duration::from_secs(900) }
    }
}

/// One part of what is said to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPart {
    /// Whether it is the task, feedback or background.
    pub kind: PartKind,
    /// The words of the part.
    pub text: String,
}

/// What a part of a prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// The task itself.
    Task,
    /// What a reviewer, a gate or a person said about earlier work; it is never dropped.
    Feedback,
    /// Lessons and text of the repository; may be dropped when there is no room.
    Background,
}

impl PromptPart {
    /// A part of that kind.
    pub fn new(kind: PartKind, text: impl Into<String>) -> PromptPart {
        PromptPart { kind, text: text.into() }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnRest {
    /// The agent submitted this through the terminal tool.
    Submitted(Json),
    /// It spoke, and submitted nothing.
    Said(String),
    /// It asks a person something.
    Asked(String),
}

/// Runs a command in a process tree that the engine owns. The engine hands one in.
pub trait CommandRunner: Send + Sync + fmt::Debug {
    /// Runs a command in a folder, for at most so long; it asks the session host whether it is still wanted.
    fn run(
        &self,
        command: &str,
        folder: &Path,
        limit: Duration,
        host: &dyn SessionHost,
    ) -> Result<Ran, CommandFailure>;
}

/// Why a command could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFailure(pub String);

impl fmt::Display for CommandFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for CommandFailure {}

/// The end of a command, with its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; nothing if it was ended.
    pub code: Option<i32>,
    /// Its output, both streams.
    pub output: String,
}

/// Where windows are made, and which program serves them. The engine hands one in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpEndpoint {
    /// A folder that only we can enter; its path is short, for a socket's path has 107 bytes at most.
    pub folder: PathBuf,
    /// The program that speaks MCP for a window, with its words.
    pub program: PathBuf,
    /// The arguments of the program.
    pub args: Vec<String>,
}

/// How calls of tools are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Before they are made, so that they can be denied.
    Before,
    /// Only when they were made.
    After,
    /// They are neither seen nor counted.
    Never,
}

impl Counted {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Counted::Before => "before",
            Counted::After => "after",
            Counted::Never => "not at all",
        }
    }
}

/// What a backend enforces. Each `true` is proven by the contract suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforced {
    /// When calls of tools are counted.
    pub calls: Counted,
    /// Whether it cannot write outside its allowance by its file tools.
    pub paths: bool,
    /// Whether a command that it runs is kept to those paths too.
    pub commands: bool,
    /// Whether it reports tokens.
    pub tokens: bool,
    /// Whether it reports money, or its price is known.
    pub money: bool,
    /// Whether it stops in the middle of a turn.
    pub cancel: bool,
    /// Whether a session can be taken up again by another process.
    pub resume: bool,
    /// Whether the service itself holds the answer to its shape.
    pub structured: bool,
}

/// Why an agent cannot be used now, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// Whether it can be used now; if not, why and what to do.
    pub usable: Result<(), Unusable>,
    /// Its version or address, for people.
    pub what: String,
}

/// How a conversation came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationEnd {
    /// The answer, or why there is none.
    pub outcome: Result<AgentAnswer, AgentError>,
    /// The meters of which some use is unknown.
    pub unknown: BTreeSet<Name>,
}

/// What came out of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAnswer {
    /// An answer that fits its schema.
    Done(Json),
    /// A question to a person; the session is closed.
    Asked(String),
}

/// Counts the answers of one conversation that do not fit, wherever they are refused.
#[derive(Debug, Default)]
pub struct Misfits(AtomicU32);

impl Misfits {
    /// Counts one: what the agent is told about it, or the end of the conversation when it was the last.
    pub fn refuse(&self, faults: &str) -> Result<String, AgentError> {
        if self.0.fetch_add(1, Ordering::Relaxed) >= MAX_CORRECTIONS {
            let most = MAX_CORRECTIONS + 1;
            return Err(AgentError::Bad(format!("{most} answers in a row do not fit: {faults}")));
        }
        Ok(format!("Your answer does not fit its schema:\n{faults}\nSubmit the whole answer again."))
    }
}

/// Opens a session, says the prompt, and sends an answer that does not fit back with what is wrong.
pub fn converse(
    backend: &dyn Backend,
    order: SessionOrder,
    words: &[PromptPart],
    host: &Arc<dyn SessionHost>,
) -> ConversationEnd {
    let answer = order.answer.clone();
    let mut session = match backend.open(order, host.clone()) {
        Ok(session) => session,
        Err(trouble) => return ConversationEnd { outcome: Err(trouble), unknown: BTreeSet::new() },
    };
    let outcome = until_it_fits(&mut *session, &answer, words, &**host);
    let unknown = session.unknown();
    session.close();
    ConversationEnd { outcome, unknown }
}

fn until_it_fits(
    session: &mut dyn AgentSession,
    answer: &Schema,
    words: &[PromptPart],
    host: &dyn SessionHost,
) -> Result<AgentAnswer, AgentError> {
    let mut rest = session.turn(words)?;
    let own = Misfits::default();
    loop {
        let faults = match fitting(answer, rest) {
            Ok(answer) => return Ok(answer),
            Err(faults) => faults,
        };
        let denied = session.denied().map(|denied| format!("\n- {denied}")).unwrap_or_default();
        let text = session.misfits().unwrap_or(&own).refuse(&format!("{faults}{denied}"))?;
        host.on_message(&text);
        rest = session.turn(&[PromptPart::new(PartKind::Feedback, text)])?;
    }
}

/// The answer in what an agent rests with, or what is wrong with it.
fn fitting(answer: &Schema, rest: TurnRest) -> Result<AgentAnswer, String> {
    let json = match rest {
        TurnRest::Asked(question) => return Ok(AgentAnswer::Asked(question)),
        TurnRest::Submitted(json) => json,
        TurnRest::Said(text) => find_json(&text).ok_or_else(|| {
            String::from("- there is no JSON in it; call `submit`, or answer with JSON alone")
        })?,
    };
    check_answer(answer, &json).map(|()| AgentAnswer::Done(json))
}

/// Checks an answer against its size and its schema; what is wrong with it, a line each.
pub(crate) fn check_answer(answer: &Schema, json: &Json) -> Result<(), String> {
    let bytes = json.to_string().len();
    if bytes > MAX_ANSWER_BYTES {
        return Err(format!("- it has {bytes} bytes; {MAX_ANSWER_BYTES} is the most"));
    }
    let faults = answer.faults(json);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_size() {
        // Two quotes are part of it.
        let of =
            |length: usize| fitting(&Schema::anything(), TurnRest::Submitted(Json::from("x".repeat(length))));
        assert!(of(MAX_ANSWER_BYTES - 2).is_ok());
        assert!(of(MAX_ANSWER_BYTES - 1).unwrap_err().contains("is the most"));
    }
}
