//! The kernel lock around every write transaction of every process.
//!
//! A killed owner's lock is gone with it. A lock belongs to an open file, not to a process: each writer opens
//! its own. There are two files, so that a busy writer cannot starve the others: to wait for `write.lock` one
//! must hold `turn.lock`, so a writer that comes back at once finds the next one already standing in front of
//! it. A process that holds one signs it: who waits says for whom, ends a holder that was stopped for good, and gives
//! up in the end. Threads of one process queue at gates first.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ftl_folder::{self as folder, OpenMode};
use ftl_process::holder::{self, LockWait, Locked, Locking};
use ftl_process::lock_gate::{GatePass, LockGate};

/// How long one and the same process may keep the others from writing.
pub(super) const MAX_WRITE_WAIT: Duration = Duration::from_secs(60);

const TURN: &str = "turn.lock";
const WRITE: &str = "write.lock";

/// The lock of one writer; it is not held yet.
#[derive(Debug)]
pub(super) struct WriteLock {
    folder: PathBuf,
    turn: (Arc<LockGate>, File),
    write: (Arc<LockGate>, File),
}

/// A lock while it is held.
#[derive(Debug)]
pub(super) struct Held<'a> {
    file: &'a File,
    /// A file of its own that was waited with, and keeps the lock until it is closed.
    _waited: Option<Locked>,
    /// Dropped after the lock: fields are dropped in their order.
    _inside: GatePass,
}

impl WriteLock {
    /// Opens the lock of a store's folder, and makes it if it is missing.
    pub(super) fn open(folder: &Path) -> io::Result<WriteLock> {
        // What root writes, its owner cannot write any more.
        let (owner, us) = (folder::metadata(folder)?.uid(), rustix::process::geteuid());
        if us.is_root() && owner != us.as_raw() {
            let message =
                format!("it belongs to another user (number {owner}): say `sudo -u '#{owner}' ftl …`");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let open = |name: &str| -> io::Result<(Arc<LockGate>, File)> {
            let path = folder.join(name);
            Ok((LockGate::of(&path), folder::open(&path, OpenMode::Update)?))
        };
        Ok(WriteLock { folder: folder.to_owned(), turn: open(TURN)?, write: open(WRITE)? })
    }

    /// Waits until no other process or thread writes.
    pub(super) fn hold(&self) -> io::Result<Held<'_>> {
        self.hold_within(MAX_WRITE_WAIT)
    }

    /// Takes the lock if no other thread or process has it or waits for it.
    pub(super) fn try_hold(&self) -> io::Result<Option<Held<'_>>> {
        let Some(_turn) = try_one(&self.turn)? else { return Ok(None) };
        try_one(&self.write)
    }

    fn hold_within(&self, limit: Duration) -> io::Result<Held<'_>> {
        let _turn = self.take_turn(limit)?;
        let (gate, file) = &self.write;
        let inside = gate.enter(limit).ok_or_else(|| self.still_held())?;
        if !holder::try_lock(file)? {
            // The second descriptor is of the same open file, so that the lock stays when it is closed.
            holder::lock(file.try_clone()?, Locking::Unsigned, || self.wait(limit))?;
            holder::sign(file);
        }
        Ok(Held { file, _waited: None, _inside: inside })
    }

    /// Takes the place behind the writer. A lock belongs to an open file, and a process that gives up leaves its own to
    /// the kernel for a while: so each wait has one.
    fn take_turn(&self, limit: Duration) -> io::Result<Held<'_>> {
        let (gate, file) = &self.turn;
        let inside = gate.enter(limit).ok_or_else(|| self.still_held())?;
        let waited = match holder::try_lock(file)? {
            true => None,
            false => {
                let own = folder::open(&self.folder.join(TURN), OpenMode::Update)?;
                Some(holder::lock(own, Locking::Alone, || self.wait(limit))?)
            }
        };
        Ok(Held { file, _waited: waited, _inside: inside })
    }

    fn wait(&self, limit: Duration) -> LockWait {
        let files = [WRITE, TURN].map(|name| self.folder.join(name));
        LockWait::new("the store's write lock", files.to_vec(), limit)
    }

    /// Another thread of this process did not give it back in time.
    fn still_held(&self) -> io::Error {
        match self.wait(Duration::ZERO).look() {
            Err(held) => io::Error::new(io::ErrorKind::TimedOut, held),
            Ok(()) => io::ErrorKind::TimedOut.into(),
        }
    }
}

/// One of the two locks, if it is free.
fn try_one((gate, file): &(Arc<LockGate>, File)) -> io::Result<Option<Held<'_>>> {
    let Some(inside) = gate.enter(Duration::ZERO) else { return Ok(None) };
    Ok(holder::try_lock(file)?.then_some(Held { file, _waited: None, _inside: inside }))
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // A lock that cannot be given back goes when its file is closed.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn is_taken(folder: &Path, name: &str) -> bool {
        let file = File::open(folder.join(name)).unwrap();
        !folder::lock::try_lock(&file).unwrap()
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
    fn a_lock_that_somebody_keeps_is_not_waited_for_without_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let (keeps, waits) =
            (WriteLock::open(folder.path()).unwrap(), WriteLock::open(folder.path()).unwrap());
        let _held = keeps.hold().unwrap();
        let error = waits.hold_within(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let told = format!("the store's write lock is held by process {}", std::process::id());
        assert!(error.to_string().starts_with(&told), "{error}");
        assert!(!is_taken(folder.path(), "turn.lock"), "whoever gives up is in nobody's way");
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
