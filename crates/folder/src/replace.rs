//! Replacing a file: the old one or the new one is there, never half of each.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode};

use super::{OpenMode, PLAIN, Way};

/// How far back the time of a file is set that is marked.
const BACKDATED: Duration = Duration::from_secs(1);

/// Puts bytes in the place of a file: the old one or the new one, never half of each.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    Beside::write(file, bytes)?.install().map(drop)
}

/// The same for a file of a person's own: a link is followed and stays a link, a file that is marked read-only is left
/// alone, and the new file is on the disk when this returns.
pub fn replace_own(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if std::fs::metadata(&file).is_ok_and(|before| before.permissions().readonly()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    replace(&file, bytes)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The same for a file that can be made again: the caller does not wait for the disk.
pub fn replace_soon(file: &Path, bytes: &[u8]) -> io::Result<()> {
    Beside::create_beside(file, bytes, Wait::No)?.install().map(drop)
}

/// Whether a new file is on the disk before it is known by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    No,
    Yes,
    /// And its time is set back, so that every later change shows.
    Marked,
}

/// A file that lies on the disk beside the one that it is to replace. It goes away if it does not.
#[derive(Debug)]
pub struct Beside {
    folder: OwnedFd,
    own: OsString,
    name: OsString,
    mark: String,
    installed: bool,
}

impl Beside {
    /// Writes bytes beside a file, to the disk.
    pub fn write(file: &Path, bytes: &[u8]) -> io::Result<Beside> {
        Beside::create_beside(file, bytes, Wait::Yes)
    }

    /// The same, so that no change goes without a new mark: a process that writes into it later gives it a
    /// later time, also within the same tick of the clock.
    pub fn marked(file: &Path, bytes: &[u8]) -> io::Result<Beside> {
        Beside::create_beside(file, bytes, Wait::Marked)
    }

    fn create_beside(file: &Path, bytes: &[u8], wait: Wait) -> io::Result<Beside> {
        file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let (folder, name) = Way::of(file)?.parent()?;
        // A name that no other process has taken, also none with our number that was killed.
        let own = super::id::random()?;
        let own = OsString::from(format!(".{}.{own:016x}.tmp", name.to_string_lossy()));
        let new = rustix::fs::openat(&folder, &own, OpenMode::New.flags() | PLAIN, Mode::from(0o666))?;
        let mut new = File::from(new);
        let mut beside = Beside { folder, own, name: name.to_owned(), mark: String::new(), installed: false };
        new.write_all(bytes)?;
        beside.keep_mode(&new)?;
        if wait == Wait::Marked {
            new.set_modified(SystemTime::now() - BACKDATED)?;
        }
        if wait != Wait::No {
            new.sync_all()?;
        }
        beside.mark = mark(&new.metadata()?);
        Ok(beside)
    }

    /// Users who could use the file that is replaced can use the new one, and it stays its owner's.
    fn keep_mode(&self, new: &File) -> io::Result<()> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(before) if FileType::from_raw_mode(before.st_mode) == FileType::RegularFile => {
                // Only root can give a file away; for every other user the owner is right already.
                let _ = fchown(new, Some(before.st_uid), Some(before.st_gid));
                Ok(rustix::fs::fchmod(new, Mode::from_raw_mode(before.st_mode))?)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Puts it in the place of the file; the mark that the file has as long as it is not changed.
    pub fn install(mut self) -> io::Result<String> {
        rustix::fs::renameat(&self.folder, &self.own, &self.folder, &self.name)?;
        self.installed = true;
        Ok(std::mem::take(&mut self.mark))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.installed {
            let _ = rustix::fs::unlinkat(&self.folder, &self.own, AtFlags::empty());
        }
    }
}

/// What a file is known by without reading it: which one it is, how long, and since when.
pub fn mark(found: &Metadata) -> String {
    let time = (found.mtime(), found.mtime_nsec());
    format!("{}:{}:{}:{}.{:09}", found.dev(), found.ino(), found.len(), time.0, time.1)
}
