//! Replay: a run out of its facts, and whether today's protocols would decide the same.
//!
//! `replay` needs no guard and no protocol. `verify` takes the input out of each decision's first
//! fact, decides again, and compares.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Run;
use super::fact::{ActionId, Answer, Cause, Entry, Fact, InstanceId, Payment, Usage};
use super::input::{Adoption, Event, Input, Outcome};
use super::instance::OpenKind;
use super::people::POLICY;
use crate::program::Programs;
use crate::value::{Fields, Name, Value};

/// The first place where today's protocols decide otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The number of the first entry that differs.
    pub seq: u64,
    /// The entry of the journal; `None` where it has no more.
    pub journal: Option<Box<Entry>>,
    /// The entry that would be decided today; `None` where there would be none.
    pub today: Option<Box<Entry>>,
    /// The difference in a sentence, for people.
    pub message: String,
}

/// How much of a journal was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many entries were read.
    pub entries: usize,
    /// Decisions made again and found equal.
    pub decided: usize,
    /// Decisions whose input cannot be told from the facts, such as the passing of time.
    pub taken: usize,
}

impl Run {
    /// The run that these facts make.
    pub fn replay<'a>(programs: Arc<dyn Programs>, entries: impl IntoIterator<Item = &'a Entry>) -> Run {
        let mut run = Run::new(programs);
        for entry in entries {
            run.apply(entry);
        }
        run
    }

    /// Whether today's protocols would decide what the journal says.
    pub fn verify(programs: Arc<dyn Programs>, entries: &[Entry]) -> Result<Replayed, Box<Divergence>> {
        let mut today = Today { programs: programs.clone(), protocols: BTreeMap::new() };
        let mut run = Run::new(programs);
        let mut seen = Replayed::default();
        let mut at = 0;
        while at < entries.len() {
            let end = entries[at + 1..]
                .iter()
                .position(|entry| entry.first)
                .map_or(entries.len(), |more| at + 1 + more);
            let batch: Vec<Entry> = entries[at..end].iter().map(|entry| today.entry(entry)).collect();
            if batch[0].seq != run.next_seq() {
                let message =
                    format!("the journal goes on with {} where {} is due", batch[0].seq, run.next_seq());
                return Err(Box::new(Divergence {
                    seq: batch[0].seq,
                    journal: Some(Box::new(batch[0].clone())),
                    today: None,
                    message,
                }));
            }
            if run.decides(&batch)? {
                seen.decided += 1;
            } else {
                seen.taken += 1;
            }
            batch.iter().for_each(|entry| run.apply(entry));
            seen.entries += batch.len();
            at = end;
        }
        Ok(seen)
    }

    /// Decides again what a batch says; whether its input can be told from its facts at all.
    fn decides(&self, batch: &[Entry]) -> Result<bool, Box<Divergence>> {
        let mut inputs = self.inputs_of_use(batch);
        inputs.extend(self.input_of(batch));
        let Some(last) = inputs.last() else { return Ok(false) };
        if inputs.iter().any(|input| self.decide(input).entries == batch) {
            return Ok(true);
        }
        compare(batch, &self.decide(last).entries).map(|()| true)
    }

    /// A batch that begins with the use of built-in meters: several inputs can begin so, and what
    /// follows does not always tell which one it was.
    fn inputs_of_use(&self, batch: &[Entry]) -> Vec<Input> {
        let Some(first) = batch.first() else { return Vec::new() };
        let (action, usage) = match &first.fact {
            Fact::Paid(Payment::Budget { action, usage, guessed }) => {
                let known = usage.iter().filter(|(name, _)| !guessed.contains(name));
                (*action, known.map(|(name, amount)| (name.clone(), *amount)).collect())
            }
            Fact::Released { action } => (*action, Usage::new()),
            Fact::Paid(Payment::Attempts { action, .. } | Payment::Back { action, .. })
            | Fact::Resumed { action: Some(action), .. } => (*action, Usage::new()),
            Fact::Paid(Payment::Meter { .. }) | Fact::Resumed { action: None, .. } => return Vec::new(),
            Fact::Opened(_) | Fact::Asked { .. } | Fact::Heard { .. } | Fact::Set { .. } => {
                return Vec::new();
            }
            Fact::Moved { .. } | Fact::Emitted { .. } | Fact::Refilled { .. } => return Vec::new(),
            Fact::Reserved { .. } | Fact::Waived { .. } | Fact::Raised { .. } => return Vec::new(),
            Fact::Refused { .. } | Fact::Suspended { .. } | Fact::Held { .. } => return Vec::new(),
            Fact::Adopted { .. } | Fact::Settled { .. } => return Vec::new(),
        };
        let instance = first.instance;
        let mut inputs = vec![Event::Spent { instance, action, usage: usage.clone() }];
        for entry in batch {
            for outcome in outcomes_of(&entry.fact, action) {
                for usage in [None, Some(usage.clone())] {
                    inputs.push(Event::Outcome { instance, action, outcome: outcome.clone(), usage });
                }
            }
        }
        inputs.splice(0..0, [Event::Tick, Event::Recover]);
        let heard =
            |entry: &Entry| matches!(&entry.fact, Fact::Heard { action: heard, .. } if *heard == action);
        let again = matches!(
            first.fact,
            Fact::Resumed { .. } | Fact::Paid(Payment::Attempts { .. } | Payment::Back { .. })
        );
        if again || !batch.iter().any(heard) {
            // Nothing here says for sure which input it was: only an equal decision counts.
            inputs
                .retain(|event| self.decide(&Input { at: first.at, event: event.clone() }).entries == batch);
        }
        inputs.into_iter().map(|event| Input { at: first.at, event }).collect()
    }

    /// The input that a decision answered, as far as its facts tell.
    fn input_of(&self, batch: &[Entry]) -> Option<Input> {
        let first = batch.first()?;
        let instance = first.instance;
        let event = match &first.fact {
            Fact::Opened(opened) => {
                let adopt = batch.iter().find_map(|entry| adoption(&entry.fact));
                let terms = opened.terms.clone().unwrap_or_default();
                Event::Open { protocol: opened.protocol.clone(), inputs: opened.inputs.clone(), terms, adopt }
            }
            Fact::Heard { action, answer, by, .. } => {
                return self.heard_input(first, *action, answer, by.as_ref(), None);
            }
            Fact::Waived { to, by, reason, .. } => {
                Event::Waive { instance, to: to.clone(), by: by.clone(), reason: reason.clone() }
            }
            Fact::Raised { meter, limit, by, reason } => {
                let (meter, limit, by, reason) = (meter.clone(), *limit, by.clone(), reason.clone());
                Event::Raise { instance, meter, limit, by, reason }
            }
            Fact::Paid(Payment::Meter { action: None, .. }) => match batch.get(1).map(|entry| &entry.fact) {
                Some(Fact::Moved { to, cause: Cause::Redo { by, reason }, .. }) => {
                    Event::Redo { instance, to: to.clone(), by: by.clone(), reason: reason.clone() }
                }
                _ => return None,
            },
            Fact::Suspended { action, service, until } => {
                let outcome = Outcome::Outage { service: service.clone(), until: *until };
                Event::Outcome { instance, action: *action, outcome, usage: None }
            }
            Fact::Held { action: Some(action), failure, .. } => {
                let outcome = Outcome::Failed(failure.clone());
                Event::Outcome { instance, action: *action, outcome, usage: None }
            }
            Fact::Resumed { action: None, by: Some(by), .. } => Event::Resume { instance, by: by.clone() },
            Fact::Resumed { .. } | Fact::Held { action: None, .. } | Fact::Paid(_) => return None,
            Fact::Asked { .. } | Fact::Set { .. } | Fact::Moved { .. } | Fact::Emitted { .. } => return None,
            Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => return None,
            Fact::Refused { .. } | Fact::Adopted { .. } | Fact::Settled { .. } => return None,
        };
        Some(Input { at: first.at, event })
    }

    /// A word, an answer or an outcome, by what kind of thing was open.
    fn heard_input(
        &self,
        entry: &Entry,
        action: ActionId,
        answer: &Answer,
        by: Option<&String>,
        usage: Option<Usage>,
    ) -> Option<Input> {
        let instance = entry.instance;
        let open = self.instance(instance)?.open.get(&action)?;
        let event = match (&open.kind, answer) {
            (OpenKind::Words(words), Answer::Done(value)) => spoken_word(instance, words, value)?,
            (OpenKind::Question, Answer::Done(value)) => {
                let by = by.cloned().unwrap_or_default();
                Event::Reply { instance, action: Some(action), value: value.clone(), by }
            }
            (OpenKind::Call | OpenKind::Record, Answer::Done(value)) => {
                Event::Outcome { instance, action, outcome: Outcome::Done(value.clone()), usage }
            }
            (OpenKind::Call | OpenKind::Record, Answer::Failed(failure)) => {
                Event::Outcome { instance, action, outcome: Outcome::Failed(failure.clone()), usage }
            }
            _ => return None,
        };
        Some(Input { at: entry.at, event })
    }
}

