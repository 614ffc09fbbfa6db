//! What people and planners are shown of a campaign: cascade, summary, causes, what is left to plan.
//!
//! Everything here is computed from the campaign and from what its workspaces say. Nothing is kept.

use std::collections::BTreeMap;

use ftl_core::plan::{Cascade, CascadeState, TaskStatus};

use super::campaign_state::Campaign;
use super::{RecordError, Records};
use crate::workspace::WorkspaceStatus;
use ftl_core::json::{Json, JsonExt as _};

/// How much of what was delivered a planner sees.
const MAX_DELIVERED_CHARS: usize = 200;

/// How much of a reason a planner sees.
const MAX_REASON_CHARS: usize = 100;

/// What a blocked workspace's text begins with.
const BLOCKED: &str = "BLOCKED:";

/// What tasks delivered, or why they did not, by seq.
pub type Evidence = BTreeMap<String, String>;

/// The campaign as it stands; `{status: none}` without one.
pub fn status(campaign: Option<&Campaign>) -> Json {
    campaign.map_or_else(|| Json::object([("status", Json::from("none"))]), Campaign::to_json)
}

/// `{state, complete, blocked, pending, ready, unreachable, in_progress}`; only `{state}` without a
/// campaign.
pub fn cascade(cascade: &Cascade) -> Json {
    let mut json = Json::object([("state", Json::from(cascade.state.word()))]);
    if cascade.state == CascadeState::None {
        return json;
    }
    json.put("complete", cascade.complete);
    json.put("blocked", cascade.blocked);
    json.put("pending", cascade.pending);
    json.put("ready", cascade.ready);
    let rows = cascade.unreachable.iter().map(|task| {
        Json::object([
            ("seq", Json::from(task.seq.to_string())),
            ("blocked_by", Json::list(task.blocked_by.iter().map(ToString::to_string))),
            ("root_causes", Json::list(task.root_causes.iter().map(ToString::to_string))),
        ])
    });
    json.put("unreachable", Json::Array(rows.collect()));
    json.put("in_progress", cascade.in_progress);
    json
}

impl Campaign {
    fn count(&self, status: TaskStatus) -> usize {
        self.tasks().iter().filter(|one| one.status == status).count()
    }

    /// What became of it, with both spellings of the counts.
    pub fn summary(&self, evidence: &Evidence) -> Json {
        let field = |key: &str| self.field(key).cloned().unwrap_or_default();
        let mut json = Json::object([
            ("objective", field("objective")),
            ("status", field("status")),
            ("framework", field("framework")),
            ("total", Json::from(self.tasks().len())),
        ]);
        for status in [TaskStatus::Complete, TaskStatus::Blocked, TaskStatus::Pending, TaskStatus::InProgress]
        {
            json.put(status.word(), self.count(status));
        }
        for status in [TaskStatus::Complete, TaskStatus::Blocked, TaskStatus::Pending, TaskStatus::InProgress]
        {
            json.put(&format!("{}_count", status.word()), self.count(status));
        }
        json.put("blocked_tasks", Json::Array(self.blocked_tasks(evidence)));
        for key in ["created_at", "completed_at", "summary"] {
            json.put(key, field(key));
        }
        json
    }

    /// What a planner is told when it plans the rest again.
    pub fn replan_input(&self, evidence: &Evidence) -> Json {
        let of = |status: TaskStatus| self.tasks().iter().filter(move |one| one.status == status);
        let done = of(TaskStatus::Complete).map(|one| {
            let said = evidence.get(&one.task.seq).map_or("", String::as_str);
            Json::object([
                ("seq", Json::from(one.task.seq.as_str())),
                ("slug", Json::from(one.task.slug.as_str())),
                ("delivered", Json::from(shorten(said, MAX_DELIVERED_CHARS))),
            ])
        });
        let open = self
            .tasks()
            .iter()
            .filter(|one| matches!(one.status, TaskStatus::Pending | TaskStatus::InProgress));
        let rest = open.map(|one| {
            Json::object([
                ("seq", Json::from(one.task.seq.as_str())),
                ("slug", Json::from(one.task.slug.as_str())),
                ("type", Json::from(one.task.kind.word())),
                ("depends", one.task.depends_json()),
            ])
        });
        Json::object([
            ("mode", Json::from("replan")),
            ("objective", Json::from(self.objective())),
            ("framework", self.field("framework").cloned().unwrap_or_default()),
            ("completed_count", Json::from(self.count(TaskStatus::Complete))),
            ("blocked_count", Json::from(self.count(TaskStatus::Blocked))),
            ("pending_count", Json::from(self.count(TaskStatus::Pending))),
            ("completed_tasks", Json::Array(done.collect())),
            ("blocked_tasks", Json::Array(self.blocked_tasks(evidence))),
            ("remaining_tasks", Json::Array(rest.collect())),
        ])
    }

