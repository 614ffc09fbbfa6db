//! Who holds a kernel lock, and what happens when it does not move.
//!
//! The kernel lists who has a lock, and only to those who see that process; so a process that takes one of ours also
//! signs its file, which those in other PID namespaces read. A process that waits says for whom, and ends a holder
//! that was stopped and would keep every other process waiting for good. Only a process that the kernel names as the
//! holder, of the same user and program, is ended, only after it has not moved for [`MAX_STANDSTILL`], and never by
//! its bare number. Nothing here waits without an end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SendError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::procfs::{Namespaces, ProcFs};
use super::table::{self, Identity};
use super::tree;
use ftl_folder::{self as folder, OpenMode, lock};

/// A holder that was stopped and has not moved for so long is ended.
pub const MAX_STANDSTILL: Duration = Duration::from_secs(15);

/// After so long a process that waits says for whom.
pub const SAYS_AFTER: Duration = Duration::from_secs(1);

/// How often a process that waits looks at the holder.
const LOOK: Duration = Duration::from_millis(100);

/// How long a signature is, so that a new one covers an old one.
const SIGNATURE_BYTES: usize = 512;

/// How much of its command line a holder signs with.
const MAX_COMMAND_BYTES: usize = 120;

/// How long a holder that was killed may take to be gone.
const MAX_END: Duration = Duration::from_secs(5);

/// How much of the kernel's list of locks is read.
const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;

/// The one that holds a lock, as it wrote itself into the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process, as its own namespace numbers it.
    #[serde(flatten)]
    pub who: Identity,
    /// In which start of the machine.
    pub boot: String,
    /// The namespaces in which its number counts.
    pub namespaces: Namespaces,
    /// The number of its user.
    pub user: u32,
    /// Its command line, shortened.
    pub command: String,
}

impl Holder {
    /// This process, as it signs.
    fn own() -> io::Result<Holder> {
        let who = Identity::own().ok_or(io::ErrorKind::NotFound)?;
        let words: Vec<_> = std::env::args_os().collect();
        let command = shortened(&words);
        let user = rustix::process::geteuid().as_raw();
        Ok(Holder { who, boot: table::boot_id()?, namespaces: Namespaces::own()?, user, command })
    }

    /// Who holds the lock of a file: the one that the kernel names, or else the one that signed it last, where that
    /// is in another namespace and cannot be asked for.
    pub fn of(path: &Path) -> Option<Holder> {
        let signed = Holder::read(path);
        let found = folder::metadata(path).ok()?;
        let listed = holders(found.ino()).into_iter().find(|(device, pid)| {
            let same_device = *device == (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
            // Some file systems list another device than they tell; then the signature must agree.
            same_device || signed.as_ref().is_some_and(|signed| signed.who.pid == *pid)
        });
        match listed {
            Some((_, pid)) => Holder::look_up(pid),
            None => signed.filter(|signed| !signed.is_near()),
        }
    }

    /// A process that we see, of our own namespace or of one below it.
    fn look_up(pid: i32) -> Option<Holder> {
        // One that has several numbers knows itself by another one than we do.
        let is_below = ProcFs::open().and_then(|proc| proc.numbers(pid)).ok()?.len() > 1;
        let own = Namespaces::own().ok()?;
        let namespaces = if is_below { Namespaces { pid: String::new(), ..own } } else { own };
        let words = table::words(pid).unwrap_or_default();
        Some(Holder {
            who: Identity::of(pid)?,
            boot: table::boot_id().ok()?,
            namespaces,
            user: effective_user(pid)?,
            command: shortened(&words),
        })
    }

    /// Reads the signature in a file; nothing where there is none.
    fn read(path: &Path) -> Option<Holder> {
        let file = folder::open(path, OpenMode::Read).ok()?;
        let mut text = Vec::new();
        file.take(SIGNATURE_BYTES as u64).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whether its number means here what it means to itself.
    fn is_near(&self) -> bool {
        let here = Namespaces::own().is_ok_and(|own| own.pid == self.namespaces.pid);
        here && table::boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Whether it is one that we may end: near, of our own user and program, and not ourselves.
    fn is_ours_to_end(&self) -> bool {
        self.is_near()
            && self.user == rustix::process::geteuid().as_raw()
            && Some(self.who) != Identity::own()
            && effective_user(self.who.pid) == Some(self.user)
            && is_same_program(self.who.pid)
    }

    /// Whether it stands still: stopped by a signal or a debugger.
    fn is_stopped(&self) -> bool {
        let entry = table::entry(self.who.pid).ok().flatten();
        entry.is_some_and(|entry| entry.start == self.who.start && matches!(entry.state, b'T' | b't'))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {} ({})", self.who.pid, self.command)?;
        if !self.is_near() {
            write!(out, " of another pid namespace")?;
        } else if self.user != rustix::process::geteuid().as_raw() {
            write!(out, " of the user with the number {}", self.user)?;
        } else if self.is_stopped() {
            write!(out, ", which is stopped")?;
        }
        Ok(())
    }
}

/// Signs the file of a lock that this process has just taken. A signature that cannot be written is missed only
/// by processes that wait.
pub fn sign(file: &File) {
    static SIGNATURE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    if let Some(signature) = SIGNATURE.get_or_init(|| signature().ok()) {
        let mut found = [0; SIGNATURE_BYTES];
        // A file that is not written needs no disk.
        if file.read_exact_at(&mut found, 0).is_err() || found != **signature {
            let _ = file.write_all_at(signature, 0);
        }
    }
}

fn signature() -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Holder::own()?)?;
    if text.len() > SIGNATURE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    text.resize(SIGNATURE_BYTES, b' ');
    Ok(text)
}

/// Another process holds a lock, and did not give it back in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillHeld {
    /// What the lock is for, as people read it.
    pub what: String,
    /// Who has it, if its file says so.
    pub holder: Option<Box<Holder>>,
    /// How long it was waited for.
    pub waited: Duration,
}

