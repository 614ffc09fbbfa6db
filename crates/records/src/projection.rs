//! Projections: copies of notes in `.ftl/` that people and scripts read.
//!
//! A copy is written after the store has its note, under a lock of its own and always from the newest
//! note, so that it never goes back. The store remembers the digests of the last copies, and a small
//! file beside it which of them was written last. A file with another digest was changed by hand, or is
//! the FTL plugin's (docs/origins.md): it is taken over if it makes sense, and refused otherwise. A file that is gone, or
//! that a killed process did not come to write, is written again with the next look. A copy that may lag has a mark
//! in the place of its digest until it is written out, and is never known by anything else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::chunked_note::{self, Sheet, stow};
use super::projected::{NoteForm, Projected};
use super::{RecordError, Records};
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::state_folder::{Beside, mark};
use ftl_folder::{self as folder, OpenMode};
use ftl_process::holder::{self, LockWait, Locked, Locking};
use ftl_process::lock_gate::{GatePass, LockGate};
use ftl_store::{ContentDigest, MAX_NOTE_BYTES, Notebook as _, Notes, Store as _, StoreError};

/// The kind of the notes that remember digests.
pub(super) const STAMPS: &str = "projected";

/// How many digests are remembered: while many processes change a note, its copy can be that many
/// changes behind, and is still our own.
const MAX_STAMPS: usize = 128;

/// How much is read of what tells which copy was written last.
const MAX_SEEN_BYTES: u64 = 64 * 1024;

/// How many copies are written at the same time.
const MAX_WRITERS: usize = 8;

/// How long a reader leaves others the time to write a copy.
const MAX_LOOK_WAIT: Duration = Duration::from_millis(250);

/// How long one and the same process may keep the others from writing copies.
const MAX_COPY_WAIT: Duration = Duration::from_secs(60);

/// A note of more bytes than this is laid out for people, and written, while the store keeps it.
const LARGE_BYTES: usize = 256 * 1024;

/// The placeholder for the digest of a file that is not there.
const GONE: &str = "-";

/// The placeholder for the digest of a copy that lags: its note was changed, and its text is not made yet.
const PENDING: &str = "~";

/// How a copy stands to its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the note.
    Newest,
    /// It is gone, or what the note was before: the process that changed the note did not come to write it.
    Behind,
    /// Another program wrote it.
    Foreign,
}

