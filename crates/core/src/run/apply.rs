//! Applying facts: the only thing that changes a run, live and in replay alike.
//!
//! It looks at nothing but the fact and what earlier facts have made. It cannot fail and cannot
//! refuse; a fact about something unknown changes nothing, and `verify` finds such journals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fact::{
    ActionId, Answer, Ask, Bind, Cause, End, Entry, Fact, Failure, Fan, InstanceId, Opened, Payment,
    ThreadId, Time, Usage, WHOLE, Waiver,
};
use super::instance::{
    BudgetMeters, HeldAt, Instance, ItemOutcome, Meter, Open, OpenKind, ScopeSnapshot, Thread, Waiving,
};
use super::map::Map;
use super::people::POLICY;
use crate::performer::Performer;
use crate::value::{Fields, Name, Value};

/// Where instances live: in a run, or in the draft of a decision.
pub(super) trait Store {
    /// The instance, to change it.
    fn instance_mut(&mut self, id: InstanceId) -> Option<&mut Instance>;
    /// Its built-in meters, to change them.
    fn purses_mut(&mut self, id: InstanceId) -> Option<&mut BudgetMeters>;
    /// Who opened it, and how deep it is.
    fn parent(&self, id: InstanceId) -> Option<InstanceId>;
    /// How deep an instance is.
    fn depth(&self, id: InstanceId) -> u32;
    /// Adds an instance that was opened, with its built-in meters.
    fn add(&mut self, instance: Instance, purses: BudgetMeters);
}

/// What an entry says about an answer.
struct About<'a> {
    /// The name that the answer is bound to.
    bind: Option<&'a Bind>,
    /// Whether its last report is still to come.
    cut: bool,
    /// The signature of the failure that it tells of.
    failing: Option<&'a Name>,
}

/// Changes the run by an entry; the entry is taken as true.
pub(super) fn apply(store: &mut dyn Store, entry: &Entry) {
    match &entry.fact {
        Fact::Opened(opened) => open(store, entry, opened),
        Fact::Reserved { action, usage } => reserve(store, entry.instance, *action, usage),
        Fact::Released { action } => release(store, entry.instance, *action),
        Fact::Paid(Payment::Budget { action, usage, guessed }) => {
            charge(store, entry.instance, *action, usage, guessed);
        }
        Fact::Raised { meter, limit, .. } => raise(store, entry.instance, meter, *limit),
        Fact::Paid(Payment::Meter { .. } | Payment::Back { .. } | Payment::Attempts { .. })
        | Fact::Asked { .. }
        | Fact::Heard { .. }
        | Fact::Set { .. }
        | Fact::Moved { .. }
        | Fact::Emitted { .. }
        | Fact::Refilled { .. }
        | Fact::Waived { .. }
        | Fact::Refused { .. }
        | Fact::Suspended { .. }
        | Fact::Held { .. }
        | Fact::Resumed { .. }
        | Fact::Adopted { .. }
        | Fact::Settled { .. } => {
            if let Some(instance) = store.instance_mut(entry.instance) {
                instance.apply(entry);
            }
        }
    }
}

fn open(store: &mut dyn Store, entry: &Entry, opened: &Opened) {
    let id = entry.instance;
    let depth = opened.parent.map_or(0, |(parent, _)| store.depth(parent) + 1);
    let meters = opened.meters.iter().map(|(name, limit)| {
        (name.clone(), Meter { limit: limit.limit, keyed: limit.keyed, used: BTreeMap::new() })
    });
    let limits = opened.terms.as_ref().map(|terms| terms.limits.clone()).unwrap_or_default();
    let purses = limits
        .into_iter()
        .map(|(name, limit)| {
            (name, super::instance::BudgetMeter { limit: Some(limit), ..Default::default() })
        })
        .collect();
    let instance = Instance {
        id,
        protocol: opened.protocol.clone(),
        digest: opened.digest.clone(),
        parent: opened.parent,
        depth,
        inputs: Arc::new(opened.inputs.clone()),
        tracked: Arc::new(opened.tracked.clone()),
        meters: Arc::new(meters.collect()),
        state: opened.state.clone(),
        code: opened.code.clone(),
        visit: entry.seq,
        entered: entry.seq,
        repeats: Map::new(),
        params: Arc::new(opened.params.clone()),
        visited: Arc::new(vec![opened.state.clone()]),
        threads: Map::from_iter([(ThreadId::Main, Arc::new(Thread::default()))]),
        open: Map::new(),
        owed: Map::new(),
        due: Map::new(),
        each: None,
        ended: Map::new(),
        held: Map::new(),
        end: None,
        waivers: Arc::default(),
    };
    store.add(instance, purses);
    if let Some((parent, action)) = opened.parent
        && let Some(open) = store.instance_mut(parent).and_then(|parent| parent.open.get_mut(&action))
    {
        Arc::make_mut(open).kind = OpenKind::Child(Some(id));
    }
}

