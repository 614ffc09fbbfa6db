//! Causes in plain words: why something ended or stands still, in one line that needs no page to explain it.
//!
//! Reasons come from protocols, gates and agents, and JSON gives them as they are. People are told the cause first, and
//! words of a protocol are said in words of the field.

use ftl_core::catalogue::finding::FindingKind;
use ftl_core::run::End;

use crate::paint;

/// How long a reason may be.
const MAX_REASON: usize = 160;

/// How reasons of the built-in protocols begin, and what is said behind the cause instead.
const BEGINNINGS: [(&str, &str); 5] = [
    ("discovery needed: ", "no lesson tells how to fix it"),
    ("budget exhausted: ", "no tool calls were left to fix it"),
    ("same failure after a retry: ", "it failed the same way after a fix was tried"),
    ("the same failure three times in a row: ", "it failed in the same way three times in a row"),
    ("idiom violation: ", "the framework's idioms are not kept"),
];

/// Why something ended or stands still, in one line.
pub fn cause(text: &str) -> String {
    let text = text.trim();
    // What to do is said whole: it stands at the end, where a long cause is cut.
    if let Some((before, hint)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (hint: ")) {
        return format!("{} (hint: {hint})", cause(before));
    }
    if let Some((rest, more)) =
        BEGINNINGS.iter().find_map(|(word, more)| Some((text.strip_prefix(word)?, more)))
    {
        return format!("{}; {more}", reason(&telling(rest)));
    }
    if let Some(limit) = text.strip_prefix("tools spent: the limit is ") {
        return format!("it has used all {} of its tool calls", reason(limit));
    }
    if let Some(missing) = text.strip_prefix("missing: ") {
        return format!("too few explorers answered; missing: {}", reason(missing));
    }
    reason(&telling(text))
}

/// The word for how something ended. `escalated` is a word between protocols.
pub fn end_word(end: End) -> &'static str {
    if end == End::Escalated { "gave up" } else { end.word() }
}

/// What tells most of a summary: a finding that blocks, a line that names a failure, or its first two lines.
pub fn telling(summary: &str) -> String {
    const TELLS: [&str; 5] = ["not ok", "FAIL", "Error", "error", "panicked"];
    // What is only noted, or was allowed, stops nothing.
    let is_mild = |line: &&str| line.ends_with("(noted)") || line.contains(" (allowed by ");
    let lines: Vec<&str> =
        summary.lines().map(str::trim).filter(|line| !line.is_empty() && !is_mild(line)).collect();
    let is_finding = |line: &&&str| line.split(": ").any(|word| FindingKind::parse(word).is_some());
    if let Some(finding) = lines.iter().find(is_finding) {
        return (*finding).to_owned();
    }
    match lines.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, second, ..] if first.starts_with("exit code") => {
            let named = TELLS.iter().find_map(|word| lines.iter().find(|line| line.contains(word)));
            named.map_or_else(|| format!("{first}: {second}"), |line| (*line).to_owned())
        }
        [first, second, ..] => format!("{first}: {second}"),
    }
}

/// Why, in one line that is not too long.
pub fn reason(text: &str) -> String {
    let text = paint::joined(text);
    if text.chars().count() <= MAX_REASON {
        return text;
    }
    let kept: String = text.chars().take(MAX_REASON).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_stands_first_and_in_plain_words() {
        let cases = [
            (
                "discovery needed: 1 of 2 tests failed (pytest)\n  test_mean: 3 is not 2\nmore",
                "1 of 2 tests failed (pytest): test_mean: 3 is not 2; no lesson tells how to fix it",
            ),
            (
                "discovery needed: build/out: outside_delta: it is new\nthe command passed\n101 tests passed",
                "build/out: outside_delta: it is new; no lesson tells how to fix it",
            ),
            ("tools spent: the limit is 7", "it has used all 7 of its tool calls"),
            ("missing: structure, delta", "too few explorers answered; missing: structure, delta"),
            ("the disk is full", "the disk is full"),
            ("no room\nat all (hint: make room)", "no room: at all (hint: make room)"),
            ("", ""),
        ];
        for (text, wanted) in cases {
            assert_eq!(cause(text), wanted, "{text}");
        }
        assert_eq!((end_word(End::Escalated), end_word(End::Blocked)), ("gave up", "blocked"));
    }

    #[test]
    fn what_tells_most_is_told() {
        let cases = [
            ("exit code 1\nok 1 - a\nnot ok 2 - b: wanted 3", "not ok 2 - b: wanted 3"),
            ("passed\ntests/x.py: outside_delta: it differs", "tests/x.py: outside_delta: it differs"),
            ("1 of 4 tests failed\n  test_mul: 5 is not 6", "1 of 4 tests failed: test_mul: 5 is not 6"),
            ("1 of 2 tests failed\nx.md: verify_changed: a (noted)\n", "1 of 2 tests failed"),
            (
                "a.txt: verify_changed: it differs (noted)\nexit code 1\nwanted 3, got 4",
                "exit code 1: wanted 3, got 4",
            ),
            ("exit code 2\n\n", "exit code 2"),
            ("", ""),
        ];
        for (summary, wanted) in cases {
            assert_eq!(telling(summary), wanted);
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        assert_eq!(reason(&"x".repeat(MAX_REASON)).chars().count(), MAX_REASON);
        assert_eq!(reason(&"x".repeat(MAX_REASON + 1)).chars().count(), MAX_REASON + 1);
    }
}
