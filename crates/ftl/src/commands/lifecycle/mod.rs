//! The lifecycle of a task: `ftl new`, `plan`, `review`, `codegen`, `test`, `accept`, `revert`, `next`, `redo`,
//! `show`, `adopt`, `repl`.
//!
//! Each command looks at the task's folder first, and only what the artifacts allow is asked of the task's run;
//! the run moves, and `state.json` follows. Nothing of a task is written by a command that refuses.
//!
//! | module | what it holds |
//! |---|---|
//! | `task_session` | what a command works with: the task, its run, an order carried out |
//! | `next` | `ftl next`, with all its flags |
//! | `words` | the words that do the work of a phase |
//! | `back` | `ftl redo` |
//! | `show` | `ftl show`, and how things are told |
//! | `view` | a task for commands that only look |
//! | `repl` | `ftl repl` |

mod back;
#[cfg(test)]
mod counted;
mod next;
mod repl;
mod show;
mod task_session;
mod view;
mod words;

use ftl_command::input::check_words;
use ftl_command::trust::TrustScope;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, foreign, session};
use ftl_lifecycle::folder::{self, STATE};
use ftl_lifecycle::registry;
use ftl_lifecycle::state::StateFile;
use ftl_lifecycle::{TaskFolder, TaskId, write};
use ftl_store::ContentDigest;
use ftl_view::paint::{self, paint, safe};
use serde_json::json;

use task_session::TaskSession;

use crate::tasks::{Lifecycle, New, Reviewed, TaskArg};

/// Does what one of these commands says.
pub(crate) fn run(cli: &GlobalArgs, asked: &Lifecycle, out: &Out) -> Result<ExitStatus, CommandError> {
    match asked {
        Lifecycle::Show(task) => return show::run(cli, task, out),
        Lifecycle::Next(next) if next.eval => return next::eval(cli, next, out),
        Lifecycle::Repl(task) => return repl::run(cli, task, out),
        Lifecycle::New(_) | Lifecycle::Plan(_) | Lifecycle::Review(_) | Lifecycle::Codegen(_) => {}
        Lifecycle::Test(_) | Lifecycle::Accept(_) | Lifecycle::Revert(_) | Lifecycle::Next(_) => {}
        Lifecycle::Redo(_) | Lifecycle::Adopt(_) => {}
    }
    usage(asked)?;
    let task_session = TaskSession::open(cli, out)?;
    on(&task_session, asked)
}

/// What is wrong with the words alone is told before anything is opened.
fn usage(asked: &Lifecycle) -> Result<(), CommandError> {
    match asked {
        Lifecycle::New(new) => brief(&new.brief).map(|_| ()),
        Lifecycle::Next(next) => next::words(next).map(|_| ()),
        Lifecycle::Redo(redo) => back::words(redo).map(|_| ()),
        Lifecycle::Accept(accept) => words::decision(accept).map(|_| ()),
        Lifecycle::Revert(revert) => words::not_blank(revert.reason.as_deref()),
        Lifecycle::Plan(_) | Lifecycle::Review(_) | Lifecycle::Codegen(_) | Lifecycle::Test(_) => Ok(()),
        Lifecycle::Show(_) | Lifecycle::Adopt(_) | Lifecycle::Repl(_) => Ok(()),
    }
}

/// Does what a command says that changes something.
fn on(task_session: &TaskSession<'_>, asked: &Lifecycle) -> Result<ExitStatus, CommandError> {
    usage(asked)?;
    if is_persons_word(asked) {
        foreign::not_typed_by_agent()?;
    }
    session::require_trust(&task_session.session, scope(asked), task_session.out)?;
    match asked {
        Lifecycle::New(new) => begin(task_session, new),
        Lifecycle::Plan(task) => words::work(task_session, task, "plan"),
        Lifecycle::Review(review) => {
            let word = match review.what {
                Reviewed::Plan => "review_plan",
                Reviewed::Code => "review_code",
            };
            words::work(task_session, &review.task, word)
        }
        Lifecycle::Codegen(task) => words::work(task_session, task, "codegen"),
        Lifecycle::Test(task) => words::work(task_session, task, "test"),
        Lifecycle::Accept(accept) => words::accept(task_session, accept),
        Lifecycle::Revert(revert) => words::revert(task_session, revert),
        Lifecycle::Next(next) if next.eval => next::eval(task_session.cli, next, task_session.out),
        Lifecycle::Next(next) if next.auto => next::auto(task_session, next),
        Lifecycle::Next(next) => next::run(task_session, next),
        Lifecycle::Redo(redo) => back::run(task_session, redo),
        Lifecycle::Adopt(task) => adopt(task_session, task),
        Lifecycle::Show(task) => show::run(task_session.cli, task, task_session.out),
        Lifecycle::Repl(task) => repl::run(task_session.cli, task, task_session.out),
    }
}

/// Whether only a person may say it; what is left has work done or looks.
fn is_persons_word(asked: &Lifecycle) -> bool {
    match asked {
        Lifecycle::Accept(_) | Lifecycle::Revert(_) | Lifecycle::Redo(_) | Lifecycle::Adopt(_) => true,
        Lifecycle::Next(next) => next.over.is_some(),
        Lifecycle::New(_) | Lifecycle::Plan(_) | Lifecycle::Review(_) | Lifecycle::Codegen(_) => false,
        Lifecycle::Test(_) | Lifecycle::Show(_) | Lifecycle::Repl(_) => false,
    }
}

