//! The roster: which agents there are and who answers which role, out of the settings.
//!
//! Everything is checked when settings are read: an unknown key, a role that the catalogue does not have, an agent
//! that is bound and not described. A key goes to a host that its owner chose, never to one that came with a
//! repository. Nothing here speaks to an agent.

mod build;
mod fields;
pub mod keys;
pub mod needs;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ftl_agents::acp::Habits;
use ftl_agents::cli::Adapter;
use ftl_agents::contract::MONEY;
use ftl_agents::model::price::Prices;
use ftl_agents::model::{Calls, Dialect};
pub use ftl_core::amount::UNPRICED;
use ftl_core::catalogue::{Catalogue, RoleRule};
use ftl_core::nearest::nearest;
use ftl_core::run::Usage;
use ftl_core::value::Name;
use serde::{Deserialize, Serialize};

use crate::environment::{CommandKind, Environment, VariableRule};
use crate::origin::{ConfigError, Origin};
pub use build::{BackendError, Hall};
use fields::Reader;
pub use keys::KeySource;
use needs::{RoleNeed, Unfit, has_rule};

/// What a person does about a role that no agent answers.
pub const UNBOUND: &str = "`ftl init` finds agents, or name one under [roles] in ftl.toml";

/// Where agents stand in a file of settings.
pub const AGENTS: &str = "agents";

/// The section that binds roles.
pub const ROLES: &str = "roles";

/// The role that stands for all that are not bound.
pub const ANY_ROLE: &str = "default";

/// Who answers every role of one run, where it is not whom the settings name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The agent's name; as bound where it is `None`.
    pub agent: Option<String>,
    /// The model that it is asked for.
    pub model: Option<String>,
}

/// The settings of one agent as they were read: each with where it came from.
pub type FieldsByName = BTreeMap<String, (toml::Value, Origin)>;

/// The agents, and which of them answers each role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roster {
    agents: BTreeMap<String, AgentSettings>,
    roles: BTreeMap<String, RoleBinding>,
    /// What commands and programs see of our surroundings.
    environment: Environment,
}

/// An agent as the settings describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// Its name in the settings.
    pub name: String,
    /// What is started or called, with its own settings.
    pub kind: AgentKind,
    /// What a state may need and this agent need not enforce: a person has accepted that.
    pub accept: BTreeSet<RoleNeed>,
    /// How long it may be silent, where it is not as long as any other.
    pub silence: Option<Duration>,
    /// Variables of the commands that it has us run, where it has no program of its own.
    pub variables: Vec<(String, VariableRule, Origin)>,
    /// What is charged for its conversations where money is concerned.
    pub pricing: Pricing,
    /// The file that describes it.
    pub origin: Origin,
}

/// What is charged for an agent's conversations where money is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pricing {
    /// What the agent reports, or its price says; the worst case where neither does.
    #[default]
    Reported,
    /// Nothing: a local model.
    Free,
    /// Nothing: a subscription pays for it, whatever the agent reckons.
    Subscription,
    /// What the agent reports; what it does not report stays unknown and is not guessed. Tokens and turns are the cap.
    Unknown,
}

impl Pricing {
    /// What is known of the money of an agent of which nothing was heard since the engine died: none is paid for a
    /// local model or by a subscription, and none is guessed where the person says that it stays unknown.
    pub fn used_when_lost(self) -> Option<Usage> {
        let none = || Usage::from([(Name::from(MONEY), 0)]);
        match self {
            Pricing::Reported => None,
            Pricing::Free | Pricing::Subscription => Some(none()),
            Pricing::Unknown => Some(none().into_iter().chain([(Name::from(UNPRICED), 1)]).collect()),
        }
    }

    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Pricing::Reported => "reported",
            Pricing::Free => "free",
            Pricing::Subscription => "subscription",
            Pricing::Unknown => "unknown",
        }
    }
}

/// The kinds of agents.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentKind {
    /// Answers written down in a file, for tests and trials.
    Scripted {
        /// The file with the scenes.
        script: PathBuf,
    },
    /// A model service, with our own loop of tools.
    Model(Service),
    /// A program that speaks the Agent Client Protocol.
    Acp(Spoken),
    /// A program of its own, spoken to as an adapter says.
    Cli(Adapted),
}

