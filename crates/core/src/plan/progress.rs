//! How far a plan has come: the status of each task, what is ready, what can never run.
//!
//! A status is what it was told; nothing here judges whether a task may take it. The ready set is
//! kept up to date with each change, at the cost of the task's own dependents. What can never run
//! is worked out when asked, in one pass over the plan.

use std::collections::BTreeSet;
use std::collections::btree_set::Iter;
use std::error::Error;
use std::fmt;
use std::iter::Copied;
use std::sync::Arc;

use super::{Graph, TaskIndex};
pub use crate::catalogue::campaign::{CascadeState, TaskStatus};
use crate::value::Name;

/// How many root causes are listed for one task.
pub const MAX_ROOTS: usize = 64;

/// A word that is no status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownStatus {
    /// The status, as the plan spells it.
    pub text: Name,
}

impl fmt::Display for UnknownStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = TaskStatus::WORDS.join(", ");
        write!(out, "Unknown task status: {} (one of {words})", self.text)
    }
}

impl Error for UnknownStatus {}

/// Reads the word of a status, as plans spell it.
pub fn parse_status(text: &str) -> Result<TaskStatus, UnknownStatus> {
    TaskStatus::parse(text).ok_or_else(|| UnknownStatus { text: text.into() })
}

/// A task that can never run as things stand: it waits, at any distance, for a blocked one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Where the task stands in the plan.
    pub place: TaskIndex,
    /// Its seq, as the plan spells it.
    pub seq: Name,
    /// Those of its own dependencies that are blocked or can never run either.
    pub blocked_by: Vec<Name>,
    /// The blocked tasks it all began with, in plan order, [`MAX_ROOTS`] at most.
    pub root_causes: Vec<Name>,
    /// Whether there are more root causes than are listed.
    pub more_causes: bool,
}

/// How the campaign stands, with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cascade {
    /// The campaign's state, as protocols read it.
    pub state: CascadeState,
    /// Tasks that are complete.
    pub complete: usize,
    /// Tasks that are blocked.
    pub blocked: usize,
    /// Tasks that wait, ready or not.
    pub pending: usize,
    /// Tasks that a builder works on.
    pub in_progress: usize,
    /// Tasks that may start.
    pub ready: usize,
    /// Tasks that can never run, whatever the state.
    pub unreachable: Vec<Unreachable>,
}

impl Cascade {
    /// How things stand; without a campaign the state is `none`.
    pub fn of(progress: Option<&PlanProgress>) -> Cascade {
        let Some(progress) = progress else {
            let unreachable = Vec::new();
            let state = CascadeState::None;
            return Cascade {
                state,
                complete: 0,
                blocked: 0,
                pending: 0,
                in_progress: 0,
                ready: 0,
                unreachable,
            };
        };
        let unreachable = progress.unreachable();
        Cascade {
            state: progress.state(!unreachable.is_empty()),
            complete: progress.count(TaskStatus::Complete),
            blocked: progress.count(TaskStatus::Blocked),
            pending: progress.count(TaskStatus::Pending),
            in_progress: progress.count(TaskStatus::InProgress),
            ready: progress.ready.len(),
            unreachable,
        }
    }
}

/// The status of every task of a plan.
#[derive(Clone, Debug)]
pub struct PlanProgress {
    graph: Arc<Graph>,
    statuses: Vec<TaskStatus>,
    /// For each task, how many of its dependencies are not complete.
    waiting: Vec<u32>,
    ready: BTreeSet<TaskIndex>,
    counts: [usize; TaskStatus::ALL.len()],
}

impl PlanProgress {
    /// A plan of which nothing is begun.
    pub fn new(graph: Arc<Graph>) -> PlanProgress {
        let waiting: Vec<u32> = graph.places().map(|place| graph.depends(place).len() as u32).collect();
        let ready = graph.places().filter(|place| waiting[place.index()] == 0).collect();
        let mut counts = [0; TaskStatus::ALL.len()];
        counts[TaskStatus::Pending as usize] = graph.len();
        PlanProgress { statuses: vec![TaskStatus::Pending; graph.len()], graph, waiting, ready, counts }
    }

    /// The graph of the plan's tasks.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The status of a task.
    pub fn status(&self, place: TaskIndex) -> TaskStatus {
        self.statuses[place.index()]
    }

    /// How many tasks stand there.
    pub fn count(&self, status: TaskStatus) -> usize {
        self.counts[status as usize]
    }

