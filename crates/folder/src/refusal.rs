//! Why something below `.ftl` is left alone, and what a person can do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::{MAX_NAMES, tracked};

/// Why something below `.ftl` is left alone. It comes inside of an [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderRefusal {
    /// The path is a link, or a part of the way is one.
    Link(PathBuf),
    /// Something that is no folder stands on the way.
    NotAFolder(PathBuf),
    /// The path is something else than a plain file.
    NotAFile(PathBuf),
    /// A file has another name elsewhere, and writing into it would change what lies there.
    HasOtherNames(PathBuf),
    /// A file is larger than what is read.
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The most that is read.
        most: u64,
    },
    /// A folder has more names than are read.
    TooMany(PathBuf),
    /// It belongs to another user than the one who asks.
    Foreign {
        /// What belongs to them.
        path: PathBuf,
        /// The number of the user.
        user: u32,
    },
    /// Git tracks what only `ftl` writes.
    Tracked(tracked::Tracked),
}

impl FolderRefusal {
    /// The refusal inside of an error.
    pub fn of(error: &io::Error) -> Option<&FolderRefusal> {
        error.get_ref()?.downcast_ref()
    }

    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            FolderRefusal::Link(path) if !super::is_inside(path) => {
                format!("see who has put the link `{}` there", path.display())
            }
            FolderRefusal::Link(path) => {
                let path = path.display();
                format!(
                    "nothing below .ftl may be a link: `rm {path}` removes only the link; put what it led to there"
                )
            }
            FolderRefusal::NotAFolder(path) | FolderRefusal::NotAFile(path) => {
                format!("see what `{}` is, and move it away", path.display())
            }
            FolderRefusal::HasOtherNames(path) => {
                let path = path.display();
                format!("make it a file of its own: `cp {path} {path}.own && mv {path}.own {path}`")
            }
            FolderRefusal::TooLarge { path, .. } | FolderRefusal::TooMany(path) => {
                format!("see what wrote `{}`, and move it away", path.display())
            }
            FolderRefusal::Foreign { path, .. } => {
                let path = path.display();
                format!(
                    "look at it; `cp {path} {path}.own && mv {path}.own {path}` makes what it says your own"
                )
            }
            FolderRefusal::Tracked(tracked) => tracked.hint(),
        }
    }

    /// Whether an error says that a link, or something else that is no folder, stands on the way.
    pub fn is_in_the_way(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotADirectory
            || matches!(FolderRefusal::of(error), Some(FolderRefusal::Link(_)))
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            FolderRefusal::NotAFolder(_) => io::ErrorKind::NotADirectory,
            FolderRefusal::TooLarge { .. } | FolderRefusal::TooMany(_) => io::ErrorKind::FileTooLarge,
            FolderRefusal::Link(_)
            | FolderRefusal::NotAFile(_)
            | FolderRefusal::HasOtherNames(_)
            | FolderRefusal::Foreign { .. }
            | FolderRefusal::Tracked(_) => io::ErrorKind::InvalidInput,
        }
    }
}

impl fmt::Display for FolderRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderRefusal::Link(path) => {
                write!(
                    out,
                    "`{}` is a link, not a folder or a file of ftl's, and is not followed",
                    path.display()
                )
            }
            FolderRefusal::NotAFolder(path) => write!(out, "`{}` is no folder", path.display()),
            FolderRefusal::NotAFile(path) => write!(out, "`{}` is no file", path.display()),
            FolderRefusal::HasOtherNames(path) => {
                write!(out, "`{}` is a hard link: the same file has another name elsewhere", path.display())
            }
            FolderRefusal::TooLarge { path, most } => {
                write!(out, "`{}` has too many bytes: {most} is the most", path.display())
            }
            FolderRefusal::TooMany(path) => {
                write!(out, "`{}` holds more than {MAX_NAMES} names", path.display())
            }
            FolderRefusal::Foreign { path, user } => {
                write!(out, "`{}` belongs to another user (number {user})", path.display())
            }
            FolderRefusal::Tracked(tracked) => tracked.fmt(out),
        }
    }
}

impl std::error::Error for FolderRefusal {}

impl From<FolderRefusal> for io::Error {
    fn from(refusal: FolderRefusal) -> io::Error {
        io::Error::new(refusal.kind(), refusal)
    }
}
