//! The program: a sound protocol in the form that the interpreter walks.
//!
//! Statements stand in one row per state; each knows what comes after it, what encloses it, and
//! where its block and its ELSE begin. The place inside a state is the number of a statement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::language::check::calls::{branch_names, preset_type, question_type, word_type};
use crate::language::check::headers::choice_input;
use crate::language::check::{Findings, Pasted};
use crate::language::source::Span;
use crate::language::syntax::{Arg, Args, Block, Call, Exit, Expr, Preset, Statement, Step, Target, What};
use crate::types::Type;
use crate::value::{Name, Value};

/// A sound protocol.
#[derive(Clone, Debug)]
pub struct Program {
    /// The protocol's name.
    pub name: Name,
    /// The digest of its document.
    pub digest: Name,
    /// What the instance is opened with.
    pub inputs: Vec<InputCode>,
    /// The meters.
    pub limits: Vec<LimitCode>,
    /// The tracked variables and their first values.
    pub tracks: Vec<(Name, Option<Expr>)>,
    /// Any of the gates, before the state.
    pub gates: Vec<(Vec<Name>, Name)>,
    /// The meter that a redo pays.
    pub redo: Option<Name>,
    /// The states; the first is the start.
    pub states: Vec<StateCode>,
    /// Every declared edge.
    pub edges: BTreeSet<(Name, Name)>,
    index: BTreeMap<Name, usize>,
}

/// An input.
#[derive(Clone, Debug)]
pub struct InputCode {
    /// Its name.
    pub name: Name,
    /// Its value when it is not given; `None` when it must be given.
    pub default: Option<Value>,
    /// What it may be.
    pub ty: Type,
}

/// A meter.
#[derive(Clone, Debug)]
pub struct LimitCode {
    /// Its name.
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

/// A state.
#[derive(Clone, Debug)]
pub struct StateCode {
    /// Its name.
    pub name: Name,
    /// What it takes, with defaults.
    pub params: Vec<(Name, Option<Arg>)>,
    /// Its statements, in reading order.
    pub nodes: Vec<Node>,
    /// Changes when any statement of the state changes.
    pub code: Name,
    /// Where its edges lead.
    pub targets: Vec<Name>,
}

/// A statement in its row.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is; blocks inside are reached by `body` and `otherwise`.
    pub what: What,
    /// The statement that comes after it; `None` at the end of the state or of a FOR EACH block.
    pub next: Option<u32>,
    /// The statement that encloses it.
    pub up: Option<u32>,
    /// The first statement of its block.
    pub body: Option<u32>,
    /// The first statement of its ELSE.
    pub otherwise: Option<u32>,
    /// The FOR EACH that encloses it.
    pub each: Option<u32>,
    /// What it asks, for steps that ask.
    pub calls: Vec<CallCode>,
    /// The conditions around it, outermost first, as they are written.
    pub guards: Arc<Vec<Name>>,
    /// Where it stands in the document.
    pub span: Span,
}

/// A call, looked up.
#[derive(Clone, Debug)]
pub struct CallCode {
    /// Whom it asks.
    pub whom: Whom,
    /// With what.
    pub args: Args,
    /// Parameters that must not be `none`.
    pub required: Vec<Name>,
    /// The parameter that takes the last result.
    pub piped: Option<Name>,
    /// How entries name it: `verify.run`, `Task(builder)`, `Run(builder)`, `sh`.
    pub label: Name,
    /// What it must answer.
    pub answer: Type,
    /// Its name as a branch of PARALLEL.
    pub branch: Name,
}

/// Whom a call asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// An action of the catalogue.
    Action(Name),
    /// An agent in a role.
    Task(Name),
    /// A child.
    Run(Name),
    /// A shell command.
    Shell,
}

