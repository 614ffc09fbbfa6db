//! Entries of a journal as lines that people read.
//!
//! One entry is one line, whatever it holds: control characters are made visible and long texts are
//! cut. What the line leaves out is in `ftl log --json`.

use ftl_core::amount::Unit;
use ftl_core::run::{Answer, Cause, End, Entry, Fact, Failure, Payment, ROOT, STOPPED, Usage};
use ftl_core::value::{Fields, Value};

use crate::paint::{self, paint, safe};
use crate::relative_time;
use crate::runs;

/// How long a text inside a line may be.
const MAX_TEXT: usize = 160;

/// An entry as a line, without its number and time.
pub fn line(entry: &Entry) -> String {
    if entry.instance == ROOT {
        return what(&entry.fact);
    }
    format!("{} {}", paint(paint::QUIET, format!("[{}]", entry.instance)), what(&entry.fact))
}

/// Whether a person who follows a run wants to see an entry.
pub fn is_news(entry: &Entry) -> bool {
    match &entry.fact {
        Fact::Opened(_) | Fact::Moved { .. } | Fact::Emitted { .. } | Fact::Held { .. } => true,
        Fact::Waived { .. } | Fact::Raised { .. } | Fact::Suspended { .. } | Fact::Settled { .. } => true,
        Fact::Adopted { .. } => true,
        // The person or agent that asked for it is told; what is held because of it says so.
        Fact::Refused { .. } => false,
        Fact::Asked { .. } | Fact::Heard { .. } | Fact::Set { .. } | Fact::Paid(_) => false,
        Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } | Fact::Resumed { .. } => false,
    }
}

/// A fact in words, without whose it is.
pub fn what(fact: &Fact) -> String {
    match fact {
        Fact::Opened(opened) => {
            format!("{} {} in {}", paint(paint::STRONG, "opened"), opened.protocol, opened.state)
        }
        Fact::Asked { asks, .. } => {
            let names: Vec<String> = asks.iter().map(|ask| safe(&ask.whom.to_string())).collect();
            format!("asked {}", join_names(&names))
        }
        Fact::Heard { action, answer, by, .. } => render_answer(&action.to_string(), answer, by.as_deref()),
        Fact::Set { name, value } => format!("set {name} = {}", render_value(value)),
        Fact::Moved { from, to, cause, .. } => {
            let because =
                because(cause).map_or(String::new(), |why| paint(paint::QUIET, format!(" ({why})")));
            format!("{from} → {}{because}", paint(paint::STRONG, to))
        }
        Fact::Emitted { event: None, fields } => text_of(fields),
        Fact::Emitted { event: Some(event), fields } => {
            format!("{event}{}", paint(paint::QUIET, fields_of(fields)))
        }
        Fact::Paid(payment) => render_payment(payment),
        Fact::Refilled { meter, limit } => format!("refilled {meter} to {limit}"),
        Fact::Reserved { action, usage } => format!("set aside {} for {action}", amounts(usage)),
        Fact::Released { action } => format!("released what was set aside for {action}"),
        Fact::Waived { to, by, reason, .. } => {
            format!("{} to {to} by {}: {}", paint(paint::WARNING, "override"), safe(by), shorten_line(reason))
        }
        Fact::Raised { meter, limit, by, reason } => {
            let limit = Unit::of_meter(meter).show(*limit);
            format!(
                "{} {meter} to {limit} by {}: {}",
                paint(paint::WARNING, "raised"),
                safe(by),
                shorten_line(reason)
            )
        }
        Fact::Refused { what, failure, by, .. } => {
            let by = by.as_ref().map_or(String::new(), |by| format!(" by {}", safe(by)));
            format!("{} {}{by}: {}", paint(paint::WARNING, "refused"), shorten_line(what), why(failure))
        }
        Fact::Suspended { action, service, .. } if service == STOPPED => {
            format!("put off {action}: ftl was stopped")
        }
        Fact::Suspended { action, service, until } => {
            let (word, silence) = (paint(paint::WARNING, "suspended"), runs::silence(&safe(service)));
            format!("{word} {action}: {silence}, asked again at {}", relative_time::clock(*until))
        }
        Fact::Held { failure, .. } => format!("{} {}", paint(paint::ERROR, "held:"), why(failure)),
        Fact::Resumed { action, by, .. } => {
            let what =
                action.map_or_else(|| "goes on".to_owned(), |action| format!("{action} is asked again"));
            by.as_ref().map_or(what.clone(), |by| format!("{what}, said {}", safe(by)))
        }
        Fact::Adopted { state, by, .. } => format!("adopted in {state} by {}", safe(by)),
        Fact::Settled { end, values, .. } => {
            let colour = if *end == End::Complete { paint::GOOD } else { paint::WARNING };
            format!("{}{}", paint(colour, end.word()), paint(paint::QUIET, fields_of(values)))
        }
    }
}

