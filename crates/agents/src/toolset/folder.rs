//! A folder that nothing leaves: paths of an agent resolved inside it, files opened by what was ruled.
//!
//! A path is walked from the folder's own descriptor, part by part, and every symbolic link on the way
//! is read by us. What comes out is a path without links. It is opened again without following any
//! link at all, so a link that is swapped in between leads nowhere. Nothing here opens a path by name.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use ftl_core::tool_policy::ResolvedPath;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// How many links a path may have.
pub const MAX_LINKS: usize = 40;

/// How many parts a path may have.
pub const MAX_PARTS: usize = 256;

/// The folder in which an agent works.
#[derive(Debug)]
pub struct WorkFolder {
    root: OwnedFd,
    given: PathBuf,
    real: PathBuf,
}

/// A path from the root of a folder without any link, `.` or `..` in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved(Vec<OsString>);

impl Resolved {
    /// The path as the tool policy sees it.
    pub fn text(&self) -> String {
        let parts: Vec<_> = self.0.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }
}

impl WorkFolder {
    /// Opens the folder of a worktree.
    pub fn open(path: &Path) -> io::Result<WorkFolder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(WorkFolder { root, given: path.to_owned(), real: path.canonicalize()? })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Where a path of an agent leads.
    pub fn resolve(&self, path: &str) -> Result<Resolved, ResolvedPath> {
        let outside = || ResolvedPath::Outside(path.to_owned());
        if path.contains('\0') || path.is_empty() {
            return Err(outside());
        }
        let below = self.below(Path::new(path)).ok_or_else(outside)?;
        self.walk(below).ok_or_else(outside)
    }

