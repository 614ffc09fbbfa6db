//! The stage: processes come and go, jobs speak, people meddle, accidents happen, one after another.
//!
//! A queue holds everything that will happen, by its time. Each step takes the next, lets the real
//! engine deal with it, and asks the oracles. The stage never helps the engine.

mod accidents;
mod jobs;

use std::collections::BTreeMap;
use std::slice::IterMut;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use ftl_core::run::{ActionId, InstanceId, Time};
use ftl_engine::drive::{Dispatcher, POLL};
use ftl_engine::driver::{DriveError, Driver};
use ftl_engine::executors::JobReport;
use ftl_folder::clock::Clock as _;
use ftl_folder::id::RunId;
use ftl_store::journal::JournalError;
use ftl_store::{Lease, MemoryStore, Store as _, StoreError};

use super::agents::{Doing, Ending, Saying};
use super::case::{Case, library};
use super::oracle::Oracle;
use super::people::{self, Said};
use super::process::{Process, Recorder, SimClock};
use super::{Counts, Found, Options, SimulationOutcome};
use crate::dice::Dice;
use crate::world::World;

/// How many processes may take part in one simulation.
const MAX_PROCESSES: usize = 400;

/// When so many processes have taken part, the trouble is over.
const ENOUGH_PROCESSES: usize = 200;

/// How many steps a run may take to its end once it is calm.
const MAX_CALM_STEPS: u64 = 6_000;

/// How often people help before they give a run up.
const MAX_HELP: u64 = 40;

/// How many more steps a moment of trouble counts for while no job is at work.
const DULL: u64 = 6;

/// How much of an entry a trace shows.
const MAX_TRACED: usize = 240;

/// The time at which every simulation begins.
const BEGIN: Time = 1_000_000;

/// The things that can happen next.
#[derive(Clone, Debug)]
enum Happening {
    /// A job does the next thing of its script.
    Say { process: usize, job: u64 },
    /// A probe of a service comes back.
    Probed { process: usize, service: String },
    /// A process looks for orders and at the clock.
    Look { process: usize },
    /// The time for last words is over.
    Goodbye { process: usize },
    /// A process that slept goes on.
    Wake { process: usize },
    /// A person starts a process for the run.
    Arrive,
    /// A moment at which something may go wrong.
    Trouble,
    /// The disk is well again.
    Mended,
}

type Step = Result<(), String>;

/// A process at work.
struct Engine<'a> {
    process: usize,
    wheel: Option<Dispatcher<'a>>,
    /// It has taken the run and not looked at it yet.
    claimed: Option<Lease>,
    asleep: bool,
    /// What would have happened while it slept.
    missed: Vec<Happening>,
    leaving: bool,
    jobs: BTreeMap<u64, Doing>,
    look_at: Option<Time>,
}

struct Stage<'a> {
    case: Case,
    options: Options,
    run: RunId,
    disk: Arc<MemoryStore>,
    clock: &'a SimClock,
    cast: &'a [Process],
    recorders: IterMut<'a, Recorder>,
    events: Sender<JobReport>,
    dice: Dice,
    queue: BTreeMap<(Time, u64), Happening>,
    tickets: u64,
    engines: Vec<Engine<'a>>,
    used: usize,
    world: World,
    oracle: Oracle,
    calm_since: Option<u64>,
    step: u64,
    helped: u64,
    faulty: bool,
    silent: BTreeMap<String, Time>,
    past: Vec<(InstanceId, ActionId)>,
    meddled: bool,
    counts: Counts,
    trace: Vec<String>,
    /// How many entries are in the trace.
    noted: usize,
    /// Steps that count although little happened in them.
    dull: u64,
}

pub(super) fn simulate(seed: u64, options: Options) -> Result<SimulationOutcome, Box<Found>> {
    let disk = Arc::new(MemoryStore::new());
    let cast: Vec<Process> =
        (0..MAX_PROCESSES).map(|number| Process::new(number, disk.clone(), options.sabotage)).collect();
    let mut recorders: Vec<Recorder> = cast.iter().map(Process::recorder).collect();
    let clock = SimClock::default();
    clock.set(BEGIN);
    let (events, _told) = channel();
    let case = Case::of(seed);
    let run = RunId::of(seed);
    let mut stage = Stage {
        run: run.clone(),
        oracle: Oracle::new(disk.clone(), run, library()),
        world: World::in_memory(case.plot.clone()),
        dice: Dice::for_name(seed, "stage"),
        case,
        options,
        disk,
        clock: &clock,
        cast: &cast,
        recorders: recorders.iter_mut(),
        events,
        queue: BTreeMap::new(),
        tickets: 0,
        engines: Vec::new(),
        used: 0,
        calm_since: None,
        step: 0,
        helped: 0,
        faulty: false,
        silent: BTreeMap::new(),
        past: Vec::new(),
        meddled: false,
        counts: Counts::default(),
        trace: Vec::new(),
        noted: 0,
        dull: 0,
    };
    let played = stage.play();
    let Stage { step, trace, .. } = stage;
    match played {
        Ok(mut ended) => {
            ended.trace = trace;
            Ok(ended)
        }
        Err(message) => Err(Box::new(Found { seed, step, message, trace })),
    }
}

