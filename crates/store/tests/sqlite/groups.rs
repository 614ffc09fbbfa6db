//! Group commit: who goes into one transaction, and what a failure does to all who were in it.

use std::fs::File;
use std::sync::Mutex;
use std::thread;

use ftl_store::{ContentDigest, SqliteStore, Store as _, StoreError};
use rusqlite::ffi;
use rustix::fs::{FlockOperation, flock};

use crate::support::{Place, add, assert_whole, lines, name, wait_until};

/// How many requests go into one transaction, and how many may wait; see `writer.rs`.
const MAX_GROUP: u64 = 256;
const MAX_WAITING: u64 = 1024;

/// Makes requests while the store's lock is held by somebody else, so that all of them wait; then lets
/// go. What each was told, and how many transactions it took.
fn together<T: Send>(
    place: &Place,
    store: &SqliteStore,
    requests: u64,
    request: impl Fn(u64) -> Result<T, StoreError> + Sync,
) -> (Vec<Result<T, StoreError>>, u64) {
    let lock = File::open(place.file("write.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let (asked, commits) = (store.count_requests(), store.commits());
    let told = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for n in 0..requests {
            let (told, request) = (&told, &request);
            let ask = move || {
                let answer = request(n);
                told.lock().unwrap().push((n, answer));
            };
            thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, ask).unwrap();
        }
        // One is in the writer's hand while the others wait; the rest waits to wait.
        let all = requests.min(MAX_WAITING + 1);
        wait_until("all requests to wait", || store.count_requests() - asked == all);
        assert!(told.lock().unwrap().is_empty(), "nobody is answered before the lock is free");
        flock(&lock, FlockOperation::Unlock).unwrap();
    });
    let mut told = told.into_inner().unwrap();
    told.sort_by_key(|(n, _)| *n);
    (told.into_iter().map(|(_, answer)| answer).collect(), store.commits() - commits)
}

#[test]
fn all_who_wait_go_into_one_transaction() {
    let place = Place::new();
    let store = place.open();
    let leases: Vec<_> = (0..64).map(|n| add(&store, n)).collect();
    let (told, commits) = together(&place, &store, 64, |n| store.append(&leases[n as usize], lines([1])));
    assert!(told.iter().all(Result::is_ok), "{told:?}");
    assert_eq!(commits, 1);
    for lease in &leases {
        assert_eq!(assert_whole(&store, &lease.run), 1);
    }
}

#[test]
fn a_group_has_a_most_and_so_has_the_queue() {
    let place = Place::new();
    let store = place.open();
    add(&store, 1);
    let requests = MAX_WAITING + 1 + 50;
    let (told, commits) = together(&place, &store, requests, |n| store.send(&name(1), &n.to_string()));
    assert!(told.iter().all(Result::is_ok));
    assert!(commits >= requests.div_ceil(MAX_GROUP), "{commits} transactions");
    assert_eq!(store.pending(&name(1)).unwrap().len() as u64, requests);
}

#[test]
fn a_heavy_group_takes_no_more() {
    let place = Place::new();
    let store = place.open();
    add(&store, 1);
    let heavy = |n: u64| store.put(&vec![n as u8; 5 * 1024 * 1024]);
    let (told, commits) = together(&place, &store, 3, heavy);
    assert!(told.iter().all(Result::is_ok));
    assert_eq!(commits, 2, "two are more than 8 MiB, the third goes alone");
}

#[test]
fn a_refused_request_does_not_hurt_the_others() {
    let place = Place::new();
    let store = place.open();
    let old = add(&store, 1);
    let lease = store.take(&name(1), 1, "second").unwrap();
    let fine: Vec<_> = (10..20).map(|n| add(&store, n)).collect();
    let (told, commits) = together(&place, &store, 13, |n| match n {
        0 => store.append(&old, lines([1])),
        1 => store.append(&lease, lines([5])),
        2 => store.send(&name(99), "{}").map(drop),
        n => store.append(&fine[n as usize - 3], lines([1, 2])),
    });
    assert_eq!(told[0], Err(StoreError::Fenced { run: name(1), epoch: 2 }));
    assert_eq!(told[1], Err(StoreError::Gap { due: 1, came: 5 }));
    assert_eq!(told[2], Err(StoreError::NoRun(name(99))));
    assert!(told[3..].iter().all(Result::is_ok), "{told:?}");
    assert_eq!(commits, 1);
    assert_eq!(assert_whole(&store, &name(1)), 0);
    for lease in &fine {
        assert_eq!(assert_whole(&store, &lease.run), 2);
    }
}

#[test]
fn one_run_is_written_by_one_of_two_in_the_same_group() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    let (told, commits) = together(&place, &store, 8, |_| store.append(&lease, lines([1])));
    assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1, "{told:?}");
    let refused = told.iter().filter(|told| **told == Err(StoreError::Gap { due: 2, came: 1 }));
    assert_eq!(refused.count(), 7);
    assert_eq!((commits, assert_whole(&store, &name(1))), (1, 1));
}

