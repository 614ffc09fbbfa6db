//! The decision in accept: what a named person wants done with the patch.
//!
//! A regression outweighs an acceptance. Work that was not accepted goes by the route that was recorded with
//! it; a decision that was put off, or that says nothing about where to go, stays.

use ftl_core::catalogue::lifecycle::{Choice, DecisionEvidence, Route, Signal};
use ftl_core::catalogue::scalars::Digest;

use super::artifact::{Artifact, Malformed, View};
use super::binding::Bindings;
use super::folder::{DECISION, Folder, PATCH};
use super::plan_review::signals;

/// The words of verdicts.
pub const VERDICTS: [(&str, Choice); 4] = [
    ("accepted", Choice::Accepted),
    ("needs_work", Choice::NeedsWork),
    ("rejected", Choice::Rejected),
    ("deferred", Choice::Deferred),
];

/// The words of routes.
pub const ROUTES: [(&str, Route); 4] = [
    ("codegen", Route::Codegen),
    ("review", Route::Review),
    ("planning", Route::Planning),
    ("revert", Route::Revert),
];

struct Said {
    choice: Choice,
    route: Option<Route>,
    regression: bool,
    notes: String,
    decider: Option<String>,
}

fn read(artifact: &Artifact) -> Result<Said, Malformed> {
    let root = artifact.root()?;
    root.need("verdict")?;
    let choice = root.word("verdict", &VERDICTS)?.unwrap_or(Choice::Deferred);
    let route = root.word("route", &ROUTES)?;
    let regression = signals(&root)?.contains(&Signal::Regression);
    let notes = root.texts("reasons")?.join("\n");
    root.text("timestamp")?;
    Ok(Said { choice, route, regression, notes, decider: decider(&root)? })
}

/// Who decided: a name, or an object with one.
fn decider(root: &View<'_>) -> Result<Option<String>, Malformed> {
    let Some(field) = root.field("decider") else { return Ok(None) };
    let name = match field.json().is_object() {
        true => field.text("name")?.or(field.text("id")?).unwrap_or_default(),
        false => field.as_text()?,
    };
    Ok(Some(name.trim().to_owned()).filter(|name| !name.is_empty()))
}

/// What the recorded decision shows.
pub fn evidence(folder: &Folder, bindings: &Bindings) -> Result<DecisionEvidence, Malformed> {
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    let none_yet = |missing: String| DecisionEvidence {
        passed: false,
        failed: false,
        summary: missing.clone(),
        tree: None,
        missing: vec![missing],
        choice: None,
        route: None,
        regression: false,
        notes: String::new(),
        patch: patch.as_deref().map(Digest::new),
        decider: None,
    };
    let Some(artifact) = folder.read(DECISION)? else {
        return Ok(none_yet(format!("{DECISION} is missing")));
    };
    let said = read(&artifact)?;
    if let Some(stale) = bindings.stale(folder, DECISION, &artifact, "diff_hash", patch.as_deref())? {
        return Ok(none_yet(format!("{DECISION} is stale: {stale}")));
    }
    let mut missing = Vec::new();
    let mut route = said.route;
    match said.choice {
        Choice::Accepted if matches!(route, Some(Route::Codegen | Route::Review | Route::Planning)) => {
            missing.push(String::from("the decision accepts the work and sends it back"));
            route = None;
        }
        Choice::Accepted => {}
        Choice::NeedsWork => route = route.or(Some(Route::Codegen)),
        Choice::Rejected if route.is_none() => {
            missing.push(String::from("the work was rejected, and no route says where it goes"));
        }
        Choice::Rejected => {}
        Choice::Deferred => {
            missing.push(String::from("the decision is deferred"));
            route = route.filter(|route| *route == Route::Revert);
        }
    }
    if said.decider.is_none() {
        missing.push(format!("{DECISION} does not say who decided"));
    }
    let accepted = said.choice == Choice::Accepted;
    if accepted && patch.is_none() {
        missing.push(format!("{PATCH} is missing: there is nothing to apply"));
    }
    let passed = accepted && missing.is_empty() && !said.regression && route.is_none();
    let word = said.choice.word();
    let notes = if said.notes.trim().is_empty() { format!("the decision is {word}") } else { said.notes };
    Ok(DecisionEvidence {
        passed,
        failed: !accepted && said.choice != Choice::Deferred,
        summary: format!("the decision is {word}"),
        missing,
        choice: Some(said.choice),
        route,
        regression: said.regression,
        notes,
        decider: said.decider,
        ..none_yet(String::new())
    })
}
