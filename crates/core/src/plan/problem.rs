//! What can be wrong with a plan's graph, said in the plan's own spelling.

use std::error::Error;
use std::fmt;

use super::{MAX_DEPENDS, MAX_TASKS};
use crate::value::Name;

/// How many tasks of a cycle a message spells out; [`Problem::Cycle`] always holds all of them.
const CYCLE_SHOWN: usize = 100;

/// One thing that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanProblem {
    /// A task whose seq is empty or `none`, which nothing could name.
    Unnamed {
        /// Where it stands in the plan, counted from one.
        position: usize,
    },
    /// Two tasks with one seq.
    Duplicate {
        /// The later one, as it is spelled.
        seq: Name,
        /// The one that keeps the seq.
        first: Name,
    },
    /// A dependency on a task that is not in the plan.
    Unknown {
        /// The task that waits.
        seq: Name,
        /// The number of the task that it waits for.
        depends: Name,
    },
    /// A task that depends on itself.
    Itself {
        /// The task.
        seq: Name,
    },
    /// Tasks that wait for each other.
    Cycle {
        /// From task to dependency; the last is the first again.
        path: Vec<Name>,
    },
    /// More tasks than a plan may have.
    TooManyTasks {
        /// How many there are.
        count: usize,
    },
    /// More dependencies than a plan may name.
    TooManyDepends {
        /// How many there are.
        count: usize,
    },
}

impl PlanProblem {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            PlanProblem::Unnamed { .. } => "give the task a seq such as \"001\"".to_owned(),
            PlanProblem::Duplicate { seq, .. } => {
                format!(
                    "give one of them another seq; \"{seq}\" is compared as a number where it reads as one"
                )
            }
            PlanProblem::Unknown { depends, .. } => {
                format!("add a task {depends} to the plan, or take it out of \"depends\"")
            }
            PlanProblem::Itself { seq } => format!("take {seq} out of its own \"depends\""),
            PlanProblem::Cycle { .. } => "take out one of these dependencies, or split a task".to_owned(),
            PlanProblem::TooManyTasks { .. } | PlanProblem::TooManyDepends { .. } => {
                "split the plan into several campaigns".to_owned()
            }
        }
    }
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanProblem::Unnamed { position } => write!(out, "Task at position {position} has no seq"),
            PlanProblem::Duplicate { seq, first } if seq == first => write!(out, "Duplicate task seq: {seq}"),
            PlanProblem::Duplicate { seq, first } => {
                write!(out, "Duplicate task seq: {seq} (the same as {first})")
            }
            PlanProblem::Unknown { seq, depends } => {
                write!(out, "Task {seq} depends on unknown task {depends}")
            }
            PlanProblem::Itself { seq } => write!(out, "Task {seq} depends on itself"),
            PlanProblem::Cycle { path } => write_cycle(out, path),
            PlanProblem::TooManyTasks { count } => {
                write!(out, "Plan has {count} tasks; the limit is {MAX_TASKS}")
            }
            PlanProblem::TooManyDepends { count } => {
                write!(out, "Plan names {count} dependencies; the limit is {MAX_DEPENDS}")
            }
        }
    }
}

impl Error for PlanProblem {}

/// Everything that is wrong with a plan; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub(super) Vec<PlanProblem>);

impl Problems {
    /// Each problem, in the order of the plan; cycles last.
    pub fn iter(&self) -> std::slice::Iter<'_, PlanProblem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a PlanProblem;
    type IntoIter = std::slice::Iter<'a, PlanProblem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    /// One problem a line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            write!(out, "{gap}{problem}")?;
        }
        Ok(())
    }
}

impl Error for Problems {}

fn write_cycle(out: &mut fmt::Formatter<'_>, path: &[Name]) -> fmt::Result {
    write!(out, "Cycle detected in task dependencies: ")?;
    let hidden = path.len().saturating_sub(CYCLE_SHOWN);
    let (head, tail) = match hidden {
        0 => (path, &path[..0]),
        _ => (&path[..CYCLE_SHOWN - 1], &path[path.len() - 1..]),
    };
    write!(out, "{}", head.join(" → "))?;
    if hidden > 0 {
        write!(out, " → … {hidden} more … → {}", tail.join(" → "))?;
    }
    Ok(())
}
