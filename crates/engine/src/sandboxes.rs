//! The sandbox of each agent and command: the rules of its role, on this machine, for this person.
//!
//! What a role may touch is written here and nowhere else. Nothing in here starts a process but the probe of the
//! machine, and nothing decides what a run does next.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ftl_agents::launch::AgentProgram;
use ftl_folder::state_folder::StateFolder;
use ftl_git::inside;
use ftl_process::Guard;
use ftl_process::sandbox::{
    self, BindMount, MachineFacts, Probe, Reach, Sandbox, SandboxLevel, SandboxRules, cache_folders,
    files_of, system_folders, tool_folders,
};
use ftl_settings::config::Config;
use ftl_settings::sandbox::{GrantKey, SandboxSettings};
use serde::{Deserialize, Serialize};

/// Folders that are empty and private in every sandbox.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// A person's order about the sandboxes of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxOrder {
    /// The level that is had, whatever the settings ask for.
    pub level: SandboxLevel,
    /// Why.
    pub reason: String,
    /// Who said it.
    pub by: String,
}

impl fmt::Display for SandboxOrder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sandbox {}, by {}: {}", self.level, self.by, self.reason)
    }
}

/// What is to be run, as far as its sandbox depends on it.
#[derive(Clone, Debug)]
pub struct Inhabitant<'a> {
    /// Its role or kind, as grants name it.
    pub role: &'a str,
    /// The folder it starts in.
    pub folder: &'a Path,
    /// Whether it may change the files there.
    pub writes: bool,
    /// Its program.
    pub program: &'a OsStr,
    /// Its environment.
    pub env: &'a [(OsString, OsString)],
    /// What it needs beside the rules.
    pub reach: Reach,
    /// Whether it shares the machine's network.
    pub open_network: bool,
}

/// Makes sandboxes for the commands of a repository.
#[derive(Clone, Debug)]
pub struct Sandboxes {
    level: SandboxLevel,
    settings: SandboxSettings,
    home: Option<PathBuf>,
    /// The folder of the repository's state, and the top of the repository.
    apart: Vec<PathBuf>,
    /// The folder of git that all worktrees share.
    common: Option<PathBuf>,
    /// Where the state of runs is kept.
    store: Option<PathBuf>,
    /// This program, which agents start to reach their tools.
    own: Option<PathBuf>,
}

/// Why nothing may be started: what is asked for cannot be had here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooWeak {
    /// The least level.
    pub require: SandboxLevel,
    /// The best one here.
    pub best: SandboxLevel,
    /// What the machine said.
    pub why: String,
    /// The one command that changes it.
    pub fix: String,
}

impl fmt::Display for TooWeak {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooWeak { require, best, why, .. } = self;
        write!(out, "the sandbox is to be `{require}` and can be `{best}` here: {why}")
    }
}

impl std::error::Error for TooWeak {}

impl TooWeak {
    /// What to do about it.
    pub fn hint(&self) -> String {
        let word = self.best.word();
        format!(
            "run `{}`, or accept less: `require = \"{word}\"` under [sandbox] in .ftl/config.toml, or \
             `--sandbox {word} --reason R` for one run",
            self.fix
        )
    }
}

impl Default for Sandboxes {
    /// None at all.
    fn default() -> Sandboxes {
        Sandboxes {
            level: SandboxLevel::None,
            settings: SandboxSettings::default(),
            home: None,
            apart: Vec::new(),
            common: None,
            store: None,
            own: None,
        }
    }
}

impl Sandboxes {
    /// Those of a repository, at the best level that settings or order ask for and the machine has. An order is
    /// followed to the letter; settings name the least.
    pub fn of(
        config: &Config,
        place: &StateFolder,
        guard: &Guard,
        order: Option<&SandboxOrder>,
    ) -> Result<Sandboxes, TooWeak> {
        let settings = config.sandbox().clone();
        let level = match order.map_or(settings.require(), |order| order.level) {
            SandboxLevel::None => SandboxLevel::None,
            require => {
                let probe = sandbox::probe(guard);
                check(require, probe)?;
                if order.is_some() { require } else { probe.level }
            }
        };
        Ok(Sandboxes::at(level, settings, place))
    }

