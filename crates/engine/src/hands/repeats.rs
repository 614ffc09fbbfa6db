//! Equal failures in a row: a gate or a reviewer that says the same three times ends its step.
//!
//! A loop that meets the same failure again and again makes no progress, whatever its meters still have: the tests
//! lack a module, the reviewer repeats itself. The third equal answer is a failure of the step, which goes by its ELSE
//! or holds the instance; whoever resumes it has the step asked again. What was counted is noted in the store, by
//! instance and action, so that a restart neither loses nor doubles it. Nothing here judges an answer.

use std::sync::Arc;

use ftl_core::run::{Failure, FailureKind};
use ftl_core::signature;
use ftl_core::value::Value;
use serde::{Deserialize, Serialize};

use super::{Ended, Hand, Job, Report, Workshop};
use crate::paper::Paper;
use crate::store::StoreError;
use crate::store::notebook::Notebook as _;

/// How often the same failure may come in a row.
pub const MAX_EQUAL: u32 = 3;

/// How the message of a step begins that was ended for it.
pub const REPEATED: &str = "the same failure three times in a row: ";

/// The kind of the notes.
const KIND: &str = "repeats";

/// Whose answers are compared, and what in an answer says that something failed.
const COMPARED: [(&str, Tells); 5] = [
    ("verify.run", Tells::Gate),
    ("tests.run", Tells::Gate),
    ("preflight.check", Tells::Gate),
    ("work.merge", Tells::Conflict),
    ("Task(architect)", Tells::Changes),
];

/// What says in an answer that something failed.
#[derive(Clone, Copy)]
enum Tells {
    /// `passed` is false; `summary` says how.
    Gate,
    /// `status` is a conflict; `sides` says how.
    Conflict,
    /// `verdict` asks for changes; `feedback` says which.
    Changes,
}

impl Tells {
    /// What an answer says that failed; nothing where nothing did.
    fn failure(self, answer: &Value) -> Option<String> {
        let is = |field: &str, word: &str| answer.field(field).as_text() == Some(word);
        let said = |field: &str| Some(answer.field(field).to_string());
        match self {
            Tells::Gate if *answer.field("passed") == Value::Bool(false) => said("summary"),
            Tells::Conflict if is("status", "conflict") => said("sides"),
            Tells::Changes if is("verdict", "CHANGES") => said("feedback"),
            Tells::Gate | Tells::Conflict | Tells::Changes => None,
        }
    }
}

/// The failures of one action of one instance, as they are noted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// The signature of the last one.
    signature: String,
    /// How often it came in a row.
    count: u32,
    /// The job that was counted last: the same one that is asked again counts once.
    job: String,
}

impl Row {
    /// The row after a failure.
    fn with(self, signature: String, job: String) -> Row {
        let count = match self.signature == signature {
            true if self.job == job => self.count,
            true => self.count.saturating_add(1),
            false => 1,
        };
        Row { signature, count, job }
    }
}

/// A hand whose equal failures are counted.
struct Counted {
    inner: Arc<dyn Hand>,
    paper: Arc<Paper>,
    whom: &'static str,
    tells: Tells,
}

impl Counted {
    /// Notes an answer; the failure that ends the step where it came too often.
    fn note(&self, job: &Job, answer: &Value) -> Result<Option<Failure>, StoreError> {
        let key = format!("{}/{}/{}", job.run, job.action.instance.0, self.whom);
        let store = self.paper.store();
        let noted = store.note(KIND, &key)?;
        let Some(said) = self.tells.failure(answer) else {
            if noted.is_some() {
                store.amend(&mut |notes| notes.remove(KIND, &key).map(|()| true))?;
            }
            return Ok(None);
        };
        let before: Row = noted.and_then(|note| serde_json::from_str(&note).ok()).unwrap_or_default();
        let row = before.with(signature::of(&said), job.key());
        let body = serde_json::to_string(&row).unwrap_or_default();
        store.amend(&mut |notes| notes.put(KIND, &key, &body).map(|()| true))?;
        let message = format!("{REPEATED}{said}");
        Ok((row.count >= MAX_EQUAL).then(|| Failure::new(FailureKind::Failed, message)))
    }
}

impl Hand for Counted {
    fn perform(&self, job: &Job) -> Report {
        let report = self.inner.perform(job);
        let Ended::Done(answer) = &report.ended else { return report };
        match self.note(job, answer) {
            Ok(None) => report,
            Ok(Some(failure)) => Report { ended: Ended::Failed(failure), ..report },
            Err(error) => Report { ended: Ended::Failed(Failure::from(error)), ..report },
        }
    }
}

impl Workshop {
    /// The same where equal failures of gates and reviewers end their step.
    #[must_use]
    pub fn counting_repeats(self, paper: &Arc<Paper>) -> Workshop {
        COMPARED.into_iter().fold(self, |workshop, (whom, tells)| {
            workshop.around(whom, |inner| Arc::new(Counted { inner, paper: paper.clone(), whom, tells }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_once_for_each_job_and_another_one_begins_anew() {
        let mut row = Row::default();
        for (said, job, count) in [
            ("a", "1", 1),
            ("a", "1", 1),
            ("a", "2", 2),
            ("b", "3", 1),
            ("a", "4", 1),
            ("a", "5", 2),
            ("a", "6", 3),
        ] {
            row = row.with(said.to_owned(), job.to_owned());
            assert_eq!(row.count, count, "{said} {job}");
        }
    }

    #[test]
    fn what_failed_is_read_from_each_kind_of_answer() {
        let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        let red = value(r#"{"passed": false, "summary": "boom"}"#);
        assert_eq!(Tells::Gate.failure(&red), Some("boom".to_owned()));
        assert_eq!(Tells::Gate.failure(&value(r#"{"passed": true, "summary": "3 passed"}"#)), None);
        let changes = value(r#"{"verdict": "CHANGES", "feedback": "no"}"#);
        assert_eq!(Tells::Changes.failure(&changes), Some("no".to_owned()));
        assert_eq!(Tells::Changes.failure(&value(r#"{"verdict": "APPROVE", "feedback": "no"}"#)), None);
        assert_eq!(Tells::Conflict.failure(&value(r#"{"status": "landed", "sides": []}"#)), None);
    }
}
