//! `ftl code`: one story by a coder and an architect, or a document of stories as a campaign of coders.
//!
//! A story is a run of the protocol `coder`; a document is a run of `campaign` in which the architect makes the
//! stories and coders carry them out. Nothing of the person's moves unless they said so, before or after.

use std::path::Path;

use ftl_command::input::text_of;
use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::session::session_failure;
use ftl_command::trust::TrustScope;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, foreign, session, signals};
use ftl_core::catalogue::build::Delivery;
use ftl_core::run::{Action, ActionId, ActionTarget, End, ROOT};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::DriveEnd;
use ftl_engine::driver::Opening;
use ftl_engine::executors::stories::MAX_DOCUMENT_BYTES;
use ftl_engine::executors::worktrees::LandingRoute;
use ftl_engine::forge::Reached;
use ftl_engine::session::{RunOptions, Session};
use ftl_folder::id::RunId;
use ftl_process::Cancel;
use ftl_settings::roster::Choice;
use ftl_settings::settings::LandingHow;
use ftl_view::board::report;
use ftl_view::paint::{self, one_line, paint, safe};
use serde_json::json;

use super::ask::{Typed, ask};
use super::flow::{self, allowances, is_asked, needs_git, objective, sandbox_order, tell_branch};
use super::run::{ForegroundRun, Left, can_be_opened, document, exit_of, left_text, summary_of};
use crate::agent_follower;
use crate::cli::{Code, FlowOptions};

/// The protocol of a story.
const CODER: &str = "coder";

/// The longest name of a document, as an objective says it.
const MAX_NAME_LETTERS: usize = 120;

/// `ftl code`: stories of a document, or one story.
pub(crate) fn run(cli: &GlobalArgs, asked: &Code, out: &Out) -> Result<ExitStatus, CommandError> {
    match (&asked.from, &asked.story) {
        (Some(file), _) => stories(cli, asked, file, out),
        (None, Some(_)) if asked.coders.is_some() || asked.dry_run => {
            let message = "--coders and --dry-run are for the stories of a document";
            Err(CommandError::usage(message, "name one with --from, or leave them out"))
        }
        (None, Some(text)) => story(cli, asked, text, out),
        (None, None) => Err(CommandError::usage(
            "no story is named",
            "say it: ftl code \"<story>\", or name a document: ftl code --from spec.md",
        )),
    }
}

/// Stories out of a document.
fn stories(cli: &GlobalArgs, asked: &Code, file: &Path, out: &Out) -> Result<ExitStatus, CommandError> {
    let text = text_of(file)?;
    if text.trim().is_empty() {
        let message = format!("`{}` is empty", file.display());
        return Err(CommandError::usage(message, "write down what is wanted"));
    }
    if text.len() > MAX_DOCUMENT_BYTES {
        let message =
            format!("`{}` has {} bytes; {MAX_DOCUMENT_BYTES} is the most", file.display(), text.len());
        return Err(CommandError::usage(message, "split it, and run one part after the other"));
    }
    let options = FlowOptions {
        jobs: asked.coders,
        tools: None,
        land: asked.land,
        land_partial: asked.land_partial,
        work: asked.work.clone(),
    };
    let document = flow::Document { name: &name_of(file, &text), text: &text, only_plans: asked.dry_run };
    flow::of_document(cli, document, &options, out)
}

/// What a document is about: its first line with words in it.
fn name_of(file: &Path, text: &str) -> String {
    let first = text.lines().map(|line| line.trim_start_matches(['#', ' ', '\t']).trim());
    let first = first.into_iter().find(|line| line.chars().any(char::is_alphanumeric));
    let name: String = first.unwrap_or_default().chars().take(MAX_NAME_LETTERS).collect();
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{name} ({file})")
}

