//! `ftl next`: looks at the artifacts of the phase, and makes at most one transition or says what is missing.

use ftl_core::run::ROOT;
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::lifecycle::desk::{self, Standing};
use ftl_engine::lifecycle::folder::PATCH;
use ftl_engine::lifecycle::judge::{Edge, Judgement, judge};
use ftl_engine::lifecycle::write::{self, Forced};
use ftl_engine::lifecycle::{Folder, Malformed, Phase, TaskId};
use ftl_engine::order::{Order, RefusedKind};
use ftl_engine::store::Store as _;
use serde::Serialize;

use super::bench::{self, Arrived, Bench, Carried};
use super::words;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session;
use crate::shelf::Shelf;
use crate::tasks::Next;

/// What `next` answers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    task: String,
    from: Option<&'static str>,
    to: Option<&'static str>,
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
    pub(super) fn of(edge: &Edge) -> Guard {
        Guard { edge: edge.name(), holds: edge.holds, missing: edge.missing.clone() }
    }
}

impl Answer {
    pub(super) fn stays(id: &TaskId, phase: Option<Phase>, reason: impl Into<String>) -> Answer {
        Answer {
            task: id.to_string(),
            from: phase.map(Phase::word),
            to: None,
            moved: false,
            reason: reason.into(),
            guards: Vec::new(),
            warnings: Vec::new(),
            hint: String::from("`ftl show` tells what is missing"),
        }
    }

    pub(super) fn seen(mut self, judgement: &Judgement) -> Answer {
        self.guards = judgement.edges.iter().map(Guard::of).collect();
        self.warnings.extend(judgement.warnings.iter().cloned());
        self
    }

