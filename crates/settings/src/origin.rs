//! Where a setting came from, and why settings could not be read.

use std::fmt;
use std::path::PathBuf;

use ftl_folder::state_folder::SHARED;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything else.
    Default,
    /// A file.
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
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
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
