//! Runs as this machine knows them: the row of the store, its summary, and who drives it now.

use crate::CommandError;
use crate::session::session_failure;
use ftl_core::run::{Instance, InstanceId, Run as Machine, Time};
use ftl_engine::session::{Driven, driven};
use ftl_folder::state_folder::StateFolder;
use ftl_store::RunRow;
use ftl_store::owner::Card;
use ftl_view::paint::{self, paint, safe};
use ftl_view::relative_time;
use ftl_view::runs::{self, command};
use ftl_view::summary::{RunStanding, RunWait, Summary, WaitSubject};

/// A run as it looks from outside.
pub struct RunOverview {
    /// Its row in the store.
    pub row: RunRow,
    /// What it looks like from outside.
    pub summary: Summary,
    /// The process that drives it now, as far as it is known.
    pub driven: Driven,
    /// The instance that it is about; 0 is the whole run.
    pub instance: u32,
}

impl RunOverview {
    /// What is known of a run without reading its journal.
    pub fn of(place: &StateFolder, row: RunRow) -> Result<RunOverview, CommandError> {
        let summary = summary(&row);
        let driven = if row.settled {
            Driven::ByNobody
        } else {
            driven(place, &row).map_err(|error| session_failure(&error))?
        };
        Ok(RunOverview { row, summary, driven, instance: 0 })
    }

    /// The same of one instance and what it opened. The journal is read for it: a summary is of the whole run.
    pub fn of_instance(self, run: &Machine, id: InstanceId) -> RunOverview {
        let words = |wait: &RunWait| {
            let action = wait
                .action
                .clone()
                .filter(|_| matches!(wait.what, WaitSubject::Question | WaitSubject::Word))?;
            Some(((wait.instance, action), wait.text.clone()))
        };
        let questions = self.summary.waits.iter().filter_map(words).collect();
        let settled = run.instance(id).is_some_and(Instance::is_settled);
        let summary = Summary::of_instance(run, &questions, id);
        RunOverview { summary, row: RunRow { settled, ..self.row }, instance: id.0, ..self }
    }

    /// How it stands: a run that should move and that no process drives is interrupted.
    pub fn standing(&self) -> RunStanding {
        if self.summary.standing.moves() && !self.row.settled && self.driven == Driven::ByNobody {
            RunStanding::Interrupted
        } else {
            self.summary.standing
        }
    }

    /// The protocol and the state.
    pub fn at(&self) -> String {
        format!("{} {}", safe(&self.summary.protocol), safe(&self.summary.state))
    }

    /// Who drives it, or what to type when no process does and one should.
    pub fn driver(&self) -> Option<String> {
        match &self.driven {
            Driven::By(Some(card)) => {
                let text = format!("driven by process {} ({})", card.pid, safe(&card.command));
                Some(paint(paint::QUIET, text))
            }
            Driven::By(None) => Some(paint(paint::QUIET, format!("driven by {}", driver(None)))),
            Driven::ByNobody if self.standing() == RunStanding::Interrupted => {
                let command = command(&format!("ftl resume {}", self.row.run));
                Some(format!("nobody drives it; {command} goes on"))
            }
            Driven::ByNobody => None,
        }
    }

    /// What it waits for, a line each: at most so many, and those at work in one.
    pub fn waits(&self, most: usize, now: Time, width: Option<usize>) -> Vec<String> {
        let is_interrupted = self.standing() == RunStanding::Interrupted;
        runs::waits(&self.row.run, (&self.summary.waits, is_interrupted), most, now, width)
    }
}

/// Who drives a run, for a person who wants to find it.
pub fn driver(card: Option<&Card>) -> String {
    let Some(card) = card else { return String::from("another process") };
    let since =
        if card.since > 0 { format!(" since {}", relative_time::clock(card.since)) } else { String::new() };
    format!("process {} on {}{since} ({})", card.pid, safe(&card.host), safe(&card.command))
}

/// The summary that stands beside a journal. One that cannot be read says nothing.
pub fn summary(row: &RunRow) -> Summary {
    serde_json::from_str(&row.summary).unwrap_or_default()
}