impl AgentKind {
    /// The word in settings.
    pub const fn word(&self) -> &'static str {
        match self {
            AgentKind::Scripted { .. } => "scripted",
            AgentKind::Model(_) => "model",
            AgentKind::Acp(_) => "acp",
            AgentKind::Cli(_) => "cli",
        }
    }
}

/// A model service, as the settings describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The wire format that it speaks.
    pub dialect: Dialect,
    /// Its address, up to `/v1`.
    pub url: String,
    /// The name under which the service knows the model.
    pub model: String,
    /// The source of its key.
    pub key: Option<KeySource>,
    /// How many tokens fit into the model.
    pub context: u64,
    /// How many tokens an answer may have.
    pub max_output: Option<u64>,
    /// Whether it holds an answer to a schema.
    pub structured: bool,
    /// How its models call tools.
    pub calls: Calls,
    /// How many requests it gets at the same time.
    pub concurrency: usize,
    /// The prices of its models.
    pub prices: Prices,
}

/// What a program of an agent gets of the person's surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AgentEnvironment {
    /// The variables that are passed on, by name.
    pub pass: Vec<String>,
    /// Variables with their values.
    pub set: BTreeMap<String, String>,
    /// Whether it lives in the person's own home, with the logins that are there.
    pub own_home: bool,
}

/// A program that speaks the Agent Client Protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoken {
    /// The name or the path of the program.
    pub program: String,
    /// The arguments that it is started with.
    pub args: Vec<String>,
    /// Its habits: what it surely does, and how it is made to.
    pub habits: Habits,
    /// The variables and the home that it gets.
    pub around: AgentEnvironment,
    /// Whether an author goes on in its earlier session, where the agent offers that.
    pub resume: bool,
}

/// A program that is spoken to as an adapter says.
#[derive(Clone, Debug)]
pub struct Adapted {
    /// The file that says how the program is started and read.
    pub adapter: Arc<Adapter>,
    /// The program, where it is not the adapter's own.
    pub program: Option<PathBuf>,
    /// The model to ask for; `None` leaves it to the program.
    pub model: Option<String>,
    /// What the adapter wants to know.
    pub values: BTreeMap<String, String>,
    /// The variables and the home that it gets.
    pub around: AgentEnvironment,
}

impl PartialEq for Adapted {
    fn eq(&self, other: &Adapted) -> bool {
        let parts = |one: &Adapted| (one.adapter.name.clone(), one.program.clone(), one.model.clone());
        parts(self) == parts(other) && self.values == other.values && self.around == other.around
    }
}

/// The agent that answers a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBinding {
    /// The agent's name.
    pub agent: String,
    /// The model, where it is not the agent's own.
    pub model: Option<String>,
}

impl Roster {
    /// The agent that two roles are bound to, if both are bound to the same one with the same model.
    pub fn shared_by(&self, one: &str, other: &str) -> Option<&AgentSettings> {
        let (one, other) = (self.role(one)?, self.role(other)?);
        self.agent(&one.agent).filter(|_| one == other)
    }

    /// The roster of some settings.
    pub fn of(
        agents: &BTreeMap<String, FieldsByName>,
        roles: &BTreeMap<String, (toml::Value, Origin)>,
    ) -> Result<Roster, ConfigError> {
        let mut roster = Roster::default();
        for (name, said) in agents {
            roster.agents.insert(name.clone(), agent(name, said)?);
        }
        for (role, (value, origin)) in roles {
            let bound =
                roster.parse_binding(role, value).map_err(|(message, hint)| wrong(origin, message, hint))?;
            roster.roles.insert(role.clone(), bound);
        }
        Ok(roster)
    }

    /// The same where commands and programs see this of our surroundings.
    #[must_use]
    pub fn in_environment(self, environment: &Environment) -> Roster {
        Roster { environment: environment.clone(), ..self }
    }

