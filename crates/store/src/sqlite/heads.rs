//! The heads: how far the store and each of its runs had come, in a small file beside the database.
//!
//! A head is written after the commit that it tells of is on the disk, under the same lock, and is not synced
//! itself. So after a kill or a power cut it can be behind the store and never ahead of it: a store that is behind its
//! head has lost something. Heads are synced when the log is brought into the database, when a run changes hands
//! and at the end. A head that is missing or cannot be read says nothing; it is made anew and that is noted.
//!
//! The file has a slot of 128 bytes for the store and one for each run, by its number. Each has a checksum over
//! itself and its place, and lies in one sector of the disk.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use ftl_folder::clock;
use ftl_folder::{self as folder, FolderRefusal, OpenMode};

/// The name of the file, beside the database.
pub(super) const HEADS: &str = "heads";

/// The length of a slot.
const SLOT: usize = 128;

/// Where the checksum of a slot stands, behind everything else.
const CHECKSUM_AT: usize = SLOT - 16;

/// The length of the name of a store.
const STORE_NAME: usize = 32;

/// The length of the name of a run.
const RUN_NAME: usize = ftl_folder::id::RUN_ID_LETTERS;

/// The longest file of heads that is read: half a million runs.
pub(super) const MAX_HEADS_BYTES: u64 = 64 * 1024 * 1024;

/// So many slots fit into it.
const MAX_SLOTS: u64 = MAX_HEADS_BYTES / SLOT as u64;

/// How often a slot that cannot be read is looked at again: another process may be writing it.
const MAX_LOOKS: usize = 5;

const STORE_MARK: &[u8; 8] = b"ftlhead1";
const RUN_MARK: &[u8; 8] = b"ftlrun-1";

/// How far a store had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreHead {
    /// The store's own name.
    pub(super) name: String,
    /// How many transactions it had seen.
    pub(super) serial: u64,
    /// The digest of its sums then.
    pub(super) sums: [u8; 32],
}

impl StoreHead {
    /// Whether anything is known of the store; every store has a name.
    pub(super) fn is_known(&self) -> bool {
        !self.name.is_empty()
    }
}

/// How far a run had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunHead {
    /// Its number in the table of runs.
    pub(super) number: i64,
    /// The name of the run.
    pub(super) name: String,
    /// The number of the last acknowledged entry of the run.
    pub(super) seq: u64,
    /// The hash of that.
    pub(super) hash: [u8; 32],
    /// The epoch of its newest lease.
    pub(super) epoch: u64,
}

/// The heads that the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heads {
    /// The store's head; nothing is known where it cannot be read.
    pub(super) store: StoreHead,
    /// The runs' heads that can be read, in the order of their numbers.
    pub(super) runs: Vec<RunHead>,
    /// How many slots cannot be read.
    pub(super) unreadable: usize,
}

/// What was found where the file should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is no such file.
    Missing,
    /// Something that is no head of a store.
    Unreadable,
    /// A file of heads that can be read, or parts of one.
    Heads(Heads),
}

/// The file while it is written. A writer holds the lock of the store.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
    /// Whether a thread of this process wrote since the last sync.
    is_dirty: Arc<AtomicBool>,
}

impl HeadFile {
    /// Opens the file, and makes it if it is missing. Anything but a file of one name in its place is renamed
    /// first. All who write it in this process share what is dirty.
    pub(super) fn open(folder: &Path, is_dirty: &Arc<AtomicBool>) -> io::Result<HeadFile> {
        let path = folder.join(HEADS);
        let opened = match folder::open(&path, OpenMode::Update) {
            Err(error) if FolderRefusal::of(&error).is_some() => {
                folder::rename(&path, &folder.join(format!("{HEADS}-{}", clock::wall())))?;
                folder::open(&path, OpenMode::Update)
            }
            opened => opened,
        };
        Ok(HeadFile { file: opened?, is_dirty: Arc::clone(is_dirty) })
    }