/// What a command takes orders from: one that moves a task asks no agent.
fn scope(asked: &Lifecycle) -> TrustScope<'static> {
    const NAMES: &[&str] = &[registry::PROTOCOL];
    match asked {
        Lifecycle::Next(next) if next.auto => TrustScope::Runs(NAMES, None),
        Lifecycle::Plan(_) | Lifecycle::Review(_) | Lifecycle::Codegen(_) | Lifecycle::Test(_) => {
            TrustScope::Runs(NAMES, None)
        }
        Lifecycle::Show(_) | Lifecycle::Repl(_) => TrustScope::Documents(&[]),
        Lifecycle::Next(next) if next.eval => TrustScope::Documents(&[]),
        Lifecycle::New(_) | Lifecycle::Accept(_) | Lifecycle::Revert(_) | Lifecycle::Next(_) => {
            TrustScope::Documents(NAMES)
        }
        Lifecycle::Redo(_) | Lifecycle::Adopt(_) => TrustScope::Documents(NAMES),
    }
}

/// What a task is, in words.
fn brief(text: &str) -> Result<&str, CommandError> {
    check_words(text, "brief", "say what the task is: ftl new \"add a --quiet flag\"")
}

/// `ftl new`.
fn begin(task_session: &TaskSession<'_>, new: &New) -> Result<ExitStatus, CommandError> {
    let text = &task_session.session.secrets().redact(brief(&new.brief)?);
    let run = task_session::run_id()?;
    let id = match &new.task {
        Some(name) => task_session::task_id(name)?,
        None => task_session::task_id(run.as_str())?,
    };
    let place = task_session.session.place();
    let _turn = task_session.turn(&id)?;
    let folder = TaskFolder::of(place, &id);
    let disk = |error: std::io::Error| task_session::disk_failure(&folder, &error);
    ftl_folder::make(&folder::tasks(place)).map_err(disk)?;
    if let Err(error) = ftl_folder::make_new(folder.path()) {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let hint = format!("choose another name, or go on with `ftl show --task {id}`");
            return Err(CommandError::new(format!("there is a task `{id}` already"), hint));
        }
        return Err(disk(error));
    }
    write::brief(&folder, text).map_err(disk)?;
    let bytes = StateFile::new(id.as_str(), &task_session.phases).bytes();
    folder.put(STATE, &bytes).map_err(disk)?;
    let known = registry::TaskInfo { run: run.clone(), state: Some(ContentDigest::of(&bytes).to_string()) };
    task_session.know(&id, &known)?;
    task_session.open_run(&run, text, None)?;
    task_session.make_current(&id)?;
    let first = task_session.phases.first();
    if task_session.out.is_json() {
        let path = folder.display_path("").trim_end_matches('/').to_owned();
        task_session.out.json(
            &json!({ "task": id.as_str(), "id": id.as_str(), "phase": first.word(), "path": path, "run": run }),
        )?;
    } else {
        let hint = paint(paint::HINT, "hint:");
        let name = paint(paint::STRONG, id.as_str());
        let work = match task_session.phases.command(&first) {
            Some(command) if command == "ftl plan" => String::from("`ftl plan` has it planned; "),
            Some(command) => format!("`{command}` does the work of {first}; "),
            None => String::new(),
        };
        let text = format!(
            "task {name} in {first}: {}\n{hint} {work}`ftl next` goes on; `ftl next --auto` does both\n",
            safe(text)
        );
        task_session.out.text(&text)?;
    }
    Ok(ExitStatus::Done)
}

/// `ftl adopt`.
fn adopt(task_session: &TaskSession<'_>, asked: &TaskArg) -> Result<ExitStatus, CommandError> {
    let id = task_session.task(asked)?;
    let _turn = task_session.turn(&id)?;
    let folder = TaskFolder::of(task_session.session.place(), &id);
    let before = task_session.standing(&folder)?;
    let (run, phase, adopted) = match before {
        registry::TaskStanding::Agrees { run, phase, lags } => {
            task_session.catch_up(&folder, &run, &phase, lags.as_ref())?;
            (run, phase, false)
        }
        registry::TaskStanding::Unknown { phase } => (task_session.adopt(&folder, &phase)?, phase, true),
        registry::TaskStanding::Disagrees { run, file, .. } => {
            task_session.end(&run)?;
            (task_session.adopt(&folder, &file)?, file, true)
        }
    };
    task_session.make_current(&id)?;
    if task_session.out.is_json() {
        let document = json!({ "task": id.as_str(), "phase": phase.word(), "run": run, "adopted": adopted });
        task_session.out.json(&document)?;
    } else {
        let word = if adopted { "adopted" } else { "known already" };
        task_session.out.text(&format!("task {} {word}, in {phase}\n", paint(paint::STRONG, id.as_str())))?;
    }
    Ok(ExitStatus::Done)
}

/// The task that is meant, for commands that only look.
fn resolve_task(
    cli: &GlobalArgs,
    asked: &TaskArg,
) -> Result<(TaskId, Option<ftl_store::SqliteStore>), CommandError> {
    let place = session::place(cli)?;
    let store = ftl_store::SqliteStore::open_existing(&place.store())
        .map_err(|error| session::store_failure(&error))?;
    let current = match &store {
        Some(store) => registry::current(store).map_err(|error| session::store_failure(&error))?,
        None => None,
    };
    let id = task_session::choose(&place, asked.task.as_deref(), current)?;
    Ok((id, store))
}
