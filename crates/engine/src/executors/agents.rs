//! The executor of `Task(role)`: a backend of `crates/agents`, with the driver as its session host.
//!
//! Every call of a tool is ruled on by the pure rule first and paid by the driver then; every use is
//! charged before the next turn. An agent writes below `.ftl/worktrees/` and nowhere else: in the worktree
//! that its task names, or the listed files of its instance's own; a task that names neither may write
//! nothing. This executor never judges an answer beyond its type.

use ftl_settings::roster::{UNBOUND, UNPRICED};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ftl_agents::contract::McpEndpoint;
use ftl_agents::contract::{
    AgentAnswer, Backend, ConversationEnd as Talked, MONEY, Said, SessionHost, SessionLimits as TalkLimits,
    SessionOrder, TOKENS, TURNS, Verdict, converse,
};
use ftl_agents::contract::{ChargeRefusal, CommandFailure, CommandRunner, Ran, RecallError};
use ftl_agents::error::AgentError;
use ftl_agents::schema::Schema;
use ftl_agents::secrets::Secrets;
use ftl_agents::toolset::SPEAKING;
use ftl_core::catalogue::{CallLimit, Catalogue, Role, RoleForm, RoleRule, Sight, schema};
use ftl_core::run::{ActionTarget, Failure, FailureKind, Usage};
use ftl_core::tool_policy::{Deed, ResolvedPath, Ruling, ToolAllowance, ToolCall, Write, rule};
use ftl_core::types::Type;
use ftl_core::value::{Name, Value};
use ftl_settings::prompts::{Filling, Prompts};

use super::programs::ProgramStarter;
use super::questions;
use super::record::ConversationRecord;
use super::resume::Thread;
use super::stories::render_patch;
use super::worktrees::message::Author;
use super::worktrees::{Sites, committer_of};
use super::{Executor, Job, JobEnd, Report};
use crate::sandboxes::{RoleSandbox, Sandboxes};
use crate::services;
use ftl_folder::state_folder::StateFolder;
use ftl_process::{Cancel, Cut, Fence, How, MARK, Mark, ProcessLimits, Spec, Stdin, Stream, Supervisor};
use ftl_records::Records;
use ftl_settings::environment::{CommandKind, Environment};
use ftl_settings::roster::{BackendError, Pricing};
use ftl_store::Store as _;

/// The parameters that are not told as inputs: feedback has a place of its own, and where an agent may
/// write stands among the rules.
const NOT_INPUTS: [&str; 2] = ["feedback", "write"];

/// What lessons are recalled by, the first of these that is given.
const RECALLED_BY: [&str; 5] = ["objective", "story", "brief", "input", "error"];

/// Who answers a role: a backend, and the model where it is not the backend's own.
#[derive(Clone)]
pub struct RoleAnswerer {
    /// The backend that opens sessions with the agent.
    pub backend: Arc<dyn Backend>,
    /// The model that the settings or the command line name; none leaves it to the agent.
    pub model: Option<String>,
    /// Whether an author goes on in its earlier session, where the agent offers that.
    pub resume: bool,
    /// How long it may be silent, where it is not as long as any other.
    pub silence: Option<Duration>,
    /// What the commands see that it has us run.
    pub environment: Environment,
    /// What is charged for its conversations where money is concerned.
    pub pricing: Pricing,
}

/// The parts that every session needs: prompts, the state folder, the supervisor, limits.
pub struct Means {
    /// The prompts of all roles.
    pub prompts: Prompts,
    /// The folder `.ftl` of the repository.
    pub place: StateFolder,
    /// Who runs their commands and programs.
    pub supervisor: Arc<Supervisor>,
    /// The limits of their commands.
    pub commands: ProcessLimits,
    /// The limits of their own programs.
    pub programs: ProcessLimits,
    /// What is around both.
    pub sandboxes: Sandboxes,
}