impl<'a> Stage<'a> {
    fn play(&mut self) -> Result<SimulationOutcome, String> {
        let told = format!("{:?}", self.case);
        self.note(|| told);
        self.open()?;
        self.check()?;
        self.later(3_000, Happening::Trouble);
        loop {
            while let Some(((at, _), happening)) = self.queue.pop_first() {
                self.clock.set(at);
                self.step += 1;
                self.note(|| format!("{happening:?}"));
                self.happen(happening)?;
                self.check()?;
                self.grow_calm()?;
            }
            if self.is_over() {
                break;
            }
            self.help()?;
        }
        self.finish()
    }

    fn note(&mut self, told: impl FnOnce() -> String) {
        if self.options.trace {
            let line = format!("{:>6} {:>9} {}", self.step, self.clock.now() - BEGIN, told());
            self.trace.push(line);
        }
    }

    fn calm(&self) -> bool {
        self.calm_since.is_some()
    }

    fn later(&mut self, most: u64, happening: Happening) {
        let delay = self.dice.below(most);
        self.at(self.clock.now() + delay, happening);
    }

    fn at(&mut self, time: Time, happening: Happening) {
        self.tickets += 1;
        self.queue.insert((time, self.tickets), happening);
    }

    /// After so many steps of trouble it is calm, and then the run must come to its end.
    fn grow_calm(&mut self) -> Step {
        if let Some(since) = self.calm_since {
            let most = since + MAX_CALM_STEPS;
            return if self.step > most {
                Err(format!("settles: it has not come to its end in {MAX_CALM_STEPS} calm steps"))
            } else {
                Ok(())
            };
        }
        if self.step + self.dull > self.case.steps || self.used >= ENOUGH_PROCESSES {
            self.calm_since = Some(self.step);
            self.mend();
            self.note(|| String::from("it is calm now"));
            if self.engines.is_empty() {
                self.later(1_000, Happening::Arrive);
            }
        }
        Ok(())
    }

    /// Whether nothing is left to happen: the run has ended, and so have its processes.
    fn is_over(&self) -> bool {
        self.calm() && self.oracle.shadow.end().is_some() && self.engines.is_empty() && !self.has_orders()
    }

    fn has_orders(&self) -> bool {
        self.disk.pending(&self.run).is_ok_and(|orders| !orders.is_empty())
    }

    /// The queue is empty and the run has not ended: it must wait for a person, and one comes.
    fn help(&mut self) -> Step {
        if let Some(engine) = self.engines.iter().find(|engine| !engine.asleep) {
            let name = &self.cast[engine.process].name;
            return Err(format!("settles: {name} waits for something that will never happen"));
        }
        self.calm_since.get_or_insert(self.step);
        self.step += 1;
        if self.oracle.shadow.end().is_none() {
            self.helped += 1;
            let said = if self.helped <= MAX_HELP {
                people::help(&self.oracle.shadow, self.helped)
            } else {
                self.counts.given_up = 1;
                vec![people::give_up(self.helped)]
            };
            if self.helped > MAX_HELP + 3 {
                return Err(String::from("settles: not even a person who stops it brings it to its end"));
            }
            for one in said {
                self.send(&one)?;
            }
        }
        self.later(1_000, Happening::Arrive);
        Ok(())
    }

    fn send(&mut self, said: &Said) -> Step {
        match self.disk.send(&self.run, &said.body) {
            Ok(number) => {
                self.note(|| format!("order {number}: {}", said.body));
                self.counts.orders += 1;
                self.oracle.sent(number, &said.by);
                Ok(())
            }
            Err(_) if self.faulty => Ok(()),
            Err(error) => Err(format!("store: an order was not taken: {error}")),
        }
    }

    fn happen(&mut self, happening: Happening) -> Step {
        match happening {
            Happening::Arrive => self.arrive(),
            Happening::Trouble => self.trouble(),
            Happening::Mended => {
                self.mend();
                Ok(())
            }
            Happening::Say { process, .. }
            | Happening::Probed { process, .. }
            | Happening::Look { process }
            | Happening::Goodbye { process }
            | Happening::Wake { process } => self.happen_to(process, happening),
        }
    }

