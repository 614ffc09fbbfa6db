//! `ftl answer`, `ftl override`, `ftl raise`, `ftl stop`: what a person tells a run.
//!
//! Every one of them leaves an order in the store first. The process that drives the run takes it; if none
//! does, this process takes the run over, carries the order out and drives it on.

use std::io::Read as _;

use ftl_command::session::session_failure;
use ftl_command::trust::TrustScope;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session, signals};
use ftl_core::amount::Unit;
use ftl_core::run::{ActionId, InstanceId};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::DriveEnd;
use ftl_engine::executors::questions;
use ftl_engine::session::{RunTarget, Session, find};
use ftl_folder::id::RunId;
use ftl_store::MAX_COMMAND_BYTES;
use ftl_store::order::{Order, Reply};
use ftl_view::paint::{self, paint};
use ftl_view::runs;
use ftl_view::summary::{RunWait, WaitSubject};
use serde_json::json;

use super::code;
use super::run::{ForegroundRun, Left, document, exit_of, left_text, value_of};
use crate::cli::{AnswerArgs, Override, Raise, StopArgs, WaitArg};
use ftl_command::known;

/// `ftl answer ID VALUE`.
pub(crate) fn answer(cli: &GlobalArgs, asked: &AnswerArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let (session, by) = begin(cli)?;
    let target = target(&session, &asked.id)?;
    let named = asked.id.contains('/');
    let text = if asked.value == "-" { standard_input()? } else { asked.value.clone() };
    if let Some(question) = &asked.question {
        let action = question_of(question)?;
        let instance = if named { target.instance } else { asking(&session, &target, action)? };
        let order = Order::Answer { instance, action: Some(action), value: answer_value(&text)?, by };
        let exit = carry_out(&session, &target, &order, asked.wait, out)?;
        return ended_as(&session, &target.row.run, exit);
    }
    let waits = known::summary(&target.row).waits;
    let wait = waiting(&waits, &target, named);
    let instance = wait.map_or(target.instance, |wait| InstanceId(wait.instance));
    let order = match wait.map(|wait| wait.what) {
        Some(WaitSubject::Word) => {
            let reason = asked.reason.clone().unwrap_or_default();
            Order::Say { instance, word: Name::from(text.trim()), by, reason, options: Fields::new() }
        }
        None if let Some(instance) = answered(&session, &target, &waits, named, &text, &by)? => {
            Order::Resume { instance, by }
        }
        Some(WaitSubject::Question | WaitSubject::Held | WaitSubject::Service | WaitSubject::Work) | None => {
            Order::Answer { instance, action: None, value: answer_value(&text)?, by }
        }
    };
    let exit = carry_out(&session, &target, &order, asked.wait, out)?;
    ended_as(&session, &target.row.run, exit)
}

/// How an answer ends that ended its run: as the run did. One after which the run goes on or asks again is done.
fn ended_as(session: &Session, run: &RunId, exit: ExitStatus) -> Result<ExitStatus, CommandError> {
    let row = session.store().run(run).map_err(|error| session::store_failure(&error))?;
    let ended = row.filter(|row| row.settled && exit == ExitStatus::Done);
    Ok(ended.map_or(exit, |row| exit_of(&Left::Rest(DriveEnd::Rests(known::summary(&row))))))
}

/// `ftl override ID STATE --reason`.
pub(crate) fn override_(cli: &GlobalArgs, asked: &Override, out: &Out) -> Result<ExitStatus, CommandError> {
    let (session, by) = begin(cli)?;
    let target = target(&session, &asked.id)?;
    let (instance, to, reason) = (target.instance, Name::from(asked.state.as_str()), asked.reason.clone());
    carry_out(&session, &target, &Order::Override { instance, to, by, reason }, asked.wait, out)
}

