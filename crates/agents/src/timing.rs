//! Time and dice, as arguments: how long to wait before a service is asked again, and by which chance.
//!
//! Nothing else in this crate looks at a clock or throws dice, so tests need no sleep and no luck.

use std::time::{Duration, Instant};

use crate::contract::SessionHost;

/// How long a wait is cut into, to look whether it is still wanted.
pub const SLICE: Duration = Duration::from_millis(25);

/// The longest time between two looks at limits while nothing is heard and a waker would wake the thread.
const MAX_QUIET: Duration = Duration::from_secs(2);

/// How long the thread that listens waits until it looks at its limits again: a slice at first, and longer the longer
/// nothing is heard. Only where a waker wakes it: a thousand that look every few milliseconds take half a processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    first: Duration,
    now: Duration,
}

impl Quiet {
    /// Begins with a slice.
    pub(crate) fn new(first: Duration) -> Quiet {
        Quiet { first, now: first }
    }

    /// Something was heard: the next wait is a slice again.
    pub(crate) fn broken(&mut self) {
        self.now = self.first;
    }

    /// How long to wait this time.
    pub(crate) fn wait(&mut self, host: &dyn SessionHost) -> Duration {
        if host.cancel_token().is_none() {
            return self.first;
        }
        let now = self.now;
        self.now = now.saturating_mul(2).min(MAX_QUIET);
        now
    }
}

/// A clock and dice.
pub trait Timing: Send + Sync {
    /// How much time has passed since some moment.
    fn now(&self) -> Duration;
    /// Lets a time pass; whether the session host still wants the answer.
    fn pause(&self, time: Duration, host: &dyn SessionHost) -> bool;
    /// A random number from all of `u64`.
    fn throw(&self) -> u64;
}

/// The clock of this machine, and dice that differ from session to session.
#[derive(Debug)]
pub struct RealTime {
    began: Instant,
}

impl RealTime {
    /// A clock that begins now.
    pub fn new() -> RealTime {
        RealTime { began: Instant::now() }
    }
}

impl Default for RealTime {
    fn default() -> RealTime {
        RealTime::new()
    }
}

impl Timing for RealTime {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&self, time: Duration, host: &dyn SessionHost) -> bool {
        if let Some(cancel) = host.cancel_token() {
            return cancel.pause(time);
        }
        let end = Instant::now() + time;
        while !host.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(SLICE));
        }
        false
    }

    fn throw(&self) -> u64 {
        use std::hash::{BuildHasher as _, RandomState};
        RandomState::new().hash_one(self.began.elapsed().as_nanos())
    }
}

/// How often and after how long a service is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often in all.
    pub attempts: u32,
    /// The first wait, which doubles.
    pub first: Duration,
    /// The longest wait. A service that asks for longer is out.
    pub most: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts: 5, first: Duration::from_millis(500), most: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    /// How long to wait after so many attempts, or nothing when it is time to give up: half of the
    /// time is certain, half of it is thrown. What the service asks for is the least.
    pub fn wait(&self, made: u32, asked: Option<Duration>, thrown: u64) -> Option<Duration> {
        if made >= self.attempts || asked.is_some_and(|asked| asked > self.most) {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << made.saturating_sub(1).min(16)).min(self.most);
        let half = doubled / 2;
        let span = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let own = half + Duration::from_millis(thrown % span);
        // All clients were told the same time: they must not all come back at it.
        Some(asked.map_or(own, |asked| asked + Duration::from_millis(thrown % span)))
    }
}

/// What a `Retry-After` asks for: seconds, or a date beside the `Date` of the same answer.
pub fn retry_after(value: Option<&str>, date: Option<&str>) -> Option<Duration> {
    let value = value?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0)
            .then(|| Duration::from_secs_f64(seconds.min(86_400.0)));
    }
    let (until, now) = (seconds_of(value)?, seconds_of(date?.trim())?);
    Some(Duration::from_secs(until.saturating_sub(now).min(86_400)))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds_of(date: &str) -> Option<u64> {
    let date = jiff::fmt::rfc2822::parse(date).ok()?;
    u64::try_from(date.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_vary_and_end() {
        let retry =
            RetryPolicy { attempts: 5, first: Duration::from_millis(100), most: Duration::from_millis(300) };
        let ms = |made, asked: Option<u64>, thrown| {
            retry.wait(made, asked.map(Duration::from_millis), thrown).map(|wait| wait.as_millis())
        };
        assert_eq!((ms(1, None, 0), ms(1, None, 50), ms(1, None, 51)), (Some(50), Some(100), Some(50)));
        assert_eq!((ms(2, None, 0), ms(2, None, 100)), (Some(100), Some(200)));
        assert_eq!((ms(3, None, 0), ms(4, None, 150)), (Some(150), Some(300)));
        assert_eq!(ms(5, None, 0), None);
        assert_eq!(
            (ms(1, Some(300), 0), ms(1, Some(300), 7), ms(1, Some(301), 0)),
            (Some(300), Some(307), None)
        );
        assert_eq!(ms(u32::MAX, None, 0), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(seconds_of(date), Some(784_111_777));
        assert_eq!(seconds_of("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_of("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        let after = |value, date| retry_after(Some(value), date).map(|time| time.as_millis());
        assert_eq!((after("2", None), after("0.5", None)), (Some(2000), Some(500)));
        assert_eq!(after("Sun, 06 Nov 1994 08:50:00 GMT", Some(date)), Some(23_000));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT", Some(date)), Some(0));
        assert_eq!(after("Sun, 06 Nov 1994 08:50:00 GMT", None), None);
        for bad in
            ["", "-1", "NaN", "soon", "Sun, 06 Foo 1994 08:50:00 GMT", "Sun, 99 Nov 1994 1:2:3 GMT", "1e999"]
        {
            assert_eq!(after(bad, Some(date)), None, "{bad}");
        }
        assert_eq!(after("9999999", None), Some(86_400_000));
        assert_eq!(retry_after(None, Some(date)), None);
    }
}
