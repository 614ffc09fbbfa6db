//! What a person is told of when nobody looks: something waits for them, a task is blocked or has landed, a limit is near, a run
//! has ended.
//!
//! A notice is made of one entry and of the board that has taken it in. Nothing here knows how a person is reached, and none of
//! the words of an agent is in a notice but in its field `words`, which a person has to ask for.

use std::collections::BTreeMap;

use ftl_core::amount::Unit;
use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, End, Entry, Fact, Instance, InstanceId, Payment, ROOT, Run, ThreadId, Time};
use ftl_core::value::Value;
use serde::{Deserialize, Serialize};

use crate::board::Board;
use crate::cause::{cause, end_word};
use crate::model::tasks::plain;
use crate::needs::NEAR;
use crate::paint::one_line;
use crate::runs::instance_label;
use crate::summary::{RunWait, Summary, title};

/// The meters whose limit is told of: what is bought.
const BOUGHT: [&str; 4] = ["tokens", "money", "time", "turns"];

ftl_core::choices! {
    /// What kind of thing a person is told of.
    NoticeKind {
        /// Something waits for the person.
        NeedsYou = "needs_you",
        /// A task ended without success.
        Blocked = "blocked",
        /// Most of a limit is used.
        Limit = "limit",
        /// The work of a task has landed.
        Landed = "landed",
        /// A run has ended.
        Ended = "ended",
    }
}

/// Something that a person is told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What kind of thing it is.
    pub kind: NoticeKind,
    /// The run.
    pub run: String,
    /// The instance that it is about.
    pub instance: u32,
    /// The entry of the journal that tells it.
    pub entry: u64,
    /// When that was.
    pub at: Time,
    /// What happened, in words of our own.
    pub text: String,
    /// The words of a question, or why something is held or blocked: they may come from an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The command that looks at it.
    pub command: String,
    /// What waits, where something does: it is looked at again before it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
}

/// What waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// A question, or a word.
    Action(ActionId),
    /// A line of work that is held.
    Held(ThreadId),
}

impl Notice {
    /// A name that the same notice has whenever it is made again.
    pub fn key(&self) -> String {
        format!("{}/{:012}/{}", self.run, self.entry, self.kind.word())
    }

    /// The same with the words of its question, as the summary of its run has them.
    #[must_use]
    pub fn asked_in(mut self, summary: &Summary) -> Notice {
        if let Some(Waits::Action(action)) = &self.waits {
            let action = action.to_string();
            let fits =
                |wait: &&RunWait| wait.instance == self.instance && wait.action.as_ref() == Some(&action);
            let found = summary.waits.iter().find(fits).map(|wait| wait.text.clone());
            self.words = found.or(self.words);
        }
        self
    }

    /// Whether what it tells of is still so: a question may have been answered meanwhile.
    pub fn is_still_so(&self, run: &Run) -> bool {
        let Some(waits) = &self.waits else { return true };
        let Some(instance) = run.instance(InstanceId(self.instance)) else { return false };
        !instance.is_settled()
            && match waits {
                Waits::Action(action) => instance.open.contains_key(action),
                Waits::Held(thread) => instance.held.contains_key(thread),
            }
    }
}

/// Which limits have been told of: each once, until it is raised.
#[derive(Clone, Debug, Default)]
pub struct NearLimits(BTreeMap<String, u64>);

/// What an entry tells a person. The board has taken it in.
pub fn of_entry(board: &Board, run: &str, entry: &Entry, near: &mut NearLimits) -> Vec<Notice> {
    let about = About { board, run, entry };
    match &entry.fact {
        Fact::Held { thread, failure, .. } => {
            let words = plain(&cause(&failure.message));
            vec![about.needs("is held", Waits::Held(thread.clone()), words)]
        }
        Fact::Asked { asks, .. } => {
            let numbered = (0_u32..).zip(asks);
            let asked = numbered.filter(|(_, ask)| matches!(ask.whom, Performer::Question | Performer::Word));
            asked
                .map(|(index, _)| {
                    // The words of a question stand in no journal: whoever tells it looks for them.
                    about.needs("asks", Waits::Action(ActionId { entry: entry.seq, index }), String::new())
                })
                .collect()
        }
        Fact::Settled { end, .. } if entry.instance == ROOT => vec![about.ended(*end)],
        Fact::Settled { end, .. } => about.task_ended(*end).into_iter().collect(),
        Fact::Paid(Payment::Budget { .. }) => about.limits(near),
        Fact::Paid(Payment::Meter { .. } | Payment::Back { .. } | Payment::Attempts { .. }) => Vec::new(),
        Fact::Opened(_) | Fact::Heard { .. } | Fact::Set { .. } | Fact::Moved { .. } => Vec::new(),
        Fact::Emitted { .. } | Fact::Refilled { .. } | Fact::Reserved { .. } => Vec::new(),
        Fact::Released { .. } | Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } => {
            Vec::new()
        }
        Fact::Suspended { .. } | Fact::Resumed { .. } | Fact::Adopted { .. } => Vec::new(),
    }
}