/// How a copy of that digest stands, by the digests of the last copies and the one that was seen last.
/// A copy never goes back: one from before the last was put there by a person or another program.
pub(super) fn standing(known: &[String], seen: Option<&str>, found: &str) -> Standing {
    let place = |wanted: &str| known.iter().rposition(|one| one == wanted);
    let first = seen.and_then(place).unwrap_or(0);
    match place(found) {
        None if found == GONE && known.is_empty() => Standing::Newest,
        Some(at) if at + 1 == known.len() => Standing::Newest,
        Some(at) if at >= first => Standing::Behind,
        Some(_) | None if found == GONE => Standing::Behind,
        Some(_) | None => Standing::Foreign,
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    ContentDigest::of(bytes).to_string()
}

/// A check of a text that must be JSON and pass a check of its own.
pub(super) fn json_text(text: &str, check: fn(&Json) -> Result<(), String>) -> Result<String, String> {
    let value = Json::parse(text).map_err(|error| error.to_string())?;
    check(&value)?;
    Ok(written(&value))
}

fn written(value: &Json) -> String {
    with_end(value.pretty())
}

fn with_end(mut text: String) -> String {
    text.push('\n');
    text
}

/// The text of a copy with its digest; that of no copy where there is none.
fn with_digest(text: Option<String>) -> (Option<String>, String) {
    let digest = text.as_ref().map_or_else(|| GONE.to_owned(), |text| digest(text.as_bytes()));
    (text, digest)
}

fn sheet_text(sheet: Option<Sheet>, what: &Projected) -> Result<Option<String>, StoreError> {
    sheet.map(|sheet| sheet.pretty(what).map(with_end)).transpose()
}

impl Records {
    /// The text of a note, after a change by hand was taken over.
    pub(super) fn read_text(&self, what: &Projected) -> Result<Option<String>, RecordError> {
        self.look_over(what)?;
        Ok(chunked_note::fetch_now(&*self.store, what)?)
    }

    /// The value of a note, after a change by hand was taken over.
    pub(super) fn read(&self, what: &Projected) -> Result<Option<Json>, RecordError> {
        self.read_text(what)?.map(|body| parsed(&body)).transpose().map_err(RecordError::from)
    }

    /// Changes the value of a note under the write lock, and its copy after it. `None` removes both.
    /// Other notes can be changed along with it.
    pub(super) fn change<T>(
        &self,
        what: &Projected,
        mut edit: impl FnMut(Option<Json>, &mut dyn Notes) -> Result<(Option<Json>, T), RecordError>,
    ) -> Result<T, RecordError> {
        self.take_over(what)?;
        let path = self.file(what);
        let mut told: Option<Result<T, RecordError>> = None;
        let mut kept: Option<Copied> = None;
        let amended = self.store.amend(&mut |notes| {
            let body = chunked_note::fetch(notes, what)?;
            let is_large = body.as_ref().is_some_and(|body| body.len() > LARGE_BYTES);
            let before = body.map(|body| parsed(&body)).transpose()?;
            match edit(before, notes) {
                Ok((after, done)) => {
                    kept = match after {
                        Some(value) if is_large => Some(keep_large(notes, what, value, &path)?),
                        Some(value) => Some(Copied::Text(keep_json(notes, what, &value)?)),
                        None => {
                            drop_text(notes, what)?;
                            None
                        }
                    };
                    told = Some(Ok(done));
                    Ok(true)
                }
                Err(error) => {
                    told = Some(Err(error));
                    Ok(false)
                }
            }
        });
        self.finish(what, (amended, kept), told, &path)
    }

    /// Changes items of a note that is kept in rows under the write lock, and its copy after it. Where the work
    /// sets none, or there is no note, nothing is written.
    pub(super) fn change_items<T>(
        &self,
        what: &Projected,
        mut edit: impl FnMut(Option<&Sheet>) -> Result<(Items, T), RecordError>,
    ) -> Result<T, RecordError> {
        self.take_over(what)?;
        let path = self.file(what);
        let mut told: Option<Result<T, RecordError>> = None;
        let mut kept: Option<Copied> = None;
        let amended = self.store.amend(&mut |notes| {
            let sheet = Sheet::fetch(notes, what)?;
            told = Some(match (edit(sheet.as_ref()), sheet) {
                (Ok((items, done)), Some(sheet)) if !items.is_empty() => {
                    kept = Some(keep_items(notes, what, (sheet, items), &path)?);
                    Ok(done)
                }
                (Ok((_, done)), Some(_) | None) => Ok(done),
                (Err(error), Some(_) | None) => Err(error),
            });
            Ok(kept.is_some())
        });
        if amended.is_ok() && kept.is_none() {
            return told.unwrap_or_else(undone);
        }
        self.finish(what, (amended, kept), told, &path)
    }

    /// Brings a change to its end, once the store has it or has refused it.
    fn finish<T>(
        &self,
        what: &Projected,
        (amended, kept): (Result<(), StoreError>, Option<Copied>),
        told: Option<Result<T, RecordError>>,
        path: &Path,
    ) -> Result<T, RecordError> {
        if let Err(error) = amended {
            if let Some(Copied::Writing(writing, _)) = kept {
                let _ = joined(writing);
            }
            return Err(error.into());
        }
        let done = told.unwrap_or_else(undone)?;
        match kept {
            Some(copied) => self.project_kept(what, copied, path)?,
            None => self.project(what)?,
        }
        Ok(done)
    }

    /// Puts the copy of a note that was just kept in its place, if no other process has kept a newer one since.
    fn project_kept(&self, what: &Projected, copied: Copied, path: &Path) -> Result<(), RecordError> {
        let on_disk = |error: io::Error| RecordError::disk(path, &error);
        let _held = self.hold().map_err(on_disk)?;
        if self.file(what) != *path {
            // Another campaign has come to the front meanwhile, and its files stand here now.
            if let Copied::Writing(writing, _) = copied {
                let _ = joined(writing);
            }
            return self.copy(what);
        }
        let newest = stamps(self.store.note(STAMPS, &what.copy_name())?).pop();
        let is_newest = |digest: &String| newest.as_ref() == Some(digest);
        let (beside, digest) = match copied {
            Copied::Text((body, digest)) if is_newest(&digest) => {
                path.parent().map_or(Ok(()), folder::make).map_err(on_disk)?;
                (Beside::marked(path, body.as_bytes()), digest)
            }
            Copied::Text(_) => return self.copy(what),
            Copied::Writing(writing, digest) => (joined(writing), digest),
        };
        if !is_newest(&digest) {
            return self.copy(what);
        }
        let mark = beside.and_then(Beside::install).map_err(on_disk)?;
        self.set_seen(&what.copy_name(), &digest, Some(&mark));
        Ok(())
    }

    /// Writes the copy of a note as it is now.
    pub(super) fn project(&self, what: &Projected) -> Result<(), RecordError> {
        let _held = self.hold().map_err(|error| RecordError::disk(self.file(what), &error))?;
        self.copy(what)
    }

    /// Writes the copies of many notes, some at a time: the disk takes as long for eight as for one.
    pub(super) fn project_all(&self, all: &[Projected]) -> Result<(), RecordError> {
        let _held = self.hold().map_err(|error| RecordError::disk(self.workspace_folder(), &error))?;
        if let [what] = all {
            return self.copy(what);
        }
        let share = all.len().div_ceil(MAX_WRITERS).max(1);
        std::thread::scope(|scope| {
            let parts = all.chunks(share);
            let writers: Vec<_> =
                parts.map(|part| scope.spawn(|| part.iter().try_for_each(|what| self.copy(what)))).collect();
            let stopped = || RecordError::refuse("a copy was not written", "run `ftl doctor`");
            writers.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err(stopped())))
        })
    }

    /// Writes the copy of a note; the caller has the lock on copies.
    fn copy(&self, what: &Projected) -> Result<(), RecordError> {
        let path = self.file(what);
        let on_disk = |error: io::Error| RecordError::disk(&path, &error);
        let (text, digest) = self.laid_out(what)?;
        let mark = match text {
            Some(text) => write(&path, &text).map_err(on_disk)?,
            None => {
                remove(&path).map_err(on_disk)?;
                None
            }
        };
        self.set_seen(&what.copy_name(), &digest, mark.as_deref());
        Ok(())
    }

    /// The text that a copy is to have, and its digest, which the store knows.
    fn laid_out(&self, what: &Projected) -> Result<(Option<String>, String), RecordError> {
        match what.form {
            NoteForm::Text => {
                let body = self.store.note(&what.kind, &what.key)?;
                Ok(with_digest(body))
            }
            NoteForm::Json => {
                let body = self.store.note(&what.kind, &what.key)?;
                Ok(with_digest(body.map(|body| parsed(&body)).transpose()?.as_ref().map(written)))
            }
            NoteForm::Rows(_) if !self.is_pending(what)? => {
                let found = with_digest(sheet_text(Sheet::now(&*self.store, what)?, what)?);
                // Another process may have changed it in this very moment, and let its copy lag.
                let is_known = stamps(self.store.note(STAMPS, &what.copy_name())?).contains(&found.1);
                if is_known { Ok(found) } else { self.stamp_lagging(what) }
            }
            NoteForm::Rows(_) => self.stamp_lagging(what),
        }
    }

    fn is_pending(&self, what: &Projected) -> Result<bool, RecordError> {
        Ok(stamps(self.store.note(STAMPS, &what.copy_name())?).last().is_some_and(|last| last == PENDING))
    }

    /// Lays out a copy that lags, and keeps its digest before the copy is written.
    fn stamp_lagging(&self, what: &Projected) -> Result<(Option<String>, String), RecordError> {
        let mut made = None;
        self.store.amend(&mut |notes| {
            let found = with_digest(sheet_text(Sheet::fetch(notes, what)?, what)?);
            stamp(notes, what, &found.1)?;
            made = Some(found);
            Ok(true)
        })?;
        made.map_or_else(undone, Ok)
    }

    /// Lets the copy of a note that was just changed lag, where it may; it is written now otherwise.
    pub(super) fn project_later(&self, what: &Projected) -> Result<(), RecordError> {
        if self.lag.is_allowed() {
            self.lag.begin();
            return Ok(());
        }
        self.project(what)
    }

    /// Writes a copy that lags. One that another program changed meanwhile is left to the next look, and so is one
    /// that cannot be written now.
    pub(super) fn catch_up(&self, what: &Projected) -> Result<(), RecordError> {
        let _held = self.hold().map_err(|error| RecordError::disk(self.file(what), &error))?;
        match self.glance(what)? {
            Standing::Newest | Standing::Foreign => Ok(()),
            Standing::Behind => self.copy(what),
        }
    }

    /// Writes a copy again that is gone or has fallen behind. That it cannot be written does not keep a caller
    /// from reading the note, and neither does a process that writes copies and may have been stopped.
    pub(super) fn mend(&self, what: &Projected) {
        let is_free = || self.lag.is_allowed() || !self.is_held();
        if self.store.writable().is_ok() && self.place.stranger().is_none() && is_free() {
            let _ = self.project(what);
        }
    }

    /// The same as [`Records::take_over`] for a reader, who waits for no writer: a change by hand is left to the
    /// next command where another process holds the lock on copies. A process that drives a run does not only look.
    pub(super) fn look_over(&self, what: &Projected) -> Result<(), RecordError> {
        match self.glance(what)? {
            Standing::Foreign if !self.is_free_soon() => Ok(()),
            standing => self.settle(what, standing),
        }
    }

    /// Takes over a copy that was changed by hand, and mends one that a killed process could not finish.
    pub(super) fn take_over(&self, what: &Projected) -> Result<(), RecordError> {
        self.settle(what, self.glance(what)?)
    }

    fn settle(&self, what: &Projected, standing: Standing) -> Result<(), RecordError> {
        match standing {
            Standing::Newest => Ok(()),
            Standing::Behind if matches!(what.form, NoteForm::Rows(_)) && self.lag.is_allowed() => {
                self.lag.begin();
                Ok(())
            }
            Standing::Behind => {
                self.mend(what);
                Ok(())
            }
            // Root looks into the state of others, and writes nothing there.
            Standing::Foreign if self.place.stranger().is_some() => Ok(()),
            Standing::Foreign => self.adopt_if_writable(what),
        }
    }

    /// Takes over a copy that was changed by hand. Where the store is only read, its note counts and the change waits.
    fn adopt_if_writable(&self, what: &Projected) -> Result<(), RecordError> {
        let adopted = match self.store.writable() {
            Ok(()) => self.adopt(what),
            Err(error) => Err(error.into()),
        };
        self.unless_only_read(&self.file(what), adopted)
    }

    /// That a copy cannot be taken over into a store that is only read does not stop a reader.
    pub(super) fn unless_only_read(
        &self,
        path: &Path,
        taken: Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        match taken {
            Err(RecordError::Store(error)) if error.leaves_reading() => {
                self.notice(format!("{} was changed by hand and is not taken over: {error}", path.display()));
                Ok(())
            }
            taken => taken,
        }
    }

    /// How the copy stands to its note. One that has not been touched since we wrote it need not be read.
    fn glance(&self, what: &Projected) -> Result<Standing, RecordError> {
        let (seen, marked) = self.seen_and_mark(&what.copy_name());
        // A mark names one file on one disk.
        let found = folder::peek(&self.file(what)).ok().filter(fs::Metadata::is_file);
        if let (Some(digest), Some(marked), Some(found)) = (&seen, marked, found)
            && mark(&found) == marked
        {
            let known = stamps(self.store.note(STAMPS, &what.copy_name())?);
            match standing(&known, Some(digest), digest) {
                Standing::Foreign => {}
                at_home @ (Standing::Newest | Standing::Behind) => return Ok(at_home),
            }
        }
        Ok(self.look_at(what)?.0)
    }

    /// How the copy stands to its note, and its bytes.
    fn look_at(&self, what: &Projected) -> Result<(Standing, Vec<u8>), RecordError> {
        let bytes = read(&self.file(what))?;
        let found = bytes.as_deref().map_or_else(|| GONE.to_owned(), digest);
        let known = stamps(self.store.note(STAMPS, &what.copy_name())?);
        Ok((
            standing(&known, self.last_copy(&what.copy_name()).as_deref(), &found),
            bytes.unwrap_or_default(),
        ))
    }

    /// Takes over a copy that another program wrote. It is looked at again under the lock on copies:
    /// before, it may have been seen in the middle of a change.
    fn adopt(&self, what: &Projected) -> Result<(), RecordError> {
        let path = self.file(what);
        let _held = self.hold().map_err(|error| RecordError::disk(&path, &error))?;
        let (Standing::Foreign, bytes) = self.look_at(what)? else { return Ok(()) };
        let text = self.checked(what, &path, &bytes)?;
        let found = digest(&bytes);
        let mut is_first = true;
        self.store.amend(&mut |notes| {
            is_first = notes.get(STAMPS, &what.copy_name())?.is_none();
            keep_text(notes, what, &text)?;
            stamp(notes, what, &found)?;
            Ok(true)
        })?;
        self.set_seen(&what.copy_name(), &found, None);
        let how = if is_first { "found" } else { "changed by hand" };
        self.notice(format!("{} was {how} and is taken over", path.display()));
        Ok(())
    }

    /// A copy that makes no sense is no reason not to replace what it is a copy of: it is moved aside.
    pub(super) fn forget_broken(&self, what: &Projected) -> Result<(), RecordError> {
        let Err(RecordError::Malformed { path, .. }) = self.take_over(what) else {
            return self.take_over(what);
        };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".broken");
        let aside = path.with_file_name(name);
        folder::rename(&path, &aside).map_err(|error| RecordError::disk(&path, &error))?;
        self.notice(format!("{} could not be read and lies in {} now", path.display(), aside.display()));
        Ok(())
    }

    /// Which copy was last written or taken over; unknown after a power cut.
    pub(super) fn last_copy(&self, file: &str) -> Option<String> {
        self.seen_and_mark(file).0
    }

    /// The same, and what the copy was known by when we wrote it.
    fn seen_and_mark(&self, file: &str) -> (Option<String>, Option<String>) {
        let text = folder::read_to_string(&self.seen_file(file), MAX_SEEN_BYTES).ok();
        let mut lines = text.as_deref().unwrap_or_default().lines().map(str::to_owned);
        (lines.next(), lines.next())
    }

    /// Remembers which copy was written or taken over, under the lock on copies. Nothing is lost
    /// where that fails: any copy that the store knows then counts as its own.
    pub(super) fn set_seen(&self, file: &str, digest: &str, mark: Option<&str>) {
        let path = self.seen_file(file);
        let _ = path.parent().map(folder::make);
        let text = mark.map_or_else(|| digest.to_owned(), |mark| format!("{digest}\n{mark}\n"));
        let _ = folder::write(&path, text.as_bytes());
    }

    fn seen_file(&self, file: &str) -> PathBuf {
        self.place.store().join("copies").join(file.replace('/', "%"))
    }

    fn checked(&self, what: &Projected, path: &Path, bytes: &[u8]) -> Result<String, RecordError> {
        let wrong = |message: String| RecordError::Malformed {
            path: path.to_owned(),
            message,
            hint: format!("mend it, or remove it: `ftl` writes {} again from its store", &what.file),
        };
        let text = std::str::from_utf8(bytes).map_err(|error| wrong(format!("not UTF-8: {error}")))?;
        (what.check)(text).map_err(wrong)
    }

    /// Only one process writes copies at a time. Files that were on their way to another place are there afterwards.
    pub(super) fn hold(&self) -> io::Result<(Locked, GatePass)> {
        let path = self.place.store().join("paper.lock");
        let inside = LockGate::of(&path).enter(MAX_COPY_WAIT).ok_or(io::ErrorKind::TimedOut)?;
        let file = folder::open_as(&path, OpenMode::Update, 0o644)?;
        let wait = || LockWait::new("the lock of the files in .ftl", vec![path], MAX_COPY_WAIT);
        let held = holder::lock(file, Locking::Alone, wait)?;
        self.finish_move()?;
        Ok((held, inside))
    }

    /// Whether no process writes copies, now or in a moment. A process that drives a run does not only look, and
    /// waits for them.
    pub(super) fn is_free_soon(&self) -> bool {
        if self.lag.is_allowed() {
            return true;
        }
        let until = Instant::now() + MAX_LOOK_WAIT;
        while self.is_held() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Whether a process writes copies or the store now: a copy is written with both locks in hand.
    fn is_held(&self) -> bool {
        let is_locked = |name: &str| {
            let file = folder::open(&self.place.store().join(name), OpenMode::Read);
            file.is_ok_and(|file| !folder::lock::try_share(&file).unwrap_or(false))
        };
        ["paper.lock", "write.lock", "turn.lock"].into_iter().any(is_locked)
    }
}

