//! Driving a run: one loop puts everything that comes in into one order.
//!
//! Outcomes of executors, orders of people, the passing of time and the wish to stop all go through the
//! driver one after the other. The loop ends when nothing moves any more without a person. It does
//! nothing itself: executors do. What it does with each thing that comes in is the `Dispatcher`, which has no
//! threads and looks at no clock but the one it is given, so that the simulation runs the same code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ftl_core::run::{
    Action, ActionId, ActionTarget, Entry, Event, Failure, FailureKind, InstanceId, Outcome, Time, Usage,
};
use ftl_core::value::Value;

use crate::driver::{DriveError, Driver, Todo, never_started};
use crate::executors::answer::too_large;
pub use crate::executors::answer::{MAX_AGENT_ANSWER_BYTES, MAX_ANSWER_BYTES};
use crate::executors::{ActionRunner, Job, JobEnd, JobRefusal, JobReport, Report, Right};
use crate::services::Services;
use ftl_folder::clock::{Clock, millis};
use ftl_process::Cancel;
use ftl_store::summary::Summary;

/// How often orders of other processes are looked for.
pub const POLL: Duration = Duration::from_millis(100);

/// How long executors have for their last reports when the engine is stopped.
pub const MAX_GOODBYE: Duration = Duration::from_millis(1200);

/// The wish to stop: said once, everything is put away first; said twice, it is over at once.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicU8>);

impl StopSignal {
    /// Says it once more.
    pub fn say(&self) -> u8 {
        self.0.fetch_add(1, Ordering::SeqCst).saturating_add(1)
    }

