//! Whether a store is what was written: its log, its heads, its sums, its tables and its own journal.
//!
//! It reads and never writes. A writer asks the short form first, and is refused where something
//! acknowledged is gone; the long form reads every row under the seal and is for `audit verify` and `doctor`. The
//! chains of runs are looked at elsewhere.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use super::events::{self, LostEntries, RecordedEvent, StoreEvent};
use super::heads::{self, Found, Heads, RunHead, StoreHead};
use super::log::{self, LogDamage};
use super::read::{self, count};
use super::{DATABASE, schema, seal, trouble};
use crate::{FORMAT, Hash, StoreError};

/// How many differences an error names; `doctor` names all.
const MAX_NAMED: usize = 3;

/// What was found about a store as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// What is not what was written, a line each. A store with any is damaged.
    pub problems: Vec<String>,
    /// What a person may want to know and is no damage.
    pub remarks: Vec<String>,
    /// What happened to the store so far, the first thing first.
    pub events: Vec<RecordedEvent>,
}

/// How a store differs from its heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) lines: Vec<String>,
    pub(super) runs: Vec<LostEntries>,
}

/// Looks whether the log may be added to. The caller holds the write lock.
pub(super) fn check_log(folder: &Path, open: &Connection) -> Result<(), StoreError> {
    let database = folder.join(DATABASE);
    let frames = frames(open).map_err(|error| trouble::of_sqlite(&database, &error))?;
    let damage = log::find_damage(folder, frames).map_err(|error| trouble::of_disk(folder, &error))?;
    damage.map_or(Ok(()), |damage| Err(StoreError::Lost(describe_log(damage))))
}

/// Looks whether a store is behind its heads, under the write lock; what its heads are.
pub(super) fn check_heads(folder: &Path, open: &Connection) -> Result<Found, StoreError> {
    let database = folder.join(DATABASE);
    let found = heads::read(folder).map_err(|error| trouble::of_disk(folder, &error))?;
    let Found::Heads(heads) = &found else { return Ok(found) };
    let lines = compare(open, heads).map_err(|error| trouble::of_sqlite(&database, &error))?.lines;
    if lines.is_empty() { Ok(found) } else { Err(StoreError::Lost(shortened(&lines))) }
}

/// Looks whether a store that is only read is behind its heads, or its log goes on behind its end.
pub(super) fn look_for_loss(
    folder: &Path,
    read: impl Fn(&dyn Fn(&Connection) -> rusqlite::Result<Vec<String>>) -> Result<Vec<String>, StoreError>,
) -> Result<(), StoreError> {
    let on_disk = |error: io::Error| trouble::of_disk(folder, &error);
    let found = heads::read(folder).map_err(on_disk)?;
    let damage = log_damage(folder).map_err(on_disk)?;
    let mut lines: Vec<String> = damage.map(describe_log).into_iter().collect();
    lines.extend(read(&|open| {
        let number = schema::format_number(open)?;
        let mut lines: Vec<String> =
            schema::misnumbered(open)?.into_iter().filter(|_| number < FORMAT).collect();
        match (&found, schema::format_of(open, number)?) {
            (Found::Heads(heads), FORMAT) => lines.extend(compare(open, heads)?.lines),
            (Found::Heads(_), ..FORMAT) => lines.push(schema::heads_beside(number)),
            (Found::Heads(_) | Found::Missing | Found::Unreadable, _) => {}
        }
        Ok(lines)
    })?);
    if lines.is_empty() { Ok(()) } else { Err(StoreError::Lost(shortened(&lines))) }
}

/// Reads everything under the seal and compares it with what was noted.
pub(super) fn report(
    folder: &Path,
    read: impl Fn(&dyn Fn(&Connection) -> rusqlite::Result<StoreReport>) -> Result<StoreReport, StoreError>,
) -> Result<StoreReport, StoreError> {
    let on_disk = |error: io::Error| trouble::of_disk(folder, &error);
    // The heads first: a store that grows meanwhile is ahead of them, as it may be.
    let found = heads::read(folder).map_err(on_disk)?;
    let damage = log_damage(folder).map_err(on_disk)?;
    let mut report = read(&|open| of_snapshot(open, &found))?;
    report.problems.splice(0..0, damage.map(describe_log));
    Ok(report)
}

/// Looks through the log without a lock: a reader must not wait for a writer, least of all for one that was
/// stopped. A log that begins anew in the middle of a look may seem damaged; only what is seen twice in the same round counts.
fn log_damage(folder: &Path) -> io::Result<Option<LogDamage>> {
    match log::find_damage(folder, 0)? {
        Some(first) => Ok(log::find_damage(folder, 0)?.filter(|again| *again == first)),
        None => Ok(None),
    }
}

