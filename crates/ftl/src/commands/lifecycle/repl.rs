//! `ftl repl`: the words of the lifecycle behind a slash, on a terminal or from a script on standard input.
//!
//! One command at a time: a line that is typed while a phase runs waits for its end. Every command is the one
//! of the shell, with its exit code; what is no command is a note for the task's transcript, and moves nothing.

use std::io::{BufRead as _, IsTerminal as _};

use clap::FromArgMatches as _;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_core::json::{Json, JsonExt as _};
use ftl_lifecycle::folder::TRANSCRIPT;
use ftl_lifecycle::phases::{Phases, command};
use ftl_lifecycle::{TaskFolder, registry, write};
use ftl_view::paint::{self, paint};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{DefaultHistory, History as _};
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::task_session::TaskSession;
use super::view::View;
use super::{on, show};
use crate::cli::{self, Cli, Subcommands};
use crate::tasks::{Lifecycle, TaskArg};

/// How many lines are remembered.
const MAX_HISTORY: usize = 1000;

/// How long a line may be.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The commands, with what each does.
const COMMANDS: &[(&str, &str)] = &[
    ("/plan", "have the planner write the plan"),
    ("/review plan", "have the reviewers read the plan"),
    ("/codegen", "have the coder write files and patch"),
    ("/review code", "have the reviewers read the patch"),
    ("/test", "run the suites on the patch"),
    ("/accept", "decide: --verdict, --route, --reason"),
    ("/revert", "undo what was applied: --reason"),
    ("/next", "look and move: --to, --eval, --auto, --override"),
    ("/redo", "back to a phase: PHASE and why"),
    ("/status", "the phase, what is missing, what to do"),
    ("/new", "begin a task: its brief"),
    ("/task", "go on with another task: its name"),
    ("/adopt", "take the folder as it stands"),
    ("/help", "this list"),
    ("/quit", "the end"),
];

/// The command that a line asks for.
enum Line {
    Nothing,
    Quit,
    Help,
    Task(String),
    Note(String),
    Do(Box<Lifecycle>),
    Wrong(String),
}

/// `ftl repl`.
pub(super) fn run(cli: &GlobalArgs, asked: &TaskArg, out: &Out) -> Result<ExitStatus, CommandError> {
    out.respell_with(behind_slash);
    let task_session = TaskSession::open(cli, out)?;
    if asked.task.is_some() {
        let id = task_session.task(asked)?;
        task_session.make_current(&id)?;
    }
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !out.is_json() {
        typed(&task_session)
    } else {
        scripted(&task_session)
    }
}

/// A hint as it is typed here: `/plan` where it names `ftl plan`. Commands that are none of these stay as they are.
fn behind_slash(text: &str) -> String {
    let respelled = COMMANDS.iter().fold(text.to_owned(), |text, (name, _)| {
        let shell = name.replacen('/', "`ftl ", 1);
        let typed = format!("`{name}");
        text.replace(&format!("{shell}`"), &format!("{typed}`"))
            .replace(&format!("{shell} "), &format!("{typed} "))
    });
    respelled.replace("`ftl show`", "`/status`")
}

/// Lines of a script, to their end.
fn scripted(task_session: &TaskSession<'_>) -> Result<ExitStatus, CommandError> {
    let mut worst = ExitStatus::Done;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| {
            CommandError::new(format!("standard input cannot be read: {error}"), "it must be UTF-8 text")
        })?;
        match obey(task_session, &line)? {
            Some(ExitStatus::Done) => {}
            Some(exit) => worst = exit,
            None => break,
        }
        if task_session.stop.times_said() > 0 {
            return Ok(ExitStatus::Interrupted);
        }
    }
    Ok(worst)
}

/// How lines are edited and remembered.
fn config() -> Result<Config, ReadlineError> {
    Ok(Config::builder().max_history_size(MAX_HISTORY)?.auto_add_history(true).build())
}

