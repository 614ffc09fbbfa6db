//! The writer: one thread that writes for a whole process, many requests in one transaction.
//!
//! Requests that wait while the disk is busy go together into the next transaction, so that each sync
//! serves as many as there are; no request is made to wait for company. A request that is refused leaves
//! no trace and does not concern the others. No request is answered before the transaction is on the disk, and after
//! an error that leaves this in doubt nothing is written any more.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ffi};

use super::events::{self, StoreEvent};
use super::heads::{self, Found, HeadFile, RunHead, StoreHead};
use super::lock::WriteLock;
use super::room::Room;
use super::seal::{self, Seal, Sealed};
use super::write::Write;
use super::{DATABASE, LOG, integrity, read, schema, trouble};
use crate::{FORMAT, StoreError};
use ftl_folder::{self as folder, OpenMode};

/// How many requests may wait; a thread that sends one more waits before it is taken.
const MAX_WAITING: usize = 1024;

/// How many requests go into one transaction.
const MAX_GROUP: usize = 256;

/// A transaction that brings this much takes no further request.
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;

/// The log is brought into the database when it is this many pages ahead, 4 MiB: rarely enough that
/// the cost is spread over hundreds of transactions, often enough that a reader that finds a log
/// left by a crash has little to look through.
const CHECKPOINT_PAGES: i64 = 1000;

/// A log that grew beyond this is cut back once all of it is in the database.
const MAX_LOG_BYTES: i64 = 16 * 1024 * 1024;

/// How many statements a writer keeps prepared; there are about twenty.
const STATEMENTS: usize = 64;

/// What the writer and those who ask it share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) folder: PathBuf,
    /// Why nothing is written any more.
    pub(super) broken: OnceLock<StoreError>,
    /// How many requests were handed to the writer.
    pub(super) asked: AtomicU64,
    /// How many transactions were committed.
    pub(super) commits: AtomicU64,
    /// What all of this process write with: two connections would each read again what the other has changed.
    pen: Mutex<Option<Pen>>,
    /// Whether heads were written that are not synced.
    pub(super) heads_dirty: Arc<AtomicBool>,
    /// That the folder was synced with the log in it.
    folder_synced: OnceLock<()>,
    /// The error code that so many next commits meet instead of the disk. For tests.
    pub(super) injected: Mutex<(i32, u32)>,
}

/// The thread that writes, for those who ask.
#[derive(Debug)]
pub(super) struct Writer {
    requests: SyncSender<Request>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
pub(super) struct Request {
    write: Write,
    answer: SyncSender<Result<u64, StoreError>>,
}

impl Shared {
    pub(super) fn new(folder: &Path) -> Shared {
        Shared {
            folder: folder.to_owned(),
            broken: OnceLock::new(),
            asked: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            pen: Mutex::default(),
            heads_dirty: Arc::default(),
            folder_synced: OnceLock::new(),
            injected: Mutex::new((ffi::SQLITE_OK, 0)),
        }
    }

    /// Does something in a transaction of its own, under the write lock.
    pub(super) fn change<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        self.with_pen(|pen| pen.change(self, work))
    }

    /// Ends writing for good, and tidies up if no other process has the store open.
    pub(super) fn close(&self) {
        if let Some(pen) = self.pen().take() {
            pen.close(self.broken.get().is_some());
        }
    }

    /// Lends what is written with; it is opened for the first one.
    fn with_pen<T>(&self, write: impl FnOnce(&Pen) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut pen = self.pen();
        // The thread that wrote before may have broken the store.
        if let Some(error) = self.broken.get() {
            return Err(error.clone());
        }
        match &mut *pen {
            Some(pen) => write(pen),
            none => write(none.insert(Pen::open(self)?)),
        }
    }

    fn pen(&self) -> MutexGuard<'_, Option<Pen>> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn injected_now(&self) -> Option<i32> {
        let mut injected = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        injected.1 = injected.1.checked_sub(1)?;
        Some(injected.0)
    }

    fn break_with(&self, error: &StoreError) {
        // The first reason is the one to tell.
        let _ = self.broken.set(error.clone());
    }
}

impl Writer {
    /// Starts the thread. It opens the database with the first request.
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Writer, StoreError> {
        let (requests, waiting) = sync_channel(MAX_WAITING);
        let scribe = Scribe { shared: Arc::clone(shared), waiting };
        let started = thread::Builder::new().name("ftl-store".to_owned()).spawn(move || scribe.serve());
        let thread = started.map_err(|error| trouble::of_disk(&shared.folder, &error))?;
        Ok(Writer { requests, thread })
    }

    pub(super) fn requests(&self) -> SyncSender<Request> {
        self.requests.clone()
    }

    /// Waits until all that was asked is written.
    pub(super) fn finish(self) {
        drop(self.requests);
        // A writer that panicked has answered no request; there is nothing left to wait for.
        let _ = self.thread.join();
    }
}

/// Asks for something to be written and waits until it is.
pub(super) fn ask(shared: &Shared, requests: &SyncSender<Request>, write: Write) -> Result<u64, StoreError> {
    let gone = || StoreError::Failed("the thread that writes the store has ended".to_owned());
    let (answer, answered) = sync_channel(1);
    requests.send(Request { write, answer }).map_err(|_| gone())?;
    shared.asked.fetch_add(1, Ordering::Relaxed);
    answered.recv().map_err(|_| gone())?
}

/// The one thread of the process that writes the store.
struct Scribe {
    shared: Arc<Shared>,
    waiting: Receiver<Request>,
}

