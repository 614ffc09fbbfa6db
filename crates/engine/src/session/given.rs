//! What a run is opened with beside its inputs, and the files in which that is kept for whoever takes the run over.
//!
//! Nothing here decides: it writes before a run is opened, and reads what was written.

use std::path::{Path, PathBuf};

use ftl_agents::scripted::MAX_SCRIPT_BYTES;
use ftl_agents::scripted::rehearsal::Rehearsal;
use ftl_agents::secrets::Secrets;
use serde::{Deserialize, Serialize};

use super::SessionError;
use crate::hands::site::Route;
use crate::hands::site::retry::Retried;
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_folder::place::{Place, replace};
use ftl_gates::Allowance;
use ftl_records::plan_file::Plan;
use ftl_settings::roster::Choice;

/// The largest file that is read of those that a run was given.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

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
    /// The run whose work it goes on from.
    pub after: Option<&'a RunId>,
    /// Tasks that are tried again.
    pub retried: &'a [Retried],
}

/// What is kept of a run's opening that is neither a script nor a plan.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Wishes {
    pub(super) jobs: Option<usize>,
    pub(super) tools: Option<u64>,
    pub(super) allowed: Vec<Allowance>,
    pub(super) landing: Option<Route>,
    pub(super) is_story: bool,
    pub(super) document: Option<String>,
    pub(super) choice: Choice,
    pub(super) retried: Vec<Retried>,
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
            || !given.allowed.is_empty()
            || !given.retried.is_empty();
        let choice = given.choice.cloned().unwrap_or_default();
        let redact = |one: &Retried| Retried { reason: secrets.redact(&one.reason), ..one.clone() };
        let retried = given.retried.iter().map(redact).collect();
        let allowed = given.allowed.to_vec();
        is_wished.then_some(Wishes { jobs, tools, allowed, landing, is_story, document, choice, retried })
    }
}

/// The files in which runs' options are kept.
pub(super) struct OptionFiles {
    folder: PathBuf,
}

impl OptionFiles {
    /// Those of a place.
    pub(super) fn of(place: &Place) -> OptionFiles {
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

    /// Keeps what a run is given; the files that were written.
    pub(super) fn write(
        &self,
        run: &RunId,
        given: Given<'_>,
        plan: Option<&Plan>,
        secrets: &Secrets,
    ) -> Result<Vec<PathBuf>, SessionError> {
        let script = given.script.map(|text| (self.script(run), text.to_owned()));
        let plan = plan.map(|plan| (self.plan(run), plan.to_json_as_given().pretty()));
        let dry_run = given.only_plans.then(|| (self.dry_run(run), String::new()));
        let wishes = Wishes::of(given, secrets).and_then(|wishes| serde_json::to_string(&wishes).ok());
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

    /// What a run was opened with; nothing for most.
    pub(super) fn read_wishes(&self, run: &RunId) -> Result<Wishes, SessionError> {
        let Some(text) = read(&self.wishes(run))? else { return Ok(Wishes::default()) };
        serde_json::from_str(&text).map_err(|error| {
            let message = format!("what run {run} was opened with cannot be read: {error}");
            SessionError::Machine(message)
        })
    }

    /// The plan that a run was opened with, if it was.
    pub(super) fn read_plan(&self, run: &RunId) -> Result<Option<String>, SessionError> {
        read(&self.plan(run))
    }

    /// The script that a run was opened with, if it was.
    pub(super) fn read_script(&self, run: &RunId) -> Result<Option<Rehearsal>, SessionError> {
        let file = self.script(run);
        if folder::metadata(&file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let wrong =
            |message| SessionError::Machine(format!("the script of run {run} cannot be played: {message}"));
        let text =
            folder::read_to_string(&file, MAX_SCRIPT_BYTES).map_err(|error| wrong(error.to_string()))?;
        Rehearsal::parse(&text).map(Some).map_err(wrong)
    }
}

fn read(file: &Path) -> Result<Option<String>, SessionError> {
    match folder::read_to_string(file, MAX_KEPT_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => Ok(Some(text?)),
    }
}
