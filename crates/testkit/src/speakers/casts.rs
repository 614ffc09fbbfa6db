//! Casts: acts as a script, and as the answers of a model server.

use std::sync::Arc;
use std::time::Duration;

use ftl_agents::contract::Backend;
use ftl_agents::model::concurrency::ConcurrencyLimit;
use ftl_agents::model::price::{Price, Prices};
use ftl_agents::model::{Calls, Dialect, Model, ModelEndpoint};
use ftl_agents::scripted::{Script, Scripted};
use ftl_agents::secrets::{SecretKey, Secrets};
use ftl_agents::timing::{RealTime, RetryPolicy};
use serde_json::{Map, Value as Json, json};

use super::{Act, Cast, End, KEY, Stage};
use crate::model_server::ModelServer;

/// More than any turn may say.
const FLOOD_BYTES: u64 = 64 * 1024 * 1024;

fn secrets() -> Arc<Secrets> {
    let mut secrets = Secrets::new();
    secrets.hide(KEY);
    Arc::new(secrets)
}

/// Plays acts by the `scripted` backend.
pub struct ScriptCast;

impl Cast for ScriptCast {
    fn play(&self, acts: &[Act]) -> Stage {
        let steps: Vec<Json> = acts.iter().map(script_step).collect();
        let script = json!({ "scene": [{ "role": "coder", "step": steps }] });
        let text = toml::to_string(&script).unwrap();
        let script = Script::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let backend = Scripted::new("scripted", script, secrets(), Arc::new(RealTime::new()));
        Stage { backend: Box::new(backend), keep: Box::new(()) }
    }
}

fn script_step(act: &Act) -> Json {
    let mut step = Map::new();
    if !act.say.is_empty() {
        step.insert("say".into(), json!(act.say));
    }
    let call = |(tool, args): &(&str, Json)| {
        let mut call = args.clone();
        call["tool"] = json!(tool);
        call
    };
    step.insert("calls".into(), act.calls.iter().map(call).collect());
    match act.tokens {
        Some(tokens) => step.insert("usage".into(), json!({ "tokens": tokens, "money": tokens })),
        None => step.insert("silent".into(), json!(["tokens", "money"])),
    };
    match &act.end {
        End::GoesOn => None,
        End::Submits(json) => step.insert("submit".into(), json.clone()),
        End::Says(text) => step.insert("reply".into(), json!(text)),
        End::Asks(question) => step.insert("ask".into(), json!(question)),
        End::Dies => step.insert("die".into(), json!("killed")),
        End::Hangs => step.insert("hang".into(), json!(true)),
        End::Floods => step.insert("flood".into(), json!(true)),
    };
    Json::Object(step)
}

/// Plays acts by the `model` backend against a scripted model server.
pub struct ModelCast(pub Dialect);

impl ModelCast {
    /// The scenario of these acts.
    pub fn steps(acts: &[Act]) -> Json {
        json!({ "case": { "steps": acts.iter().map(model_step).collect::<Vec<_>>() } })
    }
}

impl Cast for ModelCast {
    fn play(&self, acts: &[Act]) -> Stage {
        let server = ModelServer::start(ModelCast::steps(acts)).unwrap();
        let endpoint = endpoint(self.0, &server.url("case"));
        let backend: Box<dyn Backend> = Box::new(Model::new(endpoint, secrets(), Arc::new(RealTime::new())));
        Stage { backend, keep: Box::new(server) }
    }
}

/// An endpoint at an address, with a price and quick retries.
pub fn endpoint(dialect: Dialect, url: &str) -> ModelEndpoint {
    let price = Price { input: 1000, cached: 1000, stored: 1000, output: 1000 };
    let millis = Duration::from_millis;
    ModelEndpoint {
        name: dialect.word().to_owned(),
        url: url.to_owned(),
        dialect,
        model: "scripted".into(),
        key: Some(SecretKey::of_variable("CONTRACT_KEY", Some(KEY.into())).unwrap()),
        context: 128_000,
        max_output: Some(4096),
        structured: true,
        calls: Calls::Native,
        prices: Prices::default().with("scripted", price),
        retry: RetryPolicy { attempts: 3, first: millis(2), most: millis(50) },
        seats: ConcurrencyLimit::new(4),
    }
}

fn model_step(act: &Act) -> Json {
    let mut calls: Vec<Json> =
        act.calls.iter().map(|(tool, args)| json!({ "name": tool, "args": args })).collect();
    let mut step = json!({ "text": act.say });
    match &act.end {
        End::GoesOn => {}
        End::Submits(json) => calls.push(json!({ "name": "submit", "args": json })),
        End::Asks(question) => calls.push(json!({ "name": "ask", "args": { "question": question } })),
        End::Says(text) => step["text"] = json!(format!("{}{text}", act.say)),
        End::Dies => {
            (step["cut"], step["text"]) = (json!(true), json!("I will not come to an end, for I die"));
        }
        End::Hangs => step["hang"] = json!(60),
        End::Floods => (step["flood"], step["text"]) = (json!(FLOOD_BYTES), json!("flood flood flood flood")),
    }
    step["calls"] = json!(calls);
    match act.tokens {
        Some(tokens) => step["usage"] = json!({ "in": tokens, "out": 0 }),
        None => step["no_usage"] = json!(true),
    }
    step
}
