//! An executor for the real engine that asks a world: threads, processes and `kill -9` instead of a
//! simulated clock.

use std::sync::Arc;

use ftl_core::run::{ActionTarget, FailureKind, Usage};
use ftl_engine::executors::{Executor, Job, JobEnd, Report};

use crate::world::World;

/// Carries everything out by asking a world.
#[derive(Debug)]
pub struct Stagehand {
    world: Arc<World>,
    reserve: Usage,
}

impl Stagehand {
    /// An executor of that world, whose agents use no more in a turn than the reservation.
    pub fn new(world: Arc<World>, reserve: Usage) -> Stagehand {
        Stagehand { world, reserve }
    }

    /// An agent: it works in turns, and what a turn has used is gone before the engine hears of it.
    fn agent(&self, job: &Job) -> std::io::Result<Report> {
        let key = job.key();
        let mut turns = self.world.turns(&key, &job.action, &self.reserve);
        let last = turns.pop().unwrap_or_default();
        for turn in turns {
            self.world.spend(&key, &turn)?;
            if job.report_usage(turn).and_then(|()| job.tool("edit", None)).is_err()
                || job.cancel.is_cancelled()
            {
                return Ok(Report { ended: JobEnd::Cancelled, usage: self.nothing() });
            }
        }
        self.world.spend(&key, &last)?;
        Ok(Report { ended: JobEnd::Done(self.world.perform(&key, &job.action)?), usage: last })
    }

    fn nothing(&self) -> Usage {
        self.reserve.keys().map(|name| (name.clone(), 0)).collect()
    }
}

impl Executor for Stagehand {
    fn perform(&self, job: &Job) -> Report {
        let done = match job.action.wanted {
            ActionTarget::Task { .. } => self.agent(job),
            ActionTarget::Action(_) | ActionTarget::Word(_) | ActionTarget::Question => {
                self.world.perform(&job.key(), &job.action).map(|value| Report::free(JobEnd::Done(value)))
            }
        };
        done.unwrap_or_else(|error| Report::free(JobEnd::failed(FailureKind::CouldNotRun, error.to_string())))
    }
}
