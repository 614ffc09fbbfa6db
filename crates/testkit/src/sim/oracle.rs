//! The oracles: what must be true after every step, looked at from outside of the engine.
//!
//! They read what is durable, fold it on their own, and compare. They know the purses by their own
//! sums and not by the engine's. Each has a message of its own; none of them repairs anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ftl_core::run::{
    ActionId, Cause, End, Entry, Fact, InstanceId, OpenKind, Payment, ROOT, Run, Standing, Terms, Usage,
};
use ftl_core::value::{Name, Value};
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_store::journal;
use ftl_store::order::Reply;
use ftl_store::summary::{RunStanding, Summary};
use ftl_store::{Hash, MemoryStore, Store as _};

/// Above so many entries the whole state is compared at every `SELDOM`-th step only.
const LONG: u64 = 250;
const SELDOM: u64 = 16;

type Checked = Result<(), String>;

/// What is known from the durable journal alone.
pub(super) struct Oracle {
    disk: Arc<MemoryStore>,
    run: RunId,
    /// The journal folded, entry by entry, as it becomes durable.
    pub(super) shadow: Run,
    entries: Vec<Entry>,
    hash: Hash,
    epoch: u64,
    sums: Sums,
    /// Which decisions name a person, by the first entry of each.
    spoken: BTreeMap<String, BTreeSet<u64>>,
    orders: BTreeMap<u64, String>,
    answered: BTreeSet<u64>,
    waived: BTreeSet<(InstanceId, Name)>,
}

impl Oracle {
    pub(super) fn new(disk: Arc<MemoryStore>, run: RunId, library: Arc<Library>) -> Oracle {
        let hash = Hash::start(&run);
        Oracle {
            disk,
            run,
            shadow: Run::new(library),
            entries: Vec::new(),
            hash,
            epoch: 0,
            sums: Sums::default(),
            spoken: BTreeMap::new(),
            orders: BTreeMap::new(),
            answered: BTreeSet::new(),
            waived: BTreeSet::new(),
        }
    }

    /// The journal as far as it is durable.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// An order that was acknowledged, and the name in it; the body of a malformed one has no name.
    pub(super) fn sent(&mut self, number: u64, by: &str) {
        self.orders.insert(number, by.to_owned());
    }

    /// Reads what has become durable since the last look, and checks each entry.
    pub(super) fn read(&mut self) -> Checked {
        let wrong = |what: String| format!("journal: {what}");
        let after = self.entries.len() as u64;
        let records =
            self.disk.entries(&self.run, after, usize::MAX).map_err(|error| wrong(error.to_string()))?;
        for record in &records {
            let due = self.entries.len() as u64 + 1;
            self.hash = self.hash.then(record.seq, record.epoch, &record.body);
            if record.seq != due || record.hash != self.hash {
                return Err(wrong(format!("the chain breaks at entry {due}")));
            }
            if record.epoch < self.epoch {
                return Err(wrong(format!("entry {due} was written by an owner that had lost the run")));
            }
            self.epoch = record.epoch;
            let entry =
                journal::decode(&*self.disk, &self.run, record).map_err(|error| wrong(error.to_string()))?;
            self.fold(entry)?;
        }
        if records.is_empty() { Ok(()) } else { self.check_new() }
    }

    fn fold(&mut self, entry: Entry) -> Checked {
        self.check_move(&entry)?;
        self.sums.fold(&entry)?;
        if let Some(by) = speaker(&entry.fact) {
            let first = self.entries.iter().rposition(|one| one.first).map_or(1, |at| at as u64 + 1);
            let first = if entry.first { entry.seq } else { first };
            self.spoken.entry(by.to_owned()).or_default().insert(first);
        }
        self.shadow.apply(&entry);
        self.entries.push(entry);
        Ok(())
    }

    /// Every move is a declared edge, or a redo with a name and a reason.
    fn check_move(&mut self, entry: &Entry) -> Checked {
        match &entry.fact {
            Fact::Waived { to, by, reason, .. } if !by.is_empty() && !reason.is_empty() => {
                self.waived.insert((entry.instance, to.clone()));
                Ok(())
            }
            Fact::Waived { .. } => Err(format!("moves: entry {} waives and names nobody", entry.seq)),
            Fact::Moved { from, to, cause, .. } => self.check_edge(entry, from, to, cause),
            _ => Ok(()),
        }
    }