pub(super) fn describe_log(damage: LogDamage) -> String {
    match damage.first_bad {
        0 => format!("the header of the log is damaged; {} frames stand behind it", damage.last_sound),
        bad => format!(
            "the log is damaged at frame {bad}: what stands behind it, up to frame {} at least, was acknowledged",
            damage.last_sound
        ),
    }
}

/// Everything at one moment, whatever others write meanwhile.
fn of_snapshot(open: &Connection, found: &Found) -> rusqlite::Result<StoreReport> {
    let snapshot = open.unchecked_transaction()?;
    let format = schema::format_of(&snapshot, schema::format_number(&snapshot)?)?;
    let mut report = StoreReport::default();
    report.problems.extend(schema::misnumbered(&snapshot)?);
    if format < FORMAT {
        let text = format!("a store of format {format}: its sums and heads are made with the first write");
        report.remarks.push(text);
        if matches!(found, Found::Heads(_)) {
            report.problems.push(schema::heads_beside(format));
        }
        return Ok(report);
    }
    if format > FORMAT {
        report
            .remarks
            .push(format!("a store of format {format}: only the chains of its runs can be looked at"));
        return Ok(report);
    }
    of_heads(&snapshot, found, &mut report)?;
    of_tables(&snapshot, &mut report)?;
    Ok(report)
}

/// What is wrong in the tables of a store of this format, whatever its heads say.
pub(super) fn of_store(open: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut report = StoreReport::default();
    of_tables(open, &mut report)?;
    Ok(report.problems)
}

fn of_tables(open: &Connection, report: &mut StoreReport) -> rusqlite::Result<()> {
    of_sums(open, report)?;
    report.problems.extend(schema::differences(open)?);
    match events::all(open)? {
        Ok(events) => {
            report.problems.extend(accepted_elsewhere(open, &events)?);
            report.events = events;
        }
        Err(problem) => report.problems.push(problem),
    }
    Ok(())
}

fn of_heads(open: &Connection, found: &Found, report: &mut StoreReport) -> rusqlite::Result<()> {
    let was_written = seal::read(open)?.is_some_and(|sealed| sealed.serial > 0);
    match found {
        Found::Heads(heads) => {
            report.problems.extend(compare(open, heads)?.lines);
            if heads.unreadable > 0 {
                let text = "a part of the heads cannot be read; they are made anew with the next write";
                report.remarks.push(text.to_owned());
            }
        }
        Found::Missing if was_written => {
            report.remarks.push("the heads are missing; they are made anew with the next write".to_owned());
        }
        Found::Missing => {}
        Found::Unreadable => {
            report
                .remarks
                .push("the heads cannot be read; they are made anew with the next write".to_owned());
        }
    }
    Ok(())
}

fn of_sums(open: &Connection, report: &mut StoreReport) -> rusqlite::Result<()> {
    match seal::read(open)? {
        Some(sealed) => {
            for group in sealed.sums.differing(&seal::compute(open)?) {
                report
                    .problems
                    .push(format!("{group}: not what was written; rows were changed, added or removed"));
            }
        }
        None => report.problems.push("the sums of the store are gone".to_owned()),
    }
    Ok(())
}

/// How many frames SQLite takes the log to have.
fn frames(open: &Connection) -> rusqlite::Result<u64> {
    let frames: i64 = open.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
    Ok(u64::try_from(frames).unwrap_or(0))
}

/// How a store differs from what its heads say it had.
pub(super) fn compare(open: &Connection, heads: &Heads) -> rusqlite::Result<Differences> {
    let mut found = Differences::default();
    let name = read::store_name(open)?;
    if heads.store.is_known() && name != heads.store.name {
        found.lines.push(format!("the heads are those of store {}, this is store {name}", heads.store.name));
        return Ok(found);
    }
    found.lines.extend(compare_store(open, &heads.store)?);
    let rows = run_heads(open)?;
    for head in &heads.runs {
        compare_run(open, head, rows.get(&head.number), &mut found)?;
    }
    Ok(found)
}

/// How the sums and the number of transactions differ from what the store's head says.
fn compare_store(open: &Connection, head: &StoreHead) -> rusqlite::Result<Option<String>> {
    let number = schema::format_number(open)?;
    if schema::format_of(open, number)? < FORMAT {
        return Ok(Some(schema::heads_beside(number)));
    }
    Ok(match seal::read(open)? {
        None => Some("the sums of the store are gone".to_owned()),
        Some(_) if !head.is_known() => None,
        Some(sealed) if sealed.serial < head.serial => {
            let (gone, all) = (head.serial - sealed.serial, head.serial);
            Some(format!("the last {gone} of {all} transactions that were acknowledged are gone"))
        }
        Some(sealed) if sealed.serial == head.serial && sealed.sums.digest() != head.sums => {
            Some(format!("the store is not what transaction {} left", sealed.serial))
        }
        Some(_) => None,
    })
}

