//! The faces of `ftl`: the binary that people and scripts call.
//!
//! It turns words into questions to the other crates, and their answers into text or JSON. It
//! decides nothing about protocols itself. Nothing is read before the command line is understood,
//! so that `--version` and `--help` cost nothing.

mod board;
mod cli;
mod commands;
mod document;
mod exit;
mod facts;
mod failure;
mod groups;
mod lines;
mod out;
mod pages;
mod paint;
mod problems;
mod queue;
mod root;
mod runs;
mod session;
mod shelf;
mod signals;
mod talk;
mod tasks;
mod when;
mod write;

use std::io::Write as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use cli::{Cli, Command};
use commands::ftl;
use exit::Exit;
use out::Out;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == ftl_engine::process::guard::WORD) {
        // Not a word for people: the guard of an attempt prints nothing and understands no options.
        return ExitCode::from(u8::try_from(ftl_engine::process::guard::main()).unwrap_or(1));
    }
    out::choose_colour(std::env::args_os());
    let parsed = cli::command()
        .try_get_matches_from(cli::words(std::env::args_os()))
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let exit = match parsed {
        Ok(cli) => run(&cli),
        Err(said) => say(&said),
    };
    exit.into()
}

/// Help, version and misuse: clap has the words. A reader that went away is no reason to complain.
fn say(said: &clap::Error) -> Exit {
    let text = said.render().to_string();
    // In the commands that take a lesson, people write `--json` for what clap knows by another name.
    let _ = match text.contains(cli::ENTRY) {
        false => said.print(),
        true if said.use_stderr() => write!(std::io::stderr(), "{}", text.replace(cli::ENTRY, cli::JSON)),
        true => write!(std::io::stdout(), "{}", text.replace(cli::ENTRY, cli::JSON)),
    };
    if said.use_stderr() { Exit::Usage } else { Exit::Done }
}

fn run(cli: &Cli) -> Exit {
    let out = Out::new(cli.json);
    let ended = match &cli.command {
        Command::Run(asked) => commands::run::run(cli, asked, &out),
        Command::Resume(asked) => commands::run::resume(cli, asked, &out),
        Command::Stop(asked) => commands::steer::stop(cli, asked, &out),
        Command::Status(asked) => commands::status::run(cli, asked, &out),
        Command::Why { id } => commands::why::run(cli, id, &out),
        Command::Log(asked) => commands::log::run(cli, asked, &out),
        Command::Watch { id } => commands::watch::run(cli, id.as_deref(), &out),
        Command::Answer(asked) => commands::steer::answer(cli, asked, &out),
        Command::Override(asked) => commands::steer::override_(cli, asked, &out),
        Command::Raise(asked) => commands::steer::raise(cli, asked, &out),
        Command::Undo(asked) => commands::salvage::undo(cli, asked, &out),
        Command::Salvage(asked) => commands::salvage::salvage(cli, asked, &out),
        Command::Audit { what: cli::Audit::Verify { id } } => commands::audit::run(cli, id.as_deref(), &out),
        Command::Task(asked) => commands::flow::task(cli, asked, &out),
        Command::Code(asked) => commands::code::run(cli, asked, &out),
        Command::Campaign(asked) => ftl::campaign::run(cli, asked, &out),
        Command::Lifecycle(asked) => commands::lifecycle::run(cli, asked, &out),
        Command::Workspace(asked) => ftl::workspace::run(cli, asked, &out),
        Command::Memory(asked) => ftl::memory::run(cli, asked, &out),
        Command::Observer(asked) => ftl::observer::run(cli, asked, &out),
        Command::Exploration(asked) => ftl::exploration::run(cli, asked, &out),
        Command::Orchestration(asked) => ftl::orchestration::run(cli, asked, &out),
        Command::Phase(asked) => ftl::phase::run(cli, asked, &out),
        Command::Decision(asked) => ftl::decision::run(asked, &out),
        Command::Framework(asked) => ftl::framework::run(asked, &out),
        Command::Benchmark(asked) => ftl::benchmark::run(cli, asked, &out),
        Command::Logfile(asked) => ftl::logfile::run(cli, asked, &out),
        Command::Query(asked) => ftl::memory::query(cli, asked, &out),
        Command::Stats => ftl::memory::stats(cli, &out),
        Command::Prune(asked) => ftl::memory::prune(cli, asked, &out),
        Command::Related(asked) => ftl::memory::related(cli, asked, &out),
        Command::Similar { threshold, max } => ftl::campaign::similar(cli, *threshold, *max, &out),
        Command::Observe(asked) => ftl::observer::observe(cli, asked, &out),
        Command::Demo(asked) => commands::demo::run(cli, asked, &out),
        Command::Init(asked) => commands::init::run(cli, asked, &out),
        Command::Config => commands::config::run(cli, &out),
        Command::Agents(asked) => commands::agents::run(cli, asked, &out),
        Command::Mcp => commands::mcp::run(cli),
        Command::Doctor(asked) => commands::doctor::run(cli, asked, &out),
        Command::Check(asked) => commands::check::run(cli, asked, &out),
        Command::Draw(asked) => commands::draw::run(cli, asked, &out),
        Command::Protocols => commands::protocols::run(cli, &out),
        Command::Schema { name } => commands::schema::run(name.as_deref(), &out),
        Command::Completions { shell } => commands::setup::completions(*shell, &out),
        Command::Man { command } => commands::setup::man(command.as_deref(), &out),
    };
    ended.unwrap_or_else(|failure| out.failed(&failure))
}
