//! Processes: every command and agent runs in a tree of its own, which `ftl` owns to the end.
//!
//! An attempt is run by a [`Supervisor`] under a [`guard`](mod@guard): a small process of ours that starts the
//! command, adopts whatever detaches from it, and ends all of it when the command ends, when it is
//! told to, or when the process that started the guard dies, however it dies. Nothing that an attempt
//! started is alive two seconds after it has ended.
//!
//! What is absent: no shell, no inherited environment, no wait without a limit, no signal to a bare
//! process number, no output kept without a cap. Nothing here knows what an action is or what an
//! exit code means. The guard of this module is a process, and has nothing to do with the guards of
//! protocols.
//!
//! A [`sandbox`] is what an attempt can reach. It sees `ftl-folder` and nothing else of ours: no store, no git, no protocol.
//!
//! Linux only: it stands on `/proc`, pidfds, child subreapers and descriptors passed over sockets.

pub mod cancel;
pub mod capture;
pub mod evidence;
pub mod fence;
pub mod foreign;
pub mod gits;
pub mod guard;
mod guard_handle;
mod hide;
pub mod holder;
pub mod lineage;
mod lines;
pub mod lock;
pub mod lock_gate;
pub mod peer;
pub mod procfs;
pub mod programs;
pub mod relay;
pub mod sandbox;
pub mod secrets;
mod signals;
mod stdin;
pub mod supervisor;
pub mod table;
mod tree;
mod wire;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use cancel::{Cancel, CancelHook};
pub use capture::{Captured, Room, printable};
pub use fence::Fence;
pub use lineage::{AgentLineage, Witness, inside_agent};
pub use lock::{AttemptFile, LeftoverEnd, LockError, attempts, end_leftover, end_leftovers};
pub use procfs::Namespaces;
pub use supervisor::{Running, StdinWriter, Supervisor, own_orphans};

/// The variable that marks everything that an agent or a command of ours starts.
pub const MARK: &str = "FTL_ATTEMPT";

/// How the name of every mark begins. A mark says what may be killed, so no variable that other
/// programs use can be one.
const MARK_PREFIX: &str = "FTL_";

/// How long the value of a mark may be.
pub const MAX_MARK_BYTES: usize = 256;

/// The word that makes a program of ours a guard.
pub const GUARD_WORD: &str = "__guard";

/// How a guard is started: a program that calls [`guard::main`] when it is given these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The path of the program.
    pub program: PathBuf,
    /// Its words, [`GUARD_WORD`] first.
    pub args: Vec<OsString>,
}

impl Guard {
    /// This same program, also after its file was replaced by a newer one.
    pub fn own() -> Guard {
        Guard::of(Path::new("/proc/self/exe"))
    }

    /// Another program that knows the word.
    pub fn of(program: &Path) -> Guard {
        Guard { program: program.to_owned(), args: vec![GUARD_WORD.into()] }
    }
}

/// What is to be run, completely: nothing else of ours reaches it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program: an absolute path, or a name to be looked up in the PATH of `env`.
    pub program: OsString,
    /// The arguments of the program.
    pub args: Vec<OsString>,
    /// The folder it starts in.
    pub folder: PathBuf,
    /// Its whole environment, but for the mark.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads from its standard input.
    pub stdin: Stdin,
    /// How long and how much.
    pub limits: ProcessLimits,
    /// The attempt's file, from the supervisor's folder of attempts.
    pub lock: PathBuf,
    /// The fence that it must not be behind; nothing where no other process can take the run over.
    pub fence: Option<Fence>,
    /// The variable that marks its tree; the value belongs to this attempt alone.
    pub mark: Mark,
    /// What is around it; nothing but the guard where nothing is said.
    pub sandbox: Option<Arc<sandbox::Sandbox>>,
}

/// The standard input of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the stream is at its end.
    Null,
    /// These bytes, and then the end.
    Bytes(Vec<u8>),
    /// What [`Running::stdin`] is given, until it is closed.
    Open,
}

