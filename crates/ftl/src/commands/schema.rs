//! `ftl schema`: the actions and roles of the catalogue, and the JSON schemas of each.
//!
//! A role is shown with what it gets in each form: its tools, what limits its calls, the rules around it; and with what
//! the prompts of the repository name for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session};
use ftl_core::catalogue::artifacts::{self, ArtifactKind};
use ftl_core::catalogue::{ActionKind, Catalogue, Declaration, Role, RoleForm, RoleRule, schema};
use ftl_core::nearest::nearest;
use ftl_core::types::{Field, RecordType, Type};
use ftl_core::value::Name;
use ftl_engine::session::prompts;
use ftl_settings::prompts::Prompts;
use ftl_view::paint::{self, paint};
use serde_json::{Value as Json, json};

/// Lists everything, or prints one schema.
pub(crate) fn run(cli: &GlobalArgs, name: Option<&str>, out: &Out) -> Result<ExitStatus, CommandError> {
    let catalogue = Catalogue::standard();
    match name {
        Some(name) => one(cli, catalogue, name, out)?,
        None if out.is_json() => out.json(&list(catalogue))?,
        None => out.text(&table(catalogue, out::width()))?,
    }
    Ok(ExitStatus::Done)
}

fn one(cli: &GlobalArgs, catalogue: &Catalogue, name: &str, out: &Out) -> Result<(), CommandError> {
    if let Some(action) = catalogue.action(name) {
        return out.json(&action_schema(action));
    }
    if let Some(role) = catalogue.role(name) {
        return out.json(&role_schema(cli, role)?);
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
    Err(CommandError::new(format!("there is no action, role or artifact `{name}`"), hint))
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

/// The schema of an artifact is the document itself, for programs that check files by it.
fn artifact_schema(artifact: &ArtifactKind) -> Json {
    let mut json = schema(&artifact.ty);
    json["$id"] = json!(format!("ftl:{}", artifact.path));
    json["description"] = json!(artifact.about);
    json
}

fn role_schema(cli: &GlobalArgs, role: &Role) -> Result<Json, CommandError> {
    let form = |form: &RoleForm| {
        json!({
            "word": form.word,
            "about": form.about.trim(),
            "parameters": params(&role.name, &form.params),
            "answer": schema(&form.answer),
            "tools": form.tools,
            "calls": form.calls,
            "rules": rules(form.rules),
        })
    };
    let mut json = json!({
        "name": role.name,
        "type": "role",
        "about": role.about.trim(),
        "selector": role.selector,
        "forms": role.forms.iter().map(form).collect::<Vec<_>>(),
        "looks_at": role.sight,
        "rules": rules(role.rules),
    });
    if role.has(RoleRule::HasConcerns) {
        json["concerns"] = json!(own_prompts(cli)?.concerns());
    }
    if role.has(RoleRule::MakesStories) {
        json["story_rules"] = json!(own_prompts(cli)?.story_rules());
    }
    Ok(json)
}

/// The rules around a role or a form, with what each means.
fn rules(rules: &[RoleRule]) -> Json {
    rules.iter().map(|rule| json!({ "name": rule.word(), "about": rule.about() })).collect()
}

/// The prompts of the repository: those of the program, or its own in their place.
fn own_prompts(cli: &GlobalArgs) -> Result<Prompts, CommandError> {
    let place = session::place(cli)?;
    prompts(&place).map_err(|error| {
        CommandError::new(error.to_string(), "docs/agents.md says what a file of prompts holds")
    })
}

fn params(name: &Name, fields: &BTreeMap<Name, Field>) -> Json {
    schema(&Type::Record(Arc::new(RecordType { name: name.clone(), fields: fields.clone(), open: false })))
}

fn list(catalogue: &Catalogue) -> Json {
    let action = |one: &Declaration| json!({ "name": one.name, "kind": one.kind, "about": one.about.trim() });
    let role = |one: &Role| {
        let words: Vec<&str> = one.forms.iter().filter_map(|form| form.word).collect();
        json!({ "name": one.name, "about": one.about.trim(), "selector": one.selector, "words": words })
    };
    let file = |one: &ArtifactKind| json!({ "name": one.name, "path": one.path, "about": one.about });
    json!({
        "actions": catalogue.actions().map(action).collect::<Vec<_>>(),
        "roles": catalogue.roles().map(role).collect::<Vec<_>>(),
        "artifacts": artifacts::artifacts().iter().map(file).collect::<Vec<_>>(),
    })
}

fn table(catalogue: &Catalogue, width: usize) -> String {
    let kinds = [
        (ActionKind::Act, "Actions that change the world (DO)"),
        (ActionKind::Look, "Actions that look (CHECK, DO)"),
        (ActionKind::Gate, "Gates (CHECK, DO, GATE)"),
        (ActionKind::Wait, "Actions that wait (WAIT)"),
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
