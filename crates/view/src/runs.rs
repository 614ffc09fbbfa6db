//! Runs as they look from outside: what every face that shows one says about it.
//!
//! It reads summaries and never a journal. What a person can type is said here, so that all commands
//! say the same.

use std::collections::BTreeMap;
use std::fmt::Display;

use ftl_core::amount::{UNPRICED, Unit};
use ftl_core::run::{End, PULL, STOPPED, Standing, Time};

use crate::cause::cause;
use crate::paint::{self, paint, safe};
use crate::relative_time;
use crate::summary::{RunStanding, RunWait, Spent, Summary, WaitSubject};

/// A run or one of its instances, as a person names it.
pub fn instance_label(run: impl Display, instance: u32) -> String {
    if instance == 0 { run.to_string() } else { format!("{run}/{instance}") }
}

/// A command in the colour of hints.
pub fn command(words: &str) -> String {
    paint(paint::HINT, words)
}

/// What a person can type about something that a run waits for, among all that it waits for.
pub fn to_type(run: &impl Display, wait: &RunWait, among: &[RunWait]) -> Option<String> {
    let at = instance_label(run, wait.instance);
    match wait.what {
        WaitSubject::Held => Some(format!("ftl why {at}")),
        WaitSubject::Question => {
            let asks = |one: &&RunWait| one.what == WaitSubject::Question && one.instance == wait.instance;
            let several = among.iter().filter(asks).count() > 1;
            Some(answer(&at, wait.action.as_deref().filter(|_| several)))
        }
        WaitSubject::Word => Some(format!("ftl answer {at} WORD")),
        WaitSubject::Service | WaitSubject::Work => None,
    }
}

/// How a question is answered: by its name where several are open.
pub fn answer(at: &str, question: Option<&str>) -> String {
    let question = question.map_or(String::new(), |action| format!(" --question {action}"));
    format!("ftl answer {at} VALUE{question}")
}

/// What is said of a service that is waited for; a pull request answers, and is not ready.
pub fn silence(service: &str) -> String {
    let what = if service.starts_with(PULL) { "is not ready" } else { "does not answer" };
    format!("{service} {what}")
}

/// What a run waits for, a line each: at most so many, and those at work in one.
pub fn waits(
    run: &impl Display,
    (waits, is_interrupted): (&[RunWait], bool),
    most: usize,
    now: Time,
    width: Option<usize>,
) -> Vec<String> {
    // A run without a driver asks no service again.
    let silent =
        |wait: &RunWait| wait.what == WaitSubject::Service && (is_interrupted || wait.text == STOPPED);
    let people: Vec<&RunWait> =
        waits.iter().filter(|wait| wait.what != WaitSubject::Work && !silent(wait)).collect();
    let mut lines: Vec<String> =
        people.iter().take(most).map(|wait| wait_line(run, wait, waits, now, width)).collect();
    if people.len() > most {
        let more = paint(paint::QUIET, format!("and {} more;", people.len() - most));
        lines.push(format!("{more} {}", command(&format!("ftl status {run}"))));
    }
    let working = at_work(waits).filter(|_| !is_interrupted);
    lines.extend(working.map(|text| paint::fitted(&paint(paint::QUIET, text), width)));
    lines
}

/// Something that waits for a person or a service, in one line with what to type.
fn wait_line(
    run: &impl Display,
    wait: &RunWait,
    among: &[RunWait],
    now: Time,
    width: Option<usize>,
) -> String {
    let (state, text) = (safe(&wait.state), safe(&wait.text));
    let line = match wait.what {
        WaitSubject::Held => format!("{} {text}", paint(paint::ERROR, format!("held in {state}:"))),
        WaitSubject::Question => format!("{} {text}", paint(paint::WARNING, format!("asks in {state}:"))),
        WaitSubject::Word => {
            format!("{} {text}", paint(paint::WARNING, format!("waits in {state} for a word:")))
        }
        WaitSubject::Service => {
            let again = wait.until.map_or(String::new(), |until| {
                format!(
                    ", asked again {} ({})",
                    relative_time::time_left(until, now),
                    relative_time::clock(until)
                )
            });
            let head = paint(paint::WARNING, format!("suspended in {state}:"));
            format!("{head} {}{again}", silence(&text))
        }
        WaitSubject::Work => format!("{text} in {state}"),
    };
    match to_type(run, wait, among) {
        Some(words) => paint::fitted_before(&line, &command(&words), width),
        None => paint::fitted(&line, width),
    }
}

