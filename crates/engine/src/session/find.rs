//! Runs as people name them, and who drives each.
//!
//! Looking needs the store alone: nothing here claims a run or changes one.

use ftl_core::run::InstanceId;

use super::SessionError;
use crate::driver::WHOLE_RUN;
use ftl_folder::state_folder::StateFolder;
use ftl_store::owner::{self, Card, Life};
use ftl_store::{RunRow, Store};

/// How many names a message lists when a prefix fits several runs.
const MAX_LISTED: usize = 5;

/// Something that a person named: a run, or one instance of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTarget {
    /// The run's row in the store.
    pub row: RunRow,
    /// The instance; the root when none was named.
    pub instance: InstanceId,
}

/// Finds what a person named: `run`, `run/instance`, or the beginning of a run's name that fits only
/// one.
pub fn find(store: &dyn Store, named: &str) -> Result<RunTarget, SessionError> {
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
        1 => Ok(RunTarget { row: rows.remove(0), instance }),
        0 => Err(unknown(format!("there is no run `{prefix}`"), "`ftl status` lists the runs")),
        several => {
            let names: Vec<&str> = rows.iter().take(MAX_LISTED).map(|row| row.run.as_str()).collect();
            let more = if several > MAX_LISTED { ", …" } else { "" };
            let message = format!("`{prefix}` fits {several} runs: {}{more}", names.join(", "));
            Err(unknown(message, "type more letters of it"))
        }
    }
}

/// The driver of a run, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driven {
    /// No living process drives it.
    ByNobody,
    /// A process that lives.
    By(Option<Card>),
}

/// Looks which process drives a run now.
pub fn driven(place: &StateFolder, row: &RunRow) -> Result<Driven, SessionError> {
    let Some(name) = &row.owner else { return Ok(Driven::ByNobody) };
    Ok(match owner::life(&place.owners(), name)? {
        Life::Dead => Driven::ByNobody,
        Life::Alive { card, .. } => Driven::By(card),
    })
}