    fn check_edge(&self, entry: &Entry, from: &Name, to: &Name, cause: &Cause) -> Checked {
        let Some(instance) = self.shadow.instance(entry.instance) else {
            return Err(format!("moves: entry {} moves what is not there", entry.seq));
        };
        if instance.state != *from {
            return Err(format!("moves: entry {} leaves {from}, but it is in {}", entry.seq, instance.state));
        }
        let program = self.shadow.programs().program(&instance.protocol);
        let declared = program.is_some_and(|program| program.edges.contains(&(from.clone(), to.clone())));
        let named = match cause {
            Cause::Redo { by, reason } => {
                return if by.is_empty() || reason.is_empty() || !instance.visited.contains(to) {
                    Err(format!("moves: entry {} redoes without a name or a visit", entry.seq))
                } else {
                    Ok(())
                };
            }
            Cause::Waiver { .. } => self.waived.contains(&(entry.instance, to.clone())),
            Cause::Goto { .. } | Cause::Else { .. } | Cause::Limit { .. } => instance.end.is_none(),
        };
        if declared && named {
            return Ok(());
        }
        Err(format!("moves: entry {}: {} goes {from} → {to}, which is no edge", entry.seq, instance.protocol))
    }

    /// What must be true of the run after each new entry or batch of entries.
    fn check_new(&self) -> Checked {
        self.sums.check(&self.shadow)?;
        for instance in self.shadow.instances() {
            for (name, meter) in instance.meters.iter() {
                if meter.highest_use() > meter.limit {
                    return Err(format!("meters: {} overspent {name}", instance.protocol));
                }
            }
        }
        let row = self.disk.run(&self.run).ok().flatten();
        let Some(row) = row else { return Err(String::from("store: the run is gone")) };
        let settled = self.shadow.end().is_some();
        let summary: Summary = serde_json::from_str(&row.summary).unwrap_or_default();
        if row.settled != settled || summary.entry != row.head || row.head != self.entries.len() as u64 {
            return Err(format!("summary: it is of entry {} and the head is {}", summary.entry, row.head));
        }
        Ok(())
    }

    /// What a driver says that it has written is what is kept.
    pub(super) fn check_seen(&self, seen: &[Entry]) -> Checked {
        for entry in seen {
            let kept = self.entries.get(usize::try_from(entry.seq).unwrap_or(0).saturating_sub(1));
            if kept != Some(entry) {
                return Err(format!("replay: entry {} is kept otherwise than it was written", entry.seq));
            }
        }
        Ok(())
    }

    /// The live run is what its journal makes.
    pub(super) fn check_live(&self, live: &Run, step: u64) -> Checked {
        if live.next_seq() != self.shadow.next_seq() {
            let (live, kept) = (live.next_seq(), self.shadow.next_seq());
            return Err(format!("replay: the live run is at {live}, its journal at {kept}"));
        }
        let long = self.entries.len() as u64 > LONG;
        if (!long || step.is_multiple_of(SELDOM)) && !live.same_state(&self.shadow) {
            return Err(String::from("replay: the live run is not what its journal makes"));
        }
        Ok(())
    }

    /// Every action that the run waits for is at work, and none is that the machine could not do.
    pub(super) fn check_work(&self, works: &dyn Fn(InstanceId, ActionId) -> bool) -> Checked {
        for instance in self.shadow.live() {
            for (action, open) in instance.open.iter() {
                let asked = matches!(open.kind, OpenKind::Call | OpenKind::Record);
                let (id, whom) = (instance.id, &open.whom);
                let waits = asked && open.suspended.is_none() && open.held.is_none();
                if waits && !works(id, *action) {
                    return Err(format!("work: {id} waits for {whom} ({action}), and nobody is at it"));
                }
                if open.held.is_some() && works(id, *action) {
                    return Err(format!("work: {id} holds {whom} ({action}), and somebody is at it"));
                }
            }
        }
        Ok(())
    }

    /// Whether nothing is open that a process could move on.
    pub(super) fn rests(&self) -> bool {
        self.shadow.next_due().is_none() && self.check_work(&|_, _| false).is_ok()
    }

    /// Nothing moves any more: the run is settled, held, or a person is waited for.
    pub(super) fn check_rest(&self, summary: &Summary) -> Checked {
        self.check_work(&|_, _| false).map_err(|what| format!("rest: {what}"))?;
        let row = self.disk.run(&self.run).ok().flatten().map(|row| row.summary);
        if row != serde_json::to_string(summary).ok() {
            return Err(String::from("rest: the summary that is kept is not what the driver shows"));
        }
        if self.shadow.end().is_some() {
            let kept = self.sums.reserved();
            return if kept == 0 { Ok(()) } else { Err(format!("rest: {kept} is set aside for nobody")) };
        }
        let waits = |kind: &OpenKind| matches!(kind, OpenKind::Words(_) | OpenKind::Question);
        let person = self
            .shadow
            .live()
            .any(|one| !one.held.is_empty() || one.open.values().any(|open| waits(&open.kind)));
        if !person || !summary.rests() || summary.standing == RunStanding::Known(Standing::Running) {
            return Err(format!("rest: it is {} and no person is waited for", summary.standing));
        }
        Ok(())
    }

