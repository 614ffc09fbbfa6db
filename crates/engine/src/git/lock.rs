//! Kernel locks of the git layer: one per repository for its list of worktrees and kept refs, one per run
//! for its branch. A lock is free the moment its holder is gone, and the git that worked under it with it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::error::At as _;
use super::{GitError, Repo, Trouble};
use crate::process::Cancel;

/// How long until a lock that somebody has is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// A lock that is ours until this is dropped.
pub(super) struct Held {
    file: File,
}

impl Held {
    /// What git is given to hold too.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Repo {
    /// Takes the lock of that name, waiting for whoever has it.
    pub(super) fn hold(&self, name: &str, cancel: &Cancel) -> Result<Held, GitError> {
        let path = self.chamber.home().join("locks").join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.at(&path)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Held { file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error)).at(&path),
            }
            if !cancel.pause(RETRY) {
                let message = "it was called off while it waited for its turn in the repository";
                return Err(GitError::new(Trouble::Cancelled, message));
            }
        }
    }

    /// Takes the lock of the repository, which nobody holds for long.
    pub(super) fn hold_repository(&self) -> Result<Held, GitError> {
        self.hold("repository", &Cancel::new())
    }
}
