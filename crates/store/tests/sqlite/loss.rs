//! Loss: a store that is behind its heads, edits by other tools, and how a person goes on.

use std::fs;
use std::path::Path;

use ftl_store::sqlite::StoreEvent;
use ftl_store::{
    Append, ContentDigest, FORMAT, Lease, NewEntry, Notebook as _, SqliteStore, Store as _, StoreError,
    verify_chain,
};
use ftl_testkit::faults::{Call, Faults, counted};

use crate::support::{Place, add, assert_whole, child, lines, name, read_child_order};

/// Something that is done to a store, or to a file of it.
type Deed<T> = fn(&T);

/// A store with something in every table, closed.
fn filled() -> (Place, Lease) {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    let other = add(&store, 2);
    let content = vec![3; 5000];
    let body =
        format!("{{\"seq\":1,\"big\":{{\"$content\":\"{}\",\"bytes\":5000}}}}", ContentDigest::of(&content));
    let append = Append {
        lines: vec![NewEntry { seq: 1, body }],
        content: vec![(ContentDigest::of(&content), content)],
        ..Append::default()
    };
    store.append(&lease, append).unwrap();
    store.append(&lease, lines(2..=20)).unwrap();
    store.append(&other, lines(1..=5)).unwrap();
    store.send(&name(1), "{\"order\":1}").unwrap();
    store.amend(&mut |notes| notes.put("campaign", "now", "{\"a\":1}").map(|()| true)).unwrap();
    learn(&store, "first");
    let lease = store.take(&name(1), 1, "another").unwrap();
    drop(store);
    (place, lease)
}

/// A lesson as the crate of the lessons keeps it, with a row in the index of words.
fn learn(store: &SqliteStore, word: &str) {
    let kept: Result<Result<(), ()>, StoreError> = store.change(|open| {
        open.execute(
            "INSERT INTO lesson (kind, name, fingerprint, value, wordless, quarantine, body)
             VALUES (1, ?1, 7, 0.5, 0, NULL, '{}')",
            [word],
        )?;
        let id = open.last_insert_rowid();
        open.execute(
            "INSERT INTO lesson_words (rowid, happens, rest) VALUES (?1, ?2, 'more words')",
            (id, word),
        )?;
        open.execute(
            "INSERT OR REPLACE INTO lesson_vectors (chunk, body) VALUES (0, ?1)",
            [word.as_bytes()],
        )?;
        Ok(Ok(()))
    });
    kept.unwrap().unwrap();
}

fn problems(place: &Place) -> Vec<String> {
    let store = SqliteStore::open_existing(&place.store()).unwrap().unwrap();
    let mut found = store.verify().unwrap().problems;
    for row in store.runs("").unwrap() {
        found.extend(verify_chain(&store, &row.run).unwrap().broken.map(|broken| broken.what));
    }
    found
}

