//! Settings: what a run may use, who answers which role, who stands in for people, how long processes may
//! take.
//!
//! Every setting has a default, so that a cap is a cap before anybody has written a file. Files are
//! read in order and later ones win; each value remembers where it came from. A key that nobody knows
//! is an error: a cap with a typing mistake must not be no cap.

mod environment;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ftl_core::nearest::nearest;
use ftl_core::run::{MAX_EQUAL_FAILURES, Policy, Terms, Usage};
use ftl_core::value::{Name, Value};
use ftl_language::library::Library;

use crate::environment::{ENVIRONMENT, Environment};
use crate::message::{PLACEHOLDERS, unknown_placeholders};
use crate::origin::{ConfigError, Origin};
use crate::roster::{AGENTS, ROLES, Roster, Said};
use crate::width::Width;
use ftl_code::commands::Commands;
use ftl_core::amount::Unit;
use ftl_folder as folder;
use ftl_process::Limits;
use ftl_records::RecordOptions;
use ftl_records::build_budget::{BuildSettings, FACTOR_ONE};
use ftl_records::embedder::{EmbedderChoice, EndpointSettings};
use ftl_records::plan_file::{DirectMode, MAX_BUDGET, MAX_PLAN_READS, MAX_REPAIRS};
use ftl_store::MAX_CONTENT_BYTES;

/// The longest that checks of a pull request may be waited for: a week.
pub const MAX_CHECKS_MILLIS: u64 = 7 * 24 * 60 * 60 * 1000;

/// The largest settings file that is read.
pub const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// A setting: its key, what it means, and its default. `none` switches a limit off.
struct Setting {
    key: &'static str,
    unit: Unit,
    default: &'static str,
    about: &'static str,
    optional: bool,
    most: u64,
}

const fn setting(key: &'static str, unit: Unit, default: &'static str, about: &'static str) -> Setting {
    Setting { key, unit, default, about, optional: true, most: u64::MAX }
}

const fn needed(key: &'static str, unit: Unit, default: &'static str, about: &'static str) -> Setting {
    Setting { key, unit, default, about, optional: false, most: u64::MAX }
}

impl Setting {
    const fn at_most(self, most: u64) -> Setting {
        Setting { most, ..self }
    }
}

/// How much of each end of an output may be kept at hand: both ends of both streams are one answer.
const MAX_AT_HAND: u64 = 512 * 1024;

/// What the tools of a plan may be multiplied by at most, in thousandths.
const MAX_TOOLS_FACTOR: u64 = 100 * FACTOR_ONE;

/// The settings that may also stand where a role is bound: of which role, and in which section they belong.
const OF_ROLES: [(&str, &[&str]); 2] =
    [("builder", &["tools", "tools_factor", "direct", "repairs", "plan_reads"]), ("explorer", &["tools"])];

const SETTINGS: &[Setting] = &[
    setting("limits.tokens", Unit::Count, "5M", "tokens that one run may use"),
    setting("limits.money", Unit::Money, "20", "money that one run may use"),
    setting("limits.time", Unit::Time, "8h", "working time of agents that one run may use"),
    setting("limits.turns", Unit::Count, "2000", "turns of agents that one run may use"),
    setting(
        "reserve.tokens",
        Unit::Count,
        "100k",
        "set aside before an agent is asked; charged when it reports nothing",
    ),
    setting("reserve.money", Unit::Money, "0.50", "the same for money"),
    setting("reserve.time", Unit::Time, "5m", "the same for time"),
    setting("reserve.turns", Unit::Count, "25", "the same for turns"),
    needed("width.agents", Unit::Count, "4", "agents that work at the same time"),
    needed("width.builds", Unit::Count, "4", "commands that build or test at the same time"),
    needed("width.actions", Unit::Count, "8", "other actions that work at the same time"),
    setting("process.startup", Unit::Time, "60s", "an agent that has said nothing by then is ended"),
    setting("process.silence", Unit::Time, "10m", "a process that says nothing for so long is ended"),
    setting("process.soft", Unit::Time, "30m", "after so long a process is asked to end"),
    setting("process.hard", Unit::Time, "35m", "after so long a process is ended at once"),
    needed("process.grace", Unit::Time, "5s", "between being asked to end and being ended"),
    needed("process.head", Unit::Bytes, "32KiB", "of the beginning of an output that is kept at hand")
        .at_most(MAX_AT_HAND),
    needed("process.tail", Unit::Bytes, "32KiB", "of the end of an output that is kept at hand")
        .at_most(MAX_AT_HAND),
    needed("process.keep", Unit::Bytes, "16MiB", "of an output that is kept in the store")
        .at_most(MAX_CONTENT_BYTES as u64),
    setting(
        "builder.tools",
        Unit::Count,
        "none",
        "tools that a full build has at least; none: as many as its plan and its files give, 5 to 9",
    )
    .at_most(MAX_BUDGET),
    needed("builder.tools_factor", Unit::Factor, "1", "the tools of a plan are multiplied by this")
        .at_most(MAX_TOOLS_FACTOR),
    needed("builder.repairs", Unit::Count, "0", "how often a red verify goes back to its author")
        .at_most(MAX_REPAIRS),
    needed("builder.plan_reads", Unit::Count, "0", "files that a builder may read while it plans")
        .at_most(MAX_PLAN_READS),
    needed("explorer.tools", Unit::Count, "4", "calls that an explorer has").at_most(MAX_BUDGET),
    needed("forge.checks", Unit::Time, "1h", "how long the checks of a pull request are waited for")
        .at_most(MAX_CHECKS_MILLIS),
    setting(
        "process.processes",
        Unit::Count,
        "none",
        "processes that the user may have for one more to start",
    ),
    setting("process.file", Unit::Bytes, "none", "how large a file may be that a process writes"),
];

