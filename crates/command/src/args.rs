//! The words that every command takes, and what groups of commands are made of.

use std::path::PathBuf;

use clap::{Args, ColorChoice, Subcommand};

/// Gives a command its arguments and verbs.
pub type Fill = fn(clap::Command) -> clap::Command;

/// The flags of every command.
#[derive(Clone, Debug, Args)]
pub struct GlobalArgs {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,

    /// The repository; else the nearest folder upward with .ftl/, or the git root
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub repo: Option<PathBuf>,

    /// Your name, for the record; else git's user.name
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    #[arg(env = "FTL_BY", hide_env_values = true)]
    pub by: Option<String>,

    /// Of the FTL protocol's own commands: the campaign of that run, not the current one
    #[arg(long, global = true, value_name = "ID", hide = true)]
    pub campaign: Option<String>,

    /// Colours: auto, always or never; NO_COLOR and CLICOLOR count
    // Taken from the words before they are parsed, see `out`.
    #[arg(long, global = true, value_name = "WHEN", help_heading = "Everywhere")]
    #[arg(value_enum, default_value_t = ColorChoice::Auto, hide_possible_values = true, hide_default_value = true)]
    pub color: ColorChoice,
}

/// A group of verbs; without a verb it prints its help.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Group<V: Subcommand> {
    /// What it is to do.
    #[command(subcommand)]
    pub verb: Option<V>,
}
