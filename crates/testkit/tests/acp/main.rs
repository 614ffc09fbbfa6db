//! The `acp` backend against an agent of our own that plays a part in a process of its own, and against
//! what real agents have said.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on fails by panicking, and its scripts are written where they are played"
)]

mod cast;
mod contract;
mod faults;
mod matching;
mod recorded;
mod resume;
mod terminals;
