//! What the kernel says about a store, whatever stands at the paths of its locks: what is mounted over it, and
//! whether a process has it open that cannot be seen from here.
//!
//! An agent may move the files of locks, or mount something over them. It cannot take a lock away that a living
//! process holds on the database. Nothing here decides what follows, and nothing is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use ftl_folder::{self as folder, OpenMode};

/// The bytes of a database that every connection in WAL mode holds a shared lock on, for as long as it is open.
const SHARED_FIRST: u64 = 0x4000_0002;
const SHARED_SIZE: u64 = 510;

/// Databases that were looked at. They stay open: closing one would give up the locks that this process has on the
/// same file through its own connections.
static OPENED: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Whether parts of a folder lie on another mount than the folder itself. A part that is not there does not.
pub fn is_covered(folder: &Path, parts: &[PathBuf]) -> io::Result<bool> {
    let Some(own) = mount_of(folder)? else { return Ok(false) };
    for part in parts {
        if mount_of(part)?.is_some_and(|mount| mount != own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Which mount a path lies on, and which device; nothing where it is not there. An older kernel tells the device
/// alone.
fn mount_of(path: &Path) -> io::Result<Option<(u64, u32, u32)>> {
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID) {
        Ok(found) => Ok(Some((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a process that has no number in our pid namespace has a database open. Of several only the one that
/// opened it first is told.
pub fn is_open_unseen(database: &Path) -> io::Result<bool> {
    let mut opened =
        OPENED.lock().map_err(|_| io::Error::other("a thread that looked at a database died"))?;
    if !opened.contains_key(database) {
        match folder::open(database, OpenMode::Read) {
            Ok(file) => drop(opened.insert(database.to_owned(), file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    let Some(file) = opened.get(database) else { return Ok(false) };
    let mut wanted = Flock::from(FlockType::WriteLock);
    (wanted.start, wanted.length) = (SHARED_FIRST, SHARED_SIZE);
    Ok(fcntl_getlk(file, &wanted)?.is_some_and(|held| held.pid.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_on_another_mount_is_covered() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part");
        std::fs::create_dir(&part).unwrap();
        let missing = folder.path().join("missing");
        assert!(!is_covered(folder.path(), &[part.clone(), missing.clone()]).unwrap());
        assert!(is_covered(folder.path(), &[part, PathBuf::from("/proc")]).unwrap());
        assert!(!is_covered(&missing, &[PathBuf::from("/proc")]).unwrap(), "there is no store");
    }

    #[test]
    fn a_database_that_nobody_has_open_is_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("ftl.db");
        assert!(!is_open_unseen(&database).unwrap());
        std::fs::write(&database, "x").unwrap();
        assert!(!is_open_unseen(&database).unwrap());
    }
}
