//! The plan file: `plan.json` as a planner writes it, read into types that cannot be wrong.
//!
//! Reading tells everything that is wrong at once, each with its path in the file and a hint. Nothing is cleaned on the
//! way: a slug or a path that could leave its folder is refused. What this version does not know is kept.

mod errors;
mod fields;
pub mod merge;
mod missing;
pub mod preview;
#[cfg(test)]
mod tests;

use ftl_core::catalogue::Depends;
use ftl_core::catalogue::plan as shapes;
pub use ftl_core::catalogue::plan::{DirectMode, Idioms, TaskType, Worker};
use ftl_core::plan::Seq;
use ftl_core::value::Value;

pub use errors::{MAX_ERRORS, PlanError, PlanErrors};
use ftl_code::context::LineRange;
use ftl_code::framework::Rules;
pub use ftl_code::names::{
    MAX_PATH_BYTES, MAX_SLUG_BYTES, Wrong, check_path, check_seq, check_slug, slug_of,
};
use ftl_core::json::{Json, JsonExt as _};
pub use missing::{MissingFile, missing_files};

/// How large the text of a plan may be.
pub const MAX_PLAN_BYTES: usize = 64 * 1024 * 1024;

/// How many tool calls a task may be given.
pub const MAX_BUDGET: u64 = 1000;

/// How often a plan may let a red verify go back to its author.
pub const MAX_REPAIRS: u64 = 20;

/// How many files a plan may let a builder read while it plans.
pub const MAX_PLAN_READS: u64 = 200;

/// The budget of a task that names none.
pub const DEFAULT_BUDGET: u64 = 5;

/// How long a command of a plan may be.
pub const MAX_COMMAND_BYTES: usize = 64 * 1024;

/// A plan: an objective and the tasks that reach it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignPlan {
    /// What the plan is to reach.
    pub objective: String,
    /// The short name of the campaign, where the plan gives one.
    pub campaign: Option<String>,
    /// The framework of the repository as the plan spells it; absent when it says `none`.
    pub framework: Option<String>,
    /// How sure the planner is of the framework, from 0 to 1.
    pub framework_confidence: Option<f64>,
    /// What the code must and must not look like, as the plan says.
    pub idioms: Rules,
    /// The tasks, in the order of the file.
    pub tasks: Vec<PlanTask>,
    /// Fields that this version does not know, as they were.
    pub other: Vec<(String, Json)>,
}

/// One task of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanTask {
    /// Its number as it is spelled: three digits or more.
    pub seq: String,
    /// Its short name in kebab case; safe in a file name.
    pub slug: String,
    /// What sort of work it is.
    pub kind: TaskType,
    /// The files it may change; empty for VERIFY only.
    pub delta: Vec<String>,
    /// The command that shows whether it is done.
    pub verify: String,
    /// The test file behind that command, where the plan names it.
    pub verify_source: Option<String>,
    /// How many tools it may take.
    pub budget: u64,
    /// The same as the plan spells it.
    pub budget_given: Spelled,
    /// Whether it may be built in the direct mode, where the plan says so.
    pub direct: Option<DirectMode>,
    /// How often a red verify goes back to its author, where the plan says so.
    pub repairs: Option<u64>,
    /// How many files its builder may read while it plans, where the plan says so.
    pub plan_reads: Option<u64>,
    /// The tasks that must be complete before it starts, as the plan spells them.
    pub depends: Vec<String>,
    /// The same as the plan spells it.
    pub depends_given: Spelled,
    /// Commands that must succeed before the verify command is worth running.
    pub preflight: Vec<String>,
    /// For files of the delta the lines that matter.
    pub target_lines: Vec<(String, LineRange)>,
    /// The files among the delta that do not exist yet.
    pub creates: Vec<String>,
    /// The protocol that does it.
    pub worker: Worker,
    /// The same as the plan spells it.
    pub worker_given: Spelled,
    /// Findings of gates that do not stop it, each `KIND` or `KIND PATH`.
    pub allow: Vec<String>,
    /// What is wanted and why, for a coder, where the plan tells it.
    pub story: Option<String>,
    /// Fields that this version does not know, as they were.
    pub other: Vec<(String, Json)>,
}

/// A value as its file spells it, to be shown again; null where the file says nothing. It means nothing
/// that its neighbour does not: two are always equal.
#[derive(Clone, Debug, Default)]
pub struct Spelled(pub Json);

impl PartialEq for Spelled {
    fn eq(&self, _: &Spelled) -> bool {
        true
    }
}

