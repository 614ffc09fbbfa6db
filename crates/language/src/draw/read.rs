//! The drawings that a Markdown document holds.
//!
//! Only state diagrams and transition tables are taken for drawings; any other block is none of
//! our business. What cannot be read inside a drawing is a [`Fault`], never passed over.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::fence::{Fence, Statement};
use super::tables::{Cell, Form, Grid, Row};

/// A state diagram or transition table of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// How the edges are written down.
    pub kind: DrawingKind,
    /// The bytes of the whole block, fences included.
    pub span: Range<usize>,
    /// The number of its first line, from 1.
    pub line: usize,
    /// The bytes of its first line, without the line break.
    pub first_line: Range<usize>,
    /// Every place that states an edge, in the order of the document. A pair may come twice.
    pub edges: Vec<DrawnEdge>,
    /// The lines that could not be read.
    pub faults: Vec<DrawingFault>,
}

/// How a drawing writes its edges down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingKind {
    /// A Mermaid state diagram.
    Mermaid,
    /// A table with the columns From and To.
    List,
    /// A table with a row and a column for each state, and ticks.
    Matrix,
    /// A table of states with the columns Success and Failure.
    Steps,
}

/// An edge that a drawing states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnEdge {
    /// The state that is left.
    pub from: String,
    /// The state that is entered.
    pub to: String,
    /// The bytes of the line that says so, without the line break.
    pub span: Range<usize>,
    /// The number of that line, from 1.
    pub line: usize,
}

/// Something in a drawing that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawingFault {
    /// The bytes of the line or cell.
    pub span: Range<usize>,
    /// The number of the line, from 1.
    pub line: usize,
    /// The mistake in words.
    pub message: String,
}

impl Drawing {
    /// The edges as a set.
    #[must_use]
    pub fn pairs(&self) -> BTreeSet<(&str, &str)> {
        let edges = self.edges.iter();
        edges.map(|edge| (edge.from.as_str(), edge.to.as_str())).collect()
    }
}

/// Every drawing of a document, in its order.
#[must_use]
pub fn read(markdown: &str) -> Vec<Drawing> {
    let lines = LineNumbers::of(markdown);
    let drawing = |block: &Block| match block {
        Block::Fence(fence) => fence_drawing(fence, markdown, &lines),
        Block::Table(grid, form) => table_drawing(grid, form, markdown, &lines),
    };
    blocks(markdown).iter().map(drawing).collect()
}

/// A drawing with its parts, for those who change it.
pub(super) enum Block {
    Fence(Fence),
    Table(Grid, Form),
}

/// The blocks that are drawings.
pub(super) fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Open> = None;
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    for (event, span) in parser.into_offset_iter() {
        if is_fence_of_drawing(&event) {
            open = Some(Open::Fence(span, Vec::new()));
        } else if matches!(event, Event::Start(Tag::Table(_))) {
            open = Some(Open::Table(Grid::new(span)));
        } else if matches!(event, Event::End(TagEnd::CodeBlock | TagEnd::Table)) {
            blocks.extend(open.take().and_then(|open| open.close(markdown)));
        } else if let Some(open) = &mut open {
            open.take(event, span);
        }
    }
    blocks
}

/// A block whose end has not come yet.
enum Open {
    Fence(Range<usize>, Vec<Range<usize>>),
    Table(Grid),
}

fn is_fence_of_drawing(event: &Event<'_>) -> bool {
    matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(word))) if is_mermaid(word))
}

impl Open {
    fn take(&mut self, event: Event<'_>, span: Range<usize>) {
        match self {
            Self::Fence(_, parts) => parts.push(span),
            Self::Table(grid) => {
                if let Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) = event {
                    grid.push_text(&text);
                } else if matches!(event, Event::Start(Tag::TableHead | Tag::TableRow)) {
                    grid.rows.push(Row::new(span));
                } else if matches!(event, Event::Start(Tag::TableCell)) {
                    grid.push_cell(Cell::new(span));
                }
            }
        }
    }

    fn close(self, markdown: &str) -> Option<Block> {
        match self {
            Self::Fence(span, parts) => Fence::of(span, &parts, markdown).map(Block::Fence),
            Self::Table(grid) => Form::of(&grid).map(|form| Block::Table(grid, form)),
        }
    }
}

fn is_mermaid(word: &str) -> bool {
    let first = word.split_whitespace().next().unwrap_or_default();
    first.eq_ignore_ascii_case("mermaid")
}

/// Where the lines of a document begin.
struct LineNumbers(Vec<usize>);

impl LineNumbers {
    fn of(markdown: &str) -> Self {
        let breaks = markdown.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    fn at(&self, byte: usize) -> usize {
        self.0.partition_point(|&start| start <= byte)
    }
}

fn fence_drawing(fence: &Fence, markdown: &str, lines: &LineNumbers) -> Drawing {
    let mut drawing = empty(DrawingKind::Mermaid, &fence.span, markdown, lines);
    for line in &fence.lines {
        match &line.statement {
            Statement::Edge(from, to) => drawing.edges.push(DrawnEdge {
                from: from.clone(),
                to: to.clone(),
                span: line.text.clone(),
                line: lines.at(line.text.start),
            }),
            Statement::Unreadable(message) => drawing.faults.push(DrawingFault {
                span: line.text.clone(),
                line: lines.at(line.text.start),
                message: message.clone(),
            }),
            Statement::Header
            | Statement::Enters(_)
            | Statement::Leaves(_)
            | Statement::Shown(_)
            | Statement::Quiet => {}
        }
    }
    if !fence.closed {
        drawing.faults.push(DrawingFault {
            span: drawing.first_line.clone(),
            line: drawing.line,
            message: "the fence is never closed".to_owned(),
        });
    }
    drawing
}

fn table_drawing(grid: &Grid, form: &Form, markdown: &str, lines: &LineNumbers) -> Drawing {
    let kind = match form {
        Form::List => DrawingKind::List,
        Form::Matrix => DrawingKind::Matrix,
        Form::Steps(_) => DrawingKind::Steps,
    };
    let mut drawing = empty(kind, &grid.span, markdown, lines);
    let reading = form.reading(grid);
    for (row, from, to) in reading.edges {
        let span = grid.rows[row].text(markdown);
        let line = lines.at(span.start);
        drawing.edges.push(DrawnEdge { from, to, span, line });
    }
    for (row, message) in reading.faults {
        let span = grid.rows[row].text(markdown);
        let line = lines.at(span.start);
        drawing.faults.push(DrawingFault { span, line, message });
    }
    drawing
}

fn empty(kind: DrawingKind, span: &Range<usize>, markdown: &str, lines: &LineNumbers) -> Drawing {
    let text = markdown.get(span.clone()).unwrap_or_default();
    let first = text.lines().next().map_or(0, str::len);
    Drawing {
        kind,
        span: span.clone(),
        line: lines.at(span.start),
        first_line: span.start..span.start + first,
        edges: Vec::new(),
        faults: Vec::new(),
    }
}
