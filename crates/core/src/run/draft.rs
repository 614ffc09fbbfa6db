//! The draft of a decision: a run with changes on top, and what is to be started or cancelled.
//!
//! Only instances that change are copied. A fact is applied to the draft by the same function
//! that applies it to the run, so that a decision sees exactly what replay will see.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::Run;
use super::apply::{Store, apply};
use super::fact::{ActionId, Entry, Fact, Failure, InstanceId, ThreadId, Time};
use super::input::{Action, Decision, Event, Refusal};
use super::instance::{BudgetMeters, Instance};
use crate::program::Program;

/// Work that is left to do in this decision.
pub(super) enum Work {
    /// Go on at a place, in the visit in which this was decided; `None` is the end of a block.
    Go(InstanceId, ThreadId, Option<u32>, u64),
    /// See whether a FOR EACH has come to its answer.
    Each(InstanceId),
}

/// What a decision has changed, in the order of ids.
struct Changes<T>(Vec<(InstanceId, T)>);

impl<T> Changes<T> {
    fn get(&self, id: InstanceId) -> Option<&T> {
        let index = self.0.binary_search_by_key(&id, |(one, _)| *one).ok()?;
        self.0.get(index).map(|(_, changed)| changed)
    }

    /// What is changed, to change it more; at first it is a copy of what the run has.
    fn change(&mut self, id: InstanceId, copy: impl FnOnce() -> Option<T>) -> Option<&mut T> {
        let index = match self.0.binary_search_by_key(&id, |(one, _)| *one) {
            Ok(index) => index,
            Err(index) => {
                self.0.insert(index, (id, copy()?));
                index
            }
        };
        self.0.get_mut(index).map(|(_, changed)| changed)
    }

    fn ids(&self) -> impl Iterator<Item = InstanceId> {
        self.0.iter().map(|(id, _)| *id)
    }
}

pub(super) struct Draft<'r> {
    pub(super) run: &'r Run,
    pub(super) at: Time,
    touched: Changes<Instance>,
    purses: Changes<BudgetMeters>,
    count: u32,
    entries: Vec<Entry>,
    /// Whether something that was set aside is free again.
    pub(super) freed: bool,
    /// Who was woken in this decision, each once.
    pub(super) woken: BTreeSet<(InstanceId, ThreadId)>,
    start: Vec<Action>,
    cancel: Vec<(InstanceId, ActionId)>,
    pub(super) refusal: Option<Refusal>,
    pub(super) work: VecDeque<Work>,
    pub(super) terms: Arc<super::fact::Terms>,
}

