//! Amounts as people write and read them: counts, money, time, bytes.
//!
//! Inside, everything is a whole number: tokens, turns and tools are counted, money is in millionths,
//! time in milliseconds. Only this module turns one into the other.

use std::fmt;

/// The meter of conversations whose price is unknown, where the person says that it is not to be guessed.
pub const UNPRICED: &str = "unpriced";

/// The unit of a number, as settings and limits write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things that are counted.
    Count,
    /// Money, kept in millionths.
    Money,
    /// Time, kept in milliseconds.
    Time,
    /// Bytes.
    Bytes,
    /// A factor, kept in thousandths.
    Factor,
}

/// A text that is no amount of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmountError {
    text: String,
    unit: Unit,
}

impl fmt::Display for AmountError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let like = match self.unit {
            Unit::Count => "a number such as 1500, 20k or 2M",
            Unit::Money => "money such as 12.50",
            Unit::Time => "a time such as 90s, 10m or 4h",
            Unit::Bytes => "a size such as 512KiB or 16MiB",
            Unit::Factor => "a factor such as 2 or 1.5",
        };
        write!(out, "`{}` is not {like}", self.text)
    }
}

impl std::error::Error for AmountError {}

impl Unit {
    /// The unit of a meter.
    pub fn of_meter(meter: &str) -> Unit {
        match meter {
            "money" => Unit::Money,
            "time" => Unit::Time,
            _ => Unit::Count,
        }
    }

    /// Reads an amount: `1500`, `1_500`, `2k`, `1.5M`; `12.50`; `90s`, `10m`, `4h`; `16MiB`.
    pub fn parse(self, text: &str) -> Result<u64, AmountError> {
        let text: String = text.trim().chars().filter(|one| *one != '_').collect();
        let at = text.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(text.len());
        let (number, suffix) = (&text[..at], text[at..].trim());
        let amount = self.scale(suffix).and_then(|scale| scaled(number, scale));
        amount.ok_or_else(|| AmountError { text: text.clone(), unit: self })
    }

    /// How much one of a suffix is.
    fn scale(self, suffix: &str) -> Option<u64> {
        let scale = match (self, suffix) {
            (Unit::Count | Unit::Bytes, "") | (Unit::Bytes, "B") | (Unit::Time, "ms") => 1,
            (Unit::Count, "k") | (Unit::Factor, "") => 1_000,
            (Unit::Count, "M") => 1_000_000,
            (Unit::Money, "") => 1_000_000,
            (Unit::Time, "s" | "") => 1_000,
            (Unit::Time, "m") => 60_000,
            (Unit::Time, "h") => 3_600_000,
            (Unit::Time, "d") => 86_400_000,
            (Unit::Bytes, "KiB" | "K") => 1 << 10,
            (Unit::Bytes, "MiB" | "M") => 1 << 20,
            (Unit::Bytes, "GiB" | "G") => 1 << 30,
            (Unit::Count | Unit::Money | Unit::Time | Unit::Bytes | Unit::Factor, _) => return None,
        };
        Some(scale)
    }

    /// An amount as people read it.
    pub fn show(self, amount: u64) -> String {
        match self {
            Unit::Count if amount >= 10_000_000 || (amount > 0 && amount.is_multiple_of(1_000_000)) => {
                format!("{}M", amount / 1_000_000)
            }
            Unit::Count if amount >= 10_000 => format!("{}k", amount / 1_000),
            Unit::Count => amount.to_string(),
            Unit::Money => format!("{}.{:02}", amount / 1_000_000, amount % 1_000_000 / 10_000),
            Unit::Time => show_time(amount),
            Unit::Bytes if amount >= 10 << 20 => format!("{} MiB", amount >> 20),
            Unit::Bytes if amount >= 10 << 10 => format!("{} KiB", amount >> 10),
            Unit::Bytes => format!("{amount} B"),
            Unit::Factor if amount.is_multiple_of(1_000) => (amount / 1_000).to_string(),
            Unit::Factor => {
                let text = format!("{}.{:03}", amount / 1_000, amount % 1_000);
                text.trim_end_matches('0').to_owned()
            }
        }
    }
}

fn show_time(amount: u64) -> String {
    match amount {
        0..10_000 => format!("{}.{}s", amount / 1_000, amount % 1_000 / 100),
        10_000..120_000 => format!("{}s", amount / 1_000),
        120_000..7_200_000 => format!("{}m", amount / 60_000),
        _ => format!("{}h{:02}m", amount / 3_600_000, amount % 3_600_000 / 60_000),
    }
}

/// A decimal number times a scale, exactly; digits beyond the smallest unit are refused.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || part.contains('.') {
        return None;
    }
    let mut amount = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut rest = scale;
    for digit in part.bytes() {
        if !rest.is_multiple_of(10) && digit != b'0' {
            // Sizes are powers of two: only what comes out whole is an amount.
            let tail: u64 = part.parse().ok()?;
            let tens = 10u64.checked_pow(u32::try_from(part.len()).ok()?)?;
            let exact = tail.checked_mul(scale)?;
            return (exact % tens == 0)
                .then(|| whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(exact / tens))?;
        }
        rest /= 10;
        amount = amount.checked_add(u64::from(digit - b'0').checked_mul(rest)?)?;
    }
    Some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_they_are_written() {
        for (unit, text, amount) in [
            (Unit::Count, "1_500", 1500),
            (Unit::Count, "2k", 2000),
            (Unit::Count, "1.5M", 1_500_000),
            (Unit::Money, "12.50", 12_500_000),
            (Unit::Money, "0.000001", 1),
            (Unit::Time, "90s", 90_000),
            (Unit::Time, "4h", 14_400_000),
            (Unit::Time, "250ms", 250),
            (Unit::Time, "1.5", 1500),
            (Unit::Bytes, "16MiB", 16 << 20),
            (Unit::Bytes, "1.5KiB", 1536),
            (Unit::Bytes, "7", 7),
            (Unit::Factor, "2", 2_000),
            (Unit::Factor, "1.5", 1_500),
        ] {
            assert_eq!(unit.parse(text), Ok(amount), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_an_example() {
        for (unit, text) in [
            (Unit::Count, ""),
            (Unit::Count, "-1"),
            (Unit::Count, "1.5"),
            (Unit::Count, "9s"),
            (Unit::Count, "99999999999999999999"),
            (Unit::Money, "1.0000001"),
            (Unit::Money, "1..2"),
            (Unit::Time, "4 weeks"),
            (Unit::Time, "1."),
            (Unit::Bytes, "1.0001KiB"),
            (Unit::Factor, "2x"),
            (Unit::Count, "18446744073709551615k"),
        ] {
            let message = unit.parse(text).expect_err(text).to_string();
            assert!(message.contains("such as"), "{message}");
        }
    }

    #[test]
    fn amounts_are_shown_short() {
        let shown = |unit: Unit, amount| unit.show(amount);
        assert_eq!(shown(Unit::Count, 9_999), "9999");
        assert_eq!(shown(Unit::Count, 52_340), "52k");
        assert_eq!(shown(Unit::Money, 1_234_567), "1.23");
        assert_eq!(shown(Unit::Time, 1_540), "1.5s");
        assert_eq!(shown(Unit::Time, 8_100_000), "2h15m");
        assert_eq!(shown(Unit::Bytes, 20 << 20), "20 MiB");
        assert_eq!((shown(Unit::Factor, 3_000), shown(Unit::Factor, 1_250)), ("3".into(), "1.25".into()));
    }
}
