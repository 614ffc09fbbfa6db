//! The lessons of a repository: the memory's own crate at work on this store.
//!
//! What changes lessons runs in one transaction. `.ftl/memory.json` is their copy in the form
//! of the FTL plugin (docs/origins.md). A small memory is copied after each change, a large one when a command asks for it; the file
//! is looked at only when its size or date say that another program wrote it.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ftl_core::json::JsonExt as _;
use ftl_memory::effect::is_withheld;
use ftl_memory::import_export::{ImportMode, Imported};
use ftl_memory::{Error, Lessons, Now, StoredKind};

use super::projection::{STAMPS, Standing, digest, stamp_file, stamps, standing};
use super::{RecordError, Records};
use crate::embedder::ChosenEmbedder;
use crate::plan_file::{CampaignPlan, PlanTask};
use crate::workspace::{KnownFailure, KnownPattern, Workspace};
use ftl_folder as folder;
use ftl_folder::clock;
use ftl_folder::state_folder::replace;
use ftl_store::{Notebook as _, Store as _, StoreError};

/// A memory with more lessons is copied only when a command asks for it.
pub const MAX_COPIED: u64 = 1_000;

/// The largest memory file that is taken over.
pub const MAX_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;

const FILE: &str = "memory.json";

/// The time as lessons want it.
pub fn now() -> Now {
    Now { local: clock::local(), ms: i64::try_from(clock::wall()).unwrap_or(i64::MAX) }
}

impl From<Error> for RecordError {
    fn from(trouble: Error) -> RecordError {
        match &trouble {
            Error::Database(_) | Error::Damaged { .. } => {
                RecordError::Store(StoreError::Corrupt(trouble.to_string()))
            }
            Error::Refused { .. } | Error::OtherEmbedder { .. } => {
                RecordError::refuse(trouble.to_string(), trouble.hint())
            }
        }
    }
}

/// The embedder that is part of the program.
pub fn built_in() -> Result<ChosenEmbedder, RecordError> {
    ChosenEmbedder::built_in()
}

