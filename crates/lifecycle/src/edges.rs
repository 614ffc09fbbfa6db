//! Every edge of the phase that a task is in, with whether it is open and what it still needs.
//!
//! The interpreter says which ways lead out and which of their conditions hold; the gates say what is missing. Nothing
//! here knows an edge or a guard of its own, and a look changes nothing.

use std::sync::Arc;

use ftl_core::run::{Adoption, AnswerSource, Answers, Event, Input, ROOT, Run, Terms, Unmet, WayOut};
use ftl_core::value::{Name, Value};
use ftl_language::library::Library;

use super::gate_answers::{Looks, denial};
use super::phases::{NEXT, PROTOCOL, Phase, Phases, REDO, Routes, command, edge};
use super::{Malformed, registry};

/// One edge, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeView {
    /// The phase that it leaves.
    pub from: Phase,
    /// The phase that it leads to.
    pub to: Phase,
    /// Whether it is open.
    pub holds: bool,
    /// What it needs, in sentences.
    pub missing: Vec<String>,
}

impl EdgeView {
    /// The edge as it is written.
    pub fn name(&self) -> String {
        edge(&self.from, &self.to)
    }
}

/// What a phase has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The phase that the task is in.
    pub phase: Phase,
    /// Every edge from there, the forward one first.
    pub edges: Vec<EdgeView>,
    /// What was seen, in one sentence.
    pub summary: String,
    /// What is odd and does not stop the task.
    pub warnings: Vec<String>,
    /// Whether a gate or a person on the way has not been asked: only `next` itself can tell.
    pub is_open_question: bool,
}

impl Outlook {
    /// The phase that the first open edge leads to.
    pub fn open(&self) -> Option<&Phase> {
        self.edges.iter().find(|edge| edge.holds).map(|edge| &edge.to)
    }

    /// The edge that leads there.
    pub fn edge(&self, to: &Phase) -> Option<&EdgeView> {
        self.edges.iter().find(|edge| edge.to == *to)
    }
}

/// A run as it would be if a task were adopted where its folder says that it is; nothing is written.
pub fn imagine(library: &Arc<Library>, brief: &str, adoption: Adoption) -> Run {
    let mut run = Run::new(library.clone());
    let inputs = [(Name::from("brief"), Value::text(brief))].into();
    let (protocol, terms) = (Name::from(PROTOCOL), Terms::default());
    let event = Event::Open { protocol, inputs, terms, adopt: Some(adoption) };
    let decision = run.decide(&Input { at: 0, event });
    decision.entries.iter().for_each(|entry| run.apply(entry));
    run
}

/// Looks at every edge of the phase that a run is in.
pub fn outlook(run: &Run, phases: &Phases, looks: &Looks<'_>) -> Result<Outlook, Malformed> {
    let phase = registry::phase_of(run, phases).unwrap_or_else(|| phases.first());
    let mut summary = String::new();
    let mut warnings = Vec::new();
    for gate in phases.gates(&phase) {
        if let Some(look) = looks.at(gate) {
            let look = look?;
            summary = look.summary;
            warnings.extend(look.warnings);
        }
    }
    if phases.is_last(&phase) {
        let summary = format!("the task is {phase}");
        return Ok(Outlook { phase, edges: Vec::new(), summary, warnings, is_open_question: false });
    }
    let answers = Answers { word: Some(Name::from(NEXT)), actions: looks.answers() };
    let ways = run.options_with(ROOT, &answers);
    let asker = Asker { looks, routes: phases.routes(), ways: &ways };
    let edges: Vec<EdgeView> = phases.targets(&phase).into_iter().map(|to| asker.edge(&phase, to)).collect();
    let is_open_question = edges.iter().all(|edge| !edge.holds) && ways.iter().any(is_unknown);
    Ok(Outlook { phase, edges, summary, warnings, is_open_question })
}

