//! The settings: every key with its type, its default and what it means. This is the one place that declares them.
//!
//! A key that is not declared here does not compile in code, and is an error in a file. Nothing here reads a file.

pub(crate) mod declare;

use std::time::Duration;

use ftl_core::amount::Unit;
use ftl_core::catalogue::plan::{DirectMode, Worker};
use ftl_records::build_budget::FACTOR_ONE;
use ftl_records::plan_file::{MAX_BUDGET, MAX_PLAN_READS, MAX_REPAIRS};
use ftl_store::MAX_CONTENT_BYTES;
use ftl_view::notices::NoticeKind;

use crate::message::MessageTemplate;
use crate::settings::declare::{Row, Rule, SettingType, settings};

const COUNT: Rule = Rule::of(Unit::Count);
const MONEY: Rule = Rule::of(Unit::Money);
const TIME: Rule = Rule::of(Unit::Time);
const BYTES: Rule = Rule::of(Unit::Bytes);
const FACTOR: Rule = Rule::of(Unit::Factor);

/// A unit of money, in millionths.
const ONE: u64 = 1_000_000;
/// A minute and an hour, in milliseconds.
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

const KIB: usize = 1 << 10;

/// How much of each end of an output may be kept at hand: both ends of both streams are one answer.
const MAX_AT_HAND: u64 = 512 << 10;

/// What the tools of a plan may be multiplied by at most, in thousandths.
const MAX_TOOLS_FACTOR: u64 = 100 * FACTOR_ONE;

/// The longest that checks of a pull request may be waited for: a week.
const MAX_CHECKS_MILLIS: u64 = 7 * 24 * HOUR;

/// Caches and virtual environments: the commands that need them make them again.
const UNKEPT: [&str; 26] = [
    ".venv",
    "venv",
    ".virtualenv",
    "node_modules",
    "target",
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".eggs",
    "*.egg-info",
    ".cache",
    ".gradle",
    ".next",
    ".nuxt",
    ".turbo",
    ".parcel-cache",
    ".svelte-kit",
    ".terraform",
    ".coverage",
    ".nyc_output",
    ".DS_Store",
];

ftl_core::choices! {
    /// What makes vectors of lessons.
    EmbedderKind {
        /// The built-in table.
        Static = "static",
        /// MiniLM weights in a folder.
        MiniLm = "minilm",
        /// An embedding endpoint of a model service.
        Endpoint = "endpoint",
    }

    /// How the work of a run gets to the person's branch.
    LandingHow {
        /// The person is asked.
        Ask = "ask",
        /// The branch moves forward to the work.
        FastForward = "ff",
        /// The work becomes one commit.
        Squash = "squash",
        /// The work stays on its own branch.
        BranchOnly = "branch-only",
        /// The work of stories goes through a forge.
        PullRequest = "pull-request",
    }
}

