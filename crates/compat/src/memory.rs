//! `ftl memory`: the lessons, and the shortcuts `query`, `stats`, `prune` and `related`.

mod changes;

use std::io::IsTerminal as _;
use std::path::Path;

use ftl_command::input::text_of;
use ftl_command::records::{failure, open, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session};
use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};
use ftl_memory::StoredKind;
use ftl_memory::import_export::ImportMode;
use ftl_memory::maintenance::Keep;
use ftl_memory::recall::ContextRequest;
use ftl_records::briefs::Recalled;
use ftl_records::lessons::{asks_with, now, on_nothing};
use ftl_records::plan_file::{CampaignPlan, PlanTask};
use ftl_records::workspace::Workspace;
use ftl_records::{RecordError, Records};
use ftl_store::Store as _;

use crate::words::{Context, EntryArgs, LessonKind, Memory, Prune, Query, Related};
use crate::{print, word};

impl LessonKind {
    pub(crate) fn kind(self) -> StoredKind {
        match self {
            LessonKind::Failure => StoredKind::Failure,
            LessonKind::Pattern => StoredKind::Pattern,
        }
    }
}

pub(crate) fn run(cli: &GlobalArgs, verb: &Memory, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        Memory::Context(asked) => context(cli, asked, out),
        Memory::AddFailure(entry) => add(cli, StoredKind::Failure, entry, out),
        Memory::AddPattern(entry) => add(cli, StoredKind::Pattern, entry, out),
        Memory::Query(asked) => query(cli, asked, out),
        Memory::Prune(asked) => prune(cli, asked, out),
        Memory::AddRelationship { source, target, kind, rel_type } => {
            let told = learn(cli, out, |lessons| lessons.relate(kind.kind(), source, target, rel_type))?;
            word(out, &told.word())
        }
        Memory::AddCrossRelationship { failure, pattern, rel_type } => {
            let told = learn(cli, out, |lessons| lessons.relate_cross(failure, pattern, rel_type))?;
            word(out, &told.word())
        }
        Memory::Related(asked) => related(cli, asked, out),
        Memory::Stats => stats(cli, out),
        Memory::Feedback { helped: false, failed: false, .. } => {
            Err(CommandError::new("it says neither --helped nor --failed", "say which of the two"))
        }
        Memory::Feedback { name, helped, kind, .. } => {
            let found = learn(cli, out, |lessons| lessons.feedback(Some(kind.kind()), name, *helped))?;
            word(out, if found { "updated" } else { "not_found" })
        }
        Memory::GetSolutions { failure } => {
            let found = look(cli, out, |lessons| lessons.solutions(failure))?;
            if found.is_none() {
                out.note(&format!("there is no failure `{failure}`"));
            }
            let rows = found.unwrap_or_default().into_iter().map(ftl_memory::Lesson::into_json).collect();
            print(out, &Json::Array(rows))
        }
        Memory::Import { file } => import(cli, file, out),
        Memory::Export { file } => export(cli, file.as_deref(), out),
        Memory::Quarantine { release: Some(name), kind } => {
            session::not_an_agent(&session::place(cli)?)?;
            ftl_command::foreign::not_typed_by_agent()?;
            let found = learn(cli, out, |lessons| lessons.release(kind.kind(), name))?;
            word(out, if found { "released" } else { "not_found" })
        }
        Memory::Quarantine { release: None, .. } => quarantine(cli, out),
        Memory::Reembed => reembed(cli, out),
        Memory::Edit(asked) => changes::edit(cli, asked, out),
        Memory::Merge { name, into, kind } => changes::merge(cli, kind.kind(), (name, into), out),
        Memory::History { name, kind } => {
            let changes = look(cli, out, |lessons| lessons.history(kind.kind(), name))?;
            print(out, &Json::Array(changes.iter().map(ftl_memory::history::LessonChange::to_json).collect()))
        }
        Memory::Undo { name, kind } => changes::undo(cli, kind.kind(), name, out),
        Memory::Effect { retire } => changes::effect(cli, *retire, out),
    }
}

