//! A run's branch and a forge's repository: the forge's refs are fetched, and the branch is pushed. This is the
//! only place where git speaks to another repository, and only to the one that the settings name.

use super::{ErrorKind, GitError, Oid, Repo};
use ftl_folder::id::RunId;
use ftl_process::Cancel;

/// The ways in which another repository may be reached.
const WAYS: &str = "file:http:https:ssh";

/// What git, its transports and ssh say where no host answers, in the language that they are told to speak.
/// Everything else that goes wrong is an answer.
const SILENCE: [&str; 15] = [
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Failed to connect",
    "Couldn't connect to server",
    "Could not connect to server",
    "Connection refused",
    "Connection timed out",
    "Connection reset",
    "Operation timed out",
    "Network is unreachable",
    "No route to host",
    "Empty reply from server",
    "kex_exchange_identification",
    "The requested URL returned error: 5",
    "The requested URL returned error: 429",
];

/// A repository elsewhere, such as that of a forge.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    /// The address that git pushes to and fetches from.
    pub address: &'a str,
    /// A header that shows who we are, where HTTP is spoken.
    pub header: Option<&'a str>,
}

impl Repo {
    /// Has git speak to another repository. One that does not answer is told apart from one that says no.
    fn speak(&self, remote: Remote<'_>, words: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut call = self.at_home(&self.common).var("GIT_ALLOW_PROTOCOL", WAYS);
        call = call.var("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        for name in ["HOME", "SSH_AUTH_SOCK"] {
            if let Some(value) = std::env::var_os(name) {
                call = call.var(name, value);
            }
        }
        if let Some(header) = remote.header {
            // Not among the words: those every user of the machine can see.
            call = call.var("GIT_CONFIG_COUNT", "1").var("GIT_CONFIG_KEY_0", "http.extraHeader");
            call = call.var("GIT_CONFIG_VALUE_0", header);
        }
        let unreachable = |error: GitError| GitError { trouble: ErrorKind::Unreachable, ..error };
        match self.run(call.words(words)).and_then(super::runner::Output::ok) {
            Err(error) if error.trouble == ErrorKind::TimedOut || is_silence(&error.message) => {
                Err(unreachable(error))
            }
            ended => ended,
        }
    }

    /// Pushes a run's branch, under its own name.
    pub fn push(&self, run: &RunId, remote: Remote<'_>) -> Result<Oid, GitError> {
        let tip = self.record(run)?.tip;
        let what = format!("{tip}:refs/heads/ftl/{run}");
        self.speak(remote, &["push", "--quiet", "--no-verify", "--", remote.address, &what])?;
        Ok(tip)
    }

    /// Has a run in which nothing has landed yet begin where the remote's branch is, if that is further on. What
    /// then lands is merged with it, and conflicts are found here.
    pub fn catch_up(&self, run: &RunId, remote: Remote<'_>, cancel: &Cancel) -> Result<(), GitError> {
        let held = self.hold(run.as_str(), cancel)?;
        let mut record = self.put_right(self.record(run)?, &held)?;
        let Some(target) = record.target.clone() else {
            let error = GitError::new(ErrorKind::Unsuitable, "no branch was checked out when the run began");
            return Err(error.hint("check out the branch that the pull request is for"));
        };
        if record.tip != record.base {
            return Ok(());
        }
        let name = format!("refs/ftl/remote/{run}");
        let what = format!("+{target}:{name}");
        let words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote.address, &what];
        self.speak(remote, &words)?;
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

fn is_silence(said: &str) -> bool {
    SILENCE.iter().any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_apart_from_a_no() {
        let silent = [
            "fatal: unable to access 'https://forge.example/a/b/': Could not resolve host: forge.example",
            "fatal: unable to access 'http://127.0.0.1:1/a/b/': Failed to connect to 127.0.0.1 port 1",
            "fatal: unable to access 'https://forge.example/a/b/': The requested URL returned error: 503",
            "ssh: connect to host forge.example port 22: Connection refused",
        ];
        let answered = [
            "fatal: Authentication failed for 'https://forge.example/a/b/'",
            "fatal: unable to access 'https://forge.example/a/b/': The requested URL returned error: 403",
            "git@forge.example: Permission denied (publickey).",
            "! [remote rejected] ftl/a -> ftl/a (protected branch hook declined)",
            "fatal: couldn't find remote ref refs/heads/gone",
        ];
        assert!(silent.iter().all(|said| is_silence(said)));
        assert!(!answered.iter().any(|said| is_silence(said)));
    }
}