/// `ftl code "<story>"`.
fn story(cli: &GlobalArgs, asked: &Code, text: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let text = objective(text)?;
    let allowed = allowances(cli, &place, &asked.work.allow)?;
    needs_git(&place)?;
    let inputs = [(Name::from("story"), Value::text(text))].into();
    let library = can_be_opened(LoadedProtocols::load(cli)?, CODER, &inputs)?;
    let choice = asked.work.chosen.choice();
    let session = session::open_with(cli, library, TrustScope::Runs(&[CODER], Some(&choice)), out)?;
    agent_follower::follow(&session, asked.work.talk);
    let landing = route(asked.land.unwrap_or(session.config().settings().landing.how));
    if landing == Some(LandingRoute::PullRequest) {
        needs_forge(&session)?;
    }
    let mut terms = session.config().terms(session.library());
    asked.work.chosen.limit(&mut terms);
    let note = foreign::narrow(&mut terms);
    note.iter().for_each(|note| out.note(note));
    // What an agent has opened goes through no forge.
    let landing = landing.filter(|_| note.is_none());
    let opening = Opening { protocol: Name::from(CODER), inputs, terms };
    let sandbox = sandbox_order(cli, &place, &asked.work)?;
    let (is_story, choice_of_run) = (true, choice.clone());
    let options =
        RunOptions { allowed, landing, is_story, sandbox, choice: choice_of_run, ..RunOptions::default() };
    let stop = signals::stop(out)?;
    let (driver, todo) = session.open_with(opening, options).map_err(|error| session_failure(&error))?;
    let id = driver.id().clone();
    if !out.is_json() {
        out.progress(&format!("run {} of {CODER}: {}\n", paint(paint::STRONG, &id), one_line(text)))?;
    }
    tell_own_reviewer(&session, &choice, out);
    let wheel = ForegroundRun::new(&session, &stop, out);
    let rest = wheel.drive_with_person(cli, driver, todo)?;
    end(&wheel, &id, &Left::Rest(rest), landing)
}

/// Says when the architect is the agent and the model that wrote: it shares the coder's blind spots.
pub(super) fn tell_own_reviewer(session: &Session, choice: &Choice, out: &Out) {
    let Ok(roster) = session.roster_with(choice) else { return };
    let Some(agent) = roster.shared_by(CODER, "architect") else { return };
    let model = choice.model.as_deref().or_else(|| agent.model());
    let model = model.map_or_else(String::new, |model| format!(" with {model}"));
    let text = format!(
        "`{}`{model} answers both coder and architect: it reviews its own work; bind another one under [roles]",
        agent.name
    );
    out.note(&text);
}

/// Whether a run is a story, as `ftl code` opens one.
pub(super) fn is_story(session: &Session, run: &RunId) -> Result<bool, CommandError> {
    session.is_story(run).map_err(|error| session_failure(&error))
}

/// What became of a story that was driven on, told as `ftl code` tells it: the person is asked how it is to land
/// if they were to be asked then.
pub(super) fn resumed(
    wheel: &ForegroundRun<'_>,
    run: &RunId,
    left: &Left,
) -> Result<ExitStatus, CommandError> {
    let landing = wheel.session.landing(run).map_err(|error| session_failure(&error))?;
    end(wheel, run, left, landing)
}

/// The same for a story among several runs, of which the rest is told already.
pub(super) fn resumed_among(wheel: &ForegroundRun<'_>, run: &RunId, left: &Left) -> Result<(), CommandError> {
    let landing = wheel.session.landing(run).map_err(|error| session_failure(&error))?;
    if landing.is_some() || !has_landed(left, &values(wheel.session, run)?) {
        return Ok(());
    }
    let delivered = if is_asked(wheel.out) { asked_how(wheel, run)? } else { None };
    match delivered {
        Some(how) => wheel.out.text(&report::line(&paint(paint::GOOD, "delivered"), &one_line(&how))),
        None => tell_branch(run, wheel.out),
    }
}

fn is_complete(left: &Left) -> bool {
    matches!(left, Left::Rest(DriveEnd::Rests(summary)) if summary.standing.end() == Some(End::Complete))
}

/// Whether a story has come to its end with a commit.
fn has_landed(left: &Left, values: &Fields) -> bool {
    is_complete(left) && values.get("commit").and_then(Value::as_text).is_some()
}

/// A forge must be set up: what is missing is said now, and not when the work is done.
pub(super) fn needs_forge(session: &Session) -> Result<(), CommandError> {
    Reached::of(session.config(), &|name| std::env::var(name).ok())
        .map(|_| ())
        .map_err(|error| CommandError::new(error.to_string(), "docs/coding.md tells how a forge is set up"))
}

