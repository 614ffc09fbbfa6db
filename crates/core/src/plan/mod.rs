//! The plan: which tasks there are, what each depends on, and what may start now.
//!
//! A [`Graph`] is made once from the plan's own words and is right by construction: every
//! dependency names a task and no task waits for itself. It never holds a status; [`PlanProgress`]
//! does. Nothing here recurses, so a chain may be as long as a plan may be.

mod cycles;
mod problem;
mod progress;

use std::collections::BTreeMap;

pub use problem::{PlanProblem, Problems};
pub use progress::{
    Cascade, CascadeState, MAX_ROOTS, PlanProgress, TaskStatus, UnknownStatus, Unreachable, parse_status,
};

use crate::value::Name;

/// How many tasks a plan may have.
pub const MAX_TASKS: usize = 1_000_000;

/// How many dependencies all tasks of a plan may name together.
pub const MAX_DEPENDS: usize = 16_000_000;

/// Where a task stands in its plan; only the graph that gave it understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIndex(u32);

impl TaskIndex {
    /// Counted from zero, in plan order.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Places stay below [`MAX_TASKS`], which the graph checks first.
    const fn at(index: usize) -> TaskIndex {
        TaskIndex(index as u32)
    }
}

/// A seq as it is compared: a number where it reads as one, so that `001` is `1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seq<'a> {
    /// Reads as a whole number.
    Number(i64),
    /// Anything else, letter by letter.
    Word(&'a str),
}

impl Seq<'_> {
    /// Reads a seq. `None` where the text names no task: nothing, or the word `none`.
    pub fn read(text: &str) -> Option<Seq<'_>> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed == "none" {
            return None;
        }
        Some(trimmed.parse().map_or(Seq::Word(text), Seq::Number))
    }
}

/// The tasks of a plan and the arrows between them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    spelled: Vec<Name>,
    index: Index,
    depends: Edges,
    dependents: Edges,
    /// Every task after all that it depends on.
    order: Vec<TaskIndex>,
}

impl Graph {
    /// Makes the graph from each task's seq and what it depends on, or tells everything that is
    /// wrong with it. A dependency that is empty or `none` is no dependency; one named twice
    /// counts once.
    pub fn build<S, D, T>(tasks: &[(S, D)]) -> Result<Graph, Problems>
    where
        S: AsRef<str>,
        D: AsRef<[T]>,
        T: AsRef<str>,
    {
        within_limits(tasks.len(), tasks.iter().map(|(_, depends)| depends.as_ref().len()).sum())?;
        let mut problems = Vec::new();
        let spelled: Vec<Name> = tasks.iter().map(|(seq, _)| Name::from(seq.as_ref())).collect();
        let index = Index::build(&spelled, &mut problems);
        let depends = resolve(tasks, &spelled, &index, &mut problems);
        let dependents = depends.reversed();
        let order = settling_order(&depends, &dependents);
        if order.len() < spelled.len() {
            let cycles = cycles::find(&depends, &order);
            problems.extend(cycles.iter().map(|path| PlanProblem::Cycle { path: names(&spelled, path) }));
        }
        let graph = Graph { spelled, index, depends, dependents, order };
        if problems.is_empty() { Ok(graph) } else { Err(Problems(problems)) }
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.spelled.len()
    }

    /// Whether the plan has no task.
    pub fn is_empty(&self) -> bool {
        self.spelled.is_empty()
    }

    /// All tasks, in plan order.
    pub fn places(&self) -> impl ExactSizeIterator<Item = TaskIndex> + use<> {
        (0..self.spelled.len()).map(TaskIndex::at)
    }

    /// The task that a seq names, in any spelling.
    pub fn find(&self, seq: &str) -> Option<TaskIndex> {
        self.index.find(Seq::read(seq)?)
    }

    /// The seq as the plan spells it.
    pub fn seq(&self, place: TaskIndex) -> &Name {
        &self.spelled[place.index()]
    }

    /// What a task depends on, in the order the plan names it.
    pub fn depends(&self, place: TaskIndex) -> &[TaskIndex] {
        self.depends.of(place)
    }

    /// What depends on a task, in plan order.
    pub fn dependents(&self, place: TaskIndex) -> &[TaskIndex] {
        self.dependents.of(place)
    }

    /// Every task after all that it depends on.
    pub fn order(&self) -> &[TaskIndex] {
        &self.order
    }
}

/// Seqs to places. Numbers are dense in nearly every plan, so most of them are a plain table.
#[derive(Clone, Debug, Default)]
struct Index {
    dense: Vec<Option<TaskIndex>>,
    numbers: BTreeMap<i64, TaskIndex>,
    words: BTreeMap<Name, TaskIndex>,
}

