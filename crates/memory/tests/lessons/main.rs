//! The lessons over a real database, from outside: what comes in, what is given back, what stays.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod carrying;
mod changing;
mod effect;
mod learning;
mod recalling;
mod relating;
mod tending;

use ftl_core::json::{Json, JsonExt as _};
use ftl_memory::embed::TokenTable;
use ftl_memory::learn::Learned;
use ftl_memory::{Lesson, Lessons, Now, StoredKind, schema};
use rusqlite::Connection;

/// A memory of its own.
struct Memory {
    db: Connection,
    table: TokenTable,
}

impl Memory {
    fn new() -> Memory {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(schema::CREATE).unwrap();
        Memory { db, table: TokenTable::built_in().unwrap() }
    }

    fn lessons(&self) -> Lessons<'_> {
        Lessons::new(&self.db, &self.table)
    }

    fn learn(&self, kind: StoredKind, json: &str) -> Learned {
        self.lessons().learn(kind, Json::parse(json).unwrap(), &now()).unwrap()
    }

    /// A failure by name, trigger and cost.
    fn failure(&self, name: &str, trigger: &str, cost: u64) {
        let json = format!(r#"{{"name":"{name}","trigger":"{trigger}","fix":"do better","cost":{cost}}}"#);
        assert_eq!(self.learn(StoredKind::Failure, &json).outcome.word(), "added", "{trigger}");
    }

    /// A pattern by name, trigger and saving.
    fn pattern(&self, name: &str, trigger: &str, saved: u64) {
        let json = format!(
            r#"{{"name":"{name}","trigger":"{trigger}","insight":"as it was done","saved":{saved}}}"#
        );
        assert_eq!(self.learn(StoredKind::Pattern, &json).outcome.word(), "added", "{trigger}");
    }

    fn find(&self, kind: StoredKind, name: &str) -> Lesson {
        self.lessons().find(kind, name).unwrap().unwrap_or_else(|| panic!("no {name}"))
    }

    fn names(&self, topic: &str) -> Vec<String> {
        let rows = self.lessons().query(topic, 50, &now()).unwrap();
        rows.iter().map(|row| row.lesson.name().to_owned()).collect()
    }
}

fn now() -> Now {
    Now { local: "2026-03-01T12:00:00.000000".to_owned(), ms: 1_772_359_200_000 }
}
