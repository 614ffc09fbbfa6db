//! Coding a story: its worktree, its tests, its merge.

use super::build::{Landing, VerifyOutcome};
use super::scalars::{Digest, Seconds};
use crate::value::Value;

crate::records! {
    /// A story that a coder has.
    Assignment {
        /// The story's name.
        id: String,
        /// The coder that has it.
        coder: Option<String>,
    }

    /// The place where a story is coded.
    Site {
        /// The worktree: the only place the coder may write.
        path: String,
        /// The story's branch.
        branch: String,
        /// The commit that the branch started from.
        base: String,
        /// The commands that test the story, found or configured.
        tests: Option<Vec<String>>,
        /// The commands that check format and lints.
        lints: Option<Vec<String>>,
        /// The command that builds.
        build: Option<String>,
    }

    /// A worktree that is no longer used.
    SiteClosed {
        /// The private ref under which everything that existed only there is kept.
        kept: Option<String>,
    }

    /// How far the work on a story has come.
    Progress {
        /// What was done, in one sentence.
        summary: String,
        /// How many commits were made.
        commits: u64,
        /// The files that were changed.
        files: Vec<String>,
        /// How many lines were added.
        added: u64,
        /// How many lines were removed.
        removed: u64,
        /// What the last tests said.
        last_tests: Option<String>,
        /// What repeats: failing commands, the same call again and again.
        repeats: Vec<String>,
        /// How many budget reviews there were before.
        reviews: Option<u64>,
    }

    /// What a reviewer points to in order to show that a story is satisfied.
    Evidence {
        /// What is claimed.
        claim: String,
        /// The file that shows it.
        path: Option<String>,
        /// What stands in that file, word for word.
        quote: Option<String>,
        /// The test that shows it: a test command of the story, with words behind it or without.
        test: Option<String>,
    }

    /// Whether a story is satisfied by the code as it is.
    Proof {
        /// Whether the evidence was found and its tests pass.
        passed: bool,
        /// Whether it was looked at and does not hold.
        failed: bool,
        /// What was seen, in one sentence.
        summary: String,
        /// The tree that was looked at.
        tree: Option<Digest>,
        /// The claims that nothing supports.
        missing: Vec<String>,
    }

    /// What the tests of a story showed.
    TestReport {
        /// Whether all passed and some test ran.
        passed: bool,
        /// Whether some failed.
        failed: bool,
        /// What they said, as far as it matters.
        summary: String,
        /// The tree they ran on.
        tree: Option<Digest>,
        /// The commands that ran, one by one.
        checks: Vec<TestCheck>,
    }

    /// One command among the tests.
    TestCheck {
        /// What people call it: test, format, lint, build.
        name: String,
        /// The command.
        command: String,
        /// How it went.
        outcome: VerifyOutcome,
        /// Its exit code.
        exit: Option<i64>,
        /// How long it took.
        took: Option<Seconds>,
    }
}

crate::actions! {
    /// Waits until the story is this coder's.
    StoryAssigned = "story.assigned" wait (
        /// The story.
        story: Value,
    ) -> Assignment;

    /// Looks whether a story is already satisfied, by the evidence that was named.
    StorySatisfied = "story.satisfied" gate (
        /// The story.
        story: Value,
        /// What shows it; without any it is not satisfied.
        evidence: Option<Vec<Evidence>>,
    ) -> Proof;

    /// Makes the story's branch and worktree and finds out how to build and test there.
    WorktreeOpen = "worktree.open" act (
        /// The story.
        story: Value,
    ) -> Site;

    /// Removes a worktree whose work has landed; what exists only there is kept first.
    WorktreeClose = "worktree.close" act (
        /// The place.
        site: Site,
    ) -> SiteClosed, piped "site";

    /// Keeps everything that exists only in a worktree, so that it can be brought back.
    WorktreeKeep = "worktree.keep" act (
        /// The place; without one there is nothing to keep.
        site: Option<Site>,
    ) -> SiteClosed, piped "site";

    /// Looks how far the work on a story has come.
    WorktreeProgress = "worktree.progress" look (
        /// The place.
        site: Site,
    ) -> Progress, piped "site";

    /// Runs the tests, the format check and the lints of a story.
    TestsRun = "tests.run" gate (
        /// The place.
        site: Site,
        /// How long they may take.
        timeout: Option<Seconds>,
    ) -> TestReport, piped "site";

    /// Merges the story: locally, or through a pull request.
    WorkMerge = "work.merge" act (
        /// The tree that was tested and reviewed; another one is stale.
        tree: Digest,
    ) -> Landing;

    /// Waits until a forge has done its checks of a story's pull request, and merges it.
    PullMerge = "pull.merge" act (
        /// The tree that was tested and reviewed.
        tree: Digest,
    ) -> Landing;
}
