//! A task for commands that only look: its folder, its run as the journal has made it, and the edges of its phase.
//!
//! Nothing is written and nothing is adopted. A task that the journal does not know, or whose file says something else,
//! is looked at as if it had been adopted where its file says that it is.

use std::sync::Arc;

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, session};
use ftl_core::run::Run;
use ftl_language::library::Library;
use ftl_lifecycle::binding::Bindings;
use ftl_lifecycle::edges::{Outlook, imagine, outlook};
use ftl_lifecycle::gate_answers::Looks;
use ftl_lifecycle::registry::{self, TaskStanding};
use ftl_lifecycle::state::StateFile;
use ftl_lifecycle::{Malformed, Phase, Phases, TaskFolder};
use ftl_store::journal;
use ftl_store::{SqliteStore, Store as _};

use super::task_session::{self, TaskSessionError};
use crate::tasks::TaskArg;

/// A task for a command that only reads.
pub(super) struct View {
    pub(super) folder: TaskFolder,
    pub(super) phases: Phases,
    library: Arc<Library>,
    store: Option<SqliteStore>,
}

/// How a task stands, by its file and its journal.
pub(super) struct Seen {
    /// By its file, or by the journal where the file only lags behind.
    pub(super) phase: Phase,
    /// Its run, where the journal knows it.
    pub(super) run: Option<String>,
    /// What the journal says, where the file was changed by hand.
    pub(super) journal: Option<Phase>,
    machine: Run,
}

impl View {
    /// The task that is meant.
    pub(super) fn new(cli: &GlobalArgs, asked: &TaskArg) -> Result<View, CommandError> {
        let (id, store) = super::resolve_task(cli, asked)?;
        let folder = TaskFolder::of(&session::place(cli)?, &id);
        let library = Arc::new(LoadedProtocols::load(cli)?.library);
        let phases = task_session::phases(&library)?;
        Ok(View { folder, phases, library, store })
    }

    /// Reads how the task stands, by its file and by its journal.
    pub(super) fn stands(&self) -> Result<Seen, CommandError> {
        let mut replayed = None;
        let standing = match &self.store {
            None => {
                let state = StateFile::read(&self.folder, &self.phases);
                let state = state.map_err(|error| task_session::malformed_failure(&error))?;
                TaskStanding::Unknown {
                    phase: state.map_or_else(|| self.phases.first(), |(state, _)| state.phase),
                }
            }
            Some(store) => {
                let mut look = |run: &ftl_folder::id::RunId| {
                    replayed = self.replay(store, run).map_err(TaskSessionError)?;
                    Ok(replayed.as_ref().and_then(|run| registry::phase_of(run, &self.phases)))
                };
                let standing = registry::standing(store, &self.folder, &self.phases, &mut look);
                standing.map_err(|trouble: TaskSessionError| trouble.0)?
            }
        };
        let (phase, run, journal) = match standing {
            TaskStanding::Unknown { phase } => (phase, None, None),
            TaskStanding::Agrees { run, phase, .. } => (phase, Some(run), None),
            TaskStanding::Disagrees { run, file, journal } => (file, Some(run), Some(journal)),
        };
        let known = replayed.filter(|_| run.is_some() && journal.is_none());
        let machine = known.unwrap_or_else(|| {
            let adoption = registry::adoption(&self.folder, &phase, "nobody", &self.phases);
            imagine(&self.library, &registry::brief(&self.folder), adoption)
        });
        Ok(Seen { phase, run: run.map(|run| run.to_string()), journal, machine })
    }

    fn replay(&self, store: &SqliteStore, run: &ftl_folder::id::RunId) -> Result<Option<Run>, CommandError> {
        let row = store.run(run).map_err(|error| session::store_failure(&error))?;
        if row.is_none_or(|row| row.head == 0) {
            return Ok(None);
        }
        let entries = journal::load(store, run).map_err(|error| CommandError {
            exit: ExitStatus::Malformed,
            ..CommandError::new(error.to_string(), error.hint())
        })?;
        Ok(Some(Run::replay(self.library.clone(), &entries)))
    }

    /// Every edge of its phase.
    pub(super) fn outlook(&self, seen: &Seen) -> Result<Outlook, Malformed> {
        let bindings = self.bindings();
        let looks = Looks::new(&self.folder, &bindings, self.phases.routes());
        outlook(&seen.machine, &self.phases, &looks)
    }

    /// What its evidence is bound to; what cannot be read binds nothing.
    fn bindings(&self) -> Bindings {
        let kept = self.store.as_ref().map(|store| registry::bindings(store, self.folder.id()));
        kept.and_then(Result::ok).unwrap_or_default()
    }
}
