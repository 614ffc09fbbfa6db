//! Finds the cycles of a plan, each with its path.
//!
//! One walk along the dependencies, in plan order, with its own stack: it never recurses and
//! looks at each arrow once. Two cycles that share a task on the walk are told as one, so the
//! paths together are never longer than the plan; every knot of tasks yields at least one.

use super::{Edges, TaskIndex};

/// The cycles among the tasks that `settled` leaves out. A path follows task to dependency and
/// closes on its first task.
pub(super) fn find(depends: &Edges, settled: &[TaskIndex]) -> Vec<Vec<TaskIndex>> {
    let mut walk =
        Walk { depends, marks: vec![Mark::Fresh; depends.tasks()], stack: Vec::new(), cycles: Vec::new() };
    for place in settled {
        walk.marks[place.index()] = Mark::Left;
    }
    for start in (0..depends.tasks()).map(TaskIndex::at) {
        walk.from(start);
    }
    walk.cycles
}

#[derive(Clone, Copy)]
enum Mark {
    Fresh,
    /// On the stack, at this depth.
    Open(usize),
    Left,
}

struct Frame {
    place: TaskIndex,
    /// Which of its dependencies comes next.
    next: usize,
    /// How much of the stack, from the bottom, ends in a task that is already on a told cycle.
    told: usize,
}

struct Walk<'a> {
    depends: &'a Edges,
    marks: Vec<Mark>,
    stack: Vec<Frame>,
    cycles: Vec<Vec<TaskIndex>>,
}

impl Walk<'_> {
    fn from(&mut self, start: TaskIndex) {
        self.enter(start);
        while let Some(frame) = self.stack.last_mut() {
            match self.depends.of(frame.place).get(frame.next) {
                Some(&target) => {
                    frame.next += 1;
                    self.enter(target);
                }
                None => {
                    self.marks[frame.place.index()] = Mark::Left;
                    self.stack.pop();
                }
            }
        }
    }

    fn enter(&mut self, place: TaskIndex) {
        match self.marks[place.index()] {
            Mark::Left => {}
            Mark::Open(depth) => self.close(depth),
            Mark::Fresh => {
                self.marks[place.index()] = Mark::Open(self.stack.len());
                let told = self.stack.last().map_or(0, |frame| frame.told);
                self.stack.push(Frame { place, next: 0, told });
            }
        }
    }

    /// The top of the stack depends on the task at `depth`.
    fn close(&mut self, depth: usize) {
        if self.stack.last().is_some_and(|top| top.told > depth) {
            return;
        }
        let mut path = Vec::with_capacity(self.stack.len() - depth + 1);
        for (at, frame) in self.stack.iter_mut().enumerate().skip(depth) {
            frame.told = at + 1;
            path.push(frame.place);
        }
        path.extend(path.first().copied());
        self.cycles.push(path);
    }
}
