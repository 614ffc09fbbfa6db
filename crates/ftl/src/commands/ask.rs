//! Asking a person at the terminal what a run asks, and driving it on with the answer.
//!
//! A person who cannot answer is not asked: without a terminal on both sides the run rests, and its last line says
//! how to answer it. While a person thinks the run is not held: the first answer from elsewhere is taken.

use ftl_command::session::session_failure;
use ftl_command::{CommandError, GlobalArgs, Out, session};
use ftl_core::run::{Action, ActionTarget, Event, Input, Standing};
use ftl_core::value::Value;
use ftl_engine::drive::{DriveEnd, StopSignal};
use ftl_engine::driver::{Driver, Todo};
use ftl_folder::id::RunId;
use ftl_store::order::Order;
use ftl_view::paint::{self, paint, safe};
use ftl_view::summary::RunStanding;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::flow::is_asked;
use super::run::ForegroundRun;
use ftl_command::known;

/// How long an answer may be that is typed at the terminal.
pub(crate) const MAX_TYPED_BYTES: usize = 64 * 1024;

/// How often a signal is looked for while a person thinks.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The answer that a person typed.
pub(super) enum Typed {
    /// A line that was typed, without its end.
    Line(String),
    /// Nothing more will come.
    End,
    /// A signal came first.
    Stopped,
}

impl ForegroundRun<'_> {
    /// Asks the person at the terminal for as long as the run rests on a question.
    pub(crate) fn with_person(
        &self,
        cli: &GlobalArgs,
        run: &RunId,
        rest: DriveEnd,
    ) -> Result<DriveEnd, CommandError> {
        let mut rest = rest;
        loop {
            let DriveEnd::Rests(summary) = &rest else { return Ok(rest) };
            if summary.standing != RunStanding::Known(Standing::Waiting) || !is_asked(self.out) {
                return Ok(rest);
            }
            let Some(question) = self.question(run)? else { return Ok(rest) };
            let by = session::person(cli, self.session.place())?;
            let value = match ask(&question, self.stop, self.out)? {
                Typed::Line(text) => Value::text(text),
                Typed::End => return Ok(rest),
                Typed::Stopped => return Ok(DriveEnd::Stopped(summary.clone())),
            };
            let order = Order::Answer { instance: question.instance, action: Some(question.id), value, by };
            rest = self.send_order(run, &order)?;
        }
    }

    /// Drives a run that is ours, and asks the person at the terminal where it asks.
    pub(super) fn drive_with_person(
        &self,
        cli: &GlobalArgs,
        driver: Driver,
        todo: Todo,
    ) -> Result<DriveEnd, CommandError> {
        let run = driver.id().clone();
        let rest = self.drive(driver, todo)?;
        self.with_person(cli, &run, rest)
    }

    /// The first question of a run, with the words in which it is asked: a journal keeps only their digest.
    fn question(&self, run: &RunId) -> Result<Option<Action>, CommandError> {
        let machine = self.session.look(run).map_err(|error| session_failure(&error))?;
        let again = machine.decide(&Input { at: 0, event: Event::Recover });
        Ok(again.start.into_iter().find(|action| action.wanted == ActionTarget::Question))
    }

    /// Has an order carried out and drives the run on. What is refused is told, and the run rests as before.
    fn send_order(&self, run: &RunId, order: &Order) -> Result<DriveEnd, CommandError> {
        let number = self.session.send(run, order).map_err(|error| session_failure(&error))?;
        let mut replied = || self.session.reply(number).map_or(true, |reply| reply.is_some());
        let rest = self.take_over(run, "waiting for it to take the answer", &mut replied)?;
        let reply = self.session.reply(number).map_err(|error| session_failure(&error))?;
        if let Some(refused) = reply.and_then(|reply| reply.refused) {
            self.out.error(&session::refusal(&refused, run.as_str()));
        }
        if let Some(rest) = rest {
            return Ok(rest);
        }
        let row = self.session.store().run(run).map_err(|error| session::store_failure(&error))?;
        let summary = row.as_ref().map(known::summary).unwrap_or_default();
        Ok(if self.stop.times_said() > 0 { DriveEnd::Stopped(summary) } else { DriveEnd::Rests(summary) })
    }
}

