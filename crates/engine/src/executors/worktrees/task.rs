//! What a task's lifecycle does with git: its patch made out of a worktree, tested in a clean checkout, applied
//! to the person's branch, undone there.
//!
//! A move of the person's branch is noted before it is made. After a crash it is found made or it is made again
//! from where the branch is then; it is never made twice.

use std::path::Path;

use ftl_core::catalogue::build::VerifyOutcome;
use ftl_core::run::{Failure, FailureKind};

use super::checkout::{CheckoutOf, Ready};
use super::gates::no_answer;
use super::{Sites, prefix};
use crate::executors::Job;
use ftl_folder as folder;
use ftl_folder::clock;
use ftl_gates::verify::{self, CouldNotRun, RepeatPolicy, VerifyMeasure};
use ftl_git::patch::{BranchMove, MoveOutcome, PatchOutcome, Saying};
use ftl_git::{Oid, Repo, WorktreeId};
use ftl_settings::environment::CommandKind;

/// Moves of people's branches, by the key of the job that makes them.
const STEPS: &str = "lifecycle.step";

/// One command that was run on a patch.
pub(in crate::executors) struct Suite {
    /// `test` or `lint`.
    pub(in crate::executors) kind: &'static str,
    /// The result of the command, with its outcome and output.
    pub(in crate::executors) ran: VerifyMeasure,
}

impl Suite {
    /// Whether it succeeded; a lint runs no test.
    pub(in crate::executors) fn passed(&self) -> bool {
        match self.ran.outcome {
            VerifyOutcome::Passed => true,
            VerifyOutcome::NoTests => self.kind == "lint",
            VerifyOutcome::Failed | VerifyOutcome::Flaky => false,
        }
    }
}

/// The files that a coder made.
pub(in crate::executors) struct Made {
    /// The patch of the task, as git prints it.
    pub(in crate::executors) patch: Vec<u8>,
    /// The files of it that are there, whole.
    pub(in crate::executors) files: Vec<(String, Vec<u8>)>,
}

/// A commit that was made on the person's branch.
pub(in crate::executors) struct Committed {
    pub(in crate::executors) branch: String,
    pub(in crate::executors) commit: String,
    pub(in crate::executors) parent: String,
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Failed, message)
}

/// The tree that a patch makes of a commit, if it fits.
fn tree_of(outcome: PatchOutcome, onto: &Oid) -> Result<Oid, Failure> {
    match outcome {
        PatchOutcome::Fits(tree) => Ok(tree),
        PatchOutcome::Unfit(why) => Err(failed(format!("the patch does not fit {}: {why}", onto.short()))),
    }
}

impl Sites {
    /// What the coder of a job changed, as a patch, and the files of it that are there, whole.
    pub(in crate::executors) fn made(&self, job: &Job) -> Result<Made, Failure> {
        let site = self.site(job)?;
        let tree = site.standing()?;
        let patch = site.repo.patch_between(&site.tree.base, &tree, &prefix(&site.repo))?;
        let mut files = Vec::new();
        for file in site.change(&tree)?.files {
            let Some(after) = file.after else { continue };
            let bytes =
                after.bytes.ok_or_else(|| failed(format!("`{}` is too large to be kept", file.path)))?;
            files.push((file.path, bytes));
        }
        Ok(Made { patch, files })
    }

    /// Runs the project's tests and lints on a patch, in a clean checkout of where the person is.
    pub(in crate::executors) fn suites(&self, job: &Job, patch: &[u8]) -> Result<(Oid, Vec<Suite>), Failure> {
        let repo = self.repo()?;
        let head = repo.head_commit()?;
        let tree = tree_of(repo.patched(&job.run, &head, patch, &prefix(&repo), false)?, &head)?;
        let saying = Saying { message: "Tested by ftl", trailers: &[], when: 0 };
        let commit = repo.commit_tree(&tree, &head, saying)?;
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| {
            self.run_suites(job, ready.map_err(|why| no_answer(&why))?.folder, &tree)
        };
        let suites = self.in_checkout(job, CheckoutOf::commit(&repo, &commit), &mut run)??;
        Ok((tree, suites))
    }

    fn run_suites(&self, job: &Job, folder: &Path, tree: &Oid) -> Result<Vec<Suite>, Failure> {
        let could_not = |why: String| Failure::new(FailureKind::CouldNotRun, why);
        let commands = self.commands.or_found(folder);
        if commands.tests.is_empty() {
            let message = "nothing here says how to test it (hint: set worktree.tests in ftl.toml)";
            return Err(could_not(message.to_owned()));
        }
        let named = commands.tests.iter().map(|one| ("test", CommandKind::Tests, one));
        let named = named.chain(commands.lints.iter().map(|one| ("lint", CommandKind::Lint, one)));
        let mut suites = Vec::new();
        for (kind, environment, command) in named {
            let env = self.environment.of_command(environment);
            let command_place = self.command_place(job, folder.to_owned(), (kind, env), None);
            let ran =
                verify::run(&command_place, command, tree.as_str(), RepeatPolicy::default(), &job.cancel)
                    .map_err(|why| no_answer(&why))?;
            suites.push(Suite { kind, ran });
        }
        Ok(suites)
    }