    /// Those at a level that is known to be had.
    pub fn at(level: SandboxLevel, settings: SandboxSettings, place: &StateFolder) -> Sandboxes {
        let root = place.root().canonicalize().unwrap_or_else(|_| place.root().to_owned());
        let top = top_of(&root).unwrap_or_else(|| root.clone());
        let common = common_of(&top);
        let mut apart = vec![place.state(), root, top];
        apart.extend(common.clone());
        apart.dedup();
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let (store, own) = (Some(place.store()), std::env::current_exe().ok());
        Sandboxes { level, settings, home, apart, common, store, own }
    }

    /// The level of every sandbox.
    pub fn level(&self) -> SandboxLevel {
        self.level
    }

    /// The sandbox around something; nothing where there is none.
    pub fn around(&self, who: Inhabitant<'_>) -> Option<Arc<Sandbox>> {
        (self.level != SandboxLevel::None).then(|| Arc::new(self.make(who)))
    }

    /// The sandbox around something at the level of all of them.
    pub fn make(&self, who: Inhabitant<'_>) -> Sandbox {
        let rules = self.rules(&who);
        Sandbox { level: self.level, rules, reach: who.reach, share: self.settings.share() }
    }

    fn rules(&self, who: &Inhabitant<'_>) -> SandboxRules {
        let machine =
            MachineFacts { env: who.env.to_vec(), home: self.home.clone(), apart: self.apart.clone() };
        let granted = |key| self.settings.paths(who.role, key, self.home.as_ref());
        let folder = who.folder.canonicalize().unwrap_or_else(|_| who.folder.to_owned());
        // A home that is itself a repository is nobody's worktree.
        let top = top_of(&folder).filter(|top| !machine.is_too_wide(top)).unwrap_or(folder);
        let mut rules = SandboxRules {
            read: system_folders(),
            private: PRIVATE.iter().map(PathBuf::from).collect(),
            hide: self.apart.clone(),
            caches: cache_folders(&machine),
            open_network: who.open_network,
            ..SandboxRules::default()
        };
        rules.private.push(PathBuf::from(sandbox::SOCKETS));
        rules.private.extend(who.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.into()));
        rules.private.extend(self.home.clone());
        rules.read.extend(tool_folders(&machine));
        rules.read.extend(files_of(who.program, &machine));
        rules.read.extend(self.own.clone());
        rules.read.extend(granted(GrantKey::Read));
        rules.read.extend(granted(GrantKey::Sockets));
        rules.caches.extend(granted(GrantKey::Cache));
        if who.writes { &mut rules.write } else { &mut rules.read }.push(top.clone());
        rules.write.extend(granted(GrantKey::Write));
        self.add_git(&top, &mut rules);
        rules
    }

    /// The file that says where git is cannot be changed. Where it points stands a folder of git that is nobody
    /// else's; the objects of the repository can be read.
    fn add_git(&self, top: &Path, rules: &mut SandboxRules) {
        let pointer = top.join(".git");
        if fs::symlink_metadata(&pointer).is_ok() {
            rules.binds.push(BindMount { from: pointer.clone(), to: pointer, writable: false });
        }
        let (Some(common), Some(store)) = (&self.common, &self.store) else { return };
        // Without a folder of its own git does not work inside; everything else does.
        if let Ok(Some(git)) = inside::prepare(common, store, top) {
            rules.binds.push(BindMount { from: git.folder, to: git.at, writable: true });
            rules.read.extend(git.objects);
        }
    }
}

/// The sandboxes of one role.
#[derive(Clone, Debug, Default)]
pub struct RoleSandbox {
    sandboxes: Sandboxes,
    role: String,
    /// Whether it may change the files of its worktree.
    writes: bool,
}

impl RoleSandbox {
    /// Those of a role, and whether it may change the files of its worktree.
    pub fn new(sandboxes: &Sandboxes, role: &str, writes: bool) -> RoleSandbox {
        RoleSandbox { sandboxes: sandboxes.clone(), role: role.to_owned(), writes }
    }

