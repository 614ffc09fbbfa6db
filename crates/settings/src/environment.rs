//! The variables that commands and agents' programs get: a list of defaults, and what the settings pass on or set.
//!
//! An environment is built from nothing. A variable that holds a secret, by its name or by the look of its value, is
//! passed on only where the person's own settings name it: a file that came with a repository must not choose who gets
//! it. What such a file sets reaches the commands of the repository, never the program of an agent, which may hold a
//! key. Nothing here starts anything.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use ftl_agents::secrets::{is_secret_name, is_secret_variable};
use ftl_agents::variables::defaults;

use crate::home::leave_home;
use crate::origin::Origin;

/// Where variables of commands stand in a file of settings.
pub const ENVIRONMENT: &str = "environment";

/// What every command gets: where programs are, and who the user is.
const ALWAYS: [&str; 5] = ["PATH", "HOME", "USER", "LOGNAME", "TMPDIR"];

/// What commands are told beside: no terminal, and no caches of Python beside its sources, which a
/// repository without a list of what to ignore would take for work.
const TOLD: [(&str, &str); 2] = [("TERM", "dumb"), ("PYTHONDONTWRITEBYTECODE", "1")];

/// What judges work; it sees nothing of the person's home.
const JUDGES: [CommandKind; 2] = [CommandKind::Tests, CommandKind::Verify];

/// The most variables that the settings may name.
pub const MAX_VARIABLES: usize = 256;

/// What a command is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandKind {
    /// It makes a new worktree ready.
    Setup,
    /// It tests a story.
    Tests,
    /// It checks format and lints of a story.
    Lint,
    /// It shows whether a task is done.
    Verify,
    /// It looks at a file before a task is verified.
    Preflight,
    /// It looks at a blocked task again.
    Observe,
    /// It is a script of a protocol, or the probe of a service.
    Sh,
    /// An agent runs it.
    Agent,
}

impl CommandKind {
    /// All kinds, in the order of declaration.
    pub const ALL: [CommandKind; 8] = [
        CommandKind::Setup,
        CommandKind::Tests,
        CommandKind::Lint,
        CommandKind::Verify,
        CommandKind::Preflight,
        CommandKind::Observe,
        CommandKind::Sh,
        CommandKind::Agent,
    ];

    /// The word in settings.
    pub const fn word(self) -> &'static str {
        match self {
            CommandKind::Setup => "setup",
            CommandKind::Tests => "tests",
            CommandKind::Lint => "lint",
            CommandKind::Verify => "verify",
            CommandKind::Preflight => "preflight",
            CommandKind::Observe => "observe",
            CommandKind::Sh => "sh",
            CommandKind::Agent => "agent",
        }
    }

    /// The kind of a word.
    pub fn parse(word: &str) -> Option<CommandKind> {
        CommandKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// What is said of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableRule {
    /// It is passed on as it is.
    Pass,
    /// It has this value.
    Set(String),
}

/// Why a rule for a variable is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No variable can have that name.
    BadName(String),
    /// The name says that it is a secret, and the file came with the repository.
    SharedSecret(String),
    /// The value cannot be given to a process.
    BadValue(String),
    /// There are too many.
    TooMany,
}

impl RuleError {
    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            RuleError::BadName(_) => {
                "a name has letters, digits and _, and does not begin with a digit or FTL_"
            }
            RuleError::SharedSecret(_) => {
                "say it in .ftl/config.toml or in your own settings, where no repository can change it"
            }
            RuleError::BadValue(_) => "leave the character with the code 0 out",
            RuleError::TooMany => "name only what commands need",
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::BadName(name) => write!(out, "`{name}` is no name of a variable"),
            RuleError::SharedSecret(name) => {
                write!(out, "a file that came with a repository would choose who gets {name}")
            }
            RuleError::BadValue(name) => write!(out, "the value of {name} cannot be given to a process"),
            RuleError::TooMany => write!(out, "more than {MAX_VARIABLES} variables are named"),
        }
    }
}

impl std::error::Error for RuleError {}

/// A variable that is there and not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The name of the variable.
    pub name: String,
    /// The file whose rule would pass it on, or `the defaults`.
    pub by: String,
}

/// What commands see of our surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    has_defaults: bool,
    /// Whether what judges work sees the person's own home.
    has_own_home: bool,
    rules: BTreeMap<(Option<CommandKind>, String), (VariableRule, Origin)>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { has_defaults: true, has_own_home: false, rules: BTreeMap::new() }
    }
}

