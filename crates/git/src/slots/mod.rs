//! Slots: checkouts in which commits are looked at, switched from tree to tree by what differs.
//!
//! A checkout of many files is dear to make and to remove, and two that are looked at one after the other hardly
//! differ. So checkouts stay, outside of every project of the person, and the next one to be looked at is made of one
//! that lies ready. What the last look left there goes; git compares every file with what it laid, by numbers, times
//! and size. The process that has a slot has its lock. A slot of an earlier start of the machine is not believed: a
//! power cut may have taken bytes away. A worktree of an agent is never a slot of this kind; see `resting` for
//! worktrees.

mod place;
mod resting;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use place::SlotPlace;
pub use resting::MAX_RESTING;

use super::entry::{MODE_EXECUTABLE, MODE_LINK, MODE_SUBMODULE};
use super::error::At as _;
use super::lock::Held;
use super::probe::zeroed;
use super::tree::unlock;
use super::worktree::{Registered, remove_whole};
use super::{ErrorKind, GitError, Oid, Repo, WorktreeId, ledger};
use ftl_folder::{Sweep, sweep};
use ftl_process::Cancel;
use ftl_process::table::boot_id;

/// The most checkouts of a repository that are looked at at the same time.
pub const MAX_SLOTS: usize = 64;

/// How long until a slot is tried again where all are taken.
const RETRY: Duration = Duration::from_millis(50);

/// The files that a checkout is to have.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The commit that git shows there.
    pub commit: &'a Oid,
    /// The files, where they are not those of the commit.
    pub tree: Option<&'a Oid>,
}

impl<'a> Wanted<'a> {
    /// A commit with its own files.
    pub fn commit(commit: &'a Oid) -> Wanted<'a> {
        Wanted { commit, tree: None }
    }

    fn files(&self) -> &'a Oid {
        self.tree.unwrap_or(self.commit)
    }
}

/// A checkout of a commit, given to a callback that looks at it.
pub struct Checkout<'a> {
    repo: &'a Repo,
    slot: &'a Slot,
    files: &'a Oid,
}

impl Checkout<'_> {
    /// The folder with the files.
    pub fn path(&self) -> &Path {
        &self.slot.path
    }

    /// The tree of all its files that git does not ignore; another one than was wanted where something that was
    /// run there has changed it.
    pub fn tree(&self) -> Result<Oid, GitError> {
        let index = self.repo.index_file(&self.slot.id);
        let standing = self.repo.stand(&index, &self.slot.path, self.files);
        self.repo.forget_known(&index);
        Ok(standing?.tree)
    }
}

/// What is known of a slot that lies ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotRecord {
    path: PathBuf,
    boot: String,
    /// Who may use a folder in it.
    mode: u32,
}

/// The slots that this process has, and where all of them lie.
#[derive(Default)]
pub(super) struct Slots {
    place: Mutex<Option<SlotPlace>>,
    taken: Mutex<BTreeSet<usize>>,
}

/// A slot that is ours until this is dropped.
struct Slot {
    id: WorktreeId,
    path: PathBuf,
    number: usize,
    slots: Arc<Slots>,
    _held: Held,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// A slot that lies ready or is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// The path of its folder of files.
    pub path: PathBuf,
    /// How many bytes of files it holds.
    pub bytes: u64,
}

