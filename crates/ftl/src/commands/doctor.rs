//! `ftl doctor`: looks after the state of a repository, and says what it found.

use std::sync::Arc;

use ftl_engine::doctor::{Examination, Finding, Level, examine};
use serde_json::{Value as Json, json};

use crate::cli::{Cli, Doctor};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::paint::{self, paint, safe};
use crate::session;
use crate::shelf::Shelf;

/// Looks after the state.
pub(crate) fn run(cli: &Cli, asked: &Doctor, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let library = if asked.deep { Shelf::load(cli).ok().map(|shelf| Arc::new(shelf.library)) } else { None };
    let settings = session::config_files(&place);
    let found = examine(&Examination { place, settings, library, deep: asked.deep });
    if out.is_json() {
        let findings: Vec<Json> = found.all().iter().map(as_json).collect();
        out.json(&json!({ "ok": found.is_sound(), "findings": findings }))?;
    } else {
        out.text(&text(found.all()))?;
    }
    Ok(if found.is_sound() { Exit::Done } else { Exit::Error })
}

fn as_json(finding: &Finding) -> Json {
    json!({
        "area": finding.area.word(),
        "level": finding.level.word(),
        "text": finding.text,
        "hint": finding.hint,
    })
}

fn text(found: &[Finding]) -> String {
    let mut text: String = found.iter().map(line).collect();
    let count = |level: Level| found.iter().filter(|finding| finding.level == level).count();
    let verdict = match (count(Level::Broken), count(Level::Look), count(Level::Mended)) {
        (0, 0, 0) => paint(paint::GOOD, "all is well"),
        (0, 0, mended) => paint(paint::GOOD, format!("all is well; {mended} mended")),
        (0, look, _) => paint(paint::WARNING, format!("{} to look at", paint::count(look, "thing"))),
        (broken, _, _) => paint(paint::ERROR, format!("{broken} broken")),
    };
    text.push_str(&format!("{verdict}\n"));
    text
}

fn line(finding: &Finding) -> String {
    let mark = match finding.level {
        Level::Fine => paint(paint::GOOD, "✓"),
        Level::Mended => paint(paint::GOOD, "+"),
        Level::Look => paint(paint::WARNING, "!"),
        Level::Broken => paint(paint::ERROR, "✗"),
    };
    let said = match finding.level {
        Level::Fine => paint(paint::QUIET, safe(&finding.text)),
        Level::Mended => format!("{} {}", paint(paint::GOOD, "mended:"), safe(&finding.text)),
        Level::Look => safe(&finding.text),
        Level::Broken => format!("{} {}", paint(paint::ERROR, "broken:"), safe(&finding.text)),
    };
    let width = out::width();
    let mut text = format!("{mark} {:<10} {}\n", finding.area.word(), paint::wrapped(&said, 13, 13, width));
    if let Some(hint) = &finding.hint {
        let hint = format!("{} {}", paint(paint::HINT, "hint:"), safe(hint));
        text.push_str(&format!("             {}\n", paint::wrapped(&hint, 13, 13, width)));
    }
    text
}
