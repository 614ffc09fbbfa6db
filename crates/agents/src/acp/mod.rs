//! The `acp` backend: any agent that speaks the Agent Client Protocol over its standard streams.
//!
//! The agent is a program of its own, with tools of its own. What it asks is put to the session host, what it leaves
//! to us we do, and what it only tells is ruled on when it is told; what it can hide is said by
//! [`Habits`]. Its answer comes through a window, or as JSON in its last message. It is never believed:
//! not its exit code, and not its words about its own work.

mod calls;
mod serve;
mod session;
mod settings;
mod terminals;
mod usage;
mod wire;
mod words;

use std::sync::Arc;

use ftl_process::programs;

use crate::contract::{AgentSession, Backend, Enforced, ProbeResult, SessionHost, SessionOrder, Unusable};
use crate::error::AgentError;
use crate::secrets::Secrets;
use crate::timing::Timing;

pub use calls::{MAX_CALLS_SEEN, MAX_PATHS};
pub use session::{MAX_CANCEL, MAX_CLOSE, MAX_FAREWELL, MAX_GARBAGE, MAX_REBUKES, MAX_REQUESTS, MAX_START};
pub use settings::{AcpAgent, Asks, Habits, Loads, Serves, TokenCount};
pub use terminals::{MAX_OUTPUT_BYTES, MAX_TERMINALS, MAX_VARIABLES};
pub use wire::MAX_TOLD_BYTES;

/// The backend of an ACP agent.
pub struct Acp {
    agent: Arc<AcpAgent>,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
}

impl Acp {
    /// A backend that starts that agent. The keys in its environment should be among the secrets.
    pub fn new(agent: AcpAgent, secrets: Arc<Secrets>, timing: Arc<dyn Timing>) -> Acp {
        Acp { agent: Arc::new(agent), secrets, timing }
    }
}

impl Backend for Acp {
    fn name(&self) -> &str {
        &self.agent.name
    }

    fn enforces(&self) -> Enforced {
        self.agent.habits.enforces()
    }

    fn probe(&self) -> ProbeResult {
        let agent = &self.agent;
        let shown = agent.program.display();
        let path = agent.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let folders = path.into_iter().flat_map(std::env::split_paths);
        match programs::find(&agent.program, folders) {
            Some(program) => ProbeResult { usable: Ok(()), what: format!("{}, over ACP", program.display()) },
            None => ProbeResult {
                usable: Err(Unusable(format!(
                    "{shown} is not there: install it, or name its whole path in the settings"
                ))),
                what: format!("{shown}, over ACP"),
            },
        }
    }

    fn open(
        &self,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
    ) -> Result<Box<dyn AgentSession>, AgentError> {
        let talk =
            session::Talk::open(self.agent.clone(), order, host, self.secrets.clone(), self.timing.clone())?;
        Ok(Box::new(talk))
    }
}
