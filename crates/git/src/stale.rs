//! Lock files of refs: which are a dead git's of ours, and which another program's.
//!
//! Git takes `<ref>.lock` before it moves a ref, and one that is killed leaves it; every later move of that ref then
//! fails. So a mover of ours leaves a mark while it moves: a file that names the process, and in it the refs, where
//! each goes, and the process namespace. A lock on such a ref whose mover is dead, that was made while that one can
//! have lived, and that says what it was to say, is removed. Any other lock is waited for, and then named; a mark
//! without a lock that is its own goes. Nothing is removed that is younger than a second, and nothing but locks and
//! marks.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::error::At as _;
use super::worktree::says;
use super::{ErrorKind, GitError, MAX_GIT_TIME, Repo};
use ftl_folder::{self as folder, NameIn};
use ftl_process::Cancel;
use ftl_process::table::{Identity, boot_id};

/// How long a lock must have been there, the same, to be taken for one whose holder is gone.
const MIN_LOCK_AGE: Duration = Duration::from_secs(1);

/// How long another program's lock is waited for.
pub(super) const MAX_LOCK_WAIT: Duration = Duration::from_secs(3);

/// How long until a lock is looked at again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The largest mark that is read.
const MAX_MARK_BYTES: u64 = 1024 * 1024;

/// The most lock files that are listed.
pub const MAX_LOCKS_LISTED: usize = 1_000;

/// The folders below which every ref is ours.
const OURS: [&str; 2] = ["refs/heads/ftl", "refs/ftl"];

/// Locks that a mover of ours takes whatever ref it moves: on the list of packed refs, or on all refs where they are
/// no files.
const OF_ALL: [&str; 2] = ["packed-refs.lock", "reftable/tables.list.lock"];

/// How the line of a mark begins that names the process namespace.
const NAMESPACE: &str = "pid:";

/// What git says where it cannot take the last one.
const ALL_LOCKED: &str = "cannot lock references";

/// A mark that a mover leaves while it moves refs.
pub(super) struct Mark(PathBuf);

impl Mark {
    /// Says that a process is about to move these refs: a line for each, with the name and where it goes.
    pub(super) fn leave(folder: &Path, mover: Identity, refs: &[&str]) -> io::Result<Mark> {
        let (boot, namespace) = (boot_id().unwrap_or_default(), namespace());
        let refs: Vec<&str> = refs.iter().copied().chain(namespace.as_deref()).collect();
        let file = folder.join(format!("{}.{}.{boot}", mover.pid, mover.start));
        match folder::write(&file, refs.join("\n").as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder::make(folder)?;
                folder::write(&file, refs.join("\n").as_bytes())?;
            }
            written => written?,
        }
        Ok(Mark(file))
    }

    /// The move has ended, and its locks are gone.
    pub(super) fn remove(self) -> io::Result<()> {
        folder::remove(&self.0)
    }
}

/// A mark of a process that is dead.
struct DeadMark {
    file: PathBuf,
    /// What it was about to move; empty where a power cut took that away, which may then be any of ours.
    refs: Vec<Marked>,
    /// When it was left.
    since: SystemTime,
}

/// A ref that a mark names.
#[derive(Debug, PartialEq, Eq)]
struct Marked {
    name: String,
    /// Where it goes; marks of earlier versions do not say.
    new: Option<String>,
}

impl Marked {
    fn read(line: &str) -> Marked {
        match line.split_once(' ') {
            Some((name, new)) => Marked { name: name.to_owned(), new: Some(new.to_owned()) },
            None => Marked { name: line.to_owned(), new: None },
        }
    }
}

impl DeadMark {
    /// Whether the dead process may have left a lock, as its path from the git folder.
    fn names(&self, lock: &str) -> bool {
        OF_ALL.contains(&lock) || self.marked(lock).is_some() || (self.refs.is_empty() && is_ours(lock))
    }

    fn marked(&self, lock: &str) -> Option<&Marked> {
        let name = lock.strip_suffix(".lock")?;
        self.refs.iter().find(|marked| marked.name == name)
    }