/// Lines that a person types.
fn typed(task_session: &TaskSession<'_>) -> Result<ExitStatus, CommandError> {
    let cannot = |error: ReadlineError| {
        CommandError::new(format!("the terminal cannot be read: {error}"), "run it in another one")
    };
    let config = config().map_err(cannot)?;
    let mut editor: Editor<Words, DefaultHistory> = Editor::with_config(config).map_err(cannot)?;
    editor.set_helper(Some(Words::of(&task_session.phases)));
    let file = task_session.session.place().store().join("repl.history");
    // The first time there is none.
    let _ = editor.load_history(&file);
    greet(task_session)?;
    loop {
        match editor.readline(&prompt(task_session)) {
            Ok(line) => {
                let ended = obey(task_session, &line)?;
                task_session.stop.take_back();
                // The task goes on where the history cannot be kept.
                let _ = editor.history_mut().save(&file);
                if ended.is_none() {
                    return Ok(ExitStatus::Done);
                }
            }
            Err(ReadlineError::Interrupted) => task_session.out.text("/quit or Ctrl-D ends it\n")?,
            Err(ReadlineError::Eof) => return Ok(ExitStatus::Done),
            Err(error) => return Err(cannot(error)),
        }
    }
}

/// Prints what a person sees first.
fn greet(task_session: &TaskSession<'_>) -> Result<(), CommandError> {
    task_session.out.text("/help lists the commands; other lines are notes\n")?;
    match task_session.task(&TaskArg::default()) {
        Ok(_) => show::run(task_session.cli, &TaskArg::default(), task_session.out).map(|_| ()),
        Err(failure) => task_session.out.text(&format!("{}; {}\n", failure.message, failure.hint)),
    }
}

/// The task and where it stands.
fn prompt(task_session: &TaskSession<'_>) -> String {
    let Ok(id) = task_session.task(&TaskArg::default()) else { return String::from("ftl> ") };
    let folder = TaskFolder::of(task_session.session.place(), &id);
    match task_session.standing(&folder) {
        Ok(registry::TaskStanding::Unknown { phase } | registry::TaskStanding::Agrees { phase, .. }) => {
            format!("{id} {phase}> ")
        }
        Ok(registry::TaskStanding::Disagrees { .. }) => format!("{id} changed> "),
        Err(_) => format!("{id}> "),
    }
}

/// Does what a line says; `None` at the end.
fn obey(task_session: &TaskSession<'_>, line: &str) -> Result<Option<ExitStatus>, CommandError> {
    let exit = match read(line) {
        Line::Nothing => ExitStatus::Done,
        Line::Quit => return Ok(None),
        Line::Help => {
            help(task_session.out)?;
            ExitStatus::Done
        }
        Line::Task(name) => print_outcome(task_session, switch(task_session, &name)),
        Line::Note(text) => print_outcome(task_session, note(task_session, &text)),
        Line::Do(asked) => {
            let exit = print_outcome(task_session, on(task_session, &asked));
            if !task_session.out.is_json() && exit == ExitStatus::Done {
                what_next(task_session)?;
            }
            exit
        }
        Line::Wrong(message) => {
            task_session.out.error(&CommandError::usage(message, "/help lists the commands"));
            ExitStatus::Usage
        }
    };
    Ok(Some(exit))
}

fn print_outcome(task_session: &TaskSession<'_>, done: Result<ExitStatus, CommandError>) -> ExitStatus {
    done.unwrap_or_else(|failure| task_session.out.failed(&failure))
}

/// What is missing and what to do, after a command that went well.
fn what_next(task_session: &TaskSession<'_>) -> Result<(), CommandError> {
    let Ok(view) = View::new(task_session.cli, &TaskArg::default()) else { return Ok(()) };
    let Ok(seen) = view.stands() else { return Ok(()) };
    let Ok(outlook) = view.outlook(&seen) else { return Ok(()) };
    let hint = paint(paint::HINT, "next:");
    let way = match (outlook.open(), view.phases.work(&seen.phase)) {
        (Some(to), _) => format!("/next goes to {to}"),
        (None, Some(word)) => {
            format!("{} ({})", command(word).replacen("ftl ", "/", 1), outlook.summary)
        }
        (None, None) => String::from("/redo PHASE opens it again"),
    };
    task_session.out.text(&format!("{hint} {}\n", paint::lines(&way)))
}

fn help(out: &Out) -> Result<(), CommandError> {
    let rows: String = COMMANDS.iter().map(|(name, about)| format!("  {name:<13} {about}\n")).collect();
    if out.is_json() {
        let names = Json::object(COMMANDS.iter().map(|(name, about)| (*name, Json::from(*about))));
        return out.bytes(&format!("{}\n", names.pretty()));
    }
    out.text(&rows)
}

