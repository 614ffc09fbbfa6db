//! Reads the fields of a plan one by one and gathers what is wrong with each.
//!
//! A field that cannot be read gets a harmless stand-in and an error, and reading goes on; the stand-ins never leave
//! this module, because a plan with an error is never handed out.

use std::collections::HashMap;

use ftl_core::plan::{Graph, PlanProblem};

use super::errors::{Found, PlanErrors};
use super::{
    CampaignPlan, DEFAULT_BUDGET, DirectMode, LineRange, MAX_BUDGET, MAX_COMMAND_BYTES, MAX_PLAN_READS,
    MAX_REPAIRS, PlanTask, Reading, Rules, Spelled, TaskType, Worker,
};
use ftl_code::finding::FindingAllowance;
use ftl_code::names::{Wrong, check_path, check_seq, check_slug, quote_name};
use ftl_core::json::{Json, JsonExt as _};

const PLAN_FIELDS: [&str; 6] =
    ["objective", "campaign", "framework", "framework_confidence", "idioms", "tasks"];

/// What a plan says of a task.
pub(super) const TASK_FIELDS: [&str; 17] = [
    "seq",
    "slug",
    "type",
    "delta",
    "verify",
    "verify_source",
    "budget",
    "direct",
    "repairs",
    "plan_reads",
    "depends",
    "preflight",
    "target_lines",
    "creates",
    "worker",
    "allow",
    "story",
];

pub(super) fn plan(json: &Json, how: Reading<'_>) -> Result<CampaignPlan, PlanErrors> {
    if !json.is_object() {
        let message = format!("Plan must be an object, not {}", json.kind());
        return Err(PlanErrors::one("", message, "give one JSON object with \"objective\" and \"tasks\""));
    }
    let mut found = Found::default();
    let plan = CampaignPlan {
        objective: objective(json, how, &mut found),
        campaign: optional_text(json, "campaign", &mut found),
        framework: framework(json, &mut found),
        framework_confidence: confidence(json, &mut found),
        idioms: idioms(json, &mut found),
        tasks: tasks(json, how, &mut found),
        other: others(json, &PLAN_FIELDS),
    };
    graph(&plan, json, how, &mut found);
    found.or(plan)
}

/// Where a task is, for messages and paths.
struct At<'a> {
    index: usize,
    json: &'a Json,
}

impl At<'_> {
    fn path(&self, field: &str) -> String {
        format!("tasks[{}].{field}", self.index)
    }

    fn says(&self, what: &str) -> String {
        format!("Task {}: {what}", self.index)
    }

    fn missing(&self, field: &str, hint: &str, found: &mut Found) {
        found.add(self.path(field), self.says(&format!("missing required field: {field}")), hint);
    }

    fn wrong(&self, field: &str, wrong: &Wrong, found: &mut Found) {
        found.add(self.path(field), self.says(&format!("{field} {}", wrong.what)), wrong.hint.as_str());
    }

    /// A field that is there and is not null.
    fn get_value(&self, field: &str) -> Option<&Json> {
        self.json.get(field).filter(|value| !value.is_null())
    }
}

fn objective(json: &Json, how: Reading<'_>, found: &mut Found) -> String {
    let hint = "say in one sentence what the plan is to reach";
    match (json.get("objective"), how.objective) {
        (Some(Json::String(text)), _) if !text.trim().is_empty() => return text.clone(),
        (None | Some(Json::Null | Json::String(_)), Some(known)) => return known.to_owned(),
        (None | Some(Json::Null), None) => found.add("objective", "Missing required field: objective", hint),
        (Some(Json::String(_)), None) => found.add("objective", "objective is empty", hint),
        (Some(other), _) => {
            found.add("objective", format!("objective must be a string, not {}", other.kind()), hint);
        }
    }
    String::new()
}

fn optional_text(json: &Json, field: &str, found: &mut Found) -> Option<String> {
    match json.get(field) {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => Some(text.clone()),
        Some(other) => {
            found.add(field, format!("{field} must be a string, not {}", other.kind()), "write it in quotes");
            None
        }
    }
}

fn framework(json: &Json, found: &mut Found) -> Option<String> {
    let text = optional_text(json, "framework", found)?;
    let named = !text.trim().is_empty() && !text.trim().eq_ignore_ascii_case("none");
    named.then(|| text.trim().to_owned())
}

