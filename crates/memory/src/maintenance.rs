//! Looks after the memory: feedback, pruning, statistics.
//!
//! Dates that cannot be read count as unknown, never as an error. What is pruned leaves no name behind.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::lesson::{Keys as _, Lesson, StoredKind};
use crate::lessons::{Lessons, StoredLesson};
use crate::relate;
use crate::scoring::{self, Tier};
use crate::time::Now;
use ftl_core::json::{Json, Object, ObjectExt as _};

/// Older than this and never given out is stale.
const STALE_DAYS: u64 = 90;

/// Where a lesson keeps who credited it, and with what: `RUN/INSTANCE helped`.
const CREDITED: &str = "credited";

/// So many credits are kept with a lesson, the newest.
const MAX_CREDITED: usize = 50;

/// What is kept when the memory is pruned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keep {
    /// So many failures at most.
    pub max_failures: usize,
    /// So many patterns at most.
    pub max_patterns: usize,
    /// Nothing less important than this.
    pub min_importance: f64,
    /// After so many days a lesson counts half.
    pub half_life: f64,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep { max_failures: 500, max_patterns: 200, min_importance: 0.1, half_life: scoring::HALF_LIFE_DAYS }
    }
}

/// The outcome of pruning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many failures were taken away.
    pub pruned_failures: usize,
    /// How many patterns were taken away.
    pub pruned_patterns: usize,
    /// Failures that are left.
    pub remaining_failures: usize,
    /// Patterns that are left.
    pub remaining_patterns: usize,
}

impl Pruned {
    /// The four counts by their names.
    pub fn to_json(self) -> Json {
        let counts = Object::new().with("pruned_failures", self.pruned_failures);
        let counts = counts.with("pruned_patterns", self.pruned_patterns);
        let counts = counts.with("remaining_failures", self.remaining_failures);
        counts.with("remaining_patterns", self.remaining_patterns).into()
    }
}

/// How many of the injected lessons helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helped {
    /// How many were injected and used.
    pub helped: usize,
    /// Injected and not used.
    pub not_helped: usize,
}

