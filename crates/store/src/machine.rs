//! Trouble of the machine as the engine meets it: errors of the system, of processes and of the store.
//!
//! What the numbers and words mean is said once, in `ftl_core::machine`; here errors that carry them are asked.
//! An error that says nothing about the machine stays what it was: trouble of the work.

use std::io;

use ftl_core::machine::MachineCause;
use ftl_core::run::{Failure, FailureKind};

use crate::StoreError;
use ftl_process::RunError;

/// What an error of a system call says about the machine.
pub fn cause(error: &io::Error) -> Option<MachineCause> {
    MachineCause::of_error(error.raw_os_error(), &error.to_string())
}

/// The same for a process or thread that could not be started.
pub fn cause_of_start(error: &io::Error) -> Option<MachineCause> {
    MachineCause::of_start_error(error.raw_os_error(), &error.to_string())
}

/// An error of a system call as a failure of an action.
pub fn failure(what: &str, error: &io::Error) -> Failure {
    let message = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
    match cause(error) {
        Some(cause) => cause.failure(message),
        None => Failure::new(FailureKind::CouldNotRun, message),
    }
}

/// What a process that could not be run says about the machine. One that was never started because of its guard
/// says nothing about the command; one that cannot be found does.
pub fn cause_of_run(error: &RunError) -> Option<MachineCause> {
    match error {
        RunError::Guard(error) => Some(cause_of_start(error).unwrap_or(MachineCause::Process)),
        RunError::NoAnswer | RunError::Busy(_) => Some(MachineCause::Process),
        RunError::CouldNotStart(what) => MachineCause::of_words(what),
        RunError::Bad(_) | RunError::Cancelled => None,
    }
}

/// What an error of the store says about the machine. What was asked of it wrongly says nothing.
pub fn cause_of_store(error: &StoreError) -> Option<MachineCause> {
    match error {
        StoreError::Full(_) => Some(MachineCause::Space),
        StoreError::ReadOnly(_) => Some(MachineCause::ReadOnly),
        StoreError::Corrupt(_) | StoreError::Lost(_) => Some(MachineCause::Repository),
        StoreError::InUse(_) => Some(MachineCause::Process),
        StoreError::Failed(why) => Some(MachineCause::of_words(why).unwrap_or(MachineCause::Disk)),
        StoreError::Fenced { .. }
        | StoreError::NoRun(_)
        | StoreError::Exists(_)
        | StoreError::Answered(_)
        | StoreError::NoCommand(_)
        | StoreError::Gap { .. }
        | StoreError::TooLarge { .. }
        | StoreError::Newer { .. } => None,
    }
}

/// A failure with the kind that the machine gives it, or the kind that it has without.
pub fn judged(cause: Option<MachineCause>, kind: FailureKind, message: String) -> Failure {
    match cause {
        Some(cause) => cause.failure(message),
        None => Failure::new(kind, message),
    }
}

impl From<StoreError> for Failure {
    /// What the store did not do, as a failure of an action.
    fn from(error: StoreError) -> Failure {
        judged(cause_of_store(&error), FailureKind::CouldNotRun, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn the_numbers_are_those_of_this_system() {
        let all = [
            (Errno::IO, MachineCause::Disk),
            (Errno::NOMEM, MachineCause::Memory),
            (Errno::NFILE, MachineCause::Descriptors),
            (Errno::MFILE, MachineCause::Descriptors),
            (Errno::NOSPC, MachineCause::Space),
            (Errno::ROFS, MachineCause::ReadOnly),
            (Errno::DQUOT, MachineCause::Space),
        ];
        for (errno, expected) in all {
            assert_eq!(cause(&io::Error::from(errno)), Some(expected), "{errno:?}");
            let wrapped = io::Error::other(io::Error::from(errno).to_string());
            assert_eq!(cause(&wrapped), Some(expected), "its words say the same");
        }
        let again = io::Error::from(Errno::AGAIN);
        assert_eq!((cause(&again), cause_of_start(&again)), (None, Some(MachineCause::Memory)));
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG] {
            assert_eq!(cause(&io::Error::from(errno)), None, "{errno:?}");
        }
    }

    #[test]
    fn a_command_that_is_not_there_is_no_trouble_of_the_machine() {
        let started = |what: &str| cause_of_run(&RunError::CouldNotStart(what.to_owned()));
        assert_eq!(started("`x`: No such file or directory (os error 2)"), None);
        assert_eq!(started("`x`: Cannot allocate memory (os error 12)"), Some(MachineCause::Memory));
        assert_eq!(cause_of_run(&RunError::Bad("an argument has a zero byte".to_owned())), None);
        assert_eq!(cause_of_run(&RunError::NoAnswer), Some(MachineCause::Process));
        let guard = RunError::Guard(io::Error::from(Errno::MFILE));
        assert_eq!(cause_of_run(&guard), Some(MachineCause::Descriptors));
    }
}