    /// An outcome that the run does not wait for is refused, and the journal says so.
    pub(super) fn check_refused(&self, after: u64, instance: InstanceId, action: ActionId) -> Checked {
        let wanted = format!("outcome of {action}");
        let new = self.entries.iter().skip(usize::try_from(after).unwrap_or(usize::MAX));
        let refused = |entry: &Entry| {
            entry.instance == instance && matches!(&entry.fact, Fact::Refused { what, .. } if *what == wanted)
        };
        if new.into_iter().any(refused) {
            return Ok(());
        }
        Err(format!("late: nobody waited for {action} of {instance}, and its outcome was not refused"))
    }

    /// Every order that was answered is in the journal once, and no other is.
    pub(super) fn check_orders(&mut self) -> Checked {
        let fresh: Vec<u64> =
            self.orders.keys().filter(|number| !self.answered.contains(number)).copied().collect();
        for number in fresh {
            let Ok(Some(text)) = self.disk.reply(number) else { continue };
            let reply: Reply = serde_json::from_str(&text).map_err(|error| format!("orders: {error}"))?;
            self.answered.insert(number);
            let by = &self.orders[&number];
            let Some(entry) = reply.entry else {
                if reply.refused.is_none() && !by.is_empty() {
                    return Err(format!("orders: {number} of {by} was carried out and left no entry"));
                }
                continue;
            };
            let heard = self.spoken.get(by).is_some_and(|entries| entries.contains(&entry));
            if !heard {
                return Err(format!("orders: {number} of {by} was answered, and entry {entry} is not of it"));
            }
        }
        for (by, entries) in &self.spoken {
            let taken =
                self.orders.iter().filter(|(number, name)| *name == by && self.answered.contains(number));
            if entries.len() > taken.count() {
                return Err(format!("orders: what {by} said was taken {} times", entries.len()));
            }
        }
        Ok(())
    }

    /// What agents have really used is charged, or at least set aside.
    pub(super) fn check_spent(&self, spent: &Usage) -> Checked {
        for (name, amount) in spent {
            let (used, reserved) = self.sums.of(ROOT, name);
            if *amount > used.saturating_add(reserved) {
                return Err(format!(
                    "charges: agents have used {amount} {name}; {used} is charged and {reserved} set aside"
                ));
            }
        }
        Ok(())
    }

    /// The whole journal, read again from its first byte, makes the same run, and today's protocols
    /// decide the same.
    pub(super) fn check_whole(&self) -> Checked {
        let entries = journal::load(&*self.disk, &self.run).map_err(|error| format!("journal: {error}"))?;
        let again = Run::replay(self.shadow.programs().clone(), &entries);
        if entries != self.entries || !again.same_state(&self.shadow) {
            return Err(String::from("replay: the whole journal makes another run"));
        }
        match Run::verify(self.shadow.programs().clone(), &entries) {
            Ok(_) => Ok(()),
            Err(found) => Err(format!("verify: entry {}: {}", found.seq, found.message)),
        }
    }

    /// What is still set aside for an action.
    pub(super) fn left(&self, instance: InstanceId, action: ActionId) -> Usage {
        let account = self.shadow.instance(instance).and_then(|one| one.account(action));
        account.map(|open| open.reserved.clone()).unwrap_or_default()
    }
}

/// Who is named by a fact that follows from an order at once.
fn speaker(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::Heard { by: Some(by), .. } => Some(by.as_str()).filter(|by| *by != ftl_core::run::POLICY),
        Fact::Raised { by, .. } | Fact::Waived { by, .. } => Some(by),
        Fact::Resumed { by: Some(by), .. } => Some(by),
        Fact::Moved { cause: Cause::Redo { by, .. }, .. } => Some(by),
        // What is refused later, because a step on the way failed, names a line of work.
        Fact::Refused { by: Some(by), thread: None, .. } => Some(by),
        Fact::Settled { end: End::Stopped, values, .. } => values.get("by").and_then(Value::as_text),
        _ => None,
    }
}

/// The sums of the built-in meters, made from the facts alone.
#[derive(Default)]
struct Sums {
    parents: BTreeMap<InstanceId, Option<InstanceId>>,
    purses: BTreeMap<(InstanceId, Name), Sum>,
    left: BTreeMap<(InstanceId, ActionId, Name), u64>,
    terms: Terms,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    limit: Option<u64>,
    used: u64,
    reserved: u64,
}

