//! The executor of `Task(explorer)`: code looks first, and an agent, where one is bound, gets what it found.
//!
//! An explorer never fails for want of an agent: what code found stands alone then, as `partial`, and says
//! why. What an agent says is never overruled, only filled in.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ftl_core::json::{Json, JsonExt as _};
use ftl_core::run::FailureKind;
use ftl_core::value::{Name, Value};
use serde::Deserialize as _;

use super::agents::{Agents, nothing_used};
use super::table::Resources;
use super::worktrees::Sites;
use super::{Executor, Job, JobEnd, Report};
use ftl_folder::id::RunId;
use ftl_records::Records;
use ftl_records::exploration::{self, ExplorerMode};
use ftl_records::explore::{self, Listed, Survey};

/// Under which name an agent is told what code found.
const FOUND: &str = "found";

const ROLE: &str = "explorer";

/// How long a list of files is good for others: one who is asked again after an outage looks again.
pub const MAX_SHARED: Duration = Duration::from_secs(10);

/// A list of files for those who were asked for together.
struct Shared {
    run: RunId,
    /// The entry that asked for them.
    entry: u64,
    since: Instant,
    files: Listed,
}

impl Shared {
    /// The files, for one who was asked for by an entry of a run.
    fn files(&self, (run, entry): (&RunId, u64), now: Instant) -> Option<Listed> {
        let is_theirs = *run == self.run && entry == self.entry;
        (is_theirs && now.duration_since(self.since) < MAX_SHARED).then(|| self.files.clone())
    }
}

/// Performs `Task(explorer)`: code looks first, and an agent adds to it where one is bound.
pub struct Explorer {
    agents: Arc<Agents>,
    records: Arc<Records>,
    /// The files that were listed last, and the entry that asked for it: explorers that were asked for together
    /// look at one list.
    listed: Mutex<Option<Shared>>,
    /// Where what is planned will be built.
    sites: Mutex<Option<Arc<Sites>>>,
    /// Git, asked for the commit that is explored.
    head: Mutex<Option<JoinHandle<String>>>,
}

impl Explorer {
    /// An executor that explores the repository of those records, with those agents.
    pub fn new(agents: Arc<Agents>, records: Arc<Records>) -> Explorer {
        Explorer {
            agents,
            records,
            listed: Mutex::default(),
            sites: Mutex::default(),
            head: Mutex::default(),
        }
    }

    /// The same, after which something is built there: the repository is opened while others explore.
    #[must_use]
    pub fn before(self, sites: Option<Arc<Sites>>) -> Explorer {
        Explorer { sites: Mutex::new(sites), ..self }
    }

    fn explore_code(&self, mode: ExplorerMode, job: &Job) -> Json {
        let objective = job.action.params.get("objective").and_then(Value::as_text).unwrap_or_default();
        let enough = || job.cancel.is_cancelled();
        let survey = self.survey(job, &enough);
        explore::look(mode, objective, &survey, Some(&self.records)).unwrap_or_else(|error| {
            let fields = [("mode", mode.word()), ("status", "error"), ("error", &error.to_string())];
            Json::object(fields.map(|(key, text)| (key, Json::from(text))))
        })
    }

    /// The files, listed once for all explorers that were asked for together. The first one lists them.
    fn survey<'a>(&self, job: &Job, enough: &'a dyn Fn() -> bool) -> Survey<'a> {
        let root = self.records.place().root();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = (&job.run, job.action.id.entry);
        if let Some(files) = listed.as_ref().and_then(|shared| shared.files(asked, Instant::now())) {
            return Survey::over(root, files, enough);
        }
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sites) = sites {
            // The step that needs the repository later says what is wrong with it.
            let _ = std::thread::Builder::new().name(String::from("open")).spawn(move || sites.open_early());
        }
        self.ask_head();
        let survey = Survey::of(root, enough);
        let (run, entry, since) = (job.run.clone(), job.action.id.entry, Instant::now());
        *listed = survey.list_files().map(|files| Shared { run, entry, since, files });
        survey
    }

    /// Asks git for the commit that is explored, while others explore.
    fn ask_head(&self) {
        let root = self.records.place().root().to_owned();
        let asked = std::thread::Builder::new()
            .name(String::from("head"))
            .spawn(move || exploration::short_head(&root))
            .ok();
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = asked;
    }

    /// The commit that was explored last, shortened; git is asked where nothing was explored here.
    pub(super) fn take_head(&self) -> String {
        let asked = self.head.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answered = asked.and_then(|asked| asked.join().ok());
        answered.unwrap_or_else(|| exploration::short_head(self.records.place().root()))
    }

    /// What an agent makes of what code found; its failure leaves what code found.
    fn ask_agent(&self, mode: ExplorerMode, found: Json, job: &Job) -> Report {
        let mut told = job.clone();
        if let Ok(value) = Value::deserialize(&found) {
            told.action.params.insert(Name::from(FOUND), value);
        }
        let report = self.agents.perform(&told);
        let ended = match report.ended {
            JobEnd::Done(value) => passed_with(&united(mode, &value, found)),
            JobEnd::Failed(failure) if failure.kind == FailureKind::Machine => JobEnd::Failed(failure),
            JobEnd::Failed(failure) => passed_with(&explore::alone(found, &failure.message)),
            JobEnd::Died(why) | JobEnd::Forbidden(why) => passed_with(&explore::alone(found, &why)),
            ended @ (JobEnd::Cancelled | JobEnd::Outage { .. } | JobEnd::ClaimedOutage { .. }) => ended,
        };
        Report { ended, ..report }
    }
}

