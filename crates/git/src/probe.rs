//! What is at a path below a folder, without following a link and without opening anything.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing, or something stands in the way to it.
    Nothing {
        /// Whether a part of the way is something else than a folder.
        blocked: bool,
    },
    /// A file; whether it can be run.
    File(bool),
    /// A link, wherever it leads.
    Link,
    /// A folder that is no link.
    Folder,
    /// A pipe, a socket or a device: nothing that holds bytes.
    Special,
}

/// A path out of git's bytes.
pub(super) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Where a path of a repository is, below a folder.
pub(super) fn below(folder: &Path, bytes: &[u8]) -> PathBuf {
    folder.join(path(bytes))
}

/// Looks at a path below a folder, part by part.
pub(super) fn look(folder: &Path, bytes: &[u8]) -> io::Result<Seen> {
    let mut at = folder.to_owned();
    let mut parts = path(bytes).components().peekable();
    while let Some(part) = parts.next() {
        at.push(part);
        let found = match fs::symlink_metadata(&at) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Seen::Nothing { blocked: false });
            }
            Err(error) => return Err(error),
        };
        let kind = found.file_type();
        match (parts.peek().is_some(), kind.is_dir()) {
            (true, true) => {}
            (true, false) => return Ok(Seen::Nothing { blocked: true }),
            (false, true) => return Ok(Seen::Folder),
            (false, false) if kind.is_file() => {
                return Ok(Seen::File(found.permissions().mode() & 0o100 != 0));
            }
            (false, false) if kind.is_symlink() => return Ok(Seen::Link),
            (false, false) => return Ok(Seen::Special),
        }
    }
    Ok(Seen::Folder)
}

/// What is in a file of so many bytes at most. Whatever is no file is not waited for and a link not followed, also
/// where it takes the place of a file this very moment.
pub(super) fn read_file(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    ftl_folder::read(file, most)
}

/// The parts of a list that git wrote with a zero byte after each.
pub(super) fn zeroed(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_read_and_only_as_much_as_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "1234").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let mode = rustix::fs::Mode::from_bits_truncate(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read_file(&at("file"), 4).unwrap(), b"1234");
        for (name, most) in [("file", 3), ("link", 9), ("pipe", 9), (".", 9), ("none", 9)] {
            assert!(read_file(&at(name), most).is_err(), "{name}");
        }
        assert_eq!(read_file(&at("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
