//! Landing on the run's branch, and delivery to the person's.
//!
//! What would land is looked at once more, in a clean checkout: its scope, its integrity, and the command,
//! with the base's own tests and settings in their place. An answer is noted before the worktree goes, so
//! that the same landing asked for again after a crash is answered and not done twice.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

use ftl_core::catalogue::ActionDecl as _;
use ftl_core::catalogue::build::{
    BranchDeliver, Delivered, Delivery, Landing, LandingStatus, Side, VerifyOutcome, WorkLand,
};
use ftl_core::run::{Action, ActionId, ActionTarget, Failure, FailureKind, ROOT, Usage};
use ftl_core::value::{Fields, Name};
use serde::{Deserialize, Serialize};

use super::base::Base;
use super::brief::Noted;
use super::checkout::{CheckoutOf, Ready};
use super::gates::Command;
use super::message::{About, Author, cut_subject};
use super::{LandingRoute, Met, Site, Sites};
use crate::executors::typed::Done;
use crate::executors::{Job, JobEnd};
use ftl_folder as folder;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_gates::verify::old_failures::{Promise, judge_old_failures};
use ftl_gates::verify::{self, CouldNotRun, RepeatPolicy, VerifyMeasure};
use ftl_gates::{Restore, blocks, render_findings, restore};
use ftl_git::change::{Change, Content, EntryKind};
use ftl_git::{
    self as git, Branch, Checked, Delivering, IdempotencyKey, LANDED, Landed, MergedTree, Oid, Repo,
};
use ftl_process::Cancel;
use ftl_settings::environment::CommandKind;
use ftl_store::machine;
use ftl_store::notebook::Notebook as _;

/// The kind of the notes that say what has landed.
const LANDINGS: &str = "landing";

/// A landing, as it is noted.
#[derive(Debug, Serialize, Deserialize)]
struct LandedNote {
    answer: Landing,
    /// The commands that it was verified with.
    verify: Vec<String>,
    /// What it was for, as a commit says it.
    about: String,
    /// What the whole run is to reach; nothing in notes of earlier versions, and for a story.
    #[serde(default)]
    objective: Option<String>,
    /// The task as `<seq>-<slug>`; none for a story.
    #[serde(default)]
    task: Option<String>,
    /// The agent that did the work.
    #[serde(default)]
    author: Option<Author>,
}

/// What has landed in a run.
#[derive(Debug, Default)]
pub(super) struct LandedWork {
    /// The commands that it was verified with.
    pub(super) commands: Vec<String>,
    /// The purpose of each landing, with its task.
    about: Vec<String>,
    objective: Option<String>,
    tasks: Vec<String>,
    authors: Vec<Author>,
}

impl LandedWork {
    /// What a commit is about that holds all of it: the objective, and the tasks one by one.
    pub(super) fn about(&self, run: &RunId) -> About {
        let run = run.to_string();
        let Some(objective) = &self.objective else {
            return About::of_text(&message_of(&self.about), None, &run);
        };
        let subject = cut_subject(objective);
        let whole = (subject != objective.trim()).then(|| objective.trim().to_owned());
        let tasks = self.about.iter().map(|one| format!("- {one}")).collect::<Vec<_>>().join("\n");
        let body = whole.into_iter().chain([tasks]).collect::<Vec<_>>().join("\n\n");
        let (tasks, authors) = (self.tasks.clone(), self.authors.clone());
        About { subject, body, objective: objective.clone(), tasks, run, authors }
    }
}

/// A landing that an action asks for.
pub(super) struct Wish {
    /// The tree that was verified; with none, the worktree lands as it is.
    pub(super) tree: Option<Oid>,
    /// The commands that must succeed on the merged tree.
    pub(super) verify: Vec<String>,
    /// The parts of the commit's message.
    pub(super) about: About,
    /// The brief, where there is one.
    pub(super) noted: Option<Noted>,
}

impl Wish {
    /// A story without a brief is tested; a task is verified.
    pub(super) fn kind(&self) -> CommandKind {
        if self.noted.is_some() { CommandKind::Verify } else { CommandKind::Tests }
    }

    /// Why a run does not let the work land: tests that failed before it, and that it did not promise to mend, do not
    /// count.
    fn accepts(&self, base: &Base, ran: &VerifyMeasure, change: &Change) -> Result<(), String> {
        if ran.outcome == VerifyOutcome::Passed {
            return Ok(());
        }
        let promise = self.noted.as_ref().map(Noted::promise);
        let promise = promise.unwrap_or_else(|| Promise::of_story(&self.about.subject, change));
        match base.ran.as_ref().and_then(|base| judge_old_failures(base, ran, &promise)) {
            Some(old) if old.passes() => Ok(()),
            Some(old) => Err(format!("{old}\n{}", ran.summary)),
            None => Err(ran.summary.clone()),
        }
    }
}

