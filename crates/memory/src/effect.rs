//! Whether lessons help: of the injections a share is withheld by lot, and both arms are compared.
//!
//! The lot is drawn from the names of the task and the lesson, so that an action that is asked again after a crash draws the same. Nothing
//! is concluded from few tasks, and an interval stands beside every number.

use std::collections::BTreeMap;

use rusqlite::params;

use crate::error::Error;
use crate::history::Author;
use crate::lesson::StoredKind;
use crate::lessons::Lessons;
use crate::text;
use crate::time::Now;
use ftl_core::json::{Json, Object, ObjectExt as _};

/// The share of injections that is withheld, unless the settings say otherwise.
pub const SHARE: f64 = 0.1;

/// A smaller memory withholds nothing: its lessons are few and each is needed.
pub const MIN_LESSONS: u64 = 50;

/// With fewer tasks in an arm nothing is said.
pub const MIN_TRIALS: u64 = 10;

/// A lesson retires for doing nothing only after so many tasks in each arm.
pub const MANY_TRIALS: u64 = 60;

/// So many trials are looked at.
pub const MAX_TRIALS: usize = 200_000;

/// The normal quantile of a 95 % interval, and of the one by which lessons retire: many are tested at once.
const SHOWN: f64 = 1.96;
const SURE: f64 = 3.0;

/// A lesson whose whole interval is below this does nothing worth its tokens.
const WORTH: f64 = 0.1;

/// How tasks ended with a lesson and without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arms {
    /// Tasks that were given it, and how many of them went well.
    pub given: (u64, u64),
    /// Tasks from which it was withheld, and how many of them went well.
    pub withheld: (u64, u64),
}

/// What the arms say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectVerdict {
    /// Too few tasks in an arm.
    TooLittle,
    /// The interval is above zero.
    Helps,
    /// The interval is below zero.
    Harms,
    /// The interval holds zero.
    Unclear,
}

impl EffectVerdict {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            EffectVerdict::TooLittle => "too little data",
            EffectVerdict::Helps => "helps",
            EffectVerdict::Harms => "harms",
            EffectVerdict::Unclear => "no effect shown",
        }
    }
}

/// A difference of two shares with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lift {
    /// By how much the share of tasks that went well is higher with the lesson.
    pub lift: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Arms {
    /// By Newcombe's interval, which holds for few tasks too.
    pub fn lift(&self) -> Lift {
        self.lift_at(SHOWN)
    }

    fn lift_at(&self, quantile: f64) -> Lift {
        let (with, with_low, with_high) = wilson(self.given, quantile);
        let (without, low, high) = wilson(self.withheld, quantile);
        let lift = with - without;
        Lift {
            lift,
            low: lift - ((with - with_low).powi(2) + (high - without).powi(2)).sqrt(),
            high: lift + ((with_high - with).powi(2) + (without - low).powi(2)).sqrt(),
        }
    }

    /// What they say.
    pub fn verdict(&self) -> EffectVerdict {
        let Lift { low, high, .. } = self.lift();
        match () {
            () if self.given.0 < MIN_TRIALS || self.withheld.0 < MIN_TRIALS => EffectVerdict::TooLittle,
            () if low > 0.0 => EffectVerdict::Helps,
            () if high < 0.0 => EffectVerdict::Harms,
            () => EffectVerdict::Unclear,
        }
    }

    /// Why the lesson should retire, if it should: it harms beyond doubt, or does nothing after many tasks.
    fn should_retire(&self) -> Option<&'static str> {
        let enough = |least: u64| self.given.0 >= least && self.withheld.0 >= least;
        let Lift { high, .. } = self.lift_at(SURE);
        if enough(MIN_TRIALS) && high < 0.0 {
            Some("tasks went worse with it than without it")
        } else if enough(MANY_TRIALS) && self.lift().high < WORTH {
            Some("tasks went no better with it than without it")
        } else {
            None
        }
    }
}

/// A share with its interval by Wilson.
fn wilson((all, well): (u64, u64), quantile: f64) -> (f64, f64, f64) {
    if all == 0 {
        return (0.5, 0.0, 1.0);
    }
    let (all, share) = (all as f64, well as f64 / all as f64);
    let square = quantile * quantile;
    let middle = (share + square / (2.0 * all)) / (1.0 + square / all);
    let half =
        quantile / (1.0 + square / all) * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
    (share, (middle - half).max(0.0), (middle + half).min(1.0))
}

/// The effect of all lessons and of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Each lesson against itself, and all of these differences together; nothing where no lesson has both arms.
    pub all: Option<Lift>,
    /// Tasks of both arms together.
    pub arms: Arms,
    /// Each lesson that has been in a trial, by kind and name.
    pub lessons: Vec<(StoredKind, String, Arms)>,
}

