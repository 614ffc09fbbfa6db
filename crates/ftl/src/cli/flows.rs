//! The arguments of flows: tasks, campaigns, stories. Nothing is decided here.

use std::fmt;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use ftl_agents::contract::{MONEY, TOKENS};
use ftl_core::amount::{AmountError, Unit};
use ftl_core::run::Terms;
use ftl_core::value::Name;
use ftl_process::sandbox::SandboxLevel;
use ftl_settings::roster::Choice;
use ftl_settings::settings::LandingHow;

use super::{MAX_JOBS, MAX_TOOLS};

/// How work may be asked to get to the person's branch; the last is for stories.
const LANDINGS: [LandingHow; 4] =
    [LandingHow::FastForward, LandingHow::Squash, LandingHow::BranchOnly, LandingHow::PullRequest];

/// What is done with one task.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Explore, plan, build, verify and land one task
    Run(Flow),
}

/// What is done with a campaign: the flow, and the verbs of scripts.
#[derive(Debug, Subcommand)]
pub(crate) enum Campaign {
    /// Explore, plan, and build, verify and land every task of the plan
    Run(Flow),

    #[command(flatten)]
    Verb(ftl_compat::CampaignVerb),
}

/// How a flow is asked for.
#[derive(Debug, Args)]
pub(crate) struct Flow {
    /// The objective, in your words
    #[arg(required_unless_present = "from_dry_run")]
    pub(crate) objective: Option<String>,

    /// The plan, in place of the planner: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,

    /// The plan of an earlier --dry-run, and its objective; nobody is asked to plan again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["plan", "dry_run", "objective"])]
    pub(crate) from_dry_run: Option<String>,

    /// Explore and plan, show the plan, and build nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) options: FlowOptions,
}

/// What every task and campaign takes, also one that is tried again.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FlowOptions {
    /// How many agents work at the same time; else the setting width.agents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_JOBS)))]
    pub(crate) jobs: Option<u16>,

    /// How many tools each build has; else what the plan and the setting builder.tools say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_TOOLS))]
    pub(crate) tools: Option<u64>,

    /// How the work gets to your branch; else the setting landing.how
    #[arg(long, value_name = "HOW", value_parser = landing(&LANDINGS[..3]))]
    pub(crate) land: Option<LandingHow>,

    /// Land what is complete also where a campaign did not complete; else it stays on its branch
    #[arg(long)]
    pub(crate) land_partial: bool,

    #[command(flatten)]
    pub(crate) work: WorkOptions,
}

/// Whether the person follows the agents of a run.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct TalkArg {
    /// Show what agents say while they work, on standard error
    #[arg(long)]
    pub(crate) talk: bool,
}

/// What every run takes in which agents change files: tasks, campaigns, stories.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkOptions {
    /// A finding of a gate that is not to stop the work, such as "test_removed tests/old.py"; for the record
    #[arg(long, value_name = "KIND [PATH]")]
    pub(crate) allow: Vec<String>,

    /// How much holds agents and commands of this run back, whatever the settings ask for: full, partial or none
    #[arg(long, value_name = "LEVEL", value_parser = levels(), requires = "reason")]
    pub(crate) sandbox: Option<SandboxLevel>,

    /// The reason for another sandbox, for the record
    #[arg(long, value_name = "TEXT", requires = "sandbox")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) chosen: FlowArgs,

    #[command(flatten)]
    pub(crate) talk: TalkArg,
}

/// The levels of sandboxes.
pub(crate) fn levels() -> impl TypedValueParser<Value = SandboxLevel> {
    let words = PossibleValuesParser::new(SandboxLevel::ALL.map(SandboxLevel::word));
    words.map(|word| SandboxLevel::parse(&word).unwrap_or(SandboxLevel::Full))
}

/// Who works on one run, and how much they may use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FlowArgs {
    /// The agent that answers every role of this run; `ftl agents` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// The model that agents of this run are asked for
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// The most money that this run may use, such as 2.50; else the setting limits.money
    #[arg(long, value_name = "MONEY", value_parser = money)]
    pub(crate) max_cost: Option<u64>,

    /// The most tokens that this run may use, such as 500k; else the setting limits.tokens
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub(crate) max_tokens: Option<u64>,
}

impl FlowArgs {
    /// Whom the person has chosen.
    pub(crate) fn choice(&self) -> Choice {
        Choice { agent: self.agent.clone(), model: self.model.clone() }
    }

    /// Sets the limits of a run. Four explorers set something aside at the same time: where the limit is lower than
    /// that, a quarter of it is set aside for each.
    pub(crate) fn limit(&self, terms: &mut Terms) {
        for (meter, most) in [(MONEY, self.max_cost), (TOKENS, self.max_tokens)] {
            let Some(most) = most else { continue };
            terms.limits.insert(Name::from(meter), most);
            if let Some(aside) = terms.reserve.get_mut(meter) {
                *aside = (*aside).min(most / 4).max(1);
            }
        }
    }
}

fn money(text: &str) -> Result<u64, LimitError> {
    limit(Unit::Money, text)
}

fn tokens(text: &str) -> Result<u64, LimitError> {
    limit(Unit::Count, text)
}

/// A limit of nothing would let an agent work whose use is not known.
fn limit(unit: Unit, text: &str) -> Result<u64, LimitError> {
    match unit.parse(text) {
        Ok(0) => Err(LimitError::Nothing),
        Ok(amount) => Ok(amount),
        Err(error) => Err(LimitError::Amount(error)),
    }
}

/// Why a limit of a run is refused.
#[derive(Debug)]
enum LimitError {
    Amount(AmountError),
    Nothing,
}

impl fmt::Display for LimitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Amount(error) => error.fmt(out),
            LimitError::Nothing => out.write_str("it must be more than nothing"),
        }
    }
}

impl std::error::Error for LimitError {}

/// One of some ways in which work gets to the person's branch.
fn landing(among: &'static [LandingHow]) -> impl TypedValueParser<Value = LandingHow> {
    PossibleValuesParser::new(among.iter().map(|how| how.word()))
        .try_map(|word| LandingHow::parse(&word).ok_or("this is no way to land"))
}

/// How a story is asked for, or a document of them.
#[derive(Debug, Args)]
pub(crate) struct Code {
    /// The story, in your words
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(crate) story: Option<String>,

    /// A document of which the architect makes stories: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,

    /// With --from: how many agents work at the same time; else the setting width.agents
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_JOBS)))]
    pub(crate) coders: Option<u16>,

    /// With --from: have the stories made, show them, and code nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// How the work gets to your branch; else the setting landing.how
    #[arg(long, value_name = "HOW", value_parser = landing(&LANDINGS))]
    pub(crate) land: Option<LandingHow>,

    /// With --from: land the stories that are complete also where others are not
    #[arg(long)]
    pub(crate) land_partial: bool,

    #[command(flatten)]
    pub(crate) work: WorkOptions,
}
