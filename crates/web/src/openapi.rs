//! The pages that are made of the table: the OpenAPI document and `docs/api.md`.

use serde_json::{Map, Value as Json, json};

use crate::routes::{Method, ROUTES, Route};
use crate::schema::{SCHEMAS, schema};

/// The table as an OpenAPI 3.1 document.
pub fn document() -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for route in ROUTES {
        let path = paths.entry(format!("/api/v1/{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.word().to_lowercase()] = operation(route);
    }
    let schemas: Map<String, Json> =
        SCHEMAS.iter().filter_map(|name| Some(((*name).to_owned(), schema(name)?))).collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "ftl", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "session": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "session": [] }],
    })
}

fn operation(route: &Route) -> Json {
    let refer = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let answer = match route.answer {
        "events" => json!({ "text/event-stream": {} }),
        name => json!({ "application/json": { "schema": refer(name) } }),
    };
    let inside = route.path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Json> = inside
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    parameters.extend(route.query.iter().map(|(name, about)| {
        json!({ "name": name, "in": "query", "description": about, "schema": { "type": "string" } })
    }));
    let error =
        json!({ "description": "why not", "content": { "application/json": { "schema": refer("error") } } });
    let mut operation = json!({
        "summary": route.about,
        "parameters": parameters,
        "responses": { "200": { "description": "the answer", "content": answer }, "default": error },
    });
    if !route.body.is_empty() {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": refer(route.body) } } });
    }
    if route.path == "session" {
        operation["security"] = json!([]);
    }
    operation
}

/// The table as the page `docs/api.md`.
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n| call | answer | what |\n|---|---|---|\n");
    for route in ROUTES {
        let query: Vec<&str> = route.query.iter().map(|(name, _)| *name).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let body = match (route.method, route.body) {
            (Method::Post, "any") => String::from(" any"),
            (Method::Post, body) if !body.is_empty() => format!(" [{body}](#{body})"),
            (Method::Post | Method::Get, _) => String::new(),
        };
        let answer = if ["events", "any"].contains(&route.answer) {
            route.answer.to_owned()
        } else {
            format!("[{0}](#{0})", route.answer)
        };
        let (method, path, about) = (route.method.word(), route.path, route.about);
        page.push_str(&format!("| `{method} {path}{query}`{body} | {answer} | {about} |\n"));
    }
    page.push_str("\n## Words behind the question mark\n\n| call | word | means |\n|---|---|---|\n");
    for route in ROUTES {
        for (name, about) in route.query {
            page.push_str(&format!("| `{}` | `{name}` | {about} |\n", route.path));
        }
    }
    page.push_str("\n## Forms\n");
    for name in SCHEMAS.iter().filter(|name| **name != "any") {
        let form = schema(name).and_then(|form| serde_json::to_string_pretty(&form).ok()).unwrap_or_default();
        page.push_str(&format!("\n### {name}\n\n```json\n{form}\n```\n"));
    }
    page
}

const INTRODUCTION: &str = "# The API of the page

`ftl serve` answers on loopback below `/api/v1/`. This page is made from the table that routes every call
(`crates/web/src/routes.rs`); `GET openapi.json` is the same for programs. Who may call is told in [serve.md](serve.md): a ticket
opens a session, and every other call carries `Authorization: Bearer TOKEN`.

- An answer is JSON. `any` is the document that the command of the same name prints with `--json` ([json.md](json.md)), without `version`.
- An error is [error](#error), in the words of the command line, with the exit code that the command would have.
- Times are milliseconds since 1970, money is in millionths.
- `at` shows a run as it stood with that entry.
- An order is left in the store and answered with 202 and its number; whoever drives the run takes it, and `GET orders/{order}` tells what
  became of it. The header `Idempotency-Key` makes sure that it is left once. What bends a rule (override, raise, redo, stop, undo) needs
  `reason`, and the person's name as `name`.

## Events

`GET events` is a stream. Each event carries what changed, and its `id` is the version of the store.

| event | data |
|---|---|
| `summary` | a run as `GET runs` lists it, whenever it grew or stands otherwise |
| `needs` | all cards, whenever something changed |
| `tasks` | rows of the followed run that differ from what was sent before |
| `entries` | the number of the followed run's last entry |
| `live` | new lines of a conversation of the followed run |
| `resync` | something was left out because nobody read: read everything anew |

## Calls
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_table_says() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page(), "docs/api.md is not what the table says; UPDATE_SNAPSHOTS=1 writes it anew");
    }

    #[test]
    fn every_call_is_in_the_document() {
        let document = document();
        for route in ROUTES {
            let path = format!("/api/v1/{}", route.path);
            let there = &document["paths"][&path][route.method.word().to_lowercase()];
            assert_eq!(there["summary"], route.about, "{path}");
        }
    }
}
