//! The guard of all gits: one process for all that a program of ours starts.
//!
//! A git is started by the program itself, as quickly as it can be, and carries a mark in its environment that names
//! the program. The guard does nothing but wait until the program is gone, however it went; then it ends whatever
//! carries the mark, with all that is below it. Git is asked first, because a git that is asked removes its lock
//! files. It also ends what carries the mark of a program that is dead, as is left where the guard of that one was
//! killed too; a command that is over in a moment does not wait for that. It never prints, and ends nothing that has no such mark.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::signals::ignore_signals;
use super::table::{Identity, ProcessRow, Table, environment, variable};
use super::tree::{self, MAX_KILL, Victims};
use super::{Guard, lock};

/// The word after [`super::GUARD_WORD`] that makes a guard that of all gits.
pub(super) const WORD: &str = "gits";

/// The variable that marks every git of a program.
pub const MARK: &str = "FTL_GIT";

/// How long a git may take to end once it was asked.
const MAX_ASKED: Duration = Duration::from_millis(200);

/// How often is looked for gits that were being started when their program went.
const ROUNDS: usize = 2;

/// How long until is looked for gits of programs that are dead: reading all environments takes time that a short
/// command has better use for.
const BEGUN: Duration = Duration::from_millis(200);

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// How a guard is started in this process; nothing where gits have none.
static HOW: OnceLock<Guard> = OnceLock::new();

/// The guard of this process.
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

struct Running {
    child: Child,
    /// Its end is our end.
    _open: Option<ChildStdin>,
    value: String,
}

/// Has every git that this process starts from now on end with it. Called once, at the start of a program that knows
/// the words of a guard.
pub fn guard_gits(guard: Guard) {
    // A second one would be the same.
    let _ = HOW.set(guard);
}

/// Starts the guard before the first git needs it, beside whatever else is done meanwhile: it takes a few milliseconds
/// that the first git would wait for. A second call does nothing. What goes wrong is said to that one.
pub fn start_early() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if HOW.get().is_some() && !BEGUN.swap(true, Ordering::Relaxed) {
        let _ = std::thread::Builder::new().name(String::from("guard")).spawn(|| drop(mark()));
    }
}

/// The variable that a git is started with, once its guard runs; nothing where gits have none.
pub fn mark() -> io::Result<Option<(&'static str, String)>> {
    let Some(how) = HOW.get() else { return Ok(None) };
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(one) = &mut *running
        && matches!(one.child.try_wait(), Ok(None))
    {
        return Ok(Some((MARK, one.value.clone())));
    }
    let one = start(how)?;
    let value = one.value.clone();
    *running = Some(one);
    Ok(Some((MARK, value)))
}

/// Starts a guard, in a group of its own that no terminal signals. It stays in our session: what leads one of its own
/// is taken for an orphan when the guard of an attempt is lost.
fn start(how: &Guard) -> io::Result<Running> {
    let value =
        Program::own().ok_or_else(|| io::Error::other("/proc does not show this process"))?.to_string();
    let mut command = Command::new(&how.program);
    command.args(&how.args).args([WORD, &value]).arg0("ftl").env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let open = child.stdin.take();
    Ok(Running { child, _open: open, value })
}

/// Guards the gits of the program that the third word names.
pub(super) fn main(words: &[OsString]) -> io::Result<()> {
    ignore_signals()?;
    let named = words.first().and_then(|word| word.to_str()).and_then(Program::read);
    let of = named.ok_or_else(|| io::Error::other("a guard of gits is told whose"))?;
    let mut input = io::stdin().lock();
    let begun = Timespec::try_from(BEGUN).map_err(io::Error::other)?;
    if poll(&mut [PollFd::new(&io::stdin(), PollFlags::IN)], Some(&begun)).is_ok_and(|ready| ready == 0) {
        end(&mut Marked { of: None, space: of.space });
    }
    // Whatever is said, only the end counts.
    while !matches!(input.read(&mut [0; 64]), Ok(0)) {}
    for round in 0..ROUNDS {
        if round > 0 {
            std::thread::sleep(PAUSE);
        }
        end(&mut Marked { of: Some(of), space: of.space });
    }
    Ok(())
}

