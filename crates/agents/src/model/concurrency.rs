//! How many requests an endpoint gets at the same time: seats, taken in the order of asking.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::contract::SessionHost;
use crate::error::AgentError;
use crate::timing::SLICE;

/// The seats of an endpoint.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    most: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The next ticket that is given out.
    next: u64,
    /// The requests that wait, oldest first.
    waiting: std::collections::VecDeque<u64>,
    taken: u64,
}

/// A seat; it is free again when this is dropped.
#[derive(Debug)]
pub struct Permit<'a>(&'a ConcurrencyLimit);

impl ConcurrencyLimit {
    /// So many seats, one at least.
    pub fn new(most: usize) -> ConcurrencyLimit {
        ConcurrencyLimit { most: most.max(1) as u64, state: Mutex::default(), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit, behind all requests that came before.
    pub fn take(&self, host: &dyn SessionHost) -> Result<Permit<'_>, AgentError> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back(ticket);
        loop {
            if host.is_cancelled() {
                state.waiting.retain(|one| *one != ticket);
                self.freed.notify_all();
                return Err(AgentError::Cancelled);
            }
            if state.taken < self.most && state.waiting.front() == Some(&ticket) {
                state.waiting.pop_front();
                state.taken += 1;
                self.freed.notify_all();
                return Ok(Permit(self));
            }
            state = self.freed.wait_timeout(state, SLICE * 4).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How many requests wait for their turn.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
        self.0.freed.notify_all();
    }
}
