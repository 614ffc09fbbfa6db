//! Worktrees: one per instance, under `.ftl/worktrees`, from the tip of the run's branch, on no branch.
//!
//! Opening one twice gives the same one. A worktree is closed by keeping what exists only there, moving it
//! out of every process's reach, looking once more, and only then removing it. Nothing is forced, and nothing
//! is believed that a file inside the worktree says.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::durable::Moment;
use super::error::At as _;
use super::error::CallbackError;
use super::error::unreadable;
use super::lock::Held;
use super::probe::{self, Seen, below, look, zeroed};
use super::stood::Stood;
use super::{ErrorKind, GitError, NOBODY, Oid, Repo, WorktreeEntry, WorktreeId, ledger};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::mark;
use ftl_folder::{Folder, NameIn};
use ftl_process::Cancel;

/// The most ignored files that a worktree gets a copy of.
pub const MAX_COPIED_FILES: usize = 256;

/// The largest ignored file that a worktree gets a copy of.
pub const MAX_COPIED_BYTES: u64 = 16 * 1024 * 1024;

/// The largest file that only says where something is.
const MAX_POINTER_BYTES: u64 = 64 * 1024;

/// How often the files of a worktree are read for one step, when objects go in between.
const MAX_READINGS: usize = 4;

/// A worktree that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The name: the run and the number of the instance.
    pub id: WorktreeId,
    /// The run that it belongs to.
    pub run: RunId,
    /// The folder with the files.
    pub path: PathBuf,
    /// The commit that its work is compared with.
    pub base: Oid,
}

/// How git came to know a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// Its folder is as it was.
    AsItStands,
    /// Git made the folder anew: nothing is in it.
    Anew,
}

/// A worktree, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorktreeRecord {
    pub(super) id: WorktreeId,
    pub(super) run: RunId,
    pub(super) base: Oid,
    /// Whether its files were laid and its setup was run.
    pub(super) ready: bool,
    /// Trees that stood here and are on the branch.
    pub(super) landed: Vec<Oid>,
    /// The tip that a conflict was with; lines that name it are what is left of the conflict.
    pub(super) conflict: Option<Oid>,
    /// Whether work of it is on the branch, merged with others' or not.
    #[serde(default)]
    pub(super) has_landed: bool,
    /// What stood in it when it was opened, until something else is noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stood: Option<Stood>,
}

/// What became of a worktree that was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseOutcome {
    /// The ref under which what existed only there is kept; none where nothing did.
    pub kept: Option<String>,
    /// The new place of a worktree that a person has moved away; it was left alone.
    pub moved_to: Option<PathBuf>,
}

/// How far the work in a worktree has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeProgress {
    /// The tree that is there.
    pub tree: Oid,
    /// How many commits were made there.
    pub commits: u64,
    /// The files that differ from the base; a name that is no UTF-8 is shown with replacement characters.
    pub files: Vec<String>,
    /// How many lines were added.
    pub added: u64,
    /// How many lines were removed.
    pub removed: u64,
}

impl Repo {
    /// Where a worktree of that name is or would be.
    pub fn path_of(&self, id: &WorktreeId) -> PathBuf {
        self.place.worktrees().join(id.as_str())
    }

    /// The folder in which git itself remembers a worktree. Its name is the worktree's: we made it.
    pub(super) fn admin(&self, id: &WorktreeId) -> PathBuf {
        self.common.join("worktrees").join(id.as_str())
    }