/// What would land, as it is judged.
pub(super) struct Judged<'a> {
    pub(super) wish: &'a Wish,
    pub(super) change: &'a Change,
    /// What the base's tests and settings took the place of.
    pub(super) needed: &'a Restore,
    /// How the commands went on what the work started from.
    pub(super) bases: Vec<Base>,
}

impl Sites {
    /// Performs `work.land`.
    pub(in crate::executors) fn land_work(&self, job: &Job, asked: &WorkLand) -> Done<WorkLand> {
        let (noted, author, run) = (self.noted(job)?, self.author(job)?, job.run.as_str());
        let about = match &noted {
            Some(noted) => About::of_brief(noted, author, run),
            None => About::of_text("Work of ftl", author, run),
        };
        let tree = asked.tree.as_ref().map(|tree| tree.as_str().parse()).transpose()?;
        self.land_as(job, Wish { tree, verify: vec![asked.verify.clone()], about, noted })
    }

    /// Lands what is in the worktree of a job's instance, once, and closes the worktree.
    pub(super) fn land_as(&self, job: &Job, wish: Wish) -> Result<Landing, Failure> {
        if let Some(note) = self.note(LANDINGS, &job.key())? {
            let LandedNote { answer, .. } = read(&note)?;
            let _ = self.close(job, LANDED);
            return Ok(answer);
        }
        let site = self.site(job)?;
        let key: IdempotencyKey = job.key().parse()?;
        let message = self.style.message(&wish.about, site.repo.author());
        let landing = git::Landing {
            worktree: &site.tree.id,
            key: &key,
            tree: wish.tree.as_ref(),
            message: &message,
            when: clock::wall() / 1000,
        };
        let mut met = Met::default();
        let mut told = Vec::new();
        let mut judge = |merged: &MergedTree| met.note(self.judge(job, &site, merged, (&wish, &mut told)));
        let landed = site.repo.land(&landing, &job.cancel, &mut judge);
        let landed = met.over(landed)?;
        let mut answer = site.answer(&wish, landed, site.repo.branch(&job.run)?);
        if answer.status == LandingStatus::Landed {
            told.dedup();
            answer.summary = [vec![answer.summary], told].concat().join("\n");
        }
        if answer.status == LandingStatus::Landed {
            let About { subject: about, tasks, authors, .. } = wish.about;
            let (task, author) = (tasks.into_iter().next(), authors.into_iter().next());
            let objective = wish.noted.and_then(|noted| noted.spec.objective);
            let verify = wish.verify;
            let note = LandedNote { answer: answer.clone(), verify, about, objective, task, author };
            self.put_note(LANDINGS, &job.key(), &note)?;
            // It has landed, whatever becomes of the worktree; one that is left is swept when the run rests.
            let _ = self.close(job, LANDED);
        }
        Ok(answer)
    }

    /// Looks at what would land, in a clean checkout of it where its commands have not passed in one already; then at the
    /// base's own tests on it, where something differs that judges.
    fn judge(
        &self,
        job: &Job,
        site: &Site,
        merged: &MergedTree,
        (wish, told): (&Wish, &mut Vec<String>),
    ) -> Result<Checked, CouldNotRun> {
        let change = site.difference(&merged.onto, &merged.tree).map_err(|error| unlooked(error.into()))?;
        let findings = self.look(&change, wish.noted.as_ref());
        if blocks(&findings) {
            return Ok(Checked::Failed(render_findings(&findings)));
        }
        let needed =
            wish.noted.as_ref().map(|noted| restore(&change, &noted.brief(), &[])).unwrap_or_default();
        let judged = Judged { wish, change: &change, needed: &needed, bases: self.bases(job, site, wish)? };
        let works = match self.passes_merged(job, site, merged, &judged)? {
            Ok(works) => works,
            Err(why) => return Ok(Checked::Failed(why)),
        };
        let mut replayed = self.replay(job, site, merged, (&judged, &works))?;
        replayed.findings.extend(self.look_red_first(job, site, merged, (&judged, &works))?);
        self.allow(&mut replayed.findings, wish.noted.as_ref());
        told.clear();
        told.extend(replayed.lines());
        if blocks(&replayed.findings) {
            return Ok(Checked::Failed(render_findings(&replayed.findings)));
        }
        if self.environment.has_own_home() {
            told.push(String::from("verified with your own home (environment.home)"));
        }
        let held_out = self.run_held_out(job, site, merged, &judged)?;
        Ok(held_out.map_or(Checked::Passed, Checked::Failed))
    }

