//! The figures of the FTL protocol's own commands, each beside `ftl --version` in the same run.
//!
//! Everything is measured from outside, on the binary: the time on the clock, the time on the processor
//! as the kernel adds it up for children that have ended, and the most memory that was seen.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

const LESSONS: usize = 100_000;
const CHAIN: usize = 10_000;

/// How long a tick of the processor's time is, in milliseconds.
const TICK: f64 = 10.0;

/// What one command took: milliseconds on the clock and on the processor, and mebibytes at most.
struct Taken {
    clock: f64,
    cpu: f64,
    memory: f64,
}

impl Taken {
    fn print(&self, what: &str, aim: &str, start: &Taken) {
        println!(
            "{what}: {:.1} ms, {:.1} ms of CPU, {:.0} MiB; start alone {:.1} ms, {:.1} ms of CPU (aim {aim})",
            self.clock, self.cpu, self.memory, start.clock, start.cpu
        );
    }
}

pub(crate) fn all() {
    campaign_status();
    lessons();
    chain();
    workspaces();
    observer();
}

/// The median of some runs of a command; each begins after `before` was done.
fn median(folder: &Path, runs: usize, words: &[&str], mut before: impl FnMut(usize)) -> Taken {
    let (mut clocks, mut memories) = (Vec::new(), Vec::new());
    let mut cpu = 0.0;
    for run in 0..runs {
        before(run);
        let used = of_children();
        let (clock, memory) = timed(folder, words, "");
        cpu += of_children() - used;
        clocks.push(clock);
        memories.push(memory);
    }
    clocks.sort_by(f64::total_cmp);
    let memory = memories.into_iter().fold(0.0, f64::max);
    Taken { clock: clocks[runs / 2], cpu: cpu * TICK / runs as f64, memory }
}

fn start(folder: &Path) -> Taken {
    median(folder, 21, &["--version"], |_| {})
}

/// Ticks on the processor of all children that have ended.
fn of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()
}

/// Runs a command to its end: milliseconds, and the most mebibytes that were seen.
fn timed(folder: &Path, words: &[&str], input: &str) -> (f64, f64) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ftl"))
        .arg("--repo")
        .arg(folder)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let file = format!("/proc/{}/status", child.id());
    let mut memory = 0.0;
    let status = loop {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let seen = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        memory = seen.map_or(memory, |seen| seen / 1024.0);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success(), "{words:?}");
    (began.elapsed().as_secs_f64() * 1e3, memory)
}

fn plan(tasks: usize, depends: impl Fn(usize) -> Json) -> String {
    let task = |number: usize| {
        json!({"seq": format!("{number:05}"), "slug": format!("task-{number}"), "delta": [format!("src/f{number}.py")],
            "verify": "true", "depends": depends(number)})
    };
    json!({"objective": "measure how long it takes", "tasks": (0..tasks).map(task).collect::<Vec<_>>()})
        .to_string()
}

fn campaign(tasks: usize, depends: impl Fn(usize) -> Json) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    timed(folder.path(), &["campaign", "create", "measure how long it takes"], "");
    let plan = plan(tasks, depends);
    timed(folder.path(), &["campaign", "add-tasks"], &plan);
    (folder, plan)
}

fn campaign_status() {
    let (folder, _) = campaign(20, |_| json!("none"));
    let taken = median(folder.path(), 51, &["campaign", "status"], |_| {});
    taken.print("campaign status, 20 tasks", "10 ms of CPU", &start(folder.path()));
}

