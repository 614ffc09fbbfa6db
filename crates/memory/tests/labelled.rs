//! The labelled set: error messages, each with the words in which somebody else asks for it.
//!
//! Prints recall@5 of full text, embeddings and both, and the distributions behind the calibration.
//! `cargo test -p ftl-memory --test labelled -- --nocapture` shows them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests fail by panicking")]

use ftl_core::json::{Json, Object, ObjectExt as _};
use ftl_memory::embed::{Embedder, TokenTable};
use ftl_memory::similar::{self, Plain, PreparedText};
use ftl_memory::{Lessons, Now, SearchMode, StoredKind, schema};
use rusqlite::Connection;

const SET: &str = include_str!("cases/labelled.txt");

struct Case {
    trigger: &'static str,
    fix: &'static str,
    asked: &'static str,
}

/// Every line of the set; what nobody asks for has no question.
fn cases() -> Vec<Case> {
    let lines = SET.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (_, rest) = line.split_once(" | ").expect("a language");
            let (rest, asked) = rest.rsplit_once(" |").expect("a question or none");
            let (trigger, fix) = rest.rsplit_once(" | ").expect("a fix");
            Case { trigger: trigger.trim(), fix: fix.trim(), asked: asked.trim() }
        })
        .collect()
}

fn now() -> Now {
    Now { local: "2026-03-01T12:00:00.000000".to_owned(), ms: 1_772_359_200_000 }
}

fn memory(table: &dyn Embedder) -> Connection {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(schema::CREATE).unwrap();
    for (at, case) in cases().iter().enumerate() {
        let body = Object::new()
            .with("name", format!("case-{at}"))
            .with("trigger", case.trigger)
            .with("fix", case.fix)
            .with("cost", 500_u64);
        let learned =
            Lessons::new(&db, table).learn(StoredKind::Failure, Json::Object(body), &now()).unwrap();
        assert_eq!(learned.outcome.word(), "added", "{}", case.trigger);
    }
    db
}

#[test]
fn the_hybrid_recalls_best() {
    let [words, meaning, both] = recall_at_5(&TokenTable::built_in().unwrap());
    assert!(both > words && both > meaning, "the hybrid is not the best");
    assert!(both >= 0.75, "recall fell");
}

/// With better vectors, by the weights in the folder that `FTL_MINILM` names.
#[cfg(feature = "minilm")]
#[test]
#[ignore = "needs minilm: run tools/minilm/check, which has the weights"]
fn better_vectors_recall_better() {
    use ftl_memory::embed::minilm::MiniLm;
    let folder = std::env::var_os("FTL_MINILM").unwrap();
    let model = MiniLm::open(std::path::Path::new(&folder)).unwrap();
    let [_, table, _] = recall_at_5(&TokenTable::built_in().unwrap());
    let [words, meaning, both] = recall_at_5(&model);
    assert!(meaning > table && both > words);
}

/// Recall of full text, of embeddings and of both; printed too.
fn recall_at_5(embedder: &dyn Embedder) -> [f64; 3] {
    let db = memory(embedder);
    let lessons = Lessons::new(&db, embedder);
    let cases = cases();
    let asked: Vec<(usize, &Case)> =
        cases.iter().enumerate().filter(|(_, case)| !case.asked.is_empty()).collect();
    assert!(asked.len() >= 120, "{} labelled", asked.len());
    let recall = |way: SearchMode, most: usize| {
        let found = asked.iter().filter(|(at, case)| {
            let names = lessons.ranked(case.asked, way, most, &now()).unwrap();
            names.contains(&format!("case-{at}"))
        });
        found.count() as f64 / asked.len() as f64
    };
    let at5 = [SearchMode::Words, SearchMode::Meaning, SearchMode::Both].map(|way| recall(way, 5));
    println!("{}: {} questions over {} lessons", embedder.id(), asked.len(), cases.len());
    for (way, at5) in ["full text", "embeddings", "both"].iter().zip(at5) {
        println!("recall@5 {way:10} {at5:.3}");
    }
    println!(
        "recall@1 both {:.3}, recall@10 both {:.3}",
        recall(SearchMode::Both, 1),
        recall(SearchMode::Both, 10)
    );
    at5
}

fn show(name: &str, mut numbers: Vec<f64>) -> [f64; 5] {
    numbers.sort_by(f64::total_cmp);
    let at = |share: f64| numbers[((numbers.len() - 1) as f64 * share) as usize];
    let found = [at(0.05), at(0.25), at(0.5), at(0.95), at(0.99)];
    println!(
        "{name:24} p5 {:.2}  p25 {:.2}  p50 {:.2}  p95 {:.2}  p99 {:.2}",
        found[0], found[1], found[2], found[3], found[4]
    );
    found
}

#[test]
fn thresholds_mean_the_same_for_every_measure() {
    let table = TokenTable::built_in().unwrap();
    let cases = cases();
    let plain: Vec<Plain> = cases.iter().map(|case| Plain::new(case.trigger)).collect();
    let stored = |case: &Case| match case.fix {
        "UNKNOWN" => table.embed(case.trigger),
        fix => table.embed(case.trigger).leaning(&table.embed(fix), 0.5),
    };
    let vectors: Vec<_> = cases.iter().map(stored).collect();
    let mut pairs = [vec![], vec![], vec![], vec![], vec![]];
    let mut others = [vec![], vec![], vec![], vec![], vec![]];
    for (at, case) in cases.iter().enumerate().filter(|(_, case)| !case.asked.is_empty()) {
        let probe = PreparedText::new(case.asked, &table);
        for (other, plain) in plain.iter().enumerate() {
            let cosine = probe.vector().cosine(&vectors[other]);
            let found = probe.answered_by(plain, cosine);
            let into = if other == at { &mut pairs } else { &mut others };
            let row = [cosine, found.meaning, found.words, found.letters, found.best()];
            into.iter_mut().zip(row).for_each(|(list, number)| list.push(number));
        }
    }
    let names = ["raw cosine", "meaning", "words", "letters", "relevance"];
    let share =
        |list: &[f64], least: f64| list.iter().filter(|n| **n > least).count() as f64 / list.len() as f64;
    for (name, list) in names.iter().zip(&others) {
        show(&format!("unrelated {name}"), list.clone());
    }
    for (name, list) in names.iter().zip(&pairs) {
        show(&format!("paraphrase {name}"), list.clone());
    }
    let (noise, found) = (share(&others[4], similar::CONTEXT), share(&pairs[4], similar::QUERY));
    println!("unrelated above 0.25: {noise:.3}; paraphrases above 0.3: {found:.3}");
    assert!(noise < 0.06, "unrelated texts come through");
    assert!(found > 0.65, "paraphrases are lost");
}