/// Who is at work, in one line: `at work: Task(builder) × 3, sh`.
fn at_work(waits: &[RunWait]) -> Option<String> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.what == WaitSubject::Work) {
        *names.entry(&wait.text).or_default() += 1;
    }
    let words: Vec<String> = names
        .into_iter()
        .map(|(name, count)| if count == 1 { safe(name) } else { format!("{} × {count}", safe(name)) })
        .collect();
    (!words.is_empty()).then(|| format!("at work: {}", words.join(", ")))
}

/// What was spent of what, where anything was.
pub fn render_spent(meters: &BTreeMap<String, Spent>) -> String {
    let is_unpriced = meters.get(UNPRICED).is_some_and(|spent| spent.used > 0);
    let told = |name: &str, spent: &Spent| match (name, is_unpriced, is_worth_telling(name, spent)) {
        (UNPRICED, _, _) => None,
        ("money", true, true) => Some(format!("money {} + unknown", share(name, spent))),
        ("money", true, false) => Some(String::from("money unknown")),
        (_, _, true) => Some(format!("{name} {}", share(name, spent))),
        (_, _, false) => None,
    };
    let words: Vec<String> = meters.iter().filter_map(|(name, spent)| told(name, spent)).collect();
    words.join(paint::DOT)
}

/// The same, with what is set aside for agents at work.
pub fn spent_and_aside(name: &str, spent: &Spent) -> String {
    match spent.reserved {
        0 => share(name, spent),
        reserved => format!("{} (+{} set aside)", share(name, spent), Unit::of_meter(name).show(reserved)),
    }
}

/// The parts of tokens: what they sum up to is told, and the parts where money is looked at.
const PARTS: [&str; 3] = ["input_tokens", "cached_tokens", "output_tokens"];

/// Whether anything of a meter was used that its unit can show.
pub fn is_worth_telling(name: &str, spent: &Spent) -> bool {
    if PARTS.contains(&name) {
        return false;
    }
    let unit = Unit::of_meter(name);
    spent.reserved > 0 || spent.unknown > 0 || unit.show(spent.used) != unit.show(0)
}

/// `1200/5M`, with a question mark where amounts are worst cases.
fn share(name: &str, spent: &Spent) -> String {
    let unit = Unit::of_meter(name);
    let limit = spent.limit.map_or(String::new(), |limit| format!("/{}", unit.show(limit)));
    let unknown = if spent.unknown > 0 { "?" } else { "" };
    format!("{}{unknown}{limit}", unit.show(spent.used))
}

/// The word for how a run stands, in its colour.
pub fn standing(standing: RunStanding) -> String {
    let style = match standing {
        RunStanding::Known(Standing::Settled(End::Complete)) => paint::GOOD,
        RunStanding::Known(Standing::Running) => paint::STRONG,
        RunStanding::Known(Standing::Held | Standing::Settled(End::Error)) => paint::ERROR,
        RunStanding::Known(Standing::Waiting | Standing::Suspended | Standing::Settled(_)) => paint::WARNING,
        RunStanding::Interrupted | RunStanding::Unknown => paint::WARNING,
    };
    paint(style, standing.word())
}

/// How a run came to rest: a line, and what a person can type.
pub fn at_rest(run: &impl Display, summary: &Summary) -> String {
    let reason = reason(summary).map_or(String::new(), |reason| format!(": {}", cause(reason)));
    let state = safe(&summary.state);
    let mut text = format!("run {run} {} in {state}{reason}\n", standing(summary.standing));
    for wait in &summary.waits {
        let Some(words) = to_type(run, wait, &summary.waits) else { continue };
        let what = match wait.what {
            WaitSubject::Held => String::from("shows what it needs"),
            WaitSubject::Question => format!("answers: {}", safe(&wait.text)),
            WaitSubject::Word => format!("says one of: {}", safe(&wait.text)),
            WaitSubject::Service | WaitSubject::Work => continue,
        };
        let line = format!("{} `{words}` {what}\n", paint(paint::HINT, "hint:"));
        if !text.contains(&line) {
            text.push_str(&line);
        }
    }
    text
}