/// How long a process may take and how much of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Until its guard has it running, which includes waiting until an older attempt is dead; 30 s.
    pub launch: Duration,
    /// Until the first byte of output; off for commands, 60 s for agents.
    pub startup: Option<Duration>,
    /// Between two bytes of output; 10 min.
    pub silence: Option<Duration>,
    /// In all, before it is asked to end; 30 min.
    pub soft: Option<Duration>,
    /// In all, before it is killed without being asked; 35 min.
    pub hard: Option<Duration>,
    /// From being asked to end to being killed; 5 s.
    pub grace: Duration,
    /// Bytes of the beginning of each stream in memory; 32 KiB.
    pub head: usize,
    /// Bytes of the end of each stream in memory; 32 KiB.
    pub tail: usize,
    /// Bytes of each stream on disk; 16 MiB.
    pub keep: u64,
    /// How many processes the user may have for it to start one more; off. The kernel counts all
    /// that the user has, and does not hold root to it.
    pub processes: Option<u64>,
    /// How large a file it may write; off.
    pub file_bytes: Option<u64>,
}

impl ProcessLimits {
    /// What an agent gets unless the settings differ: it has to speak within a minute.
    pub fn of_agent() -> ProcessLimits {
        ProcessLimits { startup: Some(Duration::from_secs(60)), ..ProcessLimits::default() }
    }

    /// How much of one stream is kept.
    pub fn room(&self) -> Room {
        Room { head: self.head, tail: self.tail, keep: self.keep }
    }
}

impl Default for ProcessLimits {
    fn default() -> ProcessLimits {
        ProcessLimits {
            launch: Duration::from_secs(30),
            startup: None,
            silence: Some(Duration::from_secs(10 * 60)),
            soft: Some(Duration::from_secs(30 * 60)),
            hard: Some(Duration::from_secs(35 * 60)),
            grace: Duration::from_secs(5),
            head: 32 * 1024,
            tail: 32 * 1024,
            keep: 16 * 1024 * 1024,
            processes: None,
            file_bytes: None,
        }
    }
}

/// A variable that marks a tree of processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(String, String)", into = "(String, String)")]
pub struct Mark {
    name: String,
    value: String,
}

impl Mark {
    /// A mark. Its name begins with `FTL_`, its value is not empty, neither has a NUL.
    pub fn new(name: &str, value: &str) -> Result<Mark, MarkError> {
        let letter = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if !name.starts_with(MARK_PREFIX) || !name.bytes().all(letter) {
            return Err(MarkError::Name(name.to_owned()));
        }
        if value.is_empty() || value.len() > MAX_MARK_BYTES || value.contains('\0') {
            return Err(MarkError::Value(name.to_owned()));
        }
        Ok(Mark { name: name.to_owned(), value: value.to_owned() })
    }

    /// The name of the variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of the variable, which belongs to one attempt.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether a process was started with it, as far as we may look.
    pub fn is_in_environment_of(&self, pid: i32) -> bool {
        let block = table::environment(pid).unwrap_or_default();
        table::variable(&block, &self.name) == Some(self.value.as_bytes())
    }
}

/// Why a variable cannot mark a tree of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkError {
    /// Its name does not begin with `FTL_`, or has other letters than names of variables.
    Name(String),
    /// The value of the variable of that name is empty, too long, or has a NUL.
    Value(String),
}

impl fmt::Display for MarkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MarkError::Name(name) => {
                write!(out, "`{name}` cannot mark a process: a mark is called {MARK_PREFIX}…")
            }
            MarkError::Value(name) => {
                write!(out, "the value of {name} must have 1 to {MAX_MARK_BYTES} bytes and no NUL")
            }
        }
    }
}

impl std::error::Error for MarkError {}

impl TryFrom<(String, String)> for Mark {
    type Error = MarkError;

    fn try_from((name, value): (String, String)) -> Result<Mark, MarkError> {
        Mark::new(&name, &value)
    }
}

impl From<Mark> for (String, String) {
    fn from(mark: Mark) -> (String, String) {
        (mark.name, mark.value)
    }
}

/// Which of the two streams of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It is not known: its guard was lost.
    Unknown,
}

impl fmt::Display for How {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exited(code) => write!(out, "exit code {code}"),
            How::Signalled(signal) => write!(out, "signal {signal}"),
            How::Unknown => write!(out, "an end that nobody saw"),
        }
    }
}

/// Why we ended a process, if we did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It did not print a byte in time.
    Startup,
    /// It printed nothing for too long.
    Silence,
    /// It took too long, and was asked to end.
    Soft,
    /// It took too long, and was killed.
    Hard,
    /// The engine or a person asked for it.
    Cancelled,
    /// The guard was killed or did not answer, most likely by what it guarded.
    GuardLost,
}

