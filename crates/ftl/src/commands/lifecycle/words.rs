//! The words that do the work of a phase. None of them moves the task, but `revert` said in accept.

use ftl_core::run::ROOT;
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::lifecycle::folder::DECISION;
use ftl_engine::lifecycle::judge::judge;
use ftl_engine::lifecycle::{Phase, desk};
use ftl_engine::order::Order;
use serde_json::json;

use super::bench::{Arrived, Bench, Carried};
use super::next::{Answer, Guard, arrive, held_hint};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::paint::{self, paint, safe};
use crate::tasks::{Accept, RevertArgs, TaskArg};

/// A reason that is given has words in it.
pub(super) fn not_blank(reason: Option<&str>) -> Result<(), Failure> {
    match reason.map(str::trim) {
        Some("") => Err(Failure::usage("the reason is blank", "say why with --reason")),
        Some(_) | None => Ok(()),
    }
}

/// What a person decides, as options of the word.
pub(super) fn decision(asked: &Accept) -> Result<Fields, Failure> {
    not_blank(asked.reason.as_deref())?;
    let mut options = Fields::new();
    options.insert(Name::from("choice"), Value::text(&asked.verdict));
    if let Some(route) = &asked.route {
        if asked.verdict == "accepted" {
            let message = "work that is accepted has no route";
            return Err(Failure::usage(
                message,
                "say --verdict needs_work or rejected, or leave the route out",
            ));
        }
        options.insert(Name::from("route"), Value::text(route));
    }
    Ok(options)
}

/// A word that its phase does not take.
fn not_here(at: &Arrived, word: &str, takes: &str) -> (Answer, Exit) {
    let (id, phase) = (at.folder.id(), at.phase);
    let reason = format!("{phase} does not take `{word}`: it is a word of {takes}");
    let hint = match phase.command() {
        Some(command) => format!("the word of {phase} is `{command}`; `ftl next` moves on"),
        None => String::from("`ftl redo PHASE --reason R` opens it again"),
    };
    (Answer::stays(id, Some(phase), reason).warned(&at.warnings).hint(hint), Exit::NotAllowed)
}

fn say(
    bench: &Bench<'_>,
    at: &Arrived,
    word: &str,
    reason: &str,
    options: Fields,
) -> Result<Carried, Failure> {
    let (by, reason) = (bench.by.clone(), reason.to_owned());
    bench.carry(at, &Order::Say { instance: ROOT, word: Name::from(word), by, reason, options })
}

/// Says the word of the phase; why it was refused, if it was.
pub(super) fn said(bench: &Bench<'_>, at: &Arrived) -> Result<Option<String>, Failure> {
    let Some(word) = at.phase.task() else { return Ok(Some(String::from("nothing is to be done"))) };
    let carried = say(bench, at, word, "", Fields::new())?;
    let refused = carried.refused.map(|refused| refused.message);
    let interrupted = carried.interrupted.then(|| String::from("interrupted"));
    Ok(interrupted.or(refused).or(carried.denied).or(carried.held))
}

/// `ftl plan`, `ftl review`, `ftl codegen`, `ftl test`.
pub(super) fn work(bench: &Bench<'_>, asked: &TaskArg, phase: Phase) -> Result<Exit, Failure> {
    let mut at = match arrive(bench, asked)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let word = phase.task().unwrap_or_default();
    if at.phase != phase {
        let (answer, exit) = not_here(&at, word, phase.word());
        return answer.tell(exit, bench.out);
    }
    if let Some(held) = at.held() {
        let answer = Answer::stays(at.folder.id(), Some(phase), format!("held: {held}"));
        return answer.warned(&at.warnings).hint(held_hint(&at)).tell(Exit::Blocked, bench.out);
    }
    let carried = once(bench, &mut at, word, "")?;
    report(bench, &at, word, carried)
}

/// Says a word, unless an earlier command had said it and it was just brought to its end.
fn once(bench: &Bench<'_>, at: &mut Arrived, word: &str, reason: &str) -> Result<Carried, Failure> {
    match at.resumed.take().filter(|resumed| resumed.was(word)) {
        Some(resumed) => Ok(resumed.carried),
        None => say(bench, at, word, reason, Fields::new()),
    }
}