fn switch(task_session: &TaskSession<'_>, name: &str) -> Result<ExitStatus, CommandError> {
    let id = task_session.task(&TaskArg { task: Some(name.to_owned()) })?;
    task_session.make_current(&id)?;
    show::run(task_session.cli, &TaskArg::default(), task_session.out)
}

/// Writes what is no command into the task's transcript.
fn note(task_session: &TaskSession<'_>, text: &str) -> Result<ExitStatus, CommandError> {
    let id = task_session.task(&TaskArg::default())?;
    let _turn = task_session.turn(&id)?;
    let folder = TaskFolder::of(task_session.session.place(), &id);
    let line = Json::object([
        ("ts", Json::from(write::now())),
        ("kind", Json::from("note")),
        ("by", Json::from(task_session.by.as_str())),
        ("text", Json::from(task_session.session.secrets().redact(text))),
    ]);
    folder.add_line(TRANSCRIPT, &line).map_err(|error| super::task_session::disk_failure(&folder, &error))?;
    Ok(ExitStatus::Done)
}

/// Parses a line: a command behind a slash, anything else is a note.
fn read(line: &str) -> Line {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Line::Nothing;
    }
    if line.len() > MAX_LINE_BYTES {
        return Line::Wrong(format!("the line has more than {MAX_LINE_BYTES} bytes"));
    }
    let Some(command) = line.strip_prefix('/') else { return Line::Note(line.to_owned()) };
    let words = match words(command) {
        Ok(words) => words,
        Err(message) => return Line::Wrong(message),
    };
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let asked: Vec<String> = match all.as_slice() {
        ["quit" | "exit"] => return Line::Quit,
        ["help"] => return Line::Help,
        ["task", name] => return Line::Task((*name).to_owned()),
        ["status", rest @ ..] => own(&["show"], rest),
        ["planreview", rest @ ..] => own(&["review", "plan"], rest),
        ["eval", rest @ ..] => own(&["test"], rest),
        ["redo", phase, reason @ ..]
            if !reason.is_empty() && !reason.iter().any(|word| word.starts_with("--")) =>
        {
            own(&["redo", phase, "--reason", &reason.join(" ")], &[])
        }
        ["new", brief @ ..] if !brief.iter().any(|word| word.starts_with("--")) => {
            own(&["new", &brief.join(" ")], &[])
        }
        ["repl", ..] => return Line::Wrong(String::from("this is the repl already")),
        other => own(&[], other),
    };
    let given = std::iter::once(String::from("ftl")).chain(asked);
    let parsed =
        cli::command().try_get_matches_from(given).and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed.map(|cli| cli.command) {
        Ok(Subcommands::Lifecycle(asked)) => Line::Do(Box::new(asked)),
        Ok(_) => Line::Wrong(format!("`/{command}` is no command of a task")),
        Err(error) => {
            Line::Wrong(error.to_string().lines().next().unwrap_or_default().replacen("error: ", "", 1))
        }
    }
}

fn own(first: &[&str], rest: &[&str]) -> Vec<String> {
    first.iter().chain(rest).map(|word| (*word).to_owned()).collect()
}

/// The words of a line: white space parts them, quotes keep them together.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut open) = (Vec::new(), String::new(), None);
    let mut begun = false;
    for letter in line.chars() {
        match (open, letter) {
            (Some(quote), _) if letter == quote => open = None,
            (Some(_), _) => word.push(letter),
            (None, '"' | '\'') => (open, begun) = (Some(letter), true),
            (None, _) if letter.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, _) => {
                word.push(letter);
                begun = true;
            }
        }
    }
    if open.is_some() {
        return Err(String::from("a quote is not closed"));
    }
    if begun {
        words.push(word);
    }
    Ok(words)
}

/// What can be completed: commands, phases, routes, flags.
#[derive(Default)]
struct Words {
    phases: Vec<String>,
    routes: Vec<String>,
}

impl Words {
    fn of(phases: &Phases) -> Words {
        Words { phases: phases.all().map(|phase| phase.to_string()).collect(), routes: phases.routes().known }
    }
}

