//! A campaign as it is kept: its head, its tasks, how far they are, its fingerprint. Nothing here reads or writes a store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use md5::{Digest as _, Md5};

use ftl_core::plan::{Graph, PlanProgress, TaskIndex as TaskPlace, TaskStatus};

use super::RecordError;
use crate::plan_file::merge::{CampaignTask, read_task};
use crate::plan_file::{CampaignPlan, PlanTask};
use ftl_code::names::bare;
use ftl_core::json::{Json, JsonExt as _};

/// The version of the format of the FTL plugin's files, docs/origins.md.
const SCHEMA: &str = "1.0";

/// How many files a fingerprint names.
pub const MAX_FINGERPRINT_FILES: usize = 20;

/// How much of an objective is compared.
pub const PREVIEW_CHARS: usize = 100;

/// A campaign as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    /// All fields in their order; the tasks stand beside.
    pub(super) head: Json,
    pub(super) tasks: Vec<CampaignTask>,
}

impl Campaign {
    pub(super) fn new(objective: &str, framework: Option<&str>, id: &str, now: &str) -> Campaign {
        let head = Json::object([
            ("_schema_version", Json::from(SCHEMA)),
            ("objective", Json::from(objective)),
            ("framework", framework.map_or(Json::Null, Json::from)),
            ("created_at", Json::from(now)),
            ("status", Json::from("active")),
            ("tasks", Json::Array(Vec::new())),
            ("id", Json::from(id)),
        ]);
        Campaign { head, tasks: Vec::new() }
    }

    /// Reads a campaign as `campaign.json` has it, also one of the FTL plugin's.
    pub(super) fn read(json: &Json) -> Result<Campaign, String> {
        if !json.is_object() {
            return Err(format!("a campaign is an object, not {}", json.kind()));
        }
        for key in ["objective", "status"] {
            if json.get(key).and_then(Json::as_str).is_none() {
                return Err(format!("the campaign has no {key}"));
            }
        }
        let tasks = match json.get("tasks") {
            None | Some(Json::Null) => &[],
            Some(Json::Array(tasks)) => tasks.as_slice(),
            Some(other) => return Err(format!("tasks is {}, not a list", other.kind())),
        };
        let tasks = tasks.iter().map(read_task).collect::<Result<Vec<_>, _>>()?;
        // The tasks stand beside: of a long plan they are nearly all of it.
        let head = json.fields().map(|(key, value)| {
            let value = if key == "tasks" { Json::Array(Vec::new()) } else { value.clone() };
            (key.as_str(), value)
        });
        Ok(Campaign { head: Json::object(head), tasks })
    }

    /// The campaign as `campaign.json` has it.
    pub fn to_json(&self) -> Json {
        let mut json = self.head.clone();
        json.put("tasks", Json::Array(self.tasks.iter().map(CampaignTask::to_json).collect()));
        json
    }

    /// The objective of the campaign.
    pub fn objective(&self) -> &str {
        self.text("objective").unwrap_or_default()
    }

    /// Its name among all campaigns; the FTL plugin's have none.
    pub fn id(&self) -> Option<&str> {
        self.text("id")
    }

    /// Whether it goes on.
    pub fn is_active(&self) -> bool {
        self.text("status") == Some("active")
    }

    /// Its tasks, in the order of the plan.
    pub fn tasks(&self) -> &[CampaignTask] {
        &self.tasks
    }

