//! The figures of the engine, each beside something else in the same run.
//!
//! `cargo bench -p ftl` prints them: durable transitions beside a bare SQLite loop with the same batch
//! sizes, recovery of a long journal, `ftl status` beside `ftl --version`, a long chain that is killed
//! twice, memory, the FTL protocol's own commands, the flows, and what a person waits for; `cargo bench -p ftl -- status` prints one of them.
//! `FTL_BEFORE=path/of/an/earlier/ftl cargo bench -p ftl -- compare` prints the ratio of this binary to that one. Set `TMPDIR` to choose the disk; machines are noisy, so compare within one run.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "figures/agents.rs"]
mod agents;
#[path = "figures/checkouts.rs"]
mod checkouts;
#[path = "figures/flat.rs"]
mod flat;
#[path = "figures/flows.rs"]
mod flows;
#[path = "figures/groups.rs"]
mod groups;
#[path = "figures/rows.rs"]
mod rows;
#[path = "figures/steps.rs"]
mod steps;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_core::catalogue::Catalogue;
use ftl_core::run::{Event, Outcome, Terms, Usage};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::driver::{Driver, Opening, Todo};
use ftl_folder::id::RunId;
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};
use ftl_store::summary::Summary;
use ftl_store::{SqliteStore, Store};
use ftl_testkit::campaign::Campaign;
use ftl_testkit::mortal::Death;
use ftl_testkit::world::Plot;
use rusqlite::Connection;
use tempfile::TempDir;

/// A loop that goes round until nobody turns it any more.
const SPIN: &str = "PROTOCOL: spin
INPUT: objective
LIMIT: rounds = 1000000000 ELSE DONE
STATE: ROUND
  PAY: rounds
  CHECK: out = file.read path={objective}
  GOTO: ROUND
STATE: DONE
  RETURN: complete";

/// A question for each of many children.
const WAITS: &str = "PROTOCOL: waits
INPUT: items
STATE: A
  DO: all = FOR EACH item IN items BY item
    DO: one = Run(asks) objective={item}
  RETURN: complete";

const ASKS: &str = "PROTOCOL: asks
INPUT: objective
STATE: A
  ASK: reply = \"{objective}?\"
  RETURN: complete reply={reply}";

const JOURNAL: u64 = 100_000;
const CHAIN: usize = 1023;

fn main() {
    if let Ok(stage) = std::env::var("FTL_STAGE") {
        Campaign::open(Path::new(&stage)).play(Death::Never);
        return;
    }
    if let Ok(count) = std::env::var("FTL_WAITING") {
        return waiting(count.parse().unwrap());
    }
    if let Ok(words) = std::env::var("FTL_MEASURED") {
        return flat::measure(&words);
    }
    if std::env::args().any(|word| word == "--test" || word == "--list") {
        return;
    }
    let figures: [(&str, fn()); 13] = [
        ("transitions", || transitions(1, 400)),
        ("transitions", || transitions(64, 20)),
        ("steps", steps::all),
        ("recovery", recovery),
        ("status", status),
        ("chain", chain),
        ("memory", memory),
        ("groups", groups::all),
        ("flows", flows::all),
        ("checkouts", checkouts::all),
        ("agents", agents::all),
        ("compare", flows::compare),
        ("flat", flat::all),
    ];
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, figure) in figures {
        if named.is_empty() || named.iter().any(|one| one == name) {
            figure();
        }
    }
}

fn library() -> Arc<Library> {
    let mut sources = built_in_sources();
    for (name, program) in [("spin", SPIN), ("waits", WAITS), ("asks", ASKS)] {
        let text = format!("# {name}\n\n```protocol\n{program}\n```\n");
        sources.push(SourceDocument::new(format!("{name}.md"), DocumentOrigin::User, text));
    }
    let library = Library::load(sources, Catalogue::standard());
    for name in ["spin", "waits", "asks"] {
        let problems = &library.get(name).unwrap().findings.problems;
        let told: Vec<String> = problems.iter().map(|problem| problem.render(library.sources())).collect();
        assert!(library.program(name).is_some(), "{}", told.join("\n"));
    }
    Arc::new(library)
}

/// A run of the loop, and the means to turn it.
struct Spinner {
    driver: Driver,
    todo: Todo,
    at: u64,
}

impl Spinner {
    fn new(store: Arc<dyn Store>, library: Arc<Library>, number: u64) -> Spinner {
        let inputs = Fields::from([(Name::from("objective"), Value::text("Cargo.toml"))]);
        let opening = Opening { protocol: Name::from("spin"), inputs, terms: Terms::default() };
        let (driver, todo) = Driver::open(store, library, (RunId::of(number), "bench"), opening, 1).unwrap();
        Spinner { driver, todo, at: 1 }
    }

