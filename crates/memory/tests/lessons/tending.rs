//! Feedback, pruning, statistics.

use ftl_core::json::Json;
use ftl_memory::StoredKind;
use ftl_memory::maintenance::{Helped, Keep};

use crate::{Memory, now};

#[test]
fn feedback_counts_on_the_named_lesson() {
    let memory = Memory::new();
    memory.failure("same", "the login page is blank", 500);
    memory.pattern("same", "render the login page on the server", 500);
    let lessons = memory.lessons();
    assert!(lessons.feedback(None, "same", true).unwrap());
    assert!(lessons.feedback(Some(StoredKind::Pattern), "same", false).unwrap());
    assert!(!lessons.feedback(None, "nobody", true).unwrap());
    assert_eq!(memory.find(StoredKind::Failure, "same").count("times_helped"), 1);
    assert_eq!(memory.find(StoredKind::Pattern, "same").count("times_failed"), 1);
}

#[test]
fn what_was_injected_and_used_has_helped() {
    let memory = Memory::new();
    memory.failure("a", "the login page is blank", 500);
    memory.failure("b", "numbers are rounded twice", 500);
    memory.pattern("p", "one place for all colours", 500);
    let named = |kind, name: &str| (kind, name.to_owned());
    let injected = [
        named(StoredKind::Failure, "a"),
        named(StoredKind::Failure, "b"),
        named(StoredKind::Pattern, "p"),
        named(StoredKind::Failure, "a"),
        named(StoredKind::Failure, "gone"),
    ];
    let used = [named(StoredKind::Failure, "a"), named(StoredKind::Pattern, "b")];
    let counts = memory.lessons().feedback_of(&injected, &used).unwrap();
    assert_eq!(counts, Helped { helped: 1, not_helped: 2 });
    assert_eq!(memory.find(StoredKind::Failure, "a").count("times_helped"), 1);
    assert_eq!(memory.find(StoredKind::Failure, "b").count("times_failed"), 1);
}

#[test]
fn pruning_keeps_the_most_important() {
    let memory = Memory::new();
    let words =
        ["apple", "bridge", "candle", "desert", "engine", "forest", "guitar", "harbour", "island", "jungle"];
    for (at, word) in words.iter().enumerate() {
        memory.failure(word, &format!("the {word} is broken"), 100 * (at as u64 + 1));
    }
    memory.lessons().feedback(None, "apple", true).unwrap();
    let keep = Keep { max_failures: 3, ..Keep::default() };
    let counts = memory.lessons().prune(&keep, &now()).unwrap();
    let wanted = r#"{"pruned_failures":7,"pruned_patterns":0,"remaining_failures":3,"remaining_patterns":0}"#;
    assert_eq!(counts.to_json().to_string(), wanted);
    // log2(101)·1.5 is more than log2(801).
    let left: Vec<bool> = words
        .iter()
        .map(|word| memory.lessons().find(StoredKind::Failure, word).unwrap().is_some())
        .collect();
    assert_eq!(left, [true, false, false, false, false, false, false, false, true, true]);
    assert_eq!(memory.names("the desert is broken").iter().filter(|name| *name == "desert").count(), 0);
    memory.failure("desert", "the desert is broken", 100);
    assert_eq!(memory.names("the desert is broken")[0], "desert");
    let none = Keep { min_importance: f64::INFINITY, ..Keep::default() };
    assert_eq!(memory.lessons().prune(&none, &now()).unwrap().remaining_failures, 0);
    assert_eq!(memory.lessons().prune(&none, &now()).unwrap().pruned_failures, 0);
}

#[test]
fn statistics_have_the_fields_of_the_specification() {
    let memory = Memory::new();
    let lesson = |json: &str| drop(memory.learn(StoredKind::Failure, json));
    lesson(
        r#"{"name":"a","trigger":"the cache is stale","cost":1023,"created_at":"2026-03-01T00:00:00","access_count":5}"#,
    );
    lesson(
        r#"{"name":"b","trigger":"a socket stays open","cost":1023,"created_at":"2025-11-01T12:00:00+00:00"}"#,
    );
    lesson(
        r#"{"name":"c","trigger":"numbers are rounded","cost":0,"created_at":"some day","times_helped":1}"#,
    );
    memory.lessons().relate(StoredKind::Failure, "a", "b", "variant").unwrap();
    let stats = memory.lessons().stats(&now()).unwrap();
    let failures = stats.as_object().unwrap().get("failures").unwrap().to_string();
    let wanted = concat!(
        r#"{"count":3,"avg_importance":4.29,"avg_age_days":59.5,"total_access_count":5,"with_relationships":2,"#,
        r#""health":{"stale_ratio":0.333,"untested_ratio":0.667,"orphan_count":1,"#,
        r#""tier_distribution":{"critical":1,"productive":0,"exploration":0,"archive":2}},"quarantined":0}"#
    );
    assert_eq!(failures, wanted);
    let patterns = stats.as_object().unwrap().get("patterns").and_then(Json::as_object).unwrap();
    assert_eq!(patterns.get("avg_importance").and_then(Json::as_f64), Some(0.0));
}
