//! The command line: its words, and the help that a person reads.
//!
//! Only words are understood here. Nothing is read from the disk, so help and version are instant.

use std::ffi::OsString;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::builder::styling::Styles;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Group, Out, Page};
use ftl_view::paint::{self, paint};

mod called;
mod flows;

pub(crate) use called::{asks_for_version, parse};
pub(crate) use flows::{Campaign, Code, Flow, FlowOptions, TalkArg, Task, WorkOptions};

use crate::pages::{MAIN, PAGES};
use crate::tasks::{self, Lifecycle};

/// The groups of `ftl --help`: what a person needs.
const NEEDED: &[(&str, &[&str])] = &[
    ("Work", &["task", "campaign", "code"]),
    ("See", &["status", "watch", "serve", "why", "diff", "transcript"]),
    ("Steer", &["answer", "resume", "undo"]),
    ("Set up", &["init", "doctor", "demo"]),
];

/// The groups of `ftl help --all`. A command that is in no group fails a test below.
const GROUPS: &[(&str, &[&str])] = &[
    ("Flows", &["task", "campaign", "code"]),
    (
        "A task's lifecycle",
        &[
            "new", "plan", "review", "codegen", "test", "accept", "revert", "next", "redo", "show", "adopt",
            "repl",
        ],
    ),
    ("Run", &["run", "resume", "retry", "stop"]),
    (
        "See and steer",
        &[
            "status",
            "why",
            "log",
            "transcript",
            "diff",
            "watch",
            "serve",
            "tui",
            "export",
            "answer",
            "override",
            "raise",
            "undo",
            "salvage",
            "clean",
            "audit",
        ],
    ),
    (
        "The FTL protocol's own",
        &[
            "workspace",
            "memory",
            "observer",
            "exploration",
            "orchestration",
            "phase",
            "decision",
            "framework",
            "benchmark",
            "logfile",
            "query",
            "stats",
            "prune",
            "related",
            "similar",
            "observe",
        ],
    ),
    ("Protocols", &["check", "draw", "protocols", "schema"]),
    (
        "Set-up",
        &[
            "demo",
            "init",
            "config",
            "trust",
            "agents",
            "mcp",
            "sandbox",
            "doctor",
            "completions",
            "man",
            "help",
        ],
    ),
];

const STYLES: Styles = Styles::styled()
    .header(paint::STRONG)
    .usage(paint::STRONG)
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(Style::new().dimmed())
    .error(paint::ERROR)
    .valid(paint::GOOD)
    .invalid(paint::WARNING);

