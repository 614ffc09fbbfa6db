//! What a person says about sandboxes: the least level, what roles may reach beside their own, how much they may take.
//!
//! Only the person's own files say it. A file that came with a repository must not choose what its agents reach.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ftl_core::amount::Unit;
use ftl_process::sandbox::{SandboxLevel, Share};

use crate::origin::Origin;

/// The section of a file of settings.
pub const SANDBOX: &str = "sandbox";

/// How many things one list may name.
pub const MAX_GRANTS: usize = 256;

/// The least level where nobody says one.
pub const DEFAULT_LEVEL: SandboxLevel = SandboxLevel::None;

/// What may be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantKey {
    /// Files and folders that can be read.
    Read,
    /// Files and folders that can be written.
    Write,
    /// Names of hosts.
    Hosts,
    /// Sockets of the machine.
    Sockets,
    /// Folders that can be read, and written for as long as a command runs.
    Cache,
}

impl GrantKey {
    /// Every key.
    pub const ALL: [GrantKey; 5] =
        [GrantKey::Read, GrantKey::Write, GrantKey::Hosts, GrantKey::Sockets, GrantKey::Cache];

    /// The word in settings.
    pub const fn word(self) -> &'static str {
        match self {
            GrantKey::Read => "read",
            GrantKey::Write => "write",
            GrantKey::Hosts => "hosts",
            GrantKey::Sockets => "sockets",
            GrantKey::Cache => "cache",
        }
    }

    fn parse(word: &str) -> Option<GrantKey> {
        GrantKey::ALL.into_iter().find(|key| key.word() == word)
    }
}

/// Everything that is said about sandboxes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxSettings {
    require: Option<(SandboxLevel, Origin)>,
    memory: Option<u64>,
    processes: Option<u64>,
    grants: BTreeMap<(Option<String>, GrantKey), (Vec<String>, Origin)>,
}

/// One thing that was said, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidGrant {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Who said it.
    pub origin: Origin,
}

/// Why a value is refused, and what to do about it.
pub(crate) type Wrong = (String, String);

impl SandboxSettings {
    /// The least level that a command runs at.
    pub fn require(&self) -> SandboxLevel {
        self.require.as_ref().map_or(DEFAULT_LEVEL, |(level, _)| *level)
    }

    /// How much of the machine an attempt may take.
    pub fn share(&self) -> Share {
        Share { memory: self.memory, processes: self.processes }
    }

    /// What is granted to a role, or to a kind of command: what is said for all, and what is said for it.
    pub fn granted(&self, role: &str, key: GrantKey) -> Vec<&str> {
        let of = |role: Option<String>| self.grants.get(&(role, key)).map(|(all, _)| all.as_slice());
        let both = [of(None), of(Some(role.to_owned()))];
        both.into_iter().flatten().flatten().map(String::as_str).collect()
    }

    /// The names of hosts that are granted to a role, or to a kind of command.
    pub fn hosts(&self, role: &str) -> Vec<&str> {
        self.granted(role, GrantKey::Hosts)
    }

