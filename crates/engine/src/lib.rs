//! The engine of `ftl`: the driver of runs, the executors of actions, and the sessions that put them together.
//!
//! Order is everything here: append and sync, apply, act. Nothing in this crate decides what comes
//! next; `ftl-core` does. Nothing in this crate prints.

pub mod drive;
pub mod driver;
pub mod executors;
pub mod forge;
pub mod sandboxes;
pub mod services;
pub mod session;
