//! Worktrees that are needed no more. What exists only there is kept under a ref first; one that cannot
//! be closed now stands where it stood, and is tried again whenever its run comes to rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use ftl_core::run::{Failure, Instance, Run};

use super::Sites;
use crate::executors::{Executor, Job, JobEnd, Report};
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_git::{GitError, WorktreeId};

impl Sites {
    /// Closes the worktree of the instance that a job is for, if it has one.
    pub(super) fn close(&self, job: &Job, why: &str) -> Result<(), Failure> {
        if self.has_site(job)? {
            let id = WorktreeId::of(&job.run, job.action.instance);
            self.repo()?.close_worktree(&id, why, clock::wall() / 1000)?;
        }
        Ok(())
    }

    /// Whether a run may have worktrees: git was asked for it, or a folder of its is there.
    pub fn are_left(&self, run: &RunId) -> bool {
        if super::lock(&self.repo).is_some() {
            return true;
        }
        let ours = format!("{run}-");
        // Where they cannot be listed, git is asked: it says what is wrong.
        let all = ftl_folder::names(&self.place().worktrees());
        all.map_or(true, |all| all.iter().any(|name| name.to_string_lossy().starts_with(&ours)))
    }

    /// Closes what instances of a run have left that have come to their end: those that ended where nothing
    /// of theirs was closed, and those that were stopped.
    pub fn sweep(&self, id: &RunId, run: &Run) -> Result<(), GitError> {
        let repo = self.repo()?;
        let ended = |instance: &&Instance| run.end().is_some() || instance.is_settled();
        let over = run.instances().iter().filter(ended).map(|instance| WorktreeId::of(id, instance.id));
        let over: BTreeSet<WorktreeId> = over.collect();
        for tree in repo.worktrees()? {
            if over.contains(&tree.id) {
                repo.close_worktree(&tree.id, "its work came to an end", clock::wall() / 1000)?;
            }
        }
        Ok(())
    }
}

/// Blocks a workspace by another executor, then closes the worktree in which it was worked on.
pub(super) struct Closing {
    pub(super) sites: Arc<Sites>,
    pub(super) inner: Arc<dyn Executor>,
}

impl Executor for Closing {
    fn perform(&self, job: &Job) -> Report {
        let report = self.inner.perform(job);
        if let JobEnd::Done(_) = &report.ended {
            // The workspace is blocked either way; a worktree that is left is swept when the run rests.
            let _ = self.sites.close(job, "its workspace was blocked");
        }
        report
    }
}
