//! Reading a table of settings: every fault is found and told at once, a key that is not known too.

use std::time::Duration;

use ftl_core::nearest::nearest;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::fill::ArgumentTemplate;
use super::paths::{At, Holds};

/// A table that is being read, where it stands, and what was wrong so far.
pub(super) struct Fields<'a> {
    table: &'a Table,
    at: String,
    known: Vec<&'static str>,
    faults: &'a mut Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(table: &'a Table, at: &str, faults: &'a mut Vec<String>) -> Fields<'a> {
        Fields { table, at: at.to_owned(), known: Vec::new(), faults }
    }

    fn name(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    pub(super) fn fault(&mut self, key: &str, why: &str) {
        let fault = format!("`{}`: {why}", self.name(key));
        self.faults.push(fault);
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.table.get(key)
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        match self.get(key)? {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.fault(key, "a text is wanted");
                None
            }
        }
    }

    /// A text that must be there.
    pub(super) fn must(&mut self, key: &'static str) -> String {
        let text = self.text(key).unwrap_or_default();
        if text.is_empty() {
            self.fault(key, "it must be there");
        }
        text
    }

    pub(super) fn flag(&mut self, key: &'static str) -> bool {
        match self.get(key) {
            None => false,
            Some(Value::Boolean(flag)) => *flag,
            Some(_) => {
                self.fault(key, "true or false is wanted");
                false
            }
        }
    }

    /// A time in whole seconds.
    pub(super) fn seconds(&mut self, key: &'static str, most: u64) -> Option<Duration> {
        let value = self.get(key)?;
        let seconds =
            value.as_integer().and_then(|one| u64::try_from(one).ok()).filter(|one| (1..=most).contains(one));
        if seconds.is_none() {
            self.fault(key, &format!("seconds are wanted, from 1 to {most}"));
        }
        seconds.map(Duration::from_secs)
    }

    /// One of these words; the first where none stands.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let Some(text) = self.text(key) else { return words.first().map(|(_, value)| *value) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.fault(key, &format!("`{text}` is none of {}", names.join(", ")));
        }
        found
    }

    pub(super) fn texts(&mut self, key: &'static str) -> Vec<String> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let items = match value {
            Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            Value::String(text) => Some(vec![text.clone()]),
            _ => None,
        };
        items.unwrap_or_else(|| {
            self.fault(key, "a list of texts is wanted");
            Vec::new()
        })
    }

    pub(super) fn templates(&mut self, key: &'static str) -> Vec<ArgumentTemplate> {
        let texts = self.texts(key);
        texts.iter().filter_map(|text| self.template(key, text)).collect()
    }

    fn template(&mut self, key: &str, text: &str) -> Option<ArgumentTemplate> {
        ArgumentTemplate::parse(text).map_err(|error| self.fault(key, &error.to_string())).ok()
    }

    pub(super) fn path(&mut self, key: &'static str) -> Option<At> {
        let text = self.text(key)?;
        At::parse(&text).map_err(|error| self.fault(key, &error.to_string())).ok()
    }

    pub(super) fn paths(&mut self, key: &'static str) -> Vec<At> {
        let texts = self.texts(key);
        let parsed = texts
            .iter()
            .filter_map(|text| At::parse(text).map_err(|error| self.fault(key, &error.to_string())).ok());
        parsed.collect()
    }

    /// Paths and the values of which one must stand there.
    pub(super) fn holds(&mut self, key: &'static str) -> Holds {
        let mut holds = Holds::default();
        let Some(table) = self.table(key) else { return holds };
        for (path, value) in table {
            let values = match value {
                Value::Array(items) => items.iter().filter_map(json).collect(),
                one => json(one).into_iter().collect::<Vec<_>>(),
            };
            match At::parse(path) {
                Ok(_) if values.is_empty() => {
                    self.fault(key, &format!("`{path}` has no value to compare with"));
                }
                Ok(at) => holds.and(at, values),
                Err(error) => self.fault(key, &error.to_string()),
            }
        }
        holds
    }

    pub(super) fn table(&mut self, key: &'static str) -> Option<&'a Table> {
        match self.get(key)? {
            Value::Table(table) => Some(table),
            _ => {
                self.fault(key, "a table is wanted");
                None
            }
        }
    }

    pub(super) fn tables(&mut self, key: &'static str) -> Vec<&'a Table> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let items = value.as_array().and_then(|items| items.iter().map(Value::as_table).collect());
        items.unwrap_or_else(|| {
            self.fault(key, "tables are wanted, each under [[…]]");
            Vec::new()
        })
    }

    /// A table whose values are templates, as pairs.
    pub(super) fn pairs(&mut self, key: &'static str) -> Vec<(String, ArgumentTemplate)> {
        let Some(table) = self.table(key) else { return Vec::new() };
        let mut pairs = Vec::new();
        for (name, value) in table {
            match value.as_str() {
                Some(text) => pairs.extend(self.template(key, text).map(|text| (name.clone(), text))),
                None => self.fault(key, &format!("`{name}` must be a text")),
            }
        }
        pairs
    }

    /// Another table below this one, read by a function.
    pub(super) fn below<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Fields<'_>) -> T,
    ) -> Option<T> {
        let table = self.table(key)?;
        let at = self.name(key);
        Some(whole(table, &at, self.faults, read))
    }

    /// A table of a list below this one.
    pub(super) fn inside<T>(
        &mut self,
        table: &Table,
        at: &str,
        read: impl FnOnce(&mut Fields<'_>) -> T,
    ) -> T {
        whole(table, at, self.faults, read)
    }

    fn tell_unknown(&mut self) {
        for key in self.table.keys().filter(|key| !self.known.contains(&key.as_str())) {
            let hint = match nearest(key, &self.known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there is {}", self.known.join(", ")),
            };
            self.faults.push(format!("`{}` is no key of an adapter; {hint}", self.name(key)));
        }
    }
}

/// Reads a whole table: keys that `read` did not ask for are faults.
pub(super) fn whole<T>(
    table: &Table,
    at: &str,
    faults: &mut Vec<String>,
    read: impl FnOnce(&mut Fields<'_>) -> T,
) -> T {
    let mut fields = Fields::new(table, at, faults);
    let value = read(&mut fields);
    fields.tell_unknown();
    value
}

/// A value of TOML as JSON.
pub(super) fn json(value: &Value) -> Option<Json> {
    serde_json::to_value(value).ok()
}
