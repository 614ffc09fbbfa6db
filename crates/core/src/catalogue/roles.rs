//! What roles are asked and what they answer, in each form of asking; `forms` says which roles there are.
//!
//! What a role is told (feedback, answers, errors) may be anything; what it answers is typed. A
//! digest in an answer is filled in by `ftl` from what was really submitted, never by the agent.

use super::code::Evidence;
use super::flow::Exploration;
use super::lifecycle::{Finding, Signal};
use super::plan::Idioms;
use super::scalars::Digest;
use super::spec::{Spec, Used};
use crate::value::Value;

crate::choices! {
    /// What an explorer looks for.
    ExplorerMode {
        /// Where the files, modules and entry points are.
        Structure = "structure",
        /// How things are done here.
        Pattern = "pattern",
        /// What memory knows of earlier work.
        Memory = "memory",
        /// What is likely to change.
        Delta = "delta",
    }

    /// How well an explorer could look.
    ExplorerStatus {
        /// It looked at all that it should.
        Ok = "ok",
        /// It looked at a part.
        Partial = "partial",
        /// It could not look.
        Error = "error",
    }

    /// What an architect says about a plan.
    PlanVerdict {
        /// The plan is good: code it.
        Approve = "APPROVE",
        /// The plan must be made again.
        Changes = "CHANGES",
        /// The story is given up.
        Abandon = "ABANDON",
        /// There is nothing left to do, and this shows it.
        Complete = "COMPLETE",
    }

    /// What an architect says about work that ran out of iterations.
    BudgetVerdict {
        /// Another round with the same plan.
        Continue = "CONTINUE",
        /// Go on another way.
        Pivot = "PIVOT",
        /// Make a new plan.
        Replan = "REPLAN",
        /// The story is given up.
        Abandon = "ABANDON",
    }

    /// What an architect says about code.
    CodeVerdict {
        /// The code is good: merge it.
        Approve = "APPROVE",
        /// The code must change.
        Changes = "CHANGES",
        /// The story is given up.
        Abandon = "ABANDON",
    }

    /// What happens to a file of a plan.
    FileIntent {
        /// The file is new.
        Create = "create",
        /// The file is changed.
        Update = "update",
        /// It is one or the other.
        CreateOrUpdate = "create_or_update",
        /// The file is removed.
        Delete = "delete",
    }

    /// What one reviewer of a plan says.
    ReviewerDecision {
        /// It may go on.
        Accept = "accept",
        /// The plan should change.
        NeedsChanges = "needs_changes",
        /// It must not go on.
        Blocked = "blocked",
        /// Another reviewer should judge.
        Defer = "defer",
    }
}

