//! `ftl config`: every setting, its value, and where the value comes from.

use ftl_engine::config::Shown;
use serde_json::{Value as Json, json};

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session;

/// Shows the settings.
pub(crate) fn run(cli: &Cli, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let shown = session::config(&place)?.shown();
    if out.is_json() {
        let row = |one: &Shown| json!({ "key": one.key, "value": one.value, "origin": one.origin.to_string(), "about": one.about });
        let rows: Vec<Json> = shown.iter().map(row).collect();
        out.json(&json!({ "settings": rows }))?;
        return Ok(Exit::Done);
    }
    let width = shown.iter().map(|one| one.key.len()).max().unwrap_or(0);
    let line = |one: &Shown| {
        let origin = paint(paint::QUIET, format!("{}; {}", one.origin, one.about));
        format!("{:width$}  {}  {}\n", one.key, paint::padded(&safe(&one.value), 10), origin)
    };
    out.text(&shown.iter().map(line).collect::<String>())?;
    Ok(Exit::Done)
}
