//! One live attempt per action: a file that a guard holds locked for as long as it lives.
//!
//! The lock is the kernel's, so it is free the moment its guard is gone, however that went. What is
//! written in the file only tells whom to end when it is not; it is believed only while number, start
//! and boot all match. A file is removed only by the process that holds its lock.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open};
use serde::{Deserialize, Serialize};

use super::table::{self, Identity, ProcessRow, Table};
use super::tree::{self, MAX_KILL, Swept, Victims};
use super::{Fence, GUARD_WORD, Mark, Namespaces};
use ftl_folder::{self as folder, Folder, OpenMode};

/// How long a new attempt waits for the guard of the old one, which is ending its processes.
pub const MAX_LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long until a lock is tried again whose holder cannot be told.
const RETRY: Duration = Duration::from_millis(10);

/// How much of an attempt's file is read.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// What a guard writes into its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRecord {
    /// The process of the guard.
    #[serde(flatten)]
    pub guard: Identity,
    /// In which start of the machine.
    pub boot: String,
    /// The variable in the environment of everything it started.
    pub mark: Mark,
    /// Where its number counts; nothing in a file of an older program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Namespaces>,
}

impl GuardRecord {
    /// The record that this process writes.
    fn own(mark: &Mark) -> io::Result<GuardRecord> {
        let guard = Identity::own().ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        let namespaces = Namespaces::own().ok();
        Ok(GuardRecord { guard, boot: table::boot_id()?, mark: mark.clone(), namespaces })
    }

    /// Whether the guard that wrote it lives. A file may be forged, and what it names is going to be
    /// ended: so the process must also have been started as a guard, and be none of ours.
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && self.is_of_this_namespace()
            && self.guard.is_alive()
            && is_guard(self.guard.pid)
            && !is_above_us(self.guard)
    }

    /// Whether its number means here what it meant to its guard.
    fn is_of_this_namespace(&self) -> bool {
        let own = Namespaces::own().ok().map(|own| own.pid);
        self.namespaces.as_ref().is_none_or(|theirs| own.is_none_or(|own| own == theirs.pid))
    }

    fn is_of_this_boot(&self) -> bool {
        table::boot_id().is_ok_and(|boot| boot == self.boot)
    }
}

fn is_guard(pid: i32) -> bool {
    table::words(pid).is_some_and(|words| words.get(1).is_some_and(|word| word == GUARD_WORD))
}

/// Whether a process is this one or one that it descends from; also when that cannot be told.
fn is_above_us(who: Identity) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    Table::read().map_or(true, |table| table.above(own).iter().any(|entry| entry.pid == who.pid))
}

/// A lock that is ours until this is dropped or removed.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

/// Why a lock could not be had.
#[derive(Debug)]
pub enum LockError {
    /// The file cannot be made or read.
    Io(io::Error),
    /// Another guard has it, and did not go.
    Held(Option<Box<GuardRecord>>),
    /// The caller has given up.
    GivenUp,
    /// The caller no longer owns the run.
    Overtaken,
}

impl fmt::Display for LockError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Io(error) => write!(out, "the attempt's lock cannot be taken: {error}"),
            LockError::Held(Some(record)) => {
                let pid = record.guard.pid;
                let where_ = if record.is_of_this_namespace() { "" } else { " of another pid namespace" };
                write!(
                    out,
                    "an older attempt of the same action is still alive (its guard is process {pid}{where_})"
                )
            }
            LockError::Held(None) => {
                write!(
                    out,
                    "an older attempt of the same action is still alive, and its file does not say which"
                )
            }
            LockError::GivenUp => write!(out, "the attempt was called off while it waited for its lock"),
            LockError::Overtaken => write!(out, "another ftl drives this run now: nothing was started"),
        }
    }
}

impl std::error::Error for LockError {}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> LockError {
        LockError::Io(error)
    }
}

