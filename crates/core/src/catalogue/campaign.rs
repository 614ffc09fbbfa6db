//! The campaign: a graph of tasks, what is ready, what is stuck, and what became of it.

use super::plan::{Plan, TaskType, Worker};
use super::spec::Remaining;

crate::choices! {
    /// How far a task of a campaign has come.
    TaskStatus {
        /// It was not started.
        Pending = "pending",
        /// A builder works on it.
        InProgress = "in_progress",
        /// Done, verified and landed.
        Complete = "complete",
        /// Ended without success, or cannot be reached any more.
        Blocked = "blocked",
    }

    /// Where a campaign as a whole stands.
    CascadeState {
        /// There is no campaign.
        None = "none",
        /// Nothing is left to do.
        Complete = "complete",
        /// Some task is ready.
        InProgress = "in_progress",
        /// A task waits for one that is blocked.
        Stuck = "stuck",
        /// Nothing can start, and no blocked task is the direct cause.
        AllBlocked = "all_blocked",
    }

    /// How a protocol ended.
    Verdict {
        /// Success, the only one.
        Complete = "complete",
        /// Ended without success, with what was learned.
        Blocked = "blocked",
        /// Too much for this mode; to be done again in the full one.
        Escalated = "escalated",
        /// Something that should not happen happened.
        Error = "error",
    }
}

crate::records! {
    /// A task of a campaign.
    Task {
        /// Its number in the plan.
        seq: String,
        /// Its short name.
        slug: String,
        /// What sort of work it is.
        kind as "type": Option<TaskType>,
        /// Which protocol does it.
        worker: Worker,
        /// The tasks it waits for, by seq.
        depends: Vec<String>,
        /// How far it has come.
        status: TaskStatus,
        /// The files it may change.
        delta: Option<Vec<String>>,
        /// When its status last changed.
        updated_at: Option<String>,
        /// The blocked tasks that keep it from starting, by seq.
        blocked_by: Option<Vec<String>>,
        /// When a revised plan changed it.
        revised_at: Option<String>,
    }
}

crate::records! {
    /// A campaign that was opened.
    Opened {
        /// What it is to reach.
        objective: String,
        /// The private branch that its tasks land on.
        branch: Option<String>,
        /// When it was made.
        created_at: Option<String>,
    }

    /// The tasks that were taken in.
    Registered {
        /// How many.
        count: u64,
        /// Their numbers, in the order of the plan.
        seqs: Vec<String>,
    }

    /// The tasks that matter for the next round.
    Tasks {
        /// Those that may start: pending, and all they depend on is complete.
        ready: Vec<Task>,
        /// Those that somebody works on, the first of them.
        running: Vec<Task>,
        /// How many wait for others.
        waiting_count: Option<u64>,
    }

    /// What became of one task.
    Updated {
        /// Its number.
        seq: String,
        /// How far it has come now.
        status: TaskStatus,
    }

    /// Where the campaign stands, and what can no longer be reached.
    Cascade {
        /// Where it stands as a whole.
        state: CascadeState,
        /// How many tasks are complete.
        complete: u64,
        /// How many are blocked.
        blocked: u64,
        /// How many are pending.
        pending: u64,
        /// How many could start now.
        ready: u64,
        /// How many are being worked on.
        in_progress: Option<u64>,
        /// The pending tasks that a blocked one keeps from starting, however far down.
        unreachable: Vec<Unreachable>,
    }

    /// A pending task that cannot start.
    Unreachable {
        /// Its number.
        seq: String,
        /// The blocked tasks it waits for.
        blocked_by: Vec<String>,
        /// The blocked tasks that no other blocked one explains.
        root_causes: Option<Vec<String>>,
    }

    /// The tasks that were blocked because they can no longer be reached.
    Propagated {
        /// How many.
        count: u64,
        /// Which, by seq.
        blocked: Vec<String>,
    }

    /// What a planner is told when it plans the rest again.
    ReplanInput {
        /// Always `replan`.
        mode: String,
        /// What the campaign is to reach.
        objective: String,
        /// The framework of the repository.
        framework: Option<String>,
        /// Why the rest is planned again.
        reason: Option<String>,
        /// How many tasks are complete.
        completed_count: u64,
        /// How many are blocked.
        blocked_count: u64,
        /// How many are pending.
        pending_count: u64,
        /// What was delivered.
        completed_tasks: Vec<DoneTask>,
        /// What could not be done, and why.
        blocked_tasks: Vec<BlockedTask>,
        /// What is still to do.
        remaining_tasks: Vec<Remaining>,
    }

    /// A complete task, as a planner sees it.
    DoneTask {
        /// Its number.
        seq: String,
        /// Its short name.
        slug: String,
        /// What it delivered, in at most 200 characters.
        delivered: String,
    }

    /// A blocked task, as a planner or an observer sees it.
    BlockedTask {
        /// Its number.
        seq: String,
        /// Its short name.
        slug: String,
        /// Why it is blocked, in at most 100 characters.
        reason: String,
    }

    /// The causes behind the blocked tasks.
    RootCauses {
        /// Whether every task is blocked and one single failure explains all of them.
        single: bool,
        /// The causes, with the tasks that each explains.
        causes: Vec<RootCause>,
    }

    /// One cause behind blocked tasks.
    RootCause {
        /// The task where it began, by seq.
        seq: String,
        /// What went wrong.
        reason: String,
        /// The tasks that are blocked because of it, by seq.
        affected: Vec<String>,
    }

    /// A campaign that was closed.
    Closed {
        /// Where the copy for later campaigns is kept.
        archive: Option<String>,
        /// How it went, in one sentence.
        summary: Option<String>,
    }

    /// What became of a campaign.
    Summary {
        /// What it was to reach.
        objective: Option<String>,
        /// How many tasks it had.
        total: u64,
        /// How many are complete.
        complete_count: u64,
        /// How many are blocked.
        blocked_count: u64,
        /// How many never ran.
        pending_count: u64,
        /// The private branch that the tasks landed on.
        branch: Option<String>,
        /// The branch that the work is meant for.
        target: String,
        /// The last commit of the private branch.
        commit: Option<String>,
        /// The blocked tasks, with reasons.
        blocked_tasks: Option<Vec<BlockedTask>>,
    }
}