impl Sums {
    fn fold(&mut self, entry: &Entry) -> Checked {
        let id = entry.instance;
        match &entry.fact {
            Fact::Opened(opened) => {
                self.parents.insert(id, opened.parent.map(|(parent, _)| parent));
                if let Some(terms) = &opened.terms {
                    self.terms = terms.clone();
                    for (name, limit) in &terms.limits {
                        self.purses.entry((id, name.clone())).or_default().limit = Some(*limit);
                    }
                }
            }
            Fact::Raised { meter, limit, .. } => {
                if let Some(sum) = self.purses.get_mut(&(id, meter.clone()))
                    && sum.limit.is_some()
                {
                    sum.limit = Some(*limit);
                }
            }
            Fact::Reserved { action, usage } => return self.reserve(entry.seq, id, *action, usage),
            Fact::Released { action } => self.release(id, *action),
            Fact::Paid(Payment::Budget { action, usage, .. }) => self.charge(id, *action, usage),
            _ => {}
        }
        Ok(())
    }

    fn up(&self, id: InstanceId) -> Vec<InstanceId> {
        let mut path = vec![id];
        while let Some(Some(parent)) = path.last().and_then(|last| self.parents.get(last)) {
            path.push(*parent);
        }
        path
    }

    /// Nothing is ever set aside beyond a limit. So what is used and set aside exceeds a limit by no
    /// more than what reports since then have said beyond what was set aside for their agents.
    fn reserve(&mut self, seq: u64, id: InstanceId, action: ActionId, usage: &Usage) -> Checked {
        for (name, amount) in usage {
            *self.left.entry((id, action, name.clone())).or_default() += amount;
            for one in self.up(id) {
                let sum = self.purses.entry((one, name.clone())).or_default();
                sum.reserved += amount;
                let all = sum.used.saturating_add(sum.reserved);
                if sum.limit.is_some_and(|limit| all > limit) {
                    return Err(format!("purses: entry {seq} sets {name} aside beyond the limit of {one}"));
                }
            }
        }
        Ok(())
    }

    fn release(&mut self, id: InstanceId, action: ActionId) {
        let freed: Vec<(Name, u64)> = self
            .left
            .iter_mut()
            .filter(|((one, other, _), _)| *one == id && *other == action)
            .map(|((_, _, name), left)| (name.clone(), std::mem::take(left)))
            .collect();
        for (name, amount) in freed {
            for one in self.up(id) {
                let sum = self.purses.entry((one, name.clone())).or_default();
                sum.reserved = sum.reserved.saturating_sub(amount);
            }
        }
    }

    fn charge(&mut self, id: InstanceId, action: ActionId, usage: &Usage) {
        for (name, amount) in usage {
            let left = self.left.entry((id, action, name.clone())).or_default();
            let covered = (*left).min(*amount);
            *left -= covered;
            for one in self.up(id) {
                let sum = self.purses.entry((one, name.clone())).or_default();
                sum.reserved = sum.reserved.saturating_sub(covered);
                sum.used = sum.used.saturating_add(*amount);
            }
        }
    }

    fn of(&self, id: InstanceId, name: &Name) -> (u64, u64) {
        self.purses.get(&(id, name.clone())).map_or((0, 0), |sum| (sum.used, sum.reserved))
    }

    /// What is set aside in the whole run.
    fn reserved(&self) -> u64 {
        self.purses.values().map(|sum| sum.reserved).fold(0, u64::saturating_add)
    }

    /// The engine's purses are these sums, and no parent has less than its children together.
    fn check(&self, run: &Run) -> Checked {
        let mut children: BTreeMap<(InstanceId, Name), (u64, u64)> = BTreeMap::new();
        for (index, _) in run.instances().iter().enumerate() {
            let id = InstanceId(u32::try_from(index).unwrap_or(u32::MAX));
            for (name, budget_meter) in run.purses(id).into_iter().flatten() {
                let sum = self.purses.get(&(id, name.clone())).copied().unwrap_or_default();
                if (budget_meter.used, budget_meter.reserved, budget_meter.limit)
                    != (sum.used, sum.reserved, sum.limit)
                {
                    return Err(format!(
                        "purses: {name} of {id} is {budget_meter:?}; the facts sum up otherwise"
                    ));
                }
                if let Some(Some(parent)) = self.parents.get(&id) {
                    let all = children.entry((*parent, name.clone())).or_default();
                    *all = (all.0.saturating_add(sum.used), all.1.saturating_add(sum.reserved));
                }
            }
        }
        for ((parent, name), (used, reserved)) in children {
            let own = self.of(parent, &name);
            if own.0 < used || own.1 < reserved {
                return Err(format!("purses: the children of {parent} have more {name} than it has"));
            }
        }
        Ok(())
    }
}
