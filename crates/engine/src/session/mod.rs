//! A session: one process at work on a repository's runs.
//!
//! It opens runs, claims the ones without a driver, and drives them. A reader needs no session: the store is
//! enough.
//!
//! | module | what it holds |
//! |---|---|
//! | `find` | runs as people name them, and who drives each |
//! | `options` | what a run is opened with beside its inputs, and where that is kept |
//! | `task` | the runs of lifecycle tasks, driven with what a command has looked at |
//! | `wiring` | how the executors of a run are put together |

mod find;
mod notify;
mod options;
mod task;
mod wiring;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ftl_agents::scripted::rehearsal::RehearsalScript;
use ftl_agents::secrets::{RedactValues as _, Secrets};
use ftl_core::catalogue::build::{Delivered, Delivery};
use ftl_core::run::{Adoption, Entry, Run, Usage};
use ftl_core::value::Fields;
use ftl_language::library::Library;

pub use self::find::{Driven, RunTarget, driven, find};
use self::notify::Woken;
pub use self::notify::{Bell, notify_options};
use self::options::OptionFiles;
pub use self::options::{LargePlan, RunOptions, check_plan};
pub use self::task::ReplayedRun;
pub use self::wiring::{PromptsError, prompts, secrets};
use self::wiring::{Wiring, variable};
use crate::drive::{DriveEnd, DriveObserver, StopSignal, drive};
use crate::driver::{DriveError, Driver, Opening, Todo};
use crate::executors::agents::Listener;
use crate::executors::worktrees::retry::kept_of_task;
use crate::executors::worktrees::{LandingRoute, Sites};
use crate::sandboxes::TooWeak;
use ftl_code::commands::look::ProbeReport;
use ftl_folder as folder;
use ftl_folder::clock::{Clock as _, SystemClock};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_git as git;
use ftl_process::{self as process, Cancel, Guard};
use ftl_records::Records;
use ftl_records::plan_file::{CampaignPlan, Worker};
use ftl_settings::config::Config;
use ftl_settings::roster::needs::{self, Unfit};
use ftl_settings::roster::{Choice, Hall, Roster};
use ftl_store::journal;
use ftl_store::order::{Order, Reply};
use ftl_store::owner::{self, Card, Life, Owner};
use ftl_store::snapshot::{self, Board};
use ftl_store::{Lease, Store, StoreError};