/// Takes a lock, waiting for an older attempt to be dead, and ending it when it does not go by
/// itself. `call_off` is a descriptor that is readable when the caller has given up. A caller that is
/// behind the fence gets no lock and ends no process; the fence is looked at once more with the lock in hand,
/// because a process that raises it looks for locks afterwards.
pub(super) fn take(
    path: &Path,
    mark: &Mark,
    fence: Option<&Fence>,
    wait: Duration,
    call_off: &impl AsFd,
) -> Result<Lock, LockError> {
    let mut deadline = Instant::now() + wait;
    let mut ended_once = false;
    let overtaken = || fence.map_or(Ok(false), Fence::is_passed);
    loop {
        if overtaken()? {
            return Err(LockError::Overtaken);
        }
        if let Some(lock) = try_lock(path)? {
            end_unguarded(lock.record().as_ref());
            lock.write(&GuardRecord::own(mark)?)?;
            if overtaken()? {
                lock.remove()?;
                return Err(LockError::Overtaken);
            }
            return Ok(lock);
        }
        let holder = read(path);
        let now = Instant::now();
        if now < deadline {
            wait_for_change(holder.as_ref(), (deadline - now).min(wait), call_off)?;
        } else if let Some(record) = holder.as_ref().filter(|record| record.is_alive() && !ended_once) {
            end_guard(record.guard);
            (ended_once, deadline) = (true, Instant::now() + MAX_KILL);
        } else {
            return Err(LockError::Held(holder.map(Box::new)));
        }
    }
}

impl Lock {
    fn record(&self) -> Option<GuardRecord> {
        read_from(&self.file)
    }

    fn write(&self, record: &GuardRecord) -> io::Result<()> {
        let text = serde_json::to_vec(record).map_err(io::Error::other)?;
        self.file.set_len(0)?;
        self.file.write_all_at(&text, 0)
    }

    /// Removes the file; the lock itself goes with this value.
    pub(super) fn remove(self) -> io::Result<()> {
        folder::remove(&self.path)
    }
}

/// `None` when another process holds it. A file that was removed after it was opened locks nothing any
/// more, so what was locked must be what is at the path.
fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    loop {
        let file = folder::open(path, OpenMode::Update)?;
        if !folder::lock::try_lock(&file)? {
            return Ok(None);
        }
        if folder::lock::is_at(&file, path)? {
            return Ok(Some(Lock { path: path.to_owned(), file }));
        }
    }
}

fn read(path: &Path) -> Option<GuardRecord> {
    read_from(&folder::open(path, OpenMode::Read).ok()?)
}

fn read_from(mut file: &File) -> Option<GuardRecord> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Waits until the holder ends, if it can be told who that is, and a moment if not.
fn wait_for_change(
    holder: Option<&GuardRecord>,
    limit: Duration,
    call_off: &impl AsFd,
) -> Result<(), LockError> {
    let holder = holder.filter(|record| record.is_alive());
    let pidfd = holder.and_then(|record| pidfd_open(record.guard.number()?, PidfdFlags::empty()).ok());
    let limit = if pidfd.is_some() { limit } else { RETRY };
    let call_off = call_off.as_fd();
    let mut fds = vec![PollFd::new(&call_off, PollFlags::IN)];
    fds.extend(pidfd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&limit)) {
        Ok(_) if !fds[0].revents().is_empty() => Err(LockError::GivenUp),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(LockError::Io(error.into())),
    }
}

/// Whether the file of an attempt names a guard.
pub(super) fn is_of(path: &Path, guard: Identity) -> bool {
    read(path).is_some_and(|record| record.guard == guard)
}

/// Removes the file of a guard that is dead, if it is still its own.
pub(super) fn forget(path: &Path, guard: Identity) {
    if let Ok(Some(lock)) = try_lock(path) {
        let is_its_own = lock.record().is_none_or(|record| record.guard == guard);
        let _ = is_its_own.then(|| lock.remove());
    }
}

/// Everything below a process that is not ours to wait for.
struct Below(i32);

impl Victims for Below {
    fn find(&mut self, table: &Table) -> Vec<ProcessRow> {
        table.below([self.0])
    }

    fn reap(&mut self, _: &Table) {}
}

