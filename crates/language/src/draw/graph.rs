//! A machine with numbers for names, ready to be laid out.
//!
//! Nothing is left out: a name that only an edge knows becomes a node that is marked as unknown.
//! A pair that comes twice is one link.

use super::Machine;

/// The nodes and links of a machine.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Links between two different nodes.
    pub(super) links: Vec<Link>,
}

/// A state, or a name that only an edge knows.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) last: bool,
    pub(super) can_hold: bool,
    /// False when only an edge knows the name.
    pub(super) known: bool,
    /// The label of the edge from the state to itself, when there is one.
    pub(super) turn: Option<String>,
}

/// An edge between two different nodes, given by their numbers.
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
}

impl Graph {
    /// Numbers the states of a machine.
    pub(super) fn of(machine: &Machine) -> Self {
        let places = machine.places();
        let mut names: Vec<(&str, usize)> = places.iter().map(|(name, at)| (*name, *at)).collect();
        names.sort_by_key(|(_, at)| *at);
        let mut nodes: Vec<Node> = names.iter().map(|(name, _)| Node::unknown(name)).collect();
        for shape in &machine.states {
            if let Some(node) = at(&places, &shape.name).and_then(|at| nodes.get_mut(at)) {
                node.known = true;
                node.last |= shape.last;
                node.can_hold |= shape.can_hold;
            }
        }
        let mut links = Vec::new();
        for arrow in machine.grouped() {
            let (Some(from), Some(to)) = (at(&places, &arrow.from), at(&places, &arrow.to)) else {
                continue;
            };
            let label = super::text::one_line(&arrow.label);
            if from == to {
                nodes[from].turn = Some(label);
            } else {
                links.push(Link { from, to, label });
            }
        }
        Self { nodes, links }
    }
}

impl Node {
    fn unknown(name: &str) -> Self {
        Self { name: super::text::one_line(name), last: false, can_hold: false, known: false, turn: None }
    }
}

fn at(places: &std::collections::BTreeMap<&str, usize>, name: &str) -> Option<usize> {
    places.get(name).copied()
}
