//! The tables, how a store is made, and how an older one is brought up to date.
//!
//! A store is made under another name and renamed when it is whole, so a store is there or it is not.
//! What is done to an older store is done in one transaction. A newer one is never touched.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use super::events::{self, StoreEvent};
use super::heads::Found;
use super::lock::WriteLock;
use super::{BUSY, DATABASE, LOG, heads, seal, trouble};
use crate::owner::{self, Life};
use crate::{FORMAT, StoreError};
use ftl_folder::id;
use ftl_folder::{self as folder, OpenMode};

/// Marks a database as ours: "ftl" and a zero.
const APPLICATION: i32 = 0x6674_6c00;

/// Where a store is made before it gets its name.
const UNFINISHED: &str = "ftl.db.new";

/// What makes each format out of the one before it. The length of the list is `FORMAT`.
const MIGRATIONS: [&[&str]; FORMAT as usize] =
    [&[FORMAT_1], &[FORMAT_2, include_str!("../../../memory/src/schema.sql")], &[FORMAT_3, GUARDS]];

/// A function that only connections of this program have.
const KNOWS_FORMAT: &str = "ftl_knows_format_3";

/// Entries lie in the order of their run and number, so that a journal is read in one sweep. Content
/// of up to one chunk is one row; what is longer goes on in `chunks`.
const FORMAT_1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  opened INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  head INTEGER NOT NULL,
  hash BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  owner TEXT,
  settled INTEGER NOT NULL,
  summary TEXT NOT NULL
) STRICT;

