//! The campaign in front: which records a command or a run works with, and the move of files when another one comes to
//! the front.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::projected::Projected;
use super::scope::{CACHE, CAMPAIGNS, RecordScope, View, WORKSPACES};
use super::{RecordError, Records, campaign, deferred_copy};
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_store::{Notebook as _, Store as _, StoreError};

/// The kind of the notes that say which campaigns there are, by run: the number with which each was opened.
const OPENED: &str = "campaigns";

/// The kind of the note that says which one stands in front, and of what is being moved.
const FRONT: &str = "campaign_front";

const CURRENT: &str = "current";

const MOVING: &str = "moving";

/// What moves when another campaign comes to the front.
const FILES: [&str; 5] = ["campaign.json", "exploration.json", "phase_state.json", CACHE, WORKSPACES];

impl Records {
    /// The same for a run: what it opens is its own.
    pub fn for_run(&self, run: &RunId) -> Arc<Records> {
        Arc::new(self.viewed(View::Run(run.clone())))
    }

    /// The same for the actions of a run that is driven: what they note is on the disk with the entry that says what came of
    /// them, and not before.
    pub fn for_actions_of(&self, run: &RunId) -> Arc<Records> {
        let mut records = self.viewed(View::Run(run.clone()));
        records.store = Arc::new(self.store.for_actions());
        Arc::new(records)
    }

    /// The same for a campaign that a person named: by its run, the beginning of that, or `commands`.
    pub fn for_campaign(&self, named: &str) -> Result<Records, RecordError> {
        let known = self.list_opened()?;
        let mut fits: Vec<&RecordScope> =
            known.keys().filter(|scope| scope.name().starts_with(named)).collect();
        fits.retain(|scope| scope.name() == named || !known.keys().any(|other| other.name() == named));
        match fits.as_slice() {
            [one] => Ok(self.viewed(View::Named((*one).clone()))),
            _ => {
                let names: Vec<&str> = known.keys().rev().take(5).map(RecordScope::name).collect();
                let message = format!("`{named}` names {} campaigns", fits.len());
                Err(RecordError::refuse(message, format!("name one by its run: {}", names.join(", "))))
            }
        }
    }

    fn viewed(&self, view: View) -> Records {
        Records {
            place: self.place.clone(),
            store: self.store.clone(),
            options: self.options.clone(),
            embedder: self.embedder.clone(),
            notices: self.notices.clone(),
            lag: deferred_copy::Lag::default(),
            view,
            blocked: Mutex::default(),
        }
    }

    /// The run whose records are looked at now, or that of commands.
    pub(super) fn scope(&self) -> Result<RecordScope, StoreError> {
        match &self.view {
            View::Front => self.front(),
            View::Named(scope) => Ok(scope.clone()),
            View::Run(run) if self.store.note(OPENED, run.as_str())?.is_some() => {
                Ok(RecordScope(Some(run.as_str().to_owned())))
            }
            // What a run of an earlier version opened stands among those of commands.
            View::Run(run) if self.is_plain_of(run)? => Ok(RecordScope::default()),
            View::Run(_) => self.front(),
        }
    }

    /// Whether a run of an earlier version has opened what is among the records of commands.
    fn is_plain_of(&self, run: &RunId) -> Result<bool, StoreError> {
        let id =
            campaign::head_at(self, &RecordScope::default())?.and_then(|head| head.id().map(str::to_owned));
        Ok(id.is_some_and(|id| id.split_once('.').is_some_and(|(opened_by, _)| opened_by == run.as_str())))
    }

    /// The run whose records stand in front, or that of commands.
    fn front(&self) -> Result<RecordScope, StoreError> {
        Ok(RecordScope::read(self.store.note(FRONT, CURRENT)?.as_deref().unwrap_or_default()))
    }

    /// All that were opened, with the number of each; those that only explore have none.
    fn list_opened(&self) -> Result<BTreeMap<RecordScope, u64>, StoreError> {
        let all = self.store.notes(OPENED)?;
        Ok(all
            .into_iter()
            .map(|(name, body)| (RecordScope::read(&name), body.parse().unwrap_or(0)))
            .collect())
    }

    /// The folder of a scope's files, as it stands now.
    pub(super) fn scope_folder(&self, scope: &RecordScope) -> PathBuf {
        match self.front() {
            Ok(front) if front != *scope => self.own_folder(scope),
            Ok(_) | Err(_) => self.place.state(),
        }
    }

