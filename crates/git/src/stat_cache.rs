//! A folder at a glance: what each thing in it is known by, without opening anything and without git.
//!
//! Git has to be started to say what is in a folder, and between two steps of a task mostly nothing has
//! changed. A glance that equals the one before answers that question, and only that one: it never says what
//! is there. It is never believed about a thing that was touched in the tick of the clock in which it was
//! taken, or on another disk than the clock's. A folder of many things is left to git.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::durable::Moment;
use super::entry::{MODE_EXECUTABLE, MODE_FILE, MODE_LINK, WorktreeEntry};
use super::probe::read_file;
use super::{Oid, Repo};
use ftl_folder::state_folder::mark;

/// The most things in a folder that is glanced at.
pub(super) const MAX_GLANCED: usize = 2_000;

/// The largest index of ours whose entries are counted here.
const MAX_INDEX_BYTES: u64 = 4 * 1024 * 1024;

/// The bytes before the first entry of an index, and those of an entry before its digest.
const HEAD: usize = 12;
const FIXED: usize = 40;

/// What one thing is known by: its place on the disk, its kind, its size and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    path: PathBuf,
    place: (u64, u64),
    kind: (u32, u64),
    times: (Moment, Moment),
}

/// A folder at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glance {
    things: Vec<Look>,
    /// How many of them are no folders.
    files: usize,
}

impl Glance {
    /// Looks at everything below a folder; nothing where that is too much, or cannot be looked at, or where there is
    /// another repository: what that one has checked out cannot be seen from its files.
    fn of(folder: &Path) -> Option<Glance> {
        let mut things = Vec::new();
        let mut files = 0;
        let mut folders = vec![folder.to_owned()];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(&at).ok()? {
                let path = entry.ok()?.path();
                let found = fs::symlink_metadata(&path).ok()?;
                let is_foreign = at != *folder && path.file_name().is_some_and(|name| name == ".git");
                if is_foreign || things.len() == MAX_GLANCED {
                    return None;
                }
                if found.is_dir() {
                    folders.push(path.clone());
                } else {
                    files += 1;
                }
                things.push(Look {
                    path: path.strip_prefix(folder).ok()?.to_owned(),
                    place: (found.dev(), found.ino()),
                    kind: (found.mode(), found.len()),
                    times: ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())),
                });
            }
        }
        things.sort_by(|one, other| one.path.cmp(&other.path));
        Some(Glance { things, files })
    }

    /// Whether whatever changes after a moment can be told from what is here: everything was as it is before
    /// that moment, on the disk that the moment is of.
    fn is_before(&self, moment: Moment, disk: u64) -> bool {
        self.things.iter().all(|one| one.times.1 < moment && one.place.0 == disk)
    }
}

/// What was found in a folder, and what both the folder and our index were known by.
#[derive(Clone, Debug)]
pub(super) struct Known {
    mark: String,
    tree: Oid,
    left_out: Vec<Vec<u8>>,
    glance: Option<Arc<Glance>>,
}

impl Repo {
    /// A folder at a glance, before it is looked at in earnest; nothing where that would not be believed.
    pub(super) fn glance(&self, folder: &Path) -> Option<Glance> {
        let moment = self.moment().ok()?;
        let disk = ftl_folder::metadata(self.private_dir.home()).ok()?.dev();
        Glance::of(folder).filter(|glance| glance.is_before(moment, disk))
    }

    /// Remembers what was found in a folder. The glance was taken before.
    pub(super) fn remember(&self, index: &Path, standing: &WorktreeEntry, glance: Option<Glance>) {
        let Ok(found) = ftl_folder::metadata(index) else { return };
        let (tree, left_out) = (standing.tree.clone(), standing.left_out.clone());
        let known = Known { mark: mark(&found), tree, left_out, glance: glance.map(Arc::new) };
        self.known_trees().insert(index.to_owned(), known);
    }

    /// The tree of an index of ours that is as it was when its tree was last written.
    pub(super) fn known_tree(&self, index: &Path) -> Option<Oid> {
        self.known_of(index).map(|known| known.tree)
    }

    /// What is in a folder, where neither it nor our index has changed since that was last found out.
    pub(super) fn as_before(&self, index: &Path, folder: &Path) -> Option<WorktreeEntry> {
        let known = self.known_of(index)?;
        let glance = known.glance?;
        let is_same = Glance::of(folder).is_some_and(|now| now == *glance);
        is_same.then_some(WorktreeEntry { tree: known.tree, left_out: known.left_out })
    }

