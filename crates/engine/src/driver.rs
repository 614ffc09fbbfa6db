//! The driver of one run: every input goes through `take`, in one order.
//!
//! Append and sync, apply, and only then hand out what is to be done. It has no threads, no clock and
//! no executors of its own, so that the simulation drives runs with the very same code. It never decides:
//! `Run::decide` does.

use std::fmt;
use std::sync::Arc;

use ftl_core::run::{
    Action, ActionId, ActionTarget, Adoption, Decision, Entry, Event, Input, InstanceId, Outcome, ROOT,
    Refusal, Run, Terms, Time, Usage,
};
use ftl_core::value::{Fields, Name};
use ftl_language::library::Library;

use ftl_folder::id::RunId;
use ftl_store::journal::{self, JournalError};
use ftl_store::order::{Order, Refused, Reply};
use ftl_store::snapshot::{self, Board, LoadedBoard, Pace};
use ftl_store::summary::{self, Questions, Summary};
use ftl_store::{Append, Lease, NewRun, Store, StoreError};

/// After how many entries a driver that gives its run back keeps a snapshot: a shorter journal is read in a moment.
const MIN_LAST: u64 = 1_000;

/// What is to be done after an input was taken; its entries are durable already.
#[derive(Debug, Default)]
pub struct Todo {
    /// Actions to start; their entries are in the journal.
    pub start: Vec<Action>,
    /// Actions at work whose answers the run no longer waits for.
    pub cancel: Vec<(InstanceId, ActionId)>,
    /// Why the input was refused, if it was.
    pub refusal: Option<Refusal>,
    /// The entries that the input led to, in order.
    pub entries: Vec<Entry>,
}

/// Why a run cannot be driven on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveError {
    /// The journal could not be written or read.
    Journal(JournalError),
    /// The run could not be opened as asked.
    Refused(Refused),
}

impl From<JournalError> for DriveError {
    fn from(error: JournalError) -> DriveError {
        DriveError::Journal(error)
    }
}

impl From<StoreError> for DriveError {
    fn from(error: StoreError) -> DriveError {
        DriveError::Journal(error.into())
    }
}

impl fmt::Display for DriveError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveError::Journal(error) => error.fmt(out),
            DriveError::Refused(refused) => out.write_str(&refused.message),
        }
    }
}

impl std::error::Error for DriveError {}

/// A run to be opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The name of the protocol of the root instance.
    pub protocol: Name,
    /// The values of its inputs.
    pub inputs: Fields,
    /// What it may use, and who stands in for people.
    pub terms: Terms,
}

/// One run, its journal, and the right to write it.
pub struct Driver {
    store: Arc<dyn Store>,
    lease: Lease,
    board: Board,
    /// When the next snapshot is due; nothing where the board knows only a part of the journal.
    pace: Option<Pace>,
    questions: Questions,
    summary: Summary,
    last: Time,
    broken: Option<StoreError>,
}

impl Driver {
    /// Opens a new run: the replay of nothing, and then an input as any other.
    pub fn open(
        store: Arc<dyn Store>,
        library: Arc<Library>,
        (id, owner): (RunId, &str),
        opening: Opening,
        at: Time,
    ) -> Result<(Driver, Todo), DriveError> {
        Driver::open_at(store, library, (id, owner), opening, None, at)
    }

    /// The same for work that began elsewhere: it stands where it was there.
    pub fn open_at(
        store: Arc<dyn Store>,
        library: Arc<Library>,
        (id, owner): (RunId, &str),
        opening: Opening,
        adopt: Option<Adoption>,
        at: Time,
    ) -> Result<(Driver, Todo), DriveError> {
        let Opening { protocol, inputs, terms } = opening;
        let event = Event::Open { protocol, inputs, terms, adopt };
        // A run that cannot be opened leaves nothing behind.
        let refusal = Run::new(library.clone()).decide(&Input { at, event: event.clone() }).refusal;
        if let Some(refusal) = refusal {
            return Err(DriveError::Refused(Refused::from(&refusal)));
        }
        let new = NewRun { run: id, owner: owner.to_owned(), at, summary: json(&Summary::default()) };
        let lease = store.create(&new)?;
        let mut driver = Driver::of(store, lease, Board::new(library), Some(Pace::default()));
        let todo = driver.take(at, event)?;
        Ok((driver, todo))
    }

