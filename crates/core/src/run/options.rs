//! Options: every way out of where an instance stands, open or with what it still needs.
//!
//! For people and for `ftl why`. It evaluates guards with what is known now and changes nothing.

use serde::Serialize;

use super::Run;
use super::eval::{eval, is_known};
use super::fact::{InstanceId, ThreadId};
use crate::language::print;
use crate::language::syntax::{Exit, Paying, Step, What};
use crate::program::StateCode;
use crate::value::Name;

/// How the condition of an ELSE begins.
pub const COULD_NOT: &str = "could not: ";

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
}

/// A condition of a way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// As it is written.
    pub text: String,
    /// Whether it holds; `None` when something it reads is not known yet.
    pub holds: Option<bool>,
}

impl Run {
    /// Every way out of where an instance stands.
    pub fn options(&self, id: InstanceId) -> Vec<WayOut> {
        let Some(instance) = self.instance(id).filter(|one| !one.is_settled()) else { return Vec::new() };
        let Some(program) = self.library.program(&instance.protocol) else { return Vec::new() };
        let Some(state) = program.state(&instance.state) else { return Vec::new() };
        let mut ways: Vec<WayOut> = Vec::new();
        // The first exit whose conditions all hold: nothing below it is taken.
        let mut first: Option<String> = None;
        for (place, node) in (0u32..).zip(&state.nodes) {
            let to = match &node.what {
                What::Exit(Exit::Goto { target, .. }) => Some(target.name.clone()),
                What::Exit(Exit::Return { .. }) => None,
                What::Step { step, otherwise: None } => match limited(step, program) {
                    Some(to) => Some(to),
                    None => continue,
                },
                What::Exit(Exit::Stay(_) | Exit::Hold(_))
                | What::Step { .. }
                | What::If { .. }
                | What::Emit(_) => continue,
                What::Set(..) | What::Increment(_) | What::Refill(..) => continue,
                What::Use(_) | What::Proceed | What::Broken => continue,
            };
            let by = print::line(&node.what);
            let conditions = self.conditions(id, state, place);
            let holds = conditions.iter().all(|condition| condition.holds == Some(true));
            let step = matches!(node.what, What::Step { .. });
            let (behind, unless) = (first.clone(), if step { Vec::new() } else { open_questions(&ways) });
            let open = holds && !step && behind.is_none() && unless.is_empty();
            if holds && !step && first.is_none() {
                first = Some(by.clone());
            }
            ways.push(WayOut { to, by, place, conditions, behind, unless, open });
        }
        ways
    }

    /// The conditions around a statement, outermost first, with what is known about them.
    fn conditions(&self, id: InstanceId, state: &StateCode, place: u32) -> Vec<Condition> {
        let Some(instance) = self.instance(id) else { return Vec::new() };
        let names = instance.names(&ThreadId::Main);
        let mut conditions = Vec::new();
        let mut inner = place;
        while let Some(up) = state.node(inner).and_then(|node| node.up) {
            let Some(node) = state.node(up) else { break };
            match &node.what {
                What::If { condition, .. } => {
                    let holds = is_known(condition, &names).then(|| eval(condition, &names).holds());
                    conditions.push(Condition { text: condition.to_string(), holds });
                }
                What::Step { .. } => {
                    conditions.push(Condition {
                        text: format!("{COULD_NOT}{}", print::line(&node.what)),
                        holds: None,
                    });
                }
                What::Emit(_) | What::Set(..) | What::Increment(_) | What::Refill(..) | What::Use(_) => {}
                What::Exit(_) | What::Proceed | What::Broken => {}
            }
            inner = up;
        }
        conditions.reverse();
        conditions
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
