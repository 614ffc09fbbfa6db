//! What happens in a flow, as lines: the few things that a person wants to hear of, each with its task.

use ftl_core::program::BoardKind;
use ftl_core::run::{Answer, End, Entry, Fact, ROOT};
use ftl_core::value::{Fields, Value};
use serde_json::{Value as Json, json};

use super::{Board, text};
use crate::cause::{cause, end_word, reason, telling};
use crate::lines;
use crate::paint::{self, one_line, paint, safe};

/// How wide the column of tasks is at least.
const NAMES: usize = 24;

/// An entry as a line, if it is news. It is asked before the board takes the entry in.
pub fn line(board: &Board, entry: &Entry) -> Option<String> {
    let (who, said) = match news_of(board, entry)? {
        (None, said) => (String::from("·"), said),
        (Some(name), said) => (paint(paint::STRONG, safe(&name)), said),
    };
    Some(format!("{}  {said}", paint::padded(&who, NAMES)))
}

/// The same for programs: when it was, which entry of the journal, of which task, and the words.
pub fn document(board: &Board, entry: &Entry) -> Option<Json> {
    let (task, said) = news_of(board, entry)?;
    let said = anstream::adapter::strip_str(&said).to_string();
    Some(json!({ "at": entry.at, "entry": entry.seq, "task": task, "state": board.state(), "text": said }))
}

/// Whom news are about, where it is a task, and what they are.
fn news_of(board: &Board, entry: &Entry) -> Option<(Option<String>, String)> {
    match entry.instance {
        ROOT if is_quiet(board, entry) => None,
        ROOT if board.is_story() || opens_story(board, entry) => Some((None, story(board, entry)?)),
        ROOT => Some((None, flow(board, entry)?)),
        instance => {
            let said = task(board, entry)?;
            let name = board.name_of(entry).unwrap_or_else(|| format!("[{instance}]"));
            Some((Some(name), said))
        }
    }
}

/// Whether an entry is the move to a state that its document calls quiet.
fn is_quiet(board: &Board, entry: &Entry) -> bool {
    let quiet = board.code().map_or(&[][..], |code| &code.quiet);
    matches!(&entry.fact, Fact::Moved { to, .. } if quiet.contains(to))
}

fn opens_story(board: &Board, entry: &Entry) -> bool {
    let is_steps = |protocol: &str| board.code_of(protocol).is_some_and(|code| code.kind == BoardKind::Steps);
    matches!(&entry.fact, Fact::Opened(opened) if is_steps(&opened.protocol))
}

/// What happens to a story: its states, and the words of those who worked and looked.
fn story(board: &Board, entry: &Entry) -> Option<String> {
    let Fact::Heard { action, answer, .. } = &entry.fact else {
        return lines::is_news(entry).then(|| lines::line(entry));
    };
    let asked = board.asked.get(&(entry.instance, *action))?;
    let (good, text) = super::story::describe_answer(asked, answer)?;
    Some(match good {
        Some(true) => paint(paint::GOOD, text),
        Some(false) => paint(paint::WARNING, text),
        None => text,
    })
}

fn flow(board: &Board, entry: &Entry) -> Option<String> {
    match &entry.fact {
        Fact::Moved { to, .. } if **to != *board.state() => Some(to.to_string()),
        Fact::Set { name, value } if &**name == "plan" => {
            let count = value.field("tasks").items().len();
            (count > 0).then(|| format!("planned: {}", paint::count(count, "task")))
        }
        Fact::Emitted { event: Some(event), fields } if &**event == "CASCADE_REPLAN" => {
            let affected = fields.get("affected").map(ToString::to_string).unwrap_or_default();
            let text = format!("planning again: {affected} tasks cannot be reached any more");
            Some(paint(paint::WARNING, text))
        }
        Fact::Emitted { event: Some(event), fields } if &**event == "PARTIAL_FAILURE" => {
            Some(format!("explorers are missing: {}", fields.get("missing").map(ToString::to_string)?))
        }
        // Where no agent is bound to observe, code learns alone, and the report says what.
        Fact::Emitted { event: None, fields } if unobserved(fields) => None,
        Fact::Emitted { event: None, .. } => Some(lines::line(entry)),
        Fact::Heard { action, answer: Answer::Done(value), .. } => {
            let asked = board.asked.get(&(entry.instance, *action))?;
            match asked.whom.action().unwrap_or_default() {
                "branch.deliver" => Some(one_line(&text(value, "summary"))),
                "workspace.create" => told_of_brief(value),
                _ => None,
            }
        }
        Fact::Held { .. } | Fact::Suspended { .. } | Fact::Waived { .. } | Fact::Raised { .. } => {
            Some(lines::line(entry))
        }
        Fact::Opened(_) | Fact::Moved { .. } | Fact::Set { .. } | Fact::Emitted { .. } => None,
        Fact::Heard { .. } | Fact::Asked { .. } | Fact::Settled { .. } | Fact::Resumed { .. } => None,
        Fact::Paid(_) | Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => None,
        Fact::Refused { .. } | Fact::Adopted { .. } => None,
    }
}

