//! The table of executors: every action and role of the catalogue, beside the function that performs it, the queue it
//! waits in, and what is wrapped around it.
//!
//! A name that stands here twice or not at all fails a test, and `docs/executors.md` is printed from here. Nothing else
//! in the engine says by name who performs an action.

use std::sync::Arc;

use ftl_agents::secrets::Secrets;
use ftl_core::catalogue::ActionDecl as _;
use ftl_core::catalogue::build::{
    BranchDeliver, FileRead, PreflightCheck, QualityCheck, VerifyRun, WorkLand,
};
use ftl_core::catalogue::campaign::{
    CampaignAddTasks, CampaignCascadeStatus, CampaignComplete, CampaignCreate, CampaignMergePlan,
    CampaignPropagateBlocks, CampaignReplanInput, CampaignRootCauses, CampaignSummary, CampaignTasks,
    CampaignUpdateTask,
};
use ftl_core::catalogue::code::{
    PullMerge, StoryAssigned, StorySatisfied, TestsRun, WorkMerge, WorktreeClose, WorktreeKeep, WorktreeOpen,
    WorktreeProgress,
};
use ftl_core::catalogue::flow::{
    DecisionParse, ExplorationAggregate, ExplorationClear, ExplorationWrite, LessonExperience, LessonLearn,
    LessonMatching, ObserverAnalyze, PlanParse, WorkspaceBlock, WorkspaceComplete, WorkspaceCreate,
    WorkspaceParse, WorkspaceValidate,
};
use ftl_core::catalogue::lifecycle::{
    ArtifactCode, ArtifactCodeReview, ArtifactDecision, ArtifactPlan, ArtifactPlanReview, ArtifactReport,
    ArtifactRevert, DecisionRecord, EvalRun, PatchApply, PatchRevert,
};
use ftl_core::catalogue::plan::Worker;
use ftl_core::catalogue::shell::Sh;
use ftl_core::run::ActionTarget;

use super::admission::Admission;
use super::agents::Agents;
use super::explorer::{self, Explorer};
use super::shell::ScriptRunner;
use super::task::{artifacts, patches};
use super::worktrees::{self, Sites};
use super::{
    Executor, ExecutorPool, Job, Report, campaigns, lessons, planned, plans, stories, task, typed, workspaces,
};
use ftl_gates::quality;
use ftl_lifecycle::phases::Routes;
use ftl_records::Records;

/// Where a job waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// The queue of jobs of agents.
    Agents,
    /// With the commands of the repository, which take long and use a whole machine.
    Builds,
    /// The queue of jobs that are soon done.
    Actions,
    /// The same; what a campaign does after a task's end, before another one is ready.
    TaskEnd,
    /// The same, after the admission lets its task begin.
    TaskStart,
}

impl QueueKind {
    /// Its word in the printed table.
    pub fn word(self) -> &'static str {
        match self {
            QueueKind::Agents => "agents",
            QueueKind::Builds => "builds",
            QueueKind::Actions => "actions",
            QueueKind::TaskEnd => "actions, after a task's end",
            QueueKind::TaskStart => "actions, when its task may begin",
        }
    }
}

/// What is done around an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// Every task of a plan says who does it.
    AssignWorkers,
    /// The commands that will judge the work are run on its base, beside the conversation.
    CheckBase,
    /// The worktree of a blocked workspace is closed.
    CloseWorktree,
    /// Code looks in the place of explorers that did not answer.
    CompleteExploration,
    /// The plan that the run was given answers.
    GivePlan,
    /// What a brief says is noted for the gates.
    NoteBrief,
    /// A run that only plans begins nothing.
    RefuseInDryRun,
    /// The agent is told what its story needs.
    TellStory,
    /// The agent is told what its lifecycle task needs, and its answer becomes an artifact.
    TellTask,
}

impl Wrapper {
    /// What it does, for the printed table.
    pub fn about(self) -> &'static str {
        match self {
            Wrapper::AssignWorkers => "says of every task who does it",
            Wrapper::CheckBase => {
                "runs the commands that judge the work on its base, beside the conversation"
            }
            Wrapper::CloseWorktree => "closes the worktree of a blocked workspace",
            Wrapper::CompleteExploration => "has code look where an explorer did not answer",
            Wrapper::GivePlan => "answers with the plan that the run was given",
            Wrapper::NoteBrief => "notes what the brief says, for the gates",
            Wrapper::RefuseInDryRun => "refuses in a run that only plans",
            Wrapper::TellStory => "tells the agent what its story needs",
            Wrapper::TellTask => "tells the agent what its lifecycle task needs, and writes its artifact",
        }
    }

    fn wrap(self, with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
        match self {
            Wrapper::AssignWorkers => planned::assign_workers(with, inner),
            Wrapper::CheckBase => worktrees::check_base(with, inner),
            Wrapper::CloseWorktree => worktrees::close_worktree(with, inner),
            Wrapper::CompleteExploration => explorer::complete_exploration(with, inner),
            Wrapper::GivePlan => planned::give_plan(with, inner),
            Wrapper::NoteBrief => worktrees::note_brief(with, inner),
            Wrapper::RefuseInDryRun => planned::refuse_in_dry_run(with, inner),
            Wrapper::TellStory => stories::tell(with, inner),
            Wrapper::TellTask => task::tell(with, inner),
        }
    }
}

