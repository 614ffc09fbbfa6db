//! Backends out of the roster: keys are looked up once, and each goes to its own backend alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ftl_agents::acp::{self, Acp};
use ftl_agents::cli::{Binding, CliBackend, Home};
use ftl_agents::contract::{Backend, Enforced};
use ftl_agents::model::concurrency::ConcurrencyLimit;
use ftl_agents::model::{Model, ModelEndpoint};
use ftl_agents::scripted::{MAX_SCRIPT_BYTES, Script, Scripted};
use ftl_agents::secrets::{KeyError, SecretKey, Secrets, is_secret_variable};
use ftl_agents::timing::{RealTime, RetryPolicy, Timing};

use ftl_process::programs;

use super::{AgentEnvironment, AgentKind, AgentSettings, KeySource, Roster, Service};
use crate::environment::has_key_word;
use crate::environment::{Environment, VariableRule};
use ftl_folder as folder;

/// What every program gets: where programs are, and in which words it speaks.
const ALWAYS: [&str; 6] = ["PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"];

/// The agents of a roster with their keys: what backends are made of. All sessions of a process that go to
/// one agent share its backend, and with it the seats of its service.
pub struct Hall<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    rooms: PathBuf,
    keys: BTreeMap<String, Result<SecretKey, KeyError>>,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
    environment: Environment,
}

/// Why an agent of the settings cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendError {
    /// Its key is not there.
    Key(KeyError),
    /// Its script cannot be read, or is none.
    Script {
        /// The file of the script.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// It lives in the person's home, and nothing says where that is.
    NoHome,
}

impl fmt::Display for BackendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendError::Key(error) => error.fmt(out),
            BackendError::Script { file, message } => write!(out, "`{}`: {message}", file.display()),
            BackendError::NoHome => out.write_str("HOME is not set, and `home` is `own`"),
        }
    }
}

impl std::error::Error for BackendError {}

impl<'a> Hall<'a> {
    /// The same with one thing more that must never be seen.
    #[must_use]
    pub fn hiding(self, value: Option<String>) -> Hall<'a> {
        let Some(value) = value else { return self };
        let mut secrets = (*self.secrets).clone();
        secrets.hide(value.trim());
        Hall { secrets: Arc::new(secrets), ..self }
    }

    /// Looks the keys of a roster up, with that way to find a variable of the environment. Programs of
    /// agents find rooms in that folder.
    pub fn new(roster: &Roster, variable: &'a dyn Fn(&str) -> Option<String>, rooms: &Path) -> Hall<'a> {
        let mut keys = BTreeMap::new();
        let mut secrets = Secrets::new();
        for agent in roster.agents() {
            for (_, value) in agent.set().filter(|(name, _)| has_key_word(name)) {
                secrets.hide(value);
            }
            for name in agent.passed().iter().filter(|name| has_key_word(name)) {
                if let Some(value) = variable(name) {
                    secrets.hide(&value);
                }
            }
            for (name, rule, _) in &agent.variables {
                let value = match rule {
                    VariableRule::Set(value) => Some(value.clone()),
                    VariableRule::Pass => variable(name),
                };
                if let Some(value) =
                    value.filter(|value| has_key_word(name) || is_secret_variable(name, value))
                {
                    secrets.hide(&value);
                }
            }
            let Some(source) = agent.key() else { continue };
            let key = match source {
                KeySource::Variable(name) => SecretKey::of_variable(name, variable(name)),
                KeySource::File(path) => SecretKey::of_file(path),
            };
            if let Ok(key) = &key {
                secrets.add(key);
            }
            keys.insert(agent.name.clone(), key);
        }
        let (secrets, timing) = (Arc::new(secrets), Arc::new(RealTime::new()));
        let environment = roster.environment.clone();
        Hall { variable, rooms: rooms.to_owned(), keys, secrets, timing, environment }
    }

    /// Everything that must never be seen.
    pub fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// The backend of an agent, or why it cannot be used.
    pub fn backend(&self, agent: &AgentSettings) -> Result<Arc<dyn Backend>, BackendError> {
        let key = self.keys.get(&agent.name).cloned().transpose().map_err(BackendError::Key)?;
        self.build(agent, key)
    }

    /// What an agent enforces; that does not depend on its key.
    pub fn enforces(&self, agent: &AgentSettings) -> Result<Enforced, BackendError> {
        self.build(agent, None).map(|backend| backend.enforces())
    }

    /// The program of an agent, if it has one and it is not there. One that is named by a path from somewhere else is
    /// not looked for.
    pub fn missing_program(&self, agent: &AgentSettings) -> Option<String> {
        let (program, around) = match &agent.kind {
            AgentKind::Scripted { .. } | AgentKind::Model(_) => return None,
            AgentKind::Acp(spoken) => (PathBuf::from(&spoken.program), &spoken.around),
            AgentKind::Cli(adapted) => {
                let own = || PathBuf::from(&adapted.adapter.program);
                (adapted.program.clone().unwrap_or_else(own), &adapted.around)
            }
        };
        let path = around.set.get("PATH").map(OsString::from).or_else(|| self.variable("PATH"));
        let folders = path.iter().flat_map(std::env::split_paths);
        let is_elsewhere = program.is_relative() && program.components().count() > 1;
        let is_there = is_elsewhere || programs::find(&program, folders).is_some();
        (!is_there).then(|| program.display().to_string())
    }

    fn build(&self, agent: &AgentSettings, key: Option<SecretKey>) -> Result<Arc<dyn Backend>, BackendError> {
        let (secrets, timing) = (self.secrets.clone(), self.timing.clone());
        Ok(match &agent.kind {
            AgentKind::Scripted { script } => {
                let wrong = |message: String| BackendError::Script { file: script.clone(), message };
                let text = folder::read_named_text(script, MAX_SCRIPT_BYTES)
                    .map_err(|error| wrong(error.to_string()))?;
                let script = Script::parse(&text).map_err(|error| wrong(error.to_string()))?;
                Arc::new(Scripted::new(&agent.name, script, secrets, timing))
            }
            AgentKind::Model(service) => {
                Arc::new(Model::new(endpoint(&agent.name, service, key), secrets, timing))
            }
            AgentKind::Acp(spoken) => {
                let env = self.environment(&spoken.around, &agent.name)?;
                let env = env.into_iter().map(|(name, value)| (name.into(), value)).collect();
                let program = acp::AcpAgent {
                    name: agent.name.clone(),
                    program: (&spoken.program).into(),
                    args: spoken.args.iter().map(Into::into).collect(),
                    env,
                    home: (!spoken.around.own_home).then(|| self.private_home(&agent.name)),
                    habits: spoken.habits.clone(),
                };
                Arc::new(Acp::new(program, secrets, timing))
            }
            AgentKind::Cli(adapted) => {
                let binding = Binding {
                    name: agent.name.clone(),
                    adapter: adapted.adapter.clone(),
                    program: adapted.program.clone(),
                    home: if adapted.around.own_home { Home::Own } else { Home::Private },
                    model: adapted.model.clone(),
                    env: self.environment(&adapted.around, &agent.name)?,
                    values: adapted.values.clone(),
                    rooms: self.rooms.clone(),
                };
                Arc::new(CliBackend::new(binding, secrets, timing))
            }
        })
    }

    /// All that a program gets: where programs are, its home, and what the settings name.
    pub(super) fn environment(
        &self,
        around: &AgentEnvironment,
        name: &str,
    ) -> Result<Vec<(String, OsString)>, BackendError> {
        let home = match around.own_home {
            true => self.variable("HOME").ok_or(BackendError::NoHome)?,
            false => self.private_home(name).into_os_string(),
        };
        let mut env = vec![(String::from("HOME"), home)];
        let ours = self.environment.of_program(&|name| self.variable(name));
        env.extend(ours.into_iter().filter(|(name, _)| name != "HOME"));
        for name in ALWAYS.iter().copied().chain(around.pass.iter().map(String::as_str)) {
            if let Some(value) = self.variable(name) {
                env.push((name.to_owned(), value));
            }
        }
        env.extend(around.set.iter().map(|(name, value)| (name.clone(), value.into())));
        // The last one of a name is the one that counts.
        let mut seen = BTreeSet::new();
        env.reverse();
        env.retain(|(name, _)| seen.insert(name.clone()));
        env.reverse();
        Ok(env)
    }

    /// The home of an agent that does not live in the person's.
    fn private_home(&self, name: &str) -> PathBuf {
        self.rooms.join(format!("home-{name}"))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).map(OsString::from)
    }
}

