//! `ftl protocols`: every protocol, where it comes from, and whether it is sound.

use ftl_command::protocol_loader::{LoadedProtocols, is_built_in};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_language::library::Protocol;
use ftl_language::source::DocumentOrigin;
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

use crate::checker_report::{self, ProblemFact};
use crate::problems;

/// How much of a digest a person needs to see.
const SHORT_DIGEST: usize = 12;

/// `ftl protocols`: each with origin, size and digest.
pub(crate) fn run(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let loaded = LoadedProtocols::load(cli)?;
    if out.is_json() {
        out.json(&as_json(&loaded))?;
    } else {
        out.text(&table(&loaded))?;
    }
    for unreadable in &loaded.left_out {
        out.warning(&unreadable.failure);
    }
    for (file, _) in loaded.library.strays() {
        let path = &loaded.library.sources()[*file as usize].path;
        let message = format!("`{path}` adds no protocol");
        out.warning(&CommandError::new(message, format!("`ftl check {path}` says why")));
    }
    Ok(ExitStatus::Done)
}

fn as_json(loaded: &LoadedProtocols) -> Json {
    let sources = loaded.library.sources();
    let row = |protocol: &Protocol| {
        let mut row = json!({
            "name": protocol.name,
            "origin": protocol.origin,
            "replaces_built_in": replaces(protocol),
            "states": protocol.states.len(),
            "edges": protocol.findings.edges.len(),
            "digest": protocol.digest,
            "path": loaded.source(protocol).path,
            "ok": protocol.findings.is_sound(),
            "errors": problems::count(&protocol.findings.problems).0,
        });
        if let Some(board) = &protocol.board {
            row["board"] = json!(board);
        }
        if let Some(delivery) = &protocol.delivery {
            row["delivery"] = json!(delivery);
        }
        row
    };
    let rows: Vec<Json> = loaded.library.protocols().map(row).collect();
    let strays = loaded.library.strays().iter();
    let mut loose: Vec<ProblemFact> =
        strays.flat_map(|(_, problems)| checker_report::problems(sources, problems)).collect();
    loose.extend(loaded.left_out.iter().map(ProblemFact::unreadable));
    json!({ "protocols": rows, "problems": loose })
}

fn replaces(protocol: &Protocol) -> bool {
    protocol.origin != DocumentOrigin::BuiltIn && is_built_in(&protocol.name)
}

fn table(loaded: &LoadedProtocols) -> String {
    let titles = ["NAME", "CHECK", "STATES", "EDGES", "BOARD", "DELIVERY", "DIGEST", "ORIGIN"];
    let mut rows = vec![titles.map(|title| paint(paint::QUIET, title)).to_vec()];
    rows.extend(loaded.library.protocols().map(|protocol| row(loaded, protocol)));
    let width = |column: usize| rows.iter().map(|row| paint::columns(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| paint::padded(cell, *width));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(loaded: &LoadedProtocols, protocol: &Protocol) -> Vec<String> {
    let (errors, _) = problems::count(&protocol.findings.problems);
    let check = match errors {
        0 => paint(paint::GOOD, "ok"),
        errors => paint(paint::ERROR, paint::count(errors, "error")),
    };
    let path = safe(&loaded.source(protocol).path);
    let origin = match protocol.origin {
        DocumentOrigin::BuiltIn => "built-in".to_owned(),
        DocumentOrigin::User | DocumentOrigin::File if replaces(protocol) => {
            format!("user, replaces built-in: {path}")
        }
        DocumentOrigin::User | DocumentOrigin::File => format!("user: {path}"),
    };
    let digest = protocol.digest.get(..SHORT_DIGEST).unwrap_or(&protocol.digest);
    vec![
        paint(paint::STRONG, &protocol.name),
        check,
        protocol.states.len().to_string(),
        protocol.findings.edges.len().to_string(),
        protocol.board.as_ref().map_or_else(String::new, |board| board.kind.word().to_owned()),
        protocol.delivery.as_ref().map_or_else(String::new, |state| safe(state)),
        digest.to_owned(),
        origin,
    ]
}
