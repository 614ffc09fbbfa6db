//! The benchmark of the FTL protocol (docs/origins.md): records, a memory made by lot, and the simulated learner.
//!
//! Everything is drawn from a seed, so the same call gives the same numbers. There is no clock: a caller that
//! measures a time passes a stopwatch in. Nothing here touches a real memory.

use rusqlite::Connection;

use crate::embed::Embedder;
use crate::error::Error;
use crate::lessons::Lessons;
use crate::maintenance::Keep;
use crate::recall::ContextRequest;
use crate::scoring;
use crate::similar::PreparedText;
use crate::time::Now;
use crate::{import_export, schema};
use ftl_core::json::{Json, Object, ObjectExt as _};

/// Sizes of memory that retrieval is measured at.
pub const SIZES: [usize; 5] = [10, 50, 100, 250, 500];
/// The seed of every figure.
pub const SEED: u64 = 42;

/// The largest memory that is made by lot.
pub const MAX_GENERATED: usize = 200_000;
/// How many tasks a simulation may have.
pub const MAX_SIMULATED: usize = 1_000_000;

/// One line of the benchmark's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The part that was measured.
    pub name: String,
    /// The property that was measured.
    pub metric: &'static str,
    /// The value, in `unit`.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// The value that it is compared with.
    pub baseline: Option<f64>,
    /// When it was measured.
    pub timestamp: String,
}

impl Measurement {
    /// By how many per cent it is below the baseline, to two decimals.
    pub fn improvement(&self) -> Option<f64> {
        let baseline = self.baseline.filter(|baseline| *baseline > 0.0)?;
        Some(((baseline - self.value) / baseline * 10_000.0).round() / 100.0)
    }

    /// `{name, metric, value, unit, baseline, improvement, timestamp}`.
    pub fn to_json(&self) -> Json {
        let optional = |number: Option<f64>| number.map_or(Json::Null, Json::from);
        let record = Object::new().with("name", self.name.as_str()).with("metric", self.metric);
        let record = record.with("value", self.value).with("unit", self.unit);
        let record = record
            .with("baseline", optional(self.baseline))
            .with("improvement", optional(self.improvement()));
        record.with("timestamp", self.timestamp.as_str()).into()
    }
}

/// Numbers drawn from a seed.
#[derive(Clone, Debug)]
pub struct Lot(u64);

impl Lot {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Lot {
        Lot(seed)
    }

    /// The next number of the sequence, from all of `u64`.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another; 0 below 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.draw() % (end.max(1) as u64)).unwrap_or(0)
    }

    /// From 0 up to 1.
    pub fn share(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words.get(self.below(words.len())).copied().unwrap_or_default()
    }
}

const PLACES: [&str; 24] = [
    "auth",
    "billing",
    "cache",
    "cart",
    "catalogue",
    "config",
    "export",
    "gateway",
    "import",
    "index",
    "invoice",
    "login",
    "mailer",
    "metrics",
    "migration",
    "payment",
    "profile",
    "queue",
    "report",
    "router",
    "scheduler",
    "search",
    "session",
    "upload",
];
const FAULTS: [&str; 24] = [
    "ImportError: cannot import name",
    "KeyError: missing field",
    "TypeError: unexpected argument",
    "AssertionError: expected equal",
    "TimeoutError: no answer from",
    "connection refused by",
    "permission denied while writing",
    "panicked at index out of bounds in",
    "mismatched types in",
    "use of moved value in",
    "unresolved import of",
    "nil pointer dereference in",
    "deadlock while locking",
    "data race detected in",
    "stack overflow inside",
    "undefined is not a function in",
    "cannot read properties of",
    "schema validation failed for",
    "unique constraint violated by",
    "no such table for",
    "certificate rejected by",
    "out of memory while building",
    "merge conflict in",
    "flaky assertion in",
];
const DETAILS: [&str; 24] = [
    "after the upgrade",
    "on the second retry",
    "when the list is empty",
    "under load",
    "in the nightly build",
    "with a fresh database",
    "behind the proxy",
    "for guests",
    "on Windows paths",
    "after a restart",
    "when two requests arrive together",
    "with the feature flag on",
    "during shutdown",
    "for very long names",
    "in the time zone of Lisbon",
    "with unicode input",
    "without network",
    "in release mode",
    "on the staging host",
    "while the disk is full",
    "after midnight",
    "when the token has expired",
    "with an old client",
    "for archived orders",
];

