//! `ftl next`: looks at the artifacts of the phase, and makes at most one transition or says what is missing.

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_core::catalogue::lifecycle::Recorded;
use ftl_core::run::{Answers, Event, Fact, Failure as StepFailure, FailureKind, ROOT, Refusal, RefusalKind};
use ftl_core::value::{Fields, Name, Value};
use ftl_lifecycle::edges::{EdgeView, Outlook, outlook};
use ftl_lifecycle::folder::PATCH;
use ftl_lifecycle::phases::{NEXT, Phases};
use ftl_lifecycle::write::{self, Forced};
use ftl_lifecycle::{Malformed, Phase, TaskId};
use ftl_store::order::{Order, RefusedKind};
use ftl_view::paint::{self, paint, safe};
use serde::Serialize;

use super::task_session::{self, Arrived, Carried, TaskSession};
use super::view::View;
use super::words;
use crate::tasks::Next;

/// The gate of which a waiver records the decision first: what it answers is not known before.
const DECIDED: &str = "artifact.decision";

/// The action that records a decision.
const RECORDS: &str = "decision.record";

/// The answer of `ftl next`, as text and as JSON.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    task: String,
    from: Option<String>,
    to: Option<String>,
    moved: bool,
    reason: String,
    guards: Vec<Guard>,
    warnings: Vec<String>,
    #[serde(skip)]
    hint: String,
}

/// One edge in an answer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Guard {
    edge: String,
    holds: bool,
    missing: Vec<String>,
}

impl Guard {
    pub(super) fn of(edge: &EdgeView) -> Guard {
        Guard { edge: edge.name(), holds: edge.holds, missing: edge.missing.clone() }
    }
}

impl Answer {
    pub(super) fn stays(id: &TaskId, phase: Option<&Phase>, reason: impl Into<String>) -> Answer {
        Answer {
            task: id.to_string(),
            from: phase.map(Phase::to_string),
            to: None,
            moved: false,
            reason: reason.into(),
            guards: Vec::new(),
            warnings: Vec::new(),
            hint: String::from("`ftl show` tells what is missing"),
        }
    }

    pub(super) fn with_outlook(mut self, outlook: &Outlook) -> Answer {
        self.guards = outlook.edges.iter().map(Guard::of).collect();
        self.warnings.extend(outlook.warnings.iter().cloned());
        self
    }

    pub(super) fn with_target(mut self, to: Option<&Phase>) -> Answer {
        self.to = to.map(Phase::to_string);
        self
    }

