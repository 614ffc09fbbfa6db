//! Planner, reviewers and coder of a task: what they are told, and what their answers become.
//!
//! Planner and reviewers write nothing: they submit, and `ftl` writes the artifact. Each reviewer is a session of
//! its own, for one concern. The coder works in the worktree of its instance, may write the files of the plan and
//! no others, and what differs there afterwards is the patch, whatever it says. What gives way is kept.

use std::sync::Arc;

use ftl_agents::secrets::Secrets;
use ftl_core::catalogue::lifecycle::{Finding, Severity, Signal};
use ftl_core::catalogue::roles::{
    CodeReviews, FileIntent, PhaseDone, PlanReviews, Reviewer, ReviewerDecision, TaskPlan,
};
use ftl_core::json::{Json, JsonExt as _};
use ftl_core::run::{ActionTarget, Failure, FailureKind, Usage};
use ftl_core::value::{Fields, Name, Value};
use ftl_settings::prompts::Concern;
use serde::Deserialize as _;

use super::{disk, folder};
use crate::executors::worktrees::Sites;
use crate::executors::worktrees::task::Made;
use crate::executors::{Executor, Job, JobEnd, Report};
use ftl_lifecycle::folder::{
    CODE_REVIEW, CODEGEN, FILES, PATCH, PLAN, PLAN_FILES, PLAN_REVIEW, PLAN_TEXT, TaskFolder, path_problem,
};
use ftl_lifecycle::phases::StepWork;
use ftl_lifecycle::plan::{FileScope, PlanArtifact};
use ftl_lifecycle::registry;
use ftl_lifecycle::write::now;
use ftl_records::Records;
use ftl_settings::roster::UNPRICED;

/// How much of a patch a reviewer is shown.
const MAX_SHOWN_BYTES: usize = 256 * 1024;

/// An agent that knows the task it works for.
pub(super) struct Phases {
    pub(super) records: Arc<Records>,
    pub(super) sites: Arc<Sites>,
    pub(super) secrets: Arc<Secrets>,
    /// The concerns that reviewers speak for, each in a session of its own.
    pub(super) concerns: Vec<Concern>,
    pub(super) inner: Arc<dyn Executor>,
}

impl Executor for Phases {
    fn perform(&self, job: &Job) -> Report {
        // A run that is of no task is none of ours.
        match registry::task_of(&**self.records.store(), &job.run) {
            Ok(Some(_)) => {}
            Ok(None) => return self.inner.perform(job),
            Err(error) => return Report::failed(job, error.into()),
        }
        let role = match &job.action.wanted {
            ActionTarget::Task { role, .. } => role.to_string(),
            ActionTarget::Action(_) | ActionTarget::Word(_) | ActionTarget::Question => {
                return self.inner.perform(job);
            }
        };
        let done = match role.as_str() {
            "planner" => self.plan(job),
            "reviewers" => self.review(job),
            _ => self.code(job),
        };
        done.unwrap_or_else(|failure| Report::failed(job, failure))
    }
}

type Performed = Result<Report, Failure>;

impl Phases {
    /// Asks the agent with other parameters. What it answers is written down here, so secrets go first.
    fn ask(&self, job: &Job, params: Fields) -> Report {
        let mut asked = job.clone();
        asked.action.params = params;
        job.mark_asked();
        self.inner.perform(&asked).hiding(&self.secrets)
    }

    fn plan(&self, job: &Job) -> Performed {
        let folder = folder(&self.records, job)?;
        let mut params = job.action.params.clone();
        params.remove("write");
        let report = self.ask(job, params);
        let JobEnd::Done(value) = &report.ended else { return Ok(report) };
        let plan: TaskPlan = value.to().map_err(|error| unfit(&error))?;
        sound(&plan)?;
        write_plan(&folder, &plan)?;
        Ok(report)
    }

