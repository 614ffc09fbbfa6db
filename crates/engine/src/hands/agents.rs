//! The hand of `Task(role)`: a backend of `crates/agents`, with the driver as its desk.
//!
//! Every call of a tool is ruled on by the pure rule first and paid by the driver then; every use is
//! charged before the next turn. An agent writes below `.ftl/worktrees/` and nowhere else: a task that
//! names no worktree of ours may write nothing. This hand never judges an answer beyond its type.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ftl_agents::bench::{Ran, Shell};
use ftl_agents::contract::{
    Answer, Backend, Desk, Ended as Talked, Limits as TalkLimits, MONEY, Order, Said, TOKENS, TURNS, Trouble,
    Verdict, converse,
};
use ftl_agents::prompts::{Filling, Prompts};
use ftl_agents::schema::Schema;
use ftl_agents::window::Lobby;
use ftl_core::catalogue::{Catalogue, Form, schema};
use ftl_core::desk::{Allowance, Call, Ruling, Write, rule};
use ftl_core::run::{FailureKind, Usage, Wanted};
use ftl_core::value::{Name, Value};

use super::programs::Programs;
use super::shell::PASSED_ON;
use super::{Ended, Hand, Job, Report};
use crate::place::Place;
use crate::process::{Cut, Fence, How, Limits, MARK, Mark, Spec, Stdin, Stream, Supervisor};

/// The parameters that are not told as inputs: feedback has a place of its own, and where an agent may
/// write stands among the rules.
const NOT_INPUTS: [&str; 2] = ["feedback", "write"];

/// Asks agents.
pub struct Agents {
    backends: BTreeMap<String, Arc<dyn Backend>>,
    prompts: Prompts,
    root: PathBuf,
    worktrees: PathBuf,
    fences: PathBuf,
    supervisor: Arc<Supervisor>,
    commands: Limits,
    programs: Limits,
    lobby: Option<Lobby>,
}

impl Agents {
    /// A hand that asks, for each role, the backend that it is bound to. Commands of agents and agents'
    /// own programs are held to those limits.
    pub fn new(
        backends: BTreeMap<String, Arc<dyn Backend>>,
        prompts: Prompts,
        place: &Place,
        supervisor: Arc<Supervisor>,
        commands: Limits,
        programs: Limits,
    ) -> Agents {
        let (root, worktrees, fences) = (place.root().to_owned(), place.worktrees(), place.fences());
        Agents { backends, prompts, root, worktrees, fences, supervisor, commands, programs, lobby: None }
    }

    /// The same, with windows for agents' own programs.
    #[must_use]
    pub fn with_lobby(mut self, lobby: Lobby) -> Agents {
        self.lobby = Some(lobby);
        self
    }

    fn ask(&self, job: &Job) -> Result<Talked, Ended> {
        let could_not = |why: String| Ended::failed(FailureKind::CouldNotRun, why);
        let Wanted::Task { role, .. } = &job.action.wanted else {
            return Err(could_not(String::from("this is no task for an agent")));
        };
        let backend = self.backends.get(&**role);
        let backend = backend.ok_or_else(|| could_not(format!("no agent is bound to the role {role}")))?;
        let asked = Asked::of(role, job).map_err(could_not)?;
        let (folder, write) = self.site(job);
        let allowance =
            Allowance { tools: tools(role, asked.form.word, &write), write, ..Allowance::default() };
        let answer = Schema::new(schema(&asked.form.answer)).map_err(could_not)?;
        let filling = Filling {
            role,
            task: asked.form.about,
            folder: &folder,
            allowance: &allowance,
            inputs: &asked.inputs,
            workspace: None,
            lessons: &[],
            feedback: asked.feedback.as_deref(),
            answer: &answer,
        };
        let prompt = self.prompts.render(&filling).map_err(could_not)?;
        let fence = job.epoch().map(|epoch| Fence { file: self.fences.join(job.run.as_str()), epoch });
        let launcher = Programs::new(self.supervisor.clone(), self.programs, job.key(), fence.clone());
        let shell = Commands {
            supervisor: self.supervisor.clone(),
            limits: self.commands,
            job: job.clone(),
            fence,
            count: AtomicU64::new(0),
        };
        let order = Order {
            folder,
            role: role.to_string(),
            form: asked.form.word.map(str::to_owned),
            model: None,
            system: prompt.system,
            allowance: allowance.clone(),
            answer,
            limits: TalkLimits::default(),
            shell: Some(Arc::new(shell)),
            launcher: Some(Arc::new(launcher)),
            lobby: self.lobby.clone(),
        };
        let desk: Arc<dyn Desk> = Arc::new(JobDesk { job: job.clone(), allowance, used: Mutex::new(0) });
        Ok(converse(&**backend, order, &prompt.parts, &desk))
    }

