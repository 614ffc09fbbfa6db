//! What a turn of an agent did to the repository beside its worktree: told at the next gate, and put back only where
//! git's own log proves that the attempt did it.

use ftl_git::{RepositoryChange, RepositoryState, WorktreeId};

use super::{Sites, brief};
use crate::executors::Job;
use ftl_folder as folder;
use ftl_gates::{Finding, FindingKind};

/// The kind of the notes that say what turns of an instance did beside their work.
const SEEN: &str = "site-seen";

/// How many differences of one instance are told.
const MAX_TOLD: usize = 50;

/// The committer of the commands of a job: what git logs of them is known as theirs.
pub(in crate::executors) fn committer_of(job: &Job) -> String {
    let key: String =
        job.key().chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '.' }).collect();
    format!("{key}@attempt.invalid")
}

impl Sites {
    /// Looks at the repository before a turn. Where the worktree is not there yet, or nobody can look, nothing is compared.
    pub(in crate::executors) fn survey(&self, job: &Job) -> Option<RepositoryState> {
        let id = WorktreeId::of(&job.run, job.action.instance);
        let is_open = folder::is_folder(&self.place().worktrees().join(id.as_str()));
        is_open.then(|| self.repo().ok()?.state().ok()).flatten()
    }

    /// Compares the repository after a turn with what it was, and notes what differs.
    pub(in crate::executors) fn note_turn(&self, job: &Job, before: &RepositoryState) {
        let Ok(repo) = self.repo() else { return };
        let Some(after) = repo.state().ok().filter(|after| after != before) else { return };
        let key = job.key().replace('.', "-");
        let Ok(changes) = repo.note_seen(&key, (before, &after), &committer_of(job)) else { return };
        let mut told = self.list_seen(job);
        told.extend(changes.iter().map(|change| tell(change, &key)));
        told.truncate(MAX_TOLD);
        let _ = self.put_note(SEEN, &brief::key(job), &told);
    }

    fn list_seen(&self, job: &Job) -> Vec<String> {
        let note = self.note(SEEN, &brief::key(job)).ok().flatten();
        note.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// What turns of an instance did beside their work, as a gate tells it.
    pub(super) fn find_seen(&self, job: &Job) -> Vec<Finding> {
        let of = |message: String| Finding {
            path: None,
            ..Finding::note(FindingKind::RepositoryTouched, "", None, message)
        };
        self.list_seen(job).into_iter().map(of).collect()
    }
}

fn tell(change: &RepositoryChange, key: &str) -> String {
    let name = &change.name;
    match change.is_put_back {
        true => format!(
            "{name} was moved by the agent and put back; both values are kept under refs/ftl/seen/{key}"
        ),
        false => format!(
            "{name} differs since a turn of the agent, by whom is not known; both values are kept under refs/ftl/seen/{key}"
        ),
    }
}
