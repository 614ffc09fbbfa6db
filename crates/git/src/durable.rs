//! What was done survives a power cut before the caller hears of it.
//!
//! A commit that git has reported is not on the disk yet, even with every setting of git that asks for
//! it: names of new files and folders are not synced, and what an agent's git has written is not synced
//! at all. So the first time a whole file system is synced, in one call; it is known from then on what is
//! on the disk, and each later time only what is new among objects and refs is synced, file by file and
//! folder by folder; where the files of a checkout go with it, their file system is synced as a whole again. Syncing the whole each time would wait for everything else that is being written,
//! such as the builds of other agents. A sync that failed is never tried again: nothing is durable any
//! more in this process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, syncfs};

use super::error::At as _;
use super::{ErrorKind, GitError, Identity, Repo};

/// A moment by the clock that the disk stamps files with: seconds and nanoseconds.
pub(super) type Moment = (i64, i64);

/// What is known to be on the disk.
#[derive(Default)]
pub(super) struct Synced(Mutex<State>);

#[derive(Clone, Copy, Default)]
enum State {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// Objects before one moment, and refs before another.
    Until { objects: Moment, refs: Moment },
    /// A sync has failed.
    Failed,
}

impl Repo {
    /// Puts objects and refs on the disk for good; with a checkout, also its files.
    pub(super) fn make_durable(&self, checkout: Option<&Path>) -> Result<(), GitError> {
        self.make_all_durable(checkout, What::ObjectsAndRefs)
    }

    /// Puts objects on the disk for good. What is written down beside the refs names them.
    pub(super) fn make_objects_durable(&self) -> Result<(), GitError> {
        self.make_all_durable(None, What::Objects)
    }

    fn make_all_durable(&self, checkout: Option<&Path>, what: What) -> Result<(), GitError> {
        self.runner.step("sync")?;
        self.give_objects()?;
        let mut state = self.synced.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.moment()?;
        let done = match *state {
            State::Unknown => self.sync_systems(checkout),
            State::Until { objects, refs } => self.sync_again((objects, refs), checkout, what),
            State::Failed => Err(io::Error::other("a sync has failed before")),
        };
        *state = match (&done, *state, what) {
            (Err(_), _, _) => State::Failed,
            (Ok(()), State::Until { refs, .. }, What::Objects) => State::Until { objects: now, refs },
            (Ok(()), _, _) => State::Until { objects: now, refs: now },
        };
        done.map_err(|error| {
            let message = format!("what was done could not be put on the disk: {error}");
            GitError::new(ErrorKind::Machine, message)
                .hint("see to the disk, then run `ftl resume` with the run's name")
        })
    }

    /// Finds out what is on the disk before a caller has to wait for it: the first time is the one that takes long.
    /// What goes wrong is said when something is to be made durable.
    pub(super) fn sync_early(&self) {
        let mut state = self.synced.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (State::Unknown, Ok(now)) = (*state, self.moment()) {
            let synced = self.sync_systems(None).is_ok();
            *state = if synced { State::Until { objects: now, refs: now } } else { State::Failed };
        }
    }

    /// Now, as the disk stamps it.
    pub(super) fn moment(&self) -> Result<Moment, GitError> {
        let file = self.private_dir.home().join("moment");
        ftl_folder::write(&file, b"").at(&file)?;
        ftl_folder::metadata(&file).at(&file).map(|found| (found.ctime(), found.ctime_nsec()))
    }

    /// Syncs every file system that holds something of ours, each once.
    fn sync_systems(&self, checkout: Option<&Path>) -> io::Result<()> {
        let mut done: Vec<u64> = Vec::new();
        let objects = self.common.join("objects");
        let all = [Some(self.common.as_path()), Some(&objects), Some(self.private_dir.home()), checkout];
        for folder in all.into_iter().flatten() {
            let device = Identity::of(folder)?.device;
            if !done.contains(&device) {
                sync_system(folder)?;
                done.push(device);
            }
        }
        Ok(())
    }

    /// Syncs what is new. The files of a checkout are synced with their whole file system, which has all of ours on it
    /// as a rule: then that is enough.
    fn sync_again(&self, since: (Moment, Moment), checkout: Option<&Path>, what: What) -> io::Result<()> {
        let Some(checkout) = checkout else { return self.sync_since(since, what) };
        if !self.is_all_beside(checkout)? {
            self.sync_since(since, what)?;
        }
        sync_system(checkout)
    }

