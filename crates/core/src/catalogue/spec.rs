//! The shape of a workspace: what a builder's brief says once it has been parsed.

use super::plan::{Idioms, TaskType};

crate::choices! {
    /// How far a workspace has come.
    WorkspaceStatus {
        /// Work may go on.
        Active = "active",
        /// Done and verified.
        Complete = "complete",
        /// Ended without success, with what was learned.
        Blocked = "blocked",
    }

    /// How much of the builder's machine a brief gets.
    BuildMode {
        /// All of it.
        Full = "full",
        /// Few tools and no second try; any failure escalates.
        Direct = "direct",
    }

    /// What kind of lesson a memory is.
    LessonKind {
        /// Something that went wrong, and what helped.
        Failure = "failure",
        /// Something that went well, and why.
        Pattern = "pattern",
    }
}

crate::records! {
    /// A workspace that has been parsed: all a builder needs to know.
    Spec {
        /// Its name, `<seq>-<slug>`.
        id: String,
        /// How far it has come.
        status: WorkspaceStatus,
        /// When it was made.
        created_at: Option<String>,
        /// When it was completed.
        completed_at: Option<String>,
        /// When it was blocked.
        blocked_at: Option<String>,
        /// What the plan as a whole is to reach.
        objective: Option<String>,
        /// The files that may change.
        delta: Vec<String>,
        /// The command that shows whether it is done.
        verify: String,
        /// The test file behind that command; empty when there is none.
        verify_source: Option<String>,
        /// How many tools it may take: files that are read or written, and commands.
        budget: u64,
        /// How often a red verify goes back to whoever wrote the work; not at all unless said.
        repairs: Option<u64>,
        /// How many files may be read while the approach is planned; none unless said.
        plan_reads: Option<u64>,
        /// Commands that must succeed before the verify command is worth running.
        preflight: Vec<String>,
        /// Findings of gates that the plan allows, each `KIND` or `KIND PATH`.
        allow: Option<Vec<String>>,
        /// The first file of the delta as it is now.
        code_context: Option<CodeContext>,
        /// The files of the delta as they are now, where there are several.
        code_contexts: Option<Vec<CodeContext>>,
        /// The framework of the repository, or `none`.
        framework: Option<String>,
        /// How sure that is, from 0 to 1; 1 when nobody said.
        framework_confidence: f64,
        /// What code of that framework must and must not look like.
        idioms: Option<Idioms>,
        /// Lessons recalled for this task.
        prior_knowledge: Option<PriorKnowledge>,
        /// The lessons that were used, once the workspace is complete.
        utilized_memories: Option<Vec<Used>>,
        /// What the tasks before it delivered.
        lineage: Option<Lineage>,
        /// What this task delivered, or why it is blocked; empty while it is active.
        delivered: String,
    }

    /// Part of a source file, as it was when the workspace was made.
    CodeContext {
        /// The file.
        path: String,
        /// Which lines are shown, such as `1-15,41-90`.
        lines: String,
        /// Those lines.
        content: String,
        /// What the file offers to others, separated by commas.
        exports: Option<String>,
        /// What the file takes from others, one a line.
        imports: Option<String>,
    }

    /// Lessons recalled for a task.
    PriorKnowledge {
        /// What went wrong before.
        failures: Vec<KnownFailure>,
        /// What went well before.
        patterns: Vec<KnownPattern>,
    }

    /// A pattern as a workspace carries it.
    KnownPattern {
        /// Its name in memory.
        name: String,
        /// How many tokens it saved when it was learned.
        saved: Option<u64>,
        /// When it applies.
        trigger: String,
        /// What to do.
        insight: String,
        /// Whether it came from memory.
        injected: Option<bool>,
    }

    /// What the tasks before this one delivered.
    Lineage {
        /// The tasks it depends on that are complete.
        parents: Vec<Parent>,
        /// The workspace of the first of them.
        parent: Option<String>,
        /// What the first of them delivered.
        prior_delivery: Option<String>,
    }

    /// A complete task that this one depends on.
    Parent {
        /// Its number; unknown in old files.
        seq: Option<String>,
        /// The name of its workspace.
        workspace: Option<String>,
        /// What it delivered.
        prior_delivery: Option<String>,
    }
}

crate::records! {
    /// A failure as a workspace carries it.
    KnownFailure {
        /// Its name in memory.
        name: String,
        /// How many tokens it cost when it was learned.
        cost: Option<u64>,
        /// How it shows.
        trigger: String,
        /// What helped; `UNKNOWN` when nothing is known to.
        fix: String,
        /// A pattern that the error text matches.
        pattern as "match": Option<String>,
        /// Whether it came from memory; a sibling's failure did not.
        injected: Option<bool>,
    }

    /// A lesson that was applied or heeded.
    Used {
        /// Its name in memory.
        name: String,
        /// What kind it is; a failure unless said.
        kind as "type": Option<LessonKind>,
    }

    /// A task that is still to do, as a planner sees it when it plans again.
    Remaining {
        /// Its number.
        seq: String,
        /// Its short name.
        slug: String,
        /// What sort of work it is.
        kind as "type": Option<TaskType>,
        /// The tasks it waits for, by seq.
        depends: Vec<String>,
    }
}