fn confidence(json: &Json, found: &mut Found) -> Option<f64> {
    let value = json.get("framework_confidence").filter(|value| !value.is_null())?;
    let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
    if number.is_none() {
        let message = "framework_confidence must be a number from 0 to 1, or null";
        found.add("framework_confidence", message, "write a number such as 0.85");
    }
    number
}

fn idioms(json: &Json, found: &mut Found) -> Rules {
    let Some(value) = json.get("idioms").filter(|value| !value.is_null()) else { return Rules::default() };
    if !value.is_object() {
        let hint = "write {\"required\": [], \"forbidden\": []}";
        found.add("idioms", format!("idioms must be an object, not {}", value.kind()), hint);
        return Rules::default();
    }
    let mut list = |field: &str| texts(value.get(field), &format!("idioms.{field}"), found);
    Rules { required: list("required"), forbidden: list("forbidden") }
}

/// A list of strings anywhere in the plan.
fn texts(value: Option<&Json>, path: &str, found: &mut Found) -> Vec<String> {
    let items = match value {
        None | Some(Json::Null) => return Vec::new(),
        Some(Json::Array(items)) => items,
        Some(other) => {
            found.add(
                path,
                format!("{path} must be a list, not {}", other.kind()),
                "write a list of strings",
            );
            return Vec::new();
        }
    };
    let mut list = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match item {
            Json::String(text) => list.push(text.clone()),
            other => {
                let message = format!("{path} must hold strings, not {}", other.kind());
                found.add(format!("{path}[{at}]"), message, "write it in quotes");
            }
        }
    }
    list
}

fn tasks(json: &Json, how: Reading<'_>, found: &mut Found) -> Vec<PlanTask> {
    let hint = "give a list with at least one task: {\"seq\", \"slug\", \"delta\", \"verify\"}";
    match json.get("tasks") {
        None | Some(Json::Null) if how.may_be_empty => {}
        Some(Json::Array(items)) if items.is_empty() && how.may_be_empty => {}
        None | Some(Json::Null) => found.add("tasks", "Missing required field: tasks", hint),
        Some(Json::Array(items)) if items.is_empty() => found.add("tasks", "tasks list is empty", hint),
        Some(Json::Array(items)) => {
            return items.iter().enumerate().map(|(index, json)| task(&At { index, json }, found)).collect();
        }
        Some(_) => found.add("tasks", "tasks must be a list", hint),
    }
    Vec::new()
}

fn task(at: &At<'_>, found: &mut Found) -> PlanTask {
    if !at.json.is_object() {
        let path = format!("tasks[{}]", at.index);
        let message = at.says(&format!("must be an object, not {}", at.json.kind()));
        found.add(path, message, "write {\"seq\", \"slug\", \"delta\", \"verify\"}");
        return empty_task();
    }
    let kind = kind(at, found);
    PlanTask {
        seq: seq(at, found),
        slug: slug(at, found),
        delta: delta(at, kind, found),
        kind: kind.unwrap_or(TaskType::Build),
        verify: verify(at, found),
        verify_source: verify_source(at, found),
        budget: budget(at, found),
        budget_given: Spelled(at.get_value("budget").cloned().unwrap_or_default()),
        direct: direct(at, found),
        repairs: count(at, "repairs", MAX_REPAIRS, found),
        plan_reads: count(at, "plan_reads", MAX_PLAN_READS, found),
        depends: depends(at, found),
        depends_given: Spelled(at.get_value("depends").cloned().unwrap_or_default()),
        preflight: commands(at, found),
        target_lines: target_lines(at, found),
        creates: paths(at, "creates", found),
        worker: worker(at, found),
        worker_given: Spelled(at.get_value("worker").cloned().unwrap_or_default()),
        allow: allow(at, found),
        story: story(at, found),
        other: others(at.json, &TASK_FIELDS),
    }
}

