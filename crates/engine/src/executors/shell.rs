//! The executor of `sh`: one script in the shell, in a process tree of its own.
//!
//! The environment is built from nothing: a command gets what [`Environment`] lists and the names of
//! its run and action, and no secret that happened to be in ours. What a protocol hands over comes as
//! arguments and is never pasted into the text of the script.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;

use super::{Executor, Job, JobEnd, Report, ServiceProbe};
use ftl_folder::state_folder::StateFolder;
use ftl_process::{
    self, Cancel, Captured, Cut, Fence, How, MARK, Mark, ProcessLimits, RunError, Spec, Stdin, Stream,
    Supervisor,
};
use ftl_settings::config::Config;
use ftl_settings::environment::{CommandKind, Environment};
use ftl_store::Store;
use ftl_store::machine;

/// The exit code by which a command says that the service it needs does not answer (EX_TEMPFAIL).
pub const SERVICE_IS_OUT: i32 = 75;

/// How long a probe may take.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Performs `sh`, in the root of the repository and under a guard.
pub struct ScriptRunner {
    supervisor: Arc<Supervisor>,
    store: Arc<dyn Store>,
    folder: PathBuf,
    fences: PathBuf,
    commands: ProcessLimits,
    agents: ProcessLimits,
    environment: Environment,
}

impl ScriptRunner {
    /// A shell that works in the folder of a place, with limits for commands and for agents.
    pub fn new(
        supervisor: Arc<Supervisor>,
        store: Arc<dyn Store>,
        place: &StateFolder,
        commands: ProcessLimits,
        agents: ProcessLimits,
    ) -> ScriptRunner {
        let (folder, fences) = (place.root().to_owned(), place.fences());
        let environment = Environment::default();
        ScriptRunner { supervisor, store, folder, fences, commands, agents, environment }
    }

    /// The same where commands see this of our surroundings.
    #[must_use]
    pub fn in_environment(self, environment: &Environment) -> ScriptRunner {
        ScriptRunner { environment: environment.clone(), ..self }
    }

    /// The fence that a job must not be behind.
    fn fence(&self, job: &Job) -> Option<Fence> {
        job.epoch().map(|epoch| Fence { file: self.fences.join(job.run.as_str()), epoch })
    }

    /// What a script printed for a job; it gets the parameters as JSON on its standard input.
    pub(super) fn answer(&self, script: &str, job: &Job) -> Result<String, JobEnd> {
        let input = serde_json::to_vec(&job.action).unwrap_or_default();
        let spec = self.spec(script, &[], &job.key(), self.agents)?;
        let spec = Spec { stdin: Stdin::Bytes(input), fence: self.fence(job), ..spec };
        let mut whole = Vec::new();
        let most = usize::try_from(spec.limits.keep).unwrap_or(usize::MAX);
        let ended = self.supervisor.run(&spec, &job.cancel, &mut |stream, bytes| {
            if stream == Stream::Out {
                let room = most.saturating_sub(whole.len()).min(bytes.len());
                whole.extend_from_slice(&bytes[..room]);
            }
        });
        let ended = ended.map_err(|error| could_not(&error))?;
        if let Some(bad) = cut_short(&ended) {
            return Err(bad);
        }
        match ended.how {
            How::Exited(0) => Ok(String::from_utf8_lossy(&whole).into_owned()),
            How::Exited(SERVICE_IS_OUT) => {
                let service = ended.err.text().lines().last().unwrap_or("service").trim().to_owned();
                Err(JobEnd::Outage { service, after: None })
            }
            How::Exited(code) => Err(JobEnd::failed(FailureKind::Failed, exit_code(code, &ended.err))),
            How::Signalled(_) | How::Unknown => Err(JobEnd::Died(ended.sentence())),
        }
    }

    fn spec(&self, script: &str, args: &[String], key: &str, limits: ProcessLimits) -> Result<Spec, JobEnd> {
        let mark = Mark::new(MARK, key)
            .map_err(|error| JobEnd::failed(FailureKind::CouldNotRun, error.to_string()))?;
        let fixed = ["-c", script, "sh"].into_iter().map(OsString::from);
        let mut env = self.environment.of_command(CommandKind::Sh);
        env.push(("FTL_KEY".into(), key.into()));
        Ok(Spec {
            program: "sh".into(),
            args: fixed.chain(args.iter().map(OsString::from)).collect(),
            folder: self.folder.clone(),
            env,
            stdin: Stdin::Null,
            limits,
            lock: PathBuf::from(key),
            fence: None,
            mark,
            sandbox: None,
        })
    }