/// Puts a question until it is answered as it can be answered.
pub(super) fn ask(question: &Action, stop: &StopSignal, out: &Out) -> Result<Typed, CommandError> {
    let choices: Vec<&str> = question
        .params
        .get("choices")
        .map(Value::items)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_text)
        .collect();
    out.text(&asked_text(question.params.get("question").unwrap_or(&Value::None), &choices))?;
    loop {
        out.text("> ")?;
        let line = match line(stop) {
            Typed::Line(line) => line,
            ended @ (Typed::End | Typed::Stopped) => {
                out.text("\n")?;
                return Ok(ended);
            }
        };
        match parse_choice(&line, &choices) {
            Ok(answer) => return Ok(Typed::Line(answer)),
            Err(hint) => out.text(&format!("{} {hint}\n", paint(paint::HINT, "hint:")))?,
        }
    }
}

/// A question as a person reads it: several in a list, and what can be answered.
fn asked_text(question: &Value, choices: &[&str]) -> String {
    let mark = paint(paint::WARNING, "?");
    let mut text = match question {
        Value::List(items) => items.iter().map(|one| format!("{mark} {}\n", words(one))).collect(),
        Value::Text(_) | Value::None | Value::Bool(_) | Value::Number(_) | Value::Record(_) => {
            format!("{mark} {}\n", words(question))
        }
    };
    for (at, choice) in choices.iter().enumerate() {
        text.push_str(&format!("  {} {}\n", paint(paint::STRONG, at + 1), safe(choice)));
    }
    text
}

fn words(value: &Value) -> String {
    safe(&value.as_text().map_or_else(|| value.to_string(), str::to_owned))
}

/// What a line answers: one of the choices, by its word or its number, or any words where there are none.
fn parse_choice(line: &str, choices: &[&str]) -> Result<String, String> {
    let line = line.trim();
    if line.is_empty() {
        return Err(String::from("type an answer; Ctrl-D leaves the question open"));
    }
    if choices.is_empty() {
        return Ok(line.to_owned());
    }
    let by_number = line.parse::<usize>().ok().and_then(|at| choices.get(at.checked_sub(1)?));
    let found = choices.iter().find(|choice| choice.eq_ignore_ascii_case(line)).or(by_number);
    found.map(|choice| (*choice).to_owned()).ok_or_else(|| format!("it is one of {}", choices.join(", ")))
}

/// A line from standard input, as the terminal hands it over; a signal ends the waiting.
fn line(stop: &StopSignal) -> Typed {
    let stdin = std::io::stdin();
    let mut bytes = Vec::new();
    loop {
        if stop.times_said() > 0 {
            return Typed::Stopped;
        }
        let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
        if !poll(&mut asked, Some(&LOOK)).is_ok_and(|ready| ready > 0) {
            continue;
        }
        // Not through a buffer: what is in one is no longer there to wait for.
        let mut piece = [0; 4096];
        match rustix::io::read(&stdin, &mut piece) {
            Ok(0) | Err(_) if bytes.is_empty() => return Typed::End,
            Ok(0) | Err(_) => break,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
        if bytes.ends_with(b"\n") || bytes.len() > MAX_TYPED_BYTES {
            break;
        }
    }
    Typed::Line(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_answer_questions() {
        let landing = ["ff", "squash", "branch-only"];
        let cases: [(&str, &[&str], Result<&str, &str>); 8] = [
            (" the blue one \r", &[], Ok("the blue one")),
            ("  ", &[], Err("Ctrl-D")),
            ("2", &landing, Ok("squash")),
            ("FF", &landing, Ok("ff")),
            ("0", &landing, Err("ff, squash, branch-only")),
            ("4", &landing, Err("one of")),
            ("merge", &landing, Err("one of")),
            ("", &landing, Err("type an answer")),
        ];
        for (line, choices, wanted) in cases {
            match (parse_choice(line, choices), wanted) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
                (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{found}"),
                (found, wanted) => panic!("{line}: {found:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn several_questions_are_a_list() {
        let text =
            asked_text(&Value::list([Value::text("Which port?"), Value::text("Which\u{7} host?")]), &[]);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(text.lines().count(), 2);
        assert!(text.starts_with("? Which port?\n? Which") && !text.contains('\u{7}'), "{text}");
        let text =
            anstream::adapter::strip_str(&asked_text(&Value::text("Land?"), &["ff", "squash"])).to_string();
        assert_eq!(text, "? Land?\n  1 ff\n  2 squash\n");
    }
}