/// An entry of a run.
struct About<'a> {
    board: &'a Board,
    run: &'a str,
    entry: &'a Entry,
}

impl About<'_> {
    fn instance(&self) -> Option<&Instance> {
        self.board.machine().instance(self.entry.instance)
    }

    /// The task that it is about, else the run itself.
    fn whom(&self) -> String {
        let task = self.board.task_of(self.entry.instance).and_then(|seq| self.board.task_label(seq));
        task.map_or_else(|| format!("run {}", self.run), |task| format!("task {}", one_line(&task)))
    }

    fn notice(&self, kind: NoticeKind, text: String, words: Option<String>) -> Notice {
        let Entry { seq, at, instance, .. } = *self.entry;
        Notice {
            kind,
            run: self.run.to_owned(),
            instance: instance.0,
            entry: seq,
            at,
            text,
            words: words.filter(|words| !words.trim().is_empty()),
            command: format!("ftl why {}", instance_label(self.run, instance.0)),
            waits: None,
        }
    }

    fn needs(&self, what: &str, waits: Waits, words: String) -> Notice {
        let state = self.instance().map_or("", |one| &*one.state);
        let text = format!("{} {what} in {state}", self.whom());
        Notice { waits: Some(waits), ..self.notice(NoticeKind::NeedsYou, text, Some(words)) }
    }

    fn ended(&self, end: End) -> Notice {
        let rows = self.board.rows();
        let landed = rows
            .iter()
            .filter(|row| self.board.last_of(&row.seq).is_some_and(|one| self.has_landed(one)))
            .count();
        let tasks = if rows.is_empty() {
            String::new()
        } else {
            format!(", {landed} of {} tasks landed", rows.len())
        };
        let title = self.board.root().map(title).unwrap_or_default();
        let words = (!title.is_empty()).then_some(title);
        self.notice(NoticeKind::Ended, format!("run {} ended: {}{tasks}", self.run, end_word(end)), words)
    }

    fn has_landed(&self, instance: InstanceId) -> bool {
        let ended = self.board.machine().instance(instance).and_then(|one| one.end.as_ref());
        ended.is_some_and(|(end, _)| *end == End::Complete)
    }

    fn task_ended(&self, end: End) -> Option<Notice> {
        let seq = self.board.task_of(self.entry.instance)?;
        // Children of a task end too; the task has with its own instance.
        if self.board.last_of(seq) != Some(self.entry.instance) {
            return None;
        }
        match end {
            End::Complete => Some(self.notice(NoticeKind::Landed, format!("{} landed", self.whom()), None)),
            End::Blocked | End::Escalated | End::Error => {
                let values = self.instance().and_then(|one| one.end.as_ref()).map(|(_, values)| values);
                let why = values.and_then(|values| values.get("reason")).and_then(Value::as_text);
                let why = why.map(|why| plain(&cause(why)));
                let text = format!("{} {}; its work is kept", self.whom(), end_word(end));
                Some(self.notice(NoticeKind::Blocked, text, why))
            }
            End::Stopped | End::Cancelled => None,
        }
    }

    fn limits(&self, near: &mut NearLimits) -> Vec<Notice> {
        let purses = self.board.machine().purses(ROOT);
        let mut told = Vec::new();
        for (meter, budget_meter) in purses.into_iter().flatten() {
            let Some(limit) = budget_meter.limit.filter(|limit| *limit > 0 && BOUGHT.contains(&&**meter))
            else {
                continue;
            };
            let is_near = u128::from(budget_meter.used) * 100 >= u128::from(limit) * u128::from(NEAR);
            if !is_near || near.0.insert(meter.to_string(), limit) == Some(limit) {
                continue;
            }
            let unit = Unit::of_meter(meter);
            let (used, limit) = (unit.show(budget_meter.used), unit.show(limit));
            let text = format!("run {} has used {used} of {limit} {meter}", self.run);
            told.push(Notice {
                instance: 0,
                command: format!("ftl why {}", self.run),
                ..self.notice(NoticeKind::Limit, text, None)
            });
        }
        // One entry may near several limits: one notice tells of all.
        let mut told = told.into_iter();
        let first = told.next();
        let joined = first.map(|first| {
            told.fold(first, |all, one| Notice { text: format!("{}; {}", all.text, one.text), ..all })
        });
        joined.into_iter().collect()
    }
}