/// A listener that follows what agents say.
pub trait Listener: Send + Sync {
    /// An agent said or did something. It must not wait.
    fn on_said(&self, job: &Job, said: Said<'_>);
}

/// Performs `Task(role)`: makes the prompt, opens a session with the bound agent, and checks the answer.
pub struct Agents {
    seats: BTreeMap<String, Result<RoleAnswerer, BackendError>>,
    means: Means,
    mcp_endpoint: Option<McpEndpoint>,
    records: Option<Arc<Records>>,
    secrets: Arc<Secrets>,
    listener: Option<Arc<dyn Listener>>,
    sites: Option<Arc<Sites>>,
    stand_ins: BTreeMap<String, String>,
    explorer_calls: u64,
}

impl Agents {
    /// An executor that asks, for each role, the agent that is bound to it; a role may be bound to an agent that
    /// cannot be used, with the reason.
    pub fn new(seats: BTreeMap<String, Result<RoleAnswerer, BackendError>>, means: Means) -> Agents {
        let secrets = Arc::new(Secrets::new());
        let (stand_ins, explorer_calls) = (BTreeMap::new(), EXPLORER_CALLS);
        Agents {
            seats,
            means,
            mcp_endpoint: None,
            records: None,
            secrets,
            listener: None,
            sites: None,
            stand_ins,
            explorer_calls,
        }
    }

    /// The same, with windows for agents' own programs.
    #[must_use]
    pub fn with_lobby(mut self, mcp_endpoint: McpEndpoint) -> Agents {
        self.mcp_endpoint = Some(mcp_endpoint);
        self
    }

    /// The same, with lessons to recall, and with what was said kept; secrets are taken out of it.
    #[must_use]
    pub fn with_memory(mut self, records: Arc<Records>, secrets: Arc<Secrets>) -> Agents {
        (self.records, self.secrets) = (Some(records), secrets);
        self
    }

    /// The same, with worktrees for instances.
    #[must_use]
    pub fn with_sites(mut self, sites: Arc<Sites>) -> Agents {
        self.sites = Some(sites);
        self
    }

    /// The same, with a listener that follows what agents say.
    #[must_use]
    pub fn heard_by(mut self, listener: Arc<dyn Listener>) -> Agents {
        self.listener = Some(listener);
        self
    }

    /// The same where the agent that is bound to one role answers another one too, each time in a session of its own.
    #[must_use]
    pub fn with_stand_in(mut self, role: &str, by: &str) -> Agents {
        self.stand_ins.insert(role.to_owned(), by.to_owned());
        self
    }

    /// The same where an explorer has so many calls.
    #[must_use]
    pub fn with_explorer_calls(mut self, calls: u64) -> Agents {
        self.explorer_calls = calls;
        self
    }

    /// Whether an agent is bound to a role, of use or not.
    pub fn is_bound(&self, role: &str) -> bool {
        self.seats.contains_key(self.whose(role))
    }

    /// The prompts of all roles.
    pub(super) fn prompts(&self) -> &Prompts {
        &self.means.prompts
    }

    /// The role whose seat answers a role.
    fn whose<'a>(&'a self, role: &'a str) -> &'a str {
        self.stand_ins.get(role).map_or(role, String::as_str)
    }

    fn seat(&self, role: &str) -> Result<&RoleAnswerer, String> {
        let whose = self.whose(role);
        match self.seats.get(whose) {
            Some(seat) => seat.as_ref().map_err(|why| format!("the {whose} cannot be asked: {why}")),
            None => Err(format!("no agent is bound to the role {whose}: {UNBOUND}")),
        }
    }

