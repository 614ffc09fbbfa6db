//! The new files of a transfer: written and synced in a folder of ours before anything is moved.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::entry::{MODE_EXECUTABLE, MODE_FILE};
use super::error::At as _;
use super::probe::below;
use super::runner::Input;
use super::transfer::{Expected, Slot};
use super::tree::Differing;
use super::{GitError, Oid, Repo};
use ftl_folder::NameIn;

/// The most new files that are synced one by one; more are synced with their whole file system.
const MAX_SYNCED_SINGLY: usize = 32;

/// The largest new file that is written here, and the most bytes of all of them: git writes what is larger.
const MAX_WRITTEN_BYTES: u64 = 1024 * 1024;

impl Repo {
    /// Writes the new files into a folder of ours, to the disk; the inode of each.
    pub(super) fn write_new(
        &self,
        files: &Path,
        changes: &[Differing],
        expected: &[Expected],
        index: &Path,
    ) -> Result<Vec<u64>, GitError> {
        let new = files.join("new");
        for folder in [new.clone()].into_iter().chain(Slot::ALL.map(|slot| files.join(slot.folder()))) {
            self.make_folder(&folder).at(&folder)?;
        }
        let is_new = |(change, one): &(&Differing, &Expected)| {
            change.after.is_there() && !matches!(one, Expected::After)
        };
        let wanted: Vec<&Differing> =
            changes.iter().zip(expected).filter(is_new).map(|(change, _)| change).collect();
        if !self.write_few(&new, &wanted)? {
            let paths: Vec<&[u8]> = wanted.iter().map(|change| &*change.path).collect();
            let call = self.inside(index, &new).words(["checkout-index", "-q", "-z", "--stdin"]);
            self.run(call.input(Input::Bytes(paths.join(&0))))?.ok()?;
            self.sync_files(&new, &paths)?;
        }
        let inode = |pair: (&Differing, &Expected)| {
            let file = below(&new, &pair.0.path);
            let found = |spot: NameIn| Ok(spot.metadata()?.ino());
            if is_new(&pair) { self.spot(&file).and_then(found).at(&file) } else { Ok(0) }
        };
        changes.iter().zip(expected).map(inode).collect()
    }

    /// Writes new files where they are few and small, for starting a git takes longer than that; whether they were.
    /// Nothing is converted: a checkout that converts files takes no delivery.
    fn write_few(&self, new: &Path, wanted: &[&Differing]) -> Result<bool, GitError> {
        let is_plain = |change: &&Differing| matches!(change.after.mode, MODE_FILE | MODE_EXECUTABLE);
        if wanted.len() > MAX_SYNCED_SINGLY || !wanted.iter().all(is_plain) {
            return Ok(false);
        }
        let blobs: Vec<&Oid> = wanted.iter().map(|change| &change.after.oid).collect();
        let found = self.contents(&blobs, MAX_WRITTEN_BYTES, MAX_WRITTEN_BYTES)?;
        let Some(contents) = found.into_iter().collect::<Option<Vec<_>>>() else { return Ok(false) };
        for (change, bytes) in wanted.iter().zip(contents) {
            self.runner.step("write file")?;
            let file = below(new, &change.path);
            let above = file.parent().unwrap_or(new);
            self.make_folder(above).at(above)?;
            let mode = if change.after.mode == MODE_EXECUTABLE { 0o777 } else { 0o666 };
            let mut open = self.spot(&file).and_then(|spot| spot.create(mode)).at(&file)?;
            open.write_all(&bytes).and_then(|()| open.sync_all()).at(&file)?;
        }
        Ok(true)
    }

    /// Puts new files on the disk.
    fn sync_files(&self, folder: &Path, paths: &[&[u8]]) -> Result<(), GitError> {
        if paths.len() > MAX_SYNCED_SINGLY {
            return self.folder(folder).and_then(|open| open.sync_disk()).at(folder);
        }
        for path in paths {
            let file = below(folder, path);
            let spot = self.spot(&file).at(&file)?;
            if spot.metadata().at(&file)?.is_file() {
                spot.open().and_then(|open| open.sync_all()).at(&file)?;
            }
        }
        Ok(())
    }
}
