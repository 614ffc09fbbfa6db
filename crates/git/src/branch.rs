//! The branch of a run: `ftl/<run>`, made from the person's commit, moved by landings and by nothing else.
//!
//! Where it is, is written in the ledger; the ref is compared with that each time. A branch that a person or
//! another program has moved or removed is put back, and what it was moved to is kept.

use serde::{Deserialize, Serialize};

use super::lock::Held;
use super::worktree::says;
use super::{ErrorKind, GitError, IdempotencyKey, Oid, Repo, WorktreeId, ledger};
use ftl_folder::id::RunId;
use ftl_process::Cancel;

/// The branch of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The run that the branch belongs to.
    pub run: RunId,
    /// The name of the branch, as people say it.
    pub name: String,
    /// The person's commit that it started from.
    pub base: Oid,
    /// The commit that it is at.
    pub tip: Oid,
    /// The person's branch, as people say it; none where no branch was checked out.
    pub target: Option<String>,
}

/// A run, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunRecord {
    pub(super) run: RunId,
    pub(super) base: Oid,
    pub(super) tip: Oid,
    /// The person's branch, as a whole ref.
    pub(super) target: Option<String>,
    /// A landing that was begun: the branch may be here already.
    pub(super) intent: Option<Intent>,
}

/// A landing whose commit is made and verified, and whose ref is about to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) key: IdempotencyKey,
    pub(super) worktree: WorktreeId,
    pub(super) commit: Oid,
    /// The tree that landed, after merging.
    pub(super) tree: Oid,
    /// The tree that stood in the worktree.
    pub(super) work: Oid,
    pub(super) files: u64,
}

impl RunRecord {
    /// The branch, as a whole ref.
    pub(super) fn head(&self) -> String {
        format!("refs/heads/ftl/{}", self.run)
    }

    /// The ref that holds the run's commits when a person removes the branch.
    pub(super) fn guard(&self) -> String {
        format!("refs/ftl/runs/{}", self.run)
    }

    pub(super) fn branch(&self) -> Branch {
        Branch {
            run: self.run.clone(),
            name: format!("ftl/{}", self.run),
            base: self.base.clone(),
            tip: self.tip.clone(),
            target: self.target.as_deref().map(|name| short(name).to_owned()),
        }
    }
}