/// A copy of all files of a store that has just been closed.
fn copy(from: &Place) -> Place {
    let to = Place::new();
    fs::create_dir(to.store()).unwrap();
    for file in fs::read_dir(from.store()).unwrap().map(|file| file.unwrap().path()) {
        fs::copy(&file, to.file(file.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    to
}

fn write(store: &SqliteStore) -> Result<u64, StoreError> {
    store.send(&name(2), "{}")
}

#[test]
fn a_store_that_nobody_touched_has_no_problems() {
    let (place, _) = filled();
    assert_eq!(problems(&place), Vec::<String>::new());
    let store = place.open();
    assert_eq!(store.verify().unwrap().events, Vec::new());
    for round in 0..3 {
        learn(&store, &format!("word {round}"));
        store.amend(&mut |notes| notes.put("campaign", "now", &format!("{round}")).map(|()| true)).unwrap();
        write(&store).unwrap();
        assert_eq!(store.verify().unwrap().problems, Vec::<String>::new(), "round {round}");
    }
    store.amend(&mut |notes| notes.remove("campaign", "now").map(|()| false)).unwrap();
    store.amend(&mut |notes| notes.remove("campaign", "now").map(|()| true)).unwrap();
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
}

#[test]
fn every_edit_by_other_tools_is_found_and_stays_found() {
    let edits = [
        ("all runs", "PRAGMA foreign_keys = OFF; DELETE FROM runs"),
        ("one run", "PRAGMA foreign_keys = OFF; DELETE FROM runs WHERE number = 2"),
        ("all content", "PRAGMA foreign_keys = OFF; DELETE FROM content"),
        ("a note edited", "UPDATE notes SET body = '{\"a\":2}'"),
        ("notes dropped", "DELETE FROM notes"),
        ("a note added", "INSERT INTO notes VALUES ('campaign', 'other', '{}')"),
        ("a lesson edited", "UPDATE lesson SET body = '{\"x\":1}'"),
        ("lessons dropped", "DELETE FROM lesson"),
        ("vectors edited", "UPDATE lesson_vectors SET body = x'00'"),
        ("index of words emptied", "DELETE FROM lesson_words_docsize"),
        ("a setting of lessons added", "INSERT INTO lesson_setting VALUES ('a', 'b')"),
        ("an epoch set back", "UPDATE runs SET epoch = 1 WHERE number = 1"),
        ("an owner changed", "UPDATE runs SET owner = 'me' WHERE number = 1"),
        ("a summary edited", "UPDATE runs SET summary = '{\"s\":1}'"),
        ("a run ended", "UPDATE runs SET settled = 1"),
        ("orders rewritten", "UPDATE commands SET body = '{\"order\":2}'"),
        ("an order forged", "INSERT INTO commands (run, body) VALUES (1, '{}')"),
        ("an order answered", "UPDATE commands SET reply = 'done'"),
        ("the trigger gone", "DROP TRIGGER entries_are_never_changed"),
        ("a trigger more", "CREATE TRIGGER mine AFTER INSERT ON notes BEGIN DELETE FROM notes; END"),
        ("the sums gone", "DELETE FROM seal"),
        ("the sums emptied", "UPDATE seal SET sums = zeroblob(224)"),
        ("no sums", "UPDATE seal SET sums = x'00'"),
        ("the number set back", "UPDATE seal SET serial = 3"),
        ("the store renamed", "UPDATE meta SET value = '00' WHERE key = 'store'"),
        (
            "a tail cut with its head",
            "DROP TRIGGER entries_are_never_removed; DELETE FROM entries WHERE run = 1 AND seq > 10;
             UPDATE runs SET head = 10, hash = (SELECT hash FROM entries WHERE run = 1 AND seq = 10) WHERE number = 1;
             CREATE TRIGGER entries_are_never_removed BEFORE DELETE ON entries
BEGIN SELECT raise(ABORT, 'entries are never removed'); END;",
        ),
    ];
    let (sound, _) = filled();
    for (what, edit) in edits {
        let place = copy(&sound);
        place.raw().execute_batch(edit).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = problems(&place);
        assert!(!found.is_empty(), "{what} is not found");
        // Whether or not writing is refused, what is written later does not cover it.
        let store = place.open();
        let _ = write(&store);
        drop(store);
        assert!(!problems(&place).is_empty(), "{what} is not found any more");
    }
}

#[test]
fn a_store_that_is_behind_its_heads_is_read_and_not_written() {
    let (place, lease) = filled();
    let before = copy(&place);
    let store = place.open();
    store.append(&lease, lines(21..=30)).unwrap();
    drop(store);
    // A backup of the database alone.
    fs::copy(before.file("ftl.db"), place.file("ftl.db")).unwrap();
    let store = place.open();
    assert_eq!(assert_whole(&store, &name(1)), 20, "reading works");
    match store.append(&lease, lines([21])) {
        Err(StoreError::Lost(what)) => assert!(what.contains("entries 21 to 30 are gone"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(write(&store), Err(StoreError::Lost(_))));
    assert!(matches!(store.amend(&mut |_| Ok(true)), Err(StoreError::Lost(_))));
    let found = store.verify().unwrap().problems;
    assert!(found.iter().any(|line| line.contains("run") && line.contains("21 to 30")), "{found:?}");
    drop(store);
    // A backup of the whole folder is a store like any other.
    let store = before.open();
    store.append(&lease, lines([21])).unwrap();
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
}

#[test]
fn heads_that_are_behind_say_nothing_against_a_store() {
    let (place, lease) = filled();
    let heads = fs::read(place.file("heads")).unwrap();
    let store = place.open();
    store.append(&lease, lines(21..=30)).unwrap();
    drop(store);
    fs::write(place.file("heads"), heads).unwrap();
    let store = place.open();
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
    store.append(&lease, lines([31])).unwrap();
    assert_eq!(store.verify().unwrap().events, Vec::new(), "nothing had to be made anew");
}

#[test]
fn heads_that_are_missing_or_unreadable_are_made_anew_with_a_note() {
    let (sound, lease) = filled();
    let spoil: [(&str, Deed<Path>); 7] = [
        ("missing", |file| fs::remove_file(file).unwrap()),
        ("empty", |file| fs::write(file, "").unwrap()),
        ("garbage", |file| fs::write(file, "these are no heads").unwrap()),
        ("flipped", |file| {
            let mut bytes = fs::read(file).unwrap();
            bytes[50] ^= 4;
            fs::write(file, bytes).unwrap();
        }),
        ("a folder", |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
            fs::write(file.join("inside"), "").unwrap();
        }),
        ("a link", |file| {
            fs::rename(file, file.with_extension("elsewhere")).unwrap();
            std::os::unix::fs::symlink("heads.elsewhere", file).unwrap();
        }),
        ("a slot flipped", |file| {
            let mut bytes = fs::read(file).unwrap();
            bytes[128 + 20] ^= 4;
            fs::write(file, bytes).unwrap();
        }),
    ];
    for (what, spoil) in spoil {
        let place = copy(&sound);
        spoil(&place.file("heads"));
        let store = place.open();
        let report = store.verify().unwrap();
        assert_eq!((report.problems, report.remarks.len()), (Vec::new(), 1), "{what}");
        store.append(&lease, lines([21])).unwrap();
        let report = store.verify().unwrap();
        assert_eq!((report.problems, report.remarks), (Vec::new(), Vec::new()), "{what}");
        assert!(
            matches!(&report.events[..], [one] if matches!(one.event, StoreEvent::HeadsRenewed { .. })),
            "{what}"
        );
        drop(store);
        assert_eq!(problems(&place), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn the_database_alone_is_not_taken_for_nothing_when_it_is_gone() {
    let (place, _) = filled();
    fs::remove_file(place.file("ftl.db")).unwrap();
    for opened in
        [SqliteStore::open(&place.store()).map(drop), SqliteStore::open_existing(&place.store()).map(drop)]
    {
        assert!(matches!(&opened, Err(StoreError::Lost(what)) if what.contains("ftl.db")), "{opened:?}");
    }
    assert!(!place.file("ftl.db").exists());
    let loss = SqliteStore::accept_loss(&place.store(), "Ada", "it is gone").unwrap().unwrap();
    assert_eq!(loss.runs.len(), 2, "{loss:?}");
    let store = place.open();
    add(&store, 3);
    drop(store);
    assert_eq!(problems(&place), Vec::<String>::new());
}

#[test]
fn the_heads_of_another_store_are_noticed() {
    let ((place, _), (other, _)) = (filled(), filled());
    fs::copy(other.file("heads"), place.file("heads")).unwrap();
    assert!(problems(&place)[0].contains("the heads are those of store"));
    assert!(matches!(write(&place.open()), Err(StoreError::Lost(_))));
}

#[test]
fn a_person_goes_on_after_a_loss_and_it_stays_on_record() {
    let (place, lease) = filled();
    assert_eq!(SqliteStore::accept_loss(&place.store(), "Ada", "why not"), Ok(None), "nothing is lost");
    let before = copy(&place);
    let store = place.open();
    store.append(&lease, lines(21..=30)).unwrap();
    drop(store);
    fs::copy(before.file("ftl.db"), place.file("ftl.db")).unwrap();
    let damaged = fs::read(place.file("ftl.db")).unwrap();

    let loss = SqliteStore::accept_loss(&place.store(), "Ada", "the disk was replaced").unwrap().unwrap();
    assert_eq!((loss.by.as_str(), loss.reason.as_str()), ("Ada", "the disk was replaced"));
    assert_eq!((loss.runs[0].run.clone(), loss.runs[0].had, loss.runs[0].left), (name(1), 30, 20));
    assert_eq!(fs::read(place.store().join(&loss.copies).join("ftl.db")).unwrap(), damaged);
    assert!(place.store().join(&loss.copies).join("heads").exists());

    let store = place.open();
    let report = store.verify().unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(matches!(&report.events[..], [one] if one.event == StoreEvent::LossAccepted(loss)));
    assert!(
        matches!(store.append(&lease, lines([21])), Err(StoreError::Fenced { .. })),
        "older leases are over"
    );
    let row = store.run(&name(1)).unwrap().unwrap();
    assert!(row.epoch > lease.epoch);
    let lease = store.take(&name(1), row.epoch, "next").unwrap();
    store.append(&lease, lines([21])).unwrap();
    assert_eq!(assert_whole(&store, &name(1)), 21);
    drop(store);
    assert_eq!(SqliteStore::accept_loss(&place.store(), "Ada", "again"), Ok(None));
}

#[test]
fn a_store_without_its_own_head_is_still_behind_the_heads_of_its_runs() {
    let (place, lease) = filled();
    let before = copy(&place);
    let store = place.open();
    store.append(&lease, lines(21..=30)).unwrap();
    drop(store);
    fs::copy(before.file("ftl.db"), place.file("ftl.db")).unwrap();
    let mut heads = fs::read(place.file("heads")).unwrap();
    heads[50] ^= 4;
    fs::write(place.file("heads"), heads).unwrap();
    let found = problems(&place);
    assert!(found.iter().any(|line| line.contains("entries 21 to 30 are gone")), "{found:?}");
    assert!(matches!(write(&place.open()), Err(StoreError::Lost(_))));
    let loss = SqliteStore::accept_loss(&place.store(), "Ada", "two faults").unwrap().unwrap();
    assert_eq!((loss.runs[0].had, loss.runs[0].left), (30, 20));
    write(&place.open()).unwrap();
    assert_eq!(problems(&place), Vec::<String>::new());
}

#[test]
fn whoever_takes_a_run_is_not_behind_its_fence() {
    let (place, _) = filled();
    let fences = place.file("fences");
    fs::create_dir(&fences).unwrap();
    let fence = fences.join(name(1).as_str());
    ftl_process::fence::raise(&fence, 9).unwrap();
    let store = place.open();
    let seen = store.run(&name(1)).unwrap().unwrap().epoch;
    let lease = store.take(&name(1), seen, "after a backup was restored").unwrap();
    assert_eq!(lease.epoch, 10);
    let passed = ftl_process::Fence { file: fence, epoch: lease.epoch }.is_passed();
    assert!(!passed.unwrap(), "what it starts is let through");
    assert_eq!(store.take(&name(1), 10, "next").unwrap().epoch, 11);
    assert_eq!(store.take(&name(2), 1, "no fence").unwrap().epoch, 2);
}

#[test]
fn every_refusal_to_write_has_a_way_out() {
    let number = |place: &Place, number: u32| {
        let raw = place.raw();
        raw.pragma_update(None, "user_version", number).unwrap();
        raw.close().unwrap();
    };
    type Damage<'a> = Box<dyn Fn(&Place) + 'a>;
    let damage: [(&str, Damage<'_>); 11] = [
        ("format 1", Box::new(|place| number(place, 1))),
        ("format 2", Box::new(|place| number(place, 2))),
        ("format 7", Box::new(|place| number(place, 7))),
        ("format 0", Box::new(|place| number(place, 0))),
        (
            "format 2 without sums",
            Box::new(|place| {
                place.raw().execute_batch("DROP TABLE seal; PRAGMA user_version = 2").unwrap();
            }),
        ),
        (
            "a backup of format 2",
            Box::new(|place| {
                let heads = fs::read(place.file("heads")).unwrap();
                make_format_2(place);
                fs::write(place.file("heads"), heads).unwrap();
            }),
        ),
        (
            "only a log",
            Box::new(|place| {
                fs::remove_file(place.file("ftl.db")).unwrap();
                fs::remove_file(place.file("heads")).unwrap();
                fs::write(place.file("ftl.db-wal"), vec![1; 9000]).unwrap();
            }),
        ),
        (
            "only heads that say nothing",
            Box::new(|place| {
                fs::remove_file(place.file("ftl.db")).unwrap();
                fs::write(place.file("heads"), vec![1; 300]).unwrap();
            }),
        ),
        (
            "a database that is a folder",
            Box::new(|place| {
                fs::remove_file(place.file("ftl.db")).unwrap();
                fs::create_dir(place.file("ftl.db")).unwrap();
            }),
        ),
        (
            "a database that is a link",
            Box::new(|place| {
                fs::rename(place.file("ftl.db"), place.file("away")).unwrap();
                std::os::unix::fs::symlink("away", place.file("ftl.db")).unwrap();
            }),
        ),
        ("a log that is a folder", Box::new(|place| fs::create_dir(place.file("ftl.db-wal")).unwrap())),
    ];
    let (sound, _) = filled();
    for (what, damage) in damage {
        let place = copy(&sound);
        damage(&place);
        let written = SqliteStore::open(&place.store()).and_then(|store| write(&store));
        assert!(written.is_err(), "{what}: {written:?}");
        let accepted = SqliteStore::accept_loss(&place.store(), "Ada", what);
        assert!(matches!(accepted, Ok(Some(_))), "{what}: {accepted:?}");
        let store = place.open();
        assert_eq!(store.format(), FORMAT, "{what}");
        add(&store, 9);
        drop(store);
        assert_eq!(problems(&place), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_number_of_a_format_that_is_wrong_costs_nothing_but_a_word() {
    for number in [1, 2, 7] {
        let (place, _) = filled();
        let raw = place.raw();
        raw.pragma_update(None, "user_version", number).unwrap();
        raw.close().unwrap();
        let store = place.open();
        assert_eq!(assert_whole(&store, &name(1)), 20, "reading works");
        assert_eq!(store.note("campaign", "now").unwrap().as_deref(), Some("{\"a\":1}"));
        drop(store);
        assert!(problems(&place)[0].contains(&format!("format is {number}")));
        let loss = SqliteStore::accept_loss(&place.store(), "Ada", "a bit").unwrap().unwrap();
        assert_eq!(loss.runs, []);
        assert_eq!(assert_whole(&place.open(), &name(1)), 20);
    }
}

#[test]
fn every_kind_of_damage_can_be_left_behind() {
    let damage: [(&str, Deed<Place>); 9] = [
        ("an entry edited", |place| {
            place.raw().execute_batch("DROP TRIGGER entries_are_never_changed; UPDATE entries SET body = '{}' WHERE run = 1 AND seq = 7").unwrap();
        }),
        ("content gone", |place| place.raw().execute_batch("DELETE FROM content").unwrap()),
        ("content rotten", |place| place.raw().execute_batch("UPDATE content SET bytes = x'00'").unwrap()),
        ("runs gone", |place| {
            place.raw().execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM runs").unwrap();
        }),
        ("lessons edited", |place| place.raw().execute_batch("UPDATE lesson SET body = ''").unwrap()),
        ("epoch set back", |place| place.raw().execute_batch("UPDATE runs SET epoch = 1").unwrap()),
        ("sums gone", |place| place.raw().execute_batch("DELETE FROM seal").unwrap()),
        ("a page of zeros", |place| {
            let mut bytes = fs::read(place.file("ftl.db")).unwrap();
            let at = bytes.len() / 4096 / 2 * 4096;
            bytes[at..at + 4096].fill(0);
            fs::write(place.file("ftl.db"), bytes).unwrap();
        }),
        ("no database any more", |place| fs::write(place.file("ftl.db"), vec![7; 8192]).unwrap()),
    ];
    let (sound, _) = filled();
    for (what, damage) in damage {
        let place = copy(&sound);
        damage(&place);
        let loss = SqliteStore::accept_loss(&place.store(), "Ada", what).unwrap();
        assert!(loss.is_some(), "{what}");
        assert_eq!(problems(&place), Vec::<String>::new(), "{what}");
        let store = place.open();
        assert_eq!(store.check(true), Ok(Vec::new()), "{what}");
        let lease = add(&store, 9);
        store.append(&lease, lines(1..=3)).unwrap();
        learn(&store, "after");
        drop(store);
        assert_eq!(problems(&place), Vec::<String>::new(), "{what}, after writing");
    }
}

/// What a program of the format before left behind.
fn make_format_2(place: &Place) {
    place.drop_guards();
    let raw = place.raw();
    raw.execute_batch("DROP TABLE seal; DROP TABLE events; PRAGMA user_version = 2;").unwrap();
    raw.close().unwrap();
    fs::remove_file(place.file("heads")).unwrap();
}

#[test]
fn a_store_of_the_format_before_gets_its_sums_with_the_first_write() {
    let (place, lease) = filled();
    make_format_2(&place);
    let store = place.open();
    assert_eq!(store.format(), 2);
    let report = store.verify().unwrap();
    assert_eq!((report.problems, report.remarks.len()), (Vec::new(), 1));
    assert_eq!(
        store.note("campaign", "now").unwrap().as_deref(),
        Some("{\"a\":1}"),
        "reading changes nothing"
    );
    assert!(!place.file("heads").exists());
    store.append(&lease, lines([21])).unwrap();
    drop(store);
    let store = place.open();
    assert_eq!(store.format(), FORMAT);
    let report = store.verify().unwrap();
    assert_eq!((report.problems, report.remarks), (Vec::new(), Vec::new()));
    assert!(
        report.events.iter().any(|one| one.event == StoreEvent::Sealed { format: 2 }),
        "{:?}",
        report.events
    );
}

#[test]
fn a_store_that_an_earlier_version_drives_is_left_to_it() {
    let (place, _) = filled();
    make_format_2(&place);
    let owner = ftl_store::owner::Owner::register(&place.file("owners"), "ftl run").unwrap();
    place.raw().execute("UPDATE runs SET owner = ?1 WHERE number = 1", [owner.name()]).unwrap();
    let store = place.open();
    assert!(matches!(write(&store), Err(StoreError::InUse(_))));
    assert_eq!(assert_whole(&store, &name(1)), 20, "reading works");
    drop(owner);
    write(&store).unwrap();
}

#[test]
fn a_program_of_an_earlier_version_that_has_the_store_open_cannot_write_any_more() {
    let (place, lease) = filled();
    make_format_2(&place);
    let old = rusqlite::Connection::open(place.file("ftl.db")).unwrap();
    let writes = [
        "UPDATE runs SET epoch = epoch + 1, owner = 'old' WHERE number = 1",
        "INSERT INTO commands (run, body) VALUES (1, '{}')",
        "INSERT INTO notes (kind, key, body) VALUES ('old', 'old', '{}')",
        "INSERT INTO content (digest, size, bytes) VALUES (zeroblob(32), 0, x'')",
        "DELETE FROM notes",
        "UPDATE lesson SET body = '{}'",
    ];
    let mut prepared: Vec<_> = writes.iter().map(|write| old.prepare(write).unwrap()).collect();
    let store = place.open();
    store.append(&lease, lines([21])).unwrap();
    for (write, statement) in writes.iter().zip(&mut prepared) {
        let refused = statement.execute([]).unwrap_err().to_string();
        assert!(refused.contains("ftl_knows_format_3"), "{write}: {refused}");
    }
    store.append(&lease, lines([22])).unwrap();
    drop(prepared);
    drop(old);
    drop(store);
    assert_eq!(problems(&place), Vec::<String>::new());
}

#[test]
fn a_store_at_which_an_earlier_version_waits_is_left_to_it() {
    let (place, _) = filled();
    make_format_2(&place);
    // It has given its run back while it asks, so that the run has no owner.
    fs::create_dir(place.file("owners")).unwrap();
    let card = place.file("owners").join("00000000000000aa");
    fs::write(&card, r#"{"pid":7,"host":"h","command":"ftl run ask"}"#).unwrap();
    let held = fs::File::open(&card).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let store = place.open();
    let refused = write(&store);
    assert!(matches!(&refused, Err(StoreError::InUse(what)) if what.contains("process 7")), "{refused:?}");
    drop(held);
    write(&store).unwrap();
}

#[test]
fn a_damaged_log_of_the_format_before_is_not_written_over() {
    let (place, lease) = filled();
    make_format_2(&place);
    let raw = place.raw();
    raw.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    for note in 0..6 {
        raw.execute("INSERT INTO notes VALUES ('a', ?1, 'b')", [note.to_string()]).unwrap();
    }
    let other = Place::new();
    fs::create_dir(other.store()).unwrap();
    for file in ["ftl.db", "ftl.db-wal"] {
        fs::copy(place.file(file), other.file(file)).unwrap();
    }
    let mut log = fs::read(other.file("ftl.db-wal")).unwrap();
    log[100] ^= 1;
    fs::write(other.file("ftl.db-wal"), &log).unwrap();
    let store = other.open();
    assert!(matches!(store.append(&lease, lines([21])), Err(StoreError::Lost(_))));
    drop(store);
    assert_eq!(fs::read(other.file("ftl.db-wal")).unwrap(), log);
    SqliteStore::accept_loss(&other.store(), "Ada", "an old log").unwrap().unwrap();
    write(&other.open()).unwrap();
    assert_eq!(problems(&other), Vec::<String>::new());
}

/// How many syncs a process makes that appends so many times.
fn syncs(path: &str, appends: u64) -> u64 {
    let (place, _) = filled();
    let count = place.above().join("count");
    let mut command = child("loss::child_appends", &place.store(), &appends.to_string());
    Faults::of(path).only(&[Call::Sync]).counting(&count).on(&mut command).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    counted(&count).unwrap_or(0)
}

#[test]
fn a_step_syncs_the_log_once_and_nothing_else() {
    let (few, many) = (10, 60);
    assert_eq!(syncs("ftl.db-wal", many) - syncs("ftl.db-wal", few), many - few);
    let all = syncs("/store", many) - syncs("/store", few);
    assert_eq!(all, many - few, "no further sync for a head");
    assert_eq!(syncs("/store/heads", many), syncs("/store/heads", few));
    assert!(syncs("/store/heads", few) >= 2, "when the run changes hands, and at the end");
}

#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_appends() {
    let Some((folder, word)) = read_child_order() else { return };
    let store = SqliteStore::open(&folder).unwrap();
    let lease = store.take(&name(1), 2, "child").unwrap();
    for seq in 21..21 + word.parse::<u64>().unwrap() {
        store.append(&lease, lines([seq])).unwrap();
        // What is kept already changes nothing, and is not synced again.
        store.put(&[3; 5000]).unwrap();
        store.amend(&mut |_| Ok(true)).unwrap();
    }
}