    /// What the commands see that an agent has us run.
    pub fn environment_of(&self, agent: &AgentSettings) -> Environment {
        let mut environment = self.environment.clone();
        for (name, rule, origin) in &agent.variables {
            // They were checked when the settings were read.
            let _ = environment.add(Some(CommandKind::Agent), name, rule.clone(), origin);
        }
        environment
    }

    fn parse_binding(&self, role: &str, value: &toml::Value) -> Result<RoleBinding, (String, String)> {
        let known: Vec<&str> =
            Catalogue::standard().roles().map(|one| &*one.name).chain([ANY_ROLE]).collect();
        if !known.contains(&role) {
            let hint = nearest(role, &known).map_or_else(
                || format!("the roles are {}", known.join(", ")),
                |near| format!("did you mean `{near}`? the roles are {}", known.join(", ")),
            );
            return Err((format!("there is no role `{role}`"), hint));
        }
        let shape = || {
            let message = format!("{ROLES}.{role} names no agent");
            (message, String::from("write `\"NAME\"`, or `{ agent = \"NAME\", model = \"…\" }`"))
        };
        let bound = match value {
            toml::Value::String(agent) => RoleBinding { agent: agent.clone(), model: None },
            toml::Value::Table(table) if table.keys().all(|key| key == "agent" || key == "model") => {
                let text =
                    |key: &str| table.get(key).map(|one| one.as_str().map(str::to_owned).ok_or_else(shape));
                RoleBinding {
                    agent: text("agent").transpose()?.ok_or_else(shape)?,
                    model: text("model").transpose()?,
                }
            }
            toml::Value::Table(_) | toml::Value::Integer(_) | toml::Value::Float(_) => return Err(shape()),
            toml::Value::Boolean(_) | toml::Value::Datetime(_) | toml::Value::Array(_) => return Err(shape()),
        };
        if !self.agents.contains_key(&bound.agent) {
            let names: Vec<&str> = self.agents.keys().map(String::as_str).collect();
            let hint = match nearest(&bound.agent, &names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("describe it under [{AGENTS}.{}]; `ftl init` shows how", bound.agent),
            };
            return Err((format!("{ROLES}.{role}: there is no agent `{}`", bound.agent), hint));
        }
        Ok(bound)
    }

    /// Who answers a role. Where code explores without an agent, four conversations are much for a small change.
    pub fn role(&self, role: &str) -> Option<&RoleBinding> {
        let by_name_alone = || has_rule(Catalogue::standard(), role, RoleRule::ByNameAlone);
        let default = || self.roles.get(ANY_ROLE).filter(|_| !by_name_alone());
        self.roles.get(role).or_else(default)
    }

    /// The same where a person has chosen the agent or the model for one run. Explorers stay with code unless the
    /// settings bind them.
    pub fn with_choice(mut self, choice: &Choice) -> Result<Roster, Unfit> {
        if let Some(agent) = &choice.agent {
            self.needs_agent(agent)?;
            let bound = RoleBinding { agent: agent.clone(), model: None };
            self.roles.insert(ANY_ROLE.to_owned(), bound.clone());
            self.roles.values_mut().for_each(|one| one.clone_from(&bound));
        }
        for one in self.roles.values_mut().filter(|_| choice.model.is_some()) {
            one.model.clone_from(&choice.model);
        }
        Ok(self)
    }

