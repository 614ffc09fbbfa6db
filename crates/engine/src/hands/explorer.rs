//! The hand of `Task(explorer)`: code looks first, and an agent, where one is bound, gets what it found.
//!
//! An explorer never fails for want of an agent: what code found stands alone then, as `partial`, and says
//! why. What an agent says is never overruled, only filled in.

use std::sync::Arc;

use ftl_core::json::Json;
use ftl_core::run::FailureKind;
use ftl_core::value::{Name, Value};

use super::agents::{Agents, nothing_used};
use super::{Ended, Hand, Job, Report};
use crate::exploration::{self, Mode};
use crate::explore::{self, Survey};
use crate::paper::Paper;

/// Under which name an agent is told what code found.
const FOUND: &str = "found";

const ROLE: &str = "explorer";

/// Explores.
pub struct Explorer {
    agents: Arc<Agents>,
    paper: Arc<Paper>,
}

impl Explorer {
    /// A hand that explores the repository of that paperwork, with those agents.
    pub fn new(agents: Arc<Agents>, paper: Arc<Paper>) -> Explorer {
        Explorer { agents, paper }
    }

    fn found(&self, mode: Mode, job: &Job) -> Json {
        let objective = job.action.params.get("objective").and_then(Value::as_text).unwrap_or_default();
        let enough = || job.cancel.is_cancelled();
        let survey = Survey::of(self.paper.place().root(), &enough);
        explore::look(mode, objective, &survey, Some(&self.paper)).unwrap_or_else(|error| {
            let fields = [("mode", mode.word()), ("status", "error"), ("error", &error.to_string())];
            Json::object(fields.map(|(key, text)| (key, Json::from(text))))
        })
    }

    /// What an agent makes of what code found; its failure leaves what code found.
    fn asked(&self, mode: Mode, found: Json, job: &Job) -> Report {
        let mut told = job.clone();
        if let Ok(value) = found.to::<Value>() {
            told.action.params.insert(Name::from(FOUND), value);
        }
        let report = self.agents.perform(&told);
        let ended = match report.ended {
            Ended::Done(value) => done(&united(mode, &value, found)),
            Ended::Failed(failure) => done(&explore::alone(found, &failure.message)),
            Ended::Died(why) => done(&explore::alone(found, &why)),
            ended @ (Ended::Cancelled | Ended::Outage { .. }) => ended,
        };
        Report { ended, ..report }
    }
}

impl Hand for Explorer {
    fn perform(&self, job: &Job) -> Report {
        let word = job.action.params.get("mode").and_then(Value::as_text).unwrap_or_default();
        let Some(mode) = Mode::parse(word) else {
            let ended = Ended::failed(FailureKind::CouldNotRun, format!("there is no explorer for `{word}`"));
            return Report { ended, usage: nothing_used() };
        };
        let found = self.found(mode, job);
        if job.cancel.is_cancelled() {
            return Report { ended: Ended::Cancelled, usage: nothing_used() };
        }
        if !self.agents.is_bound(ROLE) {
            let why = "no agent is bound to the role explorer: only code has looked";
            return Report { ended: done(&explore::alone(found, why)), usage: nothing_used() };
        }
        self.asked(mode, found, job)
    }
}

/// An agent's answer and what code found; an agent that found nothing to work with adds only why.
fn united(mode: Mode, value: &Value, found: Json) -> Json {
    let answer = Json::of(value).map_err(|error| error.to_string());
    let answer = answer.and_then(|mut said| {
        said.put("mode", mode.word());
        exploration::answer(said, Some(mode))
    });
    match answer {
        Ok(answer) if answer.standing.is_usable() => explore::united(&answer.json, &found),
        Ok(answer) => {
            let said = answer.json.get("_error").and_then(Json::as_str).unwrap_or("it did not say why");
            explore::alone(found, &format!("the explorer reports an error: {said}"))
        }
        Err(why) => explore::alone(found, &why),
    }
}

fn done(json: &Json) -> Ended {
    match json.to::<Value>() {
        Ok(value) => Ended::Done(value),
        Err(error) => Ended::failed(FailureKind::CouldNotRun, format!("the answer cannot be kept: {error}")),
    }
}
