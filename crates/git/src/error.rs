//! What can go wrong with a repository, said to people.

use std::fmt;
use std::io;
use std::path::Path;

use ftl_core::machine::MachineCause;
use ftl_core::run::{Failure, FailureKind};

use ftl_folder::FolderRefusal;

/// Why something could not be done with a repository, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitError {
    /// What kind of error, for callers that go on differently.
    pub trouble: ErrorKind,
    /// What went wrong, in one sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// The kinds of error that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no repository here.
    NoRepository,
    /// The repository is of a kind, or in a state, that cannot be worked with.
    Unsuitable,
    /// Another repository stands where ours stood.
    Replaced,
    /// What the caller gave is no longer true of the repository.
    Stale,
    /// There is no such worktree, run or kept work.
    Unknown,
    /// A name that is not allowed.
    BadName,
    /// The caller has called it off.
    Cancelled,
    /// More than a limit allows.
    TooMuch,
    /// Git took too long, and was ended.
    TimedOut,
    /// Another repository does not answer.
    Unreachable,
    /// An object is not there that must be: the repository was pruned.
    Missing,
    /// Git could not do it.
    Git,
    /// The disk could not do it.
    Disk,
    /// The machine could not do it: a failing or full disk, no memory, no descriptors, a damaged repository.
    Machine,
}

impl GitError {
    /// A trouble with its sentence.
    pub fn new(trouble: ErrorKind, message: impl Into<String>) -> GitError {
        GitError { trouble, message: message.into(), hint: None }
    }

    /// What a system call did not do.
    pub(super) fn of_io(message: impl Into<String>, error: &io::Error) -> GitError {
        GitError::judged(ErrorKind::Disk, cause_of_start(error), message)
    }

    /// A git that could not be started in a folder: one of ours that is gone says nothing about the work.
    pub(super) fn of_start(message: impl Into<String>, folder: &Path, error: &io::Error) -> GitError {
        let is_gone = error.kind() == io::ErrorKind::NotFound && is_state(folder);
        let cause = cause_of_start(error).or_else(|| is_gone.then_some(MachineCause::Repository));
        GitError::judged(ErrorKind::Disk, cause, message)
    }

    /// What git did not do, by what it said.
    pub(super) fn of_git(message: impl Into<String>, said: &str) -> GitError {
        match MachineCause::of_git(said).or_else(|| lacks_state(said).then_some(MachineCause::Repository)) {
            None | Some(MachineCause::Repository) if says_missing(said) => GitError::missing(message),
            cause => GitError::judged(ErrorKind::Git, cause, message),
        }
    }

    /// An object of the repository that must be there and is not.
    pub(super) fn missing(message: impl Into<String>) -> GitError {
        GitError::new(ErrorKind::Missing, message).hint(MachineCause::Repository.hint())
    }

    fn judged(trouble: ErrorKind, cause: Option<MachineCause>, message: impl Into<String>) -> GitError {
        match cause {
            Some(cause) => GitError::new(ErrorKind::Machine, message).hint(cause.hint()),
            None => GitError::new(trouble, message),
        }
    }

    /// The same with something to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> GitError {
        if self.trouble == ErrorKind::Machine && self.hint.is_some() {
            // What mends the machine comes before whatever else could be done.
            return self;
        }
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
        GitError::of_io(error.to_string(), &error)
    }
}

/// Says at which path the disk could not do it.
pub(super) trait At<T> {
    /// The same with its path.
    fn at(self, path: &Path) -> Result<T, GitError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, GitError> {
        self.map_err(|error| {
            let message = format!("`{}`: {error}", path.display());
            if let Some(refusal) = FolderRefusal::of(&error) {
                let trouble = if is_state(path) { ErrorKind::Machine } else { ErrorKind::Disk };
                return GitError::new(trouble, message).hint(refusal.hint());
            }
            let cause = MachineCause::of_error(error.raw_os_error(), &error.to_string())
                .or_else(|| is_state(path).then_some(MachineCause::Repository));
            GitError::judged(ErrorKind::Disk, cause, message)
        })
    }
}

/// What an error of a system call says about the machine, starts of processes included.
fn cause_of_start(error: &io::Error) -> Option<MachineCause> {
    MachineCause::of_start_error(error.raw_os_error(), &error.to_string())
}

/// Whether git says that it misses a file or folder that git or we keep about a repository.
fn lacks_state(said: &str) -> bool {
    let is_missing = said.contains("No such file or directory") || said.contains("Not a directory");
    is_missing && said.split('\'').skip(1).step_by(2).any(|named| is_state(Path::new(named)))
}

