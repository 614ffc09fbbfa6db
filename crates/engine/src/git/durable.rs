//! What was done survives a power cut before anybody hears of it.
//!
//! A commit that git has reported is not on the disk yet, even with every setting of git that asks for
//! it: names of new files and folders are not synced. Syncing each file and folder would need to know
//! each that git wrote; it does not tell. So the file systems that hold the repository and our ledger
//! are synced, each in one call, and a failure of that is never tried again.

use std::fs::File;
use std::path::Path;

use rustix::fs::syncfs;

use super::error::At as _;
use super::{GitError, Identity, Repo};

impl Repo {
    /// Puts objects, refs and files on the disk for good.
    pub(super) fn make_durable(&self, also: Option<&Path>) -> Result<(), GitError> {
        self.runner.step("sync")?;
        let mut done: Vec<u64> = Vec::new();
        for folder in [Some(self.common.as_path()), Some(self.chamber.home()), also].into_iter().flatten() {
            let device = Identity::of(folder).at(folder)?.device;
            if !done.contains(&device) {
                sync(folder)?;
                done.push(device);
            }
        }
        Ok(())
    }
}

fn sync(folder: &Path) -> Result<(), GitError> {
    let open = File::open(folder).at(folder)?;
    syncfs(&open).map_err(std::io::Error::from).at(folder)
}
