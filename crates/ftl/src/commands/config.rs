//! `ftl config`: every setting, its value, and where the value comes from.

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session};
use ftl_settings::config::Shown;
use ftl_settings::origin::Origin;
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

/// How wide the column of values is at most.
const MAX_VALUE: usize = 24;

/// `ftl config`: every setting, its value and the file that said it.
pub(crate) fn run(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let shown = session::config(&place)?.list_all();
    session::check_policies(&place, &LoadedProtocols::load(cli)?.library)?;
    if out.is_json() {
        let row = |one: &Shown| json!({ "key": one.key, "value": one.value, "origin": one.origin.to_string(), "about": one.about });
        let rows: Vec<Json> = shown.iter().map(row).collect();
        out.json(&json!({ "settings": rows }))?;
        return Ok(ExitStatus::Done);
    }
    let width = |text: fn(&Shown) -> &str| shown.iter().map(|one| text(one).len()).max().unwrap_or(0);
    let (key, value) = (width(|one| &one.key), width(|one| &one.value).min(MAX_VALUE));
    let terminal = out::terminal().map(|(width, _)| width);
    let line = |one: &Shown| {
        let origin = match &one.origin {
            Origin::Default => paint(paint::QUIET, &one.about),
            Origin::File(path) => {
                format!(
                    "{} {}",
                    paint(paint::QUIET, &one.about),
                    paint(paint::STRONG, format!("({})", path.display()))
                )
            }
        };
        let line = format!("{:key$}  {}  {origin}", one.key, paint::padded(&safe(&one.value), value));
        format!("{}\n", paint::fitted(&line, terminal))
    };
    out.text(&shown.iter().map(line).collect::<String>())?;
    Ok(ExitStatus::Done)
}