CREATE TABLE entries (
  run INTEGER NOT NULL REFERENCES runs (number),
  seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  body TEXT NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID, STRICT;

CREATE TRIGGER entries_are_never_changed BEFORE UPDATE ON entries
BEGIN SELECT raise(ABORT, 'entries are never changed'); END;

CREATE TRIGGER entries_are_never_removed BEFORE DELETE ON entries
BEGIN SELECT raise(ABORT, 'entries are never removed'); END;

CREATE TABLE content (
  number INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  size INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

CREATE TABLE chunks (
  content INTEGER NOT NULL REFERENCES content (number),
  part INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (content, part)
) WITHOUT ROWID, STRICT;

CREATE TABLE commands (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs (number),
  body TEXT NOT NULL,
  reply TEXT
) STRICT;

CREATE INDEX commands_without_reply ON commands (run, id) WHERE reply IS NULL;
";

/// What the FTL protocol's own commands keep.
const FORMAT_2: &str = "
CREATE TABLE notes (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (kind, key)
) STRICT;
";

/// What shows that something was changed or lost: sums of the tables that no chain covers, and the store's own journal.
/// A program that does not know them must not write: the sums would no longer fit.
const FORMAT_3: &str = "
CREATE TABLE seal (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  serial INTEGER NOT NULL,
  sums BLOB NOT NULL
) STRICT;

CREATE TABLE events (
  number INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'events are never changed'); END;

CREATE TRIGGER events_are_never_removed BEFORE DELETE ON events
BEGIN SELECT raise(ABORT, 'events are never removed'); END;
";

/// Three triggers of a table that let only those write who know this format.
macro_rules! guard {
    ($table:literal) => {
        concat!(
            guard!($table, "insert", "INSERT"),
            guard!($table, "update", "UPDATE"),
            guard!($table, "delete", "DELETE")
        )
    };
    ($table:literal, $word:literal, $event:literal) => {
        concat!(
            "CREATE TRIGGER ",
            $table,
            "_",
            $word,
            "_knows_format_3 BEFORE ",
            $event,
            " ON ",
            $table,
            " WHEN NOT ftl_knows_format_3()\nBEGIN SELECT raise(ABORT, 'the store has format 3'); END;\n"
        )
    };
}

/// A program of an earlier version that had the store open when it was brought up to date would go on writing without
/// the sums. It lacks the function, so that SQLite refuses its statements. Every transaction writes one of
/// these tables: entries come with a change of their run, and words with a change of their lesson.
const GUARDS: &str = concat!(
    guard!("runs"),
    guard!("content"),
    guard!("commands"),
    guard!("notes"),
    guard!("lesson"),
    guard!("lesson_vectors"),
    guard!("lesson_setting"),
);

/// Makes the store of a folder if it has none.
pub(super) fn create_if_missing(folder: &Path) -> Result<(), StoreError> {
    if exists(folder)? {
        return Ok(());
    }
    let on_disk = |error: io::Error| trouble::of_disk(folder, &error);
    make_folder(folder).map_err(on_disk)?;
    let lock = WriteLock::open(folder).map_err(on_disk)?;
    let _held = lock.hold().map_err(on_disk)?;
    if exists(folder)? {
        return Ok(());
    }
    let unfinished = make_unfinished(folder)?;
    folder::rename(&unfinished, &folder.join(DATABASE)).map_err(on_disk)?;
    sync(folder).map_err(on_disk)
}

/// Whether a folder has a store. Anything that is neither a store nor nothing is `Corrupt`: a log
/// without its database, for one, must not be taken for the log of a new one.
pub(super) fn exists(folder: &Path) -> Result<bool, StoreError> {
    let database = folder.join(DATABASE);
    match folder::metadata(&database) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(StoreError::Corrupt(format!("{} is no file", database.display()))),
        Err(error) if is_missing(&error) && log_bytes(folder) > 0 => {
            Err(StoreError::Corrupt(format!("{} is gone, its log is there", database.display())))
        }
        Err(error) if is_missing(&error) && heads::exist(folder) => {
            Err(StoreError::Lost(format!("{} is gone, its heads are there", database.display())))
        }
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(trouble::of_disk(&database, &error)),
    }
}

/// How much stands in the log; 0 if there is none.
pub(super) fn log_bytes(folder: &Path) -> u64 {
    folder::metadata(&folder.join(LOG)).map_or(0, |found| found.len())
}

/// Which format a database has. `Corrupt` if it is no store of ours.
pub(super) fn format(database: &Path, open: &Connection) -> Result<u32, StoreError> {
    let on_error = |error: rusqlite::Error| trouble::of_sqlite(database, &error);
    let application = open.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    match format_number(open).map_err(on_error)? {
        number if application.map_err(on_error)? == APPLICATION && number > 0 => {
            format_of(open, number).map_err(on_error)
        }
        _ => Err(StoreError::Corrupt(format!("{} is no store of ftl", database.display()))),
    }
}

/// The number of the format alone; 0 where none is noted.
pub(super) fn format_number(open: &Connection) -> rusqlite::Result<u32> {
    let number = open.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0))?;
    Ok(u32::try_from(number).unwrap_or(0))
}

/// The format of a store with that number: a number that is too low does not hide tables that are there.
pub(super) fn format_of(open: &Connection, number: u32) -> rusqlite::Result<u32> {
    let newest = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('seal', 'events')";
    let has_newest = number < FORMAT && open.query_row(newest, [], |row| row.get::<_, i64>(0))? > 0;
    Ok(if has_newest { FORMAT } else { number })
}

/// Why the number of the format cannot be what was written: the tables are those of another.
pub(super) fn misnumbered(open: &Connection) -> rusqlite::Result<Option<String>> {
    let number = format_number(open)?;
    let is_wrong = if number > FORMAT { is_current(open)? } else { format_of(open, number)? != number };
    let text =
        || format!("the number of the store's format is {number}, its tables are those of format {FORMAT}");
    Ok(is_wrong.then(text))
}

/// Whether a store has just the tables, indexes and triggers of this format.
pub(super) fn is_current(open: &Connection) -> rusqlite::Result<bool> {
    let model = Connection::open_in_memory()?;
    migrate(&model, 0, &MIGRATIONS, |_| Ok(()))?;
    Ok(objects(&model)? == objects(open)?)
}