/// Keeps a value as a note, and the digest that its copy will have.
pub(super) fn keep(notes: &mut dyn Notes, what: &Projected, value: Option<&Json>) -> Result<(), StoreError> {
    match value {
        Some(value) => keep_json(notes, what, value).map(drop),
        None => drop_text(notes, what),
    }
}

/// The copy of a note that was kept, with its digest.
enum Copied {
    Text((String, String)),
    /// It is being written beside the one that it replaces.
    Writing(JoinHandle<io::Result<Beside>>, String),
}

/// What became of a copy that was being written.
fn joined(writing: JoinHandle<io::Result<Beside>>) -> io::Result<Beside> {
    writing.join().unwrap_or_else(|_| Err(io::Error::other("the copy was not written")))
}

/// Items of a note that is kept in rows: the place of each, and its new text.
pub(super) type Items = BTreeMap<usize, String>;

fn undone<T>() -> Result<T, RecordError> {
    Err(RecordError::refuse("nothing was done", "try again"))
}

/// Keeps a large value as a note, while its copy is laid out and written.
fn keep_large(
    notes: &mut dyn Notes,
    what: &Projected,
    value: Json,
    path: &Path,
) -> Result<Copied, StoreError> {
    let value = Arc::new(value);
    let shared = value.clone();
    // Taking a large value apart takes a while: the thread that is done last does it.
    let put = move |notes: &mut dyn Notes| stow(notes, what, &value.to_string());
    keep_beside(notes, what, path, put, move || Ok(written(&shared)))
}

