//! `ftl why`: why a run stands where it stands, every way out of there, and what a person can type. Of a flow it is told
//! in sentences first, and the program's guards below.

#[cfg(test)]
mod counted;
mod sentences;

use std::sync::Arc;

use ftl_core::run::PULL;
use ftl_core::run::{
    Answers, COULD_NOT, Condition, FailureKind, HeldAt, Instance, InstanceId, OpenKind, ROOT, Run, STOPPED,
    ThreadId, WayOut,
};
use ftl_core::value::{Name, Value};
use ftl_engine::executors::questions;
use ftl_engine::session::SessionError;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_lifecycle::gate_answers::Looks;
use ftl_lifecycle::phases::NEXT;
use ftl_lifecycle::{Phases, TaskFolder, registry};
use ftl_store::sqlite::SqliteStore;
use ftl_store::{Store, StoreError};
use serde_json::{Value as Json, json};

use crate::target::{RunPart, RunView};
use ftl_command::known::RunOverview;
use ftl_command::session::session_failure;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session};
use ftl_view::actions::{Known, PersonAction, actions, is_stuck, open_questions};
use ftl_view::board::Board;
use ftl_view::lines;
use ftl_view::paint::{self, paint, safe};
use ftl_view::relative_time;
use ftl_view::runs::{command, instance_label, standing};
use ftl_view::summary::{RunStanding, Summary};
use sentences::Sentences;

/// How wide the first column is.
const FIRST: usize = 12;

/// How many instances are explained unless one is named.
const MAX_EXPLAINED: usize = 20;

/// Explains a run, one task of its plan, or one instance of it.
pub(crate) fn run(cli: &GlobalArgs, id: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let store = session::store_of_runs(&place)?;
    explain(cli, (&place, &store), id, out)
}

/// The same in a store that is open.
fn explain(
    cli: &GlobalArgs,
    (place, store): (&StateFolder, &Arc<dyn Store>),
    id: &str,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let RunView { reader, part } = RunView::find(cli, store, id)?;
    let row = store.run(&reader.run).map_err(|error| session::store_failure(&error))?;
    let Some(row) = row else { return Err(session_failure(&run_gone(&reader.run))) };
    let known = RunOverview::of(place, row)?;
    let run = reader.board.machine();
    let shown = instances_to_explain(&reader.board, &part);
    let failed = |error: StoreError| session::store_failure(&error);
    let notes = SqliteStore::open_existing(&place.store()).map_err(failed)?;
    let asked = |instance: &Instance| match &notes {
        Some(notes) if !instance.held.is_empty() => questions::open_in(notes, &known.row.run, instance.id),
        Some(_) | None => Ok(None),
    };
    let answers = gate_answers(run, place, notes.as_ref(), &known.row.run);
    let mut explained = Vec::new();
    for instance in shown {
        let asked = asked(instance).map_err(failed)?;
        explained.push(Explained::of(run, instance, (&known.row.run, &known.summary), &answers, asked));
    }
    let is_flow = Board::is_drawn(run.programs().as_ref(), &known.summary.protocol);
    let sentences = is_flow.then(|| Sentences::of(&known, &reader.board, &part));
    if out.is_json() {
        let instances: Vec<Json> = explained.iter().map(Explained::json).collect();
        let mut document =
            json!({ "run": known.row.run, "standing": known.standing(), "instances": instances });
        if let Some(sentences) = &sentences {
            (document["what"], document["you_can"]) = sentences.json();
        }
        out.json(&document)?;
    } else {
        let first = sentences.map_or_else(String::new, |told| {
            format!("{}\n{}", told.text(), paint(paint::QUIET, "In its program:\n"))
        });
        out.text(&format!("{first}{}", text(&known, &explained)))?;
    }
    Ok(ExitStatus::Done)
}

pub(super) fn no_instance(run: &RunId, instance: InstanceId, count: usize) -> CommandError {
    let hint = match count {
        0 | 1 => format!("it has only one; `ftl why {run}` explains it"),
        several => format!("its instances are {run}/0 to {run}/{}", several - 1),
    };
    CommandError::new(format!("run {run} has no instance {instance}"), hint)
}

/// What the gates of a task answer now, for the ways out of its phase; nothing for runs that are of no task.
fn gate_answers(run: &Run, place: &StateFolder, notes: Option<&SqliteStore>, id: &RunId) -> Answers {
    let looked = || {
        let task = registry::task_of(notes?, id).ok()??;
        let phases = Phases::of(run.programs().as_ref())?;
        let phase = registry::phase_of(run, &phases)?;
        let (folder, bindings) = (TaskFolder::of(place, &task), registry::bindings(notes?, &task).ok()?);
        let looks = Looks::new(&folder, &bindings, phases.routes());
        phases.gates(&phase).into_iter().for_each(|gate| drop(looks.at(gate)));
        Some(Answers { word: Some(Name::from(NEXT)), actions: looks.answers() })
    };
    looked().unwrap_or_default()
}

