//! The decision in accept: what a named person wants done with the patch.
//!
//! A regression outweighs an acceptance. Work that was not accepted goes by the route that was recorded with
//! it; a decision that was put off, or that says nothing about where to go, stays.

use ftl_core::catalogue::Catalogue;
use ftl_core::catalogue::lifecycle::{Choice, DecisionEvidence, Signal};
use ftl_core::catalogue::scalars::Digest;

use super::artifact::{ArtifactFile, JsonView, Malformed};
use super::binding::Bindings;
use super::folder::{DECISION, PATCH, REPORT, TaskFolder};
use super::phases::Routes;
use super::report;
use super::signals::signals;

/// The words of verdicts.
pub const VERDICTS: [(&str, Choice); 4] = [
    ("accepted", Choice::Accepted),
    ("needs_work", Choice::NeedsWork),
    ("rejected", Choice::Rejected),
    ("deferred", Choice::Deferred),
];

struct Said {
    choice: Choice,
    route: Option<String>,
    regression: bool,
    notes: String,
    decider: Option<String>,
    is_agent: bool,
    /// The evidence that the decision itself says is missing.
    named: Vec<String>,
}

fn read(artifact: &ArtifactFile, routes: &Routes) -> Result<Said, Malformed> {
    let root = artifact.root()?;
    root.need("verdict")?;
    let choice = root.word("verdict", &VERDICTS)?.unwrap_or(Choice::Deferred);
    let route = route(&root, routes)?;
    let regression = signals(&root)?.contains(&Signal::Regression);
    root.need("reasons")?;
    let notes = root.texts("reasons")?.join("\n");
    root.text("timestamp")?;
    let named = root.texts("missing_evidence")?.into_iter().map(str::to_owned).collect();
    let (decider, is_agent) = (decider(&root)?, is_agent(&root)?);
    Ok(Said { choice, route, regression, notes, decider, is_agent, named })
}

/// Where the work goes: a route that the document asks for.
fn route(root: &JsonView<'_>, routes: &Routes) -> Result<Option<String>, Malformed> {
    let Some(word) = root.text("route")? else { return Ok(None) };
    if routes.known.iter().any(|known| known == word) {
        return Ok(Some(word.to_owned()));
    }
    let known = routes.known.join(", ");
    Err(root.need("route")?.wrong(format!("is `{word}`; it must be one of {known}")))
}

/// Who decided: a name, or an object with one.
fn decider(root: &JsonView<'_>) -> Result<Option<String>, Malformed> {
    let Some(field) = root.field("decider") else { return Ok(None) };
    let name = match field.json().is_object() {
        true => field.text("name")?.or(field.text("id")?).unwrap_or_default(),
        false => field.as_text()?,
    };
    Ok(Some(name.trim().to_owned()).filter(|name| !name.is_empty()))
}

/// Whether an agent decided: it says so, or it goes by the name of a role. A policy that stands in for a person is
/// recorded under its own name, which no person and no agent has.
fn is_agent(root: &JsonView<'_>) -> Result<bool, Malformed> {
    let Some(field) = root.field("decider") else { return Ok(false) };
    if field.json().is_object() {
        let kind = field.text("kind")?.or(field.text("type")?).unwrap_or_default();
        if kind.eq_ignore_ascii_case("agent") {
            return Ok(true);
        }
    }
    let Some(name) = decider(root)? else { return Ok(false) };
    Ok(Catalogue::standard().roles().any(|role| role.name.eq_ignore_ascii_case(&name)))
}

/// What an acceptance lacks: a person, a reason, and a green report or the word that there is none.
fn lacks(folder: &TaskFolder, bindings: &Bindings, said: &Said) -> Vec<String> {
    let mut lacks = Vec::new();
    if said.is_agent {
        lacks.push(format!("{DECISION} was decided by an agent; a person decides"));
    }
    if said.notes.trim().is_empty() {
        lacks.push(format!("{DECISION} gives no reason"));
    }
    if let Some(why) = report_lacks(folder, bindings)
        && !said.named.iter().any(|name| name == REPORT)
    {
        lacks.push(format!("{why}, and the decision does not name it as missing evidence"));
    }
    lacks
}

/// Why the report does not speak for an acceptance; nothing where it is green.
pub fn report_lacks(folder: &TaskFolder, bindings: &Bindings) -> Option<String> {
    match report::evidence(folder, bindings) {
        Ok(seen) if seen.passed => None,
        Ok(seen) => Some(seen.missing.join("; ")),
        Err(error) => Some(error.to_string()),
    }
}

/// What the recorded decision shows.
pub fn evidence(
    folder: &TaskFolder,
    bindings: &Bindings,
    routes: &Routes,
) -> Result<DecisionEvidence, Malformed> {
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
    let said = read(&artifact, routes)?;
    if let Some(stale) = bindings.stale(folder, DECISION, &artifact, "diff_hash", patch.as_deref())? {
        return Ok(none_yet(format!("{DECISION} is stale: {stale}")));
    }
    let mut missing = Vec::new();
    let mut route = said.route.clone();
    match said.choice {
        Choice::Accepted if route.is_some() && route != routes.undo => {
            missing.push(String::from("the decision accepts the work and sends it back"));
            route = None;
        }
        Choice::Accepted => {}
        Choice::NeedsWork => route = route.or_else(|| routes.again.clone()),
        Choice::Rejected if route.is_none() => {
            missing.push(String::from("the work was rejected, and no route says where it goes"));
        }
        Choice::Rejected => {}
        Choice::Deferred => {
            missing.push(String::from("the decision is deferred"));
            route = route.filter(|route| Some(route) == routes.undo.as_ref());
        }
    }
    if said.decider.is_none() {
        missing.push(format!("{DECISION} does not say who decided"));
    }
    let accepted = said.choice == Choice::Accepted;
    if accepted && patch.is_none() {
        missing.push(format!("{PATCH} is missing: there is nothing to apply"));
    }
    if accepted {
        missing.extend(lacks(folder, bindings, &said));
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
