//! How rare a term is among the lessons of this memory.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use crate::error::Error;
use crate::terms;

/// Counting stops here: a term in more lessons is common, and no lesson is looked up by it.
pub(crate) const COMMON: i64 = 1_500;

/// A memory of fewer lessons counts as one of so many, so that the words of its three lessons are not all common.
const FEWEST: f64 = 100.0;

/// Words that stand in most error texts of the world say little, however few the lessons are.
const USUAL_SHARE: f64 = 0.4;

/// The rarity of terms, counted once each.
pub(crate) struct Rarity<'c> {
    db: &'c Connection,
    all: f64,
    known: RefCell<BTreeMap<String, (i64, f64)>>,
}

impl<'c> Rarity<'c> {
    /// `count` is the number of lessons.
    pub(crate) fn new(db: &'c Connection, count: u64) -> Rarity<'c> {
        Rarity { db, all: (count as f64).max(FEWEST), known: RefCell::default() }
    }

    /// In how many lessons a term stands, up to [`COMMON`] and one more.
    pub(crate) fn count(&self, term: &str) -> Result<i64, Error> {
        Ok(self.look(term)?.0)
    }

    /// From 0 for a term of every lesson to 1 for a term of none.
    pub(crate) fn weight(&self, term: &str) -> Result<f64, Error> {
        Ok(self.look(term)?.1)
    }

    fn look(&self, term: &str) -> Result<(i64, f64), Error> {
        if let Some(known) = self.known.borrow().get(term) {
            return Ok(*known);
        }
        let sql = "SELECT count(*) FROM (SELECT 1 FROM lesson_words WHERE lesson_words MATCH ?1 LIMIT ?2)";
        let count: i64 =
            self.db.prepare_cached(sql)?.query_row(params![quoted(term), COMMON + 1], |row| row.get(0))?;
        let rarity = |count: f64| (1.0 + (self.all - count).max(0.0) / (count + 0.5)).ln();
        let share = if terms::is_usual(term) { USUAL_SHARE } else { 1.0 };
        let found = (count, share * rarity(count as f64) / rarity(0.0));
        self.known.borrow_mut().insert(term.to_owned(), found);
        Ok(found)
    }
}

/// A term as a word of the index's language. Terms are letters and digits, so nothing in it can be an operator.
pub(crate) fn quoted(term: &str) -> String {
    format!("\"{term}\"")
}
