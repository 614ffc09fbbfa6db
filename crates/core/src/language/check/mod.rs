//! The checker: what must be true of a protocol before it may run.
//!
//! It proves, for each document, the static checks of the language page, and tells what it found:
//! edges, bounds of loops, gates, places that can hold. It never runs anything and never gives up
//! at the first error.

pub mod calls;
pub mod env;
pub mod graph;
pub mod headers;
mod steps;
pub mod tables;
pub mod walk;

use std::collections::{BTreeMap, BTreeSet};

pub use graph::{Bound, Edge};
pub use tables::{Pasted, Tables};
pub use walk::{HoldPlace, Leads, StateFacts, TaskPlace, Way};

use crate::catalogue::Catalogue;
use crate::language::problem::{Problem, Severity};
use crate::language::source::Span;
use crate::types::Type;
use crate::value::Name;
use walk::Walk;

/// The verdicts; only the first is success.
pub const VERDICTS: &[&str] = &["complete", "blocked", "escalated", "error"];

/// How often types are learnt before the checker stops waiting for them to settle.
const MAX_ROUNDS: usize = 12;

/// What a document is checked against.
pub struct World<'a> {
    /// Every action, role and word.
    pub catalogue: &'a Catalogue,
    /// Every protocol of the library, with its patterns in place.
    pub documents: &'a BTreeMap<Name, Pasted>,
    /// What `Run(protocol)` answers, as far as it is known.
    pub answers: BTreeMap<Name, Type>,
}

/// What the checker found out about one protocol.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What the walk found in each state.
    pub states: BTreeMap<Name, StateFacts>,
    /// The edges, in document order.
    pub edges: Vec<Edge>,
    /// The states whose paths all end in RETURN.
    pub last: BTreeSet<Name>,
    /// What bounds each loop.
    pub bounds: Vec<Bound>,
    /// The gates that were proven: any of the actions, before the state.
    pub gates: Vec<(Vec<Name>, Name)>,
    /// The states that give each verdict.
    pub verdicts: BTreeMap<Name, Vec<Name>>,
    /// States that settle as `complete` and can be reached without passing any gate.
    pub ungated: Vec<Name>,
    /// The types learnt.
    pub tables: Tables,
}

impl Findings {
    /// Whether the document may run.
    pub fn is_sound(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != Severity::Error)
    }
}

/// Checks every document of a library against each other and the catalogue.
pub fn check_all(documents: &BTreeMap<Name, Pasted>, catalogue: &Catalogue) -> BTreeMap<Name, Findings> {
    let (tables, answers) = learn(documents, catalogue);
    let world = World { catalogue, documents, answers };
    let known = |name: &Name| tables.get(name).cloned().unwrap_or_default();
    documents.iter().map(|(name, pasted)| (name.clone(), check(&world, pasted, known(name)))).collect()
}

/// Learns the types of all documents, round by round, until nothing changes.
fn learn(
    documents: &BTreeMap<Name, Pasted>,
    catalogue: &Catalogue,
) -> (BTreeMap<Name, Tables>, BTreeMap<Name, Type>) {
    let mut tables: BTreeMap<Name, Tables> = BTreeMap::new();
    let mut answers: BTreeMap<Name, Type> = BTreeMap::new();
    let mut stale: BTreeSet<Name> = documents.keys().cloned().collect();
    for _ in 0..MAX_ROUNDS {
        let world = World { catalogue, documents, answers: answers.clone() };
        let mut changed = BTreeSet::new();
        for name in &stale {
            let Some(pasted) = documents.get(name) else { continue };
            let known = tables.get(name).cloned().unwrap_or_default();
            let learnt = learn_one(&world, pasted, &known);
            let answer = tables::run_answer(name, &learnt);
            if answers.get(name) != Some(&answer) {
                changed.extend(callers(documents, name));
                answers.insert(name.clone(), answer);
            }
            if learnt != known {
                changed.insert(name.clone());
            }
            tables.insert(name.clone(), learnt);
        }
        stale = changed;
        if stale.is_empty() {
            break;
        }
    }
    (tables, answers)
}

fn learn_one(world: &World<'_>, pasted: &Pasted, known: &Tables) -> Tables {
    let mut learnt = known.clone();
    headers::learn(pasted, &mut learnt);
    for state in &pasted.states {
        let walk = Walk::run(world, pasted, state, known);
        for ((state, param), ty) in &walk.learnt.params {
            learnt.param(state, param, ty);
        }
        for (name, ty) in &walk.learnt.tracked {
            learnt.track(name, ty);
        }
        for (name, ty) in &walk.learnt.returned {
            learnt.give(name, ty);
        }
    }
    learnt
}

/// The protocols that run another one; which ones exactly does not matter, so all but itself.
fn callers(documents: &BTreeMap<Name, Pasted>, name: &Name) -> Vec<Name> {
    documents.keys().filter(|other| *other != name).cloned().collect()
}

fn check(world: &World<'_>, pasted: &Pasted, tables: Tables) -> Findings {
    let mut findings = Findings { problems: headers::check(world, pasted), ..Findings::default() };
    let mut used = BTreeSet::new();
    for state in &pasted.states {
        let walk = Walk::run(world, pasted, state, &tables);
        findings.problems.extend(walk.problems);
        used.extend(walk.used);
        findings.states.insert(state.name.name.clone(), walk.facts);
    }
    let broken = pasted.document.broken || findings.states.values().any(|facts| facts.broken);
    if !broken {
        findings.problems.extend(headers::unused(pasted, &used));
    }
    graph::prove(pasted, &mut findings, broken);
    findings.tables = tables;
    findings.problems.sort_by_key(|problem| (problem.span.file, problem.span.start, problem.code));
    findings.problems.dedup();
    findings
}

/// The span of a document's name, for problems of the whole.
pub(crate) fn whole(pasted: &Pasted) -> Span {
    pasted.document.name.as_ref().map_or_else(Span::default, |name| name.span)
}
