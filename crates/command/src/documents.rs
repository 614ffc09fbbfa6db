//! The documents of commands, for faces in this process: a face shows what a command knows without a process for each.

use serde_json::Value as Json;

use crate::CommandError;

/// The documents that the commands print with `--json`.
pub trait Documents: Send + Sync {
    /// The document of a command, by its words.
    fn document(&self, words: &[&str]) -> Result<Json, CommandError>;
}
