//! One lesson: a failure with its fix, or a pattern with its insight.
//!
//! A lesson is the JSON object it came as, with typed looks into it. Unknown keys stay where they are.
//! [`Lesson::read`] refuses what the rest could not understand, so that no function below checks again.

use crate::error::Error;
use crate::scoring::LessonUse;
use crate::time::Now;
pub use ftl_core::catalogue::spec::LessonKind as StoredKind;
use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};

/// A lesson longer than this, as JSON, is refused.
pub const MAX_BYTES: usize = 64 * 1024;

/// The fix of a failure for which none is known yet.
pub const UNKNOWN: &str = "UNKNOWN";

/// Why a lesson is not given to agents any more; missing or null for one that is.
pub(crate) const RETIRED: &str = "retired";

/// How long a name made from a trigger is.
const NAME_CHARS: usize = 40;

/// What the store and `memory.json` call the lessons of a kind.
pub(crate) trait Keys {
    /// The key of its list in `memory.json`.
    fn list(self) -> &'static str;
    /// Its number in the store.
    fn number(self) -> i64;
    /// The key of what helps.
    fn remedy(self) -> &'static str;
    /// The key of what it is time.
    fn value(self) -> &'static str;
}

impl Keys for StoredKind {
    fn list(self) -> &'static str {
        match self {
            StoredKind::Failure => "failures",
            StoredKind::Pattern => "patterns",
        }
    }

    fn number(self) -> i64 {
        match self {
            StoredKind::Failure => 1,
            StoredKind::Pattern => 2,
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            StoredKind::Failure => "fix",
            StoredKind::Pattern => "insight",
        }
    }

    fn value(self) -> &'static str {
        match self {
            StoredKind::Failure => "cost",
            StoredKind::Pattern => "saved",
        }
    }
}

/// A lesson that can be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    kind: StoredKind,
    body: Object,
}

impl Lesson {
    /// Takes a JSON object for a lesson. `path` is where it stands in what came in, for messages.
    pub fn read(kind: StoredKind, json: Json, path: &str) -> Result<Lesson, Error> {
        let what = json.kind();
        let Json::Object(body) = json else {
            let said = format!("expected an object, found {what}");
            return Err(Error::refuse(path, said, "give one JSON object with at least a trigger"));
        };
        let lesson = Lesson { kind, body };
        lesson.check(path)?;
        Ok(lesson)
    }

    /// A lesson as the store holds it; it was checked when it came in.
    pub(crate) fn stored(kind: StoredKind, id: i64, body: &str) -> Result<Lesson, Error> {
        match Json::parse(body) {
            Ok(Json::Object(body)) => Ok(Lesson { kind, body }),
            Ok(other) => Err(Error::Damaged { id, what: format!("it is {}", other.kind()) }),
            Err(error) => Err(Error::Damaged { id, what: error.to_string() }),
        }
    }

    /// Sets every field that is missing, as a new lesson has it.
    pub fn complete(&mut self, now: &Now) {
        if self.name().is_empty() {
            let name = slug(self.trigger());
            self.body.set("name", if name.is_empty() { "lesson".to_owned() } else { name });
        }
        let remedy: Json = match self.kind {
            StoredKind::Failure => UNKNOWN.into(),
            StoredKind::Pattern => "".into(),
        };
        self.fill(self.kind.remedy(), remedy);
        if self.kind == StoredKind::Failure {
            self.fill("match", "");
        }
        self.fill(self.kind.value(), 0_u64);
        self.fill("source", Json::Array(Vec::new()));
        self.fill("created_at", now.local.as_str());
        self.fill("access_count", 0_u64);
        self.fill("times_helped", 0_u64);
        self.fill("times_failed", 0_u64);
        self.fill("related", Json::Array(Vec::new()));
    }

    /// Whether it is a failure or a pattern.
    pub fn kind(&self) -> StoredKind {
        self.kind
    }

    /// The members of its JSON object.
    pub fn body(&self) -> &Object {
        &self.body
    }

    /// It as the JSON it came as.
    pub fn into_json(self) -> Json {
        Json::Object(self.body)
    }

    /// Its name, which no other lesson of its kind has.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// The situation or the error text that it is about.
    pub fn trigger(&self) -> &str {
        self.text("trigger")
    }

    /// The fix of a failure, the insight of a pattern.
    pub fn remedy(&self) -> &str {
        self.text(self.kind.remedy())
    }

    /// Whether a fix or an insight is known.
    pub fn has_remedy(&self) -> bool {
        let remedy = self.remedy().trim();
        !remedy.is_empty() && !remedy.eq_ignore_ascii_case(UNKNOWN)
    }

