//! Proofs about the graph of a protocol: reachability, bounded loops, gates before states.
//!
//! The edges are the ones of the language page: GOTOs, ELSEs that move, LIMITs. Nothing else
//! makes an edge.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::env::literal;
use super::tables::Pasted;
use super::walk::{Leads, PathExit, StateFacts};
use super::{CheckReport, whole};
use crate::problem::Problem;
use crate::source::Span;
use ftl_core::syntax::{
    Block, Compare, Exit, Expr, ExprKind, GateDecl, LimitDecl, Paying, StatementKind, Step,
};
use ftl_core::value::Name;

/// An edge of a protocol, with what is sure about every path that takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvenEdge {
    /// The state that it leaves.
    pub from: Name,
    /// The state that it leads to.
    pub to: Name,
    /// When it is taken, in short.
    pub label: String,
    /// The bytes of its first GOTO or ELSE.
    pub span: Span,
    /// Meters that every path over it pays.
    pub paid: BTreeSet<Name>,
    /// Meters that some path over it refills.
    pub refilled: BTreeSet<Name>,
    /// Gates that every path over it requires to have passed.
    pub gates: BTreeSet<Name>,
}

/// A loop and the meters that bound it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBound {
    /// The states of the loop.
    pub states: Vec<Name>,
    /// The meters, in the order in which they were found.
    pub meters: Vec<Name>,
}

/// Derives the edges and proves what is to be proven.
pub fn prove(pasted: &Pasted, findings: &mut CheckReport, broken: bool) {
    findings.edges = edges(pasted, &findings.states);
    findings.last = last_states(pasted, &findings.states);
    findings.verdicts = verdicts(pasted, &findings.states);
    if broken || pasted.states.is_empty() {
        return;
    }
    reachable(pasted, findings);
    check_feedback(pasted, findings);
    bounds(pasted, findings);
    gates(pasted, findings);
    findings.ungated = ungated(pasted, findings);
}

/// The edges in document order, each pair once.
pub fn edges(pasted: &Pasted, facts: &BTreeMap<Name, StateFacts>) -> Vec<ProvenEdge> {
    let mut edges: Vec<ProvenEdge> = Vec::new();
    for state in &pasted.states {
        let from = &state.name.name;
        let mut found = Vec::new();
        collect(&state.body, &pasted.document.limits, &mut Vec::new(), &mut found);
        for one in found.into_iter().filter(|one| pasted.state(&one.to).is_some()) {
            match edges.iter_mut().find(|edge| edge.from == *from && edge.to == one.to) {
                Some(edge) => edge.label = both(&edge.label, &one.label),
                None => edges.push(edge(from, &one, facts.get(from))),
            }
        }
    }
    edges
}

fn edge(from: &Name, found: &Found, facts: Option<&StateFacts>) -> ProvenEdge {
    let leads = |way: &&PathExit| match &way.to {
        Leads::To(to) | Leads::ByLimit(to, _) => *to == found.to,
        Leads::Return(_) | Leads::Stay | Leads::Hold => false,
    };
    let ways: Vec<&PathExit> = facts.map_or_else(Vec::new, |facts| facts.ways.iter().filter(leads).collect());
    let common = |pick: fn(&PathExit) -> &BTreeSet<Name>| {
        let mut sets = ways.iter().map(|way| pick(way).clone());
        let first = sets.next().unwrap_or_default();
        sets.fold(first, |one, two| one.intersection(&two).cloned().collect())
    };
    ProvenEdge {
        from: from.clone(),
        to: found.to.clone(),
        label: found.label.clone(),
        span: found.span,
        paid: common(|way| &way.env.paid),
        refilled: ways.iter().flat_map(|way| way.env.refilled.iter().cloned()).collect(),
        gates: common(|way| &way.env.passed),
    }
}

/// An exit as it is written.
struct Found {
    to: Name,
    label: String,
    /// Whether it stands under an IF.
    guarded: bool,
    span: Span,
}

/// Two causes of one edge: without a condition it is simply taken.
fn both(one: &str, two: &str) -> String {
    if one.is_empty() || two.is_empty() {
        return String::new();
    }
    if one.split("; ").any(|part| part == two) { one.to_owned() } else { format!("{one}; {two}") }
}