#[test]
fn a_commit_that_fails_answers_nobody_with_success() {
    let place = Place::new();
    let store = place.open();
    let leases: Vec<_> = (0..16).map(|n| add(&store, n)).collect();
    store.inject(ffi::SQLITE_IOERR_FSYNC, 1);
    let (told, commits) = together(&place, &store, 16, |n| store.append(&leases[n as usize], lines([1])));
    assert!(told.iter().all(|told| matches!(told, Err(StoreError::Failed(_)))), "{told:?}");
    assert_eq!(commits, 0);
    assert!(leases.iter().all(|lease| assert_whole(&store, &lease.run) == 0), "and nothing is there");
}

#[test]
fn after_a_failed_sync_nothing_is_written_until_the_next_start() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines([1])).unwrap();
    store.inject(ffi::SQLITE_IOERR_FSYNC, 1);
    assert!(matches!(store.append(&lease, lines([2])), Err(StoreError::Failed(_))));

    let commits = store.commits();
    assert!(matches!(store.append(&lease, lines([2])), Err(StoreError::Failed(_))));
    assert!(matches!(store.writable(), Err(StoreError::Failed(_))));
    assert!(matches!(store.send(&name(1), "{}"), Err(StoreError::Failed(_))));
    assert!(matches!(store.put(b"content"), Err(StoreError::Failed(_))));
    assert_eq!(store.commits(), commits);
    assert_eq!(assert_whole(&store, &name(1)), 1, "reading goes on");
    drop(store);

    let store = place.open();
    assert_eq!(store.get(&ContentDigest::of(b"content")), Ok(None));
    store.append(&lease, lines([2])).unwrap();
    assert_eq!(assert_whole(&store, &name(1)), 2);
}

#[test]
fn each_error_of_the_database_has_its_meaning() {
    let place = Place::new();
    let met = |code| {
        let store = place.open();
        // A full disk is tried twice.
        store.inject(code, if code == ffi::SQLITE_FULL { 2 } else { 1 });
        let told = store.put(&code.to_be_bytes()).unwrap_err();
        (told, store.put(b"after").is_ok())
    };
    // A full disk and a store that may not be written can become well again; the others cannot.
    assert!(matches!(met(ffi::SQLITE_FULL), (StoreError::Full(_), true)));
    for code in [ffi::SQLITE_READONLY, ffi::SQLITE_READONLY_DIRECTORY, ffi::SQLITE_PERM] {
        assert!(matches!(met(code), (StoreError::ReadOnly(_), true)), "{code}");
    }
    for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CORRUPT_INDEX, ffi::SQLITE_CONSTRAINT] {
        assert!(matches!(met(code), (StoreError::Corrupt(_), false)), "{code}");
    }
    for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_READ, ffi::SQLITE_NOMEM] {
        assert!(matches!(met(code), (StoreError::Failed(_), false)), "{code}");
    }
    // Somebody with another tool held the database: nothing is wrong with it.
    assert!(matches!(met(ffi::SQLITE_BUSY), (StoreError::Failed(_), true)));
}

#[test]
fn when_the_disk_is_full_those_who_fit_are_written() {
    let place = Place::new();
    let store = place.open();
    add(&store, 1);
    // The group does not fit, then one of the four does not.
    store.inject(ffi::SQLITE_FULL, 2);
    let (told, commits) = together(&place, &store, 4, |n| store.send(&name(1), &n.to_string()));
    assert_eq!(told.iter().filter(|told| matches!(told, Err(StoreError::Full(_)))).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 3, "{told:?}");
    assert_eq!((commits, store.pending(&name(1)).unwrap().len()), (3, 3));
    assert!(store.send(&name(1), "when there is room again").is_ok());
}

#[test]
fn the_log_stays_small() {
    let place = Place::new();
    let store = place.open();
    let mebi = 1024 * 1024;
    let log = || place.file("ftl.db-wal").metadata().unwrap().len();
    for n in 0..24_u8 {
        store.put(&vec![n; mebi]).unwrap();
    }
    assert!(log() < 12 * mebi as u64, "{} bytes after 24 MiB", log());
    store.put(&vec![99; 40 * mebi]).unwrap();
    store.put(b"the next transaction begins a new log").unwrap();
    store.put(b"and so on").unwrap();
    assert!(log() <= 16 * mebi as u64, "{} bytes after a large one", log());
}

#[test]
fn a_store_that_is_dropped_has_finished_what_was_asked() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines([1])).unwrap();
    store.version().unwrap();
    assert!(place.file("ftl.db-wal").exists());
    drop(store);
    assert!(!place.file("ftl.db-wal").exists(), "the last one brings the log into the database");
    assert!(!place.file("ftl.db-shm").exists());
    assert_eq!(assert_whole(&place.open(), &name(1)), 1);
}
