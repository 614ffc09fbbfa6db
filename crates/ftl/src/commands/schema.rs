//! `ftl schema`: the actions and roles of the catalogue, and the JSON schemas of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_core::catalogue::artifacts::{self, Artifact};
use ftl_core::catalogue::{Catalogue, Declaration, Form, Kind, Role, schema};
use ftl_core::nearest::nearest;
use ftl_core::types::{Field, Record, Type};
use ftl_core::value::Name;
use serde_json::{Value as Json, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::paint::{self, paint};

/// Lists everything, or prints one schema.
pub(crate) fn run(name: Option<&str>, out: &Out) -> Result<Exit, Failure> {
    let catalogue = Catalogue::standard();
    match name {
        Some(name) => one(catalogue, name, out)?,
        None if out.is_json() => out.json(&list(catalogue))?,
        None => out.text(&table(catalogue, out::width()))?,
    }
    Ok(Exit::Done)
}

fn one(catalogue: &Catalogue, name: &str, out: &Out) -> Result<(), Failure> {
    if let Some(action) = catalogue.action(name) {
        return out.json(&action_schema(action));
    }
    if let Some(role) = catalogue.role(name) {
        return out.json(&role_schema(role));
    }
    if let Some(artifact) = artifacts::artifact(name) {
        return out.foreign_json(&artifact_schema(&artifact));
    }
    let actions = catalogue.actions().map(|action| &action.name);
    let files: Vec<Name> = artifacts::artifacts().iter().map(|one| Name::from(one.name)).collect();
    let names = actions.chain(catalogue.roles().map(|role| &role.name)).chain(&files);
    let list = "`ftl schema` lists them all";
    let hint = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`? {list}"),
        None => list.to_owned(),
    };
    Err(Failure::new(format!("there is no action, role or artifact `{name}`"), hint))
}

fn action_schema(action: &Declaration) -> Json {
    json!({
        "name": action.name,
        "type": "action",
        "kind": action.kind,
        "about": action.about.trim(),
        "parameters": params(&action.name, &action.params),
        "answer": schema(&action.answer),
    })
}

/// The schema of an artifact is the document itself, for whoever checks files by it.
fn artifact_schema(artifact: &Artifact) -> Json {
    let mut json = schema(&artifact.ty);
    json["$id"] = json!(format!("ftl:{}", artifact.path));
    json["description"] = json!(artifact.about);
    json
}

fn role_schema(role: &Role) -> Json {
    let form = |form: &Form| {
        json!({
            "word": form.word,
            "about": form.about.trim(),
            "parameters": params(&role.name, &form.params),
            "answer": schema(&form.answer),
        })
    };
    json!({
        "name": role.name,
        "type": "role",
        "about": role.about.trim(),
        "selector": role.selector,
        "forms": role.forms.iter().map(form).collect::<Vec<_>>(),
    })
}

fn params(name: &Name, fields: &BTreeMap<Name, Field>) -> Json {
    schema(&Type::Record(Arc::new(Record { name: name.clone(), fields: fields.clone(), open: false })))
}

fn list(catalogue: &Catalogue) -> Json {
    let action = |one: &Declaration| json!({ "name": one.name, "kind": one.kind, "about": one.about.trim() });
    let role = |one: &Role| {
        let words: Vec<&str> = one.forms.iter().filter_map(|form| form.word).collect();
        json!({ "name": one.name, "about": one.about.trim(), "selector": one.selector, "words": words })
    };
    let file = |one: &Artifact| json!({ "name": one.name, "path": one.path, "about": one.about });
    json!({
        "actions": catalogue.actions().map(action).collect::<Vec<_>>(),
        "roles": catalogue.roles().map(role).collect::<Vec<_>>(),
        "artifacts": artifacts::artifacts().iter().map(file).collect::<Vec<_>>(),
    })
}

fn table(catalogue: &Catalogue, width: usize) -> String {
    let kinds = [
        (Kind::Act, "Actions that change the world (DO)"),
        (Kind::Look, "Actions that look (CHECK, DO)"),
        (Kind::Gate, "Gates (CHECK, DO, GATE)"),
        (Kind::Wait, "Actions that wait (WAIT)"),
    ];
    let mut text = String::new();
    for (kind, title) in kinds {
        let actions = catalogue.actions().filter(|action| action.kind == kind);
        let rows: Vec<_> = actions.map(|one| (&*one.name, one.about)).collect();
        text.push_str(&section(title, &rows, width));
    }
    let roles: Vec<_> = catalogue.roles().map(|one| (&*one.name, one.about)).collect();
    text.push_str(&section("Roles (Task)", &roles, width));
    let files = artifacts::artifacts();
    let files: Vec<_> = files.iter().map(|one| (one.name, one.about)).collect();
    text.push_str(&section("Artifacts of a task", &files, width));
    text + "`ftl schema NAME` prints what one takes and answers.\n"
}

fn section(title: &str, rows: &[(&str, &str)], width: usize) -> String {
    let widest = rows.iter().map(|(name, _)| paint::columns(name)).max().unwrap_or(0);
    let mut text = format!("{}\n", paint(paint::STRONG, title));
    for (name, about) in rows {
        let about = paint::wrapped(about.trim(), widest + 4, widest + 4, width);
        text.push_str(&format!("  {}  {about}\n", paint::padded(&paint(paint::HINT, name), widest)));
    }
    if rows.is_empty() { String::new() } else { text + "\n" }
}
