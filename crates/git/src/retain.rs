//! What came out of the person's checkout is retained for an hour, and looked at again.
//!
//! A program that had a file open before a delivery may write into it after the file came out. So each file that
//! came out is compared with what it was, at the end of the delivery and by the next commands. One that has
//! changed holds a save of the person's: it goes back into the checkout if what we have left there is untouched,
//! and is kept under a ref otherwise. Nothing that has changed is ever removed unkept. A transfer that a crash left
//! half way is brought to its end, or taken back, before anything else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::branch::short;
use super::commit::{Making, message};
use super::entry::{MODE_EXECUTABLE, MODE_FILE, MODE_LINK};
use super::error::At as _;
use super::index_lock::{IndexLock, LOCKED};
use super::private_dir::apart;
use super::runner::Input;
use super::transfer::{Home, IN_GIT, Noted, Slot, State, Transfer, TransferRecord};
use super::{ErrorKind, GitError, Oid, Repo, WorktreeId, find, ledger};
use ftl_folder::state_folder::{StateFolder, mark};
use ftl_folder::{self as folder, Folder};

/// How long what came out of the checkout is retained.
pub const MAX_RETAINED: Duration = Duration::from_secs(3600);

/// How long after its last change a file can change again without getting another time.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// The largest record of a transfer that is read without git.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;

/// The file with what the next command says.
const UNSAID: &str = "unsaid.json";

/// How many paths a sentence names.
const MAX_NAMED: usize = 5;

/// Whether anything that came out of a checkout is to be looked at. Git is not started for this, and nothing is
/// written; where nothing was delivered within the hour, it is one look at the disk.
pub fn has_retained(place: &StateFolder) -> bool {
    let folder = place.store().join("git").join("transfers");
    let Ok(names) = folder::names(&folder) else { return false };
    let own = place.root().canonicalize().ok().and_then(|root| find(&root).ok()).map(|(_, own, _)| own);
    names.iter().any(|name| {
        let record = folder::read(&folder.join(name).join("transfer.json"), MAX_RECORD_BYTES).ok();
        let record = record.and_then(|text| serde_json::from_slice::<TransferRecord>(&text).ok());
        record.is_none_or(|record| {
            let files = match (record.home, &own) {
                (Home::Store, _) => Folder::open(&folder.join(name).join("files")),
                (Home::Git, Some(own)) => Folder::below(own, &Path::new(IN_GIT).join(name)),
                (Home::Git, None) => return false,
            };
            let is_as_marked = |files: Folder| is_as_marked(&record, &files);
            let is_unsettled = record.state == State::Moving || !record.unplaced.is_empty();
            is_unsettled || is_over(&record) || !files.is_ok_and(is_as_marked)
        })
    })
}

fn is_over(record: &TransferRecord) -> bool {
    (ftl_folder::clock::wall() / 1000).saturating_sub(record.began) >= MAX_RETAINED.as_secs()
}

/// Whether every retained file is as it was when it was looked at last.
fn is_as_marked(record: &TransferRecord, files: &Folder) -> bool {
    let is_marked =
        |one: &Retained| record.marks.get(&one.slot.name(one.number)) == Some(&marked(&one.found));
    retained(files).is_ok_and(|all| all.iter().all(is_marked))
}

/// What a retained file is known by; a time that was set back shows as well.
fn marked(found: &Metadata) -> String {
    format!("{}:{}.{:09}", mark(found), found.ctime(), found.ctime_nsec())
}

struct Retained {
    slot: Slot,
    number: usize,
    found: Metadata,
}

/// The retained files of a transfer.
fn retained(files: &Folder) -> io::Result<Vec<Retained>> {
    let mut all = Vec::new();
    for slot in Slot::ALL {
        let folder = match files.folder(OsStr::new(slot.folder())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            folder => folder?,
        };
        for name in folder.names()? {
            let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let found = folder.metadata(&name)?;
            all.push(Retained { slot, number, found });
        }
    }
    all.sort_by_key(|one| (one.number, one.slot.folder()));
    Ok(all)
}

