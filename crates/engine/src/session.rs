//! A session: one process at work on a repository's runs.
//!
//! It opens the store, finds runs by what people type, claims the ones that nobody drives, and puts
//! the hands together. Whoever only looks needs no session: the store is enough.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ftl_agents::prompts::{MAX_PROMPT_FILE_BYTES, Prompts};
use ftl_agents::secrets::{Secrets, is_secret_name};
use ftl_agents::window::Lobby;
use ftl_core::catalogue::Catalogue;
use ftl_core::catalogue::build::{Delivered, Delivery};
use ftl_core::library::Library;
use ftl_core::run::{Adoption, Entry, InstanceId, Run};
use ftl_core::value::Fields;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock as _, SystemClock};
use crate::commands::look;
use crate::config::Config;
use crate::drive::{Rest, Stop, Watch, drive};
use crate::driver::{DriveError, Driver, Opening, Todo, WHOLE_RUN};
use crate::folder;
use crate::folder::scratch::{Purpose, Scratch};
use crate::gates::{Allowance, Yard};
use crate::git;
use crate::hands::agents::{Agents, Listener, Means, Seat};
use crate::hands::explorer::{Completing, Explorer};
use crate::hands::planned::{BUILDING, OnlyPlans, Planned};
use crate::hands::script::{Script, Scripted};
use crate::hands::shell::Shell;
use crate::hands::site::{Route, Sites};
use crate::hands::{Hands, Width, Workshop};
use crate::id::RunId;
use crate::journal;
use crate::order::{Order, Reply};
use crate::owner::{self, Card, Life, Owner};
use crate::paper::Paper;
use crate::place::{Place, replace};
use crate::plan_file::{Plan, Worker};
use crate::process::{self, Cancel, Fence, Guard, Supervisor};
use crate::roster::needs::{self, Unfit};
use crate::roster::{Choice, Hall, Roster};
use crate::store::{Lease, RunRow, Store, StoreError};

/// The largest file that is read of those that a run was given.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// How many names a message lists when a prefix fits several runs.
const MAX_LISTED: usize = 5;

/// Something that a person named: a run, or one instance of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The run.
    pub row: RunRow,
    /// The instance; the root when none was named.
    pub instance: InstanceId,
}

/// Why something could not be done in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// A name fits nothing, or too much.
    Unknown {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The agents that are bound do not fit what is to be run.
    Unfit(Unfit),
    /// An input holds a secret of the environment: the journal would keep it, and without it the run would do
    /// something else.
    SecretInput {
        /// Which input.
        input: String,
        /// The variable that holds the same.
        variable: String,
    },
    /// The disk or the machine did not do it.
    Machine(String),
    /// The run cannot be driven.
    Drive(DriveError),
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> SessionError {
        SessionError::Drive(error.into())
    }
}

impl From<DriveError> for SessionError {
    fn from(error: DriveError) -> SessionError {
        SessionError::Drive(error)
    }
}

