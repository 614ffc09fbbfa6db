//! The thread beside a driver: it reads what the driver has written, puts notices into the outbox, and sends.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ftl_core::program::Programs;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_store::notebook::Notebook;
use ftl_store::summary::Summary;
use ftl_store::{Store, journal};
use ftl_view::board::Board;
use ftl_view::notices::{NearLimits, Notice, of_entry};

use crate::message::Message;
use crate::options::Way;
use crate::outbox::{self, Became};
use crate::presence;
use crate::ways::{SendError, Ways};

/// How many entries are read at a time.
const PAGE: usize = 500;

/// How long notices are gathered before they are sent: many things happen at once.
const GATHER: Duration = Duration::from_millis(700);

/// How often the outbox is looked at while something waits in it.
const LOOK: Duration = Duration::from_secs(1);

/// How long the end of a process waits for what is still to be sent.
pub const MAX_GOODBYE: Duration = Duration::from_secs(4);

/// The run that is followed, and what it is followed with.
pub struct Following {
    /// The journals.
    pub store: Arc<dyn Store>,
    /// The outbox.
    pub notes: Arc<dyn Notebook>,
    /// The protocols.
    pub programs: Arc<dyn Programs>,
    /// The run.
    pub run: RunId,
    /// What came before is not told of, where nobody has followed the run yet.
    pub since: u64,
    /// The name of the repository, as messages say it.
    pub repo: String,
}

/// A thread that tells a person what happens in a run.
pub struct Courier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_new: bool,
    /// When to be gone, as soon as the driver rests.
    until: Option<Instant>,
    is_gone: bool,
}

impl Courier {
    /// Starts to follow a run; nothing where no thread can be had.
    pub fn start(following: Following, ways: Ways) -> Option<Courier> {
        let shared = Arc::new(Shared::default());
        let mine = shared.clone();
        let work = move || {
            let board = Board::new(following.programs.clone());
            let mut worker = Worker {
                following,
                ways,
                board,
                near: NearLimits::default(),
                found: Vec::new(),
                sent: Vec::new(),
                shared: mine,
            };
            worker.work();
            worker.shared.lock().is_gone = true;
            worker.shared.changed.notify_all();
        };
        let thread = std::thread::Builder::new().name(String::from("notices")).spawn(work).ok()?;
        Some(Courier { shared, thread: Some(thread) })
    }

    /// Something was written. It returns at once, whatever the thread does.
    pub fn wake(&self) {
        self.shared.lock().is_new = true;
        self.shared.changed.notify_all();
    }

    /// The driver rests: what is to be told is sent now, for a moment; the rest stays in the outbox.
    pub fn end(mut self) {
        let until = Instant::now() + MAX_GOODBYE;
        let mut state = self.shared.lock();
        state.until = Some(until);
        self.shared.changed.notify_all();
        while !state.is_gone {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // It ends with the process; what it was sending is sent again by the next driver.
                return;
            }
            state = match self.shared.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        drop(state);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is new, the driver rests, or a while is over; until when to be gone, if the driver rests.
    fn wait(&self, most: Duration) -> Option<Instant> {
        let end = Instant::now() + most;
        let mut state = self.lock();
        while !state.is_new && state.until.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        state.is_new = false;
        state.until
    }
}

/// What the thread holds.
struct Worker {
    following: Following,
    ways: Ways,
    board: Board,
    near: NearLimits,
    /// What was found and is not in the outbox yet.
    found: Vec<Notice>,
    /// When each way has sent last.
    sent: Vec<(Way, Instant)>,
    shared: Arc<Shared>,
}

impl Worker {
    fn work(&mut self) {
        let mark = outbox::mark(&*self.following.notes, self.following.run.as_str()).ok().flatten();
        let mut told = mark.unwrap_or(self.following.since);
        let mut since = Instant::now();
        loop {
            // A store that cannot be read now is read again at the next look.
            let _ = self.read_on(told);
            if !self.found.is_empty()
                && let Some(upto) = self.put()
            {
                told = upto;
                since = Instant::now();
            }
            let wait = if self.is_waiting() { LOOK } else { Duration::from_secs(3600) };
            let gathered = since.elapsed() >= GATHER;
            let until = self.shared.wait(if gathered { wait } else { GATHER });
            if until.is_some() {
                break;
            }
            if gathered {
                self.send_due(None);
            }
        }
        self.last_words(told);
    }

