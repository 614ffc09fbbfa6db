//! Hands for actions of the catalogue, each a function from the action's own Rust type to its answer.
//!
//! Parameters and answers are data that the checker has typed already; what does not fit all the same
//! is a failure of the action and never a guess.

use std::marker::PhantomData;
use std::sync::Arc;

use ftl_core::catalogue::Action;
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;

use super::{Ended, Hand, Job, Report, Workshop};

/// What an action came to.
pub type Done<A> = Result<<A as Action>::Answer, Failure>;

struct Typed<A, F> {
    work: F,
    action: PhantomData<fn() -> A>,
}

impl<A, F> Hand for Typed<A, F>
where
    A: Action,
    F: Fn(&Job) -> Result<A::Answer, Ended> + Send + Sync,
{
    fn perform(&self, job: &Job) -> Report {
        Report::free(match self.answer(job) {
            Ok(value) => Ended::Done(value),
            // Whoever calls work off wants to hear that, and not what it stumbled over on its way out.
            Err(_) if job.cancel.is_cancelled() => Ended::Cancelled,
            Err(ended) => ended,
        })
    }
}

impl<A, F> Typed<A, F>
where
    A: Action,
    F: Fn(&Job) -> Result<A::Answer, Ended> + Send + Sync,
{
    fn answer(&self, job: &Job) -> Result<Value, Ended> {
        let answer = (self.work)(job)?;
        Ok(Value::of(&answer).map_err(|error| misfit::<A>("answer", &error))?)
    }
}

/// The parameters of a job as its action's own type.
pub(super) fn params<A: Action>(job: &Job) -> Result<A, Failure> {
    let params = Value::record(job.action.params.iter().map(|(name, value)| (name, value.clone())));
    params.to().map_err(|error| misfit::<A>("parameters", &error))
}

fn misfit<A: Action>(what: &str, error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::CouldNotRun, format!("the {what} of `{}` do not fit: {error}", A::NAME))
}

impl Workshop {
    /// The same with a function for an action.
    #[must_use]
    pub fn doing<A: Action + 'static>(
        self,
        work: impl Fn(&Job, A) -> Done<A> + Send + Sync + 'static,
    ) -> Workshop {
        self.asking(move |job: &Job, action: A| work(job, action).map_err(Ended::Failed))
    }

    /// The same with a function for an action that needs a service, which may not answer.
    #[must_use]
    pub fn asking<A: Action + 'static>(
        self,
        work: impl Fn(&Job, A) -> Result<A::Answer, Ended> + Send + Sync + 'static,
    ) -> Workshop {
        let work = move |job: &Job| work(job, params::<A>(job)?);
        self.with(A::NAME, Arc::new(Typed::<A, _> { work, action: PhantomData }))
    }

    /// The same with a function that reads the parameters itself, because it has seen some of them before.
    #[must_use]
    pub(super) fn reading<A: Action + 'static>(
        self,
        work: impl Fn(&Job) -> Done<A> + Send + Sync + 'static,
    ) -> Workshop {
        let work = move |job: &Job| work(job).map_err(Ended::Failed);
        self.with(A::NAME, Arc::new(Typed::<A, _> { work, action: PhantomData }))
    }
}
