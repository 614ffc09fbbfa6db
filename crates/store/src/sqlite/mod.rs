//! The store on this disk: one SQLite database that many processes read and write at once.
//!
//! Whatever writes goes through the one writer thread of its process and the kernel lock of the
//! folder; whatever reads has connections that cannot write. Nothing here waits for a reader, nothing
//! is acknowledged before the disk has it, and a store of a newer format is never written.
//!
//! The folder holds `ftl.db` with its log and shared memory file (`-wal`, `-shm`), the heads, and the two
//! lock files. It must lie on a disk of this machine: the log's shared memory works on one machine only.

mod copies;
mod cut;
mod ends;
mod events;
mod heads;
mod integrity;
mod lock;
mod log;
mod notes;
mod pen;
mod read;
mod recover;
mod room;
mod schema;
mod seal;
mod snapshots;
mod trouble;
mod write;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rustix::fs::{Access, access};

pub use self::ends::RunEnd;
pub use self::events::{Loss, LostEntries, RecordedEvent, StoreEvent};
pub use self::integrity::StoreReport;
use self::pen::Durability;
use self::read::{Reader, Readers};
pub use self::recover::BringBack;
use self::write::Write;
use self::writer::{Message, Shared, Writer};
use super::{
    Append, ContentDigest, FORMAT, Lease, Most, NewRun, Newest, PendingCommand, RunRow, Snapshot, Store,
    StoreError, StoredEntry, limits,
};
use ftl_folder::id::RunId;
use ftl_process::fence;

/// The database's file name.
const DATABASE: &str = "ftl.db";

/// The name of the database's write-ahead log.
const LOG: &str = "ftl.db-wal";

/// How long a connection waits for a lock of SQLite itself. Writers wait elsewhere; this covers the
/// moments in which another process opens or closes the database.
const BUSY: Duration = Duration::from_secs(30);

/// A store in a folder of this machine.
#[derive(Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    format: u32,
    /// Why it could not be brought up to date; it is read as it is.
    outdated: Option<StoreError>,
    open: Arc<OpenStore>,
    durability: Durability,
    /// What was found missing, once it was looked for.
    loss: Arc<OnceLock<Option<StoreError>>>,
}

/// What all handles of a store have open. The last one closes it.
#[derive(Debug)]
struct OpenStore {
    shared: Arc<Shared>,
    readers: Readers,
    writer: Mutex<Option<Writer>>,
}

impl SqliteStore {
    /// Opens the store of a folder, and makes both if they are missing. A folder that may not be
    /// written can still be opened if it has a store; `writable` tells.
    pub fn open(folder: &Path) -> Result<SqliteStore, StoreError> {
        schema::create_if_missing(folder)?;
        SqliteStore::attach(folder)
    }

    /// Opens the store of a folder if it has one. Nothing is made.
    pub fn open_existing(folder: &Path) -> Result<Option<SqliteStore>, StoreError> {
        if schema::exists(folder)? { SqliteStore::attach(folder).map(Some) } else { Ok(None) }
    }

    /// The same store for what an action notes and keeps: such a change is not synced for itself. The entry of the journal that says
    /// what came of the action is, and with it everything that was written before, in any process; where none follows, the
    /// change is synced a moment later. A power cut between the two takes both: the action is asked again. Journals and
    /// orders are synced by this handle too.
    #[must_use]
    pub fn for_actions(&self) -> SqliteStore {
        SqliteStore {
            shared: Arc::clone(&self.shared),
            format: self.format,
            outdated: self.outdated.clone(),
            open: Arc::clone(&self.open),
            durability: Durability::Soon,
            loss: Arc::clone(&self.loss),
        }
    }

    /// The format of what was found.
    pub fn format(&self) -> u32 {
        self.format
    }

    /// The name of this store among all stores.
    pub fn name(&self) -> Result<String, StoreError> {
        self.read(read::store_name)
    }

    /// Looks for damage: what SQLite itself can find, and if `deep` every page, every index and the
    /// digest of every piece of content. One line for each finding. Chains are `verify_chain`'s.
    pub fn check(&self, deep: bool) -> Result<Vec<String>, StoreError> {
        let mut found = self.read(|open| pages_problems(open, deep))?;
        if deep && found.is_empty() {
            found.extend(self.read(content_problems)?);
        }
        Ok(found)
    }

    /// Looks whether the store is what was written: its log, its heads, and everything that no chain covers.
    pub fn verify(&self) -> Result<StoreReport, StoreError> {
        integrity::report(&self.shared.folder, |question| self.read(question))
    }

