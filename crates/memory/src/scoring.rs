//! What a lesson is worth: the formulas of the FTL protocol (docs/origins.md), as plain functions.
//!
//! Nothing here looks at a store or at the time; ages are whole days that the caller counted.

/// After so many days a lesson counts half, unless the caller says otherwise.
pub const HALF_LIFE_DAYS: f64 = 30.0;

/// A lesson younger than this is given a little more room.
const YOUNG_DAYS: u64 = 7;

/// How near a lesson is to what is asked, as a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Not near enough to be injected.
    Archive,
    /// It may help.
    Exploration,
    /// It is likely to help.
    Productive,
    /// It is about the very thing that is asked.
    Critical,
}

impl Tier {
    /// All of them, the nearest first.
    pub const ALL: [Tier; 4] = [Tier::Critical, Tier::Productive, Tier::Exploration, Tier::Archive];

    /// The word that stands in `_tier`.
    pub fn word(self) -> &'static str {
        match self {
            Tier::Critical => "critical",
            Tier::Productive => "productive",
            Tier::Exploration => "exploration",
            Tier::Archive => "archive",
        }
    }

    /// By relevance to a question.
    pub fn of_relevance(relevance: f64) -> Tier {
        match relevance {
            r if r >= 0.6 => Tier::Critical,
            r if r >= 0.4 => Tier::Productive,
            r if r >= 0.25 => Tier::Exploration,
            _ => Tier::Archive,
        }
    }

    /// By how often a lesson was given out; for statistics only.
    pub fn of_access(count: u64) -> Tier {
        match count {
            0 => Tier::Archive,
            1 => Tier::Exploration,
            2..=4 => Tier::Productive,
            _ => Tier::Critical,
        }
    }
}

/// `0.5^(days / half-life)`; 1 without a date, or with a half-life that is none.
pub fn decay(days: Option<u64>, half_life: f64) -> f64 {
    match days {
        Some(days) if half_life > 0.0 => 0.5_f64.powf(days as f64 / half_life),
        Some(_) | None => 1.0,
    }
}

/// From 0.5 to 1.5 by the share of times it helped; 1 without feedback.
pub fn effectiveness(helped: u64, failed: u64) -> f64 {
    match helped.saturating_add(failed) {
        0 => 1.0,
        all => 0.5 + helped as f64 / all as f64,
    }
}

/// The chance that it helps the next time, careful with few samples: `(h+1)/(h+f+2)`.
pub fn chance(helped: u64, failed: u64) -> f64 {
    (helped as f64 + 1.0) / (helped as f64 + failed as f64 + 2.0)
}

/// What has been asked for is kept longer, ever less so: `1 + 0.05·√n`.
pub fn access_boost(count: u64) -> f64 {
    1.0 + 0.05 * (count as f64).sqrt()
}

/// 1.1 in the first week.
pub fn young_bonus(days: Option<u64>) -> f64 {
    if days.is_some_and(|days| days < YOUNG_DAYS) { 1.1 } else { 1.0 }
}

/// `log2(value + 1)`; a value below zero counts as nothing.
pub fn weight(value: f64) -> f64 {
    (value.max(0.0) + 1.0).log2()
}

/// `_score`: relevance times weight. Neither feedback nor age take part.
pub fn score(relevance: f64, value: f64) -> f64 {
    relevance * weight(value)
}

/// The use of a lesson, from which pruning and ranking are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LessonUse {
    /// Cost of a failure, or what a pattern saved.
    pub value: f64,
    /// Whole days since it was made, if that is known.
    pub days: Option<u64>,
    /// How often it was given out.
    pub access: u64,
    /// How often it helped.
    pub helped: u64,
    /// How often it did not.
    pub failed: u64,
}

/// Weight, decay, access, effectiveness and youth in one number.
pub fn importance(of: LessonUse, half_life: f64) -> f64 {
    weight(of.value)
        * decay(of.days, half_life)
        * access_boost(of.access)
        * effectiveness(of.helped, of.failed)
        * young_bonus(of.days)
}

