//! What grows: campaigns from a hundred tasks to a hundred thousand, looking at long journals, blocks along a chain.
//!
//! Each command runs in a process of its own below one that waits for it, so that the kernel tells its time on the
//! processor, what it wrote and its most memory, with everything that it started. `git version` runs between them: its
//! time is the yardstick of the same run. `FTL_LONG=1` adds the hundred thousand, the chain of 32,767 and a loop of a million entries.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ftl_folder::id::RunId;
use ftl_store::{SqliteStore, Store};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::flows::{NOOP, repository, task};
use super::rows::row;

/// How often a short command is measured; the median counts.
const ROUNDS: usize = 15;

/// How many entries the journal of the loop has that is looked at, and in the long form.
const LOOKED_AT: u64 = 200_000;
const LOOKED_AT_LONG: u64 = 1_000_000;

/// What one command took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    /// In KiB.
    pub(crate) wrote: f64,
    peak: f64,
}

/// Runs what the environment says, and tells what it took: the part of this program that measures.
pub(crate) fn measure(words: &str) {
    let words: Vec<String> = serde_json::from_str(words).unwrap();
    let mut child =
        Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(id, options).unwrap();
    // It has ended and is still there: the kernel tells what it wrote.
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let wrote =
        io.lines().find_map(|line| line.strip_prefix("wchar: ")).map_or(0.0, |text| text.parse().unwrap());
    let status = child.wait().unwrap();
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    let cpu = seconds(used.user_time()) + seconds(used.system_time());
    println!("{}", json!([status.code(), cpu, wrote / 1024.0, used.max_rss() as f64 / 1024.0]));
}

fn cost(folder: &Path, words: &[&str], codes: &[i64]) -> Cost {
    let output = Command::new(std::env::current_exe().unwrap())
        .current_dir(folder)
        .env("FTL_MEASURED", json!(words).to_string())
        .output()
        .unwrap();
    let told: Json =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {output:?}"));
    let number = |at: usize| told[at].as_f64().unwrap();
    assert!(codes.contains(&told[0].as_i64().unwrap_or(-1)), "{words:?}: {output:?}");
    Cost { cpu: number(1), wrote: number(2), peak: number(3) }
}

pub(crate) fn ftl(folder: &Path, words: &[&str]) -> Cost {
    let all: Vec<&str> = [env!("CARGO_BIN_EXE_ftl")].into_iter().chain(words.iter().copied()).collect();
    cost(folder, &all, &[0, 3])
}

/// The medians of some commands that take turns.
fn medians(folder: &Path, all: &[Vec<&str>]) -> Vec<Cost> {
    let mut found: Vec<Vec<Cost>> = vec![Vec::new(); all.len()];
    for _ in 0..ROUNDS {
        for (words, costs) in all.iter().zip(&mut found) {
            costs.push(cost(folder, words, &[0, 3]));
        }
    }
    let median = |mut costs: Vec<Cost>| {
        costs.sort_by(|one, two| one.cpu.total_cmp(&two.cpu));
        let peak = costs.iter().map(|cost| cost.peak).fold(0.0, f64::max);
        Cost { peak, ..costs[ROUNDS / 2] }
    };
    found.into_iter().map(median).collect()
}

pub(crate) fn all() {
    growth();
    looks();
    blocks();
}

fn is_long() -> bool {
    std::env::var_os("FTL_LONG").is_some()
}

/// The bytes of all files of a folder.
fn size(folder: &Path) -> f64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |file: fs::DirEntry| file.metadata().map_or(0.0, |found| found.len() as f64);
    files.filter(|file| file.path().is_file()).map(of).sum::<f64>() / 1024.0
}

fn campaign(tasks: usize, is_chain: bool) -> TempDir {
    let depends = |seq: usize| if is_chain && seq > 1 { vec![seq - 1] } else { Vec::new() };
    let tasks: Vec<Json> = (1..=tasks).map(|seq| task(seq, &format!("f{seq}.txt"), &depends(seq))).collect();
    repository("", &tasks, Some(NOOP))
}

const GO: [&str; 7] = ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "branch-only"];

/// Campaigns that build nothing: what a task costs must not grow with their number.
fn growth() {
    let mut sizes = vec![(100, false), (1_000, false), (5_000, false), (1_000, true), (5_000, true)];
    if is_long() {
        sizes.extend([(100_000, false), (32_767, true)]);
    }
    let start = ftl(campaign(1, false).path(), &GO);
    let mut first: Option<[f64; 3]> = None;
    for (tasks, is_chain) in sizes {
        let dir = campaign(tasks, is_chain);
        let all = ftl(dir.path(), &GO);
        let each = |whole: f64, start: f64| (whole - start) / (tasks as f64 - 1.0);
        let kept = size(&dir.path().join(".ftl/store")) / tasks as f64;
        let one = [each(all.cpu, start.cpu), each(all.wrote, start.wrote), kept];
        let base = *first.get_or_insert(one);
        let what = if is_chain { "in a chain" } else { "side by side" };
        println!(
            "flat        {tasks} tasks {what}: a task {:.2} ms of CPU ({:.2} times that of 100), wrote {:.0} KiB ({:.2}), \
             store {:.1} KiB ({:.2}); peak {:.0} MiB",
            one[0],
            one[0] / base[0],
            one[1],
            one[1] / base[1],
            one[2],
            one[2] / base[2],
            all.peak
        );
        let ratios = [one[0] / base[0], one[1] / base[1], one[2] / base[2]];
        row(
            &format!("a task of {tasks} {what}, beside one of 100: processor, written, store"),
            "1.25 times, peak under 1 GiB",
            &format!("{:.2}, {:.2}, {:.2}; {:.0} MiB", ratios[0], ratios[1], ratios[2], all.peak),
            (tasks > 100).then(|| ratios.iter().all(|ratio| *ratio <= 1.25) && all.peak < 1024.0),
        );
    }
}

