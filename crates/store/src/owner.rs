//! Owners: which process drives a run, and whether it still lives.
//!
//! A process that drives runs holds a kernel lock on a file of its own, so that its death is known at
//! once and without a clock: the lock dies with it. A thread of it writes a beat into the file, so
//! that a process that was stopped in the middle is told from one that works. What is in the file
//! is for people; only the lock and the moving beat count.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ftl_core::run::Time;
use serde::{Deserialize, Serialize};

use ftl_folder::clock;
use ftl_folder::id;
use ftl_folder::{self as folder, FolderRefusal, OpenMode, lock};
use ftl_process::table::{Identity, boot_id};
use ftl_process::{Namespaces, Witness, holder};

/// How often a living owner shows that it moves.
pub const BEAT: Duration = Duration::from_secs(1);

/// An owner that has not moved for so long may lose its runs.
pub const MAX_SILENCE: Duration = holder::MAX_STANDSTILL;

/// How often a new file is made when another process has taken the last one for a dead owner's.
const MAX_TRIES: usize = 20;

/// Where the beat stands in the file: after the card, which is never longer.
const BEAT_AT: u64 = 1024;

/// How much of its command line an owner writes down.
const MAX_COMMAND_BYTES: usize = 400;

/// Who an owner is, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The process number, in the owner's own PID namespace.
    pub pid: u32,
    /// The name of the machine that it runs on.
    pub host: String,
    /// Its command line, shortened.
    pub command: String,
    /// Since when it is an owner; 0 if that is not known.
    #[serde(default)]
    pub since: Time,
    /// When its process began, in clock ticks since the machine did; 0 if that is not known.
    #[serde(default)]
    pub start: u64,
    /// In which start of the machine; empty if that is not known.
    #[serde(default)]
    pub boot: String,
    /// Where its process number counts; nothing in the card of an older program.
    #[serde(default)]
    pub namespaces: Option<Namespaces>,
}

impl Card {
    /// The card of this process.
    fn own(command: &str) -> Card {
        Card {
            pid: std::process::id(),
            host: host(),
            command: command[..command.floor_char_boundary(MAX_COMMAND_BYTES)].to_owned(),
            since: clock::wall(),
            start: Identity::own().map_or(0, |own| own.start),
            boot: boot_id().unwrap_or_default(),
            namespaces: Namespaces::own().ok(),
        }
    }

    /// What is in the file: never so long that it reaches the beat.
    fn text(mut self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(&self)?;
        while text.len() as u64 >= BEAT_AT && !self.command.is_empty() {
            self.command.truncate(self.command.floor_char_boundary(self.command.len() / 2));
            text = serde_json::to_vec(&self)?;
        }
        Ok(text)
    }

    /// The process, as its own namespace numbers it; nothing where its start is not known.
    pub fn identity(&self) -> Option<Identity> {
        let pid = i32::try_from(self.pid).ok()?;
        (self.start > 0).then_some(Identity { pid, start: self.start })
    }
}

/// This process as an owner of runs, for as long as the value lives.
#[derive(Debug)]
pub struct Owner {
    name: String,
    path: PathBuf,
    _lock: File,
    beat: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Owner {
    /// Makes this process an owner, with a lock in that folder.
    pub fn register(folder: &Path, command: &str) -> io::Result<Owner> {
        folder::make(folder)?;
        let (name, file) = locked(folder)?;
        let path = folder.join(&name);
        file.write_all_at(&Card::own(command).text()?, 0)?;
        file.write_all_at(&0u64.to_be_bytes(), BEAT_AT)?;
        let beat = start_beat(file.try_clone()?)?;
        Ok(Owner { name, path, _lock: file, beat: Some(beat) })
    }

    /// The name under which it owns runs.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some((stop, beat)) = self.beat.take() {
            drop(stop);
            let _ = beat.join();
        }
        let _ = folder::remove(&self.path);
    }
}

