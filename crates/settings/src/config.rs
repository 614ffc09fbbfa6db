//! Settings: what a run may use, who answers which role, who stands in for people, how long processes may
//! take.
//!
//! Every setting has a default, so that a cap is a cap before a person has written a file. Files are
//! read in order and later ones win; each value remembers where it came from. A key that is not declared
//! is an error: a cap with a typing mistake must not be no cap.

mod environment;
mod widening;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ftl_core::nearest::nearest;
use ftl_core::run::{MAX_EQUAL_FAILURES, Policy, Terms, Usage};
use ftl_core::value::{Name, Value};
use ftl_language::library::Library;

use crate::environment::{ENVIRONMENT, Environment};
use crate::origin::{ConfigError, Origin};
use crate::roster::{AGENTS, FieldsByName, ROLES, Roster};
use crate::sandbox::{SANDBOX, SandboxSettings};
use crate::settings::declare::Row;
use crate::settings::{EmbedderKind, LandingHow, Meter, ROWS, Section, Settings};
use crate::width::Width;
use ftl_code::commands::Commands;
use ftl_folder as folder;
use ftl_process::ProcessLimits;
use ftl_records::RecordOptions;
use ftl_records::build_budget::BuildSettings;
use ftl_records::embedder::{EmbedderChoice, EndpointSettings};
pub use widening::{SettingsFile, WIDENING};

/// The largest settings file that is read.
pub const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// Where the policies stand in a file.
const POLICIES: &str = "policies";

/// Where digests stand that a person trusts, in their own file.
const TRUST: &str = "trust";

/// Where commands that probe services stand in a file.
const PROBES: &str = "probes";

/// A command that agents must not know, so that no file of the repository may hold it.
const HELD_OUT: &str = "verify.held_out";

/// A setting with its value, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its key, as `section.name`.
    pub key: String,
    /// Its value, as a file would say it.
    pub value: String,
    /// The file that says the value, or the default.
    pub origin: Origin,
    /// What the setting means, in a sentence.
    pub about: String,
}

