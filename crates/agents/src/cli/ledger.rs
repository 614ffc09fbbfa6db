//! The ledger of one session: what was used and charged so far, and what is unknown.
//!
//! Programs count from different beginnings. Whatever they count from, nothing is charged twice, and what
//! was not told is unknown and never zero.

use std::collections::BTreeSet;

use ftl_core::run::Usage;
use ftl_core::value::Name;

use super::rules::{ReportedUsage, Since};
use crate::contract::{MONEY, TOKENS, TURNS};

/// What was charged of one meter.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    turn: u64,
    session: u64,
    /// Whether anything was told in this turn, and how many reports of it told nothing that can be read.
    told: bool,
    missing: u64,
}

impl Meter {
    fn begin(&mut self) {
        (self.turn, self.told, self.missing) = (0, false, 0);
    }

    /// What is to be charged of what was told, which counts from there.
    fn more(&mut self, used: &ReportedUsage, told: Option<Option<u64>>) -> u64 {
        let Some(told) = told else { return 0 };
        let Some(told) = told else {
            self.missing += 1;
            return 0;
        };
        let before = match used.since {
            Since::Last => 0,
            Since::Turn => self.turn,
            Since::Session => self.session,
        };
        // A count from the beginning holds what was not told on the way.
        if used.since != Since::Last {
            self.missing = 0;
        }
        let more = told.saturating_sub(before);
        self.told = true;
        self.turn = self.turn.saturating_add(more);
        self.session = self.session.saturating_add(more);
        more
    }

    fn is_unknown(&self) -> bool {
        self.missing > 0 || !self.told
    }
}

/// What a session has used so far, out of what the program reports in its events.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tokens: Meter,
    money: Meter,
    requests: u32,
    unknown: BTreeSet<Name>,
}

impl Ledger {
    /// Begins a turn: amounts that are counted from its beginning start at 0.
    pub(super) fn begin(&mut self) {
        self.tokens.begin();
        self.money.begin();
    }

    /// What is to be charged now.
    pub(super) fn charge(&mut self, used: &ReportedUsage) -> Usage {
        let mut usage = Usage::new();
        usage.insert(Name::from(TOKENS), self.tokens.more(used, used.tokens));
        usage.insert(Name::from(MONEY), self.money.more(used, used.money));
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

    /// Ends a turn: an amount that the program has not reported by now stays unknown.
    pub(super) fn end(&mut self) {
        for (name, meter) in [(TOKENS, &self.tokens), (MONEY, &self.money)] {
            if meter.is_unknown() {
                self.unknown.insert(Name::from(name));
            }
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

    fn report_of(
        since: Since,
        tokens: Option<Option<u64>>,
        money: Option<u64>,
        request: bool,
    ) -> ReportedUsage {
        ReportedUsage { since, tokens, money: money.map(Some), request }
    }

    fn charged(usage: &Usage) -> (u64, u64, u64) {
        let get = |name: &str| usage.get(name).copied().unwrap_or(0);
        (get(TOKENS), get(MONEY), get(TURNS))
    }

    #[test]
    fn nothing_is_charged_twice_whatever_is_counted_from() {
        let mut ledger = Ledger::default();
        ledger.begin();
        assert_eq!(charged(&ledger.charge(&report_of(Since::Last, Some(Some(10)), None, false))), (10, 0, 0));
        assert_eq!(charged(&ledger.charge(&report_of(Since::Last, Some(Some(5)), None, true))), (5, 0, 1));
        assert_eq!(charged(&ledger.charge(&report_of(Since::Turn, Some(Some(18)), None, false))), (3, 0, 0));
        assert_eq!(charged(&ledger.charge(&report_of(Since::Session, None, Some(7), false))), (0, 7, 0));
        ledger.end();
        ledger.begin();
        assert_eq!(
            charged(&ledger.charge(&report_of(Since::Session, Some(Some(20)), Some(9), true))),
            (2, 2, 1)
        );
        assert_eq!(
            charged(&ledger.charge(&report_of(Since::Session, Some(Some(19)), Some(8), false))),
            (0, 0, 0)
        );
        ledger.end();
        assert_eq!((ledger.requests(), ledger.unknown().len()), (2, 0));
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let unknown = |all: &[ReportedUsage]| {
            let mut ledger = Ledger::default();
            ledger.begin();
            all.iter().for_each(|one| drop(ledger.charge(one)));
            ledger.end();
            ledger.unknown().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let known = report_of(Since::Last, Some(Some(1)), Some(1), true);
        let silent = report_of(Since::Last, Some(None), None, true);
        assert_eq!(unknown(&[]), "money tokens");
        assert_eq!(unknown(&[known]), "");
        assert_eq!(unknown(&[known, silent]), "tokens");
        assert_eq!(unknown(&[known, ReportedUsage { money: Some(None), ..known }]), "money");
        assert_eq!(unknown(&[silent, report_of(Since::Turn, Some(Some(3)), None, false)]), "money");
    }
}
