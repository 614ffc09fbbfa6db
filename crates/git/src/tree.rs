//! What is in a folder now, as a tree, and what differs between two trees.
//!
//! A folder is looked at with an index of our own: what an agent does with its own index does not count.
//! What is new counts, what is ignored does not. A pipe is never opened. What git could not hold, or what
//! belongs to another repository, is left out of the tree and named.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use super::entry::{
    MODE_EXECUTABLE, MODE_FILE, MODE_LINK, MODE_NONE, MODE_SUBMODULE, MODE_TREE, WorktreeEntry,
};
use super::error::At as _;
use super::error::unreadable;
use super::private_dir::apart;
use super::probe::{Seen, below, look, read_file, zeroed};
use super::reader::Info;
use super::runner::Input;
use super::stat_cache::Known;
use super::{ErrorKind, GitError, MAX_GIT_OUTPUT, Oid, Repo};
use crate::change::{Change, Content, EntryKind, FileChange, MAX_CONTENT_BYTES};
use ftl_core::amount::Unit;

/// The most files that may differ between two trees.
pub const MAX_CHANGED_FILES: usize = 100_000;

/// The largest new or changed file that git is given. It reads every byte of one, also of one without blocks on the
/// disk, and nothing ends it meanwhile.
pub const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

/// The most bytes of new and changed files that git is given at once.
pub const MAX_FILES_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// The most bytes of contents that one change holds; what is beyond has no bytes.
const MAX_CHANGE_BYTES: u64 = 256 * 1024 * 1024;

/// One path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Differing {
    pub(super) path: Vec<u8>,
    pub(super) before: Entry,
    pub(super) after: Entry,
}

/// What a tree has at a path: nothing, where the mode is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: u32,
    pub(super) oid: Oid,
}

impl Entry {
    pub(super) fn is_there(&self) -> bool {
        self.mode != MODE_NONE
    }

    pub(super) fn kind(&self) -> Option<EntryKind> {
        match self.mode {
            MODE_NONE => None,
            MODE_LINK => Some(EntryKind::Link),
            MODE_SUBMODULE => Some(EntryKind::Submodule),
            mode if mode & 0o100 != 0 => Some(EntryKind::Executable),
            _ => Some(EntryKind::File),
        }
    }
}

/// What a folder has beyond its index.
#[derive(Default)]
pub(super) struct Survey {
    /// Files and links that are new or different.
    pub(super) there: Vec<Vec<u8>>,
    /// Paths at which nothing is any more that a tree could hold.
    pub(super) gone: Vec<Vec<u8>>,
    /// Folders that are repositories of their own, and special files where a file was.
    pub(super) left_out: Vec<Vec<u8>>,
}

impl Repo {
    /// What is in a folder, looked at through an index of ours, which is brought up to date. What the tree has
    /// beyond the base is among our own objects then.
    pub(super) fn stand(&self, index: &Path, folder: &Path, base: &Oid) -> Result<WorktreeEntry, GitError> {
        unlock(index)?;
        if let Some(standing) = self.as_before(index, folder) {
            return Ok(standing);
        }
        let glance = self.glance(folder);
        let survey = self.survey(index, folder)?;
        self.take_up(index, folder, &survey, &[])?;
        let mut left_out = survey.left_out;
        // Names that git refuses are passed over in silence; they show only in that they are still new.
        if survey.there.iter().any(|path| is_doubtful(path)) {
            left_out.extend(self.survey(index, folder)?.there);
        }
        let is_same = survey.there.is_empty() && survey.gone.is_empty();
        let tree = match self.known_tree(index).filter(|_| is_same) {
            Some(tree) => tree,
            None => self.make_gathered(&[base], &|| self.write_tree(index))?,
        };
        let standing = WorktreeEntry { tree, left_out };
        self.remember(index, &standing, glance);
        Ok(standing)
    }