    /// One transition: an outcome heard, a move, a payment, a question asked.
    fn turn(&mut self) {
        self.at += 1;
        let action = self.todo.start.pop().unwrap();
        let answer = Value::record([("text", Value::text("x".repeat(100))), ("path", Value::text("a"))]);
        let event = Event::Outcome {
            instance: action.instance,
            action: action.id,
            outcome: Outcome::Done(answer),
            usage: Some(Usage::new()),
        };
        self.todo = self.driver.take(self.at, event).unwrap();
    }
}

/// Durable transitions a second, beside a bare loop that writes as many bytes in as many commits.
fn transitions(runs: u64, each: u64) {
    let library = library();
    let mut shares = Vec::new();
    let mut last = (0.0, 0.0, 0.0);
    for _ in 0..7 {
        let folder = TempDir::new().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
        let spinners: Vec<Spinner> =
            (0..runs).map(|number| Spinner::new(store.clone(), library.clone(), number)).collect();
        let commits = store.commits();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for mut spinner in spinners {
                scope.spawn(move || (0..each).for_each(|_| spinner.turn()));
            }
        });
        let ours = rate(runs * each, began.elapsed());
        let commits = (store.commits() - commits).max(1);
        let batch = (runs * each).div_ceil(commits);
        let bytes = size(&store);
        let bare = bare(runs * each, batch, bytes);
        shares.push(ours / bare);
        last = (ours, bare, batch as f64);
    }
    shares.sort_by(f64::total_cmp);
    println!(
        "transitions, {runs} runs: {:.0}/s, bare SQLite {:.0}/s with {:.0} a commit; share {:.2} (median of {})",
        last.0,
        last.1,
        last.2,
        shares[shares.len() / 2],
        shares.len()
    );
    let share = shares[shares.len() / 2] * 100.0;
    rows::row(
        &format!("durable steps in process, {runs} at once"),
        "85 % of bare SQLite",
        &format!("{share:.0} %"),
        Some(share >= 85.0),
    );
}

fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// How many bytes of entries one transition has written.
fn size(store: &SqliteStore) -> usize {
    let page = store.entries(&RunId::of(0), 5, 40).unwrap();
    page.iter().map(|record| record.body.len()).sum::<usize>() * 4 / page.len().max(1)
}

/// A loop of plain SQL with the same pragmas: so many transitions, so many in a commit.
fn bare(count: u64, batch: u64, bytes: usize) -> f64 {
    let folder = TempDir::new().unwrap();
    let sql = Connection::open(folder.path().join("bare.db")).unwrap();
    sql.pragma_update(None, "journal_mode", "wal").unwrap();
    sql.pragma_update(None, "synchronous", "full").unwrap();
    sql.execute_batch("CREATE TABLE t (run INTEGER, seq INTEGER, hash BLOB, body TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID; CREATE TABLE r (run INTEGER PRIMARY KEY, head INTEGER, summary TEXT)").unwrap();
    let (body, summary) = ("x".repeat(bytes / 4), "s".repeat(400));
    let began = Instant::now();
    let mut seq = 0u64;
    for group in 0..count.div_ceil(batch) {
        sql.execute_batch("BEGIN IMMEDIATE").unwrap();
        for run in 0..batch.min(count - group * batch) {
            for _ in 0..4 {
                seq += 1;
                let mut insert = sql.prepare_cached("INSERT INTO t VALUES (?1, ?2, ?3, ?4)").unwrap();
                insert.execute((run as i64, seq as i64, [0u8; 32], &body)).unwrap();
            }
            let mut update = sql.prepare_cached("INSERT OR REPLACE INTO r VALUES (?1, ?2, ?3)").unwrap();
            update.execute((run as i64, seq as i64, &summary)).unwrap();
        }
        sql.execute_batch("COMMIT").unwrap();
    }
    rate(count, began.elapsed())
}

/// Cold open and recovery of a long journal.
fn recovery() {
    let (folder, library) = (TempDir::new().unwrap(), library());
    let id = RunId::of(0);
    {
        let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
        let mut spinner = Spinner::new(store, library.clone(), 0);
        while spinner.driver.run().next_seq() < JOURNAL {
            spinner.turn();
        }
    }
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
        let epoch = store.run(&id).unwrap().unwrap().epoch;
        let lease = store.take(&id, epoch, "bench").unwrap();
        Driver::recover(store, library.clone(), lease, 2).unwrap();
        best = best.min(began.elapsed());
    }
    let took = best.as_secs_f64() * 1e3;
    println!("recovery of {JOURNAL} entries: {took:.0} ms (best of 3)");
    rows::row("recovery of 100,000 entries of a loop", "0.5 s", &format!("{took:.0} ms"), Some(took < 500.0));
}