    fn needs_agent(&self, name: &str) -> Result<(), Unfit> {
        if self.agents.contains_key(name) {
            return Ok(());
        }
        let names: Vec<&str> = self.agents.keys().map(String::as_str).collect();
        let hint = match (nearest(name, &names), names.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`? there is {}", names.join(", ")),
            (None, true) => format!("`ftl init` finds agents, or describe it under [{AGENTS}.{name}]"),
            (None, false) => format!("there is {}; `ftl agents` shows them", names.join(", ")),
        };
        Err(Unfit { message: format!("there is no agent `{name}`"), hint })
    }

    /// Every agent, by name.
    pub fn agents(&self) -> impl Iterator<Item = &AgentSettings> {
        self.agents.values()
    }

    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Option<&AgentSettings> {
        self.agents.get(name)
    }

    /// The roles that are bound, with whom they are bound to.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &RoleBinding)> {
        self.roles.iter().map(|(role, bound)| (role.as_str(), bound))
    }

    /// Whether no role is bound.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }
}

fn wrong(origin: &Origin, message: String, hint: String) -> ConfigError {
    let path = match origin {
        Origin::Default => PathBuf::new(),
        Origin::File(path) => path.clone(),
    };
    ConfigError { path, message, hint }
}

fn agent(name: &str, said: &FieldsByName) -> Result<AgentSettings, ConfigError> {
    let mut reader = Reader::new(name, said);
    let kind = reader.word("kind", &fields::KINDS)?;
    let accept = reader.words("accept", &RoleNeed::WORDS)?;
    let silence = reader.time("silence")?;
    let origin = reader.origin();
    let variables = match kind.as_deref() {
        Some("scripted" | "model") => programs::variables(&mut reader)?,
        Some(_) | None => Vec::new(),
    };
    let kind = match kind.as_deref() {
        Some("scripted") => AgentKind::Scripted { script: reader.needed_path("script")? },
        Some("model") => AgentKind::Model(service(&mut reader)?),
        Some("acp") => AgentKind::Acp(programs::spoken(&mut reader)?),
        Some("cli") => AgentKind::Cli(programs::adapted(&mut reader)?),
        Some(_) | None => return Err(reader.missing("kind")),
    };
    let pricing = reader.pricing(match &kind {
        AgentKind::Model(service) => Some(&service.url),
        AgentKind::Scripted { .. } | AgentKind::Acp(_) | AgentKind::Cli(_) => None,
    })?;
    reader.expect_no_more(kind.word())?;
    let accept = accept.iter().filter_map(|word| RoleNeed::parse(word)).collect();
    Ok(AgentSettings { name: name.to_owned(), kind, accept, silence, variables, pricing, origin })
}

/// How many tokens fit into a model of which nothing is said.
const CONTEXT: u64 = 128_000;

/// How many requests a service gets at once if nothing is said.
const CONCURRENCY: u64 = 4;

fn service(reader: &mut Reader<'_>) -> Result<Service, ConfigError> {
    let words: Vec<&str> = Dialect::ALL.iter().map(|one| one.word()).collect();
    let dialect = reader.word("dialect", &words)?.and_then(|word| Dialect::parse(&word));
    let dialect = dialect.ok_or_else(|| reader.missing("dialect"))?;
    let url = reader.needed_text("url")?;
    if !(url.starts_with("http://") || url.starts_with("https://")) || keys::host(&url).is_empty() {
        return Err(reader.wrong(
            "url",
            format!("`{url}` is no address"),
            "such as http://127.0.0.1:11434/v1",
        ));
    }
    let model = reader.needed_text("model")?;
    let key = reader.key()?;
    if let Some(key) = &key {
        keys::may_go(
            key,
            &url,
            reader.is_shared("url") || reader.is_shared("key") || reader.is_shared("key_file"),
        )
        .map_err(|leak| {
            let hint =
                "say it in .ftl/config.toml or in your own settings, where no repository can change it";
            reader.wrong("key", leak.to_string(), hint)
        })?;
    }
    let calls = reader.word("calls", &Calls::WORDS)?.and_then(|word| Calls::parse(&word)).unwrap_or_default();
    if calls == Calls::Schema && dialect != Dialect::Chat {
        let message = "only the dialect chat can hold calls to a schema";
        return Err(reader.wrong("calls", message, "set dialect = \"chat\", or leave it out"));
    }
    Ok(Service {
        dialect,
        key,
        calls,
        context: reader.count("context")?.unwrap_or(CONTEXT),
        max_output: reader.count("max_output")?,
        structured: reader.flag("structured")?.unwrap_or(false),
        concurrency: usize::try_from(reader.count("concurrency")?.unwrap_or(CONCURRENCY)).unwrap_or(1).max(1),
        prices: reader.prices(&model)?,
        url,
        model,
    })
}

#[cfg(test)]
mod tests;