fn empty_task() -> PlanTask {
    PlanTask {
        seq: String::new(),
        slug: String::new(),
        kind: TaskType::Build,
        delta: Vec::new(),
        verify: String::new(),
        verify_source: None,
        budget: DEFAULT_BUDGET,
        budget_given: Spelled::default(),
        direct: None,
        repairs: None,
        plan_reads: None,
        depends: Vec::new(),
        depends_given: Spelled::default(),
        preflight: Vec::new(),
        target_lines: Vec::new(),
        creates: Vec::new(),
        worker: Worker::Builder,
        worker_given: Spelled::default(),
        allow: Vec::new(),
        story: None,
        other: Vec::new(),
    }
}

/// The seq as it stands, also when it is wrong: the graph can then still say what depends on it.
fn seq(at: &At<'_>, found: &mut Found) -> String {
    let text = match at.get_value("seq") {
        None => {
            at.missing("seq", "number the tasks \"001\", \"002\", …", found);
            return String::new();
        }
        Some(Json::String(text)) => text.clone(),
        Some(other) => {
            let hint =
                other.as_whole().map_or("write it as a string, such as \"001\"".to_owned(), |number| {
                    format!("write it as a string: \"{number:03}\"")
                });
            let what = "must be 3-digit string (three digits or more)".to_owned();
            at.wrong("seq", &Wrong { what, hint }, found);
            return other.as_whole().map(|number| number.to_string()).unwrap_or_default();
        }
    };
    if let Err(wrong) = check_seq(&text) {
        at.wrong("seq", &wrong, found);
    }
    text
}

fn slug(at: &At<'_>, found: &mut Found) -> String {
    match at.get_value("slug") {
        None => at.missing("slug", "give the task a short name such as \"add-login\"", found),
        Some(Json::String(slug)) => match check_slug(slug) {
            Ok(()) => return slug.clone(),
            Err(wrong) => at.wrong("slug", &wrong, found),
        },
        Some(other) => {
            let what = format!("must be a string, not {}", other.kind());
            at.wrong("slug", &Wrong { what, hint: "write it in quotes".to_owned() }, found);
        }
    }
    String::new()
}

/// `None` where it cannot be read, so that nothing else is judged by a type that the author did not mean.
fn kind(at: &At<'_>, found: &mut Found) -> Option<TaskType> {
    let words = [TaskType::Spec, TaskType::Build, TaskType::Verify];
    let Some(value) = at.get_value("type") else { return Some(TaskType::Build) };
    let kind = words.into_iter().find(|kind| value.as_str() == Some(kind.word()));
    if kind.is_none() {
        let message = at.says("type must be one of SPEC, BUILD, VERIFY");
        found.add(at.path("type"), message, "leave it out for BUILD");
    }
    kind
}

fn worker(at: &At<'_>, found: &mut Found) -> Worker {
    let words = [Worker::Builder, Worker::Coder];
    let Some(value) = at.get_value("worker") else { return Worker::Builder };
    let worker = words.into_iter().find(|worker| value.as_str() == Some(worker.word()));
    if worker.is_none() {
        let message = at.says("worker must be one of builder, coder");
        found.add(at.path("worker"), message, "leave it out for the setting campaign.worker");
    }
    worker.unwrap_or(Worker::Builder)
}

/// Reads the story of a task, for a coder.
fn story(at: &At<'_>, found: &mut Found) -> Option<String> {
    let value = at.get_value("story")?;
    let story = value.as_str().filter(|text| !text.trim().is_empty());
    if story.is_none() {
        found.add(at.path("story"), at.says("story must be a text"), "say what is wanted, and how to tell");
    }
    story.map(str::to_owned)
}

/// What gates may find without stopping the task: words of theirs, each with a path or without.
fn allow(at: &At<'_>, found: &mut Found) -> Vec<String> {
    let Some(value) = at.get_value("allow") else { return Vec::new() };
    let hint = "write a list such as [\"test_removed tests/old_test.py\"]";
    let Json::Array(items) = value else {
        found.add(at.path("allow"), at.says("allow must be a list"), hint);
        return Vec::new();
    };
    let mut allowed = Vec::new();
    for item in items {
        match item.as_str().map(|text| FindingAllowance::parse(text, "the plan").map(|_| text)) {
            Some(Ok(text)) => allowed.push(text.to_owned()),
            Some(Err(error)) => found.add(at.path("allow"), at.says(&error.to_string()), hint),
            None => found.add(at.path("allow"), at.says("allow must be a list of strings"), hint),
        }
    }
    allowed
}

