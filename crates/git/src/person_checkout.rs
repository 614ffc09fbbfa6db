//! The person's checkout: their branch, their index and their files, moved together or not at all.
//!
//! Only files that the move concerns are looked at. Each must be as the old commit has it, or as the new one
//! has it; anything else, and anything that is in the way, means that nothing is moved. The files themselves
//! are moved by a transfer. Git's own lock on the index is held meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::branch::short;
use super::entry::MODE_SUBMODULE;
use super::error::At as _;
use super::error::unreadable;
use super::index_lock::{IndexLock, LOCKED};
use super::lock::Held;
use super::probe::{self, Seen, below, look, zeroed};
use super::runner::Input;
use super::transfer::{Expected, Move, Transfer};
use super::tree::{Differing, Entry, unlock};
use super::worktree::says;
use super::{ErrorKind, GitError, Repo};
use ftl_folder::{self as folder, OpenMode};

/// How many paths a sentence names.
const MAX_NAMED: usize = 5;

/// The most files that an index is told of by name; with more it looks at all of them, which is quicker.
const MAX_REFRESHED: usize = 256;

/// What moving the person's branch came to.
pub(super) enum Moved {
    /// It is there. What a person should know besides, in sentences.
    Done(Vec<String>),
    /// Nothing was moved; this is why.
    Refused(String),
}

/// Where a branch is checked out.
enum Reach {
    /// It is checked out nowhere, and only the ref has to move.
    Free,
    /// In the person's checkout.
    Here,
    /// Where we must not go; this is why.
    Barred(String),
}

/// What is in the middle of something, by the files that git leaves meanwhile.
pub(super) const IN_PROGRESS: [(&str, &str); 7] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
    ("sequencer", "a series of commits"),
];