impl Lessons<'_> {
    /// Counts that a lesson helped or did not. Without a kind, failures are looked at first. `false` if
    /// there is no such lesson.
    pub fn feedback(&self, kind: Option<StoredKind>, name: &str, helped: bool) -> Result<bool, Error> {
        for kind in StoredKind::ALL.into_iter().filter(|each| kind.is_none_or(|only| only == *each)) {
            let Some(mut kept) = self.find_by_name(kind, name)? else { continue };
            kept.lesson.count_up(if helped { "times_helped" } else { "times_failed" });
            self.update(&kept)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Counts for every injected lesson whether it was also used. A name given twice counts once.
    pub fn feedback_of(
        &self,
        injected: &[(StoredKind, String)],
        used: &[(StoredKind, String)],
    ) -> Result<Helped, Error> {
        self.credit(injected, used, None)
    }

    /// The same, with who says so, such as a run and its instance: nobody credits a lesson twice, and it is kept with the lesson.
    pub fn credit(
        &self,
        given: &[(StoredKind, String)],
        used: &[(StoredKind, String)],
        source: Option<&str>,
    ) -> Result<Helped, Error> {
        let mut counts = Helped::default();
        let unique: BTreeSet<&(StoredKind, String)> = given.iter().collect();
        for entry in unique {
            let helped = used.contains(entry);
            let Some(mut kept) = self.find_by_name(entry.0, &entry.1)? else { continue };
            if let Some(source) = source {
                let mut said = kept.lesson.texts(CREDITED);
                if said.iter().any(|line| line.rsplit_once(' ').is_some_and(|(by, _)| by == source)) {
                    continue;
                }
                said.push(format!("{source} {}", if helped { "helped" } else { "failed" }));
                let first = said.len().saturating_sub(MAX_CREDITED);
                kept.lesson.set(CREDITED, said.split_off(first));
            }
            kept.lesson.count_up(if helped { "times_helped" } else { "times_failed" });
            self.update(&kept)?;
            *(if helped { &mut counts.helped } else { &mut counts.not_helped }) += 1;
        }
        Ok(counts)
    }

    /// Takes away what is not important enough, and every name of it.
    pub fn prune(&self, keep: &Keep, now: &Now) -> Result<Pruned, Error> {
        let (failures, gone_failures) = self.weigh(StoredKind::Failure, keep.max_failures, keep, now)?;
        let (patterns, gone_patterns) = self.weigh(StoredKind::Pattern, keep.max_patterns, keep, now)?;
        let names = |gone: &[StoredLesson]| gone.iter().map(|kept| kept.lesson.name().to_owned()).collect();
        let gone = [names(&gone_failures), names(&gone_patterns)];
        let ids: Vec<i64> = gone_failures.iter().chain(&gone_patterns).map(|kept| kept.id).collect();
        self.remove(&ids)?;
        let counts = Pruned {
            pruned_failures: gone_failures.len(),
            pruned_patterns: gone_patterns.len(),
            remaining_failures: failures.len(),
            remaining_patterns: patterns.len(),
        };
        for mut kept in failures.into_iter().chain(patterns) {
            if relate::forget(&mut kept.lesson, &gone) {
                self.update(&kept)?;
            }
        }
        Ok(counts)
    }

    /// What a memory holds and how well it is, by kind.
    pub fn stats(&self, now: &Now) -> Result<Json, Error> {
        let mut stats = Object::new();
        for kind in StoredKind::ALL {
            let lessons = self.all(kind)?;
            let quarantined = lessons.iter().filter(|kept| kept.quarantined).count();
            let lessons: Vec<&Lesson> = lessons.iter().map(|kept| &kept.lesson).collect();
            stats.set(kind.list(), kind_stats(&lessons, now).with("quarantined", quarantined));
        }
        Ok(stats.into())
    }

    /// What stays and what goes.
    fn weigh(
        &self,
        kind: StoredKind,
        most: usize,
        keep: &Keep,
        now: &Now,
    ) -> Result<(Vec<StoredLesson>, Vec<StoredLesson>), Error> {
        let importance =
            |kept: StoredLesson| (scoring::importance(kept.lesson.lesson_use(now), keep.half_life), kept);
        let mut weighed: Vec<(f64, StoredLesson)> = self.all(kind)?.into_iter().map(importance).collect();
        weighed.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let stays = weighed
            .iter()
            .take(most)
            .take_while(|(importance, _)| *importance >= keep.min_importance)
            .count();
        let mut kept: Vec<StoredLesson> = weighed.into_iter().map(|(_, kept)| kept).collect();
        let gone = kept.split_off(stays);
        Ok((kept, gone))
    }
}

fn kind_stats(lessons: &[&Lesson], now: &Now) -> Object {
    let used: Vec<scoring::LessonUse> = lessons.iter().map(|lesson| lesson.lesson_use(now)).collect();
    let ages: Vec<f64> = used.iter().filter_map(|of| of.days).map(|days| days as f64).collect();
    let importance = used.iter().map(|of| scoring::importance(*of, scoring::HALF_LIFE_DAYS)).sum::<f64>();
    let stale =
        used.iter().filter(|of| of.access == 0 && of.days.is_some_and(|days| days > STALE_DAYS)).count();
    let untested = used.iter().filter(|of| of.helped + of.failed == 0).count();
    let orphans = lessons.iter().filter(|lesson| !relate::has_edges(lesson)).count();
    let mut tiers = Object::new();
    for tier in Tier::ALL {
        tiers.set(tier.word(), used.iter().filter(|of| Tier::of_access(of.access) == tier).count());
    }
    let health = Object::new()
        .with("stale_ratio", scoring::thousandths(share(stale as f64, used.len())))
        .with("untested_ratio", scoring::thousandths(share(untested as f64, used.len())))
        .with("orphan_count", orphans)
        .with("tier_distribution", tiers);
    Object::new()
        .with("count", lessons.len())
        .with("avg_importance", scoring::thousandths(share(importance, used.len())))
        .with("avg_age_days", scoring::thousandths(share(ages.iter().sum(), ages.len())))
        .with("total_access_count", used.iter().map(|of| of.access).sum::<u64>())
        .with("with_relationships", lessons.len() - orphans)
        .with("health", health)
}

fn share(sum: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}