/// Looks whether the format of a store is what was written, before anything is made out of it.
pub(super) fn check_format(folder: &Path, open: &Connection) -> Result<(), StoreError> {
    let database = folder.join(DATABASE);
    let on_error = |error: rusqlite::Error| trouble::of_sqlite(&database, &error);
    let number = format_number(open).map_err(on_error)?;
    if number >= FORMAT {
        return Ok(());
    }
    if let Some(text) = misnumbered(open).map_err(on_error)? {
        return Err(StoreError::Lost(text));
    }
    match heads::read(folder).map_err(|error| trouble::of_disk(&folder.join(heads::HEADS), &error))? {
        Found::Heads(_) => Err(StoreError::Lost(heads_beside(number))),
        Found::Missing | Found::Unreadable => Ok(()),
    }
}

/// What it means that there are heads beside a store of a format that had none.
pub(super) fn heads_beside(number: u32) -> String {
    format!("there are heads of format {FORMAT} beside a store of format {number}")
}

/// Brings an older store up to date.
pub(super) fn upgrade(folder: &Path) -> Result<(), StoreError> {
    let on_disk = |error: io::Error| trouble::of_disk(folder, &error);
    let database = folder.join(DATABASE);
    let lock = WriteLock::open(folder).map_err(on_disk)?;
    let _held = lock.hold().map_err(on_disk)?;
    let open = open_to_write(&database)?;
    // Another process may have done it while this one waited.
    let found = format(&database, &open)?;
    check_format(folder, &open)?;
    bring_up_to_date(folder, &open, found)
}

/// Brings a store of an earlier format up to date, under the write lock: what it lacks is made, and the sums of
/// its rows are noted. A driver of an earlier version could not write any more, so that it must end first.
pub(super) fn bring_up_to_date(folder: &Path, open: &Connection, found: u32) -> Result<(), StoreError> {
    if found >= FORMAT {
        return Ok(());
    }
    let database = folder.join(DATABASE);
    let on_error = |error: rusqlite::Error| trouble::of_sqlite(&database, &error);
    if let Some(run) = driven(folder, open).map_err(on_error)? {
        return Err(StoreError::InUse(format!("an ftl of an earlier version drives run {run}")));
    }
    if let Some(pid) = owner::of_earlier_version(&folder.join("owners")) {
        return Err(StoreError::InUse(format!("an ftl of an earlier version works on it: process {pid}")));
    }
    let noted = |open: &Connection| {
        events::add(open, &StoreEvent::Sealed { format: found })?;
        seal::write(open, 0).map(drop)
    };
    migrate(open, found, &MIGRATIONS, noted).map_err(on_error)
}

/// A run whose owner lives.
fn driven(folder: &Path, open: &Connection) -> rusqlite::Result<Option<String>> {
    let mut list = open.prepare("SELECT name, owner FROM runs WHERE owner IS NOT NULL AND settled = 0")?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        let owner: String = row.get(1)?;
        if matches!(owner::life(&folder.join("owners"), &owner), Ok(Life::Alive { .. })) {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
}

/// Tables, indexes and triggers that a store must have and has not, or has otherwise, and triggers that are not ours.
pub(super) fn differences(open: &Connection) -> rusqlite::Result<Vec<String>> {
    let model = Connection::open_in_memory()?;
    migrate(&model, 0, &MIGRATIONS, |_| Ok(()))?;
    let (due, found) = (objects(&model)?, objects(open)?);
    let mut lines = Vec::new();
    for object in &due {
        if !found.contains(object) {
            lines.push(format!("the {} {} of the store is gone or changed", object.0, object.1));
        }
    }
    for object in found.iter().filter(|object| object.0 == "trigger" || object.0 == "view") {
        if due.iter().all(|one| one.1 != object.1) {
            lines.push(format!("the store has a {} {} that is not its own", object.0, object.1));
        }
    }
    Ok(lines)
}

/// Kind, name and text of everything that was declared. The tables of the index of words are declared by SQLite, by
/// each version as it likes: only their names count.
fn objects(open: &Connection) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    let mut list = open.prepare(
        "SELECT type, name, CASE WHEN name GLOB 'lesson_words_*' THEN NULL ELSE sql END FROM sqlite_schema
         ORDER BY type, name",
    )?;
    list.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}