    /// One of its fields.
    pub fn field(&self, key: &str) -> Option<&Json> {
        self.head.get(key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.head.get(key).and_then(Json::as_str)
    }

    /// How far its tasks are.
    pub fn progress(&self) -> Result<PlanProgress, RecordError> {
        let row = |one: &CampaignTask| (one.task.seq.clone(), one.task.depends.clone(), one.status);
        progress(&self.tasks.iter().map(row).collect::<Vec<_>>())
    }

    /// The tasks that may start, in the order of the plan.
    pub fn ready(&self) -> Result<Vec<&CampaignTask>, RecordError> {
        Ok(self.progress()?.ready().map(|place| &self.tasks[place.index()]).collect())
    }

    /// How many tasks stand one behind the other from each task on, itself included, by seq.
    pub fn downstream(&self) -> Result<BTreeMap<String, usize>, RecordError> {
        let progress = self.progress()?;
        let graph = progress.graph();
        let mut longest = vec![1_usize; self.tasks.len()];
        for place in graph.order().iter().rev() {
            for parent in graph.depends(*place) {
                let behind = longest[place.index()] + 1;
                longest[parent.index()] = longest[parent.index()].max(behind);
            }
        }
        Ok(self.tasks.iter().zip(longest).map(|(one, longest)| (one.task.seq.clone(), longest)).collect())
    }

    /// `{total, complete, blocked}`.
    pub fn counts(&self) -> Json {
        let count = |status| self.tasks.iter().filter(|one| one.status == status).count();
        Json::object([
            ("total", Json::from(self.tasks.len())),
            ("complete", Json::from(count(TaskStatus::Complete))),
            ("blocked", Json::from(count(TaskStatus::Blocked))),
        ])
    }

    /// What makes it comparable with others; `files` are those that its exploration thought of.
    pub fn fingerprint(&self, files: &[String]) -> Json {
        let mut types: Vec<&str> = self.tasks.iter().map(|one| one.task.kind.word()).collect();
        types.sort_unstable();
        types.dedup();
        let mut files: Vec<String> = files.to_vec();
        files.extend(self.tasks.iter().flat_map(|one| one.task.delta.iter().cloned()));
        files.sort_unstable();
        files.dedup();
        files.truncate(MAX_FINGERPRINT_FILES);
        let preview: String = self.objective().chars().take(PREVIEW_CHARS).collect();
        Json::object([
            ("framework", self.head.get("framework").cloned().unwrap_or_default()),
            ("task_count", Json::from(self.tasks.len())),
            ("task_types", Json::list(types)),
            ("delta_files", Json::from(files.as_slice())),
            ("objective_hash", Json::from(short_md5(self.objective()))),
            ("objective_preview", Json::from(preview)),
        ])
    }
}

/// Files and folders that tasks at work are going to change.
#[derive(Default)]
pub(super) struct Taken(BTreeSet<String>);

/// Whether a path is one that a delta names, or lies below or above one.
pub(super) fn overlap(path: &str, delta: &[String]) -> bool {
    let mut taken = Taken::default();
    taken.take(delta);
    taken.overlaps(&[path.to_owned()])
}

impl Taken {
    pub(super) fn take(&mut self, delta: &[String]) {
        self.0.extend(delta.iter().map(|path| bare(path).to_owned()));
    }

    /// Whether some path is taken, or lies below one that is, or above one.
    pub(super) fn overlaps(&self, delta: &[String]) -> bool {
        delta.iter().map(|path| bare(path)).any(|path| {
            let above = Path::new(path).ancestors().filter_map(Path::to_str);
            let is_taken = above.into_iter().any(|one| self.0.contains(one));
            let below = format!("{path}/");
            is_taken || self.0.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below))
        })
    }
}

impl Campaign {
    /// Takes the tasks of a plan in the place of its own; what is the same task keeps how far it is.
    pub(super) fn take_plan(&mut self, plan: CampaignPlan) {
        let CampaignPlan { framework, tasks, .. } = plan;
        if let Some(framework) = framework {
            self.head.put("framework", framework);
        }
        let old = std::mem::take(&mut self.tasks).into_iter();
        let mut old: BTreeMap<String, CampaignTask> = old.map(|one| (one.task.id(), one)).collect();
        let kept = |task: PlanTask| match old.remove(&task.id()) {
            Some(one) => CampaignTask { task, ..one },
            None => CampaignTask::pending(task),
        };
        self.tasks = tasks.into_iter().map(kept).collect();
    }
}

/// How far tasks are: each by its seq, what it depends on, and its status.
pub(super) fn progress(rows: &[(String, Vec<String>, TaskStatus)]) -> Result<PlanProgress, RecordError> {
    let edges: Vec<(&str, &[String])> =
        rows.iter().map(|(seq, depends, _)| (seq.as_str(), depends.as_slice())).collect();
    let graph = Graph::build(&edges).map_err(|problems| {
        let hint = problems.iter().next().map(ftl_core::plan::PlanProblem::hint).unwrap_or_default();
        RecordError::refuse(problems.to_string(), hint)
    })?;
    let mut progress = PlanProgress::new(Arc::new(graph));
    let places: Vec<TaskPlace> = progress.graph().places().collect();
    for (place, (_, _, status)) in places.into_iter().zip(rows) {
        progress.settle_at(place, *status);
    }
    Ok(progress)
}

/// The first eight letters of the MD5 of a text: a label that the FTL plugin made so, no protection.
fn short_md5(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}