fn delta(at: &At<'_>, kind: Option<TaskType>, found: &mut Found) -> Vec<String> {
    let hint = "list the files that the task may change";
    let needed = kind.is_some_and(|kind| kind != TaskType::Verify);
    match at.get_value("delta") {
        None if needed => at.missing("delta", hint, found),
        None => {}
        Some(Json::Array(items)) if items.is_empty() && needed => {
            let hint = "list the files that the task may change; only a VERIFY task may have none";
            found.add(at.path("delta"), at.says("delta is empty"), hint);
        }
        Some(Json::Array(_)) => return paths(at, "delta", found),
        Some(_) => found.add(at.path("delta"), at.says("delta must be a list"), hint),
    }
    Vec::new()
}

fn paths(at: &At<'_>, field: &str, found: &mut Found) -> Vec<String> {
    let items = match at.get_value(field) {
        None => return Vec::new(),
        Some(Json::Array(items)) => items,
        Some(_) => {
            found.add(at.path(field), at.says(&format!("{field} must be a list")), "write a list of paths");
            return Vec::new();
        }
    };
    let mut list: Vec<String> = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let path = || at.path(&format!("{field}[{place}]"));
        let Some(text) = item.as_str() else {
            let message = at.says(&format!("{field} must hold strings, not {}", item.kind()));
            found.add(path(), message, "write the path in quotes");
            continue;
        };
        match check_path(text) {
            Ok(()) => list.push(text.to_owned()),
            Err(wrong) => found.add(path(), at.says(&format!("{field} {}", wrong.what)), wrong.hint),
        }
    }
    list
}

fn verify(at: &At<'_>, found: &mut Found) -> String {
    let hint = "give the command that shows whether the task is done";
    match at.get_value("verify") {
        None => at.missing("verify", hint, found),
        Some(Json::String(text)) if text.trim().is_empty() => {
            found.add(at.path("verify"), at.says("verify is empty"), hint);
        }
        Some(Json::String(text)) => return command(at, "verify", text, found),
        Some(other) => {
            let message = at.says(&format!("verify must be a string, not {}", other.kind()));
            found.add(at.path("verify"), message, hint);
        }
    }
    String::new()
}

fn command(at: &At<'_>, field: &str, text: &str, found: &mut Found) -> String {
    if text.contains('\0') {
        found.add(at.path(field), at.says(&format!("{field} has a NUL character")), "take it out");
    }
    if text.len() > MAX_COMMAND_BYTES {
        let message = at.says(&format!("{field} is longer than {MAX_COMMAND_BYTES} bytes"));
        found.add(at.path(field), message, "put the commands into a script and call that");
    }
    text.to_owned()
}

fn commands(at: &At<'_>, found: &mut Found) -> Vec<String> {
    let list = match at.get_value("preflight") {
        None => return Vec::new(),
        Some(Json::String(text)) => vec![text.clone()],
        Some(value) => texts(Some(value), &at.path("preflight"), found),
    };
    let list = list.into_iter().filter(|text| !text.trim().is_empty());
    list.map(|text| command(at, "preflight", &text, found)).collect()
}

fn verify_source(at: &At<'_>, found: &mut Found) -> Option<String> {
    let value = at.get_value("verify_source")?;
    let hint = "name the test file by its path from the root of the repository".to_owned();
    let Some(text) = value.as_str() else {
        let what = format!("must be a string, not {}", value.kind());
        at.wrong("verify_source", &Wrong { what, hint }, found);
        return None;
    };
    if text.trim().is_empty() {
        return None;
    }
    if let Err(wrong) = check_path(text) {
        at.wrong("verify_source", &wrong, found);
    }
    Some(text.to_owned())
}

fn budget(at: &At<'_>, found: &mut Found) -> u64 {
    let Some(value) = at.get_value("budget") else { return DEFAULT_BUDGET };
    let number = value.as_whole().and_then(|number| u64::try_from(number).ok());
    match number.filter(|number| (1..=MAX_BUDGET).contains(number)) {
        Some(number) => number,
        None => {
            let what = format!("must be a whole number from 1 to {MAX_BUDGET}");
            at.wrong("budget", &Wrong { what, hint: "write a number such as 5".to_owned() }, found);
            DEFAULT_BUDGET
        }
    }
}

