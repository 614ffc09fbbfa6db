//! The kernel lock around every write transaction of every process.
//!
//! Whoever waits sleeps in the kernel, and a killed owner's lock is gone with it. A lock belongs to an
//! open file, not to a process: each writer opens its own. There are two files, so that a busy writer
//! cannot starve the others: to wait for `write.lock` one must hold `turn.lock`, so a writer that
//! comes back at once finds the next one already standing in front of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

/// The lock of one writer; it is not held yet.
#[derive(Debug)]
pub(super) struct WriteLock {
    turn: File,
    write: File,
}

/// The lock while it is held.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a File);

impl WriteLock {
    /// Opens the lock files of a store's folder, and makes them if they are missing.
    pub(super) fn open(folder: &Path) -> io::Result<WriteLock> {
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            options.open(folder.join(name))
        };
        Ok(WriteLock { turn: open("turn.lock")?, write: open("write.lock")? })
    }

    /// Waits until nobody else writes.
    pub(super) fn hold(&self) -> io::Result<Held<'_>> {
        retry_on_intr(|| flock(&self.turn, FlockOperation::LockExclusive))?;
        let held = retry_on_intr(|| flock(&self.write, FlockOperation::LockExclusive));
        retry_on_intr(|| flock(&self.turn, FlockOperation::Unlock))?;
        held?;
        Ok(Held(&self.write))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // A lock that cannot be given back goes when its file is closed.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}
