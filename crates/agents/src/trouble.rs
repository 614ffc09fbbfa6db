//! Why a conversation with an agent did not come to an answer.

use std::fmt;
use std::time::Duration;

use ftl_core::machine::Cause;

/// Why a session did not come to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody wants the answer any more.
    Cancelled,
    /// The desk ended it: something is spent.
    Stopped(String),
    /// It made a call that it may not make, without asking first; which one, and by which rule.
    Forbidden(String),
    /// The machine could not do it: no descriptors, no memory, a failing disk. It says nothing about the agent.
    Machine(String),
    /// The agent or its connection died in the middle.
    Died(String),
    /// It was silent for too long, or took too long.
    TimedOut(String),
    /// It said too much, or what is no answer.
    Bad(String),
    /// It could not even be tried: a wrong key, a model that is not there.
    CouldNotRun(String),
    /// A service does not answer; how long it asked to be left alone.
    Outage {
        /// The service.
        service: String,
        /// What it said.
        why: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
        /// Whether only a program of the agent's says so, which was started and may have been at work.
        claimed: bool,
    },
}

impl Trouble {
    /// A system call that failed before anything was asked: trouble of the machine, or a matter of the settings.
    pub fn of_io(what: impl fmt::Display, error: &std::io::Error) -> Trouble {
        let message = format!("{what}: {error}");
        match error.raw_os_error().and_then(Cause::of_start) {
            Some(cause) => Trouble::Machine(cause.failure(message).message),
            None => Trouble::CouldNotRun(message),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Cancelled => out.write_str("it was cancelled"),
            Trouble::Stopped(why)
            | Trouble::Forbidden(why)
            | Trouble::Machine(why)
            | Trouble::Died(why)
            | Trouble::TimedOut(why)
            | Trouble::Bad(why)
            | Trouble::CouldNotRun(why) => out.write_str(why),
            Trouble::Outage { service, why, .. } => write!(out, "{service} does not answer: {why}"),
        }
    }
}
