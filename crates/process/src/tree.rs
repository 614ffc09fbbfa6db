//! Ending processes: told first, then frozen and killed, until none is left.
//!
//! A signal goes to an identity, never to a bare number: the process is opened, its start compared,
//! and only then signalled, so that a number which was given away meanwhile costs no stranger its
//! life. Killing one process after another loses against a tree that keeps forking; so everything is
//! stopped first, round by round, until no round finds a new one.
//!
//! What this cannot win against is a process that forks and leaves its session faster than the table
//! is read, for ever; only a PID namespace or a cgroup can. Its children reach their guard all the
//! same, which strikes at them directly between readings.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::table::{Identity, ProcessRow, Table};

/// How often the table is read for processes that have appeared since, before the killing begins.
const MAX_FREEZE_ROUNDS: usize = 16;

/// How long it may take until the last one is gone. Only one that the kernel itself is busy with, or
/// that belongs to another user, takes longer.
pub(super) const MAX_KILL: Duration = Duration::from_secs(5);

/// How long the killed of one round are waited for before the table is read again.
const ROUND: Duration = Duration::from_millis(50);

/// Stands among those that are left when the table could not be read: there may be some.
const UNSEEN: Identity = Identity { pid: 0, start: 0 };

/// The processes that are to be ended.
pub(super) trait Victims {
    /// The table in which they are looked for.
    fn table(&mut self) -> io::Result<Table> {
        Table::read()
    }

    /// Those of the table that are meant; dead ones are left out by the caller.
    fn find(&mut self, table: &Table) -> Vec<ProcessRow>;

    /// Strikes at what no table shows in time, after each round.
    fn strike(&mut self) {}

    /// Takes the dead off the table, if they are ours to wait for.
    fn reap(&mut self, table: &Table);
}

/// The outcome: the processes that were met, and those that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Swept {
    /// Everything that was alive and was meant.
    pub(super) met: BTreeSet<Identity>,
    /// The processes that are still alive.
    pub(super) left: BTreeSet<Identity>,
}

/// Sends a signal to exactly this process. Whether it was there to be signalled.
pub(super) fn signal(who: Identity, signal: Signal) -> bool {
    open_pidfd(who).is_some_and(|fd| pidfd_send_signal(&fd, signal).is_ok())
}

/// Waits until a process has ended. Whether it has.
pub(super) fn wait_for_end(who: Identity, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let Some(fd) = open_pidfd(who) else { return !who.is_alive() };
    while !wait_end(&fd, deadline.saturating_duration_since(Instant::now())) {
        if Instant::now() >= deadline {
            return false;
        }
    }
    true
}

/// Freezes and kills until no process is left, or the time is over.
pub(super) fn kill_all(victims: &mut dyn Victims, limit: Duration) -> Swept {
    let deadline = Instant::now() + limit;
    let mut swept = Swept::default();
    let mut clear = 0;
    while clear < 2 {
        let found = freeze(victims, &mut swept.met).unwrap_or_else(|_| BTreeSet::from([UNSEEN]));
        // A reading of the table is not one instant, so one that is empty proves little.
        clear = if found.is_empty() { clear + 1 } else { 0 };
        if !found.is_empty() && Instant::now() >= deadline {
            swept.left = found;
            break;
        }
        strike(victims, &found);
    }
    swept
}

/// Stops all there are and all that appear, and tells who they are.
fn freeze(victims: &mut dyn Victims, met: &mut BTreeSet<Identity>) -> io::Result<BTreeSet<Identity>> {
    let mut frozen = BTreeSet::new();
    for _ in 0..MAX_FREEZE_ROUNDS {
        let table = victims.table()?;
        victims.reap(&table);
        let alive: Vec<ProcessRow> = victims.find(&table).into_iter().filter(ProcessRow::is_alive).collect();
        let found: BTreeSet<Identity> = alive.iter().map(ProcessRow::identity).collect();
        met.extend(&found);
        let mut fresh = found.difference(&frozen).peekable();
        if fresh.peek().is_none() {
            return Ok(found);
        }
        for who in fresh {
            signal(*who, Signal::STOP);
        }
        frozen = found;
    }
    Ok(frozen)
}

fn strike(victims: &mut dyn Victims, found: &BTreeSet<Identity>) {
    let killed = |who: &Identity| {
        let fd = open_pidfd(*who)?;
        pidfd_send_signal(&fd, Signal::KILL).ok()?;
        Some(fd)
    };
    let fds: Vec<OwnedFd> = found.iter().filter_map(killed).collect();
    victims.strike();
    let until = Instant::now() + ROUND;
    if fds.is_empty() && !found.is_empty() {
        // No process could be reached, so that no end tells when to look again.
        std::thread::sleep(ROUND);
    }
    for fd in &fds {
        wait_end(fd, until.saturating_duration_since(Instant::now()));
    }
}

/// A descriptor of exactly this process. The start is compared after opening: from then on the
/// descriptor cannot come to mean another.
fn open_pidfd(who: Identity) -> Option<OwnedFd> {
    let fd = pidfd_open(who.number()?, PidfdFlags::empty()).ok()?;
    (Identity::of(who.pid) == Some(who)).then_some(fd)
}

/// Whether the process of a descriptor has ended, after waiting so long at most. An interruption
/// counts as not yet.
fn wait_end(fd: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap()
    }

    fn identity(child: &Child) -> Identity {
        Identity::of(i32::try_from(child.id()).unwrap()).unwrap()
    }

    struct These(Vec<Identity>);

    impl Victims for These {
        fn find(&mut self, table: &Table) -> Vec<ProcessRow> {
            table.entries().filter(|entry| self.0.contains(&entry.identity())).copied().collect()
        }

        fn reap(&mut self, _: &Table) {}
    }

    #[test]
    fn a_signal_for_another_start_reaches_nobody() {
        let mut child = sleeper();
        let right = identity(&child);
        let wrong = Identity { start: right.start + 1, ..right };
        assert!(!signal(wrong, Signal::KILL));
        assert!(kill_all(&mut These(vec![wrong]), MAX_KILL).met.is_empty());
        assert!(right.is_alive());
        assert!(!wait_for_end(right, Duration::from_millis(20)));
        assert!(signal(right, Signal::KILL));
        assert!(wait_for_end(right, Duration::from_secs(20)));
        assert!(!right.is_alive(), "it has ended, although nobody has waited for it");
        child.wait().unwrap();
        assert!(wait_for_end(right, Duration::ZERO), "what is gone has ended");
    }

    #[test]
    fn all_that_are_found_are_ended_and_named() {
        let mut children = [sleeper(), sleeper()];
        let who: Vec<Identity> = children.iter().map(identity).collect();
        let swept = kill_all(&mut These(who.clone()), Duration::from_secs(20));
        assert_eq!(swept.met, who.into_iter().collect());
        assert!(swept.left.is_empty());
        for child in &mut children {
            assert!(!child.wait().unwrap().success());
        }
    }
}
