//! `ftl redo`: back to a phase that the task has been in. What it and later phases left is kept and void.

use ftl_command::{CommandError, ExitStatus};
use ftl_core::run::{Event, ROOT, RefusalKind};
use ftl_lifecycle::write::{self, Forced};
use ftl_store::order::Order;
use ftl_view::paint::{self, paint};
use serde_json::json;

use super::next::{Answer, Cannot, arrive, cannot, held_hint};
use super::task_session::{GateAnswers, TaskSession, disk_failure};
use crate::tasks::Redo;

/// What the words ask for: where to, and why.
pub(super) fn words(asked: &Redo) -> Result<(&str, &str), CommandError> {
    let reason = asked.reason.trim();
    if reason.is_empty() {
        return Err(CommandError::usage("the reason is blank", "say why with --reason"));
    }
    Ok((&asked.phase, reason))
}

/// `ftl redo`.
pub(super) fn run(task_session: &TaskSession<'_>, asked: &Redo) -> Result<ExitStatus, CommandError> {
    let (to, reason) = words(asked)?;
    let to = task_session.phase(to)?;
    let at = match arrive(task_session, &asked.task)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let (id, from, phases) = (at.folder.id(), &at.phase, &task_session.phases);
    let stays =
        |reason: String| Answer::stays(id, Some(from), reason).with_target(Some(&to)).warned(&at.warnings);
    if let Some(from) = at.resumed.as_ref().filter(|one| one.moved() == Some(&to)).map(|one| &one.from) {
        // An earlier command had begun this very redo.
        let answer = Answer::stays(id, Some(from), reason).warned(&at.warnings);
        return answer.moved(&to).tell(ExitStatus::Done, task_session.out);
    }
    let reason = &task_session.session.secrets().redact(reason);
    let (by, why) = (task_session.by.clone(), reason.to_owned());
    let event = Event::Redo { instance: ROOT, to: to.name(), by: by.clone(), reason: why.clone() };
    let no = cannot(&at, event, GateAnswers::new());
    if let Some(Cannot::Refused(refusal)) = &no
        && refusal.kind == RefusalKind::Guard
    {
        let meter = phases.redo_meter().map_or("rounds", |meter| meter);
        let answer = stays(format!("the {meter} are spent"));
        return answer.hint(held_hint(phases, &at)).tell(ExitStatus::Blocked, task_session.out);
    }
    if no.is_some() || phases.is_last(&to) {
        let answer = stays(format!("the task was never in {to}, or cannot do it again"));
        return answer
            .hint("a redo goes to a phase that the task has been in")
            .tell(ExitStatus::NotAllowed, task_session.out);
    }
    let disk = |error: std::io::Error| disk_failure(&at.folder, &error);
    let line = Forced { kind: "redo", by: &task_session.by, reason, from, to: &to, guards: Vec::new() };
    write::forced(&at.folder, &line).map_err(disk)?;
    // First what is void goes away: a process that is killed in between has lost no guard, only some work, which
    // is below versions/.
    let archived = at.folder.archive(&phases.void(&to)).map_err(disk)?;
    let order = Order::Redo { instance: ROOT, to: to.name(), by, reason: why };
    let carried = task_session.carry(&at, &order, GateAnswers::new())?;
    if let Some(refused) = carried.refused {
        return stays(refused.message).tell(ExitStatus::Refused, task_session.out);
    }
    if *from == to {
        task_session.project(&at.folder, &at.run, from, &to)?;
    }
    if task_session.out.is_json() {
        task_session.out.json(&json!({
            "task": id.as_str(),
            "from": from.word(),
            "to": to.word(),
            "moved": true,
            "reason": reason,
            "archived": archived,
            "warnings": at.warnings,
        }))?;
        return Ok(ExitStatus::Done);
    }
    let name = paint(paint::STRONG, id.as_str());
    let text =
        format!("task {name} {from} → {to} again: {} artifacts are kept below versions/\n", archived.len());
    task_session.out.text(&text)?;
    Ok(ExitStatus::Done)
}
