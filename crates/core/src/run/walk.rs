//! The walk: from where an instance rests to where it rests again.
//!
//! `go` is the one function that picks a transition. It follows the statements of a state, writes
//! a fact for everything that changes, and stops where something must be asked, where a person is
//! needed, or where the instance ends.

use super::draft::Draft;
use super::eval::{self, eval};
use super::fact::{ActionId, Bind, Cause, End, Fact, Failure, FailureKind, InstanceId, ThreadId};
use super::instance::{Instance, Scope, Waiving};
use super::steps::answer_name;
use crate::program::{Node, Program, StateCode};
use crate::syntax::{Arg, Args, Emit, Exit, Ident, StatementKind, Step};
use crate::value::{Fields, Name, Value};

/// How many statements a decision may follow in one instance without coming to rest.
pub(super) const MAX_STATEMENTS: usize = 100_000;

/// The next statement of a line of work.
#[derive(Clone, Copy)]
pub(super) enum Flow {
    /// The statement at this place, or the end of the block.
    On(Option<u32>),
    /// The first statement of the state that was moved to.
    Entered,
    /// No statement: the line of work waits, or has ended.
    Rest,
}

/// A statement in its place.
pub(super) struct Here<'a> {
    pub(super) id: InstanceId,
    pub(super) thread: &'a ThreadId,
    pub(super) place: u32,
    pub(super) node: &'a Node,
    pub(super) state: &'a StateCode,
    pub(super) program: &'a Program,
}

impl Here<'_> {
    /// The names that it sees.
    pub(super) fn names<'i>(&'i self, instance: &'i Instance) -> Scope<'i> {
        instance.names(self.thread).failing(self.state.else_of(self.place))
    }

    /// The name under which an answer is kept.
    pub(super) fn bind(&self) -> Option<Bind> {
        answer_name(self.node, self.program)
    }
}

