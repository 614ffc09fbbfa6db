//! Executors: what performs actions.
//!
//! An executor gets a job, does it once, and reports. It may ask the driver before each tool call and must
//! say what it used; it never decides what comes next and never touches the journal. The same job can
//! come again after a crash, under the same key: an executor that changes the world looks first whether it
//! has done so already.

pub mod admission;
pub mod agents;
pub mod answer;
mod campaigns;
pub mod explorer;
mod lessons;
pub(crate) mod planned;
mod plans;
pub mod programs;
pub mod questions;
pub mod record;
pub mod recorded_script;
mod resume;
pub mod script;
pub mod shell;
pub mod stories;
pub mod table;
pub mod task;
pub mod transcript;
mod typed;
mod workspaces;
pub mod worktrees;

use ftl_settings::width::Width;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl_agents::secrets::{RedactValues as _, Secrets};
use ftl_core::machine::MachineCause;
use ftl_core::performer::Performer;
use ftl_core::run::{Action, ActionId, ActionTarget, Failure, FailureKind, InstanceId, Usage};
use ftl_core::value::{Name, Value};

use self::admission::{Admission, Part, Rank};
use self::table::QueueKind;
use ftl_folder::clock::millis;
use ftl_folder::id::RunId;
use ftl_process::Cancel;
use ftl_store::machine;
use ftl_store::{Lease, Store};

/// How a job came to an end.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEnd {
    /// It was done; this is the answer.
    Done(Value),
    /// It could not be done.
    Failed(Failure),
    /// Its agent or command died in the middle.
    Died(String),
    /// Its agent made a call that it may not make, and was ended: which call, and by which rule.
    Forbidden(String),
    /// It was cancelled before its end.
    Cancelled,
    /// A service does not answer.
    Outage {
        /// The name of the service that does not answer.
        service: String,
        /// How long the service asked to be left alone, if it said so.
        after: Option<Duration>,
    },
    /// An agent that was started says itself that its service does not answer.
    ClaimedOutage {
        /// The name of the service, as the agent tells it.
        service: String,
        /// How long the service asked to be left alone, if it said so.
        after: Option<Duration>,
    },
}

impl JobEnd {
    /// A failure of a kind.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> JobEnd {
        JobEnd::Failed(Failure::new(kind, message))
    }
}

impl From<Failure> for JobEnd {
    fn from(failure: Failure) -> JobEnd {
        JobEnd::Failed(failure)
    }
}

/// The last words of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The answer, or the reason why there is none.
    pub ended: JobEnd,
    /// What it used since its last report; a meter that is missing is unknown.
    pub usage: Usage,
}

impl Report {
    /// The same without secrets. Everything that a run hears comes by here, and so everything that its
    /// journal holds and that people see of it.
    #[must_use]
    pub fn hiding(self, secrets: &Secrets) -> Report {
        let clean = |text: &str| secrets.redact(text);
        let ended = match self.ended {
            JobEnd::Done(value) => JobEnd::Done(secrets.redact_value(&value)),
            JobEnd::Failed(failure) => JobEnd::Failed(Failure::new(failure.kind, clean(&failure.message))),
            JobEnd::Died(why) => JobEnd::Died(clean(&why)),
            JobEnd::Forbidden(why) => JobEnd::Forbidden(clean(&why)),
            JobEnd::Cancelled => JobEnd::Cancelled,
            JobEnd::Outage { service, after } => JobEnd::Outage { service: clean(&service), after },
            JobEnd::ClaimedOutage { service, after } => {
                JobEnd::ClaimedOutage { service: clean(&service), after }
            }
        };
        Report { ended, ..self }
    }

    /// A report of something for which nothing was set aside.
    pub fn free(ended: JobEnd) -> Report {
        Report { ended, usage: Usage::new() }
    }

    /// A report of a job that failed. Where no agent was asked for it nothing was used, and that is known; else it is
    /// not known what was used since the last report.
    pub fn failed(job: &Job, failure: Failure) -> Report {
        let ended = JobEnd::Failed(failure);
        if job.was_asked() { Report::free(ended) } else { Report { ended, usage: job.nothing() } }
    }
}

/// What hands tell the driver, in the order in which it happens.
#[derive(Debug)]
pub enum JobReport {
    /// The last report of a job.
    Report(InstanceId, ActionId, Report),
    /// A job used something; whether it may go on goes back on the channel, with why not.
    Spent(InstanceId, ActionId, Usage, Sender<Result<(), JobRefusal>>),
    /// An agent wants to call a tool, about a file where one is named; whether it may goes back on the channel, with
    /// why not.
    Tool(InstanceId, ActionId, (Name, Option<Name>), Sender<Result<(), JobRefusal>>),
    /// A service was probed: whether it answers.
    Probed(String, bool),
}

