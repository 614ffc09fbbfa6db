//! What the lines of a program mean: rules of an adapter turn one event into what happened.
//!
//! A rule looks at one event and knows nothing of the ones before. What an event holds besides is left
//! alone; an event that no rule is about means nothing. Nothing here can fail on what a program says.

use serde_json::Value as Json;

use super::fields::Fields;
use super::paths::{At, Holds};

/// How many rules an adapter may have.
pub const MAX_RULES: usize = 64;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The program's own name for the conversation.
    Session(String),
    /// A piece of what the agent says.
    Text(String),
    /// A piece of what it thinks aloud.
    Thought(String),
    /// It calls a tool, or has called one.
    Call(Called),
    /// A call came back.
    Back(Back),
    /// Something was used.
    Used(Used),
    /// The turn has ended.
    Ended(End),
}

/// A call as the program tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Which one.
    pub id: String,
    /// The program's name of the tool.
    pub tool: String,
    /// What it is given.
    pub args: Json,
}

/// That a call came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// Which one.
    pub id: String,
    /// Whether it went wrong.
    pub wrong: bool,
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
pub struct Used {
    /// From when on.
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
pub struct End {
    /// What the agent said last, where the event tells it.
    pub text: Option<String>,
    /// An answer that the program itself has held to its shape.
    pub answer: Option<Json>,
    /// Whether it ended well.
    pub good: bool,
    /// Why not.
    pub why: String,
}

/// What one kind of event means.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    when: Holds,
    unless: Holds,
    each: Option<At>,
    is: Holds,
    session: Option<At>,
    text: Option<At>,
    thought: Option<At>,
    call: Option<(At, At, At)>,
    back: Option<(At, Holds)>,
    usage: Option<UsageAt>,
    end: Option<EndAt>,
}

#[derive(Clone, Debug, PartialEq)]
struct UsageAt {
    since: Since,
    tokens: Vec<At>,
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

impl Rule {
    pub(super) fn read(fields: &mut Fields<'_>) -> Rule {
        let rule = Rule {
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
    pub fn of(&self, event: &Json) -> Vec<Event> {
        if !self.when.of(event) || (!self.unless.is_empty() && self.unless.of(event)) {
            return Vec::new();
        }
        match &self.each {
            None => self.meant(event),
            Some(each) => {
                let items = each.of(event).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
                items.iter().flat_map(|item| self.meant(item)).collect()
            }
        }
    }

    fn meant(&self, json: &Json) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.is.of(json) {
            return events;
        }
        let text = |at: &Option<At>| at.as_ref().and_then(|at| at.text(json)).map(str::to_owned);
        events.extend(text(&self.session).map(Event::Session));
        events.extend(text(&self.thought).map(Event::Thought));
        events.extend(text(&self.text).map(Event::Text));
        events.extend(self.usage.as_ref().map(|usage| Event::Used(usage.of(json))));
        events.extend(self.call.as_ref().and_then(|(id, tool, args)| {
            let args = args.of(json).cloned().unwrap_or_default();
            let id = id.text(json).unwrap_or_default().to_owned();
            Some(Event::Call(Called { id, tool: tool.text(json)?.to_owned(), args }))
        }));
        events.extend(self.back.as_ref().and_then(|(id, wrong)| {
            let wrong = !wrong.is_empty() && wrong.of(json);
            Some(Event::Back(Back { id: id.text(json)?.to_owned(), wrong }))
        }));
        events.extend(self.end.as_ref().map(|end| Event::Ended(end.of(json))));
        events
    }
}

impl UsageAt {
    fn of(&self, json: &Json) -> Used {
        let found: Vec<u64> =
            self.tokens.iter().filter_map(|at| at.of(json).and_then(Json::as_u64)).collect();
        let sum = found.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        let tokens = (!self.tokens.is_empty()).then_some((!found.is_empty()).then_some(sum));
        let money = self.money.as_ref().map(|at| at.of(json).and_then(Json::as_f64).and_then(millionths));
        Used { since: self.since, tokens, money, request: self.request }
    }
}

/// Money in millionths. Nothing at all is what a program says that knows no price, so that is unknown.
fn millionths(money: f64) -> Option<u64> {
    let rounded = (money * 1_000_000.0).round();
    (1.0..1e18).contains(&rounded).then_some(rounded as u64)
}

impl EndAt {
    fn of(&self, json: &Json) -> End {
        let text = self.text.as_ref().and_then(|at| at.text(json)).map(str::to_owned);
        let answer = self.answer.as_ref().and_then(|at| at.of(json)).filter(|one| one.is_object()).cloned();
        let told = |at: &At| {
            at.of(json)
                .filter(|one| !one.is_null())
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
        };
        let why: Vec<String> = self.why.iter().filter_map(told).collect();
        End { text, answer, good: self.good.of(json), why: why.join(": ") }
    }
}

fn call(fields: &mut Fields<'_>) -> Option<(At, At, At)> {
    let (id, tool, args) = (fields.path("id"), fields.path("tool"), fields.path("args"));
    if id.is_none() || tool.is_none() || args.is_none() {
        fields.fault("call", "`id`, `tool` and `args` say where they stand");
    }
    Some((id?, tool?, args?))
}

fn back(fields: &mut Fields<'_>) -> Option<(At, Holds)> {
    let (id, wrong) = (fields.path("id"), fields.holds("wrong"));
    if id.is_none() {
        fields.fault("id", "it must be there");
    }
    Some((id?, wrong))
}

fn usage(fields: &mut Fields<'_>) -> UsageAt {
    let since = [("last", Since::Last), ("turn", Since::Turn), ("session", Since::Session)];
    let usage = UsageAt {
        since: fields.word("since", &since).unwrap_or(Since::Last),
        tokens: fields.paths("tokens"),
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