    /// Opens a worktree at the tip of a run's branch. `setup` is run in it once, with the ignored files
    /// already there; a worktree whose setup did not succeed is not open, and is set up again when it is
    /// asked for again.
    pub fn open_worktree(
        &self,
        id: &WorktreeId,
        run: &RunId,
        setup: &mut dyn FnMut(&Path) -> Result<(), CallbackError>,
    ) -> Result<Worktree, GitError> {
        let known = ledger::read::<WorktreeRecord>(&self.worktree_file(id))?;
        let before = match &known {
            Some(record) if record.ready => self.stood_before(id)?,
            Some(_) | None => None,
        };
        let is_open = |record: &&WorktreeRecord| record.ready && before.is_none() && self.stands(id);
        if let Some(record) = known.as_ref().filter(is_open) {
            return Ok(self.worktree_of(record));
        }
        let known = match known {
            Some(record) => Some(record),
            None => match self.standing_unrecorded(id, run)? {
                Some(record) => {
                    self.write(&self.worktree_file(id), &record)?;
                    return Ok(self.worktree_of(&record));
                }
                None => None,
            },
        };
        let record = match known {
            Some(record) => record,
            None => {
                let base = self.record(run)?.tip;
                let (id, run) = (id.clone(), run.clone());
                let record = WorktreeRecord {
                    id,
                    run,
                    base,
                    ready: false,
                    landed: vec![],
                    conflict: None,
                    has_landed: false,
                    stood: None,
                };
                // No agent has worked in it: what a power cut leaves of it without a record is set aside.
                self.write_lightly(&self.worktree_file(&record.id), &record)?;
                record
            }
        };
        let tree = match before {
            Some(stood) => self.restore(&record, &stood)?,
            None => self.make(&record.id, &record.base)?,
        };
        self.copy_ignored(&self.path_of(id))?;
        setup(&self.path_of(id)).map_err(|why| {
            GitError::new(ErrorKind::Unsuitable, format!("worktree {id} could not be set up: {why}"))
        })?;
        // What was noted of it before counts no more, and the record says what stands there now.
        self.make_objects_durable()?;
        let record = WorktreeRecord { ready: true, stood: Stood::now(&tree), ..record };
        self.write(&self.worktree_file(id), &record)?;
        self.forget_stood(id)?;
        Ok(self.worktree_of(&record))
    }

    /// A worktree that is open.
    pub fn worktree(&self, id: &WorktreeId) -> Result<Worktree, GitError> {
        Ok(self.worktree_of(&self.worktree_record(id)?))
    }

