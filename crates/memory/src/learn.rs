//! Adds lessons. Nothing is turned away for being small; a duplicate is told and united with the first.
//!
//! A lesson is never merged because it is merely similar: the normalised texts are equal, or meaning and
//! letters both say that it is the same. What is suspicious is kept, in quarantine.

use std::fmt;

use crate::error::Error;
use crate::error_match;
use crate::lesson::{Lesson, StoredKind};
use crate::lessons::{Lessons, StoredLesson};
use crate::scan::{self, Suspicion};
use crate::similar::PreparedText;
use crate::text;
use crate::time::Now;
use crate::vectors::{Scan, scan as scan_vectors};
use ftl_core::json::Json;

/// A trigger shorter than this is stored with a warning.
pub const SHORT_TRIGGER: usize = 10;
/// A failure that cost less is stored with a warning.
pub const LOW_COST: f64 = 100.0;
/// An insight shorter than this is stored with a warning.
pub const SHORT_INSIGHT: usize = 10;

/// So many of the nearest lessons are compared as possible duplicates.
const COMPARED: usize = 32;
/// A duplicate is above 0.85; stored vectors lie halfway to the fix and are rounded.
const NEAR_ENOUGH: f64 = 0.5;

/// What became of a lesson that came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Added, merged, or known already.
    pub outcome: LearnOutcome,
    /// The name under which it can be found now.
    pub name: String,
    /// What a person should know; goes to stderr.
    pub warnings: Vec<Warning>,
}

/// What became of a lesson that was to be learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    /// It is new, and was added.
    Added,
    /// A failure that was there already; what changed in it.
    Merged {
        /// The name of the one that was there.
        into: String,
        /// The trigger of the one that was there.
        trigger: String,
        /// The fields that grew.
        changed: Vec<&'static str>,
    },
    /// A pattern that was there already.
    Duplicate {
        /// The name of the one that was there.
        of: String,
        /// The trigger of the one that was there.
        trigger: String,
    },
}

impl LearnOutcome {
    /// The status word that a command prints.
    pub fn word(&self) -> String {
        match self {
            LearnOutcome::Added => "added".to_owned(),
            LearnOutcome::Merged { into, .. } => format!("merged:{into}"),
            LearnOutcome::Duplicate { of, .. } => format!("duplicate:{of}"),
        }
    }
}

/// Something about a lesson that was stored all the same.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// Letters of its trigger.
    ShortTrigger(usize),
    /// A trigger that fits every failure.
    GenericTrigger(String),
    /// Its cost, so low that it will be the first to be pruned.
    LowCost(f64),
    /// Letters of its insight.
    ShortInsight(usize),
    /// Its expression can never match.
    UnusableMatch,
    /// Its name was taken by another lesson.
    Renamed {
        /// The name it came with.
        from: String,
        /// The name it has.
        to: String,
    },
    /// It is kept away from agents, and why.
    Quarantined(Vec<String>),
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::ShortTrigger(len) => write!(out, "trigger_too_short:{len}: it will be hard to find"),
            Warning::GenericTrigger(trigger) => {
                write!(out, "trigger_too_generic:{trigger}: say what went wrong")
            }
            Warning::LowCost(cost) => write!(out, "cost_too_low:{cost}: it will be the first to be pruned"),
            Warning::ShortInsight(len) => write!(out, "insight_too_short:{len}: say what to do and why"),
            Warning::UnusableMatch => {
                out.write_str("match is no expression that can be used; it will match nothing")
            }
            Warning::Renamed { from, to } => {
                write!(out, "the name {from} is taken by another lesson; this one is {to}")
            }
            Warning::Quarantined(why) => {
                write!(out, "kept in quarantine and never given to an agent: {}", why.join(", "))
            }
        }
    }
}