    /// Asks an agent; whether its price is unknown and not to be guessed comes with how it ended.
    fn ask(&self, job: &Job) -> Result<(Talked, bool), JobEnd> {
        let with_evidence = self.with_evidence(job)?;
        let job = with_evidence.as_ref().unwrap_or(job);
        let ActionTarget::Task { role, .. } = &job.action.wanted else {
            return Err(could_not("this is no task for an agent"));
        };
        let seat = self.seat(role).map_err(could_not)?;
        let mut asked = Asked::of(role, job).map_err(could_not)?;
        asked.feedback = self.feedback(asked.role, job, asked.feedback.take())?;
        let (folder, write) = self.site(asked.role, job)?;
        let calls = self.calls(asked.form, job);
        let tools = tools(asked.form, &write, calls);
        let allowance = ToolAllowance { tools, write, calls, ..ToolAllowance::default() };
        let answer = Schema::new(shape(asked.role, &asked.form.answer)).map_err(could_not)?;
        let filling = Filling {
            role,
            task: asked.form.about,
            folder: &folder,
            allowance: &allowance,
            inputs: &asked.inputs,
            workspace: None,
            lessons: &self.lessons(&asked),
            feedback: asked.feedback.as_deref(),
            answer: &answer,
        };
        let prompt = self.means.prompts.render(&filling).map_err(could_not)?;
        let is_about_work = asked.feedback.is_some() || asked.form.has(RoleRule::Mends);
        let thread = Thread::of(job, asked.role, seat, &folder, is_about_work);
        let kept = self.records.as_ref().zip(thread.as_ref());
        let earlier = kept.and_then(|(records, one)| one.earlier(records));
        let around = RoleSandbox::new(&self.means.sandboxes, role, allowance.write != Write::Nothing);
        let (launcher, shell) = self.starters(job, seat, around);
        let order = SessionOrder {
            folder,
            role: role.to_string(),
            form: asked.form.word.map(str::to_owned),
            model: seat.model.clone(),
            system: prompt.system.clone(),
            allowance: allowance.clone(),
            answer,
            limits: talk_limits(seat),
            shell: Some(Arc::new(shell)),
            launcher: Some(Arc::new(launcher)),
            mcp_endpoint: self.mcp_endpoint.clone(),
            earlier,
        };
        let mut record = ConversationRecord::new(job, (role, asked.form.word), seat, self.secrets.clone());
        record.on_prompt(&prompt);
        // What is sent is kept before it is sent: what an agent was told can always be looked up.
        if let Some(records) = &self.records {
            record.keep(records).map_err(Failure::from)?;
        }
        let host = Arc::new(JobHost {
            job: job.clone(),
            allowance,
            used: Mutex::default(),
            files_count_once: asked.role.has(RoleRule::FilesCountOnce),
            record: Mutex::new(record),
            records: self.records.clone(),
            listener: self.listener.clone(),
            thread,
            pricing: seat.pricing,
        });
        let shared: Arc<dyn SessionHost> = host.clone();
        let mut talked = converse(&*seat.backend, order, &prompt.parts, &shared);
        let unpriced = settle_price(seat.pricing, &mut talked);
        self.note_author(job, asked.form.has(RoleRule::IsAuthor), seat, &talked.outcome)?;
        self.keep_talk(job, &host, &talked.outcome)?;
        Ok((talked, unpriced))
    }