    /// Whether it is kept and shown, and not given to agents any more.
    pub fn is_retired(&self) -> bool {
        !self.text(RETIRED).is_empty()
    }

    /// The regular expression of a failure; empty if it has none.
    pub fn matcher(&self) -> &str {
        self.text("match")
    }

    /// Cost of a failure, or what a pattern saved; never below zero.
    pub fn value(&self) -> f64 {
        self.body.get(self.kind.value()).and_then(Json::as_f64).unwrap_or(0.0).max(0.0)
    }

    /// The texts in a list such as `tags`, `source` or `related`.
    pub fn texts(&self, key: &str) -> Vec<String> {
        texts(self.body.get(key))
    }

    /// The texts below a key of an object such as `related_typed`.
    pub fn texts_below(&self, key: &str, below: &str) -> Vec<String> {
        texts(self.body.get(key).and_then(Json::as_object).and_then(|object| object.get(below)))
    }

    /// The keys of an object such as `cross_relationships`.
    pub fn keys_below(&self, key: &str) -> Vec<String> {
        let object = self.body.get(key).and_then(Json::as_object);
        object.map(|object| object.iter().map(|(key, _)| key.to_owned()).collect()).unwrap_or_default()
    }

    /// A counter such as `access_count`.
    pub fn count(&self, key: &str) -> u64 {
        self.body.get(key).and_then(Json::as_f64).map_or(0, |number| number.max(0.0) as u64)
    }

    /// The figures that the formulas of `scoring` use.
    pub fn lesson_use(&self, now: &Now) -> LessonUse {
        LessonUse {
            value: self.value(),
            days: now.days_since(self.text("created_at")),
            access: self.count("access_count"),
            helped: self.count("times_helped"),
            failed: self.count("times_failed"),
        }
    }

    /// Everything but the trigger that can be searched.
    pub fn rest(&self) -> String {
        let remedy = if self.has_remedy() { self.remedy() } else { "" };
        [remedy, self.name(), &self.texts("tags").join(" "), &crate::expression::literals(self.matcher())]
            .join(" ")
    }

    /// Every text in it that an agent may come to read, joined by lines.
    pub fn readable(&self) -> String {
        let mut out = String::new();
        self.body.iter().for_each(|(key, value)| gather(key, value, &mut out));
        out
    }

    pub(crate) fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.body.set(key, value);
    }

    /// Sets a list below a key of an object, and takes the key away with its last text.
    pub(crate) fn set_below(&mut self, key: &str, below: &str, list: Vec<String>) {
        let mut object = self.body.get(key).and_then(Json::as_object).cloned().unwrap_or_default();
        if list.is_empty() {
            object.shift_remove(below);
        } else {
            object.set(below, list);
        }
        self.body.set(key, object);
    }

    /// Adds the texts that a list does not hold yet; tells whether it grew.
    pub(crate) fn unite(&mut self, key: &str, more: Vec<String>) -> bool {
        let mut list = self.texts(key);
        let before = list.len();
        for text in more {
            if !list.contains(&text) {
                list.push(text);
            }
        }
        let grew = list.len() > before;
        if grew {
            self.body.set(key, list);
        }
        grew
    }

    /// Adds one to a counter.
    pub(crate) fn count_up(&mut self, key: &str) {
        self.body.set(key, self.count(key).saturating_add(1));
    }

    pub(crate) fn set_value(&mut self, value: Json) {
        self.body.set(self.kind.value(), value);
    }

    pub(crate) fn value_json(&self) -> Option<&Json> {
        self.body.get(self.kind.value())
    }

    pub(crate) fn set_remedy(&mut self, text: &str) {
        self.body.set(self.kind.remedy(), text);
    }

    fn text(&self, key: &str) -> &str {
        self.body.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    fn fill(&mut self, key: &str, value: impl Into<Json>) {
        if matches!(self.body.get(key), None | Some(Json::Null)) {
            self.body.set(key, value);
        }
    }

    fn check(&self, path: &str) -> Result<(), Error> {
        let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        for (key, value) in self.body.iter() {
            if let Some(what) = wrong(key, value) {
                return Err(Error::refuse(at(key), what, "correct this field and try again"));
            }
        }
        if self.trigger().trim().is_empty() {
            return Err(Error::refuse(at("trigger"), "is missing or empty", "say when the lesson applies"));
        }
        if Json::Object(self.body.clone()).to_string().len() > MAX_BYTES {
            let what = format!("is longer than {MAX_BYTES} bytes");
            return Err(Error::refuse(path, what, "keep a lesson short; put long logs elsewhere"));
        }
        Ok(())
    }
}

