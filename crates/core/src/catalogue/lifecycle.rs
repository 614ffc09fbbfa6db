//! The task lifecycle: gates that read artifacts, and the actions that a person's word sets off.
//!
//! An artifact gate never reads a flag. `passed` and `failed` are both false while an artifact is
//! missing, incomplete or stale; `missing` says which, in sentences for a person.

use super::scalars::Digest;
use crate::value::Value;

crate::choices! {
    /// How bad a finding is.
    Severity {
        /// Nothing goes on before it is dealt with.
        Blocking = "blocking",
        /// It should be dealt with.
        Major = "major",
        /// It may be dealt with.
        Minor = "minor",
    }

    /// What a finding is about.
    Category {
        /// The code itself.
        Code = "code",
        /// The plan behind the code.
        Plan = "plan",
    }

    /// What a person decided about finished work.
    Choice {
        /// The work is accepted.
        Accepted = "accepted",
        /// It goes back, by the route.
        NeedsWork = "needs_work",
        /// It is not taken.
        Rejected = "rejected",
        /// The person has not decided yet.
        Deferred = "deferred",
    }

    /// What a phase's agent may say about its own phase in the artifact.
    Signal {
        /// Something must change first.
        NeedsChanges = "needs_changes",
        /// The phase cannot go on.
        Blocked = "blocked",
        /// The plan does not say what to do.
        PlanUnclear = "plan_unclear",
        /// The work does not fit the files of the plan.
        ScopeMismatch = "scope_mismatch",
        /// The code does not do what the plan says.
        PlanMisalignment = "plan_misalignment",
        /// Something that worked does not work any more.
        Regression = "regression",
    }
}

crate::records! {
    /// One thing that a reviewer or a gate found.
    Finding {
        /// Its name in the artifact.
        id: Option<String>,
        /// How bad it is.
        severity: Severity,
        /// What it is about.
        category: Option<Category>,
        /// Who found it: a reviewer's role, or `ftl`.
        role: Option<String>,
        /// The file.
        path: Option<String>,
        /// What was found.
        message: String,
    }

    /// What the plan's artifacts show.
    PlanEvidence {
        /// Whether the plan is valid, without open questions, and names its files.
        passed: bool,
        /// Whether there is a plan that does not hold.
        failed: bool,
        /// What was seen, in one sentence.
        summary: String,
        /// The tree that was looked at, where one was.
        tree: Option<Digest>,
        /// What is missing, in sentences.
        missing: Vec<String>,
        /// The digest of the plan.
        plan: Option<Digest>,
        /// The blocking questions that nobody answered.
        questions: Vec<String>,
        /// The files that the plan names or implies.
        files: Vec<String>,
    }

    /// What the reviews of the plan show.
    PlanReviewEvidence {
        /// Whether every reviewer accepts this plan and nothing blocks it.
        passed: bool,
        /// Whether it is blocked or needs changes.
        failed: bool,
        /// What was seen, in one sentence.
        summary: String,
        /// The tree that was looked at, where one was.
        tree: Option<Digest>,
        /// What is missing, in sentences; says `stale` of a review of another plan.
        missing: Vec<String>,
        /// Whether any reviewer has a blocking finding, or the plan cannot be read.
        blocked: bool,
        /// Whether any reviewer asks for changes.
        needs_changes: bool,
        /// What the reviewers found.
        findings: Vec<Finding>,
        /// The digest of the plan that was reviewed.
        plan: Option<Digest>,
    }

    /// What the code's artifacts show.
    CodeEvidence {
        /// Whether patch and files exist and match the plan.
        passed: bool,
        /// Whether they exist and do not.
        failed: bool,
        /// What was seen, in one sentence.
        summary: String,
        /// The tree that was looked at, where one was.
        tree: Option<Digest>,
        /// What is missing, in sentences; names files that were planned and not made.
        missing: Vec<String>,
        /// Whether a file was made that the plan does not name.
        scope_mismatch: bool,
        /// Whether the plan does not say what to do.
        plan_unclear: bool,
        /// What does not match, one by one.
        findings: Vec<Finding>,
        /// The digest of the patch.
        patch: Option<Digest>,
        /// The files that were made or changed.
        files: Vec<String>,
    }

    /// What the reviews of the code show.
    CodeReviewEvidence {
        /// Whether this patch was reviewed and nothing blocks it.
        passed: bool,
        /// Whether it is blocked or needs changes.
        failed: bool,
        /// What was seen, in one sentence.
        summary: String,
        /// The tree that was looked at, where one was.
        tree: Option<Digest>,
        /// What is missing, in sentences; says `stale` of a review of another patch.
        missing: Vec<String>,
        /// Whether a blocking finding is about the plan, or the code does not do what it says.
        plan_flawed: bool,
        /// Whether any finding blocks.
        blocked: bool,
        /// Whether any reviewer asks for changes.
        needs_changes: bool,
        /// What the reviewers found.
        findings: Vec<Finding>,
        /// The digest of the patch that was reviewed.
        patch: Option<Digest>,
    }

    /// What the test report shows.
    ReportEvidence {
        /// Whether the report is of this patch, complete and green.
        passed: bool,
        /// Whether it is of this patch, complete and red.
        failed: bool,
        /// What it says, as far as it matters.
        summary: String,
        /// The tree that was tested.
        tree: Option<Digest>,
        /// What is missing, in sentences; says `stale` of a report of another patch.
        missing: Vec<String>,
        /// The digest of the patch that was tested.
        patch: Option<Digest>,
        /// The suites that failed.
        red_suites: Vec<String>,
    }

    /// What the recorded decision shows.
    DecisionEvidence {
        /// Whether this patch was accepted.
        passed: bool,
        /// Whether it was decided and not accepted.
        failed: bool,
        /// What was decided, in one sentence.
        summary: String,
        /// The tree that the decision was about, where one was.
        tree: Option<Digest>,
        /// What is missing, in sentences; says `stale` of a decision about another patch.
        missing: Vec<String>,
        /// What was decided.
        choice: Option<Choice>,
        /// Where the work goes, when it was not accepted.
        route: Option<String>,
        /// Whether something that worked does not work any more.
        regression: bool,
        /// The reasons as one text; never blank once something was decided.
        notes: String,
        /// The digest of the patch that the decision is about.
        patch: Option<Digest>,
        /// Who decided.
        decider: Option<String>,
    }

    /// What the record of a revert shows.
    RevertEvidence {
        /// Whether the work is undone and the record says why.
        passed: bool,
        /// Whether a revert was tried and could not be done.
        failed: bool,
        /// What was seen, in one sentence.
        summary: String,
        /// The tree after the revert.
        tree: Option<Digest>,
        /// What is missing, in sentences.
        missing: Vec<String>,
        /// The commit or patch that was undone.
        target: Option<String>,
    }

    /// How many cases of a test run went which way.
    CaseCounts {
        /// How many passed.
        passed: u64,
        /// How many failed.
        failed: u64,
        /// How many were skipped.
        skipped: u64,
        /// How many could not be run.
        error: u64,
    }

    /// What a test run wrote down.
    EvalResult {
        /// Whether every suite passed.
        overall_pass: bool,
        /// How many cases went which way.
        counts: CaseCounts,
        /// Where the report is.
        path: String,
        /// The digest of the patch that was tested.
        patch: Option<Digest>,
    }

    /// A decision that was written down.
    Recorded {
        /// Where it is.
        path: String,
        /// The digest of the patch that it is about.
        patch: Option<Digest>,
    }

    /// A patch that was applied and committed.
    Applied {
        /// The commit.
        commit: String,
        /// The files of the patch, and no others.
        files: Vec<String>,
        /// Where the commit is written down.
        path: Option<String>,
    }

    /// A patch that was undone.
    Reverted {
        /// The commit or patch that was undone.
        target: String,
        /// The commit that undoes it; none when it was never committed.
        commit: Option<String>,
        /// Where that is written down.
        path: Option<String>,
    }
}

