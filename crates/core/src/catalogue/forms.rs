//! The roles: who answers a `Task`, in which forms it may be asked, and what it gets in each of them.

use super::declare::fields_of;
use super::roles::{
    Approach, AskApplyFix, AskApproach, AskBudgetReview, AskCode, AskCodeReview, AskExplorer, AskFixSyntax,
    AskImplement, AskObserver, AskPhase, AskPlan, AskPlanReview, AskRepair, AskResolve, AskStoryPlan,
    AskStructure, AskTaskPlan, BudgetReview, CodeReview, CodeReviews, Coded, FoundDelta, FoundMemory,
    FoundPattern, FoundStructure, Observed, PhaseDone, PlanReview, PlanReviews, PlanText, Repair, StoryPlan,
    TaskPlan, Work,
};
use super::{CallLimit, Role, RoleForm, RoleRule, Sight, ToolSets};
use crate::types::Typed;
use crate::value::Name;

/// The tools of an agent that may write nothing.
const LOOKING: &[&str] = &["read", "search", "recall", "signal", "ask", "submit"];

/// The tools of an agent that may write.
const WRITING: &[&str] = &["read", "search", "edit", "write", "bash", "recall", "signal", "ask", "submit"];

/// The tools of a form that declares no others.
const USUAL: ToolSets = ToolSets { nothing: LOOKING, files: WRITING, worktree: WRITING };

/// Four explorers look side by side, and what they find is merged: an answer would belong to none of them.
const EXPLORING: ToolSets = ToolSets::always(&["read", "search", "recall", "signal", "submit"]);

/// Questions are for the plan: one that is asked while a whole worktree is coded would end the story.
const CODING: ToolSets = ToolSets {
    worktree: &["read", "search", "edit", "write", "bash", "recall", "signal", "submit"],
    ..USUAL
};

/// The roles of the catalogue, each with its forms.
pub(super) fn roles() -> Vec<Role> {
    vec![explorer(), planner(), builder(), observer(), coder(), architect(), reviewers()]
}

fn explorer() -> Role {
    let forms = vec![
        form::<AskStructure, FoundStructure>(Some("structure"), "Finds out where things are."),
        form::<AskExplorer, FoundPattern>(Some("pattern"), "Finds out how things are done here."),
        form::<AskExplorer, FoundMemory>(Some("memory"), "Recalls what happened before."),
        form::<AskExplorer, FoundDelta>(Some("delta"), "Finds out what is likely to change."),
    ];
    let calls = CallLimit::Setting("explorer.tools");
    let forms = forms.into_iter().map(|form| RoleForm { tools: EXPLORING, calls, ..form }).collect();
    let rules = &[RoleRule::CodeStandsIn, RoleRule::ByNameAlone];
    Role { rules, ..role("explorer", "Looks at the repository and changes nothing.", Some("mode"), forms) }
}

fn planner() -> Role {
    let forms = vec![
        form::<AskPlan, PlanText>(None, "Turns an objective into a decision: a plan, or questions."),
        form::<AskTaskPlan, TaskPlan>(
            None,
            "Plans one task: scope, files, how anybody can tell that it is done.",
        ),
    ];
    let rules = &[RoleRule::Resumes, RoleRule::MakesStories];
    Role { rules, ..role("planner", "Plans.", None, forms) }
}

fn builder() -> Role {
    let plan = form::<AskApproach, Approach>(Some("plan"), "Says how it means to go about it.");
    let implement = form::<AskImplement, Work>(Some("implement"), "Writes the files of the delta.");
    let repair =
        form::<AskRepair, Repair>(Some("repair"), "Mends its own work by what the verify command said.");
    let mends = |form| RoleForm { rules: &[RoleRule::WritesPath, RoleRule::Mends], ..form };
    let forms = vec![
        RoleForm {
            tools: ToolSets::always(&["read", "search", "submit"]),
            calls: CallLimit::Brief("plan_reads"),
            ..plan
        },
        RoleForm { rules: &[RoleRule::WritesPath, RoleRule::IsAuthor], ..implement },
        mends(form::<AskFixSyntax, Repair>(Some("fix_syntax"), "Mends files that are not well formed.")),
        mends(form::<AskApplyFix, Repair>(Some("apply_fix"), "Applies a fix that helped before.")),
        RoleForm { rules: &[RoleRule::WritesPath, RoleRule::Mends, RoleRule::SeesFailure], ..repair },
        mends(form::<AskResolve, Repair>(
            Some("resolve"),
            "Resolves a conflict, keeping what both sides meant.",
        )),
    ];
    let rules = &[RoleRule::FilesCountOnce, RoleRule::Resumes];
    let builder = role("builder", "Builds one brief with a few tools.", Some("step"), forms);
    Role { sight: Sight::Brief, rules, ..builder }
}

fn observer() -> Role {
    let forms =
        vec![form::<AskObserver, Observed>(None, "Learns from the run, after the automated analysis.")];
    Role { rules: &[RoleRule::CodeStandsIn], ..role("observer", "Learns.", None, forms) }
}

fn coder() -> Role {
    let code = form::<AskCode, Coded>(Some("code"), "Codes a story by its approved plan.");
    let phase = form::<AskPhase, PhaseDone>(None, "Writes the files of one task, by its plan and no others.");
    let forms = vec![
        form::<AskStoryPlan, StoryPlan>(Some("plan"), "Plans a story; reads only."),
        RoleForm { tools: CODING, rules: &[RoleRule::WritesPath, RoleRule::IsAuthor], ..code },
        RoleForm { rules: &[RoleRule::IsAuthor], ..phase },
    ];
    let coder = role("coder", "Writes code.", Some("step"), forms);
    Role { sight: Sight::Story, rules: &[RoleRule::Resumes], ..coder }
}

fn architect() -> Role {
    let forms = vec![
        form::<AskPlanReview, PlanReview>(Some("plan_review"), "Judges the plan of a story."),
        form::<AskBudgetReview, BudgetReview>(Some("budget_review"), "Judges whether to go on, and how."),
        form::<AskCodeReview, CodeReview>(Some("code_review"), "Judges the code of a story."),
    ];
    let architect = role("architect", "Judges another agent's work; never its own.", Some("step"), forms);
    Role { sight: Sight::Story, rules: &[RoleRule::Explains], ..architect }
}

fn reviewers() -> Role {
    let forms = vec![
        form::<AskPhase, PlanReviews>(Some("plan"), "Review the plan of a task."),
        form::<AskPhase, CodeReviews>(Some("code"), "Review the patch of a task."),
    ];
    let reviewers = role("reviewers", "Several reviewers, each for one concern.", Some("of"), forms);
    Role { rules: &[RoleRule::HasConcerns], ..reviewers }
}

fn role(name: &str, about: &'static str, selector: Option<&'static str>, forms: Vec<RoleForm>) -> Role {
    Role { name: Name::from(name), about, selector, forms, sight: Sight::Repository, rules: &[] }
}

fn form<Asked: Typed, Answer: Typed>(word: Option<&'static str>, about: &'static str) -> RoleForm {
    let (params, answer) = (fields_of::<Asked>(), Answer::ty());
    RoleForm { word, about, params, answer, tools: USUAL, calls: CallLimit::Meters, rules: &[] }
}
