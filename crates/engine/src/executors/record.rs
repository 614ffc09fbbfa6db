//! What was said between `ftl` and an agent: kept in the content store, found by the action's key.
//!
//! A record holds what was sent, before it is sent, and what came back. While a conversation goes on its lines
//! stand in a file below `.ftl/store/talks/`, so that it can be followed, and read after the process was killed.
//! It is a story for people: nothing is decided by it, it is limited in size, and no secret is in it.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::recorded_script::{RecordedSession, RecordedStep};
use ftl_agents::contract::{AgentAnswer, PartKind, Said, Verdict};
use ftl_agents::error::AgentError;
use ftl_agents::secrets::Secrets;
use ftl_agents::toolset;
use ftl_core::run::{Time, Usage};
use ftl_core::tool_policy::{ResolvedPath, ToolCall};
use ftl_settings::prompts::RenderedPrompt;
use serde_json::{Value as Json, json};

use super::Job;
use super::agents::RoleAnswerer;
use ftl_folder::clock;
use ftl_folder::id::{self, RunId};
use ftl_folder::state_folder::StateFolder;
use ftl_folder::{self as folder, OpenMode};
use ftl_records::Records;
use ftl_store::chain::DigestError;
use ftl_store::notebook::Notebook as _;
use ftl_store::{ContentDigest, Store as _, StoreError};

/// The kind of the notes that tell where a conversation is kept.
pub const TALK: &str = "talk";

/// How the parts of a prompt begin, where it is kept.
const PART: &str = "<!-- ";

/// How much of a conversation is kept.
pub const MAX_RECORD_BYTES: usize = 4 * 1024 * 1024;

/// How much of all the results of a conversation is kept: what an agent said and called must not be lost over what
/// its commands printed.
pub const MAX_RESULTS_BYTES: usize = MAX_RECORD_BYTES / 2;

/// How much of one result is kept, or of the arguments of a program's own call.
pub const MAX_RESULT_BYTES: usize = 16 * 1024;

/// How many conversations are kept for one action: it may be asked again after each crash.
pub const MAX_TALKS: usize = 32;

/// A conversation, as it happens.
pub struct ConversationRecord {
    key: String,
    role: String,
    form: Option<String>,
    agent: String,
    model: Option<String>,
    prompt: String,
    instance: u32,
    began: Time,
    lines: String,
    speech: Speech,
    results: usize,
    full: bool,
    secrets: Arc<Secrets>,
    kept: bool,
    spool: Option<Spool>,
}

/// What an agent has said since the last line was complete: pieces come in any size.
#[derive(Default)]
struct Speech {
    text: String,
    is_thought: bool,
}

impl ConversationRecord {
    /// A record of a job that is given to an agent.
    pub fn new(
        job: &Job,
        whom: (&str, Option<&str>),
        seat: &RoleAnswerer,
        secrets: Arc<Secrets>,
    ) -> ConversationRecord {
        ConversationRecord {
            key: job.key(),
            role: whom.0.to_owned(),
            form: whom.1.map(str::to_owned),
            agent: seat.backend.name().to_owned(),
            model: seat.model.clone(),
            prompt: String::new(),
            instance: job.action.instance.0,
            began: clock::wall(),
            lines: String::new(),
            speech: Speech::default(),
            results: 0,
            full: false,
            secrets,
            kept: false,
            spool: None,
        }
    }

    /// Notes the prompt before it is sent.
    pub fn on_prompt(&mut self, prompt: &RenderedPrompt) {
        let part = |part: &ftl_agents::contract::PromptPart| {
            let kind = match part.kind {
                PartKind::Task => "task",
                PartKind::Feedback => "feedback",
                PartKind::Background => "background",
            };
            format!("{PART}{kind} -->\n{}\n", part.text)
        };
        let parts: String = prompt.parts.iter().map(part).collect();
        self.prompt = self.secrets.redact(&format!("{PART}system -->\n{}\n{parts}", prompt.system));
    }

    /// What an agent said or did.
    pub fn on_said(&mut self, said: Said<'_>) {
        match said {
            Said::Text(text) => self.speak(text, false),
            Said::Thought(text) => self.speak(text, true),
            Said::Call(tool, about) => self.line(&json!({ "call": tool, "about": about })),
            Said::Back(tool, wrong) => self.line(&json!({ "back": tool, "wrong": wrong })),
            Said::Again => {
                self.speech.text.clear();
                self.line(&json!({ "again": true }));
            }
        }
    }

    /// It calls a tool with this.
    pub fn tried(&mut self, tool: &str, args: &Json) {
        self.line(&json!({ "tried": tool, "args": args }));
    }

