//! Where a drawing and a machine differ.
//!
//! The answer is complete: every edge that one has and the other has not, every line that could
//! not be read. An empty answer means that the drawing says exactly what the machine is.

use std::ops::Range;

use super::{Drawing, Machine};

/// A difference between a drawing and a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whether the drawing lacks an edge, has one too many, or could not be read.
    pub kind: DifferenceKind,
    /// The state that is left; empty when a line is unreadable.
    pub from: String,
    /// The state that is entered; empty when a line is unreadable.
    pub to: String,
    /// The line that is wrong, or the first line of the drawing when something is missing.
    pub span: Range<usize>,
    /// The number of that line, from 1.
    pub line: usize,
    /// The difference in words.
    pub message: String,
}

/// The ways in which a drawing can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// The machine has the edge and the drawing has not.
    Missing,
    /// The drawing has the edge and the machine has not.
    Extra,
    /// The drawing has a line that could not be read.
    Unreadable,
}

/// All differences, sorted by kind, then by edge, then by place.
#[must_use]
pub fn compare(drawing: &Drawing, machine: &Machine) -> Vec<Difference> {
    let (drawn, meant) = (drawing.pairs(), machine.pairs());
    let missing = meant.difference(&drawn).map(|&(from, to)| Difference {
        kind: DifferenceKind::Missing,
        from: from.to_owned(),
        to: to.to_owned(),
        span: drawing.first_line.clone(),
        line: drawing.line,
        message: format!("the edge {from} → {to} is not drawn"),
    });
    let strange = drawing.edges.iter().filter(|edge| {
        let pair = (edge.from.as_str(), edge.to.as_str());
        !meant.contains(&pair)
    });
    let extra = strange.map(|edge| Difference {
        kind: DifferenceKind::Extra,
        from: edge.from.clone(),
        to: edge.to.clone(),
        span: edge.span.clone(),
        line: edge.line,
        message: format!("{} has no edge {} → {}", machine.name, edge.from, edge.to),
    });
    let unreadable = drawing.faults.iter().map(|fault| Difference {
        kind: DifferenceKind::Unreadable,
        from: String::new(),
        to: String::new(),
        span: fault.span.clone(),
        line: fault.line,
        message: fault.message.clone(),
    });
    let mut all: Vec<Difference> = missing.chain(extra).chain(unreadable).collect();
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    all
}

fn key(difference: &Difference) -> (DifferenceKind, &str, &str, usize, &str) {
    let Difference { kind, from, to, .. } = difference;
    (*kind, from, to, difference.span.start, &difference.message)
}
