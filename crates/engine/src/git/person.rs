//! The person's checkout: their branch, their index and their files, moved together or not at all.
//!
//! Only files that the move concerns are looked at and written. Each must be as the old commit has it, or
//! as the new one has it, which is what a move that was interrupted leaves; anything else, and anything
//! that is in the way, means that nothing is moved. Git's own lock on the index is held meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::branch::short;
use super::error::At as _;
use super::lock::Held;
use super::look::{self, Seen, below, look, zeroed};
use super::runner::Input;
use super::tree::{Differing, Entry, MODE_SUBMODULE, unlock, unreadable};
use super::worktree::says;
use super::{GitError, Identity, Oid, Repo, Trouble};

/// How often the lock on the index is tried; whoever looks at the status has it for a moment.
const LOCK_TRIES: usize = 40;

/// How long between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// How many paths a sentence names.
const MAX_NAMED: usize = 5;

/// What moving the person's branch came to.
pub(super) enum Moved {
    /// It is there.
    Done,
    /// Nothing was moved; this is why.
    Refused(String),
}

/// Where a branch is checked out.
enum Reach {
    /// Nowhere.
    Free,
    /// In the person's checkout.
    Here,
    /// Where we must not go; this is why.
    Barred(String),
}

/// What is in the middle of something, by the files that git leaves meanwhile.
const IN_PROGRESS: [(&str, &str); 7] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
    ("sequencer", "a series of commits"),
];

impl Repo {
    /// Moves a branch of the person's from one commit to another, with the checkout if it is there.
    pub(super) fn move_person(
        &self,
        target: &str,
        from: &Oid,
        to: &Oid,
        held: &Held,
    ) -> Result<Moved, GitError> {
        match self.reach(target)? {
            Reach::Barred(why) => Ok(Moved::Refused(why)),
            Reach::Free => self.move_branch(target, from, to, held),
            Reach::Here => self.move_checkout(target, from, to, held),
        }
    }

    fn reach(&self, target: &str) -> Result<Reach, GitError> {
        let name = short(target);
        if let Some(folder) = self.rebased_in(target)? {
            let folder = folder.display();
            return Ok(Reach::Barred(format!("`{name}` is being rebased (see `{folder}`)")));
        }
        let mut here = self.is_here_alone(target);
        let asked =
            if here { Vec::new() } else { self.ask(["worktree", "list", "--porcelain", "-z"])?.ok()? };
        let mut at = PathBuf::new();
        for line in zeroed(&asked) {
            if let Some(path) = line.strip_prefix(b"worktree ") {
                at = look::path(path).to_owned();
            } else if line.strip_prefix(b"branch ") == Some(target.as_bytes()) {
                if at.canonicalize().is_ok_and(|at| at != self.top) {
                    let at = at.display();
                    return Ok(Reach::Barred(format!("`{name}` is checked out in `{at}`")));
                }
                here = here || at.exists();
            }
        }
        if !here {
            return Ok(Reach::Free);
        }
        let found = IN_PROGRESS.iter().find(|(file, _)| self.own.join(file).exists());
        Ok(match found {
            Some((_, what)) => Reach::Barred(format!("{what} is in progress in the checkout")),
            None => Reach::Here,
        })
    }

    /// Whether it is plain to see that a branch is checked out in the person's checkout and nowhere else.
    fn is_here_alone(&self, target: &str) -> bool {
        let named = [b"ref: ", target.as_bytes()].concat();
        let names = |folder: &Path| says(&folder.join("HEAD")) == named;
        self.has_plain_refs()
            && !self.is_bare
            && self.own == self.common
            && names(&self.own)
            && self.git_folders().is_ok_and(|all| all.iter().skip(1).all(|other| !names(other)))
    }

