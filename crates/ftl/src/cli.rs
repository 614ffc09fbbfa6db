//! The command line: its words, and the help that a person reads.
//!
//! Only words are understood here. Nothing is read from the disk, so help and version are instant.

use std::ffi::OsString;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::builder::styling::Styles;
use clap::{Args, ColorChoice, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::paint::{self, paint};

/// The groups of `ftl --help`. A command that is in no group fails a test below.
const GROUPS: &[(&str, &[&str])] =
    &[("Protocols", &["check", "draw", "protocols", "schema"]), ("Set-up", &["completions", "man", "help"])];

const STYLES: Styles = Styles::styled()
    .header(paint::STRONG)
    .usage(paint::STRONG)
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(Style::new().dimmed())
    .error(paint::ERROR)
    .valid(paint::GOOD)
    .invalid(paint::WARNING);

/// What the help of a command says beside its options.
struct Page {
    command: &'static str,
    /// What to know before the options.
    more: &'static str,
    /// What to type, one example a line.
    examples: &'static [&'static str],
    /// What to know after them.
    last: &'static str,
}

const MAIN: Page = Page {
    command: "ftl",
    more: "A protocol is a Markdown document that a person reads and `ftl` executes. Its diagram cannot disagree \
            with its behaviour, because `ftl` checks one against the other.",
    examples: &[
        "ftl check                      prove every protocol of this repository",
        "ftl check my-flow.md           prove a document that you are writing",
        "ftl draw coder --format svg    draw the coder as a picture",
        "ftl protocols                  list the protocols, and which ones you replaced",
    ],
    last: "Exit codes: 0 done, 1 error, 2 usage, 3 blocked or held, 4 refused, 5 not allowed here, \
            6 malformed, 130 interrupted.",
};

const PAGES: &[Page] = &[
    Page {
        command: "check",
        more: "For each protocol: every state can be reached and can end, every loop pays a meter, every gate \
            stands where it must, and the drawings in the document say what the program does. What is wrong \
            is shown with its line and a hint, all of it at once.",
        examples: &[
            "ftl check                      every protocol: the built-in ones and .ftl/protocols/*.md",
            "ftl check coder lifecycle      two of them, by name",
            "ftl check ./draft.md           a document that is not in .ftl/protocols yet",
            "ftl check --quiet              only what is wrong",
            "ftl check --json | jq '.protocols[].holds'",
        ],
        last: "Exit code 0 if everything is sound (there may be warnings), 1 if anything is not.",
    },
    Page {
        command: "draw",
        more: "The drawing is made from the program, never from the drawings in the document; so it also works \
            where those are out of date.",
        examples: &[
            "ftl draw coder                               a Mermaid diagram",
            "ftl draw coder --format edges                one `FROM TO` per line, for scripts",
            "ftl draw coder --format svg -o coder.svg     a picture",
            "ftl draw .ftl/protocols/mine.md --write      put the drawings in the document right",
        ],
        last: "",
    },
    Page {
        command: "protocols",
        more: "A document in .ftl/protocols/ adds a protocol, or replaces the built-in one of its name.",
        examples: &["ftl protocols", "ftl protocols --json | jq -r '.protocols[].digest'"],
        last: "",
    },
    Page {
        command: "schema",
        more: "",
        examples: &[
            "ftl schema                     every action and role, with a line each",
            "ftl schema verify.run          what the gate takes and answers",
            "ftl schema architect           every form of asking the architect",
        ],
        last: "",
    },
    Page {
        command: "completions",
        more: "",
        examples: &[
            "ftl completions bash > ~/.local/share/bash-completion/completions/ftl",
            "ftl completions zsh > ~/.zfunc/_ftl",
            "ftl completions fish > ~/.config/fish/completions/ftl.fish",
        ],
        last: "",
    },
    Page {
        command: "man",
        more: "",
        examples: &["ftl man | man -l -", "ftl man check > ftl-check.1"],
        last: "",
    },
];

