//! What the threads of a process write the store with: one connection, one after the other.
//!
//! Everything is one transaction under the kernel lock of the folder, with the seal and the heads that belong to it.
//! Nothing here knows who asked.
//!
//! What an action notes is committed without a sync of its own: the entry that says what came of the action follows, and
//! the log is one file, so that its sync covers what stands before it. At most `MAX_UNSYNCED` transactions stand behind
//! the last sync, in this process and in others: `log` counts with that.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ffi};

use super::events::{self, StoreEvent};
use super::heads::{self, Found, HeadFile, RunHead, StoreHead};
use super::lock::WriteLock;
use super::room::Room;
use super::seal::{self, Seal, Sealed};
use super::write::Write;
use super::writer::Shared;
use super::{DATABASE, LOG, integrity, read, schema, trouble};
use crate::{FORMAT, StoreError};
use ftl_folder::{self as folder, OpenMode};

/// The log is brought into the database when it is this many pages ahead, 4 MiB: rarely enough that
/// the cost is spread over hundreds of transactions, often enough that a reader that finds a log
/// left by a crash has little to look through.
pub(super) const CHECKPOINT_PAGES: i64 = 1000;

/// A log that grew beyond this is cut back once all of it is in the database.
const MAX_LOG_BYTES: i64 = 16 * 1024 * 1024;

/// How many transactions may stand in the log behind the last one that was synced, besides the one that is written now.
pub(super) const MAX_UNSYNCED: u32 = 3;

/// How many statements a writer keeps prepared; there are about twenty.
const STATEMENTS: usize = 64;

/// When what is written is put on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Before anybody is answered.
    Now,
    /// With the next transaction that is, or after `MAX_UNSYNCED_WAIT`.
    Soon,
}

/// The connection and the files that a process writes with.
#[derive(Debug)]
pub(super) struct Pen {
    open: Connection,
    pub(super) lock: WriteLock,
    pub(super) database: PathBuf,
    /// Which file it opened, to notice when another one stands in its place.
    file: (u64, u64),
    seal: Seal,
    pub(super) heads: Arc<HeadFile>,
    /// How far there is room in the log.
    room: Room,
    /// Whether SQLite was told to sync what it commits.
    synced: Cell<Option<Durability>>,
    /// The number of the last transaction that is surely on the disk, and of the last one of this process that need not be.
    /// Other processes leave some unsynced as well: what they have added since counts as if it were not.
    on_disk: Cell<u64>,
    committed: Cell<u64>,
    /// The runs that those have moved, by their numbers: a head must not be ahead of what is on the disk.
    ahead: RefCell<BTreeSet<i64>>,
    /// The store's own name.
    name: String,
}

impl Pen {
    /// Opens the store for writing. One that is damaged is not written, now or later.
    pub(super) fn open(shared: &Shared) -> Result<Pen, StoreError> {
        let opened = Pen::prepare(shared).and_then(|pen| pen.settle(shared).map(|()| pen));
        opened.inspect_err(|error| {
            if matches!(error, StoreError::Corrupt(_) | StoreError::Lost(_)) {
                shared.break_with(error);
            }
        })
    }

