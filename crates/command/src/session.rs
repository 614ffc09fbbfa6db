//! Opening what a command needs: the place, the store, the settings, the protocols, the person.
//!
//! A command that only looks opens the store for reading and never makes one. A command that changes
//! something gets a session, and a person's command is refused from inside an agent's process tree.

use std::path::PathBuf;
use std::sync::Arc;

use ftl_engine::driver::DriveError;
use ftl_engine::session::{Session, SessionError, Setup};
use ftl_folder::FolderRefusal;
use ftl_folder::state_folder::StateFolder;
use ftl_git::{self as git, Repo};
use ftl_language::library::Library;
use ftl_process::lineage::LineageSign;
use ftl_process::{self as process, AgentLineage, Guard, evidence};
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
use crate::exit::ExitStatus;
use crate::failure::CommandError;
use crate::limits;
use crate::out::Out;
use crate::protocol_loader::{self, LoadedProtocols};
use crate::{foreign, root, trust};

/// Where the state of the repository is, once it is known that it may be used.
pub fn place(cli: &GlobalArgs) -> Result<StateFolder, CommandError> {
    let place = unchecked_place(cli)?;
    place.check().map_err(|error| place_failure(&place, &error))?;
    let around = cli.repo.is_none().then(|| root::repository_around(place.root())).flatten();
    if let Some(around) = around.filter(|_| place.config().symlink_metadata().is_ok()) {
        let (file, top) = (place.config(), around.display().to_string());
        let message = format!("`{}` stands in a subfolder of the repository `{top}`", file.display());
        let hint = format!(
            "settings of your own stand in its root, or in your own folder of settings; `--repo {top}` names it, and \
             `--repo {}` this folder",
            place.root().display()
        );
        return Err(CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, hint) });
    }
    Ok(place)
}

/// The same for the doctor, who tells what is wrong with it.
pub fn unchecked_place(cli: &GlobalArgs) -> Result<StateFolder, CommandError> {
    Ok(StateFolder::at(protocol_loader::root_of(cli)?))
}

/// A state that cannot be used as a failure of a command.
pub fn place_failure(place: &StateFolder, error: &std::io::Error) -> CommandError {
    let message = format!("the state in `{}` cannot be used: {error}", place.state().display());
    match FolderRefusal::of(error) {
        Some(refusal) => CommandError::new(message, refusal.hint()),
        None => CommandError::new(message, "see what stands there, and who may read and write it"),
    }
}

/// The store, if there is one: for commands that only look.
pub fn store(place: &StateFolder) -> Result<Option<Arc<dyn Store>>, CommandError> {
    let found = existing(place)?;
    Ok(found.map(|store| Arc::new(store) as Arc<dyn Store>))
}

/// The store, which must exist, because a run was named.
pub fn store_of_runs(place: &StateFolder) -> Result<Arc<dyn Store>, CommandError> {
    store(place)?.ok_or_else(|| {
        let message = format!("there are no runs in `{}`", place.root().display());
        CommandError::new(message, "`ftl run NAME` starts one; `--repo DIR` names another repository")
    })
}

/// A session that may change things.
pub fn open(cli: &GlobalArgs) -> Result<Session, CommandError> {
    open_session(place(cli)?, Arc::new(LoadedProtocols::load(cli)?.library))
}

/// A session that opens a run, with protocols that were read already. What the settings say of them must fit; a run
/// that is there already goes on with what it was opened with.
pub fn open_with(
    cli: &GlobalArgs,
    library: Arc<Library>,
    scope: trust::TrustScope<'_>,
    out: &Out,
) -> Result<Session, CommandError> {
    let place = place(cli)?;
    check_policies(&place, &library)?;
    let config = config(&place)?;
    trust::require(&trust::Orders { place: &place, config: &config, library: &library }, scope, out)?;
    open_session(place, library)
}

/// Refuses a session that would take orders from what nobody here trusts.
pub fn require_trust(session: &Session, scope: trust::TrustScope<'_>, out: &Out) -> Result<(), CommandError> {
    let (place, config) = (session.place(), session.config());
    trust::require(&trust::Orders { place, config, library: session.library() }, scope, out)
}

/// Whether the policies of the settings are about protocols and states that there are.
pub fn check_policies(place: &StateFolder, library: &Library) -> Result<(), CommandError> {
    let own = own_config().unwrap_or_default();
    let checked = config(place)?.check_policies(library, &own);
    checked.map_err(|error| CommandError::new(error.to_string(), error.hint))
}

fn open_session(place: StateFolder, library: Arc<Library>) -> Result<Session, CommandError> {
    limits::suffice_to_drive()?;
    has_a_name(&place)?;
    let config = config(&place)?;
    ftl_process::gits::start_early();
    prepare(&place)?;
    let store = SqliteStore::open(&place.store()).map_err(|error| store_failure(&error))?;
    let store = Arc::new(store);
    let options = trust::without_untrusted_embedder(config.clone()).records();
    let records = Arc::new(Records::with(place.clone(), store.clone(), options));
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
            out.warning(&CommandError::new(
                format!("a delivery cannot be looked at again: {}", error.message),
                hint,
            ));
        }
    }
}

