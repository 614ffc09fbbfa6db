//! Runs commands under guards, from one thread each: reads what they print, gives them what they are to
//! read, and holds them to their limits.
//!
//! One loop waits for everything at once: both outputs, the input, the guard, the token that cancels,
//! and the nearest deadline. It never sleeps to look again, never waits for one of them alone, and
//! keeps no more of the output than it was told to. Time is the monotonic clock's.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::secrets::Secrets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getpid, set_child_subreaper};

use super::cancel::Cancel;
use super::capture::Capture;
use super::guard_handle::{GuardHandle, MAX_GUARD_END};
use super::lines::Lines;
use super::stdin::Feed;
pub use super::stdin::{MAX_WAITING_BYTES, StdinWriter};
use super::wire::{self, Answer, Request, Word};
use super::{Cut, Fence, Guard, How, ProcessExit, ProcessLimits, RunError, Spec, Stdin, Stream};
use ftl_folder as folder;

/// How long the outputs are read after everything has ended. They end with the last process that
/// holds them; only one outside of the tree can hold them longer.
pub const MAX_DRAIN: Duration = Duration::from_millis(500);

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// How many pieces are read after the time for draining is over: what a pipe can hold by default.
const LAST_PIECES: usize = 2;

/// How often it is looked whether the guard was stopped.
const GUARD_LOOK: Duration = Duration::from_secs(1);

/// In how many looks in a row a guard may be stopped. Then nothing is guarded any more, most likely stopped by
/// what it guards, and the attempt is ended. Looks are counted and not seconds: an engine that slept counts one.
pub const MAX_STOPPED_LOOKS: u32 = 4;

/// Makes this process the one that orphans come to when a guard is killed. Called once, at the start
/// of a process that drives runs. From then on a child of this process that leads a session of its own
/// and has no guard is taken for an orphan when a guard is lost.
pub fn own_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Starts commands under guards, watches their limits, and reads their output.
#[derive(Clone, Debug)]
pub struct Supervisor {
    guard: Guard,
    attempts: PathBuf,
    spool: PathBuf,
    secrets: Arc<Secrets>,
}

impl Supervisor {
    /// A supervisor that keeps the files of its attempts and what overflows in these folders. They
    /// are made if they are not there.
    pub fn new(guard: Guard, attempts: &Path, spool: &Path) -> io::Result<Supervisor> {
        for one in [attempts, spool] {
            folder::make_as(one, 0o700)?;
        }
        let (attempts, spool) = (folder::absolute(attempts)?, folder::absolute(spool)?);
        Ok(Supervisor { guard, attempts, spool, secrets: Arc::default() })
    }

    /// The same with values that no output may show: they are taken out of everything that commands print, before
    /// a caller gets to look at how they ended. What is heard piece by piece is as it came.
    #[must_use]
    pub fn hiding(self, secrets: Arc<Secrets>) -> Supervisor {
        Supervisor { secrets, ..self }
    }

    /// Runs a command to its end. What it prints is also given to `hear`, piece by piece.
    pub fn run(
        &self,
        spec: &Spec,
        cancel: &Cancel,
        hear: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<ProcessExit, RunError> {
        self.start(spec)?.wait(cancel, hear)
    }

    /// Starts a command. Its limits count, and its output is read, while a caller waits for it; what
    /// cannot be started is told then.
    pub fn start(&self, spec: &Spec) -> Result<Running, RunError> {
        check(spec)?;
        let lock = self.attempts.join(&spec.lock);
        let request = request(spec, &lock)?;
        let (out, out_theirs) = io::pipe().map_err(RunError::Guard)?;
        let (err, err_theirs) = io::pipe().map_err(RunError::Guard)?;
        let (feed, stdin_theirs) = feed(&spec.stdin).map_err(RunError::Guard)?;
        let leash = GuardHandle::new(&self.guard, &spec.mark, &lock).map_err(RunError::Guard)?;
        let socket = leash.socket().ok_or(RunError::NoAnswer)?;
        let fds = [stdin_theirs.as_fd(), out_theirs.as_fd(), err_theirs.as_fd()];
        wire::send(socket, &request, &fds).map_err(RunError::Guard)?;
        socket.set_nonblocking(true).map_err(RunError::Guard)?;
        let room = spec.limits.room();
        let tap = |pipe: PipeReader| Tap::new(pipe, Capture::new(room, &self.spool)).map_err(RunError::Guard);
        let secrets = self.secrets.clone();
        Ok(Running { out: tap(out)?, err: tap(err)?, feed, leash, limits: spec.limits, secrets })
    }
}

/// A command that was started. Dropping it ends it, with all that it has started.
#[derive(Debug)]
pub struct Running {
    leash: GuardHandle,
    out: Tap,
    err: Tap,
    feed: Feed,
    limits: ProcessLimits,
    secrets: Arc<Secrets>,
}

impl Running {
    /// Gives it something to read; for a command with an open input.
    pub fn stdin(&self) -> StdinWriter {
        self.feed.writer()
    }

