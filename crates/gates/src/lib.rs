//! The gates: what `ftl` itself looks at before it believes that work is done.
//!
//! Each gate is a function over plain data: a [`Change`], a [`Brief`], texts. Only
//! `verify` and `preflight` run something, and they do it in a [`CommandPlace`]. A gate states facts, each as one
//! [`Finding`] with a path and a line; it never asks an agent, never accuses, and never says that something
//! is fine that it could not read. The crate sees what a change holds and where commands run; never a campaign, a
//! record or an agent.

mod command_env;
pub mod file_role;
mod home;
pub mod integrity;
mod pattern;
pub mod preflight;
pub mod quality;
pub mod red_first;
pub mod replay;
pub mod report;
mod restore;
pub mod scope;
pub mod secrets;
pub mod verify;
mod work;

pub use command_env::CommandPlace;
pub use ftl_code::finding::{
    Brief, Finding, FindingAllowance, FindingKind, MAX_FINDINGS, Severity, allow, blocks, render_findings,
};
pub use pattern::{CodePattern, MAX_PATTERN_BYTES, PatternMatch};
pub use restore::{Restore, restore};
pub use work::Work;

use ftl_git::change::Change;

/// What a change shows without running anything: scope, integrity and secrets. Without a brief nobody has said which
/// files may change.
pub fn look(change: &Change, brief: Option<&Brief>) -> Vec<Finding> {
    let mut findings = brief.map(|brief| scope::look(change, brief)).unwrap_or_default();
    findings.extend(integrity::look(change, &brief.cloned().unwrap_or_default()));
    findings.extend(secrets::look(change));
    findings
}
