//! Simulated agents that fail unless the right lesson is there: help and harm are found, and no lift is invented where there is none.

use ftl_memory::StoredKind;
use ftl_memory::benchmark::Lot;
use ftl_memory::effect::{EffectVerdict, SHARE, is_withheld};
use ftl_memory::history::Author;

use crate::{Memory, now};

/// The chance that a task goes well with a lesson, and without it.
type Nature = (&'static str, f64, f64);

/// Agents work on tasks, each of which one lesson is about.
fn simulate(natures: &[Nature], tasks: usize, seed: u64) -> Memory {
    let memory = Memory::new();
    for (name, ..) in natures {
        memory.failure(name, &format!("{name} broke {name}{name}"), 500);
    }
    let (lessons, mut lot) = (memory.lessons(), Lot::new(seed));
    for at in 0..tasks {
        let (name, with, without) = natures[at % natures.len()];
        let task = format!("run-{seed}-{}/{at:05}-task", at / 40);
        let withheld = is_withheld(&task, StoredKind::Failure, name, SHARE * 3.0);
        lessons.begin_trial(&task, StoredKind::Failure, name, withheld).unwrap();
        // What is asked again after a crash is the same trial, and ends once.
        lessons.begin_trial(&task, StoredKind::Failure, name, !withheld).unwrap();
        let well = lot.share() < if withheld { without } else { with };
        lessons.end_trials(&task, well).unwrap();
        lessons.end_trials(&task, !well).unwrap();
    }
    memory
}

fn verdict(memory: &Memory, name: &str) -> EffectVerdict {
    let effect = memory.lessons().effect().unwrap();
    effect.lessons.iter().find(|(_, found, _)| found == name).unwrap().2.verdict()
}

#[test]
fn help_and_harm_are_found() {
    let memory = simulate(&[("needed", 0.95, 0.05), ("poison", 0.2, 0.9), ("idle", 0.7, 0.7)], 1_200, 3);
    assert_eq!(verdict(&memory, "needed"), EffectVerdict::Helps);
    assert_eq!(verdict(&memory, "poison"), EffectVerdict::Harms);
    assert_eq!(memory.lessons().retire_useless(&now()).unwrap(), ["idle", "poison"]);
    assert!(!memory.find(StoredKind::Failure, "needed").is_retired());
    assert!(memory.find(StoredKind::Failure, "poison").is_retired());
    // It can be brought back, and it is shown who took it away.
    let author = Author { by: "Ada", now: &now() };
    let undone = memory.lessons().undo(StoredKind::Failure, "poison", author).unwrap().unwrap();
    assert_eq!((undone.what.as_str(), undone.by.as_str()), ("retire", "ftl memory effect"));
    assert!(!memory.find(StoredKind::Failure, "poison").is_retired());
}

#[test]
fn no_lift_is_invented() {
    let natures: Vec<Nature> =
        vec![("amber", 0.6, 0.6), ("birch", 0.3, 0.3), ("cedar", 0.9, 0.9), ("delta", 0.5, 0.5)];
    let (mut claimed, mut retired) = (0, 0);
    let rounds = 30;
    for seed in 0..rounds {
        let memory = simulate(&natures, 400, seed);
        let effect = memory.lessons().effect().unwrap();
        claimed += u64::from(matches!(effect.verdict(), EffectVerdict::Helps | EffectVerdict::Harms));
        retired += memory.lessons().retire_useless(&now()).unwrap().len();
    }
    // One interval in twenty misses the truth.
    assert!(claimed <= rounds / 5, "{claimed} of {rounds} memories without an effect show one");
    assert!(retired <= 1, "{retired} lessons without an effect were retired for harm");
}

#[test]
fn little_data_is_called_so() {
    let memory = simulate(&[("needed", 1.0, 0.0)], 12, 1);
    let effect = memory.lessons().effect().unwrap();
    assert_eq!(effect.verdict(), EffectVerdict::TooLittle);
    let json = effect.to_json().to_string();
    assert!(json.starts_with(r#"{"verdict":"too little data","lift":null"#), "{json}");
    let none = Memory::new().lessons().effect().unwrap();
    assert_eq!((none.verdict(), none.lessons.len()), (EffectVerdict::TooLittle, 0));
}
