//! Opening what a command needs: the place, the store, the settings, the protocols, the person.
//!
//! A command that only looks opens the store for reading and never makes one. A command that changes
//! something gets a session, and a person's command is refused from inside an agent's process tree.

use std::path::PathBuf;
use std::sync::Arc;

use ftl_engine::driver::DriveError;
use ftl_engine::session::{Session, SessionError, Setup};
use ftl_folder::Refusal;
use ftl_folder::place::Place;
use ftl_git::{self as git, Repo};
use ftl_language::library::Library;
use ftl_process::lineage::Sign;
use ftl_process::{self as process, Guard, Inside, evidence};
use ftl_records::Records;
use ftl_settings::config::Config;
use ftl_settings::origin::ConfigError;
use ftl_store::journal::JournalError;
use ftl_store::order::{Refused, RefusedKind};
use ftl_store::owner;
use ftl_store::sqlite::SqliteStore;
use ftl_store::{Store, StoreError};
use ftl_view::paint::safe;
use rustix::fs::{Access, access};

use crate::args::GlobalArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits;
use crate::out::Out;
use crate::shelf::{self, Shelf};

/// Where the state of the repository is, once it is known that it may be used.
pub fn place(cli: &GlobalArgs) -> Result<Place, Failure> {
    let place = unchecked_place(cli)?;
    place.check().map_err(|error| place_failure(&place, &error))?;
    Ok(place)
}

/// The same for the doctor, who tells what is wrong with it.
pub fn unchecked_place(cli: &GlobalArgs) -> Result<Place, Failure> {
    Ok(Place::at(shelf::root_of(cli)?))
}

/// A state that cannot be used as a failure of a command.
pub fn place_failure(place: &Place, error: &std::io::Error) -> Failure {
    let message = format!("the state in `{}` cannot be used: {error}", place.state().display());
    match Refusal::of(error) {
        Some(refusal) => Failure::new(message, refusal.hint()),
        None => Failure::new(message, "see what stands there, and who may read and write it"),
    }
}

/// The store, if there is one: for commands that only look.
pub fn store(place: &Place) -> Result<Option<Arc<dyn Store>>, Failure> {
    let found = existing(place)?;
    Ok(found.map(|store| Arc::new(store) as Arc<dyn Store>))
}

/// The store, which must exist, because a run was named.
pub fn store_of_runs(place: &Place) -> Result<Arc<dyn Store>, Failure> {
    store(place)?.ok_or_else(|| {
        let message = format!("there are no runs in `{}`", place.root().display());
        Failure::new(message, "`ftl run NAME` starts one; `--repo DIR` names another repository")
    })
}

/// A session that may change things.
pub fn open(cli: &GlobalArgs) -> Result<Session, Failure> {
    opened(place(cli)?, Arc::new(Shelf::load(cli)?.library))
}

/// A session that opens a run, with protocols that were read already. What the settings say of them must fit; a run
/// that is there already goes on with what it was opened with.
pub fn open_with(cli: &GlobalArgs, library: Arc<Library>) -> Result<Session, Failure> {
    let place = place(cli)?;
    check_policies(&place, &library)?;
    opened(place, library)
}

/// Whether the policies of the settings are about protocols and states that there are.
pub fn check_policies(place: &Place, library: &Library) -> Result<(), Failure> {
    let own = own_config().unwrap_or_default();
    let checked = config(place)?.check_policies(library, &own);
    checked.map_err(|error| Failure::new(error.to_string(), error.hint))
}

fn opened(place: Place, library: Arc<Library>) -> Result<Session, Failure> {
    limits::suffice_to_drive()?;
    has_a_name(&place)?;
    let config = config(&place)?;
    ftl_process::gits::start_early();
    prepare(&place)?;
    let store = SqliteStore::open(&place.store()).map_err(|error| store_failure(&error))?;
    let store = Arc::new(store);
    let records = Arc::new(Records::with(place.clone(), store.clone(), config.records()));
    let setup = Setup { place, store, library, config, records, guard: Guard::own() };
    Ok(Session::new(setup, &command_line()))
}

