//! Building: a document that the checker found sound becomes the program that the interpreter walks.
//!
//! Statements are laid in one row per state, and calls are looked up in the catalogue. Nothing is checked here.

use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::performer::Performer;
use ftl_core::program::{CallCode, InputCode, LimitCode, Node, Program, StateCode};
use ftl_core::run::eval;
use ftl_core::syntax::{
    Arg, Args, Block, Call, Preset, State, Statement, StatementKind, Step, Target, print,
};
use ftl_core::types::Type;
use ftl_core::value::{Name, Value};

use crate::check::calls::{branch_names, preset_type, question_type, word_type};
use crate::check::headers::choice_input;
use crate::check::{Pasted, ProvenEdge};
use crate::source::digest;

/// Builds the program of a document that the checker found sound, with its edges.
pub fn build(pasted: &Pasted, edges: &[ProvenEdge], digest: &str, catalogue: &Catalogue) -> Program {
    let document = &pasted.document;
    let states: Vec<StateCode> = pasted
        .states
        .iter()
        .map(|state| {
            let mut nodes = Vec::new();
            lay(
                &state.body,
                &Around { guards: Arc::default(), up: None, after: None },
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
                targets: edges
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
        tracks: document.tracks.iter().map(|track| (track.name.name.clone(), track.first.clone())).collect(),
        gates: document
            .gates
            .iter()
            .map(|gate| (gate.actions.iter().map(|one| one.name.clone()).collect(), gate.state.name.clone()))
            .collect(),
        redo: document.redo.as_ref().map(|redo| redo.name.clone()),
        states,
        edges: edges.iter().map(|edge| (edge.from.clone(), edge.to.clone())).collect(),
        index,
    }
}

struct Around {
    guards: Arc<Vec<Name>>,
    up: Option<u32>,
    after: Option<u32>,
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
            calls: calls(statement, catalogue),
            guards: around.guards.clone(),
        });
        let (body, otherwise) = inside(statement);
        let is_each = matches!(&statement.what, StatementKind::Step { step: Step::ForEach { .. }, .. });
        if let Some(body) = body {
            nodes[place as usize].body = body.first().map(|first| first.place);
            let after = if is_each { None } else { next };
            let guards = guards_inside(&statement.what, &around.guards);
            lay(body, &Around { guards, up: Some(place), after }, catalogue, nodes);
        }
        if let Some(otherwise) = otherwise {
            nodes[place as usize].otherwise = otherwise.first().map(|first| first.place);
            let guards = around.guards.clone();
            lay(otherwise, &Around { guards, up: Some(place), after: next }, catalogue, nodes);
        }
    }
}

fn guards_inside(what: &StatementKind, outer: &Arc<Vec<Name>>) -> Arc<Vec<Name>> {
    match what {
        StatementKind::If { condition, .. } => {
            Arc::new(outer.iter().cloned().chain([Name::from(condition.to_string())]).collect())
        }
        StatementKind::Step { .. }
        | StatementKind::Emit(_)
        | StatementKind::Set(..)
        | StatementKind::Increment(_)
        | StatementKind::Refill(..) => outer.clone(),
        StatementKind::Use(_) | StatementKind::Exit(_) | StatementKind::Proceed | StatementKind::Broken => {
            outer.clone()
        }
    }
}

fn inside(statement: &Statement) -> (Option<&Block>, Option<&Block>) {
    match &statement.what {
        StatementKind::If { body, .. } => (Some(body), None),
        StatementKind::Step { step: Step::ForEach { body, .. }, otherwise } => {
            (Some(body), otherwise.as_ref())
        }
        StatementKind::Step { otherwise, .. } => (None, otherwise.as_ref()),
        StatementKind::Emit(_)
        | StatementKind::Set(..)
        | StatementKind::Increment(_)
        | StatementKind::Refill(..) => (None, None),
        StatementKind::Use(_) | StatementKind::Exit(_) | StatementKind::Proceed | StatementKind::Broken => {
            (None, None)
        }
    }
}

fn calls(statement: &Statement, catalogue: &Catalogue) -> Vec<CallCode> {
    let StatementKind::Step { step, .. } = &statement.what else { return Vec::new() };
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
            vec![person_code(Performer::Word, word_type(words.iter().map(|word| &word.name), catalogue))]
        }
        Step::Ask { args, .. } => vec![person_code(Performer::Question, question_type(args))],
        Step::ForEach { .. } | Step::Pay { .. } => Vec::new(),
    }
}

fn call_code(call: &Call, pipe: bool, catalogue: &Catalogue) -> CallCode {
    let given = call.args.iter().map(|(name, _)| &*name.name);
    let mut code = CallCode {
        whom: Performer::Shell,
        args: call.args.clone(),
        required: Vec::new(),
        piped: None,
        answer: Type::Any,
        branch: branch_names(std::slice::from_ref(call)).into_iter().next().unwrap_or_default(),
    };
    let declared = match &call.target {
        Target::Action(action) => {
            code.whom = Performer::Action(action.name.clone());
            catalogue.action(&action.name)
        }
        Target::Shell(_) => catalogue.action("sh"),
        Target::Run(protocol) => {
            code.whom = Performer::Run(protocol.name.clone());
            return code;
        }
        Target::Task(role) => {
            code.whom = Performer::Task(role.name.clone());
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
fn person_code(whom: Performer, answer: Type) -> CallCode {
    CallCode {
        branch: Name::from(whom.to_string()),
        whom,
        args: Args::new(),
        required: Vec::new(),
        piped: None,
        answer,
    }
}

fn input_code(name: &Name, preset: Option<&Preset>) -> InputCode {
    let known = preset.map(preset_type).filter(|ty| *ty != Type::Unknown);
    let ty = known.unwrap_or(Type::Any);
    let default = match preset {
        None => None,
        Some(Preset::Choice(words)) => words.first().map(|word| Value::Text(word.name.clone())),
        Some(Preset::Value(expr)) => Some(eval::constant(expr)),
    };
    InputCode { name: name.clone(), default, ty }
}

/// A short digest of a state as it is written, patterns in place, without its position.
fn code_of(state: &State) -> Name {
    let mut text = String::new();
    for param in &state.params {
        text.push_str(&format!("{}={:?};", param.name.name, param.default.as_ref().map(ToString::to_string)));
    }
    print::block(&state.body, &mut text);
    Name::from(&digest(&text)[..16])
}