/// A new file with a lock on it. A process that looks for dead owners may meet it before it is locked: it
/// holds it for a moment, or removes it. Then another one is made.
fn locked(folder: &Path) -> io::Result<(String, File)> {
    let mut last = io::Error::from(io::ErrorKind::WouldBlock);
    for _ in 0..MAX_TRIES {
        let name = format!("{:016x}", id::random()?);
        let path = folder.join(&name);
        let file = folder::open_as(&path, OpenMode::New, 0o644)?;
        match lock::try_lock(&file) {
            Ok(true) if lock::is_at(&file, &path)? => return Ok((name, file)),
            Ok(true) => {}
            Ok(false) => drop(folder::remove(&path)),
            Err(error) => {
                last = error;
                let _ = folder::remove(&path);
            }
        }
    }
    Err(last)
}

fn start_beat(file: File) -> io::Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel::<()>();
    let beat = std::thread::Builder::new().name("beat".to_owned()).spawn(move || {
        let mut count = 1u64;
        while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(BEAT) {
            let _ = file.write_all_at(&count.to_be_bytes(), BEAT_AT);
            count += 1;
        }
    })?;
    Ok((stop, beat))
}

/// Whether an owner lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its lock is free or its file is gone: it is dead.
    Dead,
    /// It holds its lock; the beat is what its file says now.
    Alive {
        /// Who it is, if its file says so.
        card: Option<Card>,
        /// The last heartbeat in its file; one that no longer changes shows a stopped process.
        beat: u64,
    },
}

/// Whether a name is one that an owner may have: sixteen hexadecimal digits.
fn is_name(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether the owner of that name lives.
pub fn life(folder: &Path, name: &str) -> io::Result<Life> {
    // A name comes out of the store; it must not lead anywhere else.
    if !is_name(name) {
        return Ok(Life::Dead);
    }
    let file = match open(&folder.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Life::Dead),
        // What is no file was never locked by an owner.
        Err(error) if matches!(FolderRefusal::of(&error), Some(FolderRefusal::NotAFile(_))) => {
            return Ok(Life::Dead);
        }
        Err(error) => return Err(error),
    };
    if lock::try_share(&file)? {
        return Ok(Life::Dead);
    }
    let mut card = vec![0; BEAT_AT as usize];
    let read = file.read_at(&mut card, 0)?;
    let end = card[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    let mut beat = [0; 8];
    let _ = file.read_exact_at(&mut beat, BEAT_AT);
    let card = serde_json::from_slice(&card[..end]).ok();
    Ok(Life::Alive { card, beat: u64::from_be_bytes(beat) })
}

/// Every owner in a folder that lives and says who it is: what shows whether we are inside an agent of one.
pub fn living(folder: &Path) -> Vec<Witness> {
    let names = folder::names(folder).unwrap_or_default();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let lives = |name: String| match life(folder, &name) {
        Ok(Life::Alive { card: Some(card), .. }) => {
            Some(Witness { who: card.identity()?, namespaces: card.namespaces })
        }
        Ok(Life::Alive { card: None, .. } | Life::Dead) | Err(_) => None,
    };
    names.filter_map(lives).collect()
}

/// The process of an owner that lives and whose card an earlier version of this program wrote.
pub fn of_earlier_version(folder: &Path) -> Option<u32> {
    let names = folder::names(folder).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str()).find_map(|name| match life(folder, name) {
        Ok(Life::Alive { card: Some(card), .. }) if card.namespaces.is_none() => Some(card.pid),
        Ok(Life::Alive { .. } | Life::Dead) | Err(_) => None,
    })
}

/// Opens a file of the folder for reading. A pipe in its place must not keep us, and a
/// link must not lead us away.
fn open(path: &Path) -> io::Result<File> {
    folder::open(path, OpenMode::Read)
}

