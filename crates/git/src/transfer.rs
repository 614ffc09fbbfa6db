//! A transfer: the files of the person's checkout are taken from one commit to another, all or none.
//!
//! Each new file is written and synced in a folder of ours first. Then it changes places with the person's
//! file in one call, and what came out is looked at: where it is not what was seen before, the file was saved
//! meanwhile, and everything goes back. What came out is never removed here: it is retained (`retain`), so
//! that an editor that still has it open writes into a file that is not lost. Where files cannot change places, the
//! person's file is moved aside and the new one put where nothing is. No file is ever written over, and folders
//! go only when they are empty. What is half way is written down before the first file is moved. Every folder on
//! the way to a file is opened without following a link, and the file is moved in what was opened: no link that
//! is put into the checkout meanwhile leads a delivery out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::At as _;
use super::filesystem::{Ability, FileSystem, Placing, barrier, is_taken};
use super::probe::{Seen, below, look, path};
use super::tree::{Differing, Entry};
use super::{ErrorKind, GitError, Oid, Repo, ledger};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::replace;
use ftl_folder::{self as folder, Folder, FolderRefusal, NameIn};

/// The folder of transfers in git's own.
pub(super) const IN_GIT: &str = "ftl-transfers";

/// How often two files change places again because another save came in between.
const MAX_SWAPS: usize = 16;

/// What is moved, and for which run.
#[derive(Clone, Copy)]
pub(super) struct Move<'a> {
    pub(super) run: &'a RunId,
    /// The person's branch, as a whole ref.
    pub(super) target: &'a str,
    pub(super) from: &'a Oid,
    pub(super) to: &'a Oid,
}

/// What was seen at a path before anything was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// What the old commit has there, byte for byte.
    Before,
    /// A file that the person's git takes for unchanged although its bytes are others.
    Seen(Entry),
    /// What the new commit has there: nothing is to be done.
    After,
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Files are being moved.
    Moving,
    /// The checkout is at the new commit.
    Arrived,
    /// The checkout is at the old commit again.
    Back,
    /// A person has taken the checkout to another commit while it was half way.
    Left,
}

/// Where the files of a transfer are: the first of these whose file system is that of the checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Home {
    Store,
    Git,
}

/// An entry of a tree, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noted {
    pub(super) mode: u32,
    pub(super) oid: Oid,
}

/// A transfer, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TransferRecord {
    pub(super) run: RunId,
    pub(super) target: String,
    pub(super) from: Oid,
    pub(super) to: Oid,
    /// When, in seconds since 1970.
    pub(super) began: u64,
    pub(super) state: State,
    pub(super) home: Home,
    pub(super) exchanges: bool,
    pub(super) links: bool,
    /// The inode of each new file, in the order of the paths that differ; zero where there is none.
    pub(super) placed: Vec<u64>,
    /// Files whose bytes were not those of the old commit although no person or program had changed them, by number.
    #[serde(default)]
    pub(super) seen: BTreeMap<usize, Noted>,
    /// Files of the person's that could not be put back because something else stands on the way, by number.
    #[serde(default)]
    pub(super) unplaced: BTreeSet<usize>,
    /// What was kept under a ref, by the name of the retained file.
    #[serde(default)]
    pub(super) kept: BTreeMap<String, Noted>,
    /// What retained files are known by since they were looked at.
    #[serde(default)]
    pub(super) marks: BTreeMap<String, String>,
}

/// Which file of ours belongs to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The person's file, taken out.
    Old,
    /// The new file, taken out again.
    Back,
    /// What was in the checkout while two files changed places in several steps.
    Aside,
}

impl Slot {
    pub(super) const ALL: [Slot; 3] = [Slot::Old, Slot::Back, Slot::Aside];

    pub(super) fn folder(self) -> &'static str {
        match self {
            Slot::Old => "old",
            Slot::Back => "back",
            Slot::Aside => "aside",
        }
    }

    /// The name of a retained file below the folder of its transfer.
    pub(super) fn name(self, number: usize) -> String {
        format!("{}/{number}", self.folder())
    }
}

