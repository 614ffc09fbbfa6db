//! Facts: what the journal says, and nothing else is true.
//!
//! A fact carries names and values, never a place in memory and never a question: applying facts
//! rebuilds a run without the protocol, without a guard being looked at, without the world.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::performer::Performer;
use crate::value::{Fields, Name, Value};

/// Milliseconds of a clock that the caller reads; only ever compared and added to.
pub type Time = u64;

/// One protocol at work, by the order of opening; the root is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub u32);

/// The first instance of a run.
pub const ROOT: InstanceId = InstanceId(0);

impl fmt::Display for InstanceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// An action: the entry that asked for it and its place in that entry. It is the action's
/// idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActionId {
    /// The number of the entry.
    pub entry: u64,
    /// The place in it; `WHOLE` is the step that asked for several things.
    pub index: u32,
}

/// The index of a step that asked for several things at once.
pub const WHOLE: u32 = u32::MAX;

impl fmt::Display for ActionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.index == WHOLE {
            write!(out, "{}", self.entry)
        } else {
            write!(out, "{}.{}", self.entry, self.index)
        }
    }
}

impl From<ActionId> for String {
    fn from(id: ActionId) -> String {
        id.to_string()
    }
}

/// A text that is no action id, such as `12.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionIdError(String);

impl fmt::Display for ActionIdError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is no action id", self.0)
    }
}

impl std::error::Error for ActionIdError {}

impl TryFrom<String> for ActionId {
    type Error = ActionIdError;

    fn try_from(text: String) -> Result<ActionId, ActionIdError> {
        let (entry, index) = match text.split_once('.') {
            Some((entry, index)) => (entry, index.parse().map_err(|_| ActionIdError(text.clone()))?),
            None => (text.as_str(), WHOLE),
        };
        let entry = entry.parse().map_err(|_| ActionIdError(text.clone()))?;
        Ok(ActionId { entry, index })
    }
}

/// Which line of work inside an instance: the state itself, or one item of a FOR EACH.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadId {
    /// The statements of the state, outside of any FOR EACH.
    #[default]
    Main,
    /// One item of the FOR EACH at a place.
    Item {
        /// The place of the FOR EACH.
        each: u32,
        /// The key of the item.
        key: Name,
    },
}

/// Why something could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It was done and went wrong.
    Failed,
    /// It could not be started at all.
    CouldNotRun,
    /// It passed its limit of time.
    Timeout,
    /// A rule, a policy or a person forbade it.
    Denied,
    /// A meter is spent.
    Exhausted,
    /// The world is no longer what was seen.
    Stale,
    /// The machine could not do it: a failing or full disk, no memory, no descriptors, a broken repository.
    /// It says nothing about the work, so no ELSE, quorum, LIMIT or attempt answers it: the action is held
    /// and asked again under its id when a person has mended the machine.
    Machine,
    /// The agent that was asked asks a person instead. No ELSE answers that: the instance is held.
    Asked,
}

impl FailureKind {
    /// The word that protocols use.
    pub const fn word(self) -> &'static str {
        match self {
            FailureKind::Failed => "failed",
            FailureKind::CouldNotRun => "could_not_run",
            FailureKind::Timeout => "timeout",
            FailureKind::Denied => "denied",
            FailureKind::Exhausted => "exhausted",
            FailureKind::Stale => "stale",
            FailureKind::Machine => "machine",
            FailureKind::Asked => "asked",
        }
    }

    /// All kinds, in the order of declaration.
    pub const ALL: [FailureKind; 8] = [
        FailureKind::Failed,
        FailureKind::CouldNotRun,
        FailureKind::Timeout,
        FailureKind::Denied,
        FailureKind::Exhausted,
        FailureKind::Stale,
        FailureKind::Machine,
        FailureKind::Asked,
    ];
}

