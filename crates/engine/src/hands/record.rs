//! What was said between `ftl` and an agent: kept in the content store, found by the action's key.
//!
//! A record holds what was sent, before it is sent, and what came back. It is a story for people: nothing
//! is decided by it, it is limited in size, and no secret is in it.

use std::sync::Arc;

use ftl_agents::bench;
use ftl_agents::contract::{Answer, PartKind, Said, Trouble};
use ftl_agents::prompts::Prompt;
use ftl_agents::scripted::write::{Recorded, RecordedStep};
use ftl_agents::secrets::Secrets;
use ftl_core::run::Usage;
use serde_json::{Value as Json, json};

use super::Job;
use super::agents::Seat;
use crate::id::RunId;
use crate::paper::Paper;
use crate::store::Store as _;
use crate::store::notebook::Notebook as _;

/// The kind of the notes that tell where a conversation is kept.
pub const TALK: &str = "talk";

/// How the parts of a prompt begin, where it is kept.
const PART: &str = "<!-- ";

/// How much of a conversation is kept.
pub const MAX_RECORD_BYTES: usize = 4 * 1024 * 1024;

/// How many conversations are kept for one action: it may be asked again after each crash.
pub const MAX_TALKS: usize = 32;

/// A conversation, as it happens.
pub struct Record {
    key: String,
    role: String,
    form: Option<String>,
    agent: String,
    model: Option<String>,
    prompt: String,
    lines: String,
    text: String,
    full: bool,
    secrets: Arc<Secrets>,
    kept: bool,
}

impl Record {
    /// A record of a job that is given to somebody.
    pub fn new(job: &Job, whom: (&str, Option<&str>), seat: &Seat, secrets: Arc<Secrets>) -> Record {
        Record {
            key: job.key(),
            role: whom.0.to_owned(),
            form: whom.1.map(str::to_owned),
            agent: seat.backend.name().to_owned(),
            model: seat.model.clone(),
            prompt: String::new(),
            lines: String::new(),
            text: String::new(),
            full: false,
            secrets,
            kept: false,
        }
    }

    /// What is sent.
    pub fn sent(&mut self, prompt: &Prompt) {
        let part = |part: &ftl_agents::contract::Part| {
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
    pub fn heard(&mut self, said: Said<'_>) {
        match said {
            Said::Text(text) => self.text.push_str(text),
            Said::Thought(text) => self.line(&json!({ "thought": text })),
            Said::Call(tool, about) => self.line(&json!({ "call": tool, "about": about })),
            Said::Back(tool, wrong) => self.line(&json!({ "back": tool, "wrong": wrong })),
            Said::Again => {
                self.text.clear();
                self.line(&json!({ "again": true }));
            }
        }
    }

    /// It calls a tool with this.
    pub fn tried(&mut self, tool: &str, args: &Json) {
        self.line(&json!({ "tried": tool, "args": args }));
    }

    /// It used something.
    pub fn used(&mut self, usage: &Usage) {
        self.line(&json!({ "used": usage }));
    }

    /// How it came to its end.
    pub fn ended(&mut self, outcome: &Result<Answer, Trouble>) {
        let line = match outcome {
            Ok(Answer::Done(json)) => json!({ "answer": json }),
            Ok(Answer::Asked(question)) => json!({ "asked": question }),
            Err(trouble) => json!({ "trouble": trouble.to_string() }),
        };
        self.line(&line);
    }

    fn line(&mut self, line: &Json) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.push(&json!({ "text": text }));
        }
        self.push(line);
    }

    fn push(&mut self, line: &Json) {
        let line = self.secrets.redact(&line.to_string());
        if self.full || self.lines.len() + line.len() > MAX_RECORD_BYTES {
            self.full = true;
            return;
        }
        self.lines.push_str(&line);
        self.lines.push('\n');
    }

    /// Keeps it, and notes where.
    pub fn keep(&mut self, paper: &Paper) -> Result<(), String> {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.push(&json!({ "text": text }));
        }
        let store = paper.store();
        let failed = |error: crate::store::StoreError| format!("what was said cannot be kept: {error}");
        let prompt = store.put(self.prompt.as_bytes()).map_err(failed)?;
        let mut talk = json!({ "role": self.role, "form": self.form, "agent": self.agent, "model": self.model,
            "prompt": prompt.to_string() });
        if !self.lines.is_empty() {
            talk["transcript"] = json!(store.put(self.lines.as_bytes()).map_err(failed)?.to_string());
            talk["cut"] = json!(self.full);
        }
        let again = std::mem::replace(&mut self.kept, true);
        store
            .amend(&mut |notes| {
                let old = notes.get(TALK, &self.key)?.unwrap_or_default();
                let mut talks: Vec<Json> = serde_json::from_str(&old).unwrap_or_default();
                if again {
                    talks.pop();
                }
                talks.truncate(MAX_TALKS - 1);
                talks.push(talk.clone());
                notes.put(TALK, &self.key, &Json::Array(talks).to_string()).map(|()| true)
            })
            .map_err(failed)
    }
}

