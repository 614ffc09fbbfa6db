//! How lessons hang together: edges between lessons of one kind, and across from failures to patterns.
//!
//! An edge stands on both ends and has an inverse with the same weight. No lesson is related to itself, and
//! a walk names each lesson once, by its heaviest path.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::lesson::{Lesson, StoredKind};
use crate::lessons::{Lessons, StoredLesson};
use crate::scoring;
use ftl_core::json::{Json, Object, ObjectExt as _};

/// Paths lighter than this are not followed.
const LIGHTEST: f64 = 0.5;

/// A walk is never longer than this.
pub const MAX_HOPS: usize = 10;

/// A walk visits so many lessons at most.
pub const MAX_VISITED: usize = 10_000;

const RELATED: &str = "related";
const TYPED: &str = "related_typed";
const CROSS: &str = "cross_relationships";

/// What one lesson has to do with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LessonRelation {
    /// Both failures happen together.
    CoOccurs,
    /// The first brings about the second.
    Causes,
    /// The first mends the second.
    Solves,
    /// The first must be done before the second.
    Prerequisite,
    /// Two forms of one thing.
    Variant,
}

impl LessonRelation {
    /// All relations, in the order of declaration.
    pub const ALL: [LessonRelation; 5] = [
        LessonRelation::CoOccurs,
        LessonRelation::Causes,
        LessonRelation::Solves,
        LessonRelation::Prerequisite,
        LessonRelation::Variant,
    ];

    /// The edge of that word.
    pub fn parse(word: &str) -> Option<LessonRelation> {
        LessonRelation::ALL.into_iter().find(|edge| edge.word() == word)
    }

    /// As it is written on the first lesson.
    pub fn word(self) -> &'static str {
        match self {
            LessonRelation::CoOccurs => "co_occurs",
            LessonRelation::Causes => "causes",
            LessonRelation::Solves => "solves",
            LessonRelation::Prerequisite => "prerequisite",
            LessonRelation::Variant => "variant",
        }
    }

    /// As it is written on the second lesson.
    pub fn inverse(self) -> &'static str {
        match self {
            LessonRelation::CoOccurs => "co_occurs",
            LessonRelation::Causes => "caused_by",
            LessonRelation::Solves => "solved_by",
            LessonRelation::Prerequisite => "depends_on",
            LessonRelation::Variant => "variant",
        }
    }

    /// How much of a path's weight it passes on.
    pub fn weight(self) -> f64 {
        match self {
            LessonRelation::Solves => 1.5,
            LessonRelation::Causes | LessonRelation::Prerequisite => 1.0,
            LessonRelation::CoOccurs => 0.8,
            LessonRelation::Variant => 0.7,
        }
    }

    fn of_either_end(word: &str) -> Option<LessonRelation> {
        LessonRelation::ALL.into_iter().find(|edge| edge.word() == word || edge.inverse() == word)
    }
}

/// The outcome of adding an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelateOutcome {
    /// It is there now.
    Added,
    /// It leads from a failure to a pattern and is there now as a cross relationship.
    AddedAcross,
    /// It was there already.
    Exists,
    /// Every name that nothing has.
    NotFound(Vec<String>),
    /// The word is no relation.
    InvalidType(String),
    /// Both ends are the same lesson.
    Itself(String),
}

impl RelateOutcome {
    /// The status word that a command prints.
    pub fn word(&self) -> String {
        match self {
            RelateOutcome::Added | RelateOutcome::AddedAcross => "added".to_owned(),
            RelateOutcome::Exists => "exists".to_owned(),
            RelateOutcome::NotFound(names) => format!("not_found:{}", names.join(",")),
            RelateOutcome::InvalidType(word) => format!("invalid_type:{word}"),
            RelateOutcome::Itself(name) => format!("invalid_self:{name}"),
        }
    }
}

/// A lesson that a walk has reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    /// The lesson at the end of the path.
    pub lesson: Lesson,
    /// How many edges the path has.
    pub hops: usize,
    /// The product of their weights.
    pub weight: f64,
    /// The word of the last edge.
    pub via: String,
    /// The name of the lesson before it.
    pub from: String,
}

impl Relative {
    /// `{entry, hops, weight, via, from}`.
    pub fn to_json(&self) -> Json {
        let row = Object::new().with("entry", self.lesson.body().clone()).with("hops", self.hops);
        let row = row.with("weight", scoring::thousandths(self.weight));
        row.with("via", self.via.as_str()).with("from", self.from.as_str()).into()
    }
}

