//! Events: an append-only log, one JSON object a line, with a copy in `.ftl/events.jsonl`.
//!
//! An event has a number in the store and is never changed. The copy only grows: what somebody else
//! wrote into it stays.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};

use super::{Paper, PaperError};
use crate::json_out::Json;
use crate::store::{Notebook as _, Notes};

const KIND: &str = "event";

/// The note that counts.
const COUNT: &str = "count";

const FILE: &str = "events.jsonl";

impl Paper {
    /// Records that a state was entered.
    pub fn emit_state(&self, state: &str, meta: Option<&str>, now: &str) -> Result<Json, PaperError> {
        if state.trim().is_empty() {
            return Err(PaperError::refused("the state is empty", "name the state that was entered"));
        }
        let mut event = Json::object([
            ("event", Json::from("STATE_ENTRY")),
            ("state", Json::from(state)),
            ("timestamp", Json::from(now)),
        ]);
        if let Some(meta) = meta {
            let wrong = |what: String| PaperError::refused(format!("--meta: {what}"), "give one JSON object");
            let meta = Json::parse(meta).map_err(|error| wrong(error.to_string()))?;
            if !meta.is_object() {
                return Err(wrong(format!("it is {}, not an object", meta.kind())));
            }
            for (key, value) in meta.fields() {
                event.put(key, value.clone());
            }
        }
        self.emit(&event)?;
        Ok(event)
    }

    /// Records an event.
    pub fn emit(&self, event: &Json) -> Result<(), PaperError> {
        let line = event.line();
        self.store().amend(&mut |notes: &mut dyn Notes| {
            let number = count(notes.get("events", COUNT)?) + 1;
            notes.put(KIND, &format!("{number:012}"), &line)?;
            notes.put("events", COUNT, &number.to_string())?;
            Ok(true)
        })?;
        self.copy_events()
    }

    /// Brings the copy up to date: adds what it lacks, or makes it when it is gone.
    fn copy_events(&self) -> Result<(), PaperError> {
        let path = self.place().state().join(FILE);
        let on_disk = |error: io::Error| PaperError::disk(&path, &error);
        let _held = self.hold().map_err(on_disk)?;
        let copied = if path.exists() { count(self.store().note("events", "copied")?) } else { 0 };
        let last = count(self.store().note("events", COUNT)?);
        let mut text = String::new();
        for number in copied + 1..=last {
            if let Some(line) = self.store().note(KIND, &format!("{number:012}"))? {
                text.push_str(&line);
                text.push('\n');
            }
        }
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(on_disk)?;
        // A line that somebody left without its end stays a line of its own.
        let torn = fs::read(&path).is_ok_and(|there| there.last().is_some_and(|byte| *byte != b'\n'));
        if torn {
            text.insert(0, '\n');
        }
        file.write_all(text.as_bytes()).map_err(on_disk)?;
        self.store().amend(&mut |notes: &mut dyn Notes| {
            notes.put("events", "copied", &last.to_string()).map(|()| true)
        })?;
        Ok(())
    }
}

fn count(note: Option<String>) -> u64 {
    note.and_then(|text| text.parse().ok()).unwrap_or(0)
}