/// A failure: what kind, and what to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which kind of failure; protocols read it as `kind`.
    pub kind: FailureKind,
    /// The message for people; protocols read it as `message`.
    pub message: String,
}

impl Failure {
    /// A failure of that kind with that message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// As the value that an ELSE reads.
    pub fn value(&self) -> Value {
        Value::record([("kind", Value::text(self.kind.word())), ("message", Value::text(&self.message))])
    }
}

/// What was heard of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done; this is the answer.
    Done(Value),
    /// It could not be done.
    Failed(Failure),
}

/// A name for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// The variable's name.
    pub name: Name,
    /// Whether it sets a tracked variable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tracked: bool,
}

/// One thing that an entry asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The action, agent, protocol or person that is asked.
    pub whom: Performer,
    /// What it is called among its siblings.
    pub branch: Name,
    /// The digest of its parameters.
    pub digest: Name,
}

/// How several things asked for at once belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fan {
    /// PARALLEL: all, or until the time is over.
    Parallel {
        /// How many must succeed.
        quorum: u32,
        /// Branches whose success is a quorum by itself.
        critical: Vec<Name>,
        /// When the time is over.
        until: Option<Time>,
    },
    /// FOR EACH: the items that are started now.
    Each {
        /// Whether one end is enough.
        any: bool,
        /// The name that the block uses for the item.
        item: Name,
        /// The items, in the order of the asks.
        items: Vec<Value>,
    },
    /// WAIT: the words that a person may say.
    Words(Vec<Name>),
    /// A waiver's decision, recorded before the move.
    Record,
}

/// The reason for a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A GOTO of the document.
    Goto {
        /// The number of the GOTO in the state.
        place: u32,
        /// The conditions around it.
        guards: Arc<Vec<Name>>,
    },
    /// An ELSE that moves.
    Else {
        /// The number of the step in the state.
        place: u32,
        /// The failure that the ELSE answered.
        failure: Failure,
    },
    /// A payment that could not be made.
    Limit {
        /// The place of the payment.
        place: u32,
        /// The meter that had too little left.
        meter: Name,
    },
    /// A person took a declared edge whose conditions did not hold.
    Waiver {
        /// The place of the GOTO.
        place: u32,
        /// The person who asked for the override.
        by: String,
        /// The reason that the person gave.
        reason: String,
        /// The conditions that did not hold.
        unmet: Vec<String>,
    },
    /// A person went back.
    Redo {
        /// The person who asked for the redo.
        by: String,
        /// The reason that the person gave.
        reason: String,
    },
}

/// How an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It came to its end with success.
    Complete,
    /// Ended without success, with what was learned.
    Blocked,
    /// Handed back to the instance or the person that opened it.
    Escalated,
    /// Could not go on.
    Error,
    /// A person stopped it.
    Stopped,
    /// The instance that opened it no longer waits for it.
    Cancelled,
}

impl End {
    /// The end of a verdict's word.
    pub fn of(verdict: &str) -> Option<End> {
        match verdict {
            "complete" => Some(End::Complete),
            "blocked" => Some(End::Blocked),
            "escalated" => Some(End::Escalated),
            "error" => Some(End::Error),
            _ => None,
        }
    }

    /// All ends, in the order of declaration.
    pub const ALL: [End; 6] =
        [End::Complete, End::Blocked, End::Escalated, End::Error, End::Stopped, End::Cancelled];

    /// The word that protocols, tables and JSON use.
    pub const fn word(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Blocked => "blocked",
            End::Escalated => "escalated",
            End::Error => "error",
            End::Stopped => "stopped",
            End::Cancelled => "cancelled",
        }
    }
}

/// An amount of each built-in meter: tokens, money, time, turns.
pub type Usage = BTreeMap<Name, u64>;

