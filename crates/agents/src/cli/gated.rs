//! The gate of a conversation: where the program finds its model service, and what it has in the place of its key.

use std::ffi::OsString;
use std::sync::Arc;

use super::fields::Fields;
use super::fill::SETTING;
use super::{Binding, Home};
use crate::contract::SessionOrder;
use crate::error::AgentError;
use crate::gate::{GateDialect, GateKey, GatePlace, GateRoute, GateTarget, ModelGate};
use crate::launch::ProgramNetwork;
use crate::secrets::SecretKey;
use crate::timing::Timing;

/// How many login files an adapter may name.
pub const MAX_LOGIN_FILES: usize = 8;

/// Loopback is reached without anybody between.
const DIRECT: &str = "127.0.0.1,localhost";

/// How a program is told where its model service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOf {
    /// How it speaks.
    pub dialect: GateDialect,
    /// The variable, or the setting as `setting.NAME`, that holds the address.
    pub url: String,
    /// The variable that holds the path below the address, for a program that is told both.
    pub path: Option<String>,
    /// The address where nobody says another one.
    pub default: String,
}

/// The login of a program in a person's home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginOf {
    /// The files in which it is, below the home.
    pub files: Vec<String>,
    /// Those of them that the vendor's program refreshes.
    pub refreshed: Vec<String>,
    /// The vendor's own hosts that it speaks to with it.
    pub hosts: Vec<String>,
}

impl GateOf {
    pub(super) fn read(fields: &mut Fields<'_>) -> GateOf {
        let dialect = fields.word("dialect", &GateDialect::WORDS).unwrap_or(GateDialect::Chat);
        let (url, path, default) = (fields.must("url"), fields.text("path"), fields.must("default"));
        if GateRoute::new(&default, dialect).is_err() {
            fields.fault("default", "an address of a model service is wanted");
        }
        GateOf { dialect, url, path, default }
    }
}

impl LoginOf {
    pub(super) fn read(fields: &mut Fields<'_>) -> LoginOf {
        let (files, refreshed) = (fields.texts("files"), fields.texts("refreshed"));
        let is_below = |path: &String| path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if files.len() > MAX_LOGIN_FILES || !files.iter().all(is_below) {
            fields.fault("files", &format!("paths below a home are wanted, {MAX_LOGIN_FILES} at most"));
        }
        if !refreshed.iter().all(|one| files.contains(one)) {
            fields.fault("refreshed", "each must be one of `files`");
        }
        LoginOf { files, refreshed, hosts: fields.texts("hosts") }
    }
}

/// The binding as the program of one conversation sees it, with the gate that is open for as long. A program that lives
/// in the person's home with the login there has no key that a gate could put in.
pub(super) fn open(
    binding: &Binding,
    order: &SessionOrder,
    timing: &Arc<dyn Timing>,
) -> Result<(Binding, Option<ModelGate>), AgentError> {
    let Some(gate) = binding.adapter.gate.as_ref().filter(|_| binding.home == Home::Private) else {
        return Ok((binding.clone(), None));
    };
    let mut bound = binding.clone();
    let keys = take_keys(&mut bound, timing);
    if keys.is_empty() {
        // What is missing is told by whoever makes the program's environment.
        return Ok((bound, None));
    }
    let wrong = |error: &dyn std::fmt::Display| AgentError::CouldNotRun(error.to_string());
    let address = address(binding, gate);
    let route = GateRoute::new(&address, gate.dialect).map_err(|error| wrong(&error))?;
    let target = GateTarget { route: route.clone(), keys, limits: order.limits };
    let network = order.launcher.as_ref().map_or(ProgramNetwork::Host, |launcher| launcher.network());
    let opened = match (network, &order.mcp_endpoint) {
        (ProgramNetwork::Own { .. }, Some(mcp_endpoint)) => {
            let path = mcp_endpoint.folder.join(format!("g{:x}", timing.throw()));
            ModelGate::at_socket(&path, target, timing.clone())
        }
        (ProgramNetwork::Own { .. } | ProgramNetwork::Host, _) => ModelGate::at_port(target, timing.clone()),
    };
    let opened = opened.map_err(|error| AgentError::of_io("no model gate can be opened", &error))?;
    let port = match (opened.place(), network) {
        (GatePlace::Port(port), _) => *port,
        (GatePlace::Socket(_), ProgramNetwork::Own { port }) => port,
        (GatePlace::Socket(_), ProgramNetwork::Host) => 0,
    };
    tell(&mut bound, gate, &route, port);
    Ok((bound, Some(opened)))
}

/// Takes the keys out of what a program gets and puts dummies in their places.
fn take_keys(bound: &mut Binding, timing: &Arc<dyn Timing>) -> Vec<GateKey> {
    let adapter = bound.adapter.clone();
    let is_key = |name: &str| adapter.needs.iter().flat_map(|names| names.split('|')).any(|one| one == name);
    let mut keys = Vec::new();
    for (name, value) in bound.env.iter_mut().filter(|(name, _)| is_key(name)) {
        // Whatever is no key cannot be put in by anybody.
        let text = value.to_str().map(str::to_owned);
        if let Ok(real) = SecretKey::of_variable(name, text) {
            let dummy = format!("ftl-gate-{:016x}{:016x}", timing.throw(), timing.throw());
            *value = OsString::from(&dummy);
            keys.push(GateKey { dummy, real });
        }
    }
    keys
}

