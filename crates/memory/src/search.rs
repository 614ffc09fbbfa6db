//! Who is near to a text: by its rare words, and by meaning; what speaks for each is weighed, never the mere rank.
//!
//! A lesson becomes a candidate by the rarest words of the question or by its vector. Only candidates are read whole. What a search costs is
//! bounded by the limits below, whatever is asked; a word that stands in very many lessons names no candidate and still counts
//! where candidates are weighed.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use rusqlite::params;

use crate::embed::Vector;
use crate::error::Error;
use crate::evidence::{LessonTerms, Scale, TextEvidence};
use crate::fit::{self, SearchMode, Tops};
use crate::lesson::StoredKind;
use crate::lessons::{Candidate, Lessons, StoredLesson};
use crate::question::Question;
use crate::rarity::{COMMON, Rarity, quoted};
use crate::scoring;
use crate::text;
use crate::time::Now;
use crate::vectors::{Near, Scan, scan, stored};

/// So many different words of a question name candidates, the rarest.
const MAX_WORDS: usize = 64;

/// So many rows are looked through, over all words.
const MAX_ROWS: i64 = 4_000;

/// So many candidates come by words.
const BY_WORDS: usize = 64;

/// So many candidates of each kind come by meaning.
const BY_MEANING: usize = 32;

/// So many lines of a log are compared by meaning, those with the rarest words; fewer where a text costs milliseconds.
const MAX_LINES: usize = 12;
const MAX_LINES_OF_MODEL: usize = 3;

/// So many candidates are remembered over many questions.
const MAX_MEMO: usize = 4_096;

/// A lesson that was found.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) kept: StoredLesson,
    /// How surely it answers, from 0 to 1.
    pub(crate) relevance: f64,
    /// Orders hits and means nothing else.
    pub(crate) fused: f64,
    pub(crate) evidence: TextEvidence,
    /// The rarest words that it shares with the question.
    pub(crate) shared: Vec<String>,
}

/// A question with its vectors.
struct Probe<'q> {
    question: Question<'q>,
    normal: String,
    whole: Vector,
    lines: Vec<Vector>,
}

