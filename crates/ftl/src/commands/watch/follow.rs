//! Every entry of every run as it comes, one a line: for pipes, files and programs.

use std::collections::BTreeMap;

use ftl_command::{CommandError, ExitStatus, Out};
use ftl_engine::drive::StopSignal;
use ftl_folder::id::RunId;
use ftl_store::RunRow;
use ftl_view::paint::{self, paint};

use super::{LOOK, Watched};
use crate::commands::log::LogLines;

/// Prints entries until the one run that is watched has ended, or the person interrupts.
pub(super) fn run(watched: &Watched, stop: &StopSignal, out: &Out) -> Result<ExitStatus, CommandError> {
    let mut shown: BTreeMap<RunId, u64> = BTreeMap::new();
    if watched.only.is_none() {
        // What has ended before is history: `ftl log` tells it.
        let ended = watched.rows()?.into_iter().filter(|row| row.settled);
        shown.extend(ended.map(|row| (row.run, row.head)));
    }
    let mut seen = None;
    loop {
        if stop.times_said() > 0 {
            return Ok(ExitStatus::Interrupted);
        }
        let version = watched.version()?;
        if seen != Some(version) {
            seen = Some(version);
            let rows = watched.rows()?;
            for row in &rows {
                show(watched, row, &mut shown, out)?;
            }
            if watched.only.is_some() && rows.iter().all(|row| row.settled) {
                return Ok(ExitStatus::Done);
            }
        }
        if out.is_unread() {
            return Ok(ExitStatus::Done);
        }
        std::thread::sleep(LOOK);
    }
}

fn show(
    watched: &Watched,
    row: &RunRow,
    shown: &mut BTreeMap<RunId, u64>,
    out: &Out,
) -> Result<(), CommandError> {
    let after = shown.entry(row.run.clone()).or_default();
    if row.head <= *after {
        return Ok(());
    }
    let before = if out.is_json() { String::new() } else { format!("{} ", paint(paint::QUIET, &row.run)) };
    let mut lines =
        LogLines { store: &*watched.store, run: &row.run, only: None, before: &before, fold: None, from: 0 };
    *after = lines.show(*after, out)?;
    Ok(())
}
