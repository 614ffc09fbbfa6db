//! One number out of what speaks for a lesson: its place in an order, how surely it answers, and whether RETRY may hand it out.
//!
//! The weights were fitted on one half of the labelled set (`tests/recall`), the same for all kinds of questions: a question does not say
//! of which kind it is. `docs/memory.md` tells what they find on the half set aside.

use crate::evidence::TextEvidence;
use crate::line::on_line;

/// The lists that a search uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchMode {
    /// The full-text list alone.
    Words,
    /// The list by embeddings alone.
    Meaning,
    /// Both lists, fused by rank.
    Both,
}

/// A lesson that shares more than this is not fitter for it.
const MUCH: f64 = 4.0;

/// Chances that a lesson answers, and the relevance that is shown for each: the thresholds of `query`, `context` and the tiers lie at
/// 0.3, 0.4 and 0.6.
const SHOWN: [(f64, f64); 5] = [(0.0, 0.0), (0.006, 0.3), (0.045, 0.4), (0.3, 0.6), (1.0, 1.0)];

/// The same for the cosine alone, where hardly a rare word is shared: of questions that no lesson answers nearly all stay below 0.18, of objectives
/// without a lesson nine in ten below 0.36.
const MEANT: [(f64, f64); 5] = [(0.0, 0.0), (0.18, 0.3), (0.36, 0.4), (0.7, 0.6), (1.0, 1.0)];

/// Where the best candidate shares this much in one place, words are believed in full; where it shares less, meaning leads.
const SURE_WORDS: f64 = 4.0;

/// Sharing less than this in one place is chance; of a question of a few words half of it is enough.
const CHANCE: f64 = 1.0;
const FEW: f64 = 3.0;

/// RETRY hands out what is at least this likely to fit, as log-odds: two in three.
const FITS: f64 = 0.62;

/// A lesson that explains less of the error's line than this is about something else, whatever its trigger shares with the rest.
const LEAST_ANSWERED: f64 = 0.1;

/// The best of each measure among the candidates of a question.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tops {
    words: f64,
    window: f64,
    line: f64,
}

impl Tops {
    pub(crate) fn of<'e>(all: impl Iterator<Item = &'e TextEvidence>) -> Tops {
        all.fold(Tops::default(), |tops, one| Tops {
            words: tops.words.max(one.words),
            window: tops.window.max(one.window),
            line: tops.line.max(one.line),
        })
    }
}

/// The weights for one sort of embedder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// Of the cosine in the order.
    meaning: f64,
    /// Of the cosine, of the cosine where the lesson explains the line, and without anything, in the chance that a lesson answers.
    likely: [f64; 3],
}

/// For the table of token vectors.
const TABLE: Weights = Weights { meaning: 2.0, likely: [2.07, 1.02, -3.56] };

/// For a model that reads sentences.
const MODEL: Weights = Weights { meaning: 3.0, likely: [2.07, 1.02, -3.56] };

impl Weights {
    pub(crate) fn of(reads_sentences: bool) -> &'static Weights {
        if reads_sentences { &MODEL } else { &TABLE }
    }

    /// Orders the candidates of one question: scores as shares of the best, so that words and meaning can be added.
    pub(crate) fn order(&self, of: &TextEvidence, tops: &Tops, way: SearchMode) -> f64 {
        let share = |part: f64, top: f64| if top > 0.0 { part.max(0.0) / top } else { 0.0 };
        let covered = 0.6 * (of.told + of.told_line) + 0.3 * of.shared.min(MUCH);
        let words = share(of.words, tops.words) + 0.5 * share(of.window, tops.window) + covered;
        let meaning = share(of.line, tops.line);
        match way {
            SearchMode::Words => words,
            SearchMode::Meaning => meaning,
            SearchMode::Both => {
                let believed = (tops.window / SURE_WORDS).min(1.0).powi(2);
                believed * words + self.meaning * meaning
            }
        }
    }

    /// How surely a lesson answers, on the scale of the thresholds.
    pub(crate) fn relevance(&self, of: &TextEvidence) -> f64 {
        let meant = on_line(&MEANT, of.line);
        let chance = if of.length <= FEW { CHANCE / 2.0 } else { CHANCE };
        if of.window < chance {
            return meant;
        }
        let [line, explained, without] = self.likely;
        let length = (1.0 + of.length).ln() / 5.0;
        let odds = line * of.line + 3.06 * (of.told + of.told_line) - 0.47 * of.answered
            + explained * of.shared.min(MUCH)
            + 1.45 * of.line * of.answered
            - 4.96 * length
            + without;
        on_line(&SHOWN, 1.0 / (1.0 + (-odds).exp())).max(meant)
    }
}

/// Whether RETRY may hand a lesson out. Told how much more than the second best it shares with the error (`gap`, at most 1). Words alone decide:
/// what merely means something near is no answer to an error.
pub(crate) fn fits(of: &TextEvidence, gap: f64) -> bool {
    let odds = 3.75 * (of.told + of.told_line) + 1.55 * of.shared.min(MUCH) + 0.96 * gap.max(-1.0) - 8.94;
    odds >= FITS && of.answered >= LEAST_ANSWERED && !of.other_code
}
