//! Removing a folder with all that is in it, below a folder that is open: no link is followed on the way down.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{WAY, Way, set_mode};

/// How deep folders may lie in each other that are removed whole.
pub const MAX_DEPTH: usize = 512;

/// Removes a folder with all that is in it, or whatever else stands in its place; whether there was anything. No
/// link is followed, and folders that may not be written are made writable first: they are about to go.
pub fn remove_whole(path: &Path) -> io::Result<bool> {
    remove(&Way::of(path)?)
}

/// The same for a path from a folder on: no link is followed below that folder.
pub fn remove_whole_below(root: &Path, path: &Path) -> io::Result<bool> {
    remove(&Way::below(root, path)?)
}

fn remove(way: &Way<'_>) -> io::Result<bool> {
    let (parent, name) = match way.parent() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    match remove_below(&parent, name, MAX_DEPTH) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn remove_below(parent: &OwnedFd, name: &OsStr, depth: usize) -> rustix::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return rustix::fs::unlinkat(parent, name, AtFlags::empty());
        }
        Err(Errno::ACCESS) => open_up(parent, name)?,
        opened => opened?,
    };
    if depth == 0 {
        return Err(Errno::NAMETOOLONG);
    }
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let inner = OsStr::from_bytes(entry.file_name().to_bytes());
        if inner == "." || inner == ".." {
            continue;
        }
        match remove_below(&folder, inner, depth - 1) {
            Err(Errno::ACCESS) => {
                rustix::fs::fchmod(&folder, Mode::RWXU)?;
                remove_below(&folder, inner, depth - 1)?;
            }
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Opens a folder that its owner may not read. The mode is set through what was opened, never by its name.
fn open_up(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let held = rustix::fs::openat(parent, name, WAY, Mode::empty())?;
    set_mode(&held, 0o700).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