impl Draft<'_> {
    /// Follows the statements of a line of work until it rests.
    pub(super) fn go(&mut self, id: InstanceId, mut thread: ThreadId, mut at: Option<u32>) {
        let Some(mut program) = self.program(id) else {
            let message = "its protocol is gone or no longer sound";
            return self.hold(id, &thread, at.unwrap_or(0), Failure::new(FailureKind::CouldNotRun, message));
        };
        for _ in 0..MAX_STATEMENTS {
            let Some(name) = self.get(id).filter(|one| !one.is_settled()).map(|one| one.state.clone()) else {
                return;
            };
            let Some(state) = program.state(&name) else {
                let message = format!("its protocol no longer has the state `{name}`");
                return self.hold(
                    id,
                    &thread,
                    at.unwrap_or(0),
                    Failure::new(FailureKind::CouldNotRun, message),
                );
            };
            let Some((place, node)) = at.and_then(|place| state.node(place).map(|node| (place, node))) else {
                return self.block_ended(id, &thread);
            };
            let here = Here { id, thread: &thread, place, node, state, program: &program };
            match self.statement(&here) {
                Flow::On(next) => at = next,
                Flow::Entered => {
                    (thread, at) = (ThreadId::Main, Some(0));
                    program = self.program(id).unwrap_or(program);
                }
                Flow::Rest => return,
            }
        }
        let message = format!("more than {MAX_STATEMENTS} statements without a rest");
        self.hold(id, &thread, at.unwrap_or(0), Failure::new(FailureKind::CouldNotRun, message));
    }

    /// The end of a block: an item of a FOR EACH is done; a state cannot end so, it was checked.
    fn block_ended(&mut self, id: InstanceId, thread: &ThreadId) {
        match thread {
            ThreadId::Item { .. } => self.item_ended(id, thread, None),
            ThreadId::Main => {
                let failure = Failure::new(FailureKind::CouldNotRun, "the state ended without an exit");
                self.hold(id, thread, 0, failure);
            }
        }
    }

    fn statement(&mut self, here: &Here<'_>) -> Flow {
        let thread = self.get(here.id).and_then(|one| one.thread(here.thread));
        let (waiving, wanted) =
            thread.map_or((None, None), |thread| (thread.waiving.clone(), thread.wanted.clone()));
        if let Some(waiving) = waiving {
            return self.waive_statement(here, &waiving);
        }
        if let Some(wanted) = wanted
            && let Some(flow) = self.pass_by(here, &wanted)
        {
            return flow;
        }
        self.plain_statement(here)
    }

    /// What a statement does when no person bends the way.
    pub(super) fn plain_statement(&mut self, here: &Here<'_>) -> Flow {
        match &here.node.what {
            StatementKind::Step { step, .. } => self.step(here, step),
            StatementKind::If { condition, .. } => {
                let holds = self.value(here, |names| eval(condition, names)).holds();
                Flow::On(if holds { here.node.body.or(here.node.next) } else { here.node.next })
            }
            StatementKind::Emit(emit) => self.emit(here, emit),
            StatementKind::Set(name, expr) => {
                let value = self.value(here, |names| eval(expr, names));
                self.put(here.id, Fact::Set { name: name.name.clone(), value });
                Flow::On(here.node.next)
            }
            StatementKind::Increment(name) => self.increment(here, name),
            StatementKind::Refill(meter, to) => {
                let to = to.as_ref().map(|to| self.value(here, |names| eval(to, names)));
                self.refill(here, meter, to.as_ref())
            }
            StatementKind::Exit(exit) => self.exit(here, exit),
            StatementKind::Proceed | StatementKind::Use(_) | StatementKind::Broken => {
                Flow::On(here.node.next)
            }
        }
    }

    /// A value as this line of work sees it.
    pub(super) fn value(&self, here: &Here<'_>, read: impl FnOnce(&dyn eval::Names) -> Value) -> Value {
        match self.get(here.id) {
            Some(instance) => read(&here.names(instance)),
            None => read(&eval::Nothing),
        }
    }

    /// Named values as this line of work sees them.
    pub(super) fn fields(&self, here: &Here<'_>, args: &Args) -> Fields {
        let Some(instance) = self.get(here.id) else { return Fields::new() };
        eval::fields(args, &here.names(instance))
    }

    fn emit(&mut self, here: &Here<'_>, emit: &Emit) -> Flow {
        let (event, fields) = match emit {
            Emit::Text(template) => {
                let text = self.value(here, |names| Value::text(eval::text(template, names)));
                (None, Fields::from([(Name::from("text"), text)]))
            }
            Emit::Event(event, args) => (Some(event.name.clone()), self.fields(here, args)),
        };
        self.put(here.id, Fact::Emitted { event, fields });
        Flow::On(here.node.next)
    }

    fn increment(&mut self, here: &Here<'_>, name: &Ident) -> Flow {
        let old = self.value(here, |names| names.name(&name.name).unwrap_or_default());
        let old = old.as_number().map_or(0, |number| number.in_thousandths());
        let value = Value::Number(crate::value::Number::thousandths(old.saturating_add(1000)));
        self.put(here.id, Fact::Set { name: name.name.clone(), value });
        Flow::On(here.node.next)
    }

    fn refill(&mut self, here: &Here<'_>, meter: &Ident, to: Option<&Value>) -> Flow {
        let old =
            self.get(here.id).and_then(|one| one.meters.get(&meter.name)).map_or(0, |meter| meter.limit);
        let limit = to.and_then(Value::as_number).map_or(old, |number| number.as_count());
        self.put(here.id, Fact::Refilled { meter: meter.name.clone(), limit });
        Flow::On(here.node.next)
    }

    fn exit(&mut self, here: &Here<'_>, exit: &Exit) -> Flow {
        match exit {
            Exit::Goto { target, args, by_else, .. } => {
                let mut params = self.fields(here, args);
                let cause = self.cause(here, *by_else, &mut params);
                self.enter(here.id, &target.name, params, cause)
            }
            Exit::Return { verdict, args } => {
                let values = self.fields(here, args);
                let end = End::of(&verdict.name).unwrap_or(End::Error);
                self.settle(here.id, end, &values);
                Flow::Rest
            }
            Exit::Stay(reason) => self.stay(here, reason.as_ref()),
            Exit::Hold(reason) => {
                let message = self.value(here, |names| eval::arg(reason, names)).to_string();
                let failure = Failure::new(FailureKind::Denied, message);
                let (thread, place) = (here.thread.clone(), here.place);
                let (meter, stuck, action) = (None, true, None);
                self.put(here.id, Fact::Held { thread, place, failure, meter, stuck, action });
                Flow::Rest
            }
        }
    }

    /// What moved it; a move in an ELSE also tells why.
    fn cause(&self, here: &Here<'_>, by_else: bool, params: &mut Fields) -> Cause {
        let failure = self.get(here.id).and_then(|one| one.thread(here.thread)).and_then(|thread| {
            let known = here.state.else_of(here.place).and_then(|step| thread.failures.get(&step));
            known.or(thread.failure.as_ref()).cloned()
        });
        match failure {
            Some(failure) if by_else => {
                params.entry(Name::from("reason")).or_insert_with(|| Value::text(&failure.message));
                Cause::Else { place: here.place, failure }
            }
            Some(_) | None => Cause::Goto { place: here.place, guards: here.node.guards.clone() },
        }
    }

    /// Moves to a state: what the old one started ends, and the new one is told what it takes.
    pub(super) fn enter(&mut self, id: InstanceId, to: &Name, given: Fields, cause: Cause) -> Flow {
        let Some(from) = self.get(id).map(|one| one.state.clone()) else { return Flow::Rest };
        let Some(program) = self.program_of_today(id) else { return Flow::Rest };
        let Some(state) = program.state(to) else { return Flow::Rest };
        let params = self
            .get(id)
            .map_or_else(Fields::new, |one| state_arguments(state, given, &one.names(&ThreadId::Main)));
        self.leave(id, from == *to && !matches!(cause, Cause::Redo { .. }));
        let (to, code) = (state.name.clone(), state.code.clone());
        self.put(id, Fact::Moved { from, to, code, params, cause });
        Flow::Entered
    }

    /// Cancels what a state started; the items of a FOR EACH stay when it comes back to itself.
    fn leave(&mut self, id: InstanceId, same: bool) {
        let open: Vec<_> = self
            .get(id)
            .into_iter()
            .flat_map(|one| &one.open)
            .filter(|(_, open)| !same || open.thread == ThreadId::Main)
            .map(|(action, _)| *action)
            .collect();
        for action in open {
            self.drop_action(id, action);
        }
    }

    /// Ends an instance and tells the instance that opened it.
    pub(super) fn settle(&mut self, id: InstanceId, end: End, values: &Fields) {
        self.leave(id, false);
        let Some(instance) = self.get(id) else { return };
        let (parent, waivers) = (instance.parent, (*instance.waivers).clone());
        self.put(id, Fact::Settled { end, values: values.clone(), waivers });
        if let Some((parent, action)) = parent {
            self.child_ended(parent, action, end, values);
        }
    }

    /// Tells the instance that opened a child how it ended.
    pub(super) fn child_ended(&mut self, parent: InstanceId, action: ActionId, end: End, values: &Fields) {
        match end {
            End::Cancelled => {}
            End::Stopped => {
                let failure = Failure::new(FailureKind::Denied, "the child was stopped");
                self.answer(parent, action, Err(failure));
            }
            End::Complete | End::Blocked | End::Escalated | End::Error => {
                let mut answer = values.clone();
                answer.insert(Name::from("verdict"), Value::text(end.word()));
                self.answer(parent, action, Ok(Value::Record(std::sync::Arc::new(answer))));
            }
        }
    }

    /// STAY answers the person and waits again at the WAIT.
    fn stay(&mut self, here: &Here<'_>, reason: Option<&Arg>) -> Flow {
        if let Some(reason) = reason {
            let message = self.value(here, |names| eval::arg(reason, names)).to_string();
            let failure = Failure::new(FailureKind::Denied, message);
            self.refuse_word(here, failure);
        }
        self.wait_again(here)
    }

    /// Says no to the word that a person said.
    pub(super) fn refuse_word(&mut self, here: &Here<'_>, failure: Failure) {
        let words =
            self.get(here.id).and_then(|one| one.thread(here.thread)).and_then(|thread| thread.waited);
        let bound = words.and_then(|place| here.state.node(place)).and_then(Node::bind);
        let said = bound
            .map(|name| self.value(here, |names| names.name(name).unwrap_or_default()))
            .unwrap_or_default();
        let by = said.field("by").as_text().map(str::to_owned);
        let what = super::people::word_of(&said).unwrap_or_else(|| "word".to_owned());
        self.put(
            here.id,
            Fact::Refused { thread: Some(here.thread.clone()), place: None, what, failure, by },
        );
    }

    /// Goes back to the WAIT that was passed.
    pub(super) fn wait_again(&mut self, here: &Here<'_>) -> Flow {
        let thread = self.get(here.id).and_then(|one| one.thread(here.thread));
        Flow::On(Some(thread.and_then(|thread| thread.waited).unwrap_or(0)))
    }

    /// What follows when a step cannot do what it says.
    pub(super) fn fail(&mut self, here: &Here<'_>, failure: &Failure) -> Flow {
        let thread = self.get(here.id).and_then(|one| one.thread(here.thread));
        let waiving = thread.and_then(|thread| thread.waiving.clone());
        let waited = thread.and_then(|thread| thread.waited);
        if let Some(waiving) = waiving {
            return self.waiver_step_failed(here, &waiving, failure);
        }
        // No ELSE, no item's end and no LIMIT answers for the machine, and none for a person who is asked.
        let is_asked = failure.kind == FailureKind::Asked && waited.is_none();
        if failure.kind == FailureKind::Machine || is_asked {
            self.hold(here.id, here.thread, here.place, failure.clone());
            return Flow::Rest;
        }
        if let Some(otherwise) = here.node.otherwise {
            return Flow::On(Some(otherwise));
        }
        if let ThreadId::Item { .. } = here.thread {
            self.item_ended(here.id, here.thread, Some(failure.clone()));
            return Flow::Rest;
        }
        if failure.kind == FailureKind::Exhausted
            && let Some(flow) = self.by_limit(here, failure)
        {
            return flow;
        }
        if waited.is_some_and(|wait| wait != here.place) {
            self.refuse_word(here, failure.clone());
            return self.wait_again(here);
        }
        self.hold(here.id, here.thread, here.place, failure.clone());
        Flow::Rest
    }

    /// A payment that cannot be made goes where its LIMIT says.
    fn by_limit(&mut self, here: &Here<'_>, failure: &Failure) -> Option<Flow> {
        let meter = match here.node.step()? {
            Step::Pay { meter, .. } => meter,
            Step::Do { paying: Some(paying), .. } => &paying.meter,
            Step::Do { .. } | Step::Parallel { .. } | Step::ForEach { .. } | Step::Check { .. } => {
                return None;
            }
            Step::WaitFor { .. } | Step::WaitWords { .. } | Step::Ask { .. } => return None,
        };
        let limit = here.program.limit(&meter.name)?;
        let Some(target) = &limit.target else {
            let (thread, place) = (here.thread.clone(), here.place);
            let meter = Some((here.id, meter.name.clone()));
            let (failure, stuck, action) = (failure.clone(), false, None);
            self.put(here.id, Fact::Held { thread, place, failure, meter, stuck, action });
            return Some(Flow::Rest);
        };
        let params = Fields::from([(Name::from("reason"), Value::text(&failure.message))]);
        let cause = Cause::Limit { place: here.place, meter: meter.name.clone() };
        Some(self.enter(here.id, target, params, cause))
    }

    /// What a person who asked for a state does here instead: exits that lead elsewhere are passed
    /// by, and so is an IF that only leaves. Where nothing is left, the word is refused.
    fn pass_by(&mut self, here: &Here<'_>, wanted: &Name) -> Option<Flow> {
        if here.state.else_of(here.place).is_some() {
            // What a failure asks for is not passed by.
            return None;
        }
        let leads = here.state.gotos(wanted).into_iter().any(|goto| here.state.encloses(here.place, goto));
        let elsewhere = match &here.node.what {
            StatementKind::If { .. } => {
                return (!leads && only_leaves(here.state, here.node)).then_some(Flow::On(here.node.next));
            }
            StatementKind::Exit(Exit::Goto { target, .. }) => target.name != *wanted,
            StatementKind::Exit(Exit::Return { .. } | Exit::Hold(_)) => true,
            StatementKind::Exit(Exit::Stay(_))
            | StatementKind::Step { .. }
            | StatementKind::Emit(_)
            | StatementKind::Set(..) => false,
            StatementKind::Increment(_)
            | StatementKind::Refill(..)
            | StatementKind::Use(_)
            | StatementKind::Proceed
            | StatementKind::Broken => false,
        };
        if !elsewhere {
            return None;
        }
        if here.node.next.is_some() {
            return Some(Flow::On(here.node.next));
        }
        let message = format!("no way to {wanted} is open");
        self.refuse_word(here, Failure::new(FailureKind::Denied, message));
        Some(self.wait_again(here))
    }

    /// A statement on the way of a waiver.
    fn waive_statement(&mut self, here: &Here<'_>, waiving: &Waiving) -> Flow {
        let (place, goto) = (here.place, waiving.goto);
        if place == goto {
            return self.waived_move(here, waiving);
        }
        let clause = here.state.node(goto).and_then(|node| node.up);
        let rests_inside = clause.is_some_and(|clause| here.state.encloses(clause, waiving.rested));
        if here.state.encloses(place, goto) {
            if Some(place) == clause
                && let Some(failure) = self.clause_cannot(here, waiving, rests_inside)
            {
                self.waiver_refused(here.id, waiving, &failure);
                return Flow::Rest;
            }
            let in_else = here.node.otherwise.is_some_and(|first| goto >= first);
            return Flow::On(if in_else { here.node.otherwise } else { here.node.body });
        }
        if clause.is_some() && here.node.up == clause {
            // The statements above the place where it rested are done and paid already.
            let done = rests_inside && place < waiving.rested;
            return if done { Flow::On(here.node.next) } else { self.plain_statement(here) };
        }
        if place < waiving.rested {
            return Flow::On(here.node.next);
        }
        match &here.node.what {
            StatementKind::Step { step: Step::Check { .. } | Step::Pay { .. }, .. } => {
                self.plain_statement(here)
            }
            StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..) => self.plain_statement(here),
            StatementKind::Step { .. }
            | StatementKind::If { .. }
            | StatementKind::Exit(_)
            | StatementKind::Use(_)
            | StatementKind::Proceed
            | StatementKind::Broken => Flow::On(here.node.next),
        }
    }

    /// Why the steps of a waiver's clause could not be run, before any of them is: a value that is
    /// needed and not known, or a meter that is spent.
    fn clause_cannot(&self, here: &Here<'_>, waiving: &Waiving, rests_inside: bool) -> Option<Failure> {
        let from = if rests_inside { waiving.rested } else { here.place + 1 };
        let mut bound: Vec<&Name> = Vec::new();
        for place in from..waiving.goto {
            let Some(node) = here.state.node(place).filter(|node| node.up == Some(here.place)) else {
                continue;
            };
            let inner = Here { place, node, ..*here };
            if let Some(Step::Pay { meter, per }) = node.step() {
                let list = per.as_ref().map(|(_, list)| self.value(&inner, |names| eval(list, names)));
                let keys = super::steps::keys_of(list.as_ref());
                let counter = self.get(here.id).and_then(|one| one.meters.get(&meter.name));
                if let Some(counter) = counter.filter(|counter| !counter.can_pay(&keys, 0)) {
                    return Some(super::steps::spent_meter(&meter.name, counter.limit, &keys));
                }
            }
            for code in &node.calls {
                let reads_bound = code.args.iter().any(|(_, arg)| bound.iter().any(|name| reads(arg, name)));
                if let Err(failure) = self.params(&inner, code)
                    && !reads_bound
                {
                    return Some(failure);
                }
            }
            bound.extend(node.bind());
        }
        None
    }

    fn waived_move(&mut self, here: &Here<'_>, waiving: &Waiving) -> Flow {
        let StatementKind::Exit(Exit::Goto { target, args, .. }) = &here.node.what else { return Flow::Rest };
        let mut params = self.fields(here, args);
        let program = self.program_of_today(here.id);
        let entered = program.as_ref().and_then(|program| program.state(&target.name));
        for (name, _) in entered.into_iter().flat_map(|state| &state.params) {
            if matches!(&**name, "feedback" | "reason") {
                params.insert(name.clone(), Value::text(&waiving.reason));
            }
        }
        let cause = Cause::Waiver {
            place: here.place,
            by: waiving.by.clone(),
            reason: waiving.reason.clone(),
            unmet: self.unmet(here.id, here.state, here.place),
        };
        self.enter(here.id, &target.name, params, cause)
    }

    /// On the way of a waiver a look that fails leaves its value unknown; anything else ends it.
    fn waiver_step_failed(&mut self, here: &Here<'_>, waiving: &Waiving, failure: &Failure) -> Flow {
        let clause = here.state.node(waiving.goto).and_then(|node| node.up);
        let in_clause = clause.is_some() && here.node.up == clause;
        let looks = matches!(here.node.step(), Some(Step::Check { .. }));
        if looks && !in_clause || ignores_failure(&here.node.what) {
            return Flow::On(here.node.next);
        }
        self.waiver_refused(here.id, waiving, failure);
        Flow::Rest
    }

    /// Gives a waiver up: everything is as it was, and what was being waited for is asked again.
    pub(super) fn waiver_refused(&mut self, id: InstanceId, waiving: &Waiving, failure: &Failure) {
        let what = format!("waiver to {}", waiving.to);
        let by = Some(waiving.by.clone());
        self.put(
            id,
            Fact::Refused { thread: Some(ThreadId::Main), place: None, what, failure: failure.clone(), by },
        );
        if waiving.held.is_none() {
            self.later(id, ThreadId::Main, Some(waiving.rested));
        }
    }
}