impl Lessons<'_> {
    /// Takes a lesson in: adds it, or unites it with the one that says the same.
    pub fn learn(&self, kind: StoredKind, json: Json, now: &Now) -> Result<Learned, Error> {
        self.take_in(kind, json, now, None)
    }

    /// The same for what an agent says by itself: it is kept in quarantine until a person releases it.
    pub fn learn_from_agent(&self, kind: StoredKind, json: Json, now: &Now) -> Result<Learned, Error> {
        self.take_in(kind, json, now, Some(Suspicion::FromAgent))
    }

    fn take_in(
        &self,
        kind: StoredKind,
        json: Json,
        now: &Now,
        suspicion: Option<Suspicion>,
    ) -> Result<Learned, Error> {
        let mut lesson = Lesson::read(kind, json, "")?;
        let mut warnings = warnings(&lesson);
        lesson.complete(now);
        let mut why = scan::scan(&lesson.readable());
        why.extend(suspicion);
        let mut writer = self.vectors()?;
        if let Some(known) = self.find_equal(&lesson, !why.is_empty())? {
            let outcome = self.unite(known, &lesson)?;
            let name = match &outcome {
                LearnOutcome::Merged { into: name, .. } | LearnOutcome::Duplicate { of: name, .. } => {
                    name.clone()
                }
                LearnOutcome::Added => lesson.name().to_owned(),
            };
            return Ok(Learned { outcome, name, warnings });
        }
        warnings.extend(self.rename(&mut lesson)?);
        if !why.is_empty() {
            warnings.push(Warning::Quarantined(why.iter().map(ToString::to_string).collect()));
        }
        self.insert(&lesson, &why, &mut writer)?;
        writer.finish()?;
        Ok(Learned { outcome: LearnOutcome::Added, name: lesson.name().to_owned(), warnings })
    }

    /// Gives the lesson a free name; tells if that is another one.
    pub(crate) fn rename(&self, lesson: &mut Lesson) -> Result<Option<Warning>, Error> {
        let free = self.free_name(lesson.kind(), lesson.name())?;
        if free == lesson.name() {
            return Ok(None);
        }
        let from = lesson.name().to_owned();
        lesson.set("name", free.as_str());
        Ok(Some(Warning::Renamed { from, to: free }))
    }

    /// The lesson that says the same, the surest one. A suspicious lesson and an honest one are never
    /// the same.
    fn find_equal(&self, lesson: &Lesson, suspicious: bool) -> Result<Option<StoredLesson>, Error> {
        let normal = text::normalise(lesson.trigger());
        for kept in self.with_fingerprint(lesson.kind(), text::fingerprint(&normal))? {
            let same = !normal.is_empty() && text::normalise(kept.lesson.trigger()) == normal;
            if same && kept.quarantined == suspicious {
                return Ok(Some(kept));
            }
        }
        if suspicious { Ok(None) } else { self.nearly_same(lesson) }
    }

    fn nearly_same(&self, lesson: &Lesson) -> Result<Option<StoredLesson>, Error> {
        let probe = PreparedText::new(lesson.trigger(), self.embedder);
        let asked = Scan { vector: probe.vector(), most: COMPARED, above: NEAR_ENOUGH, also: &[] };
        let found = scan_vectors(self.db, &asked)?;
        let near = match lesson.kind() {
            StoredKind::Failure => found.failures,
            StoredKind::Pattern => found.patterns,
        };
        let mut best: Option<(f64, StoredLesson)> = None;
        for candidate in near {
            let Some(kept) = self.by_id(candidate.id)? else { continue };
            let other = PreparedText::new(kept.lesson.trigger(), self.embedder);
            let Some(sure) = probe.repeats(&other) else { continue };
            if best.as_ref().is_none_or(|(most, _)| sure > *most) {
                best = Some((sure, kept));
            }
        }
        Ok(best.map(|(_, kept)| kept))
    }

    fn unite(&self, mut known: StoredLesson, new: &Lesson) -> Result<LearnOutcome, Error> {
        let changed = merge(&mut known.lesson, new);
        let (name, trigger) = (known.lesson.name().to_owned(), known.lesson.trigger().to_owned());
        if !changed.is_empty() {
            self.update(&known)?;
            self.update_index(&known)?;
        }
        Ok(match new.kind() {
            StoredKind::Failure => LearnOutcome::Merged { into: name, trigger, changed },
            StoredKind::Pattern => LearnOutcome::Duplicate { of: name, trigger },
        })
    }
}

/// Brings what is new in a duplicate into the lesson that was there; names the fields that changed.
pub(crate) fn merge(known: &mut Lesson, new: &Lesson) -> Vec<&'static str> {
    let mut changed = Vec::new();
    if known.unite("source", new.texts("source")) {
        changed.push("source");
    }
    if known.unite("tags", new.texts("tags")) {
        changed.push("tags");
    }
    if known.kind() == StoredKind::Failure {
        if let Some(cost) = new.value_json().filter(|_| new.value() > known.value()) {
            known.set_value(cost.clone());
            changed.push("cost");
        }
        if !known.has_remedy() && new.has_remedy() {
            known.set_remedy(new.remedy());
            changed.push("fix");
        }
        if known.matcher().is_empty() && !new.matcher().is_empty() {
            known.set("match", new.matcher());
            changed.push("match");
        }
    }
    changed
}

fn warnings(lesson: &Lesson) -> Vec<Warning> {
    let mut found = Vec::new();
    let trigger = lesson.trigger().trim();
    if trigger.chars().count() < SHORT_TRIGGER {
        found.push(Warning::ShortTrigger(lesson.trigger().chars().count()));
    }
    if ["error", "failed", "exception", "unknown"].contains(&trigger.to_lowercase().as_str()) {
        found.push(Warning::GenericTrigger(trigger.to_owned()));
    }
    match lesson.kind() {
        StoredKind::Failure if lesson.value() < LOW_COST => found.push(Warning::LowCost(lesson.value())),
        StoredKind::Pattern if lesson.remedy().trim().chars().count() < SHORT_INSIGHT => {
            found.push(Warning::ShortInsight(lesson.remedy().chars().count()));
        }
        StoredKind::Failure | StoredKind::Pattern => {}
    }
    if !lesson.matcher().is_empty() && !error_match::is_usable(lesson.matcher()) {
        found.push(Warning::UnusableMatch);
    }
    found
}