impl From<std::io::Error> for SessionError {
    fn from(error: std::io::Error) -> SessionError {
        SessionError::Machine(error.to_string())
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Unknown { message, .. } | SessionError::Machine(message) => out.write_str(message),
            SessionError::Unfit(unfit) => out.write_str(&unfit.message),
            SessionError::SecretInput { input, variable } => {
                write!(out, "the input `{input}` holds the secret of the variable {variable}")
            }
            SessionError::Drive(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for SessionError {}

/// Finds what a person named: `run`, `run/instance`, or the beginning of a run's name that fits only
/// one.
pub fn find(store: &dyn Store, named: &str) -> Result<Target, SessionError> {
    let unknown = |message: String, hint: &str| SessionError::Unknown { message, hint: hint.to_owned() };
    let (prefix, instance) = match named.split_once('/') {
        Some((prefix, number)) => match number.parse() {
            Ok(number) => (prefix, InstanceId(number)),
            Err(_) => {
                let message = format!("`{number}` is no number of an instance");
                return Err(unknown(message, "an id is `run` or `run/instance`, such as k3v9x2qa/4"));
            }
        },
        None => (named, WHOLE_RUN),
    };
    if prefix.is_empty() {
        return Err(unknown(String::from("no run is named"), "`ftl status` lists the runs"));
    }
    let mut rows = store.runs(prefix)?;
    rows.retain(|row| row.head > 0);
    match rows.len() {
        1 => Ok(Target { row: rows.remove(0), instance }),
        0 => Err(unknown(format!("there is no run `{prefix}`"), "`ftl status` lists the runs")),
        several => {
            let names: Vec<&str> = rows.iter().take(MAX_LISTED).map(|row| row.run.as_str()).collect();
            let more = if several > MAX_LISTED { ", …" } else { "" };
            let message = format!("`{prefix}` fits {several} runs: {}{more}", names.join(", "));
            Err(unknown(message, "type more letters of it"))
        }
    }
}

/// Who drives a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driven {
    /// Nobody.
    ByNobody,
    /// A process that lives.
    By(Option<Card>),
}

/// Who drives a run now.
pub fn driven(place: &Place, row: &RunRow) -> Result<Driven, SessionError> {
    let Some(name) = &row.owner else { return Ok(Driven::ByNobody) };
    Ok(match owner::life(&place.owners(), name)? {
        Life::Dead => Driven::ByNobody,
        Life::Alive { card, .. } => Driven::By(card),
    })
}

/// What a run is opened with beside its inputs. It is kept where whoever takes the run over finds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// What agents and actions answer.
    pub script: Option<&'a str>,
    /// What answers in the planner's place.
    pub plan: Option<&'a Plan>,
    /// Whether nothing is to be built.
    pub only_plans: bool,
    /// How many agents work at the same time, where it is not what the settings say.
    pub jobs: Option<usize>,
    /// How many tools every full build has, where it is not what plan and settings say.
    pub tools: Option<u64>,
    /// Findings of gates that the person who opens it allows.
    pub allowed: &'a [Allowance],
    /// How a story that is run by itself gets to the person's branch; it stays on its own otherwise.
    pub landing: Option<Route>,
    /// Whether it is a story that was asked for by itself: whoever sees it end is told, or asked, how it lands.
    pub is_story: bool,
    /// The document of which the architect makes stories, in the planner's place.
    pub document: Option<&'a str>,
    /// Who answers every role, where the person has chosen it for this run.
    pub choice: Option<&'a Choice>,
}

/// What is kept of a run's opening that is neither a script nor a plan.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wishes {
    jobs: Option<usize>,
    tools: Option<u64>,
    allowed: Vec<Allowance>,
    landing: Option<Route>,
    is_story: bool,
    document: Option<String>,
    choice: Choice,
}

impl Wishes {
    /// What a run was given, without secrets; nothing for most.
    fn of(given: Given<'_>, secrets: &Secrets) -> Option<Wishes> {
        let document = given.document.map(|text| secrets.redact(text));
        let Given { jobs, tools, landing, is_story, .. } = given;
        let is_wished = jobs.is_some()
            || tools.is_some()
            || landing.is_some()
            || is_story
            || document.is_some()
            || given.choice.is_some()
            || !given.allowed.is_empty();
        let choice = given.choice.cloned().unwrap_or_default();
        is_wished.then(|| Wishes {
            jobs,
            tools,
            allowed: given.allowed.to_vec(),
            landing,
            is_story,
            document,
            choice,
        })
    }
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The run is ours.
    Ours(Lease),
    /// Somebody else drives it, and lives.
    Theirs(Option<Card>),
}

/// The hands for a run, and the worktrees that they work in.
type Workplace = (Box<dyn Hands>, Option<Arc<Sites>>);

/// One process at work on a repository's runs.
pub struct Session {
    place: Place,
    store: Arc<dyn Store>,
    library: Arc<Library>,
    config: Config,
    command: String,
    guard: Guard,
    paper: Option<Arc<Paper>>,
    owner: OnceLock<Owner>,
    lobby: OnceLock<Scratch>,
    listener: OnceLock<Arc<dyn Listener>>,
    jobs: Option<usize>,
    secrets: Arc<Secrets>,
}