/// A transfer at work.
pub(super) struct Transfer<'a> {
    pub(super) repo: &'a Repo,
    pub(super) id: String,
    pub(super) record: TransferRecord,
    pub(super) changes: Vec<Differing>,
    /// The folder of its files.
    pub(super) files: PathBuf,
}

/// What came of having two files change places.
enum Swapped {
    Done,
    /// Nothing is in the checkout to change places with.
    Absent,
    /// A file was put there while the old one was aside.
    Taken,
}

impl Repo {
    pub(super) fn transfers(&self) -> PathBuf {
        self.private_dir.home().join("transfers")
    }

    pub(super) fn transfer_file(&self, id: &str) -> PathBuf {
        self.transfers().join(id).join("transfer.json")
    }

    pub(super) fn transfer_files(&self, home: Home, id: &str) -> PathBuf {
        match home {
            Home::Store => self.transfers().join(id).join("files"),
            Home::Git => self.own.join(IN_GIT).join(id),
        }
    }

    /// Makes ready for a transfer: finds out what the file systems can do, writes the new files, where they are many
    /// out of an index by git, and writes down what is about to happen. Nothing in the checkout is touched. Or why it cannot be had.
    pub(super) fn begin_transfer<'a>(
        &'a self,
        moving: Move<'_>,
        changes: &[Differing],
        expected: &[Expected],
        index: &Path,
    ) -> Result<Result<Transfer<'a>, String>, GitError> {
        let id = format!("{}-{:016x}", moving.run, ftl_folder::id::random()?);
        let (home, able) = match self.transfer_home(&id, changes)? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let files = self.transfer_files(home, &id);
        let placed = self.write_new(&files, changes, expected, index).inspect_err(|_| {
            // Nothing but new files is there yet.
            let _ = self.remove_moved(&files);
        })?;
        let seen = expected.iter().enumerate().filter_map(|(number, one)| match one {
            Expected::Seen(entry) => Some((number, Noted { mode: entry.mode, oid: entry.oid.clone() })),
            Expected::Before | Expected::After => None,
        });
        let record = TransferRecord {
            run: moving.run.clone(),
            target: moving.target.to_owned(),
            from: moving.from.clone(),
            to: moving.to.clone(),
            began: ftl_folder::clock::wall() / 1000,
            state: State::Moving,
            home,
            exchanges: able.exchanges,
            links: able.placing == Placing::Link,
            placed,
            seen: seen.collect(),
            unplaced: BTreeSet::new(),
            kept: BTreeMap::new(),
            marks: BTreeMap::new(),
        };
        self.write(&self.transfer_file(&id), &record)?;
        Ok(Ok(Transfer { repo: self, id, record, changes: changes.to_vec(), files }))
    }

    /// A transfer that was begun before.
    pub(super) fn transfer(&self, id: &str, record: TransferRecord) -> Result<Transfer<'_>, GitError> {
        let changes = self.differing(&record.from, &record.to)?;
        if changes.len() != record.placed.len() {
            let message = format!("`{}` does not fit its commits", self.transfer_file(id).display());
            return Err(GitError::new(ErrorKind::Disk, message).hint("see what is in that folder"));
        }
        let files = self.transfer_files(record.home, id);
        Ok(Transfer { repo: self, id: id.to_owned(), record, changes, files })
    }

    pub(super) fn transfer_record(&self, id: &str) -> Result<Option<TransferRecord>, GitError> {
        ledger::read(&self.transfer_file(id))
    }

    /// A folder on the file system of everything that changes, and what that can do; or why there is none.
    fn transfer_home(
        &self,
        id: &str,
        changes: &[Differing],
    ) -> Result<Result<(Home, Ability), String>, GitError> {
        let above: BTreeSet<PathBuf> =
            changes.iter().map(|change| existing(&self.top, &change.path)).collect();
        let above: BTreeSet<&Path> = above.iter().map(PathBuf::as_path).collect();
        let mut why = None;
        for home in [Home::Store, Home::Git] {
            let files = self.transfer_files(home, id);
            self.make_folder(&files).at(&files)?;
            let ours = self.folder(&files).at(&files)?;
            let found = match barrier(&*self.files, &ours, &above, &|path| self.folder(path)).at(&files)? {
                Some((folder, error)) => {
                    let folder = folder.display();
                    Err(format!("files of ours cannot be moved to `{folder}`: {error}"))
                }
                None => Ability::of(&*self.files, &ours).at(&files)?.ok_or_else(|| {
                    String::from("the file system can place no file without replacing another one")
                }),
            };
            match found {
                Ok(able) => return Ok(Ok((home, able))),
                Err(sentence) => {
                    self.remove_moved(&files)?;
                    why.get_or_insert(sentence);
                }
            }
        }
        self.remove_moved(&self.transfers().join(id))?;
        let why = why.unwrap_or_default();
        let branch = "`git merge` with the branch brings the work without `ftl`";
        Ok(Err(format!("{why}, so a save of yours could be lost; {branch}")))
    }
}

