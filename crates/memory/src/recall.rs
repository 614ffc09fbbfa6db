//! Gives lessons back: for a question, and for an objective that an agent is about to work on.
//!
//! Reading changes nothing; that a lesson was given out is counted by [`Lessons::accessed`]. What is in
//! quarantine is never given back here.

use std::collections::BTreeSet;

use rusqlite::params;

use crate::error::Error;
use crate::fit::SearchMode;
use crate::lesson::{Keys as _, Lesson, StoredKind};
use crate::lessons::Memo;
use crate::lessons::{COLUMNS, Lessons, StoredLesson, read};
use crate::scoring::{self, Tier};
use crate::search::{Hit, sort};
use crate::similar;
use crate::time::Now;
use ftl_core::json::{Json, Object, ObjectExt as _};

/// So many lessons with a tag are looked at for an objective.
const MAX_TAGGED: usize = 4_000;

/// How many tokens the lessons of one prompt may take together, unless somebody says otherwise.
pub const MAX_TOKENS: usize = 2_000;

/// Letters of a token, about.
const TOKEN_CHARS: usize = 4;

/// A lesson that answers a question.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredLesson {
    /// The lesson as it is stored.
    pub lesson: Lesson,
    /// How near it is, calibrated.
    pub relevance: f64,
}

impl ScoredLesson {
    /// `{type, score, …entry}`.
    pub fn to_json(&self) -> Json {
        let mut row = Object::new();
        row.set("type", self.lesson.kind().word());
        row.set("score", scoring::thousandths(self.relevance));
        self.lesson.body().iter().for_each(|(key, value)| row.set(key, value.clone()));
        row.into()
    }
}

/// What an agent is about to do, and how much it may be told.
#[derive(Clone, Debug)]
pub struct ContextRequest {
    /// What it is about; without it the dearest lessons are given.
    pub objective: Option<String>,
    /// Only lessons of this kind.
    pub kind: Option<StoredKind>,
    /// Only lessons that share one of these; empty for all.
    pub tags: Vec<String>,
    /// So many failures at most.
    pub max_failures: usize,
    /// So many patterns at most.
    pub max_patterns: usize,
    /// Everything, without an objective and without limits.
    pub all: bool,
    /// For a prompt: nothing of the archive tier, also if that leaves nothing.
    pub inject: bool,
    /// Also what is related to a hit by one hop, within the limits.
    pub expand: bool,
    /// So many tokens may all lessons take together, about; 0 for any number.
    pub max_tokens: usize,
}

impl Default for ContextRequest {
    fn default() -> ContextRequest {
        ContextRequest {
            objective: None,
            kind: None,
            tags: Vec::new(),
            max_failures: 5,
            max_patterns: 3,
            all: false,
            inject: false,
            expand: false,
            max_tokens: MAX_TOKENS,
        }
    }
}

/// Lessons for an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextLessons {
    /// Failures, the most useful first.
    pub failures: Vec<ContextLesson>,
    /// Patterns, the most useful first.
    pub patterns: Vec<ContextLesson>,
}

/// One lesson for an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextLesson {
    id: i64,
    /// The lesson as it is stored.
    pub lesson: Lesson,
    /// How near it is, if an objective was given.
    pub relevance: Option<f64>,
    /// Why it is there: the rarest words that it shares with the objective, or that it means something near.
    pub why: Option<String>,
    /// The name of the hit to which it is related, if it is no hit itself.
    pub expanded_from: Option<String>,
}

impl ContextLessons {
    /// `{failures: […], patterns: […]}`; with tiers if they are wanted.
    pub fn to_json(&self, tiers: bool) -> Json {
        let list = |entries: &[ContextLesson]| {
            Json::Array(entries.iter().map(|entry| entry.to_json(tiers)).collect())
        };
        Object::new().with("failures", list(&self.failures)).with("patterns", list(&self.patterns)).into()
    }

    /// Leaves out what goes beyond a number of tokens. Kinds take turns, so that the best of each is there.
    fn keep_within(&mut self, tokens: usize) {
        let mut left = tokens;
        let mut keep = [vec![false; self.failures.len()], vec![false; self.patterns.len()]];
        for at in 0..self.failures.len().max(self.patterns.len()) {
            for (list, keep) in [&self.failures, &self.patterns].into_iter().zip(&mut keep) {
                let Some(entry) = list.get(at) else { continue };
                let cost = entry.tokens();
                if cost <= left {
                    left -= cost;
                    keep[at] = true;
                }
            }
        }
        for (list, keep) in [&mut self.failures, &mut self.patterns].into_iter().zip(keep) {
            let mut keep = keep.into_iter();
            list.retain(|_| keep.next().unwrap_or(false));
        }
    }