    pub(super) fn warned(mut self, warnings: &[String]) -> Answer {
        self.warnings.extend(warnings.iter().cloned());
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Answer {
        self.hint = hint.into();
        self
    }

    pub(super) fn moved(mut self, to: &Phase) -> Answer {
        (self.to, self.moved) = (Some(to.to_string()), true);
        self
    }

    /// Prints it. What did not move for a reason is told on standard error as well.
    pub(super) fn tell(self, exit: ExitStatus, out: &Out) -> Result<ExitStatus, CommandError> {
        let failure = CommandError {
            exit,
            ..CommandError::new(format!("task {}: {}", self.task, self.reason), &self.hint)
        };
        if out.is_json() {
            if exit != ExitStatus::Done {
                out.error(&failure);
            }
            out.json(&self)?;
            return Ok(exit);
        }
        for warning in &self.warnings {
            out.beside(&format!("{} {}\n", paint(paint::WARNING, "warning:"), paint::lines(warning)));
        }
        if exit != ExitStatus::Done {
            out.error(&failure);
            return Ok(exit);
        }
        let (task, reason) = (paint(paint::STRONG, &self.task), safe(&self.reason));
        let text = match (self.moved, &self.from, &self.to) {
            (true, Some(from), Some(to)) => {
                format!("task {task} {from} → {}: {reason}\n", paint(paint::GOOD, to))
            }
            _ => format!("task {task} stays in {}: {reason}\n", self.from.as_deref().unwrap_or("its phase")),
        };
        out.text(&text)?;
        Ok(exit)
    }
}

/// What the words ask for: where to, and the reason of an override.
pub(super) fn words(asked: &Next) -> Result<(Option<&str>, Option<&str>), CommandError> {
    let over = asked.over.as_deref().map(str::trim);
    if over == Some("") {
        return Err(CommandError::usage(
            "the reason of the override is blank",
            "say why: --override \"reason\"",
        ));
    }
    Ok((asked.to.as_deref(), over))
}

/// A malformed artifact or state, as an answer.
fn malformed(
    id: &TaskId,
    phase: Option<&Phase>,
    malformed: &Malformed,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let failure = task_session::malformed_failure(malformed);
    Answer::stays(id, phase, failure.message).hint(failure.hint).tell(ExitStatus::Malformed, out)
}

/// `ftl next --eval`: every edge with what it needs; nothing is written, and nothing is adopted.
pub(super) fn eval(cli: &GlobalArgs, asked: &Next, out: &Out) -> Result<ExitStatus, CommandError> {
    let (to, _) = words(asked)?;
    let view = View::new(cli, &asked.task)?;
    let to = to.map(|word| task_session::find_phase(&view.phases, word)).transpose()?;
    let id = view.folder.id();
    let seen = match view.stands() {
        Ok(seen) => seen,
        Err(failure) if failure.exit == ExitStatus::Malformed => {
            return Answer::stays(id, None, failure.message)
                .hint(failure.hint)
                .tell(ExitStatus::Malformed, out);
        }
        Err(failure) => return Err(failure),
    };
    if let Some(journal) = &seen.journal {
        let failure = task_session::disagreement(id, &seen.phase, journal);
        let answer = Answer::stays(id, Some(&seen.phase), failure.message);
        return answer.hint(failure.hint).tell(failure.exit, out);
    }
    let outlook = match view.outlook(&seen) {
        Ok(outlook) => outlook,
        Err(error) => return malformed(id, Some(&seen.phase), &error, out),
    };
    let open = outlook.open();
    let reason = match open {
        Some(open) => format!("{open} is open: {}", outlook.summary),
        None => outlook.summary.clone(),
    };
    let answer =
        Answer::stays(id, Some(&seen.phase), reason).with_target(to.as_ref().or(open)).with_outlook(&outlook);
    if !out.is_json() {
        out.text(&super::show::guards(&outlook))?;
    }
    answer.tell(ExitStatus::Done, out)
}

/// Comes to a task; a state that is malformed, or that was changed by hand, is an answer of its own.
pub(super) fn arrive(
    task_session: &TaskSession<'_>,
    asked: &crate::tasks::TaskArg,
) -> Result<Result<Arrived, ExitStatus>, CommandError> {
    match task_session.arrive(asked) {
        Ok(at) => Ok(Ok(at)),
        Err(failure) if matches!(failure.exit, ExitStatus::Malformed | ExitStatus::Refused) => {
            let id = task_session.task(asked)?;
            Answer::stays(&id, None, failure.message)
                .hint(failure.hint)
                .tell(failure.exit, task_session.out)
                .map(Err)
        }
        Err(failure) => Err(failure),
    }
}

/// `ftl next`.
pub(super) fn run(task_session: &TaskSession<'_>, asked: &Next) -> Result<ExitStatus, CommandError> {
    let (to, over) = words(asked)?;
    let to = to.map(|word| task_session.phase(word)).transpose()?;
    let at = match arrive(task_session, &asked.task)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let (answer, exit) = step(task_session, &at, to.as_ref(), over)?;
    answer.tell(exit, task_session.out)
}

/// One look, and at most one transition. What is open is what the interpreter says, with what the gates answered; the
/// same answers go with the word.
pub(super) fn step(
    task_session: &TaskSession<'_>,
    at: &Arrived,
    to: Option<&Phase>,
    over: Option<&str>,
) -> Result<(Answer, ExitStatus), CommandError> {
    let (id, phase, phases) = (at.folder.id(), &at.phase, &task_session.phases);
    if let Some((from, moved)) = at.resumed.as_ref().and_then(|one| Some((&one.from, one.moved()?))) {
        // An earlier command had begun this move; it is the one transition that is made.
        let answer = Answer::stays(id, Some(from), "what was interrupted was brought to its end");
        return Ok((answer.moved(moved), ExitStatus::Done));
    }
    let stays = |reason: String| Answer::stays(id, Some(phase), reason).with_target(to).warned(&at.warnings);
    if let Some(to) = to.filter(|to| !phases.leads(phase, to)) {
        let answer = stays(format!("there is no edge {phase} → {to}"));
        return Ok((answer.hint(ways(phases, phase)), ExitStatus::NotAllowed));
    }
    if phases.is_last(phase) {
        if over.is_some() {
            let answer = stays(format!("{phase} moves only by a redo"));
            return Ok((answer.hint(ways(phases, phase)), ExitStatus::NotAllowed));
        }
        return Ok((stays(format!("the task is {phase}")), ExitStatus::Done));
    }
    if let Some(reason) = over {
        return force(task_session, at, to, reason);
    }
    let looks = at.looks(phases);
    let outlook = match outlook(&at.machine.run, phases, &looks) {
        Ok(outlook) => outlook,
        Err(error) => {
            let failure = task_session::malformed_failure(&error);
            return Ok((stays(failure.message).hint(failure.hint), ExitStatus::Malformed));
        }
    };
    let stays = |reason: String| stays(reason).with_outlook(&outlook);
    if let Some(held) = at.hold_reason() {
        return Ok((stays(format!("held: {held}")).hint(held_hint(phases, at)), ExitStatus::Blocked));
    }
    let open = match to {
        Some(to) => outlook.edge(to).filter(|edge| edge.holds).map(|edge| &edge.to),
        None => outlook.open(),
    };
    if open.is_none() && !outlook.is_open_question {
        let forward = phases.forward(phase);
        let edge = to.or(forward.as_ref()).and_then(|to| outlook.edge(to));
        let missing = edge.map(|edge| edge.missing.join("; ")).filter(|text| !text.is_empty());
        let answer = stays(missing.unwrap_or_else(|| outlook.summary.clone()));
        return Ok((answer.hint(work_hint(phases, phase)), ExitStatus::Refused));
    }
    let mut options = Fields::new();
    if let Some(to) = open.or(to) {
        options.insert(Name::from("to"), Value::text(to.word()));
    }
    let (word, by, reason) = (Name::from(NEXT), task_session.by.clone(), String::new());
    let order = Order::Say { instance: ROOT, word, by, reason, options };
    let carried = task_session.carry(at, &order, looks.answers())?;
    Ok(came_to(task_session, at, open, &outlook.summary, carried, stays))
}

/// What an order came to, as an answer.
fn came_to(
    task_session: &TaskSession<'_>,
    at: &Arrived,
    wanted: Option<&Phase>,
    why: &str,
    carried: Carried,
    stays: impl Fn(String) -> Answer,
) -> (Answer, ExitStatus) {
    if carried.phase != at.phase {
        return (stays(why.to_owned()).moved(&carried.phase), ExitStatus::Done);
    }
    if carried.interrupted {
        return (stays(String::from("interrupted")).hint("say it again to go on"), ExitStatus::Interrupted);
    }
    if let Some(held) = carried.held {
        return (
            stays(format!("held: {held}")).hint(held_hint(&task_session.phases, at)),
            ExitStatus::Blocked,
        );
    }
    if let Some(refused) = carried.refused {
        let exit = match refused.kind {
            RefusedKind::NotHere | RefusedKind::Settled => ExitStatus::NotAllowed,
            RefusedKind::Malformed => ExitStatus::Error,
            RefusedKind::Guard | RefusedKind::Late => ExitStatus::Refused,
        };
        let hint = refused.hint.unwrap_or_else(|| ways(&task_session.phases, &at.phase));
        return (stays(refused.message).hint(hint), exit);
    }
    let elsewhere =
        || wanted.map_or_else(|| String::from("it did not move"), |to| format!("it did not come to {to}"));
    (stays(carried.denied.unwrap_or_else(elsewhere)), ExitStatus::Refused)
}

/// Takes a declared edge although its guard does not hold. The interpreter rehearses it first: what an override cannot
/// do leaves no line in the transcript.
fn force(
    task_session: &TaskSession<'_>,
    at: &Arrived,
    to: Option<&Phase>,
    reason: &str,
) -> Result<(Answer, ExitStatus), CommandError> {
    let (id, phase, phases) = (at.folder.id(), &at.phase, &task_session.phases);
    let Some(to) = to.cloned().or_else(|| phases.forward(phase)) else {
        let answer = Answer::stays(id, Some(phase), format!("no edge leads forward from {phase}"));
        return Ok((answer.warned(&at.warnings).hint(ways(phases, phase)), ExitStatus::NotAllowed));
    };
    let looks = at.looks(phases);
    let looked = outlook(&at.machine.run, phases, &looks);
    let stays = |reason: String| {
        let answer = Answer::stays(id, Some(phase), reason).with_target(Some(&to)).warned(&at.warnings);
        match &looked {
            Ok(outlook) => answer.with_outlook(outlook),
            Err(_) => answer,
        }
    };
    let reason = &task_session.session.secrets().redact(reason);
    let (by, why) = (task_session.by.clone(), reason.to_owned());
    let mut answers = looks.answers();
    let event = Event::Waive { instance: ROOT, to: to.name(), by: by.clone(), reason: why.clone() };
    if let Some(no) = cannot(at, event, answers.clone()) {
        let (reason, hint, exit) = no.explain(phases, at);
        return Ok((stays(reason).hint(hint), exit));
    }
    let guards = match &looked {
        Ok(outlook) => outlook.edge(&to).map(|edge| edge.missing.clone()).unwrap_or_default(),
        Err(error) => vec![format!("malformed: {error}")],
    };
    let line = Forced { kind: "override", by: &task_session.by, reason, from: phase, to: &to, guards };
    write::forced(&at.folder, &line).map_err(|error| task_session::disk_failure(&at.folder, &error))?;
    // The decision of this very person is recorded on the way, and looked at after that.
    answers.remove(DECIDED);
    let order = Order::Override { instance: ROOT, to: to.name(), by, reason: why };
    let carried = task_session.carry(at, &order, answers)?;
    let refused = carried.refused.is_some() || carried.denied.is_some() || carried.interrupted;
    if *phase == to && !refused && carried.held.is_none() {
        task_session.project(&at.folder, &at.run, phase, &to)?;
        return Ok((stays(format!("overridden: {reason}")).moved(&to), ExitStatus::Done));
    }
    Ok(came_to(task_session, at, Some(&to), &format!("overridden: {reason}"), carried, stays))
}

/// Why the interpreter would not do what a person asks for.
pub(super) enum Cannot {
    /// The order itself is refused.
    Refused(Refusal),
    /// It is refused on the way.
    Failed(StepFailure),
}

impl Cannot {
    fn explain(self, phases: &Phases, at: &Arrived) -> (String, String, ExitStatus) {
        let over = "an override takes an edge; it does not make what the edge needs";
        match self {
            Cannot::Refused(refusal) => {
                let exit = match refusal.kind {
                    RefusalKind::NotHere | RefusalKind::Settled(_) => ExitStatus::NotAllowed,
                    RefusalKind::Malformed => ExitStatus::Error,
                    RefusalKind::Guard | RefusalKind::Late => ExitStatus::Refused,
                };
                let hint = refusal.hint.unwrap_or_else(|| ways(phases, &at.phase));
                (refusal.message, hint, exit)
            }
            Cannot::Failed(failure) if failure.kind == FailureKind::Exhausted => {
                let meter = phases.redo_meter().map_or("rounds", |meter| meter);
                (format!("held: the {meter} are spent"), held_hint(phases, at), ExitStatus::Blocked)
            }
            Cannot::Failed(_) if !at.folder.has(PATCH) && phases.is_decided(&at.phase) => {
                let reason = format!("{PATCH} is missing: there is nothing to apply");
                (reason, over.to_owned(), ExitStatus::Refused)
            }
            Cannot::Failed(failure) => (failure.message, over.to_owned(), ExitStatus::Refused),
        }
    }
}

/// What keeps the interpreter from doing what a person asks for, by a rehearsal on a copy of the run.
pub(super) fn cannot(at: &Arrived, event: Event, actions: task_session::GateAnswers) -> Option<Cannot> {
    let mut answers = Answers { word: None, actions };
    if let Ok(recorded) = Value::of(&Recorded { path: String::new(), patch: None }) {
        answers.actions.insert(Name::from(RECORDS), Ok(recorded));
    }
    let rehearsal = at.machine.run.rehearse(at.machine.last, event, &answers);
    if let Some(refusal) = rehearsal.refusal {
        return Some(Cannot::Refused(refusal));
    }
    rehearsal.entries.into_iter().rev().find_map(|entry| match entry.fact {
        Fact::Refused { failure, .. } => Some(Cannot::Failed(failure)),
        _ => None,
    })
}

/// `ftl next --auto`: each phase is run once and then looked at, until a person is needed.
pub(super) fn auto(task_session: &TaskSession<'_>, asked: &Next) -> Result<ExitStatus, CommandError> {
    let phases = &task_session.phases;
    let mut first = None;
    loop {
        let at = match arrive(task_session, &asked.task)? {
            Ok(at) => at,
            Err(exit) => return Ok(exit),
        };
        let from = first.get_or_insert_with(|| at.phase.clone()).clone();
        let (mut answer, mut exit) = step(task_session, &at, None, None)?;
        let can_work =
            exit == ExitStatus::Refused && phases.work(&at.phase).is_some() && !phases.is_decided(&at.phase);
        if can_work {
            if let Some(denied) = words::say_phase_word(task_session, &at)? {
                answer.reason = denied;
            } else {
                drop(at);
                let at = match arrive(task_session, &asked.task)? {
                    Ok(at) => at,
                    Err(exit) => return Ok(exit),
                };
                (answer, exit) = step(task_session, &at, None, None)?;
            }
        }
        let ended = answer.to.as_deref().filter(|_| answer.moved).or(answer.from.as_deref());
        let ended = ended.and_then(|word| phases.find(word));
        let is_last = ended.as_ref().is_some_and(|phase| phases.is_last(phase));
        if exit == ExitStatus::Done && answer.moved && !is_last && task_session.stop.times_said() == 0 {
            if !task_session.out.is_json() {
                answer.tell(exit, task_session.out)?;
            }
            continue;
        }
        let needs_person =
            exit == ExitStatus::Refused && ended.as_ref().is_some_and(|phase| phases.is_decided(phase));
        answer.moved = answer.moved || ended.as_ref().is_some_and(|phase| *phase != from);
        if answer.moved {
            (answer.from, answer.to) = (Some(from.to_string()), ended.map(|phase| phase.to_string()));
        }
        if needs_person {
            answer.reason = format!("a person decides: {}", answer.reason);
            exit = ExitStatus::Done;
        }
        return answer.tell(exit, task_session.out);
    }
}

fn ways(phases: &Phases, phase: &Phase) -> String {
    let targets: Vec<String> = phases.targets(phase).iter().map(Phase::to_string).collect();
    match targets.as_slice() {
        [] => String::from("`ftl redo PHASE --reason R` opens it again"),
        some => format!("from {phase} it goes to {}", some.join(", ")),
    }
}

pub(super) fn work_hint(phases: &Phases, phase: &Phase) -> String {
    match phases.command(phase) {
        Some(command) => format!("`{command}` does the work of {phase}; `ftl next --eval` shows every edge"),
        None => ways(phases, phase),
    }
}

pub(super) fn held_hint(phases: &Phases, at: &Arrived) -> String {
    let meter = phases.redo_meter().map_or("rounds", |meter| meter);
    format!(
        "`ftl raise {} {meter} N --reason R` lets it go on; `ftl why {}` shows every way out",
        at.run, at.run
    )
}
