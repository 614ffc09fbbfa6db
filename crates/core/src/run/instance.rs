//! Instances: one protocol at work, as the facts have made it.
//!
//! Nothing here decides. The parts that grow are shared, so that a copy of an instance is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::eval::Names;
use super::fact::{ActionId, End, Failure, FailureKind, InstanceId, ThreadId, Time, Usage, Waiver};
use super::map::Map;
use super::repeats::{Repeat, StepKey};
use crate::performer::Performer;
use crate::value::{Fields, Name, Number, Value};

/// How many counters a keyed meter may have.
pub const MAX_KEYS: usize = 1024;

/// An instance: one protocol at work in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its number in the run; the root is 0.
    pub id: InstanceId,
    /// The name of its protocol.
    pub protocol: Name,
    /// The digest of the protocol's document when it was opened.
    pub digest: Name,
    /// The instance and the action that opened it; the root has none.
    pub parent: Option<(InstanceId, ActionId)>,
    /// How deep it is in the tree; the root is 0.
    pub depth: u32,
    /// The values of its inputs.
    pub inputs: Arc<Fields>,
    /// The tracked variables, by name.
    pub tracked: Arc<Fields>,
    /// The meters of its protocol, by name.
    pub meters: Arc<BTreeMap<Name, Meter>>,
    /// The state that it is in.
    pub state: Name,
    /// The code of that state when it was entered.
    pub code: Name,
    /// The entry with which it came into that state from another one.
    pub visit: u64,
    /// The entry of its last move, also of one back to the same state.
    pub entered: u64,
    /// The last failures of its steps, where equal ones are counted.
    pub repeats: Map<StepKey, Repeat>,
    /// The parameters of its state.
    pub params: Arc<Fields>,
    /// The states it has been in, in the order of the first visit.
    pub visited: Arc<Vec<Name>>,
    /// Its lines of work.
    pub threads: Map<ThreadId, Arc<Thread>>,
    /// What it has asked for and not heard.
    pub open: Map<ActionId, Arc<Open>>,
    /// What was cancelled while something was set aside for it, until its last report.
    pub owed: Map<ActionId, Arc<Open>>,
    /// When something of what is open is due, with what it is.
    pub due: Map<(Time, ActionId), ()>,
    /// The FOR EACH that is waited for.
    pub each: Option<ActionId>,
    /// Items of a FOR EACH that ended and were not counted yet, by its place and the entry that said
    /// so.
    pub ended: Map<(u32, u64), Arc<ItemOutcome>>,
    /// Which lines of work are held, and where.
    pub held: Map<ThreadId, HeldAt>,
    /// How it ended, and what it handed over.
    pub end: Option<(End, Arc<Fields>)>,
    /// The waivers on the way.
    pub waivers: Arc<Vec<Waiver>>,
}

/// A counter with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// How much may be spent.
    pub limit: u64,
    /// Whether each key has a counter of its own.
    pub keyed: bool,
    /// What is spent, by key; a plain meter has the empty key.
    pub used: BTreeMap<Name, u64>,
}

impl Meter {
    /// The highest counter of all keys.
    pub fn highest_use(&self) -> u64 {
        self.used.values().copied().max().unwrap_or(0)
    }

    /// What is left of the largest counter.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.highest_use())
    }

    /// Whether each of the keys can be paid once, leaving some.
    pub fn can_pay(&self, keys: &[Name], keeping: u64) -> bool {
        let new = keys.iter().filter(|key| !self.used.contains_key(*key)).count();
        if self.used.len() + new > MAX_KEYS {
            return false;
        }
        let spent = |key: &Name| self.used.get(key).copied().unwrap_or(0);
        let times = |key: &Name| keys.iter().filter(|other| *other == key).count() as u64;
        keys.iter().all(|key| spent(key).saturating_add(times(key)).saturating_add(keeping) <= self.limit)
    }

    /// As a value: used, left, limit.
    pub fn value(&self) -> Value {
        let number = |amount| Value::Number(Number::count(amount));
        Value::record([
            ("used", number(self.highest_use())),
            ("left", number(self.left())),
            ("limit", number(self.limit)),
        ])
    }
}

/// A line of work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// The number of the statement that it waits at.
    pub place: u32,
    /// Names bound in this visit.
    pub locals: Fields,
    /// The result of the last step.
    pub last: Value,
    /// What could not be done last.
    pub failure: Option<Failure>,
    /// What could not be done, by the place of the step.
    pub failures: BTreeMap<u32, Failure>,
    /// The last WAIT for words that was passed.
    pub waited: Option<u32>,
    /// How many words a policy has said in this visit.
    pub spoken: u32,
    /// The state that a person asked for.
    pub wanted: Option<Name>,
    /// The waiver that is being carried out.
    pub waiving: Option<Arc<Waiving>>,
    /// The item of a FOR EACH that it works on.
    pub item: Option<ActionId>,
}