/// A setting that is a word or a text: its key, its default, the words it may be (none: any text), and
/// what it means.
struct Words {
    key: &'static str,
    default: &'static str,
    among: &'static [&'static str],
    about: &'static str,
    /// Whether it is a list of texts; they are kept one a line.
    many: bool,
}

const fn words(
    key: &'static str,
    default: &'static str,
    among: &'static [&'static str],
    about: &'static str,
) -> Words {
    Words { key, default, among, about, many: false }
}

const TEXTS: &[Words] = &[
    words(
        "memory.embedder",
        "static",
        &["static", "minilm", "endpoint"],
        "what makes vectors of lessons: the built-in table, MiniLM weights in a folder, or an endpoint",
    ),
    words("memory.folder", "", &[], "where the weights of MiniLM are"),
    words("memory.url", "", &[], "an OpenAI-style address ending in /embeddings"),
    words("memory.model", "", &[], "the model that the endpoint is asked for"),
    words(
        "memory.key",
        "",
        &[],
        "the environment variable that holds the endpoint's key; the key itself is never written down",
    ),
    words("worktree.setup", "", &[], "a command that makes a new worktree ready, run once in each"),
    Words {
        many: true,
        ..words("worktree.copy", "", &[], "ignored files that each worktree gets a copy of, as patterns")
    },
    Words {
        many: true,
        ..words("worktree.tests", "", &[], "the commands that test a story, where they cannot be found")
    },
    Words { many: true, ..words("worktree.lints", "", &[], "the commands that check its format and lints") },
    words("worktree.build", "", &[], "the command that builds it"),
    words(
        "campaign.worker",
        "builder",
        &["builder", "coder"],
        "who does a task of a campaign whose plan does not say",
    ),
    words(
        "builder.direct",
        "auto",
        &["auto", "never"],
        "whether a small task is built in the direct mode, with 3 tools and no second try",
    ),
    words(
        "landing.how",
        "ask",
        &["ask", "ff", "squash", "branch-only", "pull-request"],
        "how the work of a run gets to your branch; pull-request is for stories",
    ),
    Words {
        many: true,
        ..words(
            "keep.ignore",
            UNKEPT,
            &[],
            "names of ignored files and folders that are not kept of a task that has landed",
        )
    },
    words(
        "commit.template",
        "",
        &[],
        "what commits say, with {subject}, {body}, {objective}, {task}, {run}, {agent}, {model}; trailers follow",
    ),
    words("commit.sign_off", "false", &["false", "true"], "whether commits are signed off in your name"),
    words("forge.url", "https://api.github.com", &[], "the address of a forge that speaks like GitHub"),
    words("forge.repo", "", &[], "the repository there, as owner/name"),
    words("forge.remote", "", &[], "the address that git pushes to"),
    words("forge.token_env", "", &[], "the environment variable that holds the token; never written down"),
];

