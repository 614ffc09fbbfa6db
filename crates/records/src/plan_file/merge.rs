//! Merges a revised plan into the tasks of a campaign, whole or not at all.
//!
//! What is complete or at work stays as it is. What is blocked and stands in the revision gets a new try; what was only
//! blocked because of it can run again too. New tasks come last. The whole graph is proven before anything is answered.

use std::collections::HashMap;

use ftl_core::plan::{Graph, PlanProblem, Seq, TaskStatus, parse_status};

use super::errors::{Found, PlanErrors};
use super::{CampaignPlan, DEFAULT_BUDGET, DirectMode, PlanTask, Spelled, TaskType, Worker, fields};
use ftl_core::json::{Json, JsonExt as _};

/// A task of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignTask {
    /// What the plan says about it.
    pub task: PlanTask,
    /// How far it has come.
    pub status: TaskStatus,
    /// When its status last changed.
    pub updated_at: Option<String>,
    /// The tasks that keep it from running, by seq; only for a task that is blocked because of others.
    pub blocked_by: Vec<String>,
    /// The tasks that are blocked by themselves and keep it from running, by seq.
    pub root_causes: Vec<String>,
    /// When a revised plan changed it.
    pub revised_at: Option<String>,
}

/// The plan after a merge, and what changed.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedPlan {
    /// The tasks as they are now, old ones in their order, new ones last.
    pub tasks: Vec<CampaignTask>,
    /// The seqs of the tasks that changed or are new, in that order.
    pub changed: Vec<String>,
    /// How many tasks are as they were.
    pub unchanged: usize,
    /// The seqs of tasks that the revision would change, but they are at work or complete.
    pub kept: Vec<String>,
}

impl CampaignTask {
    /// A task that has not begun.
    pub fn pending(task: PlanTask) -> CampaignTask {
        CampaignTask {
            task,
            status: TaskStatus::Pending,
            updated_at: None,
            blocked_by: Vec::new(),
            root_causes: Vec::new(),
            revised_at: None,
        }
    }

    /// Forgets that others keep it from running.
    pub fn unblock(&mut self) {
        self.blocked_by.clear();
        self.root_causes.clear();
    }

    /// Gives it a status; what blocked it before does not count any more.
    pub fn settle(&mut self, status: TaskStatus, now: &str) {
        self.status = status;
        self.updated_at = Some(now.to_owned());
        self.unblock();
    }

    /// Whether it is blocked only because others are.
    pub fn is_cascade(&self) -> bool {
        self.status == TaskStatus::Blocked && !self.blocked_by.is_empty()
    }

    /// The task as `campaign.json` has it.
    pub fn to_json(&self) -> Json {
        let mut json = Json::object([
            ("seq", Json::from(self.task.seq.as_str())),
            ("slug", Json::from(self.task.slug.as_str())),
            ("type", Json::from(self.task.kind.word())),
            ("depends", self.task.depends_json()),
            ("status", Json::from(self.status.word())),
        ]);
        if let Some(at) = &self.updated_at {
            json.put("updated_at", at.as_str());
        }
        if self.is_cascade() {
            json.put("blocked_by", Json::from(self.blocked_by.as_slice()));
            json.put("cascade", true);
            json.put("root_causes", Json::from(self.root_causes.as_slice()));
        }
        if let Some(at) = &self.revised_at {
            json.put("revised_at", at.as_str());
        }
        for (key, value) in self.task.to_json().into_fields() {
            if json.get(&key).is_none() {
                json.put(&key, value);
            }
        }
        json
    }
}

/// Merges a revision, read with [`super::Reading::is_revision`], into the tasks of a campaign.
pub fn merge(tasks: &[CampaignTask], revised: &CampaignPlan, now: &str) -> Result<MergedPlan, PlanErrors> {
    let mut work = Work { tasks: tasks.to_vec(), changed: vec![false; tasks.len()], kept: Vec::new(), now };
    let places: HashMap<String, usize> =
        tasks.iter().enumerate().map(|(at, task)| (compared(&task.task.seq), at)).collect();
    for task in &revised.tasks {
        match places.get(&compared(&task.seq)) {
            Some(at) => work.revise(*at, task),
            None => work.add(task),
        }
    }
    let graph = work.graph(revised)?;
    work.revive(&graph);
    Ok(work.finish())
}