    fn prepare(shared: &Shared) -> Result<Pen, StoreError> {
        let database = shared.folder.join(DATABASE);
        let on_disk = |error: io::Error| trouble::of_disk(&database, &error);
        let lock = WriteLock::open(&shared.folder).map_err(on_disk)?;
        let held = lock.hold().map_err(on_disk)?;
        let open = schema::open_to_write(&database)?;
        let on_error = |error: rusqlite::Error| trouble::of_sqlite(&database, &error);
        let format = schema::format(&database, &open)?;
        integrity::check_log(&shared.folder, &open)?;
        schema::check_format(&shared.folder, &open)?;
        match format {
            found @ ..FORMAT => schema::bring_up_to_date(&shared.folder, &open, found)?,
            FORMAT => {}
            found => return Err(StoreError::Newer { found, known: FORMAT }),
        }
        open.set_prepared_statement_cache_capacity(STATEMENTS);
        // Every row that is written here names a run that was looked up in the same transaction, so that
        // SQLite need not look again for each entry; `check` still finds what belongs to nothing.
        open.pragma_update(None, "foreign_keys", false).map_err(on_error)?;
        // The log is emptied by hand, after the waiting requests were answered, and its errors are seen.
        open.pragma_update(None, "wal_autocheckpoint", 0).map_err(on_error)?;
        open.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES).map_err(on_error)?;
        let file = place(&database).map_err(on_disk)?;
        let name = read::store_name(&open).map_err(on_error)?;
        let heads = HeadFile::open(&shared.folder, &shared.heads_dirty)
            .map_err(|error| trouble::of_disk(&shared.folder.join(heads::HEADS), &error))?;
        let seal = Seal::install(&open).map_err(on_error)?;
        drop(held);
        let (heads, room) = (Arc::new(heads), Room::default());
        let (synced, ahead) = (Cell::new(None), RefCell::default());
        let (on_disk, committed) = (Cell::new(0), Cell::new(0));
        Ok(Pen { open, lock, database, file, seal, heads, room, synced, on_disk, committed, ahead, name })
    }

    /// Looks whether the store may be written, and makes its heads anew if they are missing.
    fn settle(&self, shared: &Shared) -> Result<(), StoreError> {
        let _held = self.lock.hold().map_err(|error| trouble::of_disk(&self.database, &error))?;
        let found = integrity::check_heads(&shared.folder, &self.open)?;
        self.sync_log(shared)?;
        self.on_disk.set(seal::read(&self.open).ok().flatten().map_or(0, |sealed| sealed.serial));
        self.sync_folder(shared)?;
        let why = match &found {
            Found::Heads(heads) if heads.unreadable == 0 => return Ok(()),
            Found::Heads(_) => "a part of them could not be read",
            Found::Missing => "they were missing",
            Found::Unreadable => "they could not be read",
        };
        self.renew_heads(shared, why)
    }

    /// Writes all heads as the store is, and notes it, unless the store is new.
    fn renew_heads(&self, shared: &Shared, why: &str) -> Result<(), StoreError> {
        let on_error = |error: rusqlite::Error| trouble::of_sqlite(&self.database, &error);
        if seal::read(&self.open).map_err(on_error)?.is_some_and(|sealed| sealed.serial > 0) {
            let event = StoreEvent::HeadsRenewed { why: why.to_owned() };
            self.transaction(shared, Durability::Now, || events::add(&self.open, &event))?;
        }
        let Some(sealed) = seal::read(&self.open).map_err(on_error)? else { return Ok(()) };
        let runs: Vec<RunHead> = integrity::run_heads(&self.open).map_err(on_error)?.into_values().collect();
        // Nothing depends on them yet: where there is no room for heads, the next commit tries again.
        let _ = self.heads.write_anew(&self.store_head(&sealed), &runs);
        Ok(())
    }

    fn store_head(&self, sealed: &Sealed) -> StoreHead {
        StoreHead { name: self.name.clone(), serial: sealed.serial, sums: sealed.sums.digest() }
    }

    /// The log's name must be in the folder before anything in it is acknowledged. SQLite syncs the folder as well,
    /// and does not tell whether that worked. While this process has the store open, no process makes another log.
    fn sync_folder(&self, shared: &Shared) -> Result<(), StoreError> {
        if shared.folder_synced.get().is_some() {
            return Ok(());
        }
        let synced = folder::sync(&shared.folder).map_err(|error| {
            let told = StoreError::Failed(format!("{}: {error}", shared.folder.display()));
            shared.break_with(&told);
            told
        });
        synced.map(|()| shared.folder_synced.get_or_init(|| ()).to_owned())
    }

    /// Puts the heads on the disk. They may be behind: where this fails the next one does it.
    fn sync_heads(&self) {
        let _ = self.heads.sync();
    }

    /// What a killed process wrote and did not sync can be read already. It must not be built upon
    /// before it is on the disk.
    fn sync_log(&self, shared: &Shared) -> Result<(), StoreError> {
        if schema::log_bytes(&shared.folder) == 0 {
            return Ok(());
        }
        let log = shared.folder.join(LOG);
        folder::open(&log, OpenMode::Read).and_then(|log| log.sync_data()).map_err(|error| {
            let told = StoreError::Failed(format!("{}: {error}", log.display()));
            shared.break_with(&told);
            told
        })
    }

    /// A store that was deleted or replaced would take writes that no later process can find.
    pub(super) fn check_place(&self, shared: &Shared) -> Result<(), StoreError> {
        let is_same = |found: std::fs::Metadata| (found.dev(), found.ino()) == self.file;
        if folder::peek(&self.database).is_ok_and(is_same) {
            return Ok(());
        }
        let told = format!("{} was moved, deleted or replaced meanwhile", self.database.display());
        let told = StoreError::Failed(told);
        shared.break_with(&told);
        Err(told)
    }

    /// Does something in a transaction of its own, under the write lock. What was refused is rolled
    /// back.
    pub(super) fn change<T, E>(
        &self,
        shared: &Shared,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        let _held = self.lock.hold().map_err(|error| trouble::of_disk(&self.database, &error))?;
        self.check_place(shared)?;
        let done = self.transaction_if(shared, durability, || work(&self.open), Result::is_ok)?;
        self.empty_log(shared, CHECKPOINT_PAGES);
        Ok(done)
    }

    /// Writes something alone, on whatever thread, where no other process writes; nothing where one does.
    pub(super) fn write_one(
        &self,
        shared: &Shared,
        write: &Write,
        durability: Durability,
    ) -> Option<Result<u64, StoreError>> {
        let _held = self.lock.try_hold().ok()??;
        let written = self.check_place(shared).and_then(|()| self.transact_one(shared, write, durability));
        if written.is_ok() {
            self.empty_log(shared, CHECKPOINT_PAGES);
        }
        Some(written)
    }

    pub(super) fn transact_one(
        &self,
        shared: &Shared,
        write: &Write,
        durability: Durability,
    ) -> Result<u64, StoreError> {
        self.transaction(shared, durability, || self.perform(write))?
    }

    pub(super) fn transaction<T>(
        &self,
        shared: &Shared,
        durability: Durability,
        work: impl FnOnce() -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.transaction_if(shared, durability, work, |_| true)
    }

    /// A transaction that is kept only if what came of it says so.
    fn transaction_if<T>(
        &self,
        shared: &Shared,
        durability: Durability,
        work: impl FnOnce() -> rusqlite::Result<T>,
        keep: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        self.seal.begin();
        let durability = match durability {
            Durability::Soon if self.may_wait() => Durability::Soon,
            Durability::Soon | Durability::Now => Durability::Now,
        };
        let begun = self.choose(durability).and_then(|()| self.run("BEGIN IMMEDIATE"));
        let done = begun.and_then(|()| work()).and_then(|told| {
            if keep(&told) {
                self.commit(shared, durability)?;
            } else {
                self.roll_back();
            }
            Ok(told)
        });
        done.map_err(|error| {
            let told = self.take_note(shared, &error);
            self.roll_back();
            told
        })
    }

    /// One request. A refused one has changed nothing, so the others are not concerned.
    pub(super) fn perform(&self, write: &Write) -> rusqlite::Result<Result<u64, StoreError>> {
        match write.look(&self.open)? {
            Ok(ready) => ready.carry_out(&self.open).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Whether one more transaction may stand in the log that is not synced.
    fn may_wait(&self) -> bool {
        let last = seal::read(&self.open).ok().flatten().map(|sealed| sealed.serial);
        last.is_some_and(|last| last.saturating_sub(self.on_disk.get()) < u64::from(MAX_UNSYNCED))
    }

    /// Has SQLite sync the next commit, or leave that to a later one.
    fn choose(&self, durability: Durability) -> rusqlite::Result<()> {
        if self.synced.replace(Some(durability)) == Some(durability) {
            return Ok(());
        }
        self.open.pragma_update(
            None,
            "synchronous",
            match durability {
                Durability::Now => "FULL",
                Durability::Soon => "NORMAL",
            },
        )
    }

    fn commit(&self, shared: &Shared, durability: Durability) -> rusqlite::Result<()> {
        if let Some(code) = shared.injected_now() {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        }
        let sealed = self.seal.close(&self.open)?;
        self.run("COMMIT")?;
        shared.commits.fetch_add(1, Ordering::Relaxed);
        let Some((sealed, runs)) = sealed else { return Ok(()) };
        match durability {
            Durability::Now => {
                self.on_disk.set(sealed.serial);
                let mut runs = runs;
                let moved: BTreeSet<i64> = runs.iter().map(|run| run.number).collect();
                let before = std::mem::take(&mut *self.ahead.borrow_mut());
                runs.extend(
                    before.difference(&moved).filter_map(|run| integrity::run_head(&self.open, *run)),
                );
                // What is committed is on the disk, whatever becomes of its head: one that is behind is no damage.
                let _ = self.heads.write(&self.store_head(&sealed), &runs);
            }
            Durability::Soon => {
                self.committed.set(sealed.serial);
                self.ahead.borrow_mut().extend(runs.iter().map(|run| run.number));
            }
        }
        Ok(())
    }

    /// Syncs the log where something was committed that is not synced, and writes the heads that this has moved.
    pub(super) fn settle_unsynced(&self, shared: &Shared) -> Result<(), StoreError> {
        if self.committed.get() <= self.on_disk.get() {
            return Ok(());
        }
        let _held = self.lock.hold().map_err(|error| trouble::of_disk(&self.database, &error))?;
        self.check_place(shared)?;
        self.sync_log(shared)?;
        self.on_disk.set(self.committed.get());
        let before = std::mem::take(&mut *self.ahead.borrow_mut());
        let runs: Vec<RunHead> =
            before.iter().filter_map(|run| integrity::run_head(&self.open, *run)).collect();
        if let Ok(Some(sealed)) = seal::read(&self.open) {
            self.on_disk.set(sealed.serial);
            let _ = self.heads.write(&self.store_head(&sealed), &runs);
        }
        Ok(())
    }

    /// After some errors SQLite has rolled back already.
    fn roll_back(&self) {
        if !self.open.is_autocommit() {
            // What led here is what counts; a transaction that stays open makes the next one fail.
            let _ = self.run("ROLLBACK");
        }
    }

    /// What an error means; after one that leaves the disk in doubt nothing is written any more,
    /// because a sync that is tried again may succeed without having kept anything.
    fn take_note(&self, shared: &Shared, error: &rusqlite::Error) -> StoreError {
        let told = trouble::of_sqlite(&self.database, error);
        let in_doubt = matches!(told, StoreError::Failed(_) | StoreError::Corrupt(_));
        if in_doubt && !trouble::is_busy(error) {
            shared.break_with(&told);
        }
        told
    }

    /// Brings the log into the database when it has grown by so many pages, and makes room in it until then. What
    /// hinders it now may not the next time.
    pub(super) fn empty_log(&self, shared: &Shared, pages: i64) {
        let emptied = self.ask_log("NOOP").and_then(|(frames, ahead)| {
            if ahead < pages {
                self.room.make(&shared.folder, u64::try_from(frames).unwrap_or(0));
                return Ok(());
            }
            self.sync_heads();
            self.ask_log("PASSIVE").map(drop)
        });
        // No thread waits for this; an error that matters answers the next requests.
        if let Err(error) = emptied {
            self.take_note(shared, &error);
        }
    }

    /// How many pages the log has, and how many of them are not in the database.
    fn ask_log(&self, mode: &str) -> rusqlite::Result<(i64, i64)> {
        let mut ask = self.open.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
        ask.query_row([], |row| {
            let frames = row.get::<_, i64>(1)?;
            Ok((frames, frames - row.get::<_, i64>(2)?))
        })
    }

    /// The last one who closes a store brings its whole log into the database and removes it. A store
    /// whose disk is in doubt is left as it is.
    pub(super) fn close(self, shared: &Shared) {
        let settled = self.settle_unsynced(shared);
        let _held = self.lock.hold();
        if settled.is_err() || shared.broken.get().is_some() {
            let _ = self.open.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        } else {
            self.sync_heads();
        }
        // All that was acknowledged is in the log; a database that cannot be closed loses nothing.
        let _ = self.open.close();
    }

    fn run(&self, statement: &str) -> rusqlite::Result<()> {
        self.open.prepare_cached(statement)?.execute([]).map(drop)
    }
}

fn place(file: &Path) -> io::Result<(u64, u64)> {
    folder::metadata(file).map(|found| (found.dev(), found.ino()))
}