/// Caches and virtual environments: whoever needs them makes them again.
const UNKEPT: &str = ".venv\nvenv\n.virtualenv\nnode_modules\ntarget\n__pycache__\n*.pyc\n.pytest_cache\n.mypy_cache\n\
    .ruff_cache\n.hypothesis\n.tox\n.nox\n.eggs\n*.egg-info\n.cache\n.gradle\n.next\n.nuxt\n.turbo\n\
    .parcel-cache\n.svelte-kit\n.terraform\n.coverage\n.nyc_output\n.DS_Store";

/// The landing that goes through a forge.
pub const PULL_REQUEST: &str = "pull-request";

/// Where a person is asked how the work of a run gets to their branch.
const LANDINGS: [&str; 2] = ["task.COMPLETE", "campaign.COMPLETE"];

/// Where the policies stand in a file.
const POLICIES: &str = "policies";

/// Where commands that probe services stand in a file.
const PROBES: &str = "probes";

/// A setting with its value, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
    /// What it is.
    pub about: String,
}

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    amounts: BTreeMap<&'static str, (Option<u64>, Origin)>,
    policies: BTreeMap<String, (Policy, Origin)>,
    probes: BTreeMap<String, (String, Origin)>,
    texts: BTreeMap<&'static str, (String, Origin)>,
    agents: BTreeMap<String, Said>,
    roles: BTreeMap<String, (toml::Value, Origin)>,
    environment: Environment,
    /// Whether commands get the default variables.
    defaults: (bool, Origin),
}

impl Default for Config {
    fn default() -> Config {
        let amount = |one: &Setting| (one.key, (one.unit.parse(one.default).ok(), Origin::Default));
        Config {
            amounts: SETTINGS.iter().map(amount).collect(),
            policies: BTreeMap::new(),
            probes: BTreeMap::new(),
            texts: TEXTS.iter().map(|one| (one.key, (one.default.to_owned(), Origin::Default))).collect(),
            agents: BTreeMap::new(),
            roles: BTreeMap::new(),
            environment: Environment::default(),
            defaults: (true, Origin::Default),
        }
    }
}

