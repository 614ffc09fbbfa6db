//! What can be learned from workspaces that ended: scores, patterns, failures, and how they belong together.
//!
//! Pure: running verify commands and keeping lessons is the caller's. A block that now passes, that could not be
//! judged or could not be run teaches nothing.

mod lesson;
mod score;
#[cfg(test)]
mod tests;

pub use lesson::{
    FailureLesson, MAX_TRIGGER_CHARS, PatternLesson, experience, experience_file, failure, generalise,
    is_harness, is_harness_reason, is_machine, pattern, repaired,
};
pub use score::{NOVEL_BELOW, PATTERN_SCORE, Score, ScoreContext, score, was_blocked};

use crate::workspace::{FileName, WorkspaceStatus};
pub use ftl_core::catalogue::flow::BlockStatus as BlockVerdict;
use ftl_core::json::{Json, JsonExt as _};

/// How many pairs of failures of one analysis are linked.
pub const MAX_PAIRS: usize = 1000;

/// How running the verify command of a blocked workspace again went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rerun {
    /// The workspace names no command.
    NoCommand,
    /// It ran to its end, with this exit code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// It took too long.
    TimedOut,
    /// It could not be started, or the workspace could not be read.
    CouldNotRun(String),
}

/// Whether a block of that standing teaches something.
pub fn is_learned(standing: BlockVerdict) -> bool {
    match standing {
        BlockVerdict::Confirmed => true,
        BlockVerdict::FalsePositive | BlockVerdict::Indeterminate | BlockVerdict::Error => false,
    }
}

/// What a look at a block showed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The result of running the verify command again.
    pub standing: BlockVerdict,
    /// Why, such as `exit 1`.
    pub reason: String,
}

/// Signals that a program gets for its own faults: illegal instruction, abort, bus error, arithmetic, bad address.
const OWN_FAULTS: [i32; 5] = [4, 6, 7, 8, 11];

/// Exit codes by which a shell says that it could not run a command at all.
const NOT_RUN: [i32; 2] = [126, 127];

/// Judges by how the command ended, never by what it printed: `0 failed` is no failure.
pub fn judge(rerun: &Rerun) -> Verification {
    let (standing, reason) = match rerun {
        Rerun::NoCommand => (BlockVerdict::Confirmed, "No verify command".to_owned()),
        Rerun::Exited(0) => (BlockVerdict::FalsePositive, "Tests pass now".to_owned()),
        Rerun::Exited(code) if NOT_RUN.contains(code) => {
            (BlockVerdict::Error, format!("could not run: exit {code}"))
        }
        Rerun::Exited(code) => (BlockVerdict::Confirmed, format!("exit {code}")),
        Rerun::Killed(signal) if OWN_FAULTS.contains(signal) => {
            (BlockVerdict::Confirmed, format!("signal {signal}"))
        }
        Rerun::Killed(signal) => (BlockVerdict::Indeterminate, format!("signal {signal}")),
        Rerun::TimedOut => (BlockVerdict::Indeterminate, "Timeout".to_owned()),
        Rerun::CouldNotRun(why) => (BlockVerdict::Error, why.clone()),
    };
    Verification { standing, reason }
}

/// A failure that memory took, with the workspace it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFailure {
    /// Its name in memory.
    pub name: String,
    /// The file it came from.
    pub file: FileName,
    /// The campaign of that file.
    pub campaign: Option<String>,
}

/// A pattern that memory took, with the workspace it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPattern {
    /// Its name in memory.
    pub name: String,
    /// The file it came from.
    pub file: FileName,
    /// The campaign of that file.
    pub campaign: Option<String>,
    /// Whether the same task was blocked before.
    pub recovered: bool,
}

/// The links between lessons of one analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Failure and pattern: the pattern solves it.
    pub solves: Vec<(String, String)>,
    /// Failures that came up in one campaign, at most [`MAX_PAIRS`].
    pub co_occurs: Vec<(String, String)>,
}

/// Links what was newly learned: a recovered pattern with the failures of the same task, and failures of one campaign
/// with each other.
pub fn links(failures: &[NewFailure], patterns: &[NewPattern]) -> Links {
    let mut links = Links::default();
    for pattern in patterns.iter().filter(|pattern| pattern.recovered) {
        let same = |failure: &&NewFailure| {
            failure.file.is_of(pattern.file.seq()) && failure.campaign == pattern.campaign
        };
        let solved = failures.iter().filter(same).map(|failure| (failure.name.clone(), pattern.name.clone()));
        links.solves.extend(solved);
    }
    for (at, first) in failures.iter().enumerate() {
        for second in &failures[at + 1..] {
            if links.co_occurs.len() == MAX_PAIRS {
                return links;
            }
            if first.campaign == second.campaign && first.name != second.name {
                links.co_occurs.push((first.name.clone(), second.name.clone()));
            }
        }
    }
    links
}

/// Workspace files by status, as `observer list` prints them. Other files are left out.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> Json {
    let mut files: Vec<FileName> = names.into_iter().filter_map(FileName::parse).collect();
    files.sort();
    let of = |status: WorkspaceStatus| {
        Json::list(files.iter().filter(|file| file.status() == status).map(FileName::to_string))
    };
    Json::object([
        ("complete", of(WorkspaceStatus::Complete)),
        ("blocked", of(WorkspaceStatus::Blocked)),
        ("active", of(WorkspaceStatus::Active)),
    ])
}
