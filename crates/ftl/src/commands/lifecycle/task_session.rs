//! What a command of the lifecycle works with: the task that is meant, its run, an order carried out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ftl_command::session::{session_failure, store_failure};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, foreign, session, signals};
use ftl_core::performer::Performer;
use ftl_core::run::{Entry, Fact, ROOT, Run};
use ftl_core::value::{Name, Value};
use ftl_engine::drive::{DriveEnd, StopSignal};
use ftl_engine::driver::Opening;
use ftl_engine::session::{ReplayedRun, Session};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_language::library::Library;
use ftl_lifecycle::binding::Bindings;
use ftl_lifecycle::folder::{self, STATE, TaskIdError};
use ftl_lifecycle::gate_answers::Looks;
use ftl_lifecycle::registry::{self, RegistryError, TaskInfo, TaskStanding, Turn};
use ftl_lifecycle::{Malformed, Phase, Phases, TaskFolder, TaskId};
use ftl_records::Records;
use ftl_store::order::{Order, Refused};

use crate::commands::run::ForegroundRun;
use crate::tasks::TaskArg;

/// How long a command waits for another one that works on the same task.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);

/// The session, the output and the person of one command.
pub(super) struct TaskSession<'a> {
    pub(super) cli: &'a GlobalArgs,
    pub(super) out: &'a Out,
    pub(super) session: Session,
    pub(super) stop: StopSignal,
    pub(super) by: String,
    pub(super) phases: Phases,
}

/// What gates answered when they were looked through.
pub(super) type GateAnswers = BTreeMap<Name, Result<Value, ftl_core::run::Failure>>;

/// A task that a command has come to: known to the journal, and at rest.
pub(super) struct Arrived {
    pub(super) folder: TaskFolder,
    pub(super) run: RunId,
    pub(super) phase: Phase,
    pub(super) machine: ReplayedRun,
    pub(super) bindings: Bindings,
    /// What a person should hear of what was done on the way.
    pub(super) warnings: Vec<String>,
    /// What an earlier command had begun, and this one brought to its end.
    pub(super) resumed: Option<Resumed>,
    _turn: Turn,
}

/// What an earlier command had begun when it was killed, brought to its end.
pub(super) struct Resumed {
    /// The phase that the task was in.
    pub(super) from: Phase,
    /// The words that were said and not carried out.
    words: Vec<String>,
    /// The outcome of the order.
    pub(super) carried: Carried,
}

impl Resumed {
    /// Whether the task moved by it.
    pub(super) fn moved(&self) -> Option<&Phase> {
        (self.carried.phase != self.from).then_some(&self.carried.phase)
    }

    /// Whether it was this word.
    pub(super) fn was(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }
}

impl Arrived {
    /// Why the task is held, if it is.
    pub(super) fn hold_reason(&self) -> Option<String> {
        let root = self.machine.run.instance(ROOT)?;
        root.held.values().next().map(|held| held.failure.message.clone())
    }

    /// The gates of the task, none of them looked through yet.
    pub(super) fn looks(&self, phases: &Phases) -> Looks<'_> {
        Looks::new(&self.folder, &self.bindings, phases.routes())
    }
}

/// The outcome of an order.
pub(super) struct Carried {
    /// The order itself was refused.
    pub(super) refused: Option<Refused>,
    /// The word was refused on the way, and why.
    pub(super) denied: Option<String>,
    /// The phase that the task is in now.
    pub(super) phase: Phase,
    /// Why it is held, if it is.
    pub(super) held: Option<String>,
    /// Whether a signal came first.
    pub(super) interrupted: bool,
    /// The run as it is now.
    pub(super) machine: ReplayedRun,
}