/// `ftl status` with many runs beside `ftl --version`.
fn status() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir_all(folder.path().join(".ftl/store")).unwrap();
    {
        let store = Arc::new(SqliteStore::open(&folder.path().join(".ftl/store")).unwrap());
        let library = library();
        for number in 0..1000 {
            let inputs =
                Fields::from([(Name::from("objective"), Value::text(format!("objective {number}")))]);
            let opening = Opening { protocol: Name::from("asks"), inputs, terms: Terms::default() };
            let (driver, _) =
                Driver::open(store.clone(), library.clone(), (RunId::of(number), "bench"), opening, 1)
                    .unwrap();
            driver.release().unwrap();
        }
    }
    let calls: [&[&str]; 4] = [&["--version"], &["status"], &["status", "--all"], &["status", "--json"]];
    let times = times(folder.path(), &calls);
    println!("ftl --version {:.2} ms; with 1,000 runs:", times[0]);
    for (words, time) in calls.iter().zip(&times).skip(1) {
        println!("  ftl {} {time:.2} ms, {:.1} times", words.join(" "), time / times[0]);
    }
}

/// The median time of each call, in milliseconds. They take turns, so that a busy machine is busy for all.
fn times(folder: &Path, calls: &[&[&str]]) -> Vec<f64> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); calls.len()];
    for _ in 0..41 {
        for (words, times) in calls.iter().zip(&mut times) {
            let began = Instant::now();
            let mut ftl = Command::new(env!("CARGO_BIN_EXE_ftl"));
            let status = ftl.arg("--repo").arg(folder).args(*words).stdout(Stdio::null()).status().unwrap();
            assert!(status.success());
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    times.iter().map(|times| times[times.len() / 2]).collect()
}

/// A chain of dependent tasks with agents that do nothing, killed and resumed twice.
fn chain() {
    let folder = TempDir::new().unwrap();
    let tasks: Vec<String> = (1..=CHAIN)
        .map(|number| if number == 1 { "0001".to_owned() } else { format!("{number:04}<{:04}", number - 1) })
        .collect();
    let campaign = Campaign::create(folder.path(), Plot::new(1, 0, &tasks.join(" "))).unwrap();
    let began = Instant::now();
    for third in 1..=3 {
        let mut child =
            Command::new(std::env::current_exe().unwrap()).env("FTL_STAGE", folder.path()).spawn().unwrap();
        // Every task opens a builder: the store tells how many have ended without a journal being read.
        let done = || {
            let store = SqliteStore::open_existing(&folder.path().join("store")).unwrap();
            let row = store.and_then(|store| store.runs("").unwrap().pop());
            let summary: Option<Summary> = row.and_then(|row| serde_json::from_str(&row.summary).ok());
            summary.map_or(0, |summary| summary.instances.1)
        };
        while third < 3 && done() < (CHAIN * third / 3) as u64 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(100));
        }
        if third < 3 {
            child.kill().unwrap();
        }
        child.wait().unwrap();
    }
    let took = began.elapsed();
    let (end, _) = campaign.outcome();
    assert_eq!(end.as_deref(), Some("complete"));
    println!("chain of {CHAIN} tasks, killed and resumed twice: {:.1} s", took.as_secs_f64());
}

/// Memory of an engine with one run that waits, and with a thousand instances that wait.
fn memory() {
    for count in ["1", "1000"] {
        let output =
            Command::new(std::env::current_exe().unwrap()).env("FTL_WAITING", count).output().unwrap();
        println!("memory with {count} waiting: {}", String::from_utf8_lossy(&output.stdout).trim());
    }
}

fn waiting(count: usize) {
    let folder = TempDir::new().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
    let items = Value::list((0..count).map(|index| Value::text(format!("item {index}"))));
    let inputs = Fields::from([(Name::from("items"), items)]);
    let opening = Opening { protocol: Name::from("waits"), inputs, terms: Terms::default() };
    let (driver, _todo) = Driver::open(store, library(), (RunId::of(1), "bench"), opening, 1).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let rss = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    println!("{} ({} instances)", rss.trim_start_matches("VmRSS:").trim(), driver.run().instances().len());
}
