//! Hands for a plan that a person gave: it answers in the planner's place, and a run that only plans builds
//! nothing.
//!
//! The plan was validated before the run was opened, and the protocol holds it to the same rules again. It
//! is never used to answer a question that it is no answer to: a revision.

use std::sync::Arc;

use ftl_core::run::FailureKind;
use ftl_core::value::Value;

use super::agents::{Agents, nothing_used};
use super::{Ended, Hand, Job, Report};

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

/// Refuses to begin building.
pub struct OnlyPlans;

impl Hand for OnlyPlans {
    fn perform(&self, _: &Job) -> Report {
        Report::free(Ended::failed(FailureKind::Denied, ONLY_PLANS))
    }
}
