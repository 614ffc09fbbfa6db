//! Temporary folders that go away with the process that made them, also when that was killed.
//!
//! A folder is called `ftl-` and eight letters and holds a file that its maker has locked for as long as it lives.
//! The process that makes the next one, and the doctor, remove those whose lock is free. Only folders are removed
//! that have such a name, belong to us alone, and hold such a file; those of earlier versions, which hold none, only
//! when they are a day old and nothing is in them but sockets that no process answers.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::id::RunId;
use super::{Folder, OpenMode, lock, open, remove_whole};

/// The file that the maker of a folder holds locked.
const LOCK: &str = "owner.lock";

/// How many names of the folder above are looked at.
pub const MAX_LOOKED: usize = 50_000;

/// How many folders one command removes.
pub const MAX_REMOVED: usize = 100;

/// How old a folder without a lock must be.
const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a new folder is made when another process has taken the last one for a dead one's.
const MAX_TRIES: usize = 20;

/// What a folder is for; the beginning of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The sockets of agents' programs.
    McpEndpoint,
    /// The look whether an agent answers.
    Probe,
    /// What test runners report.
    Report,
}

const PURPOSES: [Purpose; 3] = [Purpose::McpEndpoint, Purpose::Probe, Purpose::Report];

impl Purpose {
    const fn prefix(self) -> &'static str {
        match self {
            Purpose::McpEndpoint => "ftl-",
            Purpose::Probe => "ftl-probe-",
            Purpose::Report => "ftl-report-",
        }
    }

    /// What a folder of that name is for; nothing if the name is none of ours.
    fn of(name: &OsStr) -> Option<Purpose> {
        let name = name.to_str()?;
        let is_id = |rest: &str| rest.parse::<RunId>().is_ok();
        PURPOSES.into_iter().find(|one| name.strip_prefix(one.prefix()).is_some_and(is_id))
    }
}

/// A folder that only we can enter and that goes away with us.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a folder where such things are made, and removes what the dead left there.
    pub fn make(purpose: Purpose) -> io::Result<Scratch> {
        let above = above(purpose);
        sweep(&above);
        Scratch::make_in(&above, purpose)
    }

    fn make_in(above: &Path, purpose: Purpose) -> io::Result<Scratch> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..MAX_TRIES {
            let path = above.join(format!("{}{}", purpose.prefix(), RunId::random()?));
            DirBuilder::new().mode(0o700).create(&path)?;
            match hold(&path) {
                Ok(lock) => return Ok(Scratch { path, _lock: lock }),
                // Another process met it before it was locked and has removed it, or is about to.
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_whole(&self.path);
    }
}

/// Locks the file of a folder that was just made; it must still stand there then.
fn hold(path: &Path) -> io::Result<File> {
    let file = path.join(LOCK);
    let lock = open(&file, OpenMode::New)?;
    if lock::try_lock(&lock)? && lock::is_at(&lock, &file)? {
        Ok(lock)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Where folders of a purpose are made: sockets need a short path.
fn above(purpose: Purpose) -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    match purpose {
        Purpose::McpEndpoint => own.unwrap_or_else(std::env::temp_dir),
        Purpose::Probe | Purpose::Report => std::env::temp_dir(),
    }
}

/// Removes what the dead left, wherever it was made; how many folders.
pub fn sweep_all() -> usize {
    let (mcp_endpoint, probe) = (above(Purpose::McpEndpoint), above(Purpose::Probe));
    let more = if probe == mcp_endpoint { 0 } else { sweep(&probe) };
    sweep(&mcp_endpoint) + more
}

/// Removes what the dead left in a folder; how many. What cannot be looked at or removed is left for another time.
fn sweep(above: &Path) -> usize {
    let listed = above.canonicalize().and_then(|above| Folder::open(&above)?.first_names(MAX_LOOKED));
    let names = listed.unwrap_or_default();
    let ours = names.iter().filter(|name| Purpose::of(name).is_some());
    let removed = ours.filter(|name| remove_dead(&above.join(name)).unwrap_or(false));
    removed.take(MAX_REMOVED).count()
}

/// Removes a folder if the process that made it is dead.
fn remove_dead(path: &Path) -> io::Result<bool> {
    let folder = Folder::open(path)?;
    if !is_own(&folder.own_metadata()?) {
        return Ok(false);
    }
    let _held = match folder.file(OsStr::new(LOCK)) {
        Ok(lock) if is_own_file(&lock.metadata()?) => {
            if !lock::try_lock(&lock).unwrap_or(false) {
                return Ok(false);
            }
            Some(lock)
        }
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !is_deserted(&folder, SystemTime::now())? {
                return Ok(false);
            }
            None
        }
        Err(error) => return Err(error),
    };
    remove_whole(path)
}