    fn review(&self, job: &Job) -> Performed {
        let folder = folder(&self.records, job)?;
        let of_plan = job.action.params.get("of").and_then(Value::as_text) == Some("plan");
        let mut params = job.action.params.clone();
        params.remove("write");
        tell(&folder, &mut params, !of_plan)?;
        let (mut plans, mut codes) = (Vec::new(), Vec::new());
        let mut whole: Option<Report> = None;
        for concern in &self.concerns {
            let mut params = params.clone();
            params.insert(Name::from("concern"), Value::text(asked_concern(concern)));
            let concern = concern.name.as_str();
            let report = self.ask(job, params);
            let JobEnd::Done(value) = &report.ended else { return Ok(merged(whole, report)) };
            if of_plan {
                plans.push((concern, value.to::<PlanReviews>().map_err(|error| unfit(&error))?));
            } else {
                codes.push((concern, value.to::<CodeReviews>().map_err(|error| unfit(&error))?));
            }
            whole = Some(merged(whole, report));
        }
        let value =
            if of_plan { write_plan_review(&folder, plans)? } else { write_code_review(&folder, codes)? };
        let usage = whole.map(|report| report.usage).unwrap_or_default();
        Ok(Report { ended: JobEnd::Done(value), usage })
    }

    fn code(&self, job: &Job) -> Performed {
        let folder = folder(&self.records, job)?;
        let plan = PlanArtifact::read(&folder)?;
        let planned = FileScope::read(&folder, plan.as_ref())?.paths();
        if planned.is_empty() {
            return Err(Failure::new(
                FailureKind::Failed,
                "the plan names no file: there is nothing to write",
            ));
        }
        self.sites.tidy(job, &planned)?;
        let mut params = job.action.params.clone();
        tell(&folder, &mut params, false)?;
        let paths: Vec<Value> = planned.iter().map(Value::text).collect();
        params.insert(Name::from("write"), Value::List(paths.into()));
        let report = self.ask(job, params);
        let JobEnd::Done(value) = &report.ended else { return Ok(report) };
        let said: PhaseDone = value.to().map_err(|error| unfit(&error))?;
        write_code(&folder, plan.as_ref(), &said, &self.sites.made(job)?)?;
        Ok(report)
    }
}

/// A concern as its reviewer is told it.
fn asked_concern(concern: &Concern) -> String {
    let Concern { name, about } = concern;
    if about.is_empty() { name.clone() } else { format!("{name}: {about}") }
}

/// Two reports as one: what is unknown of either is unknown.
fn merged(before: Option<Report>, mut now: Report) -> Report {
    if let Some(before) = before {
        // Conversations without a price are counted; that neither had one is nothing unknown.
        let unpriced = |usage: &Usage| usage.get(UNPRICED).copied().unwrap_or(0);
        let sum = unpriced(&before.usage) + unpriced(&now.usage);
        now.usage.retain(|meter, _| before.usage.contains_key(meter));
        for (meter, used) in &before.usage {
            if let Some(sum) = now.usage.get_mut(meter) {
                *sum = sum.saturating_add(*used);
            }
        }
        now.usage.extend((sum > 0).then(|| (Name::from(UNPRICED), sum)));
    }
    now
}

fn unfit(error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::Failed, format!("the answer does not fit: {error}"))
}

/// Tells an agent what the task is, its plan, and its patch where it is to be read.
fn tell(folder: &TaskFolder, params: &mut Fields, patch: bool) -> Result<(), Failure> {
    params.insert(Name::from("brief"), Value::text(registry::brief(folder)));
    if let Some(plan) = folder.read(PLAN)? {
        let plan = Value::deserialize(plan.json())
            .map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))?;
        params.insert(Name::from("plan"), plan);
    }
    if patch && let Some(bytes) = folder.bytes(PATCH)? {
        params.insert(Name::from("patch"), Value::text(render_patch(&bytes)));
    }
    Ok(())
}

/// A patch as a reviewer reads it.
fn render_patch(patch: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&patch[..patch.len().min(MAX_SHOWN_BYTES)]).into_owned();
    if patch.len() > MAX_SHOWN_BYTES {
        text.push_str("\n(the rest is not shown)\n");
    }
    text
}