crate::actions! {
    /// Opens a campaign for an objective; one that is still open is archived first.
    CampaignCreate = "campaign.create" act (
        /// What the campaign is to reach.
        objective: String,
        /// The framework of the repository.
        framework: Option<String>,
    ) -> Opened;

    /// Takes in the tasks of a plan, all or none.
    CampaignAddTasks = "campaign.add_tasks" act (
        /// The plan.
        plan: Plan,
    ) -> Registered, piped "plan";

    /// Looks which tasks may start and which are at work.
    CampaignTasks = "campaign.tasks" look () -> Tasks;

    /// Records how a task ended: complete, or blocked for every other verdict.
    CampaignUpdateTask = "campaign.update_task" act (
        /// The task, by seq.
        task: String,
        /// How it ended.
        verdict: Verdict,
        /// Why, when it did not end well.
        reason: Option<String>,
        /// What it delivered, when it did.
        delivered: Option<String>,
        /// The commit it landed as.
        commit: Option<String>,
    ) -> Updated;

    /// Looks where the campaign stands and what can no longer be reached.
    CampaignCascadeStatus = "campaign.cascade_status" look () -> Cascade;

    /// Blocks every task that can no longer be reached.
    CampaignPropagateBlocks = "campaign.propagate_blocks" act () -> Propagated;

    /// Gathers what a planner needs to plan the rest again.
    CampaignReplanInput = "campaign.replan_input" look (
        /// Why the rest is planned again.
        reason: Option<String>,
    ) -> ReplanInput;

    /// Merges a revised plan into the campaign, whole or not at all, and answers with what now holds.
    CampaignMergePlan = "campaign.merge_plan" act (
        /// The revised plan.
        revised: Plan,
    ) -> Plan, piped "revised";

    /// Looks for the causes behind the blocked tasks.
    CampaignRootCauses = "campaign.root_causes" look () -> RootCauses;

    /// Closes the campaign and keeps a copy for later ones.
    CampaignComplete = "campaign.complete" act (
        /// How it went; counted from the tasks when left out.
        summary: Option<String>,
        /// The names of the patterns that were learned.
        patterns: Option<Vec<String>>,
    ) -> Closed;

    /// Looks what became of the campaign.
    CampaignSummary = "campaign.summary" look () -> Summary;
}
