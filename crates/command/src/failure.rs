//! Failures: what went wrong and what to do about it.

use crate::exit::Exit;

/// Why a command could not do what it was asked.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong, with what.
    pub message: String,
    /// The same for people, where several lines read better than one; never part of a document.
    pub lines: Option<String>,
    /// What to do next.
    pub hint: String,
    /// How the command ends.
    pub exit: Exit,
}

impl Failure {
    /// An error with a way on.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { message: message.into(), lines: None, hint: hint.into(), exit: Exit::Error }
    }

    /// The command line asks for two things that do not go together.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::new(message, hint) }
    }
}
