//! What a task costs does not grow with its campaign: counts of what is written, not times.

use std::fs;
use std::process::{Child, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value as Json, json};

use crate::campaigns::GO;
use crate::support::Dir;

/// A builder that lands nothing and has no worktree: what is left is the campaign.
const NOOP: &str = "# builder\n\n```protocol\nPROTOCOL: builder\nINPUT: workspace\nINPUT: mode = full | direct\n\
    INPUT: budget = 5\nSTATE: ONLY\n  \
    IF: budget == 0 AND mode == \"direct\" → RETURN escalated reason=\"no budget\" workspace={workspace}\n  \
    IF: budget == 0 → RETURN blocked reason=\"no budget\" workspace={workspace}\n  \
    RETURN: complete delivered=\"nothing\" commit=\"none\" target=\"none\" workspace={workspace}\n```\n";

const BOUND: &str =
    "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nbuilder = \"play\"\n";

fn task(seq: usize, is_chain: bool) -> Json {
    let depends = if is_chain && seq > 1 { vec![format!("{:05}", seq - 1)] } else { Vec::new() };
    json!({ "seq": format!("{seq:05}"), "slug": "t", "delta": [format!("f{seq}.txt")],
        "verify": format!("grep -q done f{seq}.txt"), "budget": 5, "depends": depends })
}

fn repository(tasks: usize, is_chain: bool) -> Dir {
    let dir = Dir::repository();
    let tasks: Vec<Json> = (1..=tasks).map(|seq| task(seq, is_chain)).collect();
    dir.write("plan.json", json!({ "objective": "all is done", "tasks": tasks }).to_string());
    dir.write("ftl.toml", BOUND).write("play.toml", "").write("a.txt", "a\n");
    fs::create_dir_all(dir.path(".ftl/protocols")).unwrap();
    dir.write(".ftl/protocols/builder.md", NOOP);
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    dir
}

/// What a campaign of so many tasks takes for each of them, in bytes.
#[derive(Debug)]
struct Cost {
    /// What its process wrote, wherever to.
    wrote: u64,
    /// What stands in its journal, and how many entries.
    journal: u64,
    entries: u64,
    /// What its store takes on the disk.
    store: u64,
    /// The tenth longest entry: what is listed once for the whole campaign may grow with it, what each round lists may not.
    longest: u64,
    /// The most memory, in KiB, of all tasks together.
    peak: u64,
}

