//! Sites: the worktrees in which instances work, and the actions that act there.
//!
//! No action names a worktree: it acts in the one of the instance that asks, which is opened from the tip
//! of the run's branch when it is first needed. What a brief says is noted when it is parsed, and gates look
//! by that note, not by what is in a file by then. Nothing here touches the person's checkout before a
//! delivery, and no worktree is removed before what exists only there is kept.
//!
//! | module | what it holds |
//! |---|---|
//! | `base` | how commands go on what work starts from, beside the first conversation; whether they can be run |
//! | `brief` | what an instance was told to build, noted |
//! | `campaign` | `workspace.create`, `observer.analyze`, `campaign.summary`, all by the run's branch |
//! | `checkout` | the one function that hands out a checkout to verify in |
//! | `inherit` | what an earlier attempt at the same brief left |
//! | `gates` | `verify.run`, `preflight.check`, `file.read`; the work that other gates look at |
//! | `land`, `message` | `work.land`, `branch.deliver`; what commits say |
//! | `proof` | `story.assigned`, `story.satisfied`: evidence that `ftl` looks at itself |
//! | `pull` | merging through a pull request |
//! | `replay` | the base's own tests on what would land, in another place |
//! | `retry` | tasks that are tried again |
//! | `story` | a story's worktree, its tests and its merge |
//! | `close` | worktrees that are needed no more |
//! | `task` | what a task's lifecycle does with git: its patch made, tested, applied, undone |

mod base;
mod brief;
mod campaign;
mod checkout;
mod close;
mod gates;
mod inherit;
mod land;
pub(crate) mod message;
mod proof;
mod pull;
mod replay;
pub mod retry;
mod seen;
mod story;
pub(super) mod task;

pub(super) use self::base::check_base;
pub(super) use self::campaign::{create_workspace, list_tasks};
pub(super) use self::seen::committer_of;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ftl_core::catalogue::build::Delivery;
use ftl_core::catalogue::scalars::Seconds;
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Fields;
use serde::{Deserialize, Serialize};

use super::table::Resources;
use super::{Executor, Job};
use crate::forge::{ForgeError, Reached};
use crate::sandboxes::{Inhabitant, Sandboxes};
use ftl_code::commands::Commands;
use ftl_folder as folder;
use ftl_folder::state_folder::StateFolder;
use ftl_gates::verify::{CouldNotRun, not_started};
use ftl_gates::{CommandPlace, FindingAllowance};
use ftl_git::change::Change;
use ftl_git::{CallbackError, ErrorKind, GitError, Oid, Repo, Worktree, WorktreeId};
use ftl_process::sandbox::Reach;
use ftl_process::{Captured, Fence, How, ProcessLimits, Supervisor};
use ftl_records::Records;
use ftl_records::build_budget::BuildSettings;
use ftl_records::campaign::Followed;
use ftl_records::plan_file::CampaignPlan;
use ftl_settings::config::Config;
use ftl_settings::environment::{CommandKind, Environment};
use ftl_store::StoreError;
use ftl_store::notebook::Notebook;

/// How many lines of a setup command are told when it fails.
const TOLD_LINES: usize = 5;

/// What the command is for that makes a new checkout ready.
const SETUP: &str = "setup";

/// The worktrees of a repository's runs.
pub struct Sites {
    records: Arc<Records>,
    supervisor: Arc<Supervisor>,
    sandboxes: Sandboxes,
    limits: ProcessLimits,
    setup: String,
    copied: Vec<String>,
    unkept: Vec<String>,
    /// Where checkouts to verify in lie, if a setting says so.
    slots: Option<PathBuf>,
    /// The builds that stay in such a checkout.
    warm: Vec<String>,
    /// A command that no agent sees and that must succeed on what would land.
    held_out: String,
    commands: Commands,
    environment: Environment,
    style: message::Style,
    /// Tasks that are tried again.
    retried: Vec<retry::Retried>,
    allowed: Vec<FindingAllowance>,
    /// The limits of builds.
    builds: BuildSettings,
    /// Whether an agent is bound to the observer by name: it is asked about what went well, too.
    observer_is_named: bool,
    /// The campaign as it was when all of it was last read.
    followed: Mutex<Option<Followed>>,
    /// The plan that was read last, and what it was read from.
    plan: Mutex<Option<(Arc<Fields>, Arc<CampaignPlan>)>>,
    landing: Option<LandingRoute>,
    forge: Result<Reached, ForgeError>,
    /// How long the checks of a pull request are waited for.
    checks: Duration,
    repo: Mutex<Option<Repo>>,
    /// The fence of the run, behind which nothing is done in git; nothing where a person acts.
    fence: Option<Fence>,
    turns: Mutex<BTreeMap<WorktreeId, Arc<Mutex<()>>>>,
    /// Commands that are run on what work starts from.
    base_checks: base::Checks,
}

