//! How near two texts are, in 0..1: by meaning, by shared words, by shared runs of letters.
//!
//! Each of the three measures is calibrated so that the thresholds below mean the same for all:
//! unrelated texts stay under [`CONTEXT`], texts that say the same in other words come above
//! [`QUERY`]. `tests/labelled.rs` prints the distributions behind the numbers.

pub mod gestalt;
pub mod overlap;

use crate::embed::{Embedder, Vector};
use crate::line::on_line;
use crate::text;

/// A lesson is a duplicate above this, in both measures.
pub const DUPLICATE: f64 = 0.85;
/// `query` lists what is above this.
pub const QUERY: f64 = 0.3;
/// `context` gives an agent what is at or above this: an objective names no error, so that it must be surer than for a person who asks.
pub const CONTEXT: f64 = 0.4;

/// Points of the map from raw string ratios; two English sentences share a fifth of their runs by chance.
const RATIOS: [(f64, f64); 4] = [(0.15, 0.0), (0.42, 0.25), (0.85, 0.85), (1.0, 1.0)];

/// The three measures of one pair of texts, calibrated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Cosine of the embeddings.
    pub meaning: f64,
    /// How many words the texts share, weighted.
    pub words: f64,
    /// Shared runs of letters.
    pub letters: f64,
}

impl Measures {
    /// The best of the three.
    pub fn best(self) -> f64 {
        self.meaning.max(self.words).max(self.letters)
    }
}

/// A text made ready to be compared with many others.
#[derive(Clone)]
pub struct PreparedText<'e> {
    plain: Plain,
    vector: Vector,
    embedder: &'e dyn Embedder,
}

/// The other side of a comparison, whose cosine is known already or not wanted.
#[derive(Clone, Debug)]
pub struct Plain {
    words: overlap::Words,
    letters: Vec<char>,
    normal: String,
}

impl Plain {
    /// Splits a text into words and letters.
    pub fn new(of: &str) -> Plain {
        let normal = text::normalise(text::clip(of, text::MAX_CHARS));
        Plain { words: overlap::Words::of(of), letters: gestalt::letters(&normal), normal }
    }

    /// The words of the text.
    pub fn words(&self) -> &overlap::Words {
        &self.words
    }
}

