//! Commands and agents that misbehave, each under a real guard. The promise: each limit fires on its own
//! and says so, and nothing that an attempt started is alive two seconds after it has ended.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod ends;
mod limits;
mod locks;
mod streams;
mod support;
mod trees;