/// Whether a folder belongs to us, and no other user may enter it.
fn is_own(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o7777 == 0o700
}

fn is_own_file(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0
}

/// Whether a folder without a lock is an earlier version's, and no process uses it any more.
fn is_deserted(folder: &Folder, now: SystemTime) -> io::Result<bool> {
    let changed = folder.own_metadata()?.modified()?;
    if now.duration_since(changed).map_or(true, |age| age < MIN_AGE) {
        return Ok(false);
    }
    for name in folder.names()? {
        let is_socket = folder.metadata(&name)?.file_type().is_socket();
        let refuses = || {
            let tried = UnixStream::connect(folder.path().join(&name));
            tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if !is_socket || !refuses() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A folder as one that was killed leaves it.
    fn leave_behind(above: &Path) -> PathBuf {
        let made = Scratch::make_in(above, Purpose::McpEndpoint).unwrap();
        fs::create_dir_all(made.path().join("cli-1-0/home")).unwrap();
        fs::write(made.path().join("cli-1-0/home/x"), "x").unwrap();
        let path = made.path().to_owned();
        // The lock goes as it does with a killed process, and the folder stays.
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).unwrap();
        drop(made);
        fs::rename(aside, &path).unwrap();
        path
    }

    fn age(path: &Path) {
        let old = SystemTime::now() - 2 * MIN_AGE;
        File::open(path).unwrap().set_modified(old).unwrap();
    }

    #[test]
    fn a_folder_goes_with_its_maker_and_a_dead_one_s_with_the_next() {
        let above = tempfile::tempdir().unwrap();
        let living = Scratch::make_in(above.path(), Purpose::Probe).unwrap();
        let dead = leave_behind(above.path());
        assert_eq!(sweep(above.path()), 1);
        assert!(living.path().is_dir() && !dead.exists());
        assert_eq!(sweep(above.path()), 0);
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn what_only_looks_like_ours_is_left_alone() {
        let above = tempfile::tempdir().unwrap();
        let victim = above.path().join("thesis");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join(LOCK), "mine").unwrap();
        symlink(&victim, above.path().join("ftl-aaaaaaaa")).unwrap();
        for name in ["ftl-aaaa", "ftl-demo-aaaaaaaa", "ftl-AAAAAAAA", "xftl-aaaaaaaa", "ftl-aaaaaaaab"] {
            fs::rename(leave_behind(above.path()), above.path().join(name)).unwrap();
        }
        let open = above.path().join("ftl-bbbbbbbb");
        fs::rename(leave_behind(above.path()), &open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let linked = above.path().join("ftl-cccccccc");
        DirBuilder::new().mode(0o700).create(&linked).unwrap();
        symlink(victim.join(LOCK), linked.join(LOCK)).unwrap();
        age(&linked);
        let before = fs::read_dir(above.path()).unwrap().count();
        assert_eq!(sweep(above.path()), 0);
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), before);
        assert_eq!(fs::read_to_string(victim.join(LOCK)).unwrap(), "mine");
    }

    #[test]
    fn a_folder_of_an_earlier_version_goes_when_it_is_surely_deserted() {
        let above = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = above.path().join(name);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            path
        };
        let (young, empty, dead) = (make("ftl-aaaaaaaa"), make("ftl-bbbbbbbb"), make("ftl-cccccccc"));
        let (alive, full) = (make("ftl-dddddddd"), make("ftl-eeeeeeee"));
        drop(UnixListener::bind(dead.join("s")).unwrap());
        let _listens = UnixListener::bind(alive.join("s")).unwrap();
        fs::write(full.join("work"), "work").unwrap();
        [&empty, &dead, &alive, &full].into_iter().for_each(|path| age(path));
        assert_eq!(sweep(above.path()), 2);
        assert!(young.exists() && alive.exists() && full.exists() && !empty.exists() && !dead.exists());
    }

    #[test]
    fn no_more_is_removed_at_once_than_the_limit() {
        let above = tempfile::tempdir().unwrap();
        for _ in 0..=MAX_REMOVED {
            leave_behind(above.path());
        }
        assert_eq!((sweep(above.path()), sweep(above.path())), (MAX_REMOVED, 1));
    }
}
