//! People: words, answers, waivers, raises, redos, stops, and the policies that stand in for them.
//!
//! Every such input carries a name, and where a rule is bent a reason that is not blank. What is
//! refused is recorded; nothing that a person said is lost.

use super::draft::Draft;
use super::eval;
use super::fact::{ActionId, End, Fact, Failure, FailureKind, Fan, InstanceId, Payment, Policy, ThreadId};
use super::input::{Action, ActionTarget, Event, Refusal, RefusalKind};
use super::instance::{Instance, OpenKind};
use super::steps::How;
use super::steps::question_of;
use super::walk::{Flow, Here};
use crate::performer::Performer;
use crate::program::{Program, StateCode};
use crate::syntax::StatementKind;
use crate::value::{Fields, Name, Value};

/// Who speaks when a policy does.
pub const POLICY: &str = "policy";

/// How many questions, or instances that ask some, a hint names.
const MAX_LISTED: usize = 5;

type Taken = Result<(), Refusal>;

impl Draft<'_> {
    /// A person's word at a WAIT.
    pub(super) fn say(
        &mut self,
        id: InstanceId,
        word: &Name,
        by: &str,
        reason: &str,
        options: &Fields,
    ) -> Taken {
        speaker(by)?;
        let instance = self.live(id)?;
        let open = instance.open.iter().find_map(|(action, open)| match &open.kind {
            OpenKind::Words(words) => Some((*action, words.clone())),
            OpenKind::Call | OpenKind::Child(_) | OpenKind::Question | OpenKind::Record => None,
            OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => None,
        });
        let Some((action, words)) = open else {
            return Err(Refusal::new(
                RefusalKind::NotHere,
                format!("`{word}` is not waited for in {}", instance.state),
            ));
        };
        if !words.contains(word) {
            let message = format!("`{word}` is not taken in {}", instance.state);
            return Err(Refusal::new(RefusalKind::NotHere, message)
                .hint(format!("it waits for {}", words.join(", "))));
        }
        if let Some(known) = self.run.programs().catalogue().word(word)
            && let Some(stray) = options.keys().find(|name| !known.options.contains_key(*name))
        {
            return Err(Refusal::new(RefusalKind::Malformed, format!("`{word}` takes no `{stray}`")));
        }
        if let Some(to) = options.get("to").and_then(Value::as_text) {
            self.declared(id, to)?;
        }
        self.as_entered(id)?;
        let value = spoken(&words, word, by, reason, options);
        self.accepts(id, action, &value)?;
        self.answer_how(id, action, Ok(value), How::By(by));
        Ok(())
    }

    /// Whether the state of an instance still is what was entered. What a person says to another text
    /// is not taken: what the words would do there was never shown to the person.
    fn as_entered(&mut self, id: InstanceId) -> Taken {
        let Some(message) = self.changed(id) else { return Ok(()) };
        self.hold_changed(id, message.clone());
        Err(Refusal::new(RefusalKind::NotHere, message)
            .hint("bring the protocol back as it was, or lead the instance on with an override"))
    }

    /// Whether a word with its options is what was declared.
    fn accepts(&self, id: InstanceId, action: ActionId, value: &Value) -> Taken {
        let check = || {
            let instance = self.get(id)?;
            let place = instance.open.get(&action)?.place;
            let program = self.program(id)?;
            let code = program.state(&instance.state)?.node(place)?.calls.first()?.clone();
            code.answer.accept(value).err()
        };
        check().map_or(Ok(()), |message| Err(Refusal::new(RefusalKind::Malformed, message.to_string())))
    }

    /// A person's answer to a question.
    pub(super) fn reply(
        &mut self,
        id: InstanceId,
        action: Option<ActionId>,
        value: &Value,
        by: &str,
    ) -> Taken {
        speaker(by)?;
        let instance = self.live(id)?;
        let open = questions(instance);
        let asked: Vec<ActionId> =
            open.iter().copied().filter(|one| action.is_none_or(|action| action == *one)).collect();
        let question = match asked.as_slice() {
            [one] => *one,
            [] => return Err(self.no_question(instance, action, &open)),
            several => {
                let refusal = Refusal::new(RefusalKind::Malformed, "several questions are open");
                return Err(refusal.hint(format!("name one of {} with --question", join_questions(several))));
            }
        };
        self.as_entered(id)?;
        self.accepts(id, question, value)?;
        self.answer_how(id, question, Ok(value.clone()), How::By(by));
        Ok(())
    }

    /// No such question is open there: the refusal names those that are, here or elsewhere in the run.
    fn no_question(&self, instance: &Instance, action: Option<ActionId>, open: &[ActionId]) -> Refusal {
        let state = &instance.state;
        let message = match action {
            Some(action) => format!("no question {action} is open in {state}"),
            None => format!("no question is open in {state}"),
        };
        let refusal = Refusal::new(RefusalKind::NotHere, message);
        if !open.is_empty() {
            return refusal.hint(format!("open here: {}", join_questions(open)));
        }
        let others = self.run.live().map(|one| (one.id, questions(one)));
        let asking: Vec<String> = others
            .filter(|(_, open)| !open.is_empty())
            .take(MAX_LISTED)
            .map(|(id, open)| format!("instance {id} asks {}", join_questions(&open)))
            .collect();
        if asking.is_empty() { refusal } else { refusal.hint(asking.join("; ")) }
    }

    /// A person takes a declared edge whose conditions do not hold.
    pub(super) fn waive(&mut self, id: InstanceId, to: &Name, by: &str, reason: &str) -> Taken {
        require_reason(by, reason)?;
        let state = self.live(id)?.state.clone();
        self.declared(id, to)?;
        let waiving = self.live(id)?.thread(&ThreadId::Main).and_then(|thread| thread.waiving.clone());
        if let Some(first) = waiving {
            let message = format!("a waiver to {} is being carried out", first.to);
            return Err(Refusal::new(RefusalKind::NotHere, message).hint("wait for its end"));
        }
        let program = self.program(id).ok_or_else(|| refuse_ended(id))?;
        let code = program.state(&state).ok_or_else(|| refuse_ended(id))?;
        let Some(goto) = self.waived_goto(id, code, to) else {
            let message =
                format!("the edge {state} → {to} is taken by a LIMIT, not by a GOTO: it cannot be waived");
            return Err(Refusal::new(RefusalKind::NotHere, message)
                .hint("raise the limit, or wait until it is reached"));
        };
        let unmet = self.unmet(id, code, goto);
        let main: Vec<ActionId> = self
            .live(id)?
            .open
            .iter()
            .filter(|(_, open)| open.thread == ThreadId::Main)
            .map(|(action, _)| *action)
            .collect();
        for action in main {
            self.drop_action(id, action);
        }
        let (to, by, reason) = (to.clone(), by.to_owned(), reason.to_owned());
        self.put(id, Fact::Waived { to: to.clone(), place: goto, by, reason, unmet });
        if !self.record_first(id, &program, code, &to) {
            self.later(id, ThreadId::Main, Some(0));
        }
        Ok(())
    }

    /// The first GOTO whose conditions do not hold, else the first.
    fn waived_goto(&self, id: InstanceId, code: &StateCode, to: &Name) -> Option<u32> {
        let gotos = code.gotos(to);
        let open = |goto: &&u32| !self.unmet(id, code, **goto).is_empty();
        gotos.iter().find(open).or_else(|| gotos.first()).copied()
    }

    /// A waiver into a gated state first records the person's own decision, where the gate can be
    /// established by one.
    fn record_first(&mut self, id: InstanceId, program: &Program, code: &StateCode, to: &Name) -> bool {
        let gates = program.gates.iter().filter(|(_, state)| state == to).flat_map(|(actions, _)| actions);
        let recorded =
            gates.filter_map(|gate| self.run.programs().catalogue().action(gate)?.recorded_by).next();
        let (Some(action), Some(params)) = (recorded, self.record_params(id)) else { return false };
        let thread = self.get(id).and_then(|one| one.thread(&ThreadId::Main));
        let place = thread.and_then(|thread| thread.waiving.as_ref()).map_or(0, |waiving| waiving.rested);
        let Some(node) = code.node(place) else { return false };
        let here = Here { id, thread: &ThreadId::Main, place, node, state: code, program };
        let asked = self.put_ask(&here, Performer::from(action), &params, Some(Fan::Record));
        let wanted = ActionTarget::Action(Name::from(action));
        self.start(Action { instance: id, id: asked, wanted, params, forbidden: None });
        true
    }

    /// The parameters of the action that records a waiver's decision.
    pub(super) fn record_params(&self, id: InstanceId) -> Option<Fields> {
        let waiving = self.get(id)?.thread(&ThreadId::Main)?.waiving.clone()?;
        let fields = [
            ("choice", Value::text(self.waived_choice(id).unwrap_or("accepted"))),
            ("by", Value::text(&waiving.by)),
            ("reason", Value::text(&waiving.reason)),
        ];
        Some(fields.map(|(name, value)| (Name::from(name), value)).into())
    }

    /// The decision of a waiver is "accepted" where the state looks for a decision, and "rejected"
    /// where it looks for something else, such as a revert.
    fn waived_choice(&self, id: InstanceId) -> Option<&'static str> {
        let instance = self.get(id)?;
        let program = self.program(id)?;
        let catalogue = self.run.programs().catalogue();
        let calls = program.state(&instance.state)?.nodes.iter().flat_map(|node| &node.calls);
        let recorded = calls
            .filter_map(|call| catalogue.action(call.whom.action()?))
            .any(|one| one.recorded_by.is_some());
        Some(if recorded { "accepted" } else { "rejected" })
    }

    /// The conditions around a GOTO that do not hold, as far as they are known.
    pub(super) fn unmet(&self, id: InstanceId, code: &StateCode, goto: u32) -> Vec<String> {
        let Some(instance) = self.get(id) else { return Vec::new() };
        let names = instance.names(&ThreadId::Main);
        let mut unmet = Vec::new();
        let mut inner = goto;
        while let Some(up) = code.node(inner).and_then(|node| node.up) {
            let Some(node) = code.node(up) else { break };
            match &node.what {
                StatementKind::If { condition, .. } if !eval::eval(condition, &names).holds() => {
                    unmet.push(condition.to_string());
                }
                StatementKind::Step { .. } => {
                    unmet.push(format!("could not: {}", crate::syntax::print::line(&node.what)));
                }
                StatementKind::If { .. }
                | StatementKind::Emit(_)
                | StatementKind::Set(..)
                | StatementKind::Increment(_)
                | StatementKind::Refill(..) => {}
                StatementKind::Use(_)
                | StatementKind::Exit(_)
                | StatementKind::Proceed
                | StatementKind::Broken => {}
            }
            inner = up;
        }
        unmet.reverse();
        unmet
    }

    fn declared(&self, id: InstanceId, to: &str) -> Taken {
        let (Some(instance), Some(program)) = (self.get(id), self.program(id)) else {
            return Err(refuse_ended(id));
        };
        if program.leads(&instance.state, to) {
            return Ok(());
        }
        let targets: Vec<&str> = program.targets(&instance.state).map(|name| &**name).collect();
        let message = format!("there is no edge {} → {to}", instance.state);
        let hint = match targets.as_slice() {
            [] => String::from("no edge leads on from here; it goes on or ends by itself"),
            some => format!("from here it goes to {}", some.join(", ")),
        };
        Err(Refusal::new(RefusalKind::NotHere, message).hint(hint))
    }

    /// A person raises a limit; who is held for it goes on.
    pub(super) fn raise(
        &mut self,
        id: InstanceId,
        meter: &Name,
        limit: u64,
        by: &str,
        reason: &str,
    ) -> Taken {
        require_reason(by, reason)?;
        let instance = self.get(id).ok_or_else(|| refuse_ended(id))?;
        let own = instance.meters.get(meter).map(|meter| meter.limit);
        let budget_meter = self
            .get_purses(id)
            .and_then(|purses| purses.get(meter))
            .and_then(|budget_meter| budget_meter.limit);
        let Some(old) = own.or(budget_meter) else {
            let message = format!("{} has no limit `{meter}`", instance.protocol);
            return Err(Refusal::new(RefusalKind::Malformed, message).hint(self.limits_hint(instance)));
        };
        if limit <= old {
            let message = format!("the limit of `{meter}` is already {old}");
            return Err(Refusal::new(RefusalKind::Guard, message).hint("give a higher number"));
        }
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.put(id, Fact::Raised { meter: meter.clone(), limit, by: by.clone(), reason });
        let spent = Some((id, meter.clone()));
        let held: Vec<InstanceId> = self.among(&self.run.index.held).collect();
        for one in held {
            let held: Vec<(ThreadId, u32)> = self
                .get(one)
                .into_iter()
                .flat_map(|instance| &instance.held)
                .filter(|(_, held)| held.meter == spent)
                .map(|(thread, held)| (thread.clone(), held.place))
                .collect();
            for (thread, place) in held {
                self.put(one, Fact::Resumed { action: None, thread: thread.clone(), by: Some(by.clone()) });
                self.later(one, thread, Some(place));
            }
        }
        Ok(())
    }

    /// What can be raised: the meters of the protocol, and the built-in ones that have a limit.
    fn limits_hint(&self, instance: &Instance) -> String {
        let purses = self.get_purses(instance.id).into_iter().flatten();
        let limited =
            purses.filter(|(_, budget_meter)| budget_meter.limit.is_some()).map(|(name, _)| &**name);
        let known: Vec<&str> = instance.meters.keys().map(|name| &**name).chain(limited).collect();
        match known.as_slice() {
            [] => String::from("nothing limits it"),
            some => format!("its limits: {}", some.join(", ")),
        }
    }

    /// A person goes back to a state already visited; what came after is void.
    pub(super) fn redo(&mut self, id: InstanceId, to: &Name, by: &str, reason: &str) -> Taken {
        require_reason(by, reason)?;
        let instance = self.get(id).ok_or_else(|| refuse_ended(id))?;
        let program = self.program_of_today(id).ok_or_else(|| refuse_ended(id))?;
        let Some(meter) = program.redo.clone() else {
            let message = format!("{} has no REDO", instance.protocol);
            return Err(Refusal::new(RefusalKind::NotHere, message));
        };
        if program.state(to).is_none() {
            return Err(Refusal::new(
                RefusalKind::Malformed,
                format!("{} has no state `{to}`", instance.protocol),
            ));
        }
        if !instance.visited.contains(to) {
            let message = format!("`{to}` was never visited");
            let hint = format!("a redo goes to one of {}", instance.visited.join(", "));
            return Err(Refusal::new(RefusalKind::NotHere, message).hint(hint));
        }
        if let (Some((end, _)), Some(_)) = (&instance.end, instance.parent) {
            return Err(Refusal::new(RefusalKind::Settled(*end), "its parent has already heard of its end"));
        }
        let keys = vec![Name::default()];
        let limit = instance.meters.get(&meter).map_or(0, |meter| meter.limit);
        if !instance.meters.get(&meter).is_some_and(|meter| meter.can_pay(&keys, 0)) {
            let message = format!("{meter} spent: the limit is {limit}");
            return Err(Refusal::new(RefusalKind::Guard, message).hint(format!("raise `{meter}` first")));
        }
        self.put(id, Fact::Paid(Payment::Meter { meter, keys, action: None, file: None }));
        let given = [("feedback", reason), ("reason", reason)]
            .map(|(name, text)| (Name::from(name), Value::text(text)));
        let cause = super::fact::Cause::Redo { by: by.to_owned(), reason: reason.to_owned() };
        let flow = self.enter(id, to, given.into(), cause);
        self.follow(id, &ThreadId::Main, flow);
        Ok(())
    }

    /// A person lets a held instance go on: the step is asked again.
    pub(super) fn resume(&mut self, id: InstanceId, by: &str) -> Taken {
        speaker(by)?;
        let instance = self.live(id)?;
        let held: Vec<(ThreadId, u32)> = instance
            .held
            .iter()
            .filter(|(_, held)| !held.stuck)
            .map(|(thread, held)| (thread.clone(), held.place))
            .collect();
        if held.is_empty() {
            let stuck = !instance.held.is_empty();
            let message =
                if stuck { "only an override or a stop leads on from here" } else { "it is not held" };
            return Err(Refusal::new(RefusalKind::NotHere, message));
        }
        if instance.open.values().any(|open| open.held.is_some()) {
            self.as_entered(id)?;
        }
        for (thread, place) in held {
            self.put(id, Fact::Resumed { action: None, thread: thread.clone(), by: Some(by.to_owned()) });
            let open = self.get(id).map(|one| one.held_actions(&thread)).unwrap_or_default();
            if open.is_empty() {
                self.later(id, thread, Some(place));
                continue;
            }
            for action in open {
                self.ask_held(id, action, &thread, by);
            }
        }
        Ok(())
    }

    /// A person stops an instance and everything below it.
    pub(super) fn stop(&mut self, id: InstanceId, by: &str, reason: &str) -> Taken {
        speaker(by)?;
        self.live(id)?;
        let values =
            [("by", by), ("reason", reason)].map(|(name, text)| (Name::from(name), Value::text(text)));
        self.settle(id, End::Stopped, &values.into());
        Ok(())
    }

    fn live(&self, id: InstanceId) -> Result<&Instance, Refusal> {
        let instance = self.get(id).ok_or_else(|| refuse_ended(id))?;
        match &instance.end {
            Some((end, _)) => {
                let refusal = Refusal::new(
                    RefusalKind::Settled(*end),
                    format!("instance {id} has ended: {}", end.word()),
                );
                Err(refusal.hint("what has ended takes no orders; a new run begins anew"))
            }
            None => Ok(instance),
        }
    }

    /// WAIT for words: a person's, or a policy's.
    pub(super) fn ask_words(&mut self, here: &Here<'_>, words: Vec<Name>) -> Flow {
        let spoken_before =
            self.get(here.id).and_then(|one| one.thread(here.thread)).map_or(0, |thread| thread.spoken);
        let policy = self.policy(here);
        let fan = Some(Fan::Words(words.clone()));
        let action = self.put_ask(here, Performer::Word, &Fields::new(), fan);
        let said = match &policy {
            Policy::Hold => None,
            Policy::Deny => {
                let failure = Failure::new(FailureKind::Denied, "no person is asked here: policy");
                self.answer_how(here.id, action, Err(failure), How::By(POLICY));
                return Flow::Rest;
            }
            Policy::Answer(Value::Text(word)) if spoken_before == 0 => Some(word.clone()),
            Policy::Answer(list) => {
                list.items().get(spoken_before as usize).and_then(Value::as_text).map(Name::from)
            }
        };
        match said.filter(|word| words.contains(word)) {
            Some(word) => {
                let value = spoken(&words, &word, POLICY, "", &Fields::new());
                self.answer_how(here.id, action, Ok(value), How::By(POLICY));
            }
            None => self.start(Action {
                instance: here.id,
                id: action,
                wanted: ActionTarget::Word(words),
                params: Fields::new(),
                forbidden: None,
            }),
        }
        Flow::Rest
    }

    /// ASK: a person's answer, or a policy's.
    pub(super) fn ask_question(&mut self, here: &Here<'_>) -> Flow {
        let params = self.question(here);
        let action = self.put_ask(here, Performer::Question, &params, None);
        match self.policy(here) {
            Policy::Hold => {
                let (instance, wanted) = (here.id, ActionTarget::Question);
                self.start(Action { instance, id: action, wanted, params, forbidden: None });
            }
            Policy::Deny => {
                let failure = Failure::new(FailureKind::Denied, "no person is asked here: policy");
                self.answer_how(here.id, action, Err(failure), How::By(POLICY));
            }
            Policy::Answer(value) => match self.accepts(here.id, action, &value) {
                Ok(()) => self.answer_how(here.id, action, Ok(value), How::By(POLICY)),
                Err(refusal) => {
                    self.answer(here.id, action, Err(Failure::new(FailureKind::Denied, refusal.message)));
                }
            },
        }
        Flow::Rest
    }

    /// The question with its choices, as a person is shown it.
    pub(super) fn question(&self, here: &Here<'_>) -> Fields {
        self.get(here.id).map_or_else(Fields::new, |one| question_of(here.node, &here.names(one)))
    }

    fn policy(&self, here: &Here<'_>) -> Policy {
        let protocol = &here.program.name;
        let keys = [format!("{protocol}.{}", here.state.name), protocol.to_string(), "*".to_owned()];
        keys.iter().find_map(|key| self.terms.policies.get(key)).cloned().unwrap_or_default()
    }

    /// Whether an action, made again, is what was asked for.
    pub(super) fn unchanged(&self, id: InstanceId, action: &Action) -> bool {
        let open = self.get(id).and_then(|one| one.open.get(&action.id));
        open.is_some_and(|open| open.digest == self.digest(&action.params))
    }
}

