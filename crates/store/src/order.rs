//! Orders: what people tell a run, as they stand in the store until its owner takes them.
//!
//! An order is data with a name in it. It is taken exactly once, together with the facts that follow
//! from it, and the sender finds the reply beside it.

use ftl_core::run::{ActionId, Event, InstanceId, Refusal, RefusalKind};
use ftl_core::value::{Fields, Name, Value};
use serde::{Deserialize, Serialize};

/// What a person tells a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// The answer to a question.
    Answer {
        /// The instance that asks.
        instance: InstanceId,
        /// Which one; the only open one when it is not named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<ActionId>,
        /// The answer: text, or one of the choices of the question.
        value: Value,
        /// The name of the person, for the journal.
        by: String,
    },
    /// A word at a WAIT.
    Say {
        /// The instance that waits for the word.
        instance: InstanceId,
        /// A word that the WAIT of the instance names.
        word: Name,
        /// The name of the person, for the journal.
        by: String,
        /// The reason that the person gives, for the journal.
        reason: String,
        /// The options of the word.
        options: Fields,
    },
    /// A declared edge, although its conditions do not hold.
    Override {
        /// The instance that is moved.
        instance: InstanceId,
        /// The state to enter.
        to: Name,
        /// The name of the person, for the journal.
        by: String,
        /// The reason that the person gives, for the journal.
        reason: String,
    },
    /// A higher limit of a meter.
    Raise {
        /// The instance whose meter is raised.
        instance: InstanceId,
        /// The name of the meter.
        meter: Name,
        /// Its limit from now on.
        limit: u64,
        /// The name of the person, for the journal.
        by: String,
        /// The reason that the person gives, for the journal.
        reason: String,
    },
    /// Back to a state already visited.
    Redo {
        /// The instance that goes back.
        instance: InstanceId,
        /// The state to enter.
        to: Name,
        /// The name of the person, for the journal.
        by: String,
        /// The reason that the person gives, for the journal.
        reason: String,
    },
    /// Go on where it is held.
    Resume {
        /// The instance that is held.
        instance: InstanceId,
        /// The name of the person, for the journal.
        by: String,
    },
    /// The end, for an instance and what it opened.
    Stop {
        /// The instance to end.
        instance: InstanceId,
        /// The name of the person, for the journal.
        by: String,
        /// The reason that the person gives, for the journal.
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

/// The reply to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Why it was refused; `None` when it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The number of the first entry that followed from it, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}

/// The refusal of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The kind of refusal.
    pub kind: RefusedKind,
    /// The sentence for the person who gave the order.
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
    /// The action or question has been answered, or is no longer waited for.
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
