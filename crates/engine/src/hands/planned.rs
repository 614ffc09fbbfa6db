//! Hands for plans: one that a person gave answers in the planner's place, every task of any of them says who
//! does it, and a run that only plans builds nothing.
//!
//! The plan was validated before the run was opened, and the protocol holds it to the same rules again. It
//! is never used to answer a question that it is no answer to: a revision.

use std::sync::Arc;

use ftl_core::catalogue::plan::{Plan, Worker};
use ftl_core::run::FailureKind;
use ftl_core::value::{Name, Value};

use super::agents::{Agents, nothing_used};
use super::{Ended, Hand, Job, Report, Workshop};

/// The actions with which building begins, in any flow.
pub const BUILDING: [&str; 2] = ["workspace.create", "campaign.create"];

/// What is said where a run only plans.
pub const ONLY_PLANS: &str = "this run only plans: nothing is built";

/// Answers `Task(planner)` with a plan.
pub struct Planned {
    text: String,
    agents: Arc<Agents>,
}

impl Planned {
    /// A hand with the text of a valid plan; a revision is asked of an agent, where one is bound.
    pub fn new(text: String, agents: Arc<Agents>) -> Planned {
        Planned { text, agents }
    }
}

impl Hand for Planned {
    fn perform(&self, job: &Job) -> Report {
        let input = job.action.params.get("input").unwrap_or(&Value::None);
        let is_revision = input.field("mode").as_text() == Some("replan");
        if is_revision && self.agents.is_bound("planner") {
            return self.agents.perform(job);
        }
        let text = match is_revision {
            true => String::from("The plan was given as a file, and no planner is bound to revise it."),
            false => format!("Decision: PROCEED\n\n```json\n{}\n```\n", self.text.trim_end()),
        };
        let answer = Value::record([("text", Value::text(text))]);
        Report { ended: Ended::Done(answer), usage: nothing_used() }
    }
}

/// Parses a plan by another hand, and says of every task who does it.
struct Staffing {
    worker: Worker,
    /// Whether that counts more than what the plan says.
    always: bool,
    inner: Arc<dyn Hand>,
}

impl Hand for Staffing {
    fn perform(&self, job: &Job) -> Report {
        let mut report = self.inner.perform(job);
        if let Ended::Done(Value::Record(answer)) = &mut report.ended
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

impl Workshop {
    /// The same where every task of a plan is somebody's: who does it where its plan does not say, or always
    /// coders where the plan is one of stories.
    #[must_use]
    pub fn with_workers(self, worker: Worker, stories: bool) -> Workshop {
        let worker = if stories { Worker::Coder } else { worker };
        ["decision.parse", "plan.parse"].iter().fold(self, |shop, name| {
            shop.around(name, |inner| Arc::new(Staffing { worker, always: stories, inner }))
        })
    }
}

/// Refuses to begin building.
pub struct OnlyPlans;

impl Hand for OnlyPlans {
    fn perform(&self, _: &Job) -> Report {
        Report::free(Ended::failed(FailureKind::Denied, ONLY_PLANS))
    }
}