fn signals(signals: Option<&Vec<Signal>>) -> Result<Json, Failure> {
    serde_json::to_value(signals.map(Vec::as_slice).unwrap_or_default())
        .map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))
}

fn write_plan(folder: &TaskFolder, plan: &TaskPlan) -> Result<(), Failure> {
    let texts = |texts: &[String]| Json::from(texts.to_vec());
    let numbered = |prefix: &str, texts: &[String]| {
        let one = |(number, text): (usize, &String)| {
            Json::object([
                ("id", Json::from(format!("{prefix}{}", number + 1))),
                ("description", Json::from(text.as_str())),
            ])
        };
        Json::Array(texts.iter().enumerate().map(one).collect())
    };
    let intent = |intent: &FileIntent| serde_json::to_value(intent).unwrap_or_default();
    let file = |file: &ftl_core::catalogue::roles::PlannedFile| {
        let mut json =
            Json::object([("path", Json::from(file.path.as_str())), ("intent", intent(&file.intent))]);
        if let Some(summary) = &file.summary {
            json.put("summary", summary.as_str());
        }
        json
    };
    let questions = plan.open_questions.clone().unwrap_or_default();
    let question = |(number, one): (usize, &ftl_core::catalogue::roles::PlanQuestion)| {
        Json::object([
            ("id", Json::from(format!("Q{}", number + 1))),
            ("role", Json::from(one.role.clone())),
            ("question", Json::from(one.question.as_str())),
            ("blocking", Json::from(one.blocking)),
            ("state", Json::from("open")),
            ("answer", Json::Null),
        ])
    };
    let json = Json::object([
        ("id", Json::from(folder.id().as_str())),
        ("title", Json::from(plan.title.as_str())),
        ("brief", Json::from(registry::brief(folder))),
        ("summary", Json::from(plan.summary.as_str())),
        (
            "scope",
            Json::object([
                ("in_scope", texts(&plan.in_scope)),
                ("out_of_scope", texts(plan.out_of_scope.as_deref().unwrap_or_default())),
            ]),
        ),
        ("acceptance_criteria", numbered("AC", &plan.acceptance_criteria)),
        ("file_plan", Json::Array(plan.file_plan.iter().map(file).collect())),
        ("risks", numbered("R", plan.risks.as_deref().unwrap_or_default())),
        ("test_plan", Json::object([("strategy", Json::from(plan.test_plan.clone()))])),
        ("open_questions", Json::Array(questions.iter().enumerate().map(question).collect())),
        ("signals", signals(plan.signals.as_ref())?),
        ("meta", Json::object([("created_at", Json::from(now())), ("generator", Json::from("ftl"))])),
    ]);
    let files: Vec<String> = plan.file_plan.iter().map(|file| file.path.clone()).collect();
    let put = || -> std::io::Result<()> {
        folder.archive(StepWork::Plan.artifacts())?;
        folder.put(PLAN_TEXT, plan_text(plan).as_bytes())?;
        folder.put_json(PLAN_FILES, &Json::object([("files", Json::from(files))]))?;
        folder.put_json(PLAN, &json)
    };
    put().map_err(|error| disk(&error))
}

/// Whether the files of a plan are inside of the repository, and each named once.
fn sound(plan: &TaskPlan) -> Result<(), Failure> {
    let wrong = |message: String| Failure::new(FailureKind::Failed, message);
    let mut seen = std::collections::BTreeSet::new();
    for file in &plan.file_plan {
        if let Some(problem) = path_problem(&file.path) {
            return Err(wrong(format!("a path of the plan {problem}: `{}`", file.path)));
        }
        if !seen.insert(&file.path) {
            return Err(wrong(format!("the plan names `{}` twice", file.path)));
        }
    }
    if plan.title.trim().is_empty() { Err(wrong(String::from("the plan has no title"))) } else { Ok(()) }
}

