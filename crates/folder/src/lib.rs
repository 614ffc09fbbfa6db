//! The folder `.ftl`: everything below it is opened without following a link.
//!
//! A link below `.ftl` (from git, when a repository is cloned, or from an agent) could otherwise have us
//! read, write or remove a person's files anywhere. So a path is walked part by part from the folder that holds
//! `.ftl`, each part opened below the one before it, and what was opened is what is used: a link that is put there
//! between a look and the use of it is met, not followed. Where a path has no part `.ftl`, only its last part must
//! be no link. A file is opened only if it is one: a pipe in its place keeps no process waiting.
//!
//! It sees nothing else of ours: nothing in here knows of runs, stores or settings, and nothing is ever removed that the caller did not name.

pub mod clock;
pub mod id;
pub mod lock;
mod name_in_folder;
mod refusal;
mod remove;
mod replace;
pub mod rewind;
pub mod scratch;
pub mod state_folder;
pub mod tracked;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub use name_in_folder::{NameIn, set_mode};
pub use refusal::FolderRefusal;
pub use remove::{MAX_DEPTH, Sweep, remove_whole, remove_whole_below, sweep};
pub use replace::{Beside, mark, replace, replace_own, replace_soon};

/// The folder below which no link is followed.
pub const STATE: &str = ".ftl";

/// How many names of one folder are read.
pub const MAX_NAMES: usize = 1_000_000;

/// How a folder is opened on the way to what it holds.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How a file is opened: no link is followed, no pipe waited for, no terminal taken.
const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A path as it is walked: what is outside of `.ftl`, and the parts from there on.
struct Way<'path> {
    outside: PathBuf,
    parts: Vec<&'path OsStr>,
}

impl<'path> Way<'path> {
    fn of(path: &'path Path) -> io::Result<Way<'path>> {
        let all: Vec<Component<'_>> = path.components().collect();
        let last = all.len().saturating_sub(1);
        let from = all.iter().position(|part| part.as_os_str() == STATE).unwrap_or(last);
        // The topmost folder has no name.
        let from = if all.get(from) == Some(&Component::RootDir) { from + 1 } else { from };
        let outside: PathBuf = all[..from].iter().collect();
        let outside = if outside.as_os_str().is_empty() { PathBuf::from(".") } else { outside };
        Ok(Way { outside, parts: plain_parts(&all[from..], path)? })
    }

    /// A path from a folder on: every part of it is walked.
    fn below(root: &Path, path: &'path Path) -> io::Result<Way<'path>> {
        let all: Vec<Component<'path>> = path.components().collect();
        Ok(Way { outside: root.to_owned(), parts: plain_parts(&all, path)? })
    }

    /// The path up to so many parts.
    fn up_to(&self, count: usize) -> PathBuf {
        let mut path = self.outside.clone();
        path.extend(&self.parts[..count]);
        path
    }

    /// Opens the folder of the first so many parts; those that are missing are made if there is a mode for them.
    fn walk(&self, count: usize, make: Option<Mode>) -> io::Result<OwnedFd> {
        if let Some(Ok(found)) = self.leap(count, WAY, Mode::empty()) {
            return Ok(found);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat(CWD, &self.outside, flags, Mode::empty())?;
        for (index, part) in self.parts[..count].iter().enumerate() {
            let mut next = rustix::fs::openat(&at, *part, WAY, Mode::empty());
            if let (Err(Errno::NOENT), Some(mode)) = (&next, make) {
                match rustix::fs::mkdirat(&at, *part, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                next = rustix::fs::openat(&at, *part, WAY, Mode::empty());
            }
            at = next.map_err(|error| self.explain_refusal(&at, index, error))?;
        }
        Ok(at)
    }

    /// Opens what the first so many parts lead to in one call, where the kernel can walk as we do and there is no link
    /// on the whole way. Anything else on the way is found out part by part.
    fn leap(&self, count: usize, flags: OFlags, mode: Mode) -> Option<rustix::io::Result<OwnedFd>> {
        if count < 2 {
            return None;
        }
        Some(rustix::fs::openat2(CWD, self.up_to(count), flags, mode, ResolveFlags::NO_SYMLINKS))
    }

    /// Opens what the whole path leads to, in one call where that is possible.
    fn reach(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        match self.leap(self.parts.len(), flags, mode) {
            Some(Ok(found)) => return Ok(found),
            // A link would have been met before what is missing behind it.
            Some(Err(Errno::NOENT)) if !flags.contains(OFlags::CREATE) => return Err(Errno::NOENT.into()),
            Some(Err(_)) | None => {}
        }
        let (parent, name) = self.parent()?;
        let opened = rustix::fs::openat(&parent, name, flags, mode);
        opened.map_err(|error| not_opened(&parent, (name, path), error))
    }

    /// Why a part could not be opened as a folder.
    fn explain_refusal(&self, at: &OwnedFd, index: usize, error: Errno) -> io::Error {
        if !matches!(error, Errno::NOTDIR | Errno::LOOP) {
            return error.into();
        }
        let path = self.up_to(index + 1);
        match kind_at(at, self.parts[index]) {
            Ok(FileType::Symlink) => FolderRefusal::Link(path).into(),
            // It was a link when it was opened, and is something else by now.
            Ok(FileType::Directory) if error == Errno::LOOP => FolderRefusal::Link(path).into(),
            Ok(_) => FolderRefusal::NotAFolder(path).into(),
            Err(_) => error.into(),
        }
    }

    /// The folder that holds the last part, and its name.
    fn parent(&self) -> io::Result<(OwnedFd, &'path OsStr)> {
        let name = *self.parts.last().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.walk(self.parts.len() - 1, None)?, name))
    }
}

/// The names that a path consists of; one that leads up or to the top is refused.
fn plain_parts<'path>(parts: &[Component<'path>], path: &Path) -> io::Result<Vec<&'path OsStr>> {
    let mut plain = Vec::new();
    for part in parts {
        match part {
            Component::Normal(name) => plain.push(*name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(FolderRefusal::NotAFile(path.to_owned()).into());
            }
        }
    }
    Ok(plain)
}

