//! The write-ahead log: a power cut is its end, damage is not.
//!
//! The heads are left out here: the log alone must tell. Every log is one that SQLite wrote.

use std::fs;

use ftl_store::{Lease, SqliteStore, Store as _, StoreError};

use crate::support::{Place, add, assert_whole, lines, name};

/// How many transactions may stand in the log that are not synced, besides the last one; see `pen.rs`.
const MAX_UNSYNCED: usize = 3;

/// How many bytes of a disk are written at once.
const SECTOR: usize = 512;

/// Random numbers with a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// A store that was killed while it had a log: its files, and how long the log was after each commit.
struct Killed {
    database: Vec<u8>,
    log: Vec<u8>,
    ends: Vec<usize>,
    lease: Lease,
    entries: u64,
}

/// Writes transactions of different sizes and looks at the files before anybody tidies up.
fn killed(sizes: &[u64]) -> Killed {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    let mut ends = vec![log_bytes(&place)];
    let mut entries = 0;
    for size in sizes {
        store.append(&lease, lines(entries + 1..=entries + size)).unwrap();
        entries += size;
        ends.push(log_bytes(&place));
    }
    let (database, log) = (fs::read(place.file("ftl.db")).unwrap(), log_of(&place));
    Killed { database, log, ends, lease, entries }
}

fn log_bytes(place: &Place) -> usize {
    log_of(place).len()
}

/// The log without the room behind its frames.
fn log_of(place: &Place) -> Vec<u8> {
    let mut log = fs::read(place.file("ftl.db-wal")).unwrap();
    log.truncate(frames_end(&log));
    log
}

/// Where the last frame ends that is not all zeros.
fn frames_end(log: &[u8]) -> usize {
    let written = log.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    32 + written.saturating_sub(32).div_ceil(24 + 4096) * (24 + 4096)
}

impl Killed {
    /// The same store with another log, and without heads.
    fn with_log(&self, log: &[u8]) -> Place {
        let place = Place::new();
        fs::create_dir(place.store()).unwrap();
        fs::write(place.file("ftl.db"), &self.database).unwrap();
        fs::write(place.file("ftl.db-wal"), log).unwrap();
        place
    }
}

/// Opens a store after a power cut: it can be written, and has at least so many entries.
fn goes_on(killed: &Killed, log: &[u8], least: u64, what: &str) {
    let place = killed.with_log(log);
    let store = place.open();
    let left = assert_whole(&store, &name(1));
    assert!(left >= least, "{what}: {left} of {least}");
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new(), "{what}");
    store.append(&killed.lease, lines([left + 1])).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(assert_whole(&store, &name(1)), left + 1, "{what}");
}

/// Opens a damaged store: it is read, and not written.
fn is_refused(killed: &Killed, log: &[u8], what: &str) {
    let place = killed.with_log(log);
    let store = SqliteStore::open_existing(&place.store()).unwrap().unwrap();
    let problems = store.verify().unwrap().problems;
    assert!(
        problems.iter().any(|line| line.contains("the log is damaged") || line.contains("header of the log")),
        "{what}: {problems:?}"
    );
    store.runs("").unwrap();
    let wrote = store.append(&killed.lease, lines([1]));
    assert!(matches!(&wrote, Err(StoreError::Lost(_))), "{what}: {wrote:?}");
    assert!(matches!(store.writable(), Err(StoreError::Lost(_))), "{what}");
    drop(store);
    assert_eq!(fs::read(place.file("ftl.db-wal")).unwrap(), log, "{what}: the log is left as it was");
}

#[test]
fn a_power_cut_in_the_last_transaction_is_the_end_of_the_log() {
    let mut dice = Dice(0x5eed_0001);
    for sizes in [&[3, 1, 2, 200][..], &[1, 1, 1, 1, 1], &[40, 1], &[1, 300]] {
        let killed = killed(sizes);
        let (start, end) = (killed.ends[killed.ends.len() - 2], killed.log.len());
        let least = killed.entries - sizes[sizes.len() - 1];
        for case in 0..12 {
            // Any sectors of the last transaction are not there, the others are; or the file ends early.
            let mut log = killed.log.clone();
            let first = start.div_ceil(SECTOR);
            for sector in first..end.div_ceil(SECTOR) {
                if dice.below(100) < 10 + case * 7 {
                    let to = (sector * SECTOR + SECTOR).min(end);
                    log[sector * SECTOR..to].fill(0);
                }
            }
            goes_on(&killed, &log, least, &format!("holes, {sizes:?}, case {case}"));
            let cut = start + dice.below(end - start);
            goes_on(&killed, &killed.log[..cut], least, &format!("cut at {cut}, {sizes:?}"));
        }
    }
}