    /// What the protocol says to an agent, answers of people, what earlier work has left, and a call that was forbidden.
    fn feedback(&self, role: &Role, job: &Job, own: Option<String>) -> Result<Option<String>, JobEnd> {
        let (answers, inherited) = (self.answers(job)?, self.inherited(role, job)?);
        let parts = [own, answers, inherited, job.action.forbidden.as_deref().map(warning)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Ok((!parts.is_empty()).then(|| parts.join("\n\n")))
    }

    /// What starts an agent's own program and the commands that it has us run, below the run's fence.
    fn starters(&self, job: &Job, seat: &RoleAnswerer, around: RoleSandbox) -> (ProgramStarter, Commands) {
        let fences = self.means.place.fences();
        let fence = job.epoch().map(|epoch| Fence { file: fences.join(job.run.as_str()), epoch });
        let supervisor = self.means.supervisor.clone();
        let launcher = ProgramStarter::new(supervisor.clone(), self.means.programs, job.key(), fence.clone());
        let launcher = launcher.inside(around.clone());
        let shell = Commands {
            supervisor,
            limits: self.means.commands,
            env: with_committer(job, seat.environment.of_command(CommandKind::Agent)),
            job: job.clone(),
            fence,
            around,
            count: AtomicU64::new(0),
        };
        (launcher, shell)
    }

    /// Notes at the worktree who has written what lies there.
    fn note_author(
        &self,
        job: &Job,
        is_author: bool,
        seat: &RoleAnswerer,
        outcome: &Result<AgentAnswer, AgentError>,
    ) -> Result<(), JobEnd> {
        let (Some(sites), Ok(AgentAnswer::Done(answer)), true) = (&self.sites, outcome, is_author) else {
            return Ok(());
        };
        let summary = answer.get("summary").and_then(|text| text.as_str());
        let summary = summary.map(|text| self.secrets.redact(text));
        let (agent, model) = (seat.backend.name().to_owned(), seat.model.clone());
        sites.note_author(job, &Author { agent, model, summary })?;
        Ok(())
    }

    /// Keeps how a conversation ended and the question that it ended with; a session that broke is forgotten.
    fn keep_talk(
        &self,
        job: &Job,
        host: &JobHost,
        outcome: &Result<AgentAnswer, AgentError>,
    ) -> Result<(), JobEnd> {
        let Some(records) = &self.records else { return Ok(()) };
        host.record().on_end(outcome);
        if let Ok(AgentAnswer::Asked(question)) = outcome {
            let question = self.secrets.redact(question);
            let kept = questions::ask(records, &job.run, job.action.instance, &question);
            kept.map_err(Failure::from)?;
        }
        if let (Some(thread), true) = (&host.thread, is_broken(outcome)) {
            let _ = thread.forget(records);
        }
        // The answer counts; that its story could not be kept is told where the disk is looked after.
        let _ = host.record().keep(records);
        Ok(())
    }

    /// How many counted calls a form has, where no meter of its protocol counts them.
    fn calls(&self, form: &RoleForm, job: &Job) -> Option<u64> {
        match form.calls {
            CallLimit::Meters => None,
            CallLimit::Setting(_) => Some(self.explorer_calls),
            CallLimit::Brief(field) => Some(count_of_brief(job, field)).filter(|calls| *calls > 0),
        }
    }

    /// The same job with what shows a failure: the end of what the command printed, and what was changed so far. A
    /// conversation that is new knows neither. Nothing for any other job.
    fn with_evidence(&self, job: &Job) -> Result<Option<Job>, Failure> {
        let params = &job.action.params;
        if !has_rule(job, RoleRule::SeesFailure) {
            return Ok(None);
        }
        let mut asked = job.clone();
        let output = params.get("output").and_then(Value::as_text).and_then(|digest| digest.parse().ok());
        let printed = match (&self.records, &output) {
            (Some(records), Some(digest)) => records.store().get(digest)?,
            (_, _) => None,
        };
        let printed = printed.map(|bytes| Value::text(end_of(&String::from_utf8_lossy(&bytes))));
        asked.action.params.insert(Name::from("output"), printed.unwrap_or(Value::None));
        if let Some(sites) = &self.sites {
            let change = sites.change_so_far(job)?;
            asked.action.params.insert(Name::from("change"), Value::text(render_patch(&change)));
        }
        Ok(Some(asked))
    }

    /// What a role is told about work that an earlier attempt at its brief left in its worktree.
    fn inherited(&self, role: &Role, job: &Job) -> Result<Option<String>, Failure> {
        let has_brief = role.sight == Sight::Brief;
        let Some(sites) = self.sites.as_ref().filter(|_| has_brief) else { return Ok(None) };
        let files = sites.inherited(job)?;
        Ok((!files.is_empty()).then(|| {
            format!(
                "An earlier attempt at this task ended without success. What it changed stands in the folder: {}. Go on \
                 from there; keep what is right and mend what is not.",
                files.join(", ")
            )
        }))
    }

    /// What people answered to agents that worked here before.
    fn answers(&self, job: &Job) -> Result<Option<String>, Failure> {
        let Some(records) = &self.records else { return Ok(None) };
        let all = questions::of(records, &job.run, job.action.instance)?;
        Ok(questions::render_answers(&all))
    }

    /// Lessons for a role that is not given any in what it is asked with: a brief has its own.
    fn lessons(&self, asked: &Asked) -> Vec<String> {
        let has_brief = asked.role.sight == Sight::Brief;
        let Some(records) = self.records.as_ref().filter(|_| !has_brief) else { return Vec::new() };
        let about = asked.inputs.iter().find(|(name, _)| RECALLED_BY.contains(&name.as_str()));
        let Some((_, about)) = about else { return Vec::new() };
        // Without lessons the work is harder, not wrong.
        records.lessons_about(about).unwrap_or_default()
    }

    /// Where the agent works and what it may write there.
    fn site(&self, role: &Role, job: &Job) -> Result<(PathBuf, Write), Failure> {
        let write = job.action.params.get("write");
        if let Some(sites) = &self.sites {
            if let Some(paths) = own_paths(job) {
                let folder = sites.folder(job)?;
                let paths = parse_paths(&paths).map_err(|why| Failure::new(FailureKind::CouldNotRun, why))?;
                return Ok((folder, Write::Only(paths)));
            }
            // An agent that may not write looks at what is to be written, or was.
            let own = match (role.sight, write) {
                (Sight::Brief, _) => sites.folder_of_brief(job),
                (Sight::Story, None) => sites.folder_if_open(job),
                (Sight::Story | Sight::Repository, _) => Ok(None),
            };
            if let Some(folder) = own? {
                return Ok((folder, Write::Nothing));
            }
        }
        Ok(self.named_site(write))
    }

    /// The worktree that a task names as the place to write; without one it may only look.
    fn named_site(&self, write: Option<&Value>) -> (PathBuf, Write) {
        let named = write.and_then(Value::as_text).map(Path::new);
        let real = named.filter(|path| path.is_absolute()).and_then(|path| path.canonicalize().ok());
        let ours = self.means.place.worktrees().canonicalize().ok();
        match real.zip(ours).filter(|(path, ours)| path.starts_with(ours) && path != ours && path.is_dir()) {
            Some((path, _)) => (path, Write::Anything),
            None => (self.means.place.root().to_owned(), Write::Nothing),
        }
    }
}

impl Executor for Agents {
    fn perform(&self, job: &Job) -> Report {
        let author = self.sites.as_ref().filter(|_| own_paths(job).is_some());
        let before = author.and_then(|sites| sites.survey(job));
        let asked = self.ask(job);
        if let (Some(sites), Some(before)) = (author, before) {
            sites.note_turn(job, &before);
        }
        match asked {
            Ok((talked, unpriced)) => {
                // What it wrote is written down with its answer. Who cannot look at it now says so at the next gate.
                if let (Some(sites), Some(_)) = (&self.sites, own_paths(job)) {
                    let _ = sites.note_work(job);
                }
                report(talked, unpriced)
            }
            Err(ended) => Report { ended, usage: nothing_used() },
        }
    }
}

/// An environment in which what git logs is known as a job's.
fn with_committer(job: &Job, mut env: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    env.retain(|(name, _)| name != "GIT_COMMITTER_EMAIL");
    env.push(("GIT_COMMITTER_EMAIL".into(), committer_of(job).into()));
    env
}

/// The shape of an answer. A reviewer's words are never left out: an author that is sent back is told why.
fn shape(role: &Role, answer: &Type) -> serde_json::Value {
    let mut shape = schema(answer);
    if role.has(RoleRule::Explains)
        && let Some(feedback) = shape.pointer_mut("/properties/feedback").and_then(|one| one.as_object_mut())
    {
        feedback.insert(String::from("minLength"), 1.into());
    }
    // A field that `ftl` fills in is not asked of the agent.
    if let Some(properties) = shape.pointer_mut("/properties").and_then(|one| one.as_object_mut()) {
        properties.remove("digest");
    }
    shape
}

/// What a task may write in the worktree of its own instance: the paths of a list, or where its form may name one the
/// path from the root that the protocol names. Any other text names a whole worktree, or an area of a lifecycle task.
fn own_paths(job: &Job) -> Option<Vec<Value>> {
    let params = &job.action.params;
    let writes_path = has_rule(job, RoleRule::WritesPath);
    match params.get("write")? {
        Value::List(paths) => Some(paths.to_vec()),
        one @ Value::Text(path) if writes_path && Path::new(&**path).is_relative() => Some(vec![one.clone()]),
        Value::None | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Record(_) => None,
    }
}

/// What could not even be tried.
fn could_not(why: impl std::fmt::Display) -> JobEnd {
    JobEnd::failed(FailureKind::CouldNotRun, why.to_string())
}

/// Files that may be written, as they are compared.
fn parse_paths(paths: &[Value]) -> Result<BTreeSet<String>, String> {
    let path = |value: &Value| match value.as_text() {
        Some(path) => Ok(path.strip_prefix("./").unwrap_or(path).to_owned()),
        None => Err(String::from("what may be written is no list of paths")),
    };
    paths.iter().map(path).collect()
}

/// The form in which a role is asked for a job.
fn form_of(role: &'static Role, job: &Job) -> Option<&'static RoleForm> {
    let params = &job.action.params;
    let word = role.selector.and_then(|selector| params.get(selector)).and_then(Value::as_text);
    role.pick(word, &params.keys().map(|name| &**name))
}

/// Whether a rule holds for the form in which a job asks an agent.
fn has_rule(job: &Job, rule: RoleRule) -> bool {
    let role = match &job.action.wanted {
        ActionTarget::Task { role, .. } => Catalogue::standard().role(role),
        ActionTarget::Action(_) | ActionTarget::Word(_) | ActionTarget::Question => None,
    };
    role.and_then(|role| form_of(role, job)).is_some_and(|form| form.has(rule))
}

/// A form of asking and what it was given.
struct Asked {
    role: &'static Role,
    form: &'static RoleForm,
    inputs: Vec<(String, String)>,
    feedback: Option<String>,
}

impl Asked {
    fn of(role: &str, job: &Job) -> Result<Asked, String> {
        let declared = Catalogue::standard().role(role).ok_or_else(|| format!("there is no role {role}"))?;
        let params = &job.action.params;
        let form = form_of(declared, job).ok_or_else(|| format!("the {role} is not asked in this form"))?;
        let is_input = |name: &str| !NOT_INPUTS.contains(&name) && declared.selector != Some(name);
        let inputs = params.iter().filter(|(name, value)| is_input(name) && !value.is_none());
        let feedback = params.get("feedback").filter(|value| !value.is_empty()).map(render_value);
        Ok(Asked {
            role: declared,
            form,
            inputs: inputs.map(|(name, value)| (name.to_string(), render_value(value))).collect(),
            feedback,
        })
    }
}

/// A value as an agent reads it: text as it is, the rest as JSON.
fn render_value(value: &Value) -> String {
    match value.as_text() {
        Some(text) => text.to_owned(),
        None => {
            let mut json = serde_json::to_value(value).unwrap_or_default();
            drop_nothing(&mut json);
            serde_json::to_string_pretty(&json).unwrap_or_default()
        }
    }
}

/// Leaves out members that are nothing: an agent is told what there is, and every word of it is paid for.
fn drop_nothing(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nothing);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_nothing),
        _ => {}
    }
}