impl Effect {
    /// What all lessons together say.
    pub fn verdict(&self) -> EffectVerdict {
        match self.all {
            Some(_) if self.arms.given.0 < MIN_TRIALS || self.arms.withheld.0 < MIN_TRIALS => {
                EffectVerdict::TooLittle
            }
            Some(lift) if lift.low > 0.0 => EffectVerdict::Helps,
            Some(lift) if lift.high < 0.0 => EffectVerdict::Harms,
            Some(_) => EffectVerdict::Unclear,
            None => EffectVerdict::TooLittle,
        }
    }

    /// `{verdict, lift, low, high, given, withheld, lessons: […]}`.
    pub fn to_json(&self) -> Json {
        let row = Object::new().with("verdict", self.verdict().word());
        let row = with_lift(row, self.all.filter(|_| self.verdict() != EffectVerdict::TooLittle));
        let row = with_arms(row, &self.arms);
        let lessons = self.lessons.iter().map(|(kind, name, arms)| {
            let row = Object::new().with("type", kind.word()).with("name", name.as_str());
            let row = row.with("verdict", arms.verdict().word());
            let told = Some(arms.lift()).filter(|_| arms.verdict() != EffectVerdict::TooLittle);
            Json::from(with_arms(with_lift(row, told), arms))
        });
        row.with("lessons", Json::Array(lessons.collect())).into()
    }
}

fn with_lift(row: Object, lift: Option<Lift>) -> Object {
    let number =
        |of: fn(&Lift) -> f64| lift.map_or(Json::Null, |lift| crate::scoring::thousandths(of(&lift)).into());
    row.with("lift", number(|lift| lift.lift))
        .with("low", number(|lift| lift.low))
        .with("high", number(|lift| lift.high))
}

fn with_arms(row: Object, arms: &Arms) -> Object {
    let arm = |(all, well): (u64, u64)| Json::from(Object::new().with("tasks", all).with("well", well));
    row.with("given", arm(arms.given)).with("withheld", arm(arms.withheld))
}

/// Whether a lesson is withheld from a task: a share of all pairs, always the same ones.
pub fn is_withheld(task: &str, kind: StoredKind, name: &str, share: f64) -> bool {
    let drawn = text::fingerprint(&format!("{task}\n{}\n{name}", kind.word())).cast_unsigned();
    // The low bits of the hash are even; the upper ones of short texts are not, so that they are mixed once more.
    let mixed = (drawn ^ (drawn >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 11) as f64 / (1_u64 << 53) as f64) < share
}

impl Lessons<'_> {
    /// Whether this memory is large enough to withhold lessons.
    pub fn can_withhold(&self) -> Result<bool, Error> {
        Ok(self.count(StoredKind::Failure)? + self.count(StoredKind::Pattern)? >= MIN_LESSONS)
    }

    /// Notes that a task was given a lesson, or that it was withheld. Noted again it is one trial.
    pub fn begin_trial(&self, task: &str, kind: StoredKind, name: &str, withheld: bool) -> Result<(), Error> {
        let sql = "INSERT INTO lesson_setting (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING";
        let arm = if withheld { "withheld" } else { "given" };
        self.db.prepare_cached(sql)?.execute(params![key(task, kind, name), arm])?;
        Ok(())
    }

    /// Whether a task is part of a trial that has not ended.
    pub fn has_trial(&self, task: &str) -> Result<bool, Error> {
        let sql =
            "SELECT 1 FROM lesson_setting WHERE key >= ?1 AND key < ?2 AND value IN ('given', 'withheld')";
        let (first, end) = (format!("trial{PART}{task}{PART}"), format!("trial{PART}{task}{AFTER}"));
        Ok(self.db.prepare_cached(sql)?.exists(params![first, end])?)
    }

    /// Notes how a task ended, once.
    pub fn end_trials(&self, task: &str, well: bool) -> Result<(), Error> {
        let sql = "UPDATE lesson_setting SET value = value || ?3
                   WHERE key >= ?1 AND key < ?2 AND value IN ('given', 'withheld')";
        let (first, end) = (format!("trial{PART}{task}{PART}"), format!("trial{PART}{task}{AFTER}"));
        self.db.prepare_cached(sql)?.execute(params![first, end, if well { " well" } else { " badly" }])?;
        Ok(())
    }

    /// What the trials say. Tasks that have not ended count for nothing.
    pub fn effect(&self) -> Result<Effect, Error> {
        let sql = "SELECT key, value FROM lesson_setting WHERE key >= ?1 AND key < ?2 LIMIT ?3";
        let mut select = self.db.prepare_cached(sql)?;
        let most = i64::try_from(MAX_TRIALS).unwrap_or(i64::MAX);
        let mut rows = select.query(params![format!("trial{PART}"), format!("trial{AFTER}"), most])?;
        let mut found: BTreeMap<(String, String), Arms> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (key, value): (String, String) = (row.get(0)?, row.get(1)?);
            let parts: Vec<&str> = key.split(PART).collect();
            let ([_, _, kind, name], Some((arm, ended))) = (parts.as_slice(), value.split_once(' ')) else {
                continue;
            };
            let arms = found.entry(((*kind).to_owned(), (*name).to_owned())).or_default();
            let arm = if arm == "given" { &mut arms.given } else { &mut arms.withheld };
            arm.0 += 1;
            arm.1 += u64::from(ended == "well");
        }
        let kind = |word: &str| StoredKind::ALL.into_iter().find(|kind| kind.word() == word);
        let lessons: Vec<(StoredKind, String, Arms)> =
            found.into_iter().filter_map(|((word, name), arms)| Some((kind(&word)?, name, arms))).collect();
        let sum = |left: (u64, u64), right: (u64, u64)| (left.0 + right.0, left.1 + right.1);
        let arms = lessons.iter().fold(Arms::default(), |all, (_, _, one)| Arms {
            given: sum(all.given, one.given),
            withheld: sum(all.withheld, one.withheld),
        });
        Ok(Effect { all: pooled(lessons.iter().map(|(_, _, arms)| arms)), arms, lessons })
    }

    /// Retires the lessons that harm or do nothing, with the reason in their history; their names.
    pub fn retire_useless(&self, now: &Now) -> Result<Vec<String>, Error> {
        let author = Author { by: "ftl memory effect", now };
        let mut retired = Vec::new();
        for (kind, name, arms) in self.effect()?.lessons {
            if let Some(why) = arms.should_retire()
                && self.find(kind, &name)?.is_some()
                && self.retire(kind, &name, Some(why), author)?
            {
                retired.push(name);
            }
        }
        Ok(retired)
    }
}

