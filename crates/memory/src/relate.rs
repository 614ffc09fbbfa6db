//! How lessons hang together: edges between lessons of one kind, and across from failures to patterns.
//!
//! An edge stands on both ends and has an inverse with the same weight. Nobody is related to itself, and
//! a walk names each lesson once, by its heaviest path.

use std::collections::{BTreeMap, BTreeSet};

use crate::lesson::{Kind, Lesson};
use crate::lessons::{Kept, Lessons};
use crate::trouble::Trouble;
use crate::worth;
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
pub enum Edge {
    /// Both happen together.
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

impl Edge {
    /// All of them.
    pub const ALL: [Edge; 5] =
        [Edge::CoOccurs, Edge::Causes, Edge::Solves, Edge::Prerequisite, Edge::Variant];

    /// The edge of that word.
    pub fn parse(word: &str) -> Option<Edge> {
        Edge::ALL.into_iter().find(|edge| edge.word() == word)
    }

    /// As it is written on the first lesson.
    pub fn word(self) -> &'static str {
        match self {
            Edge::CoOccurs => "co_occurs",
            Edge::Causes => "causes",
            Edge::Solves => "solves",
            Edge::Prerequisite => "prerequisite",
            Edge::Variant => "variant",
        }
    }

    /// As it is written on the second lesson.
    pub fn inverse(self) -> &'static str {
        match self {
            Edge::CoOccurs => "co_occurs",
            Edge::Causes => "caused_by",
            Edge::Solves => "solved_by",
            Edge::Prerequisite => "depends_on",
            Edge::Variant => "variant",
        }
    }

    /// How much of a path's weight it passes on.
    pub fn weight(self) -> f64 {
        match self {
            Edge::Solves => 1.5,
            Edge::Causes | Edge::Prerequisite => 1.0,
            Edge::CoOccurs => 0.8,
            Edge::Variant => 0.7,
        }
    }

    fn of_either_end(word: &str) -> Option<Edge> {
        Edge::ALL.into_iter().find(|edge| edge.word() == word || edge.inverse() == word)
    }
}

/// What became of an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Related {
    /// It is there now.
    Added,
    /// It leads from a failure to a pattern and is there now as a cross relationship.
    AddedAcross,
    /// It was there already.
    Exists,
    /// Every name that nothing has.
    NotFound(Vec<String>),
    /// No such type.
    InvalidType(String),
    /// Both ends are the same lesson.
    Itself(String),
}

impl Related {
    /// The status word that a command prints.
    pub fn word(&self) -> String {
        match self {
            Related::Added | Related::AddedAcross => "added".to_owned(),
            Related::Exists => "exists".to_owned(),
            Related::NotFound(names) => format!("not_found:{}", names.join(",")),
            Related::InvalidType(word) => format!("invalid_type:{word}"),
            Related::Itself(name) => format!("invalid_self:{name}"),
        }
    }
}

/// A lesson that a walk has reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    /// The lesson.
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
        let row = row.with("weight", worth::thousandths(self.weight));
        row.with("via", self.via.as_str()).with("from", self.from.as_str()).into()
    }
}