/// How a story that is run by itself gets where it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandingRoute {
    /// To the person's branch, here.
    Branch(Delivery),
    /// Through a pull request on a forge.
    PullRequest,
}

/// The worktree of an instance.
pub(super) struct Site {
    repo: Repo,
    tree: Worktree,
    /// Where people's paths begin: the worktree, or the folder in it that has the repository's state.
    folder: PathBuf,
}

impl Sites {
    /// The worktrees of the repository that the records belong to. Git is not asked before the first job.
    pub fn new(records: Arc<Records>, supervisor: Arc<Supervisor>, config: &Config) -> Sites {
        let settings = config.settings();
        Sites {
            records,
            supervisor,
            sandboxes: Sandboxes::default(),
            limits: config.command_limits(),
            setup: settings.worktree.setup.trim().to_owned(),
            copied: settings.worktree.copy.clone(),
            unkept: settings.keep.ignore.clone(),
            slots: Some(settings.worktree.slots.trim()).filter(|path| !path.is_empty()).map(PathBuf::from),
            warm: settings.worktree.warm.clone(),
            held_out: settings.verify.held_out.trim().to_owned(),
            commands: config.commands(),
            environment: config.environment().clone(),
            style: message::Style::of(config),
            retried: Vec::new(),
            allowed: Vec::new(),
            builds: config.builds(),
            observer_is_named: config.names_role("observer"),
            followed: Mutex::default(),
            plan: Mutex::default(),
            landing: None,
            forge: Reached::of(config, &|name| std::env::var(name).ok()),
            checks: settings.forge.checks,
            repo: Mutex::default(),
            fence: None,
            turns: Mutex::default(),
            base_checks: base::Checks::default(),
        }
    }

    /// The same where commands run in sandboxes.
    #[must_use]
    pub fn with_sandboxes(self, sandboxes: Sandboxes) -> Sites {
        Sites { sandboxes, ..self }
    }

    /// The same where the person who opened the run allows findings of gates.
    #[must_use]
    pub fn allowing(self, allowed: Vec<FindingAllowance>) -> Sites {
        Sites { allowed, ..self }
    }

    /// The same where the person who opened the run gave every full build so many tools.
    #[must_use]
    pub fn with_tools(mut self, tools: Option<u64>) -> Sites {
        self.builds.given_tools = tools;
        self
    }

    /// The same where a story that was asked for by itself is brought to the person's branch.
    #[must_use]
    pub fn landing(self, landing: Option<LandingRoute>) -> Sites {
        Sites { landing, ..self }
    }

    /// The same for the process that drives a run, as long as no other one does.
    #[must_use]
    pub fn fenced(self, fence: Fence) -> Sites {
        Sites { fence: Some(fence), ..self }
    }

    fn place(&self) -> &StateFolder {
        self.records.place()
    }

    fn repo(&self) -> Result<Repo, GitError> {
        let mut open = lock(&self.repo);
        if let Some(repo) = &*open {
            return Ok(repo.clone());
        }
        let repo = Repo::of_person(self.place(), self.copied.clone()).map_err(|error| {
            // Where a repository was worked with before, one that is not there is missing.
            let missing = error.trouble == ErrorKind::NoRepository
                && folder::is_folder(&self.place().store().join("git"));
            if missing { GitError { trouble: ErrorKind::Machine, ..error } } else { error }
        })?;
        let repo = repo.not_keeping(self.unkept.clone());
        let repo = repo.checking_out(self.slots.clone(), self.warm.clone());
        let repo = self.fence.iter().cloned().fold(repo, Repo::fenced);
        Ok(open.insert(repo).clone())
    }

    /// Opens the repository before a job needs it.
    pub(super) fn open_early(&self) {
        if let Ok(repo) = self.repo() {
            repo.get_ready();
        }
    }

