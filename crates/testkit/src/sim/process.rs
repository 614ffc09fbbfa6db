//! One simulated process: its way to the store, which may be cut at any write, and its executors.
//!
//! A process that was killed gets no answer and does nothing any more. Everything that hands are told
//! to start is looked at here, at the very moment: was its entry durable, and is the process still the
//! owner? Nothing here decides what happens next.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ftl_core::run::{Entry, Fact, Time};
use ftl_engine::drive::DriveObserver;
use ftl_engine::executors::{ActionRunner, Job, JobReport};
use ftl_folder::clock::Clock;
use ftl_folder::id::RunId;
use ftl_store::summary::Summary;
use ftl_store::{
    Append, ContentDigest, Lease, MemoryStore, NewRun, PendingCommand, RunRow, Store, StoreError, StoredEntry,
};

use super::Sabotage;

/// When a process is killed inside of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// After so many more writes, before the next one is kept.
    Before(u64),
    /// After so many more writes, when the next one is kept and the process has not heard of it.
    After(u64),
}

/// The way of one process to the store.
#[derive(Debug)]
pub(super) struct Way {
    disk: Arc<MemoryStore>,
    dead: AtomicBool,
    cut: Mutex<Option<Cut>>,
    sabotage: Option<Sabotage>,
    /// Which writes of the process a saboteur lets through before it strikes.
    patience: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> StoreError {
    StoreError::Failed(String::from("the process is gone"))
}

impl Way {
    fn new(disk: Arc<MemoryStore>, sabotage: Option<Sabotage>) -> Way {
        let (dead, cut) = (AtomicBool::new(false), Mutex::new(None));
        Way { disk, dead, cut, sabotage, patience: Mutex::new(8) }
    }

    /// Kills the process now.
    pub(super) fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Kills the process inside of a later write.
    pub(super) fn cut(&self, cut: Cut) {
        *lock(&self.cut) = Some(cut);
    }

    /// Whether the process was killed.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn alive<T>(&self, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.is_dead() { Err(gone()) } else { read() }
    }

    fn write<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.is_dead() {
            return Err(gone());
        }
        let mut cut = lock(&self.cut);
        *cut = match *cut {
            None => None,
            Some(Cut::Before(0)) => {
                self.kill();
                return Err(gone());
            }
            Some(Cut::After(0)) => {
                let _ = write();
                self.kill();
                return Err(gone());
            }
            Some(Cut::Before(left)) => Some(Cut::Before(left - 1)),
            Some(Cut::After(left)) => Some(Cut::After(left - 1)),
        };
        write()
    }

    /// A write as a saboteur lets it through.
    fn sabotaged(&self, lease: &Lease, mut append: Append) -> Result<(), StoreError> {
        let Some(sabotage) = self.sabotage else { return self.disk.append(lease, append) };
        let now = {
            let mut patience = lock(&self.patience);
            *patience = patience.saturating_sub(1);
            *patience == 0
        };
        match sabotage {
            Sabotage::ActBeforeAppend if now => return Ok(()),
            Sabotage::ChangeEntry if now => {
                if let Some(line) = append.lines.last_mut() {
                    line.body = line.body.replacen("\"at\":", "\"at\":1", 1);
                }
            }
            Sabotage::LoseOrder if append.answered.is_some() => append.lines.clear(),
            Sabotage::IgnoreFence => return self.unfenced(lease, append),
            Sabotage::ActBeforeAppend | Sabotage::ChangeEntry | Sabotage::LoseOrder => {}
            Sabotage::DoTwice | Sabotage::DropCharge | Sabotage::SwallowReport => {}
        }
        self.disk.append(lease, append)
    }

    /// A store that tells a stale owner that all is well.
    fn unfenced(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        match self.disk.append(lease, append) {
            Err(StoreError::Fenced { .. }) => Ok(()),
            other => other,
        }
    }
}

impl Store for Way {
    fn writable(&self) -> Result<(), StoreError> {
        self.alive(|| self.disk.writable())
    }

    fn create(&self, new: &NewRun) -> Result<Lease, StoreError> {
        self.write(|| self.disk.create(new))
    }

    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        self.write(|| self.sabotaged(lease, append))
    }

    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        self.write(|| self.disk.take(run, seen, owner))
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.write(|| self.disk.release(lease))
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.alive(|| self.disk.run(run))
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        self.alive(|| self.disk.runs(prefix))
    }

    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError> {
        self.alive(|| self.disk.entries(run, after, most))
    }

    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError> {
        self.write(|| self.disk.put(bytes))
    }

    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        self.alive(|| self.disk.get(digest))
    }

    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError> {
        self.write(|| self.disk.send(run, body))
    }

    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError> {
        self.alive(|| self.disk.pending(run))
    }

    fn reply(&self, command: u64) -> Result<Option<String>, StoreError> {
        self.alive(|| self.disk.reply(command))
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.alive(|| self.disk.version())
    }
}

