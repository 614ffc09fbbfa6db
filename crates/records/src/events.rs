//! Events: an append-only log, one JSON object a line, with a copy in `.ftl/events.jsonl`.
//!
//! An event has a number in the store and is never changed. The copy only grows: lines that other programs
//! wrote into it stay.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use super::{RecordError, Records};
use ftl_core::json::{Json, JsonExt as _};
use ftl_store::{Notebook as _, Notes};

const KIND: &str = "event";

/// The note that counts.
const COUNT: &str = "count";

const FILE: &str = "events.jsonl";

/// How much of the end of the copy is looked at.
const MAX_END_BYTES: u64 = 256 * 1024;

impl Records {
    /// Records that a state was entered.
    pub fn emit_state(&self, state: &str, meta: Option<&str>, now: &str) -> Result<Json, RecordError> {
        if state.trim().is_empty() {
            return Err(RecordError::refuse("the state is empty", "name the state that was entered"));
        }
        let mut event = Json::object([
            ("event", Json::from("STATE_ENTRY")),
            ("state", Json::from(state)),
            ("timestamp", Json::from(now)),
        ]);
        if let Some(meta) = meta {
            let wrong = |what: String| RecordError::refuse(format!("--meta: {what}"), "give one JSON object");
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

    /// Adds an event to the store, and to the copy of the event log.
    pub fn emit(&self, event: &Json) -> Result<(), RecordError> {
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
    fn copy_events(&self) -> Result<(), RecordError> {
        let path = self.place().state().join(FILE);
        let on_disk = |error: io::Error| RecordError::disk(&path, &error);
        let _held = self.hold().map_err(on_disk)?;
        let copied =
            if ftl_folder::is_file(&path) { count(self.store().note("events", "copied")?) } else { 0 };
        let last = count(self.store().note("events", COUNT)?);
        let mut lines = Vec::new();
        for number in copied + 1..=last {
            lines.extend(self.store().note(KIND, &format!("{number:012}"))?);
        }
        let opened = ftl_folder::open_as(&path, ftl_folder::OpenMode::Append, 0o666);
        let mut file = opened.map_err(on_disk)?;
        let text = missing(&end_of(&mut file).map_err(on_disk)?, &lines);
        file.write_all(text.as_bytes()).map_err(on_disk)?;
        self.store().amend(&mut |notes: &mut dyn Notes| {
            notes.put("events", "copied", &last.to_string()).map(|()| true)
        })?;
        Ok(())
    }
}

/// What is to be added to a log that ends like this, so that it ends with these lines. The process that wrote it
/// may have been killed in the middle of one of them, or before it could say that it wrote them.
fn missing(end: &str, lines: &[String]) -> String {
    let (whole, torn) = end.rsplit_once('\n').unwrap_or(("", end));
    let mut text = String::new();
    let mut rest = lines.iter().filter(|line| !whole.lines().any(|there| there == line.as_str())).peekable();
    match rest.peek().and_then(|line| line.strip_prefix(torn)) {
        Some(tail) if !torn.is_empty() => {
            text.push_str(tail);
            text.push('\n');
            rest.next();
        }
        // A line that another program left without its end stays a line of its own.
        Some(_) | None if !torn.is_empty() => text.push('\n'),
        Some(_) | None => {}
    }
    for line in rest {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The last part of a file, as far back as a killed writer can have come.
fn end_of(file: &mut File) -> io::Result<String> {
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(end.saturating_sub(MAX_END_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MAX_END_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn count(note: Option<String>) -> u64 {
    note.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn a_log_gets_what_it_lacks_and_nothing_twice() {
        let lines = ["{\"a\": 1}".to_owned(), "{\"b\": 2}".to_owned()];
        let (a, b) = ("{\"a\": 1}\n", "{\"b\": 2}\n");
        let whole = format!("{a}{b}");
        for (end, added) in [
            ("", whole.as_str()),
            ("old\n", &whole),
            ("old", &format!("\n{whole}")),
            (a, b),
            (&whole, ""),
            ("old\n{\"a\"", &format!(": 1}}\n{b}")),
            (&format!("{a}{{\"b\""), ": 2}\n"),
        ] {
            assert_eq!(missing(end, &lines), added, "{end:?}");
        }
    }
}
