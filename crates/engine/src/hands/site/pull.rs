//! A story that is merged through a pull request: the branch is pushed, the request made, and exactly the commit
//! that was tested and reviewed is merged. Asked again after a crash, it finds what it did.

use ftl_core::catalogue::build::{Landing, LandingStatus};
use ftl_core::run::{Failure, FailureKind};

use super::Sites;
use crate::forge::{Forge, ForgeError, GitHub, Pull, Reached, Wanted};
use crate::git::Remote;
use crate::hands::Job;

impl Sites {
    fn reached(&self) -> Result<&Reached, Failure> {
        self.forge.as_ref().map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))
    }

    /// Begins where the forge's branch is, as long as nothing has landed.
    pub(super) fn catch_up(&self, job: &Job) -> Result<(), Failure> {
        let reached = self.reached()?;
        let header = reached.header();
        let remote = Remote { address: reached.remote(), header: header.as_deref() };
        Ok(self.repo()?.catch_up(&job.run, remote, &job.cancel)?)
    }

    /// Merges what has landed on the run's branch through a pull request.
    pub(super) fn pull(&self, job: &Job, about: &str, landed: Landing) -> Result<Landing, Failure> {
        let reached = self.reached()?.clone();
        let header = reached.header();
        let remote = Remote { address: reached.remote(), header: header.as_deref() };
        let commit = self.repo()?.push(&job.run, remote)?;
        let head = format!("ftl/{}", job.run);
        let title = about.lines().next().unwrap_or_default();
        let wanted = Wanted { title, body: about, head: &head, base: &landed.target };
        match merged(&GitHub::new(reached), &wanted, commit.as_str()) {
            Ok(pull) => Ok(Landing {
                summary: format!("{title}: merged as pull request {} ({})", pull.number, pull.url),
                commit: pull.merged,
                url: Some(pull.url),
                ..landed
            }),
            Err((url, error)) => {
                let summary = format!("the pull request cannot be merged: {error}; the work is on {head}");
                Ok(Landing { status: LandingStatus::Failed, summary, commit: None, url, ..landed })
            }
        }
    }
}

type Unmerged = (Option<String>, ForgeError);

fn merged(forge: &dyn Forge, wanted: &Wanted<'_>, commit: &str) -> Result<Pull, Unmerged> {
    let pull = forge.pull(wanted).map_err(|error| (None, error))?;
    if pull.merged.is_some() {
        return Ok(pull);
    }
    let done = forge.merge(pull.number, commit);
    done.map_err(|error| (Some(pull.url.clone()), error)).and_then(|done| match done.merged {
        Some(_) => Ok(done),
        None => Err((Some(pull.url), ForgeError::Refused(String::from("the forge did not merge it")))),
    })
}