/// Whether the task may be built in the direct mode, where the plan says so.
fn direct(at: &At<'_>, found: &mut Found) -> Option<DirectMode> {
    let value = at.get_value("direct")?;
    let words = [DirectMode::Auto, DirectMode::Never];
    let direct = words.into_iter().find(|mode| value.as_str() == Some(mode.word()));
    if direct.is_none() {
        let message = at.says("direct must be one of auto, never");
        found.add(at.path("direct"), message, "leave it out for the setting builder.direct");
    }
    direct
}

/// A number that the plan may give in place of a setting of the builder.
fn count(at: &At<'_>, field: &str, most: u64, found: &mut Found) -> Option<u64> {
    let value = at.get_value(field)?;
    let number = value.as_whole().and_then(|number| u64::try_from(number).ok());
    let number = number.filter(|number| *number <= most);
    if number.is_none() {
        let what = format!("must be a whole number from 0 to {most}");
        let hint = format!("leave it out for the setting builder.{field}");
        at.wrong(field, &Wrong { what, hint }, found);
    }
    number
}

fn depends(at: &At<'_>, found: &mut Found) -> Vec<String> {
    let hint = "write \"none\", a seq, or a list of seqs";
    match at.get_value("depends") {
        None => Vec::new(),
        Some(Json::Array(items)) => {
            let mut list = Vec::with_capacity(items.len());
            for (place, item) in items.iter().enumerate() {
                match dependency(item) {
                    Ok(named) => list.extend(named),
                    Err(()) => {
                        let message = at.says(&format!("depends must hold seqs, not {}", item.kind()));
                        found.add(at.path(&format!("depends[{place}]")), message, hint);
                    }
                }
            }
            list
        }
        Some(value) => match dependency(value) {
            Ok(named) => named.into_iter().collect(),
            Err(()) => {
                let message = at.says(&format!("depends must be a seq or a list, not {}", value.kind()));
                found.add(at.path("depends"), message, hint);
                Vec::new()
            }
        },
    }
}

/// One dependency; nothing for `none`, an empty text or null.
fn dependency(value: &Json) -> Result<Option<String>, ()> {
    match value {
        Json::Null => Ok(None),
        Json::String(text) => {
            let text = text.trim();
            Ok((!text.is_empty() && !text.eq_ignore_ascii_case("none")).then(|| text.to_owned()))
        }
        Json::Number(number) if !number.is_f64() => Ok(Some(number.to_string())),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => Err(()),
    }
}

fn target_lines(at: &At<'_>, found: &mut Found) -> Vec<(String, LineRange)> {
    let Some(value) = at.get_value("target_lines") else { return Vec::new() };
    let hint = "write {\"src/login.py\": \"40-80\"}";
    if !value.is_object() {
        let message = at.says(&format!("target_lines must be an object, not {}", value.kind()));
        found.add(at.path("target_lines"), message, hint);
    }
    let mut list = Vec::new();
    for (file, lines) in value.fields() {
        let path = at.path(&format!("target_lines[{}]", quote_name(file)));
        if let Err(wrong) = check_path(file) {
            found.add(path.clone(), at.says(&format!("target_lines {}", wrong.what)), wrong.hint);
        }
        let number = lines.as_whole().map(|number| number.to_string());
        let text = lines.as_str().or(number.as_deref());
        match text.and_then(LineRange::parse) {
            Some(lines) => list.push((file.clone(), lines)),
            None => {
                let message =
                    at.says("target_lines must be \"start-end\", counted from 1, start not after end");
                found.add(path, message, hint);
            }
        }
    }
    list
}

