//! The summary of a run: what it looks like from outside, kept beside its journal.
//!
//! It is a projection, made again with every entry and never read back by the engine: a command that lists a
//! thousand runs reads a thousand summaries and no journal.

use std::collections::BTreeMap;
use std::fmt;

use ftl_core::run::{
    Action, ActionTarget, BudgetMeter, End, Instance, InstanceId, Open, OpenKind, ROOT, Run, Standing,
    ThreadId, Time,
};
use ftl_core::value::Value;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many things that a run waits for a summary names.
pub const MAX_WAITS: usize = 20;

/// How long a text in a summary may be.
pub const MAX_TEXT: usize = 400;

/// How a run stands, for commands and pages that do not drive it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunStanding {
    /// Something is being done, a person is waited for, a service is, it is held; or it has ended.
    Known(Standing),
    /// It should move, and no process drives it.
    Interrupted,
    /// Its summary cannot be read.
    #[default]
    Unknown,
}

impl RunStanding {
    /// The word; nothing where it is unknown.
    pub const fn word(self) -> &'static str {
        match self {
            RunStanding::Known(standing) => standing.word(),
            RunStanding::Interrupted => "interrupted",
            RunStanding::Unknown => "",
        }
    }

    /// Whether it goes on without a person.
    pub const fn moves(self) -> bool {
        matches!(self, RunStanding::Known(Standing::Running | Standing::Suspended))
    }

    /// How it has ended, if it has.
    pub const fn end(self) -> Option<End> {
        match self {
            RunStanding::Known(Standing::Settled(end)) => Some(end),
            RunStanding::Known(
                Standing::Running | Standing::Waiting | Standing::Suspended | Standing::Held,
            )
            | RunStanding::Interrupted
            | RunStanding::Unknown => None,
        }
    }
}

impl From<&str> for RunStanding {
    /// What a summary says; a word of a newer program is unknown.
    fn from(word: &str) -> RunStanding {
        let live = [Standing::Running, Standing::Waiting, Standing::Suspended, Standing::Held];
        let all = live.into_iter().chain(End::ALL.map(Standing::Settled));
        let known = all.map(RunStanding::Known).chain([RunStanding::Interrupted]);
        known.into_iter().find(|one| one.word() == word).unwrap_or_default()
    }
}

impl fmt::Display for RunStanding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

impl Serialize for RunStanding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for RunStanding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunStanding, D::Error> {
        String::deserialize(deserializer).map(|word| RunStanding::from(word.as_str()))
    }
}

/// What a run looks like from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The name of the protocol of the root instance.
    pub protocol: String,
    /// What it is for, in the words of the person who opened it.
    pub title: String,
    /// The state of the root.
    pub state: String,
    /// How it stands: running, waiting, suspended, held, or how it ended.
    pub standing: RunStanding,
    /// Why it stands so, where there is something to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was spent of what, by meter: the built-in ones of the whole run and the root's own.
    pub meters: BTreeMap<String, Spent>,
    /// What it waits for; the first `MAX_WAITS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<RunWait>,
    /// How many instances were opened, and how many of them have ended.
    pub instances: (u64, u64),
    /// The last entry that is in it.
    pub entry: u64,
}

/// A meter from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The amount that was charged so far.
    pub used: u64,
    /// How much may be used; `None` when nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// What is set aside for agents at work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// How many of the amounts are not known: worst cases were charged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

/// Something that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunWait {
    /// Whose: the number of the instance.
    pub instance: u32,
    /// The state it is in.
    pub state: String,
    /// The kind of thing that is waited for.
    pub what: WaitSubject,
    /// In words: the question, the reason, the service, whom it asked.
    pub text: String,
    /// The action, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Until when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// The kinds of things that a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitSubject {
    /// A person must speak before it goes on.
    Held,
    /// A question that a person answers.
    Question,
    /// One of the words that a WAIT names.
    Word,
    /// A service that does not answer.
    Service,
    /// An agent, a command or another action at work.
    Work,
}

/// Questions that are open, by action, as people are shown them. The journal keeps only a digest of a
/// question; its words are made again by the protocol.
pub type Questions = BTreeMap<(u32, String), String>;