    fn happen_to(&mut self, process: usize, happening: Happening) -> Step {
        let Some(at) = self.engines.iter().position(|engine| engine.process == process) else {
            return Ok(());
        };
        if let Happening::Wake { .. } = happening {
            return self.wake(at);
        }
        if self.engines[at].asleep {
            self.engines[at].missed.push(happening);
            return Ok(());
        }
        match happening {
            Happening::Say { job, .. } => self.say(at, job),
            Happening::Probed { service, .. } => {
                let up =
                    self.calm() || self.silent.get(&service).is_none_or(|until| *until <= self.clock.now());
                self.tell(at, JobReport::Probed(service, up))
            }
            // A look that was put forward meanwhile is over already.
            Happening::Look { .. } if self.engines[at].look_at.is_some_and(|due| due > self.clock.now()) => {
                Ok(())
            }
            Happening::Look { .. } => {
                self.engines[at].look_at = None;
                self.after(at, Ok(()))
            }
            Happening::Goodbye { .. } => self.interrupt(at),
            Happening::Wake { .. } | Happening::Arrive | Happening::Trouble | Happening::Mended => Ok(()),
        }
    }

    /// Opens the run; a process that dies over it is followed by another, with another run.
    fn open(&mut self) -> Step {
        let process = self.next_process();
        let opening = self.case.opening();
        let name = self.cast[process].name.clone();
        let way = self.cast[process].way.clone();
        let opened = Driver::open(way, library(), (self.run.clone(), &name), opening, self.clock.now());
        match opened {
            Ok((driver, todo)) => self.begin(process, driver, todo),
            Err(error) => Err(format!("store: the run could not be opened: {error}")),
        }
    }

    fn next_process(&mut self) -> usize {
        self.counts.processes += 1;
        self.used += 1;
        self.used - 1
    }

    fn begin(&mut self, process: usize, driver: Driver, todo: ftl_engine::driver::Todo) -> Step {
        let Some(recorder) = self.recorders.next() else {
            return Err(String::from("stage: too many processes"));
        };
        let mut wheel =
            Dispatcher::new(driver, &self.cast[process], self.clock, recorder, self.events.clone());
        let first = wheel.first(todo);
        self.engines.push(Engine {
            process,
            wheel: Some(wheel),
            claimed: None,
            asleep: false,
            missed: Vec::new(),
            leaving: false,
            jobs: BTreeMap::new(),
            look_at: None,
        });
        self.after(self.engines.len() - 1, first)
    }

    /// A person starts a process: it takes the run if no process drives it.
    fn arrive(&mut self) -> Step {
        if self.used >= MAX_PROCESSES || self.engines.iter().any(|engine| !engine.asleep) {
            return Ok(());
        }
        let Ok(Some(row)) = self.disk.run(&self.run) else {
            return Err(String::from("store: the run is gone"));
        };
        let idle = row.owner.is_none() && !self.has_orders() && self.oracle.rests();
        if idle && (self.calm() || self.dice.chance(70)) {
            // It finds nothing to do.
            return Ok(());
        }
        if self.faulty {
            // It sees that the store cannot be written, says so, and ends.
            self.later(20_000, Happening::Arrive);
            return Ok(());
        }
        self.disk.reopen();
        // Agents of an owner that does not move are ended first.
        for at in 0..self.engines.len() {
            let owns = row.owner.as_ref() == Some(&self.cast[self.engines[at].process].name);
            self.counts.takeovers += u64::from(owns);
            self.end_attempts(at);
        }
        let process = self.next_process();
        let name = self.cast[process].name.clone();
        match self.cast[process].way.take(&self.run, row.epoch, &name) {
            Ok(lease) if !self.calm() && self.dice.chance(8) => {
                self.sleep_on(process, lease);
                Ok(())
            }
            Ok(lease) => self.recover(process, lease),
            Err(error) => Err(format!("store: the run could not be taken: {error}")),
        }
    }

    /// It has taken the run, and sleeps before it looks at it.
    fn sleep_on(&mut self, process: usize, lease: Lease) {
        self.engines.push(Engine {
            process,
            wheel: None,
            claimed: Some(lease),
            asleep: true,
            missed: Vec::new(),
            leaving: false,
            jobs: BTreeMap::new(),
            look_at: None,
        });
        self.later(60_000, Happening::Wake { process });
        self.later(60_000, Happening::Arrive);
    }