    pub(super) fn known_trees(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Known>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a folder has beyond its index.
    pub(super) fn survey(&self, index: &Path, folder: &Path) -> Result<Survey, GitError> {
        let words = ["ls-files", "-z", "-t", "--others", "--modified", "--deleted", "--exclude-standard"];
        let out = self.run(self.inside(index, folder).words(words))?.ok()?;
        let mut survey = Survey::default();
        let mut folders = Vec::new();
        for line in zeroed(&out) {
            let Some((&tag, path)) = line.split_first().map(|(tag, rest)| (tag, &rest[1..])) else {
                continue;
            };
            let path = path.to_vec();
            if tag == b'?' && path.ends_with(b"/") {
                survey.left_out.push(path);
                continue;
            }
            match look(folder, &path).at(folder)? {
                Seen::File(_) | Seen::Link => survey.there.push(path),
                Seen::Nothing { .. } => survey.gone.push(path),
                Seen::Folder => folders.push(path),
                Seen::Special => {
                    survey.left_out.push(path.clone());
                    survey.gone.push(path);
                }
            }
        }
        self.sort_folders(index, folder, folders, &mut survey)?;
        for list in [&mut survey.there, &mut survey.gone] {
            list.sort();
            list.dedup();
        }
        Ok(survey)
    }

    /// A folder where the index has something: a submodule stays what the index says; where a file was,
    /// the file is gone.
    fn sort_folders(
        &self,
        index: &Path,
        folder: &Path,
        folders: Vec<Vec<u8>>,
        survey: &mut Survey,
    ) -> Result<(), GitError> {
        if folders.is_empty() {
            return Ok(());
        }
        let out = self.run(self.inside(index, folder).words(["ls-files", "-z", "-s"]))?.ok()?;
        let is_submodule = |path: &Vec<u8>| {
            let mut lines = zeroed(&out).filter(|line| line.starts_with(b"160000 "));
            lines.any(|line| line.splitn(2, |byte| *byte == b'\t').nth(1) == Some(path.as_slice()))
        };
        let (modules, files): (Vec<_>, Vec<_>) = folders.into_iter().partition(is_submodule);
        survey.left_out.extend(modules);
        survey.gone.extend(files);
        Ok(())
    }

    /// Brings an index up to date with what was surveyed.
    pub(super) fn take_up(
        &self,
        index: &Path,
        folder: &Path,
        survey: &Survey,
        settings: &[&str],
    ) -> Result<(), GitError> {
        if !survey.gone.is_empty() {
            let nothing = self.private_dir.nothing();
            let input = Input::Written(Box::new(|to| {
                survey.gone.iter().try_for_each(|path| {
                    write!(to, "0 {nothing}\t")?;
                    to.write_all(path)?;
                    to.write_all(&[0])
                })
            }));
            let call = self.inside(index, folder).words(["update-index", "-z", "--index-info"]);
            self.run(call.input(input))?.ok()?;
        }
        if !survey.there.is_empty() {
            check_sizes(folder, &survey.there)?;
            let words = ["update-index", "-z", "--add", "--replace", "--stdin"];
            let input = Input::Bytes(survey.there.join(&0));
            let call = apart(self.inside(index, folder)).words(settings).words(words);
            self.run(call.input(input))?.ok()?;
        }
        Ok(())
    }

    pub(super) fn write_tree(&self, index: &Path) -> Result<Oid, GitError> {
        let call = self.about_objects().var("GIT_INDEX_FILE", index).words(["write-tree"]);
        Oid::read(&self.run(call)?.ok()?)
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let name = format!("{commit}^{{tree}}");
        match self.object_infos(std::slice::from_ref(&name))?.pop().flatten() {
            Some(info) => Ok(info.oid),
            None => Err(GitError::missing(format!("there is no tree of {}", commit.short()))),
        }
    }

    /// A file of a commit, by its path from the top; nothing where there is no ordinary file of a size that
    /// is looked at.
    pub fn file_at(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        let mut at = Entry { mode: MODE_TREE, oid: self.tree_of(commit)? };
        for part in path.components() {
            if at.mode != MODE_TREE {
                return Ok(None);
            }
            let found = self.entries_of(&at.oid)?.remove(part.as_os_str().as_bytes());
            let Some(found) = found else { return Ok(None) };
            at = found;
        }
        match at.kind() {
            Some(EntryKind::File | EntryKind::Executable) if at.mode != MODE_TREE => {
                Ok(self.contents(&[&at.oid], MAX_CONTENT_BYTES, MAX_CHANGE_BYTES)?.pop().flatten())
            }
            Some(EntryKind::File | EntryKind::Executable | EntryKind::Link | EntryKind::Submodule) | None => {
                Ok(None)
            }
        }
    }

    /// The paths that differ between two trees or commits, in their order.
    pub(super) fn differing(&self, base: &Oid, tree: &Oid) -> Result<Vec<Differing>, GitError> {
        if base == tree {
            return Ok(Vec::new());
        }
        let nothing = Entry { mode: MODE_NONE, oid: self.private_dir.nothing().parse()? };
        let top = |oid| Ok::<_, GitError>(Entry { mode: MODE_TREE, oid: self.tree_of(oid)? });
        let mut all = Vec::new();
        let mut folders = vec![(Vec::new(), top(base)?, top(tree)?)];
        while let Some((prefix, before, after)) = folders.pop() {
            if before == after {
                continue;
            }
            for (name, (before, after)) in self.paired(&before, &after, &nothing)? {
                let path = [prefix.as_slice(), &name].concat();
                let (leaves, inner) = parted(before, after, &nothing);
                if let Some((before, after)) = inner {
                    folders.push(([path.as_slice(), b"/"].concat(), before, after));
                }
                if let Some((before, after)) = leaves {
                    all.push(Differing { path, before, after });
                }
                if all.len() > MAX_CHANGED_FILES {
                    let message = format!("more than {MAX_CHANGED_FILES} files differ");
                    return Err(GitError::new(ErrorKind::TooMuch, message));
                }
            }
        }
        all.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(all)
    }

    /// What differs between two trees, by name; either may be no tree.
    fn paired(
        &self,
        before: &Entry,
        after: &Entry,
        nothing: &Entry,
    ) -> Result<BTreeMap<Vec<u8>, (Entry, Entry)>, GitError> {
        let listed = |side: &Entry| {
            if side.mode == MODE_TREE { self.entries_of(&side.oid) } else { Ok(BTreeMap::new()) }
        };
        let (old, mut new) = (listed(before)?, listed(after)?);
        let mut paired = BTreeMap::new();
        for (name, entry) in old {
            let other = new.remove(&name).unwrap_or_else(|| nothing.clone());
            if other != entry {
                paired.insert(name, (entry, other));
            }
        }
        paired.extend(new.into_iter().map(|(name, entry)| (name, (nothing.clone(), entry))));
        Ok(paired)
    }

    /// What a tree holds, by name.
    pub(super) fn entries_of(&self, tree: &Oid) -> Result<BTreeMap<Vec<u8>, Entry>, GitError> {
        match self.object(tree, MAX_GIT_OUTPUT)? {
            Some((info, bytes)) if info.kind == "tree" => read_entries(&bytes, tree.as_str().len() / 2),
            Some(_) | None => Err(GitError::missing(format!("there is no tree {}", tree.short()))),
        }
    }

    /// What differs between two trees or commits, with the contents of both sides.
    pub fn change(&self, base: &Oid, tree: &Oid) -> Result<Change, GitError> {
        let differing = self.differing(base, tree)?;
        let sides = || differing.iter().flat_map(|one| [&one.before, &one.after]);
        let blobs: Vec<&Oid> = sides().filter(|side| is_blob(side)).map(|side| &side.oid).collect();
        let mut contents = self.contents(&blobs, MAX_CONTENT_BYTES, MAX_CHANGE_BYTES)?.into_iter();
        let mut content = |side: &Entry| {
            let kind = side.kind()?;
            let bytes = match kind {
                EntryKind::Submodule => Some(side.oid.as_str().as_bytes().to_vec()),
                EntryKind::File | EntryKind::Executable | EntryKind::Link => contents.next().flatten(),
            };
            Some(Content { kind, bytes })
        };
        let files = differing.iter().map(|one| FileChange {
            path: String::from_utf8_lossy(&one.path).into_owned(),
            before: content(&one.before),
            after: content(&one.after),
        });
        Ok(Change { files: files.collect() })
    }

    /// The contents of blobs in their order; nothing where one is larger than `each`, or where all of
    /// them together would be more than `all`.
    pub(super) fn contents(
        &self,
        blobs: &[&Oid],
        each: u64,
        all: u64,
    ) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        let sizes = self.sizes(blobs)?;
        let mut room = all;
        let mut found = Vec::with_capacity(blobs.len());
        for (blob, size) in blobs.iter().zip(&sizes) {
            let fits = *size <= each && *size <= room;
            room -= if fits { *size } else { 0 };
            let bytes =
                if fits { Some(self.object(blob, each)?.ok_or_else(|| missing(blob))?.1) } else { None };
            found.push(bytes);
        }
        Ok(found)
    }

