//! Steps: asking for one thing, and hearing of it.
//!
//! A step writes what it asks before any executor or agent is told to do it. What comes back is checked against
//! the declared type first: an answer that does not fit is a failure of the step, so that a closed
//! set of verdicts stays closed.

use super::draft::Draft;
use super::eval::{self, Names};
use super::fact::{
    ActionId, Answer, Ask, Bind, End, Fact, Failure, FailureKind, Fan, InstanceId, Limit, Opened, Payment,
    ThreadId, WHOLE,
};
use super::input::{Action, ActionTarget};
use super::instance::{Open, OpenKind};
use super::repeats::{self, REPEATED};
use super::walk::{Flow, Here, state_arguments};
use crate::performer::Performer;
use crate::program::{CallCode, Node, Program};
use crate::syntax::{Step, Target};
use crate::types::Type;
use crate::value::{Fields, Name, Value};

/// How deep children may open children.
pub(super) const MAX_CHILDREN_DEPTH: u32 = 8;
/// How many attempts a step has: how often its agent or command may die, and its agent make a call that it may
/// not make, before the step fails.
pub(super) const MAX_ATTEMPTS: u32 = 3;

/// How an action was heard of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How<'a> {
    /// From an executor or an agent, with its last report.
    Plain,
    /// From a person or a policy.
    By(&'a str),
    /// It was cut short: its last report is still to come.
    Cut,
}

