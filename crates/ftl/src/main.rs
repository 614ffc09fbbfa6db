//! The faces of `ftl`: the binary that people and scripts call.
//!
//! It turns words into questions to the other crates, and their answers into text or JSON. It
//! decides nothing about protocols itself. Nothing is read before the command line is understood,
//! so that `--version` and `--help` cost nothing.

mod agent_follower;
mod checker_report;
mod cli;
mod commands;
#[cfg(test)]
mod counting_store;
mod live;
mod pages;
mod problems;
mod reader;
mod shield;
mod target;
mod tasks;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use ftl_command::{
    CommandError, ExitStatus, GlobalArgs, Group, Out, limits, out, protocol_loader, root, session, signals,
};
use ftl_view::paint;

use cli::{Campaign, Subcommands, Task};

fn main() -> ExitCode {
    shield::raise();
    let is_ours =
        |word: OsString| word == ftl_process::GUARD_WORD || word == ftl_process::sandbox::SANDBOX_WORD;
    if std::env::args_os().nth(1).is_some_and(is_ours) {
        // Not a word for people: the guard of an attempt prints nothing and understands no options.
        return ExitCode::from(u8::try_from(ftl_process::guard::main()).unwrap_or(1));
    }
    limits::with_stack(command).into()
}

/// Does what the command line says.
fn command() -> ExitStatus {
    signals::outlive_file_limit();
    ftl_process::gits::guard_gits(ftl_process::Guard::own());
    out::choose_colour(std::env::args_os());
    ftl_process::holder::tell(name_holder);
    let words = cli::words(std::env::args_os());
    if cli::asks_for_all(&words) {
        let shown = Out::new(false).text(&cli::help_of_all());
        return shown.map_or_else(|failure| failure.exit, |()| ExitStatus::Done);
    }
    if cli::asks_for_version(&words) {
        let shown = Out::new(false).text(concat!("ftl ", env!("CARGO_PKG_VERSION"), "\n"));
        return shown.map_or_else(|failure| failure.exit, |()| ExitStatus::Done);
    }
    match cli::parse(&words) {
        Ok(cli) => run(&cli.global, &cli.command),
        Err(said) => say(&said, &words),
    }
}

/// Help, version and misuse: clap has the words. A reader that went away is no reason to complain. With `--json`
/// misuse is one document, as every other failure is.
fn say(said: &clap::Error, words: &[OsString]) -> ExitStatus {
    // In the commands that take a lesson, people write `--json` for what clap knows by another name.
    let plain = |text: String| text.replace(cli::ENTRY, cli::JSON);
    let text = said.render().to_string();
    if !said.use_stderr() {
        let _ = match text.contains(cli::ENTRY) {
            false => said.print(),
            true => write!(std::io::stdout(), "{}", plain(text)),
        };
        return ExitStatus::Done;
    }
    let _ = match text.contains(cli::ENTRY) {
        false => said.print(),
        true => write!(std::io::stderr(), "{}", plain(text.clone())),
    };
    let out = Out::new(words.iter().any(|word| word == cli::JSON));
    let hint = cli::flow_hint(said.kind(), words);
    if let Some(hint) = &hint {
        out.beside(&format!("{} {}\n", paint::paint(paint::HINT, "hint:"), paint::safe(hint)));
    }
    if out.is_json() {
        let message = plain(text).split("\n\n").next().unwrap_or_default().trim().to_owned();
        let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
        let hint = hint.unwrap_or_else(|| {
            String::from("`ftl --help` lists the commands, `ftl COMMAND --help` its words")
        });
        let _ = out.json(&serde_json::json!({ "ok": false, "error": { "message": message, "hint": hint } }));
    }
    ExitStatus::Usage
}

/// Says for whom a command waits, and whom it has ended.
fn name_holder(text: &str) {
    let _ = writeln!(anstream::stderr(), "{} {}", paint::paint(paint::HINT, "note:"), paint::safe(text));
}

/// Says that settings count which are not those of the whole repository.
fn name_inner_root(cli: &GlobalArgs, out: &Out) {
    if cli.repo.is_none()
        && let Ok(root) = protocol_loader::root_of(cli)
        && let Some(above) = root::shadowed(&root)
    {
        let (state, above) = (root.join(root::STATE_FOLDER), above.display().to_string());
        let used = format!("`{}` counts here, not the state of the repository above it", state.display());
        out.note(&format!("{used}; `--repo {above}` names that one"));
    }
}

