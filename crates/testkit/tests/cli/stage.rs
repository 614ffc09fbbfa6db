//! A backend whose program is ours: the player, or a script of the shell.

use std::path::Path;
use std::sync::Arc;

use ftl_agents::cli::{Adapter, Binding, CliBackend, Home};
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::RealTime;
use ftl_testkit::speakers::{Act, End, KEY};
use serde_json::{Value as Json, json};

/// The adapter of a person's own file.
pub(crate) const PLAIN: &str = include_str!("plain.toml");

/// Adapter and program.
pub(crate) fn plain() -> Adapter {
    Adapter::parse(PLAIN).unwrap_or_else(|why| panic!("{why}"))
}

/// A backend of a program, with rooms below a folder and these variables.
pub(crate) fn backend(adapter: Adapter, program: &Path, folder: &Path, env: &[(&str, &str)]) -> CliBackend {
    let mut env: Vec<(String, std::ffi::OsString)> =
        env.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    env.push(("PATH".into(), "/usr/bin:/bin".into()));
    env.push(("ANTHROPIC_API_KEY".into(), KEY.into()));
    env.push(("OPENAI_API_KEY".into(), KEY.into()));
    let binding = Binding {
        name: adapter.name.clone(),
        adapter: Arc::new(adapter),
        program: Some(program.to_owned()),
        home: Home::Private,
        model: Some("scripted".into()),
        env,
        values: Default::default(),
        rooms: folder.join("rooms"),
    };
    let mut secrets = Secrets::new();
    secrets.hide(KEY);
    CliBackend::new(binding, Arc::new(secrets), Arc::new(RealTime::new()))
}

/// The acts as the player reads them.
pub(crate) fn script(acts: &[Act]) -> Json {
    let act = |act: &Act| {
        let end = match &act.end {
            End::GoesOn => Json::Null,
            End::Submits(answer) => json!({ "submit": answer }),
            End::Says(text) => json!({ "say": text }),
            End::Asks(question) => json!({ "ask": question }),
            End::Dies => json!("dies"),
            End::Hangs => json!("hangs"),
            End::Floods => json!("floods"),
        };
        json!({ "say": act.say, "calls": act.calls, "tokens": act.tokens, "end": end })
    };
    acts.iter().map(act).collect()
}