    /// Takes it back: the signals so far were heard, and what comes next is not meant.
    pub fn take_back(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// How often it was said.
    pub fn times_said(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A watcher of a run: it sees every entry as soon as it is durable.
pub trait DriveObserver {
    /// Entries that were just written, and what the run looks like now.
    fn see(&mut self, entries: &[Entry], summary: &Summary);
}

/// Watching without a watcher, for tests and commands that show nothing.
impl DriveObserver for () {
    fn see(&mut self, _: &[Entry], _: &Summary) {}
}

/// How driving came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveEnd {
    /// Nothing moves any more without a person: settled, held or waiting.
    Rests(Summary),
    /// It was stopped from outside, and goes on with the next `resume`.
    Stopped(Summary),
}

/// Drives a run until it rests, and gives it back.
pub fn drive(
    driver: Driver,
    todo: Todo,
    runner: &dyn ActionRunner,
    clock: &dyn Clock,
    stop: &StopSignal,
    watch: &mut dyn DriveObserver,
) -> Result<DriveEnd, DriveError> {
    let (events, told) = channel();
    let mut wheel = Dispatcher::new(driver, runner, clock, watch, events);
    let ended = wheel.first(todo).and_then(|()| turn(&mut wheel, &told, stop));
    match ended {
        Ok(stopped) => {
            let summary = wheel.driver.summary().clone();
            // A run that cannot be given back is taken by the process that finds its owner dead.
            let _ = wheel.driver.release();
            Ok(if stopped { DriveEnd::Stopped(summary) } else { DriveEnd::Rests(summary) })
        }
        Err(error) => {
            let_go(&mut wheel, &told);
            Err(error)
        }
    }
}

/// Turns until the run rests; whether it was stopped from outside.
fn turn(
    wheel: &mut Dispatcher<'_>,
    told: &Receiver<JobReport>,
    stop: &StopSignal,
) -> Result<bool, DriveError> {
    loop {
        if stop.times_said() > 0 {
            return say_goodbye(wheel, told, stop).map(|()| true);
        }
        if wheel.look()? {
            return Ok(false);
        }
        wheel.runner.rest();
        match told.recv_timeout(wheel.patience()) {
            Ok(one) => wheel.hear(one)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(one) = told.try_recv() {
            wheel.hear(one)?;
        }
    }
}

/// Ends everything that runs, and writes down what became of it.
fn say_goodbye(
    wheel: &mut Dispatcher<'_>,
    told: &Receiver<JobReport>,
    stop: &StopSignal,
) -> Result<(), DriveError> {
    wheel.cancel_all();
    // What has not begun says so.
    wheel.runner.rest();
    let end = Instant::now() + MAX_GOODBYE;
    while !wheel.jobs.is_empty() && stop.times_said() < 2 {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        if let Ok(one) = told.recv_timeout(left.min(POLL)) {
            wheel.hear_last(one)?;
        }
    }
    if stop.times_said() >= 2 {
        wheel.drop_all();
        return Ok(());
    }
    wheel.interrupt_all()
}

/// Lets everything go that can no longer be written down.
fn let_go(wheel: &mut Dispatcher<'_>, told: &Receiver<JobReport>) {
    wheel.drop_all();
    wheel.runner.rest();
    let end = Instant::now() + MAX_GOODBYE;
    while !wheel.jobs.is_empty() {
        let Ok(one) = told.recv_timeout(end.saturating_duration_since(Instant::now())) else { return };
        match one {
            JobReport::Report(instance, action, _) => {
                wheel.jobs.remove(&(instance, action));
            }
            JobReport::Tool(_, _, _, reply) | JobReport::Spent(_, _, _, reply) => {
                let _ = reply.send(Err(JobRefusal::Stopping));
            }
            JobReport::Probed(..) => {}
        }
    }
}

/// An answer that is too large to be kept is none.
fn answered(value: Value, most: usize) -> Outcome {
    match too_large(&value, most) {
        None => Outcome::Done(value),
        Some(message) => Outcome::Failed(Failure::new(FailureKind::Failed, message)),
    }
}

/// What is done with each thing that comes in. The caller calls `first` once, then `look` and
/// `hear` in any order until `look` says that it rests; to stop, `cancel_all`, `hear_last` as long as
/// there is patience, and `interrupt_all`. After an error nothing but `drop_all` makes sense.
pub struct Dispatcher<'a> {
    driver: Driver,
    runner: &'a dyn ActionRunner,
    clock: &'a dyn Clock,
    watch: &'a mut dyn DriveObserver,
    events: Sender<JobReport>,
    right: Arc<Right>,
    jobs: BTreeMap<(InstanceId, ActionId), Cancel>,
    services: Services,
    looked: Option<Time>,
}

impl<'a> Dispatcher<'a> {
    /// A dispatcher for one run; what executors report goes to the channel `events`.
    pub fn new(
        driver: Driver,
        runner: &'a dyn ActionRunner,
        clock: &'a dyn Clock,
        watch: &'a mut dyn DriveObserver,
        events: Sender<JobReport>,
    ) -> Dispatcher<'a> {
        let (jobs, services) = (BTreeMap::new(), Services::default());
        let right = Arc::new(Right { store: driver.store().clone(), lease: driver.lease().clone() });
        Dispatcher { driver, runner, clock, watch, events, right, jobs, services, looked: None }
    }

    /// The run that it drives.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The run, given back to the caller.
    pub fn into_driver(self) -> Driver {
        self.driver
    }

    /// The jobs whose last words are still to come.
    pub fn jobs(&self) -> impl Iterator<Item = &(InstanceId, ActionId)> {
        self.jobs.keys()
    }

    /// What a new or recovered run begins with. Orders that wait already come before it: what they
    /// take back is not even started.
    pub fn first(&mut self, todo: Todo) -> Result<(), DriveError> {
        self.watch.see(&todo.entries, self.driver.summary());
        for key in todo.cancel {
            // It was cancelled before the engine died, and its last report was lost.
            self.write_off(key, None)?;
        }
        self.look_for_orders()?;
        let wanted = |action: &Action| self.is_open((action.instance, action.id));
        let (start, gone): (Vec<Action>, Vec<Action>) = todo.start.into_iter().partition(wanted);
        for action in gone {
            self.write_off((action.instance, action.id), Some(self.nothing()))?;
        }
        self.carry_out(Todo { start, ..Todo::default() })
    }

    fn is_open(&self, (instance, action): (InstanceId, ActionId)) -> bool {
        self.driver.run().instance(instance).is_some_and(|one| one.open.contains_key(&action))
    }

    /// A use of nothing, with every meter named: nothing about it is unknown.
    fn nothing(&self) -> Usage {
        self.driver.run().terms().reserve.keys().map(|name| (name.clone(), 0)).collect()
    }

    /// The last report of something that was cancelled and does not run: what was set aside for it is
    /// free again.
    fn write_off(&mut self, key: (InstanceId, ActionId), usage: Option<Usage>) -> Result<(), DriveError> {
        let (instance, action) = key;
        if !self.driver.run().instance(instance).is_some_and(|one| one.owed.contains_key(&action)) {
            return Ok(());
        }
        self.take_and_do(Event::Outcome { instance, action, outcome: Outcome::Cancelled, usage })
    }

    /// Looks for orders and at the clock; whether nothing moves any more without a person.
    pub fn look(&mut self) -> Result<bool, DriveError> {
        self.look_for_orders()?;
        self.pass_time()?;
        if !self.rests() {
            return Ok(false);
        }
        // An order may have come since the last look.
        self.looked = None;
        self.look_for_orders()?;
        Ok(self.rests())
    }

    fn rests(&self) -> bool {
        let due = self.driver.run().next_due().is_some();
        self.jobs.is_empty() && !self.services.is_probing() && (!due || self.driver.run().end().is_some())
    }

    /// How long there is nothing to do but listen.
    fn patience(&self) -> Duration {
        match self.driver.run().next_due() {
            Some(due) if !self.services.is_probing() => {
                POLL.min(Duration::from_millis(due.saturating_sub(self.clock.now())))
            }
            Some(_) | None => POLL,
        }
    }

    fn take(&mut self, event: Event) -> Result<Todo, DriveError> {
        let todo = self.driver.take(self.clock.now(), event)?;
        self.watch.see(&todo.entries, self.driver.summary());
        Ok(todo)
    }

    fn take_and_do(&mut self, event: Event) -> Result<(), DriveError> {
        let todo = self.take(event)?;
        self.carry_out(todo)
    }

    fn look_for_orders(&mut self) -> Result<(), DriveError> {
        let now = self.clock.now();
        if self.looked.is_some_and(|looked| now.saturating_sub(looked) < millis(POLL)) {
            return Ok(());
        }
        self.looked = Some(now);
        for order in self.driver.orders()? {
            let todo = self.driver.obey(self.clock.now(), order.id, &order.body)?;
            self.watch.see(&todo.entries, self.driver.summary());
            self.carry_out(todo)?;
        }
        Ok(())
    }

    /// What is due: services are probed first, then everything that waited is asked again.
    fn pass_time(&mut self) -> Result<(), DriveError> {
        let now = self.clock.now();
        if self.driver.run().next_due().is_none_or(|due| due > now) {
            return Ok(());
        }
        let run = self.driver.run();
        let due = run.suspended().filter(|(_, _, _, until)| *until <= now).map(|(_, _, service, _)| service);
        for service in self.services.to_probe(due) {
            self.runner.probe(service, self.events.clone());
        }
        if self.services.is_probing() {
            return Ok(());
        }
        self.services.ticked();
        self.take_and_do(Event::Tick)
    }

    /// Starts and cancels what the journal already asks for.
    fn carry_out(&mut self, todo: Todo) -> Result<(), DriveError> {
        for key in todo.cancel {
            match self.jobs.get(&key) {
                Some(cancel) => {
                    cancel.cancel();
                    self.runner.called_off();
                }
                None => self.write_off(key, Some(self.nothing()))?,
            }
        }
        for action in todo.start {
            if let ActionTarget::Word(_) | ActionTarget::Question = action.wanted {
                continue;
            }
            let (instance, id) = (action.instance, action.id);
            let cancel = Cancel::new();
            let open = self.driver.run().instance(instance).and_then(|one| one.open.get(&id));
            let allowance = open.map(|open| open.reserved.clone()).unwrap_or_default();
            self.jobs.insert((instance, id), cancel.clone());
            let run = self.driver.id().clone();
            let job = Job::new(run, action, allowance, cancel, self.events.clone());
            self.runner.start(job.under(self.right.clone()));
        }
        Ok(())
    }

    /// Takes the report of a job.
    pub fn hear(&mut self, told: JobReport) -> Result<(), DriveError> {
        match told {
            JobReport::Report(instance, action, report) => {
                self.jobs.remove(&(instance, action));
                self.runner.on_heard(instance, action);
                let (outcome, usage) = self.outcome((instance, action), report);
                self.take_and_do(Event::Outcome { instance, action, outcome, usage: Some(usage) })
            }
            JobReport::Spent(instance, action, usage, reply) => {
                let todo = self.take(Event::Spent { instance, action, usage })?;
                let goes_on = self.is_open((instance, action));
                let _ = reply.send(if goes_on { Ok(()) } else { Err(JobRefusal::Unwanted) });
                self.carry_out(todo)
            }
            JobReport::Tool(instance, action, (tool, file), reply) => {
                let todo = self.take(Event::Tool { instance, action, tool, file })?;
                let denied = todo.refusal.as_ref().map(|refusal| JobRefusal::Denied(refusal.message.clone()));
                let _ = reply.send(denied.map_or(Ok(()), Err));
                self.carry_out(todo)
            }
            JobReport::Probed(service, up) => self.probed(&service, up),
        }
    }

    /// How large the answer to an action may be.
    fn most_of(&self, (instance, action): (InstanceId, ActionId)) -> usize {
        let open = self.driver.run().instance(instance).and_then(|one| one.open.get(&action));
        match open.and_then(|open| open.whom.role()) {
            Some("planner") | None => MAX_ANSWER_BYTES,
            Some(_) => MAX_AGENT_ANSWER_BYTES,
        }
    }

    fn outcome(&mut self, key: (InstanceId, ActionId), report: Report) -> (Outcome, Usage) {
        let outcome = match report.ended {
            JobEnd::Outage { service, after } => {
                let until = self.services.silent(key, &service, after, self.clock.now());
                return (Outcome::Outage { service, until }, report.usage);
            }
            JobEnd::ClaimedOutage { service, after } => {
                let until = self.services.silent(key, &service, after, self.clock.now());
                return (Outcome::ClaimedOutage { service, until }, report.usage);
            }
            JobEnd::Done(value) => answered(value, self.most_of(key)),
            JobEnd::Failed(failure) => Outcome::Failed(failure),
            JobEnd::Died(message) => Outcome::Died(message),
            JobEnd::Forbidden(why) => Outcome::Forbidden(why),
            JobEnd::Cancelled => Outcome::Cancelled,
        };
        self.services.answered(key);
        (outcome, report.usage)
    }

    /// A service that is still silent is left alone for longer, with every action that waits for it.
    fn probed(&mut self, service: &str, up: bool) -> Result<(), DriveError> {
        self.services.probed(service, up);
        if up {
            return Ok(());
        }
        let now = self.clock.now();
        let waiting: Vec<(InstanceId, ActionId)> = self
            .driver
            .run()
            .suspended()
            .filter(|(_, _, name, until)| *name == service && *until <= now)
            .map(|(instance, action, _, _)| (instance, action))
            .collect();
        let mut until: Option<Time> = None;
        for (instance, action) in waiting {
            let first = || self.services.silent((instance, action), service, None, now);
            let until = *until.get_or_insert_with(first);
            let outcome = Outcome::Outage { service: service.to_owned(), until };
            let usage = Some(self.nothing());
            self.take_and_do(Event::Outcome { instance, action, outcome, usage })?;
        }
        Ok(())
    }

    /// Asks everything that runs to stop.
    pub fn cancel_all(&self) {
        self.jobs.values().for_each(Cancel::cancel);
        self.runner.called_off();
    }

    /// Stops everything that runs, at once.
    pub fn drop_all(&self) {
        self.jobs.values().for_each(Cancel::cancel_now);
        self.runner.called_off();
    }

    /// Stops everything that still runs, and writes it down as interrupted, its use unknown.
    pub fn interrupt_all(&mut self) -> Result<(), DriveError> {
        self.drop_all();
        for (instance, action) in std::mem::take(&mut self.jobs).into_keys() {
            let outcome = Outcome::Interrupted;
            let todo = self.take(Event::Outcome { instance, action, outcome, usage: None })?;
            self.put_off(todo)?;
        }
        Ok(())
    }

    /// Takes the report of a job while everything is being stopped: nothing new begins.
    pub fn hear_last(&mut self, told: JobReport) -> Result<(), DriveError> {
        match told {
            JobReport::Report(instance, action, report) => {
                self.jobs.remove(&(instance, action));
                let most = self.most_of((instance, action));
                // What ended badly while it was being ended did not fail: it was interrupted.
                let outcome = match report.ended {
                    JobEnd::Done(value) => answered(value, most),
                    JobEnd::Failed(_) | JobEnd::Died(_) | JobEnd::Forbidden(_) => Outcome::Interrupted,
                    JobEnd::Cancelled | JobEnd::Outage { .. } | JobEnd::ClaimedOutage { .. } => {
                        Outcome::Interrupted
                    }
                };
                let usage = Some(report.usage);
                let todo = self.take(Event::Outcome { instance, action, outcome, usage })?;
                self.put_off(todo)
            }
            JobReport::Spent(instance, action, usage, reply) => {
                let todo = self.take(Event::Spent { instance, action, usage })?;
                let _ = reply.send(Err(JobRefusal::Stopping));
                self.put_off(todo)
            }
            JobReport::Tool(_, _, _, reply) => {
                let _ = reply.send(Err(JobRefusal::Stopping));
                Ok(())
            }
            JobReport::Probed(..) => Ok(()),
        }
    }

    /// What would be started now is put off instead: it never began, and the journal says so.
    fn put_off(&mut self, todo: Todo) -> Result<(), DriveError> {
        let mut waiting = vec![todo];
        while let Some(todo) = waiting.pop() {
            for key in &todo.cancel {
                if let Some(cancel) = self.jobs.get(key) {
                    cancel.cancel();
                    self.runner.called_off();
                }
            }
            for action in &todo.start {
                if let Some(event) = never_started(action, self.driver.run().terms()) {
                    waiting.push(self.take(event)?);
                }
            }
        }
        Ok(())
    }
}