/// Looks at a memory in which nothing is.
pub fn on_nothing<T>(work: impl Fn(&Lessons<'_>) -> Result<T, Error>) -> Result<T, RecordError> {
    let open = rusqlite::Connection::open_in_memory().map_err(Error::Database)?;
    open.execute_batch(ftl_memory::schema::CREATE).map_err(Error::Database)?;
    Ok(work(&Lessons::new(&open, &built_in()?))?)
}

/// How much two texts are alike, from 0 to 1.
pub fn alike(left: &str, right: &str) -> f64 {
    built_in().map_or(0.0, |table| ftl_memory::similar::similarity(left, right, &table))
}

impl Records {
    /// The path of the copy.
    pub fn memory_file(&self) -> PathBuf {
        self.place().state().join(FILE)
    }

    fn embedder(&self) -> Result<&ChosenEmbedder, RecordError> {
        if let Some(chosen) = self.embedder.get() {
            return Ok(chosen);
        }
        let chosen = ChosenEmbedder::of(&self.options.embedder)?;
        Ok(self.embedder.get_or_init(|| chosen))
    }

    /// Makes the vectors of all lessons again if another embedder made them; how many. `progress` is told
    /// how many of how many are done.
    pub fn embed_again(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, RecordError> {
        let known =
            self.ask_lessons(|lessons| Ok(lessons.embedded_by()?.is_none() || lessons.has_meaning()?))?;
        if known { Ok(0) } else { self.changed(|lessons| lessons.embed_again(progress)) }
    }

    /// Looks at the lessons.
    pub fn look_up<T>(&self, work: impl Fn(&Lessons<'_>) -> Result<T, Error>) -> Result<T, RecordError> {
        let embedder = match self.embedder() {
            Ok(embedder) => embedder,
            Err(error) => {
                self.notice(format!("{error}; lessons are found by words alone"));
                return self.asked_of(&ChosenEmbedder::words()?, work);
            }
        };
        // A reader waits for no writer, and writes nothing into another user's store.
        if self.place().stranger().is_none() && self.is_free_soon() {
            self.take_over_memory()?;
        }
        let told = self.asked_of(embedder, work)?;
        if let Some(why) = embedder.trouble() {
            self.notice(format!("the embedder did not answer, lessons are found by words alone: {why}"));
        }
        Ok(told)
    }

    /// Whether the embedder of the settings can be used.
    pub fn has_embedder(&self) -> bool {
        self.embedder().is_ok()
    }

    fn ask_lessons<T>(&self, work: impl Fn(&Lessons<'_>) -> Result<T, Error>) -> Result<T, RecordError> {
        self.asked_of(self.embedder()?, work)
    }

    fn asked_of<T>(
        &self,
        embedder: &ChosenEmbedder,
        work: impl Fn(&Lessons<'_>) -> Result<T, Error>,
    ) -> Result<T, RecordError> {
        let told = self.store().ask(|open| match work(&Lessons::new(open, embedder)) {
            Err(Error::Database(error)) => Err(error),
            told => Ok(told),
        })?;
        Ok(told?)
    }

    /// Changes lessons, all that the work does or nothing.
    pub fn learn<T>(&self, work: impl FnOnce(&Lessons<'_>) -> Result<T, Error>) -> Result<T, RecordError> {
        self.take_over_memory()?;
        self.embed_again(&mut |_, _| {})?;
        let done = self.changed(work)?;
        if self.is_small()? {
            self.copy_memory()?;
        }
        Ok(done)
    }

    /// Whether the memory is copied after each change.
    fn is_small(&self) -> Result<bool, RecordError> {
        let count = self.ask_lessons(|lessons| {
            Ok(lessons.count(StoredKind::Failure)? + lessons.count(StoredKind::Pattern)?)
        })?;
        Ok(count <= MAX_COPIED)
    }

    /// Writes a copy again that was removed. That it cannot be written does not stop a reader.
    fn mend_memory(&self) -> Result<(), RecordError> {
        if self.last_copy(FILE).is_some() && self.store().writable().is_ok() && self.is_small()? {
            let _ = self.copy_memory();
        }
        Ok(())
    }

    /// Nothing is kept of what the embedder did not make a vector for.
    fn changed<T>(&self, work: impl FnOnce(&Lessons<'_>) -> Result<T, Error>) -> Result<T, RecordError> {
        let embedder = self.embedder()?;
        self.store().change(|open| match work(&Lessons::new(open, embedder)) {
            Err(Error::Database(error)) => Err(error),
            Err(trouble) => Ok(Err(RecordError::from(trouble))),
            Ok(done) => Ok(match embedder.trouble() {
                None => Ok(done),
                Some(why) => Err(RecordError::refuse(
                    format!("the embedder did not answer, nothing was learned: {why}"),
                    "try again when it does, or set memory.embedder to \"static\"",
                )),
            }),
        })?
    }

    /// Writes `.ftl/memory.json` as the memory is now.
    pub fn copy_memory(&self) -> Result<(), RecordError> {
        let path = self.memory_file();
        let on_disk = |error: io::Error| RecordError::disk(&path, &error);
        let _held = self.hold().map_err(on_disk)?;
        let text = self.exported()?;
        let digest = digest(text.as_bytes());
        // The store knows the copy before it is there: a process that finds it knows that it is ours.
        self.store().amend(&mut |notes| stamp_file(notes, FILE, &digest).map(|()| true))?;
        replace(&path, text.as_bytes()).map_err(on_disk)?;
        self.memory_seen(&path, &digest)
    }

    /// The memory as its copy has it.
    fn exported(&self) -> Result<String, RecordError> {
        Ok(format!("{}\n", self.ask_lessons(|lessons| lessons.export(false))?.pretty()))
    }

    /// Remembers what the file looks like from outside, and which copy it is.
    fn memory_seen(&self, path: &Path, digest: &str) -> Result<(), RecordError> {
        let look = look(path)?.unwrap_or_default();
        self.set_seen(FILE, &format!("{digest} {look}"), None);
        Ok(())
    }

    /// Takes over a memory file that another program wrote.
    fn take_over_memory(&self) -> Result<(), RecordError> {
        let path = self.memory_file();
        let Some(found) = look(&path)? else { return self.mend_memory() };
        let seen = self.last_copy(FILE).unwrap_or_default();
        if seen.split_once(' ').is_some_and(|(_, known)| known == found) {
            return Ok(());
        }
        if let Err(error) = self.store().writable() {
            return self.unless_only_read(&path, Err(error.into()));
        }
        let _held = self.hold().map_err(|error| RecordError::disk(&path, &error))?;
        let bytes = read(&path)?;
        let found = digest(&bytes);
        let known = stamps(self.store().note(STAMPS, FILE)?);
        let seen = self.last_copy(FILE).unwrap_or_default();
        let seen = seen.split_once(' ').map(|(seen, _)| seen);
        match standing(&known, seen, &found) {
            Standing::Newest | Standing::Behind => self.memory_seen(&path, &found),
            Standing::Foreign => {
                let taken = self.import_copy(&path, &bytes, &known);
                self.unless_only_read(&path, taken)
            }
        }
    }

    /// Takes in a memory file. One that was changed by hand takes the place of the memory if the memory
    /// is still what its copy was; otherwise it is added, so that nothing learned since is lost.
    fn import_copy(&self, path: &Path, bytes: &[u8], known: &[String]) -> Result<(), RecordError> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| malformed(path, &format!("not UTF-8: {error}")))?;
        let now = if known.is_empty() { String::new() } else { digest(self.exported()?.as_bytes()) };
        // What was taken over stands before what it was taken from.
        let is_base = known.iter().rev().take(2).any(|one| *one == now);
        let mode = if is_base { ImportMode::Replace } else { ImportMode::Add };
        let imported = self.changed(|lessons| lessons.import(text, mode)).map_err(|error| match error {
            RecordError::Refused { message, .. } => malformed(path, &message),
            error => error,
        })?;
        let (now, found) = (digest(self.exported()?.as_bytes()), digest(bytes));
        self.store().amend(&mut |notes| {
            stamp_file(notes, FILE, &now)?;
            stamp_file(notes, FILE, &found).map(|()| true)
        })?;
        self.memory_seen(path, &found)?;
        self.tell_imported(path, &imported, !known.is_empty());
        if !known.is_empty() && !is_base {
            self.notice("the memory had learned more since that copy: what the file lacks is kept");
        }
        Ok(())
    }

    fn tell_imported(&self, path: &Path, imported: &Imported, by_hand: bool) {
        let how = if by_hand { "changed by hand" } else { "found" };
        let (failures, patterns) = (imported.failures, imported.patterns);
        self.notice(format!(
            "{} was {how} and is taken over: {failures} failures, {patterns} patterns",
            path.display()
        ));
        for warning in &imported.warnings {
            self.notice(warning.to_string());
        }
    }

    /// Counts for every lesson that a complete workspace was given whether it was used; the one that mended the work has helped, and what was
    /// tried before it has not. Each counts once.
    pub fn credit(&self, brief: &Workspace, of: &LessonOutcomes<'_>) -> Result<(), RecordError> {
        let used = brief.utilized.iter().flatten().map(|one| (one.kind, one.name.clone()));
        let mended = of.mended.map(|name| (StoredKind::Failure, name.clone()));
        let used: Vec<(StoredKind, String)> =
            used.chain(mended).filter(|(_, name)| !of.failed.contains(name)).collect();
        self.count_outcomes(brief, of, &used)?;
        // What had to be mended did not go well.
        self.end_trials(of.task, of.mended.is_none() && of.failed.is_empty())
    }

    fn end_trials(&self, task: Option<&str>, well: bool) -> Result<(), RecordError> {
        let Some(task) = task else { return Ok(()) };
        if !self.ask_lessons(|lessons| lessons.has_trial(task))? {
            return Ok(());
        }
        self.changed(|lessons| lessons.end_trials(task, well))
    }

    /// Counts that no lesson of a blocked workspace helped, if it was the work that failed.
    pub fn discredit(&self, brief: &Workspace, of: &LessonOutcomes<'_>) -> Result<(), RecordError> {
        if crate::observe::is_machine(brief) || crate::observe::is_harness(brief) {
            return Ok(());
        }
        self.count_outcomes(brief, of, &[])?;
        self.end_trials(of.task, false)
    }

    fn count_outcomes(
        &self,
        brief: &Workspace,
        of: &LessonOutcomes<'_>,
        used: &[(StoredKind, String)],
    ) -> Result<(), RecordError> {
        let mut given = injected(brief);
        let tried = of.failed.iter().chain(of.mended).map(|name| (StoredKind::Failure, name.clone()));
        given.extend(tried);
        if given.is_empty() {
            return Ok(());
        }
        self.learn(|lessons| lessons.credit(&given, used, of.source))?;
        Ok(())
    }

    /// Counts that lessons were given out, all at once.
    pub(super) fn given_out(&self, all: &[ftl_memory::recall::ContextLessons]) -> Result<(), RecordError> {
        if all.iter().all(|given| given.entries().next().is_none()) {
            return Ok(());
        }
        let now = now();
        self.learn(|lessons| all.iter().try_for_each(|given| lessons.accessed(given, &now)))
    }

    /// What is known about something, as an agent reads it: the nearest lessons, a line each.
    pub fn tell(&self, about: &str) -> Result<String, RecordError> {
        let lessons = self.lessons_about(about)?;
        if lessons.is_empty() {
            return Ok(String::from("nothing is remembered about that"));
        }
        Ok(lessons.join("\n"))
    }

    /// The lessons nearest to something, a line each. One without a remedy is left out.
    pub fn lessons_about(&self, about: &str) -> Result<Vec<String>, RecordError> {
        let now = now();
        let rows = self.look_up(|lessons| lessons.query(about, MAX_TOLD, &now))?;
        let helpful = rows.iter().map(|row| &row.lesson).filter(|lesson| lesson.has_remedy());
        Ok(helpful.map(render_lesson).collect())
    }

    /// Withholds a share of what was recalled for a task, by lot, and notes for each lesson whether it is given; what is withheld. A small
    /// memory withholds nothing.
    pub fn hold_out(
        &self,
        task: &str,
        recalled: &mut super::briefs::Recalled,
    ) -> Result<Vec<String>, RecordError> {
        let share = self.options.withhold as f64 / 100.0;
        let named = |given: &ftl_memory::recall::ContextLessons| -> Vec<(StoredKind, String)> {
            given.entries().map(|one| (one.lesson.kind(), one.lesson.name().to_owned())).collect()
        };
        let all = named(&recalled.given);
        if all.is_empty() || share <= 0.0 || !self.look_up(|lessons| lessons.can_withhold())? {
            return Ok(Vec::new());
        }
        let is_out = |kind, name: &str| is_withheld(task, kind, name, share);
        recalled.failures.retain(|one| !is_out(StoredKind::Failure, &one.name));
        recalled.patterns.retain(|one| !is_out(StoredKind::Pattern, &one.name));
        recalled.given.failures.retain(|one| !is_out(StoredKind::Failure, one.lesson.name()));
        recalled.given.patterns.retain(|one| !is_out(StoredKind::Pattern, one.lesson.name()));
        self.learn(|lessons| {
            all.iter()
                .try_for_each(|(kind, name)| lessons.begin_trial(task, *kind, name, is_out(*kind, name)))
        })?;
        Ok(all.into_iter().filter(|(kind, name)| is_out(*kind, name)).map(|(_, name)| name).collect())
    }

    /// What is known that fits each of some objectives, for briefs.
    pub fn recall(&self, objectives: &[String]) -> Result<Vec<super::briefs::Recalled>, RecordError> {
        let asked = |objective: &String| ftl_memory::recall::ContextRequest {
            objective: Some(objective.clone()),
            inject: true,
            ..ftl_memory::recall::ContextRequest::default()
        };
        let (asked, now) = (objectives.iter().map(asked).collect::<Vec<_>>(), now());
        let given = self.look_up(|lessons| lessons.contexts(&asked, &now))?;
        Ok(given.into_iter().map(recalled).collect())
    }
}

/// What a builder's brief asks memory with: the objective, the task's name and its files.
pub fn asks_with(plan: &CampaignPlan, task: &PlanTask) -> String {
    [plan.objective.clone(), task.slug.replace('-', " "), task.delta.join(" ")].join(" ")
}

/// What became of the lessons that a build was given or tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct LessonOutcomes<'a> {
    /// What mended the work: a lesson's name, or words of somebody who repaired it.
    pub mended: Option<&'a String>,
    /// What was tried and did not mend it.
    pub failed: &'a [String],
    /// The run and the instance.
    pub source: Option<&'a str>,
    /// The run and the task, as lessons were withheld from it.
    pub task: Option<&'a str>,
}

/// The lessons that a brief was given from memory.
fn injected(brief: &Workspace) -> Vec<(StoredKind, String)> {
    let Some(prior) = &brief.prior_knowledge else { return Vec::new() };
    let failures = prior.failures.iter().filter(|one| one.injected);
    let failures = failures.map(|one| (StoredKind::Failure, one.name.clone()));
    let patterns = prior.patterns.iter().filter(|one| one.injected);
    failures.chain(patterns.map(|one| (StoredKind::Pattern, one.name.clone()))).collect()
}

/// How many lessons an agent is told at once.
const MAX_TOLD: usize = 5;

/// One lesson in a line: what happens, and what helps.
fn render_lesson(lesson: &ftl_memory::Lesson) -> String {
    format!("{} `{}`: {} → {}", lesson.kind().word(), lesson.name(), lesson.trigger(), lesson.remedy())
}

/// What was given, as a brief has it. A failure without a remedy is left out: it takes room and does not help
/// the builder.
fn recalled(mut given: ftl_memory::recall::ContextLessons) -> super::briefs::Recalled {
    given.failures.retain(|entry| entry.lesson.has_remedy());
    let value = |lesson: &ftl_memory::Lesson| lesson.value().max(0.0) as u64;
    let failures = given.failures.iter().map(|entry| KnownFailure {
        name: entry.lesson.name().to_owned(),
        cost: value(&entry.lesson),
        trigger: entry.lesson.trigger().to_owned(),
        fix: entry.lesson.remedy().to_owned(),
        pattern: entry.lesson.matcher().to_owned(),
        injected: true,
    });
    let patterns = given.patterns.iter().map(|entry| KnownPattern {
        name: entry.lesson.name().to_owned(),
        saved: value(&entry.lesson),
        trigger: entry.lesson.trigger().to_owned(),
        insight: entry.lesson.remedy().to_owned(),
        injected: true,
    });
    let (failures, patterns) = (failures.collect(), patterns.collect());
    super::briefs::Recalled { failures, patterns, given }
}

/// What a file looks like from outside; nothing where there is none.
fn look(path: &Path) -> Result<Option<String>, RecordError> {
    match folder::metadata(path) {
        Ok(found) => {
            Ok(Some(format!("{}:{}:{}:{}", found.len(), found.mtime(), found.mtime_nsec(), found.ino())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RecordError::disk(path, &error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, RecordError> {
    let found = folder::metadata(path).map_err(|error| RecordError::disk(path, &error))?;
    if !found.is_file() {
        let what = if found.is_symlink() { "it is a link, and is not followed" } else { "it is no file" };
        return Err(malformed(path, what));
    }
    if found.len() > MAX_MEMORY_BYTES {
        return Err(malformed(
            path,
            &format!("it has {} bytes; {MAX_MEMORY_BYTES} is the most", found.len()),
        ));
    }
    folder::read(path, MAX_MEMORY_BYTES).map_err(|error| RecordError::disk(path, &error))
}

fn malformed(path: &Path, message: &str) -> RecordError {
    let hint = String::from("mend it, or remove it: `ftl memory export .ftl/memory.json` writes it again");
    RecordError::Malformed { path: path.to_owned(), message: message.to_owned(), hint }
}