/// Whether the ELSE of a step says PROCEED.
pub(super) fn ignores_failure(what: &StatementKind) -> bool {
    match what {
        StatementKind::Step { otherwise: Some(block), .. } => {
            matches!(block.last().map(|last| &last.what), Some(StatementKind::Proceed))
        }
        StatementKind::Step { .. }
        | StatementKind::If { .. }
        | StatementKind::Emit(_)
        | StatementKind::Set(..)
        | StatementKind::Increment(_) => false,
        StatementKind::Refill(..)
        | StatementKind::Use(_)
        | StatementKind::Exit(_)
        | StatementKind::Proceed
        | StatementKind::Broken => false,
    }
}

/// Whether an argument reads a name.
fn reads(arg: &Arg, name: &Name) -> bool {
    let mut roots = std::collections::BTreeSet::new();
    match arg {
        Arg::Brace(expr, _) => crate::syntax::roots(expr, &mut roots),
        Arg::Text(template) => crate::syntax::template_roots(template, &mut roots),
        Arg::Words(_) | Arg::Number(..) | Arg::Duration(..) | Arg::None(_) => {}
    }
    roots.contains(name)
}

/// What a state is told: what is given, else its defaults, else `none`.
pub(super) fn state_arguments(state: &StateCode, mut given: Fields, names: &dyn eval::Names) -> Fields {
    let mut params = Fields::new();
    for (name, default) in &state.params {
        let value = given.remove(name);
        let default = || default.as_ref().map_or(Value::None, |arg| eval::arg(arg, names));
        params.insert(name.clone(), value.unwrap_or_else(default));
    }
    params
}

/// Whether the block of an IF ends in an exit.
fn only_leaves(state: &StateCode, node: &Node) -> bool {
    let mut at = node.body;
    let mut last = None;
    while let Some(one) = at.and_then(|place| state.node(place)).filter(|one| one.up != node.up) {
        last = Some(one);
        at = one.next.filter(|_| Some(one.next) != Some(node.next));
    }
    last.is_some_and(|one| matches!(one.what, StatementKind::Exit(_)))
}