/// Who performs one action, or answers one role.
pub struct ExecutorRow {
    /// As protocols name it: an action, or `Task(role)`.
    pub name: &'static str,
    /// The queue in which its jobs wait.
    pub queue: QueueKind,
    /// The function, by its path below the engine's executors or, for a gate over finished work, in `ftl_gates`.
    pub function: &'static str,
    /// What is done around it, the innermost first.
    pub wrappers: &'static [Wrapper],
    perform: Perform,
}

/// The function of an executor, by what it needs.
#[derive(Clone, Copy)]
enum Perform {
    /// It works with records alone, so it can be performed without a worktree, a supervisor or a roster.
    Records(fn(&RecordAccess, &Job) -> Report),
    /// Worktrees, commands or agents.
    All(fn(&Resources, &Job) -> Report),
}

impl ExecutorRow {
    /// Whether an agent performs it.
    pub fn is_role(&self) -> bool {
        self.queue == QueueKind::Agents
    }
}

/// The records of a run, and what reading them needs.
#[derive(Clone)]
pub struct RecordAccess {
    /// Campaign, plans, workspaces, lessons and tasks.
    pub records: Arc<Records>,
    /// Where decisions about a task may send its work.
    pub routes: Routes,
}

/// What executors work with, for one run.
pub struct Resources {
    /// The records of the run.
    pub records: RecordAccess,
    /// The worktrees of the run.
    pub sites: Arc<Sites>,
    /// The runner of scripts of protocols.
    pub shell: Arc<ScriptRunner>,
    /// The values that no output may show.
    pub secrets: Arc<Secrets>,
    /// Who answers roles; nothing where only actions are performed.
    pub agents: Option<AgentResources>,
    /// What the run was opened with.
    pub given: ExecutorOptions,
    /// Which task of a campaign begins next.
    pub admission: Arc<Admission>,
}

/// What the executors of roles work with.
pub struct AgentResources {
    /// The agents, by role.
    pub agents: Arc<Agents>,
    /// Code that explores before an agent does.
    pub explorer: Explorer,
}

/// What a run was opened with that changes how executors answer.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The text of a valid plan, which answers in the planner's place.
    pub plan: Option<String>,
    /// Whether nothing is to be built.
    pub only_plans: bool,
    /// Who does a task whose plan does not say.
    pub worker: Worker,
    /// The document of which stories are made.
    pub document: Option<String>,
}

impl Default for ExecutorOptions {
    fn default() -> ExecutorOptions {
        ExecutorOptions { plan: None, only_plans: false, worker: Worker::Builder, document: None }
    }
}

impl Resources {
    fn ask_agent(&self, job: &Job) -> Report {
        match &self.agents {
            Some(agents) => agents.agents.perform(job),
            None => super::no_executor(job),
        }
    }

    fn explore(&self, job: &Job) -> Report {
        match &self.agents {
            Some(agents) => agents.explorer.perform(job),
            None => super::no_executor(job),
        }
    }

    fn run_script(&self, job: &Job) -> Report {
        self.shell.perform(job)
    }
}

/// One row for an action: its type, its queue, what it works with, the function, what is around it.
macro_rules! action {
    ($action:ty, $queue:ident, $resource:ident => $function:path $(, [$($wrapper:ident),+])?) => {
        ExecutorRow {
            name: <$action>::NAME,
            queue: QueueKind::$queue,
            function: stringify!($function),
            wrappers: &[$($(Wrapper::$wrapper),+)?],
            perform: action!(@ $resource, $action, $function),
        }
    };
    (@ records, $action:ty, $function:path) => {
        Perform::Records(|with, job| typed::perform::<$action, _>(job, |asked| $function(&with.records, job, asked)))
    };
    (@ record_access, $action:ty, $function:path) => {
        Perform::Records(|with, job| typed::perform::<$action, _>(job, |asked| $function(with, job, asked)))
    };
    (@ sites, $action:ty, $function:path) => {
        Perform::All(|with, job| typed::perform::<$action, _>(job, |asked| $function(&with.sites, job, asked)))
    };
    (@ work, $action:ty, $function:path) => {
        Perform::All(|with, job| {
            typed::perform::<$action, _>(job, |asked| with.sites.look_at_work(job, |work| $function(asked, work)))
        })
    };
    (@ resources, $action:ty, $function:path) => {
        Perform::All(|with, job| typed::perform::<$action, _>(job, |asked| $function(with, job, asked)))
    };
}