    /// Takes a run over where its journal ends: what was open is asked again under its own id.
    pub fn recover(
        store: Arc<dyn Store>,
        library: Arc<Library>,
        lease: Lease,
        at: Time,
    ) -> Result<(Driver, Todo), DriveError> {
        Driver::recover_knowing(store, library, lease, at, &|_| None)
    }

    /// The same where something is known of what lost agents used, by their role: that is charged as said, and only
    /// what is not said is charged as the worst case.
    pub fn recover_knowing(
        store: Arc<dyn Store>,
        library: Arc<Library>,
        lease: Lease,
        at: Time,
        used: &dyn Fn(&str) -> Option<Usage>,
    ) -> Result<(Driver, Todo), DriveError> {
        let LoadedBoard { board, pace } = snapshot::load(&*store, &lease.run, library)?;
        let last = board.times.map_or(0, |(_, last)| last);
        Driver::of(store, lease, board, Some(pace)).go_on(last, at, used)
    }

    /// The same with a run that was replayed already, and the time of its last entry: nothing was written since.
    pub fn take_up(
        store: Arc<dyn Store>,
        lease: Lease,
        (run, last): (Run, Time),
        at: Time,
        used: &dyn Fn(&str) -> Option<Usage>,
    ) -> Result<(Driver, Todo), DriveError> {
        Driver::of(store, lease, Board::of_run(run), None).go_on(last, at, used)
    }

    fn go_on(
        mut self,
        last: Time,
        at: Time,
        used: &dyn Fn(&str) -> Option<Usage>,
    ) -> Result<(Driver, Todo), DriveError> {
        self.last = last;
        for (instance, action, usage) in lost_agents(self.run(), used) {
            let (outcome, usage) = (Outcome::Interrupted, Some(usage));
            self.take(at, Event::Outcome { instance, action, outcome, usage })?;
        }
        let todo = self.take(at, Event::Recover)?;
        Ok((self, todo))
    }

    fn of(store: Arc<dyn Store>, lease: Lease, board: Board, pace: Option<Pace>) -> Driver {
        let (questions, summary) = (Questions::new(), Summary::default());
        Driver { store, lease, board, pace, questions, summary, last: 0, broken: None }
    }

    /// Keeps a snapshot where one is due, or where so many entries came since the last one.
    fn keep_snapshot(&mut self, entries: usize, at_the_end: bool) {
        let Some(mut pace) = self.pace else { return };
        let is_due = pace.count(entries) || (at_the_end && pace.has(MIN_LAST));
        let row = is_due.then(|| self.store.run(&self.lease.run)).and_then(Result::ok).flatten();
        if let Some(row) = row
            && row.head + 1 == self.run().next_seq()
        {
            snapshot::keep(&*self.store, &self.lease.run, (&self.board, row.hash), &mut pace);
        }
        self.pace = Some(pace);
    }

    /// Takes an input: what follows is in the journal when this returns, and only then to be done.
    pub fn take(&mut self, at: Time, event: Event) -> Result<Todo, DriveError> {
        self.step(at, event, None)
    }

    /// Takes an order out of the store: its reply is written together with what follows from it.
    pub fn obey(&mut self, at: Time, number: u64, body: &str) -> Result<Todo, DriveError> {
        match serde_json::from_str::<Order>(body) {
            Ok(order) => self.step(at, order.into(), Some(number)),
            Err(error) => {
                let message = format!("the order cannot be read: {error}");
                let kind = ftl_store::order::RefusedKind::Malformed;
                let reply = Reply { refused: Some(Refused { kind, message, hint: None }), entry: None };
                let answered = Some((number, json(&reply)));
                self.store.append(&self.lease, Append { at: self.last, answered, ..Append::default() })?;
                Ok(Todo::default())
            }
        }
    }

    fn step(&mut self, at: Time, event: Event, order: Option<u64>) -> Result<Todo, DriveError> {
        if let Some(error) = &self.broken {
            return Err(error.clone().into());
        }
        // Times in a journal never go backwards, whatever the wall says after a restart.
        self.last = self.last.max(at);
        let decision = self.board.machine().decide(&Input { at: self.last, event });
        if decision.entries.is_empty() && decision.start.is_empty() && order.is_none() {
            let (cancel, refusal) = (decision.cancel, decision.refusal);
            self.summary = Summary::of(self.board.machine(), &self.questions);
            return Ok(Todo { cancel, refusal, ..Todo::default() });
        }
        // What is asked again after a recovery may leave no entry. It is written all the same, with
        // nothing in it: an owner that lost the run since it took it must not act.
        //
        // The summary must say what the run will be, so the facts are applied to the run in memory
        // before they are kept. No action is started before they are: if they cannot be kept, this
        // driver is worth nothing any more.
        let append = self.prepare(&decision, order)?;
        if let Err(error) = self.store.append(&self.lease, append) {
            self.broken = Some(error.clone());
            return Err(error.into());
        }
        self.keep_snapshot(decision.entries.len(), false);
        let Decision { entries, start, cancel, refusal } = decision;
        Ok(Todo { start, cancel, refusal, entries })
    }