fn others(json: &Json, known: &[&str]) -> Vec<(String, Json)> {
    let others = json.fields().filter(|(key, _)| !known.contains(&key.as_str()));
    others.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What is wrong between the tasks: seqs that are there twice, dependencies that lead nowhere, cycles.
fn graph(plan: &CampaignPlan, json: &Json, how: Reading<'_>, found: &mut Found) {
    let named: Vec<(usize, &PlanTask)> =
        plan.tasks.iter().enumerate().filter(|(_, task)| !task.seq.is_empty()).collect();
    let tasks: Vec<(&str, &[String])> =
        named.iter().map(|(_, task)| (task.seq.as_str(), task.depends.as_slice())).collect();
    let Err(problems) = Graph::build(&tasks) else { return };
    let mut places = Places::new(&named, json);
    let elsewhere =
        |problem: &&PlanProblem| how.is_revision && matches!(problem, PlanProblem::Unknown { .. });
    for problem in problems.iter().filter(|problem| !elsewhere(problem)) {
        if found.is_full() {
            // What is only counted needs no place; looking for it could take long in a hostile plan.
            found.add("", "", "");
            continue;
        }
        let path = match problem {
            PlanProblem::Unknown { seq, depends } => places.depends(seq, Some(depends)),
            PlanProblem::Itself { seq } => places.depends(seq, Some(seq)),
            PlanProblem::Cycle { path } => {
                path.first().map_or_else(String::new, |seq| places.depends(seq, None))
            }
            PlanProblem::Duplicate { seq, first } => places.duplicate(seq, first),
            PlanProblem::Unnamed { position } => places.at(*position),
            PlanProblem::TooManyTasks { .. } | PlanProblem::TooManyDepends { .. } => "tasks".to_owned(),
        };
        found.add(path, describe_problem(problem), problem.hint());
    }
}

/// A task that depends on itself is the shortest cycle, and is told as one.
pub(super) fn describe_problem(problem: &PlanProblem) -> String {
    match problem {
        PlanProblem::Itself { seq } => format!("Cycle detected in task dependencies: {seq} → {seq}"),
        PlanProblem::Unnamed { .. }
        | PlanProblem::Duplicate { .. }
        | PlanProblem::Unknown { .. }
        | PlanProblem::Cycle { .. }
        | PlanProblem::TooManyTasks { .. }
        | PlanProblem::TooManyDepends { .. } => problem.to_string(),
    }
}

/// From seqs back to places in the file.
struct Places<'a> {
    json: &'a Json,
    /// The places of each spelling, in order.
    spelled: HashMap<&'a str, Vec<usize>>,
    /// How many of each spelling were told as a second one.
    told: HashMap<&'a str, usize>,
    order: Vec<usize>,
    tasks: HashMap<usize, &'a PlanTask>,
}

impl<'a> Places<'a> {
    fn new(named: &[(usize, &'a PlanTask)], json: &'a Json) -> Places<'a> {
        let mut spelled: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, task) in named {
            spelled.entry(&task.seq).or_default().push(*index);
        }
        let order = named.iter().map(|(index, _)| *index).collect();
        Places { json, spelled, told: HashMap::new(), order, tasks: named.iter().copied().collect() }
    }

    fn at(&self, position: usize) -> String {
        let index = self.order.get(position.saturating_sub(1)).copied().unwrap_or_default();
        format!("tasks[{index}].seq")
    }

    /// The second and later ones of a spelling, or each of it where the first is spelled otherwise.
    fn duplicate(&mut self, seq: &str, first: &str) -> String {
        let Some((spelling, places)) = self.spelled.get_key_value(seq) else { return "tasks".to_owned() };
        let told = self.told.entry(*spelling).or_insert(usize::from(seq == first));
        let index = places.get(*told).or(places.last()).copied().unwrap_or_default();
        *told += 1;
        format!("tasks[{index}].seq")
    }

    fn depends(&self, seq: &str, depends: Option<&str>) -> String {
        let places = self.spelled.get(seq).map(Vec::as_slice).unwrap_or_default();
        let depends_on =
            |index: usize| self.tasks.get(&index).map(|task| task.depends.as_slice()).unwrap_or_default();
        let names =
            |index: usize| depends.is_none_or(|named| depends_on(index).iter().any(|one| one == named));
        let index = places
            .iter()
            .copied()
            .find(|index| names(*index))
            .or(places.first().copied())
            .unwrap_or_default();
        let listed = self.json.get("tasks").and_then(|tasks| tasks.items().get(index)?.get("depends"));
        let is_it = |item: &Json| dependency(item).ok().flatten().as_deref() == depends;
        match listed.and_then(|listed| listed.items().iter().position(is_it)) {
            Some(place) if depends.is_some() => format!("tasks[{index}].depends[{place}]"),
            Some(_) | None => format!("tasks[{index}].depends"),
        }
    }
}
