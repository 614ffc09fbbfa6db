//! A token that stops work: cloned freely, said once, seen by each thread that polls.
//!
//! It carries two descriptors that become readable and stay so, one for "please stop" and one for
//! "stop at once". Saying it again changes nothing, and it is never taken back. A descriptor is made
//! when a thread first polls it: a thousand jobs that wait their turn cost none.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// The token. All clones are one.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: Flag,
    now: Flag,
    hooks: Mutex<Hooks>,
}

/// What is done when the token is cancelled.
#[derive(Default)]
struct Hooks {
    next: u64,
    all: BTreeMap<u64, Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} hooks", self.all.len())
    }
}

/// Something that is done when the token is cancelled, until this is dropped.
#[derive(Debug)]
pub struct CancelHook {
    cancel: Cancel,
    number: u64,
}

impl Drop for CancelHook {
    fn drop(&mut self) {
        self.cancel.hooks().all.remove(&self.number);
    }
}

#[derive(Debug, Default)]
struct Flag {
    set: AtomicBool,
    fd: OnceLock<OwnedFd>,
}

impl Cancel {
    /// A token that is not cancelled.
    pub fn new() -> Cancel {
        Cancel(Arc::default())
    }

    /// Asks to stop: what runs is told, and has its time of grace.
    pub fn cancel(&self) {
        self.0.asked.raise();
        let hooks: Vec<_> = self.hooks().all.values().cloned().collect();
        hooks.iter().for_each(|hook| hook());
    }

    /// Stops at once: no grace.
    pub fn cancel_now(&self) {
        self.0.now.raise();
        self.cancel();
    }

    /// Has something done when the token is cancelled, at once if it is already. It must not wait for anything.
    pub fn on_cancel(&self, hook: &Arc<dyn Fn() + Send + Sync>) -> CancelHook {
        let mut hooks = self.hooks();
        let number = hooks.next;
        hooks.next += 1;
        hooks.all.insert(number, hook.clone());
        drop(hooks);
        if self.is_cancelled() {
            hook();
        }
        CancelHook { cancel: self.clone(), number }
    }

    fn hooks(&self) -> MutexGuard<'_, Hooks> {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is cancelled, in either way.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.is_set()
    }

    /// Whether there is no time of grace any more.
    pub fn is_now(&self) -> bool {
        self.0.now.is_set()
    }

    /// Readable as soon as it is cancelled, in either way.
    pub fn asked_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.0.asked.fd()
    }

    /// Readable as soon as there is no time of grace any more.
    pub fn now_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.0.now.fd()
    }

    /// Lets a time pass; whether it was not cancelled meanwhile.
    pub fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.is_cancelled() || left.is_zero() {
                return !self.is_cancelled();
            }
            let Ok(fd) = self.asked_fd() else { return false };
            let wait = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait));
        }
    }
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel::new()
    }
}

impl Flag {
    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(fd) = self.fd.get() {
            return Ok(fd.as_fd());
        }
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let fd = self.fd.get_or_init(|| made);
        // A thread that raised the flag before the descriptor was there could not write to it.
        if self.is_set() {
            wake(fd);
        }
        Ok(fd.as_fd())
    }

    fn raise(&self) {
        if !self.set.swap(true, Ordering::SeqCst)
            && let Some(fd) = self.fd.get()
        {
            wake(fd);
        }
    }

    fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }
}

/// Makes a descriptor readable. A counter that is not read takes a one or two without fail.
fn wake(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    fn readable(fd: BorrowedFd<'_>) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&at_once)).unwrap() == 1
    }

    #[test]
    fn a_token_is_said_once_and_seen_by_all_its_clones() {
        let cancel = Cancel::new();
        let clone = cancel.clone();
        assert!(!clone.is_cancelled() && !readable(clone.asked_fd().unwrap()));
        cancel.cancel();
        cancel.cancel();
        assert!(
            clone.is_cancelled()
                && readable(clone.asked_fd().unwrap())
                && readable(clone.asked_fd().unwrap())
        );
        assert!(!clone.is_now() && !readable(clone.now_fd().unwrap()));
        cancel.cancel_now();
        assert!(clone.is_now() && readable(clone.now_fd().unwrap()));
    }

    #[test]
    fn a_pause_ends_when_it_is_over_or_called_off() {
        let cancel = Cancel::new();
        assert!(cancel.pause(Duration::from_millis(3)));
        let other = cancel.clone();
        let caller = std::thread::spawn(move || other.cancel());
        assert!(!cancel.pause(Duration::from_secs(60)));
        caller.join().unwrap();
        assert!(!cancel.pause(Duration::ZERO));
    }

    #[test]
    fn whoever_is_to_be_woken_is_woken_before_and_after_and_not_when_it_is_gone() {
        use std::sync::atomic::AtomicUsize;
        let (cancel, count) = (Cancel::new(), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        let hook: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let gone = cancel.on_cancel(&hook);
        let _kept = cancel.on_cancel(&hook);
        drop(gone);
        cancel.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let _late = cancel.on_cancel(&hook);
        assert_eq!(count.load(Ordering::SeqCst), 2, "it was said already");
    }

    #[test]
    fn at_once_is_also_asked() {
        let cancel = Cancel::new();
        cancel.cancel_now();
        assert!(
            cancel.is_cancelled()
                && readable(cancel.asked_fd().unwrap())
                && readable(cancel.now_fd().unwrap())
        );
    }
}
