//! The `scripted` backend: a file says what an agent says and does, turn by turn.
//!
//! It drives the demo and the tests. Which part of a script answers is found from the order and the
//! prompt alone, so the same task gets the same answers on every machine and after every crash. Its
//! tools are the real ones: a scripted agent that writes a file writes it, if the session host lets it.

pub mod rehearsal;
mod script;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ftl_core::run::Usage;
use ftl_core::value::Name;
use serde_json::Value as Json;

use crate::contract::{
    AgentSession, Backend, Counted, Enforced, MAX_TURN_BYTES, ProbeResult, PromptPart, Said, SessionHost,
    SessionOrder, TURNS, TurnRest,
};
use crate::error::AgentError;
use crate::secrets::Secrets;
use crate::timing::Timing;
use crate::toolset::{Done, Toolset};

use script::{End, Scene, Step};
pub use script::{MAX_SCRIPT_BYTES, Script, ScriptError};

/// How much a flood says at once.
const FLOOD_BYTES: usize = 64 * 1024;

/// How long a hanging agent sleeps between two looks.
const NAP: Duration = Duration::from_millis(20);

/// A backend that plays a script.
pub struct Scripted {
    name: String,
    script: Script,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
}

impl Scripted {
    /// A backend of that name.
    pub fn new(name: &str, script: Script, secrets: Arc<Secrets>, timing: Arc<dyn Timing>) -> Scripted {
        Scripted { name: name.to_owned(), script, secrets, timing }
    }
}

impl Backend for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn enforces(&self) -> Enforced {
        Enforced {
            calls: Counted::Before,
            paths: true,
            commands: false,
            tokens: true,
            money: true,
            cancel: true,
            resume: false,
            structured: false,
        }
    }

    fn probe(&self) -> ProbeResult {
        ProbeResult { usable: Ok(()), what: format!("a script of {} scenes", self.script.scenes.len()) }
    }

    fn open(
        &self,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
    ) -> Result<Box<dyn AgentSession>, AgentError> {
        let toolset = Toolset::new(&order, host.clone(), self.secrets.clone())?;
        Ok(Box::new(Play {
            scenes: self.script.scenes.clone(),
            order,
            host,
            toolset,
            secrets: self.secrets.clone(),
            timing: self.timing.clone(),
            steps: None,
            at: 0,
            unknown: BTreeSet::new(),
        }))
    }
}

/// One session of a script.
struct Play {
    scenes: Arc<[Scene]>,
    order: SessionOrder,
    host: Arc<dyn SessionHost>,
    toolset: Toolset,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
    steps: Option<Arc<[Step]>>,
    at: usize,
    unknown: BTreeSet<Name>,
}

impl AgentSession for Play {
    fn turn(&mut self, words: &[PromptPart]) -> Result<TurnRest, AgentError> {
        let steps = match &self.steps {
            Some(steps) => steps.clone(),
            None => self.steps.insert(self.choose(words)?).clone(),
        };
        while let Some(step) = steps.get(self.at) {
            self.at += 1;
            if let Some(rest) = self.play(step)? {
                return Ok(rest);
            }
        }
        Err(AgentError::Died(format!("the script of the {} ends here", self.order.role)))
    }

    fn unknown(&self) -> BTreeSet<Name> {
        self.unknown.clone()
    }

    fn close(self: Box<Self>) {}
}

impl Play {
    /// The first scene that fits the order and what it is told.
    fn choose(&self, words: &[PromptPart]) -> Result<Arc<[Step]>, AgentError> {
        let told = |text: &str| words.iter().any(|part| part.text.contains(text));
        let fits = |scene: &&Scene| {
            scene.role.as_ref().is_none_or(|role| *role == self.order.role)
                && scene.form.as_ref().is_none_or(|form| Some(form) == self.order.form.as_ref())
                && scene.told.iter().all(|text| told(text))
        };
        let role = &self.order.role;
        let none = || AgentError::CouldNotRun(format!("the script has no scene for the {role}"));
        self.scenes.iter().find(fits).map(|scene| scene.steps.clone()).ok_or_else(none)
    }

