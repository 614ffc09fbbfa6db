//! Makes the text of a new workspace from a plan, one of its tasks, and what is known around it.

use ftl_core::plan::Seq;

use super::xml::Element;
use super::{
    DEFAULT_CONFIDENCE, FileName, KnownFailure, KnownPattern, MAX_WORKSPACE_BYTES, Parent, Workspace,
    WorkspaceRefusal, WorkspaceStatus, block_reason,
};
use crate::build_budget::Budget;
use crate::plan_file::{CampaignPlan, PlanTask, TaskType};
use ftl_code::context::{CodeContext, Sources, extract, verify_source};
use ftl_code::framework::{confidence_text, united};

/// How much code all files of a delta show together; the files after that are named without their lines.
pub const MAX_CODE_BYTES: usize = 2 * 1024 * 1024;

/// What a sibling's failure costs, and what it says about its fix.
const SIBLING_COST: u64 = 1000;
const SIBLING_FIX: &str = "See blocked workspace";

/// The code context of every file of a task's delta that exists, in the order of the delta.
pub fn gather_contexts(sources: Sources<'_>, task: &PlanTask) -> Vec<CodeContext> {
    let lines = |path: &str| task.target_lines.iter().find(|(file, _)| file == path).map(|(_, lines)| *lines);
    let wanted = |path: &str| if task.kind == TaskType::Spec { None } else { lines(path) };
    let files = task.delta.iter().filter_map(|path| Some((path, sources(path)?)));
    files.map(|(path, source)| extract(path, &source, wanted(path))).collect()
}

/// What is known around a task when its workspace is made.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceContext<'a> {
    /// The time, as it is written into the file.
    pub now: &'a str,
    /// The campaign that the workspace belongs to, by id.
    pub campaign: Option<&'a str>,
    /// The confidence in the framework that exploration found.
    pub explored_confidence: Option<f64>,
    /// The files of the delta as they are.
    pub contexts: Vec<CodeContext>,
    /// Failures recalled from memory.
    pub failures: Vec<KnownFailure>,
    /// Patterns recalled from memory.
    pub patterns: Vec<KnownPattern>,
    /// Failures of other tasks of this campaign.
    pub siblings: Vec<KnownFailure>,
    /// What the tasks before this one delivered.
    pub parents: Vec<Parent>,
    /// What the build may take, where it is not what the plan says.
    pub budget: Option<Budget>,
}

/// A workspace that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The name of its file.
    pub file_name: FileName,
    /// The name of the workspace, `<seq>-<slug>`.
    pub id: String,
    /// The text of the file.
    pub text: String,
}

/// Makes the workspace of one task of a plan.
pub fn create(
    plan: &CampaignPlan,
    task: &PlanTask,
    around: &WorkspaceContext<'_>,
) -> Result<Created, WorkspaceRefusal> {
    let file_name = FileName::new(&task.seq, &task.slug, WorkspaceStatus::Active)?;
    let confidence = plan.framework_confidence.or(around.explored_confidence).unwrap_or(DEFAULT_CONFIDENCE);
    let confidence = confidence_text(confidence.clamp(0.0, 1.0));
    let mut root = Element::new("workspace")
        .with("id", &task.id())
        .with("status", WorkspaceStatus::Active.word())
        .with("_schema_version", "1.0")
        .with("created_at", around.now)
        .with("type", task.kind.word());
    if let Some(campaign) = around.campaign {
        root.set("campaign", campaign);
    }
    if !plan.objective.is_empty() {
        root.push(Element::text("objective", &plan.objective));
    }
    root.push(implementation(task, around.budget));
    push_code(&mut root, &around.contexts);
    if let Some(framework) = &plan.framework {
        root.push(idioms(plan, framework, &confidence));
    }
    root.push(Element::text("framework_confidence", &confidence));
    push_knowledge(&mut root, around);
    push_lineage(&mut root, &around.parents);
    root.push(Element::new("delivered"));
    let text = root.write();
    if text.len() > MAX_WORKSPACE_BYTES {
        let message = format!(
            "the workspace of task {} would have {} bytes; the limit is {MAX_WORKSPACE_BYTES}",
            task.seq,
            text.len()
        );
        return Err(WorkspaceRefusal::new(message, "give the task fewer files"));
    }
    Ok(Created { file_name, id: task.id(), text })
}

fn implementation(task: &PlanTask, budget: Option<Budget>) -> Element {
    let mut element = Element::new("implementation");
    for path in &task.delta {
        element.push(Element::text("delta", path));
    }
    element.push(Element::text("verify", &task.verify));
    if let Some(source) = task.verify_source.clone().or_else(|| verify_source(&task.verify)) {
        element.push(Element::text("verify_source", &source));
    }
    let tools = budget.map_or(task.budget, |budget| budget.full_tools);
    element.push(Element::text("budget", &tools.to_string()));
    let repairs = budget.map(|budget| budget.repairs).or(task.repairs);
    let reads = budget.map(|budget| budget.plan_reads).or(task.plan_reads);
    for (name, number) in [("repairs", repairs), ("plan_reads", reads)] {
        if let Some(number) = number.filter(|number| *number > 0) {
            element.push(Element::text(name, &number.to_string()));
        }
    }
    for command in &task.preflight {
        element.push(Element::text("preflight", command));
    }
    for finding in &task.allow {
        element.push(Element::text("allow", finding));
    }
    element
}

