//! Damage: journals that somebody changed, content that rotted, pages that are garbage.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use ftl_store::{Broken, SqliteStore, Store as _, StoreError, verify_chain};
use rusqlite::Connection;

use crate::support::{Place, add, lines, name};

/// A journal of 2,500 entries, changed by somebody with other tools; what the audit says.
fn audit_after(change: impl FnOnce(&Connection)) -> Option<Broken> {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    let other = add(&store, 2);
    store.append(&lease, lines(1..=2500)).unwrap();
    store.append(&other, lines(1..=10)).unwrap();
    drop(store);
    let raw = place.raw();
    raw.execute_batch(
        "DROP TRIGGER entries_are_never_changed; DROP TRIGGER entries_are_never_removed;
         PRAGMA foreign_keys = OFF;",
    )
    .unwrap();
    change(&raw);
    drop(raw);
    let store = place.open();
    assert_eq!(verify_chain(&store, &name(2)).unwrap().broken, None, "the other run is untouched");
    let report = verify_chain(&store, &name(1)).unwrap();
    if let Some(broken) = &report.broken {
        assert!(report.entries < broken.seq, "{report:?}");
    }
    report.broken
}

fn run(raw: &Connection, statement: &str) {
    assert!(raw.execute(statement, []).unwrap() > 0, "{statement}");
}

fn broken_at(broken: Option<Broken>) -> (u64, String) {
    let broken = broken.expect("the audit found nothing");
    (broken.seq, broken.what)
}

#[test]
fn a_journal_that_nobody_touched_is_whole() {
    assert_eq!(audit_after(|_| ()), None);
}

#[test]
fn an_edited_entry_is_found() {
    let edits = [
        (1, "body = body || ' '"),
        (1000, "body = '{}'"),
        (1001, "epoch = 2"),
        (1002, "hash = zeroblob(32)"),
        (2500, "body = ''"),
    ];
    for (seq, change) in edits {
        let edit = format!("UPDATE entries SET {change} WHERE run = 1 AND seq = {seq}");
        let (at, what) = broken_at(audit_after(|raw| run(raw, &edit)));
        assert_eq!(at, seq, "{change}: {what}");
        assert!(what.contains("not what was written"), "{what}");
    }
}

#[test]
fn a_dropped_entry_is_found() {
    for seq in [1, 1000, 2499] {
        let drop = format!("DELETE FROM entries WHERE run = 1 AND seq = {seq}");
        let (at, what) = broken_at(audit_after(|raw| run(raw, &drop)));
        assert_eq!(at, seq);
        assert!(what.contains("is missing"), "{what}");
    }
}

#[test]
fn a_dropped_entry_whose_hole_was_closed_is_found() {
    let (at, _) = broken_at(audit_after(|raw| {
        run(raw, "DELETE FROM entries WHERE run = 1 AND seq = 700");
        run(raw, "UPDATE entries SET seq = -seq WHERE run = 1 AND seq > 700");
        run(raw, "UPDATE entries SET seq = -seq - 1 WHERE run = 1 AND seq < 0");
        run(raw, "UPDATE runs SET head = 2499 WHERE number = 1");
    }));
    assert_eq!(at, 700);
}

#[test]
fn entries_that_changed_places_are_found() {
    let (at, _) = broken_at(audit_after(|raw| {
        run(raw, "UPDATE entries SET seq = -1 WHERE run = 1 AND seq = 30");
        run(raw, "UPDATE entries SET seq = 30 WHERE run = 1 AND seq = 31");
        run(raw, "UPDATE entries SET seq = 31 WHERE run = 1 AND seq = -1");
    }));
    assert_eq!(at, 30);
}

#[test]
fn entries_of_another_run_are_found() {
    let (at, _) = broken_at(audit_after(|raw| {
        run(raw, "DELETE FROM entries WHERE run = 1");
        run(raw, "INSERT INTO entries SELECT 1, seq, epoch, body, hash FROM entries WHERE run = 2");
        run(
            raw,
            "UPDATE runs SET (head, hash) = (SELECT head, hash FROM runs WHERE number = 2) WHERE number = 1",
        );
    }));
    assert_eq!(at, 1);
}

