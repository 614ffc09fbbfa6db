//! The FTL plugin's own script commands, kept as its scripts know them (docs/origins.md): one file a group.
//!
//! No flow enters through here: `ftl campaign run` is routed before it. What these commands print, keep and end with is
//! fixed by scripts of users; docs/ftl-commands.md says what it is, and where it differs and why. The answer goes to
//! standard output and nothing else does; what a person should also hear goes to standard error. The records do the
//! work, here it only gets words and gives them. Only the dispatch of the command line may call this crate.

mod benchmark;
mod campaign;
mod decision;
mod exploration;
mod framework;
mod logfile;
mod memory;
mod observer;
mod orchestration;
mod phase;
mod words;
mod workspace;

use ftl_command::records::{existing, open};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Group, Out, session};
use ftl_core::json::{Json, JsonExt as _};
use ftl_records::Records;

pub use campaign::run as campaign;
pub use words::{CALLED, CampaignVerb, Command, PAGES};

/// Does what one of these commands says. A group without a verb shows its help.
pub fn run(
    cli: &GlobalArgs,
    command: &Command,
    help: &dyn Fn(&str) -> String,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let show_help = |group: &str, exit: ExitStatus| out.text(&help(group)).map(|()| exit);
    match command {
        Command::Workspace(Group { verb: Some(verb) }) => workspace::run(cli, verb, out),
        Command::Workspace(Group { verb: None }) => show_help("workspace", ExitStatus::Error),
        Command::Memory(Group { verb: Some(verb) }) => memory::run(cli, verb, out),
        Command::Memory(Group { verb: None }) => show_help("memory", ExitStatus::Error),
        Command::Observer(Group { verb: Some(verb) }) => observer::run(cli, verb, out),
        Command::Observer(Group { verb: None }) => show_help("observer", ExitStatus::Error),
        Command::Exploration(Group { verb: Some(verb) }) => exploration::run(cli, verb, out),
        Command::Exploration(Group { verb: None }) => show_help("exploration", ExitStatus::Error),
        Command::Orchestration(Group { verb: Some(verb) }) => orchestration::run(cli, verb, out),
        Command::Orchestration(Group { verb: None }) => show_help("orchestration", ExitStatus::Error),
        Command::Phase(Group { verb: Some(verb) }) => phase::run(cli, verb, out),
        Command::Phase(Group { verb: None }) => show_help("phase", ExitStatus::Done),
        Command::Framework(Group { verb: Some(verb) }) => framework::run(verb, out),
        Command::Framework(Group { verb: None }) => {
            // The FTL plugin says it on standard error, and answers nothing.
            out.beside(&help("framework"));
            Ok(ExitStatus::Error)
        }
        Command::Benchmark(Group { verb: Some(verb) }) => benchmark::run(cli, verb, out),
        Command::Benchmark(Group { verb: None }) => show_help("benchmark", ExitStatus::Error),
        Command::Logfile(Group { verb: Some(verb) }) => logfile::run(cli, verb, out),
        Command::Logfile(Group { verb: None }) => show_help("logfile", ExitStatus::Done),
        Command::Decision(asked) => decision::run(asked, out),
        Command::Query(asked) => memory::query(cli, asked, out),
        Command::Stats => memory::stats(cli, out),
        Command::Prune(asked) => memory::prune(cli, asked, out),
        Command::Related(asked) => memory::related(cli, asked, out),
        Command::Similar(asked) => campaign::similar(cli, asked, out),
        Command::Observe(asked) => observer::observe(cli, asked, out),
    }
}

/// What the FTL plugin left behind, from `.ftl/`.
const OF_THE_PLUGIN: [&str; 6] =
    ["campaign.json", "memory.json", "archive", "workspace", "exploration.json", "phase_state.json"];

/// The records of the repository, to look at it. A store is made only to take over what the FTL
/// plugin left.
fn look(cli: &GlobalArgs) -> Result<Option<Records>, CommandError> {
    match existing(cli)? {
        Some(records) => Ok(Some(records)),
        None => {
            let state = session::place(cli)?.state();
            let left = OF_THE_PLUGIN.iter().any(|name| state.join(name).exists());
            if left { open(cli).map(Some) } else { Ok(None) }
        }
    }
}

/// Prints a value as the FTL plugin does.
fn print(out: &Out, value: &Json) -> Result<ExitStatus, CommandError> {
    out.bytes(&format!("{}\n", value.pretty()))?;
    Ok(ExitStatus::Done)
}

/// Prints a word or a line; with `--json` as the one field of a document.
fn word(out: &Out, text: &str) -> Result<ExitStatus, CommandError> {
    if out.is_json() {
        return print(out, &Json::object([("result", Json::from(text))]));
    }
    out.bytes(&format!("{text}\n"))?;
    Ok(ExitStatus::Done)
}