impl<'a> TaskSession<'a> {
    /// Opens what a person's command needs. An agent gets nowhere.
    pub(super) fn open(cli: &'a GlobalArgs, out: &'a Out) -> Result<TaskSession<'a>, CommandError> {
        let place = session::place(cli)?;
        let by = session::speaker(cli, &place)?;
        let session = session::open(cli)?;
        let stop = signals::stop(out)?;
        let phases = phases(session.library())?;
        Ok(TaskSession { cli, out, session, stop, by, phases })
    }

    /// A phase as a person types it.
    pub(super) fn phase(&self, word: &str) -> Result<Phase, CommandError> {
        find_phase(&self.phases, word)
    }

    fn records(&self) -> Result<&Records, CommandError> {
        Ok(self.session.records())
    }

    /// The task that is meant.
    pub(super) fn task(&self, asked: &TaskArg) -> Result<TaskId, CommandError> {
        let current = registry::current(&**self.records()?.store()).map_err(|error| store_failure(&error))?;
        choose(self.session.place(), asked.task.as_deref(), current)
    }

    /// Takes a task for this command.
    pub(super) fn turn(&self, id: &TaskId) -> Result<Turn, CommandError> {
        let end = Instant::now() + MAX_WAIT;
        loop {
            let turn = registry::turn(self.session.place(), id).map_err(|error| {
                CommandError::new(format!("task {id} cannot be locked: {error}"), "run `ftl doctor`")
            })?;
            if let Some(turn) = turn {
                return Ok(turn);
            }
            if Instant::now() >= end || self.stop.times_said() > 0 {
                let message = format!("another ftl works on task {id}");
                return Err(CommandError::new(message, "wait for its end; `ftl status` shows what it does"));
            }
            std::thread::sleep(LOOK);
        }
    }

    pub(super) fn know(&self, id: &TaskId, known: &TaskInfo) -> Result<(), CommandError> {
        registry::know(&**self.records()?.store(), id, known).map_err(|error| store_failure(&error))
    }

    pub(super) fn make_current(&self, id: &TaskId) -> Result<(), CommandError> {
        registry::set_current(&**self.records()?.store(), id).map_err(|error| store_failure(&error))
    }

    /// Where a task is, by its file and by its journal.
    pub(super) fn standing(&self, folder: &TaskFolder) -> Result<TaskStanding, CommandError> {
        Ok(self.look(folder)?.0)
    }

    /// The same with its run, where the journal knows it.
    fn look(&self, folder: &TaskFolder) -> Result<(TaskStanding, Option<ReplayedRun>), CommandError> {
        let mut looked = None;
        let mut look = |run: &RunId| {
            looked = look(&self.session, run)?;
            Ok(looked.as_ref().and_then(|looked| registry::phase_of(&looked.run, &self.phases)))
        };
        let standing = registry::standing(&**self.records()?.store(), folder, &self.phases, &mut look);
        let standing = standing.map_err(|trouble: TaskSessionError| trouble.0)?;
        Ok((standing, looked))
    }

    /// Opens the run of a task, and drives it to where it waits for a word.
    pub(super) fn open_run(
        &self,
        run: &RunId,
        brief: &str,
        adopt: Option<ftl_core::run::Adoption>,
    ) -> Result<(), CommandError> {
        let inputs = [(Name::from("brief"), Value::text(brief))].into();
        let mut terms = self.session.config().terms(self.session.library());
        foreign::narrow(&mut terms).iter().for_each(|note| self.out.note(note));
        let opening = Opening { protocol: Name::from(registry::PROTOCOL), inputs, terms };
        let opened = self.session.open_task(run.clone(), opening, adopt);
        let (driver, todo) = opened.map_err(|error| session_failure(&error))?;
        let driven = self.session.drive_task(driver, todo, &self.stop, &mut (), GateAnswers::new());
        driven.map_err(|error| session_failure(&error))?;
        Ok(())
    }

    /// Takes a folder as it stands: everything in it is bound at once.
    pub(super) fn adopt(&self, folder: &TaskFolder, phase: &Phase) -> Result<RunId, CommandError> {
        let run = run_id()?;
        let disk = |error: Malformed| malformed_failure(&error);
        let state = folder.digest(STATE).map_err(disk)?.map(|digest| digest.to_string());
        self.know(folder.id(), &TaskInfo { run: run.clone(), state })?;
        registry::see_all(&**self.records()?.store(), folder).map_err(|error| store_failure(&error))?;
        let adoption = registry::adoption(folder, phase, &self.by, &self.phases);
        self.open_run(&run, &registry::brief(folder), Some(adoption))?;
        Ok(run)
    }

    /// Brings `state.json` to where the journal is, where it lags behind, and remembers it.
    pub(super) fn catch_up(
        &self,
        folder: &TaskFolder,
        run: &RunId,
        phase: &Phase,
        lags: Option<&Phase>,
    ) -> Result<(), CommandError> {
        match lags {
            Some(from) => self.project(folder, run, from, phase),
            None => registry::remember(&**self.records()?.store(), folder, run, &self.phases)
                .map_err(|error| desk_failure(&error)),
        }
    }

    /// Brings `state.json` from one phase to another.
    pub(super) fn project(
        &self,
        folder: &TaskFolder,
        run: &RunId,
        from: &Phase,
        to: &Phase,
    ) -> Result<(), CommandError> {
        registry::project(&**self.records()?.store(), folder, run, (from, to), &self.phases)
            .map_err(|error| desk_failure(&error))
    }

    /// Ends a run that a task no longer has.
    pub(super) fn end(&self, run: &RunId) -> Result<(), CommandError> {
        let row = self.session.store().run(run).map_err(|error| store_failure(&error))?;
        if row.is_none_or(|row| row.settled) {
            return Ok(());
        }
        let (by, reason) = (self.by.clone(), String::from("its task was adopted anew"));
        let machine = self.session.look_whole(run).map_err(|error| session_failure(&error))?;
        self.send(run, &Order::Stop { instance: ROOT, by, reason }, machine, GateAnswers::new()).map(|_| ())
    }

    /// Comes to a task: adopted if it was not known, refused if its state was changed by hand, at rest.
    pub(super) fn arrive(&self, asked: &TaskArg) -> Result<Arrived, CommandError> {
        let id = self.task(asked)?;
        let turn = self.turn(&id)?;
        let folder = TaskFolder::of(self.session.place(), &id);
        let mut warnings = Vec::new();
        let whole = |run: &RunId| self.session.look_whole(run).map_err(|error| session_failure(&error));
        let (standing, looked) = self.look(&folder)?;
        let (run, mut machine) = match (standing, looked) {
            (TaskStanding::Unknown { phase }, _) => {
                let run = self.adopt(&folder, &phase)?;
                warnings.push(format!("the task was adopted in {phase}"));
                let machine = whole(&run)?;
                (run, machine)
            }
            (TaskStanding::Agrees { run, phase, lags }, looked) => {
                self.catch_up(&folder, &run, &phase, lags.as_ref())?;
                let machine = looked.map_or_else(|| whole(&run), Ok)?;
                (run, machine)
            }
            (TaskStanding::Disagrees { file, journal, .. }, _) => {
                return Err(disagreement(&id, &file, &journal));
            }
        };
        let resumed = self.go_on(&folder, &run, &machine)?;
        if let Some(resumed) = &resumed {
            warnings.push(String::from("what was interrupted was brought to its end first"));
            machine = resumed.carried.machine.clone();
        }
        let phase = registry::phase_of(&machine.run, &self.phases).ok_or_else(|| {
            let state = machine.run.instance(ROOT).map_or("", |root| &*root.state);
            let message =
                format!("the run {run} of task {id} is in `{state}`, which is no phase of `lifecycle`");
            let hint =
                format!("bring the document back as it was, or adopt the task anew: ftl adopt --task {id}");
            CommandError::new(message, hint)
        })?;
        let bindings =
            registry::see_all(&**self.records()?.store(), &folder).map_err(|error| store_failure(&error))?;
        self.make_current(&id)?;
        Ok(Arrived { folder, run, phase, machine, bindings, warnings, resumed, _turn: turn })
    }

    /// Drives what was interrupted to its end: work that was begun, and orders that no driver took.
    fn go_on(
        &self,
        folder: &TaskFolder,
        run: &RunId,
        looked: &ReplayedRun,
    ) -> Result<Option<Resumed>, CommandError> {
        let machine = &looked.run;
        let store = &**self.session.store();
        let orders = store.pending(run).map_err(|error| store_failure(&error))?;
        let from = registry::phase_of(machine, &self.phases);
        let Some(from) = from.filter(|_| is_at_work(machine) || !orders.is_empty()) else {
            return Ok(None);
        };
        let said = orders.iter().filter_map(|order| match serde_json::from_str(&order.body) {
            Ok(Order::Say { word, .. }) => Some(word.to_string()),
            Ok(_) | Err(_) => None,
        });
        let mut words: Vec<String> = said.collect();
        // A gate is looked through by `next`; only work is done by the word of its phase.
        let works = |whom: &Performer| {
            whom.role().is_some() || matches!(whom.action(), Some("eval.run" | "patch.revert"))
        };
        if machine.live().flat_map(|one| one.open.values()).any(|open| works(&open.whom)) {
            words.extend(self.phases.work(&from).map(|word| word.to_string()));
        }
        let wheel = ForegroundRun::new(&self.session, &self.stop, self.out);
        let rest = wheel.take_over(run, "waiting for it", &mut || false)?;
        let interrupted = matches!(rest, Some(DriveEnd::Stopped(_)));
        let sent = self.since(run, looked.head).map(|(machine, seen)| Sent {
            interrupted,
            refused: None,
            machine,
            seen,
        })?;
        let carried = self.came_to(folder, run, &from, sent)?;
        Ok(Some(Resumed { from, words, carried }))
    }

    /// A run as it is now, and what was written after an entry.
    fn since(&self, run: &RunId, head: u64) -> Result<(ReplayedRun, Vec<Entry>), CommandError> {
        let mut entries = self.session.entries(run).map_err(|error| session_failure(&error))?;
        let (head_now, last) = entries.last().map_or((0, 0), |entry| (entry.seq, entry.at));
        let replayed = Run::replay(self.session.library().clone(), &entries);
        entries.retain(|entry| entry.seq > head);
        Ok((ReplayedRun { run: replayed, head: head_now, last }, entries))
    }

    /// The number of the last entry of a run.
    fn head(&self, run: &RunId) -> Result<u64, CommandError> {
        let row = self.session.store().run(run).map_err(|error| store_failure(&error))?;
        Ok(row.map_or(0, |row| row.head))
    }

    /// Sends an order and drives the run until it rests. The run is the one that was looked at: it is loaded again only
    /// where another process has driven it meanwhile.
    fn send(
        &self,
        run: &RunId,
        order: &Order,
        mut machine: ReplayedRun,
        answers: GateAnswers,
    ) -> Result<Sent, CommandError> {
        let first = machine.head;
        let number = self.session.send(run, order).map_err(|error| session_failure(&error))?;
        let wheel = ForegroundRun::new(&self.session, &self.stop, self.out);
        let (mut interrupted, mut answers, mut seen) = (false, Some(answers), Vec::new());
        let refused = loop {
            if let Some(reply) = self.session.reply(number).map_err(|error| session_failure(&error))? {
                break reply.refused;
            }
            if interrupted || self.stop.times_said() > 0 {
                interrupted = true;
                break None;
            }
            let mut replied = || self.session.reply(number).map_or(true, |reply| reply.is_some());
            let lease = wheel.claim_when_free(run, "waiting for it to take the order", &mut replied)?;
            let Some(lease) = lease else { continue };
            let taken = self.session.take_up(&lease, &machine).map_err(|error| session_failure(&error))?;
            let mut written = Vec::new();
            let rest = wheel.drive_task(taken, answers.take().unwrap_or_default(), &mut written)?;
            interrupted = matches!(rest, DriveEnd::Stopped(_));
            if written.first().is_none_or(|entry| entry.seq == machine.head + 1) {
                machine.see(&written);
            }
            seen.extend(written);
        };
        if self.head(run)? != machine.head {
            (machine, seen) = self.since(run, first)?;
        }
        Ok(Sent { interrupted, refused, machine, seen })
    }

    /// Carries an order out; `state.json` follows where the task moved.
    pub(super) fn carry(
        &self,
        at: &Arrived,
        order: &Order,
        answers: GateAnswers,
    ) -> Result<Carried, CommandError> {
        let sent = self.send(&at.run, order, at.machine.clone(), answers)?;
        self.came_to(&at.folder, &at.run, &at.phase, sent)
    }

    /// What became of a run since it was in a phase.
    fn came_to(
        &self,
        folder: &TaskFolder,
        run: &RunId,
        from: &Phase,
        sent: Sent,
    ) -> Result<Carried, CommandError> {
        let Sent { interrupted, refused, machine, seen } = sent;
        let denied = seen.iter().rev().find_map(denial);
        let phase = registry::phase_of(&machine.run, &self.phases).unwrap_or_else(|| from.clone());
        let held = machine.run.instance(ROOT).and_then(|root| root.held.values().next());
        let held = held.map(|held| held.failure.message.clone());
        if phase != *from {
            self.project(folder, run, from, &phase)?;
        }
        Ok(Carried { refused, denied, phase, held, interrupted, machine })
    }
}

