//! The program: a sound protocol in the form that the interpreter walks.
//!
//! Statements stand in one row per state; each knows what comes after it, what encloses it, and
//! where its block and its ELSE begin. The place inside a state is the number of a statement.
//! Programs are built out of documents by `ftl-language`; here they are only read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::performer::Performer;
use crate::syntax::{Arg, Args, Exit, Expr, StatementKind, Step};
use crate::types::Type;
use crate::value::{Name, Value};

/// A protocol that was checked and found sound.
#[derive(Clone, Debug)]
pub struct Program {
    /// The protocol's name.
    pub name: Name,
    /// The digest of its document.
    pub digest: Name,
    /// What the instance is opened with.
    pub inputs: Vec<InputCode>,
    /// The meters that the protocol declares, in order.
    pub limits: Vec<LimitCode>,
    /// The tracked variables and their first values.
    pub tracks: Vec<(Name, Option<Expr>)>,
    /// Any of the gates, before the state.
    pub gates: Vec<(Vec<Name>, Name)>,
    /// The meter that a redo pays.
    pub redo: Option<Name>,
    /// The states; the first is the start.
    pub states: Vec<StateCode>,
    /// Every edge of the document: from, to.
    pub edges: BTreeSet<(Name, Name)>,
    /// The place of each state in `states`, by its name.
    pub index: BTreeMap<Name, usize>,
}

/// The programs that a run decides by: a library in the product, a table in tests.
pub trait Programs: fmt::Debug + Send + Sync {
    /// The program of a sound protocol.
    fn program(&self, protocol: &str) -> Option<&Arc<Program>>;

    /// The program by which an instance goes on that rests in a state: today's, or where the state was entered in an
    /// earlier text of the protocol, that one.
    fn program_of(&self, protocol: &str, state: &str, code: &str) -> Option<&Arc<Program>>;

    /// The catalogue that the programs were checked against.
    fn catalogue(&self) -> &Catalogue;

    /// How runs of a protocol are drawn; nothing where they have no board.
    fn board(&self, _protocol: &str) -> Option<&BoardCode> {
        None
    }

    /// The state in which a run of a protocol asks how its work is delivered.
    fn delivery(&self, _protocol: &str) -> Option<&Name> {
        None
    }
}

crate::choices! {
    /// What the board of a protocol's runs is made of.
    BoardKind {
        /// The tasks of the variable `plan`, and a report of them at the end.
        Tasks = "tasks",
        /// What was done, a step a line.
        Steps = "steps",
        /// There is no board.
        None = "none",
    }
}

/// How runs of a protocol are drawn. It decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoardCode {
    /// The kind of board.
    pub kind: BoardKind,
    /// The states whose entry is no news.
    pub quiet: Vec<Name>,
    /// The meter that counts its rounds.
    pub rounds: Option<Name>,
}

/// An input of a protocol.
#[derive(Clone, Debug)]
pub struct InputCode {
    /// The name that `INPUT` declares.
    pub name: Name,
    /// Its value when it is not given; `None` when it must be given.
    pub default: Option<Value>,
    /// The type of its values.
    pub ty: Type,
}

/// A meter of a protocol.
#[derive(Clone, Debug)]
pub struct LimitCode {
    /// The name that `LIMIT` declares.
    pub meter: Name,
    /// The limit when the instance opens.
    pub limit: Expr,
    /// The limit when that input says that word.
    pub variant: Option<(Name, Name, Expr)>,
    /// Whether it has one counter for each key.
    pub keyed: bool,
    /// Where to go when it cannot be paid; `None` holds.
    pub target: Option<Name>,
}

/// A state of a protocol.
#[derive(Clone, Debug)]
pub struct StateCode {
    /// The name that `STATE` declares.
    pub name: Name,
    /// Its parameters, with defaults.
    pub params: Vec<(Name, Option<Arg>)>,
    /// Its statements, in reading order.
    pub nodes: Vec<Node>,
    /// Changes when any statement of the state changes.
    pub code: Name,
    /// The states that its edges lead to.
    pub targets: Vec<Name>,
}

/// A statement in its row.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is; blocks inside are reached by `body` and `otherwise`.
    pub what: StatementKind,
    /// The statement that comes after it; `None` at the end of the state or of a FOR EACH block.
    pub next: Option<u32>,
    /// The statement that encloses it.
    pub up: Option<u32>,
    /// The first statement of its block.
    pub body: Option<u32>,
    /// The first statement of its ELSE.
    pub otherwise: Option<u32>,
    /// What it asks, for steps that ask.
    pub calls: Vec<CallCode>,
    /// The conditions around it, outermost first, as they are written.
    pub guards: Arc<Vec<Name>>,
}

