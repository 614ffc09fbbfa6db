//! One session with an agent: it is started, introduced, prompted, listened to, and ended.
//!
//! One loop in one thread takes lines of the agent, calls through its window, output of its terminals and
//! the passing of time, in the order in which they come. A turn never outlives its limits, and an agent
//! that does not end its turn when it is told to is ended with all that it has started.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ftl_core::run::Usage;
use ftl_core::value::Name;
use ftl_process::CancelHook;
use ftl_process::sandbox::Reach;
use serde_json::Value as Json;

use super::calls::Calls;
use super::settings::{AcpAgent, Loads, TokenCount};
use super::terminals::Terminals;
use super::usage::Used;
use super::wire::{News, Refusal, SERVER, Wire, wants_login};
use super::words::Words;
use crate::contract::{
    AgentSession, MONEY, Misfits, PromptPart, SessionHost, SessionOrder, TOKENS, TURNS, TurnRest,
};
use crate::error::AgentError;
use crate::launch::{AgentProgram, Heard, Hearing, InputChannel, ProgramExit, Tree, first_cause};
use crate::mcp_endpoint::{McpBridge, McpCall, Offer, ToolAnswer};
use crate::secrets::Secrets;
use crate::timing::{Quiet, Timing};
use crate::toolset::folder::WorkFolder;
use crate::toolset::{Done, SPEAKING, Toolset};

/// How long an agent may take until a session is open.
pub const MAX_START: Duration = Duration::from_secs(60);

/// How long an agent may go on after it has submitted or asked.
pub const MAX_FAREWELL: Duration = Duration::from_secs(10);

/// How long an agent may take to end a turn that was cancelled.
pub const MAX_CANCEL: Duration = Duration::from_secs(2);

/// How long an agent may take to end when it finds the end of its input.
pub const MAX_CLOSE: Duration = Duration::from_secs(1);

/// How often an agent is told in one turn that it was denied something, when it has ended its turn over it.
pub const MAX_REBUKES: u32 = 8;

/// How many requests of an agent are answered in one turn.
pub const MAX_REQUESTS: u32 = 4096;

/// How many lines that are no JSON are passed over in one turn.
pub const MAX_GARBAGE: u32 = 1000;

/// How long is waited for a line before everything else is looked at.
const SLICE: Duration = Duration::from_millis(5);

/// What an agent is told about the window: some hide tools of servers behind a search.
const TOOLS: &str = "The MCP server `ftl` offers these tools to you: {}. If you do not see them, search for them. \
                     When you are done, call `submit` of `ftl` with your answer; if you cannot, answer with its JSON alone.";

/// A session with a program that speaks the Agent Client Protocol.
pub(super) struct Talk {
    pub(super) agent: Arc<AcpAgent>,
    pub(super) order: SessionOrder,
    pub(super) host: Arc<dyn SessionHost>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) timing: Arc<dyn Timing>,
    pub(super) folder: WorkFolder,
    pub(super) terminals: Terminals,
    pub(super) calls: Calls,
    pub(super) words: Words,
    pub(super) wire: Wire,
    /// The tools of calls that were denied in this turn, and why; the last one last.
    pub(super) denied: Vec<(Name, String)>,
    pub(super) id: String,
    toolset: Toolset,
    window: Option<McpBridge>,
    input: Arc<dyn InputChannel>,
    output: Hearing,
    quiet: Quiet,
    /// Wakes the thread that listens when the session is cancelled.
    _hook: Option<CancelHook>,
    tree: Option<Box<dyn Tree>>,
    leaving: Option<Leaving>,
    used: Used,
    unknown: BTreeSet<Name>,
    prompts: u32,
    heard: Counts,
}

/// How much was heard in a turn.
#[derive(Default)]
struct Counts {
    garbage: u32,
    requests: u32,
}

/// A turn that is to end.
struct Leaving {
    end: End,
    until: Duration,
    is_cancelled: bool,
}

