//! Reading the settings of one agent: every key once, and no key that is not declared.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ftl_agents::model::price::{Price, Prices};
use ftl_core::nearest::nearest;

use super::keys::{self, KeySource};
use super::{AGENTS, FieldsByName, Pricing, wrong};
use crate::origin::{ConfigError, Origin};
use ftl_core::amount::Unit;

/// The kinds of agents, as settings name them.
pub(super) const KINDS: [&str; 4] = ["scripted", "model", "acp", "cli"];

/// How a price is written.
const PRICE_HINT: &str = "write 0 for a local model, \"subscription\", \"unknown\", or for a model service \
    { input = 3, cached = 0.3, stored = 3.75, output = 15 }, for a million tokens";

/// Whether a price is nothing at all.
fn is_nothing(value: &toml::Value) -> bool {
    value.as_integer() == Some(0) || value.as_float() == Some(0.0)
}

/// Reads the settings of one agent.
pub(super) struct Reader<'a> {
    name: &'a str,
    said: &'a FieldsByName,
    asked: BTreeSet<&'static str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(name: &'a str, said: &'a FieldsByName) -> Reader<'a> {
        Reader { name, said, asked: BTreeSet::new() }
    }

    fn take(&mut self, key: &'static str) -> Option<&'a toml::Value> {
        self.asked.insert(key);
        self.said.get(key).map(|(value, _)| value)
    }

    /// Where the agent is described: where its kind stands.
    pub(super) fn origin(&self) -> Origin {
        let of = self.said.get("kind").or_else(|| self.said.values().next());
        of.map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// The origin of a value.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.said.get(key).map_or_else(|| self.origin(), |(_, origin)| origin.clone())
    }

    /// Whether a value came with the repository.
    pub(super) fn is_shared(&self, key: &str) -> bool {
        self.said.get(key).is_some_and(|(_, origin)| origin.is_shared())
    }

    /// Whether a value is the path of a file.
    pub(super) fn is_path(&self, key: &str) -> bool {
        self.said.get(key).and_then(|(value, _)| value.as_str()).is_some_and(|text| text.ends_with(".toml"))
    }

    /// Whether all that a table says are addresses of this machine, and words that are no addresses do not
    /// count as such.
    pub(super) fn is_local(&self, key: &str) -> bool {
        let table = self.said.get(key).and_then(|(value, _)| value.as_table());
        table.is_some_and(|table| {
            table.values().all(|one| one.as_str().is_some_and(super::programs::leads_here))
        })
    }

    /// What is wrong with a key.
    pub(super) fn wrong(&self, key: &str, message: impl AsRef<str>, hint: &str) -> ConfigError {
        wrong(
            &self.origin_of(key),
            format!("{AGENTS}.{}.{key}: {}", self.name, message.as_ref()),
            hint.to_owned(),
        )
    }

    pub(super) fn missing(&self, key: &str) -> ConfigError {
        let hint = match key {
            "kind" => format!("the kinds are {}", KINDS.join(", ")),
            "dialect" => String::from("the dialects are chat, responses and anthropic"),
            _ => String::from("`ftl init` shows what an agent needs"),
        };
        wrong(&self.origin(), format!("{AGENTS}.{} has no `{key}`", self.name), hint)
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.take(key) {
            None => Ok(None),
            Some(toml::Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "it is no text", "put it in quotes")),
        }
    }

    pub(super) fn needed_text(&mut self, key: &'static str) -> Result<String, ConfigError> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    /// A path: from the folder of the file that names it.
    pub(super) fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>, ConfigError> {
        let text = self.text(key)?;
        let folder = match self.said.get(key) {
            Some((_, Origin::File(path))) => path.parent().map(Path::to_owned).unwrap_or_default(),
            Some((_, Origin::Default)) | None => PathBuf::new(),
        };
        Ok(text.map(|text| folder.join(text)))
    }

    pub(super) fn needed_path(&mut self, key: &'static str) -> Result<PathBuf, ConfigError> {
        self.path(key)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn word(&mut self, key: &'static str, among: &[&str]) -> Result<Option<String>, ConfigError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if among.contains(&text.as_str()) {
            return Ok(Some(text));
        }
        let hint = match nearest(&text, among) {
            Some(near) => format!("did you mean `{near}`? there is {}", among.join(", ")),
            None => format!("there is {}", among.join(", ")),
        };
        Err(self.wrong(key, format!("`{text}` is unknown"), &hint))
    }

    pub(super) fn words(&mut self, key: &'static str, among: &[&str]) -> Result<Vec<String>, ConfigError> {
        let list = self.list(key)?;
        match list.iter().find(|word| !among.contains(&word.as_str())) {
            None => Ok(list),
            Some(word) => {
                let hint = format!("there is {}", among.join(", "));
                Err(self.wrong(key, format!("`{word}` is unknown"), &hint))
            }
        }
    }

    pub(super) fn list(&mut self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let texts = value.as_array().and_then(|list| {
            list.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        texts.ok_or_else(|| self.wrong(key, "it is no list of texts", "write [\"one\", \"two\"]"))
    }

    /// A table of texts.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<(String, String)>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let pairs = value.as_table().and_then(|table| {
            let pair = |(name, one): (&String, &toml::Value)| Some((name.clone(), one.as_str()?.to_owned()));
            table.iter().map(pair).collect::<Option<Vec<_>>>()
        });
        pairs.ok_or_else(|| self.wrong(key, "it is no table of texts", "write { NAME = \"…\" }"))
    }

    pub(super) fn count(&mut self, key: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let text = match value {
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::String(text) => text.clone(),
            toml::Value::Float(_) | toml::Value::Boolean(_) | toml::Value::Datetime(_) => String::new(),
            toml::Value::Array(_) | toml::Value::Table(_) => String::new(),
        };
        match Unit::Count.parse(&text) {
            Ok(0) => Err(self.wrong(key, "it is nothing", "it must be at least 1")),
            Ok(count) => Ok(Some(count)),
            Err(error) => Err(self.wrong(key, error.to_string(), "such as 128k")),
        }
    }

    /// A time such as `2m`; 0 is refused.
    pub(super) fn time(&mut self, key: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match Unit::Time.parse(&text) {
            Ok(0) => Err(self.wrong(key, "it is no time at all", "such as 2m")),
            Ok(millis) => Ok(Some(Duration::from_millis(millis))),
            Err(error) => Err(self.wrong(key, error.to_string(), "such as 2m")),
        }
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.take(key) {
            None => Ok(None),
            Some(toml::Value::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(key, "it is neither true nor false", "write true or false")),
        }
    }

    /// Where the key is: in a variable or in a file, not in the settings.
    pub(super) fn key(&mut self) -> Result<Option<KeySource>, ConfigError> {
        let (variable, file) = (self.text("key")?, self.path("key_file")?);
        match (variable, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(self.wrong("key", "there is a `key_file` too", "say one of them")),
            (None, Some(file)) => Ok(Some(KeySource::File(file))),
            (Some(name), None) => {
                let is_name =
                    name.bytes().all(|one| one.is_ascii_uppercase() || one.is_ascii_digit() || one == b'_');
                if is_name {
                    return Ok(Some(KeySource::Variable(name)));
                }
                // It may be a key: it is not repeated.
                let message = "it is no name of a variable; a key itself never stands in settings";
                Err(self.wrong("key", message, "write key = \"OPENAI_API_KEY\", or key_file = \"…\""))
            }
        }
    }

    /// The price of the model, and of others: for a million tokens.
    pub(super) fn prices(&mut self, model: &str) -> Result<Prices, ConfigError> {
        let value = self.take("price");
        let price = match value.filter(|value| !value.is_str()) {
            None => return Ok(Prices::default()),
            Some(value) if is_nothing(value) => Price { input: 0, cached: 0, stored: 0, output: 0 },
            Some(value) => {
                self.price(value).ok_or_else(|| self.wrong("price", "it is no price", PRICE_HINT))?
            }
        };
        Ok(Prices::default().with(model, price))
    }

    /// What is charged for conversations; the address is that of a model service. Only a person may say that an agent
    /// costs nothing or that its costs are not known: a file that came with a repository would take the cap on money
    /// away.
    pub(super) fn pricing(&mut self, url: Option<&str>) -> Result<Pricing, ConfigError> {
        let pricing = match self.take("price") {
            None => return Ok(Pricing::Reported),
            Some(toml::Value::Table(_)) if url.is_some() => return Ok(Pricing::Reported),
            Some(value) if is_nothing(value) => Pricing::Free,
            Some(toml::Value::String(word)) if word == "subscription" => Pricing::Subscription,
            Some(toml::Value::String(word)) if word == "unknown" => Pricing::Unknown,
            Some(_) => return Err(self.wrong("price", "it is no price", PRICE_HINT)),
        };
        if self.is_shared("price") || (pricing == Pricing::Free && self.is_shared("url")) {
            let message = "a file that came with a repository would say what your agent costs";
            return Err(self.wrong("price", message, "say it in .ftl/config.toml or in your own settings"));
        }
        if let (Pricing::Free, Some(url)) = (pricing, url)
            && !keys::is_this_machine(keys::host(url))
        {
            let message =
                format!("{} is not on this machine, and only a local model costs nothing", keys::host(url));
            return Err(self.wrong("price", message, PRICE_HINT));
        }
        Ok(pricing)
    }

    fn price(&self, value: &toml::Value) -> Option<Price> {
        let table = value.as_table()?;
        if !table.keys().all(|key| ["input", "cached", "stored", "output"].contains(&key.as_str())) {
            return None;
        }
        let of = |key: &str| match table.get(key) {
            None => Some(None),
            Some(toml::Value::Integer(number)) => {
                u64::try_from(*number).ok().and_then(|one| one.checked_mul(1000)).map(Some)
            }
            Some(toml::Value::Float(number)) if (0.0..1e9).contains(number) => {
                Some(Some((number * 1000.0).round() as u64))
            }
            Some(_) => None,
        };
        let (input, output) = (of("input")??, of("output")??);
        Some(Price {
            input,
            output,
            cached: of("cached")?.unwrap_or(input),
            stored: of("stored")?.unwrap_or(input),
        })
    }

    /// Nothing else may be said of an agent of this kind.
    pub(super) fn expect_no_more(&self, kind: &str) -> Result<(), ConfigError> {
        let Some(key) = self.said.keys().find(|key| !self.asked.contains(key.as_str())) else {
            return Ok(());
        };
        let known: Vec<&str> = self.asked.iter().copied().collect();
        let hint = match nearest(key, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("an agent of kind {kind} has {}", known.join(", ")),
        };
        Err(self.wrong(key, "nobody knows this key", &hint))
    }
}