/// Keeps items of a note, while its copy is laid out and written.
fn keep_items(
    notes: &mut dyn Notes,
    what: &Projected,
    (mut sheet, items): (Sheet, Items),
    path: &Path,
) -> Result<Copied, StoreError> {
    let places: Vec<usize> = items.keys().copied().collect();
    for (at, text) in items {
        sheet.set(at, text);
    }
    let sheet = Arc::new(sheet);
    let (shared, own) = (sheet.clone(), what.clone());
    let put = move |notes: &mut dyn Notes| sheet.keep(notes, what, &places);
    keep_beside(notes, what, path, put, move || shared.pretty(&own).map(with_end))
}

/// Keeps a note, while its copy is laid out and written beside the old one: it is put in its place only after the
/// store has the note.
fn keep_beside(
    notes: &mut dyn Notes,
    what: &Projected,
    path: &Path,
    put: impl FnOnce(&mut dyn Notes) -> Result<(), StoreError>,
    copy: impl FnOnce() -> Result<String, StoreError> + Send + 'static,
) -> Result<Copied, StoreError> {
    let (path, (tell, told)) = (path.to_owned(), channel());
    let failed = |error: io::Error| StoreError::Failed(format!("no thread could be started: {error}"));
    let writing = std::thread::Builder::new().name(String::from("copy")).spawn(move || {
        let text = copy();
        let _ = tell.send(text.as_ref().map(|text| digest(text.as_bytes())).map_err(StoreError::clone));
        let text = text.map_err(|error| io::Error::other(error.to_string()))?;
        Beside::marked(&path, text.as_bytes())
    });
    let writing = writing.map_err(failed)?;
    let kept = put(notes).and_then(|()| {
        let lost = |_| StoreError::Failed(String::from("the copy of a note was not laid out"));
        let digest = told.recv().map_err(lost)??;
        stamp(notes, what, &digest).map(|()| digest)
    });
    match kept {
        Ok(digest) => Ok(Copied::Writing(writing, digest)),
        Err(error) => {
            // Nothing of it stays beside the old one.
            let _ = joined(writing);
            Err(error)
        }
    }
}