impl Config {
    /// The settings of some files; one that does not exist says nothing.
    pub fn load(files: &[PathBuf]) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        for file in files {
            if let Some(text) = read(file)? {
                config.add(file, &text)?;
            }
        }
        config.is_sound(files.last().map_or(Path::new(""), PathBuf::as_path))?;
        config.roster()?;
        Ok(config)
    }

    /// Adds what a file says.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let wrong = |message: String, hint: String| ConfigError { path: path.to_owned(), message, hint };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            wrong(error.to_string().trim().to_owned(), String::from("settings are TOML"))
        })?;
        let origin = Origin::File(path.to_owned());
        for (section, values) in &table {
            let Some(values) = values.as_table() else {
                return Err(wrong(format!("`{section}` is no section"), known_sections()));
            };
            for (name, value) in values {
                self.set(section, name, value, &origin).map_err(|(message, hint)| wrong(message, hint))?;
            }
        }
        Ok(())
    }

    fn set(
        &mut self,
        section: &str,
        name: &str,
        value: &toml::Value,
        origin: &Origin,
    ) -> Result<(), (String, String)> {
        match section {
            // `task.REVIEW = "deny"` without quotes is a table in a table.
            POLICIES if states(value).is_some() => {
                for (state, value) in states(value).into_iter().flatten() {
                    self.set(section, &format!("{name}.{state}"), value, origin)?;
                }
            }
            POLICIES => {
                let policy = policy(value).map_err(|message| {
                    (
                        format!("{section}.{name}: {message}"),
                        String::from("a policy is \"hold\", \"deny\", a word to answer, or { answer = … }"),
                    )
                })?;
                self.policies.insert(name.to_owned(), (policy, origin.clone()));
            }
            AGENTS => {
                let Some(table) = value.as_table() else {
                    let hint = format!("describe it under [{AGENTS}.{name}]");
                    return Err((format!("{AGENTS}.{name} is no agent"), hint));
                };
                let said = self.agents.entry(name.to_owned()).or_default();
                said.extend(table.iter().map(|(key, one)| (key.clone(), (one.clone(), origin.clone()))));
            }
            ROLES => {
                let value = self.set_of_role(name, value, origin)?;
                self.roles.insert(name.to_owned(), (value, origin.clone()));
            }
            ENVIRONMENT => self.set_environment(name, value, origin)?,
            PROBES => {
                let Some(command) = value.as_str() else {
                    return Err((
                        format!("{section}.{name} is no text"),
                        String::from("a probe is a command line"),
                    ));
                };
                self.probes.insert(name.to_owned(), (command.to_owned(), origin.clone()));
            }
            _ if TEXTS.iter().any(|one| one.key == format!("{section}.{name}")) => {
                self.set_text(&format!("{section}.{name}"), value, origin)?;
            }
            _ => {
                let key = format!("{section}.{name}");
                let Some(known) = SETTINGS.iter().find(|one| one.key == key) else {
                    return Err((format!("there is no setting `{key}`"), near(&key)));
                };
                let amount = amount(known, value)
                    .map_err(|message| (format!("{key}: {message}"), known.about.to_owned()))?;
                self.amounts.insert(known.key, (amount, origin.clone()));
            }
        }
        Ok(())
    }

    /// Takes the settings of a role out of where it is bound: `builder = { agent = "x", tools = 40 }`.
    fn set_of_role(
        &mut self,
        role: &str,
        value: &toml::Value,
        origin: &Origin,
    ) -> Result<toml::Value, (String, String)> {
        let known = OF_ROLES.iter().find(|(name, _)| *name == role);
        let (Some((_, keys)), Some(table)) = (known, value.as_table()) else { return Ok(value.clone()) };
        let (own, bound): (toml::Table, toml::Table) =
            table.clone().into_iter().partition(|(key, _)| keys.contains(&key.as_str()));
        for (key, value) in &own {
            self.set(role, key, value, origin)?;
        }
        Ok(toml::Value::Table(bound))
    }

    /// Settings that contradict each other are refused before anything runs.
    fn is_sound(&self, path: &Path) -> Result<(), ConfigError> {
        for meter in ["tokens", "money", "time", "turns"] {
            let (limit, reserve) = (format!("limits.{meter}"), format!("reserve.{meter}"));
            if let (Some(most), Some(aside)) = (self.amount(&limit), self.amount(&reserve))
                && aside > most
            {
                let message = format!("{reserve} is larger than {limit}: no agent could ever be asked");
                let hint = format!("raise {limit} or lower {reserve}");
                return Err(ConfigError { path: path.to_owned(), message, hint });
            }
        }
        Ok(())
    }

    fn set_text(&mut self, key: &str, value: &toml::Value, origin: &Origin) -> Result<(), (String, String)> {
        let Some(known) = TEXTS.iter().find(|one| one.key == key) else { return Ok(()) };
        let text = match value.as_array().filter(|_| known.many) {
            Some(all) => {
                all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>().map(|all| all.join("\n"))
            }
            None => {
                let yes = value.as_bool().filter(|_| known.among.contains(&"true"));
                value.as_str().map(str::to_owned).or_else(|| yes.map(|yes| yes.to_string()))
            }
        };
        let Some(text) = text else {
            return Err((format!("{key} is no text"), known.about.to_owned()));
        };
        if !known.among.is_empty() && !known.among.contains(&text.as_str()) {
            let message = format!("{key} is none of {}", known.among.join(", "));
            return Err((message, known.about.to_owned()));
        }
        if known.key == "commit.template"
            && let Some(name) = unknown_placeholders(&text).first()
        {
            let hint = format!("a template may name {}", PLACEHOLDERS.join(", "));
            return Err((format!("commit.template: nobody fills in `{{{name}}}`"), hint));
        }
        self.texts.insert(known.key, (text, origin.clone()));
        Ok(())
    }

    /// A setting that is a word or a text.
    pub fn text(&self, key: &str) -> &str {
        self.texts.get(key).map_or("", |(text, _)| text.as_str())
    }

    /// Whether any setting of a section came with a repository.
    pub fn is_shared(&self, section: &str) -> bool {
        self.texts.iter().any(|(key, (_, origin))| key.starts_with(section) && origin.is_shared())
    }

    /// A setting that is a list of texts.
    pub fn texts(&self, key: &str) -> Vec<String> {
        self.text(key).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    fn amount(&self, key: &str) -> Option<u64> {
        self.amounts.get(key).and_then(|(amount, _)| *amount)
    }

    fn duration(&self, key: &str) -> Option<Duration> {
        self.amount(key).map(Duration::from_millis)
    }

    fn size(&self, key: &str) -> usize {
        self.amount(key).and_then(|amount| usize::try_from(amount).ok()).unwrap_or(0)
    }

    /// What a run that is opened now may use, and who stands in for people.
    pub fn terms(&self) -> Terms {
        let section = |section: &str| -> Usage {
            let keys = self
                .amounts
                .iter()
                .filter_map(|(key, (amount, _))| Some((Name::from(key.strip_prefix(section)?), (*amount)?)));
            keys.collect()
        };
        // A pull request is for a story; what flows build waits on its branch.
        let how = match self.text("landing.how") {
            PULL_REQUEST => "branch-only",
            how => how,
        };
        let how = Policy::Answer(Value::text(how));
        let landing = LANDINGS.iter().filter(|_| self.text("landing.how") != "ask");
        let landing = landing.map(|state| ((*state).to_owned(), how.clone()));
        // What somebody says about one state counts more than what is said about all landings.
        let said = self.policies.iter().map(|(key, (policy, _))| (key.clone(), policy.clone()));
        let policies = landing.chain(said);
        let (limits, reserve) = (section("limits."), section("reserve."));
        Terms {
            limits,
            reserve,
            policies: policies.collect(),
            accepted: Vec::new(),
            equal_failures: MAX_EQUAL_FAILURES,
        }
    }

    /// How long the checks of a pull request are waited for.
    pub fn checks(&self) -> Duration {
        self.duration("forge.checks").unwrap_or_default()
    }

    /// What builds may take.
    pub fn builds(&self) -> BuildSettings {
        let direct = match self.text("builder.direct") {
            "never" => DirectMode::Never,
            _ => DirectMode::Auto,
        };
        BuildSettings {
            given_tools: None,
            tools: self.amount("builder.tools"),
            tools_factor: self.amount("builder.tools_factor").unwrap_or(FACTOR_ONE),
            direct,
            repairs: self.amount("builder.repairs").unwrap_or(0),
            plan_reads: self.amount("builder.plan_reads").unwrap_or(0),
        }
    }

    /// How many calls an explorer has.
    pub fn explorer_calls(&self) -> u64 {
        self.amount("explorer.tools").unwrap_or(0)
    }

    /// How many work at the same time.
    pub fn width(&self) -> Width {
        let size = |key: &str| self.size(key).max(1);
        Width { agents: size("width.agents"), builds: size("width.builds"), actions: size("width.actions") }
    }

    /// The limits of a command's process.
    pub fn command_limits(&self) -> Limits {
        Limits {
            startup: None,
            silence: self.duration("process.silence"),
            soft: self.duration("process.soft"),
            hard: self.duration("process.hard"),
            grace: self.duration("process.grace").unwrap_or_default(),
            head: self.size("process.head"),
            tail: self.size("process.tail"),
            keep: self.amount("process.keep").unwrap_or(0),
            processes: self.amount("process.processes"),
            file_bytes: self.amount("process.file"),
            ..Limits::default()
        }
    }

    /// The limits of an agent's process.
    pub fn agent_limits(&self) -> Limits {
        Limits { startup: self.duration("process.startup"), ..self.command_limits() }
    }

    /// Whether an agent is bound to a role by the role's own name.
    pub fn names_role(&self, role: &str) -> bool {
        self.roles.contains_key(role)
    }

    /// Which agents there are and who answers which role.
    pub fn roster(&self) -> Result<Roster, ConfigError> {
        Ok(Roster::of(&self.agents, &self.roles)?.in_environment(&self.environment))
    }

    /// Whether every policy is about a protocol and a state that there are: one with a typing mistake would answer
    /// nobody. A person's own file may also speak of protocols of other repositories.
    pub fn check_policies(&self, library: &Library, own: &Path) -> Result<(), ConfigError> {
        for (key, (_, origin)) in &self.policies {
            let Origin::File(path) = origin else { continue };
            let (protocol, state) = key.split_once('.').map_or((key.as_str(), None), |(a, b)| (a, Some(b)));
            let wrong = |message: String, hint: String| {
                let message = format!("{POLICIES}.{key}: {message}");
                Err(ConfigError { path: path.clone(), message, hint })
            };
            match (library.states(protocol), state) {
                _ if key == "*" => {}
                (None, _) if path == own => {}
                (None, _) => {
                    let known: Vec<&str> = library.names().map(|(name, _)| &**name).collect();
                    let hint = match nearest(protocol, &known) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => {
                            String::from("`ftl protocols` lists them; a key is \"*\", NAME or NAME.STATE")
                        }
                    };
                    return wrong(format!("there is no protocol `{protocol}`"), hint);
                }
                (Some(found), Some(state)) if !found.is_empty() => {
                    let states: Vec<&str> = found.iter().map(|one| &**one).collect();
                    if !states.contains(&state) {
                        let hint = near_policy(protocol, state, &states);
                        return wrong(format!("{protocol} has no state `{state}`"), hint);
                    }
                }
                (Some(_), _) => {}
            }
        }
        Ok(())
    }

    /// The command that tells whether a service answers.
    pub fn probe(&self, service: &str) -> Option<&str> {
        self.probes.get(service).map(|(command, _)| command.as_str())
    }

    /// What the settings say about records.
    pub fn records(&self) -> RecordOptions {
        let text = |key: &str| self.text(key).to_owned();
        let embedder = match self.text("memory.embedder") {
            "endpoint" => EmbedderChoice::Endpoint(EndpointSettings {
                url: text("memory.url"),
                model: text("memory.model"),
                key: text("memory.key"),
            }),
            "minilm" => EmbedderChoice::MiniLm { folder: text("memory.folder") },
            _ => EmbedderChoice::Table,
        };
        RecordOptions { embedder, commands: self.commands() }
    }

    /// The commands of the project that the settings name.
    pub fn commands(&self) -> Commands {
        let text = |key: &str| Some(self.text(key).trim().to_owned()).filter(|text| !text.is_empty());
        let mut set = Commands {
            setup: text("worktree.setup"),
            tests: self.texts("worktree.tests"),
            lints: self.texts("worktree.lints"),
            build: text("worktree.build"),
            origins: BTreeMap::new(),
        };
        for (key, all) in [("worktree.tests", &set.tests), ("worktree.lints", &set.lints)] {
            set.origins.extend(all.iter().map(|one| (one.clone(), key.to_owned())));
        }
        for (key, one) in [("worktree.build", &set.build), ("worktree.setup", &set.setup)] {
            set.origins.extend(one.iter().map(|one| (one.clone(), key.to_owned())));
        }
        set
    }

    /// Every setting with its value and where it came from.
    pub fn shown(&self) -> Vec<Shown> {
        let mut shown: Vec<Shown> = SETTINGS.iter().filter_map(|one| self.show(one)).collect();
        for one in TEXTS {
            if let Some((value, origin)) = self.texts.get(one.key) {
                let (key, about) = (one.key.to_owned(), one.about.to_owned());
                shown.push(Shown { key, value: value.clone(), origin: origin.clone(), about });
            }
        }
        shown.extend(self.shown_environment());
        let agents = self.agents.iter().flat_map(|(name, said)| {
            said.iter().map(move |(key, one)| (format!("{AGENTS}.{name}.{key}"), one, "of an agent"))
        });
        let roles = self.roles.iter();
        let roles = roles.map(|(role, one)| (format!("{ROLES}.{role}"), one, "who answers the role"));
        for (key, (value, origin), about) in agents.chain(roles) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            shown.push(Shown { key, value, origin: origin.clone(), about: about.to_owned() });
        }
        for (name, (policy, origin)) in &self.policies {
            let value = match policy {
                Policy::Hold => String::from("hold"),
                Policy::Deny => String::from("deny"),
                Policy::Answer(value) => format!("answer {value}"),
            };
            let about = String::from("what happens where a person is asked");
            shown.push(Shown { key: format!("{POLICIES}.{name}"), value, origin: origin.clone(), about });
        }
        for (name, (command, origin)) in &self.probes {
            let about = String::from("tells whether the service answers");
            let (key, value) = (format!("{PROBES}.{name}"), command.clone());
            shown.push(Shown { key, value, origin: origin.clone(), about });
        }
        shown
    }

    fn show(&self, one: &Setting) -> Option<Shown> {
        let (amount, origin) = self.amounts.get(one.key)?;
        let value = amount.map_or_else(|| String::from("none"), |amount| one.unit.show(amount));
        let (key, about) = (one.key.to_owned(), one.about.to_owned());
        Some(Shown { key, value, origin: origin.clone(), about })
    }
}

