//! How commands go on the commit that work starts from, and whether they can be run at all.
//!
//! A command is run on a base once for each tree, command and environment; what it showed is noted for all tasks and for
//! later runs, and gates take it from there. It begins beside the first conversation that it will judge, after a look of
//! seconds. Where it shows that the surroundings are broken, the conversations that it would judge are ended, no other
//! one begins, and their steps are held. That is never noted: when a step is asked again, so is the command. A red base
//! that ran stops no task. What is still running when the run rests is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ftl_core::catalogue::build::VerifyOutcome;
use ftl_core::machine::MachineCause;
use ftl_core::run::{Action, ActionId, ActionTarget, Failure, FailureKind, ROOT, Usage};
use ftl_core::value::{Fields, Name};

use super::checkout::{CheckoutOf, Ready};
use super::gates::{Command, no_answer};
use super::{Site, Sites, lock};
use crate::executors::agents::nothing_used;
use crate::executors::table::Resources;
use crate::executors::{Executor, Job, JobEnd, Report};
use ftl_code::commands::look::{self, ProbeFolder, ProbeOutput, ProbeReport};
use ftl_folder::id::RunId;
use ftl_gates::verify::{self, CouldNotRun, RepeatPolicy, VerifyMeasure, bound_to};
use ftl_git::{Oid, Repo};
use ftl_lifecycle::registry;
use ftl_process::Cancel;
use ftl_settings::environment::CommandKind;
use ftl_store::Store as _;

/// The kind of the notes that say how commands went on trees that others build upon.
const BASES: &str = "base-verify";

/// The kind of the notes that say that commands can be run on a tree.
const LOOKED: &str = "base-look";

/// How often a job that waits for a base looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(50);

/// How much of an output is read to tell why a command could not be run.
const MAX_READ_BYTES: usize = 256 * 1024;

/// How a command went on a base.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    /// What it showed; nothing where it could not be run there.
    pub(super) ran: Option<VerifyMeasure>,
    /// Why the surroundings are to blame, where they are.
    broken: Option<String>,
}

/// What came of running a command on a base.
#[derive(Clone, Debug)]
enum Came {
    /// It ran, or it is not known why it could not.
    Ran(Option<Box<VerifyMeasure>>),
    /// The surroundings are broken.
    Broken(String),
    /// The base could not be looked at.
    Failed(Failure),
}

/// One command on one base, under way or over.
#[derive(Default)]
struct Check {
    state: Mutex<State>,
    changed: Condvar,
    cancel: Cancel,
}

#[derive(Default)]
struct State {
    came: Option<Came>,
    /// The conversations that it will judge.
    conversations: BTreeMap<String, Cancel>,
    /// The jobs that were told that it is broken.
    refused: BTreeSet<String>,
}

impl Check {
    /// Says what came of it, and ends what need not go on.
    fn end(&self, came: Came) {
        let mut state = lock(&self.state);
        if let Came::Broken(_) = &came {
            state.conversations.values().for_each(Cancel::cancel);
        }
        state.came = Some(came);
        self.changed.notify_all();
    }