/// The trigger of a lesson made by lot.
pub fn trigger(lot: &mut Lot, number: usize) -> String {
    let (fault, place, detail) = (lot.pick(&FAULTS), lot.pick(&PLACES), lot.pick(&DETAILS));
    let other = lot.pick(&PLACES);
    format!("{fault} {place}_{other}_{:x} {detail}, step {number}", lot.draw() % 0xfffff)
}

/// A whole memory made by lot, as `memory.json` holds it.
pub fn generate(failures: usize, patterns: usize, seed: u64, now: &Now) -> Json {
    let mut lot = Lot::new(seed);
    let mut list = |count: usize, mark: &str| -> Json {
        let entries = (0..count.min(MAX_GENERATED)).map(|number| entry(&mut lot, mark, number, now));
        Json::Array(entries.collect())
    };
    let (failures, patterns) = (list(failures, "failure"), list(patterns, "pattern"));
    let file = Object::new().with("failures", failures).with("patterns", patterns);
    file.with("_schema_version", import_export::VERSION).into()
}

fn entry(lot: &mut Lot, mark: &str, number: usize, now: &Now) -> Json {
    let trigger = trigger(lot, number);
    let worth = 100 + lot.below(5_000);
    let source = Json::Array(vec![format!("bench-{number}").into()]);
    let entry = Object::new().with("name", format!("{mark}-{number}")).with("trigger", trigger.as_str());
    let entry = match mark {
        "failure" => entry
            .with("fix", format!("look at {} first", lot.pick(&PLACES)))
            .with("match", "")
            .with("cost", worth),
        _ => entry.with("insight", format!("keep {} apart", lot.pick(&PLACES))).with("saved", worth),
    };
    entry
        .with("source", source)
        .with("created_at", now.local.as_str())
        .with("access_count", lot.below(7))
        .into()
}

/// A measure of time: runs something and says how many milliseconds it took.
pub type Stopwatch<'w> = &'w mut dyn FnMut(&mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error>;

/// A memory of its own, never the real one.
fn own(embedder: &dyn Embedder, file: &Json) -> Result<Connection, Error> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(schema::CREATE)?;
    Lessons::new(&db, embedder).import(&file.to_string(), import_export::ImportMode::Add)?;
    Ok(db)
}

/// Mean milliseconds of `context`, plain and by meaning, at each size.
pub fn retrieval(
    embedder: &dyn Embedder,
    watch: Stopwatch<'_>,
    rounds: usize,
    now: &Now,
) -> Result<Vec<Measurement>, Error> {
    let mut records = Vec::new();
    for size in SIZES {
        let db = own(embedder, &generate(size, size / 2, SEED, now))?;
        let lessons = Lessons::new(&db, embedder);
        for (way, objective) in
            [("plain", None), ("semantic", Some("import error in the payment queue".to_owned()))]
        {
            let asked = ContextRequest { objective, ..ContextRequest::default() };
            let ms = watch(&mut || (0..rounds).try_for_each(|_| lessons.context(&asked, now).map(drop)))?;
            records.push(Measurement {
                name: format!("retrieval_{way}_{size}"),
                metric: "time",
                value: ms / rounds.max(1) as f64,
                unit: "ms",
                baseline: None,
                timestamp: now.local.clone(),
            });
        }
    }
    Ok(records)
}

