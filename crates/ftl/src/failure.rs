//! Failures: what went wrong and what to do about it.

use crate::exit::Exit;

/// Why a command could not do what it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What went wrong, with what.
    pub(crate) message: String,
    /// The same for people, where several lines read better than one; never part of a document.
    pub(crate) lines: Option<String>,
    /// What to do next.
    pub(crate) hint: String,
    /// How the command ends.
    pub(crate) exit: Exit,
}

impl Failure {
    /// An error with a way on.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { message: message.into(), lines: None, hint: hint.into(), exit: Exit::Error }
    }

    /// The command line asks for two things that do not go together.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::new(message, hint) }
    }
}