impl Lessons<'_> {
    /// Names of lessons for a text, nearest first, with no threshold: what the labelled set measures.
    pub fn ranked(&self, asked: &str, way: SearchMode, most: usize, now: &Now) -> Result<Vec<String>, Error> {
        let hits = self.search(asked, way, now)?;
        Ok(hits.into_iter().take(most).map(|hit| hit.kept.lesson.name().to_owned()).collect())
    }

    /// What speaks for each candidate, best first: what the weights of `fit` are fitted on.
    pub fn weigh_candidates(&self, asked: &str, now: &Now) -> Result<Vec<(String, TextEvidence)>, Error> {
        let hits = self.search(asked, SearchMode::Both, now)?;
        Ok(hits.into_iter().map(|hit| (hit.kept.lesson.name().to_owned(), hit.evidence)).collect())
    }

    /// Candidates of both kinds, in the order of what speaks for them, feedback and age.
    pub(crate) fn search(&self, asked: &str, way: SearchMode, now: &Now) -> Result<Vec<Hit>, Error> {
        let question = Question::new(asked);
        let rarity = Rarity::new(self.db, self.highest()?);
        let mut ids = match way {
            SearchMode::Words | SearchMode::Both => self.by_words(&question, &rarity)?,
            SearchMode::Meaning => Vec::new(),
        };
        let probe = self.probe(asked, question, &rarity)?;
        if way != SearchMode::Words {
            ids.extend(self.by_meaning(&probe)?);
        }
        let mut hits = self.judge(&probe, &rarity, ids, way)?;
        sort(&mut hits, now);
        Ok(hits)
    }

    /// How near each of some lessons is to a text.
    pub(crate) fn judge_these(&self, asked: &str, ids: &[i64]) -> Result<Vec<Hit>, Error> {
        let question = Question::new(asked);
        let rarity = Rarity::new(self.db, self.highest()?);
        let probe = self.probe(asked, question, &rarity)?;
        self.judge(&probe, &rarity, ids.to_vec(), SearchMode::Both)
    }

    /// Lessons that hold the words of one of the tags; the caller looks at the tags themselves. `None` if
    /// a tag has no word that the index could know.
    pub(crate) fn with_tag_words(&self, tags: &[String], most: usize) -> Result<Option<Vec<i64>>, Error> {
        let quoted: Option<Vec<String>> = tags.iter().map(|tag| phrase(tag)).collect();
        let Some(quoted) = quoted else { return Ok(None) };
        let asked = format!("rest : ({})", quoted.join(" OR "));
        let mut select =
            self.db.prepare_cached("SELECT rowid FROM lesson_words WHERE lesson_words MATCH ?1 LIMIT ?2")?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = select.query_map(params![asked, most], |row| row.get(0))?;
        Ok(Some(rows.collect::<Result<_, _>>()?))
    }

    /// About how many lessons there are: the highest number, which costs nothing to look up.
    pub(crate) fn highest(&self) -> Result<u64, Error> {
        let mut select = self.db.prepare_cached("SELECT coalesce(max(id), 0) FROM lesson")?;
        let count: i64 = select.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The vectors of a question. Of a log the lines with the rarest words are embedded, and together they stand for the whole.
    fn probe<'q>(
        &self,
        asked: &'q str,
        question: Question<'q>,
        rarity: &Rarity<'_>,
    ) -> Result<Probe<'q>, Error> {
        let normal = text::normalise(text::clip(asked, text::MAX_CHARS));
        let zero = || Vector::of(&vec![0.0; self.embedder.dims()]);
        if !self.has_meaning()? {
            return Ok(Probe { question, normal, whole: zero(), lines: Vec::new() });
        }
        let most = if self.embedder.reads_sentences() { MAX_LINES_OF_MODEL } else { MAX_LINES };
        if question.lines.len() <= 1 {
            let whole = question.lines.first().map_or_else(zero, |line| self.embedder.embed(line.text));
            return Ok(Probe { question, normal, lines: vec![whole.clone()], whole });
        }
        let mut telling = Vec::with_capacity(question.lines.len());
        for (at, line) in question.lines.iter().enumerate() {
            let mut weight = 0.0;
            for term in &line.terms {
                let known = rarity.count(term)? > 0;
                weight += if known { rarity.weight(term)? } else { 0.0 };
            }
            telling.push((weight, at));
        }
        telling.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
        telling.truncate(most);
        telling.sort_by_key(|(_, at)| *at);
        let texts: Vec<&str> = telling.iter().map(|(_, at)| question.lines[*at].text).collect();
        let whole = self.embedder.embed(&texts.join("\n"));
        let lines = texts.into_iter().map(|text| self.embedder.embed(text)).collect();
        Ok(Probe { question, normal, whole, lines })
    }

    /// Numbers of lessons by the rarest words, those first that share most. If every word is common, the newest that hold all of
    /// them, or else the least common one.
    fn by_words(&self, question: &Question<'_>, rarity: &Rarity<'_>) -> Result<Vec<i64>, Error> {
        let mut known = Vec::new();
        for term in question.places.keys() {
            let count = rarity.count(term)?;
            if count > 0 {
                known.push((count, term.as_str()));
            }
        }
        known.sort_unstable();
        let mut rows = 0;
        let mut shares: HashMap<i64, f64> = HashMap::new();
        for (count, term) in known.iter().take(MAX_WORDS) {
            rows += count;
            if *count > COMMON || rows > MAX_ROWS {
                break;
            }
            let weight = rarity.weight(term)?;
            self.each_with(&quoted(term), COMMON, &mut |id| *shares.entry(id).or_default() += weight)?;
        }
        if shares.is_empty() {
            return self.with_common(&known);
        }
        let mut shares: Vec<(i64, f64)> = shares.into_iter().collect();
        shares.sort_by(|left, right| right.1.total_cmp(&left.1).then(right.0.cmp(&left.0)));
        shares.truncate(BY_WORDS);
        Ok(shares.into_iter().map(|(id, _)| id).collect())
    }

    fn with_common(&self, known: &[(i64, &str)]) -> Result<Vec<i64>, Error> {
        let words: Vec<String> = known.iter().take(MAX_WORDS).map(|(_, term)| quoted(term)).collect();
        let Some(least) = words.first() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        self.each_with(&words.join(" AND "), BY_WORDS as i64, &mut |id| found.push(id))?;
        if found.is_empty() {
            self.each_with(least, BY_WORDS as i64, &mut |id| found.push(id))?;
        }
        Ok(found)
    }

    /// The newest lessons that match.
    fn each_with(&self, asked: &str, most: i64, each: &mut dyn FnMut(i64)) -> Result<(), Error> {
        let sql = "SELECT rowid FROM lesson_words WHERE lesson_words MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let mut rows = select.query(params![asked, most])?;
        while let Some(row) = rows.next()? {
            each(row.get(0)?);
        }
        Ok(())
    }

    /// The nearest of each kind. Nothing is near as long as the stored vectors are of another embedder.
    fn by_meaning(&self, probe: &Probe<'_>) -> Result<Vec<i64>, Error> {
        let asked = Scan { vector: &probe.whole, most: BY_MEANING, above: 0.0, also: &[] };
        let found = scan(self.db, &asked)?;
        Ok(found.failures.iter().chain(&found.patterns).map(|near: &Near| near.id).collect())
    }

    fn judge(
        &self,
        probe: &Probe<'_>,
        rarity: &Rarity<'_>,
        mut ids: Vec<i64>,
        way: SearchMode,
    ) -> Result<Vec<Hit>, Error> {
        ids.sort_unstable();
        ids.dedup();
        let vectors: BTreeMap<i64, Vector> = if probe.lines.is_empty() {
            BTreeMap::new()
        } else {
            stored(self.db, self.embedder.dims(), &ids)?.into_iter().collect()
        };
        let scale = Scale { question: &probe.question, rarity };
        let mut hits = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(found) = self.candidate(id)? else { continue };
            let (mut evidence, shared) = scale.weigh(&found.terms)?;
            if let Some(vector) = vectors.get(&id) {
                evidence.whole = probe.whole.cosine(vector);
                evidence.line =
                    probe.lines.iter().map(|line| line.cosine(vector)).fold(evidence.whole, f64::max);
            }
            let is_same = !probe.normal.is_empty()
                && probe.normal == text::normalise(text::clip(found.kept.lesson.trigger(), text::MAX_CHARS));
            let kept = Rc::try_unwrap(found).map_or_else(|found| found.kept.clone(), |found| found.kept);
            hits.push((is_same, Hit { kept, relevance: 0.0, fused: 0.0, evidence, shared }));
        }
        let tops = Tops::of(hits.iter().map(|(_, hit)| &hit.evidence));
        let weights = fit::Weights::of(self.embedder.reads_sentences());
        for (is_same, hit) in &mut hits {
            hit.relevance = if *is_same { 1.0 } else { weights.relevance(&hit.evidence) };
            hit.fused = weights.order(&hit.evidence, &tops, way);
        }
        Ok(hits.into_iter().map(|(_, hit)| hit).collect())
    }

    /// A lesson that may be given out, made ready; out of the memo if there is one.
    fn candidate(&self, id: i64) -> Result<Option<Rc<Candidate>>, Error> {
        if let Some(found) = self.memo.and_then(|memo| memo.0.borrow().get(&id).cloned()) {
            return Ok(Some(found));
        }
        let Some(kept) = self.by_id(id)?.filter(|kept| !kept.quarantined) else { return Ok(None) };
        let terms = LessonTerms::of(kept.lesson.trigger(), &kept.lesson.rest());
        let found = Rc::new(Candidate { kept, terms });
        if let Some(memo) = self.memo
            && memo.0.borrow().len() < MAX_MEMO
        {
            memo.0.borrow_mut().insert(id, found.clone());
        }
        Ok(Some(found))
    }
}

