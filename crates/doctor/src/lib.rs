//! The doctor: looks after the state of a repository, and puts right only what is safe.
//!
//! It looks at settings, the place, the machine, the store, journals, leases, attempts, leftover
//! processes, what is named in git, and stray files. What it may do by itself: have git look away from the
//! state, make the store private, remove files that are of no use any more and locks of dead gits of ours, give
//! objects back to the repository, end processes that no driver owns. It never writes into the store, never makes
//! one, never deletes work, and never prints.

mod git;
mod journals;
mod leftovers;
pub mod loss;
mod losses;
mod names;
mod surroundings;

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ftl_language::library::Library;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use serde::Serialize;

use ftl_core::amount::Unit;
use ftl_folder::state_folder::StateFolder;
use ftl_folder::{Folder, FolderRefusal};
use ftl_process::{self as process, table};
use ftl_settings::config::Config;
use ftl_store::sqlite::SqliteStore;
use ftl_store::{FORMAT, RunRow, Store, StoreError};

/// Below this much room on the disk a person should look.
pub const MIN_FREE_BYTES: u64 = 100 * 1024 * 1024;

/// How many findings of the same kind are told one by one; the others are counted.
pub const MAX_TOLD: usize = 20;

/// How a person goes on after a loss.
const ACCEPT: &str = "look for a backup of .ftl/store first; `ftl doctor --accept-loss --reason R --by NAME` goes on without \
     what is missing, and keeps a copy";

/// What is to be looked at.
#[derive(Clone)]
pub struct Examination {
    /// The place of the repository.
    pub place: StateFolder,
    /// The files of settings, in the order in which they count.
    pub settings: Vec<PathBuf>,
    /// Today's protocols, if they can be read.
    pub library: Option<Arc<Library>>,
    /// Whether everything is read: all content, all journals, decided again.
    pub deep: bool,
}

/// The areas that the doctor looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The files of settings.
    Settings,
    /// The variables that commands see.
    Environment,
    /// Whether there is a git repository with a commit.
    Repository,
    /// Whether agents are bound and can be used.
    Agents,
    /// Whether it is known how the repository is tested, and that can be run.
    Tests,
    /// Whether the tests pass on what work begins from.
    Base,
    /// The folder `.ftl`: its owner, its modes, and what git sees of it.
    Place,
    /// What the machine must be able to do.
    Machine,
    /// The store as a whole.
    Store,
    /// Whether journals are what was written.
    Chains,
    /// Whether journals make the runs that are shown.
    Journals,
    /// The leases of runs and the files of their owners.
    Leases,
    /// Attempts that no driver waits for.
    Attempts,
    /// Processes that no driver owns.
    Processes,
    /// What journals, records and refs name in the repository.
    Git,
    /// The worktrees in which agents write.
    Worktrees,
    /// Other files beside the store.
    Files,
}

impl Area {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Area::Settings => "settings",
            Area::Environment => "variables",
            Area::Repository => "repository",
            Area::Agents => "agents",
            Area::Tests => "tests",
            Area::Base => "base",
            Area::Place => "place",
            Area::Machine => "machine",
            Area::Store => "store",
            Area::Chains => "chains",
            Area::Journals => "journals",
            Area::Leases => "leases",
            Area::Attempts => "attempts",
            Area::Processes => "processes",
            Area::Git => "git",
            Area::Worktrees => "worktrees",
            Area::Files => "files",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// There is nothing to do.
    Fine,
    /// It was not, and was put right.
    Mended,
    /// A person should look at it; nothing is lost.
    Look,
    /// Something is not what it must be.
    Broken,
}

impl Level {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Level::Fine => "fine",
            Level::Mended => "mended",
            Level::Look => "look",
            Level::Broken => "broken",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// The area that it is about.
    pub area: Area,
    /// How bad it is.
    pub level: Level,
    /// What was found, in a sentence.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What was found, in the order of the areas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoctorReport(Vec<DoctorFinding>);

impl DoctorReport {
    /// All of them; each area has at least one.
    pub fn all(&self) -> &[DoctorFinding] {
        &self.0
    }

    /// Whether nothing is broken.
    pub fn is_sound(&self) -> bool {
        self.0.iter().all(|finding| finding.level != Level::Broken)
    }

    fn put(&mut self, area: Area, level: Level, text: impl Into<String>, hint: Option<String>) {
        self.0.push(DoctorFinding { area, level, text: text.into(), hint });
    }

    fn fine(&mut self, area: Area, text: impl Into<String>) {
        self.put(area, Level::Fine, text, None);
    }

    fn mended(&mut self, area: Area, text: impl Into<String>) {
        self.put(area, Level::Mended, text, None);
    }

