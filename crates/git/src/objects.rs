//! Objects of our own: what we write goes into a folder that no other git looks into, and from there into the
//! repository.
//!
//! A person's `git gc --prune=now` removes every object that no ref names, and work in progress is named by
//! indexes and records that only we know of. So objects are written into the chamber, and the repository gets
//! each under a second name (a hard link, or a copy where there are none) before a ref or a checkout names it.
//! Whatever is pruned there is still here, and is given again when the next ref moves, when the next worktree is
//! made, and by `ftl doctor`. What is here goes when no worktree is open and it is an hour old: until then a prune
//! that began before a ref moved may still take away what the ref names. Nothing is removed from the repository.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::error::At as _;
use super::{GitError, Repo};
use ftl_folder::{self as folder, Folder, NameIn};

/// How long an object stays here that no run works with any more.
const MIN_AGE: Duration = Duration::from_secs(60 * 60);

/// The kinds of files that a pack consists of, in the order in which a repository gets them: the last one makes it
/// a pack.
const PACK_PARTS: [&str; 3] = ["pack", "rev", "idx"];

/// How the names of files begin that a git is writing.
const UNFINISHED: [&[u8]; 4] = [b"tmp_obj_", b"tmp_pack_", b"tmp_idx_", b"tmp_rev_"];

/// Objects that this process knows to be in the repository too.
#[derive(Default)]
pub(super) struct Shared(Mutex<BTreeSet<ObjectFile>>);

impl Repo {
    /// Gives the repository each object of ours that is new.
    pub(super) fn give_objects(&self) -> Result<(), GitError> {
        self.give(false).map(drop)
    }

    /// Gives the repository each object of ours that it does not have as a file, whether it had it or not; how many
    /// those were.
    pub(super) fn give_all_objects(&self) -> Result<usize, GitError> {
        self.give(true)
    }

    fn give(&self, again: bool) -> Result<usize, GitError> {
        let mut shared = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, theirs) = (self.private_dir.objects(), self.common.join("objects"));
        let open = Folder::open(&ours).at(&ours)?;
        let mut count = 0;
        for name in names(&open).at(&ours)? {
            if shared.contains(&name) && !again {
                continue;
            }
            count += usize::from(give_one(&open, &theirs, &name).at(&theirs.join(name.path()))?);
            shared.insert(name);
        }
        Ok(count)
    }

    /// Removes what is here and in no use: no worktree is open, and it is older than an hour.
    pub(super) fn tidy_objects(&self) -> Result<(), GitError> {
        // A process that opens a worktree has written its record first.
        let _held = self.hold_repository()?;
        let (ours, open) = (self.private_dir.objects(), self.private_dir.home().join("worktrees"));
        remove_unfinished(&ours).at(&ours)?;
        if !folder::names(&open).at(&open)?.is_empty() {
            return Ok(());
        }
        let Some(limit) = SystemTime::now().checked_sub(MIN_AGE) else { return Ok(()) };
        let open = Folder::open(&ours).at(&ours)?;
        for name in names(&open).at(&ours)? {
            remove_old(&open, &name, limit).at(&ours.join(name.path()))?;
        }
        Ok(())
    }
}

/// Removes what gits have begun to write here and were killed over, an hour ago or more: no git writes that long.
fn remove_unfinished(objects: &Path) -> io::Result<()> {
    let Some(limit) = SystemTime::now().checked_sub(MIN_AGE) else { return Ok(()) };
    let is_objects = |name: &OsString| {
        name.to_str().is_some_and(|name| name == "pack" || (name.len() == 2 && is_hex(name)))
    };
    let inner = folder::names(objects)?.into_iter().filter(is_objects);
    for path in inner.map(|name| objects.join(name)).chain([objects.to_owned()]) {
        let folder = match Folder::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            open => open?,
        };
        for name in folder.names()? {
            let is_unfinished = UNFINISHED.iter().any(|begin| name.as_encoded_bytes().starts_with(begin));
            let is_old = |found: Metadata| found.is_file() && found.modified().is_ok_and(|when| when < limit);
            if is_unfinished && folder.metadata(&name).is_ok_and(is_old) {
                folder.remove(&name)?;
            }
        }
    }
    Ok(())
}

