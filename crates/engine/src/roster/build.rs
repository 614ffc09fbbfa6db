//! Backends out of the roster: keys are looked up once, and each goes to its own backend alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_agents::contract::{Backend, Enforced};
use ftl_agents::model::seats::Seats;
use ftl_agents::model::{Endpoint, Model};
use ftl_agents::scripted::{Script, Scripted};
use ftl_agents::secrets::{Key, Secrets};
use ftl_agents::timing::{RealTime, Retry, Timing};

use super::{Agent, KeySource, Kind, Roster, Service};

/// The agents of a roster with their keys: what backends are made of. All sessions of a process that go to
/// one agent share its backend, and with it the seats of its service.
pub struct Hall {
    keys: BTreeMap<String, Result<Key, String>>,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
}

impl Hall {
    /// Looks the keys of a roster up, with that way to find a variable of the environment.
    pub fn new(roster: &Roster, variable: &dyn Fn(&str) -> Option<String>) -> Hall {
        let mut keys = BTreeMap::new();
        let mut secrets = Secrets::new();
        for agent in roster.agents() {
            let Some(source) = agent.key() else { continue };
            let key = match source {
                KeySource::Variable(name) => Key::of_variable(name, variable(name)),
                KeySource::File(path) => Key::of_file(path),
            };
            if let Ok(key) = &key {
                secrets.add(key);
            }
            keys.insert(agent.name.clone(), key);
        }
        Hall { keys, secrets: Arc::new(secrets), timing: Arc::new(RealTime::new()) }
    }

    /// Everything that must never be seen.
    pub fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// The backend of an agent, or why it cannot be used.
    pub fn backend(&self, agent: &Agent) -> Result<Arc<dyn Backend>, String> {
        let key = self.keys.get(&agent.name).cloned().transpose()?;
        self.build(agent, key)
    }

    /// What an agent enforces; that does not depend on its key.
    pub fn enforces(&self, agent: &Agent) -> Result<Enforced, String> {
        self.build(agent, None).map(|backend| backend.enforces())
    }

    fn build(&self, agent: &Agent, key: Option<Key>) -> Result<Arc<dyn Backend>, String> {
        let (secrets, timing) = (self.secrets.clone(), self.timing.clone());
        Ok(match &agent.kind {
            Kind::Scripted { script } => {
                let script = Script::load(script)?;
                Arc::new(Scripted::new(&agent.name, script, secrets, timing))
            }
            Kind::Model(service) => {
                Arc::new(Model::new(endpoint(&agent.name, service, key), secrets, timing))
            }
        })
    }
}

impl Agent {
    /// Where its key is.
    pub fn key(&self) -> Option<&KeySource> {
        match &self.kind {
            Kind::Scripted { .. } => None,
            Kind::Model(service) => service.key.as_ref(),
        }
    }

    /// The model that it asks, where it is known.
    pub fn model(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scripted { .. } => None,
            Kind::Model(service) => Some(&service.model),
        }
    }
}

fn endpoint(name: &str, service: &Service, key: Option<Key>) -> Endpoint {
    Endpoint {
        name: name.to_owned(),
        url: service.url.clone(),
        dialect: service.dialect,
        model: service.model.clone(),
        key,
        context: service.context,
        max_output: service.max_output,
        structured: service.structured,
        calls: service.calls,
        prices: service.prices.clone(),
        retry: Retry::default(),
        seats: Seats::new(service.concurrency),
    }
}