    /// The sandbox around a command that an agent has us run.
    pub fn of_command(&self, folder: &Path, env: &[(OsString, OsString)]) -> Option<Arc<Sandbox>> {
        self.sandboxes.around(Inhabitant {
            role: &self.role,
            folder,
            writes: self.writes,
            program: OsStr::new("sh"),
            env,
            reach: Reach::default(),
            open_network: false,
        })
    }

    /// The sandbox around an agent's own program. Where no relay leads to its model, it shares the machine's network.
    pub fn of_program(&self, program: &AgentProgram) -> Option<Arc<Sandbox>> {
        self.sandboxes.around(Inhabitant {
            role: &self.role,
            folder: &program.folder,
            writes: self.writes,
            program: &program.program,
            env: &program.env,
            reach: program.reach.clone(),
            open_network: program.reach.relays.is_empty(),
        })
    }
}

/// Whether a level can be had.
fn check(require: SandboxLevel, probe: &Probe) -> Result<(), TooWeak> {
    if probe.level >= require {
        return Ok(());
    }
    let lack = probe.lack();
    Err(TooWeak {
        require,
        best: probe.level,
        why: lack.map_or_else(String::new, |lack| lack.why.clone()),
        fix: lack.map_or_else(String::new, |lack| lack.fix.to_owned()),
    })
}

/// The checkout that a folder lies in.
fn top_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    folder.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned)
}

/// The folder of git of a person's checkout, which may itself be a worktree.
fn common_of(top: &Path) -> Option<PathBuf> {
    let pointer = top.join(".git");
    if pointer.is_dir() {
        return pointer.canonicalize().ok();
    }
    let text = fs::read_to_string(&pointer).ok()?;
    let own = top.join(text.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(own.join("commondir")).map_or(own.clone(), |text| own.join(text.trim()));
    common.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inhabitant<'a>(folder: &'a Path, env: &'a [(OsString, OsString)]) -> Inhabitant<'a> {
        Inhabitant {
            role: "builder",
            folder,
            writes: true,
            program: OsStr::new("sh"),
            env,
            reach: Reach::default(),
            open_network: false,
        }
    }

    #[test]
    fn only_the_own_worktree_can_be_written_and_its_pointer_cannot() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        let tree = top.join(".ftl/worktrees/a");
        fs::create_dir_all(tree.join("src")).unwrap();
        fs::create_dir_all(top.join(".git/objects")).unwrap();
        fs::write(tree.join(".git"), "gitdir: x").unwrap();
        let sandboxes =
            Sandboxes::at(SandboxLevel::Full, SandboxSettings::default(), &StateFolder::at(top.clone()));
        let folder = tree.join("src");
        let rules = sandboxes.make(inhabitant(&folder, &[])).rules;
        assert_eq!(rules.write, std::slice::from_ref(&tree));
        assert!(rules.hide.contains(&top));
        let pointer = tree.join(".git");
        assert_eq!(rules.binds, [BindMount { from: pointer.clone(), to: pointer, writable: false }]);
        let none = Sandboxes::at(SandboxLevel::None, SandboxSettings::default(), &StateFolder::at(top));
        assert_eq!(none.around(inhabitant(&folder, &[])), None);
    }

    #[test]
    fn a_level_that_cannot_be_had_is_refused_with_the_command_that_helps() {
        let lack = sandbox::Lack { why: String::from("EPERM"), fix: "sudo x" };
        let tries = vec![sandbox::Try { layer: "namespaces", works: Err(lack) }];
        let probe = Probe { level: SandboxLevel::Partial, tries };
        assert_eq!(check(SandboxLevel::Partial, &probe), Ok(()));
        let refused = check(SandboxLevel::Full, &probe).unwrap_err();
        assert_eq!(refused.to_string(), "the sandbox is to be `full` and can be `partial` here: EPERM");
        assert!(refused.hint().contains("`sudo x`") && refused.hint().contains("--sandbox partial"));
    }
}
