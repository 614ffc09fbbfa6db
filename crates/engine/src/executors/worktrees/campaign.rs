//! What a campaign looks at on its own branch: the code that a brief shows, the blocks that are looked at
//! again, and where its work is to go. The person's checkout is never taken for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftl_core::catalogue::campaign::{CampaignSummary, CampaignTasks, Summary, Tasks};
use ftl_core::catalogue::flow::{Analysis, Brief, ObserverAnalyze, WorkspaceCreate};
use ftl_core::catalogue::scalars::Seconds;
use ftl_core::json::Json;
use ftl_core::plan::TaskStatus;
use ftl_core::run::{ActionTarget, Failure};
use ftl_core::value::Value;

use super::checkout::{CheckoutOf, Ready};
use super::story::verify_note;
use super::{Sites, prefix};
use crate::executors::admission::{Admission, Rank};
use crate::executors::campaigns::tasks_of;
use crate::executors::lessons::{analyzed, timeout};
use crate::executors::table::Resources;
use crate::executors::typed::{Done, params, perform_unread, shaped};
use crate::executors::workspaces::{BriefSources, brief, read_plan};
use crate::executors::{Job, Report};
use ftl_code::context::Sources;
use ftl_gates::verify::CouldNotRun;
use ftl_git::{Branch, ErrorKind, GitError, Repo};
use ftl_process::RunError;
use ftl_records::campaign::no_campaign;
use ftl_records::plan_file::merge::CampaignTask;
use ftl_records::plan_file::{CampaignPlan, PlanTask};
use ftl_records::workspace::KnownFailure;
use ftl_settings::environment::CommandKind;

/// Performs `campaign.tasks`.
pub(in crate::executors) fn list_tasks(with: &Resources, _: &Job, _: &CampaignTasks) -> Done<CampaignTasks> {
    with.sites.tasks(&with.admission)
}

/// Performs `workspace.create`.
pub(in crate::executors) fn create_workspace(with: &Resources, job: &Job) -> Report {
    perform_unread::<WorkspaceCreate>(job, || with.sites.brief(job))
}

impl Sites {
    /// How the tasks stand. What waits for each is looked at again: a revision may have changed it.
    fn tasks(&self, admission: &Admission) -> Result<Tasks, Failure> {
        let asked = admission.waiting_tasks();
        let mut followed = super::lock(&self.followed);
        *followed = self.records.follow_campaign(followed.take())?;
        let now = followed.as_ref().ok_or_else(no_campaign)?;
        // What is asked to begin waits in the admission. It need not hold a whole plan: the most urgent are enough for
        // every agent, and the next round names the next ones.
        let look = now.look(&asked, admission.room());
        admission.expect(look.unasked > look.startable.len());
        tasks_of(&look)
    }