/// Refuses a repository whose path cannot be written down: agents, guards and records are given paths as text.
fn has_a_name(place: &StateFolder) -> Result<(), CommandError> {
    if place.root().to_str().is_some() {
        return Ok(());
    }
    let message = format!("the path of the repository is not UTF-8: `{}`", place.root().display());
    Err(CommandError::new(
        message,
        "rename the folder, or clone the repository elsewhere; reading works meanwhile",
    ))
}

/// Makes the folders of the state, where the caller may.
pub fn prepare(place: &StateFolder) -> Result<(), CommandError> {
    place.prepare().map_err(|error| {
        let message = format!("the state in `{}` cannot be prepared: {error}", place.state().display());
        match place.stranger() {
            Some(stranger) => CommandError::new(message, stranger.hint()),
            None => CommandError::new(message, "see what stands there, and who may write it"),
        }
    })
}

/// Refuses root what it would write into a repository of another user: its owner could not change it.
pub fn not_root_elsewhere(place: &StateFolder) -> Result<(), CommandError> {
    match place.stranger().filter(|stranger| stranger.asker == 0) {
        Some(stranger) => Err(CommandError::new(stranger.to_string(), stranger.hint())),
        None => Ok(()),
    }
}

/// The store of a place, if there is one, for readers.
pub fn existing(place: &StateFolder) -> Result<Option<SqliteStore>, CommandError> {
    SqliteStore::open_existing(&place.store()).map_err(|error| match (&error, place.stranger()) {
        (StoreError::ReadOnly(_), Some(stranger)) if access(place.store(), Access::READ_OK).is_err() => {
            let message = format!("the state cannot be read: {stranger}");
            CommandError::new(
                message,
                "only its owner may look at it; ask them, or use a repository of your own",
            )
        }
        (StoreError::ReadOnly(_), None) if access(place.store(), Access::READ_OK).is_err() => {
            CommandError::new(error.to_string(), "it is reading that failed: make .ftl/store readable")
        }
        (error, _) => store_failure(error),
    })
}

/// The settings that count for a repository: the user's, then the repository's own.
pub fn config(place: &StateFolder) -> Result<Config, CommandError> {
    place.check_config().map_err(|error| {
        let message = format!("the settings of this copy cannot be used: {error}");
        let hint = FolderRefusal::of(&error)
            .map_or_else(|| String::from("see what stands there"), FolderRefusal::hint);
        CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, hint) }
    })?;
    Config::load(&config_files(place))
        .map_err(|error: ConfigError| CommandError::new(error.to_string(), error.hint))
}

/// The files of settings, in the order in which they count.
pub fn config_files(place: &StateFolder) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = own_config().into_iter().collect();
    files.push(place.shared_config());
    files.push(place.config());
    files
}

/// The person's own file of settings, for all repositories.
fn own_config() -> Option<PathBuf> {
    root::own_folder().map(|folder| folder.join("config.toml"))
}

/// What this process was called with, for people who look who drives a run.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once(String::from("ftl")).chain(words).collect::<Vec<_>>().join(" ")
}

/// Who speaks. Never an agent, neither one of ours nor another one: a person's word of theirs is refused.
pub fn person(cli: &GlobalArgs, place: &StateFolder) -> Result<String, CommandError> {
    not_an_agent(place)?;
    foreign::not_typed_by_agent()?;
    speaker(cli, place)
}

/// In whose name something is done that is no person's word.
pub fn speaker(cli: &GlobalArgs, place: &StateFolder) -> Result<String, CommandError> {
    not_an_agent(place)?;
    let named = cli.by.clone().or_else(|| git_name(place)).or_else(|| std::env::var("USER").ok());
    named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).ok_or_else(|| {
        CommandError::usage("nobody is named", "say who you are with --by NAME, or set git's user.name")
    })
}

/// Refuses what comes from inside an agent's process tree: a run that an agent started would have limits
/// of its own, and could start the next one.
pub fn not_an_agent(place: &StateFolder) -> Result<(), CommandError> {
    let Some(inside) = inside_agent(place) else { return Ok(()) };
    let message = match inside.by {
        LineageSign::Mark | LineageSign::Guard | LineageSign::Attempt | LineageSign::Driver => {
            format!("this comes from inside an agent's process tree (process {})", inside.pid)
        }
        LineageSign::Namespace => format!(
            "this may come from inside an agent's process tree: process {} is at work here, in another pid \
             namespace that cannot be seen from this one",
            inside.pid
        ),
        LineageSign::Covered => String::from(
            "this may come from inside an agent's process tree: something is mounted over a part of .ftl/store",
        ),
        LineageSign::Open => String::from(
            "this may come from inside an agent's process tree: a run has an owner whose lock is gone, and a \
             process that cannot be seen from this pid namespace has the store open",
        ),
        LineageSign::Unseen => String::from(
            "this may come from inside an agent's process tree: /proc does not show what started this process",
        ),
    };
    Err(CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, inside.by.hint()) })
}

