//! The words of these commands: groups, verbs and flags as scripts spell them.
//!
//! Only words are understood here. A group without a verb prints its help; the exit
//! code then is the one that the FTL plugin gave (docs/origins.md).

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ftl_command::{Fill, Group, Page};

/// What the help of these commands says beside their options.
pub const PAGES: &[Page] = &[
    Page {
        command: "workspace",
        more: "A workspace is the brief of one task: `.ftl/workspace/SEQ_slug_status.xml`.",
        examples: &[
            "ftl workspace create --plan plan.json --task 001",
            "ftl workspace complete .ftl/workspace/001_login_active.xml --delivered \"routes and tests\"",
            "ftl workspace block .ftl/workspace/001_login_active.xml --reason \"no module\" --tried \"pip install\"",
        ],
        last: "Only an active workspace can be completed or blocked; anything else changes nothing.",
    },
    Page {
        command: "memory",
        more: "Failures and patterns, recalled by words and by meaning. What looks like a secret or like an \
            instruction to an agent is kept in quarantine and never given out.",
        examples: &[
            "ftl memory add-failure --json '{\"name\":\"…\",\"trigger\":\"…\",\"fix\":\"…\",\"cost\":5000}'",
            "ftl memory query \"connection refused in tests\"",
            "ftl memory context --objective \"add login\" --include-tiers",
            "ftl memory export memory.json",
        ],
        last: "In add-failure and add-pattern `--json` is the lesson, or - for standard input.",
    },
    Page {
        command: "observer",
        more: "Runs the verify command of each blocked workspace and learns from what still fails; a block that \
            passes now teaches nothing.",
        examples: &["ftl observer analyze", "ftl observer verify-blocks --timeout 60", "ftl observer list"],
        last: "",
    },
    Page {
        command: "exploration",
        more: "What explorers found: structure, pattern, memory, delta.",
        examples: &[
            "ftl exploration aggregate-files --objective \"add login\" | ftl exploration write",
            "ftl exploration get-delta | jq -r '.candidates[].path'",
        ],
        last: "",
    },
    Page {
        command: "orchestration",
        more: "",
        examples: &[
            "ftl orchestration wait-explorers --required 3 --timeout 300",
            "ftl orchestration validate-transition PLAN BUILD",
            "ftl orchestration emit-state BUILD --meta '{\"task\":\"001\"}'",
        ],
        last: "wait-explorers ends with 1 when there is nothing to work with; what is there is enough for 0.",
    },
    Page {
        command: "phase",
        more: "none, explore, plan, build, observe, complete.",
        examples: &["ftl phase status", "ftl phase transition explore"],
        last: "A move is also taken when the campaign itself shows that the flow has come that far.",
    },
    Page {
        command: "decision",
        more: "Reads PROCEED, CLARIFY or CONFIRM out of a planner's text, with its questions and its plan.",
        examples: &["ftl decision reply.md --validate"],
        last: "Exit code 0 PROCEED, 1 unknown or no file, 2 CLARIFY, 3 CONFIRM.",
    },
    Page {
        command: "framework",
        more: "",
        examples: &["ftl framework detect", "ftl framework idioms fastapi"],
        last: "",
    },
    Page {
        command: "benchmark",
        more: "Measures on a memory of its own, never on yours. `learning` is a simulation.",
        examples: &["ftl benchmark matching", "ftl benchmark run && ftl benchmark report"],
        last: "",
    },
    Page { command: "logfile", more: "", examples: &["ftl logfile tail -n 50"], last: "" },
    Page { command: "query", more: "", examples: &["ftl query \"connection refused\""], last: "" },
    Page { command: "stats", more: "", examples: &["ftl stats | jq .failures.count"], last: "" },
    Page { command: "prune", more: "", examples: &["ftl prune --max-failures 300"], last: "" },
    Page { command: "related", more: "", examples: &["ftl related import-cycle --max-hops 2"], last: "" },
    Page { command: "similar", more: "", examples: &["ftl similar --threshold 0.5"], last: "" },
    Page { command: "observe", more: "", examples: &["ftl observe --no-verify"], last: "" },
];

