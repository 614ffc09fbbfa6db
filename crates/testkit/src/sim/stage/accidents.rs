//! What goes wrong on the stage: people meddle, processes are killed, stopped and paused, disks fail.
//!
//! Accidents come from the dice of the seed and from nothing else.

use ftl_folder::clock::Clock as _;
use ftl_store::memory::StoreFault;

use super::{DULL, Happening, Stage, Step};
use crate::sim::case::People;
use crate::sim::people;
use crate::sim::process::Cut;

impl Stage<'_> {
    /// A moment at which something may go wrong.
    pub(super) fn trouble(&mut self) -> Step {
        if self.calm() {
            return Ok(());
        }
        self.later(14_000, Happening::Trouble);
        self.dull += if self.engines.is_empty() { DULL } else { 0 };
        let violent = self.dice.chance(self.case.violence);
        let awake = self.engines.iter().position(|engine| !engine.asleep && engine.wheel.is_some());
        match (violent, awake) {
            (true, Some(at)) => self.violence(at),
            (true, None) => self.meddle(),
            (false, _) if self.dice.chance(50) => self.meddle(),
            (false, Some(_)) => Ok(()),
            (false, None) => {
                self.later(1_000, Happening::Arrive);
                Ok(())
            }
        }
    }

    pub(super) fn meddle(&mut self) -> Step {
        let number = self.step;
        let said = people::meddle(&self.oracle.shadow, self.case.people, number, &mut self.dice);
        self.meddled |= self.case.people == People::Wild;
        self.send(&said)?;
        if self.dice.chance(15) {
            self.send(&said)?;
        }
        let awake = self.engines.iter().position(|engine| !engine.asleep && engine.wheel.is_some());
        match awake {
            Some(at) => self.plan_look(at),
            None => self.later(5_000, Happening::Arrive),
        }
        Ok(())
    }

    pub(super) fn cut(&mut self, process: usize) {
        let after = self.dice.below(6);
        let cut = if self.dice.chance(50) { Cut::Before(after) } else { Cut::After(after) };
        self.note(|| format!("  process {process} will be cut: {cut:?}"));
        self.cast[process].way.cut(cut);
    }

    pub(super) fn violence(&mut self, at: usize) -> Step {
        let process = self.engines[at].process;
        match self.dice.below(10) {
            0 | 1 => {
                self.note(|| format!("  process {process} is killed"));
                self.counts.kills += 1;
                self.cast[process].way.kill();
                self.vanish(at);
                self.later(30_000, Happening::Arrive);
            }
            2..=4 => self.cut(process),
            5 | 6 => self.pause(at),
            7 => self.spoil(),
            _ => return self.stop(at),
        }
        Ok(())
    }

    /// A process sleeps, and another process takes the run.
    pub(super) fn pause(&mut self, at: usize) {
        let process = self.engines[at].process;
        self.note(|| format!("  process {process} sleeps"));
        self.engines[at].asleep = true;
        self.later(120_000, Happening::Wake { process });
        self.later(60_000, Happening::Arrive);
    }

    /// The disk is full, or may not be written, or fails.
    pub(super) fn spoil(&mut self) {
        let fault = *self
            .dice
            .pick(&[StoreFault::Full, StoreFault::ReadOnly, StoreFault::Failed])
            .unwrap_or(&StoreFault::Full);
        self.note(|| format!("  the disk: {fault:?}"));
        self.faulty = true;
        self.disk.set_fault(Some(fault));
        self.later(30_000, Happening::Mended);
    }

    pub(super) fn mend(&mut self) {
        self.faulty = false;
        self.disk.set_fault(None);
        self.disk.reopen();
    }

    /// A process is told to stop, once or twice.
    pub(super) fn stop(&mut self, at: usize) -> Step {
        if self.engines[at].leaving {
            return Ok(());
        }
        self.counts.stops += 1;
        let process = self.engines[at].process;
        self.note(|| format!("  process {process} is told to stop"));
        self.engines[at].leaving = true;
        if self.dice.chance(25) {
            // Told twice: it lets everything go and writes nothing.
            if let Some(wheel) = self.engines[at].wheel.take() {
                wheel.drop_all();
                let _ = wheel.into_driver().release();
            }
            self.vanish(at);
            self.later(30_000, Happening::Arrive);
            return Ok(());
        }
        if let Some(wheel) = &self.engines[at].wheel {
            wheel.cancel_all();
        }
        self.notice_cancels(at);
        self.at(self.clock.now() + 1_200, Happening::Goodbye { process });
        Ok(())
    }
}
