//! What a gate lets through: for each way of speaking its methods and paths, below one address and nothing else.

use std::fmt;

/// A way in which an agent's program speaks to its model service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateDialect {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
}

impl GateDialect {
    /// Every dialect, with its word in adapters.
    pub const WORDS: [(&'static str, GateDialect); 4] = [
        ("chat", GateDialect::Chat),
        ("responses", GateDialect::Responses),
        ("anthropic", GateDialect::Anthropic),
        ("gemini", GateDialect::Gemini),
    ];

    /// What is asked below the address, or below its version.
    const fn paths(self) -> &'static [&'static str] {
        match self {
            GateDialect::Chat => &["/chat/completions"],
            GateDialect::Responses => &["/responses"],
            GateDialect::Anthropic => &["/messages"],
            GateDialect::Gemini => &["/models"],
        }
    }
}

/// Why a gate does not let a request through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteRefusal {
    /// The method is not one of the dialect.
    Method(String),
    /// The path is not one of the dialect, or could be read in two ways.
    Path(String),
}

impl RouteRefusal {
    /// The status that a peer is told.
    pub const fn status(&self) -> u16 {
        match self {
            RouteRefusal::Method(_) => 405,
            RouteRefusal::Path(_) => 404,
        }
    }
}

impl fmt::Display for RouteRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteRefusal::Method(method) => write!(out, "the gate lets no {method} through"),
            RouteRefusal::Path(path) => write!(out, "the gate does not lead to {path}"),
        }
    }
}

impl std::error::Error for RouteRefusal {}

/// Why there is no gate to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(pub String);

impl fmt::Display for AddressError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is no address of a model service", self.0)
    }
}

impl std::error::Error for AddressError {}

/// The one address behind a gate, and what is asked there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRoute {
    /// Scheme, host and port.
    origin: String,
    /// The path of the address, without a slash at its end.
    base: String,
    dialect: GateDialect,
}

impl GateRoute {
    /// The route to an address.
    pub fn new(url: &str, dialect: GateDialect) -> Result<GateRoute, AddressError> {
        let wrong = || AddressError(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (host, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_host = !host.is_empty() && !host.contains(['@', '?', '#', '\\', ' ']);
        let base = base.trim_end_matches('/');
        if !matches!(scheme, "http" | "https") || !is_host || !(base.is_empty() || is_plain(base)) {
            return Err(wrong());
        }
        Ok(GateRoute { origin: format!("{scheme}://{host}"), base: base.to_owned(), dialect })
    }

    /// The address as it is reached through a gate at that port.
    pub fn inside(&self, port: u16) -> String {
        format!("http://127.0.0.1:{port}{}", self.base)
    }

    /// Where a request goes, or why it goes nowhere. A key in the query is dropped.
    pub fn target(&self, method: &str, target: &str) -> Result<String, RouteRefusal> {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        if !is_plain(path) || !self.leads_to(path) {
            return Err(RouteRefusal::Path(path.to_owned()));
        }
        if method != "POST" {
            return Err(RouteRefusal::Method(method.to_owned()));
        }
        let is_key =
            |part: &&str| part.split('=').next().is_some_and(|name| name.eq_ignore_ascii_case("key"));
        let query: Vec<&str> =
            query.iter().flat_map(|query| query.split('&')).filter(|part| !is_key(part)).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        Ok(format!("{}{path}{query}", self.origin))
    }

    fn leads_to(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(self.base.as_str()) else { return false };
        let unversioned = rest.strip_prefix('/').and_then(|rest| {
            let (first, _) = rest.split_at(rest.find('/')?);
            is_version(first).then(|| &rest[first.len()..])
        });
        let is_asked = |rest: &str| {
            self.dialect.paths().iter().any(|one| {
                rest.strip_prefix(one).is_some_and(|behind| behind.is_empty() || behind.starts_with('/'))
            })
        };
        is_asked(rest) || unversioned.is_some_and(is_asked)
    }
}

/// `v1`, `v1beta`.
fn is_version(word: &str) -> bool {
    let rest = word.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|one: char| one.is_ascii_digit()) && rest.bytes().all(|one| one.is_ascii_alphanumeric())
}

/// Whether a path can be read in one way only: no part leads up or is empty, and nothing is written in another form.
fn is_plain(path: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:@".contains(&byte);
    let parts = path.strip_prefix('/').map(|rest| rest.split('/'));
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    path.bytes().all(fits) && parts.is_some_and(|mut parts| parts.all(is_part))
}
