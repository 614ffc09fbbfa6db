//! A run as every face shows it: one model that takes in entries, one at a time, and answers with rows.
//!
//! It is made of entries and of nothing else, so a page, a terminal and an exported file show the same, now and at any
//! earlier moment. An entry costs the same whatever came before it. A copy is cheap enough to be kept as a checkpoint. It
//! never asks the store, a clock or git, and a face computes nothing beside it.
//!
//! | module | what it holds |
//! |---|---|
//! | `tasks` | the tasks as rows of plain columns |
//! | `timeline` | what the time of each task went to |
//! | `ledger` | what was spent, by role and by task, with its parts |
//! | `waits` | what a task waited for before it began |
//! | `graph` | where each task stands in a drawing, and the critical path |

pub mod graph;
pub mod ledger;
pub mod tasks;
pub mod timeline;
mod waits;

use std::sync::Arc;

use ftl_core::program::Programs;
use ftl_core::run::{Entry, Fact, ThreadId};

use crate::board::Board;
use ledger::Ledger;
use timeline::Timeline;

/// A run as its journal has made it so far.
#[derive(Clone)]
pub struct RunModel {
    /// The tasks, steps and instances.
    pub board: Board,
    /// The bars of each task over time.
    pub timeline: Timeline,
    /// Tokens and money by role, by task and over time.
    pub ledger: Ledger,
}

impl RunModel {
    /// A model before the first entry of its run.
    pub fn new(programs: Arc<dyn Programs>) -> RunModel {
        RunModel { board: Board::new(programs), timeline: Timeline::default(), ledger: Ledger::default() }
    }

    /// The number of the last entry that is in it.
    pub fn at(&self) -> u64 {
        self.board.machine().next_seq() - 1
    }

    /// Takes in an entry; one that it has taken in before changes nothing.
    pub fn see(&mut self, entry: &Entry) {
        if !self.board.is_new(entry) {
            return;
        }
        // An instance belongs to its task from the entry on that opens it.
        let is_opening = matches!(entry.fact, Fact::Opened(_));
        if is_opening {
            self.board.see(entry);
        }
        let task = self.task_of(entry);
        self.timeline.see(entry, &task);
        self.ledger.see(entry, &task);
        if !is_opening {
            self.board.see(entry);
        }
    }

    /// The task that an entry is about: a flow that begins one speaks of it too.
    fn task_of(&self, entry: &Entry) -> String {
        if let Some(seq) = self.board.task_of(entry.instance) {
            return seq.to_owned();
        }
        let Fact::Asked { thread: ThreadId::Item { key, .. }, .. } = &entry.fact else {
            return String::new();
        };
        self.board.task_label(key).map_or_else(String::new, |_| key.to_string())
    }
}
