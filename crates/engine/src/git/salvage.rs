//! Bringing kept work back: listed, as a branch, or as files in a new folder. The checkout is not touched,
//! and what is brought back stays kept.

use std::fs;
use std::path::Path;

use super::error::At as _;
use super::{GitError, Kept, Oid, Repo, Trouble, WorktreeId};

impl Repo {
    /// Everything that is kept, by worktree and then the oldest first.
    pub fn kept(&self) -> Result<Vec<Kept>, GitError> {
        self.kept_under("refs/ftl/kept/")
    }

    pub(super) fn kept_under(&self, prefix: &str) -> Result<Vec<Kept>, GitError> {
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

    /// Brings kept work back as files in a new folder.
    pub fn salvage_into(&self, kept: &Kept, folder: &Path) -> Result<(), GitError> {
        fs::create_dir(folder).at(folder)?;
        let folder = folder.canonicalize().at(folder)?;
        let own = crate::id::random()?;
        let index = self.chamber.home().join("index").join(format!("salvage.{own:016x}"));
        let laid = self.lay_all(&index, &folder, &kept.commit);
        let _ = fs::remove_file(&index);
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