    /// Whether the dead process has left a lock that it may have left: it was made after the mark and before any git
    /// of ours would have been ended, and it says what the mark says. A lock on a branch of the person's that says
    /// nothing may be another program's.
    fn has_left(&self, lock: &str, file: &Path) -> bool {
        let Ok(found) = file.symlink_metadata() else { return false };
        let made = SystemTime::UNIX_EPOCH
            + Duration::new(
                found.ctime().try_into().unwrap_or(0),
                found.ctime_nsec().try_into().unwrap_or(0),
            );
        if !self.names(lock) || made < self.since || made > self.since + MAX_GIT_TIME {
            return false;
        }
        if OF_ALL.contains(&lock) {
            return true;
        }
        let said = says(file);
        let is_said = |marked: &Marked| marked.new.as_ref().is_some_and(|new| new.as_bytes() == said);
        let is_unknown = |marked: &Marked| said.is_empty() || marked.new.is_none();
        let marked = self.marked(lock);
        marked.is_some_and(is_said) || (is_ours(lock) && marked.is_none_or(is_unknown))
    }
}

/// A lock file that was found below our refs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFile {
    /// The path of the lock file.
    pub path: PathBuf,
    /// Since when it has been there.
    pub age: Duration,
}

impl Repo {
    pub(super) fn marks_folder(&self) -> PathBuf {
        self.private_dir.home().join("moving")
    }

    /// Removes the locks of dead movers of ours, with their marks; how many locks those were.
    pub(super) fn clear_dead_locks(&self) -> Result<usize, GitError> {
        let folder = self.marks_folder();
        if folder::names(&folder).map_or(true, |all| all.is_empty()) {
            return Ok(0);
        }
        // Two that clear at once could take a new lock for the old one.
        let _turn = self.hold("moving", &Cancel::new())?;
        let mut count = 0;
        for mark in dead_marks(&folder)? {
            let mut locks: Vec<String> = mark.refs.iter().map(|one| format!("{}.lock", one.name)).collect();
            if mark.refs.is_empty() {
                locks = self.lock_files()?.iter().filter_map(|lock| self.name_of(&lock.path)).collect();
            }
            locks.extend(OF_ALL.map(String::from));
            let mut is_done = true;
            for (name, lock) in locks.iter().map(|name| (name, self.common.join(name))) {
                match age(&lock).filter(|_| mark.has_left(name, &lock)) {
                    None => {}
                    Some(age) if age < MIN_LOCK_AGE => is_done = false,
                    Some(_) => {
                        self.runner.step("remove a dead lock")?;
                        self.lock_spot(&lock).and_then(|lock| lock.remove()).at(&lock)?;
                        count += 1;
                    }
                }
            }
            if is_done {
                folder::remove(&mark.file).at(&mark.file)?;
            }
        }
        Ok(count)
    }