    /// The git folders of the repository: the one that is shared, then those of worktrees.
    fn git_folders(&self) -> Result<Vec<PathBuf>, GitError> {
        let mut folders = vec![self.common.clone()];
        let linked = self.common.join("worktrees");
        match fs::read_dir(&linked) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            all => {
                for entry in all.at(&linked)? {
                    folders.push(entry.at(&linked)?.path());
                }
            }
        }
        Ok(folders)
    }

    /// A git folder in which a branch is being rebased.
    fn rebased_in(&self, target: &str) -> Result<Option<PathBuf>, GitError> {
        let is_rebased = |folder: &PathBuf| {
            let mut names = ["rebase-merge", "rebase-apply"].iter();
            names.any(|name| says(&folder.join(name).join("head-name")) == target.as_bytes())
        };
        Ok(self.git_folders()?.into_iter().find(is_rebased))
    }

    /// Moves a branch that nobody has checked out.
    fn move_branch(&self, target: &str, from: &Oid, to: &Oid, held: &Held) -> Result<Moved, GitError> {
        let found = self.resolve(target)?;
        if found.as_ref() == Some(to) {
            return Ok(Moved::Done);
        }
        if found.as_ref() != Some(from) {
            return Ok(Moved::Refused(moved_on(target)));
        }
        self.move_refs(&[(target.to_owned(), to, Some(from.clone()))], held)?;
        Ok(Moved::Done)
    }

    fn move_checkout(&self, target: &str, from: &Oid, to: &Oid, held: &Held) -> Result<Moved, GitError> {
        let changes = self.differing(from, to)?;
        if let Some(why) = self.conversions(&changes)? {
            return Ok(Moved::Refused(why));
        }
        self.check_identity()?;
        let Some(lock) = IndexLock::take(self)? else {
            let why = "another git command is working in the checkout (`index.lock` is there)";
            return Ok(Moved::Refused(String::from(why)));
        };
        let (found, index) = match self.look_first(target, (from, to), &changes) {
            Ok(Ok(looked)) => looked,
            Ok(Err(why)) => return lock.release(self).map(|()| Moved::Refused(why)),
            Err(error) => {
                // Nothing was moved yet, so nobody need be kept out; unless an earlier try has left it half way.
                if !lock.was_left {
                    lock.release(self)?;
                }
                return Err(error);
            }
        };
        match self.move_files((target, found), (from, to), (&changes, &index), held)? {
            Ok(()) => lock.install(self, &index).map(|()| Moved::Done),
            Err(why) => lock.release(self).map(|()| Moved::Refused(why)),
        }
    }

    /// Where the branch is, and a copy of the person's index; or why nothing can be moved.
    fn look_first(
        &self,
        target: &str,
        (from, to): (&Oid, &Oid),
        changes: &[Differing],
    ) -> Result<Result<(Option<Oid>, PathBuf), String>, GitError> {
        let found = self.resolve(target)?;
        if found.as_ref() != Some(from) && found.as_ref() != Some(to) {
            return Ok(Err(moved_on(target)));
        }
        let index = self.chamber.home().join("index").join("person");
        let theirs = self.own.join("index");
        unlock(&index)?;
        fs::copy(&theirs, &index).at(&theirs)?;
        Ok(match self.in_the_way(&index, changes)? {
            Some(why) => Err(why),
            None => Ok((found, index)),
        })
    }

    /// Writes the files and moves the ref; or why nothing was moved. An error in between leaves the lock: the
    /// checkout is half way, and the same move asked again completes it.
    fn move_files(
        &self,
        (target, found): (&str, Option<Oid>),
        (from, to): (&Oid, &Oid),
        (changes, index): (&[Differing], &Path),
        held: &Held,
    ) -> Result<Result<(), String>, GitError> {
        self.lay(index, &self.top, changes)?;
        if found.as_ref() == Some(from)
            && self.move_refs(&[(target.to_owned(), to, Some(from.clone()))], held).is_err()
        {
            self.lay(index, &self.top, &turned(changes))?;
            return Ok(Err(moved_on(target)));
        }
        Ok(Ok(()))
    }

    /// Why the checkout cannot take a change as bytes: then it is the person's own git that must do it.
    fn conversions(&self, changes: &[Differing]) -> Result<Option<String>, GitError> {
        if changes
            .iter()
            .any(|change| [&change.before, &change.after].iter().any(|side| side.mode == MODE_SUBMODULE))
        {
            return Ok(Some(String::from("a submodule would change")));
        }
        let is_rule =
            |change: &&Differing| change.path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes");
        if let Some(change) = changes.iter().find(is_rule) {
            // It may have the person's own git run what their settings name.
            let path = String::from_utf8_lossy(&change.path);
            return Ok(Some(format!("`{path}` would change, and with it what your git does to files")));
        }
        // Neither waits for the other.
        let (listed, converted) = std::thread::scope(|scope| {
            let converted = scope.spawn(|| self.converted(changes));
            (self.as_person(["config", "--list", "-z"]), converted.join())
        });
        for line in zeroed(&listed?.ok()?) {
            let text = String::from_utf8_lossy(line).to_lowercase();
            let set = |key: &str, bad: &[&str]| {
                text.split_once('\n').is_some_and(|(name, value)| name == key && bad.contains(&value))
            };
            let yes = ["true", "yes", "on", "1"];
            if set("core.autocrlf", &yes) || set("core.eol", &["crlf"]) {
                return Ok(Some(String::from("the checkout converts the ends of lines")));
            }
            if set("core.sparsecheckout", &yes) || set("core.splitindex", &yes) {
                return Ok(Some(String::from("the checkout is a sparse one, or its index is split")));
            }
        }
        converted
            .unwrap_or_else(|_| Err(GitError::new(Trouble::Git, "git could not be asked about attributes")))
    }

    /// Whether an attribute says that a file in the checkout is not what the repository holds.
    fn converted(&self, changes: &[Differing]) -> Result<Option<String>, GitError> {
        let paths: Vec<&[u8]> = changes.iter().map(|change| &*change.path).collect();
        let words = ["check-attr", "-z", "--stdin", "filter", "working-tree-encoding", "ident", "eol"];
        let call = super::runner::Call::new(&self.top).var("GIT_DIR", &self.own);
        let call = call.var("GIT_WORK_TREE", &self.top).words(words).input(Input::Bytes(paths.join(&0)));
        let out = self.run(call)?.ok()?;
        let mut parts = out.split(|byte| *byte == 0);
        while let (Some(path), Some(attribute), Some(value)) = (parts.next(), parts.next(), parts.next()) {
            let harmless: &[&[u8]] = &[b"unspecified", b"unset", b"lf"];
            if !harmless.contains(&value) {
                let (path, attribute) = (String::from_utf8_lossy(path), String::from_utf8_lossy(attribute));
                return Ok(Some(format!("`{path}` is converted by your git (attribute `{attribute}`)")));
            }
        }
        Ok(None)
    }

    /// What is in the way of a change, in a sentence. The index is a copy of the person's.
    fn in_the_way(&self, index: &Path, changes: &[Differing]) -> Result<Option<String>, GitError> {
        let entries = self.entries(index, changes)?;
        // What their git takes for unchanged although its bytes are others: ends of lines, mostly.
        let mut dirty: Option<BTreeSet<Vec<u8>>> = None;
        let going: BTreeSet<&[u8]> =
            changes.iter().filter(|change| !change.after.is_there()).map(|change| &*change.path).collect();
        let mut bad = Vec::new();
        for change in changes {
            let path = &change.path;
            let (staged, looked_at) = match entries.get(path.as_slice()) {
                Some(found) => (Some(&found.entry), found.is_looked_at),
                None => (None, false),
            };
            let mut is_old = staged == Some(&change.before);
            if is_old && !self.is_as(&self.top, path, &change.before)? {
                let dirty = match &mut dirty {
                    Some(dirty) => dirty,
                    None => dirty.insert(self.dirty(index)?),
                };
                is_old = looked_at && !dirty.contains(path.as_slice());
            }
            let is_new = !is_old && self.is_as(&self.top, path, &change.after)?;
            let seen = look(&self.top, path).at(&below(&self.top, path))?;
            let known = [&change.before, &change.after]
                .iter()
                .any(|side| staged.map_or(!side.is_there(), |found| found == *side));
            let free = match (change.before.is_there(), seen) {
                (true, Seen::Nothing { .. }) => !change.after.is_there(),
                (true, _) => is_old,
                (false, Seen::Nothing { blocked }) => !blocked || leads_through(path, &going),
                (false, Seen::Folder) => self.empties(path, &going)?,
                (false, Seen::File(_) | Seen::Link | Seen::Special) => false,
            };
            if !known || !(free || is_new) {
                bad.push(String::from_utf8_lossy(path).into_owned());
            }
        }
        Ok(sentence(&bad))
    }

    /// What the index has at the paths of a change. An entry in a conflict is none that could be known.
    fn entries(&self, index: &Path, changes: &[Differing]) -> Result<BTreeMap<Vec<u8>, Staged>, GitError> {
        let wanted: BTreeSet<&[u8]> = changes.iter().map(|change| &*change.path).collect();
        let out = self.run(self.inside(index, &self.top).words(["ls-files", "-z", "-s", "-v"]))?.ok()?;
        let mut found = BTreeMap::new();
        for line in zeroed(&out) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { return Err(unreadable(line)) };
            let path = &line[tab + 1..];
            if !wanted.contains(path) {
                continue;
            }
            let head = String::from_utf8_lossy(&line[..tab]).into_owned();
            let words: Vec<&str> = head.split(' ').collect();
            let [tag, mode, oid, stage] = words[..] else { return Err(unreadable(line)) };
            let mode = u32::from_str_radix(mode, 8).map_err(|_| unreadable(line))?;
            // A mode that no tree has equals neither side.
            let mode = if tag.eq_ignore_ascii_case("h") && stage == "0" { mode } else { u32::MAX };
            // A small letter is a file that git was told to take for unchanged.
            let (entry, is_looked_at) = (Entry { mode, oid: oid.parse()? }, tag == "H");
            found.insert(path.to_vec(), Staged { entry, is_looked_at });
        }
        Ok(found)
    }

    /// The files that are not as an index has them.
    fn dirty(&self, index: &Path) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let call = self.inside(index, &self.top).words(["ls-files", "-z", "--modified", "--deleted"]);
        let out = self.run(call)?.ok()?;
        Ok(zeroed(&out).map(<[u8]>::to_vec).collect())
    }

    /// Whether a folder holds nothing but files that go.
    fn empties(&self, path: &[u8], going: &BTreeSet<&[u8]>) -> Result<bool, GitError> {
        let folder = below(&self.top, path);
        for entry in fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let name = std::os::unix::ffi::OsStrExt::as_bytes(&*entry.file_name()).to_vec();
            let inner = [path, b"/", &name].concat();
            let is_folder = entry.file_type().at(&folder)?.is_dir();
            let goes =
                if is_folder { self.empties(&inner, going)? } else { going.contains(inner.as_slice()) };
            if !goes {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What the person's index has at a path.
struct Staged {
    entry: Entry,
    /// Whether git looks at the file at all.
    is_looked_at: bool,
}

fn moved_on(target: &str) -> String {
    format!("`{}` is not where it was any more", short(target))
}

/// Whether the way to a path leads through a file that goes.
fn leads_through(path: &[u8], going: &BTreeSet<&[u8]>) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.into_iter().any(|(end, _)| going.contains(&path[..end]))
}

fn turned(changes: &[Differing]) -> Vec<Differing> {
    let turn = |change: &Differing| Differing {
        path: change.path.clone(),
        before: change.after.clone(),
        after: change.before.clone(),
    };
    changes.iter().map(turn).collect()
}

fn sentence(bad: &[String]) -> Option<String> {
    let named = bad.iter().take(MAX_NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    let more = bad.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!bad.is_empty()).then(|| format!("the checkout has changes of its own in {named}{more}"))
}

/// Git's lock on the person's index, made so that one of ours that was left by a crash is known.
struct IndexLock {
    lock: PathBuf,
    own: PathBuf,
    /// Whether one of ours was there already: the checkout may be half way.
    was_left: bool,
}

impl IndexLock {
    /// Takes the lock; nothing where somebody else has it and keeps it.
    fn take(repo: &Repo) -> Result<Option<IndexLock>, GitError> {
        repo.runner.step("lock the index")?;
        let (lock, own) = (repo.own.join("index.lock"), repo.own.join("ftl-index.lock"));
        let mut was_left = false;
        if let Ok(left) = Identity::of(&own) {
            was_left = Identity::of(&lock).is_ok_and(|found| found == left);
            if was_left {
                fs::remove_file(&lock).at(&lock)?;
            }
            fs::remove_file(&own).at(&own)?;
        }
        fs::OpenOptions::new().write(true).create_new(true).open(&own).at(&own)?;
        for _ in 0..LOCK_TRIES {
            match fs::hard_link(&own, &lock) {
                Ok(()) => return Ok(Some(IndexLock { lock, own, was_left })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error).at(&lock),
            }
        }
        fs::remove_file(&own).at(&own)?;
        Ok(None)
    }

    /// Puts an index in the place of the person's; the lock is gone with that.
    fn install(&self, repo: &Repo, index: &Path) -> Result<(), GitError> {
        repo.runner.step("install the index")?;
        let theirs = repo.own.join("index");
        let mode = fs::metadata(&theirs).at(&theirs)?.permissions();
        let bytes = fs::read(index).at(index)?;
        fs::write(&self.lock, bytes).at(&self.lock)?;
        fs::set_permissions(&self.lock, mode).at(&self.lock)?;
        fs::File::open(&self.lock).and_then(|open| open.sync_all()).at(&self.lock)?;
        fs::rename(&self.lock, &theirs).at(&theirs)?;
        repo.runner.step("index installed")?;
        fs::remove_file(&self.own).at(&self.own)
    }

    fn release(&self, repo: &Repo) -> Result<(), GitError> {
        repo.runner.step("unlock the index")?;
        fs::remove_file(&self.lock).at(&self.lock)?;
        fs::remove_file(&self.own).at(&self.own)
    }
}
