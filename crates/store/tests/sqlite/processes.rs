//! Many processes at once, and processes that are killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Output};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use ftl_store::{Append, Lease, SqliteStore, Store, StoreError};

use crate::support::{Place, add, assert_whole, child, lines, name, read_child_order};

const PROCESSES: u64 = 24;
const TURNS: u64 = 8;

/// The run that all of them want.
const SHARED: u64 = 1000;

#[test]
fn many_processes_write_at_once_and_nothing_is_lost() {
    let place = Place::new();
    let store = place.open();
    add(&store, SHARED);
    let children: Vec<Child> = (0..PROCESSES)
        .map(|n| {
            let test = "processes::child_takes_part";
            child(test, &place.store(), &n.to_string()).spawn().unwrap()
        })
        .collect();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let mut shared = Vec::new();
    for output in &outputs {
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
        shared.extend(told.lines().filter_map(|line| line.strip_prefix("wrote ")?.parse::<u64>().ok()));
    }
    shared.sort_unstable();
    assert_eq!(shared, (1..=PROCESSES * TURNS).collect::<Vec<_>>(), "each entry was acknowledged once");
    assert_eq!(assert_whole(&store, &name(SHARED)), PROCESSES * TURNS);
    let epochs = store.entries(&name(SHARED), 0, usize::MAX).unwrap();
    assert!(epochs.is_sorted_by_key(|record| record.epoch), "an old lease wrote after a newer one");
    assert!(store.pending(&name(SHARED)).unwrap().is_empty(), "every command was answered");
    for n in 0..PROCESSES {
        assert_eq!(assert_whole(&store, &name(n)), TURNS);
    }
    assert_eq!(store.check(true), Ok(Vec::new()));
}

/// Writes a run of its own, sends commands to the shared one, takes it, writes it, answers what waits.
#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_takes_part() {
    let Some((folder, word)) = read_child_order() else { return };
    let n: u64 = word.parse().unwrap();
    let store = SqliteStore::open(&folder).unwrap();
    let own = add(&store, n);
    for turn in 1..=TURNS {
        store.append(&own, lines([turn])).unwrap();
        let command = store.send(&name(SHARED), &format!("from {n}")).unwrap();
        while !take_and_write(&store, n) {}
        answer_all(&store, n, command);
        store.runs("").unwrap();
    }
}

fn take(store: &SqliteStore, n: u64) -> Option<Lease> {
    let seen = store.run(&name(SHARED)).unwrap().unwrap();
    not_fenced(store.take(&name(SHARED), seen.epoch, &format!("process {n}")))
}

fn take_and_write(store: &SqliteStore, n: u64) -> bool {
    let Some(lease) = take(store, n) else { return false };
    let due = store.run(&name(SHARED)).unwrap().unwrap().head + 1;
    let wrote = not_fenced(store.append(&lease, lines([due]))).is_some();
    if wrote {
        eprintln!("wrote {due}");
    }
    wrote
}

/// Until its own command has an answer, from whomever.
fn answer_all(store: &SqliteStore, n: u64, own: u64) {
    while store.reply(own).unwrap().is_none() {
        let Some(lease) = take(store, n) else { continue };
        for command in store.pending(&name(SHARED)).unwrap() {
            let answered = Some((command.id, format!("{} by {n}", command.body)));
            match store.append(&lease, Append { answered, ..Append::default() }) {
                Ok(()) | Err(StoreError::Answered(_)) => {}
                Err(StoreError::Fenced { .. }) => break,
                Err(error) => panic!("process {n}: {error}"),
            }
        }
    }
    assert_eq!(store.reply(own).unwrap().unwrap().split(" by ").next(), Some(&*format!("from {n}")));
}

/// Being too late is the only thing that may happen to somebody.
fn not_fenced<T>(told: Result<T, StoreError>) -> Option<T> {
    match told {
        Ok(told) => Some(told),
        Err(StoreError::Fenced { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn many_processes_make_one_store() {
    let place = Place::new();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|n| child("processes::child_makes", &place.store(), &n.to_string()).spawn().unwrap())
        .collect();
    let mut names = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
        names.extend(told.lines().filter_map(|line| Some(line.strip_prefix("name ")?.to_owned())));
    }
    let store = place.open();
    assert_eq!(names, vec![store.name().unwrap(); PROCESSES as usize]);
    assert_eq!(store.runs("").unwrap().len() as u64, PROCESSES);
}

#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_makes() {
    let Some((folder, word)) = read_child_order() else { return };
    let store = SqliteStore::open(&folder).unwrap();
    add(&store, word.parse().unwrap());
    eprintln!("name {}", store.name().unwrap());
}

const ROUNDS: u64 = 10;
const WRITERS: u64 = 4;

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let place = Place::new();
    let store = place.open();
    (0..WRITERS).for_each(|n| drop(add(&store, n)));
    drop(store);
    for round in 0..ROUNDS {
        let mut acknowledged = [0; WRITERS as usize];
        for (run, seq) in kill_in_the_middle(&place, round) {
            acknowledged[run as usize] = seq;
        }
        let store = place.open();
        for (n, seq) in (0..).zip(acknowledged) {
            let head = assert_whole(&store, &name(n));
            assert!(head >= seq, "run {n}: {seq} was acknowledged, {head} is there");
        }
        assert_eq!(store.check(false), Ok(Vec::new()));
        // In every second round the next process finds what the killed one left; otherwise this one
        // has tidied up before.
        if round % 2 == 0 {
            add(&store, 1000 + round);
        }
    }
}

/// Starts a process that writes without end and kills it; what it said it had written.
fn kill_in_the_middle(place: &Place, round: u64) -> Vec<(u64, u64)> {
    let mut child =
        child("processes::child_writes_without_end", &place.store(), &round.to_string()).spawn().unwrap();
    let mut acknowledged = Vec::new();
    let read = |line: &str| -> Option<(u64, u64)> {
        let (run, seq) = line.strip_prefix("wrote ")?.split_once(' ')?;
        Some((run.parse().ok()?, seq.parse().ok()?))
    };
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    while acknowledged.len() as u64 <= round * 7 {
        let line = told.next().expect("the child ended by itself");
        acknowledged.extend(read(&line));
    }
    thread::sleep(Duration::from_micros(round * 379 % 2500));
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged.extend(told.filter_map(|line| read(&line)));
    acknowledged
}

#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_writes_without_end() {
    let Some((folder, _)) = read_child_order() else { return };
    let store = SqliteStore::open(&folder).unwrap();
    let say = Mutex::new(());
    thread::scope(|scope| {
        for n in 0..WRITERS {
            let (store, say) = (&store, &say);
            scope.spawn(move || {
                let seen = store.run(&name(n)).unwrap().unwrap();
                let lease = store.take(&name(n), seen.epoch, "killed").unwrap();
                for seq in seen.head + 1.. {
                    store.append(&lease, lines([seq])).unwrap();
                    let _one_at_a_time = say.lock().unwrap();
                    eprintln!("wrote {n} {seq}");
                }
            });
        }
    });
}