#[test]
fn a_cut_tail_is_found() {
    let (at, what) =
        broken_at(audit_after(|raw| run(raw, "DELETE FROM entries WHERE run = 1 AND seq > 2000")));
    assert_eq!(at, 2001);
    assert!(what.contains("2001 to 2500 are missing"), "{what}");
    let (at, _) = broken_at(audit_after(|raw| run(raw, "DELETE FROM entries WHERE run = 1")));
    assert_eq!(at, 1);
}

#[test]
fn a_cut_tail_with_a_smaller_head_is_found_by_its_hash() {
    let (at, what) = broken_at(audit_after(|raw| {
        run(raw, "DELETE FROM entries WHERE run = 1 AND seq > 2000");
        run(raw, "UPDATE runs SET head = 2000 WHERE number = 1");
    }));
    assert_eq!(at, 2000);
    assert!(what.contains("hash that the run noted"), "{what}");
    let (at, _) = broken_at(audit_after(|raw| {
        run(raw, "DELETE FROM entries WHERE run = 1");
        run(raw, "UPDATE runs SET head = 0 WHERE number = 1");
    }));
    assert_eq!(at, 1);
}

#[test]
fn entries_beyond_the_head_are_found() {
    let (at, _) = broken_at(audit_after(|raw| {
        run(
            raw,
            "UPDATE runs SET head = 2000, hash = (SELECT hash FROM entries WHERE run = 1 AND seq = 2000) WHERE number = 1",
        );
    }));
    assert_eq!(at, 2001);
}

#[test]
fn what_cannot_be_an_entry_is_damage() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    let raw = place.raw();
    raw.execute_batch("DROP TRIGGER entries_are_never_changed").unwrap();
    run(&raw, "UPDATE entries SET hash = x'00' WHERE seq = 2");
    assert!(matches!(store.entries(&name(1), 0, 10), Err(StoreError::Corrupt(_))));
    assert!(matches!(verify_chain(&store, &name(1)), Err(StoreError::Corrupt(_))));
    run(&raw, "UPDATE runs SET name = 'no name of a run'");
    assert!(matches!(store.runs(""), Err(StoreError::Corrupt(_))));
}

#[test]
fn entries_are_neither_changed_nor_removed() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    let raw = place.raw();
    for statement in ["UPDATE entries SET body = ''", "DELETE FROM entries", "DELETE FROM runs"] {
        assert!(raw.execute(statement, []).is_err(), "{statement}");
    }
    assert_eq!(verify_chain(&store, &name(1)).unwrap().entries, 3);
}

#[test]
fn content_that_rotted_is_not_given_out() {
    let place = Place::new();
    let store = place.open();
    let large = vec![5; 3 * 1024 * 1024];
    let (small, large) = (store.put(b"small").unwrap(), store.put(&large).unwrap());
    assert_eq!(store.check(true), Ok(Vec::new()));
    let raw = place.raw();
    run(&raw, "UPDATE content SET bytes = x'00' WHERE number = 1");
    run(&raw, "DELETE FROM chunks WHERE part = 2");
    for digest in [small, large] {
        assert!(matches!(store.get(&digest), Err(StoreError::Corrupt(_))), "{digest}");
    }
    assert_eq!(store.check(false), Ok(Vec::new()), "a quick look does not read content");
    let found = store.check(true).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|line| line.contains(&small.to_string())), "{found:?}");
}

#[test]
fn a_row_that_belongs_to_nothing_is_found() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines([1])).unwrap();
    let raw = place.raw();
    raw.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM runs").unwrap();
    assert!(!store.check(false).unwrap().is_empty());
}

#[test]
fn pages_of_garbage_are_found_and_never_taken_for_a_store() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=2000)).unwrap();
    drop(store);
    let file = OpenOptions::new().write(true).open(place.file("ftl.db")).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 1..pages {
        file.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
    }
    match SqliteStore::open(&place.store()) {
        Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{error}"),
        Ok(store) => {
            let found = store.check(false);
            assert!(!matches!(&found, Ok(found) if found.is_empty()), "{found:?}");
            let read = store.entries(&name(1), 0, 10);
            assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
            let wrote = store.append(&lease, lines([2001]));
            assert!(matches!(wrote, Err(StoreError::Corrupt(_))), "{wrote:?}");
            assert!(matches!(store.writable(), Err(StoreError::Corrupt(_))), "nothing is written any more");
        }
    }
}