/// How many calls an explorer has: enough to look at what code could not tell.
const EXPLORER_CALLS: u64 = 4;

/// How many calls a field of a brief gives.
fn count_of_brief(job: &Job, field: &str) -> u64 {
    match job.action.params.get("spec").map(|spec| spec.field(field)) {
        Some(Value::Number(number)) => number.as_count(),
        Some(Value::None | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Record(_)) | None => 0,
    }
}

/// The tools of a form where so much may be written. One whose brief gives it no calls has those that cost none.
fn tools(form: &RoleForm, write: &Write, calls: Option<u64>) -> BTreeSet<Name> {
    let has_calls = calls.is_some() || !matches!(form.calls, CallLimit::Brief(_));
    let names = form.tools.with(write).iter().filter(|name| has_calls || SPEAKING.contains(name));
    names.map(|name| Name::from(*name)).collect()
}

/// What an agent has used of its calls.
#[derive(Default)]
struct Used {
    calls: u64,
    /// The files that were read or written.
    files: BTreeSet<String>,
}

/// The driver as the host of a session.
struct JobHost {
    job: Job,
    allowance: ToolAllowance,
    used: Mutex<Used>,
    /// Whether a file counts once, however often it is read or written.
    files_count_once: bool,
    record: Mutex<ConversationRecord>,
    records: Option<Arc<Records>>,
    listener: Option<Arc<dyn Listener>>,
    thread: Option<Thread>,
    pricing: Pricing,
}