    fn look(&mut self, area: Area, text: impl Into<String>, hint: impl Into<String>) {
        self.put(area, Level::Look, text, Some(hint.into()));
    }

    fn broken(&mut self, area: Area, text: impl Into<String>, hint: impl Into<String>) {
        self.put(area, Level::Broken, text, Some(hint.into()));
    }

    /// Something that the machine did not let us look at or do.
    fn cannot(&mut self, area: Area, what: impl fmt::Display, error: impl fmt::Display) {
        let text = format!("{what}: {error}");
        self.look(area, text, "see what stands there, and who may read and write it");
    }

    /// Says that all is well, if nothing else was said about an area.
    fn otherwise_fine(&mut self, area: Area, text: impl Into<String>) {
        if self.0.iter().all(|finding| finding.area != area) {
            self.fine(area, text);
        }
    }
}

/// Looks at everything. It takes no lock for longer than it looks, and keeps no run from its work.
pub fn examine(asked: &Examination) -> DoctorReport {
    let mut found = DoctorReport::default();
    settings(asked, &mut found);
    machine(&mut found);
    if let Err(error) = asked.place.check() {
        report_refused(&asked.place, &error, &mut found);
        found.0.sort_by_key(|finding| finding.area);
        return found;
    }
    let opened = SqliteStore::open_existing(&asked.place.store());
    place(&asked.place, !matches!(opened, Ok(None)), &mut found);
    let store = store(asked, opened, &mut found);
    let runs = store.as_ref().and_then(|store| runs(store, &mut found));
    if let (Some(store), Some(rows)) = (&store, &runs) {
        journals::chains(store, rows, asked.deep, &mut found);
        if asked.deep {
            journals::replays(store, rows, asked.library.as_ref(), &mut found);
        }
        leftovers::leases(&asked.place, rows, &mut found);
        leftovers::attempts(&asked.place, store, &mut found);
        leftovers::processes(&asked.place, store, &mut found);
        git::examine(&asked.place, store, rows, asked.deep, &mut found);
        leftovers::worktrees(&asked.place, rows, &mut found);
        leftovers::scripts(&asked.place, rows, &mut found);
        leftovers::scratches(&mut found);
    }
    // The order of the areas is the order in which people read.
    found.0.sort_by_key(|finding| finding.area);
    found
}

fn settings(asked: &Examination, found: &mut DoctorReport) {
    match Config::load(&asked.settings) {
        Ok(config) => {
            surroundings::environment(&config, found);
            let there = asked.settings.iter().filter(|file| file.exists()).count();
            let text = match there {
                0 => String::from("no file of settings: everything has its default"),
                1 => String::from("one file of settings, and it can be read"),
                several => format!("{several} files of settings, and they can be read"),
            };
            found.fine(Area::Settings, text);
        }
        Err(error) => found.broken(Area::Settings, error.to_string(), error.hint),
    }
}

/// A state folder that may not be used: nothing below it is looked at, and nothing mended.
fn report_refused(place: &StateFolder, error: &io::Error, found: &mut DoctorReport) {
    match FolderRefusal::of(error) {
        Some(refusal) => {
            found.broken(Area::Place, format!("this is no folder that ftl uses: {refusal}"), refusal.hint());
        }
        None => {
            found.cannot(Area::Place, format!("`{}` cannot be looked at", place.state().display()), error);
        }
    }
}

/// The state folder. Where there is no store yet, there is nothing to hide and nothing to make.
fn place(place: &StateFolder, has_store: bool, found: &mut DoctorReport) {
    if has_store {
        private(&place.store(), found);
        excluded(place, found);
    }
    let state = place.state();
    let text = if has_store {
        format!("`{}` is private, and git looks away from it", state.display())
    } else {
        format!("nothing is kept in `{}` yet", state.display())
    };
    found.otherwise_fine(Area::Place, text);
}

/// Only the owner looks into the store.
fn private(path: &Path, found: &mut DoctorReport) {
    let Ok(folder) = Folder::open(path) else { return };
    let Ok(mode) = folder.own_metadata().map(|seen| seen.permissions().mode()) else { return };
    if mode & 0o077 == 0 {
        return;
    }
    match folder.set_mode(mode & 0o7700) {
        Ok(()) => found.mended(Area::Place, "others could look into the store; now only you can"),
        Err(error) => found.cannot(Area::Place, "others can look into the store", error),
    }
}

fn excluded(place: &StateFolder, found: &mut DoctorReport) {
    match place.is_excluded() {
        Ok(true) => {}
        Ok(false) => match place.exclude() {
            Ok(_) => found.mended(Area::Place, "git saw the state; now it looks away (.git/info/exclude)"),
            Err(error) => found.cannot(Area::Place, "git sees the state, and cannot be told", error),
        },
        Err(error) => found.cannot(Area::Place, "git's folder cannot be looked at", error),
    }
}

/// Looks at what every attempt needs of the machine.
fn machine(found: &mut DoctorReport) {
    let hint = "ftl needs Linux with /proc and pidfds; a sandbox or container may hide them";
    if !matches!(table::entry(getpid().as_raw_nonzero().get()), Ok(Some(_))) || table::boot_id().is_err() {
        found.broken(Area::Machine, "/proc does not show this process", hint);
    }
    if let Err(error) = pidfd_open(getpid(), PidfdFlags::empty()) {
        found.broken(Area::Machine, format!("processes cannot be opened (pidfd): {error}"), hint);
    }
    if let Err(error) = process::own_orphans() {
        let text = format!("orphans cannot be adopted (child subreaper): {error}");
        found.broken(Area::Machine, text, hint);
    }
    found.otherwise_fine(Area::Machine, "/proc, pidfds and the child subreaper work");
}

/// The store, if there is one that can be opened.
fn store(
    asked: &Examination,
    opened: Result<Option<SqliteStore>, StoreError>,
    found: &mut DoctorReport,
) -> Option<SqliteStore> {
    match opened {
        Ok(Some(store)) => {
            of_store(&store, asked, found);
            Some(store)
        }
        Ok(None) => {
            found.fine(Area::Store, "no runs yet, so there is no store");
            None
        }
        Err(error) => {
            trouble(Area::Store, &error, found);
            losses::of_nothing(&error, &asked.place, found);
            None
        }
    }
}

fn of_store(store: &SqliteStore, asked: &Examination, found: &mut DoctorReport) {
    if let Err(error) = store.writable() {
        trouble(Area::Store, &error, found);
    }
    match free_bytes(&asked.place.store()) {
        Ok(free) => room(free, found),
        Err(error) => found.cannot(Area::Store, "the room on the disk cannot be told", error),
    }
    match store.check(asked.deep) {
        Ok(damage) => {
            for line in damage.iter().take(MAX_TOLD) {
                let hint = "keep a copy of .ftl/store; `ftl audit verify` tells which journals are whole";
                found.broken(Area::Store, line, hint);
            }
        }
        Err(error) => trouble(Area::Store, &error, found),
    }
    let events = losses::of_store(store, &asked.place, found);
    let looked = if asked.deep { "every page and all content is sound" } else { "its pages are sound" };
    found.otherwise_fine(Area::Store, format!("format {} of {FORMAT}, {looked}", store.format()));
    losses::accepted(&events, found);
}

fn room(free: u64, found: &mut DoctorReport) {
    if free < MIN_FREE_BYTES {
        let text = format!("only {} are free on the disk", Unit::Bytes.show(free));
        found.look(Area::Store, text, "make room: a run on a full disk stops");
    }
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let seen = rustix::fs::statvfs(folder)?;
    Ok(seen.f_bavail.saturating_mul(seen.f_frsize))
}

/// A store that cannot be written can still be read: only damage is broken.
fn trouble(area: Area, error: &StoreError, found: &mut DoctorReport) {
    match error {
        StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::InUse(_) | StoreError::Newer { .. } => {
            found.look(area, error.to_string(), error.hint());
        }
        StoreError::Corrupt(_) | StoreError::Failed(_) | StoreError::Gap { .. } => {
            let hint = "keep a copy of .ftl/store before anything else; nothing was changed";
            found.broken(area, error.to_string(), hint);
        }
        StoreError::Lost(_) => found.broken(area, error.to_string(), ACCEPT),
        StoreError::Fenced { .. } | StoreError::NoRun(_) | StoreError::Exists(_) => {
            found.broken(area, error.to_string(), error.hint());
        }
        StoreError::Answered(_) | StoreError::NoCommand(_) | StoreError::TooLarge { .. } => {
            found.broken(area, error.to_string(), error.hint());
        }
    }
}

fn runs(store: &SqliteStore, found: &mut DoctorReport) -> Option<Vec<RunRow>> {
    match store.runs("") {
        Ok(rows) => Some(rows),
        Err(error) => {
            trouble(Area::Store, &error, found);
            None
        }
    }
}

/// `1 run`, `2 runs`.
fn counted(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into() {
        Ok(1) => format!("1 {one}"),
        Ok(number) => format!("{number} {one}s"),
        Err(_) => format!("many {one}s"),
    }
}

#[cfg(test)]
mod tests;
