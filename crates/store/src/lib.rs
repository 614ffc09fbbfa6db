//! The store: where journals, content and commands are kept, behind one trait.
//!
//! A store keeps and orders; it understands no fact. It acknowledges nothing that a power cut could
//! take away, and it refuses a process that no longer owns a run. Everything above goes through this trait,
//! so that a store for many machines can stand in the place of the one on this disk.

pub mod audit;
pub mod chain;
mod entry;
pub mod journal;
mod limits;
pub mod machine;
pub mod memory;
pub mod notebook;
pub mod order;
pub mod owner;
pub mod snapshot;
pub mod sqlite;

use std::fmt;
use std::io::Read;

use ftl_core::run::Time;

pub use audit::{Broken, ChainReport, verify_chain};
pub use chain::{ContentDigest, Hash};
use ftl_folder::id::RunId;
/// Summaries stand beside their journals; where a journal is cut, the store makes one again.
pub use ftl_view::summary;
pub use limits::{
    MAX_APPEND_BYTES, MAX_COMMAND_BYTES, MAX_CONTENT_BYTES, MAX_ENTRY_BYTES, MAX_OWNER_BYTES,
    MAX_SUMMARY_BYTES,
};
pub use memory::MemoryStore;
pub use notebook::{MAX_NOTE_BYTES, MAX_NOTE_NAME_BYTES, Notebook, Notes};
pub use snapshot::Snapshot;
pub use sqlite::SqliteStore;

/// The format that this program writes. A store with a higher one is read, never written.
pub const FORMAT: u32 = 3;

/// A place that keeps runs.
///
/// Every method that changes something returns only when the change would survive a power cut.
/// Methods may be called from many threads and many processes at once; none of them fails because
/// another process is writing.
pub trait Store: Send + Sync {
    /// Whether it can be written, and if not, why not.
    fn writable(&self) -> Result<(), StoreError>;

    /// Whether something that was acknowledged is gone. What is left can be read.
    fn check_loss(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Adds a run with no entries, owned with epoch 1. `Exists` if its name is taken.
    fn create(&self, new: &NewRun) -> Result<Lease, StoreError>;

    /// Adds entries to the run of a lease, all of them or none: the content they name, the new
    /// summary and the reply to the command that caused them come with them. Their numbers follow the
    /// last one without a gap. Refused with `Fenced` when the lease is no longer the newest, or was
    /// given back.
    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError>;

    /// Makes a process the owner of a run if its epoch is still the one they saw: the epoch goes up by
    /// one, and every older lease is worth nothing from now on. `Fenced` if another process was faster.
    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError>;

    /// Gives a run back: it has no owner any more, and the lease is worth nothing. The epoch stays.
    /// `Fenced` if it is no longer ours.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// A run, if there is one of that name.
    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError>;

    /// Every run whose name begins so, the one added last first.
    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError>;

    /// The newest runs that have entries, so many of each kind. A command that lists runs wants no more, and a
    /// store need not read the others.
    fn newest(&self, most: Most) -> Result<Newest, StoreError> {
        let mut newest = Newest::default();
        for row in self.runs("")? {
            if newest.wants(most, row.head, row.settled) {
                newest.rows.push(row);
            }
        }
        Ok(newest)
    }

    /// Entries of a run in order, beginning after a number; at most so many. `NoRun` if there is none.
    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError>;

    /// Keeps content under its digest. Content that is kept already is not written again.
    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError>;

    /// Keeps content that is read from somewhere: its digest and its size.
    fn put_stream(&self, from: &mut dyn Read) -> Result<(ContentDigest, u64), StoreError> {
        let bytes = limits::read_all(from)?;
        Ok((self.put(&bytes)?, bytes.len() as u64))
    }

    /// The content of a digest. What is found is checked against the digest: `Corrupt` if it differs.
    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError>;

    /// Whether there is content of that digest. Its bytes are not looked at.
    fn has(&self, digest: &ContentDigest) -> Result<bool, StoreError> {
        Ok(self.get(digest)?.is_some())
    }

    /// Leaves a command for the process that drives the run; its number. `NoRun` if there is none.
    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError>;

    /// The commands of a run that have no reply yet, the oldest first. `NoRun` if there is none.
    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError>;

    /// The reply to a command, if it has one.
    fn reply(&self, command: u64) -> Result<Option<String>, StoreError>;

    /// The snapshot of a run that was kept last, where there is one and it is what was written.
    fn snapshot(&self, _run: &RunId) -> Option<Snapshot> {
        None
    }

    /// Keeps a snapshot of a run in the place of the one before. It is a cache: a failure to keep it is not reported,
    /// and it may be gone after a power cut.
    fn keep_snapshot(&self, _run: &RunId, _snapshot: &Snapshot) {}

    /// A number that differs whenever anything in the store may have changed since it was asked last.
    fn version(&self) -> Result<u64, StoreError>;
}

/// A run to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The name of the new run; refused if it is taken.
    pub run: RunId,
    /// The process that owns it first.
    pub owner: String,
    /// The time of opening, for lists of runs.
    pub at: Time,
    /// What it looks like from outside, as JSON.
    pub summary: String,
}