    /// Changes something in a transaction of its own, under the write lock. A refusal of the work
    /// itself is told inside and leaves no trace. The work must be quick, and must not ask this store
    /// in any other way than through the connection.
    pub fn change<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        self.check_open()?;
        let changed = self.shared.change(self.durability, work)?;
        self.settle_later(self.durability)?;
        Ok(changed)
    }

    /// Asks something that changes nothing.
    pub fn ask<T>(&self, question: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.read(question)
    }

    fn database(&self) -> PathBuf {
        self.shared.folder.join(DATABASE)
    }

    /// How many transactions this process has committed. For tests and figures.
    #[doc(hidden)]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// How many requests this process has handed to its writer. For tests.
    #[doc(hidden)]
    pub fn count_requests(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Makes so many next commits fail with an error code of SQLite. For tests.
    #[doc(hidden)]
    pub fn inject(&self, code: i32, commits: u32) {
        *self.shared.injected.lock().unwrap_or_else(PoisonError::into_inner) = (code, commits);
    }

    fn attach(folder: &Path) -> Result<SqliteStore, StoreError> {
        let database = folder.join(DATABASE);
        let mut reader = Reader::open(folder)?;
        let mut format = schema::format(&database, &reader.open)?;
        let mut outdated = None;
        if format < notes::FORMAT_WITH_NOTES {
            match schema::upgrade(folder) {
                Ok(()) => {
                    reader = Reader::open(folder)?;
                    format = schema::format(&database, &reader.open)?;
                }
                // What cannot be written now can be read: its tables are all known.
                Err(
                    error @ (StoreError::ReadOnly(_)
                    | StoreError::Full(_)
                    | StoreError::InUse(_)
                    | StoreError::Lost(_)),
                ) => outdated = Some(error),
                Err(error) => return Err(error),
            }
        }
        let shared = Arc::new(Shared::new(folder));
        let (readers, writer) = (Readers::new(folder, reader), Mutex::default());
        let open = Arc::new(OpenStore { shared: Arc::clone(&shared), readers, writer });
        let (durability, loss) = (Durability::Now, Arc::default());
        Ok(SqliteStore { shared, format, outdated, open, durability, loss })
    }

    fn write(&self, write: Write, durability: Durability) -> Result<u64, StoreError> {
        self.check_open()?;
        let written = match self.shared.write_at_once(&write, durability) {
            Some(written) => written,
            None => writer::ask(&self.shared, &self.messages()?, write, durability),
        };
        if written.is_ok() {
            self.settle_later(durability)?;
        }
        written
    }

    /// Has what was committed without a sync synced in a moment.
    fn settle_later(&self, durability: Durability) -> Result<(), StoreError> {
        match durability {
            Durability::Now => Ok(()),
            Durability::Soon => self.messages().map(|messages| self.shared.settle_soon(&messages)),
        }
    }

    /// The way to the thread that writes; it is started for the first one.
    fn messages(&self) -> Result<SyncSender<Message>, StoreError> {
        let mut writer = self.open.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match &mut *writer {
            Some(writer) => writer.messages(),
            none => none.insert(Writer::start(&self.shared)?).messages(),
        })
    }

    fn read<T>(&self, question: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.open.readers.ask(question).map_err(|error| match error {
            // The tables of a newer format may be other ones.
            StoreError::Failed(_) if self.format > FORMAT => self.newer(),
            error => error,
        })
    }

    /// Asks about a run that must be there.
    fn read_run<T>(
        &self,
        run: &RunId,
        question: impl Fn(&Connection, i64) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let told = self.read(|open| match read::number(open, run)? {
            Some(number) => question(open, number).map(Some),
            None => Ok(None),
        })?;
        told.ok_or_else(|| StoreError::NoRun(run.clone()))
    }

    /// Whether writing makes sense at all.
    fn check_open(&self) -> Result<(), StoreError> {
        match self.shared.broken.get() {
            Some(error) => Err(error.clone()),
            None if self.outdated.is_some() => self.outdated.clone().map_or(Ok(()), Err),
            None if self.format > FORMAT => Err(self.newer()),
            None => Ok(()),
        }
    }

    /// The fence of a run, which may be ahead of a database that was restored. One that cannot be read stops the
    /// command that starts a run, and is reported there; one that no epoch can reach is none of ours.
    fn fence(&self, run: &RunId) -> Option<u64> {
        let file = self.shared.folder.join("fences").join(run.as_str());
        fence::lowest(&file).ok().flatten().filter(|lowest| *lowest < i64::MAX.unsigned_abs())
    }

    fn newer(&self) -> StoreError {
        StoreError::Newer { found: self.format, known: FORMAT }
    }
}