/// The clock of the simulation: it moves only when the simulation says so.
#[derive(Debug, Default)]
pub(super) struct SimClock(std::sync::atomic::AtomicU64);

impl SimClock {
    /// Moves on, never back.
    pub(super) fn set(&self, now: Time) {
        self.0.fetch_max(now, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Time {
        self.0.load(Ordering::SeqCst)
    }
}

/// One simulated process, which may drive the run.
pub(super) struct Process {
    /// The name under which it owns runs.
    pub(super) name: String,
    /// Its way to the store.
    pub(super) way: Arc<Way>,
    disk: Arc<MemoryStore>,
    started: Mutex<Vec<Job>>,
    probes: Mutex<Vec<String>>,
    seen: Arc<Mutex<Vec<Entry>>>,
    wrong: Mutex<Vec<String>>,
    at_work: Mutex<BTreeSet<String>>,
}

/// Keeps what a driver says that it has written.
pub(super) struct Recorder(Arc<Mutex<Vec<Entry>>>);

impl DriveObserver for Recorder {
    fn see(&mut self, entries: &[Entry], _: &Summary) {
        lock(&self.0).extend(entries.iter().cloned());
    }
}

impl Process {
    /// A process that has not begun yet.
    pub(super) fn new(number: usize, disk: Arc<MemoryStore>, sabotage: Option<Sabotage>) -> Process {
        let way = Arc::new(Way::new(disk.clone(), sabotage));
        Process {
            name: format!("process-{number}"),
            way,
            disk,
            started: Mutex::default(),
            probes: Mutex::default(),
            seen: Arc::default(),
            wrong: Mutex::default(),
            at_work: Mutex::default(),
        }
    }

    /// The recorder that keeps what its driver says that it has written.
    pub(super) fn recorder(&self) -> Recorder {
        Recorder(self.seen.clone())
    }

    /// The jobs that were started since the last look.
    pub(super) fn started(&self) -> Vec<Job> {
        std::mem::take(&mut lock(&self.started))
    }

    /// The services that are to be probed since the last look.
    pub(super) fn probes(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.probes))
    }

    /// What its driver says that it has written since the last look.
    pub(super) fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.seen))
    }

    /// What was wrong with jobs that were started.
    pub(super) fn wrong(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.wrong))
    }

    /// A job has said its last words.
    pub(super) fn reported(&self, key: &str) {
        lock(&self.at_work).remove(key);
    }

    /// What is wrong with a job at the moment in which it is started.
    fn problem(&self, job: &Job) -> Option<String> {
        let key = job.key();
        if self.way.is_dead() {
            return Some(format!("{key} was started by a process that had got no answer to its last write"));
        }
        let id = job.action.id;
        let kept = self.disk.entries(&job.run, id.entry.saturating_sub(1), 1).unwrap_or_default();
        let Some(record) = kept.first().filter(|record| record.seq == id.entry) else {
            return Some(format!("{key} was started before its entry was durable"));
        };
        let asked = match ftl_store::journal::decode(&*self.disk, &job.run, record) {
            Ok(Entry { fact: Fact::Asked { asks, .. }, instance, .. }) if instance == job.action.instance => {
                asks.get(id.index as usize).map(|ask| ask.whom.clone())
            }
            Ok(_) | Err(_) => None,
        };
        if asked != Some(job.action.wanted.performer()) {
            return Some(format!("{key} was started and entry {} asks for {asked:?}", id.entry));
        }
        let owner = self.disk.run(&job.run).ok().flatten().and_then(|row| row.owner);
        if owner.as_ref() != Some(&self.name) {
            return Some(format!("{key} was started by {}, but {owner:?} owns the run", self.name));
        }
        if !lock(&self.at_work).insert(key.clone()) {
            return Some(format!("{key} was started while an earlier attempt of it was at work"));
        }
        None
    }
}

impl ActionRunner for Process {
    fn start(&self, job: Job) {
        lock(&self.wrong).extend(self.problem(&job));
        lock(&self.started).push(job);
    }

    fn probe(&self, service: String, _: Sender<JobReport>) {
        lock(&self.probes).push(service);
    }
}
