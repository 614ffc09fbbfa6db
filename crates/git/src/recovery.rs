//! Worktrees after a power cut. What an agent writes, and what git lays into a worktree, is on the disk only when
//! the system comes to it; a journal that says what was there is on the disk at once. So what is in a
//! worktree is written down as a tree, with its objects on the disk, before the journal hears of it; and when the
//! machine was started again since, the worktree is made what it was then. Whatever is found instead is kept
//! first: nothing is taken away that exists only there.

use std::path::{Path, PathBuf};

use super::stood::Stood;
use super::worktree::{WorktreeRecord, remove_whole, says};
use super::{GitError, Oid, Repo, WorktreeId, ledger};

impl Repo {
    pub(super) fn stood_file(&self, id: &WorktreeId) -> PathBuf {
        self.private_dir.home().join("stood").join(format!("{id}.json"))
    }

    /// Writes down what is in a worktree, before the journal hears of it.
    pub(super) fn note_stood(&self, id: &WorktreeId, tree: &Oid) -> Result<(), GitError> {
        let Some(now) = Stood::now(tree) else { return Ok(()) };
        if self.noted_stood(id)?.as_ref() == Some(&now) {
            return Ok(());
        }
        self.make_objects_durable()?;
        self.write(&self.stood_file(id), &now)
    }

    /// Has a worktree made again with a tree when it is opened next, as after a power cut.
    pub(super) fn note_stood_before(&self, id: &WorktreeId, tree: &Oid) -> Result<(), GitError> {
        self.make_durable(None)?;
        self.write(&self.stood_file(id), &Stood::before(tree))
    }

    /// What was in a worktree before the machine was started again; nothing where it was not.
    pub(super) fn stood_before(&self, id: &WorktreeId) -> Result<Option<Stood>, GitError> {
        Ok(self.noted_stood(id)?.filter(Stood::is_from_before))
    }

    /// What was noted last: in a file of its own, or in the record of a worktree in which nothing was done yet.
    fn noted_stood(&self, id: &WorktreeId) -> Result<Option<Stood>, GitError> {
        match ledger::read::<Stood>(&self.stood_file(id))? {
            Some(stood) => Ok(Some(stood)),
            None => {
                Ok(ledger::read::<WorktreeRecord>(&self.worktree_file(id))?.and_then(|record| record.stood))
            }
        }
    }

    /// Drops the record of what was in a worktree.
    pub(super) fn forget_stood(&self, id: &WorktreeId) -> Result<(), GitError> {
        self.strike(&self.stood_file(id))
    }

    /// Makes a worktree what it was before the machine was started again; the tree that is there then.
    pub(super) fn restore(&self, record: &WorktreeRecord, stood: &Stood) -> Result<Oid, GitError> {
        self.runner.step("restore worktree")?;
        let (id, index, path) = (&record.id, self.index_file(&record.id), self.path_of(&record.id));
        // What it says about files is from before.
        remove_whole(&index)?;
        let why = "the machine was started again";
        if self.stands(id) && self.keep(id, why, ftl_folder::clock::wall() / 1000).is_err() {
            // What git cannot look at is put aside as it is.
            self.set_aside(id)?;
        }
        let head: Result<Oid, GitError> = Oid::read(&says(&self.admin(id).join("HEAD")));
        let is_sound = self.stands(id) && self.is_registered(id) && head.is_ok();
        if !is_sound {
            let held = self.hold_repository()?;
            self.forget(id)?;
            if !self.enrol_at(id, &self.path_of(id), &record.base)? {
                self.register(id, &record.base, &held)?;
            }
        }
        let found = self.stand(&index, &path, &record.base)?;
        self.lay(&index, &path, &self.differing(&found.tree, &stood.tree)?)?;
        self.give_all_objects()?;
        self.give_index(id)?;
        Ok(stood.tree.clone())
    }
}

/// The tree that stood in a worktree, as its record says.
pub(super) fn tree_in(file: &Path) -> Result<Option<Oid>, GitError> {
    Ok(ledger::read::<Stood>(file)?.map(|stood| stood.tree))
}