/// Pairs that say the same in other words.
const PAIRS: [(&str, &str); 5] = [
    (
        "ImportError: cannot import name due to a circular import",
        "circular import between modules at load time",
    ),
    ("connection refused by the database server", "could not connect to the database, connection refused"),
    ("test timed out waiting for the server to start", "timeout while waiting for server start in test"),
    ("permission denied when writing the log file", "cannot write log file, permission denied"),
    (
        "type mismatch: expected string, found integer",
        "mismatched types, expected a string but found an integer",
    ),
];

/// How near paraphrases are, against the guidance of 0.5, and what their scores would be.
pub fn matching(embedder: &dyn Embedder, now: &Now) -> Vec<Measurement> {
    let near = |(left, right): &(&str, &str)| {
        PreparedText::new(left, embedder).like(&PreparedText::new(right, embedder)).best()
    };
    let found: Vec<f64> = PAIRS.iter().map(near).collect();
    let record = |name: &str, metric, value, unit, baseline| Measurement {
        name: name.to_owned(),
        metric,
        value: scoring::thousandths(value),
        unit,
        baseline,
        timestamp: now.local.clone(),
    };
    let above = found.iter().filter(|near| **near >= 0.5).count() as f64 / found.len() as f64;
    let scores: Vec<f64> = found.iter().map(|near| scoring::score(*near, 1000.0)).collect();
    let most = scores.iter().fold(0.0_f64, |most, score| most.max(*score));
    vec![
        record("matching_accuracy", "share_above_0.5", above, "ratio", None),
        record(
            "matching_similarity",
            "mean",
            found.iter().sum::<f64>() / found.len() as f64,
            "similarity",
            None,
        ),
        record(
            "matching_hybrid_mean",
            "mean",
            scores.iter().sum::<f64>() / scores.len() as f64,
            "score",
            None,
        ),
        record("matching_hybrid_max", "max", most, "score", None),
    ]
}

/// What the simulated learner spent, with and without memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Tokens that it spent without memory.
    pub baseline: u64,
    /// Tokens that it spent with memory.
    pub assisted: u64,
    /// Lessons at the end.
    pub entries: usize,
}

/// Kinds of trouble that tasks can meet.
const TROUBLES: usize = 24;
/// A known trouble costs this share of what it would cost.
const KNOWN_SHARE: f64 = 0.35;
/// A lesson is recalled with this chance.
const RECALLED: f64 = 0.85;

/// A learner that meets troubles by lot, and spends less on those that it has met. It shows the mechanism;
/// the rate of learning is assumed, not measured.
pub fn learning(campaigns: usize, tasks: usize, seed: u64) -> Simulated {
    let mut lot = Lot::new(seed);
    let mut met = std::collections::BTreeSet::new();
    let (mut baseline, mut assisted) = (0, 0);
    for _ in 0..campaigns.saturating_mul(tasks).min(MAX_SIMULATED) {
        let work = 2_000 + lot.below(1_500);
        let trouble = lot.below(TROUBLES).min(lot.below(TROUBLES));
        let cost = 1_000 + lot.below(3_000);
        let known = !met.insert(trouble) && lot.share() < RECALLED;
        baseline += work + cost;
        assisted += work + if known { (cost as f64 * KNOWN_SHARE) as usize } else { cost };
    }
    Simulated { baseline: baseline as u64, assisted: assisted as u64, entries: met.len() }
}

/// The simulation as records.
pub fn learning_records(campaigns: usize, tasks: usize, now: &Now) -> Vec<Measurement> {
    let found = learning(campaigns, tasks, SEED);
    let record = |name: &str, metric, value: f64, unit, baseline| Measurement {
        name: name.to_owned(),
        metric,
        value,
        unit,
        baseline,
        timestamp: now.local.clone(),
    };
    let (baseline, assisted) = (found.baseline as f64, found.assisted as f64);
    let simulated = record("learning_simulated", "tokens", assisted, "tokens", Some(baseline));
    let improvement = simulated.improvement().unwrap_or(0.0);
    vec![
        simulated,
        record("learning_entries", "count", found.entries as f64, "entries", None),
        // The names that scripts of the FTL plugin look for.
        record("baseline_cost", "simulated_tokens", baseline, "tokens", None),
        record("memory_assisted_cost", "simulated_tokens", assisted, "tokens", None),
        record("efficiency_improvement", "percentage", improvement, "%", None),
    ]
}