impl Session {
    /// A session on a store that is open.
    pub fn new(
        place: Place,
        store: Arc<dyn Store>,
        library: Arc<Library>,
        config: Config,
        command: &str,
        guard: Guard,
    ) -> Session {
        let (owner, lobby, listener) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (paper, jobs, secrets) = (None, None, secrets(&config, place.root()));
        let command = secrets.redact(command);
        Session {
            place,
            store,
            library,
            config,
            command,
            guard,
            paper,
            owner,
            lobby,
            listener,
            jobs,
            secrets,
        }
    }

    /// The same with hands for campaigns, plans, workspaces and lessons.
    #[must_use]
    pub fn with_paper(self, paper: Arc<Paper>) -> Session {
        Session { paper: Some(paper), ..self }
    }

    /// The same with so many agents at the same time.
    #[must_use]
    pub fn with_jobs(self, jobs: usize) -> Session {
        Session { jobs: Some(jobs.max(1)), ..self }
    }

    /// Lets somebody follow what agents say in the runs that are driven from now on; only the first one.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        let _ = self.listener.set(listener);
    }

    /// Its store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The paperwork, where it has hands for it.
    pub fn paper(&self) -> Option<&Arc<Paper>> {
        self.paper.as_ref()
    }

    /// Its place.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What must never be seen.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn owner(&self) -> Result<&Owner, SessionError> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner);
        }
        let owner = Owner::register(&self.place.owners(), &self.command)?;
        Ok(self.owner.get_or_init(|| owner))
    }

    /// Opens a run and returns it ready to be driven. A script is kept beside the store first, so that
    /// whoever takes the run over plays the same one.
    pub fn open(&self, opening: Opening, script: Option<&str>) -> Result<(Driver, Todo), SessionError> {
        self.open_with(opening, Given { script, ..Given::default() })
    }

    /// The same with all that a run can be given.
    pub fn open_with(&self, mut opening: Opening, given: Given<'_>) -> Result<(Driver, Todo), SessionError> {
        self.store.writable()?;
        opening.inputs = self.clean_inputs(&opening.inputs)?;
        opening.terms.accepted = self.staffed(&opening.protocol, given)?;
        opening.terms.accepted.extend(given.allowed.iter().map(ToString::to_string));
        let id = RunId::random()?;
        let kept = self.kept(&id, given);
        if !kept.is_empty() {
            folder::make(&self.scripts())?;
        }
        for (file, text) in &kept {
            replace(file, text.as_bytes())?;
        }
        let at = SystemClock::not_before(0).now();
        let owner = self.owner()?.name();
        let opened = Driver::open(self.store.clone(), self.library.clone(), (id, owner), opening, at);
        // Only a run that was refused is surely not there. After a failure of the disk it may be, and
        // whoever resumes it must find what it was given.
        if matches!(opened, Err(DriveError::Refused(_))) {
            for (file, _) in &kept {
                let _ = folder::remove(file);
            }
        }
        Ok(opened?)
    }

    /// Opens the run of a task under a name that was chosen, where the task stands. Nobody need be there to
    /// answer roles: a word that calls for one says so when it is said.
    pub fn open_task(
        &self,
        id: RunId,
        mut opening: Opening,
        adopt: Option<Adoption>,
    ) -> Result<(Driver, Todo), SessionError> {
        self.store.writable()?;
        opening.inputs = self.clean_inputs(&opening.inputs)?;
        let at = SystemClock::not_before(0).now();
        let owner = self.owner()?.name();
        Ok(Driver::open_at(self.store.clone(), self.library.clone(), (id, owner), opening, adopt, at)?)
    }

    /// The inputs of a run without keys. One that holds a secret of the environment is refused by its name: what is
    /// left of it would be carried out as if somebody had said it.
    fn clean_inputs(&self, inputs: &Fields) -> Result<Fields, SessionError> {
        for (name, value) in inputs {
            if let Some(variable) = self.secrets.variable_in(&format!("{name} {value}")) {
                let (input, variable) = (name.to_string(), variable.to_owned());
                return Err(SessionError::SecretInput { input, variable });
            }
        }
        Ok(self.secrets.redact_fields(inputs))
    }

    /// What is kept of what a run is given, by file.
    fn kept(&self, run: &RunId, given: Given<'_>) -> Vec<(PathBuf, String)> {
        let script = given.script.map(|text| (self.script_file(run), text.to_owned()));
        let plan = given.plan.map(|plan| (self.plan_file(run), self.staff(plan).to_json_as_given().pretty()));
        let only = given.only_plans.then(|| (self.only_plans_file(run), String::new()));
        let wishes = Wishes::of(given, &self.secrets);
        let wishes = wishes.and_then(|wishes| serde_json::to_string(&wishes).ok());
        let wishes = wishes.map(|text| (self.wishes_file(run), text));
        [script, plan, only, wishes].into_iter().flatten().collect()
    }

    /// What the agents of a protocol do not enforce and somebody accepted; an error where nobody did, or where a role has
    /// no agent.
    pub fn staffed(&self, protocol: &str, given: Given<'_>) -> Result<Vec<String>, SessionError> {
        let script = given.script.map(Script::parse).transpose().map_err(SessionError::Machine)?;
        let names = script.as_ref().map(Script::names).unwrap_or_default();
        let is_scripted =
            |role: &str| names.contains("*") || names.contains(format!("Task({role})").as_str());
        let roster = self.roster_with(given.choice)?;
        // A campaign asks a coder or a builder only where its plan does. Where nobody is bound and a planner
        // names one all the same, that task is held and says so.
        let plan = given.plan.map(|plan| self.staff(plan));
        let is_asked = |worker: Worker| match (&plan, given.document) {
            (_, Some(_)) => worker == Worker::Coder,
            (Some(plan), None) => plan.tasks.iter().any(|task| task.worker == worker),
            (None, None) => self.worker() == worker,
        };
        let may_do_without = |worker: Worker| protocol == "campaign" && !is_asked(worker);
        let is_free = |role: &str| roster.role(role).is_none();
        let answered = |role: &str| match role {
            "planner" if given.plan.is_some() => true,
            // The architect is looked for itself.
            "planner" if given.document.is_some() => true,
            "architect" if given.document.is_some() => is_scripted(role),
            "planner" | "explorer" => is_scripted(role),
            "coder" | "architect" if may_do_without(Worker::Coder) && is_free(role) => true,
            "builder" if may_do_without(Worker::Builder) && is_free(role) => true,
            _ => given.only_plans || is_scripted(role),
        };
        let hall = Hall::new(&roster, &variable, &std::env::temp_dir());
        needs::staffed(&self.library, protocol, &roster, &hall, &answered).map_err(SessionError::Unfit)
    }

    /// Who does a task whose plan does not say.
    fn worker(&self) -> Worker {
        match self.config.text("campaign.worker") {
            "coder" => Worker::Coder,
            _ => Worker::Builder,
        }
    }

    /// A plan in which every task says who does it.
    fn staff(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        for task in &mut plan.tasks {
            task.staff(self.worker());
        }
        plan
    }

    /// Brings what has landed in a run that has ended to the person's branch, for a person who says so.
    pub fn deliver(&self, run: &RunId, how: Delivery, cancel: &Cancel) -> Result<Delivered, SessionError> {
        let paper = self.paper.clone();
        let paper =
            paper.ok_or_else(|| SessionError::Machine(String::from("there is nothing to deliver from")))?;
        process::own_orphans()?;
        let sites = Sites::new(paper, self.supervisor()?, &self.config);
        let delivered = sites.deliver_for_person(run, how, cancel);
        delivered.map_err(|failure| SessionError::Machine(failure.message))
    }

    /// Why commands cannot be run in the person's checkout, by a look that takes seconds and asks no model; nothing where
    /// nobody can tell.
    pub fn look_at_commands(
        &self,
        commands: &[String],
        cancel: &Cancel,
    ) -> Result<Option<String>, SessionError> {
        process::own_orphans()?;
        let (supervisor, env) = (self.supervisor()?, look::environment(self.config.environment()));
        let yard = Yard {
            supervisor: &supervisor,
            store: &*self.store,
            folder: self.place.root().to_owned(),
            key: format!("look.{}", RunId::random()?),
            fence: None,
            limits: self.config.command_limits(),
            env: env.clone(),
        };
        let yard = yard.within(look::MAX_LOOK);
        let mut run = |command: &str| yard.shell(command, cancel).ok();
        Ok(look::broken(commands, self.place.root(), &env, &mut run))
    }

    /// Who runs processes for the runs of this session.
    fn supervisor(&self) -> Result<Arc<Supervisor>, SessionError> {
        let supervisor = Supervisor::new(self.guard.clone(), &self.place.attempts(), &self.place.spool())?;
        Ok(Arc::new(supervisor.hiding(self.secrets.clone())))
    }

    /// Who answers which role, where a person may have chosen somebody for one run.
    pub fn roster_with(&self, choice: Option<&Choice>) -> Result<Roster, SessionError> {
        let roster = self.config.roster().map_err(|error| SessionError::Machine(error.to_string()))?;
        match choice {
            Some(choice) => roster.chosen(choice).map_err(SessionError::Unfit),
            None => Ok(roster),
        }
    }

    /// Claims a run that nobody drives. An owner that lives keeps it; one that has not moved for a long
    /// time loses it if the caller is patient enough to watch that.
    pub fn claim(&self, run: &RunId, enough: &mut dyn FnMut() -> bool) -> Result<Claim, SessionError> {
        loop {
            let row = self.store.run(run)?.ok_or_else(|| StoreError::NoRun(run.clone()))?;
            if let Some(name) = &row.owner
                && !owner::is_gone(&self.place.owners(), name, enough)?
            {
                let Life::Alive { card, .. } = owner::life(&self.place.owners(), name)? else { continue };
                return Ok(Claim::Theirs(card));
            }
            match self.store.take(run, row.epoch, self.owner()?.name()) {
                Ok(lease) => {
                    // What is left of the last owner's attempts goes before anything is asked again, and
                    // only now: before this, they may be those of somebody who was faster.
                    let ended = if row.owner.is_some() { self.end_attempts(&lease) } else { Ok(()) };
                    return self.or_give_back(&lease, ended).map(|()| Claim::Ours(lease));
                }
                Err(StoreError::Fenced { .. }) => continue,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends what is left of the attempts of a run whose owner is gone, and sees to it that there will
    /// be none: two attempts of one action must never live at the same time. Whatever its owner starts
    /// in this very moment either meets the fence or is found.
    fn end_attempts(&self, lease: &Lease) -> Result<(), SessionError> {
        folder::make(&self.place.fences())?;
        process::fence::raise(&self.fence(&lease.run), lease.epoch)?;
        process::end_leftovers(&self.place.attempts(), &format!("{}.", lease.run))
            .map_err(|error| SessionError::Machine(error.to_string()))?;
        git::await_turn(&self.place, &lease.run).map_err(|error| SessionError::Machine(error.to_string()))
    }

    fn fence(&self, run: &RunId) -> PathBuf {
        self.place.fences().join(run.as_str())
    }

    /// Brings a claimed run back to where its journal ends.
    pub fn recover(&self, lease: &Lease) -> Result<(Driver, Todo), SessionError> {
        let at = SystemClock::not_before(0).now();
        let recovered = Driver::recover(self.store.clone(), self.library.clone(), lease.clone(), at);
        self.or_give_back(lease, recovered.map_err(SessionError::from))
    }

    /// A run that we cannot drive is given back, so that somebody else can.
    fn or_give_back<T>(&self, lease: &Lease, done: Result<T, SessionError>) -> Result<T, SessionError> {
        if done.is_err() {
            let _ = self.store.release(lease);
        }
        done
    }

    /// What a run's journal holds.
    pub fn entries(&self, run: &RunId) -> Result<Vec<Entry>, SessionError> {
        Ok(journal::load(&*self.store, run).map_err(DriveError::from)?)
    }

    /// The protocols.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Whether somebody follows what agents say.
    pub fn is_heard(&self) -> bool {
        self.listener.get().is_some()
    }

    /// A run as its journal has made it, for whoever only looks.
    pub fn look(&self, run: &RunId) -> Result<Run, SessionError> {
        Ok(Run::replay(self.library.clone(), &self.entries(run)?))
    }

    /// Drives a run until it rests.
    pub fn drive(
        &self,
        driver: Driver,
        todo: Todo,
        stop: &Stop,
        watch: &mut dyn Watch,
    ) -> Result<Rest, SessionError> {
        let (lease, run) = (driver.lease().clone(), driver.id().clone());
        let (hands, sites) = self.or_give_back(&lease, self.hands(&lease))?;
        // Copies of the paperwork have caught up when the run rests.
        let _lagging = self.paper.as_ref().map(Paper::lagging);
        let clock = SystemClock::not_before(driver.last());
        let rest = drive(driver, todo, &*hands, &clock, stop, watch).map_err(SessionError::from);
        if let (Ok(_), Some(sites)) = (&rest, sites) {
            self.sweep(&sites, &run);
        }
        self.or_give_back(&lease, rest)
    }

    /// Closes the worktrees that a run has left behind. One that cannot be closed loses nothing by standing,
    /// and is tried again when the run rests the next time.
    fn sweep(&self, sites: &Sites, run: &RunId) {
        if sites.are_left(run)
            && let Ok(looked) = self.look(run)
        {
            let _ = sites.sweep(run, &looked);
        }
    }

    /// Leaves an order for whoever drives the run.
    pub fn send(&self, run: &RunId, order: &Order) -> Result<u64, SessionError> {
        let said = serde_json::to_value(order).map_err(|error| SessionError::Machine(error.to_string()))?;
        Ok(self.store.send(run, &self.secrets.redact_json(&said).to_string())?)
    }

    /// What became of an order, if anything did yet.
    pub fn reply(&self, number: u64) -> Result<Option<Reply>, SessionError> {
        let Some(text) = self.store.reply(number)? else { return Ok(None) };
        let reply = serde_json::from_str(&text).map_err(|error| SessionError::Machine(error.to_string()))?;
        Ok(Some(reply))
    }

    fn scripts(&self) -> PathBuf {
        self.place.store().join("scripts")
    }

    fn script_file(&self, run: &RunId) -> PathBuf {
        self.scripts().join(format!("{run}.toml"))
    }

    fn plan_file(&self, run: &RunId) -> PathBuf {
        self.scripts().join(format!("{run}.plan.json"))
    }

    fn only_plans_file(&self, run: &RunId) -> PathBuf {
        self.scripts().join(format!("{run}.only-plans"))
    }

    fn wishes_file(&self, run: &RunId) -> PathBuf {
        self.scripts().join(format!("{run}.wishes.json"))
    }

    /// What a run was opened with; nothing for most.
    fn wishes(&self, run: &RunId) -> Result<Wishes, SessionError> {
        let text = match folder::read_to_string(&self.wishes_file(run), MAX_KEPT_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Wishes::default()),
            text => text?,
        };
        serde_json::from_str(&text).map_err(|error| {
            let message = format!("what run {run} was opened with cannot be read: {error}");
            SessionError::Machine(message)
        })
    }

    /// Whether a run is a story that was asked for by itself.
    pub fn is_story(&self, run: &RunId) -> Result<bool, SessionError> {
        Ok(self.wishes(run)?.is_story)
    }

    /// How a story gets where it is wanted; nothing where the person is to be asked.
    pub fn landing(&self, run: &RunId) -> Result<Option<Route>, SessionError> {
        Ok(self.wishes(run)?.landing)
    }

    /// The hands of a flow: explorers look with code first, and what the run was given answers.
    fn flow(
        &self,
        workshop: Workshop,
        run: &RunId,
        agents: &Arc<Agents>,
        sites: Option<&Arc<Sites>>,
    ) -> Result<Workshop, SessionError> {
        let mut workshop = workshop;
        if let Some(paper) = &self.paper {
            let explorer = Explorer::new(agents.clone(), paper.clone()).before(sites.cloned());
            workshop = workshop
                .with("Task(explorer)", Arc::new(explorer))
                .around("exploration.aggregate", |inner| Arc::new(Completing::new(paper.clone(), inner)));
        }
        match folder::read_to_string(&self.plan_file(run), MAX_KEPT_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            text => {
                workshop = workshop.with("Task(planner)", Arc::new(Planned::new(text?, agents.clone())));
            }
        }
        if folder::is_file(&self.only_plans_file(run)) {
            let refuses: Arc<OnlyPlans> = Arc::new(OnlyPlans);
            workshop = BUILDING.iter().fold(workshop, |shop, name| shop.with(name, refuses.clone()));
        }
        Ok(workshop)
    }

    /// The script that a run was opened with, if it was.
    fn script(&self, run: &RunId) -> Result<Option<Script>, SessionError> {
        let file = self.script_file(run);
        if folder::metadata(&file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let script = Script::load(&file).map_err(|message| {
            SessionError::Machine(format!("the script of run {run} cannot be played: {message}"))
        })?;
        Ok(Some(script))
    }

    /// The hands for a run: the script that it was opened with first, then those of this program.
    fn hands(&self, lease: &Lease) -> Result<Workplace, SessionError> {
        let run = &lease.run;
        process::own_orphans()?;
        let supervisor = self.supervisor()?;
        let shell = Shell::new(
            supervisor.clone(),
            self.store.clone(),
            &self.place,
            self.config.command_limits(),
            self.config.agent_limits(),
        );
        let shell = Arc::new(shell.in_environment(self.config.environment()));
        let width = self.config.width();
        let wishes = self.wishes(run)?;
        let agents = self.jobs.or(wishes.jobs).unwrap_or(width.agents);
        let width = Width { agents, ..width };
        let probe = Arc::new(crate::hands::shell::Probes::new(shell.clone(), self.config.clone()));
        let mut workshop = Workshop::hiding(width, &self.secrets).with("sh", shell.clone()).probing(probe);
        let script = self.script(run)?;
        // A script that answers everything answers everything but the shell.
        let whole = script.as_ref().is_some_and(|script| script.names().contains("*"));
        let sites = self.paper.as_ref().filter(|_| !whole).map(|paper| {
            let sites = Sites::new(paper.clone(), supervisor.clone(), &self.config);
            let fence = Fence { file: self.fence(run), epoch: lease.epoch };
            let sites = sites.allowing(wishes.allowed.clone()).with_tools(wishes.tools);
            let sites = sites.landing(wishes.landing).fenced(fence);
            (paper, Arc::new(sites))
        });
        if let Some((paper, sites)) = &sites {
            workshop = workshop.with_paper(paper, &shell).with_sites(sites).with_tasks(paper, sites);
        }
        let sites = sites.map(|(_, sites)| sites);
        if !whole {
            let mut agents = self.agents(supervisor, &wishes.choice)?;
            if wishes.document.is_some() {
                agents = agents.with_stand_in("planner", "architect");
            }
            let agents = Arc::new(match &sites {
                Some(sites) => agents.with_sites(sites.clone()),
                None => agents,
            });
            for role in Catalogue::standard().roles() {
                workshop = workshop.with(&format!("Task({})", role.name), agents.clone());
            }
            workshop = self.flow(workshop, run, &agents, sites.as_ref())?;
            workshop = workshop.with_workers(self.worker(), wishes.document.is_some());
            if let (Some(paper), Some(sites)) = (&self.paper, &sites) {
                workshop = workshop.with_story_agents(paper, sites, wishes.document.as_deref());
                workshop = workshop.with_task_agents(paper, sites, &self.secrets);
            }
        }
        if let Some(script) = script {
            let names: Vec<String> = script.names().into_iter().map(str::to_owned).collect();
            let scripted = Arc::new(Scripted::new(script, self.scripts(), Some(shell)));
            for name in names.iter().filter(|name| *name != "*") {
                workshop = workshop.with(name, scripted.clone());
            }
            workshop = workshop.otherwise(scripted);
        }
        Ok((Box::new(workshop), sites))
    }

    /// The hand that asks agents, as the settings bind them, or as the person has chosen for the run.
    fn agents(&self, supervisor: Arc<Supervisor>, choice: &Choice) -> Result<Agents, SessionError> {
        let (roster, lobby) = (self.roster_with(Some(choice))?, self.lobby()?);
        let hall = Hall::new(&roster, &variable, &lobby.folder).hiding(memory_key(&self.config));
        let hall = hall.hiding(forge_token(&self.config));
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
            let (silence, resume) = (agent.silence, agent.resumes());
            let environment = roster.environment_of(agent);
            let seat = |backend| Seat { backend, model, silence, resume, environment };
            seats.insert(role.name.to_string(), backend.clone().map(seat));
        }
        let prompts = prompts(&self.place).map_err(SessionError::Machine)?;
        let means = Means {
            prompts,
            place: self.place.clone(),
            supervisor,
            commands: self.config.command_limits(),
            programs: self.config.agent_limits(),
        };
        let mut agents =
            Agents::new(seats, means).with_lobby(lobby).with_explorer_calls(self.config.explorer_calls());
        if let Some(paper) = &self.paper {
            agents = agents.with_memory(paper.clone(), hall.secrets().clone());
        }
        if let Some(listener) = self.listener.get() {
            agents = agents.heard_by(listener.clone());
        }
        Ok(agents)
    }

    /// A folder of our own with a short path, for the sockets of agents' programs.
    fn lobby(&self) -> Result<Lobby, SessionError> {
        let folder = match self.lobby.get() {
            Some(folder) => folder,
            None => {
                let made = Scratch::make(Purpose::Lobby)?;
                self.lobby.get_or_init(|| made)
            }
        };
        let program = std::env::current_exe()?;
        Ok(Lobby { folder: folder.path().to_owned(), program, args: vec![String::from("mcp")] })
    }
}

/// Everything that nobody may see: what the settings name, keys of agents, in variables and files, and of the
/// embeddings' endpoint; and what our own environment holds by its name or its look. Settings that cannot be read
/// name nothing.
/// What the environment only seems to hold is spared where it is a part of the repository's path or names a file of
/// it.
pub fn secrets(config: &Config, root: &Path) -> Arc<Secrets> {
    let roster = config.roster().unwrap_or_default();
    let hall = Hall::new(&roster, &variable, &std::env::temp_dir()).hiding(memory_key(config));
    let hall = hall.hiding(forge_token(config));
    let mut secrets = Secrets::clone(hall.secrets());
    let texts =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    secrets.add_environment(std::env::vars_os().filter_map(texts));
    let environment = config.environment();
    environment.secrets().for_each(|value| secrets.hide(value));
    // Whoever passes a secret on by its name wants it used, not shown.
    for value in environment.passed().filter(|name| is_secret_name(name)).filter_map(variable) {
        secrets.hide(&value);
    }
    let path = root.to_string_lossy();
    secrets.spare(|value| path.contains(value) || root.join(value).symlink_metadata().is_ok());
    Arc::new(secrets)
}

fn memory_key(config: &Config) -> Option<String> {
    Some(config.text("memory.key")).filter(|name| !name.is_empty()).and_then(variable)
}

fn forge_token(config: &Config) -> Option<String> {
    Some(config.text("forge.token_env")).filter(|name| !name.is_empty()).and_then(variable)
}

/// A variable of our own environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The prompts: those of the program, or all of those in the repository's own folder.
pub fn prompts(place: &Place) -> Result<Prompts, String> {
    let own = place.prompts();
    let wrong = |error: std::io::Error| format!("{}: {error}", own.display());
    let mut files = Vec::new();
    for name in folder::names(&own).map_err(wrong)? {
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".md")) else { continue };
        let file = own.join(format!("{name}.md"));
        let text = folder::read_to_string(&file, MAX_PROMPT_FILE_BYTES as u64).map_err(wrong)?;
        files.push((name.to_owned(), text));
    }
    Prompts::with(files).map_err(|why| format!("{}: {why}", own.display()))
}