/// Lower case, letters and digits joined by dashes, cut at forty.
pub fn slug(text: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric();
    let lower = text.to_lowercase();
    let spaced: String = lower.chars().filter(|c| kept(*c) || *c == '-' || c.is_whitespace()).collect();
    let parts: Vec<&str> = spaced.split(|c: char| !kept(c)).filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(NAME_CHARS).collect::<String>().trim_matches('-').to_owned()
}

/// What is wrong with a known field; nothing is known of the others.
fn wrong(key: &str, value: &Json) -> Option<String> {
    let is_texts = |value: &Json| matches!(value.as_array(), Some(list) if list.iter().all(|item| item.as_str().is_some()));
    let (fits, wanted) = match key {
        "name" | "trigger" | "fix" | "insight" | "match" => (value.as_str().is_some(), "text"),
        "cost" | "saved" | "access_count" | "times_helped" | "times_failed" => {
            (value.as_f64().is_some(), "a number")
        }
        "source" | "tags" | "related" => (is_texts(value), "a list of texts"),
        "related_typed" | "cross_relationships" => {
            let fits = value.as_object().is_some_and(|object| object.iter().all(|(_, list)| is_texts(list)));
            (fits, "an object of lists of texts")
        }
        _ => (true, ""),
    };
    let is_fine = fits || (*value == Json::Null && key != "trigger");
    (!is_fine).then(|| format!("expected {wanted}, found {}", value.kind()))
}

fn texts(value: Option<&Json>) -> Vec<String> {
    let list = value.map(Json::items).unwrap_or_default();
    list.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}

/// Keys are read too, with their texts: a secret is often told by its key.
fn gather(key: &str, value: &Json, out: &mut String) {
    match value {
        Json::String(text) => out.extend([key, ": ", text, "\n"]),
        Json::Array(list) => list.iter().for_each(|item| gather(key, item, out)),
        Json::Object(object) => object.iter().for_each(|(key, value)| gather(key, value, out)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Now {
        Now { local: "2026-03-01T12:00:00.000000".to_owned(), ms: 0 }
    }

    fn read(text: &str) -> Result<Lesson, Error> {
        Lesson::read(StoredKind::Failure, Json::parse(text).unwrap(), "failures[0]")
    }

    #[test]
    fn what_cannot_be_a_lesson_is_refused_with_its_path() {
        let table = r#"
            []                                        | failures[0]: expected an object, found a list
            {}                                        | failures[0].trigger: is missing or empty
            {"trigger": "  "}                         | failures[0].trigger: is missing or empty
            {"trigger": 3}                            | failures[0].trigger: expected text, found a number
            {"trigger": "x", "cost": "9"}             | failures[0].cost: expected a number, found a string
            {"trigger": "x", "tags": ["a", 1]}        | failures[0].tags: expected a list of texts, found a list
            {"trigger": "x", "related_typed": {"a":1}} | failures[0].related_typed: expected an object of lists of texts, found an object
        "#;
        for line in table.lines().filter(|line| line.contains('|')) {
            let (json, wanted) = line.split_once('|').unwrap();
            assert_eq!(read(json).unwrap_err().to_string(), wanted.trim());
        }
        let long = format!("{{\"trigger\":\"{}\"}}", "x".repeat(MAX_BYTES));
        assert!(read(&long).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn a_new_lesson_is_complete_and_keeps_its_order() {
        let mut lesson =
            read(r#"{"zebra": [1], "trigger": "Build FAILED: no disk!", "cost": null}"#).unwrap();
        lesson.complete(&now());
        let wanted = concat!(
            r#"{"zebra":[1],"trigger":"Build FAILED: no disk!","cost":0,"name":"build-failed-no-disk","fix":"UNKNOWN","#,
            r#""match":"","source":[],"created_at":"2026-03-01T12:00:00.000000","access_count":0,"times_helped":0,"#,
            r#""times_failed":0,"related":[]}"#
        );
        assert_eq!(lesson.into_json().to_string(), wanted);
    }

    #[test]
    fn slugs() {
        assert_eq!(slug("  It's -- broken: E0382 (again)\n"), "its-broken-e0382-again");
        assert_eq!(slug("Ü?!"), "");
        assert_eq!(slug(&"ab ".repeat(30)).len(), 38 + 2);
    }

    #[test]
    fn strange_numbers_count_as_nothing() {
        let lesson = read(r#"{"trigger":"x","cost":-5,"times_helped":-1,"access_count":2.9}"#).unwrap();
        assert_eq!((lesson.value(), lesson.count("times_helped"), lesson.count("access_count")), (0.0, 0, 2));
    }
}
