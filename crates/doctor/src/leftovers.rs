//! Leftovers: runs without an owner, attempts and processes without a run, files without either.
//!
//! What a living owner may still need is never touched: a list of attempts or processes is always made
//! before it is looked who owns their run, because an owner begins attempts only after it owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::names::{AttemptKey, is_spool, is_unfinished, run_of_script};
use super::{Area, DoctorReport, MAX_TOLD, counted};
use ftl_engine::session::{Driven, SessionError, driven};
use ftl_folder::id::{RUN_ID_LETTERS, RunId};
use ftl_folder::state_folder::StateFolder;
use ftl_folder::{self as folder, Folder};
use ftl_process::lock::GuardRecord;
use ftl_process::table::{self, Identity, Table};
use ftl_process::{self as process, AttemptFile, MARK, Mark};
use ftl_store::owner;
use ftl_store::summary::Summary;
use ftl_store::{RunRow, Store};

/// A file that belongs to no run is removed when it is this old: a run that is being opened has its
/// files before it stands in the store.
const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs that should move and have no driver; and the files of owners that are dead.
pub(super) fn leases(place: &StateFolder, rows: &[RunRow], found: &mut DoctorReport) {
    let (mut ours, mut left) = (0_usize, 0_usize);
    for row in rows.iter().filter(|row| !row.settled && row.head > 0) {
        match driven(place, row) {
            Ok(Driven::By(_)) => ours += 1,
            Ok(Driven::ByNobody) => {
                let summary: Summary = serde_json::from_str(&row.summary).unwrap_or_default();
                if !summary.rests() {
                    left += 1;
                    if left <= MAX_TOLD {
                        let text = format!("run {} was interrupted in {}", row.run, summary.state);
                        found.look(Area::Leases, text, format!("`ftl resume {}` goes on", row.run));
                    }
                }
            }
            Err(error) => found.cannot(Area::Leases, format!("the owner of run {}", row.run), error),
        }
    }
    if left > MAX_TOLD {
        let text = format!("and {} more runs were interrupted", left - MAX_TOLD);
        found.look(Area::Leases, text, "`ftl resume` goes on with all of them");
    }
    match remove_dead_owners(&place.owners()) {
        Ok(0) => {}
        Ok(files) => found.mended(Area::Leases, format!("{} of dead owners removed", counted(files, "lock"))),
        Err(error) => found.cannot(Area::Leases, "locks of dead owners cannot be removed", error),
    }
    found.otherwise_fine(Area::Leases, format!("{} at work, none interrupted", counted(ours, "run")));
}

fn remove_dead_owners(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for file in owner::dead_files(folder)? {
        removed += usize::from(owner::remove_dead(&file)?);
    }
    Ok(removed)
}

/// Whether a live process drives the run of a mark; `None` if it names no run of this store.
fn is_driven(place: &StateFolder, store: &dyn Store, run: &RunId) -> Result<Option<bool>, SessionError> {
    let Some(row) = store.run(run)? else { return Ok(None) };
    Ok(Some(driven(place, &row)? != Driven::ByNobody))
}

/// The run in the key of an attempt.
fn run_of(key: &str) -> Option<RunId> {
    match AttemptKey::of(OsStr::new(key))? {
        AttemptKey::OfRun(run) => Some(run),
        AttemptKey::Once => None,
    }
}

/// Attempts that no driver waits for are ended, and their files removed.
pub(super) fn attempts(place: &StateFolder, store: &dyn Store, found: &mut DoctorReport) {
    let all = match process::attempts(&place.attempts()) {
        Ok(all) => all,
        Err(error) => return found.cannot(Area::Attempts, "the attempts cannot be listed", error),
    };
    let (mut working, mut removed, mut strange) = (0_usize, 0_usize, 0_usize);
    for attempt in all {
        let name = attempt.path.file_name().unwrap_or_default();
        let key = name.to_string_lossy().into_owned();
        let owned = match AttemptKey::of(name) {
            Some(AttemptKey::OfRun(run)) => is_driven(place, store, &run).map(|owned| owned.unwrap_or(false)),
            // It asks a service whether it answers, for a run that its file does not name.
            Some(AttemptKey::Once) => Ok(attempt.alive),
            None => {
                strange += 1;
                continue;
            }
        };
        let owned = match owned {
            Ok(owned) => owned,
            Err(error) => {
                found.cannot(Area::Attempts, format!("who drives attempt {key}"), error);
                continue;
            }
        };
        if owned {
            working += 1;
        } else {
            removed += usize::from(end(&key, &attempt, found));
        }
    }
    if removed > 0 {
        found.mended(Area::Attempts, format!("{} of dead attempts removed", counted(removed, "file")));
    }
    left_alone(Area::Attempts, &place.attempts(), strange, found);
    found.otherwise_fine(Area::Attempts, format!("{working} at work, none without an owner"));
}

