//! Changes to a document, collected by place and made at once.
//!
//! Bytes that no change names stay as they are.

use std::ops::Range;

use super::fence::line_end;

/// The changes to one document.
pub(super) struct Patch<'a> {
    markdown: &'a str,
    changes: Vec<(Range<usize>, String)>,
}

impl<'a> Patch<'a> {
    pub(super) fn new(markdown: &'a str) -> Self {
        let changes = Vec::new();
        Self { markdown, changes }
    }

    pub(super) fn replace(&mut self, span: Range<usize>, text: impl Into<String>) {
        self.changes.push((span, text.into()));
    }

    /// Takes out the whole line that a byte stands in.
    pub(super) fn remove_line(&mut self, byte: usize) {
        let start = super::fence::line_start(byte, self.markdown);
        self.replace(start..line_end(byte, self.markdown), "");
    }

    /// Puts a line after the one that a byte stands in. Lines that go to the same place come in
    /// the order they were given.
    pub(super) fn add_line(&mut self, byte: usize, text: &str) {
        let end = line_end(byte, self.markdown);
        let before = self.markdown.get(..end).unwrap_or_default();
        let line_break = self.line_break();
        let line = match before.ends_with('\n') {
            true => format!("{text}{line_break}"),
            false => format!("{line_break}{text}"),
        };
        self.replace(end..end, line);
    }

    /// The document with all changes made. Changes that overlap an earlier one are left out.
    pub(super) fn apply(mut self) -> String {
        self.changes.sort_by_key(|(span, _)| (span.start, span.end));
        let mut text = String::new();
        let mut done = 0;
        for (span, replacement) in self.changes {
            let Some(kept) = self.markdown.get(done..span.start) else {
                continue;
            };
            text.push_str(kept);
            text.push_str(&replacement);
            done = span.end;
        }
        text.push_str(self.markdown.get(done..).unwrap_or_default());
        text
    }

    fn line_break(&self) -> &'static str {
        let first = self.markdown.find('\n').unwrap_or(0);
        let before = self.markdown.get(..first).unwrap_or_default();
        if before.ends_with('\r') { "\r\n" } else { "\n" }
    }
}
