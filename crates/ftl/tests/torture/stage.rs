//! What the torture stands on: a repository of its own, runs of the program with a deadline, and
//! numbers that are drawn the same each time.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ftl_testkit::faults::Faults;
use serde_json::Value as Json;
use tempfile::TempDir;

/// What must have ended by then hangs. The machine may be busy with other things.
const MAX_WAIT: Duration = Duration::from_secs(180);

/// How often something outside is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(3);

/// What `haul` is opened with.
pub(crate) const HAUL: [&str; 5] =
    ["run", "haul", "crates=[\"a\",\"b\",\"c\",\"d\"]", "--script", "haul.toml"];

/// The path that belongs to the store and to what stands beside it.
pub(crate) const STORE: &str = ".ftl/store";

/// A repository of its own.
pub(crate) struct Stage {
    folder: TempDir,
    root: PathBuf,
}

impl Stage {
    /// One with every document of the torture in it.
    pub(crate) fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("repository");
        fs::create_dir_all(root.join(".git")).unwrap();
        let stage = Stage { root: root.canonicalize().unwrap(), folder };
        stage.write(".ftl/protocols/haul.md", include_str!("documents/haul.md"));
        stage.write(".ftl/protocols/lift.md", include_str!("documents/lift.md"));
        stage.write(".ftl/protocols/desk.md", include_str!("documents/desk.md"));
        stage.write(".ftl/protocols/clerk.md", include_str!("documents/clerk.md"));
        stage.write(".ftl/config.toml", "[policies]\nhaul = \"yes\"\n");
        // Some clerks could ask a coder; where no script answers for one, this one would.
        stage.write(
            "ftl.toml",
            "[agents.idle]\nkind = \"scripted\"\nscript = \"idle.toml\"\n[roles]\ncoder = \"idle\"\n",
        );
        stage.write("idle.toml", "[[scene]]\n[[scene.step]]\nsubmit = {}\n");
        stage.write("haul.toml", include_str!("documents/haul.toml"));
        stage.write("land.sh", include_str!("documents/land.sh"));
        stage.write("agent.sh", include_str!("documents/agent.sh"));
        stage
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A place beside the repository.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The lines of a file; none if there is none.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The command that `ftl` would be run with.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftl"));
        command.args(args).current_dir(&self.root).stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env("FTL_BY", "tester").env("NO_COLOR", "1");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME").env_remove("FTL_ATTEMPT");
        command
    }

    /// Runs `ftl`.
    pub(crate) fn ftl(&self, args: &[&str]) -> ProcessOutcome {
        Running::start(self.command(args)).end()
    }

    /// Runs `ftl` with faults.
    pub(crate) fn faulty(&self, faults: &Faults, args: &[&str]) -> ProcessOutcome {
        let mut command = self.command(args);
        faults.on(&mut command).unwrap();
        Running::start(command).end()
    }

    /// Every run that there is.
    pub(crate) fn runs(&self) -> Vec<Json> {
        let told = self.ftl(&["status", "--json", "--all"]).code(0).json();
        told["runs"].as_array().unwrap().clone()
    }

    /// A run as `ftl status` shows it.
    pub(crate) fn status(&self, run: &str) -> Json {
        self.ftl(&["status", run, "--json"]).code(0).json()["runs"][0].clone()
    }

    /// The journal of a run.
    pub(crate) fn journal(&self, run: &str) -> Vec<Json> {
        self.ftl(&["log", run, "--json"]).code(0).json_lines()
    }

    /// Looks at a run until something is so.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Stage) -> bool) {
        let end = Instant::now() + MAX_WAIT;
        while !is_so(self) {
            assert!(Instant::now() < end, "waited too long for: {what}");
            std::thread::sleep(LOOK);
        }
    }
}

/// The name of the run that a process of `ftl run` has printed, if it has.
pub(crate) fn printed(out: &str) -> Option<String> {
    let line = out.lines().find(|line| line.starts_with("run "))?;
    line.split(' ').nth(1).map(str::to_owned)
}

/// A process of `ftl` that was started. What it prints goes to files, so that nobody who outlives it
/// can keep us waiting.
pub(crate) struct Running {
    child: Child,
    out: File,
    err: File,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
        Running { child: command.spawn().unwrap(), out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed until now.
    pub(crate) fn read_output(&mut self) -> String {
        text(&mut self.out)
    }

    /// What it has said on standard error until now.
    pub(crate) fn complained(&mut self) -> String {
        text(&mut self.err)
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills it, if it has not ended by itself.
    pub(crate) fn kill(mut self) -> ProcessOutcome {
        let _ = self.child.kill();
        self.end()
    }

    /// Kills it so long after now, if it has not ended by itself.
    pub(crate) fn kill_after(mut self, time: Duration) -> ProcessOutcome {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_over() {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.kill()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> ProcessOutcome {
        let end = Instant::now() + MAX_WAIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                let _ = self.child.kill();
                panic!("it hangs: {}{}", text(&mut self.out), text(&mut self.err));
            }
            std::thread::sleep(LOOK);
        };
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        ProcessOutcome { code: status.code(), signal: status.signal(), out, err }
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// How a process ended.
pub(crate) struct ProcessOutcome {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Of what was printed only the end is shown.
impl fmt::Debug for ProcessOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = |text: &str| text[text.ceil_char_boundary(text.len().saturating_sub(1500))..].to_owned();
        writeln!(out, "exit code {:?}, signal {:?}", self.code, self.signal)?;
        writeln!(out, "--- out\n{}--- err\n{}---", tail(&self.out), tail(&self.err))
    }
}

impl ProcessOutcome {
    /// The same, once its exit code is as wanted.
    #[track_caller]
    pub(crate) fn code(self, wanted: i32) -> ProcessOutcome {
        assert_eq!(self.code, Some(wanted), "{self:#?}");
        self
    }

    /// The same, once it said these words, on one stream or the other.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> ProcessOutcome {
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }

    /// Whether it was killed.
    pub(crate) fn is_killed(&self) -> bool {
        self.signal == Some(9)
    }

    /// The same, once it came to an end that is documented: no panic, no signal, no other code.
    #[track_caller]
    pub(crate) fn civil(self) -> ProcessOutcome {
        let documented = [0, 1, 2, 3, 4, 5, 6, 130];
        assert!(self.code.is_some_and(|code| documented.contains(&code)), "{self:#?}");
        assert!(!self.err.contains("panicked") && !self.err.contains("is locked"), "{self:#?}");
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Standard output as a JSON document a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Json> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(read).collect()
    }
}

/// Numbers that look like chance and are the same each time (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice for one purpose. FTL_SEED draws everything anew.
    pub(crate) fn new(purpose: u64) -> Dice {
        Dice(scale("FTL_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most.max(1)
    }
}

/// A number from the environment, or the one of the short form.
pub(crate) fn scale(name: &str, short: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => short,
    }
}

/// Does something for each case, two at a time.
pub(crate) fn each<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let serve = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(case);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(serve);
        serve();
    });
}
