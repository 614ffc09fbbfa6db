//! The kinds of findings of gates: the words that people and plans allow them by, and that summaries name.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// The kinds of findings. Their words are what people and plans allow them by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind { $($(#[$doc])* $name,)+ }

        impl FindingKind {
            /// All of them.
            pub const ALL: &[FindingKind] = &[$(FindingKind::$name,)+];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $(FindingKind::$name => $word,)+ }
            }
        }
    };
}

kinds! {
    /// A file that differs and that the delta does not name.
    OutsideDelta = "outside_delta",
    /// A link that leads out of the repository.
    LinkOutside = "link_outside",
    /// Nothing differs, or only white space.
    EmptyChange = "empty_change",
    /// A test file is gone, or is no file any more.
    TestFileDeleted = "test_file_deleted",
    /// A test is gone from a file that is still there.
    TestRemoved = "test_removed",
    /// A test is skipped, ignored or expected to fail.
    TestSkipped = "test_skipped",
    /// Some tests are marked as the only ones to run.
    TestFocused = "test_focused",
    /// A test asserts less often than before.
    AssertionRemoved = "assertion_removed",
    /// An assertion accepts more than before.
    AssertionWeakened = "assertion_weakened",
    /// A failed assertion is caught and dropped.
    AssertionSwallowed = "assertion_swallowed",
    /// A test that looks like one and checks nothing.
    HollowTest = "hollow_test",
    /// The value that a test expects is another one.
    ExpectationChanged = "expectation_changed",
    /// A runner runs fewer tests, or its failure is ignored.
    RunnerNarrowed = "runner_narrowed",
    /// The hooks or modules of a runner are replaced.
    RunnerPatched = "runner_patched",
    /// A test process ends itself with success.
    ExitsEarly = "exits_early",
    /// What the verify command goes through differs.
    VerifyChanged = "verify_changed",
    /// A file of continuous integration differs.
    CiChanged = "ci_changed",
    /// Recorded expectations are other ones.
    SnapshotRewritten = "snapshot_rewritten",
    /// Product code asks whether it is being tested.
    TestDetected = "test_detected",
    /// A test puts something else in the place of the product.
    ProductReplaced = "product_replaced",
    /// A linter, a type checker or a measure of coverage is told to look away.
    CheckSilenced = "check_silenced",
    /// A private key, a token or a password.
    SecretFound = "secret_found",
    /// A comparison that says yes to everything.
    AlwaysEqual = "always_equal",
    /// Fewer tests ran than on the base.
    FewerTests = "fewer_tests",
    /// A test of the base fails on the new product.
    ReplayFailed = "replay_failed",
    /// Nothing that failed before shows that the work is done.
    NotRedFirst = "not_red_first",
    /// A ref, a hook or the configuration of the repository differs since a turn.
    RepositoryTouched = "repository_touched",
    /// A test file that could not be read, so that its assertions are not known.
    TestUnreadable = "test_unreadable",
    /// There are more findings than are told.
    MoreFindings = "more_findings",
}

impl FindingKind {
    /// The kind of a word.
    pub fn parse(word: &str) -> Option<FindingKind> {
        FindingKind::ALL.iter().copied().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_words_that_read_back() {
        for kind in FindingKind::ALL {
            assert_eq!(FindingKind::parse(kind.word()), Some(*kind));
        }
        assert_eq!(FindingKind::parse("nonsense"), None);
    }
}
