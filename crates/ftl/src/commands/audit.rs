//! `ftl audit verify`: whether the store and its journals are what was written.

use ftl_command::session::{session_failure, store_failure};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session};
use ftl_engine::session::find;
use ftl_store::audit::{ChainReport, verify_chain};
use ftl_store::sqlite::{RecordedEvent, SqliteStore, StoreEvent, StoreReport};
use ftl_store::{RunRow, Store};
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

/// Looks at the chain of one run, or at the store as a whole and all of them.
pub(crate) fn run(cli: &GlobalArgs, id: Option<&str>, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let opened = SqliteStore::open_existing(&place.store()).map_err(|error| store_failure(&error))?;
    let Some(store) = opened else {
        if id.is_some() {
            session::store_of_runs(&place)?;
        }
        return tell(&StoreReport::default(), &[], out);
    };
    let rows: Vec<RunRow> = match id {
        Some(id) => vec![find(&store, id).map_err(|error| session_failure(&error))?.row],
        None => store.runs("").map_err(|error| store_failure(&error))?,
    };
    let whole = match id {
        Some(_) => StoreReport::default(),
        None => store.verify().map_err(|error| store_failure(&error))?,
    };
    tell(&whole, &verified(&store, rows)?, out)
}

fn tell(
    whole: &StoreReport,
    reports: &[(RunRow, ChainReport)],
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let broken = reports.iter().filter(|(_, report)| report.broken.is_some()).count();
    let is_sound = broken == 0 && whole.problems.is_empty();
    if out.is_json() {
        let runs: Vec<Json> = reports.iter().map(|(row, report)| as_json(row, report)).collect();
        let events: Vec<Json> = whole.events.iter().map(event_json).collect();
        let store = json!({
            "ok": whole.problems.is_empty(),
            "problems": whole.problems,
            "remarks": whole.remarks,
            "events": events,
        });
        out.json(&json!({ "ok": is_sound, "runs": runs, "store": store }))?;
    } else {
        out.text(&format!("{}{}", store_text(whole), text(reports, broken, is_sound)))?;
    }
    Ok(if is_sound { ExitStatus::Done } else { ExitStatus::Malformed })
}

fn event_json(recorded: &RecordedEvent) -> Json {
    json!({ "at": recorded.at, "what": recorded.event })
}

fn store_text(whole: &StoreReport) -> String {
    let mut text = String::new();
    for recorded in &whole.events {
        text.push_str(&format!("note: {}\n", safe(&event_text(&recorded.event))));
    }
    for line in &whole.remarks {
        text.push_str(&format!("note: {}\n", safe(line)));
    }
    for line in &whole.problems {
        text.push_str(&format!("store {} {}\n", paint(paint::ERROR, "broken"), safe(line)));
    }
    text
}

fn event_text(event: &StoreEvent) -> String {
    match event {
        StoreEvent::Sealed { format } => {
            format!("the store had format {format}; its sums were first computed then")
        }
        StoreEvent::HeadsRenewed { why } => format!("the heads were made anew: {why}"),
        StoreEvent::LossAccepted(loss) => {
            let missing = loss.missing.join("; ");
            format!("{} accepted a loss ({}): {missing}; copies in {}", loss.by, loss.reason, loss.copies)
        }
    }
}

fn verified(store: &dyn Store, rows: Vec<RunRow>) -> Result<Vec<(RunRow, ChainReport)>, CommandError> {
    let mut reports = Vec::new();
    for row in rows {
        let report = verify_chain(store, &row.run).map_err(|error| store_failure(&error))?;
        reports.push((row, report));
    }
    Ok(reports)
}

fn as_json(row: &RunRow, report: &ChainReport) -> Json {
    let broken = report.broken.as_ref().map(|broken| json!({ "entry": broken.seq, "what": broken.what }));
    json!({
        "run": row.run,
        "ok": report.broken.is_none(),
        "entries": report.entries,
        "head": row.hash.to_string(),
        "broken": broken,
    })
}

fn text(reports: &[(RunRow, ChainReport)], broken: usize, is_sound: bool) -> String {
    let mut text = String::new();
    for (row, report) in reports {
        if let Some(found) = &report.broken {
            let what = format!("entry {}: {}", found.seq, safe(&found.what));
            text.push_str(&format!("run {} {} {what}\n", row.run, paint(paint::ERROR, "broken")));
        }
    }
    let entries: u64 = reports.iter().map(|(_, report)| report.entries).sum();
    let runs = paint::count(reports.len(), "run");
    let verdict = if is_sound {
        paint(paint::GOOD, "whole")
    } else if broken == 0 {
        paint(paint::ERROR, "not what was written")
    } else {
        paint(paint::ERROR, format!("{broken} broken"))
    };
    text.push_str(&format!("{runs}, {entries} entries: {verdict}\n"));
    text
}
