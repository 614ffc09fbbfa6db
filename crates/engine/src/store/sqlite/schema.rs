//! The tables, how a store is made, and how an older one is brought up to date.
//!
//! A store is made under another name and renamed when it is whole, so a store is there or it is not.
//! What is done to an older store is done in one transaction. A newer one is never touched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::lock::WriteLock;
use super::trouble;
use super::{BUSY, DATABASE, LOG};
use crate::id;
use crate::store::{FORMAT, StoreError};

/// Marks a database as ours: "ftl" and a zero.
const APPLICATION: i32 = 0x6674_6c00;

/// Where a store is made before it gets its name.
const UNFINISHED: &str = "ftl.db.new";

/// What makes each format out of the one before it. The length of the list is `FORMAT`.
const MIGRATIONS: [&[&str]; FORMAT as usize] = [&[FORMAT_1], &[FORMAT_2, ftl_memory::schema::CREATE]];

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
    fs::rename(unfinished, folder.join(DATABASE)).map_err(on_disk)?;
    sync(folder).map_err(on_disk)
}

/// Whether a folder has a store. Anything that is neither a store nor nothing is `Corrupt`: a log
/// without its database, for one, must not be taken for the log of a new one.
pub(super) fn exists(folder: &Path) -> Result<bool, StoreError> {
    let database = folder.join(DATABASE);
    match fs::symlink_metadata(&database) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(StoreError::Corrupt(format!("{} is no file", database.display()))),
        Err(error) if is_missing(&error) && log_bytes(folder) == 0 => Ok(false),
        Err(error) if is_missing(&error) => {
            Err(StoreError::Corrupt(format!("{} is gone, its log is there", database.display())))
        }
        Err(error) => Err(trouble::of_disk(&database, &error)),
    }
}

/// How much stands in the log; 0 if there is none.
pub(super) fn log_bytes(folder: &Path) -> u64 {
    fs::metadata(folder.join(LOG)).map_or(0, |found| found.len())
}

/// Which format a database has. `Corrupt` if it is no store of ours.
pub(super) fn format(database: &Path, open: &Connection) -> Result<u32, StoreError> {
    let pragma = |name: &str| open.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let on_error = |error: rusqlite::Error| trouble::of_sqlite(database, &error);
    let application = pragma("application_id").map_err(on_error)?;
    let format = pragma("user_version").map_err(on_error)?;
    match u32::try_from(format) {
        Ok(format) if application == APPLICATION && format > 0 => Ok(format),
        Ok(_) | Err(_) => Err(StoreError::Corrupt(format!("{} is no store of ftl", database.display()))),
    }
}

/// Brings an older store up to date.
pub(super) fn upgrade(folder: &Path) -> Result<(), StoreError> {
    let on_disk = |error: io::Error| trouble::of_disk(folder, &error);
    let database = folder.join(DATABASE);
    let lock = WriteLock::open(folder).map_err(on_disk)?;
    let _held = lock.hold().map_err(on_disk)?;
    let open = open_to_write(&database)?;
    // Somebody else may have done it while this one waited.
    let found = format(&database, &open)?;
    migrate(&open, found, &MIGRATIONS).map_err(|error| trouble::of_sqlite(&database, &error))
}

/// A connection that writes: nothing is acknowledged before it is on the disk.
pub(super) fn open_to_write(database: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = Connection::open_with_flags(database, flags)?;
        // The lock makes writers wait; this is for strangers who open the database with other tools.
        open.busy_timeout(BUSY)?;
        open.pragma_update(None, "synchronous", "FULL")?;
        open.pragma_update(None, "foreign_keys", true)?;
        open.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(open)
    };
    open().map_err(|error| trouble::of_sqlite(database, &error))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Makes a folder that only its owner may look into, and those above it. Each is synced into the one
/// above, so that a power cut does not take a folder away with the store in it.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !above.is_dir() {
        make_folder(above)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => sync(above),
    }
}

/// Makes a whole store under a name that nobody opens. The lock is held: what is left there is a
/// killed maker's.
fn make_unfinished(folder: &Path) -> Result<PathBuf, StoreError> {
    let file = folder.join(UNFINISHED);
    let on_disk = |error: io::Error| trouble::of_disk(&file, &error);
    let on_error = |error: rusqlite::Error| trouble::of_sqlite(&file, &error);
    for ending in ["", "-wal", "-shm", "-journal"] {
        remove(&folder.join(format!("{UNFINISHED}{ending}"))).map_err(on_disk)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).map_err(on_disk)?;
    let open = open_to_write(&file)?;
    // Nobody knows of it before it is whole: it goes to the disk in one piece, when it is.
    open.pragma_update(None, "synchronous", "OFF").map_err(on_error)?;
    fill(&open).map_err(on_error)?;
    name_store(&open).map_err(on_disk)?.map_err(on_error)?;
    // Closing the last connection would do this too, and say nothing of what went wrong.
    open.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(on_error)?;
    open.close().map_err(|(_, error)| on_error(error))?;
    File::open(&file).and_then(|made| made.sync_all()).map_err(on_disk)?;
    Ok(file)
}

fn fill(open: &Connection) -> rusqlite::Result<()> {
    // To its end: SQLite tells the new mode before it has kept it, and only then that it could not.
    let mut switch = open.prepare("PRAGMA journal_mode = WAL")?;
    switch.query_map([], |_| Ok(()))?.collect::<rusqlite::Result<()>>()?;
    open.pragma_update(None, "application_id", APPLICATION)?;
    migrate(open, 0, &MIGRATIONS)
}

/// A store has a name of its own, so that a copy can be told from another store.
fn name_store(open: &Connection) -> io::Result<rusqlite::Result<()>> {
    let name = format!("{:016x}{:016x}", id::random()?, id::random()?);
    Ok(open.execute("INSERT INTO meta (key, value) VALUES ('store', ?1)", [name]).map(drop))
}

fn migrate(open: &Connection, found: u32, migrations: &[&[&str]]) -> rusqlite::Result<()> {
    open.execute_batch("BEGIN IMMEDIATE")?;
    let done = apply(open, found, migrations).and_then(|()| open.execute_batch("COMMIT"));
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

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Syncs a folder: the names in it are kept.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(open: &Connection) -> u32 {
        open.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn only_the_migrations_that_are_missing_are_applied() {
        let open = Connection::open_in_memory().unwrap();
        let (one, two): (&[&str], &[&str]) = (&["CREATE TABLE a (x)"], &["CREATE TABLE b (x)"]);
        migrate(&open, 0, &[one]).unwrap();
        assert_eq!(version(&open), 1);
        migrate(&open, 1, &[one, two, &["INSERT INTO b VALUES (6)", "UPDATE b SET x = 7"]]).unwrap();
        assert_eq!(version(&open), 3);
        assert_eq!(open.query_row("SELECT x FROM b", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
    }

    #[test]
    fn a_migration_that_fails_leaves_everything_as_it_was() {
        let open = Connection::open_in_memory().unwrap();
        migrate(&open, 0, &[&["CREATE TABLE a (x)"]]).unwrap();
        assert!(migrate(&open, 1, &[&[], &["CREATE TABLE b (x)"], &["CREATE TABLE a (x)"]]).is_err());
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
