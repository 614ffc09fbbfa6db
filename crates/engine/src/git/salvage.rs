//! Bringing kept work back: listed, as a branch, or as files in a new folder. The checkout is not touched,
//! and what is brought back stays kept.

use std::fs;
use std::io;
use std::path::Path;

use super::error::At as _;
use super::worktree::remove_whole;
use super::{GitError, Kept, Oid, Repo, Trouble, WorktreeId};

/// How many worktrees a sentence names.
const MAX_NAMED: usize = 5;

/// How much was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The files that differ from the commit that the work is compared with.
    pub files: usize,
    /// The bytes of those that are there.
    pub bytes: u64,
}

impl Kept {
    /// How a person names it.
    pub fn label(&self) -> String {
        format!("{}/{}", self.id, self.number)
    }

    /// The one of several that a person names: `run`, `run/instance`, `worktree`, `worktree/number` or a ref,
    /// where the last part may be left out and the first one cut. Without a number it is the newest.
    pub fn find<'a>(all: &'a [Kept], named: &str) -> Result<&'a Kept, GitError> {
        let text = named.trim().trim_start_matches("refs/ftl/kept/");
        let (head, tail) = text.split_once('/').map_or((text, None), |(head, tail)| (head, Some(tail)));
        let unknown = |message: String| {
            Err(GitError::new(Trouble::Unknown, message).hint("`ftl salvage` lists what is kept"))
        };
        // In `run/instance` the run has no dash; in `worktree/number` the worktree has one.
        let (instance, number) = if head.contains('-') { (None, tail) } else { (tail, None) };
        let fits = |kept: &&Kept| {
            let id = kept.id.as_str();
            let of_instance =
                instance.is_none_or(|one| id.split_once('-').is_some_and(|(_, two)| one == two));
            !head.is_empty() && id.starts_with(head) && of_instance
        };
        let mut found: Vec<&Kept> = all.iter().filter(fits).collect();
        if found.iter().any(|kept| kept.id.as_str() == head) {
            found.retain(|kept| kept.id.as_str() == head);
        }
        let mut names: Vec<&str> = found.iter().map(|kept| kept.id.as_str()).collect();
        names.dedup();
        if names.len() > 1 {
            let (several, more) = (names.len(), if names.len() > MAX_NAMED { ", …" } else { "" });
            names.truncate(MAX_NAMED);
            let message = format!("`{text}` fits {several} worktrees: {}{more}", names.join(", "));
            return Err(GitError::new(Trouble::Unknown, message).hint("type more letters of one of them"));
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
    pub fn extent(&self, kept: &Kept) -> Result<Option<Extent>, GitError> {
        let Some(base) = &kept.base else { return Ok(None) };
        let differing = self.differing(base, &kept.commit)?;
        let bytes = self.bytes_of(differing.iter().map(|one| &one.after))?;
        Ok(Some(Extent { files: differing.len(), bytes }))
    }

    /// Everything that is kept, by worktree and then the oldest first.
    pub fn kept(&self) -> Result<Vec<Kept>, GitError> {
        self.kept_under("refs/ftl/kept/")
    }

    pub(super) fn kept_under(&self, prefix: &str) -> Result<Vec<Kept>, GitError> {
        if !self.may_be(prefix) {
            return Ok(Vec::new());
        }
        let format = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents)%00%00";
        let out = self.ask(["for-each-ref", format, prefix])?.ok()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let lines = text.split("\0\0").map(|line| line.trim_start_matches('\n'));
        // A ref that is none of ours must not stand in the way of those that are.
        let mut kept: Vec<Kept> = lines.filter_map(read).collect();
        kept.sort_by(|one, other| (&one.id, one.number).cmp(&(&other.id, other.number)));
        Ok(kept)
    }

    /// Brings kept work back as a new branch. A branch of that name must not be there yet.
    pub fn salvage_as_branch(&self, kept: &Kept, branch: &str) -> Result<(), GitError> {
        let said = self.ask(["check-ref-format", "--branch", branch])?;
        if said.code != 0 || branch.starts_with('-') || branch.starts_with('@') {
            return Err(GitError::new(Trouble::BadName, format!("{branch:?} is no name of a branch")));
        }
        let held = self.hold_repository()?;
        let name = format!("refs/heads/{branch}");
        match self.resolve(&name)? {
            Some(found) if found == kept.commit => Ok(()),
            Some(_) => {
                let message = format!("there is a branch `{branch}` already");
                Err(GitError::new(Trouble::BadName, message).hint("choose another name"))
            }
            None => {
                self.move_refs(&[(name, &kept.commit, None)], &held)?;
                self.make_durable(None)
            }
        }
    }

    /// Brings kept work back as files in a new folder; where that fails, there is none.
    pub fn salvage_into(&self, kept: &Kept, folder: &Path) -> Result<(), GitError> {
        fs::create_dir(folder).map_err(|error| {
            let (what, hint) = match error.kind() {
                io::ErrorKind::AlreadyExists => (String::from("is there already"), "name a new folder"),
                io::ErrorKind::NotFound => (String::from("has no folder above it"), "make that one first"),
                _ => (format!("cannot be made: {error}"), "see who may write there"),
            };
            let message = format!("`{}` {what}", folder.display());
            GitError::new(Trouble::Disk, message).hint(hint)
        })?;
        let folder = folder.canonicalize().at(folder)?;
        let own = crate::id::random()?;
        let index = self.chamber.home().join("index").join(format!("salvage.{own:016x}"));
        let laid = self.lay_all(&index, &folder, &kept.commit);
        let _ = fs::remove_file(&index);
        if laid.is_err() {
            remove_whole(&folder)?;
        }
        laid
    }
}

fn read(line: &str) -> Option<Kept> {
    let mut parts = line.split('\0');
    let (name, commit, when, message) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (id, number) = name.strip_prefix("refs/ftl/kept/")?.split_once('/')?;
    let id: WorktreeId = id.parse().ok()?;
    let subject = message.lines().next().unwrap_or_default();
    let why = subject.strip_prefix(&format!("Kept {id}: ")).unwrap_or(subject).to_owned();
    let base = message.lines().find_map(|line| line.strip_prefix("Ftl-Base: "));
    let base: Option<Oid> = base.and_then(|oid| oid.parse().ok());
    let (number, commit, when) = (number.parse().ok()?, commit.parse().ok()?, when.parse().unwrap_or(0));
    Some(Kept { id, number, name: name.to_owned(), commit, base, when, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: &str, number: u64) -> Kept {
        let commit = "a".repeat(40).parse().unwrap();
        Kept {
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
        let all =
            [kept("abc2-1", 1), kept("abc2-1", 2), kept("abc2-12", 1), kept("abd3-0", 9), kept("xyz4-2", 1)];
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
            assert_eq!(Kept::find(&all, named).unwrap().label(), wanted, "{named}");
        }
        for (named, says) in [
            ("abc2", "fits 2 worktrees: abc2-1, abc2-12"),
            ("a", "fits 3 worktrees"),
            ("", "nothing is kept"),
            ("/", "nothing is kept"),
            ("abc2-1/3", "nothing is kept under `abc2-1/3`"),
            ("q", "nothing is kept under `q`"),
        ] {
            let error = Kept::find(&all, named).unwrap_err();
            assert!(error.message.contains(says) && error.hint.is_some(), "{named}: {error}");
        }
        let many: Vec<Kept> = (0..=MAX_NAMED).map(|one| kept(&format!("abc2-{one}"), 1)).collect();
        assert!(Kept::find(&many, "abc2").unwrap_err().message.ends_with("abc2-4, …"));
    }
}
