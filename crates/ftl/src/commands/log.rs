//! `ftl log`: the journal of a run, as lines for people or as JSON lines for programs.
//!
//! For people it is folded: states, verdicts and what people said, with the bookkeeping between them counted.
//! Entries that this program does not understand are shown as they stand in the store: a journal that
//! a newer program has written can still be read.

use std::time::Duration;

use ftl_command::session::{session_failure, store_failure};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session};
use ftl_core::run::{Entry, Fact, InstanceId};
use ftl_engine::session::find;
use ftl_folder::id::RunId;
use ftl_store::journal;
use ftl_store::{Store, StoredEntry};
use ftl_view::fold::Fold;
use ftl_view::lines;
use ftl_view::paint::{self, paint, safe};
use ftl_view::relative_time;
use serde_json::{Value as Json, json};

use crate::cli::Log;

/// How many entries are read at a time.
const PAGE: usize = 500;

/// How wide the column is that says how many entries were passed over before one.
const GAP: usize = 5;

/// How often new entries are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the journal of a run.
pub(crate) fn run(cli: &GlobalArgs, asked: &Log, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let store = session::store_of_runs(&place)?;
    let target = find(&*store, &asked.id).map_err(|error| session_failure(&error))?;
    let only = asked.id.contains('/').then_some(target.instance);
    let fold = (!asked.all && !out.is_json()).then(Fold::default);
    // Nothing is read of what is not shown: the journal may have a million entries.
    let first = asked.last.map_or(0, |last| target.row.head.saturating_sub(last));
    let mut after = asked.after.max(first);
    let mut lines = LogLines { store: &*store, run: &target.row.run, only, before: "", fold, from: after };
    loop {
        // The row is read before the entries: a run that has ended then has no later ones.
        let row = store.run(&target.row.run).map_err(|error| store_failure(&error))?;
        let ended = row.is_none_or(|row| row.settled);
        after = lines.show(after, out)?;
        if ended || !asked.follow || out.is_unread() {
            lines.close(out)?;
            return Ok(ExitStatus::Done);
        }
        std::thread::sleep(LOOK);
    }
}

/// The entries of a run as lines.
pub(crate) struct LogLines<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) run: &'a RunId,
    /// Only those of this instance.
    pub(crate) only: Option<InstanceId>,
    /// The text before each line.
    pub(crate) before: &'a str,
    /// Passes over what only keeps the books.
    pub(crate) fold: Option<Fold>,
    /// The last entry before those that are shown.
    pub(crate) from: u64,
}

impl LogLines<'_> {
    /// Shows everything after an entry; the last one that was shown.
    pub(crate) fn show(&mut self, mut after: u64, out: &Out) -> Result<u64, CommandError> {
        loop {
            let page = self.store.entries(self.run, after, PAGE).map_err(|error| store_failure(&error))?;
            let mut text = String::new();
            for record in &page {
                after = record.seq;
                text.push_str(&self.one(record, out));
            }
            if out.is_json() {
                out.bytes(&text)?;
            } else {
                out.text(&text)?;
            }
            if page.len() < PAGE {
                return Ok(after);
            }
        }
    }

    /// Says how much was passed over.
    fn close(&self, out: &Out) -> Result<(), CommandError> {
        let Some(total) = self.fold.as_ref().map(|fold| fold.total).filter(|total| *total > 0) else {
            return Ok(());
        };
        let (what, them) = if total == 1 { ("entry is", "it") } else { ("entries are", "them") };
        out.text(&paint(paint::QUIET, format!("{total} more {what} not shown; --all shows {them}\n")))
    }

    fn one(&mut self, record: &StoredEntry, out: &Out) -> String {
        let entry = journal::decode(self.store, self.run, record);
        if let (Some(fold), Ok(Entry { instance, fact: Fact::Heard { action, .. }, .. })) =
            (&mut self.fold, &entry)
            && action.entry <= self.from
            && !fold.knows((*instance, *action))
            && let Some(asked) = asked_by(self.store, self.run, action.entry)
        {
            fold.remember(&asked);
        }
        let whose = entry.as_ref().ok().map(|entry| entry.instance);
        if self.only.is_some() && whose.is_some() && whose != self.only {
            return String::new();
        }
        if out.is_json() {
            return format!("{}\n", as_json(self.run, record, entry.ok().as_ref()));
        }
        let mut gap = String::new();
        let (time, line) = match &entry {
            Ok(entry) => {
                let line = match &mut self.fold {
                    None => lines::line(entry),
                    Some(fold) => {
                        let Some(line) = fold.line(entry) else { return String::new() };
                        let hidden = fold.take_hidden();
                        gap = if hidden == 0 {
                            " ".repeat(GAP)
                        } else {
                            format!(" {:>1$}", format!("+{hidden}"), GAP - 1)
                        };
                        line
                    }
                };
                (relative_time::clock(entry.at), line)
            }
            Err(error) => {
                let text = format!("{} {}", paint(paint::WARNING, "?"), safe(&error.to_string()));
                (String::from("         "), text)
            }
        };
        let number = paint(paint::QUIET, format!("{:>5} {time}{gap}", record.seq));
        format!("{}{number} {line}\n", self.before)
    }
}

/// The entry that asked for an action, which stands before what is shown.
fn asked_by(store: &dyn Store, run: &RunId, entry: u64) -> Option<Entry> {
    let found = store.entries(run, entry.checked_sub(1)?, 1).ok()?;
    journal::decode(store, run, found.first().filter(|record| record.seq == entry)?).ok()
}

/// An entry as one line of JSON: the fact with everything in it, and what the store knows beside.
fn as_json(run: &RunId, record: &StoredEntry, entry: Option<&Entry>) -> Json {
    let raw = || serde_json::from_str(&record.body).unwrap_or(Json::String(record.body.clone()));
    let mut document = entry.and_then(|entry| serde_json::to_value(entry).ok()).unwrap_or_else(raw);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("run".to_owned(), json!(run));
        fields.insert("epoch".to_owned(), json!(record.epoch));
        fields.insert("hash".to_owned(), json!(record.hash.to_string()));
        if let Some(entry) = entry {
            fields.insert("time".to_owned(), json!(relative_time::stamp(entry.at)));
        }
    }
    document
}
