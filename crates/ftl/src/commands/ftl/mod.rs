//! The FTL protocol's own commands, one file a group: they print what its scripts expect.
//!
//! The answer goes to standard output and nothing else does; what a person should also hear goes to
//! standard error. The engine does the work, here it only gets words and gives them.

pub(crate) mod benchmark;
pub(crate) mod campaign;
pub(crate) mod decision;
pub(crate) mod exploration;
pub(crate) mod framework;
pub(crate) mod logfile;
pub(crate) mod memory;
pub(crate) mod observer;
pub(crate) mod orchestration;
pub(crate) mod phase;
pub(crate) mod workspace;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use ftl_core::json::Json;
use ftl_folder as folder;
use ftl_records::{RecordError, Records};
use ftl_store::StoreError;
use ftl_store::sqlite::SqliteStore;
use ftl_view::paint::{self, paint};

use crate::cli::{self, Cli};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::session;

/// How much is read from standard input or a file.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// The paperwork of the repository, to change it.
pub(crate) fn open(cli: &Cli) -> Result<Records, Failure> {
    let place = session::place(cli)?;
    session::prepare(&place)?;
    let store = SqliteStore::open(&place.store()).map_err(|error| session::store_failure(&error))?;
    let config = session::config(&place)?;
    named(cli, Records::with(place, Arc::new(store), config.records()))
}

/// The paperwork of the campaign that was named, or of the current one.
fn named(cli: &Cli, paper: Records) -> Result<Records, Failure> {
    paper.finish_interrupted_move().map_err(|error| failure(&error))?;
    match &cli.campaign {
        Some(id) => paper.for_campaign(id).map_err(|error| failure(&error)),
        None => Ok(paper),
    }
}

/// What the FTL plugin left behind, from `.ftl/`.
const OF_THE_PLUGIN: [&str; 6] =
    ["campaign.json", "memory.json", "archive", "workspace", "exploration.json", "phase_state.json"];

/// The paperwork of the repository, to look at it. A store is made only to take over what the FTL
/// plugin left.
pub(crate) fn look(cli: &Cli) -> Result<Option<Records>, Failure> {
    match existing(cli)? {
        Some(paper) => Ok(Some(paper)),
        None => {
            let state = session::place(cli)?.state();
            let left = OF_THE_PLUGIN.iter().any(|name| state.join(name).exists());
            if left { open(cli).map(Some) } else { Ok(None) }
        }
    }
}

/// The paperwork of a store that is there. Nothing is made.
pub(crate) fn existing(cli: &Cli) -> Result<Option<Records>, Failure> {
    let place = session::place(cli)?;
    let found = session::existing(&place)?;
    match found {
        Some(store) => {
            let config = session::config(&place)?;
            named(cli, Records::with(place, Arc::new(store), config.records())).map(Some)
        }
        None => Ok(None),
    }
}

/// What the engine did not do, as a failure of a command.
pub(crate) fn failure(error: &RecordError) -> Failure {
    match error {
        // Scripts tell these two by their exit code in every command; of the rest the FTL plugin knows one code.
        RecordError::Store(error @ (StoreError::Lost(_) | StoreError::InUse(_))) => {
            session::store_failure(error)
        }
        RecordError::Store(error) => Failure { exit: Exit::Error, ..session::store_failure(error) },
        RecordError::Plan(errors) => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::new(lines.join("\n"), error.hint().unwrap_or_default())
        }
        error => {
            Failure::new(error.to_string(), error.hint().unwrap_or_else(|| "run `ftl doctor`".to_owned()))
        }
    }
}

/// Prints a value as the FTL plugin does.
pub(crate) fn print(out: &Out, value: &Json) -> Result<Exit, Failure> {
    out.bytes(&format!("{}\n", value.pretty()))?;
    Ok(Exit::Done)
}

/// Prints a word or a line; with `--json` as the one field of a document.
pub(crate) fn word(out: &Out, text: &str) -> Result<Exit, Failure> {
    if out.is_json() {
        return print(out, &Json::object([("result", Json::from(text))]));
    }
    out.bytes(&format!("{text}\n"))?;
    Ok(Exit::Done)
}

/// Says what a person should also hear, beside the answer.
pub(crate) fn tell(out: &Out, paper: &Records) {
    for notice in paper.notices() {
        note(out, &notice);
    }
}

/// Says something beside the answer.
pub(crate) fn note(out: &Out, text: &str) {
    out.beside(&format!("{} {}\n", paint(paint::HINT, "note:"), paint::safe(text)));
}

/// Does something with the paperwork, and says what there is to say of it.
pub(crate) fn with<T>(
    out: &Out,
    paper: &Records,
    work: impl FnOnce(&Records) -> Result<T, RecordError>,
) -> Result<T, Failure> {
    let done = work(paper);
    tell(out, paper);
    done.map_err(|error| failure(&error))
}

/// How much two texts are alike.
pub(crate) fn alike(left: &str, right: &str) -> f64 {
    ftl_records::lessons::alike(left, right)
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn text_of(file: &Path) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(
            format!("`{}` cannot be read: {error}", file.display()),
            "name a file, or - for standard input",
        )
    };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        let opened = folder::open_named(file).map_err(cannot)?;
        opened.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    }
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        let message = format!("`{}` has more than {MAX_INPUT_BYTES} bytes", file.display());
        return Err(Failure::new(message, "make it smaller"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Failure::new(format!("`{}` is not UTF-8: {error}", file.display()), "write it as UTF-8")
    })
}

/// The help of a group, with the exit code of a group that was given no verb.
pub(crate) fn help(out: &Out, group: &str, exit: Exit) -> Result<Exit, Failure> {
    out.text(&help_text(group))?;
    Ok(exit)
}

/// The help of a group.
pub(crate) fn help_text(group: &str) -> String {
    let mut command = cli::command();
    // Only then does a group know that it is called `ftl GROUP`.
    command.build();
    let help = command.find_subcommand_mut(group).map(|group| group.render_help().ansi().to_string());
    help.unwrap_or_default()
}