    /// How the commands went on what the work started from.
    fn bases(&self, job: &Job, site: &Site, wish: &Wish) -> Result<Vec<Base>, CouldNotRun> {
        let kind = wish.kind();
        let of = |text: &String| self.base(job, site, Command { text, timeout: None, kind });
        wish.verify.iter().map(of).collect::<Result<_, _>>().map_err(unlooked)
    }

    /// What the commands showed on the merged tree, with tests and settings of the base put back that the work may not
    /// change; or why it does not pass.
    fn passes_merged(
        &self,
        job: &Job,
        site: &Site,
        merged: &MergedTree,
        judged: &Judged<'_>,
    ) -> Result<Result<Vec<VerifyMeasure>, String>, CouldNotRun> {
        let Judged { wish, change, needed, .. } = judged;
        let kind = wish.kind();
        let is_whole = **needed == Restore::default();
        if is_whole && let Some(known) = self.have_passed(judged, &merged.tree).map_err(unlooked)? {
            return Ok(Ok(known));
        }
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| {
            let folder = ready?.folder;
            put_back(folder, change, needed).map_err(|error| unlooked(machine::failure("", &error)))?;
            let mut works = Vec::new();
            for (command, base) in wish.verify.iter().zip(&judged.bases) {
                let env = self.environment.of_command(kind);
                let ran = self.passes(job, folder, (command, env), &merged.tree)?;
                if let Err(why) = wish.accepts(base, &ran, change) {
                    return Ok(Err(format!("merged, it does not pass: {why}")));
                }
                if is_whole {
                    self.is_known(&merged.tree, &ran, kind).map_err(unlooked)?;
                }
                works.push(ran);
            }
            Ok(Ok(works))
        };
        let looked = self.in_checkout(job, CheckoutOf::commit(&site.repo, &merged.commit), &mut run);
        looked.map_err(|error| unlooked(error.into()))?
    }

    /// What all commands showed in a clean checkout of exactly this tree, in this environment, where that is known and
    /// none of them says no: then they need not be run on it again.
    fn have_passed(&self, judged: &Judged<'_>, tree: &Oid) -> Result<Option<Vec<VerifyMeasure>>, Failure> {
        let env = self.environment.of_command(judged.wish.kind());
        let mut known = Vec::new();
        for (command, base) in judged.wish.verify.iter().zip(&judged.bases) {
            match self.known(tree, command, &env)? {
                Some(ran) if judged.wish.accepts(base, &ran, judged.change).is_ok() => known.push(ran),
                Some(_) | None => return Ok(None),
            }
        }
        Ok(Some(known).filter(|known| !known.is_empty()))
    }

    pub(super) fn passes(
        &self,
        job: &Job,
        folder: &Path,
        (command, env): (&str, Vec<(OsString, OsString)>),
        tree: &Oid,
    ) -> Result<VerifyMeasure, CouldNotRun> {
        let command_place = self.command_place(job, folder.to_owned(), ("landing", env), None);
        verify::run(&command_place, command, tree.as_str(), RepeatPolicy::default(), &job.cancel)
    }

    /// Performs `branch.deliver`.
    pub(in crate::executors) fn deliver_branch(
        &self,
        job: &Job,
        asked: &BranchDeliver,
    ) -> Result<Delivered, JobEnd> {
        match self.landing {
            Some(LandingRoute::PullRequest) => self.deliver_pull(job),
            Some(LandingRoute::Branch(_)) | None => Ok(self.bring(job, asked.how)?),
        }
    }

    /// Brings what has landed in a run to the person's branch.
    pub(super) fn bring(&self, job: &Job, how: Delivery) -> Result<Delivered, Failure> {
        let repo = self.repo()?;
        repo.begin(&job.run)?;
        let work = self.landed(&job.run)?;
        let message = self.style.message(&work.about(&job.run), repo.author());
        let when = clock::wall() / 1000;
        let delivering = Delivering { run: &job.run, how, message: &message, when };
        let mut met = Met::default();
        let mut again = |merged: &MergedTree| met.note(self.passes_all(job, &repo, merged, &work.commands));
        let delivered = repo.deliver(&delivering, &job.cancel, &mut again);
        met.over(delivered)
    }

