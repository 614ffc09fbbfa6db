//! Parameters and answers of actions as their own Rust types.
//!
//! Both are data that the checker has typed already; what does not fit all the same is a failure of the action and
//! never a guess.

use ftl_core::catalogue::ActionDecl;
use ftl_core::json::Json;
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;

use super::{Job, JobEnd, Report};

/// The answer of an action, or why it failed.
pub(super) type Done<A> = Result<<A as ActionDecl>::Answer, Failure>;

/// Performs an action by a function of its parameters.
pub(super) fn perform<A: ActionDecl, E: Into<JobEnd>>(
    job: &Job,
    function: impl FnOnce(&A) -> Result<A::Answer, E>,
) -> Report {
    report::<A, JobEnd>(job, || function(&params::<A>(job)?).map_err(Into::into))
}

/// Performs an action by a function that reads the parameters itself, because it has seen some of them before.
pub(super) fn perform_unread<A: ActionDecl>(
    job: &Job,
    function: impl FnOnce() -> Result<A::Answer, Failure>,
) -> Report {
    report::<A, Failure>(job, function)
}

fn report<A: ActionDecl, E: Into<JobEnd>>(
    job: &Job,
    function: impl FnOnce() -> Result<A::Answer, E>,
) -> Report {
    let answer = function().map_err(Into::into);
    let answer = answer
        .and_then(|answer| Value::of(&answer).map_err(|error| JobEnd::Failed(misfit::<A>("answer", &error))));
    Report::free(match answer {
        Ok(value) => JobEnd::Done(value),
        // Of work that was called off that is told, and not what it stumbled over on its way out.
        Err(_) if job.cancel.is_cancelled() => JobEnd::Cancelled,
        Err(ended) => ended,
    })
}

/// The parameters of a job as its action's own type.
pub(super) fn params<A: ActionDecl>(job: &Job) -> Result<A, Failure> {
    let params = Value::record(job.action.params.iter().map(|(name, value)| (name, value.clone())));
    params.to().map_err(|error| misfit::<A>("parameters", &error))
}

fn misfit<A: ActionDecl>(what: &str, error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::CouldNotRun, format!("the {what} of `{}` do not fit: {error}", A::NAME))
}

/// A JSON document of the records in the shape that protocols know.
pub(super) fn shaped<T: for<'de> serde::Deserialize<'de>>(json: &Json) -> Result<T, Failure> {
    T::deserialize(json)
        .map_err(|error| Failure::new(FailureKind::CouldNotRun, format!("an answer does not fit: {error}")))
}

/// A shape as the records read it.
pub(super) fn json_of<T: serde::Serialize>(shape: &T) -> Result<Json, Failure> {
    serde_json::to_value(shape).map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))
}