    /// The worktree of the instance that a job is for, made if it is not there.
    fn site(&self, job: &Job) -> Result<Site, Failure> {
        let repo = self.repo()?;
        let id = WorktreeId::of(&job.run, job.action.instance);
        let turn = lock(&self.turns).entry(id.clone()).or_default().clone();
        let _mine = lock(&turn);
        // Beginning waits for a landing, and a run is begun once.
        if repo.branch(&job.run).is_err() {
            repo.begin(&job.run)?;
        }
        let mut met = Met::default();
        let mut inherited = Ok(());
        let mut set_up = |folder: &Path| {
            inherited = self.inherit(job, &repo, folder);
            met.note(self.set_up(job, &repo, folder))
        };
        let tree = repo.open_worktree(&id, &job.run, &mut set_up);
        let tree = met.over(tree)?;
        inherited?;
        let folder = folder_in(&repo, &tree.path);
        let site = Site { repo, tree, folder };
        self.lay_retried(job, &site)?;
        Ok(site)
    }

    /// Whether the instance of a job works in a worktree: it has a brief, or one is open.
    fn has_site(&self, job: &Job) -> Result<bool, Failure> {
        let id = WorktreeId::of(&job.run, job.action.instance);
        Ok(self.noted(job)?.is_some() || folder::is_folder(&self.place().worktrees().join(id.as_str())))
    }

    /// Where an agent that builds the brief of its instance works; nothing where there is no brief.
    pub(super) fn folder_of_brief(&self, job: &Job) -> Result<Option<PathBuf>, Failure> {
        match self.noted(job)? {
            Some(_) => self.folder(job).map(Some),
            None => Ok(None),
        }
    }

    /// Writes down what is in the worktree of a job's instance, so that a power cut does not take it away.
    pub(super) fn note_work(&self, job: &Job) -> Result<(), Failure> {
        let site = self.site(job)?;
        Ok(site.repo.tree(&site.tree.id).map(drop)?)
    }

    /// The worktree of a job's instance, where one is open: planners and reviewers of a story look there.
    pub(super) fn folder_if_open(&self, job: &Job) -> Result<Option<PathBuf>, Failure> {
        let id = WorktreeId::of(&job.run, job.action.instance);
        if !folder::is_folder(&self.place().worktrees().join(id.as_str())) {
            return Ok(None);
        }
        self.folder(job).map(Some)
    }

    /// Where an agent works that may write files of its instance's worktree.
    pub(super) fn folder(&self, job: &Job) -> Result<PathBuf, Failure> {
        Ok(self.site(job)?.folder)
    }

    /// Runs the setup command of the settings in a new checkout.
    fn set_up(&self, job: &Job, repo: &Repo, checkout: &Path) -> Result<(), CouldNotRun> {
        if self.setup.is_empty() {
            return Ok(());
        }
        let env = self.environment.of_command(CommandKind::Setup);
        let command_place = self.command_place(job, folder_in(repo, checkout), (SETUP, env), None);
        let ended = command_place.shell(&self.setup, &job.cancel).map_err(not_started)?;
        if ended.cut.is_none() && ended.how == How::Exited(0) {
            return Ok(());
        }
        let said = last_lines(&ended.err);
        Err(CouldNotRun::NotStarted(format!("`{}`: {}: {said}", self.setup, ended.sentence())))
    }

    /// A place for commands of a job: what they are for, and what they see.
    fn command_place(
        &self,
        job: &Job,
        folder: PathBuf,
        (what, env): (&str, Vec<(OsString, OsString)>),
        timeout: Option<Seconds>,
    ) -> CommandPlace<'_> {
        let mut limits = self.limits;
        if let Some(timeout) = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.0).ok()) {
            limits.soft = Some(limits.soft.map_or(timeout, |soft| soft.min(timeout)));
        }
        let fence = job.epoch();
        let fence = fence.map(|epoch| Fence { file: self.place().fences().join(job.run.as_str()), epoch });
        let sandbox = self.sandboxes.around(Inhabitant {
            role: what,
            folder: &folder,
            writes: true,
            program: OsStr::new("sh"),
            env: &env,
            reach: Reach::default(),
            // What makes a checkout ready fetches what it needs.
            open_network: what == SETUP,
        });
        CommandPlace {
            supervisor: &self.supervisor,
            store: &**self.records.store(),
            folder,
            key: format!("{}.{what}", job.key()),
            fence,
            limits,
            env,
            sandbox,
        }
    }

    fn note(&self, kind: &str, key: &str) -> Result<Option<String>, Failure> {
        Ok(self.records.store().note(kind, key)?)
    }

    fn put_note(&self, kind: &str, key: &str, what: &impl serde::Serialize) -> Result<(), Failure> {
        let body = serde_json::to_string(what)
            .map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))?;
        self.records.store().amend(&mut |notes| {
            notes.put(kind, key, &body)?;
            Ok(true)
        })?;
        Ok(())
    }
}

