//! Figures of the store: durable appends beside a bare SQLite loop, and reading a long journal.
//!
//! `cargo bench -p ftl-engine` prints first the ratios, store and bare loop in turns on the same
//! disk, then times. Set `TMPDIR` to choose the disk; compare runs on one machine only.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::{Barrier, LazyLock};
use std::thread;
use std::time::Instant;

use divan::{Bencher, counter::ItemsCount};
use ftl_folder::id::RunId;
use ftl_store::{Append, Lease, NewEntry, NewRun, SqliteStore, Store as _, verify_chain};
use rusqlite::Connection;
use tempfile::TempDir;

/// A usual entry: a fact with a few names and values in it.
const BODY_BYTES: usize = 400;

/// Rounds of the comparison, and how many appends of each run one round has. Rounds are short, so that
/// whatever else the machine does meets both sides.
const ROUNDS: u64 = 41;
const ROUND_APPENDS: [(u64, u64); 2] = [(1, 100), (64, 10)];

const JOURNAL: u64 = 100_000;
const RUNS: u64 = 1_000;

fn main() {
    if !std::env::args().any(|word| word == "--test" || word == "--list") {
        ROUND_APPENDS.into_iter().for_each(|(threads, each)| compare(threads, each));
    }
    divan::main();
}

fn body() -> String {
    "x".repeat(BODY_BYTES)
}

/// A store with so many runs.
struct Filled {
    store: SqliteStore,
    leases: Vec<Lease>,
    _folder: TempDir,
}

impl Filled {
    fn new(runs: u64) -> Filled {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let add = |n: u64| {
            let summary = format!("{{\"title\":\"{}\"}}", "t".repeat(200));
            store.create(&NewRun { run: RunId::of(n), owner: "bench".to_owned(), at: n, summary }).unwrap()
        };
        let leases = (0..runs).map(add).collect();
        Filled { store, leases, _folder: folder }
    }

    /// One thread a run; every append is acknowledged before the next of that run.
    fn append(&self, from: u64, each: u64) {
        thread::scope(|scope| {
            for lease in &self.leases {
                scope.spawn(move || (from..from + each).for_each(|seq| self.append_one(lease, seq)));
            }
        });
    }

    fn append_rounds(&self, lease: &Lease, gate: &Barrier, each: u64) {
        for round in 0..ROUNDS {
            gate.wait();
            (1..=each).for_each(|seq| self.append_one(lease, round * each + seq));
            gate.wait();
        }
    }

    fn append_one(&self, lease: &Lease, seq: u64) {
        let lines = vec![NewEntry { seq, body: body() }];
        self.store.append(lease, Append { lines, at: seq, ..Append::default() }).unwrap();
    }
}

/// What one would write by hand: the same pragmas, the same table, rows of the same size for as many
/// runs, one transaction for as many rows as the store put into one. No chain, no fence, no threads.
struct Bare {
    open: Connection,
    runs: u64,
    /// Whether it also notes in each run's row what its last entry is, as the store does.
    noting: bool,
    _folder: TempDir,
}

impl Bare {
    fn new(runs: u64, noting: bool) -> Bare {
        let folder = tempfile::tempdir().unwrap();
        let open = Connection::open(folder.path().join("bare.db")).unwrap();
        open.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 1000; PRAGMA temp_store = MEMORY;
             CREATE TABLE entries (run INTEGER NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
               body TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID, STRICT;
             CREATE TABLE runs (number INTEGER PRIMARY KEY, head INTEGER, hash BLOB, summary TEXT) STRICT;",
        )
        .unwrap();
        for run in 0..runs as i64 {
            let row = (run, [7_u8; 32], "t".repeat(250));
            open.execute("INSERT INTO runs VALUES (?1, 0, ?2, ?3)", row).unwrap();
        }
        Bare { open, runs, noting, _folder: folder }
    }

    /// Rows of all runs in turn, from a number on.
    fn append(&self, from: u64, rows: u64, batch: u64) {
        let mut next = from;
        while next < from + rows {
            let end = (next + batch).min(from + rows);
            self.open.execute_batch("BEGIN IMMEDIATE").unwrap();
            let mut add = self
                .open
                .prepare_cached(
                    "INSERT INTO entries (run, seq, epoch, body, hash) VALUES (?1, ?2, 1, ?3, ?4)",
                )
                .unwrap();
            let mut note =
                self.open.prepare_cached("UPDATE runs SET head = ?2, hash = ?3 WHERE number = ?1").unwrap();
            for row in next..end {
                let (run, seq) = ((row % self.runs) as i64, (row / self.runs) as i64);
                add.execute((run, seq, body(), [7_u8; 32])).unwrap();
                if self.noting {
                    note.execute((run, seq, [seq as u8; 32])).unwrap();
                }
            }
            self.open.execute_batch("COMMIT").unwrap();
            next = end;
        }
    }
}

