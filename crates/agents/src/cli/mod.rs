//! The `cli` backend: an agent's own program, spoken to by lines as an adapter says.
//!
//! An [`Adapter`] is data: how the program is started, what its events mean, what its tools do, and what
//! can be enforced. Only a protocol in which the program asks before it acts is code. Nothing here starts a
//! process, believes an exit code, or lets a program's own words about its success decide anything.

mod adapter;
mod calls;
mod claude;
mod codex;
mod conversation;
mod fields;
mod fill;
mod gated;
mod ledger;
mod looks;
mod paths;
mod rules;
mod session_home;
mod speech;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use adapter::{
    Adapter, AdapterError, CliErrorKind, MAX_ADAPTER_BYTES, MAX_FILES, MAX_SILENCE, PromptPassing, Start,
    WindowOf, WireProtocol,
};
pub use calls::Tools;
pub use conversation::{MAX_ASKS_IN_A_TURN, MAX_GARBAGE_LINES, MAX_HEARD_BYTES, MAX_LINGER, MAX_OPEN_CALLS};
pub use fill::{ArgumentTemplate, ArgumentValues, TemplateError};
pub use gated::{GateOf, LoginOf, MAX_LOGIN_FILES};
pub use paths::{At, Holds, MAX_FOUND, MAX_PARTS, PathError};
pub use rules::{Back, EventRule, MAX_RULES, ProgramEvent, ReportedCall, ReportedUsage, Since, TurnEnd};

use ftl_process::programs;
use ftl_process::sandbox::Reach;

use crate::contract::{AgentSession, Backend, Enforced, ProbeResult, SessionHost, SessionOrder, Unusable};
use crate::error::AgentError;
use crate::launch::{AgentProgram, Heard, Launcher};
use crate::mcp_endpoint::{McpBridge, Offer};
use crate::secrets::Secrets;
use crate::timing::Timing;
use crate::toolset::{SPEAKING, Toolset};
use conversation::Talk;
use session_home::Room;

/// How long a program may take to tell its version.
const VERSION_TIME: Duration = Duration::from_secs(20);

/// Whose home a program lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// A fresh one for each session: no login, no settings, no memory of a person. The key is named.
    #[default]
    Private,
    /// The person's own, with the logins and settings that are there.
    Own,
}

/// A program bound to a name: an adapter, and what the settings say.
#[derive(Clone, Debug)]
pub struct Binding {
    /// What it is called in the settings.
    pub name: String,
    /// How the program is started and read.
    pub adapter: Arc<Adapter>,
    /// Where the program is, if it is not to be looked up.
    pub program: Option<PathBuf>,
    /// The home folder that the program gets.
    pub home: Home,
    /// The model, where a task names none.
    pub model: Option<String>,
    /// All that it gets of the person's environment: PATH, and what adapter and settings name.
    pub env: Vec<(String, OsString)>,
    /// What the adapter calls `{{setting.NAME}}`.
    pub values: BTreeMap<String, String>,
    /// A folder of ours in which rooms are made.
    pub rooms: PathBuf,
}

impl Binding {
    /// The program as it would be started, if it can be found.
    pub fn find_program(&self) -> Option<PathBuf> {
        let program = self.program.clone().unwrap_or_else(|| (&self.adapter.program).into());
        let path = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
        programs::find(program, path.into_iter().flat_map(std::env::split_paths))
    }
}

/// A backend that speaks to a program.
pub struct CliBackend {
    binding: Binding,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
}

impl CliBackend {
    /// A backend for a binding.
    pub fn new(binding: Binding, secrets: Arc<Secrets>, timing: Arc<dyn Timing>) -> CliBackend {
        CliBackend { binding, secrets, timing }
    }

    /// What the program says when it is asked for its version; this starts it, and nothing is spent.
    pub fn version(&self, launcher: &dyn Launcher, folder: &Path) -> Result<String, AgentError> {
        let program = self.binding.find_program().unwrap_or_else(|| (&self.binding.adapter.program).into());
        let program = AgentProgram {
            program: program.into(),
            args: self.binding.adapter.version.iter().map(OsString::from).collect(),
            folder: folder.to_owned(),
            env: self.environment_of_version(),
            reach: Reach::default(),
        };
        let mut launched = launcher.launch(&program)?;
        launched.input.close();
        let said = match launched.output.next(VERSION_TIME) {
            Some(Heard::Line(line)) => Ok(String::from_utf8_lossy(&line).trim().chars().take(200).collect()),
            Some(Heard::Ended(exit)) => Err(AgentError::Died(format!("{}: {}", exit.how, exit.complaint))),
            None => Err(AgentError::TimedOut(format!("it did not tell its version in {VERSION_TIME:?}"))),
        };
        launched.tree.end();
        said
    }
}

impl Backend for CliBackend {
    fn name(&self) -> &str {
        &self.binding.name
    }

    fn enforces(&self) -> Enforced {
        self.binding.adapter.enforces
    }

    fn probe(&self) -> ProbeResult {
        let program = &self.binding.adapter.program;
        match self.binding.find_program() {
            Some(path) => ProbeResult { usable: Ok(()), what: path.display().to_string() },
            None => {
                let why =
                    format!("there is no program {program}; install it, or set `program` to where it is");
                ProbeResult { usable: Err(Unusable(why)), what: program.clone() }
            }
        }
    }

    fn open(
        &self,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
    ) -> Result<Box<dyn AgentSession>, AgentError> {
        if host.is_cancelled() {
            return Err(AgentError::Cancelled);
        }
        if order.launcher.is_none() {
            return Err(AgentError::CouldNotRun(String::from("no program may be started here")));
        }
        let toolset = Toolset::new(&order, host.clone(), self.secrets.clone())?;
        let window = self.window(&order, &toolset)?;
        let (binding, gate) = gated::open(&self.binding, &order, &self.timing)?;
        let room = Room::new(&binding, &order, window.as_ref())?.behind(gate);
        let (secrets, timing) = (self.secrets.clone(), self.timing.clone());
        Ok(Box::new(Talk::new(binding, order, host, toolset, window, room, secrets, timing)?))
    }
}

impl CliBackend {
    /// What the program gets where nothing is asked of its model: no key.
    fn environment_of_version(&self) -> Vec<(OsString, OsString)> {
        let needs = || self.binding.adapter.needs.iter().flat_map(|names| names.split('|'));
        let kept = self.binding.env.iter().filter(|(name, _)| needs().all(|one| one != name));
        kept.map(|(name, value)| (name.into(), value.clone())).collect()
    }

    /// A window, where the program can come to one.
    fn window(&self, order: &SessionOrder, toolset: &Toolset) -> Result<Option<McpBridge>, AgentError> {
        let Some(mcp_endpoint) =
            order.mcp_endpoint.as_ref().filter(|_| self.binding.adapter.window.is_some())
        else {
            return Ok(None);
        };
        let offers =
            toolset.tools().iter().filter(|tool| SPEAKING.contains(&tool.name)).map(Offer::from).collect();
        let name = format!("{:x}", self.timing.throw());
        let window = McpBridge::open(mcp_endpoint, &name, offers);
        window.map(Some).map_err(|error| AgentError::of_io("no window can be opened", &error))
    }
}

#[cfg(test)]
mod tests;
