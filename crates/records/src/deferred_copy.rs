//! Copies that may lag behind their notes: while a run is driven, a copy that every task changes is written a few
//! times a second, not with each of them.
//!
//! The store has the note at once, and a mark that its copy lags; so the next reader, also after a kill, knows
//! that the old copy is ours and writes the new one. A copy that was changed by hand is never written over
//! here: the next action finds it, and takes it over or refuses it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Records;

/// How long a copy lags that is written in a moment, as that of a plan of some thousand tasks is.
pub const LAG: Duration = Duration::from_millis(250);

/// How many times longer than it was written a copy rests: that of a long plan is written more seldom, so that the work
/// for each task does not grow with the plan.
const REST: u32 = 30;

/// Whether copies may lag, and whether one does.
#[derive(Debug, Default)]
pub(super) struct Lag {
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many runs are driven with these records.
    runs: usize,
    lags: bool,
}

impl Lag {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether copies may lag.
    pub(super) fn is_allowed(&self) -> bool {
        self.state().runs > 0
    }

    /// A copy lags from now on.
    pub(super) fn begin(&self) {
        self.state().lags = true;
        self.turned.notify_all();
    }
}

/// As long as it is there, copies may lag; when it goes, they have caught up.
pub struct Lagging {
    records: Arc<Records>,
    is_over: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl Records {
    /// Lets copies lag for as long as a run is driven. Where no thread can be started they do not.
    pub fn lagging(self: &Arc<Records>) -> Lagging {
        let (records, is_over) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let (own, over) = (self.clone(), is_over.clone());
        let writer =
            std::thread::Builder::new().name(String::from("copies")).spawn(move || own.follow(&over));
        let writer = writer.ok();
        if writer.is_some() {
            records.lag.state().runs += 1;
        }
        Lagging { records, is_over, writer }
    }

    /// Writes the copy that lags, again and again, until it is over.
    fn follow(&self, is_over: &AtomicBool) {
        let goes_on = || !is_over.load(Ordering::Relaxed);
        let mut rest = LAG;
        let mut state = self.lag.state();
        loop {
            let turned = &self.lag.turned;
            state = turned
                .wait_while(state, |state| goes_on() && !state.lags)
                .unwrap_or_else(PoisonError::into_inner);
            state = turned
                .wait_timeout_while(state, rest, |_| goes_on())
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if !goes_on() {
                return;
            }
            state.lags = false;
            drop(state);
            let began = Instant::now();
            self.catch_up_campaign();
            rest = LAG.max(began.elapsed() * REST);
            state = self.lag.state();
        }
    }
}

impl Drop for Lagging {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        {
            let mut state = self.records.lag.state();
            state.runs = state.runs.saturating_sub(1);
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.records.lag.turned.notify_all();
        let _ = writer.join();
        self.records.catch_up_campaign();
    }
}

#[cfg(test)]
impl Lag {
    /// Lets copies lag while no thread writes them, as when the process is killed in time.
    pub(super) fn pretend(&self) -> impl Drop + '_ {
        struct Pretended<'a>(&'a Lag);
        impl Drop for Pretended<'_> {
            fn drop(&mut self) {
                self.0.state().runs -= 1;
            }
        }
        self.state().runs += 1;
        Pretended(self)
    }
}