/// Coding agents on rails: protocols are documents that execute
#[derive(Debug, Parser)]
#[command(name = "ftl", version, styles = STYLES, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Subcommands,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Subcommands {
    /// Run a protocol until it ends or needs a person
    Run(RunArgs),

    /// Continue runs that were interrupted
    Resume(Resume),

    /// Retry the blocked tasks of a run and the tasks that waited for them
    Retry(RetryArgs),

    /// List leftovers of ended runs in git; with --yes, remove them
    Clean(Clean),

    /// Stop a run, or one instance of it
    Stop(StopArgs),

    /// List runs: state, cost, and what each waits for
    Status(StatusArgs),

    /// Explain the state of a run and list what you can do
    Why {
        /// A run, or the beginning of it; RUN/SEQ is one task of its plan, RUN/INSTANCE an instance
        #[arg(value_name = "RUN[/SEQ]")]
        id: String,
    },

    /// Show the history of a run: states, verdicts, people
    Log(Log),

    /// Show what agents said, called and got back
    Transcript(Transcript),

    /// Show the changes of a run or a task
    Diff(Diff),

    /// Watch runs live on a board
    Watch {
        /// A run, or the beginning of it; every run if left out
        id: Option<String>,
    },

    /// Answer a question of a run
    Answer(AnswerArgs),

    /// Force a declared transition whose conditions do not hold
    Override(Override),

    /// Raise a limit of a run
    Raise(Raise),

    /// Take a run's commits back off your branch
    Undo(Undo),

    /// List kept work, or restore it as a branch or as files
    Salvage(Salvage),

    /// Verify that journals are intact
    Audit {
        #[command(subcommand)]
        what: Audit,
    },

    /// Run one task from objective to commit: `ftl "<task>"`
    Task(Group<Task>),

    /// Run many tasks in a graph: `ftl campaign "<objective>"`
    Campaign(Group<Campaign>),

    /// Implement one story with plan and code review: `ftl code "<story>"`
    Code(Code),

    #[command(flatten)]
    Lifecycle(Lifecycle),

    #[command(flatten)]
    Compat(ftl_compat::Command),

    /// Run a complete campaign on a small program, offline
    Demo(Demo),

    /// Detect tests and agents and write commented settings
    Init(Init),

    /// Show every setting with its value and origin
    Config,

    /// List files of the repository that ftl takes orders from, and trust them
    Trust(Trust),

    /// List configured agents and what each of them enforces
    Agents(Agents),

    /// Serve an agent's tools over the Model Context Protocol
    Mcp,

    /// Show all runs on a page in the browser, and answer there
    Serve(Serve),

    /// Show all runs full-screen in the terminal, and answer there
    Tui,

    /// Write a run as one file that a browser shows
    Export(Export),

    /// Show what a role may touch, or run one command in its sandbox
    Sandbox {
        #[command(subcommand)]
        what: SandboxVerb,
    },

    /// Check whether you can work here, and repair the state
    Doctor(Doctor),

    /// Check protocols: bounded loops, gates, diagrams
    Check(Check),

    /// Draw a protocol as a diagram, table, edge list or picture
    Draw(Draw),

    /// List protocols with origin, size and digest
    Protocols,

    /// Print the JSON schemas of actions and roles
    Schema {
        /// An action such as verify.run, or a role such as architect; all of them if left out
        name: Option<String>,
    },

    /// Print a completion script for your shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// Print the manual page
    Man {
        /// The page of one command; the main page if left out
        command: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The protocol
    #[arg(value_name = "NAME")]
    pub(crate) protocol: String,

    /// The inputs: name=value, the value JSON or text
    #[arg(value_name = "INPUT=VALUE")]
    pub(crate) inputs: Vec<String>,

    /// Agents and actions answer from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) talk: TalkArg,
}

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Trust them without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Trust only files with this digest; may be given several times
    #[arg(long, value_name = "D", requires = "yes")]
    pub(crate) digest: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The folder for the repository: empty, or not yet there
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Show it live on a page in the browser, slowed down enough to be watched
    #[arg(long)]
    pub(crate) serve: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The port on loopback; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 7717)]
    pub(crate) port: u16,

    /// Open the page in the browser
    #[arg(long)]
    pub(crate) open: bool,

    /// Take no orders: the page only looks
    #[arg(long)]
    pub(crate) look: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The run, or the beginning of it
    pub(crate) run: String,

    /// As a page with the journal in it, which checks its own chain
    #[arg(long, required = true)]
    pub(crate) html: bool,

    /// The file; run-RUN.html in this folder if left out, `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How many tools a build may be given.
pub(crate) const MAX_TOOLS: u64 = ftl_records::plan_file::MAX_BUDGET;

/// How many agents may be asked for. Whether the machine holds them is told before they begin.
pub(crate) const MAX_JOBS: u16 = 4_096;

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// A run, or the beginning of it; everything that can go on if left out
    pub(crate) id: Option<String>,

    /// Carry out the orders that wait and drive on; what is held stays held
    #[arg(long, requires = "id")]
    pub(crate) orders_only: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArg,
}

/// How blocked tasks are tried again.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// The run, or the beginning of it; it must have ended
    pub(crate) run: String,

    /// The blocked tasks, by their numbers; all of them if left out
    #[arg(value_name = "SEQ")]
    pub(crate) tasks: Vec<String>,

    /// Start from scratch, not from kept work
    #[arg(long)]
    pub(crate) fresh: bool,

    #[command(flatten)]
    pub(crate) options: FlowOptions,
}