    /// What happened until the driver came to rest.
    fn last_words(&mut self, told: u64) {
        let _ = self.read_on(told);
        let put = self.put();
        let until = self.shared.lock().until;
        self.send_due(until);
        if put.is_some() && self.board.end().is_some() {
            let _ = outbox::forget(&*self.following.notes, self.following.run.as_str());
        }
    }

    /// Puts what was found into the outbox; up to which entry that is.
    fn put(&mut self) -> Option<u64> {
        let upto = self.board.machine().next_seq() - 1;
        let (notes, run) = (&*self.following.notes, self.following.run.as_str());
        let ways = self.ways.options().ways();
        outbox::put(notes, run, upto, &self.found, &ways).ok()?;
        self.found.clear();
        Some(upto)
    }

    /// Takes in what is new, and finds what of it is told, from behind an entry on.
    fn read_on(&mut self, told: u64) -> Result<(), journal::JournalError> {
        let (store, run) = (self.following.store.clone(), self.following.run.clone());
        loop {
            let after = self.board.machine().next_seq() - 1;
            let page = store.entries(&run, after, PAGE)?;
            for record in &page {
                let entry = journal::decode(&*store, &run, record)?;
                self.board.see(&entry);
                let notices = of_entry(&self.board, run.as_str(), &entry, &mut self.near);
                let events = &self.ways.options().events;
                let wanted = notices.into_iter().filter(|one| entry.seq > told && events.contains(&one.kind));
                self.found.extend(wanted);
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn is_waiting(&self) -> bool {
        let notes = &*self.following.notes;
        self.ways.options().ways().into_iter().any(|way| outbox::is_waiting(notes, way).unwrap_or(false))
    }

    /// Sends what is due by each way. Before the end of the process the pace of messages does not count.
    fn send_due(&mut self, until: Option<Instant>) {
        if self.ways.options().quiet.is_some_and(|quiet| quiet.are_now()) {
            return;
        }
        for way in self.ways.options().ways() {
            let every = self.ways.options().every;
            let is_early = self.sent.iter().any(|(one, when)| *one == way && when.elapsed() < every);
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            if (is_early && until.is_none()) || is_late {
                continue;
            }
            self.send(way);
        }
    }

    /// Sends what waits for one way as one message.
    fn send(&mut self, way: Way) {
        let notes = self.following.notes.clone();
        let Ok(claimed) = outbox::claim(&*notes, way, clock::wall()) else { return };
        if claimed.is_empty() {
            return;
        }
        let (said, stale): (Vec<Notice>, Vec<Notice>) =
            claimed.into_iter().partition(|notice| self.is_still_so(notice));
        let _ = outbox::settle(&*notes, way, &stale, Became::Over, clock::wall());
        if said.is_empty() {
            return;
        }
        if presence::looks(&*notes, clock::wall()) {
            // The person sees it where they look.
            let _ = outbox::settle(&*notes, way, &said, Became::Over, clock::wall());
            return;
        }
        let options = self.ways.options();
        let summary = self.summary();
        let worded: Vec<Notice> = said.iter().map(|one| self.with_words(one, &summary)).collect();
        let message = Message::of(&worded, &self.following.repo, &options.page, options.words);
        let became = match self.ways.send(way, &message) {
            Ok(()) | Err(SendError::Never(_)) => Became::Over,
            Err(SendError::Later(_)) => Became::Failed,
        };
        self.sent.retain(|(one, _)| *one != way);
        self.sent.push((way, Instant::now()));
        let _ = outbox::settle(&*notes, way, &said, became, clock::wall());
    }

    /// What other runs have left in the outbox is told as it is.
    fn is_still_so(&self, notice: &Notice) -> bool {
        notice.run != self.following.run.as_str() || notice.is_still_so(self.board.machine())
    }

    fn with_words(&self, notice: &Notice, summary: &Summary) -> Notice {
        if notice.run != self.following.run.as_str() {
            notice.clone()
        } else {
            notice.clone().asked_in(summary)
        }
    }

    fn summary(&self) -> Summary {
        let row = self.following.store.run(&self.following.run).ok().flatten();
        row.and_then(|row| serde_json::from_str(&row.summary).ok()).unwrap_or_default()
    }
}
