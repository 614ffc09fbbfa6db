//! Sessions that go on: which earlier session of an agent an author is asked in again.
//!
//! Only an author goes on, in its own session: the same role of the same instance, the same agent, model and
//! folder; and only when the same action is asked again, after a crash, or when it is told what is wrong with
//! its work. A reviewer is always fresh, and no two roles ever share a session. Nothing relies on this:
//! a prompt says everything, and an agent that knows nothing of the past does the same work.

use std::path::Path;

use serde::{Deserialize, Serialize};

use ftl_core::catalogue::{Role, RoleRule};

use super::Job;
use super::agents::RoleAnswerer;
use ftl_records::Records;
use ftl_store::StoreError;
use ftl_store::notebook::Notebook as _;

/// The kind of the notes.
const KIND: &str = "session";

/// A session, as it is noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    agent: String,
    model: Option<String>,
    folder: String,
    /// The action for which it was asked last.
    action: String,
    session: String,
}

/// The session of one author.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    key: String,
    noted: Noted,
    is_about_work: bool,
}

impl Thread {
    /// The session of whom a job is for; none where the settings or the role want a fresh one each time.
    pub(super) fn of(
        job: &Job,
        role: &Role,
        seat: &RoleAnswerer,
        folder: &Path,
        is_about_work: bool,
    ) -> Option<Thread> {
        if !seat.resume || !role.has(RoleRule::Resumes) {
            return None;
        }
        let noted = Noted {
            agent: seat.backend.name().to_owned(),
            model: seat.model.clone(),
            folder: folder.display().to_string(),
            action: job.key(),
            session: String::new(),
        };
        let key = format!("{}/{}/{}", job.run, job.action.instance.0, role.name);
        Some(Thread { key, noted, is_about_work })
    }

    /// The session to go on in. What cannot be read is no session.
    pub(super) fn earlier(&self, records: &Records) -> Option<String> {
        let note = records.store().note(KIND, &self.key).ok().flatten()?;
        let noted: Noted = serde_json::from_str(&note).ok()?;
        let is_asked_again = noted.action == self.noted.action;
        let same = Noted { action: self.noted.action.clone(), session: String::new(), ..noted.clone() };
        (same == self.noted && (is_asked_again || self.is_about_work)).then_some(noted.session)
    }

    /// Notes the session that was opened, before anything is said in it.
    pub(super) fn note_session(&self, records: &Records, session: &str) -> Result<(), StoreError> {
        let noted = Noted { session: session.to_owned(), ..self.noted.clone() };
        let body = serde_json::to_string(&noted).unwrap_or_default();
        records.store().amend(&mut |notes| notes.put(KIND, &self.key, &body).map(|()| true))
    }

    /// It came to no good end: the next one begins anew.
    pub(super) fn forget(&self, records: &Records) -> Result<(), StoreError> {
        records.store().amend(&mut |notes| notes.remove(KIND, &self.key).map(|()| true))
    }
}
