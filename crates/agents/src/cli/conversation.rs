//! One session: the program and the window are listened to until the agent rests.
//!
//! Everything that a turn may do has a limit, and whatever is wrong ends the program with all that it has
//! started. A turn is good only if the program said so in its stream; how it exits decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ftl_core::tool_policy::Write;
use ftl_core::value::Name;
use ftl_process::CancelHook;
use serde_json::Value as Json;

use super::Binding;
use super::adapter::{CliErrorKind, PromptPassing, WireProtocol};
use super::calls::Seen;
use super::ledger::Ledger;
use super::rules::{Back, ProgramEvent, ReportedCall, ReportedUsage, TurnEnd};
use super::session_home::Room;
use super::speech::{self, Asked, Speech, Wants};
use crate::contract::{
    AgentSession, Counted, MAX_TURN_BYTES, Misfits, PromptPart, Said, SessionHost, SessionOrder, TurnRest,
    Verdict,
};
use crate::error::AgentError;
use crate::launch::{Heard, Launched, ProgramExit, first_cause};
use crate::mcp_endpoint::{McpBridge, McpCall, ToolAnswer};
use crate::secrets::{Pieces, Secrets};
use crate::timing::{Quiet, SLICE, Timing};
use crate::toolset::folder::WorkFolder;
use crate::toolset::{ASK, Done, MAX_COMMAND_TIME, SPEAKING, SUBMIT, Toolset};

/// How many lines of a turn may be no JSON.
pub const MAX_GARBAGE_LINES: usize = 200;

/// How much a program may write in one turn: it tells most things more than once.
pub const MAX_HEARD_BYTES: usize = 16 * MAX_TURN_BYTES;

/// How often a program may ask about calls in one turn.
pub const MAX_ASKS_IN_A_TURN: usize = 1000;

/// How many calls of a program may be open at once.
pub const MAX_OPEN_CALLS: usize = 256;

/// How long a program may take to end its turn, once its answer is in.
pub const MAX_LINGER: Duration = Duration::from_secs(10);

/// How much of what a call that went wrong brought is told as the reason.
const MAX_REASON_BYTES: usize = 400;

/// What is told to a program that goes on after its answer.
const OVER: &str = "your answer is in: end your turn now";

/// A session with a program that an adapter describes.
pub(super) struct Talk {
    binding: Binding,
    order: SessionOrder,
    host: Arc<dyn SessionHost>,
    toolset: Toolset,
    folder: WorkFolder,
    /// Before the room: nothing of it is alive when the room is cleared.
    running: Option<Running>,
    window: Option<McpBridge>,
    room: Room,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
    session: Option<String>,
    begun: bool,
    ledger: Ledger,
    calls: Calls,
    turn: Turn,
}

/// A program that was started, and how it is spoken to.
struct Running {
    launched: Launched,
    speech: Speech,
    quiet: Quiet,
    /// Wakes the thread that listens when the session is cancelled.
    _hook: Option<CancelHook>,
}

/// The calls of a turn, by the program's own names of them.
#[derive(Default)]
struct Calls {
    open: BTreeMap<String, ReportedCall>,
    ruled: BTreeMap<String, (ReportedCall, Result<(), String>)>,
    /// How many had no name.
    unnamed: u64,
    /// Calls that may take as long as a command does.
    running: BTreeSet<String>,
}

impl Calls {
    /// What was said about this very call already. A name alone is not believed: another call can have it.
    fn earlier_ruling(&self, called: &ReportedCall) -> Option<&Result<(), String>> {
        let (ruled, ruling) = self.ruled.get(&called.id)?;
        (ruled == called).then_some(ruling)
    }

    /// The call under a name, whatever the program calls it.
    fn name_call(&mut self, mut called: ReportedCall) -> ReportedCall {
        if called.id.is_empty() {
            self.unnamed += 1;
            called.id = format!("unnamed {}", self.unnamed);
        }
        called
    }
}

