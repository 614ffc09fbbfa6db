//! Git's own lock on the person's index: taken for as long as a delivery moves files, and known for ours when
//! a crash has left it. The lock of another program is never removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::At as _;
use super::{GitError, Identity, Repo};
use ftl_folder::{self as folder, OpenMode};

/// How often the lock on the index is tried; a `git status` has it for a moment.
const LOCK_TRIES: usize = 40;

/// How long between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Why nothing was moved where another program has the lock.
pub(super) const LOCKED: &str = "another git command is working in the checkout (`index.lock` is there)";

/// Git's lock on the person's index, made so that one of ours that was left by a crash is known.
pub(super) struct IndexLock {
    lock: PathBuf,
    own: PathBuf,
    file: fs::File,
    /// Whether one of ours was there already: the checkout may be half way.
    pub(super) was_left: bool,
}

impl IndexLock {
    /// Takes the lock; nothing where another program has it and keeps it.
    pub(super) fn take(repo: &Repo) -> Result<Option<IndexLock>, GitError> {
        repo.runner.step("lock the index")?;
        let (lock, own) = (repo.own.join("index.lock"), repo.own.join("ftl-index.lock"));
        let mut was_left = false;
        if let Ok(left) = Identity::of(&own) {
            was_left = Identity::of(&lock).is_ok_and(|found| found == left);
            if was_left {
                folder::remove(&lock).at(&lock)?;
            }
            folder::remove(&own).at(&own)?;
        }
        let file = folder::open_as(&own, OpenMode::New, 0o666).at(&own)?;
        let (from, to) = (repo.spot(&own).at(&own)?, repo.spot(&lock).at(&lock)?);
        for _ in 0..LOCK_TRIES {
            match from.link(&to) {
                Ok(()) => return Ok(Some(IndexLock { lock, own, file, was_left })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error).at(&lock),
            }
        }
        folder::remove(&own).at(&own)?;
        Ok(None)
    }

    /// Puts an index in the place of the person's; the lock is gone with that.
    pub(super) fn install(&self, repo: &Repo, index: &Path) -> Result<(), GitError> {
        repo.runner.step("install the index")?;
        let theirs = repo.own.join("index");
        let mode = fs::metadata(&theirs).at(&theirs)?.permissions();
        self.fill(index, mode).at(&self.lock)?;
        folder::rename(&self.lock, &theirs).at(&theirs)?;
        repo.runner.step("index installed")?;
        folder::remove(&self.own).at(&self.own)
    }

    /// Gives the lock back; the index stays as it was.
    pub(super) fn release(&self, repo: &Repo) -> Result<(), GitError> {
        repo.runner.step("unlock the index")?;
        folder::remove(&self.lock).at(&self.lock)?;
        folder::remove(&self.own).at(&self.own)
    }

    /// Writes an index into the lock: into the file that was made for it, whatever has its name by now.
    fn fill(&self, index: &Path, mode: fs::Permissions) -> io::Result<()> {
        let mut new = &self.file;
        new.set_len(0)?;
        io::copy(&mut folder::open(index, OpenMode::Read)?, &mut new)?;
        new.set_permissions(mode)?;
        new.sync_all()
    }
}