/// A condition in as few words as a drawing has room for.
fn short(condition: &Expr) -> String {
    match &*condition.kind {
        ExprKind::Compare(Compare::Same, _, word) => {
            literal(word).map_or_else(|| condition.to_string(), |word| word.to_string())
        }
        ExprKind::Or(parts) => parts.iter().map(short).collect::<Vec<_>>().join(" or "),
        ExprKind::And(parts) => parts.iter().map(short).collect::<Vec<_>>().join(" and "),
        ExprKind::Not(inner) => format!("not {}", short(inner)),
        ExprKind::Compare(..) | ExprKind::Empty(..) | ExprKind::Path(_) | ExprKind::Number(_) => {
            condition.to_string()
        }
        ExprKind::Duration(_) | ExprKind::Text(_) | ExprKind::Bool(_) | ExprKind::None => {
            condition.to_string()
        }
        ExprKind::Function(..) => condition.to_string(),
    }
}

/// Every GOTO, every ELSE that moves, every payment that its LIMIT answers.
fn collect(block: &Block, limits: &[LimitDecl], guards: &mut Vec<String>, found: &mut Vec<Found>) {
    let before = found.len();
    for statement in block {
        match &statement.what {
            StatementKind::Exit(Exit::Goto { target, .. }) => {
                let last = guards.is_empty() && found[before..].iter().any(|one| one.guarded);
                let label = if last { "otherwise".to_owned() } else { guards.join(" and ") };
                let guarded = !guards.is_empty();
                found.push(Found { to: target.name.clone(), label, guarded, span: statement.span });
            }
            StatementKind::If { condition, body } => {
                guards.push(short(condition));
                collect(body, limits, guards, found);
                guards.pop();
            }
            StatementKind::Step { step, otherwise } => {
                if let Step::ForEach { body, .. } = step {
                    // A payment that fails in there fails its block; the instance does not move.
                    collect(body, &[], guards, found);
                }
                match otherwise {
                    Some(block) => {
                        let outer = std::mem::replace(guards, vec![could_not(step)]);
                        let first = found.len();
                        collect(block, limits, guards, found);
                        found[first..].iter_mut().for_each(|one| one.guarded = false);
                        *guards = outer;
                    }
                    None => found.extend(by_limit(step, limits, statement.span)),
                }
            }
            StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..) => {}
            StatementKind::Use(_)
            | StatementKind::Exit(_)
            | StatementKind::Proceed
            | StatementKind::Broken => {}
        }
    }
}

fn could_not(step: &Step) -> String {
    match step {
        Step::Pay { meter, .. } => format!("{} spent", meter.name),
        Step::Do { .. } | Step::Parallel { .. } | Step::ForEach { .. } | Step::Check { .. } => {
            "could not".to_owned()
        }
        Step::WaitFor { .. } | Step::WaitWords { .. } | Step::Ask { .. } => "could not".to_owned(),
    }
}

fn by_limit(step: &Step, limits: &[LimitDecl], span: Span) -> Option<Found> {
    let meter = match step {
        Step::Pay { meter, .. } | Step::Do { paying: Some(Paying { meter, .. }), .. } => meter,
        Step::Do { .. } | Step::Parallel { .. } | Step::ForEach { .. } | Step::Check { .. } => return None,
        Step::WaitFor { .. } | Step::WaitWords { .. } | Step::Ask { .. } => return None,
    };
    let limit = limits.iter().find(|limit| limit.meter.name == meter.name)?;
    let target = limit.target.as_ref()?;
    Some(Found { to: target.name.clone(), label: format!("{} spent", meter.name), guarded: false, span })
}

fn last_states(pasted: &Pasted, facts: &BTreeMap<Name, StateFacts>) -> BTreeSet<Name> {
    let ends = |facts: &StateFacts| {
        !facts.ways.is_empty() && facts.ways.iter().all(|way| matches!(way.to, Leads::Return(_)))
    };
    let names = pasted.states.iter().map(|state| &state.name.name);
    names.filter(|name| facts.get(*name).is_some_and(ends)).cloned().collect()
}

fn verdicts(pasted: &Pasted, facts: &BTreeMap<Name, StateFacts>) -> BTreeMap<Name, Vec<Name>> {
    let mut verdicts: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    for state in &pasted.states {
        for way in facts.get(&state.name.name).into_iter().flat_map(|facts| &facts.ways) {
            if let Leads::Return(verdict) = &way.to {
                let states = verdicts.entry(verdict.clone()).or_default();
                if !states.contains(&state.name.name) {
                    states.push(state.name.name.clone());
                }
            }
        }
    }
    verdicts
}

