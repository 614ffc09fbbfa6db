//! Where threads of this process queue for a kernel lock that only one of them can have at a time.
//!
//! The kernel's locks have no wait with an end. Threads of one process can do without one: they wait for each other
//! here, and only the thread that is let in asks the kernel, which then knows other processes alone as rivals. A gate
//! never replaces the kernel's lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The gate of one lock.
#[derive(Debug, Default)]
pub struct LockGate {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// The gates that threads use, by the path of the lock.
static GATES: Mutex<BTreeMap<PathBuf, Weak<LockGate>>> = Mutex::new(BTreeMap::new());

impl LockGate {
    /// The gate of the lock at a path. Paths that are spelled in two ways have two, and the kernel's lock.
    pub fn of(path: &Path) -> Arc<LockGate> {
        let mut gates = lock(&GATES);
        if let Some(known) = gates.get(path).and_then(Weak::upgrade) {
            return known;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(LockGate::default());
        gates.insert(path.to_owned(), Arc::downgrade(&gate));
        gate
    }

    /// Waits until no other thread is inside; nothing where that takes longer than the limit.
    pub fn enter(self: &Arc<LockGate>, limit: Duration) -> Option<GatePass> {
        let waited = self.freed.wait_timeout_while(lock(&self.is_taken), limit, |is_taken| *is_taken);
        let (mut is_taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && *is_taken {
            return None;
        }
        *is_taken = true;
        Some(GatePass(Arc::clone(self)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one thread that was let in, until this is dropped.
#[derive(Debug)]
pub struct GatePass(Arc<LockGate>);

impl Drop for GatePass {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_let_in_and_the_next_when_it_leaves() {
        let gate = LockGate::of(Path::new("some/lock"));
        let inside = gate.enter(Duration::ZERO).unwrap();
        assert!(LockGate::of(Path::new("some/lock")).enter(Duration::ZERO).is_none(), "it is the same gate");
        assert!(LockGate::of(Path::new("other/lock")).enter(Duration::ZERO).is_some());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.enter(Duration::from_secs(60)).is_some());
            drop(inside);
            assert!(waits.join().unwrap());
        });
        drop(gate);
        LockGate::of(Path::new("third/lock"));
        assert!(!lock(&GATES).contains_key(Path::new("some/lock")), "nobody knows it any more");
    }
}