    /// Whether the file or link at a path below a folder is, byte for byte, what a tree has there. What cannot be read
    /// is not known to be that.
    pub(super) fn is_as(&self, folder: &Path, path: &[u8], wanted: &Entry) -> Result<bool, GitError> {
        let file = below(folder, path);
        let bytes = match (look(folder, path).at(&file)?, wanted.kind()) {
            (Seen::Link, Some(EntryKind::Link)) => {
                fs::read_link(&file).map(|to| to.into_os_string().into_vec())
            }
            (Seen::File(false), Some(EntryKind::File)) | (Seen::File(true), Some(EntryKind::Executable)) => {
                let size = fs::symlink_metadata(&file).map_or(0, |found| found.len());
                if self.sizes(&[&wanted.oid])? != [size] {
                    return Ok(false);
                }
                if size > MAX_CONTENT_BYTES {
                    let call = self.private_dir.call(folder).words(["hash-object", "--no-filters", "--"]);
                    let said = self.run(call.words([&file]))?;
                    return Ok(said.code == 0 && Oid::read(&said.out)? == wanted.oid);
                }
                read_file(&file, MAX_CONTENT_BYTES)
            }
            (Seen::Nothing { .. } | Seen::File(_) | Seen::Link | Seen::Folder | Seen::Special, _) => {
                return Ok(false);
            }
        };
        let held = self.object(&wanted.oid, MAX_CONTENT_BYTES)?.ok_or_else(|| missing(&wanted.oid))?;
        Ok(bytes.is_ok_and(|bytes| bytes == held.1))
    }

