//! Conversations with agents as they are read: what each said and called, how that was ruled on, what came of it.
//!
//! It reads what `record` keeps, also of conversations that go on and of those whose process was killed. Nothing is
//! written here, and a line of a newer program is passed on as it is.

use std::fmt;

use ftl_core::run::{ActionId, InstanceId, Time, Usage};
use serde_json::{Value as Json, json};

use super::record::{self, SPOOL};
use ftl_folder::id::RunId;
use ftl_records::Records;
use ftl_store::{ContentDigest, Store as _, StoreError};

/// The reasons for which conversations cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptError {
    /// The store did not do it.
    Store(StoreError),
    /// What is kept is not what was written.
    Damaged(String),
}

impl From<StoreError> for TranscriptError {
    fn from(error: StoreError) -> TranscriptError {
        TranscriptError::Store(error)
    }
}

impl TranscriptError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            TranscriptError::Store(error) => error.hint(),
            TranscriptError::Damaged(_) => "run `ftl doctor --deep`",
        }
    }
}

impl fmt::Display for TranscriptError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TranscriptError::Store(error) => error.fmt(out),
            TranscriptError::Damaged(what) => out.write_str(what),
        }
    }
}

impl std::error::Error for TranscriptError {}

/// One conversation: an action may have several, where it was asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Which action of the run it answers.
    pub action: ActionId,
    /// Which conversation of that action, from 0.
    pub number: usize,
    /// Whose action it is; nothing where an earlier version kept it: the journal knows.
    pub instance: Option<InstanceId>,
    /// The role that the agent answered.
    pub role: String,
    /// The form in which it was asked, such as `implement`.
    pub form: Option<String>,
    /// The agent, as the settings call it.
    pub agent: String,
    /// The model, where it is not the agent's own.
    pub model: Option<String>,
    /// When it began, where that is known.
    pub at: Option<Time>,
    /// Whether it was too long to be kept whole.
    pub is_cut: bool,
    prompt: Option<ContentDigest>,
    transcript: Option<ContentDigest>,
    spool: Option<String>,
}

/// What was read of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// The lines after those that were read before.
    pub lines: Vec<TranscriptLine>,
    /// The byte from which to go on reading.
    pub next: usize,
}

/// One thing that happened in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptLine {
    /// The agent says something.
    Text(String),
    /// A thought that the agent shows.
    Thought(String),
    /// It was told something after its prompt.
    Message(String),
    /// A tool is called with this.
    Arguments {
        /// The tool, in the agent's words.
        tool: String,
        /// The arguments of the call.
        args: Json,
    },
    /// A tool is called.
    Call {
        /// The name of the tool that is called.
        tool: String,
        /// What it is about, in one line.
        about: String,
    },
    /// A call was ruled on.
    Ruling {
        /// The name of the tool that was ruled on.
        tool: String,
        /// The path that was ruled on.
        path: Option<String>,
        /// `allow`, `deny`, `ask` or `stop`.
        ruling: String,
        /// Why it may not be made.
        why: Option<String>,
    },
    /// The result of a call.
    Result {
        /// The name of the tool that was called.
        tool: String,
        /// The text, or as much of it as is kept.
        text: Option<String>,
        /// How many bytes are not kept, where nothing is.
        left_out: Option<u64>,
    },
    /// A call came back.
    Back {
        /// The name of the tool that was called.
        tool: String,
        /// The fault that the agent is told; none where the call was made.
        wrong: Option<String>,
    },
    /// Amounts that one turn used, by meter.
    Used(Usage),
    /// The turn was taken again; what was said in it is void.
    Again,
    /// The answer that was submitted, as JSON.
    Answer(Json),
    /// It asks a person.
    Question(String),
    /// It ended without an answer.
    Failure(String),
    /// Something that this program does not know.
    Unknown(Json),
}

/// The conversations of a run, in the order of its actions.
pub fn conversations(records: &Records, run: &RunId) -> Result<Vec<Conversation>, TranscriptError> {
    let talks = record::talks(records, run).map_err(|error| TranscriptError::Damaged(error.to_string()))?;
    let mut all: Vec<Conversation> = Vec::new();
    for (key, talk) in &talks {
        let mut one = Conversation::parse(run, key, talk)?;
        one.number = all.iter().rev().take_while(|before| before.action == one.action).count();
        all.push(one);
    }
    Ok(all)
}

impl Conversation {
    fn parse(run: &RunId, key: &str, talk: &Json) -> Result<Conversation, TranscriptError> {
        let damaged = || TranscriptError::Damaged(format!("the note of the conversation {key} is damaged"));
        let text = |name: &str| talk.get(name).and_then(Json::as_str).map(str::to_owned);
        let digest = |name: &str| text(name).map(|text| text.parse().map_err(|_| damaged())).transpose();
        let (entry, index) =
            key.strip_prefix(run.as_str()).and_then(|key| key[1..].split_once('.')).ok_or_else(damaged)?;
        let action = ActionId {
            entry: entry.parse().map_err(|_| damaged())?,
            index: index.parse().map_err(|_| damaged())?,
        };
        let instance = talk.get("instance").and_then(Json::as_u64).and_then(|one| u32::try_from(one).ok());
        Ok(Conversation {
            action,
            number: 0,
            instance: instance.map(InstanceId),
            role: text("role").unwrap_or_default(),
            form: text("form"),
            agent: text("agent").unwrap_or_default(),
            model: text("model"),
            at: talk.get("at").and_then(Json::as_u64),
            is_cut: talk.get("cut") == Some(&Json::Bool(true)),
            prompt: digest("prompt")?,
            transcript: digest("transcript")?,
            spool: text(SPOOL),
        })
    }

