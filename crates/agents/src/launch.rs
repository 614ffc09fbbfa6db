//! Programs that a backend speaks to by lines, over their standard input and output.
//!
//! A [`Launcher`] of the engine starts them, in a process tree that the engine owns; nothing here starts a
//! process. A line is never cut in two, never longer than [`MAX_LINE_BYTES`], and what has not been read yet
//! is never more than [`MAX_UNREAD_BYTES`]: a program that says more is ended, not waited for.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ftl_process::sandbox::Reach;

use crate::error::AgentError;

/// How long one line of a program may be.
pub const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// How much a program may have said that its session has not read yet.
pub const MAX_UNREAD_BYTES: usize = 32 * 1024 * 1024;

/// A program, completely: nothing else of ours reaches it but the mark of its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProgram {
    /// An absolute path, or a name to be looked up in the PATH of `env`.
    pub program: OsString,
    /// The arguments of the program.
    pub args: Vec<OsString>,
    /// The folder in which it starts.
    pub folder: PathBuf,
    /// Its whole environment, keys included.
    pub env: Vec<(OsString, OsString)>,
    /// What it needs beside what its role may touch.
    pub reach: Reach,
}

/// Starts programs in process trees that the engine owns. The engine hands one in.
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Starts a program. What cannot be started is told here or as its end.
    fn launch(&self, program: &AgentProgram) -> Result<Launched, AgentError>;

    /// Which network its programs have.
    fn network(&self) -> ProgramNetwork {
        ProgramNetwork::Host
    }
}

/// Which network a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramNetwork {
    /// That of this machine.
    Host,
    /// One of its own, in which a relay at a port leads to the socket of a model gate.
    Own {
        /// The port of its own loopback.
        port: u16,
    },
}

/// A program that was started. Dropping it ends it, with all that it has started.
pub struct Launched {
    /// The program's standard input.
    pub input: Arc<dyn InputChannel>,
    /// The lines of its standard output, and its end.
    pub output: Hearing,
    /// The tree of its processes.
    pub tree: Box<dyn Tree>,
}

/// The standard input of a program.
pub trait InputChannel: Send + Sync {
    /// Gives it bytes; never waits until it has read them. An error when it reads no more.
    fn write(&self, bytes: &[u8]) -> Result<(), InputError>;
    /// The program finds the end after what it was given.
    fn close(&self);
}

/// Why a program was not given what was written to it, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(pub String);

impl fmt::Display for InputError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

/// A tree of processes.
pub trait Tree: Send {
    /// Ends all of it and waits until nothing of it is alive. Dropping it does the same.
    fn end(self: Box<Self>);
}

/// Something that was heard of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line of its output, without its end.
    Line(Vec<u8>),
    /// It has ended, and this was all.
    Ended(ProgramExit),
}

/// How it is told that a program was ended because it said more than a session can read.
const TOO_MUCH: &str = "it wrote";

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProgramExit {
    /// Its code, if it ended by itself.
    pub code: Option<i32>,
    /// How it ended, in a sentence.
    pub how: String,
    /// The end of what it wrote to standard error.
    pub complaint: String,
    /// Whether it was ended because it said nothing, or not enough, for too long.
    pub timed_out: bool,
    /// Whether the machine could not start it: nothing was begun, and that is no fault of the agent.
    pub machine: bool,
}

impl ProgramExit {
    /// Whether it was ended because it said more than a session can read.
    pub fn is_flood(&self) -> bool {
        self.how.starts_with(TOO_MUCH)
    }
}

/// Why a piece of output is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// It holds a line that is too long.
    LongLine,
    /// More was written before than the session has read.
    Unread,
    /// The session that listened is gone.
    NobodyListens,
}

impl fmt::Display for OutputError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::LongLine => {
                write!(out, "{TOO_MUCH} a line of more than {MAX_LINE_BYTES} bytes")
            }
            OutputError::Unread => {
                write!(out, "{TOO_MUCH} more than {MAX_UNREAD_BYTES} bytes that nobody has read")
            }
            OutputError::NobodyListens => out.write_str("nobody listens any more"),
        }
    }
}

impl std::error::Error for OutputError {}

/// The two ends of what a program says: one for who reads its output, one for who listens.
pub fn hearing() -> (Telling, Hearing) {
    let (send, receive) = channel();
    let unread = Arc::new(AtomicUsize::new(0));
    let (waker, has_ended) = (Waker(send.clone()), false);
    let telling = Telling { send, unread: unread.clone(), line: Vec::new(), has_ended };
    (telling, Hearing { receive, waker, unread, exit: None })
}

/// What goes from one end to the other.
#[derive(Debug)]
enum Message {
    Heard(Heard),
    /// Something else has happened that the session should look at.
    Woken,
}

/// Wakes the thread that listens to a program: something else than its output wants to be looked at.
#[derive(Clone, Debug)]
pub struct Waker(Sender<Message>);

impl Waker {
    /// Wakes it, if it still listens.
    pub fn wake(&self) {
        let _ = self.0.send(Message::Woken);
    }
}

/// The end of the channel for the thread that reads a program's output.
#[derive(Debug)]
pub struct Telling {
    send: Sender<Message>,
    unread: Arc<AtomicUsize>,
    line: Vec<u8>,
    has_ended: bool,
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.has_ended {
            let how = String::from("nobody reads its output any more");
            let _ =
                self.send.send(Message::Heard(Heard::Ended(ProgramExit { how, ..ProgramExit::default() })));
        }
    }
}

