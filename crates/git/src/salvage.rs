//! Bringing kept work back: listed, as a branch, or as files in a new folder. The checkout is not touched,
//! and what is brought back stays kept.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::error::At as _;
use super::filesystem::{barrier, is_taken};
use super::merge::Merge;
use super::worktree::remove_whole;
use super::{ErrorKind, GitError, KeptWork, Oid, Repo, WorktreeId};
use ftl_folder::{Folder, NameIn};
use ftl_process::Cancel;

/// How many worktrees a sentence names.
const MAX_NAMED: usize = 5;

/// The largest commit of kept work that is read; one beyond is listed, and says nothing about itself.
pub const MAX_KEPT_BYTES: u64 = 16 * 1024 * 1024;

/// How much was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The files that differ from the commit that the work is compared with.
    pub files: usize,
    /// The bytes of those that are there.
    pub bytes: u64,
}

impl KeptWork {
    /// How a person names it.
    pub fn label(&self) -> String {
        format!("{}/{}", self.id, self.number)
    }

    /// The one of several that a person names: `run`, `run/instance`, `worktree`, `worktree/number` or a ref,
    /// where the last part may be left out and the first one cut. Without a number it is the newest.
    pub fn find<'a>(all: &'a [KeptWork], named: &str) -> Result<&'a KeptWork, GitError> {
        let text = named.trim().trim_start_matches("refs/ftl/kept/");
        let (head, tail) = text.split_once('/').map_or((text, None), |(head, tail)| (head, Some(tail)));
        let unknown = |message: String| {
            Err(GitError::new(ErrorKind::Unknown, message).hint("`ftl salvage` lists what is kept"))
        };
        // In `run/instance` the run has no dash; in `worktree/number` the worktree has one.
        let (instance, number) = if head.contains('-') { (None, tail) } else { (tail, None) };
        let fits = |kept: &&KeptWork| {
            let id = kept.id.as_str();
            let of_instance =
                instance.is_none_or(|one| id.split_once('-').is_some_and(|(_, two)| one == two));
            !head.is_empty() && id.starts_with(head) && of_instance
        };
        let mut found: Vec<&KeptWork> = all.iter().filter(fits).collect();
        if found.iter().any(|kept| kept.id.as_str() == head) {
            found.retain(|kept| kept.id.as_str() == head);
        }
        let mut names: Vec<&str> = found.iter().map(|kept| kept.id.as_str()).collect();
        names.dedup();
        if names.len() > 1 {
            let (several, more) = (names.len(), if names.len() > MAX_NAMED { ", …" } else { "" });
            names.truncate(MAX_NAMED);
            let message = format!("`{text}` fits {several} worktrees: {}{more}", names.join(", "));
            return Err(GitError::new(ErrorKind::Unknown, message).hint("type more letters of one of them"));
        }
        if let Some(number) = number {
            found.retain(|kept| kept.number.to_string() == number);
        }
        match found.iter().max_by_key(|kept| kept.number) {
            Some(kept) => Ok(kept),
            None => unknown(format!("nothing is kept under `{text}`")),
        }
    }
}

impl Repo {
    /// How much was kept; nothing where it is not known what to compare it with.
    pub fn extent(&self, kept: &KeptWork) -> Result<Option<Extent>, GitError> {
        let Some(base) = &kept.base else { return Ok(None) };
        let differing = self.differing(base, &kept.commit)?;
        let bytes = self.bytes_of(differing.iter().map(|one| &one.after))?;
        Ok(Some(Extent { files: differing.len(), bytes }))
    }

    /// Everything that is kept, by worktree and then the oldest first.
    pub fn list_kept(&self) -> Result<Vec<KeptWork>, GitError> {
        self.kept_under("refs/ftl/kept/")
    }