/// Coding agents on rails: protocols are documents that execute
#[derive(Debug, Parser)]
#[command(name = "ftl", version, styles = STYLES, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,

    /// The repository; else the nearest folder upward with .ftl/, or the git root
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) repo: Option<PathBuf>,

    /// Who you are, for the record; else git's user.name
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    #[arg(env = "FTL_BY", hide_env_values = true)]
    #[allow(dead_code, reason = "kept for the commands of a person, which come later")]
    pub(crate) by: Option<String>,

    /// Colours: auto, always or never; NO_COLOR and CLICOLOR count
    #[arg(long, global = true, value_name = "WHEN", help_heading = "Everywhere")]
    #[arg(value_enum, default_value_t = ColorChoice::Auto, hide_possible_values = true, hide_default_value = true)]
    #[allow(dead_code, reason = "taken from the words before they are parsed, see out.rs")]
    pub(crate) color: ColorChoice,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prove protocols: loops that end, gates that hold, drawings that agree
    Check(Check),

    /// Draw a protocol as a diagram, table, list of edges or picture
    Draw(Draw),

    /// List the protocols, with origin, size and digest
    Protocols,

    /// Show the actions and roles that a protocol may name, as JSON schemas
    Schema {
        /// An action such as verify.run, or a role such as architect; all of them if left out
        name: Option<String>,
    },

    /// Print a completion script for your shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },

    /// Print the manual page
    Man {
        /// The page of one command; the main page if left out
        command: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Documents by path, protocols by name; every protocol if left out
    #[arg(value_name = "FILE|NAME")]
    pub(crate) what: Vec<OsString>,

    /// Only problems and the last line
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// A protocol by name, or a document by path
    #[arg(value_name = "NAME|FILE")]
    pub(crate) what: OsString,

    /// How to draw it: mermaid, table, edges, dot or svg
    #[arg(long, short, value_enum, default_value_t = Format::Mermaid, hide_possible_values = true)]
    pub(crate) format: Format,

    /// Bring the diagrams and From/To tables in the document up to date
    #[arg(long, conflicts_with = "output")]
    pub(crate) write: bool,

    /// Write the drawing to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A Mermaid state diagram
    Mermaid,
    /// A Markdown table of From, To, When
    Table,
    /// One `FROM TO` per line, sorted
    Edges,
    /// Graphviz
    Dot,
    /// A picture
    Svg,
}

impl Format {
    /// The word for it on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Format::Mermaid => "mermaid",
            Format::Table => "table",
            Format::Edges => "edges",
            Format::Dot => "dot",
            Format::Svg => "svg",
        }
    }
}

/// The whole command line, with its commands in groups and its examples.
pub(crate) fn command() -> clap::Command {
    let main = Cli::command();
    let options = paint(paint::STRONG, "Options:");
    let template = format!("{HEAD}{}{options}\n{{options}}{{after-help}}", groups(&main));
    let main = MAIN.dress(main).help_template(template);
    let dress = |main: clap::Command, page: &Page| {
        main.mut_subcommand(page.command, |one| {
            page.dress(one).help_template(format!("{HEAD}{{all-args}}{{after-help}}"))
        })
    };
    PAGES.iter().fold(main, dress)
}

/// How every help begins.
const HEAD: &str = "{about}\n\n{before-help}{usage-heading} {usage}\n\n";

impl Page {
    fn dress(&self, command: clap::Command) -> clap::Command {
        let examples: Vec<String> = self.examples.iter().map(|example| format!("  {example}")).collect();
        let mut after = format!("{}\n{}", paint(paint::STRONG, "Examples:"), examples.join("\n"));
        if !self.last.is_empty() {
            after.push_str(&format!("\n\n{}", self.last));
        }
        let command = command.after_help(after);
        if self.more.is_empty() { command } else { command.before_help(self.more) }
    }
}

fn groups(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{}\n", paint(paint::STRONG, format!("{title}:"))));
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about =
                about.map_or_else(|| "Print this, or the help of a command".to_owned(), ToString::to_string);
            let name = paint(*STYLES.get_literal(), format!("{name:<12}"));
            text.push_str(&format!("  {name} {about}\n"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_its_page() {
        for command in Cli::command().get_subcommands() {
            assert!(PAGES.iter().any(|page| page.command == command.get_name()), "{}", command.get_name());
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let known: Vec<String> =
            Cli::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
        for name in &known {
            assert_eq!(grouped.iter().filter(|one| *one == name).count(), 1, "{name}");
        }
        assert_eq!(grouped.len(), known.len() + 1, "only `help` is clap's own");
    }

    #[test]
    fn the_words_of_formats_are_the_ones_of_the_command_line() {
        for format in Format::value_variants() {
            assert_eq!(format.to_possible_value().unwrap().get_name(), format.word());
        }
    }
}