impl Program {
    /// Builds the program of a document that the checker found sound.
    pub fn new(pasted: &Pasted, findings: &Findings, digest: &str, catalogue: &Catalogue) -> Program {
        let document = &pasted.document;
        let states: Vec<StateCode> = pasted
            .states
            .iter()
            .map(|state| {
                let mut nodes = Vec::new();
                lay(
                    &state.body,
                    &Around { guards: Arc::default(), up: None, after: None, each: None },
                    catalogue,
                    &mut nodes,
                );
                StateCode {
                    name: state.name.name.clone(),
                    params: state
                        .params
                        .iter()
                        .map(|param| (param.name.name.clone(), param.default.clone()))
                        .collect(),
                    nodes,
                    code: code_of(state),
                    targets: findings
                        .edges
                        .iter()
                        .filter(|edge| edge.from == state.name.name)
                        .map(|edge| edge.to.clone())
                        .collect(),
                }
            })
            .collect();
        let index = states.iter().enumerate().map(|(index, state)| (state.name.clone(), index)).collect();
        Program {
            name: pasted.name(),
            digest: Name::from(digest),
            inputs: document
                .inputs
                .iter()
                .map(|input| input_code(&input.name.name, input.default.as_ref()))
                .collect(),
            limits: document
                .limits
                .iter()
                .map(|limit| LimitCode {
                    meter: limit.meter.name.clone(),
                    limit: limit.limit.clone(),
                    variant: limit.variant.as_ref().and_then(|(word, expr)| {
                        let input = choice_input(pasted, &word.name)?;
                        Some((input.name.clone(), word.name.clone(), expr.clone()))
                    }),
                    keyed: limit.per.is_some(),
                    target: limit.target.as_ref().map(|target| target.name.clone()),
                })
                .collect(),
            tracks: document
                .tracks
                .iter()
                .map(|track| (track.name.name.clone(), track.first.clone()))
                .collect(),
            gates: document
                .gates
                .iter()
                .map(|gate| {
                    (gate.actions.iter().map(|one| one.name.clone()).collect(), gate.state.name.clone())
                })
                .collect(),
            redo: document.redo.as_ref().map(|redo| redo.name.clone()),
            states,
            edges: findings.edges.iter().map(|edge| (edge.from.clone(), edge.to.clone())).collect(),
            index,
        }
    }

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
        let leads =
            |node: &Node| matches!(&node.what, What::Exit(Exit::Goto { target, .. }) if &*target.name == to);
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
            What::Step { step, .. } => match step {
                Step::Do { bind, .. } | Step::Parallel { bind, .. } | Step::ForEach { bind, .. } => {
                    bind.as_ref()
                }
                Step::WaitFor { bind, .. } | Step::WaitWords { bind, .. } => bind.as_ref(),
                Step::Check { bind, .. } | Step::Ask { bind, .. } => Some(bind),
                Step::Pay { .. } => None,
            },
            What::If { .. } | What::Emit(_) | What::Set(..) | What::Increment(_) | What::Refill(..) => None,
            What::Use(_) | What::Exit(_) | What::Proceed | What::Broken => None,
        }
        .map(|ident| &ident.name)
    }

    /// The step, if the statement is one.
    pub fn step(&self) -> Option<&Step> {
        match &self.what {
            What::Step { step, .. } => Some(step),
            What::If { .. } | What::Emit(_) | What::Set(..) | What::Increment(_) | What::Refill(..) => None,
            What::Use(_) | What::Exit(_) | What::Proceed | What::Broken => None,
        }
    }
}

struct Around {
    guards: Arc<Vec<Name>>,
    up: Option<u32>,
    after: Option<u32>,
    each: Option<u32>,
}

/// Lays the statements of a block in the row, in the order of their places.
fn lay(block: &Block, around: &Around, catalogue: &Catalogue, nodes: &mut Vec<Node>) {
    for (index, statement) in block.iter().enumerate() {
        let place = nodes.len() as u32;
        let next = block.get(index + 1).map(|next| next.place).or(around.after);
        nodes.push(Node {
            what: statement.what.clone(),
            next,
            up: around.up,
            body: None,
            otherwise: None,
            each: around.each,
            calls: calls(statement, catalogue),
            guards: around.guards.clone(),
            span: statement.span,
        });
        let (body, otherwise) = inside(statement);
        let is_each = matches!(&statement.what, What::Step { step: Step::ForEach { .. }, .. });
        if let Some(body) = body {
            nodes[place as usize].body = body.first().map(|first| first.place);
            let after = if is_each { None } else { next };
            let each = if is_each { Some(place) } else { around.each };
            let guards = guards_inside(&statement.what, &around.guards);
            lay(body, &Around { guards, up: Some(place), after, each }, catalogue, nodes);
        }
        if let Some(otherwise) = otherwise {
            nodes[place as usize].otherwise = otherwise.first().map(|first| first.place);
            let guards = around.guards.clone();
            lay(
                otherwise,
                &Around { guards, up: Some(place), after: next, each: around.each },
                catalogue,
                nodes,
            );
        }
    }
}

fn guards_inside(what: &What, outer: &Arc<Vec<Name>>) -> Arc<Vec<Name>> {
    match what {
        What::If { condition, .. } => {
            Arc::new(outer.iter().cloned().chain([Name::from(condition.to_string())]).collect())
        }
        What::Step { .. } | What::Emit(_) | What::Set(..) | What::Increment(_) | What::Refill(..) => {
            outer.clone()
        }
        What::Use(_) | What::Exit(_) | What::Proceed | What::Broken => outer.clone(),
    }
}

