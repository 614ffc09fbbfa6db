//! The picture of a machine.
//!
//! The text stands on its own: no fonts, scripts or links from elsewhere, colours for light and
//! dark in it, the same bytes for the same machine. Names and labels are always escaped.

use std::fmt::Write as _;

use super::Machine;
use super::graph::{Graph, Node};
use super::layout::{BOX, Kind, LEADING, Layout, Spot, TURN};
use super::lettering::{label_width, lines, short_name};
use super::route::{HEAD, Ports};

/// The free space round the drawing.
const MARGIN: f64 = 24.0;
/// The room for the name of the machine.
const HEADING: f64 = 34.0;
/// The room for the legend.
const LEGEND: f64 = 26.0;
/// The narrowest card.
const NARROWEST: f64 = 300.0;

/// Colours: grey for what goes on, amber for what goes back, green for the end.
const STYLE: &str = "\
.card{fill:#fcfcfd;stroke:#d8dee6}\
.box{fill:#eef3fb;stroke:#5b7fb5;stroke-width:1.4}\
.end{fill:#e9f6ee;stroke:#3f8f5f}\
.ring{fill:none;stroke:#3f8f5f;stroke-width:1.2}\
.unknown{fill:#fdf0f0;stroke:#c0504d;stroke-dasharray:4 3}\
.name{fill:#1c2733;font:600 13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;text-anchor:middle}\
.label{fill:#3d4b5c;font:11.5px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;text-anchor:middle}\
.side{text-anchor:start}\
.heading{fill:#1c2733;font-weight:600;font-size:14px;text-anchor:start}\
.legend{fill:#7b8794;font-size:10.5px;text-anchor:start}\
.paper{fill:#fcfcfd}\
.line{fill:none;stroke:#74839a;stroke-width:1.5}\
.head,.dot,.hold{fill:#74839a}\
.back .line{stroke:#c27c1a}\
.back .head{fill:#c27c1a}\
.edge:hover .line{stroke-width:2.6}\
@media (prefers-color-scheme:dark){\
.card{fill:#12171f;stroke:#2b3543}\
.box{fill:#1c2838;stroke:#6f9bd8}\
.end{fill:#17291f;stroke:#5cb583}\
.ring{stroke:#5cb583}\
.unknown{fill:#2c1a1b;stroke:#e07a76}\
.name{fill:#e8eef6}\
.label{fill:#b9c5d3}\
.heading{fill:#e8eef6}\
.legend{fill:#7f8c9b}\
.paper{fill:#12171f}\
.line{stroke:#8595aa}\
.head,.dot,.hold{fill:#8595aa}\
.back .line{stroke:#e0a03c}\
.back .head{fill:#e0a03c}\
}";

/// A picture of the machine, as the text of an SVG file.
#[must_use]
pub fn svg(machine: &Machine) -> String {
    let graph = Graph::of(machine);
    let name = super::text::one_line(&machine.name);
    match Layout::of(&graph) {
        Some(layout) => Picture::of(&name, &graph, &layout).finish(),
        None => too_large(&name, &graph),
    }
}

/// A picture that says that there is none.
fn too_large(name: &str, graph: &Graph) -> String {
    let mut picture = Picture::empty(name, 460.0, 40.0);
    picture.describe(graph);
    let (states, links) = (graph.nodes.len(), graph.links.len());
    picture.text(
        ("label side", MARGIN, picture.top + 20.0),
        &format!("Too large to draw: {states} states, {links} edges. See the table."),
    );
    picture.finish()
}

struct Picture {
    name: String,
    width: f64,
    height: f64,
    /// Where the drawing begins, below the heading.
    top: f64,
    left: f64,
    body: String,
}