    fn recover(&mut self, process: usize, lease: Lease) -> Step {
        let way = self.cast[process].way.clone();
        if !self.calm() && self.dice.chance(self.case.violence / 4) {
            self.cut(process);
        }
        match Driver::recover(way, library(), lease, self.clock.now()) {
            Ok((driver, todo)) => self.begin(process, driver, todo),
            Err(error) => {
                self.failed(process, &error)?;
                self.later(20_000, Happening::Arrive);
                Ok(())
            }
        }
    }

    fn wake(&mut self, at: usize) -> Step {
        let engine = &mut self.engines[at];
        engine.asleep = false;
        let (process, missed, claimed) =
            (engine.process, std::mem::take(&mut engine.missed), engine.claimed.take());
        for happening in missed {
            self.later(50, happening);
        }
        if let Some(lease) = claimed {
            self.engines.remove(at);
            return self.recover(process, lease);
        }
        self.later(50, Happening::Look { process });
        Ok(())
    }

    fn tell(&mut self, at: usize, told: JobReport) -> Step {
        let engine = &mut self.engines[at];
        let leaving = engine.leaving;
        let Some(wheel) = engine.wheel.as_mut() else { return Ok(()) };
        let heard = if leaving { wheel.hear_last(told) } else { wheel.hear(told) };
        self.after(at, heard)
    }

    /// What follows when the engine has dealt with something: the loop of a drive goes round.
    fn after(&mut self, at: usize, dealt: Result<(), DriveError>) -> Step {
        self.take_jobs(at)?;
        let engine = &mut self.engines[at];
        let (process, leaving) = (engine.process, engine.leaving);
        let Some(wheel) = engine.wheel.as_mut() else { return Ok(()) };
        let looked = match dealt {
            Ok(()) if leaving => Ok(false),
            Ok(()) => wheel.look(),
            Err(error) => Err(error),
        };
        self.take_jobs(at)?;
        match looked {
            Err(error) => {
                self.vanish(at);
                self.failed(process, &error)
            }
            Ok(true) => self.rest(at),
            Ok(false)
                if leaving
                    && self.engines[at].wheel.as_ref().is_some_and(|one| one.jobs().next().is_none()) =>
            {
                self.interrupt(at)
            }
            Ok(false) => {
                self.notice_cancels(at);
                self.plan_look(at);
                Ok(())
            }
        }
    }

    /// The run rests: the process gives it back and ends.
    fn rest(&mut self, at: usize) -> Step {
        self.oracle.read()?;
        let process = self.engines[at].process;
        let Some(wheel) = self.engines[at].wheel.take() else { return Ok(()) };
        self.oracle.check_rest(wheel.driver().summary())?;
        self.note(|| String::from("  rests"));
        self.vanish(at);
        let driver = wheel.into_driver();
        match driver.release() {
            Ok(()) => {}
            Err(StoreError::Fenced { .. }) => self.counts.fenced += 1,
            Err(_) if self.faulty || self.cast[process].way.is_dead() => {}
            Err(error) => return Err(format!("store: the run could not be given back: {error}")),
        }
        if self.has_orders() {
            self.later(1_000, Happening::Arrive);
        }
        Ok(())
    }

    /// The time for last words is over: the process writes down what it interrupts, and ends.
    fn interrupt(&mut self, at: usize) -> Step {
        let process = self.engines[at].process;
        let Some(mut wheel) = self.engines[at].wheel.take() else { return Ok(()) };
        let ended = wheel.interrupt_all();
        self.vanish(at);
        if let Some(wrong) = self.cast[process].wrong().into_iter().next() {
            return Err(format!("durable: {wrong}"));
        }
        if let Err(error) = ended {
            return self.failed(process, &error);
        }
        let _ = wheel.into_driver().release();
        self.later(30_000, Happening::Arrive);
        Ok(())
    }

    /// A process is gone: what it had at work dies with it, some of it after its work was done.
    fn vanish(&mut self, at: usize) {
        self.end_attempts(at);
        self.engines.remove(at);
    }

    /// Ends what a process has at work. What it had used is never reported; its process may, when it wakes,
    /// hear that it died.
    fn end_attempts(&mut self, at: usize) {
        let numbers: Vec<u64> = self.engines[at].jobs.keys().copied().collect();
        for number in numbers {
            let percent = self.dice.below(101);
            let done = self.dice.chance(30);
            // The world takes everything that is in memory.
            let _ = self.burn(at, number, percent);
            let Some(job) = self.engines[at].jobs.get_mut(&number) else { continue };
            let works = job.script.iter().any(|(_, saying)| *saying == Saying::Perform);
            if works && done {
                let _ = self.perform(at, number);
            }
            if let Some(job) = self.engines[at].jobs.get_mut(&number).filter(|job| job.is_agent()) {
                job.ended = true;
                job.script = [(0, Saying::End(Ending::Die))].into();
            }
        }
    }

