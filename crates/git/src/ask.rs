//! Single questions to git where no run's repository is open: who the person is, whether a folder is in a repository,
//! which files git knows there.
//!
//! They go through the runner that everything else goes through: what a repository names is not started, and time and
//! output have limits. The person's own settings are read, because they say whom git trusts and what it ignores.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::error::At as _;
use super::runner::{Call, MAX_GIT_OUTPUT, MAX_GIT_TIME, Output, Runner};
use super::{GitError, Person};

/// How far a question may go.
#[derive(Clone, Copy, Debug)]
pub struct AskLimits {
    /// How long git may take.
    pub time: Duration,
    /// How many bytes of its answer are kept.
    pub bytes: u64,
}

impl Default for AskLimits {
    fn default() -> AskLimits {
        AskLimits { time: MAX_GIT_TIME, bytes: MAX_GIT_OUTPUT }
    }
}

/// The end of a git that was asked, with what it printed.
#[derive(Clone, Debug)]
pub struct GitAnswer {
    /// Whether git succeeded.
    pub is_ok: bool,
    /// Its standard output, up to the limit of the call.
    pub out: Vec<u8>,
    /// Whether it printed more than that.
    pub is_cut: bool,
    /// Its standard error.
    pub said: String,
}

impl GitAnswer {
    fn of(output: Output) -> GitAnswer {
        let Output { code, out, is_cut, said, .. } = output;
        GitAnswer { is_ok: code == 0, out, is_cut, said }
    }

    /// What it printed as text, without the end of its last line; nothing where git did not succeed.
    pub fn text(&self) -> Option<String> {
        self.is_ok.then(|| String::from_utf8_lossy(&self.out).trim_end_matches('\n').to_owned())
    }
}

/// Asks git in a folder, as the person there would.
pub fn ask(folder: &Path, words: &[&str]) -> Result<GitAnswer, GitError> {
    ask_within(folder, words, AskLimits::default())
}

/// The same within other limits. What git prints beyond them is left out.
pub fn ask_within(folder: &Path, words: &[&str], limits: AskLimits) -> Result<GitAnswer, GitError> {
    let call = Call::new(folder).words(words).by_person().cut_at(limits.bytes);
    Runner::find(folder)?.limit(limits.time).run(call).map(GitAnswer::of)
}

/// Makes a clone of a repository of this machine that shares its objects.
pub fn clone_shared(from: &Path, to: &Path) -> Result<GitAnswer, GitError> {
    let call = Call::new(from).words(["-c", "protocol.file.allow=always", "clone", "-q", "--shared", "--"]);
    let call = call.words([from, to]).by_person().var("GIT_ALLOW_PROTOCOL", "file");
    Runner::find(from)?.run(call).map(GitAnswer::of)
}

/// Makes a repository of what is in a folder, with one commit on the branch `main`, under no user's settings. What
/// `left_out` says, in the words of an exclude file, is not in it.
pub fn make_repository(
    folder: &Path,
    person: &Person,
    left_out: &str,
    message: &str,
) -> Result<(), GitError> {
    let runner = Runner::find(folder)?;
    let run = |words: &[&str]| runner.run(Call::new(folder).words(words))?.ok().map(drop);
    run(&["init", "-q"])?;
    run(&["symbolic-ref", "HEAD", "refs/heads/main"])?;
    run(&["config", "user.name", &person.name])?;
    run(&["config", "user.email", &person.email])?;
    let info = folder.join(".git/info");
    fs::create_dir_all(&info).and_then(|()| fs::write(info.join("exclude"), left_out)).at(&info)?;
    run(&["add", "--", "."])?;
    run(&["commit", "-q", "-m", message])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_and_answers_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let outside = ask(folder.path(), &["rev-parse", "--is-bare-repository"]).unwrap();
        assert!(!outside.is_ok && outside.text().is_none(), "{outside:?}");
        assert!(outside.said.contains("not a git repository"), "{outside:?}");

        let (ours, copy) = (folder.path().join("ours"), folder.path().join("copy"));
        fs::create_dir(&ours).unwrap();
        for name in ["a", "b", "c.log"] {
            fs::write(ours.join(name), "").unwrap();
        }
        let person = Person { name: String::from("Ada"), email: String::from("ada@localhost") };
        make_repository(&ours, &person, "*.log\n", "The first").unwrap();
        let told = |words: &[&str]| ask(&ours, words).unwrap().text().unwrap();
        assert_eq!(told(&["log", "--format=%an %ae %s"]), "Ada ada@localhost The first");
        assert_eq!(told(&["config", "--get", "user.name"]), "Ada");

        let limits = AskLimits { bytes: 3, ..AskLimits::default() };
        let cut = ask_within(&ours, &["ls-files", "-z"], limits).unwrap();
        assert_eq!((cut.out, cut.is_cut), (b"a\0b".to_vec(), true));

        let cloned = clone_shared(&ours, &copy).unwrap();
        assert!(cloned.is_ok && copy.join("a").is_file(), "{cloned:?}");
    }
}
