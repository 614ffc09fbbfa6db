//! The words of a task's lifecycle on the command line, and their pages.

use clap::{Args, Subcommand, ValueEnum};
use ftl_command::{Fill, Page};

/// Which task is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TaskArg {
    /// The task; else the current one
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The brief, in your words
    pub(crate) brief: String,

    /// The name of the task; one is made up if left out
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// What to review: plan or code
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) what: Reviewed,

    #[command(flatten)]
    pub(crate) task: TaskArg,
}

/// What can be reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reviewed {
    /// The plan
    Plan,
    /// The patch
    Code,
}

#[derive(Debug, Args)]
pub(crate) struct Accept {
    /// The decision: accepted, needs_work, rejected or deferred
    #[arg(long, value_name = "WORD", default_value = "accepted", hide_default_value = true)]
    #[arg(value_parser = ["accepted", "needs_work", "rejected", "deferred"], hide_possible_values = true)]
    pub(crate) verdict: String,

    /// The phase that the work goes to, if it is not accepted: codegen, review, planning or revert
    #[arg(long, value_name = "PHASE")]
    pub(crate) route: Option<String>,

    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) task: TaskArg,
}

#[derive(Debug, Args)]
pub(crate) struct RevertArgs {
    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) task: TaskArg,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Next {
    /// The phase to go to; the one that is open if left out
    #[arg(long, value_name = "PHASE", conflicts_with = "auto")]
    pub(crate) to: Option<String>,

    /// Show every edge with what it needs, and write nothing
    #[arg(long, conflicts_with_all = ["auto", "over"])]
    pub(crate) eval: bool,

    /// Run the phases one after the other until a person is needed
    #[arg(long, conflicts_with = "over")]
    pub(crate) auto: bool,

    /// Take a declared edge although its guard does not hold, with this reason
    #[arg(long = "override", id = "over", value_name = "REASON")]
    pub(crate) over: Option<String>,

    #[command(flatten)]
    pub(crate) task: TaskArg,
}

#[derive(Debug, Args)]
pub(crate) struct Redo {
    /// The phase to go back to
    pub(crate) phase: String,

    /// The reason, for the record and for the agents of the phase
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) task: TaskArg,
}

/// The commands of the lifecycle.
#[derive(Debug, Subcommand)]
pub(crate) enum Lifecycle {
    /// Create a task: one change, from a brief to a commit
    New(New),

    /// Have the planner write the plan
    Plan(TaskArg),

    /// Have the reviewers review the plan or the patch
    Review(ReviewArgs),

    /// Have the coder write files and patch
    Codegen(TaskArg),

    /// Run the test suites on the patch
    Test(TaskArg),

    /// Accept or reject a finished task
    Accept(Accept),

    /// Undo the commit of a task
    Revert(RevertArgs),

    /// Move to the next phase if its conditions hold
    Next(Next),

    /// Return to an earlier phase
    Redo(Redo),

    /// Show a task: phase, artifacts, what is missing
    Show(TaskArg),

    /// Adopt a task folder into the journal
    Adopt(TaskArg),

    /// Run these commands interactively, behind a slash
    Repl(TaskArg),
}

/// These commands, each as it is built alone.
pub(crate) const CALLED: &[(&str, Fill)] = &[
    ("new", New::augment_args),
    ("plan", TaskArg::augment_args),
    ("review", ReviewArgs::augment_args),
    ("codegen", TaskArg::augment_args),
    ("test", TaskArg::augment_args),
    ("accept", Accept::augment_args),
    ("revert", RevertArgs::augment_args),
    ("next", Next::augment_args),
    ("redo", Redo::augment_args),
    ("show", TaskArg::augment_args),
    ("adopt", TaskArg::augment_args),
    ("repl", TaskArg::augment_args),
];