/// Milliseconds of pruning 500 failures and 200 patterns to 100 and 50, and how many went.
pub fn pruning(embedder: &dyn Embedder, watch: Stopwatch<'_>, now: &Now) -> Result<Vec<Measurement>, Error> {
    let db = own(embedder, &generate(500, 200, SEED, now))?;
    let lessons = Lessons::new(&db, embedder);
    let keep = Keep { max_failures: 100, max_patterns: 50, ..Keep::default() };
    let mut counts = crate::maintenance::Pruned::default();
    let ms = watch(&mut || {
        counts = lessons.prune(&keep, now)?;
        Ok(())
    })?;
    let record = |name: &str, metric, value: f64, unit, baseline| Measurement {
        name: name.to_owned(),
        metric,
        value,
        unit,
        baseline,
        timestamp: now.local.clone(),
    };
    let left = (counts.remaining_failures + counts.remaining_patterns) as f64;
    Ok(vec![
        record("pruning_time", "time", ms, "ms", None),
        record("pruning_entries", "count", left, "entries", Some(700.0)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::TokenTable;

    fn now() -> Now {
        Now { local: "2026-03-01T12:00:00.000000".to_owned(), ms: 1_772_359_200_000 }
    }

    #[test]
    fn the_same_seed_gives_the_same_figures() {
        assert_eq!(learning(10, 5, SEED), learning(10, 5, SEED));
        assert_eq!(generate(20, 10, 7, &now()), generate(20, 10, 7, &now()));
        assert_ne!(generate(20, 10, 7, &now()), generate(20, 10, 8, &now()));
        let found = &learning_records(10, 5, &now())[0];
        assert!(found.improvement().is_some_and(|percent| percent > 10.0 && percent < 60.0), "{found:?}");
        let value = |name: &str| {
            let records = learning_records(10, 5, &now());
            records.iter().find(|one| one.name == name).map(|one| one.value).unwrap()
        };
        assert!(value("memory_assisted_cost") < value("baseline_cost"));
        assert_eq!(Some(value("efficiency_improvement")), found.improvement());
        assert_eq!(learning(0, 5, SEED), Simulated { baseline: 0, assisted: 0, entries: 0 });
    }

    #[test]
    fn records_have_the_fields_of_the_specification() {
        let record = Measurement {
            name: "n".to_owned(),
            metric: "m",
            value: 70.0,
            unit: "u",
            baseline: Some(100.0),
            timestamp: "t".to_owned(),
        };
        let wanted = r#"{"name":"n","metric":"m","value":70.0,"unit":"u","baseline":100.0,"improvement":30.0,"timestamp":"t"}"#;
        assert_eq!(record.to_json().to_string(), wanted);
        assert_eq!(Measurement { baseline: Some(0.0), ..record }.improvement(), None);
    }

    #[test]
    fn every_figure_can_be_made() {
        let table = TokenTable::built_in().unwrap();
        let mut runs = 0;
        let mut watch = |work: &mut dyn FnMut() -> Result<(), Error>| {
            work()?;
            runs += 1;
            Ok(f64::from(runs))
        };
        assert_eq!(retrieval(&table, &mut watch, 1, &now()).unwrap().len(), 2 * SIZES.len());
        let pruned = pruning(&table, &mut watch, &now()).unwrap();
        assert_eq!(pruned[1].value, 150.0);
        let matched = matching(&table, &now());
        assert!(matched[0].value >= 0.8, "{matched:?}");
    }
}