/// One row that reads the job itself.
macro_rules! whole_job {
    ($name:expr, $queue:ident, $function:path $(, [$($wrapper:ident),+])?) => {
        ExecutorRow {
            name: $name,
            queue: QueueKind::$queue,
            function: stringify!($function),
            wrappers: &[$($(Wrapper::$wrapper),+)?],
            perform: Perform::All($function),
        }
    };
}

/// Every action and role of the catalogue, each in one row.
pub const EXECUTORS: &[ExecutorRow] = &[
    // Campaigns.
    action!(CampaignCreate, Actions, records => campaigns::create, [RefuseInDryRun]),
    action!(CampaignAddTasks, Actions, records => campaigns::add_tasks),
    action!(CampaignTasks, TaskEnd, resources => worktrees::list_tasks),
    action!(CampaignUpdateTask, TaskEnd, records => campaigns::update_task),
    action!(CampaignCascadeStatus, Actions, records => campaigns::cascade_status),
    action!(CampaignPropagateBlocks, Actions, records => campaigns::propagate_blocks),
    action!(CampaignReplanInput, Actions, records => campaigns::replan_input),
    action!(CampaignMergePlan, Actions, records => campaigns::merge_plan),
    action!(CampaignRootCauses, Actions, records => campaigns::find_root_causes),
    action!(CampaignSummary, Actions, sites => Sites::summarize_campaign),
    action!(CampaignComplete, Actions, records => campaigns::complete),
    // Explorations and plans.
    action!(ExplorationClear, Actions, records => plans::clear_exploration),
    action!(ExplorationAggregate, Actions, resources => plans::aggregate_exploration, [CompleteExploration]),
    action!(ExplorationWrite, Actions, records => plans::write_exploration),
    action!(DecisionParse, Actions, records => plans::parse_decision, [AssignWorkers]),
    action!(PlanParse, Actions, records => plans::parse_plan, [AssignWorkers]),
    // Workspaces.
    whole_job!(WorkspaceCreate::NAME, TaskStart, worktrees::create_workspace, [RefuseInDryRun]),
    action!(WorkspaceParse, Actions, records => workspaces::parse, [NoteBrief]),
    action!(WorkspaceValidate, Actions, records => workspaces::validate),
    action!(WorkspaceComplete, Actions, records => workspaces::complete),
    action!(WorkspaceBlock, Actions, records => workspaces::block, [CloseWorktree]),
    // Lessons.
    action!(ObserverAnalyze, Builds, sites => Sites::analyze_workspaces),
    action!(LessonMatching, Actions, records => lessons::match_error),
    action!(LessonLearn, Actions, records => lessons::learn),
    action!(LessonExperience, Actions, records => lessons::note_experience),
    // Gates on a worktree, and its way to a branch.
    action!(VerifyRun, Builds, sites => Sites::run_verify),
    action!(PreflightCheck, Builds, sites => Sites::check_syntax),
    action!(QualityCheck, Actions, work => quality::look),
    action!(FileRead, Actions, sites => Sites::read_file),
    action!(WorkLand, Builds, sites => Sites::land_work),
    action!(BranchDeliver, Builds, sites => Sites::deliver_branch),
    // Stories.
    action!(StoryAssigned, Actions, sites => Sites::assign_story),
    action!(StorySatisfied, Actions, sites => Sites::prove_satisfied),
    action!(WorktreeOpen, Actions, sites => Sites::open_story),
    action!(WorktreeProgress, Actions, sites => Sites::measure_progress),
    action!(WorktreeKeep, Actions, sites => Sites::keep_story),
    action!(WorktreeClose, Actions, sites => Sites::close_story),
    action!(TestsRun, Builds, sites => Sites::run_tests),
    action!(WorkMerge, Builds, sites => Sites::merge_story),
    action!(PullMerge, Actions, sites => Sites::await_pull),
    // The lifecycle of a task.
    action!(ArtifactPlan, Actions, records => artifacts::read_plan),
    action!(ArtifactPlanReview, Actions, records => artifacts::read_plan_review),
    action!(ArtifactCode, Actions, records => artifacts::read_code),
    action!(ArtifactCodeReview, Actions, records => artifacts::read_code_review),
    action!(ArtifactReport, Actions, records => artifacts::read_report),
    action!(ArtifactDecision, Actions, record_access => artifacts::read_decision),
    action!(ArtifactRevert, Actions, records => artifacts::read_revert),
    action!(DecisionRecord, Actions, records => artifacts::record_decision),
    action!(EvalRun, Builds, resources => patches::evaluate),
    action!(PatchApply, Actions, resources => patches::apply),
    action!(PatchRevert, Actions, resources => patches::revert),
    // Scripts of protocols.
    whole_job!(Sh::NAME, Builds, Resources::run_script),
    // Roles.
    whole_job!("Task(explorer)", Agents, Resources::explore),
    whole_job!("Task(planner)", Agents, Resources::ask_agent, [GivePlan, TellStory, TellTask]),
    whole_job!("Task(builder)", Agents, Resources::ask_agent, [CheckBase]),
    whole_job!("Task(observer)", Agents, Resources::ask_agent),
    whole_job!("Task(coder)", Agents, Resources::ask_agent, [CheckBase, TellStory, TellTask]),
    whole_job!("Task(architect)", Agents, Resources::ask_agent, [CheckBase, TellStory]),
    whole_job!("Task(reviewers)", Agents, Resources::ask_agent, [TellTask]),
];