/// Says that files lie where only ours belong. They may be a person's, and are left alone.
fn left_alone(area: Area, folder: &Path, strange: usize, found: &mut DoctorReport) {
    if strange > 0 {
        let text = format!("{} in `{}` not made by ftl", counted(strange, "file"), folder.display());
        found.look(area, text, "move them to where they belong; ftl removes only what it made itself");
    }
}

/// Ends an attempt; whether nothing but its file was left of it.
fn end(key: &str, attempt: &AttemptFile, found: &mut DoctorReport) -> bool {
    match process::end_leftover(attempt) {
        Ok(ended) if ended.left > 0 => {
            let text = format!("attempt {key} cannot be ended: number of processes left {}", ended.left);
            found.broken(Area::Attempts, text, "they belong to another user, or the kernel holds them");
        }
        Ok(ended) if attempt.alive || ended.ended > 0 => {
            let text = format!("attempt {key} was alive and nobody drove its run: ended");
            found.mended(Area::Attempts, text);
        }
        Ok(_) => return true,
        Err(error) => found.cannot(Area::Attempts, format!("attempt {key} cannot be ended"), error),
    }
    false
}

/// Processes that carry the mark of a run without a driver, and that no attempt holds.
pub(super) fn processes(place: &StateFolder, store: &dyn Store, found: &mut DoctorReport) {
    let marked = match marked() {
        Ok(marked) => marked,
        Err(error) => return found.cannot(Area::Processes, "the process table cannot be read", error),
    };
    let held: BTreeSet<String> = process::attempts(&place.attempts())
        .unwrap_or_default()
        .into_iter()
        .filter(|attempt| attempt.alive)
        .filter_map(|attempt| Some(attempt.path.file_name()?.to_str()?.to_owned()))
        .collect();
    for (key, left) in marked.into_iter().filter(|(key, _)| !held.contains(key)) {
        let Some(run) = run_of(&key) else { continue };
        match is_driven(place, store, &run) {
            Ok(Some(false)) => sweep(place, &key, &left, found),
            // Another repository's, or at work.
            Ok(None | Some(true)) => {}
            Err(SessionError::Drive(error)) => {
                found.cannot(Area::Processes, format!("who drives run {run}"), error);
            }
            Err(error) => found.cannot(Area::Processes, format!("who drives run {run}"), error),
        }
    }
    found.otherwise_fine(Area::Processes, "nothing is left of runs that nobody drives");
}

/// Every process that carries a mark of ours, by its value. We and those above us are not meant.
fn marked() -> io::Result<BTreeMap<String, Vec<Identity>>> {
    let table = Table::read()?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let above: BTreeSet<i32> = table.above(own).iter().map(|entry| entry.pid).collect();
    let mut marked: BTreeMap<String, Vec<Identity>> = BTreeMap::new();
    for entry in table.entries().filter(|entry| entry.is_alive() && !above.contains(&entry.pid)) {
        let Some(environment) = table::environment(entry.pid) else { continue };
        let value = table::variable(&environment, MARK).and_then(|value| std::str::from_utf8(value).ok());
        if let Some(value) = value {
            marked.entry(value.to_owned()).or_default().push(entry.identity());
        }
    }
    Ok(marked)
}

/// Ends what carries a mark. The attempt's own lock is taken meanwhile, so that no new attempt of the
/// same action begins and is met.
fn sweep(place: &StateFolder, key: &str, left: &[Identity], found: &mut DoctorReport) {
    let pids: Vec<String> = left.iter().map(|one| one.pid.to_string()).collect();
    let pids = pids.join(", ");
    let leftover = as_attempt(place, key, left);
    let ended = leftover
        .ok_or_else(|| String::from("its mark is none of ours"))
        .and_then(|leftover| process::end_leftover(&leftover).map_err(|error| error.to_string()));
    match ended {
        Ok(ended) if ended.left == 0 => {
            let text = format!("processes {pids} of attempt {key} were left over: ended");
            found.mended(Area::Processes, text);
        }
        Ok(ended) => {
            let text = format!("{} of the processes {pids} of attempt {key} cannot be ended", ended.left);
            found.broken(Area::Processes, text, "they belong to another user, or the kernel holds them");
        }
        Err(error) => {
            let text = format!("processes {pids} are left of attempt {key}: {error}");
            found.look(Area::Processes, text, "end them by hand");
        }
    }
}

/// The attempt whose guard was killed, as its file would have told of it.
fn as_attempt(place: &StateFolder, key: &str, left: &[Identity]) -> Option<AttemptFile> {
    let first = left.iter().min_by_key(|one| one.start)?;
    let record = GuardRecord {
        guard: *first,
        boot: table::boot_id().ok()?,
        mark: Mark::new(MARK, key).ok()?,
        namespaces: None,
    };
    // A key comes from an environment: it must not lead out of the folder.
    let letters = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    letters.then(|| AttemptFile { path: place.attempts().join(key), record: Some(record), alive: false })
}

