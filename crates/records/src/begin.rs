//! The beginning of a task: its workspace, its status and what is noted of it, in one transaction where that can be.
//!
//! Each transaction waits for the disk, and a campaign begins every one of its tasks. What is refused leaves no trace of
//! any of them. Copies are written afterwards, as always.

use std::path::PathBuf;

use ftl_core::plan::TaskStatus;

use super::briefs::{Budgets, Recall};
use super::campaign::settle_known;
use super::{RecordError, Records};
use crate::plan_file::{CampaignPlan, PlanTask};
use ftl_code::context::Sources;
use ftl_store::Notes;

/// A note of the caller's that is kept with the beginning of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The kind of the note.
    pub kind: &'static str,
    /// The key of the note.
    pub key: String,
    /// The text of the note.
    pub body: String,
}

/// How a task begins.
#[derive(Clone, Debug)]
pub struct Beginning<'a> {
    /// The local time now, in ISO 8601 with microseconds.
    pub now: &'a str,
    /// The note that is kept with it.
    pub noted: Option<Noted>,
    /// Whether it is one of a campaign, which is told.
    pub is_in_campaign: bool,
}

impl Records {
    /// Makes the workspace of a task, gives the task its status and keeps what is noted of it; where the workspace is.
    pub fn begin_task(
        &self,
        (plan, task): (&CampaignPlan, &PlanTask),
        means: (Recall<'_>, Sources<'_>, Budgets<'_>),
        beginning: &Beginning<'_>,
    ) -> Result<Option<PathBuf>, RecordError> {
        let (now, seq) = (beginning.now, task.seq.as_str());
        // Where its copy must not lag, a campaign is changed in another way.
        let is_joined = beginning.is_in_campaign && self.lag.is_allowed();
        let campaign = is_joined.then(|| self.campaign_note()).transpose()?;
        if let Some(campaign) = &campaign {
            self.take_over(campaign)?;
        }
        let mut along = |notes: &mut dyn Notes| {
            if let Some(campaign) = &campaign {
                settle_known(notes, campaign, seq, (TaskStatus::InProgress, now))?;
            }
            if let Some(Noted { kind, key, body }) = &beginning.noted {
                notes.put(kind, key, body)?;
            }
            Ok(())
        };
        let made = self.create_workspaces_along(plan, Some(seq), means, (now, &mut along))?;
        match &campaign {
            Some(campaign) => self.project_later(campaign)?,
            None if beginning.is_in_campaign => self.update_task(seq, "in_progress", now)?,
            None => {}
        }
        Ok(made.into_iter().next())
    }
}
