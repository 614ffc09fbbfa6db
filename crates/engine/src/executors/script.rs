//! Scripted executors: a file says what every agent and every action answers.
//!
//! For rehearsing a protocol without an account, for the demo and for tests. A script is honest about
//! crashes: which rule answered which job is written down before the answer is given, so that the same
//! job gets the same answer again, and everything that was ever spent is in that ledger too. It plays
//! no part in real work unless it is named.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ftl_agents::scripted::rehearsal::{RehearsalScript, Rule, Says};
use ftl_core::run::{ActionTarget, FailureKind, Usage};
use ftl_core::value::Value;

use super::shell::ScriptRunner;
use super::{Executor, Job, JobEnd, Report};
use ftl_folder::id::RunId;
use ftl_folder::{self as folder, OpenMode};

/// Whether what a rule says is an answer. An agent that died and a service that is out said nothing: the same job comes
/// again, and is not bound to fare the same way.
fn answers(rule: &Rule) -> bool {
    match rule.says {
        Says::Value(_) | Says::Fail(..) | Says::Command(_) => true,
        Says::Die(_) | Says::Outage(..) => false,
    }
}

/// What a job has used that a rule has answered.
fn usage(rule: &Rule, job: &Job) -> Usage {
    let mut usage = rule.usage.clone();
    if matches!(job.action.wanted, ActionTarget::Task { .. }) {
        for (meter, amount) in &rule.assumed {
            usage.entry(meter.clone()).or_insert(*amount);
        }
    }
    usage
}

fn fits(rule: &Rule, job: &Job) -> bool {
    let has = |(path, wanted): &(String, Value)| param(job, path) == Some(wanted);
    rule.to.as_ref().is_none_or(|to| *to == job.action.wanted.performer()) && rule.when.iter().all(has)
}

/// A parameter of a job by its path, such as `spec.id`.
fn param<'a>(job: &'a Job, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = job.action.params.get(parts.next()?)?;
    Some(parts.fold(first, |value, part| value.field(part)))
}

/// The executor that plays a script.
pub struct ScriptExecutor {
    script: RehearsalScript,
    folder: PathBuf,
    shell: Option<Arc<ScriptRunner>>,
    ledgers: Mutex<BTreeMap<RunId, Ledger>>,
}

/// Which rule answered which job of a run.
#[derive(Debug)]
struct Ledger {
    file: File,
    chosen: BTreeMap<String, usize>,
    used: BTreeMap<usize, u64>,
}

impl ScriptExecutor {
    /// An executor that plays a script and keeps its ledgers in that folder. Rules with a command need a
    /// shell.
    pub fn new(script: RehearsalScript, folder: PathBuf, shell: Option<Arc<ScriptRunner>>) -> ScriptExecutor {
        ScriptExecutor { script, folder, shell, ledgers: Mutex::default() }
    }

    /// Chooses the rule of a job, the same one each time, and writes the performance down.
    fn choose(&self, job: &Job) -> io::Result<Option<usize>> {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        if !ledgers.contains_key(&job.run) {
            ledgers.insert(job.run.clone(), Ledger::open(&self.folder, &job.run, &self.script)?);
        }
        let Some(ledger) = ledgers.get_mut(&job.run) else { return Ok(None) };
        let key = job.key();
        let left = |index: usize, rule: &Rule| {
            rule.times.is_none_or(|times| ledger.used.get(&index).copied().unwrap_or(0) < times)
        };
        let fresh = || {
            let mut rules = self.script.rules.iter().enumerate();
            rules.find(|(index, rule)| fits(rule, job) && left(*index, rule)).map(|(index, _)| index)
        };
        let Some(chosen) = ledger.chosen.get(&key).copied().or_else(fresh) else { return Ok(None) };
        let Some(rule) = self.script.rules.get(chosen) else { return Ok(None) };
        ledger.note(&key, chosen, rule, &usage(rule, job))?;
        Ok(Some(chosen))
    }
}

impl Ledger {
    fn open(folder: &Path, run: &RunId, script: &RehearsalScript) -> io::Result<Ledger> {
        folder::make(folder)?;
        let path = folder.join(format!("{run}.ledger"));
        let file = folder::open_as(&path, OpenMode::Append, 0o644)?;
        let mut ledger = Ledger { file, chosen: BTreeMap::new(), used: BTreeMap::new() };
        let lines: Vec<String> =
            BufReader::new(ledger.file.try_clone()?).lines().collect::<Result<_, _>>()?;
        for line in lines {
            // A line that a crash has cut says nothing: its answer was never given.
            let mut words = line.split('\t');
            if let (Some(key), Some(Ok(rule)), Some(_)) =
                (words.next(), words.next().map(str::parse::<usize>), words.next())
            {
                ledger.count(key, rule, script.rules.get(rule).is_some_and(answers));
            }
        }
        Ok(ledger)
    }

    fn note(&mut self, key: &str, index: usize, rule: &Rule, usage: &Usage) -> io::Result<()> {
        let spent = serde_json::to_string(usage)?;
        // A newline first: what a crash has cut stays a line of its own.
        self.file.write_all(format!("\n{key}\t{index}\t{spent}").as_bytes())?;
        self.file.sync_data()?;
        self.count(key, index, answers(rule));
        Ok(())
    }