/// The words that fit the last one of a line, and where it begins.
fn fitting(line: &str, own: &Words) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let last = &line[start..];
    let first = line.split_whitespace().next().unwrap_or_default();
    let phases = || own.phases.iter().map(String::as_str);
    let known: Vec<&str> = match (start, first) {
        (0, _) => COMMANDS.iter().filter_map(|(name, _)| name.split(' ').next()).collect(),
        (_, "/review") => vec!["plan", "code"],
        (_, "/redo") => phases().collect(),
        (_, "/next") => ["--to", "--eval", "--auto", "--override"].into_iter().chain(phases()).collect(),
        (_, "/accept") => {
            let flags = ["--verdict", "--route", "--reason"];
            let words = ["accepted", "needs_work", "rejected", "deferred"];
            flags.into_iter().chain(words).chain(own.routes.iter().map(String::as_str)).collect()
        }
        (_, "/revert") => vec!["--reason"],
        _ => Vec::new(),
    };
    let mut fits: Vec<String> =
        known.into_iter().filter(|word| word.starts_with(last)).map(str::to_owned).collect();
    fits.dedup();
    (start, fits)
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(fitting(line.get(..at).unwrap_or(line), self))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parted_into_words() {
        let cases = [
            ("next", "next"),
            (" next  --to planning ", "next|--to|planning"),
            ("next --override \"I take it\"", "next|--override|I take it"),
            ("new 'a \"b\" c' d", "new|a \"b\" c|d"),
            ("x \"\" y", "x||y"),
        ];
        for (line, wanted) in cases {
            assert_eq!(words(line).unwrap().join("|"), wanted, "{line}");
        }
        assert!(words("next \"open").is_err());
    }

    #[test]
    fn lines_are_understood() {
        let kind = |line: &str| match read(line) {
            Line::Nothing => "nothing",
            Line::Quit => "quit",
            Line::Help => "help",
            Line::Task(_) => "task",
            Line::Note(_) => "note",
            Line::Do(asked) => match *asked {
                Lifecycle::Redo(redo) if redo.reason == "the names are wrong" => "redo",
                Lifecycle::Next(next) if next.over.as_deref() == Some("my risk") => "override",
                Lifecycle::New(new) if new.brief == "add a note" => "new",
                Lifecycle::Show(_) => "show",
                Lifecycle::Review(_) => "review",
                _ => "do",
            },
            Line::Wrong(_) => "wrong",
        };
        let cases = [
            ("", "nothing"),
            ("# a remark", "nothing"),
            ("/quit", "quit"),
            ("/exit", "quit"),
            ("/help", "help"),
            ("/task t1", "task"),
            ("hello there", "note"),
            ("/status", "show"),
            ("/review plan", "review"),
            ("/planreview", "review"),
            ("/redo codegen the names are wrong", "redo"),
            ("/redo codegen --reason \"the names are wrong\"", "redo"),
            ("/next --override \"my risk\"", "override"),
            ("/new add a note", "new"),
            ("/plan", "do"),
            ("/eval", "do"),
            ("/nonsense", "wrong"),
            ("/status --color always --bad", "wrong"),
            ("/repl", "wrong"),
            ("/run lifecycle", "wrong"),
            ("/next \"", "wrong"),
        ];
        for (line, wanted) in cases {
            assert_eq!(kind(line), wanted, "{line}");
        }
        assert_eq!(kind(&"x".repeat(MAX_LINE_BYTES + 1)), "wrong");
    }

    #[test]
    fn so_many_lines_are_remembered() {
        use rustyline::history::History as _;
        let mut history = DefaultHistory::with_config(&config().unwrap());
        for number in 0..=MAX_HISTORY {
            history.add(&format!("/note {number}")).unwrap();
        }
        assert_eq!(history.len(), MAX_HISTORY);
    }

    #[test]
    fn words_are_completed() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect();
        let own = Words { phases: names("planning plan_review codegen"), routes: names("undo codegen") };
        let cases = [
            ("/pl", 0, "/plan"),
            ("/accept --route un", 16, "undo"),
            ("/re", 0, "/review /revert /redo"),
            ("/review c", 8, "code"),
            ("/redo co", 6, "codegen"),
            ("/next --to plan", 11, "planning plan_review"),
            ("/accept --verdict n", 18, "needs_work"),
            ("hello /pl", 6, ""),
        ];
        for (line, start, wanted) in cases {
            let (found, fits) = fitting(line, &own);
            assert_eq!((found, fits.join(" ")), (start, wanted.to_owned()), "{line}");
        }
    }
}
