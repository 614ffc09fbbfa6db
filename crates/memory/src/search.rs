//! Who is near to a text: full text and meaning, each by its own list, fused for the order.
//!
//! Only candidates are read whole. What a search costs is bounded by the limits below, whatever words
//! are asked for; a word that stands in very many lessons says little and is left to the vectors.

use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::params;

use crate::error::Error;
use crate::lesson::StoredKind;
use crate::lessons::{Candidate, Lessons, StoredLesson};
use crate::scoring;
use crate::similar::overlap::Words;
use crate::similar::{Plain, PreparedText};
use crate::text;
use crate::time::Now;
use crate::vectors::{Near, Scan, scan};

/// So many different words of a question are looked up.
const MAX_WORDS: usize = 24;

/// A word in more lessons than this is not ranked by.
const COMMON: i64 = 1_500;

/// So many rows are ranked by full text, over all words.
const MAX_ROWS: i64 = 4_000;

/// So many candidates come from each list.
const CANDIDATES: usize = 96;

/// Full text of a fix, a name or a tag counts a little less than of the trigger.
const REST_SHARE: f64 = 0.8;

/// Reciprocal ranks: `share · strength / (FLAT + rank)`. The strength is the cosine for meaning, and the
/// share of the question's words for full text, so that one chance word moves little.
const FLAT: f64 = 10.0;
const WORDS_SHARE: f64 = 0.7;
const MEANING_SHARE: f64 = 1.0;

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

/// So many candidates are remembered over many questions.
const MAX_MEMO: usize = 4_096;

/// A lesson that was found.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) kept: StoredLesson,
    /// The best of the calibrated measures.
    pub(crate) relevance: f64,
    /// Orders hits and means nothing else.
    pub(crate) fused: f64,
}

/// Where a lesson stands in each list.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    words: Option<usize>,
    meaning: Option<usize>,
    cosine: f64,
}

impl Lessons<'_> {
    /// Names of lessons for a text, nearest first, with no threshold: what the labelled set measures.
    pub fn ranked(&self, asked: &str, way: SearchMode, most: usize, now: &Now) -> Result<Vec<String>, Error> {
        let hits = self.search(asked, way, now)?;
        Ok(hits.into_iter().take(most).map(|hit| hit.kept.lesson.name().to_owned()).collect())
    }

    /// Candidates of both kinds, in the order of fusion, feedback and age.
    pub(crate) fn search(&self, asked: &str, way: SearchMode, now: &Now) -> Result<Vec<Hit>, Error> {
        let probe = PreparedText::new(asked, self.embedder);
        let worded = match way {
            SearchMode::Words | SearchMode::Both => self.by_words(asked)?,
            SearchMode::Meaning => Vec::new(),
        };
        let places = self.places(&probe, &worded, way)?;
        let mut hits = self.judge(&probe, places)?;
        let rank = |hit: &Hit| {
            hit.fused * scoring::standing(hit.kept.lesson.lesson_use(now), scoring::HALF_LIFE_DAYS)
        };
        let mut ranked: Vec<(f64, Hit)> = hits.drain(..).map(|hit| (rank(&hit), hit)).collect();
        ranked.sort_by(|(left, left_hit), (right, right_hit)| {
            right.total_cmp(left).then(left_hit.kept.id.cmp(&right_hit.kept.id))
        });
        Ok(ranked.into_iter().map(|(_, hit)| hit).collect())
    }

    /// How near each of some lessons is to a text, in the order in which they were named.
    pub(crate) fn judge_these(&self, asked: &str, ids: &[i64]) -> Result<Vec<Hit>, Error> {
        let probe = PreparedText::new(asked, self.embedder);
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let near = self.near(&probe, 0, &sorted)?.2;
        let mut places: BTreeMap<i64, Places> = sorted.iter().map(|id| (*id, Places::default())).collect();
        for Near { id, cosine } in near {
            places.entry(id).or_default().cosine = cosine;
        }
        self.judge(&probe, places)
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

    fn places(
        &self,
        probe: &PreparedText<'_>,
        worded: &[i64],
        way: SearchMode,
    ) -> Result<BTreeMap<i64, Places>, Error> {
        let mut places: BTreeMap<i64, Places> = BTreeMap::new();
        for (rank, id) in worded.iter().enumerate() {
            places.entry(*id).or_default().words = Some(rank);
        }
        let mut sorted = worded.to_vec();
        sorted.sort_unstable();
        let most = if way == SearchMode::Words { 0 } else { CANDIDATES };
        let (failures, patterns, also) = self.near(probe, most, &sorted)?;
        let mut merged = [failures, patterns].concat();
        merged.sort_by(|left, right| right.cosine.total_cmp(&left.cosine).then(left.id.cmp(&right.id)));
        for (rank, near) in merged.into_iter().enumerate() {
            let place = places.entry(near.id).or_default();
            place.meaning = Some(rank);
            place.cosine = near.cosine;
        }
        for near in also {
            places.entry(near.id).or_default().cosine = near.cosine;
        }
        Ok(places)
    }

    /// The nearest of each kind, and the cosines of those that are named. Nothing is near as long as the
    /// stored vectors are of another embedder.
    #[allow(clippy::type_complexity, reason = "three lists of one type, taken apart at once")]
    fn near(
        &self,
        probe: &PreparedText<'_>,
        most: usize,
        also: &[i64],
    ) -> Result<(Vec<Near>, Vec<Near>, Vec<Near>), Error> {
        if !self.has_meaning()? {
            return Ok((Vec::new(), Vec::new(), Vec::new()));
        }
        let found = scan(self.db, &Scan { vector: probe.vector(), most, above: 0.0, also })?;
        Ok((found.failures, found.patterns, found.also))
    }

    fn judge(&self, probe: &PreparedText<'_>, places: BTreeMap<i64, Places>) -> Result<Vec<Hit>, Error> {
        let mut hits = Vec::with_capacity(places.len());
        for (id, place) in places {
            let Some(found) = self.candidate(id)? else { continue };
            let (trigger, rest) = (&found.trigger, &found.rest);
            let beyond = probe.words().answered_by(rest) * REST_SHARE;
            let relevance = probe.answered_by(trigger, place.cosine).best().max(beyond);
            let cover = probe.words().cover(trigger.words()).max(probe.words().cover(rest) * REST_SHARE);
            let kept = Rc::try_unwrap(found).map_or_else(|found| found.kept.clone(), |found| found.kept);
            hits.push(Hit { kept, relevance, fused: fuse(place, cover) });
        }
        Ok(hits)
    }

    /// A lesson that may be given out, made ready; out of the memo if there is one.
    fn candidate(&self, id: i64) -> Result<Option<Rc<Candidate>>, Error> {
        if let Some(found) = self.memo.and_then(|memo| memo.0.borrow().get(&id).cloned()) {
            return Ok(Some(found));
        }
        let Some(kept) = self.by_id(id)?.filter(|kept| !kept.quarantined) else { return Ok(None) };
        let (trigger, rest) = (Plain::new(kept.lesson.trigger()), Words::of(&kept.lesson.rest()));
        let found = Rc::new(Candidate { kept, trigger, rest });
        if let Some(memo) = self.memo
            && memo.0.borrow().len() < MAX_MEMO
        {
            memo.0.borrow_mut().insert(id, found.clone());
        }
        Ok(Some(found))
    }

    /// Numbers of lessons by full text, best first. If every word is common, the newest that hold all of
    /// them, or else the least common one.
    fn by_words(&self, asked: &str) -> Result<Vec<i64>, Error> {
        let counted = self.counted_words(asked)?;
        let rare = rare(&counted);
        if !rare.is_empty() {
            let ranked = "SELECT rowid FROM lesson_words WHERE lesson_words MATCH ?1
                          ORDER BY bm25(lesson_words, 2.0, 1.0) LIMIT ?2";
            return self.matching(ranked, &rare.join(" OR "));
        }
        let newest =
            "SELECT rowid FROM lesson_words WHERE lesson_words MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
        let words: Vec<&str> = counted.iter().map(|(_, word)| word.as_str()).collect();
        let Some(least) = words.first() else { return Ok(Vec::new()) };
        let all = self.matching(newest, &words.join(" AND "))?;
        if all.is_empty() { self.matching(newest, least) } else { Ok(all) }
    }

    fn matching(&self, sql: &str, asked: &str) -> Result<Vec<i64>, Error> {
        let mut select = self.db.prepare_cached(sql)?;
        let rows = select.query_map(params![asked, CANDIDATES as i64], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The words of a question that stand in some lesson, with the number of lessons, the rarest first.
    fn counted_words(&self, asked: &str) -> Result<Vec<(i64, String)>, Error> {
        let mut counted = Vec::new();
        for word in asked_words(asked) {
            let count = self.lessons_with(&word)?;
            if count > 0 {
                counted.push((count, word));
            }
        }
        counted.sort();
        Ok(counted)
    }

    /// In how many lessons a word stands; counting stops where it is common.
    fn lessons_with(&self, asked: &str) -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM lesson_words WHERE lesson_words MATCH ?1 LIMIT ?2)";
        Ok(self.db.prepare_cached(sql)?.query_row(params![asked, COMMON + 1], |row| row.get(0))?)
    }
}

