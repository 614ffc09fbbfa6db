//! Work that an earlier attempt at the same brief left: the full build goes on from what the direct one wrote.
//!
//! It is laid into the new worktree once, while that is set up. A file that has changed on the branch meanwhile is
//! left as the branch has it, and nothing is taken out of the worktree that the work comes from.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

use ftl_core::run::Failure;

use super::Sites;
use crate::executors::Job;
use ftl_git::change::{Content, EntryKind, FileChange};
use ftl_git::{GitError, Oid, Repo, WorktreeId};

/// The kind of the notes that say which files were laid.
const KIND: &str = "site-inherited";

impl Sites {
    /// Lays what the predecessor of a job's instance changed into its new worktree, if there is anything.
    pub(super) fn inherit(&self, job: &Job, repo: &Repo, checkout: &Path) -> Result<(), Failure> {
        let Some(before) = self.noted(job)?.and_then(|noted| noted.predecessor) else { return Ok(()) };
        let from = WorktreeId::of(&job.run, ftl_core::run::InstanceId(before));
        // What was closed meanwhile is kept under a ref; then the work begins anew.
        let Ok((base, tree)) = standing(repo, &from) else { return Ok(()) };
        let changed = repo.change(&base, &tree)?;
        let tip = repo.branch(&job.run)?.tip;
        let mut laid = Vec::new();
        for file in &changed.files {
            let now = repo.file_at(&tip, Path::new(&file.path))?;
            let is_as_before = now.as_deref() == file.before.as_ref().and_then(|one| one.bytes.as_deref());
            if is_as_before && is_below(&file.path) && lay(checkout, file).is_ok() {
                laid.push(file.path.clone());
            }
        }
        self.put_note(KIND, &key(job), &laid)
    }

    /// The files that were laid into the worktree of a job's instance.
    pub(in crate::executors) fn inherited(&self, job: &Job) -> Result<Vec<String>, Failure> {
        let note = self.note(KIND, &key(job))?;
        Ok(note.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }
}

fn key(job: &Job) -> String {
    format!("{}/{}", job.run, job.action.instance.0)
}

/// What a worktree started from, and the tree that is there.
fn standing(repo: &Repo, id: &WorktreeId) -> Result<(Oid, Oid), GitError> {
    let base = repo.worktree(id)?.base;
    Ok((base, repo.tree(id)?.tree))
}

/// Whether a path stays in the folder that it is joined to, outside of git's own.
fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|part| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => false,
    })
}

/// Writes or removes one file. Links and submodules are left as the branch has them.
fn lay(checkout: &Path, file: &FileChange) -> std::io::Result<()> {
    let path = checkout.join(&file.path);
    let is_plain = |content: &Content| matches!(content.kind, EntryKind::File | EntryKind::Executable);
    match (&file.before, &file.after) {
        (Some(before), _) if !is_plain(before) => Err(std::io::ErrorKind::Unsupported.into()),
        (_, Some(Content { kind: kind @ (EntryKind::File | EntryKind::Executable), bytes: Some(bytes) })) => {
            if let Some(parent) = path.parent() {
                ftl_folder::make(parent)?;
            }
            ftl_folder::write(&path, bytes)?;
            let mode = if *kind == EntryKind::Executable { 0o755 } else { 0o644 };
            let file = ftl_folder::open(&path, ftl_folder::OpenMode::Read)?;
            file.set_permissions(std::fs::Permissions::from_mode(mode))
        }
        (Some(_), None) => ftl_folder::remove(&path),
        (_, _) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}
