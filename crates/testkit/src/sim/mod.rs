//! The deterministic simulation of the engine.
//!
//! One thread, a seed, a clock that moves when the simulation says so. The dispatcher, the driver and the
//! interpreter are the real ones; the disk, the executors, the people and the accidents are simulated.
//! First there is trouble, then it is calm: then every run must come to its end. After every step the
//! oracles look. The same seed writes the same bytes. Nothing here may look at a real clock.

mod agents;
mod case;
mod oracle;
mod people;
mod process;
mod stage;

use std::fmt;

pub use case::library;

/// A deliberate fault of the engine's surroundings, to see that the oracles can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A write is acknowledged and not kept: what follows acts before its entry is durable.
    ActBeforeAppend,
    /// An entry is kept otherwise than it was written.
    ChangeEntry,
    /// An order is answered and what follows from it is not kept.
    LoseOrder,
    /// An owner that has lost the run is told that its writes are kept.
    IgnoreFence,
    /// An executor does not look whether it has done its work already.
    DoTwice,
    /// Agents say that they have used nothing.
    DropCharge,
    /// The report of a job never arrives.
    SwallowReport,
}

impl Sabotage {
    /// All faults that can be put in.
    pub const ALL: [Sabotage; 7] = [
        Sabotage::ActBeforeAppend,
        Sabotage::ChangeEntry,
        Sabotage::LoseOrder,
        Sabotage::IgnoreFence,
        Sabotage::DoTwice,
        Sabotage::DropCharge,
        Sabotage::SwallowReport,
    ];
}

/// How a simulation is to be done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A deliberate fault, which an oracle must find.
    pub sabotage: Option<Sabotage>,
    /// Whether everything that happens is written down.
    pub trace: bool,
}

/// A simulation that came to its end, with nothing found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// The bytes of all entries, with epochs and hashes.
    pub journal: Vec<u8>,
    /// How many steps it took.
    pub steps: u64,
    /// How often each thing happened.
    pub counts: Counts,
    /// Everything that happened, if it was to be written down.
    pub trace: Vec<String>,
}

/// What happened how often, over one simulation or many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries written.
    pub entries: u64,
    /// Jobs started.
    pub jobs: u64,
    /// Processes that took part.
    pub processes: u64,
    /// Processes killed, inside of a write or between two.
    pub kills: u64,
    /// Processes stopped by a signal.
    pub stops: u64,
    /// Runs taken from an owner that still lived.
    pub takeovers: u64,
    /// Owners refused because they had lost the run.
    pub fenced: u64,
    /// Faults of the disk that a process met.
    pub faults: u64,
    /// Orders acknowledged.
    pub orders: u64,
    /// Outcomes refused because the run no longer waited for them.
    pub late: u64,
    /// Services found silent.
    pub outages: u64,
    /// Runs that a person had to stop in the end.
    pub given_up: u64,
}

impl Counts {
    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Counts) {
        self.entries += other.entries;
        self.jobs += other.jobs;
        self.processes += other.processes;
        self.kills += other.kills;
        self.stops += other.stops;
        self.takeovers += other.takeovers;
        self.fenced += other.fenced;
        self.faults += other.faults;
        self.orders += other.orders;
        self.late += other.late;
        self.outages += other.outages;
        self.given_up += other.given_up;
    }
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed of the simulation.
    pub seed: u64,
    /// The number of the step at which it was found.
    pub step: u64,
    /// Which oracle, and what it says.
    pub message: String,
    /// Everything that happened before, if it was to be written down.
    pub trace: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "seed {}, step {}: {}", self.seed, self.step, self.message)
    }
}

/// Runs the simulation of one seed to its end, or to what an oracle finds.
pub fn simulate(seed: u64, options: Options) -> Result<SimulationOutcome, Box<Found>> {
    stage::simulate(seed, options)
}
