//! How the executors of a run are put together: its records, its worktrees, its agents, and its script before all of
//! them.
//!
//! Nothing here finds or leases a run, and nothing names an action: who performs which stands in the table of executors.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ftl_agents::contract::McpEndpoint;
use ftl_agents::scripted::rehearsal::RehearsalScript;
use ftl_agents::secrets::{Secrets, is_secret_name};
use ftl_core::catalogue::shell::Sh;
use ftl_core::catalogue::{ActionDecl as _, Catalogue};
use ftl_core::performer::Performer;
use ftl_settings::prompts::{MAX_PROMPT_FILE_BYTES, Prompts};

use super::SessionError;
use super::notify::Bell;
use super::options::{OptionFiles, RunOptions};
use crate::executors::ExecutorPool;
use crate::executors::agents::{Agents, Listener, Means, RoleAnswerer};
use crate::executors::explorer::Explorer;
use crate::executors::script::ScriptExecutor;
use crate::executors::shell::{Probes, ScriptRunner};
use crate::executors::table::{AgentResources, ExecutorOptions, RecordAccess, Resources};
use crate::executors::worktrees::Sites;
use crate::sandboxes::Sandboxes;
use ftl_folder as folder;
use ftl_folder::scratch::{Purpose, Scratch};
use ftl_folder::state_folder::StateFolder;
use ftl_lifecycle::phases::Routes;
use ftl_process::{self as process, Fence, Guard, Supervisor};
use ftl_records::Records;
use ftl_records::plan_file::Worker;
use ftl_settings::config::Config;
use ftl_settings::roster::{Choice, Hall, Roster};
use ftl_settings::width::Width;
use ftl_store::{Lease, Store};

/// What the executors of all runs of a process are made of.
pub(super) struct Wiring {
    pub(super) place: StateFolder,
    pub(super) store: Arc<dyn Store>,
    pub(super) config: Config,
    pub(super) guard: Guard,
    pub(super) records: Arc<Records>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) options: OptionFiles,
    pub(super) mcp_endpoint: OnceLock<Scratch>,
    pub(super) listener: OnceLock<Arc<dyn Listener>>,
    pub(super) bell: OnceLock<Bell>,
}

/// The executors of one run, and what is looked at again when it rests.
pub(super) struct Workplace {
    pub(super) workshop: ExecutorPool,
    /// The worktrees; none where a script answers everything.
    pub(super) sites: Option<Arc<Sites>>,
    pub(super) records: Arc<Records>,
}

impl Wiring {
    /// The executors of a run: the script that it was opened with first, then those of this program.
    pub(super) fn connect(&self, lease: &Lease, routes: Routes) -> Result<Workplace, SessionError> {
        let run = &lease.run;
        process::own_orphans()?;
        let supervisor = self.supervisor()?;
        let shell = Arc::new(self.shell(&supervisor));
        let options = self.options.read(run)?;
        let width = self.config.width();
        let width = Width { agents: options.jobs.unwrap_or(width.agents), ..width };
        let probe = Arc::new(Probes::new(shell.clone(), self.config.clone()));
        let mut workshop = ExecutorPool::hiding(width, &self.secrets).probing(probe);
        let records = self.records.for_actions_of(run);
        let script = self.options.read_script(run)?;
        // A script that answers everything answers everything but the shell.
        let sites = if script.as_ref().is_some_and(|script| script.answers_all()) {
            workshop = workshop.with(Sh::NAME, shell.clone());
            None
        } else {
            let sandboxes = self.sandboxes(&options)?;
            let sites = self.sites(lease, &records, &supervisor, &options, &sandboxes);
            let admission = workshop.admission().clone();
            let resources = Arc::new(Resources {
                records: RecordAccess { records: records.clone(), routes },
                sites: sites.clone(),
                shell: shell.clone(),
                secrets: self.secrets.clone(),
                agents: Some(self.agent_resources(supervisor, &options, &records, &sites, sandboxes)?),
                given: ExecutorOptions {
                    plan: self.options.read_plan(run)?,
                    only_plans: options.only_plans,
                    worker: self.worker(),
                    document: options.document,
                },
                admission,
            });
            workshop = workshop.with_executors(&resources);
            Some(sites)
        };
        if let Some(script) = script {
            workshop = self.play(workshop, script, shell);
        }
        Ok(Workplace { workshop, sites, records })
    }

