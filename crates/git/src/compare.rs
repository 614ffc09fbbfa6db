//! What differs between two commits or trees, as people read it: a patch, and how many lines of which files.
//!
//! Nothing that a repository names is started: no external diff, no textconv, no pager. A worktree in which an agent
//! works is looked at through an index of our own, so that the worktree's own index does not change.

use super::error::unreadable;
use super::patch::MAX_MADE_BYTES;
use super::probe::zeroed;
use super::{GitError, Oid, Repo, WorktreeId, ledger, worktree::WorktreeRecord};

/// Words of every comparison.
const COMPARED: [&str; 6] =
    ["diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color"];

/// How many lines of a file differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLines {
    /// The path; a name that is no UTF-8 is shown with replacement characters.
    pub path: String,
    /// The path that it had before, where it was renamed.
    pub was: Option<String>,
    /// The lines that were added and removed; nothing where it is no text.
    pub lines: Option<(u64, u64)>,
}

impl Repo {
    /// The work in a worktree that is open, as it stands: the commit that it began from, and the tree; nothing where
    /// no such worktree stands.
    pub fn work_in(&self, id: &WorktreeId) -> Result<Option<(Oid, Oid)>, GitError> {
        let Some(record) = ledger::read::<WorktreeRecord>(&self.worktree_file(id))? else { return Ok(None) };
        if !record.ready || !self.stands(id) {
            return Ok(None);
        }
        let index =
            self.private_dir.home().join("index").join(format!("compare.{:016x}", ftl_folder::id::random()?));
        let stood = self
            .read_tree(&index, &self.tree_of(&record.base)?)
            .and_then(|()| self.stand(&index, &self.path_of(id), &record.base));
        let _ = ftl_folder::remove(&index);
        Ok(Some((record.base, stood?.tree)))
    }

    /// What differs, as a patch that `git apply` takes.
    pub fn patch_for_people(&self, base: &Oid, tree: &Oid) -> Result<Vec<u8>, GitError> {
        let call = self.about_objects().words(COMPARED).words(["-p", "--binary"]).most(MAX_MADE_BYTES);
        self.run(call.words([base.as_str(), tree.as_str()]))?.ok()
    }

    /// How many lines of which files differ.
    pub fn lines_between(&self, base: &Oid, tree: &Oid) -> Result<Vec<FileLines>, GitError> {
        let call = self.about_objects().words(COMPARED).words(["-z", "--numstat"]);
        let out = self.run(call.words([base.as_str(), tree.as_str()]))?.ok()?;
        let mut parts = zeroed(&out);
        let mut files = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while let Some(line) = parts.next() {
            let mut cells = line.splitn(3, |byte| *byte == b'\t');
            let (Some(more), Some(less), Some(path)) = (cells.next(), cells.next(), cells.next()) else {
                return Err(unreadable(line));
            };
            let count = |bytes: &[u8]| text(bytes).parse::<u64>().ok();
            let lines = count(more).zip(count(less));
            // Of a renamed file both paths follow.
            let (was, path) = match path.is_empty() {
                false => (None, text(path)),
                true => {
                    let (Some(was), Some(path)) = (parts.next(), parts.next()) else {
                        return Err(unreadable(line));
                    };
                    (Some(text(was)), text(path))
                }
            };
            files.push(FileLines { path, was, lines });
        }
        Ok(files)
    }
}