impl Draft<'_> {
    pub(super) fn step(&mut self, here: &Here<'_>, step: &Step) -> Flow {
        match step {
            Step::Do { .. } | Step::Check { .. } | Step::WaitFor { .. } => self.ask_one(here),
            Step::Parallel { .. } => self.ask_parallel(here),
            Step::ForEach { .. } => self.ask_each(here),
            Step::WaitWords { words, .. } => {
                let words = words.iter().map(|word| word.name.clone()).collect();
                self.ask_words(here, words)
            }
            Step::Ask { .. } => self.ask_question(here),
            Step::Pay { meter, per } => {
                let keys = per.as_ref().map(|(_, list)| self.value(here, |names| eval::eval(list, names)));
                self.pay(here, &meter.name, keys.as_ref())
            }
        }
    }

    fn ask_one(&mut self, here: &Here<'_>) -> Flow {
        let Some(code) = here.node.calls.first() else { return Flow::On(here.node.next) };
        let params = match self.params(here, code) {
            Ok(params) => params,
            Err(failure) => return self.could_not_ask(here, &failure),
        };
        if let Some(flow) = self.cannot_afford(here, &code.whom) {
            return flow;
        }
        let ask = self.ask_of(code, &params);
        let entry = self.put(
            here.id,
            Fact::Asked { thread: here.thread.clone(), place: here.place, asks: vec![ask], fan: None },
        );
        self.begin(here, code, ActionId { entry, index: 0 }, params);
        Flow::Rest
    }

    /// How an entry names what is asked.
    pub(super) fn ask_of(&self, code: &CallCode, params: &Fields) -> Ask {
        Ask { whom: code.whom.clone(), branch: code.branch.clone(), digest: self.digest(params) }
    }

    pub(super) fn digest(&self, params: &Fields) -> Name {
        self.run.digests.of(params)
    }

    /// Starts one thing that was asked for.
    pub(super) fn begin(&mut self, here: &Here<'_>, code: &CallCode, id: ActionId, params: Fields) {
        if let Performer::Run(protocol) = &code.whom {
            return self.open_child(here.id, id, protocol, params);
        }
        self.set_aside(here.id, id, &code.whom);
        if let Some(wanted) = resolve_performer(here.node, code) {
            self.start(Action { instance: here.id, id, wanted, params, forbidden: None });
        }
    }

    /// A step that cannot even be asked.
    pub(super) fn could_not_ask(&mut self, here: &Here<'_>, failure: &Failure) -> Flow {
        let what = crate::syntax::print::line(&here.node.what);
        self.put(
            here.id,
            Fact::Refused {
                thread: Some(here.thread.clone()).filter(|_| !self.is_waiving(here)),
                place: Some(here.place),
                what,
                failure: failure.clone(),
                by: None,
            },
        );
        self.fail(here, failure)
    }

    fn is_waiving(&self, here: &Here<'_>) -> bool {
        self.get(here.id)
            .and_then(|one| one.thread(here.thread))
            .is_some_and(|thread| thread.waiving.is_some())
    }

    /// The parameters of a call; one that must be there and is not is a failure.
    pub(super) fn params(&self, here: &Here<'_>, code: &CallCode) -> Result<Fields, Failure> {
        let thread = self.get(here.id).and_then(|one| one.thread(here.thread));
        let last = thread.map_or(Value::None, |thread| thread.last.clone());
        match self.get(here.id) {
            Some(instance) => params_of(here.node, code, &here.names(instance), &last),
            None => params_of(here.node, code, &eval::Nothing, &last),
        }
    }

    fn pay(&mut self, here: &Here<'_>, meter: &Name, keys: Option<&Value>) -> Flow {
        let keys = keys_of(keys);
        let Some(counter) = self.get(here.id).and_then(|one| one.meters.get(meter)) else {
            let failure = Failure::new(FailureKind::CouldNotRun, format!("there is no meter `{meter}`"));
            return self.could_not_ask(here, &failure);
        };
        if counter.can_pay(&keys, 0) {
            let (meter, action, file) = (meter.clone(), None, None);
            self.put(here.id, Fact::Paid(Payment::Meter { meter, keys, action, file }));
            return Flow::On(here.node.next);
        }
        let failure = spent_meter(meter, counter.limit, &keys);
        self.could_not_ask(here, &failure)
    }

    /// Opens a child for an action that was asked for.
    fn open_child(&mut self, parent: InstanceId, action: ActionId, protocol: &Name, given: Fields) {
        let depth = self.get(parent).map_or(0, |one| one.depth + 1);
        let failure = if depth > MAX_CHILDREN_DEPTH {
            Some(format!("children may open children {MAX_CHILDREN_DEPTH} deep"))
        } else {
            self.open(protocol, given, Some((parent, action)), None).err()
        };
        if let Some(message) = failure {
            self.answer(parent, action, Err(Failure::new(FailureKind::CouldNotRun, message)));
        }
    }

    /// Opens an instance: inputs, variables and limits are fixed here.
    pub(super) fn open(
        &mut self,
        protocol: &Name,
        given: Fields,
        parent: Option<(InstanceId, ActionId)>,
        terms: Option<super::fact::Terms>,
    ) -> Result<InstanceId, String> {
        let program = self.run.programs().program(protocol).cloned();
        let program = program.ok_or_else(|| format!("there is no sound protocol `{protocol}`"))?;
        let inputs = inputs(&program, given)?;
        let first = program.states.first().ok_or_else(|| format!("`{protocol}` has no state"))?;
        let names = Given(&inputs);
        let opened = Opened {
            protocol: protocol.clone(),
            digest: program.digest.clone(),
            state: first.name.clone(),
            code: first.code.clone(),
            params: state_arguments(first, Fields::new(), &names),
            parent,
            tracked: program
                .tracks
                .iter()
                .map(|(name, value)| {
                    (name.clone(), value.as_ref().map_or(Value::None, |value| eval::eval(value, &names)))
                })
                .collect(),
            meters: program
                .limits
                .iter()
                .map(|limit| Ok((limit.meter.clone(), limit_of(limit, &inputs)?)))
                .collect::<Result<_, String>>()?,
            inputs: inputs.clone(),
            terms,
        };
        let id = self.next_instance();
        self.put(id, Fact::Opened(Box::new(opened)));
        self.later(id, ThreadId::Main, Some(0));
        Ok(id)
    }

    /// Hears of an action: the answer is checked, kept, and the line of work goes on.
    pub(super) fn answer(&mut self, id: InstanceId, action: ActionId, result: Result<Value, Failure>) {
        self.answer_how(id, action, result, How::Plain);
    }

    /// Hears of an action: from the world, from a person, or because it was cut short.
    pub(super) fn answer_how(
        &mut self,
        id: InstanceId,
        action: ActionId,
        result: Result<Value, Failure>,
        how: How<'_>,
    ) {
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)).cloned() else { return };
        if let Some(message) = self.changed(id) {
            return self.hold_changed(id, message);
        }
        let Some(program) = self.program(id) else { return };
        let Some(name) = self.get(id).map(|one| one.state.clone()) else { return };
        let Some(state) = program.state(&name) else { return };
        let Some(node) = state.node(open.place) else { return };
        let here = Here { id, thread: &open.thread, place: open.place, node, state, program: &program };
        let result = result.and_then(|value| fits(node, &open, action, value));
        if how != How::Cut {
            self.settle_purse(id, action);
        }
        let whole = ActionId { entry: action.entry, index: WHOLE };
        let branch = action.index != WHOLE && self.get(id).is_some_and(|one| one.open.contains_key(&whole));
        let bind = if branch || open.kind == OpenKind::Record { None } else { here.bind() };
        let answer = match &result {
            Ok(value) => Answer::Done(value.clone()),
            Err(failure) => Answer::Failed(failure.clone()),
        };
        let by = match how {
            How::By(name) => Some(name.to_owned()),
            How::Plain | How::Cut => None,
        };
        let told = if branch { None } else { self.counted_failure(&here, &open, &result) };
        let failing = told.as_deref().map(repeats::signature_name);
        self.put(id, Fact::Heard { action, answer, bind, by, cut: how == How::Cut, failing });
        if branch {
            return self.parallel_answer(id, whole);
        }
        if let Some(told) = told.filter(|_| self.is_repeated(&here)) {
            let kind = result.as_ref().err().map_or(FailureKind::Failed, |failure| failure.kind);
            let failure = Failure::new(kind, format!("{REPEATED}{told}"));
            let flow = self.end_repeated(&here, &failure, result.is_err());
            return self.follow(id, &open.thread, flow);
        }
        let flow = match (&result, &open.kind) {
            (Ok(_), OpenKind::Record) => Flow::On(Some(0)),
            (Ok(_), _) => Flow::On(node.next),
            (Err(failure), OpenKind::Record) => self.record_failed(&here, failure),
            (Err(failure), _) => self.fail(&here, failure),
        };
        self.follow(id, &open.thread, flow);
    }

    fn record_failed(&mut self, here: &Here<'_>, failure: &Failure) -> Flow {
        let waiving =
            self.get(here.id).and_then(|one| one.thread(here.thread)).and_then(|one| one.waiving.clone());
        if let Some(waiving) = waiving {
            self.waiver_refused(here.id, &waiving, failure);
        }
        Flow::Rest
    }

    /// Goes on later in this decision.
    pub(super) fn follow(&mut self, id: InstanceId, thread: &ThreadId, flow: Flow) {
        match flow {
            Flow::On(at) => self.later(id, thread.clone(), at),
            Flow::Entered => self.later(id, ThreadId::Main, Some(0)),
            Flow::Rest => {}
        }
    }

    /// Ends an action that the instance no longer waits for.
    pub(super) fn drop_action(&mut self, id: InstanceId, action: ActionId) {
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)).cloned() else { return };
        match &open.kind {
            OpenKind::Child(Some(child)) => self.settle(*child, End::Cancelled, &Fields::new()),
            OpenKind::Call | OpenKind::Words(_) | OpenKind::Question | OpenKind::Record => {
                self.cancel(id, action);
            }
            OpenKind::Child(None) | OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => {
            }
        }
    }

    /// What an open action asks, made again from the same place.
    pub(super) fn action_of(&self, id: InstanceId, action: ActionId) -> Option<Action> {
        let open = self.get(id)?.open.get(&action)?.clone();
        let program = self.program(id)?;
        let name = self.get(id)?.state.clone();
        let state = program.state(&name)?;
        let node = state.node(open.place)?;
        let mut then = self.get(id)?.clone();
        (then.tracked, then.meters) = (open.seen.tracked.clone(), open.seen.meters.clone());
        then.params = open.seen.params.clone();
        then.threads.insert(open.thread.clone(), open.seen.thread.clone());
        let names = then.names(&open.thread).failing(state.else_of(open.place));
        let (wanted, params) = match &open.kind {
            OpenKind::Words(words) => (ActionTarget::Word(words.clone()), Fields::new()),
            OpenKind::Question => (ActionTarget::Question, question_of(node, &names)),
            OpenKind::Record => {
                (ActionTarget::Action(Name::from(open.whom.action()?)), self.record_params(id)?)
            }
            OpenKind::Call => {
                let code = node.calls.get(action.index as usize)?;
                (resolve_performer(node, code)?, params_of(node, code, &names, &open.seen.thread.last).ok()?)
            }
            OpenKind::Child(_) | OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => {
                return None;
            }
        };
        Some(Action { instance: id, id: action, wanted, params, forbidden: open.forbidden.clone() })
    }

    /// An entry that asks for one thing of a person or of a waiver.
    pub(super) fn put_ask(
        &mut self,
        here: &Here<'_>,
        whom: Performer,
        params: &Fields,
        fan: Option<Fan>,
    ) -> ActionId {
        let branch = Name::from(whom.to_string());
        let ask = Ask { whom, branch, digest: self.digest(params) };
        let (thread, place) = (here.thread.clone(), here.place);
        let entry = self.put(here.id, Fact::Asked { thread, place, asks: vec![ask], fan });
        ActionId { entry, index: 0 }
    }
}