    /// Where the agent works and what it may write there.
    fn site(&self, job: &Job) -> (PathBuf, Write) {
        let named = job.action.params.get("write").and_then(Value::as_text).map(Path::new);
        let real = named.filter(|path| path.is_absolute()).and_then(|path| path.canonicalize().ok());
        let ours = self.worktrees.canonicalize().ok();
        match real.zip(ours).filter(|(path, ours)| path.starts_with(ours) && path != ours && path.is_dir()) {
            Some((path, _)) => (path, Write::Anything),
            None => (self.root.clone(), Write::Nothing),
        }
    }
}

impl Hand for Agents {
    fn perform(&self, job: &Job) -> Report {
        match self.ask(job) {
            Ok(talked) => report(talked),
            Err(ended) => Report { ended, usage: nothing_used() },
        }
    }
}

/// A form of asking and what it was given.
struct Asked<'a> {
    form: &'a Form,
    inputs: Vec<(String, String)>,
    feedback: Option<String>,
}

impl Asked<'_> {
    fn of(role: &str, job: &Job) -> Result<Asked<'static>, String> {
        let declared = Catalogue::standard().role(role).ok_or_else(|| format!("there is no role {role}"))?;
        let params = &job.action.params;
        let word = declared.selector.and_then(|selector| params.get(selector)).and_then(Value::as_text);
        let given = params.keys().map(|name| &**name);
        let form =
            declared.pick(word, &given).ok_or_else(|| format!("the {role} is not asked in this form"))?;
        let is_input = |name: &str| !NOT_INPUTS.contains(&name) && declared.selector != Some(name);
        let inputs = params.iter().filter(|(name, value)| is_input(name) && !value.is_none());
        let feedback = params.get("feedback").filter(|value| !value.is_empty()).map(told);
        Ok(Asked {
            form,
            inputs: inputs.map(|(name, value)| (name.to_string(), told(value))).collect(),
            feedback,
        })
    }
}

