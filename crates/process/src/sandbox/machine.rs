//! What a sandbox needs of this machine: the folders of the system, the tools in the home, the caches.
//!
//! Folders are found by list. What stands beside them stays outside.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders of the system that can be read.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/sys/devices/system/cpu",
];

/// Folders of tools in a home.
const TOOLS: [&str; 33] = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/config.toml",
    ".deno/bin",
    ".dotnet",
    ".fnm",
    ".ghcup/bin",
    ".go/bin",
    ".juliaup/bin",
    ".krew/bin",
    ".linuxbrew",
    ".local/bin",
    ".local/go",
    ".local/lib",
    ".local/pipx/venvs",
    ".local/share/fnm",
    ".local/share/mise/installs",
    ".local/share/mise/shims",
    ".local/share/pipx/venvs",
    ".local/share/rtx/installs",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".nix-profile",
    ".npm-global",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman/candidates",
    ".volta",
    "go/bin",
];

/// Caches in a home: what is written there inside is gone afterwards.
const CACHES: [&str; 20] = [
    ".bun/install/cache",
    ".cache/bazel",
    ".cache/deno",
    ".cache/go-build",
    ".cache/ms-playwright",
    ".cache/node",
    ".cache/pip",
    ".cache/pypoetry",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".gradle/caches",
    ".gradle/wrapper",
    ".ivy2/cache",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm/_cacache",
    ".nuget/packages",
    "go/pkg/mod",
];

/// Variables that name a folder with a cache in it, and where in that folder.
const NAMED_CACHES: [(&str, &str); 9] = [
    ("CARGO_HOME", "registry"),
    ("CARGO_HOME", "git"),
    ("GOMODCACHE", ""),
    ("GOCACHE", ""),
    ("GOPATH", "pkg/mod"),
    ("npm_config_cache", "_cacache"),
    ("PIP_CACHE_DIR", ""),
    ("UV_CACHE_DIR", ""),
    ("YARN_CACHE_FOLDER", ""),
];

/// Variables that name a folder of tools, and where in that folder.
const NAMED_TOOLS: [(&str, &str); 10] = [
    ("CARGO_HOME", "bin"),
    ("CARGO_HOME", "config.toml"),
    ("RUSTUP_HOME", ""),
    ("GOROOT", ""),
    ("GOPATH", "bin"),
    ("JAVA_HOME", ""),
    ("NVM_DIR", "versions"),
    ("PYENV_ROOT", ""),
    ("VIRTUAL_ENV", ""),
    ("VOLTA_HOME", ""),
];

/// What is known of the person and the repository for whom commands run.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    /// The environment that the command gets.
    pub env: Vec<(OsString, OsString)>,
    /// The person's home.
    pub home: Option<PathBuf>,
    /// Folders whose content is nobody's tool: the repository, the home.
    pub apart: Vec<PathBuf>,
}

impl MachineFacts {
    fn variable(&self, name: &str) -> Option<PathBuf> {
        let value = self.env.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value));
        value.filter(|path| path.is_absolute())
    }

    /// Whether binding a folder would show what must stay outside: it is one of those, or one of those is in it.
    pub fn is_too_wide(&self, folder: &Path) -> bool {
        let wide = |apart: &Path| apart.starts_with(folder);
        folder == Path::new("/")
            || self.apart.iter().map(PathBuf::as_path).chain(self.home.as_deref()).any(wide)
    }

    fn in_home<'a>(&self, names: &'a [&'a str]) -> impl Iterator<Item = PathBuf> + use<'a> {
        let home = self.home.clone();
        names.iter().filter_map(move |name| Some(home.as_ref()?.join(name)))
    }

    fn find_named<'a>(&'a self, names: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = PathBuf> + use<'a> {
        names.iter().filter_map(|(variable, rest)| Some(self.variable(variable)?.join(rest)))
    }
}

/// The folders of the system that are there.
pub fn system_folders() -> Vec<PathBuf> {
    SYSTEM.iter().map(PathBuf::from).filter(|path| path.exists()).collect()
}

/// The folders of tools: those that are known by name, and those of PATH.
pub fn tool_folders(machine: &MachineFacts) -> Vec<PathBuf> {
    let path = machine.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_default();
    let in_path: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let all = machine.in_home(&TOOLS).chain(machine.find_named(&NAMED_TOOLS)).chain(in_path);
    existing(all.filter(|folder| !machine.is_too_wide(folder) && !is_in_repository(folder, machine)))
}

/// The caches that are there.
pub fn cache_folders(machine: &MachineFacts) -> Vec<PathBuf> {
    let all = machine.in_home(&CACHES).chain(machine.find_named(&NAMED_CACHES));
    existing(all.filter(|folder| !machine.is_too_wide(folder)))
}

/// What is in a repository comes with its worktree.
fn is_in_repository(folder: &Path, machine: &MachineFacts) -> bool {
    machine.apart.iter().any(|apart| folder.starts_with(apart))
}

fn existing(all: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = all.filter(|path| path.exists()).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn tools_of_a_home_are_found_and_nothing_beside_them() {
        let made = tempfile::tempdir().unwrap();
        let home = made.path().to_owned();
        for folder in [".ssh", ".cargo/bin", ".cargo/registry", "own/bin", "repo/bin"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        let path = std::env::join_paths(["own/bin", "repo/bin", ""].map(|name| home.join(name))).unwrap();
        let machine = MachineFacts {
            env: vec![("PATH".into(), path)],
            home: Some(home.clone()),
            apart: vec![home.join("repo")],
        };
        let at = |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<Vec<_>>();
        assert_eq!(tool_folders(&machine), at(&[".cargo/bin", "own/bin"]));
        assert_eq!(cache_folders(&machine), at(&[".cargo/registry"]));
    }

    #[test]
    fn a_variable_that_names_the_home_binds_nothing() {
        let made = tempfile::tempdir().unwrap();
        let home = made.path().to_owned();
        let env = vec![("GOROOT".into(), home.clone().into()), ("JAVA_HOME".into(), "/".into())];
        let machine = MachineFacts { env, home: Some(home), apart: Vec::new() };
        assert_eq!(tool_folders(&machine), Vec::<PathBuf>::new());
    }
}
