//! The lines of a Mermaid state diagram.
//!
//! Each line is read on its own, apart from notes and descriptions that go over several. A line
//! that is not understood is [`Statement::Unreadable`]; the reader never guesses an edge.

use std::collections::BTreeMap;
use std::ops::Range;

use super::alias::name;

/// A fenced block that holds a state diagram.
pub(super) struct Fence {
    pub(super) span: Range<usize>,
    pub(super) lines: Vec<Line>,
    pub(super) closed: bool,
}

/// A line of the diagram.
pub(super) struct Line {
    /// The bytes from the margin on, without the line break.
    pub(super) text: Range<usize>,
    pub(super) statement: Statement,
}

/// A line of a Mermaid drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// `stateDiagram-v2`
    Header,
    /// `A --> B`
    Edge(String, String),
    /// `[*] --> A`
    Enters(String),
    /// `A --> [*]`
    Leaves(String),
    /// `state "…" as A`
    Shown(String),
    /// Nothing about edges: a comment, a note, a style.
    Quiet,
    /// Something unknown, and what is wrong with it.
    Unreadable(String),
}

impl Fence {
    /// The diagram of a block, when it holds one. `parts` are the bytes of its content.
    pub(super) fn of(span: Range<usize>, parts: &[Range<usize>], markdown: &str) -> Option<Self> {
        let texts = line_texts(parts, markdown);
        let mut reader = Reader::default();
        let mut lines = Vec::new();
        for text in texts.into_values() {
            let statement = reader.read(markdown.get(text.clone())?);
            lines.push(Line { text, statement });
        }
        let last = lines.last().map_or(span.start, |line| line.text.end);
        let closed = ends_with_fence(markdown.get(last..span.end).unwrap_or_default());
        let fence = Self { span, lines, closed };
        reader.opened.then_some(fence)
    }

    /// The line that says that this is a state diagram: all lines before it are quiet.
    pub(super) fn header(&self) -> Option<&Line> {
        let quiet = |line: &&Line| line.statement != Statement::Quiet;
        self.lines.iter().find(quiet)
    }
}

fn ends_with_fence(rest: &str) -> bool {
    let marks = rest.trim_start_matches([' ', '\t', '>', '\r', '\n']).trim_end();
    marks.len() >= 3 && (marks.chars().all(|c| c == '`') || marks.chars().all(|c| c == '~'))
}

/// The bytes of the content on each line, by where the line begins.
fn line_texts(parts: &[Range<usize>], markdown: &str) -> BTreeMap<usize, Range<usize>> {
    let mut texts: BTreeMap<usize, Range<usize>> = BTreeMap::new();
    for part in parts {
        let mut at = part.start;
        let content = markdown.get(part.clone()).unwrap_or_default();
        for piece in content.split_inclusive('\n') {
            let start = line_start(at, markdown);
            let end = at + piece.trim_end_matches(['\r', '\n']).len();
            let text = texts.entry(start).or_insert(at..end);
            text.end = text.end.max(end);
            at += piece.len();
        }
    }
    texts
}

/// Where the line of a byte begins.
pub(super) fn line_start(byte: usize, markdown: &str) -> usize {
    let before = markdown.get(..byte).unwrap_or_default();
    before.rfind('\n').map_or(0, |at| at + 1)
}

/// Where the line of a byte ends, with its line break.
pub(super) fn line_end(byte: usize, markdown: &str) -> usize {
    let after = markdown.get(byte..).unwrap_or_default();
    after.find('\n').map_or(markdown.len(), |at| byte + at + 1)
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before the header `stateDiagram-v2`.
    #[default]
    Before,
    /// Between `---` and `---`, before the header.
    Matter,
    Diagram,
    /// Until `end note`.
    Note,
    /// Until `}`.
    Description,
    /// In a block that is no state diagram.
    Elsewhere,
}

#[derive(Default)]
struct Reader {
    place: Place,
    opened: bool,
}

impl Reader {
    fn read(&mut self, line: &str) -> Statement {
        let line = line.trim();
        match self.place {
            Place::Before => self.before(line),
            Place::Matter => {
                if line == "---" {
                    self.place = Place::Before;
                }
                Statement::Quiet
            }
            Place::Diagram => self.statement(line),
            Place::Note => self.until(line.eq_ignore_ascii_case("end note")),
            Place::Description => self.until(line.ends_with('}')),
            Place::Elsewhere => Statement::Quiet,
        }
    }

    fn until(&mut self, end: bool) -> Statement {
        if end {
            self.place = Place::Diagram;
        }
        Statement::Quiet
    }

