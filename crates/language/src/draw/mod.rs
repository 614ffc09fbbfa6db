//! Drawings of a machine: made here, found in documents, compared and put right.
//!
//! A [`Machine`] is what is left of a protocol when only its states and edges count. This module
//! turns it into text and pictures, finds the drawings that a Markdown document holds, says where
//! they differ, and rewrites them.
//!
//! It never sees the syntax tree of the language, never reads or writes a file, and never changes
//! a byte of a document outside a drawing. Whatever the machine or the document holds, nothing
//! here panics and the work is bounded.

mod alias;
mod compare;
mod fence;
mod graph;
mod layers;
mod layout;
mod lettering;
mod order;
mod patch;
mod place;
mod read;
mod rewrite;
mod route;
mod shapes;
mod svg;
mod tables;
mod text;

pub use compare::{Difference, DifferenceKind, compare};
pub use read::{Drawing, DrawingFault, DrawingKind, DrawnEdge, read};
pub use rewrite::rewrite;
pub use shapes::{EdgeShape, Shapes, StateShape, shapes};
pub use svg::svg;
pub use text::{dot, edges, mermaid, table};

/// The states and edges of one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The protocol's name.
    pub name: String,
    /// The states in document order; the first is the start.
    pub states: Vec<DrawnState>,
    /// The edges in document order, each pair once.
    pub edges: Vec<Arrow>,
}

/// One state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrawnState {
    /// The state's name.
    pub name: String,
    /// Whether the state is final: all its paths settle.
    pub last: bool,
    /// Whether an instance may be held in it.
    pub can_hold: bool,
}

/// One edge of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrow {
    /// The state that is left.
    pub from: String,
    /// The state that is entered.
    pub to: String,
    /// When the edge is taken, in a few words; may be empty.
    pub label: String,
}

impl Machine {
    /// The edges grouped by the state they leave: states in document order, then edges from
    /// names that are no state, in the order they come. A pair that comes twice is given once.
    pub(crate) fn grouped(&self) -> Vec<&Arrow> {
        let place = self.places();
        let mut seen = std::collections::BTreeSet::new();
        let mut arrows: Vec<&Arrow> =
            self.edges.iter().filter(|arrow| seen.insert((arrow.from.as_str(), arrow.to.as_str()))).collect();
        arrows.sort_by_key(|arrow| place.get(arrow.from.as_str()).copied());
        arrows
    }

    /// Where each name first comes: states first, then names that only edges know.
    pub(crate) fn places(&self) -> std::collections::BTreeMap<&str, usize> {
        let mut place = std::collections::BTreeMap::new();
        let ends = self.edges.iter().flat_map(|arrow| [&arrow.from, &arrow.to]);
        for name in self.states.iter().map(|shape| &shape.name).chain(ends) {
            let next = place.len();
            place.entry(name.as_str()).or_insert(next);
        }
        place
    }

    /// The pairs of the machine, each once.
    pub(crate) fn pairs(&self) -> std::collections::BTreeSet<(&str, &str)> {
        self.edges.iter().map(|arrow| (arrow.from.as_str(), arrow.to.as_str())).collect()
    }
}
