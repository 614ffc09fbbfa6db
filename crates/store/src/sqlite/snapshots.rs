//! Snapshots of runs in files beside the database. They are not synced: one that a power cut has spoilt is not what was
//! written, and is no snapshot.

use std::path::PathBuf;

use super::SqliteStore;
use crate::snapshot::{MAX_SNAPSHOT_BYTES, Snapshot};
use ftl_folder as folder;
use ftl_folder::id::RunId;

/// The folder of snapshots, a file for each run.
const FOLDER: &str = "snapshots";

impl SqliteStore {
    fn snapshot_file(&self, run: &RunId) -> PathBuf {
        self.shared.folder.join(FOLDER).join(run.as_str())
    }

    pub(super) fn read_snapshot(&self, run: &RunId) -> Option<Snapshot> {
        let file = folder::read(&self.snapshot_file(run), MAX_SNAPSHOT_BYTES as u64 + 1024).ok()?;
        Snapshot::of_file(&file)
    }

    /// Puts a snapshot in the place of the one before, whole or not at all.
    pub(super) fn write_snapshot(&self, run: &RunId, snapshot: &Snapshot) {
        let file = self.snapshot_file(run);
        let unfinished = file.with_extension("new");
        let written = folder::make(&self.shared.folder.join(FOLDER))
            .and_then(|()| folder::write(&unfinished, &snapshot.to_file()))
            .and_then(|()| folder::rename(&unfinished, &file));
        if written.is_err() {
            // A reader makes do without.
            let _ = folder::remove(&unfinished);
        }
    }
}
