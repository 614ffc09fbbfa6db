//! How one running program is spoken to: what is written, and what is asked of us.

use serde_json::{Value as Json, json};

use super::adapter::{PromptPassing, WireProtocol};
use super::codex::Codex;
use super::rules::ReportedCall;
use super::{claude, codex};
use crate::launch::{InputChannel, InputError};

/// What comes of a line, besides what the rules of the adapter say.
pub(super) enum Wants {
    /// It asks about a call.
    Asks(Asked),
    /// This goes back at once.
    Send(Json),
    /// The conversation is called so.
    Session(String),
    /// It could not do what we asked for.
    Failed(String),
}

/// A question of a program.
pub(super) enum Asked {
    Claude(claude::Asked),
    Codex(codex::Asked),
}

impl Asked {
    /// The call that it is about.
    pub(super) fn call(&self) -> &ReportedCall {
        match self {
            Asked::Claude(asked) => &asked.called,
            Asked::Codex(asked) => &asked.called,
        }
    }

    /// The answer to what the program asked.
    pub(super) fn reply(&self, ruling: &Result<(), String>) -> Json {
        match self {
            Asked::Claude(asked) => claude::reply(asked, ruling),
            Asked::Codex(asked) => codex::reply(asked, ruling),
        }
    }
}

/// The state of a conversation.
pub(super) enum Speech {
    Lines(PromptPassing),
    Claude,
    Codex { open: Json, session: Option<String>, state: Codex },
}

impl Speech {
    /// A conversation that begins, or is taken up again.
    pub(super) fn new(
        protocol: WireProtocol,
        prompt: PromptPassing,
        open: Json,
        session: Option<String>,
    ) -> Speech {
        match protocol {
            WireProtocol::Lines => Speech::Lines(prompt),
            WireProtocol::ClaudeControl => Speech::Claude,
            WireProtocol::CodexAppServer => Speech::Codex { open, session, state: Codex::default() },
        }
    }

    /// What is written before anything else.
    pub(super) fn open(&self, input: &dyn InputChannel) -> Result<(), InputError> {
        match self {
            Speech::Lines(_) => Ok(()),
            Speech::Claude => write(input, &claude::opening()),
            Speech::Codex { .. } => write(input, &Codex::opening()),
        }
    }

    /// Begins a turn with this prompt.
    pub(super) fn say(&mut self, input: &dyn InputChannel, prompt: &str) -> Result<(), InputError> {
        match self {
            Speech::Lines(PromptPassing::Word) => {
                input.close();
                Ok(())
            }
            Speech::Lines(PromptPassing::Input) => {
                let written = input.write(prompt.as_bytes());
                input.close();
                written
            }
            Speech::Claude => write(input, &claude::say(prompt)),
            Speech::Codex { state, .. } => state.say(prompt).map_or(Ok(()), |line| write(input, &line)),
        }
    }

    /// What a line asks of us.
    pub(super) fn on_line(&mut self, event: &Json) -> Vec<Wants> {
        match self {
            Speech::Lines(_) => Vec::new(),
            Speech::Claude => match claude::parse_line(event) {
                None => Vec::new(),
                Some(Ok(asked)) => vec![Wants::Asks(Asked::Claude(asked))],
                Some(Err(line)) => vec![Wants::Send(line)],
            },
            Speech::Codex { open, session, state } => {
                let steps = state.on_line(event, open, session.as_deref());
                steps.into_iter().map(Wants::from).collect()
            }
        }
    }

    /// Makes it end its turn, where it can be told to.
    pub(super) fn interrupt(&self, input: &dyn InputChannel) {
        let line = match self {
            Speech::Lines(_) => None,
            Speech::Claude => Some(claude::interrupt()),
            Speech::Codex { state, .. } => state.interrupt(),
        };
        if let Some(line) = line {
            let _ = write(input, &line);
        }
    }
}

impl From<codex::Step> for Wants {
    fn from(step: codex::Step) -> Wants {
        match step {
            codex::Step::Send(line) => Wants::Send(line),
            codex::Step::Session(name) => Wants::Session(name),
            codex::Step::Asks(asked) => Wants::Asks(Asked::Codex(asked)),
            codex::Step::Failed(why) => Wants::Failed(why),
        }
    }
}

/// What a thread of Codex is opened with.
pub(super) fn opened_with(params: &Json, folder: &str, model: Option<&str>, system: &str) -> Json {
    let mut all = json!({ "cwd": folder, "developerInstructions": system });
    if let (Some(fields), Some(more)) = (all.as_object_mut(), params.as_object()) {
        fields.extend(model.map(|model| (String::from("model"), json!(model))));
        fields.extend(more.clone());
    }
    all
}

/// Writes one line of JSON to the program.
pub(super) fn write(input: &dyn InputChannel, line: &Json) -> Result<(), InputError> {
    let mut bytes = line.to_string().into_bytes();
    bytes.push(b'\n');
    input.write(&bytes)
}
