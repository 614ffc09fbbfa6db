//! Scripted hands: a file says what every agent and every action answers.
//!
//! For rehearsing a protocol without an account, for the demo and for tests. A script is honest about
//! crashes: which rule answered which job is written down before the answer is given, so that the same
//! job gets the same answer again, and everything that was ever spent is in that ledger too. It plays
//! no part in real work unless it is named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ftl_core::run::{FailureKind, Usage};
use ftl_core::value::{Name, Value};
use serde::Deserialize;

use super::shell::ScriptRunner;
use super::{Executor, Job, JobEnd, Report};
use ftl_core::amount::Unit;
use ftl_core::performer::Performer;
use ftl_folder::id::RunId;
use ftl_folder::{self as folder, OpenMode};
use ftl_settings::config::plain;

/// The largest script that is read.
pub const MAX_SCRIPT_BYTES: u64 = 4 * 1024 * 1024;

/// A script: rules, the first that fits answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    rules: Vec<Rule>,
}

/// Whom a rule names that answers everybody.
const EVERYBODY: &str = "*";

/// One rule.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// Whom it answers; nobody in particular where it answers everybody.
    to: Option<Performer>,
    when: Vec<(String, Value)>,
    times: Option<u64>,
    delay: Duration,
    tools: Vec<String>,
    spend: Usage,
    says: Says,
}

/// What a rule answers.
#[derive(Clone, Debug, PartialEq)]
enum Says {
    Value(Value),
    Fail(FailureKind, String),
    Die(String),
    Outage(String, Option<Duration>),
    Command(String),
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    to: String,
    #[serde(default)]
    when: toml::Table,
    times: Option<u64>,
    delay: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    spend: toml::Table,
    value: Option<toml::Value>,
    fail: Option<String>,
    kind: Option<String>,
    die: Option<String>,
    outage: Option<String>,
    after: Option<String>,
    command: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pages {
    #[serde(default)]
    answer: Vec<Written>,
}

impl Script {
    /// Reads a script. Whatever is wrong is told with the number of the rule.
    pub fn parse(text: &str) -> Result<Script, String> {
        let file: Pages = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        let rule = |(index, written): (usize, Written)| {
            let to = written.to.clone();
            Rule::of(written).map_err(|message| format!("answer {} (to {to}): {message}", index + 1))
        };
        Ok(Script { rules: file.answer.into_iter().enumerate().map(rule).collect::<Result<_, _>>()? })
    }

    /// Reads a script from a file.
    pub fn load(path: &Path) -> Result<Script, String> {
        let text = folder::read_named_text(path, MAX_SCRIPT_BYTES).map_err(|error| error.to_string())?;
        Script::parse(&text)
    }

    /// Whom it answers by name.
    pub fn performers(&self) -> BTreeSet<&Performer> {
        self.rules.iter().filter_map(|rule| rule.to.as_ref()).collect()
    }

    /// Whether some rule answers everybody.
    pub fn answers_all(&self) -> bool {
        self.rules.iter().any(|rule| rule.to.is_none())
    }

    /// Whether it answers in a role.
    pub fn answers_role(&self, role: &str) -> bool {
        self.answers_all() || self.performers().iter().any(|one| one.role() == Some(role))
    }
}

impl Rule {
    fn of(written: Written) -> Result<Rule, String> {
        let time = |text: Option<String>| {
            let time = text.map(|text| Unit::Time.parse(&text)).transpose();
            time.map(|time| time.map(Duration::from_millis)).map_err(|error| error.to_string())
        };
        let when = written.when.iter().map(|(name, value)| Ok((name.clone(), plain(value)?)));
        let spend =
            written.spend.iter().map(|(meter, value)| Ok((Name::from(meter.as_str()), spend(meter, value)?)));
        Ok(Rule {
            when: when.collect::<Result<_, String>>()?,
            spend: spend.collect::<Result<_, String>>()?,
            delay: time(written.delay.clone())?.unwrap_or_default(),
            times: written.times,
            tools: written.tools.clone(),
            to: Some(&*written.to).filter(|to| *to != EVERYBODY).map(Performer::from),
            says: says(written)?,
        })
    }

    /// Whether what it says is an answer. An agent that died and a service that is out said nothing:
    /// the same job comes again, and is not bound to fare the same way.
    fn answers(&self) -> bool {
        match self.says {
            Says::Value(_) | Says::Fail(..) | Says::Command(_) => true,
            Says::Die(_) | Says::Outage(..) => false,
        }
    }

    fn fits(&self, job: &Job) -> bool {
        let has = |(path, wanted): &(String, Value)| param(job, path) == Some(wanted);
        self.to.as_ref().is_none_or(|to| *to == job.action.wanted.performer()) && self.when.iter().all(has)
    }
}

fn spend(meter: &str, value: &toml::Value) -> Result<u64, String> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_) => String::new(),
    };
    Unit::of_meter(meter).parse(&text).map_err(|error| error.to_string())
}

