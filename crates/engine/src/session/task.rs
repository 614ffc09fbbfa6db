//! The runs of tasks in a session: replayed once, driven with what a command has looked at, and with executors that
//! are made when a step asks for them. Nothing here knows a phase or an edge.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_core::run::{Entry, Failure, Run, Time};
use ftl_core::value::{Name, Value};

use super::wiring::Workplace;
use super::{Session, SessionError};
use crate::drive::{DriveEnd, DriveObserver, StopSignal, drive};
use crate::driver::{Driver, Todo};
use crate::executors::ExecutorPool;
use crate::executors::table::RecordAccess;
use crate::executors::task::lean::{Lean, Made, MakeError, Makes};
use crate::executors::worktrees::Sites;
use ftl_folder as folder;
use ftl_folder::clock::{Clock as _, SystemClock};
use ftl_folder::id::RunId;
use ftl_lifecycle::phases::{Phases, Routes};
use ftl_records::Records;
use ftl_store::Lease;

/// A run as its journal has made it, and where that journal ends.
#[derive(Clone, Debug)]
pub struct ReplayedRun {
    /// The run, replayed from its journal.
    pub run: Run,
    /// The number of its last entry.
    pub head: u64,
    /// When that was written.
    pub last: Time,
}

impl ReplayedRun {
    /// Takes in what was written since.
    pub fn see(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.run.apply(entry);
            (self.head, self.last) = (entry.seq, entry.at);
        }
    }
}

/// Makes the executors of a task's run, when a step asks for them.
struct TaskMaker<'a> {
    session: &'a Session,
    lease: Lease,
}

impl Makes for TaskMaker<'_> {
    fn work(&self) -> Result<Made, MakeError> {
        let made = self.session.wiring.connect_work(&self.lease, self.session.routes());
        made.map(Made::from).map_err(|error| MakeError::of(&error))
    }

    fn all(&self) -> Result<Made, MakeError> {
        let made = self.session.wiring.connect(&self.lease, self.session.routes());
        made.map(Made::from).map_err(|error| MakeError::of(&error))
    }
}

impl From<Workplace> for Made {
    fn from(workplace: Workplace) -> Made {
        Made { runner: workplace.workshop, sites: workplace.sites }
    }
}

impl Session {
    /// Brings a claimed run that was replayed already back to its end: it is replayed again only where another process wrote in between.
    pub fn take_up(&self, lease: &Lease, looked: &ReplayedRun) -> Result<(Driver, Todo), SessionError> {
        let head = self.wiring.store.run(&lease.run)?.map_or(0, |row| row.head);
        if head != looked.head {
            return self.recover(lease);
        }
        let at = SystemClock::not_before(0).now();
        let run = (looked.run.clone(), looked.last);
        let taken = Driver::take_up(
            self.wiring.store.clone(),
            lease.clone(),
            run,
            at,
            &self.used_when_lost(&lease.run),
        );
        self.or_give_back(lease, taken.map_err(SessionError::from))
    }

    /// A run as its journal has made it, with where that ends, so that it can be taken up without another replay.
    pub fn look_whole(&self, run: &RunId) -> Result<ReplayedRun, SessionError> {
        let entries = self.entries(run)?;
        let (head, last) = entries.last().map_or((0, 0), |entry| (entry.seq, entry.at));
        Ok(ReplayedRun { run: Run::replay(self.library.clone(), &entries), head, last })
    }

    /// Drives the run of a task until it rests. Gates answer what was looked at before, and nothing is made for agents or
    /// commands that no step asks for.
    pub fn drive_task(
        &self,
        driver: Driver,
        todo: Todo,
        stop: &StopSignal,
        watch: &mut dyn DriveObserver,
        answers: BTreeMap<Name, Result<Value, Failure>>,
    ) -> Result<DriveEnd, SessionError> {
        let (lease, run) = (driver.lease().clone(), driver.id().clone());
        let records = self.records().for_run(&run);
        let gates = ExecutorPool::hiding(self.config().width(), &self.wiring.secrets);
        let access = RecordAccess { records: records.clone(), routes: self.routes() };
        let gates = gates.with_record_executors(&access);
        let makes = TaskMaker { session: self, lease: lease.clone() };
        let runner = Lean::new(answers, gates, &makes);
        let lagging = Records::lagging(&records);
        let clock = SystemClock::not_before(driver.last());
        let rest = drive(driver, todo, &runner, &clock, stop, watch).map_err(SessionError::from);
        if rest.is_ok() {
            self.sweep_task(&runner, &makes, &run);
        }
        drop(lagging);
        if runner.made_executors().next().is_some() {
            let _ = records.leave_front();
        }
        self.or_give_back(&lease, rest)
    }

    /// Closes the worktrees that the run of a task has left behind, where there are any.
    fn sweep_task(&self, runner: &Lean<'_>, makes: &TaskMaker<'_>, run: &RunId) {
        let mut made: Vec<Arc<Sites>> =
            runner.made_executors().filter_map(|made| made.sites.clone()).collect();
        let ours = format!("{run}-");
        let names = folder::names(&self.place().worktrees()).unwrap_or_default();
        if made.is_empty() && names.iter().any(|name| name.to_string_lossy().starts_with(&ours)) {
            made.extend(makes.work().ok().and_then(|made| made.sites));
        }
        for sites in made {
            self.sweep(&sites, run);
        }
    }

    /// Where decisions about tasks may send work.
    pub(super) fn routes(&self) -> Routes {
        Phases::of(&*self.library).map(|phases| phases.routes()).unwrap_or_default()
    }
}
