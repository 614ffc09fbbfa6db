//! JSON as the FTL protocol's own commands read, keep and print it: keys in the order they were put.
//!
//! Two-space indent, everything beyond ASCII escaped, floats with their shortest digits. A [`Json`] never sorts its
//! keys and never loses one; of two equal keys in a text the last value stands, at the place of the first. It is the
//! only JSON type for what is stored or shown: whether that of `serde_json` keeps the order depends on who else is built.

pub mod rows;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Objects with more keys than this look for equal keys by a table.
const FEW_KEYS: usize = 16;

/// A JSON value whose objects keep their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    /// Nothing.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number that fits.
    Int(i64),
    /// A whole number beyond those.
    Large(u64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// Values in a row.
    List(Vec<Json>),
    /// Values by name.
    Object(Object),
}

/// The members of an object, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Vec<(String, Json)>);

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something stands where it cannot stand.
    Syntax,
    /// It ends too soon.
    End,
    /// It is nested too deep.
    Depth,
}

/// A text that is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// Why it is not.
    pub cause: Cause,
    /// What is wrong with it.
    pub message: String,
    /// On which line, counted from one; zero where that is unknown.
    pub line: usize,
    /// At which byte of that line, counted from one.
    pub column: usize,
}

impl fmt::Display for NotJson {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not valid JSON at line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for NotJson {}

impl NotJson {
    fn new(error: &serde_json::Error) -> NotJson {
        let full = error.to_string();
        let message = full.rsplit_once(" at line ").map_or(full.as_str(), |(message, _)| message).to_owned();
        let cause = match message.starts_with("recursion limit") {
            true => Cause::Depth,
            false if error.is_eof() => Cause::End,
            false => Cause::Syntax,
        };
        NotJson { cause, message, line: error.line(), column: error.column() }
    }
}

impl Json {
    /// Reads a whole text.
    pub fn parse(text: &str) -> Result<Json, NotJson> {
        serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
            .map_err(|error| NotJson::new(&error))
    }

    /// Reads the value that a text starts with, and tells how many bytes it took.
    pub fn parse_prefix(text: &str) -> Result<(Json, usize), NotJson> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
        match values.next() {
            Some(Ok(value)) => Ok((value, values.byte_offset())),
            Some(Err(error)) => Err(NotJson::new(&error)),
            None => {
                Err(NotJson { cause: Cause::End, message: "nothing here".to_owned(), line: 1, column: 1 })
            }
        }
    }

    /// Anything that serialises, in the order of its fields.
    pub fn of<T: Serialize>(value: &T) -> Result<Json, NotJson> {
        let text = serde_json::to_string(value).map_err(|error| NotJson::new(&error))?;
        Json::parse(&text)
    }

    /// A value read out of this one.
    pub fn to<T: for<'de> Deserialize<'de>>(&self) -> Result<T, NotJson> {
        let text = serde_json::to_string(self).map_err(|error| NotJson::new(&error))?;
        serde_json::from_str(&text).map_err(|error| NotJson::new(&error))
    }

    /// An object of the given fields.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(Object(fields.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }

    /// A list of the given values.
    pub fn list<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json {
        Json::List(items.into_iter().map(Into::into).collect())
    }

    /// The field of an object; `None` for anything else.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.fields().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The fields of an object; none for anything else.
    pub fn fields(&self) -> &[(String, Json)] {
        match self {
            Json::Object(object) => &object.0,
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::Text(_)
            | Json::List(_) => &[],
        }
    }

    /// The fields of an object, taken out of it; none for anything else.
    pub fn into_fields(self) -> Vec<(String, Json)> {
        match self {
            Json::Object(object) => object.0,
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::Text(_)
            | Json::List(_) => Vec::new(),
        }
    }

