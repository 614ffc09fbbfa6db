//! Removing a folder with all that is in it, below a folder that is open: no link is followed on the way down.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{WAY, Way, set_mode};

/// How deep folders may lie in each other that are removed whole.
pub const MAX_DEPTH: usize = 512;

/// How a folder is opened to be read.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder with all that is in it, or whatever else stands in its place; whether there was anything. No
/// link is followed, and folders that may not be written are made writable first: they are about to go.
pub fn remove_whole(path: &Path) -> io::Result<bool> {
    remove(&Way::of(path)?)
}

/// The same for a path from a folder on: no link is followed below that folder.
pub fn remove_whole_below(root: &Path, path: &Path) -> io::Result<bool> {
    remove(&Way::below(root, path)?)
}

/// What becomes of something that a sweep meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// It stays, whatever is in it.
    Leave,
    /// It stays if it may be used as this says, and goes if not.
    LeaveAs(u32),
    /// It is a folder that stays; what is in it is looked at.
    Enter,
    /// It goes, with all that is in it.
    Remove,
}

/// Walks through a folder and removes what `judge` does not keep. `judge` is told the path from that folder on and
/// whether it is a folder. No link is followed; folders that are entered may be used as the mode says afterwards.
pub fn sweep(path: &Path, mode: u32, judge: &mut dyn FnMut(&Path, bool) -> Sweep) -> io::Result<()> {
    let top = rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?;
    Ok(sweep_in(&top, Path::new(""), (Mode::from(mode), MAX_DEPTH), judge)?)
}

fn sweep_in(
    folder: &OwnedFd,
    path: &Path,
    (mode, depth): (Mode, usize),
    judge: &mut dyn FnMut(&Path, bool) -> Sweep,
) -> rustix::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    if depth == 0 {
        return Err(Errno::NAMETOOLONG);
    }
    if Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode) != mode {
        rustix::fs::fchmod(folder, mode)?;
    }
    let mut inner: Vec<PathBuf> = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode)
            }
            known => known,
        };
        let is_folder = kind == FileType::Directory;
        match judge(&path.join(name), is_folder) {
            Sweep::Leave => {}
            Sweep::LeaveAs(mode) => {
                let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if Mode::from_raw_mode(found.st_mode) != Mode::from(mode) {
                    remove_below(folder, name, depth)?;
                }
            }
            Sweep::Enter if is_folder => inner.push(PathBuf::from(name)),
            Sweep::Enter | Sweep::Remove => remove_below(folder, name, depth)?,
        }
    }
    for name in inner {
        let open = match rustix::fs::openat(folder, name.as_path(), FOLDER, Mode::empty()) {
            Err(Errno::ACCESS) => open_up(folder, name.as_os_str())?,
            opened => opened?,
        };
        sweep_in(&open, &path.join(&name), (mode, depth - 1), judge)?;
    }
    Ok(())
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
    let folder = match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
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
    rustix::fs::openat(parent, name, FOLDER, Mode::empty())
}
