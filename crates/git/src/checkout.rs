//! Lays files into a folder: the difference between two trees, written so that doing it again after a
//! crash, wherever that was, comes to the same. The caller has looked first that nothing is in
//! the way that exists only there.

use std::path::Path;

use super::error::At as _;
use super::probe::{Seen, below, look, path};
use super::runner::Input;
use super::tree::{Differing, unlock};
use super::worktree::remove_whole;
use super::{GitError, Oid, Repo};
use ftl_folder::{FolderRefusal, NameIn};

impl Repo {
    /// Makes an index hold a tree, knowing nothing about files.
    pub(super) fn read_tree(&self, index: &Path, tree: &Oid) -> Result<(), GitError> {
        unlock(index)?;
        let call = self.about_objects().var("GIT_INDEX_FILE", index);
        self.run(call.words(["read-tree", tree.as_str()]))?.ok().map(drop)
    }

    /// Fills an empty folder with a tree, and an index with what is known about the files.
    pub(super) fn lay_all(&self, index: &Path, folder: &Path, tree: &Oid) -> Result<(), GitError> {
        unlock(index)?;
        // What an earlier try knew about files is not believed.
        remove_whole(index)?;
        let call = self.inside(index, folder).words(["read-tree", "--reset", "-u", tree.as_str()]);
        self.run(call)?.ok().map(drop)
    }

    /// Enters a difference into an index, knowing nothing about files.
    pub(super) fn enter(&self, index: &Path, folder: &Path, changes: &[Differing]) -> Result<(), GitError> {
        unlock(index)?;
        let input = Input::Written(Box::new(|to| {
            // What goes first makes room for what comes: a file may become a folder.
            let (gone, there): (Vec<_>, Vec<_>) = changes.iter().partition(|change| !change.after.is_there());
            gone.iter().chain(&there).try_for_each(|change| {
                write!(to, "{:06o} {}\t", change.after.mode, change.after.oid)?;
                to.write_all(&change.path)?;
                to.write_all(&[0])
            })
        }));
        let call = self.inside(index, folder).words(["update-index", "-z", "--index-info"]);
        self.run(call.input(input))?.ok().map(drop)
    }

    /// Lays a difference into a folder and into an index.
    pub(super) fn lay(&self, index: &Path, folder: &Path, changes: &[Differing]) -> Result<(), GitError> {
        if changes.is_empty() {
            return Ok(());
        }
        unlock(index)?;
        self.runner.step("remove files")?;
        for gone in changes.iter().filter(|change| !change.after.is_there()) {
            remove(folder, &gone.path)?;
        }
        self.enter(index, folder, changes)?;
        let there: Vec<&[u8]> =
            changes.iter().filter(|change| change.after.is_there()).map(|change| &*change.path).collect();
        if there.is_empty() {
            return Ok(());
        }
        let call = self.inside(index, folder).words(["checkout-index", "-f", "-u", "-q", "-z", "--stdin"]);
        self.run(call.input(Input::Bytes(there.join(&0))))?.ok().map(drop)
    }
}

/// Removes a file and the folders that it leaves empty. A link on the way is not followed: a file behind
/// it is none of ours.
fn remove(folder: &Path, path: &[u8]) -> Result<(), GitError> {
    let file = below(folder, path);
    match look(folder, path).at(&file)? {
        Seen::Nothing { .. } | Seen::Folder => return Ok(()),
        Seen::File(_) | Seen::Link | Seen::Special => {
            match NameIn::below(folder, self::path(path)).and_then(|spot| spot.remove()) {
                // A link stands on the way by now.
                Err(error) if FolderRefusal::is_in_the_way(&error) => return Ok(()),
                removed => removed.at(&file)?,
            }
        }
    }
    let above = self::path(path).ancestors().skip(1);
    for above in above.take_while(|above| !above.as_os_str().is_empty()) {
        if NameIn::below(folder, above).and_then(|spot| spot.remove_folder()).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_behind_a_link_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("tree/real/deep")).unwrap();
        fs::create_dir(at("outside")).unwrap();
        fs::write(at("outside/file"), "precious").unwrap();
        fs::write(at("tree/real/deep/file"), "goes").unwrap();
        std::os::unix::fs::symlink(at("outside"), at("tree/link")).unwrap();
        for path in ["link/file", "real/deep/file", "real/deep/file", "none/file"] {
            remove(&at("tree"), path.as_bytes()).unwrap();
        }
        assert!(at("outside/file").exists() && at("tree/link").is_symlink());
        assert!(!at("tree/real").exists(), "folders that are empty go too");
    }
}