/// The name under which a step keeps its answer.
pub(super) fn answer_name(node: &Node, program: &Program) -> Option<Bind> {
    node.bind().map(|name| Bind { name: name.clone(), tracked: program.tracks(name) })
}

/// The parameters of a call, by what is known.
fn params_of(node: &Node, code: &CallCode, names: &dyn Names, last: &Value) -> Result<Fields, Failure> {
    let mut params = eval::fields(&code.args, names);
    if let Some(piped) = &code.piped {
        params.insert(piped.clone(), last.clone());
    }
    if code.whom == Performer::Shell {
        shell(node, names, &mut params);
    }
    match code.required.iter().find(|name| params.get(*name).is_none_or(Value::is_none)) {
        Some(name) => Err(Failure::new(FailureKind::CouldNotRun, format!("`{name}` is not known"))),
        None => Ok(params),
    }
}

/// A shell command: its holes become positional parameters, never text of the script.
fn shell(node: &Node, names: &dyn Names, params: &mut Fields) {
    let Some(Step::Do { call, .. }) = node.step() else { return };
    let Target::Shell(template) = &call.target else { return };
    let (mut script, mut args) = (String::new(), Vec::new());
    for part in &template.parts {
        match part {
            crate::syntax::TemplatePart::Text(text) => script.push_str(text),
            crate::syntax::TemplatePart::Hole(expr) => {
                args.push(Value::text(eval::eval(expr, names).to_string()));
                script.push_str(&format!("\"${{{}}}\"", args.len()));
            }
        }
    }
    params.insert(Name::from("script"), Value::text(script));
    params.insert(Name::from("args"), Value::list(args));
}