/// One thing that happened in a run, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// An instance was opened.
    Opened(Box<Opened>),
    /// It asked for something and rests there.
    Asked {
        /// Which line of work.
        #[serde(default)]
        thread: ThreadId,
        /// The place in the state.
        place: u32,
        /// The asks, one a branch or an item.
        asks: Vec<Ask>,
        /// How several asks belong together; `None` for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fan: Option<Fan>,
    },
    /// An action was answered.
    Heard {
        /// The id of the action.
        action: ActionId,
        /// Its result, or why it failed.
        answer: Answer,
        /// The name that the answer is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bind: Option<Bind>,
        /// Who answered, if it was a person or a policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Whether it was cut short, so that its last report is still to come.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
        /// The signature of the failure that the answer tells of, where the run counts equal ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failing: Option<Name>,
    },
    /// A tracked variable changed.
    Set {
        /// The name of the variable.
        name: Name,
        /// Its value from now on.
        value: Value,
    },
    /// It moved to a state.
    Moved {
        /// The state that it left.
        from: Name,
        /// The state that it entered.
        to: Name,
        /// The code of that state, to notice a document that changed.
        code: Name,
        /// The parameters of the state.
        params: Fields,
        /// The statement or the person that caused the move.
        cause: Cause,
    },
    /// A line or an event for people and programs.
    Emitted {
        /// The event; a line of text has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<Name>,
        /// Its fields; a line of text is the field `text`.
        fields: Fields,
    },
    /// A meter, a budget or an attempt was charged, or paid back.
    Paid(Payment),
    /// A meter is unspent again.
    Refilled {
        /// The meter's name.
        meter: Name,
        /// Its limit from now on.
        limit: u64,
    },
    /// Something was set aside for an action, here and in every ancestor.
    Reserved {
        /// The agent's task that it is set aside for.
        action: ActionId,
        /// How much of what.
        usage: Usage,
    },
    /// What was set aside and not used is free again.
    Released {
        /// The agent's task that it was set aside for.
        action: ActionId,
    },
    /// A person takes a declared edge whose conditions do not hold.
    Waived {
        /// The state that the edge leads to.
        to: Name,
        /// The place of the GOTO.
        place: u32,
        /// The person who asked for the override.
        by: String,
        /// The reason that the person gave.
        reason: String,
        /// The conditions that do not hold, as far as they are known.
        unmet: Vec<String>,
    },
    /// A person raised a limit.
    Raised {
        /// The meter's name.
        meter: Name,
        /// Its limit from now on.
        limit: u64,
        /// The person who raised it.
        by: String,
        /// The reason that the person gave.
        reason: String,
    },
    /// Something was not done.
    Refused {
        /// The line of work whose step it was; a request from outside has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadId>,
        /// The place of that step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<u32>,
        /// The step or the request that was refused.
        what: String,
        /// Why it was refused.
        failure: Failure,
        /// Who asked for it, if it was a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A service does not answer; the action waits for it. The service is `STOPPED` when the engine
    /// itself was stopped.
    Suspended {
        /// The id of the action that waits.
        action: ActionId,
        /// The name of the service, as `ftl status` shows it.
        service: String,
        /// When to ask again.
        until: Time,
    },
    /// It stopped in place until a person speaks.
    Held {
        /// Which line of work.
        #[serde(default)]
        thread: ThreadId,
        /// The place in the state.
        place: u32,
        /// The failure that no ELSE answers.
        failure: Failure,
        /// The meter that is spent, and whose it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meter: Option<(InstanceId, Name)>,
        /// Whether going on from here makes sense.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stuck: bool,
        /// The action that stays open and is asked again under its id, because the machine could not do it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<ActionId>,
    },
    /// It goes on, or an action is asked again.
    Resumed {
        /// The action that is asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<ActionId>,
        /// The line of work that goes on.
        #[serde(default)]
        thread: ThreadId,
        /// Who said so, if it was a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Work that began elsewhere was taken over in the middle.
    Adopted {
        /// The state in which it goes on.
        state: Name,
        /// The code of that state.
        code: Name,
        /// The states it has been in.
        visited: Vec<Name>,
        /// The parameters of the state.
        params: Fields,
        /// The person who took it over.
        by: String,
    },
    /// The instance ended.
    Settled {
        /// With or without success.
        end: End,
        /// The values of its RETURN.
        values: Fields,
        /// The waivers on the way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waivers: Vec<Waiver>,
    },
}

/// What was paid, and from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Payment {
    /// A meter of the protocol.
    Meter {
        /// The meter's name.
        meter: Name,
        /// One payment for each key; the key of a plain meter is empty.
        keys: Vec<Name>,
        /// The agent's task whose tool call it pays for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<ActionId>,
        /// The file that the call reads or writes, where it is about one: it is paid for once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<Name>,
    },
    /// The built-in meters, here and in every ancestor. Journals call it by the name that it first had.
    #[serde(rename = "purse")]
    Budget {
        /// The action that used them.
        action: ActionId,
        /// How much of what.
        usage: Usage,
        /// The meters whose amount is a worst case, because the agent reported none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        guessed: Vec<Name>,
    },
    /// What an action had paid for its tool calls goes back: it is asked again from the beginning, and
    /// the engine or a service was to blame.
    Back {
        /// The id of the action.
        action: ActionId,
        /// The meter that gets its payments back.
        meter: Name,
        /// How often it had paid.
        count: u64,
    },
    /// One of the attempts of an action: its agent or command died, or its agent made a call that it may not
    /// make. It is asked again, a few times.
    Attempts {
        /// The id of the action.
        action: ActionId,
        /// What is known of its end.
        message: String,
        /// Whether the agent made a call that it may not make; the next attempt is told of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        forbidden: bool,
    },
}

