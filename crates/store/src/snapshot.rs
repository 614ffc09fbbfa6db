//! Boards out of the store: from the last snapshot of a run, and the entries that came after it.
//!
//! A driver keeps a snapshot every few thousand entries. It is a cache and never the truth: it names the entry that it
//! is of by number and hash, and where the journal has another entry there, or the bytes are not what was written, the
//! board is made of the whole journal. What is read after it is checked against the chain that it stands on; what is
//! before it, `verify_chain` checks.

use std::sync::Arc;

use ftl_core::program::Programs;
use ftl_folder::id::RunId;
/// A snapshot is of a board, so the code that loads one gets the type from here.
pub use ftl_view::board::Board;
use sha2::{Digest as _, Sha256};

use crate::journal::{JournalError, decode};
use crate::{Hash, Store, StoreError};

/// After how many entries the next snapshot is made, at least.
pub const MIN_ENTRIES: u64 = 4_096;

/// How many bytes of a snapshot an entry pays for: the next one is made when what came since has paid for it, so that a
/// run of a hundred thousand tasks writes no more for each of its entries than one of a hundred.
pub const BYTES_FOR_EACH: u64 = 512;

/// How many entries a command that only shows a run reads before it keeps a snapshot for the next one.
pub const MAX_READ_AGAIN: u64 = 50_000;

/// How large a snapshot may be.
pub const MAX_SNAPSHOT_BYTES: usize = 512 * 1024 * 1024;

/// How many entries are read at a time.
const PAGE: usize = 1_000;

/// What the file of a snapshot begins with.
const MAGIC: &[u8] = b"ftl snapshot file 1\n";

/// The bytes of a board, and which entry of its journal they are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the entry.
    pub seq: u64,
    /// The hash of that entry and of all before it.
    pub hash: Hash,
    /// The board, packed.
    pub bytes: Vec<u8>,
}

impl Snapshot {
    /// The snapshot as a file.
    pub(crate) fn to_file(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(MAGIC.len() + 72 + self.bytes.len());
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&self.seq.to_be_bytes());
        file.extend_from_slice(&self.hash.0);
        file.extend_from_slice(&Sha256::digest(&self.bytes));
        file.extend_from_slice(&self.bytes);
        file
    }

    /// The snapshot of a file; nothing where it is not what was written.
    pub(crate) fn of_file(file: &[u8]) -> Option<Snapshot> {
        let rest = file.strip_prefix(MAGIC)?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        let (sum, bytes) = rest.split_first_chunk::<32>()?;
        let is_whole = Sha256::digest(bytes).as_slice() == sum;
        is_whole.then(|| Snapshot {
            seq: u64::from_be_bytes(*seq),
            hash: Hash(*hash),
            bytes: bytes.to_owned(),
        })
    }
}

/// A board as its journal has made it.
pub struct LoadedBoard {
    /// The board after the last entry of the journal.
    pub board: Board,
    /// When the next snapshot is due.
    pub pace: Pace,
}

/// When the next snapshot is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How many entries came since the last one.
    since: u64,
    /// How large that was.
    bytes: u64,
}

impl Pace {
    /// Counts entries; whether they have paid for the next snapshot.
    pub fn count(&mut self, entries: usize) -> bool {
        self.since += entries as u64;
        self.since >= MIN_ENTRIES && self.since.saturating_mul(BYTES_FOR_EACH) >= self.bytes
    }

    /// Whether so many came since the last one.
    pub fn has(&self, entries: u64) -> bool {
        self.since >= entries
    }

    /// A snapshot was made, or cannot be: the next one is due after as many entries as that one would have taken.
    pub fn made(&mut self, bytes: usize) {
        *self = Pace { since: 0, bytes: bytes as u64 };
    }
}

/// The board of a run as its journal has made it, and only if what was read of its chain is whole.
pub fn load(
    store: &dyn Store,
    run: &RunId,
    programs: Arc<dyn Programs>,
) -> Result<LoadedBoard, JournalError> {
    let found = restored(store, run, &programs)?;
    let (mut board, mut seq, mut hash, bytes) =
        found.unwrap_or_else(|| (Board::new(programs), 0, Hash::start(run), 0));
    let mut pace = Pace { since: 0, bytes };
    loop {
        let page = store.entries(run, seq, PAGE)?;
        for record in &page {
            seq += 1;
            hash = hash.then(record.seq, record.epoch, &record.body);
            if record.seq != seq || record.hash != hash {
                let what = format!("the chain of run {run} breaks at entry {seq}");
                return Err(JournalError::Store(StoreError::Corrupt(what)));
            }
            board.see(&decode(store, run, record)?);
        }
        pace.count(page.len());
        if page.len() < PAGE {
            break;
        }
    }
    if pace.has(MAX_READ_AGAIN) && store.writable().is_ok() {
        keep(store, run, (&board, hash), &mut pace);
    }
    Ok(LoadedBoard { board, pace })
}

/// Keeps a snapshot of a board whose last entry has that hash. Nothing depends on it: where it cannot be kept there is
/// none.
pub fn keep(store: &dyn Store, run: &RunId, (board, hash): (&Board, Hash), pace: &mut Pace) {
    let seq = board.machine().next_seq() - 1;
    let bytes = board.snapshot().filter(|bytes| bytes.len() <= MAX_SNAPSHOT_BYTES);
    pace.made(bytes.as_ref().map_or(usize::MAX >> 1, Vec::len));
    if let Some(bytes) = bytes {
        store.keep_snapshot(run, &Snapshot { seq, hash, bytes });
    }
}

/// The board of the last snapshot, if the journal has its entry; with the number and the hash of that, and its size.
fn restored(
    store: &dyn Store,
    run: &RunId,
    programs: &Arc<dyn Programs>,
) -> Result<Option<(Board, u64, Hash, u64)>, JournalError> {
    let Some(Snapshot { seq, hash, bytes }) = store.snapshot(run) else { return Ok(None) };
    let Some(before) = seq.checked_sub(1) else { return Ok(None) };
    let found = store.entries(run, before, 1)?;
    if found.first().is_none_or(|record| record.seq != seq || record.hash != hash) {
        return Ok(None);
    }
    let board = Board::restored(&bytes, programs.clone());
    let board = board.filter(|board| board.machine().next_seq() == seq + 1);
    Ok(board.map(|board| (board, seq, hash, bytes.len() as u64)))
}
