//! The interpreter: a run is a tree of instances, and one function picks what comes next.
//!
//! `decide` looks at a run and an input and answers with facts and with what to start or cancel;
//! it changes nothing. `apply` changes a run by a fact and decides nothing. A new run is the
//! replay of no facts. Nothing here reads a clock, and two decisions on equal runs are equal.

mod apply;
mod budget;
mod digests;
mod draft;
pub mod eval;
pub mod fact;
mod fan_out;
mod index;
mod input;
pub mod instance;
mod map;
mod options;
mod people;
mod receive;
mod rehearse;
mod repeats;
mod replay;
mod steps;
mod walk;

use std::sync::Arc;

pub use fact::{
    ActionId, Answer, Cause, End, Entry, Fact, Failure, FailureKind, InstanceId, Opened, Payment, Policy,
    ROOT, Terms, ThreadId, Time, Usage, WHOLE, Waiver,
};
pub use input::{Action, ActionTarget, Adoption, Decision, Event, Input, Outcome, Refusal, RefusalKind};
pub use instance::{
    BudgetMeter, BudgetMeters, HeldAt, Instance, ItemOutcome, Meter, Open, OpenKind, ScopeSnapshot, Standing,
    Thread, Waiving,
};
pub use map::Map;
pub use options::{AnswerSource, Answers, COULD_NOT, Condition, Unmet, WayOut};
pub use people::POLICY;
pub use receive::{PULL, STOPPED};
pub use rehearse::Rehearsal;
pub use repeats::{MAX_EQUAL_FAILURES, REPEATED, Repeat, StepKey};
pub use replay::{Divergence, Replayed};

use crate::program::Programs;
use apply::Store;
use digests::Digests;
use draft::Draft;
use index::{Index, Marks};

/// A run: the instances of one command, as the facts have made them.
#[derive(Clone, Debug)]
pub struct Run {
    programs: Arc<dyn Programs>,
    instances: Vec<Instance>,
    purses: Vec<BudgetMeters>,
    index: Index,
    terms: Arc<Terms>,
    next: u64,
    digests: Digests,
}

impl Run {
    /// A run before its first fact.
    pub fn new(programs: Arc<dyn Programs>) -> Run {
        let (instances, purses) = (Vec::new(), Vec::new());
        let (index, terms, digests) = (Index::default(), Arc::default(), Digests::default());
        Run { programs, instances, purses, index, terms, next: 1, digests }
    }

    /// The run that a snapshot has kept: instances with their built-in meters in the order of opening, and the number of
    /// the next entry. Everything else of a run follows from these.
    pub fn restored(
        programs: Arc<dyn Programs>,
        all: impl IntoIterator<Item = (Instance, BudgetMeters)>,
        terms: Terms,
        next: u64,
    ) -> Run {
        let mut run = Run { terms: Arc::new(terms), next, ..Run::new(programs) };
        (run.instances, run.purses) = all.into_iter().unzip();
        for one in &run.instances {
            run.index.changed(one.id, Marks::default(), Marks::of(Some(one)));
        }
        run
    }

    /// Forgets what an ended child has spent, for boards, which show it no more.
    pub fn forget_spent(&mut self, id: InstanceId) {
        let at = id.0 as usize;
        let is_over = |one: &&mut Instance| one.is_settled() && one.parent.is_some();
        if let (Some(one), Some(purses)) =
            (self.instances.get_mut(at).filter(is_over), self.purses.get_mut(at))
        {
            one.meters = Arc::default();
            purses.clear();
        }
    }

    /// What follows from an input: facts to keep, actions to start, actions to cancel. Changes
    /// nothing.
    pub fn decide(&self, input: &Input) -> Decision {
        let mut draft = Draft::new(self, input.at);
        draft.event(&input.event);
        draft.finish()
    }

    /// Changes the run by a fact.
    pub fn apply(&mut self, entry: &Entry) {
        if let Fact::Opened(opened) = &entry.fact
            && let Some(terms) = &opened.terms
        {
            self.terms = Arc::new(terms.clone());
        }
        let before = Marks::of(self.instance(entry.instance));
        apply::apply(self, entry);
        let after = Marks::of(self.instance(entry.instance));
        self.index.changed(entry.instance, before, after);
        self.next = self.next.max(entry.seq + 1);
    }

    /// Decides and applies: what a driver does, without the journal between.
    pub fn step(&mut self, input: &Input) -> Decision {
        let decision = self.decide(input);
        for entry in &decision.entries {
            self.apply(entry);
        }
        decision
    }

    /// The programs that the run decides by.
    pub fn programs(&self) -> &Arc<dyn Programs> {
        &self.programs
    }

    /// The terms of the run.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The instance of that id.
    pub fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.instances.get(id.0 as usize)
    }

    /// All instances, in the order of opening.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The instances that have not ended, in the order of opening.
    pub fn live(&self) -> impl Iterator<Item = &Instance> {
        self.index.live.iter().filter_map(|id| self.instance(*id))
    }

    /// The earliest time at which a `Tick` does something: a service is asked again, or the time of a
    /// PARALLEL is over.
    pub fn next_due(&self) -> Option<Time> {
        self.index.next_due()
    }

    /// What waits for a service, with the service and the time at which it is asked again: by
    /// instance, then by time.
    pub fn suspended(&self) -> impl Iterator<Item = (InstanceId, ActionId, &str, Time)> {
        self.live().flat_map(|one| {
            one.due.keys().filter_map(|(_, action)| {
                let (service, until) = one.open.get(action)?.suspended.as_ref()?;
                Some((one.id, *action, service.as_str(), *until))
            })
        })
    }

    /// The built-in meters of an instance: what it and its children used.
    pub fn purses(&self, id: InstanceId) -> Option<&BudgetMeters> {
        self.purses.get(id.0 as usize)
    }

    /// The number of the next entry.
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// How the run ended, if it did.
    pub fn end(&self) -> Option<End> {
        self.instances.first().and_then(|root| root.end.as_ref()).map(|(end, _)| *end)
    }

    /// Whether what the facts made is equal, whatever the programs.
    pub fn same_state(&self, other: &Run) -> bool {
        self.instances == other.instances
            && self.purses == other.purses
            && self.index == other.index
            && self.terms == other.terms
            && self.next == other.next
    }
}

impl Store for Run {
    fn instance_mut(&mut self, id: InstanceId) -> Option<&mut Instance> {
        self.instances.get_mut(id.0 as usize)
    }

    fn purses_mut(&mut self, id: InstanceId) -> Option<&mut BudgetMeters> {
        self.purses.get_mut(id.0 as usize)
    }

    fn parent(&self, id: InstanceId) -> Option<InstanceId> {
        self.instance(id).and_then(|instance| instance.parent).map(|(parent, _)| parent)
    }

    fn depth(&self, id: InstanceId) -> u32 {
        self.instance(id).map_or(0, |instance| instance.depth)
    }

    fn add(&mut self, instance: Instance, purses: BudgetMeters) {
        self.instances.push(instance);
        self.purses.push(purses);
    }
}
