//! The shapes of a task's artifacts, as `ftl` writes them. Fields that are not named here may stand beside
//! those that are, and survive. What older work has instead is read, and has no shape here.

use super::lifecycle::{CaseCounts, Choice, Finding, Signal};
use super::roles::{FileIntent, Reviewer};
use crate::types::{Type, Typed};
use crate::value::Value;

crate::choices! {
    /// The phases of a task.
    TaskPhase {
        /// The brief becomes a plan.
        Planning = "planning",
        /// Reviewers read the plan.
        PlanReview = "plan_review",
        /// Files and patch are written.
        Codegen = "codegen",
        /// Reviewers read the patch.
        Review = "review",
        /// The suites run on the patch.
        Test = "test",
        /// A person decides about the work.
        Accept = "accept",
        /// What was applied is undone.
        Revert = "revert",
        /// The task is over.
        Done = "done",
    }

    /// How far a question has come.
    QuestionState {
        /// The question has no answer yet.
        Open = "open",
        /// It has an answer.
        Answered = "answered",
        /// A person goes on without one.
        Waived = "waived",
    }

    /// What the reviewers of a plan say together.
    PlanDecision {
        /// It may go on.
        Accepted = "accepted",
        /// The plan must change first.
        NeedsChanges = "needs_changes",
        /// It must not go on.
        Blocked = "blocked",
    }

    /// How far a test run has come.
    RunStatus {
        /// It has not begun.
        Pending = "pending",
        /// It has begun and not ended.
        Running = "running",
        /// It has ended; the suites say how.
        Completed = "completed",
        /// It has ended, and something failed.
        Failed = "failed",
    }

    /// How a suite or a case ended.
    SuiteStatus {
        /// It has not begun.
        Pending = "pending",
        /// It has begun and not ended.
        Running = "running",
        /// It has ended; nothing says how.
        Completed = "completed",
        /// It has ended well.
        Passed = "passed",
        /// It has ended, and something failed.
        Failed = "failed",
        /// It was left out.
        Skipped = "skipped",
        /// It could not be run.
        Error = "error",
    }
}

