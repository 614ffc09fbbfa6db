//! Options: every way out of where an instance stands, open or with what it still needs.
//!
//! For people, for `ftl why` and for `ftl next`. It evaluates guards with what is known now, and with the answers that
//! the caller has collected; it changes nothing and looks at nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Run;
use super::eval::{Names, constant, eval, is_known};
use super::fact::{Failure, InstanceId, ThreadId};
use super::instance::Scope;
use super::people::spoken;
use crate::program::StateCode;
use crate::syntax::print;
use crate::syntax::{Compare, Exit, Expr, ExprKind, Paying, StatementKind, Step};
use crate::value::{Fields, Name, Value};

/// How the condition of an ELSE begins.
pub const COULD_NOT: &str = "could not: ";

/// What is known beyond the journal, and is taken as if the run had heard it.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The word that a person would say at the WAIT. What was bound in the state before is then not known any more.
    pub word: Option<Name>,
    /// What actions answer, by name: `artifact.plan`.
    pub actions: BTreeMap<Name, Result<Value, Failure>>,
}

/// A way out of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WayOut {
    /// Where it leads; `None` for RETURN.
    pub to: Option<Name>,
    /// The statement that takes it, as it is written.
    pub by: String,
    /// The place of that statement in its state.
    pub place: u32,
    /// The conditions around it.
    pub conditions: Vec<Condition>,
    /// An exit above it that would be taken first.
    pub behind: Option<String>,
    /// Conditions of exits above it that are not known yet: it is taken only if none of them holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<String>,
    /// Whether it would be taken now.
    pub open: bool,
    /// The meter that is paid on the way.
    #[serde(skip)]
    pub pays: Option<Name>,
}

/// A condition of a way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// As it is written.
    pub text: String,
    /// Whether it holds; `None` when something it reads is not known yet.
    pub holds: Option<bool>,
    /// The parts of it that do not hold.
    #[serde(skip)]
    pub unmet: Vec<Unmet>,
}

/// A part of a condition that does not hold: what it reads, as far as it is one field of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// As it is written.
    pub text: String,
    /// The source of the answer that it reads.
    pub of: AnswerSource,
    /// The field of the answer, where it reads one.
    pub field: Option<Name>,
    /// What the field is compared with, where it is.
    pub is: Option<Name>,
}

/// The source of an answer that a condition reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The word of a person.
    Word,
    /// An action, by its name.
    Action(Name),
    /// Something else, or several.
    Other,
}

impl Run {
    /// Every way out of where an instance stands.
    pub fn options(&self, id: InstanceId) -> Vec<WayOut> {
        self.options_with(id, &Answers::default())
    }

    /// The same, with answers of gates that the caller has and the journal has not.
    pub fn options_with(&self, id: InstanceId, answers: &Answers) -> Vec<WayOut> {
        let Some(instance) = self.instance(id).filter(|one| !one.is_settled()) else { return Vec::new() };
        let Some(program) = self.programs.program_of(&instance.protocol, &instance.state, &instance.code)
        else {
            return Vec::new();
        };
        let Some(state) = program.state(&instance.state) else { return Vec::new() };
        let mut ways: Vec<WayOut> = Vec::new();
        let names = Assumed::of(instance.names(&ThreadId::Main), state, answers);
        // The first exit whose conditions all hold: nothing below it is taken.
        let mut first: Option<String> = None;
        for (place, node) in (0u32..).zip(&state.nodes) {
            let conditions = conditions(&names, state, place);
            let holds = conditions.iter().all(|condition| condition.holds == Some(true));
            let to = match &node.what {
                StatementKind::Exit(Exit::Goto { target, .. }) => Some(target.name.clone()),
                StatementKind::Exit(Exit::Return { .. }) => None,
                StatementKind::Step { step, otherwise: None } => match limited(step, program) {
                    Some(to) => Some(to),
                    None => continue,
                },
                StatementKind::Exit(Exit::Stay(_) | Exit::Hold(_)) => {
                    // A word that does its work and stays goes no further.
                    if holds && answers.word.is_some() && first.is_none() {
                        first = Some(print::line(&node.what));
                    }
                    continue;
                }
                StatementKind::Step { .. } | StatementKind::If { .. } | StatementKind::Emit(_) => continue,
                StatementKind::Set(..) | StatementKind::Increment(_) | StatementKind::Refill(..) => continue,
                StatementKind::Use(_) | StatementKind::Proceed | StatementKind::Broken => continue,
            };
            let by = print::line(&node.what);
            let step = matches!(node.what, StatementKind::Step { .. });
            let (behind, unless) = (first.clone(), if step { Vec::new() } else { open_questions(&ways) });
            let open = holds && !step && behind.is_none() && unless.is_empty();
            if holds && !step && first.is_none() {
                first = Some(by.clone());
            }
            let pays = state.pays(place).cloned();
            ways.push(WayOut { to, by, place, conditions, behind, unless, open, pays });
        }
        ways
    }
}