/// Does something to the purses of an instance and of each of its ancestors.
fn up(store: &mut dyn Store, id: InstanceId, change: &dyn Fn(&mut BudgetMeters)) {
    let mut at = Some(id);
    while let Some(one) = at {
        if let Some(purses) = store.purses_mut(one) {
            change(purses);
        }
        at = store.parent(one);
    }
}

fn reserve(store: &mut dyn Store, id: InstanceId, action: ActionId, usage: &Usage) {
    if store.instance_mut(id).and_then(|one| one.account_mut(action)).is_none() {
        return;
    }
    up(store, id, &|purses| {
        for (name, amount) in usage {
            let budget_meter = purses.entry(name.clone()).or_default();
            budget_meter.reserved = budget_meter.reserved.saturating_add(*amount);
        }
    });
    if let Some(open) = store.instance_mut(id).and_then(|one| one.account_mut(action)) {
        let open = Arc::make_mut(open);
        for (name, amount) in usage {
            let mine = open.reserved.entry(name.clone()).or_default();
            *mine = mine.saturating_add(*amount);
        }
    }
}

fn release(store: &mut dyn Store, id: InstanceId, action: ActionId) {
    let Some(instance) = store.instance_mut(id) else { return };
    let Some(open) = instance.account_mut(action) else { return };
    let freed = std::mem::take(&mut Arc::make_mut(open).reserved);
    instance.owed.remove(&action);
    up(store, id, &|purses| {
        for (name, amount) in &freed {
            let budget_meter = purses.entry(name.clone()).or_default();
            budget_meter.reserved = budget_meter.reserved.saturating_sub(*amount);
        }
    });
}

/// Use is first taken from what was set aside for the action.
fn charge(store: &mut dyn Store, id: InstanceId, action: ActionId, usage: &Usage, guessed: &[Name]) {
    let mut covered = Usage::new();
    if let Some(open) = store.instance_mut(id).and_then(|one| one.account_mut(action)) {
        let open = Arc::make_mut(open);
        for (name, amount) in usage {
            let mine = open.reserved.entry(name.clone()).or_default();
            let part = (*mine).min(*amount);
            *mine -= part;
            covered.insert(name.clone(), part);
        }
    }
    up(store, id, &|purses| {
        for (name, amount) in usage {
            let budget_meter = purses.entry(name.clone()).or_default();
            budget_meter.reserved =
                budget_meter.reserved.saturating_sub(covered.get(name).copied().unwrap_or(0));
            budget_meter.used = budget_meter.used.saturating_add(*amount);
            budget_meter.guessed += u64::from(guessed.contains(name));
        }
    });
}

fn raise(store: &mut dyn Store, id: InstanceId, meter: &Name, limit: u64) {
    let Some(instance) = store.instance_mut(id) else { return };
    if let Some(meter) = Arc::make_mut(&mut instance.meters).get_mut(meter) {
        meter.limit = limit;
    } else if let Some(purses) = store.purses_mut(id) {
        purses.entry(meter.clone()).or_default().limit = Some(limit);
    }
}