    /// The same for a person who says so once the run has ended.
    pub fn deliver_for_person(
        &self,
        run: &RunId,
        how: Delivery,
        cancel: &Cancel,
    ) -> Result<Delivered, Failure> {
        let id = ActionId { entry: 0, index: 0 };
        let wanted = ActionTarget::Action(Name::from(BranchDeliver::NAME));
        let action = Action { instance: ROOT, id, wanted, params: Fields::new(), forbidden: None };
        let (events, _) = std::sync::mpsc::channel();
        self.bring(&Job::new(run.clone(), action, Usage::new(), cancel.clone(), events), how)
    }

    /// What has landed in a run, with the commands that it was verified with.
    pub(super) fn landed(&self, run: &RunId) -> Result<LandedWork, Failure> {
        let (mut work, mut landed) = (LandedWork::default(), Vec::new());
        let ours = format!("{run}.");
        for (key, note) in self.records.store().notes(LANDINGS)? {
            if !key.starts_with(&ours) {
                continue;
            }
            landed.push(read(&note)?);
        }
        landed.sort_by(|one, other| one.task.cmp(&other.task));
        for note in landed {
            work.about.push(match &note.task {
                Some(task) => format!("{} ({task})", note.about),
                None => note.about,
            });
            work.objective = work.objective.or(note.objective);
            work.tasks.extend(note.task);
            work.authors.extend(note.author);
            for command in note.verify {
                if !work.commands.contains(&command) {
                    work.commands.push(command);
                }
            }
        }
        Ok(work)
    }

    /// Whether a command that fails on what would be delivered fails by name in nothing that does not fail on the
    /// person's branch, too.
    fn fails_before(
        &self,
        job: &Job,
        repo: &Repo,
        merged: &MergedTree,
        ran: &VerifyMeasure,
    ) -> Result<bool, CouldNotRun> {
        if ran.report.is_none() {
            return Ok(false);
        }
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<bool, CouldNotRun> {
            let env = self.environment.of_delivery();
            let base = self.passes(job, ready?.folder, (&ran.command, env), &merged.onto)?;
            let old = judge_old_failures(&base, ran, &Promise::default());
            Ok(old.is_some_and(|old| old.passes()))
        };
        let looked = self.in_checkout(job, CheckoutOf::commit(repo, &merged.onto), &mut run);
        looked.map_err(|error| unlooked(error.into()))?
    }

    fn passes_all(
        &self,
        job: &Job,
        repo: &Repo,
        merged: &MergedTree,
        commands: &[String],
    ) -> Result<Checked, CouldNotRun> {
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<Checked, CouldNotRun> {
            let folder = ready?.folder;
            for command in commands {
                let env = self.environment.of_delivery();
                let ran = self.passes(job, folder, (command, env), &merged.tree)?;
                if ran.outcome != VerifyOutcome::Passed && !self.fails_before(job, repo, merged, &ran)? {
                    return Ok(Checked::Failed(format!("`{command}`: {}", ran.summary)));
                }
            }
            Ok(Checked::Passed)
        };
        let looked = self.in_checkout(job, CheckoutOf::commit(repo, &merged.commit), &mut run);
        looked.map_err(|error| unlooked(error.into()))?
    }
}

/// Why the merged tree could not be verified.
pub(super) fn unlooked(failure: Failure) -> CouldNotRun {
    if failure.kind == FailureKind::Machine {
        CouldNotRun::Machine(failure.message)
    } else {
        CouldNotRun::NotStarted(failure.message)
    }
}

/// What is said of all that has landed, as a commit says it.
fn message_of(about: &[String]) -> String {
    match about {
        [one] => one.clone(),
        all => format!("Work of {} tasks\n\n{}", all.len(), all.join("\n")),
    }
}

fn read(note: &str) -> Result<LandedNote, Failure> {
    serde_json::from_str(note).map_err(|error| {
        let message = format!("what was noted of a landing cannot be read: {error}");
        Failure::new(FailureKind::CouldNotRun, message)
    })
}

