//! JSON schemas of types, for agents that answer in JSON and people who write it.
//!
//! A schema says what `Type::accept` takes: closed sets of words, what must be there, and room
//! for fields that a newer program may add.

use serde_json::{Map, Value as Json, json};

use crate::types::{Field, RecordType, Type};

/// The dialect that the schemas are written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The JSON schema of a type, draft 2020-12.
pub fn schema(ty: &Type) -> Json {
    let mut root = body(ty);
    root.insert("$schema".into(), DIALECT.into());
    Json::Object(root)
}

fn body(ty: &Type) -> Map<String, Json> {
    match ty {
        Type::Unknown | Type::Any => Map::new(),
        Type::Bool => of_type("boolean"),
        Type::Number => of_type("number"),
        Type::Duration => with(of_type("number"), "minimum", json!(0)),
        Type::Text | Type::Digest => of_type("string"),
        Type::Choice(words) => {
            let words: Vec<&str> = words.iter().map(|word| &**word).collect();
            with(of_type("string"), "enum", json!(words))
        }
        Type::List(of) => with(of_type("array"), "items", Json::Object(body(of))),
        Type::Record(record) => record_body(record),
    }
}

fn record_body(record: &RecordType) -> Map<String, Json> {
    let required: Vec<&str> =
        record.fields.iter().filter(|(_, field)| field.required).map(|(name, _)| &**name).collect();
    let properties: Map<String, Json> =
        record.fields.iter().map(|(name, field)| (name.to_string(), Json::Object(property(field)))).collect();
    let mut body = with(of_type("object"), "title", json!(&*record.name));
    body.insert("properties".into(), Json::Object(properties));
    body.insert("required".into(), json!(required));
    body.insert("additionalProperties".into(), json!(true));
    body
}

fn property(field: &Field) -> Map<String, Json> {
    let mut body = body(&field.ty);
    if !field.required {
        allow_null(&mut body);
    }
    match field.about.trim() {
        "" => body,
        about => with(body, "description", json!(about)),
    }
}

/// A field that may be left out may also be `null`: that is how `none` is written.
fn allow_null(body: &mut Map<String, Json>) {
    if let Some(ty) = body.remove("type") {
        body.insert("type".into(), json!([ty, "null"]));
    }
    if let Some(Json::Array(words)) = body.get_mut("enum") {
        words.push(Json::Null);
    }
}

fn of_type(name: &str) -> Map<String, Json> {
    with(Map::new(), "type", json!(name))
}

fn with(mut body: Map<String, Json>, key: &str, value: Json) -> Map<String, Json> {
    body.insert(key.into(), value);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::flow::LessonMatch;
    use crate::catalogue::words::AcceptOptions;
    use crate::types::Typed;

    #[test]
    fn plain_types() {
        let cases = [
            (Type::Any, json!({})),
            (Type::Bool, json!({ "type": "boolean" })),
            (Type::Duration, json!({ "type": "number", "minimum": 0 })),
            (Type::Digest, json!({ "type": "string" })),
            (Type::choice(["b", "a"]), json!({ "type": "string", "enum": ["a", "b"] })),
            (Type::list(Type::Text), json!({ "type": "array", "items": { "type": "string" } })),
        ];
        for (ty, wanted) in cases {
            let mut found = schema(&ty);
            let dialect = found.as_object_mut().unwrap().remove("$schema").unwrap();
            assert_eq!((dialect, found), (json!(DIALECT), wanted), "{ty}");
        }
    }

    #[test]
    fn a_record_says_what_must_be_there_and_leaves_room() {
        let found = schema(&LessonMatch::ty());
        assert_eq!(found["title"], "LessonMatch");
        assert_eq!(found["required"], json!(["flaky", "found"]));
        assert_eq!(found["additionalProperties"], true);
        assert_eq!(
            found["properties"]["fix"],
            json!({ "type": ["string", "null"], "description": "What helped." })
        );
    }

    #[test]
    fn a_closed_set_that_may_be_left_out_may_be_null() {
        let found = schema(&AcceptOptions::ty());
        assert_eq!(found["required"], json!([]));
        assert_eq!(
            found["properties"]["choice"]["enum"],
            json!(["accepted", "deferred", "needs_work", "rejected", null])
        );
    }
}