fn says(written: Written) -> Result<Says, String> {
    let kind = match &written.kind {
        None => FailureKind::Failed,
        Some(word) => FailureKind::ALL
            .into_iter()
            .find(|kind| kind.word() == word)
            .ok_or_else(|| format!("`{word}` is no kind of failure"))?,
    };
    let after = written.after.as_deref().map(|text| Unit::Time.parse(text)).transpose();
    let after = after.map_err(|error| error.to_string())?;
    let mut said = Vec::new();
    said.extend(written.value.as_ref().map(plain).transpose()?.map(Says::Value));
    said.extend(written.fail.map(|message| Says::Fail(kind, message)));
    said.extend(written.die.map(Says::Die));
    said.extend(written.outage.map(|service| Says::Outage(service, after.map(Duration::from_millis))));
    said.extend(written.command.map(Says::Command));
    match said.len() {
        1 => said.pop().ok_or_else(String::new),
        0 => Err(String::from("it says nothing: give it a value, fail, die, outage or command")),
        _ => Err(String::from("it says more than one thing: value, fail, die, outage, command")),
    }
}

/// A parameter of a job by its path, such as `spec.id`.
fn param<'a>(job: &'a Job, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = job.action.params.get(parts.next()?)?;
    Some(parts.fold(first, |value, part| value.field(part)))
}

/// The hand that plays a script.
pub struct ScriptExecutor {
    script: Script,
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
    /// A hand that plays a script and keeps its ledgers in that folder. Rules with a command need a
    /// shell.
    pub fn new(script: Script, folder: PathBuf, shell: Option<Arc<ScriptRunner>>) -> ScriptExecutor {
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
            rules.find(|(index, rule)| rule.fits(job) && left(*index, rule)).map(|(index, _)| index)
        };
        let Some(chosen) = ledger.chosen.get(&key).copied().or_else(fresh) else { return Ok(None) };
        let Some(rule) = self.script.rules.get(chosen) else { return Ok(None) };
        ledger.note(&key, chosen, rule)?;
        Ok(Some(chosen))
    }
}

impl Ledger {
    fn open(folder: &Path, run: &RunId, script: &Script) -> io::Result<Ledger> {
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
                ledger.count(key, rule, script.rules.get(rule).is_some_and(Rule::answers));
            }
        }
        Ok(ledger)
    }

    fn note(&mut self, key: &str, index: usize, rule: &Rule) -> io::Result<()> {
        let spent = serde_json::to_string(&rule.spend)?;
        // A newline first: what a crash has cut stays a line of its own.
        self.file.write_all(format!("\n{key}\t{index}\t{spent}").as_bytes())?;
        self.file.sync_data()?;
        self.count(key, index, rule.answers());
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
            return Report { ended: JobEnd::Cancelled, usage: rule.spend.clone() };
        }
        for tool in &rule.tools {
            // A denied call ends the task: the driver has said so to everybody already.
            if job.tool(tool, None).is_err() {
                return Report { ended: JobEnd::Cancelled, usage: rule.spend.clone() };
            }
        }
        let ended = match &rule.says {
            Says::Value(value) => JobEnd::Done(filled(value, job)),
            Says::Fail(kind, message) => JobEnd::failed(*kind, message.clone()),
            Says::Die(message) => JobEnd::Died(message.clone()),
            Says::Outage(service, after) => JobEnd::Outage { service: service.clone(), after: *after },
            Says::Command(command) => self.ask_command(command, job),
        };
        let mut usage = rule.spend.clone();
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
    use ftl_core::run::{Action, ActionId, ActionTarget, ROOT};
    use ftl_core::value::Fields;
    use std::sync::mpsc::channel;

    fn job(entry: u64) -> Job {
        let id = ActionId { entry, index: 0 };
        let wanted = ActionTarget::Action(Name::from("verify.run"));
        let action = Action { instance: ROOT, id, wanted, params: Fields::new(), forbidden: None };
        Job::new(RunId::of(7), action, Usage::new(), ftl_process::Cancel::new(), channel().0)
    }

    fn scripted(folder: &Path) -> ScriptExecutor {
        let script = Script::parse(
            "[[answer]]\nto = \"verify.run\"\ntimes = 2\noutage = \"model\"\n\
             [[answer]]\nto = \"verify.run\"\ntimes = 1\ndie = \"killed\"\n\
             [[answer]]\nto = \"verify.run\"\ntimes = 1\nvalue = 1\n\
             [[answer]]\nto = \"verify.run\"\nvalue = 2\n",
        );
        ScriptExecutor::new(script.unwrap(), folder.to_owned(), None)
    }

    #[test]
    fn a_script_is_not_too_large() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MAX_SCRIPT_BYTES + 1).unwrap();
        let error = Script::load(file.path()).unwrap_err();
        assert!(error.contains(&format!("{MAX_SCRIPT_BYTES} is the most")), "{error}");
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