fn read(file: &Path) -> Result<Option<String>, ConfigError> {
    let wrong =
        |message: String, hint: &str| ConfigError { path: file.to_owned(), message, hint: hint.to_owned() };
    let bytes = match folder::read_named(file, MAX_CONFIG_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            let message = format!("it has too many bytes; {MAX_CONFIG_BYTES} is the most");
            return Err(wrong(message, "settings are a short file"));
        }
        Err(error) => {
            let hint = folder::Refusal::of(&error).map(folder::Refusal::hint);
            let hint = hint.as_deref().unwrap_or("see what stands there");
            return Err(wrong(format!("it cannot be read: {error}"), hint));
        }
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|error| wrong(format!("it cannot be read: {error}"), "settings are UTF-8 text"))
}

fn amount(known: &Setting, value: &toml::Value) -> Result<Option<u64>, String> {
    let amount = any_amount(known, value)?;
    match amount {
        Some(amount) if amount > known.most => Err(format!(
            "{} is more than the most that it may be, {}",
            known.unit.show(amount),
            known.unit.show(known.most)
        )),
        amount => Ok(amount),
    }
}

fn any_amount(known: &Setting, value: &toml::Value) -> Result<Option<u64>, String> {
    match value {
        toml::Value::String(text) if text == "none" && known.optional => Ok(None),
        toml::Value::String(text) => known.unit.parse(text).map(Some),
        toml::Value::Integer(number) => known.unit.parse(&number.to_string()).map(Some),
        toml::Value::Float(number) => known.unit.parse(&number.to_string()).map(Some),
        toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_) => Err(known.unit.parse("").err().unwrap_or_default()),
    }
}