fn run(cli: &GlobalArgs, command: &Subcommands) -> ExitStatus {
    let out = Out::new(cli.json);
    name_inner_root(cli, &out);
    session::look_at_retained(cli, &out);
    let ended = perform(cli, command, &out);
    ended.unwrap_or_else(|failure| out.failed(&failure))
}

/// Does what one command says. Everything that it prints goes through `out`.
pub(crate) fn perform(
    cli: &GlobalArgs,
    command: &Subcommands,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    match command {
        Subcommands::Run(asked) => commands::run::run(cli, asked, out),
        Subcommands::Resume(asked) => commands::run::resume(cli, asked, out),
        Subcommands::Clean(asked) => commands::clean::clean(cli, asked, out),
        Subcommands::Retry(asked) => commands::retry::retry(cli, asked, out),
        Subcommands::Stop(asked) => commands::steer::stop(cli, asked, out),
        Subcommands::Status(asked) => commands::status::run(cli, asked, out),
        Subcommands::Why { id } => commands::why::run(cli, id, out),
        Subcommands::Log(asked) => commands::log::run(cli, asked, out),
        Subcommands::Transcript(asked) => commands::transcript::run(cli, asked, out),
        Subcommands::Diff(asked) => commands::diff::run(cli, asked, out),
        Subcommands::Watch { id } => commands::watch::run(cli, id.as_deref(), out),
        Subcommands::Answer(asked) => commands::steer::answer(cli, asked, out),
        Subcommands::Override(asked) => commands::steer::override_(cli, asked, out),
        Subcommands::Raise(asked) => commands::steer::raise(cli, asked, out),
        Subcommands::Undo(asked) => commands::salvage::undo(cli, asked, out),
        Subcommands::Salvage(asked) => commands::salvage::salvage(cli, asked, out),
        Subcommands::Audit { what: cli::Audit::Verify { id } } => {
            commands::audit::run(cli, id.as_deref(), out)
        }
        Subcommands::Task(Group { verb: Some(Task::Run(asked)) }) => commands::flow::task(cli, asked, out),
        Subcommands::Task(Group { verb: None }) => cli::help(out, "task", ExitStatus::Usage),
        Subcommands::Campaign(Group { verb: Some(Campaign::Run(asked)) }) => {
            commands::flow::campaign(cli, asked, out)
        }
        Subcommands::Campaign(Group { verb: Some(Campaign::Verb(asked)) }) => {
            ftl_compat::campaign(cli, asked, out)
        }
        Subcommands::Campaign(Group { verb: None }) => cli::help(out, "campaign", ExitStatus::Error),
        Subcommands::Code(asked) => commands::code::run(cli, asked, out),
        Subcommands::Lifecycle(asked) => commands::lifecycle::run(cli, asked, out),
        Subcommands::Compat(asked) => ftl_compat::run(cli, asked, &cli::help_text, out),
        Subcommands::Demo(asked) => commands::demo::run(cli, asked, out),
        Subcommands::Init(asked) => commands::init::run(cli, asked, out),
        Subcommands::Config => commands::config::run(cli, out),
        Subcommands::Trust(asked) => commands::trust::run(cli, asked, out),
        Subcommands::Agents(asked) => commands::agents::run(cli, asked, out),
        Subcommands::Mcp => commands::mcp::run(cli),
        Subcommands::Sandbox { what } => commands::sandbox::run(cli, what, out),
        Subcommands::Doctor(asked) => commands::doctor::run(cli, asked, out),
        Subcommands::Check(asked) => commands::check::run(cli, asked, out),
        Subcommands::Draw(asked) => commands::draw::run(cli, asked, out),
        Subcommands::Protocols => commands::protocols::run(cli, out),
        Subcommands::Schema { name } => commands::schema::run(cli, name.as_deref(), out),
        Subcommands::Serve(asked) => commands::serve::run(cli, asked, out),
        Subcommands::Tui => commands::serve::tui(cli),
        Subcommands::Export(asked) => commands::serve::export(cli, asked, out),
        Subcommands::Completions { shell } => commands::setup::completions(*shell, out),
        Subcommands::Man { command } => commands::setup::man(command.as_deref(), out),
    }
}