    /// Drops what was found, because no later look asks for it.
    pub(super) fn forget_known(&self, index: &Path) {
        self.known_trees().remove(index);
    }

    /// Whether a folder that is as it was holds files of its index and the pointer to git, and nothing else:
    /// there is nothing that could be ignored.
    pub(super) fn is_all_known(&self, index: &Path, folder: &Path) -> bool {
        let Some(glance) = self.known_of(index).and_then(|known| known.glance) else { return false };
        let pointer =
            usize::from(fs::symlink_metadata(folder.join(".git")).is_ok_and(|found| found.is_file()));
        files_in(index).is_some_and(|count| count + pointer == glance.files)
    }

    fn known_of(&self, index: &Path) -> Option<Known> {
        let now = mark(&ftl_folder::metadata(index).ok()?);
        self.known_trees().get(index).filter(|known| known.mark == now).cloned()
    }
}

/// How many files and links an index has; nothing where it has anything else, or cannot be read here.
fn files_in(index: &Path) -> Option<usize> {
    let bytes = read_file(index, MAX_INDEX_BYTES).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let version = number(4)?;
    if !bytes.starts_with(b"DIRC") || !(2..=3).contains(&version) {
        return None;
    }
    let count = usize::try_from(number(8)?).ok()?;
    // Two kinds of digests are known, and which one it is shows in the length of what follows the entries.
    [20, 32].into_iter().find_map(|digest| count_files(&bytes, count, digest))
}

/// Walks through the entries of an index: times, place, mode, owner and size, a digest, flags, a name, and zeros up to
/// the next eighth byte.
fn count_files(bytes: &[u8], count: usize, digest: usize) -> Option<usize> {
    let mut at = HEAD;
    for _ in 0..count {
        let mode = u32::from_be_bytes(bytes.get(at + 24..at + 28)?.try_into().ok()?);
        if !matches!(mode, MODE_FILE | MODE_EXECUTABLE | MODE_LINK) {
            return None;
        }
        let flags = at + FIXED + digest;
        let is_extended = bytes.get(flags)? & 0x40 != 0;
        let name = flags + if is_extended { 4 } else { 2 };
        let length = bytes.get(name..)?.iter().position(|byte| *byte == 0)?;
        if length == 0 {
            return None;
        }
        at += (name + length - at + 8) / 8 * 8;
    }
    (at + digest <= bytes.len()).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(folder: &Path, words: &[&str]) {
        let mut git = Command::new("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(folder);
        let out = git.args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(words).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    #[test]
    fn files_of_an_index_are_counted_as_git_writes_it_and_nothing_else_is() {
        for format in ["sha1", "sha256"] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            git(folder.path(), &["init", "-q", &format!("--object-format={format}")]);
            for length in 1..40 {
                fs::write(at(&"n".repeat(length)), "").unwrap();
            }
            fs::write(at("empty, and a long name: ".repeat(8).trim()), "").unwrap();
            std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
            let index = at(".git/index");
            git(folder.path(), &["add", "-A"]);
            assert_eq!(files_in(&index), Some(41), "{format}");
            git(folder.path(), &["update-index", "--skip-worktree", "n"]);
            assert_eq!(files_in(&index), Some(41), "with longer flags");
            git(folder.path(), &["update-index", "--index-version", "4"]);
            assert_eq!(files_in(&index), None, "its names are written in another way");
            git(folder.path(), &["update-index", "--index-version", "2"]);
            git(folder.path(), &["commit", "-qm", "1"]);
            let oid = fs::read_to_string(at(".git/refs/heads/master"))
                .or_else(|_| fs::read_to_string(at(".git/refs/heads/main")))
                .unwrap();
            let module = format!("160000,{},module", oid.trim());
            git(folder.path(), &["update-index", "--add", "--cacheinfo", &module]);
            assert_eq!(files_in(&index), None, "a submodule is no file");
            fs::write(&index, "DIRC").unwrap();
            assert_eq!(files_in(&index), None);
            fs::File::create(&index).unwrap().set_len(MAX_INDEX_BYTES + 1).unwrap();
            assert_eq!(files_in(&index), None, "too large");
        }
    }
}
