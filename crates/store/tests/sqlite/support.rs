//! What the tests of the store on disk share.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ftl_folder::id::RunId;
use ftl_store::{Append, Lease, NewEntry, NewRun, SqliteStore, Store, verify_chain};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use tempfile::TempDir;

/// Long enough for any machine; nothing waits for it unless something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn above(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.store().join(name)
    }

    pub(crate) fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.store()).unwrap()
    }

    /// The database as somebody with other tools sees it who has seen to it that it can be written.
    pub(crate) fn raw(&self) -> Connection {
        let open = Connection::open(self.file("ftl.db")).unwrap();
        open.create_scalar_function("ftl_knows_format_3", 0, FunctionFlags::SQLITE_UTF8, |_| Ok(true))
            .unwrap();
        open
    }

    /// Removes what keeps programs of earlier formats from writing.
    pub(crate) fn drop_guards(&self) {
        let raw = self.raw();
        let guards = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '*_knows_format_3'";
        let names: Vec<String> = raw
            .prepare(guards)
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(names.len(), 21);
        for name in names {
            raw.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
        }
    }
}

pub(crate) fn name(n: u64) -> RunId {
    RunId::of(n)
}

pub(crate) fn add(store: &dyn Store, n: u64) -> Lease {
    let new = NewRun { run: name(n), owner: format!("owner {n}"), at: n, summary: "{}".to_owned() };
    store.create(&new).unwrap()
}

pub(crate) fn lines(numbers: impl IntoIterator<Item = u64>) -> Append {
    let line = |seq| NewEntry { seq, body: format!("{{\"n\":{seq}}}") };
    Append { lines: numbers.into_iter().map(line).collect(), at: 7, ..Append::default() }
}

pub(crate) fn assert_whole(store: &dyn Store, run: &RunId) -> u64 {
    let report = verify_chain(store, run).unwrap();
    assert_eq!(report.broken, None, "run {run}");
    assert_eq!(report.entries, store.run(run).unwrap().unwrap().head, "run {run}");
    report.entries
}

/// Waits for something that another thread or process is about to do.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Where a child finds the folder of the store, and what else it is told.
const FOLDER: &str = "FTL_TEST_STORE";
const WORD: &str = "FTL_TEST_WORD";

/// This test program again, as another process, with one of its ignored tests.
pub(crate) fn child(test: &str, folder: &Path, word: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder).env(WORD, word);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a child was told. `None` when somebody runs the ignored tests by hand.
pub(crate) fn read_child_order() -> Option<(PathBuf, String)> {
    Some((PathBuf::from(std::env::var_os(FOLDER)?), std::env::var(WORD).ok()?))
}