/// The queue of what an action asks for. What no row names, such as an action that only a script answers, waits with
/// everything else.
pub(super) fn queue_of(wanted: &ActionTarget) -> QueueKind {
    match wanted {
        ActionTarget::Task { .. } => QueueKind::Agents,
        ActionTarget::Action(name) => {
            let row = EXECUTORS.iter().find(|row| row.name == &**name);
            row.map_or(QueueKind::Actions, |row| row.queue)
        }
        ActionTarget::Word(_) | ActionTarget::Question => QueueKind::Actions,
    }
}

/// An executor with all that it may work with.
struct Bound {
    with: Arc<Resources>,
    perform: Perform,
}

impl Executor for Bound {
    fn perform(&self, job: &Job) -> Report {
        match self.perform {
            Perform::Records(perform) => perform(&self.with.records, job),
            Perform::All(perform) => perform(&self.with, job),
        }
    }
}

/// An executor with the records that it works with.
struct RecordBound {
    with: RecordAccess,
    perform: fn(&RecordAccess, &Job) -> Report,
}

impl Executor for RecordBound {
    fn perform(&self, job: &Job) -> Report {
        (self.perform)(&self.with, job)
    }
}

impl ExecutorPool {
    /// The same with every executor of the table; roles only where there are agents.
    #[must_use]
    pub fn with_executors(mut self, with: &Arc<Resources>) -> ExecutorPool {
        for row in EXECUTORS.iter().filter(|row| with.agents.is_some() || !row.is_role()) {
            let bound: Arc<dyn Executor> = Arc::new(Bound { with: with.clone(), perform: row.perform });
            let wrapped = row.wrappers.iter().fold(bound, |inner, wrapper| wrapper.wrap(with, inner));
            self = self.with(row.name, wrapped);
        }
        let sites = with.sites.clone();
        self.urging(Arc::new(move |job| sites.urgency(job)))
    }

    /// The same with those executors of the table that need nothing but records: among them every gate of a lifecycle.
    #[must_use]
    pub fn with_record_executors(mut self, with: &RecordAccess) -> ExecutorPool {
        for row in EXECUTORS.iter().filter(|row| row.wrappers.is_empty()) {
            if let Perform::Records(perform) = row.perform {
                self = self.with(row.name, Arc::new(RecordBound { with: with.clone(), perform }));
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use ftl_core::catalogue::Catalogue;
    use ftl_core::performer::Performer;

    use super::*;

    #[test]
    fn every_action_and_role_of_the_catalogue_has_one_row() {
        let catalogue = Catalogue::standard();
        let mut declared: Vec<String> = catalogue.actions().map(|one| one.name.to_string()).collect();
        declared.extend(catalogue.roles().map(|role| format!("Task({})", role.name)));
        declared.sort();
        let mut listed: Vec<&str> = EXECUTORS.iter().map(|row| row.name).collect();
        listed.sort_unstable();
        assert_eq!(listed, declared);
    }

    #[test]
    fn agents_answer_roles_and_nothing_else() {
        for row in EXECUTORS {
            assert_eq!(row.is_role(), Performer::from(row.name).role().is_some(), "{}", row.name);
        }
    }

    #[test]
    fn the_page_shows_the_table() {
        let mut page = String::from(
            "# Executors\n\nWho performs each action and answers each role. This page is printed from \
             `crates/engine/src/executors/table.rs` by its test; `UPDATE_SNAPSHOTS=1 cargo test -p ftl-engine table` \
             writes it anew.\n\n| action or role | function | queue | around it |\n|---|---|---|---|\n",
        );
        for row in EXECUTORS {
            let wrappers: Vec<&str> = row.wrappers.iter().map(|wrapper| wrapper.about()).collect();
            let (function, queue) = (row.function.replace(' ', ""), row.queue.word());
            let _ = writeln!(page, "| `{}` | `{function}` | {queue} | {} |", row.name, wrappers.join("; "));
        }
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/executors.md");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page, "UPDATE_SNAPSHOTS=1 writes it");
    }
}