/// A call, looked up.
#[derive(Clone, Debug)]
pub struct CallCode {
    /// The action, agent, protocol or person that the call is for.
    pub whom: Performer,
    /// The arguments, not yet evaluated.
    pub args: Args,
    /// Parameters that must not be `none`.
    pub required: Vec<Name>,
    /// The parameter that takes the last result.
    pub piped: Option<Name>,
    /// The type that its answer must have.
    pub answer: Type,
    /// Its name as a branch of PARALLEL.
    pub branch: Name,
}

impl Program {
    /// The state of that name.
    pub fn state(&self, name: &str) -> Option<&StateCode> {
        // A name that an instance got from here is the same text, not only an equal one.
        let same = |state: &&StateCode| std::ptr::eq(&*state.name, name);
        self.states
            .iter()
            .find(same)
            .or_else(|| self.index.get(name).and_then(|index| self.states.get(*index)))
    }

    /// The meter of that name.
    pub fn limit(&self, meter: &str) -> Option<&LimitCode> {
        self.limits.iter().find(|limit| &*limit.meter == meter)
    }

    /// Whether the variable is tracked.
    pub fn tracks(&self, name: &str) -> bool {
        self.tracks.iter().any(|(track, _)| &**track == name)
    }

    /// Whether an edge leads from one state to another.
    pub fn leads(&self, from: &str, to: &str) -> bool {
        self.state(from).is_some_and(|state| state.targets.iter().any(|target| &**target == to))
    }

    /// The states that an edge leads to from a state, in the order of the states.
    pub fn targets<'a>(&'a self, from: &'a str) -> impl Iterator<Item = &'a Name> {
        self.states
            .iter()
            .map(|state| &state.name)
            .filter(move |to| self.edges.iter().any(|(start, end)| &**start == from && end == *to))
    }
}

impl StateCode {
    /// The statement at a place.
    pub fn node(&self, place: u32) -> Option<&Node> {
        self.nodes.get(place as usize)
    }

    /// The places of every GOTO to a state, in reading order.
    pub fn gotos(&self, to: &str) -> Vec<u32> {
        let leads = |node: &Node| matches!(&node.what, StatementKind::Exit(Exit::Goto { target, .. }) if &*target.name == to);
        (0u32..).zip(&self.nodes).filter(|(_, node)| leads(node)).map(|(place, _)| place).collect()
    }

    /// The meter that is paid on the way to a statement: by a PAY above it in its own block, or in one around it.
    pub fn pays(&self, place: u32) -> Option<&Name> {
        let mut inner = Some(place);
        while let Some(at) = inner {
            let up = self.node(at)?.up;
            let above = (0..at).rev().filter_map(|place| self.node(place)).filter(|node| node.up == up);
            let mut paid = above.filter_map(|node| match node.step() {
                Some(Step::Pay { meter, .. }) => Some(&meter.name),
                Some(_) | None => None,
            });
            if let Some(meter) = paid.next() {
                return Some(meter);
            }
            inner = up;
        }
        None
    }

    /// The step in whose ELSE a statement stands, the nearest one.
    pub fn else_of(&self, place: u32) -> Option<u32> {
        let mut inner = place;
        while let Some(up) = self.node(inner).and_then(|node| node.up) {
            let otherwise = self.node(up).and_then(|node| node.otherwise);
            if otherwise.is_some_and(|first| inner >= first) {
                return Some(up);
            }
            inner = up;
        }
        None
    }

    /// Whether a statement encloses another one, however deep.
    pub fn encloses(&self, outer: u32, inner: u32) -> bool {
        let mut at = self.node(inner).and_then(|node| node.up);
        while let Some(up) = at {
            if up == outer {
                return true;
            }
            at = self.node(up).and_then(|node| node.up);
        }
        false
    }
}

impl Node {
    /// The name that the step gives to its answer.
    pub fn bind(&self) -> Option<&Name> {
        match &self.what {
            StatementKind::Step { step, .. } => match step {
                Step::Do { bind, .. } | Step::Parallel { bind, .. } | Step::ForEach { bind, .. } => {
                    bind.as_ref()
                }
                Step::WaitFor { bind, .. } | Step::WaitWords { bind, .. } => bind.as_ref(),
                Step::Check { bind, .. } | Step::Ask { bind, .. } => Some(bind),
                Step::Pay { .. } => None,
            },
            StatementKind::If { .. }
            | StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..) => None,
            StatementKind::Use(_)
            | StatementKind::Exit(_)
            | StatementKind::Proceed
            | StatementKind::Broken => None,
        }
        .map(|ident| &ident.name)
    }

    /// The step, if the statement is one.
    pub fn step(&self) -> Option<&Step> {
        match &self.what {
            StatementKind::Step { step, .. } => Some(step),
            StatementKind::If { .. }
            | StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..) => None,
            StatementKind::Use(_)
            | StatementKind::Exit(_)
            | StatementKind::Proceed
            | StatementKind::Broken => None,
        }
    }
}