/// `ftl raise ID METER AMOUNT --reason`.
pub(crate) fn raise(cli: &GlobalArgs, asked: &Raise, out: &Out) -> Result<ExitStatus, CommandError> {
    let unit = Unit::of_meter(&asked.meter);
    let limit = unit.parse(&asked.amount).map_err(|error| {
        CommandError::usage(error.to_string(), "the amount is the new limit, not what is added")
    })?;
    let (session, by) = begin(cli)?;
    let target = target(&session, &asked.id)?;
    let (instance, meter, reason) = (target.instance, Name::from(asked.meter.as_str()), asked.reason.clone());
    carry_out(&session, &target, &Order::Raise { instance, meter, limit, by, reason }, asked.wait, out)
}

/// `ftl stop ID`.
pub(crate) fn stop(cli: &GlobalArgs, asked: &StopArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let (session, by) = begin(cli)?;
    let target = target(&session, &asked.id)?;
    let reason = asked.reason.clone().unwrap_or_default();
    carry_out(
        &session,
        &target,
        &Order::Stop { instance: target.instance, by, reason },
        WaitArg { no_wait: false },
        out,
    )
}

/// The person is looked at before anything is opened: an agent gets nowhere.
fn begin(cli: &GlobalArgs) -> Result<(Session, String), CommandError> {
    let place = session::place(cli)?;
    let by = session::person(cli, &place)?;
    session::store_of_runs(&place)?;
    Ok((session::open(cli)?, by))
}

fn target(session: &Session, id: &str) -> Result<RunTarget, CommandError> {
    find(&**session.store(), id).map_err(|error| session_failure(&error))
}

/// What a person answers when they name a run: what the named instance waits for, or else the only
/// thing of the whole run that waits for a person.
fn waiting<'a>(waits: &'a [RunWait], target: &RunTarget, named: bool) -> Option<&'a RunWait> {
    let speaks = |wait: &&RunWait| matches!(wait.what, WaitSubject::Question | WaitSubject::Word);
    let own = waits.iter().filter(speaks).find(|wait| wait.instance == target.instance.0);
    let mut all = waits.iter().filter(speaks);
    let only = all.next().filter(|_| !named && all.next().is_none());
    own.or(only)
}

/// Keeps what a person answers to an agent that asked before its instance was held: the instance that goes
/// on with it, if one asks.
fn answered(
    session: &Session,
    target: &RunTarget,
    waits: &[RunWait],
    named: bool,
    text: &str,
    by: &str,
) -> Result<Option<InstanceId>, CommandError> {
    let records = session.records();
    let run = &target.row.run;
    let failed = |error: ftl_store::StoreError| session::store_failure(&error);
    let mut asking = Vec::new();
    for wait in waits.iter().filter(|wait| wait.what == WaitSubject::Held) {
        let instance = InstanceId(wait.instance);
        if (!named || instance == target.instance)
            && questions::open(records, run, instance).map_err(failed)?.is_some()
        {
            asking.push(instance);
        }
    }
    let [instance] = asking.as_slice() else { return Ok(None) };
    let text = session.secrets().redact(text.trim());
    questions::answer(records, run, *instance, &text, by).map_err(failed)?;
    Ok(Some(*instance))
}

/// A question as a person names it.
fn question_of(text: &str) -> Result<ActionId, CommandError> {
    let wrong =
        |_| CommandError::usage(format!("`{text}` is no question"), "`ftl why ID` names them, such as 3.0");
    ActionId::try_from(text.to_owned()).map_err(wrong)
}

/// The instance that asks a question; the named one if none does, which then says so.
fn asking(session: &Session, target: &RunTarget, action: ActionId) -> Result<InstanceId, CommandError> {
    let run = session.look(&target.row.run).map_err(|error| session_failure(&error))?;
    let asks = run.live().find(|one| one.open.contains_key(&action)).map(|one| one.id);
    Ok(asks.unwrap_or(target.instance))
}

