//! Facts: what the checker found out about a protocol, as data for `--json` and for people.
//!
//! The fields are a contract. A name that is out of use stays out of use.

use std::collections::BTreeMap;

use ftl_command::protocol_loader::Unreadable;
use ftl_core::value::Name;
use ftl_language::check::{CheckReport, ProvenEdge, StateFacts};
use ftl_language::draw::{self, Drawing, DrawingKind};
use ftl_language::library::{Library, Protocol};
use ftl_language::parse::parse;
use ftl_language::problem::{Problem, ProblemSeverity};
use ftl_language::source::{DocumentOrigin, SourceDocument, Span};
use serde::Serialize;

use crate::problems::{LocatedSpan, hint};

/// What `ftl check --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct CheckFacts {
    pub(crate) ok: bool,
    pub(crate) protocols: Vec<ProtocolFacts>,
    /// The problems of documents that define no protocol.
    pub(crate) problems: Vec<ProblemFact>,
}

/// Everything about one protocol.
#[derive(Debug, Serialize)]
pub(crate) struct ProtocolFacts {
    pub(crate) name: Name,
    pub(crate) origin: DocumentOrigin,
    pub(crate) path: String,
    pub(crate) digest: String,
    pub(crate) ok: bool,
    /// Whether the program could be read, so that the graph was looked at.
    pub(crate) readable: bool,
    pub(crate) start: Option<Name>,
    /// Whether it was proven that every state can be reached.
    pub(crate) all_reachable: bool,
    /// Whether it was proven that every state has a way to an end.
    pub(crate) all_can_end: bool,
    pub(crate) states: Vec<StateFact>,
    pub(crate) edges: Vec<EdgeFact>,
    pub(crate) loops: Vec<LoopFact>,
    pub(crate) gates: Vec<GateFact>,
    pub(crate) ungated: Vec<Name>,
    pub(crate) verdicts: BTreeMap<Name, Vec<Name>>,
    pub(crate) holds: Vec<HoldFact>,
    pub(crate) people: Vec<PersonFact>,
    /// How many drawings were compared with the program.
    pub(crate) drawings: usize,
    pub(crate) diagrams: usize,
    pub(crate) tables: usize,
    /// How many drawings differ from the program.
    pub(crate) wrong_drawings: usize,
    pub(crate) problems: Vec<ProblemFact>,
}

/// A state of a protocol, as `ftl check --json` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct StateFact {
    pub(crate) name: Name,
    #[serde(rename = "final")]
    pub(crate) last: bool,
    pub(crate) holds: bool,
}

/// An edge, with what is sure about every path over it.
#[derive(Debug, Serialize)]
pub(crate) struct EdgeFact {
    from: Name,
    to: Name,
    when: String,
    pays: Vec<Name>,
    refills: Vec<Name>,
    gates: Vec<Name>,
}

/// A loop, and the meters that bound it.
#[derive(Debug, Serialize)]
pub(crate) struct LoopFact {
    pub(crate) states: Vec<Name>,
    pub(crate) bounded_by: Vec<Name>,
}

/// A gate that was proven.
#[derive(Debug, Serialize)]
pub(crate) struct GateFact {
    pub(crate) any_of: Vec<Name>,
    pub(crate) before: Name,
}

/// A place where an instance can be held.
#[derive(Debug, Serialize)]
pub(crate) struct HoldFact {
    pub(crate) state: Name,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) why: String,
}

/// A place where a person is waited for or asked.
#[derive(Debug, Serialize)]
pub(crate) struct PersonFact {
    pub(crate) state: Name,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// A problem with its place; a document that cannot be read has no line.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemFact {
    severity: ProblemSeverity,
    code: &'static str,
    message: String,
    path: String,
    line: Option<usize>,
    column: Option<usize>,
    end_column: Option<usize>,
    hint: Option<String>,
    pasted_at: Option<PlaceFact>,
}

/// A line of a document.
#[derive(Debug, Serialize)]
pub(crate) struct PlaceFact {
    path: String,
    line: usize,
}

impl ProtocolFacts {
    /// What is known about a protocol of the library.
    pub(crate) fn of(library: &Library, protocol: &Protocol) -> ProtocolFacts {
        let findings = &protocol.findings;
        let source = &library.sources()[protocol.file as usize];
        let readable = is_readable(library, protocol);
        let lacks = |code: &str| !findings.problems.iter().any(|problem| problem.code == code);
        let drawings = draw::read(&source.text);
        let diagrams = drawings.iter().filter(|drawing| drawing.kind == DrawingKind::Mermaid).count();
        ProtocolFacts {
            name: protocol.name.clone(),
            origin: protocol.origin,
            path: source.path.clone(),
            digest: protocol.digest.clone(),
            ok: findings.is_sound(),
            readable,
            start: protocol.states.first().cloned(),
            all_reachable: readable && lacks("unreachable-state"),
            all_can_end: readable && lacks("no-way-out"),
            states: states(protocol),
            edges: findings.edges.iter().map(EdgeFact::of).collect(),
            loops: loops(findings),
            gates: gates(findings),
            ungated: findings.ungated.clone(),
            verdicts: findings.verdicts.clone(),
            holds: holds(library.sources(), protocol),
            people: people(library.sources(), protocol),
            drawings: drawings.len(),
            diagrams,
            tables: drawings.len() - diagrams,
            wrong_drawings: if readable { wrong_drawings(&drawings, library, protocol) } else { 0 },
            problems: problems(library.sources(), &findings.problems),
        }
    }

