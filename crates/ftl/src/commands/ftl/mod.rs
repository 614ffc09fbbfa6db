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

use ftl_command::records::{existing, open};
use ftl_command::{Exit, Failure, GlobalArgs, Out, session};
use ftl_core::json::Json;
use ftl_records::Records;

/// What the FTL plugin left behind, from `.ftl/`.
const OF_THE_PLUGIN: [&str; 6] =
    ["campaign.json", "memory.json", "archive", "workspace", "exploration.json", "phase_state.json"];

/// The records of the repository, to look at it. A store is made only to take over what the FTL
/// plugin left.
pub(crate) fn look(cli: &GlobalArgs) -> Result<Option<Records>, Failure> {
    match existing(cli)? {
        Some(paper) => Ok(Some(paper)),
        None => {
            let state = session::place(cli)?.state();
            let left = OF_THE_PLUGIN.iter().any(|name| state.join(name).exists());
            if left { open(cli).map(Some) } else { Ok(None) }
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