/// Looks at what a delivery took out of the checkout within the last hour: a save that came too late for it goes back,
/// or is kept. Where nothing was delivered, this is one look at the disk.
pub fn look_at_retained(cli: &GlobalArgs, out: &Out) {
    let Ok(place) = place(cli) else { return };
    if !git::has_retained(&place) || not_an_agent(&place).is_err() {
        return;
    }
    // Where the repository cannot be opened, the command itself says so if it needs it.
    let Ok(repo) = Repo::of_person(&place, Vec::new()) else { return };
    match repo.look_at_retained() {
        Ok(notes) => notes.iter().for_each(|note| out.beside(&format!("note: {}\n", safe(note)))),
        Err(error) => {
            let hint = error.hint.clone().unwrap_or_else(|| String::from("`ftl doctor` looks at the state"));
            out.warning(&Failure::new(
                format!("a delivery cannot be looked at again: {}", error.message),
                hint,
            ));
        }
    }
}

/// Refuses a repository whose path cannot be written down: agents, guards and records are given paths as text.
fn has_a_name(place: &Place) -> Result<(), Failure> {
    if place.root().to_str().is_some() {
        return Ok(());
    }
    let message = format!("the path of the repository is not UTF-8: `{}`", place.root().display());
    Err(Failure::new(
        message,
        "rename the folder, or clone the repository elsewhere; reading works meanwhile",
    ))
}

/// Makes the folders of the state, where the caller may.
pub fn prepare(place: &Place) -> Result<(), Failure> {
    place.prepare().map_err(|error| {
        let message = format!("the state in `{}` cannot be prepared: {error}", place.state().display());
        match place.stranger() {
            Some(stranger) => Failure::new(message, stranger.hint()),
            None => Failure::new(message, "see what stands there, and who may write it"),
        }
    })
}

/// Refuses root what it would write into a repository of somebody else's: its owner could not change it.
pub fn not_root_elsewhere(place: &Place) -> Result<(), Failure> {
    match place.stranger().filter(|stranger| stranger.asker == 0) {
        Some(stranger) => Err(Failure::new(stranger.to_string(), stranger.hint())),
        None => Ok(()),
    }
}

/// The store of a place, if there is one, for readers.
pub fn existing(place: &Place) -> Result<Option<SqliteStore>, Failure> {
    SqliteStore::open_existing(&place.store()).map_err(|error| match (&error, place.stranger()) {
        (StoreError::ReadOnly(_), Some(stranger)) if access(place.store(), Access::READ_OK).is_err() => {
            let message = format!("the state cannot be read: {stranger}");
            Failure::new(message, "only its owner may look at it; ask them, or use a repository of your own")
        }
        (StoreError::ReadOnly(_), None) if access(place.store(), Access::READ_OK).is_err() => {
            Failure::new(error.to_string(), "it is reading that failed: make .ftl/store readable")
        }
        (error, _) => store_failure(error),
    })
}

/// The settings that count for a repository: the user's, then the repository's own.
pub fn config(place: &Place) -> Result<Config, Failure> {
    Config::load(&config_files(place))
        .map_err(|error: ConfigError| Failure::new(error.to_string(), error.hint))
}

/// The files of settings, in the order in which they count.
pub fn config_files(place: &Place) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = own_config().into_iter().collect();
    files.push(place.shared_config());
    files.push(place.config());
    files
}

/// The person's own file of settings, for all repositories.
fn own_config() -> Option<PathBuf> {
    let own = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
    own.map(|folder| folder.join("ftl").join("config.toml"))
}

/// What this process was called with, for people who look who drives a run.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once(String::from("ftl")).chain(words).collect::<Vec<_>>().join(" ")
}

/// Who speaks. Never an agent: a person's word from inside an agent's process tree is refused.
pub fn person(cli: &GlobalArgs, place: &Place) -> Result<String, Failure> {
    not_an_agent(place)?;
    let named = cli.by.clone().or_else(|| git_name(place)).or_else(|| std::env::var("USER").ok());
    named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).ok_or_else(|| {
        Failure::usage("nobody is named", "say who you are with --by NAME, or set git's user.name")
    })
}

/// Refuses what comes from inside an agent's process tree: a run that an agent started would have limits
/// of its own, and could start the next one.
pub fn not_an_agent(place: &Place) -> Result<(), Failure> {
    let Some(inside) = inside_agent(place) else { return Ok(()) };
    let message = match inside.by {
        Sign::Mark | Sign::Guard | Sign::Attempt | Sign::Driver => {
            format!("this comes from inside an agent's process tree (process {})", inside.pid)
        }
        Sign::Namespace => format!(
            "this may come from inside an agent's process tree: process {} is at work here, in another pid \
             namespace that cannot be seen from this one",
            inside.pid
        ),
        Sign::Covered => String::from(
            "this may come from inside an agent's process tree: something is mounted over a part of .ftl/store",
        ),
        Sign::Open => String::from(
            "this may come from inside an agent's process tree: a run has an owner whose lock is gone, and a \
             process that cannot be seen from this pid namespace has the store open",
        ),
        Sign::Unseen => String::from(
            "this may come from inside an agent's process tree: /proc does not show what started this process",
        ),
    };
    Err(Failure { exit: Exit::Refused, ..Failure::new(message, inside.by.hint()) })
}