/// The pages of these commands.
pub(crate) const PAGES: &[Page] = &[
    Page {
        command: "new",
        more: "Makes the folder .ftl/tasks/ID/ with its state, and a run of the protocol `lifecycle` that moves it.",
        examples: &["ftl new \"add a --quiet flag\"", "ftl new \"fix the parser\" --task parser --json"],
        last: "The new task is the current one: commands without --task mean it.",
    },
    Page {
        command: "plan",
        more: "Writes planning/planning.ai.json, plan.md and plan.files.json. The plan before is kept below versions/.",
        examples: &["ftl plan", "ftl plan --task parser --json"],
        last: "It never moves the task; `ftl next` does. Exit code 5 in another phase than planning.",
    },
    Page {
        command: "review",
        more: "Five reviewers read, each for one concern: product, design, senior developer, test, risk. What one of \
            them calls blocking blocks. `.ftl/prompts/reviewers.md` may name others.",
        examples: &["ftl review plan", "ftl review code --task parser"],
        last: "It never moves the task; `ftl next` does. Exit code 5 in another phase.",
    },
    Page {
        command: "codegen",
        more: "The coder works in a worktree of its own. What it changed becomes code/diff.patch and code/files/.",
        examples: &["ftl codegen"],
        last: "It never moves the task; `ftl next` does. Exit code 5 in another phase than codegen.",
    },
    Page {
        command: "test",
        more: "Applies the patch in a clean checkout, runs the project's tests and lints there, and writes \
            eval/eval-report.json. No agent has a part in it.",
        examples: &["ftl test"],
        last: "Exit code 0 if the report was written, red or green; `ftl next` moves.",
    },
    Page {
        command: "accept",
        more: "Writes accept/decision.json. `ftl next` then carries it out: an accepted patch is applied to your branch \
            and committed, nothing else.",
        examples: &[
            "ftl accept",
            "ftl accept --verdict needs_work --route planning --reason \"the flag needs a short form\"",
        ],
        last: "Refused from inside an agent's process tree.",
    },
    Page {
        command: "revert",
        more: "In accept it moves the task to revert; there it undoes exactly the commit of the task, and writes \
            revert/record.json. Other work is never touched.",
        examples: &["ftl revert --reason \"it breaks the export\""],
        last: "Refused from inside an agent's process tree.",
    },
    Page {
        command: "next",
        more: "Looks at the artifacts of the phase, makes at most one transition, or says what is missing.",
        examples: &[
            "ftl next",
            "ftl next --eval --json | jq '.guards[]'",
            "ftl next --to planning",
            "ftl next --override \"I accept the risk\" --to accept",
            "ftl next --auto                run the phases until a person is needed",
        ],
        last: "Exit code 0 moved or nothing to do, 3 held, 4 a guard does not hold, 5 no such edge, 6 malformed.",
    },
    Page {
        command: "redo",
        more: "Goes back to a phase that the task has been in, also from done. What that phase and later ones left is \
            moved below versions/, and no guard reads it any more. It pays one of the rounds.",
        examples: &["ftl redo codegen --reason \"the names are wrong\""],
        last: "Exit code 5 if the task was never in that phase. Refused from inside an agent's process tree.",
    },
    Page {
        command: "show",
        more: "",
        examples: &["ftl show", "ftl show --task parser --json | jq -r .phase"],
        last: "It writes nothing.",
    },
    Page {
        command: "adopt",
        more: "A task folder that came from elsewhere is adopted when it is first used. One whose state.json was changed \
            behind ftl's back is refused until it is adopted by this.",
        examples: &["ftl adopt --task parser"],
        last: "Refused from inside an agent's process tree.",
    },
    Page {
        command: "repl",
        more: "/plan, /review plan, /codegen, /review code, /test, /accept, /revert, /next, /redo PHASE, /status, /help, \
            /quit. Other lines are notes for the transcript.",
        examples: &["ftl repl", "printf '/status\\n/next\\n' | ftl repl"],
        last: "Without a terminal it ends with the exit code of the last command that did not end with 0.",
    },
];
