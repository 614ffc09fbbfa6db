//! A world for protocols: it answers every action, keeps the plan's progress, and remembers each
//! effect with the key under which it was asked for.
//!
//! An effect is done once per key, however often it is asked for; `check` tells of one that was not.
//! In memory it serves the simulation. With a ledger on disk it survives `kill -9`: a line is written
//! before an executor hears of the effect, and many processes may share it. It never decides what comes
//! next, and it plays no part in real work.

mod answers;
mod plot;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ftl_core::plan::{Graph, PlanProgress, TaskStatus};
use ftl_core::run::{Action, Usage};
use ftl_core::value::{Name, Value};
use serde::{Deserialize, Serialize};

pub use answers::{answer_type, plain, with};
pub use plot::{Fate, How, Plot, Task};

use crate::dice::Dice;

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    /// What the world is made of; the first line.
    Begun(Plot),
    /// An effect, and what was answered.
    Done(Box<Done>),
    /// Something that an agent has used for good.
    Spent { key: String, usage: Usage },
}

/// An effect that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Done {
    key: String,
    instance: u32,
    whom: String,
    effect: Effect,
    answer: Value,
}

/// What an action changes in the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    /// Nothing that a later answer depends on.
    Nothing,
    /// A task was begun.
    Begun(String),
    /// An instance works on a task.
    Placed(String),
    /// A task came to its end.
    Ended(String, bool),
    /// The work of a task is on the branch.
    Landed(String),
    /// What can no longer be reached is blocked.
    Propagated,
    /// What was blocked is tried again, and will do better.
    Revived,
}

/// A world. All its methods may be called from many threads.
#[derive(Debug)]
pub struct World {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Option<Ledger>,
    state: State,
}

/// What has become of a world.
#[derive(Debug)]
struct State {
    plot: Plot,
    progress: PlanProgress,
    places: BTreeMap<(String, u32), String>,
    counts: BTreeMap<(String, u32, String), u32>,
    revived: BTreeSet<String>,
    done: BTreeMap<String, Vec<Done>>,
    landed: BTreeMap<String, BTreeSet<String>>,
    spent: BTreeMap<String, Usage>,
}

impl World {
    /// A world that is gone with its process.
    pub fn in_memory(plot: Plot) -> World {
        World { inner: Mutex::new(Inner { ledger: None, state: State::new(plot) }) }
    }

    /// A new world in a file. Fails when the file is there already.
    pub fn create(path: &Path, plot: Plot) -> io::Result<World> {
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        let mut ledger = Ledger { file, read: 0 };
        ledger.write(&Line::Begun(plot.clone()))?;
        Ok(World { inner: Mutex::new(Inner { ledger: Some(ledger), state: State::new(plot) }) })
    }

