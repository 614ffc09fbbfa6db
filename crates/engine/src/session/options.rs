//! The options of a run: what it is opened with beside its inputs, and the files in which that is kept for the process that takes
//! the run over.
//!
//! Nothing here decides: it writes before a run is opened, and reads what was written.

use std::fmt;
use std::path::{Path, PathBuf};

use ftl_agents::scripted::MAX_SCRIPT_BYTES;
use ftl_agents::scripted::rehearsal::RehearsalScript;
use ftl_agents::secrets::Secrets;
use ftl_core::json::JsonExt as _;
use serde::{Deserialize, Serialize};

use super::SessionError;
use crate::executors::planned;
use crate::executors::worktrees::LandingRoute;
use crate::executors::worktrees::retry::Retried;
use crate::sandboxes::SandboxOrder;
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::{StateFolder, replace};
use ftl_gates::FindingAllowance;
use ftl_records::plan_file::CampaignPlan;
use ftl_settings::roster::Choice;

/// The largest file that is read of those that a run was given.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// How many tasks a plan may have that is kept as it is laid out for people.
const MAX_LAID_OUT: usize = 1_000;

/// What a run is opened with beside its inputs. It is kept where the process that takes the run over finds it: script, plan and
/// whether it only plans in files of their own, the rest in one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// What agents and actions answer; read back by itself.
    #[serde(skip)]
    pub script: Option<String>,
    /// What answers in the planner's place; read back by itself, as text.
    #[serde(skip)]
    pub plan: Option<CampaignPlan>,
    /// Whether nothing is to be built.
    #[serde(skip)]
    pub only_plans: bool,
    /// The run whose work it goes on from; its branch keeps that.
    #[serde(skip)]
    pub after: Option<RunId>,
    /// How many agents work at the same time, where it is not what the settings say.
    pub jobs: Option<usize>,
    /// How many tools every full build has, where it is not what plan and settings say.
    pub tools: Option<u64>,
    /// Findings of gates that the person who opens it allows.
    pub allowed: Vec<FindingAllowance>,
    /// How a story that is run by itself gets to the person's branch; it stays on its own otherwise.
    pub landing: Option<LandingRoute>,
    /// Whether it is a story that was asked for by itself: the person who sees it end is told, or asked, how it
    /// lands.
    pub is_story: bool,
    /// The document of which the architect makes stories, in the planner's place.
    pub document: Option<String>,
    /// Who answers every role, where the person has chosen it for this run.
    pub choice: Choice,
    /// Tasks that are tried again.
    pub retried: Vec<Retried>,
    /// What the person says about the sandboxes of this run.
    pub sandbox: Option<SandboxOrder>,
}

impl RunOptions {
    /// Those that are kept in one file, without secrets; nothing for most runs.
    fn to_keep(&self, secrets: &Secrets) -> Option<RunOptions> {
        let redact = |one: &Retried| Retried { reason: secrets.redact(&one.reason), ..one.clone() };
        let kept = RunOptions {
            document: self.document.as_ref().map(|text| secrets.redact(text)),
            retried: self.retried.iter().map(redact).collect(),
            script: None,
            plan: None,
            only_plans: false,
            after: None,
            ..self.clone()
        };
        (kept != RunOptions::default()).then_some(kept)
    }
}

/// A plan as a run keeps it: laid out for people, or on one line where it is too long to be read.
fn kept_plan(plan: &CampaignPlan) -> String {
    let json = plan.to_json_as_given();
    if plan.tasks.len() > MAX_LAID_OUT { json.to_string() } else { json.pretty() }
}

/// A plan that is too large for one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargePlan {
    /// How many tasks it has.
    pub tasks: usize,
    /// How large it is as a run keeps it.
    pub bytes: usize,
    /// The limit that it passes, in words.
    pub why: String,
}

impl fmt::Display for LargePlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LargePlan { tasks, bytes, why } = self;
        write!(out, "a plan of {tasks} tasks and {bytes} bytes is too large for one run: {why}")
    }
}