    /// Every worktree that is open or was left in the middle of being opened or closed.
    pub fn worktrees(&self) -> Result<Vec<Worktree>, GitError> {
        let folder = self.private_dir.home().join("worktrees");
        let mut found = Vec::new();
        for name in ftl_folder::names(&folder).at(&folder)? {
            let id = name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::parse);
            if let Some(Ok(id)) = id {
                found.push(self.worktree(&id)?);
            }
        }
        found.sort_by(|left, right| left.id.cmp(&right.id));
        Ok(found)
    }

    pub(super) fn worktree_record(&self, id: &WorktreeId) -> Result<WorktreeRecord, GitError> {
        let unknown = || GitError::new(ErrorKind::Unknown, format!("there is no worktree {id}"));
        ledger::read(&self.worktree_file(id))?.ok_or_else(unknown)
    }

    fn worktree_of(&self, record: &WorktreeRecord) -> Worktree {
        let path = self.path_of(&record.id);
        Worktree { id: record.id.clone(), run: record.run.clone(), path, base: record.base.clone() }
    }

    /// Whether a folder stands where a worktree belongs: a folder, and no link to one.
    pub(super) fn stands(&self, id: &WorktreeId) -> bool {
        ftl_folder::is_folder(&self.path_of(id))
    }

    /// Makes a worktree with its files. What was left of an earlier try is completed: until a worktree is
    /// ready no agent has worked in it, so laying its files again takes nothing away.
    /// The tree of the files then.
    pub(super) fn make(&self, id: &WorktreeId, commit: &Oid) -> Result<Oid, GitError> {
        let (path, index) = (self.path_of(id), self.index_file(id));
        let held = self.hold_repository()?;
        self.give_all_objects()?;
        if !self.is_registered(id) || !self.stands(id) {
            self.register(id, commit, &held)?;
            if self.wake(id, commit)? {
                self.give_index(id)?;
                return self.tree_of(commit);
            }
        }
        self.lay_all(&index, &path, commit)?;
        self.give_index(id)?;
        self.tree_of(commit)
    }

    /// Gives a worktree an index of its own: git finds what it needs to know about the files there, and need not
    /// read them all again.
    pub(super) fn give_index(&self, id: &WorktreeId) -> Result<(), GitError> {
        self.runner.step("copy index")?;
        let (index, theirs) = (self.index_file(id), self.admin(id).join("index"));
        ftl_folder::copy(&index, &theirs).at(&theirs)?;
        let given = mark(&ftl_folder::metadata(&theirs).at(&theirs)?);
        self.lock_given().insert(id.clone(), given);
        Ok(())
    }

    /// Whether the index of a worktree is the one that it was given: nothing was staged in it.
    pub(super) fn is_given(&self, id: &WorktreeId, found: &fs::Metadata) -> bool {
        self.lock_given().get(id).is_some_and(|given| *given == mark(found))
    }

    fn lock_given(&self) -> MutexGuard<'_, BTreeMap<WorktreeId, String>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether git knows the worktree, and the worktree git.
    pub(super) fn is_registered(&self, id: &WorktreeId) -> bool {
        self.is_registered_at(id, &self.path_of(id))
    }

    fn is_registered_at(&self, id: &WorktreeId, path: &Path) -> bool {
        let admin = self.admin(id);
        says(&path.join(".git")) == points_to(&admin)
            && says(&admin.join("gitdir")) == path.join(".git").as_os_str().as_bytes()
            && admin.join("HEAD").is_file()
    }

    /// Has git make the worktree, without files: git would run what the configuration names for them.
    pub(super) fn register(&self, id: &WorktreeId, commit: &Oid, held: &Held) -> Result<(), GitError> {
        self.check_identity()?;
        let folder = self.place.worktrees();
        ftl_folder::make(&folder).map_err(|error| match ftl_folder::FolderRefusal::of(&error) {
            Some(refusal) => GitError::new(ErrorKind::Unsuitable, refusal.to_string()).hint(refusal.hint()),
            None => error.into(),
        })?;
        if let Some(other) = self.moved_to(id) {
            let message = format!("git has a worktree {id} already, in `{}`", other.display());
            let hint = "remove it with `git worktree remove`, or go on there yourself";
            return Err(GitError::new(ErrorKind::Unsuitable, message).hint(hint));
        }
        self.set_aside(id)?;
        self.keep_commits_held(id, "its folder was gone", ftl_folder::clock::wall() / 1000, held)?;
        self.forget(id)?;
        self.register_at(id, &self.path_of(id), commit, held).map(drop)
    }

    /// Has git know a worktree that is or will be in that folder. Where git must make it itself, nothing may be there.
    pub(super) fn register_at(
        &self,
        id: &WorktreeId,
        path: &Path,
        commit: &Oid,
        held: &Held,
    ) -> Result<Registered, GitError> {
        if self.enrol_at(id, path, commit)? {
            return Ok(Registered::AsItStands);
        }
        let words = ["worktree", "add", "--quiet", "--no-checkout", "--detach"];
        let call = self.at_home(&self.common).words(["-c", "worktree.useRelativePaths=false"]).words(words);
        let call = call.words([path.as_os_str()]).words([commit.as_str()]).under(held.file());
        self.run(call)?.ok()?;
        if self.is_registered_at(id, path) {
            return Ok(Registered::Anew);
        }
        let message = format!("git made worktree {id} in another way than it was asked to");
        Err(GitError::new(ErrorKind::Git, message))
    }

    /// Writes down a worktree as git does it, where git would do no more than that: git starts itself several
    /// times for it. Whether it was done; nothing is left of it if not.
    pub(super) fn enrol_at(&self, id: &WorktreeId, path: &Path, commit: &Oid) -> Result<bool, GitError> {
        if !self.can_enrol() {
            return Ok(false);
        }
        self.runner.step("enrol worktree")?;
        let admin = self.admin(id);
        let made = self.private_dir.home().join("trash").join(format!("{id}.admin"));
        remove_whole(&made)?;
        let (logs, refs, above) = (made.join("logs"), made.join("refs"), self.common.join("worktrees"));
        for folder in [path, &logs, &refs] {
            ftl_folder::make(folder).at(folder)?;
        }
        fs::create_dir_all(&above).at(&above)?;
        let (name, email) = NOBODY;
        let (nothing, now) = (self.private_dir.nothing(), ftl_folder::clock::wall() / 1000);
        let put = |file: &Path, bytes: &[u8]| ftl_folder::write(file, bytes).at(file);
        put(&path.join(".git"), &[&points_to(&admin), b"\n".as_slice()].concat())?;
        put(&made.join("gitdir"), &[path.join(".git").as_os_str().as_bytes(), b"\n"].concat())?;
        put(&made.join("commondir"), b"../..\n")?;
        put(&logs.join("HEAD"), format!("{nothing} {commit} {name} <{email}> {now} +0000\n").as_bytes())?;
        put(&made.join("HEAD"), format!("{commit}\n").as_bytes())?;
        // One that is gone in a moment need not be on the disk.
        if ftl_folder::is_file(&self.worktree_file(id)) {
            let head = ftl_folder::open(&made.join("HEAD"), ftl_folder::OpenMode::Read);
            head.and_then(|file| file.sync_all()).at(&made)?;
        }
        // It is there as a whole or not at all: a `git worktree prune` meanwhile finds nothing half done.
        if ftl_folder::rename(&made, &admin).is_ok() && self.is_registered_at(id, path) {
            return Ok(true);
        }
        remove_whole(&made)?;
        remove_whole(path)?;
        Ok(false)
    }

    /// Whether worktrees are written down here as git would do it. Settings of single worktrees, and refs that are no
    /// files, are git's own business.
    pub(super) fn can_enrol(&self) -> bool {
        self.has_plain_refs() && fs::symlink_metadata(self.common.join("config.worktree")).is_err()
    }

    /// Something that stands where a worktree belongs and that git does not know: it is moved away, and removed
    /// only where it holds nothing but the file that git makes first.
    pub(super) fn set_aside(&self, id: &WorktreeId) -> Result<(), GitError> {
        let path = self.path_of(id);
        if ftl_folder::metadata(&path).is_err() {
            return Ok(());
        }
        self.runner.step("set aside")?;
        let is_bare = |folder: Folder| {
            let is_pointer = |name: &OsString| name == ".git" && folder.file(name).is_ok();
            folder.names().is_ok_and(|names| names.iter().all(is_pointer))
        };
        if Folder::open(&path).is_ok_and(is_bare) {
            return remove_whole(&path);
        }
        let own = ftl_folder::id::random()?;
        let aside = self.place.worktrees().join(format!("{id}.aside-{own:016x}"));
        ftl_folder::rename(&path, &aside).at(&path)
    }

    /// Has git forget a worktree. Its folder in git is ours by its name; what only it knows was kept.
    pub(super) fn forget(&self, id: &WorktreeId) -> Result<(), GitError> {
        self.check_identity()?;
        let admin = self.admin(id);
        match self.spot(&admin).and_then(|spot| spot.metadata()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).at(&admin),
            Ok(_) => self.runner.step("forget worktree")?,
        }
        self.remove_moved(&admin)
    }

    /// Copies the ignored files that are listed from the person's checkout. A file that the worktree has already
    /// stays.
    pub fn copy_ignored(&self, to: &Path) -> Result<(), GitError> {
        if self.settings.copied.is_empty() {
            return Ok(());
        }
        self.runner.step("copy ignored files")?;
        let index = self.private_dir.home().join("index").join("none");
        let found = self.list_ignored(&index, &self.top)?;
        if found.len() > MAX_COPIED_FILES {
            let message = format!("{} ignored files would be copied into each worktree", found.len());
            let hint = format!("list fewer; {MAX_COPIED_FILES} are allowed");
            return Err(GitError::new(ErrorKind::TooMuch, message).hint(hint));
        }
        found.iter().try_for_each(|path| copy(&self.top, to, path))
    }

    /// The files of a folder that the settings list and that are neither ours nor another repository's.
    pub(super) fn list_ignored(&self, index: &Path, folder: &Path) -> Result<Vec<Vec<u8>>, GitError> {
        let patterns = self.settings.copied.iter().map(|pattern| format!(":(glob){pattern}"));
        let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"];
        let call = self.inside(index, folder).words(words).words(patterns);
        let out = self.run(call)?.ok()?;
        let state = self.place.state();
        let is_ours = |path: &[u8]| below(folder, path).starts_with(&state) && folder == self.top;
        let files = zeroed(&out).filter(|path| !path.ends_with(b"/") && !is_ours(path));
        Ok(files.map(<[u8]>::to_vec).collect())
    }

    /// What is in a worktree now.
    pub fn tree(&self, id: &WorktreeId) -> Result<WorktreeEntry, GitError> {
        let base = self.worktree_record(id)?.base;
        if !self.stands(id) {
            let message = format!("worktree {id} is not where it was made");
            return Err(
                GitError::new(ErrorKind::Stale, message).hint("its last kept work can be brought back")
            );
        }
        // Git itself refuses when two look through one index at the same time.
        let _turn = self.hold(&format!("index.{id}"), &Cancel::new())?;
        self.reading_again(id, &mut || {
            let standing = self.stand(&self.index_file(id), &self.path_of(id), &base)?;
            self.note_stood(id, &standing.tree)?;
            Ok(standing)
        })
    }

    /// Does something with what is in a worktree; where objects have gone meanwhile, the files are read again and
    /// it is done again, so often at most.
    pub(super) fn reading_again<T>(
        &self,
        id: &WorktreeId,
        act: &mut dyn FnMut() -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        for _ in 1..MAX_READINGS {
            match act() {
                Err(error) if error.trouble == ErrorKind::Missing => self.forget_index(id)?,
                done => return done,
            }
        }
        let hint = "somebody prunes the repository; `ftl resume` reads the files of the worktree again, `ftl doctor` \
                    tells what is missing";
        act().map_err(|error| if error.trouble == ErrorKind::Missing { error.hint(hint) } else { error })
    }

    /// Forgets what our index says about the files of a worktree: they are all read again, and their objects written
    /// again.
    fn forget_index(&self, id: &WorktreeId) -> Result<(), GitError> {
        self.runner.step("forget index")?;
        let index = self.index_file(id);
        remove_whole(&index)?;
        self.forget_known(&index);
        self.read_tree(&index, &self.worktree_record(id)?.base)?;
        // What is as it was need not be read the next time. That some are not is no failure.
        let call = self.inside(&index, &self.path_of(id)).words(["update-index", "-q", "--refresh"]);
        self.run(call).map(drop)
    }

    /// How far the work in a worktree has come.
    pub fn progress(&self, id: &WorktreeId) -> Result<WorktreeProgress, GitError> {
        let record = self.worktree_record(id)?;
        let tree = self.tree(id)?.tree;
        let words = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let call = self.about_objects().words(words).words([record.base.as_str(), tree.as_str()]);
        let out = self.run(call)?.ok()?;
        let (mut files, mut added, mut removed) = (Vec::new(), 0, 0);
        for line in zeroed(&out) {
            let mut parts = line.splitn(3, |byte| *byte == b'\t');
            let (Some(more), Some(less), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(unreadable(line));
            };
            // A file that is no text has no lines.
            let count =
                |bytes| std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            let (more, less): (u64, u64) = (count(more), count(less));
            (added, removed) = (added + more, removed + less);
            files.push(String::from_utf8_lossy(path).into_owned());
        }
        let commits = self.own_commits(id, &record.base)?.len() as u64;
        Ok(WorktreeProgress { tree, commits, files, added, removed })
    }

    /// Closes a worktree: keeps what exists only there, then removes it. Closing one that is closed
    /// changes nothing.
    pub fn close_worktree(&self, id: &WorktreeId, why: &str, when: u64) -> Result<CloseOutcome, GitError> {
        if ledger::read::<WorktreeRecord>(&self.worktree_file(id))?.is_none() {
            self.empty_trash(id)?;
            return Ok(CloseOutcome { kept: self.last_kept(id)?, moved_to: None });
        }
        let trash = self.trash(id);
        let moved_to = self.moved_to(id);
        let mut kept = None;
        let mut since = None;
        if self.stands(id) {
            since = Some(self.moment()?);
            kept = self.keep(id, why, when)?;
            self.runner.step("move worktree to trash")?;
            ftl_folder::rename(&self.path_of(id), &trash).at(&self.path_of(id))?;
        }
        if ftl_folder::is_folder(&trash) {
            // A process that still had a file open could write until a moment ago.
            if since.is_none_or(|since| changed_since(&trash, since).unwrap_or(true)) {
                kept = self.keep_from(id, &trash, why, when)?.or(kept);
            }
        } else if moved_to.is_none() {
            kept = self.keep_commits(id, why, when)?.or(kept);
        }
        if moved_to.is_none() {
            self.forget(id)?;
        }
        if ftl_folder::is_folder(&trash) {
            self.rest(id, &trash)?;
        }
        self.strike(&self.worktree_file(id))?;
        self.strike(&self.index_file(id))?;
        self.forget_known(&self.index_file(id));
        self.forget_stood(id)?;
        self.empty_trash(id)?;
        self.tidy_objects()?;
        Ok(CloseOutcome {
            kept: match kept {
                Some(name) => Some(name),
                None => self.last_kept(id)?,
            },
            moved_to,
        })
    }

    /// Removes checkouts of a run that earlier versions have made beside its worktrees to look at them, and were killed
    /// over.
    pub(super) fn drop_checkouts_of_earlier_versions(&self, run: &RunId) -> Result<(), GitError> {
        for id in WorktreeId::scratches(run) {
            let path = self.path_of(&id);
            if ftl_folder::metadata(&path).is_err() {
                continue;
            }
            let _held = self.hold_repository()?;
            self.runner.step("remove scratch")?;
            remove_whole(&path)?;
            self.forget(&id)?;
            self.strike(&self.index_file(&id))?;
        }
        Ok(())
    }

    pub(super) fn trash(&self, id: &WorktreeId) -> PathBuf {
        self.private_dir.home().join("trash").join(id.as_str())
    }

    fn empty_trash(&self, id: &WorktreeId) -> Result<(), GitError> {
        let trash = self.trash(id);
        if ftl_folder::metadata(&trash).is_err() {
            return Ok(());
        }
        self.runner.step("empty trash")?;
        remove_whole(&trash)
    }

    /// Where a worktree went that was moved with git.
    fn moved_to(&self, id: &WorktreeId) -> Option<PathBuf> {
        let file = probe::path(&says(&self.admin(id).join("gitdir"))).to_owned();
        let folder = file.parent()?.to_owned();
        let is_elsewhere = folder.is_absolute() && folder != self.path_of(id) && folder != self.trash(id);
        (is_elsewhere && says(&file) == points_to(&self.admin(id))).then_some(folder)
    }
}

