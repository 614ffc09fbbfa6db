//! The replay at a landing: the base's own tests on the product that would land, in another place and with another
//! environment than the work was verified in. It runs where something differs that judges, and nowhere else.

use std::ffi::OsString;
use std::path::Path;

use ftl_core::catalogue::build::VerifyOutcome;

use super::checkout::{CheckoutOf, Ready};
use super::land::{Judged, put_back, unlooked};
use super::{Site, Sites};
use crate::executors::Job;
use ftl_folder as folder;
use ftl_gates::red_first::{self, RedFirstNeed};
use ftl_gates::replay::{self, Replay, ReplayRuns};
use ftl_gates::verify::{CouldNotRun, VerifyMeasure};
use ftl_gates::{Brief, Finding, Restore, render_findings};
use ftl_git::MergedTree;
use ftl_git::change::{Change, FileChange};
use ftl_store::machine;

/// The folder in the temporary one in which the replay's checkouts lie: its name says nothing of a verify.
const PLACE: &str = "src";

/// What is another way in the replay than where the work was verified.
const OTHERS: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("COLUMNS", "132")];

/// What the replays of all commands came to.
#[derive(Default)]
pub(super) struct Replays {
    pub(super) findings: Vec<Finding>,
    told: Vec<String>,
}

impl Replays {
    /// What stands in the report of a landing.
    pub(super) fn lines(&self) -> Vec<String> {
        let notes = (!self.findings.is_empty()).then(|| render_findings(&self.findings));
        self.told.iter().cloned().chain(notes).collect()
    }
}

impl Sites {
    /// Replays the base's tests on a merged tree.
    pub(super) fn replay(
        &self,
        job: &Job,
        site: &Site,
        merged: &MergedTree,
        (judged, works): (&Judged<'_>, &[VerifyMeasure]),
    ) -> Result<Replays, CouldNotRun> {
        let brief = brief_of(judged);
        let replay = Replay::of(judged.change, &brief);
        let is_done = replay.files == *judged.needed && replay.rewrite.is_empty();
        if replay.is_empty() || is_done || works.is_empty() {
            return Ok(Replays::default());
        }
        let place = std::env::temp_dir().join(PLACE);
        let repo = site.repo.clone().checking_out(Some(place), self.warm.clone());
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<Replays, CouldNotRun> {
            let at = ready?.folder;
            let laid = put_back(at, judged.change, &replay.files).and_then(|()| {
                replay.rewrite.iter().try_for_each(|(path, bytes)| folder::write(&at.join(path), bytes))
            });
            laid.map_err(|error| unlooked(machine::failure("", &error)))?;
            let mut replays = Replays::default();
            for (work, base) in works.iter().zip(&judged.bases) {
                let env = self.other_environment(judged);
                let again = match self.passes(job, at, (&work.command, env), &merged.tree) {
                    Err(why @ (CouldNotRun::Machine(_) | CouldNotRun::Cancelled)) => return Err(why),
                    again => again,
                };
                let runs = ReplayRuns { base: base.ran.as_ref(), work, replay: again.as_ref() };
                let found = replay::judge(&replay, &runs, &brief);
                replays.findings.extend(found.findings);
                replays.told.push(found.told);
            }
            self.allow(&mut replays.findings, judged.wish.noted.as_ref());
            Ok(replays)
        };
        let looked = self.in_checkout(job, CheckoutOf::commit(&repo, &merged.commit), &mut run);
        looked.map_err(|error| unlooked(error.into()))?
    }

    /// Whether the new tests of work that was to mend something fail on the base's product: run there where no test that
    /// failed before passes now.
    pub(super) fn look_red_first(
        &self,
        job: &Job,
        site: &Site,
        merged: &MergedTree,
        (judged, works): (&Judged<'_>, &[VerifyMeasure]),
    ) -> Result<Option<Finding>, CouldNotRun> {
        let brief = brief_of(judged);
        let is_fix = judged.wish.noted.as_ref().is_some_and(|noted| noted.promise().is_fix);
        let needs = works.iter().zip(&judged.bases).filter_map(|(work, base)| {
            let need = red_first::look(base.ran.as_ref()?, work, judged.change, &brief);
            if let RedFirstNeed::New(new) = need { Some((work, new)) } else { None }
        });
        let needs: Vec<(&VerifyMeasure, Vec<String>)> = needs.collect();
        if !is_fix || needs.is_empty() {
            return Ok(None);
        }
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<Option<Finding>, CouldNotRun> {
            let at = ready?.folder;
            lay_tests(at, judged.change, &brief).map_err(|error| unlooked(machine::failure("", &error)))?;
            for (work, new) in &needs {
                let env = self.environment.of_command(judged.wish.kind());
                let ran = match self.passes(job, at, (&work.command, env), &merged.tree) {
                    Err(why @ (CouldNotRun::Machine(_) | CouldNotRun::Cancelled)) => return Err(why),
                    Err(_) => continue,
                    Ok(ran) => ran,
                };
                if !red_first::is_red(new, ran.report.as_ref()) {
                    return Ok(Some(red_first::tell(new, is_fix)));
                }
            }
            Ok(None)
        };
        let looked = self.in_checkout(job, CheckoutOf::commit(&site.repo, &merged.onto), &mut run);
        looked.map_err(|error| unlooked(error.into()))?
    }

    /// Runs the command of the person's own settings that no agent sees; whether it succeeds, and nothing of what it
    /// prints, since that would tell what it looks at.
    pub(super) fn run_held_out(
        &self,
        job: &Job,
        site: &Site,
        merged: &MergedTree,
        judged: &Judged<'_>,
    ) -> Result<Option<String>, CouldNotRun> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<Option<String>, CouldNotRun> {
            let env = self.other_environment(judged);
            let ran = self.passes(job, ready?.folder, (&self.held_out, env), &merged.tree)?;
            let says = |word: &str| Some(format!("the held-out verify of {word}"));
            Ok(match ran.outcome {
                VerifyOutcome::Passed => None,
                VerifyOutcome::Failed | VerifyOutcome::Flaky => says("the settings fails on what would land"),
                VerifyOutcome::NoTests => says("the settings ran no test"),
            })
        };
        let looked = self.in_checkout(job, CheckoutOf::commit(&site.repo, &merged.commit), &mut run);
        looked.map_err(|error| unlooked(error.into()))?
    }

    fn other_environment(&self, judged: &Judged<'_>) -> Vec<(OsString, OsString)> {
        let mut env = self.environment.of_command(judged.wish.kind());
        env.retain(|(name, _)| !OTHERS.iter().any(|(other, _)| name == other));
        env.extend(OTHERS.map(|(name, value)| (name.into(), value.into())));
        env
    }
}

/// Lays the tests of the work on a checkout of the base.
fn lay_tests(at: &Path, change: &Change, brief: &Brief) -> std::io::Result<()> {
    let files = red_first::tests_of(change, brief)
        .map(|file| FileChange { before: file.after.clone(), ..file.clone() });
    let laid = Change { files: files.collect() };
    let put_back_all = laid.files.iter().map(|file| file.path.clone()).collect();
    put_back(at, &laid, &Restore { put_back: put_back_all, take_away: Vec::new() })
}

/// The brief of what would land. A story has none: nobody has said which of its tests may change, so all may.
fn brief_of(judged: &Judged<'_>) -> Brief {
    match &judged.wish.noted {
        Some(noted) => noted.brief(),
        None => Brief {
            delta: judged.change.files.iter().map(|file| file.path.clone()).collect(),
            verify: judged.wish.verify.join("; "),
            ..Brief::default()
        },
    }
}
