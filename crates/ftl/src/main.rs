//! The faces of `ftl`: the binary that people and scripts call.
//!
//! It turns words into questions to the other crates, and their answers into text or JSON. It
//! decides nothing about protocols itself. Nothing is read before the command line is understood,
//! so that `--version` and `--help` cost nothing.

mod cli;
mod commands;
mod exit;
mod facts;
mod failure;
mod out;
mod paint;
mod problems;
mod root;
mod shelf;
mod write;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use cli::{Cli, Command};
use exit::Exit;
use out::Out;

fn main() -> ExitCode {
    out::choose_colour(std::env::args_os());
    let parsed = cli::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let exit = match parsed {
        Ok(cli) => run(&cli),
        Err(said) => say(&said),
    };
    exit.into()
}

/// Help, version and misuse: clap has the words. A reader that went away is no reason to complain.
fn say(said: &clap::Error) -> Exit {
    let _ = said.print();
    if said.use_stderr() { Exit::Usage } else { Exit::Done }
}

fn run(cli: &Cli) -> Exit {
    let out = Out::new(cli.json);
    let ended = match &cli.command {
        Command::Check(asked) => commands::check::run(cli, asked, &out),
        Command::Draw(asked) => commands::draw::run(cli, asked, &out),
        Command::Protocols => commands::protocols::run(cli, &out),
        Command::Schema { name } => commands::schema::run(name.as_deref(), &out),
        Command::Completions { shell } => commands::setup::completions(*shell, &out),
        Command::Man { command } => commands::setup::man(command.as_deref(), &out),
    };
    ended.unwrap_or_else(|failure| out.failed(&failure))
}