/// Sends an order, sees that it is taken, and drives the run on where no other process does: an owner that
/// is dead, or has not moved for as long as one may be silent, loses it.
fn carry_out(
    session: &Session,
    target: &RunTarget,
    order: &Order,
    wait: WaitArg,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let run = &target.row.run;
    // Whoever may have to drive the run on takes orders from its protocol; ending it needs nothing.
    if !wait.no_wait && !matches!(order, Order::Stop { .. }) {
        let opened = known::summary(&target.row);
        session::require_trust(session, TrustScope::Runs(&[&opened.protocol], None), out)?;
    }
    let number = session.send(run, order).map_err(|error| session_failure(&error))?;
    if wait.no_wait {
        return report_queued(run, false, out);
    }
    let stop = signals::stop(out)?;
    let wheel = ForegroundRun::new(session, &stop, out);
    let mut rest = None;
    loop {
        if let Some(reply) = session.reply(number).map_err(|error| session_failure(&error))? {
            return tell(&wheel, target, &reply, rest.as_ref());
        }
        if rest.is_some() || stop.times_said() > 0 {
            return report_queued(run, true, out);
        }
        // An error shows itself in the next turn.
        let mut replied = || session.reply(number).map_or(true, |reply| reply.is_some());
        rest = wheel.take_over(run, "waiting for it to take the order", &mut replied)?;
    }
}

/// The order is in the store; the next process that drives the run takes it.
fn report_queued(run: &RunId, interrupted: bool, out: &Out) -> Result<ExitStatus, CommandError> {
    if out.is_json() {
        out.json(&json!({ "run": run, "kept": true, "interrupted": interrupted }))?;
    } else {
        let hint = paint(paint::HINT, "hint:");
        let word = if interrupted { "interrupted; the order is kept" } else { "kept" };
        out.text(&format!(
            "{word} for run {run}\n{hint} whoever drives it takes the order; `ftl resume {run}` goes on\n"
        ))?;
    }
    Ok(if interrupted { ExitStatus::Interrupted } else { ExitStatus::Done })
}

fn tell(
    wheel: &ForegroundRun<'_>,
    target: &RunTarget,
    reply: &Reply,
    rest: Option<&DriveEnd>,
) -> Result<ExitStatus, CommandError> {
    let (session, out) = (wheel.session, wheel.out);
    if let Some(refused) = &reply.refused {
        return Err(session::refusal(refused, &runs::instance_label(&target.row.run, target.instance.0)));
    }
    let run = &target.row.run;
    let row = session.store().run(run).map_err(|error| session::store_failure(&error))?;
    let now = row.as_ref().map(known::summary).unwrap_or_default();
    let interrupted = matches!(rest, Some(DriveEnd::Stopped(_)));
    let left = Left::Rest(if interrupted { DriveEnd::Stopped(now) } else { DriveEnd::Rests(now) });
    if out.is_json() {
        out.json(&document(run, &left))?;
    } else {
        out.text(&left_text(run, &left))?;
    }
    if rest.is_some() && code::is_story(session, run)? {
        code::resumed_among(wheel, run, &left)?;
    }
    Ok(if interrupted { ExitStatus::Interrupted } else { ExitStatus::Done })
}

fn standard_input() -> Result<String, CommandError> {
    let mut text = String::new();
    let most = MAX_COMMAND_BYTES as u64;
    let read = std::io::stdin().lock().take(most + 1).read_to_string(&mut text);
    read.map_err(|error| {
        CommandError::new(format!("standard input cannot be read: {error}"), "it must be UTF-8 text")
    })?;
    if text.len() as u64 > most {
        return Err(CommandError::new(format!("the answer has more than {most} bytes"), "make it shorter"));
    }
    Ok(text)
}

/// An answer as a person types it: JSON where it begins like JSON, text otherwise.
fn answer_value(text: &str) -> Result<Value, CommandError> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.starts_with(['{', '[', '"']) { value_of(text) } else { Ok(Value::text(text)) }
}