impl Instance {
    fn apply(&mut self, entry: &Entry) {
        match &entry.fact {
            Fact::Asked { thread, place, asks, fan } => {
                self.note_asked(entry.seq, thread, *place, asks, fan.as_ref());
            }
            Fact::Heard { action, answer, bind, cut, failing, by } => {
                self.hear_people(*action, answer, by.as_deref());
                let about = About { bind: bind.as_ref(), cut: *cut, failing: failing.as_ref() };
                self.record_answer(entry.seq, *action, answer, &about);
            }
            Fact::Set { name, value } => {
                Arc::make_mut(&mut self.tracked).insert(name.clone(), value.clone());
            }
            Fact::Moved { from, to, code, params, cause } => {
                // A GOTO to the same state keeps what runs; a redo of it does not.
                if from != to || matches!(cause, Cause::Redo { .. }) {
                    self.leave_state(entry.seq);
                }
                self.entered = entry.seq;
                if matches!(cause, Cause::Redo { .. } | Cause::Waiver { .. }) {
                    self.repeats.clear();
                }
                self.moved(from, to, code, params, cause);
            }
            Fact::Paid(payment) => self.pay(payment),
            Fact::Refilled { meter, limit } => self.refilled(meter, *limit),
            Fact::Waived { to, place, by, reason, .. } => self.waived(to, *place, by, reason),
            Fact::Refused { thread: Some(thread), failure, by, place, .. } => {
                if let (Some(place), true) = (place, self.threads.contains_key(thread)) {
                    self.line(thread, |line| drop(line.failures.insert(*place, failure.clone())));
                }
                self.record_refusal(thread, failure, by.is_some());
            }
            Fact::Refused { thread: None, .. } => {}
            Fact::Suspended { action, service, until } => {
                self.change(*action, |open| open.suspended = Some((service.clone(), *until)));
            }
            Fact::Held { thread, place, failure, meter, stuck, action } => {
                self.line(thread, |line| line.place = *place);
                let held =
                    HeldAt { place: *place, failure: failure.clone(), meter: meter.clone(), stuck: *stuck };
                self.held.insert(thread.clone(), held);
                if let Some(action) = action {
                    self.action_held(*action, failure, entry.at);
                }
            }
            Fact::Resumed { action: Some(action), .. } => {
                self.change(*action, |open| open.suspended = None);
                self.action_resumed(*action, entry.at);
            }
            Fact::Resumed { action: None, thread, .. } => {
                self.held.remove(thread);
            }
            Fact::Adopted { state, code, visited, params, .. } => {
                self.params = Arc::new(params.clone());
                self.state = state.clone();
                self.code = code.clone();
                self.visited = Arc::new(visited.clone());
            }
            Fact::Settled { end, values, .. } => self.ended_as(*end, values),
            Fact::Opened(_) | Fact::Emitted { .. } | Fact::Reserved { .. } | Fact::Released { .. } => {}
            Fact::Raised { .. } => {}
        }
    }

    /// No work goes on in an ended child, and a campaign has a hundred thousand: what it knew is dropped. A root
    /// may be redone.
    fn ended_as(&mut self, end: End, values: &Fields) {
        self.end = Some((end, Arc::new(values.clone())));
        self.held.clear();
        self.drop_open(|_, _| true);
        self.threads.clear();
        self.ended.clear();
        self.repeats.clear();
        if self.parent.is_some() {
            (self.inputs, self.tracked, self.params) = Default::default();
        }
    }

    /// Counts what an action paid, or got back, and its attempts. BudgetMeters are the run's, not the instance's.
    fn pay(&mut self, payment: &Payment) {
        match payment {
            Payment::Meter { meter, keys, action, file } => {
                self.record_payment(meter, keys);
                if let Some(action) = action {
                    let count = keys.len() as u64;
                    self.change(*action, |open| {
                        *open.paid.entry(meter.clone()).or_default() += count;
                        open.files.extend(file.clone());
                    });
                }
            }
            Payment::Back { action, meter, count } => {
                self.given_back(meter, *count);
                self.change(*action, |open| {
                    open.paid.remove(meter);
                    open.files.clear();
                });
            }
            Payment::Attempts { action, message, forbidden } => self.change(*action, |open| {
                open.died += 1;
                open.forbidden = forbidden.then(|| Name::from(message.as_str()));
            }),
            Payment::Budget { .. } => {}
        }
    }

    /// An action waits until the machine is mended, and for no service any more: it would be asked again by itself.
    /// The time of its PARALLEL stands still meanwhile.
    fn action_held(&mut self, action: ActionId, failure: &Failure, at: Time) {
        self.change(action, |open| {
            open.held = Some(failure.clone());
            open.suspended = None;
        });
        let whole = ActionId { entry: action.entry, index: WHOLE };
        self.change(whole, |open| {
            open.paused.get_or_insert(at);
        });
    }

    /// An action is asked again. The time of its PARALLEL goes on when no branch is held any more.
    fn action_resumed(&mut self, action: ActionId, at: Time) {
        self.change(action, |open| open.held = None);
        let whole = ActionId { entry: action.entry, index: WHOLE };
        let first = ActionId { entry: action.entry, index: 0 };
        let mut siblings = self.open.starting_at(&first).take_while(|(one, _)| one.entry == action.entry);
        if siblings.any(|(_, open)| open.held.is_some()) {
            return;
        }
        self.change(whole, |open| {
            let stood = open.paused.take().map_or(0, |since| at.saturating_sub(since));
            if let OpenKind::Parallel { until: Some(until), .. } = &mut open.kind {
                *until = until.saturating_add(stood);
            }
        });
    }

