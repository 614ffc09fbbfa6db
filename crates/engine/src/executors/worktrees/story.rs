//! The worktree of a story: opened, tested, merged, kept and closed. A site that an action is given must be
//! a worktree of the same run; what a story is tested with is noted when its worktree is opened, before
//! an agent has changed anything there.

use std::collections::BTreeMap;
use std::path::Path;

use ftl_core::catalogue::build::{Landing, LandingStatus, VerifyOutcome};
use ftl_core::catalogue::code::{
    Progress, Site as SiteShape, SiteClosed, TestCheck, TestReport, TestsRun, WorkMerge, WorktreeClose,
    WorktreeKeep, WorktreeOpen, WorktreeProgress,
};
use ftl_core::catalogue::scalars::Seconds;
use ftl_core::run::{Failure, FailureKind, ROOT};
use ftl_core::value::Value;
use serde::{Deserialize, Serialize};

use super::base::Base;
use super::gates::{Command, no_answer};
use super::land::Wish;
use super::message::{About, MAX_SUBJECT_LETTERS};
use super::{LandingRoute, Site, Sites, folder_in, prefix};
use crate::executors::typed::Done;
use crate::executors::{Job, JobEnd};
use ftl_code::commands::look::{self, ProbeFolder, ProbeOutput, ProbeReport};
use ftl_code::commands::{Commands, programs};
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_gates::verify::old_failures::{OldFailures, Promise, judge_old_failures};
use ftl_gates::verify::{self, RepeatPolicy, VerifyMeasure, against};
use ftl_gates::{blocks, render_findings};
use ftl_git::{GitError, Oid, WorktreeId};
use ftl_records::begin::Noted;
use ftl_settings::environment::CommandKind;
use ftl_store::notebook::Notebook;
use ftl_store::{ContentDigest, StoreError};

/// The kinds of the notes: what a story is about, and what its tests said last.
const STORIES: &str = "story";
const TESTED: &str = "story-tests";

/// The kind of the notes that say how a campaign's story is verified.
const VERIFIES: &str = "story-verify";

/// The kind of the notes that count how often the progress of a story was looked at, each with its worktree.
const REVIEWED: &str = "story-reviews";

/// How many repetitions an architect is told.
const MAX_REPEATS: usize = 5;

/// A story, as it is noted.
#[derive(Debug, Serialize, Deserialize)]
struct Story {
    about: String,
    commands: Commands,
}

/// What the story of a worktree is about, if one was noted. A note that cannot be read names none.
pub(super) fn about_of(notes: &dyn Notebook, worktree: &WorktreeId) -> Result<Option<String>, StoreError> {
    let note = notes.note(STORIES, worktree.as_str())?;
    let story: Option<Story> = note.and_then(|text| serde_json::from_str(&text).ok());
    Ok(story.map(|story| story.about))
}

impl Sites {
    /// Performs `worktree.open`.
    pub(in crate::executors) fn open_story(&self, job: &Job, asked: &WorktreeOpen) -> Done<WorktreeOpen> {
        let story = &asked.story;
        let site = self.site(job)?;
        let noted = match self.story(job)? {
            Some(noted) => noted,
            None => {
                let mut commands = self.commands.or_found(&site.folder);
                commands
                    .tests
                    .extend(self.verify_of(&job.run, story)?.filter(|one| !commands.tests.contains(one)));
                self.can_be_tested(job, &site, &commands)?;
                let noted = Story { about: about(story), commands };
                self.put_note(STORIES, site.tree.id.as_str(), &noted)?;
                noted
            }
        };
        let Commands { tests, lints, build, .. } = noted.commands;
        Ok(SiteShape {
            path: site.folder.display().to_string(),
            branch: site.repo.branch(&job.run)?.name,
            base: site.tree.base.as_str().to_owned(),
            tests: Some(tests),
            lints: Some(lints),
            build,
        })
    }