    /// Its own program calls a tool of its own with this.
    pub fn on_own_call(&mut self, tool: &str, args: &Json) {
        let text = args.to_string();
        let args = if text.len() > MAX_RESULT_BYTES {
            Json::from(self.secrets.excerpt(&text, MAX_RESULT_BYTES))
        } else {
            args.clone()
        };
        self.line(&json!({ "own": tool, "with": args }));
    }

    /// How a call was ruled on.
    pub fn on_ruling(&mut self, call: &ToolCall, verdict: &Verdict) {
        let (ruling, why) = match verdict {
            Verdict::Allow => ("allow", None),
            Verdict::Deny(why) => ("deny", Some(why)),
            Verdict::Ask(why) => ("ask", Some(why)),
            Verdict::Stop(why) => ("stop", Some(why)),
        };
        let path = match &call.spot {
            Some(ResolvedPath::Inside(path) | ResolvedPath::Outside(path)) => Some(path),
            None => None,
        };
        self.line(&json!({ "ruled": call.tool, "path": path, "ruling": ruling, "why": why }));
    }

    /// Records the result of a call.
    pub fn on_result(&mut self, tool: &str, result: &str) {
        if self.results >= MAX_RESULTS_BYTES {
            return self.line(&json!({ "result": tool, "left_out": result.len() }));
        }
        let result = self.secrets.excerpt(result, MAX_RESULT_BYTES);
        self.results += result.len();
        self.line(&json!({ "result": tool, "brought": result }));
    }

    /// Something was said to the agent after its prompt.
    pub fn on_message(&mut self, text: &str) {
        self.line(&json!({ "message": text }));
    }

    /// Notes what one turn used.
    pub fn on_usage(&mut self, usage: &Usage) {
        self.line(&json!({ "used": usage }));
    }

    /// How it came to its end.
    pub fn on_end(&mut self, outcome: &Result<AgentAnswer, AgentError>) {
        let line = match outcome {
            Ok(AgentAnswer::Done(json)) => json!({ "answer": json }),
            Ok(AgentAnswer::Asked(question)) => json!({ "asked": question }),
            Err(trouble) => json!({ "trouble": trouble.to_string() }),
        };
        self.line(&line);
    }

    /// Takes in a piece of speech. Lines that are complete can be followed at once.
    fn speak(&mut self, text: &str, is_thought: bool) {
        if self.speech.is_thought != is_thought {
            self.flush();
        }
        self.speech.is_thought = is_thought;
        self.speech.text.push_str(text);
        if let Some(at) = self.speech.text.rfind('\n') {
            let rest = self.speech.text.split_off(at + 1);
            self.flush();
            self.speech.text = rest;
        }
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.speech.text);
        if !text.is_empty() {
            let word = if self.speech.is_thought { "thought" } else { "text" };
            self.push(&json!({ word: text }));
        }
    }

    fn line(&mut self, line: &Json) {
        self.flush();
        self.push(line);
    }

    fn push(&mut self, line: &Json) {
        let mut line = self.secrets.redact(&line.to_string());
        if self.full || self.lines.len() + line.len() > MAX_RECORD_BYTES {
            self.full = true;
            return;
        }
        line.push('\n');
        if let Some(spool) = &mut self.spool {
            spool.append(&line);
        }
        self.lines.push_str(&line);
    }

    /// Keeps it, and notes where.
    pub fn keep(&mut self, records: &Records) -> Result<(), StoreError> {
        self.flush();
        let again = std::mem::replace(&mut self.kept, true);
        let earlier = if again { Vec::new() } else { self.begin(records)? };
        let talk = self.note(records)?;
        records.store().amend(&mut |notes| {
            let old = notes.get(TALK, &self.key)?.unwrap_or_default();
            let mut talks: Vec<Json> = serde_json::from_str(&old).unwrap_or_default();
            if again {
                talks.pop();
            }
            for (spool, digest) in &earlier {
                let lost = talks.iter_mut().find(|one| one.get(SPOOL).and_then(Json::as_str) == Some(spool));
                if let Some(lost) = lost {
                    lost["transcript"] = json!(digest.to_string());
                }
            }
            talks.truncate(MAX_TALKS - 1);
            talks.push(talk.clone());
            notes.put(TALK, &self.key, &Json::Array(talks).to_string()).map(|()| true)
        })?;
        for (spool, _) in &earlier {
            Spool::remove(records.place(), spool);
        }
        if let Some(spool) = self.spool.take_if(|_| again) {
            Spool::remove(records.place(), &spool.name);
        }
        Ok(())
    }

    /// Opens the file of the lines. Conversations of the same action that were never brought to an end are put with
    /// the content: their files, and what they are kept as.
    fn begin(&mut self, records: &Records) -> Result<Vec<(String, ContentDigest)>, StoreError> {
        self.spool = Spool::create_for(records.place(), &self.key);
        let old = records.store().note(TALK, &self.key)?.unwrap_or_default();
        let talks: Vec<Json> = serde_json::from_str(&old).unwrap_or_default();
        let mut earlier = Vec::new();
        for talk in talks.iter().filter(|talk| talk.get("transcript").is_none()) {
            let Some(name) = talk.get(SPOOL).and_then(Json::as_str) else { continue };
            let lines = Spool::read(records.place(), name);
            if !lines.is_empty() {
                earlier.push((name.to_owned(), records.store().put(lines.as_bytes())?));
            }
        }
        Ok(earlier)
    }

    /// The note that tells where it is kept.
    fn note(&self, records: &Records) -> Result<Json, StoreError> {
        let store = records.store();
        let prompt = store.put(self.prompt.as_bytes())?;
        let mut talk = json!({ "role": self.role, "form": self.form, "agent": self.agent, "model": self.model,
            "prompt": prompt.to_string(), "instance": self.instance, "at": self.began });
        if let Some(spool) = &self.spool {
            talk[SPOOL] = json!(spool.name);
        }
        if !self.lines.is_empty() {
            talk["transcript"] = json!(store.put(self.lines.as_bytes())?.to_string());
            talk["cut"] = json!(self.full);
        }
        Ok(talk)
    }
}

