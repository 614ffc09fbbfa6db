//! Signals: what a planner or a reviewer says besides, in words that are known.

use ftl_core::catalogue::lifecycle::Signal;

use super::artifact::{JsonView, Malformed};
use super::folder::TaskFolder;

/// The words of signals.
pub(super) const SIGNALS: [(&str, Signal); 6] = [
    ("needs_changes", Signal::NeedsChanges),
    ("blocked", Signal::Blocked),
    ("plan_unclear", Signal::PlanUnclear),
    ("scope_mismatch", Signal::ScopeMismatch),
    ("plan_misalignment", Signal::PlanMisalignment),
    ("regression", Signal::Regression),
];

/// The signals that an artifact carries.
pub(super) fn signals(root: &JsonView<'_>) -> Result<Vec<Signal>, Malformed> {
    root.words("signals", &SIGNALS)
}

/// The words of the signals of a file.
pub(super) fn signals_of(folder: &TaskFolder, name: &str) -> Result<Vec<&'static str>, Malformed> {
    let Some(artifact) = folder.read(name)? else { return Ok(Vec::new()) };
    let found = signals(&artifact.root()?)?;
    Ok(found.into_iter().map(Signal::word).collect())
}
