//! A run's branch and a forge's repository: what stands there is fetched, and the branch is pushed. This is the
//! only place where git speaks to another repository, and only to the one that the settings name.

use super::{GitError, Oid, Repo, Trouble};
use crate::id::RunId;
use crate::process::Cancel;

/// The ways in which another repository may be reached.
const WAYS: &str = "file:http:https:ssh";

/// Another repository.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    /// Its address.
    pub address: &'a str,
    /// A header that shows who we are, where HTTP is spoken.
    pub header: Option<&'a str>,
}

impl Repo {
    fn speak(&self, remote: Remote<'_>, words: &[&str]) -> Result<super::runner::Output, GitError> {
        let mut call = self.at_home(&self.common).var("GIT_ALLOW_PROTOCOL", WAYS);
        call = call.var("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        for name in ["HOME", "SSH_AUTH_SOCK"] {
            if let Some(value) = std::env::var_os(name) {
                call = call.var(name, value);
            }
        }
        if let Some(header) = remote.header {
            // Not among the words: those everybody sees.
            call = call.var("GIT_CONFIG_COUNT", "1").var("GIT_CONFIG_KEY_0", "http.extraHeader");
            call = call.var("GIT_CONFIG_VALUE_0", header);
        }
        self.run(call.words(words))
    }

    /// Pushes a run's branch, under its own name.
    pub fn push(&self, run: &RunId, remote: Remote<'_>) -> Result<Oid, GitError> {
        let tip = self.record(run)?.tip;
        let what = format!("{tip}:refs/heads/ftl/{run}");
        self.speak(remote, &["push", "--quiet", "--no-verify", "--", remote.address, &what])?.ok()?;
        Ok(tip)
    }

    /// Has a run in which nothing has landed yet begin where the remote's branch is, if that is further on. What
    /// then lands is merged with it, and conflicts are found here.
    pub fn catch_up(&self, run: &RunId, remote: Remote<'_>, cancel: &Cancel) -> Result<(), GitError> {
        let held = self.hold(run.as_str(), cancel)?;
        let mut record = self.put_right(self.record(run)?, &held)?;
        let Some(target) = record.target.clone() else {
            let error = GitError::new(Trouble::Unsuitable, "no branch was checked out when the run began");
            return Err(error.hint("check out the branch that the pull request is for"));
        };
        if record.tip != record.base {
            return Ok(());
        }
        let name = format!("refs/ftl/remote/{run}");
        let what = format!("+{target}:{name}");
        let words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote.address, &what];
        self.speak(remote, &words)?.ok()?;
        let there = self.resolve(&name)?.filter(|there| *there != record.tip);
        if let Some(there) = there
            && self.is_ancestor(&record.tip, &there)?
        {
            (record.base, record.tip) = (there.clone(), there);
            self.write(&self.run_file(run), &record)?;
            self.put_right(record, &held)?;
        }
        Ok(())
    }
}
