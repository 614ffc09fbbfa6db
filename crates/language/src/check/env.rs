//! What is known at one point of one path through a state.
//!
//! The walk keeps a few such environments side by side, one for each way the IFs above may have
//! gone. Their number is bounded: too many are joined into one that knows only what all of them
//! know, which can refuse a good document but never accept a bad one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ftl_core::syntax::{Compare, Expr, ExprKind, TemplatePart};
use ftl_core::types::Type;
use ftl_core::value::Name;

/// How many environments are kept side by side.
pub const MAX_WAYS: usize = 64;

/// How many tests a condition may have and still be taken apart; a longer one is just yes or no.
pub const MAX_TESTS: usize = 16;

/// What is known at one point of one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Env {
    /// Names bound in this visit.
    pub locals: BTreeMap<Name, Local>,
    /// The type of the last result, for `DO: |`.
    pub last: Option<Type>,
    /// For an expression as it is written: the values it may still have.
    pub narrowed: BTreeMap<String, BTreeSet<Name>>,
    /// Gates whose `passed` this path requires.
    pub passed: BTreeSet<Name>,
    /// Meters that this path has surely paid.
    pub paid: BTreeSet<Name>,
    /// Meters that this path may have refilled.
    pub refilled: BTreeSet<Name>,
    /// Whether a WAIT for words was passed.
    pub waited: bool,
    /// Whether the path is in the ELSE of a step.
    pub failing: bool,
}

/// A name bound in this visit.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// The type of its value.
    pub ty: Type,
    /// The gate that a CHECK asked, while nothing was written since.
    pub gate: Option<Name>,
    /// Whether it was bound by a CHECK.
    pub seen: bool,
    /// The words of a WAIT, exactly one of which was said.
    pub words: Vec<Name>,
}

impl Env {
    /// A number that differs where two environments most often differ; saves comparing them.
    fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let sets = (&self.passed, &self.paid, &self.refilled, self.waited, self.failing);
        (&self.narrowed, sets, self.locals.len()).hash(&mut hasher);
        hasher.finish()
    }

    /// Binds a name; what was known about its old value is forgotten.
    pub fn bind(&mut self, name: &Name, local: Local) {
        self.forget(name);
        self.locals.insert(name.clone(), local);
    }

    /// Forgets what is known about the value of a name.
    pub fn forget(&mut self, name: &Name) {
        self.narrowed.retain(|key, _| !mentions(key, name));
    }

    /// An agent may have written: what gates saw before does not count any more.
    pub fn wrote(&mut self) {
        self.passed.clear();
        for local in self.locals.values_mut() {
            local.gate = None;
        }
    }

    /// The environments in which the condition has that truth; none if it cannot.
    pub fn assume(
        &self,
        condition: &Expr,
        truth: bool,
        closed: &dyn Fn(&Expr) -> Option<Vec<Name>>,
    ) -> Vec<Env> {
        if tests(condition) > MAX_TESTS {
            return self.assume_one(condition, truth, closed).into_iter().collect();
        }
        self.assume_parts(condition, truth, closed)
    }

    fn assume_parts(
        &self,
        condition: &Expr,
        truth: bool,
        closed: &dyn Fn(&Expr) -> Option<Vec<Name>>,
    ) -> Vec<Env> {
        match (&*condition.kind, truth) {
            (ExprKind::Not(inner), truth) => self.assume_parts(inner, !truth, closed),
            (ExprKind::And(parts), true) | (ExprKind::Or(parts), false) => {
                let mut envs = vec![self.clone()];
                for part in parts {
                    envs =
                        bounded(envs.iter().flat_map(|env| env.assume_parts(part, truth, closed)).collect());
                }
                envs
            }
            (ExprKind::And(parts), false) | (ExprKind::Or(parts), true) => {
                let mut open = vec![self.clone()];
                let mut taken = Vec::new();
                for part in parts {
                    taken.extend(open.iter().flat_map(|env| env.assume_parts(part, truth, closed)));
                    open =
                        bounded(open.iter().flat_map(|env| env.assume_parts(part, !truth, closed)).collect());
                }
                bounded(taken)
            }
            _ => self.assume_one(condition, truth, closed).into_iter().collect(),
        }
    }

    fn assume_one(
        &self,
        condition: &Expr,
        truth: bool,
        closed: &dyn Fn(&Expr) -> Option<Vec<Name>>,
    ) -> Option<Env> {
        if let ExprKind::Bool(value) = &*condition.kind {
            return (*value == truth).then(|| self.clone());
        }
        let test = self.test(condition, closed);
        let mut env = self.clone();
        let possible = env.narrowed.entry(test.key).or_insert(test.all);
        possible.retain(|word| test.holds.contains(word) == truth);
        if possible.is_empty() {
            return None;
        }
        if truth {
            env.passed.extend(self.gate_of(condition));
        }
        Some(env)
    }

    /// The gate whose `passed` the condition is.
    fn gate_of(&self, condition: &Expr) -> Option<Name> {
        let path = condition.kind.as_path()?;
        let is_passed = path.len() == 2 && &*path[1].name == "passed";
        self.locals.get(&path[0].name).filter(|_| is_passed).and_then(|local| local.gate.clone())
    }

    fn test(&self, condition: &Expr, closed: &dyn Fn(&Expr) -> Option<Vec<Name>>) -> Test {
        if let Some(test) = self.word_test(condition) {
            return test;
        }
        if let ExprKind::Compare(compare @ (Compare::Same | Compare::Different), left, right) =
            &*condition.kind
        {
            if let (Some(words), Some(word)) = (closed(left), literal(right)) {
                let all: BTreeSet<Name> = words.into_iter().collect();
                let same = *compare == Compare::Same;
                let holds = all.iter().filter(|one| (***one == *word) == same).cloned().collect();
                return Test { key: left.to_string(), all, holds };
            }
            if *compare == Compare::Different {
                let same = Expr {
                    kind: Box::new(ExprKind::Compare(Compare::Same, left.clone(), right.clone())),
                    span: condition.span,
                };
                return Test { holds: [Name::from("false")].into(), ..Test::truth(same.to_string()) };
            }
        }
        if let ExprKind::Empty(inner, true) = &*condition.kind {
            return Test { holds: [Name::from("false")].into(), ..Test::truth(format!("{inner} is empty")) };
        }
        Test::truth(condition.to_string())
    }

    /// `said.plan`: one of the words of a WAIT, of which exactly one was said.
    fn word_test(&self, condition: &Expr) -> Option<Test> {
        let ExprKind::Path(path) = &*condition.kind else { return None };
        let local = self.locals.get(&path.first()?.name)?;
        let field = &path.get(1)?.name;
        if path.len() != 2 || !local.words.contains(field) {
            return None;
        }
        let all = local.words.iter().cloned().collect();
        Some(Test { key: format!("{}.#", path[0].name), all, holds: [field.clone()].into() })
    }
}