/// Whether this process is inside an agent's process tree, and what shows it.
pub fn inside_agent(place: &Place) -> Option<Inside> {
    let drivers = owner::living(&place.owners());
    process::inside_agent(Some(&place.attempts()), &drivers).or_else(|| hidden_driver(place))
}

/// What the kernel says about the store itself, whatever stands at the paths of the locks: something that is
/// mounted over a part of it, or a process that has it open and cannot be seen, while a run has an owner who is
/// not there.
fn hidden_driver(place: &Place) -> Option<Inside> {
    let (store, database) = (place.store(), place.database());
    let inside = |by| Some(Inside { pid: std::process::id().cast_signed(), by });
    match evidence::is_covered(&store, &[place.owners(), place.attempts(), database.clone()]) {
        Ok(false) => {}
        // Whoever may not look into the store gives it no order either, and is told whose it is.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        Ok(true) | Err(_) => return inside(Sign::Covered),
    }
    let unseen = evidence::is_open_unseen(&database).unwrap_or(true);
    (unseen && has_lost_owner(place)).then(|| inside(Sign::Open)).flatten()
}

/// Whether a run has an owner that does not live, as far as its file tells. A store that cannot be read tells
/// nothing, and takes no order either.
fn has_lost_owner(place: &Place) -> bool {
    let rows = existing(place).ok().flatten().and_then(|store| store.runs("").ok()).unwrap_or_default();
    let lives = |name: &str| matches!(owner::life(&place.owners(), name), Ok(owner::Life::Alive { .. }));
    rows.iter().filter_map(|row| row.owner.as_deref()).any(|name| !lives(name))
}

fn git_name(place: &Place) -> Option<String> {
    let name = ftl_git::ask(place.root(), &["config", "--get", "user.name"]).ok()?.text()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A failure of the store as a failure of a command.
pub fn store_failure(error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::Corrupt(_) | StoreError::Lost(_) | StoreError::Gap { .. } => Exit::Malformed,
        StoreError::Fenced { .. } | StoreError::Newer { .. } | StoreError::InUse(_) => Exit::Refused,
        StoreError::NoRun(_) | StoreError::Exists(_) => Exit::Error,
        StoreError::TooLarge { .. } | StoreError::Full(_) | StoreError::ReadOnly(_) => Exit::Error,
        StoreError::Answered(_) | StoreError::NoCommand(_) | StoreError::Failed(_) => Exit::Error,
    };
    Failure { exit, ..Failure::new(error.to_string(), error.hint()) }
}

/// A failure to drive a run as a failure of a command.
pub fn drive_failure(error: &DriveError) -> Failure {
    match error {
        DriveError::Journal(JournalError::Store(error)) => store_failure(error),
        DriveError::Journal(error @ JournalError::Unreadable { .. }) => {
            Failure { exit: Exit::Malformed, ..Failure::new(error.to_string(), error.hint()) }
        }
        DriveError::Refused(refused) => refusal(refused, "ID"),
    }
}

/// A failure of a session as a failure of a command.
pub fn session_failure(error: &SessionError) -> Failure {
    match error {
        SessionError::Unknown { message, hint } => Failure::new(message, hint),
        SessionError::Unfit(unfit) => Failure::new(&unfit.message, &unfit.hint),
        SessionError::SecretInput { variable, .. } => Failure::new(
            error.to_string(),
            format!(
                "name the secret by its variable or a file instead; if {variable} is none, unset or rename it"
            ),
        ),
        SessionError::Machine(message) => Failure::new(message, "run `ftl doctor`"),
        SessionError::Drive(error) => drive_failure(error),
    }
}

/// An order that was refused as a failure of a command.
pub fn refusal(refused: &Refused, id: &str) -> Failure {
    let exit = match refused.kind {
        RefusedKind::Malformed => Exit::Error,
        RefusedKind::Guard | RefusedKind::Late => Exit::Refused,
        RefusedKind::NotHere | RefusedKind::Settled => Exit::NotAllowed,
    };
    let hint = refused.hint.clone().unwrap_or_else(|| format!("`ftl why {id}` shows every way out"));
    Failure { exit, ..Failure::new(&refused.message, hint) }
}