settings! {
    /// What one run may use; `none` switches a limit off.
    limits: Limits {
        /// tokens that one run may use
        tokens: Option<u64> = Some(5_000_000), COUNT;
        /// money that one run may use
        money: Option<u64> = Some(20 * ONE), MONEY;
        /// working time of agents that one run may use
        time: Option<u64> = Some(8 * HOUR), TIME;
        /// turns of agents that one run may use
        turns: Option<u64> = Some(2_000), COUNT;
    }

    /// What is set aside before an agent is asked.
    reserve: Reserve {
        /// set aside before an agent is asked; charged when it reports nothing
        tokens: Option<u64> = Some(100_000), COUNT;
        /// the same for money
        money: Option<u64> = Some(ONE / 2), MONEY;
        /// the same for time
        time: Option<u64> = Some(5 * MINUTE), TIME;
        /// the same for turns
        turns: Option<u64> = Some(25), COUNT;
    }

    /// How much works at the same time.
    width: Width {
        /// agents that work at the same time
        agents: usize = 4, COUNT;
        /// commands that build or test at the same time
        builds: usize = 4, COUNT;
        /// other actions that work at the same time
        actions: usize = 8, COUNT;
    }

    /// How long processes may take, and what is kept of their outputs.
    process: Process {
        /// an agent that has said nothing by then is ended
        startup: Option<Duration> = Some(Duration::from_secs(60)), TIME;
        /// a process that says nothing for so long is ended
        silence: Option<Duration> = Some(Duration::from_mins(10)), TIME;
        /// after so long a process is asked to end
        soft: Option<Duration> = Some(Duration::from_mins(30)), TIME;
        /// after so long a process is ended at once
        hard: Option<Duration> = Some(Duration::from_mins(35)), TIME;
        /// between being asked to end and being ended
        grace: Duration = Duration::from_secs(5), TIME;
        /// of the beginning of an output that is kept at hand
        head: usize = 32 * KIB, BYTES.at_most(MAX_AT_HAND);
        /// of the end of an output that is kept at hand
        tail: usize = 32 * KIB, BYTES.at_most(MAX_AT_HAND);
        /// of an output that is kept in the store
        keep: u64 = 16 << 20, BYTES.at_most(MAX_CONTENT_BYTES as u64);
        /// processes that the user may have for one more to start
        processes: Option<u64> = None, COUNT;
        /// how large a file may be that a process writes
        file: Option<u64> = None, BYTES;
    }

    /// What makes vectors of lessons, and where it is.
    memory: Memory {
        /// what makes vectors of lessons: the built-in table, MiniLM weights in a folder, or an endpoint
        embedder: EmbedderKind = EmbedderKind::Static;
        /// where the weights of MiniLM are
        folder: String = String::new();
        /// an OpenAI-style address ending in /embeddings
        url: String = String::new();
        /// the model that the endpoint is asked for
        model: String = String::new();
        /// the environment variable that holds the endpoint's key; the key itself is never written down
        key: String = String::new();
        /// of a hundred injections of a lesson so many are withheld, so that it shows whether lessons help; 0: none
        withhold: u64 = 10, COUNT.at_most(50);
    }

    /// What worktrees get, and the commands of the project.
    worktree: Worktree {
        /// a command that makes a new worktree ready, run once in each
        setup: String = String::new();
        /// ignored files that each worktree gets a copy of, as patterns
        copy: Vec<String> = Vec::new();
        /// the commands that test a story, where they cannot be found
        tests: Vec<String> = Vec::new();
        /// the commands that check its format and lints
        lints: Vec<String> = Vec::new();
        /// the command that builds it
        build: String = String::new();
        /// where checkouts lie in which work is verified; none: below your folder of caches
        slots: String = String::new();
        /// names of folders with builds that stay in such a checkout for the next verify
        warm: Vec<String> = Vec::new();
    }

    /// How work is verified beside the command of its task.
    verify: Verify {
        /// a command that no agent sees and that must succeed on what would land; only in your own files
        held_out: String = String::new();
    }

    /// How campaigns are staffed.
    campaign: Campaign {
        /// who does a task of a campaign whose plan does not say
        worker: Worker = Worker::Builder;
    }

    /// What builds may take.
    builder: Builder {
        /// tools that a full build has at least; none: as many as its plan and its files give, 5 to 9
        tools: Option<u64> = None, COUNT.at_most(MAX_BUDGET);
        /// the tools of a plan are multiplied by this
        tools_factor: u64 = FACTOR_ONE, FACTOR.at_most(MAX_TOOLS_FACTOR);
        /// how often a red verify goes back to its author
        repairs: u64 = 0, COUNT.at_most(MAX_REPAIRS);
        /// files that a builder may read while it plans
        plan_reads: u64 = 0, COUNT.at_most(MAX_PLAN_READS);
        /// whether a small task is built in the direct mode, with 3 tools and no second try
        direct: DirectMode = DirectMode::Auto;
    }

    /// What explorers may take.
    explorer: Explorer {
        /// calls that an explorer has
        tools: u64 = 4, COUNT.at_most(MAX_BUDGET);
    }

    /// How finished work gets to the person's branch.
    landing: Landing {
        /// how the work of a run gets to your branch; pull-request is for stories
        how: LandingHow = LandingHow::Ask;
    }

    /// What is kept of a task that has landed.
    keep: Keep {
        /// names of ignored files and folders that are not kept of a task that has landed
        ignore: Vec<String> = UNKEPT.map(str::to_owned).to_vec();
    }

    /// What commits say.
    commit: Commit {
        /// what commits say, with {subject}, {body}, {objective}, {task}, {run}, {agent}, {model}; trailers follow
        template: MessageTemplate = MessageTemplate::default();
        /// whether commits are signed off in your name
        sign_off: bool = false;
    }

    /// The forge that pull requests go to.
    forge: Forge {
        /// how long the checks of a pull request are waited for
        checks: Duration = Duration::from_hours(1), TIME.at_most(MAX_CHECKS_MILLIS);
        /// the address of a forge that speaks like GitHub
        url: String = String::from("https://api.github.com");
        /// the repository there, as owner/name
        repo: String = String::new();
        /// the address that git pushes to
        remote: String = String::new();
        /// the environment variable that holds the token; never written down
        token_env: String = String::new();
    }

    /// What you are told of when you do not look, and how; your own files only, never the repository's.
    notify: Notify {
        /// whether the terminal of the driver rings, and shows a message where it can
        terminal: bool = false;
        /// whether the desktop shows a message, by notify-send
        desktop: bool = false;
        /// a command of the shell that gets the notices as JSON on its standard input
        command: String = String::new();
        /// an address that the notices are sent to as JSON
        webhook: String = String::new();
        /// the environment variable that holds the key by which messages to the webhook are signed; never written down
        webhook_key_env: String = String::new();
        /// the address of a topic of ntfy
        ntfy: String = String::new();
        /// the environment variable that holds the token of the topic; never written down
        ntfy_token_env: String = String::new();
        /// what you are told of: needs_you, blocked, limit, landed, ended
        events: Vec<NoticeKind> = NoticeKind::ALL.to_vec();
        /// whether the words of questions and reasons are sent too: they may come from an agent
        words: bool = false;
        /// hours in which nothing is sent, as in 22:00-07:00
        quiet: String = String::new();
        /// how far apart two messages of one way are at least; what happens meanwhile is told together
        every: Duration = Duration::from_mins(1), TIME;
        /// what links in messages begin with, where `ftl serve` runs: http://127.0.0.1:7717
        page: String = String::new();
    }
}

/// What one run may use of a meter, and what is set aside of it before an agent is asked.
pub(crate) struct Meter {
    pub(crate) name: &'static str,
    pub(crate) limit: Option<u64>,
    pub(crate) reserve: Option<u64>,
}

impl Settings {
    /// The meters that are limited.
    pub(crate) fn meters(&self) -> [Meter; 4] {
        let (limits, reserve) = (&self.limits, &self.reserve);
        [
            Meter { name: "tokens", limit: limits.tokens, reserve: reserve.tokens },
            Meter { name: "money", limit: limits.money, reserve: reserve.money },
            Meter { name: "time", limit: limits.time, reserve: reserve.time },
            Meter { name: "turns", limit: limits.turns, reserve: reserve.turns },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_refuses_what_is_no_value_of_its_type_and_stays_as_it_was() {
        let no_value = toml::Value::Datetime("2026-01-01".parse().unwrap());
        for row in ROWS {
            let mut settings = Settings::default();
            let refused = (row.set)(&mut settings, &row.rule, &no_value).unwrap_err();
            assert!(refused.message(row.key).starts_with(row.key), "{}", refused.message(row.key));
            assert_eq!(settings, Settings::default(), "{}", row.key);
        }
    }
}