crate::actions! {
    /// Looks whether the plan is valid, has no open question and names its files.
    ArtifactPlan = "artifact.plan" gate () -> PlanEvidence;

    /// Looks what the reviewers say about the plan as it is now.
    ArtifactPlanReview = "artifact.plan_review" gate () -> PlanReviewEvidence;

    /// Looks whether the patch and the files exist and match the plan.
    ArtifactCode = "artifact.code" gate () -> CodeEvidence;

    /// Looks what the reviewers say about the patch as it is now.
    ArtifactCodeReview = "artifact.code_review" gate () -> CodeReviewEvidence;

    /// Looks whether the patch as it is now was tested, and how that went.
    ArtifactReport = "artifact.report" gate () -> ReportEvidence;

    /// Looks what was decided about the patch as it is now.
    ArtifactDecision = "artifact.decision" gate () -> DecisionEvidence, recorded_by "decision.record";

    /// Looks whether the work is undone.
    ArtifactRevert = "artifact.revert" gate () -> RevertEvidence;

    /// Runs the configured suites on the patch and writes the report.
    EvalRun = "eval.run" act (
        /// Where it may write: an area of the task, a path or a list of paths.
        write: Option<Value>,
    ) -> EvalResult;

    /// Writes down what a person decided.
    DecisionRecord = "decision.record" act (
        /// What was decided.
        choice: Choice,
        /// Who decided.
        by: String,
        /// Why.
        reason: Option<String>,
        /// Where the work goes, when it was not accepted: a route that the document asks for.
        route: Option<String>,
    ) -> Recorded;

    /// Applies exactly this patch, commits its files and no others, and writes down the commit.
    PatchApply = "patch.apply" act (
        /// The patch that was accepted; another one is stale.
        patch: Digest,
    ) -> Applied;

    /// Undoes exactly what was applied, touches nothing else, and writes down why.
    PatchRevert = "patch.revert" act (
        /// Why.
        reason: String,
    ) -> Reverted;
}
