//! Tasks that are tried again: what was learned the last time stands in their briefs, and what was kept of their work
//! in their worktrees. Nothing outside of a task's delta is brought back, and nothing is laid twice.

use ftl_core::run::Failure;
use serde::{Deserialize, Serialize};

use super::{Site, Sites};
use crate::executors::Job;
use ftl_git::{KeptWork, Oid, Repo};
use ftl_records::plan_file::PlanTask;
use ftl_records::workspace::KnownFailure;
use ftl_store::notebook::Notebook;

/// The kind of the notes that say where kept work was laid.
const LAID: &str = "retry-laid";

/// How much of a reason a brief tells.
const MAX_REASON_LETTERS: usize = 2_000;

/// A task that is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    /// The task, `<seq>-<slug>`.
    pub task: String,
    /// The reason for which it ended without success.
    pub reason: String,
    /// The ref under which its work is kept, where it is to go on from that.
    #[serde(default)]
    pub kept: Option<String>,
}

impl Retried {
    /// What its brief tells of the last time.
    pub(super) fn known_failure(&self, is_left_out: bool) -> KnownFailure {
        let fix = match self.kept {
            Some(_) if is_left_out => {
                "what was written then conflicts with what has landed since and is not in the files: begin anew"
            }
            Some(_) => "what was written then stands in the files of the delta: go on from there",
            None => "begin anew, and go about it another way",
        };
        KnownFailure {
            name: String::from("earlier-try"),
            trigger: self.reason.chars().take(MAX_REASON_LETTERS).collect(),
            fix: String::from(fix),
            ..KnownFailure::default()
        }
    }
}

/// The newest work that is kept of a task of a run.
pub fn kept_of_task(
    repo: &Repo,
    notes: &dyn Notebook,
    (run, task): (&str, &str),
) -> Result<Option<KeptWork>, Failure> {
    let mut newest: Option<KeptWork> = None;
    for kept in repo.list_kept()? {
        let is_of_run = kept.id.instance().is_some_and(|(of, _)| of == run);
        if !is_of_run || super::task_of(notes, &kept.id)?.as_deref() != Some(task) {
            continue;
        }
        if newest.as_ref().is_none_or(|one| (one.when, one.number) <= (kept.when, kept.number)) {
            newest = Some(kept);
        }
    }
    Ok(newest)
}

impl Sites {
    /// The same where tasks are tried again.
    #[must_use]
    pub fn retrying(self, retried: Vec<Retried>) -> Sites {
        Sites { retried, ..self }
    }

    /// The task of the earlier run whose kept work conflicts with what has landed since, as `ftl diff` takes it.
    /// Nothing where the work can be laid, or none is kept.
    pub(super) fn left_out(
        &self,
        repo: &Repo,
        tip: &Oid,
        task: &PlanTask,
    ) -> Result<Option<String>, Failure> {
        let id = task.id();
        let retried = self.retried.iter().find(|one| one.task == id);
        let Some(name) = retried.and_then(|one| one.kept.as_deref()) else { return Ok(None) };
        let Some(kept) = repo.list_kept()?.into_iter().find(|kept| kept.name == name) else {
            return Ok(None);
        };
        let is_left_out = repo.conflicts_with(tip, &kept)?;
        Ok(kept.id.instance().filter(|_| is_left_out).map(|(run, _)| format!("{run}/{}", task.seq)))
    }

    /// Lays the kept work of a task that is tried again into its worktree, once.
    pub(super) fn lay_retried(&self, job: &Job, site: &Site) -> Result<(), Failure> {
        if self.retried.iter().all(|one| one.kept.is_none()) {
            return Ok(());
        }
        let Some(noted) = self.noted(job)? else { return Ok(()) };
        let retried = self.retried.iter().find(|one| one.task == noted.spec.id);
        let Some(name) = retried.and_then(|one| one.kept.as_deref()) else { return Ok(()) };
        let id = &site.tree.id;
        if self.note(LAID, id.as_str())?.is_some() {
            return Ok(());
        }
        let kept = site.repo.list_kept()?.into_iter().find(|kept| kept.name == name);
        let in_delta = |path: &str| {
            let path = site.display_path(path);
            let below = |above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
            noted.spec.delta.iter().any(|one| {
                let one = one.trim_end_matches('/');
                path == one || below(one)
            })
        };
        let laid = match kept {
            Some(kept) => site.repo.lay_kept(id, &kept, &in_delta)?,
            None => false,
        };
        self.put_note(LAID, id.as_str(), &laid)
    }
}
