//! The settings of agents that are programs of their own.
//!
//! What a program gets of the person's surroundings is named: variables one by one, and the home only where
//! the settings say so. A file that came with a repository may not choose a program, or what it is told,
//! and have a key of the person passed to it.

use std::path::Path;
use std::sync::Arc;

use ftl_agents::acp::Habits;
use ftl_agents::cli::{Adapter, MAX_ADAPTER_BYTES};

use super::fields::Reader;
use super::{Adapted, AgentEnvironment, Spoken, keys};
use crate::environment::{CommandKind, Environment, VariableRule, has_key_word};
use crate::origin::{ConfigError, Origin};

/// The homes in which an agent's program may live.
const HOMES: [&str; 2] = ["private", "own"];

/// What an agent of this kind is like, by those that were tried.
const LIKE: [&str; 5] = ["goose", "claude", "codex", "qwen", "gemini"];

pub(super) fn spoken(reader: &mut Reader<'_>) -> Result<Spoken, ConfigError> {
    let (program, args) = (reader.needed_text("program")?, reader.list("args")?);
    let mut habits = match reader.word("like", &LIKE)? {
        Some(like) => Habits::of(&like).unwrap_or_else(Habits::unknown),
        None => Habits::unknown(),
    };
    if let Some(mode) = reader.text("mode")? {
        habits.mode = Some(mode);
    }
    habits.options.extend(reader.texts("options")?);
    let around = surroundings(reader)?;
    is_chosen_by_its_owner(reader, around.pass.iter().map(String::as_str))?;
    let resume = reader.flag("resume")?.unwrap_or(false);
    Ok(Spoken { program, args, habits, around, resume })
}

pub(super) fn adapted(reader: &mut Reader<'_>) -> Result<Adapted, ConfigError> {
    let named = reader.needed_text("adapter")?;
    let adapter = match Adapter::names().any(|one| one == named) {
        true => Adapter::built_in(&named).map_err(|error| error.to_string()),
        false if named.ends_with(".toml") => {
            let path = reader.needed_path("adapter")?;
            own(&path)
        }
        false => Adapter::built_in(&named).map_err(|error| error.to_string()),
    };
    let adapter = adapter.map_err(|why| {
        reader.wrong("adapter", why, "an adapter is one of those, or the path of a file that ends in .toml")
    })?;
    let values = reader.texts("settings")?;
    let known = adapter.settings();
    if let Some((name, _)) = values.iter().find(|(name, _)| !known.contains(name)) {
        let message = format!("the adapter {} has no setting `{name}`", adapter.name);
        return Err(reader.wrong("settings", message, &format!("it has {}", known.join(", "))));
    }
    let given = |name: &String| values.iter().any(|(one, _)| one == name);
    let default = |name: &String| adapter.defaults.iter().any(|(one, _)| one == name);
    if let Some(name) = known.iter().find(|name| !given(name) && !default(name)) {
        let message = format!("the adapter {} needs the setting `{name}`", adapter.name);
        return Err(reader.wrong("settings", message, &format!("write settings = {{ {name} = \"…\" }}")));
    }
    let (program, model) = (reader.text("program")?.map(Into::into), reader.text("model")?);
    let mut around = surroundings(reader)?;
    around.pass.extend(adapter.variables().map(str::to_owned));
    is_chosen_by_its_owner(reader, around.pass.iter().map(String::as_str))?;
    Ok(Adapted { adapter: Arc::new(adapter), program, model, values: values.into_iter().collect(), around })
}

fn own(path: &Path) -> Result<Adapter, String> {
    let most = MAX_ADAPTER_BYTES as u64;
    let text = ftl_folder::read_named(path, most).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::IsADirectory => {
            format!("{} is no file of at most {most} bytes", path.display())
        }
        _ => format!("{}: {error}", path.display()),
    })?;
    let text = String::from_utf8(text).map_err(|error| format!("{}: {error}", path.display()))?;
    Adapter::parse(&text).map_err(|faults| format!("{}:\n{faults}", path.display()))
}

fn surroundings(reader: &mut Reader<'_>) -> Result<AgentEnvironment, ConfigError> {
    let own_home = reader.word("home", &HOMES)?.as_deref() == Some("own");
    Ok(AgentEnvironment {
        pass: reader.list("env")?,
        set: reader.texts("set")?.into_iter().collect(),
        own_home,
    })
}

/// The variables of commands that an agent without a program of its own has us run.
pub(super) fn variables(reader: &mut Reader<'_>) -> Result<Vec<(String, VariableRule, Origin)>, ConfigError> {
    let passed = reader.list("env")?.into_iter().map(|name| ("env", name, VariableRule::Pass));
    let set = reader.texts("set")?.into_iter().map(|(name, value)| ("set", name, VariableRule::Set(value)));
    let mut checked = Environment::default();
    let mut all = Vec::new();
    for (key, name, rule) in passed.chain(set) {
        let origin = reader.origin_of(key);
        let added = checked.add(Some(CommandKind::Agent), &name, rule.clone(), &origin);
        added.map_err(|error| reader.wrong(key, error.to_string(), error.hint()))?;
        all.push((name, rule, origin));
    }
    Ok(all)
}

/// A key goes to a program that its owner chose, with words that its owner chose.
fn is_chosen_by_its_owner<'a>(
    reader: &Reader<'_>,
    passed: impl Iterator<Item = &'a str>,
) -> Result<(), ConfigError> {
    let Some(secret) = passed.into_iter().find(|name| has_key_word(name)) else { return Ok(()) };
    let own_adapter = |key: &str| key != "adapter" || reader.is_path(key);
    let chosen = ["program", "args", "adapter", "env", "set", "settings"];
    let shared =
        chosen.into_iter().find(|key| reader.is_shared(key) && own_adapter(key) && !reader.is_local(key));
    match shared {
        None => Ok(()),
        Some(key) => {
            let message = format!("a file that came with a repository would choose who gets {secret}");
            let hint =
                "say it in .ftl/config.toml or in your own settings, where no repository can change it";
            Err(reader.wrong(key, message, hint))
        }
    }
}

/// Whether an address in a setting leads to this machine.
pub(super) fn leads_here(text: &str) -> bool {
    text.contains("://") && keys::is_this_machine(keys::host(text))
}