    /// The executors of a run that work on records and the repository, and ask no agent.
    pub(super) fn connect_work(&self, lease: &Lease, routes: Routes) -> Result<Workplace, SessionError> {
        process::own_orphans()?;
        let supervisor = self.supervisor()?;
        let workshop = ExecutorPool::hiding(self.config.width(), &self.secrets);
        let records = self.records.for_actions_of(&lease.run);
        let options = RunOptions::default();
        let sandboxes = self.sandboxes(&options)?;
        let sites = self.sites(lease, &records, &supervisor, &options, &sandboxes);
        let resources = Resources {
            records: RecordAccess { records: records.clone(), routes },
            sites: sites.clone(),
            shell: Arc::new(self.shell(&supervisor)),
            secrets: self.secrets.clone(),
            agents: None,
            given: ExecutorOptions::default(),
            admission: workshop.admission().clone(),
        };
        let workshop = workshop.with_executors(&Arc::new(resources));
        Ok(Workplace { workshop, sites: Some(sites), records })
    }

    /// The sandboxes of a run, at the level that the settings or its person ask for.
    pub(super) fn sandboxes(&self, options: &RunOptions) -> Result<Sandboxes, SessionError> {
        let order = options.sandbox.as_ref();
        Sandboxes::of(&self.config, &self.place, &self.guard, order).map_err(SessionError::Sandbox)
    }

    /// Makes the runner of scripts of protocols.
    pub(super) fn shell(&self, supervisor: &Arc<Supervisor>) -> ScriptRunner {
        let (commands, agents) = (self.config.command_limits(), self.config.agent_limits());
        let shell = ScriptRunner::new(supervisor.clone(), self.store.clone(), &self.place, commands, agents);
        shell.in_environment(self.config.environment())
    }

    /// The worktrees of a run, behind the fence of its lease.
    fn sites(
        &self,
        lease: &Lease,
        records: &Arc<Records>,
        supervisor: &Arc<Supervisor>,
        options: &RunOptions,
        sandboxes: &Sandboxes,
    ) -> Arc<Sites> {
        let fence = Fence { file: self.place.fences().join(lease.run.as_str()), epoch: lease.epoch };
        let sites = Sites::new(records.clone(), supervisor.clone(), &self.config);
        let sites = sites.with_sandboxes(sandboxes.clone());
        let sites = sites.allowing(options.allowed.clone()).with_tools(options.tools);
        Arc::new(sites.landing(options.landing).fenced(fence).retrying(options.retried.clone()))
    }

    /// Who answers roles: the agents, and code that explores before one does.
    fn agent_resources(
        &self,
        supervisor: Arc<Supervisor>,
        options: &RunOptions,
        records: &Arc<Records>,
        sites: &Arc<Sites>,
        sandboxes: Sandboxes,
    ) -> Result<AgentResources, SessionError> {
        let mut agents = self.agents(supervisor, &options.choice, sandboxes)?;
        if options.document.is_some() {
            agents = agents.with_stand_in("planner", "architect");
        }
        let agents = Arc::new(agents.with_sites(sites.clone()));
        let explorer = Explorer::new(agents.clone(), records.clone()).before(Some(sites.clone()));
        Ok(AgentResources { agents, explorer })
    }

    /// Has a script answer what it names, and what nothing else performs.
    fn play(
        &self,
        workshop: ExecutorPool,
        script: RehearsalScript,
        shell: Arc<ScriptRunner>,
    ) -> ExecutorPool {
        let performers: Vec<Performer> = script.performers().into_iter().cloned().collect();
        let scripted = Arc::new(ScriptExecutor::new(script, self.options.folder(), Some(shell)));
        let workshop =
            performers.into_iter().fold(workshop, |workshop, one| workshop.with(one, scripted.clone()));
        workshop.otherwise(scripted)
    }

    /// The executor that asks agents, as the settings bind them, or as the person has chosen for the run.
    fn agents(
        &self,
        supervisor: Arc<Supervisor>,
        choice: &Choice,
        sandboxes: Sandboxes,
    ) -> Result<Agents, SessionError> {
        let (roster, mcp_endpoint) = (self.roster_with(choice)?, self.mcp_endpoint()?);
        let hall = hide_named(&self.config, Hall::new(&roster, &variable, &mcp_endpoint.folder));
        let mut backends = BTreeMap::new();
        for agent in roster.agents() {
            backends.insert(agent.name.as_str(), hall.backend(agent));
        }
        let mut seats = BTreeMap::new();
        for role in Catalogue::standard().roles() {
            let Some(bound) = roster.role(&role.name) else { continue };
            let Some(backend) = backends.get(bound.agent.as_str()) else { continue };
            let model = bound.model.clone();
            let Some(agent) = roster.agent(&bound.agent) else { continue };
            let (silence, resume, pricing) = (agent.silence, agent.resumes(), agent.pricing);
            let environment = roster.environment_of(agent);
            let seat = |backend| RoleAnswerer { backend, model, silence, resume, environment, pricing };
            seats.insert(role.name.to_string(), backend.clone().map(seat));
        }
        let prompts = prompts(&self.place).map_err(|error| SessionError::Machine(error.to_string()))?;
        let means = Means {
            prompts,
            place: self.place.clone(),
            supervisor,
            commands: self.config.command_limits(),
            programs: self.config.agent_limits(),
            sandboxes,
        };
        let mut agents = Agents::new(seats, means)
            .with_lobby(mcp_endpoint)
            .with_explorer_calls(self.config.settings().explorer.tools);
        agents = agents.with_memory(self.records.clone(), hall.secrets().clone());
        if let Some(listener) = self.listener.get() {
            agents = agents.heard_by(listener.clone());
        }
        Ok(agents)
    }

