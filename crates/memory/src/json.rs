//! JSON whose objects keep the order of their keys, as the original's files do.
//!
//! Lessons are kept and given back with every key they came with, known or not, in its place. The
//! JSON type of `serde_json` sorts keys and is never used for what is stored or shown.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Number;

/// Any JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, whole or not.
    Number(Number),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(Object),
}

/// The members of an object, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Vec<(String, Json)>);

impl Json {
    /// Reads one JSON value; the message of an error says line and column.
    pub fn parse(text: &str) -> Result<Json, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// What kind of value this is, in words for messages.
    pub fn what(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "true or false",
            Json::Number(_) => "a number",
            Json::Text(_) => "text",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// The text, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::List(_) | Json::Object(_) => None,
        }
    }

    /// The number, if it is a finite number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => number.as_f64().filter(|number| number.is_finite()),
            Json::Null | Json::Bool(_) | Json::Text(_) | Json::List(_) | Json::Object(_) => None,
        }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Json::Object(object) => Some(object),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => None,
        }
    }

    /// The elements, if it is a list.
    pub fn as_list(&self) -> Option<&[Json]> {
        match self {
            Json::List(list) => Some(list),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::Object(_) => None,
        }
    }

    /// On one line, without white space.
    pub fn compact(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As the original prints: two spaces of indent, everything beyond ASCII escaped.
    pub fn pretty(&self) -> String {
        escape(&serde_json::to_string_pretty(self).unwrap_or_default())
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

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        Json::Number(number.into())
    }
}

impl From<usize> for Json {
    fn from(number: usize) -> Json {
        Json::Number((number as u64).into())
    }
}

impl From<f64> for Json {
    /// A number that JSON cannot say becomes `null`.
    fn from(number: f64) -> Json {
        Number::from_f64(number).map_or(Json::Null, Json::Number)
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Json {
        Json::Object(object)
    }
}

impl From<Vec<Json>> for Json {
    fn from(list: Vec<Json>) -> Json {
        Json::List(list)
    }
}

impl From<Vec<String>> for Json {
    fn from(list: Vec<String>) -> Json {
        Json::List(list.into_iter().map(Json::Text).collect())
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() && letter != '\u{7f}' {
            out.push(letter);
        } else {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => to.serialize_unit(),
            Json::Bool(value) => to.serialize_bool(*value),
            Json::Number(number) => number.serialize(to),
            Json::Text(text) => to.serialize_str(text),
            Json::List(list) => to.collect_seq(list),
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

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut object = Object::new();
        while let Some((key, value)) = from.next_entry::<String, Json>()? {
            object.set(&key, value);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_values_survive_the_round_trip() {
        for text in [
            r#"{"z":1,"a":{"y":[],"b":{}},"m":[null,true,-3,1.5,"ü"]}"#,
            r#"{"big":18446744073709551615,"small":-9223372036854775808,"float":1e300}"#,
        ] {
            assert_eq!(Json::parse(text).unwrap().compact(), text.replace("1e300", "1e+300"));
        }
    }

    #[test]
    fn pretty_is_what_the_original_prints() {
        let json = Json::parse(r#"{"b":[],"a":"→ 😀\n"}"#).unwrap();
        assert_eq!(json.pretty(), "{\n  \"b\": [],\n  \"a\": \"\\u2192 \\ud83d\\ude00\\n\"\n}");
    }

    #[test]
    fn a_key_given_twice_has_its_last_value_and_its_first_place() {
        assert_eq!(Json::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap().compact(), r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn nesting_is_bounded_and_errors_say_where() {
        assert!(Json::parse(&"[".repeat(1000)).unwrap_err().contains("recursion"));
        assert!(Json::parse("{\n\"a\": }").unwrap_err().contains("line 2"));
    }
}
