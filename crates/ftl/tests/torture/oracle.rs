//! What must be true of a run whatever happened to it on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ftl_testkit::faults::{Faults, counted};
use serde_json::{Value as Json, json};

use crate::stage::{HAUL, STORE, Stage};

/// Nothing that a run has started may be alive so long after its end.
const MAX_AFTERLIFE: Duration = Duration::from_secs(2);

/// The meters of agents whose use the ledger of a script tells.
const SPENT: [&str; 3] = ["tokens", "money", "turns"];

/// What a haul comes to when nothing happens to it.
pub(crate) struct Haul {
    told: Told,
    tools: usize,
    calls: u64,
    edges: BTreeMap<String, BTreeSet<(String, String)>>,
}

/// What a run tells that must be the same however often it was killed.
#[derive(Debug, PartialEq)]
struct Told {
    verdict: String,
    values: Json,
    path: Vec<String>,
    children: Vec<String>,
    paid: BTreeMap<String, u64>,
}

impl Haul {
    /// Runs one unharmed.
    pub(crate) fn unharmed() -> Haul {
        let stage = Stage::new();
        let edges = ["haul", "lift"].map(|name| (name.to_owned(), edges(&stage, name)));
        let count = stage.beside("count");
        stage.faulty(&Faults::of(STORE).counting(&count), &HAUL).code(0);
        let run = only_run(&stage);
        let journal = stage.journal(&run);
        let (told, tools) = (Told::of(&journal), tool_calls(&journal));
        assert_eq!((told.verdict.as_str(), told.children.len()), ("complete", 4), "{told:#?}");
        let calls = counted(&count).unwrap();
        let haul = Haul { told, tools, calls, edges: edges.into() };
        haul.judge(&stage, &run);
        haul
    }

    /// How many of its calls change the store.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// The call that changes the store after so many per cent of the way. From 45 to 80 its children
    /// are at work.
    pub(crate) fn call_at(&self, percent: u64) -> u64 {
        self.calls * percent / 100
    }

    /// Everything that must be true of a haul that has come to its end.
    #[track_caller]
    pub(crate) fn judge(&self, stage: &Stage, run: &str) {
        let journal = stage.journal(run);
        let told = Told::of(&journal);
        assert_eq!(told, self.told, "killed or not, a run comes to the same");
        assert!(tool_calls(&journal) >= self.tools, "a tool call was not paid");
        self.only_drawn_moves(&journal);
        in_order(&journal);
        landed_once(stage);
        nothing_undercounted(stage, run);
        is_whole(stage);
        nothing_lives(stage, run);
    }

    /// Every move is an edge of the drawing.
    #[track_caller]
    fn only_drawn_moves(&self, journal: &[Json]) {
        let protocols: BTreeMap<u64, &str> = facts(journal, "opened")
            .map(|entry| (entry["instance"].as_u64().unwrap(), entry["protocol"].as_str().unwrap()))
            .collect();
        for entry in facts(journal, "moved") {
            let protocol = protocols[&entry["instance"].as_u64().unwrap()];
            let edge = (word(&entry["from"]), word(&entry["to"]));
            assert!(self.edges[protocol].contains(&edge), "{protocol}: {edge:?} is not drawn");
        }
    }
}

impl Told {
    fn of(journal: &[Json]) -> Told {
        let settled = |entry: &&Json| entry["instance"] == 0;
        let end = facts(journal, "settled").find(settled).cloned().unwrap_or_default();
        let of_root = facts(journal, "moved").filter(|entry| entry["instance"] == 0);
        let mut children: Vec<String> = facts(journal, "settled")
            .filter(|entry| entry["instance"] != 0)
            .map(|entry| json!([entry["end"], entry["values"]]).to_string())
            .collect();
        children.sort();
        Told {
            verdict: end["end"].as_str().unwrap_or("none").to_owned(),
            values: end["values"].clone(),
            path: of_root.map(|entry| word(&entry["to"])).collect(),
            children,
            paid: paid(journal),
        }
    }
}

/// What was paid by protocols themselves. Tool calls of an agent that was asked again are paid again.
fn paid(journal: &[Json]) -> BTreeMap<String, u64> {
    let mut paid = BTreeMap::new();
    for entry in facts(journal, "paid") {
        if entry["from"] == "meter" && entry.get("action").is_none() {
            *paid.entry(word(&entry["meter"])).or_default() += 1;
        }
    }
    paid
}

