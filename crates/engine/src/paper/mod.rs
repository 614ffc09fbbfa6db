//! The paperwork of the FTL protocol: the campaign, its archive, the exploration, the phase, events.
//!
//! The store is the truth. What stands in `.ftl/` beside it is a copy for people and scripts that can
//! be made again at any time; a copy that somebody changed by hand is taken over if it makes sense and
//! refused with its path if it does not. Nothing here prints: what a person should hear is a notice.

pub mod archive;
pub mod begin;
pub mod briefs;
pub mod campaign;
pub mod events;
pub mod explored;
pub mod lag;
pub mod lessons;
pub mod logfile;
pub mod observer;
pub mod phase;
pub mod projection;
pub mod scope;
mod sheet;
#[cfg(test)]
mod tests;
pub mod views;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::config::Config;
use crate::embedder::Chosen;
use ftl_folder::place::Place;
use crate::plan_file::PlanErrors;
use ftl_store::{SqliteStore, StoreError};
use crate::workspace::Refusal;

/// The paperwork of one repository.
pub struct Paper {
    place: Place,
    store: Arc<SqliteStore>,
    config: Config,
    embedder: Arc<OnceLock<Chosen>>,
    notices: Arc<Mutex<Vec<String>>>,
    lag: lag::Lag,
    view: scope::View,
}

impl Paper {
    /// The paperwork that a store keeps.
    pub fn new(place: Place, store: Arc<SqliteStore>) -> Paper {
        Paper::with(place, store, Config::default())
    }

    /// The same with settings: they say which embedder makes the vectors of lessons.
    pub fn with(place: Place, store: Arc<SqliteStore>, config: Config) -> Paper {
        let (embedder, notices, lag) = (Arc::default(), Arc::default(), lag::Lag::default());
        Paper { place, store, config, embedder, notices, lag, view: scope::View::default() }
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it lies.
    pub fn place(&self) -> &Place {
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
pub enum PaperError {
    /// It makes no sense as things stand.
    Refused {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A file does not hold what it should.
    Malformed {
        /// The file.
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
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The store did not do it.
    Store(StoreError),
}

impl PaperError {
    /// A refusal.
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> PaperError {
        PaperError::Refused { message: message.into(), hint: hint.into() }
    }

    /// A file that could not be read or written.
    pub fn disk(path: impl Into<PathBuf>, error: &std::io::Error) -> PaperError {
        PaperError::Disk { path: path.into(), message: error.to_string() }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            PaperError::Refused { hint, .. } | PaperError::Malformed { hint, .. } => Some(hint.clone()),
            PaperError::Plan(errors) => {
                let hints: Vec<&str> = errors.iter().map(|error| error.hint.as_str()).collect();
                hints.first().map(|first| (*first).to_owned())
            }
            PaperError::Disk { .. } => None,
            PaperError::Store(error) => Some(error.hint().to_owned()),
        }
    }
}

impl fmt::Display for PaperError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaperError::Refused { message, .. } => out.write_str(message),
            PaperError::Malformed { path, message, .. } | PaperError::Disk { path, message } => {
                write!(out, "{}: {message}", path.display())
            }
            PaperError::Plan(errors) => errors.fmt(out),
            PaperError::Store(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for PaperError {}

impl From<StoreError> for PaperError {
    fn from(error: StoreError) -> PaperError {
        PaperError::Store(error)
    }
}

impl From<Refusal> for PaperError {
    fn from(refusal: Refusal) -> PaperError {
        PaperError::Refused { message: refusal.message, hint: refusal.hint }
    }
}

impl From<PlanErrors> for PaperError {
    fn from(errors: PlanErrors) -> PaperError {
        PaperError::Plan(errors)
    }
}