/// The conditions around a statement, outermost first, with what is known about them.
fn conditions(names: &Assumed<'_>, state: &StateCode, place: u32) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let mut inner = place;
    while let Some(up) = state.node(inner).and_then(|node| node.up) {
        let Some(node) = state.node(up) else { break };
        match &node.what {
            StatementKind::If { condition, .. } => {
                let holds = is_known(condition, names).then(|| eval(condition, names).holds());
                let mut unmet = Vec::new();
                if holds == Some(false) {
                    names.unmet(condition, &mut unmet);
                }
                conditions.push(Condition { text: condition.to_string(), holds, unmet });
            }
            StatementKind::Step { .. } => {
                let text = format!("{COULD_NOT}{}", print::line(&node.what));
                conditions.push(Condition { text, holds: None, unmet: Vec::new() });
            }
            StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..)
            | StatementKind::Use(_) => {}
            StatementKind::Exit(_) | StatementKind::Proceed | StatementKind::Broken => {}
        }
        inner = up;
    }
    conditions.reverse();
    conditions
}

/// The names of a state with answers in their places.
struct Assumed<'a> {
    scope: Scope<'a>,
    /// What is bound by answers; nothing where a name would be bound anew to an answer that is not known.
    bound: BTreeMap<&'a Name, Option<Value>>,
    /// The source of each name that is bound.
    sources: BTreeMap<&'a Name, AnswerSource>,
}

impl<'a> Assumed<'a> {
    fn of(scope: Scope<'a>, state: &'a StateCode, answers: &Answers) -> Assumed<'a> {
        let (mut bound, mut sources, mut several) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for node in &state.nodes {
            let (Some(name), Some(step)) = (node.bind(), node.step()) else { continue };
            let action = node.calls.first().map(|call| &call.whom);
            let (value, source) = match step {
                Step::WaitWords { words, .. } => {
                    let words: Vec<Name> = words.iter().map(|word| word.name.clone()).collect();
                    let said = answers.word.as_ref().map(|word| spoken(&words, word, "", "", &Fields::new()));
                    (said, AnswerSource::Word)
                }
                Step::Check { .. } | Step::Do { .. } | Step::WaitFor { .. } => {
                    let answer = action.and_then(|action| answers.actions.get(action.action()?));
                    let source = action.map_or(AnswerSource::Other, |action| {
                        AnswerSource::Action(Name::from(action.to_string()))
                    });
                    (answer.and_then(|answer| answer.as_ref().ok().cloned()), source)
                }
                Step::Parallel { .. } | Step::ForEach { .. } | Step::Ask { .. } | Step::Pay { .. } => {
                    (None, AnswerSource::Other)
                }
            };
            if value.is_some() || answers.word.is_some() {
                bound.insert(name, value);
            }
            if sources.insert(name, source).is_some() {
                several.insert(name);
            }
        }
        for name in several {
            sources.insert(name, AnswerSource::Other);
        }
        Assumed { scope, bound, sources }
    }

    /// The parts of a condition that do not hold.
    fn unmet(&self, expr: &Expr, found: &mut Vec<Unmet>) {
        if let ExprKind::Or(parts) | ExprKind::And(parts) = &*expr.kind {
            parts.iter().filter(|part| !eval(part, self).holds()).for_each(|part| self.unmet(part, found));
            return;
        }
        let (mut path, mut is) = (expr.kind.as_path(), None);
        if let ExprKind::Compare(Compare::Same, one, two) = &*expr.kind {
            path = one.kind.as_path();
            is = path.and_then(|_| constant(two).as_text().map(Name::from));
        }
        let source = path.and_then(|path| self.sources.get(&path.first()?.name).cloned());
        let field = path.and_then(|path| path.get(1)).map(|field| field.name.clone());
        found.push(Unmet { text: expr.to_string(), of: source.unwrap_or(AnswerSource::Other), field, is });
    }
}

impl Names for Assumed<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        match self.bound.get(&Name::from(name)) {
            Some(value) => value.clone(),
            None => self.scope.name(name),
        }
    }
}

/// What is not known yet of the IFs whose exits stand above. Whether a step can be done is no such
/// question: it is answered by the time that anything below the step is reached.
fn open_questions(above: &[WayOut]) -> Vec<String> {
    let asked = above.iter().filter(|way| {
        let known = |wanted| way.conditions.iter().any(|one| one.holds == wanted);
        let step = way.conditions.iter().any(|one| one.text.starts_with(COULD_NOT));
        known(None) && !known(Some(false)) && !step
    });
    let texts = asked.map(|way| {
        let unknown = way.conditions.iter().filter(|one| one.holds.is_none());
        unknown.map(|one| one.text.as_str()).collect::<Vec<_>>().join(" AND ")
    });
    let mut questions: Vec<String> = texts.collect();
    questions.dedup();
    questions
}

/// Where a payment leads that cannot be made.
fn limited(step: &Step, program: &crate::program::Program) -> Option<Name> {
    let meter = match step {
        Step::Pay { meter, .. } | Step::Do { paying: Some(Paying { meter, .. }), .. } => meter,
        Step::Do { .. } | Step::Parallel { .. } | Step::ForEach { .. } | Step::Check { .. } => return None,
        Step::WaitFor { .. } | Step::WaitWords { .. } | Step::Ask { .. } => return None,
    };
    program.limit(&meter.name)?.target.clone()
}
