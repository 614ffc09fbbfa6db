//! A story, or all that has landed in a run, that is merged through a pull request: the branch is pushed, the request made, and exactly the commit
//! that was tested and reviewed is merged. Asked again after a crash, it finds what it did. A forge that does not
//! answer, or whose checks still run, is waited for and never taken for one that says no.

use std::time::Duration;

use ftl_core::catalogue::build::{Delivered, DeliveryStatus, Landing, LandingStatus};
use ftl_core::catalogue::code::PullMerge;
use ftl_core::run::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

use super::Sites;
use crate::executors::{Job, JobEnd};
use crate::forge::{Forge, ForgeError, GitHub, PULL, Pull, PullRequest, Reached};
use crate::services;
use ftl_folder::clock;
use ftl_git::{ErrorKind, GitError, Remote, WorktreeId};

/// The kind of the notes that say what has landed and waits for its pull request, by worktree.
const PULLS: &str = "pull";

/// The kind of the notes that say since when a pull request is waited for, by job.
const WAITED: &str = "pull-waited";

/// How many checks are told by name, and how much of each name.
const MAX_TOLD: usize = 5;
const MAX_NAME_LETTERS: usize = 160;

impl Sites {
    fn reached(&self) -> Result<&Reached, Failure> {
        self.forge.as_ref().map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))
    }

    /// Begins where the forge's branch is, as long as nothing has landed.
    pub(super) fn catch_up(&self, job: &Job) -> Result<(), JobEnd> {
        let reached = self.reached()?;
        let header = reached.header();
        let remote = Remote { address: reached.remote(), header: header.as_deref() };
        let repo = self.repo().map_err(Failure::from)?;
        repo.catch_up(&job.run, remote, &job.cancel).map_err(|error| silent_or_failed(reached, error))
    }

    /// Merges what has landed on the run's branch through a pull request. Where the forge still waits for
    /// something the answer says for what, and [`Sites::await_pull`] goes on from there.
    pub(super) fn pull(&self, job: &Job, about: &str, landed: Landing) -> Result<Landing, JobEnd> {
        let opened = Opened { about: about.to_owned(), landed };
        match self.try_pull(job, &opened.about, &opened.landed.target)? {
            Tried::Waits(Pull { number, url, .. }, checks) => {
                self.put_note(PULLS, WorktreeId::of(&job.run, job.action.instance).as_str(), &opened)?;
                let summary = format!("{PULL}{number} ({url}) waits for {}", join_checks(&checks));
                Ok(Landing { summary, url: Some(url), checks: Some(first(&checks)), ..opened.landed })
            }
            Tried::Merged(pull) => Ok(opened.merged(pull)),
            Tried::Refused(url, why) => Ok(opened.refuse_landing(url, why)),
        }
    }

    /// Performs `pull.merge`: waits for what the forge waits for, and merges. Waited is by being suspended, so that nothing
    /// is held up by it; past the limit it is a failure that says what a person can do, and being asked again begins anew.
    pub(in crate::executors) fn await_pull(&self, job: &Job, _: &PullMerge) -> Result<Landing, JobEnd> {
        let id = WorktreeId::of(&job.run, job.action.instance);
        let note = self.note(PULLS, id.as_str())?;
        let opened: Option<Opened> = note.and_then(|text| serde_json::from_str(&text).ok());
        let none = || Failure::new(FailureKind::CouldNotRun, "no pull request of this story is waited for");
        let opened = opened.ok_or_else(none)?;
        match self.try_pull(job, &opened.about, &opened.landed.target)? {
            Tried::Waits(pull, checks) => Err(self.still_waits(job, &pull, &checks)?),
            Tried::Merged(pull) => Ok(opened.merged(pull)),
            Tried::Refused(url, why) => Ok(opened.refuse_landing(url, why)),
        }
    }

    /// Merges all that has landed in a run through one pull request. A forge that says no leaves the work where
    /// it is, and being asked again tries again.
    pub(super) fn deliver_pull(&self, job: &Job) -> Result<Delivered, JobEnd> {
        let branch = self.repo().map_err(Failure::from)?.branch(&job.run).map_err(Failure::from)?;
        let Some(target) = branch.target else {
            let message =
                "no branch was checked out when the run began (hint: check out the one that is meant)";
            return Err(JobEnd::failed(FailureKind::CouldNotRun, message));
        };
        let about = self.landed(&job.run)?.about(&job.run);
        let about = format!("{}\n\n{}", about.subject, about.body).trim().to_owned();
        match self.try_pull(job, &about, &target)? {
            Tried::Merged(pull) => Ok(Delivered {
                status: DeliveryStatus::Landed,
                summary: merged_as(&about, &pull),
                branch: branch.name,
                target: Some(target),
                commit: pull.merged,
            }),
            Tried::Waits(pull, checks) => Err(self.still_waits(job, &pull, &checks)?),
            Tried::Refused(_, why) => Err(JobEnd::failed(FailureKind::Failed, why)),
        }
    }

    /// How a look ends that finds a forge waiting: with another one, as long as there is time.
    fn still_waits(&self, job: &Job, pull: &Pull, checks: &[String]) -> Result<JobEnd, Failure> {
        let now = clock::wall();
        let since = self.note(WAITED, &job.key())?.and_then(|text| serde_json::from_str(&text).ok());
        if since.is_none() {
            self.put_note(WAITED, &job.key(), &now)?;
        }
        let waited = Duration::from_millis(now.saturating_sub(since.unwrap_or(now)));
        let (what, Pull { number, url, .. }) = (join_checks(checks), pull);
        if waited < self.checks {
            let service = format!("{PULL}{number} ({url}), which waits for {what},");
            return Ok(JobEnd::Outage { service, after: None });
        }
        let (run, limit) = (&job.run, self.checks);
        let message = format!(
            "{PULL}{number} ({url}) still waits for {what}, after {limit:?} (hint: see to it there, then \
             `ftl resume {run}` looks again; forge.checks says how long is waited)"
        );
        Ok(JobEnd::failed(FailureKind::Timeout, message))
    }

    /// Pushes, makes or finds the pull request, and merges it if that can be done now.
    fn try_pull(&self, job: &Job, about: &str, base: &str) -> Result<Tried, JobEnd> {
        let reached = self.reached()?.clone();
        let header = reached.header();
        let remote = Remote { address: reached.remote(), header: header.as_deref() };
        let repo = self.repo().map_err(Failure::from)?;
        let commit = repo.push(&job.run, remote).map_err(|error| silent_or_failed(&reached, error))?;
        let head = format!("ftl/{}", job.run);
        let wanted = PullRequest { title: title(about), body: about, head: &head, base };
        let service = reached.service();
        match tried(&GitHub::new(reached), &wanted, commit.as_str()) {
            Ok(tried) => Ok(tried),
            Err((_, ForgeError::Silent { why, after })) => Err(silent(&service, &why, after)),
            Err((url, error @ (ForgeError::Refused(_) | ForgeError::Unavailable(_)))) => {
                let summary = format!("the pull request cannot be merged: {error}; the work is on {head}");
                Ok(Tried::Refused(url, summary))
            }
        }
    }
}

