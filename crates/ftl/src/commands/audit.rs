//! `ftl audit verify`: whether the journals are what was written.

use ftl_engine::session::find;
use ftl_engine::store::audit::{ChainReport, verify_chain};
use ftl_engine::store::{RunRow, Store};
use serde_json::{Value as Json, json};

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session::{self, session_failure, store_failure};

/// Looks at the chain of one run, or of all.
pub(crate) fn run(cli: &Cli, id: Option<&str>, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let store = match id {
        Some(_) => Some(session::store_of_runs(&place)?),
        None => session::store(&place)?,
    };
    let mut reports = Vec::new();
    if let Some(store) = &store {
        let rows: Vec<RunRow> = match id {
            Some(id) => vec![find(&**store, id).map_err(|error| session_failure(&error))?.row],
            None => store.runs("").map_err(|error| store_failure(&error))?,
        };
        reports = verified(&**store, rows)?;
    }
    let broken = reports.iter().filter(|(_, report)| report.broken.is_some()).count();
    if out.is_json() {
        let runs: Vec<Json> = reports.iter().map(|(row, report)| as_json(row, report)).collect();
        out.json(&json!({ "ok": broken == 0, "runs": runs }))?;
    } else {
        out.text(&text(&reports, broken))?;
    }
    Ok(if broken == 0 { Exit::Done } else { Exit::Malformed })
}

fn verified(store: &dyn Store, rows: Vec<RunRow>) -> Result<Vec<(RunRow, ChainReport)>, Failure> {
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

fn text(reports: &[(RunRow, ChainReport)], broken: usize) -> String {
    let mut text = String::new();
    for (row, report) in reports {
        if let Some(found) = &report.broken {
            let what = format!("entry {}: {}", found.seq, safe(&found.what));
            text.push_str(&format!("run {} {} {what}\n", row.run, paint(paint::ERROR, "broken")));
        }
    }
    let entries: u64 = reports.iter().map(|(_, report)| report.entries).sum();
    let runs = paint::count(reports.len(), "run");
    let verdict = if broken == 0 {
        paint(paint::GOOD, "whole")
    } else {
        paint(paint::ERROR, format!("{broken} broken"))
    };
    text.push_str(&format!("{runs}, {entries} entries: {verdict}\n"));
    text
}
