//! Kernel locks of the git layer: one per repository for its list of worktrees and kept refs, one per run
//! for its branch. A lock is free the moment its holder is gone, and the git that worked under it with it.
//!
//! A process that waits names its run, and a holder that was stopped for good is ended. Before each step in git the
//! fence of the run is looked at: a driver that slept through its own replacement makes nothing any more.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::At as _;
use super::{ErrorKind, GitError, Repo, StepHook};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_folder::{self as folder, OpenMode};
use ftl_process::holder::{self, Holder, LockWait};
use ftl_process::table::Identity;
use ftl_process::{Cancel, Fence};

/// How long one and the same process may keep a lock of ours: longer than a command of git may take.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(15 * 60);

/// How long until a lock that another thread or process has is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// How long a child may take from its start to its own program.
const MAX_SPAWN: Duration = Duration::from_secs(2);

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
    /// Takes the lock of that name, waiting for its holder.
    pub(super) fn hold(&self, name: &str, cancel: &Cancel) -> Result<Held, GitError> {
        take(&self.private_dir.home().join("locks").join(name), cancel)
    }

    /// Takes the lock of that name unless another process has it. A child that this process is just starting holds
    /// every lock of its parent for an instant; that is waited for, no longer than [`MAX_SPAWN`].
    pub(super) fn hold_unless_busy(&self, name: &str) -> Result<Option<Held>, GitError> {
        let path = self.private_dir.home().join("locks").join(name);
        let file = folder::open(&path, OpenMode::Update).at(&path)?;
        let began = Instant::now();
        while !holder::try_lock(&file).at(&path)? {
            let is_anothers = Holder::of(&path).is_some_and(|holder| Some(holder.who) != Identity::own());
            if is_anothers || began.elapsed() >= MAX_SPAWN {
                return Ok(None);
            }
            std::thread::sleep(RETRY);
        }
        Ok(Some(Held { file }))
    }

    /// Takes the lock of the repository, which no thread or process holds for long.
    pub(super) fn hold_repository(&self) -> Result<Held, GitError> {
        self.hold("repository", &Cancel::new())
    }

    /// The same, for a driver that loses its run when the fence is raised above it: it takes no further step then.
    #[must_use]
    pub fn fenced(self, fence: Fence) -> Repo {
        self.watched(Arc::new(Fenced(fence)))
    }
}

/// Waits until no process works in git for a run under an older lease: what was begun before the fence was raised
/// is done then, and a holder that was stopped in the middle of it is ended.
pub fn await_turn(place: &StateFolder, run: &RunId) -> Result<(), GitError> {
    let locks = place.store().join("git").join("locks");
    for path in [locks.join(run.as_str()), locks.join("repository")] {
        if folder::is_file(&path) {
            take(&path, &Cancel::new())?;
        }
    }
    Ok(())
}

/// Looks at a fence before each step.
struct Fenced(Fence);

impl StepHook for Fenced {
    fn step(&self, what: &str) -> Result<(), GitError> {
        if !self.0.is_passed().at(&self.0.file)? {
            return Ok(());
        }
        let message = format!("another ftl drives this run now: nothing was done ({what})");
        Err(GitError::new(ErrorKind::Cancelled, message))
    }
}

/// Takes the lock of a file.
fn take(path: &Path, cancel: &Cancel) -> Result<Held, GitError> {
    let mut wait =
        LockWait::new(format!("the lock `{}`", path.display()), vec![path.to_owned()], MAX_LOCK_WAIT);
    let file = folder::open(path, OpenMode::Update).at(path)?;
    loop {
        if holder::try_lock(&file).at(path)? {
            return Ok(Held { file });
        }
        wait.look().map_err(|held| GitError::new(ErrorKind::TimedOut, held.to_string()))?;
        if !cancel.pause(RETRY) {
            let message = "it was called off while it waited for its turn in the repository";
            return Err(GitError::new(ErrorKind::Cancelled, message));
        }
    }
}