/// A branch as people say it.
pub(super) fn short(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

impl Repo {
    /// Makes the branch of a run from where the person is, once; later the same branch is given.
    pub fn begin(&self, run: &RunId) -> Result<Branch, GitError> {
        let held = self.hold(run.as_str(), &Cancel::new())?;
        let record = match ledger::read::<RunRecord>(&self.run_file(run))? {
            Some(record) => record,
            None => self.first_record(run)?,
        };
        Ok(self.put_right(record, &held)?.branch())
    }

    /// Makes the branch of a run from where an earlier run's stands, once. Where the person has that work already, or
    /// nothing has landed in it, it is made from where the person is.
    pub fn begin_after(&self, run: &RunId, earlier: &RunId) -> Result<Branch, GitError> {
        let before = match self.record(earlier) {
            Err(error) if error.trouble == ErrorKind::Unknown => return self.begin(run),
            before => before?,
        };
        if before.tip == before.base || self.is_delivered(&before)? {
            return self.begin(run);
        }
        let held = self.hold(run.as_str(), &Cancel::new())?;
        let record = match ledger::read::<RunRecord>(&self.run_file(run))? {
            Some(record) => record,
            None => {
                let (base, tip, target) = (before.base, before.tip, self.checked_out()?);
                let fresh = RunRecord { run: run.clone(), base, tip, target, intent: None };
                let record = self.begun(fresh)?;
                self.write(&self.run_file(run), &record)?;
                record
            }
        };
        Ok(self.put_right(record, &held)?.branch())
    }

    /// Whether the person has what was landed on the branch of a run.
    pub fn is_taken_over(&self, run: &RunId) -> Result<bool, GitError> {
        self.is_delivered(&self.record(run)?)
    }

    /// Has a run begin where the person is now. One on whose branch something has landed stays where it is. No
    /// worktree of the run may be open.
    pub fn begin_again(&self, run: &RunId) -> Result<Branch, GitError> {
        let held = self.hold(run.as_str(), &Cancel::new())?;
        let record = match ledger::read::<RunRecord>(&self.run_file(run))? {
            Some(record) => self.put_right(record, &held)?,
            None => return Ok(self.put_right(self.first_record(run)?, &held)?.branch()),
        };
        let head = self.person_s_head()?;
        let Some(head) = head.filter(|head| *head != record.base && record.tip == record.base) else {
            return Ok(record.branch());
        };
        let (found, guard) = (self.resolve(&record.head())?, self.resolve(&record.guard())?);
        let again = RunRecord { tip: head.clone(), base: head, target: self.checked_out()?, ..record };
        self.write(&self.run_file(run), &again)?;
        self.move_refs(&[(again.head(), &again.tip, found), (again.guard(), &again.tip, guard)], &held)?;
        Ok(again.branch())
    }

    /// The branch of a run that was begun.
    pub fn branch(&self, run: &RunId) -> Result<Branch, GitError> {
        Ok(self.record(run)?.branch())
    }

    fn first_record(&self, run: &RunId) -> Result<RunRecord, GitError> {
        let Some(base) = self.person_s_head()? else {
            let error = GitError::new(ErrorKind::Unsuitable, "the repository has no commit yet");
            return Err(error.hint("make a first commit: `git commit --allow-empty -m start`"));
        };
        let target = self.checked_out()?;
        let fresh = RunRecord { run: run.clone(), tip: base.clone(), base, target, intent: None };
        let record = self.begun(fresh)?;
        self.write(&self.run_file(run), &record)?;
        Ok(record)
    }

    /// The record of a run.
    pub(super) fn record(&self, run: &RunId) -> Result<RunRecord, GitError> {
        ledger::read(&self.run_file(run))?.ok_or_else(|| {
            GitError::new(ErrorKind::Unknown, format!("run {run} has no branch in this repository"))
        })
    }

    /// The record of a run, with its refs as the record says; what an interrupted landing left open is
    /// brought to its end first.
    pub(super) fn put_right(&self, mut record: RunRecord, held: &Held) -> Result<RunRecord, GitError> {
        let found = self.resolve(&record.head())?;
        if let Some(intent) = record.intent.take() {
            if found.as_ref() == Some(&intent.commit) {
                record = self.finish(record, &intent)?;
            } else {
                self.write(&self.run_file(&record.run), &record)?;
            }
        }
        let guard = self.resolve(&record.guard())?;
        if found.as_ref() == Some(&record.tip) && guard.as_ref() == Some(&record.tip) {
            return Ok(record);
        }
        if let Some(foreign) = found.as_ref().filter(|found| **found != record.tip) {
            self.keep_commit(&record, foreign)?;
        }
        let moves = [(record.head(), &record.tip, found), (record.guard(), &record.tip, guard)];
        self.move_refs(&moves, held)?;
        Ok(record)
    }

    /// The commit that is checked out in the person's checkout.
    pub(super) fn person_s_head(&self) -> Result<Option<Oid>, GitError> {
        if self.own == self.common { self.resolve("HEAD") } else { self.resolve_at(&self.own, "HEAD") }
    }

    /// The person's branch, as a whole ref.
    pub(super) fn checked_out(&self) -> Result<Option<String>, GitError> {
        self.check_identity()?;
        let said = says(&self.own.join("HEAD"));
        let named = said.strip_prefix(b"ref: refs/heads/").and_then(|name| std::str::from_utf8(name).ok());
        if let Some(name) = named.filter(|name| !name.is_empty() && self.has_plain_refs()) {
            return Ok(Some(format!("refs/heads/{}", name.trim_end())));
        }
        let words = ["symbolic-ref", "--quiet", "HEAD"];
        let said = self.run(self.at_home(&self.own).words(words))?;
        let name = String::from_utf8_lossy(&said.out).trim().to_owned();
        Ok((said.code == 0 && name.starts_with("refs/heads/")).then_some(name))
    }
}
