//! Tasks and their runs: which run a task has, where it stands, and the projection of that in `state.json`.
//!
//! The journal is the truth of a task that it knows. A folder that it does not know is adopted as it stands;
//! one whose phase was changed in the file is refused until a person adopts it anew. A `state.json` that only
//! lags behind, because a process was killed between the two, is brought up to date.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use ftl_core::json::{Json, JsonExt as _};
use ftl_core::machine::MachineCause;
use ftl_core::run::{Adoption, ROOT, Run};
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::{Fields, Name, Value};
use ftl_store::machine;
use serde::{Deserialize, Serialize};

use super::artifact::Malformed;
pub use super::binding::Bindings;
use super::folder::{DECISION, FILES, PLAN_TRANSCRIPT, RECORD, STATE, TaskFolder, TaskId};
pub use super::phases::PROTOCOL;
use super::phases::{Phase, Phases, StepWork};
use super::plan::PlanArtifact;
use super::state::StateFile;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_store::notebook::Notebook;
use ftl_store::{ContentDigest, StoreError};

/// Which run a task has, and what of it stands in `state.json`.
const TASKS: &str = "lifecycle.task";

/// Which task a run is of.
const RUNS: &str = "lifecycle.run";

/// What the evidence of a task is bound to.
const BOUND: &str = "lifecycle.bound";

/// The task that is meant where none is named.
const CURRENT: &str = "lifecycle.current";

/// What is known of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// The run that the task has.
    pub run: RunId,
    /// The digest of `state.json` as it was last seen or written; none where there was no file.
    pub state: Option<String>,
}

/// Why something could not be done with a task.
#[derive(Clone, Debug, PartialEq)]
pub enum RegistryError {
    /// An artifact or the state is malformed.
    Malformed(Malformed),
    /// The disk did not do it.
    Disk(String),
    /// The store did not do it.
    Store(StoreError),
}

impl From<Malformed> for RegistryError {
    fn from(malformed: Malformed) -> RegistryError {
        RegistryError::Malformed(malformed)
    }
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> RegistryError {
        RegistryError::Store(error)
    }
}

impl From<io::Error> for RegistryError {
    fn from(error: io::Error) -> RegistryError {
        RegistryError::Disk(error.to_string())
    }
}

impl std::fmt::Display for RegistryError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegistryError::Malformed(malformed) => malformed.fmt(out),
            RegistryError::Disk(message) => out.write_str(message),
            RegistryError::Store(error) => error.fmt(out),
        }
    }
}

/// What is known of a task.
pub fn load_task(notes: &dyn Notebook, id: &TaskId) -> Result<Option<TaskInfo>, StoreError> {
    let Some(text) = notes.note(TASKS, id.as_str())? else { return Ok(None) };
    let unreadable =
        |error: serde_json::Error| StoreError::Corrupt(format!("the note of task {id}: {error}"));
    serde_json::from_str(&text).map(Some).map_err(unreadable)
}

/// Writes down which run a task has, before that run is opened.
pub fn know(notes: &dyn Notebook, id: &TaskId, known: &TaskInfo) -> Result<(), StoreError> {
    let text = serde_json::to_string(known).map_err(|error| StoreError::Failed(error.to_string()))?;
    notes.amend(&mut |page| {
        page.put(TASKS, id.as_str(), &text)?;
        page.put(RUNS, known.run.as_str(), id.as_str())?;
        Ok(true)
    })
}