fn kind_at(at: &impl AsFd, name: &OsStr) -> rustix::io::Result<FileType> {
    let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading only.
    Read,
    /// To read and write it where it stands; it is made if it is missing.
    Update,
    /// To read it and add to its end; it is made if it is missing.
    Append,
    /// To write a new one; there must be none.
    New,
}

impl OpenMode {
    fn flags(self) -> OFlags {
        match self {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::Update => OFlags::RDWR | OFlags::CREATE,
            OpenMode::Append => OFlags::RDWR | OFlags::CREATE | OFlags::APPEND,
            OpenMode::New => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        }
    }
}

/// Opens a file; a new one is the owner's alone.
pub fn open(path: &Path, purpose: OpenMode) -> io::Result<File> {
    open_as(path, purpose, 0o600)
}

/// Opens a file; a new one may be used as the mode says.
pub fn open_as(path: &Path, purpose: OpenMode, mode: u32) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt as _;
    let mode = if purpose == OpenMode::Read { Mode::empty() } else { Mode::from(mode) };
    let file = File::from(Way::of(path)?.reach(path, purpose.flags() | PLAIN, mode)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(FolderRefusal::NotAFile(path.to_owned()).into());
    }
    match purpose {
        OpenMode::Update | OpenMode::Append if found.nlink() > 1 => {
            Err(FolderRefusal::HasOtherNames(path.to_owned()).into())
        }
        OpenMode::Read | OpenMode::Update | OpenMode::Append | OpenMode::New => Ok(file),
    }
}

/// Why a file could not be opened.
fn not_opened(parent: &OwnedFd, (name, path): (&OsStr, &Path), error: Errno) -> io::Error {
    if error == Errno::LOOP {
        return FolderRefusal::Link(path.to_owned()).into();
    }
    match kind_at(parent, name) {
        Ok(FileType::Symlink) if error == Errno::EXIST => FolderRefusal::Link(path.to_owned()).into(),
        Ok(FileType::RegularFile) | Err(_) => error.into(),
        Ok(_) if error == Errno::EXIST || error == Errno::ACCESS => error.into(),
        Ok(_) => FolderRefusal::NotAFile(path.to_owned()).into(),
    }
}

/// A path that leads to the same from everywhere: what is outside of `.ftl` without links, the rest as it is.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    let way = Way::of(path)?;
    let mut absolute = way.outside.canonicalize()?;
    absolute.extend(&way.parts);
    Ok(absolute)
}

/// The bytes of a file of at most so many.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_up_to(open(path, OpenMode::Read)?, path, most)
}

/// The bytes of a file that a person named, of at most so many. Links outside of `.ftl` are theirs and are followed.
pub fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_up_to(open_named(path)?, path, most)
}