/// Why a transfer could not be brought to its end.
enum Unsettled {
    /// The checkout is half way: nothing is delivered before that is mended.
    HalfWay(GitError),
    /// Everything is in its place; only what came out could not be looked at.
    Arrived(GitError),
}

impl Repo {
    /// Looks at everything that came out of the checkout, brings a transfer that was left half way to its end, and
    /// removes what is over. What a person should know, in sentences. Where another process delivers right now, it
    /// looks itself.
    pub fn look_at_retained(&self) -> Result<Vec<String>, GitError> {
        match self.hold_unless_busy("delivery")? {
            Some(_turn) => self.settle_transfers(),
            None => Ok(Vec::new()),
        }
    }

    /// Has the next command of a person say something.
    pub(super) fn say_later(&self, notes: &[String]) -> Result<(), GitError> {
        if notes.is_empty() {
            return Ok(());
        }
        let file = self.transfers().join(UNSAID);
        let mut unsaid: Vec<String> = ledger::read(&file)?.unwrap_or_default();
        unsaid.extend_from_slice(notes);
        self.write(&file, &unsaid)
    }

    /// The same for a caller that has the turn to deliver.
    pub(super) fn settle_transfers(&self) -> Result<Vec<String>, GitError> {
        let unsaid = self.transfers().join(UNSAID);
        let mut notes: Vec<String> = ledger::read(&unsaid)?.unwrap_or_default();
        let mut half_way = None;
        for id in self.transfer_ids()? {
            match self.settle_transfer(&id) {
                Ok(said) => notes.extend(said),
                Err(Unsettled::HalfWay(error)) => half_way = half_way.or(Some(error)),
                // It keeps no delivery waiting, and what it retains stays in its folder.
                Err(Unsettled::Arrived(error)) => {
                    let folder = self.transfers().join(&id);
                    let folder = folder.strip_prefix(self.place.root()).unwrap_or(&folder);
                    notes.push(format!("what `{}` retains cannot be looked at: {error}", folder.display()));
                }
            }
        }
        if let Some(error) = half_way {
            // The next command of the person prints it.
            self.write(&unsaid, &notes)?;
            return Err(error);
        }
        self.strike(&unsaid)?;
        // Gone with the last one, so that the next command has nothing to read.
        self.remove_empty_folder(&self.transfers());
        Ok(notes)
    }

    /// Brings one transfer to its end, looks at what it retains, and removes what is over.
    fn settle_transfer(&self, id: &str) -> Result<Vec<String>, Unsettled> {
        let Some(record) = self.transfer_record(id).map_err(Unsettled::Arrived)? else {
            // Nothing of the person's is moved before the record is there.
            return self.drop_unwritten(id).map(|()| Vec::new()).map_err(Unsettled::Arrived);
        };
        if record.state == State::Moving {
            let mut transfer = self.transfer(id, record).map_err(Unsettled::HalfWay)?;
            return self.finish_transfer(&mut transfer).map_err(Unsettled::HalfWay);
        }
        self.look_at_arrived(id, record).map_err(Unsettled::Arrived)
    }

    fn look_at_arrived(&self, id: &str, record: TransferRecord) -> Result<Vec<String>, GitError> {
        let was_over = is_over(&record);
        let mut transfer = self.transfer(id, record)?;
        if was_over {
            // Before anything goes the bytes are compared: a program that writes through a mapping may change no
            // time.
            transfer.record.marks.clear();
        }
        let said = transfer.look_again()?;
        if was_over && said.is_empty() {
            self.drop_transfer(&transfer)?;
        }
        Ok(said)
    }

