//! Where keys are, and to whom they may go.
//!
//! A file of settings that lies in a repository came with that repository: it may choose the service, but
//! a key of the person goes only to the host that belongs to it, or to this very machine. Otherwise a
//! cloned repository could have any key sent anywhere.

use std::fmt;
use std::path::PathBuf;

/// The source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a variable of the environment.
    Variable(String),
    /// In a file, whose text it is.
    File(PathBuf),
}

/// Keys that belong to a service, by the names that everybody gives them.
const OWN_HOSTS: [(&str, &str); 8] = [
    ("OPENAI_API_KEY", "api.openai.com"),
    ("ANTHROPIC_API_KEY", "api.anthropic.com"),
    ("OPENROUTER_API_KEY", "openrouter.ai"),
    ("MISTRAL_API_KEY", "api.mistral.ai"),
    ("DEEPSEEK_API_KEY", "api.deepseek.com"),
    ("GROQ_API_KEY", "api.groq.com"),
    ("XAI_API_KEY", "api.x.ai"),
    ("GEMINI_API_KEY", "generativelanguage.googleapis.com"),
];

/// Whether a key may go to an address that stands in a file which came with a repository, or anywhere
/// else.
pub fn may_go(key: &KeySource, url: &str, shared: bool) -> Result<(), KeyLeak> {
    let host = host(url);
    if !shared || is_this_machine(host) {
        return Ok(());
    }
    let (named, own) = match key {
        KeySource::Variable(name) => (name.clone(), OWN_HOSTS.contains(&(name.as_str(), host))),
        KeySource::File(path) => (path.display().to_string(), false),
    };
    if own && url.starts_with("https://") {
        return Ok(());
    }
    Err(KeyLeak { key: named, host: host.to_owned() })
}

/// A key that a file which came with a repository would send somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLeak {
    /// Where the key is: a variable or a file.
    pub key: String,
    /// The host that would get it.
    pub host: String,
}

impl fmt::Display for KeyLeak {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyLeak { key, host } = self;
        write!(out, "a file that came with a repository would send the key in {key} to {host}")
    }
}

impl std::error::Error for KeyLeak {}

/// The host of an address: no user, no port.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if let Some(inside) = host.strip_prefix('[') {
        return inside.split_once(']').map_or(inside, |(address, _)| address);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

pub(super) fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_browsers_read_them() {
        for (url, expected) in [
            ("https://api.openai.com/v1", "api.openai.com"),
            ("http://127.0.0.1:8080/v1", "127.0.0.1"),
            ("http://[::1]:8080/v1", "::1"),
            ("https://api.openai.com@evil.example/v1", "evil.example"),
            ("https://evil.example?api.openai.com", "evil.example"),
            ("https://evil.example#@api.openai.com", "evil.example"),
            ("https://", ""),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn a_key_goes_where_its_owner_chose() {
        let openai = KeySource::Variable("OPENAI_API_KEY".into());
        let file = KeySource::File("/keys/one".into());
        for (key, url, shared, fine) in [
            (&openai, "https://gateway.example/v1", false, true),
            (&openai, "https://gateway.example/v1", true, false),
            (&openai, "https://api.openai.com/v1", true, true),
            (&openai, "http://api.openai.com/v1", true, false),
            (&openai, "https://api.openai.com.evil.example/v1", true, false),
            (&openai, "https://api.openai.com@evil.example/v1", true, false),
            (&openai, "https://api.anthropic.com/v1", true, false),
            (&openai, "http://localhost:8080/v1", true, true),
            (&openai, "http://localhost.evil.example/v1", true, false),
            (&file, "https://api.openai.com/v1", true, false),
            (&file, "http://127.0.0.1/v1", true, true),
        ] {
            assert_eq!(may_go(key, url, shared).is_ok(), fine, "{key:?} {url} {shared}");
        }
    }
}