/// The questions that an instance asks, in the order of asking.
fn questions(instance: &Instance) -> Vec<ActionId> {
    let open = instance.open.iter().filter(|(_, open)| open.kind == OpenKind::Question);
    open.map(|(action, _)| *action).collect()
}

/// The first of several questions, as a person names them.
fn join_questions(questions: &[ActionId]) -> String {
    let names: Vec<String> = questions.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let more = if questions.len() > MAX_LISTED { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

/// Which input it was, for the record of a refusal.
pub(super) fn request(event: &Event) -> Option<(InstanceId, String, Option<String>)> {
    match event {
        Event::Open { .. } | Event::Tick | Event::Recover => None,
        Event::Outcome { instance, action, .. } => Some((*instance, format!("outcome of {action}"), None)),
        Event::Tool { instance, action, tool, .. } => {
            Some((*instance, format!("tool {tool} of {action}"), None))
        }
        Event::Spent { instance, action, .. } => Some((*instance, format!("report of {action}"), None)),
        Event::Say { instance, word, by, .. } => Some((*instance, word.to_string(), Some(by.clone()))),
        Event::Reply { instance, by, .. } => Some((*instance, "answer".to_owned(), Some(by.clone()))),
        Event::Waive { instance, to, by, .. } => {
            Some((*instance, format!("waiver to {to}"), Some(by.clone())))
        }
        Event::Raise { instance, meter, by, .. } => {
            Some((*instance, format!("raise of {meter}"), Some(by.clone())))
        }
        Event::Redo { instance, to, by, .. } => Some((*instance, format!("redo of {to}"), Some(by.clone()))),
        Event::Resume { instance, by } => Some((*instance, "resume".to_owned(), Some(by.clone()))),
        Event::Stop { instance, by, .. } => Some((*instance, "stop".to_owned(), Some(by.clone()))),
    }
}

/// The word that was said, out of the value of a WAIT.
pub(super) fn word_of(said: &Value) -> Option<String> {
    let Value::Record(fields) = said else { return None };
    fields.iter().find(|(_, value)| value.holds()).map(|(name, _)| name.to_string())
}

/// The value of a word: which it was, who said it, why, and the options.
pub(super) fn spoken(words: &[Name], word: &Name, by: &str, reason: &str, options: &Fields) -> Value {
    let mut fields = options.clone();
    fields.extend(words.iter().map(|one| (one.clone(), Value::Bool(one == word))));
    fields.insert(Name::from("by"), Value::text(by));
    fields.insert(Name::from("reason"), Value::text(reason));
    Value::Record(std::sync::Arc::new(fields))
}

/// A person who bends a rule gives a name and a reason.
fn require_reason(by: &str, reason: &str) -> Taken {
    speaker(by)?;
    if reason.trim().is_empty() {
        return Err(Refusal::new(RefusalKind::Malformed, "the reason is blank").hint("say why with --reason"));
    }
    Ok(())
}

/// A person who speaks gives a name, and not the one under which policies speak.
fn speaker(by: &str) -> Taken {
    match by.trim() {
        "" => Err(Refusal::new(RefusalKind::Malformed, "nobody is named").hint("say who with --by NAME")),
        POLICY => Err(Refusal::new(RefusalKind::Malformed, format!("`{POLICY}` is no person's name"))),
        _ => Ok(()),
    }
}

fn refuse_ended(id: InstanceId) -> Refusal {
    Refusal::new(RefusalKind::Malformed, format!("there is no instance {id}"))
}