/// Keeps a value as a note; the text of its copy, and the digest of that.
fn keep_json(notes: &mut dyn Notes, what: &Projected, value: &Json) -> Result<(String, String), StoreError> {
    stow(notes, what, &value.to_string())?;
    let text = written(value);
    let digest = digest(text.as_bytes());
    stamp(notes, what, &digest)?;
    Ok((text, digest))
}

/// Removes a note; its copy will be gone.
pub(super) fn drop_text(notes: &mut dyn Notes, what: &Projected) -> Result<(), StoreError> {
    if chunked_note::drop_note(notes, what)? { stamp(notes, what, GONE) } else { Ok(()) }
}

/// Keeps a text as a note, and the digest that its copy will have.
pub(super) fn keep_text(notes: &mut dyn Notes, what: &Projected, text: &str) -> Result<(), StoreError> {
    match what.form {
        NoteForm::Text => {
            stow(notes, what, text)?;
            stamp(notes, what, &digest(text.as_bytes()))
        }
        NoteForm::Json | NoteForm::Rows(_) => keep_json(notes, what, &parsed(text)?).map(drop),
    }
}

fn stamp(notes: &mut dyn Notes, what: &Projected, digest: &str) -> Result<(), StoreError> {
    stamp_file(notes, &what.copy_name(), digest)
}

