//! One `ftl next` loads the journal once: counted at the store.

use std::sync::Arc;

use clap::FromArgMatches as _;
use ftl_command::{ExitStatus, Out};
use ftl_core::catalogue::Catalogue;
use ftl_engine::drive::StopSignal;
use ftl_engine::session::{Session, Setup};
use ftl_folder::state_folder::StateFolder;
use ftl_language::library::{Library, built_in_sources};
use ftl_lifecycle::TaskFolder;
use ftl_process::Guard;
use ftl_records::Records;
use ftl_settings::config::Config;
use ftl_store::SqliteStore;

use super::next;
use super::task_session::{self, TaskSession};
use crate::cli::{self, Cli};
use crate::counting_store::CountingStore;
use crate::tasks::TaskArg;

#[test]
fn one_next_loads_the_journal_once() {
    let root = tempfile::tempdir().unwrap();
    let place = StateFolder::at(root.path());
    place.prepare().unwrap();
    let sqlite = Arc::new(SqliteStore::open(&place.store()).unwrap());
    let store = Arc::new(CountingStore::new(sqlite.clone()));
    let library = Arc::new(Library::load(built_in_sources(), Catalogue::standard()));
    let config = Config::default();
    let records = Arc::new(Records::with(place.clone(), sqlite, config.records()));
    let setup = Setup {
        place: place.clone(),
        store: store.clone(),
        library: library.clone(),
        config,
        records,
        guard: Guard::own(),
    };
    let matches = cli::command().try_get_matches_from(["ftl", "next"]).unwrap();
    let (cli, out) = (Cli::from_arg_matches(&matches).unwrap(), Out::new(true));
    let task_session = TaskSession {
        cli: &cli.global,
        out: &out,
        session: Session::new(setup, "ftl next"),
        stop: StopSignal::default(),
        by: String::from("Ada"),
        phases: task_session::phases(&library).unwrap(),
    };
    let id = task_session::task_id("t").unwrap();
    let folder = TaskFolder::of(&place, &id);
    let plan = r#"{"id":"t","title":"Note","brief":"b","file_plan":[{"path":"a","intent":"create"}]}"#;
    folder.put("planning/planning.ai.json", plan.as_bytes()).unwrap();
    task_session.adopt(&folder, &task_session.phases.first()).unwrap();
    store.begin_again();
    let asked = TaskArg { task: Some(String::from("t")) };
    let at = task_session.arrive(&asked).unwrap_or_else(|failure| panic!("{}", failure.message));
    let (answer, exit) =
        next::step(&task_session, &at, None, None).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(exit, ExitStatus::Done, "{answer:?}");
    assert_eq!(store.loads(), 1);
    // One that refuses loads it once, too.
    drop(at);
    store.begin_again();
    let at = task_session.arrive(&asked).unwrap_or_else(|failure| panic!("{}", failure.message));
    let (_, exit) =
        next::step(&task_session, &at, None, None).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!((exit, store.loads()), (ExitStatus::Refused, 1));
}