    /// A line of work, to change it.
    fn line(&mut self, thread: &ThreadId, change: impl FnOnce(&mut Thread)) {
        match self.threads.get_mut(thread) {
            Some(line) => change(Arc::make_mut(line)),
            None => {
                let mut line = Thread::default();
                change(&mut line);
                self.threads.insert(thread.clone(), Arc::new(line));
            }
        }
    }

    fn account_mut(&mut self, action: ActionId) -> Option<&mut Arc<Open>> {
        match self.open.get_mut(&action) {
            Some(open) => Some(open),
            None => self.owed.get_mut(&action),
        }
    }

    /// Forgets what is not waited for any more. An agent that was cancelled still owes its last
    /// report, and what was set aside for it stays so until then.
    fn drop_open(&mut self, gone: impl Fn(&ActionId, &Open) -> bool) {
        let dropped: Vec<ActionId> =
            self.open.iter().filter(|(action, open)| gone(action, open)).map(|(action, _)| *action).collect();
        for action in dropped {
            if let Some(open) = self.take_open(action)
                && (open.whom.role().is_some() || open.reserved.values().any(|amount| *amount > 0))
            {
                self.owed.insert(action, open);
            }
        }
    }

    fn put_open(&mut self, action: ActionId, open: Open) {
        if let Some(due) = open.due() {
            self.due.insert((due, action), ());
        }
        self.open.insert(action, Arc::new(open));
    }

    fn take_open(&mut self, action: ActionId) -> Option<Arc<Open>> {
        let open = self.open.remove(&action)?;
        if let Some(due) = open.due() {
            self.due.remove(&(due, action));
        }
        self.each = self.each.filter(|each| *each != action);
        Some(open)
    }

    fn change(&mut self, action: ActionId, change: impl FnOnce(&mut Open)) {
        let Some(open) = self.open.get_mut(&action) else { return };
        let before = open.due();
        change(Arc::make_mut(open));
        let after = open.due();
        if before != after {
            before.and_then(|due| self.due.remove(&(due, action)));
            after.and_then(|due| self.due.insert((due, action), ()));
        }
    }

    fn note_asked(&mut self, entry: u64, thread: &ThreadId, place: u32, asks: &[Ask], fan: Option<&Fan>) {
        self.line(thread, |line| {
            line.place = place;
            if let Some(Fan::Words(_)) = fan {
                line.wanted = None;
            }
        });
        for (index, ask) in (0u32..).zip(asks) {
            let action = ActionId { entry, index };
            let kind = match fan {
                Some(Fan::Words(words)) => OpenKind::Words(words.clone()),
                Some(Fan::Record) => OpenKind::Record,
                Some(Fan::Each { item, items, .. }) => {
                    self.start_item(place, action, item, ask, items.get(index as usize));
                    OpenKind::Item(ask.branch.clone())
                }
                Some(Fan::Parallel { .. }) | None => match &ask.whom {
                    Performer::Run(_) => OpenKind::Child(None),
                    Performer::Question => OpenKind::Question,
                    Performer::Action(_) | Performer::Task(_) | Performer::Shell => OpenKind::Call,
                    Performer::Word | Performer::Item | Performer::All => OpenKind::Call,
                },
            };
            let owner = match (&kind, fan) {
                (OpenKind::Item(key), _) => ThreadId::Item { each: place, key: key.clone() },
                _ => thread.clone(),
            };
            self.put_open(action, opening(self.snapshot(&owner), owner, place, ask, kind));
        }
        let action = ActionId { entry, index: WHOLE };
        let whole = match fan {
            Some(Fan::Each { any, .. }) => {
                self.each = Some(action);
                OpenKind::Each { any: *any }
            }
            Some(Fan::Parallel { quorum, critical, until }) => OpenKind::Parallel {
                quorum: *quorum,
                critical: critical.clone(),
                until: *until,
                branches: asks.iter().map(|ask| ask.branch.clone()).collect(),
                heard: BTreeMap::new(),
            },
            Some(Fan::Words(_) | Fan::Record) | None => return,
        };
        let ask = Ask { whom: Performer::All, branch: Name::from("all"), digest: Name::default() };
        self.put_open(action, opening(self.snapshot(thread), thread.clone(), place, &ask, whole));
    }

