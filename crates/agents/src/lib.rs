//! Backends: the agents and models that answer a `Task(role)`, behind one contract.
//!
//! A backend opens sessions; a session takes turns in a folder. Whatever a backend lets us see goes to
//! one [`contract::SessionHost`]: every call of a tool is ruled on and every token is charged there. This crate
//! sees the core and nothing else of ours; it never prints, never touches a journal, and never starts a
//! process: commands go through the [`contract::CommandRunner`] that the engine hands in.

pub mod acp;
pub mod cli;
pub mod contract;
pub mod error;
pub mod gate;
pub mod launch;
pub mod mcp_endpoint;
pub mod model;
pub mod schema;
pub mod scripted;
pub mod secrets;
pub mod timing;
pub mod toolset;
pub mod variables;
