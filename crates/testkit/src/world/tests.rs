//! The world does an effect once per key, remembers it over a kill, and tells when an executor does one twice.

#![allow(clippy::unwrap_used)]

use std::fs;

use ftl_core::run::{Action, ActionId, ActionTarget, InstanceId};

use super::*;

fn action(instance: u32, entry: u64, whom: &str, params: &[(&str, &str)]) -> (String, Action) {
    let wanted = ActionTarget::Action(Name::from(whom));
    let params = params.iter().map(|(name, text)| (Name::from(*name), Value::text(text))).collect();
    let id = ActionId { entry, index: 0 };
    (format!("run.{id}"), Action { instance: InstanceId(instance), id, wanted, params, forbidden: None })
}

fn perform(world: &World, (key, action): &(String, Action)) -> Value {
    world.perform(key, action).unwrap()
}

fn land(world: &World, entry: u64) {
    perform(world, &action(4, 1, "workspace.parse", &[("path", "001")]));
    perform(world, &action(4, entry, "work.land", &[("verify", "true")]));
}

#[test]
fn an_effect_is_done_once_per_key_and_survives_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world");
    let world = World::create(&path, Plot::new(1, 0, "001 002<001")).unwrap();
    let ended = action(0, 9, "campaign.update_task", &[("task", "001"), ("verdict", "complete")]);
    let answer = perform(&world, &ended);
    world.spend("run.3.0", &Usage::from([(Name::from("tokens"), 7)])).unwrap();
    // A process that was killed in the middle of a line.
    let mut text = fs::read(&path).unwrap();
    text.extend(b"{\"line\":\"spent\",\"key\":");
    fs::write(&path, text).unwrap();
    let again = World::open(&path).unwrap();
    assert!(again.has_done("run.9.0"));
    assert_eq!(perform(&again, &ended), answer);
    assert_eq!(again.verdicts()[0].1, TaskStatus::Complete);
    assert_eq!(again.spent(), Usage::from([(Name::from("tokens"), 7)]));
    assert_eq!(again.check(), Vec::<String>::new());
    assert!(World::create(&path, Plot::new(1, 0, "001")).is_err());
}

#[test]
fn two_openings_of_one_file_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world");
    let one = World::create(&path, Plot::new(1, 0, "001")).unwrap();
    let two = World::open(&path).unwrap();
    land(&one, 5);
    land(&two, 5);
    assert_eq!(two.check(), Vec::<String>::new());
    assert!(two.has_done("run.5.0"));
}

#[test]
fn what_is_done_twice_is_told() {
    let world = World::in_memory(Plot::new(1, 0, "001"));
    land(&world, 5);
    assert_eq!(world.check(), Vec::<String>::new());
    land(&world, 6);
    assert_eq!(world.check(), ["task 001 landed 2 times: run.5.0, run.6.0"]);
    let (key, twice) = action(0, 9, "exploration.clear", &[]);
    world.perform_blindly(&key, &twice).unwrap();
    world.perform_blindly(&key, &twice).unwrap();
    assert_eq!(world.effects_twice(), ["exploration.clear was done 2 times under run.9.0"]);
}

#[test]
fn what_an_agent_uses_belongs_to_its_task() {
    let reserve = Usage::from([(Name::from("tokens"), 100)]);
    let turns = |entry| {
        let world = World::in_memory(Plot::new(1, 0, "001"));
        let (key, action) = action(4, entry, "verify.run", &[("task", "001")]);
        world.turns(&key, &action, &reserve)
    };
    assert_eq!(turns(5), turns(50));
    assert!(turns(5).iter().all(|turn| turn[&Name::from("tokens")] <= 100));
}
