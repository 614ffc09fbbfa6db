//! What source text and a project's files say: symbols, frameworks, commands, findings about a change.
//!
//! Everything here is read and nothing is written; only a caller's own function runs a command. The crate never sees a
//! store, a plan, a campaign or an agent, and nothing in a repository may stop it: what cannot be read is left out.

pub mod commands;
pub mod context;
pub mod finding;
pub mod framework;
pub mod names;
