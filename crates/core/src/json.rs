//! JSON as it is read, shown and kept: that of `serde_json`, with the keys of an object in the order they were put.
//!
//! The workspace manifest names `preserve_order`, so every build keeps the order; of two equal keys in a text the
//! last value stands, at the place of the first. [`Json`] and [`Object`] are `serde_json`'s own types by other names,
//! because a [`Value`](crate::value::Value) is what variables of a protocol hold. Ours are the text for people (two
//! spaces, everything beyond ASCII escaped), the place of an error, and a few accessors. The text that is stored is
//! that of `to_string`. `Map::remove` puts the last key in the place of the removed one: take `shift_remove`.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// A JSON value whose objects keep their order.
pub use serde_json::Value as Json;

/// The members of an object, in the order in which they were put.
pub type Object = serde_json::Map<String, Json>;

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonCause {
    /// Something stands where it cannot stand.
    Syntax,
    /// The text ends in the middle of a value.
    End,
    /// Arrays and objects are nested too deep.
    Depth,
}

/// A text that is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The kind of mistake.
    pub cause: JsonCause,
    /// The mistake in words.
    pub message: String,
    /// On which line, counted from one.
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

impl From<serde_json::Error> for NotJson {
    fn from(error: serde_json::Error) -> NotJson {
        let full = error.to_string();
        let message = full.rsplit_once(" at line ").map_or(full.as_str(), |(message, _)| message).to_owned();
        let cause = match message.starts_with("recursion limit") {
            true => JsonCause::Depth,
            false if error.is_eof() => JsonCause::End,
            false => JsonCause::Syntax,
        };
        NotJson { cause, message, line: error.line(), column: error.column() }
    }
}

/// What `serde_json` lacks for a value.
pub trait JsonExt: Sized {
    /// Reads a whole text.
    fn parse(text: &str) -> Result<Self, NotJson>;
    /// Reads the value that a text starts with, and tells how many bytes it took.
    fn parse_prefix(text: &str) -> Result<(Self, usize), NotJson>;
    /// An object of the given fields.
    fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Json)>) -> Json;
    /// A list of the given values.
    fn list<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json;
    /// The fields of an object; none for anything else.
    fn fields(&self) -> impl Iterator<Item = (&String, &Json)>;
    /// The fields of an object, taken out of it; none for anything else.
    fn into_fields(self) -> Object;
    /// The values of a list; none for anything else.
    fn items(&self) -> &[Json];
    /// The whole number, where it is one; unlike for `as_i64`, `3.0` is.
    fn as_whole(&self) -> Option<i64>;
    /// Puts a field of an object: in place where the key is there, else last. Nothing happens to anything else.
    fn put(&mut self, key: &str, value: impl Into<Json>);
    /// What kind of value it is, in a word.
    fn kind(&self) -> &'static str;
    /// The text of it with two-space indent, and no line end after it.
    fn pretty(&self) -> String;
    /// The text of it on one line, with a space after each comma and colon.
    fn line(&self) -> String;
}

