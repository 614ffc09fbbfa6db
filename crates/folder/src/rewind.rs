//! What a journal still knows after a loss, and what git brought back for it. Store and git tell each other in these
//! words; neither sees the other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::RunId;

/// What a journal still knows of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEnd {
    /// The name of the run.
    pub run: RunId,
    /// The number of its last entry.
    pub last: u64,
    /// The instances that were opened.
    pub instances: BTreeMap<u32, KnownInstance>,
}

/// What a journal knows of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownInstance {
    /// Whether it has asked an agent.
    pub has_asked: bool,
    /// Whether it has come to its end.
    pub is_settled: bool,
}

/// What was brought back of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewound {
    /// The name of the run.
    pub run: RunId,
    /// Its branch, as people say it.
    pub branch: String,
    /// The commit that the branch was at.
    pub was: String,
    /// The commit that the branch is at now.
    pub now: String,
    /// The ref that has what landed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The commits that landed later, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub landings: Vec<String>,
    /// The folder in the store into which records were moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The keys of those records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Worktrees that were closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedWorktree>,
    /// Worktrees that stand again as they did before their work landed, once they are opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// What the person's branch has that the journal does not know; nothing was moved then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<UnknownDelivery>,
}

/// A worktree that was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedWorktree {
    /// The worktree's name.
    pub id: String,
    /// The ref under which is kept what existed only there; none where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// A delivery that the journal does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownDelivery {
    /// The person's branch, as people say it.
    pub target: String,
    /// The commit that was delivered.
    pub commit: String,
}
