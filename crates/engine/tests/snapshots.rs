//! Snapshots: a run that is loaded from one is the run that its whole journal makes, and one that does not fit is nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use ftl_core::run::{Event, Outcome, Run, Terms, Usage};
use ftl_core::value::{Name, Value};
use ftl_engine::driver::{Driver, Opening, Todo};
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_store::journal;
use ftl_store::snapshot::{self, MIN_ENTRIES};
use ftl_store::{SqliteStore, Store};
use support::{fields, library};
use tempfile::TempDir;

/// A loop in which children come and go, with something shared that everybody knows.
const ROUNDS: &str = "PROTOCOL: rounds
INPUT: objective
LIMIT: laps = 100000 ELSE DONE
TRACK: known
STATE: ROUND
  PAY: laps
  CHECK: out = file.read path={objective}
  SET: known = objective
  DO: child = Run(task) objective={objective} ELSE EMIT: \"no child\", PROCEED
  GOTO: ROUND
STATE: DONE
  RETURN: complete";

/// The same without children.
const SPIN: &str = "PROTOCOL: spin
INPUT: objective
LIMIT: laps = 100000 ELSE DONE
TRACK: known
STATE: ROUND
  PAY: laps
  CHECK: out = file.read path={objective}
  SET: known = objective
  GOTO: ROUND
STATE: DONE
  RETURN: complete";

struct Fixture {
    folder: TempDir,
    library: Arc<Library>,
    run: RunId,
}

impl Fixture {
    fn new(program: &str) -> Fixture {
        Fixture { folder: TempDir::new().unwrap(), library: library(program), run: RunId::of(7) }
    }

    fn store(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(self.folder.path()).unwrap())
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("snapshots").join(self.run.as_str())
    }

    /// Drives the loop until its journal has so many entries.
    fn spin(&self, entries: u64) {
        let store = self.store();
        let inputs = fields(&format!(r#"{{"objective":"{}"}}"#, "x".repeat(2_000)));
        let opening = Opening { protocol: Name::from("spin"), inputs, terms: Terms::default() };
        let (driver, todo) = match store.run(&self.run).unwrap() {
            None => Driver::open(store.clone(), self.library.clone(), (self.run.clone(), "o1"), opening, 1)
                .unwrap(),
            Some(row) => {
                let lease = store.take(&self.run, row.epoch, "o2").unwrap();
                Driver::recover(store.clone(), self.library.clone(), lease, 1).unwrap()
            }
        };
        turn(driver, todo, entries);
    }

    /// The run as its whole journal makes it.
    fn replayed(&self) -> Run {
        Run::replay(self.library.clone(), &journal::load(&*self.store(), &self.run).unwrap())
    }

    fn loaded(&self) -> Run {
        snapshot::load(&*self.store(), &self.run, self.library.clone()).unwrap().board.into_machine()
    }
}

fn turn(mut driver: Driver, mut todo: Todo, entries: u64) {
    let mut at = 2;
    while driver.run().next_seq() <= entries {
        at += 1;
        let action = todo.start.pop().unwrap();
        let answer = Value::record([("text", Value::text("x")), ("path", Value::text("a.txt"))]);
        let (instance, action) = (action.instance, action.id);
        let (outcome, usage) = (Outcome::Done(answer), Some(Usage::new()));
        todo = driver.take(at, Event::Outcome { instance, action, outcome, usage }).unwrap();
    }
}

#[test]
fn a_run_out_of_its_snapshot_is_the_run_of_its_whole_journal_and_goes_on() {
    let fixture = Fixture::new(SPIN);
    fixture.spin(MIN_ENTRIES - 100);
    assert!(!fixture.file().exists(), "a short journal needs none");
    fixture.spin(MIN_ENTRIES + 300);
    assert!(fixture.file().exists());
    let (loaded, replayed) = (fixture.loaded(), fixture.replayed());
    assert!(loaded.same_state(&replayed));
    assert_eq!(loaded.next_seq(), replayed.next_seq());
    // Whoever takes it over decides what a driver of the whole journal would.
    fixture.spin(MIN_ENTRIES + 500);
    assert!(fixture.loaded().same_state(&fixture.replayed()));
    assert!(
        Run::verify(fixture.library.clone(), &journal::load(&*fixture.store(), &fixture.run).unwrap())
            .is_ok()
    );
}

#[test]
fn a_snapshot_that_does_not_fit_is_thrown_away() {
    let fixture = Fixture::new(SPIN);
    fixture.spin(MIN_ENTRIES + 100);
    let (sound, replayed) = (std::fs::read(fixture.file()).unwrap(), fixture.replayed());
    let mut damaged: Vec<Vec<u8>> = [0, 25, 40, 70, 95, sound.len() - 1]
        .map(|at| {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            bytes
        })
        .into();
    damaged.extend([Vec::new(), sound[..90].to_vec(), sound[..sound.len() - 1].to_vec()]);
    for bytes in damaged {
        std::fs::write(fixture.file(), bytes).unwrap();
        assert!(fixture.store().snapshot(&fixture.run).is_none_or(|kept| kept.seq > 0));
        assert!(fixture.loaded().same_state(&replayed));
    }
    // A whole one of another journal: its entry is not there.
    let other = Fixture::new(SPIN);
    other.spin(MIN_ENTRIES + 200);
    std::fs::copy(other.file(), fixture.file()).unwrap();
    let kept = fixture.store().snapshot(&fixture.run).unwrap();
    assert!(kept.seq >= MIN_ENTRIES, "it is whole by itself");
    let loaded = fixture.loaded();
    assert!(loaded.same_state(&fixture.replayed()));
    // One that claims another entry of this journal: the hash tells.
    let mut wrong = ftl_store::Snapshot { seq: 5, ..kept };
    wrong.hash = ftl_store::Hash([0; 32]);
    fixture.store().keep_snapshot(&fixture.run, &wrong);
    assert!(fixture.loaded().same_state(&replayed));
}

#[test]
fn children_and_what_they_share_come_back_out_of_a_snapshot() {
    let fixture = Fixture::new(ROUNDS);
    let store = fixture.store();
    let inputs = fields(r#"{"objective":"a.txt"}"#);
    let opening = Opening { protocol: Name::from("rounds"), inputs, terms: Terms::default() };
    let (mut driver, mut todo) =
        Driver::open(store.clone(), fixture.library.clone(), (fixture.run.clone(), "o1"), opening, 1)
            .unwrap();
    for at in 2..200 {
        let Some(action) = todo.start.pop() else { break };
        let answer = Value::record([("text", Value::text("x")), ("path", Value::text("a.txt"))]);
        let (instance, id) = (action.instance, action.id);
        let (outcome, usage) = (Outcome::Done(answer), Some(Usage::new()));
        todo = driver.take(at, Event::Outcome { instance, action: id, outcome, usage }).unwrap();
        let board = snapshot::load(&*store, &fixture.run, fixture.library.clone()).unwrap().board;
        let bytes = board.snapshot().unwrap();
        let back = snapshot::Board::restored(&bytes, fixture.library.clone()).unwrap();
        assert!(back.machine().same_state(driver.run()), "after {at}");
        assert_eq!(back.snapshot().unwrap(), bytes, "the same bytes again");
    }
    assert!(driver.run().instances().len() > 1, "there were children");
}
