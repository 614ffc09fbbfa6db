//! Journals: whether they are what was written, and whether they make the runs that are shown.

use std::sync::Arc;

use ftl_core::run::{Entry, Run};
use ftl_language::library::Library;

use super::{Area, DoctorReport, MAX_TOLD, counted, trouble};
use ftl_store::journal::{self, JournalError};
use ftl_store::summary::{Questions, Summary};
use ftl_store::{RunRow, Store, verify_chain};

/// Computes chains again: of every run when it is to be deep, else of those that have not ended.
pub(super) fn chains(store: &dyn Store, rows: &[RunRow], deep: bool, found: &mut DoctorReport) {
    let (mut entries, mut looked) = (0_u64, 0_u64);
    for row in rows.iter().filter(|row| deep || !row.settled) {
        match verify_chain(store, &row.run) {
            Ok(report) => {
                entries += report.entries;
                looked += 1;
                if let Some(broken) = report.broken {
                    let text = format!("run {}, entry {}: {}", row.run, broken.seq, broken.what);
                    let hint = format!("`ftl log {}` shows what is left; keep a copy of .ftl/store", row.run);
                    found.broken(Area::Chains, text, hint);
                }
            }
            Err(error) => trouble(Area::Chains, &error, found),
        }
    }
    let which = if deep { "" } else { " not ended" };
    let looked = counted(looked, "run");
    found.otherwise_fine(Area::Chains, format!("{looked}{which}, {entries} entries: whole"));
}

/// Reads every journal, makes its run again, and compares it with what is shown of it.
pub(super) fn replays(
    store: &dyn Store,
    rows: &[RunRow],
    library: Option<&Arc<Library>>,
    found: &mut DoctorReport,
) {
    let Some(library) = library else {
        let text = "journals were not decided again: the protocols cannot be read";
        return found.look(Area::Journals, text, "`ftl check` tells what is wrong with them");
    };
    let mut looked = 0_u64;
    let mut otherwise = Vec::new();
    for row in rows {
        match journal::load(store, &row.run) {
            Ok(mut entries) => {
                // The run may have grown since its row was read.
                entries.truncate(usize::try_from(row.head).unwrap_or(usize::MAX));
                looked += 1;
                agrees(row, library, &entries, found);
                if let Err(divergence) = Run::verify(library.clone(), &entries) {
                    otherwise.push((row.run.clone(), divergence));
                }
            }
            // A broken chain was told already.
            Err(JournalError::Store(_)) => {}
            Err(error @ JournalError::Unreadable { .. }) => {
                found.broken(Area::Journals, error.to_string(), error.hint());
            }
        }
    }
    for (run, divergence) in otherwise.iter().take(MAX_TOLD) {
        let text = format!("run {run}, entry {}: {}", divergence.seq, divergence.message);
        found.look(Area::Journals, text, "nothing is lost; the protocol was changed since, or ftl was");
    }
    if otherwise.len() > MAX_TOLD {
        let text = format!("and {} more", counted(otherwise.len() - MAX_TOLD, "run"));
        found.look(Area::Journals, text, "nothing is lost");
    }
    found.otherwise_fine(Area::Journals, format!("{}, decided again: the same", counted(looked, "run")));
}

/// Whether the summary that stands beside a journal is the one that the journal makes.
fn agrees(row: &RunRow, library: &Arc<Library>, entries: &[Entry], found: &mut DoctorReport) {
    if entries.is_empty() {
        return;
    }
    let hint = "the journal counts; `ftl resume` writes the summary anew";
    let shown: Summary = match serde_json::from_str(&row.summary) {
        Ok(summary) => summary,
        Err(error) => {
            let text = format!("the summary of run {} cannot be read: {error}", row.run);
            return found.broken(Area::Journals, text, hint);
        }
    };
    let run = Run::replay(library.clone(), entries);
    let made = Summary::of(&run, &Questions::new());
    let differs: Vec<&str> = [
        ("state", made.state == shown.state),
        ("standing", made.standing == shown.standing),
        ("meters", made.meters == shown.meters),
        ("entry", made.entry == shown.entry),
        ("end", row.settled == run.end().is_some()),
    ]
    .into_iter()
    .filter(|(_, same)| !same)
    .map(|(what, _)| what)
    .collect();
    if !differs.is_empty() {
        let text = format!("run {} is not shown as its journal says: {}", row.run, differs.join(", "));
        found.broken(Area::Journals, text, hint);
    }
}