    pub(super) fn kept_under(&self, prefix: &str) -> Result<Vec<KeptWork>, GitError> {
        if !self.may_be(prefix) {
            return Ok(Vec::new());
        }
        // A ref that is none of ours must not stand in the way of those that are, nor one whose commit is gone.
        let out = self.ask(["for-each-ref", "--format=%(objectname) %(refname)", prefix])?.ok()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let mut kept = Vec::new();
        for (commit, name) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Ok(commit) = commit.parse() else { continue };
            let said = match self.object(&commit, MAX_KEPT_BYTES) {
                Err(error) if error.trouble == ErrorKind::TooMuch => None,
                said => said?,
            };
            kept.extend(read(name, commit, said.map(|(_, bytes)| bytes)));
        }
        kept.sort_by(|one, other| (&one.id, one.number).cmp(&(&other.id, other.number)));
        Ok(kept)
    }

    /// Lays what was kept of earlier work into a worktree, as far as `is_wanted` wants a path, merged with what has landed
    /// since; whether it could be. Nothing is laid where both changed the same.
    pub fn lay_kept(
        &self,
        id: &WorktreeId,
        kept: &KeptWork,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<bool, GitError> {
        let base = self.worktree_record(id)?.base;
        let Merge::Clean(tree) = self.merge(&base, &kept.commit)? else { return Ok(false) };
        let mut changes = self.differing(&base, &tree)?;
        changes.retain(|change| is_wanted(&String::from_utf8_lossy(&change.path)));
        self.lay(&self.index_file(id), &self.path_of(id), &changes)?;
        let standing = self.tree(id)?.tree;
        self.note_stood(id, &standing)?;
        Ok(!changes.is_empty())
    }

    /// Whether kept work and a commit have changed the same lines, so that it cannot be laid on top of it.
    pub fn conflicts_with(&self, commit: &Oid, kept: &KeptWork) -> Result<bool, GitError> {
        Ok(matches!(self.merge(commit, &kept.commit)?, Merge::Conflict { .. }))
    }

    /// Brings kept work back as a new branch. A branch of that name must not be there yet.
    pub fn salvage_as_branch(&self, kept: &KeptWork, branch: &str) -> Result<(), GitError> {
        let said = self.ask(["check-ref-format", "--branch", branch])?;
        if said.code != 0 || branch.starts_with('-') || branch.starts_with('@') {
            return Err(GitError::new(ErrorKind::BadName, format!("{branch:?} is no name of a branch")));
        }
        let held = self.hold_repository()?;
        let name = format!("refs/heads/{branch}");
        match self.resolve(&name)? {
            Some(found) if found == kept.commit => Ok(()),
            Some(_) => {
                let message = format!("there is a branch `{branch}` already");
                Err(GitError::new(ErrorKind::BadName, message).hint("choose another name"))
            }
            None => {
                self.move_refs(&[(name, &kept.commit, None)], &held)?;
                self.make_durable(None)
            }
        }
    }

    /// Brings kept work back as files in a new folder; where that fails, there is none. The files are written in a
    /// folder of ours first, which then gets its name, if nothing has it.
    pub fn salvage_into(&self, kept: &KeptWork, folder: &Path) -> Result<(), GitError> {
        let _turn = self.hold("salvage", &Cancel::new())?;
        if folder.symlink_metadata().is_ok() {
            return Err(cannot_be_made(folder, &io::ErrorKind::AlreadyExists.into()));
        }
        let above = folder.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
        let above = above.canonicalize().map_err(|error| cannot_be_made(folder, &error))?;
        let Some(name) = folder.file_name() else {
            return Err(cannot_be_made(folder, &io::ErrorKind::AlreadyExists.into()));
        };
        let prepared = self.salvage_folder(&above)?;
        // What a salvage that was killed left.
        remove_whole(&prepared)?;
        ftl_folder::make_new(&prepared).map_err(|error| cannot_be_made(folder, &error))?;
        let index = self.private_dir.home().join("index").join("salvage");
        let laid = self.lay_all(&index, &prepared, &kept.commit).and_then(|()| {
            self.runner.step("name the folder")?;
            self.name_folder(&prepared, &above.join(name)).map_err(|error| cannot_be_made(folder, &error))
        });
        let _ = ftl_folder::remove(&index);
        if laid.is_err() {
            remove_whole(&prepared)?;
        }
        laid
    }

    /// Where files are prepared for a folder below that one: in the store, if it is on the same file system.
    fn salvage_folder(&self, above: &Path) -> Result<PathBuf, GitError> {
        let trash = self.private_dir.home().join("trash");
        let ours = Folder::open(&trash).at(&trash)?;
        Ok(match barrier(&*self.files, &ours, &BTreeSet::from([above]), &Folder::open).at(above)? {
            None => trash.join("salvage"),
            Some(_) => above.join(format!(".ftl-salvage-{:016x}", ftl_folder::id::random()?)),
        })
    }

    /// Gives a folder its name, where nothing has it.
    fn name_folder(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (NameIn::at(from)?, NameIn::at(to)?);
        match self.files.rename_new(&from, &to) {
            Ok(()) => Ok(()),
            Err(error) if is_taken(&error) => Err(io::ErrorKind::AlreadyExists.into()),
            // Such a rename is not known everywhere. An empty folder that is ours can be replaced; one in which
            // a file was put meanwhile cannot.
            Err(_) => to.make_folder().and_then(|()| self.files.rename(&from, &to)),
        }
    }
}

