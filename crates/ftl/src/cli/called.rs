//! The one command that is called, built alone.
//!
//! The whole command line has some hundred commands, and building them costs more than most of them do. So the words
//! are read by the command that they name, built by itself. Whatever that one does not understand, and whatever asks
//! for help, is read again by the whole, which has the words for it: nothing a person sees comes from here.

use std::ffi::OsString;

use clap::{Args, Command, FromArgMatches as _};
use ftl_command::{Fill, GlobalArgs, Group};

use super::{Cli, first_word};
use crate::tasks;

/// The commands that can be built alone, but for those of a lifecycle and of the FTL protocol. One that is missing here
/// works too, and costs more.
const CALLED: &[(&str, Fill)] = &[
    ("run", super::RunArgs::augment_args),
    ("resume", super::Resume::augment_args),
    ("retry", super::RetryArgs::augment_args),
    ("clean", super::Clean::augment_args),
    ("stop", super::StopArgs::augment_args),
    ("status", super::StatusArgs::augment_args),
    ("log", super::Log::augment_args),
    ("transcript", super::Transcript::augment_args),
    ("diff", super::Diff::augment_args),
    ("answer", super::AnswerArgs::augment_args),
    ("override", super::Override::augment_args),
    ("raise", super::Raise::augment_args),
    ("undo", super::Undo::augment_args),
    ("salvage", super::Salvage::augment_args),
    ("task", Group::<super::Task>::augment_args),
    ("campaign", Group::<super::Campaign>::augment_args),
    ("code", super::Code::augment_args),
    ("demo", super::Demo::augment_args),
    ("init", super::Init::augment_args),
    ("config", std::convert::identity),
    ("agents", super::Agents::augment_args),
    ("mcp", std::convert::identity),
    ("doctor", super::Doctor::augment_args),
    ("check", super::Check::augment_args),
    ("draw", super::Draw::augment_args),
    ("protocols", std::convert::identity),
];

/// What the words say.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let alone = called(words).and_then(|command| read(command, words).ok());
    alone.map_or_else(|| read(super::command(), words), Ok)
}

fn read(command: Command, words: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Whether nothing but the version is asked for.
pub(crate) fn asks_for_version(words: &[OsString]) -> bool {
    matches!(words, [_, word] if word == "--version" || word == "-V")
}

/// The command line with nothing but the command that the words name.
fn called(words: &[OsString]) -> Option<Command> {
    alone(words.get(first_word(words, 1)?)?.to_str()?)
}

fn alone(name: &str) -> Option<Command> {
    let all = CALLED.iter().chain(tasks::CALLED).chain(ftl_compat::CALLED);
    let (name, fill) = all.into_iter().find(|(one, _)| *one == name)?;
    Some(GlobalArgs::augment_args(Command::new("ftl")).subcommand(fill(Command::new(*name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// Arguments and verbs of a command, as they are parsed.
    fn shape(command: &Command) -> Vec<String> {
        let mut all: Vec<String> = command.get_arguments().map(|arg| format!("{arg:?}")).collect();
        all.extend(command.get_groups().map(|group| format!("{group:?}")));
        for verb in command.get_subcommands() {
            all.push(format!("verb {}", verb.get_name()));
            all.extend(shape(verb));
        }
        all
    }

    #[test]
    fn a_command_alone_takes_what_it_takes_among_all() {
        let whole = Cli::command();
        let mut missing = Vec::new();
        for among in whole.get_subcommands() {
            let name = among.get_name();
            let Some(one) = alone(name) else {
                missing.push(name.to_owned());
                continue;
            };
            assert_eq!(shape(one.find_subcommand(name).unwrap()), shape(among), "{name}");
            assert_eq!(one.get_arguments().count(), whole.get_arguments().count());
        }
        // Their arguments stand in the list of commands itself.
        let in_the_list = [
            "why",
            "watch",
            "audit",
            "trust",
            "serve",
            "tui",
            "export",
            "sandbox",
            "schema",
            "completions",
            "man",
        ];
        assert_eq!(missing, in_the_list);
        let rows = CALLED.len() + tasks::CALLED.len() + ftl_compat::CALLED.len();
        assert_eq!(rows + missing.len(), whole.get_subcommands().count(), "a row names no command");
    }

    #[test]
    fn words_mean_the_same_alone_and_among_all() {
        let table = [
            "ftl campaign status",
            "ftl --repo . --json campaign create objective --framework x",
            "ftl status --json",
            "ftl --color=never memory query text",
            "ftl why x",
            "ftl campaign nothing",
            "ftl campaign",
            "ftl campaign --help",
            "ftl help campaign",
            "ftl status --nothing",
            "ftl nothing",
            "ftl --repo",
            "ftl",
            "ftl --version",
        ];
        let text = |read: Result<Cli, clap::Error>| match read {
            Ok(cli) => format!("{cli:?}"),
            Err(error) => error.render().to_string(),
        };
        for line in table {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(text(parse(&words)), text(read(super::super::command(), &words)), "{line}");
        }
    }
}