    /// Writes the heads that a transaction has moved. The store's comes last: it must not be ahead of the others.
    pub(super) fn write(&self, store: &StoreHead, runs: &[RunHead]) -> io::Result<()> {
        self.is_dirty.store(true, Ordering::Relaxed);
        for run in runs {
            // Beyond the longest file that is read a run has no head of its own; the store's covers it.
            if let Ok(index @ 1..MAX_SLOTS) = u64::try_from(run.number) {
                self.file.write_all_at(&run_slot(run, index), index * SLOT as u64)?;
            }
        }
        self.file.write_all_at(&store_slot(store), 0)
    }

    /// Writes all heads anew; the earlier content of the file is gone.
    pub(super) fn write_anew(&self, store: &StoreHead, runs: &[RunHead]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.write(store, runs)
    }

    /// Puts on the disk what was written since the last time.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.is_dirty.swap(false, Ordering::Relaxed) { self.file.sync_data() } else { Ok(()) }
    }
}

/// Reads the heads of a folder.
pub(super) fn read(folder: &Path) -> io::Result<Found> {
    let mut found = look(folder)?;
    for _ in 1..MAX_LOOKS {
        match &found {
            Found::Heads(heads) if heads.unreadable == 0 => break,
            Found::Missing => break,
            Found::Heads(_) | Found::Unreadable => found = look(folder)?,
        }
    }
    Ok(found)
}

/// Whether there is a file of heads in a folder, whatever it says.
pub(super) fn exist(folder: &Path) -> bool {
    ftl_folder::metadata(&folder.join(HEADS)).is_ok_and(|found| found.len() > 0)
}

fn look(folder: &Path) -> io::Result<Found> {
    match folder::read(&folder.join(HEADS), MAX_HEADS_BYTES) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Missing),
        // A link or a folder is no head, nor is what is too large for one.
        Err(error) if FolderRefusal::of(&error).is_some() => Ok(Found::Unreadable),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &[u8]) -> Found {
    if bytes.is_empty() {
        return Found::Missing;
    }
    let (slots, rest) = bytes.as_chunks::<SLOT>();
    let store = slots.first().and_then(store_of).unwrap_or_default();
    let unreadable = usize::from(!rest.is_empty()) + usize::from(!store.is_known());
    let mut heads = Heads { store, runs: Vec::new(), unreadable };
    for (index, slot) in (0_u64..).zip(slots).skip(1) {
        // A slot of zeros was never written: its run is no older than the last power cut.
        if slot.iter().all(|byte| *byte == 0) {
            continue;
        }
        match run_of(slot, index) {
            Some(run) => heads.runs.push(run),
            None => heads.unreadable += 1,
        }
    }
    // What the runs' heads say counts without the store's.
    if !heads.store.is_known() && heads.runs.is_empty() { Found::Unreadable } else { Found::Heads(heads) }
}

fn store_slot(head: &StoreHead) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..8].copy_from_slice(STORE_MARK);
    let name = head.name.as_bytes();
    let length = name.len().min(STORE_NAME);
    slot[8..8 + length].copy_from_slice(&name[..length]);
    slot[40..48].copy_from_slice(&head.serial.to_be_bytes());
    slot[48..80].copy_from_slice(&head.sums);
    close(slot, 0)
}

fn store_of(slot: &[u8; SLOT]) -> Option<StoreHead> {
    let slot = open_slot(slot, STORE_MARK, 0)?;
    let name = slot.get(8..8 + STORE_NAME)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(STORE_NAME);
    Some(StoreHead {
        name: String::from_utf8(name[..end].to_vec()).ok()?,
        serial: number(slot, 40)?,
        sums: slot.get(48..80)?.try_into().ok()?,
    })
}

fn run_slot(head: &RunHead, index: u64) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..8].copy_from_slice(RUN_MARK);
    let name = head.name.as_bytes();
    let length = name.len().min(RUN_NAME);
    slot[8..8 + length].copy_from_slice(&name[..length]);
    slot[16..24].copy_from_slice(&head.seq.to_be_bytes());
    slot[24..32].copy_from_slice(&head.epoch.to_be_bytes());
    slot[32..64].copy_from_slice(&head.hash);
    close(slot, index)
}

