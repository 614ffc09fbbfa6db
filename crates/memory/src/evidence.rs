//! What speaks for a lesson as the answer to a question, as numbers; and the weights that make one number of them.
//!
//! Covers count rare words more. They are taken in both directions: how much of the lesson's trigger stands in the question, and how much
//! of the question's line the lesson explains. A word that stands in no lesson counts as the rarest: it makes an error another one.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::question::Question;
use crate::rarity::Rarity;
use crate::terms;

/// BM25: how soon a repeated term counts no more, and how much a long lesson loses.
const K1: f64 = 1.2;
const B: f64 = 0.6;
/// The terms of a usual lesson.
const USUAL_TERMS: f64 = 40.0;

/// So many lines of a log belong together: an error, with lines of other jobs in between.
const WINDOW: usize = 10;

/// So many shared words are named as the reason why a lesson was found.
const NAMED: usize = 3;

/// A line of a trigger speaks for itself if it has this share of the rarest line's weight.
const LINE_SHARE: f64 = 0.6;

/// A lesson's texts as terms.
#[derive(Clone, Debug)]
pub(crate) struct LessonTerms {
    counts: BTreeMap<String, f64>,
    length: f64,
    trigger: Vec<BTreeSet<String>>,
    codes: Vec<String>,
}

impl LessonTerms {
    pub(crate) fn of(trigger: &str, rest: &str) -> LessonTerms {
        let mut all = terms::of_lesson(trigger);
        all.extend(terms::of_lesson(rest));
        let length = all.len() as f64;
        let lines = trigger.lines().map(|line| terms::of_lesson(line).into_iter().collect::<BTreeSet<_>>());
        let trigger: Vec<BTreeSet<String>> = lines.filter(|line| !line.is_empty()).collect();
        let codes = trigger.iter().flatten().filter(|term| terms::is_code(term)).cloned().collect();
        LessonTerms { counts: terms::counted(all), length, trigger, codes }
    }
}

/// What speaks for one lesson.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextEvidence {
    /// BM25 of the question's terms, each counted once, rarity from 0 to 1.
    pub words: f64,
    /// The same for the best ten lines that stand together.
    pub window: f64,
    /// Cosine with the nearest line of the question.
    pub line: f64,
    /// Cosine with the whole question.
    pub whole: f64,
    /// Share of the trigger's weight that the best window of the question holds.
    pub told: f64,
    /// The same for the best line of the trigger.
    pub told_line: f64,
    /// Share of the weight of the question's best line that the lesson holds.
    pub answered: f64,
    /// Weight of what the window and the trigger share.
    pub shared: f64,
    /// Terms of the question.
    pub length: f64,
    /// The trigger names error codes, and the question holds none of them.
    pub other_code: bool,
}

/// Weighs lessons against one question.
pub(crate) struct Scale<'q, 'c> {
    pub(crate) question: &'q Question<'q>,
    pub(crate) rarity: &'q Rarity<'c>,
}

impl Scale<'_, '_> {
    /// What the words say for a lesson, and the rarest of them; the cosines are the caller's.
    pub(crate) fn weigh(&self, lesson: &LessonTerms) -> Result<(TextEvidence, Vec<String>), Error> {
        let mut found = Vec::new();
        let mut words = 0.0;
        for (term, count) in &lesson.counts {
            let Some(places) = self.question.places.get(term) else { continue };
            let weight = self.rarity.weight(term)?;
            let flat = K1 * (1.0 - B + B * lesson.length / USUAL_TERMS);
            let score = weight * count * (K1 + 1.0) / (count + flat);
            words += score;
            found.extend(places.iter().map(|at| (*at, term.as_str(), score, weight)));
        }
        found.sort_by_key(|(at, ..)| *at);
        let (window, held) = best_window(&found);
        let mut evidence = TextEvidence { words, window, ..TextEvidence::default() };
        evidence.length = self.question.places.len() as f64;
        evidence.other_code = !lesson.codes.is_empty()
            && lesson.codes.iter().all(|code| !self.question.places.contains_key(code));
        self.cover_trigger(lesson, &held, &mut evidence)?;
        evidence.answered = self.cover_line(&found)?;
        let mut rarest: Vec<(&str, f64)> =
            found.iter().map(|(_, term, _, weight)| (*term, *weight)).collect();
        rarest.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(right.0)));
        rarest.dedup_by_key(|(term, _)| *term);
        Ok((evidence, rarest.into_iter().take(NAMED).map(|(term, _)| term.to_owned()).collect()))
    }

    /// How much of the trigger stands in the window.
    fn cover_trigger(
        &self,
        lesson: &LessonTerms,
        held: &BTreeSet<&str>,
        evidence: &mut TextEvidence,
    ) -> Result<(), Error> {
        let mut lines = Vec::new();
        for line in &lesson.trigger {
            let (mut all, mut shared) = (0.0, 0.0);
            for term in line {
                let weight = self.rarity.weight(term)?;
                all += weight;
                shared += if held.contains(term.as_str()) { weight } else { 0.0 };
            }
            lines.push((all, shared));
        }
        let (all, shared) = lines.iter().fold((0.0, 0.0), |sum, line| (sum.0 + line.0, sum.1 + line.1));
        let most = lines.iter().fold(0.0_f64, |most, (all, _)| most.max(*all));
        evidence.told = share_of(all, shared);
        evidence.shared = shared;
        let telling = lines.iter().filter(|(all, _)| *all >= most * LINE_SHARE);
        evidence.told_line = telling.map(|(all, shared)| share_of(*all, *shared)).fold(0.0, f64::max);
        Ok(())
    }

    /// How much of the question's best line the lesson holds: the line in which it holds most, and most of.
    fn cover_line(&self, found: &[(usize, &str, f64, f64)]) -> Result<f64, Error> {
        let mut held: BTreeMap<usize, f64> = BTreeMap::new();
        found.iter().for_each(|(at, _, _, weight)| *held.entry(*at).or_default() += weight);
        let mut by_weight: Vec<(f64, usize)> = held.into_iter().map(|(at, weight)| (weight, at)).collect();
        by_weight.sort_by(|left, right| right.0.total_cmp(&left.0));
        let mut best = (0.0, 0.0);
        for (shared, at) in by_weight.into_iter().take(4) {
            let mut all = 0.0;
            for term in &self.question.lines[at].terms {
                all += self.rarity.weight(term)?;
            }
            let share = if all > 0.0 { shared / all } else { 0.0 };
            if shared * share > best.0 {
                best = (shared * share, share);
            }
        }
        Ok(best.1)
    }
}

/// The window with the highest sum of scores, each term once, and the terms in it.
fn best_window<'t>(found: &[(usize, &'t str, f64, f64)]) -> (f64, BTreeSet<&'t str>) {
    let mut best = (0.0, 0..0);
    let mut inside: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut sum, mut first) = (0.0, 0);
    for (last, (at, term, score, _)) in found.iter().enumerate() {
        let count = inside.entry(term).or_default();
        *count += 1;
        if *count == 1 {
            sum += score;
        }
        while found[first].0 + WINDOW <= *at {
            let (_, gone, score, _) = found[first];
            if let Some(count) = inside.get_mut(gone) {
                *count -= 1;
                if *count == 0 {
                    sum -= score;
                }
            }
            first += 1;
        }
        if sum > best.0 {
            best = (sum, first..last + 1);
        }
    }
    (best.0, found[best.1].iter().map(|(_, term, ..)| *term).collect())
}

/// The share of a weight; nothing of no weight.
fn share_of(all: f64, shared: f64) -> f64 {
    if all > 0.0 { shared / all } else { 0.0 }
}
