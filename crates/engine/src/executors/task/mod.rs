//! The executors of a task's lifecycle: gates that look at its artifacts, and what a person's word sets off.
//!
//! Which task a run is of stands in the store, written before the run was opened; no action names a folder.
//! A gate never believes a flag, and none of them writes anything but what evidence is bound to.
//!
//! | module | what it holds |
//! |---|---|
//! | `agents` | planner, reviewers and coder: what they are told, and what their answers become |
//! | `artifacts` | `artifact.*`, `decision.record` |
//! | `lean` | the executors of one command of a task: nothing is made before a step asks for it |
//! | `patches` | `eval.run`, `patch.apply`, `patch.revert` |

mod agents;
pub(super) mod artifacts;
pub mod lean;
pub(super) mod patches;

use std::sync::Arc;

use ftl_core::run::{Failure, FailureKind};

use super::table::Resources;
use super::{Executor, Job};
use ftl_lifecycle::TaskFolder;
use ftl_lifecycle::registry;
use ftl_records::Records;
use ftl_store::machine;

/// The folder of the task that a job is for.
fn folder(records: &Records, job: &Job) -> Result<TaskFolder, Failure> {
    let id = registry::task_of(&**records.store(), &job.run)?;
    let id = id.ok_or_else(|| {
        let message = format!("run {} belongs to no task; `ftl new` makes one", job.run);
        Failure::new(FailureKind::CouldNotRun, message)
    })?;
    Ok(TaskFolder::of(records.place(), &id))
}

/// What the disk did not do, as a failure of an action.
fn disk(error: &std::io::Error) -> Failure {
    machine::failure("", error)
}

/// Has the agents of a task know the task that they work for.
pub(super) fn tell(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    let (records, sites, secrets) = (with.records.records.clone(), with.sites.clone(), with.secrets.clone());
    let concerns = with.agents.as_ref().map(|with| with.agents.prompts().concerns().to_vec());
    let concerns = concerns.unwrap_or_default();
    Arc::new(agents::Phases { records, sites, secrets, concerns, inner })
}