impl Repo {
    /// Moves a branch of the person's from one commit to another, with the checkout if it is there. The caller
    /// has the turn to deliver.
    pub(super) fn move_person(&self, moving: Move<'_>, held: &Held) -> Result<Moved, GitError> {
        let before = self.settle_transfers()?;
        let moved = match self.reach(moving.target)? {
            Reach::Barred(why) => Moved::Refused(why),
            Reach::Free => self.move_branch(moving, held)?,
            Reach::Here => self.move_checkout(moving, held)?,
        };
        Ok(match moved {
            Moved::Refused(why) => Moved::Refused(with_notes(why, &before)),
            Moved::Done(notes) => Moved::Done(before.into_iter().chain(notes).collect()),
        })
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
                at = probe::path(path).to_owned();
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

    /// Moves a branch that no worktree has checked out.
    fn move_branch(&self, moving: Move<'_>, held: &Held) -> Result<Moved, GitError> {
        let Move { target, from, to, .. } = moving;
        let found = self.resolve(target)?;
        if found.as_ref() == Some(to) {
            return Ok(Moved::Done(Vec::new()));
        }
        if found.as_ref() != Some(from) {
            return Ok(Moved::Refused(moved_on(target)));
        }
        self.move_refs(&[(target.to_owned(), to, Some(from.clone()))], held)?;
        Ok(Moved::Done(Vec::new()))
    }

    fn move_checkout(&self, moving: Move<'_>, held: &Held) -> Result<Moved, GitError> {
        let changes = self.differing(moving.from, moving.to)?;
        if let Some(why) = self.conversions(&changes)? {
            return Ok(Moved::Refused(why));
        }
        if let Some(why) = self.unmovable(&changes)? {
            return Ok(Moved::Refused(why));
        }
        self.check_identity()?;
        let is_there = self.resolve(moving.target)?.as_ref() == Some(moving.to);
        let Some(lock) = IndexLock::take(self)? else {
            return Ok(Moved::Refused(String::from(LOCKED)));
        };
        if is_there && !lock.was_left {
            // It was moved before, and what was left half way then is at its end.
            return lock.release(self).map(|()| Moved::Done(Vec::new()));
        }
        let moved = match self.look_locked(moving, &changes) {
            Ok(Ok(looked)) => self.move_files(moving, &looked, &changes, held),
            Ok(Err(why)) => Ok(Err(why)),
            Err(error) => Err(error),
        };
        match moved {
            Ok(Ok((index, transfer))) => {
                lock.install(self, &index)?;
                let notes = transfer.map_or(Ok(Vec::new()), Transfer::arrive)?;
                Ok(Moved::Done(notes))
            }
            Ok(Err(why)) => lock.release(self).map(|()| Moved::Refused(why)),
            Err(error) => {
                // The index need not stay locked, unless this or an earlier try has left the checkout half way.
                if !lock.was_left && !self.is_half_way()? {
                    lock.release(self)?;
                }
                Err(error)
            }
        }
    }

    /// The same as `look_first`, if the branch is still checked out here: the process that had the lock before may have checked
    /// out another one.
    fn look_locked(
        &self,
        moving: Move<'_>,
        changes: &[Differing],
    ) -> Result<Result<Looked, String>, GitError> {
        match self.reach(moving.target)? {
            Reach::Here => self.look_first(moving, changes),
            Reach::Barred(why) => Ok(Err(why)),
            Reach::Free => Ok(Err(leftover_name(moving.target))),
        }
    }

    /// Where the branch is, a copy of the person's index, and what is expected at each path; or why nothing can be
    /// moved.
    fn look_first(
        &self,
        moving: Move<'_>,
        changes: &[Differing],
    ) -> Result<Result<Looked, String>, GitError> {
        let found = self.resolve(moving.target)?;
        if found.as_ref() != Some(moving.from) && found.as_ref() != Some(moving.to) {
            return Ok(Err(moved_on(moving.target)));
        }
        if let Some(why) = self.odd_index()? {
            return Ok(Err(why));
        }
        let index = self.copy_index()?;
        let expected = self.in_the_way(&index, changes)?;
        let is_moved = found.as_ref() == Some(moving.to);
        Ok(expected.map(|expected| Looked { is_moved, index, expected }))
    }

    /// Why an index cannot be worked with: there is none, or it is split. A part that it once was split into may still
    /// lie there, so then git is asked.
    fn odd_index(&self) -> Result<Option<String>, GitError> {
        if !self.own.join("index").is_file() {
            return Ok(Some(String::from("the checkout has no index (`git reset` makes one)")));
        }
        let mut names = fs::read_dir(&self.own).at(&self.own)?.flatten().map(|entry| entry.file_name());
        if !names.any(|name| name.as_encoded_bytes().starts_with(b"sharedindex.")) {
            return Ok(None);
        }
        let said = self.as_person(["rev-parse", "--shared-index-path"])?.ok()?;
        let why = "the index of the checkout is split (`git update-index --no-split-index` joins it)";
        Ok((!said.trim_ascii().is_empty()).then(|| String::from(why)))
    }

    /// A copy of the person's index.
    pub(super) fn copy_index(&self) -> Result<PathBuf, GitError> {
        let index = self.private_dir.home().join("index").join("person");
        let theirs = self.own.join("index");
        unlock(&index)?;
        folder::copy(&theirs, &index).at(&theirs)?;
        // By this time git knows which files may have changed within the second in which it looked at them.
        let when = fs::metadata(&theirs).and_then(|found| found.modified()).at(&theirs)?;
        folder::open(&index, OpenMode::Update).and_then(|open| open.set_modified(when)).at(&index)?;
        Ok(index)
    }

    /// Moves the files and the ref; or why nothing was moved. The index is to be installed then. An error means that
    /// everything went back, or that it is half way and known to be.
    fn move_files(
        &self,
        moving: Move<'_>,
        looked: &Looked,
        changes: &[Differing],
        held: &Held,
    ) -> Result<Result<(PathBuf, Option<Transfer<'_>>), String>, GitError> {
        let Looked { is_moved, index, expected } = looked;
        self.enter(index, &self.top, changes)?;
        let mut transfer = None;
        if expected.iter().any(|one| *one != Expected::After) {
            match self.begin_transfer(moving, changes, expected, index)? {
                Ok(begun) => transfer = Some(begun),
                Err(why) => return Ok(Err(why)),
            }
        }
        let carried = match &transfer {
            Some(transfer) => transfer.carry(expected),
            None => Ok(Ok(())),
        };
        let done = match carried {
            Ok(Ok(())) => self.refresh(index, changes).and_then(|()| {
                if !*is_moved && self.checked_out()?.as_deref() != Some(moving.target) {
                    return Ok(Err((leftover_name(moving.target), None)));
                }
                let is_there = *is_moved || self.move_ref(moving, held)?;
                Ok(if is_there { Ok(()) } else { Err((moved_on(moving.target), None)) })
            }),
            Ok(Err(number)) => {
                let path = String::from_utf8_lossy(&changes[number].path).into_owned();
                Ok(Err((sentence(&[path]).unwrap_or_default(), Some(number))))
            }
            Err(error) => Err(error),
        };
        match (done, transfer) {
            (Ok(Ok(())), transfer) => Ok(Ok((index.clone(), transfer))),
            (Ok(Err((why, first))), Some(mut transfer)) => {
                transfer.take_back(first)?;
                Ok(Err(with_notes(why, &transfer.look_again()?)))
            }
            (Ok(Err((why, _))), None) => Ok(Err(why)),
            (Err(error), Some(mut transfer)) => {
                transfer.take_back(None)?;
                transfer.look_again()?;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
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
            .unwrap_or_else(|_| Err(GitError::new(ErrorKind::Git, "git could not be asked about attributes")))
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

    /// Moves the ref; whether it is where it should be.
    fn move_ref(&self, moving: Move<'_>, held: &Held) -> Result<bool, GitError> {
        let Move { target, from, to, .. } = moving;
        match self.move_refs(&[(target.to_owned(), to, Some(from.clone()))], held) {
            Ok(()) => Ok(true),
            // A git that died may have moved it first.
            Err(_) => Ok(self.resolve(target)?.as_ref() == Some(to)),
        }
    }

    /// What is expected at each path of a change; or what is in its way, in a sentence. The index is a copy of the
    /// person's.
    fn in_the_way(
        &self,
        index: &Path,
        changes: &[Differing],
    ) -> Result<Result<Vec<Expected>, String>, GitError> {
        let entries = self.entries(index, changes)?;
        let seen = self.seen_otherwise(index, changes, &entries)?;
        let going: BTreeSet<&[u8]> =
            changes.iter().filter(|change| !change.after.is_there()).map(|change| &*change.path).collect();
        let (mut bad, mut expected) = (Vec::new(), Vec::new());
        for change in changes {
            let path = &change.path;
            let staged = entries.get(path.as_slice()).map(|found| &found.entry);
            let old = match seen.get(path.as_slice()) {
                Some(seen) => seen.clone().map(Expected::Seen),
                None => (staged == Some(&change.before)).then_some(Expected::Before),
            };
            let is_new = old.is_none() && self.is_as(&self.top, path, &change.after)?;
            let found = look(&self.top, path).at(&below(&self.top, path))?;
            let known = [&change.before, &change.after]
                .iter()
                .any(|side| staged.map_or(!side.is_there(), |found| found == *side));
            let free = match (change.before.is_there(), found) {
                (true, Seen::Nothing { .. }) => !change.after.is_there(),
                (true, _) => old.is_some(),
                (false, Seen::Nothing { blocked }) => !blocked || leads_through(path, &going),
                (false, Seen::Folder) => self.empties(path, &going)?,
                (false, Seen::File(_) | Seen::Link | Seen::Special) => false,
            };
            if !known || !(free || is_new) {
                bad.push(String::from_utf8_lossy(path).into_owned());
            }
            expected.push(if is_new { Expected::After } else { old.unwrap_or(Expected::Before) });
        }
        Ok(sentence(&bad).map_or(Ok(expected), Err))
    }

    /// The files whose bytes are not those of the old commit although the index has it: what their bytes are, where
    /// the person's git takes them for unchanged all the same (ends of lines, mostly), or nothing where it does not.
    fn seen_otherwise<'a>(
        &self,
        index: &Path,
        changes: &'a [Differing],
        entries: &BTreeMap<Vec<u8>, Staged>,
    ) -> Result<BTreeMap<&'a [u8], Option<Entry>>, GitError> {
        let mut seen = BTreeMap::new();
        for change in changes.iter().filter(|change| change.before.is_there()) {
            let staged = entries.get(&change.path).filter(|found| found.entry == change.before);
            let Some(staged) = staged else { continue };
            if !self.is_as(&self.top, &change.path, &change.before)? {
                let noted = self.noted(&below(&self.top, &change.path), false)?;
                let entry = noted.map(|noted| Entry { mode: noted.mode, oid: noted.oid });
                seen.insert(&*change.path, entry.filter(|_| staged.is_looked_at));
            }
        }
        if seen.values().any(Option::is_some) {
            // Asked after the bytes were read: a file that is saved in between shows as dirty, or as other bytes
            // later.
            let dirty = self.dirty(index)?;
            for (path, entry) in &mut seen {
                *entry = entry.take().filter(|_| !dirty.contains(*path));
            }
        }
        Ok(seen)
    }

    /// Enters a difference into an index where that still has the old side, as far as it is in the checkout.
    pub(super) fn enter_old(&self, index: &Path, changes: &[Differing]) -> Result<(), GitError> {
        let entries = self.entries(index, changes)?;
        let is_old = |change: &&Differing| match entries.get(&change.path) {
            Some(found) => found.entry == change.before,
            None => !change.before.is_there(),
        };
        let old: Vec<Differing> = changes.iter().filter(is_old).cloned().collect();
        if !old.is_empty() {
            self.enter(index, &self.top, &old)?;
        }
        self.refresh(index, changes)
    }

    /// Has an index know the files in the checkout that are as it says. Others stay what they are: changed.
    fn refresh(&self, index: &Path, changes: &[Differing]) -> Result<(), GitError> {
        let there: Vec<&[u8]> =
            changes.iter().filter(|change| change.after.is_there()).map(|change| &*change.path).collect();
        if there.is_empty() {
            return Ok(());
        }
        let call = self.inside(index, &self.top);
        let call = if there.len() > MAX_REFRESHED {
            call.words(["update-index", "-q", "--refresh"])
        } else {
            let words = ["--literal-pathspecs", "add", "--refresh", "--pathspec-from-file=-"];
            call.words(words).words(["--pathspec-file-nul"]).input(Input::Bytes(there.join(&0)))
        };
        // A file that is not as the index says is no error: it was saved a moment ago.
        self.run(call).map(drop)
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

/// What was looked at before anything is moved.
struct Looked {
    /// Whether the branch has moved already.
    is_moved: bool,
    /// A copy of the person's index.
    index: PathBuf,
    /// What is expected at each path.
    expected: Vec<Expected>,
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

fn leftover_name(target: &str) -> String {
    format!("`{}` is not checked out any more", short(target))
}

/// Whether the way to a path leads through a file that goes.
fn leads_through(path: &[u8], going: &BTreeSet<&[u8]>) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.into_iter().any(|(end, _)| going.contains(&path[..end]))
}

fn sentence(bad: &[String]) -> Option<String> {
    let named = bad.iter().take(MAX_NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    let more = bad.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!bad.is_empty()).then(|| format!("the checkout has changes of its own in {named}{more}"))
}

/// A sentence with what a person should know besides.
pub(super) fn with_notes(text: String, notes: &[String]) -> String {
    std::iter::once(text).chain(notes.iter().cloned()).collect::<Vec<_>>().join("; ")
}
