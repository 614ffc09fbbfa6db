//! The layered layout of a machine: from the top down, labels and bends in layers of their own.
//!
//! Every box, label and bend is a spot of a layer, and spots of a layer never overlap. Since
//! lines run straight through their layers and bend only in the gaps between them, no line runs
//! through a box or a label that is not its own.

use super::graph::{Graph, Node};
use super::layers::{backward, ranks};
use super::lettering::{label_width, lines, name_width, short_name};
use super::order::Ladder;
use super::place::{Room, across};

/// Above this many spots nothing is drawn; a picture of that size cannot be read either.
const SPOTS: usize = 700_000;
/// Above this many spots labels are only tooltips.
const LABELLED_SPOTS: usize = 12_000;
/// The height of a box.
pub(super) const BOX: f64 = 38.0;
/// The height of a line of a label.
pub(super) const LEADING: f64 = 14.0;
/// How far the line of a state to itself leaves its box.
pub(super) const TURN: f64 = 30.0;
/// The distance between two lines at the side of a box.
pub(super) const PORTS: f64 = 15.0;
/// What stays free at both ends of the side of a box.
pub(super) const SHOULDER: f64 = 14.0;
/// The widest that a box gets for the sake of its lines.
const WIDEST: f64 = 900.0;

/// The kind of thing at a spot.
pub(super) enum Kind {
    /// The mark above the start.
    Dot,
    /// A state, by its number.
    Node(usize),
    /// Where a long line passes a layer.
    Bend,
    /// The label of a link.
    Label(Vec<String>),
}

/// A place in the drawing.
pub(super) struct Spot {
    pub(super) kind: Kind,
    /// Its middle, from the left.
    pub(super) x: f64,
    /// Its middle, from the top.
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    layer: usize,
}

/// A line from a spot at the top to one at the bottom.
pub(super) struct Chain {
    /// The number of the link; the mark above the start has none.
    pub(super) link: Option<usize>,
    /// Whether the arrow points up.
    pub(super) back: bool,
    /// The spots from top to bottom.
    pub(super) spots: Vec<usize>,
}

