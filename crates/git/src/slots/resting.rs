//! Worktrees that rest: what an agent has left is kept, and the next worktree is made of its files.
//!
//! A worktree that is closed moves here with the index that knows its files, and the next one to be opened is switched
//! from it: git writes what differs. It is switched here, where no agent works, and takes the place of the new worktree as
//! a whole. What is not of the wanted commit goes, but for the builds that the settings keep warm. Nothing of it is ever
//! seen where work is verified.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::super::error::At as _;
use super::super::tree::unlock;
use super::super::worktree::{points_to, remove_whole};
use super::super::{GitError, Oid, Repo, WorktreeId, ledger};
use super::SlotRecord;
use ftl_folder::{NameIn, sweep};
use ftl_process::table::boot_id;

/// The most worktrees that rest.
pub const MAX_RESTING: usize = 8;

/// How the name of one begins that is being switched.
const TAKEN: &str = "taken-";

/// A worktree that rests: its folder, its index and its record.
struct Resting {
    folder: PathBuf,
    index: PathBuf,
    record: PathBuf,
}

impl Repo {
    fn resting(&self, name: &str) -> Resting {
        let home = self.resting_home();
        let beside = |what: &str| home.join(format!("{name}.{what}"));
        Resting { folder: home.join(name), index: beside("index"), record: beside("json") }
    }

    fn resting_home(&self) -> PathBuf {
        self.private_dir.home().join("resting")
    }

    /// The names of worktrees that rest.
    fn resting_names(&self) -> Result<Vec<String>, GitError> {
        let home = self.resting_home();
        let names = ftl_folder::names(&home).at(&home)?;
        let plain =
            |name: OsString| name.into_string().ok().filter(|name| name.parse::<WorktreeId>().is_ok());
        Ok(names.into_iter().filter_map(plain).filter(|name| !name.starts_with(TAKEN)).collect())
    }

    /// Puts what is left of a closed worktree to rest, in place of removing it. Everything that existed only there is
    /// kept already.
    pub(in super::super) fn rest(&self, id: &WorktreeId, folder: &Path) -> Result<(), GitError> {
        let (resting, index) = (self.resting(id.as_str()), self.index_file(id));
        let may_rest = ftl_folder::is_folder(folder)
            && ftl_folder::is_file(&index)
            && ftl_folder::metadata(&resting.folder).is_err()
            && self.resting_names()?.len() < MAX_RESTING;
        if !may_rest {
            return remove_whole(folder);
        }
        self.runner.step("rest worktree")?;
        let above = self.place.worktrees();
        let mode = ftl_folder::metadata(&above).at(&above)?.permissions().mode() & 0o777;
        let record = SlotRecord { path: resting.folder.clone(), boot: boot_id().unwrap_or_default(), mode };
        let text = serde_json::to_vec(&record).map_err(std::io::Error::other).at(&resting.record)?;
        ftl_folder::write(&resting.record, &text).at(&resting.record)?;
        ftl_folder::rename(&index, &resting.index).at(&index)?;
        // It is there from now on; where it cannot be moved, as to another file system, it goes.
        match ftl_folder::rename(folder, &resting.folder) {
            Ok(()) => Ok(()),
            Err(_) => {
                self.remove_resting(&resting)?;
                remove_whole(folder)
            }
        }
    }

    /// Makes the files of a worktree, which git knows and which is empty, of one that rests; whether there was one.
    pub(in super::super) fn wake(&self, id: &WorktreeId, commit: &Oid) -> Result<bool, GitError> {
        for name in self.resting_names()? {
            let from = self.resting(&name);
            let taken = self.resting_home().join(format!("{TAKEN}{id}"));
            remove_whole(&taken)?;
            self.runner.step("wake worktree")?;
            // The process that renames it first has it.
            if ftl_folder::rename(&from.folder, &taken).is_err() {
                continue;
            }
            let is_switched = self.switch_resting(&from, &taken, commit)?;
            if is_switched && self.take_place(id, &taken).is_ok() {
                let index = self.index_file(id);
                ftl_folder::rename(&from.index, &index).at(&index)?;
                self.forget_known(&index);
                self.remove_resting(&from)?;
                remove_whole(&taken)?;
                return Ok(true);
            }
            self.remove_resting(&from)?;
            remove_whole(&taken)?;
        }
        Ok(false)
    }

    /// Switches the files of one that rests; whether that could be done.
    fn switch_resting(&self, from: &Resting, taken: &Path, commit: &Oid) -> Result<bool, GitError> {
        let record = ledger::read::<SlotRecord>(&from.record).unwrap_or_default();
        let is_sound = |record: &SlotRecord| boot_id().is_ok_and(|boot| boot == record.boot);
        let Some(record) = record.filter(is_sound).filter(|_| ftl_folder::is_file(&from.index)) else {
            return Ok(false);
        };
        unlock(&from.index)?;
        let Ok(known) = self.laid(&from.index) else { return Ok(false) };
        let mut judge = |path: &Path, is_folder| self.judge(&known, path, (is_folder, record.mode));
        if sweep(taken, record.mode, &mut judge).is_err() {
            return Ok(false);
        }
        let call = self.inside(&from.index, taken).words(["read-tree", "--reset", "-u", commit.as_str()]);
        Ok(self.run(call)?.code == 0)
    }

    /// Puts a folder with files in the place of a worktree that holds nothing but the file by which git knows it.
    fn take_place(&self, id: &WorktreeId, taken: &Path) -> std::io::Result<()> {
        let (path, pointer) = (self.path_of(id), taken.join(".git"));
        ftl_folder::write(&pointer, &[&points_to(&self.admin(id)), b"\n".as_slice()].concat())?;
        NameIn::at(&path)?.exchange(&NameIn::at(taken)?)
    }

    fn remove_resting(&self, one: &Resting) -> Result<(), GitError> {
        self.strike(&one.record)?;
        self.strike(&one.index)?;
        remove_whole(&one.folder)
    }

    /// Removes all that rest, and what is left of those that were being switched by a process that is dead.
    pub(super) fn remove_all_resting(&self) -> Result<usize, GitError> {
        let _held = self.hold_repository()?;
        let names = self.resting_names()?;
        for name in &names {
            self.remove_resting(&self.resting(name))?;
        }
        let home = self.resting_home();
        for name in ftl_folder::names(&home).at(&home)? {
            remove_whole(&home.join(name))?;
        }
        Ok(names.len())
    }

    /// The folders that rest.
    pub(super) fn resting_folders(&self) -> Result<Vec<PathBuf>, GitError> {
        Ok(self.resting_names()?.iter().map(|name| self.resting(name).folder).collect())
    }
}
