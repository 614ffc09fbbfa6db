//! The actions on workspaces, the briefs that builders get: written, parsed, validated, completed, blocked.
//!
//! A brief shows the code that its sources give; nothing here decides where that code is read from.

use std::path::{Path, PathBuf};

use ftl_core::catalogue::build::FileText;
use ftl_core::catalogue::flow;
use ftl_core::catalogue::plan::Plan as PlanShape;
use ftl_core::catalogue::spec::{Spec, Used as UsedShape};
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;

use super::Job;
use super::typed::{Done, json_of};
use ftl_code::context::{self, Sources};
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_records::begin::{Beginning, Noted};
use ftl_records::briefs::Ends;
use ftl_records::build_budget::{BuildSettings, TaskFacts};
use ftl_records::lessons::LessonOutcomes;
use ftl_records::plan_file::{self, CampaignPlan, PlanTask, Reading};
use ftl_records::workspace::{BlockReason, KnownFailure, LessonKind, UsedLesson, WorkspaceStatus};
use ftl_records::{RecordError, Records};

/// A file with more lines is not seen whole in a brief, and so is no matter for a direct build.
const DIRECT_LINES: usize = 60;

/// How much of a file an action reads.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Performs `workspace.parse`.
pub(super) fn parse(records: &Records, _: &Job, asked: &flow::WorkspaceParse) -> Done<flow::WorkspaceParse> {
    let workspace = records.parse_workspace(&place(records, &asked.path))?;
    workspace.to_spec().map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))
}

/// Performs `workspace.validate`.
pub(super) fn validate(
    _: &Records,
    _: &Job,
    asked: &flow::WorkspaceValidate,
) -> Done<flow::WorkspaceValidate> {
    Ok(soundness(&asked.spec))
}

/// Performs `workspace.complete`.
pub(super) fn complete(
    records: &Records,
    job: &Job,
    asked: &flow::WorkspaceComplete,
) -> Done<flow::WorkspaceComplete> {
    let used: Vec<UsedLesson> = asked.utilized.iter().flatten().map(used_lesson).collect();
    let path = place(records, &asked.path);
    for delivered in [asked.delivered.clone(), format!("{}{MENDED}", asked.delivered)] {
        if let Some(done) = ended_before(records, &path, WorkspaceStatus::Complete, &delivered)? {
            return Ok(done);
        }
    }
    let tried = tried_names(asked.tried.as_ref());
    let mut delivered = asked.delivered.clone();
    if !tried.is_empty() {
        // Whoever scores the work must not take it for one that was right at once.
        delivered.push_str(MENDED);
    }
    let ends = Ends { now: &clock::local(), run: Some(&job.run) };
    let (path, brief) = records.complete_workspace(&path, (&delivered, &used), ends)?;
    let (mended, failed) = tried.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
    let (source, task) = (source_of(job), task_of(job, &brief.id));
    records.credit(&brief, &LessonOutcomes { mended, failed, source: Some(&source), task: Some(&task) })?;
    Ok(flow::Ended { path: display_path(records, &path) })
}

/// Performs `workspace.block`.
pub(super) fn block(
    records: &Records,
    job: &Job,
    asked: &flow::WorkspaceBlock,
) -> Done<flow::WorkspaceBlock> {
    let path = place(records, &asked.path);
    let why =
        BlockReason::read(&asked.reason).map_err(|refusal| Failure::from(RecordError::from(refusal)))?;
    let tried = asked.tried.as_ref().map(words);
    let why = why.with(tried.as_deref(), None);
    let delivered = format!("BLOCKED: {}", why.reason);
    if let Some(done) = ended_before(records, &path, WorkspaceStatus::Blocked, &delivered)? {
        return Ok(done);
    }
    let ends = Ends { now: &clock::local(), run: Some(&job.run) };
    let (path, brief) = records.block_workspace(&path, &why, ends)?;
    let failed = tried_names(asked.tried.as_ref());
    let (source, task) = (source_of(job), task_of(job, &brief.id));
    let outcomes = LessonOutcomes { mended: None, failed: &failed, source: Some(&source), task: Some(&task) };
    records.discredit(&brief, &outcomes)?;
    Ok(flow::Ended { path: display_path(records, &path) })
}