impl<'r> Draft<'r> {
    pub(super) fn new(run: &'r Run, at: Time) -> Draft<'r> {
        Draft {
            run,
            at,
            touched: Changes(Vec::new()),
            purses: Changes(Vec::new()),
            count: run.instances.len() as u32,
            entries: Vec::new(),
            freed: false,
            woken: BTreeSet::new(),
            start: Vec::new(),
            cancel: Vec::new(),
            refusal: None,
            work: VecDeque::new(),
            terms: run.terms.clone(),
        }
    }

    /// Everything that follows from an input.
    pub(super) fn event(&mut self, event: &Event) {
        let result = self.receive(event);
        if let Err(refusal) = result {
            self.refuse_input(event, refusal);
        }
        loop {
            while let Some(work) = self.work.pop_front() {
                match work {
                    Work::Go(id, thread, at, visit) => {
                        let here = self
                            .get(id)
                            .filter(|one| one.visit == visit && one.threads.contains_key(&thread));
                        if here.is_some() {
                            self.go(id, thread, at);
                        }
                    }
                    Work::Each(id) => self.each_answer(id),
                }
            }
            if !self.release_unstarted() && !self.wake() {
                return;
            }
        }
    }

    /// What was asked for and dropped in the same decision is never begun: no report of it will
    /// come, and what was set aside for it is free.
    fn release_unstarted(&mut self) -> bool {
        if self.cancel.is_empty() || self.start.is_empty() {
            return false;
        }
        let cancelled: BTreeSet<_> = self.cancel.iter().copied().collect();
        let owed = |id, action| self.get(id).is_some_and(|one| one.owed.contains_key(&action));
        let never: Vec<(InstanceId, ActionId)> = self
            .start
            .iter()
            .map(|action| (action.instance, action.id))
            .filter(|one| cancelled.contains(one) && owed(one.0, one.1))
            .collect();
        never.iter().for_each(|(id, action)| self.settle_purse(*id, *action));
        !never.is_empty()
    }

    pub(super) fn finish(mut self) -> Decision {
        if let Some(first) = self.entries.first_mut() {
            first.first = true;
        }
        if self.cancel.is_empty() {
            let (entries, start, refusal) = (self.entries, self.start, self.refusal);
            return Decision { entries, start, cancel: Vec::new(), refusal };
        }
        let started: BTreeSet<_> = self.start.iter().map(|action| (action.instance, action.id)).collect();
        let cancelled: BTreeSet<_> = self.cancel.iter().copied().collect();
        self.start.retain(|action| !cancelled.contains(&(action.instance, action.id)));
        self.cancel.retain(|one| !started.contains(one));
        Decision { entries: self.entries, start: self.start, cancel: self.cancel, refusal: self.refusal }
    }

    /// Goes on later in this decision, unless the state is left before.
    pub(super) fn later(&mut self, id: InstanceId, thread: ThreadId, at: Option<u32>) {
        let visit = self.get(id).map_or(0, |one| one.visit);
        self.work.push_back(Work::Go(id, thread, at, visit));
    }

    /// Writes a fact and applies it.
    pub(super) fn put(&mut self, instance: InstanceId, fact: Fact) -> u64 {
        let seq = self.next_seq();
        if let Fact::Opened(opened) = &fact
            && let Some(terms) = &opened.terms
        {
            self.terms = Arc::new(terms.clone());
        }
        self.freed |= matches!(fact, Fact::Released { .. });
        let entry = Entry { seq, at: self.at, instance, first: false, fact };
        apply(self, &entry);
        self.entries.push(entry);
        seq
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.run.next + self.entries.len() as u64
    }

    pub(super) fn next_instance(&self) -> InstanceId {
        InstanceId(self.count)
    }

    /// The instance as the draft has made it.
    pub(super) fn get(&self, id: InstanceId) -> Option<&Instance> {
        self.touched.get(id).or_else(|| self.run.instance(id))
    }

    pub(super) fn get_purses(&self, id: InstanceId) -> Option<&BudgetMeters> {
        self.purses.get(id).or_else(|| self.run.purses(id))
    }

    /// The instances of a set of the run's index, and those that this decision has changed: all that
    /// may now be in that set, in order.
    pub(super) fn among<'a>(
        &'a self,
        set: &'a BTreeSet<InstanceId>,
    ) -> impl Iterator<Item = InstanceId> + 'a {
        let mut known = set.iter().copied().peekable();
        let mut changed = self.touched.ids().peekable();
        std::iter::from_fn(move || match (known.peek(), changed.peek()) {
            (Some(one), Some(two)) if one == two => {
                changed.next();
                known.next()
            }
            (Some(one), Some(two)) if one > two => changed.next(),
            (Some(_), _) => known.next(),
            (None, _) => changed.next(),
        })
    }

    /// The instances in which something may be due, in order.
    pub(super) fn due(&self) -> BTreeSet<InstanceId> {
        self.run.index.due_by(self.at).chain(self.touched.ids()).collect()
    }

    /// The program by which an instance goes on in the state that it is in.
    pub(super) fn program(&self, id: InstanceId) -> Option<Arc<Program>> {
        let instance = self.get(id)?;
        self.run.programs.program_of(&instance.protocol, &instance.state, &instance.code).cloned()
    }

    /// Today's program of an instance: states are entered by it.
    pub(super) fn program_of_today(&self, id: InstanceId) -> Option<Arc<Program>> {
        let instance = self.get(id)?;
        self.run.programs.program(&instance.protocol).cloned()
    }

    pub(super) fn start(&mut self, action: Action) {
        self.start.push(action);
    }

    pub(super) fn cancel(&mut self, instance: InstanceId, action: ActionId) {
        self.cancel.push((instance, action));
    }

    /// Holds an instance where it is.
    pub(super) fn hold(&mut self, id: InstanceId, thread: &ThreadId, place: u32, failure: Failure) {
        let thread = thread.clone();
        self.put(id, Fact::Held { thread, place, failure, meter: None, stuck: false, action: None });
    }

    /// Records a request from outside that was not carried out.
    fn refuse_input(&mut self, event: &Event, refusal: Refusal) {
        if let Some((instance, what, by)) = super::people::request(event)
            && self.get(instance).is_some()
        {
            let failure = Failure::new(super::fact::FailureKind::Denied, refusal.message.clone());
            self.put(instance, Fact::Refused { thread: None, place: None, what, failure, by });
        }
        self.refusal = Some(refusal);
    }
}

impl Store for Draft<'_> {
    fn instance_mut(&mut self, id: InstanceId) -> Option<&mut Instance> {
        self.touched.change(id, || self.run.instance(id).cloned())
    }

    fn purses_mut(&mut self, id: InstanceId) -> Option<&mut BudgetMeters> {
        self.purses.change(id, || self.run.purses(id).cloned())
    }

    fn parent(&self, id: InstanceId) -> Option<InstanceId> {
        self.get(id).and_then(|instance| instance.parent).map(|(parent, _)| parent)
    }

    fn depth(&self, id: InstanceId) -> u32 {
        self.get(id).map_or(0, |instance| instance.depth)
    }

    fn add(&mut self, instance: Instance, purses: BudgetMeters) {
        let id = instance.id;
        self.purses.change(id, || Some(purses));
        self.touched.change(id, || Some(instance));
        self.count += 1;
    }
}