/// How many tests AND, OR and NOT join.
fn tests(condition: &Expr) -> usize {
    match &*condition.kind {
        ExprKind::Or(parts) | ExprKind::And(parts) => parts.iter().map(tests).sum(),
        ExprKind::Not(inner) => tests(inner),
        ExprKind::Compare(..) | ExprKind::Empty(..) | ExprKind::Path(_) | ExprKind::Function(..) => 1,
        ExprKind::Number(_)
        | ExprKind::Duration(_)
        | ExprKind::Text(_)
        | ExprKind::Bool(_)
        | ExprKind::None => 1,
    }
}

/// A condition as a question about a closed set of values.
struct Test {
    key: String,
    all: BTreeSet<Name>,
    holds: BTreeSet<Name>,
}

impl Test {
    fn truth(key: String) -> Test {
        Test {
            key,
            all: [Name::from("true"), Name::from("false")].into(),
            holds: [Name::from("true")].into(),
        }
    }
}

/// The plain text of a literal.
pub fn literal(expr: &Expr) -> Option<Name> {
    let ExprKind::Text(template) = &*expr.kind else { return None };
    let [TemplatePart::Text(text)] = template.parts.as_slice() else { return None };
    Some(Name::from(text.as_str()))
}

/// Whether a written expression speaks of a name.
fn mentions(key: &str, name: &str) -> bool {
    key.match_indices(name).any(|(index, _)| {
        let before = key[..index].chars().next_back();
        let after = key[index + name.len()..].chars().next();
        let joins =
            |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '_' || one == '-');
        !joins(before) && before != Some('.') && !joins(after)
    })
}

/// Keeps the number of environments small: equal ones count once, too many are joined.
pub fn bounded(mut envs: Vec<Env>) -> Vec<Env> {
    if envs.len() < 2 {
        return envs;
    }
    let mut prints: Vec<u64> = Vec::new();
    let mut kept: Vec<Env> = Vec::new();
    for env in envs.drain(..) {
        let print = env.print();
        let known = |(index, one): (usize, &Env)| prints[index] == print && *one == env;
        if !kept.iter().enumerate().any(known) {
            prints.push(print);
            kept.push(env);
        }
    }
    if kept.len() <= MAX_WAYS {
        return kept;
    }
    kept.into_iter().reduce(|one, two| join(one, &two)).into_iter().collect()
}

/// The environment with only what both know.
fn join(mut one: Env, two: &Env) -> Env {
    one.locals.retain(|name, _| two.locals.contains_key(name));
    for (name, local) in &mut one.locals {
        let other = &two.locals[name];
        local.ty = local.ty.join(&other.ty);
        if local.gate != other.gate {
            local.gate = None;
        }
        local.seen &= other.seen;
        if local.words != other.words {
            local.words.clear();
        }
    }
    one.last = match (one.last, &two.last) {
        (Some(mine), Some(other)) => Some(mine.join(other)),
        _ => None,
    };
    one.narrowed.retain(|key, _| two.narrowed.contains_key(key));
    for (key, possible) in &mut one.narrowed {
        possible.extend(two.narrowed[key].iter().cloned());
    }
    one.passed.retain(|gate| two.passed.contains(gate));
    one.paid.retain(|meter| two.paid.contains(meter));
    one.refilled.extend(two.refilled.iter().cloned());
    one.waited &= two.waited;
    one.failing |= two.failing;
    one
}
