//! What holds for every picture of the five machines.

use ftl_language::draw::{Arrow, DrawnState, Machine, dot, edges, svg};

use crate::machines;

#[derive(Debug, Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn overlaps(self, other: Self) -> bool {
        let apart = |a: f64, b: f64, c: f64, d: f64| a + b <= c || c + d <= a;
        !apart(self.x, self.width, other.x, other.width) && !apart(self.y, self.height, other.y, other.height)
    }

    fn holds(self, (x, y): (f64, f64)) -> bool {
        let inside = |at: f64, from: f64, size: f64| at > from + 1.0 && at < from + size - 1.0;
        inside(x, self.x, self.width) && inside(y, self.y, self.height)
    }
}

fn attribute(tag: &str, name: &str) -> f64 {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

/// The rectangles whose class begins with a word.
fn areas(svg: &str, class: &str) -> Vec<Area> {
    let opening = format!("<rect class=\"{class}");
    let area = |(at, _): (usize, &str)| {
        let tag = svg[at..].split("/>").next().unwrap();
        let [x, y, width, height] = ["x", "y", "width", "height"].map(|name| attribute(tag, name));
        Area { x, y, width, height }
    };
    svg.match_indices(&opening).map(area).collect()
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Points along the lines between states, close together. Paths hold M, V, L and C only.
fn line_points(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let paths = svg.split("<path class=\"line\" d=\"").skip(1);
    paths.map(|path| points_of(path.split('"').next().unwrap())).collect()
}

fn points_of(path: &str) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut rest = path;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(char::is_alphabetic).map_or(rest.len(), |at| at + 1);
        let n = numbers(&rest[1..end]);
        rest = &rest[end..];
        let from = points.last().copied().unwrap_or_default();
        for step in 1..=400 {
            let t = f64::from(step) / 400.0;
            let mix = |a: f64, b: f64| a + (b - a) * t;
            points.push(match command {
                'M' => (n[0], n[1]),
                'V' => (from.0, mix(from.1, n[0])),
                'L' => (mix(from.0, n[0]), mix(from.1, n[1])),
                'C' => {
                    let bend = |a: f64, b: f64, c: f64, d: f64| {
                        let u = 1.0 - t;
                        a * u * u * u + 3.0 * b * u * u * t + 3.0 * c * u * t * t + d * t * t * t
                    };
                    (bend(from.0, n[0], n[2], n[4]), bend(from.1, n[1], n[3], n[5]))
                }
                other => panic!("unknown command {other}"),
            });
        }
    }
    points
}

#[test]
fn boxes_and_labels_never_overlap() {
    for machine in machines::all() {
        let picture = svg(&machine);
        let mut areas_of = areas(&picture, "box");
        assert_eq!(areas_of.len(), machine.states.len());
        areas_of.extend(areas(&picture, "paper"));
        for (at, area) in areas_of.iter().enumerate() {
            for other in &areas_of[at + 1..] {
                assert!(!area.overlaps(*other), "{}: {area:?} {other:?}", machine.name);
            }
        }
    }
}

#[test]
fn lines_never_run_through_boxes() {
    for machine in machines::all() {
        let picture = svg(&machine);
        let boxes = areas(&picture, "box");
        for line in line_points(&picture) {
            for area in &boxes {
                let inside = line.iter().find(|point| area.holds(**point));
                assert_eq!(inside, None, "{}: {area:?}", machine.name);
            }
        }
    }
}

#[test]
fn lines_run_through_their_own_label_only() {
    for machine in machines::all() {
        let picture = svg(&machine);
        let lines = line_points(&picture);
        for label in areas(&picture, "paper") {
            let through = lines.iter().filter(|line| line.iter().any(|point| label.holds(*point)));
            assert_eq!(through.count(), 1, "{}: {label:?}", machine.name);
        }
    }
}

#[test]
fn every_edge_is_drawn_once() {
    for machine in machines::all() {
        let picture = svg(&machine);
        // One more line comes from the mark to the start.
        assert_eq!(line_points(&picture).len(), machine.edges.len() + 1);
        assert_eq!(picture, svg(&machine));
        assert!(picture.contains("prefers-color-scheme:dark"));
        assert!(picture.contains("<title id=\"title\">") && picture.contains("<desc id=\"desc\">"));
        assert!(!picture.contains("href") && !picture.contains("url("));
    }
}

#[test]
fn the_design_counts_the_same_edges() {
    let counts = machines::all().map(|machine| (machine.states.len(), edges(&machine).lines().count()));
    assert_eq!(counts, [(7, 8), (9, 12), (10, 18), (11, 23), (8, 19)]);
}

#[test]
fn no_machine_is_too_small() {
    let nothing = svg(&Machine::default());
    assert!(nothing.starts_with("<svg ") && nothing.ends_with("</svg>\n"));
    assert!(nothing.contains("0 states and 0 edges."));
    let one = svg(&machines::machine("one", "A!", "A A again"));
    assert_eq!(areas(&one, "box").len(), 1);
    assert!(one.contains(">again<"));
}

#[test]
fn unknown_names_are_drawn_and_marked() {
    let picture = svg(&machines::machine("odd", "A", "A GONE\nGONE A\nELSE GONE"));
    assert_eq!(areas(&picture, "box unknown").len(), 2);
    assert!(picture.contains("dashed: no such state"));
}

#[test]
fn names_and_labels_are_escaped() {
    let arrow =
        |from: &str, to: &str| Arrow { from: from.into(), to: to.into(), label: "a<b> & \u{1}".into() };
    let machine = Machine {
        name: "<script>".into(),
        states: vec![DrawnState { name: "<A>\"&".into(), ..DrawnState::default() }],
        edges: vec![arrow("<A>\"&", "B"), arrow("B", "B")],
    };
    let picture = svg(&machine);
    assert!(!picture.contains("<script>") && !picture.contains("<A>") && !picture.contains("a<b>"));
    assert!(picture.contains("&lt;A&gt;&quot;&amp;"));
    assert!(dot(&machine).contains("\"<A>\\\"&\" -> \"B\" [label=\"a<b> &\"];"));
}

/// A machine with a chain through all states and edges at random in between.
fn large(states: usize, edges: usize) -> Machine {
    let name = |at: usize| format!("S{at}");
    let mut seed = 12_345_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let chain = (1..states).map(|at| (at - 1, at)).collect::<Vec<_>>();
    let more: Vec<(usize, usize)> = (chain.len()..edges).map(|_| (random(states), random(states))).collect();
    let arrow = |(from, to): (usize, usize)| Arrow { from: name(from), to: name(to), label: "if so".into() };
    Machine {
        name: "large".into(),
        states: (0..states).map(|at| DrawnState { name: name(at), ..DrawnState::default() }).collect(),
        edges: chain.into_iter().chain(more).map(arrow).collect(),
    }
}

#[test]
fn a_large_machine_is_drawn_in_time() {
    let before = std::time::Instant::now();
    let picture = svg(&large(256, 2_000));
    assert_eq!(areas(&picture, "box").len(), 256);
    // In release this takes well below a second; tests run without optimisation on busy machines.
    let most = if cfg!(debug_assertions) { 30 } else { 1 };
    assert!(before.elapsed().as_secs() < most, "{:?}", before.elapsed());
}

#[test]
fn a_machine_that_is_too_large_says_so() {
    assert!(svg(&large(3_000, 60_000)).contains("Too large to draw: 3000 states"));
}