/// What has happened in a turn so far.
#[derive(Default)]
struct Turn {
    said: Pieces,
    thought: Pieces,
    /// What was said since the last call.
    text: String,
    bytes: usize,
    heard: usize,
    garbage: usize,
    asks: usize,
    /// The call that was denied last, and why.
    denied: Option<String>,
    end: Option<TurnEnd>,
    rest: Option<TurnRest>,
    /// When the last line came, when the agent last got on, and until when it may linger.
    last: Duration,
    progress: Duration,
    linger: Option<Duration>,
}

impl AgentSession for Talk {
    fn turn(&mut self, words: &[PromptPart]) -> Result<TurnRest, AgentError> {
        let result = self.take_turn(words);
        self.flush();
        if !self.is_unstarted(&result) {
            self.ledger.end();
        }
        if result.is_err() {
            self.running = None;
        }
        result
    }

    fn unknown(&self) -> BTreeSet<Name> {
        self.ledger.unknown()
    }

    fn denied(&self) -> Option<String> {
        self.turn.denied.clone()
    }

    fn misfits(&self) -> Option<&Misfits> {
        Some(self.toolset.misfits())
    }

    fn close(mut self: Box<Self>) {
        if let Some(running) = self.running.take() {
            running.launched.input.close();
            running.launched.tree.end();
        }
    }
}

impl Talk {
    #[allow(clippy::too_many_arguments, reason = "what a session is made of, once")]
    pub(super) fn new(
        binding: Binding,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
        toolset: Toolset,
        window: Option<McpBridge>,
        room: Room,
        secrets: Arc<Secrets>,
        timing: Arc<dyn Timing>,
    ) -> Result<Talk, AgentError> {
        let folder = WorkFolder::open(&order.folder).map_err(|error| {
            AgentError::of_io(format_args!("the folder {} cannot be opened", order.folder.display()), &error)
        })?;
        Ok(Talk {
            binding,
            order,
            host,
            toolset,
            folder,
            running: None,
            window,
            room,
            secrets,
            timing,
            session: None,
            begun: false,
            ledger: Ledger::default(),
            calls: Calls::default(),
            turn: Turn::default(),
        })
    }

    /// Whether the program could not even be started: then no model was asked, and that is known.
    fn is_unstarted(&self, result: &Result<TurnRest, AgentError>) -> bool {
        self.turn.heard == 0 && matches!(result, Err(AgentError::CouldNotRun(_) | AgentError::Machine(_)))
    }

    fn take_turn(&mut self, words: &[PromptPart]) -> Result<TurnRest, AgentError> {
        if self.host.is_cancelled() {
            return Err(AgentError::Cancelled);
        }
        let now = self.timing.now();
        self.turn = Turn { last: now, progress: now, ..Turn::default() };
        self.calls = Calls::default();
        self.ledger.begin();
        let prompt = self.prompt(words);
        self.start(&prompt)?;
        self.begun = true;
        if self.binding.adapter.start.session.is_some() {
            // The name was given by us, in the words that it was started with.
            self.session.get_or_insert_default();
        }
        let running = self.running.as_mut().ok_or_else(program_gone)?;
        // A program that does not read has ended, and how is heard; or it is silent, which has a limit.
        let _ = running.speech.say(&*running.launched.input, &prompt);
        self.listen()
    }

    /// What is said: the system text where the program has no place for it, the parts, and how to answer.
    fn prompt(&self, words: &[PromptPart]) -> String {
        let mut parts: Vec<String> = words.iter().map(|part| part.text.clone()).collect();
        let placed = self.binding.adapter.protocol == WireProtocol::CodexAppServer
            || !self.binding.adapter.start.system.is_empty();
        if !self.begun {
            if !placed && !self.order.system.is_empty() {
                parts.insert(0, self.order.system.clone());
            }
            parts.push(self.how_to_answer());
        }
        parts.join("\n\n")
    }

