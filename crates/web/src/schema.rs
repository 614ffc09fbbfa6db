//! The forms of bodies and answers, by name. Tests hold every answer against its form; the OpenAPI document carries them.

use serde_json::{Value as Json, json};

/// The names, in the order in which they are listed.
pub const SCHEMAS: [&str; 28] = [
    "any", "error", "ticket", "session", "needs", "action", "runs", "start", "started", "run", "why",
    "tasks", "graph", "timeline", "money", "entries", "task", "talks", "talk", "changes", "order", "ordered",
    "reasoned", "reply", "protocol", "kept", "lessons", "lesson",
];

fn object(fields: &[(&str, Json)], required: &[&str]) -> Json {
    let properties: serde_json::Map<String, Json> =
        fields.iter().map(|(name, form)| ((*name).to_owned(), form.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// An object all of whose fields are there.
fn whole(fields: &[(&str, Json)]) -> Json {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    object(fields, &names)
}

fn text() -> Json {
    json!({ "type": "string" })
}

fn count() -> Json {
    json!({ "type": "integer", "minimum": 0 })
}

fn flag() -> Json {
    json!({ "type": "boolean" })
}

fn list(of: Json) -> Json {
    Json::Object(
        [(String::from("type"), Json::from("array")), (String::from("items"), of)].into_iter().collect(),
    )
}

fn or_null(kind: &str) -> Json {
    json!({ "type": [kind, "null"] })
}

fn any() -> Json {
    json!({})
}

/// The JSON schema of a name; `None` where there is none of that name.
#[allow(clippy::too_many_lines, reason = "a table: a row for each document")]
pub fn schema(name: &str) -> Option<Json> {
    Some(match name {
        "any" => json!({ "type": ["object", "array"] }),
        "error" => whole(&[("error", whole(&[("message", text()), ("hint", text()), ("exit", count())]))]),
        "ticket" => whole(&[("ticket", text())]),
        "session" => whole(&[
            ("token", text()),
            ("by", text()),
            ("may", list(text())),
            ("repo", text()),
            ("version", text()),
        ]),
        "action" => action(),
        "needs" => whole(&[("needs", list(need()))]),
        "runs" => whole(&[("runs", list(run_document()))]),
        "start" => object(
            &[
                ("flow", json!({ "enum": ["task", "campaign", "code"] })),
                ("objective", text()),
                ("dry_run", flag()),
                ("from_dry_run", text()),
            ],
            &["flow"],
        ),
        "started" => whole(&[("run", text())]),
        "run" => whole(&[
            ("run", run_document()),
            ("at", count()),
            ("head", count()),
            ("began", count()),
            ("last", count()),
            ("now", count()),
            ("flow", flag()),
            ("steps", list(whole(&[("at", count()), ("good", or_null("boolean")), ("text", text())]))),
            ("actions", list(action())),
            ("instances", count()),
        ]),
        "why" => {
            whole(&[("run", text()), ("at", count()), ("standing", text()), ("instances", list(explained()))])
        }
        "tasks" => whole(&[
            ("at", count()),
            ("now", count()),
            ("columns", list(text())),
            ("rows", list(list(any()))),
        ]),
        "graph" => whole(&[
            ("box", list(count())),
            ("x", list(count())),
            ("y", list(count())),
            ("edges", list(count())),
            ("critical", list(count())),
            ("groups", list(list(count()))),
        ]),
        "timeline" => whole(&[
            ("began", count()),
            ("now", count()),
            ("critical", list(text())),
            (
                "rows",
                list(whole(&[("task", text()), ("label", or_null("string")), ("bars", list(list(any())))])),
            ),
        ]),
        "money" => whole(&[
            ("began", count()),
            ("now", count()),
            ("all", bought()),
            ("meters", json!({ "type": "object" })),
            ("roles", list(whole(&[("name", text()), ("bought", bought())]))),
            ("tasks", list(whole(&[("name", or_null("string")), ("seq", text()), ("bought", bought())]))),
            (
                "points",
                list(whole(&[
                    ("at", count()),
                    ("tokens", count()),
                    ("money", count()),
                    ("unknown", count()),
                ])),
            ),
        ]),
        "entries" => whole(&[
            ("head", count()),
            ("searched", count()),
            ("columns", list(text())),
            ("rows", list(list(any()))),
        ]),
        "task" => whole(&[
            ("at", count()),
            ("row", list(any())),
            ("brief", any()),
            ("instances", list(json!({ "type": "object" }))),
            ("path", list(list(any()))),
            ("verdicts", list(answered_form())),
            ("lessons", list(answered_form())),
            ("talks", list(talk_head())),
            ("bought", any()),
            ("shapes", or_null("object")),
            ("alike", list(list(text()))),
            ("rulings", whole(&[("calls", count()), ("ruled", count()), ("denied", count())])),
        ]),
        "talks" => whole(&[("talks", list(talk_head()))]),
        "talk" => whole(&[
            ("talk", talk_head()),
            ("prompt", or_null("string")),
            ("lines", list(object(&[("kind", text())], &["kind"]))),
            ("next", count()),
        ]),
        "changes" => whole(&[("run", text()), ("parts", list(part()))]),
        "order" => {
            object(&[("order", object(&[("order", text())], &["order"])), ("name", text())], &["order"])
        }
        "ordered" => object(&[("order", or_null("integer")), ("again", flag())], &["order"]),
        "reasoned" => whole(&[("reason", text()), ("name", text())]),
        "reply" => whole(&[("order", count()), ("taken", flag()), ("reply", or_null("object"))]),
        "protocol" => whole(&[
            ("name", text()),
            ("svg", text()),
            ("shapes", or_null("object")),
            ("runs", count()),
            (
                "edges",
                list(whole(&[
                    ("from", text()),
                    ("to", text()),
                    ("count", count()),
                    ("failures", count()),
                    ("runs", list(text())),
                ])),
            ),
            (
                "states",
                list(whole(&[
                    ("state", text()),
                    ("visits", count()),
                    ("time", count()),
                    ("money", count()),
                    ("tokens", count()),
                    ("failures", count()),
                ])),
            ),
        ]),
        "kept" => whole(&[("id", text())]),
        // With a question it is the list that was found, else everything.
        "lessons" => json!({ "anyOf": [list(any()), object(
            &[("failures", list(any())), ("patterns", list(any())), ("stats", any()), ("quarantine", any())],
            &["failures", "patterns", "stats", "quarantine"],
        )] }),
        "lesson" => whole(&[("name", text()), ("related", any()), ("solutions", any())]),
        _ => return None,
    })
}

fn action() -> Json {
    object(
        &[
            ("order", text()),
            ("label", text()),
            ("command", text()),
            ("body", json!({ "type": "object" })),
            ("needs_reason", flag()),
            ("takes", text()),
            ("choices", list(text())),
        ],
        &["order", "label", "command", "body", "needs_reason"],
    )
}

fn need() -> Json {
    whole(&[
        ("id", text()),
        ("run", text()),
        ("title", text()),
        ("instance", count()),
        ("task", or_null("string")),
        (
            "kind",
            json!({ "enum": ["question", "word", "held", "interrupted", "blocked", "landing", "limit"] }),
        ),
        ("state", text()),
        ("text", text()),
        ("choices", list(text())),
        ("since", count()),
        ("behind", whole(&[("tasks", count()), ("money_per_minute", count())])),
        ("actions", list(action())),
    ])
}

fn run_document() -> Json {
    object(
        &[
            ("run", text()),
            ("protocol", text()),
            ("title", text()),
            ("state", text()),
            ("standing", text()),
            ("reason", or_null("string")),
            ("meters", json!({ "type": "object" })),
            ("waits", list(json!({ "type": "object" }))),
            ("owner", or_null("object")),
        ],
        &["run", "protocol", "title", "state", "standing", "meters", "waits"],
    )
}

fn explained() -> Json {
    object(
        &[
            ("instance", count()),
            ("task", or_null("string")),
            ("protocol", text()),
            ("state", text()),
            ("standing", text()),
            ("held", list(json!({ "type": "object" }))),
            ("ways_out", list(json!({ "type": "object" }))),
            ("actions", list(action())),
        ],
        &["instance", "protocol", "state", "standing", "held", "ways_out", "actions"],
    )
}

fn bought() -> Json {
    whole(&[
        ("tokens", count()),
        ("input", count()),
        ("cached", count()),
        ("output", count()),
        ("money", count()),
        ("unknown", count()),
        ("unpriced", count()),
    ])
}

fn answered_form() -> Json {
    whole(&[("entry", count()), ("at", count()), ("action", text()), ("value", any()), ("instance", count())])
}

fn talk_head() -> Json {
    whole(&[
        ("action", text()),
        ("number", count()),
        ("instance", or_null("integer")),
        ("role", text()),
        ("form", or_null("string")),
        ("agent", text()),
        ("model", or_null("string")),
        ("at", or_null("integer")),
        ("over", flag()),
        ("cut", flag()),
    ])
}

fn part() -> Json {
    let hunk = whole(&[("old", count()), ("new", count()), ("lines", list(list(text())))]);
    let file = object(
        &[
            ("path", text()),
            ("hunks", list(hunk)),
            ("cut", flag()),
            ("is_test", flag()),
            ("findings", json!({ "type": ["array", "null"] })),
        ],
        &["path", "hunks", "cut", "is_test", "findings"],
    );
    object(
        &[("what", text()), ("task", or_null("string")), ("files", list(file))],
        &["what", "task", "files"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_name_of_the_table_has_a_form_and_every_form_is_used() {
        let named = |name: &str| ROUTES.iter().any(|route| route.answer == name || route.body == name);
        for route in ROUTES {
            for name in
                [route.answer, route.body].into_iter().filter(|name| !name.is_empty() && *name != "events")
            {
                assert!(SCHEMAS.contains(&name), "{name} of {}", route.path);
            }
        }
        for name in SCHEMAS {
            assert!(schema(name).is_some(), "{name}");
            assert!(named(name) || ["error", "action"].contains(&name), "{name} is nobody's");
        }
    }

    #[test]
    fn forms_are_ones_that_the_validator_understands() {
        for name in SCHEMAS {
            let form = schema(name).unwrap();
            ftl_agents::schema::Schema::new(form).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
