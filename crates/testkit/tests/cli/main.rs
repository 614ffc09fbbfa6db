//! The `cli` backend: the contract suite, faults, and recorded streams of real programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on panics")]

mod contract;
mod faults;
mod recorded;
mod stage;