/// A job: one action, and the way back to the driver.
#[derive(Clone)]
pub struct Job {
    /// The run that asks.
    pub run: RunId,
    /// The action to perform.
    pub action: Action,
    /// What it may use before it must ask for more.
    pub allowance: Usage,
    /// Cancelled when the run no longer waits for the answer.
    pub cancel: Cancel,
    /// Whether an agent was asked for it.
    asked: Arc<AtomicBool>,
    right: Option<Arc<Right>>,
    events: Sender<JobReport>,
}

/// The right to act for a run: its lease, as long as that is the newest.
pub struct Right {
    /// The store that keeps leases.
    pub store: Arc<dyn Store>,
    /// The lease under which the job was decided.
    pub lease: Lease,
}

impl Right {
    /// Whether no other process has taken the run over. Where that cannot be told, no job may act.
    fn holds(&self) -> bool {
        let row = self.store.run(&self.lease.run).ok().flatten();
        row.is_some_and(|row| row.epoch == self.lease.epoch && row.owner.as_ref() == Some(&self.lease.owner))
    }
}

impl Job {
    /// A job whose words go to that channel.
    pub fn new(
        run: RunId,
        action: Action,
        allowance: Usage,
        cancel: Cancel,
        events: Sender<JobReport>,
    ) -> Job {
        Job { run, action, allowance, cancel, asked: Arc::default(), right: None, events }
    }

    /// The same, to be done only as long as that right holds.
    #[must_use]
    pub fn under(self, right: Arc<Right>) -> Job {
        Job { right: Some(right), ..self }
    }

    /// Notes that an agent is asked for it: from here on it may use tokens and money.
    pub fn mark_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// A use of nothing, with every meter named of which something is set aside for it.
    fn nothing(&self) -> Usage {
        self.allowance.keys().map(|name| (name.clone(), 0)).collect()
    }

    /// The epoch under which it was decided, where there is one.
    pub fn epoch(&self) -> Option<u64> {
        self.right.as_ref().map(|right| right.lease.epoch)
    }

    /// Whether it is still to be done: it may have waited for long, and its engine slept meanwhile.
    fn is_wanted(&self) -> bool {
        !self.cancel.is_cancelled() && self.right.as_ref().is_none_or(|right| right.holds())
    }

    /// The key under which the same job comes again after a crash.
    pub fn key(&self) -> String {
        format!("{}.{}", self.run, self.action.id)
    }

    /// Asks whether a tool may be called; the meter is paid when it may, for a file once.
    pub fn tool(&self, tool: &str, file: Option<&str>) -> Result<(), JobRefusal> {
        let call = (Name::from(tool), file.map(Name::from));
        self.ask(|instance, action, reply| JobReport::Tool(instance, action, call, reply))
    }

    fn ask(
        &self,
        told: impl FnOnce(InstanceId, ActionId, Sender<Result<(), JobRefusal>>) -> JobReport,
    ) -> Result<(), JobRefusal> {
        let (reply, answer) = channel();
        let told = told(self.action.instance, self.action.id, reply);
        self.events.send(told).map_err(|_| JobRefusal::Gone)?;
        answer.recv().map_err(|_| JobRefusal::Gone)?
    }

    /// Says what was used since the last report, and waits until that is charged and as much is set
    /// aside for the next turn. An agent that is told no ends: so a cap is overstepped by no more than
    /// what one turn uses beyond its reservation.
    pub fn report_usage(&self, usage: Usage) -> Result<(), JobRefusal> {
        self.ask(|instance, action, reply| JobReport::Spent(instance, action, usage, reply))
    }

    fn report(&self, report: Report) {
        let _ = self.events.send(JobReport::Report(self.action.instance, self.action.id, report));
    }
}

/// Why a job may not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRefusal {
    /// The protocol does not allow it: something is spent, or the step is over; why.
    Denied(String),
    /// The step of the job is over.
    Unwanted,
    /// The driver is being stopped.
    Stopping,
    /// The driver is gone.
    Gone,
}

impl fmt::Display for JobRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobRefusal::Denied(why) => out.write_str(why),
            JobRefusal::Unwanted => out.write_str("it is no longer wanted"),
            JobRefusal::Stopping => out.write_str("ftl is being stopped"),
            JobRefusal::Gone => out.write_str("nobody listens any more"),
        }
    }
}

impl std::error::Error for JobRefusal {}

/// Does the jobs of one kind.
pub trait Executor: Send + Sync {
    /// Does a job and returns its last words. It may take long; it looks at `job.cancel`.
    fn perform(&self, job: &Job) -> Report;
}

