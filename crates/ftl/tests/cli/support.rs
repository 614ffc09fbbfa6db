//! What the tests stand on: folders that go away, runs of the binary, and snapshots.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal};
use serde_json::Value as Json;
use sha2::Digest as _;

/// How long anything may take on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A sound document with a diagram and a table.
pub(crate) const MINE: &str = include_str!("documents/mine.md");

/// The documents of this project, by name.
pub(crate) fn built_in(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../protocols/{name}.md"));
    fs::read_to_string(path).unwrap()
}

/// A folder that goes away by itself, with a git root at its top.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("ftl-cli-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join(".git")).unwrap();
        Dir(path.canonicalize().unwrap())
    }

    /// A folder that a command has made below another one.
    pub(crate) fn at(path: &Path) -> Dir {
        Dir(path.to_owned())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder of caches that commands here are told of: beside the folder, for checkouts lie below no project.
    pub(crate) fn cache(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".cache");
        name.into()
    }

    /// The person's own folder of settings: beside the folder, for no repository brings it.
    pub(crate) fn settings(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".settings");
        name.into()
    }

    /// Writes a file as the person would. They trust what they write, also once a test has committed it; what came with a
    /// repository is written by `fs::write`.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Dir {
        let path = self.path(name);
        let is_order = |folder: &&str| name.starts_with(*folder) || name.contains(&format!("/{folder}"));
        if name.ends_with("ftl.toml") || [".ftl/protocols/", ".ftl/prompts/"].iter().any(is_order) {
            self.trust(text.as_ref());
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Writes a file of the person's own folder of settings.
    pub(crate) fn write_own(&self, name: &str, text: &str) {
        fs::create_dir_all(self.settings().join("ftl")).unwrap();
        fs::write(self.settings().join("ftl").join(name), text).unwrap();
    }

    /// Has the person trust what holds these bytes.
    pub(crate) fn trust(&self, bytes: &[u8]) {
        fs::create_dir_all(self.settings().join("ftl")).unwrap();
        let list = self.settings().join("ftl/trusted");
        let mut list = File::options().append(true).create(true).open(list).unwrap();
        writeln!(list, "{:x}  by a test", sha2::Sha256::digest(bytes)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs `ftl` in this folder.
    pub(crate) fn ftl(&self, args: &[&str]) -> CommandOutcome {
        ended(self.command(args))
    }

    /// Runs `ftl` in this folder with something on its standard input.
    #[track_caller]
    pub(crate) fn fed(&self, args: &[&str], input: &str) -> CommandOutcome {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Whoever refuses before it reads closes its end, which is no fault of the test.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        CommandOutcome::of(child.wait_with_output().unwrap())
    }

    /// The command that `ftl` would be run with.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftl"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FTL_BY"] {
            command.env_remove(name);
        }
        self.alone(&mut command);
        command
    }

    /// Nothing of whoever runs the tests reaches a command: no settings, no name.
    fn alone(&self, command: &mut Command) {
        for (name, _) in ftl_process::foreign::VARIABLES {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", self.settings()).env("USER", "tester");
        command.env("XDG_CACHE_HOME", self.cache());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    }

    /// A folder with a real repository in it.
    pub(crate) fn repository() -> Dir {
        let dir = Dir::new();
        fs::remove_dir(dir.path(".git")).unwrap();
        dir.git(&["init", "-q", "."]);
        dir.git(&["config", "user.name", "Ada"]);
        dir.git(&["config", "user.email", "ada@example.org"]);
        dir
    }

    /// What git says in this folder.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        self.alone(&mut command);
        let ended = ended(command);
        assert_eq!(ended.code, 0, "{ended:#?}");
        ended.out
    }

    /// Adds a protocol of the user.
    pub(crate) fn protocol(&self, name: &str, text: &str) -> &Dir {
        self.write(
            &format!(".ftl/protocols/{name}.md"),
            format!("```protocol\nPROTOCOL: {name}\n{text}```\n"),
        )
    }

    /// Runs a protocol to its rest; its name and how the command ended.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> (String, Json) {
        let args: Vec<&str> = ["run"].iter().chain(args).chain(&["--json"]).copied().collect();
        let ended = self.ftl(&args);
        let json = ended.json();
        (json["run"].as_str().unwrap_or_else(|| panic!("{ended:#?}")).to_owned(), json)
    }

    /// A run as `ftl status` shows it.
    #[track_caller]
    pub(crate) fn status(&self, run: &str) -> Json {
        self.ftl(&["status", run, "--json"]).code(0).json()["runs"][0].clone()
    }

    /// The entries of a run.
    #[track_caller]
    pub(crate) fn entries(&self, run: &str) -> Vec<Json> {
        let out = self.ftl(&["log", run, "--json"]).code(0).out;
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Starts `ftl` and does not wait for it.
    #[track_caller]
    pub(crate) fn start(&self, args: &[&str]) -> Started {
        self.start_command(self.command(args))
    }

    /// Starts a command of `ftl` that was prepared, and does not wait for it.
    #[track_caller]
    pub(crate) fn start_command(&self, mut command: Command) -> Started {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (self.path(&format!(".out-{number}")), self.path(&format!(".err-{number}")));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        Started { child: command.spawn().unwrap(), out, err }
    }

    /// A number out of the store while somebody writes it; 0 where there is none yet.
    pub(crate) fn count(&self, query: &str) -> usize {
        let (store, only) = (self.path(".ftl/store/ftl.db"), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
        let count = rusqlite::Connection::open_with_flags(store, only)
            .and_then(|open| open.query_row(query, [], |row| row.get::<_, i64>(0)));
        usize::try_from(count.unwrap_or(0)).unwrap()
    }

    /// The store, to do to it what no program of ours does: without the triggers of entries.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        let open = self.tampering();
        open.execute_batch(
            "DROP TRIGGER IF EXISTS entries_are_never_changed; DROP TRIGGER IF EXISTS entries_are_never_removed;",
        )
        .unwrap();
        open
    }

    /// The store as another tool sees it that has the function without which nobody can write it.
    pub(crate) fn tampering(&self) -> rusqlite::Connection {
        let open = rusqlite::Connection::open(self.path(".ftl/store/ftl.db")).unwrap();
        let flags = rusqlite::functions::FunctionFlags::SQLITE_UTF8;
        open.create_scalar_function("ftl_knows_format_3", 0, flags, |_| Ok(true)).unwrap();
        open
    }
}

