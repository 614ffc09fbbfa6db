//! The plan: `planning/planning.ai.json` with its files and its open questions.
//!
//! Two shapes are read: the one that `ftl` writes (id, title, brief, scope, file_plan …), and the older one
//! (meta, why, what, draft_files …). A plan that breaks a rule of its shape is malformed; one that is whole
//! and leaves a question open, or names no file, is a plan that does not hold yet.

use std::collections::BTreeSet;

use ftl_core::catalogue::lifecycle::PlanEvidence;
use ftl_core::catalogue::scalars::Digest;

use super::artifact::{ArtifactFile, JsonView, Malformed};
use super::folder::{PLAN, PLAN_FILES, TaskFolder, path_problem, plain_path};
use super::questions;

/// What happens to a file of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It is made or changed.
    Write,
    /// It is removed by the patch.
    Delete,
}

const INTENTS: [(&str, Intent); 6] = [
    ("create", Intent::Write),
    ("update", Intent::Write),
    ("create_or_update", Intent::Write),
    ("modify", Intent::Write),
    ("delete", Intent::Delete),
    ("remove", Intent::Delete),
];

/// A plan that was read and keeps the rules of its shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanArtifact {
    /// The digest of its bytes.
    pub digest: String,
    /// The title of the task.
    pub title: String,
    /// The brief of the task.
    pub brief: String,
    /// The files that it names, in its order, and what happens to each.
    pub named: Vec<(String, Intent)>,
    /// The blocking questions that have no answer.
    pub questions: Vec<String>,
    /// Whether it may come to nothing: a patch without a change is complete.
    pub may_be_empty: bool,
}

impl PlanArtifact {
    /// Reads the plan of a task; nothing where there is none.
    pub fn read(folder: &TaskFolder) -> Result<Option<PlanArtifact>, Malformed> {
        let Some(artifact) = folder.read(PLAN)? else { return Ok(None) };
        PlanArtifact::of(&artifact).map(Some)
    }

    fn of(artifact: &ArtifactFile) -> Result<PlanArtifact, Malformed> {
        let root = artifact.root()?;
        let mut plan = if is_older(&root) { older(&root)? } else { documented(&root)? };
        plan.digest = artifact.digest().to_string();
        plan.questions = questions::of_plan(&root)?;
        plan.may_be_empty = root.flag("allow_empty_diff")?.unwrap_or(false);
        super::signals::signals(&root)?;
        Ok(plan)
    }
}

/// Whether it has the older shape: it has none of what the newer one must have.
fn is_older(root: &JsonView<'_>) -> bool {
    let newer = ["id", "title", "brief"].iter().any(|key| root.has(key));
    let older = ["meta", "why", "what", "requirements", "draft_files", "file_impacts"];
    !newer && older.iter().any(|key| root.has(key))
}

fn documented(root: &JsonView<'_>) -> Result<PlanArtifact, Malformed> {
    root.need_text("id")?;
    let (title, brief) = (root.need_text("title")?.to_owned(), root.need_text("brief")?.to_owned());
    if let Some(scope) = root.field("scope") {
        scope.is_object()?;
        scope.need("in_scope")?;
        scope.texts("in_scope")?;
        scope.texts("out_of_scope")?;
    }
    for criterion in root.list("acceptance_criteria")? {
        if criterion.json().is_object() {
            criterion.need_text("description")?;
        } else {
            criterion.as_text()?;
        }
    }
    work(root)?;
    let named = files(root, "file_plan", "intent", true)?;
    Ok(PlanArtifact { title, brief, named, ..PlanArtifact::default() })
}

/// Tasks have names of their own, and milestones name tasks that there are.
fn work(root: &JsonView<'_>) -> Result<(), Malformed> {
    let Some(work) = root.field("work") else { return Ok(()) };
    work.is_object()?;
    let mut ids = BTreeSet::new();
    for task in work.objects("tasks")? {
        let id = task.need_text("id")?;
        task.need_text("title")?;
        if !ids.insert(id) {
            return Err(task.wrong(format!("has the name `{id}`, and so has another one")));
        }
    }
    for milestone in work.objects("milestones")? {
        for task in milestone.list("tasks")? {
            let id = task.as_text()?;
            if !ids.contains(id) {
                return Err(task.wrong(format!("names the task `{id}`, and there is none")));
            }
        }
    }
    Ok(())
}