/// What a person should know of a brief.
fn told_of_brief(brief: &Value) -> Option<String> {
    let told: Vec<String> = [overlaps(brief), left_out(brief)].into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The kept work that a task does not go on from.
fn left_out(brief: &Value) -> Option<String> {
    let kept = text(brief, "left_out");
    let told = || format!("{} begins anew: {}", safe(&text(brief, "id")), super::conflicts(&kept));
    (!kept.is_empty()).then(|| paint(paint::WARNING, told()))
}

/// What a task changes that another run is changing too.
fn overlaps(brief: &Value) -> Option<String> {
    let both: Vec<&str> = brief.field("overlaps").items().iter().filter_map(Value::as_text).collect();
    (!both.is_empty()).then(|| {
        let told = format!(
            "{} is also being changed by {}: whoever lands second is merged and verified again",
            text(brief, "id"),
            both.join(", ")
        );
        paint(paint::WARNING, one_line(&told))
    })
}

fn unobserved(fields: &Fields) -> bool {
    let said = fields.get("text").and_then(Value::as_text).unwrap_or_default();
    said.starts_with("Nothing learned: no agent is bound")
}

fn task(board: &Board, entry: &Entry) -> Option<String> {
    match &entry.fact {
        Fact::Opened(opened) => {
            let budget = opened.meters.get("tools").map(|meter| format!(", {} tools", meter.limit));
            let mode = opened.inputs.get("mode").and_then(Value::as_text).unwrap_or_default();
            let mode = if mode.is_empty() { String::new() } else { format!(" {mode}") };
            Some(format!("begins ({}{mode}{})", opened.protocol, budget.unwrap_or_default()))
        }
        Fact::Heard { action, answer, .. } => {
            let asked = board.asked.get(&(entry.instance, *action))?;
            news_of_answer(asked.whom.action()?, answer)
        }
        Fact::Settled { end, values, .. } => {
            let value = |name: &str| values.get(name).and_then(Value::as_text).unwrap_or_default();
            Some(match end {
                End::Complete => format!("{} {}", paint(paint::GOOD, "landed"), one_line(value("delivered"))),
                End::Blocked | End::Escalated | End::Error | End::Stopped | End::Cancelled => {
                    let word = paint(paint::WARNING, format!("{}:", end_word(*end)));
                    format!("{word} {}", cause(value("reason")))
                }
            })
        }
        Fact::Held { failure, .. } => {
            Some(format!("{} {}", paint(paint::ERROR, "held:"), reason(&failure.message)))
        }
        Fact::Suspended { .. } | Fact::Waived { .. } | Fact::Raised { .. } => Some(lines::what(&entry.fact)),
        Fact::Moved { .. } | Fact::Set { .. } | Fact::Emitted { .. } | Fact::Asked { .. } => None,
        Fact::Paid(_) | Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => None,
        Fact::Refused { .. } | Fact::Adopted { .. } | Fact::Resumed { .. } => None,
    }
}

fn news_of_answer(whom: &str, answer: &Answer) -> Option<String> {
    let value = match (whom, answer) {
        (_, Answer::Done(value)) => value,
        ("verify.run", Answer::Failed(failure)) => {
            return Some(format!("verify could not run: {}", reason(&failure.message)));
        }
        (_, Answer::Failed(_)) => return None,
    };
    match whom {
        "verify.run" if value.field("passed").holds() => Some(paint(paint::GOOD, "verified")),
        "verify.run" => Some(format!(
            "{} {}",
            paint(paint::WARNING, "not verified:"),
            reason(&telling(&text(value, "summary")))
        )),
        "preflight.check" if value.field("failed").holds() => {
            Some(format!("broken syntax: {}", reason(&text(value, "summary"))))
        }
        "lesson.match" if value.field("found").holds() => {
            Some(format!("tries the fix of the lesson {}", safe(&text(value, "name"))))
        }
        "lesson.match" if !text(value, "why").is_empty() => Some(String::from("no lesson fits this failure")),
        "quality.check" if value.field("failed").holds() => {
            Some(format!("idioms: {}", reason(&text(value, "summary"))))
        }
        "work.land" if text(value, "status") == "conflict" => {
            Some(format!("conflict: {}", reason(&text(value, "summary"))))
        }
        _ => None,
    }
}