    /// The bytes of all files among entries of trees.
    pub(super) fn bytes_of<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Result<u64, GitError> {
        let blobs: Vec<&Oid> = entries.filter(|entry| is_blob(entry)).map(|entry| &entry.oid).collect();
        if blobs.is_empty() {
            return Ok(0);
        }
        Ok(self.sizes(&blobs)?.iter().sum())
    }

    fn sizes(&self, blobs: &[&Oid]) -> Result<Vec<u64>, GitError> {
        let names: Vec<String> = blobs.iter().map(ToString::to_string).collect();
        let found = self.object_infos(&names)?.into_iter().zip(blobs);
        found.map(|(info, blob)| info.map(|info| info.size).ok_or_else(|| missing(blob))).collect()
    }

    /// What is known about objects, in their order; nothing where there is no such object.
    pub(super) fn object_infos(&self, names: &[String]) -> Result<Vec<Option<Info>>, GitError> {
        self.check_identity()?;
        self.objects.info(&self.runner, &|| self.about_objects(), names)
    }

    /// An object of so many bytes at most.
    pub(super) fn object(&self, oid: &Oid, most: u64) -> Result<Option<(Info, Vec<u8>)>, GitError> {
        self.check_identity()?;
        self.objects.contents(&self.runner, &|| self.about_objects(), (oid, most))
    }
}