/// The commands, without `campaign`: its verbs stand beside the flow of that name.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create and close the workspaces of builders
    Workspace(Group<WorkspaceVerb>),

    /// Add, query and prune lessons
    Memory(Group<Memory>),

    /// Verify blocked work and learn from finished work
    Observer(Group<Observer>),

    /// Write, merge and read exploration results
    Exploration(Group<Exploration>),

    /// Wait for explorers, validate transitions, emit states
    Orchestration(Group<Orchestration>),

    /// Show or set the phase of a flow
    Phase(Group<PhaseVerb>),

    /// Parse and validate a planner's decision
    Decision(DecisionArgs),

    /// Show framework profiles and their idioms
    Framework(Group<FrameworkVerb>),

    /// Measure the memory
    Benchmark(Group<Benchmark>),

    /// Show or clear the log file of these commands
    Logfile(Group<Logfile>),

    /// Print the lessons on a topic: `memory query`
    Query(Query),

    /// Print counts and health of the memory: `memory stats`
    Stats,

    /// Drop the least important lessons: `memory prune`
    Prune(Prune),

    /// Print the lessons that are linked to one: `memory related`
    Related(Related),

    /// Print campaigns that are like this one: `campaign find-similar`
    Similar(Similar),

    /// Verify blocked work and learn from it: `observer analyze`
    Observe(Analyze),
}

/// These commands, each as it is built alone.
pub const CALLED: &[(&str, Fill)] = &[
    ("workspace", Group::<WorkspaceVerb>::augment_args),
    ("memory", Group::<Memory>::augment_args),
    ("observer", Group::<Observer>::augment_args),
    ("exploration", Group::<Exploration>::augment_args),
    ("orchestration", Group::<Orchestration>::augment_args),
    ("phase", Group::<PhaseVerb>::augment_args),
    ("decision", DecisionArgs::augment_args),
    ("framework", Group::<FrameworkVerb>::augment_args),
    ("benchmark", Group::<Benchmark>::augment_args),
    ("logfile", Group::<Logfile>::augment_args),
    ("query", Query::augment_args),
    ("stats", std::convert::identity),
    ("prune", Prune::augment_args),
    ("related", Related::augment_args),
    ("similar", Similar::augment_args),
    ("observe", Analyze::augment_args),
];

/// What is done with the one current campaign.
#[derive(Debug, Subcommand)]
pub enum CampaignVerb {
    /// Open a campaign; one that is still active goes to the archive
    Create {
        /// The objective
        objective: String,
        /// The framework of the repository
        #[arg(long, value_name = "NAME")]
        framework: Option<String>,
    },
    /// Add the tasks of a plan: JSON on standard input
    AddTasks,
    /// Set the status of a task: pending, in_progress, complete or blocked
    UpdateTask {
        /// The task, by seq; 1 is 001
        seq: String,
        /// The status
        status: String,
    },
    /// Print the first task that may start, or null
    NextTask,
    /// Print every task that may start
    ReadyTasks,
    /// Print the status of the campaign and the tasks that can no longer be reached
    CascadeStatus,
    /// Block every task that can never run
    PropagateBlocks,
    /// Print the campaign
    Status,
    /// Close the campaign and keep a copy in the archive
    Complete {
        /// The summary; the counts of its tasks if left out
        #[arg(long, value_name = "TEXT")]
        summary: Option<String>,
    },
    /// Print the campaign if it goes on, or null
    Active,
    /// Print the campaigns in the archive, the newest first
    History,
    /// Print campaigns of the archive, and write them to a file
    Export {
        /// The file; folders above it are made
        file: PathBuf,
        /// From this day on, such as 2026-11-01
        #[arg(long, value_name = "DAY")]
        start: Option<String>,
        /// Up to this day
        #[arg(long, value_name = "DAY")]
        end: Option<String>,
    },
    /// Print what makes the campaign comparable
    Fingerprint,
    /// Print campaigns of the archive that are like this one
    FindSimilar(Similar),
    /// Print what a planner needs to plan the rest again
    GetReplanInput,
    /// Merge a revised plan, whole or not at all
    MergeRevisedPlan {
        /// The plan, or - for standard input
        file: PathBuf,
    },
    /// Print the counts of tasks by status
    Summary,
    /// Print which blocked tasks hold up which others, and what to cut
    CascadeAnalysis,
}