    fn snapshot(&self, thread: &ThreadId) -> ScopeSnapshot {
        ScopeSnapshot {
            tracked: self.tracked.clone(),
            meters: self.meters.clone(),
            params: self.params.clone(),
            thread: self.threads.get(thread).cloned().unwrap_or_default(),
        }
    }

    /// An item sees what its state saw when it was started.
    fn start_item(&mut self, each: u32, action: ActionId, item: &Name, ask: &Ask, value: Option<&Value>) {
        let locals = self.thread(&ThreadId::Main).map(|main| main.locals.clone()).unwrap_or_default();
        let mut thread = Thread { locals, item: Some(action), ..Thread::default() };
        thread.locals.insert(item.clone(), value.cloned().unwrap_or_default());
        self.threads.insert(ThreadId::Item { each, key: ask.branch.clone() }, Arc::new(thread));
    }

    /// What a person tells is new to the steps that failed before: an answer, or a word with a reason.
    fn hear_people(&mut self, action: ActionId, answer: &Answer, by: Option<&str>) {
        let Some(open) = self.open.get(&action).filter(|_| by.is_some_and(|by| by != POLICY)) else { return };
        let is_told = match (&open.kind, answer) {
            (OpenKind::Question, _) => true,
            (OpenKind::Words(_), Answer::Done(said)) => {
                said.field("reason").as_text().is_some_and(|reason| !reason.is_empty())
            }
            (_, _) => false,
        };
        if is_told {
            self.repeats.clear();
        }
    }

    fn record_answer(&mut self, seq: u64, action: ActionId, answer: &Answer, about: &About<'_>) {
        let Some(open) = self.take_open(action) else { return };
        if about.cut {
            self.owed.insert(action, open.clone());
        }
        match &open.kind {
            OpenKind::Item(key) => {
                self.threads.remove(&open.thread);
                let failure = match answer {
                    Answer::Done(_) => None,
                    Answer::Failed(failure) => Some(failure.clone()),
                };
                let ended = ItemOutcome { each: open.place, key: key.clone(), failure };
                self.ended.insert((open.place, seq), Arc::new(ended));
                return;
            }
            OpenKind::Each { .. } => self.counted(open.place),
            OpenKind::Parallel { .. } => self.drop_open(|other, _| other.entry == action.entry),
            OpenKind::Call | OpenKind::Child(_) if self.gathers(action, answer) => return,
            OpenKind::Call | OpenKind::Child(_) => self.count_failure(&open, about.failing),
            OpenKind::Words(_) | OpenKind::Question | OpenKind::Record => {}
        }
        self.answered(&open, answer, about.bind);
    }

    /// The items of a FOR EACH that have ended are counted once.
    fn counted(&mut self, each: u32) {
        let ended: Vec<(u32, u64)> = self.ended_items(each).map(|(key, _)| *key).collect();
        for key in ended {
            self.ended.remove(&key);
        }
    }

    /// A branch of a PARALLEL is kept until the whole is heard.
    fn gathers(&mut self, action: ActionId, answer: &Answer) -> bool {
        let whole = ActionId { entry: action.entry, index: WHOLE };
        let Some(open) = self.open.get_mut(&whole) else { return false };
        if let OpenKind::Parallel { heard, .. } = &mut Arc::make_mut(open).kind {
            let result = match answer {
                Answer::Done(value) => Ok(value.clone()),
                Answer::Failed(failure) => Err(failure.clone()),
            };
            heard.insert(action.index, result);
        }
        true
    }

    fn answered(&mut self, open: &Open, answer: &Answer, bind: Option<&Bind>) {
        let words = matches!(open.kind, OpenKind::Words(_));
        let record = matches!(open.kind, OpenKind::Record);
        self.line(&open.thread, |thread| match answer {
            Answer::Failed(failure) => {
                thread.failure = Some(failure.clone());
                thread.failures.insert(open.place, failure.clone());
            }
            Answer::Done(value) => {
                if words {
                    thread.waited = Some(open.place);
                    thread.wanted = value.field("to").as_text().map(Name::from);
                    let policy = u32::from(value.field("by").as_text() == Some(POLICY));
                    thread.spoken = thread.spoken.saturating_add(policy);
                } else if !record {
                    thread.last = value.clone();
                }
                if let Some(bind) = bind.filter(|bind| !bind.tracked) {
                    thread.locals.insert(bind.name.clone(), value.clone());
                }
            }
        });
        if let (Some(bind), Answer::Done(value)) = (bind.filter(|bind| bind.tracked), answer) {
            Arc::make_mut(&mut self.tracked).insert(bind.name.clone(), value.clone());
        }
    }

