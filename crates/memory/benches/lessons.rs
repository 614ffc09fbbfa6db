//! Figures of the lessons at 100,000 entries: `query`, `context`, `add` with its search for duplicates.
//!
//! `cargo bench -p ftl-memory` builds the memory once, then asks in new processes, so that nothing is
//! warm but the disk cache of the kernel; times count from the first line of `main`. `FTL_LESSONS` says
//! how many lessons; `TMPDIR` says which disk.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ftl_core::json::{Json, Object, ObjectExt as _};
use ftl_memory::benchmark::{self, Lot};
use ftl_memory::embed::{Embedder as _, TokenTable};
use ftl_memory::import_export::ImportMode;
use ftl_memory::recall::ContextRequest;
use ftl_memory::{Lessons, Now, StoredKind, schema};
use rusqlite::Connection;

const LESSONS: usize = 100_000;
const ROUNDS: usize = 7;
const CHILD: &str = "FTL_LESSONS_CHILD";

/// What is asked of a large memory, by name.
const JOBS: [&str; 8] =
    ["open", "query-words", "query-meaning", "query-common", "query-error", "context", "add", "add-same"];

fn main() {
    let begun = Instant::now();
    if let Ok(file) = std::env::var(CHILD) {
        let job = std::env::args().nth(1).unwrap();
        return child(&job, Path::new(&file), begun);
    }
    if std::env::args().any(|word| word == "--test" || word == "--list") {
        return;
    }
    let lessons = std::env::var("FTL_LESSONS").ok().and_then(|text| text.parse().ok()).unwrap_or(LESSONS);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lessons.sqlite");
    build(&file, lessons);
    embed_speed();
    println!("{lessons} lessons, {} MB on disk", std::fs::metadata(&file).unwrap().len() / 1_000_000);
    for job in JOBS {
        report(job, &file);
    }
    warm(&file);
}

fn now() -> Now {
    Now { local: "2026-03-01T12:00:00.000000".to_owned(), ms: 1_772_359_200_000 }
}

fn open(file: &Path) -> Connection {
    let db = Connection::open(file).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;").unwrap();
    db
}

fn build(file: &Path, lessons: usize) {
    let begun = Instant::now();
    let table = TokenTable::built_in().unwrap();
    let mut db = open(file);
    db.execute_batch(schema::CREATE).unwrap();
    let json = benchmark::generate(lessons * 7 / 10, lessons - lessons * 7 / 10, 1, &now()).to_string();
    let work = db.transaction().unwrap();
    Lessons::new(&work, &table).import(&json, ImportMode::Add).unwrap();
    work.commit().unwrap();
    println!("import of {lessons}: {:.1} s", begun.elapsed().as_secs_f64());
}

fn embed_speed() {
    let table = TokenTable::built_in().unwrap();
    let begun = Instant::now();
    let rounds = 20_000;
    for at in 0..rounds {
        std::hint::black_box(table.embed(&format!(
            "ImportError: cannot import name Session{at} from partially initialised module"
        )));
    }
    println!("embed: {:.1} µs a sentence", begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
}

/// Asks in new processes; prints the median time, the least time on a processor (which a busy machine
/// does not stretch as much) and the most memory.
fn report(job: &str, file: &Path) {
    let mut times = Vec::new();
    let (mut memory, mut cpu) = (0.0_f64, f64::MAX);
    let mut said = String::new();
    for _ in 0..ROUNDS {
        let me = std::env::current_exe().unwrap();
        let out = Command::new(me).arg(job).env(CHILD, file).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let mut parts = text.trim().splitn(4, ' ');
        times.push(parts.next().unwrap().parse::<f64>().unwrap());
        cpu = cpu.min(parts.next().unwrap().parse().unwrap());
        memory = memory.max(parts.next().unwrap().parse().unwrap());
        said = parts.next().unwrap_or_default().to_owned();
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{job:14} {:7.1} ms (worst {:.1}, cpu {cpu:.1})  {memory:5.0} MB  {said}",
        times[ROUNDS / 2],
        times[ROUNDS - 1]
    );
}

fn child(job: &str, file: &Path, begun: Instant) {
    let table = TokenTable::built_in().unwrap();
    let mut db = open(file);
    let work = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let lessons = Lessons::new(&work, &table);
    let query = |topic: &str| format!("{} rows", lessons.query(topic, 50, &now()).unwrap().len());
    let said = match job {
        "query-words" => query("payment_queue_4f2"),
        "query-meaning" => query("the program cannot reach the server that charges cards"),
        "query-common" => query("error in the build of search"),
        "query-error" => query(
            &"thread 'main' panicked at index out of bounds in session_cache_77aa while the disk is full. "
                .repeat(10),
        ),
        "context" => {
            let asked = ContextRequest {
                objective: Some("make the upload survive a restart".to_owned()),
                ..ContextRequest::default()
            };
            let given = lessons.context(&asked, &now()).unwrap();
            lessons.accessed(&given, &now()).unwrap();
            format!("{} entries", given.entries().count())
        }
        "add" => add(&lessons, "mismatched widgets while painting the login window on a tiny screen"),
        "add-same" => {
            let mut lot = Lot::new(1);
            add(&lessons, &benchmark::trigger(&mut lot, 0))
        }
        _ => lessons.count(StoredKind::Failure).unwrap().to_string(),
    };
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    if job == "context" {
        work.commit().unwrap();
    } else {
        work.rollback().unwrap();
    }
    println!("{ms} {} {} {said}", cpu_ms(), peak_mb());
}

fn add(lessons: &Lessons<'_>, trigger: &str) -> String {
    let body = Object::new().with("name", "bench-add").with("trigger", trigger).with("cost", 500_u64);
    lessons.learn(StoredKind::Failure, Json::Object(body), &now()).unwrap().outcome.word()
}

/// Of the whole process, from its start.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e6
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    let kb = line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
    kb / 1000.0
}

/// The same questions in one process.
fn warm(file: &Path) {
    let table = TokenTable::built_in().unwrap();
    let db = open(file);
    let lessons = Lessons::new(&db, &table);
    for topic in ["payment_queue_4f2", "the program cannot reach the server that charges cards"] {
        lessons.query(topic, 50, &now()).unwrap();
        let begun = Instant::now();
        (0..20).for_each(|_| drop(lessons.query(topic, 50, &now()).unwrap()));
        println!("warm query     {:7.1} ms  {topic}", begun.elapsed().as_secs_f64() * 1000.0 / 20.0);
    }
}
