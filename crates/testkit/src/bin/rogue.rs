//! A command that misbehaves on request. It exists for the tests of the engine: its first word says
//! how, the others with what. It ends by itself after a minute, whatever happens to its tests.
//!
//! It forks by starting itself again, so that it needs no unsafe code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::zombie_processes,
    reason = "a stage property of the tests: when it cannot do what it is told, it dies loudly"
)]

use std::ffi::OsString;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::time::{Duration, Instant};

use ftl_process::table::{self, Table};
use ftl_process::{
    Cancel, Guard, MARK, Mark, ProcessLimits, Spec, Stdin, Supervisor, inside_agent, own_orphans,
};
use rustix::process::{Pid, Signal, getpid, getrlimit, kill_process, setsid};

/// How long anything of this lasts at most, should a test leave it behind.
const LIFE: Duration = Duration::from_secs(60);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["exit", code] => exit(code.parse().unwrap()),
        ["die", signal] => die(signal.parse().unwrap()),
        ["sleep"] => std::thread::sleep(LIFE),
        ["say-then-sleep", text] => say_then_sleep(text),
        ["ignore-term"] => ignore_term(),
        ["dots", count, millis] => dots(count.parse().unwrap(), millis.parse().unwrap()),
        ["slow-start", millis] => slow_start(millis.parse().unwrap()),
        ["busy"] => busy(),
        ["leave", ref how @ ..] => leave(how),
        ["leave-and-sleep", ref how @ ..] => {
            leave(how);
            std::thread::sleep(LIFE);
        }
        ["own-session", ref rest @ ..] => own_session(rest),
        ["twice", ref rest @ ..] => drop(again(rest).spawn().unwrap()),
        ["without-mark", ref rest @ ..] => without_mark(rest),
        ["kill-guard", signal] => kill_guard(signal.parse().unwrap()),
        ["keep-stopping"] => keep_stopping(),
        ["flood", stream, bytes] => flood(stream, bytes.parse().unwrap(), b'\n'),
        ["one-line", bytes] => flood("out", bytes.parse().unwrap(), b'x'),
        ["chain", millis] => chain(Instant::now() + Duration::from_millis(millis.parse().unwrap())),
        ["chain-until", tick] => chain_until(tick.parse().unwrap()),
        ["odd-bytes"] => {
            io::stdout().write_all(b"\xff\xfe\0 \x1b[31mred\x1b[0m {\"half\": \r\n\xc3").unwrap();
        }
        ["echo"] => echo(),
        ["count-stdin"] => count_stdin(),
        ["close-stdin"] => close_stdin(),
        ["environment"] => environment(),
        ["limits"] => limits(),
        ["folder"] => println!("{}", std::env::current_dir().unwrap().display()),
        ["write-file", path, bytes] => std::fs::write(path, vec![0; bytes.parse().unwrap()]).unwrap(),
        ["lineage"] => println!("{:?}", inside_agent(None, &[]).map(|inside| inside.by)),
        ["lineage", attempts] => {
            println!("{:?}", inside_agent(Some(Path::new(attempts)), &[]).map(|inside| inside.by));
        }
        ["engine", guard, folder, value, ref rest @ ..] => engine(guard, Path::new(folder), value, rest),
        _ => panic!("ftl-rogue does not know {words:?}"),
    }
}

fn again(words: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(words);
    command
}

fn die(signal: i32) {
    kill_process(getpid(), Signal::from_named_raw(signal).unwrap()).unwrap();
    std::thread::sleep(LIFE);
}

fn say(text: &str) {
    println!("{text}");
    io::stdout().flush().unwrap();
}

fn say_then_sleep(text: &str) {
    say(text);
    std::thread::sleep(LIFE);
}

/// Says that it was told to end, and goes on.
fn ignore_term() {
    let signals = [Signal::TERM, Signal::HUP, Signal::INT].map(Signal::as_raw);
    let mut told = signal_hook::iterator::Signals::new(signals).unwrap();
    std::thread::spawn(|| {
        std::thread::sleep(LIFE);
        exit(0);
    });
    // The reader of the output may be gone.
    let _ = writeln!(io::stdout(), "ignoring");
    for _ in told.forever() {
        let _ = writeln!(io::stdout(), "told");
    }
}

fn dots(count: u32, millis: u64) {
    for _ in 0..count {
        print!(".");
        io::stdout().flush().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
    }
}

fn slow_start(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
    say("ready");
}

