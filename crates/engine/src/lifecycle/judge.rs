//! Every edge of a phase, with whether it is open and what it still needs.
//!
//! The conditions are those of the program in `protocols/lifecycle.md`, in its order: of two that fit, the
//! first one is taken, and the other one is not open. A look changes nothing.

use ftl_core::catalogue::lifecycle::Route;

use super::binding::Bindings;
use super::folder::{Folder, PATCH, RECORD};
use super::phase::{Phase, edge};
use super::{Malformed, code, code_review, decision, plan, plan_review, record, report};

/// One edge, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: Phase,
    /// Where it leads.
    pub to: Phase,
    /// Whether it is open.
    pub holds: bool,
    /// What it needs, in sentences.
    pub missing: Vec<String>,
}

impl Edge {
    /// The edge as it is written.
    pub fn name(&self) -> String {
        edge(self.from, self.to)
    }
}

/// What a phase has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The phase.
    pub phase: Phase,
    /// Every edge from there, the forward one first.
    pub edges: Vec<Edge>,
    /// What was seen, in one sentence.
    pub summary: String,
    /// What is odd and stops nobody.
    pub warnings: Vec<String>,
}

impl Judgement {
    /// Where it goes.
    pub fn open(&self) -> Option<Phase> {
        self.edges.iter().find(|edge| edge.holds).map(|edge| edge.to)
    }

    /// The edge that leads there.
    pub fn edge(&self, to: Phase) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.to == to)
    }
}

/// What a gate says about one way out.
struct Way {
    to: Phase,
    holds: bool,
    missing: Vec<String>,
}

fn way(to: Phase, holds: bool, missing: impl Into<Vec<String>>) -> Way {
    Way { to, holds, missing: missing.into() }
}

fn says(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

/// Looks at the artifacts of a phase.
pub fn judge(folder: &Folder, phase: Phase, bindings: &Bindings) -> Result<Judgement, Malformed> {
    let (ways, summary, warnings) = match phase {
        Phase::Planning => planning(folder)?,
        Phase::PlanReview => plan_reviewed(folder, bindings)?,
        Phase::Codegen => coded(folder)?,
        Phase::Review => reviewed(folder, bindings)?,
        Phase::Test => tested(folder, bindings)?,
        Phase::Accept => decided(folder, bindings)?,
        Phase::Revert => reverted(folder, bindings)?,
        Phase::Done => (Vec::new(), String::from("the task is done"), Vec::new()),
    };
    // The first that fits is taken; nothing after it is open.
    let first = ways.iter().find(|way| way.holds).map(|way| way.to);
    let looked = |to: Phase| {
        let Some(way) = ways.iter().find(|way| way.to == to) else {
            return Edge { from: phase, to, holds: false, missing: says("nothing leads there") };
        };
        let holds = first == Some(to);
        let missing = match (holds, way.holds, first) {
            (true, _, _) => Vec::new(),
            (false, true, Some(first)) => vec![format!("the way to {first} comes first")],
            (false, _, _) => way.missing.clone(),
        };
        Edge { from: phase, to, holds, missing }
    };
    Ok(Judgement { phase, edges: phase.targets().map(looked).collect(), summary, warnings })
}

type Seen = (Vec<Way>, String, Vec<String>);

fn redo(phase: Phase) -> Way {
    way(phase, false, vec![format!("a person says redo: ftl redo {phase} --reason R")])
}

fn planning(folder: &Folder) -> Result<Seen, Malformed> {
    let seen = plan::evidence(folder)?;
    let ways = vec![way(Phase::PlanReview, seen.passed, seen.missing), redo(Phase::Planning)];
    Ok((ways, seen.summary, Vec::new()))
}

fn plan_reviewed(folder: &Folder, bindings: &Bindings) -> Result<Seen, Malformed> {
    let seen = plan_review::evidence(folder, bindings)?;
    let back = seen.blocked || seen.needs_changes;
    let ways = vec![
        way(Phase::Planning, back, says("no reviewer of this plan blocks it or wants changes")),
        way(Phase::Codegen, seen.passed, seen.missing),
    ];
    Ok((ways, seen.summary, Vec::new()))
}

fn coded(folder: &Folder) -> Result<Seen, Malformed> {
    let looked = code::evidence(folder)?;
    let seen = looked.evidence;
    let ways = vec![
        way(Phase::Planning, seen.scope_mismatch, says("no file was generated that the plan does not name")),
        way(Phase::PlanReview, seen.plan_unclear, says("no essential part of the plan is missing")),
        way(Phase::Review, seen.passed, seen.missing),
        redo(Phase::Codegen),
    ];
    Ok((ways, seen.summary, looked.warnings))
}

fn reviewed(folder: &Folder, bindings: &Bindings) -> Result<Seen, Malformed> {
    let seen = code_review::evidence(folder, bindings)?;
    let back = seen.blocked || seen.needs_changes;
    let ways = vec![
        way(Phase::Planning, seen.plan_flawed, says("no finding says that the plan is flawed")),
        way(Phase::Codegen, back, says("no finding on the code blocks, and no changes are wanted")),
        way(Phase::Test, seen.passed, seen.missing),
    ];
    Ok((ways, seen.summary, without_patch(folder)))
}

fn tested(folder: &Folder, bindings: &Bindings) -> Result<Seen, Malformed> {
    let seen = report::evidence(folder, bindings)?;
    let ways = vec![
        way(Phase::Accept, seen.passed, seen.missing),
        way(Phase::Codegen, seen.failed, says("no complete report on this patch is red")),
    ];
    let summary = seen.summary.lines().next().unwrap_or_default().to_owned();
    Ok((ways, summary, without_patch(folder)))
}

fn decided(folder: &Folder, bindings: &Bindings) -> Result<Seen, Malformed> {
    let seen = decision::evidence(folder, bindings)?;
    let routed = |to: Phase, route: Route| {
        way(to, seen.route == Some(route), vec![format!("no decision routes to {to}")])
    };
    let undo = seen.regression || seen.route == Some(Route::Revert);
    let ways = vec![
        way(Phase::Revert, undo, says("nobody asked for a revert, and no regression is recorded")),
        routed(Phase::Planning, Route::Planning),
        routed(Phase::Codegen, Route::Codegen),
        routed(Phase::Review, Route::Review),
        way(
            Phase::Done,
            seen.passed,
            if seen.missing.is_empty() { vec![seen.summary.clone()] } else { seen.missing },
        ),
    ];
    Ok((ways, seen.summary, Vec::new()))
}

fn reverted(folder: &Folder, bindings: &Bindings) -> Result<Seen, Malformed> {
    let seen = record::evidence(folder, bindings)?;
    let warnings =
        if folder.has(RECORD) { Vec::new() } else { says("`ftl revert --reason R` undoes and records it") };
    Ok((vec![way(Phase::Done, seen.passed, seen.missing)], seen.summary, warnings))
}

fn without_patch(folder: &Folder) -> Vec<String> {
    if folder.has(PATCH) { Vec::new() } else { vec![format!("{PATCH} is missing")] }
}