/// Remembers that the copy of a note lags behind it.
pub(super) fn stamp_pending(notes: &mut dyn Notes, what: &Projected) -> Result<(), StoreError> {
    stamp(notes, what, PENDING)
}

/// Remembers that a file will have a digest.
pub(super) fn stamp_file(notes: &mut dyn Notes, file: &str, digest: &str) -> Result<(), StoreError> {
    let mut known = stamps(notes.get(STAMPS, file)?);
    if known.last().is_some_and(|last| last == digest) {
        return Ok(());
    }
    known.retain(|one| one != digest && one != PENDING);
    known.push(digest.to_owned());
    let from = known.len().saturating_sub(MAX_STAMPS);
    notes.put(STAMPS, file, &known[from..].join("\n"))
}

pub(super) fn stamps(note: Option<String>) -> Vec<String> {
    note.into_iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn parsed(body: &str) -> Result<Json, StoreError> {
    Json::parse(body).map_err(|error| StoreError::Corrupt(format!("a note is {error}")))
}

/// The bytes of a copy. What is no file, or is too large to be a note, is refused.
fn read(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    let found = match folder::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RecordError::disk(path, &error)),
    };
    let wrong = |message: String| RecordError::Malformed {
        path: path.to_owned(),
        message,
        hint: String::from("move it away"),
    };
    if !found.is_file() {
        let what = if found.is_symlink() { "it is a link, and is not followed" } else { "it is no file" };
        return Err(wrong(String::from(what)));
    }
    if found.len() > MAX_NOTE_BYTES as u64 {
        return Err(wrong(format!("it has {} bytes; {MAX_NOTE_BYTES} is the most", found.len())));
    }
    folder::read(path, MAX_NOTE_BYTES as u64).map(Some).map_err(|error| RecordError::disk(path, &error))
}