/// The states that can be reached from some states over some edges.
fn reach<'a>(from: impl IntoIterator<Item = &'a Name>, edges: &[(&Name, &Name)]) -> BTreeSet<Name> {
    let mut seen: BTreeSet<Name> = BTreeSet::new();
    let mut queue: VecDeque<Name> = from.into_iter().cloned().collect();
    while let Some(state) = queue.pop_front() {
        if seen.insert(state.clone()) {
            queue.extend(edges.iter().filter(|(from, _)| **from == state).map(|(_, to)| (*to).clone()));
        }
    }
    seen
}

fn reachable(pasted: &Pasted, findings: &mut CheckReport) {
    let edges: Vec<_> = findings.edges.iter().map(|edge| (&edge.from, &edge.to)).collect();
    let back: Vec<_> = edges.iter().map(|(from, to)| (*to, *from)).collect();
    let start = &pasted.states[0].name.name;
    let forward = reach([start], &edges);
    let returning: Vec<&Name> = findings.verdicts.values().flatten().collect();
    let ending = reach(returning, &back);
    let mut problems = Vec::new();
    for state in &pasted.states {
        let name = &state.name;
        if !forward.contains(&name.name) {
            let message = format!("no way leads from `{start}` to `{}`", name.name);
            problems.push(Problem::error("unreachable-state", name.span, message));
        }
        if !ending.contains(&name.name) {
            let message = format!("no way leads from `{}` to a RETURN", name.name);
            problems.push(Problem::error("no-way-out", name.span, message));
        }
    }
    findings.problems.extend(problems);
}

/// Who is asked again is told something new.
fn check_feedback(pasted: &Pasted, findings: &mut CheckReport) {
    let cyclic: BTreeSet<Name> = components(&findings.edges).into_iter().flatten().collect();
    let mut problems = Vec::new();
    for state in pasted.states.iter().filter(|state| cyclic.contains(&state.name.name)) {
        let tasks = findings.states.get(&state.name.name).map_or(&[][..], |facts| &facts.tasks);
        for task in tasks.iter().filter(|task| !task.told) {
            let message = format!(
                "`{}` can come round again, and Task({}) would be told nothing new",
                state.name.name, task.role
            );
            problems.push(Problem::error("nothing-new", task.span, message).hint(
                "pass it a parameter of the state (such as feedback), or the answer of a CHECK of this visit",
            ));
        }
    }
    findings.problems.extend(problems);
}