/// Why something could not be done in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// A name fits nothing, or too much.
    Unknown {
        /// The sentence for people.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The agents that are bound do not fit what is to be run.
    Unfit(Unfit),
    /// The sandbox that is asked for cannot be had on this machine.
    Sandbox(TooWeak),
    /// An input holds a secret of the environment: the journal would keep it, and without it the run would do
    /// something else.
    SecretInput {
        /// The name of the input.
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
            SessionError::Sandbox(weak) => weak.fmt(out),
            SessionError::SecretInput { input, variable } => {
                write!(out, "the input `{input}` holds the secret of the variable {variable}")
            }
            SessionError::Drive(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for SessionError {}

/// The outcome of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The run is ours.
    Ours(Lease),
    /// Another process drives it, and lives.
    Theirs(Option<Card>),
}

/// One process at work on a repository's runs.
pub struct Session {
    library: Arc<Library>,
    command: String,
    owner: OnceLock<Owner>,
    wiring: Wiring,
}

/// The parts that a session is made of.
pub struct Setup {
    /// The folder `.ftl` of the repository.
    pub place: StateFolder,
    /// The store that keeps the runs.
    pub store: Arc<dyn Store>,
    /// The checked protocols that count in this repository.
    pub library: Arc<Library>,
    /// The settings, of all files together.
    pub config: Config,
    /// Campaigns, plans, workspaces and lessons.
    pub records: Arc<Records>,
    /// The program that guards processes.
    pub guard: Guard,
}

impl Session {
    /// A session on a store that is open, for a command as it was typed.
    pub fn new(setup: Setup, command: &str) -> Session {
        let Setup { place, store, library, config, records, guard } = setup;
        let secrets = secrets(&config, place.root());
        let command = secrets.redact(command);
        let options = OptionFiles::of(&place);
        let (mcp_endpoint, listener, bell) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let wiring =
            Wiring { place, store, config, guard, records, secrets, options, mcp_endpoint, listener, bell };
        Session { library, command, owner: OnceLock::new(), wiring }
    }

    /// Sets the listener that follows what agents say in the runs that are driven from now on; only the first one.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        let _ = self.wiring.listener.set(listener);
    }

    /// The store that keeps the runs.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.wiring.store
    }

    /// Campaigns, plans, workspaces and lessons.
    pub fn records(&self) -> &Arc<Records> {
        &self.wiring.records
    }

    /// The repository and its folder `.ftl`.
    pub fn place(&self) -> &StateFolder {
        &self.wiring.place
    }

    /// The values that no output may show.
    pub fn secrets(&self) -> &Secrets {
        &self.wiring.secrets
    }

    /// The settings, of all files together.
    pub fn config(&self) -> &Config {
        &self.wiring.config
    }

    fn owner(&self) -> Result<&Owner, SessionError> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner);
        }
        let owner = Owner::register(&self.wiring.place.owners(), &self.command)?;
        Ok(self.owner.get_or_init(|| owner))
    }

    /// Opens a run and returns it ready to be driven. A script is kept beside the store first, so that
    /// the process that takes the run over plays the same one.
    pub fn open(&self, opening: Opening, script: Option<&str>) -> Result<(Driver, Todo), SessionError> {
        self.open_with(opening, RunOptions { script: script.map(str::to_owned), ..RunOptions::default() })
    }

    /// The same with all that a run can be opened with.
    pub fn open_with(
        &self,
        mut opening: Opening,
        mut options: RunOptions,
    ) -> Result<(Driver, Todo), SessionError> {
        self.wiring.store.writable()?;
        opening.inputs = self.clean_inputs(&opening.inputs)?;
        let said = std::mem::take(&mut opening.terms.accepted);
        opening.terms.accepted = self.staffed(&opening.protocol, &options)?;
        opening.terms.accepted.extend(said);
        opening.terms.accepted.extend(options.allowed.iter().map(ToString::to_string));
        opening.terms.accepted.extend(options.sandbox.iter().map(ToString::to_string));
        let id = RunId::random()?;
        options.plan = options.plan.map(|plan| self.staff(&plan));
        let kept = self.wiring.options.write(&id, &options, self.secrets())?;
        if let Some(earlier) = &options.after {
            self.begin_after(&id, earlier)?;
        }
        let at = SystemClock::not_before(0).now();
        let owner = self.owner()?.name();
        let opened = Driver::open(self.wiring.store.clone(), self.library.clone(), (id, owner), opening, at);
        // Only a run that was refused is surely not there. After a failure of the disk it may be, and
        // the process that resumes it must find what it was given.
        if matches!(opened, Err(DriveError::Refused(_))) {
            for file in &kept {
                let _ = folder::remove(file);
            }
        }
        Ok(opened?)
    }

    /// Has the branch of a run begin where an earlier run's stands.
    fn begin_after(&self, run: &RunId, earlier: &RunId) -> Result<(), SessionError> {
        let wrong = |error: git::GitError| SessionError::Machine(error.to_string());
        let repo = git::Repo::of_person(&self.wiring.place, Vec::new()).map_err(wrong)?;
        repo.begin_after(run, earlier).map(drop).map_err(wrong)
    }

    /// The work that is kept of a task of a run, by its ref.
    pub fn kept_of_task(&self, run: &RunId, task: &str) -> Result<Option<String>, SessionError> {
        let wrong = |error: git::GitError| SessionError::Machine(error.to_string());
        let repo = git::Repo::of_person(&self.wiring.place, Vec::new()).map_err(wrong)?;
        let kept = kept_of_task(&repo, &**self.records().store(), (run.as_str(), task));
        Ok(kept.map_err(|failure| SessionError::Machine(failure.message))?.map(|kept| kept.name))
    }

    /// Whether a run was only to plan.
    pub fn only_plans(&self, run: &RunId) -> bool {
        self.wiring.options.is_dry_run(run)
    }

    /// Opens the run of a task under a name that was chosen, where the task stands. No agent need be bound to
    /// its roles: a word that calls for one says so when it is said.
    pub fn open_task(
        &self,
        id: RunId,
        mut opening: Opening,
        adopt: Option<Adoption>,
    ) -> Result<(Driver, Todo), SessionError> {
        self.wiring.store.writable()?;
        opening.inputs = self.clean_inputs(&opening.inputs)?;
        let at = SystemClock::not_before(0).now();
        let owner = self.owner()?.name();
        Ok(Driver::open_at(self.wiring.store.clone(), self.library.clone(), (id, owner), opening, adopt, at)?)
    }

    /// The inputs of a run without keys. One that holds a secret of the environment is refused by its name: what is
    /// left of it would be carried out as if a person had said it.
    fn clean_inputs(&self, inputs: &Fields) -> Result<Fields, SessionError> {
        for (name, value) in inputs {
            if let Some(variable) = self.wiring.secrets.variable_in(&format!("{name} {value}")) {
                let (input, variable) = (name.to_string(), variable.to_owned());
                return Err(SessionError::SecretInput { input, variable });
            }
        }
        Ok(self.wiring.secrets.redact_fields(inputs))
    }

    /// What the agents of a protocol do not enforce and a person accepted; an error where no person did, or where a
    /// role has no agent.
    pub fn staffed(&self, protocol: &str, options: &RunOptions) -> Result<Vec<String>, SessionError> {
        self.wiring.sandboxes(options)?;
        let script = options.script.as_deref().map(RehearsalScript::parse).transpose();
        let script = script.map_err(|error| SessionError::Machine(error.to_string()))?;
        let is_scripted = |role: &str| script.as_ref().is_some_and(|script| script.answers_role(role));
        let roster = self.wiring.roster_with(&options.choice)?;
        // A protocol may ask a coder or a builder only where its plan does. Where no agent is bound and a planner
        // names one all the same, that task is held and says so.
        let plan = options.plan.as_ref().map(|plan| self.staff(plan));
        let is_asked = |worker: Worker| match (&plan, &options.document) {
            (_, Some(_)) => worker == Worker::Coder,
            (Some(plan), None) => plan.tasks.iter().any(|task| task.worker == worker),
            (None, None) => self.wiring.worker() == worker,
        };
        let is_worker = |word: &str| {
            let workers = [Worker::Builder, Worker::Coder].into_iter();
            workers.filter(|worker| worker.word() == word).any(is_asked)
        };
        let unneeded = needs::unneeded(&self.library, protocol, &is_worker);
        let is_free = |role: &str| roster.role(role).is_none();
        let answered = |role: &str| match role {
            "planner" if options.plan.is_some() => true,
            // The architect is looked for itself.
            "planner" if options.document.is_some() => true,
            "architect" if options.document.is_some() => is_scripted(role),
            "planner" | "explorer" => is_scripted(role),
            _ if unneeded.contains(role) && is_free(role) => true,
            _ => options.only_plans || is_scripted(role),
        };
        let hall = Hall::new(&roster, &variable, &std::env::temp_dir());
        needs::staffed(&self.library, protocol, &roster, &hall, &answered).map_err(SessionError::Unfit)
    }

    /// A plan in which every task says who does it.
    fn staff(&self, plan: &CampaignPlan) -> CampaignPlan {
        let mut plan = plan.clone();
        for task in &mut plan.tasks {
            task.staff(self.wiring.worker());
        }
        plan
    }

    /// Brings what has landed in a run that has ended to the person's branch, for a person who says so.
    pub fn deliver(&self, run: &RunId, how: Delivery, cancel: &Cancel) -> Result<Delivered, SessionError> {
        process::own_orphans()?;
        let sites = Sites::new(self.records().clone(), self.wiring.supervisor()?, self.config());
        let delivered = sites.deliver_for_person(run, how, cancel);
        delivered.map_err(|failure| SessionError::Machine(failure.message))
    }

    /// Whether commands can be run on the commit that is checked out, by a look in a worktree of its own that asks no
    /// model; `made` are the files that the work is to make.
    pub fn look_at_commands(
        &self,
        commands: &[String],
        made: &[String],
        cancel: &Cancel,
    ) -> Result<ProbeReport, SessionError> {
        process::own_orphans()?;
        let sites = Sites::new(self.records().clone(), self.wiring.supervisor()?, self.config());
        let looked = sites.look_for_person(commands, made, cancel);
        looked.map_err(|failure| SessionError::Machine(failure.message))
    }

    /// Who answers which role, where a person may have chosen an agent for one run.
    pub fn roster_with(&self, choice: &Choice) -> Result<Roster, SessionError> {
        self.wiring.roster_with(choice)
    }

    /// Claims a run that no process drives. An owner that lives keeps it; one that has not moved for a long
    /// time loses it if the caller is patient enough to watch that.
    pub fn claim(&self, run: &RunId, enough: &mut dyn FnMut() -> bool) -> Result<Claim, SessionError> {
        loop {
            let row = self.wiring.store.run(run)?.ok_or_else(|| StoreError::NoRun(run.clone()))?;
            if let Some(name) = &row.owner
                && !owner::is_gone(&self.wiring.place.owners(), name, enough)?
            {
                let Life::Alive { card, .. } = owner::life(&self.wiring.place.owners(), name)? else {
                    continue;
                };
                return Ok(Claim::Theirs(card));
            }
            match self.wiring.store.take(run, row.epoch, self.owner()?.name()) {
                Ok(lease) => {
                    // What is left of the last owner's attempts goes before anything is asked again, and
                    // only now: before this, they may be those of a process that was faster.
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
        folder::make(&self.wiring.place.fences())?;
        process::fence::raise(&self.fence(&lease.run), lease.epoch)?;
        process::end_leftovers(&self.wiring.place.attempts(), &format!("{}.", lease.run))
            .map_err(|error| SessionError::Machine(error.to_string()))?;
        git::await_turn(&self.wiring.place, &lease.run)
            .map_err(|error| SessionError::Machine(error.to_string()))
    }

    fn fence(&self, run: &RunId) -> PathBuf {
        self.wiring.place.fences().join(run.as_str())
    }

    /// Brings a claimed run back to where its journal ends.
    pub fn recover(&self, lease: &Lease) -> Result<(Driver, Todo), SessionError> {
        let at = SystemClock::not_before(0).now();
        let (store, library) = (self.wiring.store.clone(), self.library.clone());
        let used = self.used_when_lost(&lease.run);
        let recovered = Driver::recover_knowing(store, library, lease.clone(), at, &used);
        self.or_give_back(lease, recovered.map_err(SessionError::from))
    }

    /// What an agent of a role has used that was lost in a run, where its price says so. Without settings that can be read
    /// nothing is known, and the worst case is charged.
    fn used_when_lost(&self, run: &RunId) -> impl Fn(&str) -> Option<Usage> + use<> {
        let options = self.wiring.options.read(run);
        let roster = options.and_then(|options| self.wiring.roster_with(&options.choice)).ok();
        move |role: &str| {
            let roster = roster.as_ref()?;
            roster.agent(&roster.role(role)?.agent)?.pricing.used_when_lost()
        }
    }

    /// A run that we cannot drive is given back, so that another process can.
    fn or_give_back<T>(&self, lease: &Lease, done: Result<T, SessionError>) -> Result<T, SessionError> {
        if done.is_err() {
            let _ = self.wiring.store.release(lease);
        }
        done
    }

    /// The entries of a run's journal.
    pub fn entries(&self, run: &RunId) -> Result<Vec<Entry>, SessionError> {
        Ok(journal::load(&*self.wiring.store, run).map_err(DriveError::from)?)
    }

    /// The checked protocols that count in this repository.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Whether a listener follows what agents say.
    pub fn is_heard(&self) -> bool {
        self.wiring.listener.get().is_some()
    }

    /// A run as its journal has made it, for a reader that changes nothing.
    pub fn look(&self, run: &RunId) -> Result<Run, SessionError> {
        Ok(self.board(run)?.into_machine())
    }

    /// The board of a run as its journal has made it.
    pub fn board(&self, run: &RunId) -> Result<Board, SessionError> {
        let loaded = snapshot::load(&*self.wiring.store, run, self.library.clone());
        Ok(loaded.map_err(DriveError::from)?.board)
    }

    /// Drives a run until it rests.
    pub fn drive(
        &self,
        driver: Driver,
        todo: Todo,
        stop: &StopSignal,
        watch: &mut dyn DriveObserver,
    ) -> Result<DriveEnd, SessionError> {
        let (lease, run) = (driver.lease().clone(), driver.id().clone());
        let workplace = self.or_give_back(&lease, self.wiring.connect(&lease, self.routes()))?;
        // Copies of the records have caught up when the run rests.
        let lagging = Records::lagging(&workplace.records);
        let clock = SystemClock::not_before(driver.last());
        let since = todo.entries.first().map_or(driver.summary().entry, |entry| entry.seq - 1);
        let courier = self.or_give_back(&lease, self.courier(&run, since))?;
        let mut woken = Woken { watch, courier: courier.as_ref() };
        let rest =
            drive(driver, todo, &workplace.workshop, &clock, stop, &mut woken).map_err(SessionError::from);
        if let Some(sites) = &workplace.sites {
            sites.end_checks();
        }
        if let (Ok(_), Some(sites)) = (&rest, workplace.sites) {
            self.sweep(&sites, &run);
        }
        drop(lagging);
        // The run is given back: whoever tells a person of it keeps nobody from it.
        if let Some(courier) = courier {
            courier.end();
        }
        // Where the files cannot be moved now, the next command that opens or ends something does it.
        let _ = workplace.records.leave_front();
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

    /// Leaves an order for the process that drives the run.
    pub fn send(&self, run: &RunId, order: &Order) -> Result<u64, SessionError> {
        let said = serde_json::to_value(order).map_err(|error| SessionError::Machine(error.to_string()))?;
        Ok(self.wiring.store.send(run, &self.wiring.secrets.redact_json(&said).to_string())?)
    }

    /// What became of an order, if anything did yet.
    pub fn reply(&self, number: u64) -> Result<Option<Reply>, SessionError> {
        let Some(text) = self.wiring.store.reply(number)? else { return Ok(None) };
        let reply = serde_json::from_str(&text).map_err(|error| SessionError::Machine(error.to_string()))?;
        Ok(Some(reply))
    }

    /// Whether a run is a story that was asked for by itself.
    pub fn is_story(&self, run: &RunId) -> Result<bool, SessionError> {
        Ok(self.wiring.options.read(run)?.is_story)
    }

    /// How a story gets where it is wanted; nothing where the person is to be asked.
    pub fn landing(&self, run: &RunId) -> Result<Option<LandingRoute>, SessionError> {
        Ok(self.wiring.options.read(run)?.landing)
    }
}