    /// Runs a command by itself, for no action: how it ended, or why it could not be run.
    pub fn once(
        &self,
        command: &str,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<ftl_process::ProcessExit, RunError> {
        let limits = ProcessLimits { hard: Some(limit), ..self.commands };
        let key = format!("once.{:016x}", ftl_folder::id::random().unwrap_or(0));
        let spec = self
            .spec(command, &[], &key, limits)
            .map_err(|ended| RunError::CouldNotStart(format!("{ended:?}")))?;
        self.supervisor.run(&spec, cancel, &mut |_, _| {})
    }

    /// The same with words for the script, something to read, and more of our surroundings.
    pub fn once_with(
        &self,
        (script, words, input): (&str, &[String], &str),
        env: &[(OsString, OsString)],
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<ftl_process::ProcessExit, RunError> {
        let limits = ProcessLimits { hard: Some(limit), ..self.commands };
        let key = format!("once.{:016x}", ftl_folder::id::random().unwrap_or(0));
        let spec = self
            .spec(script, words, &key, limits)
            .map_err(|ended| RunError::CouldNotStart(format!("{ended:?}")))?;
        let mut spec = Spec { stdin: Stdin::Bytes(input.as_bytes().to_vec()), ..spec };
        let missing = env.iter().filter(|(name, _)| !spec.env.iter().any(|(known, _)| known == name));
        let missing: Vec<_> = missing.cloned().collect();
        spec.env.extend(missing);
        self.supervisor.run(&spec, cancel, &mut |_, _| {})
    }

    /// Keeps the whole of an output that does not fit into the answer.
    fn keep(&self, captured: &Captured) -> Option<String> {
        if captured.left_out() == 0 {
            return None;
        }
        let (digest, _) = self.store.put_stream(&mut captured.whole().ok()?).ok()?;
        Some(digest.to_string())
    }
}

impl Executor for ScriptRunner {
    fn perform(&self, job: &Job) -> Report {
        let text = |name: &str| job.action.params.get(name).and_then(Value::as_text).unwrap_or_default();
        let args: Vec<String> = match job.action.params.get("args") {
            Some(args) => args.items().iter().map(spoken).collect(),
            None => Vec::new(),
        };
        let mut limits = self.commands;
        if let Some(timeout) = job.action.params.get("timeout").and_then(Value::as_number) {
            let timeout = Duration::from_millis(u64::try_from(timeout.in_thousandths()).unwrap_or(0));
            limits.soft = Some(limits.soft.map_or(timeout, |soft| soft.min(timeout)));
        }
        let ended = self.spec(text("script"), &args, &job.key(), limits).map(|spec| {
            let spec = Spec { fence: self.fence(job), ..spec };
            match self.supervisor.run(&spec, &job.cancel, &mut |_, _| {}) {
                Ok(ended) => self.judge(&ended),
                Err(error) => could_not(&error),
            }
        });
        Report::free(ended.unwrap_or_else(|ended| ended))
    }
}

impl ScriptRunner {
    fn judge(&self, ended: &ftl_process::ProcessExit) -> JobEnd {
        if let Some(bad) = cut_short(ended) {
            return bad;
        }
        let code = match ended.how {
            How::Exited(code) => code,
            How::Signalled(_) | How::Unknown => return JobEnd::Died(ended.sentence()),
        };
        if code != 0 {
            return JobEnd::Failed(Failure::new(FailureKind::Failed, exit_code(code, &ended.err)));
        }
        let stdout = ended.out.text();
        let mut fields = vec![
            ("code", Value::whole(i64::from(code))),
            ("line", Value::text(stdout.lines().next().unwrap_or_default().trim())),
            ("stdout", Value::text(&stdout)),
            ("stderr", Value::text(ended.err.text())),
            ("took", Value::Number(took(ended.took))),
        ];
        for (name, captured) in [("whole_stdout", &ended.out), ("whole_stderr", &ended.err)] {
            fields.extend(self.keep(captured).map(|digest| (name, Value::text(digest))));
        }
        JobEnd::Done(Value::record(fields))
    }
}

fn took(duration: Duration) -> ftl_core::value::Number {
    ftl_core::value::Number::thousandths(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// Why something could not even be started, as an outcome.
fn could_not(error: &RunError) -> JobEnd {
    match error {
        RunError::Cancelled => JobEnd::Cancelled,
        RunError::Bad(_)
        | RunError::Guard(_)
        | RunError::NoAnswer
        | RunError::CouldNotStart(_)
        | RunError::Busy(_) => {
            let cause = machine::cause_of_run(error);
            JobEnd::Failed(machine::judged(cause, FailureKind::CouldNotRun, error.to_string()))
        }
    }
}

/// Why the end of a process is not its own, as an outcome: it was ended, or something that it started
/// could not be.
fn cut_short(ended: &ftl_process::ProcessExit) -> Option<JobEnd> {
    let Some(cut) = ended.cut else {
        let left = ended.left;
        let message = format!("{left} of the processes that it started could not be ended");
        return (left > 0).then(|| JobEnd::failed(FailureKind::CouldNotRun, message));
    };
    Some(match cut {
        Cut::Cancelled => JobEnd::Cancelled,
        Cut::GuardLost => JobEnd::Died(ended.sentence()),
        Cut::Startup | Cut::Silence | Cut::Soft | Cut::Hard => {
            let (why, said) = (cut.sentence(&ended.limits), last_lines(&ended.err));
            let message = if said.is_empty() { why } else { format!("{why}: {said}") };
            JobEnd::failed(FailureKind::Timeout, message)
        }
    })
}

/// The last words of an output.
/// What a command failed with, and its last words if it had any.
fn exit_code(code: i32, err: &Captured) -> String {
    let words = last_lines(err);
    if words.is_empty() { format!("exit code {code}") } else { format!("exit code {code}: {words}") }
}

fn last_lines(captured: &Captured) -> String {
    let text = captured.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn spoken(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::None => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Record(_) => value.to_string(),
    }
}

/// Probes services by the commands of the settings.
pub struct Probes {
    shell: Arc<ScriptRunner>,
    config: Config,
}

impl Probes {
    /// Probes by the commands of these settings.
    pub fn new(shell: Arc<ScriptRunner>, config: Config) -> Probes {
        Probes { shell, config }
    }
}

impl ServiceProbe for Probes {
    fn answers(&self, service: &str, cancel: &Cancel) -> bool {
        // Without a probe of its own a service is asked by doing the work again.
        let Some(command) = self.config.probe(crate::services::name_of(service)) else { return true };
        let ended = self.shell.once(command, PROBE_LIMIT, cancel);
        ended.is_ok_and(|ended| ended.cut.is_none() && ended.how == How::Exited(0))
    }
}
