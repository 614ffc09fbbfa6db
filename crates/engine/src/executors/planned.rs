//! Hands for plans: one that a person gave answers in the planner's place, every task of any of them says who
//! does it, and a run that only plans builds nothing.
//!
//! The plan was validated before the run was opened, and the protocol holds it to the same rules again. It
//! is never used to answer a question that it is no answer to: a revision.

use std::sync::Arc;

use ftl_core::catalogue::plan::{Plan, Worker};
use ftl_core::run::FailureKind;
use ftl_core::value::{Name, Value};

use super::agents::nothing_used;
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
            false => format!("Decision: PROCEED\n\n```json\n{}\n```\n", self.text.trim_end()),
        };
        let answer = Value::record([("text", Value::text(text))]);
        Report { ended: JobEnd::Done(answer), usage: nothing_used() }
    }
}

/// Parses a plan by another hand, and says of every task who does it.
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
            && let Ok(mut plan) = answer.get("plan").unwrap_or(&Value::None).to::<Plan>()
        {
            for task in &mut plan.tasks {
                task.worker = task.worker.filter(|_| !self.always).or(Some(self.worker));
            }
            if let Ok(plan) = Value::of(&plan) {
                Arc::make_mut(answer).insert(Name::from("plan"), plan);
            }
        }
        report
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
