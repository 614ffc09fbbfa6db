//! The checker: what must be true of a protocol before it may run.
//!
//! It proves, for each document, the static checks of the language page, and tells what it found:
//! edges, bounds of loops, gates, places that can hold. It never runs anything and never gives up
//! at the first error.

pub mod calls;
pub mod env;
pub mod graph;
pub mod headers;
mod shell;
pub mod shown;
mod steps;
pub mod tables;
pub mod walk;

use std::collections::{BTreeMap, BTreeSet};

pub use graph::{LoopBound, ProvenEdge};
pub use tables::{Pasted, Tables};
pub use walk::{HoldPlace, Leads, PathExit, StateFacts, TaskPlace};

use crate::problem::{Problem, ProblemSeverity};
use crate::source::Span;
use ftl_core::catalogue::Catalogue;
use ftl_core::types::Type;
use ftl_core::value::Name;
use walk::Walk;

/// The verdicts; only the first is success.
pub const VERDICTS: &[&str] = &["complete", "blocked", "escalated", "error"];

/// How often types are learnt before the checker stops waiting for them to settle.
const MAX_ROUNDS: usize = 12;

/// What a document is checked against.
pub struct World<'a> {
    /// Every action, role and word.
    pub catalogue: &'a Catalogue,
    /// The documents that are checked together and all that they run, with their patterns in place.
    pub documents: &'a BTreeMap<Name, Pasted>,
    /// The names of all protocols, for hints.
    pub names: &'a [&'a Name],
    /// What `Run(protocol)` answers, as far as it is known.
    pub answers: BTreeMap<Name, Type>,
}

/// What the checker found out about one protocol.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Errors and warnings, each with its place.
    pub problems: Vec<Problem>,
    /// What the walk found in each state.
    pub states: BTreeMap<Name, StateFacts>,
    /// The edges, in document order.
    pub edges: Vec<ProvenEdge>,
    /// The states whose paths all end in RETURN.
    pub last: BTreeSet<Name>,
    /// The meter that bounds each loop.
    pub bounds: Vec<LoopBound>,
    /// The gates that were proven: any of the actions, before the state.
    pub gates: Vec<(Vec<Name>, Name)>,
    /// The states that give each verdict.
    pub verdicts: BTreeMap<Name, Vec<Name>>,
    /// States that settle as `complete` and can be reached without passing any gate.
    pub ungated: Vec<Name>,
}

impl CheckReport {
    /// Whether the document may run.
    pub fn is_sound(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != ProblemSeverity::Error)
    }
}

/// Checks documents and all that they run against each other and the catalogue; the names are those of all protocols.
pub fn check_all(
    documents: &BTreeMap<Name, Pasted>,
    names: &[&Name],
    catalogue: &Catalogue,
) -> BTreeMap<Name, CheckReport> {
    let mut learning = Learning::default();
    let mut world = World { catalogue, documents, names, answers: BTreeMap::new() };
    let mut stale: BTreeSet<Name> = documents.keys().cloned().collect();
    for _ in 0..MAX_ROUNDS {
        stale = learning.round(&mut world, &stale);
        if stale.is_empty() {
            break;
        }
    }
    let mut all = BTreeMap::new();
    for (name, pasted) in documents {
        let tables = learning.tables.remove(name).unwrap_or_default();
        let walked = match learning.walked.remove(name) {
            Some(walked) if !stale.contains(name) => walked,
            Some(_) | None => walk_all(&world, pasted, &tables),
        };
        all.insert(name.clone(), findings(&world, pasted, walked));
    }
    all
}

/// What one walk through a document found.
struct Walked {
    learnt: Tables,
    problems: Vec<Problem>,
    states: BTreeMap<Name, StateFacts>,
    used: BTreeSet<Name>,
}

/// Types are learnt round by round, until nothing changes; the last walk of a document then stands.
#[derive(Default)]
struct Learning {
    tables: BTreeMap<Name, Tables>,
    walked: BTreeMap<Name, Walked>,
}

impl Learning {
    /// Walks the documents about which something new is known; answers with those that must be
    /// walked again.
    fn round(&mut self, world: &mut World<'_>, stale: &BTreeSet<Name>) -> BTreeSet<Name> {
        let documents = world.documents;
        let mut changed = BTreeSet::new();
        for name in children_first(documents, stale) {
            let Some(pasted) = documents.get(name) else { continue };
            let known = self.tables.remove(name).unwrap_or_default();
            let walked = walk_all(world, pasted, &known);
            let answer = tables::run_answer(name, &walked.learnt);
            if world.answers.get(name) != Some(&answer) {
                let parents = documents.iter().filter(|(_, other)| other.runs.contains(name));
                changed.extend(parents.map(|(parent, _)| parent.clone()));
                world.answers.insert(name.clone(), answer);
            }
            if walked.learnt != known {
                changed.insert(name.clone());
            }
            self.tables.insert(name.clone(), walked.learnt.clone());
            self.walked.insert(name.clone(), walked);
        }
        changed
    }
}

fn walk_all(world: &World<'_>, pasted: &Pasted, known: &Tables) -> Walked {
    let mut walked = Walked {
        learnt: known.clone(),
        problems: Vec::new(),
        states: BTreeMap::new(),
        used: BTreeSet::new(),
    };
    headers::learn(pasted, &mut walked.learnt);
    for state in &pasted.states {
        // What one state taught the next ones know. A walk that teaches nothing had all of it from the start, and stands.
        let Walk { learnt, problems, used, facts, .. } = Walk::run(world, pasted, state, &walked.learnt);
        walked.learnt.add(&learnt);
        walked.problems.extend(problems);
        walked.used.extend(used);
        walked.states.insert(state.name.name.clone(), facts);
    }
    walked
}

/// Documents in the order of their names, but those that run none of the others first: what a child answers is then
/// known before its parents are walked. Which order it is changes how many rounds it takes, never what is found.
fn children_first<'a>(documents: &BTreeMap<Name, Pasted>, names: &'a BTreeSet<Name>) -> Vec<&'a Name> {
    let is_parent = |name: &&Name| {
        let runs = documents.get(*name).into_iter().flat_map(|one| &one.runs);
        runs.into_iter().any(|run| run != *name && documents.contains_key(run))
    };
    let (parents, children): (Vec<&Name>, Vec<&Name>) = names.iter().partition(is_parent);
    children.into_iter().chain(parents).collect()
}

fn findings(world: &World<'_>, pasted: &Pasted, walked: Walked) -> CheckReport {
    let mut findings = CheckReport {
        problems: [headers::check(world, pasted), shown::check(pasted)].concat(),
        states: walked.states,
        ..CheckReport::default()
    };
    findings.problems.extend(walked.problems);
    let broken = pasted.document.broken || findings.states.values().any(|facts| facts.broken);
    if !broken {
        findings.problems.extend(headers::unused(pasted, &walked.used));
    }
    graph::prove(pasted, &mut findings, broken);
    findings.problems.sort_by_key(|problem| (problem.span.file, problem.span.start, problem.code));
    findings.problems.dedup();
    findings
}

/// The span of a document's name, for problems of the whole.
pub(crate) fn whole(pasted: &Pasted) -> Span {
    pasted.document.name.as_ref().map_or_else(Span::default, |name| name.span)
}
