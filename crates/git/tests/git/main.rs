//! The git layer with real git in temporary folders: worktrees in every state, landings, deliveries,
//! hostile repositories, and kills at every step. The promise: nothing twice, nothing lost, nothing run
//! that a repository names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod deliver;
mod glance;
mod hostile;
mod kill;
mod land;
mod limits;
mod open;
mod rewind;
mod salvage;
mod saves;
mod seen;
mod slots;
mod states;
mod support;
mod swapped;