/// The beginning of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The protocol's name.
    pub protocol: Name,
    /// The digest of its document.
    pub digest: Name,
    /// The state that it starts in.
    pub state: Name,
    /// The code of that state.
    pub code: Name,
    /// The parameters of the first state.
    pub params: Fields,
    /// The instance and the action that opened it; the root has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(InstanceId, ActionId)>,
    /// The values of its inputs.
    pub inputs: Fields,
    /// The first values of its variables.
    pub tracked: Fields,
    /// The limits of its meters.
    pub meters: BTreeMap<Name, Limit>,
    /// The terms of the whole run; only for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}

/// The limit of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The most that may be paid.
    pub limit: u64,
    /// Whether each key has a counter of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keyed: bool,
}

/// What a run may use and how people are stood in for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// Limits of the built-in meters for the whole run.
    pub limits: Usage,
    /// What is set aside before an agent is asked; also the worst case when it reports nothing.
    pub reserve: Usage,
    /// Policies by `protocol.STATE`, `protocol` or `*`.
    pub policies: BTreeMap<String, Policy>,
    /// What states need of agents that are not held to it, and what a person accepted: for the record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// How often the same failure may come in a row in one step; 0 counts none, as runs of earlier versions did.
    #[serde(skip_serializing_if = "is_zero")]
    pub equal_failures: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What happens where a person is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Wait for the person.
    #[default]
    Hold,
    /// The step fails, as denied.
    Deny,
    /// This is the answer; for a WAIT the words to say, once each per visit.
    Answer(Value),
}

/// An override: a declared edge taken although its conditions did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// The state that was left.
    pub from: Name,
    /// The state that was entered.
    pub to: Name,
    /// The person who asked for it.
    pub by: String,
    /// The reason that the person gave.
    pub reason: String,
    /// The conditions that did not hold.
    pub unmet: Vec<String>,
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number in the run, from 1.
    pub seq: u64,
    /// When, by the caller's clock.
    pub at: Time,
    /// The instance that the fact is about.
    pub instance: InstanceId,
    /// Whether it is the first of its decision.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// The fact itself; its fields stand beside `seq` in JSON.
    #[serde(flatten)]
    pub fact: Fact,
}