/// Refuses files that are too large for git, by their names. Nothing is done to them.
fn check_sizes(folder: &Path, paths: &[Vec<u8>]) -> Result<(), GitError> {
    let mut sum = 0_u64;
    let mut largest: (u64, &[u8]) = (0, b"");
    for path in paths {
        // What has gone meanwhile has no size; git finds out.
        let size = fs::symlink_metadata(below(folder, path)).map_or(0, |found| found.len());
        sum = sum.saturating_add(size);
        largest = largest.max((size, path));
    }
    let (size, name) = (largest.0, String::from_utf8_lossy(largest.1).into_owned());
    let show = |bytes| Unit::Bytes.show(bytes);
    let message = if size > MAX_FILE_BYTES {
        format!("`{name}` has {}; a file may have {} at most", show(size), show(MAX_FILE_BYTES))
    } else if sum > MAX_FILES_BYTES {
        let (sum, most) = (show(sum), show(MAX_FILES_BYTES));
        format!("new and changed files have {sum} together; {most} is the most (`{name}` has {})", show(size))
    } else {
        return Ok(());
    };
    let hint = "have git ignore it (`.gitignore`), or take it out of the worktree; nothing was removed";
    Err(GitError::new(ErrorKind::TooMuch, message).hint(hint))
}

fn missing(oid: &Oid) -> GitError {
    GitError::missing(format!("object {oid} is not in the repository"))
}

/// What was at a path, and what is.
type Pair = (Entry, Entry);

/// Two things of one name: how they differ as files, and how as folders.
fn parted(before: Entry, after: Entry, nothing: &Entry) -> (Option<Pair>, Option<Pair>) {
    let split = |one: Entry| {
        if one.mode == MODE_TREE { (nothing.clone(), one) } else { (one, nothing.clone()) }
    };
    let ((file_before, tree_before), (file_after, tree_after)) = (split(before), split(after));
    let some = |one: Entry, other: Entry| (one != other).then_some((one, other));
    (some(file_before, file_after), some(tree_before, tree_after))
}

/// What the bytes of a tree hold: mode, name and the bytes of an object's name, again and again.
fn read_entries(mut bytes: &[u8], digest: usize) -> Result<BTreeMap<Vec<u8>, Entry>, GitError> {
    let mut all = BTreeMap::new();
    while !bytes.is_empty() {
        let cut = |what: u8| bytes.iter().position(|byte| *byte == what).ok_or_else(|| unreadable(bytes));
        let (space, zero) = (cut(b' ')?, cut(0)?);
        let (name, end) = (bytes.get(space + 1..zero), bytes.get(zero + 1..zero + 1 + digest));
        let (Some(name), Some(end)) = (name, end) else { return Err(unreadable(bytes)) };
        let mode =
            std::str::from_utf8(&bytes[..space]).ok().and_then(|text| u32::from_str_radix(text, 8).ok());
        let mode = canonical(mode.ok_or_else(|| unreadable(bytes))?);
        let oid: String = end.iter().map(|byte| format!("{byte:02x}")).collect();
        all.insert(name.to_vec(), Entry { mode, oid: oid.parse()? });
        bytes = &bytes[zero + 1 + digest..];
    }
    Ok(all)
}

/// A mode as git itself reads it: old trees hold others.
fn canonical(mode: u32) -> u32 {
    match mode & 0o170_000 {
        0o100_000 if mode & 0o100 != 0 => MODE_EXECUTABLE,
        0o100_000 => MODE_FILE,
        0o120_000 => MODE_LINK,
        0o040_000 => MODE_TREE,
        _ => MODE_SUBMODULE,
    }
}