/// The task that a run is of.
pub fn task_of(notes: &dyn Notebook, run: &RunId) -> Result<Option<TaskId>, StoreError> {
    let text = notes.note(RUNS, run.as_str())?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// The task that is meant where none is named.
pub fn current(notes: &dyn Notebook) -> Result<Option<TaskId>, StoreError> {
    Ok(notes.note(CURRENT, "task")?.and_then(|text| text.parse().ok()))
}

/// Remembers the task that is meant from now on.
pub fn set_current(notes: &dyn Notebook, id: &TaskId) -> Result<(), StoreError> {
    notes.amend(&mut |page| {
        if page.get(CURRENT, "task")?.as_deref() == Some(id.as_str()) {
            return Ok(false);
        }
        page.put(CURRENT, "task", id.as_str())?;
        Ok(true)
    })
}

/// What the evidence of a task is bound to.
pub fn bindings(notes: &dyn Notebook, id: &TaskId) -> Result<Bindings, StoreError> {
    Ok(notes.note(BOUND, id.as_str())?.map(|text| Bindings::parse(&text)).unwrap_or_default())
}

/// Binds everything that was not seen before, and keeps that.
pub fn see_all(notes: &dyn Notebook, folder: &TaskFolder) -> Result<Bindings, StoreError> {
    let bindings = bindings(notes, folder.id())?;
    let before = bindings.text();
    bindings.see_all(folder);
    keep(notes, folder.id(), &bindings, &before)?;
    Ok(bindings)
}

fn keep(notes: &dyn Notebook, id: &TaskId, bindings: &Bindings, before: &str) -> Result<(), StoreError> {
    let after = bindings.text();
    if after == before {
        return Ok(());
    }
    notes.amend(&mut |page| {
        page.put(BOUND, id.as_str(), &after)?;
        Ok(true)
    })
}

/// Where a task stands, by its file and by its journal.
#[derive(Clone, Debug)]
pub enum TaskStanding {
    /// The journal does not know it.
    Unknown {
        /// Where its file says that it is; planning where there is no file.
        phase: Phase,
    },
    /// Both say the same, or the file only lags behind.
    Agrees {
        /// The run that the task has.
        run: RunId,
        /// The phase, by the journal.
        phase: Phase,
        /// Where the file says that it is, if that is not where it is.
        lags: Option<Phase>,
    },
    /// A person or another program changed the file.
    Disagrees {
        /// The run that the task has.
        run: RunId,
        /// The phase by the file.
        file: Phase,
        /// The phase by the journal.
        journal: Phase,
    },
}

/// Where the run of a task stands.
pub fn phase_of(run: &Run, phases: &Phases) -> Option<Phase> {
    run.instance(ROOT).and_then(|root| phases.find(&root.state))
}

/// Compares what a task's file says with what its journal says. `look` tells where the run of a name stands, if it was
/// ever opened.
pub fn standing<E: From<RegistryError>>(
    notes: &dyn Notebook,
    folder: &TaskFolder,
    phases: &Phases,
    look: &mut dyn FnMut(&RunId) -> Result<Option<Phase>, E>,
) -> Result<TaskStanding, E> {
    let file = StateFile::read(folder, phases).map_err(RegistryError::from)?;
    let said = file.as_ref().map_or_else(|| phases.first(), |(state, _)| state.phase.clone());
    let Some(known) = load_task(notes, folder.id()).map_err(RegistryError::from)? else {
        return Ok(TaskStanding::Unknown { phase: said });
    };
    let Some(journal) = look(&known.run)? else {
        // It was named, and the process that was to open it died first.
        return Ok(TaskStanding::Unknown { phase: said });
    };
    let run = known.run;
    let Some((_, digest)) = file else {
        return Ok(TaskStanding::Agrees { run, phase: journal.clone(), lags: Some(journal) });
    };
    if said == journal {
        return Ok(TaskStanding::Agrees { run, phase: journal, lags: None });
    }
    if known.state.as_deref() == Some(digest.to_string().as_str()) {
        return Ok(TaskStanding::Agrees { run, phase: journal, lags: Some(said) });
    }
    Ok(TaskStanding::Disagrees { run, file: said, journal })
}

/// Brings `state.json` to where the journal is, and remembers what it is now.
pub fn project(
    notes: &dyn Notebook,
    folder: &TaskFolder,
    run: &RunId,
    (from, to): (&Phase, &Phase),
    phases: &Phases,
) -> Result<(), RegistryError> {
    let mut state = match StateFile::read(folder, phases)? {
        Some((state, _)) => state,
        None => StateFile::new(folder.id().as_str(), phases),
    };
    state.go(from, to, phases);
    let bytes = state.bytes();
    folder.put(STATE, &bytes)?;
    know(
        notes,
        folder.id(),
        &TaskInfo { run: run.clone(), state: Some(ContentDigest::of(&bytes).to_string()) },
    )?;
    // What a person decided is carried out by this very move, and does not count a second time.
    if phases.is_decided(from) && !phases.is_last(to) {
        let bindings = bindings(notes, folder.id())?;
        let before = bindings.text();
        bindings.spend(folder, DECISION);
        keep(notes, folder.id(), &bindings, &before)?;
    }
    Ok(())
}

/// Remembers what `state.json` is, where it says what the journal says. A process that was killed after it had
/// written the file has not; were that forgotten, a second kill would look like a change by hand.
pub fn remember(
    notes: &dyn Notebook,
    folder: &TaskFolder,
    run: &RunId,
    phases: &Phases,
) -> Result<(), RegistryError> {
    let state = StateFile::read(folder, phases)?.map(|(_, digest)| digest.to_string());
    if load_task(notes, folder.id())?.is_some_and(|known| known.run == *run && known.state == state) {
        return Ok(());
    }
    Ok(know(notes, folder.id(), &TaskInfo { run: run.clone(), state })?)
}

/// What an adopted task is told to be, and where it has been: in every phase of the document up to this one, but in one
/// that undoes only where something was undone.
pub fn adoption(folder: &TaskFolder, phase: &Phase, by: &str, phases: &Phases) -> Adoption {
    let undoes = |one: &Phase| phases.makes(one).contains(&StepWork::Revert);
    let reverted = folder.has(RECORD) || undoes(phase);
    let mut visited = Vec::new();
    for one in phases.all() {
        let is_here = one == *phase;
        if is_here || reverted || !undoes(&one) {
            visited.push(one.name());
        }
        if is_here {
            break;
        }
    }
    let mut params = Fields::new();
    if phases.takes(phase, "outcome") {
        let outcome = if folder.has(RECORD) { "reverted" } else { "accepted" };
        params.insert(Name::from("outcome"), Value::text(outcome));
    }
    if phases.takes(phase, "reason") {
        let reason = Value::text("it was to be reverted when it was adopted");
        params.insert(Name::from("reason"), reason);
    }
    Adoption { state: phase.name(), visited, params, by: by.to_owned() }
}

/// What a task is about, as far as its folder tells.
pub fn brief(folder: &TaskFolder) -> String {
    let transcript = folder.bytes(PLAN_TRANSCRIPT).ok().flatten().unwrap_or_default();
    let text = String::from_utf8(transcript).unwrap_or_default();
    let lines = text.lines().filter_map(|line| Json::parse(line).ok());
    let mut briefs = lines.filter(|line| line.get("kind").and_then(Json::as_str) == Some("brief"));
    let said = briefs.next_back().and_then(|line| line.get("text")?.as_str().map(str::to_owned));
    let planned = || PlanArtifact::read(folder).ok().flatten().map(|plan| plan.brief);
    let told = said.or_else(planned).filter(|text| !text.trim().is_empty());
    told.unwrap_or_else(|| format!("the task {}", folder.id()))
}

/// The digests of the artifacts that are there.
pub fn digests(folder: &TaskFolder) -> BTreeMap<&'static str, String> {
    let names = StepWork::ALL.into_iter().flat_map(StepWork::artifacts).filter(|name| **name != FILES);
    let digest = |name: &&'static str| Some((*name, folder.digest(name).ok()??.to_string()));
    names.filter_map(digest).collect()
}

/// The right to work on a task, until it is dropped.
#[derive(Debug)]
pub struct Turn(#[allow(dead_code, reason = "the lock is the file")] File);

/// Takes a task for this process; nothing when another process has it.
pub fn turn(place: &StateFolder, id: &TaskId) -> io::Result<Option<Turn>> {
    let folder = place.store().join("tasks");
    ftl_folder::make(&folder)?;
    let file = ftl_folder::open_as(&folder.join(id.as_str()), ftl_folder::OpenMode::Update, 0o644)?;
    Ok(ftl_folder::lock::try_lock(&file)?.then(|| Turn(file)))
}

impl From<RegistryError> for Failure {
    /// What the disk or the store did not do, as a failure of an action.
    fn from(error: RegistryError) -> Failure {
        let (kind, cause) = match &error {
            RegistryError::Malformed(_) => (FailureKind::Failed, None),
            RegistryError::Disk(why) => (FailureKind::CouldNotRun, MachineCause::of_words(why)),
            RegistryError::Store(error) => (FailureKind::CouldNotRun, machine::cause_of_store(error)),
        };
        machine::judged(cause, kind, error.to_string())
    }
}
