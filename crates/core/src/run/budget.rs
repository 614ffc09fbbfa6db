//! The built-in meters: tokens, money, time, turns.
//!
//! Before an agent is asked, something is set aside for it in its instance and in every ancestor.
//! What it uses is taken from there first. So children can never outspend their parent, and a cap
//! is overstepped by at most what one agent uses beyond its own reservation.

use super::draft::Draft;
use super::fact::{ActionId, Fact, Failure, FailureKind, InstanceId, Payment, ROOT, ThreadId, Usage, WHOLE};
use super::instance::HeldAt;
use super::steps::How;
use super::walk::{Flow, Here};
use crate::performer::Performer;
use crate::value::Name;

impl Draft<'_> {
    /// Holds a step whose agent cannot be afforded.
    pub(super) fn cannot_afford(&mut self, here: &Here<'_>, whom: &Performer) -> Option<Flow> {
        let Performer::Task(_) = whom else { return None };
        let terms = self.terms.clone();
        let (owner, meter) = self.short_of(here.id, &terms.reserve)?;
        self.hold_for(here, owner, meter);
        Some(Flow::Rest)
    }

    fn hold_for(&mut self, here: &Here<'_>, owner: InstanceId, meter: Name) {
        let failure = Failure::new(
            FailureKind::Exhausted,
            format!("{meter} spent: not enough is left for another agent"),
        );
        let (thread, place) = (here.thread.clone(), here.place);
        let (meter, stuck, action) = (Some((owner, meter)), false, None);
        self.put(here.id, Fact::Held { thread, place, failure, meter, stuck, action });
    }

    /// The first purse on the way up that cannot set so much aside.
    pub(super) fn short_of(&self, id: InstanceId, usage: &Usage) -> Option<(InstanceId, Name)> {
        let mut at = Some(id);
        while let Some(one) = at {
            let purses = self.get_purses(one);
            for (name, budget_meter) in purses.into_iter().flatten() {
                // What is not set aside before is still limited: nothing may start when it is spent.
                let amount = usage.get(name).copied().unwrap_or(0);
                let unreserved = !self.terms.reserve.contains_key(name);
                let needed = amount.max(u64::from(unreserved));
                if needed > 0 && !budget_meter.has(needed) {
                    return Some((one, name.clone()));
                }
            }
            at = self.get(one).and_then(|instance| instance.parent).map(|(parent, _)| parent);
        }
        None
    }

    /// Sets something aside for an agent.
    pub(super) fn set_aside(&mut self, id: InstanceId, action: ActionId, whom: &Performer) {
        let Performer::Task(_) = whom else { return };
        if !self.terms.reserve.is_empty() {
            let usage = self.terms.reserve.clone();
            self.put(id, Fact::Reserved { action, usage });
        }
    }

    /// Sets aside again what an agent has used up that is asked again; otherwise its step is held.
    pub(super) fn top_up(&mut self, id: InstanceId, action: ActionId, gone: bool) -> bool {
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)) else { return false };
        if open.whom.role().is_none() {
            return true;
        }
        let left = |name: &Name| open.reserved.get(name).copied().unwrap_or(0);
        let more: Usage = self
            .terms
            .reserve
            .iter()
            .map(|(name, amount)| (name.clone(), amount.saturating_sub(left(name))))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        match self.short_of(id, &more) {
            Some((owner, meter)) => {
                self.stop_for(id, action, owner, &meter, gone);
                return false;
            }
            None if more.is_empty() => {}
            None => {
                self.put(id, Fact::Reserved { action, usage: more });
            }
        }
        true
    }

    /// The last report of an action that was cancelled. It is charged once: a second one finds nothing
    /// owed, and is dropped.
    pub(super) fn last_report(&mut self, id: InstanceId, action: ActionId, usage: Option<&Usage>) {
        if self.get(id).is_some_and(|one| one.owed.contains_key(&action)) {
            self.charge(id, action, usage);
            self.settle_purse(id, action);
        }
    }

    /// Frees what was set aside and not used.
    pub(super) fn settle_purse(&mut self, id: InstanceId, action: ActionId) {
        let Some(instance) = self.get(id) else { return };
        let owed = instance.owed.contains_key(&action);
        let left =
            instance.account(action).is_some_and(|open| open.reserved.values().any(|amount| *amount > 0));
        if owed || left {
            self.put(id, Fact::Released { action });
        }
    }

    /// When something that was set aside is free again, the first who is held for it and can now be
    /// afforded goes on.
    pub(super) fn wake(&mut self) -> bool {
        if !self.freed {
            return false;
        }
        let terms = self.terms.clone();
        // Where the root cannot afford it, no instance can.
        if self.short_of(ROOT, &terms.reserve).is_some() {
            self.freed = false;
            return false;
        }
        let waits =
            |held: &HeldAt| held.meter.as_ref().is_some_and(|(_, name)| terms.reserve.contains_key(name));
        let found = self.among(&self.run.index.held).find_map(|id| {
            let fresh = |thread: &ThreadId| !self.woken.contains(&(id, thread.clone()));
            let mut held = self.get(id)?.held.iter();
            let (thread, held) = held.find(|(thread, held)| waits(held) && fresh(thread))?;
            self.short_of(id, &terms.reserve).is_none().then(|| (id, thread.clone(), held.place))
        });
        let Some((id, thread, place)) = found else {
            self.freed = false;
            return false;
        };
        self.woken.insert((id, thread.clone()));
        self.put(id, Fact::Resumed { action: None, thread: thread.clone(), by: None });
        self.later(id, thread, Some(place));
        true
    }

    /// Charges what an action used since its last report. What its last words leave out is unknown, also
    /// when it was reported before: the worst case that is still set aside is charged for it.
    pub(super) fn charge(&mut self, id: InstanceId, action: ActionId, usage: Option<&Usage>) {
        let open = self.get(id).and_then(|one| one.account(action));
        let mut charged = usage.cloned().unwrap_or_default();
        let mut guessed = Vec::new();
        for (name, left) in open.map(|open| &open.reserved).into_iter().flatten() {
            if *left > 0 && !charged.contains_key(name) {
                charged.insert(name.clone(), *left);
                guessed.push(name.clone());
            }
        }
        if !charged.is_empty() {
            self.put(id, Fact::Paid(Payment::Budget { action, usage: charged, guessed }));
        }
    }

    /// An agent that still runs reports what it used. As much as before is set aside for its next turn,
    /// because that is what is charged when it is never heard of again; where that is not left, it ends
    /// and its instance is held.
    pub(super) fn charge_report(&mut self, id: InstanceId, action: ActionId, usage: &Usage) {
        self.put(id, Fact::Paid(Payment::Budget { action, usage: usage.clone(), guessed: Vec::new() }));
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)).cloned() else { return };
        let more: Usage = self
            .terms
            .reserve
            .iter()
            .filter(|(name, _)| usage.contains_key(*name))
            .map(|(name, amount)| {
                (name.clone(), amount.saturating_sub(open.reserved.get(name).copied().unwrap_or(0)))
            })
            .filter(|(_, amount)| *amount > 0)
            .collect();
        match self.short_of(id, &more) {
            None if more.is_empty() => {}
            None => {
                self.put(id, Fact::Reserved { action, usage: more });
            }
            Some((owner, meter)) => self.stop_for(id, action, owner, &meter, false),
        }
    }

    /// Ends an agent whose purse is empty; the step is held, and asked again after a raise. One that
    /// is gone already has made its last report.
    fn stop_for(&mut self, id: InstanceId, action: ActionId, owner: InstanceId, meter: &Name, gone: bool) {
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)).cloned() else { return };
        let failure =
            Failure::new(FailureKind::Exhausted, format!("{meter} spent while the agent was at work"));
        if gone {
            self.settle_purse(id, action);
        } else {
            self.cancel(id, action);
        }
        let whole = ActionId { entry: action.entry, index: WHOLE };
        if self.get(id).is_some_and(|one| one.open.contains_key(&whole)) {
            let how = if gone { How::Plain } else { How::Cut };
            return self.answer_how(id, action, Err(failure), how);
        }
        let answer = super::fact::Answer::Failed(failure.clone());
        self.put(id, Fact::Heard { action, answer, bind: None, by: None, cut: !gone, failing: None });
        let (thread, place) = (open.thread.clone(), open.place);
        let (meter, stuck, action) = (Some((owner, meter.clone())), false, None);
        self.put(id, Fact::Held { thread, place, failure, meter, stuck, action });
    }
}