impl JsonExt for Json {
    fn parse(text: &str) -> Result<Json, NotJson> {
        Ok(serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))?)
    }

    fn parse_prefix(text: &str) -> Result<(Json, usize), NotJson> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        let nothing =
            || NotJson { cause: JsonCause::End, message: "nothing here".to_owned(), line: 1, column: 1 };
        let value = values.next().ok_or_else(nothing)??;
        Ok((value, values.byte_offset()))
    }

    fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Json)>) -> Json {
        fields.into_iter().collect()
    }

    fn list<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json {
        items.into_iter().collect()
    }

    fn fields(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.as_object().into_iter().flatten()
    }

    fn into_fields(self) -> Object {
        if let Json::Object(fields) = self { fields } else { Object::new() }
    }

    fn items(&self) -> &[Json] {
        self.as_array().map_or(&[], Vec::as_slice)
    }

    fn as_whole(&self) -> Option<i64> {
        let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() < 9.0e15;
        let whole = || self.as_f64().filter(|number| self.is_f64() && is_whole(number));
        self.as_i64().or_else(|| whole().map(|number| number as i64))
    }

    fn put(&mut self, key: &str, value: impl Into<Json>) {
        if let Json::Object(object) = self {
            object.set(key, value);
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    fn pretty(&self) -> String {
        pretty(self).unwrap_or_default()
    }

    fn line(&self) -> String {
        print(self, Layout::default()).unwrap_or_default()
    }
}

/// What `serde_json` lacks for an object.
pub trait ObjectExt {
    /// Sets a member; a new key goes last, a known one keeps its place.
    fn set(&mut self, key: &str, value: impl Into<Json>);
    /// The same object with one more member.
    #[must_use]
    fn with(self, key: &str, value: impl Into<Json>) -> Self;
}

impl ObjectExt for Object {
    fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.insert(key.to_owned(), value.into());
    }

    fn with(mut self, key: &str, value: impl Into<Json>) -> Object {
        self.set(key, value);
        self
    }
}

/// The text of anything for people, with two-space indent and no line end after it.
pub fn pretty<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    print(value, Layout { depth: Some(0), is_filled: false })
}

fn print<T: Serialize>(value: &T, layout: Layout) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, layout))?;
    String::from_utf8(out).map_err(|error| serde_json::Error::io(io::Error::other(error)))
}

/// How a text for people is laid out.
#[derive(Default)]
struct Layout {
    /// How deep it is indented; nothing on a single line.
    depth: Option<usize>,
    /// Whether the list or object that ends next holds anything.
    is_filled: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.map(|depth| depth + 1);
        self.is_filled = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.map(|depth| depth - 1);
        if self.is_filled {
            self.break_line(out, b"")?;
        }
        self.is_filled = true;
        out.write_all(bracket)
    }

    fn separate<W: ?Sized + Write>(&self, out: &mut W, is_first: bool) -> io::Result<()> {
        match (is_first, self.depth) {
            (true, _) => self.break_line(out, b""),
            (false, Some(_)) => self.break_line(out, b","),
            (false, None) => out.write_all(b", "),
        }
    }

    fn break_line<W: ?Sized + Write>(&self, out: &mut W, comma: &[u8]) -> io::Result<()> {
        let Some(depth) = self.depth else { return Ok(()) };
        out.write_all(comma)?;
        out.write_all(b"\n")?;
        (0..depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.separate(out, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.separate(out, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_filled = true;
        Ok(())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        out.write_all(float(number).as_bytes())
    }

    /// What is not printable ASCII is escaped, beyond the basic plane as a pair.
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        // Nearly all of a text stands for itself, and goes over in whole pieces.
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|byte| !matches!(byte, b' '..=b'~')) {
            let (plain, other) = rest.split_at(at);
            let letter = other.chars().next().unwrap_or_default();
            out.write_all(plain.as_bytes())?;
            letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            rest = &other[letter.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
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
    fn members_are_put_in_place_and_taken_away() {
        let mut object = Object::new().with("a", 1_u64).with("b", "two").with("c", true).with("a", 3_u64);
        assert_eq!(Json::from(object.clone()).line(), r#"{"a": 3, "b": "two", "c": true}"#);
        assert_eq!((object.shift_remove("a"), object.shift_remove("a")), (Some(Json::from(3)), None));
        assert_eq!(object.keys().collect::<Vec<_>>(), ["b", "c"]);
        let mut json = Json::from(object);
        json.put("b", Json::Null);
        assert_eq!((json.to_string().as_str(), json.fields().count()), (r#"{"b":null,"c":true}"#, 2));
        assert_eq!((Json::Null.fields().count(), Json::Null.into_fields().len()), (0, 0));
    }

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        let cases = [
            ("3", Some(3)),
            ("3.0", Some(3)),
            ("-0.0", Some(0)),
            ("3.5", None),
            ("9e15", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("\"3\"", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(Json::parse(text).unwrap().as_whole(), wanted, "{text}");
        }
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