/// What it costs to look at long runs, beside `git version`.
fn looks() {
    let dir = campaign(5_000, false);
    ftl(dir.path(), &GO);
    look("campaign of 5,000", dir.path());
    let dir = TempDir::new().unwrap();
    fs::create_dir_all(dir.path().join(".ftl/store")).unwrap();
    fs::create_dir_all(dir.path().join(".ftl/protocols")).unwrap();
    fs::write(
        dir.path().join(".ftl/protocols/spin.md"),
        format!("# spin\n\n```protocol\n{}\n```\n", super::SPIN),
    )
    .unwrap();
    {
        let store = Arc::new(SqliteStore::open(&dir.path().join(".ftl/store")).unwrap());
        let mut spinner = super::Spinner::new(store, super::library(), 0);
        let entries = if is_long() { LOOKED_AT_LONG } else { LOOKED_AT };
        while spinner.driver.run().next_seq() < entries {
            spinner.turn();
        }
    }
    look("loop", dir.path());
}

fn look(what: &str, folder: &Path) {
    let store = SqliteStore::open_existing(&folder.join(".ftl/store")).unwrap().unwrap();
    let run: RunId = store.runs("").unwrap().remove(0).run;
    let entries = store.run(&run).unwrap().unwrap().head;
    drop(store);
    let (run, ftl) = (run.to_string(), env!("CARGO_BIN_EXE_ftl"));
    let all: Vec<Vec<&str>> = vec![
        vec!["git", "version"],
        vec![ftl, "why", &run],
        vec![ftl, "status", &run],
        vec![ftl, "status"],
        vec![ftl, "log", &run, "--last", "20"],
        vec![ftl, "resume", &run],
    ];
    let found = medians(folder, &all);
    for (words, cost) in all.iter().zip(&found).skip(1) {
        println!(
            "looking     {} at a {what} ({entries} entries): {:.1} ms of CPU, {:.1} times `git version`, peak {:.0} MiB",
            words[1],
            cost.cpu,
            cost.cpu / found[0].cpu,
            cost.peak
        );
        row(
            &format!("`ftl {}` at a {what}, {entries} entries", words[1]),
            "50 ms, 100 MiB",
            &format!("{:.1} ms, {:.0} MiB", cost.cpu, cost.peak),
            Some(cost.cpu < 50.0 && cost.peak < 100.0),
        );
    }
}

/// Blocks that are propagated along a chain: linear, and at most ten times `git version` at a thousand.
fn blocks() {
    let mut sizes = vec![1_000, 10_000];
    if is_long() {
        sizes.push(100_000);
    }
    for tasks in sizes {
        let dir = TempDir::new().unwrap();
        let above = |seq: usize| if seq == 1 { Vec::new() } else { vec![seq - 1] };
        let all: Vec<Json> = (1..=tasks).map(|seq| task(seq, "a.txt", &above(seq))).collect();
        fs::write(dir.path().join("plan.json"), json!({ "objective": "x", "tasks": all }).to_string())
            .unwrap();
        let plan = fs::read_to_string(dir.path().join("plan.json")).unwrap();
        let mut costs = (Vec::new(), Vec::new());
        for _ in 0..if tasks > 10_000 { 1 } else { 7 } {
            let _ = fs::remove_dir_all(dir.path().join(".ftl"));
            ftl(dir.path(), &["campaign", "create", "x"]);
            let mut add = Command::new(env!("CARGO_BIN_EXE_ftl"));
            let add = add.current_dir(dir.path()).args(["campaign", "add-tasks"]).stdin(Stdio::piped());
            let mut add = add.stdout(Stdio::null()).spawn().unwrap();
            std::io::Write::write_all(&mut add.stdin.take().unwrap(), plan.as_bytes()).unwrap();
            assert!(add.wait().unwrap().success());
            ftl(dir.path(), &["campaign", "update-task", "0001", "blocked"]);
            costs.0.push(ftl(dir.path(), &["campaign", "propagate-blocks"]).cpu);
            costs.1.push(cost(dir.path(), &["git", "version"], &[0]).cpu);
        }
        let median = |costs: &mut Vec<f64>| {
            costs.sort_by(f64::total_cmp);
            costs[costs.len() / 2]
        };
        let (took, git) = (median(&mut costs.0), median(&mut costs.1));
        println!("blocks      chain of {tasks}: {took:.1} ms of CPU, {:.1} times `git version`", took / git);
        let reached = (tasks == 1_000).then_some(took / git <= 10.0);
        let goal = if tasks == 1_000 { "10 times `git version`" } else { "linear" };
        row(
            &format!("`propagate-blocks`, a chain of {tasks}"),
            goal,
            &format!("{:.1} times", took / git),
            reached,
        );
    }
}