/// Opens a file that a person named, to read it. Links outside of `.ftl` are theirs and are followed.
pub fn open_named(path: &Path) -> io::Result<File> {
    if is_inside(path) { open(path, OpenMode::Read) } else { File::open(path) }
}

/// Whether a path leads through `.ftl`.
pub fn is_inside(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == STATE)
}

fn read_up_to(file: File, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Most files of ours are small, and are read in one go.
    let mut bytes = Vec::with_capacity(4096);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(FolderRefusal::TooLarge { path: path.to_owned(), most }.into());
    }
    Ok(bytes)
}

/// The text of a file of at most so many bytes.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// The text of a file that a person named.
pub fn read_named_text(path: &Path, most: u64) -> io::Result<String> {
    text(read_named(path, most)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes).map_err(wrong)
}

/// Has a file say something, without waiting for the disk and without a name of its own on the way: for what may
/// be lost.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_as(path, OpenMode::Update, 0o644)?;
    file.set_len(0)?;
    file.write_all(bytes)
}

/// Copies a file to where only we write; the earlier content of the target is lost.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = open_named(from)?;
    let mut target = open_as(to, OpenMode::Update, 0o644)?;
    target.set_len(0)?;
    io::copy(&mut source, &mut target).map(drop)
}

/// The metadata of what is at a path, as it would be opened. A link at its end is told as a link.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(Way::of(path)?.reach(path, flags, Mode::empty())?).metadata()
}

/// The metadata of what is at a path, to be compared with a file that is known already: whichever way the path leads,
/// equal numbers are that file. Never before a use of what is at the path.
pub fn peek(path: &Path) -> io::Result<Metadata> {
    std::fs::symlink_metadata(path)
}

/// Whether a path is a plain file.
pub fn is_file(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_file())
}

/// Whether a path is a folder, with no link on the way.
pub fn is_folder(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_dir())
}

/// Makes a folder with those above it, as far as they are below `.ftl`.
pub fn make(path: &Path) -> io::Result<()> {
    make_as(path, 0o777)
}

/// The same, to be used as the mode says.
pub fn make_as(path: &Path, mode: u32) -> io::Result<()> {
    let way = Way::of(path)?;
    way.walk(way.parts.len(), Some(Mode::from(mode))).map(drop)
}

/// Makes a folder that a person named, with those above it: outside of `.ftl` with links followed.
pub fn make_anywhere(path: &Path) -> io::Result<()> {
    if is_inside(path) {
        let way = Way::of(path)?;
        std::fs::create_dir_all(&way.outside)?;
        return way.walk(way.parts.len(), Some(Mode::from(0o777))).map(drop);
    }
    std::fs::create_dir_all(path)
}

/// Makes a folder with those above it, below a folder that is there: no link is followed below that one.
pub fn make_below(root: &Path, path: &Path) -> io::Result<()> {
    let way = Way::below(root, path)?;
    way.walk(way.parts.len(), Some(Mode::from(0o777))).map(drop)
}

/// Makes a folder that is not there yet, in one that is.
pub fn make_new(path: &Path) -> io::Result<()> {
    make_new_as(path, 0o777)
}

/// The same, to be used as the mode says.
pub fn make_new_as(path: &Path, mode: u32) -> io::Result<()> {
    let (parent, name) = Way::of(path)?.parent()?;
    Ok(rustix::fs::mkdirat(&parent, name, Mode::from(mode))?)
}

/// Removes a name that is no folder. A link goes, not what it leads to.
pub fn remove(path: &Path) -> io::Result<()> {
    let (parent, name) = Way::of(path)?.parent()?;
    Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
}

/// Gives a file or a folder another name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (old, from) = Way::of(from)?.parent()?;
    let (new, to) = Way::of(to)?.parent()?;
    Ok(rustix::fs::renameat(&old, from, &new, to)?)
}

/// The kind of thing that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A folder, which may hold more names.
    Folder,
    /// A plain file.
    File {
        /// Whether it has another name somewhere.
        has_other_names: bool,
    },
    /// A link, which is never followed.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

/// A folder that is open: what is done with its names is done in it, whatever stands at its path by then.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: OwnedFd,
}

