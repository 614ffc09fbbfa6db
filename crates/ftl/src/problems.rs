//! Problems for people: file, line, the text with carets, what is wrong and what to do.
//!
//! The layout is the one of `Problem::render` in the core, with colours. Neighbours that say
//! different things about one place share its excerpt.

use ftl_language::problem::{Problem, ProblemSeverity};
use ftl_language::source::{SourceDocument, Span};
use ftl_view::paint::{self, paint, safe};

/// How much of a line is shown at most.
const MAX_SHOWN: usize = 160;

/// A span, located: where it starts, and how much of its first line it covers.
pub(crate) struct LocatedSpan<'a> {
    pub(crate) path: &'a str,
    /// The number of the line, from 1.
    pub(crate) line: usize,
    /// From 1, in characters.
    pub(crate) column: usize,
    /// In characters, at least 1.
    pub(crate) width: usize,
    /// The text of the line.
    pub(crate) text: &'a str,
}

impl<'a> LocatedSpan<'a> {
    /// The place of a span; none if it points into no document.
    pub(crate) fn of(sources: &'a [SourceDocument], span: Span) -> Option<LocatedSpan<'a>> {
        let source = sources.get(span.file as usize)?;
        let at = source.locate(span.start);
        let last = (span.end as usize).min(at.start + at.text.len());
        let first = (span.start as usize).min(last);
        let width = source.text.get(first..last).map_or(1, |text| text.chars().count()).max(1);
        Some(LocatedSpan { path: &source.path, line: at.line, column: at.column, width, text: at.text })
    }
}

/// All problems, each followed by an empty line.
pub(crate) fn render(problems: &[Problem], sources: &[SourceDocument]) -> String {
    let same_place = |one: &Problem, two: &Problem| {
        (one.span, one.severity, &one.hint, one.pasted) == (two.span, two.severity, &two.hint, two.pasted)
    };
    problems.chunk_by(same_place).map(|group| render_group(group, sources)).collect()
}

/// How many errors and warnings there are.
pub(crate) fn count(problems: &[Problem]) -> (usize, usize) {
    let errors = problems.iter().filter(|problem| problem.severity == ProblemSeverity::Error).count();
    (errors, problems.len() - errors)
}

/// What to do about a problem. Drawings are mended by the path of the document, since not every
/// document is known by its name.
pub(crate) fn hint(problem: &Problem, sources: &[SourceDocument]) -> Option<String> {
    match sources.get(problem.span.file as usize) {
        Some(source) if problem.code == "drawing" => {
            let quote = if source.path.contains(char::is_whitespace) { "'" } else { "" };
            let path = &source.path;
            Some(format!(
                "`ftl draw {quote}{path}{quote} --write` brings the drawings of a document up to date"
            ))
        }
        Some(_) | None => problem.hint.clone(),
    }
}

fn render_group(group: &[Problem], sources: &[SourceDocument]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let (style, word) = match first.severity {
        ProblemSeverity::Error => (paint::ERROR, "error"),
        ProblemSeverity::Warning => (paint::WARNING, "warning"),
    };
    let mut out = String::new();
    for problem in group {
        let head = paint(style, format!("{word}[{}]", problem.code));
        out.push_str(&format!("{head}: {}\n", paint(paint::STRONG, safe(&problem.message))));
    }
    let place = LocatedSpan::of(sources, first.span);
    let gutter = place.as_ref().map_or(1, |place| place.line.to_string().len());
    if let Some(place) = &place {
        out.push_str(&excerpt(place, gutter, style));
    }
    let bar = format!("{:gutter$} {}", "", paint(paint::PLACE, "="));
    if let Some(at) = first.pasted.and_then(|span| LocatedSpan::of(sources, span)) {
        out.push_str(&format!("{bar} pasted by USE at {}:{}\n", safe(at.path), at.line));
    }
    if let Some(hint) = hint(first, sources) {
        out.push_str(&format!("{bar} {} {}\n", paint(paint::HINT, "hint:"), safe(&hint)));
    }
    out.push('\n');
    out
}

fn excerpt(place: &LocatedSpan<'_>, gutter: usize, style: anstyle::Style) -> String {
    let (text, lead, width) = window(place);
    let lead: String = lead.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let bar = paint(paint::PLACE, "|");
    let arrow = paint(paint::PLACE, "-->");
    let number = paint(paint::PLACE, place.line);
    let carets = paint(style, "^".repeat(width));
    format!(
        "{0:gutter$}{arrow} {1}:{2}:{3}\n{0:gutter$} {bar}\n{number} {bar} {text}\n{0:gutter$} {bar} {lead}{carets}\n",
        "",
        safe(place.path),
        place.line,
        place.column,
    )
}

/// The part of the line that is shown, what is before the carets, and how many there are.
fn window(place: &LocatedSpan<'_>) -> (String, String, usize) {
    let line: Vec<char> = safe(place.text).chars().collect();
    let at = (place.column - 1).min(line.len());
    if line.len() <= MAX_SHOWN {
        return (line.iter().collect(), line[..at].iter().collect(), place.width);
    }
    let from = at.saturating_sub(MAX_SHOWN / 3);
    let to = (from + MAX_SHOWN).min(line.len());
    let mark = |cut: bool| if cut { "…" } else { "" };
    let before: String = line[from..at].iter().collect();
    let after: String = line[at..to].iter().collect();
    let (start, end) = (mark(from > 0), mark(to < line.len()));
    let width = place.width.min(to - at).max(1);
    (format!("{start}{before}{after}{end}"), format!("{start}{before}"), width)
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use ftl_language::source::DocumentOrigin;

    use super::*;

    fn plain(problems: &[Problem], sources: &[SourceDocument]) -> String {
        strip_str(&render(problems, sources)).to_string()
    }

    #[test]
    fn the_layout_is_the_one_of_the_core() {
        let source = SourceDocument::new("a.md", DocumentOrigin::File, "one\n\tIF: report.pased → B\n");
        let at = source.text.find("pased").unwrap() as u32;
        let span = Span { file: 0, start: at, end: at + 5 };
        let problem = Problem::error("unknown-field", span, "no such field").hint("did you mean `passed`?");
        let sources = [source];
        let wanted = problem.render(&sources);
        assert_eq!(plain(&[problem], &sources), format!("{wanted}\n"));
    }

    #[test]
    fn neighbours_share_an_excerpt() {
        let sources = [SourceDocument::new("a.md", DocumentOrigin::File, "one two\n")];
        let span = Span { file: 0, start: 0, end: 3 };
        let problems = [Problem::error("x", span, "first"), Problem::error("x", span, "second")];
        let wanted = "error[x]: first\nerror[x]: second\n --> a.md:1:1\n  |\n1 | one two\n  | ^^^\n\n";
        assert_eq!(plain(&problems, &sources), wanted);
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("{}HERE{}", "a".repeat(5000), "b".repeat(5000));
        let sources = [SourceDocument::new("a.md", DocumentOrigin::File, text)];
        let problems = [Problem::error("x", Span { file: 0, start: 5000, end: 5004 }, "look")];
        let text = plain(&problems, &sources);
        assert!(text.lines().all(|line| line.chars().count() < 180), "{text}");
        let (shown, carets) = (text.lines().nth(3).unwrap(), text.lines().nth(4).unwrap());
        let at = carets.chars().position(|c| c == '^').unwrap();
        assert_eq!(shown.chars().skip(at).take(4).collect::<String>(), "HERE");
    }
}