fn run_of(slot: &[u8; SLOT], index: u64) -> Option<RunHead> {
    let slot = open_slot(slot, RUN_MARK, index)?;
    Some(RunHead {
        number: i64::try_from(index).ok()?,
        name: String::from_utf8(slot.get(8..8 + RUN_NAME)?.to_vec()).ok()?,
        seq: number(slot, 16)?,
        epoch: number(slot, 24)?,
        hash: slot.get(32..64)?.try_into().ok()?,
    })
}

fn number(slot: &[u8; SLOT], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(slot.get(at..at + 8)?.try_into().ok()?))
}

fn close(mut slot: [u8; SLOT], index: u64) -> [u8; SLOT] {
    let sum = checksum(&slot, index);
    slot[CHECKSUM_AT..].copy_from_slice(&sum);
    slot
}

fn open_slot<'a>(slot: &'a [u8; SLOT], mark: &[u8; 8], index: u64) -> Option<&'a [u8; SLOT]> {
    (slot.starts_with(mark) && slot[CHECKSUM_AT..] == checksum(slot, index)).then_some(slot)
}

fn checksum(slot: &[u8; SLOT], index: u64) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(index.to_be_bytes());
    hash.update(&slot[..CHECKSUM_AT]);
    let whole: [u8; 32] = hash.finalize().into();
    let mut short = [0; 16];
    short.copy_from_slice(&whole[..16]);
    short
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn store(serial: u64) -> StoreHead {
        StoreHead { name: "0123456789abcdef0123456789abcdef".to_owned(), serial, sums: [7; 32] }
    }

    fn run(number: i64, seq: u64) -> RunHead {
        RunHead { number, name: "abcdefgh".to_owned(), seq, hash: [9; 32], epoch: 3 }
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_the_last_one_counts() {
        let folder = folder();
        assert_eq!(read(folder.path()).unwrap(), Found::Missing);
        let file = HeadFile::open(folder.path(), &Arc::default()).unwrap();
        file.write(&store(1), &[run(1, 5), run(40, 2)]).unwrap();
        file.write(&store(2), &[run(1, 6)]).unwrap();
        let runs = vec![run(1, 6), run(40, 2)];
        assert_eq!(
            read(folder.path()).unwrap(),
            Found::Heads(Heads { store: store(2), runs, unreadable: 0 })
        );
        file.write_anew(&store(3), &[]).unwrap();
        let anew = Heads { store: store(3), runs: Vec::new(), unreadable: 0 };
        assert_eq!(read(folder.path()).unwrap(), Found::Heads(anew));
    }

    #[test]
    fn any_flipped_bit_makes_its_slot_unreadable() {
        let folder = folder();
        let file = HeadFile::open(folder.path(), &Arc::default()).unwrap();
        file.write(&store(1), &[run(1, 5)]).unwrap();
        let sound = fs::read(folder.path().join(HEADS)).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            let Found::Heads(heads) = parse(&bytes) else { panic!("byte {at}") };
            let readable = (heads.store.is_known(), heads.runs.len());
            assert_eq!((heads.unreadable, readable), (1, if at < SLOT { (false, 1) } else { (true, 0) }));
        }
        assert_eq!(parse(&sound[..SLOT - 1]), Found::Unreadable);
    }

    #[test]
    fn a_slot_that_stands_elsewhere_is_no_head() {
        let folder = folder();
        let file = HeadFile::open(folder.path(), &Arc::default()).unwrap();
        file.write(&store(1), &[run(1, 5), run(2, 6)]).unwrap();
        let mut bytes = fs::read(folder.path().join(HEADS)).unwrap();
        bytes.copy_within(SLOT..2 * SLOT, 2 * SLOT);
        let Found::Heads(heads) = parse(&bytes) else { panic!() };
        assert_eq!((heads.runs, heads.unreadable), (vec![run(1, 5)], 1));
    }

    #[test]
    fn a_file_that_is_too_long_is_no_head() {
        let folder = folder();
        File::create(folder.path().join(HEADS)).unwrap().set_len(MAX_HEADS_BYTES + 1).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Found::Unreadable);
    }
}
