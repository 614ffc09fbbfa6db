//! Brings an explorer's answer into the shape that later steps read: lists into maps, texts into numbers.
//!
//! Only what is clearly meant is changed; everything else stays as it was said.

use super::ExplorerMode;
use ftl_core::json::{Json, JsonExt as _};

/// The confidence of an answer that names a framework and no number.
const DEFAULT_CONFIDENCE: f64 = 0.5;

pub(super) fn mend(mode: ExplorerMode, json: &mut Json) {
    match mode {
        ExplorerMode::Structure => structure(json),
        ExplorerMode::Pattern => pattern(json),
        ExplorerMode::Memory => memory(json),
        ExplorerMode::Delta => delta(json),
    }
}

fn structure(json: &mut Json) {
    change(json, "directories", |value| match value {
        Json::Array(items) => {
            let names = items.iter().filter_map(|item| name_of(item, "name"));
            Some(Json::object(names.map(|name| (name, Json::Bool(true)))))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
    });
    change(json, "file_count", number);
    for field in ["entry_points", "config_files"] {
        change(json, field, list);
    }
}

fn pattern(json: &mut Json) {
    let first = json.get("frameworks").and_then(|list| list.items().first()).cloned();
    if json.get("framework").is_none_or(Json::is_null) {
        let named = first.as_ref().and_then(|first| name_of(first, "name"));
        json.put("framework", named.unwrap_or_else(|| "none".to_owned()));
    }
    change(json, "framework", |value| name_of(value, "name").filter(|_| value.is_object()).map(Json::String));
    change(json, "confidence", number);
    let stated = json.get("confidence").and_then(Json::as_f64);
    let of_first = first
        .as_ref()
        .and_then(|first| first.get("confidence"))
        .and_then(|value| value.as_f64().or_else(|| number(value)?.as_f64()));
    let found = stated
        .or(of_first)
        .map(|number| if number > 1.0 && number <= 100.0 { number / 100.0 } else { number });
    let is_named = json.get("framework").and_then(Json::as_str).is_some_and(|name| name != "none");
    match found {
        Some(number) => json.put("confidence", number.clamp(0.0, 1.0)),
        None if is_named => json.put("confidence", DEFAULT_CONFIDENCE),
        None => json.put("confidence", 0.0),
    }
    change(json, "idioms", |value| match value {
        Json::Array(items) => {
            let empty = Json::Array(Vec::new());
            Some(Json::object([("required", Json::Array(items.clone())), ("forbidden", empty)]))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
    });
}

fn memory(json: &mut Json) {
    for field in ["failures", "patterns", "similar_campaigns"] {
        change(json, field, list);
    }
    change(json, "total_in_memory", number);
}

fn delta(json: &mut Json) {
    for field in ["search_terms", "candidates"] {
        change(json, field, list);
    }
    change(json, "confidence", number);
    change(json, "candidates", |value| {
        Some(Json::Array(value.items().iter().filter_map(candidate).collect()))
    });
}

/// A candidate by its path; one that is only a text is a path of medium relevance.
fn candidate(value: &Json) -> Option<Json> {
    let path = name_of(value, "path").or_else(|| value.get("file")?.as_str().map(str::to_owned))?;
    if !value.is_object() {
        return Some(Json::object([("path", Json::String(path)), ("relevance", Json::from("medium"))]));
    }
    let mut candidate = Json::object([("path", Json::String(path))]);
    for (key, field) in value.fields().filter(|(key, _)| !["path", "file"].contains(&key.as_str())) {
        candidate.put(key, field.clone());
    }
    let relevance = candidate.get("relevance").and_then(Json::as_str).map(str::to_ascii_lowercase);
    candidate.put("relevance", relevance.unwrap_or_else(|| "medium".to_owned()));
    Some(candidate)
}

/// A text, or the named field of an object.
fn name_of(value: &Json, field: &str) -> Option<String> {
    value.as_str().or_else(|| value.get(field)?.as_str()).map(str::to_owned)
}

/// Changes a field that is there, where the change has something to say.
fn change(json: &mut Json, field: &str, change: impl Fn(&Json) -> Option<Json>) {
    let Some(changed) = json.get(field).filter(|value| !value.is_null()).and_then(change) else { return };
    json.put(field, changed);
}

/// A text that is a number, such as `"42"`, `"0.8"` or `"85%"`.
fn number(value: &Json) -> Option<Json> {
    let text = value.as_str()?.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Json::from(whole));
    }
    let (digits, scale) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 100.0));
    let number = digits.trim().parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some(Json::from(number / scale))
}

/// One value, or a map of names to values, as a list.
fn list(value: &Json) -> Option<Json> {
    match value {
        Json::Array(_) | Json::Null => None,
        Json::String(_) | Json::Bool(_) | Json::Number(_) => Some(Json::Array(vec![value.clone()])),
        Json::Object(object) => {
            let named = |(key, inner): (&String, &Json)| {
                let mut inner =
                    if inner.is_object() { inner.clone() } else { Json::object([("value", inner.clone())]) };
                if inner.get("name").is_none() && inner.get("path").is_none() {
                    inner.put("name", key.as_str());
                    inner.put("path", key.as_str());
                }
                inner
            };
            Some(Json::Array(object.iter().map(named).collect()))
        }
    }
}
