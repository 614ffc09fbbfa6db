//! Projections: copies of notes in `.ftl/` that people and scripts read.
//!
//! A copy is written after the store has its note, under a lock of its own and always from the newest
//! note, so that it never goes back. The store remembers the digests of the last copies. A file with
//! another one was changed by hand, or is the original's: it is taken over if it makes sense, and
//! refused otherwise. A file that is gone is written again with the next change.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use super::{Paper, PaperError};
use crate::json_out::Json;
use crate::place::replace;
use crate::store::{Digest, MAX_NOTE_BYTES, Notebook as _, Notes, StoreError};

/// The kind of the notes that remember digests.
const STAMPS: &str = "projected";

/// How many digests are remembered: a process may be killed between its note and its copy, and each
/// time the copy falls one further behind.
const MAX_STAMPS: usize = 16;

/// A note that has a copy.
#[derive(Clone, Debug)]
pub struct Projected {
    /// The kind of the note.
    pub kind: &'static str,
    /// Its key.
    pub key: Cow<'static, str>,
    /// The file, from `.ftl/`.
    pub file: Cow<'static, str>,
    /// Whether a text can be taken over, and as which; what is wrong with it if not.
    pub check: fn(&str) -> Result<String, String>,
}

/// A check of a text that must be JSON and pass a check of its own.
pub(super) fn json_text(text: &str, check: fn(&Json) -> Result<(), String>) -> Result<String, String> {
    let value = Json::parse(text).map_err(|error| error.to_string())?;
    check(&value)?;
    Ok(written(&value))
}

fn written(value: &Json) -> String {
    let mut text = value.pretty();
    text.push('\n');
    text
}

impl Paper {
    /// Where a copy stands.
    pub(super) fn file(&self, what: &Projected) -> PathBuf {
        self.place.state().join(&*what.file)
    }

    /// The text of a note, after a change by hand was taken over.
    pub(super) fn read_text(&self, what: &Projected) -> Result<Option<String>, PaperError> {
        self.take_over(what)?;
        Ok(self.store.note(what.kind, &what.key)?)
    }

    /// The value of a note, after a change by hand was taken over.
    pub(super) fn read(&self, what: &Projected) -> Result<Option<Json>, PaperError> {
        self.read_text(what)?.map(|body| parsed(&body)).transpose().map_err(PaperError::from)
    }

    /// Changes the value of a note while nobody else does, and its copy after it. `None` removes both.
    /// Other notes can be changed along with it.
    pub(super) fn change<T>(
        &self,
        what: &Projected,
        mut edit: impl FnMut(Option<Json>, &mut dyn Notes) -> Result<(Option<Json>, T), PaperError>,
    ) -> Result<T, PaperError> {
        self.take_over(what)?;
        let mut told: Option<Result<T, PaperError>> = None;
        self.store.amend(&mut |notes| {
            let before = notes.get(what.kind, &what.key)?.map(|body| parsed(&body)).transpose()?;
            match edit(before, notes) {
                Ok((after, done)) => {
                    keep(notes, what, after.as_ref())?;
                    told = Some(Ok(done));
                    Ok(true)
                }
                Err(error) => {
                    told = Some(Err(error));
                    Ok(false)
                }
            }
        })?;
        let done = told.unwrap_or_else(|| Err(PaperError::refused("nothing was done", "try again")))?;
        self.project(what)?;
        Ok(done)
    }

    /// Writes the copy of a note as it is now.
    pub(super) fn project(&self, what: &Projected) -> Result<(), PaperError> {
        let path = self.file(what);
        let on_disk = |error: io::Error| PaperError::disk(&path, &error);
        let _held = self.hold().map_err(on_disk)?;
        match self.store.note(what.kind, &what.key)? {
            Some(body) => write(&path, &body).map_err(on_disk),
            None => remove(&path).map_err(on_disk),
        }
    }

