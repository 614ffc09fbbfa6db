//! Where the holes of a shell script stand: a hole between quotes would not be one argument.
//!
//! A hole becomes `"${1}"`. Between single quotes the shell takes that for text; between double quotes it ends them
//! and leaves the value open to splitting. Only quotes are followed; the script is never run or expanded.

use crate::source::Span;
use ftl_core::syntax::{Template, TemplatePart};

/// What encloses a letter of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// `$(…)` or `(…)`: quoting begins anew.
    Bracket,
    /// `'…'`.
    Single,
    /// `"…"`.
    Double,
    /// From `#` to the end of the line.
    Comment,
}

/// The holes of a script that stand between quotes, in order.
pub(super) fn quoted_holes(template: &Template) -> Vec<Span> {
    let mut reader = Reader::default();
    let mut found = Vec::new();
    for part in &template.parts {
        match part {
            TemplatePart::Text(text) => reader.read(text),
            TemplatePart::Hole(expr) => {
                if matches!(reader.around.last(), Some(Around::Single | Around::Double)) {
                    found.push(expr.span);
                }
                reader.before = 'x';
            }
        }
    }
    found
}

/// Follows quotes through the text between holes.
#[derive(Debug, Default)]
struct Reader {
    around: Vec<Around>,
    /// The letter before, unless a backslash took its meaning.
    before: char,
    is_escaped: bool,
}

impl Reader {
    fn read(&mut self, text: &str) {
        for letter in text.chars() {
            if self.is_escaped {
                (self.is_escaped, self.before) = (false, 'x');
                continue;
            }
            self.letter(letter);
            self.before = letter;
        }
    }

    fn letter(&mut self, letter: char) {
        let around = self.around.last().copied();
        match (around, letter) {
            (Some(Around::Comment), '\n') | (Some(Around::Single), '\'') | (Some(Around::Double), '"') => {
                self.around.pop();
            }
            (Some(Around::Comment | Around::Single), _) => {}
            (None | Some(Around::Bracket | Around::Double), '\\') => self.is_escaped = true,
            (Some(Around::Double), '(') if self.before == '$' => self.around.push(Around::Bracket),
            (Some(Around::Double), _) => {}
            (None | Some(Around::Bracket), '\'') => self.around.push(Around::Single),
            (None | Some(Around::Bracket), '"') => self.around.push(Around::Double),
            (None | Some(Around::Bracket), '(') => self.around.push(Around::Bracket),
            (Some(Around::Bracket), ')') => {
                self.around.pop();
            }
            (None | Some(Around::Bracket), '#') if self.begins_word() => self.around.push(Around::Comment),
            (None | Some(Around::Bracket), _) => {}
        }
    }

    /// Whether the next letter begins a word, where `#` begins a comment.
    fn begins_word(&self) -> bool {
        self.before == '\0' || self.before.is_whitespace() || matches!(self.before, ';' | '&' | '|' | '(')
    }
}