impl Store for SqliteStore {
    fn writable(&self) -> Result<(), StoreError> {
        self.check_open()?;
        let folder = &self.shared.folder;
        for place in [folder.clone(), folder.join(DATABASE)] {
            access(&place, Access::WRITE_OK).map_err(|error| trouble::of_disk(&place, &error.into()))?;
        }
        Ok(())
    }

    fn check_loss(&self) -> Result<(), StoreError> {
        let looked = self.loss.get_or_init(|| {
            let found = integrity::look_for_loss(&self.shared.folder, |question| self.read(question));
            found.err().filter(|error| matches!(error, StoreError::Lost(_)))
        });
        looked.clone().map_or(Ok(()), Err)
    }

    fn create(&self, new: &NewRun) -> Result<Lease, StoreError> {
        limits::check_new(new)?;
        // The first entry follows, and a run without one is none.
        let epoch = self.write(Write::Create(new.clone()), Durability::Soon)?;
        Ok(Lease { run: new.run.clone(), epoch, owner: new.owner.clone() })
    }

    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        limits::check_append(&append)?;
        self.write(Write::Append(lease.clone(), append), Durability::Now).map(drop)
    }

    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        limits::check_owner(owner)?;
        let least = self.fence(run).map_or(0, |lowest| lowest.saturating_add(1));
        let take = Write::Take { run: run.clone(), seen, owner: owner.to_owned(), least };
        let epoch = self.write(take, Durability::Now)?;
        Ok(Lease { run: run.clone(), epoch, owner: owner.to_owned() })
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        // After a power cut no process lives that had it.
        self.write(Write::Release(lease.clone()), Durability::Soon).map(drop)
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.read(|open| read::run(open, run))
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        self.read(|open| read::runs(open, prefix))
    }

    fn newest(&self, most: Most) -> Result<Newest, StoreError> {
        self.read(|open| read::newest(open, most))
    }

    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError> {
        self.read_run(run, |open, number| read::entries(open, number, after, most))
    }

    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError> {
        limits::check_content(bytes)?;
        let digest = ContentDigest::of(bytes);
        self.write(Write::Put(digest, bytes.to_owned()), self.durability)?;
        Ok(digest)
    }

    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.read(|open| match read::content(open, digest)? {
            Some(number) => read::bytes(open, number).map(Some),
            None => Ok(None),
        })?;
        match found {
            Some(bytes) if ContentDigest::of(&bytes) != *digest => Err(StoreError::Corrupt(damaged(digest))),
            found => Ok(found),
        }
    }

    fn has(&self, digest: &ContentDigest) -> Result<bool, StoreError> {
        self.read(|open| Ok(read::content(open, digest)?.is_some()))
    }

    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError> {
        limits::check_command(body)?;
        self.write(Write::Send { run: run.clone(), body: body.to_owned() }, Durability::Now)
    }

    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError> {
        self.read_run(run, read::pending)
    }

    fn reply(&self, command: u64) -> Result<Option<String>, StoreError> {
        self.read(|open| read::reply(open, command))
    }

    fn snapshot(&self, run: &RunId) -> Option<Snapshot> {
        self.read_snapshot(run)
    }

    fn keep_snapshot(&self, run: &RunId, snapshot: &Snapshot) {
        self.write_snapshot(run, snapshot);
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.open.readers.version()
    }
}

impl Drop for OpenStore {
    /// What was asked is finished. The writer closes last: only it may tidy up.
    fn drop(&mut self) {
        self.readers.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            writer.finish();
        }
        self.shared.close();
    }
}

fn damaged(digest: &ContentDigest) -> String {
    format!("content {digest} is not what was written")
}

fn pages_problems(open: &Connection, deep: bool) -> rusqlite::Result<Vec<String>> {
    let check = if deep { "integrity_check" } else { "quick_check" };
    let mut found = Vec::new();
    open.pragma_query(None, check, |row| {
        found.push(row.get::<_, String>(0)?);
        Ok(())
    })?;
    found.retain(|line| line != "ok");
    open.pragma_query(None, "foreign_key_check", |row| {
        found.push(format!("a row of {} belongs to nothing", row.get::<_, String>(0)?));
        Ok(())
    })?;
    Ok(found)
}

fn content_problems(open: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut list = open.prepare("SELECT number, digest FROM content")?;
    let mut rows = list.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let digest = ContentDigest(row.get(1)?);
        if ContentDigest::of(&read::bytes(open, row.get(0)?)?) != digest {
            found.push(damaged(&digest));
        }
    }
    Ok(found)
}