/// Said of work that was red first and was mended.
const MENDED: &str = "; retried after a failure";

/// What was tried, in order.
fn tried_names(tried: Option<&Value>) -> Vec<String> {
    match tried {
        None | Some(Value::None) => Vec::new(),
        Some(Value::List(items)) => items.iter().map(words).filter(|name| !name.is_empty()).collect(),
        Some(one) => vec![words(one)],
    }
}

/// By what a lesson is credited: the run and the instance, so that no instance credits one twice.
fn source_of(job: &Job) -> String {
    format!("{}/{}", job.run, job.action.instance)
}

/// By what lessons are withheld: the run and the name of the task's workspace.
fn task_of(job: &Job, id: &str) -> String {
    format!("{}/{id}", job.run)
}

/// A file below a folder; never one that a link leads out to.
pub(super) fn file_text(folder: &Path, path: &str) -> Result<FileText, Failure> {
    let cannot = || Failure::new(FailureKind::Failed, format!("`{path}` cannot be read"));
    let bytes = context::read_source(folder, path).ok_or_else(cannot)?;
    let truncated = bytes.len() > MAX_FILE_BYTES;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_FILE_BYTES)]).into_owned();
    Ok(FileText { text, path: path.to_owned(), truncated: Some(truncated) })
}

fn used_lesson(shape: &UsedShape) -> UsedLesson {
    UsedLesson { name: shape.name.clone(), kind: shape.kind.unwrap_or(LessonKind::Failure) }
}

/// A workspace that was ended in the same way before the engine died.
fn ended_before(
    records: &Records,
    path: &Path,
    status: WorkspaceStatus,
    delivered: &str,
) -> Result<Option<flow::Ended>, Failure> {
    let ended = records.find_ended(path, status)?.filter(|(_, found)| found.delivered == delivered);
    Ok(ended.map(|(path, _)| flow::Ended { path: display_path(records, &path) }))
}

fn place(records: &Records, path: &str) -> PathBuf {
    records.place().root().join(path)
}

/// A path as people write it: from the root of the repository.
pub(super) fn display_path(records: &Records, path: &Path) -> String {
    path.strip_prefix(records.place().root()).unwrap_or(path).display().to_string()
}

/// A value as a sentence: a list with semicolons between its items.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::List(items) => items.iter().map(words).collect::<Vec<_>>().join("; "),
        Value::None => String::new(),
        other => other.to_string(),
    }
}

/// What a brief is made of beside its plan.
#[derive(Clone, Copy)]
pub(super) struct BriefSources<'a> {
    /// The run in which it is built; lessons are withheld by its name.
    pub(super) run: &'a RunId,
    /// The text of files.
    pub(super) sources: Sources<'a>,
    /// The limits of builds.
    pub(super) settings: &'a BuildSettings,
    /// What is known of earlier tries at a task.
    pub(super) retried: &'a dyn Fn(&PlanTask) -> Vec<KnownFailure>,
    /// What is to be noted of a task that is told as that story.
    pub(super) noted: &'a dyn Fn(&PlanTask, &str) -> Option<Noted>,
}

