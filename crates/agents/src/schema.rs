//! JSON schemas: the subset that the catalogue writes, checked with all faults at once.
//!
//! A schema that uses a word which is not known here is refused when it is made, so that nothing passes
//! only because its word was overlooked. It never changes a value and never fills anything in.

use std::fmt;

use serde_json::{Map, Value as Json};

/// How many faults are told.
pub const MAX_FAULTS: usize = 20;

/// How deep a schema may be.
const MAX_DEPTH: usize = 32;

/// Words that say something about a schema and ask nothing of a value.
const NOTES: [&str; 5] = ["$schema", "title", "description", "default", "examples"];

/// Words that are checked.
const RULES: [&str; 13] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "minimum",
    "maximum",
    "anyOf",
];

/// A schema of which every word is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema(Json);

/// Why something is no schema that can be checked here.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaError {
    /// It is neither an object nor a yes or no.
    NoSchema(Json),
    /// It is nested too deep.
    Deep,
    /// It has a word that is not checked here.
    UnknownWord(String),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::NoSchema(other) => write!(out, "{other} is no schema"),
            SchemaError::Deep => write!(out, "the schema is deeper than {MAX_DEPTH}"),
            SchemaError::UnknownWord(word) => write!(out, "the word `{word}` of the schema is not known"),
        }
    }
}

impl std::error::Error for SchemaError {}

impl Schema {
    /// Takes a schema, unless it has a word that is not checked here.
    pub fn new(schema: Json) -> Result<Schema, SchemaError> {
        is_known(&schema, 0)?;
        Ok(Schema(schema))
    }

    /// A schema that takes everything.
    pub fn anything() -> Schema {
        Schema(Json::Object(Map::new()))
    }

    /// The schema as JSON.
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// Everything that is wrong with a value, one line each, the first few.
    pub fn faults(&self, value: &Json) -> Vec<String> {
        let mut faults = Vec::new();
        check(&self.0, value, "answer", &mut faults);
        let more = faults.len().saturating_sub(MAX_FAULTS);
        faults.truncate(MAX_FAULTS);
        if more > 0 {
            faults.push(format!("- and {more} more"));
        }
        faults
    }
}

fn is_known(schema: &Json, depth: usize) -> Result<(), SchemaError> {
    let Json::Object(words) = schema else {
        return match schema {
            Json::Bool(_) => Ok(()),
            other => Err(SchemaError::NoSchema(other.clone())),
        };
    };
    if depth > MAX_DEPTH {
        return Err(SchemaError::Deep);
    }
    for (word, body) in words {
        match word.as_str() {
            "properties" => {
                for below in body.as_object().into_iter().flat_map(Map::values) {
                    is_known(below, depth + 1)?;
                }
            }
            "items" | "additionalProperties" => is_known(body, depth + 1)?,
            "anyOf" => {
                for below in body.as_array().into_iter().flatten() {
                    is_known(below, depth + 1)?;
                }
            }
            word if NOTES.contains(&word) || RULES.contains(&word) => {}
            word => return Err(SchemaError::UnknownWord(word.to_owned())),
        }
    }
    Ok(())
}

