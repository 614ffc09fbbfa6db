//! Which settings widen what may happen: those count from a file that came with a repository only where a person
//! trusts it. Every other one narrows, or is about commands that run in the sandbox.

use std::path::{Path, PathBuf};

use ftl_core::run::Policy;
use ftl_store::ContentDigest;

use super::{AGENTS, Config, Origin, POLICIES, ROLES, Shown, TRUST};
use crate::settings::{LandingHow, Section, Settings};
use crate::trust::is_digest;

/// What a person's own file lists under `[trust]`.
const DIGESTS: &str = "digests";

/// The settings that widen, as `docs/security.md` lists them, each with what it opens. `*` stands for any name.
pub const WIDENING: [(&str, &str); 17] = [
    ("agents.*", "programs and addresses of agents, what they are passed, and what they cost"),
    ("roles.*", "which of the agents answers, and with which model"),
    ("environment.*", "variables that commands are passed; `defaults = false` never asks"),
    ("policies.*", "answers in a person's place; `hold` and `deny` never ask"),
    ("landing.how", "how work gets to your branch; `ask` and `branch-only` never ask"),
    ("worktree.copy", "ignored files that agents get to read"),
    ("worktree.slots", "a folder outside of the repository that is written"),
    ("commit.sign_off", "commits signed off in your name"),
    ("memory.embedder", "who reads the lessons"),
    ("memory.folder", "who reads the lessons"),
    ("memory.url", "who reads the lessons"),
    ("memory.model", "who reads the lessons"),
    ("memory.key", "which key is sent there"),
    ("forge.url", "where pull requests are made"),
    ("forge.repo", "where pull requests are made"),
    ("forge.remote", "where work is pushed"),
    ("forge.token_env", "which token is sent there"),
];

/// A file of settings that was read, by what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// The file.
    pub path: PathBuf,
    /// The bytes that were read.
    pub bytes: Vec<u8>,
}

impl SettingsFile {
    /// The digest by which it is trusted.
    pub fn digest(&self) -> ContentDigest {
        ContentDigest::of(&self.bytes)
    }
}

impl Config {
    /// The file that came with the repository, if it was read.
    pub fn shared_file(&self) -> Option<&SettingsFile> {
        self.shared.as_ref()
    }

    /// The digests that the person's own files trust.
    pub fn trusted(&self) -> impl Iterator<Item = &str> {
        self.trusted.keys().map(String::as_str)
    }

