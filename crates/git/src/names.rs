//! Names in a repository: objects, worktrees, keys. Each is checked once, where it comes in; below, no
//! name can lead out of the folder or the ref that it was made for.

use std::fmt;
use std::str::FromStr;

use ftl_core::catalogue::Digest;
use ftl_core::run::InstanceId;
use serde::{Deserialize, Serialize};

use super::{ErrorKind, GitError};
use ftl_folder::id::RunId;

/// The longest name of a worktree.
pub const MAX_WORKTREE_LETTERS: usize = 64;

/// The longest key of a landing or a delivery.
pub const MAX_KEY_LETTERS: usize = 96;

/// The name of an object: forty or sixty-four digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as the catalogue spells it.
    pub fn digest(&self) -> Digest {
        Digest::new(self.0.clone())
    }

    /// The first digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// A name out of the bytes that git printed.
    pub(super) fn read(bytes: &[u8]) -> Result<Oid, GitError> {
        std::str::from_utf8(bytes).unwrap_or_default().trim().parse()
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for Oid {
    type Err = GitError;

    fn from_str(text: &str) -> Result<Oid, GitError> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if matches!(text.len(), 40 | 64) && text.bytes().all(digit) {
            return Ok(Oid(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(GitError::new(ErrorKind::BadName, format!("`{shown}` is no name of a git object")))
    }
}

impl TryFrom<String> for Oid {
    type Error = GitError;

    fn try_from(text: String) -> Result<Oid, GitError> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> String {
        oid.0
    }
}

/// The name of a worktree: small letters, digits and dashes, so that it can be neither `.git` nor `..`
/// nor anything with a slash, also where a file system does not tell large letters from small ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorktreeId(String);

impl WorktreeId {
    /// The worktree of an instance of a run.
    pub fn of(run: &RunId, instance: InstanceId) -> WorktreeId {
        WorktreeId(format!("{run}-{instance}"))
    }

    /// The run and the instance, where the worktree is that of an instance.
    pub fn instance(&self) -> Option<(&str, u32)> {
        let (run, instance) = self.0.split_once('-')?;
        Some((run, instance.parse().ok()?))
    }

    /// The checkouts beside the worktrees of a run in which earlier versions looked at commits.
    pub(super) fn scratches(run: &RunId) -> [WorktreeId; 2] {
        ["landing", "looking"].map(|what| WorktreeId(format!("{run}-{what}")))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorktreeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for WorktreeId {
    type Err = GitError;

    fn from_str(text: &str) -> Result<WorktreeId, GitError> {
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=MAX_WORKTREE_LETTERS).contains(&text.len()) && !text.starts_with('-');
        if fits && text.bytes().all(known) {
            return Ok(WorktreeId(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        let message = format!("{shown:?} is no name of a worktree");
        Err(GitError::new(ErrorKind::BadName, message).hint("small letters, digits and dashes are allowed"))
    }
}

impl TryFrom<String> for WorktreeId {
    type Error = GitError;

    fn try_from(text: String) -> Result<WorktreeId, GitError> {
        text.parse()
    }
}

impl From<WorktreeId> for String {
    fn from(id: WorktreeId) -> String {
        id.0
    }
}

/// The key under which a landing or a delivery comes again after a crash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for IdempotencyKey {
    type Err = GitError;

    fn from_str(text: &str) -> Result<IdempotencyKey, GitError> {
        let known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
        let fits = (1..=MAX_KEY_LETTERS).contains(&text.len()) && !text.starts_with(['.', '-']);
        if fits && !text.contains("..") && text.bytes().all(known) {
            return Ok(IdempotencyKey(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(GitError::new(ErrorKind::BadName, format!("{shown:?} is no key of an action")))
    }
}

impl TryFrom<String> for IdempotencyKey {
    type Error = GitError;

    fn try_from(text: String) -> Result<IdempotencyKey, GitError> {
        text.parse()
    }
}

impl From<IdempotencyKey> for String {
    fn from(key: IdempotencyKey) -> String {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        let bad = [
            "", ".", "..", ".git", ".GIT", "git~1", "a/b", "a\\b", "-x", "--force", "A", "é", "a b", "a\n",
            "a\0",
        ];
        for text in bad {
            assert!(text.parse::<WorktreeId>().is_err(), "{text:?}");
        }
        assert!("a".repeat(MAX_WORKTREE_LETTERS).parse::<WorktreeId>().is_ok());
        assert!("a".repeat(MAX_WORKTREE_LETTERS + 1).parse::<WorktreeId>().is_err());
        for text in ["", ".", "..", ".x", "-x", "a..b", "a/b", "A", "a b", "a\n"] {
            assert!(text.parse::<IdempotencyKey>().is_err(), "{text:?}");
        }
        assert!("abcdefgh.12.3".parse::<IdempotencyKey>().is_ok());
        assert!("a".repeat(MAX_KEY_LETTERS).parse::<IdempotencyKey>().is_ok());
        assert!("a".repeat(MAX_KEY_LETTERS + 1).parse::<IdempotencyKey>().is_err());
        for text in ["", "HEAD", "refs/heads/x", "-p", &"g".repeat(40), &"a".repeat(41), &"A".repeat(40)] {
            assert!(text.parse::<Oid>().is_err(), "{text:?}");
        }
        assert!("a".repeat(40).parse::<Oid>().is_ok() && "0".repeat(64).parse::<Oid>().is_ok());
    }

    #[test]
    fn an_instance_has_one_worktree() {
        let id = WorktreeId::of(&RunId::of(7), InstanceId(12));
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_ne!(id, WorktreeId::of(&RunId::of(7), InstanceId(1)));
        assert_eq!(id.instance(), Some((RunId::of(7).as_str(), 12)));
        for scratch in WorktreeId::scratches(&RunId::of(7)) {
            assert_eq!(scratch.instance(), None);
            assert_eq!(scratch.as_str().parse(), Ok(scratch));
        }
    }
}