    /// The states that all paths end in.
    pub(crate) fn last(&self) -> impl Iterator<Item = &Name> {
        self.states.iter().filter(|state| state.last).map(|state| &state.name)
    }
}

impl EdgeFact {
    fn of(edge: &ProvenEdge) -> EdgeFact {
        let names = |set: &std::collections::BTreeSet<Name>| set.iter().cloned().collect();
        EdgeFact {
            from: edge.from.clone(),
            to: edge.to.clone(),
            when: edge.label.clone(),
            pays: names(&edge.paid),
            refills: names(&edge.refilled),
            gates: names(&edge.gates),
        }
    }
}

impl ProblemFact {
    fn of(sources: &[SourceDocument], problem: &Problem) -> ProblemFact {
        let place = LocatedSpan::of(sources, problem.span);
        ProblemFact {
            severity: problem.severity,
            code: problem.code,
            message: problem.message.clone(),
            path: place.as_ref().map(|place| place.path.to_owned()).unwrap_or_default(),
            line: place.as_ref().map(|place| place.line),
            column: place.as_ref().map(|place| place.column),
            end_column: place.as_ref().map(|place| place.column + place.width),
            hint: hint(problem, sources),
            pasted_at: problem
                .pasted
                .and_then(|span| LocatedSpan::of(sources, span))
                .map(|place| PlaceFact { path: place.path.to_owned(), line: place.line }),
        }
    }

    /// The problem of a document that could not be read.
    pub(crate) fn unreadable(unreadable: &Unreadable) -> ProblemFact {
        ProblemFact {
            severity: ProblemSeverity::Error,
            code: "unreadable",
            message: unreadable.failure.message.clone(),
            path: unreadable.path.clone(),
            line: None,
            column: None,
            end_column: None,
            hint: Some(unreadable.failure.hint.clone()),
            pasted_at: None,
        }
    }
}

/// Problems with their places, in the same order.
pub(crate) fn problems(sources: &[SourceDocument], problems: &[Problem]) -> Vec<ProblemFact> {
    problems.iter().map(|problem| ProblemFact::of(sources, problem)).collect()
}

/// Whether the program could be read, with every pattern it uses: only then are its edges known.
pub(crate) fn is_readable(library: &Library, protocol: &Protocol) -> bool {
    let (document, _) = parse(protocol.file, &library.sources()[protocol.file as usize]);
    let broken = protocol.findings.states.values().any(|facts| facts.broken);
    !document.broken && !broken && !protocol.states.is_empty()
}

fn wrong_drawings(drawings: &[Drawing], library: &Library, protocol: &Protocol) -> usize {
    let machine = library.machine(&protocol.name).unwrap_or_default();
    drawings.iter().filter(|drawing| !draw::compare(drawing, &machine).is_empty()).count()
}

fn states(protocol: &Protocol) -> Vec<StateFact> {
    let findings = &protocol.findings;
    let holds = |name: &Name| findings.states.get(name).is_some_and(|facts| !facts.holds.is_empty());
    let fact = |name: &Name| StateFact {
        name: name.clone(),
        last: findings.last.contains(name),
        holds: holds(name),
    };
    protocol.states.iter().map(fact).collect()
}

fn loops(findings: &CheckReport) -> Vec<LoopFact> {
    let fact = |bound: &ftl_language::check::LoopBound| LoopFact {
        states: bound.states.clone(),
        bounded_by: bound.meters.clone(),
    };
    findings.bounds.iter().map(fact).collect()
}

fn gates(findings: &CheckReport) -> Vec<GateFact> {
    let gates = findings.gates.iter();
    gates.map(|(any_of, before)| GateFact { any_of: any_of.clone(), before: before.clone() }).collect()
}

fn holds(sources: &[SourceDocument], protocol: &Protocol) -> Vec<HoldFact> {
    let mut all = Vec::new();
    for (state, facts) in in_order(protocol) {
        for hold in &facts.holds {
            let (path, line) = place(sources, hold.span);
            all.push(HoldFact { state: state.clone(), path, line, why: hold.why.clone() });
        }
    }
    all
}

fn people(sources: &[SourceDocument], protocol: &Protocol) -> Vec<PersonFact> {
    let mut all = Vec::new();
    for (state, facts) in in_order(protocol) {
        for (span, what) in &facts.people {
            let (path, line) = place(sources, *span);
            all.push(PersonFact { state: state.clone(), path, line, what: what.clone() });
        }
    }
    all
}

fn in_order(protocol: &Protocol) -> impl Iterator<Item = (&Name, &StateFacts)> {
    let facts = &protocol.findings.states;
    protocol.states.iter().filter_map(move |state| Some((state, facts.get(state)?)))
}

fn place(sources: &[SourceDocument], span: Span) -> (String, usize) {
    LocatedSpan::of(sources, span).map_or_else(Default::default, |place| (place.path.to_owned(), place.line))
}
