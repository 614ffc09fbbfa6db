//! Writing a file so that it is either the old one or the new one, never half of each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Puts a text in the place of a file: a new file beside it, synced, then renamed. Permissions
/// stay; a link is followed, and stays a link. A file that is marked read-only is left alone.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|before| before.permissions().readonly()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    let beside = beside(&target)?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(&beside)?;
    let done = fill(&file, &target, text).and_then(|()| fs::rename(&beside, &target));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done.and_then(|()| sync_folder(&target))
}

fn fill(mut file: &File, target: &Path, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    if let Ok(before) = fs::metadata(target) {
        keep_owner(file, &before);
        file.set_permissions(before.permissions())?;
    }
    file.sync_all()
}

/// Only root can give a file away; for everybody else the owner is right already.
#[cfg(unix)]
fn keep_owner(file: &File, before: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let _ = fchown(file, Some(before.uid()), Some(before.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &fs::Metadata) {}

/// A name in the same folder that no document has: it does not end in `.md`.
fn beside(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let name = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
    Ok(target.with_file_name(name))
}

#[cfg(unix)]
fn sync_folder(target: &Path) -> io::Result<()> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
