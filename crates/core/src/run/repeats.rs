//! Equal failures in a row: a step that fails in the same way a third time ends its loop.
//!
//! A loop that meets the same failure again and again makes no progress, whatever its meters still have: the tests
//! lack a module, a planner repeats an invalid plan. The signature of a failure is written down with the answer that
//! tells of it, and counted by step; facts without one, such as those of earlier versions, count nothing. Nothing here
//! judges an answer, and nothing counts what was not left and entered again: a step that is asked again in its place is
//! no loop.

use sha2::{Digest as _, Sha256};

use super::draft::Draft;
use super::fact::{Fact, Failure, FailureKind, ThreadId};
use super::instance::{Instance, Open, OpenKind};
use super::walk::{Flow, Here, ignores_failure};
use crate::signature;
use crate::syntax::Step;
use crate::value::{Name, Value};

/// How often the same failure may come in a row in one step; the last one ends the loop.
pub const MAX_EQUAL_FAILURES: u32 = 3;

/// How the message of a step begins that was ended for it.
pub const REPEATED: &str = "the same failure three times in a row: ";

/// What an answer tells that gives no decision and no problem.
const UNCLEAR: &str = "the decision is unclear";

/// Which step of an instance: its state, its line of work, its place.
pub type StepKey = (Name, ThreadId, u32);

/// The last failures of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The signature of the last one.
    pub signature: Name,
    /// How often it came in a row.
    pub count: u32,
    /// The move after which it was counted last.
    pub entered: u64,
}

impl Instance {
    /// Counts the failure that an answer tells of. An answer that tells of none ends the row.
    pub(super) fn count_failure(&mut self, open: &Open, signature: Option<&Name>) {
        let key = (self.state.clone(), open.thread.clone(), open.place);
        let Some(signature) = signature else {
            self.repeats.remove(&key);
            return;
        };
        let before = self.repeats.get(&key).filter(|before| before.signature == *signature);
        let count = match before {
            Some(before) if before.entered == self.entered => before.count,
            Some(before) => before.count.saturating_add(1),
            None => 1,
        };
        let (signature, entered) = (signature.clone(), self.entered);
        self.repeats.insert(key, Repeat { signature, count, entered });
    }

    /// How often the step at a place has failed in the same way in a row.
    pub(super) fn equal_failures(&self, thread: &ThreadId, place: u32) -> u32 {
        let key = (self.state.clone(), thread.clone(), place);
        self.repeats.get(&key).map_or(0, |repeat| repeat.count)
    }
}

impl Draft<'_> {
    /// What an answer says that failed, where the answers of its step are counted.
    pub(super) fn counted_failure(
        &self,
        here: &Here<'_>,
        open: &Open,
        result: &Result<Value, Failure>,
    ) -> Option<String> {
        let is_counted = match here.node.step()? {
            Step::Do { .. } | Step::Check { .. } => matches!(open.kind, OpenKind::Call | OpenKind::Child(_)),
            // Who waits for something expects to hear the same until it is there.
            Step::WaitFor { .. } | Step::WaitWords { .. } | Step::Ask { .. } => false,
            Step::Parallel { .. } | Step::ForEach { .. } | Step::Pay { .. } => false,
        };
        let is_waived = self.get(here.id)?.thread(here.thread).is_some_and(|line| line.waiving.is_some());
        if self.terms.equal_failures == 0 || !is_counted || is_waived {
            return None;
        }
        match result {
            Ok(answer) => failure_told(answer),
            Err(_) if ignores_failure(&here.node.what) => None,
            Err(failure) => counts(failure.kind).then(|| failure.message.clone()),
        }
    }

    /// Whether the step failed so often in the same way that its loop ends.
    pub(super) fn is_repeated(&self, here: &Here<'_>) -> bool {
        let count = self.get(here.id).map_or(0, |one| one.equal_failures(here.thread, here.place));
        count >= self.terms.equal_failures
    }

    /// Ends the loop of a step: by its ELSE, where that has not been tried for this failure; else the word that was said
    /// is refused, the item ends, or the instance is held.
    pub(super) fn end_repeated(&mut self, here: &Here<'_>, failure: &Failure, is_else_tried: bool) -> Flow {
        let instance = self.get(here.id);
        let count = instance.map_or(0, |one| one.equal_failures(here.thread, here.place));
        let waited = instance.and_then(|one| one.thread(here.thread)).and_then(|thread| thread.waited);
        if waited.is_some_and(|wait| wait != here.place) && here.node.otherwise.is_none() {
            self.refuse_word(here, failure.clone());
            return self.wait_again(here);
        }
        let (thread, place) = (Some(here.thread.clone()), Some(here.place));
        let what = crate::syntax::print::line(&here.node.what);
        self.put(here.id, Fact::Refused { thread, place, what, failure: failure.clone(), by: None });
        let leads_on =
            count == self.terms.equal_failures && !is_else_tried && !ignores_failure(&here.node.what);
        if let Some(otherwise) = here.node.otherwise.filter(|_| leads_on) {
            return Flow::On(Some(otherwise));
        }
        if let ThreadId::Item { .. } = here.thread {
            self.item_ended(here.id, here.thread, Some(failure.clone()));
        } else {
            self.hold(here.id, here.thread, here.place, failure.clone());
        }
        Flow::Rest
    }
}

