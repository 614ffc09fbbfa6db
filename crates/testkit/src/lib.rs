//! The adversary: what tests use against the engine. It is never part of the product.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "its callers are tests")]

pub mod campaign;
pub mod contract;
pub mod dice;
pub mod faults;
pub mod model_server;
pub mod mortal;
pub mod notes;
pub mod sim;
pub mod speakers;
pub mod stagehand;
pub mod world;