/// Tells whether a service answers again.
pub trait ServiceProbe: Send + Sync {
    /// Asks the service something cheap.
    fn answers(&self, service: &str, cancel: &Cancel) -> bool;
}

/// All executors of a process.
pub trait ActionRunner: Send + Sync {
    /// Begins a job, or queues it. The report comes over the job's channel, exactly one.
    fn start(&self, job: Job);
    /// Probes a service; the answer comes over the channel.
    fn probe(&self, service: String, events: Sender<JobReport>);
    /// The report of a job was heard.
    fn on_heard(&self, _instance: InstanceId, _action: ActionId) {}
    /// Jobs were called off.
    fn called_off(&self) {}
    /// Everything that was told was heard, and what follows from it has begun.
    fn rest(&self) {}
}

/// The task that a job is for, and how much waits for it. Of agents' jobs that wait for their turn, and of tasks
/// that wait to begin, the one that most waits for comes first.
pub type Urgency = Arc<dyn Fn(&Job) -> Rank + Send + Sync>;

/// Executors that work in threads of this process, so many at a time.
pub struct ExecutorPool {
    runner: BTreeMap<Performer, Arc<dyn Executor>>,
    fallback: Option<Arc<dyn Executor>>,
    probe: Option<Arc<dyn ServiceProbe>>,
    urgency: Option<Urgency>,
    admission: Arc<Admission>,
    queues: Queues,
}

/// A queue for each kind of work.
struct Queues {
    agents: Arc<Queue>,
    builds: Arc<Queue>,
    actions: Arc<Queue>,
}

/// Jobs that wait, and how many threads look after them.
struct Queue {
    most: usize,
    secrets: Arc<Secrets>,
    state: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// In the order in which they came, each with how much waits for it.
    jobs: std::collections::VecDeque<(usize, Job, Arc<dyn Executor>)>,
    threads: usize,
    idle: usize,
}

impl Waiting {
    /// The job that most waits for; of equal ones the first that came.
    fn most_urgent(&mut self) -> Option<(usize, Job, Arc<dyn Executor>)> {
        let most = self.jobs.iter().map(|(urgency, ..)| *urgency).max()?;
        let at = self.jobs.iter().position(|(urgency, ..)| *urgency == most)?;
        self.jobs.remove(at)
    }
}

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(2);

impl ExecutorPool {
    /// A pool without executors.
    pub fn new(width: Width) -> ExecutorPool {
        ExecutorPool::hiding(width, &Arc::default())
    }

    /// The same whose reports have no secrets in them, whichever executor makes them.
    pub fn hiding(width: Width, secrets: &Arc<Secrets>) -> ExecutorPool {
        let queue = |most: usize| {
            let (most, secrets) = (most.max(1), secrets.clone());
            Arc::new(Queue { most, secrets, state: Mutex::default(), more: Condvar::new() })
        };
        let queues = Queues {
            agents: queue(width.agents),
            builds: queue(width.builds),
            actions: queue(width.actions),
        };
        let admission = Arc::new(Admission::new(width.agents.max(1)));
        ExecutorPool {
            runner: BTreeMap::new(),
            fallback: None,
            probe: None,
            urgency: None,
            admission,
            queues,
        }
    }

    /// The same with an executor for `sh`, `verify.run`, `Task(builder)` and so on.
    #[must_use]
    pub fn with(mut self, performer: impl Into<Performer>, hand: Arc<dyn Executor>) -> ExecutorPool {
        self.runner.insert(performer.into(), hand);
        self
    }

    /// The same with an executor for every performer that has none of its own.
    #[must_use]
    pub fn otherwise(mut self, hand: Arc<dyn Executor>) -> ExecutorPool {
        self.fallback = Some(hand);
        self
    }

    /// The same with a probe that asks services whether they answer again.
    #[must_use]
    pub fn probing(mut self, probe: Arc<dyn ServiceProbe>) -> ExecutorPool {
        self.probe = Some(probe);
        self
    }

    /// The admission, which lets tasks begin.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The same with a function that says which agents' jobs others wait for.
    #[must_use]
    pub fn urging(mut self, urgency: Urgency) -> ExecutorPool {
        self.urgency = Some(urgency);
        self
    }

    /// Whether it has an executor of its own for a performer.
    pub fn has(&self, performer: &Performer) -> bool {
        self.runner.contains_key(performer)
    }
}

