//! The gates of a task's artifacts, looked through once: what each answers, and what its answer means to a person.
//!
//! One command looks through each gate at most once. The same answer is given to the command that lists the edges of
//! a phase and to the run that takes one of them, so that what is shown is what is done. A look writes nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::{Name, Value};
use serde::Serialize;

use super::binding::Bindings;
use super::folder::{PATCH, RECORD, TaskFolder};
use super::phases::Routes;
use super::{Malformed, code, code_review, decision, plan, plan_review, record, report};

/// The answer of one gate.
#[derive(Clone, Debug)]
pub struct GateAnswer {
    /// The answer as the run hears it.
    pub answer: Value,
    /// What was seen, in one sentence.
    pub summary: String,
    /// What it needs to pass, in sentences.
    pub missing: Vec<String>,
    /// What is odd and does not stop the task.
    pub warnings: Vec<String>,
}

/// The gates of one task.
#[derive(Debug)]
pub struct Looks<'a> {
    folder: &'a TaskFolder,
    bindings: &'a Bindings,
    routes: Routes,
    seen: RefCell<BTreeMap<Name, Result<GateAnswer, Malformed>>>,
}

impl<'a> Looks<'a> {
    /// The gates of a task, none of them looked through yet.
    pub fn new(folder: &'a TaskFolder, bindings: &'a Bindings, routes: Routes) -> Looks<'a> {
        Looks { folder, bindings, routes, seen: RefCell::default() }
    }

    /// Looks through a gate, or remembers what it answered; nothing for what is no gate of artifacts.
    pub fn at(&self, gate: &str) -> Option<Result<GateAnswer, Malformed>> {
        if let Some(known) = self.seen.borrow().get(gate) {
            return Some(known.clone());
        }
        let look = look(gate, self.folder, self.bindings, &self.routes)?;
        self.seen.borrow_mut().insert(Name::from(gate), look.clone());
        Some(look)
    }

    /// What every gate answered that was looked through, as a run hears it.
    pub fn answers(&self) -> BTreeMap<Name, Result<Value, Failure>> {
        let answer = |look: &Result<GateAnswer, Malformed>| match look {
            Ok(look) => Ok(look.answer.clone()),
            Err(malformed) => Err(Failure::new(FailureKind::Failed, malformed.to_string())),
        };
        self.seen.borrow().iter().map(|(gate, look)| (gate.clone(), answer(look))).collect()
    }
}

/// Looks through one gate.
fn look(
    gate: &str,
    folder: &TaskFolder,
    bindings: &Bindings,
    routes: &Routes,
) -> Option<Result<GateAnswer, Malformed>> {
    Some(match gate {
        "artifact.plan" => {
            plan::evidence(folder).map(|seen| make_answer(&seen, &seen.summary, &seen.missing, Vec::new()))
        }
        "artifact.plan_review" => plan_review::evidence(folder, bindings)
            .map(|seen| make_answer(&seen, &seen.summary, &seen.missing, Vec::new())),
        "artifact.code" => code::evidence(folder).map(|looked| {
            let seen = looked.evidence;
            make_answer(&seen, &seen.summary, &seen.missing, looked.warnings)
        }),
        "artifact.code_review" => code_review::evidence(folder, bindings)
            .map(|seen| make_answer(&seen, &seen.summary, &seen.missing, without_patch(folder))),
        "artifact.report" => report::evidence(folder, bindings)
            .map(|seen| make_answer(&seen, &seen.summary, &seen.missing, without_patch(folder))),
        "artifact.decision" => decision::evidence(folder, bindings, routes)
            .map(|seen| make_answer(&seen, &seen.summary, &seen.missing, Vec::new())),
        "artifact.revert" => record::evidence(folder, bindings)
            .map(|seen| make_answer(&seen, &seen.summary, &seen.missing, without_record(folder))),
        _ => return None,
    })
}

fn make_answer<T: Serialize>(
    evidence: &T,
    summary: &str,
    missing: &[String],
    warnings: Vec<String>,
) -> GateAnswer {
    // The evidence is data of our own types, which are all values.
    let answer = Value::of(evidence).unwrap_or_default();
    let summary = summary.lines().next().unwrap_or_default().to_owned();
    GateAnswer { answer, summary, missing: missing.to_vec(), warnings }
}

fn without_patch(folder: &TaskFolder) -> Vec<String> {
    if folder.has(PATCH) { Vec::new() } else { vec![format!("{PATCH} is missing")] }
}

fn without_record(folder: &TaskFolder) -> Vec<String> {
    let hint = String::from("`ftl revert --reason R` undoes and records it");
    if folder.has(RECORD) { Vec::new() } else { vec![hint] }
}

/// What it means that a field of a gate's answer does not hold, or is not what it is compared with.
pub fn denial(gate: &str, field: &str, is: Option<&str>, routes: &Routes) -> Option<String> {
    let text = match (gate, field) {
        ("artifact.plan_review", "blocked" | "needs_changes") => {
            "no reviewer of this plan blocks it or wants changes"
        }
        ("artifact.code", "scope_mismatch") => "no file was generated that the plan does not name",
        ("artifact.code", "plan_unclear") => "no essential part of the plan is missing",
        ("artifact.code_review", "plan_flawed") => "no finding says that the plan is flawed",
        ("artifact.code_review", "blocked" | "needs_changes") => {
            "no finding on the code blocks, and no changes are wanted"
        }
        ("artifact.report", "failed") => "no complete report on this patch is red",
        ("artifact.decision", "regression") => "nobody asked for a revert, and no regression is recorded",
        ("artifact.decision", "route") if is.is_some() && is == routes.undo.as_deref() => {
            "nobody asked for a revert, and no regression is recorded"
        }
        ("artifact.decision", "route") => return is.map(|route| format!("no decision routes to {route}")),
        _ => return None,
    };
    Some(text.to_owned())
}