impl Hit {
    pub(crate) fn kind(&self) -> StoredKind {
        self.kept.lesson.kind()
    }
}

fn fuse(place: Places, cover: f64) -> f64 {
    let part = |share: f64, strength: f64, rank: Option<usize>| {
        rank.map_or(0.0, |rank| share * strength.max(0.0) / (FLAT + rank as f64 + 1.0))
    };
    part(WORDS_SHARE, cover, place.words) + part(MEANING_SHARE, place.cosine, place.meaning)
}

/// The words to rank by, as many as the rows allow.
fn rare(counted: &[(i64, String)]) -> Vec<&str> {
    let mut rows = 0;
    let fits = |(count, _): &&(i64, String)| {
        rows += count;
        *count <= COMMON && rows <= MAX_ROWS
    };
    counted.iter().take_while(fits).map(|(_, word)| word.as_str()).collect()
}

/// The different words of a question, quoted for the index. Stop words only if there are no others.
fn asked_words(asked: &str) -> Vec<String> {
    let mut words = text::words(asked);
    if !words.iter().all(|word| text::is_stop(word)) {
        words.retain(|word| !text::is_stop(word));
    }
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.sort_by_key(|word| std::cmp::Reverse((text::word_weight(word) * 10.0) as i64));
    words.truncate(MAX_WORDS);
    words.iter().filter_map(|word| phrase(word)).collect()
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
    fn questions_cannot_be_operators() {
        assert_eq!(asked_words("NEAR(\"a\" OR *x) : ^ y"), ["\"near\"", "\"x\"", "\"y\""]);
        assert_eq!(asked_words("the and of"), ["\"the\"", "\"and\"", "\"of\""]);
        assert_eq!(asked_words("\"'--"), Vec::<String>::new());
        let many: String = (0..1000).map(|n| format!("word{n} ")).collect();
        assert_eq!(asked_words(&many).len(), MAX_WORDS);
        assert_eq!(phrase("rust-lang/x"), Some("\"rust lang x\"".to_owned()));
    }
}