/// How a plan is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// The objective of a plan that names none; without one it is an error.
    pub objective: Option<&'a str>,
    /// Whether dependencies may name tasks that are not in this file: a revision of a larger plan.
    pub is_revision: bool,
    /// Whether it may have no tasks, or no `tasks` at all.
    pub may_be_empty: bool,
}

/// A plan that leaves out what scripts written for the FTL plugin leave out (decision 21 in docs/origins.md).
#[derive(Clone, Debug, PartialEq)]
pub struct LaxPlan {
    /// The plan, with what was left out filled in. It may have no tasks.
    pub plan: CampaignPlan,
    /// What is used in the place of a missing objective, as a sentence for a person.
    pub note: Option<String>,
}

/// Reads and validates a whole plan by itself.
pub fn read(text: &str) -> Result<CampaignPlan, PlanErrors> {
    read_as(text, Reading::default())
}

/// Reads and validates a plan.
pub fn read_as(text: &str, how: Reading<'_>) -> Result<CampaignPlan, PlanErrors> {
    check(&parse(text)?, how)
}

fn parse(text: &str) -> Result<Json, PlanErrors> {
    if text.len() > MAX_PLAN_BYTES {
        let message = format!("Plan has {} bytes; the limit is {MAX_PLAN_BYTES}", text.len());
        return Err(PlanErrors::one("", message, "split the plan into several campaigns"));
    }
    Json::parse(text).map_err(|error| {
        PlanErrors::one(
            "",
            format!("Plan is {error}"),
            "give one JSON object with \"objective\" and \"tasks\"",
        )
    })
}

/// Reads a plan as scripts of the FTL plugin may write it: without an objective, and without tasks. The name of
/// the campaign in the plan stands in for the objective, else `campaign`, what the current campaign is to reach.
/// Everything else is as strict as [`read`].
pub fn read_lax(text: &str, campaign: Option<&str>) -> Result<LaxPlan, PlanErrors> {
    let json = parse(text)?;
    let is_given =
        |field: &str| json.get(field).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let stand_in = is_given("campaign").or(campaign).unwrap_or_default();
    let how = Reading { objective: Some(stand_in), may_be_empty: true, ..Reading::default() };
    let plan = check(&json, how)?;
    let note = is_given("objective").is_none().then(|| match stand_in {
        "" => "the plan names no objective".to_owned(),
        name => format!("the plan names no objective: `{name}` stands in for it"),
    });
    Ok(LaxPlan { plan, note })
}

/// Validates a plan that has been read as JSON already.
pub fn check(json: &Json, how: Reading<'_>) -> Result<CampaignPlan, PlanErrors> {
    fields::plan(json, how)
}

impl CampaignPlan {
    /// The task that a seq names, in any spelling: `1` is `001`.
    pub fn find(&self, seq: &str) -> Option<&PlanTask> {
        let wanted = Seq::read(seq)?;
        let is_wanted = |task: &&PlanTask| Seq::read(&task.seq) == Some(wanted);
        // Most plans count their tasks from one, or from nought: a search for each task of a long plan costs the square.
        let places = match wanted {
            Seq::Number(number) => [number.checked_sub(1), Some(number)],
            Seq::Word(_) => [None, None],
        };
        let mut guesses =
            places.into_iter().flatten().filter_map(|at| self.tasks.get(usize::try_from(at).ok()?));
        guesses.find(is_wanted).or_else(|| self.tasks.iter().find(is_wanted))
    }

    /// The plan as the file has it, with what was left out filled in.
    pub fn to_json(&self) -> Json {
        let mut json = Json::object([("objective", Json::from(self.objective.as_str()))]);
        if let Some(campaign) = &self.campaign {
            json.put("campaign", campaign.as_str());
        }
        json.put("framework", self.framework.clone());
        json.put("framework_confidence", self.framework_confidence);
        json.put("idioms", self.idioms.to_json());
        json.put("tasks", Json::Array(self.tasks.iter().map(PlanTask::to_json).collect()));
        for (key, value) in &self.other {
            json.put(key, value.clone());
        }
        json
    }

    /// The plan as the file has it: budgets that it leaves out stay left out, so that settings can give them.
    pub fn to_json_as_given(&self) -> Json {
        let as_given = |task: &PlanTask| {
            let keeps = |key: &str| key != "budget" || task.given_budget().is_some();
            Json::Object(task.to_json().into_fields().into_iter().filter(|(key, _)| keeps(key)).collect())
        };
        let mut json = self.to_json();
        json.put("tasks", Json::Array(self.tasks.iter().map(as_given).collect()));
        json
    }

