//! A token that stops work: cloned freely, said once, seen by whoever polls.
//!
//! It carries two descriptors that become readable and stay so, one for "please stop" and one for
//! "stop at once". Saying it again changes nothing, and it is never taken back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// The token. All clones are one.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asked: Flag,
    now: Flag,
}

#[derive(Debug)]
struct Flag {
    set: AtomicBool,
    fd: OwnedFd,
}

impl Cancel {
    /// A token that nobody has used yet.
    pub fn new() -> io::Result<Cancel> {
        Ok(Cancel(Arc::new(Inner { asked: Flag::new()?, now: Flag::new()? })))
    }

    /// Asks to stop: what runs is told, and has its time of grace.
    pub fn cancel(&self) {
        self.0.asked.raise();
    }

    /// Stops at once: no grace.
    pub fn cancel_now(&self) {
        self.0.now.raise();
        self.0.asked.raise();
    }

    /// Whether somebody has asked to stop, in either way.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.is_set()
    }

    /// Whether there is no time of grace any more.
    pub fn is_now(&self) -> bool {
        self.0.now.is_set()
    }

    /// Readable as soon as somebody has asked to stop, in either way.
    pub fn asked_fd(&self) -> BorrowedFd<'_> {
        self.0.asked.fd.as_fd()
    }

    /// Readable as soon as there is no time of grace any more.
    pub fn now_fd(&self) -> BorrowedFd<'_> {
        self.0.now.fd.as_fd()
    }
}

impl Flag {
    fn new() -> io::Result<Flag> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Flag { set: AtomicBool::new(false), fd })
    }

    fn raise(&self) {
        if !self.set.swap(true, Ordering::SeqCst) {
            // A counter of zero takes a one without fail.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable(fd: BorrowedFd<'_>) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&at_once)).unwrap() == 1
    }

    #[test]
    fn a_token_is_said_once_and_seen_by_all_its_clones() {
        let cancel = Cancel::new().unwrap();
        let clone = cancel.clone();
        assert!(!clone.is_cancelled() && !readable(clone.asked_fd()));
        cancel.cancel();
        cancel.cancel();
        assert!(clone.is_cancelled() && readable(clone.asked_fd()) && readable(clone.asked_fd()));
        assert!(!clone.is_now() && !readable(clone.now_fd()));
        cancel.cancel_now();
        assert!(clone.is_now() && readable(clone.now_fd()));
    }

    #[test]
    fn at_once_is_also_asked() {
        let cancel = Cancel::new().unwrap();
        cancel.cancel_now();
        assert!(cancel.is_cancelled() && readable(cancel.asked_fd()) && readable(cancel.now_fd()));
    }
}
