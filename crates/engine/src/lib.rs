//! The hands of `ftl`: the journal, the driver, processes, and what carries actions out.
//!
//! Order is everything here: append and sync, apply, act. Nothing in this crate decides what comes
//! next; `ftl-core` does. Nothing in this crate prints.

pub mod clock;
pub mod id;
pub mod process;
pub mod store;
