//! Checkouts in which commands judge work: clean, outside of every project of the person, made ready like a worktree.
//!
//! This is the only place that hands one out. What is to be run on a tree that no agent works in is run there, and
//! nothing that an agent left beside its work is.

use std::path::Path;

use super::land::unlooked;
use super::{Sites, folder_in};
use crate::executors::Job;
use ftl_core::run::Failure;
use ftl_gates::verify::CouldNotRun;
use ftl_git::{Checkout, GitError, Oid, Repo, Wanted};

/// The commit and the files of a checkout.
#[derive(Clone, Copy)]
pub(super) struct CheckoutOf<'a> {
    pub(super) repo: &'a Repo,
    /// The commit that git shows there.
    pub(super) commit: &'a Oid,
    /// The files, where they are not those of the commit.
    pub(super) tree: Option<&'a Oid>,
}

impl<'a> CheckoutOf<'a> {
    /// A checkout of a commit with its own files.
    pub(super) fn commit(repo: &'a Repo, commit: &'a Oid) -> CheckoutOf<'a> {
        CheckoutOf { repo, commit, tree: None }
    }
}

/// A checkout in which commands can run.
pub(super) struct Ready<'a> {
    /// The folder in which people's paths begin.
    pub(super) folder: &'a Path,
    checkout: &'a Checkout<'a>,
}

impl Ready<'_> {
    /// The tree of its files now: another one where something that was run has changed it.
    pub(super) fn tree(&self) -> Result<Oid, Failure> {
        Ok(self.checkout.tree()?)
    }
}

impl Sites {
    /// ActionRunner out a checkout to verify in: exactly these files, the ignored ones that the settings list, and what the
    /// setup command makes. `act` is given it, or why it could not be made ready; what it leaves there is gone before
    /// the next look, but for the builds that the settings keep warm.
    pub(super) fn in_checkout<T>(
        &self,
        job: &Job,
        of: CheckoutOf<'_>,
        act: &mut dyn FnMut(Result<Ready<'_>, CouldNotRun>) -> T,
    ) -> Result<T, GitError> {
        let CheckoutOf { repo, commit, tree } = of;
        repo.check_out(Wanted { commit, tree }, &job.cancel, &mut |checkout| match self.make_ready(
            job,
            repo,
            checkout.path(),
        ) {
            Ok(()) => act(Ok(Ready { folder: &folder_in(repo, checkout.path()), checkout })),
            Err(why) => act(Err(why)),
        })
    }

    /// Makes a clean checkout one in which commands can run: listed files, then the setup command.
    fn make_ready(&self, job: &Job, repo: &Repo, checkout: &Path) -> Result<(), CouldNotRun> {
        repo.copy_ignored(checkout).map_err(|error| unlooked(error.into()))?;
        self.set_up(job, repo, checkout)
    }
}