fn inside(statement: &Statement) -> (Option<&Block>, Option<&Block>) {
    match &statement.what {
        What::If { body, .. } => (Some(body), None),
        What::Step { step: Step::ForEach { body, .. }, otherwise } => (Some(body), otherwise.as_ref()),
        What::Step { otherwise, .. } => (None, otherwise.as_ref()),
        What::Emit(_) | What::Set(..) | What::Increment(_) | What::Refill(..) => (None, None),
        What::Use(_) | What::Exit(_) | What::Proceed | What::Broken => (None, None),
    }
}

fn calls(statement: &Statement, catalogue: &Catalogue) -> Vec<CallCode> {
    let What::Step { step, .. } = &statement.what else { return Vec::new() };
    match step {
        Step::Do { call, pipe, .. } | Step::Check { call, pipe, .. } => {
            vec![call_code(call, *pipe, catalogue)]
        }
        Step::WaitFor { call, .. } => vec![call_code(call, false, catalogue)],
        Step::Parallel { calls, .. } => {
            let names = branch_names(calls);
            let named = calls.iter().zip(names);
            named.map(|(call, branch)| CallCode { branch, ..call_code(call, false, catalogue) }).collect()
        }
        Step::WaitWords { words, .. } => {
            vec![person_code("word", word_type(words.iter().map(|word| &word.name), catalogue))]
        }
        Step::Ask { args, .. } => vec![person_code("question", question_type(args))],
        Step::ForEach { .. } | Step::Pay { .. } => Vec::new(),
    }
}

fn call_code(call: &Call, pipe: bool, catalogue: &Catalogue) -> CallCode {
    let given = call.args.iter().map(|(name, _)| &*name.name);
    let mut code = CallCode {
        whom: Whom::Shell,
        args: call.args.clone(),
        required: Vec::new(),
        piped: None,
        label: Name::from("sh"),
        answer: Type::Any,
        branch: branch_names(std::slice::from_ref(call)).into_iter().next().unwrap_or_default(),
    };
    let declared = match &call.target {
        Target::Action(action) => {
            code.whom = Whom::Action(action.name.clone());
            code.label = action.name.clone();
            catalogue.action(&action.name)
        }
        Target::Shell(_) => catalogue.action("sh"),
        Target::Run(protocol) => {
            code.whom = Whom::Run(protocol.name.clone());
            code.label = Name::from(format!("Run({})", protocol.name));
            return code;
        }
        Target::Task(role) => {
            code.whom = Whom::Task(role.name.clone());
            code.label = Name::from(format!("Task({})", role.name));
            let form = catalogue.role(&role.name).and_then(|declared| {
                let word = call.args.iter().find(|(name, _)| declared.selector == Some(&*name.name));
                let word = word.and_then(|(_, arg)| match arg {
                    Arg::Words(words) => words.first().map(|word| &*word.name),
                    Arg::Number(..) | Arg::Duration(..) | Arg::Text(_) | Arg::None(_) | Arg::Brace(..) => {
                        None
                    }
                });
                declared.pick(word, &given)
            });
            if let Some(form) = form {
                let required = form.params.iter().filter(|(_, field)| field.required);
                code.required = required.map(|(name, _)| name.clone()).collect();
                code.answer = form.answer.clone();
            }
            return code;
        }
    };
    if let Some(declared) = declared {
        let required = declared.params.iter().filter(|(_, field)| field.required);
        code.required = required.map(|(name, _)| name.clone()).collect();
        code.answer = declared.answer.clone();
        code.piped = declared.piped.filter(|_| pipe).map(Name::from);
    }
    code
}

/// What is asked of a person: nothing is handed over, and the answer has a type.
fn person_code(label: &str, answer: Type) -> CallCode {
    CallCode {
        whom: Whom::Action(Name::from(label)),
        args: Args::new(),
        required: Vec::new(),
        piped: None,
        label: Name::from(label),
        answer,
        branch: Name::from(label),
    }
}

fn input_code(name: &Name, preset: Option<&Preset>) -> InputCode {
    let ty = preset.map_or(Type::Any, |preset| match preset_type(preset) {
        Type::Unknown => Type::Any,
        known => known,
    });
    let default = match preset {
        None => None,
        Some(Preset::Choice(words)) => words.first().map(|word| Value::Text(word.name.clone())),
        Some(Preset::Value(expr)) => Some(crate::run::eval::constant(expr)),
    };
    InputCode { name: name.clone(), default, ty }
}

/// A short digest of a state as it is written, patterns in place, without its position.
fn code_of(state: &crate::language::syntax::State) -> Name {
    let mut text = String::new();
    for param in &state.params {
        text.push_str(&format!("{}={:?};", param.name.name, param.default.as_ref().map(ToString::to_string)));
    }
    crate::language::print::block(&state.body, &mut text);
    Name::from(&crate::library::digest(&text)[..16])
}