/// The strongly connected parts that hold a cycle.
fn components(edges: &[ProvenEdge]) -> Vec<Vec<Name>> {
    let pairs: Vec<_> = edges.iter().map(|edge| (&edge.from, &edge.to)).collect();
    let mut names: Vec<&Name> = Vec::new();
    for (from, to) in &pairs {
        for name in [*from, *to] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let after: BTreeMap<&Name, BTreeSet<Name>> = names
        .iter()
        .map(|name| (*name, reach(pairs.iter().filter(|(from, _)| from == name).map(|(_, to)| *to), &pairs)))
        .collect();
    let mut done: BTreeSet<&Name> = BTreeSet::new();
    let mut parts = Vec::new();
    for name in &names {
        if done.contains(*name) || !after[*name].contains(*name) {
            continue;
        }
        let part: Vec<Name> = names
            .iter()
            .filter(|other| after[*name].contains(**other) && after[**other].contains(*name))
            .map(|one| (*one).clone())
            .collect();
        done.extend(names.iter().filter(|one| part.contains(one)));
        parts.push(part);
    }
    parts
}

/// Every loop pays: in each part a meter that is paid and not refilled; without the edges that
/// pay it the part falls into smaller ones, until none is left.
fn bounds(pasted: &Pasted, findings: &mut CheckReport) {
    for part in components(&findings.edges) {
        let edges = inner(&findings.edges, &part);
        let mut meters = Vec::new();
        let mut left = Vec::new();
        bound_part(&edges, &mut meters, &mut left);
        for edges in left {
            findings.problems.push(unbounded(pasted, &edges));
        }
        findings.bounds.push(LoopBound { states: part, meters });
    }
}

fn inner(edges: &[ProvenEdge], part: &[Name]) -> Vec<ProvenEdge> {
    edges.iter().filter(|edge| part.contains(&edge.from) && part.contains(&edge.to)).cloned().collect()
}

fn bound_part(edges: &[ProvenEdge], meters: &mut Vec<Name>, left: &mut Vec<Vec<ProvenEdge>>) {
    let refilled: BTreeSet<&Name> = edges.iter().flat_map(|edge| &edge.refilled).collect();
    let paid: BTreeSet<&Name> =
        edges.iter().flat_map(|edge| &edge.paid).filter(|meter| !refilled.contains(meter)).collect();
    let Some(meter) = paid.into_iter().next() else {
        left.push(edges.to_vec());
        return;
    };
    if !meters.contains(meter) {
        meters.push(meter.clone());
    }
    let rest: Vec<ProvenEdge> = edges.iter().filter(|edge| !edge.paid.contains(meter)).cloned().collect();
    for part in components(&rest) {
        bound_part(&inner(&rest, &part), meters, left);
    }
}

fn unbounded(pasted: &Pasted, edges: &[ProvenEdge]) -> Problem {
    let pairs: Vec<String> = edges.iter().map(|edge| format!("{} → {}", edge.from, edge.to)).collect();
    let span = edges.first().map_or_else(|| whole(pasted), |edge| edge.span);
    let refilled: BTreeSet<&str> =
        edges.iter().flat_map(|edge| &edge.refilled).map(|meter| &**meter).collect();
    let problem =
        Problem::error("endless-loop", span, format!("this loop pays no meter: {}", pairs.join(", ")));
    if refilled.is_empty() {
        return problem.hint("put a PAY on the way round, with a LIMIT for its meter");
    }
    let refilled: Vec<&str> = refilled.into_iter().collect();
    problem.hint(format!("{} is refilled on the loop, so it bounds nothing", refilled.join(", ")))
}

/// Every path to a gated state passes one of its gates, and no agent writes in between.
fn gates(pasted: &Pasted, findings: &mut CheckReport) {
    for gate in &pasted.document.gates {
        let Some(problem) = gate_problem(pasted, gate, findings) else {
            let actions = gate.actions.iter().map(|action| action.name.clone()).collect();
            findings.gates.push((actions, gate.state.name.clone()));
            continue;
        };
        findings.problems.push(problem);
    }
}

fn gate_problem(pasted: &Pasted, gate: &GateDecl, findings: &CheckReport) -> Option<Problem> {
    let state = &gate.state.name;
    let names: Vec<&str> = gate.actions.iter().map(|action| &*action.name).collect();
    let gated = |edge: &ProvenEdge| gate.actions.iter().any(|action| edge.gates.contains(&action.name));
    let open: Vec<(&Name, &Name)> =
        findings.edges.iter().filter(|edge| !gated(edge)).map(|edge| (&edge.from, &edge.to)).collect();
    if reach([&pasted.states[0].name.name], &open).contains(state) {
        let path = shortest(&pasted.states[0].name.name, state, &open);
        let message =
            format!("`{state}` can be reached without {}: {}", names.join(" or "), path.join(" → "));
        return Some(Problem::error("gate-missed", gate.state.span, message).hint(
            "every way there must be under an IF that requires `passed` of a CHECK of the gate in that state",
        ));
    }
    let back: Vec<_> = open.iter().map(|(from, to)| (*to, *from)).collect();
    let before = reach([state], &back);
    for edge in findings.edges.iter().filter(|edge| gated(edge)) {
        for between in reach([&edge.to], &open).intersection(&before).filter(|name| *name != state) {
            let tasks = findings.states.get(between).map_or(&[][..], |facts| &facts.tasks);
            if let Some(task) = tasks.iter().find(|task| task.writes) {
                let message = format!(
                    "Task({}) may write between {} and `{state}`, so what the gate saw is no longer there",
                    task.role,
                    names.join(" or ")
                );
                return Some(
                    Problem::error("gate-voided", task.span, message).hint("look again after the last write"),
                );
            }
        }
    }
    None
}

fn shortest(from: &Name, to: &Name, edges: &[(&Name, &Name)]) -> Vec<String> {
    let mut before: BTreeMap<&Name, &Name> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for (_, next) in edges.iter().filter(|(start, _)| *start == at) {
            if *next != from && !before.contains_key(next) {
                before.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    let mut path = vec![to.to_string()];
    let mut at = to;
    while let Some(previous) = before.get(at) {
        path.push(previous.to_string());
        at = previous;
    }
    path.reverse();
    path
}

/// Success that needs no gate at all is worth a look.
fn ungated(pasted: &Pasted, findings: &CheckReport) -> Vec<Name> {
    let open: Vec<(&Name, &Name)> = findings
        .edges
        .iter()
        .filter(|edge| edge.gates.is_empty())
        .map(|edge| (&edge.from, &edge.to))
        .collect();
    let reached = reach([&pasted.states[0].name.name], &open);
    let complete = findings.verdicts.get("complete").into_iter().flatten();
    complete.filter(|state| reached.contains(*state)).cloned().collect()
}