crate::records! {
    /// `state.json`: where a task is.
    TaskState {
        /// The task.
        task_id: Option<String>,
        /// The phase.
        phase: TaskPhase,
        /// What each phase has come to: `round`, `status` and more, by phase.
        actors: Option<Value>,
    }

    /// What belongs to a task and what does not.
    PlanScope {
        /// What does.
        in_scope: Vec<String>,
        /// What does not.
        out_of_scope: Option<Vec<String>>,
    }

    /// A file that a plan names.
    FilePlan {
        /// The path from the root of the repository; each once.
        path: String,
        /// What happens to it.
        intent: FileIntent,
        /// What changes in it.
        summary: Option<String>,
    }

    /// A question that a plan leaves open.
    OpenQuestion {
        /// Its name.
        id: Option<String>,
        /// Whose concern it is.
        role: Option<String>,
        /// The question.
        question: String,
        /// Whether nothing goes on before it is closed.
        blocking: Option<bool>,
        /// How far it has come; open unless said.
        state: Option<QuestionState>,
        /// The answer.
        answer: Option<String>,
    }

    /// `planning/planning.ai.json`: the plan.
    PlanningAi {
        /// The task.
        id: String,
        /// What it is called.
        title: String,
        /// What it is for.
        brief: String,
        /// What belongs to it.
        scope: Option<PlanScope>,
        /// How anybody can tell that it is done: texts, or objects with a description.
        acceptance_criteria: Option<Vec<Value>>,
        /// The files that it touches.
        file_plan: Option<Vec<FilePlan>>,
        /// Whether a patch without a change is complete.
        allow_empty_diff: Option<bool>,
        /// What is open.
        open_questions: Option<Vec<OpenQuestion>>,
        /// What the planner says about its own phase.
        signals: Option<Vec<Signal>>,
    }

    /// `planning/plan.files.json`: every file that may be touched.
    PlanFiles {
        /// The paths from the root of the repository.
        files: Vec<String>,
    }

    /// What evidence saw.
    Saw {
        /// The SHA-256 of planning.ai.json, in hex.
        plan_hash: Option<String>,
        /// The SHA-256 of diff.patch, in hex.
        diff_hash: Option<String>,
    }

    /// What reviewers of a plan say together.
    Aggregate {
        /// Whether it may go on.
        ok: Option<bool>,
        /// The same in a word.
        decision: Option<PlanDecision>,
    }

    /// `review/plan-review.json`: what reviewers say about the plan.
    PlanReviewFile {
        /// Whether it may go on.
        ok: Option<bool>,
        /// Whether somebody blocks it; may only make it stricter.
        blocked: Option<bool>,
        /// What they say together.
        aggregate: Option<Aggregate>,
        /// What each of them says.
        reviewers: Option<Vec<Reviewer>>,
        /// What they say about the phase.
        signals: Option<Vec<Signal>>,
        /// The plan that they saw.
        meta: Option<Saw>,
    }

    /// `code/codegen.json`: what the coder says about its own phase.
    CodegenFile {
        /// What was done.
        summary: Option<String>,
        /// What it says about the phase.
        signals: Option<Vec<Signal>>,
        /// The plan that it saw.
        meta: Option<Saw>,
    }

    /// `review/code-review.json`: what reviewers found in the patch.
    CodeReviewFile {
        /// What they found.
        issues: Vec<Finding>,
        /// What they say about the phase.
        signals: Option<Vec<Signal>>,
        /// The patch that they saw.
        meta: Option<Saw>,
    }

    /// One case of a suite.
    EvalCase {
        /// Its name.
        id: Option<String>,
        /// Its name for people.
        name: Option<String>,
        /// How it ended.
        status: SuiteStatus,
        /// What it said.
        details: Option<String>,
    }

    /// One suite of a report.
    EvalSuite {
        /// Its name.
        id: Option<String>,
        /// Its name for people.
        name: Option<String>,
        /// test, lint, or another word.
        kind: Option<String>,
        /// The command.
        command: Option<String>,
        /// How it ended.
        status: SuiteStatus,
        /// Whether it may fail without making the report red.
        allow_failure: Option<bool>,
        /// Whether all of it passed.
        overall_pass: Option<bool>,
        /// How many cases went which way.
        summary: Option<Value>,
        /// The cases, or some of them.
        cases: Option<Vec<EvalCase>>,
    }

    /// `eval/eval-report.json`: how the suites went on the patch.
    EvalReport {
        /// How far it has come.
        status: RunStatus,
        /// Whether everything passed; may only make it stricter.
        overall_pass: bool,
        /// How many cases went which way.
        summary: CaseCounts,
        /// The suites.
        suites: Vec<EvalSuite>,
        /// What it says about the phase.
        signals: Option<Vec<Signal>>,
        /// The patch that was tested.
        meta: Option<Saw>,
    }

    /// `accept/decision.json`: what a person decided.
    DecisionFile {
        /// What was decided.
        verdict: Choice,
        /// Where the work goes, when it was not accepted.
        route: Option<String>,
        /// Why; the key must be there.
        reasons: Vec<String>,
        /// The evidence that is missing and was decided without, by file.
        missing_evidence: Option<Vec<String>>,
        /// What it is based on, by file.
        artifacts: Option<Value>,
        /// When.
        timestamp: Option<String>,
        /// Who.
        decider: Option<Value>,
        /// `regression` sends the work to revert.
        signals: Option<Vec<Signal>>,
        /// The patch that it is about.
        meta: Option<Saw>,
    }

    /// `accept/commit.json`: the commit that the accepted patch became.
    CommitFile {
        /// The commit.
        commit: String,
        /// The commit before it.
        parent: String,
        /// The branch.
        branch: String,
        /// The files of the patch, and no others.
        files: Vec<String>,
        /// When.
        timestamp: String,
        /// The patch.
        meta: Saw,
    }

    /// `revert/record.json`: what was undone, and why.
    RevertRecord {
        /// Why.
        reason: String,
        /// When.
        timestamp: Option<String>,
        /// What was undone: a commit, or that nothing was applied.
        target: Option<Value>,
        /// The commit that undoes it.
        commit: Option<String>,
        /// Whether only a part was undone.
        partial: Option<bool>,
        /// Why a part is enough.
        explanation: Option<String>,
        /// What it says about the phase.
        signals: Option<Vec<Signal>>,
        /// The patch that was undone.
        meta: Option<Saw>,
    }
}

/// An artifact of a task.
#[derive(Clone, Debug)]
pub struct ArtifactKind {
    /// What it is called.
    pub name: &'static str,
    /// Where it is in the task's folder.
    pub path: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its shape.
    pub ty: Type,
}

/// Every artifact, in the order of the phases.
pub fn artifacts() -> Vec<ArtifactKind> {
    let one = |path: &'static str, about: &'static str, ty: Type| {
        let name = path.rsplit('/').next().unwrap_or(path);
        ArtifactKind { name, path, about, ty }
    };
    vec![
        one("state.json", "Where a task is.", TaskState::ty()),
        one("planning/planning.ai.json", "The plan.", PlanningAi::ty()),
        one("planning/plan.files.json", "Every file that may be touched.", PlanFiles::ty()),
        one("review/plan-review.json", "What reviewers say about the plan.", PlanReviewFile::ty()),
        one("code/codegen.json", "What the coder says about its own phase.", CodegenFile::ty()),
        one("review/code-review.json", "What reviewers found in the patch.", CodeReviewFile::ty()),
        one("eval/eval-report.json", "How the suites went on the patch.", EvalReport::ty()),
        one("accept/decision.json", "What a person decided.", DecisionFile::ty()),
        one("accept/commit.json", "The commit that the accepted patch became.", CommitFile::ty()),
        one("revert/record.json", "What was undone, and why.", RevertRecord::ty()),
    ]
}

/// The artifact of a name: `decision`, `decision.json` or `accept/decision.json`.
pub fn artifact(name: &str) -> Option<ArtifactKind> {
    let is = |one: &ArtifactKind| {
        one.name == name || one.path == name || one.name.strip_suffix(".json") == Some(name)
    };
    artifacts().into_iter().find(is)
}