/// A way to find a variable of our own environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Environment {
    /// The same with the list of defaults, or without it.
    pub fn set_defaults(&mut self, has_defaults: bool) {
        self.has_defaults = has_defaults;
    }

    /// The same where what judges work sees the person's own home, or a new one each time.
    pub fn set_own_home(&mut self, has_own_home: bool) {
        self.has_own_home = has_own_home;
    }

    /// Whether what judges work sees the person's own home.
    pub fn has_own_home(&self) -> bool {
        self.has_own_home
    }

    /// Adds what is said of a variable, for commands of one kind or of all.
    pub fn add(
        &mut self,
        kind: Option<CommandKind>,
        name: &str,
        rule: VariableRule,
        origin: &Origin,
    ) -> Result<(), RuleError> {
        check_name(name)?;
        if origin.is_shared() && is_secret_to_settings(name) {
            return Err(RuleError::SharedSecret(name.to_owned()));
        }
        if matches!(&rule, VariableRule::Set(value) if value.contains('\0')) {
            return Err(RuleError::BadValue(name.to_owned()));
        }
        self.rules.insert((kind, name.to_owned()), (rule, origin.clone()));
        if self.rules.len() > MAX_VARIABLES { Err(RuleError::TooMany) } else { Ok(()) }
    }

    /// The whole environment of a command, with the variables of this process.
    pub fn of_command(&self, kind: CommandKind) -> Vec<(OsString, OsString)> {
        self.resolve(&[kind], &|name| std::env::var_os(name))
    }

    /// The environment of a command that looks at work which tasks and stories have made.
    pub fn of_delivery(&self) -> Vec<(OsString, OsString)> {
        self.resolve(&[CommandKind::Tests, CommandKind::Verify], &|name| std::env::var_os(name))
    }

    fn resolve(&self, kinds: &[CommandKind], variable: Variable<'_>) -> Vec<(OsString, OsString)> {
        let mut found: BTreeMap<OsString, OsString> = BTreeMap::new();
        let ours = ALWAYS.iter().filter_map(|name| Some((OsString::from(name), variable(name)?)));
        found.extend(ours);
        for (name, value) in self.defaults(variable).filter(|(name, value)| !is_secret(name, value)) {
            found.insert(name.into(), value);
        }
        found.extend(TOLD.map(|(name, value)| (name.into(), value.into())));
        if !self.has_own_home && kinds.iter().any(|kind| JUDGES.contains(kind)) {
            leave_home(&mut found, &|folder| ftl_folder::is_folder(folder));
        }
        for (name, rule, origin) in self.rules_of(kinds) {
            match rule {
                VariableRule::Set(value) => drop(found.insert(name.into(), value.into())),
                VariableRule::Pass => {
                    let value = variable(name).filter(|value| is_open_to(origin, name, value));
                    found.extend(value.map(|value| (OsString::from(name), value)));
                }
            }
        }
        found.into_iter().collect()
    }

    /// What the program of an agent gets beside what is its own: the defaults, and what the person's own settings say.
    /// Where a program of an agent looks for its service is never a repository's choice.
    pub fn of_program(&self, variable: Variable<'_>) -> Vec<(String, OsString)> {
        let mut found: BTreeMap<String, OsString> = BTreeMap::new();
        let open = self.defaults(variable).filter(|(name, value)| !is_secret(name, value));
        found.extend(open.map(|(name, value)| (name.to_owned(), value)));
        for (name, rule, _) in
            self.rules_of(&[CommandKind::Agent]).filter(|(_, _, origin)| !origin.is_shared())
        {
            let value = match rule {
                VariableRule::Set(value) => Some(OsString::from(value)),
                VariableRule::Pass => variable(name),
            };
            found.extend(value.map(|value| (name.to_owned(), value)));
        }
        found.into_iter().collect()
    }

    /// The variables that are there, and that commands do not get because they hold a secret.
    pub fn withheld(&self, variable: Variable<'_>) -> Vec<Withheld> {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in self.defaults(variable) {
            if is_secret(name, &value) {
                all.insert(name.to_owned(), String::from("the defaults"));
            }
        }
        let mut named = Vec::new();
        for ((_, name), (rule, origin)) in &self.rules {
            let Some(value) = variable(name).filter(|_| *rule == VariableRule::Pass) else { continue };
            match is_open_to(origin, name, &value) {
                true => named.push(name),
                false => drop(all.insert(name.clone(), origin.to_string())),
            }
        }
        for name in named {
            all.remove(name);
        }
        all.into_iter().map(|(name, by)| Withheld { name, by }).collect()
    }

    /// Every rule: its kind, the variable, what is said and where.
    pub fn rules(&self) -> impl Iterator<Item = (Option<CommandKind>, &str, &VariableRule, &Origin)> {
        self.rules.iter().map(|((kind, name), (rule, origin))| (*kind, name.as_str(), rule, origin))
    }

    /// The values that the settings themselves give and that no output may show.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|((_, name), (rule, _))| match rule {
            VariableRule::Set(value) => is_secret(name, OsStr::new(value)).then_some(value.as_str()),
            VariableRule::Pass => None,
        })
    }

    /// The names of variables that the person's own settings pass on.
    pub fn passed(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|((_, name), (rule, _))| match rule {
            VariableRule::Pass => Some(name.as_str()),
            VariableRule::Set(_) => None,
        })
    }

    fn defaults(&self, variable: Variable<'_>) -> impl Iterator<Item = (&'static str, OsString)> {
        let has = self.has_defaults;
        defaults().filter(move |name| has || is_language(name)).filter_map(move |name| {
            let value = variable(name)?;
            (!value.is_empty()).then_some((name, value))
        })
    }

    /// What is said for all commands, then what is said for some kinds.
    fn rules_of<'a>(
        &'a self,
        kinds: &'a [CommandKind],
    ) -> impl Iterator<Item = (&'a str, &'a VariableRule, &'a Origin)> {
        let counts = |kind: &Option<CommandKind>| kind.is_none_or(|kind| kinds.contains(&kind));
        let of = move |((kind, name), (rule, origin)): (
            &'a (Option<CommandKind>, String),
            &'a (VariableRule, Origin),
        )| { counts(kind).then_some((name.as_str(), rule, origin)) };
        self.rules.iter().filter_map(of)
    }
}

