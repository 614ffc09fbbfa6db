//! Rehearsals: what an input would lead to, with answers that are known already.
//!
//! The same `decide` and `apply` as in earnest, on a copy of the run. Nothing is written, nothing is started: where
//! the run would ask for something that the answers do not hold, the rehearsal ends there.

use super::Run;
use super::fact::{Entry, Time};
use super::input::{Event, Input, Outcome, Refusal};
use super::options::Answers;
use crate::performer::Performer;

/// How many inputs a rehearsal takes: more answers than any state asks for.
const MAX_REHEARSED: usize = 64;

/// What an input would lead to.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// The run as it would be.
    pub run: Run,
    /// Why the input would be refused, if it would.
    pub refusal: Option<Refusal>,
    /// The facts that it would leave.
    pub entries: Vec<Entry>,
    /// What it would ask for next, where no answer is given for that.
    pub asks: Option<Performer>,
}

impl Run {
    /// What an input would lead to.
    pub fn rehearse(&self, at: Time, event: Event, answers: &Answers) -> Rehearsal {
        let mut rehearsal = Rehearsal { run: self.clone(), refusal: None, entries: Vec::new(), asks: None };
        let mut inputs = vec![event];
        for _ in 0..MAX_REHEARSED {
            let Some(event) = inputs.pop() else { break };
            let decision = rehearsal.run.decide(&Input { at, event });
            decision.entries.iter().for_each(|entry| rehearsal.run.apply(entry));
            rehearsal.entries.extend(decision.entries);
            if decision.refusal.is_some() {
                rehearsal.refusal = decision.refusal;
                break;
            }
            for action in decision.start {
                let asks = action.wanted.performer();
                if matches!(asks, Performer::Word | Performer::Question) {
                    continue;
                }
                let Some(answer) = asks.action().and_then(|name| answers.actions.get(name)) else {
                    rehearsal.asks = Some(asks);
                    return rehearsal;
                };
                let outcome = match answer {
                    Ok(value) => Outcome::Done(value.clone()),
                    Err(failure) => Outcome::Failed(failure.clone()),
                };
                let usage = rehearsal.run.terms().reserve.keys().map(|name| (name.clone(), 0)).collect();
                let (instance, action) = (action.instance, action.id);
                inputs.push(Event::Outcome { instance, action, outcome, usage: Some(usage) });
            }
        }
        rehearsal
    }
}
