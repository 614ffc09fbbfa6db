//! The environment of a command that judges work, without the person's home: toolchains and caches that lie below it are
//! given by their variables, and of the `PATH` what version managers put there.
//!
//! Whoever runs such a command gives it a home of its own. Nothing is made here, and nothing is read but whether a
//! folder is there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variables by which toolchains and caches are found, with where they usually lie below a home.
pub const TOOLS: [(&str, &str); 31] = [
    ("ASDF_DATA_DIR", ".asdf"),
    ("BUN_INSTALL", ".bun"),
    ("CARGO_HOME", ".cargo"),
    ("COMPOSER_CACHE_DIR", ".cache/composer"),
    ("COREPACK_HOME", ".cache/node/corepack"),
    ("DENO_DIR", ".cache/deno"),
    ("FNM_DIR", ".local/share/fnm"),
    ("GOCACHE", ".cache/go-build"),
    ("GOMODCACHE", "go/pkg/mod"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("NUGET_PACKAGES", ".nuget/packages"),
    ("NVM_DIR", ".nvm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("PNPM_HOME", ".local/share/pnpm"),
    ("POETRY_CACHE_DIR", ".cache/pypoetry"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("RUSTUP_HOME", ".rustup"),
    ("SDKMAN_DIR", ".sdkman"),
    ("STACK_ROOT", ".stack"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ("VOLTA_HOME", ".volta"),
    ("YARN_CACHE_FOLDER", ".cache/yarn"),
    ("npm_config_cache", ".npm"),
    ("HEX_HOME", ".hex"),
    ("MIX_HOME", ".mix"),
    ("JULIA_DEPOT_PATH", ".julia"),
    ("CCACHE_DIR", ".cache/ccache"),
];

/// The folders below a home whose entries of the `PATH` stay: those of version managers and of compilers.
pub const PATHS: [&str; 27] = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".deno/bin",
    ".dotnet",
    ".elan/bin",
    ".fnm",
    ".ghcup/bin",
    ".goenv",
    ".jenv",
    ".juliaup",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nodenv",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "anaconda3",
    "go/bin",
    "miniconda3",
    "miniforge3",
    "sdk",
];

/// Where Maven keeps what it has fetched; it has no variable of its own for that.
const MAVEN: (&str, &str) = ("MAVEN_OPTS", ".m2/repository");

/// Folders that somebody has activated keep their programs.
const ACTIVE: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// Takes the home out of an environment, and puts in what lies below it and is needed.
pub(crate) fn leave_home(found: &mut BTreeMap<OsString, OsString>, is_there: &dyn Fn(&Path) -> bool) {
    let Some(home) = found.remove(OsStr::new("HOME")).map(PathBuf::from) else { return };
    if !home.is_absolute() || home.parent().is_none() {
        return;
    }
    for (name, below) in TOOLS {
        let folder = home.join(below);
        if !found.contains_key(OsStr::new(name)) && is_there(&folder) {
            found.insert(name.into(), folder.into());
        }
    }
    let (name, repository) = (MAVEN.0, home.join(MAVEN.1));
    if is_there(&repository) {
        let options = found.entry(name.into()).or_default();
        if !options.is_empty() {
            options.push(" ");
        }
        options.push("-Dmaven.repo.local=");
        options.push(repository);
    }
    let active =
        ACTIVE.iter().filter_map(|name| found.get(OsStr::new(name)).map(PathBuf::from)).collect::<Vec<_>>();
    let stays = |entry: &PathBuf| {
        let Ok(below) = entry.strip_prefix(&home) else { return true };
        PATHS.iter().any(|known| below.starts_with(known)) || active.iter().any(|one| entry.starts_with(one))
    };
    if let Some(path) = found.get(OsStr::new("PATH")) {
        let kept = std::env::split_paths(path).filter(stays).collect::<Vec<_>>();
        if let Ok(joined) = std::env::join_paths(kept) {
            found.insert("PATH".into(), joined);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One case a line: the environment, what is there below the home, what comes of it.
    const CASES: &str = "
        HOME=/h/a PATH=/h/a/.cargo/bin:/bin:/h/a/.local/bin:/h/a/bin | .cargo .rustup | CARGO_HOME=/h/a/.cargo PATH=/h/a/.cargo/bin:/bin RUSTUP_HOME=/h/a/.rustup
        HOME=/h/a PATH=/bin CARGO_HOME=/opt/cargo                    | .cargo         | CARGO_HOME=/opt/cargo PATH=/bin
        HOME=/h/a PATH=/bin                                          | go/pkg/mod .npm .cache/pip | GOMODCACHE=/h/a/go/pkg/mod PATH=/bin PIP_CACHE_DIR=/h/a/.cache/pip npm_config_cache=/h/a/.npm
        HOME=/h/a PATH=/h/a/p/.venv/bin:/bin VIRTUAL_ENV=/h/a/p/.venv |               | PATH=/h/a/p/.venv/bin:/bin VIRTUAL_ENV=/h/a/p/.venv
        HOME=/h/a PATH=/h/ab/bin:/bin                                |                | PATH=/h/ab/bin:/bin
        HOME=/h/a MAVEN_OPTS=-Xmx1g                                  | .m2/repository | MAVEN_OPTS=-Xmx1g|-Dmaven.repo.local=/h/a/.m2/repository
        HOME=/ PATH=/bin                                             | .cargo         | PATH=/bin
        PATH=/bin                                                    | .cargo         | PATH=/bin";

    #[test]
    fn what_is_needed_of_a_home_is_given_by_variables() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.splitn(3, " | ").map(str::trim).collect();
            let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.into(), value.into()));
            let mut found: BTreeMap<OsString, OsString> =
                cells[0].split_whitespace().filter_map(pair).collect();
            let is_there =
                |path: &Path| cells[1].split_whitespace().any(|one| path == Path::new("/h/a").join(one));
            leave_home(&mut found, &is_there);
            let pairs = found.iter().map(|(name, value)| format!("{}={}", name.display(), value.display()));
            let told = pairs.collect::<Vec<_>>().join(" ").replace("1g -D", "1g|-D");
            assert_eq!(told, cells[2].trim_start_matches("| "), "{line}");
        }
    }
}