/// Writes a copy, unless it is there already; what it is known by, if it was written.
fn write(path: &Path, body: &str) -> io::Result<Option<String>> {
    if folder::read(path, body.len() as u64).is_ok_and(|there| there == body.as_bytes()) {
        return Ok(None);
    }
    if let Some(above) = path.parent() {
        folder::make(above)?;
    }
    Beside::marked(path, body.as_bytes())?.install().map(Some)
}

fn remove(path: &Path) -> io::Result<()> {
    match folder::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// known digests | the last seen | found | standing
    const CASES: &str = "
       |    | -  | Newest
       |    | d1 | Foreign
d1     |    | d1 | Newest
d1     | d1 | d1 | Newest
d1     | d1 | -  | Behind
d1     | d1 | d9 | Foreign
d1 ~   | d1 | d1 | Behind
d1 ~   |    | d1 | Behind
d1 ~   | d1 | -  | Behind
d1 ~   | d1 | d9 | Foreign
d0 d1 ~ | d1 | d0 | Foreign
d1 d2  | d1 | d1 | Behind
d1 d2  | d1 | d2 | Newest
d1 d2  | d2 | d1 | Foreign
d1 d2  |    | d1 | Behind
d1 -   | -  | -  | Newest
d1 -   | d1 | d1 | Behind
d1 -   | -  | d1 | Foreign
- d1   | d1 | -  | Behind
";

    #[test]
    fn copies_stand_as_the_table_says() {
        for line in CASES.lines().filter(|line| !line.is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let known: Vec<String> = cells[0].split_whitespace().map(str::to_owned).collect();
            let seen = (!cells[1].is_empty()).then_some(cells[1]);
            let found = standing(&known, seen, cells[2]);
            assert_eq!(format!("{found:?}"), cells[3], "{line}");
        }
    }
}
