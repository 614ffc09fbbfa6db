//! Records that are gone, made again from what git itself still knows.
//!
//! Our folder beside the store may be deleted in the middle of a run. The branch, the ref that guards it and the
//! worktrees are git's and still there, with the work in them: it must not be paid for twice. Nothing is made
//! again that git does not show; nothing here removes or moves anything.

use super::branch::RunRecord;
use super::worktree::WorktreeRecord;
use super::{GitError, Oid, Repo, WorktreeId};
use ftl_folder::id::RunId;

impl Repo {
    /// The record of a run that begins now, or that had begun before its record went away.
    pub(super) fn begun(&self, fresh: RunRecord) -> Result<RunRecord, GitError> {
        let Some(tip) = self.resolve(&fresh.guard())? else { return Ok(fresh) };
        let base = self.merge_base(&fresh.base, &tip)?.unwrap_or_else(|| tip.clone());
        Ok(RunRecord { tip, base, ..fresh })
    }

    /// A worktree that git knows and that is there although its record is gone.
    pub(super) fn standing_unrecorded(
        &self,
        id: &WorktreeId,
        run: &RunId,
    ) -> Result<Option<WorktreeRecord>, GitError> {
        if !self.stands(id) || !self.is_registered(id) {
            return Ok(None);
        }
        let tip = self.record(run)?.tip;
        let Some(head) = self.resolve_at(&self.admin(id), "HEAD")? else { return Ok(None) };
        // The agent that works there may have committed: its work began where its commits leave those of the run.
        let Some(base) = self.merge_base(&head, &tip)? else { return Ok(None) };
        let (id, run) = (id.clone(), run.clone());
        Ok(Some(WorktreeRecord {
            id,
            run,
            base,
            ready: true,
            landed: Vec::new(),
            conflict: None,
            has_landed: false,
            stood: None,
        }))
    }

    fn merge_base(&self, one: &Oid, two: &Oid) -> Result<Option<Oid>, GitError> {
        if one == two {
            return Ok(Some(one.clone()));
        }
        let said = self.run(self.at_home(&self.common).words(["merge-base", one.as_str(), two.as_str()]))?;
        match said.code {
            0 => Oid::read(&said.out).map(Some),
            1 => Ok(None),
            _ => Err(said.error()),
        }
    }
}