/// A command that was started and not waited for. It is ended with the test.
pub(crate) struct Started {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Started {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// What it has printed so far.
    pub(crate) fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// What it has complained so far.
    pub(crate) fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(crate) fn ended(mut self) -> CommandOutcome {
        let mut code = None;
        until("the command has ended", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        use std::os::unix::process::ExitStatusExt as _;
        let code = code.unwrap();
        CommandOutcome {
            code: code.code().unwrap_or_else(|| -code.signal().unwrap()),
            out: fs::read_to_string(&self.out).unwrap(),
            err: fs::read_to_string(&self.err).unwrap(),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks until something holds. It fails by itself when that takes too long.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How long something may take that has two seconds, on a machine that has much else to do.
///
/// While it goes on, a thread sleeps for five milliseconds again and again; what it oversleeps is time in
/// which this machine did not let somebody run who was ready to. Four processes take part in an ending,
/// one after the other, and a tenth of a second is for looking.
#[track_caller]
pub(crate) fn within_two_seconds<T>(work: impl FnOnce() -> T) -> T {
    let nap = Duration::from_millis(5);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut late = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(nap);
                late += began.elapsed().saturating_sub(nap);
            }
            late
        });
        let began = Instant::now();
        let result = work();
        let took = began.elapsed();
        done.store(true, Ordering::Relaxed);
        let margin = sleeper.join().unwrap() * 4 + Duration::from_millis(100);
        assert!(took <= Duration::from_secs(2) + margin, "it took {took:?}, the margin is {margin:?}");
        result
    })
}

/// Whether a process lives; one that nobody has waited for yet does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_dir_all(self.cache());
        let _ = fs::remove_dir_all(self.settings());
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct CommandOutcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutcome {
    fn of(output: Output) -> CommandOutcome {
        use std::os::unix::process::ExitStatusExt as _;
        CommandOutcome {
            code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap()),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The same, once its exit code is as wanted.
    #[track_caller]
    pub(crate) fn code(self, wanted: i32) -> CommandOutcome {
        assert_eq!(self.code, wanted, "{self:#?}");
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Both streams must have said these words, one or the other.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> CommandOutcome {
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

pub(crate) fn ended(mut command: Command) -> CommandOutcome {
    CommandOutcome::of(command.output().unwrap())
}

/// A text without what differs from run to run: names of runs, places, commits, times, dates. Columns stay where they are.
pub(crate) fn masked(text: &str, names: &[(&str, &str)]) -> String {
    let named = names.iter().fold(text.to_owned(), |text, (name, mask)| text.replace(name, mask));
    let mut out = String::new();
    let mut rest = named.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |one: char| one.is_ascii_alphanumeric();
        let end = match is_word(first) {
            // A time or a date is one word.
            true => rest.find(|one: char| !is_word(one) && !matches!(one, ':' | '-')).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        out.push_str(&masked_word(&rest[..end]));
        rest = &rest[end..];
    }
    out
}

/// A time or a date is zeros, and a digest is dots.
fn masked_word(word: &str) -> String {
    let parts: Vec<&str> = word.split([':', '-']).collect();
    let is_time = |one: u8| one.is_ascii_digit() || matches!(one, b'T' | b'Z');
    let is_number =
        |part: &&str| part.bytes().all(is_time) && part.starts_with(|one: char| one.is_ascii_digit());
    let is_hex =
        |part: &&str| part.len() >= 7 && part.bytes().all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f'));
    if parts.len() > 1 && parts.iter().all(is_number) {
        return word.replace(|one: char| one.is_ascii_digit(), "0");
    }
    let masked = parts.iter().filter(|part| is_hex(part));
    masked.fold(word.to_owned(), |word, part| word.replace(part, &".".repeat(part.len())))
}

/// Compares a text with the one on record; `UPDATE_SNAPSHOTS=1` records it anew.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == text,
        "{} differs; UPDATE_SNAPSHOTS=1 records it anew\n--- recorded\n{recorded}\n--- now\n{text}",
        path.display()
    );
}