pub(crate) fn learn<T>(
    cli: &GlobalArgs,
    out: &Out,
    work: impl FnOnce(&ftl_memory::Lessons<'_>) -> Result<T, ftl_memory::Error>,
) -> Result<T, CommandError> {
    let records = open(cli)?;
    ready(out, &records)?;
    with(out, &records, |records| records.learn(work))
}

/// Looks at lessons. Where there is no state there are none, and none are made but for the answer.
pub(crate) fn look<T: Default>(
    cli: &GlobalArgs,
    out: &Out,
    work: impl Fn(&ftl_memory::Lessons<'_>) -> Result<T, ftl_memory::Error>,
) -> Result<T, CommandError> {
    match crate::look(cli)? {
        Some(records) => {
            if records.store().writable().is_ok() && records.has_embedder() {
                ready(out, &records)?;
            }
            with(out, &records, |records| records.look_up(work))
        }
        None => Ok(T::default()),
    }
}

fn context(cli: &GlobalArgs, asked: &Context, out: &Out) -> Result<ExitStatus, CommandError> {
    let kind = match asked.kind.as_deref() {
        None | Some("all") => None,
        Some("failure" | "failures") => Some(StoredKind::Failure),
        Some("pattern" | "patterns") => Some(StoredKind::Pattern),
        // Scripts of the FTL plugin name the type of a task here, such as BUILD, and get lessons of both kinds.
        Some(other) => {
            out.note(&format!("`{other}` is neither failure nor pattern: lessons of both kinds are given"));
            None
        }
    };
    let wanted = ContextRequest {
        objective: asked.objective.clone(),
        kind,
        tags: asked.tags.iter().map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect(),
        max_failures: asked.max_failures,
        max_patterns: asked.max_patterns,
        all: asked.all,
        ..ContextRequest::default()
    };
    let now = now();
    let Some(records) = crate::look(cli)? else {
        return print(out, &ftl_memory::recall::ContextLessons::default().to_json(false));
    };
    if records.store().writable().is_ok() && records.has_embedder() {
        ready(out, &records)?;
    }
    let given = with(out, &records, |records| {
        let given = records.look_up(|lessons| lessons.context(&wanted, &now))?;
        if given.entries().next().is_some() && records.store().writable().is_ok() {
            records.learn(|lessons| lessons.accessed(&given, &now))?;
        }
        Ok(given)
    })?;
    print(out, &given.to_json(asked.include_tiers))
}

fn add(cli: &GlobalArgs, kind: StoredKind, entry: &EntryArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let text = if entry.entry == "-" { text_of(Path::new("-"))? } else { entry.entry.clone() };
    let json = Json::parse(&text).map_err(|error| {
        CommandError::new(format!("the lesson is {error}"), "give one object with name and trigger")
    })?;
    let now = now();
    // What an agent says by itself would be given to the next one as if a person or a gate had looked at it.
    let inside = session::inside_agent(&session::place(cli)?);
    let learned = learn(cli, out, |lessons| match &inside {
        Some(_) => lessons.learn_from_agent(kind, json, &now),
        None => lessons.learn(kind, json, &now),
    })?;
    for warning in &learned.warnings {
        out.note(&warning.to_string());
    }
    if let ftl_memory::learn::LearnOutcome::Merged { into, trigger, changed } = &learned.outcome {
        let what = if changed.is_empty() { "nothing new".to_owned() } else { changed.join(", ") };
        out.note(&format!("it is the same as `{into}` ({trigger}): {what}"));
    }
    word(out, &learned.outcome.word())
}

pub(crate) fn query(cli: &GlobalArgs, asked: &Query, out: &Out) -> Result<ExitStatus, CommandError> {
    let (topic, now) = (asked.topic.join(" "), now());
    let rows = look(cli, out, |lessons| lessons.query(&topic, asked.max, &now))?;
    print(out, &Json::Array(rows.iter().map(ftl_memory::recall::ScoredLesson::to_json).collect()))
}

pub(crate) fn prune(cli: &GlobalArgs, asked: &Prune, out: &Out) -> Result<ExitStatus, CommandError> {
    if !(asked.half_life > 0.0 && asked.half_life.is_finite()) {
        return Err(CommandError::usage("--half-life must be above 0", "the default is 30 days"));
    }
    if !asked.min_importance.is_finite() {
        return Err(CommandError::usage("--min-importance must be a number", "the default is 0.1"));
    }
    let keep = Keep {
        max_failures: asked.max_failures,
        max_patterns: asked.max_patterns,
        min_importance: asked.min_importance,
        half_life: asked.half_life,
    };
    let now = now();
    print(out, &learn(cli, out, |lessons| lessons.prune(&keep, &now))?.to_json())
}

pub(crate) fn related(cli: &GlobalArgs, asked: &Related, out: &Out) -> Result<ExitStatus, CommandError> {
    let found = look(cli, out, |lessons| lessons.related(asked.kind.kind(), &asked.name, asked.max_hops))?;
    if found.is_none() {
        out.note(&format!("there is no {} `{}`", asked.kind.kind().word(), asked.name));
    }
    let rows = found.unwrap_or_default();
    print(out, &Json::Array(rows.iter().map(ftl_memory::relate::Relative::to_json).collect()))
}

pub(crate) fn stats(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let now = now();
    let records = match crate::look(cli)? {
        Some(records) => records,
        None => {
            return print(out, &on_nothing(|lessons| lessons.stats(&now)).map_err(|error| failure(&error))?);
        }
    };
    print(out, &with(out, &records, |records| records.look_up(|lessons| lessons.stats(&now)))?)
}

fn import(cli: &GlobalArgs, file: &Path, out: &Out) -> Result<ExitStatus, CommandError> {
    let text = text_of(file)?;
    session::not_an_agent(&session::place(cli)?)?;
    let done = learn(cli, out, |lessons| lessons.import(&text, ImportMode::Add))?;
    for warning in &done.warnings {
        out.note(&warning.to_string());
    }
    print(
        out,
        &Object::new()
            .with("failures", done.failures)
            .with("patterns", done.patterns)
            .with("united", done.united)
            .into(),
    )
}

fn export(cli: &GlobalArgs, file: Option<&Path>, out: &Out) -> Result<ExitStatus, CommandError> {
    let records = open(cli)?;
    let json = with(out, &records, |records| records.look_up(|lessons| lessons.export(false)))?;
    let Some(file) = file else { return print(out, &json) };
    if is_same(file, &records.memory_file()) {
        with(out, &records, Records::copy_memory)?;
    } else {
        let text = format!("{}\n", json.pretty());
        let written = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map_or(Ok(()), ftl_folder::make_anywhere)
            .and_then(|()| ftl_folder::state_folder::replace(file, text.as_bytes()));
        written.map_err(|error| failure(&RecordError::disk(file, &error)))?;
    }
    word(out, &format!("Written: {}", file.display()))
}

fn is_same(left: &Path, right: &Path) -> bool {
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    whole(left).is_some() && whole(left) == whole(right)
}

fn quarantine(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let kept = look(cli, out, |lessons| lessons.quarantined())?;
    let row = |one: &ftl_memory::Quarantined| {
        let reasons: Vec<Json> = one.reasons.iter().map(|reason| Json::from(reason.as_str())).collect();
        let row = Object::new().with("type", one.lesson.kind().word());
        let row = row.with("name", one.lesson.name()).with("reasons", Json::Array(reasons));
        Json::from(row.with("trigger", one.lesson.trigger()))
    };
    print(out, &Json::Array(kept.iter().map(row).collect()))
}

fn reembed(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let count = ready(out, &open(cli)?)?;
    word(out, &format!("Embedded: {count}"))
}

/// How wide a progress bar is.
const BAR: u64 = 30;

/// Makes the vectors of all lessons again if the settings name another embedder now; how many were made.
/// It shows how far it is, on a terminal as a bar.
fn ready(out: &Out, records: &Records) -> Result<u64, CommandError> {
    let live = std::io::stderr().is_terminal();
    let mut shown = None;
    let count = with(out, records, |records| {
        records.embed_again(&mut |done, total| {
            let part = done * BAR / total.max(1);
            if shown == Some(part) || !(live || shown.is_none()) {
                return;
            }
            shown = Some(part);
            let full = "#".repeat(usize::try_from(part).unwrap_or(0));
            let line = format!("embedding lessons again [{full:<30}] {done} of {total}");
            out.beside(&if live { format!("\r{line}") } else { format!("{line}\n") });
        })
    })?;
    if live && count > 0 {
        out.beside("\n");
    }
    Ok(count)
}

/// What a builder is told from memory: it asks with the objective, the task's name and its files.
pub(crate) fn recall(
    records: &Records,
) -> impl Fn(&CampaignPlan, &[&PlanTask]) -> Result<Vec<Recalled>, RecordError> + '_ {
    |plan, tasks| records.recall(&tasks.iter().map(|task| asks_with(plan, task)).collect::<Vec<_>>())
}

/// Records whether the lessons that a workspace was given were used.
pub(crate) fn credit(records: &Records, brief: &Workspace) -> Result<(), RecordError> {
    records.credit(brief, &ftl_records::lessons::LessonOutcomes::default())
}
