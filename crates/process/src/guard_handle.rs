//! The engine's end of a guard: it is started, spoken to, waited for and, if it was lost, replaced by a
//! sweep of our own.
//!
//! A guard stays in the list of known guards from before it runs until after it was waited for. So a
//! sweep in one thread never takes the guard of another for an orphan. Only here are guards started.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, waitid, waitpid};

use super::table::{Identity, ProcessRow, Table};
use super::tree::{self, MAX_KILL, Swept, Victims};
use super::wire::{self, Word};
use super::{Guard, Mark, lock};

/// How long a guard may take to end everything and itself before we do it in its place.
pub(super) const MAX_GUARD_END: Duration = Duration::from_secs(MAX_KILL.as_secs() + 2);

/// How long a guard may take to read its request.
const MAX_SEND: Duration = Duration::from_secs(10);

static GUARDS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A guard that is ours. Dropping it ends everything that it guards.
#[derive(Debug)]
pub(super) struct GuardHandle {
    child: Child,
    who: Identity,
    socket: Option<UnixStream>,
    mark: Mark,
    lock: PathBuf,
}

impl GuardHandle {
    pub(super) fn new(guard: &Guard, mark: &Mark, lock: &Path) -> io::Result<GuardHandle> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(MAX_SEND))?;
        let mut command = Command::new(&guard.program);
        command.args(&guard.args).arg0("ftl").env_clear().current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        let (child, who) = spawn_known(&mut command)?;
        Ok(GuardHandle { child, who, socket: Some(ours), mark: mark.clone(), lock: lock.to_owned() })
    }

    /// Whether the guard has written itself into the file of its attempt. It starts nothing before.
    pub(super) fn has_lock(&self) -> bool {
        lock::is_of(&self.lock, self.who)
    }

    /// Whether the guard was stopped by a signal.
    pub(super) fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.who.pid)).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        matches!(state, Some('T' | 't'))
    }

    /// The socket, until the guard is let go.
    pub(super) fn socket(&self) -> Option<&UnixStream> {
        self.socket.as_ref()
    }

    /// Says a word. A guard that was stopped by a signal is continued, so that it hears.
    pub(super) fn say(&self, word: Word) {
        tree::signal(self.who, Signal::CONT);
        // A guard that cannot be spoken to is lost; the end of its socket says so.
        let _ = self.socket.as_ref().map(|socket| wire::say(socket, &word));
    }

    /// Lets the guard go: it ends what it guards, if that has not happened, and then itself. If it
    /// does not in this time, or was killed, we end all of it. Tells what we had to end.
    pub(super) fn end(&mut self, wait: Duration) -> Swept {
        let Some(socket) = self.socket.take() else { return Swept::default() };
        drop(socket);
        let mut swept = Swept::default();
        if !tree::wait_for_end(self.who, wait) {
            swept = lock::end_guard(self.who);
        }
        if !self.did_its_work() {
            // It is not waited for yet: so its number is still that of its session.
            let more = self.sweep();
            swept.met.extend(more.met);
            swept.left = more.left;
            lock::forget(&self.lock, self.who);
        }
        // It had its time. Nothing is done to one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        guards().remove(&self.who.pid);
        swept
    }

    /// Whether the guard ended in the way that it ends when nothing is left.
    fn did_its_work(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = self.who.number().and_then(|pid| waitid(WaitId::Pid(pid), options).ok()?);
        status.is_some_and(|status| status.exit_status() == Some(0))
    }

    fn sweep(&self) -> Swept {
        let own = getpid().as_raw_nonzero().get();
        tree::kill_all(&mut Lost { guard: self.who, mark: &self.mark, own, met: BTreeSet::new() }, MAX_KILL)
    }
}

impl Drop for GuardHandle {
    fn drop(&mut self) {
        self.end(MAX_GUARD_END);
    }
}

