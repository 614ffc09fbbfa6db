//! Disks that are full, may not be written, or fail: nothing is acknowledged that is not kept, what
//! can be read is read, and afterwards it goes on.

use std::collections::BTreeSet;
use std::process::Command;

use ftl_needs::needs;
use ftl_testkit::faults::{Call, Fault, Faults, InjectedFault, counted};

use crate::oracle::{Haul, facts, is_whole, only_run};
use crate::stage::{HAUL, ProcessOutcome, Running, STORE, Stage, each, printed, scale};

/// The log of the database: a commit is a sync of it.
const LOG: &str = ".ftl/store/ftl.db-wal";

/// Points spread over all calls of one kind of a haul that is left alone.
fn points(faults: &Faults, most: u64) -> Vec<u64> {
    let stage = Stage::new();
    let count = stage.beside("count");
    stage.faulty(&faults.clone().counting(&count), &HAUL).code(0);
    let calls = counted(&count).unwrap();
    assert!(calls > 20, "{calls}");
    (0..most).map(|point| 1 + point * calls / most).collect()
}

/// Whatever was told before a process ended is in the journal; the run, if there is one.
fn acknowledged(stage: &Stage, ended: &ProcessOutcome) -> Option<String> {
    let told = printed(&ended.out);
    let run = stage.runs().first().and_then(|run| run["run"].as_str().map(str::to_owned));
    if told.is_some() {
        assert_eq!(run, told, "a run that was printed is there");
    }
    let moves = ended.out.lines().filter(|line| line.contains(" → ")).count();
    let written = run.as_ref().map_or(0, |run| facts(&stage.journal(run), "moved").count());
    assert!(written >= moves, "{moves} moves were told, {written} are in the journal");
    run
}

/// Brings a run to its end, or a new one if there is none, and judges it.
fn go_on(haul: &Haul, stage: &Stage, run: Option<String>) {
    let run = match run {
        Some(run) => {
            // What could not even be tried for want of a disk may have been held.
            stage.ftl(&["resume", &run]).code(0);
            run
        }
        None => printed(&stage.ftl(&HAUL).code(0).out).unwrap(),
    };
    haul.judge(stage, &run);
}

#[test]
fn a_full_disk_stops_it_and_room_lets_it_go_on() {
    let haul = Haul::unharmed();
    let full = Faults::of(STORE).except("ftl.db.new").only(&Call::NEED_ROOM);
    let log = Faults::of(LOG).only(&[Call::Write]);
    let most = scale("FTL_KILLS", 40) / 4;
    let from_now_on = Fault::FromNowOn(InjectedFault::Full);
    let mut cases: Vec<Faults> =
        points(&full, most).into_iter().map(|number| full.clone().at(number, from_now_on)).collect();
    let once = points(&log, most / 2).into_iter();
    cases.extend(once.map(|number| log.clone().at(number, Fault::Once(InjectedFault::Full))));
    each(&cases, |faults| {
        let stage = Stage::new();
        let ended = stage.faulty(faults, &HAUL).civil();
        if ended.code == Some(0) {
            // What was refused alone was tried again, or everything was kept already.
            return haul.judge(&stage, &printed(&ended.out).unwrap());
        }
        let ended = ended.code(1).says(&["hint:"]);
        assert!(is_told(&ended.err), "{faults:?}: {ended:#?}");
        // The index of the log is made anew by whoever comes first; what the old one held is room.
        reads_work(&stage, &full.clone().except("-shm").at(1, from_now_on));
        let run = acknowledged(&stage, &ended);
        go_on(&haul, &stage, run);
    });
}

/// Whether somebody was told that there is no room. SQLite does not tell why it could not make a file.
fn is_told(err: &str) -> bool {
    ["disk is full", "No space left", "unable to open database file"].iter().any(|word| err.contains(word))
}

/// Whoever only looks is not disturbed.
fn reads_work(stage: &Stage, faults: &Faults) {
    let status = stage.faulty(faults, &["status", "--json"]).code(0).json();
    for run in status["runs"].as_array().unwrap() {
        let run = run["run"].as_str().unwrap();
        stage.faulty(faults, &["log", run]).code(0);
        stage.faulty(faults, &["why", run]).code(0);
        stage.faulty(faults, &["audit", "verify", run]).code(0);
    }
}

#[test]
fn a_disk_that_fails_is_not_believed() {
    let haul = Haul::unharmed();
    let (sync, write) = (Faults::of(LOG).only(&[Call::Sync]), Faults::of(LOG).only(&[Call::Write]));
    let most = scale("FTL_KILLS", 40) / 5;
    let last = |points: &[u64]| points[points.len() * 3 / 4];
    let (syncs, writes) = (points(&sync, most), points(&write, most / 2));
    let (last_sync, last_write) = (last(&syncs), last(&writes));
    let (once, for_ever) = (Fault::Once(InjectedFault::Io), Fault::FromNowOn(InjectedFault::Io));
    let mut cases: Vec<(Faults, bool)> = Vec::new();
    // The first ones are those with which a run is opened.
    for number in (1..=3).chain(syncs).collect::<BTreeSet<u64>>() {
        let late = number >= last_sync;
        cases.extend([once, for_ever].map(|fault| (sync.clone().at(number, fault), late)));
    }
    cases.extend(writes.iter().map(|number| (write.clone().at(*number, once), *number >= last_write)));
    each(&cases, |(faults, late)| {
        let stage = Stage::new();
        let ended = stage.faulty(faults, &HAUL).civil();
        if ended.code == Some(0) {
            // At the very end the log is brought into the database; until that is done it stays.
            assert!(late, "{faults:?} went unnoticed: {ended:#?}");
            return haul.judge(&stage, &printed(&ended.out).unwrap());
        }
        let ended = ended.code(1).says(&["the store failed", "hint:"]);
        assert!(!ended.out.contains(" complete\n"), "no success is told: {ended:#?}");
        let run = acknowledged(&stage, &ended);
        go_on(&haul, &stage, run);
    });
}

