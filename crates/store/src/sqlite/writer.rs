//! The writer: one thread that writes for a whole process, many requests in one transaction.
//!
//! Requests that wait while the disk is busy go together into the next transaction, so that each sync
//! serves as many as there are; no request is made to wait for company. A request that is refused leaves
//! no trace and does not concern the others. No request is answered before the transaction is on the disk, and after
//! an error that leaves this in doubt nothing is written any more. A caller that finds
//! no other one writing writes on its own thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

use super::heads::HeadFile;
use super::pen::{CHECKPOINT_PAGES, Durability, Pen};
use super::trouble;
use super::write::Write;
use crate::StoreError;

/// How many requests may wait; a thread that sends one more waits before it is taken.
const MAX_WAITING: usize = 1024;

/// How many requests go into one transaction.
const MAX_GROUP: usize = 256;

/// A transaction that brings this much takes no further request.
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;

/// How long a transaction waits for the sync of a later one before it gets its own.
const MAX_UNSYNCED_WAIT: Duration = Duration::from_millis(250);

/// What the writer and those who ask it share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) folder: PathBuf,
    /// Why nothing is written any more.
    pub(super) broken: OnceLock<StoreError>,
    /// How many requests were handed to the writer.
    pub(super) asked: AtomicU64,
    /// How many transactions were committed.
    pub(super) commits: AtomicU64,
    /// How many requests wait in the channel.
    queued: AtomicUsize,
    /// Whether the thread was told that something is not synced.
    is_settling: AtomicBool,
    /// What all of this process write with: two connections would each read again what the other has changed.
    pen: Mutex<Option<Pen>>,
    /// Whether heads were written that are not synced.
    pub(super) heads_dirty: Arc<AtomicBool>,
    /// That the folder was synced with the log in it.
    pub(super) folder_synced: OnceLock<()>,
    /// The error code that so many next commits meet instead of the disk. For tests.
    pub(super) injected: Mutex<(i32, u32)>,
}

/// The thread that writes, for those who ask.
#[derive(Debug)]
pub(super) struct Writer {
    messages: SyncSender<Message>,
    thread: JoinHandle<()>,
}

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Message {
    Write(Request),
    /// Something was committed that is not synced.
    Settle,
}

#[derive(Debug)]
pub(super) struct Request {
    write: Write,
    durability: Durability,
    answer: SyncSender<Result<u64, StoreError>>,
}

impl Shared {
    pub(super) fn new(folder: &Path) -> Shared {
        Shared {
            folder: folder.to_owned(),
            broken: OnceLock::new(),
            asked: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
            is_settling: AtomicBool::new(false),
            pen: Mutex::default(),
            heads_dirty: Arc::default(),
            folder_synced: OnceLock::new(),
            injected: Mutex::new((ffi::SQLITE_OK, 0)),
        }
    }

    /// Does something in a transaction of its own, under the write lock.
    pub(super) fn change<T, E>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        self.with_pen(|pen| pen.change(self, durability, work))
    }

    /// Writes on the thread of the caller where no other thread or process writes or waits to; `None` where one does. A run that
    /// changes hands is left to the thread, which syncs the heads after it has answered.
    pub(super) fn write_at_once(
        &self,
        write: &Write,
        durability: Durability,
    ) -> Option<Result<u64, StoreError>> {
        if write.changes_lease() || self.queued.load(Ordering::Relaxed) > 0 || self.broken.get().is_some() {
            return None;
        }
        let pen = match self.pen.try_lock() {
            Ok(pen) => pen,
            Err(TryLockError::Poisoned(pen)) => pen.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let pen = pen.as_ref()?;
        let written = pen.write_one(self, write, durability)?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        // Where there is no room, the thread makes some.
        (!matches!(written, Err(StoreError::Full(_)))).then_some(written)
    }

    /// Ends writing for good, and tidies up if no other process has the store open.
    pub(super) fn close(&self) {
        if let Some(pen) = self.pen().take() {
            pen.close(self);
        }
    }

    /// Lends what is written with; it is opened for the first one.
    fn with_pen<T>(&self, write: impl FnOnce(&Pen) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut pen = self.pen();
        // The thread that wrote before may have broken the store.
        if let Some(error) = self.broken.get() {
            return Err(error.clone());
        }
        match &mut *pen {
            Some(pen) => write(pen),
            none => write(none.insert(Pen::open(self)?)),
        }
    }

    fn pen(&self) -> MutexGuard<'_, Option<Pen>> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs what was committed and is not synced.
    fn settle(&self) {
        self.is_settling.store(false, Ordering::Relaxed);
        // What could not be synced is told to the next one who writes.
        let _ = self.with_pen(|pen| pen.settle_unsynced(self));
    }

    /// Has what was committed synced within `MAX_UNSYNCED_WAIT`, unless a later transaction is before.
    pub(super) fn settle_soon(&self, messages: &SyncSender<Message>) {
        if !self.is_settling.swap(true, Ordering::Relaxed) {
            // A thread that has ended leaves it to the close of the store.
            let _ = messages.send(Message::Settle);
        }
    }

    /// The next one who waits in the channel.
    fn next_request(&self, waiting: &Receiver<Message>) -> Option<Request> {
        loop {
            match waiting.try_recv().ok()? {
                Message::Write(request) => {
                    self.queued.fetch_sub(1, Ordering::Relaxed);
                    return Some(request);
                }
                // A later change that is not synced sends the message again.
                Message::Settle => self.is_settling.store(false, Ordering::Relaxed),
            }
        }
    }

    pub(super) fn injected_now(&self) -> Option<i32> {
        let mut injected = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        injected.1 = injected.1.checked_sub(1)?;
        Some(injected.0)
    }

    pub(super) fn break_with(&self, error: &StoreError) {
        // The first reason is the one to tell.
        let _ = self.broken.set(error.clone());
    }
}

