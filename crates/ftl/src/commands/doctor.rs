//! `ftl doctor`: looks after the state of a repository, says what it found, and whether one can work here. With `--accept-loss` a person goes on
//! without what is missing of a damaged store.

mod work;

use std::sync::Arc;

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session};
use ftl_doctor::loss::{self, LossError};
use ftl_doctor::{DoctorFinding, Examination, Level, examine};
use ftl_folder::rewind::Rewound;
use ftl_folder::state_folder::StateFolder;
use ftl_settings::config::Config;
use ftl_store::sqlite::{Loss, LostEntries};
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

use crate::cli::Doctor;

/// Looks after the state.
pub(crate) fn run(cli: &GlobalArgs, asked: &Doctor, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::unchecked_place(cli)?;
    session::not_root_elsewhere(&place)?;
    if asked.accept_loss {
        place.check().map_err(|error| session::place_failure(&place, &error))?;
        return accept_loss(cli, &place, asked.reason.as_deref().unwrap_or_default(), out);
    }
    let library = if asked.deep {
        LoadedProtocols::load(cli).ok().map(|loaded| Arc::new(loaded.library))
    } else {
        None
    };
    let settings = session::config_files(&place);
    let config = Config::load(&settings).unwrap_or_default();
    let found = examine(&Examination { place: place.clone(), settings, library, deep: asked.deep });
    let work = work::examine(&place, &config, asked.deep);
    if out.is_json() {
        let findings: Vec<Json> = found.all().iter().map(as_json).collect();
        let needed: Vec<Json> = work.iter().map(as_json).collect();
        let (ok, ready) = (found.is_sound(), found.is_sound() && work::is_ready(&work));
        out.json(&json!({ "ok": ok, "findings": findings, "ready": ready, "work": needed }))?;
    } else {
        let lines: String = work.iter().map(line).collect();
        out.text(&format!("{}\n{lines}{}\n", text(found.all()), work::verdict(&work)))?;
    }
    Ok(if found.is_sound() { ExitStatus::Done } else { ExitStatus::Error })
}

/// A person goes on without what is missing.
fn accept_loss(
    cli: &GlobalArgs,
    place: &StateFolder,
    reason: &str,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let by = session::person(cli, place)?;
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(CommandError::usage(
            "no reason is given",
            "say why with --reason TEXT; it is kept with the loss",
        ));
    }
    let Some(loss) = loss::accept(place, &by, reason).map_err(loss_failure)? else {
        let message = "nothing of the store is lost, so that there is nothing to accept";
        return Err(CommandError {
            exit: ExitStatus::Refused,
            ..CommandError::new(message, "`ftl doctor --deep` looks at everything")
        });
    };
    if out.is_json() {
        out.json(&json!({ "accepted": loss }))?;
        return Ok(ExitStatus::Done);
    }
    out.text(&loss_text(&loss))?;
    Ok(ExitStatus::Done)
}

fn loss_failure(error: LossError) -> CommandError {
    match error {
        LossError::Store(error) => session::store_failure(&error),
        driven @ LossError::Driven { .. } => {
            CommandError { exit: ExitStatus::Refused, ..CommandError::new(driven.to_string(), driven.hint()) }
        }
        other @ (LossError::Git(_) | LossError::Leftovers(_)) => {
            CommandError::new(other.to_string(), other.hint())
        }
    }
}

fn loss_text(loss: &Loss) -> String {
    let mut text: String = loss.missing.iter().map(|line| format!("lost: {}\n", safe(line))).collect();
    for run in &loss.runs {
        text.push_str(&lost_text(run));
    }
    for file in &loss.files {
        text.push_str(&format!("moved .ftl/{} to the damaged files: the store writes its own\n", safe(file)));
    }
    loss.git.iter().for_each(|one| text.push_str(&rewound_text(one)));
    text.push_str(&format!("the files as they were are in .ftl/store/{}\n", loss.copies));
    text.push_str("the store can be written again; `ftl resume` goes on\n");
    text
}

/// What was brought back in git.
fn rewound_text(one: &Rewound) -> String {
    let (run, branch) = (&one.run, safe(&one.branch));
    if let Some(delivered) = &one.delivered {
        let (target, commit) = (safe(&delivered.target), short(&delivered.commit));
        return format!(
            "run {run} will be stopped: `{target}` has {commit}, which its journal does not know; `{branch}` stays\n"
        );
    }
    let mut text = String::new();
    if let Some(kept) = &one.kept {
        let (count, now) = (paint::count(one.landings.len(), "landing"), short(&one.now));
        text.push_str(&format!("`{branch}` is back at {now}; {count} after that: {kept}\n"));
    }
    if let Some(folder) = &one.folder {
        let count = paint::count(one.keys.len(), "record");
        text.push_str(&format!("{count} of landings of run {run} moved to .ftl/store/{folder}\n"));
    }
    for closed in &one.closed {
        let kept = closed.kept.as_deref().unwrap_or("nothing was only there");
        text.push_str(&format!("worktree {} closed: {kept}\n", closed.id));
    }
    for id in &one.restored {
        text.push_str(&format!("worktree {id} will stand as it did before its work landed\n"));
    }
    text
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn lost_text(lost: &LostEntries) -> String {
    let LostEntries { run, had, left, .. } = lost;
    match left {
        0 => format!("run {run} is gone with all its entries ({had})\n"),
        left => format!("run {run} goes on after entry {left} of {had}\n"),
    }
}

fn as_json(finding: &DoctorFinding) -> Json {
    json!({
        "area": finding.area.word(),
        "level": finding.level.word(),
        "text": finding.text,
        "hint": finding.hint,
    })
}

fn text(found: &[DoctorFinding]) -> String {
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

fn line(finding: &DoctorFinding) -> String {
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