/// Ends a guard with all that is below it. It is stopped first and dies last: while it lives, its
/// orphans come back to it and are found.
pub(super) fn end_guard(guard: Identity) -> Swept {
    if !tree::signal(guard, Signal::STOP) {
        return Swept::default();
    }
    let swept = tree::kill_all(&mut Below(guard.pid), MAX_KILL);
    tree::signal(guard, Signal::KILL);
    tree::wait_for_end(guard, MAX_KILL);
    swept
}

/// Everything that carries a mark, and what is below it.
struct Marked<'mark> {
    mark: &'mark Mark,
    since: u64,
}

impl Victims for Marked<'_> {
    fn find(&mut self, table: &Table) -> Vec<ProcessRow> {
        marked(table, self.mark, self.since)
    }

    fn reap(&mut self, _: &Table) {}
}

/// Every process that carries a mark or is below one that does; neither we nor those above us.
pub(super) fn marked(table: &Table, mark: &Mark, since: u64) -> Vec<ProcessRow> {
    carriers(table, since, &|entry| mark.is_in_environment_of(entry.pid))
}

/// Every process from some time on that is meant or is below one that is; neither we nor those above us.
pub(super) fn carriers(table: &Table, since: u64, is_meant: &dyn Fn(&ProcessRow) -> bool) -> Vec<ProcessRow> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let above: Vec<i32> = table.above(own).iter().map(|entry| entry.pid).collect();
    let carries =
        |entry: &&ProcessRow| entry.start >= since && !above.contains(&entry.pid) && is_meant(entry);
    let roots: Vec<ProcessRow> = table.entries().filter(carries).copied().collect();
    let below = table.below(roots.iter().map(|entry| entry.pid));
    roots.into_iter().chain(below).filter(|entry| !above.contains(&entry.pid)).collect()
}

/// A record in a file that is not locked means that its guard was killed: what it started may live on
/// without it, and is known by its mark.
fn end_unguarded(record: Option<&GuardRecord>) -> Swept {
    match record.filter(|record| record.is_of_this_boot()) {
        Some(record) => {
            let mut marked = Marked { mark: &record.mark, since: record.guard.start };
            tree::kill_all(&mut marked, MAX_KILL)
        }
        None => Swept::default(),
    }
}

/// The file of an attempt, for a process that did not start the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFile {
    /// The path of the file.
    pub path: PathBuf,
    /// What its guard wrote; `None` if that cannot be read.
    pub record: Option<GuardRecord>,
    /// Whether its lock is held: the attempt is alive.
    pub alive: bool,
}

/// What ending a leftover came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftoverEnd {
    /// How many processes were ended, the guard not among them.
    pub ended: usize,
    /// How many could not be ended.
    pub left: usize,
}

