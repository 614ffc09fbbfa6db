//! Reading: connections that cannot write, and the questions that they answer.
//!
//! A reader never waits for the writer and never changes a byte of the database.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row};
use rustix::fs::{Access, access};

use super::{BUSY, DATABASE, schema, trouble};
use crate::{ContentDigest, Hash, Most, Newest, PendingCommand, RunRow, StoreError, StoredEntry};
use ftl_folder::id::{RunId, RunIdError};

/// How many connections are kept for the next one who reads.
const MAX_IDLE_READERS: usize = 4;

/// How many statements a connection keeps prepared; there are about thirty, those about notes and lessons included.
const STATEMENTS: usize = 64;

/// Above every letter that stands in the name of a run.
const AFTER_LETTERS: char = '\u{7f}';

/// The connections of one store that read.
#[derive(Debug)]
pub(super) struct Readers {
    folder: PathBuf,
    idle: Mutex<Vec<Reader>>,
    watch: Mutex<Option<Reader>>,
}

/// A connection that reads.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) open: Connection,
    /// It was opened as a file that no process changes. That is only surely so now: it is used once.
    fixed: bool,
}

impl Readers {
    pub(super) fn new(folder: &Path, first: Reader) -> Readers {
        let readers = Readers { folder: folder.to_owned(), idle: Mutex::default(), watch: Mutex::default() };
        readers.give_back(first);
        readers
    }

    /// Asks something of a connection that no other thread uses meanwhile.
    pub(super) fn ask<T>(
        &self,
        question: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reader = idle.map_or_else(|| Reader::open(&self.folder), Ok)?;
        let told = question(&reader.open);
        let told = told.map_err(|error| trouble::of_sqlite(&self.folder.join(DATABASE), &error));
        self.give_back(reader);
        told
    }

    /// A number that changes with every commit of any other connection than the one that asks; so the
    /// same one asks always, and it never writes.
    pub(super) fn version(&self) -> Result<u64, StoreError> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = match watch.take() {
            Some(reader) => reader,
            None => Reader::open(&self.folder)?,
        };
        let asked = reader.open.pragma_query_value(None, "data_version", |row| row.get::<_, u32>(0));
        let version = asked.map_err(|error| trouble::of_sqlite(&self.folder.join(DATABASE), &error))?;
        *watch = Some(reader);
        Ok(u64::from(version))
    }

    /// Closes what is open. A writer that closes after this one may be the last and tidy up.
    pub(super) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn give_back(&self, reader: Reader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_READERS && !reader.fixed {
            idle.push(reader);
        }
    }
}

impl Reader {
    /// Opens a store for reading.
    ///
    /// SQLite reads a database with a log only if it can make the log's shared memory file, or finds
    /// one. In a folder that may not be written this works while another process has the store open
    /// and after a crash, when log and shared memory file are still there. After a clean end both are
    /// gone; then the database is all there is, and it is opened as a file that no process changes. A log
    /// without its shared memory file is the one thing that cannot be read there.
    pub(super) fn open(folder: &Path) -> Result<Reader, StoreError> {
        let database = folder.join(DATABASE);
        match connect(&schema::without_links(&database), OpenFlags::empty()) {
            Ok(open) => Ok(Reader { open, fixed: false }),
            Err(error) => {
                let told = trouble::of_sqlite(&database, &error);
                let hindered = matches!(told, StoreError::ReadOnly(_) | StoreError::Failed(_));
                if !hindered {
                    return Err(told);
                }
                if schema::log_bytes(folder) > 0 {
                    return Err(log_problem(folder).unwrap_or(told));
                }
                let address = fixed_address(&schema::without_links(&database));
                let fixed = connect(Path::new(&address), OpenFlags::SQLITE_OPEN_URI);
                fixed.map(|open| Reader { open, fixed: true }).map_err(|_| told)
            }
        }
    }
}

/// A log that cannot be read because nothing may be written beside it.
fn log_problem(folder: &Path) -> Option<StoreError> {
    access(folder, Access::WRITE_OK).err()?;
    let what = "has a log that can only be read where the folder may be written; read a copy of it";
    Some(StoreError::ReadOnly(format!("{} {what}", folder.display())))
}

fn connect(database: &Path, extra: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | schema::NO_LINKS | extra;
    let open = Connection::open_with_flags(database, flags)?;
    open.busy_timeout(BUSY)?;
    open.set_prepared_statement_cache_capacity(STATEMENTS);
    // Opening alone reads nothing; this finds out whether it can be read.
    open.pragma_query_value(None, "user_version", |_| Ok(()))?;
    Ok(open)
}

/// The address under which SQLite opens a file as one that no process changes.
fn fixed_address(database: &Path) -> String {
    let mut address = String::from("file:");
    for byte in database.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(char::from(*byte));
            }
            _ => {
                let _ = write!(address, "%{byte:02x}");
            }
        }
    }
    address + "?immutable=1"
}

const RUN: &str =
    "SELECT name, opened, changed, head, hash, epoch, owner, settled, summary FROM runs WHERE name = ?1";

