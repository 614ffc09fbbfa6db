//! Dates as the lessons hold them: ISO texts, naive or with a time zone.
//!
//! There is no clock here: what time it is comes in as a [`Now`]. A date that cannot be read is no
//! date, never an error.

use jiff::civil::Date;

const DAY: i64 = 86_400_000;

/// What time it is, as the engine says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// Local time as naive ISO-8601 text with microseconds; this is what is written into lessons.
    pub local: String,
    /// Milliseconds since 1970 in UTC; this is what dates with a time zone are compared with.
    pub ms: i64,
}

impl Now {
    /// How many whole days ago a date was. A date to come is today's; one that cannot be read is none.
    pub fn days_since(&self, date: &str) -> Option<u64> {
        let then = parse(date)?;
        let past = match then.offset {
            Some(offset) => self.ms - (then.wall - offset),
            None => parse(&self.local).map_or(self.ms, |now| now.wall) - then.wall,
        };
        Some(u64::try_from(past.div_euclid(DAY)).unwrap_or(0))
    }
}

/// What a clock on the wall shows, and how far that wall is from UTC, both in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    wall: i64,
    offset: Option<i64>,
}

fn parse(text: &str) -> Option<Stamp> {
    let text = text.trim();
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let days = days_from_civil(date)?;
    let rest = rest.strip_prefix(['T', 't', ' ']).unwrap_or(rest);
    let (clock, offset) = split_zone(rest)?;
    Some(Stamp { wall: days * DAY + clock_ms(clock)?, offset })
}

/// Days since 1970 of a date written `YYYY-MM-DD`.
fn days_from_civil(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let mut next = || parts.next().filter(|part| is_digits(part));
    let (year, month, day) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    let date = Date::new(year, month, day).ok().filter(|_| parts.next().is_none())?;
    Some(i64::from(date.since(Date::constant(1970, 1, 1)).ok()?.get_days()))
}

/// The clock's part and the distance from UTC, if one is given.
fn split_zone(rest: &str) -> Option<(&str, Option<i64>)> {
    if let Some(clock) = rest.strip_suffix(['Z', 'z']) {
        return Some((clock, Some(0)));
    }
    let Some(at) = rest.rfind(['+', '-']) else { return Some((rest, None)) };
    let (clock, zone) = (&rest[..at], &rest[at + 1..]);
    let digits: String = zone.chars().filter(|letter| *letter != ':').collect();
    let size = match digits.len() {
        2 => digits.parse::<i64>().ok()? * 60,
        4 => digits[..2].parse::<i64>().ok()? * 60 + digits[2..].parse::<i64>().ok()?,
        _ => return None,
    };
    let sign = if rest[at..].starts_with('-') { -1 } else { 1 };
    Some((clock, Some(sign * size * 60_000)))
}

fn clock_ms(clock: &str) -> Option<i64> {
    if clock.is_empty() {
        return Some(0);
    }
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.split(':');
    let mut next = |below: i64| -> Option<i64> {
        let Some(part) = parts.next() else { return Some(0) };
        Some(part).filter(|part| is_digits(part))?.parse().ok().filter(|number| *number < below)
    };
    let ms = next(24)? * 3_600_000 + next(60)? * 60_000 + next(61)? * 1000;
    let is_good = parts.next().is_none() && (fraction.is_empty() || is_digits(fraction));
    let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
    is_good.then_some(ms + thousandths.parse::<i64>().unwrap_or(0))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon in a place two hours east of Greenwich.
    fn noon() -> Now {
        Now { local: "2026-03-01T12:00:00.000000".to_owned(), ms: 1_772_359_200_000 }
    }

    #[test]
    fn ages() {
        let table = "
            2026-03-01T11:59:59.999999       | 0
            2026-03-01                       | 0
            2026-02-28T12:00:00              | 1
            2026-02-28T12:00:01              | 0
            2026-02-28 11:00:00              | 1
            2024-02-29T12:00:00.5            | 730
            2026-02-28T10:00:00Z             | 1
            2026-02-28T10:00:01Z             | 0
            2026-02-28T12:00:00+02:00        | 1
            2026-02-28T05:00:00-0500         | 1
            2027-01-01T00:00:00              | 0
            1970-01-01T00:00:00Z             | 20513
            2026-02-30T00:00:00              | none
            2026-13-01T00:00:00              | none
            2026-02-28T25:00:00              | none
            2026-02-28T12:00:00+2            | none
            yesterday                        | none
            2026-2-1                         | none
            ÄÖÜäöüßÄÖÜ                       | none
        ";
        for line in table.lines().filter(|line| line.contains('|')) {
            let (date, wanted) = line.split_once('|').unwrap();
            let found = noon().days_since(date).map_or("none".to_owned(), |days| days.to_string());
            assert_eq!(found, wanted.trim(), "{}", date.trim());
        }
        assert_eq!(noon().days_since(""), None);
    }
}
