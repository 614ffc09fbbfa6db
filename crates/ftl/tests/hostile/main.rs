//! The hostile trial: each finding of November 2026 as a test of the binary that fails without its mend.
//!
//! The short form is part of every test run; `just torture` runs the long one. `FTL_TRIES` multiplies the
//! number of tries of each test that draws, `FTL_SEED` draws them anew; a failing test prints its seed.
//! With `FTL_TALLY` set to a file, each test adds its row of the table in `docs/running.md` to it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot prepare its folder fails by panicking, and one that is left out says so"
)]

mod attempts;
mod delivery;
mod histories;
mod inside;
mod links;
mod litter;
mod locks;
mod machine;
mod older;
mod processes;
mod pruning;
mod stopped;
mod store;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the command line, which use all of it")]
mod support;
mod tally;
mod users;
mod words;