/// The key of a note under which the file of a conversation is named.
pub(super) const SPOOL: &str = "spool";

/// The file that holds the lines of a conversation until they are in the content store.
struct Spool {
    name: String,
    path: PathBuf,
    file: Option<File>,
    failed: bool,
}

impl Spool {
    /// A file of its own for a conversation. It is made with its first line.
    fn create_for(place: &StateFolder, key: &str) -> Option<Spool> {
        let name = format!("{key}.{:016x}", id::random().ok()?);
        let path = talks_folder(place).join(&name);
        Some(Spool { name, path, file: None, failed: false })
    }

    /// Adds a line. It is not synced: where the machine goes down it may be lost, and nothing depends on it.
    fn append(&mut self, line: &str) {
        if self.failed {
            return;
        }
        if self.file.is_none() {
            self.file = self.path.parent().and_then(|folder| Spool::create(folder, &self.path).ok());
        }
        let written = self.file.as_mut().map(|file| file.write_all(line.as_bytes()));
        // A reader of half a line leaves it out; a line after it would be lost as well.
        self.failed = !matches!(written, Some(Ok(())));
    }

    fn create(folder: &Path, path: &Path) -> std::io::Result<File> {
        folder::make(folder)?;
        folder::open(path, OpenMode::New)
    }

    /// The complete lines in a file; nothing where there is none.
    fn read(place: &StateFolder, name: &str) -> String {
        // A name that leads elsewhere is none of ours.
        let Some(name) = Some(name).filter(|name| !name.contains('/')) else { return String::new() };
        let Ok(file) = folder::open(&talks_folder(place).join(name), OpenMode::Read) else {
            return String::new();
        };
        let mut bytes = Vec::new();
        let most = MAX_RECORD_BYTES as u64 + 1;
        if file.take(most).read_to_end(&mut bytes).is_err() {
            return String::new();
        }
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Removes a file: its lines are in the store.
    fn remove(place: &StateFolder, name: &str) {
        let _ = folder::remove(&talks_folder(place).join(name));
    }
}

/// Where conversations are kept while they go on.
fn talks_folder(place: &StateFolder) -> PathBuf {
    place.store().join("talks")
}

/// The lines of a conversation that goes on, or whose process was killed.
pub(super) fn spooled(place: &StateFolder, name: &str) -> String {
    Spool::read(place, name)
}

/// Why a conversation that was kept cannot be had again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingError {
    /// The store does not give it.
    Store(StoreError),
    /// The note of an action is damaged.
    Note {
        /// The key of the action.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// What it refers to is no digest.
    Digest(DigestError),
    /// A part of it is not in the store any more.
    Gone(ContentDigest),
    /// A part of it is no text.
    NotText(String),
    /// It was too long, and only its beginning was kept.
    Cut,
    /// A line of it is damaged.
    Transcript(String),
}

impl From<StoreError> for RecordingError {
    fn from(error: StoreError) -> RecordingError {
        RecordingError::Store(error)
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::Store(error) => error.fmt(out),
            RecordingError::Note { key, message } => write!(out, "the note of {key} is damaged: {message}"),
            RecordingError::Digest(error) => error.fmt(out),
            RecordingError::Gone(digest) => write!(out, "the content {digest} is gone"),
            RecordingError::NotText(message) => out.write_str(message),
            RecordingError::Cut => {
                write!(out, "a conversation was longer than {MAX_RECORD_BYTES} bytes and is not kept whole")
            }
            RecordingError::Transcript(message) => write!(out, "a transcript is damaged: {message}"),
        }
    }
}