    /// Whether everything of ours is on the file system of a folder.
    fn is_all_beside(&self, folder: &Path) -> io::Result<bool> {
        let device = Identity::of(folder)?.device;
        for ours in [self.common.as_path(), &self.common.join("objects"), self.private_dir.home()] {
            if Identity::of(ours)?.device != device {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn sync_since(&self, (objects, since): (Moment, Moment), what: What) -> io::Result<()> {
        let ours = self.private_dir.objects();
        sync_below(&self.common.join("objects"), objects, Files::Objects(&ours))?;
        if what == What::Objects {
            return Ok(());
        }
        sync_below(&self.common.join("reftable"), since, Files::Synced)?;
        sync_below(&self.common.join("refs"), since, Files::SyncedByGit)?;
        for file in ["packed-refs", "HEAD"] {
            sync_file(&self.common.join(file), since)?;
        }
        // Its names are as they were where no ref was packed and no branch changed.
        if changed(&fs::symlink_metadata(&self.common)?) < since {
            return Ok(());
        }
        File::open(&self.common)?.sync_all()
    }
}

/// What is put on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Objects,
    ObjectsAndRefs,
}

/// Whether the files below a folder are synced here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files<'a> {
    Synced,
    /// Objects: one that is the same file as ours of that name was synced by our git before it got it.
    Objects(&'a Path),
    /// The git that moves refs for us syncs each before it gets its name (`core.fsync`); only the name is left.
    SyncedByGit,
}

/// Syncs what is new below a folder, files before the folders that name them. What vanishes meanwhile is
/// a file that git has moved or packed: it is new elsewhere.
fn sync_below(folder: &Path, since: Moment, files: Files<'_>) -> io::Result<()> {
    let Some(found) = there(fs::symlink_metadata(folder))? else { return Ok(()) };
    let is_new = changed(&found) >= since;
    let Some(entries) = there(fs::read_dir(folder))? else { return Ok(()) };
    // A folder of objects whose names are as they were holds none that is new.
    let is_leaf = folder.parent().is_some_and(|above| above.ends_with("objects"));
    if is_leaf && !is_new {
        return Ok(());
    }
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let inner = match files {
                Files::Objects(ours) => Some(ours.join(entry.file_name())),
                Files::Synced | Files::SyncedByGit => None,
            };
            sync_below(&entry.path(), since, inner.as_deref().map_or(files, Files::Objects))?;
            continue;
        }
        let is_synced = match files {
            Files::Synced => false,
            Files::SyncedByGit => true,
            Files::Objects(ours) => is_one(&entry.path(), &ours.join(entry.file_name())),
        };
        if !is_synced {
            sync_file(&entry.path(), since)?;
        }
    }
    match there(File::open(folder))? {
        Some(open) if is_new => open.sync_all(),
        Some(_) | None => Ok(()),
    }
}

/// Whether two names are of one file. Ours is in a folder that only this program writes.
fn is_one(file: &Path, ours: &Path) -> bool {
    let of = |file: &Path| fs::symlink_metadata(file).map(|found| (found.dev(), found.ino(), found.nlink()));
    of(file).is_ok_and(|found| found.2 > 1 && of(ours).is_ok_and(|ours| ours == found))
}

fn sync_file(file: &Path, since: Moment) -> io::Result<()> {
    let Some(found) = there(fs::symlink_metadata(file))? else { return Ok(()) };
    if !found.is_file() || changed(&found) < since {
        return Ok(());
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match there(fs::OpenOptions::new().read(true).custom_flags(flags).open(file))? {
        Some(open) => open.sync_all(),
        None => Ok(()),
    }
}

fn changed(found: &fs::Metadata) -> Moment {
    (found.ctime(), found.ctime_nsec())
}

fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn sync_system(folder: &Path) -> io::Result<()> {
    Ok(syncfs(&File::open(folder)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_looked_at_and_what_vanished_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        fs::create_dir_all(objects.join("ab")).unwrap();
        fs::write(objects.join("ab/cd"), "x").unwrap();
        for files in [Files::Synced, Files::SyncedByGit, Files::Objects(folder.path())] {
            sync_below(&objects, (0, 0), files).unwrap();
            sync_below(&objects, (i64::MAX, 0), files).unwrap();
            sync_below(&folder.path().join("none"), (0, 0), files).unwrap();
        }
        sync_file(&folder.path().join("none"), (0, 0)).unwrap();
        let (one, other) = (objects.join("ab/cd"), objects.join("ab/ef"));
        assert!(!is_one(&one, &one), "a file of one name has no second one");
        fs::hard_link(&one, &other).unwrap();
        assert!(is_one(&one, &other));
    }
}