/// What has landed on the run's branch and goes through a pull request, as it is noted.
#[derive(Debug, Serialize, Deserialize)]
struct Opened {
    /// What it is about, as a commit says it.
    about: String,
    landed: Landing,
}

/// What a try to merge came to.
enum Tried {
    Merged(Pull),
    /// The forge says no for now, and what it waits for.
    Waits(Pull, Vec<String>),
    /// The forge says no, and why.
    Refused(Option<String>, String),
}

fn title(about: &str) -> &str {
    about.lines().next().unwrap_or_default()
}

/// What is told of a merge.
fn merged_as(about: &str, pull: &Pull) -> String {
    format!("{}: merged as {PULL}{} ({})", title(about), pull.number, pull.url)
}

impl Opened {
    fn merged(self, pull: Pull) -> Landing {
        let summary = merged_as(&self.about, &pull);
        Landing { summary, commit: pull.merged, url: Some(pull.url), ..self.landed }
    }

    fn refuse_landing(self, url: Option<String>, summary: String) -> Landing {
        Landing { status: LandingStatus::Failed, summary, commit: None, url, ..self.landed }
    }
}

/// The first of many.
fn first(checks: &[String]) -> Vec<String> {
    let cut = |name: &String| name.chars().take(MAX_NAME_LETTERS).collect();
    checks.iter().take(MAX_TOLD).map(cut).collect()
}

