//! `ftl log`: the journal of a run, as lines for people or as JSON lines for programs.
//!
//! Entries that this program does not understand are shown as they stand in the store: a journal that
//! a newer program has written can still be read.

use std::time::Duration;

use ftl_core::run::{Entry, InstanceId};
use ftl_engine::journal;
use ftl_engine::session::{Target, find};
use ftl_engine::store::{Record, Store};
use serde_json::{Value as Json, json};

use crate::cli::{Cli, Log};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lines;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session::{self, session_failure, store_failure};
use crate::when;

/// How many entries are read at a time.
const PAGE: usize = 500;

/// How often new entries are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the journal of a run.
pub(crate) fn run(cli: &Cli, asked: &Log, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let store = session::store_of_runs(&place)?;
    let target = find(&*store, &asked.id).map_err(|error| session_failure(&error))?;
    let only = asked.id.contains('/').then_some(target.instance);
    let mut after = asked.after;
    loop {
        // The row is read before the entries: a run that has ended then has no later ones.
        let row = store.run(&target.row.run).map_err(|error| store_failure(&error))?;
        let ended = row.is_none_or(|row| row.settled);
        after = show(&*store, &target, (after, only), out)?;
        if ended || !asked.follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK);
    }
}

/// Shows everything after an entry; the last one that was shown.
fn show(
    store: &dyn Store,
    target: &Target,
    (mut after, only): (u64, Option<InstanceId>),
    out: &Out,
) -> Result<u64, Failure> {
    loop {
        let page = store.entries(&target.row.run, after, PAGE).map_err(|error| store_failure(&error))?;
        let mut text = String::new();
        for record in &page {
            after = record.seq;
            text.push_str(&one(store, target, record, only, out));
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

fn one(store: &dyn Store, target: &Target, record: &Record, only: Option<InstanceId>, out: &Out) -> String {
    let entry = journal::decode(store, &target.row.run, record);
    let whose = entry.as_ref().ok().map(|entry| entry.instance);
    if only.is_some() && whose.is_some() && whose != only {
        return String::new();
    }
    if out.is_json() {
        return format!("{}\n", as_json(record, entry.ok().as_ref()));
    }
    match entry {
        Ok(entry) => {
            let number = paint(paint::QUIET, format!("{:>5} {}", entry.seq, when::clock(entry.at)));
            format!("{number} {}\n", lines::line(&entry))
        }
        Err(error) => {
            let number = paint(paint::QUIET, format!("{:>5}         ", record.seq));
            format!("{number} {} {}\n", paint(paint::WARNING, "?"), safe(&error.to_string()))
        }
    }
}

/// An entry as one line of JSON: the fact with everything in it, and what the store knows beside.
fn as_json(record: &Record, entry: Option<&Entry>) -> Json {
    let raw = || serde_json::from_str(&record.body).unwrap_or(Json::String(record.body.clone()));
    let mut document = entry.and_then(|entry| serde_json::to_value(entry).ok()).unwrap_or_else(raw);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("epoch".to_owned(), json!(record.epoch));
        fields.insert("hash".to_owned(), json!(record.hash.to_string()));
        if let Some(entry) = entry {
            fields.insert("time".to_owned(), json!(when::stamp(entry.at)));
        }
    }
    document
}