impl Executor for Explorer {
    fn perform(&self, job: &Job) -> Report {
        let word = job.action.params.get("mode").and_then(Value::as_text).unwrap_or_default();
        let Some(mode) = ExplorerMode::parse(word) else {
            let ended =
                JobEnd::failed(FailureKind::CouldNotRun, format!("there is no explorer for `{word}`"));
            return Report { ended, usage: nothing_used() };
        };
        let found = self.explore_code(mode, job);
        if job.cancel.is_cancelled() {
            return Report { ended: JobEnd::Cancelled, usage: nothing_used() };
        }
        if !self.agents.is_bound(ROLE) {
            let why = "no agent is bound to the role explorer: only code has looked";
            return Report { ended: passed_with(&explore::alone(found, why)), usage: nothing_used() };
        }
        self.ask_agent(mode, found, job)
    }
}

/// Aggregates by another executor, after code has looked for every mode that no explorer has answered for: an
/// explorer that came too late takes only its own words with it.
struct Completing {
    records: Arc<Records>,
    inner: Arc<dyn Executor>,
}

/// Has code look in the place of explorers that did not answer, before what they found is put together.
pub(super) fn complete_exploration(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    Arc::new(Completing { records: with.records.records.clone(), inner })
}

impl Executor for Completing {
    fn perform(&self, job: &Job) -> Report {
        let params = &job.action.params;
        let objective = params.get("objective").and_then(Value::as_text).unwrap_or_default();
        let parts = params.get("parts").map(|parts| parts.items().to_vec()).unwrap_or_default();
        let is_there =
            |mode: ExplorerMode| parts.iter().any(|part| part.field("mode").as_text() == Some(mode.word()));
        let missing: Vec<ExplorerMode> =
            ExplorerMode::ALL.into_iter().filter(|mode| !is_there(*mode)).collect();
        if missing.is_empty() || parts.is_empty() {
            return self.inner.perform(job);
        }
        let enough = || job.cancel.is_cancelled();
        let survey = Survey::of(self.records.place().root(), &enough);
        let mut all = parts;
        for mode in missing {
            let found = explore::look(mode, objective, &survey, Some(&self.records)).ok();
            let alone = found.map(|found| explore::alone(found, "the explorer did not answer in time"));
            all.extend(alone.and_then(|json| Value::deserialize(json).ok()));
        }
        let mut told = job.clone();
        told.action.params.insert(Name::from("parts"), Value::list(all));
        self.inner.perform(&told)
    }
}

/// An agent's answer and what code found; an agent that found nothing to work with adds only why.
fn united(mode: ExplorerMode, value: &Value, found: Json) -> Json {
    let answer = serde_json::to_value(value).map_err(|error| error.to_string());
    let answer = answer.and_then(|mut said| {
        said.put("mode", mode.word());
        exploration::answer(said, Some(mode)).map_err(|error| error.to_string())
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

fn passed_with(json: &Json) -> JobEnd {
    match Value::deserialize(json) {
        Ok(value) => JobEnd::Done(value),
        Err(error) => JobEnd::failed(FailureKind::CouldNotRun, format!("the answer cannot be kept: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_shared_by_those_who_were_asked_for_together_and_for_a_while() {
        let (run, since) = (RunId::of(1), Instant::now());
        let shared = Shared { run: run.clone(), entry: 7, since, files: Listed::default() };
        assert!(shared.files((&run, 7), since).is_some());
        assert!(shared.files((&run, 7), since + MAX_SHARED - Duration::from_millis(1)).is_some());
        assert!(shared.files((&run, 7), since + MAX_SHARED).is_none(), "asked again after an outage");
        assert!(shared.files((&run, 8), since).is_none());
        assert!(shared.files((&RunId::of(2), 7), since).is_none());
    }
}
