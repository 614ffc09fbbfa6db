//! Orders: what people tell a run, as they stand in the store until its owner takes them.
//!
//! An order is data with a name in it. It is taken exactly once, together with the facts that follow
//! from it, and whoever sent it finds the reply beside it.

use ftl_core::run::{ActionId, Event, InstanceId, Refusal, RefusalKind};
use ftl_core::value::{Fields, Name, Value};
use serde::{Deserialize, Serialize};

/// What a person tells a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// The answer to a question.
    Answer {
        /// Whose question.
        instance: InstanceId,
        /// Which one; the only open one when it is not named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<ActionId>,
        /// The answer.
        value: Value,
        /// Who.
        by: String,
    },
    /// A word at a WAIT.
    Say {
        /// To whom.
        instance: InstanceId,
        /// The word.
        word: Name,
        /// Who.
        by: String,
        /// Why.
        reason: String,
        /// The options of the word.
        options: Fields,
    },
    /// A declared edge, although its conditions do not hold.
    Override {
        /// Whose.
        instance: InstanceId,
        /// Where to.
        to: Name,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// A higher limit.
    Raise {
        /// Whose.
        instance: InstanceId,
        /// The meter.
        meter: Name,
        /// Its limit from now on.
        limit: u64,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Back to a state already visited.
    Redo {
        /// Whose.
        instance: InstanceId,
        /// Where to.
        to: Name,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Go on where it is held.
    Resume {
        /// Whose.
        instance: InstanceId,
        /// Who.
        by: String,
    },
    /// The end, for an instance and what it opened.
    Stop {
        /// Whose.
        instance: InstanceId,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
}

impl From<Order> for Event {
    fn from(order: Order) -> Event {
        match order {
            Order::Answer { instance, action, value, by } => Event::Reply { instance, action, value, by },
            Order::Say { instance, word, by, reason, options } => {
                Event::Say { instance, word, by, reason, options }
            }
            Order::Override { instance, to, by, reason } => Event::Waive { instance, to, by, reason },
            Order::Raise { instance, meter, limit, by, reason } => {
                Event::Raise { instance, meter, limit, by, reason }
            }
            Order::Redo { instance, to, by, reason } => Event::Redo { instance, to, by, reason },
            Order::Resume { instance, by } => Event::Resume { instance, by },
            Order::Stop { instance, by, reason } => Event::Stop { instance, by, reason },
        }
    }
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Why it was refused; `None` when it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The number of the first entry that followed from it, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}

/// Why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// What kind of refusal.
    pub kind: RefusedKind,
    /// What to tell.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kinds of refusals, as they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedKind {
    /// It makes no sense: no such instance, an empty reason, a value of the wrong type.
    Malformed,
    /// A condition does not hold.
    Guard,
    /// Not here: no such edge, a word that is not waited for, a state never visited.
    NotHere,
    /// Nobody waits for it any more.
    Late,
    /// The instance has ended.
    Settled,
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Refused {
        let kind = match refusal.kind {
            RefusalKind::Malformed => RefusedKind::Malformed,
            RefusalKind::Guard => RefusedKind::Guard,
            RefusalKind::NotHere => RefusedKind::NotHere,
            RefusalKind::Late => RefusedKind::Late,
            RefusalKind::Settled(_) => RefusedKind::Settled,
        };
        Refused { kind, message: refusal.message.clone(), hint: refusal.hint.clone() }
    }
}
