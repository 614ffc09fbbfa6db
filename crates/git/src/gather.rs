//! Objects of the work that the repository had first, gathered among our own.
//!
//! A git that sees the repository's objects writes no object that lies there already. It may lie there under no ref,
//! because an agent made it (a stash, a commit that was taken back, `git write-tree`), and the next prune takes it
//! away, also while a ref of ours comes to name it. So whatever a tree has beyond what it was made from is looked for
//! among our own objects, and what is missing gets a second name there. That is a look at the names of files and
//! nothing else, unless something is missing. Nothing is removed, and nothing of the repository is changed but times.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::entry::{MODE_SUBMODULE, MODE_TREE};
use super::error::At as _;
use super::runner::Input;
use super::tree::Entry;
use super::{ErrorKind, GitError, Oid, Repo};
use ftl_folder::{self as folder, NameIn, OpenMode};

/// How often something is made again whose objects go while they are gathered.
const MAX_MADE: usize = 4;

impl Repo {
    /// Makes a tree, and gathers what it has beyond the trees or commits that it was made from. Where a prune takes
    /// some of it away in between, it is made again: git writes what is not there any more.
    pub(super) fn make_gathered<T: AsRef<Oid>>(
        &self,
        bases: &[&Oid],
        make: &dyn Fn() -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        for _ in 1..MAX_MADE {
            let made = make()?;
            match self.gather_change(bases, made.as_ref()) {
                Err(error) if error.trouble == ErrorKind::Missing => {}
                gathered => return gathered.map(|()| made),
            }
        }
        let made = make()?;
        self.gather_change(bases, made.as_ref()).map(|()| made)
    }

    /// Has our own objects hold every folder and file of a tree that none of the trees or commits has at its path.
    pub(super) fn gather_change(&self, bases: &[&Oid], tree: &Oid) -> Result<(), GitError> {
        let top = |oid: &Oid| Ok::<_, GitError>(Entry { mode: MODE_TREE, oid: self.tree_of(oid)? });
        // A base that is not whole any more is no reason to keep nothing: more is gathered then.
        let known: Vec<Entry> = bases.iter().filter_map(|base| top(base).ok()).collect();
        let mut wanted = BTreeSet::new();
        let mut folders = vec![(known, top(tree)?)];
        while let Some((known, folder)) = folders.pop() {
            if known.contains(&folder) || !wanted.insert(folder.oid.clone()) {
                continue;
            }
            let olds = known.iter().filter(|old| old.mode == MODE_TREE);
            let mut olds: Vec<_> = olds.filter_map(|old| self.entries_of(&old.oid).ok()).collect();
            for (name, entry) in self.entries_of(&folder.oid)? {
                let old: Vec<Entry> = olds.iter_mut().filter_map(|old| old.remove(&name)).collect();
                if entry.mode == MODE_TREE {
                    folders.push((old, entry));
                } else if entry.mode != MODE_SUBMODULE && old.iter().all(|old| old.oid != entry.oid) {
                    wanted.insert(entry.oid);
                }
            }
        }
        self.gather(&wanted)
    }

    /// Has our own objects hold these.
    pub(super) fn gather(&self, wanted: &BTreeSet<Oid>) -> Result<(), GitError> {
        let (ours, theirs) = (self.private_dir.objects(), self.common.join("objects"));
        let mut packed = Vec::new();
        for oid in wanted {
            let name = loose_name(oid);
            let (here, there) = (ours.join(&name), theirs.join(&name));
            if fs::symlink_metadata(&here).is_err() && !take_one(&there, &here).at(&here)? {
                packed.push(oid.as_str());
            }
        }
        if packed.is_empty() { Ok(()) } else { self.gather_packed(&packed) }
    }

    /// Has a pack among our objects hold what no file of its own is: it lies in a pack, of ours or the repository's.
    fn gather_packed(&self, names: &[&str]) -> Result<(), GitError> {
        self.runner.step("gather packed objects")?;
        let asked: Vec<String> = names.iter().map(ToString::to_string).collect();
        for (info, name) in self.object_infos(&asked)?.into_iter().zip(names) {
            info.ok_or_else(|| GitError::missing(format!("object {name} is not in the repository")))?;
        }
        let packs = self.private_dir.objects().join("pack");
        folder::make(&packs).at(&packs)?;
        let call = self.about_objects().words(["pack-objects", "-q", "--delta-base-offset"]);
        let call = call.words([packs.join("pack")]).input(Input::Bytes(names.join("\n").into_bytes()));
        self.run(call)?.ok().map(drop)
    }
}

impl AsRef<Oid> for Oid {
    fn as_ref(&self) -> &Oid {
        self
    }
}

/// The name of the file of an object, below a folder of objects.
fn loose_name(oid: &Oid) -> PathBuf {
    let (folder, name) = oid.as_str().split_at(2);
    Path::new(folder).join(name)
}

/// Gives an object of the repository a second name among ours; whether it is there then. It counts as new: what is
/// here stays for an hour.
fn take_one(there: &Path, here: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(there) {
        Ok(found) if found.is_file() => {}
        Ok(_) | Err(_) => return Ok(false),
    }
    here.parent().map_or(Ok(()), folder::make)?;
    let linked = folder::open(there, OpenMode::Read)
        .and_then(|open| open.set_modified(SystemTime::now()))
        .and_then(|()| NameIn::at(there)?.link(&NameIn::at(here)?));
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // Another disk, one without hard links, or a file of another user.
        Err(_) => copy_one(there, here),
    }
}

fn copy_one(there: &Path, here: &Path) -> io::Result<bool> {
    let mut from = match folder::open(there, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        open => open?,
    };
    let beside = here.with_file_name(format!("tmp_obj_{:016x}", ftl_folder::id::random()?));
    let copied = folder::open_as(&beside, OpenMode::New, 0o444).and_then(|mut new| {
        io::copy(&mut from, &mut new)?;
        new.sync_all()?;
        folder::rename(&beside, here)
    });
    if copied.is_err() {
        let _ = folder::remove(&beside);
    }
    copied.map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn an_object_gets_a_second_name_or_a_copy_and_counts_as_new() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("theirs")).unwrap();
        fs::create_dir(at("ours")).unwrap();
        fs::write(at("theirs/x"), "x").unwrap();
        let old = SystemTime::UNIX_EPOCH;
        File::options().write(true).open(at("theirs/x")).unwrap().set_modified(old).unwrap();
        assert!(take_one(&at("theirs/x"), &at("ours/ab/x")).unwrap());
        assert!(take_one(&at("theirs/x"), &at("ours/ab/x")).unwrap(), "it is there");
        assert!(copy_one(&at("theirs/x"), &at("ours/ab/y")).unwrap());
        assert!(!copy_one(&at("theirs/none"), &at("ours/ab/none")).unwrap());
        assert!(!take_one(&at("theirs/none"), &at("ours/ab/none")).unwrap());
        for name in ["x", "y"] {
            let file = at("ours/ab").join(name);
            assert_eq!(fs::read(&file).unwrap(), b"x");
            assert!(fs::metadata(&file).unwrap().modified().unwrap() > old, "{name}");
        }
        assert_eq!(fs::read_dir(at("ours/ab")).unwrap().count(), 2, "nothing else is left");
    }
}