impl Transfer<'_> {
    fn system(&self) -> &dyn FileSystem {
        &*self.repo.files
    }

    fn able(&self) -> Ability {
        let placing = if self.record.links { Placing::Link } else { Placing::Rename };
        Ability { exchanges: self.record.exchanges, placing }
    }

    fn target(&self, number: usize) -> PathBuf {
        below(&self.repo.top, &self.changes[number].path)
    }

    fn new_file(&self, number: usize) -> PathBuf {
        below(&self.files.join("new"), &self.changes[number].path)
    }

    pub(super) fn slot(&self, slot: Slot, number: usize) -> PathBuf {
        self.files.join(slot.name(number))
    }

    /// Whether a file is the new one of a path, whatever is in it.
    fn is_placed(&self, file: &Path, number: usize) -> Result<bool, GitError> {
        Ok(self.record.placed[number] != 0 && self.inode(file)? == Some(self.record.placed[number]))
    }

    /// Whether anything is at a path.
    pub(super) fn has(&self, path: &Path) -> Result<bool, GitError> {
        Ok(self.inode(path)?.is_some())
    }

    /// The inode of what is at a path; nothing where nothing is. What leads through a link is not there in the
    /// checkout; among files of ours that is an error.
    fn inode(&self, path: &Path) -> Result<Option<u64>, GitError> {
        match self.repo.spot(path).and_then(|spot| spot.metadata()) {
            Ok(found) => Ok(Some(found.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if is_gone(&error) && !path.starts_with(&self.files) => Ok(None),
            Err(error) => Err(error).at(path),
        }
    }

    /// A file of ours.
    fn ours(&self, path: &Path) -> Result<NameIn, GitError> {
        self.repo.spot(path).at(path)
    }

    /// Writes the record again; what a power cut takes away of that is found out anew.
    pub(super) fn save(&self) -> Result<(), GitError> {
        let file = self.repo.transfer_file(&self.id);
        let text = serde_json::to_vec(&self.record).map_err(io::Error::other).at(&file)?;
        replace(&file, &text).at(&file)
    }

    /// Moves every file; or the path that was changed meanwhile, and then everything is to go back.
    pub(super) fn carry(&self, expected: &[Expected]) -> Result<Result<(), usize>, GitError> {
        for number in self.order() {
            if expected[number] != Expected::After && !self.carry_one(number)? {
                return Ok(Err(number));
            }
        }
        Ok(Ok(()))
    }

    /// What goes makes room for what comes: a file may become a folder.
    fn order(&self) -> Vec<usize> {
        let goes = |number: &usize| !self.changes[*number].after.is_there();
        let (gone, there): (Vec<usize>, Vec<usize>) = (0..self.changes.len()).partition(goes);
        gone.into_iter().chain(there).collect()
    }

    /// Moves one file; whether it was the one that was expected.
    fn carry_one(&self, number: usize) -> Result<bool, GitError> {
        let change = &self.changes[number];
        match (change.before.is_there(), change.after.is_there()) {
            (true, false) => {
                let is_as_seen =
                    !self.take_out(number, Slot::Old)? || self.is_as_expected(Slot::Old, number)?;
                self.remove_empty(number);
                Ok(is_as_seen)
            }
            (true, true) if self.record.exchanges => self.exchange_new(number),
            (true, true) => Ok(self.take_out(number, Slot::Old)?
                && self.is_as_expected(Slot::Old, number)?
                && self.put(&self.new_file(number), number)?),
            (false, _) => self.put(&self.new_file(number), number),
        }
    }

    /// Has a new file and the person's change places; whether what came out is what was expected.
    fn exchange_new(&self, number: usize) -> Result<bool, GitError> {
        if !matches!(self.look(number)?, Seen::File(_) | Seen::Link) {
            return Ok(false);
        }
        self.repo.runner.step("exchange file")?;
        let (new, target) = (self.new_file(number), self.target(number));
        let ours = self.ours(&new)?;
        match self.repo.spot(&target).and_then(|target| self.system().exchange(&ours, &target)) {
            Err(error) if is_gone(&error) => return Ok(false),
            exchanged => exchanged.at(&target)?,
        }
        self.rename(&new, &self.slot(Slot::Old, number))?;
        self.is_as_expected(Slot::Old, number)
    }

    fn look(&self, number: usize) -> Result<Seen, GitError> {
        look(&self.repo.top, &self.changes[number].path).at(&self.target(number))
    }

    /// Takes what is at a path out of the checkout; whether anything was there.
    fn take_out(&self, number: usize, slot: Slot) -> Result<bool, GitError> {
        if matches!(self.look(number)?, Seen::Nothing { .. } | Seen::Folder) {
            return Ok(false);
        }
        let (target, slot) = (self.target(number), self.slot(slot, number));
        if self.has(&slot)? {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists)).at(&slot);
        }
        self.repo.runner.step("move file out")?;
        let slot = self.ours(&slot)?;
        match self.repo.spot(&target).and_then(|target| self.system().rename(&target, &slot)) {
            Err(error) if is_gone(&error) => Ok(false),
            renamed => renamed.at(&target).map(|()| true),
        }
    }

    /// Puts a file of ours at its path, where nothing is; whether nothing was.
    fn put(&self, file: &Path, number: usize) -> Result<bool, GitError> {
        if !self.make_way(number)? {
            return Ok(false);
        }
        self.repo.runner.step("place file")?;
        let (ours, target) = (self.ours(file)?, self.target(number));
        let placed = self.repo.spot(&target).and_then(|to| self.able().place(self.system(), &ours, &to));
        match placed {
            Err(error) if is_taken(&error) || FolderRefusal::is_in_the_way(&error) => Ok(false),
            placed => placed.at(&target).map(|()| true),
        }
    }

    /// A rename among files of ours.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), GitError> {
        self.repo.runner.step("rename file")?;
        let (from, new) = (self.ours(from)?, self.ours(to)?);
        self.system().rename(&from, &new).at(to)
    }

    /// Makes the folders above a path; whether nothing else is in their place.
    fn make_way(&self, number: usize) -> Result<bool, GitError> {
        let above = path(&self.changes[number].path).parent().unwrap_or(Path::new(""));
        match folder::make_below(&self.repo.top, above) {
            Err(error) if is_gone(&error) => Ok(false),
            made => made.at(&self.repo.top.join(above)).map(|()| true),
        }
    }

    /// Removes the folders above a path that are empty.
    fn remove_empty(&self, number: usize) {
        let above = path(&self.changes[number].path).ancestors().skip(1);
        for above in above.take_while(|above| !above.as_os_str().is_empty()) {
            if NameIn::below(&self.repo.top, above).and_then(|spot| spot.remove_folder()).is_err() {
                break;
            }
        }
    }

    /// Whether a file of ours holds what it should: what was seen, or what was delivered.
    pub(super) fn is_as_expected(&self, slot: Slot, number: usize) -> Result<bool, GitError> {
        let (name, change) = (slot.name(number), &self.changes[number]);
        let is = |entry: &Entry| self.repo.is_as(&self.files, name.as_bytes(), entry);
        match (slot, self.record.seen.get(&number)) {
            (Slot::Back, _) => is(&change.after),
            (Slot::Old, None) => is(&change.before),
            (Slot::Old, Some(noted)) => {
                Ok(self.repo.noted(&self.slot(slot, number), false)?.as_ref() == Some(noted))
            }
            (Slot::Aside, _) => Ok(is(&change.before)? || is(&change.after)?),
        }
    }

    /// Takes everything back, the path that was changed meanwhile first. A save that is in the checkout stays there.
    pub(super) fn take_back(&mut self, first: Option<usize>) -> Result<(), GitError> {
        for number in first.into_iter().chain(self.order().into_iter().rev()) {
            self.restore(number)?;
        }
        for number in 0..self.changes.len() {
            if self.is_unplaced(number)? {
                self.record.unplaced.insert(number);
            }
        }
        self.record.state = State::Back;
        self.save()
    }

    /// Whether the person's file is still with us although no other file is in its place.
    pub(super) fn is_unplaced(&self, number: usize) -> Result<bool, GitError> {
        let target = self.target(number);
        Ok(self.has(&self.slot(Slot::Old, number))?
            && (!self.has(&target)? || self.is_placed(&target, number)?))
    }

    /// Takes one path back. Doing it again changes nothing.
    pub(super) fn restore(&self, number: usize) -> Result<(), GitError> {
        let (old, back) = (self.slot(Slot::Old, number), self.slot(Slot::Back, number));
        let has_new =
            self.record.placed[number] != 0 && !self.has(&self.new_file(number))? && !self.has(&back)?;
        match (self.has(&old)?, has_new) {
            (true, true) => self.settle(number, Slot::Old, true),
            (true, false) => self.put(&old, number).map(drop),
            (false, true) if !self.changes[number].before.is_there() => {
                if !self.is_placed(&self.target(number), number)? || !self.take_out(number, Slot::Back)? {
                    return Ok(());
                }
                if self.is_placed(&back, number)? && self.is_as_expected(Slot::Back, number)? {
                    self.remove_empty(number);
                    return Ok(());
                }
                self.put(&back, number).map(drop)
            }
            (false, _) => Ok(()),
        }
    }

    /// Brings a file of ours into the checkout in the place of what we have left there. Whatever else comes out is a
    /// newer save and goes in again, so that the newest one is there in the end.
    pub(super) fn settle(&self, number: usize, slot: Slot, delivered: bool) -> Result<(), GitError> {
        let file = self.slot(slot, number);
        if delivered && !self.is_placed(&self.target(number), number)? && self.has(&self.target(number))? {
            return Ok(());
        }
        let mut put_before: Option<Pinned> = None;
        for _ in 0..MAX_SWAPS {
            let put = Pinned::at(&self.ours(&file)?).at(&file)?;
            match self.swap(number, slot)? {
                Swapped::Taken => return Ok(()),
                Swapped::Absent if self.put(&file, number)? => return Ok(()),
                Swapped::Absent => continue,
                Swapped::Done => {}
            }
            let is_settled = match &put_before {
                None if delivered => {
                    self.is_placed(&file, number)? && self.is_left_by_us(&file, number, true)?
                }
                None => self.is_left_by_us(&file, number, self.record.state == State::Arrived)?,
                Some(before) => self.inode(&file)? == Some(before.inode),
            };
            if is_settled {
                break;
            }
            put_before = Some(put);
        }
        self.sort(&file, number)
    }

    /// Whether a file of ours holds what the new commit has at a path, or else what the path held before.
    fn is_left_by_us(&self, file: &Path, number: usize, is_new: bool) -> Result<bool, GitError> {
        let name = file.strip_prefix(&self.files).unwrap_or(file).as_os_str().as_encoded_bytes();
        let change = &self.changes[number];
        match self.record.seen.get(&number).filter(|_| !is_new) {
            Some(noted) => Ok(self.repo.noted(file, false)?.as_ref() == Some(noted)),
            None => self.repo.is_as(&self.files, name, if is_new { &change.after } else { &change.before }),
        }
    }

    /// Gives what came out the name of what it is.
    fn sort(&self, file: &Path, number: usize) -> Result<(), GitError> {
        let slot = if self.is_placed(file, number)? { Slot::Back } else { Slot::Old };
        let name = self.slot(slot, number);
        if name == file || !self.has(file)? || self.has(&name)? {
            return Ok(());
        }
        self.rename(file, &name)
    }

    /// Has a file of ours and what is in the checkout change places.
    fn swap(&self, number: usize, slot: Slot) -> Result<Swapped, GitError> {
        let (file, target) = (self.slot(slot, number), self.target(number));
        if matches!(self.look(number)?, Seen::Nothing { .. }) {
            return Ok(Swapped::Absent);
        }
        if self.record.exchanges {
            self.repo.runner.step("exchange file")?;
            let ours = self.ours(&file)?;
            return match self.repo.spot(&target).and_then(|target| self.system().exchange(&ours, &target)) {
                Err(error) if is_gone(&error) => Ok(Swapped::Absent),
                exchanged => exchanged.at(&target).map(|()| Swapped::Done),
            };
        }
        if self.has(&self.slot(Slot::Aside, number))? {
            return Ok(Swapped::Taken);
        }
        if !self.take_out(number, Slot::Aside)? {
            return Ok(Swapped::Absent);
        }
        if !self.put(&file, number)? {
            return Ok(Swapped::Taken);
        }
        self.rename(&self.slot(Slot::Aside, number), &file)?;
        Ok(Swapped::Done)
    }

    /// Gives every file the name of what it is, after a crash between two steps.
    pub(super) fn put_in_order(&self) -> Result<(), GitError> {
        for number in 0..self.changes.len() {
            let (new, target) = (self.new_file(number), self.target(number));
            if self.has(&new)? && self.record.placed[number] != 0 {
                if !self.is_placed(&new, number)? {
                    self.sort(&new, number)?;
                } else if self.is_placed(&target, number)? {
                    // A second name of the same file.
                    self.ours(&new)?.remove().at(&new)?;
                }
            }
            let aside = self.slot(Slot::Aside, number);
            if self.has(&aside)? && !self.has(&target)? {
                self.put(&aside, number)?;
            }
            self.sort(&aside, number)?;
            self.sort(&self.slot(Slot::Old, number), number)?;
        }
        Ok(())
    }

    /// The checkout is at the new commit. What came out is looked at once more; what a person should know of that.
    pub(super) fn arrive(mut self) -> Result<Vec<String>, GitError> {
        self.record.state = State::Arrived;
        self.save()?;
        self.look_again()
    }

    /// Whether what we have left in the checkout is still there, untouched.
    pub(super) fn is_ours(&self, number: usize) -> Result<bool, GitError> {
        let change = &self.changes[number];
        let (entry, noted) = match self.record.state {
            State::Arrived => (&change.after, None),
            State::Back => (&change.before, self.record.seen.get(&number)),
            State::Moving | State::Left => return Ok(false),
        };
        match (noted, entry.is_there()) {
            (Some(noted), _) => Ok(self.repo.noted(&self.target(number), false)?.as_ref() == Some(noted)),
            (None, true) => self.repo.is_as(&self.repo.top, &change.path, entry),
            (None, false) => Ok(self.look(number)? == Seen::Nothing { blocked: false }),
        }
    }
}

/// A file whose inode no other file gets as long as we know of it.
struct Pinned {
    inode: u64,
    _open: File,
}

impl Pinned {
    fn at(spot: &NameIn) -> io::Result<Pinned> {
        let open = spot.pin()?;
        Ok(Pinned { inode: open.metadata()?.ino(), _open: open })
    }
}

/// The nearest folder above a path that is there.
fn existing(top: &Path, path: &[u8]) -> PathBuf {
    let above = self::path(path).ancestors().skip(1);
    let mut above = above.take_while(|above| !above.as_os_str().is_empty());
    let found = above.find(|above| Folder::below(top, above).is_ok());
    found.map_or_else(|| top.to_owned(), |above| top.join(above))
}

/// Whether something is not where it was: it is gone, or a link or a file stands on the way to it.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || FolderRefusal::is_in_the_way(error)
}