    /// A job that got no answer is asked again, and may meet another rule then.
    fn count(&mut self, key: &str, rule: usize, answers: bool) {
        if !answers || self.chosen.insert(key.to_owned(), rule).is_none() {
            *self.used.entry(rule).or_default() += 1;
        }
    }
}

impl Executor for ScriptExecutor {
    fn perform(&self, job: &Job) -> Report {
        let rule = match self.choose(job) {
            Ok(Some(index)) => self.script.rules.get(index),
            Ok(None) => None,
            Err(error) => {
                let message = format!("the ledger of the script cannot be written: {error}");
                return Report::free(JobEnd::failed(FailureKind::CouldNotRun, message));
            }
        };
        let Some(rule) = rule else {
            let message = format!("the script has no answer for `{}`", job.action.wanted.performer());
            return Report::free(JobEnd::failed(FailureKind::CouldNotRun, message));
        };
        if !job.cancel.pause(rule.delay) {
            return Report { ended: JobEnd::Cancelled, usage: usage(rule, job) };
        }
        for tool in &rule.tools {
            // A denied call ends the task: the driver has reported it already.
            if job.tool(tool, None).is_err() {
                return Report { ended: JobEnd::Cancelled, usage: usage(rule, job) };
            }
        }
        let ended = match &rule.says {
            Says::Value(value) => JobEnd::Done(filled(value, job)),
            Says::Fail(kind, message) => JobEnd::failed(*kind, message.clone()),
            Says::Die(message) => JobEnd::Died(message.clone()),
            Says::Outage(service, after) => JobEnd::Outage { service: service.clone(), after: *after },
            Says::Command(command) => self.ask_command(command, job),
        };
        let mut usage = usage(rule, job);
        // A service that is out was not used: what the rule does not say is nothing, and that is known.
        if let JobEnd::Outage { .. } = ended {
            for meter in job.allowance.keys() {
                usage.entry(meter.clone()).or_default();
            }
        }
        Report { ended, usage }
    }
}

impl ScriptExecutor {
    /// The answer of a command: JSON on its standard output. Exit code 75 says that a service is out.
    fn ask_command(&self, command: &str, job: &Job) -> JobEnd {
        let Some(shell) = &self.shell else {
            return JobEnd::failed(FailureKind::CouldNotRun, "this script may not run commands");
        };
        match shell.answer(command, job) {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(value) => JobEnd::Done(value),
                Err(error) => JobEnd::failed(FailureKind::Failed, format!("the answer is no JSON: {error}")),
            },
            Err(ended) => ended,
        }
    }
}

/// A value with `{name}` in its texts replaced by parameters of the job.
fn filled(value: &Value, job: &Job) -> Value {
    match value {
        Value::Text(text) if text.contains('{') => Value::text(filled_text(text, job)),
        Value::List(items) => Value::list(items.iter().map(|item| filled(item, job))),
        Value::Record(fields) => Value::record(fields.iter().map(|(name, one)| (name, filled(one, job)))),
        Value::None | Value::Bool(_) | Value::Number(_) | Value::Text(_) => value.clone(),
    }
}

fn filled_text(text: &str, job: &Job) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let found = after.split_once('}').and_then(|(name, tail)| Some((param(job, name)?, tail)));
        match found {
            Some((Value::Text(text), tail)) => {
                out.push_str(text);
                rest = tail;
            }
            Some((value, tail)) => {
                out.push_str(&value.to_string());
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_core::run::{Action, ActionId, ROOT};
    use ftl_core::value::{Fields, Name};
    use std::sync::mpsc::channel;

    fn job(entry: u64) -> Job {
        let id = ActionId { entry, index: 0 };
        let wanted = ActionTarget::Action(Name::from("verify.run"));
        let action = Action { instance: ROOT, id, wanted, params: Fields::new(), forbidden: None };
        Job::new(RunId::of(7), action, Usage::new(), ftl_process::Cancel::new(), channel().0)
    }

    fn scripted(folder: &Path) -> ScriptExecutor {
        let script = RehearsalScript::parse(
            "[[scene]]\nto = \"verify.run\"\ntimes = 2\n[[scene.step]]\noutage = \"model\"\n\
             [[scene]]\nto = \"verify.run\"\ntimes = 1\n[[scene.step]]\ndie = \"killed\"\n\
             [[scene]]\nto = \"verify.run\"\ntimes = 1\n[[scene.step]]\nsubmit = 1\n\
             [[scene]]\nto = \"verify.run\"\n[[scene.step]]\nsubmit = 2\n",
        );
        ScriptExecutor::new(script.unwrap(), folder.to_owned(), None)
    }

    #[test]
    fn what_got_no_answer_is_asked_again_and_what_got_one_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let hand = scripted(folder.path());
        let out = JobEnd::Outage { service: "model".into(), after: None };
        assert_eq!(hand.perform(&job(3)).ended, out);
        // Another process goes on where this one was killed.
        let hand = scripted(folder.path());
        assert_eq!(hand.perform(&job(3)).ended, out);
        assert_eq!(hand.perform(&job(3)).ended, JobEnd::Died("killed".into()));
        assert_eq!(hand.perform(&job(3)).ended, JobEnd::Done(Value::whole(1)));
        let hand = scripted(folder.path());
        assert_eq!(
            hand.perform(&job(3)).ended,
            JobEnd::Done(Value::whole(1)),
            "the same job, the same answer"
        );
        assert_eq!(hand.perform(&job(9)).ended, JobEnd::Done(Value::whole(2)), "the rule is used up");
    }
}