/// How many tool calls were paid.
fn tool_calls(journal: &[Json]) -> usize {
    facts(journal, "paid").filter(|entry| entry["from"] == "meter" && entry.get("action").is_some()).count()
}

/// The entries of one kind of fact.
pub(crate) fn facts<'a>(journal: &'a [Json], fact: &'a str) -> impl Iterator<Item = &'a Json> {
    journal.iter().filter(move |entry| entry["fact"] == fact)
}

fn word(value: &Json) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no word")).to_owned()
}

fn edges(stage: &Stage, protocol: &str) -> BTreeSet<(String, String)> {
    let drawn = stage.ftl(&["draw", protocol, "--format", "edges"]).code(0);
    let edge = |line: &str| {
        let (from, to) = line.split_once(' ').unwrap();
        (from.to_owned(), to.to_owned())
    };
    drawn.out.lines().map(edge).collect()
}

/// The name of the only run that there is.
#[track_caller]
pub(crate) fn only_run(stage: &Stage) -> String {
    let runs = stage.runs();
    assert_eq!(runs.len(), 1, "{runs:#?}");
    word(&runs[0]["run"])
}

/// Numbers without a gap; times and epochs that never go back.
#[track_caller]
pub(crate) fn in_order(journal: &[Json]) {
    for (index, entry) in journal.iter().enumerate() {
        assert_eq!(entry["seq"], index as u64 + 1);
    }
    for pair in journal.windows(2) {
        for what in ["at", "epoch"] {
            let of = |entry: &Json| entry[what].as_u64().unwrap();
            assert!(of(&pair[0]) <= of(&pair[1]), "{what} goes back: {pair:#?}");
        }
    }
}

/// Each thing was landed under one key, and never by two at the same time.
#[track_caller]
fn landed_once(stage: &Stage) {
    let landed = stage.lines("landed");
    let mut what: Vec<&str> = landed.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    what.sort_unstable();
    assert_eq!(what, ["a", "b", "c", "haul"], "{landed:?}");
    assert_eq!(stage.lines("overlaps"), [""; 0], "two attempts of one action were alive");
}

/// What the run says it used is at least what the ledger says was spent.
#[track_caller]
pub(crate) fn nothing_undercounted(stage: &Stage, run: &str) {
    let (status, ledger) = (stage.status(run), ledger(stage, run));
    assert!(ledger.get("tokens") > Some(&0), "{ledger:?}");
    for (meter, spent) in ledger {
        let used = status["meters"][meter]["used"].as_u64().unwrap();
        assert!(used >= spent, "{meter}: {spent} was spent, {used} is counted");
    }
}

/// What was ever spent in a run, as its script has it.
fn ledger(stage: &Stage, run: &str) -> BTreeMap<&'static str, u64> {
    let mut spent = BTreeMap::new();
    for line in stage.lines(&format!(".ftl/store/scripts/{run}.ledger")) {
        // A line that was cut by a kill was never acted on.
        let Some(usage) = line.split('\t').nth(2).and_then(|text| serde_json::from_str::<Json>(text).ok())
        else {
            continue;
        };
        for meter in SPENT {
            *spent.entry(meter).or_default() += usage[meter].as_u64().unwrap_or(0);
        }
    }
    spent
}

/// Chains are whole, and whoever looks after the store finds nothing broken.
#[track_caller]
pub(crate) fn is_whole(stage: &Stage) {
    stage.ftl(&["audit", "verify"]).code(0).says(&["whole"]);
    let doctor = stage.ftl(&["doctor", "--deep"]).civil();
    assert_eq!(doctor.code, Some(0), "{doctor:#?}");
}

/// Nothing that a run has started lives any more.
#[track_caller]
pub(crate) fn nothing_lives(stage: &Stage, run: &str) {
    let end = Instant::now() + MAX_AFTERLIFE;
    loop {
        let alive = alive(stage, run);
        if alive.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "{run} has ended, and these live: {alive:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes that carry the mark of a run, or work in its repository.
pub(crate) fn alive(stage: &Stage, run: &str) -> Vec<String> {
    let mark = format!("FTL_ATTEMPT={run}.");
    let is_theirs = |process: &Path| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let marked = environment.split(|byte| *byte == 0).any(|one| one.starts_with(mark.as_bytes()));
        marked || fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(stage.root()))
    };
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let processes = processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let theirs = processes.filter(|entry| is_theirs(&entry.path()));
    let command = |path: &Path| fs::read_to_string(path.join("cmdline")).unwrap_or_default();
    theirs.map(|entry| format!("{:?} {}", entry.file_name(), command(&entry.path()))).collect()
}