    /// The branch of a run; nothing where there is no repository to build in.
    fn run_s_branch(&self, job: &Job) -> Result<Option<(Repo, Branch)>, GitError> {
        let found = self.repo().and_then(|repo| Ok((repo.begin(&job.run)?, repo)));
        match found {
            Ok((branch, repo)) => Ok(Some((repo, branch))),
            Err(error) if matches!(error.trouble, ErrorKind::NoRepository | ErrorKind::Unsuitable) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A brief that shows the code as the run's branch has it: what landed before, and nothing that the
    /// person has not committed.
    fn brief(&self, job: &Job) -> Result<Brief, Failure> {
        let (plan, seq) = self.plan_and_task(job)?;
        self.brief_of(job, &plan, seq.as_deref())
    }

    /// The plan and the task that are asked for. Every task of a campaign comes with the whole plan, and it is read and
    /// checked once.
    fn plan_and_task(&self, job: &Job) -> Result<(Arc<CampaignPlan>, Option<String>), Failure> {
        let given = |name: &str| job.action.params.get(name).unwrap_or(&Value::None);
        let mut last = super::lock(&self.plan);
        if let (Some((read, plan)), Value::Record(given), Value::Text(seq)) =
            (&*last, given("plan"), given("task"))
            && Arc::ptr_eq(read, given)
        {
            return Ok((plan.clone(), Some(seq.to_string())));
        }
        let asked: WorkspaceCreate = params(job)?;
        let plan = Arc::new(read_plan(&asked.plan)?);
        if let Value::Record(given) = given("plan") {
            // It is held, so that no other can take its place in memory.
            *last = Some((given.clone(), plan.clone()));
        }
        Ok((plan, asked.task))
    }

    fn brief_of(&self, job: &Job, plan: &CampaignPlan, seq: Option<&str>) -> Result<Brief, Failure> {
        let branch = self.run_s_branch(job)?;
        let task = seq.map_or_else(|| plan.tasks.first(), |seq| plan.find(seq));
        let left_out = match (&branch, task) {
            (Some((repo, branch)), Some(task)) => self.left_out(repo, &branch.tip, task)?,
            (Some(_) | None, _) => None,
        };
        let retried = |task: &PlanTask| -> Vec<KnownFailure> {
            let id = task.id();
            let all = self.retried.iter().filter(|one| one.task == id);
            all.map(|one| one.known_failure(left_out.is_some())).collect()
        };
        let noted = |task: &PlanTask, story: &str| Some(verify_note(&job.run, story, &task.verify));
        let told = |sources| BriefSources {
            run: &job.run,
            sources,
            settings: &self.builds,
            retried: &retried,
            noted: &noted,
        };
        let made = match branch {
            None => {
                let sources: Sources<'_> = &|path| self.records.source(path);
                brief(&self.records, plan, seq, told(sources))
            }
            Some((repo, branch)) => {
                let below = prefix(&repo);
                let sources = |path: &str| {
                    ftl_records::plan_file::check_path(path).ok()?;
                    repo.file_at(&branch.tip, &below.join(path)).ok().flatten()
                };
                brief(&self.records, plan, seq, told(&sources))
            }
        };
        let made = made?;
        self.unpin(job, &made.path)?;
        Ok(Brief { left_out, ..made })
    }

    /// Performs `observer.analyze`: looks at blocks again in a clean checkout of the run's branch, then learns. Where there are none, nothing is
    /// checked out.
    pub(in crate::executors) fn analyze_workspaces(
        &self,
        job: &Job,
        asked: &ObserverAnalyze,
    ) -> Done<ObserverAnalyze> {
        if !self.records.has_blocks()? {
            return self.analyze_in(job, asked, self.place().root());
        }
        let Some((repo, branch)) = self.run_s_branch(job)? else {
            return self.analyze_in(job, asked, self.place().root());
        };
        let mut look = |ready: Result<Ready<'_>, CouldNotRun>| match ready {
            Ok(ready) => self.analyze_in(job, asked, ready.folder),
            // Nothing can be run there, so nothing is known about blocks but that they are.
            Err(_) => analyzed(&self.records, asked, &|_| {
                Err(RunError::CouldNotStart(String::from("its worktree cannot be set up")))
            }),
        };
        self.in_checkout(job, CheckoutOf::commit(&repo, &branch.tip), &mut look)?
    }

    fn analyze_in(&self, job: &Job, asked: &ObserverAnalyze, folder: &Path) -> Result<Analysis, Failure> {
        let count = AtomicUsize::new(0);
        let limit = Seconds(timeout(asked).as_secs_f64());
        let found = analyzed(&self.records, asked, &|command| {
            let what = format!("observe{}", count.fetch_add(1, Ordering::Relaxed));
            let env = self.environment.of_command(CommandKind::Observe);
            let command_place = self.command_place(job, folder.to_owned(), (&what, env), Some(limit));
            command_place.shell(command, &job.cancel)
        })?;
        Ok(Analysis { observer_is_named: Some(self.observer_is_named), ..found })
    }

    /// The task that a job is for, and how long the row of tasks is that waits for it; nothing where the job names
    /// none and its instance has no brief.
    pub(in crate::executors) fn urgency(&self, job: &Job) -> Rank {
        let named = match &job.action.wanted {
            ActionTarget::Action(_) => {
                job.action.params.get("task").and_then(Value::as_text).map(str::to_owned)
            }
            ActionTarget::Task { .. } | ActionTarget::Word(_) | ActionTarget::Question => None,
        };
        let of_brief = || self.noted(job).ok().flatten().map(|noted| noted.spec.id);
        let Some(task) = named.or_else(of_brief) else { return Rank::default() };
        let seq = task.split('-').next().unwrap_or_default();
        let mut followed = super::lock(&self.followed);
        if followed.as_ref().is_none_or(|now| !now.downstream().contains_key(seq)) {
            *followed = self.records.follow_campaign(followed.take()).ok().flatten();
        }
        let row = followed.as_ref().and_then(|now| now.downstream().get(seq).copied());
        Rank { urgency: row.unwrap_or(0), task: Some(seq.to_owned()) }
    }

    /// Performs `campaign.summary`.
    pub(in crate::executors) fn summarize_campaign(
        &self,
        job: &Job,
        _: &CampaignSummary,
    ) -> Done<CampaignSummary> {
        let campaign = self.records.campaign()?.ok_or_else(no_campaign)?;
        let count = |holds: &dyn Fn(&CampaignTask) -> bool| {
            campaign.tasks().iter().filter(|one| holds(one)).count() as u64
        };
        let complete = count(&|one| one.status == TaskStatus::Complete);
        // A task that only others keep from running never ran; one that was begun and stopped did not succeed.
        let blocked = count(&|one| match one.status {
            TaskStatus::Blocked => one.blocked_by.is_empty(),
            TaskStatus::InProgress => true,
            TaskStatus::Pending | TaskStatus::Complete => false,
        });
        let total = campaign.tasks().len() as u64;
        let branch = self.run_s_branch(job)?.map(|(_, branch)| branch);
        let name = branch.as_ref().map(|branch| branch.name.clone());
        let target = branch.as_ref().and_then(|branch| branch.target.clone()).or_else(|| name.clone());
        let reasons = campaign.replan_input(&self.records.evidence()?);
        let blocked_tasks = reasons.get("blocked_tasks").cloned().unwrap_or(Json::Array(Vec::new()));
        Ok(Summary {
            objective: Some(campaign.objective().to_owned()),
            total,
            complete_count: complete,
            blocked_count: blocked,
            pending_count: total.saturating_sub(complete + blocked),
            branch: name,
            target: target.unwrap_or_default(),
            commit: branch.map(|branch| branch.tip.as_str().to_owned()),
            blocked_tasks: Some(shaped(&blocked_tasks)?),
        })
    }
}
