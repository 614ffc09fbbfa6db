//! What a person waits for: the start of a command, a guard, a verify that could have been run before, big repositories.
//! Each stands beside something else in the same run.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use tempfile::TempDir;

use super::flows::{ftl, median, repository, task, writes};
use super::rows::row;

/// How often a short command is started, and how many guards are looked at.
const STARTS: usize = 60;
const GUARDS: usize = 200;

/// How often a task of some seconds and one in a big repository are measured.
const WAITS: usize = 3;

pub(crate) fn all() {
    start();
    guards();
    waiting();
    files();
}

/// The processor time of everything that was started and waited for until now.
fn spent() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap())
}

fn cost(dir: &Path, program: &str, words: &[&str]) -> Duration {
    let before = spent();
    let mut command = Command::new(program);
    command.current_dir(dir).args(words).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    spent().checked_sub(before).unwrap()
}

/// `ftl campaign status` in an empty folder beside `git version`.
fn start() {
    let dir = TempDir::new().unwrap();
    let calls: [(&str, &[&str]); 4] = [
        (env!("CARGO_BIN_EXE_ftl"), &["campaign", "status"]),
        (env!("CARGO_BIN_EXE_ftl"), &["--version"]),
        ("git", &["version"]),
        ("true", &[]),
    ];
    let mut all: [Vec<Duration>; 4] = Default::default();
    for _ in 0..STARTS {
        for ((program, words), costs) in calls.iter().zip(&mut all) {
            costs.push(cost(dir.path(), program, words));
        }
    }
    let [status, version, git, nothing] = all.map(median);
    println!(
        "start       campaign status {status:?}, --version {version:?}, git version {git:?}, true {nothing:?}: {:.2} times git",
        status.as_secs_f64() / git.as_secs_f64()
    );
    let ratio = status.as_secs_f64() / git.as_secs_f64();
    row(
        "`ftl campaign status`, processor",
        "2 times `git version`",
        &format!("{ratio:.2}"),
        Some(ratio <= 2.0),
    );
}

/// A guard and our end of its socket.
struct Guard(Child, UnixStream);

impl Guard {
    fn start() -> Guard {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftl"));
        command.arg(ftl_process::GUARD_WORD).env_clear().stdin(Stdio::from(OwnedFd::from(theirs)));
        Guard(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), ours)
    }

    /// Whether it leads a session of its own, which is what it does before it waits.
    fn is_ready(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let mut fields = stat.rsplit(") ").next().unwrap().split(' ');
        let own = self.0.id().to_string();
        fields.next() == Some("S") && fields.nth(2).is_some_and(|session| session == own)
    }

    /// Its share of memory, in KiB.
    fn memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.0.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// What a guard takes that waits for its request.
fn guards() {
    let before = spent();
    let mut all: Vec<Guard> = (0..GUARDS).map(|_| Guard::start()).collect();
    while !all.iter().all(Guard::is_ready) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let memory = all.iter().map(Guard::memory).sum::<u64>() / GUARDS as u64;
    all.iter().for_each(|guard| guard.1.shutdown(std::net::Shutdown::Both).unwrap());
    for guard in &mut all {
        guard.0.wait().unwrap();
    }
    let each = spent().checked_sub(before).unwrap() / u32::try_from(GUARDS).unwrap();
    println!("guard       {memory} KiB and {each:?} of processor each, {GUARDS} at once");
    row("a guard, memory of its own", "300 KiB", &format!("{memory} KiB"), Some(memory < 300));
    let millis = each.as_secs_f64() * 1e3;
    row("a guard, processor", "1 ms", &format!("{millis:.2} ms"), Some(millis < 1.0));
}

/// An agent of 3 s whose work is verified for 1 s.
fn waiting() {
    let script = writes("0001-t", "a.txt").replacen("[[scene.step]]\n", "[[scene.step]]\ndelay = 3000\n", 1);
    let mut one = task(1, "a.txt", &[]);
    one["verify"] = "sleep 1; grep -q done a.txt".into();
    let mut took = Vec::new();
    for _ in 0..WAITS {
        let dir = repository(&script, std::slice::from_ref(&one), None);
        took.push(ftl(dir.path(), &["task", "run", "all is done", "--plan", "plan.json", "--land", "ff"]));
    }
    let took = median(took).as_secs_f64();
    println!("waiting     an agent of 3 s and a verify of 1 s: {took:.2} s");
    row("an agent of 3 s, a verify of 1 s", "4.4 s", &format!("{took:.2} s"), Some(took <= 4.4));
}

/// A one-file task in repositories of many files, beside the bare git commands; the second task finds its checkouts.
fn files() {
    let script = [writes("0001-t", "a.txt"), writes("0002-t", "b.txt")].concat();
    for count in [20, 400, 5_000, 50_000] {
        let (mut bare, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..WAITS {
            let dir = repository(&script, &[task(1, "a.txt", &[])], None);
            grow(dir.path(), count);
            bare.push(by_hand(dir.path()));
            let words = ["task", "run", "all is done", "--plan", "plan.json", "--land", "ff"];
            first.push(ftl(dir.path(), &words));
            let plan = fs::read_to_string(dir.path().join("plan.json")).unwrap();
            fs::write(dir.path().join("plan.json"), plan.replace("0001", "0002").replace("a.txt", "b.txt"))
                .unwrap();
            second.push(ftl(dir.path(), &words));
        }
        let [bare, first, second] = [bare, first, second].map(median);
        println!(
            "files       {count}: bare {bare:?}, first task {first:?}, second {second:?}: {:.2} times bare",
            second.as_secs_f64() / bare.as_secs_f64()
        );
        let (more, times) =
            (second.saturating_sub(bare).as_millis(), second.as_secs_f64() / bare.as_secs_f64());
        let (goal, reached) = match count {
            20 => ("+90 ms", Some(more <= 90)),
            400 => ("+200 ms", Some(more <= 200)),
            50_000 => ("1.5 times bare git", Some(times <= 1.5)),
            _ => ("-", None),
        };
        row(
            &format!("one-file task, {count} files"),
            goal,
            &format!("+{more} ms, {times:.2} times"),
            reached,
        );
    }
}

fn grow(dir: &Path, count: usize) {
    for at in 0..count {
        let file = dir.join(format!("src/{}/{at}.txt", at / 100));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("file {at}\n").repeat(20)).unwrap();
    }
    let git = |words: &[&str]| {
        let done = Command::new("git").current_dir(dir).args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["add", "-A"]);
    git(&["commit", "-qm", "many"]);
}

fn by_hand(dir: &Path) -> Duration {
    let tree = dir.parent().unwrap().join(format!("bare-{}", std::process::id()));
    let tree = tree.display();
    let words = format!(
        "git worktree add -q {tree} HEAD && cd {tree} && echo done > bare.txt && grep -q done bare.txt && git add -A && \
         git commit -qm done && cd - >/dev/null && git worktree remove {tree}"
    );
    let began = Instant::now();
    let done = Command::new("sh").current_dir(dir).args(["-c", &words]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    began.elapsed()
}