/// What is cleaned.
#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Remove what is listed; for seven days `ftl clean --undo` brings it back
    #[arg(long)]
    pub(crate) yes: bool,

    /// Bring back what was removed last
    #[arg(long, conflicts_with_all = ["yes", "older_than"])]
    pub(crate) undo: bool,

    /// Kept work is old after so many days
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub(crate) older_than: u32,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// A run or run/instance, or the beginning of it
    pub(crate) id: String,

    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// A run, or the beginning of it; every run if left out
    pub(crate) id: Option<String>,

    /// Also every run that has ended, not only the last ones
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// A run or run/instance, or the beginning of it
    pub(crate) id: String,

    /// Follow until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Show every entry, not only states, verdicts and what people said
    #[arg(long)]
    pub(crate) all: bool,

    /// Show only entries after this number
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) after: u64,

    /// Show only this many entries, the last ones
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Transcript {
    /// A run, or the beginning of it; RUN/SEQ is one task of its plan, RUN/INSTANCE an instance
    #[arg(value_name = "RUN[/SEQ]")]
    pub(crate) id: String,

    /// Follow until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Show prompts, thoughts, arguments and results whole
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A run, or the beginning of it; RUN/SEQ is one task of its plan, RUN/INSTANCE an instance
    #[arg(value_name = "RUN[/SEQ]")]
    pub(crate) id: String,

    /// Show how many lines of which files instead of the patch
    #[arg(long)]
    pub(crate) stat: bool,
}

/// Whether an order of a person is only left behind.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WaitArg {
    /// Leave it in the store for the next process that drives the run, and do not drive it
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// A run or run/instance, or the beginning of it
    pub(crate) id: String,

    /// The answer: text, JSON, or - for standard input
    pub(crate) value: String,

    /// Which question, such as 3.0, where several are open; `ftl why` names them
    #[arg(long, value_name = "N.M")]
    pub(crate) question: Option<String>,

    /// The reason, for the record, where a word is said
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) wait: WaitArg,
}

#[derive(Debug, Args)]
pub(crate) struct Override {
    /// A run or run/instance, or the beginning of it
    pub(crate) id: String,

    /// The state to go to
    pub(crate) state: String,

    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) wait: WaitArg,
}

#[derive(Debug, Args)]
pub(crate) struct Raise {
    /// A run or run/instance, or the beginning of it
    pub(crate) id: String,

    /// The meter: tokens, money, time, turns, or one of the protocol's own
    pub(crate) meter: String,

    /// The new limit, such as 8M, 12.50 or 4h
    pub(crate) amount: String,

    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) wait: WaitArg,
}