/// How a turn ends that does not end by itself.
#[derive(Debug)]
pub(super) enum End {
    /// The agent submitted this as its work.
    Submitted(Json),
    /// A person is asked.
    Asked(String),
    /// It did what is denied, without asking.
    Denied(String),
    /// The session is over.
    Over(AgentError),
}

/// How a prompt ended.
enum Close {
    Rest(TurnRest),
    /// Something was denied, and the agent stopped over it.
    Denied(String),
}

impl AgentSession for Talk {
    fn turn(&mut self, words: &[PromptPart]) -> Result<TurnRest, AgentError> {
        let mut parts: Vec<String> = words.iter().map(|part| part.text.clone()).collect();
        if self.prompts == 0 {
            parts.splice(0..0, self.introduction());
        }
        for _ in 0..=MAX_REBUKES {
            let why = match self.prompted(&parts)? {
                Close::Rest(rest) => return Ok(rest),
                Close::Denied(why) => why,
            };
            parts = vec![format!("Denied: {why}. Go on without it.")];
        }
        Err(AgentError::Bad(format!("the agent was denied more than {MAX_REBUKES} times and does not go on")))
    }

    fn unknown(&self) -> BTreeSet<Name> {
        self.unknown.clone()
    }

    fn denied(&self) -> Option<String> {
        self.denied
            .last()
            .map(|(tool, why)| self.secrets.redact(&format!("the call of `{tool}` was denied: {why}")))
    }

    fn misfits(&self) -> Option<&Misfits> {
        Some(self.toolset.misfits())
    }

    fn close(mut self: Box<Self>) {
        self.input.close();
        self.terminals.end();
        self.window = None;
        let end = self.timing.now() + MAX_CLOSE;
        while self.tree.is_some() && self.timing.now() < end {
            if let Some(Heard::Ended(_)) = self.output.next(SLICE) {
                break;
            }
        }
        self.end();
    }
}

/// What an agent needs beside what its role may touch: its own home, and the window to its tools.
fn reach_of(agent: &AcpAgent, window: Option<&McpBridge>) -> Reach {
    let mut reach = window.map(McpBridge::reach).unwrap_or_default();
    reach.write.extend(agent.home.clone());
    reach
}

