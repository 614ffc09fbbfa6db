//! Values: what variables hold, what actions take and answer.
//!
//! A value is plain data that reads and writes as ordinary JSON. It never holds a handle, a path
//! that was opened, or a time that was looked up. Decimals are kept as whole thousandths, so that
//! two runs of one decision can never disagree about a rounding.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name in a protocol: a state, a variable, a field, a meter. Cheap to copy.
pub type Name = Arc<str>;

/// The fields of a record, in the order of their names.
pub type Fields = BTreeMap<Name, Value>;

/// How deep lists and records may nest in a value that comes from outside.
pub const MAX_DEPTH: usize = 64;

/// A number with three decimals, kept as thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(i64);

impl Number {
    /// The largest number, in thousandths; the smallest is its negative.
    pub const MAX_THOUSANDTHS: i64 = 9_000_000_000_000_000_000;
    /// Beyond this many thousandths a number has no decimals, so that every number survives JSON.
    pub const MAX_WITH_DECIMALS: i64 = 9_000_000_000_000_000;

    /// A whole number; values beyond the range stop at its end.
    pub const fn whole(value: i64) -> Number {
        Number::thousandths(value.saturating_mul(1000))
    }

    /// A number given in thousandths; values beyond the range stop at its end.
    pub const fn thousandths(value: i64) -> Number {
        let most = Number::MAX_THOUSANDTHS;
        let value = if value > most {
            most
        } else if value < -most {
            -most
        } else {
            value
        };
        let fine = value <= Number::MAX_WITH_DECIMALS && value >= -Number::MAX_WITH_DECIMALS;
        Number(if fine { value } else { value / 1000 * 1000 })
    }

    /// The number in thousandths.
    pub const fn in_thousandths(self) -> i64 {
        self.0
    }

    /// The whole part as a count: nothing below zero.
    pub const fn as_count(self) -> u64 {
        if self.0 < 0 { 0 } else { (self.0 / 1000) as u64 }
    }

    /// A count as a number.
    pub fn count(value: u64) -> Number {
        Number::whole(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Nearest number to a float; not a number gives `None`.
    pub fn from_float(value: f64) -> Option<Number> {
        let scaled = (value * 1000.0).round();
        (!scaled.is_nan()).then_some(Number::thousandths(scaled as i64))
    }

    /// Reads `12`, `0.6` or `-3.25`; at most three decimals.
    pub fn parse(text: &str) -> Option<Number> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let dotted = digits.contains('.');
        if whole.is_empty() || !plain(whole) || !plain(decimals) || decimals.len() > 3 {
            return None;
        }
        if dotted && decimals.is_empty() {
            return None;
        }
        let padded = format!("{decimals:0<3}");
        let thousandths = whole.parse::<i64>().ok()?.checked_mul(1000)?;
        let thousandths = thousandths.checked_add(padded.parse::<i64>().ok()?)?;
        (thousandths <= Number::MAX_THOUSANDTHS).then_some(Number::thousandths(sign * thousandths))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, (self.0 % 1000).abs());
        if self.0 < 0 && whole == 0 {
            write!(out, "-")?;
        }
        write!(out, "{whole}")?;
        if part != 0 {
            write!(out, ".{}", format!("{part:03}").trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// Plain data: what a variable holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// No value: the name is unset, or the field is missing.
    #[default]
    None,
    /// Yes or no.
    Bool(bool),
    /// A number; durations are numbers of seconds.
    Number(Number),
    /// Text, words and digests.
    Text(Arc<str>),
    /// Values in order.
    List(Arc<Vec<Value>>),
    /// Values by name.
    Record(Arc<Fields>),
}

impl Value {
    /// About how many bytes it takes to write it down: its texts, and a little for everything else.
    pub fn weight(&self) -> usize {
        match self {
            Value::None | Value::Bool(_) | Value::Number(_) => 8,
            Value::Text(text) => text.len() + 2,
            Value::List(items) => items.iter().map(|item| item.weight() + 1).sum::<usize>() + 2,
            Value::Record(fields) => {
                fields.iter().map(|(name, value)| name.len() + value.weight() + 4).sum::<usize>() + 2
            }
        }
    }

    /// A text value.
    pub fn text(text: impl AsRef<str>) -> Value {
        Value::Text(Arc::from(text.as_ref()))
    }

    /// A whole number.
    pub fn whole(value: i64) -> Value {
        Value::Number(Number::whole(value))
    }

    /// A list.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::List(Arc::new(items.into_iter().collect()))
    }

    /// A record.
    pub fn record<N: AsRef<str>>(fields: impl IntoIterator<Item = (N, Value)>) -> Value {
        Value::Record(Arc::new(
            fields.into_iter().map(|(name, value)| (Name::from(name.as_ref()), value)).collect(),
        ))
    }

    /// The field of a record, `none` for everything else.
    pub fn field(&self, name: &str) -> &Value {
        const NOTHING: &Value = &Value::None;
        match self {
            Value::Record(fields) => fields.get(name).unwrap_or(NOTHING),
            Value::None | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => NOTHING,
        }
    }

    /// Whether nothing is known.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// What `is empty` asks: nothing, no text, no items, no fields.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::None => true,
            Value::Bool(_) | Value::Number(_) => false,
            Value::Text(text) => text.is_empty(),
            Value::List(items) => items.is_empty(),
            Value::Record(fields) => fields.is_empty(),
        }
    }

