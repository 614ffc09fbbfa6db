//! Failures: what went wrong and what to do about it.

use crate::exit::ExitStatus;

/// Why a command could not do what it was asked.
#[derive(Clone, Debug)]
pub struct CommandError {
    /// What went wrong, with what.
    pub message: String,
    /// The same for people, where several lines read better than one; never part of a document.
    pub lines: Option<String>,
    /// What to do next.
    pub hint: String,
    /// The exit code of the command.
    pub exit: ExitStatus,
}

impl CommandError {
    /// An error with a way on.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> CommandError {
        CommandError { message: message.into(), lines: None, hint: hint.into(), exit: ExitStatus::Error }
    }

    /// The command line asks for two things that do not go together.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> CommandError {
        CommandError { exit: ExitStatus::Usage, ..CommandError::new(message, hint) }
    }
}