/// The heads of all runs by their numbers, as the store has them.
pub(super) fn run_heads(open: &Connection) -> rusqlite::Result<BTreeMap<i64, RunHead>> {
    let mut list = open.prepare_cached("SELECT number, name, head, hash, epoch FROM runs")?;
    let rows = list.query_map([], |row| {
        let (number, name, hash) = (row.get(0)?, row.get(1)?, row.get(3)?);
        Ok((number, RunHead { number, name, seq: count(row, 2)?, hash, epoch: count(row, 4)? }))
    })?;
    rows.collect()
}

/// The head of a run as the store has it; nothing where it cannot be read now.
pub(super) fn run_head(open: &Connection, number: i64) -> Option<RunHead> {
    let mut find = open.prepare_cached("SELECT name, head, hash, epoch FROM runs WHERE number = ?1").ok()?;
    let head = |row: &rusqlite::Row<'_>| {
        let (name, hash) = (row.get(0)?, row.get(2)?);
        Ok(RunHead { number, name, seq: count(row, 1)?, hash, epoch: count(row, 3)? })
    };
    find.query_row([number], head).ok()
}

fn compare_run(
    open: &Connection,
    head: &RunHead,
    row: Option<&RunHead>,
    found: &mut Differences,
) -> rusqlite::Result<()> {
    let Some(row) = row.filter(|row| row.name == head.name) else {
        found.lines.push(format!("run {} with {} entries is gone", head.name, head.seq));
        found.runs.extend(lost_entries(head, 0, None));
        return Ok(());
    };
    if row.seq < head.seq {
        let (first, last) = (row.seq + 1, head.seq);
        found.lines.push(format!("run {}: entries {first} to {last} are gone", head.name));
        found.runs.extend(lost_entries(head, row.seq, Some(row.hash)));
    } else if head.seq > 0 && entry_hash(open, row.number, head.seq)? != Some(head.hash) {
        found.lines.push(format!("run {}: entry {} is not the one that was written", head.name, head.seq));
    }
    if row.epoch < head.epoch {
        found.lines.push(format!("run {}: its epoch was {}, and is {}", head.name, head.epoch, row.epoch));
    }
    Ok(())
}

pub(super) fn lost_entries(head: &RunHead, left: u64, hash: Option<[u8; 32]>) -> Option<LostEntries> {
    Some(LostEntries {
        run: head.name.parse().ok()?,
        had: head.seq,
        had_hash: Hash(head.hash).to_string(),
        left,
        left_hash: hash.map(|hash| Hash(hash).to_string()).unwrap_or_default(),
    })
}

pub(super) fn entry_hash(open: &Connection, run: i64, seq: u64) -> rusqlite::Result<Option<[u8; 32]>> {
    let mut find = open.prepare_cached("SELECT hash FROM entries WHERE run = ?1 AND seq = ?2")?;
    find.query_row((run, read::whole(seq)), |row| row.get(0)).optional()
}

/// A run goes on from where a loss left it: its chain still passes through that entry.
fn accepted_elsewhere(open: &Connection, events: &[RecordedEvent]) -> rusqlite::Result<Vec<String>> {
    let mut problems = Vec::new();
    for recorded in events {
        let StoreEvent::LossAccepted(loss) = &recorded.event else { continue };
        for run in loss.runs.iter().filter(|run| run.left > 0) {
            let number = read::number(open, &run.run)?;
            let hash = number.map(|number| entry_hash(open, number, run.left)).transpose()?.flatten();
            // A later loss may have taken that entry as well; then it says so itself.
            let taken = |later: &RecordedEvent| match &later.event {
                StoreEvent::LossAccepted(later) => {
                    later.runs.iter().any(|one| one.run == run.run && one.left < run.left)
                }
                StoreEvent::Sealed { .. } | StoreEvent::HeadsRenewed { .. } => false,
            };
            let same = hash.is_some_and(|hash| Hash(hash).to_string() == run.left_hash);
            if !same && !events.iter().any(taken) {
                problems.push(format!(
                    "run {} does not go on from entry {}, as its loss says",
                    run.run, run.left
                ));
            }
        }
    }
    Ok(problems)
}

fn shortened(lines: &[String]) -> String {
    let named = lines.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join("; ");
    match lines.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}