impl JobHost {
    fn record(&self) -> MutexGuard<'_, ConversationRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that a call reads or writes, where each file counts once. A search looks at many.
    fn counted_file<'a>(&self, call: &'a ToolCall) -> Option<&'a str> {
        let is_of_one_file = match call.deed {
            Deed::Look => &*call.tool == "read",
            Deed::Change => true,
            Deed::Run | Deed::Speak => false,
        };
        match &call.spot {
            Some(ResolvedPath::Inside(path)) if self.files_count_once && is_of_one_file => Some(path),
            Some(ResolvedPath::Inside(_) | ResolvedPath::Outside(_)) | None => None,
        }
    }

    fn judge(&self, call: &ToolCall) -> Verdict {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.counted_file(call);
        let is_counted_already = file.is_some_and(|file| used.files.contains(file));
        let calls = if is_counted_already { 0 } else { used.calls };
        match rule(&self.allowance, calls, call) {
            Ruling::Deny(why) => Verdict::Deny(why),
            Ruling::Ask(question) => Verdict::Ask(question),
            Ruling::Allow if !call.deed.is_counted() => Verdict::Allow,
            // What the driver denies it has told the agent already: the step is over.
            Ruling::Allow if is_counted_already => Verdict::Allow,
            Ruling::Allow => match self.job.tool(&call.tool, file) {
                Ok(()) => {
                    used.calls += 1;
                    used.files.extend(file.map(str::to_owned));
                    Verdict::Allow
                }
                Err(refusal) => Verdict::Stop(refusal.to_string()),
            },
        }
    }
}