/// What sending an order came to.
struct Sent {
    /// Whether a signal came first.
    interrupted: bool,
    /// Why the order was refused, if it was.
    refused: Option<Refused>,
    /// The run as it is now.
    machine: ReplayedRun,
    /// What was written since it was looked at.
    seen: Vec<Entry>,
}

/// The phases of tasks, by the document that counts here.
pub(super) fn phases(library: &Library) -> Result<Phases, CommandError> {
    Phases::of(library).ok_or_else(|| {
        let message = "the document of `lifecycle` is not sound, and moves no task";
        CommandError::new(message, "`ftl check lifecycle` tells what is wrong with it")
    })
}

/// A phase as a person types it.
pub(super) fn find_phase(phases: &Phases, word: &str) -> Result<Phase, CommandError> {
    phases.find(word).ok_or_else(|| {
        CommandError::usage(format!("there is no phase `{word}`"), format!("one of {}", phases.join_names()))
    })
}

/// Whether a run has something to do without a person.
fn is_at_work(run: &Run) -> bool {
    use ftl_core::run::OpenKind;
    let working = |kind: &OpenKind| !matches!(kind, OpenKind::Words(_) | OpenKind::Question);
    run.live().flat_map(|one| one.open.values()).any(|open| working(&open.kind))
}

