//! The exploration that planning builds upon, and the results that explorers leave for it.
//!
//! The exploration is kept in the store with a copy in `.ftl/exploration.json`. What explorers stage in
//! `cache/` beside it are files of their own; they go when the exploration is cleared, so that the next one
//! never takes old results for new ones.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use super::projected::{NoteForm, Projected};
use super::projection::json_text;
use super::scope::{CACHE, RecordScope};
use super::{RecordError, Records};
use crate::exploration::{self, ExplorerMode};
use ftl_core::json::{Json, JsonExt as _};

fn projected(scope: RecordScope) -> Projected {
    Projected {
        kind: scope.kind("exploration"),
        scope: Some(scope),
        key: Cow::Borrowed("current"),
        file: Cow::Borrowed("exploration.json"),
        check: |text| json_text(text, check),
        form: NoteForm::Json,
    }
}

fn check(json: &Json) -> Result<(), String> {
    if json.is_object() { Ok(()) } else { Err(format!("it is {}, not an object", json.kind())) }
}

impl Records {
    /// The exploration, if there is one.
    pub fn exploration(&self) -> Result<Option<Json>, RecordError> {
        self.read(&projected(self.scope()?))
    }

    /// Keeps an exploration in the place of the one before.
    pub fn write_exploration(&self, exploration: &Json) -> Result<(), RecordError> {
        if !exploration.is_object() {
            let message = format!("an exploration is an object, not {}", exploration.kind());
            return Err(RecordError::refuse(message, "pipe in what `ftl exploration aggregate` prints"));
        }
        self.begin_plain()?;
        // What is replaced may be beyond repair: the new one stands for itself.
        let what = projected(self.scope()?);
        self.forget_broken(&what)?;
        self.change(&what, |_, _| Ok((Some(exploration.clone()), ())))
    }

    /// Removes the exploration and what explorers staged; whether there was one.
    pub fn clear_exploration(&self) -> Result<bool, RecordError> {
        self.begin_plain()?;
        let what = projected(self.scope()?);
        let there = self.file(&what).exists();
        self.forget_broken(&what)?;
        let kept = self.change(&what, |before, _| Ok((None, before.is_some())))?;
        for mode in ExplorerMode::ALL {
            remove(&self.cache_folder()?.join(mode.file_name()))?;
        }
        Ok(there || kept)
    }

    /// Where explorers stage their results, and builders what they have tried, as it stands now.
    pub fn cache_folder(&self) -> Result<PathBuf, RecordError> {
        Ok(self.scope_folder(&self.scope()?).join(CACHE))
    }

    /// Writes a file for the next agent; where it stands.
    pub fn write_staged(&self, name: &str, text: &str) -> Result<PathBuf, RecordError> {
        self.begin_plain()?;
        // No other process moves the folder to another place meanwhile.
        let state = self.place().state();
        let _held = self.hold().map_err(|error| RecordError::disk(&state, &error))?;
        let folder = self.cache_folder()?;
        let file = folder.join(name);
        ftl_folder::make(&folder)
            .and_then(|()| ftl_folder::state_folder::replace(&file, text.as_bytes()))
            .map_err(|error| RecordError::disk(&file, &error))?;
        Ok(file)
    }

    /// Where the copy of the exploration stands now.
    pub fn exploration_file(&self) -> Result<PathBuf, RecordError> {
        Ok(self.file(&projected(self.scope()?)))
    }

    /// The files that the exploration thought of.
    pub fn explored_files(&self) -> Result<Vec<String>, RecordError> {
        Ok(exploration::candidate_paths(&self.exploration()?.unwrap_or_default()))
    }
}

fn remove(path: &PathBuf) -> Result<(), RecordError> {
    match ftl_folder::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RecordError::disk(path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
