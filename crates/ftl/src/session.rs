//! Opening what a command needs: the place, the store, the settings, the protocols, the person.
//!
//! A command that only looks opens the store for reading and never makes one. A command that changes
//! something gets a session, and a person's command is refused from inside an agent's process tree.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use ftl_core::library::Library;
use ftl_engine::config::{Config, ConfigError};
use ftl_engine::driver::DriveError;
use ftl_engine::journal::JournalError;
use ftl_engine::order::{Refused, RefusedKind};
use ftl_engine::paper::Paper;
use ftl_engine::place::Place;
use ftl_engine::process::{self, Guard};
use ftl_engine::session::{Session, SessionError};
use ftl_engine::store::sqlite::SqliteStore;
use ftl_engine::store::{Store, StoreError};

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shelf::{self, Shelf};

/// Where the state of the repository is.
pub(crate) fn place(cli: &Cli) -> Result<Place, Failure> {
    Ok(Place::at(shelf::root_of(cli)?))
}

/// The store, if there is one: for commands that only look.
pub(crate) fn store(place: &Place) -> Result<Option<Arc<dyn Store>>, Failure> {
    let found = SqliteStore::open_existing(&place.store()).map_err(|error| store_failure(&error))?;
    Ok(found.map(|store| Arc::new(store) as Arc<dyn Store>))
}

/// The store, which must exist, because a run was named.
pub(crate) fn store_of_runs(place: &Place) -> Result<Arc<dyn Store>, Failure> {
    store(place)?.ok_or_else(|| {
        let message = format!("there are no runs in `{}`", place.root().display());
        Failure::new(message, "`ftl run NAME` starts one; `--repo DIR` names another repository")
    })
}

/// A session that may change things.
pub(crate) fn open(cli: &Cli) -> Result<Session, Failure> {
    open_with(cli, Arc::new(Shelf::load(cli)?.library))
}

/// A session with protocols that were read already.
pub(crate) fn open_with(cli: &Cli, library: Arc<Library>) -> Result<Session, Failure> {
    let place = place(cli)?;
    let config = config(&place)?;
    let cannot = |error: std::io::Error| {
        let message = format!("the state in `{}` cannot be prepared: {error}", place.state().display());
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "only its owner may write it; use a repository of your own"
            }
            _ => "see what stands there, and who may write it",
        };
        Failure::new(message, hint)
    };
    place.prepare().map_err(cannot)?;
    let store = SqliteStore::open(&place.store()).map_err(|error| store_failure(&error))?;
    let store = Arc::new(store);
    let paper = Arc::new(Paper::with(place.clone(), store.clone(), config.clone()));
    Ok(Session::new(place, store, library, config, &command_line(), Guard::own()).with_paper(paper))
}

/// The settings that count for a repository: the user's, then the repository's own.
pub(crate) fn config(place: &Place) -> Result<Config, Failure> {
    Config::load(&config_files(place))
        .map_err(|error: ConfigError| Failure::new(error.to_string(), error.hint))
}

/// The files of settings, in the order in which they count.
pub(crate) fn config_files(place: &Place) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let own = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
    files.extend(own.map(|folder| folder.join("ftl").join("config.toml")));
    files.push(place.shared_config());
    files.push(place.config());
    files
}

/// What this process was called with, for people who look who drives a run.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once(String::from("ftl")).chain(words).collect::<Vec<_>>().join(" ")
}

/// Who speaks. Never an agent: a person's word from inside an agent's process tree is refused.
pub(crate) fn person(cli: &Cli, place: &Place) -> Result<String, Failure> {
    not_an_agent(place)?;
    let named = cli.by.clone().or_else(|| git_name(place)).or_else(|| std::env::var("USER").ok());
    named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).ok_or_else(|| {
        Failure::usage("nobody is named", "say who you are with --by NAME, or set git's user.name")
    })
}

/// Refuses what comes from inside an agent's process tree: a run that an agent started would have limits
/// of its own, and could start the next one.
pub(crate) fn not_an_agent(place: &Place) -> Result<(), Failure> {
    let Some(inside) = process::inside_agent(Some(&place.attempts())) else { return Ok(()) };
    let message = format!("this comes from inside an agent's process tree (process {})", inside.pid);
    let hint = "only a person may do this, from a terminal of their own";
    Err(Failure { exit: Exit::Refused, ..Failure::new(message, hint) })
}

fn git_name(place: &Place) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(place.root()).args(["config", "--get", "user.name"]);
    let output = git.env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    Some(name.trim().to_owned()).filter(|name| output.status.success() && !name.is_empty())
}

/// A failure of the store as a failure of a command.
pub(crate) fn store_failure(error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::Corrupt(_) | StoreError::Gap { .. } => Exit::Malformed,
        StoreError::Fenced { .. } | StoreError::Newer { .. } => Exit::Refused,
        StoreError::NoRun(_) | StoreError::Exists(_) => Exit::Error,
        StoreError::TooLarge { .. } | StoreError::Full(_) | StoreError::ReadOnly(_) => Exit::Error,
        StoreError::Answered(_) | StoreError::NoCommand(_) | StoreError::Failed(_) => Exit::Error,
    };
    Failure { exit, ..Failure::new(error.to_string(), error.hint()) }
}

/// A failure to drive a run as a failure of a command.
pub(crate) fn drive_failure(error: &DriveError) -> Failure {
    match error {
        DriveError::Journal(JournalError::Store(error)) => store_failure(error),
        DriveError::Journal(error @ JournalError::Unreadable { .. }) => {
            Failure { exit: Exit::Malformed, ..Failure::new(error.to_string(), error.hint()) }
        }
        DriveError::Refused(refused) => refusal(refused, "ID"),
    }
}

/// A failure of a session as a failure of a command.
pub(crate) fn session_failure(error: &SessionError) -> Failure {
    match error {
        SessionError::Unknown { message, hint } => Failure::new(message, hint),
        SessionError::Unfit(unfit) => Failure::new(&unfit.message, &unfit.hint),
        SessionError::Machine(message) => Failure::new(message, "run `ftl doctor`"),
        SessionError::Drive(error) => drive_failure(error),
    }
}

/// An order that was refused as a failure of a command.
pub(crate) fn refusal(refused: &Refused, id: &str) -> Failure {
    let exit = match refused.kind {
        RefusedKind::Malformed => Exit::Error,
        RefusedKind::Guard | RefusedKind::Late => Exit::Refused,
        RefusedKind::NotHere | RefusedKind::Settled => Exit::NotAllowed,
    };
    let hint = refused.hint.clone().unwrap_or_else(|| format!("`ftl why {id}` shows every way out"));
    Failure { exit, ..Failure::new(&refused.message, hint) }
}