fn cannot_be_made(folder: &Path, error: &io::Error) -> GitError {
    let (what, hint) = match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
            (String::from("is there already"), "name a new folder")
        }
        io::ErrorKind::NotFound => (String::from("has no folder above it"), "make that one first"),
        _ => (format!("cannot be made: {error}"), "see who may write there"),
    };
    GitError::new(ErrorKind::Disk, format!("`{}` {what}", folder.display())).hint(hint)
}

/// What a kept ref and the bytes of its commit say; nothing where the ref is none of ours.
fn read(name: &str, commit: Oid, bytes: Option<Vec<u8>>) -> Option<KeptWork> {
    let (id, number) = name.strip_prefix("refs/ftl/kept/")?.split_once('/')?;
    let (id, number): (WorktreeId, u64) = (id.parse().ok()?, number.parse().ok()?);
    let name = name.to_owned();
    let Some(bytes) = bytes else {
        let why = format!("broken: commit {} cannot be read", commit.short());
        return Some(KeptWork { id, number, name, commit, base: None, when: 0, why });
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    let committer = head.lines().find_map(|line| line.strip_prefix("committer "));
    let when = committer.and_then(|line| line.rsplit(' ').nth(1)).and_then(|when| when.parse().ok());
    let subject = message.lines().next().unwrap_or_default();
    let why = subject.strip_prefix(&format!("Kept {id}: ")).unwrap_or(subject).to_owned();
    let base = message.lines().find_map(|line| line.strip_prefix("Ftl-Base: "));
    let base: Option<Oid> = base.and_then(|oid| oid.parse().ok());
    Some(KeptWork { id, number, name, commit, base, when: when.unwrap_or(0), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_kept(id: &str, number: u64) -> KeptWork {
        let commit = "a".repeat(40).parse().unwrap();
        KeptWork {
            id: id.parse().unwrap(),
            number,
            name: format!("refs/ftl/kept/{id}/{number}"),
            commit,
            base: None,
            when: 0,
            why: String::new(),
        }
    }

    #[test]
    fn kept_work_is_found_by_every_name_a_person_has_for_it() {
        let all = [
            parse_kept("abc2-1", 1),
            parse_kept("abc2-1", 2),
            parse_kept("abc2-12", 1),
            parse_kept("abd3-0", 9),
            parse_kept("xyz4-2", 1),
        ];
        let cases = [
            ("abc2-1", "abc2-1/2"),
            ("abc2-1/1", "abc2-1/1"),
            ("refs/ftl/kept/abc2-1/1", "abc2-1/1"),
            ("abc2/1", "abc2-1/2"),
            ("abc2-12", "abc2-12/1"),
            ("abc2/12", "abc2-12/1"),
            ("x", "xyz4-2/1"),
            ("abd", "abd3-0/9"),
        ];
        for (named, wanted) in cases {
            assert_eq!(KeptWork::find(&all, named).unwrap().label(), wanted, "{named}");
        }
        for (named, says) in [
            ("abc2", "fits 2 worktrees: abc2-1, abc2-12"),
            ("a", "fits 3 worktrees"),
            ("", "nothing is kept"),
            ("/", "nothing is kept"),
            ("abc2-1/3", "nothing is kept under `abc2-1/3`"),
            ("q", "nothing is kept under `q`"),
        ] {
            let error = KeptWork::find(&all, named).unwrap_err();
            assert!(error.message.contains(says) && error.hint.is_some(), "{named}: {error}");
        }
        let many: Vec<KeptWork> = (0..=MAX_NAMED).map(|one| parse_kept(&format!("abc2-{one}"), 1)).collect();
        assert!(KeptWork::find(&many, "abc2").unwrap_err().message.ends_with("abc2-4, …"));
    }
}