impl Folder {
    /// Opens a folder; no part of the way below `.ftl` may be a link.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let way = Way::of(path)?;
        let open = way.walk(way.parts.len(), None)?;
        Ok(Folder { path: path.to_owned(), open })
    }

    /// Opens a folder by its path from another one on: no link is followed below that one.
    pub fn below(root: &Path, path: &Path) -> io::Result<Folder> {
        let way = Way::below(root, path)?;
        let open = way.walk(way.parts.len(), None)?;
        Ok(Folder { path: root.join(path), open })
    }

    /// Opens a folder in it.
    pub fn folder(&self, name: &OsStr) -> io::Result<Folder> {
        let way = Way { outside: self.path.clone(), parts: vec![name] };
        let opened = rustix::fs::openat(&self.open, name, WAY, Mode::empty());
        let open = opened.map_err(|error| way.explain_refusal(&self.open, 0, error))?;
        Ok(Folder { path: self.path.join(name), open })
    }

    /// An error if we may not make and remove names in it.
    pub fn check_writable(&self) -> io::Result<()> {
        use rustix::fs::{Access, accessat};
        Ok(accessat(&self.open, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder itself, to be read, synced or changed.
    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.open, ".", flags, Mode::empty())?)
    }

    /// What a path below it stands for; nothing where there is nothing, or nothing that we may see. Only the last part is looked at without
    /// following a link: this is for a word to a person, never before a use.
    pub fn glance(&self, below: &str) -> io::Result<Option<FileKind>> {
        let found = match rustix::fs::statat(&self.open, below, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
            found => found?,
        };
        Ok(Some(match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => FileKind::Folder,
            FileType::RegularFile => FileKind::File { has_other_names: found.st_nlink > 1 },
            FileType::Symlink => FileKind::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => FileKind::Other,
        }))
    }

    /// Every name in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        self.names_up_to(MAX_NAMES)
    }

    fn names_up_to(&self, most: usize) -> io::Result<Vec<OsString>> {
        let names = self.first_names(most + 1)?;
        if names.len() > most {
            return Err(FolderRefusal::TooMany(self.path.clone()).into());
        }
        Ok(names)
    }

    /// At most so many of its names, in no order.
    pub fn first_names(&self, most: usize) -> io::Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut names = Vec::new();
        for entry in Dir::new(self.readable()?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
            if names.len() == most {
                break;
            }
        }
        Ok(names)
    }

    /// The metadata of the folder itself.
    pub fn own_metadata(&self) -> io::Result<Metadata> {
        File::from(self.open.try_clone()?).metadata()
    }

    /// What a name in it stands for. A link is told as a link.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(rustix::fs::openat(&self.open, name, flags, Mode::empty())?).metadata()
    }

    /// Opens a file in it to read and lock it.
    pub fn file(&self, name: &OsStr) -> io::Result<File> {
        let opened = rustix::fs::openat(&self.open, name, OFlags::RDONLY | PLAIN, Mode::empty());
        let path = self.path.join(name);
        let file = File::from(opened.map_err(|error| not_opened(&self.open, (name, &path), error))?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(FolderRefusal::NotAFile(path).into()) }
    }

    /// Removes a name in it that is no folder.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.open, name, AtFlags::empty())?)
    }

    /// Sets who may use it.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(self.readable()?, Mode::from(mode))?)
    }

    /// Everything on its file system is on the disk when this returns.
    pub fn sync_disk(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.readable()?)?)
    }

    /// What it says about its names is on the disk when this returns.
    pub fn sync(&self) -> io::Result<()> {
        File::from(self.readable()?).sync_all()
    }
}

/// The names in a folder, sorted; none where there is no folder.
pub fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let folder = match Folder::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        folder => folder?,
    };
    let mut names = folder.names()?;
    names.sort();
    Ok(names)
}

/// What a folder says about its names is on the disk when this returns.
pub fn sync(path: &Path) -> io::Result<()> {
    Folder::open(path)?.sync()
}

/// A file without a name, in a folder: no other process can open it, and it is gone with its last descriptor.
pub fn unnamed(path: &Path) -> io::Result<File> {
    let way = Way::of(path)?;
    let at = way.walk(way.parts.len(), None)?;
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::openat(&at, ".", flags, Mode::from(0o600)) {
        Ok(file) => return Ok(File::from(file)),
        // A file system that has none of them.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let name = format!(".{:016x}.tmp", id::random()?);
    let file = rustix::fs::openat(&at, &name, OpenMode::New.flags() | PLAIN, Mode::from(0o600))?;
    rustix::fs::unlinkat(&at, &name, AtFlags::empty())?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests;