    /// Has a lock go that is in the way: one of a dead mover of ours is removed, any other one is waited for. An
    /// error names the one that stays.
    pub(super) fn await_lock(&self, lock: &Path) -> Result<(), GitError> {
        let until = Instant::now() + MAX_LOCK_WAIT;
        while lock.symlink_metadata().is_ok() {
            if age(lock).is_some_and(|age| age >= MIN_LOCK_AGE) && self.is_dead(lock)? {
                self.clear_dead_locks()?;
            }
            if Instant::now() >= until {
                let message = format!(
                    "another git has locked a ref: `{}` is there since {} s",
                    lock.display(),
                    age(lock).unwrap_or_default().as_secs()
                );
                let hint =
                    "end that git; if none is at work here, remove the file, then `ftl resume` the run";
                return Err(GitError::new(ErrorKind::Git, message).hint(hint));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Ok(())
    }

    /// The lock file that git says is in its way.
    pub(super) fn lock_named_in(&self, error: &GitError) -> Option<PathBuf> {
        let [_, of_all] = OF_ALL;
        let of_all = || error.message.contains(ALL_LOCKED).then(|| self.common.join(of_all));
        named_in(error).or_else(of_all)
    }

    fn is_dead(&self, lock: &Path) -> Result<bool, GitError> {
        let Some(name) = self.name_of(lock) else { return Ok(false) };
        Ok(dead_marks(&self.marks_folder())?.iter().any(|mark| mark.has_left(&name, lock)))
    }

    /// A lock, to be removed: no link is followed below the folder of refs, wherever that is.
    fn lock_spot(&self, lock: &Path) -> io::Result<NameIn> {
        let refs = self.common.join("refs");
        match (lock.strip_prefix(&refs), lock.strip_prefix(&self.common)) {
            (Ok(name), _) => NameIn::below(&refs, name),
            (Err(_), Ok(name)) => NameIn::below(&self.common, name),
            (Err(_), Err(_)) => NameIn::at(lock),
        }
    }

    /// The path of a lock from the git folder.
    fn name_of(&self, lock: &Path) -> Option<String> {
        lock.strip_prefix(&self.common).ok()?.to_str().map(str::to_owned)
    }

    /// The lock files below the folders of refs that are ours alone.
    pub(super) fn lock_files(&self) -> Result<Vec<LockFile>, GitError> {
        let mut found = Vec::new();
        let mut folders: Vec<PathBuf> = OURS.iter().map(|folder| self.common.join(folder)).collect();
        while let Some(folder) = folders.pop() {
            // What goes while it is looked at is no lock that stays.
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().at(&folder)?);
                if kind.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "lock")
                    && let Some(age) = age(&path)
                    && found.len() < MAX_LOCKS_LISTED
                {
                    found.push(LockFile { path, age });
                }
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }
}

/// Since when a file has been there, as its time says; nothing where it is not there.
fn age(file: &Path) -> Option<Duration> {
    let when = file.symlink_metadata().ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(when).unwrap_or_default())
}

/// The marks of processes that are dead.
fn dead_marks(folder: &Path) -> Result<Vec<DeadMark>, GitError> {
    let boot = boot_id().unwrap_or_default();
    let mut found = Vec::new();
    for name in folder::names(folder).at(folder)? {
        let file = folder.join(&name);
        let Some((mover, since)) = name.to_str().and_then(read_name) else { continue };
        let is_this_start = since == boot;
        match folder::read(&file, MAX_MARK_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => {
                let text = String::from_utf8_lossy(&read.at(&file)?).into_owned();
                let left = folder::metadata(&file).and_then(|found| found.modified()).at(&file)?;
                let (namespaces, refs): (Vec<&str>, Vec<&str>) =
                    text.lines().partition(|line| line.starts_with(NAMESPACE));
                let is_foreign =
                    namespaces.first().is_some_and(|found| namespace().as_deref() != Some(found));
                // Whether it lives cannot be seen from here; after so long it was ended.
                let may_live =
                    if is_foreign { SystemTime::now() < left + MAX_GIT_TIME } else { mover.is_alive() };
                if is_this_start && may_live {
                    continue;
                }
                let refs = refs.into_iter().map(Marked::read).collect();
                found.push(DeadMark { file, refs, since: left });
            }
        }
    }
    Ok(found)
}

/// The process namespace that we are in: what a number of a process means.
fn namespace() -> Option<String> {
    std::fs::read_link("/proc/self/ns/pid").ok()?.to_str().map(str::to_owned)
}

