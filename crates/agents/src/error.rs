//! Why a conversation with an agent did not come to an answer.

use std::fmt;
use std::time::Duration;

use ftl_core::machine::MachineCause;

/// Why a session did not come to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentError {
    /// The engine has cancelled the task.
    Cancelled,
    /// The session host ended it: something is spent.
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
        /// The name of the service.
        service: String,
        /// The reason, in the words of the service.
        why: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
        /// Whether only a program of the agent's says so, which was started and may have been at work.
        claimed: bool,
    },
}

impl AgentError {
    /// A system call that failed before anything was asked: trouble of the machine, or a matter of the settings.
    pub fn of_io(what: impl fmt::Display, error: &std::io::Error) -> AgentError {
        let message = format!("{what}: {error}");
        match error.raw_os_error().and_then(MachineCause::of_start) {
            Some(cause) => AgentError::Machine(cause.failure(message).message),
            None => AgentError::CouldNotRun(message),
        }
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Cancelled => out.write_str("it was cancelled"),
            AgentError::Stopped(why)
            | AgentError::Forbidden(why)
            | AgentError::Machine(why)
            | AgentError::Died(why)
            | AgentError::TimedOut(why)
            | AgentError::Bad(why)
            | AgentError::CouldNotRun(why) => out.write_str(why),
            AgentError::Outage { service, why, .. } => write!(out, "{service} does not answer: {why}"),
        }
    }
}