/// The words of a question that is asked now.
pub fn question(action: &Action) -> Option<((u32, String), String)> {
    let text = match &action.wanted {
        ActionTarget::Question => {
            let choices = action.params.get("choices").map(Value::items).unwrap_or_default();
            let choices: Vec<&str> = choices.iter().filter_map(Value::as_text).collect();
            let asked = action.params.get("question").or_else(|| action.params.values().next());
            let asked = asked.map_or_else(String::new, spoken);
            if choices.is_empty() { asked } else { format!("{asked} [{}]", choices.join("|")) }
        }
        ActionTarget::Word(words) => words.join(" | "),
        ActionTarget::Action(_) | ActionTarget::Task { .. } => return None,
    };
    Some(((action.instance.0, action.id.to_string()), shorten(&text)))
}

fn spoken(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::List(items) => items.iter().map(spoken).collect::<Vec<_>>().join(" / "),
        Value::None | Value::Bool(_) | Value::Number(_) | Value::Record(_) => value.to_string(),
    }
}

impl Summary {
    /// The summary of a run as it is now.
    pub fn of(run: &Run, questions: &Questions) -> Summary {
        Summary::of_instance(run, questions, ROOT)
    }

    /// The summary of one instance and of what it opened.
    pub fn of_instance(run: &Run, questions: &Questions, id: InstanceId) -> Summary {
        let Some(root) = run.instance(id) else { return Summary::default() };
        let mut waits: Vec<RunWait> = Vec::new();
        let mut live = 0u64;
        for instance in run.live().filter(|one| is_below(run, one, id)) {
            live += 1;
            if waits.len() <= MAX_WAITS {
                waits_of(instance, questions, &mut waits);
            }
        }
        let all = match id {
            ROOT => run.instances().len() as u64,
            id => run.instances().iter().filter(|one| is_below(run, one, id)).count() as u64,
        };
        waits.sort_by_key(|wait| wait.what);
        let standing = match root.standing() {
            Standing::Settled(end) => Standing::Settled(end),
            Standing::Running | Standing::Waiting | Standing::Suspended | Standing::Held => standing(run, id),
        };
        waits.truncate(MAX_WAITS);
        Summary {
            protocol: root.protocol.to_string(),
            title: title(root),
            state: root.state.to_string(),
            standing: RunStanding::Known(standing),
            reason: reason(root, &waits),
            meters: meters(run, root),
            waits,
            instances: (all, all - live),
            entry: run.next_seq() - 1,
        }
    }

    /// Whether nothing moves any more without a person.
    pub fn rests(&self) -> bool {
        !self.standing.moves()
    }
}

/// Whether an instance is that one, or was opened by it or below it.
fn is_below(run: &Run, instance: &Instance, above: InstanceId) -> bool {
    let mut at = Some(instance);
    while let Some(one) = at.filter(|_| above != ROOT) {
        if one.id == above {
            return true;
        }
        at = one.parent.and_then(|(parent, _)| run.instance(parent));
    }
    above == ROOT
}

/// How a run stands that has not ended: over everything that is open, however little of it is shown.
fn standing(run: &Run, id: InstanceId) -> Standing {
    let mut best = WaitSubject::Held;
    for instance in run.live().filter(|one| is_below(run, one, id)) {
        let stuck = is_stuck(instance);
        for what in instance.open.values().filter_map(|open| kind_of(open)) {
            match what {
                WaitSubject::Work => return Standing::Running,
                WaitSubject::Service => best = WaitSubject::Service,
                WaitSubject::Question | WaitSubject::Word if best == WaitSubject::Held && !stuck => {
                    best = what;
                }
                WaitSubject::Question | WaitSubject::Word | WaitSubject::Held => {}
            }
        }
    }
    match best {
        WaitSubject::Held => Standing::Held,
        WaitSubject::Question | WaitSubject::Word => Standing::Waiting,
        WaitSubject::Service => Standing::Suspended,
        WaitSubject::Work => Standing::Running,
    }
}

