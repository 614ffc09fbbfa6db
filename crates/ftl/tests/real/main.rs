//! Real agents, as people install them, under the contract of `ftl`: each works in a scratch repository,
//! asks a scripted model on loopback, and is started and ended by the engine's own supervisor.
//!
//! `tools/agents/install` puts them below `target/agents`. The tests of one that is not there are ignored, with the reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    unreachable_pub,
    reason = "a test that cannot go on fails by panicking"
)]

mod acp;
mod cli;
mod flow;
mod rooms;
