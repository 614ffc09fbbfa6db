//! `ftl serve`, `ftl export` and `ftl tui`: the faces of `ftl-web` and `ftl-tui`, given the documents of the commands.

use std::path::PathBuf;

use clap::FromArgMatches as _;
use ftl_command::documents::Documents;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_view::paint::safe;
use ftl_web::ServeOptions;
use serde_json::{Value as Json, json};

use crate::cli::{self, Cli, Export, Serve, Subcommands};

/// Serves until a person ends it.
pub(crate) fn run(cli: &GlobalArgs, asked: &Serve, out: &Out) -> Result<ExitStatus, CommandError> {
    let options = ServeOptions { port: asked.port, open: asked.open, look: asked.look };
    ftl_web::serve(cli, options, Box::new(OwnCommands { cli: cli.clone() }), out)
}

/// Shows the full-screen terminal until a person leaves.
pub(crate) fn tui(cli: &GlobalArgs) -> Result<ExitStatus, CommandError> {
    ftl_tui::run(cli, Box::new(OwnCommands { cli: cli.clone() }))
}

/// Writes a run as one file.
pub(crate) fn export(cli: &GlobalArgs, asked: &Export, out: &Out) -> Result<ExitStatus, CommandError> {
    let (run, text) = ftl_web::export(cli, &asked.run, Box::new(OwnCommands { cli: cli.clone() }))?;
    let to_output = asked.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if to_output {
        out.raw(text.as_bytes())?;
        return Ok(ExitStatus::Done);
    }
    let path = asked.output.clone().unwrap_or_else(|| PathBuf::from(format!("run-{run}.html")));
    ftl_folder::replace_own(&path, text.as_bytes()).map_err(|error| {
        let message = format!("`{}` cannot be written: {error}", path.display());
        CommandError::new(message, "name another file with --output")
    })?;
    if out.is_json() {
        out.json(&json!({ "run": run, "file": path, "bytes": text.len() }))?;
    } else {
        out.text(&format!("{}\n", safe(&path.display().to_string())))?;
    }
    Ok(ExitStatus::Done)
}

/// The commands of this program, performed in this process.
struct OwnCommands {
    cli: GlobalArgs,
}

impl Documents for OwnCommands {
    fn document(&self, words: &[&str]) -> Result<Json, CommandError> {
        let words = ["ftl"].iter().chain(words);
        let not_understood =
            |error: clap::Error| CommandError::usage(error.to_string(), "`ftl --help` lists the commands");
        let matches = cli::command().try_get_matches_from(words).map_err(not_understood)?;
        let parsed = Cli::from_arg_matches(&matches).map_err(not_understood)?;
        let by = parsed.global.by.clone().or_else(|| self.cli.by.clone());
        let global = GlobalArgs { json: true, by, repo: self.cli.repo.clone(), ..parsed.global };
        if !has_document(&parsed.command) {
            return Err(CommandError::usage(
                "this command is not asked through a page",
                "type it in a terminal",
            ));
        }
        let out = Out::captured();
        crate::perform(&global, &parsed.command, &out)?;
        let printed = out.take_captured();
        serde_json::from_slice(&printed).map_err(|error| {
            CommandError::new(format!("the command printed no document: {error}"), "please report this")
        })
    }
}

/// Whether a command may be performed for a page: one that looks, and `undo`.
fn has_document(command: &Subcommands) -> bool {
    matches!(
        command,
        Subcommands::Diff(_)
            | Subcommands::Status(_)
            | Subcommands::Why { .. }
            | Subcommands::Undo(_)
            | Subcommands::Salvage(_)
            | Subcommands::Agents(_)
            | Subcommands::Config
            | Subcommands::Doctor(_)
            | Subcommands::Protocols
            | Subcommands::Compat(_)
    )
}