/// Waits for the end of a process and tells what it wrote and its most memory: the kernel knows what it wrote until
/// somebody takes note of its end.
fn watched(mut child: Child) -> (u64, u64) {
    let pid = child.id();
    let mut peak = 0;
    let id = WaitId::Pid(Pid::from_child(&child));
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(id.clone(), options).unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(high.map_or(0, |text| text.trim().trim_end_matches(" kB").parse().unwrap()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let wrote = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    (wrote, peak)
}

fn cost(tasks: usize, is_chain: bool) -> Cost {
    let dir = repository(tasks, is_chain);
    let mut command = dir.command(&[&GO[..], &["--land", "branch-only"]].concat());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (wrote, peak) = watched(child);
    let store = Connection::open(dir.path(".ftl/store/ftl.db")).unwrap();
    let count = |what: &str| {
        store.query_row(&format!("SELECT {what} FROM entries"), [], |row| row.get::<_, i64>(0)).unwrap()
            as u64
    };
    let status: String = store.query_row("SELECT summary FROM runs", [], |row| row.get(0)).unwrap();
    let summary: Json = serde_json::from_str(&status).unwrap();
    assert_eq!(summary["standing"], "complete", "{summary}");
    assert_eq!(summary["instances"][0], json!(tasks + 1));
    let each = |all: u64| all / tasks as u64;
    Cost {
        wrote: each(wrote),
        journal: each(count("sum(length(body))")),
        entries: each(count("count(*)")),
        store: each(fs::metadata(dir.path(".ftl/store/ftl.db")).unwrap().len()),
        longest: store
            .query_row("SELECT length(body) FROM entries ORDER BY 1 DESC LIMIT 1 OFFSET 9", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap() as u64,
        peak,
    }
}

/// Whether a task of the long campaign takes at most a quarter more than one of the short.
#[track_caller]
fn is_flat(short: &Cost, long: &Cost) {
    let pairs = [
        ("bytes written", short.wrote, long.wrote),
        ("bytes of the journal", short.journal, long.journal),
        ("entries", short.entries, long.entries),
        ("bytes of the store", short.store, long.store),
        ("bytes of the tenth longest entry", short.longest, long.longest),
    ];
    for (what, short, long) in pairs {
        assert!(long * 100 <= short * 125, "{what}: {short} and {long} for a task");
    }
}

#[test]
fn a_task_of_five_thousand_costs_what_one_of_a_hundred_does() {
    let (short, long) = (cost(100, false), cost(5_000, false));
    is_flat(&short, &long);
}

#[test]
fn a_task_at_the_end_of_a_chain_costs_what_one_at_its_beginning_does() {
    let (short, long) = (cost(100, true), cost(1_000, true));
    is_flat(&short, &long);
}

#[test]
#[ignore = "long form: a hundred thousand tasks, and a chain of 32,767, take minutes"]
fn a_hundred_thousand_tasks_and_a_long_chain_are_as_flat_and_take_less_than_a_gigabyte() {
    let short = cost(100, false);
    for (tasks, is_chain) in [(32_767, true), (100_000, false)] {
        let long = cost(tasks, is_chain);
        is_flat(&short, &long);
        assert!(long.peak < 1024 * 1024, "{tasks}: {} KiB", long.peak);
    }
}

/// Changes an entry of a journal behind the back of its store.
fn damage(dir: &Dir, seq: u64) {
    let store = Connection::open(dir.path(".ftl/store/ftl.db")).unwrap();
    let name = "entries_are_never_changed";
    let trigger: String =
        store.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0)).unwrap();
    store.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    assert_eq!(store.execute("UPDATE entries SET body = '{}' WHERE seq = ?1", [seq as i64]).unwrap(), 1);
    store.execute_batch(&trigger).unwrap();
}

#[test]
fn looking_at_a_long_run_reads_what_came_after_its_last_snapshot_and_no_more() {
    let dir = repository(400, false);
    let ended = dir.ftl(&[&GO[..], &["--land", "branch-only", "--json"]].concat()).code(0).json();
    let run = ended["run"].as_str().unwrap();
    let why = dir.ftl(&["why", run]).code(0).out;
    let last = dir.ftl(&["log", run, "--last", "5"]).code(0).out;
    // Whoever read the beginning of the journal would fail here.
    damage(&dir, 2);
    assert_eq!(dir.ftl(&["why", run]).code(0).out, why);
    assert_eq!(dir.ftl(&["log", run, "--last", "5"]).code(0).out, last);
    dir.ftl(&["status", run]).code(0);
    let broken = dir.ftl(&["audit", "verify", run]);
    assert_ne!(broken.code, 0, "the audit reads all of it");
    fs::remove_file(dir.path(&format!(".ftl/store/snapshots/{run}"))).unwrap();
    let told = dir.ftl(&["why", run]);
    assert_ne!(told.code, 0);
    assert!(told.err.contains("breaks at entry 2"), "{}", told.err);
}

#[test]
fn the_last_entries_of_a_log_are_those_of_the_whole_log() {
    let dir = repository(3, true);
    let ended = dir.ftl(&[&GO[..], &["--land", "branch-only", "--json"]].concat()).code(0).json();
    let run = ended["run"].as_str().unwrap();
    let lines = |more: &[&str]| -> Vec<String> {
        let out = dir.ftl(&[&["log", run], more].concat()).code(0).out;
        out.lines().map(str::to_owned).collect()
    };
    let all = lines(&["--all"]);
    assert_eq!(lines(&["--all", "--last", "7"]), all[all.len() - 7..]);
    assert_eq!(lines(&["--all", "--last", "100000"]), all);
    assert_eq!(lines(&["--last", "100000"]), lines(&[]));
    assert!(lines(&["--last", "0"]).is_empty());
    // What is passed over is counted from where the log begins; the lines themselves are the same.
    let words = |lines: Vec<String>| -> Vec<String> {
        lines
            .iter()
            .map(|line| {
                line.split_whitespace().filter(|word| !word.starts_with('+')).collect::<Vec<_>>().join(" ")
            })
            .collect()
    };
    let (folded, last) = (words(lines(&[])), words(lines(&["--last", "20"])));
    let last = &last[..last.len() - 1];
    assert!(!last.is_empty() && folded[..folded.len() - 1].ends_with(last), "{last:?} {folded:?}");
}