/// How the work gets where it is wanted; nothing where the person is to be asked.
fn route(how: LandingHow) -> Option<LandingRoute> {
    match how {
        LandingHow::Ask => None,
        LandingHow::FastForward => Some(LandingRoute::Branch(Delivery::FastForward)),
        LandingHow::Squash => Some(LandingRoute::Branch(Delivery::Squash)),
        LandingHow::BranchOnly => Some(LandingRoute::Branch(Delivery::BranchOnly)),
        LandingHow::PullRequest => Some(LandingRoute::PullRequest),
    }
}

/// What became of a story, and where its work is.
fn end(
    wheel: &ForegroundRun<'_>,
    run: &RunId,
    left: &Left,
    landing: Option<LandingRoute>,
) -> Result<ExitStatus, CommandError> {
    let out = wheel.out;
    let values = values(wheel.session, run)?;
    let text = |name: &str| values.get(name).and_then(Value::as_text).map(str::to_owned);
    let commit = text("commit");
    let (is_complete, has_landed) = (is_complete(left), has_landed(left, &values));
    let delivered = match has_landed && landing.is_none() && is_asked(out) {
        true => asked_how(wheel, run)?,
        false => None,
    };
    if out.is_json() {
        let mut json = json!(document(run, left));
        json["report"] = json!({
            "delivered": text("delivered"), "commit": commit, "branch": format!("ftl/{run}"),
            "reason": text("reason"),
        });
        out.json(&json)?;
    } else {
        let mut told = String::new();
        if let (true, Some(what)) = (is_complete, text("delivered")) {
            let word = if has_landed { "landed" } else { "nothing to do" };
            told.push_str(&report::line(&paint(paint::GOOD, word), &one_line(&what)));
        }
        if let Some(how) = &delivered {
            told.push_str(&report::line(&paint(paint::GOOD, "delivered"), &one_line(how)));
        }
        told.push_str(&wheel.board(run)?.story_told(run, &summary_of(left).meters, commit.as_deref()));
        told.push_str(&left_text(run, left));
        out.text(&told)?;
    }
    if has_landed && landing.is_none() && delivered.is_none() {
        tell_branch(run, out)?;
    }
    Ok(exit_of(left))
}

/// The values of a run's end.
fn values(session: &Session, run: &RunId) -> Result<Fields, CommandError> {
    let machine = session.look(run).map_err(|error| session_failure(&error))?;
    let end = machine.instance(ROOT).and_then(|root| root.end.as_ref());
    Ok(end.map(|(_, values)| (**values).clone()).unwrap_or_default())
}

/// Asks the person at the terminal how the work is to land, and has it land so; what became of it.
fn asked_how(wheel: &ForegroundRun<'_>, run: &RunId) -> Result<Option<String>, CommandError> {
    let choices = Delivery::WORDS.iter().map(|word| Value::text(*word));
    let question = format!("Land ftl/{} on your branch?", safe(run.as_str()));
    let params =
        [(Name::from("question"), Value::text(question)), (Name::from("choices"), Value::list(choices))];
    let id = ActionId { entry: 0, index: 0 };
    let question =
        Action { instance: ROOT, id, wanted: ActionTarget::Question, params: params.into(), forbidden: None };
    let how = match ask(&question, wheel.stop, wheel.out)? {
        Typed::Line(word) => Delivery::parse(&word),
        Typed::End | Typed::Stopped => None,
    };
    let Some(how) = how else { return Ok(None) };
    let delivered =
        wheel.session.deliver(run, how, &Cancel::new()).map_err(|error| session_failure(&error))?;
    Ok(Some(delivered.summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_called_by_its_first_words() {
        let name = |text: &str| name_of(Path::new("a/spec.md"), text);
        assert_eq!(name("\n---\n# A login\nmore"), "A login (spec.md)");
        assert_eq!(name("# "), " (spec.md)");
        assert_eq!(name(&"x".repeat(MAX_NAME_LETTERS + 1)).len(), MAX_NAME_LETTERS + " (spec.md)".len());
    }

    #[test]
    fn landings_are_known_by_their_words() {
        let delivery = |word: &str| LandingHow::parse(word).and_then(route);
        assert_eq!(delivery("ff"), Some(LandingRoute::Branch(Delivery::FastForward)));
        let branch_only = Some(LandingRoute::Branch(Delivery::BranchOnly));
        assert_eq!((delivery("branch-only"), delivery("ask")), (branch_only, None));
    }
}