/// Where a run was taken over from what lay beside it.
fn adoption(fact: &Fact) -> Option<Adoption> {
    let Fact::Adopted { state, visited, params, by, .. } = fact else { return None };
    let (visited, params) = (visited.clone(), params.clone());
    Some(Adoption { state: state.clone(), visited, params, by: by.clone() })
}

/// How an action may have ended, by a fact that followed.
fn outcomes_of(fact: &Fact, action: ActionId) -> Vec<Outcome> {
    match fact {
        Fact::Paid(Payment::Attempts { action: died, message, forbidden }) if *died == action => {
            if *forbidden {
                vec![Outcome::Forbidden(message.clone())]
            } else {
                // The last claim of an outage is held, and asks for no time.
                let claimed = Outcome::ClaimedOutage { service: message.clone(), until: 0 };
                vec![Outcome::Died(message.clone()), Outcome::Cancelled, claimed]
            }
        }
        Fact::Held { action: Some(held), failure, .. } if *held == action => {
            vec![Outcome::Failed(failure.clone())]
        }
        Fact::Resumed { action: Some(again), .. } if *again == action => vec![Outcome::Cancelled],
        Fact::Suspended { action: one, service, until } if *one == action => {
            let (service, until) = (service.clone(), *until);
            let claimed = Outcome::ClaimedOutage { service: service.clone(), until };
            vec![Outcome::Outage { service, until }, Outcome::Interrupted, claimed]
        }
        Fact::Heard { action: heard, answer, .. } if *heard == action => match answer {
            Answer::Done(value) => vec![Outcome::Done(value.clone())],
            Answer::Failed(failure) => vec![Outcome::Failed(failure.clone())],
        },
        Fact::Paid(_) | Fact::Held { .. } | Fact::Resumed { .. } | Fact::Suspended { .. } => Vec::new(),
        Fact::Heard { .. } | Fact::Opened(_) | Fact::Asked { .. } | Fact::Set { .. } => Vec::new(),
        Fact::Moved { .. } | Fact::Emitted { .. } | Fact::Refilled { .. } | Fact::Reserved { .. } => {
            Vec::new()
        }
        Fact::Released { .. } | Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } => {
            Vec::new()
        }
        Fact::Adopted { .. } | Fact::Settled { .. } => Vec::new(),
    }
}