crate::records! {
    /// What an explorer of the structure is asked.
    AskStructure {
        /// What the exploration is for.
        objective: Option<String>,
        /// What code has found already; filled in by `ftl`.
        found: Option<Value>,
    }

    /// What any other explorer is asked.
    AskExplorer {
        /// What the exploration is for.
        objective: String,
        /// What code has found already; filled in by `ftl`.
        found: Option<Value>,
    }

    /// Where things are.
    FoundStructure {
        /// Always `structure`.
        mode: ExplorerMode,
        /// How well it could be looked at.
        status: ExplorerStatus,
        /// Why not, when it could not.
        error: Option<String>,
        /// The folders that matter, each with whether it is there.
        directories: Option<Value>,
        /// The files where the program starts.
        entry_points: Option<Vec<String>>,
        /// The files that configure it.
        config_files: Option<Vec<String>>,
        /// How test files are named.
        test_pattern: Option<String>,
        /// How many files there are.
        file_count: Option<u64>,
        /// The main language.
        language: Option<String>,
    }

    /// How things are done here.
    FoundPattern {
        /// Always `pattern`.
        mode: ExplorerMode,
        /// How well it could be looked at.
        status: ExplorerStatus,
        /// Why not, when it could not.
        error: Option<String>,
        /// The framework, or `none`.
        framework: Option<String>,
        /// How sure that is, from 0 to 1.
        confidence: Option<f64>,
        /// What code of that framework must and must not look like.
        idioms: Option<Idioms>,
        /// How the code is written: type hints, doc comments.
        style: Option<Value>,
        /// The sections of the README.
        readme_sections: Option<Value>,
    }

    /// What happened before.
    FoundMemory {
        /// Always `memory`.
        mode: ExplorerMode,
        /// How well it could be looked at.
        status: ExplorerStatus,
        /// Why not, when it could not.
        error: Option<String>,
        /// Failures that bear on the objective.
        failures: Option<Vec<Value>>,
        /// Patterns that bear on the objective.
        patterns: Option<Vec<Value>>,
        /// Campaigns with a similar objective.
        similar_campaigns: Option<Vec<Value>>,
        /// How many lessons there are in all.
        total_in_memory: Option<Value>,
    }

    /// What is likely to change.
    FoundDelta {
        /// Always `delta`.
        mode: ExplorerMode,
        /// How well it could be looked at.
        status: ExplorerStatus,
        /// Why not, when it could not.
        error: Option<String>,
        /// The words that were searched for.
        search_terms: Option<Vec<String>>,
        /// The files, each with a path, its relevance (high, medium, low) and what matters in it.
        candidates: Option<Vec<Value>>,
        /// How sure that is, from 0 to 1.
        confidence: Option<f64>,
    }

    /// What a planner of a flow is asked.
    AskPlan {
        /// The objective, or what is known when the rest is planned again.
        input: Value,
        /// What the explorers found; none when merging it took too long.
        exploration: Option<Exploration>,
        /// What was answered or found wrong since the last draft.
        answers: Option<Value>,
    }

    /// What a planner of a flow answers.
    PlanText {
        /// The decision with the plan or the questions, as text.
        text: String,
    }

    /// What a planner of a task's lifecycle is asked.
    AskTaskPlan {
        /// What the task is.
        brief: String,
        /// Why the last plan was not good enough.
        feedback: Option<Value>,
        /// Where it may write: an area of the task, a path or a list of paths.
        write: Option<Value>,
    }

    /// A file that a task's plan names.
    PlannedFile {
        /// The path from the root of the repository.
        path: String,
        /// What happens to it.
        intent: FileIntent,
        /// What changes in it, in one sentence.
        summary: Option<String>,
    }

    /// A question that a task's planner cannot answer.
    PlanQuestion {
        /// The question.
        question: String,
        /// Whether nothing goes on before it is answered.
        blocking: bool,
        /// Whose concern it is, such as product or risk.
        role: Option<String>,
    }

    /// The plan of one task, as its planner submits it; `ftl` writes it down.
    TaskPlan {
        /// What the task is called, in a few words.
        title: String,
        /// What is done, in a few sentences.
        summary: String,
        /// What belongs to it.
        in_scope: Vec<String>,
        /// What does not.
        out_of_scope: Option<Vec<String>>,
        /// How anybody can tell that it is done.
        acceptance_criteria: Vec<String>,
        /// Every file that may be touched, and no other.
        file_plan: Vec<PlannedFile>,
        /// What could go wrong.
        risks: Option<Vec<String>>,
        /// How it is tested.
        test_plan: Option<String>,
        /// What is still open.
        open_questions: Option<Vec<PlanQuestion>>,
        /// What the planner says about its own phase.
        signals: Option<Vec<Signal>>,
    }

    /// What an agent of a phase answers, beside the files that it wrote.
    PhaseDone {
        /// What was done, in one sentence.
        summary: String,
        /// What it says about its own phase.
        signals: Option<Vec<Signal>>,
    }

    /// What a builder is asked before it may write.
    AskApproach {
        /// The workspace, parsed.
        spec: Spec,
    }

    /// How a builder means to go about it.
    Approach {
        /// The way, in a few sentences.
        approach: String,
        /// What will be done, in order.
        steps: Option<Vec<String>>,
        /// The idioms that will be used.
        idioms: Option<Vec<String>>,
        /// The known failures that will be avoided, by name.
        avoid: Option<Vec<String>>,
    }

    /// What a builder is asked to implement.
    AskImplement {
        /// The workspace, parsed.
        spec: Spec,
        /// How it means to go about it.
        approach: Value,
        /// The text of the tests, where they were read.
        tests: Option<String>,
        /// The files it may write.
        write: Option<Value>,
    }

    /// What a builder did.
    Work {
        /// What was done, in one sentence.
        summary: Option<String>,
        /// The lessons that were really applied or heeded.
        utilized: Vec<Used>,
    }

    /// What a builder is asked to mend.
    AskFixSyntax {
        /// What the syntax check said.
        errors: Value,
        /// The files it may write.
        write: Option<Value>,
    }

    /// What a builder is asked to do about a known failure.
    AskApplyFix {
        /// What the verify command said.
        error: Value,
        /// What helped before.
        fix: Value,
        /// The files it may write.
        write: Option<Value>,
    }

    /// What a builder is asked to do about work of its own that did not verify.
    AskRepair {
        /// The workspace, parsed.
        spec: Spec,
        /// What the verify command said: the failing tests, as far as they matter.
        error: Value,
        /// The whole output, by its digest; the end of it is shown by `ftl`.
        output: Option<Value>,
        /// What was changed so far, as a patch; filled in by `ftl`.
        change: Option<String>,
        /// The files it may write.
        write: Option<Value>,
    }

    /// What a builder is asked to do about a conflict.
    AskResolve {
        /// Both sides of every place.
        sides: Value,
        /// The files it may write.
        write: Option<Value>,
    }

    /// What a builder answers to a repair.
    Repair {
        /// What was changed, in one sentence.
        summary: String,
    }

    /// What an observer is asked: nothing, it looks at the run.
    AskObserver {}

    /// What an observer learned, beside what the automated analysis did.
    Observed {
        /// What was learned, in a few sentences.
        summary: String,
        /// The lessons it added or changed, by name.
        lessons: Option<Vec<String>>,
        /// Where it judged otherwise than the analysis.
        overrides: Option<Vec<Override>>,
    }

    /// One place where an observer judged otherwise than the analysis.
    Override {
        /// The workspace or lesson.
        name: String,
        /// Why.
        reason: String,
    }

    /// What a coder is asked to plan.
    AskStoryPlan {
        /// The story.
        story: Value,
        /// Why the last plan was not good enough.
        feedback: Option<Value>,
    }

    /// A coder's plan.
    StoryPlan {
        /// The digest of the plan; filled in by `ftl`.
        digest: Option<Digest>,
        /// The plan.
        text: String,
        /// What will be done, in order.
        todos: Option<Vec<String>>,
        /// How sure the coder is.
        confidence: Option<String>,
    }

    /// What a coder is asked to code.
    AskCode {
        /// The story.
        story: Value,
        /// The plan that was approved.
        plan: Digest,
        /// What reviewers, tests or a conflict said since.
        feedback: Option<Value>,
        /// Where it may write.
        write: Option<Value>,
    }

    /// What a coder or a reviewer in the lifecycle is asked.
    AskPhase {
        /// Why the last round was not good enough.
        feedback: Option<Value>,
        /// Where it may write: an area of the task, a path or a list of paths.
        write: Option<Value>,
        /// What the task is; filled in by `ftl`.
        brief: Option<String>,
        /// The plan of the task; filled in by `ftl`.
        plan: Option<Value>,
        /// The patch of the task; filled in by `ftl`.
        patch: Option<String>,
        /// The concern that a reviewer speaks for; filled in by `ftl`.
        concern: Option<String>,
    }

    /// What a coder did.
    Coded {
        /// What was done, in one sentence.
        summary: String,
        /// The todos that are done.
        done: Option<Vec<String>>,
    }

    /// What an architect is asked about a plan.
    AskPlanReview {
        /// The story.
        story: Value,
        /// The plan.
        plan: Digest,
    }

    /// What an architect says about a plan.
    PlanReview {
        /// The verdict.
        verdict: PlanVerdict,
        /// What the coder must know.
        feedback: String,
        /// For COMPLETE, what shows it.
        evidence: Option<Vec<Evidence>>,
    }

    /// What an architect is asked about work that ran out of iterations.
    AskBudgetReview {
        /// The story.
        story: Value,
        /// What ran out.
        reason: Value,
        /// How far the work has come.
        progress: Value,
    }

    /// What an architect says about work that ran out of iterations.
    BudgetReview {
        /// The verdict.
        verdict: BudgetVerdict,
        /// What the coder must know.
        feedback: String,
    }

    /// What an architect is asked about code.
    AskCodeReview {
        /// The story.
        story: Value,
        /// The plan that was approved.
        plan: Digest,
        /// The tree that was tested.
        tree: Digest,
    }

    /// What an architect says about code.
    CodeReview {
        /// The verdict.
        verdict: CodeVerdict,
        /// What the coder must know.
        feedback: String,
        /// What was looked at.
        evidence: Option<Vec<Evidence>>,
    }

    /// What several reviewers say about a plan.
    PlanReviews {
        /// What they say together, in one sentence.
        summary: String,
        /// What each of them says.
        reviewers: Vec<Reviewer>,
        /// What they say about the phase.
        signals: Option<Vec<Signal>>,
    }

    /// What one reviewer says about a plan.
    Reviewer {
        /// The reviewer's name in the artifact.
        id: String,
        /// The reviewer's role, such as product or risk.
        role: Option<String>,
        /// Whether the plan may go on.
        ok: bool,
        /// What the reviewer decided.
        decision: Option<ReviewerDecision>,
        /// How sure the reviewer is, from 0 to 1.
        confidence: Option<f64>,
        /// What is good.
        strengths: Option<Vec<String>>,
        /// What is not.
        weaknesses: Option<Vec<String>>,
        /// What would be better.
        suggestions: Option<Vec<String>>,
        /// What must change before the plan may go on.
        blocking_issues: Option<Vec<String>>,
    }

    /// What several reviewers say about code.
    CodeReviews {
        /// What they say together, in one sentence.
        summary: String,
        /// What they found.
        issues: Vec<Finding>,
        /// What they say about the phase.
        signals: Option<Vec<Signal>>,
    }
}
