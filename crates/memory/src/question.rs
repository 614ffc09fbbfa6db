//! A question taken apart: its distinct lines, the terms of each, and where each term stands.
//!
//! A question may be a whole build log. A line that says the same as an earlier one, numbers aside, is read once.

use std::collections::{BTreeMap, BTreeSet};

use crate::terms;
use crate::text;

/// So much of a question is read.
pub(crate) const MAX_QUESTION_BYTES: usize = 1024 * 1024;

/// So many different lines of a question are read; beyond them the first and the last half.
const MAX_LINES: usize = 4_000;

/// So much of a line is read.
const MAX_LINE_CHARS: usize = 600;

/// One line of a question.
#[derive(Clone, Debug)]
pub(crate) struct Line<'q> {
    pub(crate) text: &'q str,
    pub(crate) terms: BTreeSet<String>,
}

/// A question, ready to be compared with lessons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question<'q> {
    pub(crate) lines: Vec<Line<'q>>,
    /// In which lines each term stands, in order.
    pub(crate) places: BTreeMap<String, Vec<usize>>,
}

impl<'q> Question<'q> {
    pub(crate) fn new(asked: &'q str) -> Question<'q> {
        let numbers = terms::asks_for_numbers(asked);
        let mut seen = BTreeSet::new();
        let mut lines = Vec::new();
        for text in bounded(asked) {
            let text = text::clip(text.trim(), MAX_LINE_CHARS);
            let terms: BTreeSet<String> = terms::of_line(text, numbers).into_iter().collect();
            if !terms.is_empty() && seen.insert(terms.clone()) {
                lines.push(Line { text, terms });
            }
        }
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            for term in &line.terms {
                places.entry(term.clone()).or_default().push(at);
            }
        }
        Question { lines, places }
    }
}

/// The lines that are read: all, or the first and the last.
fn bounded(asked: &str) -> impl Iterator<Item = &str> {
    let half = MAX_QUESTION_BYTES / 2;
    let (head, tail) = if asked.len() <= MAX_QUESTION_BYTES {
        (asked, "")
    } else {
        (&asked[..asked.floor_char_boundary(half)], &asked[asked.ceil_char_boundary(asked.len() - half)..])
    };
    let all: Vec<&str> = head.lines().chain(tail.lines()).collect();
    let left_out = all.len().saturating_sub(MAX_LINES);
    let keep = if left_out == 0 { all.len() } else { MAX_LINES / 2 };
    all.into_iter()
        .enumerate()
        .filter(move |(at, _)| *at < keep || *at >= keep + left_out)
        .map(|(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_again_is_read_once() {
        let log = "Compiling serde v1.0.1\nCompiling serde v1.0.2\nerror: moved value `pool`\n\n 12 34\nerror: moved value `pool`";
        let log = format!("{log}\n{}", "and more words than a short question has, ".repeat(3));
        let question = Question::new(&log);
        assert_eq!(question.lines[1].text, "error: moved value `pool`");
        assert_eq!(question.lines.len(), 3);
        assert_eq!(question.places["pool"], [1]);
    }

    #[test]
    fn limits_keep_the_beginning_and_the_end() {
        let word =
            |n: usize| format!("w{}", char::from(b'a' + (n % 26) as u8).to_string().repeat(1 + n / 26 % 40));
        let log: String = (0..3 * MAX_LINES).map(|n| format!("{} line{n}x\n", word(n))).collect();
        let lines = Question::new(&log).lines;
        assert_eq!(lines.len(), MAX_LINES);
        assert!(lines.last().is_some_and(|line| line.text.ends_with(&format!("line{}x", 3 * MAX_LINES - 1))));
        let long = format!("first\n{}\nlast", "é".repeat(MAX_QUESTION_BYTES));
        let lines = Question::new(&long).lines;
        assert!(lines.first().is_some_and(|line| line.text == "first"));
        assert!(lines.last().is_some_and(|line| line.text == "last"));
    }
}
