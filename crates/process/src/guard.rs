//! The guard: a process of ours that starts one command and owns its tree to the end.
//!
//! It is the child subreaper of everything it starts: whatever detaches becomes its child, so nothing
//! gets away from it while it lives. It leads a session of its own, so that neither Ctrl-C nor a
//! terminal that closes reaches it, and its tree has no terminal to read or to type into. It ignores
//! every signal that a tree would send by mistake, may not be attached to, and has an empty
//! environment of its own to be read.
//!
//! It never prints, decides nothing about limits, and does not outlive the engine: when its socket ends, the
//! engine is dead, and everything is killed at once.
//!
//! The command's limits on resources are set on the guard before it starts the command, which
//! inherits them: so there is no moment without them.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getpid,
    kill_process, kill_process_group, set_child_subreaper, set_dumpable_behavior, setrlimit, setsid, wait,
    waitid, waitpid,
};

use super::lines::Lines;
use super::lock::{self, Lock, LockError, MAX_LOCK_WAIT};
use super::sandbox::{self, Plan, SANDBOX_WORD, Sandbox, SandboxLevel, Telling, Told};
use super::signals::ignore_signals;
use super::table::{self, Identity, ProcessRow, Table};
use super::tree::{self, MAX_KILL, Swept, Victims};
use super::wire::{self, Answer, Request, Word};
use super::{How, gits};

/// How long what is left after the command may take to end by itself, once it was asked.
pub const GRACE_AFTER_END: Duration = Duration::from_millis(200);

/// How often direct children are struck at between two readings of the table.
const MAX_STRIKES: usize = 256;

/// How often the tree is swept again when it seems empty and is not.
const MAX_SWEEPS: usize = 3;