/// The store is made under another name and renamed when it is whole. What goes wrong while it is made
/// must not be taken for a success: neither half a store comes of it, nor one without a log.
#[test]
fn a_store_that_is_made_on_a_failing_disk_is_whole_or_not_there() {
    let haul = Haul::unharmed();
    let maker = Faults::of(".ftl/store/ftl.db.new");
    let syncs =
        (1..=12).map(|number| maker.clone().only(&[Call::Sync]).at(number, Fault::Once(InjectedFault::Io)));
    let room = (1..=60)
        .map(|number| maker.clone().only(&Call::NEED_ROOM).at(number, Fault::FromNowOn(InjectedFault::Full)));
    let cases: Vec<Faults> = syncs.chain(room).collect();
    each(&cases, |faults| {
        let stage = Stage::new();
        let ended = stage.faulty(faults, &HAUL).civil();
        let run = acknowledged(&stage, &ended);
        match run {
            Some(run) if ended.code == Some(0) => haul.judge(&stage, &run),
            run => go_on(&haul, &stage, run),
        }
        let head = std::fs::read(stage.path(".ftl/store/ftl.db")).unwrap();
        assert_eq!(head[18..20], [2, 2], "it has a log, whatever went wrong: {faults:?}");
    });
}

#[test]
fn a_store_that_may_not_be_written_is_read() {
    let stage = Stage::new();
    stage.ftl(&HAUL).code(0);
    let run = only_run(&stage);
    let before = stage.journal(&run);
    let fixed = Faults::of(STORE).at(1, Fault::FromNowOn(InjectedFault::ReadOnly));
    reads_work(&stage, &fixed);
    for words in [&HAUL[..], &["stop", &run]] {
        let ended = stage.faulty(&fixed, words).civil();
        let said = ended.err.contains("may not be written") || ended.err.contains("Read-only");
        assert!(ended.code == Some(1) && said && ended.err.contains("hint:"), "{ended:#?}");
    }
    assert_eq!(stage.runs().len(), 1);
    assert_eq!(stage.journal(&run), before);
    is_whole(&stage);
}

/// A shell in namespaces of its own, in which anything may be mounted.
fn in_namespace(stage: &Stage, script: &str) -> ProcessOutcome {
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-euc", script, "sh", env!("CARGO_BIN_EXE_ftl")]);
    command.current_dir(stage.root()).env("HOME", stage.beside("")).env("FTL_BY", "tester");
    command.env("NO_COLOR", "1");
    Running::start(command).end()
}

#[needs(mounts)]
#[test]
fn a_small_disk_that_fills_up_loses_nothing() {
    let haul = Haul::unharmed();
    for size in [160, 320, 480] {
        let stage = Stage::new();
        let script = format!(
            "mkdir -p .ftl/store && mount -t tmpfs -o size={size}k none .ftl/store
            set +e
            $1 run haul 'crates=[\"a\",\"b\",\"c\",\"d\"]' --script haul.toml >out 2>err; echo $? >code
            $1 status --json --all >status; echo $? >>code
            mount -o remount,size=64m .ftl/store || exit 90
            cp -r .ftl/store kept
            umount .ftl/store && cp -r kept/. .ftl/store/"
        );
        let ended = in_namespace(&stage, &script).code(0);
        let told = |name: &str| stage.lines(name).join("\n");
        assert_eq!(stage.lines("code"), ["1", "0"], "{ended:#?} {} {}", told("out"), told("err"));
        assert!(is_told(&told("err")), "{size} KiB: {}", told("err"));
        let full = ProcessOutcome { code: Some(1), signal: None, out: told("out"), err: told("err") };
        let run = acknowledged(&stage, &full);
        go_on(&haul, &stage, run);
    }
}

#[needs(mounts)]
#[test]
fn a_read_only_mount_is_refused_and_read() {
    let stage = Stage::new();
    stage.ftl(&HAUL).code(0);
    let run = only_run(&stage);
    let script = "mount --bind .ftl/store .ftl/store && mount -o remount,ro,bind .ftl/store
        set +e
        $1 run haul 'crates=[\"a\"]' --script haul.toml >out 2>err; echo $? >code
        $1 status >>out 2>>err; echo $? >>code
        $1 log \"$(ls .ftl/store/scripts | sed -n 's/.toml//p')\" >>out 2>>err; echo $? >>code
        $1 audit verify >>out 2>>err; echo $? >>code";
    in_namespace(&stage, script).code(0);
    let err = stage.lines("err").join("\n");
    assert_eq!(stage.lines("code"), ["1", "0", "0", "0"], "{err}");
    let said = err.contains("may not be written") || err.contains("Read-only");
    assert!(said && err.contains("hint:"), "{err}");
    assert_eq!(only_run(&stage), run);
}