const RUNS: &str = "SELECT name, opened, changed, head, hash, epoch, owner, settled, summary FROM runs
     WHERE name >= ?1 AND name < ?2 ORDER BY number DESC";

const ALL_RUNS: &str = "SELECT name, opened, changed, head, hash, epoch, owner, settled, summary FROM runs
     ORDER BY number DESC";

pub(super) fn run(open: &Connection, run: &RunId) -> rusqlite::Result<Option<RunRow>> {
    open.prepare_cached(RUN)?.query_row([run.as_str()], run_row).optional()
}

pub(super) fn runs(open: &Connection, prefix: &str) -> rusqlite::Result<Vec<RunRow>> {
    if prefix.is_empty() {
        return open.prepare_cached(ALL_RUNS)?.query_map([], run_row)?.collect();
    }
    let end = format!("{prefix}{AFTER_LETTERS}");
    open.prepare_cached(RUNS)?.query_map([prefix, &end], run_row)?.collect()
}

/// The newest runs. The others are counted and not taken out.
pub(super) fn newest(open: &Connection, most: Most) -> rusqlite::Result<Newest> {
    let mut find = open.prepare_cached(ALL_RUNS)?;
    let mut rows = find.query([])?;
    let mut newest = Newest::default();
    while let Some(row) = rows.next()? {
        if newest.wants(most, count(row, 3)?, row.get(7)?) {
            newest.rows.push(run_row(row)?);
        }
    }
    Ok(newest)
}

/// The name of the store among all stores.
pub(super) fn store_name(open: &Connection) -> rusqlite::Result<String> {
    open.prepare_cached("SELECT value FROM meta WHERE key = 'store'")?.query_row([], |row| row.get(0))
}

pub(super) fn number(open: &Connection, run: &RunId) -> rusqlite::Result<Option<i64>> {
    let mut find = open.prepare_cached("SELECT number FROM runs WHERE name = ?1")?;
    find.query_row([run.as_str()], |row| row.get(0)).optional()
}

pub(super) fn entries(
    open: &Connection,
    run: i64,
    after: u64,
    most: usize,
) -> rusqlite::Result<Vec<StoredEntry>> {
    let mut find = open.prepare_cached(
        "SELECT seq, epoch, body, hash FROM entries WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    find.query_map((run, whole(after), i64::try_from(most).unwrap_or(i64::MAX)), record)?.collect()
}

pub(super) fn pending(open: &Connection, run: i64) -> rusqlite::Result<Vec<PendingCommand>> {
    let mut find = open
        .prepare_cached("SELECT id, body FROM commands WHERE run = ?1 AND reply IS NULL ORDER BY run, id")?;
    find.query_map([run], |row| Ok(PendingCommand { id: count(row, 0)?, body: row.get(1)? }))?.collect()
}

pub(super) fn reply(open: &Connection, command: u64) -> rusqlite::Result<Option<String>> {
    let mut find = open.prepare_cached("SELECT reply FROM commands WHERE id = ?1")?;
    Ok(find.query_row([whole(command)], |row| row.get(0)).optional()?.flatten())
}

/// The number of a piece of content.
pub(super) fn content(open: &Connection, digest: &ContentDigest) -> rusqlite::Result<Option<i64>> {
    let mut find = open.prepare_cached("SELECT number FROM content WHERE digest = ?1")?;
    find.query_row([&digest.0], |row| row.get(0)).optional()
}

/// All bytes of a piece of content, whatever they are.
pub(super) fn bytes(open: &Connection, content: i64) -> rusqlite::Result<Vec<u8>> {
    let mut first = open.prepare_cached("SELECT bytes FROM content WHERE number = ?1")?;
    let mut bytes: Vec<u8> = first.query_row([content], |row| row.get(0))?;
    let mut rest = open.prepare_cached("SELECT bytes FROM chunks WHERE content = ?1 ORDER BY part")?;
    let mut rows = rest.query([content])?;
    while let Some(row) = rows.next()? {
        bytes.extend_from_slice(row.get_ref(0)?.as_blob()?);
    }
    Ok(bytes)
}

/// A number that is never negative, as it is kept. None of ours is near the end of the range; one
/// that a stranger names finds nothing.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that is never negative, as it is read.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let name: String = row.get(0)?;
    let run = name.parse().map_err(|error: RunIdError| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(RunRow {
        run,
        opened: count(row, 1)?,
        changed: count(row, 2)?,
        head: count(row, 3)?,
        hash: Hash(row.get(4)?),
        epoch: count(row, 5)?,
        owner: row.get(6)?,
        settled: row.get(7)?,
        summary: row.get(8)?,
    })
}

fn record(row: &Row<'_>) -> rusqlite::Result<StoredEntry> {
    Ok(StoredEntry { seq: count(row, 0)?, epoch: count(row, 1)?, body: row.get(2)?, hash: Hash(row.get(3)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_strange_names_apart_from_its_own_signs() {
        let address = fixed_address(Path::new("/a b/c?d#e%f/ftl.db"));
        assert_eq!(address, "file:/a%20b/c%3fd%23e%25f/ftl.db?immutable=1");
    }
}