impl Repo {
    /// Calls `look` with a checkout of exactly the wanted files, in which anything may be run. It lies below no
    /// project of the person, and is another's when this returns.
    pub fn check_out<T>(
        &self,
        wanted: Wanted<'_>,
        cancel: &Cancel,
        look: &mut dyn FnMut(&Checkout<'_>) -> T,
    ) -> Result<T, GitError> {
        let slot = self.take_slot(cancel)?;
        if !self.switch(&slot, wanted)? {
            self.lay_slot(&slot, wanted)?;
        }
        self.enrol_slot(&slot, wanted)?;
        let seen = look(&Checkout { repo: self, slot: &slot, files: wanted.files() });
        let _held = self.hold_repository()?;
        self.forget(&slot.id)?;
        Ok(seen)
    }

    /// Where checkouts lie that are looked at; the folder is made if it is not there.
    pub fn slot_place(&self) -> Result<SlotPlace, GitError> {
        let mut known = self.slots.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = &*known {
            return Ok(place.clone());
        }
        let place = SlotPlace::make(&self.place, &self.settings)?;
        Ok(known.insert(place).clone())
    }

    /// The slots there are, and worktrees that rest.
    pub fn slots(&self) -> Result<Vec<SlotInfo>, GitError> {
        let mut found = Vec::new();
        for number in 1..=MAX_SLOTS {
            if let Some(record) = ledger::read::<SlotRecord>(&self.slot_file(number))? {
                let bytes = size_of(&record.path);
                found.push(SlotInfo { path: record.path, bytes });
            }
        }
        for path in self.resting_folders()? {
            found.push(SlotInfo { bytes: size_of(&path), path });
        }
        Ok(found)
    }

    /// Removes every slot that no process uses and every worktree that rests; how many those were. They are made
    /// again when they are needed.
    pub fn remove_slots(&self) -> Result<usize, GitError> {
        let mut removed = self.remove_all_resting()?;
        for number in 1..=MAX_SLOTS {
            let file = self.slot_file(number);
            let Some(record) = ledger::read::<SlotRecord>(&file)? else { continue };
            if !place::is_slot(&record.path, &self.place) {
                self.strike(&file)?;
                continue;
            }
            let Some(slot) = self.try_slot(number, record.path)? else { continue };
            self.strike(&file)?;
            self.strike(&self.index_file(&slot.id))?;
            remove_whole(&slot.path)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn slot_file(&self, number: usize) -> PathBuf {
        self.private_dir.home().join("slots").join(format!("{number}.json"))
    }

    fn take_slot(&self, cancel: &Cancel) -> Result<Slot, GitError> {
        let place = self.slot_place()?;
        loop {
            for number in 1..=MAX_SLOTS {
                let path = place.path().join(format!("{}{number}", place::PREFIX));
                if let Some(slot) = self.try_slot(number, path)? {
                    return Ok(slot);
                }
            }
            if !cancel.pause(RETRY) {
                let message = "it was called off while it waited for a checkout";
                return Err(GitError::new(ErrorKind::Cancelled, message));
            }
        }
    }

    /// The slot of a number, if no other thread or process has it.
    fn try_slot(&self, number: usize, path: PathBuf) -> Result<Option<Slot>, GitError> {
        if !self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
            return Ok(None);
        }
        let id: Result<WorktreeId, GitError> = format!("verify-{number}").parse();
        let held = id.and_then(|id| Ok((self.hold_unless_busy(id.as_str())?, id)));
        match held {
            Ok((Some(held), id)) => {
                Ok(Some(Slot { id, path, number, slots: self.slots.clone(), _held: held }))
            }
            Ok((None, _)) => {
                self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                Ok(None)
            }
            Err(error) => {
                self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                Err(error)
            }
        }
    }

    /// Switches a slot that lies ready to what is wanted; whether that could be done. What cannot be switched is
    /// laid again.
    fn switch(&self, slot: &Slot, wanted: Wanted<'_>) -> Result<bool, GitError> {
        let index = self.index_file(&slot.id);
        let record = ledger::read::<SlotRecord>(&self.slot_file(slot.number)).unwrap_or_default();
        let is_ready = |record: &SlotRecord| {
            record.path == slot.path
                && boot_id().is_ok_and(|boot| boot == record.boot)
                && ftl_folder::is_folder(&slot.path)
                && ftl_folder::is_file(&index)
        };
        let Some(record) = record.filter(is_ready) else { return Ok(false) };
        self.runner.step("switch slot")?;
        unlock(&index)?;
        let Ok(known) = self.laid(&index) else { return Ok(false) };
        let mut judge = |path: &Path, is_folder| self.judge(&known, path, (is_folder, record.mode));
        if sweep(&slot.path, record.mode, &mut judge).is_err() {
            return Ok(false);
        }
        let call = self.inside(&index, &slot.path).words(["read-tree", "--reset", "-u"]);
        Ok(self.run(call.words([wanted.files().as_str()]))?.code == 0)
    }

    /// What becomes of something in a slot: what git has laid is compared by git, what the settings keep warm stays,
    /// everything else goes.
    fn judge(&self, known: &BTreeMap<Vec<u8>, Laid>, path: &Path, (is_folder, mode): (bool, u32)) -> Sweep {
        let is_warm = || {
            let name = path.file_name().unwrap_or_default();
            is_folder && self.settings.warm.iter().any(|warm| name == warm.as_str())
        };
        match known.get(path.as_os_str().as_bytes()) {
            Some(Laid::Folder) if is_folder => Sweep::Enter,
            Some(Laid::Link) if !is_folder => Sweep::Leave,
            // Git looks only whether its owner may run it.
            Some(Laid::File) if !is_folder => Sweep::LeaveAs(mode & 0o666),
            Some(Laid::Executable) if !is_folder => Sweep::LeaveAs(mode & 0o777),
            Some(Laid::Folder | Laid::Link | Laid::File | Laid::Executable) => Sweep::Remove,
            None if is_warm() => Sweep::Leave,
            None => Sweep::Remove,
        }
    }

    /// What an index says that was laid, with the folders above it. In the folder of a submodule nothing is laid.
    fn laid(&self, index: &Path) -> Result<BTreeMap<Vec<u8>, Laid>, GitError> {
        let call = self.about_objects().var("GIT_INDEX_FILE", index).words(["ls-files", "-z", "-s"]);
        let out = self.run(call)?.ok()?;
        let mut known = BTreeMap::new();
        for line in zeroed(&out) {
            let Some(path) = line.splitn(2, |byte| *byte == b'\t').nth(1) else { continue };
            let mode = std::str::from_utf8(&line[..line.len().min(6)]).unwrap_or_default();
            let laid = match u32::from_str_radix(mode, 8) {
                Ok(MODE_SUBMODULE) => Laid::Folder,
                Ok(MODE_LINK) => Laid::Link,
                Ok(MODE_EXECUTABLE) => Laid::Executable,
                Ok(_) | Err(_) => Laid::File,
            };
            known.insert(path.to_vec(), laid);
            let mut above = path;
            while let Some(end) = above.iter().rposition(|byte| *byte == b'/') {
                above = &above[..end];
                if known.insert(above.to_vec(), Laid::Folder).is_some() {
                    break;
                }
            }
        }
        Ok(known)
    }

    /// Lays a slot from nothing.
    fn lay_slot(&self, slot: &Slot, wanted: Wanted<'_>) -> Result<(), GitError> {
        self.runner.step("lay slot")?;
        let file = self.slot_file(slot.number);
        self.strike(&file)?;
        remove_whole(&slot.path)?;
        ftl_folder::make_new(&slot.path).at(&slot.path)?;
        self.lay_all(&self.index_file(&slot.id), &slot.path, wanted.files())?;
        let found = ftl_folder::metadata(&slot.path).at(&slot.path)?;
        let (path, boot) = (slot.path.clone(), boot_id().unwrap_or_default());
        let record = SlotRecord { path, boot, mode: found.permissions().mode() & 0o7777 };
        let text = serde_json::to_vec(&record).map_err(std::io::Error::other).at(&file)?;
        // What a power cut takes away of it is laid again.
        ftl_folder::write(&file, &text).at(&file)
    }

    /// Has the repository's git know the slot, so that commands which ask git find the slot's files.
    fn enrol_slot(&self, slot: &Slot, wanted: Wanted<'_>) -> Result<(), GitError> {
        let held = self.hold_repository()?;
        self.give_all_objects()?;
        self.forget(&slot.id)?;
        if !self.can_enrol() {
            // Git makes a worktree only where nothing is.
            remove_whole(&slot.path)?;
        }
        let registered = self.register_at(&slot.id, &slot.path, wanted.commit, &held)?;
        drop(held);
        if registered == Registered::Anew {
            self.lay_all(&self.index_file(&slot.id), &slot.path, wanted.files())?;
        }
        self.give_index(&slot.id)
    }
}

/// What was laid at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Laid {
    File,
    Executable,
    Link,
    Folder,
}

/// The bytes of all files below a folder, as far as it can be read.
fn size_of(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for name in ftl_folder::names(&at).unwrap_or_default() {
            let path = at.join(name);
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => open.push(path),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}