/// Whether a path is among the files that git or we keep about a repository, where no work is: what cannot be
/// done there is never the fault of a task.
fn is_state(path: &Path) -> bool {
    let parts: Vec<&std::ffi::OsStr> = path.iter().collect();
    let ours = |pair: &[&std::ffi::OsStr]| pair == [".ftl", "store"];
    let git = parts.iter().position(|part| *part == ".git");
    let before = git.map(|at| &parts[..at]);
    parts.windows(2).any(ours) || before.is_some_and(|before| before.iter().all(|part| *part != ".ftl"))
}

impl From<GitError> for Failure {
    /// What git did not do, as a failure of an action.
    fn from(error: GitError) -> Failure {
        let kind = match error.trouble {
            ErrorKind::Stale => FailureKind::Stale,
            ErrorKind::BadName | ErrorKind::TooMuch => FailureKind::Failed,
            ErrorKind::TimedOut => FailureKind::Timeout,
            ErrorKind::NoRepository
            | ErrorKind::Unsuitable
            | ErrorKind::Cancelled
            | ErrorKind::Unreachable
            | ErrorKind::Git
            | ErrorKind::Disk => FailureKind::CouldNotRun,
            // There was a repository, with the run's branch and its worktrees, when the run began.
            ErrorKind::Machine | ErrorKind::Missing | ErrorKind::Replaced | ErrorKind::Unknown => {
                return MachineCause::Repository.failure(error.to_string());
            }
        };
        Failure::new(kind, error.to_string())
    }
}

/// What git says, in the language that it is told to speak, where an object is not there.
const MISSING: [&str; 11] = [
    "invalid object",
    "bad object",
    "bad tree object",
    "nonexistent object",
    "missing object",
    "not a valid object",
    "unable to read",
    "could not read",
    "failed to unpack tree object",
    "failed to traverse parents",
    "could not parse",
];

/// Whether git speaks of an object that is not there.
pub(super) fn says_missing(said: &str) -> bool {
    let said = said.to_lowercase();
    MISSING.iter().any(|words| said.contains(words))
}

/// What git said that is no answer to what it was asked.
pub(super) fn unreadable(bytes: &[u8]) -> GitError {
    let shown: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
    GitError::new(ErrorKind::Git, format!("git said what cannot be understood: {shown:?}"))
}

/// Why what git asks its caller for was not done: to look at what would land, or to set a worktree up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackError(String);

impl CallbackError {
    /// An error with its sentence.
    pub fn new(message: impl Into<String>) -> CallbackError {
        CallbackError(message.into())
    }
}

impl fmt::Display for CallbackError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for CallbackError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_repository_are_told_from_files_of_the_work() {
        for path in ["/r/.git/HEAD", "/r/.ftl/store/git/moment", "/r/.git/worktrees/x/HEAD"] {
            assert!(is_state(Path::new(path)), "{path}");
        }
        for path in ["/r/.ftl/worktrees/x/a.py", "/r/.ftl/worktrees/x/.git", "/r/a.py", "/r/store/a"] {
            assert!(!is_state(Path::new(path)), "{path}");
        }
        let gone = |path: &str| Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)).at(Path::new(path));
        assert_eq!(gone("/r/.ftl/store/git/moment").unwrap_err().trouble, ErrorKind::Machine);
        assert_eq!(gone("/r/.ftl/worktrees/x/a.py").unwrap_err().trouble, ErrorKind::Disk);
    }

    #[test]
    fn the_machine_is_told_from_the_disk_and_from_git() {
        let full = io::Error::from(rustix::io::Errno::NOSPC);
        let error = GitError::from(full);
        assert_eq!(error.trouble, ErrorKind::Machine);
        assert!(error.hint.is_some_and(|hint| hint.contains("make room")));
        assert_eq!(GitError::from(io::Error::from(rustix::io::Errno::ACCESS)).trouble, ErrorKind::Disk);
        assert_eq!(GitError::of_git("x", "error: invalid object 12").trouble, ErrorKind::Missing);
        assert_eq!(GitError::of_git("x", "CONFLICT (content)").trouble, ErrorKind::Git);
        let lock = |path: &str| format!("fatal: Unable to create '{path}': No such file or directory");
        let trouble = |path: &str| GitError::of_git("x", &lock(path)).trouble;
        assert_eq!(trouble("/r/.ftl/store/git/index/a-0.lock"), ErrorKind::Machine);
        assert_eq!(trouble("/r/.ftl/worktrees/a-0/x"), ErrorKind::Git);
        let gone = io::Error::from(io::ErrorKind::NotFound);
        let start = |folder: &str| GitError::of_start("x", Path::new(folder), &gone).trouble;
        assert_eq!(start("/r/.ftl/store/git/chamber"), ErrorKind::Machine);
        assert_eq!(start("/r/.ftl/worktrees/a-0"), ErrorKind::Disk);
    }
}