/// A drawing with every place known.
pub(super) struct Layout {
    pub(super) spots: Vec<Spot>,
    pub(super) chains: Vec<Chain>,
    /// The top and the bottom of the layer of each spot.
    bands: Vec<(f64, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Layout {
    /// Lays out a graph, or nothing when it is too large.
    pub(super) fn of(graph: &Graph) -> Option<Self> {
        let back = backward(graph.nodes.len(), &graph.links);
        let ends = ends(graph, &back);
        let rank = ranks(graph.nodes.len() + 1, &ends);
        let spots: usize = ends.iter().map(|&(from, to)| rank[to] - rank[from]).sum();
        if spots.max(graph.nodes.len()) > SPOTS {
            return None;
        }
        let labelled = spots <= LABELLED_SPOTS && graph.links.iter().any(|l| !l.label.is_empty());
        let mut draft = Draft::new(graph, &ends, &rank, labelled);
        for (at, &(from, to)) in ends.iter().enumerate() {
            draft.join(graph, at, (from, to), back.get(at) == Some(&true));
        }
        Some(draft.finish())
    }

    /// The top and the bottom of the layer that a spot stands in.
    pub(super) fn band(&self, spot: usize) -> (f64, f64) {
        self.bands[self.spots[spot].layer]
    }
}

/// The upper and lower end of each link, and last of the line from the mark to the start.
fn ends(graph: &Graph, back: &[bool]) -> Vec<(usize, usize)> {
    let turned = |(link, back): (&super::graph::Link, &bool)| match back {
        true => (link.to, link.from),
        false => (link.from, link.to),
    };
    let mut ends: Vec<(usize, usize)> = graph.links.iter().zip(back).map(turned).collect();
    if graph.nodes.first().is_some_and(|node| node.known) {
        ends.push((graph.nodes.len(), 0));
    }
    ends
}

/// A layout whose places are not known yet.
struct Draft {
    spots: Vec<Spot>,
    chains: Vec<Chain>,
    ladder: Ladder,
    rooms: Vec<Room>,
    /// How many layers lie between a node and the next.
    step: usize,
    labelled: bool,
}

impl Draft {
    fn new(graph: &Graph, ends: &[(usize, usize)], rank: &[usize], labelled: bool) -> Self {
        let step = if labelled { 2 } else { 1 };
        let layers = rank.iter().max().map_or(0, |rank| rank * step + 1);
        let mut draft = Self {
            spots: Vec::new(),
            chains: Vec::new(),
            ladder: Ladder { layers: vec![Vec::new(); layers], up: Vec::new(), down: Vec::new() },
            rooms: Vec::new(),
            step,
            labelled,
        };
        let crowd = crowd(graph.nodes.len(), ends);
        for (at, node) in graph.nodes.iter().enumerate() {
            draft.add_node(at, node, rank[at] * step, crowd[at]);
        }
        if graph.nodes.first().is_some_and(|node| node.known) {
            let layer = rank[graph.nodes.len()] * step;
            draft.add(Kind::Dot, layer, (11.0, 11.0), (16.0, 16.0));
        }
        draft
    }

    fn add_node(&mut self, at: usize, node: &Node, layer: usize, crowd: usize) {
        let lines_need = crowd as f64 * PORTS + 2.0 * SHOULDER;
        let name_needs = name_width(&short_name(&node.name)) + 34.0;
        let width = name_needs.max(lines_need.min(WIDEST)).max(72.0);
        let (mut height, mut right) = (BOX, width / 2.0 + 14.0);
        if let Some(label) = &node.turn {
            let label = lines(label);
            let widest = label.iter().map(|l| label_width(l)).fold(0.0, f64::max);
            height = height.max(label.len() as f64 * LEADING + 4.0);
            right += TURN + widest + 6.0;
        }
        let layer = layer.min(self.ladder.layers.len().saturating_sub(1));
        self.add(Kind::Node(at), layer, (width, height), (width / 2.0 + 14.0, right));
    }

    fn add(&mut self, kind: Kind, layer: usize, size: (f64, f64), room: (f64, f64)) -> usize {
        let spot = self.spots.len();
        self.rooms.push(Room {
            left: room.0,
            right: room.1,
            bend: matches!(kind, Kind::Bend | Kind::Label(_)),
        });
        self.spots.push(Spot { kind, x: 0.0, y: 0.0, width: size.0, height: size.1, layer });
        self.ladder.up.push(Vec::new());
        self.ladder.down.push(Vec::new());
        self.ladder.layers[layer].push(spot);
        spot
    }

    /// Adds the spots between two nodes. The label stands next to the state that is left.
    fn join(&mut self, graph: &Graph, at: usize, (from, to): (usize, usize), back: bool) {
        let (top, bottom) = (self.spots[from].layer, self.spots[to].layer);
        let label_layer = if back { bottom - 1 } else { top + 1 };
        let mut spots = vec![from];
        for layer in top + 1..bottom {
            let label = graph.links.get(at).map_or("", |link| link.label.as_str());
            let here = self.labelled && layer == label_layer && !label.is_empty();
            spots.push(if here {
                self.add_label(label, layer)
            } else {
                self.add(Kind::Bend, layer, (0.0, 0.0), (9.0, 9.0))
            });
        }
        spots.push(to);
        for pair in spots.windows(2) {
            self.ladder.down[pair[0]].push(pair[1]);
            self.ladder.up[pair[1]].push(pair[0]);
        }
        let link = (at < graph.links.len()).then_some(at);
        self.chains.push(Chain { link, back, spots });
    }

    fn add_label(&mut self, label: &str, layer: usize) -> usize {
        let lines = lines(label);
        let widest = lines.iter().map(|l| label_width(l)).fold(0.0, f64::max);
        let (width, height) = (widest + 10.0, lines.len() as f64 * LEADING + 4.0);
        let room = width / 2.0 + 6.0;
        self.add(Kind::Label(lines), layer, (width, height), (room, room))
    }

    fn finish(mut self) -> Layout {
        self.ladder.untangle();
        let across = across(&self.ladder, &self.rooms);
        let left = across.iter().zip(&self.rooms).map(|(x, room)| x - room.left);
        let left = left.fold(f64::INFINITY, f64::min);
        let mut width: f64 = 0.0;
        for (spot, x) in across.iter().enumerate() {
            self.spots[spot].x = x - left;
            width = width.max(x - left + self.rooms[spot].right);
        }
        let bands = self.bands();
        for spot in &mut self.spots {
            let (top, bottom) = bands[spot.layer];
            spot.y = f64::midpoint(top, bottom);
        }
        Layout {
            height: bands.last().map_or(0.0, |band| band.1),
            spots: self.spots,
            chains: self.chains,
            bands,
            width,
        }
    }

    /// The top and bottom of each layer. Gaps grow with how far their lines go sideways.
    fn bands(&self) -> Vec<(f64, f64)> {
        let mut bands = Vec::new();
        let mut top = 0.0;
        for layer in &self.ladder.layers {
            let heights = layer.iter().map(|&spot| self.spots[spot].height);
            let bottom = top + heights.fold(0.0, f64::max);
            bands.push((top, bottom));
            let far = layer.iter().flat_map(|&spot| {
                let below = self.ladder.down[spot].iter();
                below.map(move |&next| (self.spots[next].x - self.spots[spot].x).abs())
            });
            let far = far.fold(0.0, f64::max);
            let least = if self.step == 2 { 20.0 } else { 36.0 };
            top = bottom + (least + far * 0.07).min(58.0);
        }
        bands
    }
}

/// How many gaps between lines the busier side of each node has.
fn crowd(nodes: usize, ends: &[(usize, usize)]) -> Vec<usize> {
    let mut below = vec![0usize; nodes + 1];
    let mut above = vec![0usize; nodes + 1];
    for &(upper, lower) in ends {
        below[upper] += 1;
        above[lower] += 1;
    }
    let busier = below.iter().zip(&above).map(|(a, b)| *a.max(b));
    busier.map(|lines| lines.saturating_sub(1)).collect()
}