fn check(schema: &Json, value: &Json, path: &str, faults: &mut Vec<String>) {
    let words = match schema {
        Json::Object(words) => words,
        Json::Bool(false) => return faults.push(format!("- {path}: must not be there")),
        _ => return,
    };
    if let Some(ty) = words.get("type")
        && !types(ty).iter().any(|ty| is_of(ty, value))
    {
        return faults.push(format!("- {path}: is {}, not {}", kind(value), types(ty).join(" or ")));
    }
    check_closed(words, value, path, faults);
    numbers(words, value, path, faults);
    if let Some(ways) = words.get("anyOf").and_then(Json::as_array) {
        any_of(ways, value, path, faults);
    }
    match value {
        Json::Object(fields) => record(words, fields, path, faults),
        Json::Array(items) => list(words, items, path, faults),
        Json::String(text) => {
            let least = words.get("minLength").and_then(Json::as_u64).unwrap_or(0);
            if (text.chars().count() as u64) < least {
                faults.push(format!("- {path}: is shorter than {least}"));
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn check_closed(words: &Map<String, Json>, value: &Json, path: &str, faults: &mut Vec<String>) {
    if let Some(allowed) = words.get("enum").and_then(Json::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Json::to_string).collect();
        faults.push(format!("- {path}: is {}, not one of {}", short(value), allowed.join(", ")));
    }
    if let Some(only) = words.get("const").filter(|only| *only != value) {
        faults.push(format!("- {path}: is {}, not {only}", short(value)));
    }
}

fn numbers(words: &Map<String, Json>, value: &Json, path: &str, faults: &mut Vec<String>) {
    let Some(number) = value.as_f64() else { return };
    let bound = |word: &str| words.get(word).and_then(Json::as_f64);
    if let Some(least) = bound("minimum").filter(|least| number < *least) {
        faults.push(format!("- {path}: is {number}, less than {least}"));
    }
    if let Some(most) = bound("maximum").filter(|most| number > *most) {
        faults.push(format!("- {path}: is {number}, more than {most}"));
    }
}

fn any_of(ways: &[Json], value: &Json, path: &str, faults: &mut Vec<String>) {
    let fits = |way: &Json| {
        let mut own = Vec::new();
        check(way, value, path, &mut own);
        own.is_empty()
    };
    if !ways.iter().any(fits) {
        faults.push(format!("- {path}: fits none of the {} ways it may look", ways.len()));
    }
}

fn record(words: &Map<String, Json>, fields: &Map<String, Json>, path: &str, faults: &mut Vec<String>) {
    for name in words.get("required").and_then(Json::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !fields.contains_key(name) {
            faults.push(format!("- {path}.{name}: is missing"));
        }
    }
    let known = words.get("properties").and_then(Json::as_object);
    for (name, value) in fields {
        let below = known.and_then(|known| known.get(name)).or_else(|| words.get("additionalProperties"));
        if let Some(schema) = below {
            check(schema, value, &format!("{path}.{name}"), faults);
        }
    }
}

fn list(words: &Map<String, Json>, items: &[Json], path: &str, faults: &mut Vec<String>) {
    let bound = |word: &str| words.get(word).and_then(Json::as_u64);
    let len = items.len() as u64;
    if let Some(least) = bound("minItems").filter(|least| len < *least) {
        faults.push(format!("- {path}: has {len} items, less than {least}"));
    }
    if let Some(most) = bound("maxItems").filter(|most| len > *most) {
        faults.push(format!("- {path}: has {len} items, more than {most}"));
    }
    if let Some(schema) = words.get("items") {
        for (index, item) in items.iter().enumerate() {
            check(schema, item, &format!("{path}[{index}]"), faults);
        }
    }
}

fn types(ty: &Json) -> Vec<&str> {
    match ty {
        Json::Array(types) => types.iter().filter_map(Json::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn is_of(ty: &str, value: &Json) -> bool {
    match ty {
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|one| one.fract() == 0.0),
        ty => ty == kind(value),
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn short(value: &Json) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain("…".chars()).collect() }
}

/// The JSON in what an agent said: all of it, or its last fenced block.
pub fn find_json(text: &str) -> Option<Json> {
    if let Ok(json) = serde_json::from_str(text.trim()) {
        return Some(json);
    }
    let mut blocks = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines() {
        match (line.trim_start().starts_with("```"), open.take()) {
            (true, Some(lines)) => blocks.push(lines.join("\n")),
            (true, None) => open = Some(Vec::new()),
            (false, Some(mut lines)) => {
                lines.push(line);
                open = Some(lines);
            }
            (false, None) => {}
        }
    }
    blocks.iter().rev().find_map(|block| serde_json::from_str(block).ok())
}

/// The text in a result: programs give it as it is, or as blocks of which some hold text.
pub(crate) fn text_in(result: &Json) -> String {
    match result {
        Json::String(text) => text.clone(),
        Json::Array(blocks) => {
            let texts: Vec<String> = blocks.iter().map(text_in).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        Json::Object(fields) => {
            fields.get("text").or_else(|| fields.get("content")).map(text_in).unwrap_or_default()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_core::catalogue::{Catalogue, schema};

    /// schema → value → faults, joined by ` ; `.
    const TABLE: &str = r#"
        {}                                                     → {"a":1}       →
        {"type":"string"}                                      → "a"           →
        {"type":"string"}                                      → 1             → - answer: is number, not string
        {"type":["string","null"]}                             → null          →
        {"type":["string","null"]}                             → []            → - answer: is array, not string or null
        {"type":"integer"}                                     → 2             →
        {"type":"integer"}                                     → 2.0           →
        {"type":"integer"}                                     → 2.5           → - answer: is number, not integer
        {"type":"number","minimum":0,"maximum":1}              → -1            → - answer: is -1, less than 0
        {"type":"number","minimum":0,"maximum":1}              → 1.5           → - answer: is 1.5, more than 1
        {"enum":["a","b"]}                                     → "c"           → - answer: is "c", not one of "a", "b"
        {"const":"a"}                                          → "c"           → - answer: is "c", not "a"
        {"type":"array","items":{"type":"string"}}             → ["a",1,2]     → - answer[1]: is number, not string ; - answer[2]: is number, not string
        {"type":"array","minItems":1}                          → []            → - answer: has 0 items, less than 1
        {"type":"array","maxItems":1}                          → [1,2]         → - answer: has 2 items, more than 1
        {"type":"string","minLength":1}                        → ""            → - answer: is shorter than 1
        {"required":["a","b"]}                                 → {"a":1}       → - answer.b: is missing
        {"properties":{"a":{"type":"string"}}}                 → {"a":1}       → - answer.a: is number, not string
        {"properties":{"a":{}},"additionalProperties":false}   → {"a":1,"b":2} → - answer.b: must not be there
        {"properties":{"a":{}},"additionalProperties":true}    → {"a":1,"b":2} →
        {"anyOf":[{"type":"string"},{"type":"null"}]}          → null          →
        {"anyOf":[{"type":"string"},{"type":"null"}]}          → 1             → - answer: fits none of the 2 ways it may look
    "#;

    #[test]
    fn faults_are_a_table() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 22);
        for line in lines {
            let cells: Vec<&str> = line.split('→').map(str::trim).collect();
            let schema = Schema::new(serde_json::from_str(cells[0]).unwrap()).unwrap();
            let faults = schema.faults(&serde_json::from_str(cells[1]).unwrap());
            assert_eq!(faults.join(" ; "), cells[2], "{line}");
        }
    }

    #[test]
    fn every_answer_of_the_catalogue_can_be_checked() {
        let roles = Catalogue::standard().roles();
        let forms: Vec<_> = roles.flat_map(|role| role.forms.iter()).collect();
        assert!(forms.len() > 10);
        for form in forms {
            Schema::new(schema(&form.answer)).unwrap();
        }
    }

    #[test]
    fn a_word_that_is_not_checked_is_refused() {
        let nested: Json = serde_json::from_str(r#"{"items":{"pattern":"^a"}}"#).unwrap();
        assert_eq!(Schema::new(nested), Err(SchemaError::UnknownWord("pattern".into())));
        assert!(Schema::new(Json::from(7)).is_err());
        let mut deep = serde_json::json!({});
        for _ in 0..=MAX_DEPTH {
            deep = serde_json::json!({ "items": deep });
        }
        assert!(Schema::new(deep).is_err());
    }

    #[test]
    fn faults_are_counted_beyond_the_first_few() {
        let schema = Schema::new(serde_json::json!({ "items": { "type": "string" } })).unwrap();
        let faults = schema.faults(&Json::from(vec![1; MAX_FAULTS + 5]));
        assert_eq!((faults.len(), faults[MAX_FAULTS].as_str()), (MAX_FAULTS + 1, "- and 5 more"));
    }

    #[test]
    fn json_is_found_alone_or_in_the_last_fence() {
        assert_eq!(find_json(" {\"a\": 1} "), Some(serde_json::json!({ "a": 1 })));
        let text = "Here:\n```json\n{\"a\": 1}\n```\nor better\n```\n{\"a\": 2}\n```\nbye";
        assert_eq!(find_json(text), Some(serde_json::json!({ "a": 2 })));
        assert_eq!(find_json("I am done."), None);
        assert_eq!(find_json("```json\n{\"a\": 1}"), None);
    }
}