/// The plan for people.
fn plan_text(plan: &TaskPlan) -> String {
    let list = |title: &str, items: &[String]| match items {
        [] => String::new(),
        some => format!(
            "\n## {title}\n\n{}\n",
            some.iter().map(|one| format!("- {one}")).collect::<Vec<_>>().join("\n")
        ),
    };
    let files: Vec<String> = plan
        .file_plan
        .iter()
        .map(|file| format!("`{}`: {}", file.path, file.summary.as_deref().unwrap_or("see the summary")))
        .collect();
    let questions = plan.open_questions.as_deref().unwrap_or_default();
    let questions: Vec<String> = questions.iter().map(|one| one.question.clone()).collect();
    format!(
        "# {}\n\n{}\n{}{}{}{}{}{}",
        plan.title,
        plan.summary,
        list("In scope", &plan.in_scope),
        list("Out of scope", plan.out_of_scope.as_deref().unwrap_or_default()),
        list("Done when", &plan.acceptance_criteria),
        list("Files", &files),
        list("Risks", plan.risks.as_deref().unwrap_or_default()),
        list("Open questions", &questions)
    )
}

/// One reviewer, with the role that it was asked in, whatever it calls itself.
fn of_concern(concern: &str, mut reviewer: Reviewer, alone: bool) -> Reviewer {
    reviewer.role = Some(concern.to_owned());
    let id = concern.replace(' ', "-");
    reviewer.id = if alone { id } else { format!("{id}:{}", reviewer.id) };
    reviewer
}