fn lessons() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("many.json");
    let count = LESSONS.to_string();
    let mut generate = Command::new(env!("CARGO_BIN_EXE_ftl"));
    generate.args(["benchmark", "generate", "--failures", &count, "--patterns", "0"]);
    assert!(generate.stdout(fs::File::create(&file).unwrap()).status().unwrap().success());
    let began = Instant::now();
    timed(folder.path(), &["memory", "import", file.to_str().unwrap()], "");
    println!("memory import, {LESSONS} lessons: {:.1} s", began.elapsed().as_secs_f64());
    let start = start(folder.path());
    let query = median(folder.path(), 11, &["memory", "query", "data race in the router on staging"], |_| {});
    query.print(&format!("memory query, {LESSONS} lessons"), "60 ms after start, 250 MiB", &start);
    let mut clocks: Vec<(f64, f64)> = (0..11)
        .map(|run| {
            let trigger = format!("the {run}th certificate of the mail relay has expired overnight");
            let lesson = json!({"name": format!("new-{run}"), "trigger": trigger, "cost": 500}).to_string();
            timed(folder.path(), &["memory", "add-failure", "--json", &lesson], "")
        })
        .collect();
    clocks.sort_by(|left, right| left.0.total_cmp(&right.0));
    let add = Taken { clock: clocks[5].0, cpu: 0.0, memory: clocks[5].1 };
    println!(
        "memory add-failure, {LESSONS} lessons: {:.1} ms, {:.0} MiB; start alone {:.1} ms (aim 60 ms)",
        add.clock, add.memory, start.clock
    );
}

fn chain() {
    let after = |number: usize| if number == 0 { json!("none") } else { json!(format!("{:05}", number - 1)) };
    let (folder, _) = campaign(CHAIN, after);
    timed(folder.path(), &["campaign", "update-task", "0", "blocked"], "");
    let before = fs::read_to_string(folder.path().join(".ftl/campaign.json")).unwrap();
    let mut clocks = Vec::new();
    for _ in 0..5 {
        // The state of before is put back by hand, and taken over by a look that is not measured.
        fs::write(folder.path().join(".ftl/campaign.json"), &before).unwrap();
        Command::new(env!("CARGO_BIN_EXE_ftl"))
            .arg("--repo")
            .arg(folder.path())
            .args(["campaign", "cascade-status"])
            .output()
            .unwrap();
        clocks.push(timed(folder.path(), &["campaign", "propagate-blocks"], "").0);
    }
    clocks.sort_by(f64::total_cmp);
    println!("propagate-blocks, a chain of {CHAIN}: {:.1} ms (aim 100 ms)", clocks[2]);
}

fn workspaces() {
    let (folder, plan) = campaign(50, |_| json!("none"));
    for number in 0..50 {
        let file = folder.path().join(format!("src/f{number}.py"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "import os\n\n\ndef work(value: int) -> int:\n    return value\n".repeat(40))
            .unwrap();
    }
    let lessons = Command::new(env!("CARGO_BIN_EXE_ftl"))
        .args(["benchmark", "generate", "--failures", "300", "--patterns", "100"])
        .output()
        .unwrap();
    let many = String::from_utf8(lessons.stdout).unwrap();
    timed(folder.path(), &["memory", "import", "-"], &many);
    let file = folder.path().join("plan.json");
    fs::write(&file, plan).unwrap();
    let words = ["workspace", "create", "--plan", file.to_str().unwrap()];
    let taken = median(folder.path(), 5, &words, |_| {});
    taken.print("workspace create, 50 tasks, 400 lessons", "300 ms", &start(folder.path()));
}

fn observer() {
    let (folder, plan) = campaign(200, |_| json!("none"));
    let file = folder.path().join("plan.json");
    fs::write(&file, plan).unwrap();
    timed(folder.path(), &["workspace", "create", "--plan", file.to_str().unwrap()], "");
    for number in 0..200 {
        let path = folder.path().join(format!(".ftl/workspace/{number:05}_task-{number}_active.xml"));
        let path = path.to_str().unwrap();
        let words = format!("reason {} of {}", number * 7919 % 1000, number * 104_729 % 997);
        match number % 2 {
            0 => timed(folder.path(), &["workspace", "complete", path, "--delivered", &words], ""),
            _ => timed(folder.path(), &["workspace", "block", path, "--reason", &words], ""),
        };
    }
    let (first, memory) = timed(folder.path(), &["observer", "analyze", "--no-verify"], "");
    let again = median(folder.path(), 3, &["observer", "analyze", "--no-verify"], |_| {});
    println!(
        "observer analyze --no-verify, 200 workspaces: {first:.0} ms, again {:.0} ms, {memory:.0} MiB (aim 1 s)",
        again.clock
    );
}