/// Each lesson against itself, weighed by its tasks (Mantel and Haenszel): a lesson for hard tasks does not make its arm look bad.
fn pooled<'a>(lessons: impl Iterator<Item = &'a Arms>) -> Option<Lift> {
    let (mut weights, mut sum, mut variance) = (0.0, 0.0, 0.0);
    for arms in lessons.filter(|arms| arms.given.0 > 0 && arms.withheld.0 > 0) {
        let (with, without) = (arms.given.0 as f64, arms.withheld.0 as f64);
        let weight = with * without / (with + without);
        // Half a task more on either side keeps the variance of few tasks from being none.
        let share = |(all, well): (u64, u64)| (well as f64 + 0.5) / (all as f64 + 1.0);
        let (a, b) = (share(arms.given), share(arms.withheld));
        let lift = arms.given.1 as f64 / with - arms.withheld.1 as f64 / without;
        weights += weight;
        sum += weight * lift;
        variance += weight * weight * (a * (1.0 - a) / with + b * (1.0 - b) / without);
    }
    (weights > 0.0).then(|| {
        let (lift, half) = (sum / weights, SHOWN * variance.sqrt() / weights);
        Lift { lift, low: lift - half, high: lift + half }
    })
}

/// Separates the parts of a key, and what sorts after it.
const PART: char = '\u{1f}';
const AFTER: char = '\u{20}';

fn key(task: &str, kind: StoredKind, name: &str) -> String {
    format!("trial{PART}{task}{PART}{}{PART}{name}", kind.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        // Newcombe (1998), table II, method 10: 56/70 and 48/80 give 0.2 with 0.0524 to 0.3339.
        let lift = Arms { given: (70, 56), withheld: (80, 48) }.lift();
        assert!((lift.lift - 0.2).abs() < 1e-9, "{lift:?}");
        assert!((lift.low - 0.0524).abs() < 1e-3 && (lift.high - 0.3339).abs() < 1e-3, "{lift:?}");
        let verdict = |given, withheld| Arms { given, withheld }.verdict();
        assert_eq!(verdict((9, 9), (50, 0)), EffectVerdict::TooLittle);
        assert_eq!(verdict((40, 38), (40, 10)), EffectVerdict::Helps);
        assert_eq!(verdict((40, 10), (40, 38)), EffectVerdict::Harms);
        assert_eq!(verdict((40, 20), (40, 22)), EffectVerdict::Unclear);
        assert_eq!(wilson((0, 0), SHOWN), (0.5, 0.0, 1.0));
    }

    #[test]
    fn the_lot_is_even_and_the_same_again() {
        let drawn = |share: f64| {
            let all = (0..20_000).filter(|n| {
                is_withheld(
                    &format!("run-{}/{n:03}-task", n % 7),
                    StoredKind::Failure,
                    &format!("l{}", n % 31),
                    share,
                )
            });
            all.count() as f64 / 20_000.0
        };
        for share in [0.0, 0.1, 0.5, 1.0] {
            assert!((drawn(share) - share).abs() < 0.01, "{share}: {}", drawn(share));
        }
        let once = is_withheld("run/001", StoredKind::Failure, "x", 0.1);
        assert_eq!(is_withheld("run/001", StoredKind::Failure, "x", 0.1), once);
    }
}
