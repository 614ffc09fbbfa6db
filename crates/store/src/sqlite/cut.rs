//! Where a journal that has lost its end may be cut, and what its run looks like then.
//!
//! The facts of one decision are kept together or not at all: a run that stands in the middle of a decision can neither
//! go on nor be decided again. It writes nothing but the row of the run.

use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::program::{Program, Programs};
use ftl_core::run::{Entry, Run};
use rusqlite::{Connection, OptionalExtension as _};
use serde::Deserialize;

use super::heads::RunHead;
use super::integrity;
use super::read::{self, count, whole};
use crate::Hash;
use crate::journal;
use crate::summary::{Questions, Summary};

/// The number of entries, and the hash of the last one.
pub(super) type End = (u64, [u8; 32]);

/// What is read of an entry to find where a decision begins.
#[derive(Deserialize)]
struct Mark {
    #[serde(default)]
    first: bool,
}

fn is_first(body: &str) -> bool {
    serde_json::from_str::<Mark>(body).is_ok_and(|mark| mark.first)
}

/// The end before a decision of which only a part is sound. Journals without marks are cut where they are not sound.
pub(super) fn before_broken_decision(open: &Connection, head: &RunHead, sound: End) -> rusqlite::Result<End> {
    if sound.0 == 0 || is_next_decision(open, head, sound)? {
        return Ok(sound);
    }
    let mut list =
        open.prepare_cached("SELECT seq, body FROM entries WHERE run = ?1 AND seq <= ?2 ORDER BY seq DESC")?;
    let mut rows = list.query((head.number, whole(sound.0)))?;
    while let Some(row) = rows.next()? {
        if is_first(&row.get::<_, String>(1)?) {
            return end_at(open, head, count(row, 0)? - 1);
        }
    }
    Ok(sound)
}

/// Whether the entry behind the sound ones is what was written, lacks only its content, and begins a decision.
fn is_next_decision(open: &Connection, head: &RunHead, (last, hash): End) -> rusqlite::Result<bool> {
    let mut find =
        open.prepare_cached("SELECT epoch, body, hash FROM entries WHERE run = ?1 AND seq = ?2")?;
    let next = find.query_row((head.number, whole(last + 1)), |row| {
        let (Ok(epoch), Ok(body)) = (count(row, 0), row.get::<_, String>(1)) else { return Ok(false) };
        let due = Hash(hash).then(last + 1, epoch, &body);
        Ok(row.get::<_, [u8; 32]>(2).ok() == Some(due.0) && is_first(&body))
    });
    Ok(next.optional()?.unwrap_or(false))
}

fn end_at(open: &Connection, head: &RunHead, last: u64) -> rusqlite::Result<End> {
    if last == 0 {
        return Ok((0, head.name.parse().map_or([0; 32], |run| Hash::start(&run).0)));
    }
    let hash = integrity::entry_hash(open, head.number, last)?;
    hash.map(|hash| (last, hash)).ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// No program at all: a summary is made of what the entries say, and nothing is decided.
#[derive(Debug)]
struct NoPrograms;

impl Programs for NoPrograms {
    fn program(&self, _: &str) -> Option<&Arc<Program>> {
        None
    }

    fn program_of(&self, _: &str, _: &str, _: &str) -> Option<&Arc<Program>> {
        None
    }

    fn catalogue(&self) -> &Catalogue {
        Catalogue::standard()
    }
}

/// Makes what a run looks like from outside out of the entries that it has now. Entries that this program does not
/// understand leave it as it was.
pub(super) fn renew_summary(open: &Connection, run: i64) -> rusqlite::Result<()> {
    let Some(entries) = entries(open, run)? else { return Ok(()) };
    let run_now = Run::replay(Arc::new(NoPrograms), &entries);
    let summary = Summary::of(&run_now, &Questions::new());
    let failed = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let text = serde_json::to_string(&summary).map_err(failed)?;
    let renew = "UPDATE runs SET summary = ?2, settled = ?3 WHERE number = ?1";
    open.execute(renew, (run, text, run_now.end().is_some())).map(drop)
}

fn entries(open: &Connection, run: i64) -> rusqlite::Result<Option<Vec<Entry>>> {
    let mut list = open.prepare_cached("SELECT body FROM entries WHERE run = ?1 ORDER BY seq")?;
    let mut rows = list.query([run])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        let filled = journal::fill(&body, |digest| match read::content(open, digest)? {
            Some(number) => read::bytes(open, number).map(Some),
            None => Ok(None),
        })?;
        match filled.map(|text| serde_json::from_str(&text)) {
            Ok(Ok(entry)) => entries.push(entry),
            Ok(Err(_)) | Err(_) => return Ok(None),
        }
    }
    Ok(Some(entries))
}
