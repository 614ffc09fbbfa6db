//! Patches: what a worktree changed as text, a text as a commit, and a commit undone by another one.
//!
//! A patch is applied to a tree through an index of our own, never to files; the person's branch then moves to
//! the commit that came of it, with their checkout, or nothing moves. Only the files of the patch differ.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::branch::short;
use super::commit::{Making, message};
use super::person_checkout::Moved;
use super::runner::Input;
use super::transfer::Move;
use super::{ErrorKind, GitError, Oid, Repo};
use ftl_folder::id::RunId;
use ftl_process::Cancel;

/// The largest patch that is made.
pub const MAX_MADE_BYTES: u64 = 64 * 1024 * 1024;

/// A move of the person's branch, to be written down before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchMove {
    /// The branch, as a whole ref.
    pub target: String,
    /// The commit that the branch is at.
    pub from: Oid,
    /// The commit that the branch moves to.
    pub to: Oid,
}

impl BranchMove {
    /// The branch as people say it.
    pub fn branch(&self) -> &str {
        short(&self.target)
    }
}

/// What a commit is to say.
#[derive(Clone, Copy, Debug)]
pub struct Saying<'a> {
    /// The text of the commit, without trailers.
    pub message: &'a str,
    /// Trailers, each a name and a value, that end the message.
    pub trailers: &'a [(&'a str, &'a str)],
    /// When, in seconds since 1970.
    pub when: u64,
}

/// What came of a patch that was laid on a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchOutcome {
    /// The tree that it makes.
    Fits(Oid),
    /// It does not fit; why, as git says it.
    Unfit(String),
}

/// What came of a step of the person's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The branch is there, and the checkout with it.
    Made,
    /// The step cannot be made; the reason.
    Refused(String),
}

impl Repo {
    /// The branch that the person has checked out, and the commit that it is at.
    pub fn here(&self) -> Result<(String, Oid), GitError> {
        let unsuitable = |message: &str, hint: &str| GitError::new(ErrorKind::Unsuitable, message).hint(hint);
        let target = self
            .checked_out()?
            .ok_or_else(|| unsuitable("no branch is checked out", "check one out: the work goes onto it"))?;
        let commit = self
            .resolve(&target)?
            .ok_or_else(|| unsuitable("the branch has no commit", "commit what is there first"))?;
        Ok((target, commit))
    }

    /// The commit that the person is at, on a branch or not.
    pub fn head_commit(&self) -> Result<Oid, GitError> {
        self.resolve("HEAD")?
            .ok_or_else(|| GitError::new(ErrorKind::Unsuitable, "the repository has no commit"))
    }

    /// What differs between two trees, as a patch with paths below a folder.
    pub fn patch_between(&self, base: &Oid, tree: &Oid, below: &Path) -> Result<Vec<u8>, GitError> {
        let words = [
            "diff-tree",
            "-r",
            "-p",
            "--binary",
            "--full-index",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
        ];
        let mut call = self.about_objects().words(words).most(MAX_MADE_BYTES);
        if below != Path::new("") {
            call = call.words([format!("--relative={}/", below.display())]);
        }
        self.run(call.words([base.as_str(), tree.as_str()]))?.ok()
    }

    /// The tree that a patch makes of a commit, or that it leaves when it is taken back.
    pub fn patched(
        &self,
        run: &RunId,
        onto: &Oid,
        patch: &[u8],
        below: &Path,
        back: bool,
    ) -> Result<PatchOutcome, GitError> {
        let index = self.patch_index(run);
        let _turn = self.hold(&format!("patch-{run}"), &Cancel::new())?;
        self.read_tree(&index, &self.tree_of(onto)?)?;
        let mut call = self.about_objects().var("GIT_INDEX_FILE", &index);
        call = call.words(["apply", "--cached", "--whitespace=nowarn", "--unidiff-zero", "--allow-empty"]);
        if below != Path::new("") {
            call = call.words([format!("--directory={}", below.display())]);
        }
        if back {
            call = call.words(["-R"]);
        }
        let said = self.run(call.words(["-"]).input(Input::Bytes(patch.to_vec())))?;
        if said.code != 0 {
            let why: Vec<&str> = said.said.lines().map(|line| line.trim_start_matches("error: ")).collect();
            return Ok(PatchOutcome::Unfit(why.join("; ")));
        }
        self.make_gathered(&[onto], &|| self.write_tree(&index)).map(PatchOutcome::Fits)
    }

    fn patch_index(&self, run: &RunId) -> PathBuf {
        self.private_dir.home().join(format!("patch-{run}.index"))
    }

    /// A commit of a tree on top of another commit. Nothing points to it yet.
    pub fn commit_tree(&self, tree: &Oid, onto: &Oid, saying: Saying<'_>) -> Result<Oid, GitError> {
        let message = message(saying.message, saying.trailers);
        self.commit(&Making { tree, parents: &[onto], message, when: saying.when })
    }

    /// Makes a step that was written down, with the person's checkout. One that was made already is not made
    /// again. What a person should know besides, the next command says.
    pub fn make_step(
        &self,
        run: &RunId,
        step: &BranchMove,
        cancel: &Cancel,
    ) -> Result<MoveOutcome, GitError> {
        let held = self.hold(run.as_str(), cancel)?;
        let _turn = self.hold("delivery", cancel)?;
        let moving = Move { run, target: &step.target, from: &step.from, to: &step.to };
        match self.move_person(moving, &held)? {
            Moved::Refused(why) => Ok(MoveOutcome::Refused(why)),
            Moved::Done(notes) => {
                self.make_durable(Some(&self.top))?;
                self.say_later(&notes)?;
                Ok(MoveOutcome::Made)
            }
        }
    }

    /// Whether a commit is in what a branch has.
    pub fn has_commit(&self, branch: &str, commit: &Oid) -> Result<bool, GitError> {
        let Some(tip) = self.resolve(branch)? else { return Ok(false) };
        let words = ["merge-base", "--is-ancestor", commit.as_str(), tip.as_str()];
        let said = self.run(self.about_objects().words(words))?;
        match said.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(said.error()),
        }
    }

    /// The only parent of a commit.
    pub fn parent_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let call = self.about_objects().words(["rev-parse", "--verify", &format!("{commit}^1")]);
        Oid::read(&self.run(call)?.ok()?)
    }
}