    /// Whether the programs of a story's commands are there, and its tests can be collected. A worktree in which nothing
    /// can be tested goes before an agent has worked in it.
    fn can_be_tested(&self, job: &Job, site: &Site, commands: &Commands) -> Result<(), Failure> {
        let env = self.environment.of_command(CommandKind::Tests);
        let mut missing = programs::missing(commands, &site.folder, &env);
        if missing.is_empty() {
            let command_place = self.command_place(job, site.folder.clone(), ("look", env.clone()), None);
            let command_place = command_place.within(look::MAX_LOOK);
            let mut run = |command: &str| {
                command_place.shell(command, &job.cancel).ok().and_then(|ended| ProbeOutput::of(&ended))
            };
            let at = ProbeFolder { folder: &site.folder, made: &[], env: &env };
            if let ProbeReport::Broken(why) = look::look(&commands.tests, at, &mut run) {
                missing = format!("{why} (hint: {})", look::HINT);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        // What cannot be closed now is swept when the run rests.
        let _ = site.repo.close_worktree(&site.tree.id, "its programs are missing", clock::wall() / 1000);
        Err(Failure::new(FailureKind::CouldNotRun, missing))
    }

    /// What was noted of the story of a job's instance.
    fn story(&self, job: &Job) -> Result<Option<Story>, Failure> {
        let id = WorktreeId::of(&job.run, job.action.instance);
        let Some(note) = self.note(STORIES, id.as_str())? else { return Ok(None) };
        serde_json::from_str(&note).map(Some).map_err(|error| {
            let message = format!("what was noted of the story cannot be read: {error}");
            Failure::new(FailureKind::CouldNotRun, message)
        })
    }

    /// The worktree that a site names, if it is one of this run.
    fn own_worktree(&self, job: &Job, site: &SiteShape) -> Result<WorktreeId, Failure> {
        let ours = self.repo()?.place().worktrees();
        let below = Path::new(&site.path).strip_prefix(&ours).ok();
        let name = below.and_then(|below| below.iter().next()).and_then(|name| name.to_str());
        let id = name.filter(|name| name.starts_with(&format!("{}-", job.run))).map(str::parse);
        let stranger = || format!("`{}` is no worktree of this run", site.path);
        Ok(id.ok_or_else(|| Failure::new(FailureKind::Failed, stranger()))??)
    }

    /// Performs `worktree.close`.
    pub(in crate::executors) fn close_story(&self, job: &Job, asked: &WorktreeClose) -> Done<WorktreeClose> {
        let id = self.own_worktree(job, &asked.site)?;
        let closed = self.repo()?.close_worktree(&id, "its story is done", clock::wall() / 1000)?;
        Ok(SiteClosed { kept: closed.kept })
    }

    /// Performs `worktree.keep`.
    pub(in crate::executors) fn keep_story(&self, job: &Job, asked: &WorktreeKeep) -> Done<WorktreeKeep> {
        let Some(site) = &asked.site else { return Ok(SiteClosed { kept: None }) };
        let (id, repo) = (self.own_worktree(job, site)?, self.repo()?);
        // One that is closed has nothing that is not kept.
        if repo.worktree(&id).is_err() {
            return Ok(SiteClosed { kept: None });
        }
        Ok(SiteClosed { kept: repo.keep(&id, "its story did not come to its end", clock::wall() / 1000)? })
    }

    /// Performs `worktree.progress`.
    pub(in crate::executors) fn measure_progress(
        &self,
        job: &Job,
        asked: &WorktreeProgress,
    ) -> Done<WorktreeProgress> {
        let id = self.own_worktree(job, &asked.site)?;
        let seen = self.repo()?.progress(&id)?;
        let files = if seen.files.len() == 1 { "file" } else { "files" };
        let summary = format!(
            "{} {files} changed, {} lines added, {} removed",
            seen.files.len(),
            seen.added,
            seen.removed
        );
        let last_tests = self.note(TESTED, id.as_str())?;
        Ok(Progress {
            summary,
            commits: seen.commits,
            files: seen.files,
            added: seen.added,
            removed: seen.removed,
            last_tests: last_tests.and_then(|text| serde_json::from_str(&text).ok()),
            repeats: self.repeats(&id)?,
            reviews: Some(self.counted(REVIEWED, &id, &job.key())?.saturating_sub(1)),
        })
    }

    /// Performs `tests.run`.
    pub(in crate::executors) fn run_tests(&self, job: &Job, asked: &TestsRun) -> Done<TestsRun> {
        let (id, repo) = (self.own_worktree(job, &asked.site)?, self.repo()?);
        let tree = repo.worktree(&id)?;
        let site = Site { folder: folder_in(&repo, &tree.path), repo, tree };
        let tests = self.or_now(asked.site.tests.clone().unwrap_or_default(), &site.folder);
        if tests.is_empty() {
            let message = "nothing here says how to test it (hint: set worktree.tests in ftl.toml)";
            return Err(Failure::new(FailureKind::CouldNotRun, message));
        }
        let report = self.tested(job, &site, asked.timeout, &tests, asked)?;
        self.put_note(TESTED, id.as_str(), &report.summary)?;
        self.put_note(&format!("{TESTED}-{}", id.as_str()), &job.key(), &report.summary)?;
        Ok(report)
    }

    /// What tests have said more than once, the most frequent first.
    fn repeats(&self, id: &WorktreeId) -> Result<Vec<String>, Failure> {
        let notes = self.records.store().notes(&format!("{TESTED}-{}", id.as_str()))?;
        Ok(repeated(notes.into_iter().map(|(_, note)| serde_json::from_str(&note).unwrap_or_default())))
    }

    /// How often something was done in a worktree, this time included, however often it is asked again.
    fn counted(&self, kind: &str, id: &WorktreeId, key: &str) -> Result<u64, Failure> {
        let kind = format!("{kind}-{}", id.as_str());
        self.put_note(&kind, key, &true)?;
        Ok(self.records.store().notes(&kind)?.len() as u64)
    }

    /// The commands that test a story: those that were there when its worktree was opened, else what the
    /// settings say by now or the story itself has brought.
    fn or_now(&self, tests: Vec<String>, folder: &Path) -> Vec<String> {
        if tests.is_empty() { self.commands.or_found(folder).tests } else { tests }
    }

    fn verify_of(&self, run: &RunId, story: &Value) -> Result<Option<String>, Failure> {
        let Some(story) = story.as_text() else { return Ok(None) };
        let note = self.note(VERIFIES, &verify_key(run, story))?;
        Ok(note.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// What was changed so far in the worktree of a job's instance, as a patch.
    pub(in crate::executors) fn change_so_far(&self, job: &Job) -> Result<Vec<u8>, Failure> {
        let site = self.site(job)?;
        let standing = site.standing()?;
        Ok(site.repo.patch_between(&site.tree.base, &standing, &prefix(&site.repo))?)
    }

    /// What a story changed, as a patch, if the tree that is asked about is the one that is there.
    pub(in crate::executors) fn change_of(&self, job: &Job, tree: &str) -> Result<Vec<u8>, Failure> {
        let site = self.site(job)?;
        let (wanted, standing) = (tree.parse::<Oid>()?, site.standing()?);
        if wanted != standing {
            let (wanted, standing) = (wanted.short(), standing.short());
            let message = format!("tree {wanted} was tested, but {standing} stands there now");
            return Err(Failure::new(FailureKind::Stale, message));
        }
        Ok(site.repo.patch_between(&site.tree.base, &wanted, &prefix(&site.repo))?)
    }

    /// The commands that were noted for the story of a job's instance; nothing where it has none.
    pub(super) fn story_tests(&self, job: &Job) -> Result<Option<Vec<String>>, Failure> {
        Ok(self.story(job)?.map(|story| story.commands.tests))
    }

    /// The commands that test the story of a job's instance.
    pub(super) fn tests_of(&self, job: &Job, folder: &Path) -> Result<Vec<String>, Failure> {
        let noted = self.story(job)?.map(|story| story.commands.tests).unwrap_or_default();
        Ok(self.or_now(noted, folder))
    }

    fn tested(
        &self,
        job: &Job,
        site: &Site,
        timeout: Option<Seconds>,
        tests: &[String],
        asked: &TestsRun,
    ) -> Result<TestReport, Failure> {
        let tree = site.standing()?;
        let change = site.change(&tree)?;
        let promise =
            Promise::of_story(&self.story(job)?.map(|story| story.about).unwrap_or_default(), &change);
        let mut findings = self.look(&change, None);
        let (mut checks, mut summaries, mut green) = (Vec::new(), Vec::new(), true);
        let lints = asked.site.lints.clone().unwrap_or_default();
        let named = tests.iter().map(|one| ("test", CommandKind::Tests, one));
        let named = named.chain(lints.iter().map(|one| ("lint", CommandKind::Lint, one)));
        for (name, kind, command) in named {
            let env = self.environment.of_command(kind);
            let command_place = self.command_place(job, site.folder.clone(), (name, env), timeout);
            let ran =
                verify::run(&command_place, command, tree.as_str(), RepeatPolicy::default(), &job.cancel);
            let base = match kind {
                CommandKind::Tests => self.base(job, site, Command { text: command, timeout, kind })?,
                _ => Base::default(),
            };
            if let Some(failure) = self.blame(&base, &site.folder, ran.as_ref()) {
                return Err(failure);
            }
            let ran = ran.map_err(|why| no_answer(&why))?;
            findings.extend(base.ran.iter().flat_map(|base| against(base, &ran, &change).findings));
            let old = base.ran.as_ref().and_then(|base| judge_old_failures(base, &ran, &promise));
            if ran.outcome != VerifyOutcome::Passed {
                green &= old.as_ref().is_some_and(OldFailures::passes);
                let old = old.map(|old| format!("{old}\n")).unwrap_or_default();
                summaries.push(format!("`{command}`: {old}{}", ran.summary));
            }
            checks.push(check(name, &ran));
        }
        if !findings.is_empty() {
            summaries.push(render_findings(&findings));
        }
        let passed = green && !blocks(&findings);
        let summary = if summaries.is_empty() { String::from("all passed") } else { summaries.join("\n") };
        Ok(TestReport { passed, failed: !passed, summary, tree: Some(tree.digest()), checks })
    }

    /// Performs `work.merge`.
    pub(in crate::executors) fn merge_story(&self, job: &Job, asked: &WorkMerge) -> Result<Landing, JobEnd> {
        let story = self.story(job)?.ok_or_else(|| {
            let message = "no worktree was opened here for a story";
            Failure::new(FailureKind::Failed, message)
        })?;
        let tree = Some(asked.tree.as_str().parse().map_err(|error: GitError| Failure::from(error))?);
        let verify = match self.folder_if_open(job)? {
            Some(folder) => self.or_now(story.commands.tests, &folder),
            None => story.commands.tests,
        };
        // A story of a campaign gets to the person's branch with its campaign.
        let route = self.landing.filter(|_| job.action.instance == ROOT);
        // The first that lands begins where the forge is, alone or in a campaign.
        if self.landing == Some(LandingRoute::PullRequest) {
            self.catch_up(job)?;
        }
        let about = story.about.clone();
        let said = About::of_text(&story.about, self.author(job)?, job.run.as_str());
        let mut landed = self.land_as(job, Wish { tree, verify, about: said, noted: None })?;
        match route.filter(|_| landed.status == LandingStatus::Landed) {
            Some(LandingRoute::Branch(how)) => {
                let delivered = self.bring(job, how)?;
                landed.summary = format!("{}; {}", landed.summary, delivered.summary);
            }
            Some(LandingRoute::PullRequest) => landed = self.pull(job, &about, landed)?,
            None => {}
        }
        Ok(landed)
    }
}

/// What was said more than once, by its first line, the most frequent first.
fn repeated(said: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for summary in said {
        let first = summary.lines().next().unwrap_or_default().to_owned();
        *counts.entry(first).or_default() += 1;
    }
    let mut counts: Vec<(u64, String)> = counts.into_iter().map(|(said, count)| (count, said)).collect();
    counts.retain(|(count, _)| *count > 1);
    counts.sort_by(|left, right| right.cmp(left));
    counts.into_iter().take(MAX_REPEATS).map(|(count, said)| format!("{count} times: {said}")).collect()
}

/// The note of the command that shows whether a task is done, for the coder that is told the task as a story.
pub(super) fn verify_note(run: &RunId, story: &str, verify: &str) -> Noted {
    Noted { kind: VERIFIES, key: verify_key(run, story), body: serde_json::Value::from(verify).to_string() }
}

fn verify_key(run: &RunId, story: &str) -> String {
    format!("{run}.{}", ContentDigest::of(story.as_bytes()))
}

fn check(name: &str, ran: &VerifyMeasure) -> TestCheck {
    TestCheck {
        name: name.to_owned(),
        command: ran.command.clone(),
        outcome: ran.outcome,
        exit: Some(i64::from(ran.exit)),
        took: Some(Seconds(ran.took.as_secs_f64())),
    }
}

/// What a story is about, as a commit says it: its title, or its first line, and the whole of it below.
pub(super) fn about(story: &Value) -> String {
    let field = |name: &str| story.field(name).as_text().map(str::to_owned);
    let text = story.as_text().map(str::to_owned).or_else(|| field("title")).or_else(|| field("story"));
    let text = text.or_else(|| field("id")).unwrap_or_default();
    let subject: String = text.lines().next().unwrap_or_default().chars().take(MAX_SUBJECT_LETTERS).collect();
    if subject == text { text } else { format!("{subject}\n\n{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_said_again_and_again_the_most_frequent_is_told() {
        let said = ["once", "b\nmore", "a", "b\nother", "a", "b"].map(str::to_owned);
        assert_eq!(repeated(said.into_iter()), ["3 times: b", "2 times: a"]);
        let many = (0..=MAX_REPEATS).flat_map(|at| [at.to_string(), at.to_string()]);
        assert_eq!(repeated(many).len(), MAX_REPEATS);
    }

    #[test]
    fn a_commit_says_what_a_story_is_about() {
        let record = |name: &str, text: &str| Value::record([(name, Value::text(text))]);
        let long = "x".repeat(MAX_SUBJECT_LETTERS + 1);
        let table = [
            (Value::text("Do it"), "Do it".to_owned()),
            (Value::text("Do it\nso that"), "Do it\n\nDo it\nso that".to_owned()),
            (record("title", "Named"), "Named".to_owned()),
            (record("id", "S-1"), "S-1".to_owned()),
            (Value::None, String::new()),
            (Value::text(&long), format!("{}\n\n{long}", &long[1..])),
        ];
        for (story, wanted) in table {
            assert_eq!(about(&story), wanted, "{story}");
        }
    }
}
