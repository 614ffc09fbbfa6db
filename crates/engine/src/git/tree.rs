//! What stands in a folder now, as a tree, and what differs between two trees.
//!
//! A folder is looked at with an index of our own: what an agent does with its own index does not count.
//! What is new counts, what is ignored does not. A pipe is never opened. What git could not hold, or what
//! belongs to another repository, is left out of the tree and named.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::error::At as _;
use super::look::{Seen, look, zeroed};
use super::runner::{Call, Input};
use super::{GitError, Oid, Repo, Trouble};
use crate::change::{Change, Content, FileChange, Kind, MAX_CONTENT_BYTES};

/// The most files that may differ between two trees.
pub const MAX_CHANGED_FILES: usize = 100_000;

/// The most bytes of contents that one change holds; what is beyond has no bytes.
const MAX_CHANGE_BYTES: u64 = 256 * 1024 * 1024;

/// What stands in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The tree.
    pub tree: Oid,
    /// What is left out of it, as bytes of paths: repositories inside, pipes, sockets, devices, and names
    /// that no repository may hold.
    pub left_out: Vec<Vec<u8>>,
}

/// One path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Differing {
    pub(super) path: Vec<u8>,
    pub(super) before: Entry,
    pub(super) after: Entry,
}

/// What a tree has at a path: nothing, where the mode is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: u32,
    pub(super) oid: Oid,
}

/// The modes of git.
pub(super) const MODE_NONE: u32 = 0;
pub(super) const MODE_FILE: u32 = 0o100_644;
pub(super) const MODE_EXECUTABLE: u32 = 0o100_755;
pub(super) const MODE_LINK: u32 = 0o120_000;
pub(super) const MODE_SUBMODULE: u32 = 0o160_000;

impl Entry {
    pub(super) fn is_there(&self) -> bool {
        self.mode != MODE_NONE
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        match self.mode {
            MODE_NONE => None,
            MODE_LINK => Some(Kind::Link),
            MODE_SUBMODULE => Some(Kind::Submodule),
            mode if mode & 0o100 != 0 => Some(Kind::Executable),
            _ => Some(Kind::File),
        }
    }
}

/// What a folder has beyond its index.
pub(super) struct Survey {
    /// Files and links that are new or different.
    pub(super) there: Vec<Vec<u8>>,
    /// Paths at which nothing is any more that a tree could hold.
    pub(super) gone: Vec<Vec<u8>>,
    /// Folders that are repositories of their own, and special files where a file was.
    pub(super) left_out: Vec<Vec<u8>>,
}

impl Repo {
    /// What stands in a folder, looked at through an index of ours, which is brought up to date.
    pub(super) fn stand(&self, index: &Path, folder: &Path) -> Result<Standing, GitError> {
        unlock(index)?;
        let survey = self.survey(index, folder)?;
        self.take_up(index, folder, &survey, &[])?;
        let mut left_out = survey.left_out;
        // Names that git refuses are passed over in silence; they show only in that they are still new.
        if survey.there.iter().any(|path| is_doubtful(path)) {
            left_out.extend(self.survey(index, folder)?.there);
        }
        Ok(Standing { tree: self.write_tree(index)?, left_out })
    }

    /// What a folder has beyond its index.
    pub(super) fn survey(&self, index: &Path, folder: &Path) -> Result<Survey, GitError> {
        let words = ["ls-files", "-z", "-t", "--others", "--modified", "--deleted", "--exclude-standard"];
        let out = self.run(self.inside(index, folder).words(words))?.ok()?;
        let mut survey = Survey { there: vec![], gone: vec![], left_out: vec![] };
        let mut folders = Vec::new();
        for line in zeroed(&out) {
            let Some((&tag, path)) = line.split_first().map(|(tag, rest)| (tag, &rest[1..])) else {
                continue;
            };
            let path = path.to_vec();
            if tag == b'?' && path.ends_with(b"/") {
                survey.left_out.push(path);
                continue;
            }
            match look(folder, &path).at(folder)? {
                Seen::File(_) | Seen::Link => survey.there.push(path),
                Seen::Nothing { .. } => survey.gone.push(path),
                Seen::Folder => folders.push(path),
                Seen::Special => {
                    survey.left_out.push(path.clone());
                    survey.gone.push(path);
                }
            }
        }
        self.sort_folders(index, folder, folders, &mut survey)?;
        for list in [&mut survey.there, &mut survey.gone] {
            list.sort();
            list.dedup();
        }
        Ok(survey)
    }

    /// A folder where the index has something: a submodule stays what the index says; where a file was,
    /// the file is gone.
    fn sort_folders(
        &self,
        index: &Path,
        folder: &Path,
        folders: Vec<Vec<u8>>,
        survey: &mut Survey,
    ) -> Result<(), GitError> {
        if folders.is_empty() {
            return Ok(());
        }
        let out = self.run(self.inside(index, folder).words(["ls-files", "-z", "-s"]))?.ok()?;
        let is_submodule = |path: &Vec<u8>| {
            let mut lines = zeroed(&out).filter(|line| line.starts_with(b"160000 "));
            lines.any(|line| line.splitn(2, |byte| *byte == b'\t').nth(1) == Some(path.as_slice()))
        };
        let (modules, files): (Vec<_>, Vec<_>) = folders.into_iter().partition(is_submodule);
        survey.left_out.extend(modules);
        survey.gone.extend(files);
        Ok(())
    }

