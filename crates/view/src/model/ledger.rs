//! What was spent: by role and by task, with the parts of tokens apart, and worst cases marked.

use std::collections::BTreeMap;

use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, Entry, Fact, InstanceId, Payment, Time, Usage};
use serde::Serialize;

/// How many points a series holds; when it is full every other one goes.
pub const MAX_POINTS: usize = 512;

/// An amount of everything that is bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bought {
    /// All tokens: sent, read from a cache and written.
    pub tokens: u64,
    /// Those that were sent and not read from a cache, where the agent tells them apart.
    pub input: u64,
    /// Those that were read from a cache.
    pub cached: u64,
    /// The tokens that the model wrote.
    pub output: u64,
    /// Money, in millionths.
    pub money: u64,
    /// How many amounts are worst cases, because the agent reported none.
    pub unknown: u64,
    /// How many conversations have no price.
    pub unpriced: u64,
}

impl Bought {
    fn add(&mut self, usage: &Usage, guessed: usize) {
        let of = |name: &str| usage.get(name).copied().unwrap_or(0);
        self.tokens += of("tokens");
        self.input += of("input_tokens");
        self.cached += of("cached_tokens");
        self.output += of("output_tokens");
        self.money += of("money");
        self.unpriced += of("unpriced");
        self.unknown += guessed as u64;
    }
}

/// How much had been spent at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The time of the entry.
    pub at: Time,
    /// All tokens until then.
    pub tokens: u64,
    /// All money until then, in millionths.
    pub money: u64,
    /// How many amounts until then are worst cases.
    pub unknown: u64,
}

/// The ledger of a run: what it has spent.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The sum over the whole run.
    pub all: Bought,
    /// By the role of the agent; other actions stand under their own name.
    pub roles: BTreeMap<String, Bought>,
    /// By task; what belongs to none stands under the empty name.
    pub tasks: BTreeMap<String, Bought>,
    /// The sums over time, the earliest first.
    pub points: Vec<Point>,
    asked: BTreeMap<(InstanceId, ActionId), Performer>,
}

impl Ledger {
    pub(super) fn see(&mut self, entry: &Entry, task: &str) {
        match &entry.fact {
            Fact::Asked { asks, .. } => {
                for (index, ask) in (0_u32..).zip(asks) {
                    if ask.whom.role().is_some() {
                        let id = ActionId { entry: entry.seq, index };
                        self.asked.insert((entry.instance, id), ask.whom.clone());
                    }
                }
            }
            Fact::Paid(Payment::Budget { action, usage, guessed }) => {
                let whom = self.asked.get(&(entry.instance, *action));
                let role = whom.and_then(Performer::role).unwrap_or("other").to_owned();
                self.roles.entry(role).or_default().add(usage, guessed.len());
                self.tasks.entry(task.to_owned()).or_default().add(usage, guessed.len());
                self.all.add(usage, guessed.len());
                self.mark(entry.at);
            }
            Fact::Settled { .. } => {
                let one = entry.instance;
                let first = ActionId { entry: 0, index: 0 };
                let of_it = self.asked.range((one, first)..).take_while(|((whose, _), _)| *whose == one);
                let over: Vec<_> = of_it.map(|(key, _)| *key).collect();
                over.iter().for_each(|key| drop(self.asked.remove(key)));
            }
            Fact::Paid(Payment::Meter { .. } | Payment::Back { .. } | Payment::Attempts { .. }) => {}
            // The last report of an agent may come after its answer, so what was asked is kept until the end.
            Fact::Heard { .. } | Fact::Moved { .. } | Fact::Opened(_) | Fact::Set { .. } => {}
            Fact::Emitted { .. } | Fact::Refilled { .. } | Fact::Reserved { .. } => {}
            Fact::Released { .. } | Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } => {}
            Fact::Suspended { .. } | Fact::Held { .. } | Fact::Resumed { .. } | Fact::Adopted { .. } => {}
        }
    }

    fn mark(&mut self, at: Time) {
        let Bought { tokens, money, unknown, .. } = self.all;
        if self.points.len() >= MAX_POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.points.push(Point { at, tokens, money, unknown });
    }

    /// When a limit is reached if the pace of the whole run goes on; nothing where it never is.
    pub fn forecast(&self, began: Time, now: Time, used: u64, limit: u64) -> Option<Time> {
        let took = now.saturating_sub(began);
        if used == 0 || took == 0 || used >= limit {
            return None;
        }
        let left = u128::from(limit - used) * u128::from(took) / u128::from(used);
        u64::try_from(left).ok().and_then(|left| now.checked_add(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paid(seq: u64, money: u64) -> Entry {
        let usage: Usage =
            [("money".into(), money), ("tokens".into(), 10), ("cached_tokens".into(), 4)].into();
        let action = ActionId { entry: 1, index: 0 };
        let fact = Fact::Paid(Payment::Budget { action, usage, guessed: Vec::new() });
        Entry { seq, at: seq, instance: InstanceId(1), first: false, fact }
    }

    #[test]
    fn so_many_points_are_kept_and_the_sums_stay_whole() {
        let mut ledger = Ledger::default();
        let entries = MAX_POINTS as u64 * 3;
        (0..entries).for_each(|seq| ledger.see(&paid(seq, 2), "001"));
        assert!(ledger.points.len() <= MAX_POINTS, "{}", ledger.points.len());
        assert_eq!((ledger.all.money, ledger.all.cached), (2 * entries, 4 * entries));
        assert_eq!(ledger.tasks["001"], ledger.all);
        assert_eq!(ledger.points.last().map(|last| last.money), Some(2 * entries));
        assert!(ledger.points.is_sorted_by_key(|point| point.at));
    }

    #[test]
    fn a_limit_is_forecast_by_the_pace_so_far() {
        let ledger = Ledger::default();
        assert_eq!(ledger.forecast(0, 100, 25, 100), Some(400));
        assert_eq!(ledger.forecast(0, 100, 0, 100), None, "nothing was spent");
        assert_eq!(ledger.forecast(0, 100, 100, 100), None, "it is reached");
    }
}