    pub(super) fn asked(mut self, to: Option<Phase>) -> Answer {
        self.to = to.map(Phase::word);
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

    pub(super) fn moved(mut self, to: Phase) -> Answer {
        (self.to, self.moved) = (Some(to.word()), true);
        self
    }

    /// Prints it. What did not move for a reason is told on standard error as well.
    pub(super) fn tell(self, exit: Exit, out: &Out) -> Result<Exit, Failure> {
        let failure =
            Failure { exit, ..Failure::new(format!("task {}: {}", self.task, self.reason), &self.hint) };
        if out.is_json() {
            if exit != Exit::Done {
                out.error(&failure);
            }
            out.json(&self)?;
            return Ok(exit);
        }
        for warning in &self.warnings {
            out.beside(&format!("{} {}\n", paint(paint::WARNING, "warning:"), paint::lines(warning)));
        }
        if exit != Exit::Done {
            out.error(&failure);
            return Ok(exit);
        }
        let (task, reason) = (paint(paint::STRONG, &self.task), safe(&self.reason));
        let text = match (self.moved, self.from, self.to) {
            (true, Some(from), Some(to)) => {
                format!("task {task} {from} → {}: {reason}\n", paint(paint::GOOD, to))
            }
            _ => format!("task {task} stays in {}: {reason}\n", self.from.unwrap_or("its phase")),
        };
        out.text(&text)?;
        Ok(exit)
    }
}

/// What the words ask for: where to, and the reason of an override.
pub(super) fn words(asked: &Next) -> Result<(Option<Phase>, Option<&str>), Failure> {
    let to = asked.to.as_deref().map(phase).transpose()?;
    let over = asked.over.as_deref().map(str::trim);
    if over == Some("") {
        return Err(Failure::usage("the reason of the override is blank", "say why: --override \"reason\""));
    }
    Ok((to, over))
}

/// A phase as a person types it.
pub(super) fn phase(word: &str) -> Result<Phase, Failure> {
    Phase::of(word).ok_or_else(|| {
        let known: Vec<&str> =
            ftl_engine::lifecycle::phase::PHASES.iter().map(|phase| phase.word()).collect();
        Failure::usage(format!("there is no phase `{word}`"), format!("one of {}", known.join(", ")))
    })
}

/// A malformed artifact or state, as an answer.
fn malformed(id: &TaskId, phase: Option<Phase>, malformed: &Malformed, out: &Out) -> Result<Exit, Failure> {
    let failure = bench::malformed_failure(malformed);
    Answer::stays(id, phase, failure.message).hint(failure.hint).tell(Exit::Malformed, out)
}

/// `ftl next --eval`: every edge with what it needs; nothing is written, and nothing is adopted.
pub(super) fn eval(cli: &Cli, asked: &Next, out: &Out) -> Result<Exit, Failure> {
    let (to, _) = words(asked)?;
    let (id, store) = super::named(cli, &asked.task)?;
    let place = session::place(cli)?;
    let folder = Folder::of(&place, &id);
    let phase = match standing(cli, &folder, store.as_ref()) {
        Ok(Standing::Unknown { phase } | Standing::Agrees { phase, .. }) => phase,
        Ok(Standing::Disagrees { file, journal, .. }) => {
            let failure = bench::disagreement(&id, file, journal);
            return Answer::stays(&id, Some(file), failure.message)
                .hint(failure.hint)
                .tell(failure.exit, out);
        }
        Err(failure) if failure.exit == Exit::Malformed => {
            return Answer::stays(&id, None, failure.message).hint(failure.hint).tell(Exit::Malformed, out);
        }
        Err(failure) => return Err(failure),
    };
    let bindings = match &store {
        Some(store) => desk::bindings(store, &id).map_err(|error| session::store_failure(&error))?,
        None => desk::Bindings::default(),
    };
    let judgement = match judge(&folder, phase, &bindings) {
        Ok(judgement) => judgement,
        Err(error) => return malformed(&id, Some(phase), &error, out),
    };
    let open = judgement.open();
    let reason = match open {
        Some(open) => format!("{open} is open: {}", judgement.summary),
        None => judgement.summary.clone(),
    };
    let answer = Answer::stays(&id, Some(phase), reason).asked(to.or(open)).seen(&judgement);
    if !out.is_json() {
        out.text(&super::show::guards(&judgement))?;
    }
    answer.tell(Exit::Done, out)
}

/// Where a task stands, for whoever only looks.
pub(super) fn standing(
    cli: &Cli,
    folder: &Folder,
    store: Option<&ftl_engine::store::SqliteStore>,
) -> Result<Standing, Failure> {
    let Some(store) = store else {
        let state = ftl_engine::lifecycle::state::State::read(folder);
        let state = state.map_err(|error| bench::malformed_failure(&error))?;
        let phase = state.map_or(Phase::Planning, |(state, _)| state.phase);
        return Ok(Standing::Unknown { phase });
    };
    let library = std::sync::Arc::new(Shelf::load(cli)?.library);
    let mut look = |run: &ftl_engine::id::RunId| {
        let trouble = |failure: Failure| bench::Trouble(failure);
        let row = store.run(run).map_err(|error| trouble(session::store_failure(&error)))?;
        if row.is_none_or(|row| row.head == 0) {
            return Ok(None);
        }
        let entries = ftl_engine::journal::load(store, run).map_err(|error| {
            trouble(Failure { exit: Exit::Malformed, ..Failure::new(error.to_string(), error.hint()) })
        })?;
        Ok(Some(ftl_core::run::Run::replay(library.clone(), &entries)))
    };
    desk::standing(store, folder, &mut look).map_err(|trouble: bench::Trouble| trouble.0)
}

/// Comes to a task; a state that is malformed, or that somebody changed, is an answer of its own.
pub(super) fn arrive(
    bench: &Bench<'_>,
    asked: &crate::tasks::TaskArg,
) -> Result<Result<Arrived, Exit>, Failure> {
    match bench.arrive(asked) {
        Ok(at) => Ok(Ok(at)),
        Err(failure) if matches!(failure.exit, Exit::Malformed | Exit::Refused) => {
            let id = bench.task(asked)?;
            Answer::stays(&id, None, failure.message)
                .hint(failure.hint)
                .tell(failure.exit, bench.out)
                .map(Err)
        }
        Err(failure) => Err(failure),
    }
}

/// `ftl next`.
pub(super) fn run(bench: &Bench<'_>, asked: &Next) -> Result<Exit, Failure> {
    let (to, over) = words(asked)?;
    let at = match arrive(bench, &asked.task)? {
        Ok(at) => at,
        Err(exit) => return Ok(exit),
    };
    let (answer, exit) = step(bench, &at, to, over)?;
    answer.tell(exit, bench.out)
}

/// One look, and at most one transition.
fn step(
    bench: &Bench<'_>,
    at: &Arrived,
    to: Option<Phase>,
    over: Option<&str>,
) -> Result<(Answer, Exit), Failure> {
    let (id, phase) = (at.folder.id(), at.phase);
    if let Some((from, moved)) = at.resumed.as_ref().and_then(|one| Some((one.from, one.moved()?))) {
        // An earlier command had begun this move; it is the one transition that is made.
        let answer = Answer::stays(id, Some(from), "what was interrupted was brought to its end");
        return Ok((answer.moved(moved), Exit::Done));
    }
    let stays = |reason: String| Answer::stays(id, Some(phase), reason).asked(to).warned(&at.warnings);
    if let Some(to) = to.filter(|to| !phase.leads_to(*to)) {
        let answer = stays(format!("there is no edge {phase} → {to}"));
        return Ok((answer.hint(ways(phase)), Exit::NotAllowed));
    }
    if phase == Phase::Done {
        if over.is_some() {
            return Ok((
                stays(String::from("done moves only by a redo")).hint(ways(phase)),
                Exit::NotAllowed,
            ));
        }
        return Ok((stays(String::from("the task is done")), Exit::Done));
    }
    if let Some(reason) = over {
        let target = to.or(phase.forward()).unwrap_or(Phase::Done);
        return force(bench, at, target, reason);
    }
    let judgement = match judge(&at.folder, phase, &at.bindings) {
        Ok(judgement) => judgement,
        Err(error) => {
            let failure = bench::malformed_failure(&error);
            return Ok((stays(failure.message).hint(failure.hint), Exit::Malformed));
        }
    };
    let stays = |reason: String| stays(reason).seen(&judgement);
    if let Some(held) = at.held() {
        return Ok((stays(format!("held: {held}")).hint(held_hint(at)), Exit::Blocked));
    }
    let open = match to {
        Some(to) => judgement.edge(to).filter(|edge| edge.holds).map(|edge| edge.to),
        None => judgement.open(),
    };
    let Some(open) = open else {
        let edge = to.or(phase.forward()).and_then(|to| judgement.edge(to));
        let missing = edge.map(|edge| edge.missing.join("; ")).filter(|text| !text.is_empty());
        let answer = stays(missing.unwrap_or_else(|| judgement.summary.clone()));
        return Ok((answer.hint(work_hint(phase)), Exit::Refused));
    };
    let mut options = Fields::new();
    options.insert(Name::from("to"), Value::text(open.word()));
    let (word, by, reason) = (Name::from("next"), bench.by.clone(), String::new());
    let carried = bench.carry(at, &Order::Say { instance: ROOT, word, by, reason, options })?;
    Ok(came_to(at, open, &judgement.summary, carried, stays))
}

/// What an order came to, as an answer.
fn came_to(
    at: &Arrived,
    wanted: Phase,
    why: &str,
    carried: Carried,
    stays: impl Fn(String) -> Answer,
) -> (Answer, Exit) {
    if carried.phase != at.phase {
        return (stays(why.to_owned()).moved(carried.phase), Exit::Done);
    }
    if carried.interrupted {
        return (stays(String::from("interrupted")).hint("say it again to go on"), Exit::Interrupted);
    }
    if let Some(held) = carried.held {
        return (stays(format!("held: {held}")).hint(held_hint(at)), Exit::Blocked);
    }
    if let Some(refused) = carried.refused {
        let exit = match refused.kind {
            RefusedKind::NotHere | RefusedKind::Settled => Exit::NotAllowed,
            RefusedKind::Malformed => Exit::Error,
            RefusedKind::Guard | RefusedKind::Late => Exit::Refused,
        };
        let hint = refused.hint.unwrap_or_else(|| ways(at.phase));
        return (stays(refused.message).hint(hint), exit);
    }
    let denied = carried.denied.unwrap_or_else(|| format!("it did not come to {wanted}"));
    (stays(denied), Exit::Refused)
}

/// Takes a declared edge although its guard does not hold.
fn force(bench: &Bench<'_>, at: &Arrived, to: Phase, reason: &str) -> Result<(Answer, Exit), Failure> {
    let (id, phase) = (at.folder.id(), at.phase);
    let judged = judge(&at.folder, phase, &at.bindings);
    let stays = |reason: String| {
        let answer = Answer::stays(id, Some(phase), reason).asked(Some(to)).warned(&at.warnings);
        match &judged {
            Ok(judgement) => answer.seen(judgement),
            Err(_) => answer,
        }
    };
    if (phase, to) == (Phase::Accept, Phase::Done) && !at.folder.has(PATCH) {
        let answer = stays(format!("{PATCH} is missing: there is nothing to apply"));
        return Ok((
            answer.hint("an override takes an edge; it does not make what the edge needs"),
            Exit::Refused,
        ));
    }
    if phase.pays(to) && at.rounds() == 0 {
        let answer = stays(String::from("held: the rounds are spent"));
        return Ok((answer.hint(held_hint(at)), Exit::Blocked));
    }
    let guards = match &judged {
        Ok(judgement) => judgement.edge(to).map(|edge| edge.missing.clone()).unwrap_or_default(),
        Err(error) => vec![format!("malformed: {error}")],
    };
    let reason = &bench.session.secrets().redact(reason);
    let line = Forced { kind: "override", by: &bench.by, reason, from: phase, to, guards };
    write::forced(&at.folder, &line).map_err(|error| bench::disk_failure(&at.folder, &error))?;
    let (by, reason) = (bench.by.clone(), reason.to_owned());
    let order = Order::Override { instance: ROOT, to: Name::from(to.word()), by, reason: reason.clone() };
    let carried = bench.carry(at, &order)?;
    let refused = carried.refused.is_some() || carried.denied.is_some() || carried.interrupted;
    if phase == to && !refused && carried.held.is_none() {
        bench.project(&at.folder, &at.run, phase, to)?;
        return Ok((stays(format!("overridden: {reason}")).moved(to), Exit::Done));
    }
    Ok(came_to(at, to, &format!("overridden: {reason}"), carried, stays))
}

/// `ftl next --auto`: each phase is run once and then looked at, until a person is needed.
pub(super) fn auto(bench: &Bench<'_>, asked: &Next) -> Result<Exit, Failure> {
    let mut first = None;
    loop {
        let at = match arrive(bench, &asked.task)? {
            Ok(at) => at,
            Err(exit) => return Ok(exit),
        };
        let from = *first.get_or_insert(at.phase);
        let (mut answer, mut exit) = step(bench, &at, None, None)?;
        let can_work = exit == Exit::Refused && !matches!(at.phase, Phase::Accept | Phase::Done);
        if can_work {
            if let Some(denied) = words::said(bench, &at)? {
                answer.reason = denied;
            } else {
                drop(at);
                let at = match arrive(bench, &asked.task)? {
                    Ok(at) => at,
                    Err(exit) => return Ok(exit),
                };
                (answer, exit) = step(bench, &at, None, None)?;
            }
        }
        if exit == Exit::Done
            && answer.moved
            && answer.to != Some(Phase::Done.word())
            && bench.stop.said() == 0
        {
            if !bench.out.is_json() {
                answer.tell(exit, bench.out)?;
            }
            continue;
        }
        let ended = Phase::of(answer.to.or(answer.from).unwrap_or_default());
        let needs_person = exit == Exit::Refused && ended == Some(Phase::Accept);
        answer.moved = answer.moved || ended.is_some_and(|phase| phase != from);
        if answer.moved {
            (answer.from, answer.to) = (Some(from.word()), ended.map(Phase::word));
        }
        if needs_person {
            answer.reason = format!("a person decides: {}", answer.reason);
            exit = Exit::Done;
        }
        return answer.tell(exit, bench.out);
    }
}

fn ways(phase: Phase) -> String {
    let targets: Vec<&str> = phase.targets().map(Phase::word).collect();
    match targets.as_slice() {
        [] => String::from("`ftl redo PHASE --reason R` opens it again"),
        some => format!("from {phase} it goes to {}", some.join(", ")),
    }
}

pub(super) fn work_hint(phase: Phase) -> String {
    match phase.command() {
        Some(command) => format!("`{command}` does the work of {phase}; `ftl next --eval` shows every edge"),
        None => ways(phase),
    }
}

pub(super) fn held_hint(at: &Arrived) -> String {
    format!(
        "`ftl raise {} rounds N --reason R` lets it go on; `ftl why {}` shows every way out",
        at.run, at.run
    )
}