/// Does what its standard input, a socket, asks for; the exit code. It never prints.
pub fn main() -> i32 {
    if std::env::args_os().nth(1).is_some_and(|word| word == SANDBOX_WORD) {
        return sandbox::main();
    }
    let words: Vec<OsString> = std::env::args_os().skip(2).collect();
    if words.first().is_some_and(|word| word == gits::WORD) {
        return i32::from(gits::main(&words[1..]).is_err());
    }
    // A guard is never the leader of its group when it is started, so this cannot fail.
    let _ = setsid();
    match guard() {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn guard() -> io::Result<()> {
    let signals = settle()?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = Lines::default();
    let Some((request, fds)) = wire::receive(&socket, &mut lines)? else { return Ok(()) };
    if lines.next().is_some() {
        return say_failed(&socket, &LockError::GivenUp.to_string(), false);
    }
    let lock = match lock::take(
        Path::new(&request.lock),
        &request.mark,
        request.fence.as_ref(),
        MAX_LOCK_WAIT,
        &socket,
    ) {
        Ok(lock) => lock,
        Err(error) => return say_failed(&socket, &error.to_string(), matches!(error, LockError::Held(_))),
    };
    match start(&request, fds, &socket) {
        Ok(begun) => {
            let Begun { main, telling } = begun;
            let is_full = request.sandbox.as_ref().is_some_and(|sandbox| sandbox.level == SandboxLevel::Full);
            let inner = if is_full { child_of(main.pid) } else { None };
            let ended = None;
            let tree = Tree {
                main,
                inner,
                telling,
                ended,
                socket,
                lines,
                signals,
                abandoned: false,
                looks_everywhere: false,
            };
            tree.watch(lock)
        }
        Err(what) => {
            let _ = lock.remove();
            say_failed(&socket, &what, false)
        }
    }
}

/// Makes this process fit to be a guard. Gives a descriptor that tells of ended children.
fn settle() -> io::Result<UnixStream> {
    ignore_signals()?;
    let (ended, pipe) = UnixStream::pair()?;
    ended.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), pipe)?;
    set_child_subreaper(Some(getpid()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(ended)
}

fn say_failed(socket: &UnixStream, what: &str, busy: bool) -> io::Result<()> {
    wire::say(socket, &Answer::Failed { what: what.to_owned(), busy })
}

/// What a guard has started.
struct Begun {
    /// The first process.
    main: Identity,
    /// What its sandbox tells, if there is one around it.
    telling: Option<Telling>,
}

fn start(request: &Request, streams: [OwnedFd; 3], socket: &UnixStream) -> Result<Begun, String> {
    let program = Path::new(&request.program).display();
    let folder = Path::new(&request.folder);
    if !folder.is_dir() {
        return Err(format!("`{program}` cannot be started: {} is no folder", folder.display()));
    }
    limit(request).map_err(|error| format!("`{program}` cannot be started within its limits: {error}"))?;
    if let Some(sandbox) = request.sandbox.as_ref().filter(|sandbox| sandbox.level != SandboxLevel::None) {
        return start_in(sandbox, request, streams, socket);
    }
    let mut command = Command::new(&request.program);
    command.args(&request.args).current_dir(folder);
    command.env_clear().envs(request.env.iter().map(|(name, value)| (name, value)));
    let child = spawn(command, request, streams);
    let main = identify(&child.map_err(|error| format!("`{program}` cannot be started: {error}"))?)?;
    Ok(Begun { main, telling: None })
}

/// Starts the sandbox, and waits until the command runs in it.
fn start_in(
    sandbox: &Sandbox,
    request: &Request,
    streams: [OwnedFd; 3],
    socket: &UnixStream,
) -> Result<Begun, String> {
    let cannot = |error: io::Error| format!("the sandbox cannot be started: {error}");
    let plan = Plan {
        sandbox: sandbox.clone(),
        program: request.program.clone(),
        args: request.args.clone(),
        folder: request.folder.clone(),
        env: request.env.clone(),
        mark: request.mark.clone(),
    };
    let (handed, mut telling) = plan.hand().map_err(cannot)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ftl").arg(SANDBOX_WORD).current_dir("/").env_clear();
    handed.pass(&mut command).map_err(cannot)?;
    let mut child = spawn(command, request, streams).map_err(cannot)?;
    drop(handed);
    let main = identify(&child)?;
    let why = match wait_to_begin(&mut telling, socket) {
        Some(Told::Started) => return Ok(Begun { main, telling: Some(telling) }),
        Some(Told::Failed(why)) => why,
        Some(Told::Ended(_)) | None => String::from("the sandbox ended before the command was started"),
    };
    let _ = child.kill();
    let _ = child.wait();
    Err(why)
}

/// What a sandbox tells first; nothing where whoever asked for it is gone, or asks for it no more.
fn wait_to_begin(telling: &mut Telling, socket: &UnixStream) -> Option<Told> {
    loop {
        let mut fds =
            [PollFd::from_borrowed_fd(telling.fd(), PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        let [told, spoken] = fds.map(|fd| !fd.revents().is_empty());
        if told {
            return telling.next();
        }
        if spoken {
            return None;
        }
    }
}

fn spawn(
    mut command: Command,
    request: &Request,
    [stdin, stdout, stderr]: [OwnedFd; 3],
) -> io::Result<std::process::Child> {
    command.process_group(0).env(request.mark.name(), request.mark.value());
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    command.spawn()
}

fn identify(child: &std::process::Child) -> Result<Identity, String> {
    let who = i32::try_from(child.id()).ok().and_then(Identity::of);
    who.ok_or_else(|| "/proc does not show it".to_owned())
}

/// The one child of a process.
fn child_of(pid: i32) -> Option<Identity> {
    let table = Table::read_below(own_pid()).ok()??;
    table.entries().find(|entry| entry.parent == pid).map(ProcessRow::identity)
}

fn limit(request: &Request) -> rustix::io::Result<()> {
    let both = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Core, both(0))?;
    if let Some(most) = request.processes {
        setrlimit(Resource::Nproc, both(most))?;
    }
    if let Some(most) = request.file_bytes {
        setrlimit(Resource::Fsize, both(most))?;
    }
    Ok(())
}

/// A command and everything that it has started. Its first process is not waited for until the very
/// end: so its number, which is also that of its group, cannot become another's.
struct Tree {
    main: Identity,
    /// The first process of the namespaces that the command is in, if it is in any.
    inner: Option<Identity>,
    /// What the sandbox around the command tells.
    telling: Option<Telling>,
    /// How the command ended, if the sandbox around it has told.
    ended: Option<How>,
    socket: UnixStream,
    lines: Lines,
    signals: UnixStream,
    /// The engine does not listen any more.
    abandoned: bool,
    /// Whether all processes of the machine are looked at, and not only those below us.
    looks_everywhere: bool,
}

/// A message or an event that a guard reacts to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Nothing,
    Term,
    Kill,
}

impl Tree {
    fn watch(mut self, lock: Lock) -> io::Result<()> {
        self.answer(&Answer::Started(self.main));
        let mut swept = Swept::default();
        while self.how().is_none() {
            match self.listen(None) {
                Heard::Nothing => {}
                Heard::Term => self.tell(),
                Heard::Kill => {
                    swept = tree::kill_all(&mut self, MAX_KILL);
                    break;
                }
            }
        }
        self.hear_sandbox();
        let how = self.how().unwrap_or(How::Unknown);
        let swept = self.clear(swept);
        // The engine that hears the answer may start the next attempt: the file must be gone by then.
        let removed = lock.remove();
        self.answer(&Answer::Ended { how, swept: swept.met.len(), left: swept.left.len() });
        removed
    }

    /// Ends what the command has left behind.
    fn clear(&mut self, mut swept: Swept) -> Swept {
        self.await_sandbox();
        if self.only_main_is_left() && self.is_alone() {
            swept.met.remove(&self.main);
            return swept;
        }
        let behind = self.others();
        if !behind.is_empty() {
            swept.met.extend(behind.iter().map(ProcessRow::identity));
            self.tell();
            self.give_grace();
        }
        for sweep in 1..=MAX_SWEEPS {
            // What was missed from parent to child is found from child to parent.
            self.looks_everywhere = sweep == MAX_SWEEPS;
            let again = tree::kill_all(self, MAX_KILL);
            swept.met.extend(again.met);
            swept.left = again.left;
            if !swept.left.is_empty() || self.is_alone() {
                break;
            }
        }
        for ours in self.inner.iter().chain([&self.main]) {
            swept.met.remove(ours);
        }
        swept
    }

    /// A sandbox in which nothing is left ends at once.
    fn await_sandbox(&mut self) {
        let until = Instant::now() + GRACE_AFTER_END;
        while self.ended.is_some() && !self.main_has_ended() && self.others().is_empty() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.listen(Some(rest)) == Heard::Kill {
                return;
            }
        }
    }

    /// Waits a moment for those that were asked to end. When the last one ends it is our child, or
    /// its parent is, so we hear of it.
    fn give_grace(&mut self) {
        let until = Instant::now() + GRACE_AFTER_END;
        while !self.others().is_empty() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.listen(Some(rest)) == Heard::Kill {
                return;
            }
        }
    }

    /// Waits until something happens: a word, the end of the engine, the end of a child.
    fn listen(&mut self, limit: Option<Duration>) -> Heard {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(telling) = &self.telling {
            fds.push(PollFd::from_borrowed_fd(telling.fd(), PollFlags::IN));
        }
        if !self.abandoned {
            fds.push(PollFd::new(&self.socket, PollFlags::IN));
        }
        let Ok(_) = poll(&mut fds, limit.as_ref()) else { return Heard::Nothing };
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let told = self.telling.is_some() && ready(1);
        let spoken = !self.abandoned && ready(fds.len() - 1);
        if told {
            self.hear_sandbox();
        }
        while (&self.signals).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.reap_children();
        if spoken { self.hear() } else { Heard::Nothing }
    }

    /// What the engine said last. A socket that ends or fails says the same as the last word.
    fn hear(&mut self) -> Heard {
        let mut piece = [0; 256];
        let count = (&self.socket).read(&mut piece).unwrap_or(0);
        if count == 0 || self.lines.add(&piece[..count]).is_err() {
            self.abandoned = true;
            return Heard::Kill;
        }
        let mut heard = Heard::Nothing;
        while let Some(line) = self.lines.next() {
            match serde_json::from_slice(&line) {
                Ok(Word::Kill) => return Heard::Kill,
                Ok(Word::Term) => heard = Heard::Term,
                Err(_) => {}
            }
        }
        heard
    }

    /// An engine that is gone hears nothing; that is seen when we listen.
    fn answer(&self, answer: &Answer) {
        if !self.abandoned {
            let _ = wire::say(&self.socket, answer);
        }
    }

    /// What the sandbox tells: how the command ended, and then nothing more.
    fn hear_sandbox(&mut self) {
        if let Some(Told::Ended(how)) = self.telling.take().and_then(|mut telling| telling.next()) {
            self.ended = Some(how);
        }
    }

    /// How the command ended, if it has. Its first process stays where it is.
    fn how(&self) -> Option<How> {
        self.ended.or_else(|| self.how_main())
    }

    fn main_has_ended(&self) -> bool {
        self.how_main().is_some()
    }

    fn how_main(&self) -> Option<How> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.main.number()?), options).ok()??;
        let by_signal = status.terminating_signal().map(How::Signalled);
        status.exit_status().map(How::Exited).or(by_signal)
    }

    /// Asks everything to end: the group of the command in one go, then the processes that left it. What is
    /// stopped cannot hear, so it is continued.
    fn tell(&self) {
        for signal in [Signal::TERM, Signal::CONT] {
            if let Some(group) = self.main.number() {
                let _ = kill_process_group(group, signal);
            }
            for entry in self.others().iter().filter(|entry| entry.group != self.main.pid) {
                tree::signal(entry.identity(), signal);
            }
        }
    }

    /// Everything below us that is alive, but for the command itself; none if the table cannot be
    /// read. What is missed here is met by the killing, which does not take that for an end.
    fn others(&self) -> Vec<ProcessRow> {
        let below = self.read_table().unwrap_or_default().below([own_pid()]);
        let is_ours = |pid| pid == self.main.pid || self.inner.is_some_and(|inner| pid == inner.pid);
        below.into_iter().filter(|entry| entry.is_alive() && !is_ours(entry.pid)).collect()
    }

    /// The table of our own tree. A thousand guards that each read of all processes would be a storm.
    fn read_table(&self) -> io::Result<Table> {
        if !self.looks_everywhere
            && let Some(table) = Table::read_below(own_pid())?
        {
            return Ok(table);
        }
        Table::read()
    }

    /// Takes ended orphans off the table, and leaves the command.
    fn reap_children(&self) {
        let children =
            table::own_children().unwrap_or_else(|| children_in(&self.read_table().unwrap_or_default()));
        for child in children.into_iter().filter(|child| *child != self.main.pid) {
            reap(child);
        }
    }

    /// Whether the command has ended and nothing else is a child of ours. Then there is nothing below
    /// us at all: what an ended process leaves becomes our child. This is the usual end, and cheap.
    fn only_main_is_left(&self) -> bool {
        self.main_has_ended() && table::own_children().is_some_and(|children| children == [self.main.pid])
    }

    /// Whether we have no child any more, which the kernel knows for certain. Waits for the command.
    fn is_alone(&self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Err(rustix::io::Errno::CHILD) => return true,
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) | Err(_) => return false,
            }
        }
    }
}

