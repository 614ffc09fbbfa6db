//! A story that is merged through a pull request: the branch is pushed, the request made, and exactly the commit
//! that was tested and reviewed is merged. Asked again after a crash, it finds what it did. A forge that does not
//! answer is waited for and never taken for one that says no.

use std::time::Duration;

use ftl_core::catalogue::build::{Landing, LandingStatus};
use ftl_core::run::{Failure, FailureKind};

use super::Sites;
use crate::forge::{Forge, ForgeError, GitHub, Pull, Reached, Wanted};
use crate::git::{GitError, Remote, Trouble};
use crate::hands::{Ended, Job};

/// How much is told of why a forge does not answer.
const MAX_WHY_LETTERS: usize = 120;

impl Sites {
    fn reached(&self) -> Result<&Reached, Failure> {
        self.forge.as_ref().map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))
    }

    /// Begins where the forge's branch is, as long as nothing has landed.
    pub(super) fn catch_up(&self, job: &Job) -> Result<(), Ended> {
        let reached = self.reached()?;
        let header = reached.header();
        let remote = Remote { address: reached.remote(), header: header.as_deref() };
        let repo = self.repo().map_err(Failure::from)?;
        repo.catch_up(&job.run, remote, &job.cancel).map_err(|error| silent_or_failed(reached, error))
    }

    /// Merges what has landed on the run's branch through a pull request.
    pub(super) fn pull(&self, job: &Job, about: &str, landed: Landing) -> Result<Landing, Ended> {
        let reached = self.reached()?.clone();
        let header = reached.header();
        let remote = Remote { address: reached.remote(), header: header.as_deref() };
        let repo = self.repo().map_err(Failure::from)?;
        let commit = repo.push(&job.run, remote).map_err(|error| silent_or_failed(&reached, error))?;
        let head = format!("ftl/{}", job.run);
        let title = about.lines().next().unwrap_or_default();
        let wanted = Wanted { title, body: about, head: &head, base: &landed.target };
        let service = reached.service();
        match merged(&GitHub::new(reached), &wanted, commit.as_str()) {
            Ok(pull) => Ok(Landing {
                summary: format!("{title}: merged as pull request {} ({})", pull.number, pull.url),
                commit: pull.merged,
                url: Some(pull.url),
                ..landed
            }),
            Err((_, ForgeError::Silent { why, after })) => Err(silent(&service, &why, after)),
            Err((url, error @ (ForgeError::Refused(_) | ForgeError::Unavailable(_)))) => {
                let summary = format!("the pull request cannot be merged: {error}; the work is on {head}");
                Ok(Landing { status: LandingStatus::Failed, summary, commit: None, url, ..landed })
            }
        }
    }
}

/// What git did not do at a forge: one that does not answer is waited for.
fn silent_or_failed(reached: &Reached, error: GitError) -> Ended {
    match error.trouble {
        Trouble::Unreachable => silent(&reached.service(), "git does not reach it", None),
        Trouble::NoRepository
        | Trouble::Unsuitable
        | Trouble::Replaced
        | Trouble::Stale
        | Trouble::Unknown
        | Trouble::BadName
        | Trouble::Cancelled
        | Trouble::TooMuch
        | Trouble::TimedOut
        | Trouble::Git
        | Trouble::Disk => Ended::Failed(error.into()),
    }
}

fn silent(service: &str, why: &str, after: Option<Duration>) -> Ended {
    let why: String = why.lines().next().unwrap_or_default().chars().take(MAX_WHY_LETTERS).collect();
    Ended::Outage { service: format!("{service} ({why})"), after }
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
