//! The hands of `ftl`: the journal, the driver, processes, and what carries actions out.
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