    /// Takes the digests that a person trusts, out of a file of their own.
    pub(super) fn set_trust(
        &mut self,
        name: &str,
        value: &toml::Value,
        origin: &Origin,
    ) -> Result<(), (String, String)> {
        let hint = || {
            format!(
                "write {DIGESTS} = [\"…\"] under [{TRUST}] in a file of your own; `ftl trust` prints digests"
            )
        };
        if origin.is_shared() {
            return Err((
                format!("{TRUST}.{name}: a file that came with a repository trusts nothing"),
                hint(),
            ));
        }
        let listed = value.as_array().filter(|_| name == DIGESTS);
        let listed = listed.and_then(|all| all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
        let Some(listed) = listed.filter(|all| all.iter().all(|one| is_digest(one))) else {
            return Err((format!("{TRUST}.{name} is no list of digests"), hint()));
        };
        self.trusted.extend(listed.into_iter().map(|one| (one.to_owned(), origin.clone())));
        Ok(())
    }

    /// The digests as people see them.
    pub(super) fn shown_trust(&self) -> impl Iterator<Item = Shown> {
        self.trusted.iter().map(|(digest, origin)| Shown {
            key: format!("{TRUST}.{DIGESTS}"),
            value: digest.clone(),
            origin: origin.clone(),
            about: String::from("a file that you trust, by its digest"),
        })
    }

    /// The keys that widen and whose value came with the repository. What is said of an agent counts where it may be
    /// asked.
    pub fn widening(&self, is_asked: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut said: Vec<(String, &Origin)> = Vec::new();
        for (name, keys) in self.agents.iter().filter(|(name, _)| is_asked(name)) {
            said.extend(keys.iter().map(|(key, (_, origin))| (format!("{AGENTS}.{name}.{key}"), origin)));
        }
        said.extend(self.roles.iter().map(|(role, (_, origin))| (format!("{ROLES}.{role}"), origin)));
        let answers = self.policies.iter().filter(|(_, (policy, _))| matches!(policy, Policy::Answer(_)));
        said.extend(answers.map(|(key, (_, origin))| (format!("{POLICIES}.{key}"), origin)));
        let how = self.settings.landing.how;
        let is_narrow =
            |key: &str| key == "landing.how" && matches!(how, LandingHow::Ask | LandingHow::BranchOnly);
        let is_listed = |key: &str| WIDENING.iter().any(|(one, _)| *one == key);
        let rows = self.origins.iter().filter(|(key, _)| is_listed(key) && !is_narrow(key));
        said.extend(rows.map(|(key, origin)| ((*key).to_owned(), origin)));
        let variables = self.shown_environment();
        let is_rule = |key: &str| key.ends_with(".pass") || key.ends_with(".set");
        let passed = variables.iter().filter(|one| is_rule(&one.key));
        said.extend(passed.map(|one| (one.key.clone(), &one.origin)));
        let mut keys: Vec<String> =
            said.into_iter().filter(|(_, origin)| origin.is_shared()).map(|(key, _)| key).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The adapters that settings name by a path, each with the agent that it is for.
    pub fn adapter_files(&self) -> Vec<(String, PathBuf)> {
        let named = self.agents.iter().filter_map(|(name, said)| {
            let (value, origin) = said.get("adapter")?;
            let path = value.as_str().filter(|text| text.ends_with(".toml"))?;
            let folder = match origin {
                Origin::File(file) => file.parent().unwrap_or(Path::new("")).to_owned(),
                Origin::Default => PathBuf::new(),
            };
            Some((name.clone(), folder.join(path)))
        });
        named.collect()
    }

    /// The same where nobody reads the lessons whom a file chose that came with the repository.
    #[must_use]
    pub fn without_shared_embedder(mut self) -> Config {
        if self.is_shared(Section::Memory) {
            self.settings.memory = Settings::default().memory;
            self.origins.retain(|key, _| !key.starts_with("memory."));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ROWS;

    /// What widens in a file with that text, in a repository.
    fn widening(text: &str) -> String {
        let mut config = Config::default();
        config.add(Path::new("/r/ftl.toml"), text).unwrap();
        config.widening(&|name| name != "idle").join(" ")
    }

    #[test]
    fn what_widens_is_a_table() {
        for (text, wanted) in [
            ("[limits]\nmoney = 500\ntokens = \"none\"\n", ""),
            ("[reserve]\nturns = 1\n[width]\nagents = 9\n[process]\nhard = \"9h\"\n", ""),
            ("[worktree]\nsetup = \"make\"\ntests = [\"make test\"]\nlints = [\"x\"]\nbuild = \"y\"\n", ""),
            ("[builder]\ntools = 9\nrepairs = 3\n[explorer]\ntools = 2\n", ""),
            ("[landing]\nhow = \"branch-only\"\n", ""),
            ("[landing]\nhow = \"ask\"\n", ""),
            ("[landing]\nhow = \"ff\"\n", "landing.how"),
            ("[landing]\nhow = \"pull-request\"\n", "landing.how"),
            ("[policies]\n\"*\" = \"hold\"\n\"task.COMPLETE\" = \"deny\"\n", ""),
            ("[policies]\n\"task.COMPLETE\" = \"ff\"\n", "policies.task.COMPLETE"),
            ("[environment]\ndefaults = false\nhome = \"new\"\n", ""),
            ("[environment]\npass = [\"A\", \"C\"]\n", "environment.pass"),
            ("[environment.tests]\nset = { B = \"1\" }\n", "environment.tests.set"),
            ("[worktree]\ncopy = [\".env\"]\nwarm = [\"target\"]\n", "worktree.copy"),
            ("[forge]\nremote = \"https://x\"\nchecks = \"1h\"\n", "forge.remote"),
            ("[memory]\nembedder = \"endpoint\"\nurl = \"u\"\n", "memory.embedder memory.url"),
            ("[agents.idle]\nkind = \"acp\"\nprogram = \"x\"\n", ""),
            (
                "[agents.x]\nkind = \"acp\"\nprogram = \"x\"\nhome = \"own\"\n",
                "agents.x.home agents.x.kind agents.x.program",
            ),
            ("[roles]\nbuilder = { agent = \"x\", tools = 9 }\n", "roles.builder"),
            ("[commit]\ntemplate = \"{subject}\"\nsign_off = true\n", "commit.sign_off"),
        ] {
            assert_eq!(widening(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_a_person_says_over_it_is_theirs() {
        let mut config = Config::default();
        config.add(Path::new("/r/ftl.toml"), "[landing]\nhow = \"ff\"\n").unwrap();
        config.add(Path::new("/r/.ftl/config.toml"), "[landing]\nhow = \"squash\"\n").unwrap();
        assert!(config.widening(&|_| true).is_empty());
    }

    #[test]
    fn every_key_of_the_table_is_a_setting_and_stands_in_the_page() {
        let page = include_str!("../../../../docs/security.md");
        let sections = [AGENTS, ROLES, super::super::ENVIRONMENT, POLICIES];
        for (key, about) in WIDENING {
            let is_section = key.strip_suffix(".*").is_some_and(|section| sections.contains(&section));
            assert!(is_section || ROWS.iter().any(|row| row.key == key), "there is no setting {key}");
            let row = format!("| `{key}` | {about} |");
            assert!(page.contains(&row), "docs/security.md has no line {row}");
        }
    }
}