impl Talk {
    /// Starts an agent and opens its session.
    pub(super) fn open(
        agent: Arc<AcpAgent>,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
        secrets: Arc<Secrets>,
        timing: Arc<dyn Timing>,
    ) -> Result<Talk, AgentError> {
        if host.is_cancelled() {
            return Err(AgentError::Cancelled);
        }
        let none = || AgentError::CouldNotRun(String::from("no program may be started here"));
        let launcher = order.launcher.clone().ok_or_else(none)?;
        let toolset = Toolset::new(&order, host.clone(), secrets.clone())?;
        let unopened = |error: std::io::Error| AgentError::of_io("the folder cannot be opened", &error);
        let folder = WorkFolder::open(&order.folder).map_err(unopened)?;
        let window = open_window(&order, &toolset, &*timing)?;
        if let Some(home) = &agent.home {
            make_home(home)?;
        }
        let program = AgentProgram {
            program: agent.program.clone(),
            args: agent.args.clone(),
            folder: folder.path().to_owned(),
            env: agent.env.clone(),
            reach: reach_of(&agent, window.as_ref()),
        };
        let launched = launcher.launch(&program)?;
        let wire = Wire::open(launched.input.clone()).map_err(AgentError::CouldNotRun)?;
        let waker = launched.output.waker();
        if let Some(window) = &window {
            window.wake_by_calls(waker.clone());
        }
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || waker.wake());
        let hook = host.cancel_token().map(|cancel| cancel.on_cancel(&wake));
        let mut talk = Talk {
            terminals: Terminals::new(launcher, agent.env.clone()),
            agent,
            order,
            host,
            secrets,
            timing,
            folder,
            calls: Calls::default(),
            words: Words::default(),
            wire,
            denied: Vec::new(),
            id: String::new(),
            toolset,
            window,
            input: launched.input,
            output: launched.output,
            quiet: Quiet::new(SLICE),
            _hook: hook,
            tree: Some(launched.tree),
            leaving: None,
            used: Used::default(),
            unknown: BTreeSet::new(),
            prompts: 0,
            heard: Counts::default(),
        };
        talk.introduce()?;
        Ok(talk)
    }

    /// Opens the protocol's own session, and sets its mode and options.
    fn introduce(&mut self) -> Result<(), AgentError> {
        let asked = self.wire.initialize(self.agent.habits.serves)?;
        let able = self.answered(asked)?;
        let offers = able.pointer("/agentCapabilities/loadSession").and_then(Json::as_bool) == Some(true);
        let loads = match self.agent.habits.loads {
            Loads::Yes | Loads::IfOffered => offers,
            Loads::No => false,
        };
        let earlier = self.order.earlier.clone().filter(|id| loads && !id.is_empty());
        let loaded = earlier.map(|id| self.load(id)).transpose()?.flatten();
        let opened = match loaded {
            Some(opened) => opened,
            None => self.open_new()?,
        };
        if loads {
            self.host.on_session_opened(&self.id);
        }
        if let Some(mode) = self.agent.habits.mode.clone() {
            self.set_mode(&opened, &mode)?;
        }
        let model = self.order.model.clone().map(|model| (String::from("model"), model));
        for (option, value) in self.agent.habits.options.clone().into_iter().chain(model) {
            let asked = self.wire.set_option(&self.id, &option, &value)?;
            self.answered(asked)?;
        }
        Ok(())
    }

    /// Opens a new session.
    fn open_new(&mut self) -> Result<Json, AgentError> {
        let server = self.window.as_ref().map(McpBridge::server);
        let asked = self.wire.open_session(self.folder.path(), server.as_ref())?;
        let opened = self.answered(asked)?;
        let id = opened.get("sessionId").and_then(Json::as_str).filter(|id| !id.is_empty());
        let none = || AgentError::CouldNotRun(String::from("the agent opened a session without an id"));
        self.id = id.ok_or_else(none)?.to_owned();
        Ok(opened)
    }

    /// Takes up an earlier session; nothing where the agent does not know it any more. What it tells of that
    /// session again meanwhile was ruled on, counted and shown when it happened.
    fn load(&mut self, id: String) -> Result<Option<Json>, AgentError> {
        let server = self.window.as_ref().map(McpBridge::server);
        let asked = self.wire.load_session(&id, self.folder.path(), server.as_ref())?;
        match self.replied(asked)? {
            Ok(opened) => {
                self.id = id;
                Ok(Some(opened))
            }
            Err(_) => Ok(None),
        }
    }

    /// Sets a mode that is not set already. A mode that is not there is a fault of the settings.
    fn set_mode(&mut self, opened: &Json, mode: &str) -> Result<(), AgentError> {
        if opened.pointer("/modes/currentModeId").and_then(Json::as_str) == Some(mode) {
            return Ok(());
        }
        let modes = opened.pointer("/modes/availableModes").and_then(Json::as_array);
        let names: Vec<&str> =
            modes.into_iter().flatten().filter_map(|mode| mode.get("id")?.as_str()).collect();
        // Who takes up a session need not say again which modes there are.
        let is_told = opened.get("modes").is_some() || self.order.earlier.as_ref() != Some(&self.id);
        if is_told && !names.contains(&mode) {
            let has = if names.is_empty() { String::from("none") } else { names.join(", ") };
            return Err(AgentError::CouldNotRun(format!("the agent has no mode `{mode}`; it has {has}")));
        }
        let asked = self.wire.set_mode(&self.id, mode)?;
        self.answered(asked).map(drop)
    }

    /// Waits for an answer before the first prompt.
    fn answered(&mut self, asked: u64) -> Result<Json, AgentError> {
        let replied = self.replied(asked)?;
        replied.map_err(|refusal| could_not_run(self.explain_refusal(&refusal)))
    }

    /// The same, where a refusal is an answer too.
    fn replied(&mut self, asked: u64) -> Result<Result<Json, Refusal>, AgentError> {
        let end = self.timing.now() + MAX_START;
        loop {
            if self.host.is_cancelled() {
                return Err(AgentError::Cancelled);
            }
            if self.timing.now() >= end {
                return Err(AgentError::TimedOut(format!(
                    "the agent opened no session within {MAX_START:?}"
                )));
            }
            self.pump().map_err(could_not_run)?;
            while let Some(news) = self.wire.next() {
                match news {
                    News::Answered(number, result) if number == asked => return Ok(result),
                    News::Asked(_, _, reply) => reply.unknown(),
                    News::Answered(..) | News::Told(..) => {}
                }
            }
            self.wire.run().map_err(could_not_run)?;
        }
    }

    /// What an agent is told before its first task.
    fn introduction(&self) -> Vec<String> {
        let names: Vec<&str> = speaking(&self.toolset).map(|offer| offer.0).collect();
        let tools = self.window.as_ref().filter(|_| !names.is_empty());
        let tools = tools.map(|_| TOOLS.replace("{}", &names.join(", ")));
        [Some(self.order.system.clone()).filter(|text| !text.is_empty()), tools]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Says something and listens until the agent rests.
    fn prompted(&mut self, parts: &[String]) -> Result<Close, AgentError> {
        let most = self.order.limits.requests;
        if self.prompts >= most {
            return Err(AgentError::Bad(format!(
                "the agent was prompted {most} times and has not submitted"
            )));
        }
        if self.tree.is_none() {
            return Err(AgentError::Died(String::from("the agent has ended")));
        }
        self.prompts += 1;
        (self.leaving, self.words, self.heard) = (None, Words::default(), Counts::default());
        self.calls.begin();
        self.denied.clear();
        self.wire.begin();
        let asked = self.wire.prompt(&self.id, parts)?;
        let result = self.listen(asked);
        self.words.flush(&self.secrets, &*self.host);
        let result = result?;
        self.rule_on_the_rest();
        let charged = self.charge(result.as_ref());
        match self.leaving.take().map(|leaving| leaving.end) {
            Some(End::Over(trouble)) => return Err(trouble),
            Some(End::Denied(why)) => return charged.map(|()| Close::Denied(why)),
            Some(End::Submitted(json)) => return charged.map(|()| Close::Rest(TurnRest::Submitted(json))),
            Some(End::Asked(question)) => return charged.map(|()| Close::Rest(TurnRest::Asked(question))),
            None => charged?,
        }
        if let Some(tool) = self.calls.missing(true) {
            return Err(not_arrived(tool));
        }
        self.rested(&result.unwrap_or_default())
    }

    /// Listens until the prompt is answered; nothing if the agent had to be ended before.
    fn listen(&mut self, asked: u64) -> Result<Option<Json>, AgentError> {
        let begun = self.timing.now();
        let mut heard = begun;
        loop {
            let now = self.timing.now();
            if self.host.is_cancelled() {
                self.leave(End::Over(AgentError::Cancelled), Duration::ZERO);
            }
            if self.is_left(now)? {
                return Ok(None);
            }
            self.terminals.tend(now);
            if self.knocks() || self.terminals.is_awaited() {
                heard = now;
            }
            self.in_time(now, begun, heard)?;
            self.wire.run()?;
            let is_heard = match self.pump() {
                Ok(is_heard) => is_heard,
                Err(trouble) => return self.on_exit(trouble),
            };
            while let Some(news) = self.wire.next() {
                match news {
                    News::Answered(number, result) if number == asked => {
                        return result.map(Some).map_err(|refusal| self.explain_refusal(&refusal));
                    }
                    News::Answered(..) => {}
                    News::Told(method, params) => self.on_notification(&method, &params)?,
                    News::Asked(method, params, reply) => {
                        self.heard.requests += 1;
                        if self.heard.requests > MAX_REQUESTS {
                            return Err(AgentError::Bad(format!(
                                "the agent asked more than {MAX_REQUESTS} times in one turn"
                            )));
                        }
                        self.on_request(&method, &params, reply)?;
                    }
                }
            }
            // How long we take to answer is not the agent's silence.
            if is_heard {
                heard = self.timing.now();
            }
        }
    }

    /// Whether the agent is too late: silent for too long, or in its turn for too long.
    fn in_time(&self, now: Duration, begun: Duration, heard: Duration) -> Result<(), AgentError> {
        let (silence, whole) = (self.order.limits.silence, self.order.limits.whole);
        if self.leaving.is_some() {
            return Ok(());
        }
        if now.saturating_sub(heard) >= silence {
            return Err(AgentError::TimedOut(format!("the agent said nothing for {silence:?}")));
        }
        if now.saturating_sub(begun) >= whole {
            return Err(AgentError::TimedOut(format!("the agent's turn took more than {whole:?}")));
        }
        Ok(())
    }

    /// The turn is to end, now or after some patience. What ends the session outweighs everything else.
    pub(super) fn leave(&mut self, end: End, patience: Duration) {
        let until = self.timing.now() + patience;
        match &mut self.leaving {
            None => self.leaving = Some(Leaving { end, until, is_cancelled: false }),
            Some(leaving) if matches!(end, End::Over(_)) && !matches!(leaving.end, End::Over(_)) => {
                leaving.end = end;
                leaving.until = leaving.until.min(until);
            }
            Some(_) => {}
        }
    }

    /// Whether the turn is to end.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Cancels a turn whose time is up, and then ends the agent. Whether it was ended.
    fn is_left(&mut self, now: Duration) -> Result<bool, AgentError> {
        let Some(leaving) = self.leaving.as_mut().filter(|leaving| now >= leaving.until) else {
            return Ok(false);
        };
        if leaving.is_cancelled {
            self.end();
            return Ok(true);
        }
        (leaving.is_cancelled, leaving.until) = (true, now + MAX_CANCEL);
        match self.wire.cancel(&self.id) {
            Ok(()) => Ok(false),
            Err(trouble) => self.on_exit(trouble).map(|_| true),
        }
    }

    /// The agent is gone. That is no trouble when nothing more was wanted of it.
    fn on_exit(&mut self, trouble: AgentError) -> Result<Option<Json>, AgentError> {
        self.end();
        if self.leaving.is_some() { Ok(None) } else { Err(trouble) }
    }

    /// Ends the agent, with all that it has started.
    fn end(&mut self) {
        self.terminals.end();
        if let Some(tree) = self.tree.take() {
            tree.end();
        }
    }

    /// Hears one line. Whether there was one.
    fn pump(&mut self) -> Result<bool, AgentError> {
        let is_busy = self.is_leaving() || self.terminals.are_open();
        let wait = if is_busy { SLICE } else { self.quiet.wait(&*self.host) };
        match self.output.next(wait) {
            None => Ok(false),
            Some(Heard::Line(line)) => {
                self.quiet.broken();
                self.line(line).map(|()| true)
            }
            Some(Heard::Ended(exit)) => Err(self.explain_exit(&exit)),
        }
    }

    /// Takes in a line. What is no JSON object is passed over: some programs write other things too.
    fn line(&mut self, line: Vec<u8>) -> Result<(), AgentError> {
        let text = String::from_utf8(line).ok();
        let object = |text: &String| matches!(serde_json::from_str(text), Ok(Json::Object(_)));
        match text.filter(object) {
            Some(text) => self.wire.hear(text),
            None => {
                self.heard.garbage += 1;
                if self.heard.garbage > MAX_GARBAGE {
                    let why = format!("the agent wrote more than {MAX_GARBAGE} lines that are no JSON");
                    return Err(AgentError::Bad(why));
                }
                Ok(())
            }
        }
    }

    fn explain_exit(&self, exit: &ProgramExit) -> AgentError {
        let complaint = self.secrets.redact(&exit.complaint);
        let cause = first_cause(&complaint);
        let said = if cause.is_empty() { String::new() } else { format!("; it said: {cause}") };
        let why = format!("the agent has ended: {}{said}", exit.how);
        match exit {
            ProgramExit { machine: true, how, .. } => {
                AgentError::Machine(format!("the agent cannot be started: {how}"))
            }
            ProgramExit { timed_out: true, .. } => AgentError::TimedOut(why),
            // The thread that reads its output has ended it.
            ProgramExit { how, .. } if how.starts_with("it wrote ") => AgentError::Bad(why),
            ProgramExit { .. } => AgentError::Died(why),
        }
    }

    fn explain_refusal(&self, refusal: &Refusal) -> AgentError {
        let why = self.secrets.redact(first_cause(&refusal.why));
        if wants_login(refusal) {
            return AgentError::CouldNotRun(format!(
                "the agent wants somebody to log in first ({why}); give it a key in the settings"
            ));
        }
        AgentError::Died(format!("the agent failed: {why} ({})", refusal.code))
    }

    /// Answers calls through the window. Whether there was one.
    fn knocks(&mut self) -> bool {
        let mut any = false;
        while let Some(knock) = self.window.as_ref().and_then(|window| window.next(Duration::ZERO)) {
            self.knock(knock);
            any = true;
        }
        any
    }

    /// Whether the agent is offered a tool of ours.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.window.is_some() && speaking(&self.toolset).any(|(name, _)| name == tool)
    }

    fn knock(&mut self, knock: McpCall) {
        self.calls.arrived(&knock.tool);
        if self.is_leaving() {
            return knock.answer(ToolAnswer::Failed(String::from("your turn is over: end it")));
        }
        if !SPEAKING.contains(&knock.tool.as_str()) {
            let why = format!("there is no tool `{}` here", knock.tool);
            return knock.answer(ToolAnswer::Failed(why));
        }
        self.words.call(&self.secrets, &*self.host);
        match self.toolset.call_checked(&knock.tool, &knock.args) {
            Done::Back(text) => knock.answer(ToolAnswer::Done(text)),
            Done::Wrong(why) => knock.answer(ToolAnswer::Failed(why)),
            Done::Submitted(json) => {
                knock.answer(ToolAnswer::Done(String::from("it was taken; end your turn")));
                self.leave(End::Submitted(json), MAX_FAREWELL);
            }
            Done::Asked(question) => {
                knock.answer(ToolAnswer::Done(String::from("a person is asked; end your turn")));
                self.leave(End::Asked(question), MAX_FAREWELL);
            }
            Done::Over(trouble) => {
                knock.answer(ToolAnswer::Failed(trouble.to_string()));
                self.leave(End::Over(trouble), Duration::ZERO);
            }
        }
    }

    /// Takes in what an agent tells. A kind of notification that is not known here is passed over.
    fn on_notification(&mut self, method: &str, params: &Json) -> Result<(), AgentError> {
        let is_ours = params.get("sessionId").and_then(Json::as_str) == Some(self.id.as_str());
        let Some(update) = params.get("update").filter(|_| method == "session/update" && is_ours) else {
            return Ok(());
        };
        match update.get("sessionUpdate").and_then(Json::as_str) {
            Some("agent_message_chunk") => self.words.text(update, &self.secrets, &*self.host),
            Some("agent_thought_chunk") => self.words.thought(update, &self.secrets, &*self.host),
            Some("tool_call" | "tool_call_update") => self.told_of_a_call(update),
            Some("usage_update") => {
                self.used.updated(update);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Charges what the turn used. What is not told is unknown.
    fn charge(&mut self, result: Option<&Json>) -> Result<(), AgentError> {
        let habits = &self.agent.habits;
        let mut usage = Usage::new();
        usage.insert(Name::from(TURNS), 1);
        let tokens = result.and_then(|result| self.used.tokens(result, habits.meter));
        let money = self.used.money();
        if tokens.is_none() || habits.meter == TokenCount::Part {
            self.unknown.insert(Name::from(TOKENS));
        }
        if money.is_none() || result.is_none() {
            self.unknown.insert(Name::from(MONEY));
        }
        usage.extend(tokens.map(|tokens| (Name::from(TOKENS), tokens)));
        usage.extend(money.map(|money| (Name::from(MONEY), money)));
        self.host.charge(&usage).map_err(|refusal| AgentError::Stopped(refusal.to_string()))
    }

    /// How an agent rests that has ended its turn by itself.
    fn rested(&self, result: &Json) -> Result<Close, AgentError> {
        match result.get("stopReason").and_then(Json::as_str) {
            Some("end_turn") => Ok(Close::Rest(TurnRest::Said(self.words.last(&self.secrets)))),
            // Codex ends its turn so when it is denied something.
            Some("cancelled") => match self.denied.last() {
                Some((_, why)) => Ok(Close::Denied(why.clone())),
                None => Err(AgentError::Died(String::from(
                    "the agent cancelled its turn, and nobody wanted that",
                ))),
            },
            Some("max_tokens") => {
                Err(AgentError::Bad(String::from("the agent's answer was cut: too many tokens")))
            }
            Some("max_turn_requests") => {
                Err(AgentError::Bad(String::from("the agent has asked its model as often as it may")))
            }
            Some("refusal") => Err(AgentError::Bad(String::from("the agent refuses the task"))),
            other => {
                Err(AgentError::Bad(format!("the agent's turn ended in a way that nobody knows: {other:?}")))
            }
        }
    }
}

/// What could not even be tried: the agent said nothing of worth yet.
fn could_not_run(trouble: AgentError) -> AgentError {
    match trouble {
        AgentError::Died(why) => AgentError::CouldNotRun(why),
        other @ (AgentError::Cancelled
        | AgentError::Stopped(_)
        | AgentError::Forbidden(_)
        | AgentError::Machine(_)
        | AgentError::TimedOut(_)
        | AgentError::Bad(_)
        | AgentError::CouldNotRun(_)
        | AgentError::Outage { .. }) => other,
    }
}

/// What a call is that was allowed as one of ours and never came to us.
pub(super) fn not_arrived(tool: &str) -> AgentError {
    AgentError::Forbidden(format!(
        "it was allowed to call `{tool}` of `{SERVER}`, and that call never arrived"
    ))
}

/// Makes a private home. It is there already in later sessions of the same agent.
fn make_home(home: &Path) -> Result<(), AgentError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
    made.map_err(|error| {
        AgentError::of_io(format_args!("no home for the agent at {}", home.display()), &error)
    })
}

fn speaking(toolset: &Toolset) -> impl Iterator<Item = (&'static str, Offer)> {
    let tools = toolset.tools().iter().filter(|tool| SPEAKING.contains(&tool.name));
    tools.map(|tool| (tool.name, Offer::from(tool)))
}

/// A window with the tools that speak to us, where there can be one.
fn open_window(
    order: &SessionOrder,
    toolset: &Toolset,
    timing: &dyn Timing,
) -> Result<Option<McpBridge>, AgentError> {
    let offers = speaking(toolset).map(|offer| offer.1).collect();
    let Some(mcp_endpoint) = &order.mcp_endpoint else { return Ok(None) };
    let name = format!("acp-{:016x}", timing.throw());
    let window = McpBridge::open(mcp_endpoint, &name, offers);
    let failed = |error| AgentError::of_io("no window can be opened for the agent's tools", &error);
    window.map(Some).map_err(failed)
}