/// Whether a lock is on a ref that only `ftl` moves.
fn is_ours(lock: &str) -> bool {
    OURS.iter().any(|folder| lock.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

/// The process and the start of the machine that the name of a mark says.
fn read_name(name: &str) -> Option<(Identity, &str)> {
    let mut parts = name.splitn(3, '.');
    let (pid, start, boot) = (parts.next()?, parts.next()?, parts.next()?);
    Some((Identity { pid: pid.parse().ok()?, start: start.parse().ok()? }, boot))
}

/// The lock file that git names as the one in its way.
fn named_in(error: &GitError) -> Option<PathBuf> {
    let (_, rest) = error.message.split_once("Unable to create '")?;
    let (path, _) = rest.split_once("': File exists")?;
    path.ends_with(".lock").then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_mark_names_what_its_dead_mover_may_have_locked_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let marks = folder.path().join("moving");
        let own = Identity::own().unwrap();
        let alive = Mark::leave(&marks, own, &["refs/heads/ftl/a"]).unwrap();
        assert!(dead_marks(&marks).unwrap().is_empty(), "we live");
        alive.remove().unwrap();
        Mark::leave(
            &marks,
            Identity { start: own.start + 1, ..own },
            &["refs/heads/ftl/a 1234", "refs/ftl/runs/a"],
        )
        .unwrap();
        fs::write(marks.join("thesis"), "refs/heads/ftl/b").unwrap();
        let dead = dead_marks(&marks).unwrap();
        assert_eq!(dead.len(), 1);
        for (lock, is_its) in [
            ("refs/heads/ftl/a.lock", true),
            ("refs/ftl/runs/a.lock", true),
            ("packed-refs.lock", true),
            ("reftable/tables.list.lock", true),
            ("refs/heads/ftl/b.lock", false),
            ("refs/heads/main.lock", false),
            ("refs/heads/ftl/a", false),
            ("index.lock", false),
        ] {
            assert_eq!(dead[0].names(lock), is_its, "{lock}");
        }
        let files = folder.path().join("locks");
        let is_left = |lock: &str, said: &str| {
            let file = files.join(lock);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, said).unwrap();
            (dead[0].has_left(lock, &file), file)
        };
        for (lock, said, is_its) in [
            ("refs/heads/ftl/a.lock", "1234\n", true),
            ("refs/heads/ftl/a.lock", "", true),
            ("refs/heads/ftl/a.lock", "5678\n", false),
            ("refs/ftl/runs/a.lock", "5678\n", true),
            ("refs/heads/main.lock", "1234\n", false),
            ("packed-refs.lock", "", true),
        ] {
            assert_eq!(is_left(lock, said).0, is_its, "{lock} {said}");
        }
        let file = is_left("refs/heads/ftl/a.lock", "1234\n").1;
        for since in [SystemTime::now() - MAX_GIT_TIME - MIN_LOCK_AGE, SystemTime::now() + MIN_LOCK_AGE] {
            let refs = vec![Marked::read("refs/heads/ftl/a 1234")];
            let other = DeadMark { file: PathBuf::new(), refs, since };
            assert!(!other.has_left("refs/heads/ftl/a.lock", &file), "made at another time");
        }
        // In another process namespace a number says nothing.
        let foreign = marks.join(format!("{}.1.{}", own.pid, boot_id().unwrap()));
        fs::write(&foreign, "refs/heads/ftl/c\npid:[1]").unwrap();
        assert_eq!(dead_marks(&marks).unwrap().len(), 1, "it may live");
        let over = SystemTime::now() - MAX_GIT_TIME - MIN_LOCK_AGE;
        fs::File::options().write(true).open(&foreign).unwrap().set_modified(over).unwrap();
        assert_eq!(dead_marks(&marks).unwrap().len(), 2, "it was ended");
        fs::remove_file(foreign).unwrap();
        // A power cut leaves a mark without a word in it.
        fs::write(marks.join("1.1.of-another-start"), "").unwrap();
        let empty = dead_marks(&marks).unwrap().into_iter().find(|mark| mark.refs.is_empty()).unwrap();
        assert!(empty.names("refs/ftl/kept/x/1.lock") && !empty.names("refs/heads/main.lock"));
        // More than a mark is not read.
        let long = marks.join("1.2.of-another-start");
        fs::File::create(&long).unwrap().set_len(MAX_MARK_BYTES + 1).unwrap();
        assert!(dead_marks(&marks).is_err());
    }

    #[test]
    fn git_says_which_lock_is_in_its_way() {
        let said = "`git update-ref` failed: fatal: cannot lock ref 'refs/heads/ftl/a': Unable to create \
            '/x/it's/.git/refs/heads/ftl/a.lock': File exists.; Another git process seems to be running";
        let found = named_in(&GitError::new(ErrorKind::Git, said)).unwrap();
        assert_eq!(found, Path::new("/x/it's/.git/refs/heads/ftl/a.lock"));
        assert_eq!(named_in(&GitError::new(ErrorKind::Git, "fatal: cannot lock ref")), None);
    }
}