/// Whether it is not known yet if a way is taken.
fn is_unknown(way: &WayOut) -> bool {
    let knows = |wanted| way.conditions.iter().any(|one| one.holds == wanted);
    let failing = way.conditions.iter().any(|one| one.text.starts_with(ftl_core::run::COULD_NOT));
    !knows(Some(false)) && !failing && (knows(None) || !way.unless.is_empty()) && way.behind.is_none()
}

/// Who tells what the edges of one phase need.
struct Asker<'a> {
    looks: &'a Looks<'a>,
    routes: Routes,
    ways: &'a [WayOut],
}

impl Asker<'_> {
    fn edge(&self, from: &Phase, to: Phase) -> EdgeView {
        let own: Vec<&WayOut> = self.ways.iter().filter(|way| way.to.as_deref() == Some(to.word())).collect();
        let holds = own.iter().any(|way| way.open);
        let missing = if holds { Vec::new() } else { self.missing(from, &to, &own) };
        EdgeView { from: from.clone(), to, holds, missing }
    }

    fn missing(&self, from: &Phase, to: &Phase, own: &[&WayOut]) -> Vec<String> {
        if own.iter().any(|way| way.behind.is_some() && holds(way))
            && let Some(first) = self.ways.iter().find(|way| way.open).and_then(|way| way.to.as_deref())
        {
            return vec![format!("the way to {first} comes first")];
        }
        // A way that another word takes is told only where there is no other.
        let by_next: Vec<&&WayOut> = own.iter().filter(|way| word_of(way).is_none()).collect();
        let mut missing = Vec::new();
        for way in &by_next {
            for text in self.needs(way) {
                if !missing.contains(&text) {
                    missing.push(text);
                }
            }
        }
        if by_next.is_empty() {
            missing.extend(own.iter().filter_map(|way| word_of(way)).map(|word| match word {
                REDO => format!("a person says redo: ftl redo {to} --reason R"),
                other => format!("a person says {other}: {} --reason R", command(other)),
            }));
        }
        if missing.is_empty() {
            missing.push(format!("nothing leads from {from} to {to} yet"));
        }
        missing
    }

    /// The conditions of one way out that do not hold, in sentences.
    fn needs(&self, way: &WayOut) -> Vec<String> {
        let mut needs = Vec::new();
        for condition in way.conditions.iter().filter(|one| one.holds != Some(true)) {
            if condition.holds.is_none() {
                needs.push(format!("not known before it is looked at: {}", condition.text));
                continue;
            }
            for unmet in &condition.unmet {
                needs.extend(self.tells(unmet));
            }
        }
        needs.extend(way.unless.iter().map(|text| format!("not known before it is looked at: {text}")));
        if needs.is_empty()
            && let Some(meter) = way.by.strip_prefix("PAY: ")
        {
            needs.push(format!("it is taken when `{meter}` is spent"));
        }
        needs
    }

    /// One part of a condition that does not hold, as the gate that it asks explains it.
    fn tells(&self, unmet: &Unmet) -> Vec<String> {
        let generic = || vec![format!("`{}` does not hold", unmet.text)];
        let (AnswerSource::Action(gate), Some(field)) = (&unmet.of, &unmet.field) else { return generic() };
        if &**field != "passed" {
            let text = denial(gate, field, unmet.is.as_deref(), &self.routes);
            return text.map_or_else(generic, |text| vec![text]);
        }
        match self.looks.at(gate) {
            Some(Ok(look)) if look.missing.is_empty() => vec![look.summary],
            Some(Ok(look)) => look.missing,
            Some(Err(_)) | None => generic(),
        }
    }
}

fn holds(way: &WayOut) -> bool {
    way.conditions.iter().all(|condition| condition.holds == Some(true))
}

/// The word, other than `next`, that a way asks for.
fn word_of(way: &WayOut) -> Option<&str> {
    let unmet = way.conditions.iter().flat_map(|condition| &condition.unmet);
    unmet
        .filter(|one| one.of == AnswerSource::Word)
        .find_map(|one| one.field.as_deref().filter(|word| *word != NEXT))
}