    /// The run that a scope belongs to; nothing where it is that of commands.
    pub(super) fn run_of(scope: &RecordScope) -> Option<RunId> {
        scope.0.clone().and_then(|run| RunId::try_from(run).ok())
    }

    fn own_folder(&self, scope: &RecordScope) -> PathBuf {
        self.place.state().join(CAMPAIGNS).join(scope.name())
    }

    /// Where the copy of a note stands now.
    pub(super) fn file(&self, what: &Projected) -> PathBuf {
        match &what.scope {
            None => self.place.state().join(&*what.file),
            Some(scope) => self.scope_folder(scope).join(&*what.file),
        }
    }

    /// Whose workspaces lie in a folder, if any do.
    pub(super) fn scope_of_folder(&self, above: &Path) -> Option<RecordScope> {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let below = real(above).strip_prefix(real(&self.place.state())).ok()?.to_owned();
        let parts: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
        match parts.as_slice() {
            [WORKSPACES] => self.scope().ok(),
            [CAMPAIGNS, name, WORKSPACES] => {
                let scope = RecordScope::read(name);
                self.list_opened().ok()?.contains_key(&scope).then_some(scope)
            }
            _ => None,
        }
    }

    /// Makes records of its own for the run that this is for. While no other run is at work they stand in front.
    pub fn explore_apart(&self) -> Result<(), RecordError> {
        let View::Run(run) = &self.view else { return Ok(()) };
        if self.store.note(OPENED, run.as_str())?.is_some() || self.is_plain_of(run)? {
            return Ok(());
        }
        let scope = RecordScope(Some(run.as_str().to_owned()));
        let front = self.front()?;
        let is_free = !self.is_live(&front)?;
        self.enter(&scope, Some(0), is_free.then_some(&scope))
    }

    /// The campaign or task of the run that this is for is open now: its records stand in front.
    pub fn open_apart(&self) -> Result<(), RecordError> {
        let View::Run(run) = &self.view else { return Ok(()) };
        let known = self.store.note(OPENED, run.as_str())?;
        if known.as_deref().is_some_and(|number| number != "0") || self.is_plain_of(run)? {
            return Ok(());
        }
        let scope = RecordScope(Some(run.as_str().to_owned()));
        self.enter(&scope, None, Some(&scope))
    }

    /// Commands begin to explore, or to move the phase, where no campaign and no task is at work: what they leave is
    /// the start of a campaign of their own, not a part of the run that has ended.
    pub(super) fn begin_plain(&self) -> Result<(), RecordError> {
        match &self.view {
            View::Run(_) | View::Named(_) => return Ok(()),
            View::Front => {}
        }
        let (plain, front) = (RecordScope::default(), self.front()?);
        if front == plain || self.is_live(&front)? {
            return Ok(());
        }
        let number = self.list_opened()?.get(&plain).copied().unwrap_or(0);
        self.enter(&plain, Some(number), Some(&plain))
    }

    /// Commands open a campaign: it stands in front.
    pub(super) fn open_plain(&self) -> Result<Records, RecordError> {
        let scope = RecordScope::default();
        self.enter(&scope, None, Some(&scope))?;
        Ok(self.viewed(View::Named(scope)))
    }

    /// What is in front has come to its end: the one opened last that has not comes there.
    pub fn leave_front(&self) -> Result<(), RecordError> {
        let front = self.front()?;
        if self.is_live(&front)? {
            return Ok(());
        }
        let mut live = None;
        for (scope, number) in self.list_opened()? {
            if number > 0 && live.as_ref().is_none_or(|(most, _)| *most < number) && self.is_live(&scope)? {
                live = Some((number, scope));
            }
        }
        match live {
            Some((number, scope)) => self.enter(&scope, Some(number), Some(&scope)),
            None => Ok(()),
        }
    }

    /// Whether a campaign or a task is not complete.
    fn is_live(&self, scope: &RecordScope) -> Result<bool, RecordError> {
        let head = campaign::head_at(self, scope)?;
        let Some(run) = &scope.0 else { return Ok(head.is_some_and(|head| head.is_active())) };
        let Ok(run) = RunId::try_from(run.clone()) else { return Ok(false) };
        let goes_on = self.store.run(&run)?.is_some_and(|row| !row.settled);
        Ok(goes_on && head.is_none_or(|head| head.is_active()))
    }

