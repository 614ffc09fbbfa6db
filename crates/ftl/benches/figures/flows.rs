//! What the flows cost: one small task beside the same work done bare, campaigns that grow, and how close a
//! schedule comes to what its graph allows.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::rows::row;

/// How many times a small thing is measured.
const ROUNDS: usize = 9;

/// How many pairs are compared, and how many tasks the no-op campaign of a pair has.
const COMPARED_ROUNDS: usize = 31;
const COMPARED_TASKS: usize = 100;

/// A builder that lands nothing and has no worktree: what is left is the engine.
pub(crate) const NOOP: &str = "# builder\n\n```protocol\nPROTOCOL: builder\nINPUT: workspace\nINPUT: mode = full | direct\nINPUT: budget = 5\n\
    STATE: ONLY\n  IF: budget == 0 AND mode == \"direct\" → RETURN escalated reason=\"no budget\" workspace={workspace}\n  \
    IF: budget == 0 → RETURN blocked reason=\"no budget\" workspace={workspace}\n  \
    RETURN: complete delivered=\"nothing\" commit=\"none\" target=\"none\" workspace={workspace}\n```\n";

/// The same that asks its agent first: what is left is the schedule.
pub(crate) fn asks() -> String {
    let asks = "CHECK: spec = workspace.parse path={workspace}\n  DO: Task(builder) step=plan spec={spec}\n  RETURN: complete";
    NOOP.replace("RETURN: complete", asks)
}

const BOUND: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nbuilder = \"play\"\nobserver = \"play\"\nplanner = \"play\"\n";

const SCENES: &str = "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = { approach = \"write it\" }\n\
    [[scene]]\nrole = \"observer\"\n[[scene.step]]\nsubmit = { summary = \"nothing\" }\n";

pub(crate) fn all() {
    overhead();
    growth("without worktrees", Some(NOOP), &[100, 1000]);
    growth("with worktrees", None, &[10, 100]);
    schedule();
}

/// A repository with agents out of a script, and a plan.
pub(crate) fn repository(script: &str, tasks: &[Json], builder: Option<&str>) -> TempDir {
    let dir = TempDir::new().unwrap();
    let git = |words: &[&str]| {
        let done = Command::new("git").current_dir(dir.path()).args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q", "."]);
    git(&["config", "user.name", "Ada"]);
    git(&["config", "user.email", "ada@example.org"]);
    fs::write(dir.path().join("a.txt"), "a\n").unwrap();
    let plan = json!({ "objective": "all is done", "tasks": tasks });
    fs::write(dir.path().join("plan.json"), plan.to_string()).unwrap();
    fs::write(dir.path().join("ftl.toml"), BOUND).unwrap();
    fs::write(dir.path().join("play.toml"), format!("{script}{SCENES}")).unwrap();
    if let Some(text) = builder {
        fs::create_dir_all(dir.path().join(".ftl/protocols")).unwrap();
        fs::write(dir.path().join(".ftl/protocols/builder.md"), text).unwrap();
    }
    git(&["add", "-A"]);
    git(&["commit", "-qm", "begin"]);
    dir
}

pub(crate) fn task(seq: usize, file: &str, depends: &[usize]) -> Json {
    let depends: Vec<String> = depends.iter().map(|seq| format!("{seq:04}")).collect();
    json!({ "seq": format!("{seq:04}"), "slug": "t", "delta": [file], "verify": format!("grep -q done {file}"),
        "budget": 5, "depends": depends })
}

pub(crate) fn writes(told: &str, file: &str) -> String {
    format!(
        "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"{told}\"\n[[scene.step]]\n\
         calls = [{{ tool = \"write\", path = \"{file}\", content = \"done\\n\" }}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
    )
}

pub(crate) fn ftl(dir: &Path, words: &[&str]) -> Duration {
    run(Path::new(env!("CARGO_BIN_EXE_ftl")), dir, words)
}

/// Runs a binary of `ftl` and returns how long it took.
fn run(binary: &Path, dir: &Path, words: &[&str]) -> Duration {
    let began = Instant::now();
    let mut command = Command::new(binary);
    let done = command.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    began.elapsed()
}

pub(crate) fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// The same one-file task by hand and under `ftl`.
fn overhead() {
    let script = writes("0001-t", "a.txt");
    let (mut bare, mut under) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let dir = repository(&script, &[task(1, "a.txt", &[])], None);
        let began = Instant::now();
        let by_hand = "git worktree add -q ../w HEAD && cd ../w && echo done > a.txt && grep -q done a.txt && \
            git commit -qam done && cd - >/dev/null && git worktree remove ../w";
        let by_hand = by_hand.replace("../w", &dir.path().join("w").display().to_string());
        let done = Command::new("sh").current_dir(dir.path()).args(["-c", &by_hand]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        bare.push(began.elapsed());
        let dir = repository(&script, &[task(1, "a.txt", &[])], None);
        under.push(ftl(dir.path(), &["task", "run", "all is done", "--plan", "plan.json", "--land", "ff"]));
    }
    let (bare, under) = (median(bare), median(under));
    println!("one task    bare {bare:?}, under ftl {under:?}: {:?} more", under.saturating_sub(bare));
    let more = under.saturating_sub(bare).as_millis();
    row("one-file task, 4 files, the first of its store", "+90 ms", &format!("+{more} ms"), Some(more <= 90));
}

/// The one-file task and the no-op campaign under an earlier binary, which `FTL_BEFORE` names, and under this one,
/// in turn. The ratio is the median of the pairs' ratios: a pair shares the noise of its moment.
pub(crate) fn compare() {
    let Some(before) = std::env::var_os("FTL_BEFORE").map(PathBuf::from) else {
        return println!("compare     left out: FTL_BEFORE names no earlier binary");
    };
    let one = (writes("0001-t", "a.txt"), vec![task(1, "a.txt", &[])]);
    let many: Vec<Json> = (1..=COMPARED_TASKS).map(|seq| task(seq, &format!("f{seq}.txt"), &[])).collect();
    let land = ["task", "run", "all is done", "--plan", "plan.json", "--land", "ff"];
    compare_on("one-file task", &before, &land, || repository(&one.0, &one.1, None));
    let stay = ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "branch-only"];
    compare_on("no-op campaign of 100", &before, &stay, || repository("", &many, Some(NOOP)));
}

