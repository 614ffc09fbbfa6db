//! Checks of the lines before the first state: inputs, limits, variables, gates.
//!
//! Headers may only use what is fixed when the instance opens.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::preset_type;
use super::tables::{Pasted, Tables};
use super::{World, shown, whole};
use crate::problem::Problem;
use crate::source::Span;
use ftl_core::catalogue::ActionKind;
use ftl_core::syntax::{Expr, ExprKind, Ident, InputDecl, LimitDecl, Preset, roots};
use ftl_core::types::Type;
use ftl_core::value::Name;

/// Learns the types of tracked variables from their first values.
pub fn learn(pasted: &Pasted, tables: &mut Tables) {
    for track in &pasted.document.tracks {
        let ty = track.first.as_ref().map_or(Type::Unknown, |first| first_type(pasted, first));
        tables.track(&track.name.name, &ty);
    }
}

fn first_type(pasted: &Pasted, first: &Expr) -> Type {
    if let ExprKind::Path(path) = &*first.kind {
        let input = pasted.document.inputs.iter().find(|input| input.name.name == path[0].name);
        return input.and_then(|input| input.default.as_ref()).map_or(Type::Unknown, preset_type);
    }
    preset_type(&Preset::Value(first.clone()))
}

/// Checks the headers of a document.
pub fn check(world: &World<'_>, pasted: &Pasted) -> Vec<Problem> {
    let mut problems = Vec::new();
    let document = &pasted.document;
    names(pasted, &mut problems);
    let inputs: BTreeSet<Name> = document.inputs.iter().map(|input| input.name.name.clone()).collect();
    for input in &document.inputs {
        match &input.default {
            Some(Preset::Value(expr)) => only(expr, &BTreeSet::new(), &mut problems),
            Some(Preset::Choice(words)) => twice(words.iter(), "this choice", &mut problems),
            None => {}
        }
    }
    for limit in &document.limits {
        check_limit(pasted, limit, &inputs, &mut problems);
    }
    for track in &document.tracks {
        if let Some(first) = &track.first {
            only(first, &inputs, &mut problems);
        }
    }
    gates(world, pasted, &mut problems);
    if let Some(redo) = &document.redo {
        check_redo(pasted, redo, &mut problems);
    }
    if pasted.states.is_empty() && !document.broken {
        let problem = Problem::error("no-state", whole(pasted), "the protocol has no state");
        problems.push(problem.hint("the first STATE is the start"));
    }
    problems
}

/// Declarations that nothing uses.
pub fn unused(pasted: &Pasted, used: &BTreeSet<Name>) -> Vec<Problem> {
    let document = &pasted.document;
    let mut used = used.clone();
    for limit in &document.limits {
        roots(&limit.limit, &mut used);
        if let Some((word, expr)) = &limit.variant {
            roots(expr, &mut used);
            used.extend(choice_input(pasted, &word.name).map(|input| input.name.clone()));
        }
    }
    for track in &document.tracks {
        track.first.iter().for_each(|first| roots(first, &mut used));
    }
    used.extend(document.redo.iter().map(|redo| redo.name.clone()));
    used.extend(shown::read_variable(document).map(Name::from));
    let inputs = document.inputs.iter().map(|input| ("input", &input.name));
    let limits = document.limits.iter().map(|limit| ("meter", &limit.meter));
    let tracks = document.tracks.iter().map(|track| ("variable", &track.name));
    inputs
        .chain(limits)
        .chain(tracks)
        .filter(|(_, name)| !used.contains(&name.name))
        .map(|(what, name)| {
            Problem::warning("unused", name.span, format!("nothing uses the {what} `{}`", name.name))
        })
        .collect()
}

/// No two things of one document have the same name, and no two states or patterns.
fn names(pasted: &Pasted, problems: &mut Vec<Problem>) {
    let document = &pasted.document;
    let inputs = document.inputs.iter().map(|input| &input.name);
    let limits = document.limits.iter().map(|limit| &limit.meter);
    let tracks = document.tracks.iter().map(|track| &track.name);
    twice(inputs.chain(limits).chain(tracks), "an input, a meter or a variable", problems);
    twice(document.states.iter().map(|state| &state.name), "a state", problems);
    twice(document.patterns.iter().map(|pattern| &pattern.name), "a pattern", problems);
    let taken: BTreeSet<&Name> = document
        .inputs
        .iter()
        .map(|input| &input.name.name)
        .chain(document.limits.iter().map(|limit| &limit.meter.name))
        .chain(document.tracks.iter().map(|track| &track.name.name))
        .collect();
    for state in &document.states {
        for param in state.params.iter().filter(|param| taken.contains(&param.name.name)) {
            let message = format!("`{}` is already an input, a meter or a variable", param.name.name);
            problems.push(Problem::error("double-name", param.name.span, message));
        }
    }
}

fn twice<'a>(idents: impl Iterator<Item = &'a Ident>, what: &str, problems: &mut Vec<Problem>) {
    let mut seen: BTreeMap<&Name, Span> = BTreeMap::new();
    for ident in idents {
        if seen.insert(&ident.name, ident.span).is_some() {
            let message = format!("`{}` is already {what} of this document", ident.name);
            problems.push(Problem::error("double-name", ident.span, message));
        }
    }
}

