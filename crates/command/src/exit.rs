//! The exit codes that scripts rely on. No other code ever leaves this program by its own will.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// It did what was asked.
    Done = 0,
    /// It could not be done.
    Error = 1,
    /// The command line was not understood.
    Usage = 2,
    /// Blocked, escalated or held: ended or stopped without success.
    Blocked = 3,
    /// Refused: a guard does not hold.
    Refused = 4,
    /// Not allowed here: no such edge, or a word that this phase does not take.
    NotAllowed = 5,
    /// A malformed artifact or state.
    Malformed = 6,
    /// Interrupted by a person.
    Interrupted = 130,
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
