//! Why something below `.ftl` is left alone, and what a person can do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::{MAX_NAMES, tracked};

/// Why something below `.ftl` is left alone. It comes inside of an [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A link stands there, or on the way there.
    Link(PathBuf),
    /// Something that is no folder stands on the way.
    NotAFolder(PathBuf),
    /// Something that is no plain file stands there.
    NotAFile(PathBuf),
    /// A file has another name elsewhere, and writing into it would change what lies there.
    HasOtherNames(PathBuf),
    /// A file is larger than what is read.
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// The most that is read.
        most: u64,
    },
    /// A folder has more names than are read.
    TooMany(PathBuf),
    /// Git tracks what only `ftl` writes.
    Tracked(tracked::Tracked),
}

impl Refusal {
    /// The refusal inside of an error.
    pub fn of(error: &io::Error) -> Option<&Refusal> {
        error.get_ref()?.downcast_ref()
    }

    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Refusal::Link(path) if !super::is_inside(path) => {
                format!("see who has put the link `{}` there", path.display())
            }
            Refusal::Link(path) => {
                let path = path.display();
                format!(
                    "nothing below .ftl may be a link: `rm {path}` removes only the link; put what it led to there"
                )
            }
            Refusal::NotAFolder(path) | Refusal::NotAFile(path) => {
                format!("see what `{}` is, and move it away", path.display())
            }
            Refusal::HasOtherNames(path) => {
                let path = path.display();
                format!("make it a file of its own: `cp {path} {path}.own && mv {path}.own {path}`")
            }
            Refusal::TooLarge { path, .. } | Refusal::TooMany(path) => {
                format!("see what wrote `{}`, and move it away", path.display())
            }
            Refusal::Tracked(tracked) => tracked.hint(),
        }
    }

    /// Whether an error says that a link, or something else that is no folder, stands on the way.
    pub fn is_in_the_way(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotADirectory || matches!(Refusal::of(error), Some(Refusal::Link(_)))
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Refusal::NotAFolder(_) => io::ErrorKind::NotADirectory,
            Refusal::TooLarge { .. } | Refusal::TooMany(_) => io::ErrorKind::FileTooLarge,
            Refusal::Link(_) | Refusal::NotAFile(_) | Refusal::HasOtherNames(_) | Refusal::Tracked(_) => {
                io::ErrorKind::InvalidInput
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Link(path) => {
                write!(
                    out,
                    "`{}` is a link, not a folder or a file of ftl's, and is not followed",
                    path.display()
                )
            }
            Refusal::NotAFolder(path) => write!(out, "`{}` is no folder", path.display()),
            Refusal::NotAFile(path) => write!(out, "`{}` is no file", path.display()),
            Refusal::HasOtherNames(path) => {
                write!(out, "`{}` is a hard link: the same file has another name elsewhere", path.display())
            }
            Refusal::TooLarge { path, most } => {
                write!(out, "`{}` has too many bytes: {most} is the most", path.display())
            }
            Refusal::TooMany(path) => {
                write!(out, "`{}` holds more than {MAX_NAMES} names", path.display())
            }
            Refusal::Tracked(tracked) => tracked.fmt(out),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        io::Error::new(refusal.kind(), refusal)
    }
}