/// Everything that the files of settings say.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Settings,
    /// Which file said a setting, by its key; a setting that no file says is the default.
    origins: BTreeMap<&'static str, Origin>,
    policies: BTreeMap<String, (Policy, Origin)>,
    probes: BTreeMap<String, (String, Origin)>,
    agents: BTreeMap<String, FieldsByName>,
    roles: BTreeMap<String, (toml::Value, Origin)>,
    environment: Environment,
    sandbox: SandboxSettings,
    /// Whether commands get the default variables.
    defaults: (bool, Origin),
    /// The file that came with the repository.
    shared: Option<SettingsFile>,
    /// Digests of files that the person trusts.
    trusted: BTreeMap<String, Origin>,
    /// Who said whose home commands see that judge work.
    home: Origin,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            settings: Settings::default(),
            origins: BTreeMap::new(),
            policies: BTreeMap::new(),
            probes: BTreeMap::new(),
            agents: BTreeMap::new(),
            roles: BTreeMap::new(),
            environment: Environment::default(),
            sandbox: SandboxSettings::default(),
            defaults: (true, Origin::Default),
            shared: None,
            trusted: BTreeMap::new(),
            home: Origin::Default,
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
                if Origin::File(file.clone()).is_shared() {
                    config.shared = Some(SettingsFile { path: file.clone(), bytes: text.into_bytes() });
                }
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
            TRUST => self.set_trust(name, value, origin)?,
            SANDBOX => self.sandbox.set(name, value, origin)?,
            PROBES => {
                let Some(command) = value.as_str() else {
                    return Err((
                        format!("{section}.{name} is no text"),
                        String::from("a probe is a command line"),
                    ));
                };
                self.probes.insert(name.to_owned(), (command.to_owned(), origin.clone()));
            }
            _ => {
                let key = format!("{section}.{name}");
                let Some(row) = ROWS.iter().find(|row| row.key == key) else {
                    return Err((format!("there is no setting `{key}`"), near(&key)));
                };
                if row.key == HELD_OUT && origin.is_shared() {
                    let message =
                        format!("{key} stands in a file that came with the repository, which agents read");
                    return Err((
                        message,
                        String::from("say it in .ftl/config.toml or in your own settings"),
                    ));
                }
                (row.set)(&mut self.settings, &row.rule, value)
                    .map_err(|error| (error.message(row.key), error.hint(row.about)))?;
                self.origins.insert(row.key, origin.clone());
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
        let (Some(section), Some(table)) = (section_of_role(role), value.as_table()) else {
            return Ok(value.clone());
        };
        let is_setting = |key: &str| ROWS.iter().any(|row| row.section == section && row.name == key);
        let (own, bound): (toml::Table, toml::Table) =
            table.clone().into_iter().partition(|(key, _)| is_setting(key));
        for (key, value) in &own {
            self.set(role, key, value, origin)?;
        }
        Ok(toml::Value::Table(bound))
    }

    /// Settings that contradict each other are refused before anything runs.
    fn is_sound(&self, path: &Path) -> Result<(), ConfigError> {
        if self.is_shared(Section::Notify) {
            let message = String::from("[notify] stands in a file of the repository");
            let hint = String::from(
                "say it in .ftl/config.toml or in your own settings: nobody else tells you what to run, or whom to tell",
            );
            return Err(ConfigError { path: path.to_owned(), message, hint });
        }
        for Meter { name, limit: most, reserve: aside } in self.settings.meters() {
            let (limit, reserve) = (format!("limits.{name}"), format!("reserve.{name}"));
            if let (Some(most), Some(aside)) = (most, aside)
                && aside > most
            {
                let message = format!("{reserve} is larger than {limit}: no agent could ever be asked");
                let hint = format!("raise {limit} or lower {reserve}");
                return Err(ConfigError { path: path.to_owned(), message, hint });
            }
        }
        Ok(())
    }

    /// The value of every declared setting.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is said about sandboxes.
    pub fn sandbox(&self) -> &SandboxSettings {
        &self.sandbox
    }

    /// Whether any word or text of a section came with a repository.
    pub fn is_shared(&self, section: Section) -> bool {
        let texts = ROWS.iter().filter(|row| row.section == section && !row.is_amount);
        texts.filter_map(|row| self.origins.get(row.key)).any(Origin::is_shared)
    }

    /// What a run that is opened now may use, and who stands in for people: where a protocol asks how its work lands,
    /// the setting `landing.how`.
    pub fn terms(&self, library: &Library) -> Terms {
        let usage = |of: fn(&Meter) -> Option<u64>| -> Usage {
            self.settings.meters().iter().filter_map(|one| Some((Name::from(one.name), of(one)?))).collect()
        };
        let how = self.settings.landing.how;
        let landing = (how != LandingHow::Ask).then(|| library.deliveries()).into_iter().flatten();
        // A pull request is for a story; what flows build waits on its branch.
        let how = match how {
            LandingHow::PullRequest => LandingHow::BranchOnly,
            LandingHow::Ask | LandingHow::FastForward | LandingHow::Squash | LandingHow::BranchOnly => how,
        };
        let how = Policy::Answer(Value::text(how.word()));
        let landing = landing.map(|state| (state, how.clone()));
        // A policy about one state counts more than what is said about all landings.
        let said = self.policies.iter().map(|(key, (policy, _))| (key.clone(), policy.clone()));
        let policies = landing.chain(said);
        Terms {
            limits: usage(|one| one.limit),
            reserve: usage(|one| one.reserve),
            policies: policies.collect(),
            accepted: Vec::new(),
            equal_failures: MAX_EQUAL_FAILURES,
        }
    }

    /// The limits of builds.
    pub fn builds(&self) -> BuildSettings {
        let builder = &self.settings.builder;
        BuildSettings {
            given_tools: None,
            tools: builder.tools,
            tools_factor: builder.tools_factor,
            direct: builder.direct,
            repairs: builder.repairs,
            plan_reads: builder.plan_reads,
        }
    }

    /// How many work at the same time.
    pub fn width(&self) -> Width {
        let width = &self.settings.width;
        Width { agents: width.agents.max(1), builds: width.builds.max(1), actions: width.actions.max(1) }
    }

    /// The limits of a command's process.
    pub fn command_limits(&self) -> ProcessLimits {
        let process = &self.settings.process;
        ProcessLimits {
            startup: None,
            silence: process.silence,
            soft: process.soft,
            hard: process.hard,
            grace: process.grace,
            head: process.head,
            tail: process.tail,
            keep: process.keep,
            processes: process.processes,
            file_bytes: process.file,
            ..ProcessLimits::default()
        }
    }

    /// The limits of an agent's process.
    pub fn agent_limits(&self) -> ProcessLimits {
        ProcessLimits { startup: self.settings.process.startup, ..self.command_limits() }
    }

    /// Whether an agent is bound to a role by the role's own name.
    pub fn names_role(&self, role: &str) -> bool {
        self.roles.contains_key(role)
    }

    /// Which agents there are and who answers which role.
    pub fn roster(&self) -> Result<Roster, ConfigError> {
        Ok(Roster::of(&self.agents, &self.roles)?.in_environment(&self.environment))
    }

    /// Whether every policy is about a protocol and a state that there are: one with a typing mistake would never
    /// apply. A person's own file may also speak of protocols of other repositories.
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
        let memory = &self.settings.memory;
        let embedder = match memory.embedder {
            EmbedderKind::Static => EmbedderChoice::Table,
            EmbedderKind::MiniLm => EmbedderChoice::MiniLm { folder: memory.folder.clone() },
            EmbedderKind::Endpoint => EmbedderChoice::Endpoint(EndpointSettings {
                url: memory.url.clone(),
                model: memory.model.clone(),
                key: memory.key.clone(),
            }),
        };
        RecordOptions { embedder, withhold: memory.withhold, commands: self.commands() }
    }

    /// The commands of the project that the settings name.
    pub fn commands(&self) -> Commands {
        let worktree = &self.settings.worktree;
        let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut set = Commands {
            setup: text(&worktree.setup),
            tests: worktree.tests.clone(),
            lints: worktree.lints.clone(),
            build: text(&worktree.build),
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
    pub fn list_all(&self) -> Vec<Shown> {
        let mut shown: Vec<Shown> = rows().map(|row| self.show(row)).collect();
        shown.extend(self.shown_environment());
        shown.extend(self.shown_trust());
        shown.extend(self.sandbox.list_said().into_iter().map(|one| Shown {
            key: one.key,
            value: one.value,
            origin: one.origin,
            about: String::from("what is around agents and commands; only your own files say it"),
        }));
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

    fn show(&self, row: &Row) -> Shown {
        Shown {
            key: row.key.to_owned(),
            value: (row.show)(&self.settings, &row.rule),
            origin: self.origins.get(row.key).cloned().unwrap_or(Origin::Default),
            about: row.about.to_owned(),
        }
    }
}

/// The rows as they are listed: amounts first, then words and texts.
fn rows() -> impl Iterator<Item = &'static Row> {
    let (amounts, texts): (Vec<&Row>, Vec<&Row>) = ROWS.iter().partition(|row| row.is_amount);
    amounts.into_iter().chain(texts)
}

/// The section of which settings may also stand where a role is bound.
fn section_of_role(role: &str) -> Option<Section> {
    match role {
        "builder" => Some(Section::Builder),
        "explorer" => Some(Section::Explorer),
        _ => None,
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
            let hint = folder::FolderRefusal::of(&error).map(folder::FolderRefusal::hint);
            let hint = hint.as_deref().unwrap_or("see what stands there");
            return Err(wrong(format!("it cannot be read: {error}"), hint));
        }
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|error| wrong(format!("it cannot be read: {error}"), "settings are UTF-8 text"))
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
fn plain(value: &toml::Value) -> Result<Value, String> {
    let json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    serde_json::from_value(json).map_err(|error| error.to_string())
}

fn known_sections() -> String {
    let mut sections: Vec<&str> = ROWS.iter().filter_map(|row| row.key.split('.').next()).collect();
    sections.dedup();
    format!(
        "the sections are {}, {AGENTS}, {ROLES}, {ENVIRONMENT}, {SANDBOX}, {POLICIES}, {PROBES} and {TRUST}",
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
    match nearest(key, ROWS.iter().map(|row| row.key)) {
        Some(near) => format!("did you mean `{near}`? `ftl config` lists all of them"),
        None => String::from("`ftl config` lists all of them"),
    }
}

#[cfg(test)]
mod tests {
    use ftl_records::plan_file::DirectMode;

    use super::*;

    fn terms(text: &str) -> Result<Terms, ConfigError> {
        let mut config = Config::default();
        config.add(Path::new("config.toml"), text).map(|()| config.terms(&Library::built_in()))
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
        assert_eq!(config.settings().worktree.copy, [".env", "a b"]);
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
