//! Which task begins next.
//!
//! Of a campaign's tasks that could begin, the one that most others wait for begins first, when an agent is free
//! for it and not before: so its brief shows what has landed until then, and what has failed. While the campaign
//! itself looks at its tasks none is let in: one that is more urgent may just be about to become ready. Tasks that
//! have begun never wait here.
//!
//! A free agent is kept for a task that was let in until that task asks for it, needs none, or has had its time.
//! Nothing here is ever needed to be right: after a crash it begins empty.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl_core::run::{ActionId, InstanceId};

use super::{Executor, Job};

/// How long an agent is kept for a task that was let in and has not asked for it yet.
pub const MAX_KEPT: Duration = Duration::from_secs(1);

/// How many tasks more than there are agents may wait to be let in, at least: there are as many as agents. Without them
/// an agent that becomes free would wait for a round of the campaign.
pub const MIN_AHEAD: usize = 8;

/// The same at most.
pub const MAX_AHEAD: usize = 64;

/// What a job is known by.
type Key = (InstanceId, ActionId);

/// The task that a job is for, and how much waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// The task's number; nothing where a job is for none, or that is not known.
    pub task: Option<String>,
    /// How much waits for it.
    pub urgency: usize,
}

/// What a job is to the question which task begins next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The job of an agent.
    Agent,
    /// The campaign enters what became of a task, or looks at all of them: both are over in a moment.
    Campaign,
    /// Something that takes long, and needs no agent.
    Build,
    /// A job that says nothing about the state of a task.
    Other,
}

/// A task that waits to be let in.
struct Waits {
    task: String,
    job: Job,
    hand: Arc<dyn Executor>,
}

/// Where a task is in the row: what most waits for comes first, and among equals the first that came.
type Turn = (Reverse<usize>, u64);

#[derive(Default)]
struct State {
    waiting: BTreeMap<Turn, Waits>,
    /// How many have come.
    count: u64,
    /// Jobs that are to begin a task and have not yet, and these tasks.
    asked: BTreeMap<Key, String>,
    tasks: Arc<BTreeSet<String>>,
    agents: BTreeSet<Key>,
    looking: BTreeSet<Key>,
    /// Tasks for which an agent is kept, and since when.
    kept: BTreeMap<String, Instant>,
    /// Whether one that waits may have been called off.
    is_called_off: bool,
    /// Whether everything that can ever be ready was asked to begin.
    is_complete: bool,
}

/// Decides which task of a campaign begins next, and when.
pub struct Admission {
    most: usize,
    state: Mutex<State>,
}