/// How much alike campaigns must be, and how many are wanted.
#[derive(Clone, Copy, Debug, Args)]
pub struct Similar {
    /// The least similarity, from 0 to 1
    #[arg(long, value_name = "N", default_value_t = 0.6)]
    pub threshold: f64,
    /// The largest number of results
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max: usize,
}

/// What is done with workspaces.
#[derive(Debug, Subcommand)]
pub enum WorkspaceVerb {
    /// Make the workspaces of a plan
    Create {
        /// The plan, or - for standard input
        #[arg(long, value_name = "FILE")]
        plan: PathBuf,
        /// Only this task, by seq
        #[arg(long, value_name = "SEQ")]
        task: Option<String>,
    },
    /// End an active workspace as complete
    Complete {
        /// The workspace
        path: PathBuf,
        /// What was delivered
        #[arg(long, value_name = "TEXT")]
        delivered: String,
        /// The lessons that were used: JSON, a list of {name, type}
        #[arg(long, value_name = "JSON")]
        utilized: Option<String>,
    },
    /// End an active workspace as blocked
    Block(BlockArgs),
    /// Print a workspace as JSON
    Parse {
        /// The workspace
        path: PathBuf,
    },
}

/// How a workspace ends as blocked.
#[derive(Debug, Args)]
pub struct BlockArgs {
    /// The workspace
    pub path: PathBuf,
    /// The reason; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", required_unless_present = "reason_file")]
    #[arg(alias = "delivered")]
    pub reason: Option<String>,
    /// The reason, from a file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "reason")]
    pub reason_file: Option<PathBuf>,
    /// What was tried
    #[arg(long, value_name = "TEXT")]
    pub tried: Option<String>,
    /// What is not known
    #[arg(long, value_name = "TEXT")]
    pub unknown: Option<String>,
    /// It was given up because the budget or the specification did not allow more
    #[arg(long)]
    pub escalated: bool,
}

/// What is done with the phase of the flow.
#[derive(Debug, Subcommand)]
pub enum PhaseVerb {
    /// Print the phase
    Status,
    /// Move to a phase
    Transition {
        /// none, explore, plan, build, observe or complete
        phase: String,
        /// Move also where the machine has no such edge
        #[arg(long)]
        force: bool,
    },
    /// Print whether a move exists: valid or invalid
    CanTransition {
        /// The phase to leave
        from: String,
        /// The one to enter
        to: String,
    },
    /// Reset the phase to none
    Reset,
}

/// What a script that leads explorers asks.
#[derive(Debug, Subcommand)]
pub enum Orchestration {
    /// Wait until enough explorers have left their results
    WaitExplorers {
        /// How many are enough
        #[arg(long, value_name = "N", default_value_t = 3)]
        required: usize,
        /// Seconds to wait
        #[arg(long, value_name = "N", default_value_t = 300.0)]
        timeout: f64,
    },
    /// Print which explorers have left their results
    CheckExplorers,
    /// Print whether the task flow has an edge
    ValidateTransition {
        /// The state to leave
        from: String,
        /// The one to enter
        to: String,
    },
    /// Record that a state was entered
    EmitState {
        /// The state
        state: String,
        /// More fields, as one JSON object
        #[arg(long, value_name = "JSON")]
        meta: Option<String>,
    },
}

/// What is done with what explorers found.
#[derive(Debug, Subcommand)]
pub enum Exploration {
    /// Make one exploration of results on standard input
    Aggregate {
        /// The objective
        #[arg(long, value_name = "TEXT")]
        objective: Option<String>,
    },
    /// Make one exploration of the results that explorers left
    AggregateFiles {
        /// The objective
        #[arg(long, value_name = "TEXT")]
        objective: Option<String>,
    },
    /// Keep an exploration: JSON on standard input
    Write,
    /// Keep the result of one explorer: JSON on standard input
    WriteResult {
        /// structure, pattern, memory or delta
        #[arg(long, value_name = "MODE")]
        mode: String,
    },
    /// Print the exploration, or null
    Read,
    /// Print what was found of the structure
    GetStructure,
    /// Print what was found of patterns
    GetPattern,
    /// Print what was recalled
    GetMemory,
    /// Print what would change
    GetDelta,
    /// Remove the exploration and what explorers left
    Clear,
}

