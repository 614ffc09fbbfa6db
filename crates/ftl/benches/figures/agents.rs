//! Many agents at once, each a program of its own under a guard of its own: memory, the processor while all of them sleep,
//! and how long it takes until all have ended. 200 of them; `FTL_LONG=1` starts a thousand.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::flows::{asks, repository, task};
use super::rows::row;

/// How long an agent sleeps: until it is ended.
const PROGRAM: &str = "#!/bin/sh\n[ \"$1\" = --version ] && { echo 1; exit 0; }\ncat >/dev/null\n\
    echo '{\"kind\":\"cost\",\"in\":1,\"out\":1}'\nexec sleep 600\n";

const ADAPTER: &str = "name = \"plain\"\nabout = \"a program that sleeps\"\nprogram = \"plain\"\nversion = [\"--version\"]\n\
    protocol = \"lines\"\n[enforces]\ncalls = \"after\"\ntokens = true\n[start]\nprompt = \"input\"\n\
    [[event]]\nwhen = { kind = \"call\" }\ncall = { id = \"id\", tool = \"tool\", args = \"args\" }\n\
    [[event]]\nwhen = { kind = \"cost\" }\nusage = { tokens = [\"in\", \"out\"], request = true }\n\
    [[event]]\nwhen = { kind = \"over\" }\nend = { answer = \"answer\", good = { fine = true }, why = [\"why\"] }\n\
    [tools.map]\nwrite = { as = \"write\", path = \"path\" }\n";

const LIMITS: &str = "[limits]\ntokens = \"none\"\nmoney = \"none\"\ntime = \"none\"\nturns = \"none\"\n";

/// How long all of them are watched while they sleep.
const WATCHED: Duration = Duration::from_secs(20);

/// How long it may take until all have been started.
const MAX_START: Duration = Duration::from_secs(240);

pub(crate) fn all() {
    let count = if std::env::var_os("FTL_LONG").is_some() { 1_000 } else { 200 };
    let tasks: Vec<Json> = (1..=count).map(|seq| task(seq, &format!("f{seq}.txt"), &[])).collect();
    let dir = repository("", &tasks, Some(&asks()));
    let root = dir.path();
    fs::write(root.join("plain.toml"), ADAPTER).unwrap();
    fs::write(root.join("play.sh"), PROGRAM).unwrap();
    fs::set_permissions(root.join("play.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let bound = format!(
        "[agents.plain]\nkind = \"cli\"\nadapter = \"plain.toml\"\nprogram = \"{}\"\nhome = \"own\"\n\
         accept = [\"calls\", \"paths\"]\n[roles]\nbuilder = \"plain\"\n[width]\nagents = {count}\n",
        root.join("play.sh").display()
    );
    fs::write(root.join("ftl.toml"), bound).unwrap();
    // What is set aside for so many agents is more than one run may use by default.
    fs::create_dir_all(root.join(".ftl")).unwrap();
    fs::write(root.join(".ftl/config.toml"), LIMITS).unwrap();
    let words = ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "branch-only"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftl"));
    command.current_dir(root).args(words).stdin(Stdio::null());
    let mut driver = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let all = sleeping(&mut driver, count);
    assert_eq!(all, count, "so many agents sleep after {MAX_START:?}");
    let ours = of_ours(driver.id());
    let memory = ours.iter().map(|process| memory(*process)).sum::<u64>() as f64 / 1024.0;
    let before: f64 = ours.iter().map(|process| ticks(*process)).sum();
    std::thread::sleep(WATCHED);
    let after: f64 = ours.iter().map(|process| ticks(*process)).sum();
    let core = (after - before) / 100.0 / WATCHED.as_secs_f64();
    let began = Instant::now();
    let stop = rustix::process::Pid::from_child(&driver);
    rustix::process::kill_process(stop, rustix::process::Signal::INT).unwrap();
    driver.wait().unwrap();
    while ours.iter().any(|process| Path::new(&format!("/proc/{process}/exe")).exists()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = began.elapsed();
    println!(
        "agents      {count} under guards: {memory:.0} MiB of ours, {core:.3} of a core while they sleep, ended in {ended:?}"
    );
    // The goals are of a thousand; what a single process of ours takes is a part of each.
    let most = 700.0 * count as f64 / 1_000.0;
    row(
        &format!("{count} agents at once, memory with guards"),
        "under 700 MiB for 1,000",
        &format!("{memory:.0} MiB"),
        Some(memory < most.max(60.0)),
    );
    row(
        &format!("{count} agents that sleep, processor"),
        "under 0.05 of a core",
        &format!("{core:.3}"),
        Some(core < 0.05),
    );
    row(
        &format!("{count} agents ended"),
        "within 10 s",
        &format!("{:.1} s", ended.as_secs_f64()),
        Some(ended < Duration::from_secs(10)),
    );
}

/// Waits until so many agents sleep; how many do.
fn sleeping(driver: &mut Child, count: usize) -> usize {
    let began = Instant::now();
    loop {
        let all = descendants(driver.id()).into_iter().filter(|process| name(*process) == "sleep").count();
        if all >= count || began.elapsed() > MAX_START || driver.try_wait().unwrap().is_some() {
            return all;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The driver and the guards below it.
fn of_ours(driver: u32) -> Vec<u32> {
    let guards =
        descendants(driver).into_iter().filter(|process| ["ftl", "exe"].contains(&name(*process).as_str()));
    std::iter::once(driver).chain(guards).collect()
}

fn descendants(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = children.split_whitespace().filter_map(|one| one.parse().ok()).collect();
            found.extend_from_slice(&children);
            open.extend(children);
        }
    }
    found
}

fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

/// The share of memory of a process, in KiB.
fn memory(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}

/// The ticks of the processor that a process has had, a hundred a second.
fn ticks(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let of = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    of(11) + of(12)
}