/// Every attempt that has a file in a folder, by name. A folder that is not there has none.
pub fn attempts(folder: &Path) -> io::Result<Vec<AttemptFile>> {
    let held = match Folder::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        held => held?,
    };
    let mut found = Vec::new();
    for name in held.names()? {
        // What vanishes while we look has ended; what is no file is no attempt.
        let Ok(file) = held.file(&name) else { continue };
        let alive = !folder::lock::try_share(&file).unwrap_or(false);
        found.push(AttemptFile { path: folder.join(name), record: read_from(&file), alive });
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

/// Ends what is left of every attempt whose file begins so. A guard that is just being started may hold
/// a file that does not name it yet: it is waited for, and no longer than an attempt waits.
pub fn end_leftovers(folder: &Path, prefix: &str) -> Result<(), LockError> {
    let deadline = Instant::now() + MAX_LOCK_WAIT;
    let begins =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    for found in attempts(folder)?.into_iter().filter(|attempt| begins(&attempt.path)) {
        let mut ended = end_leftover(&found);
        while matches!(ended, Err(LockError::Held(_))) && Instant::now() < deadline {
            std::thread::sleep(RETRY);
            let record = read(&found.path);
            ended = end_leftover(&AttemptFile { record, ..found.clone() });
        }
        ended?;
    }
    Ok(())
}

/// Ends what is left of an attempt and removes its file. The caller must know that no driver
/// waits for the attempt any more: an attempt that is well and alive is ended just the same.
pub fn end_leftover(attempt: &AttemptFile) -> Result<LeftoverEnd, LockError> {
    let mut swept = Swept::default();
    if let Some(record) = attempt.record.as_ref().filter(|record| record.is_alive()) {
        swept = end_guard(record.guard);
    }
    let Some(lock) = try_lock(&attempt.path)? else {
        return Err(LockError::Held(read(&attempt.path).map(Box::new)));
    };
    let unguarded = end_unguarded(lock.record().or_else(|| attempt.record.clone()).as_ref());
    lock.remove()?;
    let ended = swept.met.union(&unguarded.met).count();
    Ok(LeftoverEnd { ended, left: swept.left.union(&unguarded.left).count() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn mark() -> Mark {
        Mark::new("FTL_ATTEMPT_OF_A_TEST", &format!("{:x}", ftl_folder::id::random().unwrap())).unwrap()
    }

    fn never() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    #[test]
    fn a_lock_is_written_seen_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mark, call_off) = (folder.path().join("a.1"), mark(), never());
        let lock = take(&path, &mark, None, MAX_LOCK_WAIT, &call_off.0).unwrap();
        let found = attempts(folder.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].alive);
        let record = found[0].record.clone().unwrap();
        assert_eq!((record.guard, &record.mark), (Identity::own().unwrap(), &mark));
        assert!(!record.is_alive(), "whatever a file says, this process is no guard to be ended");
        lock.remove().unwrap();
        assert_eq!(attempts(folder.path()).unwrap(), []);
        assert_eq!(attempts(&folder.path().join("missing")).unwrap(), []);
    }

    #[test]
    fn a_held_lock_is_refused_and_its_holder_named() {
        let folder = tempfile::tempdir().unwrap();
        let (path, call_off) = (folder.path().join("a.1"), never());
        let held = try_lock(&path).unwrap().unwrap();
        let error = take(&path, &mark(), None, Duration::from_millis(30), &call_off.0).unwrap_err();
        assert!(matches!(error, LockError::Held(None)), "{error}");
        let mut stranger = GuardRecord::own(&mark()).unwrap();
        stranger.guard.start += 1;
        held.write(&stranger).unwrap();
        let error = take(&path, &mark(), None, Duration::from_millis(30), &call_off.0).unwrap_err();
        assert!(matches!(error, LockError::Held(Some(_))), "number and start must match: {error}");
        let of_another_boot = GuardRecord { boot: "another".into(), ..GuardRecord::own(&mark()).unwrap() };
        held.write(&of_another_boot).unwrap();
        let error = take(&path, &mark(), None, Duration::from_millis(30), &call_off.0).unwrap_err();
        assert!(matches!(error, LockError::Held(Some(_))), "the boot must match: {error}");
    }

    #[test]
    fn waiting_is_called_off() {
        let folder = tempfile::tempdir().unwrap();
        let (path, call_off) = (folder.path().join("a.1"), never());
        let _held = try_lock(&path).unwrap().unwrap();
        drop(call_off.1);
        let error = take(&path, &mark(), None, Duration::from_secs(600), &call_off.0).unwrap_err();
        assert!(matches!(error, LockError::GivenUp), "{error}");
    }

    #[test]
    fn a_file_that_was_removed_is_nobodys_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.1");
        let first = try_lock(&path).unwrap().unwrap();
        let waiting = File::open(&path).unwrap();
        first.remove().unwrap();
        assert!(folder::lock::try_lock(&waiting).unwrap());
        assert!(!folder::lock::is_at(&waiting, &path).unwrap());
        let second = try_lock(&path).unwrap().unwrap();
        assert!(folder::lock::is_at(&second.file, &path).unwrap());
    }

    #[test]
    fn a_leftover_with_an_unreadable_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.1"), b"{ torn").unwrap();
        let found = attempts(folder.path()).unwrap();
        assert_eq!((found[0].alive, &found[0].record), (false, &None));
        assert_eq!(end_leftover(&found[0]).unwrap(), LeftoverEnd { ended: 0, left: 0 });
        assert_eq!(attempts(folder.path()).unwrap(), []);
    }
}
