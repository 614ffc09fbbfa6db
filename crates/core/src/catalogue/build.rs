//! Building one brief: the gates that look at it, and the landing of what passed.
//!
//! No parameter here names a worktree: these act where the asking instance works.

use super::scalars::{Digest, Seconds};
use super::spec::Spec;

crate::choices! {
    /// How a verify command went. One that could not be run is a failure of the step, not an answer.
    VerifyOutcome {
        /// It succeeded, and tests ran.
        Passed = "passed",
        /// It did not succeed.
        Failed = "failed",
        /// It did both on one tree.
        Flaky = "flaky",
        /// It succeeded, but ran no test.
        NoTests = "no_tests",
    }

    /// How a syntax check went.
    PreflightStatus {
        /// Every file that can be checked is well formed.
        Pass = "pass",
        /// Some file is not.
        Fail = "fail",
        /// No file is of a kind that can be checked.
        Skip = "skip",
    }

    /// How a landing went.
    LandingStatus {
        /// The branch has moved, and what it holds is verified.
        Landed = "landed",
        /// Another run or a person changed the same lines.
        Conflict = "conflict",
        /// What would have landed does not pass.
        Failed = "failed",
    }

    /// How finished work gets to the person's branch.
    Delivery {
        /// The branch moves forward to the work.
        FastForward = "ff",
        /// The work becomes one commit.
        Squash = "squash",
        /// The work stays on its own branch.
        BranchOnly = "branch-only",
    }

    /// What became of a delivery.
    DeliveryStatus {
        /// The person's branch has it.
        Landed = "landed",
        /// It stays on its own branch.
        Kept = "kept",
    }
}

crate::records! {
    /// What running a verify command showed.
    VerifyReport {
        /// Whether it succeeded, with tests, each time it was run.
        passed: bool,
        /// Whether it did not succeed.
        failed: bool,
        /// What it said, as far as it matters.
        summary: String,
        /// The tree it ran on.
        tree: Option<Digest>,
        /// How it went.
        outcome: VerifyOutcome,
        /// The command.
        command: Option<String>,
        /// The command's exit code.
        exit: Option<i64>,
        /// How long it took.
        took: Option<Seconds>,
        /// Where the whole output is kept.
        output: Option<Digest>,
        /// Whether it failed before anything was changed.
        red_before: Option<bool>,
        /// Of a failure what makes it the same as another one; none of a success.
        signature: Option<Digest>,
    }

    /// What a syntax check of files showed.
    Syntax {
        /// Whether no file is broken.
        passed: bool,
        /// Whether some file is broken.
        failed: bool,
        /// The errors, as far as they matter.
        summary: String,
        /// The tree that was looked at.
        tree: Option<Digest>,
        /// How it went.
        status: PreflightStatus,
        /// The files that are broken.
        broken: Vec<String>,
        /// The files that nothing here can check.
        skipped: Option<Vec<String>>,
    }

    /// Whether code keeps to its idioms and still offers what it offered.
    Quality {
        /// Whether nothing is violated.
        passed: bool,
        /// Whether something is.
        failed: bool,
        /// What is violated, in one sentence.
        summary: String,
        /// The tree that was looked at.
        tree: Option<Digest>,
        /// What is violated, one by one.
        violations: Vec<Violation>,
    }

    /// One idiom that is violated, or one export that is gone.
    Violation {
        /// The required or forbidden idiom, or the export.
        rule: String,
        /// The file.
        path: Option<String>,
        /// The line.
        line: Option<u64>,
        /// What is wrong.
        message: String,
    }

    /// A file that was read.
    FileText {
        /// The file.
        path: String,
        /// What it says.
        text: String,
        /// Whether it was too long and its end is missing.
        truncated: Option<bool>,
    }

    /// How a landing went.
    Landing {
        /// How it went.
        status: LandingStatus,
        /// What landed or why it did not, in one sentence.
        summary: String,
        /// The commit it landed as.
        commit: Option<String>,
        /// The branch that the work is meant for: the person's, or the run's own where there is no other.
        target: String,
        /// The tree that was verified after merging.
        tree: Option<Digest>,
        /// In a conflict, both sides of every place.
        sides: Vec<Side>,
        /// In a conflict, the files concerned.
        files: Vec<String>,
        /// The pull request, where the merge goes through a forge.
        url: Option<String>,
        /// What the forge still waits for before the pull request can be merged.
        checks: Option<Vec<String>>,
    }

    /// Both sides of one conflict.
    Side {
        /// The file.
        path: String,
        /// What both sides started from.
        base: Option<String>,
        /// What the branch says.
        theirs: Option<String>,
        /// What this work says.
        ours: Option<String>,
    }

    /// What became of a delivery.
    Delivered {
        /// What became of it.
        status: DeliveryStatus,
        /// What happened, in one sentence.
        summary: String,
        /// The branch that holds the work.
        branch: String,
        /// The person's branch.
        target: Option<String>,
        /// The commit that the person's branch is at now.
        commit: Option<String>,
    }
}

crate::actions! {
    /// Runs the verify command on the work, and looks at scope and integrity too.
    VerifyRun = "verify.run" gate (
        /// The command.
        command: String,
        /// How long it may take.
        timeout: Option<Seconds>,
    ) -> VerifyReport, piped "command";

    /// Checks the syntax of files, each as its kind demands.
    PreflightCheck = "preflight.check" gate (
        /// The files.
        files: Vec<String>,
    ) -> Syntax, piped "files";

    /// Looks whether the code keeps to the idioms of its brief and still offers what it offered.
    QualityCheck = "quality.check" gate (
        /// The brief.
        spec: Spec,
    ) -> Quality, piped "spec";

    /// Reads one file of the worktree.
    FileRead = "file.read" look (
        /// The file.
        path: String,
    ) -> FileText, piped "path";

    /// Lands the work on the run's branch: rebases, verifies the merged tree, moves the branch.
    WorkLand = "work.land" act (
        /// The tree that was verified; another one is stale. Left out, what is there now is landed.
        tree: Option<Digest>,
        /// The command that must succeed on the merged tree.
        verify: String,
    ) -> Landing;

    /// Brings the run's branch to the person's branch, or leaves it where it is.
    BranchDeliver = "branch.deliver" act (
        /// How.
        how: Delivery,
    ) -> Delivered;
}