fn policy(value: &toml::Value) -> Result<Policy, String> {
    match value {
        toml::Value::String(word) => Ok(match word.as_str() {
            "hold" => Policy::Hold,
            "deny" => Policy::Deny,
            _ => Policy::Answer(Value::text(word)),
        }),
        toml::Value::Table(table) if table.len() == 1 && table.contains_key("answer") => {
            plain(&table["answer"]).map(Policy::Answer)
        }
        toml::Value::Table(_) | toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => {
            Err(String::from("this is no policy"))
        }
        toml::Value::Array(_) => plain(value).map(Policy::Answer),
        toml::Value::Datetime(_) => Err(String::from("this is no policy")),
    }
}

/// Policies by state, where a value is a table of them and no policy itself.
fn states(value: &toml::Value) -> Option<&toml::Table> {
    value.as_table().filter(|table| !table.contains_key("answer"))
}

/// A TOML value as a plain value of the language.
pub fn plain(value: &toml::Value) -> Result<Value, String> {
    let json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    serde_json::from_value(json).map_err(|error| error.to_string())
}

fn known_sections() -> String {
    let keys = SETTINGS.iter().map(|one| one.key).chain(TEXTS.iter().map(|one| one.key));
    let mut sections: Vec<&str> = keys.filter_map(|key| key.split('.').next()).collect();
    sections.dedup();
    format!(
        "the sections are {}, {AGENTS}, {ROLES}, {ENVIRONMENT}, {POLICIES} and {PROBES}",
        sections.join(", ")
    )
}