    fn before(&mut self, line: &str) -> Statement {
        let (word, rest) = first_word(line);
        if line.is_empty() || line.starts_with("%%") {
            return Statement::Quiet;
        }
        if line == "---" {
            self.place = Place::Matter;
            return Statement::Quiet;
        }
        if word != "stateDiagram-v2" && word != "stateDiagram" {
            self.place = Place::Elsewhere;
            return Statement::Quiet;
        }
        self.place = Place::Diagram;
        self.opened = true;
        if rest.is_empty() || rest.starts_with("%%") {
            return Statement::Header;
        }
        unreadable(line)
    }

    fn statement(&mut self, line: &str) -> Statement {
        if line.is_empty() || line.starts_with("%%") {
            return Statement::Quiet;
        }
        if let Some(arrow) = arrow(line) {
            return arrow;
        }
        let (word, rest) = first_word(line);
        match word.to_ascii_lowercase().as_str() {
            "direction" => direction(line, rest),
            "note" => self.note(line, rest),
            "state" => declaration(line, rest),
            "accdescr" if rest.starts_with('{') => {
                self.place = Place::Description;
                self.until(rest.ends_with('}'))
            }
            "classdef" | "class" | "style" | "click" | "hide" | "scale" | "title" | "acctitle:"
            | "accdescr:" => Statement::Quiet,
            "acctitle" | "accdescr" if rest.starts_with(':') => Statement::Quiet,
            _ => described(line),
        }
    }

    /// A note: on one line after a colon, afloat with a name, or until `end note`.
    fn note(&mut self, line: &str, rest: &str) -> Statement {
        if rest.starts_with('"') && rest.contains(" as ") {
            return Statement::Quiet;
        }
        let (side, of) = first_word(rest);
        let (of, state) = first_word(of);
        let (state, text) = match state.split_once(':') {
            Some((state, text)) => (state.trim(), Some(text)),
            None => (state, None),
        };
        if !["left", "right"].contains(&side) || of != "of" || !is_word(state) {
            return unreadable(line);
        }
        if text.is_none() {
            self.place = Place::Note;
        }
        Statement::Quiet
    }
}

fn direction(line: &str, rest: &str) -> Statement {
    match ["TB", "TD", "BT", "LR", "RL"].contains(&rest) {
        true => Statement::Quiet,
        false => unreadable(line),
    }
}

/// `state A`, `state "…" as A`, `state A : …`
fn declaration(line: &str, rest: &str) -> Statement {
    if rest.ends_with('{') || rest.contains("<<") {
        let what = "only plain states are read, not states with states inside, forks and choices";
        return Statement::Unreadable(format!("{what}: \"{line}\""));
    }
    if let Some(text) = rest.strip_prefix('"') {
        let shown = text.split_once('"').map(|(_, after)| after.trim());
        let shown = shown.and_then(|after| after.strip_prefix("as "));
        return match shown.and_then(|id| end(id.trim())) {
            Some((id, "")) => Statement::Shown(name(id)),
            Some(_) | None => unreadable(line),
        };
    }
    described(rest)
}

/// `A`, `A : …`, `A:::class`
fn described(line: &str) -> Statement {
    match end(line) {
        Some((_, rest)) if rest.is_empty() || rest.starts_with([':', '%']) => Statement::Quiet,
        Some(_) | None => unreadable(line),
    }
}

/// `A --> B`, with a label or a comment.
fn arrow(line: &str) -> Option<Statement> {
    let (from, to) = line.split_once("-->")?;
    let (from, nothing) = end(from.trim())?;
    let (to, label) = end(to.trim())?;
    if !nothing.is_empty() || !(label.is_empty() || label.starts_with(':') || label.starts_with("%%")) {
        return None;
    }
    Some(match (from == "[*]", to == "[*]") {
        (true, true) => Statement::Quiet,
        (true, false) => Statement::Enters(name(to)),
        (false, true) => Statement::Leaves(name(from)),
        (false, false) => Statement::Edge(name(from), name(to)),
    })
}

/// The state at the beginning of a text, without its class, and what follows.
fn end(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix("[*]") {
        return Some(("[*]", rest.trim()));
    }
    let stop = text.find(|c: char| c.is_whitespace() || c == ':');
    let (word, mut rest) = text.split_at(stop.unwrap_or(text.len()));
    if !is_word(word) {
        return None;
    }
    if let Some(class) = rest.strip_prefix(":::") {
        let stop = class.find(|c: char| c.is_whitespace() || c == ':');
        rest = class.split_at(stop.unwrap_or(class.len())).1;
    }
    Some((word, rest.trim()))
}

fn is_word(word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || ['_', '.', '-'].contains(&c);
    !word.is_empty() && word.chars().all(inside) && !word.contains("--") && !word.ends_with('-')
}

fn first_word(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
    (word, rest.trim())
}

fn unreadable(line: &str) -> Statement {
    let shown: String = line.chars().take(60).collect();
    Statement::Unreadable(format!("not a statement of a state diagram: \"{shown}\""))
}
