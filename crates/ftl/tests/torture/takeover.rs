//! Runs whose owner is gone: the next command of a person takes them over, two who want the same run
//! do not both get it, and an owner that comes back finds that it is one no more.

use std::process::Command;

use ftl_testkit::faults::{Fault, Faults};

use crate::oracle::{Haul, alive, facts, in_order, is_whole, only_run};
use crate::stage::{Dice, HAUL, Running, STORE, Stage, each, printed, scale};

/// A desk with a clerk who asks, one without stamps, and one at work for a minute.
const DESK: [&str; 5] = [
    "run",
    "desk",
    "clerks=[{\"name\":\"ann\",\"job\":\"ask\"},{\"name\":\"bob\",\"job\":\"pay\"},{\"name\":\"cy\",\"job\":\"work\"}]",
    "--script",
    "desk.toml",
];

/// An agent that works until a file is there.
const WORKER: &str = "[[scene]]
role = \"coder\"
[[scene.step]]
silent = [\"tokens\", \"money\", \"turns\"]
command = \"echo $FTL_KEY >>begun; until test -e go; do sleep 0.02; done; echo '{\\\"text\\\": \\\"done\\\"}'\"
";

/// A run with a question, a spent meter and an agent at work, whose owner was killed.
fn orphan(stage: &Stage) -> String {
    stage.write("desk.toml", WORKER);
    let mut owner = Running::start(stage.command(&DESK));
    stage.until("the agent works", |stage| stage.lines("begun").len() == 1);
    let run = printed(&owner.read_output()).unwrap();
    stage.until("everybody waits", |stage| stage.status(&run)["waits"].as_array().unwrap().len() == 3);
    assert!(owner.kill().is_killed());
    assert_eq!(stage.status(&run)["standing"], "interrupted");
    stage.write("go", "");
    run
}

/// The instance that waits for something.
fn instance(stage: &Stage, run: &str, what: &str) -> String {
    let status = stage.status(run);
    let waits = status["waits"].as_array().unwrap();
    let found = waits.iter().find(|wait| wait["what"] == what).unwrap_or_else(|| panic!("{waits:#?}"));
    format!("{run}/{}", found["instance"])
}

#[test]
fn a_person_s_command_takes_a_killed_run_over() {
    let stage = Stage::new();
    let run = orphan(&stage);
    // Whoever answers drives the run on until it rests: the agent is asked again and ends.
    let asked = instance(&stage, &run, "question");
    stage.ftl(&["answer", &asked, "red", "--by", "ann"]).code(0);
    assert_eq!(stage.lines("begun").len(), 2);
    assert_eq!(stage.status(&run)["standing"], "held");
    let held = instance(&stage, &run, "held");
    stage.ftl(&["raise", &held, "stamps", "1", "--reason", "one more", "--by", "bob"]).code(0);
    assert_eq!(stage.status(&run)["standing"], "complete");
    let journal = stage.journal(&run);
    in_order(&journal);
    for (fact, by) in [("heard", "ann"), ("raised", "bob")] {
        assert_eq!(facts(&journal, fact).filter(|entry| entry["by"] == by).count(), 1, "{by}");
    }
    is_whole(&stage);
}

#[test]
fn a_raise_takes_a_killed_run_over() {
    let stage = Stage::new();
    let run = orphan(&stage);
    let held = instance(&stage, &run, "held");
    stage.ftl(&["raise", &held, "stamps", "1", "--reason", "one more", "--by", "bob"]).code(0);
    assert_eq!(stage.status(&run)["standing"], "waiting");
    let asked = instance(&stage, &run, "question");
    stage.ftl(&["answer", &asked, "blue"]).code(0);
    assert_eq!(stage.status(&run)["standing"], "complete");
    is_whole(&stage);
}

#[test]
fn an_order_whose_sender_is_killed_is_carried_out_once() {
    let asks = "clerks=[{\"name\":\"ann\",\"job\":\"ask\"}]";
    let points = scale("FTL_KILLS", 40) / 4;
    let cases: Vec<u64> = (0..points).map(|point| 1 + point * 40 / points).collect();
    each(&cases, |number| {
        let stage = Stage::new();
        let run = printed(&stage.ftl(&["run", "desk", asks]).code(3).out).unwrap();
        let asked = instance(&stage, &run, "question");
        let answer = ["answer", &asked, "red", "--by", "ann"];
        let ended = stage.faulty(&Faults::of(STORE).at(*number, Fault::KilledAfter), &answer);
        assert!(ended.is_killed() || ended.code == Some(0), "{ended:#?}");
        let resumed = stage.ftl(&["resume", &run]).civil();
        if resumed.code == Some(3) {
            // It was killed before the order was kept, and nobody was told that it was.
            assert!(ended.is_killed(), "{ended:#?}");
            stage.ftl(&answer).code(0);
        }
        let journal = stage.journal(&run);
        in_order(&journal);
        assert_eq!(facts(&journal, "heard").filter(|entry| entry["by"] == "ann").count(), 1);
        assert_eq!(stage.status(&run)["standing"], "complete", "killed at {number}");
        is_whole(&stage);
    });
}

#[test]
fn of_two_who_resume_one_drives() {
    let haul = Haul::unharmed();
    let mut dice = Dice::new(3);
    let rounds: Vec<u64> = (0..scale("FTL_RACES", 10)).map(|_| haul.call_at(45 + dice.below(35))).collect();
    each(&rounds, |number| {
        let stage = Stage::new();
        let ended = stage.faulty(&Faults::of(STORE).at(*number, Fault::KilledAfter), &HAUL);
        assert!(ended.is_killed(), "{ended:#?}");
        let run = only_run(&stage);
        let before = stage.journal(&run).len();
        let both = [(); 2].map(|()| Running::start(stage.command(&["resume", &run])));
        let ends = both.map(|one| one.end().code(0));
        let journal = stage.journal(&run);
        let epochs: Vec<u64> =
            journal[before..].iter().map(|entry| entry["epoch"].as_u64().unwrap()).collect();
        assert!(epochs.iter().all(|epoch| *epoch == epochs[0] && *epoch > 1), "{epochs:?} {ends:#?}");
        haul.judge(&stage, &run);
    });
}

/// Fifteen seconds of silence pass before a living owner loses its run.
#[test]
fn a_stopped_owner_that_comes_back_is_refused() {
    let stage = Stage::new();
    stage.write("desk.toml", WORKER);
    let work = "clerks=[{\"name\":\"cy\",\"job\":\"work\"}]";
    let mut owner = Running::start(stage.command(&["run", "desk", work, "--script", "desk.toml"]));
    stage.until("the agent works", |stage| stage.lines("begun").len() == 1);
    let run = printed(&owner.read_output()).unwrap();
    signal("STOP", owner.pid());
    let agents = |stage: &Stage| alive(stage, &run).iter().filter(|one| one.contains("begun")).count();
    assert!(agents(&stage) > 0);
    let taker = Running::start(stage.command(&["resume", &run]));
    stage.until("the agent is asked again", |stage| stage.lines("begun").len() == 2);
    let epoch = stage.status(&run)["epoch"].as_u64().unwrap();
    assert_eq!(epoch, 2);
    assert_eq!(agents(&stage), 1, "the agent of the first owner is dead: {:?}", alive(&stage, &run));
    stage.write("go", "");
    taker.end().code(0);
    let before = stage.journal(&run);
    signal("CONT", owner.pid());
    let ended = owner.end().civil();
    assert_ne!(ended.code, Some(0), "it must not call it its own success: {ended:#?}");
    let journal = stage.journal(&run);
    assert_eq!(journal, before, "the old owner has written nothing");
    in_order(&journal);
    assert_eq!(facts(&journal, "settled").count(), 2);
    is_whole(&stage);
}

/// A person's command takes a run from an owner that is stopped, as `ftl resume` does. One that is
/// interrupted before says what became of its order, and whoever drives the run next carries it out.
#[test]
fn an_order_takes_a_run_from_a_stopped_owner() {
    let stage = Stage::new();
    stage.write("desk.toml", WORKER);
    let mut owner = Running::start(stage.command(&DESK));
    stage.until("the agent works", |stage| stage.lines("begun").len() == 1);
    let run = printed(&owner.read_output()).unwrap();
    stage.until("everybody waits", |stage| stage.status(&run)["waits"].as_array().unwrap().len() == 3);
    signal("STOP", owner.pid());
    let (asked, held) = (instance(&stage, &run, "question"), instance(&stage, &run, "held"));
    let waits = |sender: &mut Running| {
        let told = sender.complained();
        let who = format!("run {run} is driven by process {} on ", owner.pid());
        told.contains(&who) && told.contains("; waiting for it to take the order\n")
    };
    let mut given_up = Running::start(stage.command(&["answer", &asked, "red", "--by", "ann", "--json"]));
    stage.until("it says what it waits for", |_| waits(&mut given_up));
    signal("INT", given_up.pid());
    let told = given_up.end().code(130).json();
    assert_eq!((&told["run"], &told["kept"]), (&run.as_str().into(), &true.into()));
    assert_eq!(told["interrupted"], true);
    stage.write("go", "");
    let raise = ["raise", &held, "stamps", "1", "--reason", "one more", "--by", "bob"];
    let mut sender = Running::start(stage.command(&raise));
    stage.until("it says what it waits for", |_| waits(&mut sender));
    // Both orders are carried out, and the run goes on to its end.
    sender.end().code(0);
    assert_eq!(stage.status(&run)["standing"], "complete");
    let before = stage.journal(&run);
    for (fact, by) in [("heard", "ann"), ("raised", "bob")] {
        assert_eq!(facts(&before, fact).filter(|entry| entry["by"] == by).count(), 1, "{by}");
    }
    signal("CONT", owner.pid());
    assert_ne!(owner.end().civil().code, Some(0));
    assert_eq!(stage.journal(&run), before, "the old owner has written nothing");
    is_whole(&stage);
}

fn signal(name: &str, pid: u32) {
    let told = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(told.success());
}