impl Telling {
    /// Takes a piece of output. An error, in a sentence, when it is more than the session can read.
    pub fn tell(&mut self, mut bytes: &[u8]) -> Result<(), OutputError> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[..end])?;
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.send(line)?;
        }
        self.grow(bytes)
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        if self.line.len() + bytes.len() > MAX_LINE_BYTES {
            return Err(OutputError::LongLine);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn send(&self, line: Vec<u8>) -> Result<(), OutputError> {
        let unread = self.unread.fetch_add(line.len(), Ordering::Relaxed) + line.len();
        if unread > MAX_UNREAD_BYTES {
            return Err(OutputError::Unread);
        }
        self.send.send(Message::Heard(Heard::Line(line))).map_err(|_| OutputError::NobodyListens)
    }

    /// The program has ended. What it said last without an end of line is a line too.
    pub fn on_exit(mut self, exit: ProgramExit) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            let _ = self.send.send(Message::Heard(Heard::Line(line)));
        }
        let _ = self.send.send(Message::Heard(Heard::Ended(exit)));
        self.has_ended = true;
    }
}

/// The end of the channel for the session, which listens to the program.
#[derive(Debug)]
pub struct Hearing {
    receive: Receiver<Message>,
    waker: Waker,
    unread: Arc<AtomicUsize>,
    exit: Option<ProgramExit>,
}

impl Hearing {
    /// A waker for the session that listens here.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The next thing that is heard within a time; nothing also where a waker is used. After the end it is the end
    /// again.
    pub fn next(&mut self, limit: Duration) -> Option<Heard> {
        if let Some(exit) = &self.exit {
            return Some(Heard::Ended(exit.clone()));
        }
        match self.receive.recv_timeout(limit) {
            Ok(Message::Heard(Heard::Line(line))) => {
                self.unread.fetch_sub(line.len(), Ordering::Relaxed);
                Some(Heard::Line(line))
            }
            Ok(Message::Heard(Heard::Ended(exit))) => {
                self.exit = Some(exit.clone());
                Some(Heard::Ended(exit))
            }
            // It holds an end of its own to be woken by, so the other one is never seen to go: it says so.
            Ok(Message::Woken) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// The line of a complaint that names what went wrong: the first that speaks of an error, or the first one. What stands
/// around it in a stack trace says where, and not what.
pub(crate) fn first_cause(complaint: &str) -> &str {
    const NAMES: [&str; 7] = ["error", "fatal", "panicked", "exception", "not found", "cannot", "no such"];
    let lines = || complaint.lines().map(str::trim).filter(|line| !line.is_empty());
    // `at f (file:1:2)` and `File "x", line 3` are places.
    let is_place =
        |line: &str| line.starts_with("at ") || line.starts_with("File \"") || line.starts_with('^');
    let tells = |line: &&str| {
        let small = line.to_lowercase();
        !is_place(line) && NAMES.iter().any(|name| small.contains(name))
    };
    lines().find(tells).or_else(|| lines().find(|line| !is_place(line))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn line(text: &str) -> Option<Heard> {
        Some(Heard::Line(text.as_bytes().to_vec()))
    }

    #[test]
    fn the_line_that_names_the_error_is_the_cause() {
        let node = "node:fs:2862\n    at realpathSync (node:fs:1:2)\n\nError: ENOENT: no such file, lstat '/home-x'\n    \
            at loadSettings (x.js:3:4)\n    at main (x.js:9:9)\n\nNode.js v24\n";
        let python = "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module\n";
        let cases = [
            (node, "Error: ENOENT: no such file, lstat '/home-x'"),
            (python, "ModuleNotFoundError: No module"),
            (
                "thread 'main' panicked at src/main.rs:1\nindex out of bounds\n",
                "thread 'main' panicked at src/main.rs:1",
            ),
            ("starting\nbye\n", "starting"),
            ("   at x (y)\n", ""),
            ("", ""),
        ];
        for (complaint, wanted) in cases {
            assert_eq!(first_cause(complaint), wanted, "{complaint}");
        }
    }

    #[test]
    fn pieces_become_lines_and_the_end_stays() {
        let (mut telling, mut hearing) = hearing();
        telling.tell(b"one\ntw").unwrap();
        telling.tell(b"o\n\nthr").unwrap();
        assert_eq!(
            (hearing.next(NOW), hearing.next(NOW), hearing.next(NOW)),
            (line("one"), line("two"), line(""))
        );
        assert_eq!(hearing.next(NOW), None);
        let exit = ProgramExit { code: Some(0), ..ProgramExit::default() };
        telling.on_exit(exit.clone());
        assert_eq!(hearing.next(NOW), line("thr"));
        assert_eq!(hearing.next(NOW), Some(Heard::Ended(exit.clone())));
        assert_eq!(hearing.next(NOW), Some(Heard::Ended(exit)));
    }

    #[test]
    fn a_reader_that_is_gone_is_an_end() {
        let (telling, mut hearing) = hearing();
        drop(telling);
        assert!(matches!(hearing.next(NOW), Some(Heard::Ended(exit)) if exit.how.contains("nobody reads")));
    }

    #[test]
    fn a_line_has_a_limit() {
        let (mut telling, _hearing) = hearing();
        telling.tell(&vec![b'x'; MAX_LINE_BYTES]).unwrap();
        assert!(telling.tell(b"x").unwrap_err().to_string().contains("a line of more than"));
    }

    #[test]
    fn what_nobody_reads_has_a_limit_and_what_is_read_makes_room() {
        let (mut telling, mut hearing) = hearing();
        let mut piece = vec![b'x'; MAX_LINE_BYTES];
        piece.push(b'\n');
        for _ in 0..MAX_UNREAD_BYTES / MAX_LINE_BYTES {
            telling.tell(&piece).unwrap();
        }
        assert!(matches!(hearing.next(NOW), Some(Heard::Line(_))));
        telling.tell(&piece).unwrap();
        assert!(telling.tell(&piece).unwrap_err().to_string().contains("nobody has read"));
    }
}