    /// A folder of our own with a short path, for the sockets of agents' programs.
    fn mcp_endpoint(&self) -> Result<McpEndpoint, SessionError> {
        let folder = match self.mcp_endpoint.get() {
            Some(folder) => folder,
            None => {
                let made = Scratch::make(Purpose::McpEndpoint)?;
                self.mcp_endpoint.get_or_init(|| made)
            }
        };
        let program = std::env::current_exe()?;
        Ok(McpEndpoint { folder: folder.path().to_owned(), program, args: vec![String::from("mcp")] })
    }

    /// Who runs processes for the runs of this session.
    pub(super) fn supervisor(&self) -> Result<Arc<Supervisor>, SessionError> {
        let supervisor = Supervisor::new(self.guard.clone(), &self.place.attempts(), &self.place.spool())?;
        Ok(Arc::new(supervisor.hiding(self.secrets.clone())))
    }

    /// Who answers which role, where a person may have chosen an agent for one run.
    pub(super) fn roster_with(&self, choice: &Choice) -> Result<Roster, SessionError> {
        let roster = self.config.roster().map_err(|error| SessionError::Machine(error.to_string()))?;
        roster.with_choice(choice).map_err(SessionError::Unfit)
    }

    /// Who does a task whose plan does not say.
    pub(super) fn worker(&self) -> Worker {
        self.config.settings().campaign.worker
    }
}

/// Everything that no output may show: what the settings name, keys of agents, in variables and files, and of the
/// embeddings' endpoint; and what our own environment holds by its name or its look. Settings that cannot be read
/// name nothing.
/// What the environment only seems to hold is spared where it is a part of the repository's path or names a file of
/// it.
pub fn secrets(config: &Config, root: &Path) -> Arc<Secrets> {
    let roster = config.roster().unwrap_or_default();
    let hall = hide_named(config, Hall::new(&roster, &variable, &std::env::temp_dir()));
    let mut secrets = Secrets::clone(hall.secrets());
    let texts =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    secrets.add_environment(std::env::vars_os().filter_map(texts));
    let environment = config.environment();
    environment.secrets().for_each(|value| secrets.hide(value));
    // A person who passes a secret on by its name wants it used, not shown.
    for value in environment.passed().filter(|name| is_secret_name(name)).filter_map(variable) {
        secrets.hide(&value);
    }
    let path = root.to_string_lossy();
    secrets.spare(|value| path.contains(value) || root.join(value).symlink_metadata().is_ok());
    Arc::new(secrets)
}

/// Hides the values of the variables that the settings name: the key of the embeddings' endpoint, the forge's token.
fn hide_named<'a>(config: &Config, hall: Hall<'a>) -> Hall<'a> {
    let settings = config.settings();
    let value = |name: &str| Some(name).filter(|name| !name.is_empty()).and_then(variable);
    hall.hiding(value(&settings.memory.key)).hiding(value(&settings.forge.token_env))
}

/// A variable of our own environment.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What is wrong with the prompts in the repository's own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptsError {
    /// The folder that holds the prompts.
    pub folder: PathBuf,
    /// The mistake, in words.
    pub message: String,
}

impl fmt::Display for PromptsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.folder.display(), self.message)
    }
}

impl std::error::Error for PromptsError {}

/// The prompts: those of the program, or all of those in the repository's own folder.
pub fn prompts(place: &StateFolder) -> Result<Prompts, PromptsError> {
    let own = place.prompts();
    let wrong = |message: String| PromptsError { folder: own.clone(), message };
    let unread = |error: std::io::Error| wrong(error.to_string());
    let mut files = Vec::new();
    for name in folder::names(&own).map_err(unread)? {
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".md")) else { continue };
        let file = own.join(format!("{name}.md"));
        let text = folder::read_to_string(&file, MAX_PROMPT_FILE_BYTES as u64).map_err(unread)?;
        files.push((name.to_owned(), text));
    }
    Prompts::with(files).map_err(|error| wrong(error.to_string()))
}
