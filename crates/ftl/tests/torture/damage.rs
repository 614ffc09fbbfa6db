//! Damage from outside: bytes of the store that were cut off or changed behind its back.
//!
//! What can be promised: no panic and no signal, whatever the bytes; what can be read of a damaged log is the
//! beginning of what was written, the audit says that something is missing, and nothing is written until a person
//! has accepted that; damage of the database itself is an error or a broken chain, or it touches nothing that is
//! told. What was acknowledged and stood in the damaged part of the log is lost: no checksum brings it back.

use std::fs;
use std::path::Path;

use ftl_testkit::faults::{Fault, Faults};
use serde_json::Value as Json;

use crate::oracle::{Haul, in_order, only_run};
use crate::stage::{Dice, HAUL, STORE, Stage, each, scale};

/// How a file is damaged.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flipped { at: u64, by: u8 },
    Cut { at: u64 },
}

impl Damage {
    fn inflict(self, file: &Path) {
        let mut bytes = fs::read(file).unwrap();
        match self {
            Damage::Flipped { at, by } => bytes[at as usize] ^= by,
            Damage::Cut { at } => bytes.truncate(at as usize),
        }
        fs::write(file, bytes).unwrap();
    }
}

/// A copy of a whole stage's store in another stage.
fn copy(from: &Stage, to: &Stage) {
    let told = std::process::Command::new("cp")
        .arg("-r")
        .arg(from.path(STORE))
        .arg(to.path(".ftl/"))
        .status()
        .unwrap();
    assert!(told.success());
}

#[test]
fn a_damaged_log_is_cut_and_never_believed() {
    let haul = Haul::unharmed();
    let stage = Stage::new();
    let ended = stage.faulty(&Faults::of(STORE).at(haul.call_at(75), Fault::KilledAfter), &HAUL);
    assert!(ended.is_killed(), "{ended:#?}");
    // A reader would tidy up after the dead: it is only copied.
    let told = Stage::new();
    copy(&stage, &told);
    let run = only_run(&told);
    let journal = told.journal(&run);
    assert!(journal.len() > 40, "{}", journal.len());
    let size = fs::metadata(stage.path(".ftl/store/ftl.db-wal")).unwrap().len();
    assert!(size > 100_000, "the log is where the damage is done: {size}");
    let mut dice = Dice::new(4);
    let cases: Vec<(u64, Damage)> = (0..scale("FTL_FLIPS", 200) / 4)
        .map(|case| {
            let at = dice.below(size);
            let by = 1 << dice.below(8);
            (case, if case % 2 == 0 { Damage::Flipped { at, by } } else { Damage::Cut { at } })
        })
        .collect();
    each(&cases, |(case, damage)| {
        let broken = Stage::new();
        copy(&stage, &broken);
        damage.inflict(&broken.path(".ftl/store/ftl.db-wal"));
        let is_whole = is_a_beginning(&broken, &run, &journal, *damage);
        if case % 5 == 0 {
            let resumed = broken.ftl(&["resume"]).civil();
            if !is_whole {
                assert_ne!(resumed.code, Some(0), "{damage:?}: nothing is written: {resumed:#?}");
                broken.ftl(&["doctor", "--accept-loss", "--reason", "a test"]).code(0);
                broken.ftl(&["resume"]).civil();
            }
            broken.ftl(&["audit", "verify"]).code(0).says(&["whole"]);
        }
    });
}

/// What is left after damage is the beginning of what was written, and the audit says whether it is all of it.
fn is_a_beginning(stage: &Stage, run: &str, whole: &[Json], damage: Damage) -> bool {
    let audit = stage.ftl(&["audit", "verify"]).civil();
    let log = stage.ftl(&["log", run, "--json"]).civil();
    if log.code != Some(0) {
        assert!(log.err.contains("no run"), "{damage:?}: {log:#?}");
        assert_eq!(audit.code, Some(6), "{damage:?}: {audit:#?}");
        return false;
    }
    let left = log.json_lines();
    assert!(left.len() <= whole.len(), "{damage:?}");
    assert_eq!(left[..], whole[..left.len()], "{damage:?}");
    in_order(&left);
    let is_whole = left.len() == whole.len();
    assert!(is_whole || audit.code == Some(6), "{damage:?}: {audit:#?}");
    is_whole && audit.code == Some(0)
}

#[test]
fn a_damaged_database_is_never_taken_for_whole() {
    let stage = Stage::new();
    stage.ftl(&HAUL).code(0);
    let run = only_run(&stage);
    // The last writer has brought everything into the database; a reader leaves an empty log.
    let log = stage.ftl(&["log", &run, "--json"]).code(0).out;
    let audit = stage.ftl(&["audit", "verify", "--json"]).code(0).out;
    let original = fs::read(stage.path(".ftl/store/ftl.db")).unwrap();
    assert_eq!(fs::metadata(stage.path(".ftl/store/ftl.db-wal")).map_or(0, |found| found.len()), 0);
    let mut dice = Dice::new(5);
    let cases: Vec<Damage> = (0..scale("FTL_FLIPS", 200))
        .map(|_| Damage::Flipped { at: dice.below(original.len() as u64), by: 1 << dice.below(8) })
        .collect();
    each(&cases, |damage| {
        let broken = Stage::new();
        copy(&stage, &broken);
        damage.inflict(&broken.path(".ftl/store/ftl.db"));
        let told = broken.ftl(&["audit", "verify", "--json"]).civil();
        let shown = broken.ftl(&["log", &run, "--json"]).civil();
        if told.code == Some(0) {
            assert_eq!(told.out, audit, "{damage:?} is taken for whole");
            assert!(shown.code != Some(0) || shown.out == log, "{damage:?}: another journal is whole");
        }
        broken.ftl(&["status"]).civil();
    });
}
