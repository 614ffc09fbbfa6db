//! `kill -9` of the whole process at every journal write and at random instants of a campaign: the same
//! verdicts afterwards, no transition outside the protocol, no effect twice, no meter undercounted.
//!
//! `FTL_KILLS` says how many points are tried; the long form is `just torture`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ftl_testkit::campaign::Campaign;
use ftl_testkit::dice::Dice;
use ftl_testkit::mortal::Death;
use ftl_testkit::world::Plot;

/// Names this process as a player in that folder.
const STAGE: &str = "FTL_STAGE";

/// How many points are tried unless somebody says otherwise.
const POINTS: u64 = 40;

/// How long one player may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Not a test of its own: what a child plays.
#[test]
fn player() {
    let Ok(stage) = std::env::var(STAGE) else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let death = match (number("FTL_BEFORE"), number("FTL_AFTER")) {
        (Some(write), _) => Death::Before(write),
        (None, Some(write)) => Death::After(write),
        (None, None) => Death::Never,
    };
    let (_, writes) = Campaign::open(Path::new(&stage)).play(death);
    std::fs::write(Path::new(&stage).join("writes"), writes.to_string()).unwrap();
}

fn start(stage: &Path, death: Death) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "player", "--nocapture"]).env(STAGE, stage);
    match death {
        Death::Before(write) => child.env("FTL_BEFORE", write.to_string()),
        Death::After(write) => child.env("FTL_AFTER", write.to_string()),
        Death::Never => &mut child,
    };
    child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn finish(mut child: Child) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("a player did not come to an end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Four tasks in a diamond and one that fails beside them.
fn plot() -> Plot {
    Plot::new(11, 300, "001 002<001 003<001 004<002,003 005:direct")
}

struct Baseline {
    outcome: (Option<String>, Vec<String>),
    writes: u64,
    took: Duration,
}

fn baseline() -> Baseline {
    let folder = tempfile::tempdir().unwrap();
    let campaign = Campaign::create(folder.path(), plot()).unwrap();
    let began = Instant::now();
    assert!(finish(start(folder.path(), Death::Never)).success());
    let took = began.elapsed();
    assert_eq!(campaign.check(), Vec::<String>::new());
    let writes = std::fs::read_to_string(folder.path().join("writes")).unwrap().parse().unwrap();
    let outcome = campaign.outcome();
    assert!(outcome.0.is_some(), "the campaign has an end");
    Baseline { outcome, writes, took }
}

fn points() -> u64 {
    std::env::var("FTL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(POINTS)
}

/// Plays on until the campaign has come to its end, and looks at everything.
fn play_on(stage: &Path, expected: &Baseline, what: &str) {
    assert!(finish(start(stage, Death::Never)).success(), "{what}: it does not go on");
    let campaign = Campaign::open(stage);
    assert_eq!(campaign.check(), Vec::<String>::new(), "{what}");
    assert_eq!(campaign.outcome(), expected.outcome, "{what}");
}

#[test]
fn killed_at_any_write_it_comes_to_the_same_end() {
    let expected = baseline();
    let half = points() / 2;
    let write = |index: u64| 1 + index * expected.writes / half.max(1);
    for index in 0..half {
        for death in [Death::Before(write(index)), Death::After(write(index))] {
            let folder = tempfile::tempdir().unwrap();
            Campaign::create(folder.path(), plot()).unwrap();
            let status = finish(start(folder.path(), death));
            // Threads race, so a run may need a write less than the first one.
            assert!(!status.success() || write(index) + 5 > expected.writes, "{death:?} did not happen");
            if index % 4 == 0 {
                // The one that goes on is killed as well.
                finish(start(folder.path(), Death::Before(1 + index % 7)));
            }
            play_on(folder.path(), &expected, &format!("{death:?}"));
        }
    }
}

#[test]
fn killed_at_random_instants_it_comes_to_the_same_end() {
    let expected = baseline();
    let mut dice = Dice::for_name(5, "instants");
    for round in 0..points() / 8 {
        let folder = tempfile::tempdir().unwrap();
        Campaign::create(folder.path(), plot()).unwrap();
        for _ in 0..3 {
            let mut child = start(folder.path(), Death::Never);
            let most = u64::try_from(expected.took.as_micros()).unwrap();
            std::thread::sleep(Duration::from_micros(dice.below(most)));
            let _ = child.kill();
            let _ = child.wait();
        }
        play_on(folder.path(), &expected, &format!("round {round}"));
    }
}