impl Index {
    /// Enters every seq; of two that are the same, the first keeps it.
    fn build(spelled: &[Name], problems: &mut Vec<PlanProblem>) -> Index {
        let mut index = Index { dense: vec![None; spelled.len() * 2 + 1000], ..Index::default() };
        for (at, name) in spelled.iter().enumerate() {
            let Some(seq) = Seq::read(name) else {
                problems.push(PlanProblem::Unnamed { position: at + 1 });
                continue;
            };
            match index.find(seq) {
                Some(first) => problems.push(PlanProblem::Duplicate {
                    seq: name.clone(),
                    first: spelled[first.index()].clone(),
                }),
                None => index.enter(seq, TaskIndex::at(at)),
            }
        }
        index
    }

    fn enter(&mut self, seq: Seq<'_>, place: TaskIndex) {
        match seq {
            Seq::Number(number) => match self.slot(number) {
                Some(slot) => self.dense[slot] = Some(place),
                None => drop(self.numbers.insert(number, place)),
            },
            Seq::Word(word) => drop(self.words.insert(word.into(), place)),
        }
    }

    fn find(&self, seq: Seq<'_>) -> Option<TaskIndex> {
        match seq {
            Seq::Number(number) => match self.slot(number) {
                Some(slot) => self.dense[slot],
                None => self.numbers.get(&number).copied(),
            },
            Seq::Word(word) => self.words.get(word).copied(),
        }
    }

    fn slot(&self, number: i64) -> Option<usize> {
        usize::try_from(number).ok().filter(|slot| *slot < self.dense.len())
    }
}

/// Arrows from each task to others, all in one list: those of task `i` stand from `starts[i]` to
/// `starts[i + 1]`.
#[derive(Clone, Debug, Default)]
struct Edges {
    starts: Vec<u32>,
    targets: Vec<TaskIndex>,
}

impl Edges {
    fn of(&self, place: TaskIndex) -> &[TaskIndex] {
        let at = place.index();
        &self.targets[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    fn tasks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The same arrows, turned round; arrows into one task stand in plan order.
    fn reversed(&self) -> Edges {
        let mut starts = vec![0_u32; self.starts.len()];
        for target in &self.targets {
            starts[target.index() + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut targets = vec![TaskIndex(0); self.targets.len()];
        for source in (0..self.tasks()).map(TaskIndex::at) {
            for target in self.of(source) {
                let slot = &mut next[target.index()];
                targets[*slot as usize] = source;
                *slot += 1;
            }
        }
        Edges { starts, targets }
    }
}

fn within_limits(tasks: usize, depends: usize) -> Result<(), Problems> {
    let mut problems = Vec::new();
    if tasks > MAX_TASKS {
        problems.push(PlanProblem::TooManyTasks { count: tasks });
    }
    if depends > MAX_DEPENDS {
        problems.push(PlanProblem::TooManyDepends { count: depends });
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// Turns the words of each dependency into arrows, and keeps what cannot be one as a problem.
fn resolve<S, D, T>(
    tasks: &[(S, D)],
    spelled: &[Name],
    index: &Index,
    problems: &mut Vec<PlanProblem>,
) -> Edges
where
    D: AsRef<[T]>,
    T: AsRef<str>,
{
    let mut edges = Edges { starts: Vec::with_capacity(tasks.len() + 1), targets: Vec::new() };
    edges.starts.push(0);
    let mut named_by = vec![None; tasks.len()];
    for (at, (_, depends)) in tasks.iter().enumerate() {
        let task = TaskIndex::at(at);
        for text in depends.as_ref() {
            let text = text.as_ref();
            let Some(seq) = Seq::read(text) else { continue };
            match index.find(seq) {
                None => {
                    problems
                        .push(PlanProblem::Unknown { seq: spelled[at].clone(), depends: Name::from(text) });
                }
                Some(target) if named_by[target.index()] == Some(task) => {}
                Some(target) => {
                    named_by[target.index()] = Some(task);
                    if target == task {
                        problems.push(PlanProblem::Itself { seq: spelled[at].clone() });
                    } else {
                        edges.targets.push(target);
                    }
                }
            }
        }
        edges.starts.push(edges.targets.len() as u32);
    }
    edges
}

/// Every task after all that it depends on; tasks on a cycle, and all below one, are left out.
fn settling_order(depends: &Edges, dependents: &Edges) -> Vec<TaskIndex> {
    let mut waiting: Vec<usize> =
        (0..depends.tasks()).map(|at| depends.of(TaskIndex::at(at)).len()).collect();
    let mut order = Vec::with_capacity(waiting.len());
    order.extend((0..waiting.len()).filter(|at| waiting[*at] == 0).map(TaskIndex::at));
    let mut done = 0;
    while let Some(&place) = order.get(done) {
        done += 1;
        for child in dependents.of(place) {
            waiting[child.index()] -= 1;
            if waiting[child.index()] == 0 {
                order.push(*child);
            }
        }
    }
    order
}

fn names(spelled: &[Name], places: &[TaskIndex]) -> Vec<Name> {
    places.iter().map(|place| spelled[place.index()].clone()).collect()
}
