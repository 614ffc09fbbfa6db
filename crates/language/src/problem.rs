//! Problems: what is wrong with a document, where, and what to do about it.
//!
//! A problem is data. Rendering adds the file, the line and a caret; colours are the binary's
//! business.

use ftl_core::nearest::nearest;
use serde::Serialize;

use crate::source::{SourceDocument, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemSeverity {
    /// The document does not load.
    Error,
    /// The document loads, and a person should look.
    Warning,
}

/// Something wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: ProblemSeverity,
    /// A short stable name, such as `unknown-field`.
    pub code: &'static str,
    /// The mistake in words, without place and hint.
    pub message: String,
    /// The bytes that it is about.
    pub span: Span,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where the text was pasted, if it stands in a pattern.
    pub pasted: Option<Span>,
}

impl Problem {
    /// A problem for which the protocol is refused.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Problem {
        Problem {
            severity: ProblemSeverity::Error,
            code,
            message: message.into(),
            span,
            hint: None,
            pasted: None,
        }
    }

    /// A problem with which the protocol still runs.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Problem {
        Problem { severity: ProblemSeverity::Warning, ..Problem::error(code, span, message) }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// The same with "did you mean", when a known name is near enough.
    #[must_use]
    pub fn near<N: AsRef<str>>(self, name: &str, known: impl IntoIterator<Item = N>) -> Problem {
        match nearest(name, known) {
            Some(found) => self.hint(format!("did you mean `{found}`?")),
            None => self,
        }
    }

    /// The same with "did you mean", or else with all that there is: `lead` says what the list holds.
    #[must_use]
    pub fn among<N: AsRef<str>>(self, name: &str, known: &[N], lead: &str) -> Problem {
        match nearest(name, known) {
            Some(found) => self.hint(format!("did you mean `{found}`?")),
            None if known.is_empty() => self.hint(format!("{lead} nothing")),
            None => {
                let names: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
                self.hint(format!("{lead} {}", names.join(", ")))
            }
        }
    }

    /// The problem as plain text with file, line and caret.
    pub fn render(&self, sources: &[SourceDocument]) -> String {
        let word = match self.severity {
            ProblemSeverity::Error => "error",
            ProblemSeverity::Warning => "warning",
        };
        let mut out = format!("{word}[{}]: {}\n", self.code, self.message);
        out.push_str(&excerpt(self.span, sources));
        if let Some(source) = self.pasted.and_then(|span| sources.get(span.file as usize)) {
            let at = source.locate(self.pasted.unwrap_or_default().start);
            out.push_str(&format!("  = pasted by USE at {}:{}\n", source.path, at.line));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("  = hint: {hint}\n"));
        }
        out
    }
}

/// File, line and the text with carets under the span.
fn excerpt(span: Span, sources: &[SourceDocument]) -> String {
    let Some(source) = sources.get(span.file as usize) else { return String::new() };
    let at = source.locate(span.start);
    let last = (span.end as usize).min(at.start + at.text.len());
    let first = (span.start as usize).min(last);
    let width = source.text.get(first..last).map_or(1, |text| text.chars().count()).max(1);
    let gutter = at.line.to_string().len();
    let lead: String =
        at.text.chars().take(at.column - 1).map(|one| if one == '\t' { '\t' } else { ' ' }).collect();
    format!(
        "{:gutter$}--> {}:{}:{}\n{:gutter$} |\n{} | {}\n{:gutter$} | {lead}{}\n",
        "",
        source.path,
        at.line,
        at.column,
        "",
        at.line,
        at.text,
        "",
        "^".repeat(width),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::DocumentOrigin;

    #[test]
    fn a_rendered_problem_points() {
        let text = "a\n  GOTO: NOWHERE\n";
        let sources = [SourceDocument::new("p.md", DocumentOrigin::File, text)];
        let span = Span { file: 0, start: 10, end: 17 };
        let problem = Problem::error("unknown-state", span, "there is no state `NOWHERE`").hint("add it");
        assert_eq!(
            problem.render(&sources),
            "error[unknown-state]: there is no state `NOWHERE`\n --> p.md:2:9\n  |\n2 |   GOTO: NOWHERE\n  |         ^^^^^^^\n  = hint: add it\n"
        );
    }
}
