//! The variables that commands and agents' programs get without being asked for: where toolchains live, how the
//! network is reached, which language is spoken. Only names stand here; the code that passes values on looks at them
//! first.

/// Homes of toolchains and package managers, and where their caches are. What changes where code is loaded from
/// (`PYTHONPATH`, `NODE_PATH`) is not among them: it may lead into another checkout than the one that is tested.
const TOOLCHAINS: &[&str] = &[
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "BUNDLE_PATH",
    "CARGO_HOME",
    "CC",
    "COMPOSER_HOME",
    "CUDA_HOME",
    "CXX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "FNM_DIR",
    "GEM_HOME",
    "GEM_PATH",
    "GOCACHE",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOPROXY",
    "GOROOT",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "JDK_HOME",
    "LD_LIBRARY_PATH",
    "M2_HOME",
    "MAVEN_HOME",
    "MISE_DATA_DIR",
    "NIX_PATH",
    "NVM_BIN",
    "NVM_DIR",
    "PIP_CACHE_DIR",
    "PIP_INDEX_URL",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "POETRY_HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "RBENV_ROOT",
    "RBENV_VERSION",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "UV_CACHE_DIR",
    "UV_INDEX_URL",
    "VOLTA_HOME",
    "XDG_CACHE_HOME",
    "YARN_CACHE_FOLDER",
];

/// The virtual environment that the person has activated.
const VIRTUAL_ENVIRONMENTS: &[&str] = &["VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"];

/// How the network is reached and which certificates are trusted.
const NETWORK: &[&str] = &[
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The language and the time zone.
const LOCALE: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
];

/// That no person sits at a terminal.
const AUTOMATION: &[&str] = &["CI"];

/// Every variable that is passed on without being asked for, beside `PATH` and who the user is.
pub fn defaults() -> impl Iterator<Item = &'static str> {
    let groups = [TOOLCHAINS, VIRTUAL_ENVIRONMENTS, NETWORK, LOCALE, AUTOMATION];
    groups.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_default_is_there_twice_or_named_like_a_secret() {
        let mut seen = std::collections::BTreeSet::new();
        for name in defaults() {
            assert!(seen.insert(name), "{name} is there twice");
            assert!(!crate::secrets::is_secret_name(name), "{name}");
        }
    }
}
