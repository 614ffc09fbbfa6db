//! One `ftl next` loads the journal once: counted at the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::FromArgMatches as _;
use ftl_command::{ExitStatus, Out};
use ftl_core::catalogue::Catalogue;
use ftl_engine::drive::StopSignal;
use ftl_engine::session::{Session, Setup};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_language::library::{Library, built_in_sources};
use ftl_lifecycle::TaskFolder;
use ftl_process::Guard;
use ftl_records::Records;
use ftl_settings::config::Config;
use ftl_store::{
    Append, ContentDigest, Lease, NewRun, PendingCommand, RunRow, SqliteStore, Store, StoreError, StoredEntry,
};

use super::next;
use super::task_session::{self, Bench};
use crate::cli::{self, Cli};
use crate::tasks::TaskArg;

/// A store that counts how often a journal is read from its beginning.
struct Counting {
    inner: Arc<SqliteStore>,
    loads: AtomicUsize,
}

impl Store for Counting {
    fn writable(&self) -> Result<(), StoreError> {
        self.inner.writable()
    }

    fn create(&self, new: &NewRun) -> Result<Lease, StoreError> {
        self.inner.create(new)
    }

    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        self.inner.append(lease, append)
    }

    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        self.inner.take(run, seen, owner)
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease)
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.inner.run(run)
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        self.inner.runs(prefix)
    }

    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError> {
        self.loads.fetch_add(usize::from(after == 0), Ordering::SeqCst);
        self.inner.entries(run, after, most)
    }

    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError> {
        self.inner.put(bytes)
    }

    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(digest)
    }

    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError> {
        self.inner.send(run, body)
    }

    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError> {
        self.inner.pending(run)
    }

    fn reply(&self, command: u64) -> Result<Option<String>, StoreError> {
        self.inner.reply(command)
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.inner.version()
    }
}

#[test]
fn one_next_loads_the_journal_once() {
    let root = tempfile::tempdir().unwrap();
    let place = StateFolder::at(root.path());
    place.prepare().unwrap();
    let sqlite = Arc::new(SqliteStore::open(&place.store()).unwrap());
    let store = Arc::new(Counting { inner: sqlite.clone(), loads: AtomicUsize::new(0) });
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
    let bench = Bench {
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
    bench.adopt(&folder, &bench.phases.first()).unwrap();
    store.loads.store(0, Ordering::SeqCst);
    let asked = TaskArg { task: Some(String::from("t")) };
    let at = bench.arrive(&asked).unwrap_or_else(|failure| panic!("{}", failure.message));
    let (answer, exit) =
        next::step(&bench, &at, None, None).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(exit, ExitStatus::Done, "{answer:?}");
    assert_eq!(store.loads.load(Ordering::SeqCst), 1);
    // One that refuses loads it once, too.
    drop(at);
    store.loads.store(0, Ordering::SeqCst);
    let at = bench.arrive(&asked).unwrap_or_else(|failure| panic!("{}", failure.message));
    let (_, exit) =
        next::step(&bench, &at, None, None).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!((exit, store.loads.load(Ordering::SeqCst)), (ExitStatus::Refused, 1));
}
