//! Tests in languages without a parser, read by their lines.
//!
//! A line with the word of a test begins one; each line that asserts is an assertion of one case, the file.

use super::assertion::{Assertion, one_line};
use super::cases::{Case, Cases, MAX_CASES, Mark, What};

const LINE_TESTS: [&str; 10] =
    ["@Test", "[Fact", "[Test", "[Theory", "function test", "def test_", "it \"", "it '", "TEST(", "@test "];
const LINE_SKIPS: [&str; 14] = [
    "@Ignore",
    "@Disabled",
    "markTestSkipped",
    "markTestIncomplete",
    "[Ignore",
    "Skip =",
    "xit ",
    "xdescribe ",
    "pending ",
    "skip ",
    "skip(",
    "GTEST_SKIP",
    "DISABLED_",
    "@tag :skip",
];
const LINE_FOCUS: [&str; 4] = ["fit ", "fdescribe ", ":focus", "focus: true"];
const LINE_ASSERTS: [&str; 8] =
    ["assert", "Assert", "expect", "should", "EXPECT_", "ASSERT_", "verify(", "refute"];

/// A file that has no parser: each line that asserts is an assertion of the one case that the file is.
pub(super) fn read(text: &str) -> Cases {
    let mut whole = Case { name: "the file".to_owned(), line: 1, is_test: false, ..Case::default() };
    let mut found = Cases::default();
    for (at, line) in text.lines().enumerate() {
        let (line, at) = (line.trim(), at + 1);
        let is_comment =
            ["//", "#", "*", "/*", "import ", "use ", "using "].iter().any(|word| line.starts_with(word));
        if is_comment || line.is_empty() {
            continue;
        }
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        if has(&LINE_SKIPS) {
            found.marks.push(Mark { what: What::Skip, text: super::short(line), line: at });
        } else if has(&LINE_FOCUS) {
            found.marks.push(Mark { what: What::Focus, text: super::short(line), line: at });
        }
        if has(&LINE_TESTS) && found.cases.len() < MAX_CASES {
            // The name stands on this line or, behind an annotation, on the next one with a bracket.
            let named = text
                .lines()
                .skip(at - 1)
                .take(4)
                .find(|one| one.contains('(') && !one.trim().starts_with(['@', '[']))
                .unwrap_or(line);
            let name = super::short(&one_line(named.trim().trim_end_matches('{')));
            found.cases.push(Case { name, line: at, is_test: true, ..Case::default() });
        } else if has(&LINE_ASSERTS) {
            whole.assertions.push(Assertion {
                strength: super::assertion::Strength::Range,
                ..Assertion::new(line, at, None)
            });
        }
    }
    found.cases.push(whole);
    found
}
