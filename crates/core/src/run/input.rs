//! Inputs and decisions: everything that comes in and everything that goes out.
//!
//! Actions are data. They can be printed, compared and stored; nothing in them is a handle.

use serde::Serialize;

use super::fact::{ActionId, End, Entry, Failure, InstanceId, Terms, Time, Usage};
use crate::performer::Performer;
use crate::value::{Fields, Name, Value};

/// An event with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// When, by the caller's clock.
    pub at: Time,
    /// What happened outside, or what a person asks for.
    pub event: Event,
}

/// An event that the driver tells the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A run begins: its root instance is opened.
    Open {
        /// The name of the root's protocol.
        protocol: Name,
        /// The values of the root's inputs.
        inputs: Fields,
        /// What it may use, and who stands in for people.
        terms: Terms,
        /// Where it stands, when it began elsewhere.
        adopt: Option<Adoption>,
    },
    /// An action came to an end.
    Outcome {
        /// The instance that asked for the action.
        instance: InstanceId,
        /// The id of the action.
        action: ActionId,
        /// With or without success.
        outcome: Outcome,
        /// What it used since the last report; `None` when the agent reported nothing.
        usage: Option<Usage>,
    },
    /// An agent wants to call a tool that PAYING counts.
    Tool {
        /// The instance that asked the agent.
        instance: InstanceId,
        /// The agent's task.
        action: ActionId,
        /// The name of the tool.
        tool: Name,
        /// The file that it reads or writes: each file is paid for once, however often it is read or written.
        file: Option<Name>,
    },
    /// An action that still runs has used something since the last report.
    Spent {
        /// The instance that asked for the action.
        instance: InstanceId,
        /// The id of the action.
        action: ActionId,
        /// How much of what.
        usage: Usage,
    },
    /// A person says a word at a WAIT.
    Say {
        /// The instance that waits for the word.
        instance: InstanceId,
        /// One of the words that the WAIT names.
        word: Name,
        /// The person who says it.
        by: String,
        /// The reason that the person gives; may be empty.
        reason: String,
        /// The options of the command.
        options: Fields,
    },
    /// A person answers a question.
    Reply {
        /// The instance that asks.
        instance: InstanceId,
        /// The question; the only open one when it is not named.
        action: Option<ActionId>,
        /// The answer, of the type that the question asks for.
        value: Value,
        /// The person who answers.
        by: String,
    },
    /// A person takes a declared edge whose conditions do not hold.
    Waive {
        /// The instance that is to move.
        instance: InstanceId,
        /// The state that the edge leads to.
        to: Name,
        /// The person who asks for it.
        by: String,
        /// The reason, which may not be blank.
        reason: String,
    },
    /// A person raises a limit.
    Raise {
        /// The instance whose meter it is.
        instance: InstanceId,
        /// The meter's name.
        meter: Name,
        /// Its limit from now on.
        limit: u64,
        /// The person who raises it.
        by: String,
        /// The reason, which may not be blank.
        reason: String,
    },
    /// A person goes back to a state already visited.
    Redo {
        /// The instance that goes back.
        instance: InstanceId,
        /// The state that it goes back to.
        to: Name,
        /// The person who asks for it.
        by: String,
        /// The reason, which may not be blank.
        reason: String,
    },
    /// A person lets a held instance go on.
    Resume {
        /// The instance that is held.
        instance: InstanceId,
        /// The person who lets it go on.
        by: String,
    },
    /// A person stops an instance and what it opened.
    Stop {
        /// The instance that is stopped.
        instance: InstanceId,
        /// The person who stops it.
        by: String,
        /// The reason, which may not be blank.
        reason: String,
    },
    /// Time has passed: what is due by now is done.
    Tick,
    /// The engine came back: what is open is asked again. What was at work and not interrupted is
    /// charged with all that is set aside for it.
    Recover,
}

/// Where work that began elsewhere stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The state in which it goes on.
    pub state: Name,
    /// The states it has been in.
    pub visited: Vec<Name>,
    /// What the state is told, such as the feedback that led there.
    pub params: Fields,
    /// The person who took it over.
    pub by: String,
}

/// How an action came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; this is the answer.
    Done(Value),
    /// It could not be done.
    Failed(Failure),
    /// Its agent or command died: it is asked again, a few times.
    Died(String),
    /// Its agent made a call that it may not make, and was ended: it is asked again as often as one that
    /// died, and told why.
    Forbidden(String),
    /// It was cancelled, and is still wanted: it is asked again at once. That is no attempt of an action of
    /// ours. An agent that ends so and was not called off has had an attempt: what a person or the
    /// engine calls off is not waited for any more, or is `Interrupted`.
    Cancelled,
    /// The engine is being stopped in the middle of it: nothing is started, and it is asked again
    /// when the engine is back. That is no attempt.
    Interrupted,
    /// A service does not answer; ask again then.
    Outage {
        /// The service's name.
        service: String,
        /// When to ask again.
        until: Time,
    },
    /// Its agent was started and says itself that a service does not answer. The engine has not seen that, so it
    /// counts as an attempt: it is asked again then, and held for a person at the last one.
    ClaimedOutage {
        /// The service's name.
        service: String,
        /// When to ask again.
        until: Time,
    },
}

/// What to do in the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// The instance that asks for it.
    pub instance: InstanceId,
    /// Its idempotency key.
    pub id: ActionId,
    /// The executor, agent or person that it is for.
    pub wanted: ActionTarget,
    /// Its parameters, evaluated.
    pub params: Fields,
    /// The call for which the agent of the last attempt was ended, where it made one that it may not make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forbidden: Option<Name>,
}

/// The executor, agent or person that an action is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionTarget {
    /// An action of the catalogue, or `sh`.
    Action(Name),
    /// An agent in a role; its tool calls pay the meter, if one is named.
    Task {
        /// The role's name.
        role: Name,
        /// The meter that PAYING names.
        paying: Option<Name>,
    },
    /// A person, who says one of these words.
    Word(Vec<Name>),
    /// A person, who answers the question in `params`.
    Question,
}

impl ActionTarget {
    /// Who is asked, as the journal names it.
    pub fn performer(&self) -> Performer {
        match self {
            ActionTarget::Action(name) => Performer::from(&**name),
            ActionTarget::Task { role, .. } => Performer::Task(role.clone()),
            ActionTarget::Word(_) => Performer::Word,
            ActionTarget::Question => Performer::Question,
        }
    }
}

/// The outcome of one input: facts, actions to start and to cancel, or a refusal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The facts, to be kept before anything is done.
    pub entries: Vec<Entry>,
    /// Actions to start, once the entries are on the disk.
    pub start: Vec<Action>,
    /// Actions to cancel: instance and action.
    pub cancel: Vec<(InstanceId, ActionId)>,
    /// Why the input was refused, if it was.
    pub refusal: Option<Refusal>,
}

/// Why an input was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind, from which faces make an exit code.
    pub kind: RefusalKind,
    /// The message for the person or program that sent the input.
    pub message: String,
    /// A command or a change that helps, for people.
    pub hint: Option<String>,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The input makes no sense: no such instance, an empty reason, a value of the wrong type.
    Malformed,
    /// A condition does not hold.
    Guard,
    /// Not here: no such edge, a word that is not waited for, a state never visited.
    NotHere,
    /// The action no longer waits for that.
    Late,
    /// The instance has ended.
    Settled(End),
}

impl Refusal {
    /// A refusal without a hint.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }
}