    /// Both lists, failures first.
    pub fn entries(&self) -> impl Iterator<Item = &ContextLesson> {
        self.failures.iter().chain(&self.patterns)
    }
}

impl ContextLesson {
    /// How many tokens an agent reads for it, about.
    fn tokens(&self) -> usize {
        let lesson = &self.lesson;
        let texts = [lesson.name(), lesson.trigger(), lesson.remedy(), lesson.matcher()];
        texts.iter().map(|text| text.chars().count()).sum::<usize>().div_ceil(TOKEN_CHARS)
    }

    fn to_json(&self, tiers: bool) -> Json {
        let mut body = self.lesson.body().clone();
        if let Some(relevance) = self.relevance {
            body.set("_relevance", scoring::thousandths(relevance));
            body.set("_score", scoring::thousandths(scoring::score(relevance, self.lesson.value())));
            if tiers {
                body.set("_tier", Tier::of_relevance(relevance).word());
            }
        }
        if let Some(why) = &self.why {
            body.set("_why", why.as_str());
        }
        if let Some(from) = &self.expanded_from {
            body.set("_expanded", true);
            body.set("_expanded_from", from.as_str());
        }
        body.into()
    }
}

impl Lessons<'_> {
    /// Lessons for a question, nearest first.
    pub fn query(&self, topic: &str, most: usize, now: &Now) -> Result<Vec<ScoredLesson>, Error> {
        let hits = self.search(topic, SearchMode::Both, now)?;
        let near = hits.into_iter().filter(|hit| hit.relevance > similar::QUERY).take(most);
        Ok(near.map(|hit| ScoredLesson { lesson: hit.kept.lesson, relevance: hit.relevance }).collect())
    }

    /// Lessons for several agents in a row; each lesson is read and made ready once.
    pub fn contexts(&self, asked: &[ContextRequest], now: &Now) -> Result<Vec<ContextLessons>, Error> {
        let memo = Memo::default();
        let lessons = Lessons { memo: Some(&memo), ..*self };
        asked.iter().map(|asked| lessons.context(asked, now)).collect()
    }

    /// Lessons for an agent.
    pub fn context(&self, asked: &ContextRequest, now: &Now) -> Result<ContextLessons, Error> {
        let hits = match asked.objective.as_deref().filter(|_| !asked.all) {
            Some(objective) => Some(self.hits(objective, &asked.tags, now)?),
            None => None,
        };
        let room = if asked.all || asked.max_tokens == 0 { usize::MAX } else { asked.max_tokens };
        let of = |kind: StoredKind, most: usize| -> Result<Vec<ContextLesson>, Error> {
            if asked.kind.is_some_and(|only| only != kind) {
                return Ok(Vec::new());
            }
            let most = if asked.all { usize::MAX } else { most };
            let entries = match &hits {
                Some(hits) => self.relevant(hits, kind, most, asked)?,
                None => self.dearest(kind, &asked.tags, most)?.into_iter().map(plain).collect(),
            };
            if asked.expand { self.expanded(entries, most) } else { Ok(entries) }
        };
        let mut given = ContextLessons {
            failures: of(StoredKind::Failure, asked.max_failures)?,
            patterns: of(StoredKind::Pattern, asked.max_patterns)?,
        };
        given.keep_within(room);
        Ok(given)
    }

    /// Counts that these were given out.
    pub fn accessed(&self, given: &ContextLessons, now: &Now) -> Result<(), Error> {
        for entry in given.entries() {
            let Some(mut kept) = self.by_id(entry.id)? else { continue };
            kept.lesson.count_up("access_count");
            kept.lesson.set("last_accessed", now.local.as_str());
            self.update(&kept)?;
        }
        Ok(())
    }

    fn hits(&self, objective: &str, tags: &[String], now: &Now) -> Result<Vec<Hit>, Error> {
        if tags.is_empty() {
            return self.search(objective, SearchMode::Both, now);
        }
        let tagged = match self.with_tag_words(tags, MAX_TAGGED)? {
            Some(ids) => ids,
            None => self.tagged(tags)?.iter().map(|kept| kept.id).take(MAX_TAGGED).collect(),
        };
        let mut hits = self.judge_these(objective, &tagged)?;
        hits.retain(|hit| shares_tag(&hit.kept.lesson, tags));
        sort(&mut hits, now);
        Ok(hits)
    }

    fn relevant(
        &self,
        hits: &[Hit],
        kind: StoredKind,
        most: usize,
        asked: &ContextRequest,
    ) -> Result<Vec<ContextLesson>, Error> {
        let given = |hit: &&Hit| {
            hit.kind() == kind && hit.relevance >= similar::CONTEXT && !hit.kept.lesson.is_retired()
        };
        let near = hits.iter().filter(given);
        let mut entries: Vec<ContextLesson> = near.take(most).map(entry).collect();
        if entries.is_empty() && !asked.inject && most > 0 {
            let objective = asked.objective.as_deref().unwrap_or_default();
            let ids: Vec<i64> = self.dearest(kind, &asked.tags, 1)?.iter().map(|kept| kept.id).collect();
            entries.extend(self.judge_these(objective, &ids)?.iter().map(entry));
        }
        Ok(entries)
    }

    /// The lessons with the highest cost or saving.
    fn dearest(&self, kind: StoredKind, tags: &[String], most: usize) -> Result<Vec<StoredLesson>, Error> {
        if !tags.is_empty() {
            let mut tagged: Vec<StoredLesson> =
                self.tagged(tags)?.into_iter().filter(|kept| kept.lesson.kind() == kind).collect();
            tagged.sort_by(|left, right| right.lesson.value().total_cmp(&left.lesson.value()));
            tagged.truncate(most);
            return Ok(tagged);
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM lesson WHERE kind = ?1 AND quarantine IS NULL ORDER BY value DESC, id LIMIT ?2"
        );
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query(params![kind.number(), i64::try_from(most).unwrap_or(i64::MAX)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// Every lesson that shares one of the tags, in the order in which they came.
    fn tagged(&self, tags: &[String]) -> Result<Vec<StoredLesson>, Error> {
        let mut found = Vec::new();
        match self.with_tag_words(tags, usize::MAX)? {
            Some(mut ids) => {
                ids.sort_unstable();
                for id in ids {
                    found.extend(self.by_id(id)?);
                }
            }
            None => {
                for kind in StoredKind::ALL {
                    found.extend(self.all(kind)?);
                }
            }
        }
        found.retain(|kept| !kept.quarantined && shares_tag(&kept.lesson, tags));
        Ok(found)
    }

    /// The entries, and what is related to them, up to the limit.
    fn expanded(&self, entries: Vec<ContextLesson>, most: usize) -> Result<Vec<ContextLesson>, Error> {
        let mut seen: BTreeSet<String> = entries.iter().map(|entry| entry.lesson.name().to_owned()).collect();
        let mut out = entries.clone();
        for entry in entries {
            for name in entry.lesson.texts("related") {
                if out.len() >= most || !seen.insert(name.clone()) {
                    continue;
                }
                let found = self.find_by_name(entry.lesson.kind(), &name)?.filter(|kept| !kept.quarantined);
                out.extend(found.map(|kept| ContextLesson {
                    expanded_from: Some(entry.lesson.name().to_owned()),
                    ..plain(kept)
                }));
            }
        }
        Ok(out)
    }
}

fn entry(hit: &Hit) -> ContextLesson {
    ContextLesson { relevance: Some(hit.relevance), why: Some(why(hit)), ..plain(hit.kept.clone()) }
}

/// Why a hit was found, in words.
fn why(hit: &Hit) -> String {
    if hit.shared.is_empty() {
        return format!("it means something near ({:.2})", hit.evidence.line);
    }
    let words: Vec<String> = hit.shared.iter().map(|word| format!("`{word}`")).collect();
    format!("it shares {}", words.join(", "))
}

fn plain(kept: StoredLesson) -> ContextLesson {
    ContextLesson { id: kept.id, lesson: kept.lesson, relevance: None, why: None, expanded_from: None }
}

fn shares_tag(lesson: &Lesson, tags: &[String]) -> bool {
    let own = lesson.texts("tags");
    tags.iter().any(|tag| own.iter().any(|own| own.eq_ignore_ascii_case(tag)))
}