    /// Waits for what comes of it, until the job is cancelled.
    fn wait(&self, cancel: &Cancel) -> Came {
        let mut state = lock(&self.state);
        loop {
            if let Some(came) = &state.came {
                return came.clone();
            }
            if cancel.is_cancelled() {
                return Came::Failed(no_answer(&CouldNotRun::Cancelled));
            }
            let waited = self.changed.wait_timeout(state, GLANCE);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Has a conversation ended with it; why none may begin where it has shown that already.
    fn join(&self, job: &Job) -> Result<(), String> {
        let mut state = lock(&self.state);
        if let Some(Came::Broken(why)) = state.came.clone() {
            state.refused.insert(job.key());
            return Err(why);
        }
        state.conversations.insert(job.key(), job.cancel.clone());
        Ok(())
    }

    /// A conversation is over; why it was ended, if it was.
    fn leave(&self, job: &Job) -> Option<String> {
        let mut state = lock(&self.state);
        state.conversations.remove(&job.key());
        let Some(Came::Broken(why)) = state.came.clone() else { return None };
        state.refused.insert(job.key());
        Some(why)
    }

    /// Whether it need not be asked again for a job. One that was refused before comes again after a person has
    /// mended what was broken.
    fn holds_for(&self, job: &Job) -> bool {
        let state = lock(&self.state);
        match &state.came {
            None | Some(Came::Ran(_)) => true,
            Some(Came::Broken(_)) => !state.refused.contains(&job.key()),
            Some(Came::Failed(_)) => false,
        }
    }
}

/// The caller that has a check under way must end it, whatever happens.
struct Running(Arc<Check>);

impl Drop for Running {
    fn drop(&mut self) {
        if lock(&self.0.state).came.is_none() {
            let message = "the command was not run to its end on the base";
            self.0.end(Came::Failed(Failure::new(FailureKind::CouldNotRun, message)));
        }
    }
}

/// The checks of this process.
#[derive(Default)]
pub(super) struct Checks {
    all: Mutex<BTreeMap<String, Arc<Check>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Checks {
    /// The check of a key for a job; whether it is the caller's to run.
    fn claim(&self, key: &str, job: &Job) -> (Arc<Check>, bool) {
        let mut all = lock(&self.all);
        if let Some(check) = all.get(key).filter(|check| check.holds_for(job)) {
            return (check.clone(), false);
        }
        let check = Arc::new(Check::default());
        all.insert(key.to_owned(), check.clone());
        (check, true)
    }
}

/// A command that is to be run on a base.
struct Question {
    repo: Repo,
    base: Oid,
    tree: Oid,
    command: String,
    timeout: Option<ftl_core::catalogue::scalars::Seconds>,
    env: Vec<(OsString, OsString)>,
    /// The files that the work is to make.
    made: Vec<String>,
    key: String,
}

/// Why a conversation does not begin.
enum Refusal {
    /// The surroundings are broken.
    Broken(String),
    /// The look itself failed; the step that works there finds out what is wrong.
    Unknown,
}

impl From<Failure> for Refusal {
    fn from(_: Failure) -> Refusal {
        Refusal::Unknown
    }
}

impl Sites {
    fn question(&self, job: &Job, site: &Site, command: Command<'_>) -> Result<Question, Failure> {
        let tree = site.repo.tree_of(&site.tree.base)?;
        let env = self.environment.of_command(command.kind);
        let key = self.checkout_key(&tree, command.text, &env);
        let made = self.noted(job)?.map(|noted| noted.spec.delta).unwrap_or_default();
        let (repo, base, text) = (site.repo.clone(), site.tree.base.clone(), command.text.to_owned());
        Ok(Question { repo, base, tree, command: text, timeout: command.timeout, env, made, key })
    }

    /// How a command goes on what the work started from: as it is noted, as the thread that is just running it says,
    /// or by running it.
    pub(super) fn base(&self, job: &Job, site: &Site, command: Command<'_>) -> Result<Base, Failure> {
        let question = self.question(job, site, command)?;
        if let Some(note) = self.note(BASES, &question.key)? {
            return Ok(Base { ran: serde_json::from_str(&note).unwrap_or_default(), broken: None });
        }
        let (check, is_ours) = self.base_checks.claim(&question.key, job);
        let came = if is_ours { self.run_check(job, &question, &check) } else { check.wait(&job.cancel) };
        match came {
            Came::Ran(ran) => Ok(Base { ran: ran.map(|ran| *ran), broken: None }),
            Came::Broken(why) => Ok(Base { ran: None, broken: Some(why) }),
            Came::Failed(failure) => Err(failure),
        }
    }

    /// The failure of a step whose command the surroundings keep from running, as they do on the base; nothing where the
    /// work is to blame.
    pub(super) fn blame(
        &self,
        base: &Base,
        folder: &Path,
        ran: Result<&VerifyMeasure, &CouldNotRun>,
    ) -> Option<Failure> {
        let why = base.broken.as_ref()?;
        let is_same = match ran {
            Ok(ran) => self.fault_of(ran, ProbeFolder { folder, made: &[], env: &[] }).is_some(),
            Err(CouldNotRun::NotFound(_)) => true,
            Err(
                CouldNotRun::NotStarted(_)
                | CouldNotRun::Timeout(_)
                | CouldNotRun::OutOfMemory(_)
                | CouldNotRun::Signal(_)
                | CouldNotRun::Cancelled
                | CouldNotRun::Machine(_),
            ) => false,
        };
        is_same.then(|| trouble(why))
    }

    /// Runs a command on a base, and notes what it showed.
    fn run_check(&self, job: &Job, question: &Question, check: &Arc<Check>) -> Came {
        let running = Running(check.clone());
        // Another process may have run it meanwhile.
        let came = match self.note(BASES, &question.key) {
            Ok(Some(note)) => Came::Ran(serde_json::from_str(&note).unwrap_or_default()),
            Ok(None) => self.run_on_base(job, question),
            Err(failure) => Came::Failed(failure),
        };
        let came = match came {
            Came::Ran(ran) => match self.put_note(BASES, &question.key, &ran) {
                Ok(()) => Came::Ran(ran),
                Err(failure) => Came::Failed(failure),
            },
            came @ (Came::Broken(_) | Came::Failed(_)) => came,
        };
        check.end(came.clone());
        drop(running);
        came
    }

    fn run_on_base(&self, job: &Job, question: &Question) -> Came {
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Came {
            let folder = match ready {
                Ok(ready) => ready.folder.to_owned(),
                Err(CouldNotRun::NotStarted(why)) => return Came::Broken(first_line(&why)),
                Err(why) => return Came::Failed(no_answer(&why)),
            };
            let command_place =
                self.command_place(job, folder.clone(), ("base", question.env.clone()), question.timeout);
            let tree = question.tree.as_str();
            let ran =
                verify::run(&command_place, &question.command, tree, RepeatPolicy::default(), &job.cancel);
            let at = ProbeFolder { folder: &folder, made: &question.made, env: &question.env };
            self.came_of(&question.command, ran, at)
        };
        match self.in_checkout(job, CheckoutOf::commit(&question.repo, &question.base), &mut run) {
            Ok(came) => came,
            Err(error) => Came::Failed(error.into()),
        }
    }

    /// What a run on a base shows about the surroundings.
    fn came_of(&self, command: &str, ran: Result<VerifyMeasure, CouldNotRun>, at: ProbeFolder<'_>) -> Came {
        match ran {
            Ok(ran) => match self.fault_of(&ran, at) {
                Some(why) => Came::Broken(format!("`{command}`: {why}")),
                None => Came::Ran(Some(Box::new(ran))),
            },
            Err(why @ (CouldNotRun::Cancelled | CouldNotRun::Machine(_))) => Came::Failed(no_answer(&why)),
            // A script that is not there yet is what the work may be about.
            Err(CouldNotRun::NotFound(_)) if look::names_missing_file(command, at.folder) => Came::Ran(None),
            Err(CouldNotRun::NotFound(said)) => match look::not_found(&said) {
                Some(why) => Came::Broken(format!("`{command}`: {why}")),
                None => Came::Ran(None),
            },
            Err(
                CouldNotRun::NotStarted(_)
                | CouldNotRun::Timeout(_)
                | CouldNotRun::OutOfMemory(_)
                | CouldNotRun::Signal(_),
            ) => Came::Ran(None),
        }
    }

    /// What the surroundings lack, by a run in which no test could pass: one that passed has run.
    fn fault_of(&self, ran: &VerifyMeasure, at: ProbeFolder<'_>) -> Option<String> {
        let passed = ran.census.as_ref().and_then(|census| census.run?.checked_sub(census.failed));
        if ran.outcome == VerifyOutcome::Passed || passed.is_some_and(|passed| passed > 0) {
            return None;
        }
        let digest = ran.output.as_ref().and_then(|digest| digest.parse().ok());
        let printed = digest.and_then(|digest| self.records.store().get(&digest).ok().flatten());
        let printed = printed.unwrap_or_else(|| ran.summary.clone().into_bytes());
        let end = printed.len().saturating_sub(MAX_READ_BYTES);
        let (head, tail) = (&printed[..printed.len().min(MAX_READ_BYTES)], &printed[end..]);
        // Where a runner told of its tests, what they printed about networks is a matter of the code.
        let told = if ran.census.is_some() { look::missing_dependency } else { look::fault };
        let fault = |bytes: &[u8]| told(ran.exit, &String::from_utf8_lossy(bytes), at);
        fault(head).or_else(|| fault(tail))
    }

    /// What a command showed in a clean checkout of a tree, where that is noted.
    pub(super) fn known(
        &self,
        tree: &Oid,
        command: &str,
        env: &[(OsString, OsString)],
    ) -> Result<Option<VerifyMeasure>, Failure> {
        let note = self.note(BASES, &self.checkout_key(tree, command, env))?;
        Ok(note.and_then(|note| serde_json::from_str(&note).unwrap_or_default()))
    }

    /// Notes how a command went in a clean checkout of a tree: others may build upon that tree, or land it.
    pub(super) fn is_known(&self, tree: &Oid, ran: &VerifyMeasure, kind: CommandKind) -> Result<(), Failure> {
        let env = self.environment.of_command(kind);
        self.put_note(BASES, &self.checkout_key(tree, &ran.command, &env), &Some(ran))
    }

    /// What an answer of a clean checkout is bound to: the tree, the command, its environment, and what was done in the
    /// checkout before.
    fn checkout_key(&self, tree: &Oid, command: &str, env: &[(OsString, OsString)]) -> String {
        if self.setup.is_empty() {
            return bound_to(tree.as_str(), command, env);
        }
        self.look_key(tree, command, env)
    }

    /// The commands by which the work of a job is judged.
    fn judges(&self, job: &Job) -> Result<Vec<(String, CommandKind)>, Failure> {
        if let Some(noted) = self.noted(job)? {
            let verify = Some(noted.spec.verify).filter(|verify| !verify.trim().is_empty());
            return Ok(verify.map(|verify| (verify, CommandKind::Verify)).into_iter().collect());
        }
        let is_task = registry::task_of(&**self.records.store(), &job.run)?.is_some();
        let tests = match self.story_tests(job)? {
            Some(tests) => tests,
            None if is_task => self.commands.or_found(self.place().root()).tests,
            None => Vec::new(),
        };
        Ok(tests.into_iter().map(|test| (test, CommandKind::Tests)).collect())
    }

    /// Looks whether the work of a job could be judged, and begins to run what judges it on its base.
    fn begin_checks(self: &Arc<Sites>, job: &Job) -> Result<Vec<Arc<Check>>, Refusal> {
        let mut begun = Vec::new();
        let judges = self.judges(job)?;
        if judges.is_empty() {
            return Ok(begun);
        }
        let site = self.site(job)?;
        for (text, kind) in &judges {
            let question = self.question(job, &site, Command { text, timeout: None, kind: *kind })?;
            if self.note(BASES, &question.key)?.is_some() {
                continue;
            }
            self.look_before(job, &site, &question)?;
            let (check, is_ours) = self.base_checks.claim(&question.key, job);
            if is_ours {
                self.start_check(job, question, &check);
            }
            begun.push(check);
        }
        for check in &begun {
            if let Err(why) = check.join(job) {
                begun.iter().for_each(|check| drop(check.leave(job)));
                return Err(Refusal::Broken(why));
            }
        }
        Ok(begun)
    }

    /// The look of seconds, in the worktree of a job as long as nothing was changed there.
    fn look_before(&self, job: &Job, site: &Site, question: &Question) -> Result<(), Refusal> {
        let at = ProbeFolder { folder: &site.folder, made: &question.made, env: &question.env };
        if let Some(why) = look::missing_program(&question.command, at) {
            return Err(Refusal::Broken(why));
        }
        let key = self.look_key(&question.tree, &question.command, &question.env);
        let is_asked = look::is_known(&question.command, &site.folder) && self.note(LOOKED, &key)?.is_none();
        if !is_asked || site.standing()? != question.tree {
            return Ok(());
        }
        let command_place =
            self.command_place(job, site.folder.clone(), ("look", question.env.clone()), None);
        let command_place = command_place.within(look::MAX_LOOK);
        let mut run = |command: &str| {
            command_place.shell(command, &job.cancel).ok().and_then(|ended| ProbeOutput::of(&ended))
        };
        match look::look(std::slice::from_ref(&question.command), at, &mut run) {
            ProbeReport::Broken(why) => Err(Refusal::Broken(why)),
            ProbeReport::Fine | ProbeReport::NoTests(_) => Ok(self.put_note(LOOKED, &key, &true)?),
        }
    }

    fn look_key(&self, tree: &Oid, command: &str, env: &[(OsString, OsString)]) -> String {
        bound_to(tree.as_str(), &format!("{}\n{command}", self.setup), env)
    }

    fn start_check(self: &Arc<Sites>, job: &Job, question: Question, check: &Arc<Check>) {
        let (sites, check) = (self.clone(), check.clone());
        let job = Job { cancel: check.cancel.clone(), ..job.clone() };
        let running = Running(check.clone());
        let work = move || {
            let _running = running;
            sites.run_check(&job, &question, &check);
        };
        // Where there is no thread, the step that needs the answer runs the command.
        if let Ok(thread) = std::thread::Builder::new().name(String::from("base")).spawn(work) {
            lock(&self.base_checks.threads).push(thread);
        }
    }

    /// Ends what is still being run on bases, and waits until it has ended.
    pub fn end_checks(&self) {
        lock(&self.base_checks.all).values().for_each(|check| check.cancel.cancel_now());
        let threads = std::mem::take(&mut *lock(&self.base_checks.threads));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Looks whether commands can be run on the commit that is checked out, for a person who is about to open a run: in
    /// a checkout of its own, after its setup. What could be run before on the same tree is not looked at again.
    pub fn look_for_person(
        &self,
        commands: &[String],
        made: &[String],
        cancel: &Cancel,
    ) -> Result<ProbeReport, Failure> {
        let (env, root) = (self.environment.of_delivery(), self.place().root());
        let at = ProbeFolder { folder: root, made, env: &env };
        let own = commands.iter().filter(|command| look::is_known(command, root));
        // A package's script may need what only its setup installs.
        let missing = commands.iter().filter(|command| !look::is_known(command, root));
        if let Some(why) = missing.into_iter().find_map(|command| look::missing_program(command, at)) {
            return Ok(ProbeReport::Broken(why));
        }
        if own.count() == 0 && self.setup.is_empty() {
            return Ok(ProbeReport::Fine);
        }
        let repo = self.repo()?;
        let head = repo.head_commit()?;
        let tree = repo.tree_of(&head)?;
        let key = self.look_key(&tree, &commands.join("\n"), &env);
        if self.note(LOOKED, &key)?.is_some() {
            return Ok(ProbeReport::Fine);
        }
        let job = job_of_nobody(cancel);
        let mut looked = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<ProbeReport, Failure> {
            let folder = match ready {
                Ok(ready) => ready.folder.to_owned(),
                Err(CouldNotRun::NotStarted(why)) => {
                    let why = format!("a new worktree could not be set up: {}", first_line(&why));
                    return Ok(ProbeReport::Broken(why));
                }
                Err(why) => return Err(no_answer(&why)),
            };
            let command_place =
                self.command_place(&job, folder.clone(), ("look", env.clone()), None).within(look::MAX_LOOK);
            let mut run = |command: &str| {
                command_place.shell(command, cancel).ok().and_then(|ended| ProbeOutput::of(&ended))
            };
            Ok(look::look(commands, ProbeFolder { folder: &folder, made, env: &env }, &mut run))
        };
        let looked = self.in_checkout(&job, CheckoutOf::commit(&repo, &head), &mut looked)??;
        if looked == ProbeReport::Fine {
            self.put_note(LOOKED, &key, &true)?;
        }
        Ok(looked)
    }
}

/// A job that stands for what a person has done before there is a run.
fn job_of_nobody(cancel: &Cancel) -> Job {
    let (id, wanted) = (ActionId { entry: 0, index: 0 }, ActionTarget::Action(Name::from("look")));
    let action = Action { instance: ROOT, id, wanted, params: Fields::new(), forbidden: None };
    let (events, _) = std::sync::mpsc::channel();
    Job::new(RunId::of(0), action, Usage::new(), cancel.clone(), events)
}

/// What is told where the surroundings keep a command from running: in one line, with what to do.
fn trouble(why: &str) -> Failure {
    MachineCause::Environment.failure(format!("the work cannot be verified here: {}", first_line(why)))
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// An agent whose work commands will judge.
struct Judged {
    sites: Arc<Sites>,
    inner: Arc<dyn Executor>,
}

impl Executor for Judged {
    fn perform(&self, job: &Job) -> Report {
        let checks = match self.sites.begin_checks(job) {
            Ok(checks) => checks,
            Err(Refusal::Broken(why)) => {
                return Report { ended: JobEnd::Failed(trouble(&why)), usage: nothing_used() };
            }
            Err(Refusal::Unknown) => Vec::new(),
        };
        let report = self.inner.perform(job);
        let broken = checks.iter().filter_map(|check| check.leave(job)).next();
        match (&report.ended, broken) {
            // What was done before that was known is looked at by its gate.
            (JobEnd::Done(_), _) | (_, None) => report,
            (
                JobEnd::Failed(_)
                | JobEnd::Died(_)
                | JobEnd::Forbidden(_)
                | JobEnd::Cancelled
                | JobEnd::Outage { .. }
                | JobEnd::ClaimedOutage { .. },
                Some(why),
            ) => Report { ended: JobEnd::Failed(trouble(&why)), ..report },
        }
    }
}

/// Has the commands that will judge an agent's work run on its base, beside its conversation.
pub(in crate::executors) fn check_base(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    Arc::new(Judged { sites: with.sites.clone(), inner })
}