impl fmt::Display for StillHeld {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.waited.as_secs();
        match &self.holder {
            Some(holder) => write!(out, "{} is held by {holder} for over {seconds} s", self.what)?,
            None => write!(out, "{} is held for over {seconds} s, and not said by whom", self.what)?,
        }
        write!(out, "; have it go on, or end it, and try again")
    }
}

impl std::error::Error for StillHeld {}

/// Where to report what a process waits for; unset unless a program asks for it.
static LISTENER: OnceLock<fn(&str)> = OnceLock::new();

/// Has everything that a waiting process should report go to a function; only the first one.
pub fn tell(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

fn say(text: &str) {
    if let Some(listener) = LISTENER.get() {
        listener(text);
    }
}

/// Processes that were watched already, and since when they have not moved.
static STANDING: Mutex<BTreeMap<Identity, Instant>> = Mutex::new(BTreeMap::new());

/// Notes that a process was seen not to move since then, by a caller that watched it for another reason.
pub fn note_standstill(who: Identity, since: Instant) {
    STANDING.lock().unwrap_or_else(PoisonError::into_inner).insert(who, since);
}

/// One wait for a lock: looked at again and again until it is there.
#[derive(Debug)]
pub struct LockWait {
    what: String,
    files: Vec<PathBuf>,
    limit: Duration,
    began: Instant,
    looked: Option<Instant>,
    said: bool,
    /// The one that holds it, and since when it does or has not moved.
    same: Option<(Identity, Instant)>,
    stopped: Option<(Identity, Instant)>,
}

impl LockWait {
    /// A wait for a lock whose holders sign these files, for at most so long for one and the same holder.
    pub fn new(what: impl Into<String>, files: Vec<PathBuf>, limit: Duration) -> LockWait {
        let (what, began) = (what.into(), Instant::now());
        // Most locks are free again before it is worth to look whose they are.
        let looked = (limit >= LOOK).then_some(began);
        LockWait { what, files, limit, began, looked, said: false, same: None, stopped: None }
    }

    /// Looks who holds it. Says so after a moment, ends one that was stopped long enough, and tells when it is
    /// time to give up.
    pub fn look(&mut self) -> Result<(), StillHeld> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK) {
            return Ok(());
        }
        self.looked = Some(now);
        let holder = self.files.iter().find_map(|file| Holder::of(file));
        if !self.said && now - self.began >= SAYS_AFTER {
            self.said = true;
            let who = holder.as_ref().map_or_else(|| String::from("somebody"), Holder::to_string);
            say(&format!("waiting for {}, which is held by {who}", self.what));
        }
        let held_since = since(&mut self.same, holder.as_ref().map(|holder| holder.who), now);
        if let Some(holder) = &holder
            && self.ends(holder, now)
        {
            return Ok(());
        }
        let waited = now - held_since.unwrap_or(self.began);
        if waited < self.limit {
            return Ok(());
        }
        Err(StillHeld { what: self.what.clone(), holder: holder.map(Box::new), waited })
    }

    /// Whether a holder had to be ended, and was.
    fn ends(&mut self, holder: &Holder, now: Instant) -> bool {
        let stopped = (holder.is_near() && holder.is_stopped()).then_some(holder.who);
        let Some(mut still) = since(&mut self.stopped, stopped, now) else { return false };
        if let Some(noted) = STANDING.lock().unwrap_or_else(PoisonError::into_inner).get(&holder.who) {
            still = still.min(*noted);
        }
        if now - still < MAX_STANDSTILL || !holder.is_ours_to_end() {
            return false;
        }
        // It is looked at once more, and what is ended is what was looked at.
        if !holder.is_stopped() || !tree::signal(holder.who, Signal::KILL) {
            return false;
        }
        let seconds = MAX_STANDSTILL.as_secs();
        say(&format!("{holder} held {} and had not moved for {seconds} s: it was ended", self.what));
        tree::wait_for_end(holder.who, MAX_END)
    }
}

