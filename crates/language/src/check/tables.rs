//! What the checker has learnt about the types of a document so far.
//!
//! Parameters, tracked variables and the values of RETURN get their types from every place that
//! gives them one. The walk is repeated until nothing changes; types only grow, so it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ftl_core::syntax::{Block, Call, Document, State, StatementKind, Step, Target};
use ftl_core::types::Type;
use ftl_core::value::Name;

/// The types learnt for one document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// The type of each parameter of each state.
    pub params: BTreeMap<(Name, Name), Type>,
    /// The type of each tracked variable.
    pub tracked: BTreeMap<Name, Type>,
    /// The types of the values of RETURN.
    pub returned: BTreeMap<Name, Type>,
}

impl Tables {
    /// Learns all that another round has learnt.
    pub fn add(&mut self, other: &Tables) {
        for ((state, param), ty) in &other.params {
            self.param(state, param, ty);
        }
        for (name, ty) in &other.tracked {
            self.track(name, ty);
        }
        for (name, ty) in &other.returned {
            self.give(name, ty);
        }
    }

    /// Learns one more type of a parameter.
    pub fn param(&mut self, state: &Name, param: &Name, ty: &Type) {
        let known = self.params.entry((state.clone(), param.clone())).or_insert(Type::Unknown);
        *known = known.join(ty);
    }

    /// Learns one more type of a tracked variable.
    pub fn track(&mut self, name: &Name, ty: &Type) {
        let known = self.tracked.entry(name.clone()).or_insert(Type::Unknown);
        *known = known.join(ty);
    }

    /// Learns one more type of a value of RETURN.
    pub fn give(&mut self, name: &Name, ty: &Type) {
        let known = self.returned.entry(name.clone()).or_insert(Type::Unknown);
        *known = known.join(ty);
    }
}

/// A document with its patterns in place.
#[derive(Clone, Debug)]
pub struct Pasted {
    /// The document as it was read.
    pub document: Arc<Document>,
    /// Its states, without any USE.
    pub states: Vec<State>,
    /// The protocols that it runs.
    pub runs: BTreeSet<Name>,
}

impl Pasted {
    /// A document with the states that its patterns were put into.
    pub fn new(document: Arc<Document>, states: Vec<State>) -> Pasted {
        let mut runs = BTreeSet::new();
        states.iter().for_each(|state| add_runs(&state.body, &mut runs));
        Pasted { document, states, runs }
    }

    /// The state of that name.
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.iter().find(|state| &*state.name.name == name)
    }

    /// The protocol's name; `?` where the document names none.
    pub fn name(&self) -> Name {
        self.document.name.as_ref().map_or_else(|| Name::from("?"), |name| name.name.clone())
    }
}

/// What a child hands on of its own children is not looked into, or a protocol that runs itself
/// would have an answer without end.
fn without_runs(ty: &Type) -> Type {
    match ty {
        Type::Record(record) if record.name.contains("Run(") => Type::Any,
        Type::List(of) => Type::list(without_runs(of)),
        Type::Record(_) | Type::Unknown | Type::Any | Type::Bool | Type::Number => ty.clone(),
        Type::Duration | Type::Text | Type::Digest | Type::Choice(_) => ty.clone(),
    }
}

/// What `Run(protocol)` answers: the verdict and the values of its RETURNs.
pub fn run_answer(protocol: &Name, tables: &Tables) -> Type {
    let verdicts = Type::choice(crate::check::VERDICTS);
    let fields = tables.returned.iter().map(|(name, ty)| (name.clone(), without_runs(ty)));
    Type::record(&format!("Run({protocol})"), fields).with("verdict", verdicts)
}

fn run_by(call: &Call) -> Option<Name> {
    match &call.target {
        Target::Run(protocol) => Some(protocol.name.clone()),
        Target::Action(_) | Target::Task(_) | Target::Shell(_) => None,
    }
}

/// The protocols that a block runs.
fn add_runs(block: &Block, runs: &mut BTreeSet<Name>) {
    for statement in block {
        match &statement.what {
            StatementKind::Step { step, otherwise } => {
                match step {
                    Step::Do { call, .. } | Step::Check { call, .. } | Step::WaitFor { call, .. } => {
                        runs.extend(run_by(call));
                    }
                    Step::Parallel { calls, .. } => runs.extend(calls.iter().filter_map(run_by)),
                    Step::ForEach { body, .. } => add_runs(body, runs),
                    Step::WaitWords { .. } | Step::Ask { .. } | Step::Pay { .. } => {}
                }
                if let Some(otherwise) = otherwise {
                    add_runs(otherwise, runs);
                }
            }
            StatementKind::If { body, .. } => add_runs(body, runs),
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