impl std::error::Error for RecordingError {}

/// The conversations of a run, in the order of its actions: each as its note tells it, with its key.
pub fn talks(records: &Records, run: &RunId) -> Result<Vec<(String, Json)>, RecordingError> {
    let notes = records.store().notes(TALK)?;
    let own = format!("{run}.");
    let mut found = Vec::new();
    for (key, text) in notes.into_iter().filter(|(key, _)| key.starts_with(&own)) {
        let damaged =
            |error: serde_json::Error| RecordingError::Note { key: key.clone(), message: error.to_string() };
        let talks: Vec<Json> = serde_json::from_str(&text).map_err(damaged)?;
        found.extend(talks.into_iter().map(|talk| (key.clone(), talk)));
    }
    let number = |key: &str| -> Vec<u64> {
        key[own.len()..].split('.').map(|part| part.parse().unwrap_or(u64::MAX)).collect()
    };
    found.sort_by_key(|(key, _)| number(key));
    Ok(found)
}

/// A conversation that was kept, as a session that can be played again.
pub fn recorded(records: &Records, talk: &Json) -> Result<RecordedSession, RecordingError> {
    let text = |name: &str| talk.get(name).and_then(Json::as_str);
    let content = |name: &str| -> Result<String, RecordingError> {
        let Some(digest) = text(name) else { return Ok(String::new()) };
        let digest: ContentDigest = digest.parse().map_err(RecordingError::Digest)?;
        let bytes = records.store().get(&digest)?.ok_or(RecordingError::Gone(digest))?;
        String::from_utf8(bytes).map_err(|error| RecordingError::NotText(error.to_string()))
    };
    if talk.get("cut") == Some(&Json::Bool(true)) {
        return Err(RecordingError::Cut);
    }
    let mut steps: Vec<RecordedStep> = Vec::new();
    let mut spoken = String::new();
    for line in content("transcript")?.lines() {
        let line: Json =
            serde_json::from_str(line).map_err(|error| RecordingError::Transcript(error.to_string()))?;
        let Some((word, value)) = line.as_object().and_then(|line| line.iter().next_back()) else { continue };
        match word.as_str() {
            "text" => spoken.push_str(value.as_str().unwrap_or_default()),
            // What was said since the turn began is void: it was taken again.
            "again" => spoken.clear(),
            "used" => {
                let usage = serde_json::from_value(value.clone()).unwrap_or_default();
                steps.push(RecordedStep {
                    say: std::mem::take(&mut spoken),
                    usage,
                    ..RecordedStep::default()
                });
            }
            _ => {
                if steps.is_empty() {
                    steps.push(RecordedStep::default());
                }
                let Some(step) = steps.last_mut() else { continue };
                step.say.push_str(&std::mem::take(&mut spoken));
                end_or_call(step, &line);
            }
        }
    }
    if let (Some(step), false) = (steps.last_mut(), spoken.is_empty()) {
        step.say.push_str(&spoken);
    }
    let (role, form) = (text("role").unwrap_or_default().to_owned(), text("form").map(str::to_owned));
    // Who it is and where it works is no part of what a scene is chosen by.
    let prompt = content("prompt")?;
    let parts = prompt.match_indices(PART).nth(1).map_or("", |(at, _)| &prompt[at..]);
    Ok(RecordedSession { role, form, prompt: parts.to_owned(), steps })
}

