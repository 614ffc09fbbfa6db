//! What the lines of a program mean: rules of an adapter turn one event into what happened.
//!
//! A rule looks at one event and knows nothing of the ones before. What an event holds besides is left
//! alone; an event that no rule is about means nothing. Nothing here can fail on what a program says.

use serde_json::Value as Json;

use super::fields::Fields;
use super::paths::{At, Holds};
use crate::schema::text_in;

/// How many rules an adapter may have.
pub const MAX_RULES: usize = 64;

/// Something that a program reports in one line of its output.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramEvent {
    /// The program's own name for the conversation.
    Session(String),
    /// A piece of what the agent says.
    Text(String),
    /// A piece of what it thinks aloud.
    Thought(String),
    /// It calls a tool, or has called one.
    Call(ReportedCall),
    /// A call came back.
    Back(Back),
    /// Tokens or money were used.
    Used(ReportedUsage),
    /// The turn has ended.
    Ended(TurnEnd),
}

/// A call as the program tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedCall {
    /// The program's name for the call.
    pub id: String,
    /// The program's name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub args: Json,
}

/// That a call came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// The program's name for the call.
    pub id: String,
    /// Whether it went wrong.
    pub wrong: bool,
    /// What it brought, where the program tells it.
    pub result: Option<String>,
}

/// What a number of tokens or an amount of money is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The last event of this kind.
    Last,
    /// The beginning of the turn.
    Turn,
    /// The beginning of the session.
    Session,
}

/// What was used, as the program tells it. What it does not tell is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The event or the moment from which the amounts are counted.
    pub since: Since,
    /// Tokens; nothing where this rule is not about them, `Some(None)` where they should be there.
    pub tokens: Option<Option<u64>>,
    /// Money, in millionths, in the same way.
    pub money: Option<Option<u64>>,
    /// Whether a request to a model ends here.
    pub request: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// What the agent said last, where the event tells it.
    pub text: Option<String>,
    /// An answer that the program itself has held to its shape.
    pub answer: Option<Json>,
    /// Whether it ended well.
    pub good: bool,
    /// Why it did not end well; empty where the program does not say.
    pub why: String,
}

/// What one kind of event means.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRule {
    when: Holds,
    unless: Holds,
    each: Option<At>,
    is: Holds,
    session: Option<At>,
    text: Option<At>,
    thought: Option<At>,
    call: Option<(At, At, At)>,
    back: Option<BackAt>,
    usage: Option<UsageAt>,
    end: Option<EndAt>,
}

#[derive(Clone, Debug, PartialEq)]
struct BackAt {
    id: At,
    wrong: Holds,
    result: Option<At>,
}

#[derive(Clone, Debug, PartialEq)]
struct UsageAt {
    since: Since,
    tokens: Vec<At>,
    /// Parts that a program leaves out where there were none.
    maybe: Vec<At>,
    money: Option<At>,
    request: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct EndAt {
    text: Option<At>,
    answer: Option<At>,
    good: Holds,
    why: Vec<At>,
}

impl EventRule {
    pub(super) fn read(fields: &mut Fields<'_>) -> EventRule {
        let rule = EventRule {
            when: fields.holds("when"),
            unless: fields.holds("unless"),
            each: fields.path("each"),
            is: fields.holds("is"),
            session: fields.path("session"),
            text: fields.path("text"),
            thought: fields.path("thought"),
            call: fields.below("call", call).flatten(),
            back: fields.below("back", back).flatten(),
            usage: fields.below("usage", usage),
            end: fields.below("end", end),
        };
        if rule.when.is_empty() {
            fields.fault("when", "it must be there, or the rule is about every event");
        }
        rule
    }

    /// Whether a turn ends by it.
    pub fn is_end(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it is about calls.
    pub fn is_call(&self) -> bool {
        self.call.is_some()
    }

    /// Whether it tells tokens.
    pub fn has_tokens(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| !usage.tokens.is_empty())
    }

    /// Whether it tells money.
    pub fn has_money(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| usage.money.is_some())
    }

    /// What an event means by this rule.
    pub fn of(&self, event: &Json) -> Vec<ProgramEvent> {
        if !self.when.of(event) || (!self.unless.is_empty() && self.unless.of(event)) {
            return Vec::new();
        }
        match &self.each {
            None => self.interpret(event),
            Some(each) => {
                let items = each.of(event).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
                items.iter().flat_map(|item| self.interpret(item)).collect()
            }
        }
    }