    /// The step of a job that was noted before; whether it was made.
    fn noted_step(&self, repo: &Repo, job: &Job) -> Result<Option<BranchMove>, Failure> {
        let Some(text) = self.note(STEPS, &job.key())? else { return Ok(None) };
        let step: BranchMove = serde_json::from_str(&text).map_err(|error| {
            Failure::new(FailureKind::CouldNotRun, format!("the note of a step cannot be read: {error}"))
        })?;
        Ok(Some(step).filter(|step| repo.has_commit(&step.target, &step.to).unwrap_or(false)))
    }

    /// Commits what a patch makes of the person's branch, and moves the branch there.
    pub(in crate::executors) fn commit_patch(
        &self,
        job: &Job,
        patch: &[u8],
        saying: Saying<'_>,
    ) -> Result<Committed, Failure> {
        self.step(job, saying, &mut |repo, head| {
            tree_of(repo.patched(&job.run, head, patch, &prefix(repo), false)?, head)
        })
    }

    /// Commits what undoes a commit, on top of whatever the person's branch has since.
    pub(in crate::executors) fn undo_commit(
        &self,
        job: &Job,
        commit: &str,
        saying: Saying<'_>,
    ) -> Result<Committed, Failure> {
        let target: Oid = commit.parse()?;
        self.step(job, saying, &mut |repo, head| {
            let (branch, _) = repo.here()?;
            if !repo.has_commit(&branch, &target)? {
                return Err(failed(format!("{} is not on the branch that is checked out", target.short())));
            }
            let parent = repo.parent_of(&target)?;
            let top = std::path::Path::new("");
            let patch = repo.patch_between(&parent, &target, top)?;
            match repo.patched(&job.run, head, &patch, top, true)? {
                PatchOutcome::Fits(tree) => Ok(tree),
                PatchOutcome::Unfit(why) => {
                    let short = target.short();
                    let message =
                        format!("{short} cannot be undone: later work stands on it ({why}); undo that first");
                    Err(failed(message))
                }
            }
        })
    }

    /// One commit on the person's branch, noted before the branch moves.
    fn step(
        &self,
        job: &Job,
        saying: Saying<'_>,
        tree: &mut dyn FnMut(&Repo, &Oid) -> Result<Oid, Failure>,
    ) -> Result<Committed, Failure> {
        let repo = self.repo()?;
        let made = |step: &BranchMove| Committed {
            branch: step.branch().to_owned(),
            commit: step.to.to_string(),
            parent: step.from.to_string(),
        };
        if let Some(step) = self.noted_step(&repo, job)? {
            // It was made, and perhaps not to its end: the checkout follows.
            let _ = repo.make_step(&job.run, &step, &job.cancel)?;
            return Ok(made(&step));
        }
        let (target, from) = repo.here()?;
        let tree = tree(&repo, &from)?;
        let to = repo.commit_tree(&tree, &from, saying)?;
        let step = BranchMove { target, from, to };
        self.put_note(STEPS, &job.key(), &step)?;
        match repo.make_step(&job.run, &step, &job.cancel)? {
            MoveOutcome::Made => Ok(made(&step)),
            MoveOutcome::Refused(why) => Err(failed(format!("`{}` cannot be moved: {why}", step.branch()))),
        }
    }

    /// Takes what is outside of a plan out of the worktree of a job; what only was there is kept first.
    pub(in crate::executors) fn tidy(&self, job: &Job, planned: &[String]) -> Result<(), Failure> {
        let id = WorktreeId::of(&job.run, job.action.instance);
        if !folder::is_folder(&self.place().worktrees().join(id.as_str())) {
            // Nothing is begun, or what was begun is over: the work starts from where the person is now.
            self.repo()?.begin_again(&job.run)?;
            return Ok(());
        }
        let site = self.site(job)?;
        let tree = site.standing()?;
        let stray = site.change(&tree)?.files.into_iter().find(|file| !planned.contains(&file.path));
        if stray.is_some() {
            // The next coder begins anew; the work so far is kept, and is in the last patch.
            site.repo.close_worktree(&id, "its plan has changed", clock::wall() / 1000)?;
            site.repo.begin_again(&job.run)?;
        }
        Ok(())
    }
}
