//! The entries of a journal that a person reads: states, verdicts, people. The bookkeeping between them is counted.

use std::collections::BTreeMap;

use ftl_core::catalogue::Catalogue;
use ftl_core::catalogue::declare::ActionKind;
use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, Answer, End, Entry, Fact, InstanceId, Payment, ROOT};
use ftl_core::value::{Fields, Value};

use crate::cause::{cause, end_word, telling};
use crate::lines;
use crate::paint::{self, paint};

/// Events that say what the entry of a state says as well.
const BOOKKEEPING: [&str; 2] = ["STATE_ENTRY", "PHASE_TRANSITION"];

/// Folds entries as they come.
#[derive(Default)]
pub struct Fold {
    /// Whom open actions were asked of.
    asked: BTreeMap<(InstanceId, ActionId), Performer>,
    /// How many entries were passed over since the last one that was shown.
    hidden: usize,
    /// How many were passed over in all.
    pub total: usize,
}

impl Fold {
    /// An entry as a line, without its number and time, where a person wants to see it.
    pub fn line(&mut self, entry: &Entry) -> Option<String> {
        let line = self.render_entry(entry);
        let passed = usize::from(line.is_none());
        (self.hidden, self.total) = (self.hidden + passed, self.total + passed);
        line
    }

    /// How many entries were passed over since the last one that was shown; it begins to count anew.
    pub fn take_hidden(&mut self) -> usize {
        std::mem::take(&mut self.hidden)
    }

    /// Whether it knows whom an action was asked of.
    pub fn knows(&self, action: (InstanceId, ActionId)) -> bool {
        self.asked.contains_key(&action)
    }

    /// Takes in whom an entry asked, where that stands before what is shown.
    pub fn remember(&mut self, entry: &Entry) {
        if let Fact::Asked { asks, .. } = &entry.fact {
            for (index, ask) in (0_u32..).zip(asks) {
                let id = ActionId { entry: entry.seq, index };
                self.asked.insert((entry.instance, id), ask.whom.clone());
            }
        }
    }

    fn render_entry(&mut self, entry: &Entry) -> Option<String> {
        match &entry.fact {
            Fact::Moved { from, to, .. } => (from != to).then(|| lines::line(entry)),
            Fact::Settled { end, values, .. } => Some(of(entry, &render_end(*end, values))),
            Fact::Opened(_) | Fact::Held { .. } => Some(lines::line(entry)),
            Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } | Fact::Adopted { .. } => {
                Some(lines::line(entry))
            }
            Fact::Suspended { .. } => Some(lines::line(entry)),
            Fact::Resumed { by: Some(_), .. } => Some(lines::line(entry)),
            Fact::Emitted { event, .. } => {
                // What an instance says of itself stands in its states and verdicts too.
                let is_shown = event.as_ref().is_none_or(|event| !BOOKKEEPING.contains(&&**event));
                (is_shown && entry.instance == ROOT).then(|| lines::line(entry))
            }
            Fact::Asked { .. } => {
                self.remember(entry);
                None
            }
            Fact::Heard { action, answer, by, .. } => {
                let whom = self.asked.remove(&(entry.instance, *action));
                render_answer(entry, whom.as_ref(), answer, by.as_deref())
            }
            Fact::Paid(Payment::Attempts { .. }) => Some(lines::line(entry)),
            Fact::Paid(Payment::Meter { .. } | Payment::Budget { .. } | Payment::Back { .. }) => None,
            Fact::Set { .. } | Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => None,
            Fact::Resumed { by: None, .. } => None,
        }
    }
}

/// How an instance ended, with why or with what came of it.
fn render_end(end: End, values: &Fields) -> String {
    let said = |name: &str| values.get(name).and_then(Value::as_text).filter(|text| !text.trim().is_empty());
    let style = if end == End::Complete { paint::GOOD } else { paint::WARNING };
    let why = said("reason").or_else(|| said("delivered")).or_else(|| said("summary"));
    let why = why.map_or_else(String::new, |why| format!(": {}", cause(why)));
    format!("{}{why}", paint(style, end_word(end)))
}

/// What was heard: a person's word, a failure, a verdict of a gate.
fn render_answer(
    entry: &Entry,
    whom: Option<&Performer>,
    answer: &Answer,
    by: Option<&str>,
) -> Option<String> {
    let (Some(whom), None) = (whom, by) else { return by.map(|_| lines::line(entry)) };
    match answer {
        Answer::Failed(failure) => {
            let what = paint(paint::ERROR, failure.kind.word());
            Some(of(entry, &format!("{whom}: {what} {}", lines::shorten_line(&failure.message))))
        }
        // How a child ended stands in its own last entry.
        Answer::Done(_) if matches!(whom, Performer::Run(_)) => None,
        Answer::Done(value) => Some(of(entry, &verdict(whom, value)?)),
    }
}

/// The verdict of a gate or a reviewer, with its first line of why.
fn verdict(whom: &Performer, value: &Value) -> Option<String> {
    let is_gate = whom
        .action()
        .and_then(|name| Catalogue::standard().action(name))
        .is_some_and(|action| action.kind == ActionKind::Gate);
    let said = |name: &str| value.field(name).as_text().map(telling).unwrap_or_default();
    let (word, style) = match (is_gate, value.field("verdict").as_text()) {
        (true, _) if value.field("passed").holds() => ("passed", paint::GOOD),
        (true, _) if value.field("failed").holds() => ("failed", paint::WARNING),
        (true, _) => ("not ready", paint::QUIET),
        (false, Some(verdict)) => (verdict, paint::STRONG),
        (false, None) => return None,
    };
    let why = if is_gate { said("summary") } else { said("feedback") };
    let why = if why.is_empty() { String::new() } else { format!(": {}", lines::shorten_line(&why)) };
    Some(format!("{whom} {}{why}", paint(style, word)))
}

fn of(entry: &Entry, text: &str) -> String {
    if entry.instance == ROOT {
        return text.to_owned();
    }
    format!("{} {text}", paint(paint::QUIET, format!("[{}]", entry.instance)))
}
