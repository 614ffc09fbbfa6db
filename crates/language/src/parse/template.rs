//! Text with holes, taken apart.

use super::Read;
use super::cursor::Cursor;
use crate::problem::Problem;
use crate::source::{SourceLine, Span};
use crate::tokens;
use ftl_core::syntax::{Expr, TemplatePart};

/// Takes text with holes apart; `\"`, `\\`, `\n`, `\t`, `\{` and `\}` are escapes.
pub(super) fn parts(file: u32, raw: &str, span: Span) -> Read<Vec<TemplatePart>> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut letters = raw.char_indices();
    while let Some((index, one)) = letters.next() {
        let at = span.start + 1 + index as u32;
        let spot = Span { file, start: at, end: at + one.len_utf8() as u32 };
        match one {
            '\\' => text.push(escape(letters.next().map(|(_, next)| next), spot)?),
            '{' => {
                if !text.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut text)));
                }
                let length = hole_length(&raw[index + 1..]).ok_or_else(|| {
                    Problem::error("open-text", spot, "this brace is not closed")
                        .hint("write `\\{` for a brace in text")
                })?;
                parts.push(TemplatePart::Hole(hole(file, &raw[index + 1..index + 1 + length], at + 1)?));
                while letters.clone().next().is_some_and(|(next, _)| next <= index + 1 + length) {
                    letters.next();
                }
            }
            '}' => {
                return Err(Problem::error("open-text", spot, "this brace closes nothing")
                    .hint("write `\\}` for a brace in text"));
            }
            other => text.push(other),
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(TemplatePart::Text(text));
    }
    Ok(parts)
}

/// How long the inside of a hole is. A hole holds no text of its own, so the first brace ends it.
fn hole_length(rest: &str) -> Option<usize> {
    rest.find('}')
}

fn escape(letter: Option<char>, span: Span) -> Read<char> {
    match letter {
        Some(one @ ('"' | '\\' | '{' | '}')) => Ok(one),
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some(other) => Err(Problem::error("bad-escape", span, format!("`\\{other}` is no escape"))
            .hint("the escapes are \\\" \\\\ \\n \\t \\{ \\}")),
        None => Err(Problem::error("bad-escape", span, "a backslash ends the text")),
    }
}

fn hole(file: u32, inside: &str, start: u32) -> Read<Expr> {
    let mut problems = Vec::new();
    let tokens = tokens::read(file, SourceLine { start: start as usize, text: inside }, &mut problems);
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let span = Span { file, start, end: start + inside.len() as u32 };
    let mut cursor = Cursor { file, tokens: &tokens, at: 0, line: span, first: false };
    let expr = cursor.expr(0)?;
    cursor.end()?;
    Ok(expr)
}