/// Writes the brief of a task. One of a campaign is being worked on from now on.
pub(super) fn brief(
    records: &Records,
    plan: &CampaignPlan,
    seq: Option<&str>,
    BriefSources { run, sources, settings, retried, noted }: BriefSources<'_>,
) -> Result<flow::Brief, Failure> {
    let task = match seq {
        Some(seq) => plan.find(seq),
        None => plan.tasks.first().filter(|_| plan.tasks.len() == 1),
    };
    let none = || Failure::new(FailureKind::Failed, "the plan has no such task");
    let task = task.ok_or_else(none)?;
    let withheld = std::cell::RefCell::new(Vec::new());
    let recall = |plan: &CampaignPlan, tasks: &[&PlanTask]| {
        let asks: Vec<String> =
            tasks.iter().map(|task| ftl_records::lessons::asks_with(plan, task)).collect();
        let mut all = records.recall(&asks)?;
        for (recalled, task) in all.iter_mut().zip(tasks) {
            withheld.borrow_mut().extend(records.hold_out(&format!("{run}/{}", task.id()), recalled)?);
            recalled.failures.splice(0..0, retried(task));
        }
        Ok(all)
    };
    let budget = |task: &PlanTask, failures: bool, confidence: f64| {
        let is_small = plan.tasks.len() == 1 && is_small(sources, task);
        settings.budget_of(task, TaskFacts { failures, confidence, is_small })
    };
    let budgets = |task: &PlanTask, failures: bool, confidence: f64| Some(budget(task, failures, confidence));
    records.open_apart()?;
    let story = story_of(plan, task);
    let beginning =
        Beginning { now: &clock::local(), noted: noted(task, &story), is_in_campaign: seq.is_some() };
    let made = records.begin_task((plan, task), (&recall, sources, &budgets), &beginning)?;
    let path = &made.ok_or_else(none)?;
    let brief = records.parse_workspace(path)?;
    let known = brief.prior_knowledge.as_ref().is_some_and(|known| !known.failures.is_empty());
    let granted = budget(task, known, brief.framework_confidence.unwrap_or(0.0));
    Ok(flow::Brief {
        path: display_path(records, path),
        id: Some(task.id()),
        mode: granted.mode,
        budget: granted.tools,
        full_budget: granted.full_tools,
        story,
        overlaps: overlaps(records, task)?,
        left_out: None,
        withheld: Some(withheld.into_inner()).filter(|names| !names.is_empty()),
    })
}

/// What other runs are changing too, in words; nothing where they change nothing that this task does.
fn overlaps(records: &Records, task: &PlanTask) -> Result<Option<Vec<String>>, Failure> {
    let both = records.overlaps(&task.delta)?;
    let told: Vec<String> = both.into_iter().map(|(path, run)| format!("{path} (run {run})")).collect();
    Ok((!told.is_empty()).then_some(told))
}

/// A task as a coder is told it: what it is called, what is wanted, and how it can be told that it is done.
fn story_of(plan: &CampaignPlan, task: &PlanTask) -> String {
    let name = task.slug.replace('-', " ");
    let mut letters = name.chars();
    let name: String =
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default();
    let story = task.story.as_ref().map(|story| format!("{}\n\n", story.trim())).unwrap_or_default();
    let files = match task.delta.is_empty() {
        true => String::new(),
        false => format!("It is expected to change: {}.\n", task.delta.join(", ")),
    };
    format!("{name}\n\n{story}It is part of: {}\n{files}This must pass: {}\n", plan.objective, task.verify)
}

pub(super) fn read_plan(shape: &PlanShape) -> Result<CampaignPlan, Failure> {
    let json = json_of(shape)?;
    let how = Reading { objective: Some(&shape.objective), ..Reading::default() };
    plan_file::check(&json, how).map_err(|errors| Failure::from(RecordError::from(errors)))
}

/// Whether a task changes one file that a brief shows whole.
fn is_small(sources: Sources<'_>, task: &PlanTask) -> bool {
    let [path] = task.delta.as_slice() else { return false };
    let source = sources(path).unwrap_or_default();
    source.iter().filter(|byte| **byte == b'\n').count() <= DIRECT_LINES
}

fn soundness(spec: &Spec) -> flow::Soundness {
    let mut problems = Vec::new();
    if spec.delta.is_empty() {
        problems.push(String::from("no file may change"));
    }
    if spec.verify.trim().is_empty() {
        problems.push(String::from("no command shows whether it is done"));
    }
    if spec.budget == 0 {
        problems.push(String::from("the budget is 0"));
    }
    if spec.status != WorkspaceStatus::Active {
        problems.push(String::from("the workspace is not active"));
    }
    let summary = if problems.is_empty() { String::from("sound") } else { problems.join("; ") };
    flow::Soundness {
        passed: problems.is_empty(),
        failed: !problems.is_empty(),
        summary,
        tree: None,
        problems,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_limit_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: usize| {
            std::fs::write(folder.path().join("a.txt"), "x".repeat(bytes)).unwrap();
            let read = file_text(folder.path(), "a.txt").unwrap();
            (read.text.len(), read.truncated)
        };
        assert_eq!(read(MAX_FILE_BYTES), (MAX_FILE_BYTES, Some(false)));
        assert_eq!(read(MAX_FILE_BYTES + 1), (MAX_FILE_BYTES, Some(true)));
    }
}