    /// Applies a decision, and makes what is to be kept of it.
    fn prepare(&mut self, decision: &Decision, order: Option<u64>) -> Result<Append, DriveError> {
        let encoded = journal::encode(&decision.entries)?;
        decision.entries.iter().for_each(|entry| self.board.see(entry));
        self.remember(&decision.start);
        let (run, open) = (self.board.machine(), &mut self.questions);
        open.retain(|(instance, action), _| is_open(run, *instance, action));
        self.summary = Summary::of(run, &self.questions);
        let refused = decision.refusal.as_ref().map(Refused::from).or_else(|| self.in_vain(decision));
        let reply = Reply { refused, entry: decision.entries.first().map(|entry| entry.seq) };
        Ok(Append {
            lines: encoded.lines,
            content: encoded.content,
            at: self.last,
            summary: Some(json(&self.summary)),
            settled: Some(self.run().end().is_some()),
            answered: order.map(|number| (number, json(&reply))),
        })
    }

    /// A decision from which nothing follows, as the person who gave the order must hear of it.
    fn in_vain(&self, decision: &Decision) -> Option<Refused> {
        if !decision.entries.is_empty() {
            return None;
        }
        let stuck = self.run().live().flat_map(|one| one.held.values()).find(|held| held.stuck);
        let why = stuck.map_or("it changes nothing", |held| held.failure.message.as_str());
        let message = format!("nothing comes of this: {why}");
        Some(Refused { kind: ftl_store::order::RefusedKind::NotHere, message, hint: None })
    }

    fn remember(&mut self, started: &[Action]) {
        self.questions.extend(started.iter().filter_map(summary::question));
    }

    /// The run as its journal has made it.
    pub fn run(&self) -> &Run {
        self.board.machine()
    }

    /// The name of the run.
    pub fn id(&self) -> &RunId {
        &self.lease.run
    }

    /// The lease under which it is written.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The store in which it is kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What it looks like from outside.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The last time that was written.
    pub fn last(&self) -> Time {
        self.last
    }

    /// Orders that wait to be taken, the oldest first.
    pub fn orders(&self) -> Result<Vec<ftl_store::PendingCommand>, DriveError> {
        Ok(self.store.pending(&self.lease.run)?)
    }

    /// Gives the run back.
    pub fn release(mut self) -> Result<(), StoreError> {
        self.keep_snapshot(0, true);
        self.store.release(&self.lease)
    }
}

/// The outcome of an action that was never started, because the engine is being stopped: nothing was
/// used, and that is known.
pub fn never_started(action: &Action, terms: &Terms) -> Option<Event> {
    match action.wanted {
        ActionTarget::Word(_) | ActionTarget::Question => None,
        ActionTarget::Action(_) | ActionTarget::Task { .. } => {
            let usage: Usage = terms.reserve.keys().map(|name| (name.clone(), 0)).collect();
            let (instance, id) = (action.instance, action.id);
            Some(Event::Outcome { instance, action: id, outcome: Outcome::Interrupted, usage: Some(usage) })
        }
    }
}

fn is_open(run: &Run, instance: u32, action: &str) -> bool {
    let id = ActionId::try_from(action.to_owned());
    let open = id.ok().and_then(|id| run.instance(InstanceId(instance))?.open.get(&id));
    open.is_some()
}

/// The root instance, for orders that name a run and no instance.
pub const WHOLE_RUN: InstanceId = ROOT;

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}
/// The agents that were at work when the engine was last heard of, of which something is known.
fn lost_agents(run: &Run, used: &dyn Fn(&str) -> Option<Usage>) -> Vec<(InstanceId, ActionId, Usage)> {
    let mut lost = Vec::new();
    for instance in run.live() {
        for (action, open) in &instance.open {
            let role = open.whom.role();
            let is_at_work = open.suspended.is_none() && open.held.is_none();
            if let Some(usage) = role.filter(|_| is_at_work).and_then(used) {
                lost.push((instance.id, *action, usage));
            }
        }
    }
    lost
}
