//! What is written down beside the refs: runs, worktrees, landings, deliveries.
//!
//! Refs can be moved by everyone who can write to the repository, agents included. What the engine relies on
//! stands here, in files under `.ftl/store`, each replaced as a whole. A file that cannot be read is an
//! error and never a fresh start.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::At as _;
use super::{ErrorKind, GitError, IdempotencyKey, Repo, WorktreeId};
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::Beside;

/// The largest file that is read.
const MAX_LEDGER_BYTES: u64 = 16 * 1024 * 1024;

impl Repo {
    /// Where a run's own things are.
    pub(super) fn run_folder(&self, run: &RunId) -> PathBuf {
        self.private_dir.home().join("runs").join(run.as_str())
    }

    /// The record of a run.
    pub(super) fn run_file(&self, run: &RunId) -> PathBuf {
        self.run_folder(run).join("run.json")
    }

    /// The file with the outcome of a landing.
    pub(super) fn landed_file(&self, run: &RunId, key: &IdempotencyKey) -> PathBuf {
        self.run_folder(run).join("landed").join(format!("{key}.json"))
    }

    /// Where the records of landings of a run are.
    pub(super) fn landed_folder(&self, run: &RunId) -> PathBuf {
        self.run_folder(run).join("landed")
    }

    /// The file with the outcome of a delivery.
    pub(super) fn delivered_file(&self, run: &RunId) -> PathBuf {
        self.run_folder(run).join("delivered.json")
    }

    /// The record of a worktree.
    pub(super) fn worktree_file(&self, id: &WorktreeId) -> PathBuf {
        self.private_dir.home().join("worktrees").join(format!("{id}.json"))
    }

    /// Our own index of a worktree.
    pub(super) fn index_file(&self, id: &WorktreeId) -> PathBuf {
        self.private_dir.home().join("index").join(id.as_str())
    }

    /// Replaces a record as a whole, synced before it returns.
    pub(super) fn write<T: Serialize>(&self, file: &Path, what: &T) -> Result<(), GitError> {
        self.write_lightly(file, what)?;
        let above = file.parent().unwrap_or(Path::new("."));
        // The new name is in the folder, and the folder must be on the disk as well.
        folder::sync(above).at(above)
    }

    /// Replaces a record as a whole, where the one before would do as well: a power cut leaves one of the two, whole.
    pub(super) fn write_lightly<T: Serialize>(&self, file: &Path, what: &T) -> Result<(), GitError> {
        self.runner.step("write ledger")?;
        let above = file.parent().unwrap_or(Path::new("."));
        folder::make(above).at(above)?;
        let text = serde_json::to_vec(what).map_err(io::Error::other).at(file)?;
        let written = Beside::write(file, &text).at(file)?;
        // Getting it onto the disk may take long, and another process may own the run by now.
        self.runner.step("install ledger")?;
        written.install().at(file).map(drop)
    }

    /// Removes what was written down.
    pub(super) fn strike(&self, file: &Path) -> Result<(), GitError> {
        self.runner.step("strike ledger")?;
        match folder::remove(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at(file),
        }
    }
}

/// Reads what was written down; nothing, if nothing was.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, GitError> {
    let text = match folder::read(file, MAX_LEDGER_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let message = format!("`{}` is larger than {MAX_LEDGER_BYTES} bytes", file.display());
            return Err(GitError::new(ErrorKind::TooMuch, message));
        }
        text => text.at(file)?,
    };
    let read = serde_json::from_slice(&text);
    read.map(Some).map_err(|error| {
        let message = format!("`{}` cannot be read: {error}", file.display());
        GitError::new(ErrorKind::Machine, message).hint("bring the file back from a copy, or remove the run")
    })
}
