//! `ftl completions` and `ftl man`: made from the command line itself, at the moment they are asked for.

use ftl_command::{CommandError, ExitStatus, Out};
use serde_json::json;

use crate::cli;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell, out: &Out) -> Result<ExitStatus, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "ftl", &mut script);
    let text = String::from_utf8_lossy(&script);
    if out.is_json() {
        out.json(&json!({ "shell": shell.to_string(), "text": text }))?;
    } else {
        out.bytes(&text)?;
    }
    Ok(ExitStatus::Done)
}

/// Prints the manual page of the program or of one command.
pub(crate) fn man(name: Option<&str>, out: &Out) -> Result<ExitStatus, CommandError> {
    let mut root = cli::command();
    root.build();
    let command = match name {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| unknown(&root, name))?,
    };
    // The page has no place of its own for what the help says before the options.
    let more = command.get_before_help().cloned();
    let command = if let Some(more) = more { command.long_about(more) } else { command };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(|error| {
        CommandError::new(format!("the manual page cannot be made: {error}"), "please report this")
    })?;
    let text = String::from_utf8_lossy(&page);
    if out.is_json() {
        out.json(&json!({ "text": text }))?;
    } else {
        out.bytes(&text)?;
    }
    Ok(ExitStatus::Done)
}

fn unknown(root: &clap::Command, name: &str) -> CommandError {
    let names: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
    CommandError::new(
        format!("there is no command `{name}`"),
        format!("the commands are {}", names.join(", ")),
    )
}
