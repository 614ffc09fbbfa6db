//! `ftl draw`: the machine of a protocol, drawn; and the drawings in its document, put right.

use std::path::{Path, PathBuf};

use ftl_command::protocol_loader::{LoadedProtocols, LoadedTarget};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_language::draw::{self, Difference, DifferenceKind, DrawingKind, Machine};
use ftl_language::library::Protocol;
use ftl_language::problem::{Problem, ProblemSeverity};
use ftl_view::paint::{self, paint, safe};
use serde_json::json;

use crate::checker_report;
use crate::cli::{Draw, Format};
use crate::problems;

/// Draws what was asked for, or brings its document up to date.
pub(crate) fn run(cli: &GlobalArgs, asked: &Draw, out: &Out) -> Result<ExitStatus, CommandError> {
    if asked.write && !matches!(asked.format, Format::Mermaid | Format::Table) {
        let message =
            format!("--write puts diagrams and tables in order; it writes no {}", asked.format.word());
        return Err(CommandError::usage(message, "leave --format out, or write to a file with --output"));
    }
    let (loaded, found) = LoadedProtocols::with(cli, std::slice::from_ref(&asked.what))?;
    let name = match found.into_iter().next() {
        Some(LoadedTarget::Protocol(name)) => name,
        Some(LoadedTarget::OrphanDocument(file)) => return stray(&loaded, file, out),
        Some(LoadedTarget::Unreadable(unreadable)) => return Err(unreadable.failure),
        None => return Err(CommandError::usage("nothing was named", "name a protocol or a document")),
    };
    for unreadable in &loaded.left_out {
        out.warning(&unreadable.failure);
    }
    let Some(protocol) = loaded.library.get(&name) else {
        return Err(CommandError::new(
            format!("there is no protocol `{name}`"),
            "`ftl protocols` lists them",
        ));
    };
    if !checker_report::is_readable(&loaded.library, protocol) {
        return refuse(&loaded, &protocol.findings.problems, out);
    }
    let machine = loaded.library.machine(&name).unwrap_or_default();
    if asked.write { mend(&loaded, protocol, &machine, out) } else { print(asked, &machine, out) }
}

/// A document that defines no protocol cannot be drawn; its problems say why.
fn stray(loaded: &LoadedProtocols, file: u32, out: &Out) -> Result<ExitStatus, CommandError> {
    let strays = loaded.library.strays().iter().filter(|(stray, _)| *stray == file);
    let problems: Vec<Problem> = strays.flat_map(|(_, problems)| problems.iter().cloned()).collect();
    refuse(loaded, &problems, out)
}

fn refuse(loaded: &LoadedProtocols, problems: &[Problem], out: &Out) -> Result<ExitStatus, CommandError> {
    let sources = loaded.library.sources();
    out.beside(&problems::render(problems, sources));
    if out.is_json() {
        out.json(&json!({ "ok": false, "problems": checker_report::problems(sources, problems) }))?;
    }
    Ok(ExitStatus::Error)
}

fn print(asked: &Draw, machine: &Machine, out: &Out) -> Result<ExitStatus, CommandError> {
    let text = match asked.format {
        Format::Mermaid => draw::mermaid(machine),
        Format::Table => draw::table(machine),
        Format::Edges => draw::edges(machine),
        Format::Dot => draw::dot(machine),
        Format::Svg => draw::svg(machine),
    };
    let format = asked.format.word();
    match asked.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let changed = save(path, &text)?;
            let shown = path.display().to_string();
            if out.is_json() {
                out.json(
                    &json!({ "name": machine.name, "format": format, "path": shown, "changed": changed }),
                )?;
            } else {
                out.text(&format!("{}: {}\n", safe(&shown), if changed { "written" } else { UP_TO_DATE }))?;
            }
        }
        None if out.is_json() => {
            out.json(&json!({ "name": machine.name, "format": format, "text": text }))?;
        }
        None => out.bytes(&text)?,
    }
    Ok(ExitStatus::Done)
}

const UP_TO_DATE: &str = "already up to date";

/// Writes a file unless it has that text already.
fn save(path: &Path, text: &str) -> Result<bool, CommandError> {
    if std::fs::read(path).is_ok_and(|before| before == text.as_bytes()) {
        return Ok(false);
    }
    ftl_folder::replace_own(path, text.as_bytes()).map_err(|error| {
        let message = format!("`{}` cannot be written: {error}", path.display());
        CommandError::new(message, "see whether its folder exists and may be written to")
    })?;
    Ok(true)
}