impl<'e> PreparedText<'e> {
    /// Splits a text into words and letters, and embeds it.
    pub fn new(of: &str, embedder: &'e dyn Embedder) -> PreparedText<'e> {
        PreparedText { plain: Plain::new(of), vector: embedder.embed(of), embedder }
    }

    /// The embedding of the text.
    pub fn vector(&self) -> &Vector {
        &self.vector
    }

    /// The words of the text.
    pub fn words(&self) -> &overlap::Words {
        self.plain.words()
    }

    /// How well another text answers this one, given the raw cosine of both. A text that holds all the
    /// words asked for is near, however long it is.
    pub fn answered_by(&self, other: &Plain, raw_cosine: f64) -> Measures {
        self.plain.measures(
            other,
            self.words().answered_by(&other.words),
            self.embedder.calibrated(raw_cosine),
        )
    }

    /// How alike the two texts are as wholes.
    pub fn like(&self, other: &PreparedText<'_>) -> Measures {
        let words = self.plain.words.like(&other.plain.words);
        let meaning = self.embedder.calibrated(self.vector.cosine(&other.vector));
        self.plain.measures(&other.plain, words, meaning)
    }

    /// Whether both say the same, and how surely: equal normalised text, or both measures above
    /// [`DUPLICATE`] and the same codes (`E0382` and `E0502` are never one error).
    pub fn repeats(&self, other: &PreparedText<'_>) -> Option<f64> {
        let (here, there) = (&self.plain, &other.plain);
        if here.normal.is_empty() || there.normal.is_empty() {
            return None;
        }
        if here.normal == there.normal {
            return Some(1.0);
        }
        if !here.words.same_codes(&there.words) {
            return None;
        }
        let cosine = self.vector.cosine(&other.vector);
        let string = here.words.like(&there.words).max(gestalt::ratio(&here.letters, &there.letters));
        (cosine > DUPLICATE && string > DUPLICATE).then_some(cosine.min(string))
    }
}

impl Plain {
    fn measures(&self, other: &Plain, words: f64, meaning: f64) -> Measures {
        if self.normal.is_empty() || other.normal.is_empty() {
            return Measures::default();
        }
        if self.normal == other.normal {
            return Measures { meaning: 1.0, words: 1.0, letters: 1.0 };
        }
        // The expensive measure is left out where it cannot win.
        let bound = on_line(&RATIOS, gestalt::upper_bound(&self.letters, &other.letters));
        let letters = if bound <= meaning.max(words) {
            0.0
        } else {
            on_line(&RATIOS, gestalt::ratio(&self.letters, &other.letters))
        };
        Measures { meaning, words, letters }
    }
}

/// How alike two texts are, from 0 to 1; 0 if one is empty.
pub fn similarity(left: &str, right: &str, embedder: &dyn Embedder) -> f64 {
    PreparedText::new(left, embedder).like(&PreparedText::new(right, embedder)).best()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::TokenTable;

    fn repeats(left: &str, right: &str) -> bool {
        let table = TokenTable::built_in().unwrap();
        PreparedText::new(left, &table).repeats(&PreparedText::new(right, &table)).is_some()
    }

    #[test]
    fn duplicates_are_duplicates() {
        let table = "
            yes | Database is locked, two writers | database  is LOCKED, two writers.
            yes | cannot import name Session from module db (circular import) | cannot import name Session from module db, circular import
            yes | connection to the server was refused on start | connection to the server was refused on start up
            no  | error[E0382]: use of moved value: `config` | error[E0502]: use of moved value: `config`
            no  | database is locked | the door is locked
            no  | connection refused by redis | connection refused by postgres
            no  | add the user to the group | remove the user from the group
            no  | a | b
        ";
        for line in table.lines().filter(|line| line.contains('|')) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(repeats(parts[1], parts[2]), parts[0] == "yes", "{}", line.trim());
        }
        assert!(!repeats("", "") && !repeats(" . ", "!"));
    }

    #[test]
    fn one_word_hits_a_long_text_and_an_empty_one_nothing() {
        let table = TokenTable::built_in().unwrap();
        let long = format!(
            "{} connect ECONNREFUSED while the queue was {}",
            "one two three ".repeat(20),
            "drained ".repeat(40)
        );
        let probe = |text: &str| PreparedText::new(text, &table);
        assert!(probe("ECONNREFUSED").answered_by(&Plain::new(&long), 0.0).best() > QUERY);
        assert_eq!(probe("").answered_by(&Plain::new(&long), 0.0).best(), 0.0);
        assert_eq!(similarity("x y z", "", &table), 0.0);
        assert_eq!(similarity("Same text", "same  text", &table), 1.0);
    }

    #[test]
    fn no_cliff_at_two_hundred_letters() {
        let table = TokenTable::built_in().unwrap();
        let text = |n: usize| {
            "the cache was stale because nobody told the second server about it ".repeat(5)[..n].to_owned()
        };
        let query = "the cache was stale on the other server";
        let at = |n: usize| similarity(query, &text(n), &table);
        assert!((at(199) - at(200)).abs() < 0.02 && (at(200) - at(201)).abs() < 0.02);
    }

    #[test]
    fn lines_are_linear_and_end() {
        let points = [(0.2, 0.0), (0.4, 0.5), (1.0, 1.0)];
        for (at, wanted) in [(-1.0, 0.0), (0.2, 0.0), (0.3, 0.25), (0.7, 0.75), (1.0, 1.0), (2.0, 1.0)] {
            assert!((on_line(&points, at) - wanted).abs() < 1e-9);
        }
    }
}