impl Lessons<'_> {
    /// Relates two lessons of a kind. From a failure to a pattern it becomes a cross relationship.
    pub fn relate(&self, kind: Kind, from: &str, to: &str, edge: &str) -> Result<Related, Trouble> {
        let Some(edge) = Edge::parse(edge) else { return Ok(Related::InvalidType(edge.to_owned())) };
        if from == to {
            return Ok(Related::Itself(from.to_owned()));
        }
        match (self.named(kind, from)?, self.named(kind, to)?) {
            (Some(from), Some(to)) => self.join(from, to, edge),
            (first, second) => {
                if let Some(related) = self.relate_across(kind, from, to, edge)? {
                    return Ok(related);
                }
                let missing = [(first.is_none(), from), (second.is_none(), to)];
                let names = missing.into_iter().filter(|(missing, _)| *missing);
                Ok(Related::NotFound(names.map(|(_, name)| name.to_owned()).collect()))
            }
        }
    }

    /// Relates a failure and a pattern, by `solves` or `causes`.
    pub fn relate_cross(&self, failure: &str, pattern: &str, edge: &str) -> Result<Related, Trouble> {
        let edge = match Edge::parse(edge) {
            Some(edge @ (Edge::Solves | Edge::Causes)) => edge,
            Some(Edge::CoOccurs | Edge::Prerequisite | Edge::Variant) | None => {
                return Ok(Related::InvalidType(edge.to_owned()));
            }
        };
        match (self.named(Kind::Failure, failure)?, self.named(Kind::Pattern, pattern)?) {
            (Some(mut failure), Some(mut pattern)) => {
                let new = add_below(&mut failure.lesson, CROSS, edge.word(), pattern.lesson.name());
                let back = add_below(&mut pattern.lesson, CROSS, edge.inverse(), failure.lesson.name());
                self.update(&failure)?;
                self.update(&pattern)?;
                Ok(if new || back { Related::Added } else { Related::Exists })
            }
            (first, second) => {
                let first = first.is_none().then(|| format!("failure:{failure}"));
                let second = second.is_none().then(|| format!("pattern:{pattern}"));
                Ok(Related::NotFound(first.into_iter().chain(second).collect()))
            }
        }
    }

    /// The patterns that solve a failure; `None` if there is no such failure.
    pub fn solutions(&self, failure: &str) -> Result<Option<Vec<Lesson>>, Trouble> {
        let Some(failure) = self.named(Kind::Failure, failure)? else { return Ok(None) };
        let mut found = Vec::new();
        for name in failure.lesson.texts_below(CROSS, Edge::Solves.word()) {
            let pattern = self.named(Kind::Pattern, &name)?.filter(|kept| !kept.quarantined);
            found.extend(pattern.map(|kept| kept.lesson));
        }
        Ok(Some(found))
    }

    /// Who is related to a lesson within so many hops, the heaviest first, each once. `None` if there is
    /// no such lesson.
    pub fn related(&self, kind: Kind, name: &str, hops: usize) -> Result<Option<Vec<Relative>>, Trouble> {
        let Some(start) = self.named(kind, name)? else { return Ok(None) };
        let mut best: BTreeMap<String, Relative> = BTreeMap::new();
        let mut level = vec![(start.lesson, 1.0)];
        for hop in 1..=hops.min(MAX_HOPS) {
            let mut next: BTreeSet<String> = BTreeSet::new();
            for (lesson, weight) in level {
                for (via, to) in edges(&lesson).into_iter().filter(|(_, to)| to != name) {
                    let weight =
                        weight * Edge::of_either_end(&via).map_or(Edge::CoOccurs.weight(), Edge::weight);
                    let heavier = best.get(&to).is_none_or(|known| weight > known.weight);
                    if weight < LIGHTEST || !heavier || best.len() >= MAX_VISITED {
                        continue;
                    }
                    let Some(kept) = self.named(kind, &to)?.filter(|kept| !kept.quarantined) else {
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

    fn join(&self, mut from: Kept, mut to: Kept, edge: Edge) -> Result<Related, Trouble> {
        let (from_name, to_name) = (from.lesson.name().to_owned(), to.lesson.name().to_owned());
        let mut new = from.lesson.unite(RELATED, vec![to_name.clone()]);
        new |= to.lesson.unite(RELATED, vec![from_name.clone()]);
        // Files of the FTL plugin have edges without a type; these are co_occurs already.
        let is_plain = !new && !is_typed(&from.lesson, &to_name);
        if is_plain && edge == Edge::CoOccurs {
            return Ok(Related::Exists);
        }
        new |= add_below(&mut from.lesson, TYPED, edge.word(), &to_name);
        new |= add_below(&mut to.lesson, TYPED, edge.inverse(), &from_name);
        self.update(&from)?;
        self.update(&to)?;
        Ok(if new { Related::Added } else { Related::Exists })
    }

    /// Tries the ends as a failure and a pattern, in either order; `None` if they are not.
    fn relate_across(
        &self,
        kind: Kind,
        from: &str,
        to: &str,
        edge: Edge,
    ) -> Result<Option<Related>, Trouble> {
        let has = |kind: Kind, name: &str| -> Result<bool, Trouble> { Ok(self.named(kind, name)?.is_some()) };
        let (failure, pattern) = match kind {
            Kind::Failure if has(Kind::Failure, from)? && has(Kind::Pattern, to)? => (from, to),
            Kind::Pattern if has(Kind::Pattern, from)? && has(Kind::Failure, to)? => (to, from),
            // The kind is a default that nobody may have thought of.
            _ if has(Kind::Failure, from)? && has(Kind::Pattern, to)? => (from, to),
            _ if has(Kind::Pattern, from)? && has(Kind::Failure, to)? => (to, from),
            Kind::Failure | Kind::Pattern => return Ok(None),
        };
        let word = if edge == Edge::Causes { Edge::Causes } else { Edge::Solves }.word();
        Ok(Some(match self.relate_cross(failure, pattern, word)? {
            Related::Added => Related::AddedAcross,
            other => other,
        }))
    }
}

/// Takes the names of lessons that are gone out of a lesson; tells whether any was there.
pub(crate) fn forget(lesson: &mut Lesson, gone: &[BTreeSet<String>; 2]) -> bool {
    let [same, across] = match lesson.kind() {
        Kind::Failure => [&gone[0], &gone[1]],
        Kind::Pattern => [&gone[1], &gone[0]],
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
    let weight = |word: &str| Edge::of_either_end(word).map_or(Edge::CoOccurs.weight(), Edge::weight);
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
        words.entry(name).or_insert_with(|| Edge::CoOccurs.word().to_owned());
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
