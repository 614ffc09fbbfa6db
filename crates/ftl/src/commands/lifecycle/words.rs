//! The words that do the work of a phase. None of them moves the task, but `revert` said in accept.

use ftl_command::{CommandError, ExitStatus};
use ftl_core::run::{Answers, ROOT};
use ftl_core::value::{Fields, Name, Value};
use ftl_lifecycle::Phase;
use ftl_lifecycle::edges::outlook;
use ftl_lifecycle::folder::DECISION;
use ftl_lifecycle::gate_answers::Looks;
use ftl_lifecycle::phases::Phases;
use ftl_store::order::Order;
use ftl_view::paint::{self, paint, safe};
use serde_json::json;

use super::next::{Answer, Guard, arrive, held_hint};
use super::task_session::{Arrived, Carried, GateAnswers, TaskSession};
use crate::tasks::{Accept, RevertArgs, TaskArg};

/// A reason that is given has words in it.
pub(super) fn not_blank(reason: Option<&str>) -> Result<(), CommandError> {
    match reason.map(str::trim) {
        Some("") => Err(CommandError::usage("the reason is blank", "say why with --reason")),
        Some(_) | None => Ok(()),
    }
}

/// What a person decides, as options of the word.
pub(super) fn decision(asked: &Accept) -> Result<Fields, CommandError> {
    not_blank(asked.reason.as_deref())?;
    let mut options = Fields::new();
    options.insert(Name::from("choice"), Value::text(&asked.verdict));
    if let Some(route) = &asked.route {
        if asked.verdict == "accepted" {
            let message = "work that is accepted has no route";
            return Err(CommandError::usage(
                message,
                "say --verdict needs_work or rejected, or leave the route out",
            ));
        }
        options.insert(Name::from("route"), Value::text(route));
    }
    Ok(options)
}

/// Whether the document has the route that a person names.
fn known_route(phases: &Phases, asked: &Accept) -> Result<(), CommandError> {
    let Some(route) = &asked.route else { return Ok(()) };
    let known = phases.routes().known;
    if known.contains(route) {
        return Ok(());
    }
    Err(CommandError::usage(format!("there is no route `{route}`"), format!("one of {}", known.join(", "))))
}

/// A word that its phase does not hear.
fn not_here(phases: &Phases, at: &Arrived, word: &str) -> (Answer, ExitStatus) {
    let (id, phase) = (at.folder.id(), &at.phase);
    let hearing: Vec<String> = phases.hearing(word).iter().map(Phase::to_string).collect();
    let reason = match hearing.as_slice() {
        [] => format!("no phase of the document takes `{word}`"),
        some => format!("{phase} does not take `{word}`: it is a word of {}", some.join(" and ")),
    };
    let hint = match phases.command(phase) {
        Some(command) => format!("the word of {phase} is `{command}`; `ftl next` moves on"),
        None if word == "revert" => String::from(
            "`ftl redo accept --reason R` opens it again, then `ftl revert --reason R` undoes its commit",
        ),
        None => String::from("`ftl redo PHASE --reason R` opens it again"),
    };
    (Answer::stays(id, Some(phase), reason).warned(&at.warnings).hint(hint), ExitStatus::NotAllowed)
}

/// Comes to a task whose phase takes a word; how the command ends where it does not.
fn arrive_to_say(
    task_session: &TaskSession<'_>,
    task: &TaskArg,
    word: &str,
) -> Result<Result<Arrived, ExitStatus>, CommandError> {
    let at = match arrive(task_session, task)? {
        Ok(at) if task_session.phases.hears(&at.phase, word) => return Ok(Ok(at)),
        Ok(at) => at,
        Err(exit) => return Ok(Err(exit)),
    };
    let (answer, exit) = not_here(&task_session.phases, &at, word);
    answer.tell(exit, task_session.out).map(Err)
}