    fn transfer_ids(&self) -> Result<Vec<String>, GitError> {
        let folder = self.transfers();
        let open = match Folder::open(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let error = GitError::new(ErrorKind::Disk, error.to_string());
                return Err(error.hint("see who put it there, and remove it"));
            }
            Ok(open) => open,
        };
        let mut ids = Vec::new();
        for name in open.names().at(&folder)? {
            // A link is none of ours, wherever it leads.
            let id = name.to_str().filter(|id| is_id(id));
            ids.extend(id.filter(|_| open.folder(&name).is_ok()).map(str::to_owned));
        }
        ids.sort();
        Ok(ids)
    }

    /// Whether a transfer is half way.
    pub(super) fn is_half_way(&self) -> Result<bool, GitError> {
        let is_moving = |id: &String| {
            // A record that cannot be read is reported by `settle_transfers`.
            let record = self.transfer_record(id).ok().flatten();
            record.is_some_and(|record| record.state == State::Moving)
        };
        Ok(self.transfer_ids()?.iter().any(is_moving))
    }

    /// Removes what was prepared for a transfer that never began.
    fn drop_unwritten(&self, id: &str) -> Result<(), GitError> {
        for home in [Home::Store, Home::Git] {
            let files = self.transfer_files(home, id);
            self.remove_moved(&files.join("new"))?;
            for slot in Slot::ALL {
                self.remove_empty_folder(&files.join(slot.folder()));
            }
            self.remove_empty_folder(&files);
        }
        self.remove_empty_folder(&self.transfers().join(id));
        Ok(())
    }

    /// Removes a folder if it is there and empty.
    fn remove_empty_folder(&self, folder: &Path) {
        let _ = self.spot(folder).and_then(|spot| spot.remove_folder());
    }

    fn drop_transfer(&self, transfer: &Transfer<'_>) -> Result<(), GitError> {
        self.runner.step("remove what was retained")?;
        // The record last: what is without one is taken for something that never began.
        self.remove_moved(&transfer.files)?;
        self.remove_moved(&self.transfers().join(&transfer.id))?;
        self.remove_empty_folder(&self.own.join(IN_GIT));
        Ok(())
    }

    /// Brings a transfer to its end that was left half way: forward where the branch has moved already, and back
    /// where it has not.
    fn finish_transfer(&self, transfer: &mut Transfer<'_>) -> Result<Vec<String>, GitError> {
        let Some(lock) = IndexLock::take(self)? else {
            let error = GitError::new(ErrorKind::Unsuitable, format!("a delivery is half way, and {LOCKED}"));
            return Err(error.hint("wait for it, or remove the file if no git is running; then try again"));
        };
        transfer.put_in_order()?;
        let found = self.resolve(&transfer.record.target)?;
        let is_here = self.checked_out()?.as_ref() == Some(&transfer.record.target);
        if is_here && found.as_ref() == Some(&transfer.record.to) {
            let index = self.copy_index()?;
            self.enter_old(&index, &transfer.changes)?;
            lock.install(self, &index)?;
            transfer.record.state = State::Arrived;
        } else {
            if is_here && found.as_ref() == Some(&transfer.record.from) {
                transfer.take_back(None)?;
            } else {
                transfer.record.state = State::Left;
            }
            lock.release(self)?;
        }
        transfer.save()?;
        transfer.look_again()
    }

    /// What a file or link is, as git would store its bytes; nothing where it has none. With `write`, it is stored.
    pub(super) fn noted(&self, file: &Path, write: bool) -> Result<Option<Noted>, GitError> {
        let spot = self.spot(file);
        let Ok((spot, found)) = spot.and_then(|spot| spot.metadata().map(|found| (spot, found))) else {
            return Ok(None);
        };
        let words: &[&str] = if write { &["hash-object", "-w"] } else { &["hash-object"] };
        // Also where the repository has it already: it may lose it.
        let call = if write { apart(self.about_objects()) } else { self.about_objects() }.words(words);
        let (mode, call) = if found.is_file() {
            let mode = if found.permissions().mode() & 0o100 != 0 { MODE_EXECUTABLE } else { MODE_FILE };
            (mode, call.words(["--no-filters", "--"]).words([file]))
        } else if found.is_symlink() {
            let to = spot.read_link().at(file)?.into_os_string().into_vec();
            (MODE_LINK, call.words(["--stdin"]).input(Input::Bytes(to)))
        } else {
            return Ok(None);
        };
        let oid = Oid::read(&self.run(call)?.ok()?)?;
        Ok(Some(Noted { mode, oid }))
    }

    /// Keeps saves of the person's under a ref, on top of a commit.
    fn keep_saves(
        &self,
        record: &TransferRecord,
        saves: &[(&[u8], Noted)],
        named: &str,
    ) -> Result<String, GitError> {
        let held = self.hold_repository()?;
        let id: WorktreeId = format!("{}-saved", record.run).parse()?;
        let base = if record.state == State::Arrived { &record.to } else { &record.from };
        let index = self.private_dir.home().join("index").join(format!("{id}.keep"));
        self.read_tree(&index, base)?;
        let input = Input::Written(Box::new(|to| {
            saves.iter().try_for_each(|(path, noted)| {
                write!(to, "{:06o} {}\t", noted.mode, noted.oid)?;
                to.write_all(path)?;
                to.write_all(&[0])
            })
        }));
        let call = self.inside(&index, self.private_dir.home()).words(["update-index", "-z", "--index-info"]);
        self.run(call.input(input))?.ok()?;
        let tree = self.write_tree(&index)?;
        folder::remove(&index).at(&index)?;
        let text = format!("Kept {id}: {named} saved while `{}` was moved", short(&record.target));
        let message = message(&text, &[("Ftl-Kept", id.as_str()), ("Ftl-Base", base.as_str())]);
        let when = ftl_folder::clock::wall() / 1000;
        self.enter_kept(&id, &Making { tree: &tree, parents: &[base], message, when }, &held)
    }
}

