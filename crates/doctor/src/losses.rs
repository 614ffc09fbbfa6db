//! After a loss: what is missing of the store, and what git and the ledgers beside it still know.
//!
//! It only reads. Ledgers are written before the journal hears of a landing, so that they may know of more than a journal
//! that was cut.

use std::path::Path;

use serde_json::Value as Json;

use super::{ACCEPT, Area, DoctorReport, MAX_TOLD, counted};
use ftl_folder as folder;
use ftl_folder::state_folder::StateFolder;
use ftl_git::Repo;
use ftl_store::sqlite::{RecordedEvent, SqliteStore, StoreEvent};
use ftl_store::{Store, StoreError};

/// The largest ledger that is read.
const MAX_LEDGER_BYTES: u64 = 16 * 1024 * 1024;

/// How many runs are looked for beside the store.
const MAX_RUNS: usize = 1000;

/// Whether the store is what was written. What is not is told with what is known of it elsewhere.
pub(super) fn of_store(
    store: &SqliteStore,
    place: &StateFolder,
    found: &mut DoctorReport,
) -> Vec<RecordedEvent> {
    match store.verify() {
        Ok(report) => {
            for line in report.problems.iter().take(MAX_TOLD) {
                found.broken(Area::Store, line, ACCEPT);
            }
            if report.problems.len() > MAX_TOLD {
                let more = counted(report.problems.len() - MAX_TOLD, "problem");
                found.broken(Area::Store, format!("and {more} more"), ACCEPT);
            }
            if !report.problems.is_empty() {
                what_is_known(place, Some(store), found);
            }
            for line in report.remarks.iter().filter(|line| line.starts_with("the heads")) {
                found.look(Area::Store, line, "nothing is lost by that; it will be noted");
            }
            report.events
        }
        Err(error) => {
            super::trouble(Area::Store, &error, found);
            Vec::new()
        }
    }
}

/// What people have accepted as lost.
pub(super) fn accepted(events: &[RecordedEvent], found: &mut DoctorReport) {
    for recorded in events {
        let StoreEvent::LossAccepted(loss) = &recorded.event else { continue };
        let what = loss.missing.first().map_or("", String::as_str);
        let (by, reason, copies) = (&loss.by, &loss.reason, &loss.copies);
        found
            .fine(Area::Store, format!("a loss was accepted by {by}: {reason} ({what}; copies in {copies})"));
    }
}

/// A store that cannot be opened at all.
pub(super) fn of_nothing(error: &StoreError, place: &StateFolder, found: &mut DoctorReport) {
    if matches!(error, StoreError::Lost(_) | StoreError::Corrupt(_)) {
        what_is_known(place, None, found);
    }
}

/// What ledgers and refs say of runs.
fn what_is_known(place: &StateFolder, store: Option<&SqliteStore>, found: &mut DoctorReport) {
    let hint = "what landed is on its branch whatever the journal says; `ftl salvage` lists what was kept";
    for run in runs_with_ledgers(place) {
        let folder = place.store().join("git").join("runs").join(&run);
        let landed = landings(&folder.join("landed"));
        let tip = read(&folder.join("run.json")).and_then(|json| Some(json.get("tip")?.as_str()?.to_owned()));
        let entries = store.map(|store| entries(store, &run)).unwrap_or_default();
        let tip = tip.map(|tip| format!(", the run's branch is at {}", short(&tip))).unwrap_or_default();
        let text =
            format!("run {run}: git still has {}{tip}; the journal has {entries}", landed_text(&landed));
        found.look(Area::Store, text, hint);
    }
    if let Ok(kept) = Repo::of_person(place, Vec::new()).and_then(|repo| repo.list_kept())
        && !kept.is_empty()
    {
        found.look(
            Area::Store,
            format!("git still has {} under refs/ftl/kept", counted(kept.len(), "kept tree")),
            hint,
        );
    }
}

fn entries(store: &SqliteStore, run: &str) -> String {
    let row = run.parse().ok().and_then(|run| store.run(&run).ok().flatten());
    match row.map(|row| row.head) {
        None => "nothing".to_owned(),
        Some(1) => "1 entry".to_owned(),
        Some(head) => format!("{head} entries"),
    }
}

fn landed_text(commits: &[String]) -> String {
    if commits.is_empty() {
        return "no landing".to_owned();
    }
    let named: Vec<&str> = commits.iter().take(MAX_TOLD).map(|commit| short(commit)).collect();
    format!("{} ({})", counted(commits.len(), "landing"), named.join(", "))
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

fn runs_with_ledgers(place: &StateFolder) -> Vec<String> {
    let names = folder::names(&place.store().join("git").join("runs")).unwrap_or_default();
    names.into_iter().filter_map(|name| name.into_string().ok()).take(MAX_RUNS).collect()
}

/// The commits that landings came to.
fn landings(folder: &Path) -> Vec<String> {
    let names = folder::names(folder).unwrap_or_default();
    let ledgers = names.into_iter().filter_map(|name| read(&folder.join(name)));
    let commits = ledgers.filter_map(|json| {
        let commit = json.pointer("/landed/done/commit")?.as_str()?;
        Some(commit.to_owned())
    });
    let mut commits: Vec<String> = commits.collect();
    commits.sort();
    commits
}

fn read(file: &Path) -> Option<Json> {
    serde_json::from_slice(&folder::read(file, MAX_LEDGER_BYTES).ok()?).ok()
}