/// The right to write a run, until another process takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The run that the lease allows to write.
    pub run: RunId,
    /// The fencing number: of two leases the one with the higher epoch counts.
    pub epoch: u64,
    /// The name of the process that holds the lease.
    pub owner: String,
}

/// What is added to a run in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Append {
    /// The entries, numbered without a gap from the last one of the run.
    pub lines: Vec<NewEntry>,
    /// Content that the entries name, by digest.
    pub content: Vec<(ContentDigest, Vec<u8>)>,
    /// The time of the append, for lists of runs.
    pub at: Time,
    /// What the run looks like from outside from now on, as JSON; `None` leaves it.
    pub summary: Option<String>,
    /// Whether the run has ended; `None` leaves it.
    pub settled: Option<bool>,
    /// The command that caused it and what to tell its sender. A command that has a reply
    /// already makes the whole append fail with `Answered`, one that this run never got with
    /// `NoCommand`.
    pub answered: Option<(u64, String)>,
}

/// An entry to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// Its number in the run, from 1.
    pub seq: u64,
    /// The body, as JSON.
    pub body: String,
}

/// An entry that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its number in the run, from 1.
    pub seq: u64,
    /// The epoch of the lease under which it was written.
    pub epoch: u64,
    /// The body, as JSON.
    pub body: String,
    /// The hash of this entry and of all before it.
    pub hash: Hash,
}

/// What a store knows of a run without reading its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The name of the run.
    pub run: RunId,
    /// When it was added.
    pub opened: Time,
    /// When it was last added to.
    pub changed: Time,
    /// The number of its last entry; 0 if it has none.
    pub head: u64,
    /// The hash of its last entry, or of nothing.
    pub hash: Hash,
    /// The epoch of the newest lease.
    pub epoch: u64,
    /// Who has that lease; `None` when it was given back.
    pub owner: Option<String>,
    /// Whether it has ended.
    pub settled: bool,
    /// What it looks like from outside, as JSON.
    pub summary: String,
}

/// How many runs a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Of those that have not ended.
    pub open: usize,
    /// Of those that have.
    pub ended: usize,
}

impl Most {
    /// A list of every run.
    pub const ALL: Most = Most { open: usize::MAX, ended: usize::MAX };
}

/// The newest runs, and how many there are besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    /// The runs, the one added last first.
    pub rows: Vec<RunRow>,
    /// How many have not ended, shown or not.
    pub open: usize,
    /// How many have ended, shown or not.
    pub ended: usize,
}

impl Newest {
    /// Counts the next run; whether it is one of the newest. One without entries is no run yet.
    fn wants(&mut self, most: Most, head: u64, settled: bool) -> bool {
        if head == 0 {
            return false;
        }
        let (count, most) = if settled { (&mut self.ended, most.ended) } else { (&mut self.open, most.open) };
        *count += 1;
        *count <= most
    }
}