/// What is waited for with something open; children and items wait with what they have open themselves.
fn kind_of(open: &Open) -> Option<WaitSubject> {
    if open.held.is_some() {
        return Some(WaitSubject::Held);
    }
    if open.suspended.is_some() {
        return Some(WaitSubject::Service);
    }
    match &open.kind {
        OpenKind::Call | OpenKind::Record => Some(WaitSubject::Work),
        OpenKind::Words(_) => Some(WaitSubject::Word),
        OpenKind::Question => Some(WaitSubject::Question),
        OpenKind::Child(_) | OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => None,
    }
}

fn waits_of(instance: &Instance, questions: &Questions, waits: &mut Vec<RunWait>) {
    let state = instance.state.to_string();
    let id = instance.id.0;
    for held in instance.held.values() {
        let text = shorten(&held.failure.message);
        waits.push(RunWait {
            instance: id,
            state: state.clone(),
            what: WaitSubject::Held,
            text,
            action: None,
            until: None,
        });
    }
    let stuck = is_stuck(instance);
    for (action, open) in instance.open.iter() {
        let Some((what, text, until)) = wait_of(open) else { continue };
        if stuck && matches!(what, WaitSubject::Word | WaitSubject::Question) {
            continue;
        }
        let action = action.to_string();
        let asked = questions.get(&(id, action.clone())).cloned().unwrap_or(text);
        let (state, action) = (state.clone(), Some(action));
        waits.push(RunWait { instance: id, state, what, text: asked, action, until });
    }
}

/// Where only a waiver or a stop leads on, no answer does.
fn is_stuck(instance: &Instance) -> bool {
    instance.held.get(&ThreadId::Main).is_some_and(|held| held.stuck)
}

fn wait_of(open: &Open) -> Option<(WaitSubject, String, Option<Time>)> {
    if open.held.is_some() {
        // Its line of work says why.
        return None;
    }
    if let Some((service, until)) = &open.suspended {
        return Some((WaitSubject::Service, service.clone(), Some(*until)));
    }
    match &open.kind {
        OpenKind::Call | OpenKind::Record => Some((WaitSubject::Work, open.whom.to_string(), None)),
        OpenKind::Words(words) => Some((WaitSubject::Word, words.join(" | "), None)),
        OpenKind::Question => Some((WaitSubject::Question, String::from("a question"), None)),
        OpenKind::Child(_) | OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => None,
    }
}

/// What a run is for: the input that says so, else its first text.
pub(crate) fn title(root: &Instance) -> String {
    let named = ["objective", "story", "brief", "task"].iter().find_map(|name| root.inputs.get(*name));
    let text = named.and_then(Value::as_text).or_else(|| root.inputs.values().find_map(Value::as_text));
    shorten(text.unwrap_or_default())
}

fn reason(root: &Instance, waits: &[RunWait]) -> Option<String> {
    let ended = root.end.as_ref().and_then(|(_, values)| values.get("reason")).and_then(Value::as_text);
    let held = waits.iter().find(|wait| wait.what == WaitSubject::Held).map(|wait| wait.text.as_str());
    ended.or(held).map(shorten)
}

fn meters(run: &Run, root: &Instance) -> BTreeMap<String, Spent> {
    let own = root.meters.iter().map(|(name, meter)| {
        (
            name.to_string(),
            Spent { used: meter.highest_use(), limit: Some(meter.limit), reserved: 0, unknown: 0 },
        )
    });
    let spent = |budget_meter: &BudgetMeter| Spent {
        used: budget_meter.used,
        limit: budget_meter.limit,
        reserved: budget_meter.reserved,
        unknown: budget_meter.guessed,
    };
    let purses = run.purses(root.id).into_iter().flatten();
    own.chain(purses.map(|(name, budget_meter)| (name.to_string(), spent(budget_meter)))).collect()
}

/// A text on one line, cut to what a summary holds.
pub fn shorten(text: &str) -> String {
    let line: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    if line.len() <= MAX_TEXT {
        return line;
    }
    format!("{}…", &line[..line.floor_char_boundary(MAX_TEXT)])
}
