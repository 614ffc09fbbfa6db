//! The plot of a world: its tasks and what will become of each.
//!
//! A fate comes from the seed and from the task alone, never from the order in which things happen,
//! so that a run that was killed and resumed comes to the same verdicts.

use ftl_core::value::Value;
use serde::{Deserialize, Serialize};

use crate::dice::Dice;

/// What a world is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plot {
    /// The number from which all fates follow.
    pub seed: u64,
    /// How many tasks in a hundred meet trouble.
    pub trouble: u64,
    /// The tasks of the campaign.
    pub tasks: Vec<Task>,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The task's number, such as `001`.
    pub seq: String,
    /// The numbers of the tasks that it waits for.
    pub depends: Vec<String>,
    /// The protocol and the mode in which it is done.
    pub how: How,
}

/// Who does a task, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A builder in full mode.
    Full,
    /// A builder in direct mode.
    Direct,
    /// The coder's protocol.
    Coder,
}

/// What becomes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Everything passes the first time.
    Smooth,
    /// The first look at the syntax, or the first review of a plan, finds something.
    BrokenOnce,
    /// The first verify or test is red; there is a remedy.
    RedOnce,
    /// The first landing meets a conflict.
    ConflictOnce,
    /// Verify is red for ever.
    Red,
    /// It is verified, and breaks an idiom; the architect gives it up.
    Unidiomatic,
    /// Its brief contradicts itself; no worktree can be opened.
    Unsound,
}

const TROUBLES: [Fate; 6] =
    [Fate::BrokenOnce, Fate::RedOnce, Fate::ConflictOnce, Fate::Red, Fate::Unidiomatic, Fate::Unsound];

impl Plot {
    /// A plot with tasks written as `003<001,002:coder`; the last word is `coder`, `direct` or left
    /// out.
    pub fn new(seed: u64, trouble: u64, tasks: &str) -> Plot {
        Plot { seed, trouble, tasks: tasks.split_whitespace().map(Task::read).collect() }
    }

    /// A random graph of at most so many tasks.
    pub fn random(seed: u64, trouble: u64, most: u64) -> Plot {
        let mut dice = Dice::for_name(seed, "plot");
        let count = dice.between(1, most.max(1));
        let mut tasks: Vec<Task> = Vec::new();
        for number in 1..=count {
            let how = match dice.below(10) {
                0..=2 => How::Direct,
                3..=4 => How::Coder,
                _ => How::Full,
            };
            let earlier: Vec<String> = tasks.iter().map(|task| task.seq.clone()).collect();
            let depends = earlier.into_iter().filter(|_| dice.chance(30)).collect();
            tasks.push(Task { seq: format!("{number:03}"), depends, how });
        }
        Plot { seed, trouble, tasks }
    }

    /// What becomes of a task.
    pub fn fate(&self, seq: &str) -> Fate {
        let mut dice = Dice::for_name(self.seed, seq);
        if !dice.chance(self.trouble) {
            return Fate::Smooth;
        }
        dice.pick(&TROUBLES).copied().unwrap_or(Fate::Smooth)
    }

    /// A task by its number.
    pub fn task(&self, seq: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.seq == seq)
    }

    /// The plan, as a planner would have written it.
    pub fn plan(&self) -> Value {
        let tasks = self.tasks.iter().map(|task| {
            Value::record([
                ("seq", Value::text(&task.seq)),
                ("slug", Value::text(format!("task-{}", task.seq))),
                ("delta", Value::list([Value::text("a.rs")])),
                ("verify", Value::text("true")),
            ])
        });
        Value::record([("objective", Value::text("all of it")), ("tasks", Value::list(tasks))])
    }
}

impl Task {
    fn read(text: &str) -> Task {
        let (text, how) = text.split_once(':').unwrap_or((text, ""));
        let how = match how {
            "coder" => How::Coder,
            "direct" => How::Direct,
            _ => How::Full,
        };
        let (seq, depends) = text.split_once('<').unwrap_or((text, ""));
        let depends = depends.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        Task { seq: seq.to_owned(), depends, how }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_reads_and_fates_belong_to_tasks() {
        let plot = Plot::new(3, 100, "001 002<001:direct 003<001,002:coder");
        assert_eq!(plot.tasks[2].depends, ["001", "002"]);
        assert_eq!((plot.tasks[1].how, plot.tasks[2].how), (How::Direct, How::Coder));
        let shorter = Plot::new(3, 100, "003");
        assert_eq!(plot.fate("003"), shorter.fate("003"));
        assert_eq!(Plot::new(3, 0, "003").fate("003"), Fate::Smooth);
        let fates = |seed| Plot::new(seed, 100, "001").fate("001");
        assert!((0..50).any(|seed| fates(seed) == Fate::Red) && (0..50).any(|seed| fates(seed) != Fate::Red));
    }

    #[test]
    fn random_plots_are_graphs() {
        for seed in 0..200 {
            let plot = Plot::random(seed, 50, 8);
            let tasks: Vec<(&str, &[String])> =
                plot.tasks.iter().map(|task| (&*task.seq, &*task.depends)).collect();
            assert!(ftl_core::plan::Graph::build(&tasks).is_ok(), "{seed}");
        }
    }
}
