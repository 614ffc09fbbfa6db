//! Time, as an argument: the engine asks a clock, tests bring their own.
//!
//! The wall is looked at once, when a clock is made; from then on only the monotonic clock counts.
//! So a wall that jumps can neither end a wait early nor make one last for ever, and times in a
//! journal never go backwards.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ftl_core::run::Time;

/// Tells the time in milliseconds since 1970, and never goes backwards.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Time;
}

/// The clock of a machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    base: Time,
    began: Instant,
}

impl SystemClock {
    /// A clock that is not behind a time already written down.
    pub fn not_before(known: Time) -> SystemClock {
        SystemClock { base: wall().max(known), began: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        self.base.saturating_add(millis(self.began.elapsed()))
    }
}

/// What the wall says, for labels only.
pub fn wall() -> Time {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> Time {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