impl Transfer<'_> {
    /// Looks at every retained file. One that has changed goes into the checkout if what we have left there is
    /// untouched; otherwise it is kept under a ref. What a person should know of that.
    pub(super) fn look_again(&mut self) -> Result<Vec<String>, GitError> {
        let (mut returned, mut saves) = (Vec::new(), Vec::new());
        let placed = self.place_again(&mut saves)?;
        // What a file is known by is read before its bytes are: a later write gives it another time.
        let marks = self.marks().at(&self.files)?;
        for Retained { slot, number, .. } in self.retained().at(&self.files)? {
            let is_waiting = slot == Slot::Old && self.record.unplaced.contains(&number);
            if number >= self.changes.len() || is_waiting || self.is_settled(slot, number)? {
                continue;
            }
            if self.is_ours(number)? {
                self.settle(number, slot, false)?;
                returned.push(number);
            }
            if self.has(&self.slot(slot, number))? && !self.is_settled(slot, number)? {
                saves.push((slot, number));
            }
        }
        let mut notes = Vec::new();
        if !placed.is_empty() {
            let named = self.join_paths(&placed);
            notes.push(format!("{named} could not be put back before, and is in its place again"));
        }
        if !returned.is_empty() {
            let named = self.join_paths(&returned);
            notes.push(format!("{named} was saved meanwhile, and has what was saved"));
        }
        notes.extend(self.keep(&saves)?);
        if marks != self.record.marks || !notes.is_empty() {
            self.record.marks = marks;
            self.save()?;
        }
        Ok(notes)
    }

    /// Puts files of the person's back that could not be put back before; which. Those for which there is still no
    /// way are to be kept.
    fn place_again(&mut self, saves: &mut Vec<(Slot, usize)>) -> Result<Vec<usize>, GitError> {
        let mut placed = Vec::new();
        for number in self.record.unplaced.clone() {
            self.restore(number)?;
            if !self.is_unplaced(number)? {
                self.record.unplaced.remove(&number);
                placed.push(number);
            } else if !self.record.kept.contains_key(&Slot::Old.name(number)) {
                saves.push((Slot::Old, number));
            }
        }
        Ok(placed)
    }

    /// Whether a retained file is as it was, or was kept as it is.
    fn is_settled(&self, slot: Slot, number: usize) -> Result<bool, GitError> {
        let (name, file) = (slot.name(number), self.slot(slot, number));
        let found = self.repo.spot(&file).and_then(|spot| spot.metadata());
        if found.is_ok_and(|found| self.record.marks.get(&name) == Some(&marked(&found))) {
            return Ok(true);
        }
        if self.is_as_expected(slot, number)? {
            return Ok(true);
        }
        match self.record.kept.get(&name) {
            Some(kept) => Ok(self.repo.noted(&file, false)?.as_ref() == Some(kept)),
            None => Ok(false),
        }
    }

    fn retained(&self) -> io::Result<Vec<Retained>> {
        match self.repo.folder(&self.files) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            files => retained(&files?),
        }
    }

    /// Keeps retained files that have changed; what a person should know of that.
    fn keep(&mut self, saves: &[(Slot, usize)]) -> Result<Option<String>, GitError> {
        let mut noted = Vec::new();
        let mut stuck: Option<PathBuf> = None;
        for (slot, number) in saves {
            let file = self.slot(*slot, *number);
            match self.repo.noted(&file, true)? {
                Some(one) => noted.push((slot.name(*number), *number, one)),
                None => stuck = Some(file),
            }
        }
        if let Some(file) = stuck {
            let message = format!("what was in the checkout is in `{}` and cannot be kept", file.display());
            return Err(GitError::new(ErrorKind::Disk, message).hint("move it where it belongs by hand"));
        }
        if noted.is_empty() {
            return Ok(None);
        }
        let numbers: Vec<usize> = noted.iter().map(|(_, number, _)| *number).collect();
        let named = self.join_paths(&numbers);
        let paths: Vec<(&[u8], Noted)> =
            noted.iter().map(|(_, number, one)| (&*self.changes[*number].path, one.clone())).collect();
        let name = self.repo.keep_saves(&self.record, &paths, &named)?;
        self.record.kept.extend(noted.into_iter().map(|(slot, _, one)| (slot, one)));
        Ok(Some(format!("another save of {named} is kept as `{name}` (`ftl salvage` brings it back)")))
    }

    /// What retained files are known by. One that may change again within this tick of the clock is left out, so that
    /// it is compared once more.
    fn marks(&self) -> io::Result<BTreeMap<String, String>> {
        let settled = SystemTime::now().checked_sub(CLOCK_TICK).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_old = |seconds: i64, nanos: i64| {
            let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else {
                return false;
            };
            SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) < settled
        };
        let all = self.retained()?.into_iter().filter_map(|Retained { slot, number, found }| {
            let is_sure =
                is_old(found.mtime(), found.mtime_nsec()) && is_old(found.ctime(), found.ctime_nsec());
            is_sure.then(|| (slot.name(number), marked(&found)))
        });
        Ok(all.collect())
    }

    /// Paths in a sentence.
    pub(super) fn join_paths(&self, numbers: &[usize]) -> String {
        let path = |number: &usize| format!("`{}`", String::from_utf8_lossy(&self.changes[*number].path));
        let named = numbers.iter().take(MAX_NAMED).map(path).collect::<Vec<_>>().join(", ");
        match numbers.len().saturating_sub(MAX_NAMED) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

/// Whether a folder is one that a transfer has made.
fn is_id(name: &str) -> bool {
    name.split_once('-').is_some_and(|(run, own)| {
        ftl_folder::id::RunId::try_from(run.to_owned()).is_ok()
            && own.len() == 16
            && own.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