    fn how_to_answer(&self) -> String {
        match self.binding.adapter.window.as_ref().filter(|_| self.window.is_some()) {
            Some(window) => format!(
                "Use your own tools for files and commands. When you are done, call the tool `{}` with your answer: \
                 nothing else ends the task. A question to a person goes through `{}`.",
                window.tool_name(SUBMIT),
                window.tool_name(ASK)
            ),
            None => format!(
                "Use your own tools for files and commands. There is no tool to submit with: when you are done, end \
                 with your answer as JSON alone, which fits this schema:\n{}",
                self.order.answer.json()
            ),
        }
    }

    /// Starts the program, if it does not run.
    fn start(&mut self, prompt: &str) -> Result<(), AgentError> {
        if self.running.is_some() {
            return Ok(());
        }
        let adapter = self.binding.adapter.clone();
        if self.begun && (self.session.is_none() || !self.resumes()) {
            let name = &self.binding.name;
            return Err(AgentError::Died(format!(
                "{name} has ended, and its session cannot be taken up again"
            )));
        }
        let windowed = self.window.is_some();
        let session = self.session.as_deref();
        let mut program = self.room.program(&self.binding, &self.order, session, windowed)?;
        if (adapter.protocol, adapter.start.prompt) == (WireProtocol::Lines, PromptPassing::Word) {
            program.args.push(prompt.into());
        }
        let none = || AgentError::CouldNotRun(String::from("no program may be started here"));
        let launcher = self.order.launcher.clone().ok_or_else(none)?;
        let launched = launcher.launch(&program)?;
        let folder = self.order.folder.to_string_lossy();
        let model = self.order.model.as_deref().or(self.binding.model.as_deref());
        let mut open = speech::opened_with(&adapter.start.params, &folder, model, &self.order.system);
        let writing =
            adapter.start.writing.as_object().filter(|_| self.order.allowance.write != Write::Nothing);
        if let (Some(fields), Some(more)) = (open.as_object_mut(), writing) {
            fields.extend(more.clone());
        }
        let speech = Speech::new(adapter.protocol, adapter.start.prompt, open, self.session.clone());
        let _ = speech.open(&*launched.input);
        let waker = launched.output.waker();
        if let Some(window) = &self.window {
            window.wake_by_calls(waker.clone());
        }
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || waker.wake());
        let hook = self.host.cancel_token().map(|cancel| cancel.on_cancel(&wake));
        self.running = Some(Running { launched, speech, quiet: Quiet::new(SLICE), _hook: hook });
        Ok(())
    }

    /// Whether a session can be taken up again by starting the program once more.
    fn resumes(&self) -> bool {
        match self.binding.adapter.protocol {
            WireProtocol::Lines | WireProtocol::ClaudeControl => {
                !self.binding.adapter.start.resume.is_empty()
            }
            WireProtocol::CodexAppServer => true,
        }
    }

    fn listen(&mut self) -> Result<TurnRest, AgentError> {
        loop {
            if self.host.is_cancelled() {
                return Err(AgentError::Cancelled);
            }
            self.knocks()?;
            let lingers = self.turn.linger.is_some();
            let running = self.running.as_mut().ok_or_else(program_gone)?;
            let wait = if lingers { SLICE } else { running.quiet.wait(&*self.host) };
            let heard = running.launched.output.next(wait);
            if heard.is_some() {
                running.quiet.broken();
            }
            match heard {
                Some(Heard::Line(line)) => self.line(&line)?,
                Some(Heard::Ended(exit)) => return self.on_exit(&exit),
                None => self.clock()?,
            }
            if let Some(rest) = self.rested()? {
                return Ok(rest);
            }
        }
    }

    /// Whether the turn is over. A program that is started for each turn ends by itself, and saves its
    /// session on the way; one that stays rests when it says so.
    fn rested(&mut self) -> Result<Option<TurnRest>, AgentError> {
        let now = self.timing.now();
        if (self.turn.end.is_some() || self.turn.rest.is_some()) && self.turn.linger.is_none() {
            self.turn.linger = Some(now + MAX_LINGER);
            if let Some(running) = self.running.as_ref().filter(|_| self.turn.end.is_none()) {
                running.speech.interrupt(&*running.launched.input);
            }
        }
        let over = self.turn.linger.is_some_and(|until| now >= until);
        let stays = self.binding.adapter.protocol.asks();
        if over || (stays && self.turn.end.is_some()) {
            if over || !stays {
                self.running = None;
            }
            return self.rest().map(Some);
        }
        Ok(None)
    }

    /// The outcome of a turn that has ended.
    fn rest(&mut self) -> Result<TurnRest, AgentError> {
        self.flush();
        if let Some(rest) = self.turn.rest.take() {
            return Ok(rest);
        }
        let name = self.binding.name.clone();
        let Some(end) = self.turn.end.take() else {
            return Err(AgentError::Died(format!("{name} ended without a result")));
        };
        if !end.good {
            return Err(self.trouble(&end.why));
        }
        if let Some(answer) = end.answer {
            return self.submitted(&answer);
        }
        let text = end.text.unwrap_or_else(|| std::mem::take(&mut self.turn.text));
        if text.trim().is_empty() {
            return Err(AgentError::Bad(format!("{name} ended its turn and said nothing")));
        }
        Ok(TurnRest::Said(self.secrets.redact(&text)))
    }

    /// An answer that the program itself has held to its shape goes the way of every other one.
    fn submitted(&self, answer: &Json) -> Result<TurnRest, AgentError> {
        match self.toolset.call(SUBMIT, answer) {
            Done::Submitted(json) => Ok(TurnRest::Submitted(json)),
            Done::Asked(question) => Ok(TurnRest::Asked(question)),
            Done::Back(why) | Done::Wrong(why) => Err(AgentError::Bad(why)),
            Done::Over(trouble) => Err(trouble),
        }
    }

    /// What a turn that ended badly is.
    fn trouble(&self, why: &str) -> AgentError {
        let name = &self.binding.name;
        let why = if why.is_empty() { "it does not say why" } else { why };
        let told: String = self.secrets.redact(why).chars().take(1000).collect();
        let kind = self.binding.adapter.troubles.iter().find(|(word, _)| why.contains(word.as_str()));
        let sentence = format!("{name} failed: {told}");
        match kind.map(|(_, kind)| *kind) {
            Some(CliErrorKind::CouldNotRun) => AgentError::CouldNotRun(sentence),
            Some(CliErrorKind::Outage) => {
                AgentError::Outage { service: name.clone(), why: told, after: None, claimed: true }
            }
            Some(CliErrorKind::Died) => AgentError::Died(sentence),
            None => AgentError::Bad(sentence),
        }
    }

    /// The program has ended; what it said in its stream decides, and its exit only explains.
    fn on_exit(&mut self, exit: &ProgramExit) -> Result<TurnRest, AgentError> {
        self.running = None;
        if self.turn.rest.is_some() || self.turn.end.is_some() {
            return self.rest();
        }
        let name = &self.binding.name;
        let complaint = self.secrets.redact(&exit.complaint);
        let complaint: String = first_cause(&complaint).chars().take(1000).collect();
        let complaint = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
        if exit.machine {
            return Err(AgentError::Machine(format!("{name} cannot be started: {}", exit.how)));
        }
        if exit.timed_out {
            return Err(AgentError::TimedOut(format!("{name}: {}{complaint}", exit.how)));
        }
        if self.turn.heard == 0 && matches!(exit.code, Some(126 | 127)) {
            return Err(AgentError::CouldNotRun(format!(
                "{name} cannot be started: {}{complaint}",
                exit.how
            )));
        }
        if exit.is_flood() {
            return Err(AgentError::Bad(format!("{name}: {}", exit.how)));
        }
        Err(AgentError::Died(format!("{name} ended in the middle of a turn: {}{complaint}", exit.how)))
    }

    fn clock(&self) -> Result<(), AgentError> {
        let (now, limits, name) = (self.timing.now(), &self.order.limits, &self.binding.name);
        let runs = !self.calls.running.is_empty();
        let patience = self.binding.adapter.silence.unwrap_or_default();
        let silence = limits.silence.max(patience).max(if runs { MAX_COMMAND_TIME } else { Duration::ZERO });
        if now.saturating_sub(self.turn.last) >= silence {
            return Err(AgentError::TimedOut(format!("{name} said nothing for {silence:?}")));
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), AgentError> {
        let now = self.timing.now();
        self.turn.last = now;
        self.turn.heard += line.len() + 1;
        let name = &self.binding.name;
        if self.turn.heard > MAX_HEARD_BYTES {
            return Err(AgentError::Bad(format!(
                "{name} wrote more than {MAX_HEARD_BYTES} bytes in one turn"
            )));
        }
        let whole = self.order.limits.whole.max(if self.calls.running.is_empty() {
            Duration::ZERO
        } else {
            MAX_COMMAND_TIME
        });
        if now.saturating_sub(self.turn.progress) >= whole {
            return Err(AgentError::TimedOut(format!("{name} did not get on for {whole:?}")));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let Some(event) = serde_json::from_slice::<Json>(line).ok().filter(Json::is_object) else {
            self.turn.garbage += 1;
            if self.turn.garbage > MAX_GARBAGE_LINES {
                return Err(AgentError::Bad(format!(
                    "{name} wrote more than {MAX_GARBAGE_LINES} lines that are no JSON"
                )));
            }
            return Ok(());
        };
        self.event(&event)
    }

    fn event(&mut self, event: &Json) -> Result<(), AgentError> {
        let adapter = self.binding.adapter.clone();
        for meant in adapter.rules.iter().flat_map(|rule| rule.of(event)) {
            self.happened(meant)?;
        }
        let heard = self.running.as_mut().map(|running| running.speech.on_line(event)).unwrap_or_default();
        for one in heard {
            match one {
                Wants::Asks(asked) => self.on_question(&asked)?,
                Wants::Send(line) => self.send(&line)?,
                Wants::Session(session) => self.session = Some(session),
                Wants::Failed(why) => return Err(self.trouble(&why)),
            }
        }
        Ok(())
    }

    fn send(&self, line: &Json) -> Result<(), AgentError> {
        let running = self.running.as_ref().ok_or_else(program_gone)?;
        speech::write(&*running.launched.input, line).map_err(|error| AgentError::Died(error.to_string()))
    }

    fn happened(&mut self, event: ProgramEvent) -> Result<(), AgentError> {
        match event {
            ProgramEvent::Session(session) => self.session = Some(session),
            ProgramEvent::Text(text) => self.text(&text)?,
            ProgramEvent::Thought(text) => {
                let shown = self.turn.thought.push(&self.secrets, &text);
                self.count_output(text.len())?;
                if !shown.is_empty() {
                    self.host.say(Said::Thought(&shown));
                }
            }
            ProgramEvent::Call(called) => self.on_call(called)?,
            ProgramEvent::Back(back) => self.back(back)?,
            ProgramEvent::Used(used) => self.charge_usage(&used)?,
            ProgramEvent::Ended(end) => self.turn.end = Some(end),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), AgentError> {
        self.count_output(text.len())?;
        self.turn.text.push_str(text);
        let shown = self.turn.said.push(&self.secrets, text);
        if !shown.is_empty() {
            self.host.say(Said::Text(&shown));
        }
        Ok(())
    }

    fn count_output(&mut self, bytes: usize) -> Result<(), AgentError> {
        self.turn.bytes += bytes;
        if self.turn.bytes > MAX_TURN_BYTES {
            let name = &self.binding.name;
            return Err(AgentError::Bad(format!("{name} said more than {MAX_TURN_BYTES} bytes in one turn")));
        }
        Ok(())
    }

    /// Shows what is still held back.
    fn flush(&mut self) {
        let (said, thought) = (self.turn.said.finish(&self.secrets), self.turn.thought.finish(&self.secrets));
        if !thought.is_empty() {
            self.host.say(Said::Thought(&thought));
        }
        if !said.is_empty() {
            self.host.say(Said::Text(&said));
        }
    }

    fn charge_usage(&mut self, used: &ReportedUsage) -> Result<(), AgentError> {
        let usage = self.ledger.charge(used);
        if used.request {
            self.turn.progress = self.timing.now();
        }
        if !usage.is_empty() {
            self.host.charge(&usage).map_err(|refusal| AgentError::Stopped(refusal.to_string()))?;
        }
        let most = self.order.limits.requests;
        if self.ledger.requests() > most {
            let name = &self.binding.name;
            return Err(AgentError::Bad(format!("{name} asked its model more than {most} times")));
        }
        Ok(())
    }

    /// A call that the program tells of. Where it asks before, this is only noted; else it was made, or is
    /// being made, and what is not allowed ends the session.
    fn on_call(&mut self, called: ReportedCall) -> Result<(), AgentError> {
        self.flush();
        self.turn.text.clear();
        self.turn.progress = self.timing.now();
        let called = self.calls.name_call(called);
        if self.is_ours(&called.tool) || self.calls.earlier_ruling(&called).is_some() {
            return Ok(());
        }
        if self.calls.open.len() >= MAX_OPEN_CALLS {
            let name = &self.binding.name;
            return Err(AgentError::Bad(format!("{name} has more than {MAX_OPEN_CALLS} calls open")));
        }
        if self.binding.adapter.protocol.asks() {
            self.calls.open.insert(called.id.clone(), called);
            return Ok(());
        }
        self.late(&called)?;
        self.calls.open.insert(called.id.clone(), called);
        Ok(())
    }

    /// Rules on a call that the program made without asking.
    fn late(&mut self, called: &ReportedCall) -> Result<(), AgentError> {
        if self.binding.adapter.enforces.calls == Counted::Never {
            return Ok(());
        }
        match self.ruled(called)? {
            Ok(()) => Ok(()),
            Err(why) => Err(AgentError::Forbidden(format!(
                "it called `{}`, which is not allowed here: {why}",
                called.tool
            ))),
        }
    }

    fn back(&mut self, Back { id, wrong, result }: Back) -> Result<(), AgentError> {
        let id = id.as_str();
        self.turn.progress = self.timing.now();
        self.calls.running.remove(id);
        let Some(called) = self.calls.open.remove(id) else { return Ok(()) };
        if !self.calls.ruled.contains_key(id) {
            if wrong && self.is_harmless_when_wrong(&called) {
                // The program refused it by itself, before it asked: nothing came of it.
                self.ruled(&called)?.ok();
            } else {
                self.late(&called)?;
            }
        }
        let denied = self.calls.ruled.remove(id).and_then(|(_, ruling)| ruling.err());
        let seen = self.binding.adapter.tools.classify(&self.folder, &called.tool, &called.args);
        if let Some(result) = &result {
            self.host.on_result(&seen.tool, result);
        }
        let first = result.as_deref().and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        let first = || self.secrets.excerpt(first.unwrap_or("it went wrong"), MAX_REASON_BYTES);
        let wrong = denied.or_else(|| wrong.then(first));
        self.host.say(Said::Back(&seen.tool, wrong.as_deref()));
        Ok(())
    }

    /// Whether a call that a program tells as failed, and never asked about, did nothing: it asks before each that it
    /// makes, and a file that it could not change is as it was. A command may have done half of its work.
    fn is_harmless_when_wrong(&self, called: &ReportedCall) -> bool {
        let seen = self.binding.adapter.tools.classify(&self.folder, &called.tool, &called.args);
        self.binding.adapter.protocol.asks() && !seen.runs
    }

    fn is_ours(&self, tool: &str) -> bool {
        let window = self.binding.adapter.window.as_ref().filter(|_| self.window.is_some());
        window.is_some_and(|window| window.is_ours(tool))
    }

    /// The program asks whether it may make a call.
    fn on_question(&mut self, asked: &Asked) -> Result<(), AgentError> {
        self.turn.asks += 1;
        self.turn.progress = self.timing.now();
        if self.turn.asks > MAX_ASKS_IN_A_TURN {
            let name = &self.binding.name;
            return Err(AgentError::Bad(format!(
                "{name} asked about more than {MAX_ASKS_IN_A_TURN} calls in one turn"
            )));
        }
        let called = self.calls.name_call(asked.call().clone());
        let ruling = if self.turn.rest.is_some() {
            Err(String::from(OVER))
        } else if self.is_ours(&called.tool) {
            Ok(())
        } else {
            match self.calls.earlier_ruling(&called) {
                Some(ruling) => ruling.clone(),
                None => {
                    if self.calls.open.len() < MAX_OPEN_CALLS {
                        self.calls.open.insert(called.id.clone(), called.clone());
                    }
                    self.ruled(&called)?
                }
            }
        };
        self.send(&asked.reply(&ruling))
    }

    /// The ruling on a call, remembered under the program's name of it.
    fn ruled(&mut self, called: &ReportedCall) -> Result<Result<(), String>, AgentError> {
        self.flush();
        let seen = self.binding.adapter.tools.classify(&self.folder, &called.tool, &called.args);
        self.host.on_own_call(&called.tool, &called.args);
        self.host.say(Said::Call(&seen.tool, &self.secrets.redact(&seen.about)));
        let ruling = self.verdict(&seen)?;
        if ruling.is_ok() && seen.runs {
            self.calls.running.insert(called.id.clone());
        }
        self.calls.ruled.insert(called.id.clone(), (called.clone(), ruling.clone()));
        while self.calls.ruled.len() > MAX_OPEN_CALLS {
            self.calls.ruled.pop_first();
        }
        Ok(ruling)
    }

    fn verdict(&mut self, seen: &Seen) -> Result<Result<(), String>, AgentError> {
        for call in &seen.calls {
            match self.host.rule(call) {
                Verdict::Allow => {}
                Verdict::Deny(why) => {
                    let denied = format!("the call of `{}` was denied: {why}", call.tool);
                    self.turn.denied = Some(self.secrets.redact(&denied));
                    return Ok(Err(why));
                }
                Verdict::Stop(why) => return Err(AgentError::Stopped(why)),
                Verdict::Ask(question) => {
                    if self.binding.adapter.protocol.asks() {
                        self.turn.rest = Some(TurnRest::Asked(self.secrets.redact(&question)));
                    }
                    return Ok(Err(format!("a person must be asked first: {question}")));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Calls that came through the window.
    fn knocks(&mut self) -> Result<(), AgentError> {
        while let Some(knock) = self.window.as_ref().and_then(|window| window.next(Duration::ZERO)) {
            self.turn.last = self.timing.now();
            self.turn.progress = self.turn.last;
            self.turn.asks += 1;
            if self.turn.asks > MAX_ASKS_IN_A_TURN {
                let name = &self.binding.name;
                return Err(AgentError::Bad(format!(
                    "{name} made more than {MAX_ASKS_IN_A_TURN} calls of ours in one turn"
                )));
            }
            self.knock(knock)?;
        }
        Ok(())
    }

    fn knock(&mut self, knock: McpCall) -> Result<(), AgentError> {
        if self.turn.rest.is_some() {
            knock.answer(ToolAnswer::Failed(String::from(OVER)));
            return Ok(());
        }
        if !SPEAKING.contains(&knock.tool.as_str()) {
            knock.answer(ToolAnswer::Failed(String::from("there is no such tool")));
            return Ok(());
        }
        self.flush();
        let taken = ToolAnswer::Done(String::from("It is taken. Say nothing more and end your turn."));
        match self.toolset.call_checked(&knock.tool, &knock.args) {
            Done::Back(text) => knock.answer(ToolAnswer::Done(text)),
            Done::Wrong(why) => knock.answer(ToolAnswer::Failed(why)),
            Done::Submitted(json) => {
                self.turn.rest = Some(TurnRest::Submitted(json));
                knock.answer(taken);
            }
            Done::Asked(question) => {
                self.turn.rest = Some(TurnRest::Asked(question));
                knock.answer(taken);
            }
            Done::Over(trouble) => {
                knock.answer(ToolAnswer::Failed(trouble.to_string()));
                return Err(trouble);
            }
        }
        Ok(())
    }
}

fn program_gone() -> AgentError {
    AgentError::Died(String::from("the program does not run any more"))
}