/// Locks a file, in the order in which processes came. The wait is the kernel's, which has no end of its own; so a
/// thread does it, with a file that is closed when the caller has given up.
pub fn lock(file: File, how: Locking, wait: impl FnOnce() -> LockWait) -> io::Result<Locked> {
    let is_shared = how == Locking::Shared;
    if if is_shared { lock::try_share(&file)? } else { lock::try_lock(&file)? } {
        return Ok(Locked::new(file, how));
    }
    let mut wait = wait();
    let (tell, told) = channel();
    std::thread::Builder::new().name("ftl-lock".to_owned()).spawn(move || {
        let taken = lock::wait(&file, is_shared).map(|()| file);
        // The caller has given up: where the file is open elsewhere too, closing it would not give the lock back.
        if let Err(SendError(Ok(file))) = tell.send(taken) {
            let _ = file.unlock();
        }
    })?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(taken) => return Ok(Locked::new(taken?, how)),
            Err(RecvTimeoutError::Timeout) => {
                wait.look().map_err(|held| io::Error::new(io::ErrorKind::TimedOut, held))?;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

/// Locks a file for this process alone and signs it, if no other has it; whether it is locked now.
pub fn try_lock(file: &File) -> io::Result<bool> {
    let is_locked = lock::try_lock(file)?;
    if is_locked {
        sign(file);
    }
    Ok(is_locked)
}

/// How a file is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// Against every other process, and signed.
    Alone,
    /// Against every other process, where the file holds something of its own.
    Unsigned,
    /// Against those who want it alone.
    Shared,
}

/// A file that is locked until this is dropped.
#[derive(Debug)]
pub struct Locked {
    file: File,
}

impl Locked {
    fn new(file: File, how: Locking) -> Locked {
        if how == Locking::Alone {
            sign(&file);
        }
        Locked { file }
    }

    /// The file that is locked.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Since when the same process is seen; nothing where there is none.
fn since(seen: &mut Option<(Identity, Instant)>, who: Option<Identity>, now: Instant) -> Option<Instant> {
    match (&*seen, who) {
        (Some((known, since)), Some(who)) if *known == who => Some(*since),
        (_, who) => {
            *seen = who.map(|who| (who, now));
            who.map(|_| now)
        }
    }
}

/// What a process was called with, in short: the name of its program and the first words after it.
fn shortened(words: &[OsString]) -> String {
    let program = words.first().map(|word| Path::new(word).file_name().unwrap_or(word));
    let words = program.into_iter().chain(words.iter().skip(1).map(OsString::as_os_str));
    let words: Vec<String> = words.take(3).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command = words.join(" ");
    command.retain(|letter| letter.is_ascii_graphic() || letter == ' ');
    command.truncate(MAX_COMMAND_BYTES);
    command
}

/// Who holds a file of that number for itself alone, as the kernel lists it, with the device of the file.
fn holders(inode: u64) -> Vec<((u32, u32), i32)> {
    let mut text = String::new();
    let read = File::open("/proc/locks").and_then(|list| list.take(MAX_LIST_BYTES).read_to_string(&mut text));
    let held = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(&"FLOCK"), Some(&"WRITE")) = (fields.get(1), fields.get(3)) else { return None };
        let mut file = fields.get(5)?.split(':');
        let number = |part: Option<&str>| u32::from_str_radix(part?, 16).ok();
        let device = (number(file.next())?, number(file.next())?);
        (file.next()?.parse() == Ok(inode)).then_some((device, fields.get(4)?.parse().ok()?))
    };
    if read.is_err() { Vec::new() } else { text.lines().filter_map(held).collect() }
}