/// The connection and the files that the writer writes with.
#[derive(Debug)]
pub(super) struct Pen {
    open: Connection,
    lock: WriteLock,
    database: PathBuf,
    /// Which file it opened, to notice when another one stands in its place.
    file: (u64, u64),
    seal: Seal,
    heads: Arc<HeadFile>,
    /// How far there is room in the log.
    room: Room,
    /// The store's own name.
    name: String,
}

impl Scribe {
    fn serve(self) {
        while let Ok(first) = self.waiting.recv() {
            self.write_group(first);
        }
    }

    fn write_group(&self, first: Request) {
        let mut group = vec![first];
        match self.shared.with_pen(|pen| self.try_group(pen, &mut group)) {
            // No thread or process waits for this.
            Ok(Some(heads)) => drop(heads.sync()),
            Ok(None) => {}
            Err(error) => answer_all(group, &error),
        }
    }

    /// Writes and answers a group; an error answers all of whom it has left. The heads are to be synced where a run has
    /// changed hands.
    fn try_group(&self, pen: &Pen, group: &mut Vec<Request>) -> Result<Option<Arc<HeadFile>>, StoreError> {
        let _held = pen.lock.hold().map_err(|error| trouble::of_disk(&pen.database, &error))?;
        pen.check_place(&self.shared)?;
        let written = pen.transact(&self.shared, group, &self.waiting);
        let changed_hands = group.iter().any(|request| request.write.changes_lease());
        match written {
            Ok(answers) => answer_each(group, answers),
            Err(StoreError::Full(_)) => self.write_alone(pen, group),
            Err(error) => return Err(error),
        }
        pen.empty_log(&self.shared, CHECKPOINT_PAGES);
        Ok(changed_hands.then(|| Arc::clone(&pen.heads)))
    }

    /// When there is no room, a log that is brought into the database gives some, and perhaps some of
    /// the group fit into it.
    fn write_alone(&self, pen: &Pen, group: &mut Vec<Request>) {
        pen.empty_log(&self.shared, 1);
        for request in group.drain(..) {
            let answer = match self.shared.broken.get() {
                Some(error) => Err(error.clone()),
                None => pen.transact_one(&self.shared, &request.write),
            };
            let _ = request.answer.send(answer);
        }
    }
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
        Ok(Pen { open, lock, database, file, seal, heads: Arc::new(heads), room: Room::default(), name })
    }

    /// Looks whether the store may be written, and makes its heads anew if they are missing.
    fn settle(&self, shared: &Shared) -> Result<(), StoreError> {
        let _held = self.lock.hold().map_err(|error| trouble::of_disk(&self.database, &error))?;
        let found = integrity::check_heads(&shared.folder, &self.open)?;
        self.sync_log(shared)?;
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
            self.transaction(shared, || events::add(&self.open, &event))?;
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
    fn check_place(&self, shared: &Shared) -> Result<(), StoreError> {
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
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        let _held = self.lock.hold().map_err(|error| trouble::of_disk(&self.database, &error))?;
        self.check_place(shared)?;
        let done = self.transaction_if(shared, || work(&self.open), Result::is_ok)?;
        self.empty_log(shared, CHECKPOINT_PAGES);
        Ok(done)
    }

    /// Writes a group, and the requests that come meanwhile, in one transaction.
    fn transact(
        &self,
        shared: &Shared,
        group: &mut Vec<Request>,
        waiting: &Receiver<Request>,
    ) -> Result<Vec<Result<u64, StoreError>>, StoreError> {
        self.transaction(shared, || {
            let mut answers = Vec::new();
            let mut bytes = 0_usize;
            while let Some(request) = group.get(answers.len()) {
                answers.push(self.perform(&request.write)?);
                bytes = bytes.saturating_add(request.write.bytes());
                if answers.len() == group.len() && group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
                    group.extend(waiting.try_recv());
                }
            }
            Ok(answers)
        })
    }

    fn transact_one(&self, shared: &Shared, write: &Write) -> Result<u64, StoreError> {
        self.transaction(shared, || self.perform(write))?
    }

    fn transaction<T>(
        &self,
        shared: &Shared,
        work: impl FnOnce() -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.transaction_if(shared, work, |_| true)
    }

    /// A transaction that is kept only if what came of it says so.
    fn transaction_if<T>(
        &self,
        shared: &Shared,
        work: impl FnOnce() -> rusqlite::Result<T>,
        keep: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        self.seal.begin();
        let done = self.run("BEGIN IMMEDIATE").and_then(|()| work()).and_then(|told| {
            if keep(&told) {
                self.commit(shared)?;
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
    fn perform(&self, write: &Write) -> rusqlite::Result<Result<u64, StoreError>> {
        match write.look(&self.open)? {
            Ok(ready) => ready.carry_out(&self.open).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn commit(&self, shared: &Shared) -> rusqlite::Result<()> {
        if let Some(code) = shared.injected_now() {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        }
        let sealed = self.seal.close(&self.open)?;
        self.run("COMMIT")?;
        shared.commits.fetch_add(1, Ordering::Relaxed);
        if let Some((sealed, runs)) = sealed {
            // What is committed is on the disk, whatever becomes of its head: one that is behind is no damage.
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
    fn empty_log(&self, shared: &Shared, pages: i64) {
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
    pub(super) fn close(self, in_doubt: bool) {
        let _held = self.lock.hold();
        if in_doubt {
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

fn answer_each(group: &mut Vec<Request>, answers: Vec<Result<u64, StoreError>>) {
    for (request, answer) in group.drain(..).zip(answers) {
        // A sender that has gone away does not need the answer.
        let _ = request.answer.send(answer);
    }
}

fn answer_all(group: Vec<Request>, error: &StoreError) {
    for request in group {
        let _ = request.answer.send(Err(error.clone()));
    }
}