impl Lessons<'_> {
    /// Relates two lessons of a kind. From a failure to a pattern it becomes a cross relationship.
    pub fn relate(&self, kind: StoredKind, from: &str, to: &str, edge: &str) -> Result<RelateOutcome, Error> {
        let Some(edge) = LessonRelation::parse(edge) else {
            return Ok(RelateOutcome::InvalidType(edge.to_owned()));
        };
        if from == to {
            return Ok(RelateOutcome::Itself(from.to_owned()));
        }
        match (self.find_by_name(kind, from)?, self.find_by_name(kind, to)?) {
            (Some(from), Some(to)) => self.join(from, to, edge),
            (first, second) => {
                if let Some(related) = self.relate_across(kind, from, to, edge)? {
                    return Ok(related);
                }
                let missing = [(first.is_none(), from), (second.is_none(), to)];
                let names = missing.into_iter().filter(|(missing, _)| *missing);
                Ok(RelateOutcome::NotFound(names.map(|(_, name)| name.to_owned()).collect()))
            }
        }
    }

    /// Relates a failure and a pattern, by `solves` or `causes`.
    pub fn relate_cross(&self, failure: &str, pattern: &str, edge: &str) -> Result<RelateOutcome, Error> {
        let edge = match LessonRelation::parse(edge) {
            Some(edge @ (LessonRelation::Solves | LessonRelation::Causes)) => edge,
            Some(LessonRelation::CoOccurs | LessonRelation::Prerequisite | LessonRelation::Variant)
            | None => {
                return Ok(RelateOutcome::InvalidType(edge.to_owned()));
            }
        };
        match (
            self.find_by_name(StoredKind::Failure, failure)?,
            self.find_by_name(StoredKind::Pattern, pattern)?,
        ) {
            (Some(mut failure), Some(mut pattern)) => {
                let new = add_below(&mut failure.lesson, CROSS, edge.word(), pattern.lesson.name());
                let back = add_below(&mut pattern.lesson, CROSS, edge.inverse(), failure.lesson.name());
                self.update(&failure)?;
                self.update(&pattern)?;
                Ok(if new || back { RelateOutcome::Added } else { RelateOutcome::Exists })
            }
            (first, second) => {
                let first = first.is_none().then(|| format!("failure:{failure}"));
                let second = second.is_none().then(|| format!("pattern:{pattern}"));
                Ok(RelateOutcome::NotFound(first.into_iter().chain(second).collect()))
            }
        }
    }

    /// The patterns that solve a failure; `None` if there is no such failure.
    pub fn solutions(&self, failure: &str) -> Result<Option<Vec<Lesson>>, Error> {
        let Some(failure) = self.find_by_name(StoredKind::Failure, failure)? else { return Ok(None) };
        let mut found = Vec::new();
        for name in failure.lesson.texts_below(CROSS, LessonRelation::Solves.word()) {
            let pattern = self.find_by_name(StoredKind::Pattern, &name)?.filter(|kept| !kept.quarantined);
            found.extend(pattern.map(|kept| kept.lesson));
        }
        Ok(Some(found))
    }

    /// Who is related to a lesson within so many hops, the heaviest first, each once. `None` if there is
    /// no such lesson.
    pub fn related(&self, kind: StoredKind, name: &str, hops: usize) -> Result<Option<Vec<Relative>>, Error> {
        let Some(start) = self.find_by_name(kind, name)? else { return Ok(None) };
        let mut best: BTreeMap<String, Relative> = BTreeMap::new();
        let mut level = vec![(start.lesson, 1.0)];
        for hop in 1..=hops.min(MAX_HOPS) {
            let mut next: BTreeSet<String> = BTreeSet::new();
            for (lesson, weight) in level {
                for (via, to) in edges(&lesson).into_iter().filter(|(_, to)| to != name) {
                    let weight = weight
                        * LessonRelation::of_either_end(&via)
                            .map_or(LessonRelation::CoOccurs.weight(), LessonRelation::weight);
                    let heavier = best.get(&to).is_none_or(|known| weight > known.weight);
                    if weight < LIGHTEST || !heavier || best.len() >= MAX_VISITED {
                        continue;
                    }
                    let Some(kept) = self.find_by_name(kind, &to)?.filter(|kept| !kept.quarantined) else {
                        continue;
                    };
                    let from = lesson.name().to_owned();
                    best.insert(to.clone(), Relative { lesson: kept.lesson, hops: hop, weight, via, from });
                    next.insert(to);
                }
            }
            level = next
                .iter()
                .filter_map(|to| best.get(to))
                .map(|row| (row.lesson.clone(), row.weight))
                .collect();
        }
        let mut rows: Vec<Relative> = best.into_values().collect();
        rows.sort_by(|left, right| right.weight.total_cmp(&left.weight).then(left.hops.cmp(&right.hops)));
        Ok(Some(rows))
    }

    fn join(
        &self,
        mut from: StoredLesson,
        mut to: StoredLesson,
        edge: LessonRelation,
    ) -> Result<RelateOutcome, Error> {
        let (from_name, to_name) = (from.lesson.name().to_owned(), to.lesson.name().to_owned());
        let mut new = from.lesson.unite(RELATED, vec![to_name.clone()]);
        new |= to.lesson.unite(RELATED, vec![from_name.clone()]);
        // Files of the FTL plugin have edges without a type; these are co_occurs already.
        let is_plain = !new && !is_typed(&from.lesson, &to_name);
        if is_plain && edge == LessonRelation::CoOccurs {
            return Ok(RelateOutcome::Exists);
        }
        new |= add_below(&mut from.lesson, TYPED, edge.word(), &to_name);
        new |= add_below(&mut to.lesson, TYPED, edge.inverse(), &from_name);
        self.update(&from)?;
        self.update(&to)?;
        Ok(if new { RelateOutcome::Added } else { RelateOutcome::Exists })
    }

    /// Tries the ends as a failure and a pattern, in either order; `None` if they are not.
    fn relate_across(
        &self,
        kind: StoredKind,
        from: &str,
        to: &str,
        edge: LessonRelation,
    ) -> Result<Option<RelateOutcome>, Error> {
        let has = |kind: StoredKind, name: &str| -> Result<bool, Error> {
            Ok(self.find_by_name(kind, name)?.is_some())
        };
        let (failure, pattern) = match kind {
            StoredKind::Failure if has(StoredKind::Failure, from)? && has(StoredKind::Pattern, to)? => {
                (from, to)
            }
            StoredKind::Pattern if has(StoredKind::Pattern, from)? && has(StoredKind::Failure, to)? => {
                (to, from)
            }
            // The kind is a default that the caller may not have meant.
            _ if has(StoredKind::Failure, from)? && has(StoredKind::Pattern, to)? => (from, to),
            _ if has(StoredKind::Pattern, from)? && has(StoredKind::Failure, to)? => (to, from),
            StoredKind::Failure | StoredKind::Pattern => return Ok(None),
        };
        let word =
            if edge == LessonRelation::Causes { LessonRelation::Causes } else { LessonRelation::Solves }
                .word();
        Ok(Some(match self.relate_cross(failure, pattern, word)? {
            RelateOutcome::Added => RelateOutcome::AddedAcross,
            other => other,
        }))
    }
}