fn say(
    task_session: &TaskSession<'_>,
    at: &Arrived,
    word: &str,
    reason: &str,
    options: Fields,
) -> Result<Carried, CommandError> {
    let (by, reason) = (task_session.by.clone(), reason.to_owned());
    let order = Order::Say { instance: ROOT, word: Name::from(word), by, reason, options };
    task_session.carry(at, &order, GateAnswers::new())
}

/// Says the word of the phase; why it was refused, if it was.
pub(super) fn say_phase_word(
    task_session: &TaskSession<'_>,
    at: &Arrived,
) -> Result<Option<String>, CommandError> {
    let Some(word) = task_session.phases.work(&at.phase) else {
        return Ok(Some(String::from("nothing is to be done")));
    };
    let carried = say(task_session, at, word, "", Fields::new())?;
    let refused = carried.refused.map(|refused| refused.message);
    let interrupted = carried.interrupted.then(|| String::from("interrupted"));
    Ok(interrupted.or(refused).or(carried.denied).or(carried.held))
}

/// `ftl plan`, `ftl review`, `ftl codegen`, `ftl test`.
pub(super) fn work(
    task_session: &TaskSession<'_>,
    asked: &TaskArg,
    word: &str,
) -> Result<ExitStatus, CommandError> {
    let mut at = match arrive_to_say(task_session, asked, word)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    if let Some(held) = at.hold_reason() {
        let answer = Answer::stays(at.folder.id(), Some(&at.phase), format!("held: {held}"));
        let hint = held_hint(&task_session.phases, &at);
        return answer.warned(&at.warnings).hint(hint).tell(ExitStatus::Blocked, task_session.out);
    }
    let carried = once(task_session, &mut at, word, "")?;
    report(task_session, &at, word, carried)
}

/// Says a word, unless an earlier command had said it and it was just brought to its end.
fn once(
    task_session: &TaskSession<'_>,
    at: &mut Arrived,
    word: &str,
    reason: &str,
) -> Result<Carried, CommandError> {
    match at.resumed.take().filter(|resumed| resumed.was(word)) {
        Some(resumed) => Ok(resumed.carried),
        None => say(task_session, at, word, reason, Fields::new()),
    }
}

/// What a word came to: what it left, and what the guards say now.
fn report(
    task_session: &TaskSession<'_>,
    at: &Arrived,
    word: &str,
    carried: Carried,
) -> Result<ExitStatus, CommandError> {
    let (id, phases) = (at.folder.id(), &task_session.phases);
    let stays = |reason: String| Answer::stays(id, Some(&at.phase), reason).warned(&at.warnings);
    if carried.phase != at.phase {
        return stays(format!("{word} was said"))
            .moved(&carried.phase)
            .tell(ExitStatus::Done, task_session.out);
    }
    if carried.interrupted {
        return stays(String::from("interrupted"))
            .hint("say it again to go on")
            .tell(ExitStatus::Interrupted, task_session.out);
    }
    if let Some(held) = carried.held {
        return stays(format!("held: {held}"))
            .hint(held_hint(phases, at))
            .tell(ExitStatus::Blocked, task_session.out);
    }
    let denied = carried.refused.map(|refused| refused.message).or(carried.denied);
    if let Some(denied) = denied {
        let hint = format!("`ftl log {id}` shows what was tried; nothing of the task was changed by it");
        return stays(denied).hint(hint).tell(ExitStatus::Refused, task_session.out);
    }
    let artifacts = phases.artifacts(&at.phase);
    let written: Vec<&str> = artifacts.into_iter().filter(|name| at.folder.has(name)).collect();
    let looks = Looks::new(&at.folder, &at.bindings, phases.routes());
    let looked = outlook(&carried.machine.run, phases, &looks);
    let (open, summary, guards) = match &looked {
        Ok(outlook) => {
            let guards: Vec<Guard> = outlook.edges.iter().map(Guard::of).collect();
            (outlook.open(), outlook.summary.clone(), guards)
        }
        Err(error) => (None, error.to_string(), Vec::new()),
    };
    if task_session.out.is_json() {
        task_session.out.json(&json!({
            "task": id.as_str(),
            "phase": at.phase.word(),
            "word": word,
            "done": true,
            "written": written,
            "open": open.map(Phase::word),
            "reason": summary,
            "guards": guards,
            "warnings": at.warnings,
        }))?;
        return Ok(ExitStatus::Done);
    }
    let hint = paint(paint::HINT, "hint:");
    let way = open.map_or_else(
        || String::from("`ftl show` tells what is missing"),
        |to| format!("`ftl next` goes to {to}"),
    );
    let name = paint(paint::STRONG, id.as_str());
    task_session.out.text(&format!("task {name} in {}: {}\n{hint} {way}\n", at.phase, safe(&summary)))?;
    Ok(ExitStatus::Done)
}