    /// Which blocked tasks everything else stands below, what can still be reached, and which
    /// dependency to cut so that it goes on.
    pub fn cascade_analysis(&self, evidence: &Evidence) -> Result<Json, RecordError> {
        let progress = self.progress()?;
        let graph = progress.graph().clone();
        let found = Cascade::of(Some(&progress));
        let unreachable: Vec<usize> = found.unreachable.iter().map(|task| task.place.index()).collect();
        let waiting = |cause: &str| -> Vec<String> {
            let below =
                found.unreachable.iter().filter(|task| task.root_causes.iter().any(|one| &**one == cause));
            below.map(|task| task.seq.to_string()).collect()
        };
        let roots = progress.root_causes().into_iter().map(|place| {
            let seq = graph.seq(place).to_string();
            Json::object([
                ("seq", Json::from(seq.as_str())),
                ("slug", Json::from(self.tasks()[place.index()].task.slug.as_str())),
                ("reason", Json::from(reason(evidence, &self.tasks()[place.index()]))),
                ("unreachable", Json::list(waiting(&seq))),
            ])
        });
        let reachable = self.tasks().iter().enumerate().filter(|(at, one)| {
            matches!(one.status, TaskStatus::Pending | TaskStatus::InProgress) && !unreachable.contains(at)
        });
        let cuts = found.unreachable.iter().flat_map(|task| {
            let own = task.blocked_by.iter().filter(|one| {
                graph.find(one).is_some_and(|place| progress.status(place) == TaskStatus::Blocked)
            });
            own.map(|one| {
                Json::object([
                    ("task", Json::from(task.seq.to_string())),
                    ("drop", Json::from(one.to_string())),
                ])
            })
        });
        let mut json = cascade(&found);
        json.put("root_blocks", Json::Array(roots.collect()));
        json.put("reachable", Json::list(reachable.map(|(_, one)| one.task.seq.clone())));
        json.put("suggested_cuts", Json::Array(cuts.collect()));
        Ok(json)
    }

    fn blocked_tasks(&self, evidence: &Evidence) -> Vec<Json> {
        let blocked = self.tasks().iter().filter(|one| one.status == TaskStatus::Blocked);
        let row = |one| {
            let one: &crate::plan_file::merge::CampaignTask = one;
            Json::object([
                ("seq", Json::from(one.task.seq.as_str())),
                ("slug", Json::from(one.task.slug.as_str())),
                ("reason", Json::from(shorten(&reason(evidence, one), MAX_REASON_CHARS))),
            ])
        };
        blocked.map(row).collect()
    }
}

/// Why a task is blocked: what its workspace says, or which others it waits for.
fn reason(evidence: &Evidence, one: &crate::plan_file::merge::CampaignTask) -> String {
    let said = evidence.get(&one.task.seq).map_or("", String::as_str).trim();
    let said = said.strip_prefix(BLOCKED).unwrap_or(said).trim();
    match said {
        "" if one.blocked_by.is_empty() => String::new(),
        "" => format!("waits for {}", one.blocked_by.join(", ")),
        said => said.to_owned(),
    }
}

fn shorten(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

impl Records {
    /// What the workspaces of the tasks say, by seq.
    pub fn evidence(&self) -> Result<Evidence, RecordError> {
        let mut evidence = Evidence::new();
        for (name, workspace) in self.workspaces()? {
            if name.status() != WorkspaceStatus::Active {
                evidence.insert(name.seq().to_owned(), workspace.delivered);
            }
        }
        Ok(evidence)
    }
}