/// A command that waits for the process that drives a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCommand {
    /// Its number; a later command has a higher one.
    pub id: u64,
    /// The body, as JSON.
    pub body: String,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The lease is not the newest one: another process owns the run now.
    Fenced {
        /// The run that another process owns now.
        run: RunId,
        /// The epoch of the newest lease.
        epoch: u64,
    },
    /// There is no such run.
    NoRun(RunId),
    /// There is a run of that name already.
    Exists(RunId),
    /// The command has a reply already.
    Answered(u64),
    /// The run never got such a command.
    NoCommand(u64),
    /// The entries do not follow the last one.
    Gap {
        /// The number that was due.
        due: u64,
        /// The number that came.
        came: u64,
    },
    /// Something is larger than its limit.
    TooLarge {
        /// The thing that is too large, as a word for people: an entry, a note.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The most bytes that it may have.
        most: usize,
    },
    /// The disk is full. Nothing was written; what was kept before can still be read.
    Full(String),
    /// The store may not be written.
    ReadOnly(String),
    /// A newer program has written this store: it is read and never written.
    Newer {
        /// The format number that the store has.
        found: u32,
        /// The newest format that this program writes.
        known: u32,
    },
    /// What is kept is not what was written.
    Corrupt(String),
    /// Something that was acknowledged is gone: it is read as it is, and not written before a person has
    /// accepted the loss.
    Lost(String),
    /// A program of an earlier version is working on the store, and would not keep to the newer format.
    InUse(String),
    /// The disk failed. After this nothing is acknowledged any more; only a new start helps.
    Failed(String),
}

impl StoreError {
    /// Whether only writing is refused: what is kept can be read meanwhile.
    pub fn leaves_reading(&self) -> bool {
        match self {
            StoreError::Full(_)
            | StoreError::ReadOnly(_)
            | StoreError::Newer { .. }
            | StoreError::Lost(_)
            | StoreError::InUse(_) => true,
            StoreError::Fenced { .. }
            | StoreError::NoRun(_)
            | StoreError::Exists(_)
            | StoreError::Answered(_)
            | StoreError::NoCommand(_)
            | StoreError::Gap { .. }
            | StoreError::TooLarge { .. }
            | StoreError::Corrupt(_)
            | StoreError::Failed(_) => false,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            StoreError::Fenced { .. } => "another ftl drives this run now; `ftl status` tells which",
            StoreError::NoRun(_) => "`ftl status` lists the runs",
            StoreError::Exists(_) => "try again",
            StoreError::Answered(_) => "`ftl log RUN` shows what was decided",
            StoreError::NoCommand(_) | StoreError::Gap { .. } => "run `ftl doctor --deep`",
            StoreError::TooLarge { .. } => "make it smaller",
            StoreError::Full(_) => {
                "make room on the disk, then run `ftl resume`; nothing that was acknowledged is lost"
            }
            StoreError::ReadOnly(_) => {
                "make .ftl/store writable, or work as its owner; reading works meanwhile"
            }
            StoreError::Newer { .. } => "update ftl; reading works meanwhile",
            StoreError::Corrupt(_) => "run `ftl doctor --deep`; nothing was changed",
            StoreError::Lost(_) => {
                "reading works meanwhile; `ftl doctor` says what is missing, what git still knows, and how to go on"
            }
            StoreError::InUse(_) => "let it end or stop it, then try again; reading works meanwhile",
            StoreError::Failed(_) => {
                "look at the disk, then run `ftl resume`; nothing that was acknowledged is lost"
            }
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Fenced { run, epoch } => {
                write!(out, "run {run} has another owner now (epoch {epoch})")
            }
            StoreError::NoRun(run) => write!(out, "there is no run {run}"),
            StoreError::Exists(run) => write!(out, "there is a run {run} already"),
            StoreError::Answered(command) => write!(out, "command {command} was answered already"),
            StoreError::NoCommand(command) => write!(out, "the run never got a command {command}"),
            StoreError::Gap { due, came } => write!(out, "entry {due} was due, entry {came} came"),
            StoreError::TooLarge { what, bytes, most } => {
                write!(out, "{what} has {bytes} bytes; {most} is the most")
            }
            StoreError::Full(what) => write!(out, "the disk is full: {what}"),
            StoreError::ReadOnly(what) => write!(out, "the store may not be written: {what}"),
            StoreError::Newer { found, known } => {
                write!(out, "the store has format {found}, this program writes format {known}")
            }
            StoreError::Corrupt(what) => write!(out, "the store is damaged: {what}"),
            StoreError::Lost(what) => write!(out, "the store has lost what it had acknowledged: {what}"),
            StoreError::InUse(what) => write!(out, "the store cannot be brought up to date now: {what}"),
            StoreError::Failed(what) => write!(out, "the store failed: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}