/// What a look on behalf of git has met. Git asks for a sentence; whether the machine is to blame travels beside.
#[derive(Default)]
struct Met(Option<Failure>);

impl Met {
    /// Notes why a command could not be run, and hands on its sentence.
    fn note<T>(&mut self, looked: Result<T, CouldNotRun>) -> Result<T, CallbackError> {
        looked.map_err(|why| {
            self.0 = Some(gates::no_answer(&why)).filter(|failure| failure.kind == FailureKind::Machine);
            // What git says around it names what could not be done.
            CallbackError::new(match why {
                CouldNotRun::NotStarted(what) => what,
                why @ (CouldNotRun::NotFound(_)
                | CouldNotRun::Timeout(_)
                | CouldNotRun::OutOfMemory(_)
                | CouldNotRun::Signal(_)
                | CouldNotRun::Cancelled
                | CouldNotRun::Machine(_)) => why.to_string(),
            })
        })
    }

    /// What came of it: the machine's trouble where there was some, whatever git made of it, else what git says.
    fn over<T>(self, came: Result<T, GitError>) -> Result<T, Failure> {
        match self.0 {
            Some(failure) => Err(failure),
            None => Ok(came?),
        }
    }
}

/// What was to be done in a worktree, in a few words, where that was noted: the task of a brief, or what a
/// story is about.
pub fn task_of(notes: &dyn Notebook, worktree: &WorktreeId) -> Result<Option<String>, StoreError> {
    if let Some(story) = story::about_of(notes, worktree)? {
        return Ok(Some(story));
    }
    match worktree.instance() {
        Some((run, instance)) => brief::task_of(notes, run, instance),
        None => Ok(None),
    }
}

impl Site {
    /// The tree that is there now.
    fn standing(&self) -> Result<Oid, Failure> {
        Ok(self.repo.tree(&self.tree.id)?.tree)
    }

    /// What differs between the commit that it started from and a tree.
    fn change(&self, tree: &Oid) -> Result<Change, Failure> {
        self.difference(&self.tree.base, tree).map_err(Failure::from)
    }

    /// What differs between two trees, with paths as people write them here.
    fn difference(&self, base: &Oid, tree: &Oid) -> Result<Change, GitError> {
        let mut change = self.repo.change(base, tree)?;
        for file in &mut change.files {
            file.path = self.display_path(&file.path);
        }
        Ok(change)
    }

    /// A path from the top of the repository, as people write it here; what lies outside begins with `..`.
    fn display_path(&self, path: &str) -> String {
        let prefix = prefix(&self.repo);
        let below = Path::new(path).strip_prefix(&prefix).ok();
        match below {
            Some(below) => below.to_string_lossy().into_owned(),
            None => format!("{}{path}", "../".repeat(prefix.iter().count())),
        }
    }
}

/// Has what a brief says noted for the gates, when it is parsed.
pub(super) fn note_brief(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    Arc::new(brief::Noting { sites: with.sites.clone(), inner })
}

/// Has the worktree of a workspace closed, when it is blocked.
pub(super) fn close_worktree(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    Arc::new(close::Closing { sites: with.sites.clone(), inner })
}

/// From the top of the repository to the folder that holds its state.
fn prefix(repo: &Repo) -> PathBuf {
    repo.place().root().strip_prefix(repo.top()).unwrap_or(Path::new("")).to_owned()
}

fn folder_in(repo: &Repo, checkout: &Path) -> PathBuf {
    checkout.join(prefix(repo))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn last_lines(captured: &Captured) -> String {
    let text = captured.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TOLD_LINES)..].join("\n")
}