/// A value as an agent reads it: text as it is, the rest as JSON.
fn told(value: &Value) -> String {
    match value.as_text() {
        Some(text) => text.to_owned(),
        None => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// The tools of a role: one that may write nothing looks only, and a builder that plans has none.
fn tools(role: &str, form: Option<&str>, write: &Write) -> std::collections::BTreeSet<Name> {
    let names: &[&str] = match (role, form, write) {
        ("builder", Some("plan"), _) => &["submit"],
        (_, _, Write::Nothing) => &["read", "search", "recall", "signal", "ask", "submit"],
        (_, _, Write::Only(_) | Write::Anything) => {
            &["read", "search", "edit", "write", "bash", "recall", "signal", "ask", "submit"]
        }
    };
    names.iter().map(|name| Name::from(*name)).collect()
}

/// The driver as a desk.
struct JobDesk {
    job: Job,
    allowance: Allowance,
    used: Mutex<u64>,
}

impl Desk for JobDesk {
    fn rule(&self, call: &Call) -> Verdict {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match rule(&self.allowance, *used, call) {
            Ruling::Deny(why) => Verdict::Deny(why),
            Ruling::Ask(question) => Verdict::Ask(question),
            Ruling::Allow if !call.deed.is_counted() => Verdict::Allow,
            // What the driver denies it has told everybody already: the step is over.
            Ruling::Allow => match self.job.tool(&call.tool) {
                Ok(()) => {
                    *used += 1;
                    Verdict::Allow
                }
                Err(why) => Verdict::Stop(why),
            },
        }
    }

    fn charge(&self, usage: &Usage) -> Result<(), String> {
        self.job.spent(usage.clone())
    }

    fn say(&self, _: Said<'_>) {}

    fn is_cancelled(&self) -> bool {
        self.job.cancel.is_cancelled()
    }
}

/// Commands of an agent, each in a process tree of its own.
struct Commands {
    supervisor: Arc<Supervisor>,
    limits: Limits,
    job: Job,
    fence: Option<Fence>,
    count: AtomicU64,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Commands({})", self.job.key())
    }
}

impl Shell for Commands {
    fn run(&self, command: &str, folder: &Path, limit: Duration, _: &dyn Desk) -> Result<Ran, String> {
        let key = format!("{}.{}", self.job.key(), self.count.fetch_add(1, Ordering::Relaxed));
        let mut env: Vec<(OsString, OsString)> = PASSED_ON
            .iter()
            .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
            .collect();
        env.push(("TERM".into(), "dumb".into()));
        let spec = Spec {
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            folder: folder.to_owned(),
            env,
            stdin: Stdin::Null,
            limits: Limits { soft: Some(limit), startup: None, ..self.limits },
            lock: PathBuf::from(&key),
            fence: self.fence.clone(),
            mark: Mark::new(MARK, &key)?,
        };
        let mut output = Vec::new();
        let most = self.limits.head + self.limits.tail;
        let mut hear = |_: Stream, bytes: &[u8]| {
            let room = most.saturating_sub(output.len()).min(bytes.len());
            output.extend_from_slice(&bytes[..room]);
        };
        let ended =
            self.supervisor.run(&spec, &self.job.cancel, &mut hear).map_err(|error| error.to_string())?;
        let mut output = String::from_utf8_lossy(&output).into_owned();
        if let Some(cut) = ended.cut.filter(|cut| *cut != Cut::Cancelled) {
            output.push_str(&format!("\n[{}]", cut.sentence(&ended.limits)));
        }
        let code = match ended.how {
            How::Exited(code) if ended.cut.is_none() => Some(code),
            How::Exited(_) | How::Signalled(_) | How::Unknown => None,
        };
        Ok(Ran { code, output })
    }
}

fn nothing_used() -> Usage {
    [TOKENS, MONEY, TURNS].map(|meter| (Name::from(meter), 0)).into()
}

/// The last words of a conversation. All that is known was charged on the way; what is not known is
/// missing here, so that it is charged as the worst case.
fn report(talked: Talked) -> Report {
    let mut usage = nothing_used();
    usage.retain(|meter, _| !talked.unknown.contains(meter));
    let ended = match talked.outcome {
        Ok(Answer::Done(json)) => match serde_json::from_value(json) {
            Ok(value) => Ended::Done(value),
            Err(error) => Ended::failed(FailureKind::Failed, format!("the answer cannot be kept: {error}")),
        },
        Ok(Answer::Asked(question)) => {
            Ended::failed(FailureKind::Failed, format!("the agent asks: {question}"))
        }
        Err(Trouble::Cancelled | Trouble::Stopped(_)) => Ended::Cancelled,
        Err(Trouble::Died(why)) => Ended::Died(why),
        Err(Trouble::TimedOut(why)) => Ended::failed(FailureKind::Timeout, why),
        Err(Trouble::Bad(why)) => Ended::failed(FailureKind::Failed, why),
        Err(Trouble::CouldNotRun(why)) => Ended::failed(FailureKind::CouldNotRun, why),
        Err(Trouble::Outage { service, after, .. }) => Ended::Outage { service, after },
    };
    Report { ended, usage }
}