#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// The run, or the beginning of it; the one that delivered last if left out
    pub(crate) run: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Salvage {
    /// What to bring back: a worktree/number of the list, or the beginning of it; lists all if left out
    pub(crate) id: Option<String>,

    /// As this new branch; else salvage/ID
    #[arg(long, value_name = "NAME", requires = "id", conflicts_with = "into")]
    pub(crate) branch: Option<String>,

    /// As files in this new folder
    #[arg(long, value_name = "DIR", requires = "id")]
    pub(crate) into: Option<PathBuf>,

    /// List everything that is kept, not only the newest
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Look for entries that were edited, dropped or moved
    Verify {
        /// A run, or the beginning of it; every run if left out
        id: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxVerb {
    /// Show what a role or a kind of command may touch here
    Show {
        /// A role, such as builder, or a kind of command, such as verify
        role: String,
    },
    /// Run one command as a role would run it
    Try(SandboxTry),
}

#[derive(Debug, Args)]
pub(crate) struct SandboxTry {
    /// The role or kind of command whose rules count
    #[arg(long, value_name = "ROLE", default_value = "verify")]
    pub(crate) role: String,

    /// How much holds it back: full, partial or none; else the best that can be had here
    #[arg(long, value_name = "LEVEL", value_parser = flows::levels())]
    pub(crate) level: Option<ftl_process::sandbox::SandboxLevel>,

    /// The command and its words
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also run the tests on HEAD, and read everything: all content, all journals, decided again
    #[arg(long)]
    pub(crate) deep: bool,

    /// Go on without what is missing of a damaged store; a copy of it is kept
    #[arg(long, requires = "reason", conflicts_with = "deep")]
    pub(crate) accept_loss: bool,

    /// The reason, for the record
    #[arg(long, value_name = "TEXT", requires = "accept_loss")]
    pub(crate) reason: Option<String>,
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

/// The flag of a lesson as people write it, and as it is told from the form of what goes out.
pub(crate) const JSON: &str = "--json";
pub(crate) const ENTRY: &str = "--entry";

/// The words of the command line, as clap knows them.
pub(crate) fn words(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = args.collect();
    lesson_words(&mut words);
    flow_words(&mut words);
    words
}

/// In `memory add-failure` and `memory add-pattern` the flag `--json` is what comes in; everywhere else it
/// is the form of what goes out.
fn lesson_words(words: &mut [OsString]) {
    let at = |wanted: &[&str]| words.iter().position(|word| wanted.iter().any(|one| word == one));
    let (memory, verb) = (at(&["memory"]), at(&["add-failure", "add-pattern"]));
    if let (Some(memory), Some(verb)) = (memory, verb)
        && verb == memory + 1
    {
        for word in &mut words[verb + 1..] {
            let text = word.to_string_lossy().into_owned();
            if text == JSON {
                *word = OsString::from(ENTRY);
            } else if let Some(value) = text.strip_prefix("--json=") {
                *word = OsString::from(format!("{ENTRY}={value}"));
            }
        }
    }
}

/// `ftl "<task>"` is `ftl task run "<task>"`, and `ftl campaign "<objective>"` is `ftl campaign run
/// "<objective>"`: no command and no verb has white space in it.
fn flow_words(words: &mut Vec<OsString>) {
    let Some(first) = first_word(words, 1) else { return };
    if is_flow(&words[first]) {
        words.splice(first..first, ["task", "run"].map(OsString::from));
    } else if words[first] == "campaign"
        && let Some(verb) = first_word(words, first + 1)
        && is_flow(&words[verb])
    {
        words.insert(verb, OsString::from("run"));
    }
}

/// The hint for an objective of one word, which is taken for a command or a verb.
pub(crate) fn flow_hint(kind: clap::error::ErrorKind, words: &[OsString]) -> Option<String> {
    if kind != clap::error::ErrorKind::InvalidSubcommand {
        return None;
    }
    let first = first_word(words, 1)?;
    let (flow, at) = match words[first] == "campaign" {
        true => ("campaign run", first_word(words, first + 1)?),
        false => ("task run", first),
    };
    let is_command = Cli::command().find_subcommand(words[first].to_string_lossy().as_ref()).is_some();
    (flow == "campaign run" || !is_command).then(|| {
        format!("an objective of one word needs its flow: ftl {flow} {}", words[at].to_string_lossy())
    })
}

/// Whether a word can only belong to a flow: an objective, or a flag that nothing else has there.
fn is_flow(word: &OsString) -> bool {
    let text = word.to_string_lossy();
    let flag = text.split('=').next().unwrap_or_default();
    text.is_empty()
        || (!text.starts_with('-') && text.contains(char::is_whitespace))
        || ["--plan", "--dry-run", "--jobs"].contains(&flag)
}

/// The flags of every command that have a value, as one word.
const WITH_VALUES: [&str; 4] = ["--repo=", "--by=", "--color=", "--campaign="];

/// The first word from there on that is no flag of every command, nor the value of one.
fn first_word(words: &[OsString], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let text = words.get(at)?.to_string_lossy();
        match text.as_ref() {
            "--repo" | "--by" | "--color" | "--campaign" => at += 2,
            "--json" => at += 1,
            _ if WITH_VALUES.iter().any(|flag| text.starts_with(flag)) => at += 1,
            _ => return Some(at),
        }
    }
}

/// Whether every command is to be listed: `ftl help --all`.
pub(crate) fn asks_for_all(words: &[OsString]) -> bool {
    let Some(first) = first_word(words, 1) else { return false };
    let rest: Vec<&OsString> = words[first + 1..].iter().collect();
    (words[first] == "help" || words[first] == "--help") && rest == ["--all"]
}

/// The help that lists every command.
pub(crate) fn help_of_all() -> String {
    let main = Cli::command();
    let groups = groups(&main, GROUPS);
    let title = format!("{} ftl [OPTIONS] <COMMAND>", paint(paint::STRONG, "Usage:"));
    format!("{title}\n\n{groups}`ftl help COMMAND` tells more about one.\n")
}

/// The help of a group, with the exit code of a group that was given no verb.
pub(crate) fn help(out: &Out, group: &str, exit: ExitStatus) -> Result<ExitStatus, CommandError> {
    out.text(&help_text(group))?;
    Ok(exit)
}

/// The help of a group.
pub(crate) fn help_text(group: &str) -> String {
    let mut command = command();
    // Only then does a group know that it is called `ftl GROUP`.
    command.build();
    let help = command.find_subcommand_mut(group).map(|group| group.render_help().ansi().to_string());
    help.unwrap_or_default()
}

/// The whole command line, with its commands in groups and its examples.
pub(crate) fn command() -> clap::Command {
    let main = Cli::command();
    let options = paint(paint::STRONG, "Options:");
    let rest = "`ftl help --all` lists every command, `ftl help COMMAND` tells more about one.";
    let groups = groups(&main, NEEDED);
    let template = format!("{HEAD}{groups}{rest}\n\n{options}\n{{options}}{{after-help}}");
    let main = MAIN.dress(main).help_template(template);
    let dress = |main: clap::Command, page: &Page| {
        main.mut_subcommand(page.command, |one| {
            page.dress(one).help_template(format!("{HEAD}{{all-args}}{{after-help}}"))
        })
    };
    PAGES.iter().chain(ftl_compat::PAGES).chain(tasks::PAGES).fold(main, dress)
}

/// How every help begins.
const HEAD: &str = "{about}\n\n{before-help}{usage-heading} {usage}\n\n";

fn groups(command: &clap::Command, all: &[(&str, &[&str])]) -> String {
    let mut text = String::new();
    for (title, names) in all {
        text.push_str(&format!("{}\n", paint(paint::STRONG, format!("{title}:"))));
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about =
                about.map_or_else(|| "Show help; --all lists every command".to_owned(), ToString::to_string);
            let name = paint(*STYLES.get_literal(), format!("{name:<13}"));
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
    fn an_objective_is_told_from_a_command() {
        let cases = [
            ("ftl|fix the bug", "ftl|task|run|fix the bug"),
            (
                "ftl|--json|--repo|a b|fix the bug|--dry-run",
                "ftl|--json|--repo|a b|task|run|fix the bug|--dry-run",
            ),
            ("ftl|--by=A B|fix\nit", "ftl|--by=A B|task|run|fix\nit"),
            ("ftl|", "ftl|task|run|"),
            ("ftl|--plan|p|fix it", "ftl|task|run|--plan|p|fix it"),
            ("ftl|--jobs=3|fix it", "ftl|task|run|--jobs=3|fix it"),
            ("ftl|fix", "ftl|fix"),
            ("ftl|task|run|fix it", "ftl|task|run|fix it"),
            ("ftl|campaign|add a login", "ftl|campaign|run|add a login"),
            ("ftl|campaign|--json|add a login", "ftl|campaign|--json|run|add a login"),
            ("ftl|campaign|--dry-run|add", "ftl|campaign|run|--dry-run|add"),
            ("ftl|campaign|status", "ftl|campaign|status"),
            ("ftl|campaign|create|add a login", "ftl|campaign|create|add a login"),
            ("ftl|campaign", "ftl|campaign"),
            ("ftl|--campaign|k3|campaign|status", "ftl|--campaign|k3|campaign|status"),
            ("ftl|answer|k3|all of it", "ftl|answer|k3|all of it"),
            ("ftl", "ftl"),
            ("ftl|--repo", "ftl|--repo"),
            ("ftl|--help", "ftl|--help"),
        ];
        for (typed, wanted) in cases {
            let found = words(typed.split('|').map(OsString::from));
            let found: Vec<String> = found.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(found.join("|"), wanted, "{typed}");
        }
    }

    /// The sources of this program and of the engine.
    fn sources(folder: &std::path::Path, found: &mut Vec<String>) {
        for one in std::fs::read_dir(folder).unwrap() {
            let path = one.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// A command of a hint with something in each of its holes.
    fn filled(command: &str) -> String {
        let mut text = String::new();
        let mut rest = command;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            text.push_str("k3v9");
            rest = after.split_once('}').map_or("", |(_, rest)| rest);
        }
        text + rest
    }

    /// Commands that messages speak of as such, and not to be typed as they stand.
    const NAMED: [&str; 4] = ["ftl retry", "ftl campaign run", "ftl task run", "ftl new"];

    #[test]
    fn every_command_that_a_message_names_can_be_typed() {
        let mut all = Vec::new();
        for folder in ["src", "../command/src", "../compat/src", "../engine/src", "../view/src"] {
            sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut all);
        }
        let lines = all.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().starts_with("//"));
        let named = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
        let (mut count, mut wrong) = (0, Vec::new());
        for command in
            named.filter(|words| words.starts_with("ftl ") && !words.contains(['…', '\\', '<', '[', '"']))
        {
            let command = filled(&command.replace("COMMAND", "status"));
            let typed = words(command.split_whitespace().map(OsString::from));
            let helps = [clap::error::ErrorKind::DisplayHelp, clap::error::ErrorKind::DisplayVersion];
            if let Err(error) = Cli::try_parse_from(&typed)
                && !helps.contains(&error.kind())
                && !asks_for_all(&typed)
                && !NAMED.contains(&command.as_str())
            {
                wrong.push(command);
            }
            count += 1;
        }
        assert_eq!(wrong, Vec::<String>::new(), "cannot be typed");
        assert!(count > 60, "{count}");
    }

    #[test]
    fn every_command_has_its_page() {
        for command in Cli::command().get_subcommands() {
            assert!(
                PAGES
                    .iter()
                    .chain(ftl_compat::PAGES)
                    .chain(tasks::PAGES)
                    .any(|page| page.command == command.get_name()),
                "{}",
                command.get_name()
            );
        }
    }

    #[test]
    fn what_a_person_needs_is_about_a_dozen_and_there() {
        let needed: Vec<&str> = NEEDED.iter().flat_map(|(_, names)| *names).copied().collect();
        assert!((12..=15).contains(&needed.len()), "{needed:?}");
        let all = Cli::command();
        assert!(needed.iter().all(|name| all.find_subcommand(name).is_some()), "{needed:?}");
    }

    #[test]
    fn every_command_is_asked_for_by_two_words_alone() {
        let asks = |typed: &str| asks_for_all(&typed.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("ftl help --all") && asks("ftl --help --all") && asks("ftl --color never help --all"));
        assert!(
            !asks("ftl help") && !asks("ftl log k3 --all") && !asks("ftl help log --all") && !asks("ftl")
        );
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

/// The words of `ftl agents`.
#[derive(Debug, Args)]
pub(crate) struct Agents {
    #[command(subcommand)]
    pub(crate) what: Option<AgentsVerb>,
}

/// What can be done with agents.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsVerb {
    /// Ask one agent to submit, with one cheap turn
    Probe {
        /// Its name in the settings
        name: String,
    },
    /// Make a script of what the agents of a run said and did
    Record {
        /// The run
        id: String,
        /// Where the script goes; without it, to standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// The words of `ftl init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Print the files instead of writing them
    #[arg(long)]
    pub(crate) print: bool,
}
