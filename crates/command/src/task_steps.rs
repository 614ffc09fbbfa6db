//! What happened to one task, out of the journal: its path, what gates said of it, which lessons it got. The same for every face.

use std::collections::{BTreeMap, BTreeSet};

use ftl_core::catalogue::Catalogue;
use ftl_core::catalogue::declare::ActionKind;
use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, Answer, Entry, Fact, InstanceId};
use ftl_folder::id::RunId;
use ftl_store::journal::JournalError;
use ftl_view::lines;
use ftl_view::model::RunModel;
use ftl_view::model::tasks::plain;
use serde_json::{Value as Json, json};

use crate::follow::Runs;

/// How many steps of a path are given: the last ones.
pub const MAX_STEPS: usize = 500;

/// What is read of the journal about some instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSteps {
    /// A step each: entry, time, instance, from, to, how often it was there, why.
    pub path: Vec<Json>,
    /// What gates and landings answered: `{entry, at, action, value, instance}`.
    pub verdicts: Vec<Json>,
    /// What was asked of the lessons, in the same form.
    pub lessons: Vec<Json>,
}

/// The instances that worked on a task, in the order in which they were opened.
pub fn instances_of(model: &RunModel, seq: &str) -> Vec<InstanceId> {
    let all = model.board.machine().instances().iter().map(|one| one.id);
    all.filter(|one| model.board.task_of(*one) == Some(seq)).collect()
}

impl TaskSteps {
    /// Reads the journal of a run up to an entry, for some instances.
    pub fn read(
        runs: &Runs,
        run: &RunId,
        upto: u64,
        mine: &BTreeSet<InstanceId>,
    ) -> Result<TaskSteps, JournalError> {
        let mut reader = Reader::default();
        runs.scan(run, (0, upto), &mut |_, entry| {
            if mine.contains(&entry.instance) {
                reader.see(entry);
            }
        })?;
        let over = reader.steps.path.len().saturating_sub(MAX_STEPS);
        reader.steps.path.drain(..over);
        Ok(reader.steps)
    }
}

#[derive(Default)]
struct Reader {
    steps: TaskSteps,
    asked: BTreeMap<ActionId, Performer>,
    visits: BTreeMap<(InstanceId, String), u64>,
}

impl Reader {
    fn see(&mut self, entry: &Entry) {
        let (seq, at, instance) = (entry.seq, entry.at, entry.instance.0);
        match &entry.fact {
            Fact::Opened(opened) => {
                self.visits.insert((entry.instance, opened.state.to_string()), 1);
                self.steps.path.push(json!([seq, at, instance, null, opened.state, 1, ""]));
            }
            Fact::Moved { from, to, .. } => {
                let count = self.visits.entry((entry.instance, to.to_string())).or_default();
                *count += 1;
                let why = plain(&lines::what(&entry.fact));
                self.steps.path.push(json!([seq, at, instance, from, to, count, why]));
            }
            Fact::Asked { asks, .. } => {
                for (index, ask) in (0_u32..).zip(asks) {
                    self.asked.insert(ActionId { entry: seq, index }, ask.whom.clone());
                }
            }
            Fact::Heard { action, answer: Answer::Done(value), .. } => {
                let Some(name) = self.asked.get(action).and_then(Performer::action) else { return };
                let told =
                    json!({ "entry": seq, "at": at, "action": name, "value": value, "instance": instance });
                if name.starts_with("lesson.") || name.starts_with("memory.") {
                    self.steps.lessons.push(told);
                } else if is_gate(name) || matches!(name, "work.land" | "work.merge") {
                    self.steps.verdicts.push(told);
                }
            }
            Fact::Heard { .. } | Fact::Set { .. } | Fact::Emitted { .. } | Fact::Paid(_) => {}
            Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => {}
            Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } => {}
            Fact::Suspended { .. } | Fact::Held { .. } | Fact::Resumed { .. } => {}
            Fact::Adopted { .. } | Fact::Settled { .. } => {}
        }
    }
}

fn is_gate(name: &str) -> bool {
    Catalogue::standard().action(name).is_some_and(|action| action.kind == ActionKind::Gate)
}