/// Where a decision stands.
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// What the planner said, or - for standard input
    pub file: PathBuf,
    /// Also validate the plan in it
    #[arg(long)]
    pub validate: bool,
}

/// What is asked about frameworks.
#[derive(Debug, Subcommand)]
pub enum FrameworkVerb {
    /// Print which framework a project uses, and how sure that is
    Detect {
        /// The project
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Print what a framework requires and forbids
    Idioms {
        /// The framework
        name: String,
    },
    /// Print how much a framework weighs in the complexity of a plan
    Weight {
        /// The framework
        name: String,
    },
    /// Print every framework that is known
    List,
}

/// What the observer does.
#[derive(Debug, Subcommand)]
pub enum Observer {
    /// Verify blocked workspaces, and learn from all of them
    Analyze(Analyze),
    /// Verify blocked workspaces
    VerifyBlocks {
        /// Where the workspaces are
        #[arg(long, value_name = "DIR")]
        workspace_dir: Option<PathBuf>,
        /// Seconds that a verify may take
        #[arg(long, value_name = "N", default_value_t = 30)]
        timeout: u64,
    },
    /// Print the workspaces by status
    List {
        /// Where the workspaces are
        #[arg(long, value_name = "DIR")]
        workspace_dir: Option<PathBuf>,
    },
    /// Print how much a complete workspace can teach
    Score {
        /// The workspace
        path: PathBuf,
    },
    /// Print the failure that a blocked workspace shows
    ExtractFailure {
        /// The workspace
        path: PathBuf,
    },
}

/// What is analyzed, and how.
#[derive(Debug, Args)]
pub struct Analyze {
    /// Where the workspaces are
    #[arg(long, value_name = "DIR")]
    pub workspace_dir: Option<PathBuf>,
    /// Take blocks as they are
    #[arg(long)]
    pub no_verify: bool,
    /// Seconds that a verify may take
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub timeout: u64,
}

/// A kind of lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LessonKind {
    /// What went wrong
    Failure,
    /// What worked
    Pattern,
}

/// What is done with lessons.
#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Print the lessons for a task
    Context(Context),
    /// Keep a failure
    AddFailure(EntryArgs),
    /// Keep a pattern
    AddPattern(EntryArgs),
    /// Print the lessons on a topic, the best first
    Query(Query),
    /// Drop the least important lessons
    Prune(Prune),
    /// Link two lessons
    AddRelationship {
        /// The first lesson
        source: String,
        /// The second lesson
        target: String,
        /// The kind of both lessons
        #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
        kind: LessonKind,
        /// How they are related: co_occurs, causes, solves, prerequisite or variant
        #[arg(long, value_name = "TYPE", default_value = "co_occurs")]
        rel_type: String,
    },
    /// Print the lessons that are linked to one
    Related(Related),
    /// Print counts and health
    Stats,
    /// Record whether a lesson helped
    Feedback {
        /// The lesson
        name: String,
        /// It helped
        #[arg(long)]
        helped: bool,
        /// It did not
        #[arg(long)]
        failed: bool,
        /// Of which kind it is
        #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
        kind: LessonKind,
    },
    /// Link a failure and a pattern
    AddCrossRelationship {
        /// The failure
        failure: String,
        /// The pattern
        pattern: String,
        /// How they are related: solves or causes
        #[arg(long = "type", value_name = "TYPE", default_value = "solves")]
        rel_type: String,
    },
    /// Print the patterns that solve a failure
    GetSolutions {
        /// The failure
        failure: String,
    },
    /// Take in lessons of a memory.json
    Import {
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Write all lessons as a memory.json
    Export {
        /// The file; standard output if left out
        file: Option<PathBuf>,
    },
    /// Print what is kept away from agents, and why
    Quarantine {
        /// Let this lesson out, because you looked at it
        #[arg(long, value_name = "NAME")]
        release: Option<String>,
        /// Of which kind it is
        #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
        kind: LessonKind,
    },
    /// Make every vector again, with the embedder in use
    Reembed,
    /// Change a lesson
    Edit(Edit),
    /// Unite a lesson with another, which stays
    Merge {
        /// The lesson that goes
        name: String,
        /// The lesson that stays
        into: String,
        /// Of which kind both are
        #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
        kind: LessonKind,
    },
    /// Print what was done to a lesson, the oldest change first
    History {
        /// The lesson
        name: String,
        /// Of which kind it is
        #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
        kind: LessonKind,
    },
    /// Take back the newest change of a lesson
    Undo {
        /// The lesson
        name: String,
        /// Of which kind it is
        #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
        kind: LessonKind,
    },
    /// Print whether lessons help, by tasks from which they were withheld
    Effect {
        /// Retire the lessons that harm or do nothing; `ftl memory undo` brings one back
        #[arg(long)]
        retire: bool,
    },
}