fn compare_on(what: &str, before: &Path, words: &[&str], repository: impl Fn() -> TempDir) {
    let now = Path::new(env!("CARGO_BIN_EXE_ftl"));
    let (mut ratios, mut took) = (Vec::new(), (Vec::new(), Vec::new()));
    for round in 0..COMPARED_ROUNDS {
        let pair = [before, now];
        // Whoever goes second finds warm caches, so that they take turns.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut times = [Duration::ZERO; 2];
        for at in order {
            times[at] = run(pair[at], repository().path(), words);
        }
        ratios.push(times[1].as_secs_f64() / times[0].as_secs_f64());
        took.0.push(times[0]);
        took.1.push(times[1]);
    }
    ratios.sort_by(f64::total_cmp);
    let (ratio, low, high) =
        (ratios[ratios.len() / 2], ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]);
    println!(
        "compare     {what}: before {:?}, now {:?}; ratio {ratio:.3}, quartiles {low:.3} to {high:.3}",
        median(took.0),
        median(took.1)
    );
    row(
        &format!("{what}, beside an earlier version"),
        "1.05 times",
        &format!("{ratio:.3}"),
        Some(ratio <= 1.05),
    );
}

/// Campaigns of different sizes: the time for each task must not grow with their number.
fn growth(what: &str, builder: Option<&str>, sizes: &[usize]) {
    let mut each = Vec::new();
    for size in sizes {
        let tasks: Vec<Json> = (1..=*size).map(|seq| task(seq, &format!("f{seq}.txt"), &[])).collect();
        let mut script = String::new();
        for seq in 1..=*size {
            let _ = write!(script, "{}", writes(&format!("{seq:04}-t"), &format!("f{seq}.txt")));
        }
        let dir = repository(&script, &tasks, builder);
        let words = ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "branch-only"];
        let took = ftl(dir.path(), &words);
        let size = u32::try_from(*size).unwrap();
        each.push(took / size);
        println!("campaign    {size} tasks {what}: {took:?}, {:?} a task", took / size);
    }
    let ratio = each[each.len() - 1].as_secs_f64() / each[0].as_secs_f64();
    println!("            a task of the largest takes {ratio:.2} times as long as one of the smallest");
    row(
        &format!("campaigns {what}: a task of the largest"),
        "-",
        &format!("{ratio:.2} times the smallest"),
        None,
    );
}

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A graph of tasks: the parents of each, and how long its agent sleeps, in milliseconds.
struct Graph {
    parents: Vec<Vec<usize>>,
    sleeps: Vec<u64>,
}

impl Graph {
    fn random(dice: &mut Dice, count: usize, sleep: std::ops::Range<u64>) -> Graph {
        let mut graph = Graph { parents: Vec::new(), sleeps: Vec::new() };
        for seq in 1..=count {
            let wanted = usize::try_from(dice.roll(3)).unwrap();
            let mut above: Vec<usize> = (0..wanted.min(seq - 1))
                .map(|_| 1 + usize::try_from(dice.roll(seq as u64 - 1)).unwrap())
                .collect();
            above.sort_unstable();
            above.dedup();
            graph.parents.push(above);
            graph.sleeps.push(sleep.start + dice.roll(sleep.end - sleep.start));
        }
        graph
    }