/// Entries with the digests that today's texts have: a text that changed and decides the same is no
/// other decision.
struct Today {
    programs: Arc<dyn Programs>,
    protocols: BTreeMap<InstanceId, Name>,
}

impl Today {
    fn entry(&mut self, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        if let Fact::Opened(opened) = &entry.fact {
            self.protocols.insert(entry.instance, opened.protocol.clone());
        }
        let protocol = self.protocols.get(&entry.instance);
        let Some(program) = protocol.and_then(|name| self.programs.program(name)) else { return entry };
        let now = |state: &Name| program.state(state).map(|state| state.code.clone());
        match &mut entry.fact {
            Fact::Opened(opened) => {
                opened.digest = program.digest.clone();
                opened.code = now(&opened.state).unwrap_or_else(|| opened.code.clone());
            }
            Fact::Moved { to, code, .. } => *code = now(to).unwrap_or_else(|| code.clone()),
            Fact::Adopted { state, code, .. } => *code = now(state).unwrap_or_else(|| code.clone()),
            Fact::Asked { .. } | Fact::Heard { .. } | Fact::Set { .. } | Fact::Emitted { .. } => {}
            Fact::Paid(_) | Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => {}
            Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } | Fact::Suspended { .. } => {}
            Fact::Held { .. } | Fact::Resumed { .. } | Fact::Settled { .. } => {}
        }
        entry
    }
}

/// The word that a person said, out of what was heard.
fn spoken_word(instance: super::fact::InstanceId, words: &[Name], value: &Value) -> Option<Event> {
    let Value::Record(fields) = value else { return None };
    let word = words.iter().find(|word| value.field(word).holds())?.clone();
    let by = value.field("by").as_text().unwrap_or_default().to_owned();
    if by == POLICY {
        return None;
    }
    let reason = value.field("reason").as_text().unwrap_or_default().to_owned();
    let known = |name: &Name| words.contains(name) || matches!(&**name, "by" | "reason");
    let options: Fields = fields
        .iter()
        .filter(|(name, _)| !known(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Some(Event::Say { instance, word, by, reason, options })
}

fn compare(journal: &[Entry], today: &[Entry]) -> Result<(), Box<Divergence>> {
    let longest = journal.len().max(today.len());
    for index in 0..longest {
        let (one, two) = (journal.get(index), today.get(index));
        if one != two {
            let seq = one.or(two).map_or(0, |entry| entry.seq);
            let message = "today's protocol decides otherwise".to_owned();
            let boxed = |entry: Option<&Entry>| entry.cloned().map(Box::new);
            return Err(Box::new(Divergence { seq, journal: boxed(one), today: boxed(two), message }));
        }
    }
    Ok(())
}
