//! What the settings say, with the file that said it: config, the environment of commands, agents and roles.
//!
//! Everything is checked when it is read, and an unknown key is an error with a hint. Nothing in here opens a run, starts
//! a process or speaks to an agent; the crate never sees a driver or an executor.

pub mod config;
pub mod environment;
pub mod home;
pub mod message;
pub mod origin;
pub mod prompts;
pub mod roster;
pub mod sandbox;
pub mod settings;
pub mod trust;
pub mod width;
