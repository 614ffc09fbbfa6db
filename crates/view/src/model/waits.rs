//! What a task waited for before it began: a file that another task held, or a slot.
//!
//! No entry says so. It follows from the plan, and from when tasks began and ended: a task whose parents have landed and that
//! would change a file which another one is changing is not begun before that one has ended.

use std::collections::{BTreeMap, BTreeSet};

use ftl_core::run::Time;
use ftl_core::value::Value;

use super::RunModel;
use super::timeline::{Bar, BarKind};

/// How many tasks that hold a file are looked at for one that waits.
const MAX_HOLDERS: usize = 64;

/// The shortest wait that is told, in milliseconds: less is the time of a round.
const MIN_WAIT: Time = 20;

/// From when to when.
type Span = (Time, Time);

impl RunModel {
    /// The bars of every task with what it waited for before it began; those of the flow itself stand under the empty name.
    pub fn bars(&self, now: Time) -> BTreeMap<String, Vec<Bar>> {
        let mut all: BTreeMap<String, Vec<Bar>> =
            self.timeline.rows().map(|(task, bars)| (task.to_owned(), bars.to_vec())).collect();
        let now =
            if self.board.end().is_some() { self.board.times.map_or(now, |(_, last)| last) } else { now };
        for (task, waits) in Waits::of(self, &all, now).bars() {
            let bars = all.entry(task).or_default();
            drop(bars.splice(0..0, waits));
        }
        all
    }
}

/// When each task began and ended, and which files it changes.
struct Waits {
    tasks: BTreeMap<String, Task>,
    /// The tasks that change a path.
    holders: BTreeMap<String, Vec<String>>,
    first: Time,
    now: Time,
}

struct Task {
    depends: Vec<String>,
    delta: Vec<String>,
    began: Option<Time>,
    ended: Option<Time>,
    /// Whether those that wait for it may begin.
    has_landed: bool,
    entry: u64,
}

impl Waits {
    fn of(model: &RunModel, bars: &BTreeMap<String, Vec<Bar>>, now: Time) -> Waits {
        let mut waits = Waits { tasks: BTreeMap::new(), holders: BTreeMap::new(), first: now, now };
        let plan = model.board.root().and_then(|root| root.tracked.get("plan"));
        let planned = plan.map(|plan| plan.field("tasks").items()).unwrap_or_default();
        let texts =
            |value: &Value| value.items().iter().filter_map(Value::as_text).map(bare).collect::<Vec<_>>();
        for task in planned {
            let Some(seq) = task.field("seq").as_text() else { continue };
            let mine = bars.get(seq).map(Vec::as_slice).unwrap_or_default();
            let began = mine.iter().map(|bar| bar.from).min();
            let is_open = mine.iter().any(|bar| bar.to.is_none());
            let ended = mine.iter().filter_map(|bar| bar.to).max().filter(|_| !is_open);
            let has_landed = model.board.last_of(seq).is_some_and(|one| model.board.commit_of(one).is_some());
            let delta = texts(task.field("delta"));
            for path in &delta {
                waits.holders.entry(path.clone()).or_default().push(seq.to_owned());
            }
            let depends = texts(task.field("depends"));
            let entry = mine.first().map_or(0, |bar| bar.entry);
            waits.first = waits.first.min(began.unwrap_or(now));
            waits.tasks.insert(seq.to_owned(), Task { depends, delta, began, ended, has_landed, entry });
        }
        waits
    }

    fn bars(&self) -> BTreeMap<String, Vec<Bar>> {
        let told = |(seq, task): (&String, &Task)| Some((seq.clone(), self.bars_of(seq, task)?));
        self.tasks.iter().filter_map(told).collect()
    }

    fn bars_of(&self, seq: &str, task: &Task) -> Option<Vec<Bar>> {
        let (from, to) = (self.ready(task)?, task.began.unwrap_or(self.now));
        if to < from + MIN_WAIT {
            return None;
        }
        let held = self.held(seq, task, (from, to));
        let mut bars = Vec::new();
        let mut at = from;
        let bar = |(from, to): Span, kind, what: &str| Bar {
            from,
            to: (to < self.now || task.began.is_some()).then_some(to),
            kind,
            what: what.to_owned(),
            entry: task.entry,
        };
        for ((begin, end), holder) in &held {
            if *begin > at {
                bars.push(bar((at, *begin), BarKind::Slot, "its turn"));
            }
            let begin = (*begin).max(at);
            if *end > begin {
                bars.push(bar((begin, *end), BarKind::File, holder));
                at = *end;
            }
        }
        if to > at {
            bars.push(bar((at, to), BarKind::Slot, "its turn"));
        }
        Some(bars)
    }

