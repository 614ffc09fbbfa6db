//! Accepting a loss of the store, for a person: the store goes on with what is left of it, and git goes back to what the
//! journals still know.
//!
//! Both are one step: what git has is brought back first, and then the loss is final in the store. A process that is killed in
//! between finds the same damage again and does the same again. While a process drives a run nothing is changed.

use std::fmt;

use ftl_folder as folder;
use ftl_folder::rewind::Rewound;
use ftl_folder::state_folder::StateFolder;
use ftl_git::{self as git, GitError, Repo};
use ftl_process as process;
use ftl_store::StoreError;
use ftl_store::owner;
use ftl_store::sqlite::{Loss, RunEnd, SqliteStore};

/// Why a loss was not accepted. Nothing of the store has changed.
#[derive(Debug)]
pub enum LossError {
    /// The store could not do it.
    Store(StoreError),
    /// A process drives runs of this store.
    Driven {
        /// The process number of the driver.
        pid: i32,
    },
    /// Git could not be brought back.
    Git(GitError),
    /// What is left of agents could not be ended.
    Leftovers(String),
}

impl LossError {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            LossError::Store(error) => error.hint().to_owned(),
            LossError::Driven { .. } => {
                String::from("stop it first (Ctrl-C where it runs), then say this again")
            }
            LossError::Git(error) => {
                error.hint.clone().unwrap_or_else(|| String::from("put that right, then say this again"))
            }
            LossError::Leftovers(_) => String::from("`ftl doctor` names them; then say this again"),
        }
    }
}

impl fmt::Display for LossError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossError::Store(error) => error.fmt(out),
            LossError::Driven { pid } => write!(out, "process {pid} drives a run of this store"),
            LossError::Git(error) => {
                write!(out, "git could not be brought back to what the journals know: {error}")
            }
            LossError::Leftovers(message) => {
                write!(out, "what is left of agents could not be ended: {message}")
            }
        }
    }
}

impl std::error::Error for LossError {}

impl From<StoreError> for LossError {
    fn from(error: StoreError) -> LossError {
        LossError::Store(error)
    }
}

impl From<GitError> for LossError {
    fn from(error: GitError) -> LossError {
        LossError::Git(error)
    }
}

/// Accepts what is lost of the store of a place. `None` if nothing is.
pub fn accept(place: &StateFolder, by: &str, reason: &str) -> Result<Option<Loss>, LossError> {
    let mut bring_back = |ends: &[RunEnd]| bring_back(place, ends);
    let accepted = SqliteStore::accept_loss_with(&place.store(), by, reason, &mut bring_back)?;
    if let Some(loss) = accepted.as_ref().filter(|loss| !loss.git.is_empty()) {
        let repo = Repo::of_person(place, Vec::new())?;
        loss.git.iter().try_for_each(|one| repo.end_rewinding(&one.run))?;
    }
    Ok(accepted)
}

/// Brings the git of runs back to what their journals know.
fn bring_back(place: &StateFolder, ends: &[RunEnd]) -> Result<Vec<Rewound>, LossError> {
    if let Some(driver) = owner::living(&place.owners()).first() {
        return Err(LossError::Driven { pid: driver.who.pid });
    }
    ends.iter().try_for_each(|end| end_attempts(place, end))?;
    let repo = Repo::of_person(place, Vec::new())?;
    let mut rewound = Vec::new();
    for end in ends {
        rewound.extend(repo.rewind(&end.journal)?);
    }
    Ok(rewound)
}

/// Ends what is left of a run's attempts: no process may write into a worktree that is about to be closed, and no
/// driver will ask about an attempt whose number is given again.
fn end_attempts(place: &StateFolder, end: &RunEnd) -> Result<(), LossError> {
    let run = &end.journal.run;
    let failed = |error: &dyn fmt::Display| LossError::Leftovers(error.to_string());
    folder::make(&place.fences()).map_err(|error| failed(&error))?;
    process::fence::raise(&place.fences().join(run.as_str()), end.epoch).map_err(|error| failed(&error))?;
    process::end_leftovers(&place.attempts(), &format!("{run}.")).map_err(|error| failed(&error))?;
    Ok(git::await_turn(place, run)?)
}