/// Whether this process is inside an agent's process tree, and what shows it.
pub fn inside_agent(place: &StateFolder) -> Option<AgentLineage> {
    let drivers = owner::living(&place.owners());
    process::inside_agent(Some(&place.attempts()), &drivers).or_else(|| hidden_driver(place))
}

/// What the kernel says about the store itself, whatever stands at the paths of the locks: something that is
/// mounted over a part of it, or a process that has it open and cannot be seen, while a run has an owner who is
/// not there.
fn hidden_driver(place: &StateFolder) -> Option<AgentLineage> {
    let (store, database) = (place.store(), place.database());
    let inside = |by| Some(AgentLineage { pid: std::process::id().cast_signed(), by });
    match evidence::is_covered(&store, &[place.owners(), place.attempts(), database.clone()]) {
        Ok(false) => {}
        // A user who may not look into the store gives it no order either, and is told whose it is.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        Ok(true) | Err(_) => return inside(LineageSign::Covered),
    }
    let unseen = evidence::is_open_unseen(&database).unwrap_or(true);
    (unseen && has_lost_owner(place)).then(|| inside(LineageSign::Open)).flatten()
}

/// Whether a run has an owner that does not live, as far as its file tells. A store that cannot be read tells
/// nothing, and takes no order either.
fn has_lost_owner(place: &StateFolder) -> bool {
    let rows = existing(place).ok().flatten().and_then(|store| store.runs("").ok()).unwrap_or_default();
    let lives = |name: &str| matches!(owner::life(&place.owners(), name), Ok(owner::Life::Alive { .. }));
    rows.iter().filter_map(|row| row.owner.as_deref()).any(|name| !lives(name))
}

fn git_name(place: &StateFolder) -> Option<String> {
    let name = ftl_git::ask(place.root(), &["config", "--get", "user.name"]).ok()?.text()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A failure of the store as a failure of a command.
pub fn store_failure(error: &StoreError) -> CommandError {
    let exit = match error {
        StoreError::Corrupt(_) | StoreError::Lost(_) | StoreError::Gap { .. } => ExitStatus::Malformed,
        StoreError::Fenced { .. } | StoreError::Newer { .. } | StoreError::InUse(_) => ExitStatus::Refused,
        StoreError::NoRun(_) | StoreError::Exists(_) => ExitStatus::Error,
        StoreError::TooLarge { .. } | StoreError::Full(_) | StoreError::ReadOnly(_) => ExitStatus::Error,
        StoreError::Answered(_) | StoreError::NoCommand(_) | StoreError::Failed(_) => ExitStatus::Error,
    };
    CommandError { exit, ..CommandError::new(error.to_string(), error.hint()) }
}

/// A failure to drive a run as a failure of a command.
pub fn drive_failure(error: &DriveError) -> CommandError {
    match error {
        DriveError::Journal(JournalError::Store(error)) => store_failure(error),
        DriveError::Journal(error @ JournalError::Unreadable { .. }) => {
            CommandError { exit: ExitStatus::Malformed, ..CommandError::new(error.to_string(), error.hint()) }
        }
        DriveError::Refused(refused) => refusal(refused, "ID"),
    }
}

/// A failure of a session as a failure of a command.
pub fn session_failure(error: &SessionError) -> CommandError {
    match error {
        SessionError::Unknown { message, hint } => CommandError::new(message, hint),
        SessionError::Unfit(unfit) => CommandError::new(&unfit.message, &unfit.hint),
        SessionError::Sandbox(weak) => {
            CommandError { exit: ExitStatus::Refused, ..CommandError::new(weak.to_string(), weak.hint()) }
        }
        SessionError::SecretInput { variable, .. } => CommandError::new(
            error.to_string(),
            format!(
                "name the secret by its variable or a file instead; if {variable} is none, unset or rename it"
            ),
        ),
        SessionError::Machine(message) => CommandError::new(message, "run `ftl doctor`"),
        SessionError::Drive(error) => drive_failure(error),
    }
}

/// An order that was refused as a failure of a command.
pub fn refusal(refused: &Refused, id: &str) -> CommandError {
    let exit = match refused.kind {
        RefusedKind::Malformed => ExitStatus::Error,
        RefusedKind::Guard | RefusedKind::Late => ExitStatus::Refused,
        RefusedKind::NotHere | RefusedKind::Settled => ExitStatus::NotAllowed,
    };
    let hint = refused.hint.clone().unwrap_or_else(|| format!("`ftl why {id}` shows every way out"));
    CommandError { exit, ..CommandError::new(&refused.message, hint) }
}
