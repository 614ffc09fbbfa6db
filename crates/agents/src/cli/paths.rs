//! Where something stands in an event: `message.content.0.text`, and what must hold of it.
//!
//! A path is the names of fields and the numbers of items with dots between them; a negative number counts
//! from the end, and `*` is every item. What is not there is nothing, never an error: events of a program
//! change from one version to the next.

use std::fmt;

use serde_json::Value as Json;

/// How many parts a path may have.
pub const MAX_PARTS: usize = 16;

/// How many values one path with `*` may find.
pub const MAX_FOUND: usize = 1024;

/// A path to a value in an event: names with dots between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At(Vec<String>);

/// A text that is no path to a place in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError(String);

impl fmt::Display for PathError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is no path: names with dots between them, {MAX_PARTS} at most", self.0)
    }
}

impl std::error::Error for PathError {}

impl At {
    /// Reads a path such as `message.content.*.text`.
    pub fn parse(text: &str) -> Result<At, PathError> {
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) || parts.len() > MAX_PARTS {
            return Err(PathError(text.to_owned()));
        }
        Ok(At(parts))
    }

    /// The first value at the path.
    pub fn of<'a>(&self, json: &'a Json) -> Option<&'a Json> {
        self.all(json).into_iter().next()
    }

    /// The first value at the path, if it is a text.
    pub fn text<'a>(&self, json: &'a Json) -> Option<&'a str> {
        self.of(json).and_then(Json::as_str)
    }

    /// All values at the path; more than one only where the path has a `*`.
    pub fn all<'a>(&self, json: &'a Json) -> Vec<&'a Json> {
        let mut found = vec![json];
        for part in &self.0 {
            let next = found.into_iter().flat_map(|json| step(json, part)).take(MAX_FOUND);
            found = next.collect();
        }
        found
    }
}

fn step<'a>(json: &'a Json, part: &str) -> Vec<&'a Json> {
    match json {
        Json::Object(fields) if part == "*" => fields.values().collect(),
        Json::Object(fields) => fields.get(part).into_iter().collect(),
        Json::Array(items) if part == "*" => items.iter().collect(),
        Json::Array(items) => number(part, items.len()).and_then(|at| items.get(at)).into_iter().collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    }
}

/// The item that a number names; `-1` is the last one.
fn number(part: &str, length: usize) -> Option<usize> {
    match part.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse().ok().filter(|back| *back > 0)?),
        None => part.parse().ok(),
    }
}

/// What must hold of an event: at each path one of these values, or anything at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holds(Vec<(At, Vec<Json>)>);

impl Holds {
    /// Adds that one of these values stands at a path.
    pub fn and(&mut self, at: At, values: Vec<Json>) {
        self.0.push((at, values));
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it holds. `"*"` stands for whatever is there and is not null.
    pub fn of(&self, json: &Json) -> bool {
        self.0.iter().all(|(at, values)| {
            let found = at.of(json);
            let fits = |value: &Json| match value {
                Json::String(word) if word == "*" => found.is_some_and(|one| !one.is_null()),
                value => found == Some(value),
            };
            values.iter().any(fits)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_what_stands_there() {
        let event = json!({ "a": { "b": [{ "c": 1 }, { "c": 2 }, { "d": null }] }, "": 3 });
        let all = |path: &str| {
            let found: Vec<String> =
                At::parse(path).unwrap().all(&event).iter().map(ToString::to_string).collect();
            found.join(" ")
        };
        assert_eq!((all("a.b.0.c").as_str(), all("a.b.-2.c").as_str()), ("1", "2"));
        assert_eq!((all("a.b.*.c").as_str(), all("a.*.0.c").as_str()), ("1 2", "1"));
        for nothing in
            ["a.b.3", "a.b.-4", "a.b.-0", "a.b.x", "a.c", "a.b.0.c.d", "b", "a.b.99999999999999999999"]
        {
            assert_eq!(all(nothing), "", "{nothing}");
        }
        for wrong in ["", ".", "a..b", &vec!["a"; MAX_PARTS + 1].join(".")] {
            assert!(At::parse(wrong).unwrap_err().to_string().contains("is no path"), "{wrong}");
        }
    }

    #[test]
    fn a_star_finds_so_many_and_no_more() {
        let many = json!(vec![0; MAX_FOUND + 1]);
        assert_eq!(At::parse("*").unwrap().all(&many).len(), MAX_FOUND);
    }

    #[test]
    fn what_must_hold_is_compared_with_what_is_there() {
        let event = json!({ "type": "x", "bad": false, "none": null });
        let holds = |path: &str, values: Vec<Json>| {
            let mut holds = Holds::default();
            holds.and(At::parse(path).unwrap(), values);
            holds.of(&event)
        };
        assert!(holds("type", vec![json!("y"), json!("x")]) && holds("bad", vec![json!(false)]));
        assert!(holds("type", vec![json!("*")]) && !holds("none", vec![json!("*")]));
        assert!(!holds("type", vec![json!("y")]) && !holds("gone", vec![json!(false)]));
        assert!(Holds::default().of(&event) && Holds::default().is_empty());
    }
}
