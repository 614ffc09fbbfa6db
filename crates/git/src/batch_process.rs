//! A git that stays and is talked to line by line: starting one for each question takes longer than the answer.
//!
//! It is started like every other git. It is ended when no thread can talk to it any more, or when it does not
//! answer in time; when we are killed its input ends and it goes away by itself. It is never talked to by two at
//! once.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::runner::{Call, MAX_SAID, Runner, hear};
use super::{ErrorKind, GitError};

/// The longest line that git answers with.
pub(super) const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Why a talk came to nothing.
pub(super) enum Broken {
    /// It answered what cannot be understood.
    Said(GitError),
    /// It does not answer any more.
    Lost(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Lost(error)
    }
}

impl From<GitError> for Broken {
    fn from(error: GitError) -> Broken {
        Broken::Said(error)
    }
}

/// Listens to what a git says besides its answers.
type Aside = JoinHandle<io::Result<(Vec<u8>, bool)>>;

/// A git that is being asked.
pub(super) struct Staying {
    /// What it is called in messages.
    what: &'static str,
    pub(super) child: Child,
    to: Option<ChildStdin>,
    pub(super) from: BufReader<Patient>,
    aside: Option<Aside>,
}

impl Staying {
    /// Starts one; `what` is its first word.
    pub(super) fn start(runner: &Runner, what: &'static str, call: &Call<'_>) -> Result<Staying, GitError> {
        let mut child = runner.start(call)?;
        let lost = || GitError::new(ErrorKind::Git, format!("`git {what}` has no pipes"));
        let (to, from) = (child.stdin.take(), child.stdout.take().ok_or_else(lost)?);
        let aside: Option<ChildStderr> = child.stderr.take();
        let aside =
            std::thread::Builder::new().name(String::from("git")).spawn(move || hear(aside, MAX_SAID));
        let from = BufReader::new(Patient { from, limit: runner.longest() });
        Ok(Staying { what, child, to, from, aside: aside.ok() })
    }

    /// Whether it can still be asked.
    pub(super) fn is_there(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Writes to its standard input.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.to.as_mut().ok_or_else(gone)?.write_all(bytes)
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, Broken> {
        let mut line = Vec::new();
        self.from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(Broken::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(line)
    }

    /// What it said when it went away.
    pub(super) fn last_words(self, error: &io::Error) -> GitError {
        self.last_words_and_end(error).0
    }

    /// The same, and whether it went away by itself: then it has left nothing behind.
    pub(super) fn last_words_and_end(mut self, error: &io::Error) -> (GitError, bool) {
        // One that goes away by itself says why first.
        self.to = None;
        let said = if error.kind() == io::ErrorKind::UnexpectedEof { self.read_stderr() } else { None };
        let is_exit = self.end().is_some_and(|status| status.code().is_some());
        let said = said.or_else(|| self.read_stderr()).unwrap_or_else(|| error.to_string());
        (GitError::of_git(format!("`git {}` failed: {said}", self.what), &said), is_exit)
    }

    /// All that it said besides its answers, once it is gone.
    fn read_stderr(&mut self) -> Option<String> {
        let (bytes, _) = self.aside.take()?.join().ok()?.ok()?;
        let said = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(5).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    fn end(&mut self) -> Option<ExitStatus> {
        self.to = None;
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads what git says, for as long as one call may take.
pub(super) struct Patient {
    from: ChildStdout,
    pub(super) limit: Duration,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = Timespec::try_from(self.limit).map_err(io::Error::other)?;
        loop {
            match poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return self.from.read(buffer),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