/// Folders of agents that belong to no run, or to one that has ended. Work is never deleted.
pub(super) fn worktrees(place: &StateFolder, rows: &[RunRow], found: &mut DoctorReport) {
    let mut strays = Vec::new();
    let live: Vec<RunRow> = rows.iter().filter(|row| !row.settled).cloned().collect();
    let names = folder::names(&place.worktrees()).unwrap_or_else(|error| {
        found.cannot(Area::Worktrees, format!("`{}`", place.worktrees().display()), error);
        Vec::new()
    });
    for name in names {
        let name = name.to_string_lossy().into_owned();
        if !belongs(&name, &live) {
            strays.push(name);
        }
    }
    for name in strays.iter().take(MAX_TOLD) {
        let whose = if belongs(name, rows) { "is left of a run that has ended" } else { "belongs to no run" };
        let text = format!("`.ftl/worktrees/{name}` {whose}");
        found.look(Area::Worktrees, text, "see whether its work is wanted; ftl never deletes it");
    }
    if strays.len() > MAX_TOLD {
        let text = format!("and {} more folders are of no run that goes on", strays.len() - MAX_TOLD);
        found.look(Area::Worktrees, text, "ftl never deletes them");
    }
    found.otherwise_fine(Area::Worktrees, "every folder belongs to a run that goes on");
}

/// Scripts of runs that are not in the store, and output that a killed process has left.
pub(super) fn scripts(place: &StateFolder, rows: &[RunRow], found: &mut DoctorReport) {
    let is_known = |run: &RunId| rows.iter().any(|row| row.run == *run);
    let of_script = |name: &OsStr| run_of_script(name).map(|run| is_known(&run));
    let of_spool = |name: &OsStr| is_spool(name).then_some(false);
    let (scripts, spool) = (place.store().join("scripts"), place.spool());
    let removed = [(&scripts, tidy(&scripts, &of_script, found)), (&spool, tidy(&spool, &of_spool, found))];
    let removed: usize = removed
        .map(|(path, (removed, strange))| {
            left_alone(Area::Files, path, strange, found);
            removed
        })
        .iter()
        .sum();
    if removed > 0 {
        found.mended(Area::Files, format!("{} of unknown runs removed", counted(removed, "file")));
    }
    let half = |name: &OsStr| is_unfinished(name).then_some(false);
    let halves: usize = place.folders().map(|path| tidy(&path, &half, found).0).sum();
    if halves > 0 {
        found.mended(
            Area::Files,
            format!("{} that killed processes left removed", counted(halves, "unfinished file")),
        );
    }
    found.otherwise_fine(Area::Files, "every script belongs to a run");
}

/// Removes the files of a folder that are ours, old, and of no run; how many, and how many are none of ours.
/// `is_needed` tells of a name whether a run needs it, and nothing of one that is none of ours.
fn tidy(path: &Path, is_needed: &dyn Fn(&OsStr) -> Option<bool>, found: &mut DoctorReport) -> (usize, usize) {
    let opened = Folder::open(path).and_then(|folder| Ok((folder.names()?, folder)));
    let (names, folder) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (0, 0),
        Err(error) => {
            found.cannot(Area::Files, format!("`{}`", path.display()), error);
            return (0, 0);
        }
    };
    let (mut removed, mut strange) = (0, 0);
    for name in names {
        match is_needed(&name) {
            None => strange += 1,
            Some(false) if is_old(&folder, &name) => match folder.remove(&name) {
                Ok(()) => removed += 1,
                Err(error) => found.cannot(Area::Files, format!("`{}`", path.join(&name).display()), error),
            },
            Some(_) => {}
        }
    }
    (removed, strange)
}

/// Temporary folders of processes that were killed.
pub(super) fn scratches(found: &mut DoctorReport) {
    match folder::scratch::sweep_all() {
        0 => {}
        removed => {
            found
                .mended(Area::Files, format!("{} of the dead removed", counted(removed, "temporary folder")));
        }
    }
}

/// Whether a file is called after a run: its name, and then nothing or something that is no letter.
fn belongs(name: &str, rows: &[RunRow]) -> bool {
    let (Some(run), rest) = (name.get(..RUN_ID_LETTERS), name.get(RUN_ID_LETTERS..)) else { return false };
    let ends = rest.is_none_or(|rest| !rest.starts_with(|one: char| one.is_alphanumeric()));
    ends && rows.iter().any(|row| row.run.as_str() == run)
}

fn is_old(folder: &Folder, name: &OsStr) -> bool {
    let found = folder.metadata(name).ok().filter(fs::Metadata::is_file);
    let changed = found.and_then(|found| found.modified().ok());
    let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
    age.is_some_and(|age| age >= MIN_AGE)
}