/// Removes the lock that a git which was killed has left on an index of ours. The caller has the
/// right to the index: no other git can be at work on it.
pub(super) fn unlock(index: &Path) -> Result<(), GitError> {
    let mut lock = index.as_os_str().to_owned();
    lock.push(".lock");
    match ftl_folder::remove(Path::new(&lock)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at(Path::new(&lock)),
    }
}

/// Whether git may refuse a name: everything that could be `.git` on some file system.
pub(super) fn is_doubtful(path: &[u8]) -> bool {
    let lower = path.to_ascii_lowercase();
    lower.windows(3).any(|three| three == b"git") || lower.contains(&b'\\') || !path.is_ascii()
}

fn is_blob(side: &Entry) -> bool {
    matches!(side.kind(), Some(EntryKind::File | EntryKind::Executable | EntryKind::Link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_read_as_git_writes_them() {
        let digest = [0xab_u8; 20];
        let entry =
            |mode: &str, name: &str| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &digest].concat();
        let modes = ["100644", "100664", "100755", "120000", "40000", "160000"];
        let bytes = modes.map(|mode| entry(mode, &format!("a {mode}\n"))).concat();
        let found = read_entries(&bytes, 20).unwrap();
        let modes: Vec<u32> = found.values().map(|entry| entry.mode).collect();
        let expected = [MODE_FILE, MODE_FILE, MODE_EXECUTABLE, MODE_LINK, MODE_SUBMODULE, MODE_TREE];
        assert_eq!(modes, expected);
        assert!(found.contains_key(b"a 100644\n".as_slice()));
        assert!(found.values().all(|entry| entry.oid.as_str() == "ab".repeat(20)));
        for bad in [&bytes[..bytes.len() - 1], b"100644", b"100644 a", b"9 a\0", b"x a\0abcdefghijklmnopqrst"]
        {
            assert!(read_entries(bad, 20).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn files_that_are_too_large_for_git_are_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, size: u64| {
            fs::File::create(folder.path().join(name)).unwrap().set_len(size).unwrap();
            name.as_bytes().to_vec()
        };
        let fits = make("fits", MAX_FILE_BYTES);
        check_sizes(folder.path(), &[fits.clone(), b"gone".to_vec()]).unwrap();
        let large = make("large", MAX_FILE_BYTES + 1);
        let said = check_sizes(folder.path(), &[fits, large]).unwrap_err();
        assert_eq!(said.trouble, ErrorKind::TooMuch);
        assert!(said.message.starts_with("`large` has 512 MiB") && said.hint.is_some(), "{said}");
        let many: Vec<Vec<u8>> = (0..5).map(|at| make(&at.to_string(), MAX_FILE_BYTES)).collect();
        let said = check_sizes(folder.path(), &many).unwrap_err();
        assert!(said.message.contains("2560 MiB together; 2048 MiB is the most"), "{said}");
        check_sizes(folder.path(), &many[..4]).unwrap();
    }

    #[test]
    fn a_file_that_becomes_a_folder_differs_as_both() {
        let entry = |mode, digit: &str| Entry { mode, oid: digit.repeat(40).parse().unwrap() };
        let (nothing, file, folder) = (entry(MODE_NONE, "0"), entry(MODE_FILE, "1"), entry(MODE_TREE, "2"));
        let other = entry(MODE_FILE, "3");
        let pair = |one: &Entry, two: &Entry| Some((one.clone(), two.clone()));
        let split = |one: &Entry, two: &Entry| parted(one.clone(), two.clone(), &nothing);
        assert_eq!(split(&file, &folder), (pair(&file, &nothing), pair(&nothing, &folder)));
        assert_eq!(split(&folder, &nothing), (None, pair(&folder, &nothing)));
        assert_eq!(split(&file, &other), (pair(&file, &other), None));
    }
}