    /// The path from the folder's root, if it is written as one inside.
    fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        if !path.is_absolute() {
            return Some(path);
        }
        path.strip_prefix(&self.given).or_else(|_| path.strip_prefix(&self.real)).ok()
    }

    fn walk(&self, path: &Path) -> Option<Resolved> {
        let mut waiting: VecDeque<OsString> = parts(path)?.into();
        let mut done: Vec<OsString> = Vec::new();
        let mut links = 0;
        while let Some(part) = waiting.pop_front() {
            if part == ".." {
                done.pop()?;
                continue;
            }
            let parent = self.folder(&done).ok();
            match parent.and_then(|parent| rustix::fs::readlinkat(parent, &part, Vec::new()).ok()) {
                None => done.push(part),
                Some(target) => {
                    links += 1;
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    if target.is_absolute() {
                        done.clear();
                    }
                    let more = parts(self.below(&target)?)?;
                    more.into_iter().rev().for_each(|part| waiting.push_front(part));
                }
            }
            if links > MAX_LINKS || done.len() + waiting.len() > MAX_PARTS {
                return None;
            }
        }
        Some(Resolved(done))
    }

    /// A folder below the root, opened without following any link.
    fn folder(&self, parts: &[OsString]) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat(&self.root, ".", flags, Mode::empty())?;
        for part in parts {
            at = rustix::fs::openat(&at, part.as_os_str(), flags, Mode::empty())?;
        }
        Ok(at)
    }

    /// The same, with folders made where they are missing.
    fn make_folders(&self, parts: &[OsString]) -> io::Result<OwnedFd> {
        let mut at = self.folder(&[])?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for part in parts {
            match rustix::fs::mkdirat(&at, part.as_os_str(), Mode::from(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = rustix::fs::openat(&at, part.as_os_str(), flags, Mode::empty())?;
        }
        Ok(at)
    }

    /// Reads a plain file, at most so many bytes of it, and how large it is.
    pub fn read(&self, path: &Resolved, most: u64) -> io::Result<(Vec<u8>, u64)> {
        let (name, parents) = path.0.split_last().ok_or_else(is_folder)?;
        let parent = self.folder(parents)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = std::fs::File::from(rustix::fs::openat(&parent, name.as_os_str(), flags, Mode::empty())?);
        let found = file.metadata()?;
        if found.is_dir() {
            return Err(is_folder());
        }
        if !found.is_file() {
            return Err(io::Error::other("it is no plain file"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok((bytes, found.len()))
    }

    /// Writes a file as a whole: it is the old one or the new one at every moment. A link to the old
    /// file from elsewhere keeps the old text.
    pub fn write(&self, path: &Resolved, bytes: &[u8]) -> io::Result<()> {
        let (name, parents) = path.0.split_last().ok_or_else(is_folder)?;
        let parent = self.make_folders(parents)?;
        let mode = match rustix::fs::statat(&parent, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => {
                Some(Mode::from_raw_mode(found.st_mode & 0o777))
            }
            Ok(_) => return Err(io::Error::other("it is no plain file")),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let draft = draft_name(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&parent, draft.as_os_str(), flags, Mode::from(0o666));
        let file = match open() {
            // Left behind by a process that was killed: the name belongs to us alone.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&parent, draft.as_os_str(), AtFlags::empty())?;
                open()?
            }
            other => other?,
        };
        let done = fill(std::fs::File::from(file), bytes, mode)
            .and_then(|()| Ok(rustix::fs::renameat(&parent, draft.as_os_str(), &parent, name.as_os_str())?));
        if done.is_err() {
            let _ = rustix::fs::unlinkat(&parent, draft.as_os_str(), AtFlags::empty());
        }
        done
    }

    /// The names in a folder, sorted: each with whether it is a folder, a plain file, or neither.
    pub fn list(&self, path: &Resolved) -> io::Result<Vec<(OsString, PathKind)>> {
        let folder = self.folder(&path.0)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(&folder, ".", flags, Mode::empty())?;
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(readable)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            let stat = rustix::fs::statat(&folder, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW);
            found.push((
                name,
                stat.map_or(PathKind::Other, |stat| PathKind::of(FileType::from_raw_mode(stat.st_mode))),
            ));
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(found)
    }

    /// Whether a path is a file, a folder or something else; `None` if nothing is there.
    pub fn kind(&self, path: &Resolved) -> Option<PathKind> {
        let Some((name, parents)) = path.0.split_last() else { return Some(PathKind::Folder) };
        let parent = self.folder(parents).ok()?;
        let stat = rustix::fs::statat(&parent, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(PathKind::of(FileType::from_raw_mode(stat.st_mode)))
    }
}

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A folder that is no link.
    Folder,
    /// A file that holds bytes.
    File,
    /// A link, a device, a socket.
    Other,
}

impl PathKind {
    fn of(kind: FileType) -> PathKind {
        match kind {
            FileType::Directory => PathKind::Folder,
            FileType::RegularFile => PathKind::File,
            _ => PathKind::Other,
        }
    }
}

impl Resolved {
    /// The path of something in this folder.
    #[must_use]
    pub fn join(&self, name: &OsStr) -> Resolved {
        let mut parts = self.0.clone();
        parts.push(name.to_owned());
        Resolved(parts)
    }
}

fn fill(mut file: std::fs::File, bytes: &[u8], mode: Option<Mode>) -> io::Result<()> {
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    Ok(())
}

fn draft_name(name: &OsStr) -> OsString {
    let mut draft = OsString::from(".ftl-draft-");
    // A long name leaves no room for ours before it; its end is enough to tell drafts apart.
    let bytes = name.as_bytes();
    draft.push(OsStr::from_bytes(&bytes[bytes.len().saturating_sub(200)..]));
    draft
}

fn is_folder() -> io::Error {
    io::Error::other("it is a folder")
}

/// The parts of a path from a root; nothing for one that begins elsewhere.
fn parts(path: &Path) -> Option<Vec<OsString>> {
    let mut found = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => found.push(OsString::from("..")),
            Component::Normal(part) => found.push(part.to_owned()),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, WorkFolder) {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        std::fs::create_dir_all(inner.join("src/deep")).unwrap();
        std::fs::write(inner.join("src/a.rs"), "inside").unwrap();
        std::fs::write(outer.path().join("secret"), "outside").unwrap();
        symlink("src", inner.join("to_src")).unwrap();
        symlink("../secret", inner.join("to_secret")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        symlink("/etc", inner.join("etc")).unwrap();
        symlink("loop", inner.join("loop")).unwrap();
        symlink(inner.join("src"), inner.join("absolute")).unwrap();
        symlink("../../new", inner.join("src/dangling")).unwrap();
        symlink("../made", inner.join("src/fresh")).unwrap();
        (outer, WorkFolder::open(&inner).unwrap())
    }

    #[test]
    fn paths_are_resolved_with_their_links() {
        let (outer, folder) = folder();
        let inner = outer.path().join("inner");
        let table = [
            ("src/a.rs", Some("src/a.rs")),
            ("./src/../src/a.rs", Some("src/a.rs")),
            ("to_src/a.rs", Some("src/a.rs")),
            ("absolute/a.rs", Some("src/a.rs")),
            ("src/new/file", Some("src/new/file")),
            ("src/fresh", Some("made")),
            (".", Some("")),
            ("to_src/../a.rs", Some("a.rs")),
            ("", None),
            ("..", None),
            ("../secret", None),
            ("src/../../secret", None),
            ("to_secret", None),
            ("up/secret", None),
            ("etc/passwd", None),
            ("/etc/passwd", None),
            ("loop", None),
            ("loop/x", None),
            ("src/dangling", None),
            ("new/../../secret", None),
            ("a\0b", None),
        ];
        for (path, wanted) in table {
            let found = folder.resolve(path);
            assert_eq!(found.as_ref().ok().map(Resolved::text).as_deref(), wanted, "{path}");
            if wanted.is_none() {
                assert_eq!(found, Err(ResolvedPath::Outside(path.to_owned())));
            }
        }
        let absolute = inner.join("to_src/a.rs");
        assert_eq!(folder.resolve(absolute.to_str().unwrap()).unwrap().text(), "src/a.rs");
        assert!(folder.resolve(&"a/".repeat(MAX_PARTS + 1)).is_err(), "the limit trips");
    }

    #[test]
    fn a_link_that_is_swapped_in_leads_nowhere() {
        let (outer, folder) = folder();
        let inner = outer.path().join("inner");
        let file = folder.resolve("src/a.rs").unwrap();
        std::fs::rename(inner.join("src"), inner.join("moved")).unwrap();
        symlink(outer.path(), inner.join("src")).unwrap();
        std::fs::write(outer.path().join("a.rs"), "outside").unwrap();
        assert!(folder.read(&file, 100).is_err());
        assert!(folder.write(&file, b"x").is_err());
        assert_eq!(std::fs::read_to_string(outer.path().join("a.rs")).unwrap(), "outside");
        std::fs::remove_file(inner.join("src")).unwrap();
        std::fs::create_dir(inner.join("src")).unwrap();
        symlink("../../secret", inner.join("src/a.rs")).unwrap();
        assert!(folder.read(&file, 100).is_err());
        assert!(folder.write(&file, b"x").is_err());
        assert_eq!(std::fs::read_to_string(outer.path().join("secret")).unwrap(), "outside");
    }

    #[test]
    fn files_are_written_whole_and_keep_their_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let (outer, folder) = folder();
        let inner = outer.path().join("inner");
        let script = inner.join("run.sh");
        std::fs::write(&script, "old").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::hard_link(&script, outer.path().join("linked")).unwrap();
        folder.write(&folder.resolve("run.sh").unwrap(), b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&script).unwrap(), "new");
        assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read_to_string(outer.path().join("linked")).unwrap(), "old");
        folder.write(&folder.resolve("x/y/z.txt").unwrap(), b"deep").unwrap();
        assert_eq!(folder.read(&folder.resolve("x/y/z.txt").unwrap(), 2).unwrap(), (b"de".to_vec(), 4));
        std::fs::write(inner.join(".ftl-draft-run.sh"), "left behind").unwrap();
        folder.write(&folder.resolve("run.sh").unwrap(), b"newer").unwrap();
        assert_eq!(std::fs::read_to_string(&script).unwrap(), "newer");
        assert!(!inner.join(".ftl-draft-run.sh").exists());
    }

    #[test]
    fn only_plain_files_are_read_and_written() {
        let (outer, folder) = folder();
        let inner = outer.path().join("inner");
        rustix::fs::mkfifoat(CWD, inner.join("pipe"), Mode::from(0o600)).unwrap();
        for path in ["src", "pipe", "."] {
            let path = folder.resolve(path).unwrap();
            assert!(folder.read(&path, 10).is_err() && folder.write(&path, b"x").is_err(), "{path:?}");
        }
        assert_eq!(folder.kind(&folder.resolve("src").unwrap()), Some(PathKind::Folder));
        assert_eq!(folder.kind(&folder.resolve("pipe").unwrap()), Some(PathKind::Other));
        assert_eq!(folder.kind(&folder.resolve("nothing").unwrap()), None);
        let names = folder.list(&folder.resolve("src").unwrap()).unwrap();
        let names: Vec<_> = names.iter().map(|(name, kind)| (name.to_str().unwrap(), *kind)).collect();
        let wanted = [
            ("a.rs", PathKind::File),
            ("dangling", PathKind::Other),
            ("deep", PathKind::Folder),
            ("fresh", PathKind::Other),
        ];
        assert_eq!(names, wanted);
    }
}