/// Why a word was refused on its way.
fn denial(entry: &Entry) -> Option<String> {
    let Fact::Refused { failure, .. } = &entry.fact else { return None };
    Some(failure.message.clone())
}

/// A failure on the way through the journal.
pub(super) struct TaskSessionError(pub(super) CommandError);

impl From<RegistryError> for TaskSessionError {
    fn from(error: RegistryError) -> TaskSessionError {
        TaskSessionError(desk_failure(&error))
    }
}

/// The run of a name, if it was ever opened.
fn look(session: &Session, run: &RunId) -> Result<Option<ReplayedRun>, TaskSessionError> {
    let row = session.store().run(run).map_err(|error| TaskSessionError(store_failure(&error)))?;
    if row.is_none_or(|row| row.head == 0) {
        return Ok(None);
    }
    session.look_whole(run).map(Some).map_err(|error| TaskSessionError(session_failure(&error)))
}

/// What went wrong with a task or its run, as a failure of a command.
pub(super) fn desk_failure(error: &RegistryError) -> CommandError {
    match error {
        RegistryError::Malformed(malformed) => malformed_failure(malformed),
        RegistryError::Disk(message) => {
            CommandError::new(message, "see whether there is room, and who may write there")
        }
        RegistryError::Store(error) => store_failure(error),
    }
}

