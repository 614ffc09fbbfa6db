//! How much a complete workspace is worth learning from.

use crate::workspace::{FileName, Workspace, WorkspaceStatus};
use ftl_core::json::{Json, JsonExt as _};

/// From this score on, a workspace yields a pattern.
pub const PATTERN_SCORE: u64 = 3;

/// An objective is new unless some known trigger is more alike than this.
pub const NOVEL_BELOW: f64 = 0.7;

/// The budget that counts as efficient where it was not recorded how much of it was used.
const EFFICIENT_BUDGET: u64 = 4;

/// Words of a delivery that did not work at once.
const RETRIES: [&str; 6] =
    ["retry", "retried", "tried again", "second attempt", "multiple attempt", "failed then"];

/// What is known around a workspace when it is scored.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScoreContext {
    /// Whether the same task was blocked before.
    pub was_blocked: bool,
    /// How alike its objective is to the trigger that is most alike, from 0 to 1.
    pub likeness: f64,
    /// How many tool calls it took, where that was recorded.
    pub tools_used: Option<u64>,
}

/// A score and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    /// The sum of the points.
    pub total: u64,
    /// Points by factor, in the order of the table; factors without points are left out.
    pub breakdown: Vec<(&'static str, u64)>,
}

impl Score {
    /// Whether a factor gave points.
    pub fn has(&self, factor: &str) -> bool {
        self.breakdown.iter().any(|(name, _)| *name == factor)
    }

    /// The points by factor.
    pub fn breakdown_json(&self) -> Json {
        Json::object(self.breakdown.iter().map(|(name, points)| (*name, Json::from(*points))))
    }

    /// `{score, breakdown, workspace, path}`.
    pub fn to_json(&self, workspace: &Workspace, path: &str) -> Json {
        Json::object([
            ("score", Json::from(self.total)),
            ("breakdown", self.breakdown_json()),
            ("workspace", Json::from(workspace.id.as_str())),
            ("path", Json::from(path)),
        ])
    }
}

/// Scores a complete workspace.
pub fn score(workspace: &Workspace, seen: ScoreContext) -> Score {
    let delivered = workspace.delivered.to_lowercase();
    let at_once = !RETRIES.iter().any(|word| delivered.contains(word));
    let has_idioms = workspace.idioms.as_ref().is_some_and(|idioms| !idioms.required.is_empty());
    let efficient = match seen.tools_used {
        Some(used) => used * 2 < workspace.budget,
        None => workspace.budget >= EFFICIENT_BUDGET,
    };
    let factors = [
        ("blocked_then_fixed", 3, seen.was_blocked),
        ("first_try_success", 2, at_once),
        ("framework_idioms", 2, has_idioms),
        ("budget_efficient", 1, efficient),
        ("multi_file", 1, workspace.delta.len() >= 2),
        ("novel", 1, seen.likeness <= NOVEL_BELOW),
    ];
    let earned = factors.into_iter().filter(|(_, _, holds)| *holds);
    let breakdown: Vec<(&'static str, u64)> = earned.map(|(name, points, _)| (name, points)).collect();
    Score { total: breakdown.iter().map(|(_, points)| points).sum(), breakdown }
}

/// Whether a task was blocked before it was completed: a blocked file of the same seq and the same campaign. Outside
/// of campaigns every task is `001`, so that there the slug must be the same too.
pub fn was_blocked(file: &FileName, campaign: Option<&str>, blocked: &[(FileName, Option<String>)]) -> bool {
    blocked.iter().any(|(other, theirs)| {
        let same_task = other.is_of(file.seq()) && (campaign.is_some() || other.slug() == file.slug());
        other.status() == WorkspaceStatus::Blocked && same_task && theirs.as_deref() == campaign
    })
}
