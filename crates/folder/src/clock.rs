//! Time, as an argument: the engine asks a clock, tests bring their own. The calendar is jiff's.
//!
//! The wall is looked at once, when a clock is made; from then on only the monotonic clock counts.
//! So a wall that jumps can neither end a wait early nor make one last for ever, and times in a
//! journal never go backwards.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Milliseconds since 1970, in UTC.
pub type WallTime = u64;

/// Tells the time in milliseconds since 1970, and never goes backwards.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> WallTime;
}

/// The clock of a machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    base: WallTime,
    began: Instant,
}

impl SystemClock {
    /// A clock that is not behind a time already written down.
    pub fn not_before(known: WallTime) -> SystemClock {
        SystemClock { base: wall().max(known), began: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> WallTime {
        self.base.saturating_add(millis(self.began.elapsed()))
    }
}

/// What the wall says, for labels only.
pub fn wall() -> WallTime {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// The wall clock's time in this machine's time zone: naive ISO-8601 with microseconds, as Python writes it.
/// Where the zone cannot be found out, it is UTC.
pub fn local() -> String {
    local_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The same for a moment, by the time since 1970.
pub fn local_at(since: Duration) -> String {
    stamp(since).to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

/// A moment in UTC, written as a pattern of `strftime` says.
pub fn utc(since: Duration, pattern: &str) -> String {
    stamp(since).strftime(pattern).to_string()
}

/// A moment after the last one of the calendar is that one.
fn stamp(since: Duration) -> Timestamp {
    SignedDuration::try_from(since)
        .ok()
        .and_then(|since| Timestamp::from_duration(since).ok())
        .unwrap_or(Timestamp::MAX)
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> WallTime {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