/// How feedback and age move a lesson in an order: 1 for a new one without feedback. Age alone never
/// takes more than half, so that an old lesson that fits still comes before a new one that does not.
pub fn standing(of: LessonUse, half_life: f64) -> f64 {
    2.0 * chance(of.helped, of.failed) * (0.5 + 0.5 * decay(of.days, half_life))
}

/// Rounded to three decimals, as shown.
pub fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> f64 {
        text.trim().parse().unwrap()
    }

    fn whole(text: &str) -> Option<u64> {
        text.trim().parse().ok()
    }

    /// Each line is a formula, its arguments, and the result to four decimals.
    const TABLE: &str = "
        decay | 0 30 | 1
        decay | 30 30 | 0.5
        decay | 90 30 | 0.125
        decay | 15 30 | 0.7071
        decay | - 30 | 1
        decay | 30 0 | 1
        effectiveness | 0 0 | 1
        effectiveness | 3 0 | 1.5
        effectiveness | 0 3 | 0.5
        effectiveness | 1 1 | 1
        effectiveness | 3 1 | 1.25
        chance | 0 0 | 0.5
        chance | 3 0 | 0.8
        chance | 0 3 | 0.2
        access | 0 | 1
        access | 4 | 1.1
        access | 100 | 1.5
        bonus | 6 | 1.1
        bonus | 7 | 1
        bonus | - | 1
        weight | 0 | 0
        weight | 1 | 1
        weight | 1023 | 10
        weight | -5 | 0
        score | 0.5 1023 | 5
        score | 0 1023 | 0
        importance | 1023 0 0 0 0 | 11
        importance | 1023 30 0 0 0 | 5
        importance | 1023 30 4 1 0 | 8.25
        importance | 1023 - 0 0 2 | 5
        importance | 0 0 9 9 0 | 0
        standing | 5 0 0 0 0 | 1
        standing | 5 - 0 3 0 | 1.6
        standing | 5 30 0 0 0 | 0.75
        standing | 5 100000 0 0 3 | 0.2
        thousandths | 0.12345 | 0.123
        thousandths | 0.9996 | 1
    ";

    fn use_of(words: &[&str]) -> LessonUse {
        let at = |n: usize| whole(words[n]).unwrap();
        LessonUse {
            value: number(words[0]),
            days: whole(words[1]),
            access: at(2),
            helped: at(3),
            failed: at(4),
        }
    }

    #[test]
    fn formulas() {
        for line in TABLE.lines().filter(|line| line.contains('|')) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let words: Vec<&str> = parts[1].split(' ').collect();
            let count = |n: usize| whole(words[n]).unwrap();
            let found = match parts[0] {
                "decay" => decay(whole(words[0]), number(words[1])),
                "effectiveness" => effectiveness(count(0), count(1)),
                "chance" => chance(count(0), count(1)),
                "access" => access_boost(count(0)),
                "bonus" => young_bonus(whole(words[0])),
                "weight" => weight(number(words[0])),
                "score" => score(number(words[0]), number(words[1])),
                "importance" => importance(use_of(&words), HALF_LIFE_DAYS),
                "standing" => standing(use_of(&words), HALF_LIFE_DAYS),
                "thousandths" => thousandths(number(words[0])),
                other => panic!("no formula {other}"),
            };
            assert!((found - number(parts[2])).abs() < 5e-5, "{}: {found}", line.trim());
        }
    }

    #[test]
    fn tiers() {
        let table = "0.6 critical, 0.599 productive, 0.4 productive, 0.399 exploration, 0.25 exploration, 0.249 archive";
        for case in table.split(", ") {
            let (relevance, tier) = case.split_once(' ').unwrap();
            assert_eq!(Tier::of_relevance(number(relevance)).word(), tier);
        }
        for (count, tier) in
            [(0, "archive"), (1, "exploration"), (2, "productive"), (4, "productive"), (5, "critical")]
        {
            assert_eq!(Tier::of_access(count).word(), tier);
        }
    }
}
