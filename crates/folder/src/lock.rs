//! Locks of files, as the kernel keeps them: a lock goes with the last descriptor of the file that has it.
//!
//! Nothing here waits but [`wait`], and nothing here knows who has a lock.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Locks a file for this process alone if no other has it locked; whether it is locked now.
pub fn try_lock(file: &File) -> io::Result<bool> {
    taken(file.try_lock())
}

/// Locks a file against those who want it alone, if no process has it alone; whether it is locked now.
pub fn try_share(file: &File) -> io::Result<bool> {
    taken(file.try_lock_shared())
}

fn taken(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks a file, in the order in which processes came, for as long as that takes.
pub fn wait(file: &File, is_shared: bool) -> io::Result<()> {
    loop {
        match if is_shared { file.lock_shared() } else { file.lock() } {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether a file that is open is the one at a path: a lock of a file that was removed locks nothing.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match super::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_has_a_lock_alone_and_many_share_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::options().create(true).append(true).open(&path).unwrap();
        let [first, second, third] = [open(), open(), open()];
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap() && !try_share(&second).unwrap());
        drop(first);
        assert!(try_share(&second).unwrap() && try_share(&third).unwrap());
        assert!(!try_lock(&open()).unwrap());
        drop(second);
        third.unlock().unwrap();
        wait(&third, false).unwrap();
        assert!(!try_share(&open()).unwrap());

        assert!(is_at(&third, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&third, &path).unwrap());
        drop(open());
        assert!(!is_at(&third, &path).unwrap(), "another file of that name");
    }
}
