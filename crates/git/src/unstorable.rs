//! Odd things in a worktree: what exists only there and cannot go into a tree as it is.
//!
//! A repository inside, with its `.git`; the objects of submodules; a name that no tree may hold. Their
//! bytes are stored all the same, under names that say so: `.git` becomes `.git.kept`. Nothing is followed
//! and nothing that could block is opened.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::entry::{MODE_EXECUTABLE, MODE_FILE, MODE_LINK};
use super::error::At as _;
use super::private_dir::apart;
use super::probe::{Seen, below, look};
use super::runner::Input;
use super::{ErrorKind, GitError, Oid, Repo};
use ftl_folder::{Folder, NameIn, set_mode};

/// The most odd files that are kept of one worktree; with more it is left standing.
pub const MAX_ODD_FILES: usize = 200_000;

/// The most bytes of odd files that are kept of one worktree.
const MAX_ODD_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// A file that no tree can hold as it is, with the name that it is kept under.
pub(super) struct Odd {
    disk: PathBuf,
    /// Where it goes in the tree.
    name: Vec<u8>,
    mode: u32,
    size: u64,
}

/// Odd files of a worktree, as they are found.
pub(super) struct Odds {
    root: PathBuf,
    room: usize,
    files: Vec<Odd>,
    bytes: u64,
    names: BTreeSet<Vec<u8>>,
    /// Pipes, sockets and devices: they hold no bytes, and only their names are noted.
    pub(super) special: Vec<Vec<u8>>,
}