    /// When nothing but files and slots kept a task from beginning.
    fn ready(&self, task: &Task) -> Option<Time> {
        let mut ready = self.first;
        for seq in &task.depends {
            let parent = self.tasks.get(seq)?;
            ready = ready.max(parent.ended.filter(|_| parent.has_landed)?);
        }
        Some(ready)
    }

    /// When other tasks held a file of a task, within a span, by their begin.
    fn held(&self, seq: &str, task: &Task, (from, to): Span) -> Vec<(Span, String)> {
        let mut seen = BTreeSet::new();
        let mut held: Vec<(Span, String)> = Vec::new();
        for other in self.sharing(&task.delta).take(MAX_HOLDERS) {
            let Some(one) = self.tasks.get(other).filter(|_| other != seq && seen.insert(other)) else {
                continue;
            };
            let Some(began) = one.began.filter(|began| *began < to) else { continue };
            let ended = one.ended.unwrap_or(self.now);
            if ended > from {
                held.push(((began.max(from), ended.min(to)), other.to_owned()));
            }
        }
        held.sort();
        held
    }

    /// The tasks that change one of some paths, or something below or above one.
    fn sharing<'a>(&'a self, delta: &'a [String]) -> impl Iterator<Item = &'a str> {
        let holders = &self.holders;
        delta.iter().flat_map(move |path| {
            let above =
                std::iter::successors(Some(path.as_str()), |path| path.rsplit_once('/').map(|(up, _)| up));
            let above = above.filter_map(move |path| holders.get(path)).flatten();
            let (first, below) = (format!("{path}/"), format!("{path}/"));
            let below = holders.range(first..).take_while(move |(path, _)| path.starts_with(&below));
            above.chain(below.flat_map(|(_, all)| all)).map(String::as_str)
        })
    }
}

/// A path without what only says that it is a folder.
fn bare(path: &str) -> String {
    path.trim_start_matches("./").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(depends: &[&str], delta: &[&str], began: Option<Time>, ended: Option<Time>) -> Task {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Task {
            depends: texts(depends),
            delta: texts(delta),
            began,
            ended,
            has_landed: ended.is_some(),
            entry: 1,
        }
    }

    /// A wait: from when, until when, for what.
    type Wait = (Time, Option<Time>, BarKind);

    fn waits(tasks: Vec<(&str, Task)>, now: Time) -> Vec<(String, Vec<Wait>)> {
        let mut all = Waits { tasks: BTreeMap::new(), holders: BTreeMap::new(), first: now, now };
        for (seq, task) in tasks {
            for path in &task.delta {
                all.holders.entry(path.clone()).or_default().push(seq.to_owned());
            }
            all.first = all.first.min(task.began.unwrap_or(now));
            all.tasks.insert(seq.to_owned(), task);
        }
        let plain = |bars: Vec<Bar>| bars.into_iter().map(|bar| (bar.from, bar.to, bar.kind)).collect();
        all.bars().into_iter().map(|(seq, bars)| (seq, plain(bars))).collect()
    }

    #[test]
    fn a_task_waits_for_the_file_that_another_one_changes_and_then_for_its_turn() {
        let told = waits(
            vec![
                ("001", task(&[], &["lib/a.sh"], Some(100), Some(400))),
                ("002", task(&[], &["lib"], Some(500), None)),
                ("003", task(&["001"], &["b"], Some(410), None)),
            ],
            900,
        );
        let wanted = vec![(100, Some(400), BarKind::File), (400, Some(500), BarKind::Slot)];
        assert_eq!(told, [(String::from("002"), wanted)], "003 began at once");
    }

    #[test]
    fn a_task_whose_parent_has_not_landed_waits_for_no_file() {
        let told = waits(
            vec![("001", task(&[], &["a"], Some(100), None)), ("002", task(&["001"], &["a"], None, None))],
            900,
        );
        assert_eq!(told, []);
    }

    #[test]
    fn one_that_has_not_begun_waits_until_now() {
        let told = waits(
            vec![("001", task(&[], &["a"], Some(100), None)), ("002", task(&[], &["a"], None, None))],
            900,
        );
        assert_eq!(told, [(String::from("002"), vec![(100, None, BarKind::File)])]);
    }
}
