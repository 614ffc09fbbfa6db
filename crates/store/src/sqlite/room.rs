//! Room in the log ahead of its frames: zeros that the next transactions are written over.
//!
//! A sync of a file that has grown puts its new length on the disk as well, and so waits for two writes where one would
//! do. SQLite takes zeros for the end of the log, and so does our check for damage: no frame has a salt of zeros.
//! Room is only ever made behind everything that stands in the log, by the process that holds the store's lock, and nothing
//! depends on it: where there is none, the log grows as it always did. It is never synced for its own sake.

use std::cell::Cell;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::LOG;
use super::log::{FRAME_BYTES, HEADER};
use ftl_folder::{self as folder, OpenMode};

/// A log shorter than this gets no room: most commands write one or two transactions.
const MIN_FRAMES: u64 = 16;

/// How many frames of room are left when more is made: few transactions write more.
const SPARE_FRAMES: u64 = 16;

/// How many frames of room are made at least, and at most: as many as there are frames already.
const MIN_ROOM: u64 = 32;
const MAX_ROOM: u64 = 256;

/// On a disk with less than this left no room is made: other programs may need it more.
const MIN_FREE_BYTES: u64 = 64 * 1024 * 1024;

/// How far there is room in the log, as far as one connection knows.
#[derive(Debug, Default)]
pub(super) struct Room {
    frames: Cell<u64>,
}

impl Room {
    /// Makes room behind so many frames, if there is little left. The caller holds the store's lock.
    pub(super) fn make(&self, folder: &Path, frames: u64) {
        if frames < MIN_FRAMES || frames + SPARE_FRAMES <= self.frames.get() {
            return;
        }
        let wanted = frames + frames.clamp(MIN_ROOM, MAX_ROOM);
        // What hinders it is said when something is to be written; until then it is not tried again.
        let _ = extend(folder, length(frames), length(wanted));
        self.frames.set(wanted);
    }
}

fn length(frames: u64) -> u64 {
    HEADER as u64 + frames * FRAME_BYTES
}

/// Writes zeros from the end of a log up to a length. A log that is shorter than its frames is not touched.
fn extend(folder: &Path, written: u64, wanted: u64) -> io::Result<()> {
    let path = folder.join(LOG);
    // It is never made here.
    folder::metadata(&path)?;
    let log = folder::open(&path, OpenMode::Update)?;
    let end = log.metadata()?.len();
    let disk = rustix::fs::fstatvfs(&log)?;
    let has_little_left = disk.f_bavail.saturating_mul(disk.f_frsize) < MIN_FREE_BYTES;
    if end < written || end >= wanted || has_little_left {
        return Ok(());
    }
    let zeros = vec![0; usize::try_from(wanted - end).map_err(io::Error::other)?];
    log.write_all_at(&zeros, end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn room_stands_behind_what_was_written_and_is_made_rarely() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG);
        let room = Room::default();
        room.make(folder.path(), 100);
        assert!(!path.exists(), "a log is never made");
        fs::write(&path, vec![7; usize::try_from(length(40)).unwrap()]).unwrap();
        let room = Room::default();
        room.make(folder.path(), MIN_FRAMES - 1);
        assert_eq!(fs::metadata(&path).unwrap().len(), length(40), "a short log gets none");
        room.make(folder.path(), 41);
        assert_eq!(fs::metadata(&path).unwrap().len(), length(40), "a log that is too short is left");
        let room = Room::default();
        room.make(folder.path(), 40);
        let log = fs::read(&path).unwrap();
        let (frames, rest) = log.split_at(usize::try_from(length(40)).unwrap());
        assert!(frames.iter().all(|byte| *byte == 7) && rest.iter().all(|byte| *byte == 0));
        assert_eq!(log.len() as u64, length(80));
        room.make(folder.path(), 80 - SPARE_FRAMES);
        assert_eq!(fs::metadata(&path).unwrap().len(), length(80), "there is enough");
        room.make(folder.path(), 80 - SPARE_FRAMES + 1);
        assert!(fs::metadata(&path).unwrap().len() > length(80));
    }
}
