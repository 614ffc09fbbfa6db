//! The store's own journal: what happened to the store itself, each entry under a hash of all before it.
//!
//! Here stands when its sums were first computed, when its heads were made anew, and what loss a person has
//! accepted. Entries are added and never changed.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::read::{count, whole};
use ftl_core::run::Time;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_folder::rewind::Rewound;

/// Something that happened to a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum StoreEvent {
    /// A store of an earlier format got its sums: its rows were taken as they were.
    Sealed {
        /// The format it had.
        format: u32,
    },
    /// The heads were missing or could not be read, and were made anew from the store.
    HeadsRenewed {
        /// The fault that was found.
        why: String,
    },
    /// A person has accepted that something is lost.
    LossAccepted(Loss),
}

/// A loss that a person has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The name of the person who accepted the loss.
    pub by: String,
    /// The reason that the person gave.
    pub reason: String,
    /// What was wrong or missing, a line each.
    pub missing: Vec<String>,
    /// The runs of which entries are gone.
    pub runs: Vec<LostEntries>,
    /// The folder in the store with copies of the files as they were.
    pub copies: String,
    /// What was brought back in git, so that it knows no more of a run than its journal does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git: Vec<Rewound>,
    /// Copies of notes in `.ftl` that the store does not know any more, and that lie with the damaged files now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Entries of a run that are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostEntries {
    /// The run that lost entries.
    pub run: RunId,
    /// The last entry that was acknowledged, by the heads.
    pub had: u64,
    /// The hash of the last entry that was acknowledged.
    pub had_hash: String,
    /// The last entry that is left; 0 if the run has none.
    pub left: u64,
    /// The hash of the last entry that is left.
    pub left_hash: String,
}

/// An entry of the store's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The time at which the event was recorded.
    pub at: Time,
    /// The event: sums that were taken, heads that were made anew, or a loss that was accepted.
    pub event: StoreEvent,
}

/// Adds an event to the store's own log.
pub(super) fn add(open: &Connection, event: &StoreEvent) -> rusqlite::Result<()> {
    let failed = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let body = serde_json::to_string(event).map_err(failed)?;
    let (number, before) = last(open)?;
    let (number, at) = (number + 1, clock::wall());
    let hash = then(before, number, at, &body);
    let mut add = open.prepare("INSERT INTO events (number, at, body, hash) VALUES (?1, ?2, ?3, ?4)")?;
    add.execute((whole(number), whole(at), body, hash)).map(drop)
}

/// All events in order; the inner error says which one is not what was written.
pub(super) fn all(open: &Connection) -> rusqlite::Result<Result<Vec<RecordedEvent>, String>> {
    let mut list = open.prepare("SELECT number, at, body, hash FROM events ORDER BY number")?;
    let mut rows = list.query([])?;
    let mut before = start(open)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let due = events.len() as u64 + 1;
        let (number, at, body) = (count(row, 0)?, count(row, 1)?, row.get::<_, String>(2)?);
        before = then(before, due, at, &body);
        match serde_json::from_str(&body) {
            Ok(event) if number == due && row.get::<_, [u8; 32]>(3)? == before => {
                events.push(RecordedEvent { at, event });
            }
            Ok(_) | Err(_) => return Ok(Err(format!("event {due} of the store is not what was written"))),
        }
    }
    Ok(Ok(events))
}

/// Whether all events up to a number are there and what was written.
pub(super) fn is_sound_up_to(open: &Connection, number: u64) -> rusqlite::Result<bool> {
    let mut list = open.prepare_cached("SELECT at, body, hash FROM events WHERE number = ?1")?;
    let mut before = start(open)?;
    for due in 1..=number {
        let mut rows = list.query([whole(due)])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        let (Ok(at), Ok(body)) = (count(row, 0), row.get::<_, String>(1)) else { return Ok(false) };
        before = then(before, due, at, &body);
        let is_event = serde_json::from_str::<StoreEvent>(&body).is_ok();
        if !is_event || row.get::<_, [u8; 32]>(2).ok() != Some(before) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number and the hash of the last event.
fn last(open: &Connection) -> rusqlite::Result<(u64, [u8; 32])> {
    let mut find = open.prepare("SELECT number, hash FROM events ORDER BY number DESC LIMIT 1")?;
    let mut rows = find.query([])?;
    match rows.next()? {
        Some(row) => Ok((count(row, 0)?, row.get(1)?)),
        None => Ok((0, start(open)?)),
    }
}

/// The hash before the first event, which is the store's own.
fn start(open: &Connection) -> rusqlite::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    hash.update(b"ftl store 1\n");
    hash.update(super::read::store_name(open)?.as_bytes());
    Ok(hash.finalize().into())
}

fn then(before: [u8; 32], number: u64, at: u64, body: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(number.to_be_bytes());
    hash.update(at.to_be_bytes());
    hash.update(body.as_bytes());
    hash.finalize().into()
}
