//! The section `[environment]` of a file of settings: which variables commands get.

use ftl_agents::secrets::HIDDEN;

use super::{Config, Origin, Shown};
use crate::environment::{CommandKind, ENVIRONMENT, Environment, RuleError, VariableRule, is_secret};

/// Where the variables that are passed on, and those with a value, stand in the section.
const PASS: &str = "pass";
const SET: &str = "set";

/// Whether the list of defaults is passed on.
const DEFAULTS: &str = "defaults";

/// Whose home the commands see that judge work.
const HOME: &str = "home";

/// What is wrong, and what to do about it.
type Wrong = (String, String);

impl Config {
    /// The rules by which variables reach commands and programs.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Takes one key of the section.
    pub(super) fn set_environment(
        &mut self,
        name: &str,
        value: &toml::Value,
        origin: &Origin,
    ) -> Result<(), Wrong> {
        if name == DEFAULTS {
            let Some(flag) = value.as_bool() else {
                return Err((format!("{ENVIRONMENT}.{name} is neither true nor false"), hint()));
            };
            self.environment.set_defaults(flag);
            self.defaults = (flag, origin.clone());
            return Ok(());
        }
        if name == HOME {
            return self.set_home(value, origin);
        }
        match (CommandKind::parse(name), value.as_table()) {
            (Some(kind), Some(table)) => {
                for (key, value) in table {
                    self.add_variables((Some(kind), &format!("{name}.{key}"), key), value, origin)?;
                }
                Ok(())
            }
            (_, _) => self.add_variables((None, name, name), value, origin),
        }
    }

    /// Whose home the commands see that judge work. A file that came with a repository cannot open the person's.
    fn set_home(&mut self, value: &toml::Value, origin: &Origin) -> Result<(), Wrong> {
        let is_own = match value.as_str() {
            Some("own") => true,
            Some("new") => false,
            Some(_) | None => {
                let message = format!("{ENVIRONMENT}.{HOME} is neither \"new\" nor \"own\"");
                return Err((message, String::from("`own` is your own home, `new` an empty one each time")));
            }
        };
        if is_own && origin.is_shared() {
            let message =
                format!("{ENVIRONMENT}.{HOME}: a file that came with a repository would open your home");
            return Err((message, String::from("say it in .ftl/config.toml or in your own settings")));
        }
        self.environment.set_own_home(is_own);
        self.home = origin.clone();
        Ok(())
    }

    fn add_variables(
        &mut self,
        (kind, path, key): (Option<CommandKind>, &str, &str),
        value: &toml::Value,
        origin: &Origin,
    ) -> Result<(), Wrong> {
        let rules = match key {
            PASS => {
                passed(value).ok_or_else(|| (format!("{ENVIRONMENT}.{path} is no list of names"), hint()))
            }
            SET => {
                values(value).ok_or_else(|| (format!("{ENVIRONMENT}.{path} is no table of texts"), hint()))
            }
            _ => Err((format!("there is no setting `{ENVIRONMENT}.{path}`"), hint())),
        };
        for (name, rule) in rules? {
            let wrong =
                |error: RuleError| (format!("{ENVIRONMENT}.{path}: {error}"), error.hint().to_owned());
            self.environment.add(kind, &name, rule, origin).map_err(wrong)?;
        }
        Ok(())
    }

    /// The section as people see it.
    pub(super) fn shown_environment(&self) -> Vec<Shown> {
        let (flag, origin) = &self.defaults;
        let mut all = vec![Shown {
            key: format!("{ENVIRONMENT}.{DEFAULTS}"),
            value: flag.to_string(),
            origin: origin.clone(),
            about: String::from(
                "whether commands get toolchain homes, proxies, certificates, locale and CI; `ftl doctor` shows them",
            ),
        }];
        all.push(Shown {
            key: format!("{ENVIRONMENT}.{HOME}"),
            value: String::from(if self.environment.has_own_home() { "own" } else { "new" }),
            origin: self.home.clone(),
            about: String::from("whose home commands see that judge work: your own, or a new one each time"),
        });
        for (kind, name, rule, origin) in self.environment.rules() {
            let section =
                kind.map_or_else(|| ENVIRONMENT.to_owned(), |kind| format!("{ENVIRONMENT}.{}", kind.word()));
            let (word, value) = match rule {
                VariableRule::Pass => (PASS, name.to_owned()),
                VariableRule::Set(value) if is_secret(name, value.as_ref()) => {
                    (SET, format!("{name}={HIDDEN}"))
                }
                VariableRule::Set(value) => (SET, format!("{name}={value}")),
            };
            let about = String::from("a variable that commands get");
            all.push(Shown { key: format!("{section}.{word}"), value, origin: origin.clone(), about });
        }
        all
    }
}

fn passed(value: &toml::Value) -> Option<Vec<(String, VariableRule)>> {
    let names = value.as_array()?;
    names.iter().map(|one| Some((one.as_str()?.to_owned(), VariableRule::Pass))).collect()
}

fn values(value: &toml::Value) -> Option<Vec<(String, VariableRule)>> {
    let table = value.as_table()?;
    table
        .iter()
        .map(|(name, one)| Some((name.clone(), VariableRule::Set(one.as_str()?.to_owned()))))
        .collect()
}

fn hint() -> String {
    let kinds: Vec<&str> = CommandKind::ALL.iter().map(|kind| kind.word()).collect();
    format!(
        "write {PASS} = [\"NAME\"], {SET} = {{ NAME = \"value\" }} or {DEFAULTS} = false under [{ENVIRONMENT}], \
         or for one kind of command under [{ENVIRONMENT}.KIND]: {}",
        kinds.join(", ")
    )
}