fn guards() -> MutexGuard<'static, BTreeSet<i32>> {
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a guard so that no sweep ever sees it without knowing it.
fn spawn_known(command: &mut Command) -> io::Result<(Child, Identity)> {
    let mut guards = guards();
    let mut child = command.spawn()?;
    match i32::try_from(child.id()).ok().and_then(Identity::of) {
        Some(who) => {
            guards.insert(who.pid);
            Ok((child, who))
        }
        None => {
            child.kill()?;
            child.wait()?;
            Err(io::Error::other("/proc does not show a process that was just started"))
        }
    }
}

/// What a lost guard has left: everything in its session, everything that carries its mark, and every
/// orphan that came to us instead. What we start ourselves stays in our own session; a guard begins
/// another, and nothing below it can come back into ours. That tells the two apart.
struct Lost<'leash> {
    guard: Identity,
    mark: &'leash Mark,
    own: i32,
    met: BTreeSet<Identity>,
}

impl Victims for Lost<'_> {
    fn find(&mut self, table: &Table) -> Vec<ProcessRow> {
        let known = guards().clone();
        let found = find_lost(table, self, &known);
        self.met.extend(found.iter().map(ProcessRow::identity));
        found
    }

    fn reap(&mut self, table: &Table) {
        for who in self.met.iter().filter(|who| is_ended_child(table, **who, self.own)) {
            let _ = Pid::from_raw(who.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
    }
}

fn is_ended_child(table: &Table, who: Identity, own: i32) -> bool {
    let ended = |entry: &ProcessRow| entry.parent == own && entry.start == who.start && !entry.is_alive();
    table.get(who.pid).is_some_and(ended)
}

fn find_lost(table: &Table, lost: &Lost<'_>, known: &BTreeSet<i32>) -> Vec<ProcessRow> {
    let Some(ours) = table.get(lost.own) else { return Vec::new() };
    let orphan = |entry: &ProcessRow| {
        entry.parent == lost.own && entry.start >= lost.guard.start && entry.session != ours.session
    };
    let is_root = |entry: &&ProcessRow| entry.session == lost.guard.pid || orphan(entry);
    let marked = lock::marked(table, lost.mark, lost.guard.start);
    let roots: BTreeSet<i32> =
        table.entries().filter(is_root).chain(&marked).map(|entry| entry.pid).collect();
    // The lost guard is known as well, but has nothing below it any more.
    let guarded = table.below(known.iter().copied());
    let spared: BTreeSet<i32> = guarded.iter().map(|entry| entry.pid).chain(known.iter().copied()).collect();
    let found =
        roots.iter().filter_map(|pid| table.get(*pid).copied()).chain(table.below(roots.iter().copied()));
    let unique: BTreeSet<i32> = found.map(|entry| entry.pid).filter(|pid| !spared.contains(pid)).collect();
    unique.iter().filter_map(|pid| table.get(*pid).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i32 = 100;
    const GUARD: i32 = 200;

    fn row(pid: i32, parent: i32, session: i32, start: u64) -> ProcessRow {
        ProcessRow { pid, parent, group: pid, session, state: b'S', threads: 1, start }
    }

    #[test]
    fn orphans_of_a_lost_guard_are_told_from_everything_else() {
        let table = Table::of([
            row(US, 1, 50, 10),
            row(GUARD, US, GUARD, 20),
            row(201, US, GUARD, 21),
            row(202, US, 202, 22),
            row(203, 202, 203, 23),
            row(204, 1, GUARD, 24),
            row(300, US, 300, 15),
            row(301, 300, 300, 25),
            row(400, US, 50, 30),
            row(401, 400, 401, 31),
            row(500, US, 500, 12),
        ]);
        let mark = Mark::new("FTL_X", "of nobody").unwrap();
        let guard = Identity { pid: GUARD, start: 20 };
        let this = Lost { guard, mark: &mark, own: US, met: BTreeSet::new() };
        let found = find_lost(&table, &this, &BTreeSet::from([GUARD, 300]));
        let pids: Vec<i32> = found.iter().map(|entry| entry.pid).collect();
        // 300 is another guard, 400 a child of our own, 500 is older than the guard.
        assert_eq!(pids, [201, 202, 203, 204]);
    }
}