impl Site {
    /// What a landing came to, in the words of protocols.
    fn answer(&self, wish: &Wish, landed: Landed, branch: Branch) -> Landing {
        let Branch { name, target, .. } = branch;
        let mut answer = Landing {
            status: LandingStatus::Failed,
            summary: String::new(),
            commit: None,
            target: target.unwrap_or_else(|| name.clone()),
            tree: None,
            sides: Vec::new(),
            files: Vec::new(),
            url: None,
            checks: None,
        };
        match landed {
            Landed::Done { commit, tree, files } => {
                let about = &wish.about.subject;
                let counted = if files == 1 { String::from("1 file") } else { format!("{files} files") };
                answer.summary = format!("{about}: {counted} changed, {} on {name}", commit.short());
                answer.status = LandingStatus::Landed;
                answer.commit = Some(commit.as_str().to_owned());
                answer.tree = Some(tree.digest());
            }
            Landed::Conflict { files, sides, .. } => {
                answer.status = LandingStatus::Conflict;
                answer.files = files.iter().map(|path| self.display_path(path)).collect();
                let shown = |side: Side| Side { path: self.display_path(&side.path), ..side };
                answer.sides = sides.into_iter().map(shown).collect();
                answer.summary = format!("others changed the same in {}", answer.files.join(", "));
            }
            Landed::Failed { summary } => answer.summary = summary,
        }
        answer
    }
}

/// Puts files of a checkout back as the base has them, and takes away what would steer its runners. A path
/// that a link leads elsewhere is refused.
pub(super) fn put_back(folder: &Path, change: &Change, needed: &Restore) -> io::Result<()> {
    for path in &needed.take_away {
        clear(folder, path)?;
    }
    for path in &needed.put_back {
        clear(folder, path)?;
        let before =
            change.files.iter().find(|file| file.path == *path).and_then(|file| file.before.as_ref());
        if let Some(before) = before {
            lay(&folder.join(path), before)?;
        }
    }
    Ok(())
}

/// Removes what is at a path, if anything does, and makes the folders above it.
fn clear(top: &Path, path: &str) -> io::Result<()> {
    let refused = |what: &str| io::Error::other(format!("`{path}` cannot be put back: {what}"));
    if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(refused("it leads out of the repository"));
    }
    let file = top.join(path);
    let above: Vec<&Path> = file.ancestors().skip(1).take_while(|one| *one != top).collect();
    for one in above.into_iter().rev() {
        match folder::metadata(one) {
            Ok(found) if found.is_dir() => {}
            // What the base has as a folder the work made a file or a link.
            Ok(_) => {
                folder::remove(one)?;
                folder::make_new(one)?;
            }
            Err(_) => folder::make_new(one)?,
        }
    }
    folder::remove_whole(&file).map(drop)
}

fn lay(file: &Path, content: &Content) -> io::Result<()> {
    let Some(bytes) = &content.bytes else {
        return Err(io::Error::other(format!("`{}` is too large to be put back", file.display())));
    };
    match content.kind {
        EntryKind::File => folder::write(file, bytes),
        EntryKind::Executable => {
            folder::write(file, bytes)?;
            folder::open(file, folder::OpenMode::Read)?.set_permissions(fs::Permissions::from_mode(0o755))
        }
        EntryKind::Link => {
            use std::os::unix::ffi::OsStrExt as _;
            folder::NameIn::at(file)?.make_link(Path::new(std::ffi::OsStr::from_bytes(bytes)))
        }
        EntryKind::Submodule => folder::make_new(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_git::change::FileChange;

    #[test]
    fn the_base_s_files_come_back_and_no_link_is_followed() {
        let (folder, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = folder.path();
        fs::write(root.join("test_a.py"), "weak").unwrap();
        fs::write(root.join("conftest.py"), "new").unwrap();
        std::os::unix::fs::symlink(away.path(), root.join("tests")).unwrap();
        std::os::unix::fs::symlink(away.path().join("x"), root.join("run.sh")).unwrap();
        let was = |path: &str, kind: EntryKind, text: &str| {
            let before = Some(Content { kind, bytes: Some(text.as_bytes().to_vec()) });
            FileChange { path: path.to_owned(), before, after: None }
        };
        let change = Change {
            files: vec![
                was("run.sh", EntryKind::Executable, "true"),
                was("test_a.py", EntryKind::File, "strong"),
                was("tests/test_b.py", EntryKind::File, "also"),
                was("tests/link", EntryKind::Link, "test_b.py"),
            ],
        };
        let put_back_all = change.files.iter().map(|file| file.path.clone()).collect();
        let needed = Restore { put_back: put_back_all, take_away: vec!["conftest.py".to_owned()] };
        put_back(root, &change, &needed).unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!((read("test_a.py").as_str(), read("tests/test_b.py").as_str()), ("strong", "also"));
        assert_eq!(read("tests/link"), "also");
        assert_eq!(fs::metadata(root.join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
        assert!(!root.join("conftest.py").exists());
        assert_eq!(fs::read_dir(away.path()).unwrap().count(), 0, "nothing was written through a link");
        let outside = Restore { put_back: vec!["../x".to_owned()], take_away: vec![] };
        assert!(put_back(root, &change, &outside).is_err());
    }
}