impl ActionRunner for ExecutorPool {
    fn start(&self, job: Job) {
        let performer = job.action.wanted.performer();
        let Some(hand) = self.runner.get(&performer).or(self.fallback.as_ref()).cloned() else {
            let report = no_executor(&job);
            return job.report(report);
        };
        let kind = table::queue_of(&job.action.wanted);
        let (queue, part) = match kind {
            QueueKind::Agents => (&self.queues.agents, Part::Agent),
            QueueKind::Builds => (&self.queues.builds, Part::Build),
            QueueKind::TaskEnd => (&self.queues.actions, Part::Campaign),
            QueueKind::TaskStart | QueueKind::Actions => (&self.queues.actions, Part::Other),
        };
        let is_start = kind == QueueKind::TaskStart;
        let begins = is_start && job.action.params.get("task").and_then(Value::as_text).is_some();
        let rank = match &self.urgency {
            Some(urgency) if begins || part != Part::Other => urgency(&job),
            Some(_) | None => Rank::default(),
        };
        if begins && rank.task.is_some() {
            return self.admission.wait(rank, job, hand);
        }
        self.admission.begins(part, &rank, &job);
        queue.push(rank.urgency, job, hand);
    }

    fn on_heard(&self, instance: InstanceId, action: ActionId) {
        self.admission.on_end((instance, action));
    }

    fn called_off(&self) {
        self.admission.called_off();
    }

    fn rest(&self) {
        for (job, hand) in self.admission.let_in(Instant::now()) {
            self.queues.actions.push(0, job, hand);
        }
    }

    fn probe(&self, service: String, events: Sender<JobReport>) {
        // A service without a probe is asked by doing the work again.
        let Some(probe) = self.probe.clone() else {
            let _ = events.send(JobReport::Probed(service, true));
            return;
        };
        let sent = events.clone();
        let asked = service.clone();
        let work = move || {
            let answers = probe.answers(&asked, &Cancel::new());
            let _ = sent.send(JobReport::Probed(asked, answers));
        };
        if std::thread::Builder::new().name("probe".to_owned()).spawn(work).is_err() {
            let _ = events.send(JobReport::Probed(service, false));
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Queue>, urgency: usize, job: Job, hand: Arc<dyn Executor>) {
        let mut waiting = self.lock();
        waiting.jobs.push_back((urgency, job, hand));
        if waiting.idle >= waiting.jobs.len() || waiting.threads >= self.most {
            self.more.notify_one();
            return;
        }
        let queue = self.clone();
        let name = String::from("hand");
        match std::thread::Builder::new().name(name).spawn(move || queue.work()) {
            Ok(_) => waiting.threads += 1,
            // Other threads will come to it; alone there is none, and that must not be silence.
            Err(error) if waiting.threads == 0 => {
                if let Some((_, job, _)) = waiting.jobs.pop_back() {
                    let cause = machine::cause_of_start(&error).unwrap_or(MachineCause::Process);
                    let failure = cause.failure(format!("no thread could be started: {error}"));
                    let report = Report::failed(&job, failure);
                    job.report(report);
                }
            }
            Err(_) => {}
        }
    }

    fn work(&self) {
        while let Some((job, hand)) = self.next() {
            let report = if job.is_wanted() { perform(&*hand, &job) } else { nothing_done(&job) };
            job.report(report.hiding(&self.secrets));
        }
    }

    /// The next job, or nothing when there was none for a while.
    fn next(&self) -> Option<(Job, Arc<dyn Executor>)> {
        let mut waiting = self.lock();
        loop {
            if let Some((_, job, hand)) = waiting.most_urgent() {
                return Some((job, hand));
            }
            waiting.idle += 1;
            let (back, late) = self.more.wait_timeout(waiting, IDLE).unwrap_or_else(PoisonError::into_inner);
            waiting = back;
            waiting.idle -= 1;
            if late.timed_out() && waiting.jobs.is_empty() {
                waiting.threads -= 1;
                return None;
            }
        }
    }
}

/// The report of a job that nothing in this program performs.
fn no_executor(job: &Job) -> Report {
    let message = format!("this program has no hand for `{}`", job.action.wanted.performer());
    Report::failed(job, Failure::new(FailureKind::CouldNotRun, message))
}

/// The report of a job that was cancelled before its turn came: it used nothing, and that is known.
fn nothing_done(job: &Job) -> Report {
    Report { ended: JobEnd::Cancelled, usage: job.nothing() }
}

/// Lets an executor work, times it, and survives its panic.
fn perform(hand: &dyn Executor, job: &Job) -> Report {
    let began = Instant::now();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hand.perform(job)));
    let mut report = done.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        let message = format!("the hand of `{}` panicked", job.action.wanted.performer());
        // The standard library panics where a thread of a scope cannot be had.
        Report::free(match MachineCause::of_words(said) {
            Some(cause) => JobEnd::Failed(cause.failure(format!("{message}: {said}"))),
            None => JobEnd::Died(message),
        })
    });
    if let ActionTarget::Task { .. } = job.action.wanted {
        report.usage.entry(Name::from("time")).or_insert_with(|| millis(began.elapsed()));
    }
    report
}
