//! Many at once: thirty-two processes on one repository.

use serde_json::{Value as Json, json};

use crate::oracle::{facts, in_order, is_whole};
use crate::stage::{Running, Stage, printed};

/// How many clerks of each kind there are, and with it how many orders.
const ASKED: usize = 6;
const UNPAID: usize = 6;
const STANDING: usize = 4;
const STOPPED: usize = 2;

/// A run in which everybody waits for a person: its name.
fn desk(stage: &Stage) -> String {
    let jobs = [("ask", ASKED), ("pay", UNPAID), ("stand", STANDING), ("stand", STOPPED)];
    let clerks: Vec<Json> = jobs
        .iter()
        .flat_map(|(job, count)| vec![job; *count])
        .enumerate()
        .map(|(number, job)| json!({ "name": format!("clerk-{number}"), "job": job }))
        .collect();
    let ended = stage.ftl(&["run", "desk", &format!("clerks={}", Json::from(clerks))]).code(3);
    printed(&ended.out).unwrap()
}

/// The numbers of the instances of each kind, in the order of `desk`.
fn instances(journal: &[Json]) -> Vec<u64> {
    let mut opened: Vec<(String, u64)> = facts(journal, "opened")
        .filter(|entry| entry["protocol"] == "clerk")
        .map(|entry| {
            let name = entry["inputs"]["name"].as_str().unwrap();
            let number: usize = name.strip_prefix("clerk-").unwrap().parse().unwrap();
            (format!("{number:03}"), entry["instance"].as_u64().unwrap())
        })
        .collect();
    opened.sort();
    opened.into_iter().map(|(_, instance)| instance).collect()
}

/// An order: the words of the command, and who gives it.
fn orders(run: &str, instances: &[u64]) -> Vec<(Vec<String>, String)> {
    let of = |number: usize| format!("{run}/{}", instances[number]);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let mut orders = Vec::new();
    for number in 0..instances.len() {
        let at = of(number);
        let order = match number {
            _ if number < ASKED => words(&["answer", &at, "red"]),
            _ if number < ASKED + UNPAID => words(&["raise", &at, "stamps", "1", "--reason", "needed"]),
            _ if number < ASKED + UNPAID + STANDING => {
                words(&["override", &at, "DONE", "--reason", "it has stood long enough"])
            }
            _ => words(&["stop", &at]),
        };
        orders.push((order, format!("person-{number}")));
    }
    orders
}

/// The fact that shows that an order was carried out.
fn fact_of(order: &str) -> &'static str {
    match order {
        "answer" => "heard",
        "raise" => "raised",
        "override" => "waived",
        "stop" => "settled",
        other => panic!("{other} is no order"),
    }
}

/// What eight of the crowd run: three agents each.
const QUICK: &str = "[[scene]]\n[[scene.step]]\ndelay = 1\nusage = { tokens = 5 }\nsilent = [\"money\", \"turns\"]\nsubmit = { text = \"x\" }\n";

const WORKERS: [&str; 5] = [
    "run",
    "desk",
    r#"clerks=[{"name":"a","job":"work"},{"name":"b","job":"work"},{"name":"c","job":"work"}]"#,
    "--script",
    "quick.toml",
];

#[test]
fn thirty_two_at_once_lose_nothing() {
    let stage = Stage::new();
    stage.write("quick.toml", QUICK);
    let run = desk(&stage);
    let orders = orders(&run, &instances(&stage.journal(&run)));
    let mut crowd: Vec<(String, Running)> = Vec::new();
    let mut start = |words: &[&str]| crowd.push((words.join(" "), Running::start(stage.command(words))));
    let mut looks = [["status", "--all"], ["log", &run], ["why", &run]].into_iter().cycle();
    for (number, (words, by)) in orders.iter().enumerate() {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.extend(["--by", by]);
        start(&words);
        if number % 3 == 0 {
            start(&looks.next().unwrap());
        }
        if number < 8 {
            start(&WORKERS);
        }
    }
    assert_eq!(crowd.len(), 32);
    for (words, running) in crowd {
        let ended = running.end().civil();
        assert_eq!(ended.code, Some(0), "{words}: {ended:#?}");
    }
    let journal = stage.journal(&run);
    in_order(&journal);
    for (words, by) in &orders {
        let fact = fact_of(&words[0]);
        let instance: u64 = words[1].split('/').nth(1).unwrap().parse().unwrap();
        let shows = |entry: &&Json| entry["instance"] == instance;
        let shown: Vec<&Json> = facts(&journal, fact).filter(shows).collect();
        assert_eq!(shown.len(), 1, "{words:?} by {by}: {shown:#?}");
        assert!(fact == "settled" || shown[0]["by"] == **by, "{words:?} by {by}: {shown:#?}");
    }
    let ended = |end: &str| facts(&journal, "settled").filter(|entry| entry["end"] == end).count();
    assert_eq!((ended("stopped"), ended("complete")), (STOPPED, ASKED + UNPAID + STANDING + 1));
    let runs = stage.runs();
    assert_eq!(runs.len(), 9);
    assert!(runs.iter().all(|run| run["standing"] == "complete"), "{runs:#?}");
    is_whole(&stage);
}