/// Makes triggers again that are gone or were changed, and removes those that are not ours.
pub(super) fn renew_triggers(open: &Connection) -> rusqlite::Result<()> {
    let model = Connection::open_in_memory()?;
    migrate(&model, 0, &MIGRATIONS, |_| Ok(()))?;
    let triggers = |objects: Vec<(String, String, Option<String>)>| {
        objects.into_iter().filter(|object| object.0 == "trigger").collect::<Vec<_>>()
    };
    for (_, name, _) in triggers(objects(open)?) {
        open.execute_batch(&format!("DROP TRIGGER \"{}\"", name.replace('"', "\"\"")))?;
    }
    for (_, _, text) in triggers(objects(&model)?) {
        open.execute_batch(&text.unwrap_or_default())?;
    }
    Ok(())
}

/// A connection that writes: nothing is acknowledged before it is on the disk.
pub(super) fn open_to_write(database: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | NO_LINKS;
        let open = Connection::open_with_flags(without_links(database), flags)?;
        // The lock makes writers wait; this is for strangers who open the database with other tools.
        open.busy_timeout(BUSY)?;
        open.pragma_update(None, "synchronous", "FULL")?;
        open.pragma_update(None, "foreign_keys", true)?;
        open.pragma_update(None, "temp_store", "MEMORY")?;
        let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
        open.create_scalar_function(KNOWS_FORMAT, 0, flags, |_| Ok(true))?;
        Ok(open)
    };
    open().map_err(|error| trouble::of_sqlite(database, &error))
}

/// SQLite follows no link on the way to a database.
pub(super) const NO_LINKS: OpenFlags = OpenFlags::SQLITE_OPEN_NOFOLLOW;

/// The path of a database, with links only where they are refused: a repository may lie behind one.
pub(super) fn without_links(database: &Path) -> PathBuf {
    folder::absolute(database).unwrap_or_else(|_| database.to_owned())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Makes a folder that only its owner may look into, and those above it. Each is synced into the one
/// above, so that a power cut does not take a folder away with the store in it.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder::is_folder(folder) {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !above.is_dir() {
        make_folder(above)?;
    }
    match folder::make_new_as(folder, 0o700) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => sync(above),
    }
}

/// Makes a whole store under a name that no reader opens. The lock is held: a file of that name is a
/// killed maker's.
pub(super) fn make_unfinished(folder: &Path) -> Result<PathBuf, StoreError> {
    let file = folder.join(UNFINISHED);
    let on_disk = |error: io::Error| trouble::of_disk(&file, &error);
    let on_error = |error: rusqlite::Error| trouble::of_sqlite(&file, &error);
    for ending in ["", "-wal", "-shm", "-journal"] {
        remove(&folder.join(format!("{UNFINISHED}{ending}"))).map_err(on_disk)?;
    }
    folder::open(&file, OpenMode::New).map_err(on_disk)?;
    let open = open_to_write(&file)?;
    // No other process opens it before it is whole: it goes to the disk in one piece, when it is.
    open.pragma_update(None, "synchronous", "OFF").map_err(on_error)?;
    fill(&open).map_err(on_error)?;
    name_store(&open).map_err(on_disk)?.map_err(on_error)?;
    seal::write(&open, 0).map_err(on_error)?;
    // Closing the last connection would do this too, and say nothing of what went wrong.
    open.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(on_error)?;
    open.close().map_err(|(_, error)| on_error(error))?;
    folder::open(&file, OpenMode::Read).and_then(|made| made.sync_all()).map_err(on_disk)?;
    Ok(file)
}