impl Writer {
    /// Starts the thread. It opens the database with the first request.
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Writer, StoreError> {
        let (messages, waiting) = sync_channel(MAX_WAITING);
        let scribe = Scribe { shared: Arc::clone(shared), waiting };
        let started = thread::Builder::new().name("ftl-store".to_owned()).spawn(move || scribe.serve());
        let thread = started.map_err(|error| trouble::of_disk(&shared.folder, &error))?;
        Ok(Writer { messages, thread })
    }

    pub(super) fn messages(&self) -> SyncSender<Message> {
        self.messages.clone()
    }

    /// Waits until all that was asked is written.
    pub(super) fn finish(self) {
        drop(self.messages);
        // A writer that panicked has answered no request; there is nothing left to wait for.
        let _ = self.thread.join();
    }
}

/// Asks for something to be written and waits until it is.
pub(super) fn ask(
    shared: &Shared,
    messages: &SyncSender<Message>,
    write: Write,
    durability: Durability,
) -> Result<u64, StoreError> {
    let gone = || StoreError::Failed("the thread that writes the store has ended".to_owned());
    let (answer, answered) = sync_channel(1);
    shared.queued.fetch_add(1, Ordering::Relaxed);
    messages.send(Message::Write(Request { write, durability, answer })).map_err(|_| gone())?;
    shared.asked.fetch_add(1, Ordering::Relaxed);
    answered.recv().map_err(|_| gone())?
}

/// The one thread of the process that writes the store.
struct Scribe {
    shared: Arc<Shared>,
    waiting: Receiver<Message>,
}

impl Scribe {
    fn serve(self) {
        let mut settle_at: Option<Instant> = None;
        loop {
            let message = match settle_at {
                None => self.waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.waiting.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match message {
                Ok(Message::Write(first)) => {
                    self.shared.queued.fetch_sub(1, Ordering::Relaxed);
                    self.write_group(first);
                }
                Ok(Message::Settle) => drop(settle_at.get_or_insert(Instant::now() + MAX_UNSYNCED_WAIT)),
                Err(RecvTimeoutError::Timeout) => {
                    settle_at = None;
                    self.shared.settle();
                }
                // The close of the store settles what is left.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn write_group(&self, first: Request) {
        let mut group = vec![first];
        match self.shared.with_pen(|pen| self.try_group(pen, &mut group)) {
            // No thread or process waits for this.
            Ok(Some(heads)) => drop(heads.sync()),
            Ok(None) => {}
            Err(error) => answer_all(group, &error),
        }
    }

    /// Writes and answers a group; an error answers all of whom it has left. The heads are to be synced where a run has
    /// changed hands.
    fn try_group(&self, pen: &Pen, group: &mut Vec<Request>) -> Result<Option<Arc<HeadFile>>, StoreError> {
        let _held = pen.lock.hold().map_err(|error| trouble::of_disk(&pen.database, &error))?;
        pen.check_place(&self.shared)?;
        let written = self.transact(pen, group);
        let changed_hands = group.iter().any(|request| request.write.changes_lease());
        match written {
            Ok(answers) => answer_each(group, answers),
            Err(StoreError::Full(_)) => self.write_alone(pen, group),
            Err(error) => return Err(error),
        }
        pen.empty_log(&self.shared, CHECKPOINT_PAGES);
        Ok(changed_hands.then(|| Arc::clone(&pen.heads)))
    }

    /// Writes a group, and the requests that come meanwhile, in one transaction.
    fn transact(
        &self,
        pen: &Pen,
        group: &mut Vec<Request>,
    ) -> Result<Vec<Result<u64, StoreError>>, StoreError> {
        let is_soon = |group: &[Request]| group.iter().all(|request| request.durability == Durability::Soon);
        // Whether it is synced must be known before it begins: the requests that wait already are taken first.
        while is_soon(group) && group.len() < MAX_GROUP {
            let Some(next) = self.shared.next_request(&self.waiting) else { break };
            group.push(next);
        }
        let durability = if is_soon(group) { Durability::Soon } else { Durability::Now };
        pen.transaction(&self.shared, durability, || {
            let mut answers = Vec::new();
            let mut bytes = 0_usize;
            while let Some(request) = group.get(answers.len()) {
                answers.push(pen.perform(&request.write)?);
                bytes = bytes.saturating_add(request.write.bytes());
                let has_room = group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES;
                if answers.len() == group.len() && has_room && durability == Durability::Now {
                    group.extend(self.shared.next_request(&self.waiting));
                }
            }
            Ok(answers)
        })
    }

    /// When there is no room, a log that is brought into the database gives some, and perhaps some of
    /// the group fit into it.
    fn write_alone(&self, pen: &Pen, group: &mut Vec<Request>) {
        pen.empty_log(&self.shared, 1);
        for request in group.drain(..) {
            let answer = match self.shared.broken.get() {
                Some(error) => Err(error.clone()),
                None => pen.transact_one(&self.shared, &request.write, request.durability),
            };
            let _ = request.answer.send(answer);
        }
    }
}

fn answer_each(group: &mut Vec<Request>, answers: Vec<Result<u64, StoreError>>) {
    for (request, answer) in group.drain(..).zip(answers) {
        // A sender that has gone away does not need the answer.
        let _ = request.answer.send(answer);
    }
}

fn answer_all(group: Vec<Request>, error: &StoreError) {
    for request in group {
        let _ = request.answer.send(Err(error.clone()));
    }
}
