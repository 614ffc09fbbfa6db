//! Time, as an argument: the engine asks a clock, tests bring their own.
//!
//! The wall is looked at once, when a clock is made; from then on only the monotonic clock counts.
//! So a wall that jumps can neither end a wait early nor make one last for ever, and times in a
//! journal never go backwards.

use std::sync::{Mutex, PoisonError};
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

/// What the wall says where this machine stands: naive ISO-8601 with microseconds, as Python writes it.
/// The zone is the C library's, asked through SQLite. Where it cannot be told, it is UTC.
pub fn local() -> String {
    local_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The same for a moment, by the time since 1970.
pub fn local_at(since: Duration) -> String {
    let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
    let offset = known_offset(seconds);
    let there = u64::try_from(seconds.saturating_add(offset)).unwrap_or(0);
    let (year, month, day) = date(there / 86_400);
    let (hour, minute, second) = (there % 86_400 / 3600, there % 3600 / 60, there % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// No clock is set for summer or winter within a quarter of an hour by UTC.
const QUARTER: i64 = 15 * 60;

/// How far local time is ahead of UTC, asked once in a quarter of an hour: asking takes a tenth of a millisecond.
fn known_offset(seconds: i64) -> i64 {
    static KNOWN: Mutex<Option<(i64, i64)>> = Mutex::new(None);
    let quarter = seconds.div_euclid(QUARTER);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match *known {
        Some((asked, offset)) if asked == quarter => offset,
        Some(_) | None => {
            let offset = offset_at(seconds).unwrap_or(0);
            *known = Some((quarter, offset));
            offset
        }
    }
}

/// How far local time is ahead of UTC, in seconds.
fn offset_at(seconds: i64) -> Option<i64> {
    let open = rusqlite::Connection::open_in_memory().ok()?;
    let ask = "SELECT unixepoch(?1, 'unixepoch', 'localtime') - ?1";
    open.query_row(ask, [seconds], |row| row.get(0)).ok()
}

/// The date of a day since 1970, by the calendar that repeats every 400 years.
pub fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, of_month)
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> Time {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