    /// Brings an index up to date with what was surveyed.
    pub(super) fn take_up(
        &self,
        index: &Path,
        folder: &Path,
        survey: &Survey,
        settings: &[&str],
    ) -> Result<(), GitError> {
        if !survey.gone.is_empty() {
            let nothing = self.chamber.nothing();
            let input = Input::Written(Box::new(|to| {
                survey.gone.iter().try_for_each(|path| {
                    write!(to, "0 {nothing}\t")?;
                    to.write_all(path)?;
                    to.write_all(&[0])
                })
            }));
            let call = self.inside(index, folder).words(["update-index", "-z", "--index-info"]);
            self.run(call.input(input))?.ok()?;
        }
        if !survey.there.is_empty() {
            let words = ["update-index", "-z", "--add", "--replace", "--stdin"];
            let input = Input::Bytes(survey.there.join(&0));
            let call = self.inside(index, folder).words(settings).words(words);
            self.run(call.input(input))?.ok()?;
        }
        Ok(())
    }

    pub(super) fn write_tree(&self, index: &Path) -> Result<Oid, GitError> {
        let call = self.about_objects().var("GIT_INDEX_FILE", index).words(["write-tree"]);
        Oid::read(&self.run(call)?.ok()?)
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let call = self.about_objects().words(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]);
        Oid::read(&self.run(call)?.ok()?)
    }

    /// A file of a commit, by its path from the top; nothing where there is no ordinary file of a size that
    /// is looked at.
    pub fn file_at(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        let mut words: Vec<OsString> = ["ls-tree", "-z", "--full-tree"].map(OsString::from).to_vec();
        words.extend([OsString::from(commit.as_str()), OsString::from("--"), path.as_os_str().to_owned()]);
        let call = self.about_objects().var("GIT_LITERAL_PATHSPECS", "1").words(words);
        let listed = self.run(call)?.ok()?;
        let line = String::from_utf8_lossy(listed.split(|byte| *byte == b'\t').next().unwrap_or_default())
            .into_owned();
        let blob = match line.split(' ').collect::<Vec<_>>()[..] {
            ["100644" | "100755", "blob", oid] => oid.parse::<Oid>()?,
            _ => return Ok(None),
        };
        Ok(self.contents(&[&blob], MAX_CONTENT_BYTES, MAX_CHANGE_BYTES)?.pop().flatten())
    }

    /// The paths that differ between two trees or commits, in their order.
    pub(super) fn differing(&self, base: &Oid, tree: &Oid) -> Result<Vec<Differing>, GitError> {
        if base == tree {
            return Ok(Vec::new());
        }
        let words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let call = self.about_objects().words(words).words([base.as_str(), tree.as_str()]);
        all_differing(&self.run(call)?.ok()?, MAX_CHANGED_FILES)
    }

    /// What differs between two trees or commits, with the contents of both sides.
    pub fn change(&self, base: &Oid, tree: &Oid) -> Result<Change, GitError> {
        let differing = self.differing(base, tree)?;
        let sides = || differing.iter().flat_map(|one| [&one.before, &one.after]);
        let blobs: Vec<&Oid> = sides().filter(|side| is_blob(side)).map(|side| &side.oid).collect();
        let mut contents = self.contents(&blobs, MAX_CONTENT_BYTES, MAX_CHANGE_BYTES)?.into_iter();
        let mut content = |side: &Entry| {
            let kind = side.kind()?;
            let bytes = match kind {
                Kind::Submodule => Some(side.oid.as_str().as_bytes().to_vec()),
                Kind::File | Kind::Executable | Kind::Link => contents.next().flatten(),
            };
            Some(Content { kind, bytes })
        };
        let files = differing.iter().map(|one| FileChange {
            path: String::from_utf8_lossy(&one.path).into_owned(),
            before: content(&one.before),
            after: content(&one.after),
        });
        Ok(Change { files: files.collect() })
    }

    /// The contents of blobs in their order; nothing where one is larger than `each`, or where all of
    /// them together would be more than `all`.
    pub(super) fn contents(
        &self,
        blobs: &[&Oid],
        each: u64,
        all: u64,
    ) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        let sizes = self.sizes(blobs)?;
        let mut room = all;
        let mut wanted = Vec::new();
        for (blob, size) in blobs.iter().zip(&sizes) {
            let fits = *size <= each && *size <= room;
            room -= if fits { *size } else { 0 };
            wanted.push(fits.then_some(*blob));
        }
        let asked: Vec<&Oid> = wanted.iter().flatten().copied().collect();
        let most = all + 128 * (blobs.len() as u64 + 1);
        let out = self.run(self.batch("--batch", &asked).most(most))?.ok()?;
        let mut rest = out.as_slice();
        let read = |is_wanted: &Option<&Oid>| is_wanted.map(|_| next_blob(&mut rest)).transpose();
        wanted.iter().map(read).collect()
    }

    /// The bytes of all files among entries of trees.
    pub(super) fn bytes_of<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Result<u64, GitError> {
        let blobs: Vec<&Oid> = entries.filter(|entry| is_blob(entry)).map(|entry| &entry.oid).collect();
        if blobs.is_empty() {
            return Ok(0);
        }
        Ok(self.sizes(&blobs)?.iter().sum())
    }

    fn sizes(&self, blobs: &[&Oid]) -> Result<Vec<u64>, GitError> {
        let out = self.run(self.batch("--batch-check=%(objectsize)", blobs))?.ok()?;
        let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let size = |line: &[u8]| std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
        lines.map(|line| size(line).ok_or_else(|| unreadable(line))).collect()
    }

    fn batch<'a>(&self, how: &str, blobs: &[&Oid]) -> Call<'a> {
        let list: String = blobs.iter().map(|oid| format!("{oid}\n")).collect();
        self.about_objects().words(["cat-file", how]).input(Input::Bytes(list.into_bytes()))
    }
}