impl std::error::Error for LargePlan {}

/// Looks whether a run can be opened with a plan; why not, if it cannot. A dry run asks the same.
pub fn check_plan(plan: &CampaignPlan) -> Result<(), LargePlan> {
    let text = kept_plan(plan);
    match planned::check_size(&text, plan.tasks.len()) {
        None => Ok(()),
        Some(why) => Err(LargePlan { tasks: plan.tasks.len(), bytes: text.len(), why }),
    }
}

/// The files in which runs' options are kept.
pub(super) struct OptionFiles {
    folder: PathBuf,
}

impl OptionFiles {
    /// The option files of a repository.
    pub(super) fn of(place: &StateFolder) -> OptionFiles {
        OptionFiles { folder: place.store().join("scripts") }
    }

    /// The folder, in which commands of scripts run.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    fn script(&self, run: &RunId) -> PathBuf {
        self.folder.join(format!("{run}.toml"))
    }

    fn plan(&self, run: &RunId) -> PathBuf {
        self.folder.join(format!("{run}.plan.json"))
    }

    fn dry_run(&self, run: &RunId) -> PathBuf {
        self.folder.join(format!("{run}.only-plans"))
    }

    fn wishes(&self, run: &RunId) -> PathBuf {
        self.folder.join(format!("{run}.wishes.json"))
    }

    /// Keeps what a run is opened with; the files that were written.
    pub(super) fn write(
        &self,
        run: &RunId,
        options: &RunOptions,
        secrets: &Secrets,
    ) -> Result<Vec<PathBuf>, SessionError> {
        let script = options.script.as_ref().map(|text| (self.script(run), text.clone()));
        let plan = options.plan.as_ref().map(|plan| (self.plan(run), kept_plan(plan)));
        let dry_run = options.only_plans.then(|| (self.dry_run(run), String::new()));
        let wishes = options.to_keep(secrets).and_then(|kept| serde_json::to_string(&kept).ok());
        let wishes = wishes.map(|text| (self.wishes(run), text));
        let files: Vec<(PathBuf, String)> = [script, plan, dry_run, wishes].into_iter().flatten().collect();
        if !files.is_empty() {
            folder::make(&self.folder)?;
        }
        for (file, text) in &files {
            replace(file, text.as_bytes())?;
        }
        Ok(files.into_iter().map(|(file, _)| file).collect())
    }

    /// Whether a run was only to plan.
    pub(super) fn is_dry_run(&self, run: &RunId) -> bool {
        folder::is_file(&self.dry_run(run))
    }

    /// What a run was opened with, but for its script and its plan.
    pub(super) fn read(&self, run: &RunId) -> Result<RunOptions, SessionError> {
        let text = read(&self.wishes(run))?;
        let kept = text.map_or(Ok(RunOptions::default()), |text| serde_json::from_str(&text));
        let kept = kept.map_err(|error| {
            let message = format!("what run {run} was opened with cannot be read: {error}");
            SessionError::Machine(message)
        })?;
        Ok(RunOptions { only_plans: self.is_dry_run(run), ..kept })
    }

    /// The plan that a run was opened with, if it was.
    pub(super) fn read_plan(&self, run: &RunId) -> Result<Option<String>, SessionError> {
        read(&self.plan(run))
    }

    /// The script that a run was opened with, if it was.
    pub(super) fn read_script(&self, run: &RunId) -> Result<Option<RehearsalScript>, SessionError> {
        let file = self.script(run);
        if folder::metadata(&file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let wrong = |message: String| {
            SessionError::Machine(format!("the script of run {run} cannot be played: {message}"))
        };
        let text =
            folder::read_to_string(&file, MAX_SCRIPT_BYTES).map_err(|error| wrong(error.to_string()))?;
        RehearsalScript::parse(&text).map(Some).map_err(|error| wrong(error.to_string()))
    }
}

fn read(file: &Path) -> Result<Option<String>, SessionError> {
    match folder::read_to_string(file, MAX_KEPT_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => Ok(Some(text?)),
    }
}