/// Takes the names of lessons that are gone out of a lesson; tells whether any was there.
pub(crate) fn forget(lesson: &mut Lesson, gone: &[BTreeSet<String>; 2]) -> bool {
    let [same, across] = match lesson.kind() {
        StoredKind::Failure => [&gone[0], &gone[1]],
        StoredKind::Pattern => [&gone[1], &gone[0]],
    };
    let mut changed = false;
    let mut related = lesson.texts(RELATED);
    let before = related.len();
    related.retain(|name| !same.contains(name));
    if related.len() < before {
        lesson.set(RELATED, related);
        changed = true;
    }
    for (key, gone) in [(TYPED, same), (CROSS, across)] {
        for word in lesson.keys_below(key) {
            let mut names = lesson.texts_below(key, &word);
            let before = names.len();
            names.retain(|name| !gone.contains(name));
            if names.len() < before {
                lesson.set_below(key, &word, names);
                changed = true;
            }
        }
    }
    changed
}

/// Whether a lesson has an edge of either sort.
pub(crate) fn has_edges(lesson: &Lesson) -> bool {
    let typed =
        |key: &str| lesson.keys_below(key).iter().any(|word| !lesson.texts_below(key, word).is_empty());
    !lesson.texts(RELATED).is_empty() || typed(TYPED) || typed(CROSS)
}

/// Words and names of all edges of a lesson, the heaviest word for each name.
fn edges(lesson: &Lesson) -> Vec<(String, String)> {
    let weight = |word: &str| {
        LessonRelation::of_either_end(word).map_or(LessonRelation::CoOccurs.weight(), LessonRelation::weight)
    };
    let mut words: BTreeMap<String, String> = BTreeMap::new();
    for word in lesson.keys_below(TYPED) {
        for name in lesson.texts_below(TYPED, &word) {
            let known = words.entry(name).or_insert_with(|| word.clone());
            if weight(&word) > weight(known) {
                known.clone_from(&word);
            }
        }
    }
    for name in lesson.texts(RELATED) {
        words.entry(name).or_insert_with(|| LessonRelation::CoOccurs.word().to_owned());
    }
    words.into_iter().map(|(name, word)| (word, name)).collect()
}

fn is_typed(lesson: &Lesson, name: &str) -> bool {
    lesson
        .keys_below(TYPED)
        .iter()
        .any(|word| lesson.texts_below(TYPED, word).iter().any(|known| known == name))
}

fn add_below(lesson: &mut Lesson, key: &str, word: &str, name: &str) -> bool {
    let mut names = lesson.texts_below(key, word);
    if names.iter().any(|known| known == name) {
        return false;
    }
    names.push(name.to_owned());
    lesson.set_below(key, word, names);
    true
}