/// Why a run stands so, where a reason is known.
pub fn reason(summary: &Summary) -> Option<&str> {
    summary.reason.as_deref().filter(|reason| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(what: WaitSubject, text: &str, instance: u32) -> RunWait {
        RunWait { instance, state: "BUILD".into(), what, text: text.into(), action: None, until: None }
    }

    #[test]
    fn those_at_work_stand_in_one_line() {
        let waits = [
            wait(WaitSubject::Work, "Task(a)", 1),
            wait(WaitSubject::Held, "x", 0),
            wait(WaitSubject::Work, "Task(a)", 2),
            wait(WaitSubject::Work, "sh", 2),
        ];
        assert_eq!(at_work(&waits).as_deref(), Some("at work: Task(a) × 2, sh"));
        assert_eq!(at_work(&waits[1..2]), None);
    }

    #[test]
    fn what_to_type_names_the_instance() {
        let run = "abcdefgh";
        let typed = |what, instance| to_type(&run, &wait(what, "", instance), &[]);
        assert_eq!(typed(WaitSubject::Question, 0), Some(format!("ftl answer {run} VALUE")));
        assert_eq!(typed(WaitSubject::Word, 4), Some(format!("ftl answer {run}/4 WORD")));
        assert_eq!(typed(WaitSubject::Work, 4), None);
    }

    #[test]
    fn what_to_type_names_the_question_where_several_are_open() {
        let run = "abcdefgh";
        let asks = |instance, action: &str| RunWait {
            action: Some(action.to_owned()),
            ..wait(WaitSubject::Question, "?", instance)
        };
        let waits = [asks(2, "3.0"), asks(2, "3.1"), asks(4, "5.0")];
        let typed: Vec<Option<String>> = waits.iter().map(|one| to_type(&run, one, &waits)).collect();
        assert_eq!(typed[0], Some(format!("ftl answer {run}/2 VALUE --question 3.0")));
        assert_eq!(typed[1], Some(format!("ftl answer {run}/2 VALUE --question 3.1")));
        assert_eq!(typed[2], Some(format!("ftl answer {run}/4 VALUE")));
    }

    #[test]
    fn every_hint_stands_once() {
        let waits = vec![
            wait(WaitSubject::Held, "one", 2),
            wait(WaitSubject::Held, "two", 2),
            wait(WaitSubject::Held, "one", 3),
        ];
        let summary = Summary { waits, reason: Some(String::new()), state: "A".into(), ..Summary::default() };
        let text = anstream::adapter::strip_str(&at_rest(&"abcdefgh", &summary)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].ends_with(" in A")), (3, true), "{text}");
    }

    #[test]
    fn meters_tell_what_is_used_unknown_and_set_aside() {
        let spent = Spent { used: 1200, limit: Some(5_000_000), reserved: 100_000, unknown: 1 };
        assert_eq!(spent_and_aside("tokens", &spent), "1200?/5M (+100k set aside)");
        assert_eq!(share("tokens", &spent), "1200?/5M");
        let of = |money: u64| {
            let spent = |used, limit| Spent { used, limit, reserved: 0, unknown: 0 };
            let meters = [
                ("money", spent(money, Some(20_000_000))),
                ("tokens", spent(7, None)),
                (UNPRICED, spent(2, None)),
            ];
            super::render_spent(&meters.map(|(name, spent)| (name.to_owned(), spent)).into())
        };
        assert_eq!(of(0), format!("money unknown{}tokens 7", paint::DOT));
        assert_eq!(of(610_000), format!("money 0.61/20.00 + unknown{}tokens 7", paint::DOT));
        let idle = Spent { used: 12, limit: Some(9), reserved: 0, unknown: 0 };
        assert!(!is_worth_telling("time", &idle) && is_worth_telling("rounds", &idle));
    }
}
