//! Times as people read them. The clock is the caller's.

use ftl_core::run::Time;
use jiff::Timestamp;

/// A time as `2026-11-15T22:40:07Z`.
pub fn stamp(time: Time) -> String {
    utc(time, "%Y-%m-%dT%H:%M:%SZ")
}

/// A time of the day, `22:40:07Z`: the same everywhere on earth.
pub fn clock(time: Time) -> String {
    utc(time, "%H:%M:%SZ")
}

/// How long until a time: `in 12s`; `now` when it has come.
pub fn time_left(until: Time, now: Time) -> String {
    match until.saturating_sub(now).div_ceil(1000) {
        0 => String::from("now"),
        seconds @ 1..120 => format!("in {seconds}s"),
        seconds @ 120..7200 => format!("in {}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("in {}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// How long ago a time was: `3m ago`.
pub fn ago(time: Time, now: Time) -> String {
    match now.saturating_sub(time) / 1000 {
        0..2 => String::from("now"),
        seconds @ 2..120 => format!("{seconds}s ago"),
        seconds @ 120..7200 => format!("{}m ago", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h ago", seconds / 3600),
        seconds => format!("{}d ago", seconds / 86_400),
    }
}

/// How long something took: `0:07`, `1:02:03`.
pub fn lasted(millis: u64) -> String {
    let seconds = millis / 1000;
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A moment in UTC, written as a pattern of `strftime` says. One after the last of the calendar is that one.
fn utc(time: Time, pattern: &str) -> String {
    let at = i64::try_from(time).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    at.unwrap_or(Timestamp::MAX).strftime(pattern).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(stamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(stamp(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(stamp(1_794_782_407_999), "2026-11-15T22:40:07Z");
        assert_eq!(stamp(4_107_542_399_000), "2100-02-28T23:59:59Z");
        assert_eq!(clock(1_794_782_407_999), "22:40:07Z");
    }

    #[test]
    fn ages_are_short() {
        assert_eq!(ago(1000, 2000), "now");
        assert_eq!(ago(0, 90_000), "90s ago");
        assert_eq!(ago(0, 10_000_000), "2h ago");
        assert_eq!(ago(9, 3), "now");
        assert_eq!((lasted(7_900).as_str(), lasted(3_723_000).as_str()), ("0:07", "1:02:03"));
        assert_eq!((time_left(5, 9).as_str(), time_left(2_500, 1).as_str()), ("now", "in 3s"));
        assert_eq!(
            (time_left(150_000, 0).as_str(), time_left(8_000_000, 0).as_str()),
            ("in 2m30s", "in 2h13m")
        );
    }
}