    /// Whether this is the value `true`; anything else does not hold.
    pub fn holds(&self) -> bool {
        matches!(self, Value::Bool(true))
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::None | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Record(_) => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Value::Number(number) => Some(*number),
            Value::None | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Record(_) => None,
        }
    }

    /// The items of a list; everything else has none.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            Value::None | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Record(_) => &[],
        }
    }

    /// Whether lists and records nest at most `MAX_DEPTH` deep.
    pub fn is_shallow(&self) -> bool {
        self.within(MAX_DEPTH)
    }

    fn within(&self, left: usize) -> bool {
        match self {
            Value::None | Value::Bool(_) | Value::Number(_) | Value::Text(_) => true,
            Value::List(items) => left > 0 && items.iter().all(|item| item.within(left - 1)),
            Value::Record(fields) => left > 0 && fields.values().all(|value| value.within(left - 1)),
        }
    }

    /// Turns a Rust value into plain data through its JSON form.
    pub fn of<T: Serialize>(value: &T) -> Result<Value, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(value)?)
    }

    /// Reads a Rust value back out of plain data.
    pub fn to<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(self)?)
    }
}

impl fmt::Display for Value {
    /// How a value reads inside a sentence: lists with commas, records as JSON.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => out.write_str("none"),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Number(number) => write!(out, "{number}"),
            Value::Text(text) => out.write_str(text),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.write_str(", ")?;
                    }
                    write!(out, "{item}")?;
                }
                Ok(())
            }
            Value::Record(_) => out.write_str(&serde_json::to_string(self).unwrap_or_default()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => out.serialize_unit(),
            Value::Bool(value) => out.serialize_bool(*value),
            Value::Number(number) if number.0 % 1000 == 0 => out.serialize_i64(number.0 / 1000),
            Value::Number(number) => out.serialize_f64(number.0 as f64 / 1000.0),
            Value::Text(text) => out.serialize_str(text),
            Value::List(items) => {
                let mut list = out.serialize_seq(Some(items.len()))?;
                for item in items.iter() {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Value::Record(fields) => {
                let mut map = out.serialize_map(Some(fields.len()))?;
                for (name, value) in fields.iter() {
                    map.serialize_entry(&**name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        Value::deserialize(from)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(Number::count(value)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_float(value).ok_or_else(|| E::custom("a number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Value::List(Arc::new(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Fields::new();
        while let Some((name, value)) = from.next_entry::<String, Value>()? {
            fields.insert(Name::from(name), value);
        }
        Ok(Value::Record(Arc::new(fields)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_and_print_alike() {
        for text in ["0", "5", "0.6", "-0.25", "12.345", "-7"] {
            assert_eq!(Number::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "-", "1.", ".5", "1.2345", "1e3", "99999999999999999999"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_survive_json() {
        let value = Value::record([
            ("none", Value::None),
            ("score", Value::Number(Number::thousandths(600))),
            ("list", Value::list([Value::whole(-3), Value::text("a\u{0}b"), Value::Bool(true)])),
        ]);
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(text, r#"{"list":[-3,"a\u0000b",true],"none":null,"score":0.6}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