fn busy() {
    say("busy");
    let end = Instant::now() + LIFE;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Starts something, waits until it says something, says that too, and ends. `silent`: with the streams of its
/// own; otherwise the child holds ours.
fn leave(how: &[&str]) {
    let (silent, words) = match how {
        ["silent", words @ ..] => (true, words),
        words => (false, words),
    };
    let (ready, theirs) = io::pipe().unwrap();
    let mut command = again(words);
    command.stdout(theirs);
    if silent {
        command.stdin(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn().unwrap();
    drop(command);
    let mut line = String::new();
    io::BufReader::new(ready).read_line(&mut line).unwrap();
    say(&format!("left {}", line.trim_end()));
}

/// The first process of a command leads its group, and cannot leave it; it lets a child do so.
fn own_session(rest: &[&str]) {
    if setsid().is_err() {
        let status = again(&[&["own-session"], rest].concat()).status().unwrap();
        exit(status.code().unwrap_or(99));
    }
    let error = std::os::unix::process::CommandExt::exec(&mut again(rest));
    panic!("{error}");
}

fn without_mark(rest: &[&str]) {
    let error = std::os::unix::process::CommandExt::exec(again(rest).env_clear());
    panic!("{error}");
}

/// Signals the nearest guard above us, and then says so.
fn kill_guard(signal: i32) {
    kill_process(guard_above(), Signal::from_named_raw(signal).unwrap()).unwrap();
    say_then_sleep("killed");
}

/// Stops the guard again and again, so that it hardly runs.
fn keep_stopping() {
    let (guard, end) = (guard_above(), Instant::now() + LIFE);
    say("stopping");
    while Instant::now() < end {
        let _ = kill_process(guard, Signal::STOP);
    }
}

fn guard_above() -> Pid {
    let guard = Table::read().unwrap().above(getpid().as_raw_nonzero().get()).into_iter().find(|entry| {
        table::words(entry.pid).is_some_and(|words| words.get(1).is_some_and(|word| word == "__guard"))
    });
    guard.and_then(|entry| Pid::from_raw(entry.pid)).expect("a guard is above us")
}

fn flood(stream: &str, bytes: u64, fill: u8) {
    let mut line = vec![b'x'; 64 * 1024];
    line[64 * 1024 - 1] = fill;
    let write = move |mut out: Box<dyn io::Write>| {
        let mut left = bytes;
        while left > 0 {
            let piece = line.len().min(usize::try_from(left).unwrap());
            out.write_all(&line[..piece]).unwrap();
            left -= piece as u64;
        }
        out.flush().unwrap();
    };
    match stream {
        "out" => write(Box::new(io::stdout())),
        "err" => write(Box::new(io::stderr())),
        "both" => {
            let second = write.clone();
            let thread = std::thread::spawn(move || second(Box::new(io::stderr())));
            write(Box::new(io::stdout()));
            thread.join().unwrap();
        }
        other => panic!("no stream {other}"),
    }
}

/// Three processes at a time, each of which replaces itself by another in a session of its own, until
/// a tick of the clock that all of them share.
fn chain(until: Instant) {
    let tick = monotonic() + until.saturating_duration_since(Instant::now()).as_millis();
    for _ in 0..3 {
        again(&["chain-until", &tick.to_string()]).spawn().unwrap();
    }
    say("chained");
    std::thread::sleep(LIFE);
}

fn chain_until(tick: u128) {
    let _ = setsid();
    if monotonic() < tick {
        again(&["chain-until", &tick.to_string()]).spawn().unwrap();
    }
}

/// Milliseconds on a clock that is the same in every process.
fn monotonic() -> u128 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
    Duration::from_secs_f64(seconds).as_millis()
}

/// A conversation: every line comes back, until a line says that it is over or the input ends.
fn echo() {
    for line in io::stdin().lines() {
        let line = line.unwrap();
        say(&format!("you said {line}"));
        if line == "bye" {
            break;
        }
    }
}

/// Prints as much as it reads, so that a caller which writes all before it reads locks up.
fn count_stdin() {
    let (mut buffer, mut total) = (vec![0; 64 * 1024], 0);
    loop {
        match io::stdin().read(&mut buffer).unwrap() {
            0 => break,
            count => {
                total += count;
                io::stdout().write_all(&buffer[..count]).unwrap();
            }
        }
    }
    io::stdout().flush().unwrap();
    eprintln!("{total}");
}

/// Closes its input, by becoming a program that has another, and goes on.
fn close_stdin() {
    let mut command = again(&["slow-start", "300"]);
    let error = std::os::unix::process::CommandExt::exec(command.stdin(Stdio::null()));
    panic!("{error}");
}

fn environment() {
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    variables.sort();
    for (name, value) in variables {
        println!("{}={}", name.display(), value.display());
    }
}

fn limits() {
    for resource in
        [rustix::process::Resource::Core, rustix::process::Resource::Nproc, rustix::process::Resource::Fsize]
    {
        let limit = getrlimit(resource);
        println!("{resource:?} {:?} {:?}", limit.current, limit.maximum);
    }
}

/// A process that drives a run, so that a test can kill it.
fn engine(guard: &str, folder: &Path, value: &str, rest: &[&str]) {
    own_orphans().unwrap();
    let guard = Guard::of(Path::new(guard));
    let supervisor = Supervisor::new(guard, &folder.join("attempts"), &folder.join("spool")).unwrap();
    let spec = Spec {
        program: std::env::current_exe().unwrap().into(),
        args: rest.iter().map(OsString::from).collect(),
        folder: folder.to_owned(),
        env: Vec::new(),
        stdin: Stdin::Null,
        limits: ProcessLimits::default(),
        lock: "run.1".into(),
        fence: None,
        mark: Mark::new(MARK, value).unwrap(),
        sandbox: None,
    };
    let mut hear = |_, bytes: &[u8]| {
        io::stdout().write_all(bytes).unwrap();
        io::stdout().flush().unwrap();
    };
    let ended = supervisor.run(&spec, &Cancel::new(), &mut hear);
    println!("{:?}", ended.map(|ended| ended.how));
}