/// What a word came to: what it left, and what the guards say now.
fn report(bench: &Bench<'_>, at: &Arrived, word: &str, carried: Carried) -> Result<Exit, Failure> {
    let id = at.folder.id();
    let stays = |reason: String| Answer::stays(id, Some(at.phase), reason).warned(&at.warnings);
    if carried.interrupted {
        return stays(String::from("interrupted"))
            .hint("say it again to go on")
            .tell(Exit::Interrupted, bench.out);
    }
    if let Some(held) = carried.held {
        return stays(format!("held: {held}")).hint(held_hint(at)).tell(Exit::Blocked, bench.out);
    }
    let denied = carried.refused.map(|refused| refused.message).or(carried.denied);
    if let Some(denied) = denied {
        let hint = "`ftl log` shows what was tried; nothing of the task was changed by it";
        return stays(denied).hint(hint).tell(Exit::Refused, bench.out);
    }
    let written: Vec<&str> =
        desk::artifacts(at.phase).iter().copied().filter(|name| at.folder.has(name)).collect();
    let judged = judge(&at.folder, at.phase, &at.bindings);
    let (open, summary, guards) = match &judged {
        Ok(judgement) => {
            let guards: Vec<Guard> = judgement.edges.iter().map(Guard::of).collect();
            (judgement.open(), judgement.summary.clone(), guards)
        }
        Err(error) => (None, error.to_string(), Vec::new()),
    };
    if bench.out.is_json() {
        bench.out.json(&json!({
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
        return Ok(Exit::Done);
    }
    let hint = paint(paint::HINT, "hint:");
    let way = open.map_or_else(
        || String::from("`ftl show` tells what is missing"),
        |to| format!("`ftl next` goes to {to}"),
    );
    let name = paint(paint::STRONG, id.as_str());
    bench.out.text(&format!("task {name} in {}: {}\n{hint} {way}\n", at.phase, safe(&summary)))?;
    Ok(Exit::Done)
}

/// `ftl accept`.
pub(super) fn accept(bench: &Bench<'_>, asked: &Accept) -> Result<Exit, Failure> {
    let options = decision(asked)?;
    let at = match arrive(bench, &asked.task)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    if at.phase != Phase::Accept {
        let (answer, exit) = not_here(&at, "accept", "accept");
        return answer.tell(exit, bench.out);
    }
    let reason = asked.reason.as_deref().unwrap_or_default();
    let carried = say(bench, &at, "accept", reason, options)?;
    if carried.refused.is_some() || carried.denied.is_some() || carried.held.is_some() || carried.interrupted
    {
        return report(bench, &at, "accept", carried);
    }
    if bench.out.is_json() {
        bench.out.json(&json!({
            "task": at.folder.id().as_str(),
            "phase": at.phase.word(),
            "verdict": asked.verdict,
            "route": asked.route,
            "by": bench.by,
            "path": at.folder.shown(DECISION),
            "warnings": at.warnings,
        }))?;
        return Ok(Exit::Done);
    }
    let hint = paint(paint::HINT, "hint:");
    let name = paint(paint::STRONG, at.folder.id().as_str());
    let text = format!(
        "task {name}: {} is recorded, by {}\n{hint} `ftl next` carries it out\n",
        asked.verdict,
        safe(&bench.by)
    );
    bench.out.text(&text)?;
    Ok(Exit::Done)
}

/// `ftl revert`.
pub(super) fn revert(bench: &Bench<'_>, asked: &RevertArgs) -> Result<Exit, Failure> {
    not_blank(asked.reason.as_deref())?;
    let mut at = match arrive(bench, &asked.task)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let reason = asked.reason.as_deref().map(str::trim);
    match at.phase {
        Phase::Accept => {
            let Some(reason) = reason else {
                return Err(Failure::usage("no reason is given", "say why: ftl revert --reason \"…\""));
            };
            let carried = say(bench, &at, "revert", reason, Fields::new())?;
            if carried.phase == Phase::Revert {
                let answer = Answer::stays(at.folder.id(), Some(at.phase), reason).moved(carried.phase);
                let answer = answer.warned(&at.warnings).hint("a second `ftl revert` undoes it");
                return answer.tell(Exit::Done, bench.out);
            }
            report(bench, &at, "revert", carried)
        }
        Phase::Revert => {
            if let Some(moved) = at.resumed.as_ref().filter(|resumed| resumed.moved().is_some()) {
                // The revert that an earlier command had asked for brought the task here.
                let answer = Answer::stays(at.folder.id(), Some(moved.from), reason.unwrap_or("revert"));
                return answer.moved(at.phase).warned(&at.warnings).tell(Exit::Done, bench.out);
            }
            let carried = once(bench, &mut at, "revert", reason.unwrap_or_default())?;
            report(bench, &at, "revert", carried)
        }
        Phase::Planning | Phase::PlanReview | Phase::Codegen | Phase::Review | Phase::Test | Phase::Done => {
            let (answer, exit) = not_here(&at, "revert", "accept and revert");
            answer.tell(exit, bench.out)
        }
    }
}
