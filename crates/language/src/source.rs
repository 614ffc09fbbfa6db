//! Sources: Markdown documents and the lines of program in them.
//!
//! A span is a byte range of the document as it was read, so that every message can point into
//! the file that the person edits. Nothing here reads a file.

use std::sync::Arc;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use ftl_core::syntax::Span;

/// The largest document that is read.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// The origin of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentOrigin {
    /// Embedded in the program.
    BuiltIn,
    /// From the user's protocols folder.
    User,
    /// Named on the command line.
    File,
}

/// One document: its text and where it came from.
#[derive(Clone, Debug)]
pub struct SourceDocument {
    /// The path or name that messages show.
    pub path: String,
    /// The origin of the document.
    pub origin: DocumentOrigin,
    /// The text as it was read.
    pub text: Arc<str>,
}

impl SourceDocument {
    /// A document with its text.
    pub fn new(path: impl Into<String>, origin: DocumentOrigin, text: impl AsRef<str>) -> SourceDocument {
        SourceDocument { path: path.into(), origin, text: Arc::from(text.as_ref()) }
    }

    /// The name that the file name promises: `protocols/coder.md` is `coder`.
    pub fn stem(&self) -> &str {
        let file = self.path.rsplit(['/', '\\']).next().unwrap_or(&self.path);
        file.strip_suffix(".md").unwrap_or(file)
    }

    /// The line (from 1), the column (from 1, in characters) and the text of the line at a byte.
    pub fn locate(&self, byte: u32) -> Located<'_> {
        let mut at = (byte as usize).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let start = self.text[..at].rfind('\n').map_or(0, |index| index + 1);
        let end = self.text[at..].find('\n').map_or(self.text.len(), |index| at + index);
        let line = self.text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1;
        Located {
            line,
            column: self.text[start..at].chars().count() + 1,
            start,
            text: self.text[start..end].trim_end_matches('\r'),
        }
    }

    /// The lines of all `protocol` blocks, in order, each with its first byte in the document.
    pub fn program(&self) -> Vec<SourceLine<'_>> {
        let mut lines = Vec::new();
        let mut inside = false;
        for (event, range) in Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter() {
            if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(words))) = event {
                inside = words.split_whitespace().next() == Some("protocol");
            } else if matches!(event, Event::End(TagEnd::CodeBlock)) {
                inside = false;
            } else if inside && matches!(event, Event::Text(_)) {
                split_lines(&self.text, range.start, range.end, &mut lines);
            }
        }
        lines
    }
}

/// A place in a source, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// Line number, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// First byte of the line.
    pub start: usize,
    /// The whole line, without its line break.
    pub text: &'a str,
}

/// One line of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLine<'a> {
    /// Its first byte in the document.
    pub start: usize,
    /// Its text, without the line end.
    pub text: &'a str,
}

/// A text event may hold a part of a line, one line or several; a part continues the line before.
fn split_lines<'a>(text: &'a str, start: usize, end: usize, lines: &mut Vec<SourceLine<'a>>) {
    let Some(mut rest) = text.get(start..end) else { return };
    let mut at = start;
    if let Some(last) = lines.last_mut() {
        let joined = last.start + last.text.len();
        if joined == at && !text[..at].ends_with('\n') {
            let take = rest.find('\n').unwrap_or(rest.len());
            last.text = &text[last.start..at + take];
            at = (at + take + 1).min(end);
            rest = &text[at..end];
        }
    }
    for piece in rest.split_inclusive('\n') {
        let line = piece.strip_suffix('\n').unwrap_or(piece);
        lines.push(SourceLine { start: at, text: line.strip_suffix('\r').unwrap_or(line) });
        at += piece.len();
    }
}

/// The hex digest of a text.
pub fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_lines_keep_their_place() {
        let text = "# x\n\n```protocol\nPROTOCOL: a\n\nSTATE: B\n```\n\n```rust\nno\n```\n> ```protocol\n> HOLD: x\n> ```\n";
        let source = SourceDocument::new("a.md", DocumentOrigin::File, text);
        let lines = source.program();
        let texts: Vec<_> = lines.iter().map(|line| line.text).collect();
        assert_eq!(texts, ["PROTOCOL: a", "", "STATE: B", "HOLD: x"]);
        for line in lines {
            assert_eq!(&text[line.start..line.start + line.text.len()], line.text);
        }
        assert_eq!(source.locate(text.find("STATE").unwrap() as u32).line, 6);
    }
}