/// The instances that are explained: of a run that goes on, all that do.
fn instances_to_explain<'a>(board: &'a Board, part: &RunPart) -> Vec<&'a Instance> {
    let run = board.machine();
    let one = |id: InstanceId| run.instance(id).into_iter().collect();
    match part {
        RunPart::Whole if run.end().is_some() => one(ROOT),
        RunPart::Whole => run.live().collect(),
        RunPart::Instance(id) => one(*id),
        RunPart::Task(seq) => board.last_of(seq).map(one).unwrap_or_default(),
    }
}

fn run_gone(run: &RunId) -> SessionError {
    SessionError::Unknown {
        message: format!("there is no run `{run}`"),
        hint: String::from("`ftl status` lists the runs"),
    }
}

fn text(known: &RunOverview, explained: &[Explained<'_>]) -> String {
    let mut texts: Vec<String> = explained.iter().take(MAX_EXPLAINED).map(Explained::text).collect();
    if explained.len() > MAX_EXPLAINED {
        let more = explained.len() - MAX_EXPLAINED;
        texts.push(format!("{more} more instances go on; name one, such as {}/{}\n", known.row.run, more));
    }
    if known.standing() == RunStanding::Interrupted {
        texts.push(known.driver().map_or(String::new(), |line| format!("{line}\n")));
    }
    texts.join("\n")
}

/// An instance with all that is known about why it stands where it stands.
struct Explained<'a> {
    run: &'a RunId,
    instance: &'a Instance,
    ways: Vec<WayOut>,
    /// Its open questions, each under its name.
    questions: Vec<(String, String)>,
    /// What an agent asked before it was held.
    asked: Option<String>,
    /// The actions that a person can take.
    actions: Vec<PersonAction>,
}

impl<'a> Explained<'a> {
    fn of(
        run: &Run,
        instance: &'a Instance,
        (id, summary): (&'a RunId, &Summary),
        answers: &Answers,
        asked: Option<String>,
    ) -> Explained<'a> {
        let (questions, ways) = (open_questions(instance, summary), run.options_with(instance.id, answers));
        let known = Known { questions, asked, ways };
        let actions = actions(run, id.as_str(), instance, &known);
        let Known { questions, asked, ways } = known;
        Explained { run: id, instance, ways, questions, asked, actions }
    }

    fn at(&self) -> String {
        instance_label(self.run, self.instance.id.0)
    }

    /// What a person can type to let it go on.
    fn commands(&self) -> Vec<&str> {
        self.actions.iter().map(|one| one.command.as_str()).collect()
    }

    fn json(&self) -> Json {
        let one = self.instance;
        let held: Vec<Json> = one.held.iter().map(|(thread, held)| held_json(thread, held)).collect();
        let waits: Vec<Json> =
            waits(one).into_iter().map(|(action, what)| json!({ "action": action, "for": what })).collect();
        let end = one.end.as_ref().map(|(_, values)| &**values);
        json!({
            "instance": one.id.0,
            "protocol": one.protocol,
            "state": one.state,
            "standing": one.standing().word(),
            "held": held,
            "waits": waits,
            "questions": self.questions.iter().map(|(_, text)| text).chain(&self.asked).collect::<Vec<_>>(),
            "asks": self.questions.iter().map(|(action, text)| json!({ "question": action, "text": text }))
                .collect::<Vec<_>>(),
            "ways_out": self.ways,
            "meters": one.meters.iter().map(|(name, meter)| (name.to_string(), json!({
                "used": meter.highest_use(), "left": meter.left(), "limit": meter.limit,
            }))).collect::<serde_json::Map<_, _>>(),
            "ended_with": end,
            "commands": self.commands(),
            "actions": self.actions,
        })
    }

    fn text(&self) -> String {
        let one = self.instance;
        let mut text = format!(
            "{} {} in {}: {}\n",
            paint(paint::STRONG, self.at()),
            safe(&one.protocol),
            paint(paint::STRONG, &one.state),
            standing(RunStanding::Known(one.standing()))
        );
        if let Some((_, values)) = &one.end {
            let said = |value: &Value| !value.is_none() && value.as_text() != Some("");
            for (name, value) in values.iter().filter(|(_, value)| said(value)) {
                text.push_str(&row(name, &lines::render_value(value)));
            }
            text.push_str(&row("", &paint(paint::QUIET, "it has ended; nothing leads on from here")));
            return text;
        }
        for (thread, held) in &one.held {
            let whose = match thread {
                ThreadId::Main => String::new(),
                ThreadId::Item { key, .. } => format!("item {}: ", safe(key)),
            };
            let label = paint(paint::ERROR, "held");
            text.push_str(&row(&label, &format!("{whose}{}", paint::one_line(&held.failure.message))));
            if held.stuck && held.failure.kind == FailureKind::Stale {
                let words = command(&format!("ftl resume {}", self.run));
                text.push_str(&row("", &format!("put back what it was, and {words} goes on")));
            }
        }
        for (action, question) in &self.questions {
            let name = if self.questions.len() > 1 { format!("{action}: ") } else { String::new() };
            text.push_str(&row(&paint(paint::WARNING, "asks"), &format!("{name}{}", safe(question))));
        }
        if let Some(question) = &self.asked {
            text.push_str(&row(&paint(paint::WARNING, "asks"), &paint::one_line(question)));
        }
        for (_, what) in waits(one).into_iter().filter(|_| !is_stuck(one)) {
            text.push_str(&row("waits for", &what));
        }
        text.push_str(&self.ways_text());
        for (index, words) in self.commands().iter().enumerate() {
            text.push_str(&row(if index == 0 { "you can" } else { "" }, &command(words)));
        }
        text
    }

