//! The flows around the building: exploring, deciding, briefing, observing, learning.

use super::plan::Plan;
use super::scalars::{Digest, Seconds};
use super::spec::{BuildMode, PriorKnowledge, Spec, Used};
use crate::value::Value;

crate::choices! {
    /// What a planner decided.
    DecisionKind {
        /// There is a plan; go on with it.
        Proceed = "PROCEED",
        /// Questions must be answered first.
        Clarify = "CLARIFY",
        /// A person must confirm a choice first.
        Confirm = "CONFIRM",
        /// The text says none of these.
        Unknown = "UNKNOWN",
    }

    /// What running the verify command of a blocked workspace again showed.
    BlockStatus {
        /// The command still fails.
        Confirmed = "CONFIRMED",
        /// The command passes now.
        FalsePositive = "FALSE_POSITIVE",
        /// The command took too long or was ended from outside: neither a pass nor a failure.
        Indeterminate = "INDETERMINATE",
        /// It could not be run.
        Error = "ERROR",
    }
}

crate::records! {
    /// What the explorers found, merged: one section for each of them.
    Exploration {
        /// Version, time, commit and objective.
        _meta: Option<Value>,
        /// Where things are.
        structure: Option<Value>,
        /// How things are done here.
        pattern: Option<Value>,
        /// What happened before.
        memory: Option<Value>,
        /// What is likely to change.
        delta: Option<Value>,
    }

    /// What was cleared.
    Cleared {
        /// Whether there was anything.
        cleared: bool,
    }

    /// A file that was written.
    Written {
        /// Where it is.
        path: String,
        /// The digest of what was written.
        digest: Option<Digest>,
    }

    /// What a planner's text says.
    Decision {
        /// What the planner decided.
        kind: DecisionKind,
        /// What is wrong with the plan, all at once; empty when nothing is.
        problems: Vec<String>,
        /// The plan, when there is one without problems.
        plan: Option<Plan>,
        /// The questions that must be answered first.
        questions: Vec<String>,
        /// The choice that a person is asked to confirm.
        selection: Option<String>,
        /// The marks in the text that the decision was read from.
        markers_found: Option<Vec<String>>,
    }

    /// What a text says as a plan.
    ParsedPlan {
        /// What is wrong with it, all at once; empty when nothing is.
        problems: Vec<String>,
        /// The plan, when there is one without problems.
        plan: Option<Plan>,
    }

    /// A workspace that was made for a task.
    Brief {
        /// Where the workspace is.
        path: String,
        /// The name of the workspace, `<seq>-<slug>`.
        id: Option<String>,
        /// How much of the builder's machine it starts with.
        mode: BuildMode,
        /// How many tool calls it may take in that mode.
        budget: u64,
        /// How many it may take in full mode.
        full_budget: u64,
        /// The task told as a story, for a coder.
        story: String,
        /// What other runs are changing at the same time, each with the run; whoever lands second is merged and verified again.
        overlaps: Option<Vec<String>>,
        /// The task of an earlier run whose kept work is not in the worktree, because it conflicts with what has landed since.
        left_out: Option<String>,
        /// Lessons that were withheld by lot, to measure whether they help.
        withheld: Option<Vec<String>>,
    }

    /// Whether a workspace can be built from.
    Soundness {
        /// Whether nothing is missing.
        passed: bool,
        /// Whether something is missing or contradicts itself.
        failed: bool,
        /// What is wrong, in one sentence.
        summary: String,
        /// The tree that was looked at, where one was.
        tree: Option<Digest>,
        /// What is wrong, one by one.
        problems: Vec<String>,
    }

    /// A workspace that was ended.
    Ended {
        /// Where the workspace is now: its name changes with its status.
        path: String,
    }

    /// What the automated analysis of all workspaces found and learned.
    Analysis {
        /// How many workspaces there are of each status.
        workspaces: WorkspaceCounts,
        /// What running the blocked ones again showed.
        verified: Vec<VerifiedBlock>,
        /// The failures that were learned.
        failures_extracted: Vec<Learned>,
        /// The patterns that were learned.
        patterns_extracted: Vec<LearnedPattern>,
        /// How many relationships between lessons were added.
        relationships_added: u64,
        /// Whether the settings bind an agent to the observer by name, and not only to every role.
        observer_is_named: Option<bool>,
    }

    /// How many workspaces there are of each status.
    WorkspaceCounts {
        /// Done and verified.
        complete: u64,
        /// Ended without success.
        blocked: u64,
        /// Still at work.
        active: u64,
    }

    /// What running the verify command of a blocked workspace again showed.
    VerifiedBlock {
        /// The workspace.
        workspace: String,
        /// What it showed.
        status: BlockStatus,
        /// Why, such as `exit 1` or `Tests pass now`.
        reason: String,
    }

    /// A lesson that was handed to memory.
    Learned {
        /// Its name.
        name: String,
        /// What memory did with it: `added`, or `merged:` with the name of the one it went into.
        result: String,
    }

    /// A pattern that was handed to memory, with its score.
    LearnedPattern {
        /// Its name.
        name: String,
        /// The score of the workspace it came from.
        score: u64,
        /// The points that make up the score, by factor.
        breakdown: Value,
        /// What memory did with it.
        result: String,
    }

    /// The lesson that an error matches.
    LessonMatch {
        /// Whether a lesson with a known fix matches.
        found: bool,
        /// Whether that lesson is tagged flaky, so that a second retry is worth it.
        flaky: bool,
        /// Its name in memory.
        name: Option<String>,
        /// What helped.
        fix: Option<String>,
        /// How alike error and trigger are, from 0 to 1.
        similarity: Option<f64>,
        /// By what it matches (text, match or meaning), or that nothing fits.
        why: Option<String>,
    }

    /// An experience that was written down.
    Experience {
        /// Its name.
        name: String,
        /// Where it is.
        path: String,
    }
}

