//! Receiving: each input is handed to what it is about.
//!
//! Outcomes, tool calls and reports of use; the passing of time; the return of the engine. Nothing
//! is asked for here that was not asked for before.

use super::draft::Draft;
use super::fact::{
    ActionId, Fact, Failure, FailureKind, InstanceId, Payment, ROOT, ThreadId, Time, Usage, WHOLE,
};
use super::input::{Adoption, Event, Outcome, Refusal, RefusalKind};
use super::instance::{Instance, Open, OpenKind};
use super::steps::{How, MAX_ATTEMPTS, spent_meter};
use super::walk::state_arguments;
use crate::syntax::Step;
use crate::value::{Fields, Name};

/// The service that an action waits for when the engine itself was stopped in the middle of it.
pub const STOPPED: &str = "ftl";

/// How the names of services begin that are pull requests, which answer and are not ready.
pub const PULL: &str = "pull request ";

/// What is known of the end of an agent that says it was cancelled and was not called off.
const CALLED_OFF_BY_NOBODY: &str = "it ended as if it had been cancelled";

type Taken = Result<(), Refusal>;

/// An attempt that came to nothing.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    /// What is known of its end.
    message: &'a str,
    /// Whether the agent made a call that it may not make.
    forbidden: bool,
}

impl Draft<'_> {
    /// Hands an input to what it is about.
    pub(super) fn receive(&mut self, event: &Event) -> Taken {
        match event {
            Event::Open { protocol, inputs, terms, adopt } => {
                self.open_root(protocol, inputs, terms, adopt.as_ref())
            }
            Event::Outcome { instance, action, outcome, usage } => {
                self.outcome(*instance, *action, outcome, usage.as_ref())
            }
            Event::Tool { instance, action, tool, file } => {
                self.tool(*instance, *action, tool, file.as_ref())
            }
            Event::Spent { instance, action, usage } => {
                if self.get(*instance).is_some_and(|one| one.owed.contains_key(action)) {
                    self.charge_known(*instance, *action, usage);
                    return Ok(());
                }
                self.is_open(*instance, *action)?;
                self.charge_report(*instance, *action, usage);
                Ok(())
            }
            Event::Say { instance, word, by, reason, options } => {
                self.say(*instance, word, by, reason, options)
            }
            Event::Reply { instance, action, value, by } => self.reply(*instance, *action, value, by),
            Event::Waive { instance, to, by, reason } => self.waive(*instance, to, by, reason),
            Event::Raise { instance, meter, limit, by, reason } => {
                self.raise(*instance, meter, *limit, by, reason)
            }
            Event::Redo { instance, to, by, reason } => self.redo(*instance, to, by, reason),
            Event::Resume { instance, by } => self.resume(*instance, by),
            Event::Stop { instance, by, reason } => self.stop(*instance, by, reason),
            Event::Tick => {
                self.tick();
                Ok(())
            }
            Event::Recover => {
                self.recover();
                Ok(())
            }
        }
    }

    fn open_root(
        &mut self,
        protocol: &Name,
        inputs: &Fields,
        terms: &super::fact::Terms,
        adopt: Option<&Adoption>,
    ) -> Taken {
        if self.get(ROOT).is_some() {
            return Err(Refusal::new(RefusalKind::Malformed, "the run is open already"));
        }
        if let Some(adopt) = adopt {
            let program = self.run.programs().program(protocol);
            if program.is_some_and(|program| program.state(&adopt.state).is_none()) {
                let message = format!("`{protocol}` has no state `{}`", adopt.state);
                return Err(Refusal::new(RefusalKind::Malformed, message));
            }
        }
        let opened = self.open(protocol, inputs.clone(), None, Some(terms.clone()));
        let id = opened.map_err(|message| Refusal::new(RefusalKind::Malformed, message))?;
        if let Some(adopt) = adopt {
            self.adopt(id, adopt);
        }
        Ok(())
    }

    fn adopt(&mut self, id: InstanceId, adopt: &Adoption) {
        let Some(program) = self.program(id) else { return };
        let Some(code) = program.state(&adopt.state) else { return };
        let mut visited = adopt.visited.clone();
        if !visited.contains(&adopt.state) {
            visited.push(adopt.state.clone());
        }
        let params = match self.get(id) {
            Some(instance) => state_arguments(code, adopt.params.clone(), &instance.names(&ThreadId::Main)),
            None => Fields::new(),
        };
        let (state, code, by) = (adopt.state.clone(), code.code.clone(), adopt.by.clone());
        self.put(id, Fact::Adopted { state, code, visited, params, by });
    }

    /// Refuses what is said of an action that the instance no longer waits for.
    fn is_open(&self, id: InstanceId, action: ActionId) -> Taken {
        let instance = self.get(id);
        match instance.and_then(|one| one.open.get(&action)) {
            Some(open) if open.held.is_some() => {
                Err(Refusal::new(RefusalKind::Late, format!("{action} is held and not at work")))
            }
            Some(open) if matches!(open.kind, OpenKind::Call | OpenKind::Record) => Ok(()),
            Some(_) => {
                Err(Refusal::new(RefusalKind::Malformed, format!("{action} is not answered from outside")))
            }
            None => Err(Refusal::new(RefusalKind::Late, format!("nobody waits for {action} any more"))),
        }
    }

    fn outcome(
        &mut self,
        id: InstanceId,
        action: ActionId,
        outcome: &Outcome,
        usage: Option<&Usage>,
    ) -> Taken {
        self.close_overdue(id, action);
        if let Err(refusal) = self.is_open(id, action) {
            self.last_report(id, action, usage);
            return Err(refusal);
        }
        match outcome {
            Outcome::Done(value) => {
                self.charge(id, action, usage);
                self.answer(id, action, Ok(value.clone()));
            }
            Outcome::Failed(failure) if failure.kind == FailureKind::Machine => {
                self.charge(id, action, usage);
                self.hold_action(id, action, failure);
            }
            Outcome::Failed(failure) => {
                self.charge(id, action, usage);
                self.answer(id, action, Err(failure.clone()));
            }
            Outcome::Died(message) => {
                self.attempted(id, action, Attempt { message, forbidden: false }, usage);
            }
            Outcome::Forbidden(message) => {
                self.attempted(id, action, Attempt { message, forbidden: true }, usage);
            }
            Outcome::Cancelled if self.is_agent(id, action) => {
                let attempt = Attempt { message: CALLED_OFF_BY_NOBODY, forbidden: false };
                self.attempted(id, action, attempt, usage);
            }
            Outcome::Cancelled => {
                self.charge(id, action, usage);
                self.put(id, Fact::Resumed { action: Some(action), thread: ThreadId::Main, by: None });
                self.ask_again(id, action);
            }
            Outcome::Interrupted => {
                self.charge(id, action, usage);
                let (service, until) = (STOPPED.to_owned(), self.at);
                self.put(id, Fact::Suspended { action, service, until });
            }
            Outcome::Outage { service, until } => {
                self.charge(id, action, usage);
                self.put(id, Fact::Suspended { action, service: service.clone(), until: *until });
            }
            Outcome::ClaimedOutage { service, until } => {
                self.charge(id, action, usage);
                self.claimed_outage(id, action, service, *until);
            }
        }
        Ok(())
    }

    fn charge_known(&mut self, id: InstanceId, action: ActionId, usage: &Usage) {
        if !usage.is_empty() {
            let (usage, guessed) = (usage.clone(), Vec::new());
            self.put(id, Fact::Paid(Payment::Budget { action, usage, guessed }));
        }
    }

    /// An attempt came to nothing: its agent or command died, or its agent made a call that it may not make.
    /// It is asked again, a few times; then its step could not be run.
    fn attempted(&mut self, id: InstanceId, action: ActionId, attempt: Attempt<'_>, usage: Option<&Usage>) {
        self.charge(id, action, usage);
        let Attempt { message, forbidden } = attempt;
        self.put(id, Fact::Paid(Payment::Attempts { action, message: message.to_owned(), forbidden }));
        let died = self.get(id).and_then(|one| one.open.get(&action)).map_or(0, |open| open.died);
        if died >= MAX_ATTEMPTS {
            let message = if forbidden {
                format!("the last of {MAX_ATTEMPTS} attempts was ended: {message}")
            } else {
                format!("died {MAX_ATTEMPTS} times: {message}")
            };
            return self.answer(id, action, Err(Failure::new(FailureKind::CouldNotRun, message)));
        }
        self.ask_anew(id, action);
    }

    /// An agent says that its service does not answer. That is an attempt, and no verdict about the work: after
    /// the last one a person looks whether it is true.
    fn claimed_outage(&mut self, id: InstanceId, action: ActionId, service: &str, until: Time) {
        let (message, forbidden) = (service.to_owned(), false);
        self.put(id, Fact::Paid(Payment::Attempts { action, message, forbidden }));
        let died = self.get(id).and_then(|one| one.open.get(&action)).map_or(0, |open| open.died);
        if died < MAX_ATTEMPTS {
            self.put(id, Fact::Suspended { action, service: service.to_owned(), until });
            return;
        }
        let message = format!(
            "the agent says after {MAX_ATTEMPTS} attempts that a service does not answer: {service} (hint: look \
             whether it does, then run `ftl resume` with the run's name)"
        );
        self.hold_action(id, action, &Failure::new(FailureKind::Machine, message));
    }

    fn is_agent(&self, id: InstanceId, action: ActionId) -> bool {
        let open = self.get(id).and_then(|one| one.open.get(&action));
        open.is_some_and(|open| open.whom.role().is_some())
    }

    /// The machine could not do it: nothing is heard of the action, it stays open, and a person lets it be
    /// asked again. What was set aside for it is free meanwhile.
    fn hold_action(&mut self, id: InstanceId, action: ActionId, failure: &Failure) {
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)).cloned() else { return };
        self.settle_purse(id, action);
        let (thread, place, failure) = (open.thread.clone(), open.place, failure.clone());
        let action = Some(action);
        self.put(id, Fact::Held { thread, place, failure, meter: None, stuck: false, action });
    }

    /// Asks again for what the machine could not do before.
    pub(super) fn ask_held(&mut self, id: InstanceId, action: ActionId, thread: &ThreadId, by: &str) {
        let (thread, by) = (thread.clone(), Some(by.to_owned()));
        self.put(id, Fact::Resumed { action: Some(action), thread, by });
        self.ask_as_before(id, action);
    }

    /// Asks for an action again that was interrupted: it begins from the beginning, and so do its tool
    /// calls.
    fn ask_again(&mut self, id: InstanceId, action: ActionId) {
        let paid = self.get(id).and_then(|one| one.open.get(&action)).map(|open| open.paid.clone());
        for (meter, count) in paid.into_iter().flatten() {
            self.put(id, Fact::Paid(Payment::Back { action, meter, count }));
        }
        self.ask_anew(id, action);
    }

    /// Asks for an action again under its own id, with something set aside for it again.
    fn ask_anew(&mut self, id: InstanceId, action: ActionId) {
        if self.top_up(id, action, true)
            && let Some(action) = self.action_of(id, action)
        {
            self.start(action);
        }
    }

    /// A branch that answers after the time of its PARALLEL is late, whether or not the run has
    /// looked at the clock before.
    fn close_overdue(&mut self, id: InstanceId, action: ActionId) {
        let whole = ActionId { entry: action.entry, index: WHOLE };
        let over = self
            .get(id)
            .and_then(|one| one.open.get(&whole))
            .is_some_and(|open| open.suspended.is_none() && open.due().is_some_and(|until| until <= self.at));
        if over && action != whole {
            self.parallel_answer(id, whole);
        }
    }

    /// An agent wants to call a tool: the meter is paid first, or the task ends. A file that was read or written
    /// before is paid for already.
    fn tool(&mut self, id: InstanceId, action: ActionId, tool: &Name, file: Option<&Name>) -> Taken {
        self.is_open(id, action)?;
        let Some((meter, keeping)) = self.paying(id, action) else { return Ok(()) };
        let open = self.get(id).and_then(|one| one.open.get(&action));
        if open.zip(file).is_some_and(|(open, file)| open.files.contains(file)) {
            return Ok(());
        }
        let keys = vec![Name::default()];
        let counter = self.get(id).and_then(|one| one.meters.get(&meter)).cloned();
        if counter.as_ref().is_some_and(|counter| counter.can_pay(&keys, keeping)) {
            let (action, file) = (Some(action), file.cloned());
            self.put(id, Fact::Paid(Payment::Meter { meter, keys, action, file }));
            return Ok(());
        }
        let limit = counter.map_or(0, |counter| counter.limit);
        let failure = spent_meter(&meter, limit, &[]);
        let what = format!("tool {tool} of {action}");
        self.put(id, Fact::Refused { thread: None, place: None, what, failure: failure.clone(), by: None });
        self.cancel(id, action);
        self.answer_how(id, action, Err(failure), How::Cut);
        self.refusal = Some(Refusal::new(RefusalKind::Guard, format!("{meter} spent: the call is denied")));
        Ok(())
    }

    fn paying(&self, id: InstanceId, action: ActionId) -> Option<(Name, u64)> {
        let instance = self.get(id)?;
        let place = instance.open.get(&action)?.place;
        let program = self.program(id)?;
        let step = program.state(&instance.state)?.node(place)?.step()?;
        let Step::Do { paying: Some(paying), .. } = step else { return None };
        Some((paying.meter.name.clone(), paying.keeping))
    }

    /// What was due: services to ask again, PARALLELs whose time is over.
    fn tick(&mut self) {
        for id in self.due() {
            let Some(instance) = self.get(id).filter(|one| one.next_due().is_some()) else { continue };
            let due = instance.due.keys().take_while(|(until, _)| *until <= self.at);
            let mut due: Vec<ActionId> = due.map(|(_, action)| *action).collect();
            due.sort_unstable();
            let waits =
                |action: &ActionId| instance.open.get(action).is_some_and(|one| one.suspended.is_some());
            let (mut again, over): (Vec<_>, Vec<_>) = due.into_iter().partition(waits);
            if !again.is_empty()
                && let Some(message) = self.changed(id)
            {
                self.hold_changed(id, message);
                again.clear();
            }
            for action in again {
                self.put(id, Fact::Resumed { action: Some(action), thread: ThreadId::Main, by: None });
                self.ask_as_before(id, action);
            }
            for action in over {
                self.parallel_answer(id, action);
            }
        }
    }

    /// The engine came back and had said no goodbye: what agents used since their last report is
    /// unknown and charged so. Instances whose state has changed are held, everything else that is
    /// open is asked again under its own id; what was suspended is asked when its time has come.
    fn recover(&mut self) {
        let live: Vec<InstanceId> = self.among(&self.run.index.live).collect();
        for id in live {
            let Some(instance) = self.get(id).filter(|one| !one.is_settled()) else { continue };
            if let Some(message) = self.changed(id) {
                let lost = at_work(instance);
                lost.into_iter().for_each(|action| self.charge_lost(id, action));
                self.hold_changed(id, message);
                continue;
            }
            self.changed_back(id);
            for action in self.get(id).map(at_work).unwrap_or_default() {
                self.reconcile(id, action);
            }
        }
        let owing: Vec<InstanceId> = self.among(&self.run.index.owing).collect();
        for id in owing {
            let owed: Vec<ActionId> =
                self.get(id).into_iter().flat_map(|one| one.owed.keys().copied()).collect();
            for action in owed {
                self.cancel(id, action);
            }
        }
        self.tick();
    }

    /// Asks for an open action again, or hears of a child that has ended in the meantime.
    fn reconcile(&mut self, id: InstanceId, action: ActionId) {
        let child = self.get(id).and_then(|one| one.open.get(&action)).and_then(|open| match open.kind {
            OpenKind::Child(child) => child,
            OpenKind::Call | OpenKind::Words(_) | OpenKind::Question | OpenKind::Record => None,
            OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => None,
        });
        if let Some((end, values)) =
            child.and_then(|child| self.get(child)).and_then(|child| child.end.clone())
        {
            return self.child_ended(id, action, end, &values);
        }
        self.charge_lost(id, action);
        self.ask_as_before(id, action);
    }

    /// An agent that was at work when the engine died: what it used since its last report was lost with
    /// the engine, so that all that is still set aside for it counts as used.
    fn charge_lost(&mut self, id: InstanceId, action: ActionId) {
        let open = self.get(id).and_then(|one| one.open.get(&action));
        if open.is_some_and(|open| open.whom.role().is_some()) {
            self.charge(id, action, None);
        }
    }

    /// Asks for an open action again if it would be the same, or holds its step.
    fn ask_as_before(&mut self, id: InstanceId, action: ActionId) {
        let Some(asked) = self.action_of(id, action) else { return };
        if self.unchanged(id, &asked) {
            return self.ask_again(id, action);
        }
        // Never another thing under the same id, and never silence.
        let Some(open) = self.get(id).and_then(|one| one.open.get(&action)).cloned() else { return };
        let message = format!("{} can no longer be asked as it was", open.whom);
        self.hold(id, &open.thread, open.place, Failure::new(FailureKind::Stale, message));
    }

    /// An instance that was held because its state had changed goes on when that is undone.
    fn changed_back(&mut self, id: InstanceId) {
        let Some(instance) = self.get(id) else { return };
        let Some(held) = instance.held.get(&ThreadId::Main) else { return };
        if !held.stuck || held.failure.kind != FailureKind::Stale {
            return;
        }
        let place = held.place;
        let rests = instance.open.values().any(|open| open.thread == ThreadId::Main);
        self.put(id, Fact::Resumed { action: None, thread: ThreadId::Main, by: None });
        if !rests {
            self.later(id, ThreadId::Main, Some(place));
        }
    }

    /// What has become of the state that an instance is in, if it is no longer what was entered.
    pub(super) fn changed(&self, id: InstanceId) -> Option<String> {
        let instance = self.get(id)?;
        let Some(program) = self.program(id) else {
            return Some(format!("the protocol `{}` is gone or no longer sound", instance.protocol));
        };
        match program.state(&instance.state) {
            None => Some(format!("the protocol no longer has the state `{}`", instance.state)),
            Some(state) if state.code != instance.code => {
                Some(format!("the text of `{}` has changed since it was entered", instance.state))
            }
            Some(_) => None,
        }
    }

    pub(super) fn hold_changed(&mut self, id: InstanceId, message: String) {
        let held = self.get(id).and_then(|one| one.held.get(&ThreadId::Main));
        if held.is_some_and(|held| held.stuck && held.failure.message == message) {
            return;
        }
        let place = self.get(id).and_then(|one| one.thread(&ThreadId::Main)).map_or(0, |thread| thread.place);
        let (thread, failure) = (ThreadId::Main, Failure::new(FailureKind::Stale, message));
        self.put(id, Fact::Held { thread, place, failure, meter: None, stuck: true, action: None });
    }
}

/// What is open and was at work when the engine was last heard of. What is suspended has a time of its own,
/// and what the machine could not do waits for a person.
fn at_work(instance: &Instance) -> Vec<ActionId> {
    let waits = |open: &Open| {
        open.suspended.is_some() || (open.held.is_some() && instance.held.contains_key(&open.thread))
    };
    instance.open.iter().filter(|(_, open)| !waits(open)).map(|(action, _)| *action).collect()
}