/// A seq in the one spelling that equals all others of it.
fn compared(seq: &str) -> String {
    match Seq::read(seq) {
        Some(Seq::Number(number)) => number.to_string(),
        Some(Seq::Word(word)) => word.to_owned(),
        None => String::new(),
    }
}

struct Work<'a> {
    tasks: Vec<CampaignTask>,
    changed: Vec<bool>,
    kept: Vec<String>,
    now: &'a str,
}

impl Work<'_> {
    fn revise(&mut self, at: usize, revised: &PlanTask) {
        let old = &mut self.tasks[at];
        let differs = !same_work(&old.task, revised);
        match old.status {
            TaskStatus::Complete | TaskStatus::InProgress => {
                if differs {
                    self.kept.push(old.task.seq.clone());
                }
            }
            TaskStatus::Pending if !differs => {}
            TaskStatus::Pending | TaskStatus::Blocked => {
                // The campaign's own spelling of the seq stays: files are named by it.
                let seq = std::mem::take(&mut old.task.seq);
                old.task = PlanTask { seq, ..revised.clone() };
                old.status = TaskStatus::Pending;
                old.unblock();
                old.revised_at = Some(self.now.to_owned());
                self.changed[at] = true;
            }
        }
    }

    fn add(&mut self, task: &PlanTask) {
        let revised_at = Some(self.now.to_owned());
        self.tasks.push(CampaignTask { revised_at, ..CampaignTask::pending(task.clone()) });
        self.changed.push(true);
    }

    /// Proves the whole graph, or tells what is wrong with paths into the revision.
    fn graph(&self, revised: &CampaignPlan) -> Result<Graph, PlanErrors> {
        let tasks: Vec<(&str, &[String])> =
            self.tasks.iter().map(|task| (task.task.seq.as_str(), task.task.depends.as_slice())).collect();
        let problems = match Graph::build(&tasks) {
            Ok(graph) => return Ok(graph),
            Err(problems) => problems,
        };
        let mut found = Found::default();
        for problem in &problems {
            found.add(path_of(problem, revised), fields::describe_problem(problem), problem.hint());
        }
        found.or(Graph::default())
    }

    /// Gives back what was blocked only because of tasks that can run again.
    fn revive(&mut self, graph: &Graph) {
        let mut dead = vec![false; self.tasks.len()];
        for place in graph.order() {
            let behind: Vec<String> = graph
                .depends(*place)
                .iter()
                .filter(|parent| dead[parent.index()])
                .map(|parent| graph.seq(*parent).to_string())
                .collect();
            let task = &mut self.tasks[place.index()];
            let is_cascade = task.is_cascade();
            dead[place.index()] = match task.status {
                TaskStatus::Complete | TaskStatus::InProgress => false,
                TaskStatus::Pending => !behind.is_empty(),
                TaskStatus::Blocked => !is_cascade || !behind.is_empty(),
            };
            if is_cascade && behind.is_empty() {
                task.status = TaskStatus::Pending;
                task.unblock();
                task.revised_at = Some(self.now.to_owned());
                self.changed[place.index()] = true;
            } else if is_cascade {
                task.blocked_by = behind;
            } else if task.status != TaskStatus::Blocked {
                task.unblock();
            }
        }
    }

    fn finish(self) -> MergedPlan {
        let changed: Vec<String> = self
            .tasks
            .iter()
            .zip(&self.changed)
            .filter(|(_, changed)| **changed)
            .map(|(task, _)| task.task.seq.clone())
            .collect();
        let unchanged = self.tasks.len() - changed.len();
        MergedPlan { tasks: self.tasks, changed, unchanged, kept: self.kept }
    }
}

/// Whether two tasks ask for the same work, however their seqs are spelled.
fn same_work(old: &PlanTask, new: &PlanTask) -> bool {
    let depends = |task: &PlanTask| task.depends.iter().map(|seq| compared(seq)).collect::<Vec<_>>();
    let rest = |task: &PlanTask| PlanTask { seq: String::new(), depends: Vec::new(), ..task.clone() };
    depends(old) == depends(new) && rest(old) == rest(new)
}