    /// Why a process could not go on, and whether it had a reason.
    fn failed(&mut self, process: usize, error: &DriveError) -> Step {
        self.note(|| format!("  process {process} ends: {error}"));
        self.later(30_000, Happening::Arrive);
        if self.cast[process].way.is_dead() {
            self.counts.kills += 1;
            return Ok(());
        }
        let DriveError::Journal(JournalError::Store(error)) = error else {
            return Err(format!("drive: {error}"));
        };
        match error {
            StoreError::Fenced { .. } => {
                let owner = self.disk.run(&self.run).ok().flatten().and_then(|row| row.owner);
                self.counts.fenced += 1;
                if owner.as_ref() == Some(&self.cast[process].name) {
                    return Err(String::from("fence: the owner of the run was refused"));
                }
                Ok(())
            }
            StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Failed(_) => {
                self.counts.faults += 1;
                Ok(())
            }
            other => Err(format!("store: {other}")),
        }
    }

    /// When time alone will move the run, or an order waits, the process looks then.
    fn plan_look(&mut self, at: usize) {
        let engine = &self.engines[at];
        let Some(wheel) = &engine.wheel else { return };
        let (process, now) = (engine.process, self.clock.now());
        let poll = now + ftl_folder::clock::millis(POLL);
        // What is due already waits for the answer of a probe.
        let due = wheel.driver().run().next_due().map(|due| if due <= now { poll } else { due });
        let due = due.into_iter().chain(self.has_orders().then_some(poll)).min();
        let sooner = |due: &Time| engine.look_at.is_none_or(|at| at <= now || at > *due);
        let Some(due) = due.filter(sooner) else { return };
        self.engines[at].look_at = Some(due);
        self.at(due, Happening::Look { process });
    }

    /// What must be true after every step.
    fn check(&mut self) -> Step {
        let read = self.oracle.read();
        if self.options.trace {
            let new = self.oracle.entries().iter().skip(self.noted);
            let new: Vec<String> = new.map(|entry| format!("    {}", render_entry(entry))).collect();
            self.noted += new.len();
            new.into_iter().for_each(|line| self.note(|| line));
        }
        read?;
        for process in 0..self.used {
            let seen = self.cast[process].take_entries();
            self.oracle.check_seen(&seen)?;
        }
        self.oracle.check_orders()?;
        if self.case.exact {
            self.oracle.check_spent(&self.world.spent())?;
        }
        let twice = self.world.effects_twice();
        if let Some(first) = twice.first() {
            return Err(format!("effects: {first}"));
        }
        let Some(engine) = self.owner() else { return Ok(()) };
        let Some(wheel) = &engine.wheel else { return Ok(()) };
        self.oracle.check_live(wheel.driver().run(), self.step)?;
        if self.options.sabotage.is_none() && !engine.leaving {
            let works = |instance, action| engine.jobs.values().any(|job| job.who() == (instance, action));
            self.oracle.check_work(&works)?;
        }
        Ok(())
    }

    /// The process that owns the run and is awake.
    fn owner(&self) -> Option<&Engine<'a>> {
        let owner = self.disk.run(&self.run).ok().flatten().and_then(|row| row.owner)?;
        self.engines.iter().find(|engine| self.cast[engine.process].name == owner)
    }

    fn finish(&mut self) -> Result<SimulationOutcome, String> {
        self.oracle.check_whole()?;
        if !self.meddled
            && let Some(first) = self.world.landed_twice().first()
        {
            return Err(format!("effects: {first}"));
        }
        self.counts.entries = self.oracle.entries().len() as u64;
        let records = self.disk.entries(&self.run, 0, usize::MAX).map_err(|error| error.to_string())?;
        let mut journal = Vec::new();
        for record in records {
            journal.extend(format!("{} {} {} ", record.seq, record.epoch, record.hash).into_bytes());
            journal.extend(record.body.into_bytes());
            journal.push(b'\n');
        }
        let counts = self.counts.clone();
        Ok(SimulationOutcome { journal, steps: self.step, counts, trace: Vec::new() })
    }
}

/// An entry for the trace, cut to a line.
fn render_entry(entry: &ftl_core::run::Entry) -> String {
    let text = serde_json::to_string(entry).unwrap_or_default();
    let end = text.floor_char_boundary(MAX_TRACED);
    if end < text.len() { format!("{}…", &text[..end]) } else { text }
}