/// Puts the drawings in the document of a protocol right.
fn mend(
    loaded: &LoadedProtocols,
    protocol: &Protocol,
    machine: &Machine,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let path = own_file(loaded, protocol)?;
    let other = |problem: &&Problem| problem.severity == ProblemSeverity::Error && problem.code != "drawing";
    let others: Vec<Problem> = protocol.findings.problems.iter().filter(other).cloned().collect();
    if !others.is_empty() {
        out.beside(&problems::render(&others, loaded.library.sources()));
        let message = format!("`{}` is not sound, so its drawings are left as they are", protocol.name);
        return Err(CommandError::new(message, "mend what is shown above, then write the drawings"));
    }
    let source = loaded.source(protocol);
    let before = &source.text;
    let after = draw::rewrite(before, machine);
    still_the_same(&path, before)?;
    let changed = save(&path, &after)?;
    let left = differences(&after, machine);
    if out.is_json() {
        let left: Vec<&str> = left.iter().map(|(_, one)| one.message.as_str()).collect();
        out.json(&json!({ "path": source.path, "changed": changed, "left": left }))?;
    } else {
        let has_drawing = !draw::read(before).is_empty();
        out.text(&match has_drawing {
            true => mended(&source.path, changed, &differences(before, machine), left.len()),
            false => no_drawing(&source.path),
        })?;
    }
    if left.is_empty() {
        return Ok(ExitStatus::Done);
    }
    out.beside(&by_hand(&source.path, &left));
    Ok(ExitStatus::Error)
}

/// What a person saved in the meantime is not written over.
fn still_the_same(path: &Path, text: &str) -> Result<(), CommandError> {
    match std::fs::read(path) {
        Ok(now) if now == text.as_bytes() => Ok(()),
        Ok(_) | Err(_) => {
            let message = format!("`{}` was changed while it was being read", path.display());
            Err(CommandError::new(message, "nothing was written; try again"))
        }
    }
}

fn own_file(loaded: &LoadedProtocols, protocol: &Protocol) -> Result<PathBuf, CommandError> {
    let path = loaded.path(protocol).map(Path::to_owned);
    path.ok_or_else(|| {
        let name = &protocol.name;
        let message = format!("`{name}` is built in: there is no file to write to");
        CommandError::new(
            message,
            format!("pass the path of its document: `ftl draw protocols/{name}.md --write`"),
        )
    })
}

/// How the drawings of a text differ from the machine, each with the kind of its drawing.
fn differences(text: &str, machine: &Machine) -> Vec<(DrawingKind, Difference)> {
    let drawings = draw::read(text);
    let of = |drawing: &draw::Drawing| {
        let kind = drawing.kind;
        draw::compare(drawing, machine).into_iter().map(move |one| (kind, one)).collect::<Vec<_>>()
    };
    drawings.iter().flat_map(of).collect()
}

/// A document that nothing can be brought up to date in, and how it gets something.
fn no_drawing(path: &str) -> String {
    let hint = paint(paint::HINT, "hint:");
    format!(
        "{}: has no drawing\n{hint} put a ```mermaid block with `stateDiagram-v2` in it, or a table `| From | To |`, \
         and write it again\n",
        safe(path)
    )
}

fn mended(path: &str, changed: bool, before: &[(DrawingKind, Difference)], left: usize) -> String {
    let path = safe(path);
    if !changed {
        return if left == 0 { format!("{path}: {UP_TO_DATE}\n") } else { String::new() };
    }
    let mut text = format!("{path}: drawings brought up to date\n");
    for (kind, one) in before {
        let (style, sign) = match one.kind {
            DifferenceKind::Missing => (paint::GOOD, "+"),
            DifferenceKind::Extra => (paint::ERROR, "-"),
            DifferenceKind::Unreadable => continue,
        };
        let edge = paint(style, safe(&format!("{sign} {} → {}", one.from, one.to)));
        if !matches!(kind, DrawingKind::Steps) {
            text.push_str(&format!("  {edge}  ({}, line {})\n", word(*kind), one.line));
        }
    }
    text
}

/// What only a person can put right.
fn by_hand(path: &str, left: &[(DrawingKind, Difference)]) -> String {
    let mut text = String::new();
    for (kind, one) in left {
        let head = paint(paint::ERROR, "error:");
        let (path, message) = (safe(path), safe(&one.message));
        text.push_str(&format!("{head} {path}:{}: {message} ({})\n", one.line, word(*kind)));
    }
    let hint = paint(paint::HINT, "hint:");
    text + &format!(
        "{hint} these need your hand: a table of Success and Failure, or a line that cannot be read\n"
    )
}

fn word(kind: DrawingKind) -> &'static str {
    match kind {
        DrawingKind::Mermaid => "diagram",
        DrawingKind::List => "table",
        DrawingKind::Matrix => "matrix",
        DrawingKind::Steps => "table of steps",
    }
}