/// What is changed in a lesson.
#[derive(Debug, Args)]
pub struct Edit {
    /// The lesson
    pub name: String,
    /// When it applies
    #[arg(long, value_name = "TEXT")]
    pub trigger: Option<String>,
    /// What helps: the fix of a failure, the insight of a pattern
    #[arg(long, value_name = "TEXT")]
    pub fix: Option<String>,
    /// The regular expression of a failure
    #[arg(long = "match", value_name = "REGEX")]
    pub matcher: Option<String>,
    /// Its tags, separated by commas
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub tags: Option<Vec<String>>,
    /// What it cost, or what it saved
    #[arg(long, value_name = "N")]
    pub cost: Option<u64>,
    /// Of which kind it is
    #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
    pub kind: LessonKind,
}

/// Which lessons are wanted.
#[derive(Debug, Args)]
pub struct Context {
    /// Only failures or only patterns
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Only lessons with one of these tags, separated by commas
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// What they are for
    #[arg(long, value_name = "TEXT")]
    pub objective: Option<String>,
    /// How many failures at most
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max_failures: usize,
    /// How many patterns at most
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_patterns: usize,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// Say how relevant each is, in a word
    #[arg(long)]
    pub include_tiers: bool,
}

/// A lesson that comes in.
#[derive(Debug, Args)]
pub struct EntryArgs {
    /// The lesson as JSON, or - for standard input; written --json
    #[arg(long, value_name = "JSON")]
    pub entry: String,
}

/// What is looked for.
#[derive(Debug, Args)]
pub struct Query {
    /// What to look for
    #[arg(required = true)]
    pub topic: Vec<String>,
    /// The largest number of results
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max: usize,
}

/// What stays.
#[derive(Debug, Args)]
pub struct Prune {
    /// How many failures stay at most
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub max_failures: usize,
    /// How many patterns stay at most
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_patterns: usize,
    /// What is less important goes
    #[arg(long, value_name = "N", default_value_t = 0.1)]
    pub min_importance: f64,
    /// Days after which a lesson counts half
    #[arg(long, value_name = "DAYS", default_value_t = 30.0)]
    pub half_life: f64,
}

/// Where the walk begins.
#[derive(Debug, Args)]
pub struct Related {
    /// The lesson
    pub name: String,
    /// Of which kind it is
    #[arg(long = "type", value_enum, default_value_t = LessonKind::Failure)]
    pub kind: LessonKind,
    /// How far to go
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub max_hops: usize,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub enum Benchmark {
    /// Run all of them, and keep the result
    Run,
    /// Measure recall at several sizes
    Retrieval,
    /// Measure how well paraphrases are matched
    Matching,
    /// Simulate learning over campaigns
    Learning {
        /// How many campaigns
        #[arg(long, value_name = "N", default_value_t = 10)]
        campaigns: usize,
        /// How many tasks each has
        #[arg(long, value_name = "N", default_value_t = 5)]
        tasks: usize,
    },
    /// Measure pruning
    Pruning,
    /// Print a memory to measure with
    Generate {
        /// How many failures
        #[arg(long, value_name = "N", default_value_t = 100)]
        failures: usize,
        /// How many patterns
        #[arg(long, value_name = "N", default_value_t = 50)]
        patterns: usize,
    },
    /// Print results as text
    Report {
        /// The results, or - for standard input; the kept ones if left out
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
}

/// What is done with the log file.
#[derive(Debug, Subcommand)]
pub enum Logfile {
    /// Print the last lines of the log file
    Tail {
        /// How many
        #[arg(short = 'n', value_name = "N", default_value_t = 20)]
        lines: usize,
    },
    /// Empty the log file
    Clear,
    /// Write a line of each level
    Test,
}