/// A malformed artifact as a failure of a command.
pub(super) fn malformed_failure(malformed: &Malformed) -> CommandError {
    let hint = "put it right and try again; `ftl schema` has the shapes of artifacts; nothing was changed";
    CommandError { exit: ExitStatus::Malformed, ..CommandError::new(malformed.to_string(), hint) }
}

pub(super) fn disk_failure(folder: &TaskFolder, error: &std::io::Error) -> CommandError {
    let message = format!("`{}` cannot be written: {error}", folder.path().display());
    CommandError::new(message, "see whether there is room, and who may write there")
}

/// A phase that was changed in the file behind the journal's back.
pub(super) fn disagreement(id: &TaskId, file: &Phase, journal: &Phase) -> CommandError {
    let message = format!("state.json of task {id} says {file}, and the journal says {journal}");
    let hint = format!("`ftl adopt --task {id}` takes the folder as it stands, or put state.json back");
    CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, hint) }
}

/// A new name for a run.
pub(super) fn run_id() -> Result<RunId, CommandError> {
    RunId::random()
        .map_err(|error| CommandError::new(format!("no name can be made up: {error}"), "run `ftl doctor`"))
}

/// The name of a task as a person types it.
pub(super) fn task_id(name: &str) -> Result<TaskId, CommandError> {
    name.parse().map_err(|error: TaskIdError| {
        CommandError::usage(error.to_string(), "such as parser-2 or 2025-11-16_a")
    })
}