    /// Takes over a copy that was changed by hand.
    pub(super) fn take_over(&self, what: &Projected) -> Result<(), PaperError> {
        let path = self.file(what);
        let Some(bytes) = read(&path)? else { return Ok(()) };
        let digest = Digest::of(&bytes).to_string();
        let stamps = stamps(self.store.note(STAMPS, &what.file)?);
        if stamps.contains(&digest) {
            return Ok(());
        }
        let text = self.checked(what, &path, &bytes);
        let mut taken = false;
        let mut wrong = None;
        self.store.amend(&mut |notes| {
            // Somebody may have written the very copy since it was looked at.
            taken = false;
            wrong = None;
            if self::stamps(notes.get(STAMPS, &what.file)?).contains(&digest) {
                return Ok(false);
            }
            match &text {
                Ok(text) => {
                    keep_text(notes, what, text)?;
                    stamp(notes, what, &digest)?;
                    taken = true;
                }
                Err(error) => wrong = Some(error.clone()),
            }
            Ok(taken)
        })?;
        if let Some(error) = wrong {
            return Err(error);
        }
        if taken {
            let how = if stamps.is_empty() { "found" } else { "changed by hand" };
            self.notice(format!("{} was {how} and is taken over", path.display()));
        }
        Ok(())
    }

    fn checked(&self, what: &Projected, path: &Path, bytes: &[u8]) -> Result<String, PaperError> {
        let wrong = |message: String| PaperError::Malformed {
            path: path.to_owned(),
            message,
            hint: format!("mend it, or remove it: `ftl` writes {} again from its store", &what.file),
        };
        let text = std::str::from_utf8(bytes).map_err(|error| wrong(format!("not UTF-8: {error}")))?;
        (what.check)(text).map_err(wrong)
    }

    /// Only one process writes copies at a time.
    pub(super) fn hold(&self) -> io::Result<File> {
        let file = self.place.store().join("paper.lock");
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file)?;
        retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))?;
        Ok(lock)
    }
}

/// Keeps a value as a note, and the digest that its copy will have.
pub(super) fn keep(notes: &mut dyn Notes, what: &Projected, value: Option<&Json>) -> Result<(), StoreError> {
    match value {
        Some(value) => keep_text(notes, what, &written(value)),
        None => notes.remove(what.kind, &what.key),
    }
}

/// Keeps a text as a note, and the digest that its copy will have.
pub(super) fn keep_text(notes: &mut dyn Notes, what: &Projected, body: &str) -> Result<(), StoreError> {
    notes.put(what.kind, &what.key, body)?;
    stamp(notes, what, &Digest::of(body.as_bytes()).to_string())
}

fn stamp(notes: &mut dyn Notes, what: &Projected, digest: &str) -> Result<(), StoreError> {
    let mut known = stamps(notes.get(STAMPS, &what.file)?);
    known.retain(|one| one != digest);
    known.push(digest.to_owned());
    let from = known.len().saturating_sub(MAX_STAMPS);
    notes.put(STAMPS, &what.file, &known[from..].join("\n"))
}

fn stamps(note: Option<String>) -> Vec<String> {
    note.into_iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn parsed(body: &str) -> Result<Json, StoreError> {
    Json::parse(body).map_err(|error| StoreError::Corrupt(format!("a note is {error}")))
}

/// The bytes of a copy. What is no file, or is too large to be a note, is refused.
fn read(path: &Path) -> Result<Option<Vec<u8>>, PaperError> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PaperError::disk(path, &error)),
    };
    let wrong = |message: String| PaperError::Malformed {
        path: path.to_owned(),
        message,
        hint: String::from("move it away"),
    };
    if !found.is_file() {
        return Err(wrong(String::from("it is no file")));
    }
    if found.len() > MAX_NOTE_BYTES as u64 {
        return Err(wrong(format!("it has {} bytes; {MAX_NOTE_BYTES} is the most", found.len())));
    }
    fs::read(path).map(Some).map_err(|error| PaperError::disk(path, &error))
}

/// Writes a copy, unless it is there already.
fn write(path: &Path, body: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == body.as_bytes()) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    replace(path, body.as_bytes())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