fn fill(open: &Connection) -> rusqlite::Result<()> {
    // To its end: SQLite tells the new mode before it has kept it, and only then that it could not.
    let mut switch = open.prepare("PRAGMA journal_mode = WAL")?;
    switch.query_map([], |_| Ok(()))?.collect::<rusqlite::Result<()>>()?;
    open.pragma_update(None, "application_id", APPLICATION)?;
    migrate(open, 0, &MIGRATIONS, |_| Ok(()))
}

/// A store has a name of its own, so that a copy can be told from another store.
fn name_store(open: &Connection) -> io::Result<rusqlite::Result<()>> {
    let name = format!("{:016x}{:016x}", id::random()?, id::random()?);
    Ok(open.execute("INSERT INTO meta (key, value) VALUES ('store', ?1)", [name]).map(drop))
}

fn migrate(
    open: &Connection,
    found: u32,
    migrations: &[&[&str]],
    finish: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    open.execute_batch("BEGIN IMMEDIATE")?;
    let done = apply(open, found, migrations).and_then(|()| finish(open));
    let done = done.and_then(|()| open.execute_batch("COMMIT"));
    if done.is_err() && !open.is_autocommit() {
        // What failed is what counts.
        let _ = open.execute_batch("ROLLBACK");
    }
    done
}

fn apply(open: &Connection, found: u32, migrations: &[&[&str]]) -> rusqlite::Result<()> {
    for (format, migration) in (1_u32..).zip(migrations).filter(|(format, _)| *format > found) {
        migration.iter().try_for_each(|tables| open.execute_batch(tables))?;
        open.pragma_update(None, "user_version", format)?;
    }
    Ok(())
}

pub(super) fn remove(file: &Path) -> io::Result<()> {
    match folder::remove(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Syncs a folder: the names in it are kept.
fn sync(folder: &Path) -> io::Result<()> {
    folder::sync(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn version(open: &Connection) -> u32 {
        open.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn only_the_migrations_that_are_missing_are_applied() {
        let open = Connection::open_in_memory().unwrap();
        let (one, two): (&[&str], &[&str]) = (&["CREATE TABLE a (x)"], &["CREATE TABLE b (x)"]);
        migrate(&open, 0, &[one], |_| Ok(())).unwrap();
        assert_eq!(version(&open), 1);
        migrate(&open, 1, &[one, two, &["INSERT INTO b VALUES (6)", "UPDATE b SET x = 7"]], |_| Ok(()))
            .unwrap();
        assert_eq!(version(&open), 3);
        assert_eq!(open.query_row("SELECT x FROM b", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
    }

    #[test]
    fn a_migration_that_fails_leaves_everything_as_it_was() {
        let open = Connection::open_in_memory().unwrap();
        migrate(&open, 0, &[&["CREATE TABLE a (x)"]], |_| Ok(())).unwrap();
        assert!(
            migrate(&open, 1, &[&[], &["CREATE TABLE b (x)"], &["CREATE TABLE a (x)"]], |_| Ok(())).is_err()
        );
        assert_eq!(version(&open), 1);
        assert!(open.prepare("SELECT x FROM b").is_err(), "nothing of the second one stays");
        assert!(open.is_autocommit());
    }

    #[test]
    fn a_killed_makers_leftovers_do_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(UNFINISHED), "half a store").unwrap();
        fs::write(folder.path().join(format!("{UNFINISHED}-wal")), "half a log").unwrap();
        create_if_missing(folder.path()).unwrap();
        let open = open_to_write(&folder.path().join(DATABASE)).unwrap();
        assert_eq!(format(&folder.path().join(DATABASE), &open), Ok(FORMAT));
        assert!(!folder.path().join(UNFINISHED).exists());
    }
}