/// What a small file says, without its last newline; nothing where it cannot be read.
pub(super) fn says(file: &Path) -> Vec<u8> {
    let mut text = probe::read_file(file, MAX_POINTER_BYTES).unwrap_or_default();
    if text.ends_with(b"\n") {
        text.pop();
    }
    text
}

/// What the `.git` file of a worktree says.
pub(super) fn points_to(admin: &Path) -> Vec<u8> {
    [b"gitdir: ", admin.as_os_str().as_bytes()].concat()
}

/// Whether anything below a folder has changed since a moment, or in it.
fn changed_since(folder: &Path, since: Moment) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        let changed = (found.ctime(), found.ctime_nsec()) >= since;
        if changed || (found.is_dir() && changed_since(&path, since)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Copies one file, following no link at either end.
fn copy(from: &Path, to: &Path, path: &[u8]) -> Result<(), GitError> {
    let (source, target) = (below(from, path), below(to, path));
    let free = matches!(look(to, path).at(&target)?, Seen::Nothing { blocked: false });
    if !free || !matches!(look(from, path).at(&source)?, Seen::File(_)) {
        return Ok(());
    }
    let path = probe::path(path);
    let mut open = NameIn::below(from, path).and_then(|spot| spot.open()).at(&source)?;
    let found = open.metadata().at(&source)?;
    if found.len() > MAX_COPIED_BYTES {
        let message = format!("`{}` is larger than {MAX_COPIED_BYTES} bytes", source.display());
        return Err(GitError::new(ErrorKind::TooMuch, message).hint("list smaller files to be copied"));
    }
    ftl_folder::make_below(to, path.parent().unwrap_or(Path::new(""))).at(&target)?;
    let mode = found.permissions().mode() & 0o777;
    let mut new = NameIn::below(to, path).and_then(|spot| spot.create(mode)).at(&target)?;
    io::copy(&mut open, &mut new).at(&target).map(drop)
}

/// Removes a folder with all that is in it, or the link or file that stands in its place. Folders that
/// may not be written to are made writable first: they are about to go.
pub(super) fn remove_whole(path: &Path) -> Result<(), GitError> {
    ftl_folder::remove_whole(path).at(path).map(drop)
}