impl SessionHost for JobHost {
    fn rule(&self, call: &ToolCall) -> Verdict {
        let verdict = self.judge(call);
        self.record().on_ruling(call, &verdict);
        verdict
    }

    fn tried(&self, tool: &str, args: &serde_json::Value) {
        self.record().tried(tool, args);
    }

    fn on_own_call(&self, tool: &str, args: &serde_json::Value) {
        self.record().on_own_call(tool, args);
    }

    fn on_result(&self, tool: &str, result: &str) {
        self.record().on_result(tool, result);
    }

    fn on_message(&self, text: &str) {
        self.record().on_message(text);
    }

    fn charge(&self, usage: &Usage) -> Result<(), ChargeRefusal> {
        let mut usage = usage.clone();
        if let (Pricing::Free | Pricing::Subscription, Some(money)) = (self.pricing, usage.get_mut(MONEY)) {
            *money = 0;
        }
        self.record().on_usage(&usage);
        self.job.report_usage(usage).map_err(|refusal| ChargeRefusal(refusal.to_string()))
    }

    fn say(&self, said: Said<'_>) {
        self.record().on_said(said);
        if let Some(listener) = &self.listener {
            listener.on_said(&self.job, said);
        }
    }

    fn on_session_opened(&self, session: &str) {
        // Where it cannot be noted, the next one is a new one.
        if let (Some(records), Some(thread)) = (&self.records, &self.thread) {
            let _ = thread.note_session(records, session);
        }
    }

    fn recall(&self, about: &str) -> Result<String, RecallError> {
        let records = self.records.as_ref().ok_or(RecallError::NoMemory)?;
        records.tell(about).map_err(|error| RecallError::Failed(error.to_string()))
    }

    fn is_cancelled(&self) -> bool {
        self.job.cancel.is_cancelled()
    }

    fn cancel_token(&self) -> Option<&Cancel> {
        Some(&self.job.cancel)
    }
}

/// Commands of an agent, each in a process tree of its own.
struct Commands {
    supervisor: Arc<Supervisor>,
    limits: ProcessLimits,
    env: Vec<(OsString, OsString)>,
    job: Job,
    fence: Option<Fence>,
    around: RoleSandbox,
    count: AtomicU64,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Commands({})", self.job.key())
    }
}

impl CommandRunner for Commands {
    fn run(
        &self,
        command: &str,
        folder: &Path,
        limit: Duration,
        _: &dyn SessionHost,
    ) -> Result<Ran, CommandFailure> {
        let key = format!("{}.{}", self.job.key(), self.count.fetch_add(1, Ordering::Relaxed));
        let spec = Spec {
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            folder: folder.to_owned(),
            env: self.env.clone(),
            stdin: Stdin::Null,
            limits: ProcessLimits { soft: Some(limit), startup: None, ..self.limits },
            lock: PathBuf::from(&key),
            fence: self.fence.clone(),
            mark: Mark::new(MARK, &key).map_err(|error| CommandFailure(error.to_string()))?,
            sandbox: self.around.of_command(folder, &self.env),
        };
        let mut output = Vec::new();
        let most = self.limits.head + self.limits.tail;
        let mut hear = |_: Stream, bytes: &[u8]| {
            let room = most.saturating_sub(output.len()).min(bytes.len());
            output.extend_from_slice(&bytes[..room]);
        };
        let ended = self
            .supervisor
            .run(&spec, &self.job.cancel, &mut hear)
            .map_err(|error| CommandFailure(error.to_string()))?;
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

/// How much of what a command printed a repair is shown, the end of it.
const MAX_PRINTED_BYTES: usize = 8 * 1024;

/// The end of a text, as much as is shown.
fn end_of(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_PRINTED_BYTES))..]
}