/// A waiver that is being carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiving {
    /// The state that the waived edge leads to.
    pub to: Name,
    /// The place of the GOTO.
    pub goto: u32,
    /// The number of the statement that the instance rested at.
    pub rested: u32,
    /// The person who asked for it.
    pub by: String,
    /// The reason that the person gave.
    pub reason: String,
    /// The hold that it ends, if the instance was held.
    pub held: Option<HeldAt>,
}

/// What was asked for and not heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Which line of work asked.
    pub thread: ThreadId,
    /// The place in the state.
    pub place: u32,
    /// The action, agent, protocol or person that was asked.
    pub whom: Performer,
    /// What it is called among its siblings.
    pub branch: Name,
    /// The digest of its parameters.
    pub digest: Name,
    /// What kind of thing it is.
    pub kind: OpenKind,
    /// How many attempts came to nothing: its agent or command died, or its agent did what it may not.
    pub died: u32,
    /// The call for which the agent of the last attempt was ended, where it made one that it may not make.
    pub forbidden: Option<Name>,
    /// Why the machine could not do it, where it waits for a person to mend that.
    pub held: Option<Failure>,
    /// Since when the time of a PARALLEL stands still, because one of its branches is held.
    pub paused: Option<Time>,
    /// What its tool calls have paid, by meter.
    pub paid: BTreeMap<Name, u64>,
    /// The files that its tool calls have paid for.
    pub files: BTreeSet<Name>,
    /// When to ask again, if its service does not answer.
    pub suspended: Option<(String, Time)>,
    /// What is set aside for it and not used.
    pub reserved: Usage,
    /// What was known when it was asked, so that it can be asked again with the same words.
    pub seen: ScopeSnapshot,
}

impl Open {
    /// When it is due: its service is asked again, or its time is over.
    pub fn due(&self) -> Option<Time> {
        match (&self.suspended, &self.kind) {
            (Some((_, until)), _) => Some(*until),
            (None, OpenKind::Parallel { until, .. }) => until.filter(|_| self.paused.is_none()),
            (None, OpenKind::Call | OpenKind::Child(_) | OpenKind::Words(_) | OpenKind::Question) => None,
            (None, OpenKind::Record | OpenKind::Item(_) | OpenKind::Each { .. }) => None,
        }
    }
}

/// What a line of work knew when it asked for something.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeSnapshot {
    /// The tracked variables then.
    pub tracked: Arc<Fields>,
    /// The meters then.
    pub meters: Arc<BTreeMap<Name, Meter>>,
    /// The parameters of its state.
    pub params: Arc<Fields>,
    /// The line of work.
    pub thread: Arc<Thread>,
}

/// What kind of thing was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum OpenKind {
    /// An action, an agent, a command.
    Call,
    /// An instance of another protocol; `None` until it is opened.
    Child(Option<InstanceId>),
    /// A word of a person.
    Words(Vec<Name>),
    /// An answer of a person.
    Question,
    /// The decision that a waiver records.
    Record,
    /// An item of a FOR EACH.
    Item(Name),
    /// The whole of a FOR EACH.
    Each {
        /// Whether one end is enough.
        any: bool,
    },
    /// The whole of a PARALLEL.
    Parallel {
        /// How many must succeed.
        quorum: u32,
        /// Branches whose success is a quorum by itself.
        critical: Vec<Name>,
        /// When the time is over.
        until: Option<Time>,
        /// The branches in order.
        branches: Vec<Name>,
        /// The answer of each branch so far, by its number.
        heard: BTreeMap<u32, Result<Value, Failure>>,
    },
}

/// An item of a FOR EACH that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemOutcome {
    /// The place of the FOR EACH.
    pub each: u32,
    /// The key of the item.
    pub key: Name,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Where and why an instance is held.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldAt {
    /// The place in the state.
    pub place: u32,
    /// The failure that no ELSE answered.
    pub failure: Failure,
    /// The meter that is spent, and whose it is.
    pub meter: Option<(InstanceId, Name)>,
    /// Whether only a waiver, a redo or a stop leads on.
    pub stuck: bool,
}

/// How an instance stands, beside its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Something is being done.
    Running,
    /// A person is waited for.
    Waiting,
    /// A service is waited for.
    Suspended,
    /// Stopped in place until a person speaks.
    Held,
    /// It ended, in this way.
    Settled(End),
}

impl Standing {
    /// The word that tables and JSON use.
    pub const fn word(self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Waiting => "waiting",
            Standing::Suspended => "suspended",
            Standing::Held => "held",
            Standing::Settled(end) => end.word(),
        }
    }
}