impl Admission {
    pub(super) fn new(most: usize) -> Admission {
        Admission { most, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks that were asked to begin, and have not yet. A caller that looks at the campaign too asks this
    /// first: a task leaves here only when it is entered there.
    pub fn waiting_tasks(&self) -> Arc<BTreeSet<String>> {
        self.lock().tasks.clone()
    }

    /// How many more tasks may be asked to begin. What the campaign names in one round, and so what its journal says of
    /// it, does not grow with its plan.
    pub fn room(&self) -> usize {
        let most = self.most + self.most.clamp(MIN_AHEAD, MAX_AHEAD);
        most.saturating_sub(self.lock().tasks.len())
    }

    /// A task is to begin: it waits until it is let in.
    pub(super) fn wait(&self, rank: Rank, job: Job, hand: Arc<dyn Executor>) {
        let mut state = self.lock();
        let key = (job.action.instance, job.action.id);
        let task = rank.task.unwrap_or_default();
        state.asked.insert(key, task.clone());
        Arc::make_mut(&mut state.tasks).insert(task.clone());
        state.count += 1;
        let turn = (Reverse(rank.urgency), state.count);
        state.waiting.insert(turn, Waits { task, job, hand });
    }

    /// A job begins that is no task's beginning.
    pub(super) fn begins(&self, part: Part, rank: &Rank, job: &Job) {
        let mut state = self.lock();
        let key = (job.action.instance, job.action.id);
        match part {
            Part::Agent => drop(state.agents.insert(key)),
            Part::Campaign => drop(state.looking.insert(key)),
            Part::Build | Part::Other => {}
        }
        match (&rank.task, part) {
            (_, Part::Other) => {}
            (Some(task), Part::Agent | Part::Build | Part::Campaign) => drop(state.kept.remove(task)),
            // Whose it is, is not known: it is most likely the one that has waited longest.
            (None, Part::Agent) => {
                let oldest = state.kept.iter().min_by_key(|(_, since)| **since).map(|(task, _)| task.clone());
                oldest.map(|task| state.kept.remove(&task));
            }
            (None, Part::Build | Part::Campaign) => {}
        }
    }

    /// Whether there are tasks that may become ready and were not asked to begin: else no task need be waited for.
    pub fn expect(&self, more: bool) {
        self.lock().is_complete = !more;
    }

    /// Some job was called off: one that waits would not hear of it.
    pub(super) fn called_off(&self) {
        self.lock().is_called_off = true;
    }

    /// The end of a job was heard.
    pub(super) fn on_end(&self, key: Key) {
        let mut state = self.lock();
        state.agents.remove(&key);
        state.looking.remove(&key);
        if let Some(task) = state.asked.remove(&key)
            && !state.asked.values().any(|other| *other == task)
        {
            Arc::make_mut(&mut state.tasks).remove(&task);
        }
    }

    /// Everything was heard, and all that follows from it has begun: the tasks that may begin now, the most urgent
    /// first, and those that were cancelled meanwhile.
    pub(super) fn let_in(&self, now: Instant) -> Vec<(Job, Arc<dyn Executor>)> {
        let mut state = self.lock();
        state.kept.retain(|_, since| now.duration_since(*since) < MAX_KEPT);
        let mut let_in = Vec::new();
        if std::mem::take(&mut state.is_called_off) {
            let gone = state.waiting.extract_if(.., |_, one| one.job.cancel.is_cancelled());
            let_in.extend(gone.map(|(_, one)| (one.job, one.hand)));
        }
        while (state.looking.is_empty() || state.is_complete)
            && state.agents.len() + state.kept.len() < self.most
            && let Some((_, next)) = state.waiting.pop_first()
        {
            state.kept.insert(next.task, now);
            let_in.push((next.job, next.hand));
        }
        let_in
    }
}

#[cfg(test)]
mod schedule;

#[cfg(test)]
mod tests {
    use super::super::{JobEnd, Report};
    use super::*;
    use ftl_core::run::{Action, ActionTarget};
    use ftl_core::value::{Name, Value};
    use ftl_folder::id::RunId;
    use ftl_process::Cancel;
    use std::sync::mpsc::channel;

    pub(super) struct Idle;

    impl Executor for Idle {
        fn perform(&self, _: &Job) -> Report {
            Report::free(JobEnd::Done(Value::None))
        }
    }

    pub(super) fn job(number: u64) -> Job {
        let (instance, id) = (InstanceId(0), ActionId { entry: number, index: 0 });
        let wanted = ActionTarget::Action(Name::from("workspace.create"));
        let action = Action { instance, id, wanted, params: Default::default(), forbidden: None };
        Job::new(RunId::of(1), action, Default::default(), Cancel::new(), channel().0)
    }

    pub(super) fn rank(number: u64, urgency: usize) -> Rank {
        Rank { task: Some(number.to_string()), urgency }
    }

    pub(super) fn key(number: u64) -> Key {
        (InstanceId(0), ActionId { entry: number, index: 0 })
    }

    struct Gate {
        admission: Admission,
        began: Instant,
    }

    impl Gate {
        /// Room for two, with these tasks before it: their numbers and how urgent they are.
        fn with(tasks: &[(u64, usize)]) -> Gate {
            let gate = Gate { admission: Admission::new(2), began: Instant::now() };
            tasks.iter().for_each(|(number, urgency)| gate.wait(*number, *urgency));
            gate
        }

        fn wait(&self, number: u64, urgency: usize) {
            self.admission.wait(rank(number, urgency), job(number), Arc::new(Idle));
        }

        fn let_in(&self, after: Duration) -> Vec<u64> {
            let all = self.admission.let_in(self.began + after);
            all.iter().map(|(job, _)| job.action.id.entry).collect()
        }

        /// A task that was let in has its brief, and its agent begins to work under that number.
        fn works(&self, task: u64, number: u64) {
            self.admission.on_end(key(task));
            self.admission.begins(Part::Agent, &rank(task, 0), &job(number));
        }
    }

    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn no_more_tasks_are_asked_to_begin_than_agents_need() {
        for (agents, most) in [(1, 1 + MIN_AHEAD), (20, 40), (1_000, 1_000 + MAX_AHEAD)] {
            let gate = Gate { admission: Admission::new(agents), began: Instant::now() };
            assert_eq!(gate.admission.room(), most, "{agents}");
            gate.wait(1, 1);
            assert_eq!(gate.admission.room(), most - 1, "{agents}");
            (2..=most as u64 + 3).for_each(|number| gate.wait(number, 1));
            assert_eq!(gate.admission.room(), 0, "{agents}");
        }
    }

    #[test]
    fn the_most_urgent_come_first_and_no_more_than_there_are_agents() {
        let gate = Gate::with(&[(1, 1), (2, 5), (3, 1), (4, 3)]);
        assert_eq!(gate.let_in(AT_ONCE), [2, 4]);
        assert_eq!(gate.let_in(AT_ONCE), [0; 0], "an agent is kept for each");
        assert_eq!(gate.admission.waiting_tasks().len(), 4);
        gate.works(2, 20);
        gate.works(4, 40);
        assert_eq!(*gate.admission.waiting_tasks(), BTreeSet::from(["1".to_owned(), "3".to_owned()]));
        assert_eq!(gate.let_in(MAX_KEPT), [0; 0], "both agents are at work");
        gate.admission.on_end(key(20));
        assert_eq!(gate.let_in(MAX_KEPT), [1], "of equal ones the first that came");
    }

    #[test]
    fn a_free_agent_waits_while_the_campaign_looks_at_its_tasks_and_for_nothing_else() {
        let gate = Gate::with(&[(1, 1)]);
        gate.admission.begins(Part::Campaign, &rank(9, 0), &job(9));
        assert_eq!(gate.let_in(MAX_KEPT), [0; 0]);
        // What ended has made another one ready.
        gate.wait(2, 7);
        gate.admission.on_end(key(9));
        assert_eq!(gate.let_in(MAX_KEPT), [2, 1]);
        let gate = Gate::with(&[(1, 1)]);
        gate.admission.begins(Part::Campaign, &rank(9, 0), &job(9));
        gate.admission.expect(false);
        assert_eq!(gate.let_in(AT_ONCE), [1], "nobody else can come");
        for part in [Part::Build, Part::Other] {
            let gate = Gate::with(&[(1, 1)]);
            gate.admission.begins(part, &Rank::default(), &job(9));
            assert_eq!(gate.let_in(AT_ONCE), [1], "{part:?}");
        }
    }

    #[test]
    fn an_agent_is_kept_until_it_is_asked_for_or_not_needed_or_for_its_time() {
        let two = [(1, 2), (2, 2), (3, 1), (4, 1)];
        let begun = || {
            let gate = Gate::with(&two);
            assert_eq!(gate.let_in(AT_ONCE), [1, 2]);
            [1, 2].iter().for_each(|task| gate.admission.on_end(key(*task)));
            gate
        };
        for part in [Part::Campaign, Part::Build] {
            let gate = begun();
            gate.admission.begins(part, &rank(1, 2), &job(10));
            gate.admission.on_end(key(10));
            assert_eq!(gate.let_in(AT_ONCE), [3], "{part:?}");
        }
        let gate = begun();
        gate.admission.begins(Part::Agent, &Rank::default(), &job(10));
        gate.admission.begins(Part::Agent, &Rank::default(), &job(11));
        assert_eq!(gate.let_in(AT_ONCE), [0; 0], "nobody knows whose they are: both were kept for");
        gate.admission.on_end(key(10));
        assert_eq!(gate.let_in(AT_ONCE), [3]);
        let gate = begun();
        assert_eq!(gate.let_in(MAX_KEPT - Duration::from_millis(1)), [0; 0]);
        assert_eq!(gate.let_in(MAX_KEPT), [3, 4], "they never came");
    }

    #[test]
    fn what_nobody_wants_any_more_does_not_wait() {
        let gate = Gate::with(&[]);
        gate.admission.begins(Part::Agent, &Rank::default(), &job(10));
        gate.admission.begins(Part::Agent, &Rank::default(), &job(11));
        let gone = job(1);
        let cancel = gone.cancel.clone();
        gate.admission.wait(rank(1, 1), gone, Arc::new(Idle));
        assert_eq!(gate.let_in(AT_ONCE), [0; 0]);
        cancel.cancel();
        gate.admission.called_off();
        assert_eq!(gate.let_in(AT_ONCE), [1], "its hand will say that it was cancelled");
        gate.admission.on_end(key(1));
        assert!(gate.admission.waiting_tasks().is_empty());
        // One that was called off is heard of after the same task was asked for again.
        let again = job(3);
        gate.wait(2, 1);
        gate.admission.wait(rank(2, 1), again, Arc::new(Idle));
        gate.admission.on_end(key(2));
        assert_eq!(gate.admission.waiting_tasks().len(), 1);
        gate.admission.on_end(key(3));
        assert!(gate.admission.waiting_tasks().is_empty());
    }
}