/// Names of checks in one phrase.
fn join_checks(checks: &[String]) -> String {
    let more = checks.len().saturating_sub(MAX_TOLD);
    let names = first(checks).join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

/// What git did not do at a forge: one that does not answer is waited for.
fn silent_or_failed(reached: &Reached, error: GitError) -> JobEnd {
    match error.trouble {
        ErrorKind::Unreachable => silent(&reached.service(), "git does not reach it", None),
        ErrorKind::NoRepository
        | ErrorKind::Unsuitable
        | ErrorKind::Replaced
        | ErrorKind::Stale
        | ErrorKind::Unknown
        | ErrorKind::BadName
        | ErrorKind::Cancelled
        | ErrorKind::TooMuch
        | ErrorKind::TimedOut
        | ErrorKind::Missing
        | ErrorKind::Git
        | ErrorKind::Machine
        | ErrorKind::Disk => JobEnd::Failed(error.into()),
    }
}

fn silent(service: &str, why: &str, after: Option<Duration>) -> JobEnd {
    JobEnd::Outage { service: services::describe_outage(service, why), after }
}

type Unmerged = (Option<String>, ForgeError);

fn tried(forge: &dyn Forge, wanted: &PullRequest<'_>, commit: &str) -> Result<Tried, Unmerged> {
    let pull = forge.pull(wanted).map_err(|error| (None, error))?;
    if pull.merged.is_some() {
        return Ok(Tried::Merged(pull));
    }
    let url = pull.url.clone();
    let with_url = |error: ForgeError| (Some(url.clone()), error);
    let no = |why: String| Err(with_url(ForgeError::Refused(why)));
    let checks = forge.checks(commit).map_err(with_url)?;
    if !checks.red.is_empty() {
        return no(format!("its checks failed: {}", join_checks(&checks.red)));
    }
    if !checks.running.is_empty() {
        return Ok(Tried::Waits(pull, checks.running));
    }
    if let (false, Some(waits)) = (pull.is_judged, &pull.waits) {
        let waits = vec![waits.clone()];
        return Ok(Tried::Waits(pull, waits));
    }
    match forge.merge(pull.number, commit) {
        Ok(done) if done.merged.is_some() => Ok(Tried::Merged(done)),
        Ok(_) => no(String::from("the forge did not merge it")),
        // It may have been merged by a person, or not be ready yet.
        Err(ForgeError::Refused(why)) => {
            let now = forge.look(pull.number).map_err(with_url)?;
            match (&now.merged, &now.waits) {
                (Some(_), _) => Ok(Tried::Merged(now)),
                (None, Some(waits)) => {
                    let waits = vec![format!("{waits} ({why})")];
                    Ok(Tried::Waits(now, waits))
                }
                (None, None) => no(why),
            }
        }
        Err(error @ (ForgeError::Unavailable(_) | ForgeError::Silent { .. })) => Err(with_url(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_checks_a_few_are_told() {
        let names = |count: usize| vec!["x".repeat(MAX_NAME_LETTERS + 1); count];
        assert_eq!(join_checks(&names(1)).len(), MAX_NAME_LETTERS);
        assert!(!join_checks(&names(MAX_TOLD)).contains("more"));
        assert!(join_checks(&names(MAX_TOLD + 3)).ends_with(" and 3 more"));
        assert_eq!(first(&names(MAX_TOLD + 3)).len(), MAX_TOLD);
    }

    #[test]
    fn why_a_forge_does_not_answer_is_told_in_a_line() {
        use crate::services::MAX_WHY_LETTERS;
        let why = format!("{}\nmore", "x".repeat(MAX_WHY_LETTERS + 1));
        let JobEnd::Outage { service, .. } = silent("it", &why, None) else { panic!() };
        assert_eq!(service, format!("it ({})", "x".repeat(MAX_WHY_LETTERS)));
    }
}