/// The signature of what failed, as entries name it.
pub(super) fn signature_name(failure: &str) -> Name {
    let hash = Sha256::digest(signature::of(failure));
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Name::from(hex)
}

/// Whether a failure of that kind says something about the work.
fn counts(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Failed | FailureKind::CouldNotRun | FailureKind::Timeout => true,
        FailureKind::Denied | FailureKind::Stale => true,
        FailureKind::Exhausted | FailureKind::Machine | FailureKind::Asked => false,
    }
}

/// What an answer says that failed; nothing where nothing did. Gates say `failed` and `summary`, reviewers a verdict
/// and `feedback`, merges a conflict and its `sides`, children how they ended and a `reason`, readers of plans `problems`.
fn failure_told(answer: &Value) -> Option<String> {
    let is =
        |field: &str, words: &[&str]| answer.field(field).as_text().is_some_and(|said| words.contains(&said));
    let told = |fields: &[&str]| {
        let said = fields.iter().map(|field| answer.field(field)).filter(|value| !value.is_empty());
        said.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let has = |field: &str| !answer.field(field).is_none();
    let failed = match (has("failed"), has("passed")) {
        (true, _) => *answer.field("failed") == Value::Bool(true),
        (false, true) => *answer.field("passed") == Value::Bool(false),
        (false, false) => false,
    };
    if failed {
        let findings = answer.field("findings").items().iter().map(|finding| finding.field("message"));
        let said = std::iter::once(answer.field("summary")).chain(findings).filter(|said| !said.is_empty());
        return Some(said.map(ToString::to_string).collect::<Vec<_>>().join(": "));
    }
    if is("status", &["conflict"]) {
        return Some(told(&["sides"]));
    }
    if is("verdict", &["CHANGES"]) {
        return Some(told(&["feedback"]));
    }
    if is("verdict", &["blocked", "escalated", "error"]) {
        return Some(told(&["reason"]));
    }
    let is_question = is("kind", &["CLARIFY", "CONFIRM"]);
    match told(&["problems"]) {
        problems if !problems.is_empty() && !is_question => Some(problems),
        _ => is("kind", &["UNKNOWN"]).then(|| UNCLEAR.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_read_from_each_kind_of_answer() {
        for (answer, told) in [
            (r#"{"passed": false, "summary": "boom"}"#, Some("boom")),
            (r#"{"passed": false, "failed": true, "summary": "boom"}"#, Some("boom")),
            (r#"{"passed": false, "failed": false, "summary": "no report"}"#, None),
            (r#"{"failed": true, "summary": "no", "findings": [{"message": "a"}]}"#, Some("no: a")),
            (r#"{"passed": true, "failed": false, "summary": "3 passed"}"#, None),
            (r#"{"status": "conflict", "sides": "both"}"#, Some("both")),
            (r#"{"status": "landed", "sides": "both"}"#, None),
            (r#"{"verdict": "CHANGES", "feedback": "no"}"#, Some("no")),
            (r#"{"verdict": "APPROVE", "feedback": "no"}"#, None),
            (r#"{"verdict": "blocked", "reason": "stuck"}"#, Some("stuck")),
            (r#"{"verdict": "complete", "reason": "stuck"}"#, None),
            (r#"{"kind": "PROCEED", "problems": ["two"]}"#, Some("two")),
            (r#"{"kind": "UNKNOWN", "problems": []}"#, Some(UNCLEAR)),
            (r#"{"kind": "CLARIFY", "problems": ["two"]}"#, None),
            (r#"{"kind": "PROCEED", "problems": []}"#, None),
            (r#"{"code": 0, "stdout": ""}"#, None),
        ] {
            let value: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(failure_told(&value).as_deref(), told, "{answer}");
        }
    }

    #[test]
    fn a_machine_that_could_not_says_nothing_about_the_work() {
        let counted = FailureKind::ALL.into_iter().filter(|kind| counts(*kind)).map(FailureKind::word);
        let counted: Vec<&str> = counted.collect();
        assert_eq!(counted, ["failed", "could_not_run", "timeout", "denied", "stale"]);
    }
}