impl Instance {
    /// Works out how the instance stands from its end, its holds and what is open.
    pub fn standing(&self) -> Standing {
        if let Some((end, _)) = &self.end {
            return Standing::Settled(*end);
        }
        if self.held.get(&ThreadId::Main).is_some_and(|held| held.stuck) {
            return Standing::Held;
        }
        let works = |open: &&Arc<Open>| {
            let waits =
                matches!(open.kind, OpenKind::Each { .. } | OpenKind::Parallel { .. } | OpenKind::Item(_));
            !waits && open.held.is_none()
        };
        let person = |open: &Arc<Open>| matches!(open.kind, OpenKind::Words(_) | OpenKind::Question);
        let mut open = self.open.values().filter(works).peekable();
        if open.peek().is_none() {
            return if self.held.is_empty() { Standing::Running } else { Standing::Held };
        }
        if open.clone().all(person) {
            return Standing::Waiting;
        }
        if open.all(|open| open.suspended.is_some()) { Standing::Suspended } else { Standing::Running }
    }

    /// The actions of a line of work that are held because the machine could not do them.
    pub fn held_actions(&self, thread: &ThreadId) -> Vec<ActionId> {
        let held = self.open.iter().filter(|(_, open)| open.held.is_some() && open.thread == *thread);
        held.map(|(action, _)| *action).collect()
    }

    /// An action that is open, or cancelled and not yet accounted for.
    pub fn account(&self, action: ActionId) -> Option<&Arc<Open>> {
        self.open.get(&action).or_else(|| self.owed.get(&action))
    }

    /// When the next thing is due. Nothing is while it is held because its state has changed.
    pub fn next_due(&self) -> Option<Time> {
        let ((due, _), ()) = self.due.first()?;
        let changed = |held: &HeldAt| held.stuck && held.failure.kind == FailureKind::Stale;
        if self.held.get(&ThreadId::Main).is_some_and(changed) { None } else { Some(*due) }
    }

    /// Whether it has ended.
    pub fn is_settled(&self) -> bool {
        self.end.is_some()
    }

    /// The line of work.
    pub fn thread(&self, id: &ThreadId) -> Option<&Thread> {
        self.threads.get(id).map(|thread| &**thread)
    }

    /// The items of a FOR EACH that ended and were not counted yet, in the order of their ends.
    pub fn ended_items(&self, each: u32) -> impl Iterator<Item = (&(u32, u64), &Arc<ItemOutcome>)> {
        self.ended.starting_at(&(each, 0)).take_while(move |((place, _), _)| *place == each)
    }

    /// The keys of the items of a FOR EACH that run.
    pub fn running(&self, each: u32) -> impl Iterator<Item = &Name> {
        let first = ThreadId::Item { each, key: Name::default() };
        self.threads.starting_at(&first).map_while(move |(thread, _)| match thread {
            ThreadId::Item { each: place, key } if *place == each => Some(key),
            ThreadId::Item { .. } | ThreadId::Main => None,
        })
    }

    /// The names that a line of work sees.
    pub fn names<'a>(&'a self, thread: &'a ThreadId) -> Scope<'a> {
        Scope { instance: self, thread: self.thread(thread), failing: None }
    }
}

/// The names that a line of work sees.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    instance: &'a Instance,
    thread: Option<&'a Thread>,
    failing: Option<u32>,
}

impl Scope<'_> {
    /// The same in the ELSE of a step.
    pub fn failing(self, step: Option<u32>) -> Self {
        Scope { failing: step, ..self }
    }
}

impl Names for Scope<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        if let Some(thread) = self.thread {
            if let Some(value) = thread.locals.get(name) {
                return Some(value.clone());
            }
            if name == "failure" {
                let known = self.failing.and_then(|step| thread.failures.get(&step));
                return known.or(thread.failure.as_ref()).map(Failure::value);
            }
        }
        let instance = self.instance;
        let found = instance
            .params
            .get(name)
            .or_else(|| instance.tracked.get(name))
            .or_else(|| instance.inputs.get(name));
        found.cloned().or_else(|| instance.meters.get(name).map(Meter::value))
    }
}

/// A built-in meter of an instance: tokens, money, time, turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetMeter {
    /// How much may be used; `None` when only ancestors limit it.
    pub limit: Option<u64>,
    /// What was charged so far.
    pub used: u64,
    /// What is set aside.
    pub reserved: u64,
    /// How many amounts were worst cases, because the agent reported none.
    pub guessed: u64,
}

impl BudgetMeter {
    /// Whether so much more can be set aside.
    pub fn has(&self, amount: u64) -> bool {
        self.limit.is_none_or(|limit| self.used.saturating_add(self.reserved).saturating_add(amount) <= limit)
    }
}

/// The built-in meters of an instance.
pub type BudgetMeters = BTreeMap<Name, BudgetMeter>;