    /// Leaving a state ends what it started.
    fn leave_state(&mut self, seq: u64) {
        self.drop_open(|_, _| true);
        self.held.clear();
        self.threads.clear();
        self.ended.clear();
        self.visit = seq;
    }

    fn moved(&mut self, from: &Name, to: &Name, code: &Name, params: &Fields, cause: &Cause) {
        self.drop_open(|_, open| open.thread == ThreadId::Main);
        self.held.remove(&ThreadId::Main);
        self.threads.insert(ThreadId::Main, Arc::new(Thread::default()));
        self.state = to.clone();
        self.code = code.clone();
        self.params = Arc::new(params.clone());
        self.end = None;
        let visited = Arc::make_mut(&mut self.visited);
        if let Cause::Redo { .. } = cause {
            let keep = visited.iter().position(|state| state == to).map_or(visited.len(), |index| index + 1);
            visited.truncate(keep);
        } else if !visited.contains(to) {
            visited.push(to.clone());
        }
        if let Cause::Waiver { by, reason, unmet, .. } = cause {
            Arc::make_mut(&mut self.waivers).push(Waiver {
                from: from.clone(),
                to: to.clone(),
                by: by.clone(),
                reason: reason.clone(),
                unmet: unmet.clone(),
            });
        }
    }

    fn record_payment(&mut self, meter: &Name, keys: &[Name]) {
        if let Some(meter) = Arc::make_mut(&mut self.meters).get_mut(meter) {
            for key in keys {
                *meter.used.entry(key.clone()).or_default() += 1;
            }
        }
    }

    /// Tool calls pay the counter without a key.
    fn given_back(&mut self, meter: &Name, count: u64) {
        if let Some(used) =
            Arc::make_mut(&mut self.meters).get_mut(meter).and_then(|meter| meter.used.get_mut(""))
        {
            *used = used.saturating_sub(count);
        }
    }

    fn refilled(&mut self, meter: &Name, limit: u64) {
        if let Some(meter) = Arc::make_mut(&mut self.meters).get_mut(meter) {
            meter.used.clear();
            meter.limit = limit;
        }
    }

    fn waived(&mut self, to: &Name, goto: u32, by: &str, reason: &str) {
        let held = self.held.remove(&ThreadId::Main);
        self.drop_open(|_, open| open.thread == ThreadId::Main);
        self.line(&ThreadId::Main, |thread| {
            let before = thread.waiving.take();
            let (rested, held) =
                before.map_or((thread.place, held), |before| (before.rested, before.held.clone()));
            let (to, by, reason) = (to.clone(), by.to_owned(), reason.to_owned());
            thread.waiving = Some(Arc::new(Waiving { to, goto, rested, by, reason, held }));
        });
    }

    /// What could not be done is known to the ELSE that answers it; a waiver that could not be
    /// carried out leaves everything as it was.
    fn record_refusal(&mut self, thread: &ThreadId, failure: &Failure, word: bool) {
        if !self.threads.contains_key(thread) {
            return;
        }
        let mut held = None;
        self.line(thread, |line| {
            if let Some(waiving) = line.waiving.take() {
                line.place = waiving.rested;
                held.clone_from(&waiving.held);
                return;
            }
            if word {
                // After a refusal no policy speaks any more in this visit.
                line.spoken = u32::MAX;
            }
            line.failure = Some(failure.clone());
        });
        if let Some(held) = held {
            self.held.insert(ThreadId::Main, held);
        }
    }
}

fn opening(seen: ScopeSnapshot, thread: ThreadId, place: u32, ask: &Ask, kind: OpenKind) -> Open {
    Open {
        thread,
        place,
        whom: ask.whom.clone(),
        branch: ask.branch.clone(),
        digest: ask.digest.clone(),
        kind,
        died: 0,
        forbidden: None,
        held: None,
        paused: None,
        paid: BTreeMap::new(),
        files: BTreeSet::new(),
        suspended: None,
        reserved: Usage::new(),
        seen,
    }
}
