//! The index of a run: which of its instances are at work, held, due, or owe a last report.
//!
//! Most instances of a long run have ended, and no decision should have to look at them again. The index
//! is made by applying facts, like everything else of a run, and holds nothing that the instances
//! do not say; a decision that changes some of them looks at those beside it.

use std::collections::BTreeSet;

use super::fact::{InstanceId, Time};
use super::instance::Instance;

/// The instances of a run, by how they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// The instances that have not ended.
    pub(super) live: BTreeSet<InstanceId>,
    /// Those of which a line of work is held.
    pub(super) held: BTreeSet<InstanceId>,
    /// Those that wait for the last report of something they cancelled; they may have ended.
    pub(super) owing: BTreeSet<InstanceId>,
    /// When something is due in an instance, the earliest of each.
    due: BTreeSet<(Time, InstanceId)>,
}

/// What the index knows of an instance.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    live: bool,
    held: bool,
    owing: bool,
    due: Option<Time>,
}

impl Marks {
    pub(super) fn of(instance: Option<&Instance>) -> Marks {
        instance.map_or_else(Marks::default, |one| Marks {
            live: !one.is_settled(),
            held: !one.held.is_empty(),
            owing: !one.owed.is_empty(),
            due: one.next_due(),
        })
    }
}

impl Index {
    /// An instance has changed.
    pub(super) fn changed(&mut self, id: InstanceId, before: Marks, after: Marks) {
        if before == after {
            return;
        }
        mark(&mut self.live, id, after.live);
        mark(&mut self.held, id, after.held);
        mark(&mut self.owing, id, after.owing);
        if before.due != after.due {
            before.due.map(|due| self.due.remove(&(due, id)));
            after.due.map(|due| self.due.insert((due, id)));
        }
    }

    /// When the next thing is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The instances in which something is due by then.
    pub(super) fn due_by(&self, at: Time) -> impl Iterator<Item = InstanceId> {
        self.due.range(..=(at, InstanceId(u32::MAX))).map(|(_, id)| *id)
    }
}

fn mark(set: &mut BTreeSet<InstanceId>, id: InstanceId, is: bool) {
    if is {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