impl Picture {
    fn of(name: &str, graph: &Graph, layout: &Layout) -> Self {
        let legend = legend(graph, layout);
        let mut picture = Self::empty(name, layout.width, layout.height);
        picture.widen(label_width(&legend));
        // The heading is set larger than labels are.
        picture.widen(label_width(&short_name(name)) * 1.3);
        if !legend.is_empty() {
            picture.height += LEGEND;
        }
        picture.describe(graph);
        let (left, top) = (picture.left, picture.top);
        let _ = writeln!(picture.body, r#"<g transform="translate({left:.1} {top:.1})">"#);
        picture.lines(graph, layout);
        for spot in &layout.spots {
            picture.spot(graph, spot);
        }
        picture.body.push_str("</g>\n");
        if !legend.is_empty() {
            let y = picture.height - MARGIN + 4.0;
            picture.text(("label legend", MARGIN, y), &legend);
        }
        picture
    }

    fn empty(name: &str, width: f64, height: f64) -> Self {
        let heading = if name.is_empty() { 0.0 } else { HEADING };
        let card = f64::max(width + 2.0 * MARGIN, NARROWEST);
        Self {
            name: name.to_owned(),
            width: card,
            height: height + 2.0 * MARGIN + heading,
            top: MARGIN + heading,
            left: (card - width) / 2.0,
            body: String::new(),
        }
    }

    /// Makes the card wide enough for a line of text, the drawing in its middle.
    fn widen(&mut self, text: f64) {
        let more = f64::max(text + 2.0 * MARGIN - self.width, 0.0);
        self.width += more;
        self.left += more / 2.0;
    }

    fn finish(self) -> String {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
             {}</svg>\n",
            self.body
        )
    }

    /// The title, the description, the card and the heading.
    fn describe(&mut self, graph: &Graph) {
        let name = escaped(&self.name);
        let turns = graph.nodes.iter().filter(|node| node.turn.is_some());
        let edges = graph.links.len() + turns.count();
        let _ = writeln!(self.body, "<title id=\"title\">State machine {name}</title>");
        let _ = writeln!(
            self.body,
            "<desc id=\"desc\">{} states and {edges} edges.{}{}</desc>",
            graph.nodes.len(),
            group_nodes(" It starts in ", graph.nodes.iter().filter(|n| n.known).take(1)),
            group_nodes(" It ends in ", graph.nodes.iter().filter(|n| n.last)),
        );
        let _ = writeln!(self.body, "<style>{STYLE}</style>");
        let (width, height) = (self.width.ceil() - 1.0, self.height.ceil() - 1.0);
        let _ = writeln!(
            self.body,
            r#"<rect class="card" x="0.5" y="0.5" width="{width}" height="{height}" rx="12"/>"#
        );
        if !self.name.is_empty() {
            let heading = short_name(&self.name);
            self.text(("label heading", MARGIN, MARGIN + 10.0), &heading);
        }
    }

