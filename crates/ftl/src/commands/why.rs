//! `ftl why`: why a run stands where it stands, and every way out of there.

use std::sync::Arc;

use ftl_core::run::{Instance, InstanceId, OpenKind, Run, Standing, ThreadId, WayOut};
use ftl_engine::journal;
use ftl_engine::session::find;
use ftl_engine::summary::Summary;
use serde_json::{Value as Json, json};

use super::run::standing;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session::{self, session_failure};
use crate::shelf::Shelf;
use crate::when;

/// Explains a run, or one instance of it.
pub(crate) fn run(cli: &Cli, id: &str, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let store = session::store_of_runs(&place)?;
    let target = find(&*store, id).map_err(|error| session_failure(&error))?;
    let entries =
        journal::load(&*store, &target.row.run).map_err(|error| session::drive_failure(&error.into()))?;
    let run = Run::replay(Arc::new(Shelf::load(cli)?.library), &entries);
    let named = id.contains('/');
    let Some(instance) = run.instance(target.instance) else {
        let message = format!("run {} has no instance {}", target.row.run, target.instance);
        return Err(Failure::new(
            message,
            format!("it has {}", paint::count(run.instances().len(), "instance")),
        ));
    };
    let shown: Vec<&Instance> =
        if named || instance.is_settled() { vec![instance] } else { run.live().collect() };
    let summary: Summary = serde_json::from_str(&target.row.summary).unwrap_or_default();
    let explain = |instance| Explained::of(&run, instance, &summary);
    let explained: Vec<Explained<'_>> = shown.into_iter().map(explain).collect();
    if out.is_json() {
        let instances: Vec<Json> = explained.iter().map(Explained::json).collect();
        out.json(&json!({ "run": target.row.run, "instances": instances }))?;
    } else {
        let texts: Vec<String> = explained.iter().map(|one| one.text(target.row.run.as_str())).collect();
        out.text(&texts.join("\n"))?;
    }
    Ok(Exit::Done)
}

/// An instance with all that is known about why it stands where it stands.
struct Explained<'a> {
    instance: &'a Instance,
    ways: Vec<WayOut>,
    questions: Vec<String>,
}

impl<'a> Explained<'a> {
    fn of(run: &Run, instance: &'a Instance, summary: &Summary) -> Explained<'a> {
        let own = summary.waits.iter().filter(|wait| wait.instance == instance.id.0);
        let questions =
            own.filter(|wait| wait.what == ftl_engine::summary::What::Question).map(|wait| wait.text.clone());
        Explained { instance, ways: run.options(instance.id), questions: questions.collect() }
    }

    fn json(&self) -> Json {
        let one = self.instance;
        let held: Vec<Json> = one
            .held
            .iter()
            .map(|(thread, held)| {
                json!({
                    "thread": thread_name(thread),
                    "kind": held.failure.kind.word(),
                    "reason": held.failure.message,
                    "meter": held.meter.as_ref().map(|(_, name)| name),
                    "can_resume": !held.stuck,
                })
            })
            .collect();
        let waits: Vec<Json> =
            waits(one).into_iter().map(|(action, what)| json!({ "action": action, "for": what })).collect();
        json!({
            "instance": one.id.0,
            "protocol": one.protocol,
            "state": one.state,
            "standing": word(one.standing()),
            "held": held,
            "waits": waits,
            "questions": self.questions,
            "ways_out": self.ways,
            "meters": one.meters.iter().map(|(name, meter)| (name.to_string(), json!({
                "used": meter.used(), "left": meter.left(), "limit": meter.limit,
            }))).collect::<serde_json::Map<_, _>>(),
        })
    }

    fn text(&self, run: &str) -> String {
        let one = self.instance;
        let at = if one.id == InstanceId(0) { run.to_owned() } else { format!("{run}/{}", one.id) };
        let mut text = format!(
            "{} {} in {}: {}\n",
            paint(paint::STRONG, &at),
            one.protocol,
            paint(paint::STRONG, &one.state),
            standing(word(one.standing()))
        );
        for held in one.held.values() {
            text.push_str(&format!("  {} {}\n", paint(paint::ERROR, "held:"), safe(&held.failure.message)));
            let hint = match &held.meter {
                Some((owner, meter)) => format!("`ftl raise {run}/{owner} {meter} N --reason …` goes on"),
                None if held.stuck => format!("`ftl override {at} STATE --reason …` or `ftl stop {at}`"),
                None => format!("`ftl resume {run}` asks again"),
            };
            text.push_str(&format!("  {} {hint}\n", paint(paint::HINT, "hint:")));
        }
        for question in &self.questions {
            text.push_str(&format!("  asks: {}\n", safe(question)));
            text.push_str(&format!("  {} `ftl answer {at} VALUE`\n", paint(paint::HINT, "hint:")));
        }
        for (action, what) in waits(one) {
            text.push_str(&format!("  waits for {what} {}\n", paint(paint::QUIET, format!("({action})"))));
        }
        for way in &self.ways {
            text.push_str(&way_text(way));
        }
        text
    }
}

fn way_text(way: &WayOut) -> String {
    let to = way.to.as_deref().unwrap_or("the end");
    let open = if way.open { paint(paint::GOOD, "open") } else { paint(paint::QUIET, "not yet") };
    let mut text = format!(
        "  → {} {open} {}\n",
        paint::padded(&paint(paint::STRONG, to), 14),
        paint(paint::QUIET, safe(&way.by))
    );
    for condition in &way.conditions {
        let mark = match condition.holds {
            Some(true) => paint(paint::GOOD, "holds"),
            Some(false) => paint(paint::ERROR, "does not hold"),
            None => paint(paint::WARNING, "not known yet"),
        };
        text.push_str(&format!("      {} {mark}\n", safe(&condition.text)));
    }
    if let Some(behind) = &way.behind {
        text.push_str(&format!("      {}\n", paint(paint::QUIET, format!("taken first: {}", safe(behind)))));
    }
    text
}

/// What an instance waits for, by action.
fn waits(instance: &Instance) -> Vec<(String, String)> {
    let open = instance.open.iter().filter_map(|(action, open)| {
        let what = match (&open.suspended, &open.kind) {
            (Some((service, until)), _) => {
                format!("{} to answer, asked again at {}", safe(service), when::clock(*until))
            }
            (None, OpenKind::Call | OpenKind::Record) => open.whom.to_string(),
            (None, OpenKind::Child(Some(child))) => format!("instance {child}"),
            (None, OpenKind::Child(None)) => String::from("a child"),
            (None, OpenKind::Words(words)) => format!("one of the words {}", words.join(", ")),
            (None, OpenKind::Question) => String::from("an answer"),
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

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Running => "running",
        Standing::Waiting => "waiting",
        Standing::Suspended => "suspended",
        Standing::Held => "held",
        Standing::Settled(end) => end.word(),
    }
}