    fn ways_text(&self) -> String {
        let mut text = String::new();
        let mut undecided = false;
        for (index, way) in self.ways.iter().enumerate() {
            let to = way.to.as_deref().unwrap_or("the end");
            let when = needs(way, undecided);
            undecided |= way.conditions.iter().any(|one| one.holds.is_none()) && !is_shut(way);
            let label = if index == 0 { "ways out" } else { "" };
            let line = format!("→ {} {when}", paint::padded(&paint(paint::STRONG, to), 12));
            text.push_str(&row(label, &line));
            let by = paint(paint::QUIET, safe(&way.by));
            text.push_str(&row("", &format!("  {by}")));
        }
        text
    }
}

/// A label and what belongs to it, no wider than the terminal.
fn row(label: &str, text: &str) -> String {
    let width = out::terminal().map(|(width, _)| width);
    let line = format!("  {}{text}", paint::padded(label, FIRST));
    format!("{}\n", paint::fitted(&line, width))
}

/// Whether a condition of a way is known not to hold.
fn is_shut(way: &WayOut) -> bool {
    way.conditions.iter().any(|condition| condition.holds == Some(false))
}

/// What a way out still needs.
fn needs(way: &WayOut, undecided: bool) -> String {
    let unmet: Vec<&Condition> =
        way.conditions.iter().filter(|condition| condition.holds != Some(true)).collect();
    if !unmet.is_empty() {
        let words: Vec<String> = unmet.iter().map(|condition| condition_text(condition)).collect();
        return format!("if {}", words.join(" and "));
    }
    if way.to.is_some() && !way.open && way.behind.is_none() && way.unless.is_empty() {
        return String::from("when that meter is spent");
    }
    match &way.behind {
        Some(behind) => paint(paint::QUIET, format!("not taken: `{}` comes first", safe(behind))),
        None if !way.unless.is_empty() => {
            let (texts, word) = (way.unless.join(" or "), paint(paint::WARNING, "not known yet"));
            format!("if not: {} ({word})", safe(&texts))
        }
        None if undecided => paint(paint::GOOD, "otherwise"),
        None => paint(paint::GOOD, "as soon as it goes on"),
    }
}

fn condition_text(condition: &Condition) -> String {
    let text = match condition.text.strip_prefix(COULD_NOT) {
        Some(step) => format!("this cannot be done: {}", safe(step)),
        None => safe(&condition.text),
    };
    match condition.holds {
        Some(true) => text,
        Some(false) => format!("{text} ({})", paint(paint::ERROR, "does not hold")),
        None => format!("{text} ({})", paint(paint::WARNING, "not known yet")),
    }
}

fn held_json(thread: &ThreadId, held: &HeldAt) -> Json {
    json!({
        "thread": thread_name(thread),
        "kind": held.failure.kind.word(),
        "reason": held.failure.message,
        "meter": held.meter.as_ref().map(|(_, name)| name),
        "meter_of": held.meter.as_ref().map(|(owner, _)| owner),
        "can_resume": !held.stuck,
    })
}

/// What an instance waits for, by action; a question is told elsewhere, with its words.
fn waits(instance: &Instance) -> Vec<(String, String)> {
    let now = clock::wall();
    let open = instance.open.iter().filter_map(|(action, open)| {
        let what = match (&open.suspended, &open.kind) {
            (Some((service, _)), _) if service == STOPPED => {
                format!("{}, which was put off when ftl was stopped", safe(&open.whom.to_string()))
            }
            (Some((service, until)), _) => {
                let (left, clock) = (relative_time::time_left(*until, now), relative_time::clock(*until));
                let wanted = if service.starts_with(PULL) { "be ready" } else { "answer" };
                let (service, whom) = (safe(service), safe(&open.whom.to_string()));
                format!("{service} to {wanted}, for {whom}; asked again {left} ({clock})")
            }
            (None, OpenKind::Call | OpenKind::Record) => safe(&open.whom.to_string()),
            (None, OpenKind::Child(Some(child))) => {
                format!("instance {child}, {}", safe(&open.whom.to_string()))
            }
            (None, OpenKind::Child(None)) => safe(&open.whom.to_string()),
            (None, OpenKind::Words(words)) => format!("one of the words {}", words.join(", ")),
            (None, OpenKind::Question) => return None,
            (None, OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. }) => return None,
        };
        Some((action.to_string(), what))
    });
    open.collect()
}

fn thread_name(thread: &ThreadId) -> Json {
    match thread {
        ThreadId::Main => Json::Null,
        ThreadId::Item { key, .. } => json!(key),
    }
}