fn end_or_call(step: &mut RecordedStep, line: &Json) {
    let words = |name: &str| line.get(name).and_then(Json::as_str).map(str::to_owned);
    if let (Some(tool), Some(args)) = (words("tried"), line.get("args"))
        && ![toolset::SUBMIT, toolset::ASK].contains(&tool.as_str())
    {
        step.calls.push((tool, args.clone()));
    }
    if let Some(answer) = line.get("answer") {
        step.submit = Some(answer.clone());
    }
    step.ask = words("asked").or(step.ask.take());
    step.die = words("trouble").or(step.die.take());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::transcript::{self, TranscriptLine};
    use ftl_records::RecordOptions;
    use ftl_store::SqliteStore;

    fn record() -> ConversationRecord {
        ConversationRecord {
            key: format!("{}.1.0", RunId::of(7)),
            role: String::from("coder"),
            form: None,
            agent: String::from("a"),
            model: None,
            prompt: String::from("p"),
            instance: 0,
            began: 0,
            lines: String::new(),
            speech: Speech::default(),
            results: 0,
            full: false,
            secrets: Arc::default(),
            kept: false,
            spool: None,
        }
    }

    fn records(root: &std::path::Path) -> Records {
        let place = StateFolder::at(root);
        place.prepare().unwrap();
        let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
        Records::with(place, store, RecordOptions::default())
    }

    #[test]
    fn a_conversation_is_kept_up_to_a_limit_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        let mut long = record();
        long.on_said(Said::Thought("short"));
        long.on_said(Said::Text(&"x".repeat(MAX_RECORD_BYTES)));
        long.keep(&records).unwrap();
        assert!(long.full && long.lines.len() <= MAX_RECORD_BYTES, "{}", long.lines.len());
        let (_, talk) = talks(&records, &RunId::of(7)).unwrap().remove(0);
        let Err(error) = recorded(&records, &talk) else { panic!("it is whole") };
        assert!(error.to_string().contains(&MAX_RECORD_BYTES.to_string()), "{error}");
    }

    fn transcript(records: &Records, at: usize) -> Vec<TranscriptLine> {
        let all = transcript::conversations(records, &RunId::of(7)).unwrap();
        all[at].read(records, 0).unwrap().lines
    }

    #[test]
    fn results_are_kept_up_to_limits_and_what_is_said_is_not_lost_over_them() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        let mut one = record();
        one.on_result("bash", &format!("begins{}ends", "é".repeat(MAX_RESULT_BYTES)));
        for _ in 0..MAX_RESULTS_BYTES / MAX_RESULT_BYTES + 1 {
            one.on_result("bash", &"x".repeat(MAX_RESULT_BYTES));
        }
        one.on_said(Said::Text("the last word"));
        one.keep(&records).unwrap();
        assert!(!one.full, "{}", one.lines.len());
        let lines = transcript(&records, 0);
        let TranscriptLine::Result { text: Some(first), .. } = &lines[0] else { panic!("{:?}", lines[0]) };
        assert!(first.starts_with("begins") && first.ends_with("ends") && first.contains(" bytes left out "));
        assert!(first.len() < MAX_RESULT_BYTES + 64, "{}", first.len());
        let out = TranscriptLine::Result {
            tool: "bash".into(),
            text: None,
            left_out: Some(MAX_RESULT_BYTES as u64),
        };
        assert_eq!(lines[lines.len() - 2..], [out, TranscriptLine::Text("the last word".into())]);
        one.on_own_call("Write", &json!({ "content": "y".repeat(MAX_RESULT_BYTES) }));
        assert!(one.lines.lines().last().unwrap().len() < MAX_RESULT_BYTES + 128);
    }

    #[test]
    fn a_conversation_that_nobody_ended_is_read_from_its_file_and_then_from_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        let mut killed = record();
        killed.keep(&records).unwrap();
        killed.on_said(Said::Text("one\ntwo\nhalf a li"));
        let wanted = [TranscriptLine::Text("one\ntwo\n".into())];
        assert_eq!(transcript(&records, 0), wanted);
        let file = killed.spool.as_ref().unwrap().path.clone();
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"text\":\"cut").unwrap();
        assert_eq!(transcript(&records, 0), wanted, "half a line is left out");
        // A question that is put again brings what was said before with the content.
        let mut next = record();
        next.keep(&records).unwrap();
        assert!(!file.exists());
        assert_eq!(transcript(&records, 0), wanted);
        next.on_said(Said::Text("again"));
        next.keep(&records).unwrap();
        assert_eq!(transcript(&records, 1), [TranscriptLine::Text("again".into())]);
        assert_eq!(std::fs::read_dir(super::talks_folder(records.place())).unwrap().count(), 0);
    }

    #[test]
    fn an_action_keeps_so_many_conversations_and_always_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        for number in 0..MAX_TALKS + 3 {
            let mut one = record();
            one.agent = number.to_string();
            one.keep(&records).unwrap();
        }
        let all = talks(&records, &RunId::of(7)).unwrap();
        assert_eq!(all.len(), MAX_TALKS);
        assert_eq!(all[MAX_TALKS - 1].1["agent"], (MAX_TALKS + 2).to_string());
    }
}