/// The file of an object, or of a pack: the folder that it is in, and its name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectFile {
    folder: String,
    name: String,
}

impl ObjectFile {
    /// Its path from the folder of all objects on.
    fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(&self.name)
    }

    fn spot(&self, objects: &Folder) -> io::Result<NameIn> {
        objects.folder(OsStr::new(&self.folder))?.spot(&self.name)
    }
}

fn remove_old(objects: &Folder, name: &ObjectFile, limit: SystemTime) -> io::Result<()> {
    let spot = name.spot(objects)?;
    match spot.metadata() {
        Ok(found) if found.modified().is_ok_and(|when| when < limit) => spot.remove(),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The files of objects in a folder. A file that is being written has another name.
fn names(objects: &Folder) -> io::Result<Vec<ObjectFile>> {
    let mut found = Vec::new();
    for folder in objects.names()? {
        let Some(folder) = folder.to_str() else { continue };
        if folder == "pack" {
            found.extend(packs(objects)?);
        } else if folder.len() == 2 && is_hex(folder) {
            let named = list_names(objects, folder)?;
            let named = named.into_iter().filter(|name| matches!(name.len(), 38 | 62) && is_hex(name));
            found.extend(named.map(|name| ObjectFile { folder: folder.to_owned(), name }));
        }
    }
    Ok(found)
}

/// The files of whole packs, those that make a pack of it last.
fn packs(objects: &Folder) -> io::Result<Vec<ObjectFile>> {
    let mut found = Vec::new();
    let all = list_names(objects, "pack")?;
    for pack in all.iter().filter_map(|name| name.strip_suffix(".idx")) {
        let is_pack = pack.strip_prefix("pack-").is_some_and(|digits| !digits.is_empty() && is_hex(digits));
        let parts = PACK_PARTS.map(|part| format!("{pack}.{part}"));
        let there = parts.into_iter().filter(|part| is_pack && all.contains(part));
        found.extend(there.map(|name| ObjectFile { folder: "pack".to_owned(), name }));
    }
    Ok(found)
}

/// The names in a folder; none where it has gone.
fn list_names(objects: &Folder, folder: &str) -> io::Result<Vec<String>> {
    let names = match objects.folder(OsStr::new(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        open => open?.names()?,
    };
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// How often a folder is made that a prune removes again, because it was empty for a moment.
const MAX_GIVEN: usize = 16;

/// Gives a file a second name; whether it was missing there.
fn give_one(ours: &Folder, theirs: &Path, name: &ObjectFile) -> io::Result<bool> {
    for _ in 1..MAX_GIVEN {
        match give_once(ours, theirs, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            given => return given,
        }
    }
    give_once(ours, theirs, name)
}

/// The same, tried once. An object that has gone here meanwhile is needed no more. Links above the repository's
/// folder of objects are the person's; below it there is none.
fn give_once(ours: &Folder, theirs: &Path, name: &ObjectFile) -> io::Result<bool> {
    let from = match name.spot(ours) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        from => from?,
    };
    // A prune removes the folders that it has emptied.
    folder::make_below(theirs, Path::new(&name.folder))?;
    let to = NameIn::below(theirs, &name.path())?;
    if to.metadata().is_ok() {
        return Ok(false);
    }
    match from.link(&to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(_) if from.metadata().is_err() => Ok(false),
        // Another disk, one without hard links, or a file of another user.
        Err(_) => copy(&from, theirs, name),
    }
}

/// Copies a file beside and puts it into its place, whole.
fn copy(from: &NameIn, theirs: &Path, name: &ObjectFile) -> io::Result<bool> {
    let folder = Path::new(&name.folder);
    folder::make_below(theirs, folder)?;
    let folder = Folder::below(theirs, folder)?;
    // Git takes such a name for what a killed git has left, and removes it in time.
    let beside = folder.spot(format!("tmp_obj_{:016x}", ftl_folder::id::random()?))?;
    let copied = beside.create(0o444).and_then(|mut new| {
        io::copy(&mut from.open()?, &mut new)?;
        new.sync_all()?;
        beside.rename(&folder.spot(&name.name)?)
    });
    if copied.is_err() {
        let _ = beside.remove();
    }
    copied.map(|()| true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_killed_git_was_writing_goes_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - MIN_AGE - Duration::from_secs(1);
        let files =
            ["ab/tmp_obj_1", "pack/tmp_pack_1", "pack/tmp_idx_1", "tmp_obj_2", "ab/whole", "of/tmp_obj_3"];
        for name in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::File::create(file).unwrap().set_modified(old).unwrap();
        }
        fs::write(folder.path().join("ab/tmp_obj_young"), "").unwrap();
        remove_unfinished(folder.path()).unwrap();
        let left = |name: &&str| folder.path().join(name).exists();
        assert_eq!(files.into_iter().filter(left).collect::<Vec<_>>(), ["ab/whole", "of/tmp_obj_3"]);
        assert!(folder.path().join("ab/tmp_obj_young").exists(), "somebody writes it");
    }

    #[test]
    fn only_whole_objects_have_names_and_each_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let digits = "0123456789abcdef0123456789abcdef012345";
        for name in [
            format!("ab/{digits}"),
            String::from("ab/tmp_obj_123456"),
            format!("info/{digits}"),
            String::from("pack/pack-aa.pack"),
            String::from("pack/pack-aa.idx"),
            String::from("pack/pack-bb.pack"),
            String::from("pack/tmp_pack_x"),
            String::from("pack/thesis.idx"),
        ] {
            let file = ours.join(&name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        }
        fs::create_dir(&theirs).unwrap();
        let open = Folder::open(&ours).unwrap();
        let mut found = names(&open).unwrap();
        found.sort();
        let file = |folder: &str, name: &str| ObjectFile { folder: folder.to_owned(), name: name.to_owned() };
        let packed = [file("pack", "pack-aa.idx"), file("pack", "pack-aa.pack")];
        let object = file("ab", digits);
        assert_eq!(found, [std::slice::from_ref(&object), &packed[..]].concat());
        assert_eq!(packs(&open).unwrap(), [packed[1].clone(), packed[0].clone()]);
        let (from, to) = (ours.join("ab").join(digits), theirs.join("ab").join(digits));
        assert!(give_one(&open, &theirs, &object).unwrap());
        assert!(!give_one(&open, &theirs, &object).unwrap(), "it is there");
        fs::remove_dir_all(theirs.join("ab")).unwrap();
        let spot = object.spot(&open).unwrap();
        assert!(copy(&spot, &theirs, &object).unwrap(), "where there are no links, it is copied");
        assert_eq!(fs::read(&to).unwrap(), fs::read(&from).unwrap());
        assert!(!give_one(&open, &theirs, &file("ab", "none")).unwrap(), "nobody's any more");
        assert!(!give_one(&open, &theirs, &file("cd", digits)).unwrap(), "nor with its folder");
    }

    #[test]
    fn objects_are_given_and_removed_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let digits = "0123456789abcdef0123456789abcdef012345";
        for name in ["ours/ab", "theirs", "victim"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["ours/ab", "victim"] {
            fs::write(at(name).join(digits), name).unwrap();
        }
        let object = ObjectFile { folder: String::from("ab"), name: digits.to_owned() };
        let ours = Folder::open(&at("ours")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("theirs/ab")).unwrap();
        assert!(give_one(&ours, &at("theirs"), &object).is_err(), "a link stands where a folder belongs");
        fs::rename(at("ours/ab"), at("ours/aside")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("ours/ab")).unwrap();
        assert!(names(&ours).is_err());
        assert!(remove_old(&ours, &object, SystemTime::now() + MIN_AGE).is_err());
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 1);
        assert_eq!(fs::read(at("victim").join(digits)).unwrap(), b"victim");
    }
}