    /// Writes down that there is a scope, with its number or the next one, and brings one to the front.
    fn enter(
        &self,
        scope: &RecordScope,
        number: Option<u64>,
        front: Option<&RecordScope>,
    ) -> Result<(), RecordError> {
        let on_disk = |error: io::Error| RecordError::disk(self.own_folder(scope), &error);
        let _held = self.hold().map_err(on_disk)?;
        let next = self.list_opened()?.values().max().copied().unwrap_or(0) + 1;
        let number = number.unwrap_or(next).to_string();
        self.store.amend(&mut |notes| {
            notes.put(OPENED, scope.name(), &number)?;
            let before = notes.get(FRONT, CURRENT)?;
            let before = RecordScope::read(before.as_deref().unwrap_or_default());
            if let Some(front) = front.filter(|front| **front != before) {
                notes.put(FRONT, CURRENT, front.name())?;
                notes.put(FRONT, MOVING, &format!("out {}", before.name()))?;
            }
            Ok(true)
        })?;
        self.finish_move().map_err(on_disk)
    }

    /// Finishes a move that a killed process left half done: a reader of a folder finds all that belongs there.
    pub fn finish_interrupted_move(&self) -> Result<(), RecordError> {
        if self.store.note(FRONT, MOVING)?.is_none() || self.store.writable().is_err() {
            return Ok(());
        }
        // A process that holds the lock finishes what was begun.
        let held = self.hold().map_err(|error| RecordError::disk(self.place.state(), &error))?;
        drop(held);
        Ok(())
    }

    /// Moves the files of the records that were in front away, and those of the records that are now directly into
    /// `.ftl/`, where that was begun and is not done. The caller keeps other processes from reading or writing
    /// copies.
    pub(super) fn finish_move(&self) -> io::Result<()> {
        let failed = |error: StoreError| io::Error::other(error.to_string());
        let Some(moving) = self.store.note(FRONT, MOVING).map_err(failed)? else { return Ok(()) };
        if self.store.writable().is_err() {
            return Ok(());
        }
        let (stage, old) = moving.split_once(' ').unwrap_or(("in", ""));
        let state = self.place.state();
        if stage == "out" {
            let had_workspaces = folder::is_folder(&state.join(WORKSPACES));
            move_files(&state, &self.own_folder(&RecordScope::read(old)))?;
            // Scripts list the folder, whichever run stands in front.
            if had_workspaces {
                folder::make(&state.join(WORKSPACES))?;
            }
            let note = format!("in {old}");
            let done = self.store.amend(&mut |notes| notes.put(FRONT, MOVING, &note).map(|()| true));
            done.map_err(failed)?;
        }
        let own = self.own_folder(&self.front().map_err(failed)?);
        if folder::is_folder(&own) {
            move_files(&own, &state)?;
            let _ = folder::NameIn::at(&own).and_then(|spot| spot.remove_folder());
        }
        self.store.amend(&mut |notes| notes.remove(FRONT, MOVING).map(|()| true)).map_err(failed)
    }

    /// The scopes at work beside this one.
    pub(super) fn live_others(&self) -> Result<Vec<RecordScope>, RecordError> {
        let own = self.scope()?;
        let mut others = Vec::new();
        for (scope, _) in self.list_opened()? {
            if scope != own && self.is_live(&scope)? {
                others.push(scope);
            }
        }
        Ok(others)
    }
}

/// A path without links, also where its last parts are not there.
fn real(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), _, _) => real,
        (Err(_), Some(above), Some(name)) if above.as_os_str().is_empty() => real(Path::new(".")).join(name),
        (Err(_), Some(above), Some(name)) => real(above).join(name),
        (Err(_), _, _) => path.to_owned(),
    }
}

/// Moves what a campaign has in a folder to another one; what is not there is not moved.
fn move_files(from: &Path, to: &Path) -> io::Result<()> {
    for name in FILES {
        let (from, to) = (from.join(name), to.join(name));
        let is_empty =
            [CACHE, WORKSPACES].contains(&name) && folder::names(&from).is_ok_and(|names| names.is_empty());
        match folder::metadata(&from) {
            Ok(found) if found.is_symlink() => {
                return Err(io::Error::other(format!("`{}` is a link, and is not moved", from.display())));
            }
            Ok(_) if !is_empty => {}
            Ok(_) | Err(_) => continue,
        }
        to.parent().map_or(Ok(()), folder::make)?;
        folder::rename(&from, &to)?;
    }
    Ok(())
}