/// The conversations of a run, in the order of its actions: each as its note tells it, with its key.
pub fn talks(paper: &Paper, run: &RunId) -> Result<Vec<(String, Json)>, String> {
    let notes = paper.store().notes(TALK).map_err(|error| error.to_string())?;
    let own = format!("{run}.");
    let mut found = Vec::new();
    for (key, text) in notes.into_iter().filter(|(key, _)| key.starts_with(&own)) {
        let talks: Vec<Json> =
            serde_json::from_str(&text).map_err(|error| format!("the note of {key} is damaged: {error}"))?;
        found.extend(talks.into_iter().map(|talk| (key.clone(), talk)));
    }
    let number = |key: &str| -> Vec<u64> {
        key[own.len()..].split('.').map(|part| part.parse().unwrap_or(u64::MAX)).collect()
    };
    found.sort_by_key(|(key, _)| number(key));
    Ok(found)
}

/// A conversation that was kept, as a session that can be played again.
pub fn recorded(paper: &Paper, talk: &Json) -> Result<Recorded, String> {
    let text = |name: &str| talk.get(name).and_then(Json::as_str);
    let content = |name: &str| -> Result<String, String> {
        let Some(digest) = text(name) else { return Ok(String::new()) };
        let digest = digest.parse().map_err(|_| format!("`{digest}` is no digest"))?;
        let bytes = paper.store().get(&digest).map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or_else(|| format!("the content {digest} is gone"))?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    };
    if talk.get("cut") == Some(&Json::Bool(true)) {
        return Err(format!("a conversation was longer than {MAX_RECORD_BYTES} bytes and is not kept whole"));
    }
    let mut steps: Vec<RecordedStep> = Vec::new();
    let mut spoken = String::new();
    for line in content("transcript")?.lines() {
        let line: Json =
            serde_json::from_str(line).map_err(|error| format!("a transcript is damaged: {error}"))?;
        let Some((word, value)) = line.as_object().and_then(|line| line.iter().next_back()) else { continue };
        match word.as_str() {
            "text" => spoken.push_str(value.as_str().unwrap_or_default()),
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
    Ok(Recorded { role, form, prompt: parts.to_owned(), steps })
}

fn end_or_call(step: &mut RecordedStep, line: &Json) {
    let words = |name: &str| line.get(name).and_then(Json::as_str).map(str::to_owned);
    if let (Some(tool), Some(args)) = (words("tried"), line.get("args"))
        && ![bench::SUBMIT, bench::ASK].contains(&tool.as_str())
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
    use crate::config::Config;
    use crate::place::Place;
    use crate::store::SqliteStore;

    fn record() -> Record {
        Record {
            key: format!("{}.1.0", RunId::of(7)),
            role: String::from("coder"),
            form: None,
            agent: String::from("a"),
            model: None,
            prompt: String::from("p"),
            lines: String::new(),
            text: String::new(),
            full: false,
            secrets: Arc::default(),
            kept: false,
        }
    }

    fn paper(root: &std::path::Path) -> Paper {
        let place = Place::at(root);
        place.prepare().unwrap();
        let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
        Paper::with(place, store, Config::default())
    }

    #[test]
    fn a_conversation_is_kept_up_to_a_limit_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let paper = paper(folder.path());
        let mut long = record();
        long.heard(Said::Thought("short"));
        long.heard(Said::Text(&"x".repeat(MAX_RECORD_BYTES)));
        long.keep(&paper).unwrap();
        assert!(long.full && long.lines.len() <= MAX_RECORD_BYTES, "{}", long.lines.len());
        let (_, talk) = talks(&paper, &RunId::of(7)).unwrap().remove(0);
        let Err(error) = recorded(&paper, &talk) else { panic!("it is whole") };
        assert!(error.contains(&MAX_RECORD_BYTES.to_string()), "{error}");
    }

    #[test]
    fn an_action_keeps_so_many_conversations_and_always_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let paper = paper(folder.path());
        for number in 0..MAX_TALKS + 3 {
            let mut one = record();
            one.agent = number.to_string();
            one.keep(&paper).unwrap();
        }
        let all = talks(&paper, &RunId::of(7)).unwrap();
        assert_eq!(all.len(), MAX_TALKS);
        assert_eq!(all[MAX_TALKS - 1].1["agent"], (MAX_TALKS + 2).to_string());
    }
}