fn push_code(root: &mut Element, contexts: &[CodeContext]) {
    let mut left = MAX_CODE_BYTES;
    for context in contexts {
        let shown = context.content.len() <= left;
        left -= if shown { context.content.len() } else { 0 };
        let mut element =
            Element::new("code_context").with("path", &context.path).with("lines", &context.lines);
        if context.is_cut || !shown {
            element.set("cut", "true");
        }
        element.push(Element::bytes("content", if shown { &context.content } else { b"" }));
        element.push(Element::text("exports", &context.exports));
        element.push(Element::text("imports", &context.imports));
        root.push(element);
    }
}

fn idioms(plan: &CampaignPlan, framework: &str, confidence: &str) -> Element {
    let rules = united(framework, &plan.idioms);
    let mut element = Element::new("idioms").with("framework", framework).with("confidence", confidence);
    rules.required.iter().for_each(|text| element.push(Element::text("required", text)));
    rules.forbidden.iter().for_each(|text| element.push(Element::text("forbidden", text)));
    element
}

fn push_knowledge(root: &mut Element, around: &WorkspaceContext<'_>) {
    let mut element = Element::new("prior_knowledge");
    for failure in around.failures.iter().chain(&around.siblings) {
        element.push(failure_element(failure));
    }
    for pattern in &around.patterns {
        let mut child = Element::new("pattern")
            .with("name", &pattern.name)
            .with("saved", &pattern.saved.to_string())
            .with("injected", truth(pattern.injected));
        child.push(Element::text("trigger", &pattern.trigger));
        child.push(Element::text("insight", &pattern.insight));
        element.push(child);
    }
    if !element.nodes.is_empty() {
        root.push(element);
    }
}

fn failure_element(failure: &KnownFailure) -> Element {
    let mut element = Element::new("failure")
        .with("name", &failure.name)
        .with("cost", &failure.cost.to_string())
        .with("injected", truth(failure.injected));
    element.push(Element::text("trigger", &failure.trigger));
    element.push(Element::text("fix", &failure.fix));
    if !failure.pattern.is_empty() {
        element.push(Element::text("match", &failure.pattern));
    }
    element
}

fn push_lineage(root: &mut Element, parents: &[Parent]) {
    if parents.is_empty() {
        return;
    }
    let mut lineage = Element::new("lineage");
    for parent in parents {
        let mut element = Element::new("parent");
        if let Some(seq) = &parent.seq {
            element.set("seq", seq);
        }
        element.set("workspace", &parent.workspace);
        element.push(Element::text("prior_delivery", &parent.prior_delivery));
        lineage.push(element);
    }
    root.push(lineage);
}

fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// What blocked workspaces of the same campaign teach a task that is about to start. Files of other campaigns, and
/// files that name none while there is one, are left out.
pub fn sibling_failures(blocked: &[(FileName, Workspace)], campaign: Option<&str>) -> Vec<KnownFailure> {
    let ours = blocked.iter().filter(|(_, workspace)| {
        workspace.status == WorkspaceStatus::Blocked && workspace.campaign.as_deref() == campaign
    });
    let failure = |(name, workspace): &(FileName, Workspace)| {
        let reason = block_reason(&workspace.delivered)?;
        // A line that was only noted blocked no work.
        let trigger = reason.lines().map(str::trim).find(|line| !line.ends_with(NOTED)).unwrap_or_default();
        (!trigger.is_empty()).then(|| KnownFailure {
            name: format!("sibling-{}", name.stem()),
            cost: SIBLING_COST,
            trigger: trigger.to_owned(),
            fix: SIBLING_FIX.to_owned(),
            pattern: String::new(),
            injected: false,
        })
    };
    ours.filter_map(failure).collect()
}

/// How a finding ends that stops nothing.
const NOTED: &str = "(noted)";

/// What the tasks that a task depends on delivered: for each the first complete workspace of its seq. A file of this
/// campaign is taken before one that names none; one of another campaign never.
pub fn parents(task: &PlanTask, complete: &[(FileName, Workspace)], campaign: Option<&str>) -> Vec<Parent> {
    let parent = |seq: &String| {
        let wanted = Seq::read(seq)?;
        let of_seq = complete.iter().filter(|(name, workspace)| {
            Seq::read(name.seq()) == Some(wanted) && workspace.status == WorkspaceStatus::Complete
        });
        let own = of_seq.clone().find(|(_, workspace)| workspace.campaign.as_deref() == campaign);
        let found = own.or_else(|| of_seq.clone().find(|(_, workspace)| workspace.campaign.is_none()));
        found.map(|(name, workspace)| Parent {
            seq: Some(name.seq().to_owned()),
            workspace: name.stem(),
            prior_delivery: workspace.delivered.clone(),
        })
    };
    task.depends.iter().filter_map(parent).collect()
}