impl Hit {
    pub(crate) fn kind(&self) -> StoredKind {
        self.kept.lesson.kind()
    }
}

/// Orders hits by what speaks for them, feedback and age; among equals the dearer one comes first.
pub(crate) fn sort(hits: &mut Vec<Hit>, now: &Now) {
    let rank = |hit: &Hit| {
        let of = hit.kept.lesson.lesson_use(now);
        let score = hit.fused * scoring::standing(of, scoring::HALF_LIFE_DAYS);
        (scoring::thousandths(score), of.value)
    };
    let mut ranked: Vec<((f64, f64), Hit)> = hits.drain(..).map(|hit| (rank(&hit), hit)).collect();
    ranked.sort_by(|((left, cost), one), ((right, other_cost), other)| {
        right.total_cmp(left).then(other_cost.total_cmp(cost)).then(one.kept.id.cmp(&other.kept.id))
    });
    hits.extend(ranked.into_iter().map(|(_, hit)| hit));
}

/// A word or several as one phrase of the index's language; nothing in it can be an operator.
fn phrase(words: &str) -> Option<String> {
    let kept: String = words.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let kept = kept.split_whitespace().collect::<Vec<_>>().join(" ");
    (!kept.is_empty()).then(|| format!("\"{kept}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_cannot_be_operators() {
        assert_eq!(phrase("rust-lang/x"), Some("\"rust lang x\"".to_owned()));
        assert_eq!(phrase("\"'--"), None);
        assert_eq!(phrase("NEAR(a* OR :"), Some("\"NEAR a OR\"".to_owned()));
    }
}