/// `ftl accept`.
pub(super) fn accept(task_session: &TaskSession<'_>, asked: &Accept) -> Result<ExitStatus, CommandError> {
    let options = decision(asked)?;
    known_route(&task_session.phases, asked)?;
    let at = match arrive_to_say(task_session, &asked.task, "accept")? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let reason = asked.reason.as_deref().unwrap_or_default();
    let carried = say(task_session, &at, "accept", reason, options)?;
    let is_refused = carried.refused.is_some() || carried.denied.is_some() || carried.held.is_some();
    if is_refused || carried.interrupted || carried.phase != at.phase {
        return report(task_session, &at, "accept", carried);
    }
    if task_session.out.is_json() {
        task_session.out.json(&json!({
            "task": at.folder.id().as_str(),
            "phase": at.phase.word(),
            "verdict": asked.verdict,
            "route": asked.route,
            "by": task_session.by,
            "path": at.folder.display_path(DECISION),
            "warnings": at.warnings,
        }))?;
        return Ok(ExitStatus::Done);
    }
    let hint = paint(paint::HINT, "hint:");
    let name = paint(paint::STRONG, at.folder.id().as_str());
    let text = format!(
        "task {name}: {} is recorded, by {}\n{hint} `ftl next` carries it out\n",
        asked.verdict,
        safe(&task_session.by)
    );
    task_session.out.text(&text)?;
    Ok(ExitStatus::Done)
}

/// `ftl revert`.
pub(super) fn revert(task_session: &TaskSession<'_>, asked: &RevertArgs) -> Result<ExitStatus, CommandError> {
    not_blank(asked.reason.as_deref())?;
    let mut at = match arrive_to_say(task_session, &asked.task, "revert")? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let reason = asked.reason.as_deref().map(str::trim);
    let answers = Answers { word: Some(Name::from("revert")), ..Answers::default() };
    let moves = at.machine.run.options_with(ROOT, &answers).iter().any(|way| way.open);
    if moves {
        let Some(reason) = reason else {
            return Err(CommandError::usage("no reason is given", "say why: ftl revert --reason \"…\""));
        };
        let carried = say(task_session, &at, "revert", reason, Fields::new())?;
        if carried.phase != at.phase {
            let answer = Answer::stays(at.folder.id(), Some(&at.phase), reason).moved(&carried.phase);
            let answer = answer.warned(&at.warnings).hint("a second `ftl revert` undoes it");
            return answer.tell(ExitStatus::Done, task_session.out);
        }
        return report(task_session, &at, "revert", carried);
    }
    if let Some(moved) = at.resumed.as_ref().filter(|resumed| resumed.moved().is_some()) {
        // The revert that an earlier command had asked for brought the task here.
        let answer = Answer::stays(at.folder.id(), Some(&moved.from), reason.unwrap_or("revert"));
        return answer.moved(&at.phase).warned(&at.warnings).tell(ExitStatus::Done, task_session.out);
    }
    let carried = once(task_session, &mut at, "revert", reason.unwrap_or_default())?;
    report(task_session, &at, "revert", carried)
}