/// The address of the service: what the person says, or the adapter's own.
fn address(binding: &Binding, gate: &GateOf) -> String {
    let variable = |name: &str| {
        let found = binding.env.iter().find(|(one, _)| one == name).and_then(|(_, value)| value.to_str());
        found.map(str::to_owned)
    };
    let setting = |name: &str| {
        let given = binding.values.get(name).cloned();
        given.or_else(|| {
            binding.adapter.defaults.iter().find(|(one, _)| one == name).map(|(_, value)| value.clone())
        })
    };
    let said = match gate.url.strip_prefix(SETTING) {
        Some(name) => setting(name),
        None => variable(&gate.url),
    };
    let url = said.unwrap_or_else(|| gate.default.clone());
    // The path names what is asked; what is asked is the dialect's, and what stands before it is the address.
    match gate.path.as_deref().and_then(variable) {
        Some(path) => {
            let base =
                path.trim_matches('/').trim_end_matches("chat/completions").trim_end_matches('/').to_owned();
            format!("{}/{base}", url.trim_end_matches('/'))
        }
        None => url,
    }
}

/// Tells a program where the gate is.
fn tell(bound: &mut Binding, gate: &GateOf, route: &GateRoute, port: u16) {
    let has_path = gate.path.as_ref().is_some_and(|name| bound.env.iter().any(|(one, _)| one == name));
    let url = if has_path { format!("http://127.0.0.1:{port}") } else { route.inside(port) };
    match gate.url.strip_prefix(SETTING) {
        Some(name) => drop(bound.values.insert(name.to_owned(), url)),
        None => {
            bound.env.retain(|(name, _)| *name != gate.url);
            bound.env.push((gate.url.clone(), url.into()));
        }
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let before = bound.env.iter().find(|(one, _)| one == name).and_then(|(_, value)| value.to_str());
        let value = before.map_or_else(|| DIRECT.to_owned(), |before| format!("{before},{DIRECT}"));
        bound.env.retain(|(one, _)| one != name);
        bound.env.push((name.to_owned(), value.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Adapter;

    /// What a program is told for these variables and settings: its address behind the gate, and where the gate leads.
    fn variables_behind_gate(adapter: &str, env: &[(&str, &str)], url: Option<&str>) -> (String, String) {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let values = url.iter().map(|url| (String::from("url"), (*url).to_owned())).collect();
        let adapter = Arc::new(Adapter::built_in(adapter).unwrap());
        let (name, program, model, rooms) = (adapter.name.clone(), None, None, std::path::PathBuf::new());
        let mut bound = Binding { name, adapter, program, home: Home::Private, model, env, values, rooms };
        let gate = bound.adapter.gate.clone().unwrap();
        let route = GateRoute::new(&address(&bound, &gate), gate.dialect).unwrap();
        let timing: Arc<dyn Timing> = Arc::new(crate::timing::RealTime::new());
        let keys = take_keys(&mut bound, &timing);
        tell(&mut bound, &gate, &route, 7777);
        for key in &keys {
            let has = |text: &str| bound.env.iter().any(|(_, value)| value.to_str() == Some(text));
            assert!(has(&key.dummy) && !has(key.real.expose()), "{bound:?}");
        }
        assert_eq!(keys.len(), 1, "{}", bound.name);
        let inside = match gate.url.strip_prefix(SETTING) {
            Some(name) => bound.values[name].clone(),
            None => {
                let found = bound.env.iter().find(|(name, _)| *name == gate.url).unwrap();
                found.1.to_string_lossy().into_owned()
            }
        };
        (inside, route.inside(0))
    }

    #[test]
    fn programs_are_told_of_the_gate_as_of_any_address() {
        let key = ("OPENAI_API_KEY", "test-key");
        let claude = ("ANTHROPIC_API_KEY", "test-key");
        let (host, base) = (("OPENAI_HOST", "http://h"), ("OPENAI_BASE_PATH", "s/x/v1/chat/completions"));
        for (adapter, env, url, inside, base) in [
            ("claude", vec![claude], None, "http://127.0.0.1:7777", ""),
            (
                "claude",
                vec![claude, ("ANTHROPIC_BASE_URL", "http://h/s/x")],
                None,
                "http://127.0.0.1:7777/s/x",
                "/s/x",
            ),
            ("codex", vec![key], None, "http://127.0.0.1:7777/v1", "/v1"),
            ("codex", vec![key], Some("http://h/s/x/v1"), "http://127.0.0.1:7777/s/x/v1", "/s/x/v1"),
            ("goose", vec![key], None, "http://127.0.0.1:7777", ""),
            ("goose", vec![key, host], None, "http://127.0.0.1:7777", ""),
            ("goose", vec![key, host, base], None, "http://127.0.0.1:7777", "/s/x/v1"),
            ("opencode", vec![key], Some("http://h/v1/"), "http://127.0.0.1:7777/v1", "/v1"),
            ("pi", vec![key], None, "http://127.0.0.1:7777/v1", "/v1"),
        ] {
            let wanted = (inside.to_owned(), format!("http://127.0.0.1:0{base}"));
            assert_eq!(variables_behind_gate(adapter, &env, url), wanted, "{adapter} {env:?}");
        }
    }
}