/// Only these names may be used in a header.
fn only(expr: &Expr, known: &BTreeSet<Name>, problems: &mut Vec<Problem>) {
    let mut names = BTreeSet::new();
    roots(expr, &mut names);
    for name in names.difference(known) {
        let problem = Problem::error(
            "unknown-name",
            expr.span,
            format!("`{name}` is not known when the instance opens"),
        );
        problems.push(problem.hint("text stands in quotes").near(name, known.iter()));
    }
}

/// The meters that every instance has; no LIMIT may be called so.
pub const BUILT_IN_METERS: &[&str] = &["tokens", "money", "time", "turns", "attempts"];

fn check_limit(pasted: &Pasted, limit: &LimitDecl, inputs: &BTreeSet<Name>, problems: &mut Vec<Problem>) {
    if BUILT_IN_METERS.contains(&&*limit.meter.name) {
        let message = format!("`{}` is metered everywhere and cannot be a LIMIT", limit.meter.name);
        problems.push(
            Problem::error("reserved", limit.meter.span, message).hint("choose another name for this meter"),
        );
    }
    only(&limit.limit, inputs, problems);
    for expr in [Some(&limit.limit), limit.variant.as_ref().map(|(_, expr)| expr)].into_iter().flatten() {
        let fits = matches!(first_type(pasted, expr), Type::Number | Type::Duration | Type::Unknown);
        if !fits || matches!(*expr.kind, ExprKind::None) {
            problems.push(Problem::error("type", expr.span, "a limit is a number"));
        }
        if let ExprKind::Number(number) = &*expr.kind
            && (number.in_thousandths() < 0 || number.in_thousandths() % 1000 != 0)
        {
            problems.push(Problem::error("type", expr.span, "a limit is a whole number, not below zero"));
        }
    }
    if let Some((word, expr)) = &limit.variant {
        only(expr, inputs, problems);
        let inputs = pasted.document.inputs.iter().filter(|input| has_choice(input, &word.name)).count();
        if inputs > 1 {
            let message = format!("more than one input has the choice `{}`", word.name);
            problems.push(
                Problem::error("unknown-word", word.span, message).hint("let the inputs use different words"),
            );
        }
        if inputs == 0 {
            let words = pasted.document.inputs.iter().filter_map(|input| match &input.default {
                Some(Preset::Choice(words)) => Some(words),
                Some(Preset::Value(_)) | None => None,
            });
            let message = format!("no input has the choice `{}`", word.name);
            let known = words.flatten().map(|word| word.name.clone());
            problems.push(Problem::error("unknown-word", word.span, message).near(&word.name, known));
        }
    }
    if let Some(target) = &limit.target {
        unknown_state(pasted, target, problems);
    }
}

/// The input that has a word among its choices.
pub fn choice_input<'a>(pasted: &'a Pasted, word: &str) -> Option<&'a Ident> {
    pasted.document.inputs.iter().find(|input| has_choice(input, word)).map(|input| &input.name)
}

fn has_choice(input: &InputDecl, word: &str) -> bool {
    match &input.default {
        Some(Preset::Choice(words)) => words.iter().any(|one| &*one.name == word),
        Some(Preset::Value(_)) | None => false,
    }
}

pub(super) fn unknown_state(pasted: &Pasted, target: &Ident, problems: &mut Vec<Problem>) {
    if pasted.state(&target.name).is_none() {
        let known = pasted.states.iter().map(|state| &*state.name.name);
        let message = format!("there is no state `{}`", target.name);
        problems.push(Problem::error("unknown-state", target.span, message).near(&target.name, known));
    }
}

fn check_redo(pasted: &Pasted, redo: &Ident, problems: &mut Vec<Problem>) {
    single_meter(pasted, redo, "pay for a redo", problems);
}

/// Looks whether a meter is there and has one counter, without which it cannot do something.
pub(super) fn single_meter(pasted: &Pasted, meter: &Ident, what: &str, problems: &mut Vec<Problem>) {
    let limit = pasted.document.limits.iter().find(|limit| limit.meter.name == meter.name);
    match limit {
        None => {
            let known = pasted.document.limits.iter().map(|limit| &*limit.meter.name);
            let message = format!("there is no meter `{}`", meter.name);
            problems.push(Problem::error("unknown-meter", meter.span, message).near(&meter.name, known));
        }
        Some(limit) if limit.per.is_some() => {
            let message = format!("`{}` has one counter for each key and cannot {what}", meter.name);
            problems.push(Problem::error("per", meter.span, message));
        }
        Some(_) => {}
    }
}

fn gates(world: &World<'_>, pasted: &Pasted, problems: &mut Vec<Problem>) {
    for gate in &pasted.document.gates {
        for action in &gate.actions {
            match world.catalogue.action(&action.name) {
                None => {
                    let known = world
                        .catalogue
                        .actions()
                        .filter(|one| one.kind == ActionKind::Gate)
                        .map(|one| one.name.clone());
                    let message = format!("there is no gate `{}`", action.name);
                    problems.push(
                        Problem::error("unknown-action", action.span, message).near(&action.name, known),
                    );
                }
                Some(declared) if declared.kind != ActionKind::Gate => {
                    let message = format!("`{}` is no gate: it does not answer with `passed`", action.name);
                    problems.push(Problem::error("wrong-kind", action.span, message));
                }
                Some(_) => {}
            }
        }
        unknown_state(pasted, &gate.state, problems);
    }
}
