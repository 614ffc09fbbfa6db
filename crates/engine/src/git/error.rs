//! What can go wrong with a repository, said to people.

use std::fmt;
use std::io;
use std::path::Path;

/// Why something could not be done with a repository, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitError {
    /// What kind of trouble, for whoever must go on differently.
    pub trouble: Trouble,
    /// What went wrong, in one sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no repository here.
    NoRepository,
    /// The repository is of a kind, or in a state, that cannot be worked with.
    Unsuitable,
    /// Another repository stands where ours stood.
    Replaced,
    /// What was given is not what stands there now.
    Stale,
    /// There is no such worktree, run or kept work.
    Unknown,
    /// A name that is not allowed.
    BadName,
    /// Nobody wants it any more.
    Cancelled,
    /// More than a limit allows.
    TooMuch,
    /// Git took too long, and was ended.
    TimedOut,
    /// Another repository does not answer.
    Unreachable,
    /// Git could not do it.
    Git,
    /// The disk could not do it.
    Disk,
}

impl GitError {
    /// A trouble with its sentence.
    pub fn new(trouble: Trouble, message: impl Into<String>) -> GitError {
        GitError { trouble, message: message.into(), hint: None }
    }

    /// The same with something to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> GitError {
        GitError { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for GitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(out, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for GitError {}

impl From<io::Error> for GitError {
    fn from(error: io::Error) -> GitError {
        GitError::new(Trouble::Disk, error.to_string())
    }
}

/// Says at which path the disk could not do it.
pub(super) trait At<T> {
    /// The same with its path.
    fn at(self, path: &Path) -> Result<T, GitError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, GitError> {
        self.map_err(|error| GitError::new(Trouble::Disk, format!("`{}`: {error}", path.display())))
    }
}