    fn play(&mut self, step: &Step) -> Result<Option<TurnRest>, AgentError> {
        if !self.timing.pause(step.delay, &*self.host) {
            return Err(AgentError::Cancelled);
        }
        if let Some(file) = &step.until {
            self.wait_for(file)?;
        }
        if let Some(text) = &step.say {
            self.host.say(Said::Text(&self.secrets.redact(text)));
        }
        self.charge(step)?;
        for (tool, args) in &step.calls {
            match self.toolset.call(tool, args) {
                Done::Back(_) | Done::Wrong(_) => {}
                Done::Submitted(json) => return Ok(Some(TurnRest::Submitted(json))),
                Done::Asked(question) => return Ok(Some(TurnRest::Asked(question))),
                Done::Over(trouble) => return Err(trouble),
            }
        }
        step.end.as_ref().map(|end| self.end(end)).transpose()
    }

    /// Charges what the step says that it used. What it does not say is unknown.
    fn charge(&mut self, step: &Step) -> Result<(), AgentError> {
        let mut usage: Usage = step.usage.clone();
        usage.insert(Name::from(TURNS), 1);
        self.unknown.extend(step.silent.iter().cloned());
        self.host.charge(&usage).map_err(|refusal| AgentError::Stopped(refusal.to_string()))
    }

    fn end(&self, end: &End) -> Result<TurnRest, AgentError> {
        match end {
            End::Submit(json) => match self.toolset.call(crate::toolset::SUBMIT, json) {
                Done::Submitted(json) => Ok(TurnRest::Submitted(json)),
                Done::Over(trouble) => Err(trouble),
                Done::Asked(question) => Ok(TurnRest::Asked(question)),
                Done::Back(text) | Done::Wrong(text) => Err(AgentError::Bad(text)),
            },
            End::Reply(text) => Ok(TurnRest::Said(self.secrets.redact(text))),
            End::Ask(question) => self.ask(question),
            End::Die(why) => Err(AgentError::Died(why.clone())),
            End::Hang => self.hang(),
            End::Flood => self.flood(),
            End::Outage(service, after) => {
                let why = String::from("the script says so");
                Err(AgentError::Outage { service: service.clone(), why, after: *after, claimed: false })
            }
        }
    }

    fn ask(&self, question: &str) -> Result<TurnRest, AgentError> {
        match self.toolset.call(crate::toolset::ASK, &serde_json::json!({ "question": question })) {
            Done::Asked(question) => Ok(TurnRest::Asked(question)),
            Done::Over(trouble) => Err(trouble),
            Done::Wrong(why) | Done::Back(why) => Err(AgentError::Bad(why)),
            Done::Submitted(json) => Ok(TurnRest::Submitted(json)),
        }
    }

    /// Waits for a file that another agent or a test makes, for as long as an agent may be silent.
    fn wait_for(&self, file: &Path) -> Result<(), AgentError> {
        let (file, silence) = (self.order.folder.join(file), self.order.limits.silence);
        let end = self.timing.now() + silence;
        while !file.exists() {
            if self.timing.now() >= end {
                let file = file.display();
                return Err(AgentError::TimedOut(format!("there was no `{file}` for {silence:?}")));
            }
            if !self.timing.pause(NAP, &*self.host) {
                return Err(AgentError::Cancelled);
            }
        }
        Ok(())
    }

    fn hang(&self) -> Result<TurnRest, AgentError> {
        let end = self.timing.now() + self.order.limits.silence;
        while self.timing.now() < end {
            if !self.timing.pause(NAP, &*self.host) {
                return Err(AgentError::Cancelled);
            }
        }
        let silence = self.order.limits.silence;
        Err(AgentError::TimedOut(format!("the agent said nothing for {silence:?}")))
    }

    fn flood(&self) -> Result<TurnRest, AgentError> {
        let line = "flood ".repeat(FLOOD_BYTES / 6);
        let mut said = 0;
        while said <= MAX_TURN_BYTES {
            if self.host.is_cancelled() {
                return Err(AgentError::Cancelled);
            }
            self.host.say(Said::Text(&line));
            said += line.len();
        }
        Err(AgentError::Bad(format!("the agent said more than {MAX_TURN_BYTES} bytes in one turn")))
    }
}

/// A call in a script: the tool and its arguments.
type Called = (String, Json);