/// Watches an owner until it is dead, or has not moved for `MAX_SILENCE` by our own clock, or the caller
/// says that it is enough. Whether its runs may be taken.
pub fn is_gone(folder: &Path, name: &str, enough: &mut dyn FnMut() -> bool) -> io::Result<bool> {
    let mut last = None;
    let mut since = Instant::now();
    loop {
        let (beat, card) = match life(folder, name)? {
            Life::Dead => return Ok(true),
            Life::Alive { beat, card } => (Some(beat), card),
        };
        if beat != last {
            (last, since) = (beat, Instant::now());
        }
        if since.elapsed() >= MAX_SILENCE {
            // The process that takes its runs need not watch it for as long again where it holds a lock.
            if let Some(who) = card.as_ref().and_then(Card::identity) {
                holder::note_standstill(who, since);
            }
            return Ok(true);
        }
        if enough() {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Files of owners that are dead: nothing needs them any more.
pub fn dead_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut dead = Vec::new();
    for name in folder::names(folder)? {
        // Only what has the name of an owner and is a file can have been one.
        let Some(name) = name.to_str().filter(|name| is_name(name)) else { continue };
        let path = folder.join(name);
        if folder::is_file(&path) && life(folder, name)? == Life::Dead {
            dead.push(path);
        }
    }
    Ok(dead)
}

/// Removes the file of an owner if that is dead; whether it was. The lock is held meanwhile, so that
/// no process becomes the owner that is removed.
pub fn remove_dead(path: &Path) -> io::Result<bool> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if !lock::try_lock(&file)? {
        return Ok(false);
    }
    match folder::remove(path) {
        Ok(()) => Ok(true),
        // Its owner was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_lock_tells_life_from_death() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::register(folder.path(), "ftl run x").unwrap();
        let Life::Alive { card: Some(card), .. } = life(folder.path(), owner.name()).unwrap() else {
            unreachable!("it lives")
        };
        assert_eq!((card.pid, card.command.as_str()), (std::process::id(), "ftl run x"));
        assert_eq!(card.identity(), Identity::own());
        let own = Witness { who: card.identity().unwrap(), namespaces: card.namespaces };
        assert_eq!(living(folder.path()), [own], "it says where it stands");
        let name = owner.name().to_owned();
        drop(owner);
        assert_eq!(life(folder.path(), &name).unwrap(), Life::Dead);
        assert_eq!(life(folder.path(), "../../etc/passwd").unwrap(), Life::Dead);
    }

    #[test]
    fn a_card_never_reaches_the_beat_and_an_old_one_is_read() {
        let card = Card::own(&"\u{1}".repeat(MAX_COMMAND_BYTES + 1)).text().unwrap();
        assert!((card.len() as u64) < BEAT_AT);
        let card: Card = serde_json::from_slice(&card).unwrap();
        assert!(!card.command.is_empty() && card.command.len() < MAX_COMMAND_BYTES);
        let old: Card = serde_json::from_str(r#"{"pid":7,"host":"h","command":"c","since":1}"#).unwrap();
        assert_eq!((old.identity(), old.namespaces), (None, None));
    }

    #[test]
    fn a_pipe_among_the_owners_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("00000000deadbeef");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(life(folder.path(), "00000000deadbeef").unwrap(), Life::Dead);
    }

    #[test]
    fn the_file_of_a_dead_owner_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::register(folder.path(), "x").unwrap();
        fs::write(folder.path().join("00000000deadbeef"), "{}").unwrap();
        assert_eq!(dead_files(folder.path()).unwrap(), [folder.path().join("00000000deadbeef")]);
        assert!(is_gone(folder.path(), "00000000deadbeef", &mut || true).unwrap());
        assert!(!is_gone(folder.path(), owner.name(), &mut || true).unwrap());
        assert!(remove_dead(&folder.path().join("00000000deadbeef")).unwrap());
        assert!(!remove_dead(&folder.path().join("00000000deadbeef")).unwrap(), "it is gone");
        assert!(!remove_dead(&folder.path().join(owner.name())).unwrap(), "it lives");
        assert!(dead_files(folder.path()).unwrap().is_empty());
    }

    /// Another process removes dead owners' files while owners come: none of them loses its file to it.
    #[test]
    fn no_new_owner_is_taken_for_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for file in dead_files(folder.path()).unwrap() {
                        remove_dead(&file).unwrap();
                    }
                }
            });
            for _ in 0..200 {
                let owner = Owner::register(folder.path(), "x");
                let lives = owner
                    .as_ref()
                    .is_ok_and(|owner| matches!(life(folder.path(), owner.name()), Ok(Life::Alive { .. })));
                if !lives {
                    done.store(true, std::sync::atomic::Ordering::Relaxed);
                    unreachable!("{owner:?}");
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