fn older(root: &JsonView<'_>) -> Result<PlanArtifact, Malformed> {
    let title = match root.field("meta") {
        Some(meta) => {
            meta.is_object()?;
            meta.text("title")?.unwrap_or_default().to_owned()
        }
        None => String::new(),
    };
    let what = root.text("what")?.unwrap_or_default();
    let why = root.text("why")?.unwrap_or_default();
    if [title.as_str(), what, why].iter().all(|text| text.trim().is_empty()) {
        return Err(root.wrong("says neither what nor why"));
    }
    let mut named: Vec<(String, Intent)> = Vec::new();
    for item in root.list("draft_files")? {
        named.push((checked(&item, item.as_text()?)?, Intent::Write));
    }
    let impacts = files(root, "file_impacts", "type", false)?;
    if named.is_empty() {
        named = impacts;
    }
    let brief = if what.is_empty() { why } else { what };
    Ok(PlanArtifact { title, brief: brief.to_owned(), named, ..PlanArtifact::default() })
}

/// The files of a list of objects with a path.
fn files(
    root: &JsonView<'_>,
    list: &str,
    intent: &str,
    needed: bool,
) -> Result<Vec<(String, Intent)>, Malformed> {
    let mut named: Vec<(String, Intent)> = Vec::new();
    for file in root.objects(list)? {
        file.need_text("path")?;
        let field = file.need("path")?;
        let path = checked(&field, field.as_text()?)?;
        if needed {
            file.need(intent)?;
        }
        let intent = file.word(intent, &INTENTS)?.unwrap_or(Intent::Write);
        if named.iter().any(|(known, _)| *known == path) {
            return Err(field.wrong(format!("is `{path}`, and so is another one")));
        }
        named.push((path, intent));
    }
    Ok(named)
}

fn checked(field: &JsonView<'_>, path: &str) -> Result<String, Malformed> {
    let path = plain_path(path);
    match path_problem(&path) {
        Some(problem) => Err(field.wrong(format!("{problem}: `{path}`"))),
        None => Ok(path),
    }
}

/// The files that a task may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileScope {
    /// The files, and what happens to each.
    pub files: Vec<(String, Intent)>,
    /// Whether they are written down, and not inferred.
    pub written: bool,
}

impl FileScope {
    /// The files of `plan.files.json`, or those that the plan names.
    pub fn read(folder: &TaskFolder, plan: Option<&PlanArtifact>) -> Result<FileScope, Malformed> {
        let inferred = plan.map(|plan| plan.named.clone()).unwrap_or_default();
        let Some(artifact) = folder.read(PLAN_FILES)? else {
            return Ok(FileScope { files: inferred, written: false });
        };
        let root = artifact.root()?;
        let list = root.need("files")?;
        let mut files: Vec<(String, Intent)> = Vec::new();
        for item in list.as_list()? {
            let path = checked(&item, item.as_text()?)?;
            if files.iter().any(|(known, _)| *known == path) {
                return Err(item.wrong(format!("is `{path}`, and so is another one")));
            }
            let known = inferred.iter().find(|(known, _)| *known == path).map(|(_, intent)| *intent);
            files.push((path, known.unwrap_or(Intent::Write)));
        }
        Ok(FileScope { files, written: true })
    }

    /// The paths of the files, without what happens to them.
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().map(|(path, _)| path.clone()).collect()
    }
}

/// What the plan's artifacts show.
pub fn evidence(folder: &TaskFolder) -> Result<PlanEvidence, Malformed> {
    let plan = PlanArtifact::read(folder)?;
    let scope = FileScope::read(folder, plan.as_ref())?;
    let mut questions = plan.as_ref().map(|plan| plan.questions.clone()).unwrap_or_default();
    questions.extend(questions::of_meeting(folder)?);
    let mut missing = Vec::new();
    if plan.is_none() {
        missing.push(format!("{PLAN} is missing"));
    }
    for question in &questions {
        missing.push(format!("a blocking question is open: {question}"));
    }
    if plan.is_some() && scope.files.is_empty() {
        missing.push(if scope.written {
            format!("{PLAN_FILES} lists no file")
        } else {
            format!("{PLAN_FILES} is missing, and the plan names no file")
        });
    }
    let says = super::signals::signals_of(folder, PLAN)?;
    for signal in &says {
        missing.push(format!("the planner says {signal}"));
    }
    let passed = missing.is_empty();
    let summary = match (&plan, passed) {
        (None, _) => String::from("there is no plan"),
        (Some(plan), true) => {
            let files = if scope.files.len() == 1 { "file" } else { "files" };
            format!("the plan \"{}\" touches {} {files}", plan.title, scope.files.len())
        }
        (Some(_), false) => missing.join("; "),
    };
    Ok(PlanEvidence {
        passed,
        failed: plan.is_some() && !passed,
        summary,
        tree: None,
        missing,
        plan: plan.as_ref().map(|plan| Digest::new(&plan.digest)),
        questions,
        files: scope.paths(),
    })
}
