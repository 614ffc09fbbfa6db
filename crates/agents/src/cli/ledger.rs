//! The ledger of one session: what was used and charged so far, and what is unknown.
//!
//! Programs count from different beginnings. Whatever they count from, nothing is charged twice, and what
//! was not told is unknown and never zero.

use std::collections::BTreeSet;

use ftl_core::run::Usage;
use ftl_core::value::Name;

use super::rules::{Since, Used};
use crate::contract::{MONEY, TOKENS, TURNS};

/// What was charged of one meter.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    turn: u64,
    session: u64,
}

impl Meter {
    /// What is to be charged of a number that counts from there.
    fn more(&mut self, since: Since, told: u64) -> u64 {
        let before = match since {
            Since::Last => 0,
            Since::Turn => self.turn,
            Since::Session => self.session,
        };
        let more = told.saturating_sub(before);
        self.turn = self.turn.saturating_add(more);
        self.session = self.session.saturating_add(more);
        more
    }
}

/// The ledger.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tokens: Meter,
    money: Meter,
    /// Requests of this turn whose tokens nobody has told.
    missing: u64,
    money_told: bool,
    requests: u32,
    unknown: BTreeSet<Name>,
}

impl Ledger {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        (self.tokens.turn, self.money.turn, self.missing, self.money_told) = (0, 0, 0, false);
    }

    /// What is to be charged now.
    pub(super) fn used(&mut self, used: &Used) -> Usage {
        let mut usage = Usage::new();
        if let Some(told) = used.tokens.flatten() {
            usage.insert(Name::from(TOKENS), self.tokens.more(used.since, told));
        }
        match (used.tokens, used.since) {
            // A count from the beginning holds what was not told on the way.
            (Some(Some(_)), Since::Turn | Since::Session) => self.missing = 0,
            (Some(None), Since::Last) if used.request => self.missing += 1,
            (Some(_) | None, _) => {}
        }
        if let Some(told) = used.money {
            self.money_told = true;
            usage.insert(Name::from(MONEY), self.money.more(used.since, told));
        }
        if used.request {
            self.requests = self.requests.saturating_add(1);
            usage.insert(Name::from(TURNS), 1);
        }
        usage.retain(|_, amount| *amount > 0);
        usage
    }

    /// How many requests were made to a model, as far as was told.
    pub(super) fn requests(&self) -> u32 {
        self.requests
    }

    /// A turn ends: what nobody has told by now stays unknown.
    pub(super) fn end(&mut self) {
        if self.missing > 0 || self.tokens.turn == 0 {
            self.unknown.insert(Name::from(TOKENS));
        }
        if !self.money_told {
            self.unknown.insert(Name::from(MONEY));
        }
    }

    /// The meters of which something is unknown.
    pub(super) fn unknown(&self) -> BTreeSet<Name> {
        self.unknown.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(since: Since, tokens: Option<Option<u64>>, money: Option<u64>, request: bool) -> Used {
        Used { since, tokens, money, request }
    }

    fn charged(usage: &Usage) -> (u64, u64, u64) {
        let get = |name: &str| usage.get(name).copied().unwrap_or(0);
        (get(TOKENS), get(MONEY), get(TURNS))
    }

    #[test]
    fn nothing_is_charged_twice_whatever_is_counted_from() {
        let mut ledger = Ledger::default();
        ledger.begin();
        assert_eq!(charged(&ledger.used(&used(Since::Last, Some(Some(10)), None, false))), (10, 0, 0));
        assert_eq!(charged(&ledger.used(&used(Since::Last, Some(Some(5)), None, true))), (5, 0, 1));
        assert_eq!(charged(&ledger.used(&used(Since::Turn, Some(Some(18)), None, false))), (3, 0, 0));
        assert_eq!(charged(&ledger.used(&used(Since::Session, None, Some(7), false))), (0, 7, 0));
        ledger.end();
        ledger.begin();
        assert_eq!(charged(&ledger.used(&used(Since::Session, Some(Some(20)), Some(9), true))), (2, 2, 1));
        assert_eq!(charged(&ledger.used(&used(Since::Session, Some(Some(19)), Some(8), false))), (0, 0, 0));
        ledger.end();
        assert_eq!((ledger.requests(), ledger.unknown().len()), (2, 0));
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let unknown = |all: &[Used]| {
            let mut ledger = Ledger::default();
            ledger.begin();
            all.iter().for_each(|one| drop(ledger.used(one)));
            ledger.end();
            ledger.unknown().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let known = used(Since::Last, Some(Some(1)), Some(1), true);
        let silent = used(Since::Last, Some(None), None, true);
        assert_eq!(unknown(&[]), "money tokens");
        assert_eq!(unknown(&[known]), "");
        assert_eq!(unknown(&[known, silent]), "tokens");
        assert_eq!(unknown(&[silent, used(Since::Turn, Some(Some(3)), None, false)]), "money");
    }
}