    /// The values of a list; none for anything else.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::Text(_)
            | Json::Object(_) => &[],
        }
    }

    /// The text, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::List(_)
            | Json::Object(_) => None,
        }
    }

    /// The number, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Int(number) => Some(*number as f64),
            Json::Large(number) => Some(*number as f64),
            Json::Float(number) => Some(*number),
            Json::Null | Json::Bool(_) | Json::Text(_) | Json::List(_) | Json::Object(_) => None,
        }
    }

    /// The whole number, where it is one; `3.0` is.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Int(number) => Some(*number),
            Json::Float(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(*number as i64),
            Json::Null
            | Json::Bool(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::Text(_)
            | Json::List(_)
            | Json::Object(_) => None,
        }
    }

    /// The members, where it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Json::Object(object) => Some(object),
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::Text(_)
            | Json::List(_) => None,
        }
    }

    /// The values, where it is a list.
    pub fn as_list(&self) -> Option<&[Json]> {
        match self {
            Json::List(items) => Some(items),
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::Large(_)
            | Json::Float(_)
            | Json::Text(_)
            | Json::Object(_) => None,
        }
    }

    /// Whether it is nothing.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Json::Object(_))
    }

    /// Puts a field of an object: in place where the key is there, else last. Nothing happens to anything else.
    pub fn put(&mut self, key: &str, value: impl Into<Json>) {
        if let Json::Object(object) = self {
            object.set(key, value);
        }
    }

    /// What kind of value it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Int(_) | Json::Large(_) | Json::Float(_) => "a number",
            Json::Text(_) => "a string",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// The text of it with two-space indent, and no line end after it.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        write_pretty(&mut out, self, 0);
        out
    }

    /// The text of it on one line, with a space after each comma and colon.
    pub fn line(&self) -> String {
        let mut out = String::new();
        write_line(&mut out, self);
        out
    }

    /// The text of it without white space, as it is kept.
    pub fn compact(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Object {
    /// An object without members.
    pub fn new() -> Object {
        Object::default()
    }

    /// The member of that key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets a member; a new key goes last, a known one keeps its place.
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        let value = value.into();
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The same object with one more member.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Json>) -> Object {
        self.set(key, value);
        self
    }

    /// Takes a member away.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// The members in their order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(members: I) -> Object {
        Object(members.into_iter().collect())
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Json {
        Json::Object(object)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl From<&String> for Json {
    fn from(text: &String) -> Json {
        Json::Text(text.clone())
    }
}

impl From<bool> for Json {
    fn from(truth: bool) -> Json {
        Json::Bool(truth)
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json::Int(number)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        i64::try_from(number).map_or(Json::Large(number), Json::Int)
    }
}

impl From<usize> for Json {
    fn from(number: usize) -> Json {
        Json::from(number as u64)
    }
}

impl From<f64> for Json {
    /// What is no number becomes null.
    fn from(number: f64) -> Json {
        if number.is_finite() { Json::Float(number) } else { Json::Null }
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::List(items)
    }
}

impl From<Vec<String>> for Json {
    fn from(items: Vec<String>) -> Json {
        Json::list(items)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => to.serialize_unit(),
            Json::Bool(truth) => to.serialize_bool(*truth),
            Json::Int(number) => to.serialize_i64(*number),
            Json::Large(number) => to.serialize_u64(*number),
            Json::Float(number) => to.serialize_f64(*number),
            Json::Text(text) => to.serialize_str(text),
            Json::List(items) => {
                let mut list = to.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Json::Object(object) => object.serialize(to),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Json, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Json, E> {
        Ok(Json::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::from(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Json, E> {
        if number.is_finite() { Ok(Json::Float(number)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = from.next_key::<String>()? {
            let value = from.next_value::<Json>()?;
            fields.put(key, value);
        }
        Ok(Json::Object(Object(fields.list)))
    }
}

/// The fields of an object while it is read.
#[derive(Default)]
struct Fields {
    list: Vec<(String, Json)>,
    /// Filled once there are many.
    table: BTreeMap<String, usize>,
}

impl Fields {
    fn put(&mut self, key: String, value: Json) {
        if self.list.len() == FEW_KEYS && self.table.is_empty() {
            self.table = self.list.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
        }
        let found = match self.table.is_empty() {
            true => self.list.iter().position(|(name, _)| *name == key),
            false => self.table.get(&key).copied(),
        };
        match found.and_then(|at| self.list.get_mut(at)) {
            Some((_, old)) => *old = value,
            None => {
                if !self.table.is_empty() {
                    self.table.insert(key.clone(), self.list.len());
                }
                self.list.push((key, value));
            }
        }
    }
}

fn write_pretty(out: &mut String, value: &Json, depth: usize) {
    match value {
        Json::List(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                next_line(out, at, depth + 1);
                write_pretty(out, item, depth + 1);
            }
            next_line(out, 0, depth);
            out.push(']');
        }
        Json::Object(object) if !object.is_empty() => {
            out.push('{');
            for (at, (key, value)) in object.0.iter().enumerate() {
                next_line(out, at, depth + 1);
                write_text(out, key);
                out.push_str(": ");
                write_pretty(out, value, depth + 1);
            }
            next_line(out, 0, depth);
            out.push('}');
        }
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::Large(_)
        | Json::Float(_)
        | Json::Text(_)
        | Json::List(_)
        | Json::Object(_) => write_line(out, value),
    }
}

/// What lines are indented with.
const SPACES: &str = "                                ";

fn next_line(out: &mut String, at: usize, depth: usize) {
    out.push_str(if at == 0 { "\n" } else { ",\n" });
    let mut left = depth * 2;
    while left > 0 {
        let some = left.min(SPACES.len());
        out.push_str(&SPACES[..some]);
        left -= some;
    }
}

fn write_line(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Json::Int(number) => out.push_str(&number.to_string()),
        Json::Large(number) => out.push_str(&number.to_string()),
        Json::Float(number) => out.push_str(&float(*number)),
        Json::Text(text) => write_text(out, text),
        Json::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_line(out, item);
            }
            out.push(']');
        }
        Json::Object(object) => {
            out.push('{');
            for (at, (key, value)) in object.0.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_text(out, key);
                out.push_str(": ");
                write_line(out, value);
            }
            out.push('}');
        }
    }
}

/// A string in quotes; what is not printable ASCII is escaped, beyond the basic plane as a pair.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    // Nearly all of a text stands for itself, and goes over in whole pieces.
    let stands = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut rest = text;
    while let Some(at) = rest.as_bytes().iter().position(|byte| !stands(byte)) {
        out.push_str(&rest[..at]);
        let letter = rest[at..].chars().next().unwrap_or_default();
        rest = &rest[at + letter.len_utf8()..];
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push_str(rest);
    out.push('"');
}

/// A float with its shortest digits: plain from a ten-thousandth up to 10^16, else with an exponent of two digits.
pub fn float(number: f64) -> String {
    if !number.is_finite() {
        return "null".to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{number:?}");
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = exponent.strip_prefix('-').map_or(("+", exponent), |power| ("-", power));
    format!("{digits}e{sign}{power:0>2}")
}

/// A number rounded to some decimal places, as figures are shown.
pub fn rounded(number: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    (number * scale).round_ties_even() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_unknown_keys_stay() {
        let text = r#"{"z": 1, "a": [true, null, {"k": "v"}], "m": {}}"#;
        assert_eq!(Json::parse(text).unwrap().line(), text);
    }

    #[test]
    fn numbers_survive_as_they_are() {
        let text = r#"{"big":18446744073709551615,"small":-9223372036854775808,"float":1e+300}"#;
        let value = Json::parse(text).unwrap();
        assert_eq!(value.compact(), text);
        assert_eq!(Json::parse(&value.pretty()).unwrap(), value);
        assert_eq!(Json::of(&value).unwrap(), value);
        assert_eq!(value.get("big").and_then(Json::as_i64), None);
        assert_eq!(value.get("small").and_then(Json::as_i64), Some(i64::MIN));
    }

    #[test]
    fn members_are_set_in_place_and_taken_away() {
        let mut object = Object::new().with("a", 1_u64).with("b", "two").with("a", 3_u64);
        assert_eq!(Json::from(object.clone()).line(), r#"{"a": 3, "b": "two"}"#);
        assert_eq!((object.remove("a"), object.remove("a")), (Some(Json::Int(3)), None));
        assert_eq!(object.members().map(|(key, _)| key).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn pretty_has_two_spaces_and_escapes() {
        let value = Json::object([
            ("a", Json::list(["é", "😀", "\u{7f}\u{1}"])),
            ("b", Json::List(vec![])),
            ("c", Json::object([("d", Json::Float(0.5))])),
        ]);
        let expected = "{\n  \"a\": [\n    \"\\u00e9\",\n    \"\\ud83d\\ude00\",\n    \"\\u007f\\u0001\"\n  ],\n  \"b\": [],\n  \"c\": {\n    \"d\": 0.5\n  }\n}";
        assert_eq!(value.pretty(), expected);
        assert_eq!(Json::parse(&value.pretty()).unwrap(), value);
    }

    #[test]
    fn of_two_equal_keys_the_last_value_stands_at_the_first_place() {
        assert_eq!(Json::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap().line(), r#"{"a": 3, "b": 2}"#);
        let many: String = (0..100).map(|at| format!("\"k{}\":{at},", at % 40)).collect();
        let value = Json::parse(&format!("{{{many}\"end\":0}}")).unwrap();
        assert_eq!(value.fields().len(), 41);
        assert_eq!(value.get("k5"), Some(&Json::Int(85)));
    }

    #[test]
    fn floats_read_as_they_were_written() {
        let cases = [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (-2.5e-10, "-2.5e-10"),
        ];
        for (number, text) in cases {
            assert_eq!(float(number), text);
            assert_eq!(Json::parse(text).unwrap().as_f64(), Some(number));
        }
    }

    #[test]
    fn errors_have_a_place_and_depth_has_a_limit() {
        let error = Json::parse("{\n  \"a\": ,\n}").unwrap_err();
        assert_eq!((error.line, error.column), (2, 8));
        assert!(
            error.to_string().starts_with("not valid JSON at line 2, column 8: expected value"),
            "{error}"
        );
        let deep = "[".repeat(100_000);
        let error = Json::parse(&deep).unwrap_err();
        assert!(error.message.contains("recursion limit"));
        assert_eq!(error.cause, Cause::Depth);
        assert_eq!(Json::parse("{\"a\": \"b").unwrap_err().cause, Cause::End);
        assert_eq!(Json::parse("{a}").unwrap_err().cause, Cause::Syntax);
    }

    #[test]
    fn a_prefix_tells_where_it_ends() {
        let (value, end) = Json::parse_prefix("{\"a\": \"}\"} and more").unwrap();
        assert_eq!((value.line().as_str(), end), ("{\"a\": \"}\"}", 10));
        assert!(Json::parse_prefix("{a}").is_err());
        assert!(Json::parse_prefix("").is_err());
    }

    #[test]
    fn figures_round_as_shown() {
        let cases =
            [(0.125, 2, 0.12), (0.855, 2, 0.86), (0.8549, 2, 0.85), (1.0, 2, 1.0), (0.3335, 3, 0.334)];
        for (number, places, expected) in cases {
            assert!((rounded(number, places) - expected).abs() < 1e-9, "{number}");
        }
    }
}
