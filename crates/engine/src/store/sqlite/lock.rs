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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn is_taken(folder: &Path, name: &str) -> bool {
        let file = File::open(folder.join(name)).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
    }

    #[test]
    fn whoever_waits_comes_before_whoever_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let (busy, calm) = (WriteLock::open(folder.path()).unwrap(), WriteLock::open(folder.path()).unwrap());
        for _ in 0..20 {
            let had_it = AtomicBool::new(false);
            let held = busy.hold().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _held = calm.hold().unwrap();
                    had_it.store(true, Ordering::SeqCst);
                });
                while !is_taken(folder.path(), "turn.lock") {
                    thread::yield_now();
                }
                assert!(!had_it.load(Ordering::SeqCst), "one at a time");
                drop(held);
                let _held = busy.hold().unwrap();
                assert!(had_it.load(Ordering::SeqCst), "the busy one came back first");
            });
        }
    }

    #[test]
    fn a_lock_is_given_back_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let lock = WriteLock::open(folder.path()).unwrap();
        let held = lock.hold().unwrap();
        assert!(is_taken(folder.path(), "write.lock"));
        drop(held);
        assert!(!is_taken(folder.path(), "write.lock"));
        assert!(!is_taken(folder.path(), "turn.lock"));
    }
}
