//! Plain BM25, as `rank_bm25` has it: the yardstick of the table.

use std::collections::{BTreeMap, BTreeSet};

const K1: f64 = 1.5;
const B: f64 = 0.75;

/// An index over some texts.
pub struct Bm25 {
    texts: Vec<(String, BTreeMap<String, f64>, f64)>,
    in_texts: BTreeMap<String, f64>,
    mean: f64,
}

impl Bm25 {
    pub fn of(named: impl Iterator<Item = (String, String)>) -> Bm25 {
        let mut texts = Vec::new();
        let mut in_texts: BTreeMap<String, f64> = BTreeMap::new();
        for (name, text) in named {
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            let words = words(&text);
            words.iter().for_each(|word| *counts.entry(word.clone()).or_default() += 1.0);
            counts.keys().for_each(|word| *in_texts.entry(word.clone()).or_default() += 1.0);
            texts.push((name, counts, words.len() as f64));
        }
        let mean = texts.iter().map(|(_, _, length)| length).sum::<f64>() / texts.len() as f64;
        Bm25 { texts, in_texts, mean }
    }

    /// The five best, by every word of the question or by each different word once.
    pub fn best(&self, asked: &str, once: bool) -> Vec<String> {
        let mut asked = words(asked);
        if once {
            asked = asked.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        }
        let all = self.texts.len() as f64;
        let score = |(_, counts, length): &(String, BTreeMap<String, f64>, f64)| -> f64 {
            let of = |word: &String| {
                let count = counts.get(word).copied().unwrap_or_default();
                let texts = self.in_texts.get(word).copied().unwrap_or_default();
                let rarity = (1.0 + (all - texts + 0.5) / (texts + 0.5)).ln();
                rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / self.mean))
            };
            asked.iter().map(of).sum()
        };
        let mut scored: Vec<(f64, &String)> = self.texts.iter().map(|text| (score(text), &text.0)).collect();
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|left, right| right.0.total_cmp(&left.0));
        scored.into_iter().take(5).map(|(_, name)| name.clone()).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    let runs = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    runs.filter(|run| !run.is_empty()).map(str::to_lowercase).collect()
}