/// What an agent is told when the attempt before it was ended for a call that it may not make.
fn warning(why: &str) -> String {
    format!(
        "Your last attempt at this task was ended, and nothing of its answer counts: {why}. Such a call ends the \
         attempt each time; do the task without it."
    )
}

/// Whether a session ended in a way that is better not gone on from.
fn is_broken(outcome: &Result<AgentAnswer, AgentError>) -> bool {
    match outcome {
        Ok(AgentAnswer::Done(_) | AgentAnswer::Asked(_)) => false,
        Err(
            AgentError::Cancelled
            | AgentError::Stopped(_)
            | AgentError::Outage { .. }
            | AgentError::Machine(_),
        ) => false,
        Err(
            AgentError::Forbidden(_)
            | AgentError::Died(_)
            | AgentError::TimedOut(_)
            | AgentError::Bad(_)
            | AgentError::CouldNotRun(_),
        ) => true,
    }
}

/// How long and how much.
fn talk_limits(seat: &RoleAnswerer) -> TalkLimits {
    let usual = TalkLimits::default();
    let silence = seat.silence.unwrap_or(usual.silence);
    TalkLimits { silence, whole: usual.whole.max(silence), ..usual }
}

pub(super) fn nothing_used() -> Usage {
    [TOKENS, MONEY, TURNS].map(|meter| (Name::from(meter), 0)).into()
}

/// Settles the money of a conversation that was not reported, as the person says; whether it stays unknown.
fn settle_price(pricing: Pricing, talked: &mut Talked) -> bool {
    match pricing {
        Pricing::Reported => false,
        Pricing::Free | Pricing::Subscription => {
            talked.unknown.remove(MONEY);
            false
        }
        Pricing::Unknown => talked.unknown.remove(MONEY),
    }
}

/// The last words of a conversation. All that is known was charged on the way; what is not known is
/// missing here, so that it is charged as the worst case.
fn report(talked: Talked, unpriced: bool) -> Report {
    let mut usage = nothing_used();
    usage.retain(|meter, _| !talked.unknown.contains(meter));
    usage.extend(unpriced.then(|| (Name::from(UNPRICED), 1)));
    let ended = match talked.outcome {
        Ok(AgentAnswer::Done(json)) => match serde_json::from_value(json) {
            Ok(value) => JobEnd::Done(value),
            Err(error) => JobEnd::failed(FailureKind::Failed, format!("the answer cannot be kept: {error}")),
        },
        Ok(AgentAnswer::Asked(question)) => {
            JobEnd::failed(FailureKind::Asked, format!("the agent asks: {question}"))
        }
        Err(AgentError::Cancelled | AgentError::Stopped(_)) => JobEnd::Cancelled,
        Err(AgentError::Forbidden(why)) => JobEnd::Forbidden(why),
        Err(AgentError::Machine(why)) => JobEnd::failed(FailureKind::Machine, why),
        Err(AgentError::Died(why)) => JobEnd::Died(why),
        Err(AgentError::TimedOut(why)) => JobEnd::failed(FailureKind::Timeout, why),
        Err(AgentError::Bad(why)) => JobEnd::failed(FailureKind::Failed, why),
        Err(AgentError::CouldNotRun(why)) => JobEnd::failed(FailureKind::CouldNotRun, why),
        Err(AgentError::Outage { service, why, after, claimed }) => {
            let service = services::describe_outage(&service, &why);
            if claimed { JobEnd::ClaimedOutage { service, after } } else { JobEnd::Outage { service, after } }
        }
    };
    Report { ended, usage }
}