fn path_of(problem: &PlanProblem, revised: &CampaignPlan) -> String {
    let seq = match problem {
        PlanProblem::Unknown { seq, .. }
        | PlanProblem::Itself { seq }
        | PlanProblem::Duplicate { seq, .. } => Some(seq),
        PlanProblem::Cycle { path } => path.iter().find(|seq| revised.find(seq).is_some()).or(path.first()),
        PlanProblem::Unnamed { .. }
        | PlanProblem::TooManyTasks { .. }
        | PlanProblem::TooManyDepends { .. } => None,
    };
    let Some(seq) = seq else { return "tasks".to_owned() };
    let place = revised.tasks.iter().position(|task| compared(&task.seq) == compared(seq));
    let field = if matches!(problem, PlanProblem::Duplicate { .. }) { "seq" } else { "depends" };
    place.map_or_else(|| format!("task {seq}"), |at| format!("tasks[{at}].{field}"))
}

/// Reads only what the graph of a campaign is made of: a task's seq, what it depends on, how far it is.
pub(crate) fn read_outline(json: &Json) -> Result<(String, Vec<String>, TaskStatus), String> {
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    let number = || json.get("seq")?.as_whole().map(|number| format!("{number:03}"));
    let seq = text("seq").map(str::to_owned).or_else(number).ok_or("a task has no seq")?;
    let status = parse_status(text("status").unwrap_or("pending"));
    let status = status.map_err(|error| format!("task {seq}: {error}"))?;
    Ok((seq, list(json, "depends"), status))
}

/// Reads a task as `campaign.json` has it, also one of the FTL plugin's, which says less.
pub(crate) fn read_task(json: &Json) -> Result<CampaignTask, String> {
    let text = |key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
    let count = |key: &str| json.get(key).and_then(Json::as_whole).and_then(|n| u64::try_from(n).ok());
    let (seq, depends, status) = read_outline(json)?;
    let kind = [TaskType::Spec, TaskType::Build, TaskType::Verify]
        .into_iter()
        .find(|kind| text("type").as_deref() == Some(kind.word()));
    let worker = [Worker::Builder, Worker::Coder]
        .into_iter()
        .find(|worker| text("worker").as_deref() == Some(worker.word()));
    let target_lines = json.get("target_lines").into_iter().flat_map(Json::fields);
    let task = PlanTask {
        slug: text("slug").unwrap_or_default(),
        kind: kind.unwrap_or(TaskType::Build),
        delta: list(json, "delta"),
        verify: text("verify").unwrap_or_default(),
        verify_source: text("verify_source"),
        budget: count("budget").unwrap_or(DEFAULT_BUDGET),
        budget_given: Spelled(json.get("budget").cloned().unwrap_or_default()),
        direct: [DirectMode::Auto, DirectMode::Never]
            .into_iter()
            .find(|mode| text("direct").as_deref() == Some(mode.word())),
        repairs: count("repairs"),
        plan_reads: count("plan_reads"),
        depends,
        depends_given: Spelled(json.get("depends").cloned().unwrap_or_default()),
        preflight: list(json, "preflight"),
        target_lines: target_lines
            .filter_map(|(path, lines)| Some((path.clone(), super::LineRange::parse(lines.as_str()?)?)))
            .collect(),
        creates: list(json, "creates"),
        worker: worker.unwrap_or(Worker::Builder),
        worker_given: Spelled(json.get("worker").cloned().unwrap_or_default()),
        allow: list(json, "allow"),
        story: text("story"),
        other: json
            .fields()
            .filter(|(key, _)| !is_known(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        seq,
    };
    let (updated_at, revised_at) = (text("updated_at"), text("revised_at"));
    let (blocked_by, root_causes) = (list(json, "blocked_by"), list(json, "root_causes"));
    Ok(CampaignTask { task, status, updated_at, blocked_by, root_causes, revised_at })
}

/// What a campaign says of a task beside what its plan says.
const PROGRESS_FIELDS: [&str; 6] =
    ["status", "updated_at", "blocked_by", "cascade", "root_causes", "revised_at"];

fn is_known(key: &str) -> bool {
    fields::TASK_FIELDS.contains(&key) || PROGRESS_FIELDS.contains(&key)
}

/// A list of texts or numbers, or one of them; `none` and empty texts are left out.
fn list(json: &Json, key: &str) -> Vec<String> {
    let text = |value: &Json| match value {
        Json::String(text) => (!text.trim().is_empty() && text != "none").then(|| text.clone()),
        Json::Number(number) => (!number.is_f64()).then(|| number.to_string()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    };
    match json.get(key) {
        Some(Json::Array(items)) => items.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}
