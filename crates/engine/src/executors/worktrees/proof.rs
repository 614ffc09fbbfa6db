//! Whose a story is, and whether it is satisfied already.
//!
//! A claim is never believed: each piece of evidence is looked at in a clean checkout of the run's branch, so
//! that what stands only in an agent's worktree proves nothing. A file must be there and say what is quoted; a
//! test must be one of the story's own and pass. No evidence is no proof.

use std::path::Path;

use ftl_core::catalogue::build::VerifyOutcome;
use ftl_core::catalogue::code::{Assignment, Evidence, Proof, StoryAssigned, StorySatisfied};
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;

use super::Sites;
use super::checkout::{CheckoutOf, Ready};
use super::gates::no_answer;
use super::story::about;
use crate::executors::Job;
use crate::executors::typed::Done;
use ftl_code::context::read_source;
use ftl_gates::verify::{self, CouldNotRun, RepeatPolicy};
use ftl_git::Oid;
use ftl_settings::environment::CommandKind;

/// How much evidence is looked at.
const MAX_EVIDENCE: usize = 32;

/// What may not stand in a test: it is one command, and its words are plain.
const NOT_PLAIN: [char; 14] = [';', '|', '&', '$', '<', '>', '`', '(', ')', '{', '}', '\n', '\\', '#'];

/// A story is its coder's as soon as it is asked for; where there is none, none will come.
fn assigned(job: &Job, story: &Value) -> Done<StoryAssigned> {
    let about = about(story);
    let id = about.lines().next().unwrap_or_default().trim();
    if id.is_empty() {
        return Err(Failure::new(FailureKind::Failed, "no story will come: nothing was asked for"));
    }
    Ok(Assignment { id: id.to_owned(), coder: Some(format!("{}/{}", job.run, job.action.instance.0)) })
}

impl Sites {
    /// Performs `story.assigned`.
    pub(in crate::executors) fn assign_story(&self, job: &Job, asked: &StoryAssigned) -> Done<StoryAssigned> {
        assigned(job, &asked.story)
    }

    /// Performs `story.satisfied`.
    pub(in crate::executors) fn prove_satisfied(
        &self,
        job: &Job,
        asked: &StorySatisfied,
    ) -> Done<StorySatisfied> {
        let all = asked.evidence.as_deref().unwrap_or_default();
        let (repo, none) = (self.repo()?, "no evidence was named");
        let branch = repo.begin(&job.run)?;
        let tree = repo.tree_of(&branch.tip)?;
        if all.is_empty() {
            return Ok(proof(&tree, vec![none.to_owned()], 0));
        }
        if all.len() > MAX_EVIDENCE {
            let message = format!("{} pieces of evidence; {MAX_EVIDENCE} is the most", all.len());
            return Ok(proof(&tree, vec![message], 0));
        }
        let mut look = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<Vec<String>, Failure> {
            let folder = ready.map_err(|why| no_answer(&why))?.folder;
            let tests = self.tests_of(job, folder)?;
            let mut missing = Vec::new();
            for one in all {
                if let Some(why) = self.unsupported(job, folder, one, &tests, &tree)? {
                    missing.push(format!("{}: {why}", one.claim.trim()));
                }
            }
            Ok(missing)
        };
        let missing = self.in_checkout(job, CheckoutOf::commit(&repo, &branch.tip), &mut look)??;
        Ok(proof(&tree, missing, all.len()))
    }

    /// Why a piece of evidence does not show what it is to show.
    fn unsupported(
        &self,
        job: &Job,
        folder: &Path,
        one: &Evidence,
        tests: &[String],
        tree: &Oid,
    ) -> Result<Option<String>, Failure> {
        if one.path.is_none() && one.test.is_none() {
            return Ok(Some(String::from("it names neither a file nor a test")));
        }
        if let Some(path) = &one.path
            && let Some(why) = not_in_file(folder, path, one.quote.as_deref())
        {
            return Ok(Some(why));
        }
        let Some(test) = &one.test else { return Ok(None) };
        if !is_of(test, tests) {
            let known = tests.join("`, `");
            return Ok(Some(format!("`{test}` is no test of this story (hint: begin it with `{known}`)")));
        }
        let env = self.environment.of_command(CommandKind::Tests);
        let command_place = self.command_place(job, folder.to_owned(), ("proof", env), None);
        let ran = verify::run(&command_place, test, tree.as_str(), RepeatPolicy::default(), &job.cancel)
            .map_err(|why| no_answer(&why))?;
        Ok((ran.outcome != VerifyOutcome::Passed).then(|| format!("`{test}`: {}", ran.summary)))
    }
}

/// A file alone proves little: it must say what is quoted.
fn not_in_file(folder: &Path, path: &str, quote: Option<&str>) -> Option<String> {
    let Some(bytes) = read_source(folder, path) else { return Some(format!("there is no file `{path}`")) };
    let quote = quote.map(str::trim).filter(|quote| !quote.is_empty());
    let Some(quote) = quote else { return Some(format!("nothing is quoted from `{path}`")) };
    let text = String::from_utf8_lossy(&bytes);
    (!text.contains(quote)).then(|| format!("`{path}` does not say what is quoted from it"))
}

/// Whether a test is one of the story's commands, as it is or with plain words behind it.
fn is_of(test: &str, tests: &[String]) -> bool {
    let is_plain = |words: &str| !words.contains(NOT_PLAIN);
    tests.iter().any(|own| match test.trim().strip_prefix(own.as_str()) {
        Some("") => true,
        Some(words) => words.starts_with(' ') && is_plain(words),
        None => false,
    })
}

fn proof(tree: &Oid, missing: Vec<String>, pieces: usize) -> Proof {
    let passed = missing.is_empty() && pieces > 0;
    let summary = match passed {
        true => format!("already satisfied: {pieces} of {pieces} pieces of evidence hold"),
        false => missing.join("; "),
    };
    Proof { passed, failed: !passed, summary, tree: Some(tree.digest()), missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_story_s_own_tests_prove_something() {
        let tests = ["cargo test".to_owned(), "./check".to_owned()];
        let table = [
            ("cargo test", true),
            ("cargo test it_adds -- --exact", true),
            (" ./check ", true),
            ("cargo tests", false),
            ("true", false),
            ("cargo test; true", false),
            ("cargo test || true", false),
            ("cargo test # x", false),
            ("", false),
        ];
        for (test, wanted) in table {
            assert_eq!(is_of(test, &tests), wanted, "{test}");
        }
        assert!(!is_of("", &[]));
    }

    #[test]
    fn a_file_must_say_what_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
        let why = |path, quote| not_in_file(folder.path(), path, quote);
        assert_eq!(why("a.txt", Some(" two ")), None);
        assert!(why("a.txt", Some("three")).unwrap().contains("does not say"));
        assert!(why("a.txt", None).unwrap().contains("nothing is quoted"));
        assert!(why("b.txt", Some("x")).unwrap().contains("no file"));
        assert!(why("../a.txt", Some("x")).unwrap().contains("no file"));
    }
}