    fn lines(&mut self, graph: &Graph, layout: &Layout) {
        let ports = Ports::of(layout);
        for (at, chain) in layout.chains.iter().enumerate() {
            let (line, head) = ports.paths(layout, at);
            let class = if chain.back { "edge back" } else { "edge" };
            let _ = write!(self.body, r#"<g class="{class}">"#);
            if let Some(link) = chain.link.and_then(|link| graph.links.get(link)) {
                let (from, to) = (&graph.nodes[link.from].name, &graph.nodes[link.to].name);
                self.tooltip(&format!("{from} → {to}"), &link.label);
            }
            let _ =
                writeln!(self.body, r#"<path class="line" d="{line}"/><path class="head" d="{head}"/></g>"#);
        }
    }

    fn tooltip(&mut self, what: &str, more: &str) {
        let colon = if more.is_empty() { "" } else { ": " };
        let (what, more) = (escaped(what), escaped(more));
        let _ = write!(self.body, "<title>{what}{colon}{more}</title>");
    }

    fn spot(&mut self, graph: &Graph, spot: &Spot) {
        match &spot.kind {
            Kind::Dot => {
                let (x, y) = (spot.x, spot.y);
                let _ = writeln!(self.body, r#"<circle class="dot" cx="{x:.1}" cy="{y:.1}" r="5.5"/>"#);
            }
            Kind::Node(node) => self.node(&graph.nodes[*node], spot),
            Kind::Bend => {}
            Kind::Label(lines) => self.label(lines, spot),
        }
    }

    fn node(&mut self, node: &Node, spot: &Spot) {
        self.body.push_str("<g>");
        let more = match (node.known, node.last, node.can_hold) {
            (false, _, _) => "not a state of this machine",
            (true, true, true) => "final, may be held",
            (true, true, false) => "final",
            (true, false, true) => "may be held",
            (true, false, false) => "",
        };
        self.tooltip(&node.name, more);
        let class = match (node.known, node.last) {
            (false, _) => "box unknown",
            (true, true) => "box end",
            (true, false) => "box",
        };
        let (left, top) = (spot.x - spot.width / 2.0, spot.y - BOX / 2.0);
        self.rect(class, (left, top), (spot.width, BOX), 9.0);
        if node.last {
            let inner = (spot.width - 7.0, BOX - 7.0);
            self.rect("ring", (left + 3.5, top + 3.5), inner, 6.0);
        }
        if node.can_hold {
            let (x, y) = (left + spot.width - if node.last { 15.0 } else { 13.5 }, top + 7.0);
            let _ = write!(self.body, r#"<path class="hold" d="M{x:.1} {y:.1}h2v7h-2zm4 0h2v7h-2z"/>"#);
        }
        self.text(("name", spot.x, spot.y + 4.6), &short_name(&node.name));
        self.body.push_str("</g>\n");
        if let Some(label) = &node.turn {
            self.turn(label, spot);
        }
    }

    /// The line from a state to itself, at the right of its box.
    fn turn(&mut self, label: &str, spot: &Spot) {
        let (x, y) = (spot.x + spot.width / 2.0, spot.y);
        let (out, end) = (x + TURN - 6.0, x + HEAD - 1.0);
        self.body.push_str(r#"<g class="edge back">"#);
        self.tooltip("to itself", label);
        let (low, high) = (y + 9.0, y - 9.0);
        let _ = writeln!(
            self.body,
            "<path class=\"line\" d=\"M{x:.1} {low:.1}C{out:.1} {:.1} {out:.1} {:.1} {end:.1} {high:.1}\"/>\
             <path class=\"head\" d=\"M{x:.1} {high:.1}l8 -4.2v8.4z\"/></g>",
            y + 15.0,
            y - 12.0,
        );
        let lines = lines(label);
        let first = y - (lines.len() as f64 - 1.0) * LEADING / 2.0 + 4.0;
        for (at, line) in lines.iter().enumerate() {
            let place = (x + TURN - 4.0, first + at as f64 * LEADING);
            self.text(("label side", place.0, place.1), line);
        }
    }

    fn label(&mut self, lines: &[String], spot: &Spot) {
        let widest = lines.iter().map(|line| label_width(line)).fold(0.0, f64::max);
        let height = lines.len() as f64 * LEADING + 2.0;
        let corner = (spot.x - widest / 2.0 - 2.0, spot.y - height / 2.0);
        self.rect("paper", corner, (widest + 4.0, height), 3.0);
        let first = spot.y - (lines.len() as f64 - 1.0) * LEADING / 2.0 + 4.0;
        for (at, line) in lines.iter().enumerate() {
            self.text(("label", spot.x, first + at as f64 * LEADING), line);
        }
        self.body.push('\n');
    }

    fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), round: f64) {
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="{round}"/>"#
        );
    }

    fn text(&mut self, (class, x, y): (&str, f64, f64), text: &str) {
        let text = escaped(text);
        let _ = write!(self.body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#);
    }
}

/// What the signs mean, as far as they are used.
fn legend(graph: &Graph, layout: &Layout) -> String {
    let turns = graph.nodes.iter().any(|node| node.turn.is_some());
    let back = turns || layout.chains.iter().any(|chain| chain.back);
    let signs = [
        (back, "amber: goes back"),
        (graph.nodes.iter().any(|n| n.last), "double border: final"),
        (graph.nodes.iter().any(|n| n.can_hold), "two bars: may be held"),
        (graph.nodes.iter().any(|n| !n.known), "dashed: no such state"),
    ];
    let used: Vec<&str> = signs.iter().filter(|s| s.0).map(|s| s.1).collect();
    used.join("  ·  ")
}

fn group_nodes<'a>(opening: &str, nodes: impl Iterator<Item = &'a Node>) -> String {
    let names: Vec<String> = nodes.map(|node| escaped(&node.name)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("{opening}{}.", names.join(", ")),
    }
}

/// Text that XML takes: its marks escaped, and what it does not allow at all left out.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