/// The user whose rights a process has.
fn effective_user(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether a process runs the program that we are. A driver may not be looked into; its name is seen.
fn is_same_program(pid: i32) -> bool {
    let name = |pid: &str| fs::read(format!("/proc/{pid}/comm")).ok();
    let file = |pid: i32| {
        let program = table::program(pid)?.file_name()?.to_string_lossy().into_owned();
        Some(program.trim_end_matches(" (deleted)").to_owned())
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let named = name("self").is_some() && name("self") == name(&pid.to_string());
    named && file(pid).is_none_or(|theirs| Some(theirs) == file(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, PathBuf, File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        (folder, path, file)
    }

    #[test]
    fn the_holder_of_a_lock_is_named_as_long_as_it_holds_it() {
        let (_folder, path, file) = file();
        assert_eq!(Holder::of(&path), None);
        let locked = lock(file, Locking::Alone, || unreachable!("nobody has it")).unwrap();
        let holder = Holder::of(&path).unwrap();
        assert_eq!((Some(holder.who), holder.is_near()), (Identity::own(), true));
        assert_eq!(Holder::read(&path), Some(holder.clone()), "it signs what the kernel says");
        assert!(!holder.is_ours_to_end(), "nobody ends itself");
        drop(locked);
        assert_eq!(Holder::of(&path), None, "a signature alone is nobody of ours");
    }

    #[test]
    fn nobody_is_waited_for_longer_than_the_limit() {
        let (_folder, path, file) = file();
        let _locked = lock(file, Locking::Alone, || unreachable!("nobody has it")).unwrap();
        let mut wait = LockWait::new("a lock", vec![path.clone()], Duration::ZERO);
        let told = wait.look().unwrap_err();
        let pid = std::process::id();
        assert!(told.to_string().starts_with(&format!("a lock is held by process {pid} (ftl")), "{told}");
        let mut unsigned = LockWait::new("a lock", Vec::new(), Duration::ZERO);
        assert_eq!(unsigned.look().unwrap_err().holder, None);
        let again = File::options().read(true).write(true).open(&path).unwrap();
        let wait = || LockWait::new("a lock", vec![path], Duration::ZERO);
        let error = lock(again, Locking::Shared, wait).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_holder_of_another_namespace_user_or_program_is_named_and_lives() {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let near = Holder { who: Identity::of(pid).unwrap(), ..Holder::own().unwrap() };
        tree::signal(near.who, Signal::STOP);
        while !near.is_stopped() {
            std::thread::yield_now();
        }
        note_standstill(near.who, Instant::now().checked_sub(MAX_STANDSTILL).unwrap());
        let far =
            Holder { namespaces: Namespaces { pid: String::from("pid:[1]"), time: None }, ..near.clone() };
        let theirs = Holder { user: near.user + 1, ..near.clone() };
        for holder in [&near, &far, &theirs] {
            let mut wait = LockWait::new("a lock", Vec::new(), Duration::ZERO);
            assert!(!wait.ends(holder, Instant::now()), "{holder}");
        }
        assert!(near.to_string().ends_with("which is stopped"), "{near}");
        assert!(far.to_string().ends_with("of another pid namespace"), "{far}");
        assert!(theirs.to_string().contains("of the user with the number"), "{theirs}");
        assert!(near.who.is_alive());
        tree::signal(near.who, Signal::KILL);
        let mut child = child;
        child.wait().unwrap();
    }
}