/// Ends gits: asked first, then killed.
fn end(marked: &mut Marked) {
    let Ok(found) = Table::read().map(|table| marked.find(&table)) else { return };
    if found.is_empty() {
        return;
    }
    for entry in &found {
        tree::signal(entry.identity(), Signal::TERM);
    }
    let until = Instant::now() + MAX_ASKED;
    for entry in &found {
        tree::wait_for_end(entry.identity(), until.saturating_duration_since(Instant::now()));
    }
    tree::kill_all(marked, MAX_KILL);
}

/// The gits of programs that are dead, and of one program where that is named.
struct Marked {
    of: Option<Program>,
    /// Where numbers of processes mean what they mean to us.
    space: u64,
}

impl Marked {
    fn is_meant(&self, entry: &ProcessRow) -> bool {
        let Some(block) = environment(entry.pid) else { return false };
        let value = variable(&block, MARK).and_then(|value| std::str::from_utf8(value).ok());
        match (value.and_then(Program::read), self.of) {
            (Some(program), Some(of)) if program == of => true,
            (Some(program), _) => program.space == self.space && !program.who.is_alive(),
            (None, _) => false,
        }
    }
}

impl Victims for Marked {
    fn find(&mut self, table: &Table) -> Vec<ProcessRow> {
        lock::carriers(table, 0, &|entry| self.is_meant(entry))
    }

    fn reap(&mut self, _: &Table) {}
}

/// A program as a mark names it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Program {
    who: Identity,
    /// The namespace in which it has its number: in a container the same number is another's.
    space: u64,
}

impl Program {
    /// The one that asks.
    fn own() -> Option<Program> {
        let space = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
        Some(Program { who: Identity::own()?, space })
    }

    fn read(value: &str) -> Option<Program> {
        let mut parts = value.split('.');
        let (pid, start, space) = (parts.next()?, parts.next()?, parts.next()?);
        let who = Identity { pid: pid.parse().ok()?, start: start.parse().ok()? };
        let space = space.parse().ok()?;
        parts.next().is_none().then_some(Program { who, space })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.who.pid, self.who.start, self.space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_one_program_in_one_namespace() {
        let own = Program::own().unwrap();
        assert!(Program::read(&own.to_string()) == Some(own));
        for bad in ["", "1", "1.2", "1.2.3.4", "x.2.3", "1.2.x", "-.1.1"] {
            assert!(Program::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn only_gits_of_the_dead_are_ended_where_nobody_is_named() {
        let own = Program::own().unwrap();
        let dead = Program { who: Identity { start: own.who.start + 1, ..own.who }, ..own };
        let elsewhere = Program { space: own.space + 1, ..dead };
        let sleeper = |mark: Option<Program>| {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null()).env_remove(MARK);
            command.envs(mark.map(|mark| (MARK, mark.to_string()))).spawn().unwrap()
        };
        let mut children = [Some(dead), Some(own), Some(elsewhere), None].map(sleeper);
        let ids = children.each_ref().map(|child| i32::try_from(child.id()).unwrap());
        let mut all = Marked { of: None, space: own.space };
        let found: Vec<i32> = all.find(&Table::read().unwrap()).iter().map(|entry| entry.pid).collect();
        assert!(found.contains(&ids[0]) && ids[1..].iter().all(|id| !found.contains(id)), "{found:?}");
        let mut of_us = Marked { of: Some(own), space: own.space };
        let found: Vec<i32> = of_us.find(&Table::read().unwrap()).iter().map(|entry| entry.pid).collect();
        assert!(found.contains(&ids[1]) && ids[2..].iter().all(|id| !found.contains(id)), "{found:?}");
        end(&mut of_us);
        assert!(!Identity::of(ids[1]).is_some_and(Identity::is_alive), "it was asked, and has ended");
        for child in &mut children {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}