/// The state among those of a protocol that is called nearly like that, as a key of the policies.
fn near_policy(protocol: &str, state: &str, states: &[&str]) -> String {
    match nearest(state, states) {
        Some(near) => format!("did you mean `{protocol}.{near}`?"),
        None => format!("its states are {}", states.join(", ")),
    }
}

fn near(key: &str) -> String {
    let keys: Vec<&str> = SETTINGS.iter().map(|one| one.key).chain(TEXTS.iter().map(|one| one.key)).collect();
    match nearest(key, &keys) {
        Some(near) => format!("did you mean `{near}`? `ftl config` lists all of them"),
        None => String::from("`ftl config` lists all of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Result<Terms, ConfigError> {
        let mut config = Config::default();
        config.add(Path::new("config.toml"), text).map(|()| config.terms())
    }

    #[test]
    fn a_policy_of_a_state_needs_no_quotes() {
        let plain =
            terms("[policies]\ntask.REVIEW = \"deny\"\ntask.PLAN = { answer = [\"next\"] }\n").unwrap();
        let quoted = terms("[policies]\n\"task.REVIEW\" = \"deny\"\n\"task.PLAN\" = [\"next\"]\n").unwrap();
        assert_eq!(plain.policies, quoted.policies);
        assert_eq!(plain.policies.get("task.REVIEW"), Some(&Policy::Deny));
        let wrong = terms("[policies]\ntask.REVIEW = 3\n").unwrap_err();
        assert!(wrong.message.contains("policies.task.REVIEW"), "{wrong}");
    }

    #[test]
    fn how_work_lands_is_a_policy_that_a_policy_of_the_state_overrules() {
        let landing = |text: &str| terms(text).unwrap().policies.get("task.COMPLETE").cloned();
        assert_eq!(landing("[landing]\nhow = \"ask\"\n"), None);
        let squash = Policy::Answer(Value::text("squash"));
        assert_eq!(landing("[landing]\nhow = \"squash\"\n"), Some(squash));
        let both = "[landing]\nhow = \"ff\"\n[policies]\ntask.COMPLETE = \"deny\"\n";
        assert_eq!(landing(both), Some(Policy::Deny));
        let wrong = terms("[landing]\nhow = \"fast\"\n").unwrap_err();
        assert!(
            wrong.message.contains("landing.how is none of ask, ff, squash, branch-only, pull-request"),
            "{wrong}"
        );
    }

    #[test]
    fn a_list_of_texts_is_read_and_anything_else_in_it_is_refused() {
        let mut config = Config::default();
        config.add(Path::new("ftl.toml"), "[worktree]\ncopy = [\".env\", \"a b\"]\n").unwrap();
        assert_eq!(config.texts("worktree.copy"), [".env", "a b"]);
        assert!(terms("[worktree]\ncopy = [1]\n").unwrap_err().message.contains("worktree.copy"));
        assert!(terms("[worktree]\nsetup = [\"x\"]\n").unwrap_err().message.contains("no text"));
    }

    #[test]
    fn a_builder_s_settings_may_stand_where_its_role_is_bound() {
        let builds = |text: &str| {
            let mut config = Config::default();
            config.add(Path::new("ftl.toml"), text).map(|()| config.builds())
        };
        assert_eq!(builds("").unwrap(), BuildSettings::default());
        let wanted = BuildSettings {
            tools: Some(40),
            tools_factor: 1_500,
            direct: DirectMode::Never,
            repairs: 2,
            plan_reads: 12,
            ..BuildSettings::default()
        };
        let keys = "tools = 40\ntools_factor = 1.5\ndirect = \"never\"\nrepairs = 2\nplan_reads = 12\n";
        assert_eq!(builds(&format!("[builder]\n{keys}")).unwrap(), wanted);
        assert_eq!(builds(&format!("[roles.builder]\nagent = \"x\"\n{keys}")).unwrap(), wanted);
        for (wrong, told) in [
            ("[builder]\ntools = 1001\n", "builder.tools: 1001 is more than the most"),
            ("[builder]\nrepairs = 21\n", "builder.repairs: 21 is more"),
            ("[builder]\nplan_reads = 201\n", "builder.plan_reads: 201 is more"),
            ("[builder]\ntools_factor = 101\n", "builder.tools_factor: 101 is more"),
            ("[builder]\ndirect = \"always\"\n", "builder.direct is none of auto, never"),
            ("[builder]\nrepairs = \"none\"\n", "builder.repairs"),
            ("[roles]\nbuilder = { agent = \"x\", tools = 1001 }\n", "builder.tools: 1001 is more"),
        ] {
            let error = builds(wrong).unwrap_err();
            assert!(error.message.contains(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_is_kept_of_an_output_has_a_limit() {
        for (key, most, above) in
            [("head", "512 KiB", "513KiB"), ("tail", "512 KiB", "1GiB"), ("keep", "64 MiB", "65MiB")]
        {
            terms(&format!("[process]\n{key} = \"{most}\"\n")).unwrap();
            let wrong = terms(&format!("[process]\n{key} = \"{above}\"\n")).unwrap_err();
            assert!(wrong.message.contains(most) && wrong.message.contains(key), "{wrong}");
        }
    }
}
