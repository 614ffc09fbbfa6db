//! The exploration that planning builds upon, and the results that explorers leave for it.
//!
//! The exploration is kept in the store with a copy in `.ftl/exploration.json`. What explorers stage in
//! `.ftl/cache/` are files of their own; they go when the exploration is cleared, so that the next one
//! never takes old results for new ones.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use super::projection::{Form, Projected, json_text};
use super::scope::Scope;
use super::{Paper, PaperError};
use crate::exploration::{self, Mode};
use ftl_core::json::Json;

fn projected(scope: Scope) -> Projected {
    Projected {
        kind: scope.kind("exploration"),
        scope: Some(scope),
        key: Cow::Borrowed("current"),
        file: Cow::Borrowed("exploration.json"),
        check: |text| json_text(text, check),
        form: Form::Json,
    }
}

fn check(json: &Json) -> Result<(), String> {
    if json.is_object() { Ok(()) } else { Err(format!("it is {}, not an object", json.kind())) }
}

impl Paper {
    /// The exploration, if there is one.
    pub fn exploration(&self) -> Result<Option<Json>, PaperError> {
        self.read(&projected(self.scope()?))
    }

    /// Keeps an exploration in the place of the one before.
    pub fn write_exploration(&self, exploration: &Json) -> Result<(), PaperError> {
        if !exploration.is_object() {
            let message = format!("an exploration is an object, not {}", exploration.kind());
            return Err(PaperError::refused(message, "pipe in what `ftl exploration aggregate` prints"));
        }
        // What is replaced may be beyond repair: the new one stands for itself.
        let what = projected(self.scope()?);
        self.forget_broken(&what)?;
        self.change(&what, |_, _| Ok((Some(exploration.clone()), ())))
    }

    /// Removes the exploration and what explorers staged; whether there was one.
    pub fn clear_exploration(&self) -> Result<bool, PaperError> {
        let what = projected(self.scope()?);
        let there = self.file(&what).exists();
        self.forget_broken(&what)?;
        let kept = self.change(&what, |before, _| Ok((None, before.is_some())))?;
        for mode in Mode::ALL {
            remove(&self.staged(mode))?;
        }
        Ok(there || kept)
    }

    /// Where an explorer stages its result.
    pub fn staged(&self, mode: Mode) -> PathBuf {
        self.place().state().join("cache").join(mode.file_name())
    }

    /// The files that the exploration thought of.
    pub fn explored_files(&self) -> Result<Vec<String>, PaperError> {
        Ok(exploration::candidate_paths(&self.exploration()?.unwrap_or_default()))
    }
}

fn remove(path: &PathBuf) -> Result<(), PaperError> {
    match crate::folder::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PaperError::disk(path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