    fn tasks(&self) -> Vec<Json> {
        let all = self.parents.iter().enumerate();
        all.map(|(at, above)| task(at + 1, &format!("f{}.txt", at + 1), above)).collect()
    }

    /// How many tasks stand one behind the other from each on, itself included.
    fn rows(&self) -> Vec<usize> {
        let mut rows = vec![1; self.sleeps.len()];
        for at in (0..rows.len()).rev() {
            for above in &self.parents[at] {
                rows[above - 1] = rows[above - 1].max(rows[at] + 1);
            }
        }
        rows
    }

    /// What no schedule can beat: the longest way through the graph, and all work shared by all agents.
    fn least(&self, jobs: usize) -> Duration {
        let mut ways = self.sleeps.clone();
        for at in 0..ways.len() {
            let above = self.parents[at].iter().map(|seq| ways[seq - 1]).max().unwrap_or(0);
            ways[at] += above;
        }
        let longest = ways.into_iter().max().unwrap_or(0);
        Duration::from_millis(longest.max(self.sleeps.iter().sum::<u64>() / jobs as u64))
    }

    /// When the last task ends by list scheduling: whenever an agent is free it takes the ready task with the
    /// longest row behind it, and nothing takes any time but sleeping.
    fn list(&self, jobs: usize) -> Duration {
        let rows = self.rows();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(rows[*at]));
        let mut ends: Vec<Option<u64>> = vec![None; rows.len()];
        let mut free = vec![0_u64; jobs];
        let mut now = 0;
        while ends.iter().any(Option::is_none) {
            for at in &order {
                let ready = self.parents[*at].iter().all(|seq| ends[seq - 1].is_some_and(|end| end <= now));
                let slot = free.iter_mut().find(|free| **free <= now);
                if let (None, true, Some(slot)) = (ends[*at], ready, slot) {
                    *slot = now + self.sleeps[*at];
                    ends[*at] = Some(*slot);
                }
            }
            let next = ends.iter().flatten().copied().filter(|end| *end > now).min();
            let Some(next) = next else { break };
            now = next;
        }
        Duration::from_millis(ends.into_iter().flatten().max().unwrap_or(0))
    }
}

/// Random graphs with agents that sleep: the time they take beside what list scheduling gives. First with a builder
/// that only asks its agent, then with the real one: worktrees, verifying and landing included.
fn schedule() {
    const JOBS: usize = 4;
    const SCHEDULED: usize = 40;
    let mut dice = Dice(42);
    for (number, what) in ["asking", "asking", "asking", "building"].into_iter().enumerate() {
        let graph = Graph::random(&mut dice, SCHEDULED, 2_000..8_000);
        let mut script = String::new();
        for (at, sleep) in graph.sleeps.iter().enumerate() {
            let seq = at + 1;
            let (form, does) = match what {
                "asking" => ("plan", String::from("submit = { approach = \"sleep\" }")),
                _ => (
                    "implement",
                    format!(
                        "calls = [{{ tool = \"write\", path = \"f{seq}.txt\", content = \"done\\n\" }}]\n\
                         [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}"
                    ),
                ),
            };
            let _ = write!(
                script,
                "[[scene]]\nrole = \"builder\"\nform = \"{form}\"\ntold = \"{seq:04}-t\"\n[[scene.step]]\n\
                 delay = {sleep}\n{does}\n"
            );
        }
        let asks = asks();
        let dir = repository(&script, &graph.tasks(), (what == "asking").then_some(&asks));
        let jobs = JOBS.to_string();
        let words = [
            "campaign",
            "run",
            "all is done",
            "--plan",
            "plan.json",
            "--jobs",
            &jobs,
            "--land",
            "branch-only",
        ];
        let took = ftl(dir.path(), &words);
        let bound = graph.list(JOBS);
        let share = 100.0 * bound.as_secs_f64() / took.as_secs_f64();
        println!(
            "schedule    graph {number}, {SCHEDULED} tasks {what}, {JOBS} agents: {took:?}, list scheduling {bound:?}: {share:.1} %"
        );
        let least = graph.least(JOBS).as_secs_f64();
        let (ours, listed) = (100.0 * least / took.as_secs_f64(), 100.0 * least / bound.as_secs_f64());
        row(
            &format!("schedule of graph {number}, {SCHEDULED} tasks {what}, {JOBS} agents of 2 to 8 s"),
            "97 % of what none can beat",
            &format!("{ours:.1} % (list scheduling {listed:.1} %)"),
            Some(ours >= 97.0),
        );
    }
}