    /// Waits for its end. What it prints is also given to `hear`, piece by piece; `hear` may write to
    /// its input.
    pub fn wait(self, cancel: &Cancel, hear: &mut dyn FnMut(Stream, &[u8])) -> Result<ProcessExit, RunError> {
        let mut watch = Watch::new(self);
        while !watch.is_over() {
            let now = watch.sleep(cancel).map_err(RunError::Guard)?;
            watch.listen(now);
            watch.read(now, hear);
            watch.running.feed.pump();
            watch.obey(cancel, now);
            watch.keep_limits(now);
            watch.look_at_guard(now);
        }
        watch.finish(cancel, hear)
    }
}

/// One output, until its end.
#[derive(Debug)]
struct Tap {
    pipe: Option<PipeReader>,
    capture: Capture,
}

impl Tap {
    fn new(pipe: PipeReader, capture: Capture) -> io::Result<Tap> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Tap { pipe: Some(pipe), capture })
    }

    /// Reads one piece, if there is one; how long it is.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        match pipe.read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                self.capture.add(&buffer[..count]);
                return count;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
        0
    }
}

/// The stage of an attempt.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The guard has not answered yet.
    Starting { until: Instant },
    /// The guard has started the command.
    Running,
    /// It was asked to end.
    Asked { until: Instant },
    /// It is being killed.
    Killing { until: Instant },
    /// Everything has ended, and the rest of the output is read.
    Draining { until: Instant },
}

/// The loop's own memory.
struct Watch {
    running: Running,
    lines: Lines,
    buffer: Vec<u8>,
    stage: Stage,
    began: Instant,
    heard_last: Option<Instant>,
    cut: Option<Cut>,
    refused: Option<RunError>,
    end: Option<End>,
    /// When it was last looked whether the guard is stopped, and in how many looks in a row it was.
    looked: Instant,
    stopped: u32,
}

/// What the guard told last, or what we found in its place.
struct End {
    how: How,
    swept: usize,
    left: usize,
    at: Instant,
}

impl Watch {
    fn new(running: Running) -> Watch {
        let now = Instant::now();
        Watch {
            stage: Stage::Starting { until: now + running.limits.launch },
            running,
            lines: Lines::default(),
            buffer: vec![0; PIECE],
            began: now,
            heard_last: None,
            cut: None,
            refused: None,
            end: None,
            looked: now,
            stopped: 0,
        }
    }

    fn is_over(&self) -> bool {
        let quiet = self.running.out.pipe.is_none() && self.running.err.pipe.is_none();
        match self.stage {
            Stage::Starting { .. } | Stage::Running | Stage::Asked { .. } | Stage::Killing { .. } => {
                self.refused.is_some()
            }
            Stage::Draining { until } => quiet || Instant::now() >= until,
        }
    }