impl Victims for Tree {
    fn table(&mut self) -> io::Result<Table> {
        self.read_table()
    }

    fn find(&mut self, table: &Table) -> Vec<ProcessRow> {
        table.below([own_pid()])
    }

    /// A number of a child of ours is no other's until we wait for it, so it may be killed by number,
    /// which is quick. Whatever forks and ends faster than the table is read comes to us and is met here.
    fn strike(&mut self) {
        if let Some(group) = self.main.number().filter(|_| self.main_is_ours()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for _ in 0..MAX_STRIKES {
            let children = table::own_children().unwrap_or_default();
            let orphans: Vec<i32> = children.into_iter().filter(|child| *child != self.main.pid).collect();
            if orphans.is_empty() {
                return;
            }
            for child in orphans {
                let _ = Pid::from_raw(child).map(|pid| kill_process(pid, Signal::KILL));
                reap(child);
            }
        }
    }

    fn reap(&mut self, _: &Table) {
        self.reap_children();
    }
}

impl Tree {
    /// Whether the command is a child that was not waited for: only then its number is its own.
    fn main_is_ours(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.main.number().is_some_and(|pid| waitid(WaitId::Pid(pid), options).is_ok())
    }
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn children_in(table: &Table) -> Vec<i32> {
    table.entries().filter(|entry| entry.parent == own_pid()).map(|entry| entry.pid).collect()
}

fn reap(child: i32) {
    let _ = Pid::from_raw(child).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
}