#[test]
fn a_power_cut_in_what_was_not_synced_is_the_end_of_the_log() {
    let mut dice = Dice(0x5eed_0003);
    for sizes in [&[3, 1, 2, 2, 200, 1][..], &[1, 1, 1, 1, 1], &[40, 1, 30, 1, 1]] {
        let killed = killed(sizes);
        let lost = sizes.len().min(MAX_UNSYNCED + 1);
        let (start, end) = (killed.ends[killed.ends.len() - 1 - lost], killed.log.len());
        let least = killed.entries - sizes[sizes.len() - lost..].iter().sum::<u64>();
        for case in 0..24 {
            // Any sectors of these are not there, the others are.
            let mut log = killed.log.clone();
            for sector in start.div_ceil(SECTOR)..end.div_ceil(SECTOR) {
                if dice.below(100) < 1 + case * 4 {
                    let to = (sector * SECTOR + SECTOR).min(end);
                    log[sector * SECTOR..to].fill(0);
                }
            }
            goes_on(&killed, &log, least, &format!("holes, {sizes:?}, case {case}"));
        }
    }
}

#[test]
fn room_behind_the_frames_is_no_damage_and_hides_none() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    for seq in 1..=60 {
        store.append(&lease, lines([seq])).unwrap();
    }
    let (database, log) =
        (fs::read(place.file("ftl.db")).unwrap(), fs::read(place.file("ftl.db-wal")).unwrap());
    let end = frames_end(&log);
    assert!(log.len() >= end + 4120, "there is room behind {end} of {}", log.len());
    let killed = Killed { database, log, ends: Vec::new(), lease, entries: 60 };
    goes_on(&killed, &killed.log, 60, "room");
    goes_on(&killed, &killed.log[..end], 60, "without room");
    let mut log = killed.log.clone();
    log[end / 2] ^= 1;
    is_refused(&killed, &log, "a flipped bit before room");
}

#[test]
fn what_a_killed_writer_left_behind_the_end_is_no_damage() {
    let base = killed(&[2, 1, 1]);
    let branch = |size: u64| {
        let place = base.with_log(&base.log);
        let store = place.open();
        store.append(&base.lease, lines(base.entries + 1..=base.entries + size)).unwrap();
        log_of(&place)
    };
    // Both went on from the same log; the long one was killed before anybody saw it.
    let (long, longer, short) = (branch(150), branch(400), branch(1));
    assert!(short.len() < long.len() && long.len() < longer.len());
    let mut log = short.clone();
    log.extend_from_slice(&long[short.len()..]);
    goes_on(&base, &log, base.entries + 1, "one left over");
    log.extend_from_slice(&longer[long.len()..]);
    goes_on(&base, &log, base.entries + 1, "two left over");
}

#[test]
fn frames_of_an_earlier_round_are_no_damage() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=500)).unwrap();
    // Everything is in the database; the next one begins the log anew, over the old frames.
    place.raw().query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0)).unwrap();
    store.append(&lease, lines([501])).unwrap();
    let log = fs::read(place.file("ftl.db-wal")).unwrap();
    let killed = Killed {
        database: fs::read(place.file("ftl.db")).unwrap(),
        log,
        ends: Vec::new(),
        lease,
        entries: 501,
    };
    goes_on(&killed, &killed.log, 501, "an earlier round");
}

#[test]
fn damage_before_the_last_transactions_is_found_by_the_log_alone() {
    let killed = killed(&[5, 1, 60, 1, 2, 1, 1, 30, 1, 1, 2, 1, 1]);
    // A power cut may damage the last one and those before it that need not be synced, and each can be told by two more.
    let safe = killed.ends[killed.ends.len() - 4 - MAX_UNSYNCED];
    let mut dice = Dice(0x5eed_0002);
    let mut cases: Vec<usize> = (0..60).map(|_| 32 + dice.below(safe - 32)).collect();
    // Every part of the header of the log and of the first frame.
    cases.extend(0..56);
    for at in cases {
        let mut log = killed.log.clone();
        log[at] ^= 1 << dice.below(8);
        is_refused(&killed, &log, &format!("a flipped bit at {at} of {}", log.len()));
    }
    for _ in 0..10 {
        let at = dice.below(safe - SECTOR);
        let mut log = killed.log.clone();
        log[at..at + SECTOR].fill(0xa5);
        is_refused(&killed, &log, &format!("garbage at {at}"));
    }
}

#[test]
fn a_log_that_nobody_touched_is_whole() {
    let killed = killed(&[5, 1, 60, 1, 2]);
    goes_on(&killed, &killed.log, killed.entries, "untouched");
}