/// The language and the time zone are passed on also where nothing else is by default.
fn is_language(name: &str) -> bool {
    matches!(name, "LANG" | "LC_ALL" | "TZ")
}

/// A variable with one of these in its name holds a key.
const KEY_WORDS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Whether a variable holds what must never be seen, by its name.
pub(crate) fn has_key_word(name: &str) -> bool {
    KEY_WORDS.iter().any(|word| name.contains(word))
}

/// Whether a variable holds a secret, by its name or by the look of its value.
pub(crate) fn is_secret(name: &str, value: &OsStr) -> bool {
    is_secret_to_settings(name) || is_secret_variable(name, &value.to_string_lossy())
}

/// Whether a name says that it is a secret, as strictly as for the keys of agents.
fn is_secret_to_settings(name: &str) -> bool {
    has_key_word(name) || is_secret_name(name)
}

/// Whether settings of that origin may pass a variable on.
fn is_open_to(origin: &Origin, name: &str, value: &OsStr) -> bool {
    !origin.is_shared() || !is_secret(name, value)
}

fn check_name(name: &str) -> Result<(), RuleError> {
    let is_letter = |one: u8| one.is_ascii_alphanumeric() || one == b'_';
    let is_name = !name.is_empty() && name.bytes().all(is_letter) && !name.as_bytes()[0].is_ascii_digit();
    // Ours tell a process which run and which action it belongs to.
    if is_name && !name.starts_with("FTL_") { Ok(()) } else { Err(RuleError::BadName(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn own() -> Origin {
        Origin::File(PathBuf::from(".ftl/config.toml"))
    }

    fn shared() -> Origin {
        Origin::File(PathBuf::from("ftl.toml"))
    }

    fn variable(name: &str) -> Option<OsString> {
        let value = match name {
            "PATH" => "/bin",
            "JAVA_HOME" => "/opt/java",
            "HTTPS_PROXY" => "http://ada:s3cret-pass@proxy",
            "DATABASE_URL" => "postgres://ada:s3cret-pass@db/x",
            "GITHUB_TOKEN" => "0123456789abcdef",
            "PLAIN" => "plain",
            "EDITOR" => "vi",
            _ => return None,
        };
        Some(OsString::from(value))
    }

    fn render_pairs(pairs: Vec<(OsString, OsString)>) -> String {
        let mut pairs: Vec<String> = pairs
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .filter(|pair| !pair.starts_with("TERM=") && !pair.starts_with("PYTHONDONT"))
            .collect();
        pairs.sort();
        pairs.join(" ")
    }

    #[test]
    fn toolchains_are_passed_on_and_secrets_are_not() {
        let environment = Environment::default();
        let seen = render_pairs(environment.resolve(&[CommandKind::Tests], &variable));
        assert_eq!(seen, "JAVA_HOME=/opt/java PATH=/bin");
        let withheld = environment.withheld(&variable);
        let withheld: Vec<&str> = withheld.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(withheld, ["HTTPS_PROXY"], "a proxy with a password");
        let mut none = Environment::default();
        none.set_defaults(false);
        assert_eq!(render_pairs(none.resolve(&[CommandKind::Tests], &variable)), "PATH=/bin");
    }

    #[test]
    fn a_kind_gets_what_is_said_for_it_and_for_all() {
        let mut environment = Environment::default();
        environment.add(None, "PLAIN", VariableRule::Pass, &own()).unwrap();
        environment
            .add(Some(CommandKind::Tests), "PLAIN", VariableRule::Set("other".into()), &own())
            .unwrap();
        environment
            .add(Some(CommandKind::Setup), "MODE", VariableRule::Set("setup".into()), &shared())
            .unwrap();
        let of = |kind| render_pairs(environment.resolve(&[kind], &variable));
        assert_eq!(of(CommandKind::Verify), "JAVA_HOME=/opt/java PATH=/bin PLAIN=plain");
        assert_eq!(of(CommandKind::Tests), "JAVA_HOME=/opt/java PATH=/bin PLAIN=other");
        assert_eq!(of(CommandKind::Setup), "JAVA_HOME=/opt/java MODE=setup PATH=/bin PLAIN=plain");
        for kind in CommandKind::ALL {
            assert_eq!(CommandKind::parse(kind.word()), Some(kind));
        }
    }

    #[test]
    fn a_secret_is_passed_on_by_its_owner_alone() {
        let mut theirs = Environment::default();
        theirs.add(None, "DATABASE_URL", VariableRule::Pass, &shared()).unwrap();
        assert!(!render_pairs(theirs.resolve(&[CommandKind::Tests], &variable)).contains("DATABASE_URL"));
        let withheld = theirs.withheld(&variable);
        assert!(
            withheld.iter().any(|one| one.name == "DATABASE_URL" && one.by == "ftl.toml"),
            "{withheld:?}"
        );
        let refused = theirs.add(None, "GITHUB_TOKEN", VariableRule::Pass, &shared());
        assert_eq!(refused, Err(RuleError::SharedSecret("GITHUB_TOKEN".into())));
        let mut mine = Environment::default();
        for name in ["DATABASE_URL", "GITHUB_TOKEN", "HTTPS_PROXY"] {
            mine.add(None, name, VariableRule::Pass, &own()).unwrap();
        }
        let seen = render_pairs(mine.resolve(&[CommandKind::Sh], &variable));
        assert!(
            seen.contains("DATABASE_URL=") && seen.contains("GITHUB_TOKEN=") && seen.contains("HTTPS_PROXY=")
        );
        assert_eq!(mine.withheld(&variable), []);
        mine.add(None, "DEPLOY_PASSWORD", VariableRule::Set("hunter2-long".into()), &own()).unwrap();
        assert_eq!(mine.secrets().collect::<Vec<_>>(), ["hunter2-long"]);
    }

    #[test]
    fn a_repository_sets_nothing_for_the_program_of_an_agent() {
        let mut environment = Environment::default();
        environment
            .add(None, "ANTHROPIC_BASE_URL", VariableRule::Set("http://evil".into()), &shared())
            .unwrap();
        environment.add(None, "EDITOR", VariableRule::Pass, &shared()).unwrap();
        environment.add(Some(CommandKind::Agent), "PLAIN", VariableRule::Pass, &own()).unwrap();
        environment.add(Some(CommandKind::Tests), "OTHER", VariableRule::Set("x".into()), &own()).unwrap();
        let names: Vec<String> =
            environment.of_program(&variable).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["JAVA_HOME", "PLAIN"]);
    }

    #[test]
    fn names_and_their_number_have_a_limit() {
        let mut environment = Environment::default();
        for name in ["", "1X", "A-B", "A B", "FTL_KEY"] {
            let refused = environment.add(None, name, VariableRule::Pass, &own());
            assert_eq!(refused, Err(RuleError::BadName(name.into())), "{name}");
        }
        let value = VariableRule::Set("a\0b".into());
        assert!(matches!(environment.add(None, "A", value, &own()), Err(RuleError::BadValue(_))));
        for number in 0..MAX_VARIABLES {
            environment.add(None, &format!("V{number}"), VariableRule::Pass, &own()).unwrap();
        }
        assert_eq!(environment.add(None, "ONE_MORE", VariableRule::Pass, &own()), Err(RuleError::TooMany));
    }
}
