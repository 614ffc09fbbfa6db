//! A name in a folder that is open: what is moved, made or removed by it is in that folder, wherever
//! the path leads by then.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};

use super::{Folder, FolderRefusal, OpenMode, PLAIN, Way, not_opened};

/// A name in a folder that is open, whether anything has that name or not.
#[derive(Debug)]
pub struct NameIn {
    path: PathBuf,
    folder: OwnedFd,
    name: OsString,
}

impl NameIn {
    /// A name by its path: no link is followed from `.ftl` on.
    pub fn at(path: &Path) -> io::Result<NameIn> {
        NameIn::of(&Way::of(path)?, path.to_owned())
    }

    /// A name by its path from a folder on: no link is followed below that folder.
    pub fn below(root: &Path, path: &Path) -> io::Result<NameIn> {
        NameIn::of(&Way::below(root, path)?, root.join(path))
    }

    fn of(way: &Way<'_>, path: PathBuf) -> io::Result<NameIn> {
        let (folder, name) = way.parent()?;
        Ok(NameIn { path, folder, name: name.to_owned() })
    }

    /// The path under which it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Holds on to what has the name, without opening it: no other file gets its inode meanwhile.
    pub fn pin(&self) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?))
    }

    /// What has the name. A link is told as a link.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.pin()?.metadata()
    }

    /// Opens the file to read it.
    pub fn open(&self) -> io::Result<File> {
        let opened = rustix::fs::openat(&self.folder, &self.name, OFlags::RDONLY | PLAIN, Mode::empty());
        let refused = |error| not_opened(&self.folder, (&self.name, &self.path), error);
        let file = File::from(opened.map_err(refused)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(FolderRefusal::NotAFile(self.path.clone()).into())
        }
    }

    /// Makes a file; nothing may have the name.
    pub fn create(&self, mode: u32) -> io::Result<File> {
        let flags = OpenMode::New.flags() | PLAIN;
        Ok(File::from(rustix::fs::openat(&self.folder, &self.name, flags, Mode::from(mode))?))
    }

    /// Removes what has the name and is no folder. A link goes, not what it leads to.
    pub fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Removes the folder that has the name, if it is empty.
    pub fn remove_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?)
    }

    /// Makes a folder; nothing may have the name.
    pub fn make_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.folder, &self.name, Mode::from(0o777))?)
    }

    /// Makes a link; nothing may have the name.
    pub fn make_link(&self, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(to, &self.folder, &self.name)?)
    }

    /// Where the link leads that has the name.
    pub fn read_link(&self) -> io::Result<PathBuf> {
        let to = rustix::fs::readlinkat(&self.folder, &self.name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(to.into_bytes())))
    }

    /// Gives what has the name another one, whatever has that.
    pub fn rename(&self, to: &NameIn) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, &self.name, &to.folder, &to.name)?)
    }

    /// The same, if nothing has the other name.
    pub fn rename_new(&self, to: &NameIn) -> io::Result<()> {
        self.rename_with(to, RenameFlags::NOREPLACE)
    }

    /// Has two names change places.
    pub fn exchange(&self, other: &NameIn) -> io::Result<()> {
        self.rename_with(other, RenameFlags::EXCHANGE)
    }

    fn rename_with(&self, to: &NameIn, how: RenameFlags) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(&self.folder, &self.name, &to.folder, &to.name, how)?)
    }

    /// Gives a file a second name, if nothing has that.
    pub fn link(&self, to: &NameIn) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.folder, &self.name, &to.folder, &to.name, AtFlags::empty())?)
    }
}

/// Sets who may use what was pinned: it is reached through the descriptor, never by its name.
pub fn set_mode(pinned: &impl AsRawFd, mode: u32) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    Ok(rustix::fs::chmodat(CWD, own, Mode::from(mode), AtFlags::empty())?)
}

impl Folder {
    /// A name in it.
    pub fn spot(&self, name: impl AsRef<OsStr>) -> io::Result<NameIn> {
        let name = name.as_ref();
        let folder = self.open.as_fd().try_clone_to_owned()?;
        Ok(NameIn { path: self.path.join(name), folder, name: name.to_owned() })
    }
}