/// Store and bare loops in turns, so that all meet the same weather. Threads are started before.
fn compare(threads: u64, each: u64) {
    let filled = Filled::new(threads);
    let bare = [Bare::new(threads, false), Bare::new(threads, true)];
    let gate = Barrier::new(filled.leases.len() + 1);
    let rounds: Vec<Round> = thread::scope(|scope| {
        for lease in &filled.leases {
            scope.spawn(|| filled.append_rounds(lease, &gate, each));
        }
        let rows = each * threads;
        (0..ROUNDS).map(|round| Round::play(&filled, &bare, &gate, round * rows, rows)).collect()
    });
    tell(threads, each * threads, &rounds);
}

/// The seconds of each in one round, and how many rows the store put into one commit.
struct Round {
    store: f64,
    bare: [f64; 2],
    batch: u64,
}

impl Round {
    fn play(filled: &Filled, bare: &[Bare; 2], gate: &Barrier, from: u64, rows: u64) -> Round {
        let commits = filled.store.commits();
        gate.wait();
        let began = Instant::now();
        gate.wait();
        let store = began.elapsed().as_secs_f64();
        let batch = rows.div_ceil(filled.store.commits() - commits);
        let bare = bare.each_ref().map(|bare| {
            let began = Instant::now();
            bare.append(from, rows, batch);
            began.elapsed().as_secs_f64()
        });
        Round { store, bare, batch }
    }
}

fn tell(threads: u64, rows: u64, rounds: &[Round]) {
    let median = |of: &dyn Fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let store = rows as f64 / median(&|round| round.store);
    let batch = median(&|round| round.batch as f64);
    println!("{threads:2} runs: {store:6.0} appends/s, {batch} a commit");
    for (at, what) in ["a bare loop", "a bare loop that notes each run's head"].into_iter().enumerate() {
        let bare = rows as f64 / median(&|round| round.bare[at]);
        let pairs = median(&|round| round.bare[at] / round.store);
        println!("         {:.2} of {what}, {bare:.0}/s (median of pairs {pairs:.2})", store / bare);
    }
}

/// A journal of 100,000 entries, written once.
static LONG: LazyLock<Filled> = LazyLock::new(|| {
    let filled = Filled::new(1);
    for from in (1..=JOURNAL).step_by(1000) {
        let lines = (from..from + 1000).map(|seq| NewEntry { seq, body: body() }).collect();
        filled.store.append(&filled.leases[0], Append { lines, ..Append::default() }).unwrap();
    }
    filled
});

fn read_all(store: &SqliteStore, run: &RunId) -> u64 {
    let mut last = 0;
    loop {
        match store.entries(run, last, 1000).unwrap().last() {
            Some(record) => last = record.seq,
            None => return last,
        }
    }
}

/// A thousand runs and nothing else.
static MANY: LazyLock<Filled> = LazyLock::new(|| Filled::new(RUNS));

#[divan::bench(args = [1, 64], sample_count = 10, sample_size = 1)]
fn append(bencher: Bencher<'_, '_>, threads: u64) {
    let each = 640 / threads;
    bencher
        .counter(ItemsCount::new(640_u64))
        .with_inputs(|| Filled::new(threads))
        .bench_refs(|filled| filled.append(1, each));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn read_100_000_entries(bencher: Bencher<'_, '_>) {
    let filled = &*LONG;
    bencher
        .counter(ItemsCount::new(JOURNAL))
        .bench(|| assert_eq!(read_all(&filled.store, &filled.leases[0].run), JOURNAL));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn verify_100_000_entries(bencher: Bencher<'_, '_>) {
    let filled = &*LONG;
    bencher.counter(ItemsCount::new(JOURNAL)).bench(|| {
        let report = verify_chain(&filled.store, &filled.leases[0].run).unwrap();
        assert_eq!((report.entries, report.broken), (JOURNAL, None));
    });
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn list_1_000_runs(bencher: Bencher<'_, '_>) {
    let filled = &*MANY;
    bencher.bench(|| assert_eq!(filled.store.runs("").unwrap().len() as u64, RUNS));
}

/// What a reading command pays before it knows anything: opening, and asking for all runs.
#[divan::bench(sample_count = 50, sample_size = 1)]
fn open_and_list_1_000_runs(bencher: Bencher<'_, '_>) {
    let folder: &Path = MANY._folder.path();
    bencher.bench(|| {
        let store = SqliteStore::open_existing(folder).unwrap().unwrap();
        assert_eq!(store.runs("").unwrap().len() as u64, RUNS);
    });
}

#[divan::bench(sample_count = 1000, sample_size = 1)]
fn ask_for_the_version(bencher: Bencher<'_, '_>) {
    let filled = &*MANY;
    bencher.bench(|| filled.store.version().unwrap());
}