/// The task that is meant: the one that is named, else the current one, else the only one.
pub(super) fn choose(
    place: &StateFolder,
    named: Option<&str>,
    current: Option<TaskId>,
) -> Result<TaskId, CommandError> {
    let all = folder::list(place).map_err(|error| {
        CommandError::new(format!("the tasks cannot be listed: {error}"), "see who may read .ftl/tasks")
    })?;
    if let Some(name) = named {
        let id = task_id(name)?;
        if all.contains(&id) {
            return Ok(id);
        }
        let mut fitting = all.iter().filter(|one| one.as_str().starts_with(name));
        return match (fitting.next(), fitting.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(_), Some(_)) => {
                Err(CommandError::new(format!("`{name}` fits several tasks"), join_tasks(&all)))
            }
            (None, _) => Err(CommandError::new(format!("there is no task `{name}`"), join_tasks(&all))),
        };
    }
    if let Some(current) = current.filter(|one| all.contains(one)) {
        return Ok(current);
    }
    match all.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(CommandError::new("there is no task", "`ftl new \"<brief>\"` begins one")),
        _ => Err(CommandError::usage("no task is named, and there are several", join_tasks(&all))),
    }
}

/// How many tasks a hint names.
const MAX_LISTED: usize = 8;

fn join_tasks(all: &[TaskId]) -> String {
    let names: Vec<&str> = all.iter().take(MAX_LISTED).map(TaskId::as_str).collect();
    match names.as_slice() {
        [] => String::from("`ftl new \"<brief>\"` begins one"),
        some => format!(
            "name one with --task: {}{}",
            some.join(", "),
            if all.len() > MAX_LISTED { ", …" } else { "" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_some_of_many_tasks() {
        let all: Vec<TaskId> = (0..=MAX_LISTED).map(|at| format!("t{at}").parse().unwrap()).collect();
        assert_eq!(join_tasks(&all[..MAX_LISTED]), "name one with --task: t0, t1, t2, t3, t4, t5, t6, t7");
        assert!(join_tasks(&all).ends_with("t7, …"), "{}", join_tasks(&all));
    }
}
