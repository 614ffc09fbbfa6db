//! The fence of a run: the lowest epoch whose owner may still start something.
//!
//! The process that takes a run over raises its fence first and then ends what is left of older attempts. A
//! guard looks at the fence while it holds the lock of its attempt and before it starts anything: so
//! an owner that slept through its own replacement starts nothing any more, however long ago it
//! decided to. A fence is never lowered, and one that cannot be read stops every owner.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::holder::{self, LockWait, Locking};
use ftl_folder::{self as folder, OpenMode};

/// How long a fence that is just being raised is waited for.
const MAX_FENCE_WAIT: Duration = Duration::from_secs(30);

/// How many digits a fence is written with: each of the same length, so that one replaces another
/// whole.
const DIGITS: usize = 20;

/// The fence that an attempt must not be behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Its file, the same for every owner of the run. A file that is not there stops no owner.
    pub file: PathBuf,
    /// The epoch of the owner that starts the attempt.
    pub epoch: u64,
}

impl Fence {
    /// Whether the owner that starts the attempt was overtaken.
    pub fn is_passed(&self) -> io::Result<bool> {
        Ok(lowest(&self.file)?.is_some_and(|lowest| lowest > self.epoch))
    }
}

/// The lowest epoch that a fence lets pass; nothing where there is no fence.
pub fn lowest(path: &Path) -> io::Result<Option<u64>> {
    let file = match folder::open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let file = holder::lock(file, Locking::Shared, || wait(path))?;
    read(file.file())
}

/// Raises a fence: from now on no owner of a lower epoch starts anything.
pub fn raise(path: &Path, epoch: u64) -> io::Result<()> {
    let file = folder::open(path, OpenMode::Update)?;
    let locked = holder::lock(file, Locking::Unsigned, || wait(path))?;
    let file = locked.file();
    if read(file)?.is_some_and(|lowest| lowest >= epoch) {
        return Ok(());
    }
    file.write_all_at(format!("{epoch:0DIGITS$}").as_bytes(), 0)?;
    file.sync_data()
}

fn wait(path: &Path) -> LockWait {
    LockWait::new(format!("the fence `{}`", path.display()), Vec::new(), MAX_FENCE_WAIT)
}

/// What is in a fence; nothing in one that was just made.
fn read(file: &File) -> io::Result<Option<u64>> {
    let mut text = String::new();
    let mut from_start = file;
    io::Seek::rewind(&mut from_start)?;
    from_start.take(DIGITS as u64 + 1).read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let number = if text.len() == DIGITS { text.parse().ok() } else { None };
    number.map(Some).ok_or_else(|| io::Error::other(format!("`{text}` is no fence")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_stops_whoever_is_behind_it_and_is_never_lowered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run");
        let passed = |epoch| Fence { file: file.clone(), epoch }.is_passed().unwrap();
        assert!(!passed(1), "no fence stops nobody");
        raise(&file, 3).unwrap();
        assert_eq!([passed(1), passed(2), passed(3), passed(4)], [true, true, false, false]);
        raise(&file, 2).unwrap();
        assert!(passed(2), "it stays where it is");
        raise(&file, u64::MAX).unwrap();
        assert!(passed(u64::MAX - 1) && !passed(u64::MAX));
        assert_eq!(lowest(&file).unwrap(), Some(u64::MAX));
        assert_eq!(lowest(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn a_fence_that_cannot_be_read_stops_everybody() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("word", "seven"), ("short", "7"), ("long", &"9".repeat(21)), ("torn", "0000000")]
        {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            assert!(Fence { file: file.clone(), epoch: 9 }.is_passed().is_err(), "{name}");
            assert!(raise(&file, 9).is_err(), "{name}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("word"), &link).unwrap();
        assert!(raise(&link, 9).is_err());
    }
}
