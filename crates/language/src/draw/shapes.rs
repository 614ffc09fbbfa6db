//! The picture of a machine as shapes with their places: for whoever paints on it what runs have gone through.
//!
//! It is the same layout as that of `svg`, and carries no colours.

use serde::Serialize;

use super::Machine;
use super::graph::{Graph, Node};
use super::layout::{BOX, Kind, Layout, TURN};
use super::lettering::{lines, short_name};
use super::route::{HEAD, Ports};

/// A picture as shapes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shapes {
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
    /// Where it begins: a dot before the first state.
    pub dots: Vec<(f64, f64)>,
    /// The states.
    pub states: Vec<StateShape>,
    /// The edges.
    pub edges: Vec<EdgeShape>,
    /// What stands beside edges: the middle of each text, and its lines.
    pub labels: Vec<(f64, f64, Vec<String>)>,
}

/// A state as a box.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateShape {
    /// Its name.
    pub name: String,
    /// Its name as it is drawn.
    pub short: String,
    /// The left edge of the box.
    pub x: f64,
    /// Its top.
    pub y: f64,
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
    /// Whether a run ends here.
    pub last: bool,
    /// Whether one may be held here.
    pub can_hold: bool,
}

/// An edge as a line and its head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EdgeShape {
    /// The state that is left; empty where the line comes from the dot.
    pub from: String,
    /// The state that is entered.
    pub to: String,
    /// When it is taken.
    pub label: String,
    /// Whether it goes back.
    pub back: bool,
    /// The line, as an SVG path.
    pub line: String,
    /// Its head, as an SVG path.
    pub head: String,
}

/// The shapes of a machine; nothing where it is too large to be drawn.
#[must_use]
pub fn shapes(machine: &Machine) -> Option<Shapes> {
    let graph = Graph::of(machine);
    let layout = Layout::of(&graph)?;
    let mut all = Shapes { width: layout.width, height: layout.height, ..Shapes::default() };
    for spot in &layout.spots {
        match &spot.kind {
            Kind::Dot => all.dots.push((spot.x, spot.y)),
            Kind::Node(node) => {
                let node = &graph.nodes[*node];
                all.states.push(state(node, (spot.x, spot.y), spot.width));
                if let Some(label) = &node.turn {
                    all.turn(&node.name, label, (spot.x + spot.width / 2.0, spot.y));
                }
            }
            Kind::Bend => {}
            Kind::Label(lines) => all.labels.push((spot.x, spot.y, lines.clone())),
        }
    }
    let ports = Ports::of(&layout);
    for (at, chain) in layout.chains.iter().enumerate() {
        let (line, head) = ports.paths(&layout, at);
        let link = chain.link.and_then(|link| graph.links.get(link));
        let name = |node: usize| graph.nodes[node].name.clone();
        let (from, to, label) =
            link.map_or_else(Default::default, |link| (name(link.from), name(link.to), link.label.clone()));
        all.edges.push(EdgeShape { from, to, label, back: chain.back, line, head });
    }
    Some(all)
}

fn state(node: &Node, (x, y): (f64, f64), width: f64) -> StateShape {
    StateShape {
        name: node.name.clone(),
        short: short_name(&node.name),
        x: x - width / 2.0,
        y: y - BOX / 2.0,
        width,
        height: BOX,
        last: node.last,
        can_hold: node.can_hold,
    }
}

impl Shapes {
    /// The line from a state to itself, at the right of its box.
    fn turn(&mut self, name: &str, label: &str, (x, y): (f64, f64)) {
        let (out, end, low, high) = (x + TURN - 6.0, x + HEAD - 1.0, y + 9.0, y - 9.0);
        let line =
            format!("M{x:.1} {low:.1}C{out:.1} {:.1} {out:.1} {:.1} {end:.1} {high:.1}", y + 15.0, y - 12.0);
        let head = format!("M{x:.1} {high:.1}l8 -4.2v8.4z");
        let (from, to, label) = (name.to_owned(), name.to_owned(), label.to_owned());
        let words = lines(&label);
        let wide = words.iter().map(|line| super::lettering::label_width(line)).fold(0.0, f64::max);
        self.labels.push((x + TURN - 4.0 + wide / 2.0, y, words));
        self.edges.push(EdgeShape { from, to, label, back: true, line, head });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrow, DrawnState};
    use super::*;

    #[test]
    fn every_state_and_every_edge_has_a_shape() {
        let state = |name: &str, last: bool| DrawnState { name: name.to_owned(), last, can_hold: false };
        let arrow = |from: &str, to: &str| Arrow {
            from: from.to_owned(),
            to: to.to_owned(),
            label: String::from("if so"),
        };
        let machine = Machine {
            name: String::from("m"),
            states: vec![state("A", false), state("B", false), state("C", true)],
            edges: vec![arrow("A", "B"), arrow("B", "A"), arrow("B", "B"), arrow("B", "C")],
        };
        let drawn = shapes(&machine).unwrap();
        let names: Vec<&str> = drawn.states.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "C"]);
        for edge in &machine.edges {
            let found = drawn.edges.iter().find(|one| one.from == edge.from && one.to == edge.to);
            assert!(
                found.is_some_and(|one| one.line.starts_with('M') && one.head.starts_with('M')),
                "{edge:?}"
            );
        }
        let inside = |one: &StateShape| {
            one.x >= 0.0
                && one.y >= 0.0
                && one.x + one.width <= drawn.width
                && one.y + one.height <= drawn.height
        };
        assert!(drawn.states.iter().all(inside), "{drawn:?}");
    }
}