/// The fields of a question, as a person is shown them.
pub(super) fn question_of(node: &Node, names: &dyn Names) -> Fields {
    let Some(Step::Ask { question, args, .. }) = node.step() else { return Fields::new() };
    let mut params = eval::fields(args, names);
    params.insert(Name::from("question"), eval::arg(question, names));
    params
}

fn resolve_performer(node: &Node, code: &CallCode) -> Option<ActionTarget> {
    match &code.whom {
        Performer::Action(name) => Some(ActionTarget::Action(name.clone())),
        Performer::Shell => Some(ActionTarget::Action(Name::from("sh"))),
        Performer::Task(role) => {
            let paying = match node.step() {
                Some(Step::Do { paying: Some(paying), .. }) => Some(paying.meter.name.clone()),
                Some(_) | None => None,
            };
            Some(ActionTarget::Task { role: role.clone(), paying })
        }
        Performer::Run(_) | Performer::Word | Performer::Question => None,
        Performer::Item | Performer::All => None,
    }
}

/// Whether an answer is what was declared.
fn fits(node: &Node, open: &Open, action: ActionId, value: Value) -> Result<Value, Failure> {
    if matches!(open.kind, OpenKind::Child(_)) || action.index == WHOLE {
        return Ok(value);
    }
    let any = Type::Any;
    let declared = match (&open.kind, node.calls.get(action.index as usize)) {
        (OpenKind::Record, _) | (_, None) => &any,
        (_, Some(code)) => &code.answer,
    };
    match declared.accept(&value) {
        Ok(()) => Ok(value),
        Err(message) => Err(Failure::new(
            FailureKind::Failed,
            format!("the answer of {} does not fit: {message}", open.whom),
        )),
    }
}