    /// The world that a file tells of. A last line that was cut off never happened.
    pub fn open(path: &Path) -> io::Result<World> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        let mut ledger = Ledger { file, read: 0 };
        ledger.file.lock()?;
        let lines = ledger.news();
        let unlocked = ledger.file.unlock();
        let mut lines = lines?.into_iter();
        unlocked?;
        let Some(Line::Begun(plot)) = lines.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ledger has no beginning"));
        };
        let mut state = State::new(plot);
        lines.for_each(|line| state.fold(line));
        Ok(World { inner: Mutex::new(Inner { ledger: Some(ledger), state }) })
    }

    /// Does what an action asks for, unless it was done under that key before, and answers.
    pub fn perform(&self, key: &str, action: &Action) -> io::Result<Value> {
        self.write(|state| match state.done.get(key).and_then(|done| done.first()) {
            Some(done) => (done.answer.clone(), None),
            None => {
                let done = state.work(key, action);
                (done.answer.clone(), Some(Line::Done(Box::new(done))))
            }
        })
    }

    /// As an executor that does not look first whether it was done already: what `check` must find.
    pub fn perform_blindly(&self, key: &str, action: &Action) -> io::Result<Value> {
        self.write(|state| {
            let done = state.work(key, action);
            (done.answer.clone(), Some(Line::Done(Box::new(done))))
        })
    }

    /// Whether something was done under that key.
    pub fn has_done(&self, key: &str) -> bool {
        self.inner().state.done.contains_key(key)
    }

    /// Remembers that an agent has used something for good. To be said before the engine hears of it.
    pub fn spend(&self, key: &str, usage: &Usage) -> io::Result<()> {
        self.write(|_| ((), Some(Line::Spent { key: key.to_owned(), usage: usage.clone() })))
    }

    /// Everything that agents have used for good.
    pub fn spent(&self) -> Usage {
        let inner = self.inner();
        let mut all = Usage::new();
        for (name, amount) in inner.state.spent.values().flatten() {
            let sum: &mut u64 = all.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        all
    }

    /// What the agent of an action uses, turn by turn: it comes from the seed, the task and the step,
    /// not from what happened before. No turn uses more than the reservation.
    pub fn turns(&self, key: &str, action: &Action, reserve: &Usage) -> Vec<Usage> {
        let inner = self.inner();
        let task = inner.state.task_of(key, action).unwrap_or_default();
        let step = action.params.get("step").and_then(Value::as_text).unwrap_or_default();
        let name = format!("{task} {} {step}", answers::whom(action));
        let mut dice = Dice::for_name(inner.state.plot.seed, &name);
        let count = dice.between(1, 3);
        let mut turn = || reserve.iter().map(|(name, most)| (name.clone(), dice.below(most + 1))).collect();
        (0..count).map(|_| turn()).collect()
    }

    /// How every task stands, in the order of the plan.
    pub fn verdicts(&self) -> Vec<(String, TaskStatus)> {
        let inner = self.inner();
        let progress = &inner.state.progress;
        let verdict = |place| (progress.graph().seq(place).to_string(), progress.status(place));
        progress.graph().places().map(verdict).collect()
    }

    /// Effects that were done more than once under one key.
    pub fn effects_twice(&self) -> Vec<String> {
        let inner = self.inner();
        let twice = inner.state.done.iter().filter(|(_, done)| done.len() > 1);
        twice
            .map(|(key, done)| format!("{} was done {} times under {key}", done[0].whom, done.len()))
            .collect()
    }

    /// Tasks whose work landed under more than one key.
    pub fn landed_twice(&self) -> Vec<String> {
        let inner = self.inner();
        let twice = inner.state.landed.iter().filter(|(_, keys)| keys.len() > 1);
        let told = |(seq, keys): (&String, &BTreeSet<String>)| {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            format!("task {seq} landed {} times: {}", keys.len(), keys.join(", "))
        };
        twice.map(told).collect()
    }

    /// Everything that was done more often than once.
    pub fn check(&self) -> Vec<String> {
        let mut found = self.effects_twice();
        found.extend(self.landed_twice());
        found
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the newest state and adds a line to it, under the lock of the file.
    fn write<T>(&self, change: impl FnOnce(&State) -> (T, Option<Line>)) -> io::Result<T> {
        let mut inner = self.inner();
        let Inner { ledger, state } = &mut *inner;
        let Some(ledger) = ledger else {
            let (told, line) = change(state);
            line.into_iter().for_each(|line| state.fold(line));
            return Ok(told);
        };
        ledger.file.lock()?;
        let written = ledger.news().and_then(|news| {
            news.into_iter().for_each(|line| state.fold(line));
            let (told, line) = change(state);
            if let Some(line) = line {
                ledger.write(&line)?;
                state.fold(line);
            }
            Ok(told)
        });
        ledger.file.unlock()?;
        written
    }
}

impl State {
    fn new(plot: Plot) -> State {
        let tasks: Vec<(&str, &[String])> =
            plot.tasks.iter().map(|task| (&*task.seq, &*task.depends)).collect();
        let empty: &[(&str, &[String])] = &[];
        let graph = Graph::build(&tasks).or_else(|_| Graph::build(empty));
        let progress = PlanProgress::new(Arc::new(graph.unwrap_or_default()));
        State {
            plot,
            progress,
            places: BTreeMap::new(),
            counts: BTreeMap::new(),
            revived: BTreeSet::new(),
            done: BTreeMap::new(),
            landed: BTreeMap::new(),
            spent: BTreeMap::new(),
        }
    }

    fn fold(&mut self, line: Line) {
        match line {
            Line::Begun(_) => {}
            Line::Spent { key, usage } => {
                let mine = self.spent.entry(key).or_default();
                for (name, amount) in usage {
                    let sum: &mut u64 = mine.entry(name).or_default();
                    *sum = sum.saturating_add(amount);
                }
            }
            Line::Done(done) => {
                self.change(&done);
                let (run, whom) = (run_of(&done.key), done.whom.clone());
                *self.counts.entry((run, done.instance, whom)).or_default() += 1;
                self.done.entry(done.key.clone()).or_default().push(*done);
            }
        }
    }

    fn change(&mut self, done: &Done) {
        match &done.effect {
            Effect::Nothing => {}
            Effect::Begun(seq) => settle(&mut self.progress, seq, TaskStatus::InProgress),
            Effect::Placed(seq) => {
                self.places.insert((run_of(&done.key), done.instance), seq.clone());
            }
            Effect::Ended(seq, true) => settle(&mut self.progress, seq, TaskStatus::Complete),
            Effect::Ended(seq, false) => settle(&mut self.progress, seq, TaskStatus::Blocked),
            Effect::Landed(seq) => {
                self.landed.entry(seq.clone()).or_default().insert(done.key.clone());
            }
            Effect::Propagated => {
                self.progress.propagate();
            }
            Effect::Revived => self.revive(),
        }
    }

    fn revive(&mut self) {
        let blocked: Vec<Name> = self.with_status(TaskStatus::Blocked).cloned().collect();
        for seq in blocked {
            settle(&mut self.progress, &seq, TaskStatus::Pending);
            self.revived.insert(seq.to_string());
        }
    }

    fn with_status(&self, status: TaskStatus) -> impl Iterator<Item = &Name> {
        let graph = self.progress.graph();
        graph
            .places()
            .filter(move |place| self.progress.status(*place) == status)
            .map(|place| graph.seq(place))
    }

    /// The task that an action is about.
    fn task_of(&self, key: &str, action: &Action) -> Option<String> {
        let named = action.params.get("task").and_then(Value::as_text).map(str::to_owned);
        named.or_else(|| self.places.get(&(run_of(key), action.instance.0)).cloned())
    }

    /// How often an instance has had that done.
    fn times(&self, key: &str, action: &Action) -> u32 {
        let counted = (run_of(key), action.instance.0, answers::whom(action));
        self.counts.get(&counted).copied().unwrap_or(0)
    }
}

/// The run that a key belongs to.
fn run_of(key: &str) -> String {
    key.split('.').next().unwrap_or_default().to_owned()
}

/// A file of lines.
#[derive(Debug)]
struct Ledger {
    file: File,
    read: u64,
}

impl Ledger {
    /// The lines that others have written since the last look. What a killed process has written only
    /// in part is cut off; the caller has the lock.
    fn news(&mut self) -> io::Result<Vec<Line>> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        self.file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            self.file.set_len(self.read + whole as u64)?;
        }
        self.read += whole as u64;
        let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::other)).collect()
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.read += text.len() as u64;
        Ok(())
    }
}

/// Gives a task a status; one that the plan does not have has none.
fn settle(progress: &mut PlanProgress, seq: &str, status: TaskStatus) {
    if let Some(place) = progress.graph().find(seq) {
        progress.settle_at(place, status);
    }
}

#[cfg(test)]
mod tests;
