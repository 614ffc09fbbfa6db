//! The records of the FTL protocol: plans, workspaces, the campaign and its archive, exploration, lessons, observer.
//!
//! The store is the truth. What is in `.ftl/` beside it is a copy for people and scripts that can
//! be made again at any time; a copy that was changed by hand is taken over if it makes sense and
//! refused with its path if it does not. Nothing here prints: what a person should hear is a notice.
//! The crate sees the store, the lessons and what source text says; never an agent, a worktree, a run's driver or settings.

pub mod archive;
pub mod begin;
pub mod briefs;
pub mod build_budget;
pub mod campaign;
pub mod campaign_state;
mod chunked_note;
pub mod current;
pub mod decision;
pub mod deferred_copy;
pub mod embedder;
pub mod events;
pub mod exploration;
pub mod explore;
pub mod explored;
pub mod extract;
pub mod followed;
pub mod lessons;
pub mod logfile;
pub mod observe;
pub mod observer;
pub mod phase;
pub mod plan_file;
pub mod projected;
pub mod projection;
mod raw;
pub mod scope;
#[cfg(test)]
mod tests;
pub mod views;
pub mod workspace;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::embedder::{ChosenEmbedder, EmbedderChoice};
use crate::plan_file::PlanErrors;
use crate::workspace::WorkspaceRefusal;
use ftl_code::commands::Commands;
use ftl_core::machine::MachineCause;
use ftl_core::run::{Failure, FailureKind};
use ftl_folder::state_folder::StateFolder;
use ftl_store::{SqliteStore, StoreError, machine};

/// What the settings say about records.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// Which embedder makes the vectors of lessons.
    pub embedder: EmbedderChoice,
    /// Of a hundred injections of a lesson so many are withheld.
    pub withhold: u64,
    /// The commands of the project that the settings name.
    pub commands: Commands,
}

/// The records of one repository.
pub struct Records {
    place: StateFolder,
    store: Arc<SqliteStore>,
    options: RecordOptions,
    embedder: Arc<OnceLock<ChosenEmbedder>>,
    notices: Arc<Mutex<Vec<String>>>,
    lag: deferred_copy::Lag,
    view: scope::View,
    /// The workspaces that were blocked when this process first looked, and whose they are.
    blocked: Mutex<Option<(scope::RecordScope, BTreeSet<String>)>>,
}

impl Records {
    /// The records that a store keeps.
    pub fn new(place: StateFolder, store: Arc<SqliteStore>) -> Records {
        Records::with(place, store, RecordOptions::default())
    }

    /// The same with settings: they say which embedder makes the vectors of lessons.
    pub fn with(place: StateFolder, store: Arc<SqliteStore>, options: RecordOptions) -> Records {
        let (embedder, notices, lag) = (Arc::default(), Arc::default(), deferred_copy::Lag::default());
        let (view, blocked) = (scope::View::default(), Mutex::default());
        Records { place, store, options, embedder, notices, lag, view, blocked }
    }

    /// What the settings say about it.
    pub fn options(&self) -> &RecordOptions {
        &self.options
    }

    /// The repository and its folder `.ftl`.
    pub fn place(&self) -> &StateFolder {
        &self.place
    }

    /// The store that keeps it.
    pub fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    /// What a person should hear of what was done, once.
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn notice(&self, what: impl Into<String>) {
        let (what, mut notices) = (what.into(), self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        if !notices.contains(&what) {
            notices.push(what);
        }
    }
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordError {
    /// It makes no sense as things stand.
    Refused {
        /// The sentence for people.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A file does not hold what it should.
    Malformed {
        /// The file that does not hold what it should.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A plan is wrong; everything that is.
    Plan(PlanErrors),
    /// A file could not be read or written.
    Disk {
        /// The file that could not be read or written.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// The store did not do it.
    Store(StoreError),
}

impl From<RecordError> for Failure {
    /// What the records did not do, as a failure of an action.
    fn from(error: RecordError) -> Failure {
        let (kind, cause) = match &error {
            RecordError::Refused { .. } | RecordError::Plan(_) | RecordError::Malformed { .. } => {
                (FailureKind::Failed, None)
            }
            RecordError::Disk { message, .. } => (FailureKind::CouldNotRun, MachineCause::of_words(message)),
            RecordError::Store(error) => (FailureKind::CouldNotRun, machine::cause_of_store(error)),
        };
        machine::judged(cause, kind, error.to_string())
    }
}

impl RecordError {
    /// A refusal with a hint; nothing has changed.
    pub fn refuse(message: impl Into<String>, hint: impl Into<String>) -> RecordError {
        RecordError::Refused { message: message.into(), hint: hint.into() }
    }

    /// A file that could not be read or written.
    pub fn disk(path: impl Into<PathBuf>, error: &std::io::Error) -> RecordError {
        RecordError::Disk { path: path.into(), message: error.to_string() }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            RecordError::Refused { hint, .. } | RecordError::Malformed { hint, .. } => Some(hint.clone()),
            RecordError::Plan(errors) => {
                let hints: Vec<&str> = errors.iter().map(|error| error.hint.as_str()).collect();
                hints.first().map(|first| (*first).to_owned())
            }
            RecordError::Disk { .. } => None,
            RecordError::Store(error) => Some(error.hint().to_owned()),
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Refused { message, .. } => out.write_str(message),
            RecordError::Malformed { path, message, .. } | RecordError::Disk { path, message } => {
                write!(out, "{}: {message}", path.display())
            }
            RecordError::Plan(errors) => errors.fmt(out),
            RecordError::Store(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for RecordError {}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> RecordError {
        RecordError::Store(error)
    }
}

impl From<WorkspaceRefusal> for RecordError {
    fn from(refusal: WorkspaceRefusal) -> RecordError {
        RecordError::Refused { message: refusal.message, hint: refusal.hint }
    }
}

impl From<PlanErrors> for RecordError {
    fn from(errors: PlanErrors) -> RecordError {
        RecordError::Plan(errors)
    }
}
