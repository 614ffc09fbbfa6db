//! Sandboxes against programs that try to leave them, and against programs that only want to work.
//!
//! Every attack is tried without a sandbox first: one that succeeds nowhere would prove nothing. What became of the
//! world is looked at from outside, not believed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod attacks;
mod legitimate;
mod stage;