    /// The paths that are granted. `~` stands for the home.
    pub fn paths(&self, role: &str, key: GrantKey, home: Option<&PathBuf>) -> Vec<PathBuf> {
        let full = |path: &str| match (path.strip_prefix('~'), home) {
            (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
            (_, _) => PathBuf::from(path),
        };
        self.granted(role, key).into_iter().map(full).filter(|path| path.is_absolute()).collect()
    }

    /// Takes one key of the section.
    pub(crate) fn set(&mut self, name: &str, value: &toml::Value, origin: &Origin) -> Result<(), Wrong> {
        if origin.is_shared() {
            return Err((
                format!(
                    "{SANDBOX}.{name}: a file that came with a repository would choose what its agents reach"
                ),
                String::from("say it in .ftl/config.toml or in your own settings"),
            ));
        }
        match (name, value) {
            ("require", _) => {
                let level = value.as_str().and_then(SandboxLevel::parse);
                let level = level.ok_or_else(|| wrong(name, "is none of full, partial, none"))?;
                self.require = Some((level, origin.clone()));
            }
            ("memory", _) => self.memory = amount(name, value, Unit::Bytes)?,
            ("processes", _) => self.processes = amount(name, value, Unit::Count)?,
            (_, toml::Value::Table(table)) => {
                for (key, value) in table {
                    self.grant(Some(name), key, value, origin)?;
                }
            }
            (_, _) => self.grant(None, name, value, origin)?,
        }
        Ok(())
    }

    fn grant(
        &mut self,
        role: Option<&str>,
        name: &str,
        value: &toml::Value,
        origin: &Origin,
    ) -> Result<(), Wrong> {
        let shown = role.map_or_else(|| name.to_owned(), |role| format!("{role}.{name}"));
        let key = GrantKey::parse(name).ok_or_else(|| {
            let (message, hint) = wrong(&shown, "is no setting");
            (message.replace(" is no setting", ": there is no such setting"), hint)
        })?;
        let list =
            value.as_array().and_then(|all| all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
        let list = list.ok_or_else(|| wrong(&shown, "is no list of texts"))?;
        let are_paths = key != GrantKey::Hosts;
        if let Some(odd) =
            list.iter().find(|one| are_paths && !one.starts_with('/') && !one.starts_with("~/"))
        {
            return Err(wrong(&shown, &format!("names `{odd}`, which is no whole path")));
        }
        if list.len() > MAX_GRANTS {
            return Err(wrong(&shown, &format!("has more than {MAX_GRANTS} lines")));
        }
        let list = list.into_iter().map(str::to_owned).collect();
        self.grants.insert((role.map(str::to_owned), key), (list, origin.clone()));
        Ok(())
    }

    /// Everything that was said, and the least level.
    pub fn list_said(&self) -> Vec<SaidGrant> {
        let (level, origin) = self.require.clone().unwrap_or((DEFAULT_LEVEL, Origin::Default));
        let key = format!("{SANDBOX}.require");
        let mut all = vec![SaidGrant { key, value: level.to_string(), origin }];
        for ((role, key), (list, origin)) in &self.grants {
            let role = role.as_ref().map(|role| format!("{role}.")).unwrap_or_default();
            let key = format!("{SANDBOX}.{role}{}", key.word());
            all.push(SaidGrant { key, value: list.join(", "), origin: origin.clone() });
        }
        all
    }
}

fn amount(name: &str, value: &toml::Value, unit: Unit) -> Result<Option<u64>, Wrong> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text == "none" {
        return Ok(None);
    }
    unit.parse(&text).map(Some).map_err(|error| wrong(name, &error.to_string()))
}

fn wrong(name: &str, what: &str) -> Wrong {
    (
        format!("{SANDBOX}.{name} {what}"),
        String::from(
            "write require = \"full\", memory = \"4GiB\", processes = 500, or lists for read, write, hosts, sockets, \
             cache under [sandbox]; for one role or kind of command under [sandbox.ROLE]",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &mut SandboxSettings, text: &str, file: &str) -> Result<(), Wrong> {
        let table: toml::Table = text.parse().unwrap();
        let origin = Origin::File(PathBuf::from(file));
        table.iter().try_for_each(|(name, value)| settings.set(name, value, &origin))
    }

    #[test]
    fn grants_for_all_and_for_a_role_are_joined() {
        let mut settings = SandboxSettings::default();
        let text = "require = \"partial\"\nread = [\"/a\", \"~/b\"]\n[builder]\nread = [\"/c\"]\nhosts = [\"x.org\"]";
        set(&mut settings, text, "/r/.ftl/config.toml").unwrap();
        let home = PathBuf::from("/p");
        let read = |role: &str| settings.paths(role, GrantKey::Read, Some(&home));
        assert_eq!(read("builder"), ["/a", "/p/b", "/c"].map(PathBuf::from));
        assert_eq!(read("verify"), ["/a", "/p/b"].map(PathBuf::from));
        assert_eq!((settings.hosts("builder"), settings.hosts("verify")), (vec!["x.org"], vec![]));
        assert_eq!(settings.require(), SandboxLevel::Partial);
    }

    #[test]
    fn what_is_refused_says_why() {
        // file, text, what is said
        let table = [
            ("/r/ftl.toml", "read = [\"/\"]", "came with a repository"),
            ("/r/ftl.toml", "require = \"none\"", "came with a repository"),
            ("/c.toml", "require = \"most\"", "is none of full, partial, none"),
            ("/c.toml", "read = \"/a\"", "is no list of texts"),
            ("/c.toml", "write = [\"a\"]", "no whole path"),
            ("/c.toml", "reads = [\"/a\"]", "there is no such setting"),
            ("/c.toml", "memory = \"much\"", "sandbox.memory"),
        ];
        for (file, text, wanted) in table {
            let (message, hint) = set(&mut SandboxSettings::default(), text, file).unwrap_err();
            assert!(message.contains(wanted) && !hint.is_empty(), "{text}: {message}");
        }
        let many = vec![toml::Value::String(String::from("/a")); MAX_GRANTS + 1];
        let origin = Origin::File(PathBuf::from("/c.toml"));
        let (message, _) =
            SandboxSettings::default().set("read", &toml::Value::Array(many), &origin).unwrap_err();
        assert!(message.contains("more than 256"), "{message}");
    }
}