    /// Waits until something happens or the nearest deadline is there. The time after it.
    fn sleep(&self, cancel: &Cancel) -> io::Result<Instant> {
        let (asked, now) = (cancel.asked_fd()?, cancel.now_fd()?);
        let draining = matches!(self.stage, Stage::Draining { .. });
        let mut fds = Vec::with_capacity(7);
        fds.extend(self.running.out.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(self.running.err.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        if !draining {
            fds.extend(self.running.leash.socket().map(|socket| PollFd::new(socket, PollFlags::IN)));
            // A token that was said stays readable: it is listened to until it is obeyed.
            fds.extend((!cancel.is_cancelled()).then(|| PollFd::new(&asked, PollFlags::IN)));
            fds.extend((!cancel.is_now()).then(|| PollFd::new(&now, PollFlags::IN)));
        }
        let (ready, wake) = (self.running.feed.ready_fd(), self.running.feed.wake_fd());
        fds.extend(ready.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        fds.extend(wake.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let rest = self.deadline(cancel).map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let rest = rest.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut fds, rest.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(Instant::now()),
            Err(error) => Err(error.into()),
        }
    }

    /// When to look again even if nothing happens.
    fn deadline(&self, cancel: &Cancel) -> Option<Instant> {
        let stage = match self.stage {
            Stage::Running => None,
            Stage::Starting { until }
            | Stage::Asked { until }
            | Stage::Killing { until }
            | Stage::Draining { until } => Some(until),
        };
        // What was said between two looks is obeyed at once.
        let unheard = self.disobeys(cancel).then(Instant::now);
        let look = self.is_at_work().then(|| self.looked + GUARD_LOOK);
        self.cuts().into_iter().map(|(at, _)| at).chain(stage).chain(unheard).chain(look).min()
    }

    fn is_at_work(&self) -> bool {
        match self.stage {
            Stage::Running | Stage::Asked { .. } => true,
            Stage::Starting { .. } | Stage::Killing { .. } | Stage::Draining { .. } => false,
        }
    }

    /// Ends an attempt whose guard was stopped: it would neither see the end of what it guards nor tell of it.
    fn look_at_guard(&mut self, now: Instant) {
        if !self.is_at_work() || now < self.looked + GUARD_LOOK {
            return;
        }
        self.looked = now;
        self.stopped = if self.running.leash.is_stopped() { self.stopped + 1 } else { 0 };
        if self.stopped >= MAX_STOPPED_LOOKS {
            self.lost_guard(Duration::ZERO);
        }
    }

    /// Every limit that counts now, with its time.
    fn cuts(&self) -> Vec<(Instant, Cut)> {
        let limits = &self.running.limits;
        let hard = limits.hard.map(|limit| (self.began + limit, Cut::Hard));
        match self.stage {
            Stage::Starting { .. } | Stage::Killing { .. } | Stage::Draining { .. } => Vec::new(),
            Stage::Asked { .. } => hard.into_iter().collect(),
            Stage::Running => {
                let startup = limits.startup.filter(|_| self.heard_last.is_none());
                let startup = startup.map(|limit| (self.began + limit, Cut::Startup));
                let silent_since = self.heard_last.unwrap_or(self.began);
                let silence = limits.silence.map(|limit| (silent_since + limit, Cut::Silence));
                let soft = limits.soft.map(|limit| (self.began + limit, Cut::Soft));
                startup.into_iter().chain(silence).chain(soft).chain(hard).collect()
            }
        }
    }

    /// Reads what the guard says.
    fn listen(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Draining { .. }) {
            return;
        }
        let Some(mut socket) = self.running.leash.socket() else { return };
        let mut piece = [0; 4096];
        let gone = match socket.read(&mut piece) {
            Ok(0) => true,
            Ok(count) => self.lines.add(&piece[..count]).is_err(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        while let Some(line) = self.lines.next() {
            if let Ok(answer) = serde_json::from_slice(&line) {
                self.hear_answer(answer, now);
            }
        }
        if gone && self.end.is_none() && self.refused.is_none() {
            self.lost_guard(MAX_GUARD_END);
        }
    }

    fn hear_answer(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Started(_) => {
                self.began = now;
                if let Stage::Starting { .. } = self.stage {
                    self.stage = Stage::Running;
                }
            }
            Answer::Failed { what, busy: true } => self.refused = Some(RunError::Busy(what)),
            Answer::Failed { what, busy: false } => self.refused = Some(RunError::CouldNotStart(what)),
            Answer::Ended { how, swept, left } => self.drain(End { how, swept, left, at: now }),
        }
    }

    fn drain(&mut self, end: End) {
        self.end = Some(end);
        self.running.feed.end();
        self.stage = Stage::Draining { until: Instant::now() + MAX_DRAIN };
    }

    /// Does the guard's work when it has not answered in its time. One that never said a word has
    /// started nothing that is known.
    fn lose_guard(&mut self) {
        if let Stage::Starting { .. } = self.stage {
            self.running.leash.end(Duration::ZERO);
            self.refused = Some(RunError::NoAnswer);
            return;
        }
        self.lost_guard(Duration::ZERO);
    }

    /// Does the guard's work when it is gone. One that has its lock may have started the command and died
    /// before it could say so: what it was at counts as begun.
    fn lost_guard(&mut self, wait: Duration) {
        let begun = !matches!(self.stage, Stage::Starting { .. }) || self.running.leash.has_lock();
        let swept = self.running.leash.end(wait);
        if !begun {
            self.refused = Some(RunError::NoAnswer);
            return;
        }
        self.cut.get_or_insert(Cut::GuardLost);
        let (swept, left) = (swept.met.len(), swept.left.len());
        self.drain(End { how: How::Unknown, swept, left, at: Instant::now() });
    }

    fn read(&mut self, now: Instant, hear: &mut dyn FnMut(Stream, &[u8])) -> usize {
        let mut all = 0;
        for (stream, tap) in [(Stream::Out, &mut self.running.out), (Stream::Err, &mut self.running.err)] {
            let count = tap.read(&mut self.buffer);
            if count > 0 {
                hear(stream, &self.buffer[..count]);
                self.heard_last = Some(now);
            }
            all += count;
        }
        all
    }

    /// Whether the token says something that was not done yet.
    fn disobeys(&self, cancel: &Cancel) -> bool {
        match self.stage {
            Stage::Starting { .. } | Stage::Running => cancel.is_cancelled(),
            Stage::Asked { .. } => cancel.is_now(),
            Stage::Killing { .. } | Stage::Draining { .. } => false,
        }
    }

    fn obey(&mut self, cancel: &Cancel, now: Instant) {
        if !self.disobeys(cancel) {
            return;
        }
        self.cut.get_or_insert(Cut::Cancelled);
        // A guard that has not started anything yet gives up at any word.
        if cancel.is_now() { self.kill(now) } else { self.ask(now) }
    }

    fn keep_limits(&mut self, now: Instant) {
        let due = self.cuts().into_iter().filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at);
        if let Some((_, cut)) = due {
            self.cut.get_or_insert(cut);
            match cut {
                Cut::Hard => self.kill(now),
                Cut::Startup | Cut::Silence | Cut::Soft | Cut::Cancelled | Cut::GuardLost => self.ask(now),
            }
        }
        match self.stage {
            Stage::Starting { until } | Stage::Killing { until } if until <= now => {
                self.lose_guard();
            }
            Stage::Asked { until } if until <= now => self.kill(now),
            Stage::Starting { .. }
            | Stage::Running
            | Stage::Asked { .. }
            | Stage::Killing { .. }
            | Stage::Draining { .. } => {}
        }
    }

    fn ask(&mut self, now: Instant) {
        self.running.leash.say(Word::Term);
        self.stage = Stage::Asked { until: now + self.running.limits.grace };
    }

    fn kill(&mut self, now: Instant) {
        self.running.leash.say(Word::Kill);
        self.stage = Stage::Killing { until: now + MAX_GUARD_END };
    }

    fn finish(
        mut self,
        cancel: &Cancel,
        hear: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<ProcessExit, RunError> {
        if let Some(refused) = self.refused.take() {
            self.running.leash.end(MAX_GUARD_END);
            return Err(if cancel.is_cancelled() { RunError::Cancelled } else { refused });
        }
        // A process outside of the tree may hold an output open; what it holds already is taken along.
        for _ in 0..LAST_PIECES {
            self.read(Instant::now(), hear);
        }
        let Some(end) = self.end.take() else { return Err(RunError::NoAnswer) };
        let Running { mut leash, out, err, limits, secrets, .. } = self.running;
        leash.end(MAX_GUARD_END);
        Ok(ProcessExit {
            how: end.how,
            cut: self.cut,
            out: out.capture.finish().hiding(&secrets),
            err: err.capture.finish().hiding(&secrets),
            took: end.at.saturating_duration_since(self.began),
            swept: end.swept,
            left: end.left,
            limits,
        })
    }
}

/// Refuses what could never be started, in words that say which part of it is wrong.
fn check(spec: &Spec) -> Result<(), RunError> {
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    let bad = |what: &str| Err(RunError::Bad(what.to_owned()));
    if spec.program.is_empty() {
        return bad("it names no program");
    }
    if has_nul(&spec.program) || spec.args.iter().any(|word| has_nul(word)) {
        return bad("a word of the command has a NUL in it");
    }
    let wrong_name = |name: &OsStr| name.is_empty() || name.as_bytes().contains(&b'=') || has_nul(name);
    if spec.env.iter().any(|(name, value)| wrong_name(name) || has_nul(value)) {
        return bad("a variable of its environment has no name, or a `=` in its name, or a NUL in it");
    }
    if spec.lock.file_name().is_none() {
        return bad("its attempt has no file");
    }
    Ok(())
}

fn request(spec: &Spec, lock: &Path) -> Result<Request, RunError> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(RunError::Guard);
    Ok(Request {
        program: spec.program.clone(),
        args: spec.args.clone(),
        folder: absolute(&spec.folder)?.into(),
        env: spec.env.clone(),
        lock: absolute(lock)?.into(),
        fence: spec
            .fence
            .clone()
            .map(|fence| Ok(Fence { file: absolute(&fence.file)?, ..fence }))
            .transpose()?,
        mark: spec.mark.clone(),
        processes: spec.limits.processes,
        file_bytes: spec.limits.file_bytes,
        sandbox: spec.sandbox.as_deref().cloned(),
    })
}

/// Our end of the input and the command's.
fn feed(stdin: &Stdin) -> io::Result<(Feed, OwnedFd)> {
    let (bytes, closed) = match stdin {
        Stdin::Null => {
            let feed = Feed::new(StdinWriter::new(Vec::new(), true)?, None)?;
            return Ok((feed, File::open("/dev/null")?.into()));
        }
        Stdin::Bytes(bytes) => (bytes.clone(), true),
        Stdin::Open => (Vec::new(), false),
    };
    let (theirs, ours) = io::pipe()?;
    Ok((Feed::new(StdinWriter::new(bytes, closed)?, Some(ours))?, theirs.into()))
}