impl Odds {
    /// None yet, of the worktree in that folder.
    pub(super) fn of(root: &Path) -> Odds {
        let (root, names) = (root.to_owned(), BTreeSet::new());
        Odds { root, room: MAX_ODD_FILES, files: Vec::new(), bytes: 0, names, special: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds what is at a path, with all that is below it, to be stored below a name.
    pub(super) fn add(&mut self, folder: &Path, path: &[u8], name: &[u8]) -> Result<(), GitError> {
        let disk = below(folder, path);
        let mode = match look(folder, path).at(&disk)? {
            Seen::Nothing { .. } => return Ok(()),
            Seen::Special => {
                self.special.push(path.to_vec());
                return Ok(());
            }
            Seen::Folder => return self.add_folder(folder, path, name),
            Seen::Link => MODE_LINK,
            Seen::File(false) => MODE_FILE,
            Seen::File(true) => MODE_EXECUTABLE,
        };
        let size = fs::symlink_metadata(&disk).at(&disk)?.len();
        self.bytes += size;
        if self.files.len() >= self.room || self.bytes > MAX_ODD_BYTES {
            let message = "the worktree holds more than can be kept of what is in no commit and no tree";
            let hint = "look into it, take what you need, and remove the folder yourself";
            return Err(GitError::new(ErrorKind::TooMuch, message).hint(hint));
        }
        let name = self.free(storable(&self.root, name, mode == MODE_LINK));
        self.files.push(Odd { disk, name, mode, size });
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path, path: &[u8], name: &[u8]) -> Result<(), GitError> {
        let disk = below(folder, path);
        let mut entries: Vec<Vec<u8>> = Vec::new();
        for entry in fs::read_dir(&disk).at(&disk)? {
            entries.push(entry.at(&disk)?.file_name().as_bytes().to_vec());
        }
        entries.sort();
        entries.iter().try_for_each(|entry| self.add(folder, &join(path, entry), &join(name, entry)))
    }

    /// A name that no other odd file has.
    fn free(&mut self, mut name: Vec<u8>) -> Vec<u8> {
        while !self.names.insert(name.clone()) {
            name.extend_from_slice(b".kept");
        }
        name
    }
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// A path that a tree may hold: each part that could be taken for `.git` says that it is kept. What it is
/// called then must not be there already, or one of the two would be lost.
fn storable(root: &Path, path: &[u8], is_link: bool) -> Vec<u8> {
    let mut at = root.to_owned();
    let mut parts = Vec::new();
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        let lower = part.to_ascii_lowercase();
        let mut name = part.to_vec();
        if lower == b".git" || (is_link && lower.starts_with(b".git")) {
            name.extend_from_slice(b".kept");
            while fs::symlink_metadata(below(&at, &name)).is_ok() {
                name.extend_from_slice(b".kept");
            }
        }
        parts.push(name);
        at = below(&at, part);
    }
    parts.join(&b'/')
}

impl Repo {
    /// Stores odd files, and enters them into an index.
    pub(super) fn store_odd(&self, odds: &Odds, index: &Path, folder: &Path) -> Result<(), GitError> {
        if odds.is_empty() {
            return Ok(());
        }
        let input = Input::Written(Box::new(|to| {
            odds.files.iter().enumerate().try_for_each(|(number, odd)| feed(to, number + 1, odd))
        }));
        let call = apart(self.about_objects()).words(["fast-import", "--quiet"]).input(input);
        let out = self.run(call)?.ok()?;
        let names: Result<Vec<Oid>, GitError> =
            out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(Oid::read).collect();
        let names = names?;
        if names.len() != odds.files.len() {
            return Err(GitError::new(ErrorKind::Git, "git did not store every odd file"));
        }
        let input = Input::Written(Box::new(|to| {
            odds.files.iter().zip(&names).try_for_each(|(odd, oid)| {
                write!(to, "{:06o} {oid}\t", odd.mode)?;
                to.write_all(&odd.name)?;
                to.write_all(&[0])
            })
        }));
        let words = ["-c", "core.protectNTFS=false", "-c", "core.protectHFS=false"];
        let call = self.inside(index, folder).words(words);
        let call = call.words(["update-index", "-z", "--add", "--replace", "--index-info"]);
        self.run(call.input(input))?.ok().map(drop)
    }
}

/// One blob of a stream for `fast-import`, and the question for its name.
fn feed(to: &mut dyn Write, mark: usize, odd: &Odd) -> io::Result<()> {
    let changed = || io::Error::other(format!("`{}` changed while it was kept", odd.disk.display()));
    writeln!(to, "blob\nmark :{mark}\ndata {}", odd.size)?;
    if odd.mode == MODE_LINK {
        let target = NameIn::at(&odd.disk)?.read_link()?;
        let bytes = target.as_os_str().as_bytes();
        (bytes.len() as u64 == odd.size).then_some(()).ok_or_else(changed)?;
        to.write_all(bytes)?;
    } else {
        let open = NameIn::at(&odd.disk)?.open()?;
        let copied = io::copy(&mut open.take(odd.size), to)?;
        (copied == odd.size).then_some(()).ok_or_else(changed)?;
    }
    write!(to, "\nget-mark :{mark}\n")
}

/// Lets the owner read everything below a folder: what may not be read could not be kept.
pub(super) fn let_read(folder: &Path) -> Result<(), GitError> {
    let_read_in(&Folder::open(folder).at(folder)?)
}

/// The same in a folder that is open: the mode is set of what was opened, never by its name.
fn let_read_in(folder: &Folder) -> Result<(), GitError> {
    for name in folder.names().at(folder.path())? {
        let path = folder.path().join(&name);
        let spot = folder.spot(&name).at(&path)?;
        let held = spot.pin().at(&path)?;
        let found = held.metadata().at(&path)?;
        let (mode, kind) = (found.permissions().mode(), found.file_type());
        let wanted = if kind.is_dir() { mode | 0o700 } else { mode | 0o400 };
        if wanted != mode && (kind.is_dir() || kind.is_file()) {
            set_mode(&held, wanted & 0o7777).at(&path)?;
        }
        if kind.is_dir() {
            let_read_in(&folder.folder(&name).at(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_tree_refuses_say_that_they_are_kept() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("taken/.git.kept")).unwrap();
        let cases = [
            ("lib/.git/HEAD", false, "lib/.git.kept/HEAD"),
            ("taken/.git/HEAD", false, "taken/.git.kept.kept/HEAD"),
            (".GIT/x", false, ".GIT.kept/x"),
            (".gitmodules", false, ".gitmodules"),
            (".gitmodules", true, ".gitmodules.kept"),
            ("a//b/", false, "a/b"),
        ];
        for (path, is_link, wanted) in cases {
            assert_eq!(storable(root.path(), path.as_bytes(), is_link), wanted.as_bytes(), "{path}");
        }
        let mut odds = Odds::of(root.path());
        assert_eq!(odds.free(b"x".to_vec()), b"x");
        assert_eq!(odds.free(b"x".to_vec()), b"x.kept");
        assert_eq!(join(b"a/", b"b"), b"a/b");
        assert_eq!(join(b"", b"b"), b"b");
    }

    #[test]
    fn more_than_can_be_kept_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "a").unwrap();
        fs::write(root.path().join("b"), "b").unwrap();
        let mut odds = Odds { room: 1, ..Odds::of(root.path()) };
        odds.add(root.path(), b"a", b"a").unwrap();
        assert_eq!(odds.add(root.path(), b"b", b"b").unwrap_err().trouble, ErrorKind::TooMuch);
        let mut full = Odds { bytes: MAX_ODD_BYTES, ..Odds::of(root.path()) };
        assert_eq!(full.add(root.path(), b"a", b"a").unwrap_err().trouble, ErrorKind::TooMuch);
    }
}
