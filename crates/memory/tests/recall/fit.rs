//! What the weights of `memory::fit` are fitted on: the evidence of every candidate of every question of the tuning half, as a table.
//!
//! `FTL_RECALL_FIT=FILE cargo test -p ftl-memory --test recall fit` writes it. The half set aside is not in it.

use std::fmt::Write as _;

use ftl_core::json::{Json, Object, ObjectExt as _};
use ftl_memory::embed::{Embedder, TokenTable};
use ftl_memory::{Lessons, StoredKind, schema};
use rusqlite::Connection;

use crate::set::{Case, Kind, cases, messy_log, nothing, short_log};
use crate::{memory, now};

fn rows(out: &mut String, lessons: &Lessons<'_>, kind: &str, question: &str, wanted: Option<&str>) {
    let id = out.len();
    for (name, of) in lessons.weigh_candidates(question, &now()).unwrap() {
        let right = u8::from(wanted == Some(name.as_str()));
        let numbers = [
            of.words,
            of.window,
            of.line,
            of.whole,
            of.told,
            of.told_line,
            of.answered,
            of.shared,
            of.length,
        ];
        let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.5}")).collect();
        writeln!(out, "{kind}\t{id}\t{right}\t{}", numbers.join("\t")).unwrap();
    }
}

/// The older set, which was tuned on before: a person's words for 156 errors.
fn older(out: &mut String, embedder: &dyn Embedder) {
    let lines = include_str!("../cases/labelled.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cases: Vec<[&str; 3]> = lines
        .map(|line| {
            let (rest, asked) = line.split_once(" | ").unwrap().1.rsplit_once(" |").unwrap();
            let (trigger, fix) = rest.rsplit_once(" | ").unwrap();
            [trigger.trim(), fix.trim(), asked.trim()]
        })
        .collect();
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(schema::CREATE).unwrap();
    let lessons = Lessons::new(&db, embedder);
    for (at, [trigger, fix, _]) in cases.iter().enumerate() {
        let body =
            Object::new().with("name", format!("case-{at}")).with("trigger", *trigger).with("fix", *fix);
        lessons.learn(StoredKind::Failure, Json::Object(body.with("cost", 500_u64)), &now()).unwrap();
    }
    for (at, [_, _, asked]) in cases.iter().enumerate().filter(|(_, [_, _, asked])| !asked.is_empty()) {
        rows(out, &lessons, "older", asked, Some(&format!("case-{at}")));
    }
}

pub fn table(embedder: &dyn Embedder) -> String {
    let cases = cases();
    let all: Vec<&Case> = cases.iter().collect();
    let (aside, tuned): (Vec<&Case>, Vec<&Case>) = all.iter().partition(|case| case.is_set_aside());
    let (full, others) = (memory(&all, embedder), memory(&aside, embedder));
    let (full, absent) = (Lessons::new(&full, embedder), Lessons::new(&others, embedder));
    let mut out = String::new();
    for case in &tuned {
        for kind in Kind::ALL {
            rows(&mut out, &full, kind.title(), &case.question(kind), Some(&case.name()));
            rows(&mut out, &absent, &format!("absent {}", kind.title()), &case.question(kind), None);
        }
    }
    older(&mut out, embedder);
    for sort in ["near", "far", "objective", "other"] {
        for (at, text) in nothing(sort).iter().enumerate().step_by(2) {
            rows(&mut out, &full, sort, text, None);
            if sort == "near" || sort == "far" {
                rows(&mut out, &full, &format!("{sort} short"), &short_log(text, "ci", at as i64 / 2), None);
                rows(&mut out, &full, &format!("{sort} messy"), &messy_log(text, "ci", at as i64 / 2), None);
            }
        }
    }
    out
}

#[test]
fn the_table_of_the_tuning_half_can_be_written() {
    if let Some(file) = std::env::var_os("FTL_RECALL_FIT") {
        std::fs::write(file, table(&TokenTable::built_in().unwrap())).unwrap();
    }
}