    /// The plan in the shape that protocols know.
    pub fn to_shape(&self) -> shapes::Plan {
        let idioms =
            Idioms { required: self.idioms.required.clone(), forbidden: self.idioms.forbidden.clone() };
        shapes::Plan {
            _schema_version: Some("1.0".to_owned()),
            objective: self.objective.clone(),
            campaign: self.campaign.clone(),
            framework: self.framework.clone(),
            framework_confidence: self.framework_confidence,
            idioms: Some(idioms),
            tasks: self.tasks.iter().map(PlanTask::to_shape).collect(),
        }
    }
}

impl PlanTask {
    /// Says who does it, where the plan does not.
    pub fn staff(&mut self, worker: Worker) {
        if self.worker_given.0 == Json::Null {
            (self.worker, self.worker_given) = (worker, Spelled(Json::from(worker.word())));
        }
    }

    /// The name of its workspace: `<seq>-<slug>`.
    pub fn id(&self) -> String {
        format!("{}-{}", self.seq, self.slug)
    }

    /// How many tools it may take, where the plan says so itself.
    pub fn given_budget(&self) -> Option<u64> {
        (self.budget_given.0 != Json::Null).then_some(self.budget)
    }

    /// The task as the file has it, with what was left out filled in.
    pub fn to_json(&self) -> Json {
        let mut json = Json::object([
            ("seq", Json::from(self.seq.as_str())),
            ("slug", Json::from(self.slug.as_str())),
            ("type", Json::from(self.kind.word())),
            ("delta", Json::from(self.delta.as_slice())),
            ("verify", Json::from(self.verify.as_str())),
        ]);
        if let Some(source) = &self.verify_source {
            json.put("verify_source", source.as_str());
        }
        json.put("budget", self.budget);
        if let Some(direct) = self.direct {
            json.put("direct", direct.word());
        }
        if let Some(repairs) = self.repairs {
            json.put("repairs", repairs);
        }
        if let Some(reads) = self.plan_reads {
            json.put("plan_reads", reads);
        }
        json.put("depends", self.depends_json());
        json.put("preflight", Json::from(self.preflight.as_slice()));
        if !self.target_lines.is_empty() {
            json.put("target_lines", self.target_lines_json());
        }
        if !self.creates.is_empty() {
            json.put("creates", Json::from(self.creates.as_slice()));
        }
        json.put("worker", self.worker.word());
        if !self.allow.is_empty() {
            json.put("allow", Json::from(self.allow.as_slice()));
        }
        if let Some(story) = &self.story {
            json.put("story", story.as_str());
        }
        for (key, value) in &self.other {
            json.put(key, value.clone());
        }
        json
    }

    /// What it depends on, as its plan says it; `"none"` where it says nothing.
    pub fn depends_json(&self) -> Json {
        match &self.depends_given.0 {
            Json::Null if self.depends.is_empty() => Json::from("none"),
            Json::Null => Json::from(self.depends.as_slice()),
            given => given.clone(),
        }
    }

    fn target_lines_json(&self) -> Json {
        let lines = |lines: &LineRange| Json::from(format!("{}-{}", lines.first, lines.last));
        Json::object(self.target_lines.iter().map(|(path, found)| (path.as_str(), lines(found))))
    }

    fn to_shape(&self) -> shapes::PlanTask {
        let listed = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        let lines = |lines: &LineRange| Value::text(format!("{}-{}", lines.first, lines.last));
        let target_lines = (!self.target_lines.is_empty())
            .then(|| Value::record(self.target_lines.iter().map(|(path, found)| (path, lines(found)))));
        shapes::PlanTask {
            seq: self.seq.clone(),
            slug: self.slug.clone(),
            kind: Some(self.kind),
            delta: self.delta.clone(),
            creates: listed(&self.creates),
            verify: self.verify.clone(),
            verify_source: self.verify_source.clone(),
            budget: self.given_budget(),
            direct: self.direct,
            repairs: self.repairs,
            plan_reads: self.plan_reads,
            depends: Some(Depends(self.depends.clone())),
            preflight: listed(&self.preflight),
            target_lines,
            worker: (self.worker_given.0 != Json::Null).then_some(self.worker),
            allow: listed(&self.allow),
            story: self.story.clone(),
        }
    }
}
