//! The executors of one command of a task: gates answer what the command has looked at already, and nothing else is
//! made before a step asks for it.
//!
//! `ftl next` between two phases reads a few files. It needs no supervisor, no roster, no backend of an agent, no prompt
//! and no folder for sockets; what a step needs is made when the first such step comes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, Failure, FailureKind, InstanceId};
use ftl_core::value::{Name, Value};

use crate::executors::worktrees::Sites;
use crate::executors::{ActionRunner, ExecutorPool, Job, JobEnd, JobReport, Report};

/// The steps that work on the repository, and ask no agent.
const WORK: [&str; 3] = ["eval.run", "patch.apply", "patch.revert"];

/// Executors that were made, with the worktrees that they work in.
pub struct Made {
    /// The executors that were made.
    pub runner: ExecutorPool,
    /// The worktrees that the executors work in.
    pub sites: Option<Arc<Sites>>,
}

/// Why executors could not be made, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakeError(String);

impl MakeError {
    /// The error that made it impossible, with its sentence.
    pub fn of(error: &impl std::error::Error) -> MakeError {
        MakeError(error.to_string())
    }
}

impl fmt::Display for MakeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for MakeError {}

/// Makes the executors that a step needs.
pub trait Makes: Sync + Send {
    /// Executors for steps that work on the repository.
    fn work(&self) -> Result<Made, MakeError>;
    /// Executors for all steps.
    fn all(&self) -> Result<Made, MakeError>;
}

/// The executors of one command of a task.
pub struct Lean<'a> {
    answers: Mutex<BTreeMap<Name, Result<Value, Failure>>>,
    gates: ExecutorPool,
    makes: &'a dyn Makes,
    work: OnceLock<Result<Made, MakeError>>,
    all: OnceLock<Result<Made, MakeError>>,
}

impl<'a> Lean<'a> {
    /// Executors whose gates answer what was looked at, once; asked again they look for themselves.
    pub fn new(
        answers: BTreeMap<Name, Result<Value, Failure>>,
        gates: ExecutorPool,
        makes: &'a dyn Makes,
    ) -> Lean<'a> {
        let (work, all) = (OnceLock::new(), OnceLock::new());
        Lean { answers: Mutex::new(answers), gates, makes, work, all }
    }

    /// What was made because a step asked for it.
    pub fn made_executors(&self) -> impl Iterator<Item = &Made> {
        [self.work.get(), self.all.get()].into_iter().flatten().filter_map(|made| made.as_ref().ok())
    }

    /// What a gate answered when it was looked through.
    fn answer(&self, performer: &Performer) -> Option<Result<Value, Failure>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(performer.action()?)
    }
}

impl ActionRunner for Lean<'_> {
    fn start(&self, job: Job) {
        let performer = job.action.wanted.performer();
        if let Some(answer) = self.answer(&performer) {
            let ended = answer.map_or_else(JobEnd::Failed, JobEnd::Done);
            return job.report(Report::free(ended));
        }
        if self.gates.has(&performer) {
            return self.gates.start(job);
        }
        let is_work = performer.action().is_some_and(|name| WORK.contains(&name));
        let made = match is_work && self.all.get().is_none() {
            true => self.work.get_or_init(|| self.makes.work()),
            false => self.all.get_or_init(|| self.makes.all()),
        };
        match made {
            Ok(made) => made.runner.start(job),
            Err(error) => {
                let failure = Failure::new(FailureKind::CouldNotRun, error.to_string());
                let report = Report::failed(&job, failure);
                job.report(report);
            }
        }
    }

    fn probe(&self, service: String, events: Sender<JobReport>) {
        // Only an agent needs a service.
        match self.all.get() {
            Some(Ok(made)) => made.runner.probe(service, events),
            Some(Err(_)) | None => {
                let _ = events.send(JobReport::Probed(service, true));
            }
        }
    }

    fn on_heard(&self, instance: InstanceId, action: ActionId) {
        self.gates.on_heard(instance, action);
        self.made_executors().for_each(|made| made.runner.on_heard(instance, action));
    }

    fn called_off(&self) {
        self.gates.called_off();
        self.made_executors().for_each(|made| made.runner.called_off());
    }

    fn rest(&self) {
        self.gates.rest();
        self.made_executors().for_each(|made| made.runner.rest());
    }
}