/// The keys of a payment. A payment for each of nothing still pays once, so that it always pays.
pub(super) fn keys_of(list: Option<&Value>) -> Vec<Name> {
    let keys: Vec<Name> =
        list.map_or(&[][..], Value::items).iter().map(|key| Name::from(key.to_string())).collect();
    if keys.is_empty() { vec![Name::default()] } else { keys }
}

/// A meter that cannot be paid.
pub(super) fn spent_meter(meter: &Name, limit: u64, keys: &[Name]) -> Failure {
    let keys: Vec<&str> = keys.iter().map(|key| &**key).filter(|key| !key.is_empty()).collect();
    let whom = if keys.is_empty() { String::new() } else { format!(" for {}", keys.join(", ")) };
    Failure::new(FailureKind::Exhausted, format!("{meter} spent{whom}: the limit is {limit}"))
}

/// Only inputs are known when limits and variables get their first values.
struct Given<'a>(&'a Fields);

impl eval::Names for Given<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }
}

fn inputs(program: &Program, mut given: Fields) -> Result<Fields, String> {
    let mut inputs = Fields::new();
    for input in &program.inputs {
        let value = given.remove(&input.name).filter(|value| !value.is_none());
        let value = match (value, &input.default) {
            (Some(value), _) => value,
            (None, Some(default)) => default.clone(),
            (None, None) => return Err(format!("`{}` must be given `{}`", program.name, input.name)),
        };
        if let Err(message) = input.ty.accept(&value) {
            return Err(format!("`{}` of `{}`: {message}", input.name, program.name));
        }
        inputs.insert(input.name.clone(), value);
    }
    match given.keys().next() {
        Some(name) => Err(format!("`{}` has no input `{name}`", program.name)),
        None => Ok(inputs),
    }
}

fn limit_of(limit: &crate::program::LimitCode, inputs: &Fields) -> Result<Limit, String> {
    let names = Given(inputs);
    let expr = match &limit.variant {
        Some((input, word, expr)) if inputs.get(input).and_then(Value::as_text) == Some(&**word) => expr,
        Some(_) | None => &limit.limit,
    };
    let value = eval::eval(expr, &names);
    let Value::Number(number) = value else {
        return Err(format!("the limit of `{}` is a number, not {value}", limit.meter));
    };
    Ok(Limit { limit: number.as_count(), keyed: limit.keyed })
}