/// Removes the lock that a git which was killed has left on an index of ours. Whoever calls this has the
/// right to the index: no other git can be at work on it.
pub(super) fn unlock(index: &Path) -> Result<(), GitError> {
    let mut lock = index.as_os_str().to_owned();
    lock.push(".lock");
    match fs::remove_file(&lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at(Path::new(&lock)),
    }
}

/// Whether git may refuse a name: everything that could be `.git` on some file system.
pub(super) fn is_doubtful(path: &[u8]) -> bool {
    let lower = path.to_ascii_lowercase();
    lower.windows(3).any(|three| three == b"git") || lower.contains(&b'\\') || !path.is_ascii()
}

fn is_blob(side: &Entry) -> bool {
    matches!(side.kind(), Some(Kind::File | Kind::Executable | Kind::Link))
}

fn all_differing(out: &[u8], most: usize) -> Result<Vec<Differing>, GitError> {
    let mut found = Vec::new();
    let mut parts = zeroed(out);
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        found.push(differing(head, path)?);
        if found.len() > most {
            return Err(GitError::new(Trouble::TooMuch, format!("more than {most} files differ")));
        }
    }
    Ok(found)
}

/// One line of `--raw`: `:mode mode oid oid status`.
fn differing(head: &[u8], path: &[u8]) -> Result<Differing, GitError> {
    let text = std::str::from_utf8(head).unwrap_or_default();
    let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
    let [mode_before, mode_after, before, after, _] = words[..] else { return Err(unreadable(head)) };
    let mode = |text: &str| u32::from_str_radix(text, 8).map_err(|_| unreadable(head));
    let before = Entry { mode: mode(mode_before)?, oid: before.parse()? };
    let after = Entry { mode: mode(mode_after)?, oid: after.parse()? };
    Ok(Differing { path: path.to_vec(), before, after })
}

/// The next blob of `cat-file --batch`: a line that ends in its size, the bytes, a newline.
fn next_blob(rest: &mut &[u8]) -> Result<Vec<u8>, GitError> {
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| unreadable(rest))?;
    let head = std::str::from_utf8(&rest[..end]).unwrap_or_default();
    let size: Option<usize> = head.rsplit(' ').next().and_then(|text| text.parse().ok());
    let size = size.ok_or_else(|| unreadable(&rest[..end]))?;
    let bytes = rest.get(end + 1..end + 1 + size).ok_or_else(|| unreadable(&rest[..end]))?.to_vec();
    *rest = rest.get(end + 2 + size..).unwrap_or_default();
    Ok(bytes)
}

pub(super) fn unreadable(bytes: &[u8]) -> GitError {
    let shown: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
    GitError::new(Trouble::Git, format!("git said what cannot be understood: {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_read_and_bounded() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let out = format!(":100644 000000 {one} {two} D\0a\nb\0:000000 120000 {two} {one} A\0c\0");
        let found = all_differing(out.as_bytes(), 2).unwrap();
        assert_eq!((found[0].path.as_slice(), found[0].after.is_there()), (&b"a\nb"[..], false));
        assert_eq!(found[1].after.kind(), Some(Kind::Link));
        assert_eq!(all_differing(out.as_bytes(), 1).unwrap_err().trouble, Trouble::TooMuch);
        for bad in [":100644 000000 x y D\0a\0", "junk\0a\0", ":9 0\0a\0"] {
            assert!(all_differing(bad.as_bytes(), 9).is_err(), "{bad}");
        }
    }

    #[test]
    fn blobs_are_read_one_after_the_other() {
        let mut rest: &[u8] = b"abc blob 3\nx\ny\nabc blob 0\n\nabc missing\n";
        assert_eq!(next_blob(&mut rest).unwrap(), b"x\ny");
        assert_eq!(next_blob(&mut rest).unwrap(), b"");
        assert!(next_blob(&mut rest).is_err());
    }
}