impl AgentSettings {
    /// The source of its key.
    pub fn key(&self) -> Option<&KeySource> {
        match &self.kind {
            AgentKind::Scripted { .. } | AgentKind::Acp(_) | AgentKind::Cli(_) => None,
            AgentKind::Model(service) => service.key.as_ref(),
        }
    }

    /// The variables that its program gets.
    fn passed(&self) -> &[String] {
        match &self.kind {
            AgentKind::Scripted { .. } | AgentKind::Model(_) => &[],
            AgentKind::Acp(spoken) => &spoken.around.pass,
            AgentKind::Cli(adapted) => &adapted.around.pass,
        }
    }

    /// The variables that its program gets with the values that the settings give them.
    fn set(&self) -> impl Iterator<Item = (&String, &String)> {
        let around = match &self.kind {
            AgentKind::Scripted { .. } | AgentKind::Model(_) => None,
            AgentKind::Acp(spoken) => Some(&spoken.around),
            AgentKind::Cli(adapted) => Some(&adapted.around),
        };
        around.into_iter().flat_map(|around| &around.set)
    }

    /// Whether an author goes on in its earlier session.
    pub fn resumes(&self) -> bool {
        match &self.kind {
            AgentKind::Scripted { .. } | AgentKind::Model(_) | AgentKind::Cli(_) => false,
            AgentKind::Acp(spoken) => spoken.resume,
        }
    }

    /// The model that it asks, where it is known.
    pub fn model(&self) -> Option<&str> {
        match &self.kind {
            AgentKind::Scripted { .. } | AgentKind::Acp(_) => None,
            AgentKind::Model(service) => Some(&service.model),
            AgentKind::Cli(adapted) => adapted.model.as_deref(),
        }
    }
}

fn endpoint(name: &str, service: &Service, key: Option<SecretKey>) -> ModelEndpoint {
    ModelEndpoint {
        name: name.to_owned(),
        url: service.url.clone(),
        dialect: service.dialect,
        model: service.model.clone(),
        key,
        context: service.context,
        max_output: service.max_output,
        structured: service.structured,
        calls: service.calls,
        prices: service.prices.clone(),
        retry: RetryPolicy::default(),
        seats: ConcurrencyLimit::new(service.concurrency),
    }
}
