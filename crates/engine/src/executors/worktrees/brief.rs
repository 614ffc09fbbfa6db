//! What an instance was told to build. The brief is noted as it was when it was parsed: a file that an agent
//! or a person changes later changes nothing for the gates.

use std::sync::Arc;

use ftl_core::catalogue::spec::Spec;
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;
use serde::{Deserialize, Serialize};

use super::Sites;
use crate::executors::{Executor, Job, JobEnd, Report};
use ftl_gates::Brief;
use ftl_gates::verify::old_failures::Promise;
use ftl_store::StoreError;
use ftl_store::notebook::Notebook;

/// The kind of the notes.
const KIND: &str = "site";

/// The kind of the notes that say which instance of a run works on a brief.
const BUILDERS: &str = "site-builder";

/// The kind of the notes that hold a brief as the first builder of a run parsed it, for all that follow.
const PINNED: &str = "site-pinned";

/// A brief, as it was parsed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    /// The path of the workspace.
    pub(super) workspace: String,
    /// The brief as `workspace.parse` read it.
    pub(super) spec: Spec,
    /// The instance of the same run that worked on it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) predecessor: Option<u32>,
}

impl Noted {
    /// The brief as gates see it.
    pub(super) fn brief(&self) -> Brief {
        Brief::of(&self.spec)
    }

    /// What the brief promises to mend.
    pub(super) fn promise(&self) -> Promise {
        Promise::of(&self.spec)
    }

    /// What it is about, in a few words.
    pub(super) fn subject(&self) -> String {
        let id = self.spec.id.as_str();
        let slug = id.split_once('-').map_or(id, |(_, slug)| slug).replace('-', " ");
        let mut letters = slug.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

impl Sites {
    /// The brief of the instance that a job is for, if it has parsed one.
    pub(super) fn noted(&self, job: &Job) -> Result<Option<Noted>, Failure> {
        let Some(text) = self.note(KIND, &key(job))? else { return Ok(None) };
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| {
            let message = format!("what was noted of the brief cannot be read: {error}");
            Failure::new(FailureKind::CouldNotRun, message)
        })
    }
}

/// The task of an instance, if it has parsed a brief. A note that cannot be read names none.
pub(super) fn task_of(notes: &dyn Notebook, run: &str, instance: u32) -> Result<Option<String>, StoreError> {
    let note = notes.note(KIND, &format!("{run}/{instance}"))?;
    let noted: Option<Noted> = note.and_then(|text| serde_json::from_str(&text).ok());
    Ok(noted.map(|noted| noted.spec.id))
}

pub(super) fn key(job: &Job) -> String {
    format!("{}/{}", job.run, job.action.instance.0)
}

/// Parses a workspace by another executor, and notes what it says.
pub(super) struct Noting {
    pub(super) sites: Arc<Sites>,
    pub(super) inner: Arc<dyn Executor>,
}

impl Noting {
    fn note(&self, job: &Job, answer: &Value) -> Result<(), Failure> {
        let path = job.action.params.get("path").and_then(Value::as_text).unwrap_or_default();
        let spec: Spec =
            answer.to().map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))?;
        let predecessor = self.predecessor(job, path)?;
        let workspace = path.to_owned();
        self.sites.put_note(KIND, &key(job), &Noted { workspace, spec, predecessor })
    }

    /// The instance that worked on the same brief before, in the same run; from now on it is this one.
    fn predecessor(&self, job: &Job, path: &str) -> Result<Option<u32>, Failure> {
        if let Some(noted) = self.sites.noted(job)? {
            return Ok(noted.predecessor);
        }
        let builders = format!("{}/{path}", job.run);
        let before = self.sites.note(BUILDERS, &builders)?.and_then(|note| note.parse().ok());
        self.sites.put_note(BUILDERS, &builders, &job.action.instance.0)?;
        Ok(before.filter(|before| *before != job.action.instance.0))
    }
}

impl Noting {
    /// The brief as an earlier builder of the same task got it. The file may say something else by now: whoever worked
    /// on the task could write it.
    fn pinned(&self, job: &Job) -> Result<Option<Spec>, Failure> {
        let Some(note) = self.sites.note(PINNED, &pin_key(job))?.filter(|note| note != UNPINNED) else {
            return Ok(None);
        };
        serde_json::from_str(&note).map(Some).map_err(|error| unreadable(&error))
    }

    /// Parses a brief once: later builders get what the first one got, and of the file only the lessons that were written
    /// into it meanwhile.
    fn parse(&self, job: &Job) -> Report {
        let report = self.inner.perform(job);
        let fresh = if let JobEnd::Done(answer) = &report.ended {
            answer.to::<Spec>().map(Some).map_err(|error| unreadable(&error))
        } else if matches!(report.ended, JobEnd::Failed(_)) {
            Ok(None)
        } else {
            return report;
        };
        let settled = fresh.and_then(|fresh| Ok((self.pinned(job)?, fresh))).and_then(|(pinned, fresh)| {
            let spec = match (pinned, fresh) {
                (Some(pinned), Some(fresh)) => Spec { prior_knowledge: fresh.prior_knowledge, ..pinned },
                (Some(pinned), None) => pinned,
                (None, Some(fresh)) => {
                    self.sites.put_note(PINNED, &pin_key(job), &fresh)?;
                    return Ok(None);
                }
                (None, None) => return Ok(None),
            };
            Value::of(&spec).map(Some).map_err(|error| unreadable(&error))
        });
        match settled {
            Ok(None) => report,
            Ok(Some(spec)) => Report { ended: JobEnd::Done(spec), ..report },
            Err(failure) => Report { ended: JobEnd::Failed(failure), ..report },
        }
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::CouldNotRun, format!("what was noted of the brief cannot be read: {error}"))
}

/// What stands in the note of a brief that was written anew.
const UNPINNED: &str = "null";

fn pin_key(job: &Job) -> String {
    let path = job.action.params.get("path").and_then(Value::as_text).unwrap_or_default();
    format!("{}/{path}", job.run)
}

impl Sites {
    /// A brief that `ftl` itself has written anew is parsed anew.
    pub(super) fn unpin(&self, job: &Job, path: &str) -> Result<(), Failure> {
        let key = format!("{}/{path}", job.run);
        match self.note(PINNED, &key)? {
            Some(_) => self.put_note(PINNED, &key, &None::<Spec>),
            None => Ok(()),
        }
    }
}

impl Executor for Noting {
    fn perform(&self, job: &Job) -> Report {
        let report = self.parse(job);
        if let JobEnd::Done(answer) = &report.ended
            && let Err(failure) = self.note(job, answer)
        {
            return Report { ended: JobEnd::Failed(failure), ..report };
        }
        report
    }
}