crate::actions! {
    /// Forgets what earlier explorers found.
    ExplorationClear = "exploration.clear" act () -> Cleared;

    /// Merges what the explorers answered into one exploration; an error or a gap is kept as such.
    ExplorationAggregate = "exploration.aggregate" look (
        /// What the exploration was for.
        objective: String,
        /// The explorers' answers, one by one or by mode.
        parts: Value,
    ) -> Exploration;

    /// Writes an exploration where the later steps and other programs read it.
    ExplorationWrite = "exploration.write" act (
        /// The exploration.
        exploration: Exploration,
    ) -> Written, piped "exploration";

    /// Reads a planner's text: its decision, its plan with everything that is wrong, its questions.
    DecisionParse = "decision.parse" look (
        /// The planner's text.
        text: String,
        /// How many tasks the plan may have; any number when left out.
        most: Option<u64>,
    ) -> Decision, piped "text";

    /// Reads a plan out of a text and validates it.
    PlanParse = "plan.parse" look (
        /// The planner's text.
        text: String,
    ) -> ParsedPlan, piped "text";

    /// Makes the workspace of one task: code, idioms, lessons and what came before it.
    WorkspaceCreate = "workspace.create" act (
        /// The plan.
        plan: Plan,
        /// The task, by seq; the only one when left out.
        task: Option<String>,
    ) -> Brief;

    /// Reads a workspace.
    WorkspaceParse = "workspace.parse" look (
        /// Where the workspace is.
        path: String,
    ) -> Spec, piped "path";

    /// Looks whether a workspace can be built from: files, verify command, budget, status.
    WorkspaceValidate = "workspace.validate" gate (
        /// The workspace, parsed.
        spec: Spec,
    ) -> Soundness, piped "spec";

    /// Ends an active workspace as complete.
    WorkspaceComplete = "workspace.complete" act (
        /// Where the workspace is.
        path: String,
        /// What was delivered.
        delivered: String,
        /// The lessons that were really used.
        utilized: Option<Vec<Used>>,
        /// What was tried after a failure, in order; the last of it mended the work.
        tried: Option<Value>,
    ) -> Ended;

    /// Ends an active workspace as blocked.
    WorkspaceBlock = "workspace.block" act (
        /// Where the workspace is.
        path: String,
        /// Why it is blocked.
        reason: String,
        /// What was tried: a name, a sentence or a list.
        tried: Option<Value>,
    ) -> Ended;

    /// Verifies blocked workspaces, scores complete ones and learns from both, without a model.
    ObserverAnalyze = "observer.analyze" act (
        /// Whether blocked workspaces are verified again; they are unless said.
        verify: Option<bool>,
        /// How long one verify command may take.
        timeout: Option<Seconds>,
    ) -> Analysis;

    /// Looks for a lesson that fits an error. Where none does it finds nothing: what merely resembles it is no answer.
    LessonMatching = "lesson.match" look (
        /// What the verify command said.
        error: String,
        /// All that it printed, by its digest; the error is matched in there, before anything is cut.
        output: Option<Value>,
        /// The lessons to look at first.
        among: Option<PriorKnowledge>,
    ) -> LessonMatch;

    /// Learns a failure together with what mended it.
    LessonLearn = "lesson.learn" act (
        /// What went wrong.
        trigger: String,
        /// What mended it.
        fix: String,
        /// Where it happened: a workspace or a run.
        source: Option<String>,
    ) -> Learned;

    /// Writes down an experience: what happened, what was tried, where.
    LessonExperience = "lesson.experience" act (
        /// What went wrong.
        trigger: String,
        /// What was tried: a name, a sentence or a list.
        attempted: Option<Value>,
        /// Where it happened: a workspace or a run.
        source: Option<String>,
        /// How many tokens it cost.
        cost: Option<u64>,
    ) -> Experience;
}