fn write_plan_review(folder: &TaskFolder, said: Vec<(&str, PlanReviews)>) -> Result<Value, Failure> {
    let (mut reviewers, mut all, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
    for (concern, reviews) in said {
        if reviews.reviewers.is_empty() {
            let message = format!("the reviewer for {concern} gave no verdict");
            return Err(Failure::new(FailureKind::Failed, message));
        }
        summaries.push(format!("{concern}: {}", reviews.summary));
        all.extend(reviews.signals.unwrap_or_default());
        let alone = reviews.reviewers.len() == 1;
        reviewers.extend(reviews.reviewers.into_iter().map(|one| of_concern(concern, one, alone)));
    }
    let blocks = |one: &Reviewer| {
        one.decision == Some(ReviewerDecision::Blocked)
            || one.blocking_issues.as_ref().is_some_and(|all| !all.is_empty())
    };
    let wants = |one: &Reviewer| !one.ok || matches!(one.decision, Some(ReviewerDecision::NeedsChanges));
    let blocked = reviewers.iter().any(blocks) || all.contains(&Signal::Blocked);
    let ok = !blocked && !reviewers.iter().any(wants) && all.is_empty();
    let decision = match (blocked, ok) {
        (true, _) => "blocked",
        (false, true) => "accepted",
        (false, false) => "needs_changes",
    };
    let answer = PlanReviews { summary: summaries.join("\n"), reviewers, signals: Some(all) };
    let plan = folder.digest(PLAN)?.map(|digest| digest.to_string());
    let json = Json::object([
        ("task_id", Json::from(folder.id().as_str())),
        ("ok", Json::from(ok)),
        ("blocked", Json::from(blocked)),
        ("aggregate", Json::object([("ok", Json::from(ok)), ("decision", Json::from(decision))])),
        ("summary", Json::from(answer.summary.as_str())),
        (
            "reviewers",
            without_nulls(serde_json::to_value(&answer.reviewers).map_err(|error| not_json(&error))?),
        ),
        ("signals", signals(answer.signals.as_ref())?),
        ("meta", meta("plan_hash", plan.as_deref())),
    ]);
    put(folder, StepWork::PlanReview, PLAN_REVIEW, &json)?;
    Value::of(&answer).map_err(|error| unfit(&error))
}

fn write_code_review(folder: &TaskFolder, said: Vec<(&str, CodeReviews)>) -> Result<Value, Failure> {
    let (mut issues, mut all, mut summaries, mut reviewers) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (concern, reviews) in said {
        let blocks = reviews.issues.iter().any(|issue| issue.severity == Severity::Blocking);
        let signals = reviews.signals.unwrap_or_default();
        let reviewer = [
            ("id", Json::from(concern.replace(' ', "-"))),
            ("role", Json::from(concern)),
            ("ok", Json::from(!blocks && signals.is_empty())),
            ("summary", Json::from(reviews.summary.as_str())),
        ];
        reviewers.push(Json::object(reviewer));
        summaries.push(format!("{concern}: {}", reviews.summary));
        all.extend(signals);
        issues
            .extend(reviews.issues.into_iter().map(|one| Finding { role: Some(concern.to_owned()), ..one }));
    }
    for (number, issue) in issues.iter_mut().enumerate() {
        issue.id = Some(format!("F{}", number + 1));
    }
    // A reviewer that found something blocking is not asked for changes on top of it: the finding says where to go.
    let flags = reviewers.iter_mut().filter(|one| one.get("ok") == Some(&Json::Bool(false)));
    flags.for_each(|one| one.put("ok", Json::Null));
    let answer = CodeReviews { summary: summaries.join("\n"), issues, signals: Some(all) };
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    let json = Json::object([
        ("task_id", Json::from(folder.id().as_str())),
        ("issues", without_nulls(serde_json::to_value(&answer.issues).map_err(|error| not_json(&error))?)),
        ("summary", Json::from(answer.summary.as_str())),
        ("reviewers", without_nulls(Json::Array(reviewers))),
        ("signals", signals(answer.signals.as_ref())?),
        ("meta", meta("diff_hash", patch.as_deref())),
    ]);
    put(folder, StepWork::CodeReview, CODE_REVIEW, &json)?;
    Value::of(&answer).map_err(|error| unfit(&error))
}

fn write_code(
    folder: &TaskFolder,
    plan: Option<&PlanArtifact>,
    said: &PhaseDone,
    made: &Made,
) -> Result<(), Failure> {
    let mut meta = Json::object([("created_at", Json::from(now()))]);
    if let Some(plan) = plan {
        meta.put("plan_hash", plan.digest.as_str());
    }
    let json = Json::object([
        ("task_id", Json::from(folder.id().as_str())),
        ("summary", Json::from(said.summary.as_str())),
        ("signals", signals(said.signals.as_ref())?),
        ("meta", meta),
    ]);
    let put = || -> std::io::Result<()> {
        folder.archive(StepWork::Code.artifacts())?;
        for (path, bytes) in &made.files {
            folder.put(&format!("{FILES}/{path}"), bytes)?;
        }
        folder.put_json(CODEGEN, &json)?;
        if made.patch.is_empty() { Ok(()) } else { folder.put(PATCH, &made.patch) }
    };
    put().map_err(|error| disk(&error))
}

fn put(folder: &TaskFolder, work: StepWork, name: &str, json: &Json) -> Result<(), Failure> {
    folder.archive(work.artifacts()).and_then(|_| folder.put_json(name, json)).map_err(|error| disk(&error))
}

fn meta(key: &str, digest: Option<&str>) -> Json {
    let mut meta = Json::object([("created_at", Json::from(now())), ("generator", Json::from("ftl"))]);
    if let Some(digest) = digest {
        meta.put(key, digest);
    }
    meta
}

fn not_json(error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::CouldNotRun, error.to_string())
}

/// The same without fields that say nothing.
fn without_nulls(json: Json) -> Json {
    match json {
        Json::Array(items) => Json::Array(items.into_iter().map(without_nulls).collect()),
        Json::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Json::object(fields.map(|(key, value)| (key, without_nulls(value))))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_patch_is_shown_in_part_and_says_so() {
        assert_eq!(render_patch(&b"x".repeat(MAX_SHOWN_BYTES)).len(), MAX_SHOWN_BYTES);
        let long = render_patch(&b"x".repeat(MAX_SHOWN_BYTES + 1));
        assert_eq!(long, format!("{}\n(the rest is not shown)\n", "x".repeat(MAX_SHOWN_BYTES)));
    }
}