    fn interpret(&self, json: &Json) -> Vec<ProgramEvent> {
        let mut events = Vec::new();
        if !self.is.of(json) {
            return events;
        }
        let text = |at: &Option<At>| at.as_ref().and_then(|at| at.text(json)).map(str::to_owned);
        events.extend(text(&self.session).map(ProgramEvent::Session));
        events.extend(text(&self.thought).map(ProgramEvent::Thought));
        events.extend(text(&self.text).map(ProgramEvent::Text));
        events.extend(self.usage.as_ref().map(|usage| ProgramEvent::Used(usage.of(json))));
        events.extend(self.call.as_ref().and_then(|(id, tool, args)| {
            let args = args.of(json).cloned().unwrap_or_default();
            let id = id.text(json).unwrap_or_default().to_owned();
            Some(ProgramEvent::Call(ReportedCall { id, tool: tool.text(json)?.to_owned(), args }))
        }));
        events.extend(self.back.as_ref().and_then(|back| back.of(json)).map(ProgramEvent::Back));
        events.extend(self.end.as_ref().map(|end| ProgramEvent::Ended(end.of(json))));
        events
    }
}

impl BackAt {
    fn of(&self, json: &Json) -> Option<Back> {
        let wrong = !self.wrong.is_empty() && self.wrong.of(json);
        let result = self.result.as_ref().and_then(|at| at.of(json)).map(text_in);
        Some(Back {
            id: self.id.text(json)?.to_owned(),
            wrong,
            result: result.filter(|text| !text.is_empty()),
        })
    }
}

impl UsageAt {
    fn of(&self, json: &Json) -> ReportedUsage {
        let spoilt = self.is_spoilt(json);
        // A part that is missing is as unknown as one that cannot be read: a program that leaves one of its numbers
        // out would be charged for the others alone.
        let mut parts = self.tokens.iter().map(|at| at.of(json).and_then(Json::as_u64));
        let sum = parts.try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)));
        let more = self.maybe.iter().filter_map(|at| at.of(json).and_then(Json::as_u64));
        let sum = sum.map(|sum| more.fold(sum, u64::saturating_add));
        let tokens = (!self.tokens.is_empty()).then_some(sum.filter(|_| !spoilt));
        let money = |at: &At| at.of(json).and_then(Json::as_f64).and_then(millionths);
        let money = self.money.as_ref().map(|at| money(at).filter(|_| !spoilt));
        ReportedUsage { since: self.since, tokens, money, request: self.request }
    }

    /// Whether a number of the report is there and none that can be: then nothing of the report is believed.
    fn is_spoilt(&self, json: &Json) -> bool {
        let there = |at: &At| at.of(json).filter(|one| !one.is_null()).cloned();
        let tokens = self.tokens.iter().chain(&self.maybe).filter_map(there);
        let tokens = tokens.into_iter().any(|one| one.as_u64().is_none());
        let money = self.money.iter().filter_map(there);
        tokens
            || money.into_iter().any(|one| !one.as_f64().is_some_and(|one| (0.0..MAX_MONEY).contains(&one)))
    }
}

/// How much money a report may tell of: more than that is no price.
const MAX_MONEY: f64 = 1e12;

/// Money in millionths. Nothing at all is what a program says that knows no price, so that is unknown.
fn millionths(money: f64) -> Option<u64> {
    let rounded = (money * 1_000_000.0).round();
    (1.0..1e18).contains(&rounded).then_some(rounded as u64)
}

impl EndAt {
    fn of(&self, json: &Json) -> TurnEnd {
        let text = self.text.as_ref().and_then(|at| at.text(json)).map(str::to_owned);
        let answer = self.answer.as_ref().and_then(|at| at.of(json)).filter(|one| one.is_object()).cloned();
        let told = |at: &At| {
            at.of(json)
                .filter(|one| !one.is_null())
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
        };
        let why: Vec<String> = self.why.iter().filter_map(told).collect();
        TurnEnd { text, answer, good: self.good.of(json), why: why.join(": ") }
    }
}

fn call(fields: &mut Fields<'_>) -> Option<(At, At, At)> {
    let (id, tool, args) = (fields.path("id"), fields.path("tool"), fields.path("args"));
    if id.is_none() || tool.is_none() || args.is_none() {
        fields.fault("call", "`id`, `tool` and `args` say where they stand");
    }
    Some((id?, tool?, args?))
}

fn back(fields: &mut Fields<'_>) -> Option<BackAt> {
    let (id, wrong, result) = (fields.path("id"), fields.holds("wrong"), fields.path("result"));
    if id.is_none() {
        fields.fault("id", "it must be there");
    }
    Some(BackAt { id: id?, wrong, result })
}

fn usage(fields: &mut Fields<'_>) -> UsageAt {
    let since = [("last", Since::Last), ("turn", Since::Turn), ("session", Since::Session)];
    let usage = UsageAt {
        since: fields.word("since", &since).unwrap_or(Since::Last),
        tokens: fields.paths("tokens"),
        maybe: fields.paths("maybe"),
        money: fields.path("money"),
        request: fields.flag("request"),
    };
    if usage.tokens.is_empty() && usage.money.is_none() && !usage.request {
        fields.fault("usage", "`tokens`, `money` or `request` says what it is about");
    }
    usage
}

fn end(fields: &mut Fields<'_>) -> EndAt {
    EndAt {
        text: fields.path("text"),
        answer: fields.path("answer"),
        good: fields.holds("good"),
        why: fields.paths("why"),
    }
}