    /// Whether it has been brought to its end: no line comes after those that are there.
    pub fn is_over(&self) -> bool {
        self.transcript.is_some()
    }

    /// What the agent was told, with a mark before each part.
    pub fn prompt(&self, records: &Records) -> Result<String, TranscriptError> {
        self.prompt.as_ref().map_or(Ok(String::new()), |digest| content(records, digest))
    }

    /// What happened after what was read before: from 0, then from where the last reading ended. A conversation that
    /// has ended goes on where its file was read to, since both hold the same bytes.
    pub fn read(&self, records: &Records, from: usize) -> Result<Read, TranscriptError> {
        let text = match (&self.transcript, &self.spool) {
            (Some(digest), _) => content(records, digest)?,
            (None, Some(spool)) => record::spooled(records.place(), spool),
            (None, None) => String::new(),
        };
        let Some(rest) = text.get(from..) else { return Ok(Read { lines: Vec::new(), next: from }) };
        let lines = rest.lines().map(TranscriptLine::parse).collect::<Result<_, _>>()?;
        Ok(Read { lines, next: text.len() })
    }
}

fn content(records: &Records, digest: &ContentDigest) -> Result<String, TranscriptError> {
    let bytes = records.store().get(digest)?;
    let bytes = bytes.ok_or_else(|| TranscriptError::Damaged(format!("the content {digest} is gone")))?;
    String::from_utf8(bytes)
        .map_err(|error| TranscriptError::Damaged(format!("the content {digest} is no text: {error}")))
}

impl TranscriptLine {
    fn parse(line: &str) -> Result<TranscriptLine, TranscriptError> {
        let json: Json = serde_json::from_str(line).map_err(|error| {
            TranscriptError::Damaged(format!("a line of a conversation is no JSON: {error}"))
        })?;
        let text = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
        let has = |name: &str| json.get(name).is_some();
        Ok(if let Some(tool) = text("tried").or_else(|| text("own")) {
            let args = json.get("args").or_else(|| json.get("with")).cloned().unwrap_or_default();
            TranscriptLine::Arguments { tool, args }
        } else if let Some(tool) = text("call") {
            TranscriptLine::Call { tool, about: text("about").unwrap_or_default() }
        } else if let Some(tool) = text("ruled") {
            let ruling = text("ruling").unwrap_or_default();
            TranscriptLine::Ruling { tool, path: text("path"), ruling, why: text("why") }
        } else if let Some(tool) = text("result") {
            let left_out = json.get("left_out").and_then(Json::as_u64);
            TranscriptLine::Result { tool, text: text("brought"), left_out }
        } else if let Some(tool) = text("back") {
            TranscriptLine::Back { tool, wrong: text("wrong") }
        } else if let Some(answer) = json.get("answer") {
            TranscriptLine::Answer(answer.clone())
        } else if let Some(used) = json.get("used").and_then(|used| serde_json::from_value(used.clone()).ok())
        {
            TranscriptLine::Used(used)
        } else if has("again") {
            TranscriptLine::Again
        } else {
            let known = text("text")
                .map(TranscriptLine::Text)
                .or_else(|| text("thought").map(TranscriptLine::Thought));
            let known = known.or_else(|| text("message").map(TranscriptLine::Message));
            let known = known.or_else(|| text("asked").map(TranscriptLine::Question));
            let known = known.or_else(|| text("trouble").map(TranscriptLine::Failure));
            known.unwrap_or(TranscriptLine::Unknown(json))
        })
    }

    /// The line as data: what it is under `kind`, and its parts.
    pub fn to_json(&self) -> Json {
        match self {
            TranscriptLine::Text(text) => json!({ "kind": "text", "text": text }),
            TranscriptLine::Thought(text) => json!({ "kind": "thought", "text": text }),
            TranscriptLine::Message(text) => json!({ "kind": "message", "text": text }),
            TranscriptLine::Arguments { tool, args } => {
                json!({ "kind": "arguments", "tool": tool, "args": args })
            }
            TranscriptLine::Call { tool, about } => json!({ "kind": "call", "tool": tool, "about": about }),
            TranscriptLine::Ruling { tool, path, ruling, why } => {
                json!({ "kind": "ruling", "tool": tool, "path": path, "ruling": ruling, "why": why })
            }
            TranscriptLine::Result { tool, text, left_out } => {
                json!({ "kind": "result", "tool": tool, "text": text, "left_out": left_out })
            }
            TranscriptLine::Back { tool, wrong } => json!({ "kind": "back", "tool": tool, "wrong": wrong }),
            TranscriptLine::Used(usage) => json!({ "kind": "used", "used": usage }),
            TranscriptLine::Again => json!({ "kind": "again" }),
            TranscriptLine::Answer(answer) => json!({ "kind": "answer", "answer": answer }),
            TranscriptLine::Question(text) => json!({ "kind": "question", "text": text }),
            TranscriptLine::Failure(text) => json!({ "kind": "failure", "text": text }),
            TranscriptLine::Unknown(line) => json!({ "kind": "unknown", "line": line }),
        }
    }
}