    /// Tasks that may start: they wait, and all they depend on is complete. In plan order.
    pub fn ready(&self) -> Copied<Iter<'_, TaskIndex>> {
        self.ready.iter().copied()
    }

    /// Whether a task may start.
    pub fn is_ready(&self, place: TaskIndex) -> bool {
        self.ready.contains(&place)
    }

    /// Gives a task a status and answers the one it had. Touches only the task's own dependents.
    pub fn settle_at(&mut self, place: TaskIndex, status: TaskStatus) -> TaskStatus {
        let before = std::mem::replace(&mut self.statuses[place.index()], status);
        if before == status {
            return before;
        }
        self.counts[before as usize] -= 1;
        self.counts[status as usize] += 1;
        self.refresh(place);
        let graph = Arc::clone(&self.graph);
        for child in graph.dependents(place) {
            let waiting = &mut self.waiting[child.index()];
            match (before, status) {
                (_, TaskStatus::Complete) => *waiting -= 1,
                (TaskStatus::Complete, _) => *waiting += 1,
                (TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Blocked, _) => break,
            }
            self.refresh(*child);
        }
        before
    }

    /// Every task that can never run as things stand, in plan order.
    pub fn unreachable(&self) -> Vec<Unreachable> {
        let causes = self.causes();
        let waits = |place: &TaskIndex| self.status(*place) == TaskStatus::Pending;
        let describe = |place| Some(self.describe(place, causes[TaskIndex::index(place)].as_ref()?, &causes));
        self.graph.places().filter(waits).filter_map(describe).collect()
    }

    /// The blocked tasks that every other blocked or unreachable task stands below, in plan order.
    pub fn root_causes(&self) -> Vec<TaskIndex> {
        let causes = self.causes();
        let is_root = |place: &TaskIndex| causes[place.index()].as_deref() == Some(&[*place]);
        self.graph
            .places()
            .filter(|place| self.status(*place) == TaskStatus::Blocked)
            .filter(is_root)
            .collect()
    }

    /// Blocks every task that can never run, and tells which. Safe at any time: none of them could
    /// have started.
    pub fn propagate(&mut self) -> Vec<Unreachable> {
        let unreachable = self.unreachable();
        for task in &unreachable {
            self.settle_at(task.place, TaskStatus::Blocked);
        }
        unreachable
    }

    fn state(&self, any_unreachable: bool) -> CascadeState {
        if !self.ready.is_empty() || self.count(TaskStatus::InProgress) > 0 {
            CascadeState::InProgress
        } else if self.count(TaskStatus::Pending) == 0 {
            CascadeState::Complete
        } else if any_unreachable {
            CascadeState::Stuck
        } else {
            CascadeState::AllBlocked
        }
    }

    fn refresh(&mut self, place: TaskIndex) {
        if self.status(place) == TaskStatus::Pending && self.waiting[place.index()] == 0 {
            self.ready.insert(place);
        } else {
            self.ready.remove(&place);
        }
    }

    fn describe(&self, place: TaskIndex, roots: &[TaskIndex], causes: &[Causes]) -> Unreachable {
        let name = |place: &TaskIndex| self.graph.seq(*place).clone();
        let blocks = |parent: &&TaskIndex| causes[parent.index()].is_some();
        Unreachable {
            place,
            seq: name(&place),
            blocked_by: self.graph.depends(place).iter().filter(blocks).map(name).collect(),
            root_causes: roots.iter().take(MAX_ROOTS).map(name).collect(),
            more_causes: roots.len() > MAX_ROOTS,
        }
    }

    /// For each task that is blocked or can never run, the blocked tasks it began with. A blocked
    /// task below another one never ran, so it is no beginning itself.
    fn causes(&self) -> Vec<Causes> {
        let mut causes: Vec<Causes> = vec![None; self.graph.len()];
        for &place in self.graph.order() {
            let own = match self.status(place) {
                TaskStatus::Complete | TaskStatus::InProgress => continue,
                TaskStatus::Pending => None,
                TaskStatus::Blocked => Some(Arc::from([place])),
            };
            let parents = self.graph.depends(place).iter();
            let inherited = parents
                .filter_map(|parent| causes[parent.index()].clone())
                .reduce(|left, right| joined(&left, &right));
            causes[place.index()] = inherited.or(own);
        }
        causes
    }
}

/// Sorted, and one longer than [`MAX_ROOTS`] where there are more. Shared along a chain.
type Causes = Option<Arc<[TaskIndex]>>;

fn joined(left: &Arc<[TaskIndex]>, right: &Arc<[TaskIndex]>) -> Arc<[TaskIndex]> {
    if Arc::ptr_eq(left, right) {
        return Arc::clone(left);
    }
    let both: BTreeSet<TaskIndex> = left.iter().chain(right.iter()).copied().collect();
    both.into_iter().take(MAX_ROOTS + 1).collect()
}
