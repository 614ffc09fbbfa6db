//! Shared words, weighted: codes count more, words that stand everywhere less, stop words nothing.
//!
//! Words are compared by their stems. Nothing here knows how often a word occurs in a memory.

use std::collections::BTreeMap;

use crate::text;

/// How much a text that holds every word asked for gets beyond its likeness.
const COVER_SHARE: f64 = 0.55;

/// So many different words of a text are compared.
const MAX_WORDS: usize = 200;

/// The stems of a text with their weights.
#[derive(Clone, Debug, Default)]
pub struct Words {
    weights: BTreeMap<String, f64>,
    total: f64,
}

impl Words {
    /// Takes the words of a text. A text of nothing but stop words keeps them.
    pub fn of(text: &str) -> Words {
        let found = text::words(text);
        let all_stop = found.iter().all(|word| text::is_stop(word));
        let mut weights = BTreeMap::new();
        for word in found {
            let weight = if all_stop { 0.2 } else { text::word_weight(&word) };
            if weight > 0.0 && weights.len() < MAX_WORDS {
                weights.insert(text::stem(&word).to_owned(), weight);
            }
        }
        let total = weights.values().sum();
        Words { weights, total }
    }

    /// Twice the shared weight by both weights: 1 only for the same words.
    pub fn like(&self, other: &Words) -> f64 {
        let both = self.total + other.total;
        if both > 0.0 { 2.0 * self.shared(other) / both } else { 0.0 }
    }

    /// Likeness, raised by the share of these words that the other text holds.
    pub fn answered_by(&self, other: &Words) -> f64 {
        if self.total <= 0.0 {
            return 0.0;
        }
        let (like, cover) = (self.like(other), self.cover(other));
        like + (cover - like).max(0.0) * COVER_SHARE
    }

    /// The share of these words that the other text holds.
    pub fn cover(&self, other: &Words) -> f64 {
        if self.total > 0.0 { self.shared(other) / self.total } else { 0.0 }
    }

    /// Whether both texts name the same codes: words of letters and digits.
    pub fn same_codes(&self, other: &Words) -> bool {
        self.codes().eq(other.codes())
    }

    fn codes(&self) -> impl Iterator<Item = &String> {
        let is_code = |word: &&String| {
            word.bytes().any(|byte| byte.is_ascii_digit())
                && word.bytes().any(|byte| byte.is_ascii_alphabetic())
        };
        self.weights.keys().filter(is_code)
    }

    fn shared(&self, other: &Words) -> f64 {
        let (small, large) =
            if self.weights.len() < other.weights.len() { (self, other) } else { (other, self) };
        let in_both = small.weights.iter().filter(|(word, _)| large.weights.contains_key(*word));
        in_both.map(|(_, weight)| weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_words() {
        let table = "
            like     | lock the file | file the lock | 1
            like     | red green | green blue | 0.5
            like     | the of and | lock | 0
            answered | econnrefused | connect econnrefused to the redis queue | 0.73
            answered | red green blue grey | red apples in the garden house | 0.25
            answered | the | the lock | 0
            cover    | E0382 moved | moved value | 0.4
        ";
        for line in table.lines().filter(|line| line.contains('|')) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let (left, right) = (Words::of(parts[1]), Words::of(parts[2]));
            let found = match parts[0] {
                "like" => left.like(&right),
                "answered" => left.answered_by(&right),
                _ => left.cover(&right),
            };
            assert!((found - parts[3].parse::<f64>().unwrap()).abs() < 0.02, "{}: {found}", line.trim());
        }
    }

    #[test]
    fn codes_differ_or_not() {
        let same = |left, right| Words::of(left).same_codes(&Words::of(right));
        assert!(same("E0382 moved", "moved by E0382"));
        assert!(!same("E0382 moved", "E0502 moved"));
        assert!(same("line 42", "line 57"));
        let many: String = (0..1000).map(|n| format!("w{n} ")).collect();
        assert_eq!(Words::of(&many).weights.len(), MAX_WORDS);
    }
}
