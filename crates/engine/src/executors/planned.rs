//! Executors for plans: one that a person gave answers in the planner's place, every task of any of them says who
//! does it, and a run that only plans builds nothing.
//!
//! The plan was validated before the run was opened, and the protocol holds it to the same rules again. It
//! is never used to answer a question that it is no answer to: a revision.

use std::sync::Arc;

use ftl_core::catalogue::plan::Worker;
use ftl_core::run::FailureKind;
use ftl_core::value::{Name, Value};

use super::agents::nothing_used;
use super::answer::{MAX_ANSWER_BYTES, too_large};
use super::table::Resources;
use super::{Executor, Job, JobEnd, Report};

/// What is said where a run only plans.
const ONLY_PLANS: &str = "this run only plans: nothing is built";

/// Answers `Task(planner)` with a plan; a revision is asked of an agent, where one is bound.
struct Planned {
    with: Arc<Resources>,
    text: String,
    inner: Arc<dyn Executor>,
}

/// Has the plan that a run was given answer in the planner's place.
pub(super) fn give_plan(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    match with.given.plan.clone() {
        Some(text) => Arc::new(Planned { with: with.clone(), text, inner }),
        None => inner,
    }
}

/// The words of a planner who has that plan.
fn decision_of(plan: &str) -> String {
    format!("Decision: PROCEED\n\n```json\n{}\n```\n", plan.trim_end())
}

fn answer_of(text: &str) -> Value {
    Value::record([("text", Value::text(text))])
}

/// What is added to each task where it is said who does it, at most.
const MAX_WORKER_BYTES: usize = 32;

/// Why a plan is too large for a run, if it is: the run would be held with it.
pub(crate) fn check_size(plan: &str, tasks: usize) -> Option<String> {
    let most = MAX_ANSWER_BYTES.saturating_sub(tasks.saturating_mul(MAX_WORKER_BYTES));
    too_large(&answer_of(&decision_of(plan)), most)
}

impl Executor for Planned {
    fn perform(&self, job: &Job) -> Report {
        let input = job.action.params.get("input").unwrap_or(&Value::None);
        let is_revision = input.field("mode").as_text() == Some("replan");
        let is_bound = self.with.agents.as_ref().is_some_and(|with| with.agents.is_bound("planner"));
        if is_revision && is_bound {
            return self.inner.perform(job);
        }
        let text = match is_revision {
            true => String::from("The plan was given as a file, and no planner is bound to revise it."),
            false => decision_of(&self.text),
        };
        Report { ended: JobEnd::Done(answer_of(&text)), usage: nothing_used() }
    }
}

/// Parses a plan by another executor, and says of every task which worker does it.
struct Staffing {
    worker: Worker,
    /// Whether that counts more than what the plan says.
    always: bool,
    inner: Arc<dyn Executor>,
}

impl Executor for Staffing {
    fn perform(&self, job: &Job) -> Report {
        let mut report = self.inner.perform(job);
        if let JobEnd::Done(Value::Record(answer)) = &mut report.ended
            && let Some(Value::Record(plan)) = Arc::make_mut(answer).get_mut("plan")
            && let Some(Value::List(tasks)) = Arc::make_mut(plan).get_mut("tasks")
        {
            // In place: a plan of a hundred thousand tasks stands in memory once.
            Arc::make_mut(tasks).iter_mut().for_each(|task| self.staff(task));
        }
        report
    }
}

impl Staffing {
    /// Has a task say who does it.
    fn staff(&self, task: &mut Value) {
        if let Value::Record(task) = task
            && (self.always || task.get("worker").is_none_or(Value::is_none))
        {
            Arc::make_mut(task).insert(Name::from("worker"), Value::text(self.worker.word()));
        }
    }
}

/// Has every task of a plan say who does it: where its plan does not say, whom the settings name, or always coders where
/// the plan is one of stories.
pub(super) fn assign_workers(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    let always = with.given.document.is_some();
    let worker = if always { Worker::Coder } else { with.given.worker };
    Arc::new(Staffing { worker, always, inner })
}

/// Refuses to begin building.
struct OnlyPlans;

impl Executor for OnlyPlans {
    fn perform(&self, _: &Job) -> Report {
        Report::free(JobEnd::failed(FailureKind::Denied, ONLY_PLANS))
    }
}

/// Has a run that only plans begin nothing.
pub(super) fn refuse_in_dry_run(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    if with.given.only_plans { Arc::new(OnlyPlans) } else { inner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_too_large_by_what_the_journal_would_hold_of_it() {
        let half = MAX_ANSWER_BYTES / 2;
        assert_eq!(check_size(&"x".repeat(half), 1), None);
        let told = check_size(&"\"".repeat(half), 1).unwrap();
        assert!(told.ends_with(&format!("{} is the most", MAX_ANSWER_BYTES - MAX_WORKER_BYTES)), "{told}");
        assert!(
            check_size(&"x".repeat(half), half / MAX_WORKER_BYTES).is_some(),
            "each task says who does it"
        );
    }

    #[test]
    fn tasks_say_who_does_them_and_keep_what_they_say() {
        let staffing = |always| Staffing { worker: Worker::Coder, always, inner: Arc::new(OnlyPlans) };
        let silent = Value::record([("seq", Value::text("1")), ("worker", Value::None)]);
        let says = Value::record([("seq", Value::text("2")), ("worker", Value::text("builder"))]);
        for (always, wanted) in [(false, ["coder", "builder"]), (true, ["coder", "coder"])] {
            let mut tasks = [silent.clone(), says.clone()];
            tasks.iter_mut().for_each(|task| staffing(always).staff(task));
            assert_eq!(tasks.each_ref().map(|task| task.field("worker").as_text().unwrap()), wanted);
            assert_eq!(tasks[0].field("seq").as_text(), Some("1"));
        }
        assert_eq!(says.field("worker").as_text(), Some("builder"), "the one it was made of is as it was");
    }
}
