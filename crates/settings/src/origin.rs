//! Where a setting came from, and why settings could not be read.

use std::fmt;
use std::path::PathBuf;

use ftl_folder::state_folder::SHARED;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No file says it.
    Default,
    /// The file that says it.
    File(PathBuf),
}

impl Origin {
    /// Whether it came with a repository, so that its owner has not chosen it.
    pub fn is_shared(&self) -> bool {
        match self {
            Origin::Default => false,
            Origin::File(path) => path.file_name().is_some_and(|name| name == SHARED),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => out.write_str("default"),
            Origin::File(path) => write!(out, "{}", path.display()),
        }
    }
}

/// Why settings could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file that could not be read.
    pub path: PathBuf,
    /// The mistake in words, with the key where there is one.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for ConfigError {}