fn render_answer(action: &str, answer: &Answer, by: Option<&str>) -> String {
    let by = by.map_or(String::new(), |by| format!(" from {}", safe(by)));
    match answer {
        Answer::Done(value) => format!("heard {action}{by}: {}", render_value(value)),
        Answer::Failed(failure) => {
            format!(
                "heard {action}{by}: {} {}",
                paint(paint::ERROR, failure.kind.word()),
                shorten_line(&failure.message)
            )
        }
    }
}

fn because(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Goto { guards, .. } if guards.is_empty() => None,
        Cause::Goto { guards, .. } => Some(shorten_line(&guards.join(" and "))),
        Cause::Else { failure, .. } => Some(format!("could not: {}", why(failure))),
        Cause::Limit { meter, .. } => Some(format!("{meter} spent")),
        Cause::Waiver { by, reason, .. } => {
            Some(format!("override by {}: {}", safe(by), shorten_line(reason)))
        }
        Cause::Redo { by, reason } => Some(format!("redo by {}: {}", safe(by), shorten_line(reason))),
    }
}

fn render_payment(payment: &Payment) -> String {
    match payment {
        Payment::Meter { meter, .. } => format!("paid {meter}"),
        Payment::Budget { action, usage, guessed } if guessed.is_empty() => {
            format!("{action} used {}", amounts(usage))
        }
        Payment::Budget { action, usage, guessed } => {
            format!(
                "{action} used {}; unknown, the worst case was charged: {}",
                amounts(usage),
                guessed.join(", ")
            )
        }
        Payment::Back { action, meter, count } => format!("{action} gets {count} {meter} back"),
        Payment::Attempts { action, message, forbidden: true } => {
            format!("{action} was ended: {}", shorten_line(message))
        }
        Payment::Attempts { action, message, forbidden: false } => {
            format!("{action} died: {}", shorten_line(message))
        }
    }
}

/// Amounts of built-in meters in words.
pub fn amounts(usage: &Usage) -> String {
    let words: Vec<String> =
        usage.iter().map(|(name, amount)| format!("{name} {}", Unit::of_meter(name).show(*amount))).collect();
    words.join(", ")
}

fn why(failure: &Failure) -> String {
    shorten_line(&failure.message)
}

fn join_names(names: &[String]) -> String {
    match names {
        [] => String::from("nothing"),
        [one] => one.clone(),
        [first, rest @ ..] if rest.iter().all(|name| name == first) => format!("{first} × {}", names.len()),
        several => several.join(", "),
    }
}

fn text_of(fields: &Fields) -> String {
    fields.get("text").and_then(Value::as_text).map_or_else(|| fields_of(fields), shorten_line)
}

fn fields_of(fields: &Fields) -> String {
    fields
        .iter()
        .filter(|(_, value)| !value.is_none())
        .map(|(name, value)| format!(" {name}={}", render_value(value)))
        .collect()
}

/// A value on one line.
pub fn render_value(value: &Value) -> String {
    shorten_line(&value.to_string())
}

/// A text on one line that is not too long.
pub fn shorten_line(text: &str) -> String {
    let text = safe(&text.replace(['\n', '\t'], " "));
    let text = text.trim_end();
    if text.chars().count() <= MAX_TEXT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_TEXT).collect();
    format!("{kept}…")
}
