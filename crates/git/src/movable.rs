//! Whether the files that a change replaces can be moved at all, before any of them is.
//!
//! A file may be a mount point, protected by an attribute of the file system, in a folder from which only its owner
//! takes it away, or one that the user may not read. Moving it fails then, after others were moved. Each is looked at
//! here without being opened or changed. What still fails later is taken back by the transfer.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags, accessat, statx};
use rustix::io::Errno;

use super::error::At as _;
use super::probe::below;
use super::tree::Differing;
use super::{GitError, Repo};

/// The bit of a folder from which only owners take files away.
const STICKY: u32 = 0o1000;

impl Repo {
    /// Why a file of the person's checkout cannot be moved, in a sentence; nothing where each can be.
    pub(super) fn unmovable(&self, changes: &[Differing]) -> Result<Option<String>, GitError> {
        for change in changes {
            let file = below(&self.top, &change.path);
            if let Some(why) = obstacle(&file).at(&file)? {
                return Ok(Some(format!("`{}` {why}", String::from_utf8_lossy(&change.path))));
            }
        }
        Ok(None)
    }
}

/// Why a file cannot be moved; nothing where it can be, or where there is none.
fn obstacle(file: &Path) -> io::Result<Option<&'static str>> {
    let (Ok(found), Some(folder)) = (file.symlink_metadata(), file.parent()) else { return Ok(None) };
    let (own, around) = (attributes(file)?, attributes(folder)?);
    let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    let user = rustix::process::geteuid().as_raw();
    let may_read = || accessat(CWD, file, Access::READ_OK, AtFlags::EACCESS).is_ok();
    Ok(if own.contains(StatxAttributes::MOUNT_ROOT) {
        Some("is a mount point, which cannot be replaced")
    } else if own.intersects(fixed) || around.intersects(fixed) {
        Some("may not be replaced: an attribute of the file system says so (see `lsattr`)")
    } else if is_another_s(&found, &folder.metadata()?, user) {
        Some("belongs to another user, in a folder from which only its owner may take it")
    } else if found.is_file() && !may_read() {
        Some("may not be read")
    } else {
        None
    })
}

/// Whether only another user may take a file from its folder.
fn is_another_s(file: &Metadata, folder: &Metadata, user: u32) -> bool {
    folder.mode() & STICKY != 0 && user != 0 && file.uid() != user && folder.uid() != user
}

/// The attributes that the file system knows; none where it knows none, or where the name has gone.
fn attributes(path: &Path) -> io::Result<StatxAttributes> {
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty()) {
        Ok(found) => Ok(found.stx_attributes),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NOSYS) => Ok(StatxAttributes::empty()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_cannot_be_moved_is_known_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        assert_eq!(obstacle(&file).unwrap(), None, "there is none");
        fs::write(&file, "a").unwrap();
        assert_eq!(obstacle(&file).unwrap(), None);
        assert!(obstacle(Path::new("/proc")).unwrap().is_some_and(|why| why.contains("mount point")));
        let (found, around) = (file.metadata().unwrap(), folder.path().metadata().unwrap());
        let other = found.uid() + 1;
        assert!(!is_another_s(&found, &around, other), "everybody may take it");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let around = folder.path().metadata().unwrap();
        assert!(is_another_s(&found, &around, other) && !is_another_s(&found, &around, found.uid()));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(obstacle(&file).unwrap(), (!is_root).then_some("may not be read"));
    }
}