impl Cut {
    /// The reason, for people.
    pub fn sentence(self, limits: &ProcessLimits) -> String {
        let time = |limit: Option<Duration>| Time(limit.unwrap_or_default());
        match self {
            Cut::Startup => format!("it printed nothing within {} of its start", time(limits.startup)),
            Cut::Silence => format!("it printed nothing for {}", time(limits.silence)),
            Cut::Soft => format!("it took longer than {} and was asked to end", time(limits.soft)),
            Cut::Hard => format!("it took longer than {} and was killed", time(limits.hard)),
            Cut::Cancelled => "it was cancelled".to_owned(),
            Cut::GuardLost => "its guard was killed or did not answer, so all of it was ended".to_owned(),
        }
    }
}

/// A duration as people say it.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0..1_000 => write!(out, "{millis} ms"),
            1_000..120_000 => write!(out, "{} s", millis / 1_000),
            120_000.. => write!(out, "{} min", millis / 60_000),
        }
    }
}

/// The end of a process, with its output.
#[derive(Debug)]
pub struct ProcessExit {
    /// With an exit code or by a signal.
    pub how: How,
    /// Why we ended it, if we did.
    pub cut: Option<Cut>,
    /// Its standard output.
    pub out: Captured,
    /// Its standard error.
    pub err: Captured,
    /// From its start to the end of the last process of its tree.
    pub took: Duration,
    /// How many processes of its tree were alive when it ended, and had to be ended.
    pub swept: usize,
    /// How many of them could not be ended: the kernel holds them, or they belong to another user.
    pub left: usize,
    /// The limits that it had.
    pub limits: ProcessLimits,
}

impl ProcessExit {
    /// How it ended and why, for people.
    pub fn sentence(&self) -> String {
        match self.cut {
            None => format!("it ended with {}", self.how),
            Some(cut) => format!("{}; it ended with {}", cut.sentence(&self.limits), self.how),
        }
    }
}

/// Why something could not be run.
#[derive(Debug)]
pub enum RunError {
    /// What is asked for can never be run.
    Bad(String),
    /// The guard cannot be started or spoken to.
    Guard(io::Error),
    /// The guard did not answer in time, or died, before anything was started.
    NoAnswer,
    /// The command cannot be started.
    CouldNotStart(String),
    /// An older attempt of the same action is still alive.
    Busy(String),
    /// It was cancelled before it began.
    Cancelled,
}

impl RunError {
    /// What to do about it, if there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunError::Bad(_) | RunError::NoAnswer | RunError::Cancelled => None,
            RunError::Guard(_) => Some("look whether the machine is out of processes, memory or descriptors"),
            RunError::CouldNotStart(_) => Some("look whether the program is installed and may be run"),
            RunError::Busy(_) => Some("run \"ftl doctor\" to see what is left of it"),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Bad(what) => write!(out, "this cannot be run: {what}"),
            RunError::Guard(error) => write!(out, "the guard process cannot be started: {error}"),
            RunError::NoAnswer => {
                write!(out, "the guard process ended or was silent before anything was started")
            }
            RunError::CouldNotStart(what) => write!(out, "{what}"),
            RunError::Busy(what) => write!(out, "{what}"),
            RunError::Cancelled => write!(out, "it was cancelled before it began"),
        }
    }
}

impl std::error::Error for RunError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_variable_of_ours_can_be_a_mark() {
        assert!(Mark::new(MARK, "abc.1").is_ok());
        for (name, value) in [("PATH", "x"), ("FTL_a", "x"), ("FTL_=", "x"), (MARK, ""), (MARK, "a\0b")] {
            assert!(Mark::new(name, value).is_err(), "{name}={value:?}");
        }
        assert!(Mark::new(MARK, &"x".repeat(MAX_MARK_BYTES)).is_ok());
        assert!(Mark::new(MARK, &"x".repeat(MAX_MARK_BYTES + 1)).is_err());
        assert!(serde_json::from_str::<Mark>(r#"["HOME","x"]"#).is_err(), "a forged file is refused");
    }

    #[test]
    fn reasons_are_sentences_with_the_limit_in_them() {
        let limits = ProcessLimits::of_agent();
        assert_eq!(Cut::Startup.sentence(&limits), "it printed nothing within 60 s of its start");
        assert_eq!(Cut::Silence.sentence(&limits), "it printed nothing for 10 min");
        assert_eq!(Cut::Soft.sentence(&limits), "it took longer than 30 min and was asked to end");
        let short = ProcessLimits { hard: Some(Duration::from_millis(250)), ..limits };
        assert_eq!(Cut::Hard.sentence(&short), "it took longer than 250 ms and was killed");
    }
}
