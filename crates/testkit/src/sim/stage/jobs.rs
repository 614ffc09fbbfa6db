//! What jobs do on the stage: they speak, use, act and end, as their scripts say.
//!
//! A job never touches the engine but through what it tells.

use std::collections::VecDeque;
use std::sync::mpsc::channel;

use ftl_core::run::{ActionId, InstanceId, Usage};
use ftl_core::value::Name;
use ftl_engine::executors::{Job, JobReport};
use ftl_folder::clock::Clock as _;

use super::{Happening, Stage, Step};
use crate::sim::Sabotage;
use crate::sim::agents::{self, Doing, Ending, Saying};

impl Stage<'_> {
    /// A job does the next thing of its script.
    pub(super) fn say(&mut self, at: usize, number: u64) -> Step {
        let process = self.engines[at].process;
        let Some(job) = self.engines[at].jobs.get_mut(&number) else { return Ok(()) };
        let who = job.who();
        let Some((_, saying)) = job.script.pop_front() else { return Ok(()) };
        let next = job.script.front().map(|(delay, _)| *delay);
        if let Some(delay) = next {
            self.at(self.clock.now() + delay, Happening::Say { process, job: number });
        }
        self.note(|| format!("  {} of {}: {saying:?}", who.1, who.0));
        match saying {
            Saying::Burn(percent) => self.burn(at, number, percent),
            Saying::Perform => self.perform(at, number),
            Saying::Spent => self.spent(at, number),
            Saying::Tool => self.tool(at, number, who),
            Saying::Ghost => {
                let Some((instance, action)) = self.dice.pick(&self.past).copied() else { return Ok(()) };
                if self.engines[at].jobs.values().any(|job| job.who() == (instance, action)) {
                    return Ok(());
                }
                let report = ftl_engine::executors::Report::free(ftl_engine::executors::JobEnd::Cancelled);
                self.tell(at, JobReport::Report(instance, action, report))
            }
            Saying::End(ending) => self.end(at, number, &ending),
        }
    }

    /// An agent uses something; in an exact case never more than is set aside for it.
    pub(super) fn burn(&mut self, at: usize, number: u64, percent: u64) -> Step {
        let Some(job) = self.engines[at].jobs.get_mut(&number) else { return Ok(()) };
        if job.ended || !job.is_agent() {
            return Ok(());
        }
        let (instance, action) = job.who();
        let mut burnt = Usage::new();
        for (name, left) in self.oracle.left(instance, action) {
            let unsaid = job.unsaid.entry(name.clone()).or_default();
            let amount = left.saturating_sub(*unsaid).saturating_mul(percent) / 100;
            *unsaid += amount;
            burnt.insert(name, amount);
        }
        self.world.spend(&job.key, &burnt).map_err(|error| error.to_string())
    }

    /// A job says what it has used. Until that is kept it is not said: its process may die over it.
    pub(super) fn spent(&mut self, at: usize, number: u64) -> Step {
        let (exact, sabotage) = (self.case.exact, self.options.sabotage);
        let Some(job) = self.engines[at].jobs.get_mut(&number) else { return Ok(()) };
        job.spoke = true;
        let ((instance, action), mut usage) = (job.who(), job.unsaid.clone());
        if !exact && self.dice.chance(30) {
            usage.values_mut().for_each(|amount| *amount = amount.saturating_mul(3));
        }
        if sabotage == Some(Sabotage::DropCharge) {
            usage.values_mut().for_each(|amount| *amount = 0);
        }
        // Whether it may go on is not looked at: agents of the simulation do not obey.
        self.tell(at, JobReport::Spent(instance, action, usage, channel().0))?;
        if let Some(job) = self.engines.get_mut(at).and_then(|engine| engine.jobs.get_mut(&number)) {
            job.unsaid.clear();
        }
        Ok(())
    }

    pub(super) fn perform(&mut self, at: usize, number: u64) -> Step {
        let Some(job) = self.engines[at].jobs.get_mut(&number) else { return Ok(()) };
        let done = if self.options.sabotage == Some(Sabotage::DoTwice) {
            self.world.perform_blindly(&job.key, &job.action)
        } else {
            self.world.perform(&job.key, &job.action)
        };
        job.answer = Some(done.map_err(|error| error.to_string())?);
        Ok(())
    }

    pub(super) fn tool(
        &mut self,
        at: usize,
        number: u64,
        (instance, action): (InstanceId, ActionId),
    ) -> Step {
        let (reply, answer) = channel();
        self.tell(at, JobReport::Tool(instance, action, (Name::from("edit"), None), reply))?;
        let denied = answer.try_recv().is_ok_and(|answer| answer.is_err());
        let stubborn = self.dice.chance(30);
        let engine = self.engines.get_mut(at);
        if let Some(job) = engine.and_then(|engine| engine.jobs.get_mut(&number))
            && denied
            && !stubborn
        {
            job.script.retain(|(_, saying)| *saying != Saying::Tool);
        }
        Ok(())
    }

    /// The last words of a job.
    pub(super) fn end(&mut self, at: usize, number: u64, ending: &Ending) -> Step {
        let process = self.engines[at].process;
        let reserve = self.case.terms.reserve.clone();
        let Some(job) = self.engines[at].jobs.get_mut(&number) else { return Ok(()) };
        let mut report = job.report(ending, self.case.exact, &reserve, &mut self.dice);
        if self.options.sabotage == Some(Sabotage::DropCharge) {
            report.usage = reserve.keys().map(|name| (name.clone(), 0)).collect();
        }
        let ((instance, action), over) = (job.who(), job.script.is_empty());
        job.ended = true;
        self.cast[process].reported(&job.key);
        if over {
            self.engines[at].jobs.remove(&number);
        }
        self.past.push((instance, action));
        if let Ending::Outage(service, _) = ending {
            self.counts.outages += 1;
            let until = self.clock.now() + self.dice.below(200_000);
            self.silent.insert(service.clone(), until);
        }
        if self.options.sabotage == Some(Sabotage::SwallowReport) && self.step > 20 {
            return Ok(());
        }
        self.hear_report(at, JobReport::Report(instance, action, report), (instance, action))
    }

    /// A report that the run does not wait for must be refused.
    pub(super) fn hear_report(&mut self, at: usize, told: JobReport, who: (InstanceId, ActionId)) -> Step {
        let (run, now) =
            (self.engines[at].wheel.as_ref().map(|wheel| wheel.driver().run()), self.clock.now());
        let waited = run.is_some_and(|run| agents::is_waited_for(run, who, now));
        let before = self.oracle.entries().len() as u64;
        let process = self.engines[at].process;
        self.tell(at, told)?;
        let lives = self.engines.iter().any(|engine| engine.process == process);
        if !waited && lives {
            self.counts.late += 1;
            self.oracle.read()?;
            self.oracle.check_refused(before, who.0, who.1)?;
        }
        Ok(())
    }

    /// Jobs that were started get their scripts, probes their answers.
    pub(super) fn take_jobs(&mut self, at: usize) -> Step {
        let process = self.engines[at].process;
        if let Some(wrong) = self.cast[process].wrong().into_iter().next() {
            return Err(format!("durable: {wrong}"));
        }
        for job in self.cast[process].started() {
            self.take_job(at, &job);
        }
        for service in self.cast[process].probes() {
            self.later(2_000, Happening::Probed { process, service });
        }
        Ok(())
    }

    pub(super) fn take_job(&mut self, at: usize, job: &Job) {
        self.tickets += 1;
        self.counts.jobs += 1;
        let (number, process, key) = (self.tickets, self.engines[at].process, job.key());
        let mut doing = Doing {
            key,
            action: job.action.clone(),
            cancel: job.cancel.clone(),
            noticed: false,
            script: VecDeque::new(),
            unsaid: Usage::new(),
            spoke: false,
            answer: None,
            ended: false,
        };
        doing.script = self.script(&doing);
        let delay = doing.script.front().map_or(0, |(delay, _)| *delay);
        self.engines[at].jobs.insert(number, doing);
        self.at(self.clock.now() + delay, Happening::Say { process, job: number });
    }

    pub(super) fn script(&mut self, job: &Doing) -> VecDeque<(u64, Saying)> {
        let mischief = !self.calm() && self.dice.chance(self.case.mischief);
        if !mischief {
            return agents::honest(&job.action, &mut self.dice);
        }
        if !job.lands() {
            return agents::mischievous(&self.case, &job.action, &mut self.dice);
        }
        // Work that has landed and says otherwise would land again, and rightly so.
        let mut script = agents::honest(&job.action, &mut self.dice);
        if !self.world.has_done(&job.key) {
            script.pop_back();
            script.push_back((10, Saying::End(Ending::Die)));
        }
        script
    }

    pub(super) fn notice_cancels(&mut self, at: usize) {
        let process = self.engines[at].process;
        let cancelled: Vec<u64> = self.engines[at]
            .jobs
            .iter()
            .filter(|(_, job)| !job.noticed && job.cancel.is_cancelled())
            .map(|(number, _)| *number)
            .collect();
        for number in cancelled {
            let script = agents::cancelled(&self.case, self.calm(), &mut self.dice);
            let delay = script.front().map_or(0, |(delay, _)| *delay);
            let Some(job) = self.engines[at].jobs.get_mut(&number) else { continue };
            job.noticed = true;
            job.script = script;
            self.queue.retain(|_, one| !matches!(one, Happening::Say { process: p, job } if (*p, *job) == (process, number)));
            self.at(self.clock.now() + delay, Happening::Say { process, job: number });
        }
    }
}
