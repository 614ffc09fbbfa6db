//! `ftl status`: every run, where it stands, what it spent, and what it waits for.
//!
//! It reads the summaries that stand beside the journals and nothing else, so that it is quick however
//! long the runs are. It never makes a store.

use std::collections::BTreeMap;

use ftl_engine::amount::Unit;
use ftl_engine::clock;
use ftl_engine::place::Place;
use ftl_engine::session::{Driven, driven, find};
use ftl_engine::store::RunRow;
use ftl_engine::summary::{Spent, Summary, Wait, What};
use serde_json::{Value as Json, json};

use super::run::standing;
use crate::cli::{Cli, Status};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session::{self, session_failure, store_failure};
use crate::when;

/// How many runs that have ended are shown unless all are asked for.
const MAX_ENDED: usize = 10;

/// How much of a title is shown.
const TITLE: usize = 40;

/// A run as this command knows it.
pub(crate) struct Known {
    pub(crate) row: RunRow,
    pub(crate) summary: Summary,
    pub(crate) driven: Driven,
}

impl Known {
    /// How it stands: a run that should move and that nobody drives is interrupted.
    pub(crate) fn standing(&self) -> &str {
        let moves = matches!(self.summary.standing.as_str(), "running" | "suspended");
        if moves && !self.row.settled && self.driven == Driven::ByNobody {
            "interrupted"
        } else {
            &self.summary.standing
        }
    }
}

/// Shows the runs.
pub(crate) fn run(cli: &Cli, asked: &Status, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let known = match &asked.id {
        Some(id) => {
            let store = session::store_of_runs(&place)?;
            let row = find(&*store, id).map_err(|error| session_failure(&error))?.row;
            vec![look(&place, row)?]
        }
        None => all(&place)?,
    };
    if out.is_json() {
        let runs: Vec<Json> = known.iter().map(as_json).collect();
        out.json(&json!({ "runs": runs, "campaign": Json::Null }))?;
    } else if known.is_empty() {
        out.text("no runs\n")?;
    } else {
        out.text(&table(&known, asked.all || asked.id.is_some()))?;
    }
    Ok(Exit::Done)
}

/// Every run, the newest first.
pub(crate) fn all(place: &Place) -> Result<Vec<Known>, Failure> {
    let Some(store) = session::store(place)? else { return Ok(Vec::new()) };
    let rows = store.runs("").map_err(|error| store_failure(&error))?;
    rows.into_iter().filter(|row| row.head > 0).map(|row| look(place, row)).collect()
}

/// What is known of a run without reading its journal.
pub(crate) fn look(place: &Place, row: RunRow) -> Result<Known, Failure> {
    let summary = serde_json::from_str(&row.summary).unwrap_or_default();
    let driven = if row.settled {
        Driven::ByNobody
    } else {
        driven(place, &row).map_err(|error| session_failure(&error))?
    };
    Ok(Known { row, summary, driven })
}

/// A run as JSON.
pub(crate) fn as_json(known: &Known) -> Json {
    let mut document = serde_json::to_value(&known.summary).unwrap_or_default();
    document["run"] = json!(known.row.run);
    document["standing"] = json!(known.standing());
    document["opened"] = json!(when::stamp(known.row.opened));
    document["changed"] = json!(when::stamp(known.row.changed));
    document["epoch"] = json!(known.row.epoch);
    document["owner"] = match &known.driven {
        Driven::ByNobody => Json::Null,
        Driven::By(card) => json!(card),
    };
    for wait in document["waits"].as_array_mut().into_iter().flatten() {
        if let Some(until) = wait.get("until").and_then(Json::as_u64) {
            wait["until"] = json!(when::stamp(until));
        }
    }
    document
}

fn table(known: &[Known], everything: bool) -> String {
    let now = clock::wall();
    let mut text = String::new();
    let mut ended = 0;
    for one in known {
        if one.row.settled {
            ended += 1;
            if ended > MAX_ENDED && !everything {
                continue;
            }
        }
        text.push_str(&lines(one, now));
    }
    if ended > MAX_ENDED && !everything {
        let more = format!("{} more have ended; `ftl status --all` shows them\n", ended - MAX_ENDED);
        text.push_str(&paint(paint::QUIET, more));
    }
    text
}

/// A run in one line, and a line for each thing that it waits for.
fn lines(known: &Known, now: u64) -> String {
    let summary = &known.summary;
    let mut text = format!(
        "{}  {}  {}  {}  {}  {}\n",
        paint(paint::STRONG, &known.row.run),
        paint::padded(&standing(known.standing()), 11),
        paint::padded(&format!("{} {}", summary.protocol, summary.state), 22),
        paint::padded(&paint(paint::QUIET, when::ago(known.row.changed, now)), 8),
        shortened(&safe(&summary.title)),
        paint(paint::QUIET, spent(&summary.meters)),
    );
    if known.row.settled {
        if let Some(reason) = &summary.reason {
            text.push_str(&format!("          {}\n", safe(reason)));
        }
        return text;
    }
    if known.standing() == "interrupted" {
        let hint = format!("nobody drives it; `ftl resume {}` goes on", known.row.run);
        text.push_str(&format!("          {}\n", paint(paint::HINT, hint)));
    }
    for wait in &summary.waits {
        text.push_str(&format!("          {}\n", waits(known, wait, now)));
    }
    text
}

fn waits(known: &Known, wait: &Wait, now: u64) -> String {
    let run = &known.row.run;
    let at = if wait.instance == 0 { run.to_string() } else { format!("{run}/{}", wait.instance) };
    let text = safe(&wait.text);
    match wait.what {
        What::Held => {
            format!("{} {text} (`ftl why {at}`)", paint(paint::ERROR, format!("held in {}:", wait.state)))
        }
        What::Question => format!("asks in {}: {text} (`ftl answer {at} VALUE`)", wait.state),
        What::Word => format!("waits in {} for {text} (`ftl answer {at} WORD`)", wait.state),
        What::Service => {
            let until = wait.until.map_or(String::new(), |until| {
                let left = Unit::Time.show(until.saturating_sub(now));
                format!(", asked again at {} (in {left})", when::clock(until))
            });
            format!("suspended in {}: {text} does not answer{until}", wait.state)
        }
        What::Work => paint(paint::QUIET, format!("{} in {}", text, wait.state)),
    }
}

/// What was spent of what, where anything was.
pub(crate) fn spent(meters: &BTreeMap<String, Spent>) -> String {
    let words: Vec<String> = meters
        .iter()
        .filter(|(_, spent)| spent.used > 0 || spent.reserved > 0)
        .map(|(name, spent)| {
            let unit = Unit::of_meter(name);
            let limit = spent.limit.map_or(String::new(), |limit| format!("/{}", unit.show(limit)));
            let unknown = if spent.unknown > 0 { "?" } else { "" };
            format!("{name} {}{unknown}{limit}", unit.show(spent.used))
        })
        .collect();
    words.join("  ")
}

fn shortened(title: &str) -> String {
    if title.chars().count() <= TITLE {
        return title.to_owned();
    }
    let kept: String = title.chars().take(TITLE).collect();
    format!("{kept}…")
}
